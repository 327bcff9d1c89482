/*
 * Strong accesses of memory: what releases at an address bring, and acquires
 * take, as far as the scopes of both reach (8.6 of the PTX ISA: morally strong).
 * Atomic operations hand on what was released before them; a store does not, for who
 * reads it has not observed what it overwrites (8.9.3 observation order).
 */
#include "between.h"

#include <stdlib.h>

/* What one CTA has released at one scope. */
struct entry {
	struct entry *next;
	uint64_t cluster;
	uint32_t rank;
	enum emu_scope scope;
	struct emu_clocks clocks;
};

struct place {
	uint64_t address; /* global, or window << 32 | shared address */
	struct entry *first;
};

struct emu_places {
	struct emu_index index; /* of struct place */
};

static void forget(struct place *place)
{
	for (struct entry *e = place->first, *next; e; e = next) {
		next = e->next;
		emu_clocks_free(&e->clocks);
		free(e);
	}
	place->first = NULL;
}

struct emu_places *emu_places_new(void)
{
	return calloc(1, sizeof(struct emu_places));
}

void emu_places_free(struct emu_places *places)
{
	if (!places)
		return;
	for (uint32_t i = 0; i < places->index.buckets; i++)
		if (places->index.items[i])
			forget(places->index.items[i]);
	emu_index_free(&places->index);
	free(places);
}

static struct emu_clocks *released(struct place *place, const struct emu_order *order,
				   enum emu_scope scope)
{
	uint64_t cluster = order->hazards->cluster->index;
	uint32_t rank = order->warp->cta->rank;
	struct entry *e;

	for (e = place->first; e; e = e->next)
		if (e->cluster == cluster && e->rank == rank && e->scope == scope)
			return &e->clocks;
	e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	*e = (struct entry){.next = place->first, .cluster = cluster, .rank = rank, .scope = scope};
	place->first = e;
	return &e->clocks;
}

/* The narrowest scope that holds both sides. */
static enum emu_scope distance(const struct entry *e, const struct emu_order *order)
{
	if (e->cluster != order->hazards->cluster->index)
		return EMU_SCOPE_GPU;
	return e->rank == order->warp->cta->rank ? EMU_SCOPE_CTA : EMU_SCOPE_CLUSTER;
}

static void hear(struct emu_clocks *to, const struct entry *e, const struct emu_order *order)
{
	uint64_t own = order->hazards->cluster->index;
	const struct emu_clock *clock;

	if (e->cluster == own) {
		emu_clocks_join(to, &e->clocks);
		return;
	}
	emu_known_add(&to->known, e->cluster, &e->clocks.clock[EMU_CLOCK_GENERIC],
		      &e->clocks.clock[EMU_CLOCK_ASYNC_GLOBAL]);
	emu_known_join(&to->known, e->clocks.known);
	clock = emu_known_of(e->clocks.known, own, false);
	if (clock)
		emu_clock_join(&to->clock[EMU_CLOCK_GENERIC], clock);
	clock = emu_known_of(e->clocks.known, own, true);
	if (clock)
		emu_clock_join(&to->clock[EMU_CLOCK_ASYNC_GLOBAL], clock);
}

static void read_at(struct emu_order *order, const struct place *place, unsigned semantics,
		    enum emu_scope scope)
{
	for (const struct entry *e = place->first; e; e = e->next) {
		enum emu_scope needed = distance(e, order);

		if (e->scope < needed || scope < needed)
			hear(&order->missed, e, order);
		else if ((semantics & EMU_ACQUIRE) != EMU_ACQUIRE)
			hear(&order->observed[needed], e, order);
		else if (needed < EMU_SCOPE_GPU)
			emu_order_acquire(order, &e->clocks);
		else
			hear(&order->now, e, order);
	}
}

static void write_at(struct emu_order *order, struct place *place, unsigned semantics,
		     enum emu_scope scope)
{
	struct emu_clocks *to;

	if ((semantics & EMU_RELEASE) == EMU_RELEASE) {
		to = released(place, order, scope);
		if (to)
			emu_order_release(order, to);
		return;
	}
	/* A fence before a relaxed write reaches as far as both. */
	for (int s = EMU_SCOPE_CTA; s <= (int)scope; s++) {
		if (!order->fenced[s].clock[EMU_CLOCK_GENERIC].count)
			continue;
		to = released(place, order, (enum emu_scope)s);
		if (to)
			emu_clocks_join(to, &order->fenced[s]);
	}
}

/* Whether a write leaves anything for who reads it. */
static bool releases(const struct emu_order *order, unsigned semantics, enum emu_scope scope)
{
	if ((semantics & EMU_RELEASE) == EMU_RELEASE)
		return true;
	for (int s = EMU_SCOPE_CTA; s <= (int)scope; s++)
		if (order->fenced[s].clock[EMU_CLOCK_GENERIC].count)
			return true;
	return false;
}

bool emu_strong_idle(const struct emu_order *order, const struct emu_places *places,
		     unsigned semantics, enum emu_scope scope, enum emu_access_kind kind)
{
	return !places->index.count && (kind == EMU_READ || !releases(order, semantics, scope));
}

void emu_strong_access(struct emu_order *order, struct emu_places *places, uint64_t address,
		       unsigned semantics, enum emu_scope scope, enum emu_access_kind kind)
{
	struct place *place = kind != EMU_READ && releases(order, semantics, scope)
				      ? emu_index_at(&places->index, address, sizeof *place)
				      : emu_index_find(&places->index, address);

	if (!place)
		return;
	if (kind != EMU_WRITE)
		read_at(order, place, semantics, scope);
	else
		forget(place);
	if (kind != EMU_READ)
		write_at(order, place, semantics, scope);
}

/*
 * What clusters have done to global memory, cell by cell, for those that run
 * beside or behind them on the same host thread.  A cell remembers a write, those
 * of other bytes in a list, a read, and a set of further ones: an entry is replaced
 * only by one of the same bytes that comes behind it, or of the same warp in the
 * same epoch.
 */
#include "between.h"

#include <stdlib.h>

struct more {
	struct emu_touch touch;
	uint32_t next;
};

/* The sites of a cluster: its own while it runs, handed over when it ends. */
struct ended {
	struct emu_site *sites;
	const struct emu_hazards *running;
};

struct emu_between {
	struct emu_places *places;
	struct emu_index pages; /* of struct emu_between_page */
	struct emu_pool more;   /* writes */
	struct emu_readers *readers;
	struct ended *clusters;
	uint64_t cluster_room;
	struct emu_footprints *footprints;
};

bool emu_between_init(struct emu_grid *grid)
{
	struct emu_between *b = calloc(1, sizeof *b);

	grid->between = b;
	if (!b)
		return false;
	b->more.size = sizeof(struct more);
	b->places = emu_places_new();
	b->readers = emu_readers_new();
	return b->places && b->readers;
}

void emu_between_free(struct emu_grid *grid)
{
	struct emu_between *b = grid->between;

	if (!b)
		return;
	emu_places_free(b->places);
	emu_readers_free(b->readers);
	emu_index_free(&b->pages);
	for (uint64_t i = 0; i < b->cluster_room; i++)
		free(b->clusters[i].sites);
	free(b->more.items);
	free(b->clusters);
	free(b);
	grid->between = NULL;
}

struct emu_places *emu_between_places(struct emu_between *between)
{
	return between->places;
}

struct emu_footprints **emu_between_footprints(struct emu_between *between)
{
	return &between->footprints;
}

/* ---- sites ------------------------------------------------------------------------- */

static struct ended *ended(struct emu_between *b, uint64_t cluster)
{
	uint64_t room = b->cluster_room ? b->cluster_room : 64;
	struct ended *grown;

	if (cluster < b->cluster_room)
		return &b->clusters[cluster];
	while (room <= cluster)
		room *= 2;
	grown = realloc(b->clusters, room * sizeof *grown);
	if (!grown)
		return NULL;
	memset(grown + b->cluster_room, 0, (room - b->cluster_room) * sizeof *grown);
	b->clusters = grown;
	b->cluster_room = room;
	return &b->clusters[cluster];
}

void emu_between_ends(struct emu_hazards *hazards)
{
	struct emu_between *b = hazards->cluster->grid->between;
	uint64_t cluster = hazards->cluster->index;

	if (!b || cluster >= b->cluster_room || b->clusters[cluster].running != hazards)
		return;
	b->clusters[cluster] = (struct ended){.sites = hazards->sites};
	hazards->sites = NULL;
}

static const struct emu_site *site_of(const struct emu_between *b, const struct emu_touch *t)
{
	const struct ended *e = &b->clusters[t->cluster - 1];

	return t->site ? &(e->running ? e->running->sites : e->sites)[t->site - 1] : NULL;
}

/* ---- one cell -------------------------------------------------------------------------- */

static void judge(struct emu_between_check *c, const struct emu_touch *earlier, bool write)
{
	struct emu_access *a = c->access;
	const struct emu_clock *clock;
	struct emu_foreign foreign;

	if (!earlier->cluster || earlier->cluster == c->touch.cluster ||
	    !(earlier->bytes & c->touch.bytes) || (!write && !a->write) ||
	    (a->atomic && a->scope == EMU_SCOPE_GPU && earlier->scope == EMU_SCOPE_GPU) ||
	    (a->same && earlier->kind == EMU_ACTOR_WARP))
		return;
	clock = emu_known_of(a->order->now.known, earlier->cluster - 1, write && a->proxy);
	if (clock && emu_clock_at(clock, earlier->who) >= earlier->epoch)
		return;
	foreign = (struct emu_foreign){.site = site_of(c->between, earlier),
				       .cluster = earlier->cluster - 1,
				       .moment = {earlier->who, earlier->epoch},
				       .kind = earlier->kind,
				       .scope = earlier->scope,
				       .write = write};
	emu_report_foreign(a, &foreign, &c->spot);
}

static struct more *more_at(const struct emu_between *b, uint32_t index)
{
	return emu_pool_at(&b->more, index);
}

static void drop(struct emu_between *b, uint32_t *link)
{
	uint32_t index = *link;

	*link = more_at(b, index)->next;
	emu_pool_give(&b->more, index);
}

/* The write that stands in the cell goes to the list. */
static void push(struct emu_between *b, struct emu_between_cell *cell)
{
	uint32_t index = emu_pool_take(&b->more);

	if (!index)
		return;
	*more_at(b, index) = (struct more){cell->write, cell->writes};
	cell->writes = index;
}

static bool covered(const struct emu_touch *old, uint16_t bytes)
{
	return !(old->bytes & ~bytes & 0xffff);
}

static bool again(const struct emu_touch *now, const struct emu_touch *old)
{
	return old->cluster == now->cluster && old->who == now->who && old->epoch == now->epoch;
}

static void leave_write(struct emu_between_check *c, struct emu_between_cell *cell)
{
	struct emu_touch now = c->touch;

	if (again(&now, &cell->write))
		now.bytes |= cell->write.bytes;
	else if (cell->write.cluster && !covered(&cell->write, now.bytes))
		push(c->between, cell);
	cell->write = now;
	for (uint32_t *link = &cell->writes; *link;) {
		struct more *m = more_at(c->between, *link);

		if (covered(&m->touch, now.bytes))
			drop(c->between, link);
		else
			link = &m->next;
	}
	/* Reads of what is written now have been looked at. */
	if (covered(&cell->read, now.bytes))
		cell->read.cluster = 0;
	cell->readers = emu_readers_without(c->between->readers, cell->readers, now.bytes);
}

static void leave_read(struct emu_between_check *c, struct emu_between_cell *cell)
{
	const struct emu_order *order = c->access->order;
	struct emu_touch now = c->touch;

	if (again(&now, &cell->read)) {
		now.bytes |= cell->read.bytes;
	} else if (cell->read.cluster && !emu_readers_covers(order, &now, &cell->read)) {
		cell->readers = emu_readers_add(c->between->readers, cell->readers, &now, order);
		return;
	}
	cell->read = now;
}

bool emu_between_joins(struct emu_hazards *h)
{
	struct ended *e = ended(h->cluster->grid->between, h->cluster->index);

	if (e)
		e->running = h;
	h->joined = e;
	return e;
}

static void check_cell(struct emu_between_check *c, struct emu_between_cell *cell)
{
	uint32_t readers = cell->readers;
	const struct emu_touch *read;

	judge(c, &cell->write, true);
	for (uint32_t i = cell->writes; i; i = more_at(c->between, i)->next)
		judge(c, &more_at(c->between, i)->touch, true);
	if (!c->access->write) {
		leave_read(c, cell);
		return;
	}
	judge(c, &cell->read, false);
	while ((read = emu_readers_next(c->between->readers, &readers)))
		judge(c, read, false);
	leave_write(c, cell);
}

bool emu_between_page_of(struct emu_between *between, struct emu_page *page)
{
	page->between = emu_index_at(&between->pages, page->number, sizeof *page->between);
	return page->between;
}

void emu_between_look(struct emu_between_check *c, struct emu_between_cell *cell, uint64_t address)
{
	c->spot = (struct emu_spot){.space = EMU_GLOBAL,
				    .address = address,
				    .size = (uint32_t)__builtin_popcount(c->touch.bytes)};
	check_cell(c, cell);
}

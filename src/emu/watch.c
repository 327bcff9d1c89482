/* Accesses that instructions make: whose they are, and what strong ones synchronise. */
#include "hazard.h"

#include <stdlib.h>

/* ---- whose an access is ------------------------------------------------------------- */

struct emu_access emu_access_by_warp(struct emu_order *order, int lane, enum emu_access_kind kind,
				     bool atomic)
{
	return (struct emu_access){.order = order,
				   .moment = emu_moment_of(order, EMU_ACTOR_WARP, 0),
				   .kind = EMU_ACTOR_WARP,
				   .lane = lane < 0 ? EMU_ANY_LANE : (uint8_t)lane,
				   .write = kind != EMU_READ,
				   .defined = kind != EMU_WRITE,
				   .atomic = atomic,
				   .in_order = true,
				   .site = emu_site_of(order)};
}

/* Copies that an mbarrier counts, and bulk copies, have no order among themselves. */
static bool keeps_order(enum emu_actor_kind actor)
{
	return actor == EMU_ACTOR_MMA || actor == EMU_ACTOR_WGMMA || actor == EMU_ACTOR_TMEM_LOAD ||
	       actor == EMU_ACTOR_TMEM_STORE || actor == EMU_ACTOR_CP_ASYNC;
}

struct emu_access emu_access_by(struct emu_order *order, enum emu_actor_kind actor, int lane,
				struct emu_moment moment, enum emu_access_kind kind)
{
	struct emu_access access = {.order = order,
				    .moment = moment,
				    .kind = (uint8_t)actor,
				    .lane = lane < 0 ? EMU_ANY_LANE : (uint8_t)lane,
				    .write = kind != EMU_READ,
				    .defined = kind != EMU_WRITE,
				    .atomic = kind == EMU_UPDATE,
				    .in_order = keeps_order(actor),
				    .proxy = actor != EMU_ACTOR_CP_ASYNC,
				    .site = emu_site_of(order)};

	if (actor == EMU_ACTOR_TMEM_LOAD)
		access.also = order->tmem_store;
	if (actor == EMU_ACTOR_TMEM_STORE)
		access.also = order->tmem_load;
	return access;
}

/* ---- strong accesses ------------------------------------------------------------------ */

static uint32_t location_hash(uint64_t address)
{
	return (uint32_t)((address * 0x9e3779b97f4a7c15ull) >> 36);
}

static bool more_locations(struct emu_hazards *h)
{
	uint32_t buckets = h->location_buckets ? 2 * h->location_buckets : 64;
	struct emu_strong_place *locations = calloc(buckets, sizeof *locations);

	if (!locations)
		return false;
	for (uint32_t i = 0; i < h->location_buckets; i++) {
		uint32_t at;

		if (!h->locations[i].address)
			continue;
		at = location_hash(h->locations[i].address) & (buckets - 1);
		while (locations[at].address)
			at = (at + 1) & (buckets - 1);
		locations[at] = h->locations[i];
	}
	free(h->locations);
	h->locations = locations;
	h->location_buckets = buckets;
	return true;
}

struct emu_clocks *emu_location_of(struct emu_hazards *h, uint64_t address)
{
	uint32_t at;

	if (2 * h->location_count >= h->location_buckets && !more_locations(h))
		return NULL;
	at = location_hash(address) & (h->location_buckets - 1);
	while (h->locations[at].address && h->locations[at].address != address)
		at = (at + 1) & (h->location_buckets - 1);
	if (!h->locations[at].address)
		h->location_count++;
	h->locations[at].address = address;
	return &h->locations[at].clocks;
}

static void synchronise(struct emu_order *order, unsigned semantics, uint64_t address,
			enum emu_access_kind kind)
{
	struct emu_clocks *at = emu_location_of(order->hazards, address);

	if (!at)
		return;
	if (kind != EMU_WRITE) {
		if ((semantics & EMU_ACQUIRE) == EMU_ACQUIRE)
			emu_order_acquire(order, at);
		else
			emu_clocks_join(&order->observed, at);
	}
	if (kind != EMU_READ) {
		if ((semantics & EMU_RELEASE) == EMU_RELEASE)
			emu_order_release(order, at);
		else
			emu_clocks_join(at, &order->fenced);
	}
}

/* ---- generic accesses --------------------------------------------------------------------- */

static void one(struct emu_access *access, enum emu_space space, uint64_t address, uint32_t size,
		unsigned semantics, enum emu_access_kind kind)
{
	struct emu_order *order = access->order;
	struct emu_cta *owner;
	uint32_t offset;

	if (space == EMU_GENERIC)
		space = emu_generic_space(&address);
	if (space == EMU_GLOBAL) {
		if (semantics) {
			order->hazards->communicates = true;
			synchronise(order, semantics, address, kind);
		}
		emu_access_global(access, address, size);
		return;
	}
	if (space != EMU_SHARED && space != EMU_SHARED_CLUSTER)
		return;
	owner = emu_shared_owner(order->warp->cta, (uint32_t)address);
	offset = ((uint32_t)address & EMU_SHARED_MASK) - EMU_SHARED_BASE;
	if (!owner)
		return;
	if (semantics)
		synchronise(order, semantics, EMU_WINDOW_SHARED | (uint32_t)address, kind);
	emu_access_shared(access, owner, offset, size);
}

void emu_watch_lanes(struct emu_warp *warp, const struct emu_ins *ins, const uint64_t *address,
		     uint32_t mask, uint32_t same, uint32_t size, enum emu_access_kind kind)
{
	enum emu_space space = (enum emu_space)ins->space;
	struct emu_access access =
		emu_access_by_warp(warp->order, 0, kind, ins->semantics != EMU_WEAK);

	EMU_FOR_LANES(l, mask)
	{
		access.lane = (uint8_t)l;
		access.same = same >> l & 1;
		one(&access, space, address[l], size, ins->semantics, kind);
	}
}

void emu_watch_one(struct emu_warp *warp, int lane, enum emu_space space, uint64_t address,
		   uint32_t size, enum emu_access_kind kind)
{
	struct emu_access access = emu_access_by_warp(warp->order, lane, kind, false);

	if (space == EMU_SHARED || space == EMU_SHARED_CLUSTER)
		address = (uint32_t)address;
	one(&access, space, address, size, EMU_WEAK, kind);
}

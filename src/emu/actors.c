/* Who acts in a cluster, at which instructions, and what is kept of them. */
#include "between.h"
#include "later.h"
#include "timeline.h"
#include "units.h"

#include <stdlib.h>

enum {
	max_actors = 65535
};

/* ---- actors --------------------------------------------------------------------- */

/* Its number; 0, for which nothing is checked, when there are too many. */
uint16_t emu_add_actor(struct emu_hazards *h, struct emu_actor actor)
{
	if (h->actor_count >= max_actors)
		return 0;
	if (h->actor_count == h->actor_room) {
		uint32_t room = h->actor_room ? 2 * h->actor_room : 64;
		struct emu_actor *actors = realloc(h->actors, room * sizeof *actors);

		if (!actors)
			return 0;
		h->actors = actors;
		h->actor_room = room;
	}
	h->actors[h->actor_count] = actor;
	return (uint16_t)h->actor_count++;
}

static uint16_t actor_of(struct emu_order *order, uint16_t *number, enum emu_actor_kind kind,
			 int lane)
{
	if (!*number)
		*number = emu_add_actor(order->hazards, (struct emu_actor){.kind = (uint8_t)kind,
									   .lane = (uint8_t)lane,
									   .order = order});
	return *number;
}

struct emu_moment emu_moment_of(struct emu_order *order, enum emu_actor_kind kind, int lane)
{
	struct emu_order *group = order - (order->warp->index & 3);

	switch (kind) {
	case EMU_ACTOR_MMA:
		return (struct emu_moment){actor_of(order, &order->mma[lane], kind, lane),
					   order->mma_issued[lane] + 1};
	case EMU_ACTOR_WGMMA:
		return (struct emu_moment){actor_of(group, &group->wgmma, kind, 0), 0};
	case EMU_ACTOR_BULK_READ:
		return (struct emu_moment){actor_of(order, &order->bulk_read[lane], kind, lane),
					   order->bulk_committed[lane] + 1};
	case EMU_ACTOR_BULK_WRITE:
		return (struct emu_moment){actor_of(order, &order->bulk_write[lane], kind, lane),
					   order->bulk_committed[lane] + 1};
	case EMU_ACTOR_CP_ASYNC:
		return (struct emu_moment){actor_of(order, &order->copies, kind, 0), 0};
	case EMU_ACTOR_TMEM_LOAD:
		return (struct emu_moment){actor_of(order, &order->tmem_load, kind, 0),
					   order->tmem_loaded + 1};
	case EMU_ACTOR_TMEM_STORE:
		return (struct emu_moment){actor_of(order, &order->tmem_store, kind, 0),
					   order->tmem_stored + 1};
	default:
		return (struct emu_moment){
			order->self,
			emu_clock_at(&order->now.clock[EMU_CLOCK_GENERIC], order->self)};
	}
}

void emu_mma_issued(struct emu_order *order, int lane)
{
	order->mma_issued[lane]++;
}

void emu_bulk_issued(struct emu_order *order, int lane)
{
	order->bulk_issued[lane] = order->bulk_committed[lane] + 1;
	order->bulk_site[lane] = emu_site_of(order);
}

static struct emu_wgmma_needs *needs_of(struct emu_order *order, uint64_t number)
{
	struct emu_order *group = order - (order->warp->index & 3);

	if (!group->wgmma_needs)
		group->wgmma_needs = calloc(EMU_RECENT_WGMMAS, sizeof *group->wgmma_needs);
	return group->wgmma_needs ? &group->wgmma_needs[number % EMU_RECENT_WGMMAS] : NULL;
}

bool emu_wgmma_seen(struct emu_order *order, uint64_t number)
{
	const struct emu_clock *now = &order->now.clock[EMU_CLOCK_ASYNC_SHARED];
	struct emu_wgmma_needs *needs = needs_of(order, number);
	bool seen = needs && needs->number == number && !needs->more;

	for (int i = 0; seen && i < 2; i++)
		seen = emu_clock_at(now, needs->of[i].who) >= needs->of[i].epoch;
	if (needs && !seen)
		*needs = (struct emu_wgmma_needs){.number = number};
	return seen;
}

void emu_wgmma_needs(struct emu_order *order, uint64_t number, int operand,
		     struct emu_access *access)
{
	struct emu_wgmma_needs *needs = needs_of(order, number);

	if (needs) {
		needs->of[operand] =
			(struct emu_moment){access->ordered_who, access->ordered_epoch};
		needs->more |= access->ordered_others || access->reported;
	}
	access->ordered_who = 0;
	access->ordered_epoch = 0;
	access->ordered_others = false;
}

static void check_exit(const struct emu_order *order, int lane)
{
	const struct emu_site *site = &order->hazards->sites[order->bulk_site[lane] - 1];
	struct emu_where where = {.grid = order->warp->grid,
				  .ins = site->ins,
				  .function = site->function,
				  .warp = order->warp->index,
				  .lane = lane};

	memcpy(where.cta, site->cta, sizeof where.cta);
	if (emu_clock_at(&order->now.clock[EMU_CLOCK_GENERIC], order->bulk_read[lane]) <
	    order->bulk_issued[lane])
		emu_report_rule(&where, EMU_RULE_BULK_AT_EXIT, NULL, "issued by lane %d", lane);
}

void emu_hazards_cta_exit(const struct emu_cta *cta)
{
	if (cta->cluster->hazards->timeline)
		emu_timeline_cta_exit(cta);
	for (uint32_t w = 0; w < cta->warp_count; w++)
		for (int lane = 0; lane < EMU_LANES; lane++)
			if (cta->warps[w]->order->bulk_site[lane])
				check_exit(cta->warps[w]->order, lane);
}

/* ---- sites -------------------------------------------------------------------------- */

static uint32_t site_hash(const struct emu_ins *ins, uint32_t key)
{
	uint64_t value = ((uint64_t)(uintptr_t)ins >> 4) * 0x9e3779b97f4a7c15ull + key;

	return (uint32_t)((value * 0xff51afd7ed558ccdull) >> 32);
}

static bool more_sites(struct emu_hazards *h)
{
	uint32_t buckets = h->site_buckets ? 2 * h->site_buckets : 1024;
	uint32_t *table = calloc(buckets, sizeof *table);

	if (!table)
		return false;
	for (uint32_t i = 0; i < h->site_count; i++) {
		uint32_t at = site_hash(h->sites[i].ins, h->sites[i].key) & (buckets - 1);

		while (table[at])
			at = (at + 1) & (buckets - 1);
		table[at] = i + 1;
	}
	free(h->site_table);
	h->site_table = table;
	h->site_buckets = buckets;
	return true;
}

static bool room_for_site(struct emu_hazards *h)
{
	uint32_t room = h->site_room ? 2 * h->site_room : 256;
	struct emu_site *sites;

	if (h->site_count < h->site_room)
		return true;
	sites = realloc(h->sites, room * sizeof *sites);
	if (!sites)
		return false;
	h->sites = sites;
	h->site_room = room;
	return true;
}

/* 1 + index; 0, which names nobody, without memory. */
static uint32_t site_of(struct emu_order *order)
{
	struct emu_hazards *h = order->hazards;
	const struct emu_warp *warp = order->warp;
	uint32_t at;

	if (2 * h->site_count >= h->site_buckets && !more_sites(h))
		return 0;
	at = site_hash(warp->ins, order->self) & (h->site_buckets - 1);
	for (; h->site_table[at]; at = (at + 1) & (h->site_buckets - 1)) {
		const struct emu_site *site = &h->sites[h->site_table[at] - 1];

		if (site->ins == warp->ins && site->key == order->self)
			return h->site_table[at];
	}
	if (!room_for_site(h))
		return 0;
	struct emu_site *site = &h->sites[h->site_count++];

	*site = (struct emu_site){.ins = warp->ins,
				  .function = warp->frame ? warp->frame->function : NULL,
				  .warp = warp->index,
				  .key = order->self};
	memcpy(site->cta, warp->cta->id, sizeof site->cta);
	h->site_table[at] = h->site_count;
	return h->site_count;
}

uint32_t emu_site_found(struct emu_order *order)
{
	const struct emu_ins *ins = order->warp->ins;
	uint32_t slot = (uint32_t)((uintptr_t)ins / sizeof *ins) % EMU_RECENT_SITES;

	order->recent[slot].ins = ins;
	order->recent[slot].site = site_of(order);
	return order->recent[slot].site;
}

/* ---- the state of a cluster ----------------------------------------------------------- */

static bool init_cta(struct emu_cta_hazards *h, const struct emu_cta *cta)
{
	size_t blocks = cta->shared_bytes / EMU_BLOCK_BYTES + 1;

	/* Others in the cluster may write whenever they like. */
	h->at_once = cta->cluster->cta_count > 1;
	h->blocks = calloc(blocks, sizeof *h->blocks);
	h->swizzles = calloc(blocks, EMU_BLOCK_CELLS);
	return h->blocks && h->swizzles;
}

static bool init_order(struct emu_hazards *h, struct emu_warp *warp, struct emu_order *order)
{
	order->warp = warp;
	order->hazards = h;
	order->self = emu_add_actor(h, (struct emu_actor){.kind = EMU_ACTOR_WARP, .order = order});
	warp->order = order;
	emu_clock_raise(&order->now.clock[EMU_CLOCK_GENERIC], order->self, 1);
	return order->self && order->now.clock[EMU_CLOCK_GENERIC].count;
}

bool emu_hazards_init(struct emu_cluster *cluster)
{
	struct emu_hazards *h = calloc(1, sizeof *h);
	uint32_t warps = cluster->grid->warp_count;

	cluster->hazards = h;
	if (!h)
		return false;
	h->cluster = cluster;
	h->marks.size = sizeof(struct emu_mark);
	h->units.size = sizeof(struct emu_units);
	h->cells.size = sizeof(struct emu_cells);
	h->words.size = sizeof(struct emu_words);
	h->readers.size = sizeof(struct emu_reader);
	h->timeline = cluster->grid->launch->trace;
	h->order_count = warps * (uint32_t)cluster->cta_count;
	/* The group of a warp begins at a multiple of four in its CTA. */
	h->orders = calloc(h->order_count, sizeof *h->orders);
	h->ctas = calloc((size_t)cluster->cta_count, sizeof *h->ctas);
	h->places = emu_places_new();
	emu_add_actor(h, (struct emu_actor){.kind = EMU_ACTOR_NONE});
	if (!h->orders || !h->ctas || !h->places || !h->actor_count)
		return false;
	for (int c = 0; c < cluster->cta_count; c++) {
		if (!init_cta(&h->ctas[c], cluster->ctas[c]))
			return false;
		for (uint32_t w = 0; w < warps; w++)
			if (!init_order(h, cluster->ctas[c]->warps[w],
					&h->orders[(uint32_t)c * warps + w]))
				return false;
	}
	return true;
}

static void free_order(struct emu_order *order)
{
	emu_clocks_free(&order->now);
	emu_clocks_free(&order->missed);
	for (int s = 0; s < EMU_SCOPE_COUNT; s++) {
		emu_clocks_free(&order->fenced[s]);
		emu_clocks_free(&order->observed[s]);
	}
	free(order->before.at);
	free(order->wgmma_needs);
	free(order->after.at);
	emu_pending_free(order->pending);
	emu_taint_free(order->taint);
	if (order->warp)
		order->warp->order = NULL;
}

static void free_cta(struct emu_cta_hazards *h)
{
	emu_later_free(h);
	free(h->blocks);
	free(h->swizzles);
	free(h->tmem);
	for (uint32_t i = 0; i < h->barrier_room; i++)
		if (h->barriers[i]) {
			emu_sync_free(&h->barriers[i]->sync);
			free(h->barriers[i]);
		}
	free(h->barriers);
	for (int i = 0; i < EMU_NAMED_BARRIERS; i++)
		emu_sync_free(&h->named[i]);
}

void emu_hazards_free(struct emu_cluster *cluster)
{
	struct emu_hazards *h = cluster->hazards;

	if (!h)
		return;
	if (cluster->grid->between && *emu_between_footprints(cluster->grid->between))
		cluster->worker->footprint = emu_footprint_take(cluster);
	emu_between_ends(h);
	for (uint32_t i = 0; h->orders && i < h->order_count; i++)
		free_order(&h->orders[i]);
	for (int c = 0; h->ctas && c < cluster->cta_count; c++)
		free_cta(&h->ctas[c]);
	emu_index_free(&h->pages);
	emu_operands_free(h);
	emu_places_free(h->places);
	emu_sync_free(&h->barrier);
	free(h->orders);
	free(h->ctas);
	free(h->actors);
	free(h->sites);
	free(h->site_table);
	free(h->marks.items);
	free(h->units.items);
	emu_notes_free(&h->notes);
	free(h->cells.items);
	free(h->words.items);
	free(h->readers.items);
	free(h);
	cluster->hazards = NULL;
}

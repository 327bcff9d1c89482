/* Clocks, and the events that carry them from one actor to another. */
#include "between.h"
#include "timeline.h"

#include <stdlib.h>

enum {
	max_actors = 65535
};

/* ---- clocks -------------------------------------------------------------------- */

static bool reach(struct emu_clock *clock, uint32_t count)
{
	uint32_t room = (count + 31) & ~31u;
	uint32_t *at;

	if (count <= clock->count)
		return true;
	at = realloc(clock->at, room * sizeof *at);
	if (!at)
		return false;
	memset(at + clock->count, 0, (room - clock->count) * sizeof *at);
	clock->at = at;
	clock->count = room;
	return true;
}

static void raise(struct emu_clock *clock, uint16_t who, uint32_t epoch)
{
	if (who && reach(clock, who + 1u) && clock->at[who] < epoch)
		clock->at[who] = epoch;
}

void emu_clock_join(struct emu_clock *to, const struct emu_clock *from)
{
	if (!from->count || !reach(to, from->count))
		return;
	for (uint32_t i = 0; i < from->count; i++)
		to->at[i] = to->at[i] > from->at[i] ? to->at[i] : from->at[i];
}

static void clear(struct emu_clock *clock)
{
	if (clock->count)
		memset(clock->at, 0, clock->count * sizeof *clock->at);
}

static void join_time(struct emu_clocks *to, double time)
{
	to->time = to->time > time ? to->time : time;
}

void emu_clocks_join(struct emu_clocks *to, const struct emu_clocks *from)
{
	for (int i = 0; i < EMU_CLOCK_COUNT; i++)
		emu_clock_join(&to->clock[i], &from->clock[i]);
	emu_known_join(&to->known, from->known);
	join_time(to, from->time);
}

static void raise_all(struct emu_clocks *clocks, uint16_t who, uint32_t epoch)
{
	for (int i = 0; i < EMU_CLOCK_MAP_RELEASED; i++)
		raise(&clocks->clock[i], who, epoch);
}

void emu_clocks_free(struct emu_clocks *clocks)
{
	for (int i = 0; i < EMU_CLOCK_COUNT; i++)
		free(clocks->clock[i].at);
	emu_known_drop(clocks->known);
}

/* The running phase is complete. */
static void flip(struct emu_sync *sync)
{
	struct emu_clocks old = sync->done;

	sync->done = sync->running;
	sync->running = old;
	for (int i = 0; i < EMU_CLOCK_COUNT; i++)
		clear(&sync->running.clock[i]);
	emu_known_drop(sync->running.known);
	sync->running.known = NULL;
	sync->running.time = 0;
}

static void free_sync(struct emu_sync *sync)
{
	emu_clocks_free(&sync->running);
	emu_clocks_free(&sync->done);
}

/* ---- actors --------------------------------------------------------------------- */

/* Its number; 0, for which nothing is checked, when there are too many. */
static uint16_t add_actor(struct emu_hazards *h, struct emu_actor actor)
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
		*number = add_actor(order->hazards, (struct emu_actor){.kind = (uint8_t)kind,
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

bool emu_wgmma_seen(struct emu_order *order, uint64_t number)
{
	struct emu_order *group = order - (order->warp->index & 3);
	const struct emu_clock *now = &order->now.clock[EMU_CLOCK_ASYNC_SHARED];
	struct emu_clock *knew = &group->wgmma_knew;
	bool seen = group->wgmma_seen == number;

	for (uint32_t i = 0; seen && i < knew->count; i++)
		seen = knew->at[i] <= emu_clock_at(now, (uint16_t)i);
	if (seen)
		return true;
	clear(knew);
	emu_clock_join(knew, now);
	group->wgmma_seen = number;
	return false;
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

/* ---- the state of a cluster ----------------------------------------------------------- */

static bool init_cta(struct emu_cta_hazards *h, const struct emu_cta *cta)
{
	size_t cells = (cta->shared_bytes + EMU_CELL_BYTES - 1) / EMU_CELL_BYTES + 1;

	h->cells = calloc(cells, sizeof *h->cells);
	h->swizzles = calloc(cells, sizeof *h->swizzles);
	return h->cells && h->swizzles;
}

static bool init_order(struct emu_hazards *h, struct emu_warp *warp, struct emu_order *order)
{
	order->warp = warp;
	order->hazards = h;
	order->self = add_actor(h, (struct emu_actor){.kind = EMU_ACTOR_WARP, .order = order});
	warp->order = order;
	raise(&order->now.clock[EMU_CLOCK_GENERIC], order->self, 1);
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
	h->timeline = cluster->grid->launch->trace;
	h->order_count = warps * (uint32_t)cluster->cta_count;
	/* The group of a warp begins at a multiple of four in its CTA. */
	h->orders = calloc(h->order_count, sizeof *h->orders);
	h->ctas = calloc((size_t)cluster->cta_count, sizeof *h->ctas);
	h->places = emu_places_new();
	add_actor(h, (struct emu_actor){.kind = EMU_ACTOR_NONE});
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
	free(order->wgmma_knew.at);
	free(order->after.at);
	emu_pending_free(order->pending);
	emu_taint_free(order->taint);
}

static void free_cta(struct emu_cta_hazards *h)
{
	free(h->cells);
	free(h->swizzles);
	free(h->tmem);
	for (uint32_t i = 0; i < h->barrier_room; i++)
		if (h->barriers[i]) {
			free_sync(&h->barriers[i]->sync);
			free(h->barriers[i]);
		}
	free(h->barriers);
	for (int i = 0; i < EMU_NAMED_BARRIERS; i++)
		free_sync(&h->named[i]);
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
	for (uint32_t i = 0; i < h->page_buckets; i++)
		free(h->pages[i]);
	emu_places_free(h->places);
	free_sync(&h->barrier);
	free(h->orders);
	free(h->ctas);
	free(h->actors);
	free(h->sites);
	free(h->site_table);
	free(h->words);
	free(h->readers);
	free(h->pages);
	free(h);
	cluster->hazards = NULL;
}

/* ---- fences ------------------------------------------------------------------------------ */

static void tick(struct emu_order *order)
{
	order->now.clock[EMU_CLOCK_GENERIC].at[order->self]++;
}

void emu_order_warp(struct emu_order *order)
{
	tick(order);
}

void emu_order_proxy_fence(struct emu_order *order, bool shared, bool global)
{
	if (shared)
		emu_clock_join(&order->now.clock[EMU_CLOCK_ASYNC_SHARED],
			       &order->now.clock[EMU_CLOCK_GENERIC]);
	if (global) {
		emu_clock_join(&order->now.clock[EMU_CLOCK_ASYNC_GLOBAL],
			       &order->now.clock[EMU_CLOCK_GENERIC]);
		emu_known_fence(&order->now.known);
	}
	tick(order);
}

void emu_order_thread_fence(struct emu_order *order, enum emu_scope scope)
{
	for (int s = EMU_SCOPE_CTA; s <= (int)scope; s++)
		emu_clocks_join(&order->now, &order->observed[s]);
	for (int s = EMU_SCOPE_CTA; s <= (int)scope; s++)
		emu_clocks_join(&order->fenced[s], &order->now);
	tick(order);
}

void emu_order_tensormap_fence(struct emu_order *order, bool acquire)
{
	struct emu_clock *clocks = order->now.clock;

	if (acquire)
		emu_clock_join(&clocks[EMU_CLOCK_MAP], &clocks[EMU_CLOCK_MAP_RELEASED]);
	else
		emu_clock_join(&clocks[EMU_CLOCK_MAP_RELEASED], &clocks[EMU_CLOCK_GENERIC]);
	tick(order);
}

void emu_order_tcgen05_fence(struct emu_order *order, bool after)
{
	struct emu_clock *fenced = &order->now.clock[EMU_CLOCK_FENCED];

	if (after)
		emu_clock_join(fenced, &order->after);
	else
		emu_clock_join(&order->before, fenced);
}

static const char *const waits[EMU_ACTOR_KINDS] = {
	[EMU_ACTOR_WGMMA] = "wait for wgmma",
	[EMU_ACTOR_BULK_READ] = "wait for bulk stores (.read)",
	[EMU_ACTOR_BULK_WRITE] = "wait for bulk stores",
	[EMU_ACTOR_TMEM_LOAD] = "wait for tcgen05.ld",
	[EMU_ACTOR_TMEM_STORE] = "wait for tcgen05.st",
};

static void wait_for_actor(struct emu_order *order, uint16_t who, uint32_t epoch)
{
	const char *what = waits[order->hazards->actors[who].kind];

	emu_timeline_wait(order, emu_timeline_end_of(order, who, epoch), NULL,
			  what ? what : "wait");
}

void emu_order_waited(struct emu_order *order, uint16_t who, uint32_t epoch)
{
	if (emu_timeline_on(order))
		wait_for_actor(order, who, epoch);
	raise_all(&order->now, who, epoch);
}

void emu_order_waited_generic(struct emu_order *order, uint16_t who, uint32_t epoch)
{
	raise(&order->now.clock[EMU_CLOCK_GENERIC], who, epoch);
}

/* ---- release and acquire ----------------------------------------------------------------------
 */

void emu_order_release(struct emu_order *order, struct emu_clocks *to)
{
	for (int i = 0; i < EMU_CLOCK_FENCED; i++)
		emu_clock_join(&to->clock[i], &order->now.clock[i]);
	emu_clock_join(&to->clock[EMU_CLOCK_FENCED], &order->before);
	emu_clock_join(&to->clock[EMU_CLOCK_MAP_RELEASED],
		       &order->now.clock[EMU_CLOCK_MAP_RELEASED]);
	emu_known_join(&to->known, order->now.known);
	join_time(to, order->time);
	tick(order);
}

void emu_order_acquire(struct emu_order *order, const struct emu_clocks *from)
{
	for (int i = 0; i < EMU_CLOCK_FENCED; i++)
		emu_clock_join(&order->now.clock[i], &from->clock[i]);
	emu_clock_join(&order->after, &from->clock[EMU_CLOCK_FENCED]);
	emu_clock_join(&order->now.clock[EMU_CLOCK_MAP_RELEASED],
		       &from->clock[EMU_CLOCK_MAP_RELEASED]);
	emu_known_join(&order->now.known, from->known);
}

/* ---- mbarriers
 * ------------------------------------------------------------------------------------ */

static struct emu_barrier_order *order_of(const struct emu_mbarrier *barrier)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(barrier->cta);

	if (barrier->index >= h->barrier_room) {
		uint32_t room = (barrier->index + 16) & ~15u;
		struct emu_barrier_order **barriers = realloc(h->barriers, room * sizeof *barriers);

		if (!barriers)
			return NULL;
		memset(barriers + h->barrier_room, 0, (room - h->barrier_room) * sizeof *barriers);
		h->barriers = barriers;
		h->barrier_room = room;
	}
	if (!h->barriers[barrier->index])
		h->barriers[barrier->index] = calloc(1, sizeof **h->barriers);
	return h->barriers[barrier->index];
}

void emu_timeline_lands(const struct emu_mbarrier *barrier, double end)
{
	struct emu_barrier_order *b = order_of(barrier);

	if (b)
		join_time(&b->sync.running, end);
}

/* A barrier made anew is another actor: its phases begin again. */
void emu_order_barrier_made(struct emu_order *order, const struct emu_mbarrier *barrier)
{
	struct emu_barrier_order *b = order_of(barrier);

	if (!b)
		return;
	free_sync(&b->sync);
	memset(b, 0, sizeof *b);
	b->made = emu_moment_of(order, EMU_ACTOR_WARP, 0);
	b->actor = add_actor(order->hazards,
			     (struct emu_actor){.kind = EMU_ACTOR_BARRIER, .barrier = barrier});
}

/* fence.mbarrier_init: for all that the warp has initialised. */
void emu_order_barrier_fence(struct emu_order *order)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(order->warp->cta);

	for (uint32_t i = 0; i < h->barrier_room; i++)
		if (h->barriers[i] && h->barriers[i]->made.who == order->self)
			h->barriers[i]->fenced = true;
}

void emu_order_barrier_used(struct emu_order *order, const struct emu_mbarrier *barrier)
{
	struct emu_barrier_order *b = order_of(barrier);
	struct emu_where where;

	if (b && !b->fenced && barrier->cta != order->warp->cta) {
		where = emu_here(order->warp, -1);
		emu_report_rule(
			&where, EMU_RULE_BARRIER_FENCE, barrier->made.ins,
			"mbarrier at shared address 0x%x of CTA rank %u, initialised at PTX "
			"line %u",
			EMU_SHARED_BASE + barrier->offset, barrier->cta->rank,
			barrier->made.ins->line);
		b->fenced = true;
	}
	if (!b || !b->made.who || b->made.who == order->self ||
	    emu_clock_at(&order->now.clock[EMU_CLOCK_GENERIC], b->made.who) >= b->made.epoch)
		return;
	where = emu_here(order->warp, -1);
	emu_report_rule(&where, EMU_RULE_BARRIER_INIT, barrier->made.ins,
			"mbarrier at shared address 0x%x of CTA rank %u, initialised by warp %d of "
			"CTA (%u,%u,%u) at PTX line %u",
			EMU_SHARED_BASE + barrier->offset, barrier->cta->rank, barrier->made.warp,
			barrier->made.cta[0], barrier->made.cta[1], barrier->made.cta[2],
			barrier->made.ins->line);
	b->made.who = 0;
}

struct emu_moment emu_moment_of_barrier(struct emu_order *order, const struct emu_mbarrier *barrier)
{
	struct emu_barrier_order *b = order_of(barrier);

	(void)order;
	return b ? (struct emu_moment){b->actor, (uint32_t)barrier->phase + 1}
		 : (struct emu_moment){0, 0};
}

void emu_order_barrier_arrive(struct emu_order *order, const struct emu_mbarrier *barrier,
			      bool relaxed)
{
	struct emu_barrier_order *b = order_of(barrier);

	if (b && !relaxed)
		emu_order_release(order, &b->sync.running);
	else if (b) {
		emu_clocks_join(
			&b->sync.running,
			&order->fenced[barrier->cta == order->warp->cta ? EMU_SCOPE_CTA
									: EMU_SCOPE_CLUSTER]);
		join_time(&b->sync.running, order->time);
	}
}

void emu_order_barrier_wait(struct emu_order *order, const struct emu_mbarrier *barrier,
			    bool relaxed)
{
	struct emu_barrier_order *b = order_of(barrier);

	if (b && !relaxed)
		emu_order_acquire(order, &b->sync.done);
	else if (b)
		emu_clocks_join(&order->observed[EMU_SCOPE_CTA], &b->sync.done);
	if (b && emu_timeline_on(order))
		emu_timeline_wait(order, b->sync.done.time, barrier, NULL);
}

void emu_order_barrier_phase(const struct emu_mbarrier *barrier, uint64_t phase)
{
	struct emu_barrier_order *b = order_of(barrier);

	if (!b)
		return;
	flip(&b->sync);
	raise_all(&b->sync.done, b->actor, (uint32_t)phase);
}

struct emu_clocks *emu_order_commit(struct emu_order *order, int lane)
{
	struct emu_clocks *clocks = calloc(1, sizeof *clocks);

	if (!clocks)
		return NULL;
	for (int i = 0; i < EMU_CLOCK_FENCED; i++)
		emu_clock_join(&clocks->clock[i], &order->now.clock[i]);
	/* A commit has the effect of tcgen05.fence::before_thread_sync. */
	emu_clock_join(&clocks->clock[EMU_CLOCK_FENCED], &order->now.clock[EMU_CLOCK_FENCED]);
	emu_known_join(&clocks->known, order->now.known);
	raise_all(clocks, order->mma[lane], order->mma_issued[lane]);
	if (emu_timeline_on(order))
		clocks->time = emu_timeline_commit(order);
	tick(order);
	return clocks;
}

void emu_order_commit_arrives(const struct emu_mbarrier *barrier, const struct emu_clocks *clocks)
{
	struct emu_barrier_order *b = order_of(barrier);

	if (b && clocks)
		emu_clocks_join(&b->sync.running, clocks);
}

void emu_order_copies_arrive(struct emu_order *order, const struct emu_mbarrier *barrier,
			     uint32_t group)
{
	struct emu_barrier_order *b = order_of(barrier);

	if (b)
		raise(&b->sync.running.clock[EMU_CLOCK_GENERIC], order->copies, group);
}

void emu_order_landed(const struct emu_where *where, const struct emu_mbarrier *barrier,
		      uint64_t phase)
{
	if (barrier->phase == phase)
		return;
	emu_report_rule(where, EMU_RULE_BARRIER_PHASE, NULL,
			"mbarrier at shared address 0x%x of CTA rank %u: issued in phase %llu, "
			"counted in phase %llu",
			EMU_SHARED_BASE + barrier->offset, barrier->cta->rank,
			(unsigned long long)phase, (unsigned long long)barrier->phase);
}

/* ---- barriers of the CTA and the cluster
 * -------------------------------------------------------------- */

static struct emu_sync *named(const struct emu_cta *cta, int barrier)
{
	return &emu_hazards_of_cta(cta)->named[barrier];
}

void emu_order_named_arrive(struct emu_order *order, int barrier)
{
	emu_order_release(order, &named(order->warp->cta, barrier)->running);
}

void emu_order_named_complete(struct emu_cta *cta, int barrier)
{
	flip(named(cta, barrier));
}

void emu_order_named_wait(struct emu_order *order, int barrier)
{
	emu_order_acquire(order, &named(order->warp->cta, barrier)->done);
	if (emu_timeline_on(order))
		emu_timeline_wait(order, named(order->warp->cta, barrier)->done.time, NULL,
				  "wait at a barrier of the CTA");
}

void emu_order_cluster_arrive(struct emu_order *order)
{
	emu_order_release(order, &order->hazards->barrier.running);
}

void emu_order_cluster_complete(struct emu_cluster *cluster)
{
	flip(&cluster->hazards->barrier);
}

void emu_order_cluster_wait(struct emu_order *order)
{
	emu_order_acquire(order, &order->hazards->barrier.done);
	if (emu_timeline_on(order))
		emu_timeline_wait(order, order->hazards->barrier.done.time, NULL,
				  "wait at the cluster's barrier");
}

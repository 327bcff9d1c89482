/* Clocks, and what fences, barriers and waits carry from one actor to another. */
#include "later.h"
#include "between.h"
#include "timeline.h"

#include <stdlib.h>

/* ---- clocks --------------------------------------------------------------------- */

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

void emu_clock_raise(struct emu_clock *clock, uint16_t who, uint32_t epoch)
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

void emu_clock_clear(struct emu_clock *clock)
{
	if (clock->count)
		memset(clock->at, 0, clock->count * sizeof *clock->at);
}

void emu_clocks_time(struct emu_clocks *to, double time)
{
	to->time = to->time > time ? to->time : time;
}

void emu_clocks_join(struct emu_clocks *to, const struct emu_clocks *from)
{
	for (int i = 0; i < EMU_CLOCK_COUNT; i++)
		emu_clock_join(&to->clock[i], &from->clock[i]);
	emu_known_join(&to->known, from->known);
	emu_clocks_time(to, from->time);
}

void emu_clocks_raise(struct emu_clocks *clocks, uint16_t who, uint32_t epoch)
{
	for (int i = 0; i < EMU_CLOCK_MAP_RELEASED; i++)
		emu_clock_raise(&clocks->clock[i], who, epoch);
}

void emu_clocks_free(struct emu_clocks *clocks)
{
	for (int i = 0; i < EMU_CLOCK_COUNT; i++)
		free(clocks->clock[i].at);
	emu_known_drop(clocks->known);
}

/* The running phase is complete. */
void emu_sync_flip(struct emu_sync *sync)
{
	struct emu_clocks old = sync->done;

	sync->done = sync->running;
	sync->running = old;
	for (int i = 0; i < EMU_CLOCK_COUNT; i++)
		emu_clock_clear(&sync->running.clock[i]);
	emu_known_drop(sync->running.known);
	sync->running.known = NULL;
	sync->running.time = 0;
}

void emu_sync_free(struct emu_sync *sync)
{
	emu_clocks_free(&sync->running);
	emu_clocks_free(&sync->done);
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
	emu_clocks_raise(&order->now, who, epoch);
}

void emu_order_waited_generic(struct emu_order *order, uint16_t who, uint32_t epoch)
{
	emu_clock_raise(&order->now.clock[EMU_CLOCK_GENERIC], who, epoch);
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
	emu_clocks_time(to, order->time);
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
		emu_clocks_time(&b->sync.running, end);
}

/* A barrier made anew is another actor: its phases begin again. */
void emu_order_barrier_made(struct emu_order *order, const struct emu_mbarrier *barrier)
{
	struct emu_barrier_order *b = order_of(barrier);

	if (!b)
		return;
	emu_sync_free(&b->sync);
	memset(b, 0, sizeof *b);
	b->made = emu_moment_of(order, EMU_ACTOR_WARP, 0);
	b->actor = emu_add_actor(order->hazards,
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
	char line[EMU_LINE_TEXT];

	if (b && !b->fenced && barrier->cta != order->warp->cta) {
		where = emu_here(order->warp, -1);
		emu_describe_line(where.grid, barrier->made.ins, line, sizeof line);
		emu_report_rule(&where, EMU_RULE_BARRIER_FENCE, barrier->made.ins,
				"mbarrier at shared address 0x%x of CTA rank %u, initialised at %s",
				EMU_SHARED_BASE + barrier->offset, barrier->cta->rank, line);
		b->fenced = true;
	}
	if (!b || !b->made.who || b->made.who == order->self ||
	    emu_clock_at(&order->now.clock[EMU_CLOCK_GENERIC], b->made.who) >= b->made.epoch)
		return;
	where = emu_here(order->warp, -1);
	emu_describe_line(where.grid, barrier->made.ins, line, sizeof line);
	emu_report_rule(&where, EMU_RULE_BARRIER_INIT, barrier->made.ins,
			"mbarrier at shared address 0x%x of CTA rank %u, initialised by warp %d of "
			"CTA (%u,%u,%u) at %s",
			EMU_SHARED_BASE + barrier->offset, barrier->cta->rank, barrier->made.warp,
			barrier->made.cta[0], barrier->made.cta[1], barrier->made.cta[2], line);
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
		emu_clocks_time(&b->sync.running, order->time);
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
	emu_sync_flip(&b->sync);
	emu_clocks_raise(&b->sync.done, b->actor, (uint32_t)phase);
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
	emu_clocks_raise(clocks, order->mma[lane], order->mma_issued[lane]);
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
		emu_clock_raise(&b->sync.running.clock[EMU_CLOCK_GENERIC], order->copies, group);
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
	emu_sync_flip(named(cta, barrier));
}

void emu_order_named_wait(struct emu_order *order, int barrier)
{
	emu_order_acquire(order, &named(order->warp->cta, barrier)->done);
	if (emu_timeline_on(order))
		emu_timeline_wait(order, named(order->warp->cta, barrier)->done.time, NULL,
				  "wait at a barrier of the CTA");
}

void emu_order_cta_met(struct emu_cta *cta)
{
	emu_hazards_of_cta(cta)->met = cta->cluster->hazards->notes.count;
	emu_later_met(cta);
}

void emu_order_cluster_arrive(struct emu_order *order)
{
	emu_order_release(order, &order->hazards->barrier.running);
}

void emu_order_cluster_complete(struct emu_cluster *cluster)
{
	emu_sync_flip(&cluster->hazards->barrier);
}

void emu_order_cluster_wait(struct emu_order *order)
{
	emu_order_acquire(order, &order->hazards->barrier.done);
	if (emu_timeline_on(order))
		emu_timeline_wait(order, order->hazards->barrier.done.time, NULL,
				  "wait at the cluster's barrier");
}

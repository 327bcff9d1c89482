/*
 * Splits: lanes of a warp that run together.  Lanes part at a divergent branch
 * and meet at its post-dominator; a join counts lanes, not splits, so that
 * however often its lanes part and exit in between, it completes when the last
 * one has arrived or gone.
 */
#include "schedule.h"

void emu_ready(struct emu_split *split)
{
	struct emu_worker *worker = split->warp->worker;

	split->state = EMU_SPLIT_READY;
	split->next = NULL;
	split->previous = worker->ready_last;
	if (worker->ready_last)
		worker->ready_last->next = split;
	else
		worker->ready = split;
	worker->ready_last = split;
	worker->ready_count++;
}

void emu_unlink_ready(struct emu_split *split)
{
	struct emu_worker *worker = split->warp->worker;

	if (split->previous)
		split->previous->next = split->next;
	else
		worker->ready = split->next;
	if (split->next)
		split->next->previous = split->previous;
	else
		worker->ready_last = split->previous;
	split->next = split->previous = NULL;
	worker->ready_count--;
}

struct emu_split *emu_split_new(struct emu_warp *warp, uint32_t mask, uint32_t pc,
				struct emu_frame *frame, int16_t join)
{
	struct emu_split *split = warp->splits;

	/* Masks are disjoint and not empty: there is always a free one. */
	while (split->state != EMU_SPLIT_FREE)
		split++;
	memset(split, 0, sizeof *split);
	split->warp = warp;
	split->mask = mask;
	split->pc = pc;
	split->frame = frame;
	split->join = join;
	emu_frame_retain(frame);
	warp->split_count++;
	return split;
}

static void split_end(struct emu_split *split)
{
	struct emu_warp *warp = split->warp;

	emu_frame_release(warp, split->frame);
	split->frame = NULL;
	split->mask = 0;
	split->state = EMU_SPLIT_FREE;
	warp->split_count--;
}

void emu_enter(struct emu_warp *warp, struct emu_split *split)
{
	struct emu_frame *frame = split->frame;

	warp->split = split;
	warp->frame = frame;
	warp->predicates = frame->predicates;
	warp->bank[EMU_BANK_FRAME] = frame->rows;
	warp->bank[EMU_BANK_CONSTANT] = frame->function->constants;
	warp->bank[EMU_BANK_WARP] = warp->specials;
}

uint32_t emu_join_pc(const struct emu_split *split)
{
	const struct emu_join *join;

	if (split->join < 0)
		return EMU_NO_JOIN;
	join = &split->warp->joins[split->join];
	return join->frame == split->frame ? join->pc : EMU_NO_JOIN;
}

void emu_absorb(struct emu_split *into, struct emu_waitable *waitable, uint64_t scratch)
{
	struct emu_split *split = waitable->first;

	while (split) {
		struct emu_split *next = split->next;

		if (split->scratch == scratch && split->warp == into->warp &&
		    split->pc == into->pc && split->frame == into->frame &&
		    split->join == into->join) {
			if (split->previous)
				split->previous->next = next;
			else
				waitable->first = next;
			if (next)
				next->previous = split->previous;
			else
				waitable->last = split->previous;
			into->mask |= split->mask;
			split_end(split);
		}
		split = next;
	}
}

/* ---- joins ---------------------------------------------------------------------- */

static void join_free(struct emu_warp *warp, struct emu_join *join)
{
	emu_frame_release(warp, join->frame);
	join->frame = NULL;
	join->used = false;
}

/* The lanes of `split` go on in `into`, which it becomes where there is none. */
static void merge(struct emu_split **into, struct emu_split *split)
{
	if (!*into) {
		*into = split;
	} else {
		(*into)->mask |= split->mask;
		split_end(split);
	}
}

/* The splits parked at join `j` become one; `into` is one that runs, or NULL. */
static struct emu_split *merge_parked(struct emu_warp *warp, int j, struct emu_split *into)
{
	struct emu_join *join = &warp->joins[j];

	for (int i = 0; i < EMU_LANES; i++) {
		struct emu_split *split = &warp->splits[i];

		if (split->state == EMU_SPLIT_PARKED && split->join == j)
			merge(&into, split);
	}
	if (into)
		into->join = join->parent;
	join_free(warp, join);
	return into;
}

static void join_check(struct emu_warp *warp, int j)
{
	struct emu_join *join = &warp->joins[j];
	struct emu_split *split;

	if (!join->used || (join->mask & ~join->arrived))
		return;
	split = merge_parked(warp, j, NULL);
	if (split)
		emu_ready(split);
}

/* Lanes that will not come: they exited, returned or went on alone. */
static void leave_joins(struct emu_warp *warp, int j, uint32_t lanes)
{
	while (j >= 0) {
		struct emu_join *join = &warp->joins[j];
		int parent = join->parent;

		join->mask &= ~lanes;
		join->arrived &= ~lanes;
		join_check(warp, j);
		j = parent;
	}
}

bool emu_join_arrive(struct emu_split *split)
{
	struct emu_warp *warp = split->warp;
	struct emu_join *join = &warp->joins[split->join];

	join->arrived |= split->mask;
	if (join->mask & ~join->arrived) {
		split->state = EMU_SPLIT_PARKED;
		return false;
	}
	merge_parked(warp, split->join, split);
	return true;
}

void emu_join_push(struct emu_split *split, uint32_t pc)
{
	struct emu_warp *warp = split->warp;

	if (emu_join_pc(split) == pc)
		return;
	for (int j = 0; j < EMU_MAX_JOINS; j++) {
		struct emu_join *join = &warp->joins[j];

		if (join->used)
			continue;
		*join = (struct emu_join){.frame = split->frame,
					  .pc = pc,
					  .mask = split->mask,
					  .parent = split->join,
					  .used = true};
		emu_frame_retain(split->frame);
		split->join = (int16_t)j;
		return;
	}
	/* No room: these lanes stay apart, which is slower and never wrong. */
}

void emu_part_to(struct emu_split *split, uint32_t mask, uint32_t pc)
{
	struct emu_warp *warp = split->warp;
	struct emu_split *other = emu_split_new(warp, mask, pc, split->frame, split->join);

	split->mask &= ~mask;
	if (emu_join_pc(other) == pc) {
		other->state = EMU_SPLIT_PARKED;
		warp->joins[other->join].arrived |= mask;
	} else {
		emu_ready(other);
	}
}

bool emu_part(struct emu_warp *warp, uint32_t mask)
{
	struct emu_split *split = warp->split, *other;

	if (!(mask & split->mask) || !(split->mask & ~mask)) {
		emu_fault(warp, -1, "internal", "lanes 0x%08x cannot be parted from 0x%08x", mask,
			  split->mask);
		return false;
	}
	other = emu_split_new(warp, mask & split->mask, split->pc, split->frame, split->join);
	split->mask &= ~mask;
	emu_ready(other);
	return true;
}

void emu_release_parked(struct emu_split *split)
{
	struct emu_warp *warp = split->warp;
	int j = split->join;

	if (split->state == EMU_SPLIT_RETURNING) {
		struct emu_frame *frame = split->frame;

		frame->mask &= ~split->mask;
		frame->returned &= ~split->mask;
		emu_frame_results(warp, frame, split->mask);
		split->join = frame->join;
		split->pc = frame->return_pc;
		split->frame = frame->parent;
		emu_frame_retain(split->frame);
		emu_frame_release(warp, frame);
		emu_ready(split);
		return;
	}
	struct emu_join *join = &warp->joins[j];

	split->join = join->parent;
	join->mask &= ~split->mask;
	join->arrived &= ~split->mask;
	emu_ready(split);
	join_check(warp, j);
}

/* ---- returns and exits ----------------------------------------------------------------- */

/* When all lanes of a call are at its end: one split in the caller. */
static struct emu_split *return_check(struct emu_warp *warp, struct emu_frame *frame,
				      struct emu_split *into)
{
	if (!frame->parent || !frame->returned || (frame->mask & ~frame->returned))
		return NULL;
	for (int i = 0; i < EMU_LANES; i++) {
		struct emu_split *split = &warp->splits[i];

		if (split->state == EMU_SPLIT_RETURNING && split->frame == frame)
			merge(&into, split);
	}
	if (!into)
		return NULL;
	frame->returned = 0;
	emu_frame_results(warp, frame, into->mask);
	into->pc = frame->return_pc;
	into->join = frame->join;
	into->frame = frame->parent;
	emu_frame_retain(into->frame);
	emu_frame_release(warp, frame);
	return into;
}

enum emu_step emu_return_lanes(struct emu_warp *warp, uint32_t mask)
{
	struct emu_split *split = warp->split;
	struct emu_frame *frame = split->frame;

	if (mask != split->mask) {
		struct emu_split *rest =
			emu_split_new(warp, split->mask & ~mask, split->pc + 1, frame, split->join);

		split->mask = mask;
		emu_ready(rest);
	}
	leave_joins(warp, split->join, mask);
	split->join = -1;
	frame->returned |= mask;
	if (return_check(warp, frame, split))
		return EMU_JUMPED;
	split->state = EMU_SPLIT_RETURNING;
	return EMU_JUMPED;
}

enum emu_step emu_exit_lanes(struct emu_warp *warp, uint32_t mask)
{
	struct emu_split *split = warp->split;
	struct emu_cta *cta = warp->cta;
	struct emu_frame *frame = split->frame;
	uint32_t count = (uint32_t)__builtin_popcount(mask);
	bool all = mask == split->mask;
	int join = split->join;

	emu_frame_retain(frame);
	warp->live &= ~mask;
	split->mask &= ~mask;
	while (frame) {
		struct emu_frame *parent = frame->parent;
		int outer = frame->join;
		struct emu_split *done;

		leave_joins(warp, join, mask);
		if (parent)
			emu_frame_retain(parent);
		frame->mask &= ~mask;
		frame->returned &= ~mask;
		done = return_check(warp, frame, NULL);
		if (done)
			emu_ready(done);
		emu_frame_release(warp, frame);
		frame = parent;
		join = outer;
	}
	if (all)
		split_end(split);
	cta->live_threads -= count;
	cta->cluster->live_threads -= count;
	emu_rendezvous_exits(warp);
	emu_barrier_exits(warp);
	emu_cluster_barrier_exits(cta->cluster);
	emu_changed(warp->worker);
	if (!cta->live_threads)
		emu_cta_finish(cta);
	return all ? EMU_JUMPED : EMU_NEXT;
}

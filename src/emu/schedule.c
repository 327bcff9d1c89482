/* Who runs next, what happens when nobody can, and the loop that executes instructions. */
#include "timeline.h"
#include "schedule.h"
#include <stdio.h>

#define QUANTUM          512
#define RANDOM_QUANTUM   64u
#define INTERRUPT_PERIOD (1u << 16)
#define FIRST_LOOK       8u
#define ADMIT_AFTER      (64u << 20)

/* ---- waiting ------------------------------------------------------------------ */

enum emu_step emu_block_on(struct emu_warp *warp, struct emu_waitable *waitable)
{
	struct emu_split *split = warp->split;

	split->state = EMU_SPLIT_BLOCKED;
	split->waitable = waitable;
	split->next = NULL;
	split->previous = waitable->last;
	if (waitable->last)
		waitable->last->next = split;
	else
		waitable->first = split;
	waitable->last = split;
	return EMU_BLOCKED;
}

void emu_wake(struct emu_waitable *waitable)
{
	struct emu_split *split = waitable->first;

	waitable->first = waitable->last = NULL;
	while (split) {
		struct emu_split *next = split->next;

		split->waitable = NULL;
		emu_ready(split);
		split = next;
	}
}

/* ---- polling --------------------------------------------------------------------- */

static uint64_t hash_rows(const struct emu_frame *frame)
{
	const uint64_t *words = (const uint64_t *)frame->rows;
	size_t count = (size_t)frame->function->slot_count * EMU_ROW_BYTES / 8;
	uint64_t a = 0x9e3779b97f4a7c15ull, b = 0xc2b2ae3d27d4eb4full;

	for (size_t i = 0; i + 1 < count; i += 2) {
		a = (a ^ words[i]) * 0xff51afd7ed558ccdull;
		b = (b ^ words[i + 1]) * 0xc4ceb9fe1a85ec53ull;
		a ^= a >> 32;
		b ^= b >> 29;
	}
	for (uint32_t i = 0; i < frame->function->predicate_count; i++)
		a = (a ^ frame->predicates[i]) * 0xff51afd7ed558ccdull;
	return a ^ (b >> 7 | b << 57);
}

/*
 * A loop that looked at memory, changed nothing and comes by with the same registers will do so
 * until somebody else changes something.  To look at the registers takes as long as many
 * instructions: it is done at the eighth time, the sixteenth and so on, and then at the time after
 * that.
 */
enum emu_step emu_poll_check(struct emu_warp *warp)
{
	struct emu_split *split = warp->split;
	struct emu_worker *worker = warp->worker;
	uint32_t times;
	uint64_t hash;

	if (!split->polled)
		return EMU_JUMPED;
	split->polled = false;
	if (split->poll_changes != worker->changes || split->poll_pc != split->pc) {
		split->poll_changes = worker->changes;
		split->poll_pc = split->pc;
		split->poll_repeats = 0;
		return EMU_JUMPED;
	}
	times = ++split->poll_repeats;
	if (times >= FIRST_LOOK && !(times & (times - 1))) {
		split->poll_hash = hash_rows(split->frame);
		return EMU_YIELD;
	}
	if (times <= FIRST_LOOK || (times - 1) & (times - 2))
		return EMU_JUMPED;
	hash = hash_rows(split->frame);
	if (hash == split->poll_hash)
		split->state = EMU_SPLIT_POLLING;
	return EMU_YIELD;
}

static void add_polling(struct emu_split *split)
{
	struct emu_worker *worker = split->warp->worker;

	split->next = NULL;
	split->previous = worker->polling_last;
	if (worker->polling_last)
		worker->polling_last->next = split;
	else
		worker->polling = split;
	worker->polling_last = split;
}

/* Those for whom something may have changed look again. */
static bool wake_polling(struct emu_worker *worker)
{
	struct emu_split *split = worker->polling, *keep = NULL, *keep_last = NULL;
	bool any = false;

	while (split) {
		struct emu_split *next = split->next;

		if (split->poll_changes != worker->changes) {
			split->poll_repeats = 0;
			emu_ready(split);
			any = true;
		} else {
			split->next = NULL;
			split->previous = keep_last;
			if (keep_last)
				keep_last->next = split;
			else
				keep = split;
			keep_last = split;
		}
		split = next;
	}
	worker->polling = keep;
	worker->polling_last = keep_last;
	return any;
}

/* ---- executing -------------------------------------------------------------------- */

static enum emu_step diverged(struct emu_warp *warp)
{
	struct emu_split *split = warp->split;
	char text[1200], line[EMU_LINE_TEXT];
	size_t used = 0;

	for (int i = 0; i < EMU_LANES && used < sizeof text; i++) {
		const struct emu_split *other = &warp->splits[i];

		if (other->state == EMU_SPLIT_FREE || other == split)
			continue;
		emu_describe_line(warp->grid, &other->frame->function->ins[other->pc], line,
				  sizeof line);
		used += (size_t)snprintf(text + used, sizeof text - used, "%s 0x%08x at %s",
					 used ? "," : "", other->mask, line);
	}
	if (!used)
		snprintf(text, sizeof text, " the others are off by its guard");
	return emu_fault(warp, -1, "diverged-aligned",
			 "all lanes of the warp must execute this together; here are lanes 0x%08x "
			 "of 0x%08x;%s",
			 split->mask, warp->live, text);
}

static void undefined_register(const struct emu_warp *warp)
{
	struct emu_where where = emu_here(warp, -1);

	emu_report_rule(&where, EMU_RULE_UNDEFINED_REGISTER, NULL,
			"reads a register that has no value");
}

static enum emu_step special_flags(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	if (ins->flags & EMU_I_ALIGNED && mask != warp->live)
		return diverged(warp);
	if (ins->flags & EMU_I_POLL)
		warp->split->polled = true;
	if (warp->order && ins->flags & EMU_I_ALIGNED)
		emu_order_warp(warp->order);
	if (warp->order && ins->flags & EMU_I_UNDEFINED)
		undefined_register(warp);
	if (warp->order && ins->flags & EMU_I_TAINT)
		emu_taint_step(warp, ins, mask);
	if (ins->flags & warp->attention & EMU_I_PENDING)
		emu_pending_check(warp, ins);
	if (warp->attention & EMU_I_ALL)
		emu_timeline_step(warp, ins);
	return EMU_NEXT;
}

static bool out_of_budget(struct emu_worker *worker, struct emu_warp *warp)
{
	const struct emu_launch *launch = worker->grid->launch;

	/* The split that ran may have ended, and its frame with it. */
	struct emu_where where = {
		.grid = worker->grid, .ins = warp->ins, .warp = warp->index, .lane = -1};

	memcpy(where.cta, warp->cta->id, sizeof where.cta);
	if (worker->instructions >= worker->grid->max_instructions) {
		emu_fault_at(&where, "budget",
			     "the grid has executed %llu warp-instructions, its limit",
			     (unsigned long long)worker->instructions);
		return true;
	}
	if (launch->interrupted && launch->interrupted(launch->interrupt_context)) {
		emu_fault_at(&where, "interrupted", "the launch was interrupted");
		return true;
	}
	if (launch->progress)
		launch->progress(launch->progress_context, worker->before + worker->instructions,
				 worker->grid->next_cluster * worker->grid->cluster_ctas);
	return false;
}

static void run_split(struct emu_worker *worker, struct emu_split *split)
{
	struct emu_warp *warp = split->warp;
	const struct emu_ins *code;
	uint32_t join_pc, budget = QUANTUM;
	uint64_t threads = 0, instructions = 0;
	bool random = worker->grid->mode == EMU_RANDOM;

	if (random)
		budget = 1 + emu_random(&worker->random) % RANDOM_QUANTUM;
	emu_enter(warp, split);
	code = split->frame->function->ins;
	join_pc = emu_join_pc(split);
	while (budget-- && !worker->grid->stopped) {
		const struct emu_ins *ins;
		enum emu_step step;
		uint32_t mask;

		while (split->pc == join_pc) {
			if (!emu_join_arrive(split))
				goto out;
			join_pc = emu_join_pc(split);
		}
		ins = &code[split->pc];
		mask = emu_active(warp, ins, split->mask);
		instructions++;
		worker->instructions++;
		if (!mask) {
			if (ins->flags & warp->attention & EMU_I_TAINT) {
				warp->ins = ins;
				emu_taint_guard(warp, ins);
			}
			split->pc++;
			continue;
		}
		threads += emu_count(mask);
		warp->ins = ins;
		if (ins->flags & warp->attention && special_flags(warp, ins, mask) != EMU_NEXT)
			break;
		step = ins->execute(warp, ins, mask);
		if (step == EMU_NEXT) {
			split->pc++;
			split->stage = 0;
			if (random && ins->flags & EMU_I_SYNC && emu_random(&worker->random) & 1)
				break;
			continue;
		}
		if (step == EMU_BLOCKED)
			goto out;
		if (step == EMU_STOPPED) {
			if (!worker->grid->stopped)
				emu_fault(warp, -1, "out-of-memory", "the host has no memory");
			break;
		}
		if (step == EMU_YIELD) {
			if (split->state == EMU_SPLIT_POLLING) {
				add_polling(split);
				goto out;
			}
			/* Branches yield with the pc they jumped to. */
			if (!(ins->flags & EMU_I_BRANCH))
				split->pc++;
			split->stage = 0;
			break;
		}
		split->stage = 0;
		if (split->state != EMU_SPLIT_READY)
			goto out;
		emu_enter(warp, split);
		code = split->frame->function->ins;
		join_pc = emu_join_pc(split);
	}
	emu_ready(split);
out:
	warp->instructions += instructions;
	worker->counters.warp_instructions += instructions;
	worker->counters.thread_instructions += threads;
}

/* ---- choosing ----------------------------------------------------------------------- */

static struct emu_split *next_split(struct emu_worker *worker)
{
	struct emu_split *split = worker->ready;

	if (worker->grid->mode == EMU_RANDOM && worker->ready_count > 1) {
		uint32_t skip = emu_random(&worker->random) % worker->ready_count;

		while (skip--)
			split = split->next;
	}
	return split;
}

static bool admit(struct emu_worker *worker)
{
	struct emu_grid *grid = worker->grid;
	struct emu_cluster *cluster;

	if (grid->next_cluster >= grid->cluster_count)
		return false;
	worker->since_admission = worker->instructions;
	/* A cluster by itself runs as it would on any host thread. */
	if (!worker->clusters)
		worker->random =
			(grid->launch->seed * 2 + 1) ^ (grid->next_cluster * 0x9e3779b97f4a7c15ull);
	cluster = emu_cluster_new(worker, grid->next_cluster);
	if (!cluster) {
		struct emu_where where = {.grid = grid, .warp = -1, .lane = -1};

		emu_fault_at(&where, "out-of-memory", "the host has no memory for another CTA");
		return false;
	}
	grid->next_cluster++;
	cluster->next = worker->clusters;
	if (worker->clusters)
		worker->clusters->previous = cluster;
	worker->clusters = cluster;
	worker->resident_ctas += cluster->cta_count;
	return true;
}

static void retire(struct emu_worker *worker, struct emu_cluster *cluster)
{
	while (emu_engine_step(cluster, false) && !worker->grid->stopped)
		;
	if (cluster->previous)
		cluster->previous->next = cluster->next;
	else
		worker->clusters = cluster->next;
	if (cluster->next)
		cluster->next->previous = cluster->previous;
	worker->resident_ctas -= cluster->cta_count;
	emu_cluster_free(cluster);
}

static void random_engines(struct emu_worker *worker)
{
	if (worker->grid->mode != EMU_RANDOM || emu_random(&worker->random) % 4)
		return;
	for (struct emu_cluster *cluster = worker->clusters; cluster; cluster = cluster->next)
		if (cluster->ops && emu_random(&worker->random) & 1)
			emu_engine_step(cluster, true);
}

static bool step_engines(struct emu_worker *worker)
{
	bool random = worker->grid->mode == EMU_RANDOM;

	for (struct emu_cluster *cluster = worker->clusters; cluster; cluster = cluster->next)
		if (emu_engine_step(cluster, random))
			return true;
	return false;
}

/*
 * Lanes that wait at a join for lanes which themselves wait for something are
 * let go as a last resort: independent lanes must make progress.
 */
static bool release_parked(struct emu_worker *worker)
{
	for (struct emu_cluster *cluster = worker->clusters; cluster; cluster = cluster->next)
		for (int c = 0; c < cluster->cta_count; c++)
			for (uint32_t w = 0; w < cluster->ctas[c]->warp_count; w++) {
				struct emu_warp *warp = cluster->ctas[c]->warps[w];

				for (int i = 0; warp->split_count > 1 && i < EMU_LANES; i++)
					if (warp->splits[i].state == EMU_SPLIT_PARKED ||
					    warp->splits[i].state == EMU_SPLIT_RETURNING) {
						emu_release_parked(&warp->splits[i]);
						return true;
					}
			}
	return false;
}

/*
 * A try_wait waits for some time only, and the code after it may be what the others wait for.  A
 * thread that has come back to it this often does nothing else.
 */
#define MAX_TIMEOUTS 4

static bool time_out_at(struct emu_waitable *waitable)
{
	bool any = false;

	for (struct emu_split *s = waitable->first; s; s = s->next) {
		if (!(s->frame->function->ins[s->pc].flags & EMU_I_POLL) ||
		    s->timeouts >= MAX_TIMEOUTS)
			continue;
		s->timeouts++;
		s->stage = EMU_TIMED_OUT;
		any = true;
	}
	if (any)
		emu_wake(waitable);
	return any;
}

static bool time_out(struct emu_worker *worker)
{
	bool any = false;

	for (struct emu_cluster *cluster = worker->clusters; cluster; cluster = cluster->next)
		for (int c = 0; c < cluster->cta_count; c++)
			for (uint32_t w = 0; w < cluster->ctas[c]->warp_count; w++) {
				struct emu_warp *warp = cluster->ctas[c]->warps[w];

				for (int i = 0; i < EMU_LANES; i++)
					if (warp->splits[i].state == EMU_SPLIT_BLOCKED)
						any |= time_out_at(warp->splits[i].waitable);
			}
	return any;
}

/* Nobody can run: something must complete, change, arrive or be let go. */
static bool unstick(struct emu_worker *worker)
{
	int limit = worker->grid->sm_count;

	if (!worker->clusters)
		return admit(worker);
	if (wake_polling(worker) || step_engines(worker))
		return true;
	if (worker->polling && worker->resident_ctas < limit && admit(worker))
		return true;
	if (time_out(worker) || release_parked(worker))
		return true;
	if (!worker->grid->stopped)
		emu_report_deadlock(worker);
	return false;
}

static bool busy_spinning(struct emu_worker *worker)
{
	return worker->instructions - worker->since_admission > ADMIT_AFTER &&
	       worker->resident_ctas < worker->grid->sm_count &&
	       worker->grid->next_cluster < worker->grid->cluster_count;
}

void emu_schedule(struct emu_worker *worker)
{
	struct emu_grid *grid = worker->grid;
	uint64_t next_check = 0;

	while (!grid->stopped) {
		struct emu_split *split = next_split(worker);
		struct emu_cluster *cluster;

		if (!split) {
			if (!worker->clusters && grid->next_cluster >= grid->cluster_count)
				return;
			if (!unstick(worker))
				return;
			continue;
		}
		cluster = split->warp->cta->cluster;
		emu_unlink_ready(split);
		run_split(worker, split);
		random_engines(worker);
		if (worker->instructions >= next_check) {
			wake_polling(worker);
			next_check = worker->instructions + INTERRUPT_PERIOD;
			if (out_of_budget(worker, split->warp))
				return;
			if (busy_spinning(worker))
				admit(worker);
		}
		if (!cluster->live_threads && !grid->stopped)
			retire(worker, cluster);
	}
}

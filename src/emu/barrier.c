/* Barriers of the CTA and of the cluster, and the register pool. */
#include "deadlock.h"
#include "hazard.h"
#include "schedule.h"
#include <stdio.h>

enum barrier_kind {
	SYNC,
	ARRIVE,
	RED_POPC,
	RED_AND,
	RED_OR
};

struct barrier_form {
	enum barrier_kind kind;
	int id, count, predicate; /* operands, -1: none */
};

/* ---- named barriers ---------------------------------------------------------------- */

static void describe(const struct emu_waitable *waitable, const struct emu_split *split, char *text,
		     size_t size)
{
	const struct emu_named_barrier *barrier = (const struct emu_named_barrier *)waitable;
	const struct emu_cta *cta = split->warp->cta;
	int used =
		snprintf(text, size, "barrier %d, at which %u of %u threads have arrived; missing:",
			 (int)(barrier - cta->barriers), barrier->count,
			 barrier->counted ? barrier->expected : cta->live_threads);

	for (uint32_t w = 0; w < cta->warp_count && used > 0 && (size_t)used < size - 40; w++) {
		uint32_t missing = cta->warps[w]->live & ~barrier->arrived[w];

		if (missing)
			used += snprintf(text + used, size - (size_t)used, " warp %u%s", w,
					 missing == cta->warps[w]->live ? "" : " in part");
	}
}

/* Threads that wait at different places of the text: one of them may mean fewer threads. */
static void explain(const struct emu_waitable *waitable, const struct emu_split *split,
		    struct emu_causes *causes)
{
	const struct emu_named_barrier *barrier = (const struct emu_named_barrier *)waitable;
	struct emu_where here = emu_where_waiting(split), there;
	char line[EMU_LINE_TEXT], other[EMU_LINE_TEXT];

	for (const struct emu_split *s = waitable->first; s && !barrier->counted; s = s->next) {
		there = emu_where_waiting(s);
		if (there.ins == here.ins)
			continue;
		emu_describe_line(here.grid, here.ins, line, sizeof line);
		emu_describe_line(here.grid, there.ins, other, sizeof other);
		emu_cause(causes, "deadlock-places",
			  "a barrier of another number, with the count of its threads",
			  "threads wait for barrier %d at %s and at %s: without a count it is for "
			  "all threads of the CTA",
			  (int)(barrier - split->warp->cta->barriers), line, other);
		return;
	}
}

/* Those that name no count wait; what threads did that have exited, nobody has waited for. */
static bool all_wait(const struct emu_cta *cta, const struct emu_named_barrier *barrier)
{
	return !barrier->counted && cta->live_threads == cta->thread_count;
}

static void complete(struct emu_cta *cta, struct emu_named_barrier *barrier)
{
	uint32_t *result = barrier->results[barrier->phase % EMU_BARRIER_RESULTS];

	result[0] = barrier->votes;
	result[1] = barrier->voted;
	barrier->phase++;
	barrier->open = false;
	barrier->count = barrier->voted = barrier->votes = 0;
	memset(barrier->arrived, 0, sizeof barrier->arrived);
	if (cta->cluster->hazards) {
		emu_order_named_complete(cta, (int)(barrier - cta->barriers));
		if (all_wait(cta, barrier))
			emu_order_cta_met(cta);
	}
	emu_wake(&barrier->waitable);
	emu_changed(cta->worker);
}

static bool all_arrived(const struct emu_cta *cta, const struct emu_named_barrier *barrier)
{
	if (barrier->counted)
		return barrier->count >= barrier->expected;
	for (uint32_t w = 0; w < cta->warp_count; w++)
		if (cta->warps[w] && cta->warps[w]->live & ~barrier->arrived[w])
			return false;
	return true;
}

/*
 * Hardware counts warps: when all lanes of a warp that still run have arrived,
 * those that have exited count as well.
 */
static void count_lanes(struct emu_warp *warp, struct emu_named_barrier *barrier, uint32_t mask)
{
	uint32_t *arrived = &barrier->arrived[warp->index];

	barrier->count += emu_count(mask);
	*arrived |= mask;
	if (barrier->counted && !(warp->live & ~*arrived)) {
		barrier->count += (uint32_t)__builtin_popcount(~*arrived);
		*arrived = EMU_FULL;
	}
}

void emu_barrier_exits(struct emu_warp *warp)
{
	struct emu_cta *cta = warp->cta;

	for (int i = 0; i < EMU_NAMED_BARRIERS; i++) {
		struct emu_named_barrier *barrier = &cta->barriers[i];

		if (barrier->open && cta->live_threads && all_arrived(cta, barrier))
			complete(cta, barrier);
	}
}

/* The operand's value, which all lanes must agree on. */
static bool uniform(struct emu_warp *warp, const struct emu_operand *operand, uint32_t mask,
		    uint32_t *value)
{
	*value = (uint32_t)emu_value(warp, operand, emu_lowest(mask));
	EMU_FOR_LANES(l, operand->kind == EMU_O_IMMEDIATE ? 0 : mask)
	{
		if ((uint32_t)emu_value(warp, operand, (int)l) != *value) {
			emu_fault(warp, (int)l, "barrier-operands",
				  "the lanes of a warp name different barriers or counts");
			return false;
		}
	}
	return true;
}

static bool arrive(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
		   const struct barrier_form *form, struct emu_named_barrier *barrier)
{
	uint32_t count = 0;

	if (form->count >= 0) {
		if (!uniform(warp, &ins->operands[form->count], mask, &count))
			return false;
		if (!count || count % EMU_LANES) {
			emu_fault(
				warp, -1, "barrier-count",
				"a barrier of %u threads; the count is a multiple of %d above zero",
				count, EMU_LANES);
			return false;
		}
	}
	if (!barrier->open) {
		barrier->open = true;
		barrier->counted = form->count >= 0;
		barrier->expected = count;
		barrier->waitable.describe = describe;
		barrier->waitable.explain = explain;
	} else if (barrier->counted != (form->count >= 0) || barrier->expected != count) {
		emu_fault(warp, -1, "barrier-count",
			  "barrier %d is waited for with a count of %u and of %u threads in one "
			  "phase",
			  (int)(barrier - warp->cta->barriers), barrier->expected, count);
		return false;
	}
	if (form->predicate >= 0) {
		uint32_t votes = emu_predicate(warp, &ins->operands[form->predicate]) & mask;

		barrier->votes += (uint32_t)__builtin_popcount(votes);
		barrier->voted += emu_count(mask);
	}
	count_lanes(warp, barrier, mask);
	if (warp->order)
		emu_order_named_arrive(warp->order, (int)(barrier - warp->cta->barriers));
	if (barrier->counted && barrier->count > barrier->expected) {
		emu_fault(warp, -1, "barrier-count",
			  "%u threads arrive at barrier %d, which is for %u", barrier->count,
			  (int)(barrier - warp->cta->barriers), barrier->expected);
		return false;
	}
	if (all_arrived(warp->cta, barrier))
		complete(warp->cta, barrier);
	return true;
}

static enum emu_step take_result(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
				 const struct barrier_form *form,
				 const struct emu_named_barrier *barrier)
{
	const uint32_t *result = barrier->results[warp->split->scratch % EMU_BARRIER_RESULTS];
	bool holds = form->kind == RED_AND ? result[0] == result[1] : result[0] != 0;

	if (form->kind == RED_POPC)
		EMU_FOR_LANES(l, mask)
		{
			emu_set_value(warp, &ins->operands[0], (int)l, result[0]);
		}
	else if (form->kind == RED_AND || form->kind == RED_OR)
		emu_set_predicate(warp, &ins->operands[0], mask, holds ? EMU_FULL : 0);
	return EMU_NEXT;
}

static enum emu_step bar(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct barrier_form *form = ins->extra;
	struct emu_split *split = warp->split;
	struct emu_named_barrier *barrier;
	uint32_t id;

	if (!uniform(warp, &ins->operands[form->id], mask, &id))
		return EMU_STOPPED;
	if (id >= EMU_NAMED_BARRIERS)
		return emu_fault(warp, -1, "barrier-id", "barrier %u; there are 0 to %d", id,
				 EMU_NAMED_BARRIERS - 1);
	barrier = &warp->cta->barriers[id];
	if (!split->stage) {
		split->stage = 1;
		split->scratch = barrier->phase;
		if (!arrive(warp, ins, mask, form, barrier))
			return EMU_STOPPED;
	}
	if (form->kind == ARRIVE)
		return EMU_NEXT;
	if (barrier->phase == split->scratch)
		return emu_block_on(warp, &barrier->waitable);
	if (warp->order)
		emu_order_named_wait(warp->order, (int)id);
	return take_result(warp, ins, mask, form, barrier);
}

static bool decode_bar(struct emu_decode *decode)
{
	static const char *const kinds[] = {"sync", "arrive", "red", NULL};
	static const char *const reductions[] = {"popc", "and", "or", NULL};
	struct emu_ins *ins = decode->ins;
	struct barrier_form *form = emu_decode_extra(decode, sizeof *form);
	bool aligned = !strcmp(decode->opcode->name, "bar");
	int kind, reduction, first = 0, count = ins->operand_count;

	emu_take(decode, "cta");
	aligned |= emu_take(decode, "aligned");
	kind = emu_take_one(decode, kinds);
	if (!form || kind < 0)
		return emu_reject(decode, "needs .sync, .arrive or .red");
	form->count = form->predicate = -1;
	form->kind = kind == 1 ? ARRIVE : SYNC;
	if (kind == 2) {
		reduction = emu_take_one(decode, reductions);
		if (reduction < 0)
			return emu_reject(decode, "needs .popc, .and or .or");
		form->kind = (enum barrier_kind)(RED_POPC + reduction);
		emu_take(decode, reduction ? "pred" : "u32");
		if (!emu_want_operands(decode, 3, 4))
			return false;
		form->predicate = count - 1;
		first = 1;
		count -= 1;
		if (reduction ? !emu_want_predicate(decode, 0) : !emu_want_register(decode, 0, 32))
			return false;
		if (!emu_want_predicate(decode, form->predicate))
			return false;
	} else {
		ins->written = 0;
		ins->read = (1u << ins->operand_count) - 1;
	}
	/* `barrier.sync` and `bar.sync` without an operand do not exist. */
	if (count - first < 1 || count - first > 2 || (kind == 1 && count != 2))
		return emu_reject(decode, "takes a barrier and %s number of threads",
				  kind == 1 ? "a" : "possibly a");
	form->id = first;
	if (count - first == 2)
		form->count = first + 1;
	for (int i = first; i < count; i++)
		if (!emu_want_value(decode, i, 32))
			return false;
	ins->extra = form;
	ins->flags |= EMU_I_SYNC | (aligned ? EMU_I_ALIGNED : 0);
	return true;
}

/* ---- the cluster's barrier --------------------------------------------------------------- */

static void describe_cluster(const struct emu_waitable *waitable, const struct emu_split *split,
			     char *text, size_t size)
{
	const struct emu_cluster *cluster = split->warp->cta->cluster;

	(void)waitable;
	snprintf(text, size, "the barrier of the cluster, at which %u of %u threads have arrived",
		 cluster->barrier_arrived, cluster->live_threads);
}

static void cluster_check(struct emu_cluster *cluster)
{
	if (!cluster->barrier_arrived || cluster->barrier_arrived != cluster->live_threads)
		return;
	cluster->barrier_arrived = 0;
	cluster->barrier_phase++;
	for (int c = 0; c < cluster->cta_count; c++)
		for (uint32_t w = 0; w < cluster->ctas[c]->warp_count; w++)
			cluster->ctas[c]->warps[w]->cluster_pending = 0;
	if (cluster->hazards)
		emu_order_cluster_complete(cluster);
	emu_wake(&cluster->barrier);
	emu_changed(cluster->worker);
}

/* Called after lanes have exited: those that had arrived do not count any more. */
void emu_cluster_barrier_exits(struct emu_cluster *cluster)
{
	uint32_t arrived = 0;

	if (!cluster->barrier_arrived)
		return;
	for (int c = 0; c < cluster->cta_count; c++)
		for (uint32_t w = 0; w < cluster->ctas[c]->warp_count; w++) {
			struct emu_warp *warp = cluster->ctas[c]->warps[w];

			warp->cluster_pending &= warp->live;
			arrived += (uint32_t)__builtin_popcount(warp->cluster_pending);
		}
	cluster->barrier_arrived = arrived;
	cluster_check(cluster);
}

static enum emu_step cluster_arrive(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_cluster *cluster = warp->cta->cluster;

	if (warp->cluster_arrived & mask)
		return emu_fault(warp, emu_lowest(warp->cluster_arrived & mask), "cluster-barrier",
				 "arrives twice without a wait in between");
	warp->cluster_arrived |= mask;
	warp->cluster_pending |= mask;
	cluster->barrier_arrived += (uint32_t)__builtin_popcount(mask);
	if (warp->order && !ins->variant)
		emu_order_cluster_arrive(warp->order);
	cluster->barrier.describe = describe_cluster;
	cluster_check(cluster);
	return EMU_NEXT;
}

static enum emu_step cluster_wait(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)ins;
	if (mask & ~warp->cluster_arrived)
		return emu_fault(warp, emu_lowest(mask & ~warp->cluster_arrived), "cluster-barrier",
				 "waits without having arrived");
	if (warp->cluster_pending & mask)
		return emu_block_on(warp, &warp->cta->cluster->barrier);
	warp->cluster_arrived &= ~mask;
	if (warp->order)
		emu_order_cluster_wait(warp->order);
	return EMU_NEXT;
}

static bool decode_cluster(struct emu_decode *decode)
{
	static const char *const words[] = {"arrive", "wait", NULL};
	int word = emu_take_one(decode, words);

	if (word < 0)
		return emu_reject(decode, "needs .arrive or .wait");
	if (word == 0)
		decode->ins->variant = !emu_take(decode, "release") && emu_take(decode, "relaxed");
	else
		emu_take(decode, "acquire");
	if (emu_take(decode, "aligned"))
		decode->ins->flags |= EMU_I_ALIGNED;
	decode->ins->flags |= EMU_I_SYNC;
	decode->ins->execute = word ? cluster_wait : cluster_arrive;
	return emu_want_operands(decode, 0, 0);
}

/* ---- registers ------------------------------------------------------------------------------- */

static void describe_pool(const struct emu_waitable *waitable, const struct emu_split *split,
			  char *text, size_t size)
{
	(void)waitable;
	snprintf(text, size, "registers: %u are free in the CTA, the warp has %u for each thread",
		 split->warp->cta->register_pool, split->warp->registers);
}

static void explain_pool(const struct emu_waitable *waitable, const struct emu_split *split,
			 struct emu_causes *causes)
{
	struct emu_where where = emu_where_waiting(split);

	(void)waitable;
	(void)causes;
	emu_report_rule(
		&where, EMU_RULE_REGISTER_POOL, NULL,
		"a warp of %u registers for each thread asks for %llu, and %u are free in the "
		"CTA",
		split->warp->registers, (unsigned long long)where.ins->operands[0].value,
		split->warp->cta->register_pool);
}

static enum emu_step setmaxnreg(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_cta *cta = warp->cta;
	uint32_t wanted = (uint32_t)ins->operands[0].value;

	(void)mask;
	if (!ins->variant && wanted < warp->registers) {
		cta->register_pool += (warp->registers - wanted) * EMU_LANES;
		warp->registers = wanted;
		emu_wake(&cta->pool);
	} else if (ins->variant && wanted > warp->registers) {
		uint32_t more = (wanted - warp->registers) * EMU_LANES;

		if (more > cta->register_pool) {
			cta->pool.describe = describe_pool;
			cta->pool.explain = explain_pool;
			return emu_block_on(warp, &cta->pool);
		}
		cta->register_pool -= more;
		warp->registers = wanted;
	}
	return EMU_NEXT;
}

static bool decode_setmaxnreg(struct emu_decode *decode)
{
	static const char *const words[] = {"dec", "inc", NULL};
	int word = emu_take_one(decode, words);

	if (word < 0 || !emu_take(decode, "sync") || !emu_take(decode, "aligned") ||
	    !emu_take(decode, "u32"))
		return emu_reject(decode, "the form is setmaxnreg.inc/.dec.sync.aligned.u32");
	decode->ins->variant = (uint8_t)word;
	decode->ins->flags |= EMU_I_ALIGNED | EMU_I_SYNC;
	if (!emu_want_operands(decode, 1, 1) || !emu_want_immediate(decode, 0, 24, 256))
		return false;
	return decode->ins->operands[0].value % 8 == 0 ||
	       emu_reject(decode, "a number of registers is a multiple of 8");
}

static const struct emu_opcode opcodes[] = {
	{"bar", decode_bar, bar, 0},
	{"barrier", decode_bar, bar, 0},
	{"barrier.cluster", decode_cluster, NULL, EMU_P_NO_RESULT | EMU_P_SM90},
	{"setmaxnreg", decode_setmaxnreg, setmaxnreg, EMU_P_NO_RESULT | EMU_P_SM90},
};

EMU_OPCODE_TABLE(barrier, opcodes);

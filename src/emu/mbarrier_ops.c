/* mbarrier instructions of threads: arrivals, byte counts, waits (9.1). */
#include "deadlock.h"
#include "hazard.h"

enum {
	arrive_expect_tx = 1,
	arrive_drop = 2,
	arrive_no_complete = 4,
	wait_parity = 1,
	wait_try = 2
};

enum {
	most_impatience = 2 /* time-outs one after the other that only chance brings */
};

/* What mbarrier.arrive returns: the phase that was running, and its pending count. */
enum {
	token_phase = 20
};

static uint64_t token(const struct emu_mbarrier *barrier)
{
	return barrier->phase << token_phase | barrier->pending;
}

static struct emu_mbarrier *barrier_of(struct emu_warp *warp, const struct emu_ins *ins,
				       const struct emu_operand *operand, int lane,
				       struct emu_where *where)
{
	uint64_t address = emu_address(warp, operand, lane);

	*where = emu_here(warp, lane);
	if (!emu_shared_address(warp, lane, ins->space, &address))
		return NULL;
	return emu_mbarrier_at(warp->cta, where, address);
}

/* ---- arrive ------------------------------------------------------------------------ */

static bool drop(struct emu_warp *warp, int lane, struct emu_mbarrier *barrier, uint32_t count)
{
	if (count <= barrier->expected) {
		barrier->expected -= count;
		return true;
	}
	emu_fault(warp, lane, "mbarrier-count",
		  "mbarrier.arrive_drop of %u when the barrier expects %u arrivals", count,
		  barrier->expected);
	return false;
}

static bool arrive_one(struct emu_warp *warp, const struct emu_ins *ins, int lane)
{
	int at = ins->operands[0].kind == EMU_O_ADDRESS ? 0 : 1;
	struct emu_where where;
	struct emu_mbarrier *barrier = barrier_of(warp, ins, &ins->operands[at], lane, &where);
	uint32_t value = 1, count;
	uint64_t before;

	if (!barrier)
		return false;
	if (warp->order) {
		emu_order_barrier_used(warp->order, barrier);
		emu_order_barrier_arrive(warp->order, barrier, ins->semantics == EMU_RELAXED);
		if (ins->scope == EMU_SCOPE_CTA && barrier->cta != warp->cta)
			emu_report_rule(
				&where, EMU_RULE_BARRIER_SCOPE, NULL,
				"the mbarrier at shared address 0x%x belongs to CTA rank %u",
				EMU_SHARED_BASE + barrier->offset, barrier->cta->rank);
	}
	if (ins->operand_count > at + 1)
		value = (uint32_t)emu_value(warp, &ins->operands[at + 1], lane);
	count = ins->variant & arrive_expect_tx ? 1 : value;
	before = token(barrier);
	if (count == 0 || ((ins->variant & arrive_no_complete) && count >= barrier->pending)) {
		emu_fault(warp, lane, "mbarrier-count",
			  count ? "mbarrier.arrive.noComplete of %u would complete the phase: %u "
				  "arrivals are pending"
				: "mbarrier.arrive with count %u; it must be at least 1 (%u "
				  "arrivals are pending)",
			  count, barrier->pending);
		return false;
	}
	if ((ins->variant & arrive_expect_tx) && !emu_mbarrier_expect_tx(barrier, &where, value))
		return false;
	if ((ins->variant & arrive_drop) && !drop(warp, lane, barrier, count))
		return false;
	if (!emu_mbarrier_arrive(barrier, &where, EMU_MBARRIER_ARRIVE, count))
		return false;
	if (at == 1)
		emu_set_value(warp, &ins->operands[0], lane, before);
	return true;
}

/* Lanes that arrive at one barrier complete its phase at most: who waits may miss one of two. */
static bool phases_differ(struct emu_warp *warp, const struct emu_ins *ins, int lane,
			  const struct emu_mbarrier **barrier, uint64_t *phase)
{
	int at = ins->operands[0].kind == EMU_O_ADDRESS ? 0 : 1;
	struct emu_where where;
	const struct emu_mbarrier *now = barrier_of(warp, ins, &ins->operands[at], lane, &where);
	bool differ = now && now == *barrier && now->phase != *phase;

	if (differ)
		emu_report_rule(&where, EMU_RULE_BARRIER_LANES, NULL,
				"lanes of one instruction arrive at the mbarrier at shared address "
				"0x%x of CTA rank %u in phase %llu and in phase %llu",
				EMU_SHARED_BASE + now->offset, now->cta->rank,
				(unsigned long long)*phase, (unsigned long long)now->phase);
	if (now && now != *barrier)
		*phase = now->phase;
	*barrier = now;
	return differ;
}

static enum emu_step execute_arrive(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	bool looking = warp->order && mask & (mask - 1);
	const struct emu_mbarrier *barrier = NULL;
	uint64_t phase = 0;

	EMU_FOR_LANES(lane, mask)
	{
		if (looking && phases_differ(warp, ins, (int)lane, &barrier, &phase))
			looking = false;
		if (!arrive_one(warp, ins, (int)lane))
			return EMU_STOPPED;
	}
	return EMU_NEXT;
}

static bool decode_arrive(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	int at = ins->operand_count > 0 && ins->operands[0].kind == EMU_O_ADDRESS ? 0 : 1;

	if (emu_take(decode, "expect_tx"))
		ins->variant |= arrive_expect_tx;
	if (emu_take(decode, "noComplete"))
		ins->variant |= arrive_no_complete;
	if (decode->opcode->name[strlen("mbarrier.arrive")] == '_')
		ins->variant |= arrive_drop;
	ins->space = emu_take_space(decode, EMU_GENERIC);
	emu_take_semantics(decode);
	emu_take(decode, "b64");
	emu_results(ins, at ? 1 : 0);
	if (!emu_want_operands(
		    decode, at + (ins->variant & (arrive_expect_tx | arrive_no_complete) ? 2 : 1),
		    at + 2))
		return false;
	if (at && ins->operands[0].kind != EMU_O_SINK) {
		if (ins->space == EMU_SHARED_CLUSTER)
			return emu_reject(decode,
					  "an arrival in .shared::cluster returns no state: "
					  "the first operand must be _");
		if (!emu_want_register(decode, 0, 64))
			return false;
	}
	return emu_want_address(decode, at) &&
	       (ins->space != EMU_GENERIC || emu_want_generic(decode, at)) &&
	       (ins->operand_count == at + 1 || emu_want_value(decode, at + 1, 32));
}

/* ---- expect_tx, complete_tx ----------------------------------------------------------- */

static enum emu_step execute_tx(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(lane, mask)
	{
		struct emu_where where;
		struct emu_mbarrier *barrier =
			barrier_of(warp, ins, &ins->operands[0], (int)lane, &where);
		uint32_t bytes = (uint32_t)emu_value(warp, &ins->operands[1], (int)lane);

		if (barrier && warp->order && !ins->variant && !barrier->pending)
			emu_report_rule(
				&where, EMU_RULE_BARRIER_LATE, NULL,
				"%u bytes are expected when no arrival is left in phase %llu of "
				"the mbarrier at shared address 0x%x of CTA rank %u",
				bytes, (unsigned long long)barrier->phase,
				EMU_SHARED_BASE + barrier->offset, barrier->cta->rank);
		if (!barrier || !(ins->variant ? emu_mbarrier_complete_tx(barrier, &where, bytes)
					       : emu_mbarrier_expect_tx(barrier, &where, bytes)))
			return EMU_STOPPED;
	}
	return EMU_NEXT;
}

static bool decode_tx(struct emu_decode *decode)
{
	decode->ins->variant = decode->opcode->name[strlen("mbarrier.")] == 'c';
	decode->ins->space = emu_take_space(decode, EMU_GENERIC);
	emu_take_semantics(decode);
	emu_take(decode, "b64");
	emu_results(decode->ins, 0);
	return emu_want_operands(decode, 2, 2) && emu_want_address(decode, 0) &&
	       (decode->ins->space != EMU_GENERIC || emu_want_generic(decode, 0)) &&
	       emu_want_value(decode, 1, 32);
}

/* ---- waits ------------------------------------------------------------------------------- */

static bool completed(const struct emu_mbarrier *barrier, const struct emu_ins *ins, uint64_t value)
{
	if (ins->variant & wait_parity)
		return (barrier->phase & 1) != value;
	return (barrier->phase & ((1ull << (64 - token_phase)) - 1)) != value >> token_phase;
}

/* In random mode a try_wait may return before its time, as it may on a device. */
static bool gives_up(struct emu_warp *warp)
{
	struct emu_split *split = warp->split;

	if (warp->grid->mode != EMU_RANDOM || split->timeouts >= most_impatience ||
	    emu_random(&warp->random) % 8)
		return false;
	split->timeouts++;
	split->stage = EMU_TIMED_OUT;
	return true;
}

static enum emu_step execute_wait(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_mbarrier *barrier = NULL;
	uint64_t previous = 0, value = 0;
	uint32_t done = 0;
	bool uniform = true;

	EMU_FOR_LANES(lane, mask)
	{
		uint64_t address = emu_address(warp, &ins->operands[1], (int)lane);
		struct emu_where where;

		if (!barrier || address != previous) {
			uniform = uniform && !barrier;
			previous = address;
			barrier = barrier_of(warp, ins, &ins->operands[1], (int)lane, &where);
			if (!barrier)
				return EMU_STOPPED;
			if (barrier->cta != warp->cta)
				return emu_fault(
					warp, (int)lane, "mbarrier-remote-wait",
					"a thread can wait only for an mbarrier of its own "
					"CTA (rank %u), not of rank %u",
					warp->cta->rank, barrier->cta->rank);
		}
		value = emu_value(warp, &ins->operands[2], (int)lane);
		if ((ins->variant & wait_parity) && value > 1)
			return emu_fault(warp, (int)lane, "mbarrier-parity",
					 "parity %llu; it must be 0 or 1",
					 (unsigned long long)value);
		if (completed(barrier, ins, value))
			done |= 1u << lane;
	}
	if (warp->order)
		emu_order_barrier_used(warp->order, barrier);
	if (warp->order && done)
		emu_order_barrier_wait(warp->order, barrier, ins->semantics == EMU_RELAXED);
	if (done && ins->variant & wait_parity && value)
		emu_mbarrier_passed(barrier, warp);
	barrier->first_awaited |= !(ins->variant & wait_parity ? value : value >> token_phase & 1);
	if (done)
		warp->split->timeouts = 0;
	else if (uniform && (ins->variant & wait_try) && warp->split->stage != EMU_TIMED_OUT &&
		 !gives_up(warp)) {
		warp->split->scratch =
			ins->variant & wait_parity ? value : value >> token_phase & 1;
		return emu_block_on(warp, &barrier->waitable);
	}
	/* What has timed out is no spinning on memory: it is counted by itself. */
	if (warp->split->stage == EMU_TIMED_OUT)
		warp->split->polled = false;
	emu_set_predicate(warp, &ins->operands[0], mask, done);
	return EMU_NEXT;
}

static bool decode_wait(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	bool parity = emu_take(decode, "parity");

	ins->variant = parity ? wait_parity : 0;
	if (decode->opcode->name[strlen("mbarrier.t")] == 'r')
		ins->variant |= wait_try;
	ins->space = emu_take_space(decode, EMU_GENERIC);
	emu_take_semantics(decode);
	emu_take(decode, "b64");
	ins->flags |= EMU_I_POLL;
	emu_results(ins, 1);
	return emu_want_operands(decode, 3, ins->variant & wait_try ? 4 : 3) &&
	       emu_want_predicate(decode, 0) && emu_want_address(decode, 1) &&
	       (ins->space != EMU_GENERIC || emu_want_generic(decode, 1)) &&
	       emu_want_value(decode, 2, parity ? 32 : 64) &&
	       (ins->operand_count < 4 || emu_want_value(decode, 3, 32));
}

static enum emu_step execute_pending(struct emu_warp *warp, const struct emu_ins *ins,
				     uint32_t mask)
{
	EMU_FOR_LANES(lane, mask)
	emu_set_value(warp, &ins->operands[0], (int)lane,
		      emu_value(warp, &ins->operands[1], (int)lane) & ((1u << token_phase) - 1));
	return EMU_NEXT;
}

static bool decode_pending(struct emu_decode *decode)
{
	emu_take(decode, "b64");
	return emu_want_operands(decode, 2, 2) && emu_want_register(decode, 0, 32) &&
	       emu_want_value(decode, 1, 64);
}

static const struct emu_opcode rows[] = {
	{"mbarrier.arrive", decode_arrive, execute_arrive, 0},
	{"mbarrier.arrive_drop", decode_arrive, execute_arrive, 0},
	{"mbarrier.expect_tx", decode_tx, execute_tx, EMU_P_NO_RESULT},
	{"mbarrier.complete_tx", decode_tx, execute_tx, EMU_P_NO_RESULT},
	{"mbarrier.test_wait", decode_wait, execute_wait, 0},
	{"mbarrier.try_wait", decode_wait, execute_wait, 0},
	{"mbarrier.pending_count", decode_pending, execute_pending, 0},
};

EMU_OPCODE_TABLE(mbarrier_ops, rows);

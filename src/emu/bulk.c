/* Linear bulk copies and reductions, and the groups in which threads wait for them (8.3). */
#include "timeline.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- groups -------------------------------------------------------------------- */

struct emu_bulk_group *emu_bulk_current(struct emu_warp *warp, int lane)
{
	struct emu_bulk_group **at = &emu_async_of_warp(warp)->lanes[lane].groups;

	while (*at && (*at)->committed)
		at = &(*at)->next;
	if (!*at)
		*at = calloc(1, sizeof **at);
	if (!*at)
		emu_fault(warp, lane, "out-of-memory", "the host has no memory for a bulk group");
	return *at;
}

void emu_bulk_done(struct emu_warp *warp, struct emu_bulk_group *group)
{
	if (!group)
		return;
	group->open--;
	emu_wake(&emu_async_of_warp(warp)->bulk);
}

/* Forgets what is complete; the number of committed groups from the oldest open one on. */
static uint32_t pending_groups(struct emu_async_lane *lane)
{
	uint32_t count = 0;

	while (lane->groups && lane->groups->committed && !lane->groups->open) {
		struct emu_bulk_group *done = lane->groups;
		lane->groups = done->next;
		free(done);
	}
	for (struct emu_bulk_group *g = lane->groups; g && g->committed; g = g->next)
		count++;
	return count;
}

void emu_bulk_warp_free(struct emu_warp *warp)
{
	for (int lane = 0; lane < EMU_LANES; lane++) {
		struct emu_bulk_group *next, *g = emu_async_of_warp(warp)->lanes[lane].groups;
		for (; g; g = next) {
			next = g->next;
			free(g);
		}
	}
}

static enum emu_step execute_commit(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)ins;
	EMU_FOR_LANES(lane, mask)
	{
		struct emu_bulk_group *group = emu_bulk_current(warp, (int)lane);
		if (!group)
			return EMU_STOPPED;
		group->committed = true;
		if (warp->order)
			warp->order->bulk_committed[lane]++;
		pending_groups(&emu_async_of_warp(warp)->lanes[lane]);
	}
	return EMU_NEXT;
}

static void describe_wait(const struct emu_waitable *waitable, const struct emu_split *split,
			  char *text, size_t size)
{
	(void)waitable;
	snprintf(text, size, "bulk copies: %llu groups are pending",
		 (unsigned long long)split->scratch);
}

/* All but the newest groups: with .read their sources, else their destinations as well. */
static void order_waited(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_order *order = warp->order;
	uint32_t open = (uint32_t)ins->operands[0].value;

	EMU_FOR_LANES(lane, mask)
	{
		uint32_t committed = order->bulk_committed[lane];

		if (committed <= open)
			continue;
		emu_order_waited(order, order->bulk_read[lane], committed - open);
		if (!ins->variant)
			emu_order_waited(order, order->bulk_write[lane], committed - open);
	}
}

static enum emu_step execute_wait(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_async_warp *async = emu_async_of_warp(warp);

	EMU_FOR_LANES(lane, mask)
	{
		uint32_t pending = pending_groups(&async->lanes[lane]);
		if (pending <= (uint32_t)ins->operands[0].value)
			continue;
		warp->split->scratch = pending;
		async->bulk.describe = describe_wait;
		return emu_block_on(warp, &async->bulk);
	}
	if (warp->order)
		order_waited(warp, ins, mask);
	return EMU_NEXT;
}

static bool decode_commit(struct emu_decode *decode)
{
	return emu_want_operands(decode, 0, 0);
}

static bool decode_wait(struct emu_decode *decode)
{
	decode->ins->variant = emu_take(decode, "read");
	emu_results(decode->ins, 0);
	return emu_want_operands(decode, 1, 1) && emu_want_immediate(decode, 0, 0, INT32_MAX);
}

/* ---- linear copies ---------------------------------------------------------------- */

struct bulk_form {
	enum emu_space target, source;
	bool group, multicast, policy, byte_mask, reduce;
	enum emu_reduction reduction;
	enum emu_type type;
};

struct bulk_op {
	struct emu_engine_op op;
	const struct bulk_form *form;
	struct emu_warp *warp;
	struct emu_bulk_group *group;
	uint64_t target, source, barrier;
	uint64_t phase[EMU_MAX_CLUSTER]; /* of the mbarrier in each target, at issue */
	uint32_t size;
	uint16_t mask; /* CTAs, or bytes with .cp_mask */
};

static void *range(struct bulk_op *op, enum emu_space space, uint64_t address,
		   enum emu_access_kind kind)
{
	struct emu_cta *cta = op->warp->cta, *owner;

	if (space == EMU_GLOBAL)
		return emu_mem_global(cta->grid, &op->op.where, address, op->size, 16, kind);
	return emu_mem_shared(cta, &op->op.where, address, op->size, 16, kind, &owner);
}

static void move(const struct bulk_op *op, uint8_t *target, const uint8_t *source)
{
	if (op->form->reduce) {
		emu_reduce(op->form->reduction, op->form->type, target, source, op->size);
	} else if (op->form->byte_mask) {
		for (uint32_t i = 0; i < op->size; i++)
			if (op->mask >> i % 16 & 1)
				target[i] = source[i];
	} else {
		memmove(target, source, op->size);
	}
}

/* The same window offset in the CTA of another rank. */
static uint64_t in_rank(uint64_t address, int rank)
{
	return (address & EMU_SHARED_MASK) | (uint64_t)rank << EMU_SHARED_RANK;
}

static bool deliver(struct bulk_op *op, const uint8_t *source, uint64_t target, uint64_t barrier)
{
	enum emu_access_kind kind = op->form->reduce ? EMU_UPDATE : EMU_WRITE;
	uint8_t *to = range(op, op->form->target, target, kind);
	struct emu_mbarrier *object;

	if (!to)
		return false;
	move(op, to, source);
	op->op.cluster->worker->counters.tma_bytes += op->size;
	emu_changed(op->op.cluster->worker);
	if (op->form->group)
		return true;
	object = emu_mbarrier_at(op->warp->cta, &op->op.where, barrier);
	if (object && op->op.cluster->hazards)
		emu_order_landed(&op->op.where, object, op->phase[barrier >> EMU_SHARED_RANK]);
	return object && emu_mbarrier_complete_tx(object, &op->op.where, op->size);
}

static void complete(struct emu_engine_op *base)
{
	struct bulk_op *op = (struct bulk_op *)base;
	const uint8_t *source = range(op, op->form->source, op->source, EMU_READ);

	if (source && op->form->multicast) {
		for (int rank = 0; rank < EMU_MAX_CLUSTER; rank++)
			if ((op->mask >> rank & 1) &&
			    !deliver(op, source, in_rank(op->target, rank),
				     in_rank(op->barrier, rank)))
				break;
	} else if (source) {
		deliver(op, source, op->target, op->barrier);
	}
	if (op->form->source != EMU_GLOBAL)
		emu_async_of_cta(op->warp->cta)->open_reads--;
	emu_bulk_done(op->warp, op->group);
}

/* ---- order ---------------------------------------------------------------------- */

static void watch_range(struct bulk_op *op, struct emu_access *access, enum emu_space space,
			uint64_t address)
{
	if (space == EMU_GLOBAL)
		emu_access_global(access, address, op->size);
	else if (emu_shared_owner(op->warp->cta, address))
		emu_access_shared(access, emu_shared_owner(op->warp->cta, address),
				  (uint32_t)(address & EMU_SHARED_MASK) - EMU_SHARED_BASE,
				  op->size);
}

static bool watch_target(struct bulk_op *op, int lane, int rank, bool first)
{
	struct emu_order *order = op->warp->order;
	const struct emu_mbarrier *barrier =
		emu_mbarrier_at(op->warp->cta, &op->op.where, in_rank(op->barrier, rank));
	struct emu_moment moment;
	struct emu_access access;

	if (!barrier)
		return false;
	emu_order_barrier_used(order, barrier);
	op->phase[rank] = barrier->phase;
	moment = emu_moment_of_barrier(order, barrier);
	access = emu_access_by(order, EMU_ACTOR_BARRIER, lane, moment,
			       op->form->reduce ? EMU_UPDATE : EMU_WRITE);
	watch_range(op, &access, op->form->target,
		    op->form->multicast ? in_rank(op->target, rank) : op->target);
	access = emu_access_by(order, EMU_ACTOR_BARRIER, lane, moment, EMU_READ);
	if (first)
		watch_range(op, &access, op->form->source, op->source);
	emu_order_barrier_arrive(order, barrier, false);
	if (emu_timeline_on(order))
		emu_timeline_lands(barrier,
				   emu_timeline_load(order, (uint32_t)op->target, op->size));
	return true;
}

static bool watch(struct bulk_op *op, int lane)
{
	struct emu_order *order = op->warp->order;
	struct emu_access access;
	bool first = true;

	if (!op->form->group) {
		uint32_t own = (uint32_t)(op->barrier >> EMU_SHARED_RANK) % EMU_MAX_CLUSTER;

		for (int rank = 0; rank < op->op.cluster->cta_count; rank++) {
			if (op->form->multicast ? !(op->mask >> rank & 1) : (uint32_t)rank != own)
				continue;
			if (!watch_target(op, lane, rank, first))
				return false;
			first = false;
		}
		return true;
	}
	access = emu_access_by(order, EMU_ACTOR_BULK_READ, lane,
			       emu_moment_of(order, EMU_ACTOR_BULK_READ, lane), EMU_READ);
	watch_range(op, &access, op->form->source, op->source);
	access = emu_access_by(order, EMU_ACTOR_BULK_WRITE, lane,
			       emu_moment_of(order, EMU_ACTOR_BULK_WRITE, lane),
			       op->form->reduce ? EMU_UPDATE : EMU_WRITE);
	/* What a byte mask leaves out is not written: such copies are not watched in full. */
	if (!op->form->byte_mask)
		watch_range(op, &access, op->form->target, op->target);
	if (emu_timeline_on(order))
		emu_timeline_bulk_ends(order, lane,
				       emu_timeline_store(order, (uint32_t)op->source, op->size));
	emu_bulk_issued(order, lane);
	return true;
}

static bool shared_operand(struct emu_warp *warp, int lane, enum emu_space space, uint64_t *address)
{
	return space == EMU_GLOBAL || emu_shared_address(warp, lane, space, address);
}

static enum emu_step issue_one(struct emu_warp *warp, const struct emu_ins *ins, int lane)
{
	const struct bulk_form *form = ins->extra;
	int next = 3;
	struct bulk_op *op = emu_op_new(warp, lane, sizeof *op, complete);

	if (!op)
		return EMU_STOPPED;
	op->form = form;
	op->warp = warp;
	op->target = emu_address(warp, &ins->operands[0], lane);
	op->source = emu_address(warp, &ins->operands[1], lane);
	op->size = (uint32_t)emu_value(warp, &ins->operands[2], lane);
	if (!form->group)
		op->barrier = emu_address(warp, &ins->operands[next++], lane);
	if (form->byte_mask && form->policy)
		next++;
	if (form->multicast || form->byte_mask)
		op->mask = (uint16_t)emu_value(warp, &ins->operands[next], lane);
	if (!shared_operand(warp, lane, form->target, &op->target) ||
	    !shared_operand(warp, lane, form->source, &op->source) ||
	    (!form->group && !emu_shared_address(warp, lane, form->target, &op->barrier)) ||
	    (form->group && !(op->group = emu_bulk_current(warp, lane)))) {
		op->op.discard(&op->op);
		return EMU_STOPPED;
	}
	if (op->size % 16) {
		emu_fault(warp, lane, "misaligned",
			  "bulk copy of %u bytes; the size must be a multiple of 16", op->size);
		op->op.discard(&op->op);
		return EMU_STOPPED;
	}
	if (warp->order && !watch(op, lane)) {
		op->op.discard(&op->op);
		return EMU_STOPPED;
	}
	if (op->group)
		op->group->open++;
	if (form->source != EMU_GLOBAL)
		emu_async_of_cta(warp->cta)->open_reads++;
	emu_op_issue(warp, op);
	return EMU_NEXT;
}

static enum emu_step execute_bulk(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	if (warp->order && mask & (mask - 1))
		emu_watch_issue(warp, ins, mask);
	EMU_FOR_LANES(lane, mask)
	if (issue_one(warp, ins, (int)lane) == EMU_STOPPED)
		return EMU_STOPPED;
	return EMU_NEXT;
}

static bool decode_reduction(struct emu_decode *decode, struct bulk_form *form)
{
	int which = emu_take_one(decode, emu_reduction_names);
	bool rounds, half;

	if (which == -2)
		return false;
	if (which < 0)
		return emu_reject(decode, "an operation is missing: .add, .min, .max, .inc, .dec, "
					  ".and, .or or .xor");
	form->reduce = true;
	form->reduction = (enum emu_reduction)which;
	rounds = emu_take(decode, "noftz");
	form->type = emu_take_type(decode);
	half = form->type == EMU_T_F16 || form->type == EMU_T_BF16;
	if (!emu_reduction_legal(form->reduction, form->type) ||
	    (form->target != EMU_GLOBAL && !emu_reduction_in_shared(form->reduction, form->type)))
		return emu_reject(decode, "the reduction .%s does not exist for .%s%s",
				  emu_reduction_names[which], emu_types[form->type].text,
				  form->target == EMU_GLOBAL ? "" : " in shared memory");
	if (rounds != (half && form->reduction == EMU_REDUCE_ADD))
		return emu_reject(decode, ".noftz goes with .add of .f16 and .bf16, which need it");
	return true;
}

static bool decode_bulk(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct bulk_form *form = emu_decode_extra(decode, sizeof *form);
	int want = 3;

	if (!form)
		return false;
	ins->extra = form;
	form->target = emu_take_space(decode, EMU_GENERIC);
	form->source = emu_take_space(decode, EMU_GENERIC);
	form->group = emu_take(decode, "bulk_group");
	if (form->group == emu_take(decode, "mbarrier::complete_tx::bytes"))
		return emu_reject(decode, "needs either .bulk_group or "
					  ".mbarrier::complete_tx::bytes");
	if (form->group != (form->target == EMU_GLOBAL))
		return emu_reject(decode, "copies to .global complete by .bulk_group, copies to "
					  "shared memory by an mbarrier");
	if ((form->target == EMU_GLOBAL) == (form->source == EMU_GLOBAL) &&
	    form->target == EMU_GLOBAL)
		return emu_reject(decode, "one side of a bulk copy is shared memory");
	form->multicast = emu_take(decode, "multicast::cluster");
	form->byte_mask = emu_take(decode, "cp_mask");
	if (form->byte_mask && !emu_want_target(decode, EMU_P_SM100, ".cp_mask"))
		return false;
	form->policy = emu_take_cache(decode);
	emu_take_semantics(decode);
	if (decode->opcode->name[3] == 'r' && !decode_reduction(decode, form))
		return false;
	want += !form->group + form->multicast + form->byte_mask + form->policy;
	emu_results(ins, 0);
	if (!emu_want_operands(decode, want, want) || !emu_want_address(decode, 0) ||
	    !emu_want_address(decode, 1) || !emu_want_value(decode, 2, 32))
		return false;
	for (int i = 3; i < want; i++)
		if (i == 3 && !form->group
			    ? !emu_want_address(decode, i)
			    : !emu_want_value(decode, i, ins->operands[i].bits == 16 ? 16 : 64))
			return false;
	return true;
}

static enum emu_step execute_nothing(struct emu_warp *warp, const struct emu_ins *ins,
				     uint32_t mask)
{
	(void)warp, (void)ins, (void)mask;
	return EMU_NEXT;
}

static bool decode_prefetch(struct emu_decode *decode)
{
	int policy;

	emu_take(decode, "L2");
	policy = emu_take_cache(decode);
	emu_take_space(decode, EMU_GLOBAL);
	emu_results(decode->ins, 0);
	return emu_want_operands(decode, 2 + policy, 2 + policy) && emu_want_address(decode, 0) &&
	       emu_want_value(decode, 1, 32);
}

static const struct emu_opcode rows[] = {
	{"cp.async.bulk", decode_bulk, execute_bulk, EMU_P_NO_RESULT | EMU_P_SM90},
	{"cp.reduce.async.bulk", decode_bulk, execute_bulk, EMU_P_NO_RESULT | EMU_P_SM90},
	{"cp.async.bulk.commit_group", decode_commit, execute_commit, EMU_P_SM90},
	{"cp.async.bulk.wait_group", decode_wait, execute_wait, EMU_P_NO_RESULT | EMU_P_SM90},
	{"cp.async.bulk.prefetch", decode_prefetch, execute_nothing, EMU_P_NO_RESULT | EMU_P_SM90},
};

EMU_OPCODE_TABLE(bulk, rows);

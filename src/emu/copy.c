/* cp.async: copies of 4 to 16 bytes from global to shared memory, in groups of each thread. */
#include "hazard.h"
#include "lanes.h"
#include "schedule.h"
#include <stdio.h>
#include <stdlib.h>

struct lane_copy {
	uint64_t from;
	uint64_t to;    /* 32-bit shared address */
	uint32_t bytes; /* read; the rest of the destination becomes zero */
	uint32_t group;
};

struct copy_op {
	struct emu_engine_op op;
	struct emu_warp *warp;
	uint32_t lanes, size;
	bool arrives; /* no copy: an arrival at the mbarrier in `to` */
	struct lane_copy lane[EMU_LANES];
	struct copy_op *next, **link; /* of the warp */
};

struct emu_copy_groups {
	struct emu_waitable waitable;
	struct copy_op *open;        /* not complete */
	uint32_t current[EMU_LANES]; /* number of the group that takes new copies */
};

static struct emu_copy_groups *groups_of(struct emu_warp *warp)
{
	if (!warp->copies)
		warp->copies = calloc(1, sizeof *warp->copies);
	if (!warp->copies)
		emu_fault(warp, -1, "out-of-memory", "the host has no memory");
	return warp->copies;
}

void emu_copies_free(struct emu_warp *warp)
{
	free(warp->copies);
	warp->copies = NULL;
}

static void copy_lane(struct copy_op *copy, int lane)
{
	struct emu_where where = copy->op.where;
	struct lane_copy *c = &copy->lane[lane];
	uint8_t *to;
	const uint8_t *from = NULL;

	where.lane = lane;
	to = emu_mem_shared(copy->warp->cta, &where, c->to, copy->size, copy->size, EMU_WRITE,
			    NULL);
	if (to && c->bytes)
		from = emu_mem_global(where.grid, &where, c->from, c->bytes, copy->size, EMU_READ);
	if (!to || (c->bytes && !from))
		return;
	if (c->bytes)
		memcpy(to, from, c->bytes);
	memset(to + c->bytes, 0, copy->size - c->bytes);
}

static void arrive_lane(struct copy_op *copy, int lane)
{
	struct emu_where where = copy->op.where;
	struct emu_mbarrier *barrier;

	where.lane = lane;
	barrier = emu_mbarrier_at(copy->warp->cta, &where, copy->lane[lane].to);
	if (barrier && copy->warp->order)
		emu_order_copies_arrive(copy->warp->order, barrier, copy->lane[lane].group + 1);
	if (barrier)
		emu_mbarrier_arrive(barrier, &where, EMU_MBARRIER_ARRIVE, 1);
}

static void complete(struct emu_engine_op *op)
{
	struct copy_op *copy = (struct copy_op *)op;
	struct emu_worker *worker = copy->warp->worker;

	EMU_FOR_LANES(l, copy->lanes)
	{
		if (copy->arrives) {
			arrive_lane(copy, (int)l);
			continue;
		}
		copy_lane(copy, (int)l);
		worker->counters.global_read += copy->lane[l].bytes;
		worker->counters.shared_written += copy->size;
	}
	*copy->link = copy->next;
	if (copy->next)
		copy->next->link = copy->link;
	copy->link = NULL;
	emu_async_of_cta(copy->warp->cta)->open_reads--;
	emu_wake(&copy->warp->copies->waitable);
}

static void discard(struct emu_engine_op *op)
{
	free(op);
}

static struct copy_op *new_op(struct emu_warp *warp, uint32_t mask)
{
	struct emu_copy_groups *groups = groups_of(warp);
	struct copy_op *copy = groups ? calloc(1, sizeof *copy) : NULL;

	if (!copy)
		return NULL;
	copy->op.complete = complete;
	copy->op.discard = discard;
	copy->op.where = emu_here(warp, -1);
	copy->op.order = groups; /* arrivals come behind the copies before them */
	copy->warp = warp;
	copy->lanes = mask;
	EMU_FOR_LANES(l, mask)
	{
		copy->lane[l].group = groups->current[l];
	}
	copy->next = groups->open;
	if (copy->next)
		copy->next->link = &copy->next;
	copy->link = &groups->open;
	groups->open = copy;
	emu_async_of_cta(warp->cta)->open_reads++;
	return copy;
}

/* The zeros behind the bytes that are read are written too. */
static void watch(struct emu_warp *warp, const struct copy_op *copy)
{
	struct emu_moment moment = emu_moment_of(warp->order, EMU_ACTOR_CP_ASYNC, 0);
	struct emu_access from =
		emu_access_by(warp->order, EMU_ACTOR_CP_ASYNC, -1, moment, EMU_READ);
	struct emu_access to =
		emu_access_by(warp->order, EMU_ACTOR_CP_ASYNC, -1, moment, EMU_WRITE);

	EMU_FOR_LANES(l, copy->lanes)
	{
		const struct lane_copy *c = &copy->lane[l];
		struct emu_cta *owner = emu_shared_owner(warp->cta, c->to);

		from.moment.epoch = to.moment.epoch = c->group + 1;
		from.lane = to.lane = (uint8_t)l;
		if (c->bytes)
			emu_access_global(&from, c->from, c->bytes);
		if (owner)
			emu_access_shared(&to, owner,
					  (uint32_t)(c->to & EMU_SHARED_MASK) - EMU_SHARED_BASE,
					  copy->size);
	}
}

static enum emu_step copy_async(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct emu_operand *third = ins->operand_count > 3 ? &ins->operands[3] : NULL;
	uint32_t size = (uint32_t)ins->operands[2].value;
	struct copy_op *copy = new_op(warp, mask);

	if (!copy)
		return emu_fault(warp, -1, "out-of-memory", "the host has no memory");
	copy->size = size;
	EMU_FOR_LANES(l, mask)
	{
		struct lane_copy *c = &copy->lane[l];

		c->to = (uint32_t)emu_address(warp, &ins->operands[0], (int)l);
		c->from = emu_address(warp, &ins->operands[1], (int)l);
		c->bytes = size;
		if (third && third->kind == EMU_O_PREDICATE)
			c->bytes = emu_predicate(warp, third) >> l & 1 ? 0 : size;
		else if (third && ins->variant)
			c->bytes = (uint32_t)emu_value(warp, third, (int)l);
		if (c->bytes > size)
			c->bytes = size;
	}
	if (warp->order)
		watch(warp, copy);
	emu_engine_issue(warp->cta->cluster, &copy->op);
	return warp->grid->stopped ? EMU_STOPPED : EMU_NEXT;
}

/* cp.async.ca.shared.global [to], [from], size {, bytes read | ignore} {, policy} */
static bool decode_copy(struct emu_decode *decode)
{
	static const char *const caches[] = {"ca", "cg", NULL};
	struct emu_ins *ins = decode->ins;
	int cache = emu_take_one(decode, caches), count = ins->operand_count;
	bool policy = emu_take_cache(decode);
	int64_t size;

	if (cache < 0)
		return emu_reject(decode, "needs .ca or .cg");
	if ((!emu_take(decode, "shared") && !emu_take(decode, "shared::cta")) ||
	    !emu_take(decode, "global"))
		return emu_reject(decode, "goes from .global to .shared");
	if (!emu_want_operands(decode, 3 + policy, 4 + policy) || !emu_want_address(decode, 0) ||
	    !emu_want_address(decode, 1) || !emu_want_immediate(decode, 2, 4, 16))
		return false;
	size = ins->operands[2].value;
	if (cache == 1 ? size != 16 : size != 4 && size != 8 && size != 16)
		return emu_reject(decode, "%s",
				  cache ? ".cg copies 16 bytes" : ".ca copies 4, 8 or 16 bytes");
	ins->variant = count - policy > 3;
	if (ins->variant && ins->operands[3].kind != EMU_O_PREDICATE &&
	    !emu_want_value(decode, 3, 32))
		return false;
	if (ins->variant == 0 && policy) /* the policy is not a size */
		ins->operand_count = 3;
	return true;
}

static enum emu_step commit(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_copy_groups *groups = groups_of(warp);

	(void)ins;
	if (!groups)
		return EMU_STOPPED;
	EMU_FOR_LANES(l, mask)
	{
		groups->current[l]++;
	}
	return EMU_NEXT;
}

static bool decode_commit(struct emu_decode *decode)
{
	return emu_want_operands(decode, 0, 0);
}

static void describe(const struct emu_waitable *waitable, const struct emu_split *split, char *text,
		     size_t size)
{
	(void)waitable;
	(void)split;
	snprintf(text, size, "its cp.async copies");
}

/* What the lane that has waited for the fewest has: the warp counts as one. */
static void order_waited(struct emu_warp *warp, const struct emu_copy_groups *groups, uint32_t mask,
			 bool all, uint32_t count)
{
	uint32_t least = UINT32_MAX;

	EMU_FOR_LANES(l, mask)
	{
		uint32_t waited = all                          ? groups->current[l] + 1
				  : groups->current[l] > count ? groups->current[l] - count
							       : 0;

		least = waited < least ? waited : least;
	}
	emu_order_waited_generic(warp->order, warp->order->copies, least);
}

/* Waits until at most `count` of the newest groups are incomplete. */
static enum emu_step wait(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_copy_groups *groups = groups_of(warp);
	bool all = ins->operand_count == 0;
	uint32_t count = all ? 0 : (uint32_t)ins->operands[0].value;

	if (!groups)
		return EMU_STOPPED;
	for (struct copy_op *copy = groups->open; copy; copy = copy->next)
		EMU_FOR_LANES(l, copy->lanes & mask)
		{
			uint32_t age = groups->current[l] - copy->lane[l].group;

			/* The group that is not committed has age 0. */
			if (!copy->arrives && (all || age > count)) {
				groups->waitable.describe = describe;
				return emu_block_on(warp, &groups->waitable);
			}
		}
	if (warp->order)
		order_waited(warp, groups, mask, all, count);
	return EMU_NEXT;
}

static bool decode_wait(struct emu_decode *decode)
{
	bool all = !strcmp(decode->opcode->name, "cp.async.wait_all");

	decode->ins->flags |= EMU_I_SYNC;
	return all ? emu_want_operands(decode, 0, 0)
		   : emu_want_operands(decode, 1, 1) && emu_want_immediate(decode, 0, 0, INT32_MAX);
}

/*
 * Arrives when the thread's earlier copies are complete.  Without .noinc the
 * arrival is one that the barrier did not count on: it changes nothing but for
 * the time until it happens.
 */
static enum emu_step arrive(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct copy_op *copy;

	if (!ins->variant) {
		/* The pending count rises by one now and falls when the copies are there. */
		EMU_FOR_LANES(l, mask)
		{
			struct emu_where where = emu_here(warp, (int)l);
			uint64_t address = emu_address(warp, &ins->operands[0], (int)l);
			struct emu_mbarrier *barrier;

			if (!emu_shared_address(warp, (int)l, (enum emu_space)ins->space, &address))
				return EMU_STOPPED;
			barrier = emu_mbarrier_at(warp->cta, &where, address);
			if (!barrier)
				return EMU_STOPPED;
			barrier->pending++;
		}
	}
	copy = new_op(warp, mask);
	if (!copy)
		return emu_fault(warp, -1, "out-of-memory", "the host has no memory");
	copy->arrives = true;
	EMU_FOR_LANES(l, mask)
	{
		uint64_t address = emu_address(warp, &ins->operands[0], (int)l);

		if (!emu_shared_address(warp, (int)l, (enum emu_space)ins->space, &address)) {
			copy->lanes = 0;
			break;
		}
		copy->lane[l].to = address;
	}
	emu_engine_issue(warp->cta->cluster, &copy->op);
	return warp->grid->stopped ? EMU_STOPPED : EMU_NEXT;
}

static bool decode_arrive(struct emu_decode *decode)
{
	decode->ins->variant = emu_take(decode, "noinc");
	decode->ins->space = (uint8_t)emu_take_space(decode, EMU_GENERIC);
	if (emu_take_type(decode) != EMU_T_B64)
		return emu_reject(decode, "needs .b64");
	return emu_want_operands(decode, 1, 1) && emu_want_address(decode, 0);
}

static const struct emu_opcode opcodes[] = {
	{"cp.async", decode_copy, copy_async, EMU_P_NO_RESULT},
	{"cp.async.commit_group", decode_commit, commit, EMU_P_NO_RESULT},
	{"cp.async.wait_group", decode_wait, wait, EMU_P_NO_RESULT},
	{"cp.async.wait_all", decode_wait, wait, EMU_P_NO_RESULT},
	{"cp.async.mbarrier.arrive", decode_arrive, arrive, EMU_P_NO_RESULT},
};

EMU_OPCODE_TABLE(copy, opcodes);

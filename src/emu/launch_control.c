/*
 * clusterlaunchcontrol: a running cluster takes over one that has not started (9.3).
 *
 * The response of 16 bytes is opaque in the ISA; here it is a mark, then the
 * first CTA's coordinates.
 */
#include "hazard.h"

static const uint32_t taken = 0x636c6301u, refused = 0x636c6300u;

struct cancel_op {
	struct emu_engine_op op;
	struct emu_cta *cta;
	uint64_t response, barrier;
	bool multicast;
};

/* The first CTA of the next cluster, which then will not start. */
static bool take_cluster(struct emu_grid *grid, uint32_t first[3])
{
	uint64_t index = grid->next_cluster;

	if (index >= grid->cluster_count)
		return false;
	grid->next_cluster++;
	for (int i = 0; i < 3; i++) {
		uint32_t clusters = grid->grid[i] / grid->cluster[i];
		first[i] = (uint32_t)(index % clusters) * grid->cluster[i];
		index /= clusters;
	}
	return true;
}

/* The hardware may refuse although there is work left, which then starts by itself. */
static bool is_refused(const struct emu_cluster *cluster)
{
	struct emu_worker *worker = cluster->worker;

	return worker->grid->mode == EMU_RANDOM && emu_random(&worker->random) % 8 == 0;
}

static void complete(struct emu_engine_op *base)
{
	struct cancel_op *op = (struct cancel_op *)base;
	uint32_t response[4] = {refused, 0, 0, 0};
	int own = (int)(op->response >> EMU_SHARED_RANK);
	int first = op->multicast ? 0 : own,
	    last = op->multicast ? op->op.cluster->cta_count - 1 : own;

	if (!is_refused(op->op.cluster) && take_cluster(op->op.cluster->grid, response + 1))
		response[0] = taken;
	for (int rank = first; rank <= last; rank++) {
		uint64_t window = (uint64_t)rank << EMU_SHARED_RANK;
		struct emu_mbarrier *barrier;
		struct emu_cta *owner;
		void *to = emu_mem_shared(op->cta, &op->op.where,
					  (op->response & EMU_SHARED_MASK) | window, 16, 16,
					  EMU_WRITE, &owner);
		if (!to)
			return;
		memcpy(to, response, sizeof response);
		emu_changed(op->op.cluster->worker);
		barrier = emu_mbarrier_at(op->cta, &op->op.where,
					  (op->barrier & EMU_SHARED_MASK) | window);
		if (!barrier || !emu_mbarrier_complete_tx(barrier, &op->op.where, 16))
			return;
	}
}

static void watch(struct emu_warp *warp, int lane, const struct cancel_op *op)
{
	int own = (int)(op->response >> EMU_SHARED_RANK) % EMU_MAX_CLUSTER;

	for (int rank = 0; rank < op->op.cluster->cta_count; rank++) {
		uint64_t window = (uint64_t)rank << EMU_SHARED_RANK;
		const struct emu_mbarrier *barrier;
		struct emu_access access;

		if (!op->multicast && rank != own)
			continue;
		barrier = emu_mbarrier_at(op->cta, &op->op.where,
					  (op->barrier & EMU_SHARED_MASK) | window);
		if (!barrier)
			return;
		emu_order_barrier_used(warp->order, barrier);
		access = emu_access_by(warp->order, EMU_ACTOR_BARRIER, lane,
				       emu_moment_of_barrier(warp->order, barrier), EMU_WRITE);
		emu_access_shared(&access, op->op.cluster->ctas[rank],
				  (uint32_t)(op->response & EMU_SHARED_MASK) - EMU_SHARED_BASE, 16);
		emu_order_barrier_arrive(warp->order, barrier, false);
	}
}

static enum emu_step execute_cancel(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_where where = emu_here(warp, -1);

	if (warp->order && mask && warp->cta->cluster->refused)
		emu_report_rule(&where, EMU_RULE_LAUNCH_ENDED, NULL,
				"this cluster asks again after a request was refused");
	EMU_FOR_LANES(lane, mask)
	{
		struct cancel_op *op = emu_op_new(warp, (int)lane, sizeof *op, complete);
		if (!op)
			return EMU_STOPPED;
		op->cta = warp->cta;
		op->multicast = ins->variant;
		op->response = emu_address(warp, &ins->operands[0], (int)lane);
		op->barrier = emu_address(warp, &ins->operands[1], (int)lane);
		if (!emu_shared_address(warp, (int)lane, ins->space, &op->response) ||
		    !emu_shared_address(warp, (int)lane, ins->space, &op->barrier)) {
			op->op.discard(&op->op);
			return EMU_STOPPED;
		}
		if (warp->order)
			watch(warp, (int)lane, op);
		emu_op_issue(warp, op);
	}
	return EMU_NEXT;
}

static const uint32_t *response_of(struct emu_warp *warp, const struct emu_ins *ins, int lane)
{
	return (const uint32_t *)&emu_row128(warp, ins->operands[1].ref)[lane];
}

static bool is_response(struct emu_warp *warp, const uint32_t *response, int lane)
{
	if (response[0] == taken || response[0] == refused)
		return true;
	emu_fault(warp, lane, "launch-control",
		  "the 16 bytes are no response of clusterlaunchcontrol.try_cancel: they were read "
		  "before its mbarrier completed, or were overwritten");
	return false;
}

static enum emu_step execute_is_canceled(struct emu_warp *warp, const struct emu_ins *ins,
					 uint32_t mask)
{
	uint32_t result = 0;

	EMU_FOR_LANES(lane, mask)
	{
		const uint32_t *response = response_of(warp, ins, (int)lane);
		if (!is_response(warp, response, (int)lane))
			return EMU_STOPPED;
		if (response[0] == taken)
			result |= 1u << lane;
		else
			warp->cta->cluster->refused = true;
	}
	emu_set_predicate(warp, &ins->operands[0], mask, result);
	return EMU_NEXT;
}

enum {
	all_coordinates = 3
};

static enum emu_step execute_first_ctaid(struct emu_warp *warp, const struct emu_ins *ins,
					 uint32_t mask)
{
	EMU_FOR_LANES(lane, mask)
	{
		const uint32_t *response = response_of(warp, ins, (int)lane);
		if (!is_response(warp, response, (int)lane))
			return EMU_STOPPED;
		if (ins->variant < all_coordinates) {
			emu_set_value(warp, &ins->operands[0], (int)lane,
				      response[1 + ins->variant]);
			continue;
		}
		for (int i = 0; i < 4; i++)
			emu_set_value(warp, emu_item(&ins->operands[0], i), (int)lane,
				      i < 3 ? response[1 + i] : 0);
	}
	return EMU_NEXT;
}

/* ---- decode ---------------------------------------------------------------------- */

static bool decode_cancel(struct emu_decode *decode)
{
	emu_take(decode, "async");
	decode->ins->space = emu_take_space(decode, EMU_GENERIC);
	if (!emu_take(decode, "mbarrier::complete_tx::bytes"))
		return emu_reject(decode, ".mbarrier::complete_tx::bytes is missing");
	decode->ins->variant = emu_take(decode, "multicast::cluster::all");
	emu_take(decode, "b128");
	emu_results(decode->ins, 0);
	return (!decode->ins->variant || emu_want_target(decode, EMU_P_SPECIFIC, ".multicast")) &&
	       emu_want_operands(decode, 2, 2) && emu_want_address(decode, 0) &&
	       emu_want_address(decode, 1);
}

static bool decode_is_canceled(struct emu_decode *decode)
{
	emu_take(decode, "pred");
	emu_take(decode, "b128");
	emu_results(decode->ins, 1);
	return emu_want_operands(decode, 2, 2) && emu_want_predicate(decode, 0) &&
	       emu_want_register(decode, 1, 128);
}

static bool decode_first_ctaid(struct emu_decode *decode)
{
	static const char *const suffixes[] = {"::x", "::y", "::z", NULL};
	const char *suffix = strstr(decode->opcode->name, "ctaid") + strlen("ctaid");
	int which = all_coordinates;

	for (int i = 0; suffixes[i]; i++)
		if (!strcmp(suffix, suffixes[i]))
			which = i;
	decode->ins->variant = (uint8_t)which;
	emu_take(decode, "v4");
	emu_take(decode, "b32");
	emu_take(decode, "b128");
	emu_results(decode->ins, 1);
	return emu_want_operands(decode, 2, 2) &&
	       (which == all_coordinates ? emu_want_vector(decode, 0, 4, 32)
					 : emu_want_register(decode, 0, 32)) &&
	       emu_want_register(decode, 1, 128);
}

static const struct emu_opcode rows[] = {
	{"clusterlaunchcontrol.try_cancel", decode_cancel, execute_cancel,
	 EMU_P_NO_RESULT | EMU_P_SM100},
	{"clusterlaunchcontrol.query_cancel.is_canceled", decode_is_canceled, execute_is_canceled,
	 EMU_P_SM100},
	{"clusterlaunchcontrol.query_cancel.get_first_ctaid", decode_first_ctaid,
	 execute_first_ctaid, EMU_P_SM100},
	{"clusterlaunchcontrol.query_cancel.get_first_ctaid::x", decode_first_ctaid,
	 execute_first_ctaid, EMU_P_SM100},
	{"clusterlaunchcontrol.query_cancel.get_first_ctaid::y", decode_first_ctaid,
	 execute_first_ctaid, EMU_P_SM100},
	{"clusterlaunchcontrol.query_cancel.get_first_ctaid::z", decode_first_ctaid,
	 execute_first_ctaid, EMU_P_SM100},
};

EMU_OPCODE_TABLE(launch_control, rows);

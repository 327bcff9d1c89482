/* tcgen05.mma, cp, shift and commit: decode and issue (2.1, 5.2, 5.3, 5.5). */
#include "hazard.h"
#include "mma.h"

#include <stdlib.h>

/* ---- mma: what the text says ------------------------------------------------------- */

struct mma_form {
	struct emu_mma_form form;
	bool ashift;
	int metadata, idesc, scale_a, scale_b, mask, enable, tail; /* operands, or -1 */
};

struct mma_op {
	struct emu_engine_op op;
	struct emu_mma_request request;
};

static void complete_mma(struct emu_engine_op *base)
{
	emu_mma_run(&((struct mma_op *)base)->request);
}

static bool enabled(struct emu_warp *warp, const struct emu_operand *operand, int lane)
{
	return emu_predicate(warp, operand) >> lane & 1;
}

static void fill_request(struct emu_warp *warp, const struct emu_ins *ins, int lane,
			 struct emu_mma_request *request)
{
	const struct mma_form *form = ins->extra;
	const struct emu_operand *operands = ins->operands;

	request->form = form->form;
	request->where = emu_here(warp, lane);
	request->cta = warp->cta;
	request->d = (uint32_t)emu_address(warp, &operands[0], lane);
	if (form->form.a_in_tmem)
		request->a_address = (uint32_t)emu_address(warp, &operands[1], lane);
	else
		request->a_descriptor = emu_value(warp, &operands[1], lane);
	request->b_descriptor = emu_value(warp, &operands[2], lane);
	request->idesc = (uint32_t)emu_value(warp, &operands[form->idesc], lane);
	if (form->metadata >= 0)
		request->metadata = (uint32_t)emu_address(warp, &operands[form->metadata], lane);
	if (form->scale_a >= 0) {
		request->scale_a = (uint32_t)emu_address(warp, &operands[form->scale_a], lane);
		request->scale_b = (uint32_t)emu_address(warp, &operands[form->scale_b], lane);
	}
	if (form->mask >= 0)
		for (uint32_t i = 0; i < operands[form->mask].count; i++)
			request->disabled[i] = (uint32_t)emu_value(
				warp, emu_item(&operands[form->mask], (int)i), lane);
	request->accumulate = enabled(warp, &operands[form->enable], lane);
	request->ashift = form->ashift;
	if (form->tail >= 0 && form->form.weight_stationary)
		request->zero_columns = emu_value(warp, &operands[form->tail], lane);
	else if (form->tail >= 0)
		request->scale_d = (int)operands[form->tail].value;
}

static const void *order_of(struct emu_warp *warp, int lane)
{
	return &emu_async_of_warp(warp)->lanes[lane].commit_order;
}

static enum emu_step execute_mma(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	if (warp->order && mask & (mask - 1))
		emu_watch_issue(warp, ins, mask);
	EMU_FOR_LANES(lane, mask)
	{
		struct mma_op *op = emu_op_new(warp, (int)lane, sizeof *op, complete_mma);
		if (!op)
			return EMU_STOPPED;
		fill_request(warp, ins, (int)lane, &op->request);
		op->op.order = order_of(warp, (int)lane);
		if (warp->order)
			emu_mma_watch(&op->request, warp->order, (int)lane);
		emu_op_issue(warp, op);
	}
	return EMU_NEXT;
}

/* ---- mma: decode ------------------------------------------------------------------------ */

static bool take_scale_vector(struct emu_decode *decode, struct emu_mma_form *form)
{
	static const char *const sizes[] = {"scale_vec::1X", "scale_vec::2X", "scale_vec::4X",
					    "block16",       "block32",       NULL};
	static const int vectors[3][5] = {{1, 0, 0, 0, 1}, {0, 2, 0, 0, 2}, {0, 2, 4, 4, 2}};
	bool block_scale = emu_take(decode, "block_scale");
	int size = emu_take_one(decode, sizes), row = (int)form->kind - EMU_KIND_MXF8F6F4;

	if (size == -2)
		return false;
	if (row < 0) {
		if (block_scale || size >= 0)
			return emu_reject(decode, "kind::%s takes no scale factors",
					  emu_kind_name(form->kind));
		return true;
	}
	if (!block_scale)
		return emu_reject(decode, "kind::%s needs .block_scale", emu_kind_name(form->kind));
	if (size < 0 && form->kind == EMU_KIND_MXF4NVF4)
		return emu_reject(decode, "kind::mxf4nvf4 needs .block16, .block32, .scale_vec::2X "
					  "or .scale_vec::4X");
	form->scale_vector = vectors[row][size < 0 ? 4 : size];
	if (!form->scale_vector)
		return emu_reject(decode, "kind::%s does not take .%s", emu_kind_name(form->kind),
				  sizes[size]);
	return true;
}

/* a or b0 .. b3, and what is done with what it holds. */
static bool is_collector(const char *name)
{
	static const char *const uses[] = {"::fill", "::use", "::lastuse", "::discard"};
	const char *use = strstr(name, "::");

	if (!use || !(name[0] == 'a' ? use == name + 1
				     : name[0] == 'b' && use == name + 2 && name[1] >= '0' &&
					       name[1] <= '3'))
		return false;
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		if (!strcmp(use, uses[i]))
			return true;
	return false;
}

static bool take_collector(struct emu_decode *decode, struct mma_form *form)
{
	const char *collector = emu_take_prefix(decode, "collector::");

	form->ashift = emu_take(decode, "ashift");
	if (form->ashift && !form->form.a_in_tmem)
		return emu_reject(decode, ".ashift needs A in tensor memory");
	if (!collector)
		return true;
	if (!is_collector(collector))
		return emu_reject(decode, "there is no .collector::%s", collector);
	if ((collector[0] == 'b') != form->form.weight_stationary)
		return emu_reject(decode, "collector::a belongs to tcgen05.mma without .ws, "
					  "collector::b0 to b3 to .ws");
	if (form->ashift && (strstr(collector, "fill") || strstr(collector, "::use")))
		return emu_reject(decode, ".ashift cannot be combined with collector::%s",
				  collector);
	return true;
}

static bool take_kind(struct emu_decode *decode, struct emu_mma_form *form)
{
	const char *kind = emu_take_prefix(decode, "kind::");

	if (!kind)
		return emu_reject(decode, ".kind:: is missing");
	for (int i = EMU_KIND_F16; i <= EMU_KIND_MXF4NVF4; i++)
		if (!strcmp(kind, emu_kind_name((enum emu_kind)i))) {
			form->kind = (enum emu_kind)i;
			form->k96_allowed = decode->module->sm == 103;
			return (form->kind != EMU_KIND_I8 ||
				emu_want_target(decode, EMU_P_SM100_OR_110, "kind::i8")) &&
			       take_scale_vector(decode, form);
		}
	return emu_reject(decode, "there is no .kind::%s", kind);
}

static bool want_enable(struct emu_decode *decode, int i)
{
	const struct emu_operand *operand = &decode->ins->operands[i];

	if (operand->kind == EMU_O_IMMEDIATE)
		return emu_want_immediate(decode, i, 0, 1);
	return emu_want_predicate(decode, i);
}

/* Operands behind the two matrices, in the order of 2.1. */
static bool place_operands(struct emu_decode *decode, struct mma_form *form)
{
	const struct emu_ins *ins = decode->ins;
	bool scaled = form->form.scale_vector;
	int at = 3, masks = form->form.cta_group == 2 ? 8 : 4;

	form->metadata = form->form.sparse ? at++ : -1;
	form->idesc = at++;
	form->scale_a = scaled ? at++ : -1;
	form->scale_b = scaled ? at++ : -1;
	form->mask = form->tail = -1;
	if (!scaled && at < ins->operand_count && ins->operands[at].kind == EMU_O_VECTOR) {
		form->mask = at++;
		if (form->form.weight_stationary)
			return emu_reject(decode, ".ws takes no mask of disabled lanes");
		if (!emu_want_vector(decode, form->mask, masks, 32))
			return false;
	}
	form->enable = at++;
	if (!scaled && ins->operand_count == at + 1)
		form->tail = at++;
	return emu_want_operands(decode, at, at);
}

static bool want_tail(struct emu_decode *decode, const struct mma_form *form)
{
	if (form->tail < 0)
		return true;
	if (form->form.weight_stationary)
		return emu_want_value(decode, form->tail, 64);
	if (form->form.kind > EMU_KIND_TF32)
		return emu_reject(decode, "scale-input-d exists for kind::f16 and kind::tf32 only");
	return emu_want_immediate(decode, form->tail, 0, 15);
}

static bool decode_mma(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct mma_form *form = emu_decode_extra(decode, sizeof *form);

	if (!form)
		return false;
	ins->extra = form;
	emu_results(ins, 0);
	form->form.sparse = emu_take(decode, "sp");
	form->form.weight_stationary = emu_take(decode, "ws");
	form->form.a_in_tmem = ins->operand_count > 1 && ins->operands[1].kind == EMU_O_ADDRESS;
	if (!emu_take_cta_group(decode, &form->form.cta_group) || !take_kind(decode, &form->form) ||
	    !take_collector(decode, form))
		return false;
	if (form->form.weight_stationary && (form->form.cta_group == 2 || form->form.scale_vector))
		return emu_reject(decode, ".ws exists for cta_group::1 and kinds without scale "
					  "factors");
	if (!place_operands(decode, form) || !emu_want_address(decode, 0) ||
	    !(form->form.a_in_tmem ? emu_want_address(decode, 1) : emu_want_value(decode, 1, 64)) ||
	    !emu_want_value(decode, 2, 64) || !emu_want_value(decode, form->idesc, 32) ||
	    !want_enable(decode, form->enable) || !want_tail(decode, form))
		return false;
	if (form->metadata >= 0 && !emu_want_address(decode, form->metadata))
		return false;
	return form->scale_a < 0 ||
	       (emu_want_address(decode, form->scale_a) && emu_want_address(decode, form->scale_b));
}

/* ---- commit ------------------------------------------------------------------------------ */

struct commit_op {
	struct emu_engine_op op;
	struct emu_cta *cta;
	uint64_t address;
	uint32_t ranks;
	struct emu_clocks *clocks; /* of the thread at issue; NULL in fast mode */
};

static void complete_commit(struct emu_engine_op *base)
{
	struct commit_op *op = (struct commit_op *)base;

	for (uint32_t rank = 0; rank < EMU_MAX_CLUSTER; rank++) {
		uint64_t address = (op->address & EMU_SHARED_MASK) | (uint64_t)rank
									     << EMU_SHARED_RANK;
		struct emu_mbarrier *barrier;

		if (!(op->ranks >> rank & 1))
			continue;
		barrier = emu_mbarrier_at(op->cta, &op->op.where, address);
		if (barrier && op->clocks)
			emu_order_commit_arrives(barrier, op->clocks);
		if (!barrier ||
		    !emu_mbarrier_arrive(barrier, &op->op.where, EMU_MBARRIER_COMMIT, 1))
			return;
	}
}

static void discard_commit(struct emu_engine_op *base)
{
	struct commit_op *op = (struct commit_op *)base;

	if (op->clocks)
		emu_clocks_free(op->clocks);
	free(op->clocks);
	free(op);
}

static enum emu_step commit_one(struct emu_warp *warp, const struct emu_ins *ins, int lane)
{
	uint64_t address = emu_address(warp, &ins->operands[0], lane);
	uint32_t ranks;
	struct commit_op *op;

	/*
	 * The unit sees a shared address even in the generic form: Triton passes the
	 * 32-bit one in a 64-bit register without a state space.
	 */
	if (!emu_shared_address(warp, lane, address >> 32 ? ins->space : EMU_SHARED_CLUSTER,
				&address))
		return EMU_STOPPED;
	ranks = address >> EMU_SHARED_RANK < EMU_MAX_CLUSTER ? 1u << (address >> EMU_SHARED_RANK)
							     : 0;
	if (ins->operand_count == 2)
		ranks = (uint32_t)emu_value(warp, &ins->operands[1], lane) & 0xffff;
	if (ranks == 0 || ranks >> warp->cta->cluster->cta_count)
		return emu_fault(warp, lane, "multicast-mask",
				 "tcgen05.commit to the CTAs 0x%x; the cluster has %d CTAs, bit i "
				 "names rank i",
				 ranks, warp->cta->cluster->cta_count);
	op = emu_op_new(warp, lane, sizeof *op, complete_commit);
	if (!op)
		return EMU_STOPPED;
	op->cta = warp->cta;
	op->address = address;
	op->ranks = ranks;
	op->op.order = order_of(warp, lane);
	op->op.discard = discard_commit;
	if (warp->order)
		op->clocks = emu_order_commit(warp->order, lane);
	emu_op_issue(warp, op);
	return EMU_NEXT;
}

static enum emu_step execute_commit(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	if (warp->order && mask & (mask - 1))
		emu_watch_issue(warp, ins, mask);
	EMU_FOR_LANES(lane, mask)
	if (commit_one(warp, ins, (int)lane) == EMU_STOPPED)
		return EMU_STOPPED;
	return EMU_NEXT;
}

static bool decode_commit(struct emu_decode *decode)
{
	int group;
	bool multicast;

	if (!emu_take_cta_group(decode, &group))
		return false;
	if (!emu_take(decode, "mbarrier::arrive::one"))
		return emu_reject(decode, ".mbarrier::arrive::one is missing");
	decode->ins->space = emu_take_space(decode, EMU_GENERIC);
	if (decode->ins->space == EMU_SHARED)
		return emu_reject(decode, "the mbarrier's space is .shared::cluster or generic");
	multicast = emu_take(decode, "multicast::cluster");
	emu_take(decode, "b64");
	emu_results(decode->ins, 0);
	return emu_want_operands(decode, 1 + multicast, 1 + multicast) &&
	       emu_want_address(decode, 0) && (!multicast || emu_want_register(decode, 1, 16));
}

static const struct emu_opcode rows[] = {
	{"tcgen05.mma", decode_mma, execute_mma, EMU_P_NO_RESULT | EMU_P_SM100A},
	{"tcgen05.commit", decode_commit, execute_commit, EMU_P_NO_RESULT | EMU_P_SM100A},
};

EMU_OPCODE_TABLE(tcgen05_mma, rows);

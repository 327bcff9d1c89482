/*
 * st.async and red.async: small stores into a CTA of the cluster that an mbarrier
 * counts, and releases to global memory (8.3).
 */
#include "hazard.h"
#include "lanes.h"

enum {
	max_bytes = 16
};

struct store_form {
	int count; /* elements of a vector */
	enum emu_type type;
	bool reduce;
	enum emu_reduction reduction;
};

struct store_op {
	struct emu_engine_op op;
	const struct store_form *form;
	struct emu_cta *cta;
	uint64_t target, barrier;
	uint64_t phase; /* of the mbarrier, at issue */
	uint8_t data[max_bytes];
};

static void complete(struct emu_engine_op *base)
{
	struct store_op *op = (struct store_op *)base;
	uint32_t width = emu_types[op->form->type].bits / 8;
	uint32_t size = width * (uint32_t)op->form->count;
	struct emu_mbarrier *barrier;
	struct emu_cta *owner;
	uint8_t *to = emu_mem_shared(op->cta, &op->op.where, op->target, size, size,
				     op->form->reduce ? EMU_UPDATE : EMU_WRITE, &owner);

	if (!to)
		return;
	if (op->form->reduce)
		emu_reduce(op->form->reduction, op->form->type, to, op->data, size);
	else
		memcpy(to, op->data, size);
	emu_changed(op->op.cluster->worker);
	barrier = emu_mbarrier_at(op->cta, &op->op.where, op->barrier);
	if (barrier && op->op.cluster->hazards)
		emu_order_landed(&op->op.where, barrier, op->phase);
	if (barrier)
		emu_mbarrier_complete_tx(barrier, &op->op.where, size);
}

static bool watch(struct emu_warp *warp, int lane, struct store_op *op)
{
	uint32_t size = emu_types[op->form->type].bits / 8u * (uint32_t)op->form->count;
	const struct emu_mbarrier *barrier = emu_mbarrier_at(op->cta, &op->op.where, op->barrier);
	struct emu_cta *owner = emu_shared_owner(op->cta, op->target);
	struct emu_access access;

	if (!barrier || !owner)
		return barrier;
	emu_order_barrier_used(warp->order, barrier);
	op->phase = barrier->phase;
	access = emu_access_by(warp->order, EMU_ACTOR_BARRIER, lane,
			       emu_moment_of_barrier(warp->order, barrier),
			       op->form->reduce ? EMU_UPDATE : EMU_WRITE);
	access.proxy = false;
	emu_access_shared(&access, owner,
			  (uint32_t)(op->target & EMU_SHARED_MASK) - EMU_SHARED_BASE, size);
	emu_order_barrier_arrive(warp->order, barrier, false);
	return true;
}

static bool fill(struct emu_warp *warp, const struct emu_ins *ins, int lane, struct store_op *op)
{
	uint32_t width = emu_types[op->form->type].bits / 8;

	op->cta = warp->cta;
	op->target = emu_address(warp, &ins->operands[0], lane);
	op->barrier = emu_address(warp, &ins->operands[2], lane);
	for (int i = 0; i < op->form->count; i++) {
		uint64_t value = emu_value(warp, emu_item(&ins->operands[1], i), lane);
		memcpy(op->data + (uint32_t)i * width, &value, width);
	}
	if (!emu_shared_address(warp, lane, ins->space, &op->target) ||
	    !emu_shared_address(warp, lane, ins->space, &op->barrier))
		return false;
	if (op->target >> EMU_SHARED_RANK == op->barrier >> EMU_SHARED_RANK)
		return true;
	emu_fault(warp, lane, "mbarrier-rank",
		  "the data go to CTA rank %u, the mbarrier lies in rank %u; it must lie in the "
		  "same CTA",
		  (unsigned)(op->target >> EMU_SHARED_RANK),
		  (unsigned)(op->barrier >> EMU_SHARED_RANK));
	return false;
}

static enum emu_step execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(lane, mask)
	{
		struct store_op *op = emu_op_new(warp, (int)lane, sizeof *op, complete);
		if (!op)
			return EMU_STOPPED;
		op->form = ins->extra;
		if (!fill(warp, ins, (int)lane, op) ||
		    (warp->order && !watch(warp, (int)lane, op))) {
			op->op.discard(&op->op);
			return EMU_STOPPED;
		}
		emu_op_issue(warp, op);
	}
	return EMU_NEXT;
}

static bool legal(const struct store_form *form)
{
	enum emu_type type = form->type;

	if (!form->reduce)
		return emu_types[type].bits == 32 || emu_types[type].bits == 64;
	return emu_reduction_in_shared(form->reduction, type);
}

/* With .release to .global nothing tells when the store is done: it is done at once. */
static bool decode_release(struct emu_decode *decode, bool reduce)
{
	struct emu_ins *ins = decode->ins;
	struct emu_atomic *atomic = reduce ? emu_decode_extra(decode, sizeof *atomic) : NULL;
	int bits;

	if (!emu_want_target(decode, EMU_P_SM100, "the form without an mbarrier"))
		return false;
	if (strstr(ins->mnemonic, ".cluster") || strstr(ins->mnemonic, ".cta"))
		return emu_reject(decode, "its scope is .gpu or .sys");
	emu_take_semantics(decode);
	ins->space = emu_take_space(decode, EMU_GENERIC);
	if (ins->semantics != EMU_RELEASE && ins->semantics != (EMU_RELEASE | EMU_RELAXED))
		return emu_reject(decode, ".release or .mbarrier::complete_tx::bytes is missing");
	if (ins->space != EMU_GLOBAL && ins->space != EMU_GENERIC)
		return emu_reject(decode, "without an mbarrier it goes to .global");
	if (reduce && (!atomic || !emu_take(decode, "add")))
		return emu_reject(decode, "without an mbarrier it takes .add");
	ins->type = (uint8_t)emu_take_type(decode);
	ins->count = 1;
	bits = emu_types[ins->type].bits;
	if (ins->type == EMU_T_NONE || bits > 64 ||
	    (reduce && (bits < 32 || emu_types[ins->type].class == EMU_CLASS_BITS ||
			emu_types[ins->type].class == EMU_CLASS_FLOAT)))
		return emu_reject(decode, "does not exist for .%s", emu_types[ins->type].text);
	ins->execute = reduce ? emu_atomic_execute : emu_store;
	if (reduce) {
		*atomic = (struct emu_atomic){.operation = EMU_REDUCE_ADD, .items = 1};
		emu_atomic_of_type(atomic,
				   ins->type == EMU_T_S64 ? EMU_T_U64 : (enum emu_type)ins->type);
		ins->extra = atomic;
		ins->flags |= EMU_I_POLL | EMU_I_SYNC;
	}
	return emu_want_operands(decode, 2, 2) && emu_want_address(decode, 0) &&
	       emu_want_value(decode, 1, bits < 16 ? 16 : bits);
}

static bool decode_store(struct emu_decode *decode)
{
	static const char *const vectors[] = {"v2", "v4", NULL};
	struct emu_ins *ins = decode->ins;
	struct store_form *form = emu_decode_extra(decode, sizeof *form);
	int vector, which;

	if (!form)
		return false;
	ins->extra = form;
	emu_results(ins, 0);
	form->reduce = decode->opcode->name[0] == 'r';
	if (!emu_take(decode, "mbarrier::complete_tx::bytes"))
		return decode_release(decode, form->reduce);
	ins->space = emu_take_space(decode, EMU_SHARED_CLUSTER);
	emu_take_semantics(decode);
	vector = emu_take_one(decode, vectors);
	which = form->reduce ? emu_take_one(decode, emu_reduction_names) : 0;
	if (vector == -2 || which == -2)
		return false;
	if (which < 0)
		return emu_reject(decode, "an operation is missing: .add, .min, .max, .inc, .dec, "
					  ".and, .or or .xor");
	form->reduction = (enum emu_reduction)which;
	form->count = vector < 0 ? 1 : 2 << vector;
	form->type = emu_take_type(decode);
	if (!legal(form) || form->count * emu_types[form->type].bits > 8 * max_bytes)
		return emu_reject(decode, "this operation does not exist for %d x .%s", form->count,
				  emu_types[form->type].text);
	return emu_want_operands(decode, 3, 3) && emu_want_address(decode, 0) &&
	       (form->count > 1
			? emu_want_vector(decode, 1, form->count, emu_types[form->type].bits)
			: emu_want_value(decode, 1, emu_types[form->type].bits)) &&
	       emu_want_address(decode, 2);
}

static const struct emu_opcode rows[] = {
	{"st.async", decode_store, execute, EMU_P_NO_RESULT | EMU_P_SM90},
	{"red.async", decode_store, execute, EMU_P_NO_RESULT | EMU_P_SM90},
};

EMU_OPCODE_TABLE(async_store, rows);

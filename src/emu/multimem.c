/*
 * multimem: accesses of an address behind which each of several devices has memory of its own
 * (9.5).
 *
 * The emulator is one device.  Any global address stands for such an object with one copy: what
 * reduces over the copies when it loads gives the one that is there, what stores or reduces to all
 * goes to it.
 */
#include "async.h"
#include "lanes.h"

enum multimem {
	LOAD,
	REDUCE,
	STORE
};

static bool is_half(enum emu_type type)
{
	return type == EMU_T_F16 || type == EMU_T_BF16 || type == EMU_T_F16X2 ||
	       type == EMU_T_BF16X2;
}

static bool is_quarter(enum emu_type type)
{
	return type == EMU_T_E4M3 || type == EMU_T_E5M2 || type == EMU_T_E4M3X2 ||
	       type == EMU_T_E5M2X2 || type == EMU_T_E4M3X4 || type == EMU_T_E5M2X4;
}

/* Vectors are of 16 bytes at most, and narrow elements come in vectors only. */
static bool legal_vector(enum emu_type type, int items)
{
	int bits = emu_types[type].bits;

	if (!is_half(type) && !is_quarter(type) && type != EMU_T_F32)
		return items == 1;
	switch (bits) {
	case 8:
		return items == 4 || items == 8;
	case 16:
		return items >= 2 && items <= 8;
	default:
		return items <= 4;
	}
}

static bool legal_operation(enum emu_reduction reduction, enum emu_type type)
{
	if (is_half(type) || is_quarter(type))
		return reduction <= EMU_REDUCE_MAX;
	return reduction != EMU_REDUCE_INC && reduction != EMU_REDUCE_DEC &&
	       emu_reduction_legal(reduction, type);
}

static bool take_operation(struct emu_decode *decode, enum multimem what, enum emu_type type,
			   int items, int *reduction)
{
	static const char *const accumulators[] = {"acc::f32", "acc::f16", NULL};
	int accumulator = what == LOAD ? emu_take_one(decode, accumulators) : -1;

	*reduction = emu_take_one(decode, emu_reduction_names);
	if (*reduction == -2 || accumulator == -2)
		return false;
	if (*reduction < 0)
		return emu_reject(decode, "an operation is missing: .add, .min, .max, .and, .or "
					  "or .xor");
	if (!legal_operation((enum emu_reduction) * reduction, type) ||
	    (what == REDUCE && (is_quarter(type) || (*reduction != EMU_REDUCE_ADD && items == 1 &&
						     emu_types[type].class == EMU_CLASS_FLOAT))))
		return emu_reject(decode, ".%s does not exist for %d x .%s",
				  emu_reduction_names[*reduction], items, emu_types[type].text);
	if (accumulator >= 0 &&
	    (*reduction != EMU_REDUCE_ADD || !(accumulator ? is_quarter(type) : is_half(type))))
		return emu_reject(decode, ".%s does not go with .%s.%s", accumulators[accumulator],
				  emu_reduction_names[*reduction], emu_types[type].text);
	return true;
}

static bool take_form(struct emu_decode *decode, enum multimem what, int address, int *reduction)
{
	static const char *const vectors[] = {"v2", "v4", "v8", NULL};
	struct emu_ins *ins = decode->ins;
	int vector = emu_take_one(decode, vectors), items = vector < 0 ? 1 : 2 << vector, bits;

	if (vector == -2)
		return false;
	emu_take_semantics(decode);
	ins->count = (uint8_t)items;
	ins->type = (uint8_t)emu_take_type(decode);
	bits = emu_types[ins->type].bits;
	if (ins->type == EMU_T_NONE || bits < 8 || bits > 64 ||
	    !legal_vector((enum emu_type)ins->type, items))
		return emu_reject(decode, "does not exist for %d x .%s", items,
				  emu_types[ins->type].text);
	if (is_quarter((enum emu_type)ins->type) &&
	    !emu_want_target(decode, EMU_P_SM100 | EMU_P_SPECIFIC, "an 8-bit type"))
		return false;
	if (what != STORE &&
	    !take_operation(decode, what, (enum emu_type)ins->type, items, reduction))
		return false;
	if (!emu_want_operands(decode, 2, 2) || !emu_want_address(decode, address))
		return false;
	ins->space = (uint8_t)emu_access_space(decode, address);
	if (ins->space != EMU_GLOBAL && ins->space != EMU_GENERIC)
		return emu_reject(decode, "goes to global memory");
	return items > 1  ? emu_want_vector(decode, !address, items, bits)
	       : !address ? emu_want_value(decode, 1, bits)
			  : emu_want_register(decode, 0, bits);
}

static bool decode_load(struct emu_decode *decode)
{
	int reduction;

	decode->ins->flags |= EMU_I_POLL;
	return take_form(decode, LOAD, 1, &reduction);
}

static bool decode_store(struct emu_decode *decode)
{
	return take_form(decode, STORE, 0, NULL);
}

static bool decode_reduce(struct emu_decode *decode)
{
	struct emu_atomic *atomic = emu_decode_extra(decode, sizeof *atomic);

	if (!atomic || !take_form(decode, REDUCE, 0, &atomic->operation))
		return false;
	decode->ins->extra = atomic;
	decode->ins->flags |= EMU_I_POLL | EMU_I_SYNC;
	emu_atomic_of_type(atomic, (enum emu_type)decode->ins->type);
	atomic->items = decode->ins->count;
	if (!decode->ins->semantics)
		decode->ins->semantics = EMU_RELAXED;
	return true;
}

static const struct emu_opcode opcodes[] = {
	{"multimem.ld_reduce", decode_load, emu_load, EMU_P_SM90},
	{"multimem.red", decode_reduce, emu_atomic_execute, EMU_P_NO_RESULT | EMU_P_SM90},
	{"multimem.st", decode_store, emu_store, EMU_P_NO_RESULT | EMU_P_SM90},
};

EMU_OPCODE_TABLE(multimem, opcodes);

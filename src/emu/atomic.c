/* atom and red: read, modify, write, lane after lane. */
#include "async.h"
#include "lanes.h"
#include "number.h"

#include <math.h>

enum {
	EXCHANGE = 100,
	COMPARE_AND_SWAP
};

static bool is_shared(enum emu_space space)
{
	return space == EMU_SHARED || space == EMU_SHARED_CLUSTER;
}

static float flushed(float value)
{
	return fabsf(value) < 0x1p-126f ? copysignf(0.0f, value) : value;
}

/* Global memory takes subnormal f32 for zero, shared memory adds them as they are. */
static uint32_t sum_f32(enum emu_space space, uint32_t a, uint32_t b)
{
	float x = emu_f32_of_bits(a), y = emu_f32_of_bits(b);
	float value = is_shared(space) ? x + y : flushed(flushed(x) + flushed(y));

	return isnan(value) ? 0x7fffffff : emu_bits_of_f32(value);
}

static void add_f32(enum emu_space space, uint8_t *at, struct emu_u128 operand)
{
	uint32_t bits;

	memcpy(&bits, at, sizeof bits);
	bits = sum_f32(space, bits, (uint32_t)operand.low);
	memcpy(at, &bits, sizeof bits);
}

/* Shared memory adds f64 as an instruction does, which makes a NaN quiet, memory's before the
 * operand's. */
static void add_f64(enum emu_space space, uint8_t *at, struct emu_u128 operand)
{
	const uint64_t quiet = 0x0008000000000000u;
	uint64_t old, bits;
	double value;

	memcpy(&old, at, sizeof old);
	memcpy(&value, at, sizeof value);
	emu_reduce(EMU_REDUCE_ADD, EMU_T_F64, at, (const uint8_t *)&operand, sizeof value);
	if (!is_shared(space))
		return;
	if (isnan(value)) {
		bits = old | quiet;
	} else {
		memcpy(&bits, at, sizeof bits);
		memcpy(&value, at, sizeof value);
		bits |= isnan(value) ? quiet : 0;
	}
	memcpy(at, &bits, sizeof bits);
}

static struct emu_u128 value_of(const struct emu_warp *warp, const struct emu_operand *operand,
				int lane)
{
	if (operand->kind == EMU_O_REGISTER && operand->bits == 128)
		return emu_row128(warp, operand->ref)[lane];
	if (operand->kind == EMU_O_FLOAT || operand->kind == EMU_O_IMMEDIATE) {
		uint64_t value = operand->ref & EMU_BANK_CONSTANT
					 ? emu_row32(warp, operand->ref)[lane]
					 : (uint64_t)operand->value;

		return (struct emu_u128){value, 0};
	}
	return (struct emu_u128){emu_value(warp, operand, lane), 0};
}

static void set(struct emu_warp *warp, const struct emu_operand *operand, int lane,
		struct emu_u128 value)
{
	if (operand->kind == EMU_O_REGISTER && operand->bits == 128)
		emu_row128(warp, operand->ref)[lane] = value;
	else
		emu_set_value(warp, operand, lane, value.low);
}

static bool modify(const struct emu_atomic *atomic, enum emu_space space, uint8_t *at,
		   struct emu_u128 operand, struct emu_u128 other)
{
	struct emu_u128 old = {0, 0}, now;

	memcpy(&old, at, atomic->size);
	switch (atomic->operation) {
	case EXCHANGE:
		memcpy(at, &operand, atomic->size);
		break;
	case COMPARE_AND_SWAP:
		if (!memcmp(&old, &operand, atomic->size))
			memcpy(at, &other, atomic->size);
		break;
	default:
		if (atomic->operation == EMU_REDUCE_ADD && atomic->element == EMU_T_F32)
			add_f32(space, at, operand);
		else if (atomic->operation == EMU_REDUCE_ADD && atomic->element == EMU_T_F64)
			add_f64(space, at, operand);
		else
			emu_reduce((enum emu_reduction)atomic->operation, atomic->element, at,
				   (const uint8_t *)&operand, atomic->size);
	}
	now = (struct emu_u128){0, 0};
	memcpy(&now, at, atomic->size);
	return now.low != old.low || now.high != old.high;
}

/* ---- single words, the most common -------------------------------------------------------- */

/* The row of a value; NULL where it has none. */
static const uint32_t *row_of(const struct emu_warp *warp, const struct emu_operand *operand)
{
	bool constant = operand->kind == EMU_O_FLOAT || operand->kind == EMU_O_IMMEDIATE;

	if (operand->kind == EMU_O_REGISTER || (constant && operand->ref & EMU_BANK_CONSTANT))
		return emu_row32(warp, operand->ref);
	return NULL;
}

/* Whether there is a case for it in modify_words(). */
static bool is_word(const struct emu_atomic *atomic)
{
	switch (atomic->operation) {
	case EMU_REDUCE_ADD:
		return atomic->element == EMU_T_U32 || atomic->element == EMU_T_S32 ||
		       atomic->element == EMU_T_F32;
	case EMU_REDUCE_MIN:
	case EMU_REDUCE_MAX:
		return atomic->element == EMU_T_U32 || atomic->element == EMU_T_S32;
	case EMU_REDUCE_AND:
	case EMU_REDUCE_OR:
	case EMU_REDUCE_XOR:
	case EXCHANGE:
	case COMPARE_AND_SWAP:
		return atomic->element == EMU_T_B32;
	default:
		return false;
	}
}

/* x and y are the operands' rows, `old` the result's, NULL where there is none; whether memory
 * changed. */
static bool modify_words(const struct emu_atomic *atomic, const struct emu_lanes *lanes,
			 uint32_t mask, const uint32_t *x, const uint32_t *y, uint32_t *old)
{
	bool is_signed = atomic->element == EMU_T_S32;
	uint32_t changed = 0;

#define EACH(value)                                                                                \
	{                                                                                          \
		EMU_FOR_LANES(l, mask)                                                             \
		{                                                                                  \
			uint32_t a, b = x[l], now;                                                 \
                                                                                                   \
			memcpy(&a, lanes->at[l], sizeof a);                                        \
			now = value;                                                               \
			memcpy(lanes->at[l], &now, sizeof now);                                    \
			changed |= a ^ now;                                                        \
			if (old)                                                                   \
				old[l] = a;                                                        \
		}                                                                                  \
		break;                                                                             \
	}
	switch (atomic->operation) {
	case EMU_REDUCE_ADD:
		if (atomic->element == EMU_T_F32)
			EACH(sum_f32(lanes->space, a, b))
		EACH(a + b)
	case EMU_REDUCE_MIN:
		EACH((is_signed ? (int32_t)a < (int32_t)b : a < b) ? a : b)
	case EMU_REDUCE_MAX:
		EACH((is_signed ? (int32_t)a > (int32_t)b : a > b) ? a : b)
	case EMU_REDUCE_AND:
		EACH(a & b)
	case EMU_REDUCE_OR:
		EACH(a | b)
	case EMU_REDUCE_XOR:
		EACH(a ^ b)
	case EXCHANGE:
		EACH(b)
	default:
		EACH(a == b ? y[l] : a)
	}
#undef EACH
	return changed;
}

/* False where it needs the general way. */
static bool execute_words(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			  const struct emu_lanes *lanes, bool *changed)
{
	const struct emu_atomic *atomic = ins->extra;
	const struct emu_operand *operand = &ins->operands[atomic->returns + 1],
				 *result = ins->operands;
	const uint32_t *x, *y = NULL;
	uint32_t *old = NULL;

	if (atomic->items != 1 || !is_word(atomic) || !(x = row_of(warp, operand)) ||
	    (atomic->operation == COMPARE_AND_SWAP && !(y = row_of(warp, operand + 1))))
		return false;
	if (atomic->returns && result->kind == EMU_O_REGISTER)
		old = emu_row32(warp, result->ref);
	*changed = modify_words(atomic, lanes, mask, x, y, old);
	return true;
}

enum emu_step emu_atomic_execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct emu_atomic *atomic = ins->extra;
	const struct emu_operand *operand = &ins->operands[atomic->returns + 1];
	uint32_t total = atomic->size * (uint32_t)atomic->items;
	struct emu_lanes lanes;
	bool changed = false;

	if (!emu_resolve(warp, ins, atomic->returns, mask, total, EMU_UPDATE, &lanes))
		return EMU_STOPPED;
	EMU_FOR_LANES(l, execute_words(warp, ins, mask, &lanes, &changed) ? 0 : mask)
	{
		for (int i = 0; i < atomic->items; i++) {
			uint8_t *at = lanes.at[l] + (uint32_t)i * atomic->size;
			struct emu_u128 old = {0, 0}, other = {0, 0};
			struct emu_u128 value = value_of(warp, emu_item(operand, i), (int)l);

			if (atomic->operation == COMPARE_AND_SWAP)
				other = value_of(warp, &operand[1], (int)l);
			memcpy(&old, at, atomic->size);
			changed |= modify(atomic, lanes.space, at, value, other);
			if (atomic->returns)
				set(warp, emu_item(&ins->operands[0], i), (int)l, old);
		}
	}
	emu_count_bytes(warp, lanes.space, (uint64_t)total * emu_count(mask), false);
	emu_count_bytes(warp, lanes.space, (uint64_t)total * emu_count(mask), true);
	if (changed)
		emu_changed(warp->worker);
	return EMU_NEXT;
}

static bool legal(const struct emu_atomic *atomic, enum emu_type type)
{
	int bits = emu_types[type].bits;
	bool untyped = emu_types[type].class == EMU_CLASS_BITS;

	switch (atomic->operation) {
	case EXCHANGE:
		return untyped && (bits == 32 || bits == 64 || bits == 128);
	case COMPARE_AND_SWAP:
		return untyped && (bits == 16 || bits == 32 || bits == 64 || bits == 128);
	case EMU_REDUCE_MIN:
	case EMU_REDUCE_MAX:
		if (atomic->items > 1)
			return emu_reduction_legal((enum emu_reduction)atomic->operation,
						   atomic->element);
		return emu_types[type].class != EMU_CLASS_FLOAT &&
		       emu_reduction_legal((enum emu_reduction)atomic->operation, atomic->element);
	default:
		return emu_reduction_legal((enum emu_reduction)atomic->operation, atomic->element);
	}
}

void emu_atomic_of_type(struct emu_atomic *atomic, enum emu_type type)
{
	atomic->element = type == EMU_T_F16X2    ? EMU_T_F16
			  : type == EMU_T_BF16X2 ? EMU_T_BF16
						 : type;
	atomic->size = emu_types[type].bits / 8u;
}

static bool choose(struct emu_decode *decode, struct emu_atomic *atomic, enum emu_type type)
{
	emu_atomic_of_type(atomic, type);
	if (type == EMU_T_NONE || !legal(atomic, type))
		return emu_reject(decode, "the operation does not exist for .%s",
				  emu_types[type].text);
	if (atomic->items > 1 && emu_types[type].class != EMU_CLASS_FLOAT)
		return emu_reject(decode, "vectors have floating point elements");
	if (atomic->items * emu_types[type].bits > 128)
		return emu_reject(decode, "a vector has at most 128 bits");
	return true;
}

static bool want_item(struct emu_decode *decode, int i, int items, int bits)
{
	if (items > 1 || decode->ins->operands[i].kind == EMU_O_VECTOR)
		return emu_want_vector(decode, i, items, bits);
	if (bits == 128)
		return emu_want_register(decode, i, bits);
	return emu_want_value(decode, i, bits);
}

static bool decode(struct emu_decode *decode, bool returns)
{
	static const char *const swaps[] = {"exch", "cas", NULL};
	static const char *const vectors[] = {"v2", "v4", "v8", NULL};
	struct emu_ins *ins = decode->ins;
	struct emu_atomic *atomic = emu_decode_extra(decode, sizeof *atomic);
	bool policy = emu_take_cache(decode);
	int swap = emu_take_one(decode, swaps), vector = emu_take_one(decode, vectors), count;
	enum emu_type type;

	if (!atomic || swap == -2 || vector == -2)
		return false;
	emu_take_semantics(decode);
	if (!returns && (ins->semantics & EMU_ACQUIRE & ~EMU_RELAXED))
		return emu_reject(decode, "red is .relaxed or .release");
	if (!ins->semantics)
		ins->semantics = EMU_RELAXED;
	if (!ins->scope)
		ins->scope = EMU_SCOPE_GPU;
	atomic->returns = returns;
	atomic->operation = swap < 0 ? emu_take_one(decode, emu_reduction_names) : EXCHANGE + swap;
	if (atomic->operation < 0)
		return emu_reject(decode, "needs an operation such as .add");
	if (swap >= 0 && !returns)
		return emu_reject(decode, "red has no .%s", swaps[swap]);
	emu_take(decode, "noftz");
	atomic->items = vector < 0 ? 1 : 2 << vector;
	count = 2 + returns + (swap == 1);
	if (!emu_want_operands(decode, count, count + policy) || !emu_want_address(decode, returns))
		return false;
	ins->space = (uint8_t)emu_access_space(decode, returns);
	type = emu_take_type(decode);
	if (!choose(decode, atomic, type))
		return false;
	if (ins->space == EMU_CONST || ins->space == EMU_PARAM || ins->space == EMU_LOCAL)
		return emu_reject(decode, "goes to global or shared memory");
	ins->extra = atomic;
	ins->flags |= EMU_I_POLL | EMU_I_SYNC;
	int bits = emu_types[type].bits;

	if (returns && ins->operands[0].kind != EMU_O_SINK &&
	    !(atomic->items > 1 ? emu_want_vector(decode, 0, atomic->items, bits)
				: emu_want_register(decode, 0, bits)))
		return false;
	return want_item(decode, returns + 1, atomic->items, bits) &&
	       (swap != 1 || want_item(decode, returns + 2, 1, bits));
}

static bool decode_atom(struct emu_decode *d)
{
	return decode(d, true);
}

static bool decode_red(struct emu_decode *d)
{
	return decode(d, false);
}

static const struct emu_opcode opcodes[] = {
	{"atom", decode_atom, emu_atomic_execute, 0},
	{"red", decode_red, emu_atomic_execute, EMU_P_NO_RESULT},
};

EMU_OPCODE_TABLE(atomic, opcodes);

/* Predicates: comparing, selecting, and logic on lane masks. */
#include "alu.h"
#include "number.h"
#include "predicate.h"
#include <math.h>

#define LANE(byte, bit) ((byte) >> (bit)&1 ? EMU_FULL : 0)
#define LANES(b)                                                                                   \
	{                                                                                          \
		LANE(b, 0), LANE(b, 1), LANE(b, 2), LANE(b, 3), LANE(b, 4), LANE(b, 5),            \
			LANE(b, 6), LANE(b, 7)                                                     \
	}
#define FOUR(b)       LANES(b), LANES((b) + 1), LANES((b) + 2), LANES((b) + 3)
#define SIXTEEN(b)    FOUR(b), FOUR((b) + 4), FOUR((b) + 8), FOUR((b) + 12)
#define SIXTY_FOUR(b) SIXTEEN(b), SIXTEEN((b) + 16), SIXTEEN((b) + 32), SIXTEEN((b) + 48)

const uint32_t emu_byte_lanes[256][8] = {SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128),
					 SIXTY_FOUR(192)};

enum comparison {
	EQ,
	NE,
	LT,
	LE,
	GT,
	GE,
	LO,
	LS,
	HI,
	HS,
	EQU,
	NEU,
	LTU,
	LEU,
	GTU,
	GEU,
	NUM,
	NAN_
};

static const char *const comparisons[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "lo",
					  "ls",  "hi",  "hs",  "equ", "neu", "ltu", "leu",
					  "gtu", "geu", "num", "nan", NULL};

enum combination {
	NONE,
	AND,
	OR,
	XOR
};

static const char *const combinations[] = {"and", "or", "xor", NULL};

struct comparing {
	void (*compare)(const void *a, const void *b, enum comparison comparison, uint8_t *flags);
	enum comparison comparison;
	enum combination combination;
	bool flush, half, pair, bfloat;
	bool value_float; /* set: result is 1.0, not all ones */
	enum emu_type result;
};

/* ---- 32 comparisons at once --------------------------------------------------------- */

#define EACH(condition)                                                                            \
	for (int l = 0; l < EMU_LANES; l++) {                                                      \
		V x = (V)p[l], y = (V)q[l];                                                        \
		flags[l] = condition;                                                              \
	}                                                                                          \
	break;
#define COMPARE_INTEGER(name, cell, type)                                                          \
	static void name(const void *a, const void *b, enum comparison comparison, uint8_t *flags) \
	{                                                                                          \
		typedef type V;                                                                    \
		const cell *p = a, *q = b;                                                         \
                                                                                                   \
		switch (comparison) {                                                              \
		case EQ:                                                                           \
			EACH(x == y)                                                               \
		case NE:                                                                           \
			EACH(x != y)                                                               \
		case LT:                                                                           \
		case LO:                                                                           \
			EACH(x < y)                                                                \
		case LE:                                                                           \
		case LS:                                                                           \
			EACH(x <= y)                                                               \
		case GT:                                                                           \
		case HI:                                                                           \
			EACH(x > y)                                                                \
		default:                                                                           \
			EACH(x >= y)                                                               \
		}                                                                                  \
	}
#define COMPARE_FLOAT(name, type)                                                                  \
	static void name(const void *a, const void *b, enum comparison comparison, uint8_t *flags) \
	{                                                                                          \
		typedef type V;                                                                    \
		const type *p = a, *q = b;                                                         \
                                                                                                   \
		switch (comparison) {                                                              \
		case EQ:                                                                           \
			EACH(x == y)                                                               \
		case NE:                                                                           \
			EACH(x<y || x> y)                                                          \
		case LT:                                                                           \
			EACH(x < y)                                                                \
		case LE:                                                                           \
			EACH(x <= y)                                                               \
		case GT:                                                                           \
			EACH(x > y)                                                                \
		case GE:                                                                           \
			EACH(x >= y)                                                               \
		case EQU:                                                                          \
			EACH(!(x < y || x > y))                                                    \
		case NEU:                                                                          \
			EACH(x != y)                                                               \
		case LTU:                                                                          \
			EACH(!(x >= y))                                                            \
		case LEU:                                                                          \
			EACH(!(x > y))                                                             \
		case GTU:                                                                          \
			EACH(!(x <= y))                                                            \
		case GEU:                                                                          \
			EACH(!(x < y))                                                             \
		case NUM:                                                                          \
			EACH(x == x && y == y)                                                     \
		default:                                                                           \
			EACH(x != x || y != y)                                                     \
		}                                                                                  \
	}

COMPARE_INTEGER(compare_u16, uint32_t, uint16_t)
COMPARE_INTEGER(compare_s16, uint32_t, int16_t)
COMPARE_INTEGER(compare_u32, uint32_t, uint32_t)
COMPARE_INTEGER(compare_s32, uint32_t, int32_t)
COMPARE_INTEGER(compare_u64, uint64_t, uint64_t)
COMPARE_INTEGER(compare_s64, uint64_t, int64_t)
COMPARE_FLOAT(compare_f32, float)
COMPARE_FLOAT(compare_f64, double)

static float flushed(float value)
{
	uint32_t bits = emu_bits_of_f32(value);

	return bits & 0x7f800000u ? value : emu_f32_of_bits(bits & 0x80000000u);
}

static void widen(const struct comparing *how, const uint32_t *row, int half, float *out)
{
	for (int l = 0; l < EMU_LANES; l++) {
		uint16_t bits = (uint16_t)(row[l] >> 16 * half);

		if (!how->half)
			out[l] = flushed(emu_f32_of_bits(row[l]));
		else
			out[l] = how->bfloat ? emu_bf16_to_f32(bits) : emu_f16_to_f32(bits);
		if (how->half && how->flush && !how->bfloat && !(bits & 0x7c00))
			out[l] = 0;
	}
}

static uint32_t compare(const struct emu_warp *warp, const struct emu_ins *ins,
			const struct comparing *how, int a, int half)
{
	const void *p = emu_row(warp, ins->ref[a]), *q = emu_row(warp, ins->ref[a + 1]);
	uint8_t flags[EMU_LANES];
	float x[EMU_LANES], y[EMU_LANES];

	if (how->half || how->flush) {
		widen(how, p, half, x);
		widen(how, q, half, y);
		p = x;
		q = y;
	}
	how->compare(p, q, how->comparison, flags);
	return emu_pack_flags(flags);
}

static uint32_t combine(enum combination combination, uint32_t a, uint32_t b)
{
	switch (combination) {
	case AND:
		return a & b;
	case OR:
		return a | b;
	case XOR:
		return a ^ b;
	default:
		return a;
	}
}

/* ---- setp, set ------------------------------------------------------------------------- */

static enum emu_step setp(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct comparing *how = ins->extra;
	const struct emu_operand *first = emu_item(&ins->operands[0], 0);
	uint32_t third = how->combination ? emu_predicate(warp, &ins->operands[3]) : 0;
	uint32_t low = compare(warp, ins, how, 1, 0);

	if (ins->operands[0].kind == EMU_O_PAIR) {
		uint32_t high = how->pair ? compare(warp, ins, how, 1, 1) : ~low;

		emu_set_predicate(warp, &ins->operands[0].items[1], mask,
				  combine(how->combination, high, third));
	}
	emu_set_predicate(warp, first, mask, combine(how->combination, low, third));
	return EMU_NEXT;
}

static enum emu_step set(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct comparing *how = ins->extra;
	uint32_t third = how->combination ? emu_predicate(warp, &ins->operands[3]) : 0;
	uint32_t low = combine(how->combination, compare(warp, ins, how, 1, 0), third);
	uint32_t high =
		how->pair ? combine(how->combination, compare(warp, ins, how, 1, 1), third) : 0;
	uint32_t one = how->result == EMU_T_F32                                   ? 0x3f800000u
		       : how->result == EMU_T_F16 || how->result == EMU_T_F16X2   ? 0x3c00u
		       : how->result == EMU_T_BF16 || how->result == EMU_T_BF16X2 ? 0x3f80u
		       : how->pair || emu_types[how->result].bits == 16           ? 0xffffu
										  : EMU_FULL;

	EMU_FOR_LANES(l, mask)
	{
		uint32_t value = low >> l & 1 ? one : 0;

		if (how->pair)
			value |= high >> l & 1 ? one << 16 : 0;
		emu_row32(warp, ins->ref[0])[l] = value;
	}
	return EMU_NEXT;
}

static bool choose_comparison(struct emu_decode *decode, struct comparing *how, enum emu_type type,
			      int *bits)
{
	static const struct {
		enum emu_type type;
		void (*compare)(const void *, const void *, enum comparison, uint8_t *);
	} list[] = {
		{EMU_T_B16, compare_u16},   {EMU_T_U16, compare_u16},  {EMU_T_S16, compare_s16},
		{EMU_T_B32, compare_u32},   {EMU_T_U32, compare_u32},  {EMU_T_S32, compare_s32},
		{EMU_T_B64, compare_u64},   {EMU_T_U64, compare_u64},  {EMU_T_S64, compare_s64},
		{EMU_T_F32, compare_f32},   {EMU_T_F64, compare_f64},  {EMU_T_F16, compare_f32},
		{EMU_T_F16X2, compare_f32}, {EMU_T_BF16, compare_f32}, {EMU_T_BF16X2, compare_f32}};

	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (list[i].type == type)
			how->compare = list[i].compare;
	if (!how->compare)
		return emu_reject(decode, "cannot compare .%s", emu_types[type].text);
	*bits = emu_types[type].bits;
	how->pair = type == EMU_T_F16X2 || type == EMU_T_BF16X2;
	how->bfloat = type == EMU_T_BF16 || type == EMU_T_BF16X2;
	how->half = how->pair || type == EMU_T_F16 || type == EMU_T_BF16;
	how->flush = emu_take(decode, "ftz");
	bool floating = emu_types[type].class == EMU_CLASS_FLOAT;

	if ((how->comparison > HS && !floating) ||
	    (how->comparison >= LO && how->comparison <= HS &&
	     emu_types[type].class != EMU_CLASS_UNSIGNED))
		return emu_reject(decode, "'.%s' does not go with .%s",
				  comparisons[how->comparison], emu_types[type].text);
	if (how->flush && (!floating || type == EMU_T_F64))
		return emu_reject(decode, "'.ftz' does not go with .%s", emu_types[type].text);
	if (emu_types[type].class == EMU_CLASS_BITS && how->comparison > NE)
		return emu_reject(decode, "bits are compared with .eq or .ne alone");
	return true;
}

static bool decode_comparison(struct emu_decode *decode, struct comparing **result, int *bits)
{
	struct comparing *how = emu_decode_extra(decode, sizeof *how);
	int comparison = emu_take_one(decode, comparisons), combination;
	bool is_set = !strcmp(decode->opcode->name, "set");
	enum emu_type type;

	if (!how || comparison < 0)
		return emu_reject(decode, "needs a comparison such as .eq");
	combination = emu_take_one(decode, combinations);
	if (combination == -2)
		return false;
	how->comparison = (enum comparison)comparison;
	how->combination = (enum combination)(combination + 1);
	if (is_set)
		how->result = emu_take_type(decode);
	type = emu_take_type(decode);
	if (type == EMU_T_NONE)
		return emu_reject(decode, "needs a type");
	*result = how;
	decode->ins->extra = how;
	return choose_comparison(decode, how, type, bits) &&
	       emu_want_operands(decode, 3 + (how->combination != NONE),
				 3 + (how->combination != NONE)) &&
	       emu_want_value(decode, 1, *bits) && emu_want_value(decode, 2, *bits) &&
	       (how->combination == NONE || emu_want_predicate(decode, 3));
}

static bool decode_setp(struct emu_decode *decode)
{
	struct emu_operand *result = decode->ins->operands;
	struct comparing *how;
	int bits;

	if (!decode_comparison(decode, &how, &bits))
		return false;
	if (result->kind == EMU_O_PREDICATE)
		return !how->pair || emu_reject(decode, "a comparison of pairs gives p|q");
	if (result->kind != EMU_O_PAIR)
		return emu_reject(decode, "the result is a predicate p or two p|q");
	for (int i = 0; i < 2; i++)
		if (result->items[i].kind != EMU_O_PREDICATE && result->items[i].kind != EMU_O_SINK)
			return emu_reject(decode, "the result is a predicate p or two p|q");
	return true;
}

static bool decode_set(struct emu_decode *decode)
{
	struct comparing *how;
	int bits;

	if (!decode_comparison(decode, &how, &bits))
		return false;
	if (how->result == EMU_T_NONE || emu_types[how->result].bits > 32 ||
	    emu_types[how->result].bits < 16)
		return emu_reject(decode, "the result of set has 16 or 32 bits");
	return emu_want_register(decode, 0, emu_types[how->result].bits);
}

/* ---- selp, slct -------------------------------------------------------------------------- */

static enum emu_step selp32(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t *d = emu_row32(warp, ins->ref[0]), chosen[EMU_LANES];
	const uint32_t *a = emu_row32(warp, ins->ref[1]), *b = emu_row32(warp, ins->ref[2]);

	emu_expand_mask(emu_predicate(warp, &ins->operands[3]), chosen);
	EMU_OVER_LANES(uint32_t, (a[l] & chosen[l]) | (b[l] & ~chosen[l]))
}

static enum emu_step selp64(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint64_t *d = emu_row64(warp, ins->ref[0]);
	const uint64_t *a = emu_row64(warp, ins->ref[1]), *b = emu_row64(warp, ins->ref[2]);
	uint32_t chosen[EMU_LANES];

	emu_expand_mask(emu_predicate(warp, &ins->operands[3]), chosen);
	EMU_OVER_LANES(uint64_t, chosen[l] ? a[l] : b[l])
}

static bool decode_selp(struct emu_decode *decode)
{
	enum emu_type type = emu_take_type(decode);
	int bits = emu_types[type].bits;

	if (bits != 16 && bits != 32 && bits != 64)
		return emu_reject(decode, "needs a type of 16, 32 or 64 bits");
	decode->ins->execute = bits == 64 ? selp64 : selp32;
	return emu_want_operands(decode, 4, 4) && emu_want_register(decode, 0, bits) &&
	       emu_want_value(decode, 1, bits) && emu_want_value(decode, 2, bits) &&
	       emu_want_predicate(decode, 3);
}

static enum emu_step slct(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	bool wide = emu_types[ins->type].bits == 64;

	EMU_FOR_LANES(l, mask)
	{
		uint32_t c = emu_row32(warp, ins->ref[3])[l];
		float f = emu_f32_of_bits(c);
		bool first = ins->type2 == EMU_T_F32 ? (ins->variant ? flushed(f) : f) >= 0
						     : (int32_t)c >= 0;
		uint32_t from = ins->ref[first ? 1 : 2];

		if (wide)
			emu_row64(warp, ins->ref[0])[l] = emu_row64(warp, from)[l];
		else
			emu_row32(warp, ins->ref[0])[l] = emu_row32(warp, from)[l];
	}
	return EMU_NEXT;
}

static bool decode_slct(struct emu_decode *decode)
{
	enum emu_type type, by;
	int bits;

	decode->ins->variant = emu_take(decode, "ftz");
	type = emu_take_type(decode);
	by = emu_take_type(decode);
	bits = emu_types[type].bits;
	if ((bits != 16 && bits != 32 && bits != 64) || (by != EMU_T_S32 && by != EMU_T_F32))
		return emu_reject(decode, "needs a type and then .s32 or .f32");
	decode->ins->type = (uint8_t)type;
	decode->ins->type2 = (uint8_t)by;
	return emu_want_operands(decode, 4, 4) && emu_want_register(decode, 0, bits) &&
	       emu_want_value(decode, 1, bits) && emu_want_value(decode, 2, bits) &&
	       emu_want_value(decode, 3, 32);
}

/* ---- logic ------------------------------------------------------------------------------- */

static enum emu_step logic(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t a = emu_predicate(warp, &ins->operands[1]);
	uint32_t b = ins->operand_count > 2 ? emu_predicate(warp, &ins->operands[2]) : 0;

	emu_set_predicate(warp, &ins->operands[0], mask,
			  ins->variant ? combine((enum combination)ins->variant, a, b) : ~a);
	return EMU_NEXT;
}

bool emu_decode_predicate_logic(struct emu_decode *decode)
{
	static const struct {
		const char *name;
		enum combination combination;
	} list[] = {{"and", AND}, {"or", OR}, {"xor", XOR}, {"not", NONE}};
	int count;

	emu_take(decode, "pred");
	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (!strcmp(decode->opcode->name, list[i].name)) {
			decode->ins->variant = (uint8_t)list[i].combination;
			decode->ins->execute = logic;
		}
	if (!decode->ins->execute)
		return emu_reject(decode, "has no form for predicates");
	count = decode->ins->variant ? 3 : 2;
	if (!emu_want_operands(decode, count, count))
		return false;
	for (int i = 0; i < count; i++)
		if (!emu_want_predicate(decode, i))
			return false;
	return true;
}

/* ---- testp --------------------------------------------------------------------------------- */

static const char *const properties[] = {"finite", "infinite",  "number", "notanumber",
					 "normal", "subnormal", NULL};

enum property {
	FINITE,
	INFINITE,
	NUMBER,
	NOT_A_NUMBER,
	NORMAL,
	SUBNORMAL
};

/* Zeros count as normal. */
static bool has_property(enum property property, double value, double smallest)
{
	bool tiny = value != 0 && fabs(value) < smallest;

	switch (property) {
	case FINITE:
		return isfinite(value);
	case INFINITE:
		return isinf(value);
	case NUMBER:
		return !isnan(value);
	case NOT_A_NUMBER:
		return isnan(value);
	case NORMAL:
		return isfinite(value) && !tiny;
	default:
		return tiny;
	}
}

static enum emu_step testp(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	enum property property = (enum property)ins->variant;
	uint32_t result = 0;

	EMU_FOR_LANES(l, mask)
	{
		bool has;

		if (ins->type == EMU_T_F64)
			has = has_property(property, ((double *)emu_row64(warp, ins->ref[1]))[l],
					   0x1p-1022);
		else
			has = has_property(property, ((float *)emu_row32(warp, ins->ref[1]))[l],
					   0x1p-126);
		result |= (uint32_t)has << l;
	}
	emu_set_predicate(warp, &ins->operands[0], mask, result);
	return EMU_NEXT;
}

static bool decode_testp(struct emu_decode *decode)
{
	int property = emu_take_one(decode, properties);
	enum emu_type type = emu_take_type(decode);

	if (property == -2)
		return false;
	if (property < 0 || (type != EMU_T_F32 && type != EMU_T_F64))
		return emu_reject(decode, "needs .finite, .infinite, .number, .notanumber, .normal "
					  "or .subnormal, and .f32 or .f64");
	decode->ins->variant = (uint8_t)property;
	decode->ins->type = (uint8_t)type;
	return emu_want_operands(decode, 2, 2) && emu_want_predicate(decode, 0) &&
	       emu_want_value(decode, 1, emu_types[type].bits);
}

static const struct emu_opcode opcodes[] = {
	{"testp", decode_testp, testp, 0}, {"setp", decode_setp, setp, 0},
	{"set", decode_set, set, 0},       {"selp", decode_selp, NULL, 0},
	{"slct", decode_slct, slct, 0},
};

EMU_OPCODE_TABLE(compare, opcodes);

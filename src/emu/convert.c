/* cvt between scalar types; the packed forms of narrow types are in convert_packed.c. */
#include "alu.h"
#include "convert.h"
#include "number.h"
#include <math.h>

/* ---- any type to any other, one value ------------------------------------------------ */

static bool is_float(enum emu_type type)
{
	return emu_types[type].class == EMU_CLASS_FLOAT;
}

static const struct emu_format *format_of(enum emu_type type)
{
	switch (type) {
	case EMU_T_F16:
		return &emu_format_f16;
	case EMU_T_BF16:
		return &emu_format_bf16;
	case EMU_T_TF32:
		return &emu_format_tf32;
	default:
		return &emu_format_f32;
	}
}

double emu_widen(enum emu_type type, uint64_t bits)
{
	double value;

	switch (type) {
	case EMU_T_F16:
		return emu_f16_to_f32((uint16_t)bits);
	case EMU_T_BF16:
		return emu_bf16_to_f32((uint16_t)bits);
	case EMU_T_F64:
		memcpy(&value, &bits, sizeof value);
		return value;
	default:
		return emu_f32_of_bits((uint32_t)bits);
	}
}

uint64_t emu_narrow(enum emu_type type, double value, enum emu_rounding rounding)
{
	uint64_t bits;
	float narrow;

	if (type == EMU_T_F64) {
		memcpy(&bits, &value, sizeof bits);
		return bits;
	}
	if (value != value)
		return type == EMU_T_F16 || type == EMU_T_BF16 ? 0x7fff
		       : type == EMU_T_TF32                    ? 0x7fffe000
							       : 0x7fffffff;
	narrow = (float)emu_round_to(format_of(type), value, rounding);
	if (type == EMU_T_F16)
		return emu_f16_from_f32(narrow);
	return type == EMU_T_BF16 ? emu_bf16_from_f32(narrow) : emu_bits_of_f32(narrow);
}

static uint64_t ones(int bits)
{
	return bits >= 64 ? UINT64_MAX : (1ull << bits) - 1;
}

static int64_t sign_extend(uint64_t value, int bits)
{
	return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static double flush(double value)
{
	return fabs(value) < 0x1p-126 ? copysign(0.0, value) : value;
}

/* Out of range goes to the nearest bound; NaN to zero, or to 100...0 where f64 or 64 bits are in
 * play. */
static uint64_t integer_of(const struct emu_conversion *c, double value)
{
	enum emu_type type = c->to;
	int bits = emu_types[type].bits;
	bool is_signed = emu_types[type].class == EMU_CLASS_SIGNED;
	double top = ldexp(1.0, is_signed ? bits - 1 : bits);

	if (value != value)
		return bits == 64 || c->from == EMU_T_F64 ? 1ull << (bits - 1) : 0;
	value = emu_round_integral(value, c->rounding);
	if (value >= top)
		return is_signed ? ones(bits - 1) : ones(bits);
	if (is_signed)
		return (value < -top ? 1ull << (bits - 1) : (uint64_t)(int64_t)value) & ones(bits);
	return value <= 0 ? 0 : (uint64_t)value;
}

/* The NaN of an f64 keeps what fits of its payload; f32 that is flushed has but one NaN.  Other
 * NaN that stay as they are: see moves_nan(). */
static bool keeps_nan(const struct emu_conversion *c, double value, uint64_t *result)
{
	uint64_t bits;

	if (value == value || c->saturate || c->from == c->to)
		return false;
	memcpy(&bits, &value, sizeof bits);
	if (c->from == EMU_T_F64 && c->to == EMU_T_F32)
		*result = (bits >> 32 & 0x80000000u) | 0x7fc00000u | (bits >> 29 & 0x3fffffu);
	else if (c->from == EMU_T_F64 && c->to == EMU_T_F16)
		*result = (bits >> 48 & 0x8000u) | 0x7e00u | (bits >> 42 & 0x1ffu);
	else if (c->from == EMU_T_F64 && c->to == EMU_T_BF16)
		*result = (bits >> 48 & 0x8000u) | 0x7fc0u | (bits >> 45 & 0x3fu);
	else if (c->from == EMU_T_F32 && c->to == EMU_T_F64 && c->flush)
		*result = 0x7fffffffe0000000u;
	else
		return false;
	return true;
}

static bool is_nan(enum emu_type type, uint64_t bits)
{
	double value = emu_widen(type, bits);

	return value != value;
}

/* Conversions that move the bits of a NaN. */
static bool moves_nan(const struct emu_conversion *c, uint64_t bits, uint64_t *result)
{
	if (c->saturate || c->flush || c->finite || !is_nan(c->from, bits))
		return false;
	if (c->from == EMU_T_BF16 && c->to == EMU_T_F32)
		*result = bits << 16;
	else if (c->from == EMU_T_F32 && c->to == EMU_T_F32 && !c->integral)
		*result = bits;
	else if (c->from == EMU_T_F32 && c->to == EMU_T_TF32 &&
		 c->rounding == EMU_ROUND_NEAREST_AWAY)
		*result = bits & ~0x1fffull;
	else if (c->from == EMU_T_F64 && c->to == EMU_T_F64 && c->integral)
		*result = bits | 0x0008000000000000ull;
	else
		return false;
	return true;
}

static uint64_t float_to_float(const struct emu_conversion *c, double value)
{
	uint64_t nan;

	if (keeps_nan(c, value, &nan))
		return nan;
	if (c->flush && c->from != EMU_T_F64 && c->from != EMU_T_F16 && c->to != EMU_T_F16)
		value = flush(value);
	if (c->integral)
		value = emu_round_integral(value, c->rounding);
	if (c->saturate)
		value = value > 0 ? value < 1 ? value : 1 : 0;
	if (c->relu && value <= 0) /* -0 as well */
		value = 0;
	if (c->finite && fabs(value) > format_of(c->to)->largest)
		value = copysign(format_of(c->to)->largest, value);
	if (c->to == EMU_T_F64)
		return emu_narrow(EMU_T_F64, value, c->rounding);
	if (c->flush && c->to == EMU_T_F32) {
		uint64_t bits = emu_narrow(c->to, value, c->rounding);

		return bits & 0x7f800000u ? bits : bits & 0x80000000u;
	}
	return emu_narrow(c->to, value, c->rounding);
}

static uint64_t integer_to_float(const struct emu_conversion *c, uint64_t bits)
{
	bool negative = emu_types[c->from].class == EMU_CLASS_SIGNED && (int64_t)bits < 0;
	uint64_t magnitude = negative ? 0 - bits : bits;
	double value;

	if (c->to == EMU_T_F64) {
		emu_host_rounding(c->rounding);
		value = negative ? (double)(int64_t)bits : (double)magnitude;
		emu_host_rounding(EMU_ROUND_NEAREST_EVEN);
		if (c->saturate)
			value = value > 0 ? value < 1 ? value : 1 : 0;
		return emu_narrow(EMU_T_F64, value, c->rounding);
	}
	value = emu_integer_to_odd(magnitude, negative);
	if (c->saturate)
		value = value > 0 ? value < 1 ? value : 1 : 0;
	return emu_narrow(c->to, value, c->rounding);
}

static uint64_t integer_to_integer(const struct emu_conversion *c, uint64_t bits)
{
	int width = emu_types[c->to].bits;
	bool from_signed = emu_types[c->from].class == EMU_CLASS_SIGNED;
	bool to_signed = emu_types[c->to].class == EMU_CLASS_SIGNED;
	uint64_t most = to_signed ? ones(width - 1) : ones(width);

	if (!c->saturate)
		return bits;
	if (from_signed && (int64_t)bits < 0) {
		int64_t least = to_signed ? -(int64_t)most - 1 : 0;

		return (int64_t)bits < least ? (uint64_t)least : bits;
	}
	return bits > most ? most : bits;
}

static uint64_t convert(const struct emu_conversion *c, uint64_t bits)
{
	int width = emu_types[c->from].bits;

	bits &= ones(width);
	if (is_float(c->from)) {
		double value = emu_widen(c->from, bits);
		uint64_t nan;

		if (is_float(c->to) && moves_nan(c, bits, &nan))
			return nan;
		if (is_float(c->to))
			return float_to_float(c, value);
		if (c->flush && c->from == EMU_T_F32)
			value = flush(value);
		return integer_of(c, value);
	}
	if (emu_types[c->from].class == EMU_CLASS_SIGNED)
		bits = (uint64_t)sign_extend(bits, width);
	return is_float(c->to) ? integer_to_float(c, bits) : integer_to_integer(c, bits);
}

/* The result fills its register: signed ones by their sign. */
static uint64_t spread(const struct emu_conversion *c, uint64_t bits)
{
	int width = emu_types[c->to].bits;

	if (emu_types[c->to].class == EMU_CLASS_SIGNED)
		return (uint64_t)sign_extend(bits & ones(width), width);
	return bits & ones(width);
}

static enum emu_step general(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct emu_conversion *c = ins->extra;

	EMU_FOR_LANES(l, mask)
	{
		uint64_t value = c->wide_from ? emu_row64(warp, ins->ref[1])[l]
					      : emu_row32(warp, ins->ref[1])[l];

		emu_set_value(warp, &ins->operands[0], (int)l, spread(c, convert(c, value)));
	}
	return EMU_NEXT;
}

/* ---- decoding ------------------------------------------------------------------------------ */

static bool want_source(struct emu_decode *decode, struct emu_conversion *c)
{
	struct emu_operand *from = &decode->ins->operands[1], *to = &decode->ins->operands[0];
	int bits = emu_types[c->from].bits;

	if (to->kind != EMU_O_REGISTER || to->bits < emu_types[c->to].bits || to->bits > 64)
		return emu_reject(decode, "the result needs a register of at least %d bits",
				  emu_types[c->to].bits);
	/* A source register may be wider than the type; its low part counts. */
	if (from->kind == EMU_O_REGISTER) {
		if (from->bits < bits || from->bits > 64)
			return emu_reject(decode, "the source needs a register of at least %d bits",
					  bits);
		c->wide_from = from->bits == 64;
		return true;
	}
	c->wide_from = bits == 64;
	return emu_want_value(decode, 1, bits);
}

/* Rounding to an integral value is asked for by .rni and the like. */
static bool take_rounding(struct emu_decode *decode, struct emu_conversion *c, int *rounding)
{
	static const char *const integral[] = {"rni", "rzi", "rmi", "rpi", NULL};
	int whole = emu_take_one(decode, integral);

	*rounding = emu_take_one(decode, emu_rounding_names);
	if (whole == -2 || *rounding == -2)
		return false;
	if (whole >= 0 && *rounding >= 0)
		return emu_reject(decode, "two roundings");
	c->integral = whole >= 0;
	c->rounding = whole >= 0       ? (enum emu_rounding)whole
		      : *rounding >= 0 ? (enum emu_rounding) * rounding
				       : EMU_ROUND_NEAREST_EVEN;
	return true;
}

/* What goes with a conversion between floating point types. */
enum {
	plain = 1,  /* no rounding */
	rounds = 2, /* .rn .rz .rm .rp */
	whole = 4,  /* .rni .rzi .rmi .rpi */
	ftz = 8,
	sat = 16,
	clamp = 32 /* .relu and .satfinite, with .rn and .rz alone */
};

static const struct {
	enum emu_type to, from;
	unsigned takes;
} float_forms[] = {
	{EMU_T_F16, EMU_T_F16, plain | whole | sat},
	{EMU_T_F16, EMU_T_BF16, plain | rounds},
	{EMU_T_F16, EMU_T_F32, rounds | ftz | sat | clamp},
	{EMU_T_F16, EMU_T_F64, rounds | sat},
	{EMU_T_BF16, EMU_T_F16, plain | rounds},
	{EMU_T_BF16, EMU_T_BF16, plain | whole},
	{EMU_T_BF16, EMU_T_F32, rounds | ftz | clamp},
	{EMU_T_BF16, EMU_T_F64, rounds},
	{EMU_T_F32, EMU_T_F16, plain | ftz | sat},
	{EMU_T_F32, EMU_T_BF16, plain | rounds | ftz},
	{EMU_T_F32, EMU_T_F32, plain | whole | ftz | sat},
	{EMU_T_F32, EMU_T_F64, rounds | ftz | sat},
	{EMU_T_F64, EMU_T_F16, plain | sat},
	{EMU_T_F64, EMU_T_BF16, plain | rounds},
	{EMU_T_F64, EMU_T_F32, plain | ftz | sat},
	{EMU_T_F64, EMU_T_F64, plain | whole | sat},
};

static bool cannot(struct emu_decode *decode, const struct emu_conversion *c)
{
	return emu_reject(decode, "cannot convert .%s to .%s", emu_types[c->from].text,
			  emu_types[c->to].text);
}

static bool directed(int rounding)
{
	return rounding == EMU_ROUND_DOWN || rounding == EMU_ROUND_UP;
}

/* .tf32 is made of .f32 alone. */
static bool check_tf32(struct emu_decode *decode, const struct emu_conversion *c, int rounding)
{
	bool away = rounding == EMU_ROUND_NEAREST_AWAY;

	if (c->from != EMU_T_F32)
		return cannot(decode, c);
	if (rounding < 0 || directed(rounding))
		return emu_reject(decode, "to .tf32 needs .rn, .rz or .rna");
	if (c->flush || c->saturate)
		return emu_reject(decode, "'.%s' does not apply here", c->flush ? "ftz" : "sat");
	if (c->relu && away)
		return emu_reject(decode, "'.relu' does not go with '.rna'");
	return !c->finite || away || emu_want_target(decode, EMU_P_SM100, ".satfinite");
}

static bool check_floats(struct emu_decode *decode, const struct emu_conversion *c, int rounding)
{
	unsigned takes = 0;

	if (c->to == EMU_T_TF32)
		return check_tf32(decode, c, rounding);
	for (size_t i = 0; i < sizeof float_forms / sizeof *float_forms; i++)
		if (float_forms[i].to == c->to && float_forms[i].from == c->from)
			takes = float_forms[i].takes;
	if (!takes)
		return cannot(decode, c);
	if (rounding < 0 && !c->integral && !(takes & plain))
		return emu_reject(decode, "to a narrower type needs a rounding such as .rn");
	if (c->integral && !(takes & whole))
		return emu_reject(decode, "rounding to an integral value is for a type and itself");
	if (rounding == EMU_ROUND_NEAREST_AWAY || (rounding >= 0 && !(takes & rounds)))
		return emu_reject(decode, "this rounding does not apply here");
	if (c->flush && !(takes & ftz))
		return emu_reject(decode, "'.ftz' does not apply here");
	if (c->saturate && !(takes & sat))
		return emu_reject(decode, "'.sat' does not apply here");
	if (!c->finite && !c->relu)
		return true;
	if (!(takes & clamp) || c->flush || c->saturate)
		return emu_reject(decode, "'.satfinite' and '.relu' do not apply here");
	return !directed(rounding) ||
	       emu_reject(decode, "'.satfinite' and '.relu' go with .rn and .rz");
}

/* Whether every value of one integer type is one of the other. */
static bool holds(enum emu_type to, enum emu_type from)
{
	bool to_signed = emu_types[to].class == EMU_CLASS_SIGNED;
	bool from_signed = emu_types[from].class == EMU_CLASS_SIGNED;

	return (to_signed || !from_signed) &&
	       emu_types[to].bits - to_signed >= emu_types[from].bits - from_signed;
}

/* From integers, to integers or both. */
static bool check_integers(struct emu_decode *decode, const struct emu_conversion *c, int rounding)
{
	bool from = is_float(c->from), to = is_float(c->to);
	enum emu_type real = from ? c->from : c->to;
	int from_bits = emu_types[c->from].bits, to_bits = emu_types[c->to].bits;

	if (emu_types[c->from].class == EMU_CLASS_BITS ||
	    emu_types[c->to].class == EMU_CLASS_BITS || from_bits < 8 || to_bits < 8 ||
	    real == EMU_T_TF32 || (real == EMU_T_BF16 && (from_bits == 8 || to_bits == 8)))
		return cannot(decode, c);
	if (from && (!c->integral || rounding >= 0))
		return emu_reject(decode, "to an integer needs .rni, .rzi, .rmi or .rpi");
	if (to && (rounding < 0 || rounding == EMU_ROUND_NEAREST_AWAY))
		return emu_reject(decode, "from an integer needs .rn, .rz, .rm or .rp");
	if (!from && !to && (rounding >= 0 || c->integral))
		return emu_reject(decode, "rounding does not go with integers");
	if (c->finite || c->relu)
		return emu_reject(decode, "'.satfinite' and '.relu' go between floats");
	if (c->flush && real != EMU_T_F32)
		return emu_reject(decode, "'.ftz' does not apply here");
	if (c->saturate && (real == EMU_T_BF16 || (!from && !to && holds(c->to, c->from))))
		return emu_reject(decode, "'.sat' does not apply here");
	return true;
}

static bool decode_cvt(struct emu_decode *decode)
{
	struct emu_conversion *c = emu_decode_extra(decode, sizeof *c);
	int rounding;

	if (!c)
		return false;
	decode->ins->extra = c;
	c->stochastic = emu_take(decode, "rs");
	if (!take_rounding(decode, c, &rounding))
		return false;
	c->flush = emu_take(decode, "ftz");
	c->saturate = emu_take(decode, "sat");
	c->finite = emu_take(decode, "satfinite");
	c->relu = emu_take(decode, "relu");
	c->scaled = emu_take(decode, "scaled::n2::ue8m0");
	c->to = emu_take_type(decode);
	c->from = emu_take_type(decode);
	if (c->to == EMU_T_NONE || c->from == EMU_T_NONE)
		return emu_reject(decode, "needs the type of the result and of the source");
	if (emu_conversion_is_packed(c))
		return emu_decode_packed(decode, c, rounding);
	if (c->stochastic || c->scaled)
		return emu_reject(decode, "'.%s' goes with packed types alone",
				  c->stochastic ? "rs" : "scaled::n2::ue8m0");
	if (!emu_want_operands(decode, 2, 2) ||
	    !(is_float(c->from) && is_float(c->to) ? check_floats : check_integers)(decode, c,
										    rounding) ||
	    !want_source(decode, c))
		return false;
	decode->ins->execute = emu_conversion_rows(decode, c, rounding);
	if (!decode->ins->execute)
		decode->ins->execute = general;
	return true;
}

static const struct emu_opcode opcodes[] = {
	{"cvt", decode_cvt, NULL, 0},
	{"cvt.pack", emu_decode_pack, NULL, 0},
};

EMU_OPCODE_TABLE(convert, opcodes);

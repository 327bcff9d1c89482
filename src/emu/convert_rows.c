/* The common conversions as loops over rows, for any host and for one with wider vectors. */
#include "alu.h"
#include "approximate.h"
#include "convert.h"

enum modifier {
	FLUSH = 1,
	SATURATE = 2,
	RELU = 4,
	FINITE = 8,
	INTEGRAL = 16
};

/* ---- what the expressions of convert_rows.def use --------------------------------------- */

EMU_INLINE uint32_t one_nan(uint32_t bits)
{
	return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}

EMU_INLINE uint32_t flushed(uint32_t bits)
{
	return bits & 0x7f800000u ? bits : bits & 0x80000000u;
}

/* Also -0 becomes 0; NaN stays. */
EMU_INLINE uint32_t not_negative(uint32_t bits)
{
	return bits >> 31 && bits <= 0xff800000u ? 0 : bits;
}

EMU_INLINE float saturated(float value)
{
	float least = value > 0 ? value : 0;

	return least < 1 ? least : 1;
}

/* What .rn leaves is the host's mode, to nearest even. */
EMU_INLINE float nearest(float value)
{
	return rintf(value);
}

EMU_INLINE uint32_t tf32_bits(uint32_t bits)
{
	uint32_t half = (bits & 0x7fffffffu) > 0x7f800000u ? 0 : 0x1000;

	return (bits + half) & ~0x1fffu;
}

/* To integers: towards zero, out of range to the nearest bound; NaN as emu_conversion's general
 * way. */
EMU_INLINE uint32_t s32_of(float value)
{
	float low = value < -0x1p31f ? -0x1p31f : value, high = low < 0x1p31f ? low : 0x1p30f;
	uint32_t inside = (uint32_t)(int32_t)(high == high ? high : 0);

	return value >= 0x1p31f ? 0x7fffffffu : value == value ? inside : 0;
}

EMU_INLINE uint32_t u32_of(float value)
{
	uint32_t bits = emu_select(value > 0, emu_bits_of_f32(value), 0);
	uint32_t upper = 0u - (uint32_t)(emu_f32_of_bits(bits) >= 0x1p31f);
	float rest = emu_f32_of_bits(bits) - emu_f32_of_bits(upper & 0x4f000000u);
	uint32_t inside = emu_select(rest < 0x1p31f, emu_bits_of_f32(rest), 0);

	inside = (uint32_t)(int32_t)emu_f32_of_bits(inside) | (upper & 0x80000000u);
	return inside | (0u - (uint32_t)(value >= 0x1p32f));
}

EMU_INLINE uint64_t s64_of(double value)
{
	if (value != value || value < -0x1p63)
		return 1ull << 63;
	return value >= 0x1p63 ? INT64_MAX : (uint64_t)(int64_t)value;
}

EMU_INLINE uint64_t u64_of(double value)
{
	if (value != value)
		return 1ull << 63;
	return value >= 0x1p64 ? UINT64_MAX : value > 0 ? (uint64_t)value : 0;
}

EMU_INLINE uint32_t s32_of_double(double value)
{
	double high = value > 2147483647.0 ? 2147483647.0 : value;

	return (uint32_t)(int32_t)(high > -2147483648.0 ? high : -2147483648.0);
}

EMU_INLINE uint32_t u32_of_double(double value)
{
	if (value != value)
		return 0x80000000u;
	return value >= 0x1p32 ? EMU_FULL : value > 0 ? (uint32_t)value : 0;
}

EMU_INLINE uint32_t half_of_e4m3(uint32_t code)
{
	float tiny = (float)(int32_t)(code & 7) * 0x1p-9f;
	uint32_t normal = ((code & 0x7f) << 7) + 0x2000;
	uint32_t half = emu_select(code & 0x78, normal, emu_f16_bits(emu_bits_of_f32(tiny)));

	return emu_select((code & 0x7f) == 0x7f, 0x7fffu, half | (code & 0x80) << 8);
}

EMU_INLINE uint32_t half_of_e5m2(uint32_t half)
{
	return (half & 0x7fff) > 0x7c00 ? 0x7fffu : half;
}

/*
 * To 8 bits of which `mantissa` are the mantissa, rounded in the bits of the f32; below the least
 * normal number an addition of `align` rounds to the last place that there is.
 */
EMU_INLINE uint32_t narrow(uint32_t bits, int mantissa, uint32_t least, float align, uint32_t most)
{
	uint32_t magnitude = bits & 0x7fffffffu, sign = bits >> 24 & 0x80,
		 drop = 23 - (uint32_t)mantissa;
	bool tiny = magnitude < least;
	float shifted = emu_f32_of_bits(emu_select(tiny, magnitude, 0)) + align;
	uint32_t subnormal = emu_bits_of_f32(shifted) - emu_bits_of_f32(align);
	uint32_t code = magnitude - (least - (1u << 23));

	code = (code + (1u << (drop - 1)) - 1 + (code >> drop & 1)) >> drop;
	code = emu_select(tiny, subnormal, code);
	code = emu_select(code > most, most, code);
	return emu_select(magnitude > 0x7f800000u, 0x7fu, code | sign);
}

EMU_INLINE uint32_t e4m3_bits(uint32_t bits)
{
	return narrow(bits, 3, 0x3c800000u, 0x1p14f, 0x7e);
}

EMU_INLINE uint32_t e5m2_bits(uint32_t bits)
{
	return narrow(bits, 2, 0x38800000u, 0x1p7f, 0x7b);
}

/* ---- the functions ------------------------------------------------------------------------ */

#define ROW_uint32_t emu_row32
#define ROW_uint64_t emu_row64
#define CONVERT(name, to, from, cell, to_bits, source, from_bits, rounding, modifiers, expression) \
	ATTRIBUTE static enum emu_step FORM(name)(struct emu_warp * warp,                          \
						  const struct emu_ins *ins, uint32_t mask)        \
	{                                                                                          \
		cell *d = ROW_##cell(warp, ins->ref[0]);                                           \
		const source *a = ROW_##source(warp, ins->ref[1]);                                 \
                                                                                                   \
		EMU_OVER_LANES(cell, ({                                                            \
				       source x = a[l];                                            \
				       (cell)(expression);                                         \
			       }))                                                                 \
	}
#define PAIR(name, to, to_bits, modifiers, expression)                                             \
	ATTRIBUTE static enum emu_step FORM(name)(struct emu_warp * warp,                          \
						  const struct emu_ins *ins, uint32_t mask)        \
	{                                                                                          \
		uint32_t *d = emu_row32(warp, ins->ref[0]);                                        \
		const uint32_t *a = emu_row32(warp, ins->ref[1]);                                  \
		const uint32_t *b = emu_row32(warp, ins->ref[2]);                                  \
                                                                                                   \
		EMU_OVER_LANES(uint32_t, ({                                                        \
				       uint32_t x = a[l], y = b[l];                                \
				       expression;                                                 \
			       }))                                                                 \
	}
#define ALIAS(name, to, from, to_bits, from_bits, rounding, modifiers)

#define FORM(name) name
#define ATTRIBUTE
#include "convert_rows.def"
#undef FORM
#undef ATTRIBUTE
#if EMU_HAVE_WIDE
#define FORM(name) name##_wide
#define ATTRIBUTE  EMU_WIDE
#include "convert_rows.def"
#undef FORM
#undef ATTRIBUTE
#define FORM(name) name##_widest
#define ATTRIBUTE  EMU_WIDEST
#include "convert_rows.def"
#undef FORM
#undef ATTRIBUTE
#define HOSTS(name)                                                                                \
	{                                                                                          \
		name, name##_wide, name##_widest                                                   \
	}
#else
#define HOSTS(name)                                                                                \
	{                                                                                          \
		name                                                                               \
	}
#endif
#undef CONVERT
#undef PAIR
#undef ALIAS

/* ---- the table ------------------------------------------------------------------------------ */

static const struct {
	enum emu_type to, from;
	uint8_t to_bits, from_bits; /* of the registers */
	int8_t rounding;            /* -1: none */
	uint8_t modifiers;          /* enum modifier */
	emu_execute execute[EMU_WIDTHS];
} rows[] = {
#define CONVERT(name, to, from, cell, to_bits, source, from_bits, rounding, modifiers, expression) \
	{EMU_T_##to, EMU_T_##from, to_bits, from_bits, rounding, modifiers, HOSTS(name)},
#define ALIAS(name, to, from, to_bits, from_bits, rounding, modifiers)                             \
	{EMU_T_##to, EMU_T_##from, to_bits, from_bits, rounding, modifiers, HOSTS(name)},
#define PAIR(name, to, to_bits, modifiers, expression)                                             \
	{EMU_T_##to, EMU_T_F32, to_bits, 32, EMU_ROUND_NEAREST_EVEN, modifiers, HOSTS(name)},
#include "convert_rows.def"
};

emu_execute emu_conversion_rows(const struct emu_decode *decode, const struct emu_conversion *c,
				int rounding)
{
	const struct emu_operand *operands = decode->ins->operands;
	int modifiers = c->flush * FLUSH | c->saturate * SATURATE | c->relu * RELU |
			c->finite * FINITE | c->integral * INTEGRAL;

	if (c->stochastic || c->scaled || operands[0].kind != EMU_O_REGISTER)
		return NULL;
	if (c->integral)
		rounding = (int)c->rounding;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].to == c->to && rows[i].from == c->from &&
		    rows[i].rounding == rounding && rows[i].modifiers == modifiers &&
		    operands[0].bits == rows[i].to_bits &&
		    (operands[1].kind != EMU_O_REGISTER || operands[1].bits == rows[i].from_bits))
			return rows[i].execute[emu_host_width()];
	return NULL;
}

/* The common arithmetic of f16 and bf16 as loops over rows, for hosts with wide vectors.
 */
#include "alu.h"
#include "alu_float.h"
#include "approximate.h"
#include "predicate.h"

/* ---- multiplying and adding, rounded once ---------------------------------------------- */

/*
 * A magnitude to the nearest of a format, even on a tie: `drop` bits of the mantissa go; below the
 * least normal number the addition of `align` rounds to the last place that there is.
 */
EMU_INLINE double round_magnitude(double value, int drop, double least, double align)
{
	uint64_t bits = emu_bits_of_double(value), odd = bits >> drop & 1,
		 half = (1ull << (drop - 1)) - 1;
	double normal = emu_double_of_bits((bits + half + odd) >> drop << drop);
	double subnormal = (value + align) - align;

	return value < least ? subnormal : normal;
}

/*
 * The product is exact in f64.  The last bit of a sum that is not exact is made odd, so that
 * rounding it once more gives what rounding the exact sum would.
 */
EMU_INLINE float fused(float x, float y, float z, int drop, double least, double align)
{
	double product = (double)x * y, addend = z, sum = product + addend, part = sum - product;
	double error = (product - (sum - part)) + (addend - part), rounded;
	uint64_t bits = emu_bits_of_double(sum), sign = bits & 1ull << 63;
	bool finite = fabs(sum) <= 0x1.fffffffffffffp1023;
	uint64_t inexact = finite && error != 0 && sum != 0 && !(bits & 1);
	uint64_t step = (error > 0) == (sum > 0) ? inexact : 0 - inexact;

	rounded = round_magnitude(emu_double_of_bits((bits + step) & ~(1ull << 63)), drop, least,
				  align);
	rounded = finite ? emu_double_of_bits(emu_bits_of_double(rounded) | sign) : sum;
	return (float)rounded;
}

/* -0 too becomes 0; NaN stays. */
EMU_INLINE float positive(float value)
{
	return value <= 0 ? 0 : value;
}

/* ---- the types -------------------------------------------------------------------------- */

#define WIDEN_f16(bits)     emu_f32_of_f16(bits)
#define NARROW_f16(value)   emu_f16_bits(emu_bits_of_f32(value))
#define FUSED_f16(x, y, z)  fused(x, y, z, 42, 0x1p-14, 0x1p28)
#define WIDEN_bf16(bits)    emu_f32_of_bits((bits) << 16)
#define NARROW_bf16(value)  emu_bf16_bits(emu_bits_of_f32(value))
#define FUSED_bf16(x, y, z) fused(x, y, z, 45, 0x1p-126, 0x1p-81)

#define SOURCES_1(widen, at) float x = widen(a[l] >> (at)&0xffff)
#define SOURCES_2(widen, at) SOURCES_1(widen, at), y = widen(b[l] >> (at)&0xffff)
#define SOURCES_3(widen, at) SOURCES_2(widen, at), z = widen(c[l] >> (at)&0xffff)

#define ONE(name, type, n, value)                                                                  \
	ATTRIBUTE static enum emu_step FORM(name)(struct emu_warp * warp,                          \
						  const struct emu_ins *ins, uint32_t mask)        \
	{                                                                                          \
		uint32_t *d = emu_row32(warp, ins->ref[0]);                                        \
		const uint32_t *a = emu_row32(warp, ins->ref[1]);                                  \
		const uint32_t *b = emu_row32(warp, ins->ref[n > 1 ? 2 : 1]);                      \
		const uint32_t *c = emu_row32(warp, ins->ref[n]);                                  \
                                                                                                   \
		(void)b, (void)c;                                                                  \
		EMU_OVER_LANES(uint32_t, ({                                                        \
				       SOURCES_##n(WIDEN_##type, 0);                               \
				       NARROW_##type(value);                                       \
			       }))                                                                 \
	}
#define TWO(name, type, n, value)                                                                  \
	ATTRIBUTE static enum emu_step FORM(name)(struct emu_warp * warp,                          \
						  const struct emu_ins *ins, uint32_t mask)        \
	{                                                                                          \
		uint32_t *d = emu_row32(warp, ins->ref[0]);                                        \
		const uint32_t *a = emu_row32(warp, ins->ref[1]);                                  \
		const uint32_t *b = emu_row32(warp, ins->ref[n > 1 ? 2 : 1]);                      \
		const uint32_t *c = emu_row32(warp, ins->ref[n]);                                  \
                                                                                                   \
		(void)b, (void)c;                                                                  \
		EMU_OVER_LANES(uint32_t, (({                                                       \
						  SOURCES_##n(WIDEN_##type, 0);                    \
						  NARROW_##type(value);                            \
					  }) |                                                     \
					  ({                                                       \
						  SOURCES_##n(WIDEN_##type, 16);                   \
						  NARROW_##type(value);                            \
					  }) << 16))                                               \
	}

/* Other hosts go lane by lane. */
#if EMU_HAVE_WIDE
#define FORM(name) name
#define ATTRIBUTE  EMU_WIDE
#include "alu_half_types.h"
#undef FORM
#undef ATTRIBUTE
#define FORM(name) widest_##name
#define ATTRIBUTE  EMU_WIDEST
#include "alu_half_types.h"
#undef FORM
#undef ATTRIBUTE

/* ---- the table -------------------------------------------------------------------------- */

enum variant {
	PLAIN,
	RELU
};

static const struct {
	const char *opcode;
	enum variant variant;
	enum emu_type type;
	emu_execute wide, widest;
} rows[] = {
#define HALF(opcode, variant, n, value)                                                            \
	{#opcode, variant, EMU_T_F16, opcode##_f16_##variant, widest_##opcode##_f16_##variant},    \
		{#opcode, variant, EMU_T_F16X2, opcode##_f16x2_##variant,                          \
		 widest_##opcode##_f16x2_##variant},                                               \
		{#opcode, variant, EMU_T_BF16, opcode##_bf16_##variant,                            \
		 widest_##opcode##_bf16_##variant},                                                \
		{#opcode, variant, EMU_T_BF16X2, opcode##_bf16x2_##variant,                        \
		 widest_##opcode##_bf16x2_##variant},
#include "alu_half.def"
#undef HALF
};

emu_execute emu_half_rows(const char *opcode, enum emu_type type, bool relu)
{
	if (!emu_host_is_wide())
		return NULL;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].type == type && rows[i].variant == (relu ? RELU : PLAIN) &&
		    !strcmp(rows[i].opcode, opcode))
			return emu_host_is_widest() ? rows[i].widest : rows[i].wide;
	return NULL;
}
#else
emu_execute emu_half_rows(const char *opcode, enum emu_type type, bool relu)
{
	(void)opcode, (void)type, (void)relu;
	return NULL;
}
#endif

/*
 * Binary floating-point formats of at most 32 bits, to and from double.
 *
 * Every value of every format here is a double, so decoding is exact and
 * encoding rounds once, to nearest even, whatever the source was.  Neither has a
 * branch: they are the body of loops over arrays as well.
 */
#ifndef TCMMA_FLOAT_FORMAT_H
#define TCMMA_FLOAT_FORMAT_H

#include "tc.h"

#include <float.h>
#include <string.h>

#include "loops.h"

#if FLT_EVAL_METHOD != 0
#error "rounding needs arithmetic without excess precision (FLT_EVAL_METHOD 0)"
#endif

/*
 * Codes are without the sign, which is the bit above the exponent.
 *   overflow   what |x| beyond the largest value becomes: infinity in f16, bf16
 *              and tf32 (cvt.rn); the largest value in fp8, fp6 and fp4, whose
 *              cvt is always .satfinite; infinite x as well
 *   infinity   its code, 0: the format has none, or encoding never makes it
 *   first_nan  every code from here on is NaN, 0: the format has none
 *   nan        what NaN becomes, always positive: the canonical NaN of cvt, or
 *              the largest value where there is no NaN
 *   shift      empty low bits of the storage
 */
struct float_format {
	int exponent_bits, mantissa_bits, bias;
	uint32_t overflow, infinity, first_nan, nan;
	int shift;
};

static const struct float_format tc_float_formats[DT_COUNT] = {
	[DT_F16] = {5, 10, 15, 0x7c00, 0x7c00, 0x7c01, 0x7fff, 0},
	[DT_BF16] = {8, 7, 127, 0x7f80, 0x7f80, 0x7f81, 0x7fff, 0},
	/* f32 with 13 low bits that are zero when written and ignored when read. */
	[DT_TF32] = {8, 10, 127, 0x3fc00, 0x3fc00, 0x3fc01, 0x3ffff, 13},
	[DT_E5M2] = {5, 2, 15, 0x7b, 0x7c, 0x7d, 0x7f, 0},
	[DT_E4M3] = {4, 3, 7, 0x7e, 0, 0x7f, 0x7f, 0},
	[DT_E2M3] = {2, 3, 1, 0x1f, 0, 0, 0x1f, 0},
	[DT_E3M2] = {3, 2, 3, 0x1f, 0, 0, 0x1f, 0},
	[DT_E2M1] = {2, 1, 1, 0x7, 0, 0, 0x7, 0},
};

#define TC_FLOAT_FORMATS                                                                           \
	FORMAT(TF32)                                                                               \
	FORMAT(F16)                                                                                \
	FORMAT(BF16)                                                                               \
	FORMAT(E4M3)                                                                               \
	FORMAT(E5M2)                                                                               \
	FORMAT(E2M3)                                                                               \
	FORMAT(E3M2)                                                                               \
	FORMAT(E2M1)

#define DOUBLE_MANTISSA 52
#define DOUBLE_BIAS     1023
#define DOUBLE_EXPONENT (UINT64_C(0x7ff) << DOUBLE_MANTISSA)
#define HIGH_MANTISSA   20 /* of the upper word */

TC_INLINE uint64_t tc_bits_of(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

TC_INLINE double tc_double_of(uint64_t bits)
{
	double x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

TC_INLINE double tc_power_of_two(int n)
{
	return tc_double_of((uint64_t)(n + DOUBLE_BIAS) << DOUBLE_MANTISSA);
}

/*
 * The processor rounds: a power of two, as many places above the exponent as are to be cut off, is
 * added, and the low bits of the sum are the rounded mantissa.  Numbers below the least normal one
 * count as of its exponent.  The implicit bit and a carry both add to the exponent of the code.
 */
TC_INLINE uint32_t tc_format_encode(const struct float_format *f, double x)
{
	int cut = DOUBLE_MANTISSA - f->mantissa_bits, least = 1 - f->bias;
	uint64_t sign = tc_bits_of(x) >> 63;
	double magnitude = tc_double_of(tc_bits_of(x) & INT64_MAX);
	double limit = tc_double_of(((uint64_t)f->overflow << cut) +
				    ((uint64_t)(DOUBLE_BIAS - f->bias) << DOUBLE_MANTISSA));
	double kept = magnitude < limit ? magnitude : limit;
	double normal = kept > tc_power_of_two(least) ? kept : tc_power_of_two(least);
	uint64_t exponent = tc_bits_of(normal) & DOUBLE_EXPONENT;
	double sum = kept + tc_double_of(exponent + ((uint64_t)cut << DOUBLE_MANTISSA));
	uint32_t code = (uint32_t)((exponent >> cut) + tc_bits_of(sum)) -
			((uint32_t)(DOUBLE_BIAS + least) << f->mantissa_bits);

	code |= (uint32_t)sign << (f->exponent_bits + f->mantissa_bits);
	return (x != x ? f->nan : code) << f->shift;
}

/*
 * In the upper word of the double; the lower is zero.  Subnormal codes are read as numbers of the
 * least exponent, with the implicit bit, which is then subtracted.
 */
TC_INLINE double tc_format_decode(const struct float_format *f, uint32_t bits)
{
	int width = f->exponent_bits + f->mantissa_bits, bias = DOUBLE_BIAS - f->bias;
	uint32_t code = bits >> f->shift & ((1u << width) - 1);
	uint32_t sign = bits >> f->shift >> width << 31;
	bool subnormal = code < 1u << f->mantissa_bits;
	uint32_t high = (code << (HIGH_MANTISSA - f->mantissa_bits)) +
			((uint32_t)(subnormal ? bias + 1 : bias) << HIGH_MANTISSA);
	uint32_t implicit = subnormal ? (uint32_t)(bias + 1) << HIGH_MANTISSA : 0;

	if (f->infinity)
		high = code == f->infinity ? 0x7ff00000 : high;
	if (f->first_nan) {
		high = code >= f->first_nan ? 0x7ff80000 : high;
		sign = code >= f->first_nan ? 0 : sign;
	}
	double x = tc_double_of((uint64_t)high << 32) - tc_double_of((uint64_t)implicit << 32);
	return tc_double_of(tc_bits_of(x) | (uint64_t)sign << 32);
}

/*
 * e8m0: 2^(code - 127), 0xff is NaN; no sign, no zero.  Rounds up to the next
 * power of two, as cvt.rp.satfinite does (cvt has no .rn here), so that a scale
 * is never below what it was made from.  Zero, negative numbers and what is below
 * 2^-127 become 2^-127; numbers above 2^127 and infinity become 2^127.
 */
TC_INLINE uint32_t tc_e8m0_encode(double x)
{
	double low = x > 0x1p-127 ? x : 0x1p-127, kept = low < 0x1p127 ? low : 0x1p127;
	uint64_t up = tc_bits_of(kept) + ((UINT64_C(1) << DOUBLE_MANTISSA) - 1);
	uint32_t code = (uint32_t)(up >> DOUBLE_MANTISSA) - (DOUBLE_BIAS - 127);

	return x != x ? 0xff : code;
}

TC_INLINE double tc_e8m0_decode(uint32_t code)
{
	uint32_t exponent = code == 0xff ? 0x7ff : code + (DOUBLE_BIAS - 127);
	uint64_t quiet = (uint64_t)(code == 0xff) << (DOUBLE_MANTISSA - 1);

	return tc_double_of((uint64_t)exponent << DOUBLE_MANTISSA | quiet);
}

/* f32 rounds to nearest even and overflows to infinity; NaN becomes 0x7fffffff. */
TC_INLINE uint32_t tc_f32_encode(double x)
{
	float narrow = (float)x;
	uint32_t bits;

	memcpy(&bits, &narrow, sizeof bits);
	return x != x ? 0x7fffffff : bits;
}

TC_INLINE double tc_f32_decode(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return (double)x;
}

#endif

/*
 * Binary floating-point formats of at most 32 bits, to and from double.
 *
 * Every value of every format here is a double, so decoding is exact and
 * encoding rounds once, to nearest even, whatever the source was.
 */
#include "tc.h"

#include <math.h>
#include <string.h>

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
	uint32_t largest, overflow, infinity, first_nan, nan;
	int shift;
};

static const struct float_format formats[DT_COUNT] = {
	[DT_F16] = {5, 10, 15, 0x7bff, 0x7c00, 0x7c00, 0x7c01, 0x7fff, 0},
	[DT_BF16] = {8, 7, 127, 0x7f7f, 0x7f80, 0x7f80, 0x7f81, 0x7fff, 0},
	/* f32 with 13 low bits that are zero when written and ignored when read. */
	[DT_TF32] = {8, 10, 127, 0x3fbff, 0x3fc00, 0x3fc00, 0x3fc01, 0x3ffff, 13},
	[DT_E5M2] = {5, 2, 15, 0x7b, 0x7b, 0x7c, 0x7d, 0x7f, 0},
	[DT_E4M3] = {4, 3, 7, 0x7e, 0x7e, 0, 0x7f, 0x7f, 0},
	[DT_E2M3] = {2, 3, 1, 0x1f, 0x1f, 0, 0, 0x1f, 0},
	[DT_E3M2] = {3, 2, 3, 0x1f, 0x1f, 0, 0, 0x1f, 0},
	[DT_E2M1] = {2, 1, 1, 0x7, 0x7, 0, 0, 0x7, 0},
};

#define DOUBLE_MANTISSA 52
#define DOUBLE_BIAS     1023

static uint64_t bits_of(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static double double_of(uint64_t bits)
{
	double x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

static double power_of_two(int n)
{
	return double_of((uint64_t)(n + DOUBLE_BIAS) << DOUBLE_MANTISSA);
}

/*
 * Doubles below 2^-1022 need no care: they are far under half of the smallest
 * value of any format, and the implicit bit they do not have changes nothing.
 */
static uint32_t encode_magnitude(const struct float_format *f, uint64_t bits)
{
	int exponent = (int)(bits >> DOUBLE_MANTISSA & 0x7ff) - DOUBLE_BIAS;
	uint64_t one = UINT64_C(1) << DOUBLE_MANTISSA;
	uint64_t mantissa = (bits & (one - 1)) | one;
	int smallest = 1 - f->bias;
	int shift = DOUBLE_MANTISSA - f->mantissa_bits;

	if (exponent > f->bias + 1)
		return f->overflow;
	if (exponent < smallest) {
		shift += smallest - exponent;
		exponent = smallest;
	}
	if (shift > DOUBLE_MANTISSA + 1)
		return 0;
	uint64_t half = UINT64_C(1) << (shift - 1);
	uint64_t rest = mantissa & (2 * half - 1);
	uint64_t kept = mantissa >> shift;
	kept += rest > half || (rest == half && (kept & 1));
	/* The implicit bit and a carry of the rounding both add to the exponent. */
	uint32_t code = ((uint32_t)(exponent - smallest) << f->mantissa_bits) + (uint32_t)kept;
	return code > f->largest ? f->overflow : code;
}

static uint32_t encode(const struct float_format *f, double x)
{
	uint64_t bits = bits_of(x);
	uint32_t sign = (uint32_t)(bits >> 63) << (f->exponent_bits + f->mantissa_bits);

	if (x != x)
		return f->nan << f->shift;
	return (sign | encode_magnitude(f, bits & INT64_MAX)) << f->shift;
}

static double decode(const struct float_format *f, uint32_t bits)
{
	int width = f->exponent_bits + f->mantissa_bits;
	bits >>= f->shift;
	uint32_t code = bits & ((1u << width) - 1);
	uint64_t sign = (uint64_t)(bits >> width & 1) << 63;
	uint32_t exponent = code >> f->mantissa_bits;
	uint64_t mantissa = code & ((1u << f->mantissa_bits) - 1);

	if (f->first_nan && code >= f->first_nan)
		return (double)NAN;
	if (f->infinity && code == f->infinity)
		return sign ? -(double)INFINITY : (double)INFINITY;
	if (exponent == 0) {
		double x = (double)mantissa * power_of_two(1 - f->bias - f->mantissa_bits);
		return sign ? -x : x;
	}
	return double_of(sign |
			 (uint64_t)(exponent - (uint32_t)f->bias + DOUBLE_BIAS) << DOUBLE_MANTISSA |
			 mantissa << (DOUBLE_MANTISSA - f->mantissa_bits));
}

/*
 * e8m0: 2^(code - 127), 0xff is NaN; no sign, no zero.  Rounds up to the next
 * power of two, as cvt.rp.satfinite does (cvt has no .rn here), so that a scale
 * is never below what it was made from.  Zero, negative numbers and what is below
 * 2^-127 become 2^-127; numbers above 2^127 and infinity become 2^127.
 */
static uint32_t encode_e8m0(double x)
{
	if (x != x)
		return 0xff;
	if (!(x > power_of_two(-127)))
		return 0;
	if (x >= power_of_two(127))
		return 0xfe;
	uint64_t bits = bits_of(x);
	int exponent = (int)(bits >> DOUBLE_MANTISSA) - DOUBLE_BIAS;
	bool exact = (bits & ((UINT64_C(1) << DOUBLE_MANTISSA) - 1)) == 0;
	return (uint32_t)(exponent + 127 + !exact);
}

static double decode_e8m0(uint32_t code)
{
	return code == 0xff ? (double)NAN : power_of_two((int)code - 127);
}

/* f32 rounds to nearest even and overflows to infinity; NaN becomes 0x7fffffff. */
static uint32_t encode_f32(double x)
{
	float narrow = (float)x;
	uint32_t bits;
	if (x != x)
		return 0x7fffffff;
	memcpy(&bits, &narrow, sizeof bits);
	return bits;
}

static double decode_f32(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return (double)x;
}

uint64_t tc_float_encode(enum dtype t, double x)
{
	switch (t) {
	case DT_F64:
		return bits_of(x);
	case DT_F32:
		return encode_f32(x);
	case DT_E8M0:
		return encode_e8m0(x);
	default:
		return encode(&formats[t], x);
	}
}

double tc_float_decode(enum dtype t, uint64_t bits)
{
	switch (t) {
	case DT_F64:
		return double_of(bits);
	case DT_F32:
		return decode_f32((uint32_t)bits);
	case DT_E8M0:
		return decode_e8m0((uint32_t)(bits & 0xff));
	default:
		return decode(&formats[t], (uint32_t)bits);
	}
}

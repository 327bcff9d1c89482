/*
 * What hardware approximates, computed in double and rounded once.  The
 * polynomials use no host library, so that every host gives the same bits.
 */
#ifndef TCMMA_EMU_APPROXIMATE_H
#define TCMMA_EMU_APPROXIMATE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double emu_double_of_bits(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline uint64_t emu_bits_of_double(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/*
 * 2^x = 2^n * e^(r ln 2), |r| <= 1/2; the series to the twelfth power is exact
 * to 2^-52.  Beyond the clamps the result rounds to 0 or infinity.
 */
static inline float emu_ex2(float value)
{
	double x = value < -160 ? -160 : value > 160 ? 160 : value;
	double shifted = x + 0x1.8p52, n = shifted - 0x1.8p52, t = (x - n) * 0x1.62e42fefa39efp-1;
	double sum = 1.0 / 479001600;
	uint64_t scale = (uint64_t)((int64_t)(int32_t)(uint32_t)emu_bits_of_double(shifted) + 1023)
			 << 52;

	sum = sum * t + 1.0 / 39916800;
	sum = sum * t + 1.0 / 3628800;
	sum = sum * t + 1.0 / 362880;
	sum = sum * t + 1.0 / 40320;
	sum = sum * t + 1.0 / 5040;
	sum = sum * t + 1.0 / 720;
	sum = sum * t + 1.0 / 120;
	sum = sum * t + 1.0 / 24;
	sum = sum * t + 1.0 / 6;
	sum = sum * t + 0.5;
	sum = sum * t + 1.0;
	sum = sum * t + 1.0;
	sum *= emu_double_of_bits(scale);
	return value != value ? value : (float)sum;
}

/* log2 x = e + 2 / ln 2 * atanh((m - 1) / (m + 1)), m in [sqrt 1/2, sqrt 2]. */
static inline float emu_lg2(float value)
{
	double x = value, m, s, q, sum = 1.0 / 21;
	uint64_t bits = emu_bits_of_double(x);
	int exponent = (int)(bits >> 52 & 0x7ff) - 1023;

	if (value != value || value < 0)
		return NAN;
	if (value == 0)
		return -INFINITY;
	if (isinf(value))
		return value;
	m = emu_double_of_bits((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
	if (m > 0x1.6a09e667f3bcdp0) {
		m *= 0.5;
		exponent++;
	}
	s = (m - 1) / (m + 1);
	q = s * s;
	for (int k = 19; k >= 1; k -= 2)
		sum = sum * q + 1.0 / k;
	return (float)(exponent + sum * s * (2 * 0x1.71547652b82fep0));
}

static inline float emu_rsqrt(float value)
{
	return (float)(1.0 / sqrt((double)value));
}

/*
 * The part of a turn that sine and cosine look at: of |x| / (2 pi) the leading 24 bits, cut off, so
 * that little is left of large angles.
 */
static inline double emu_turn(float value)
{
	double turns = fabs((double)value) * 0x1.45f306p-3;
	double kept = emu_double_of_bits(emu_bits_of_double(turns) & 0xffffffffe0000000ull);

	return kept - floor(kept);
}

static inline float emu_sin(float value)
{
	double sine = sin(emu_turn(value) * 0x1.921fb54442d18p+2);

	return (float)(signbit(value) ? -sine : sine);
}

static inline float emu_cos(float value)
{
	return (float)cos(emu_turn(value) * 0x1.921fb54442d18p+2);
}

static inline float emu_tanh(float value)
{
	return (float)tanh((double)value);
}

/* The forms of f64 give the upper half alone: the lower 32 bits are zero. */
static inline double emu_upper_half(double value)
{
	return emu_double_of_bits(emu_bits_of_double(value) & 0xffffffff00000000ull);
}

static inline double emu_flush_double(double value)
{
	return fabs(value) < 0x1p-1022 ? copysign(0.0, value) : value;
}

/* NaN has one pattern. */
static inline double emu_gross(double result)
{
	return result == result ? emu_upper_half(result)
				: emu_double_of_bits(0x7fffffff00000000ull);
}

static inline double emu_rcp_gross(double value)
{
	return emu_gross(emu_flush_double(1.0 / emu_flush_double(emu_upper_half(value))));
}

static inline double emu_rsqrt_gross(double value)
{
	return emu_gross(1.0 / sqrt(emu_flush_double(emu_upper_half(value))));
}

#endif

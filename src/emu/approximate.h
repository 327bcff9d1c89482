/*
 * What hardware approximates, computed in double and rounded once.  The
 * polynomials use no host library, so that every host gives the same bits.
 */
#ifndef TCMMA_EMU_APPROXIMATE_H
#define TCMMA_EMU_APPROXIMATE_H

#include "number.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

EMU_INLINE double emu_double_of_bits(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

EMU_INLINE uint64_t emu_bits_of_double(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/*
 * 2^x = 2^n * e^(r ln 2), |r| <= 1/2; the series to the twelfth power is exact
 * to 2^-52.  Beyond the clamps the result rounds to 0 or infinity.
 */
EMU_INLINE float emu_ex2(float value)
{
	double x = value < -160 ? -160 : value > 160 ? 160 : value;
	double shifted = x + 0x1.8p52, n = shifted - 0x1.8p52, t = (x - n) * 0x1.62e42fefa39efp-1;
	double sum = 1.0 / 479001600;
	uint64_t scale = (emu_bits_of_double(shifted) + 1023) << 52;

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
EMU_INLINE float emu_lg2(float value)
{
	double x = value, sum = 1.0 / 21, s, q, result;
	uint64_t bits = emu_bits_of_double(x);
	double m = emu_double_of_bits((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
	bool large = m > 0x1.6a09e667f3bcdp0;
	double exponent = (double)((int)(bits >> 52 & 0x7ff) - 1023 + large);

	m = large ? m * 0.5 : m;
	s = (m - 1) / (m + 1);
	q = s * s;
	for (int k = 19; k >= 1; k -= 2)
		sum = sum * q + 1.0 / k;
	result = exponent + sum * s * (2 * 0x1.71547652b82fep0);
	result = value < HUGE_VALF ? result : (double)value;
	result = value == 0 ? -(double)HUGE_VALF : result;
	return value >= 0 ? (float)result : NAN;
}

EMU_INLINE float emu_rsqrt(float value)
{
	return (float)(1.0 / sqrt((double)value));
}

/*
 * The part of a turn that sine and cosine look at: of |x| / (2 pi) the leading 24 bits, cut off, so
 * that little is left of large angles.
 */
EMU_INLINE double emu_turn(float value)
{
	double turns = fabs((double)value) * 0x1.45f306p-3;
	double kept = emu_double_of_bits(emu_bits_of_double(turns) & 0xffffffffe0000000ull);

	return kept - floor(kept);
}

/*
 * Sine, or a quarter of a turn ahead cosine, of an angle in [0, 2 pi]: quarter turns are taken off
 * in two parts, which leaves |r| <= pi / 4; the series are exact to 2^-55 there.
 */
EMU_INLINE double emu_wave(double angle, uint64_t quarters)
{
	double shifted = angle * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = shifted - 0x1.8p52;
	double r = (angle - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34, q = r * r;
	double sine = -1.0 / 1307674368000, cosine = -1.0 / 87178291200, value;
	uint64_t turn = emu_bits_of_double(shifted) + quarters;

	sine = sine * q + 1.0 / 6227020800;
	sine = sine * q - 1.0 / 39916800;
	sine = sine * q + 1.0 / 362880;
	sine = sine * q - 1.0 / 5040;
	sine = sine * q + 1.0 / 120;
	sine = sine * q - 1.0 / 6;
	sine = r + r * q * sine;
	cosine = 1.0 / 20922789888000 * q + cosine;
	cosine = cosine * q + 1.0 / 479001600;
	cosine = cosine * q - 1.0 / 3628800;
	cosine = cosine * q + 1.0 / 40320;
	cosine = cosine * q - 1.0 / 720;
	cosine = cosine * q + 1.0 / 24;
	cosine = (1 - 0.5 * q) + q * q * cosine;
	value = turn & 1 ? cosine : sine;
	return emu_double_of_bits(emu_bits_of_double(value) ^ (turn & 2) << 62);
}

EMU_INLINE float emu_sin(float value)
{
	double sine = emu_wave(emu_turn(value) * 0x1.921fb54442d18p+2, 0);
	uint64_t sign = emu_bits_of_double(value) & 1ull << 63;

	return (float)emu_double_of_bits(emu_bits_of_double(sine) ^ sign);
}

EMU_INLINE float emu_cos(float value)
{
	return (float)emu_wave(emu_turn(value) * 0x1.921fb54442d18p+2, 1);
}

/*
 * tanh |x| = m / (m + 2), m = e^2|x| - 1 = 2^n (e^r - 1) + 2^n - 1, |r| <= ln 2 / 2; from 10 on it
 * rounds to 1.
 */
EMU_INLINE float emu_tanh(float value)
{
	double x = fabs((double)value), twice = x < 10 ? 2 * x : 20;
	double shifted = twice * 0x1.71547652b82fep0 + 0x1.8p52, n = shifted - 0x1.8p52;
	double r = (twice - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
	double scale = emu_double_of_bits((emu_bits_of_double(shifted) + 1023) << 52), m;
	double sum = 1.0 / 87178291200;

	sum = sum * r + 1.0 / 6227020800;
	sum = sum * r + 1.0 / 479001600;
	sum = sum * r + 1.0 / 39916800;
	sum = sum * r + 1.0 / 3628800;
	sum = sum * r + 1.0 / 362880;
	sum = sum * r + 1.0 / 40320;
	sum = sum * r + 1.0 / 5040;
	sum = sum * r + 1.0 / 720;
	sum = sum * r + 1.0 / 120;
	sum = sum * r + 1.0 / 24;
	sum = sum * r + 1.0 / 6;
	sum = sum * r + 0.5;
	m = scale * (r + r * r * sum) + (scale - 1);
	m = m / (m + 2);
	return value == value ? copysignf((float)m, value) : value;
}

/* The forms of f64 give the upper half alone: the lower 32 bits are zero. */
EMU_INLINE double emu_upper_half(double value)
{
	return emu_double_of_bits(emu_bits_of_double(value) & 0xffffffff00000000ull);
}

EMU_INLINE double emu_flush_double(double value)
{
	return fabs(value) < 0x1p-1022 ? copysign(0.0, value) : value;
}

/* NaN has one pattern. */
EMU_INLINE double emu_gross(double result)
{
	return result == result ? emu_upper_half(result)
				: emu_double_of_bits(0x7fffffff00000000ull);
}

EMU_INLINE double emu_rcp_gross(double value)
{
	return emu_gross(emu_flush_double(1.0 / emu_flush_double(emu_upper_half(value))));
}

EMU_INLINE double emu_rsqrt_gross(double value)
{
	return emu_gross(1.0 / sqrt(emu_flush_double(emu_upper_half(value))));
}

#endif

/* Values of f32 and f64 as PTX has them: subnormals, NaN, minima and maxima; and loops over rows.
 */
#ifndef TCMMA_EMU_ALU_FLOAT_H
#define TCMMA_EMU_ALU_FLOAT_H

#include "machine.h"
#include "number.h"
#include <math.h>

EMU_INLINE float emu_flush_f32(float value)
{
	uint32_t bits = emu_bits_of_f32(value);

	return emu_f32_of_bits(bits & 0x7f800000u ? bits : bits & 0x80000000u);
}

/* A result is flushed where it would be below 2^-126 rounded as if exponents had no bound. */
EMU_INLINE float emu_flush_tiny(float rounded, double exact)
{
	float unbounded = (float)(exact * 0x1p64);

	return fabsf(unbounded) < 0x1p-62f ? copysignf(0.0f, rounded) : rounded;
}

/* A NaN result has one pattern. */
EMU_INLINE uint32_t emu_canonical(float value)
{
	uint32_t bits = emu_bits_of_f32(value);

	return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}

EMU_INLINE float emu_saturate_f32(float value)
{
	return value > 0 ? value < 1 ? value : 1 : 0;
}

/* div.approx by more than 2^126 gives zero, of infinity NaN. */
EMU_INLINE float emu_far_quotient(float x, float y)
{
	return isinf(x) ? NAN : copysignf(0.0f, signbit(x) != signbit(y) ? -1.0f : 1.0f);
}

/* Without NaN, -0 is less than +0; of a number and a NaN the number is chosen. */
EMU_INLINE float emu_least_f32(float x, float y)
{
	uint32_t both = emu_bits_of_f32(x) | emu_bits_of_f32(y);
	float chosen = x == y ? emu_f32_of_bits(both) : x < y ? x : y;

	return x != x ? y : y != y ? x : chosen;
}

EMU_INLINE float emu_greatest_f32(float x, float y)
{
	uint32_t both = emu_bits_of_f32(x) & emu_bits_of_f32(y);
	float chosen = x == y ? emu_f32_of_bits(both) : x > y ? x : y;

	return x != x ? y : y != y ? x : chosen;
}

EMU_INLINE double emu_quiet_f64(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	bits |= 0x0008000000000000u;
	memcpy(&x, &bits, sizeof bits);
	return x;
}

/* A NaN of f64 goes on: y's, of fma else z's, else x's; one that arises is negative. */
EMU_INLINE double emu_propagate(double result, double x, double y)
{
	if (result == result)
		return result;
	return emu_quiet_f64(y != y ? y : x != x ? x : -(double)NAN);
}

EMU_INLINE double emu_propagate3(double result, double x, double y, double z)
{
	return z != z && y == y ? emu_quiet_f64(z) : emu_propagate(result, x, y);
}

EMU_INLINE double emu_least_f64(double x, double y)
{
	if (x != x || y != y)
		return x == x ? x : y == y ? y : emu_quiet_f64(y);
	return x == y ? (signbit(x) ? x : y) : x < y ? x : y;
}

EMU_INLINE double emu_greatest_f64(double x, double y)
{
	if (x != x || y != y)
		return x == x ? x : y == y ? y : emu_quiet_f64(y);
	return x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}

enum emu_float_variant {
	EMU_FLOAT_PLAIN,
	EMU_FLOAT_FLUSH,
	EMU_FLOAT_SATURATE,
	EMU_FLOAT_FAR, /* div.approx */
	EMU_FLOAT_FAR_FLUSH
};

/* The loop for an opcode with the default rounding; NULL where there is none. */
emu_execute emu_float_rows(const char *opcode, enum emu_type type, enum emu_float_variant variant);

#endif

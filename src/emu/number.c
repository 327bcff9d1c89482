/* Number formats of the tensor core: widening is exact, narrowing rounds to nearest even. */
#include "number.h"

#include <math.h>

const struct emu_minifloat emu_e4m3 = {4, 3, 7, false, true};
const struct emu_minifloat emu_e5m2 = {5, 2, 15, true, true};
const struct emu_minifloat emu_e2m3 = {2, 3, 1, false, false};
const struct emu_minifloat emu_e3m2 = {3, 2, 3, false, false};
const struct emu_minifloat emu_e2m1 = {2, 1, 1, false, false};

/*
 * Rounds |value| to a multiple of 2^(e - mantissa_bits), e its exponent but at
 * least `minimum`, and returns the multiple; the exponent used goes to *exponent.
 */
static uint32_t round_significand(float magnitude, int mantissa_bits, int minimum, int *exponent)
{
	int e;

	frexpf(magnitude, &e);
	e--;
	if (e < minimum || magnitude == 0)
		e = minimum;
	*exponent = e;
	return (uint32_t)nearbyint(ldexp((double)magnitude, mantissa_bits - e));
}

float emu_tf32_round(float value)
{
	uint32_t bits = emu_bits_of_f32(value);

	if ((bits & 0x7f800000u) == 0x7f800000u)
		return value;
	bits += 0xfffu + (bits >> 13 & 1);
	return emu_f32_of_bits(bits & ~0x1fffu);
}

float emu_minifloat_to_f32(const struct emu_minifloat *format, uint8_t bits)
{
	int mantissa_bits = format->mantissa_bits, width = format->exponent_bits + mantissa_bits;
	uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
	int exponent = bits >> mantissa_bits & ((1 << format->exponent_bits) - 1);
	int top = (1 << format->exponent_bits) - 1;
	float magnitude;

	if (format->has_infinity && exponent == top)
		magnitude = mantissa ? NAN : INFINITY;
	else if (format->has_nan && exponent == top && mantissa == (1u << mantissa_bits) - 1)
		magnitude = NAN;
	else if (exponent == 0)
		magnitude = ldexpf((float)mantissa, 1 - format->bias - mantissa_bits);
	else
		magnitude = ldexpf((float)(mantissa | 1u << mantissa_bits),
				   exponent - format->bias - mantissa_bits);
	return bits >> width & 1 ? -magnitude : magnitude;
}

/* The largest finite value's bits, without sign. */
static uint8_t largest(const struct emu_minifloat *format)
{
	int width = format->exponent_bits + format->mantissa_bits;

	if (format->has_infinity)
		return (uint8_t)((1 << width) - (1 << format->mantissa_bits) - 1);
	return (uint8_t)((1 << width) - (format->has_nan ? 2 : 1));
}

uint8_t emu_minifloat_from_f32(const struct emu_minifloat *format, float value)
{
	int width = format->exponent_bits + format->mantissa_bits;
	uint8_t sign = (uint8_t)(signbit(value) ? 1 << width : 0), top = largest(format);
	int exponent, minimum = 1 - format->bias;
	uint32_t significand;

	if (isnan(value))
		return format->has_nan ? (uint8_t)((1 << width) - 1) : top;
	value = fabsf(value);
	if (value >= emu_minifloat_to_f32(format, top))
		return sign | top;
	significand = round_significand(value, format->mantissa_bits, minimum, &exponent);
	significand += (uint32_t)(exponent - minimum) << format->mantissa_bits;
	return sign | (significand > top ? top : (uint8_t)significand);
}

float emu_ue8m0_to_f32(uint8_t bits)
{
	return bits == 0xff ? NAN : ldexpf(1.0f, bits - 127);
}

float emu_ue4m3_to_f32(uint8_t bits)
{
	return emu_minifloat_to_f32(&emu_e4m3, bits & 0x7f);
}

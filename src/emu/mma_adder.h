/* Parts of the tensor core's adder that its two implementations share. */
#ifndef TCMMA_EMU_MMA_ADDER_H
#define TCMMA_EMU_MMA_ADDER_H

#include "tensor.h"

#include <string.h>

enum {
	EMU_ADDER_LEAST_EXPONENT = -126
}; /* also that of a zero */

struct emu_adder_format {
	int mantissa, minimum; /* bits, least exponent of a normal number */
};

extern const struct emu_adder_format emu_adder_formats[]; /* by enum emu_element */
extern const struct emu_adder_format emu_adder_f32;

/* significand * 2^(exponent - scale), the significand with its sign. */
struct emu_adder_term {
	int64_t significand;
	int exponent, scale;
};

/* Takes a finite f32 that the format can hold apart. */
struct emu_adder_term emu_adder_take_apart(float value, struct emu_adder_format format);
/* total * 2^(exponent - F) in the adder's result format. */
float emu_adder_round_slowly(const struct emu_adder *adder, int64_t total, int exponent);

/*
 * The same: away from the ends of the range the double of the total, which is exact, is cut
 * off in its bits and scaled by an exact power of two.
 */
static inline float emu_adder_round(const struct emu_adder *adder, int64_t total, int exponent)
{
	int scale = exponent - adder->fraction_bits;
	double value = (double)total, unit;
	uint64_t bits, unit_bits = (uint64_t)(1023 + scale) << 52;

	if (adder->f16_result || total > 1ll << 53 || total < -(1ll << 53) || scale < -200 ||
	    scale > 60)
		return emu_adder_round_slowly(adder, total, exponent);
	memcpy(&bits, &value, sizeof bits);
	memcpy(&unit, &unit_bits, sizeof unit);
	bits &= ~0ull << (52 - adder->result_bits);
	memcpy(&value, &bits, sizeof value);
	value *= unit;
	return value == 0 || (value < 0 ? -value : value) >= 0x1p-126
		       ? (float)value
		       : emu_adder_round_slowly(adder, total, exponent);
}

/* 16 rows of column j, whatever the values. */
void emu_adder_column(const struct emu_adder *adder, const struct emu_adder_scales *scales, int j,
		      int k, const float *a, int a_stride, const float *b, float *d,
		      bool accumulate);
/* The whole product in vectors; false when it must be done otherwise, D untouched. */
bool emu_adder_dense(const struct emu_adder *adder, const struct emu_adder_scales *scales, int n,
		     int k, const float *a, int a_stride, const float *b, int b_stride, float *d,
		     int d_stride, bool accumulate);

#endif

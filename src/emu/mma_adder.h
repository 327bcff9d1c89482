/* Parts of the tensor core's adder that its two implementations share. */
#ifndef TCMMA_EMU_MMA_ADDER_H
#define TCMMA_EMU_MMA_ADDER_H

#include "tensor.h"

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
/* significand * 2^shift, cut off towards zero. */
int64_t emu_adder_shift(int64_t significand, int shift);
/* total * 2^(exponent - F) in the adder's result format. */
float emu_adder_round(const struct emu_adder *adder, int64_t total, int exponent);
/* 16 rows of column j, whatever the values. */
void emu_adder_column(const struct emu_adder *adder, const struct emu_adder_scales *scales, int j,
		      int k, const float *a, int a_stride, const float *b, float *d,
		      bool accumulate);
/* The whole product in vectors; false when it must be done otherwise, D untouched. */
bool emu_adder_dense(const struct emu_adder *adder, const struct emu_adder_scales *scales, int n,
		     int k, const float *a, int a_stride, const float *b, int b_stride, float *d,
		     int d_stride, bool accumulate);

#endif

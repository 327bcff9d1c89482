/*
 * The adder of the tensor cores (10): all products of an instruction and C are
 * brought to one exponent, cut off towards zero, and added exactly.
 *
 * A number is (significand, exponent): value = significand * 2^(exponent - scale),
 * `scale` the mantissa bits of its format.  Subnormals keep the format's least
 * exponent, as the hardware does not normalise them.
 */
#include "mma_adder.h"

#include "number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	f32_mantissa = 23,
	group = 16, /* products that the fp4 adder sums before scaling */
	max_terms = EMU_GEMM_MAX_K
};

struct sum {
	struct emu_adder_term terms[max_terms + 1];
	int count;
	bool nan, plus_infinity, minus_infinity;
};

const struct emu_adder_format emu_adder_formats[] = {
	[EMU_ELEMENT_F16] = {10, -14},   [EMU_ELEMENT_BF16] = {7, -126},
	[EMU_ELEMENT_TF32] = {10, -126}, [EMU_ELEMENT_E4M3] = {3, -6},
	[EMU_ELEMENT_E5M2] = {2, -14},   [EMU_ELEMENT_E2M3] = {3, 0},
	[EMU_ELEMENT_E3M2] = {2, -2},    [EMU_ELEMENT_E2M1] = {1, 0},
};

const struct emu_adder_format emu_adder_f32 = {f32_mantissa, -126};

struct emu_adder_term emu_adder_take_apart(float value, struct emu_adder_format format)
{
	uint32_t bits = emu_bits_of_f32(value), field = bits >> 23 & 0xff;
	struct emu_adder_term term = {0, (int)field - 127, format.mantissa};
	int64_t significand = bits & 0x7fffff;

	if (field)
		significand |= 0x800000;
	else
		term.exponent = -126;
	if (term.exponent < format.minimum) {
		int below = format.minimum - term.exponent;
		significand >>= below > 24 ? 24 : below;
		term.exponent = format.minimum;
	}
	term.significand = significand >> (f32_mantissa - format.mantissa);
	if (bits >> 31)
		term.significand = -term.significand;
	return term;
}

static void add_term(struct sum *sum, struct emu_adder_term term)
{
	if (term.significand == 0)
		term.exponent = EMU_ADDER_LEAST_EXPONENT;
	sum->terms[sum->count++] = term;
}

static void add_special(struct sum *sum, float value)
{
	if (isnan(value))
		sum->nan = true;
	else if (value > 0)
		sum->plus_infinity = true;
	else
		sum->minus_infinity = true;
}

static struct emu_adder_term product(struct emu_adder_term a, struct emu_adder_term b)
{
	return (struct emu_adder_term){a.significand * b.significand, a.exponent + b.exponent,
				       a.scale + b.scale};
}

/* significand * 2^shift, cut off towards zero. */
static int64_t shifted(int64_t significand, int shift)
{
	int64_t magnitude = significand < 0 ? -significand : significand;

	if (shift >= 0)
		magnitude = magnitude << shift;
	else
		magnitude = shift < -62 ? 0 : magnitude >> -shift;
	return significand < 0 ? -magnitude : magnitude;
}

/* total * 2^(exponent - fraction) with `mantissa` bits, cut off towards zero. */
static float round_to_f32(int64_t total, int exponent, int fraction, int mantissa)
{
	uint64_t magnitude = total < 0 ? (uint64_t)-total : (uint64_t)total;
	int top, keep, scale = exponent - fraction;

	if (!magnitude)
		return 0.0f;
	top = 63 - __builtin_clzll(magnitude);
	keep = top - mantissa;
	if (top + scale < -126) /* subnormal: multiples of 2^(-126 - mantissa) */
		keep = -126 - mantissa - scale;
	if (keep > 63)
		return 0.0f;
	if (keep > 0)
		magnitude = magnitude >> keep << keep;
	return (float)ldexp(total < 0 ? -(double)magnitude : (double)magnitude, scale);
}

static float round_to_f16(int64_t total, int exponent, int fraction)
{
	/* At most 52 significant bits, so the double is exact; f16 rounds it once. */
	double value = ldexp((double)total, exponent - fraction);
	double magnitude = fabs(value), unit, rounded;
	int e;

	if (!magnitude)
		return 0.0f;
	frexp(magnitude, &e);
	e = e - 1 < -14 ? -14 : e - 1;
	unit = ldexp(1.0, e - 10);
	rounded = nearbyint(magnitude / unit) * unit;
	if (rounded >= 65520.0)
		rounded = INFINITY;
	return (float)copysign(rounded, value);
}

float emu_adder_round_slowly(const struct emu_adder *adder, int64_t total, int exponent)
{
	if (adder->f16_result)
		return round_to_f16(total, exponent, adder->fraction_bits);
	return round_to_f32(total, exponent, adder->fraction_bits, adder->result_bits);
}

static float finish(const struct emu_adder *adder, const struct sum *sum)
{
	int64_t total = 0;
	int exponent = EMU_ADDER_LEAST_EXPONENT;

	if (sum->nan || (sum->plus_infinity && sum->minus_infinity))
		return emu_f32_of_bits(0x7fffffff);
	if (sum->plus_infinity || sum->minus_infinity)
		return sum->plus_infinity ? INFINITY : -INFINITY;
	for (int i = 0; i < sum->count; i++)
		if (sum->terms[i].exponent > exponent)
			exponent = sum->terms[i].exponent;
	for (int i = 0; i < sum->count; i++) {
		const struct emu_adder_term *term = &sum->terms[i];
		total += shifted(term->significand,
				 term->exponent - exponent + adder->fraction_bits - term->scale);
	}
	return emu_adder_round(adder, total, exponent);
}

/* ---- the terms of one element of D ------------------------------------------- */

struct element {
	const float *a, *b; /* a[k * a_stride], b[k] */
	int a_stride, k;
	const uint8_t *a_scale, *b_scale;
};

static void add_c(struct sum *sum, float c)
{
	if (isfinite(c))
		add_term(sum, emu_adder_take_apart(c, emu_adder_f32));
	else
		add_special(sum, c);
}

/* The factor of a block as a term; false for NaN. */
static bool scale_term(const struct emu_adder_scales *scales, uint8_t bits,
		       struct emu_adder_term *term)
{
	struct emu_adder_format e4m3 = emu_adder_formats[EMU_ELEMENT_E4M3];

	if (!scales->ue4m3) {
		*term = (struct emu_adder_term){1, (int)bits - 127, 0};
		return bits != 0xff;
	}
	bits &= 0x7f;
	if (bits == 0x7f)
		return false;
	*term = emu_adder_take_apart(emu_ue4m3_to_f32(bits), e4m3);
	return true;
}

static void add_products(const struct emu_adder *adder, const struct emu_adder_scales *scales,
			 const struct element *e, struct sum *sum)
{
	for (int i = 0; i < e->k; i++) {
		float a = e->a[i * e->a_stride], b = e->b[i];
		struct emu_adder_term term, sa, sb;

		if (!isfinite(a) || !isfinite(b)) {
			add_special(sum, a * b);
			continue;
		}
		term = product(emu_adder_take_apart(a, emu_adder_formats[adder->a]),
			       emu_adder_take_apart(b, emu_adder_formats[adder->b]));
		if (scales) {
			int block = i / scales->block_k;
			if (!scale_term(scales, e->a_scale[block], &sa) ||
			    !scale_term(scales, e->b_scale[block], &sb)) {
				sum->nan = true;
				return;
			}
			term = product(product(term, sa), sb);
		}
		add_term(sum, term);
	}
}

static void add_groups(const struct emu_adder *adder, const struct emu_adder_scales *scales,
		       const struct element *e, struct sum *sum)
{
	for (int start = 0; start < e->k; start += group) {
		struct emu_adder_term term = {0, 0, 0}, sa, sb;
		int block = start / scales->block_k;

		for (int i = start; i < start + group && i < e->k; i++) {
			struct emu_adder_term p =
				product(emu_adder_take_apart(e->a[i * e->a_stride],
							     emu_adder_formats[adder->a]),
					emu_adder_take_apart(e->b[i], emu_adder_formats[adder->b]));
			term.scale = p.scale;
			term.significand += p.significand * (INT64_C(1) << p.exponent);
		}
		if (!scale_term(scales, e->a_scale[block], &sa) ||
		    !scale_term(scales, e->b_scale[block], &sb)) {
			sum->nan = true;
			return;
		}
		add_term(sum, product(product(term, sa), sb));
	}
}

static float one_element(const struct emu_adder *adder, const struct emu_adder_scales *scales,
			 const struct element *e, float c)
{
	struct sum sum;

	sum.count = 0;
	sum.nan = sum.plus_infinity = sum.minus_infinity = false;
	add_c(&sum, c);
	if (scales && scales->by_group)
		add_groups(adder, scales, e, &sum);
	else
		add_products(adder, scales, e, &sum);
	return finish(adder, &sum);
}

void emu_adder_column(const struct emu_adder *adder, const struct emu_adder_scales *scales, int j,
		      int k, const float *a, int a_stride, const float *b, float *d,
		      bool accumulate)
{
	for (int r = 0; r < EMU_GEMM_ROWS; r++) {
		struct element e = {.a = a + r, .b = b, .a_stride = a_stride, .k = k};

		if (scales) {
			e.a_scale = scales->a_scale + r * scales->blocks;
			e.b_scale = scales->b_scale + j * scales->blocks;
		}
		d[r] = one_element(adder, scales, &e, accumulate ? d[r] : 0.0f);
	}
}

void emu_gemm_adder(const struct emu_adder *adder, const struct emu_adder_scales *scales, int n,
		    int k, const float *a, int a_stride, const float *b, int b_stride, float *d,
		    int d_stride, bool accumulate)
{
	if (emu_adder_dense(adder, scales, n, k, a, a_stride, b, b_stride, d, d_stride, accumulate))
		return;
	for (int j = 0; j < n; j++)
		emu_adder_column(adder, scales, j, k, a, a_stride, b + (size_t)j * (size_t)b_stride,
				 d + (size_t)j * (size_t)d_stride, accumulate);
}

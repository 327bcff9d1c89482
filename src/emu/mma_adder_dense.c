/*
 * The tensor core's adder for finite operands, unscaled or with ue8m0 factors (10), 16 rows
 * at a time in the host's vectors.
 *
 * The same arithmetic as mma_adder.c.  A product of two significands, brought to
 * F fraction bits, is less than 2^(F + 2), so 32 bits hold each term; sums are
 * kept in a high and a low part.
 */
#include "mma_adder.h"

#include "number.h"

#include <math.h>
#include <pthread.h>

enum {
	rows = EMU_GEMM_ROWS,
	no_exponent = -100000,
	low_bits = 12
};

typedef int32_t lanes __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t unsigned_lanes __attribute__((vector_size(64), aligned(4), may_alias));

struct panel {
	int32_t significand[EMU_GEMM_MAX_K][rows];
	int32_t exponent[EMU_GEMM_MAX_K][rows]; /* no_exponent for zero */
};

struct column {
	int32_t significand[EMU_GEMM_MAX_K];
	int32_t exponent[EMU_GEMM_MAX_K];
};

/* For 16 rows of one column: in: exponents of C; out: the common exponents and the sums. */
struct sums {
	int32_t exponent[rows], high[rows], low[rows];
};

static inline __attribute__((always_inline)) void
sum_body(const struct panel *a, const struct column *b, int k, int left, struct sums *sums)
{
	lanes exponent = *(const lanes *)sums->exponent, high = {0}, low = {0};

	for (int i = 0; i < k; i++) {
		lanes e = *(const lanes *)a->exponent[i] + b->exponent[i];
		lanes larger = e > exponent;
		exponent = (larger & e) | (~larger & exponent);
	}
	for (int i = 0; i < k; i++) {
		lanes product = *(const lanes *)a->significand[i] * b->significand[i];
		lanes sign = product >> 31;
		lanes shift = exponent - *(const lanes *)a->exponent[i] - b->exponent[i];
		lanes far = shift > 31;
		unsigned_lanes magnitude = (unsigned_lanes)((product ^ sign) - sign) << left;

		shift = (far & 31) | (~far & shift);
		magnitude >>= (unsigned_lanes)shift;
		product = ((lanes)magnitude ^ sign) - sign;
		high += product >> low_bits;
		low += product & ((1 << low_bits) - 1);
	}
	*(lanes *)sums->exponent = exponent;
	*(lanes *)sums->high = high;
	*(lanes *)sums->low = low;
}

typedef void sum_function(const struct panel *a, const struct column *b, int k, int left,
			  struct sums *sums);

#define SUM(name, attribute)                                                                       \
	attribute static void name(const struct panel *a, const struct column *b, int k, int left, \
				   struct sums *sums)                                              \
	{                                                                                          \
		sum_body(a, b, k, left, sums);                                                     \
	}

SUM(sum_base, )
#ifdef __x86_64__
SUM(sum_avx2, __attribute__((target("avx2"))))
SUM(sum_avx512, __attribute__((target("avx512f"))))
#endif

static sum_function *chosen = sum_base;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		chosen = sum_avx512;
	else if (__builtin_cpu_supports("avx2"))
		chosen = sum_avx2;
#endif
}

static bool take_apart(float value, struct emu_adder_format format, int32_t *significand,
		       int32_t *exponent)
{
	struct emu_adder_term term;

	if (!isfinite(value))
		return false;
	term = emu_adder_take_apart(value, format);
	*significand = (int32_t)term.significand;
	*exponent = term.significand ? term.exponent : no_exponent;
	return true;
}

/* A ue8m0 factor adds to the exponents of its block; NaN is declined. */
static bool scale_exponent(const struct emu_adder_scales *scales, const uint8_t *factors, int i,
			   int32_t *exponent)
{
	uint8_t bits;

	if (!scales)
		return true;
	bits = factors[i / scales->block_k];
	*exponent += bits - 127;
	return bits != 0xff;
}

static bool load_a(const float *a, int a_stride, int k, struct emu_adder_format format,
		   const struct emu_adder_scales *scales, struct panel *panel)
{
	for (int i = 0; i < k; i++)
		for (int r = 0; r < rows; r++)
			if (!take_apart(a[i * a_stride + r], format, &panel->significand[i][r],
					&panel->exponent[i][r]) ||
			    !scale_exponent(scales,
					    scales ? scales->a_scale + r * scales->blocks : NULL, i,
					    &panel->exponent[i][r]))
				return false;
	return true;
}

static bool load_b(const float *b, int k, struct emu_adder_format format,
		   const struct emu_adder_scales *scales, int j, struct column *column)
{
	for (int i = 0; i < k; i++)
		if (!take_apart(b[i], format, &column->significand[i], &column->exponent[i]) ||
		    !scale_exponent(scales, scales ? scales->b_scale + j * scales->blocks : NULL, i,
				    &column->exponent[i]))
			return false;
	return true;
}

static bool load_c(const float *c, struct emu_adder_term terms[rows], struct sums *sums)
{
	for (int r = 0; r < rows; r++) {
		if (!isfinite(c[r]))
			return false;
		terms[r] = emu_adder_take_apart(c[r], emu_adder_f32);
		sums->exponent[r] =
			terms[r].significand ? terms[r].exponent : EMU_ADDER_LEAST_EXPONENT;
	}
	return true;
}

bool emu_adder_dense(const struct emu_adder *adder, const struct emu_adder_scales *scales, int n,
		     int k, const float *a, int a_stride, const float *b, int b_stride, float *d,
		     int d_stride, bool accumulate)
{
	static const float zeros[rows];
	struct emu_adder_format a_format = emu_adder_formats[adder->a];
	struct emu_adder_format b_format = emu_adder_formats[adder->b];
	int left = adder->fraction_bits - a_format.mantissa - b_format.mantissa;
	struct emu_adder_term c[rows];
	struct panel panel;
	struct column column;
	struct sums sums;

	if (left < 0 || adder->fraction_bits > 25 ||
	    (scales && (scales->ue4m3 || scales->by_group)) ||
	    !load_a(a, a_stride, k, a_format, scales, &panel))
		return false;
	pthread_once(&chosen_once, choose);
	for (int j = 0; j < n; j++) {
		float *out = d + (size_t)j * (size_t)d_stride;

		const float *b_column = b + (size_t)j * (size_t)b_stride;

		if (!load_b(b_column, k, b_format, scales, j, &column) ||
		    !load_c(accumulate ? out : zeros, c, &sums)) {
			emu_adder_column(adder, scales, j, k, a, a_stride, b_column, out,
					 accumulate);
			continue;
		}
		chosen(&panel, &column, k, left, &sums);
		for (int r = 0; r < rows; r++) {
			int64_t total = (int64_t)sums.high[r] * (1 << low_bits) + sums.low[r];

			total += emu_adder_shift(c[r].significand,
						 c[r].exponent - sums.exponent[r] +
							 adder->fraction_bits - c[r].scale);
			out[r] = emu_adder_round(adder, total, sums.exponent[r]);
		}
	}
	return true;
}

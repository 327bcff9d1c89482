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

#include <pthread.h>
#include <string.h>

enum {
	rows = EMU_GEMM_ROWS,
	no_exponent = -100000,
	low_bits = 12
};

typedef int32_t lanes __attribute__((vector_size(64)));
typedef double doubles __attribute__((vector_size(128)));
typedef int64_t longs __attribute__((vector_size(128)));
typedef float floats __attribute__((vector_size(64)));
typedef uint32_t unsigned_lanes __attribute__((vector_size(64)));
/* In memory, anywhere; a variable of such a type is not aligned as its moves are (gcc 13 with
 * ASan).
 */
typedef int32_t loose_lanes __attribute__((vector_size(64), aligned(4), may_alias));
typedef float loose_floats __attribute__((vector_size(64), aligned(4), may_alias));

struct panel {
	int32_t significand[EMU_GEMM_MAX_K][rows];
	int32_t exponent[EMU_GEMM_MAX_K][rows]; /* no_exponent for zero */
};

struct column {
	int32_t significand[EMU_GEMM_MAX_K];
	int32_t exponent[EMU_GEMM_MAX_K];
};

/* For 16 rows of one column: in: C taken apart; out: the common exponents, the sums, and their
   roundings but for the rows that are `hard`. */
struct sums {
	int32_t significand[rows], exponent[rows], high[rows], low[rows], hard[rows];
	float rounded[rows];
};

/* By masks of lanes. */
#define CHOOSE(condition, yes, no) (((condition) & (yes)) | (~(condition) & (no)))
#define ALL(value)                 ((lanes){0} + (value))
#define INLINE                     static inline __attribute__((always_inline))

/*
 * emu_adder_take_apart of 16 numbers; a zero has the exponent `zero`.  `infinite` becomes
 * non-zero where one is not finite.  Vectors go by address: how they are passed depends on what
 * the host can.
 */
INLINE void parts_body(const float *values, struct emu_adder_format format, int32_t zero,
		       int32_t *significand, int32_t *exponent, int32_t *infinite)
{
	lanes bits = *(const loose_lanes *)(const void *)values, sign = bits >> 31;
	lanes field = bits >> 23 & 0xff, normal = field > 0;
	lanes digits = (bits & 0x7fffff) | (normal & 0x800000);
	lanes e = CHOOSE(normal, field, ALL(1)) - 127, below = format.minimum - e;

	below &= below > 0;
	digits >>= CHOOSE(below > 24, ALL(24), below);
	digits >>= emu_adder_f32.mantissa - format.mantissa;
	*(loose_lanes *)infinite |= field == 0xff;
	*(loose_lanes *)exponent = CHOOSE(digits == 0, ALL(zero), e + below);
	*(loose_lanes *)significand = (digits ^ sign) - sign;
}

INLINE void add_c(const struct sums *sums, const lanes *exponent, int left, lanes *high, lanes *low)
{
	lanes c = *(const loose_lanes *)sums->significand, sign = c >> 31;
	lanes shift = *exponent - *(const loose_lanes *)sums->exponent - (left < 0 ? left : 0);
	unsigned_lanes magnitude = (unsigned_lanes)((c ^ sign) - sign) << (left > 0 ? left : 0);

	magnitude >>= (unsigned_lanes)CHOOSE(shift > 31, ALL(31), shift);
	c = ((lanes)magnitude ^ sign) - sign;
	*high += c >> low_bits;
	*low += c & ((1 << low_bits) - 1);
}

/* As emu_adder_round, where that is quick. */
INLINE void round_body(const struct emu_adder *adder, struct sums *sums)
{
	lanes scale = *(const loose_lanes *)sums->exponent - adder->fraction_bits;
	doubles total = __builtin_convertvector(*(const loose_lanes *)sums->high, doubles) *
				(1 << low_bits) +
			__builtin_convertvector(*(const loose_lanes *)sums->low, doubles);
	longs bits = (longs)total & (int64_t)(~0ull << (52 - adder->result_bits));
	doubles unit = (doubles)(__builtin_convertvector(scale + 1023, longs) << 52);
	doubles value = (doubles)bits * unit;
	longs tiny = (value > -0x1p-126) & (value < 0x1p-126) & (value != 0);

	*(loose_floats *)sums->rounded = __builtin_convertvector(value, floats);
	*(loose_lanes *)sums->hard =
		__builtin_convertvector(tiny, lanes) | (scale < -200) | (scale > 60);
}

INLINE void sum_body(const struct emu_adder *adder, const struct panel *a, const struct column *b,
		     int k, struct sums *sums)
{
	lanes exponent = *(const loose_lanes *)sums->exponent, high = {0}, low = {0};
	int left = adder->fraction_bits - emu_adder_formats[adder->a].mantissa -
		   emu_adder_formats[adder->b].mantissa;

	for (int i = 0; i < k; i++) {
		lanes e = *(const loose_lanes *)a->exponent[i] + b->exponent[i];

		exponent = CHOOSE(e > exponent, e, exponent);
	}
	for (int i = 0; i < k; i++) {
		lanes product = *(const loose_lanes *)a->significand[i] * b->significand[i];
		lanes sign = product >> 31;
		lanes shift = exponent - *(const loose_lanes *)a->exponent[i] - b->exponent[i];
		unsigned_lanes magnitude = (unsigned_lanes)((product ^ sign) - sign) << left;

		magnitude >>= (unsigned_lanes)CHOOSE(shift > 31, ALL(31), shift);
		product = ((lanes)magnitude ^ sign) - sign;
		high += product >> low_bits;
		low += product & ((1 << low_bits) - 1);
	}
	add_c(sums, &exponent, adder->fraction_bits - emu_adder_f32.mantissa, &high, &low);
	*(loose_lanes *)sums->exponent = exponent;
	*(loose_lanes *)sums->high = high;
	*(loose_lanes *)sums->low = low;
	round_body(adder, sums);
}

/* The two for what a host can. */
struct variant {
	void (*parts)(const float *values, struct emu_adder_format format, int32_t zero,
		      int32_t *significand, int32_t *exponent, int32_t *infinite);
	void (*sum)(const struct emu_adder *adder, const struct panel *a, const struct column *b,
		    int k, struct sums *sums);
};

#define VARIANT(name, attribute)                                                                   \
	attribute static void parts_##name(const float *values, struct emu_adder_format format,    \
					   int32_t zero, int32_t *significand, int32_t *exponent,  \
					   int32_t *infinite)                                      \
	{                                                                                          \
		parts_body(values, format, zero, significand, exponent, infinite);                 \
	}                                                                                          \
	attribute static void sum_##name(const struct emu_adder *adder, const struct panel *a,     \
					 const struct column *b, int k, struct sums *sums)         \
	{                                                                                          \
		sum_body(adder, a, b, k, sums);                                                    \
	}                                                                                          \
	static const struct variant name = {parts_##name, sum_##name};

VARIANT(base, )
#ifdef __x86_64__
VARIANT(avx2, __attribute__((target("avx2"))))
VARIANT(avx512, __attribute__((target("avx512f"))))
#endif

static const struct variant *chosen = &base;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		chosen = &avx512;
	else if (__builtin_cpu_supports("avx2"))
		chosen = &avx2;
#endif
}

/* Any number of them; a zero has the exponent `zero`.  False when one is not finite. */
static bool take_apart(const float *values, int count, struct emu_adder_format format, int32_t zero,
		       int32_t *significand, int32_t *exponent)
{
	int32_t infinite[rows] = {0}, any = 0;

	for (int i = 0; i < count; i += rows) {
		int here = count - i < rows ? count - i : rows;
		int32_t parts[2][rows];
		float rest[rows] = {0};

		if (here == rows) {
			chosen->parts(values + i, format, zero, significand + i, exponent + i,
				      infinite);
			continue;
		}
		memcpy(rest, values + i, (size_t)here * sizeof *rest);
		chosen->parts(rest, format, zero, parts[0], parts[1], infinite);
		memcpy(significand + i, parts[0], (size_t)here * sizeof *significand);
		memcpy(exponent + i, parts[1], (size_t)here * sizeof *exponent);
	}
	for (int i = 0; i < rows; i++)
		any |= infinite[i];
	return !any;
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
	for (int i = 0; i < k; i++) {
		if (!take_apart(a + i * a_stride, rows, format, no_exponent, panel->significand[i],
				panel->exponent[i]))
			return false;
		for (int r = 0; scales && r < rows; r++)
			if (!scale_exponent(scales, scales->a_scale + r * scales->blocks, i,
					    &panel->exponent[i][r]))
				return false;
	}
	return true;
}

static bool load_b(const float *b, int k, struct emu_adder_format format,
		   const struct emu_adder_scales *scales, int j, struct column *column)
{
	if (!take_apart(b, k, format, no_exponent, column->significand, column->exponent))
		return false;
	for (int i = 0; scales && i < k; i++)
		if (!scale_exponent(scales, scales->b_scale + j * scales->blocks, i,
				    &column->exponent[i]))
			return false;
	return true;
}

static bool load_c(const float *c, struct sums *sums)
{
	return take_apart(c, rows, emu_adder_f32, EMU_ADDER_LEAST_EXPONENT, sums->significand,
			  sums->exponent);
}

static void store(const struct emu_adder *adder, const struct sums *sums, float *out)
{
	int32_t hard = adder->f16_result;

	for (int r = 0; r < rows; r++)
		hard |= sums->hard[r];
	if (!hard)
		memcpy(out, sums->rounded, sizeof sums->rounded);
	for (int r = 0; hard && r < rows; r++) {
		int64_t total = (int64_t)sums->high[r] * (1 << low_bits) + sums->low[r];

		out[r] = emu_adder_round(adder, total, sums->exponent[r]);
	}
}

bool emu_adder_dense(const struct emu_adder *adder, const struct emu_adder_scales *scales, int n,
		     int k, const float *a, int a_stride, const float *b, int b_stride, float *d,
		     int d_stride, bool accumulate)
{
	static const float zeros[rows];
	struct emu_adder_format a_format = emu_adder_formats[adder->a];
	struct emu_adder_format b_format = emu_adder_formats[adder->b];
	int left = adder->fraction_bits - a_format.mantissa - b_format.mantissa;
	struct panel panel;
	struct column column;
	struct sums sums;

	pthread_once(&chosen_once, choose);
	if (left < 0 || adder->fraction_bits > 25 ||
	    (scales && (scales->ue4m3 || scales->by_group)) ||
	    !load_a(a, a_stride, k, a_format, scales, &panel))
		return false;
	for (int j = 0; j < n; j++) {
		float *out = d + (size_t)j * (size_t)d_stride;

		const float *b_column = b + (size_t)j * (size_t)b_stride;

		if (!load_b(b_column, k, b_format, scales, j, &column) ||
		    !load_c(accumulate ? out : zeros, &sums)) {
			emu_adder_column(adder, scales, j, k, a, a_stride, b_column, out,
					 accumulate);
			continue;
		}
		chosen->sum(adder, &panel, &column, k, &sums);
		store(adder, &sums, out);
	}
	return true;
}

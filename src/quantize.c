/*
 * Block scaling on the host: the formats of the OCP Microscaling specification
 * 1.0 (a power of two for each 32 elements) and NVFP4 (an e4m3 factor for each
 * 16 elements, one f32 factor for the whole array).
 */
#include "host.h"

#include <float.h>
#include <math.h>

#include "float_format.h"

const struct block_format tc_block_formats[] = {
	{"mxfp8", 32, DT_E8M0, {DT_E4M3, DT_E5M2, DT_COUNT}},
	{"mxfp6", 32, DT_E8M0, {DT_E3M2, DT_E2M3, DT_COUNT}},
	{"mxfp4", 32, DT_E8M0, {DT_E2M1, DT_COUNT}},
	{"nvfp4", 16, DT_E4M3, {DT_E2M1, DT_COUNT}},
	{NULL, 0, DT_COUNT, {DT_COUNT}},
};

/* Narrow types saturate: what they make of infinity is their greatest number. */
static double largest(enum dtype t)
{
	return tc_to_double(t, tc_from_double(t, (double)INFINITY));
}

/* What the scales of an array depend on. */
struct scaling {
	enum dtype scale;
	double largest; /* element */
	bool up;
	double global;
};

/*
 * OCP MX 6.3: the greatest power of two that is no more than the maximum, over
 * the greatest power of two of the element type.  `up`: the least power of two
 * with which the maximum is no more than the greatest element.
 */
static double power_scale(const struct scaling *s, double maximum)
{
	if (maximum == 0)
		return 0x1p-127;
	if (s->up)
		return maximum / s->largest;
	/* Of subnormal numbers too little, which no scale reaches. */
	int exponent = (int)(tc_bits_of(maximum) >> DOUBLE_MANTISSA) -
		       (int)(tc_bits_of(s->largest) >> DOUBLE_MANTISSA);
	return tc_power_of_two(exponent < -127 ? -127 : exponent > 127 ? 127 : exponent);
}

/* As the scale's type has it. */
static uint64_t scale_code(const struct scaling *s, double maximum)
{
	double scale = (double)NAN;

	if (isfinite(maximum))
		scale = s->scale == DT_E8M0 ? power_scale(s, maximum)
					    : maximum / s->largest / s->global;
	return tc_from_double(s->scale, scale);
}

/*
 * The greatest magnitudes of blocks; no number where one of the block is none or infinite.  The
 * bits of such are above those of all others.
 */
TC_INLINE void maxima_loops(const double *restrict x, int blocks, int block, double *restrict out)
{
	for (int b = 0; b < blocks; b++) {
		int64_t greatest = 0;

		for (int i = 0; i < block; i++) {
			int64_t bits = (int64_t)(tc_bits_of(x[b * block + i]) & INT64_MAX);
			greatest = bits > greatest ? bits : greatest;
		}
		out[b] = tc_double_of((uint64_t)greatest);
	}
}

TC_INLINE void divide_loops(double *restrict x, int blocks, int block, const double *restrict scale)
{
	for (int b = 0; b < blocks; b++)
		for (int i = 0; i < block; i++)
			x[b * block + i] /= scale[b];
}

TC_BUILDS(maxima, (const double *x, int blocks, int block, double *out), (x, blocks, block, out))
TC_BUILDS(divide, (double *x, int blocks, int block, const double *scale),
	  (x, blocks, block, scale))

void tc_quantize(const struct block_format *f, int block, const struct lines *src, bool up,
		 float global, const struct lines *elements, void *scales)
{
	struct scaling s = {f->scale, largest(elements->dtype), up, (double)global};
	double x[TC_TILE * TC_TILE], maximum[TC_TILE * TC_TILE / 16],
		divisor[TC_TILE * TC_TILE / 16];
	double factor = f->scale == DT_E8M0 ? 1 : (double)global;

	for (int64_t row = 0; row < src->rows; row += TC_TILE)
		for (int64_t first = 0; first < src->length; first += TC_TILE) {
			int rows = tc_at_most(src->rows - row, TC_TILE);
			int count = tc_at_most(src->length - first, TC_TILE),
			    across = count / block;

			tc_load_lines(src, row, rows, first, count, x);
			maxima(x, rows * across, block, maximum);
			for (int b = 0; b < rows * across; b++) {
				int64_t at = (row + b / across) * (src->length / block) +
					     first / block + b % across;
				uint64_t code = scale_code(&s, maximum[b]);
				double scale = tc_to_double(f->scale, code) * factor;

				tc_set_element(f->scale, scales, at, code);
				if (scale != scale)
					memset(x + b * block, 0, (size_t)block * sizeof *x);
				/* Where it is 0 or NaN, zeros with the signs of the elements. */
				divisor[b] = scale > 0 ? scale : (double)INFINITY;
			}
			divide(x, rows * across, block, divisor);
			tc_store_lines(elements, row, rows, first, count, x);
		}
}

float tc_global_scale(const struct plain *a)
{
	double chunk[512], greatest = 0;

	for (int64_t first = 0; first < a->elements; first += 512) {
		int64_t n = a->elements - first < 512 ? a->elements - first : 512;

		tc_load_doubles(a->dtype, a->data, first, n, chunk);
		for (int64_t i = 0; i < n; i++)
			if (fabs(chunk[i]) > greatest && isfinite(chunk[i]))
				greatest = fabs(chunk[i]);
	}
	if (greatest == 0)
		return 1;
	greatest /= largest(DT_E4M3) * largest(DT_E2M1);
	return (float)fmin(fmax(greatest, (double)FLT_MIN), (double)FLT_MAX);
}

struct line_scales {
	enum dtype dtype;
	const void *codes;
	int64_t block, blocks; /* elements a scale, scales a line */
	double global;
};

/* Elements first .. first + count - 1 of a line. */
static void scale_line(double *x, int64_t first, int count, const struct line_scales *s,
		       int64_t line)
{
	for (int i = 0; i < count;) {
		int64_t b = (first + i) / s->block;
		int end = tc_at_most((b + 1) * s->block - first, count);
		double scale = tc_to_double(
			s->dtype, tc_get_element(s->dtype, s->codes, line * s->blocks + b));

		for (; i < end; i++)
			x[i] = x[i] * scale * s->global;
	}
}

void tc_dequantize(const struct lines *elements, enum dtype scale, const void *scales,
		   int64_t block, double global, const struct lines *out)
{
	struct line_scales s = {scale, scales, block, elements->length / block, global};
	double x[TC_TILE * TC_TILE];

	for (int64_t row = 0; row < elements->rows; row += TC_TILE)
		for (int64_t first = 0; first < elements->length; first += TC_TILE) {
			int rows = tc_at_most(elements->rows - row, TC_TILE);
			int count = tc_at_most(elements->length - first, TC_TILE);

			tc_load_lines(elements, row, rows, first, count, x);
			for (int r = 0; r < rows; r++)
				scale_line(x + r * count, first, count, &s, row + r);
			tc_store_lines(out, row, rows, first, count, x);
		}
}

void tc_interleave_scales(const uint8_t *scales, int64_t rows, int64_t blocks, bool halves,
			  uint8_t *out)
{
	int64_t tiles = (blocks + 3) / 4, half = halves ? rows / 2 : rows;

	for (int64_t row = 0; row < rows; row++) {
		int64_t r = row % half;
		int64_t line = r % 32 + 32 * (row / half);

		for (int64_t b = 0; b < blocks; b++) {
			int64_t tile = r / 128 * tiles + b / 4;
			out[tile * (halves ? 1024 : 512) + line * 16 + r / 32 % 4 * 4 + b % 4] =
				scales[row * blocks + b];
		}
	}
}

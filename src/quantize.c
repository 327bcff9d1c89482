/*
 * Block scaling on the host: the formats of the OCP Microscaling specification
 * 1.0 (a power of two for each 32 elements) and NVFP4 (an e4m3 factor for each
 * 16 elements, one f32 factor for the whole array).
 */
#include "host.h"

#include <float.h>
#include <math.h>

const struct block_format tc_block_formats[] = {
	{"mxfp8", 32, DT_E8M0, {DT_E4M3, DT_E5M2, DT_COUNT}},
	{"mxfp6", 32, DT_E8M0, {DT_E3M2, DT_E2M3, DT_COUNT}},
	{"mxfp4", 32, DT_E8M0, {DT_E2M1, DT_COUNT}},
	{"nvfp4", 16, DT_E4M3, {DT_E2M1, DT_COUNT}},
	{NULL, 0, DT_COUNT, {DT_COUNT}},
};

static double load(const struct lines *l, int64_t row, int64_t i)
{
	return tc_to_double(l->dtype,
			    tc_get_element(l->dtype, l->data, row * l->row_step + i * l->step));
}

static void store(const struct lines *l, int64_t row, int64_t i, double x)
{
	tc_set_element(l->dtype, l->data, row * l->row_step + i * l->step,
		       tc_from_double(l->dtype, x));
}

/* Narrow types saturate: what they make of infinity is their greatest number. */
static double largest(enum dtype t)
{
	return tc_to_double(t, tc_from_double(t, (double)INFINITY));
}

/* The greatest magnitude; NaN if any element is a NaN or an infinity. */
static double block_maximum(const struct lines *src, int64_t row, int64_t first, int count)
{
	double greatest = 0;

	for (int i = 0; i < count; i++) {
		double x = fabs(load(src, row, first + i));
		if (!isfinite(x))
			return (double)NAN;
		greatest = fmax(greatest, x);
	}
	return greatest;
}

/*
 * OCP MX 6.3: the greatest power of two that is no more than the maximum, over
 * the greatest power of two of the element type.  `up`: the least power of two
 * with which the maximum is no more than the greatest element.
 */
static double power_scale(double maximum, enum dtype element, bool up)
{
	int exponent, top;

	if (maximum == 0)
		return 0x1p-127;
	if (up)
		return tc_to_double(DT_E8M0, tc_from_double(DT_E8M0, maximum / largest(element)));
	frexp(maximum, &exponent);
	frexp(largest(element), &top);
	exponent -= top;
	return ldexp(1, exponent < -127 ? -127 : exponent > 127 ? 127 : exponent);
}

static double block_scale(const struct block_format *f, double maximum, enum dtype element, bool up,
			  float global)
{
	if (maximum != maximum)
		return (double)NAN;
	if (f->scale == DT_E8M0)
		return power_scale(maximum, element, up);
	return maximum / largest(element) / (double)global;
}

void tc_quantize(const struct block_format *f, int block, const struct lines *src, bool up,
		 float global, const struct lines *elements, void *scales)
{
	int64_t blocks = src->length / block;
	double factor = f->scale == DT_E8M0 ? 1 : (double)global;

	for (int64_t row = 0; row < src->rows; row++)
		for (int64_t b = 0; b < blocks; b++) {
			int64_t first = b * block;
			double maximum = block_maximum(src, row, first, block);
			uint64_t code = tc_from_double(
				f->scale, block_scale(f, maximum, elements->dtype, up, global));
			double scale = tc_to_double(f->scale, code) * factor;

			tc_set_element(f->scale, scales, row * blocks + b, code);
			for (int i = 0; i < block; i++) {
				double x = scale != scale ? 0 : load(src, row, first + i);
				store(elements, row, first + i, scale > 0 ? x / scale : 0 * x);
			}
		}
}

float tc_global_scale(const struct plain *a)
{
	double chunk[512], greatest = 0;

	for (int64_t first = 0; first < a->elements; first += 512) {
		int64_t n = a->elements - first < 512 ? a->elements - first : 512;

		tc_load_doubles(a->dtype, a->data, first, n, chunk);
		for (int64_t i = 0; i < n; i++)
			if (isfinite(chunk[i]))
				greatest = fmax(greatest, fabs(chunk[i]));
	}
	if (greatest == 0)
		return 1;
	greatest /= largest(DT_E4M3) * largest(DT_E2M1);
	return (float)fmin(fmax(greatest, (double)FLT_MIN), (double)FLT_MAX);
}

void tc_dequantize(const struct lines *elements, enum dtype scale, const void *scales,
		   int64_t block, double global, const struct lines *out)
{
	int64_t blocks = elements->length / block;

	for (int64_t row = 0; row < elements->rows; row++)
		for (int64_t i = 0; i < elements->length; i++) {
			uint64_t code = tc_get_element(scale, scales, row * blocks + i / block);
			store(out, row, i,
			      load(elements, row, i) * tc_to_double(scale, code) * global);
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

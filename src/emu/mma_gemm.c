/*
 * The multiplication: 16 rows of A by n columns of B, k in order; in f32, and in integers that
 * wrap.
 *
 * Three builds of one loop, for three widths of the host's vectors.  They give
 * the same bits: every lane does the same IEEE operations in the same order, and
 * the build forbids contraction.
 */
#include "wide.h"

#include "tensor.h"

#include <string.h>

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float float8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float float16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t word4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t word8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t word16 __attribute__((vector_size(64), aligned(4), may_alias));

/* `parts` vectors make the 16 rows; `columns` of D are kept in registers over the whole of k. */
#define BLOCK(element, vector, parts, columns)                                                     \
	for (; j + columns <= n; j += columns) {                                                   \
		vector sum[columns][parts];                                                        \
		const element *b_column = b + (size_t)j * (size_t)b_stride;                        \
		element *d_column = d + (size_t)j * (size_t)d_stride;                              \
		UNROLL for (int c = 0; c < columns; c++)                                           \
		{                                                                                  \
			UNROLL for (int p = 0; p < parts; p++)                                     \
			{                                                                          \
				const element *from = d_column + c * d_stride + p * (16 / parts);  \
				sum[c][p] = accumulate ? *(const vector *)from : (vector){0};      \
			}                                                                          \
		}                                                                                  \
		for (int i = 0; i < k; i++) {                                                      \
			vector row[parts];                                                         \
			UNROLL for (int p = 0; p < parts; p++) row[p] =                            \
				*(const vector *)(a + i * a_stride + p * (16 / parts));            \
			UNROLL for (int c = 0; c < columns; c++)                                   \
			{                                                                          \
				element factor = b_column[c * b_stride + i];                       \
				UNROLL for (int p = 0; p < parts; p++) sum[c][p] +=                \
					row[p] * factor;                                           \
			}                                                                          \
		}                                                                                  \
		UNROLL for (int c = 0; c < columns; c++)                                           \
		{                                                                                  \
			UNROLL for (int p = 0; p < parts; p++) *                                   \
				(vector *)(d_column + c * d_stride + p * (16 / parts)) =           \
				sum[c][p];                                                         \
		}                                                                                  \
	}

#define KERNEL(name, attribute, element, vector, parts, columns)                                   \
	attribute static void name(int n, int k, const element *a, int a_stride, const element *b, \
				   int b_stride, element *d, int d_stride, bool accumulate)        \
	{                                                                                          \
		int j = 0;                                                                         \
		BLOCK(element, vector, parts, columns)                                             \
		BLOCK(element, vector, parts, 1)                                                   \
	}

typedef void f32_kernel(int n, int k, const float *a, int a_stride, const float *b, int b_stride,
			float *d, int d_stride, bool accumulate);
typedef void s32_kernel(int n, int k, const uint32_t *a, int a_stride, const uint32_t *b,
			int b_stride, uint32_t *d, int d_stride, bool accumulate);

KERNEL(f32_base, , float, float4, 4, 2)
KERNEL(s32_base, , uint32_t, word4, 4, 2)
#if EMU_HAVE_WIDE
KERNEL(f32_wide, EMU_WIDE, float, float8, 2, 4)
KERNEL(s32_wide, EMU_WIDE, uint32_t, word8, 2, 4)
KERNEL(f32_widest, EMU_WIDEST, float, float16, 1, 8)
KERNEL(s32_widest, EMU_WIDEST, uint32_t, word16, 1, 8)
#endif

static f32_kernel *const f32_builds[EMU_WIDTHS] = {
	f32_base,
#if EMU_HAVE_WIDE
	f32_wide,
	f32_widest,
#endif
};
static s32_kernel *const s32_builds[EMU_WIDTHS] = {
	s32_base,
#if EMU_HAVE_WIDE
	s32_wide,
	s32_widest,
#endif
};

void emu_gemm_f32(int n, int k, const float *a, int a_stride, const float *b, int b_stride,
		  float *d, int d_stride, bool accumulate)
{
	f32_builds[emu_host_width()](n, k, a, a_stride, b, b_stride, d, d_stride, accumulate);
}

static uint32_t add_clamped(uint32_t a, uint32_t b)
{
	int64_t value = (int64_t)(int32_t)a + (int32_t)b;

	value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
	return (uint32_t)(uint64_t)value;
}

void emu_gemm_s32(int n, int k, const int32_t *a, int a_stride, const int32_t *b, int b_stride,
		  int32_t *d, int d_stride, bool accumulate, bool saturate)
{
	const uint32_t *words_a = (const uint32_t *)a, *words_b = (const uint32_t *)b;
	uint32_t *words_d = (uint32_t *)d, sum[EMU_GEMM_ROWS];

	if (!accumulate || !saturate) {
		s32_builds[emu_host_width()](n, k, words_a, a_stride, words_b, b_stride, words_d,
					     d_stride, accumulate);
		return;
	}
	for (int j = 0; j < n; j++, words_b += b_stride, words_d += d_stride) {
		s32_builds[emu_host_width()](1, k, words_a, a_stride, words_b, b_stride, sum,
					     EMU_GEMM_ROWS, false);
		for (int r = 0; r < EMU_GEMM_ROWS; r++)
			words_d[r] = add_clamped(sum[r], words_d[r]);
	}
}

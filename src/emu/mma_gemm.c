/*
 * The multiplication: 16 rows of A by n columns of B, k in order.
 *
 * Three builds of one loop, for three widths of the host's vectors.  They give
 * the same bits: every lane does the same IEEE operations in the same order, and
 * the build forbids contraction.
 */
#include "tensor.h"

#include <pthread.h>
#include <string.h>

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float float8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float float16 __attribute__((vector_size(64), aligned(4), may_alias));

/* `parts` vectors make the 16 rows; `columns` of D are kept in registers over the whole of k. */
#define BLOCK(vector, parts, columns)                                                              \
	for (; j + columns <= n; j += columns) {                                                   \
		vector sum[columns][parts];                                                        \
		const float *b_column = b + (size_t)j * (size_t)b_stride;                          \
		float *d_column = d + (size_t)j * (size_t)d_stride;                                \
		UNROLL for (int c = 0; c < columns; c++)                                           \
		{                                                                                  \
			UNROLL for (int p = 0; p < parts; p++)                                     \
			{                                                                          \
				const float *from = d_column + c * d_stride + p * (16 / parts);    \
				sum[c][p] = accumulate ? *(const vector *)from : (vector){0};      \
			}                                                                          \
		}                                                                                  \
		for (int i = 0; i < k; i++) {                                                      \
			vector row[parts];                                                         \
			UNROLL for (int p = 0; p < parts; p++) row[p] =                            \
				*(const vector *)(a + i * a_stride + p * (16 / parts));            \
			UNROLL for (int c = 0; c < columns; c++)                                   \
			{                                                                          \
				float factor = b_column[c * b_stride + i];                         \
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

#define KERNEL(name, attribute, vector, parts, columns)                                            \
	attribute static void name(int n, int k, const float *a, int a_stride, const float *b,     \
				   int b_stride, float *d, int d_stride, bool accumulate)          \
	{                                                                                          \
		int j = 0;                                                                         \
		BLOCK(vector, parts, columns)                                                      \
		BLOCK(vector, parts, 1)                                                            \
	}

typedef void kernel(int n, int k, const float *a, int a_stride, const float *b, int b_stride,
		    float *d, int d_stride, bool accumulate);

KERNEL(gemm_base, , float4, 4, 2)
#ifdef __x86_64__
KERNEL(gemm_avx2, __attribute__((target("avx2"))), float8, 2, 4)
KERNEL(gemm_avx512, __attribute__((target("avx512f"))), float16, 1, 8)
#endif

static kernel *chosen = gemm_base;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		chosen = gemm_avx512;
	else if (__builtin_cpu_supports("avx2"))
		chosen = gemm_avx2;
#endif
}

void emu_gemm_f32(int n, int k, const float *a, int a_stride, const float *b, int b_stride,
		  float *d, int d_stride, bool accumulate)
{
	pthread_once(&chosen_once, choose);
	chosen(n, k, a, a_stride, b, b_stride, d, d_stride, accumulate);
}

static int32_t clamp(int64_t value)
{
	return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

void emu_gemm_s32(int n, int k, const int32_t *a, int a_stride, const int32_t *b, int b_stride,
		  int32_t *d, int d_stride, bool accumulate, bool saturate)
{
	for (int j = 0; j < n; j++) {
		int32_t sum[EMU_GEMM_ROWS] = {0};
		int32_t *column = d + (size_t)j * (size_t)d_stride;

		for (int i = 0; i < k; i++) {
			int32_t factor = b[j * b_stride + i];
			for (int r = 0; r < EMU_GEMM_ROWS; r++)
				sum[r] += a[i * a_stride + r] * factor;
		}
		for (int r = 0; r < EMU_GEMM_ROWS; r++) {
			int64_t value = (int64_t)sum[r] + (accumulate ? column[r] : 0);
			column[r] = saturate ? clamp(value) : (int32_t)(uint32_t)(uint64_t)value;
		}
	}
}

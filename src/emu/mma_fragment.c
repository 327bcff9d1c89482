/*
 * The multiplication in the layout that the registers of mma.sync and wgmma have: no element of D
 * moves.
 *
 * Register i of D holds in lane l row l / 4 + 8 (i / 2 % 2) and column 8 (i / 4) + 2 (l % 4) + i %
 * 2, so four lanes share a row, and all eight rows of a register share four columns.  A is kept
 * with each element four times, B with the four columns of a register side by side; then lanes are
 * multiplied by lanes.
 */
#include "wide.h"

#include "tensor.h"

#include "number.h"

#include <string.h>
#if EMU_HAVE_WIDE
#include <immintrin.h>
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum {
	lanes = 32,
	block = 4 /* vectors of A that are multiplied at once: with both parities eight sums */
};

typedef float float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float float8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float float16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t word4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t word8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t word16 __attribute__((vector_size(64), aligned(4), may_alias));

void emu_fragment_a(const float *a, int row_stride, int k_stride, int k, float *out)
{
	for (int i = 0; i < k; i++)
		for (int row = 0; row < EMU_GEMM_ROWS; row++, out += 4) {
			float value = a[row * row_stride + i * k_stride];

			*(float4 *)out = (float4){value, value, value, value};
		}
}

void emu_fragment_b(const float *b, int n, int k, float *out)
{
	for (int j = 0; j < n; j += 8)
		for (int odd = 0; odd < 2; odd++) {
			const float *from = b + (size_t)(j + odd) * (size_t)k;

			for (int i = 0; i < k; i++, from++, out += 4)
				*(float4 *)out =
					(float4){from[0], from[2 * k], from[4 * k], from[6 * k]};
		}
}

/* Four values to all quarters of a vector. */
#define QUARTER4(type, at) (*(const type *)(at))
#define QUARTER8(type, at) ((type)_mm256_broadcast_ps((const __m128 *)(const void *)(at)))
#define QUARTER16(type, at)                                                                        \
	((type)_mm512_broadcast_f32x4(_mm_loadu_ps((const float *)(const void *)(at))))

#define KERNEL(name, attribute, element, vector, width, quarter)                                   \
	attribute static void name(int n, int k, const element *a, const element *b,               \
				   element *const *d, bool accumulate)                             \
	{                                                                                          \
		enum {                                                                             \
			vectors = 2 * lanes / width                                                \
		};                                                                                 \
                                                                                                   \
		for (int j = 0; j < n / 8; j++, d += 4, b += 8 * k)                                \
			for (int first = 0; first < vectors; first += block) {                     \
				vector sum[2][block];                                              \
				UNROLL for (int v = 0; v < 2 * block; v++)                         \
				{                                                                  \
					int at = (first + v / 2) * width;                          \
					element *from = d[at / lanes * 2 + v % 2] + at % lanes;    \
					sum[v % 2][v / 2] =                                        \
						accumulate ? *(const vector *)from : (vector){0};  \
				}                                                                  \
				for (int i = 0; i < k; i++) {                                      \
					vector even = quarter(vector, b + 4 * i),                  \
					       odd = quarter(vector, b + 4 * (k + i));             \
					UNROLL for (int v = 0; v < block; v++)                     \
					{                                                          \
						vector row =                                       \
							*(const vector *)(a + 2 * lanes * i +      \
									  (first + v) * width);    \
						sum[0][v] += row * even;                           \
						sum[1][v] += row * odd;                            \
					}                                                          \
				}                                                                  \
				UNROLL for (int v = 0; v < 2 * block; v++)                         \
				{                                                                  \
					int at = (first + v / 2) * width;                          \
					*(vector *)(d[at / lanes * 2 + v % 2] + at % lanes) =      \
						sum[v % 2][v / 2];                                 \
				}                                                                  \
			}                                                                          \
	}

typedef void f32_kernel(int n, int k, const float *a, const float *b, float *const *d,
			bool accumulate);
typedef void s32_kernel(int n, int k, const uint32_t *a, const uint32_t *b, uint32_t *const *d,
			bool accumulate);

KERNEL(f32_base, , float, float4, 4, QUARTER4)
KERNEL(s32_base, , uint32_t, word4, 4, QUARTER4)
#if EMU_HAVE_WIDE
KERNEL(f32_wide, EMU_WIDE, float, float8, 8, QUARTER8)
KERNEL(s32_wide, EMU_WIDE, uint32_t, word8, 8, QUARTER8)
KERNEL(f32_widest, EMU_WIDEST, float, float16, 16, QUARTER16)
KERNEL(s32_widest, EMU_WIDEST, uint32_t, word16, 16, QUARTER16)
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

void emu_fragment_f32(int n, int k, const float *a, const float *b, float *const *d,
		      bool accumulate)
{
	f32_builds[emu_host_width()](n, k, a, b, d, accumulate);
}

static int32_t clamp(int64_t value)
{
	return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

/* Eight columns: their sums are complete before D is added. */
static void saturating(int k, const uint32_t *a, const uint32_t *b, uint32_t *const *d)
{
	uint32_t sums[4][lanes], *rows[4] = {sums[0], sums[1], sums[2], sums[3]};

	s32_builds[emu_host_width()](8, k, a, b, rows, false);
	for (int i = 0; i < 4; i++)
		for (int lane = 0; lane < lanes; lane++)
			d[i][lane] = (uint32_t)clamp((int64_t)(int32_t)sums[i][lane] +
						     (int32_t)d[i][lane]);
}

void emu_fragment_s32(int n, int k, const int32_t *a, const int32_t *b, int32_t *const *d,
		      bool accumulate, bool saturate)
{
	const uint32_t *words_a = (const uint32_t *)a, *words_b = (const uint32_t *)b;
	uint32_t *const *words_d = (uint32_t *const *)(const void *)d;

	if (!saturate || !accumulate) {
		s32_builds[emu_host_width()](n, k, words_a, words_b, words_d, accumulate);
		return;
	}
	for (int j = 0; j < n / 8; j++, words_d += 4, words_b += 8 * k)
		saturating(k, words_a, words_b, words_d);
}

/* ---- rows of D -------------------------------------------------------------------------- */

/* Where element i of a lane lies in a tile: the sum of a place by i and one by lane. */
static int place_of_element(int i)
{
	return (8 * (i >> 2) + (i & 1)) * EMU_GEMM_ROWS + 8 * (i >> 1 & 1);
}

static int place_of_lane(int lane)
{
	return 2 * (lane & 3) * EMU_GEMM_ROWS + (lane >> 2);
}

void emu_fragment_to_tile(int n, float *const *d, float *tile)
{
	for (int i = 0; i < n / 2; i++)
		for (int lane = 0; lane < lanes; lane++)
			tile[place_of_element(i) + place_of_lane(lane)] = d[i][lane];
}

void emu_fragment_of_tile(int n, const float *tile, float *const *d)
{
	for (int i = 0; i < n / 2; i++)
		for (int lane = 0; lane < lanes; lane++)
			d[i][lane] = tile[place_of_element(i) + place_of_lane(lane)];
}

#define HALVES(name, attribute)                                                                    \
	attribute static void halves##name(const uint32_t *pairs, float *even, float *odd)         \
	{                                                                                          \
		EMU_IVDEP                                                                          \
		for (int lane = 0; lane < lanes; lane++) {                                         \
			even[lane] = emu_f32_of_f16(pairs[lane]);                                  \
			odd[lane] = emu_f32_of_f16(pairs[lane] >> 16);                             \
		}                                                                                  \
	}                                                                                          \
	attribute static void pack##name(const float *even, const float *odd, uint32_t *pairs)     \
	{                                                                                          \
		EMU_IVDEP                                                                          \
		for (int lane = 0; lane < lanes; lane++)                                           \
			pairs[lane] = emu_f16_bits(emu_bits_of_f32(even[lane])) |                  \
				      emu_f16_bits(emu_bits_of_f32(odd[lane])) << 16;              \
	}

HALVES(, )
#if EMU_HAVE_WIDE
HALVES(_wide, EMU_WIDE)
#else
#define halves_wide halves
#define pack_wide   pack
#endif

void emu_fragment_halves(const uint32_t *pairs, float *even, float *odd)
{
	(emu_host_is_wide() ? halves_wide : halves)(pairs, even, odd);
}

void emu_fragment_pack(const float *even, const float *odd, uint32_t *pairs)
{
	(emu_host_is_wide() ? pack_wide : pack)(even, odd, pairs);
}

/* The rows of mma.def, and which of them agree with what an MMA asks for. */
#include "check.h"
#include "mma_shape.h"

#include <string.h>

#define D(t)     (UINT32_C(1) << DT_##t)
#define FP8      (D(E4M3) | D(E5M2))
#define FP6      (D(E2M3) | D(E3M2))
#define FP4      D(E2M1)
#define TCGEN05  false
#define WGMMA    true
#define M64      1u
#define M128     2u
#define M256     4u
#define SPARSE_M MMA_LIMIT_SPARSE_M
#define SPARSE_N MMA_LIMIT_SPARSE_N
#define SPARSE_K MMA_LIMIT_SPARSE_K
#define PAIR_N   MMA_LIMIT_PAIR_N
#define ROWS(...)                                                                                  \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define COLUMNS(...)                                                                               \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

static const struct mma_row rows[] = {
#define MMA(kind, wgmma, name, a, b, d, scale, block, same, k, ks, m, n, targets, version, pallas) \
	{kind, wgmma, name, a, b, d, scale, block, same, k, ks, m, n, targets, version, pallas},
#include "mma.def"
};

enum {
	ROW_COUNT = sizeof rows / sizeof *rows
};

static bool has(uint32_t set, enum dtype t)
{
	return t < DT_COUNT && (set >> t & 1);
}

static bool agrees(const struct mma_row *r, const struct mma_shape *s, unsigned properties)
{
	int64_t block = s->sparse ? s->block / 2 : s->block;

	if (properties & MMA_TYPES &&
	    !(has(r->a, s->a) && has(r->b, s->b) && (!r->same || s->a == s->b)))
		return false;
	if (properties & MMA_WIDTHS && (s->a_bits != 256 / r->k || s->b_bits != 256 / r->k))
		return false;
	if (properties & MMA_RESULT && !has(r->d, s->d))
		return false;
	if (properties & MMA_SCALING && s->scaled != (r->scale != 0))
		return false;
	if (properties & MMA_SCALE && s->scaled && !has(r->scale, s->scale))
		return false;
	return !(properties & MMA_BLOCK && s->scaled && r->block != block);
}

const struct mma_row *tc_mma_next(bool wgmma, const struct mma_shape *s, unsigned properties,
				  const struct mma_row *after)
{
	for (const struct mma_row *r = after ? after + 1 : rows; r < rows + ROW_COUNT; r++)
		if (r->wgmma == wgmma && agrees(r, s, properties))
			return r;
	return NULL;
}

const struct mma_row *tc_mma_row(bool wgmma, const struct mma_shape *s)
{
	return tc_mma_next(wgmma, s, MMA_ALL, NULL);
}

bool tc_mma_on_target(const struct mma_row *row, const char *target)
{
	return strstr(row->targets, target) != NULL;
}

bool tc_mma_takes_m(const struct mma_row *row, bool collective, bool sparse, int64_t m)
{
	unsigned set = sparse       ? collective ? row->m.sparse_two : row->m.sparse_one
		       : collective ? row->m.two
				    : row->m.one;

	return (m == 64 && set & M64) || (m == 128 && set & M128) || (m == 256 && set & M256);
}

bool tc_mma_takes_n(const struct mma_row *row, bool collective, int64_t n)
{
	int step = collective ? row->n.two : row->n.one;

	return step && (n % step == 0 || (!collective && n < row->n.fine && n % 8 == 0));
}

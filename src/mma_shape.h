/* What the checks and the lowering of tcgen05 know of one tc.mma. */
#ifndef TCMMA_MMA_SHAPE_H
#define TCMMA_MMA_SHAPE_H

#include "tc.h"

/* m: rows of one CTA, n: columns of B that it holds, k: along B. */
struct mma_shape {
	int64_t m, n, k, depth; /* depth: elements along K that are multiplied */
	bool collective, sparse, scaled;
	bool a_in_tmem, a_k_major, b_k_major;
	enum dtype a, b, d;
	enum dtype scale;          /* DT_COUNT: none */
	int64_t block;             /* elements along K that one scale factor covers; 0: none */
	int a_bits, b_bits;        /* of an element as stored */
	int a_swizzle, b_swizzle;  /* bytes; of A in TMEM that of B */
	const struct mma_row *row; /* the instruction of tcgen05; NULL: there is none */
};

void tc_mma_describe(const struct mma_op *m, struct mma_shape *s);

/* CTAs that one instruction works for. */
static inline int tc_mma_ctas(const struct mma_shape *s)
{
	return s->collective ? 2 : 1;
}

/* Whether several instructions may share the columns of a pair: their halves lie in halves of the
 * lanes. */
static inline bool tc_mma_pair_in_slices(const struct mma_shape *s)
{
	return s->collective && s->m == 64 && !s->scaled;
}

/* Elements along K of B that one instruction takes. */
static inline int tc_mma_step_k(const struct mma_shape *s)
{
	return s->sparse ? s->row->k_sparse : s->row->k;
}

/* Scale factors along K that one instruction takes: 1, 2 or 4; 0: it is not scaled. */
static inline int tc_mma_step_scales(const struct mma_shape *s)
{
	return s->scaled ? (int)(tc_mma_step_k(s) / s->block) : 0;
}

/*
 * Entries of metadata for k elements of a row of A: two for each four elements, for each eight
 * (pairs of packed 4-bit ones) or for each two (32-bit ones).
 */
static inline int64_t tc_mma_metadata(const struct mma_shape *s, int64_t k)
{
	int elements = s->row ? s->row->k : 0;

	return elements == 64 ? k / 4 : elements == 8 ? k : k / 2;
}

const char *tc_mma_dtype(enum dtype t); /* as MLIR spells it */
/* Scale factors and sparsity metadata. */
void tc_check_mma_extras(struct kern *k, const struct mma_op *m, const struct mma_shape *s);

#endif

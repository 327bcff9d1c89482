/* What check_mma.c and check_mma_scale.c know of one tc.mma. */
#ifndef TCMMA_CHECK_MMA_H
#define TCMMA_CHECK_MMA_H

#include "tc.h"

/* m: rows of one CTA, n: columns of B that it holds, k: along B. */
struct mma_shape {
	int64_t m, n, k;
	bool collective, sparse, scaled;
	bool a_in_tmem, a_k_major, b_k_major;
	enum dtype a, b, d;
	int bits;                 /* of an element of A */
	int a_swizzle, b_swizzle; /* bytes; of A in TMEM that of B */
};

const char *tc_mma_dtype(enum dtype t); /* as MLIR spells it */
/* Scale factors and sparsity metadata. */
void tc_check_mma_extras(struct kern *k, const struct mma_op *m, const struct mma_shape *s);
/* Elements along K that one scale factor covers. */
int64_t tc_mma_block(const struct mma_op *m, const struct mma_shape *s);
/* Fails for what is legal but has no code yet; rows go from here as the code comes. */
void tc_mma_supported(struct kern *k, const struct mma_op *m, const struct mma_shape *s);

#endif

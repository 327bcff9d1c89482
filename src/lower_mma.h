/* One tcgen05.mma: its name, its descriptor and its operands. */
#ifndef TCMMA_LOWER_MMA_H
#define TCMMA_LOWER_MMA_H

#include "compile.h"
#include "mma_shape.h"

/* What differs between the instructions of one tc.mma. */
struct mma_step {
	int64_t n, width; /* columns of D: the first, and how many */
	int64_t k;        /* first element along K of B */
};

/* "tcgen05.mma.cta_group::1.kind::f16". */
const char *tc_mma_opcode(struct low *l, const struct mma_shape *s);
/* Column of the metadata that the instruction names, from the first; its selector does the rest. */
int64_t tc_metadata_pair(const struct mma_shape *s, const struct mma_step *step);
uint32_t tc_instruction_descriptor(const struct mma_shape *s, const struct mma_step *step);

#endif

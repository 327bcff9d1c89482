/* What the files of wgmma share. */
#ifndef TCMMA_LOWER_WGMMA_H
#define TCMMA_LOWER_WGMMA_H

#include "classes.h"
#include "frag.h"

/* An operand: registers, or SMEM under a descriptor. */
struct wgmma_operand {
	struct mreg *registers; /* of A in tensor memory */
	struct smem_layout layout;
	bool k_major;
	struct mreg descriptor; /* 64 bits, of the first element */
};

/* `k_dimension`: of the view, 1 for a and 0 for b.  `clone`: has the rows from 64 * clone. */
void tc_wgmma_operand(struct low *l, struct wgmma_operand *o, const struct ref *r, int k_dimension,
		      struct mreg clone);
/* The descriptor of element (mn, k); both at steps of the instruction. */
struct mreg tc_wgmma_moved(struct low *l, const struct wgmma_operand *o, int64_t mn, int64_t k);
/* Registers of a view of tensor memory, in the order of the instruction. */
struct mreg *tc_wgmma_registers(struct low *l, const struct ref *r);
/* lower_matrix.c: loads A from a view of SMEM into `words` registers; false: it cannot. */
bool tc_wgmma_ldmatrix(struct low *l, const struct ref *r, struct mreg *reg, int words);

#endif

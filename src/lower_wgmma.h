/* What the files of wgmma share. */
#ifndef TCMMA_LOWER_WGMMA_H
#define TCMMA_LOWER_WGMMA_H

#include "classes.h"
#include "frag.h"

/* Registers of a view of tensor memory, in the order of the instruction. */
struct mreg *tc_wgmma_registers(struct low *l, const struct ref *r);
/* lower_matrix.c: loads A from a view of SMEM into `words` registers; false: it cannot. */
bool tc_wgmma_ldmatrix(struct low *l, const struct ref *r, struct mreg *reg, int words);

#endif

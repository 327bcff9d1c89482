/* What the files of wgmma share. */
#ifndef TCMMA_LOWER_WGMMA_H
#define TCMMA_LOWER_WGMMA_H

#include "classes.h"
#include "frag.h"

/* lower_matrix.c: loads A from a view of SMEM into `words` registers; false: it cannot. */
bool tc_wgmma_ldmatrix(struct low *l, const struct ref *r, struct mreg *reg, int words);

#endif

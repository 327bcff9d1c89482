/*
 * Virtual TMEM (docs/semantics.md 8): roles that share tensor memory which the target keeps
 * in registers are a class and run as one program, in clones of 64 rows.
 */
#ifndef TCMMA_CLASSES_H
#define TCMMA_CLASSES_H

#include "compile.h"

/* Registers of a thread that a multiplication takes beside its accumulators. */
enum {
	TC_MMA_REGISTERS = 26
};

/* Registers of one TMEM allocation: of each thread, for the 64 rows of its clone. */
struct virtual_tmem {
	const struct alloc *alloc;
	bool accessed;
	/*
	 * A recorded leading index: every access of one life names the same slot, so
	 * that all slots share registers.  Else a constant numbers the set.
	 */
	const struct val *slot;
	int slots, words;  /* sets, and registers of one */
	bool *used;        /* by set */
	struct mreg **reg; /* by set; NULL: not made yet */
};

/* What may be on its way before an op. */
enum {
	MMA_RUNNING = 1,    /* an MMA that no wait_group 0 has followed */
	RELEASE_PENDING = 2 /* the arrival of one */
};

struct class_plan {
	uint32_t members;       /* bits: role ids */
	int clones;             /* W: M / 64, one warpgroup each */
	const struct op *first; /* its first mma, or use of tensor memory */
	bool mixes_rows; /* clones read SMEM that others wrote: every barrier is for all of them */
	bool *rows_cut;  /* by alloc id: SMEM of which each clone moves its own rows */
	int words;       /* registers of a thread that hold tensor memory */
	int tmem_count;
	struct virtual_tmem *tmem;
	uint8_t *state; /* by op id: what may be on its way before it */
	uint8_t end_state;
	bool *copied; /* by op id: a load whose registers an mma overwrites before the last use */
	int release_count;                     /* of one lane of a warp; 0: barriers differ */
	const struct barrier *release_barrier; /* of an mma: all are of one kind */
};

/* class_legal.c: refuses what registers cannot do; completes clones, first and tmem. */
void tc_class_check(struct compilation *c, struct class_plan *class);
_Noreturn void tc_class_refuse(struct compilation *c, const struct op *op, char rule,
			       const char *why, const char *fit);
/* class_flow.c: completes elided, state and copied. */
void tc_class_flow(struct compilation *c, struct class_plan *class);

/* Calls fn for the ops of the class, in its program's order. */
void tc_class_walk(const struct compilation *c, const struct class_plan *class,
		   void (*fn)(void *arg, const struct op *op), void *arg);
/* The TMEM view that an op writes or reads, NULL: none.  n counts from 0. */
const struct ref *tc_class_access(const struct op *op, int n, bool *writes);
struct virtual_tmem *tc_class_tmem(struct class_plan *class, const struct alloc *a);

#endif

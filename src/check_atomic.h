/* Atomic updates of memory from registers. */
#ifndef TCMMA_CHECK_ATOMIC_H
#define TCMMA_CHECK_ATOMIC_H

#include "tc.h"

/* What is done with an element of memory and a value: a row of tc_atomic_updates. */
struct atomic_update {
	const char *name; /* "atomic_add" */
	const char *ptx;
	bool f32, half; /* of floats; every update takes integers of 32 bits */
	bool half_smem;
	bool is_signed; /* depends on the sign of integers */
	bool is_bitwise;
};
enum {
	ATOMIC_ADD,
	ATOMIC_MAX,
	ATOMIC_MIN,
	ATOMIC_AND,
	ATOMIC_OR,
	ATOMIC_XOR
};
extern const struct atomic_update tc_atomic_updates[];

void tc_check_atomic(struct kern *k, struct store_op *s);
void tc_check_atomic_scalar(struct kern *k, struct store_scalar_op *s);

/*
 * Elements that an update moves at once at least: memory has minima and maxima of f16 and bf16 for
 * pairs alone.
 */
int tc_atomic_least(const struct atomic_update *u, enum dtype t);
/* Elements that one instruction takes at most: GMEM takes vectors of floats, SMEM pairs of f16. */
int tc_atomic_most(enum space space, enum dtype t);

#endif

/*
 * Work of the host on plain memory: random numbers, comparisons, a reference
 * product.  Knows neither Lua nor devices.
 */
#ifndef TCMMA_HOST_H
#define TCMMA_HOST_H

#include "tc.h"

/* ---- random.c --------------------------------------------------------------- */

/*
 * Numbers first .. first + count - 1 of the stream of a seed.  Number i depends
 * on seed and i alone, and is the same on every machine.
 */
void tc_random_normal(uint64_t seed, int64_t first, int64_t count, double *out);
void tc_random_uniform(uint64_t seed, int64_t first, int64_t count, double *out); /* [0, 1) */
void tc_random_integer(uint64_t seed, int64_t first, int64_t count, int64_t low, uint64_t span,
		       int64_t *out); /* low .. low + span - 1; span 0 is 2^64 */

/* ---- reference.c -------------------------------------------------------------- */

struct plain {
	enum dtype dtype;
	const void *data;
	int64_t elements;
};

struct comparison {
	double rtol, atol;
	bool equal_nan;
	/* results */
	int64_t mismatches, first_mismatch; /* elements beyond the tolerance; -1: none */
	int64_t worst; /* element of the greatest |a - b|; -1: none is finite */
	double max_abs_error, max_rel_error; /* infinity where only one is finite */
	double relative_rms;                 /* rms(a - b) / rms(b) */
	double worst_a, worst_b;
	int64_t nan_mismatches; /* NaN in one only, or in both without equal_nan */
};
/* |a - b| <= atol + rtol * |b|, as in NumPy; equal infinities are equal. */
void tc_compare(const struct plain *a, const struct plain *b, struct comparison *c);

/* Kahan-Neumaier sum in the order of the elements. */
double tc_sum(const struct plain *a);
/* NaN if any is NaN. */
double tc_extreme(const struct plain *a, bool largest, int64_t *where);

struct matmul {
	int64_t m, n, k;
	const double *a;    /* m x k */
	const double *b;    /* k x n */
	const double *bias; /* n, or NULL */
	bool relu;
	double *out; /* m x n */
};
/* Products and sums in double, k ascending; then bias, then relu (NaN stays). */
void tc_reference_matmul(const struct matmul *p);

#endif

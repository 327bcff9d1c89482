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
uint64_t tc_sum_integers(const struct plain *a); /* modulo 2^64 */
/* Where the greatest or least element is first; the first NaN if there is one. */
int64_t tc_extreme(const struct plain *a, bool largest);
int64_t tc_extreme_integer(const struct plain *a, bool largest); /* of i64 and u64 */

struct matmul {
	int64_t m, n, k;
	const double *a;    /* m x k */
	const double *b;    /* k x n */
	const double *bias; /* n, or NULL */
	bool relu;
	double *out; /* m x n */
	bool (*stop)(void);
};
/* Products and sums in double, k ascending; then bias, then relu (NaN stays).  False: stopped. */
bool tc_reference_matmul(const struct matmul *p);

/* ---- lines.c ------------------------------------------------------------------------------ */

/*
 * A packed matrix taken as `rows` lines of `length` elements; steps count elements, and either step
 * is 1.
 */
struct lines {
	enum dtype dtype;
	void *data;
	int64_t rows, length, row_step, step;
};

/* Up to so many elements of up to so many lines at once, line by line: out[r * count + i]. */
#define TC_TILE 64
static inline int tc_at_most(int64_t left, int most)
{
	return left < most ? (int)left : most;
}
void tc_load_lines(const struct lines *l, int64_t row, int rows, int64_t first, int count,
		   double *out);
void tc_store_lines(const struct lines *l, int64_t row, int rows, int64_t first, int count,
		    const double *in);

/* ---- quantize.c: block scaling ------------------------------------------------------------- */

/* A way to store numbers as narrow elements with a scale for each block of a line. */
struct block_format {
	const char *name; /* "mxfp8" */
	int block;        /* elements a scale, unless asked for others */
	enum dtype scale;
	enum dtype element[3]; /* allowed, the first is the default; ends with DT_COUNT */
};
extern const struct block_format tc_block_formats[]; /* ends with a NULL name */

/*
 * Scales (rows x length / block, the lines' blocks in order) and elements, of `block` a scale.  A
 * block with a NaN or an infinity gets a scale of NaN and elements of zero; `up`: scales of e8m0
 * are rounded up so that no element saturates, else down as OCP MX has it; `global`: of scales that
 * are e4m3.
 */
void tc_quantize(const struct block_format *f, int block, const struct lines *src, bool up,
		 float global, const struct lines *elements, void *scales);
/* The scale of a whole array with which the greatest finite magnitude fits e2m1 times e4m3. */
float tc_global_scale(const struct plain *a);
/* out[row * length + i] = element * scale * global; block: elements a scale. */
void tc_dequantize(const struct lines *elements, enum dtype scale, const void *scales,
		   int64_t block, double global, const struct lines *out);
/*
 * Scales (rows x blocks) in the order of tensor memory: tiles of 128 rows and 4 blocks, 32 x 16
 * bytes each, the tiles along the blocks first; with `halves` 64 x 16 bytes, lines 0..31 for the
 * first half of the rows and 32..63 for the second.  `out` is zeroed memory.
 */
void tc_interleave_scales(const uint8_t *scales, int64_t rows, int64_t blocks, bool halves,
			  uint8_t *out);

/* ---- sparsity.c: structured sparsity --------------------------------------------------------- */

/* Of each group of `group` units the greatest `keep` stay; a unit is `unit` elements. */
struct sparse_pattern {
	const char *name; /* "2:4" */
	int group, keep, unit;
};
extern const struct sparse_pattern tc_sparse_patterns[]; /* ends with a NULL name */
/* The pattern of the type's own kind of MMA. */
const struct sparse_pattern *tc_sparse_default(enum dtype t);
/* 2-bit entries of metadata for `length` elements of a line. */
int64_t tc_sparse_entries(const struct sparse_pattern *p, int64_t length);
/*
 * values: the kept elements of each line, in order; metadata: of (rows / 128) x (entries / 64)
 * tiles of 128 x 64 2-bit entries, both rounded up, in the order of tensor memory.
 */
void tc_sparsify(const struct sparse_pattern *p, const struct lines *src,
		 const struct lines *values, void *metadata);
/* Each of the pairs, of uint2, is one that the hardware takes for elements of `bits`. */
bool tc_positions_differ(int bits, const void *positions, int64_t pairs);
/*
 * Metadata in the order of tensor memory from plain positions, a pair for each of `groups` groups
 * of a row; `bits`: of an element of A.  The rest of `out` gets a legal nibble.
 */
void tc_format_metadata(int bits, const void *positions, int64_t rows, int64_t groups, void *out);
/* Positions for such metadata, and the element type: the documented messages. */
void tc_check_positions(struct err *e, enum dtype positions, int rank, const int64_t *shape,
			enum dtype operand);
/* Types of which a sparse mma exists, as a set. */
extern const uint32_t tc_sparse_types;
/* The inverse into zeroed memory; false: a nibble of the metadata selects no legal places. */
bool tc_densify(const struct sparse_pattern *p, const struct lines *values, const void *metadata,
		const struct lines *out);

#endif

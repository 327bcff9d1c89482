/*
 * Fragments: how a register tile is spread over the threads of its role, and
 * what the lowering files of fragments share.
 */
#ifndef TCMMA_FRAG_H
#define TCMMA_FRAG_H

#include "compile.h"

/* ---- distribution.c: which element is where ------------------------------------------- */

/* Contributes ((thread >> shift) % values) * stride to an index. */
struct thread_field {
	int shift, values, stride;
};

#define MAX_FIELDS 3

/*
 * One axis: register j of a thread holds index
 *   sum of its fields + (j / vector) * step + j % vector.
 */
struct axis_map {
	int extent; /* indices from here on are padding */
	int field_count;
	struct thread_field field[MAX_FIELDS];
	int vector, step, count;
};

enum distribution_kind {
	DIST_ROW,    /* row = TMEM lane = thread; columns cut over the warpgroups */
	DIST_HALVES, /* 64 rows: threads 0..63 have the first half of the columns, 64..127 the other
		      */
	DIST_MMA,    /* 64 rows: wgmma's D layout, tcgen05.ld.16x256b */
	DIST_LINEAR  /* vectors striped over all threads */
};

/*
 * Index along either axis depends on other bits of the thread and on other
 * registers, so a slice (one axis left out) is again such a map.  A thread
 * orders its elements with the `fast` axis innermost and packs 32 / bits of
 * them into a register.
 */
struct distribution {
	enum distribution_kind kind;
	int threads;
	struct axis_map axis[2];
	int fast;
	struct thread_field replica; /* threads that hold the same; values 1: none */
};

/* `columns` are cut in pieces of a multiple of `granule`, or not at all. */
void tc_distribution_row(struct distribution *d, int columns, int warpgroups, int granule);
/* The same for each half of the columns. */
void tc_distribution_halves(struct distribution *d, int columns, int warpgroups, int granule);
/*
 * 64 rows, each in two threads, 64 apart, which both have its place in memory: to store from, not
 * for values to live in.
 */
void tc_distribution_twice(struct distribution *d, int columns, int warpgroups, int granule);
/* `vector` neighbours of each 4 * vector columns belong to a thread. */
void tc_distribution_mma(struct distribution *d, int columns, int warpgroups, int vector);
/*
 * `vector` neighbours along `fast` belong to a thread; `reduced`: the threads along `fast` are
 * lanes of one warp, unless there are fewer rows than warps.
 */
void tc_distribution_linear(struct distribution *d, const int extent[2], int threads, int fast,
			    int vector, bool reduced);
/* Warpgroup i has the rows from 64 * i of a distribution of 64. */
void tc_distribution_cut_rows(struct distribution *d, int warpgroups);
bool tc_distribution_equal(const struct distribution *a, const struct distribution *b);
/* As far as the axes of `along` go: equal for a value that has only these. */
bool tc_distribution_alike(const struct distribution *a, const struct distribution *b,
			   const bool along[2]);
/* Offset of register j, without the thread's part. */
int tc_axis_offset(const struct axis_map *m, int j);
/* One more than the largest index a thread can hold; largest thread part. */
int tc_axis_limit(const struct axis_map *m);
int tc_axis_thread_limit(const struct axis_map *m);

/* ---- frag_plan.c: one distribution a connected group of fragments ---------------------- */

/* A fragment, or a var of one.  Seen as two-dimensional: a vector runs along
 * `axis` of its group's tile. */
struct frag_node {
	int parent; /* union-find */
	const struct frag *frag;
	bool splat;    /* one value: belongs to no group */
	int axis;      /* of a vector */
	int extent[2]; /* 1 along the axis that a vector has not */
};

/* What memory wants of a group that no TMEM access fixes. */
struct frag_group {
	bool oriented, fixed;
	int extent[2];
	int vector[2]; /* widest access along an axis, elements */
	int least;     /* elements that an access has at least: 2 of 4 bits */
	int votes[2];  /* memory accesses that are contiguous along an axis */
	bool reduced[2];
	struct distribution distribution;
};

struct frag_value;
struct frag_plan {
	struct frag_node *node; /* fragments, then vars */
	struct frag_group *group;
	int frag_count, count;
	struct frag_value **value;
	struct frag_cache *cache; /* registers computed at the role's entry */
};

/* The plan of l's role, made at the first call. */
struct frag_plan *tc_frag_plan(struct low *l);
/* NULL: a splat.  node: a fragment's id, or frag_count + a var's id. */
const struct distribution *tc_frag_distribution(struct low *l, int node);
/* What a group gets that no TMEM access fixes. */
void tc_frag_linear(const struct role_plan *r, struct distribution *d, const int extent[2],
		    int fast, int vector, bool reduced);
/* What a TMEM view dictates; fails where it cannot be loaded or stored. */
void tc_frag_tmem_distribution(struct low *l, const struct ref *r, const struct role *role,
			       struct distribution *d);

/* ---- lower_frag.c: values ----------------------------------------------------------------- */

/*
 * A fragment in registers.  along[a] false: constant along axis a (a vector, or
 * a broadcast that no code was needed for).  Words hold 32 / bits elements,
 * element 0 in the low bits; bool: one predicate each.
 */
struct frag_value {
	const struct distribution *distribution; /* NULL: the same value everywhere */
	enum dtype dtype;
	bool along[2];
	int elements, words;
	struct mopnd *word;
	int ld_epoch; /* of the tcgen05.ld that fills it; -1: none */
	/*
	 * Filled by tcgen05.ld.red: the reduction of the elements that each of the thread's loads
	 * brought along axis 1; of one that loads a single element this element, as it is.
	 */
	int extremes; /* 0: none */
	enum reduce_op extreme_op;
	struct mopnd *extreme;
	bool *extreme_reduced;
};

#define TC_MOST_PER_WORD 8
int tc_dtype_per_word(enum dtype t); /* elements a 32-bit register */
int tc_dtype_least(enum dtype t); /* elements that memory has an address for: 2 of 4 bits, or 1 */
struct frag_value *tc_value_new(struct low *l, const struct distribution *d, enum dtype t,
				const bool along[2]);
/* Count of registers along axis a, and element number of registers (j0, j1). */
int tc_value_count(const struct frag_value *v, int axis);
int tc_value_element(const struct frag_value *v, int j0, int j1);
void tc_value_define(struct low *l, const struct frag *f, struct frag_value *v);
/* The value as its own; tcgen05.ld is waited for. */
struct frag_value *tc_value_of(struct low *l, const struct frag *f);
/* In distribution d, a vector along `axis`; converted where it is elsewhere. */
struct frag_value *tc_value_in(struct low *l, const struct frag *f, const struct distribution *d,
			       int axis);
/* Repeated along the axes of `along` that it lacks. */
struct frag_value *tc_value_spread(struct low *l, struct frag_value *v,
				   const struct distribution *d, const bool along[2]);
/* In distribution d and with its own elements along `along`, in registers. */
struct frag_value *tc_value_stored(struct low *l, const struct frag *f,
				   const struct distribution *d, int axis, const bool along[2]);
struct mreg tc_word_register(struct low *l, struct mopnd o);

/* The thread's part of an index: register, or 0.  Computed at the role's entry. */
struct mopnd tc_thread_index(struct low *l, const struct distribution *d, int axis);
/* ((thread >> shift) % values) of a field, computed at the role's entry. */
struct mreg tc_thread_field(struct low *l, const struct thread_field *f);
/* True in one of the threads that hold the same elements of such a value;
 * id 0: in every thread. */
struct mreg tc_thread_unique(struct low *l, const struct distribution *d, const bool along[2]);
/* A register computed once at the role's entry: found, or room to keep it. */
struct mreg *tc_entry_register(struct low *l, const void *key, size_t size);

/* ---- lower_frag_memory.c ---------------------------------------------------------------- */

/* What a STORE stores from. */
const struct distribution *tc_store_distribution(struct low *l, const struct op *op);
/* Elements that one access may move along view dimension `axis`: 1 unless it
 * is contiguous and aligned. */
int tc_ref_vector(const struct ref *r, int *axis);
/* The same of what a STORE or ATOMIC stores to. */
int tc_store_vector(const struct op *op, int *axis);
/* The whole fragment in scratch, 32 bits an element, row by row. */
struct maddr tc_value_to_scratch(struct low *l, struct frag_value *v, const int extent[2],
				 int64_t *row_bytes);
/* Through SMEM scratch from one distribution to another. */
struct frag_value *tc_value_convert(struct low *l, struct frag_value *v, const int extent[2],
				    const struct distribution *d, bool transpose);

/* ---- lower_frag_order.c --------------------------------------------------------------------- */

/* Before a LOAD or STORE: a role barrier, where one is needed and not there. */
void tc_frag_order(struct low *l, const struct op *op);

/* Members of one union are the same memory. */
bool tc_same_memory(const struct alloc *a, const struct alloc *b);
/* Of one shape, and the same part of an allocation or disjoint ones, whatever is recorded. */
bool tc_of_one_grid(const struct ref *a, const struct ref *b);

/* ---- lower_tmem_order.c --------------------------------------------------------------------- */

/* Before an ASYNC_LOAD_TMEM or ASYNC_STORE_TMEM: waits for what the role did before to the same
 * columns. */
void tc_tmem_order(struct low *l, const struct op *op);

/* ---- lower_frag_convert.c ------------------------------------------------------------------ */

/* How a type is computed with: 'f' f32, 'i' s32, 'u' u32, 'p' predicate. */
char tc_compute_class(enum dtype t);
/* A register as two of 16 bits or four of 8, low ones first. */
void tc_split_word(struct low *l, struct mopnd word, struct mreg *part, int n);
/* The two elements of a byte as float16. */
struct mreg tc_halves_of_e2m1(struct low *l, struct mreg byte);
/* The unsigned integer of the same width. */
enum dtype tc_dtype_raw(enum dtype t);
/* Elements of one word as 32-bit values of the class, and back. */
void tc_unpack_word(struct low *l, enum dtype t, struct mopnd word, struct mopnd *out, int n);
struct mopnd tc_pack_word(struct low *l, enum dtype t, const struct mopnd *in, int n);
/* 32-bit values between classes, float to integer toward zero and saturating. */
struct mopnd tc_convert_class(struct low *l, char from, char to, struct mopnd x);

#endif

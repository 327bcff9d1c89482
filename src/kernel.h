/*
 * The recorded kernel: scalars, memory, views, barriers, roles, ops and the scopes they stand in.
 */
#ifndef TCMMA_KERNEL_H
#define TCMMA_KERNEL_H

#include "util.h"

enum space {
	SP_GMEM,
	SP_SMEM,
	SP_TMEM
};

/*
 * A recorded scalar.  Expressions are a graph over leaves; they have no place
 * in the program and are computed where they are used.  Leaves that depend on
 * the program's order (loads, reads of variables) are defined by an op.
 */
enum val_kind {
	VAL_CONST, /* i or f */
	VAL_EXPR,  /* op over arg[] */
	VAL_INDEX, /* the counter of a range */
	VAL_AXIS,  /* index along a grid or cluster axis: `axis` */
	VAL_DIM,   /* a named dimension of the arguments: `axis` is its number */
	VAL_OP     /* result of an op: scalar load, read of a var */
};

enum val_type {
	VT_S32,
	VT_F32,
	VT_PRED
};

enum scalar_op {
	SO_ADD,
	SO_SUB,
	SO_MUL,
	SO_FLOORDIV,
	SO_MOD,
	SO_AND,
	SO_OR,
	SO_XOR,
	SO_NOT,
	SO_NEG,
	SO_SHL,
	SO_SHR,
	SO_DIV, /* SO_DIV: f32 only */
	SO_MIN,
	SO_MAX,
	SO_LT,
	SO_LE,
	SO_GT,
	SO_GE,
	SO_EQ,
	SO_NE, /* s32 or f32 -> predicate */
	SO_LAND,
	SO_LOR,
	SO_LNOT,   /* predicates */
	SO_SELECT, /* arg[0] ? arg[1] : arg[2] */
	SO_TO_F32,
	SO_TO_S32,
	SO_EXP2, /* and those after it: of f32 */
	SO_LOG2,
	SO_RSQRT,
	SO_SQRT,
	SO_TANH
};

struct val {
	int id;
	enum val_kind kind;
	enum val_type type;
	enum scalar_op op;
	struct val *arg[3];
	int32_t i;
	float f;
	int axis;           /* VAL_AXIS: 0.. grid axes, then cluster axes, as written */
	struct scope *home; /* innermost scope that it is defined in */
	struct op *def;     /* VAL_INDEX: the range; VAL_OP: the op */
	/* val.c's own: equal expressions are one node; bounded depth, so passes may recurse */
	struct val *chain;
	uint32_t divisor;
	int depth;
};

/* A size: static, or the named dimension of an argument (size is then -1). */
struct dim {
	int64_t size;
	struct val *value;
	const char *name;
};

enum tmem_layout {
	TML_DEFAULT,   /* row = lane; one element, or 32/bits of them, a column */
	TML_HALF_LANE, /* 64 rows, one CTA: layout F of docs/isa.md 4 */
	TML_M64_COLLECTIVE,
	TML_M64_COLLECTIVE_A, /* 64 rows, each in two lanes, for both halves of the columns */
	TML_SCALES,
	TML_B_SCALES_M64_COLLECTIVE,
	TML_SPARSE_METADATA
};

struct alloc {
	int id; /* order of allocation; GMEM: number of the argument */
	enum space space;
	enum dtype dtype;
	int rank;
	struct dim shape[TC_MAX_RANK];
	struct srcpos pos;
	const char *name; /* NULL unless opts.name was given */
	/* SMEM: bytes of the swizzle, 0 = plain row-major ("none") */
	int swizzle;
	bool swizzle_given;
	bool atom_32; /* SMEM: a swizzle of 128 that moves 32 bytes together, not 16 */
	/* SMEM: 16 elements of 4 bits fill 16 bytes, packed at their start; TMEM: each in a byte.
	 */
	bool padded;
	/* SMEM: `tiling` given; only checked, since the image is the compiler's choice */
	bool tiling_given;
	int tiling_rank;
	int64_t tiling[TC_MAX_RANK];
	/* TMEM */
	bool collective, packed;
	enum tmem_layout layout;
	int packing; /* elements a 32-bit column: 1 or 32 / bits */
	int columns; /* 32-bit columns it needs, before rounding */
	/* aliases share storage: allocations of one union, each in a member group */
	struct alias_set *alias;
	int alias_member;
	/* set by place.c */
	int64_t offset; /* SMEM: bytes from the dynamic base; TMEM: column */
};

struct alias_set {
	int id, member_count;
	enum space space;
};

/*
 * A view.  The storage has alloc->rank axes; start[] is the first index along
 * each, and extent[] how many; view dimension d runs along axis[d].  An axis
 * that no view dimension names was indexed by an integer (extent 1).
 */
struct ref {
	struct alloc *alloc;
	int rank;
	struct dim shape[TC_MAX_RANK]; /* of the view, in the view's order */
	int axis[TC_MAX_RANK];
	struct val *start[TC_MAX_RANK]; /* per axis; NULL is 0 */
	struct dim extent[TC_MAX_RANK]; /* per axis */
	bool transposed;                /* :T() swapped the last two dimensions */
	struct val *cluster_rank;       /* cluster_ref: the CTA it lives in; NULL: own */
	/* GMEM: a vector whose elements are the rows that the view is made of; NULL: neighbours */
	const struct ref *rows;
};

/* One index of a view: integer or recorded value (is_slice false), or a slice. */
struct index {
	bool is_slice, is_all;
	struct val *start;
	int64_t size;
	int64_t step;
};

struct barrier {
	int id;
	int num_arrivals, num_barriers;
	bool orders_tensor_core;
	bool cluster;          /* cluster_barrier: arrivals of every CTA along `axes` */
	unsigned cluster_axes; /* bit i: cluster axis i, of all groups */
	/* An arrival reaches the CTAs that differ from its own in the axes of one group alone. */
	int cluster_groups;
	unsigned cluster_group[3];
	bool leader_tracked; /* arrivals reach only the first CTA along the one axis */
	struct srcpos pos;
	const char *name;
	int64_t offset; /* set by place.c: bytes from the dynamic base */
};

struct barrier_ref {
	struct barrier *barrier; /* NULL: none given */
	struct val *index;       /* NULL: not indexed */
	struct val *cluster_rank;
};

struct role {
	int id;
	const char *name;
	int warps;         /* 32-thread warps in all: a warpgroup is 4 */
	bool warpgroups;   /* made of whole warpgroups */
	bool implicit;     /* the one role of a kernel without roles */
	int max_registers; /* set_max_registers, 0: not given */
	struct srcpos pos;
};

struct var {
	int id;
	enum val_type type; /* of a scalar var */
	struct frag *frag;  /* initial fragment, NULL: scalar */
	struct val *init;
	struct scope *home;
	struct role *owner; /* set in a role's block: that role; NULL: shared */
	bool set_in_shared;
	uint32_t read_by; /* bit 0: shared code; bit 1 + i: role i */
	struct srcpos pos;
};

/* A register tile.  Its distribution over threads is chosen by lower_frag.c. */
struct frag {
	int id;
	enum dtype dtype; /* f32 f16 bf16 s32 u32 i8 ... bool for comparisons */
	int rank;         /* 0 (splat), 1 or 2 */
	int shape[2];
	struct scope *home;
	struct role *role;
	struct op *def;
};

enum op_kind {
#define OP(id, ...) OP_##id,
#include "ops.def"
	OP_COUNT
};

enum frag_op {
	FO_ADD,
	FO_SUB,
	FO_MUL,
	FO_DIV,
	FO_FLOORDIV,
	FO_MOD,
	FO_MAX,
	FO_MIN,
	FO_AND,
	FO_OR,
	FO_XOR,
	FO_SHL,
	FO_SHR,
	FO_NEG,
	FO_ABS,
	FO_NOT,
	FO_EXP2,
	FO_LOG2,
	FO_EXP,
	FO_LOG,
	FO_RSQRT,
	FO_SQRT,
	FO_TANH,
	FO_LT,
	FO_LE,
	FO_GT,
	FO_GE,
	FO_EQ,
	FO_NE,
	FO_WHERE,
	FO_FMA
};

enum reduce_op {
	RO_SUM,
	RO_MAX,
	RO_MIN,
	RO_ABSMAX, /* of the magnitudes */
	RO_ABSMIN
};

/* Payloads.  They are also the arguments of the checks: see check.c. */
struct range_op {
	struct val *lo, *hi, *step, *index;
	struct scope *body;
};
struct loop_op {
	struct scope *body;
};
struct stop_op {
	struct val *cond;
	struct op *loop;
};
struct when_op {
	struct val *cond;
	struct scope *then, *otherwise;
};
struct role_op {
	struct role *role;
	struct scope *body;
};

struct store_reduction; /* check_copy.h */
struct copy_op {        /* COPY_GMEM_TO_SMEM, COPY_SMEM_TO_GMEM */
	struct ref *src, *dst;
	struct barrier_ref barrier;
	unsigned collective_axes; /* bit i: cluster axis i; 0: none */
	bool leader_tracked, partitioned;
	int partition_axis;
	const struct store_reduction *reduce; /* SMEM -> GMEM: into what is there; NULL: a store */
	bool commit_group;                    /* SMEM -> GMEM: close the bulk group, default true */
};
struct wait_smem_op {
	int n;
	bool read_only; /* for the SMEM alone */
	bool written;   /* for GMEM, whether or not the kernel can tell */
};                      /* wait_smem_to_gmem */
struct mma_op {
	struct ref *acc, *a, *b;
	struct barrier_ref barrier;
	struct val *accumulate;                  /* predicate; NULL: true */
	bool accumulate_const, accumulate_value; /* a Lua boolean */
	int64_t depth;                           /* elements of K to multiply; 0: all */
	struct ref *a_scale, *b_scale, *a_sparse_metadata;
	int collective_axis; /* cluster axis, -1: none */
	const char *collective_axis_name;
};
struct arrive_op { /* BARRIER_ARRIVE, COMMIT_ARRIVE */
	struct barrier_ref barrier;
	int collective_axis;
	const char *collective_axis_name;
};
struct wait_op {
	struct barrier_ref barrier;
	struct val *parity;
};
struct tmem_copy_op {
	struct ref *src, *dst;
	int collective_axis;
}; /* SMEM -> TMEM */
struct load_op {
	struct ref *ref;
	struct frag *result;
};                    /* ASYNC_LOAD_TMEM, LOAD */
struct atomic_update; /* check_atomic.h */
struct store_op {
	struct ref *ref;
	struct frag *value;
	struct barrier_ref barrier;         /* STORE into a peer's SMEM: its barrier, or none */
	const struct atomic_update *atomic; /* ATOMIC: what is done with the elements there */
};                                          /* ASYNC_STORE_TMEM, STORE, ATOMIC */
struct load_scalar_op {
	struct ref *ref;
	struct val *result;
};
struct store_scalar_op {
	struct ref *ref;
	struct val *value;
	const struct atomic_update *atomic;
	struct val *result; /* what the element was; NULL: nobody asks */
};                          /* STORE_SCALAR, ATOMIC_SCALAR */
struct var_op {
	struct var *var;
	struct val *value;
	struct frag *frag;
}; /* NEW SET GET */
struct frag_elementwise_op {
	enum frag_op op;
	struct frag *arg[3];
	struct frag *result;
};
struct frag_cast_op {
	struct frag *arg, *result;
};
struct frag_full_op {
	struct val *value;
	struct frag *result;
};
struct frag_iota_op {
	int axis;
	struct frag *result;
};
struct frag_broadcast_op {
	struct frag *arg;
	int axis;
	struct frag *result;
};
struct frag_reduce_op {
	enum reduce_op op;
	int axis;
	struct frag *arg, *result;
};
struct print_op {
	const char *format;
	int count;
	struct val **values;
	struct frag *frag;
};
struct assert_op {
	struct val *cond;
	const char *message;
};
struct registers_op {
	int count;
};
struct try_cancel_op {
	struct ref *result; /* 16 bytes of SMEM */
	struct barrier_ref barrier;
};
struct query_cancel_op {
	struct ref *result;
	int count, axis[TC_MAX_RANK]; /* of the grid, in the order of the results */
	struct val *index[TC_MAX_RANK], *success;
};
struct semaphore_op {    /* SEMAPHORE_SIGNAL, SEMAPHORE_WAIT */
	struct ref *ref; /* one element of GMEM */
	struct val *value;
	bool system; /* scope: all devices, else this one */
	bool decrement;
};
#define TC_MAX_SIGNALS 64
struct signals_op { /* SEMAPHORE_SIGNAL_PARALLEL: one release, then all of them */
	int count;
	struct ref **ref;
	struct val **value;
	bool system;
};
struct prefetch_op {
	struct ref *ref;
	unsigned collective_axes; /* bit i: cluster axis i, whose CTAs take a part each */
};

struct op {
	enum op_kind kind;
	int id; /* order of recording */
	struct srcpos pos;
	struct scope *scope;
	struct op *next;
	union {
		struct range_op range;
		struct loop_op loop;
		struct stop_op stop;
		struct when_op when;
		struct role_op role;
		struct copy_op copy;
		struct wait_smem_op wait_smem;
		struct mma_op mma;
		struct arrive_op arrive;
		struct wait_op wait;
		struct tmem_copy_op tmem_copy;
		struct load_op load;
		struct store_op store;
		struct load_scalar_op load_scalar;
		struct store_scalar_op store_scalar;
		struct var_op var;
		struct frag_elementwise_op elementwise;
		struct frag_cast_op cast;
		struct frag_full_op full;
		struct frag_iota_op iota;
		struct frag_broadcast_op broadcast;
		struct frag_reduce_op reduce;
		struct print_op print;
		struct assert_op assertion;
		struct registers_op registers;
		struct try_cancel_op try_cancel;
		struct query_cancel_op query_cancel;
		struct semaphore_op semaphore;
		struct signals_op signals;
		struct prefetch_op prefetch;
	} u;
};

enum scope_kind {
	SC_ROOT,
	SC_RANGE,
	SC_LOOP,
	SC_THEN,
	SC_ELSE,
	SC_ROLE
};

struct scope {
	enum scope_kind kind;
	int depth;
	struct scope *parent;
	struct op *owner;  /* NULL for the root */
	struct role *role; /* set for a role block and all inside it */
	struct op *first, *last;
	int count;
	bool closed; /* its callback has returned */
};

struct ptrvec {
	void **item;
	int count, capacity;
};

struct kern {
	struct arena arena;
	struct err err;
	const char *name;
	struct srcpos pos;
	/* arguments */
	int arg_count;
	struct ref **args;
	int dim_count; /* named dimensions, in order of appearance */
	const char **dim_names;
	struct val **dim_values;
	/* grid: static sizes, or -1 where a function gives them at launch */
	int grid_rank, cluster_rank;
	int64_t grid[TC_MAX_RANK], cluster[3];
	const char *grid_names[TC_MAX_RANK], *cluster_names[3];
	/* recording */
	struct scope *root, *current;
	struct ptrvec allocs, barriers, roles, vars, aliases; /* in order of creation */
	struct ptrvec promises;                               /* record.h */
	int op_count, val_count, frag_count;
	struct op *roleless_op;     /* first op that made the kernel role-less */
	struct role *implicit_role; /* its role, NULL: none yet; stands in `roles` too */
	struct val **val_buckets;   /* val.c */
	bool finished;
	bool leaves_out; /* a branch of a tc.when whose condition is constant */
	bool profile;
	const char *target; /* "sm_100a" or NULL: the device's */
};

#endif

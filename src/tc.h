/*
 * The one internal header of the core: types and prototypes, grouped by file.
 * Knows neither Lua nor CUDA.
 */
#ifndef TCMMA_TC_H
#define TCMMA_TC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TC_MAX_RANK 8

/* ---- util.c: memory, text, errors ------------------------------------------- */

/* Everything a recording or a compilation makes lives in one arena. */
struct arena {
	struct arena_block *blocks;
	size_t used, total; /* of the current block; bytes in all */
};
void *tc_arena_alloc(struct arena *a, size_t size); /* zeroed, never NULL: fails by longjmp */
char *tc_arena_strdup(struct arena *a, const char *s);
char *tc_arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tc_arena_free(struct arena *a);

struct strbuf {
	char *text; /* NUL-terminated; malloc'ed unless it grows in an arena */
	size_t length, capacity;
	struct arena *arena; /* where a failure in the middle must lose nothing; NULL: malloc */
};
void tc_puts(struct strbuf *b, const char *s);
void tc_printf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tc_vprintf(struct strbuf *b, const char *fmt, va_list ap);
void tc_strbuf_free(struct strbuf *b);

struct srcpos {
	const char *file; /* NULL: unknown */
	int line;
};

enum err_kind {
	ERR_USER,       /* the caller's mistake */
	ERR_MEMORY,     /* out of host memory */
	ERR_INTERNAL,   /* ours */
	ERR_ENVIRONMENT /* something that this machine lacks: `code` says what */
};

/*
 * One error slot per entry point.  tc_fail writes the text and jumps to the
 * tc_protect around it; no Lua call happens between the two.
 */
struct err {
	jmp_buf *jump;
	enum err_kind kind;
	struct srcpos pos; /* where the message points; set before each call */
	const char *code;  /* "no-library", "ptx-rejected" ...: see dev.h; else NULL */
	char text[8192];
};
_Noreturn void tc_fail(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void tc_fail_at(struct err *e, struct srcpos pos, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
_Noreturn void tc_fail_internal(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Runs fn(arg); false when it failed, `e` then holds kind, position and text. */
bool tc_protect(struct err *e, void (*fn)(void *), void *arg);

uint64_t tc_hash(const void *data, size_t size, uint64_t seed);

/* nearest.c */
/* Nearest of a NULL-terminated list to a misspelt word, NULL if none is near. */
const char *tc_nearest(const char *word, const char *const *list);

/* ---- dtype.c: element types --------------------------------------------------- */

enum dtype {
#define DT(id, ...) DT_##id,
#include "dtype.def"
	DT_COUNT
};

struct dtype_info {
	const char *name, *shortname; /* "float16", "f16" */
	int bits;
	char klass; /* 'F', 'I', 'U', 'B' */
	const char *mlir, *ptx;
	int tma;
	const char *npy, *safetensors;
};
extern const struct dtype_info tc_dtypes[DT_COUNT];
int tc_dtype_find(const char *name);            /* long or short name; -1 */
const char *tc_dtype_nearest(const char *name); /* for "did you mean" */

/*
 * Conversions of single elements.  `bits` is the element in the low bits.
 * Round to nearest even; float formats without infinity saturate, as do
 * integers; the rules are at each definition.
 */
uint64_t tc_from_double(enum dtype t, double x);
double tc_to_double(enum dtype t, uint64_t bits);
/* Element i of a packed array (sub-byte types: element 0 in the low bits). */
uint64_t tc_get_element(enum dtype t, const void *data, int64_t i);
void tc_set_element(enum dtype t, void *data, int64_t i, uint64_t bits);
int64_t tc_storage_bytes(enum dtype t, int64_t elements);
/* Exact where the type can hold it, else rounded and saturated as doubles are. */
uint64_t tc_from_integer(enum dtype t, int64_t x);
/* False for floats and for what is above INT64_MAX. */
bool tc_to_integer(enum dtype t, uint64_t bits, int64_t *value);
/* Elements first .. first + count - 1 of a packed array. */
void tc_load_doubles(enum dtype t, const void *data, int64_t first, int64_t count, double *out);
void tc_store_doubles(enum dtype t, void *data, int64_t first, int64_t count, const double *in);
/* Whole arrays, rounding once; 64-bit integers are not widened to doubles on the way. */
void tc_convert_elements(enum dtype to, void *dst, enum dtype from, const void *src, int64_t count);

/* float_format.c: the float types of tc_from_double and tc_to_double */
uint64_t tc_float_encode(enum dtype t, double x);
double tc_float_decode(enum dtype t, uint64_t bits);

/* ---- the recorded kernel (kern.c) ---------------------------------------------- */

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
	RO_MIN
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
}; /* ASYNC_LOAD_TMEM, LOAD */
struct store_op {
	struct ref *ref;
	struct frag *value;
	struct barrier_ref barrier; /* STORE into a peer's SMEM: its barrier, or none */
};                                  /* ASYNC_STORE_TMEM, STORE */
struct load_scalar_op {
	struct ref *ref;
	struct val *result;
};
struct store_scalar_op {
	struct ref *ref;
	struct val *value;
};
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
	int op_count, val_count, frag_count;
	struct op *roleless_op;     /* first op that made the kernel role-less */
	struct role *implicit_role; /* its role, NULL: none yet; stands in `roles` too */
	struct val **val_buckets;   /* val.c */
	bool finished;
	bool profile;
	const char *target; /* "sm_100a" or NULL: the device's */
};

/*
 * kern.c.  tc_kern_* that take a payload check it (check.c) and append the op;
 * on failure they jump and the recording is as it was.
 */
#define TC_MAX_ROLES 31
struct kern *tc_kern_new(const char *name); /* NULL: out of memory */
void tc_kern_free(struct kern *k);
struct op *tc_kern_append(struct kern *k, enum op_kind kind); /* into the current scope */
struct scope *tc_kern_open(struct kern *k, enum scope_kind kind, struct op *owner,
			   struct role *role);
void tc_kern_close(struct kern *k); /* back to the parent scope */
/* The role that runs the current place; NULL in shared code. */
struct role *tc_kern_role(struct kern *k);
/* A kernel without roles gets its implicit one, if it has none yet. */
void tc_kern_finish(struct kern *k);
void tc_ptrvec_add(struct kern *k, struct ptrvec *v, void *item);
/* What Lua calls the source of a line typed at its prompt, where each line is number 1. */
#define TC_PROMPT "stdin"
/* "line 12", or "other.lua:12" when the place of the current call is in another file. */
const char *tc_pos_text(struct kern *k, struct srcpos pos);

/*
 * What a failed call or callback has to undo.  Objects made since the mark are
 * stale afterwards: their use fails with a text that says so.
 */
struct kern_mark {
	struct scope *scope;
	struct op *last, *roleless_op;
	struct role *implicit_role;
	int count, op_count, allocs, barriers, roles, vars, aliases;
};
void tc_kern_mark(const struct kern *k, struct kern_mark *m);
void tc_kern_rollback(struct kern *k, const struct kern_mark *m);

/*
 * record.c: checks the draft (visibility of its operands, check.c, place) and
 * appends a copy of it.  Results in the draft are completed: a frag or val that
 * the caller made with its type gets id, home, role and def.
 */
struct op *tc_kern_record(struct kern *k, const struct op *draft);
/* The op may stand here; for one that needs others recorded before it. */
void tc_check_place(struct kern *k, const struct op *draft);
struct alloc *tc_kern_alloc(struct kern *k, const struct alloc *draft, bool packed_given,
			    bool layout_given, bool collective_given);
struct barrier *tc_kern_barrier(struct kern *k, const struct barrier *draft);
struct role *tc_kern_add_role(struct kern *k, const struct role *draft);
/* members[i] holds counts[i] refs that stand one after the other. */
struct alias_set *tc_kern_union(struct kern *k, struct ref ***members, const int *counts,
				int member_count);
/* Cluster axis of that name, -1: none. */
int tc_kern_cluster_axis(const struct kern *k, const char *name);
/* Bit i: cluster axis i is among the names; an unknown one fails. */
unsigned tc_kern_axes(struct kern *k, const char *const *names, int count);

/* cluster.c: the CTAs of a cluster, by rank, which counts the last axis fastest. */
bool tc_has_cluster(const struct kern *k);                /* of more than one CTA */
int tc_cluster_size(const struct kern *k, unsigned axes); /* CTAs along these axes */
int tc_cluster_stride(const struct kern *k, int axis);    /* between ranks */
/* Bits: ranks of the CTAs that share with rank 0 all but these axes. */
uint32_t tc_cluster_line(const struct kern *k, unsigned axes);
/* CTAs that an arrival reaches, and from which as many come; 1: its own. */
int tc_cluster_peers(const struct kern *k, const unsigned *group, int count);
/* The value is computed from this CTA's index along one of the axes. */
bool tc_val_along(struct kern *k, const struct val *v, unsigned axes);
const char *tc_axes_text(struct kern *k, unsigned axes); /* "x", {"y", "x"} */
/* A multicast tile in `columns` times `rows` pieces, one for each CTA; false: it does not fall
 * apart. */
struct multicast_cut {
	int rows, columns;
};
struct smem_layout;
bool tc_multicast_cut(const struct smem_layout *s, int64_t rows, int64_t columns, int ctas,
		      struct multicast_cut *cut);

/* val.c: expressions (frag.c for register tiles below) */
struct val *tc_val_const(struct kern *k, int32_t i);
struct val *tc_val_float(struct kern *k, float f);
/* Folds constants and simplifies; operands must be visible here. */
struct val *tc_val_expr(struct kern *k, enum scalar_op op, struct val *a, struct val *b,
			struct val *c);
int64_t tc_floor_div(int64_t a, int64_t b);                /* as Lua's //; b is not 0 */
bool tc_val_is_const(const struct val *v, int64_t *value); /* NULL counts as 0 */
/* Largest power of two (up to 2^16) that surely divides v. */
int tc_val_divisor(const struct val *v);
bool tc_scope_encloses(const struct scope *outer, const struct scope *inner);
/* Fails with the user's position when v is not defined at the current place. */
void tc_val_usable(struct kern *k, const struct val *v);
void tc_frag_usable(struct kern *k, const struct frag *f);
/* A leaf; `home` is the root, and def NULL, until the caller says otherwise. */
struct val *tc_val_leaf(struct kern *k, enum val_kind kind, enum val_type type);
struct val *tc_val_pred(struct kern *k, bool b);
struct val *tc_val_axis(struct kern *k, int axis);
struct val *tc_val_to(struct kern *k, struct val *v, enum val_type type);

/* ref.c: views.  Fail with the user's position. */
struct ref *tc_ref_whole(struct kern *k, struct alloc *a);
struct ref *tc_ref_index(struct kern *k, const struct ref *r, const struct index *index, int count);
/* In units of tiles; a GMEM tile may overhang the array. */
struct ref *tc_ref_tile(struct kern *k, const struct ref *r, struct val *const *index,
			const int64_t *shape, int count);
struct ref *tc_ref_transpose(struct kern *k, const struct ref *r);
/* The rows that a vector of numbers names, in its order; `index` of the other dimensions. */
struct ref *tc_ref_gather(struct kern *k, const struct ref *r, const struct ref *rows,
			  const struct index *index, int count);
void tc_ref_usable(struct kern *k, const struct ref *r);
void tc_barrier_usable(struct kern *k, const struct barrier_ref *b);

/*
 * frag.c: register tiles.  Operands of an elementwise op have the shape of the
 * result or rank 0 (a splat, from FRAG_FULL): differing shapes are brought
 * together by FRAG_BROADCAST ops, whose axis is that of the result along which
 * the operand is repeated (the operand lacks it, or has extent 1 there).
 */
struct frag *tc_frag_new(struct kern *k, enum dtype t, int rank, const int *shape);
struct frag *tc_frag_full(struct kern *k, struct val *value, enum dtype t, int rank,
			  const int *shape);
struct frag *tc_frag_iota(struct kern *k, enum dtype t, int rank, const int *shape, int axis);
struct frag *tc_frag_elementwise(struct kern *k, enum frag_op op, struct frag *const *arg,
				 int count);
struct frag *tc_frag_cast(struct kern *k, struct frag *f, enum dtype t);
struct frag *tc_frag_broadcast(struct kern *k, struct frag *f, int rank, const int *shape,
			       int axis);
struct frag *tc_frag_reduce(struct kern *k, enum reduce_op op, struct frag *f, int axis);
const char *tc_frag_text(struct kern *k, const struct frag *f); /* "float32 (128, 64)" */
const char *tc_frag_op_name(enum frag_op op);

/* ---- print.c: objects and values as text ----------------------------------------- */

void tc_print_shape(struct strbuf *b, const struct dim *shape, int rank); /* (128, 64) */
const char *tc_shape_text(struct kern *k, const struct ref *r);           /* in the arena */
const char *tc_ref_text(struct kern *k, const struct ref *r);             /* one line, true */
const char *tc_val_text(struct kern *k, const struct val *v);
void tc_print_val(struct strbuf *b, struct kern *k, const struct val *v);
void tc_print_alloc_name(struct strbuf *b, const struct alloc *a);
/* On one line: control characters and backslashes as \x0a. */
void tc_print_line(struct strbuf *b, const char *text);
void tc_print_attributes(struct strbuf *b, const struct alloc *a);
bool tc_ref_is_whole(const struct ref *r);
extern const char *const tc_space_names[];
/* print_op.c */
const char *tc_op_name(enum op_kind kind);
void tc_print_op(struct strbuf *b, struct kern *k, const struct op *op); /* one line */
void tc_print_ops(struct strbuf *b, struct kern *k);                     /* the scope tree */

/* ---- errors.c: the messages of the checks (errors.def) -------------------------------- */

enum tc_error {
#define SECTION(title)
#define ERROR(id, ...)   ERROR_##id,
#define ALTERED(id, ...) ERROR_##id,
#define OWN(id, ...)     ERROR_##id,
#include "errors.def"
	ERROR_COUNT
};
/*
 * Fails with the text of `id`, its {words} replaced in order by text[1], text[2] ...;
 * text[0], which may be "", are further lines (what was got), and the message's fix is the
 * last one.
 */
_Noreturn void tc_fail_documented(struct err *e, enum tc_error id, const char *const *text);
/* How many words the text of a message leaves open. */
int tc_message_words(enum tc_error id);
#define tc_documented(e, id, ...)                                                                  \
	tc_fail_documented(e, ERROR_##id, (const char *const[]){__VA_ARGS__, NULL})
/* The same, pointing at an op or allocation. */
#define tc_documented_at(e, where, id, ...) ((e)->pos = (where), tc_documented(e, id, __VA_ARGS__))
/* Pieces of the texts, in the kernel's arena. */
const char *tc_integer_text(struct kern *k, int64_t i);
const char *tc_pair_text(struct kern *k, int64_t a, int64_t b); /* (a, b) */
const char *tc_layout_text(struct kern *k, const struct alloc *a);
/* "\n  name is ...": one further line of a message. */
const char *tc_got(struct kern *k, const char *name, const struct ref *r);
const char *tc_join(struct kern *k, const char *a, const char *b);
/* Same static size, or the same named dimension. */
bool tc_dim_equal(const struct dim *a, const struct dim *b);
bool tc_same_shape(const struct ref *a, const struct ref *b);
bool tc_static_shape(const struct ref *r);

/* ---- check*.c: is this call legal? -------------------------------------------------- */

void tc_check_alloc(struct kern *k, struct alloc *a, bool packed_given, bool layout_given,
		    bool collective_given); /* completes swizzle, packing, columns */
/* Bits that memory has for an element: padded ones, and 6-bit ones in SMEM, take a byte. */
int tc_stored_bits(const struct alloc *a);
/* 32-bit columns that `columns` elements of `rows` rows take in the layout of a TMEM allocation. */
int64_t tc_tmem_columns(const struct alloc *a, int64_t rows, int64_t columns);
void tc_check_mma(struct kern *k, struct mma_op *m);
void tc_check_commit_arrive(struct kern *k, struct arrive_op *a);
/* check_collective.c: the number of the axis; the barrier of a commit with such an axis. */
int tc_check_collective_axis(struct kern *k, const char *name);
void tc_check_collective_commit(struct kern *k, const struct barrier_ref *b);
void tc_check_barrier(struct kern *k, const struct barrier *b);
void tc_check_arrive(struct kern *k, struct arrive_op *a);
void tc_check_wait(struct kern *k, struct wait_op *w);
/* tc.cluster_ref; and ops that work on the CTA's own memory. */
void tc_check_cluster_ref(struct kern *k, const struct ref *r, const struct val *rank);
void tc_check_cluster_barrier_ref(struct kern *k, const struct barrier_ref *b,
				  const struct val *rank);
void tc_check_own(struct kern *k, const struct ref *r);
void tc_check_copy_gmem_to_smem(struct kern *k, struct copy_op *c);
void tc_check_copy_smem_to_gmem(struct kern *k, struct copy_op *c);
void tc_check_tmem_copy(struct kern *k, enum op_kind kind, struct tmem_copy_op *c);
void tc_check_async_load_tmem(struct kern *k, struct load_op *l);
void tc_check_async_store_tmem(struct kern *k, struct store_op *s);
void tc_check_load(struct kern *k, struct load_op *l);
void tc_check_store(struct kern *k, struct store_op *s);
void tc_check_alias(struct kern *k, struct ref **members, int count);
void tc_check_index(struct kern *k, const struct ref *r, const struct index *index, int count);
void tc_check_transpose(struct kern *k, const struct ref *r);
void tc_check_barrier_index(struct kern *k, const struct barrier *b, const struct val *index);
/* A group of barriers has to be indexed. */
void tc_check_single_barrier(struct kern *k, const struct barrier_ref *b);
void tc_check_tile(struct kern *k, const struct ref *r);
/* An argument that is no ref, or no barrier: `got` describes it; `space` "SMEM", "GMEM", NULL: any.
 */
_Noreturn void tc_check_reference(struct kern *k, const char *name, const char *space,
				  const char *got);
struct tensormap;
/* Arguments of cuTensorMapEncodeTiled, at launch. */
void tc_check_tensormap(struct err *e, const struct tensormap *m);

/* check_mma.c: mma.def, what the hardware takes. */
enum mma_kind {
	MMA_F16,
	MMA_TF32,
	MMA_F8F6F4,
	MMA_I8,
	MMA_MXF8F6F4,
	MMA_MXF4,
	MMA_MXF4NVF4
};
struct mma_row {
	enum mma_kind kind;
	bool wgmma;          /* sm_90a; else tcgen05 */
	const char *name;    /* "kind::f16" */
	uint32_t a, b, d;    /* bit sets of enum dtype */
	uint32_t scale;      /* 0: not block-scaled */
	int block;           /* elements along K that a scale factor covers; twice that if sparse */
	bool same;           /* A and B must have one dtype */
	int k, k_sparse;     /* elements along K an instruction */
	unsigned m1, m2;     /* bits 0, 1, 2: M 64, 128, 256; one CTA, two CTAs */
	int n1, n2;          /* N is a multiple of it, up to 256 */
	const char *targets; /* "sm_100a sm_103a" */
	int version;         /* of PTX, times ten */
};
/* NULL: no instruction takes these.  Of the shape, mma_shape.h, types and scales are asked for. */
struct mma_shape;
const struct mma_row *tc_mma_row(bool wgmma, const struct mma_shape *s);
extern const struct mma_row tc_mma_rows[];
extern const int tc_mma_row_count;
bool tc_mma_on_target(const struct mma_row *row, const char *target);

/* ---- target.c: what a target has ---------------------------------------------------- */

struct target {
	const char *name;             /* "sm_100a" */
	int sm;                       /* 100 */
	const char *ptx_version;      /* lowest that the target accepts */
	int64_t smem_limit;           /* bytes a block may use */
	int tmem_columns;             /* 0: none */
	int max_threads, registers;   /* a block; 32-bit registers a block */
	const struct target_ops *ops; /* lower.c: how this target carries out an op */
};
const struct target *tc_target_find(const char *name); /* NULL: unknown */
/* Accumulators of 64 rows lie in halves of the lanes: false if the kernel says that its target is
 * Hopper, whose accumulators are registers. */
bool tc_lanes_have_halves(const struct kern *k);
const struct target *const *tc_targets(void); /* NULL-terminated */

/* ---- verify.c, and the passes: see compile.h ------------------------------------------ */

/* What only the whole kernel shows; the message points at the op's line. */
void tc_verify(struct kern *k, const struct target *t);
/* What is known where a recording ends; `likely`: where it will run unless it says so, or NULL. */
void tc_verify_recording(struct kern *k, const struct target *likely);
/* SMEM of all allocations and barriers fits the target; `placed`: bytes with scratch and
 * alignment too, once they are known. */
void tc_verify_smem(struct kern *k, const struct target *t, int64_t placed);

struct program;
/* verify, lower, roles, place, emit.  Fails by tc_fail on k->err. */
struct program *tc_compile(struct kern *k, const struct target *t);
void tc_program_free(struct program *p);
/* The kernel after a pass, "record" "roles" "lower" "place" as text. */
void tc_dump(struct strbuf *b, struct kern *k, const struct target *t, const char *pass);

struct device;
struct device_ops;

#include "program.h"
#endif

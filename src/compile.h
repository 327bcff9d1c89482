/*
 * Internal header of the compiler's passes: verify, roles, lower, place, emit.
 *
 * The machine-level form is PTX: instructions with virtual registers, and
 * operands that may name an allocation whose offset place.c decides later.
 *
 * How lowering code is written:
 *
 *	struct mreg d = mi_b32(l);
 *	mi(l, "add.s32", R(d), R(a), I(4));                   add.s32 %r1, %r0, 4;
 *	mi(l, "st.shared.v4.b32", M(addr, 16), V(regs, 4));   st.shared.v4.b32 [%r1+16], {...};
 *	mi_if(l, p, "st.global.b16", M(addr, 0), R(h));       @%p1 st.global.b16 [...], %h1;
 *	mi_unless(l, p, "bra", LABEL(skip));                  @!%p1 bra L3;
 *	mi_label(l, skip);
 */
#ifndef TCMMA_COMPILE_H
#define TCMMA_COMPILE_H

#include "tc.h"

/* ---- layout.c: the image of an SMEM allocation (docs/semantics.md 9) ----------------------- */

/*
 * A tile is the last two axes (R rows, C columns); further axes count tiles.
 * Swizzled: panels of `panel_columns` columns side by side, each R rows of
 * `row_bytes` = W bytes, XOR on address bits.  swizzle 0: one panel of plain
 * row-major rows, or with a tiling of 16 bytes panels of them.  A vector has one row.
 */
struct smem_layout {
	int bits;    /* of an element as stored */
	int swizzle; /* W: 0, 32, 64, 128 */
	/* The XOR on addresses: of these bits from bit 7 on, with those from bit xor_shift on. */
	int xor_mask, xor_shift;
	bool panelled; /* swizzled, or cut into panels of 16 bytes, the core matrices of no swizzle
			*/
	int64_t rows, columns, tiles;
	int64_t panel_columns, panels, row_bytes, panel_bytes, tile_bytes, bytes;
	int64_t alignment; /* of the allocation: 1024, 512, 256, 128 */
};
/* Elements in a row of a box whose elements TMA pads. */
#define TC_PADDED_ROW 128
void tc_smem_layout(const struct alloc *a, struct smem_layout *s);
/* Byte offset of (row, column) in a tile before the XOR; and the XOR itself,
 * valid on offsets from the allocation since its base is aligned. */
int64_t tc_smem_linear(const struct smem_layout *s, int64_t row, int64_t column);
int64_t tc_smem_xor(const struct smem_layout *s, int64_t offset);
/* Elements from one index of `axis` to the next; static (SMEM, TMEM). */
int64_t tc_axis_stride(const struct alloc *a, int axis);

/* ---- machine.c: instructions -------------------------------------------------------- */

enum mreg_type {
	MR_PRED,
	MR_B16,
	MR_B32,
	MR_B64,
	MR_F32,
	MR_F64,
	MR_COUNT
};

/* A virtual register.  `name` is NULL for numbered ones. */
struct mreg {
	enum mreg_type type;
	int id;    /* from 1; 0: no register */
	int depth; /* nesting of the scope of code that it is computed in */
	const char *name;
};

/* What place.c resolves. */
enum msym_kind {
	SYM_NONE,
	SYM_SMEM,         /* alloc: bytes from the dynamic base */
	SYM_TMEM,         /* alloc: columns from the kernel's TMEM base */
	SYM_BARRIER,      /* barrier: bytes from the dynamic base */
	SYM_SCRATCH,      /* role_plan: its scratch, bytes from the dynamic base */
	SYM_TMEM_COLUMNS, /* how many are allocated */
	SYM_TMEM_SLOT     /* where tcgen05.alloc leaves the address */
};
struct msym {
	enum msym_kind kind;
	const void *object; /* struct alloc, barrier or role_plan */
};

/*
 * An address: reg + symbol + offset.  For the SMEM symbols a missing `reg`
 * stands for the dynamic base, for SYM_TMEM for the TMEM base; a `reg` that is
 * given contains that base already.  Without symbol: reg + offset.
 */
struct maddr {
	struct mreg reg;
	struct msym sym;
	int64_t offset;
};

enum mopnd_kind {
	MO_REG, /* %r1; negated: !%p1 */
	MO_IMM,
	MO_HEX,
	MO_F32,
	MO_ADDR,   /* [%r1+16] */
	MO_OFFSET, /* a symbol's offset plus imm, as an integer */
	MO_LIST,   /* {%r1, %r2} */
	MO_LABEL,
	MO_TEXT, /* as it is: [param], _, %tid.x */
	MO_MAP,  /* [%rd1, {%r1, %r2}] */
	MO_ELECT /* _|%p1 */
};
struct mopnd {
	enum mopnd_kind kind;
	bool negated;
	int count;
	struct mreg reg;
	int64_t imm; /* MO_F32: the bits */
	struct maddr addr;
	const struct mopnd *list;
	const char *text;
};

struct mopnd mo_reg(struct mreg r);
struct mopnd mo_imm(int64_t i);
struct mopnd mo_hex(uint64_t i);
struct mopnd mo_f32(float f);
struct mopnd mo_mem(struct maddr a, int64_t offset);
struct mopnd mo_offset(struct msym sym, int64_t offset);
struct mopnd mo_label(int label);
struct mopnd mo_elect(struct mreg p);   /* _|%p */
struct mopnd mo_text(const char *text); /* text lives as long as the program */
#define R(reg)       mo_reg(reg)
#define I(imm)       mo_imm(imm)
#define M(addr, off) mo_mem(addr, off)
#define T(text)      mo_text(text)
#define LABEL(n)     mo_label(n)

enum minst_kind {
	MI_OP,
	MI_LABEL,
	MI_COMMENT,
	MI_RAW,   /* a line of text without semicolon: braces */
	MI_CHECK, /* stops where operand 0, unsigned, is not below operand 1; opcode: why */
	MI_PLACE  /* no code: holds a place that instructions are put before */
};
struct minst {
	struct minst *next;
	enum minst_kind kind;
	const struct op *op; /* recorded op it comes from; NULL */
	struct mreg guard;
	bool guard_not;
	const char *opcode; /* MI_COMMENT: the text */
	int label, count;
	struct mopnd *operand;
};

/* ---- roles.c: the two tables ---------------------------------------------------------- */

struct low;
struct class_plan; /* classes.h */

struct role_plan {
	int index;                /* order of the threads: first warpgroups, then single warps */
	struct role *role;        /* of a class: the first that was made */
	uint32_t members;         /* bits: ids of the roles that run as this program */
	const char *name;         /* a PTX identifier, unique */
	int class_id, clones;     /* sm_90a: roles of one class run as one program */
	struct class_plan *class; /* NULL: a role for itself */
	int first_warp, warps, threads; /* warps and threads: of one clone */
	bool tensor_core;               /* has tcgen05 ops: every wait is followed by the fence */
	int named_barrier; /* 1..15; 0: one warp, bar.warp.sync; clone i has the i-th from here */
	int class_barrier; /* of all clones; that of the role where there is one clone */
	int parity_words;  /* registers of phase bits */
	int max_registers;
	int64_t scratch_bytes, scratch_offset;
	/* what of the shared code this role runs, by id */
	bool *op_kept, *val_needed, *var_needed;
	bool *waits; /* by tc_phase_index: there are phase bits of it */
};

enum arrival_kind {
	ARRIVAL_COPY,
	ARRIVAL_MMA,
	ARRIVAL_COMMIT,
	ARRIVAL_THREADS,
	ARRIVAL_STORE,
	ARRIVAL_CANCEL
};
struct arrival_source {
	const struct op *op;
	struct role_plan *role;
	enum arrival_kind kind;
};
struct barrier_plan {
	struct barrier *barrier;
	const char *name;
	int unit, init_count;  /* U; num_arrivals * U */
	bool elided;           /* a class waits for its own MMAs: no mbarrier */
	bool mma_only_release; /* every barrier_arrive frees what only MMAs, or bulk stores, have
				  read */
	bool remote;           /* threads of other CTAs arrive: waits acquire at cluster scope */
	int source_count;
	struct arrival_source *sources;
};

/* What a recorded s32 value lies in. */
struct interval {
	bool known;
	int64_t low, high;
};

struct low_scope;
struct loop_end;

/* One compilation: the tables and the code.  Lives in program->arena. */
struct compilation {
	struct kern *kern;
	const struct target *target;
	struct program *program;
	struct arena *arena; /* the program's */
	struct err *err;     /* the kernel's */
	int role_count;
	struct role_plan *roles;
	struct class_plan **class_of;  /* by role id; NULL: the target has no classes */
	bool *elided;                  /* by barrier id, with class_of */
	struct barrier_plan *barriers; /* by barrier id */
	int warps;                     /* of the block, padded to whole warpgroups */
	/* lower */
	struct minst *first, *last;
	int register_count[MR_COUNT];
	struct ptrvec named_registers;  /* struct mreg * */
	struct ptrvec labels;           /* const char *: names, NULL for numbered ones */
	struct ptrvec strings;          /* const char *: texts in .global memory */
	struct mreg thread, warp, lane; /* of the block; lane of the warp */
	struct mreg smem, tmem;         /* bases: dynamic SMEM; TMEM */
	bool uses_vprintf;
	int local_bytes;                /* of vprintf's arguments */
	struct low_scope *kernel_scope; /* what all roles share: axes, dimensions, parameters */
	struct minst **kernel_at;       /* the end of the code that computes it */
	struct interval *intervals;     /* of s32 values, by val id */
	struct walked *walked;          /* by val id: see tc_low_value */
	int walks;
	bool has_checks; /* there is an MI_CHECK */
	int version;     /* .version times ten: 80, 86, 88 */
	bool uses_tmem;
	int cta_group; /* of all tcgen05 instructions: 2 where the tensor memory is collective */
	/* place */
	int64_t smem_bytes, tmem_slot;
	int tmem_columns;     /* allocated: a power of two, 0: none */
	struct ptrvec params; /* struct param_slot * */
};
/* An expression that a walk over a graph has computed: nodes are shared, and visited once. */
struct walked {
	int walk, depth;
	const struct mopnd *value;
};
struct param_slot {
	struct param param;
	const char *name;
	struct mreg reg; /* its address or value, once loaded */
};

/* The passes, in the order of tc_compile. */
void tc_roles(struct compilation *c);
void tc_plan_barriers(struct compilation *c); /* arrivals.c: the table of barriers */
void tc_lower(struct compilation *c);
void tc_place(struct compilation *c);
/* symbols.c: the names for reports; everything has its place. */
void tc_program_symbols(struct compilation *c);
/*
 * `checked`: with the checks of MI_CHECK, each on the line of what follows, so that both texts have
 * the same lines.
 */
void tc_emit(struct compilation *c, struct strbuf *out, bool checked);
/* dump.c: the tables as text. */
void tc_dump_roles(struct strbuf *b, const struct compilation *c);
void tc_dump_place(struct strbuf *b, const struct compilation *c);

const char *tc_base_name(const char *file); /* without its folders */
/* A name that PTX takes. */
const char *tc_ptx_identifier(struct low *l, const char *name);
/* All grid axes are folded into CUDA's x: more than three, or too long for y or z. */
bool tc_grid_folded(const struct kern *k);

struct role_plan *tc_role_plan(struct compilation *c, const struct role *r);
bool tc_plan_runs(const struct role_plan *p, const struct role *r);
/* The role whose code an op is. */
const struct role *tc_op_role(const struct compilation *c, const struct op *op);
/* Phase bits belong to a role as written and a barrier. */
int tc_phase_index(const struct compilation *c, const struct op *wait);
/* Bodies of a control op: up to two. */
int tc_op_bodies(const struct op *o, const struct scope *body[2]);
/* The barrier that an op arrives on; NULL: none. */
const struct barrier *tc_op_arrives(const struct op *o, enum arrival_kind *kind);

/* ---- lower*.c: what lowering code may use ------------------------------------------------ */

struct low {
	struct compilation *c;
	struct arena *arena;
	struct role_plan *role; /* NULL in the kernel's own prologue and epilogue */
	const struct op *op;    /* being lowered */
	/* registers of the role, valid in all its code */
	struct mreg leader;       /* predicate: this lane issues for the role, or clone */
	struct mreg first_leader; /* the same of clone 0 alone */
	struct mreg pair_leader;  /* the same in the first CTA of a pair; made on demand */
	/* profile = true: whether this thread writes, its part of the buffer, events so far */
	struct mreg profile_writes, profile_part, profile_event;
	struct mreg elected;        /* predicate: one lane of each warp */
	struct mreg thread, window; /* made on demand */
	struct mreg clone;          /* which of the class; no register: there is one */
	struct mreg is_clone[4];    /* predicates, made on demand */
	struct mreg *phases;        /* parity bits, by tc_phase_index; no register: never waits */
	/* code */
	struct minst **at;       /* where the next instruction is linked in */
	struct minst **entry_at; /* the end of the role's entry code */
	struct low_scope *role_scope, *scope;
	int depth; /* of scope */
	int walk;  /* the number of the open tc_low_value */
	int away;  /* nesting of code that is put elsewhere: before a loop, at the entry */
	const char *comment; /* of comment_op, not yet put */
	const struct op *comment_op;
	bool in_leader;
	struct mreg issuing; /* the predicate of the open region */
	int leader_end;      /* label */
	/* lower_wgmma.c: address of the mbarrier to arrive on, 0: none; count, where it varies */
	struct mreg release, release_count;
	/*
	 * tcgen05.ld and .st that no wait::ld, wait::st has followed.  Every
	 * tcgen05.wait::ld increments ld_epoch: a fragment loaded in the current
	 * epoch must be waited for before use (tc_low_wait_ld).
	 */
	bool pending_ld, pending_st;
	int ld_epoch;
	struct loop_end *loops;           /* lower_control.c */
	struct mreg *vars;                /* lower_scalar.c: by var id */
	int bulk_groups;                  /* the role has committed bulk groups */
	struct low_phases *phase_order;   /* lower_phase.c; NULL: one warp */
	struct cluster_set *cluster_sets; /* lower_cluster.c */
	struct frag_plan *frag_plan;      /* frag.h; NULL until the first fragment */
};

/* Appends an instruction to the role's code. */
struct minst *mi_emit(struct low *l, const char *opcode, const struct mopnd *operand, int count);
#define mi(l, opcode, ...)                                                                         \
	mi_emit(l, opcode, (const struct mopnd[]){__VA_ARGS__},                                    \
		(int)(sizeof((const struct mopnd[]){__VA_ARGS__}) / sizeof(struct mopnd)))
#define mi_if(l, p, ...)     mi_guard(mi(l, __VA_ARGS__), p, false)
#define mi_unless(l, p, ...) mi_guard(mi(l, __VA_ARGS__), p, true)
void mi_guard(struct minst *m, struct mreg p, bool negated);
void mi_push(struct arena *a, struct ptrvec *v, void *item);
struct minst *mi_place(struct low *l);          /* MI_PLACE */
int mi_string(struct low *l, const char *text); /* number of a text in .global memory */
void mi_add_param(struct low *l, struct param_slot *slot);
void mi_plain(struct low *l, const char *opcode); /* without operands */
int mi_new_label(struct low *l);
int mi_named_label(struct low *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mi_label(struct low *l, int label);
void mi_flush_comment(struct low *l);
/* A line as it is, without semicolon. */
void mi_raw(struct low *l, const char *text);
/* The 32 bits of `index` are below `limit`, or the emulator stops here and says `why`. */
void mi_check(struct low *l, struct mreg index, int64_t limit, const char *why);
void mi_comment(struct low *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct mreg mi_reg(struct low *l, enum mreg_type type);
struct mreg mi_pred(struct low *l);
struct mreg mi_b16(struct low *l);
struct mreg mi_b32(struct low *l);
struct mreg mi_b64(struct low *l);
struct mreg mi_f32(struct low *l);
/* A register with a name made unique; shown as %name. */
struct mreg mi_named(struct low *l, enum mreg_type type, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* {%r1, ...} of n registers. */
struct mopnd mo_list(struct low *l, const struct mreg *regs, int n);
#define V(regs, n) mo_list(l, regs, n)
/* [%rd1, {coordinates}] of a TMA instruction. */
struct mopnd mo_map(struct low *l, struct mreg map, const struct mopnd *coordinates, int n);
/* The target needs at least this .version (86 is 8.6). */
void mi_require(struct low *l, int version);

/* lower_scalar.c: recorded scalars in registers.  Equal expressions are
 * computed once a scope; a value that is constant in a loop, before the loop. */
struct mopnd tc_low_value(struct low *l, const struct val *v); /* register or immediate */
struct mreg tc_low_register(struct low *l, const struct val *v);
struct mreg tc_low_pred(struct low *l, const struct val *v);
/* d = the index along a grid axis, where the grid is folded and x is the whole index. */
void tc_low_unfold(struct low *l, int axis, struct mreg x, struct mreg d);
/* The register that an op's result lives in from here on (LOAD_SCALAR, VAR_GET). */
void tc_low_define(struct low *l, const struct val *v, struct mreg r);
/* d = a + b, a * b, with constants folded; `type` "s32", "u32", "s64" ... */
struct mopnd tc_low_add(struct low *l, struct mopnd a, struct mopnd b);
struct mopnd tc_low_mul(struct low *l, struct mopnd a, int64_t b);
struct mopnd tc_low_udiv(struct low *l, struct mopnd a, int64_t b); /* a >= 0, b > 0 */
/* The same in 64 bits, and an s32 operand times a 64-bit one. */
struct mopnd tc_low_add64(struct low *l, struct mopnd a, struct mopnd b);
struct mopnd tc_low_mul64(struct low *l, struct mopnd a, struct mopnd b);
struct mopnd tc_low_wide(struct low *l, struct mopnd a, struct mopnd b);
struct mopnd tc_low_and(struct low *l, struct mopnd a, int64_t mask);
struct mopnd tc_low_xor(struct low *l, struct mopnd a, struct mopnd b);
/* lower_interval.c, lower_expr.c */
struct interval tc_low_interval(struct low *l, const struct val *v);
struct mreg tc_low_compute(struct low *l, const struct val *v, const struct mopnd *operand);
int tc_log2(int64_t x); /* -1: not a power of two */
/* a // b, or a % b, as in Lua; natural: both are unsigned, or known not to be negative. */
struct mreg tc_low_floor_division(struct low *l, bool division, bool natural, struct mopnd a,
				  struct mopnd b);
/* Static or named dimension as a value. */
struct mopnd tc_low_dim(struct low *l, const struct dim *d);
/* Axis of the kernel's grid or cluster, thread registers. */
struct mreg tc_low_thread(struct low *l); /* thread in the role, from 0 */
struct mreg tc_low_lane(struct low *l);   /* lane in the warp */
/* Runs the following code once, where the role starts; then back. */
struct low_place {
	struct minst **at;
	struct low_scope *scope;
	const struct op *op;
	bool in_leader;
};
struct low_place tc_low_at_entry(struct low *l);
void tc_low_start(struct low *l); /* scopes of the kernel, then of each role */
void tc_low_return(struct low *l, struct low_place p);

/* Scopes of code: what is computed inside is not known outside.  A loop keeps
 * the place before it, for values that do not change in it. */
void tc_low_open(struct low *l, bool loop);
/* The other branch: what does not depend on it goes before both. */
void tc_low_open_beside(struct low *l, const struct low_scope *sibling);
void tc_low_close(struct low *l);

/* lower.c */
_Noreturn void tc_low_fail(struct low *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3))); /* points at l->op */
/*
 * Code that the leader alone runs.  begin opens a region (or goes on with an
 * open one); any code for all threads must call tc_low_all first, which closes
 * it and reconverges the warp.
 */
void tc_low_leader(struct low *l);
void tc_low_first_leader(struct low *l); /* of a class: once, not once a clone */
/* In the first CTA along the axis; -1: in every one. */
void tc_low_pair_leader(struct low *l, int axis);
void tc_low_all(struct low *l);
/* bar.warp.sync or the role's named barrier; all threads. */
void tc_low_role_barrier(struct low *l);
void tc_low_class_barrier(struct low *l); /* of all clones */
/* The clones' own rows of a view of SMEM: each moves 64 of them. */
bool tc_low_rows_cut(const struct low *l, const struct ref *r);
/* One lane a warp of every clone arrives, `count` each. */
void tc_low_arrive(struct low *l, struct mreg who, struct maddr a, struct mopnd count);
/* The same wherever the barrier is: here, in a peer, or in every CTA that it reaches. */
void tc_low_arrive_on(struct low *l, const struct barrier_ref *b, int count);
/* The instruction that waits for it: at cluster scope where threads of other CTAs arrive. */
const char *tc_low_try_wait(const struct low *l, const struct barrier *b);
/* Waits for the loads or stores of TMEM that are pending; nothing if none is. */
void tc_low_wait_ld(struct low *l);
void tc_low_wait_st(struct low *l);
/* Where control flow parts or joins: all threads, nothing of TMEM pending. */
void tc_low_join(struct low *l);
/* SMEM that the role may use as scratch from here to its next use of scratch. */
struct maddr tc_low_scratch(struct low *l, int64_t bytes);
/*
 * First byte of the tile that an SMEM view lies in (all axes before the last
 * two), and first row and column in it (storage order, not the view's).
 */
struct smem_view {
	struct smem_layout layout;
	struct maddr tile;
	struct mopnd row, column; /* first index along the last two axes */
	int64_t rows, columns;    /* extents along them */
	bool transposed;          /* the view swaps them */
};
void tc_low_smem_view(struct low *l, const struct ref *r, struct smem_view *v);
/* `offset` bytes behind the view's tile. */
struct maddr tc_low_smem_at(struct low *l, const struct smem_view *v, struct mopnd offset);
/* Address of a TMEM view: its lane and column; the TMEM base is included. */
struct maddr tc_low_tmem_view(struct low *l, const struct ref *r);
/* The same for this warp's window of 32 lanes: 32 * (warp % 4) << 16 is added. */
struct maddr tc_low_tmem_window(struct low *l, const struct ref *r);
/* An address as a value. */
struct mreg tc_low_address(struct low *l, struct maddr a);
/* lower_descriptor.c: whether the first step along K adds to D: 0, 1 or a predicate. */
struct mopnd tc_low_accumulate(struct low *l, const struct mma_op *o);

/* An operand of an MMA in SMEM. */
struct smem_operand {
	struct smem_layout layout;
	bool k_major;
	struct mreg descriptor; /* 64 bits, of the first element */
};
/* `k_dimension`: of the view, 1 for a and 0 for b.  `clone`: has the rows from 64 * clone. */
void tc_low_smem_operand(struct low *l, struct smem_operand *o, const struct ref *r,
			 int k_dimension, struct mreg clone);
/* The descriptor of element (mn, k); both at steps of the instruction. */
struct mreg tc_low_operand_at(struct low *l, const struct smem_operand *o, int64_t mn, int64_t k);
/* Parameters: pointer of a GMEM argument (.global, 64 bits), tensor map. */
struct mreg tc_low_profile_buffer(struct low *l); /* address, 0: none is given */
/* lower_profile.c: nothing without profile = true. */
void tc_low_profile_start(struct low *l);
void tc_low_profile_op(struct low *l, const struct op *op, bool after);
void tc_low_profile_end(struct low *l);
struct mreg tc_low_dim_param(struct low *l, int number); /* u32 */
struct mreg tc_low_tensormap(struct low *l, const struct param *p);
/* Byte offset in GMEM of the first element of a view, 64 bits (b64 register or
 * immediate); the stride in elements of an axis (32 or 64 bits). */
struct mreg tc_low_gmem_address(struct low *l, const struct ref *r);
struct mopnd tc_low_gmem_stride(struct low *l, const struct alloc *a, int axis); /* b64 or imm */

void tc_low_ops(struct low *l, const struct scope *s); /* the ops of a scope, in order */
/* lower_bounds.c: before the code of an op, checks of its recorded indices. */
void tc_low_bounds(struct low *l, const struct op *op);

/* The lowering of one op; targets list them by op kind. */
typedef void low_fn(struct low *l, const struct op *op);
struct distribution;
struct frag_value;
struct target_ops {
	low_fn *lower[OP_COUNT];
	/* The kernel's start and end (TMEM) and a role's. */
	void (*begin)(struct low *l); /* warp 0, before the block's first barrier */
	void (*begun)(struct low *l); /* after it */
	void (*end)(struct low *l);
	void (*after_wait)(struct low *l); /* after a barrier_wait */
	/* Before an arrival on a barrier that orders the tensor core. */
	void (*before_arrive)(struct low *l);
	/* The arrival of an mma or a commit_arrive counts 1; else that of one lane a warp. */
	bool commit_counts_one;
	uint32_t descriptor_bits; /* set in the high word of SMEM descriptors */
	/* Which roles run as one program: fills class_of and elided.  NULL: each is its own. */
	void (*classes)(struct compilation *c);
	/* After roles: sets max_registers.  NULL: as the user did. */
	void (*registers)(struct compilation *c);
	void (*role_start)(struct low *l), (*role_end)(struct low *l);
	/* Before a wait spins; code that has seen the phase complete goes on at `ready`. */
	void (*before_spin)(struct low *l, struct mopnd barrier, struct mopnd parity, int ready);
	/* How tiles of TMEM lie in registers. */
	void (*tmem_distribution)(struct low *l, const struct ref *r, const struct role *role,
				  struct distribution *d);
	/* ref:store of a tile by other means than plain stores; false: not this one.  NULL: none.
	 */
	bool (*store_tile)(struct low *l, const struct ref *r, const struct frag_value *v);
};

/*
 * lower_phase.c: which waits not all warps of the role have surely passed.  `before` stands before
 * an op that the leader alone issues and that arrives on b: it puts a role barrier where needed.
 */
void tc_low_phases_start(struct low *l);
void tc_low_phases_waited(struct low *l, const struct barrier *b);
void tc_low_phases_seen(struct low *l); /* at a barrier of all the role's warps */
void tc_low_phases_before(struct low *l, const struct barrier *b);
/* Branches: what is unseen, put in place of what is now, which is returned; and joined to it. */
bool *tc_low_phases_save(struct low *l);
bool *tc_low_phases_swap(struct low *l, bool *saved);
void tc_low_phases_join(struct low *l, const bool *other);
/* At the head of a loop, and behind it; `before` was saved in front of it. */
void tc_low_phases_loop(struct low *l, const struct scope *body);
void tc_low_phases_left(struct low *l, const struct scope *body, const bool *before);

/* lower_cluster.c */
void tc_low_cluster_start(struct low *l);
void tc_low_cluster_end(struct low *l);
void tc_low_cluster_barrier(struct low *l); /* all threads of the cluster, one by one */
/* Of the CTAs along the axes the first: whether it is this one; the base of its shared memory. */
struct mreg tc_low_is_first_cta(struct low *l, unsigned axes);
struct mreg tc_low_first_cta_smem(struct low *l, unsigned axes);
/* 16-bit masks of ranks: of a copy's axes, of the CTAs that arrivals on a barrier reach. */
struct mreg tc_low_multicast_mask(struct low *l, unsigned axes);
struct mreg tc_low_barrier_mask(struct low *l, const struct barrier *b);
/* This CTA's index along the axes, the last one fastest. */
struct mopnd tc_low_cluster_position(struct low *l, unsigned axes);
/* The same address in the CTA of that rank. */
struct mreg tc_low_peer(struct low *l, struct mreg address, const struct val *rank);
/*
 * Arrives `count` on the barrier, whose mbarrier here is `local`, in every CTA that it reaches:
 * one lane for each, in each warp that executes it converged.  `who`: in threads where it is
 * false, nothing; no register: in all.  `release`: what threads did before is visible there.
 */
void tc_low_cluster_arrive(struct low *l, const struct barrier *b, struct mreg who,
			   struct maddr local, struct mopnd count, bool release);
/* In the CTA of that rank, by the threads where `who` is true. */
void tc_low_peer_arrive(struct low *l, const struct val *rank, struct mreg who, struct maddr local,
			struct mopnd count);

low_fn tc_lower_nothing;
low_fn tc_lower_unsupported; /* fails: op, line, "is not supported on TARGET yet" */
/* lower_control.c */
low_fn tc_lower_range, tc_lower_loop, tc_lower_stop, tc_lower_when, tc_lower_role, tc_lower_print,
	tc_lower_assert, tc_lower_registers;
/* vprintf by the calling lane: b32 and f32 values. */
void tc_low_printf(struct low *l, const char *format, const struct mopnd *value,
		   const bool *is_float, int count);
/* lower_scalar.c */
low_fn tc_lower_var, tc_lower_load_scalar, tc_lower_store_scalar;
/* lower_copy.c */
low_fn tc_lower_copy_gmem_to_smem, tc_lower_copy_smem_to_gmem, tc_lower_commit_smem,
	tc_lower_commit_gmem, tc_lower_wait_smem_to_gmem;
/* One arrival as written, whose phase waits for that many bytes too; `who`: only where it is true,
 * no register: always. */
void tc_low_expect_bytes(struct low *l, const struct barrier_ref *b, int64_t bytes,
			 struct mreg who);
/* The tensor map of an argument for an image in SMEM (NULL: none), with boxes of one element. */
void tc_low_plan_map(struct low *l, struct param *map, const struct ref *gmem,
		     const struct alloc *smem);
/* lower_gather.c: the instructions of a copy whose rows a vector names, by one thread. */
void tc_low_gather(struct low *l, const struct copy_op *o);
low_fn tc_lower_async_prefetch;
/* lower_barrier.c */
low_fn tc_lower_arrive, tc_lower_wait;
/* lower_schedule.c; the last two: where there is no launch control */
low_fn tc_lower_semaphore_signal, tc_lower_semaphore_wait, tc_lower_griddepcontrol;
low_fn tc_lower_try_cluster_cancel, tc_lower_query_cluster_cancel, tc_lower_no_cluster_cancel,
	tc_lower_no_cluster_query;
/* lower_mma.c, lower_tcgen05.c */
low_fn tc_lower_tcgen05_mma, tc_lower_tcgen05_commit, tc_lower_tcgen05_copy,
	tc_lower_tcgen05_copy_scales, tc_lower_tcgen05_copy_metadata, tc_lower_wait_load_tmem,
	tc_lower_commit_tmem;
/* The barrier sees what the leader has issued complete. */
void tc_low_tcgen05_commit(struct low *l, const struct barrier_ref *b, int collective_axis);
/* lower_wgmma.c: classes of roles with accumulators in registers */
low_fn tc_lower_wgmma, tc_lower_wgmma_commit, tc_lower_wgmma_load, tc_lower_wgmma_store,
	tc_lower_wgmma_wait, tc_lower_wgmma_arrive, tc_lower_wgmma_copy_metadata,
	tc_lower_wgmma_copy;
void tc_low_wgmma_start(struct low *l);
void tc_low_wgmma_end(struct low *l);
void tc_low_wgmma_before_spin(struct low *l, struct mopnd barrier, struct mopnd parity, int ready);
void tc_low_wgmma_distribution(struct low *l, const struct ref *r, const struct role *role,
			       struct distribution *d);
/* lower_matrix.c */
bool tc_low_stmatrix(struct low *l, const struct ref *r, const struct frag_value *v);
/* classes.c */
void tc_wgmma_classes(struct compilation *c);
/* lower_bulk.c */
/* The barrier of an earlier commit_smem stands for the one of this wait. */
bool tc_low_wait_answered(struct low *l, const struct op *wait);
/* lower_registers.c: of a thread as launched; of those in a warpgroup, 0: not set. */
int tc_launched_registers(const struct compilation *c);
int tc_group_registers(const struct compilation *c, int group);
void tc_low_issuer_registers(struct low *l);
void tc_low_role_registers(struct low *l);
/* class_registers.c */
void tc_class_registers(struct compilation *c);
/* lower_frag*.c */
low_fn tc_lower_load_tmem, tc_lower_store_tmem, tc_lower_load, tc_lower_store, tc_lower_elementwise,
	tc_lower_cast, tc_lower_full, tc_lower_iota, tc_lower_broadcast, tc_lower_reduce;
/* VAR_NEW, VAR_SET, VAR_GET of a fragment; print of one. */
low_fn tc_lower_frag_var, tc_lower_frag_print;

/* What a target_ops of tcgen05 has beside them. */
void tc_low_tcgen05_begin(struct low *l);
void tc_low_tcgen05_begun(struct low *l);
void tc_low_tcgen05_end(struct low *l);
void tc_low_tcgen05_after_wait(struct low *l);
void tc_low_tcgen05_before_arrive(struct low *l);
/* Address of barrier_ref's mbarrier in this CTA; in the one whose shared memory begins at `smem`.
 */
struct maddr tc_low_barrier(struct low *l, const struct barrier_ref *b);
struct maddr tc_low_barrier_in(struct low *l, const struct barrier_ref *b, struct mreg smem);

extern const struct target_ops tc_ops_sm90, tc_ops_sm100;

#endif

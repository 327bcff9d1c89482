/* What lowering code may use, and the lowering of each op. */
#ifndef TCMMA_LOWER_H
#define TCMMA_LOWER_H

#include "roles.h"

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
	bool profile_computing;     /* the last event began a run of arithmetic */
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
	struct tmem_order *tmem_order;    /* lower_tmem_order.c; NULL until the first access */
};

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
struct mopnd tc_low_udiv(struct low *l, struct mopnd a, int64_t b);       /* a >= 0, b > 0 */
struct mopnd tc_low_shift_right(struct low *l, struct mopnd a, int bits); /* a // 2^bits */
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
/* d = a / b of f32. */
void tc_low_float_division(struct low *l, struct mreg d, struct mopnd a, struct mopnd b);
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
bool tc_profile_is_event(enum op_kind kind);
/* Arithmetic on fragments; a run of such ops is one event, whatever else in it is none. */
bool tc_profile_computes(enum op_kind kind);
void tc_low_profile_op(struct low *l, const struct op *op, bool after);
void tc_low_profile_end(struct low *l);
struct mreg tc_low_dim_param(struct low *l, int number); /* u32 */
struct mreg tc_low_tensormap(struct low *l, const struct param *p);
/* Byte offset in GMEM of the first element of a view, 64 bits (b64 register or
 * immediate); the stride in elements of an axis (32 or 64 bits). */
struct mreg tc_low_gmem_address(struct low *l, const struct ref *r);
/* Bytes from one index of an axis to the next; b64 or imm.  Of types of 4 bits, two along the last
 * axis, whose size is even where there is another. */
struct mopnd tc_low_gmem_step(struct low *l, const struct alloc *a, int axis);

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
/*
 * lower_map.c: the tensor map of an argument for an image in SMEM (NULL: none), with boxes of so
 * many elements along each axis of the argument; false: it would have too many dimensions.
 */
bool tc_low_plan_map(struct low *l, struct param *map, const struct ref *gmem,
		     const struct alloc *smem, const int64_t *box);
/* Where a box begins, counted from the first index of the view along each axis, and its elements.
 */
struct map_place {
	struct mopnd part[TC_MAX_RANK];
	int64_t constant[TC_MAX_RANK], box[TC_MAX_RANK];
};
void tc_low_map_place(struct map_place *at); /* at the first; of one element */
void tc_low_map_coordinates(struct low *l, const struct param *map, const struct ref *gmem,
			    const struct map_place *at, struct mopnd *coordinate);
/* lower_gather.c: the instructions of a copy whose rows a vector names, by one thread. */
void tc_low_gather(struct low *l, const struct copy_op *o);
low_fn tc_lower_async_prefetch;
/* lower_barrier.c */
low_fn tc_lower_arrive, tc_lower_wait;
/* lower_schedule.c; the last two: where there is no launch control */
low_fn tc_lower_semaphore_signal, tc_lower_semaphore_signals, tc_lower_semaphore_wait,
	tc_lower_griddepcontrol;
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
low_fn tc_lower_load_tmem, tc_lower_store_tmem, tc_lower_load, tc_lower_store, tc_lower_atomic,
	tc_lower_elementwise, tc_lower_cast, tc_lower_full, tc_lower_iota, tc_lower_broadcast,
	tc_lower_reduce;
/* VAR_NEW, VAR_SET, VAR_GET of a fragment; print of one. */
low_fn tc_lower_frag_var, tc_lower_frag_print;

/* What a target_ops of tcgen05 has beside them. */
void tc_low_tcgen05_begin(struct low *l);
void tc_low_tcgen05_begun(struct low *l);
void tc_low_tcgen05_end(struct low *l);
void tc_low_tcgen05_after_wait(struct low *l);
void tc_low_tcgen05_before_arrive(struct low *l);
/* All threads of the role have done what they did to TMEM before, and see it. */
void tc_low_tcgen05_meet(struct low *l);
/* Address of barrier_ref's mbarrier in this CTA; in the one whose shared memory begins at `smem`.
 */
struct maddr tc_low_barrier(struct low *l, const struct barrier_ref *b);
struct maddr tc_low_barrier_in(struct low *l, const struct barrier_ref *b, struct mreg smem);

extern const struct target_ops tc_ops_sm90, tc_ops_sm100;

#endif

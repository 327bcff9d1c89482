/* One compilation: who runs what, who arrives on what, and the passes that fill it in. */
#ifndef TCMMA_ROLES_H
#define TCMMA_ROLES_H

#include "machine.h"

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
	bool tensor_core;  /* orders tcgen05 ops: every wait is followed by the fence */
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
	bool uses_vprintf, uses_assert;
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
/* Columns of TMEM before an allocation in its member of a union; 0: it is in none. */
int64_t tc_union_column(const struct kern *k, const struct alloc *a);
/* symbols.c: the names for reports; everything has its place. */
void tc_program_symbols(struct compilation *c);
void tc_lints(struct compilation *c);          /* lint.c: after lower */
void tc_program_causes(struct compilation *c); /* causes.c: hints of this kernel's lines */
/*
 * `checked`: with the checks of MI_CHECK, each on the line of what follows, so that both texts have
 * the same lines.
 */
void tc_emit(struct compilation *c, struct strbuf *out, bool checked);
/* dump.c: the tables as text. */
void tc_dump_roles(struct strbuf *b, const struct compilation *c);
void tc_dump_place(struct strbuf *b, const struct compilation *c);

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

#endif

/* How a kernel is recorded, and shown: what each of these files offers. */
#ifndef TCMMA_RECORD_H
#define TCMMA_RECORD_H

#include "kernel.h"

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
	int count, op_count, allocs, barriers, roles, vars, aliases, promises;
};
void tc_kern_mark(const struct kern *k, struct kern_mark *m);
void tc_kern_rollback(struct kern *k, const struct kern_mark *m);

/*
 * A message that fails the recording at its end, at the line of the current call, unless the
 * promise has been kept by then: of libraries whose objects have to be used.
 */
#define TC_PROMISE_WORDS 8
struct promise {
	int id; /* enum tc_error */
	const char *text[TC_PROMISE_WORDS + 2];
	struct srcpos pos;
	int kept_at; /* ops recorded when it was kept; -1: it is not */
};
struct promise *tc_kern_promise(struct kern *k, int id, const char *const *text);
void tc_kern_keep(struct kern *k, struct promise *p);

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
/* The CTAs differ along these axes alone, if at all. */
bool tc_cluster_reaches(const struct kern *k, int rank, int other, unsigned axes);
/* Bits: ranks of the CTAs that share with rank 0 all but these axes. */
uint32_t tc_cluster_line(const struct kern *k, unsigned axes);
/* CTAs that an arrival reaches, and from which as many come; 1: its own. */
int tc_cluster_peers(const struct kern *k, const unsigned *group, int count);
/* The value is computed from this CTA's index along one of the axes. */
bool tc_val_along(struct kern *k, const struct val *v, unsigned axes);
/*
 * The value in the CTAs whose index along cluster axis i is position[i], -1: any; false: it is not
 * known.
 */
bool tc_val_at(const struct kern *k, const struct val *v, const int *position, int64_t *value);
/* The same where the counters of some ranges are known, too. */
#define TURN_MAX_LOOPS 16
struct turn {
	const int *position;
	int loops;
	const struct op *loop[TURN_MAX_LOOPS];
	int64_t counter[TURN_MAX_LOOPS];
};
bool tc_val_in(const struct kern *k, const struct val *v, const struct turn *t, int64_t *value);
/* The indices of the CTA of that rank; those of the next one, false: it was the last. */
void tc_position_of(const struct kern *k, int rank, int *position);
bool tc_next_position(const struct kern *k, int *position);
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
struct ref *tc_ref_gather(struct kern *k, const struct ref *r, const struct ref *rows, int gathered,
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
bool tc_dtype_in_registers(enum dtype t); /* fragments of it are possible */

/* ---- print.c: objects and values as text ---- */

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
extern const char *const tc_tmem_layouts[]; /* by enum tmem_layout, then NULL */
/* print_op.c */
const char *tc_op_name(const struct op *op);                             /* "mma", "atomic_add" */
void tc_print_op(struct strbuf *b, struct kern *k, const struct op *op); /* one line */
void tc_print_ops(struct strbuf *b, struct kern *k);                     /* the scope tree */

#endif

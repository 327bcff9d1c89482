/*
 * What a class may do (docs/semantics.md 8, rules a to f).  A refusal names the op, its
 * line, the rule and the nearest form that would run.
 */
#include "classes.h"
#include "mma_shape.h"

#include <stdio.h>
#include <string.h>

struct check {
	struct compilation *c;
	struct class_plan *class;
	const struct op *first_mma;
	const struct op *op; /* looked at */
};

_Noreturn void tc_class_refuse(struct compilation *c, const struct op *op, char rule,
			       const char *why, const char *fit)
{
	tc_fail_at(c->err, op->pos,
		   "tc.%s does not run on %s: %s.\n  There, tensor memory lies in registers of the "
		   "warpgroups that multiply; this is rule (%c) for it.\n  What would fit: %s.",
		   tc_op_name(op), c->target->name, why, rule, fit);
}

_Noreturn static void refuse(const struct check *x, const struct op *op, char rule, const char *why,
			     const char *fit)
{
	tc_class_refuse(x->c, op, rule, why, fit);
}

#define TEXT(...) tc_arena_printf(x->c->arena, __VA_ARGS__)

static const char *line_of(const struct check *x, const struct op *op)
{
	return tc_pos_text(x->c->kern, op->pos);
}

/* ---- (e), (f): the instruction ------------------------------------------------------------ */

static const char *orders(enum dtype t)
{
	return tc_dtypes[t].bits == 16 ? "" : ", stored with K as the last dimension";
}

_Noreturn static void refuse_scales(const struct check *x, const struct op *op)
{
	refuse(x, op, 'f', "wgmma takes no scale factors",
	       "float8 operands without scales, and the scales multiplied into the result");
}

static void check_extras(const struct check *x, const struct op *op)
{
	const struct mma_op *m = &op->u.mma;

	if (m->collective_axis_name)
		refuse(x, op, 'f', "two CTAs cannot share an MMA (collective_axis)",
		       "an mma of each CTA, with its half of B or with all of it");
	if (m->a_scale || m->b_scale)
		refuse_scales(x, op);
}

static void check_types(const struct check *x, const struct op *op)
{
	const struct mma_op *m = &op->u.mma;
	struct mma_shape s;

	tc_mma_describe(m, &s);
	if (tc_mma_row(true, &s))
		return;
	refuse(x, op, 'e',
	       TEXT("wgmma does not multiply %s and %s into %s", tc_dtypes[s.a].name,
		    tc_dtypes[s.b].name, tc_dtypes[s.d].name),
	       "float16 into float32 or float16; bfloat16 or float32 (as tfloat32) into float32; "
	       "float8_e4m3fn and float8_e5m2 into float32 or float16; int8 and uint8 into int32");
}

static void check_order(const struct check *x, const struct op *op, const struct ref *r,
			const char *name, bool k_major)
{
	enum dtype t = r->alloc->dtype;

	if (r->alloc->space != SP_SMEM)
		return;
	if (!k_major && tc_dtypes[t].bits != 16)
		refuse(x, op, 'e',
		       TEXT("%s of %s is stored with K as its first dimension, which wgmma takes "
			    "for 16-bit elements only",
			    name, tc_dtypes[t].name),
		       TEXT("%s%s", name, orders(t)));
	if (r->alloc->atom_32)
		refuse(x, op, 'e', TEXT("%s was allocated with swizzle = \"128B_atom_32B\"", name),
		       "a swizzle of 32, 64 or 128");
	if (!r->alloc->swizzle)
		refuse(x, op, 'e', TEXT("%s was allocated with swizzle = \"none\"", name),
		       "a swizzle of 32, 64 or 128");
}

static void check_shape(const struct check *x, const struct op *op)
{
	const struct mma_op *m = &op->u.mma;
	int64_t rows = m->acc->shape[0].size, n = m->acc->shape[1].size;
	const struct op *first = x->first_mma;
	const struct mma_row *row;
	struct mma_shape s;

	tc_mma_describe(m, &s);
	row = tc_mma_row(true, &s);
	if (rows % 64 || !tc_mma_takes_m(row, false, s.sparse, 64))
		refuse(x, op, 'e', TEXT("M is %lld", (long long)rows), "M = 64, 128, 192 or 256");
	if (!tc_mma_takes_n(row, false, n))
		refuse(x, op, 'e', TEXT("N is %lld", (long long)n),
		       TEXT("a multiple of %d%s", row->n.one, row->n.fine ? ", or 8 or 24" : ""));
	if (rows > 256)
		refuse(x, op, 'c', TEXT("M is %lld", (long long)rows),
		       "at most 256 rows: four warpgroups of 64");
	if (first->u.mma.acc->shape[0].size != rows)
		refuse(x, op, 'e',
		       TEXT("its accumulator has %lld rows, that of %s has %lld", (long long)rows,
			    line_of(x, first), (long long)first->u.mma.acc->shape[0].size),
		       "accumulators of one number of rows, or roles that share no tensor memory");
}

static void check_mma(const struct check *x, const struct op *op)
{
	const struct mma_op *m = &op->u.mma;
	int a_rank = m->a->alloc->rank, b_rank = m->b->alloc->rank;

	check_extras(x, op);
	check_types(x, op);
	check_shape(x, op);
	check_order(x, op, m->a, "a", m->a->axis[1] == a_rank - 1);
	check_order(x, op, m->b, "b", m->b->axis[0] == b_rank - 1);
	if (m->a->alloc->space == SP_TMEM && tc_dtypes[m->a->alloc->dtype].bits > 16)
		refuse(x, op, 'd',
		       TEXT("A in tensor memory is %s", tc_dtypes[m->a->alloc->dtype].name),
		       "elements of 16 or 8 bits");
}

/* ---- (b): where in tensor memory --------------------------------------------------------------
 */

/* Columns of a granule: what four threads side by side hold of a row in whole registers, and of an
 * instruction's. */
static int granule(const struct alloc *a)
{
	int whole = 4 * 32 / tc_dtypes[a->dtype].bits;

	return whole < 8 ? 8 : whole;
}

static void check_columns(const struct check *x, const struct op *op, const struct ref *r)
{
	const struct alloc *a = r->alloc;
	int last = a->rank - 1;
	int64_t column, row;

	if (!tc_val_is_const(r->start[last], &column))
		refuse(x, op, 'b', "the first column of its TMEM slice is a recorded value",
		       "a constant, as in a Lua loop, which unrolls");
	if (column % granule(a) || r->extent[last].size % granule(a))
		refuse(x, op, 'b',
		       TEXT("it uses columns %lld to %lld of tensor memory", (long long)column,
			    (long long)(column + r->extent[last].size - 1)),
		       TEXT("slices of a multiple of %d columns that start at one", granule(a)));
	if (!tc_val_is_const(r->start[last - 1], &row) || row ||
	    r->extent[last - 1].size != 64 * x->class->clones)
		refuse(x, op, 'b', "it uses a part of the rows of its tensor memory",
		       TEXT("all %d rows", 64 * x->class->clones));
}

/* The slot's number: sum of the leading indices; constant or one recorded value. */
static const struct val *slot_of(const struct check *x, const struct op *op, const struct ref *r,
				 int64_t *constant)
{
	const struct alloc *a = r->alloc;
	const struct val *recorded = NULL;

	*constant = 0;
	for (int i = 0; i < a->rank - 2; i++) {
		int64_t index;

		if (r->extent[i].size != 1)
			refuse(x, op, 'b', "it uses several slots of its tensor memory at once",
			       "one slot an op");
		*constant *= a->shape[i].size;
		if (tc_val_is_const(r->start[i], &index))
			*constant += index;
		else if (a->rank == 3)
			recorded = r->start[i];
		else
			refuse(x, op, 'b',
			       "several leading indices of its tensor memory are recorded",
			       "tensor memory of shape (slots, M, N)");
	}
	return recorded;
}

static void check_slot(const struct check *x, const struct op *op, const struct ref *r, bool writes)
{
	struct virtual_tmem *v = tc_class_tmem(x->class, r->alloc);
	int64_t constant;
	const struct val *slot = slot_of(x, op, r, &constant);
	bool overwrites = op->kind != OP_MMA ||
			  (writes && !(op->u.mma.accumulate_const && op->u.mma.accumulate_value) &&
			   (op->u.mma.accumulate_const || op->u.mma.accumulate));

	if (!slot) {
		v->used[constant] = true;
	} else if (!v->accessed) {
		v->slot = slot;
		v->used[0] = true;
		if (!writes || !overwrites)
			refuse(x, op, 'b',
			       "the slot is a recorded index, and what it holds at first comes "
			       "from "
			       "an earlier iteration, when the index was another",
			       "an mma with accumulate = false, or a condition that is false at "
			       "first, before every load of the slot");
	}
	if (v->accessed && slot != v->slot)
		refuse(x, op, 'b',
		       "the slots of its tensor memory are not numbered by one value: they share "
		       "registers where an accumulator's mma and loads all use the same index",
		       "an index that is computed once, in shared code, as t % 2 in a shared loop; "
		       "or constants");
	v->accessed = true;
}

static void check_access(void *arg, const struct op *op)
{
	const struct check *x = arg;
	const struct ref *r;
	bool writes;

	for (int i = 0; (r = tc_class_access(op, i, &writes)); i++) {
		check_columns(x, op, r);
		check_slot(x, op, r, writes);
	}
}

/* ---- (a): waits for what the class does later ---------------------------------------------------
 */

static bool in_common_loop(const struct op *a, const struct op *b)
{
	for (const struct scope *s = b->scope; s; s = s->parent)
		if ((s->kind == SC_RANGE || s->kind == SC_LOOP) && tc_scope_encloses(s, a->scope))
			return true;
	return false;
}

static bool is_conditional(const struct op *op)
{
	for (const struct scope *s = op->scope; s; s = s->parent)
		if (s->kind == SC_THEN || s->kind == SC_ELSE)
			return true;
	return false;
}

struct wait_check {
	const struct check *x;
	const struct op *wait, *later;
	bool earlier;
};

static void look_for_arrival(void *arg, const struct op *op)
{
	struct wait_check *w = arg;
	const struct op *wait = w->wait;
	enum arrival_kind kind;

	if (tc_op_arrives(op, &kind) != wait->u.wait.barrier.barrier)
		return;
	if (op->id < wait->id || (is_conditional(wait) && in_common_loop(op, wait)) ||
	    wait->u.wait.parity)
		w->earlier = true;
	else
		w->later = op;
}

static void check_wait(void *arg, const struct op *op)
{
	const struct check *x = arg;
	struct wait_check w = {.x = x, .wait = op};

	if (op->kind != OP_BARRIER_WAIT)
		return;
	tc_class_walk(x->c, x->class, look_for_arrival, &w);
	if (w.later && !w.earlier)
		refuse(x, op, 'a',
		       TEXT("it waits for the arrival at %s, which the same program makes later: "
			    "roles that share tensor memory run one after the other",
			    line_of(x, w.later)),
		       "a loop over tiles in shared code, around the blocks of the roles, with the "
		       "MMAs' block before that of the loads");
}

/* ---- (d) and everything that is an op's own
 * ------------------------------------------------------ */

static void find_first(void *arg, const struct op *op)
{
	struct check *x = arg;

	if (op->kind == OP_MMA && !x->first_mma)
		x->first_mma = op;
	if (!x->op && tc_class_access(op, 0, &(bool){false}))
		x->op = op;
}

static void check_op(void *arg, const struct op *op)
{
	const struct check *x = arg;

	switch (op->kind) {
	case OP_MMA:
		check_mma(x, op);
		break;
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
		refuse_scales(x, op);
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
		if (tc_dtypes[op->u.tmem_copy.dst->alloc->dtype].bits > 16)
			refuse(x, op, 'd', "elements of 32 bits are not copied into registers",
			       "tc.async_store_tmem(dst, src:load())");
		break;
	default:
		break;
	}
}

void tc_class_check(struct compilation *c, struct class_plan *class)
{
	struct check x = {.c = c, .class = class};
	int64_t rows;

	tc_class_walk(c, class, find_first, &x);
	rows = x.first_mma ? x.first_mma->u.mma.acc->shape[0].size
			   : class->tmem[0].alloc->shape[class->tmem[0].alloc->rank - 2].size;
	class->clones = rows >= 64 && rows <= 256 ? (int)(rows / 64) : 1;
	tc_class_walk(c, class, check_op, &x);
	tc_class_walk(c, class, check_access, &x);
	tc_class_walk(c, class, check_wait, &x);
	class->first = x.first_mma ? x.first_mma : x.op;
}

/*
 * The ops that a role of a CTA runs, in their order: control flow and scalars are computed, all
 * others are handed out.  What a kernel loads from memory is not known.
 */
#include "estimate.h"

static const struct known unknown;

static struct known of(int64_t i)
{
	return (struct known){.i = (int32_t)i, .known = true};
}

/* ---- values -----------------------------------------------------------------------------------
 */

static struct known binary(enum scalar_op op, int64_t a, int64_t b)
{
	switch (op) {
	case SO_ADD:
		return of(a + b);
	case SO_SUB:
		return of(a - b);
	case SO_MUL:
		return of(a * b);
	case SO_FLOORDIV:
		return b ? of(tc_floor_div(a, b)) : unknown;
	case SO_MOD:
		return b ? of(a - b * tc_floor_div(a, b)) : unknown;
	case SO_AND:
	case SO_LAND:
		return of(a & b);
	case SO_OR:
	case SO_LOR:
		return of(a | b);
	case SO_XOR:
		return of(a ^ b);
	case SO_SHL:
		return b >= 0 && b < 32 ? of((int64_t)((uint64_t)a << b)) : unknown;
	case SO_SHR:
		return b >= 0 && b < 32 ? of(a >> b) : unknown;
	case SO_MIN:
		return of(a < b ? a : b);
	case SO_MAX:
		return of(a > b ? a : b);
	case SO_LT:
		return of(a < b);
	case SO_LE:
		return of(a <= b);
	case SO_GT:
		return of(a > b);
	case SO_GE:
		return of(a >= b);
	case SO_EQ:
		return of(a == b);
	case SO_NE:
		return of(a != b);
	default:
		return unknown;
	}
}

static struct known expression(struct walk *w, const struct val *v)
{
	struct known a = tc_walk_value(w, v->arg[0]), b, c;

	if (v->op == SO_SELECT) {
		b = tc_walk_value(w, v->arg[1]);
		c = tc_walk_value(w, v->arg[2]);
		return a.known ? a.i ? b : c : unknown;
	}
	if (!a.known || v->type == VT_F32 || v->arg[0]->type == VT_F32)
		return unknown;
	switch (v->op) {
	case SO_NOT:
		return of(~a.i);
	case SO_NEG:
		return of(-a.i);
	case SO_LNOT:
		return of(!a.i);
	default:
		break;
	}
	if (!v->arg[1])
		return unknown;
	b = tc_walk_value(w, v->arg[1]);
	return b.known ? binary(v->op, a.i, b.i) : unknown;
}

struct known tc_walk_value(struct walk *w, const struct val *v)
{
	if (!v)
		return of(0);
	switch (v->kind) {
	case VAL_CONST:
		return v->type == VT_F32 ? unknown : of(v->i);
	case VAL_AXIS:
		return of(w->axis[v->axis]);
	case VAL_INDEX:
	case VAL_OP:
		return w->leaf[v->id];
	case VAL_DIM:
		return unknown;
	case VAL_EXPR:
		break;
	}
	if (w->memo[v->id].stamp != w->stamp) {
		w->memo[v->id].value = expression(w, v);
		w->memo[v->id].stamp = w->stamp;
	}
	return w->memo[v->id].value;
}

static void set_leaf(struct walk *w, const struct val *v, struct known value)
{
	w->leaf[v->id] = value;
	w->stamp++;
}

/* A value that decides which ops are run. */
static int64_t needed(struct walk *w, const struct val *v, const struct op *o)
{
	struct known value = tc_walk_value(w, v);

	if (!value.known)
		tc_fail_at(w->err, o->pos,
			   "which ops are run depends on a value that only the kernel knows, or on "
			   "a named dimension: %s",
			   tc_val_text(w->kern, v));
	return value.i;
}

/* ---- control flow -----------------------------------------------------------------------------
 */

static struct walk_frame *enter(struct walk *w, const struct scope *s, const struct op *owner)
{
	if (w->depth == (int)(sizeof w->frame / sizeof *w->frame))
		tc_fail(w->err, "more than %d nested blocks", w->depth);
	struct walk_frame *f = &w->frame[w->depth++];
	*f = (struct walk_frame){.scope = s, .next = s->first, .owner = owner};
	return f;
}

static void enter_range(struct walk *w, const struct op *o)
{
	const struct range_op *r = &o->u.range;
	int64_t lo = needed(w, r->lo, o), hi = needed(w, r->hi, o);
	int64_t step = r->step ? needed(w, r->step, o) : 1;

	if (step <= 0 || lo >= hi)
		return;
	struct walk_frame *f = enter(w, r->body, o);
	f->i = lo;
	f->end = hi;
	f->step = step;
	set_leaf(w, r->index, of(lo));
}

/* The frame's scope once more; false: it is left. */
static bool again(struct walk *w, struct walk_frame *f)
{
	if (!f->owner)
		return false;
	if (f->owner->kind == OP_RANGE) {
		f->i += f->step;
		if (f->i >= f->end)
			return false;
		set_leaf(w, f->owner->u.range.index, of(f->i));
	}
	f->next = f->scope->first;
	return true;
}

static void stop(struct walk *w, const struct op *o)
{
	if (!needed(w, o->u.stop.cond, o))
		return;
	while (w->depth && w->frame[w->depth - 1].owner != o->u.stop.loop)
		w->depth--;
	if (w->depth)
		w->depth--;
}

static void when(struct walk *w, const struct op *o)
{
	const struct when_op *x = &o->u.when;
	const struct scope *s = needed(w, x->cond, o) ? x->then : x->otherwise;

	if (s)
		enter(w, s, NULL);
}

static void variable(struct walk *w, const struct op *o)
{
	const struct var_op *x = &o->u.var;

	if (o->kind == OP_VAR_GET) {
		if (x->value)
			set_leaf(w, x->value, w->var[x->var->id]);
		return;
	}
	const struct val *v = o->kind == OP_VAR_NEW ? x->var->init : x->value;
	if (v)
		w->var[x->var->id] = tc_walk_value(w, v);
}

/* True for an op that has been dealt with. */
static bool control(struct walk *w, const struct op *o)
{
	switch (o->kind) {
	case OP_RANGE:
		enter_range(w, o);
		return true;
	case OP_LOOP:
		enter(w, o->u.loop.body, o);
		return true;
	case OP_STOP:
		stop(w, o);
		return true;
	case OP_WHEN:
		when(w, o);
		return true;
	case OP_ROLE:
		if (o->u.role.role == w->role)
			enter(w, o->u.role.body, NULL);
		return true;
	case OP_VAR_NEW:
	case OP_VAR_SET:
	case OP_VAR_GET:
		variable(w, o);
		return true;
	case OP_LOAD_SCALAR:
		set_leaf(w, o->u.load_scalar.result, unknown);
		return false;
	default:
		return false;
	}
}

const struct op *tc_walk_next(struct walk *w)
{
	while (w->depth) {
		struct walk_frame *f = &w->frame[w->depth - 1];
		const struct op *o = f->next;

		if (--*w->steps < 0)
			tc_fail(w->err, "the kernel runs too many ops to follow");
		if (!o) {
			if (!again(w, f))
				w->depth--;
			continue;
		}
		f->next = o->next;
		if (!control(w, o))
			return o;
	}
	return NULL;
}

/* ---- begin ------------------------------------------------------------------------------------
 */

int64_t tc_walk_clusters(const struct kern *k)
{
	int64_t count = 1;

	for (int i = 0; i < k->grid_rank; i++)
		count *= k->grid[i];
	return count;
}

void tc_walk_init(struct walk *w, struct kern *k, struct err *err, struct arena *arena,
		  const struct role *role, int64_t *steps)
{
	*w = (struct walk){.kern = k, .err = err, .role = role, .steps = steps};
	w->leaf = tc_arena_alloc(arena, (size_t)(k->val_count + 1) * sizeof *w->leaf);
	w->memo = tc_arena_alloc(arena, (size_t)(k->val_count + 1) * sizeof *w->memo);
	w->var = tc_arena_alloc(arena, (size_t)(k->vars.count + 1) * sizeof *w->var);
}

static void place_in_grid(const struct kern *k, int64_t cluster, int64_t *axis)
{
	for (int i = k->grid_rank - 1; i >= 0; i--) {
		axis[i] = cluster % k->grid[i];
		cluster /= k->grid[i];
	}
}

void tc_walk_answer(struct walk *w, const struct query_cancel_op *q, int64_t cluster)
{
	int64_t axis[TC_MAX_RANK];

	place_in_grid(w->kern, cluster < 0 ? 0 : cluster, axis);
	for (int i = 0; i < q->count; i++)
		set_leaf(w, q->index[i], of(axis[q->axis[i]]));
	set_leaf(w, q->success, of(cluster >= 0));
}

void tc_walk_begin(struct walk *w, int64_t cluster, int rank)
{
	const struct kern *k = w->kern;

	place_in_grid(k, cluster, w->axis);
	for (int i = k->cluster_rank - 1; i >= 0; i--) {
		w->axis[k->grid_rank + i] = rank % k->cluster[i];
		rank /= (int)k->cluster[i];
	}
	w->stamp++;
	w->depth = 0;
	enter(w, k->root, NULL);
}

int64_t tc_ref_bytes(struct walk *w, const struct ref *r)
{
	int64_t elements = 1;

	for (int i = 0; i < r->rank; i++) {
		if (r->shape[i].size < 0)
			tc_fail(w->err, "dimension '%s' is known only at launch", r->shape[i].name);
		elements *= r->shape[i].size;
	}
	return (elements * tc_dtypes[r->alloc->dtype].bits + 7) / 8;
}

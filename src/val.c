/*
 * Recorded scalars: a graph of expressions over leaves.  Equal expressions are
 * one node; constants are folded with the wrapping s32 arithmetic of the device.
 */
#include "tc.h"

#include <math.h>
#include <string.h>

#define BUCKETS     1024
#define MAX_DIVISOR (1u << 16)
#define MAX_NESTING 400 /* of an expression: the passes recurse over it */

/* ---- nodes --------------------------------------------------------------- */

static uint32_t power_of_two(int64_t i)
{
	uint64_t low = (uint64_t)i & -(uint64_t)i;

	return !low || low > MAX_DIVISOR ? MAX_DIVISOR : (uint32_t)low;
}

static bool same(const struct val *a, const struct val *b)
{
	return a->kind == b->kind && a->type == b->type && a->op == b->op && a->i == b->i &&
	       memcmp(&a->f, &b->f, sizeof a->f) == 0 && a->axis == b->axis &&
	       memcmp(a->arg, b->arg, sizeof a->arg) == 0;
}

/* The node equal to the draft; leaves that an op defines are never shared. */
static struct val *intern(struct kern *k, const struct val *draft)
{
	struct {
		const void *arg[3];
		int kind, type, op, axis;
		int32_t i;
		float f;
	} key;
	struct val **bucket, *v;

	memset(&key, 0, sizeof key);
	memcpy(key.arg, draft->arg, sizeof key.arg);
	key.kind = draft->kind;
	key.type = draft->type;
	key.op = draft->op;
	key.axis = draft->axis;
	key.i = draft->i;
	key.f = draft->f;
	if (!k->val_buckets)
		k->val_buckets = tc_arena_alloc(&k->arena, BUCKETS * sizeof *k->val_buckets);
	bucket = &k->val_buckets[tc_hash(&key, sizeof key, 0) % BUCKETS];
	for (v = *bucket; v; v = v->chain)
		if (same(v, draft))
			return v;
	v = tc_arena_alloc(&k->arena, sizeof *v);
	*v = *draft;
	v->id = k->val_count++;
	v->chain = *bucket;
	return *bucket = v;
}

struct val *tc_val_const(struct kern *k, int32_t i)
{
	struct val draft = {.kind = VAL_CONST, .type = VT_S32, .i = i, .home = k->root};

	draft.divisor = power_of_two(i);
	return intern(k, &draft);
}

struct val *tc_val_float(struct kern *k, float f)
{
	struct val draft = {.kind = VAL_CONST, .type = VT_F32, .f = f, .home = k->root};

	draft.divisor = 1;
	return intern(k, &draft);
}

struct val *tc_val_pred(struct kern *k, bool b)
{
	struct val draft = {.kind = VAL_CONST, .type = VT_PRED, .i = b, .home = k->root};

	draft.divisor = 1;
	return intern(k, &draft);
}

struct val *tc_val_axis(struct kern *k, int axis)
{
	struct val draft = {.kind = VAL_AXIS, .type = VT_S32, .axis = axis, .home = k->root};

	draft.divisor = 1;
	return intern(k, &draft);
}

struct val *tc_val_leaf(struct kern *k, enum val_kind kind, enum val_type type)
{
	struct val *v = tc_arena_alloc(&k->arena, sizeof *v);

	v->id = k->val_count++;
	v->kind = kind;
	v->type = type;
	v->home = k->root;
	v->divisor = 1;
	return v;
}

bool tc_val_is_const(const struct val *v, int64_t *value)
{
	if (v && v->kind != VAL_CONST)
		return false;
	if (value)
		*value = v ? v->i : 0;
	return true;
}

static bool is(const struct val *v, int32_t i)
{
	return v->kind == VAL_CONST && v->type != VT_F32 && v->i == i;
}

/* ---- divisors ------------------------------------------------------------ */

/* All rules hold modulo 2^32, because MAX_DIVISOR divides it. */
static uint32_t expr_divisor(const struct val *e)
{
	const struct val *a = e->arg[0], *b = e->arg[1];
	uint32_t x = a->divisor, y = b ? b->divisor : 1;
	uint32_t low = x < y ? x : y, high = x < y ? y : x;
	int64_t c;

	switch (e->op) {
	case SO_ADD:
	case SO_SUB:
	case SO_MOD: /* a - b * floor(a / b) */
	case SO_OR:
	case SO_XOR:
	case SO_MIN:
	case SO_MAX:
		return low;
	case SO_AND:
		return high;
	case SO_NEG:
		return x;
	case SO_MUL:
		return x > MAX_DIVISOR / y ? MAX_DIVISOR : x * y;
	case SO_SHL:
		if (tc_val_is_const(b, &c) && c >= 0 && c < 32)
			return (uint64_t)x << c > MAX_DIVISOR ? MAX_DIVISOR : x << c;
		return x;
	case SO_SHR:
		return tc_val_is_const(b, &c) && c >= 0 && c < 17 && x >> c ? x >> c : 1;
	case SO_FLOORDIV:
		if (!tc_val_is_const(b, &c) || c <= 0 || c > x || x % (uint32_t)c)
			return 1;
		return x / (uint32_t)c;
	case SO_SELECT:
		return e->arg[1]->divisor < e->arg[2]->divisor ? e->arg[1]->divisor
							       : e->arg[2]->divisor;
	default:
		return 1;
	}
}

int tc_val_divisor(const struct val *v)
{
	return v ? (int)v->divisor : (int)MAX_DIVISOR;
}

/* ---- folding ------------------------------------------------------------- */

static int32_t wrap(int64_t i)
{
	return (int32_t)(uint32_t)(uint64_t)i;
}

int64_t tc_floor_div(int64_t a, int64_t b)
{
	int64_t q = a / b;

	return q - (a % b != 0 && (a < 0) != (b < 0));
}

static struct val *fold_int(struct kern *k, enum scalar_op op, int64_t a, int64_t b)
{
	switch (op) {
	case SO_ADD:
		return tc_val_const(k, wrap(a + b));
	case SO_SUB:
		return tc_val_const(k, wrap(a - b));
	case SO_MUL:
		return tc_val_const(k, wrap(a * b));
	case SO_FLOORDIV:
		return tc_val_const(k, wrap(tc_floor_div(a, b)));
	case SO_MOD:
		return tc_val_const(k, wrap(a - b * tc_floor_div(a, b)));
	case SO_AND:
		return tc_val_const(k, wrap(a & b));
	case SO_OR:
		return tc_val_const(k, wrap(a | b));
	case SO_XOR:
		return tc_val_const(k, wrap(a ^ b));
	case SO_NOT:
		return tc_val_const(k, wrap(~a));
	case SO_NEG:
		return tc_val_const(k, wrap(-a));
	case SO_SHL:
		return tc_val_const(k, b > 31 ? 0 : wrap((int64_t)((uint64_t)a << b)));
	case SO_SHR:
		return tc_val_const(k, wrap(a >> (b > 31 ? 31 : b)));
	case SO_MIN:
		return tc_val_const(k, wrap(a < b ? a : b));
	case SO_MAX:
		return tc_val_const(k, wrap(a > b ? a : b));
	case SO_LT:
		return tc_val_pred(k, a < b);
	case SO_LE:
		return tc_val_pred(k, a <= b);
	case SO_GT:
		return tc_val_pred(k, a > b);
	case SO_GE:
		return tc_val_pred(k, a >= b);
	case SO_EQ:
		return tc_val_pred(k, a == b);
	case SO_NE:
		return tc_val_pred(k, a != b);
	case SO_TO_F32:
		return tc_val_float(k, (float)a);
	default:
		return NULL;
	}
}

static struct val *fold_float(struct kern *k, enum scalar_op op, float a, float b)
{
	switch (op) {
	case SO_ADD:
		return tc_val_float(k, a + b);
	case SO_SUB:
		return tc_val_float(k, a - b);
	case SO_MUL:
		return tc_val_float(k, a * b);
	case SO_DIV:
		return tc_val_float(k, a / b);
	case SO_NEG:
		return tc_val_float(k, -a);
	case SO_MIN:
		return tc_val_float(k, fminf(a, b));
	case SO_MAX:
		return tc_val_float(k, fmaxf(a, b));
	case SO_LT:
		return tc_val_pred(k, a < b);
	case SO_LE:
		return tc_val_pred(k, a <= b);
	case SO_GT:
		return tc_val_pred(k, a > b);
	case SO_GE:
		return tc_val_pred(k, a >= b);
	case SO_EQ:
		return tc_val_pred(k, a == b);
	case SO_NE:
		return tc_val_pred(k, a != b);
	default:
		return NULL;
	}
}

static bool commutes(enum scalar_op op)
{
	return op == SO_ADD || op == SO_MUL || op == SO_AND || op == SO_OR || op == SO_XOR ||
	       op == SO_MIN || op == SO_MAX || op == SO_EQ || op == SO_NE || op == SO_LAND ||
	       op == SO_LOR;
}

/* Identities of s32; b is the constant if there is one. */
static struct val *simplify_int(struct kern *k, enum scalar_op op, struct val *a, struct val *b)
{
	switch (op) {
	case SO_ADD:
	case SO_SUB:
	case SO_OR:
	case SO_XOR:
	case SO_SHL:
	case SO_SHR:
		if (is(b, 0))
			return a;
		if ((op == SO_SUB || op == SO_XOR) && a == b)
			return tc_val_const(k, 0);
		if (op == SO_SUB && b->kind == VAL_CONST)
			return tc_val_expr(k, SO_ADD, a, tc_val_const(k, wrap(-(int64_t)b->i)),
					   NULL);
		if (op == SO_ADD && b->kind == VAL_CONST && a->kind == VAL_EXPR &&
		    a->op == SO_ADD && a->arg[1]->kind == VAL_CONST)
			return tc_val_expr(k, SO_ADD, a->arg[0],
					   tc_val_const(k, wrap((int64_t)a->arg[1]->i + b->i)),
					   NULL);
		return op == SO_OR && a == b ? a : NULL;
	case SO_MUL:
		if (is(b, 1))
			return a;
		if (is(b, 0))
			return b;
		if (b->kind == VAL_CONST && a->kind == VAL_EXPR && a->op == SO_MUL &&
		    a->arg[1]->kind == VAL_CONST)
			return tc_val_expr(k, SO_MUL, a->arg[0],
					   tc_val_const(k, wrap((int64_t)a->arg[1]->i * b->i)),
					   NULL);
		return NULL;
	case SO_FLOORDIV:
		return is(b, 1) ? a : NULL;
	case SO_MOD:
		return is(b, 1) || is(b, -1) ? tc_val_const(k, 0) : NULL;
	case SO_AND:
		return is(b, 0) ? b : is(b, -1) || a == b ? a : NULL;
	case SO_MIN:
	case SO_MAX:
		return a == b ? a : NULL;
	case SO_LT:
	case SO_GT:
	case SO_NE:
		return a == b ? tc_val_pred(k, false) : NULL;
	case SO_LE:
	case SO_GE:
	case SO_EQ:
		return a == b ? tc_val_pred(k, true) : NULL;
	case SO_NOT:
	case SO_NEG:
		return a->kind == VAL_EXPR && a->op == op ? a->arg[0] : NULL;
	default:
		return NULL;
	}
}

static const enum scalar_op opposite[] = {
	[SO_LT] = SO_GE, [SO_LE] = SO_GT, [SO_GT] = SO_LE,
	[SO_GE] = SO_LT, [SO_EQ] = SO_NE, [SO_NE] = SO_EQ,
};

static struct val *simplify_pred(struct kern *k, enum scalar_op op, struct val *a, struct val *b)
{
	if (op == SO_LNOT) {
		if (a->kind == VAL_CONST)
			return tc_val_pred(k, !a->i);
		if (a->kind != VAL_EXPR)
			return NULL;
		if (a->op == SO_LNOT)
			return a->arg[0];
		/* Not for f32: both may be false for NaN. */
		if (a->op >= SO_LT && a->op <= SO_NE && a->arg[0]->type == VT_S32)
			return tc_val_expr(k, opposite[a->op], a->arg[0], a->arg[1], NULL);
		return NULL;
	}
	if (op == SO_LAND)
		return is(b, 1) || a == b ? a : is(b, 0) ? b : NULL;
	if (op == SO_LOR)
		return is(b, 0) || a == b ? a : is(b, 1) ? b : NULL;
	if (op == SO_EQ || op == SO_NE)
		return b->kind != VAL_CONST           ? NULL
		       : (b->i != 0) == (op == SO_EQ) ? a
						      : tc_val_expr(k, SO_LNOT, a, NULL, NULL);
	return NULL;
}

static enum val_type result_type(enum scalar_op op, const struct val *a, const struct val *b)
{
	if (op >= SO_LT && op <= SO_LNOT)
		return VT_PRED;
	if (op == SO_SELECT)
		return b->type;
	return op == SO_TO_F32 ? VT_F32 : op == SO_TO_S32 ? VT_S32 : a->type;
}

static void check_constant_operand(struct kern *k, enum scalar_op op, const struct val *b)
{
	if ((op == SO_FLOORDIV || op == SO_MOD) && is(b, 0))
		tc_fail(&k->err, "division by zero in a recorded expression");
	if ((op == SO_SHL || op == SO_SHR) && b->kind == VAL_CONST && b->i < 0)
		tc_fail(&k->err, "shift by %d bits in a recorded expression: 0 or more expected",
			b->i);
}

static struct val *simplify(struct kern *k, enum scalar_op op, struct val *a, struct val *b,
			    struct val *c)
{
	bool constant = a->kind == VAL_CONST && (!b || b->kind == VAL_CONST);

	if (op == SO_SELECT)
		return a->kind == VAL_CONST ? (a->i ? b : c) : b == c ? b : NULL;
	if (a->type == VT_PRED)
		return simplify_pred(k, op, a, b);
	if (a->type == VT_F32)
		return constant ? fold_float(k, op, a->f, b ? b->f : 0) : NULL;
	return constant ? fold_int(k, op, a->i, b ? b->i : 0) : simplify_int(k, op, a, b);
}

struct val *tc_val_expr(struct kern *k, enum scalar_op op, struct val *a, struct val *b,
			struct val *c)
{
	struct val draft = {.kind = VAL_EXPR, .op = op}, *v, *arg[] = {a, b, c};

	for (int i = 0; i < 3 && arg[i]; i++)
		tc_val_usable(k, arg[i]);
	if (b && commutes(op) && a->kind == VAL_CONST && b->kind != VAL_CONST) {
		v = a;
		a = b;
		b = v;
	}
	if (b)
		check_constant_operand(k, op, b);
	v = simplify(k, op, a, b, c);
	if (v)
		return v;
	draft.arg[0] = a;
	draft.arg[1] = b;
	draft.arg[2] = c;
	draft.type = result_type(op, a, b);
	draft.home = k->root;
	for (int i = 0; i < 3 && draft.arg[i]; i++) {
		const struct val *operand = draft.arg[i];

		if (operand->home->depth > draft.home->depth)
			draft.home = operand->home;
		if (operand->depth >= draft.depth)
			draft.depth = operand->depth + 1;
	}
	if (draft.depth > MAX_NESTING)
		tc_fail(&k->err,
			"a recorded expression of more than %d nested operations: keep the "
			"intermediate value in a tc.var",
			MAX_NESTING);
	draft.divisor = expr_divisor(&draft);
	return intern(k, &draft);
}

struct val *tc_val_to(struct kern *k, struct val *v, enum val_type type)
{
	if (v->type == type)
		return v;
	if (v->type == VT_PRED)
		return type == VT_S32 ? tc_val_expr(k, SO_SELECT, v, tc_val_const(k, 1),
						    tc_val_const(k, 0))
				      : tc_val_expr(k, SO_SELECT, v, tc_val_float(k, 1),
						    tc_val_float(k, 0));
	if (type == VT_PRED)
		return tc_val_expr(k, SO_NE, v,
				   v->type == VT_F32 ? tc_val_float(k, 0) : tc_val_const(k, 0),
				   NULL);
	return tc_val_expr(k, type == VT_F32 ? SO_TO_F32 : SO_TO_S32, v, NULL, NULL);
}

/* ---- visibility ---------------------------------------------------------- */

static const char *scope_text(struct kern *k, const struct scope *s)
{
	static const char *const name[] = {
		[SC_ROOT] = "the kernel",
		[SC_RANGE] = "the tc.range",
		[SC_LOOP] = "the tc.loop",
		[SC_THEN] = "the tc.when",
		[SC_ELSE] = "the else part of the tc.when",
		[SC_ROLE] = "the role block",
	};

	if (!s->owner)
		return name[s->kind];
	return tc_arena_printf(&k->arena, "%s at %s", name[s->kind], tc_pos_text(k, s->owner->pos));
}

static _Noreturn void fail_invisible(struct kern *k, const struct scope *home, const char *what)
{
	const struct role *from = home->role, *to = k->current->role;

	if (from && from != to && (to || home->closed))
		tc_fail(&k->err,
			"%s belongs to role '%s' (%s) and is used in %s%s%s.\n"
			"Roles share no registers: pass it through shared memory, or compute it in "
			"shared code, where every role gets its own copy.",
			what, from->name, scope_text(k, home), to ? "role '" : "shared code",
			to ? to->name : "", to ? "'" : "");
	tc_fail(&k->err,
		"%s is used outside %s, which defines it.\n"
		"To carry a value out of a block, set a tc.var that was made before the block.",
		what, scope_text(k, home));
}

void tc_val_usable(struct kern *k, const struct val *v)
{
	if (!v || (!v->home->closed && tc_scope_encloses(v->home, k->current)))
		return;
	if (v->kind == VAL_INDEX)
		fail_invisible(k, v->home, "the counter of a tc.range");
	fail_invisible(k, v->home, tc_arena_printf(&k->arena, "the value %s", tc_val_text(k, v)));
}

void tc_frag_usable(struct kern *k, const struct frag *f)
{
	if (!f || (!f->home->closed && tc_scope_encloses(f->home, k->current)))
		return;
	fail_invisible(k, f->home,
		       tc_arena_printf(&k->arena, "the fragment %s", tc_frag_text(k, f)));
}

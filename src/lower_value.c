/*
 * Recorded scalars in registers.  An expression has no place in the program; it
 * is computed in the outermost scope of code where its operands are known, and
 * once there: what does not change in a loop stands before the loop.
 */
#include <string.h>

#include "compile.h"

/* ---- scopes of code and what is known in them -------------------------------------- */

/* An operand, or a leaf, as a key. */
struct key {
	int64_t op; /* no padding: keys are compared as bytes */
	int64_t part[6];
};
struct entry {
	struct entry *next;
	struct key key;
	struct mopnd value;
};
enum {
	BUCKETS = 32
};

struct low_scope {
	struct low_scope *parent;
	int depth; /* 0: all roles; 1: a role */
	bool loop;
	struct minst **before; /* where code that stands before this scope goes */
	struct entry *bucket[BUCKETS];
};

static struct low_scope *new_scope(struct low *l, struct low_scope *parent, bool loop)
{
	struct low_scope *s = tc_arena_alloc(l->arena, sizeof(*s));

	s->parent = parent;
	s->depth = parent ? parent->depth + 1 : 0;
	s->loop = loop;
	return s;
}

static void set_scope(struct low *l, struct low_scope *s)
{
	l->scope = s;
	l->depth = s->depth;
}

void tc_low_start(struct low *l)
{
	if (!l->c->kernel_scope) {
		l->c->kernel_scope = new_scope(l, NULL, false);
		l->role_scope = l->c->kernel_scope;
	} else {
		l->role_scope = new_scope(l, l->c->kernel_scope, false);
	}
	set_scope(l, l->role_scope);
}

void tc_low_open(struct low *l, bool loop)
{
	struct low_scope *s = new_scope(l, l->scope, loop);

	s->before = l->at;
	mi_place(l);
	set_scope(l, s);
}

void tc_low_open_beside(struct low *l, const struct low_scope *sibling)
{
	struct low_scope *s = new_scope(l, sibling->parent, sibling->loop);

	s->before = sibling->before;
	set_scope(l, s);
}

void tc_low_close(struct low *l)
{
	set_scope(l, l->scope->parent);
}

/* Code before `inner`, which belongs to the scope around it. */
struct place {
	struct minst **at, ***home;
	struct low_scope *scope;
	bool in_leader;
};

static struct place go(struct low *l, struct minst ***home, struct low_scope *scope)
{
	struct place p = {l->at, home, l->scope, l->in_leader};

	if (home) {
		l->at = *home;
		l->away++;
	}
	set_scope(l, scope);
	return p;
}

static void come_back(struct low *l, struct place p)
{
	if (p.home) {
		*p.home = l->at;
		l->at = p.at;
		l->away--;
	}
	set_scope(l, p.scope);
}

static struct place go_to_kernel(struct low *l)
{
	return go(l, &l->c->kernel_at, l->c->kernel_scope);
}

struct low_place tc_low_at_entry(struct low *l)
{
	struct low_place p = {l->at, l->scope, l->op, l->in_leader};

	l->at = l->entry_at;
	l->away++;
	set_scope(l, l->role_scope);
	l->in_leader = false;
	return p;
}

void tc_low_return(struct low *l, struct low_place p)
{
	l->entry_at = l->at;
	l->at = p.at;
	l->away--;
	set_scope(l, p.scope);
	l->op = p.op;
	l->in_leader = p.in_leader;
}

static unsigned hash(const struct key *k)
{
	return (unsigned)(tc_hash(k, sizeof(*k), 0) % BUCKETS);
}

static const struct mopnd *look_up(struct low *l, const struct key *k, int *depth)
{
	unsigned h = hash(k);

	for (const struct low_scope *s = l->scope; s; s = s->parent)
		for (const struct entry *e = s->bucket[h]; e; e = e->next)
			if (!memcmp(&e->key, k, sizeof(*k))) {
				*depth = s->depth;
				return &e->value;
			}
	return NULL;
}

static const struct mopnd *remember(struct low *l, const struct key *k, struct mopnd value)
{
	struct entry *e = tc_arena_alloc(l->arena, sizeof(*e));
	unsigned h = hash(k);

	e->key = *k;
	e->value = value;
	e->next = l->scope->bucket[h];
	l->scope->bucket[h] = e;
	return &e->value;
}

/* ---- keys ----------------------------------------------------------------------------- */

enum {
	KEY_LEAF = 1000,
	KEY_ADD64,
	KEY_MUL64,
	KEY_SYMBOL,
	KEY_OTHER
};

static void key_part(struct key *k, int i, struct mopnd o)
{
	if (o.kind == MO_REG) {
		k->part[2 * i] = 1 + (int64_t)o.reg.type + (o.reg.name ? 16 : 0);
		k->part[2 * i + 1] = o.reg.id;
	} else {
		k->part[2 * i] = -1 - (int64_t)o.kind;
		k->part[2 * i + 1] = o.imm;
	}
}

static struct key leaf_key(const struct val *v)
{
	struct key k = {.op = KEY_LEAF, .part = {(int64_t)v->kind}};

	k.part[1] = v->kind == VAL_AXIS || v->kind == VAL_DIM ? v->axis : v->id;
	return k;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool may_speculate(const struct val *v, const struct mopnd *a)
{
	return (v->op != SO_FLOORDIV && v->op != SO_MOD) || a[1].kind == MO_IMM;
}

/* Goes where code that needs what is known at `depth` is put. */
static struct place go_out(struct low *l, int depth, bool speculate)
{
	struct low_scope *s = l->scope, *inner = NULL;

	if (depth < 1)
		depth = 1;
	for (; s->depth > depth && s->before && (s->loop || speculate); s = s->parent)
		inner = s;
	return go(l, inner ? &inner->before : NULL, s);
}

static struct mopnd value(struct low *l, const struct val *v, int *depth);

static const struct mopnd *expression(struct low *l, const struct val *v, int *depth)
{
	struct key k = {.op = (int)v->op + 100 * (int)v->arg[0]->type};
	struct mopnd a[3] = {{0}};
	const struct mopnd *known;
	struct place back;
	int need = 0;

	for (int i = 0; i < 3 && v->arg[i]; i++) {
		int d = 0;

		a[i] = value(l, v->arg[i], &d);
		if (a[i].kind != MO_REG && v->arg[i]->type == VT_PRED)
			a[i] = mo_reg(tc_low_pred(l, v->arg[i]));
		key_part(&k, i, a[i]);
		need = d > need ? d : need;
	}
	known = look_up(l, &k, depth);
	if (known)
		return known;
	back = go_out(l, need, may_speculate(v, a));
	*depth = l->scope->depth;
	known = remember(l, &k, mo_reg(tc_low_compute(l, v, a)));
	come_back(l, back);
	return known;
}

/* All of a walk is known at the same place, so a node has one value in it. */
static const struct mopnd *node(struct low *l, const struct val *v, int *depth)
{
	struct walked *w = &l->c->walked[v->id];

	if (w->walk != l->walk) {
		w->value = expression(l, v, &w->depth);
		w->walk = l->walk;
	}
	*depth = w->depth;
	return w->value;
}

static const char *const special_register[2][3] = {
	{"%ctaid.x", "%ctaid.y", "%ctaid.z"},
	{"%clusterid.x", "%clusterid.y", "%clusterid.z"},
};
static const char *const cluster_register[3] = {"%cluster_ctaid.x", "%cluster_ctaid.y",
						"%cluster_ctaid.z"};

/* The last axis is CUDA's x. */
static struct mreg axis_value(struct low *l, const struct val *v)
{
	const struct kern *k = l->c->kern;
	bool cluster = v->axis >= k->grid_rank;
	int axis = cluster ? v->axis - k->grid_rank : v->axis;
	const char *name = cluster ? k->cluster_names[axis] : k->grid_names[axis];
	struct mreg d, x;

	d = name ? mi_named(l, MR_B32, "axis_%s", tc_ptx_identifier(l, name)) : mi_b32(l);
	if (cluster) {
		mi(l, "mov.u32", R(d), T(cluster_register[k->cluster_rank - 1 - axis]));
		return d;
	}
	if (!tc_grid_folded(k)) {
		mi(l, "mov.u32", R(d),
		   T(special_register[k->cluster_rank > 0][k->grid_rank - 1 - axis]));
		return d;
	}
	x = mi_b32(l);
	mi(l, "mov.u32", R(x), T(special_register[k->cluster_rank > 0][0]));
	tc_low_unfold(l, axis, x, d);
	return d;
}

void tc_low_unfold(struct low *l, int axis, struct mreg x, struct mreg d)
{
	const struct kern *k = l->c->kern;
	int64_t after = 1;

	for (int i = axis + 1; i < k->grid_rank; i++)
		after *= k->grid[i];
	if (axis == 0) {
		mi(l, "div.u32", R(d), R(x), I(after));
		return;
	}
	if (after > 1) {
		struct mreg q = mi_b32(l);

		mi(l, "div.u32", R(q), R(x), I(after));
		x = q;
	}
	mi(l, "rem.u32", R(d), R(x), I(k->grid[axis]));
}

static struct mopnd leaf(struct low *l, const struct val *v, int *depth)
{
	struct key k = leaf_key(v);
	const struct mopnd *known = look_up(l, &k, depth);
	struct place back;
	struct mopnd result;

	if (known)
		return *known;
	if (v->kind != VAL_AXIS && v->kind != VAL_DIM)
		tc_fail_internal(l->c->err, "a recorded value is used before its definition");
	/* A parameter finds its place, the kernel's start, by itself. */
	back = v->kind == VAL_AXIS ? go_to_kernel(l) : go(l, NULL, l->c->kernel_scope);
	result = mo_reg(v->kind == VAL_AXIS ? axis_value(l, v) : tc_low_dim_param(l, v->axis));
	remember(l, &k, result);
	come_back(l, back);
	*depth = 0;
	return result;
}

static struct mopnd value(struct low *l, const struct val *v, int *depth)
{
	*depth = 0;
	if (!v)
		return mo_imm(0);
	if (v->kind == VAL_CONST)
		return v->type == VT_F32 ? mo_f32(v->f) : mo_imm(v->i);
	if (v->kind == VAL_EXPR)
		return *node(l, v, depth);
	return leaf(l, v, depth);
}

struct mopnd tc_low_value(struct low *l, const struct val *v)
{
	int depth, outer = l->walk;
	struct mopnd o;

	l->walk = ++l->c->walks;
	o = value(l, v, &depth);
	l->walk = outer;
	return o;
}

struct mreg tc_low_register(struct low *l, const struct val *v)
{
	struct mopnd o = tc_low_value(l, v);
	struct mreg r;

	if (o.kind == MO_REG)
		return o.reg;
	if (v && v->type == VT_PRED)
		return tc_low_pred(l, v);
	r = o.kind == MO_F32 ? mi_f32(l) : mi_b32(l);
	mi(l, o.kind == MO_F32 ? "mov.f32" : "mov.b32", R(r), o);
	return r;
}

struct mreg tc_low_pred(struct low *l, const struct val *v)
{
	struct mopnd o = tc_low_value(l, v);
	struct mreg zero, p;

	if (o.kind == MO_REG)
		return o.reg;
	zero = mi_b32(l);
	p = mi_pred(l);
	mi(l, "mov.b32", R(zero), I(0));
	mi(l, o.imm ? "setp.eq.s32" : "setp.ne.s32", R(p), R(zero), I(0));
	return p;
}

void tc_low_define(struct low *l, const struct val *v, struct mreg r)
{
	struct key k = leaf_key(v);

	/* The register of a counter is older than the scope that it counts in. */
	r.depth = l->depth;
	remember(l, &k, mo_reg(r));
}

/* ---- helpers for address arithmetic ------------------------------------------------------------
 */

static int depth_of(struct mopnd o)
{
	return o.kind == MO_REG ? o.reg.depth : 0;
}

static struct mopnd once(struct low *l, int op, const char *opcode, enum mreg_type type,
			 struct mopnd a, struct mopnd b)
{
	struct key k = {.op = op};
	const struct mopnd *known;
	struct place back;
	struct mreg d;
	int depth, da, db;

	key_part(&k, 0, a);
	key_part(&k, 1, b);
	known = look_up(l, &k, &depth);
	if (known)
		return *known;
	da = depth_of(a);
	db = depth_of(b);
	back = go_out(l, da > db ? da : db, true);
	d = mi_reg(l, type);
	mi(l, opcode, R(d), a, b);
	remember(l, &k, mo_reg(d));
	come_back(l, back);
	return mo_reg(d);
}

struct mopnd tc_low_add(struct low *l, struct mopnd a, struct mopnd b)
{
	if (a.kind == MO_IMM && b.kind == MO_IMM)
		return mo_imm((int32_t)(uint32_t)(a.imm + b.imm));
	if (a.kind == MO_IMM)
		return tc_low_add(l, b, a);
	if (b.kind == MO_IMM && b.imm == 0)
		return a;
	return once(l, SO_ADD, "add.s32", MR_B32, a, b);
}

struct mopnd tc_low_mul(struct low *l, struct mopnd a, int64_t b)
{
	int shift = tc_log2(b);

	if (a.kind == MO_IMM)
		return mo_imm((int32_t)(uint32_t)(a.imm * b));
	if (b == 1)
		return a;
	if (b == 0)
		return mo_imm(0);
	if (shift > 0)
		return once(l, SO_SHL, "shl.b32", MR_B32, a, mo_imm(shift));
	return once(l, SO_MUL, "mul.lo.s32", MR_B32, a, mo_imm(b));
}

struct mopnd tc_low_udiv(struct low *l, struct mopnd a, int64_t b)
{
	int shift = tc_log2(b);

	if (a.kind == MO_IMM)
		return mo_imm(a.imm / b);
	if (b == 1)
		return a;
	if (shift > 0)
		return once(l, KEY_OTHER, "shr.u32", MR_B32, a, mo_imm(shift));
	return once(l, KEY_OTHER + 1, "div.u32", MR_B32, a, mo_imm(b));
}

/* Of a value with a sign. */
struct mopnd tc_low_shift_right(struct low *l, struct mopnd a, int bits)
{
	if (a.kind == MO_IMM)
		return mo_imm(tc_floor_div(a.imm, INT64_C(1) << bits));
	if (bits == 0)
		return a;
	return once(l, KEY_OTHER + 4, "shr.s32", MR_B32, a, mo_imm(bits));
}

/* 64-bit sums and products: operands are b64 registers or immediates. */
struct mopnd tc_low_add64(struct low *l, struct mopnd a, struct mopnd b)
{
	if (a.kind == MO_IMM && b.kind == MO_IMM)
		return mo_imm((int64_t)((uint64_t)a.imm + (uint64_t)b.imm));
	if (a.kind == MO_IMM)
		return tc_low_add64(l, b, a);
	if (b.kind == MO_IMM && b.imm == 0)
		return a;
	return once(l, KEY_ADD64, "add.s64", MR_B64, a, b);
}

struct mopnd tc_low_mul64(struct low *l, struct mopnd a, struct mopnd b)
{
	if (a.kind == MO_IMM && b.kind == MO_IMM)
		return mo_imm((int64_t)((uint64_t)a.imm * (uint64_t)b.imm));
	if (a.kind == MO_IMM)
		return tc_low_mul64(l, b, a);
	if (b.kind == MO_IMM && b.imm == 1)
		return a;
	if (b.kind == MO_IMM && b.imm == 0)
		return mo_imm(0);
	return once(l, KEY_MUL64, "mul.lo.s64", MR_B64, a, b);
}

/* An s32 value times b (b64 register or immediate), as 64 bits. */
struct mopnd tc_low_wide(struct low *l, struct mopnd a, struct mopnd b)
{
	struct key k = {.op = KEY_OTHER + 2};
	const struct mopnd *known;
	struct place back;
	struct mreg d;
	int depth;

	if (a.kind == MO_IMM)
		return tc_low_mul64(l, a, b);
	if (b.kind == MO_IMM && b.imm >= INT32_MIN && b.imm <= INT32_MAX)
		return once(l, KEY_OTHER + 3, "mul.wide.s32", MR_B64, a, b);
	key_part(&k, 0, a);
	known = look_up(l, &k, &depth);
	if (known)
		return tc_low_mul64(l, *known, b);
	back = go_out(l, depth_of(a), true);
	d = mi_b64(l);
	mi(l, "cvt.s64.s32", R(d), a);
	remember(l, &k, mo_reg(d));
	come_back(l, back);
	return tc_low_mul64(l, mo_reg(d), b);
}

struct mopnd tc_low_dim(struct low *l, const struct dim *d)
{
	return d->size >= 0 ? mo_imm(d->size) : tc_low_value(l, d->value);
}

struct mopnd tc_low_and(struct low *l, struct mopnd a, int64_t mask)
{
	if (a.kind == MO_IMM)
		return mo_imm(a.imm & mask);
	return once(l, SO_AND, "and.b32", MR_B32, a, mo_imm(mask));
}

struct mopnd tc_low_xor(struct low *l, struct mopnd a, struct mopnd b)
{
	if (a.kind == MO_IMM && b.kind == MO_IMM)
		return mo_imm(a.imm ^ b.imm);
	if (a.kind == MO_IMM)
		return tc_low_xor(l, b, a);
	if (b.kind == MO_IMM && b.imm == 0)
		return a;
	return once(l, SO_XOR, "xor.b32", MR_B32, a, b);
}

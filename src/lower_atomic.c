/*
 * Atomic updates: red, in vectors where GMEM takes them (floats; PTX 8.1), else element by element,
 * of f16 and bf16 by pairs.  Relaxed: what orders them is the role's barriers, or semaphores.
 */
#include "check_atomic.h"
#include "tile.h"

#include <string.h>

static const char *scope_of(const char *space)
{
	if (strcmp(space, "global") == 0)
		return "gpu";
	return strcmp(space, "shared") == 0 ? "cta" : "cluster";
}

/* "add.noftz.v4.f16x2": `words` registers of 32 bits, or 0 for one element of 16. */
static const char *type_of(struct low *l, const struct atomic_update *u, enum dtype t, int words)
{
	const char *vector = words > 1 ? tc_arena_printf(l->arena, ".v%d", words) : "";

	switch (t) {
	case DT_F32:
		return tc_arena_printf(l->arena, "%s%s.f32", u->ptx, vector);
	case DT_F16:
	case DT_BF16:
		return tc_arena_printf(l->arena, "%s.noftz%s.%s%s", u->ptx, vector,
				       t == DT_F16 ? "f16" : "bf16", words ? "x2" : "");
	default:
		return tc_arena_printf(l->arena, "%s.%s", u->ptx,
				       u->is_bitwise                 ? "b32"
				       : u->is_signed && t == DT_I32 ? "s32"
								     : "u32");
	}
}

const char *tc_atomic_opcode(struct low *l, const struct atomic_update *u, const char *verb,
			     const char *space, enum dtype t, int words)
{
	if (words > 1)
		mi_require(l, 81);
	return tc_arena_printf(l->arena, "%s.relaxed.%s.%s.%s", verb, scope_of(space), space,
			       type_of(l, u, t, words));
}

struct update {
	const struct atomic_update *what;
	enum dtype dtype;
};

static void halves(struct low *l, struct mopnd word, struct mreg half[2])
{
	half[0] = mi_reg(l, MR_B16);
	half[1] = mi_reg(l, MR_B16);
	mi(l, "mov.b32", V(half, 2), R(tc_word_register(l, word)));
}

/* The operand: registers of whole words, or of halves. */
static struct mopnd operand(struct low *l, const struct frag_value *v, const struct tile_access *a,
			    bool narrow)
{
	int per_word = tc_dtype_per_word(v->dtype), first = a->element / per_word;
	struct mreg r[4];

	if (narrow) {
		halves(l, v->word[first], r);
		return a->width == 2 ? V(r, 2) : R(r[a->element % 2]);
	}
	for (int i = 0; i < a->width / per_word; i++)
		r[i] = tc_word_register(l, v->word[first + i]);
	return a->width == per_word ? R(r[0]) : V(r, a->width / per_word);
}

static void update(struct tile *t, struct frag_value *v, const struct tile_access *a, void *arg)
{
	const struct update *x = arg;
	struct low *l = t->l;
	bool pair = a->width == tc_atomic_least(x->what, x->dtype) && a->width == 2;
	bool narrow = pair || a->width < tc_dtype_per_word(v->dtype);
	const char *opcode = tc_atomic_opcode(l, x->what, "red", t->space, x->dtype,
					      narrow ? 0 : a->width / tc_dtype_per_word(v->dtype));
	struct minst *i;

	if (pair) {
		mi_require(l, 81);
		opcode = tc_arena_printf(l->arena, "red.relaxed.gpu.global.%s.noftz.v2.%s",
					 x->what->ptx, x->dtype == DT_F16 ? "f16" : "bf16");
	}
	i = mi(l, opcode, M(a->address, 0), operand(l, v, a, narrow));
	if (a->guard.id)
		mi_guard(i, a->guard, false);
}

void tc_lower_atomic(struct low *l, const struct op *op)
{
	const struct store_op *o = &op->u.store;
	const struct frag_node *n = &tc_frag_plan(l)->node[o->value->id];
	const struct distribution *d = tc_store_distribution(l, op);
	struct update x = {.what = o->atomic, .dtype = o->ref->alloc->dtype};
	bool along[2] = {n->extent[0] > 1, n->extent[1] > 1};
	struct frag_value *v;
	struct tile *t;
	int width, most = tc_atomic_most(o->ref->alloc->space, x.dtype);

	tc_low_all(l);
	v = tc_value_stored(l, o->value, d, n->axis, along);
	tc_frag_order(l, op);
	t = tc_tile_of(l, o->ref, d, along, n->axis);
	t->guard = tc_thread_unique(l, d, along);
	width = tc_tile_width(t, v);
	tc_tile_accesses(t, v, width < most ? width : most, update, &x);
}

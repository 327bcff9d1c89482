/* Fragments as values in registers; the ops that only make or move them. */
#include "frag.h"

#include <string.h>

/* ---- values -------------------------------------------------------------------------- */

int tc_dtype_per_word(enum dtype t)
{
	return t == DT_BOOL || tc_dtypes[t].bits >= 32 ? 1 : 32 / tc_dtypes[t].bits;
}

int tc_value_count(const struct frag_value *v, int axis)
{
	return v->distribution && v->along[axis] ? v->distribution->axis[axis].count : 1;
}

int tc_value_element(const struct frag_value *v, int j0, int j1)
{
	int fast = v->distribution ? v->distribution->fast : 1;
	int j[2] = {v->along[0] ? j0 : 0, v->along[1] ? j1 : 0};

	return j[1 - fast] * tc_value_count(v, fast) + j[fast];
}

int tc_dtype_least(enum dtype t)
{
	return tc_dtypes[t].bits == 4 ? 2 : 1;
}

struct frag_value *tc_value_new(struct low *l, const struct distribution *d, enum dtype t,
				const bool along[2])
{
	struct frag_value *v = tc_arena_alloc(l->arena, sizeof *v);
	int per_word = tc_dtype_per_word(t);

	v->distribution = d;
	v->dtype = t;
	v->ld_epoch = -1;
	v->along[0] = d && along[0];
	v->along[1] = d && along[1];
	v->elements = tc_value_count(v, 0) * tc_value_count(v, 1);
	v->words = (v->elements + per_word - 1) / per_word;
	v->word = tc_arena_alloc(l->arena, sizeof *v->word * (size_t)v->words);
	return v;
}

void tc_value_define(struct low *l, const struct frag *f, struct frag_value *v)
{
	tc_frag_plan(l)->value[f->id] = v;
}

struct frag_value *tc_value_of(struct low *l, const struct frag *f)
{
	struct frag_value *v = tc_frag_plan(l)->value[f->id];

	if (!v)
		tc_fail_internal(l->c->err, "fragment %d is used before it is defined", f->id);
	if (v->ld_epoch >= 0 && v->ld_epoch == l->ld_epoch)
		tc_low_wait_ld(l);
	return v;
}

struct frag_value *tc_value_in(struct low *l, const struct frag *f, const struct distribution *d,
			       int axis)
{
	struct frag_value *v = tc_value_of(l, f);
	const struct frag_node *n = &tc_frag_plan(l)->node[f->id];
	bool turn = f->rank == 1 && axis != n->axis;

	if (!v->distribution || !d || (!v->along[0] && !v->along[1]))
		return v;
	if (!turn && tc_distribution_alike(v->distribution, d, v->along))
		return v;
	return tc_value_convert(l, v, n->extent, d, turn);
}

struct mreg tc_word_register(struct low *l, struct mopnd o)
{
	struct mreg r;

	if (o.kind == MO_REG && !o.negated)
		return o.reg;
	r = mi_b32(l);
	mi(l, "mov.b32", R(r), o);
	return r;
}

/* Eight elements of 4 bits. */
static struct mopnd gather_halves(struct low *l, const struct frag_value *v, const int *source)
{
	struct mopnd x[TC_MOST_PER_WORD];

	for (int i = 0; i < TC_MOST_PER_WORD; i++) {
		struct mreg d = mi_b32(l);

		mi(l, "shr.u32", R(d), R(tc_word_register(l, v->word[source[i] / 8])),
		   I(source[i] % 8 * 4));
		x[i] = R(d);
	}
	return tc_pack_word(l, DT_U4, x, TC_MOST_PER_WORD);
}

/* The word of elements source[0..n-1] of v, low ones first. */
static struct mopnd gather(struct low *l, const struct frag_value *v, const int *source, int n)
{
	int per_word = tc_dtype_per_word(v->dtype);
	bool whole = source[0] % per_word == 0;
	struct mreg d, pair[2];
	struct mopnd a, b;

	for (int i = 1; i < n; i++)
		whole &= source[i] == source[0] + i;
	if (whole)
		return v->word[source[0] / per_word];
	if (per_word == 8)
		return gather_halves(l, v, source);
	d = mi_b32(l);
	if (per_word == 2) {
		a = R(tc_word_register(l, v->word[source[0] / 2]));
		b = R(tc_word_register(l, v->word[source[1] / 2]));
		mi(l, "prmt.b32", R(d), a, b,
		   mo_hex((source[0] % 2 ? 0x32 : 0x10) | (source[1] % 2 ? 0x7600 : 0x5400)));
		return R(d);
	}
	for (int i = 0; i < 2; i++) {
		int s = source[2 * i], t = source[2 * i + 1];

		pair[i] = mi_b32(l);
		a = R(tc_word_register(l, v->word[s / 4]));
		b = R(tc_word_register(l, v->word[t / 4]));
		mi(l, "prmt.b32", R(pair[i]), a, b,
		   mo_hex((unsigned)(s % 4) | (unsigned)(4 + t % 4) << 4));
	}
	mi(l, "prmt.b32", R(d), R(pair[0]), R(pair[1]), mo_hex(0x5410));
	return R(d);
}

struct frag_value *tc_value_spread(struct low *l, struct frag_value *v,
				   const struct distribution *d, const bool along[2])
{
	struct frag_value *w;
	int per_word = tc_dtype_per_word(v->dtype), filled = 0, word = 0;
	int source[TC_MOST_PER_WORD], fast, slow;

	if (!d || (v->distribution && v->along[0] == along[0] && v->along[1] == along[1]))
		return v;
	w = tc_value_new(l, d, v->dtype, along);
	fast = d->fast;
	slow = tc_value_count(w, 1 - fast);
	for (int s = 0; s < slow; s++) {
		for (int f = 0; f < tc_value_count(w, fast); f++) {
			source[filled++] = tc_value_element(v, fast ? s : f, fast ? f : s);
			if (filled < per_word)
				continue;
			w->word[word++] =
				v->distribution ? gather(l, v, source, filled) : v->word[0];
			filled = 0;
		}
	}
	if (filled) {
		for (int i = filled; i < per_word; i++)
			source[i] = source[filled - 1];
		w->word[word] = v->distribution ? gather(l, v, source, per_word) : v->word[0];
	}
	return w;
}

struct frag_value *tc_value_stored(struct low *l, const struct frag *f,
				   const struct distribution *d, int axis, const bool along[2])
{
	struct frag_value *v = tc_value_in(l, f, d, axis), splat;
	struct mopnd word;

	if (!v->distribution) {
		splat = *v;
		word = v->dtype == DT_BOOL ? v->word[0] : R(tc_word_register(l, v->word[0]));
		splat.word = &word;
		v = &splat;
	}
	return tc_value_spread(l, v, d, along);
}

/* ---- the role's entry ------------------------------------------------------------------ */

struct frag_cache {
	struct frag_cache *next;
	void *key;
	size_t size;
	struct mreg reg;
};

struct mreg *tc_entry_register(struct low *l, const void *key, size_t size)
{
	struct frag_plan *p = tc_frag_plan(l);
	struct frag_cache *c;

	for (c = p->cache; c; c = c->next)
		if (c->size == size && memcmp(c->key, key, size) == 0)
			return &c->reg;
	c = tc_arena_alloc(l->arena, sizeof *c);
	c->key = tc_arena_alloc(l->arena, size);
	memcpy(c->key, key, size);
	c->size = size;
	c->next = p->cache;
	p->cache = c;
	return &c->reg;
}

enum entry_kind {
	ENTRY_FIELD,
	ENTRY_INDEX,
	ENTRY_UNIQUE
};

struct field_key {
	enum entry_kind kind;
	struct thread_field field;
};

struct mreg tc_thread_field(struct low *l, const struct thread_field *f)
{
	struct field_key key;
	struct low_place place;
	struct mreg *r, t;

	memset(&key, 0, sizeof key);
	key.kind = ENTRY_FIELD;
	key.field = *f;
	key.field.stride = 0;
	r = tc_entry_register(l, &key, sizeof key);
	if (r->id)
		return *r;
	t = tc_low_thread(l);
	place = tc_low_at_entry(l);
	if (f->shift) {
		struct mreg s = mi_b32(l);

		mi(l, "shr.u32", R(s), R(t), I(f->shift));
		t = s;
	}
	if (f->values << f->shift < l->role->threads * l->role->clones) {
		struct mreg s = mi_b32(l);

		mi(l, "and.b32", R(s), R(t), I(f->values - 1));
		t = s;
	}
	*r = t;
	tc_low_return(l, place);
	return t;
}

struct index_key {
	enum entry_kind kind;
	int count;
	struct thread_field field[MAX_FIELDS];
};

struct mopnd tc_thread_index(struct low *l, const struct distribution *d, int axis)
{
	const struct axis_map *m = &d->axis[axis];
	struct index_key key;
	struct low_place place;
	struct mreg *r, sum = {0}, field[MAX_FIELDS];

	if (m->field_count == 0)
		return I(0);
	memset(&key, 0, sizeof key);
	key.kind = ENTRY_INDEX;
	key.count = m->field_count;
	memcpy(key.field, m->field, sizeof m->field[0] * (size_t)m->field_count);
	r = tc_entry_register(l, &key, sizeof key);
	if (r->id)
		return R(*r);
	for (int i = 0; i < m->field_count; i++)
		field[i] = tc_thread_field(l, &m->field[i]);
	place = tc_low_at_entry(l);
	for (int i = 0; i < m->field_count; i++) {
		struct mreg f = field[i], s;
		int stride = m->field[i].stride;

		if (!sum.id && stride == 1) {
			sum = f;
			continue;
		}
		s = mi_b32(l);
		if (sum.id)
			mi(l, "mad.lo.s32", R(s), R(f), I(stride), R(sum));
		else if (stride & (stride - 1))
			mi(l, "mul.lo.s32", R(s), R(f), I(stride));
		else
			mi(l, "shl.b32", R(s), R(f), I(__builtin_ctz((unsigned)stride)));
		sum = s;
	}
	*r = sum;
	tc_low_return(l, place);
	return R(sum);
}

struct unique_key {
	enum entry_kind kind;
	unsigned bits;
	int replica_shift;
};

struct mreg tc_thread_unique(struct low *l, const struct distribution *d, const bool along[2])
{
	struct unique_key key;
	struct low_place place;
	struct mreg *r, zero;
	unsigned bits = 0;

	/* The bits of the thread that choose nothing must be 0. */
	for (int a = 0; a < 2; a++)
		for (int i = 0; !along[a] && i < d->axis[a].field_count; i++) {
			const struct thread_field *f = &d->axis[a].field[i];

			bits |= f->values << f->shift >= d->threads
					? ~0u << f->shift
					: (unsigned)(f->values - 1) << f->shift;
		}
	if (d->replica.values > 1)
		bits |= ~0u << d->replica.shift;
	if (!bits)
		return (struct mreg){0};
	memset(&key, 0, sizeof key);
	key.kind = ENTRY_UNIQUE;
	key.bits = bits;
	r = tc_entry_register(l, &key, sizeof key);
	if (r->id)
		return *r;
	zero = tc_low_thread(l);
	place = tc_low_at_entry(l);
	if (bits != ~0u) {
		struct mreg t = zero;

		zero = mi_b32(l);
		mi(l, "and.b32", R(zero), R(t), mo_hex(bits));
	}
	*r = mi_pred(l);
	mi(l, "setp.eq.s32", R(*r), R(zero), I(0));
	tc_low_return(l, place);
	return *r;
}

/* ---- full, iota, broadcast --------------------------------------------------------------- */

static struct mopnd constant_word(enum dtype t, double x)
{
	uint64_t bits = tc_from_double(t, x), word = 0;
	int per_word = tc_dtype_per_word(t);

	if (t == DT_F32)
		return mo_f32((float)x);
	if (per_word == 1 && tc_compute_class(t) != 'f')
		return I((int32_t)bits);
	for (int i = 0; i < per_word; i++)
		word |= bits << i * (32 / per_word);
	return mo_hex(word);
}

void tc_lower_full(struct low *l, const struct op *op)
{
	const struct val *x = op->u.full.value;
	enum dtype t = op->u.full.result->dtype;
	struct frag_value *v = tc_value_new(l, NULL, t, (bool[2]){false, false});
	struct mopnd same[TC_MOST_PER_WORD];

	if (t == DT_BOOL) {
		v->word[0] = R(tc_low_pred(l, x));
	} else if (x->kind == VAL_CONST && x->type != VT_PRED) {
		v->word[0] = constant_word(t, x->type == VT_F32 ? x->f : x->i);
	} else {
		char from = x->type == VT_F32 ? 'f' : x->type == VT_PRED ? 'p' : 'i';

		same[0] = tc_convert_class(l, from, tc_compute_class(t),
					   from == 'p' ? R(tc_low_pred(l, x))
						       : R(tc_low_register(l, x)));
		for (int i = 1; i < TC_MOST_PER_WORD; i++)
			same[i] = same[0];
		v->word[0] = tc_pack_word(l, t, same, tc_dtype_per_word(t));
	}
	tc_value_define(l, op->u.full.result, v);
}

void tc_lower_iota(struct low *l, const struct op *op)
{
	const struct frag *f = op->u.iota.result;
	const struct distribution *d = tc_frag_distribution(l, f->id);
	int axis = f->rank == 1 ? tc_frag_plan(l)->node[f->id].axis : op->u.iota.axis;
	struct frag_value *v = tc_value_new(l, d, f->dtype, (bool[2]){axis == 0, axis == 1});
	int per_word = tc_dtype_per_word(f->dtype);
	struct mopnd base, in[4];

	tc_low_all(l);
	if (!d || tc_frag_plan(l)->node[f->id].extent[axis] == 1) {
		v = tc_value_new(l, NULL, f->dtype, (bool[2]){false, false});
		v->word[0] = constant_word(f->dtype, 0);
		tc_value_define(l, f, v);
		return;
	}
	base = tc_thread_index(l, d, axis);
	for (int w = 0; w < v->words; w++) {
		for (int i = 0; i < per_word; i++) {
			int j = w * per_word + i < v->elements ? w * per_word + i : 0;

			in[i] = tc_low_add(l, base, I(tc_axis_offset(&d->axis[axis], j)));
			in[i] = R(tc_word_register(l, in[i]));
			in[i] = tc_convert_class(l, 'i', tc_compute_class(f->dtype), in[i]);
		}
		v->word[w] = tc_pack_word(l, f->dtype, in, per_word);
	}
	tc_value_define(l, f, v);
}

void tc_lower_broadcast(struct low *l, const struct op *op)
{
	const struct frag *result = op->u.broadcast.result;
	const struct distribution *d = tc_frag_distribution(l, result->id);
	struct frag_value *arg, *v;

	tc_low_all(l);
	arg = tc_value_in(l, op->u.broadcast.arg, d, 1 - op->u.broadcast.axis);
	v = tc_arena_alloc(l->arena, sizeof *v);
	*v = *arg;
	if (v->distribution)
		v->distribution = d;
	tc_value_define(l, result, v);
}

/* ---- vars ----------------------------------------------------------------------------------- */

static struct mreg copy_of(struct low *l, struct mreg into, struct mopnd x, enum dtype t)
{
	enum mreg_type type = t == DT_BOOL ? MR_PRED : MR_B32;

	if (!into.id)
		into = mi_reg(l, type);
	mi(l, type == MR_PRED ? "mov.pred" : "mov.b32", R(into), x);
	return into;
}

static void var_assign(struct low *l, struct frag_value *var, const struct frag_node *n,
		       const struct frag *f)
{
	struct frag_value *v = tc_value_in(l, f, var->distribution, n->axis);

	v = tc_value_spread(l, v, var->distribution, var->along);
	for (int i = 0; i < var->words; i++)
		var->word[i] = R(copy_of(l, var->word[i].reg, v->word[i], var->dtype));
}

void tc_lower_frag_var(struct low *l, const struct op *op)
{
	struct frag_plan *p = tc_frag_plan(l);
	const struct var *var = op->u.var.var;
	int id = p->frag_count + var->id;
	const struct frag_node *n = &p->node[id];
	struct frag_value *v;

	tc_low_all(l);
	if (op->kind == OP_VAR_NEW) {
		p->value[id] = tc_value_new(l, tc_frag_distribution(l, id), var->frag->dtype,
					    (bool[2]){n->extent[0] > 1, n->extent[1] > 1});
		var_assign(l, p->value[id], n, var->frag);
	} else if (op->kind == OP_VAR_SET) {
		var_assign(l, p->value[id], n, op->u.var.frag);
	} else {
		v = tc_value_new(l, p->value[id]->distribution, var->frag->dtype,
				 p->value[id]->along);
		for (int i = 0; i < v->words; i++)
			v->word[i] =
				R(copy_of(l, (struct mreg){0}, p->value[id]->word[i], v->dtype));
		tc_value_define(l, op->u.var.frag, v);
	}
}

/*
 * Reductions: first the registers of a thread, then lanes by shuffles, then
 * warps through SMEM scratch.  Narrow types are reduced in 32 bits and rounded
 * once.
 */
#include "frag.h"

#include <math.h>

struct reduction {
	enum reduce_op op;
	char class;
	const char *opcode;
	int axis;
	const struct distribution *d;
	struct mopnd *x; /* one partial result for each register of the other axis */
	int count;
};

static const char *combine_opcode(enum reduce_op op, char class)
{
	static const char *const opcodes[][3] = {
		[RO_SUM] = {"add.rn.f32", "add.s32", "add.u32"},
		[RO_MAX] = {"max.f32", "max.s32", "max.u32"},
		[RO_MIN] = {"min.f32", "min.s32", "min.u32"},
		[RO_ABSMAX] = {"max.f32", "max.s32", "max.u32"},
		[RO_ABSMIN] = {"min.f32", "min.s32", "min.u32"},
	};

	return opcodes[op][class == 'f' ? 0 : class == 'i' ? 1 : 2];
}

/* What padding must count as. */
static struct mopnd identity(enum reduce_op op, char class)
{
	bool greatest = op == RO_MAX || op == RO_ABSMAX;

	if (class == 'f')
		return mo_f32(op == RO_SUM ? 0.0f : greatest ? -INFINITY : INFINITY);
	if (op == RO_SUM)
		return I(0);
	if (class == 'i')
		return I(greatest ? INT32_MIN : INT32_MAX);
	return greatest ? I(0) : mo_hex(UINT32_MAX);
}

/* An element as the reduction takes it. */
static struct mopnd magnitude(struct low *l, enum reduce_op op, char class, struct mopnd x)
{
	struct mreg d;

	if ((op != RO_ABSMAX && op != RO_ABSMIN) || class == 'u')
		return x;
	d = mi_b32(l);
	mi(l, class == 'f' ? "abs.f32" : "abs.s32", R(d), x);
	return R(d);
}

static struct mopnd combine(struct low *l, const struct reduction *r, struct mopnd a,
			    struct mopnd b)
{
	struct mreg d = mi_b32(l);

	mi(l, r->opcode, R(d), a, b);
	return R(d);
}

/* All elements of the value as the reduction takes them, in 32 bits. */
static struct mopnd *elements_of(struct low *l, const struct reduction *r,
				 const struct frag_value *v)
{
	int per_word = tc_dtype_per_word(v->dtype);
	struct mopnd *x = tc_arena_alloc(l->arena, sizeof *x * (size_t)(v->elements + 4));

	for (int i = 0; i < v->elements; i += per_word)
		tc_unpack_word(l, v->dtype, v->word[i / per_word], x + i,
			       v->elements - i < per_word ? v->elements - i : per_word);
	for (int i = 0; i < v->elements; i++)
		x[i] = magnitude(l, r->op, r->class, x[i]);
	return x;
}

/* Pairwise: short dependences and the smaller rounding error. */
static struct mopnd reduce_tree(struct low *l, const struct reduction *r, struct mopnd *x, int n)
{
	while (n > 1) {
		int half = (n + 1) / 2;

		for (int i = 0; i + half < n; i++)
			x[i] = combine(l, r, x[i], x[i + half]);
		n = half;
	}
	return x[0];
}

static void in_thread(struct low *l, struct reduction *r, const struct frag_value *v)
{
	const struct axis_map *m = &r->d->axis[r->axis];
	struct mopnd *element = elements_of(l, r, v);
	struct mopnd *row = tc_arena_alloc(l->arena, sizeof *row * (size_t)m->count);
	bool ragged = tc_axis_limit(m) > m->extent;
	struct mreg *inside = tc_arena_alloc(l->arena, sizeof *inside * (size_t)m->count);

	for (int j = 0; ragged && j < m->count; j++) {
		if (tc_axis_thread_limit(m) + tc_axis_offset(m, j) < m->extent)
			continue;
		inside[j] = mi_pred(l);
		mi(l, "setp.lt.s32", R(inside[j]), tc_thread_index(l, r->d, r->axis),
		   I(m->extent - tc_axis_offset(m, j)));
	}
	for (int o = 0; o < r->count; o++) {
		for (int j = 0; j < m->count; j++) {
			row[j] = element[tc_value_element(v, r->axis ? o : j, r->axis ? j : o)];
			if (inside[j].id) {
				struct mreg d = mi_b32(l);

				mi(l, "selp.b32", R(d), row[j], identity(r->op, r->class),
				   R(inside[j]));
				row[j] = R(d);
			}
		}
		r->x[o] = reduce_tree(l, r, row, m->count);
	}
}

static void across_lanes(struct low *l, struct reduction *r)
{
	const struct axis_map *m = &r->d->axis[r->axis];

	for (int f = 0; f < m->field_count; f++) {
		int end = m->field[f].values << m->field[f].shift;

		for (int bit = 1 << m->field[f].shift; bit < end && bit < 32; bit *= 2) {
			for (int o = 0; o < r->count; o++) {
				struct mreg other = mi_b32(l);

				mi(l, "shfl.sync.bfly.b32", R(other),
				   R(tc_word_register(l, r->x[o])), I(bit), I(31), I(-1));
				r->x[o] = combine(l, r, r->x[o], R(other));
			}
		}
	}
}

/* The part of a field that warps differ in; values 1: none. */
static struct thread_field warp_part(const struct thread_field *f)
{
	struct thread_field w = *f;

	if (w.shift >= 5)
		return w;
	w.values = (w.values << w.shift) / 32;
	w.shift = 5;
	if (w.values < 1)
		w.values = 1;
	return w;
}

/* Which of the `parts` partial results this warp has. */
static struct mopnd part_index(struct low *l, const struct axis_map *m, int *parts)
{
	struct mopnd index = I(0);

	*parts = 1;
	for (int f = 0; f < m->field_count; f++) {
		struct thread_field w = warp_part(&m->field[f]);

		if (w.values == 1)
			continue;
		index = tc_low_add(l, index, tc_low_mul(l, R(tc_thread_field(l, &w)), *parts));
		*parts *= w.values;
	}
	return index;
}

/* One of the lanes that hold the same after the shuffles. */
static struct mreg writer(struct low *l, const struct axis_map *m)
{
	unsigned bits = 0;
	struct mreg lane, masked, p;

	for (int f = 0; f < m->field_count; f++)
		bits |= ((unsigned)m->field[f].values - 1) << m->field[f].shift;
	bits &= 31;
	if (!bits)
		return (struct mreg){0};
	lane = tc_low_lane(l);
	masked = mi_b32(l);
	p = mi_pred(l);
	mi(l, "and.b32", R(masked), R(lane), mo_hex(bits));
	mi(l, "setp.eq.s32", R(p), R(masked), I(0));
	return p;
}

/* A row of scratch has room for a power of two of them: vectors are aligned. */
static struct mopnd read_parts(struct low *l, const struct reduction *r, struct maddr from,
			       int offset, int parts)
{
	struct mopnd x[32];
	int at = 0, step;

	for (; at < parts; at += step) {
		struct mopnd from_part = M(from, offset + 4 * at);
		struct mreg v[4];

		step = parts - at >= 4 ? 4 : parts - at >= 2 ? 2 : 1;
		for (int i = 0; i < step; i++) {
			v[i] = mi_b32(l);
			x[at + i] = R(v[i]);
		}
		if (step == 1)
			mi(l, "ld.shared.b32", R(v[0]), from_part);
		else
			mi(l, step == 4 ? "ld.shared.v4.b32" : "ld.shared.v2.b32", V(v, step),
			   from_part);
	}
	return reduce_tree(l, r, x, parts);
}

/*
 * Scratch holds, for each index of the other axis, the partial results of all
 * warps side by side.
 */
static void across_warps(struct low *l, struct reduction *r)
{
	const struct axis_map *m = &r->d->axis[r->axis], *o = &r->d->axis[1 - r->axis];
	bool slice = r->count > 1 || o->field_count > 0;
	int parts, room = 1;
	struct mopnd part = part_index(l, m, &parts), row = I(0);
	struct maddr write, read;
	struct mreg only;

	if (parts == 1)
		return;
	while (room < parts)
		room *= 2;
	read = tc_low_scratch(l, (int64_t)(slice ? tc_axis_limit(o) : 1) * room * 4);
	if (slice)
		row = tc_low_mul(l, tc_thread_index(l, r->d, 1 - r->axis), room * 4);
	read.reg = tc_low_add(l, R(l->c->smem), row).reg;
	write = read;
	write.reg = tc_low_add(l, R(read.reg), tc_low_mul(l, part, 4)).reg;
	only = writer(l, m);
	tc_low_class_barrier(l);
	for (int i = 0; i < r->count; i++) {
		struct mopnd at = M(write, tc_axis_offset(o, slice ? i : 0) * room * 4);
		struct mopnd x = R(tc_word_register(l, r->x[i]));

		if (only.id)
			mi_if(l, only, "st.shared.b32", at, x);
		else
			mi(l, "st.shared.b32", at, x);
	}
	tc_low_class_barrier(l);
	for (int i = 0; i < r->count; i++)
		r->x[i] =
			read_parts(l, r, read, tc_axis_offset(o, slice ? i : 0) * room * 4, parts);
}

/* tcgen05.ld.red has reduced the elements of the thread that each of them loaded. */
static void from_loads(struct low *l, struct reduction *r, const struct frag_value *v)
{
	struct mopnd *x = tc_arena_alloc(l->arena, sizeof *x * (size_t)v->extremes);

	for (int i = 0; i < v->extremes; i++)
		x[i] = v->extreme_reduced[i] ? v->extreme[i]
					     : magnitude(l, r->op, r->class, v->extreme[i]);
	r->x[0] = reduce_tree(l, r, x, v->extremes);
}

/* A value that is constant along the axis; the sum is n times itself. */
static struct frag_value *reduce_constant(struct low *l, const struct frag_value *v,
					  enum reduce_op op, int extent)
{
	char class = tc_compute_class(v->dtype);
	struct frag_value *w = tc_value_new(l, v->distribution, v->dtype, v->along);
	int per_word = tc_dtype_per_word(v->dtype);
	struct mopnd x[TC_MOST_PER_WORD];

	for (int i = 0; i < v->words; i++) {
		int n = v->elements - i * per_word;

		w->word[i] = v->word[i];
		if (op == RO_MAX || op == RO_MIN)
			continue;
		n = n < per_word ? n : per_word;
		tc_unpack_word(l, v->dtype, v->word[i], x, n);
		for (int e = 0; e < n; e++) {
			struct mreg d;

			x[e] = magnitude(l, op, class, x[e]);
			if (op != RO_SUM)
				continue;
			d = mi_b32(l);
			mi(l, class == 'f' ? "mul.rn.f32" : "mul.lo.s32", R(d), x[e],
			   class == 'f' ? mo_f32((float)extent) : I(extent));
			x[e] = R(d);
		}
		w->word[i] = tc_pack_word(l, v->dtype, x, n);
	}
	return w;
}

static struct frag_value *pack(struct low *l, const struct reduction *r, enum dtype t,
			       const bool along[2])
{
	struct frag_value *w = tc_value_new(l, along[0] || along[1] ? r->d : NULL, t, along);
	int per_word = tc_dtype_per_word(t);

	for (int i = 0; i < r->count; i += per_word)
		w->word[i / per_word] = tc_pack_word(
			l, t, r->x + i, r->count - i < per_word ? r->count - i : per_word);
	return w;
}

void tc_lower_reduce(struct low *l, const struct op *op)
{
	const struct frag_reduce_op *o = &op->u.reduce;
	const struct frag *f = o->arg;
	const struct frag_node *n = &tc_frag_plan(l)->node[f->id];
	int axis = f->rank == 1 ? n->axis : o->axis;
	struct reduction r = {.op = o->op, .axis = axis, .class = tc_compute_class(f->dtype)};
	struct frag_value *v, *w;
	bool along[2];

	tc_low_all(l);
	if (f->dtype == DT_BOOL)
		tc_low_fail(l, "A fragment of bool cannot be reduced: cast it first.");
	v = tc_value_of(l, f);
	if (!v->distribution || !v->along[axis]) {
		int extent = f->rank == 1 ? f->shape[0] : f->rank == 2 ? f->shape[o->axis] : 1;

		tc_value_define(l, o->result, reduce_constant(l, v, o->op, extent));
		return;
	}
	r.d = v->distribution;
	r.opcode = combine_opcode(o->op, r.class);
	r.count = tc_value_count(v, 1 - axis);
	r.x = tc_arena_alloc(l->arena, sizeof *r.x * (size_t)(r.count + 4));
	if (v->extremes && v->extreme_op == o->op && axis == 1)
		from_loads(l, &r, v);
	else
		in_thread(l, &r, v);
	across_lanes(l, &r);
	/* A vector's other axis: every thread along it has the same. */
	if (!v->along[1 - axis]) {
		struct distribution *line = tc_arena_alloc(l->arena, sizeof *line);

		*line = *r.d;
		line->axis[1 - axis] =
			(struct axis_map){.extent = 1, .vector = 1, .step = 1, .count = 1};
		r.d = line;
	}
	across_warps(l, &r);
	along[0] = axis != 0 && v->along[0];
	along[1] = axis != 1 && v->along[1];
	w = pack(l, &r, o->result->dtype, along);
	tc_value_define(l, o->result, w);
}

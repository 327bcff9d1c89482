/*
 * Tiles between registers and memory: SMEM in its swizzled image, GMEM with its
 * bounds, and the scratch through which a value changes its distribution.
 */
#include "frag.h"

#include <string.h>

enum tile_role {
	TILE_NONE,   /* the fragment has no index along this axis */
	TILE_LEAD,   /* an axis before the last two */
	TILE_ROW,    /* of the stored tile */
	TILE_COLUMN, /* contiguous */
};

/* Index tested against a GMEM dimension. */
struct tile_bound {
	bool checked;
	struct mopnd start, dim;
	struct interval range;
	int64_t size; /* -1: named */
};

/* The memory side of one access of a fragment. */
struct tile {
	struct low *l;
	const struct distribution *d;
	const char *space;
	int bits;
	bool along[2];
	enum tile_role role[2];
	int64_t lead_bytes[2];
	int aligned; /* elements that memory's alignment allows at once */
	/* SMEM */
	struct smem_view view;
	struct mreg base; /* of the tile, without its symbol's and its own offset */
	struct mopnd row_start, column_start;
	int64_t row_offset, column_offset;
	/* GMEM */
	bool global;
	struct mreg address;
	struct mopnd stride[2]; /* bytes, 64 bits */
	struct tile_bound bound[2];
	/* guards: of the access, and by register along each axis */
	struct mreg guard;
	struct axis_guards {
		struct mreg *guard;
		bool *known;
	} guards[2];
};

/* ---- what a ref allows ------------------------------------------------------------------ */

static int power_of_two_in(int64_t n, int most)
{
	int p = 1;

	while (p < most && n % (2 * p) == 0)
		p *= 2;
	return p;
}

/* Elements in 16 bytes, or what start and row pitch leave of them. */
static int aligned_elements(const struct ref *r)
{
	const struct alloc *a = r->alloc;
	int last = a->rank - 1, bits = tc_dtypes[a->dtype].bits;
	int n = bits < 8 ? 1 : 128 / bits;
	const struct dim *columns = &a->shape[last];

	n = power_of_two_in(tc_val_divisor(r->start[last]), n);
	if (columns->size < 0)
		return columns->value ? power_of_two_in(tc_val_divisor(columns->value), n) : 1;
	/* A vector of SMEM has no bounds to test and no second row. */
	if (a->space == SP_SMEM && a->rank == 1)
		return n;
	return power_of_two_in(columns->size, n);
}

int tc_ref_vector(const struct ref *r, int *axis)
{
	*axis = r->rank - 1;
	for (int i = 0; i < r->rank; i++) {
		if (r->axis[i] != r->alloc->rank - 1)
			continue;
		*axis = i;
		return aligned_elements(r);
	}
	return 1;
}

/* ---- SMEM ----------------------------------------------------------------------------------- */

/* A first index: constant, a multiple of the swizzle's period, or neither. */
static void place_start(struct tile *t, struct mopnd start, const struct val *v, int period,
			int64_t scale, int64_t *offset, struct mopnd *moving)
{
	*moving = I(0);
	if (start.kind == MO_IMM) {
		*offset = start.imm;
		return;
	}
	*offset = 0;
	if (tc_val_divisor(v) % period != 0) {
		*moving = start;
		return;
	}
	start = tc_low_mul(t->l, tc_low_udiv(t->l, start, period), scale * period);
	t->base = tc_low_add(t->l, R(t->base), start).reg;
}

static void open_smem(struct tile *t, const struct ref *r, int vector_axis)
{
	struct low *l = t->l;
	const struct alloc *a = r->alloc;
	const struct smem_layout *s = &t->view.layout;
	int last = a->rank - 1, panel;

	tc_low_smem_view(l, r, &t->view);
	t->space = "shared";
	t->base = t->view.tile.reg.id ? t->view.tile.reg : l->c->smem;
	for (int i = 0; i < r->rank; i++) {
		int axis = r->rank == 1 ? vector_axis : i;

		if (!t->along[axis])
			continue;
		t->role[axis] = r->axis[i] == last       ? TILE_COLUMN
				: r->axis[i] == last - 1 ? TILE_ROW
							 : TILE_LEAD;
		t->lead_bytes[axis] = tc_axis_stride(a, r->axis[i]) * s->bits / 8;
	}
	if (a->rank >= 2)
		place_start(t, t->view.row, r->start[last - 1], s->swizzle ? 8 : 1, s->row_bytes,
			    &t->row_offset, &t->row_start);
	panel = s->swizzle ? (int)s->panel_columns : 1;
	if (s->swizzle && t->view.column.kind != MO_IMM &&
	    tc_val_divisor(r->start[last]) % panel == 0) {
		struct mopnd p = tc_low_udiv(l, t->view.column, panel);

		t->base = tc_low_add(l, R(t->base), tc_low_mul(l, p, s->panel_bytes)).reg;
		t->column_start = I(0);
	} else {
		t->column_offset = t->view.column.kind == MO_IMM ? t->view.column.imm : 0;
		t->column_start = t->view.column.kind == MO_IMM ? I(0) : t->view.column;
	}
	t->aligned = aligned_elements(r);
}

/* The threads' part of the index along rows or columns; largest value or -1. */
static struct mopnd thread_part(struct tile *t, enum tile_role role, struct mopnd start, int *most)
{
	struct mopnd sum = start;

	*most = start.kind == MO_IMM ? 0 : -1;
	for (int a = 0; a < 2; a++) {
		if (t->role[a] != role)
			continue;
		sum = tc_low_add(t->l, tc_thread_index(t->l, t->d, a), start);
		if (*most == 0)
			*most = tc_axis_thread_limit(&t->d->axis[a]);
	}
	return sum;
}

static struct mreg with_lead(struct tile *t, struct mreg base)
{
	struct mopnd sum = R(base);

	for (int a = 0; a < 2; a++)
		if (t->role[a] == TILE_LEAD)
			sum = tc_low_add(
				t->l,
				tc_low_mul(t->l, tc_thread_index(t->l, t->d, a), t->lead_bytes[a]),
				sum);
	return sum.reg;
}

static struct mreg plain_base(struct tile *t)
{
	const struct smem_layout *s = &t->view.layout;
	struct low *l = t->l;
	int most;
	struct mopnd row = thread_part(t, TILE_ROW, t->row_start, &most);
	struct mopnd column = thread_part(t, TILE_COLUMN, t->column_start, &most);
	struct mopnd offset =
		tc_low_add(l, tc_low_mul(l, row, s->row_bytes), tc_low_mul(l, column, s->bits / 8));

	return tc_low_add(l, offset, R(with_lead(t, t->base))).reg;
}

/*
 * Address of (row, column) = the thread's part + (r, c), 0 <= r < 8 and c within
 * a panel.  The XOR depends on the row modulo 8 alone; bases are aligned to
 * eight rows, so that it may be applied to whole addresses.
 */
static struct mreg swizzled_base(struct tile *t, int r, int c)
{
	const struct smem_layout *s = &t->view.layout;
	struct low *l = t->l;
	int row_most, most, bytes = s->bits / 8, panel = (int)s->panel_columns;
	struct mopnd row = thread_part(t, TILE_ROW, t->row_start, &row_most);
	struct mopnd column = thread_part(t, TILE_COLUMN, t->column_start, &most);
	struct mopnd chunk, offset;
	int mask = 8 - 128 / s->swizzle;

	if (c && most >= 0 && most < (c & -c) && (most | c) < panel)
		return tc_low_xor(l, R(swizzled_base(t, r, 0)), I(c * bytes)).reg;
	row = tc_low_add(l, row, I(r));
	chunk = tc_low_mul(l, tc_low_and(l, row, mask), s->swizzle / 8);
	column = tc_low_add(l, column, I(c));
	offset = tc_low_mul(l, row, s->row_bytes);
	if (most < 0 || most + c >= panel) {
		offset = tc_low_add(l, tc_low_mul(l, tc_low_udiv(l, column, panel), s->panel_bytes),
				    offset);
		column = tc_low_and(l, column, panel - 1);
	}
	chunk = tc_low_xor(l, tc_low_mul(l, column, bytes), chunk);
	offset = tc_low_add(l, offset, chunk);
	return tc_low_add(l, offset, R(with_lead(t, t->base))).reg;
}

static struct maddr smem_address(struct tile *t, const int off[2])
{
	const struct smem_layout *s = &t->view.layout;
	int64_t row = t->row_offset, column = t->column_offset, imm = t->view.tile.offset;
	struct maddr m = {.sym = t->view.tile.sym};

	for (int a = 0; a < 2; a++) {
		if (t->role[a] == TILE_ROW)
			row += off[a];
		else if (t->role[a] == TILE_COLUMN)
			column += off[a];
		else if (t->role[a] == TILE_LEAD)
			imm += off[a] * t->lead_bytes[a];
	}
	if (!s->swizzle) {
		m.reg = plain_base(t);
		m.offset = imm + row * s->row_bytes + column * s->bits / 8;
		return m;
	}
	m.reg = swizzled_base(t, (int)(row % 8), (int)(column % s->panel_columns));
	m.offset =
		imm + (row - row % 8) * s->row_bytes + column / s->panel_columns * s->panel_bytes;
	return m;
}

/* ---- GMEM
 * ---------------------------------------------------------------------------------------- */

static void guard_and(struct low *l, struct mreg *guard, const char *compare, struct mopnd a,
		      struct mopnd b)
{
	struct mreg p = mi_pred(l);

	if (guard->id)
		mi(l, tc_arena_printf(l->arena, "setp.%.2s.and%s", compare, compare + 2), R(p), a,
		   b, R(*guard));
	else
		mi(l, tc_arena_printf(l->arena, "setp.%s", compare), R(p), a, b);
	*guard = p;
}

static struct tile_bound bound_of(struct low *l, const struct ref *r, int axis)
{
	const struct dim *d = &r->alloc->shape[axis];
	struct tile_bound b = {.checked = true, .size = d->size};

	b.start = tc_low_value(l, r->start[axis]);
	b.dim = tc_low_dim(l, d);
	b.range = tc_low_interval(l, r->start[axis]);
	return b;
}

static bool surely_inside(const struct tile_bound *b, int64_t first, int64_t last)
{
	return b->size >= 0 && b->range.known && b->range.low + first >= 0 &&
	       b->range.high + last < b->size;
}

/* An index below zero is a large unsigned one: one comparison tests both ends. */
static void guard_bound(struct low *l, const struct tile_bound *b, struct mopnd index, int off,
			struct mreg *guard)
{
	struct mopnd x = b->start.kind == MO_IMM
				 ? tc_low_add(l, index, I(b->start.imm + off))
				 : tc_low_add(l, tc_low_add(l, b->start, index), I(off));

	guard_and(l, guard, "lt.u32", R(tc_word_register(l, x)), b->dim);
}

static void open_gmem(struct tile *t, const struct ref *r, int vector_axis)
{
	struct low *l = t->l;
	const struct alloc *a = r->alloc;
	struct mopnd address = R(tc_low_gmem_address(l, r));
	bool seen[TC_MAX_RANK] = {false};

	t->space = "global";
	t->global = true;
	for (int i = 0; i < r->rank; i++) {
		int axis = r->rank == 1 ? vector_axis : i;

		if (!t->along[axis])
			continue;
		seen[r->axis[i]] = true;
		t->role[axis] = r->axis[i] == a->rank - 1 ? TILE_COLUMN : TILE_ROW;
		t->stride[axis] = tc_low_mul64(l, tc_low_gmem_stride(l, a, r->axis[i]),
					       I(tc_dtypes[a->dtype].bits / 8));
		t->bound[axis] = bound_of(l, r, r->axis[i]);
		address = tc_low_add64(
			l, address,
			tc_low_wide(l, tc_thread_index(l, t->d, axis), t->stride[axis]));
	}
	for (int i = 0; i < a->rank; i++) {
		struct tile_bound b;

		if (seen[i])
			continue;
		b = bound_of(l, r, i);
		if (!surely_inside(&b, 0, 0))
			guard_bound(l, &b, I(0), 0, &t->guard);
	}
	t->address = address.reg;
	t->aligned = aligned_elements(r);
}

static struct maddr gmem_address(struct tile *t, const int off[2])
{
	struct maddr m = {.reg = t->address};

	for (int a = 0; a < 2; a++) {
		struct mopnd bytes;

		if (t->role[a] == TILE_NONE || !off[a])
			continue;
		bytes = tc_low_mul64(t->l, t->stride[a], I(off[a]));
		if (bytes.kind == MO_IMM && m.offset + bytes.imm <= INT32_MAX)
			m.offset += bytes.imm;
		else
			m.reg = tc_low_add64(t->l, R(m.reg), bytes).reg;
	}
	return m;
}

/* ---- guards
 * -------------------------------------------------------------------------------------- */

/* Tests of register j along an axis, added to the guard. */
static void guard_axis(struct tile *t, int a, int j, struct mreg *guard)
{
	const struct axis_map *m = &t->d->axis[a];
	int off = tc_axis_offset(m, j), most = tc_axis_thread_limit(m) + off;
	struct mopnd index;

	if (!t->along[a])
		return;
	index = tc_thread_index(t->l, t->d, a);
	if (most >= m->extent)
		guard_and(t->l, guard, "lt.s32", R(tc_word_register(t->l, index)),
			  I(m->extent - off));
	if (most >= m->extent)
		most = m->extent - 1;
	if (t->bound[a].checked && !surely_inside(&t->bound[a], off, most))
		guard_bound(t->l, &t->bound[a], index, off, guard);
}

/* A register's guard along an axis, where it does not depend on the other one. */
static struct mreg guard_alone(struct tile *t, int a, int j)
{
	struct axis_guards *g = &t->guards[a];

	if (!g->known[j]) {
		g->known[j] = true;
		g->guard[j] = t->guard;
		guard_axis(t, a, j, &g->guard[j]);
	}
	return g->guard[j];
}

static struct mreg guard_of(struct tile *t, const int j[2])
{
	int fast = t->d->fast, slow = 1 - fast;
	struct mreg guard = guard_alone(t, slow, j[slow]);

	if (guard.id == t->guard.id)
		return guard_alone(t, fast, j[fast]);
	guard_axis(t, fast, j[fast], &guard);
	return guard;
}

/* ---- the access itself ----------------------------------------------------------------------- */

/* Elements one instruction moves: contiguous in memory and in registers, and
 * whole registers, else one. */
static int access_width(const struct tile *t, const struct frag_value *v)
{
	const struct axis_map *m = &t->d->axis[t->d->fast];
	int width, per_word = tc_dtype_per_word(v->dtype);

	if (t->role[t->d->fast] != TILE_COLUMN || !v->along[t->d->fast])
		return 1;
	width = power_of_two_in(m->vector, t->aligned);
	for (int i = 0; i < m->field_count; i++)
		width = power_of_two_in(m->field[i].stride, width);
	if (m->count > m->vector)
		width = power_of_two_in(m->step, width);
	if (width < per_word || m->count % per_word != 0)
		return 1;
	return width;
}

static const char *access_opcode(struct tile *t, const char *verb, int words)
{
	struct arena *a = t->l->arena;

	if (words == 0)
		return tc_arena_printf(a, "%s.%s.u%d", verb, t->space, t->bits);
	if (words == 1)
		return tc_arena_printf(a, "%s.%s.b32", verb, t->space);
	return tc_arena_printf(a, "%s.%s.v%d.b32", verb, t->space, words);
}

static enum dtype raw_dtype(enum dtype t)
{
	int bits = tc_dtypes[t].bits;

	return bits == 32 ? DT_U32 : bits == 16 ? DT_U16 : DT_U8;
}

static void move_words(struct tile *t, bool store, struct maddr m, struct mreg guard,
		       struct mopnd *word, int n)
{
	struct low *l = t->l;
	struct mreg r[4];
	struct minst *i;
	struct mopnd list;

	for (int w = 0; w < n; w++) {
		r[w] = store ? tc_word_register(l, word[w]) : mi_b32(l);
		word[w] = R(r[w]);
		if (!store && guard.id)
			mi(l, "mov.b32", R(r[w]), I(0));
	}
	list = n == 1 ? R(r[0]) : V(r, n);
	if (store)
		i = mi(l, access_opcode(t, "st", n), M(m, 0), list);
	else
		i = mi(l, access_opcode(t, "ld", n), list, M(m, 0));
	if (guard.id)
		mi_guard(i, guard, false);
}

/* One element narrower than a register. */
static void move_element(struct tile *t, bool store, struct maddr m, struct mreg guard,
			 struct mopnd *x)
{
	struct low *l = t->l;
	struct mreg r = store ? tc_word_register(l, *x) : mi_b32(l);
	struct minst *i;

	if (!store && guard.id)
		mi(l, "mov.b32", R(r), I(0));
	if (store)
		i = mi(l, access_opcode(t, "st", 0), M(m, 0), R(r));
	else
		i = mi(l, access_opcode(t, "ld", 0), R(r), M(m, 0));
	if (guard.id)
		mi_guard(i, guard, false);
	*x = R(r);
}

/* The narrow elements of a word that begins at element e. */
static void move_narrow(struct tile *t, bool store, struct maddr m, struct mreg guard,
			struct frag_value *v, int e, struct mopnd *pending)
{
	struct low *l = t->l;
	int per_word = tc_dtype_per_word(v->dtype), at = e % per_word;
	int n = v->elements - (e - at) < per_word ? v->elements - (e - at) : per_word;

	if (v->dtype == DT_BOOL) {
		if (store)
			pending[0] = tc_convert_class(l, 'p', 'i', v->word[e]);
		move_element(t, store, m, guard, &pending[0]);
		if (!store)
			v->word[e] = tc_convert_class(l, 'i', 'p', pending[0]);
		return;
	}
	if (store && at == 0)
		tc_unpack_word(l, raw_dtype(v->dtype), v->word[e / per_word], pending, n);
	move_element(t, store, m, guard, &pending[at]);
	if (!store && at == n - 1)
		v->word[e / per_word] = tc_pack_word(l, raw_dtype(v->dtype), pending, n);
}

static void move_tile(struct tile *t, bool store, struct frag_value *v)
{
	int fast = t->d->fast, per_word = tc_dtype_per_word(v->dtype);
	int width = access_width(t, v), count[2], j[2];
	struct mopnd pending[4];

	for (int a = 0; a < 2; a++) {
		count[a] = tc_value_count(v, a);
		t->guards[a].guard =
			tc_arena_alloc(t->l->arena, sizeof(struct mreg) * (size_t)count[a]);
		t->guards[a].known = tc_arena_alloc(t->l->arena, sizeof(bool) * (size_t)count[a]);
	}
	for (j[1 - fast] = 0; j[1 - fast] < count[1 - fast]; j[1 - fast]++) {
		for (j[fast] = 0; j[fast] < count[fast]; j[fast] += width) {
			int off[2], e = tc_value_element(v, j[0], j[1]);
			struct mreg guard;
			struct maddr m;

			for (int a = 0; a < 2; a++)
				off[a] = v->along[a] ? tc_axis_offset(&t->d->axis[a], j[a]) : 0;
			guard = guard_of(t, j);
			m = t->global ? gmem_address(t, off) : smem_address(t, off);
			if (t->bits == 32 || width > 1)
				move_words(t, store, m, guard, &v->word[e / per_word],
					   width / per_word);
			else
				move_narrow(t, store, m, guard, v, e, pending);
		}
	}
}

static struct tile *new_tile(struct low *l, const struct distribution *d, enum dtype dtype,
			     const bool along[2])
{
	struct tile *t = tc_arena_alloc(l->arena, sizeof *t);

	t->l = l;
	t->d = d;
	t->bits = tc_dtypes[dtype].bits;
	t->along[0] = along[0];
	t->along[1] = along[1];
	t->row_start = t->column_start = I(0);
	t->stride[0] = t->stride[1] = I(0);
	return t;
}

static struct tile *tile_of(struct low *l, const struct ref *r, const struct distribution *d,
			    const bool along[2], int vector_axis)
{
	struct tile *t = new_tile(l, d, r->alloc->dtype, along);

	if (tc_dtypes[r->alloc->dtype].bits < 8)
		tc_low_fail(l,
			    "Tiles of %s cannot be loaded to or stored from registers: its "
			    "elements have no address of their own.",
			    tc_dtypes[r->alloc->dtype].name);
	if (r->cluster_rank)
		tc_low_fail(l, "SMEM of another CTA of the cluster cannot be loaded or stored.");
	if (r->alloc->space == SP_GMEM)
		open_gmem(t, r, vector_axis);
	else
		open_smem(t, r, vector_axis);
	return t;
}

/* ---- ref:load(), ref:store() ---------------------------------------------------------------- */

void tc_lower_load(struct low *l, const struct op *op)
{
	const struct load_op *o = &op->u.load;
	const struct frag_node *n = &tc_frag_plan(l)->node[o->result->id];
	const struct distribution *d = tc_frag_distribution(l, o->result->id);
	bool along[2] = {n->extent[0] > 1, n->extent[1] > 1};
	struct frag_value *v = tc_value_new(l, d, o->result->dtype, along);

	tc_low_all(l);
	tc_frag_order(l, op);
	move_tile(tile_of(l, o->ref, d, along, n->axis), false, v);
	tc_value_define(l, o->result, v);
}

/* Where a splat is stored from: it belongs to no group. */
static const struct distribution *distribution_for(struct low *l, const struct ref *r,
						   const struct frag_node *n)
{
	struct distribution *d = tc_arena_alloc(l->arena, sizeof *d);
	int axis, vector = tc_ref_vector(r, &axis);

	if (r->rank == 1)
		axis = n->axis;
	while (vector > 1 && n->extent[axis] % vector != 0)
		vector /= 2;
	tc_distribution_linear(d, n->extent, l->role->threads, axis, vector, false);
	return d;
}

void tc_lower_store(struct low *l, const struct op *op)
{
	const struct store_op *o = &op->u.store;
	const struct frag_node *n = &tc_frag_plan(l)->node[o->value->id];
	const struct distribution *d = tc_frag_distribution(l, o->value->id);
	bool along[2] = {n->extent[0] > 1, n->extent[1] > 1};
	struct frag_value *v;
	struct tile *t;

	tc_low_all(l);
	if (!d)
		d = distribution_for(l, o->ref, n);
	v = tc_value_stored(l, o->value, d, n->axis, along);
	t = tile_of(l, o->ref, d, along, n->axis);
	t->guard = tc_thread_unique(l, d, along);
	tc_frag_order(l, op);
	move_tile(t, true, v);
}

/* ---- scratch
 * -------------------------------------------------------------------------------------- */

static struct tile *scratch_tile(struct low *l, const struct frag_value *v,
				 const struct distribution *d, const int extent[2], bool transpose)
{
	bool along[2] = {extent[0] > 1, extent[1] > 1};
	int bytes = (tc_dtypes[v->dtype].bits + 7) / 8;
	int64_t row_bytes = ((int64_t)extent[transpose ? 0 : 1] * bytes + 15) / 16 * 16;
	int rows = extent[transpose ? 1 : 0];
	struct tile *t = new_tile(l, d, v->dtype, along);
	struct smem_layout *s = &t->view.layout;

	/* Rows start in different banks. */
	if (rows > 1)
		row_bytes += 16;
	*s = (struct smem_layout){
		.bits = 8 * bytes, .row_bytes = row_bytes, .bytes = rows * row_bytes};
	t->space = "shared";
	t->bits = s->bits;
	t->aligned = 16 / bytes;
	if (along[0])
		t->role[0] = transpose ? TILE_COLUMN : TILE_ROW;
	if (along[1])
		t->role[1] = transpose ? TILE_ROW : TILE_COLUMN;
	t->view.tile = tc_low_scratch(l, s->bytes);
	t->base = l->c->smem;
	return t;
}

struct frag_value *tc_value_convert(struct low *l, struct frag_value *v, const int extent[2],
				    const struct distribution *d, bool transpose)
{
	bool along[2] = {extent[0] > 1, extent[1] > 1};
	int turned[2] = {extent[transpose ? 1 : 0], extent[transpose ? 0 : 1]};
	bool turned_along[2] = {turned[0] > 1, turned[1] > 1};
	struct frag_value *w = tc_value_new(l, d, v->dtype, turned_along);
	struct tile *t;

	v = tc_value_spread(l, v, v->distribution, along);
	t = scratch_tile(l, v, v->distribution, extent, false);
	t->guard = tc_thread_unique(l, v->distribution, along);
	tc_low_role_barrier(l);
	move_tile(t, true, v);
	tc_low_role_barrier(l);
	move_tile(scratch_tile(l, w, d, turned, transpose), false, w);
	return w;
}

struct maddr tc_value_to_scratch(struct low *l, struct frag_value *v, const int extent[2],
				 int64_t *row_bytes)
{
	bool along[2] = {extent[0] > 1, extent[1] > 1};
	struct tile *t = scratch_tile(l, v, v->distribution, extent, false);

	t->guard = tc_thread_unique(l, v->distribution, along);
	tc_low_role_barrier(l);
	move_tile(t, true, v);
	tc_low_role_barrier(l);
	*row_bytes = t->view.layout.row_bytes;
	return t->view.tile;
}

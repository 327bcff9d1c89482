/*
 * Addresses of a tile's elements in SMEM's swizzled image and in GMEM, and the
 * guards of what lies outside.
 */
#include "tile.h"

/* ---- what a ref allows ------------------------------------------------------------------ */

int tc_power_of_two_in(int64_t n, int most)
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
	int n = 128 / bits;
	const struct dim *columns = &a->shape[last];

	n = tc_power_of_two_in(tc_val_divisor(r->start[last]), n);
	if (columns->size < 0)
		return columns->value ? tc_power_of_two_in(tc_val_divisor(columns->value), n) : 1;
	/* A vector of SMEM has no bounds to test and no second row. */
	if (a->space == SP_SMEM && a->rank == 1)
		return n;
	return tc_power_of_two_in(columns->size, n);
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
	struct smem_layout *s = &t->view.layout;
	int last = a->rank - 1, panel;

	tc_low_smem_view(l, r, &t->view);
	s->bits *= t->unit;
	s->columns /= t->unit;
	s->panel_columns /= t->unit;
	t->view.column = tc_low_udiv(l, t->view.column, t->unit);
	t->space = r->cluster_rank ? "shared::cluster" : "shared";
	t->base = t->view.tile.reg.id ? t->view.tile.reg : l->c->smem;
	for (int i = 0; i < r->rank; i++) {
		int axis = r->rank == 1 ? vector_axis : i;

		if (!t->along[axis])
			continue;
		t->role[axis] = r->axis[i] == last       ? TILE_COLUMN
				: r->axis[i] == last - 1 ? TILE_ROW
							 : TILE_LEAD;
		t->lead_bytes[axis] = tc_axis_stride(a, r->axis[i]) / t->unit * s->bits / 8;
	}
	if (a->rank >= 2)
		place_start(t, t->view.row, r->start[last - 1], s->panelled ? 8 : 1, s->row_bytes,
			    &t->row_offset, &t->row_start);
	panel = s->panelled ? (int)s->panel_columns : 1;
	if (s->panelled && t->view.column.kind != MO_IMM &&
	    tc_val_divisor(r->start[last]) % (panel * t->unit) == 0) {
		struct mopnd p = tc_low_udiv(l, t->view.column, panel);

		t->base = tc_low_add(l, R(t->base), tc_low_mul(l, p, s->panel_bytes)).reg;
		t->column_start = I(0);
	} else {
		t->column_offset = t->view.column.kind == MO_IMM ? t->view.column.imm : 0;
		t->column_start = t->view.column.kind == MO_IMM ? I(0) : t->view.column;
	}
	t->aligned = aligned_elements(r) / t->unit;
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
static struct mreg panel_base(struct tile *t, int r, int c)
{
	const struct smem_layout *s = &t->view.layout;
	struct low *l = t->l;
	int row_most, most, bytes = s->bits / 8, panel = (int)s->panel_columns;
	struct mopnd row = thread_part(t, TILE_ROW, t->row_start, &row_most);
	struct mopnd column = thread_part(t, TILE_COLUMN, t->column_start, &most);
	struct mopnd chunk, offset;
	/* Rows that start at the address bits of the XOR: several fill 128 bytes. */
	int mask = s->xor_mask * (int)(128 / s->row_bytes);

	if (c && most >= 0 && most < (c & -c) && (most | c) < panel)
		return tc_low_xor(l, R(panel_base(t, r, 0)), I(c * bytes)).reg;
	row = tc_low_add(l, row, I(r));
	chunk = mask ? tc_low_mul(l, tc_low_and(l, row, mask), s->row_bytes >> (7 - s->xor_shift))
		     : I(0);
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
	if (!s->panelled) {
		m.reg = plain_base(t);
		m.offset = imm + row * s->row_bytes + column * s->bits / 8;
		return m;
	}
	m.reg = panel_base(t, (int)(row % 8), (int)(column % s->panel_columns));
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

/* The last axis counts in units. */
static struct tile_bound bound_of(struct low *l, const struct ref *r, int axis, int unit)
{
	const struct dim *d = &r->alloc->shape[axis];
	struct tile_bound b = {.checked = true, .size = d->size};

	b.start = tc_low_value(l, r->start[axis]);
	b.dim = tc_low_dim(l, d);
	b.range = tc_low_interval(l, r->start[axis]);
	if (unit > 1 && axis == r->alloc->rank - 1) {
		b.start = tc_low_shift_right(l, b.start, tc_log2(unit));
		b.size /= unit;
		b.dim = I(b.size);
		b.range.low = tc_floor_div(b.range.low, unit);
		b.range.high = tc_floor_div(b.range.high, unit);
	}
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
		t->stride[axis] = tc_low_gmem_step(l, a, r->axis[i]);
		t->bound[axis] = bound_of(l, r, r->axis[i], t->unit);
		address = tc_low_add64(
			l, address,
			tc_low_wide(l, tc_thread_index(l, t->d, axis), t->stride[axis]));
	}
	for (int i = 0; i < a->rank; i++) {
		struct tile_bound b;

		if (seen[i])
			continue;
		b = bound_of(l, r, i, t->unit);
		if (!surely_inside(&b, 0, 0))
			guard_bound(l, &b, I(0), 0, &t->guard);
	}
	t->address = address.reg;
	t->aligned = aligned_elements(r) / t->unit;
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

struct mreg tc_tile_guard(struct tile *t, const int j[2])
{
	int fast = t->d->fast, slow = 1 - fast;
	struct mreg guard = guard_alone(t, slow, j[slow]);

	if (guard.id == t->guard.id)
		return guard_alone(t, fast, j[fast]);
	guard_axis(t, fast, j[fast], &guard);
	return guard;
}

/* ---- elements of 4 bits -----------------------------------------------------------------------
 */

static void halve(struct axis_map *m)
{
	m->extent /= 2;
	for (int i = 0; i < m->field_count; i++)
		m->field[i].stride /= 2;
	m->vector /= 2;
	m->step /= 2;
	m->count /= 2;
}

struct frag_value *tc_bytes_of(struct low *l, const struct frag_value *v)
{
	struct distribution *d = tc_arena_alloc(l->arena, sizeof *d);
	struct frag_value *bytes = tc_arena_alloc(l->arena, sizeof *bytes);

	*d = *v->distribution;
	halve(&d->axis[d->fast]);
	*bytes = *v;
	bytes->distribution = d;
	bytes->dtype = DT_U8;
	bytes->elements /= 2;
	return bytes;
}

/* ---- tiles ---------------------------------------------------------------------------------- */

struct maddr tc_tile_address(struct tile *t, const int off[2])
{
	return t->global ? gmem_address(t, off) : smem_address(t, off);
}

struct tile *tc_tile_new(struct low *l, const struct distribution *d, enum dtype dtype,
			 const bool along[2])
{
	struct tile *t = tc_arena_alloc(l->arena, sizeof *t);

	t->l = l;
	t->d = d;
	t->unit = tc_dtype_least(dtype);
	t->bits = tc_dtypes[dtype].bits * t->unit;
	t->along[0] = along[0];
	t->along[1] = along[1];
	t->row_start = t->column_start = I(0);
	t->stride[0] = t->stride[1] = I(0);
	return t;
}

struct tile *tc_tile_of(struct low *l, const struct ref *r, const struct distribution *d,
			const bool along[2], int vector_axis)
{
	struct tile *t = tc_tile_new(l, d, r->alloc->dtype, along);

	if (r->alloc->space == SP_GMEM)
		open_gmem(t, r, vector_axis);
	else
		open_smem(t, r, vector_axis);
	return t;
}

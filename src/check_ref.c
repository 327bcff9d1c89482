/* Views: indices, slices, tiles, transposition. */
#include "compile.h"

/* True when v is surely a multiple of n. */
static bool multiple_of(const struct val *v, int64_t n)
{
	int64_t i;

	if (tc_val_is_const(v, &i))
		return i % n == 0;
	return (n & (n - 1)) == 0 && tc_val_divisor(v) % n == 0;
}

static const char *slice_text(struct kern *k, const struct index *x)
{
	return tc_arena_printf(&k->arena, "ds(%s, %lld)", x->start ? tc_val_text(k, x->start) : "0",
			       (long long)x->size);
}

static const char *start_text(struct kern *k, const struct index *x)
{
	return x->start ? tc_val_text(k, x->start) : "0";
}

/* Only what is constant is checked.  Slices of GMEM may overhang: copies and loads clip them. */
static void check_bounds(struct kern *k, const struct ref *r, const struct index *x, int i)
{
	int64_t start, size = r->shape[i].size;
	bool known = tc_val_is_const(x->start, &start);

	if (!x->is_slice) {
		if (known && (start < 0 || (size >= 0 && start >= size)))
			tc_documented(&k->err, INDEX_BOUNDS, tc_got(k, "the ref", r),
				      tc_integer_text(k, start), tc_integer_text(k, i),
				      tc_shape_text(k, r));
		return;
	}
	if (x->step != 1 && x->step != 0)
		tc_documented(&k->err, SLICE_STRIDE, tc_got(k, "the ref", r),
			      tc_integer_text(k, x->step));
	if (r->alloc->space != SP_GMEM &&
	    (x->size > size || (known && (start < 0 || start + x->size > size))))
		tc_documented(&k->err, SLICE_BOUNDS, tc_got(k, "the ref", r), slice_text(k, x),
			      tc_integer_text(k, i), tc_shape_text(k, r));
}

/* ---- SMEM ----------------------------------------------------------------------------- */

static void check_smem_slice(struct kern *k, const struct ref *r, const struct index *x, int i)
{
	const struct alloc *a = r->alloc;
	struct smem_layout s;
	int axis = r->axis[i];
	int64_t tile;

	tc_smem_layout(a, &s);
	tile = axis == a->rank - 1 ? s.panel_columns : 8;
	if (!s.panelled || axis < a->rank - 2)
		return;
	if (!multiple_of(x->start, tile) || x->size % tile)
		tc_documented(&k->err, SLICE_TILE, tc_got(k, "the ref", r), start_text(k, x),
			      tc_integer_text(k, x->size), tc_integer_text(k, tile));
}

/* ---- TMEM ----------------------------------------------------------------------------- */

/* Column n of the view is column n of the lanes: each row of these has lanes of its own. */
static bool row_is_lane(const struct alloc *a)
{
	return a->layout == TML_DEFAULT || a->layout == TML_HALF_LANE ||
	       a->layout == TML_M64_COLLECTIVE_A;
}

static int64_t column_tile(const struct alloc *a)
{
	switch (a->layout) {
	case TML_DEFAULT:
	case TML_HALF_LANE:
	case TML_M64_COLLECTIVE_A:
		return a->packing;
	case TML_SCALES:
	case TML_B_SCALES_M64_COLLECTIVE:
		return 4;
	case TML_SPARSE_METADATA:
		return 64;
	default:
		return a->shape[a->rank - 1].size;
	}
}

static void check_column_slice(struct kern *k, const struct ref *r, const struct index *x)
{
	const struct alloc *a = r->alloc;
	int64_t tile = column_tile(a);

	if (!multiple_of(x->start, tile) || x->size % tile)
		tc_documented(&k->err, TMEM_COLUMN_SLICE, tc_got(k, "the ref", r));
	if (row_is_lane(a) && !multiple_of(x->start, 8 * a->packing))
		tc_documented(&k->err, TMEM_COLUMN_OFFSET, tc_got(k, "the ref", r),
			      start_text(k, x));
}

/* A leading index moves by the columns of one (rows, columns) plane. */
static void check_plane_offset(struct kern *k, const struct ref *r, const struct index *x, int axis)
{
	const struct alloc *a = r->alloc;
	int64_t plane = 1, start;

	if (!row_is_lane(a) || (tc_val_is_const(x->start, &start) && start == 0))
		return;
	for (int i = axis + 1; i < a->rank; i++)
		if (i != a->rank - 2)
			plane *= a->shape[i].size;
	if (plane % (8 * a->packing))
		tc_documented(&k->err, TMEM_COLUMN_OFFSET, tc_got(k, "the ref", r),
			      tc_arena_printf(&k->arena, "%s * %lld", start_text(k, x),
					      (long long)plane));
}

static bool is_full(const struct ref *r, const struct index *x, int i)
{
	int64_t start;

	return x->is_all ||
	       (tc_val_is_const(x->start, &start) && start == 0 && x->size == r->shape[i].size);
}

static void check_tmem_index(struct kern *k, const struct ref *r, const struct index *index,
			     int count)
{
	const struct alloc *a = r->alloc;
	int rows = r->rank - 2;

	for (int i = 0; i < count && i < rows; i++)
		if (index[i].is_slice && !index[i].is_all)
			tc_documented(&k->err, TMEM_BATCH_SLICE, tc_got(k, "the ref", r));
		else if (!index[i].is_slice)
			check_plane_offset(k, r, &index[i], r->axis[i]);
	for (int i = rows; i < count; i++)
		if (!index[i].is_slice)
			tc_documented(&k->err, TMEM_INDEXED, tc_got(k, "the ref", r));
	if (rows < count && !is_full(r, &index[rows], rows))
		tc_documented(&k->err, TMEM_ROW_SLICE, tc_got(k, "the ref", r));
	if (rows + 1 < count && !is_full(r, &index[rows + 1], rows + 1)) {
		if (a->layout == TML_DEFAULT && a->shape[a->rank - 2].size > 128 &&
		    tc_lanes_have_halves(k))
			tc_documented(&k->err, TMEM_ROW_TILES, tc_got(k, "the ref", r));
		check_column_slice(k, r, &index[rows + 1]);
	}
}

/* ---- entry points ------------------------------------------------------------------------ */

void tc_check_index(struct kern *k, const struct ref *r, const struct index *index, int count)
{
	if (count > r->rank) {
		if (r->alloc->space == SP_TMEM)
			tc_documented(&k->err, TMEM_INDEXER_RANK, tc_got(k, "the ref", r),
				      tc_integer_text(k, r->rank), tc_integer_text(k, count));
		return; /* the caller says so */
	}
	for (int i = 0; i < count; i++) {
		if (index[i].start && index[i].start->type != VT_S32)
			tc_documented(&k->err, INDEX_TYPE, tc_got(k, "the ref", r),
				      index[i].start->type == VT_F32 ? "recorded float"
								     : "recorded condition");
		if (!index[i].is_all)
			check_bounds(k, r, &index[i], i);
	}
	if (r->alloc->space == SP_TMEM)
		check_tmem_index(k, r, index, count);
	for (int i = 0; i < count && r->alloc->space == SP_SMEM; i++)
		if (index[i].is_slice && !index[i].is_all)
			check_smem_slice(k, r, &index[i], i);
}

void tc_check_tile(struct kern *k, const struct ref *r)
{
	if (r->alloc->space == SP_TMEM)
		tc_documented(&k->err, ONLY_WORKGROUP_MEMORY, "", tc_ref_text(k, r));
}

static const char *permutation_text(struct kern *k, int rank)
{
	const char *text = "(";

	for (int i = 0; i < rank; i++) {
		int from = i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i;

		text = tc_arena_printf(&k->arena, "%s%s%d", text, i ? ", " : "", from);
	}
	return tc_join(k, text, ")");
}

void tc_check_transpose(struct kern *k, const struct ref *r)
{
	const struct alloc *a = r->alloc;

	if (a->space == SP_TMEM)
		tc_documented(&k->err, TMEM_TRANSPOSE, tc_got(k, "the ref", r));
	if (!a->tiling_given || r->rank < 2)
		return;
	if (a->tiling_rank == 1)
		tc_documented(&k->err, TILING_TRANSPOSE, tc_got(k, "the ref", r),
			      permutation_text(k, r->rank),
			      tc_arena_printf(&k->arena, "(%lld,)", (long long)a->tiling[0]));
	if (a->tiling_rank == 0 && a->swizzle)
		tc_documented(&k->err, SWIZZLE_TRANSPOSE, tc_got(k, "the ref", r));
}

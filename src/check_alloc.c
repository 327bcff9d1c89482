/* Allocations: TMEM layout, packing and columns; SMEM swizzle; unions. */
#include "compile.h"

#include <string.h>

static const char *dims_text(struct kern *k, const struct alloc *a)
{
	struct strbuf b = {.arena = &k->arena};
	const char *text;

	tc_print_shape(&b, a->shape, a->rank);
	text = tc_arena_strdup(&k->arena, b.text ? b.text : "()");
	tc_strbuf_free(&b);
	return text;
}

static const char *numbers_text(struct kern *k, const int64_t *n, int rank)
{
	struct dim d[2 * TC_MAX_RANK] = {{0}};
	struct strbuf b = {.arena = &k->arena};
	const char *text;

	for (int i = 0; i < rank; i++)
		d[i].size = n[i];
	tc_print_shape(&b, d, rank);
	text = tc_arena_strdup(&k->arena, b.text ? b.text : "()");
	tc_strbuf_free(&b);
	return text;
}

/* Beyond what any memory holds, but far from an overflow of the products. */
#define MAX_ELEMENTS (INT64_C(1) << 31)

static void check_dimensions(struct kern *k, const struct alloc *a)
{
	const char *space = a->space == SP_SMEM ? "SMEM" : "TMEM";
	int64_t elements = 1;

	for (int i = 0; i < a->rank; i++) {
		if (a->shape[i].size > MAX_ELEMENTS / elements)
			tc_documented(&k->err, ALLOC_TOO_LARGE, "", space, dims_text(k, a));
		elements *= a->shape[i].size;
	}
}

/* ---- SMEM ------------------------------------------------------------------------- */

/* Rows of a core matrix, of which panels are made. */
#define CORE_ROWS 8

static int64_t swizzle_span(const struct alloc *a, int swizzle)
{
	return 8 * swizzle / tc_stored_bits(a);
}

/* Columns of a tile: the whole row, unless the tiling cuts it. */
static int64_t tile_columns(const struct alloc *a)
{
	if (a->tiling_rank)
		return a->tiling[a->tiling_rank - 1];
	return a->rank ? a->shape[a->rank - 1].size : 1;
}

/* Panels are core matrices one above the other, and so are the tiles they fall into. */
static bool tiles_are_panels(const struct alloc *a)
{
	return a->tiling_rank < 2 || a->tiling[a->tiling_rank - 2] % CORE_ROWS == 0;
}

static bool swizzle_fits(const struct alloc *a, int swizzle)
{
	int64_t span = swizzle_span(a, swizzle);

	return a->rank >= 2 && a->shape[a->rank - 2].size % CORE_ROWS == 0 &&
	       a->shape[a->rank - 1].size % span == 0 &&
	       (!a->tiling_given || (tile_columns(a) == span && tiles_are_panels(a)));
}

static void choose_swizzle(struct alloc *a)
{
	a->swizzle = 0;
	for (int w = 128; w >= 32 && !a->swizzle; w /= 2)
		if (swizzle_fits(a, w))
			a->swizzle = w;
}

static void check_swizzle(struct kern *k, const struct alloc *a)
{
	int64_t span = swizzle_span(a, a->swizzle);

	if (a->rank < 2)
		tc_documented(&k->err, SMEM_RANK, "", dims_text(k, a));
	if (a->shape[a->rank - 1].size % span)
		tc_documented(&k->err, SWIZZLE_SPAN, "", tc_integer_text(k, a->swizzle),
			      tc_integer_text(k, span), dims_text(k, a));
}

static void check_tile_span(struct kern *k, const struct alloc *a)
{
	int64_t tiled[2 * TC_MAX_RANK], span = swizzle_span(a, a->swizzle);
	int outer = a->rank - a->tiling_rank, count = 0;

	if (tile_columns(a) == span)
		return;
	for (int i = 0; i < a->rank; i++)
		tiled[count++] =
			i < outer ? a->shape[i].size : a->shape[i].size / a->tiling[i - outer];
	for (int i = 0; i < a->tiling_rank; i++)
		tiled[count++] = a->tiling[i];
	tc_documented(&k->err, SWIZZLE_SPAN, "", tc_integer_text(k, a->swizzle),
		      tc_integer_text(k, span), numbers_text(k, tiled, count));
}

/* Tiles are pieces of the panels that there are, or of a plain array whole rows. */
static bool tiling_applies(const struct alloc *a)
{
	struct smem_layout s;

	tc_smem_layout(a, &s);
	if (s.panelled)
		return tiles_are_panels(a);
	return a->rank < 2 || tile_columns(a) == a->shape[a->rank - 1].size;
}

/* An explicit tiling has to be what the swizzle wants; without one, the tiles are chosen. */
static void check_tiling(struct kern *k, const struct alloc *a)
{
	int outer = a->rank - a->tiling_rank;

	if (outer < 0)
		tc_documented(&k->err, TILING_RANK, "", numbers_text(k, a->tiling, a->tiling_rank),
			      tc_integer_text(k, a->tiling_rank), dims_text(k, a),
			      tc_integer_text(k, a->rank));
	for (int i = 0; i < a->tiling_rank; i++)
		if (a->tiling[i] < 1 || a->shape[outer + i].size % a->tiling[i])
			tc_documented(&k->err, TILING_DIVIDES, "", dims_text(k, a),
				      numbers_text(k, a->tiling, a->tiling_rank));
	if (a->swizzle)
		check_tile_span(k, a);
	if (!tiling_applies(a))
		tc_documented(&k->err, TILING_APPLIES, "",
			      numbers_text(k, a->tiling, a->tiling_rank),
			      a->swizzle ? tc_integer_text(k, a->swizzle) : "no swizzle",
			      dims_text(k, a));
}

/* Panels begin at multiples of 128 bytes. */
static void check_panel_rows(struct kern *k, const struct alloc *a)
{
	struct smem_layout s;

	tc_smem_layout(a, &s);
	if (s.panelled && s.rows % CORE_ROWS)
		tc_documented(&k->err, SMEM_ROWS, "", dims_text(k, a));
}

static void check_smem(struct kern *k, struct alloc *a)
{
	check_dimensions(k, a);
	if (!a->swizzle_given)
		choose_swizzle(a);
	if (a->swizzle && a->swizzle != 32 && a->swizzle != 64 && a->swizzle != 128)
		tc_documented(&k->err, SWIZZLE, "", tc_integer_text(k, a->swizzle));
	if (a->tiling_given)
		check_tiling(k, a);
	if (a->swizzle)
		check_swizzle(k, a);
	check_panel_rows(k, a);
}

/* ---- TMEM -------------------------------------------------------------------------- */

static bool power_of_two(int64_t n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

/* Leading dimensions are further columns: (b, m, n) is m rows of b * n. */
static int64_t tmem_columns(const struct alloc *a)
{
	int64_t columns = 1;

	for (int i = 0; i < a->rank; i++)
		if (i != a->rank - 2)
			columns *= a->shape[i].size;
	return columns;
}

/* 64 rows: the steps of N of the instruction, twice that where halves of N lie one above the other.
 */
static void check_half_columns(struct kern *k, enum tmem_layout layout, int64_t columns)
{
	if (layout == TML_M64_COLLECTIVE && columns % 16)
		tc_documented(&k->err, TMEM_COLUMNS_16, "", tc_integer_text(k, columns));
	if (layout == TML_HALF_LANE && columns % 8)
		tc_documented(&k->err, TMEM_COLUMNS_8, "", tc_integer_text(k, columns));
}

/* No layout given: by the rows, as Pallas infers it. */
static void infer_layout(struct kern *k, struct alloc *a, int64_t rows, int64_t columns)
{
	a->packing = a->packed || a->padded ? 32 / tc_stored_bits(a) : 1;
	if (a->packing > 8 || !power_of_two(a->packing))
		tc_documented(&k->err, TMEM_PACKING, "", tc_integer_text(k, a->packing));
	if (columns % a->packing)
		tc_documented(&k->err, TMEM_MINOR, "", dims_text(k, a));
	if (rows == 128) {
		a->layout = TML_DEFAULT;
	} else if (rows == 64) {
		a->layout = a->collective ? TML_M64_COLLECTIVE : TML_HALF_LANE;
		if (a->packing > columns / 2)
			tc_documented(&k->err, TMEM_PACKING, "", tc_integer_text(k, a->packing));
		if (tc_lanes_have_halves(k))
			check_half_columns(k, a->layout, columns);
	} else if (rows % 64 == 0 && rows <= 256 && !tc_lanes_have_halves(k)) {
		a->layout = TML_DEFAULT;
	} else {
		tc_documented(&k->err, TMEM_ROWS, "", dims_text(k, a), tc_integer_text(k, rows));
	}
}

struct layout_tile {
	int64_t rows, columns; /* 0: all */
	int packing;           /* 0: as many as fill 32 bits */
};

static const struct layout_tile tiles[] = {
	[TML_DEFAULT] = {128, 1, 1},
	[TML_HALF_LANE] = {64, 0, 1},
	[TML_M64_COLLECTIVE] = {64, 0, 1},
	[TML_M64_COLLECTIVE_A] = {64, 1, 0},
	[TML_SCALES] = {128, 4, 4},
	[TML_B_SCALES_M64_COLLECTIVE] = {256, 4, 4},
	[TML_SPARSE_METADATA] = {128, 64, 16},
};

static void check_layout(struct kern *k, struct alloc *a, int64_t rows, int64_t columns)
{
	const struct layout_tile *t = &tiles[a->layout];
	int64_t width = t->columns ? t->columns : columns;
	int bits = tc_dtypes[a->dtype].bits;

	a->packing = t->packing ? t->packing : 32 / tc_stored_bits(a);
	if (!t->packing && (a->packing > 8 || !power_of_two(a->packing)))
		tc_documented(&k->err, TMEM_PACKING, "", tc_integer_text(k, a->packing));
	if (!t->columns)
		check_half_columns(k, a->layout, columns);
	if (rows % t->rows || columns % width)
		tc_documented(&k->err, TMEM_TILES, "", dims_text(k, a),
			      tc_pair_text(k, t->rows, width));
	if (!t->packing && columns % a->packing)
		tc_documented(&k->err, TMEM_MINOR, "", dims_text(k, a));
	if (t->packing > 1 && a->packing * bits != 32)
		tc_documented(&k->err, TMEM_VECTOR, "", tc_integer_text(k, bits),
			      tc_integer_text(k, 32 / bits), tc_integer_text(k, a->packing));
}

/* An accumulator of 64 rows leaves half of its lanes unused. */
int64_t tc_tmem_columns(const struct alloc *a, int64_t rows, int64_t columns)
{
	switch (a->layout) {
	case TML_M64_COLLECTIVE:
		return rows / 64 * (columns / 2 / a->packing);
	case TML_M64_COLLECTIVE_A:
		return rows / 64 * (columns / a->packing);
	case TML_SCALES:
		return rows * columns / 128;
	case TML_B_SCALES_M64_COLLECTIVE:
		return rows * columns / 256;
	case TML_SPARSE_METADATA:
		return rows / 128 * (columns / 16);
	default:
		return (rows + 127) / 128 * (columns / a->packing);
	}
}

static void check_tmem(struct kern *k, struct alloc *a, bool packed_given, bool layout_given)
{
	int bits = tc_dtypes[a->dtype].bits;
	int64_t rows, columns, needed, rounded = 32;

	if (a->swizzle_given || a->tiling_given)
		tc_documented(&k->err, TMEM_TRANSFORMS, "");
	if (a->dtype == DT_BOOL)
		tc_documented(&k->err, TMEM_BOOL, "");
	if (bits > 32)
		tc_documented(&k->err, TMEM_WIDE, "", tc_dtypes[a->dtype].name,
			      tc_integer_text(k, bits));
	if (bits != 32 && !packed_given && !layout_given && !a->padded)
		tc_documented(&k->err, TMEM_PACKED_NEEDED, "");
	if (packed_given && layout_given)
		tc_documented(&k->err, TMEM_PACKED_AND_LAYOUT, "");
	if (a->rank < 2)
		tc_documented(&k->err, TMEM_RANK, "", dims_text(k, a));
	check_dimensions(k, a);
	rows = a->shape[a->rank - 2].size;
	columns = tmem_columns(a);
	if (layout_given)
		check_layout(k, a, rows, columns);
	else
		infer_layout(k, a, rows, columns);
	needed = tc_tmem_columns(a, rows, columns);
	while (rounded < needed)
		rounded *= 2;
	if (rounded > 512 && tc_lanes_have_halves(k))
		tc_documented(&k->err, TMEM_LIMIT,
			      tc_arena_printf(&k->arena, "\n  shape %s needs %lld columns",
					      dims_text(k, a), (long long)needed),
			      tc_integer_text(k, rounded));
	a->columns = (int)needed;
}

/* In tensor memory, where the bits of e2m3 stand in their byte is not documented (docs/isa.md 5.4).
 */
static bool may_be_padded(const struct alloc *a)
{
	return a->dtype == DT_E2M1 ? a->space != SP_GMEM
				   : a->dtype == DT_E3M2 && a->space == SP_TMEM;
}

void tc_check_alloc(struct kern *k, struct alloc *a, bool packed_given, bool layout_given,
		    bool collective_given)
{
	if (a->padded && !may_be_padded(a))
		tc_documented(&k->err, PADDED, "", tc_dtypes[a->dtype].name,
			      tc_space_names[a->space]);
	if (a->space != SP_TMEM && (packed_given || layout_given || collective_given))
		tc_documented(&k->err, TMEM_ONLY_OPTIONS, "");
	if (a->space == SP_TMEM)
		check_tmem(k, a, packed_given, layout_given);
	else if (a->space == SP_SMEM)
		check_smem(k, a);
}

/* ---- unions -------------------------------------------------------------------------- */

static const char *list_spaces(struct kern *k, struct ref **members, int count)
{
	static const char *const names[] = {"GMEM", "SMEM", "TMEM"};
	const char *text = "";

	for (int i = 0; i < count; i++)
		text = tc_arena_printf(&k->arena, "%s%s%s", text, i ? ", " : "",
				       names[members[i]->alloc->space]);
	return text;
}

static bool is_whole(const struct ref *r)
{
	if (r->rank != r->alloc->rank || r->cluster_rank)
		return false;
	for (int i = 0; i < r->rank; i++)
		if (r->axis[i] != i || r->start[i] || r->extent[i].size != r->alloc->shape[i].size)
			return false;
	return true;
}

static int64_t rows_of(const struct ref *r)
{
	return r->alloc->shape[r->alloc->rank - 2].size;
}

static int64_t bits_of(const struct ref *r)
{
	int64_t bits = tc_stored_bits(r->alloc);

	for (int i = 0; i < r->rank; i++)
		bits *= r->shape[i].size;
	return bits;
}

void tc_check_alias(struct kern *k, struct ref **members, int count)
{
	const struct ref *first = members[0];

	for (int i = 0; i < count; i++)
		if (members[i]->alloc->space == SP_GMEM)
			tc_documented(&k->err, UNION_SPACE, tc_got(k, "a member", members[i]));
	for (int i = 1; i < count; i++)
		if (members[i]->alloc->space != first->alloc->space)
			tc_documented(&k->err, UNION_SPACES, "", list_spaces(k, members, count));
	for (int i = 1; i < count && first->alloc->space == SP_TMEM; i++)
		if (members[i]->alloc->collective != first->alloc->collective)
			tc_documented(&k->err, UNION_COLLECTIVE,
				      tc_join(k, tc_got(k, "one member", first),
					      tc_got(k, "another", members[i])));
	for (int i = 0; i < count; i++)
		if (bits_of(members[i]) % 8)
			tc_documented(&k->err, UNION_BYTES, tc_got(k, "it", members[i]),
				      tc_dtypes[members[i]->alloc->dtype].name,
				      tc_shape_text(k, members[i]));
	for (int i = 0; i < count; i++)
		if (!is_whole(members[i]) || members[i]->alloc->alias)
			tc_documented(&k->err, UNION_WHOLE, tc_got(k, "it", members[i]),
				      tc_integer_text(k, i + 1));
	for (int i = 1; i < count && first->alloc->space == SP_TMEM; i++)
		if (rows_of(members[i]) != rows_of(first))
			tc_documented(&k->err, UNION_ROWS, "",
				      tc_integer_text(k, rows_of(members[i])),
				      tc_integer_text(k, rows_of(first)));
}

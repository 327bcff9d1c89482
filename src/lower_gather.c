/*
 * Copies of rows that a vector names: four rows an instruction, a panel of the SMEM image wide
 * (docs/isa.md 8.3, gather4 and scatter4).  Prefetches of tiles into L2.
 */
#include "check_copy.h"
#include "frag.h"

/* ---- row numbers ---------------------------------------------------------------------------- */

static struct maddr rows_address(struct low *l, const struct ref *rows)
{
	struct smem_view v;
	struct mopnd offset;
	int bytes = tc_dtypes[rows->alloc->dtype].bits / 8;

	if (rows->alloc->space == SP_GMEM)
		return (struct maddr){.reg = tc_low_gmem_address(l, rows)};
	tc_low_smem_view(l, rows, &v);
	if (v.layout.panelled)
		tc_low_fail(l, "row numbers are read from a plain SMEM ref: allocate it with "
			       "swizzle = \"none\" and no tiling");
	offset = tc_low_add(l, tc_low_mul(l, v.row, v.layout.row_bytes),
			    tc_low_mul(l, v.column, bytes));
	return tc_low_smem_at(l, &v, offset);
}

static void load_rows(struct low *l, const struct ref *rows, struct maddr at, int64_t first,
		      struct mopnd *row)
{
	int bits = tc_dtypes[rows->alloc->dtype].bits;
	const char *opcode = tc_arena_printf(
		l->arena, "ld.%s.u%d", rows->alloc->space == SP_GMEM ? "global" : "shared", bits);

	for (int i = 0; i < 4; i++) {
		struct mreg d = mi_b32(l);

		mi(l, opcode, R(d), M(at, (first + i) * bits / 8));
		row[i] = mo_reg(d);
	}
}

/*
 * A map of two dimensions: the gathered axis with those before it, and those behind it.  A row of
 * the map is one of the array where these two are all there are.
 */
static void plan_rows(struct low *l, struct param *map, const struct ref *r,
		      const struct alloc *smem, int64_t columns)
{
	static const int64_t single[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
	int axis = r->axis[0], last = r->alloc->rank - 1;

	tc_low_plan_map(l, map, r, smem, single);
	map->rank = 2;
	map->axis[0] = last;
	map->collapsed[0] = last - axis - 1;
	map->axis[1] = axis;
	map->collapsed[1] = axis;
	map->box[0] = (uint32_t)(columns / map->per_element);
	map->box[1] = 1;
}

/* Of a piece from that column of the view on: its column in the map, and the rows before. */
static void place_piece(struct low *l, const struct param *map, const struct ref *r, int64_t column,
			struct mopnd *coordinate)
{
	struct map_place at;

	tc_low_map_place(&at);
	at.constant[r->alloc->rank - 1] = column;
	tc_low_map_coordinates(l, map, r, &at, coordinate);
}

/*
 * The row of the map for a number along the gathered axis.  One that is not of the array, and any
 * where leading indices are outside (`before` is TC_MAP_OUTSIDE), lies behind the last row.
 */
static struct mopnd map_row(struct low *l, const struct param *map, const struct ref *r,
			    struct mopnd before, struct mopnd number)
{
	struct mopnd sum = tc_low_add(l, before, number);
	struct mreg inside, chosen, d;

	if (!map->collapsed[1])
		return sum;
	inside = mi_pred(l);
	chosen = mi_b32(l);
	d = mi_b32(l);
	mi(l, "setp.lt.u32", R(inside), number, tc_low_dim(l, &r->alloc->shape[r->axis[0]]));
	mi(l, "selp.b32", R(chosen), R(tc_word_register(l, sum)), I(TC_MAP_OUTSIDE), R(inside));
	mi(l, "min.u32", R(d), R(chosen), I(INT32_MAX));
	return R(d);
}

/* ---- gather and scatter --------------------------------------------------------------------- */

struct gathering {
	const struct ref *gmem, *smem;
	struct smem_view view;
	struct param plan;
	struct mreg map;
	int64_t columns, panels; /* of a piece; how many side by side */
	const char *opcode;
	const struct maddr *barrier; /* NULL: a scatter */
};

/* Where row `row` of piece `panel` lies in SMEM. */
static struct maddr piece_at(struct low *l, const struct gathering *g, int64_t row, int64_t panel)
{
	const struct smem_layout *s = &g->view.layout;
	struct maddr a = g->view.tile;
	struct mopnd offset;

	if (s->panelled) {
		offset = tc_low_mul(l, tc_low_udiv(l, g->view.column, s->panel_columns),
				    s->panel_bytes);
		a.offset += panel * s->panel_bytes;
	} else {
		offset = tc_low_udiv(l, tc_low_mul(l, g->view.column, s->bits), 8);
	}
	offset = tc_low_add(l, offset, tc_low_mul(l, g->view.row, s->row_bytes));
	a.offset += row * s->row_bytes;
	if (offset.kind == MO_IMM)
		a.offset += offset.imm;
	else
		a.reg = tc_low_add(l, offset, mo_reg(a.reg.id ? a.reg : l->c->smem)).reg;
	return a;
}

static void each_piece(struct low *l, const struct gathering *g)
{
	struct mopnd coordinate[TC_MAP_RANK], place[2];
	struct maddr numbers = rows_address(l, g->gmem->rows);

	for (int64_t row = 0; row < g->view.rows; row += 4) {
		load_rows(l, g->gmem->rows, numbers, row, coordinate + 1);
		for (int64_t p = 0; p < g->panels; p++) {
			struct maddr a = piece_at(l, g, row, p);
			struct mopnd m;

			place_piece(l, &g->plan, g->gmem, p * g->columns, place);
			coordinate[0] = place[0];
			for (int i = 1; p == 0 && i < 5; i++)
				coordinate[i] =
					map_row(l, &g->plan, g->gmem, place[1], coordinate[i]);
			m = mo_map(l, g->map, coordinate, TC_MAP_RANK);
			if (g->barrier)
				mi(l, g->opcode, M(a, 0), m, M(*g->barrier, 0));
			else
				mi(l, g->opcode, m, M(a, 0));
		}
	}
}

static void plan_gather(struct low *l, struct gathering *g)
{
	const struct smem_layout *s = &g->view.layout;

	tc_low_smem_view(l, g->smem, &g->view);
	g->columns = s->panelled ? s->panel_columns : g->view.columns;
	if (g->columns > g->view.columns)
		g->columns = g->view.columns;
	if (g->columns > 256)
		tc_low_fail(l, "a gather or scatter moves at most 256 columns of a plain SMEM ref: "
			       "use a swizzled one, or cut the columns");
	g->panels = g->view.columns / g->columns;
	plan_rows(l, &g->plan, g->gmem, g->smem->alloc, g->columns);
	g->map = tc_low_tensormap(l, &g->plan);
}

void tc_low_gather(struct low *l, const struct copy_op *o)
{
	bool load = o->src->rows != NULL;
	struct gathering g = {.gmem = load ? o->src : o->dst, .smem = load ? o->dst : o->src};
	struct maddr barrier;

	if (!l->c->target->tmem_columns)
		tc_low_fail(l,
			    "%s has no TMA for rows that a vector names (gather4, scatter4).\n  "
			    "What would fit: a copy of neighbouring rows, or x[row]:load() of each "
			    "row.",
			    l->c->target->name);
	plan_gather(l, &g);
	if (load) {
		g.opcode = "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::"
			   "complete_tx::bytes";
		barrier = tc_low_barrier(l, &o->barrier);
		g.barrier = &barrier;
		tc_low_expect_bytes(l, &o->barrier,
				    g.view.rows * g.view.columns * g.view.layout.bits / 8,
				    (struct mreg){.id = 0});
	} else {
		g.opcode = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group";
	}
	each_piece(l, &g);
}

/* ---- prefetch -------------------------------------------------------------------------------- */

enum {
	MOST_BOXES = 256
};

/* Of so many columns, those of a box: its rows are multiples of 16 bytes. */
static int64_t box_columns(const struct alloc *a, int64_t columns)
{
	int bits = tc_dtypes[a->dtype].bits;

	return bits == 6 ? TC_PADDED_ROW : tc_largest_divisor(columns, TC_MAP_BOX, 128 / bits);
}

static void prefetch_rows(struct low *l, const struct ref *r)
{
	struct maddr numbers = rows_address(l, r->rows);
	int64_t columns = box_columns(r->alloc, r->shape[1].size);
	struct mopnd coordinate[TC_MAP_RANK], place[2];
	struct mreg tensormap;
	struct param map;

	plan_rows(l, &map, r, NULL, columns);
	tensormap = tc_low_tensormap(l, &map);
	for (int64_t row = 0; row < r->shape[0].size; row += 4) {
		load_rows(l, r->rows, numbers, row, coordinate + 1);
		for (int64_t c = 0; c < r->shape[1].size; c += columns) {
			place_piece(l, &map, r, c, place);
			coordinate[0] = place[0];
			for (int i = 1; c == 0 && i < 5; i++)
				coordinate[i] = map_row(l, &map, r, place[1], coordinate[i]);
			mi(l, "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4",
			   mo_map(l, tensormap, coordinate, TC_MAP_RANK));
		}
	}
}

/* How many elements of the tile, or of this CTA's part of it, a box has along an axis. */
struct prefetch {
	int64_t extent[TC_MAX_RANK], boxes;
	struct map_place first;
};

/* Boxes of more than one element along `most` axes, the fastest ones that have more. */
static bool plan_prefetch(struct low *l, const struct ref *r, int most, struct prefetch *p,
			  struct param *map)
{
	p->boxes = 1;
	for (int axis = r->alloc->rank - 1; axis >= 0; axis--) {
		int64_t *box = &p->first.box[axis], extent = p->extent[axis];

		*box = 1;
		if (extent > 1 && most-- > 0)
			*box = axis == r->alloc->rank - 1
				       ? box_columns(r->alloc, extent)
				       : tc_largest_divisor(extent, TC_MAP_BOX, 1);
		p->boxes *= p->extent[axis] / *box;
	}
	return tc_low_plan_map(l, map, r, NULL, p->first.box);
}

static void prefetch_tile(struct low *l, const struct ref *r, int cut, int ctas,
			  struct mopnd position)
{
	int most = r->alloc->rank;
	struct prefetch p;
	struct param map;
	struct mreg tensormap;
	const char *opcode;

	tc_low_map_place(&p.first);
	for (int axis = 0; axis < r->alloc->rank; axis++)
		p.extent[axis] = r->extent[axis].size;
	if (ctas > 1) {
		p.extent[r->axis[cut]] /= ctas;
		p.first.part[r->axis[cut]] = tc_low_mul(l, position, p.extent[r->axis[cut]]);
	}
	while (!plan_prefetch(l, r, most, &p, &map))
		most--;
	if (p.boxes > MOST_BOXES)
		tc_documented_at(l->c->err, l->op->pos, PREFETCH_BOXES, "",
				 tc_shape_text(l->c->kern, r),
				 tc_integer_text(l->c->kern, p.boxes));
	tensormap = tc_low_tensormap(l, &map);
	opcode = tc_arena_printf(l->arena, "cp.async.bulk.prefetch.tensor.%dd.L2.global.tile",
				 map.rank);
	for (int64_t b = 0; b < p.boxes; b++) {
		struct mopnd coordinate[TC_MAP_RANK];
		struct map_place at = p.first;
		int64_t rest = b;

		for (int axis = r->alloc->rank - 1; axis >= 0; axis--) {
			int64_t count = p.extent[axis] / at.box[axis];

			at.constant[axis] = rest % count * at.box[axis];
			rest /= count;
		}
		tc_low_map_coordinates(l, &map, r, &at, coordinate);
		mi(l, opcode, mo_map(l, tensormap, coordinate, map.rank));
	}
}

void tc_lower_async_prefetch(struct low *l, const struct op *op)
{
	const struct prefetch_op *o = &op->u.prefetch;
	int ctas = tc_cluster_size(l->c->kern, o->collective_axes);

	if (o->ref->rows && !l->c->target->tmem_columns)
		return; /* a hint that this target has no instruction for */
	if (o->ref->rows)
		tc_frag_order(l, op);
	tc_low_first_leader(l);
	if (o->ref->rows)
		prefetch_rows(l, o->ref);
	else
		prefetch_tile(l, o->ref, tc_prefetch_cut(o->ref, ctas), ctas,
			      ctas > 1 ? tc_low_cluster_position(l, o->collective_axes) : I(0));
}

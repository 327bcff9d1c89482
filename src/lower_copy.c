/*
 * Copies between GMEM and SMEM by TMA.  A copy is cut into boxes of one size: a
 * panel wide, at most 256 rows high, one tile deep, or of several plain tiles that
 * lie one behind the other; boxes of equal shape share a tensor map.
 */
#include <string.h>

#include "check_copy.h"
#include "frag.h"

/* Which of how many equal pieces of the tile is copied here. */
struct share {
	int rows, columns;
	struct mopnd row, column;
};

struct boxes {
	struct param map;
	struct smem_view smem;
	int64_t panels, row_chunks, tiles; /* how many boxes along each */
	int64_t box_rows, box_columns;
	int64_t box_bytes;
	struct mopnd first_row, first_column;  /* of the part of this clone or CTA */
	int part_axis;                         /* of GMEM, which CTAs divide; -1: none */
	struct mopnd part;                     /* this CTA's start along it */
	int row_axis, column_axis;             /* of GMEM; -1: one row */
	int tile_axes, tile_axis[TC_MAX_RANK]; /* SMEM axes over tiles, slowest first */
	int64_t tile_box[TC_MAX_RANK];         /* tiles of a box along each */
	int64_t box[TC_MAX_RANK];              /* its elements along each axis of GMEM */
};

/* View dimension that runs along a storage axis; -1: indexed by an integer. */
static int dimension_of(const struct ref *r, int axis)
{
	for (int d = 0; d < r->rank; d++)
		if (r->axis[d] == axis)
			return d;
	return -1;
}

/* Which GMEM axis moves along a storage axis of the SMEM allocation; -1: none. */
static int gmem_axis(struct low *l, const struct ref *gmem, const struct ref *smem, int axis)
{
	int d = axis < 0 ? -1 : dimension_of(smem, axis);

	if (d < 0)
		return -1;
	if (d >= gmem->rank)
		tc_low_fail(l, "source and destination of a copy have different ranks");
	return gmem->axis[d];
}

static void take_share(struct low *l, struct boxes *b, const struct share *share)
{
	b->smem.rows /= share->rows;
	b->smem.columns /= share->columns;
	b->first_row = tc_low_mul(l, share->row, b->smem.rows);
	b->first_column = tc_low_mul(l, share->column, b->smem.columns);
	b->smem.row = tc_low_add(l, b->smem.row, b->first_row);
	b->smem.column = tc_low_add(l, b->smem.column, b->first_column);
}

/* The boxes, in which tiles lie behind one another along `deep` axes at most; false: there are
 * none.
 */
static bool cut_boxes(struct boxes *b, const struct ref *smem, int deep)
{
	struct copy_boxes cut;

	if (!tc_copy_boxes(smem, b->smem.rows, b->smem.columns, deep, &cut))
		return false;
	b->box_columns = cut.columns;
	b->box_rows = cut.rows;
	b->panels = b->smem.columns / cut.columns;
	b->row_chunks = b->smem.rows / cut.rows;
	b->box_bytes = cut.rows * cut.columns * tc_dtypes[smem->alloc->dtype].bits / 8;
	b->tiles = 1;
	b->tile_axes = 0;
	for (int axis = 0; axis < smem->alloc->rank - 2; axis++) {
		if (dimension_of(smem, axis) < 0 || smem->extent[axis].size == 1)
			continue;
		b->tile_box[b->tile_axes] = cut.tiles[axis];
		b->tile_axis[b->tile_axes++] = axis;
		b->tiles *= smem->extent[axis].size / cut.tiles[axis];
		b->box_bytes *= cut.tiles[axis];
	}
	return true;
}

static void box_along(struct low *l, const struct boxes *b, const struct ref *gmem,
		      const struct ref *smem, int64_t *box)
{
	for (int axis = 0; axis < TC_MAX_RANK; axis++)
		box[axis] = 1;
	for (int i = 0; i < b->tile_axes; i++)
		box[gmem_axis(l, gmem, smem, b->tile_axis[i])] = b->tile_box[i];
	if (b->row_axis >= 0)
		box[b->row_axis] = b->box_rows;
	box[gmem->alloc->rank - 1] = b->box_columns;
}

/* As deep as the tensor map has dimensions for. */
static void plan_map(struct low *l, struct boxes *b, const struct ref *gmem, const struct ref *smem)
{
	struct kern *k = l->c->kern;
	int deep = smem->alloc->rank;

	if (!cut_boxes(b, smem, deep))
		tc_documented_at(l->c->err, l->op->pos, COPY_BOX, tc_got(k, "the SMEM ref", smem),
				 tc_shape_text(k, smem));
	box_along(l, b, gmem, smem, b->box);
	while (!tc_low_plan_map(l, &b->map, gmem, smem->alloc, b->box)) {
		if (!cut_boxes(b, smem, --deep))
			tc_documented_at(
				l->c->err, l->op->pos, COPY_DIMENSIONS,
				tc_arena_printf(
					&k->arena,
					"%s\n  of the %d dimensions of the array a box can only "
					"take "
					"some, and the boxes of a tile %s would not all begin at "
					"multiples of 128 bytes of SMEM",
					tc_got(k, "the SMEM ref", smem), gmem->alloc->rank,
					tc_shape_text(k, smem)));
		box_along(l, b, gmem, smem, b->box);
	}
}

static void plan_boxes(struct low *l, struct boxes *b, const struct ref *gmem,
		       const struct ref *smem, const struct share *share)
{
	int rank = smem->alloc->rank;

	memset(b, 0, sizeof(*b));
	b->part_axis = -1;
	tc_low_smem_view(l, smem, &b->smem);
	b->column_axis = gmem_axis(l, gmem, smem, rank - 1);
	b->row_axis = rank >= 2 ? gmem_axis(l, gmem, smem, rank - 2) : -1;
	if (b->smem.columns > 1 && b->column_axis != gmem->alloc->rank - 1)
		tc_low_fail(l, "TMA needs the contiguous axis of the GMEM array along the last "
			       "axis of the SMEM allocation: transpose both sides or none");
	take_share(l, b, share);
	plan_map(l, b, gmem, smem);
}

/* Position of box (tile, panel, chunk): SMEM address and coordinates. */
static struct maddr place_box(struct low *l, const struct boxes *b, const struct ref *gmem,
			      const struct ref *smem, int64_t tile, int64_t panel, int64_t chunk,
			      struct mopnd *coordinate)
{
	const struct smem_layout *s = &b->smem.layout;
	struct mopnd column_panel, offset;
	struct maddr a = b->smem.tile;
	struct map_place at;
	int last = gmem->alloc->rank - 1;

	tc_low_map_place(&at);
	memcpy(at.box, b->box, sizeof at.box);
	for (int i = b->tile_axes - 1; i >= 0; i--) {
		int axis = b->tile_axis[i];
		int64_t boxes = smem->extent[axis].size / b->tile_box[i], stride = 1;
		int64_t first = tile % boxes * b->tile_box[i];

		for (int j = axis + 1; j < smem->alloc->rank - 2; j++)
			stride *= smem->alloc->shape[j].size;
		at.constant[gmem_axis(l, gmem, smem, axis)] += first;
		a.offset += first * stride * s->tile_bytes;
		tile /= boxes;
	}
	at.part[last] = b->first_column;
	at.constant[last] += panel * b->box_columns;
	if (b->row_axis >= 0) {
		at.part[b->row_axis] = b->first_row;
		at.constant[b->row_axis] += chunk * b->box_rows;
	}
	if (b->part_axis >= 0)
		at.part[b->part_axis] = tc_low_add(l, at.part[b->part_axis], b->part);
	tc_low_map_coordinates(l, &b->map, gmem, &at, coordinate);
	/* Columns start at a panel, or anywhere (plain). */
	if (s->panelled) {
		column_panel = tc_low_udiv(l, b->smem.column, s->panel_columns);
		offset = tc_low_mul(l, column_panel, s->panel_bytes);
		a.offset += panel * s->panel_bytes;
	} else {
		offset = tc_low_udiv(l, tc_low_mul(l, b->smem.column, s->bits), 8);
		a.offset += panel * b->box_columns * s->bits / 8;
	}
	offset = tc_low_add(l, offset, tc_low_mul(l, b->smem.row, s->row_bytes));
	a.offset += chunk * b->box_rows * s->row_bytes;
	if (offset.kind == MO_IMM)
		a.offset += offset.imm;
	else
		a.reg = tc_low_add(l, offset, mo_reg(a.reg.id ? a.reg : l->c->smem)).reg;
	return a;
}

/* `barrier` NULL: a store.  `mask`: a register of ranks that a multicast reaches, or none. */
static void each_box(struct low *l, const struct boxes *b, const struct ref *gmem,
		     const struct ref *smem, const char *opcode, const struct maddr *barrier,
		     struct mreg mask)
{
	struct mreg map = tc_low_tensormap(l, &b->map);
	struct mopnd coordinate[TC_MAP_RANK];

	for (int64_t t = 0; t < b->tiles; t++)
		for (int64_t p = 0; p < b->panels; p++)
			for (int64_t c = 0; c < b->row_chunks; c++) {
				struct maddr a = place_box(l, b, gmem, smem, t, p, c, coordinate);
				struct mopnd m = mo_map(l, map, coordinate, b->map.rank);

				if (barrier && mask.id)
					mi(l, opcode, M(a, 0), m, M(*barrier, 0), R(mask));
				else if (barrier)
					mi(l, opcode, M(a, 0), m, M(*barrier, 0));
				else
					mi(l, opcode, m, M(a, 0));
			}
}

/* The CTAs along the axes load a piece each, for all of them. */
static void multicast_share(struct low *l, const struct copy_op *o, struct share *share)
{
	const struct ref *dst = o->dst;
	int ctas = tc_cluster_size(l->c->kern, o->collective_axes), last = dst->alloc->rank - 1;
	struct mopnd position = tc_low_cluster_position(l, o->collective_axes);
	struct multicast_cut cut;
	struct smem_layout s;

	tc_smem_layout(dst->alloc, &s);
	tc_multicast_cut(&s, last ? dst->extent[last - 1].size : 1, dst->extent[last].size, ctas,
			 &cut);
	share->rows = cut.rows;
	share->columns = cut.columns;
	share->row = cut.rows == 1 ? I(0) : position;
	share->column = cut.columns == 1 ? I(0) : position;
	if (cut.rows > 1 && cut.columns > 1) {
		share->row = tc_low_udiv(l, position, cut.columns);
		share->column = tc_low_add(l, position, tc_low_mul(l, share->row, -cut.columns));
	}
}

/* Every CTA along the axes loads its own part of the source. */
static void partition(struct low *l, const struct copy_op *o, struct boxes *b)
{
	b->part_axis = o->src->axis[o->partition_axis];
	b->part = tc_low_mul(l, tc_low_cluster_position(l, o->collective_axes),
			     o->dst->shape[o->partition_axis].size);
}

void tc_low_expect_bytes(struct low *l, const struct barrier_ref *ref, int64_t bytes,
			 struct mreg who)
{
	const struct barrier_plan *plan = &l->c->barriers[ref->barrier->id];
	struct maddr barrier = tc_low_barrier(l, ref);
	struct minst *m;

	if (plan->unit == 1) {
		m = mi(l, "mbarrier.arrive.expect_tx.shared::cta.b64", T("_"), M(barrier, 0),
		       I(bytes));
	} else {
		m = mi(l, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64", M(barrier, 0),
		       I(bytes));
		if (who.id)
			mi_guard(m, who, false);
		m = mi(l, "mbarrier.arrive.shared::cta.b64", T("_"), M(barrier, 0), I(plan->unit));
	}
	if (who.id)
		mi_guard(m, who, false);
}

/*
 * What all CTAs along the axis load is counted by the barrier of the first one, which alone
 * arrives on it (docs/isa.md 8.3, .cta_group::2).  Returns the barrier.
 */
static struct maddr track_by_leader(struct low *l, const struct copy_op *o, int64_t bytes)
{
	if (!l->c->target->tmem_columns)
		tc_low_fail(l,
			    "a copy with leader_tracked does not run on %s: there, a copy signals "
			    "barriers of the CTAs that it writes to, not that of a pair's first "
			    "CTA.\n  What would fit: the same copy without leader_tracked, and a "
			    "wait in every CTA.",
			    l->c->target->name);
	tc_low_expect_bytes(l, &o->barrier, bytes * tc_cluster_size(l->c->kern, o->collective_axes),
			    tc_low_is_first_cta(l, o->collective_axes));
	return tc_low_barrier_in(l, &o->barrier, tc_low_first_cta_smem(l, o->collective_axes));
}

void tc_lower_copy_gmem_to_smem(struct low *l, const struct op *op)
{
	const struct copy_op *o = &op->u.copy;
	struct share share = {1, 1, I(0), I(0)};
	bool together = tc_cluster_size(l->c->kern, o->collective_axes) > 1;
	struct mreg mask = {.id = 0};
	struct maddr barrier;
	struct boxes b;
	int64_t bytes;

	tc_low_phases_before(l, o->barrier.barrier);
	if (o->src->rows)
		tc_frag_order(l, op);
	tc_low_first_leader(l);
	if (o->src->rows) {
		tc_low_gather(l, o);
		return;
	}
	if (together && !o->partitioned) {
		mask = tc_low_multicast_mask(l, o->collective_axes);
		multicast_share(l, o, &share);
	}
	plan_boxes(l, &b, o->src, o->dst, &share);
	if (together && o->partitioned)
		partition(l, o, &b);
	bytes = b.box_bytes * b.tiles * b.panels * b.row_chunks * share.rows * share.columns;
	if (o->leader_tracked) {
		barrier = track_by_leader(l, o, bytes);
	} else {
		barrier = tc_low_barrier(l, &o->barrier);
		tc_low_expect_bytes(l, &o->barrier, bytes, (struct mreg){.id = 0});
	}
	each_box(l, &b, o->src, o->dst,
		 tc_arena_printf(l->arena,
				 "cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::"
				 "complete_tx::bytes%s%s",
				 b.map.rank, mask.id ? ".multicast::cluster" : "",
				 o->leader_tracked ? ".cta_group::2" : ""),
		 &barrier, mask);
}

/* Whether integers have a sign is told by the tensor map. */
static enum dtype reduced_as(enum dtype t, char sign)
{
	bool wide = t == DT_I64 || t == DT_U64;

	if (!sign || tc_dtypes[t].klass == 'F')
		return t;
	return sign == 's' ? (wide ? DT_I64 : DT_I32) : wide ? DT_U64 : DT_U32;
}

static void close_group(struct low *l, const struct copy_op *o)
{
	if (o->commit_group)
		mi_plain(l, "cp.async.bulk.commit_group");
	l->bulk_groups = true;
}

void tc_lower_copy_smem_to_gmem(struct low *l, const struct op *op)
{
	const struct copy_op *o = &op->u.copy;
	const char *opcode;
	bool cut = tc_low_rows_cut(l, o->src);
	struct share share = {1, 1, I(0), I(0)};
	struct boxes b;

	if (o->dst->rows) {
		tc_frag_order(l, op);
		tc_low_first_leader(l);
		tc_low_gather(l, o);
		tc_low_leader(l);
		close_group(l, o);
		return;
	}
	if (cut) {
		share.rows = l->role->clones;
		share.row = mo_reg(l->clone);
		tc_low_leader(l);
	} else {
		tc_low_first_leader(l);
	}
	plan_boxes(l, &b, o->dst, o->src, &share);
	if (o->reduce) {
		b.map.tma_type = tc_dtypes[reduced_as(o->dst->alloc->dtype, o->reduce->sign)].tma;
		opcode = tc_arena_printf(
			l->arena,
			"cp.reduce.async.bulk.tensor.%dd.global.shared::cta.%s.tile.bulk_group",
			b.map.rank, o->reduce->ptx);
	} else {
		opcode = tc_arena_printf(
			l->arena, "cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group",
			b.map.rank);
	}
	each_box(l, &b, o->dst, o->src, opcode, NULL, (struct mreg){.id = 0});
	/* Every clone counts the same groups. */
	tc_low_leader(l);
	close_group(l, o);
}

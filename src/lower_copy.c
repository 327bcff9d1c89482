/*
 * Copies between GMEM and SMEM by TMA.  A copy is cut into boxes of one size: a
 * panel wide, at most 256 rows high, one tile deep; boxes of equal shape share a
 * tensor map.
 */
#include <string.h>

#include "compile.h"

struct boxes {
	struct param map;
	struct smem_view smem;
	int64_t panels, row_chunks, tiles; /* how many boxes along each */
	int64_t box_rows, box_columns;
	int64_t box_bytes;
	struct mopnd first_row;                /* of this clone's rows */
	int row_coordinate;                    /* of the map; -1: one row */
	int tile_axes, tile_axis[TC_MAX_RANK]; /* view dimensions over tiles, slowest first */
};

/* View dimension that runs along a storage axis; -1: indexed by an integer. */
static int dimension_of(const struct ref *r, int axis)
{
	for (int d = 0; d < r->rank; d++)
		if (r->axis[d] == axis)
			return d;
	return -1;
}

static int64_t largest_divisor(int64_t n, int64_t limit, int64_t multiple)
{
	for (int64_t d = n < limit ? n : limit; d > 1; d--)
		if (n % d == 0 && d % multiple == 0)
			return d;
	return multiple > n ? 1 : multiple;
}

/* Tensor-map dimension of a GMEM axis: innermost first. */
static int map_dimension(const struct ref *gmem, int axis)
{
	return gmem->alloc->rank - 1 - axis;
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

static void plan_map(struct low *l, struct boxes *b, const struct ref *gmem)
{
	const struct alloc *a = gmem->alloc;

	if (a->rank > 5)
		tc_low_fail(l,
			    "TMA copies arrays of at most 5 dimensions, this one has %d; pass a "
			    "view with fewer dimensions of the same memory",
			    a->rank);
	b->map.kind = PARAM_TENSORMAP;
	b->map.arg = a->id;
	b->map.rank = a->rank;
	b->map.dtype = a->dtype;
	b->map.swizzle = b->smem.layout.swizzle;
	for (int i = 0; i < a->rank; i++) {
		b->map.axis[i] = a->rank - 1 - i;
		b->map.box[i] = 1;
	}
}

/* `cut`: each clone of a class copies its own rows. */
static void plan_boxes(struct low *l, struct boxes *b, const struct ref *gmem,
		       const struct ref *smem, bool cut)
{
	int rank = smem->alloc->rank, column_axis, row_axis;
	const struct smem_layout *s;
	int64_t element_bits;

	memset(b, 0, sizeof(*b));
	b->first_row = mo_imm(0);
	tc_low_smem_view(l, smem, &b->smem);
	s = &b->smem.layout;
	element_bits = s->bits;
	plan_map(l, b, gmem);
	column_axis = gmem_axis(l, gmem, smem, rank - 1);
	row_axis = rank >= 2 ? gmem_axis(l, gmem, smem, rank - 2) : -1;
	if (b->smem.columns > 1 && column_axis != gmem->alloc->rank - 1)
		tc_low_fail(l, "TMA needs the contiguous axis of the GMEM array along the last "
			       "axis of the SMEM allocation: transpose both sides or none");
	b->box_columns = s->swizzle ? s->panel_columns : largest_divisor(b->smem.columns, 256, 1);
	if (b->box_columns > b->smem.columns)
		b->box_columns = b->smem.columns;
	b->panels = b->smem.columns / b->box_columns;
	if (cut) {
		b->first_row = tc_low_mul(l, mo_reg(l->clone), 64);
		b->smem.row = tc_low_add(l, b->smem.row, b->first_row);
		b->smem.rows = 64;
	}
	b->box_rows = largest_divisor(b->smem.rows, 256, s->swizzle ? 8 : 1);
	/* A plain box is dense: rows narrower than the allocation's go one by one. */
	if (!s->swizzle && b->box_columns != s->columns)
		b->box_rows = 1;
	b->row_chunks = b->smem.rows / b->box_rows;
	b->box_bytes = b->box_rows * b->box_columns * element_bits / 8;
	b->row_coordinate = -1;
	b->map.box[0] = (uint32_t)b->box_columns;
	if (row_axis >= 0) {
		b->row_coordinate = map_dimension(gmem, row_axis);
		b->map.box[b->row_coordinate] = (uint32_t)b->box_rows;
	}
	b->tiles = 1;
	for (int axis = 0; axis < rank - 2; axis++) {
		int d = dimension_of(smem, axis);

		if (d < 0 || smem->extent[axis].size == 1)
			continue;
		b->tile_axis[b->tile_axes++] = axis;
		b->tiles *= smem->extent[axis].size;
	}
	if (b->box_columns * element_bits / 8 % 16)
		tc_low_fail(l,
			    "TMA moves rows of a multiple of 16 bytes; %lld columns of %s are %lld "
			    "bytes",
			    (long long)b->box_columns, tc_dtypes[smem->alloc->dtype].name,
			    (long long)(b->box_columns * element_bits / 8));
}

/* Position of box (tile, panel, chunk): SMEM address and coordinates. */
static struct maddr place_box(struct low *l, const struct boxes *b, const struct ref *gmem,
			      const struct ref *smem, int64_t tile, int64_t panel, int64_t chunk,
			      struct mopnd *coordinate)
{
	const struct smem_layout *s = &b->smem.layout;
	struct mopnd column_panel, offset;
	struct maddr a = b->smem.tile;

	for (int i = 0; i < b->map.rank; i++)
		coordinate[i] = tc_low_value(l, gmem->start[b->map.axis[i]]);
	for (int i = b->tile_axes - 1; i >= 0; i--) {
		int axis = b->tile_axis[i], m;
		int64_t size = smem->extent[axis].size, stride = 1;

		for (int j = axis + 1; j < smem->alloc->rank - 2; j++)
			stride *= smem->alloc->shape[j].size;
		m = map_dimension(gmem, gmem_axis(l, gmem, smem, axis));
		coordinate[m] = tc_low_add(l, coordinate[m], mo_imm(tile % size));
		a.offset += tile % size * stride * s->tile_bytes;
		tile /= size;
	}
	coordinate[0] = tc_low_add(l, coordinate[0], mo_imm(panel * b->box_columns));
	if (b->row_coordinate >= 0)
		coordinate[b->row_coordinate] =
			tc_low_add(l, tc_low_add(l, coordinate[b->row_coordinate], b->first_row),
				   mo_imm(chunk * b->box_rows));
	/* Columns start at a panel (swizzled) or anywhere (plain). */
	if (s->swizzle) {
		column_panel = tc_low_udiv(l, b->smem.column, s->panel_columns);
		offset = tc_low_mul(l, column_panel, s->panel_bytes);
		a.offset += panel * s->panel_bytes;
	} else {
		offset = tc_low_mul(l, b->smem.column, s->bits / 8);
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

static void each_box(struct low *l, const struct boxes *b, const struct ref *gmem,
		     const struct ref *smem, const char *opcode, const struct maddr *barrier)
{
	struct mreg map = tc_low_tensormap(l, &b->map);
	struct mopnd coordinate[5];

	for (int64_t t = 0; t < b->tiles; t++)
		for (int64_t p = 0; p < b->panels; p++)
			for (int64_t c = 0; c < b->row_chunks; c++) {
				struct maddr a = place_box(l, b, gmem, smem, t, p, c, coordinate);
				struct mopnd m = mo_map(l, map, coordinate, b->map.rank);

				if (barrier)
					mi(l, opcode, M(a, 0), m, M(*barrier, 0));
				else
					mi(l, opcode, m, M(a, 0));
			}
}

static void refuse(struct low *l, const struct copy_op *o)
{
	if (o->collective_axes || o->partitioned || o->leader_tracked)
		tc_low_fail(l, "copies with collective_axes are not supported on %s yet",
			    l->c->target->name);
	tc_low_refuse_cluster(l, &o->barrier);
}

void tc_lower_copy_gmem_to_smem(struct low *l, const struct op *op)
{
	const struct copy_op *o = &op->u.copy;
	const struct barrier_plan *plan = &l->c->barriers[o->barrier.barrier->id];
	struct maddr barrier;
	struct boxes b;
	int64_t bytes;

	refuse(l, o);
	tc_low_phases_before(l, o->barrier.barrier);
	tc_low_first_leader(l);
	plan_boxes(l, &b, o->src, o->dst, false);
	bytes = b.box_bytes * b.tiles * b.panels * b.row_chunks;
	barrier = tc_low_barrier(l, &o->barrier);
	if (plan->unit == 1) {
		mi(l, "mbarrier.arrive.expect_tx.shared::cta.b64", T("_"), M(barrier, 0), I(bytes));
	} else {
		mi(l, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64", M(barrier, 0), I(bytes));
		mi(l, "mbarrier.arrive.shared::cta.b64", T("_"), M(barrier, 0), I(plan->unit));
	}
	each_box(l, &b, o->src, o->dst,
		 tc_arena_printf(l->arena,
				 "cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::"
				 "complete_tx::bytes",
				 b.map.rank),
		 &barrier);
}

void tc_lower_copy_smem_to_gmem(struct low *l, const struct op *op)
{
	static const char *const reduction[] = {
		[RO_SUM] = "add", [RO_MAX] = "max", [RO_MIN] = "min"};
	const struct copy_op *o = &op->u.copy;
	const char *opcode;
	bool cut = tc_low_rows_cut(l, o->src);
	struct boxes b;

	refuse(l, o);
	if (cut)
		tc_low_leader(l);
	else
		tc_low_first_leader(l);
	plan_boxes(l, &b, o->dst, o->src, cut);
	if (o->has_reduce)
		opcode = tc_arena_printf(
			l->arena,
			"cp.reduce.async.bulk.tensor.%dd.global.shared::cta.%s.tile.bulk_group",
			b.map.rank, reduction[o->reduce]);
	else
		opcode = tc_arena_printf(
			l->arena, "cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group",
			b.map.rank);
	each_box(l, &b, o->dst, o->src, opcode, NULL);
	/* Every clone counts the same groups. */
	tc_low_leader(l);
	if (o->commit_group)
		mi_plain(l, "cp.async.bulk.commit_group");
	l->bulk_groups = true;
}

void tc_lower_commit_smem(struct low *l, const struct op *op)
{
	(void)op;
	tc_low_all(l);
	mi_plain(l, "fence.proxy.async.shared::cta");
	tc_low_role_barrier(l);
}

void tc_lower_commit_gmem(struct low *l, const struct op *op)
{
	(void)op;
	tc_low_all(l);
	mi_plain(l, "fence.proxy.async.global");
	tc_low_role_barrier(l);
}

void tc_lower_wait_smem_to_gmem(struct low *l, const struct op *op)
{
	const struct wait_smem_op *o = &op->u.wait_smem;

	tc_low_leader(l);
	mi(l, o->read_only ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group", I(o->n));
	tc_low_all(l);
	if (l->role->warps > 1)
		tc_low_role_barrier(l);
}

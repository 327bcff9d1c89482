/*
 * Tensor maps of arrays.  A map has at most five dimensions: of an array with more, neighbouring
 * axes become one, whose coordinate is computed from theirs.
 */
#include <string.h>

#include "frag.h"

/* Types of TMA: the first that only Blackwell has, and the one that no element type says alone. */
enum {
	TMA_16U4_ALIGN8B = 13,
	TMA_16U4_ALIGN16B = 14
};

static void check_type(struct low *l, enum dtype t, const struct alloc *smem)
{
	if (l->c->target->sm < 100 &&
	    (tc_dtypes[t].tma >= TMA_16U4_ALIGN8B || (smem && smem->atom_32)))
		tc_low_fail(l,
			    "TMA of %s has no elements of 4 and 6 bits, and no swizzle by 32 "
			    "bytes; pairs of 4-bit elements are moved as uint8",
			    l->c->target->name);
}

/* ---- which axes are one dimension ---------------------------------------------------------- */

static int slowest(const struct param *map, int dimension)
{
	return map->axis[dimension] - map->collapsed[dimension];
}

/* There is one index along it, and it is 0. */
static bool is_single(const struct ref *r, int axis)
{
	int64_t start;

	return r->alloc->shape[axis].size == 1 && r->extent[axis].size == 1 &&
	       tc_val_is_const(r->start[axis], &start) && start == 0;
}

static bool all_single(const struct ref *r, const struct param *map, int dimension)
{
	for (int axis = slowest(map, dimension); axis <= map->axis[dimension]; axis++)
		if (!is_single(r, axis))
			return false;
	return true;
}

/* A box has all of it. */
static bool all_taken(const struct ref *r, const struct param *map, int dimension,
		      const int64_t *box)
{
	int64_t start;

	for (int axis = slowest(map, dimension); axis <= map->axis[dimension]; axis++)
		if (r->alloc->shape[axis].size != box[axis] ||
		    !tc_val_is_const(r->start[axis], &start) || start)
			return false;
	return true;
}

/* Dimension i takes in the slower one beside it. */
static void merge(struct param *map, int i)
{
	map->box[i] *= map->box[i + 1];
	map->collapsed[i] += map->collapsed[i + 1] + 1;
	map->rank--;
	for (int j = i + 1; j < map->rank; j++) {
		map->axis[j] = map->axis[j + 1];
		map->collapsed[j] = map->collapsed[j + 1];
		map->box[j] = map->box[j + 1];
	}
}

/* The row of a box has the width of a swizzle, or that of padded elements. */
static bool has_free_rows(const struct param *map)
{
	return !map->swizzle && map->tma_type < TMA_16U4_ALIGN8B;
}

static bool may_grow(const struct param *map, int i)
{
	int64_t most = TC_MAP_BOX * (i ? 1 : map->per_element);

	return (i || has_free_rows(map)) && (int64_t)map->box[i] * map->box[i + 1] <= most;
}

/*
 * From the slowest on: axes of one index; an axis of which a box has all, with the slower one, of
 * which it has any part; axes of which it has one index each.
 */
static bool merge_some(struct param *map, const struct ref *r, const int64_t *box)
{
	for (int i = map->rank - 2; i >= 0; i--) {
		if (all_single(r, map, i) || all_single(r, map, i + 1)) {
			merge(map, i);
			return true;
		}
	}
	for (int i = map->rank - 2; i >= 0; i--) {
		if (may_grow(map, i) && all_taken(r, map, i, box)) {
			merge(map, i);
			return true;
		}
	}
	for (int i = map->rank - 2; i > 0; i--) {
		if (map->box[i] == 1 && map->box[i + 1] == 1) {
			merge(map, i);
			return true;
		}
	}
	return false;
}

bool tc_low_plan_map(struct low *l, struct param *map, const struct ref *gmem,
		     const struct alloc *smem, const int64_t *box)
{
	const struct alloc *a = gmem->alloc;

	check_type(l, a->dtype, smem);
	*map = (struct param){.kind = PARAM_TENSORMAP,
			      .arg = a->id,
			      .rank = a->rank,
			      .tma_type = smem && smem->padded ? TMA_16U4_ALIGN16B
							       : tc_dtypes[a->dtype].tma,
			      .swizzle = smem ? smem->swizzle : 0,
			      .atom_32 = smem && smem->atom_32};
	map->per_element = tc_tma_unit(a->dtype);
	for (int i = 0; i < a->rank; i++) {
		map->axis[i] = a->rank - 1 - i;
		map->box[i] = (uint32_t)box[map->axis[i]];
	}
	while (map->rank > TC_MAP_RANK)
		if (!merge_some(map, gmem, box))
			return false;
	map->box[0] /= (uint32_t)map->per_element;
	return true;
}

/* ---- coordinates ----------------------------------------------------------------------------- */

/* Surely an index of the array. */
static bool is_inside(struct low *l, const struct ref *r, int axis, const struct map_place *at)
{
	struct interval first = tc_low_interval(l, r->start[axis]);
	int64_t size = r->alloc->shape[axis].size;

	return size >= 0 && at->part[axis].kind == MO_IMM &&
	       first.low + at->part[axis].imm + at->constant[axis] >= 0 &&
	       first.high + at->part[axis].imm + at->constant[axis] < size;
}

static struct mopnd index_along(struct low *l, const struct ref *r, int axis,
				const struct map_place *at)
{
	struct mopnd first = tc_low_add(l, tc_low_value(l, r->start[axis]), at->part[axis]);

	return tc_low_add(l, first, I(at->constant[axis]));
}

static void both(struct low *l, struct mreg *all, struct mopnd index, struct mopnd size)
{
	struct mreg p = mi_pred(l);
	struct mopnd x = R(tc_word_register(l, index));

	if (all->id)
		mi(l, "setp.lt.and.u32", R(p), x, size, R(*all));
	else
		mi(l, "setp.lt.u32", R(p), x, size);
	*all = p;
}

static struct mopnd times(struct low *l, struct mopnd x, struct mopnd size)
{
	struct mreg d;

	if (size.kind == MO_IMM)
		return tc_low_mul(l, x, size.imm);
	d = mi_b32(l);
	mi(l, "mul.lo.s32", R(d), R(tc_word_register(l, x)), size);
	return R(d);
}

/* Of the slowest axis of a dimension a box may overhang: near enough that products do not wrap. */
static struct mopnd clamped(struct low *l, struct mopnd index, struct mopnd size, int64_t box)
{
	struct mreg low = mi_b32(l), d = mi_b32(l);

	mi(l, "max.s32", R(low), R(tc_word_register(l, index)), I(-box));
	mi(l, "min.s32", R(d), R(low), size);
	return R(d);
}

/*
 * What lies outside along one of the merged axes must lie outside along the dimension, not in the
 * next row of it: such a box gets a coordinate beyond it.
 */
static struct mopnd merged(struct low *l, const struct param *map, const struct ref *r, int i,
			   const struct map_place *at)
{
	struct mopnd sum = I(0);
	struct mreg inside = {0}, d;
	int first = slowest(map, i);

	while (first < map->axis[i] && is_single(r, first))
		first++;
	for (int axis = first; axis <= map->axis[i]; axis++) {
		struct mopnd size = tc_low_dim(l, &r->alloc->shape[axis]);
		struct mopnd index = index_along(l, r, axis, at);

		if (!is_single(r, axis) && !is_inside(l, r, axis, at)) {
			if (axis == first && at->box[axis] > 1)
				index = clamped(l, index, size, at->box[axis]);
			else
				both(l, &inside, index, size);
		}
		sum = tc_low_add(l, times(l, sum, size), index);
	}
	if (!inside.id)
		return sum;
	d = mi_b32(l);
	mi(l, "selp.b32", R(d), R(tc_word_register(l, sum)), I(TC_MAP_OUTSIDE), R(inside));
	return R(d);
}

void tc_low_map_place(struct map_place *at)
{
	memset(at, 0, sizeof *at);
	for (int axis = 0; axis < TC_MAX_RANK; axis++) {
		at->part[axis] = I(0);
		at->box[axis] = 1;
	}
}

void tc_low_map_coordinates(struct low *l, const struct param *map, const struct ref *gmem,
			    const struct map_place *at, struct mopnd *coordinate)
{
	for (int i = 0; i < map->rank; i++)
		coordinate[i] = map->collapsed[i] ? merged(l, map, gmem, i, at)
						  : index_along(l, gmem, map->axis[i], at);
	coordinate[0] = tc_low_shift_right(l, coordinate[0], tc_log2(map->per_element));
}

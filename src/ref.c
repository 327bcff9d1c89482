/* Views of allocations: indexing, tiles, transposition. */
#include "check_copy.h"

#include <string.h>

static struct dim fixed(int64_t size)
{
	struct dim d = {.size = size};

	return d;
}

struct ref *tc_ref_whole(struct kern *k, struct alloc *a)
{
	struct ref *r = tc_arena_alloc(&k->arena, sizeof *r);

	r->alloc = a;
	r->rank = a->rank;
	for (int i = 0; i < a->rank; i++) {
		r->shape[i] = r->extent[i] = a->shape[i];
		r->axis[i] = i;
	}
	return r;
}

static void mark_transposed(struct ref *r)
{
	r->transposed = r->rank >= 2 && r->axis[r->rank - 1] < r->axis[r->rank - 2];
}

static struct val *add_start(struct kern *k, struct val *start, struct val *more)
{
	if (!more)
		return start;
	return start ? tc_val_expr(k, SO_ADD, start, more, NULL) : more;
}

struct ref *tc_ref_index(struct kern *k, const struct ref *r, const struct index *index, int count)
{
	struct ref *view;
	int rank = 0;

	tc_ref_usable(k, r);
	for (int i = 0; i < count; i++)
		tc_val_usable(k, index[i].start);
	if (r->rows && count > 0 && !index[0].is_all)
		tc_check_no_gather(k, r);
	tc_check_index(k, r, index, count);
	if (count > r->rank)
		tc_fail(&k->err, "%d indices into a ref of %d dimension%s:\n%s", count, r->rank,
			r->rank == 1 ? "" : "s", tc_ref_text(k, r));
	view = tc_arena_alloc(&k->arena, sizeof *view);
	*view = *r;
	for (int i = 0; i < r->rank; i++) {
		int axis = r->axis[i];
		struct dim size = r->shape[i];

		if (i < count && !index[i].is_all) {
			view->start[axis] = add_start(k, r->start[axis], index[i].start);
			size = fixed(index[i].is_slice ? index[i].size : 1);
			view->extent[axis] = size;
		}
		if (i < count && !index[i].is_slice)
			continue;
		view->shape[rank] = size;
		view->axis[rank++] = axis;
	}
	view->rank = rank;
	mark_transposed(view);
	return view;
}

struct ref *tc_ref_tile(struct kern *k, const struct ref *r, struct val *const *index,
			const int64_t *shape, int count)
{
	struct index start[TC_MAX_RANK] = {{0}};
	struct ref *view;

	tc_ref_usable(k, r);
	tc_check_no_gather(k, r);
	tc_check_tile(k, r);
	if (count != r->rank)
		tc_fail(&k->err,
			"a tile needs one index and one size a dimension: %d given, the ref has "
			"%d\n%s",
			count, r->rank, tc_ref_text(k, r));
	for (int i = 0; i < count; i++) {
		int64_t n;

		if (tc_val_is_const(index[i], &n) && n < 0)
			tc_fail(&k->err, "tile index %lld along axis %d is negative", (long long)n,
				i);
		if (index[i]->type != VT_S32)
			tc_fail(&k->err, "tile indices are integers, got %s along axis %d",
				tc_val_text(k, index[i]), i);
		start[i].is_slice = true;
		start[i].start =
			tc_val_expr(k, SO_MUL, index[i], tc_val_const(k, (int32_t)shape[i]), NULL);
		start[i].size = shape[i];
		start[i].step = 1;
	}
	if (r->alloc->space != SP_GMEM)
		return tc_ref_index(k, r, start, count);
	view = tc_arena_alloc(&k->arena, sizeof *view);
	*view = *r;
	for (int i = 0; i < count; i++) {
		int axis = r->axis[i];

		view->start[axis] = add_start(k, r->start[axis], start[i].start);
		view->shape[i] = view->extent[axis] = fixed(shape[i]);
	}
	return view;
}

struct ref *tc_ref_transpose(struct kern *k, const struct ref *r)
{
	struct ref *view;
	int last = r->rank - 1;

	tc_ref_usable(k, r);
	tc_check_no_gather(k, r);
	tc_check_transpose(k, r);
	if (r->rank < 2)
		tc_fail(&k->err, "only a ref of 2 or more dimensions can be transposed:\n%s",
			tc_ref_text(k, r));
	view = tc_arena_alloc(&k->arena, sizeof *view);
	*view = *r;
	view->shape[last] = r->shape[last - 1];
	view->shape[last - 1] = r->shape[last];
	view->axis[last] = r->axis[last - 1];
	view->axis[last - 1] = r->axis[last];
	mark_transposed(view);
	return view;
}

struct ref *tc_ref_gather(struct kern *k, const struct ref *r, const struct ref *rows, int gathered,
			  const struct index *index, int count)
{
	struct index all[TC_MAX_RANK];
	struct ref *view;

	tc_ref_usable(k, r);
	tc_ref_usable(k, rows);
	tc_check_gather(k, r, rows, gathered, index, count);
	memcpy(all, index, (size_t)count * sizeof(*all));
	all[gathered] = (struct index){.is_slice = true, .is_all = true};
	if (gathered < r->rank)
		all[gathered].size = r->shape[gathered].size;
	view = tc_ref_index(k, r, all, count);
	view->shape[0] = view->extent[view->axis[0]] = rows->shape[0];
	view->rows = rows;
	tc_check_gather_view(k, view);
	return view;
}

void tc_ref_usable(struct kern *k, const struct ref *r)
{
	const struct alloc *a;

	if (!r)
		return;
	a = r->alloc;
	if (a->space != SP_GMEM && (a->id >= k->allocs.count || k->allocs.item[a->id] != a))
		tc_fail(&k->err, "this ref was allocated at %s in a block that failed, and is gone",
			tc_pos_text(k, a->pos));
	for (int i = 0; i < a->rank; i++)
		tc_val_usable(k, r->start[i]);
	tc_val_usable(k, r->cluster_rank);
	tc_ref_usable(k, r->rows);
}

void tc_barrier_usable(struct kern *k, const struct barrier_ref *b)
{
	if (!b->barrier)
		return;
	if (b->barrier->id >= k->barriers.count || k->barriers.item[b->barrier->id] != b->barrier)
		tc_fail(&k->err, "this barrier was made at %s in a block that failed, and is gone",
			tc_pos_text(k, b->barrier->pos));
	tc_val_usable(k, b->index);
	tc_val_usable(k, b->cluster_rank);
}

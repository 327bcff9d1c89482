/* Rows of GMEM that a vector of numbers names (gather4, scatter4); prefetches into L2. */
#include "check_copy.h"
#include "compile.h"

static void check_bits(struct kern *k, const struct alloc *a)
{
	if (tc_dtypes[a->dtype].bits < 4)
		tc_documented(&k->err, COPY_TMA_DTYPE, "", tc_dtypes[a->dtype].mlir);
}

void tc_check_no_gather(struct kern *k, const struct ref *r)
{
	if (r && r->rows)
		tc_documented(&k->err, ARRAY_INDEX, tc_got(k, "the ref", r));
}

static void check_rows(struct kern *k, const struct ref *rows)
{
	const struct dtype_info *d = &tc_dtypes[rows->alloc->dtype];

	if (rows->alloc->space == SP_TMEM)
		tc_documented(&k->err, GATHER_SPACE, tc_got(k, "the vector of indices", rows));
	tc_check_own(k, rows);
	if (rows->rank != 1)
		tc_documented(&k->err, GATHER_RANK, tc_got(k, "the vector of indices", rows));
	if (d->klass == 'F' || d->klass == 'B' || d->bits > 32 || d->bits < 8)
		tc_documented(&k->err, GATHER_WIDTH, tc_got(k, "the vector of indices", rows));
	if (d->klass != 'U')
		tc_documented(&k->err, GATHER_SIGN, tc_got(k, "the vector of indices", rows));
	if (rows->shape[0].size % 4 || rows->shape[0].size < 0)
		tc_documented(&k->err, GATHER_COUNT, tc_got(k, "the vector of indices", rows),
			      rows->shape[0].size < 0 ? rows->shape[0].name
						      : tc_integer_text(k, rows->shape[0].size));
}

/* In the map, rows of the dimensions behind the gathered one are one row: what overhangs it would
 * be of the next. */
void tc_check_gather_view(struct kern *k, const struct ref *view)
{
	const struct alloc *a = view->alloc;
	int last = a->rank - 1;
	int64_t size = a->shape[last].size, extent = view->extent[last].size, first;
	bool inside;

	if (view->axis[0] >= last - 1)
		return;
	if (tc_val_is_const(view->start[last], &first))
		inside = (first == 0 && tc_dim_equal(&view->extent[last], &a->shape[last])) ||
			 (first >= 0 && first + extent <= size);
	else
		inside = size >= 0 && size % extent == 0 &&
			 tc_val_divisor(view->start[last]) % extent == 0;
	if (!inside)
		tc_documented(&k->err, GATHER_COLUMNS, tc_got(k, "the ref", view));
}

/* The view is of rows along one dimension and of columns; all else is an integer. */
static void check_gathered(struct kern *k, const struct ref *r, int gathered,
			   const struct index *index, int count)
{
	int axis = r->axis[gathered], last = r->rank - 1;
	int64_t start;

	if (r->transposed || gathered == last || r->axis[last] != r->alloc->rank - 1 ||
	    !tc_val_is_const(r->start[axis], &start) || start ||
	    !tc_dim_equal(&r->extent[axis], &r->alloc->shape[axis]))
		tc_documented(&k->err, GATHER_DIMENSION, tc_got(k, "the ref", r));
	for (int i = 0; i < last; i++)
		if (i != gathered && (i >= count || index[i].is_slice))
			tc_documented(&k->err, GATHER_DIMENSION, tc_got(k, "the ref", r));
	if (last < count && !index[last].is_slice)
		tc_documented(&k->err, GATHER_INTEGER, tc_got(k, "the ref", r));
}

void tc_check_gather(struct kern *k, const struct ref *r, const struct ref *rows, int gathered,
		     const struct index *index, int count)
{
	if (r->alloc->space != SP_GMEM || r->rows)
		tc_documented(&k->err, ARRAY_INDEX, tc_got(k, "the ref", r));
	if (gathered >= r->rank || count > r->rank)
		return; /* tc_ref_index says so */
	check_gathered(k, r, gathered, index, count);
	check_rows(k, rows);
}

void tc_check_gather_copy(struct kern *k, const struct copy_op *c)
{
	const struct ref *smem = c->src->rows ? c->dst : c->src;
	const struct alloc *a = smem->alloc;
	struct smem_layout s;
	int64_t bytes;

	check_bits(k, a);
	if (tc_stored_bits(a) != tc_dtypes[a->dtype].bits)
		tc_documented(&k->err, GATHER_PADDED, tc_got(k, "the SMEM ref", smem));
	if (smem->transposed)
		tc_documented(&k->err, COPY_TRANSPOSED, tc_got(k, "the SMEM ref", smem));
	if (c->collective_axes)
		tc_documented(&k->err, GATHER_COLLECTIVE, "");
	if (c->reduce)
		tc_documented(&k->err, GATHER_REDUCE, "");
	tc_smem_layout(a, &s);
	bytes = s.panelled ? s.row_bytes : smem->extent[a->rank - 1].size * tc_stored_bits(a) / 8;
	if (4 * bytes % 128)
		tc_documented(&k->err, GATHER_BYTES, tc_got(k, "the SMEM ref", smem),
			      tc_integer_text(k, 4 * bytes));
}

/* ---- prefetch ---------------------------------------------------------------------------- */

static void check_extents(struct kern *k, const struct ref *r)
{
	for (int i = 0; i < r->rank; i++)
		if (r->shape[i].size < 0)
			tc_documented(&k->err, PREFETCH_STATIC, "", tc_ref_text(k, r),
				      r->shape[i].name);
}

int tc_prefetch_cut(const struct ref *r, int ctas)
{
	for (int i = 0; i < r->rank; i++)
		if (r->shape[i].size % ctas == 0 && (i + 1 < r->rank || ctas == 1))
			return i;
	return -1;
}

void tc_check_prefetch(struct kern *k, struct prefetch_op *p)
{
	const struct ref *r = p->ref;
	int ctas = tc_cluster_size(k, p->collective_axes);

	if (r->alloc->space != SP_GMEM)
		tc_check_reference(k, "ref", "GMEM", tc_ref_text(k, r));
	check_bits(k, r->alloc);
	check_extents(k, r);
	tc_check_tma_gmem(k, r);
	if (r->rows && p->collective_axes)
		tc_documented(&k->err, GATHER_COLLECTIVE, "");
	if (tc_prefetch_cut(r, ctas) < 0)
		tc_documented(&k->err, COPY_COLLECTIVE_SIZE, tc_got(k, "ref", r),
			      tc_shape_text(k, r), tc_integer_text(k, ctas));
}

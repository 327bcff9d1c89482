/* tc.mma: scale factors and sparsity metadata. */
#include "mma_shape.h"

static bool shape_is(const struct ref *r, int64_t rows, int64_t columns)
{
	return r->shape[0].size == rows && r->shape[1].size == columns;
}

/* "16 or 32": the blocks of the instructions for these operands and this type of scales. */
static const char *blocks_text(struct kern *k, const struct mma_shape *s, unsigned properties)
{
	const struct mma_row *r = NULL, *next;
	const char *text = "";
	int last = 0;

	for (;;) {
		next = NULL;
		while ((r = tc_mma_next(false, s, properties, r)))
			if (r->block > last && (!next || r->block < next->block))
				next = r;
		if (!next)
			return text;
		last = next->block;
		text = tc_join(k, tc_join(k, text, *text ? " or " : ""),
			       tc_integer_text(k, s->sparse ? 2 * last : last));
	}
}

static void check_block(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	const unsigned operands = MMA_TYPES | MMA_WIDTHS | MMA_SCALING,
		       scale = operands | MMA_SCALE;
	const char *more = tc_got(k, "a_scale", m->a_scale), *t = tc_mma_dtype(s->scale);
	const struct mma_row *r = NULL;
	uint32_t types = 0;

	while ((r = tc_mma_next(false, s, operands, r)))
		types |= r->scale;
	if (!(types >> s->scale & 1) && types >> DT_E4M3 & 1)
		tc_documented(&k->err, MMA_SCALE_FP4, more, t);
	if (!(types >> s->scale & 1))
		tc_documented(&k->err, MMA_SCALE_E8M0, more, t);
	if (!tc_mma_next(false, s, scale | MMA_BLOCK, NULL))
		tc_documented(&k->err, MMA_SCALE_BLOCK, more, blocks_text(k, s, scale),
			      tc_integer_text(k, s->block));
}

static void check_scales(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	const struct alloc *a = m->a_scale->alloc, *b = m->b_scale->alloc;
	const char *a_more = tc_got(k, "a_scale", m->a_scale);
	const char *b_more = tc_got(k, "b_scale", m->b_scale);
	int64_t blocks = m->a_scale->shape[1].size, rows = m->b_scale->shape[0].size;
	int64_t n = s->n * (s->collective ? 2 : 1);

	if (a->dtype != b->dtype)
		tc_documented(&k->err, MMA_SCALE_DTYPES, tc_join(k, a_more, b_more),
			      tc_mma_dtype(a->dtype), tc_mma_dtype(b->dtype));
	check_block(k, m, s);
	if (!shape_is(m->a_scale, 128, blocks))
		tc_documented(&k->err, MMA_A_SCALE_SHAPE, a_more, tc_integer_text(k, blocks),
			      tc_shape_text(k, m->a_scale));
	if (a->layout != TML_SCALES)
		tc_documented(&k->err, MMA_A_SCALE_LAYOUT, a_more, tc_layout_text(k, a));
	if (s->m == 64 && b->layout != TML_B_SCALES_M64_COLLECTIVE)
		tc_documented(&k->err, MMA_B_SCALE_LAYOUT_64, b_more, tc_layout_text(k, b));
	if (s->m != 64 && b->layout != TML_SCALES)
		tc_documented(&k->err, MMA_B_SCALE_LAYOUT_128, b_more, tc_layout_text(k, b));
	if (rows % 128 || rows < n)
		tc_documented(&k->err, MMA_B_SCALE_ROWS, b_more, tc_integer_text(k, n),
			      tc_integer_text(k, rows));
	if (!shape_is(m->b_scale, rows, blocks))
		tc_documented(&k->err, MMA_B_SCALE_SHAPE, b_more, tc_pair_text(k, rows, blocks),
			      tc_shape_text(k, m->b_scale));
}

static void check_metadata(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	const struct ref *r = m->a_sparse_metadata;
	int64_t columns = tc_mma_metadata(s, s->k);

	if (!shape_is(r, s->m, columns))
		tc_documented(&k->err, MMA_METADATA_SHAPE, tc_got(k, "a_sparse_metadata", r),
			      tc_pair_text(k, s->m, columns), tc_shape_text(k, r));
	if (r->alloc->dtype != DT_U2)
		tc_documented(&k->err, MMA_METADATA_DTYPE, tc_got(k, "a_sparse_metadata", r),
			      tc_mma_dtype(r->alloc->dtype));
	if (r->alloc->layout != TML_SPARSE_METADATA)
		tc_documented(&k->err, MMA_METADATA_LAYOUT, tc_got(k, "a_sparse_metadata", r),
			      tc_layout_text(k, r->alloc));
}

/* ---- columns ---------------------------------------------------------------------------- */

struct columns {
	int64_t first, end; /* from the start of the allocation's union, or of the allocation */
};

/* place.c: the members of an alternative stand one after the other. */
static int64_t column_in_union(const struct kern *k, const struct alloc *a)
{
	int64_t column = 0;

	for (int i = 0; a->alias && i < k->allocs.count && k->allocs.item[i] != a; i++) {
		const struct alloc *before = k->allocs.item[i];

		if (before->alias == a->alias && before->alias_member == a->alias_member)
			column += (before->columns + 7) / 8 * 8;
	}
	return column;
}

/* False where only the running kernel knows. */
static bool find_columns(const struct kern *k, const struct ref *r, struct columns *c)
{
	const struct alloc *a = r->alloc;
	int last = a->rank - 1;
	int64_t rows = a->shape[last - 1].size, slot = 0, start;

	for (int i = 0; i < last - 1; i++) {
		if (!tc_val_is_const(r->start[i], &start))
			return false;
		slot = slot * a->shape[i].size + start;
	}
	if (!tc_val_is_const(r->start[last], &start))
		return false;
	c->first = column_in_union(k, a) + slot * tc_tmem_columns(a, rows, a->shape[last].size);
	if (a->layout != TML_M64_COLLECTIVE && a->layout != TML_B_SCALES_M64_COLLECTIVE)
		c->first += tc_tmem_columns(a, rows, start);
	c->end = c->first + tc_tmem_columns(a, rows, r->extent[last].size);
	return true;
}

static void check_overlap(struct kern *k, const struct mma_op *m, const char *name,
			  const struct ref *r)
{
	const struct alloc *acc = m->acc->alloc;
	struct columns d, c;

	if (!r || r->alloc->space != SP_TMEM)
		return;
	if (r->alloc != acc && (!acc->alias || r->alloc->alias != acc->alias))
		return;
	if (find_columns(k, m->acc, &d) && find_columns(k, r, &c) && d.first < c.end &&
	    c.first < d.end)
		tc_documented(&k->err, MMA_OVERLAP,
			      tc_join(k, tc_got(k, "acc", m->acc), tc_got(k, name, r)), name);
}

void tc_check_mma_extras(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	check_overlap(k, m, "a", m->a);
	check_overlap(k, m, "a_scale", m->a_scale);
	check_overlap(k, m, "b_scale", m->b_scale);
	check_overlap(k, m, "a_sparse_metadata", m->a_sparse_metadata);
	if (s->scaled)
		check_scales(k, m, s);
	if (s->sparse)
		check_metadata(k, m, s);
}

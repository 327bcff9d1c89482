/*
 * How boxes of TMA cover a view of SMEM.  A box is written densely, from a multiple of 128 bytes
 * on: in panels it is rows of one panel, in a plain array whole rows, whole tiles and so on, as far
 * as they lie one behind the other.
 */
#include "check_copy.h"
#include "compile.h"

#define BOX_ALIGNED 128 /* bytes */

int64_t tc_largest_divisor(int64_t n, int64_t limit, int64_t multiple)
{
	for (int64_t d = n < limit ? n : limit; d > 1; d--)
		if (n % d == 0 && d % multiple == 0)
			return d;
	return multiple > n ? 1 : multiple;
}

/*
 * The largest part of `extent`, up to `most`, whose next one begins where a box may, `step` bits
 * further on for each index; 0: there is none.
 */
static int64_t aligned_part(int64_t extent, int64_t most, int64_t step)
{
	for (int64_t d = extent < most ? extent : most; d > 0; d--)
		if (extent % d == 0 && (d == extent || d * step % (8 * BOX_ALIGNED) == 0))
			return d;
	return 0;
}

static bool plain_boxes(const struct ref *r, const struct smem_layout *s, int64_t rows,
			int64_t columns, int deep, struct copy_boxes *b)
{
	const struct alloc *a = r->alloc;
	int64_t step = 8 * s->tile_bytes;
	bool whole;

	b->columns = aligned_part(columns, TC_MAP_BOX * tc_tma_unit(a->dtype), s->bits);
	whole = b->columns == s->columns;
	b->rows = whole ? aligned_part(rows, TC_MAP_BOX, 8 * s->row_bytes) : 1;
	if (!b->columns || !b->rows || (!whole && rows > 1 && s->row_bytes % BOX_ALIGNED))
		return false;
	whole = whole && b->rows == s->rows;
	for (int axis = a->rank - 3; axis >= 0; axis--) {
		int64_t extent = r->extent[axis].size;

		b->tiles[axis] = whole && deep-- > 0 ? aligned_part(extent, TC_MAP_BOX, step) : 1;
		if (!b->tiles[axis] || (b->tiles[axis] < extent && step % (8 * BOX_ALIGNED)))
			return false;
		whole = whole && b->tiles[axis] == a->shape[axis].size;
		step *= a->shape[axis].size;
	}
	return true;
}

bool tc_copy_boxes(const struct ref *r, int64_t rows, int64_t columns, int deep,
		   struct copy_boxes *b)
{
	struct smem_layout s;

	tc_smem_layout(r->alloc, &s);
	for (int axis = 0; axis < TC_MAX_RANK; axis++)
		b->tiles[axis] = 1;
	if (!s.panelled && tc_dtypes[r->alloc->dtype].bits == s.bits)
		return plain_boxes(r, &s, rows, columns, deep, b);
	b->columns = s.panelled ? s.panel_columns : TC_PADDED_ROW;
	if (b->columns > columns)
		b->columns = columns;
	b->rows = tc_largest_divisor(rows, TC_MAP_BOX, s.panelled ? 8 : 1);
	if (!s.panelled && b->columns != s.columns)
		b->rows = 1;
	return true;
}

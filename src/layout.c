/* The image of an SMEM allocation: panels, rows, swizzle (docs/isa.md 3; docs/semantics.md 9). */
#include "compile.h"

/*
 * 16 elements of 6 bits, and 16 padded ones of 4, fill 16 bytes: packed, then unused bytes
 * (docs/isa.md 3.7).  TMA and the MMA units know no tighter form of the former.
 */
int tc_stored_bits(const struct alloc *a)
{
	int bits = tc_dtypes[a->dtype].bits;

	return a->padded || (a->space == SP_SMEM && bits == 6) ? 8 : bits;
}

#define CORE_ROW 16 /* bytes of a row of a core matrix */

/* No swizzle, and a tiling whose last dimension is that of core matrices. */
static bool is_cut(const struct alloc *a, int bits)
{
	return a->rank >= 2 && a->tiling_rank >= 1 &&
	       a->tiling[a->tiling_rank - 1] * bits == 8 * CORE_ROW;
}

void tc_smem_layout(const struct alloc *a, struct smem_layout *s)
{
	*s = (struct smem_layout){.bits = tc_stored_bits(a), .rows = 1, .columns = 1, .tiles = 1};
	s->swizzle = a->rank >= 2 && a->swizzle > 0 ? a->swizzle : 0;
	if (a->rank >= 1)
		s->columns = a->shape[a->rank - 1].size;
	if (a->rank >= 2)
		s->rows = a->shape[a->rank - 2].size;
	for (int i = 0; i + 2 < a->rank; i++)
		s->tiles *= a->shape[i].size;
	s->xor_mask = a->atom_32 ? 3 : s->swizzle ? s->swizzle / 16 - 1 : 0;
	s->xor_shift = a->atom_32 ? 5 : 4;
	s->alignment = 128;
	s->panelled = s->swizzle || is_cut(a, s->bits);
	if (s->panelled) {
		s->row_bytes = s->swizzle ? s->swizzle : CORE_ROW;
		s->panel_columns = 8 * s->row_bytes / s->bits;
		s->panels = (s->columns + s->panel_columns - 1) / s->panel_columns;
		if (s->swizzle)
			s->alignment = 8 * (int64_t)s->swizzle;
	} else {
		s->panel_columns = s->columns;
		s->panels = 1;
		s->row_bytes = (s->columns * s->bits + 7) / 8;
	}
	s->panel_bytes = s->rows * s->row_bytes;
	s->tile_bytes = s->panels * s->panel_bytes;
	s->bytes = s->tiles * s->tile_bytes;
}

int64_t tc_smem_linear(const struct smem_layout *s, int64_t row, int64_t column)
{
	int64_t panel = s->panel_columns ? column / s->panel_columns : 0;
	int64_t inside = column - panel * s->panel_columns;

	return panel * s->panel_bytes + row * s->row_bytes + inside * s->bits / 8;
}

int64_t tc_smem_xor(const struct smem_layout *s, int64_t offset)
{
	return offset ^ ((offset >> 7 & s->xor_mask) << s->xor_shift);
}

int64_t tc_axis_stride(const struct alloc *a, int axis)
{
	int64_t stride = 1;

	for (int i = axis + 1; i < a->rank; i++)
		stride *= a->shape[i].size;
	return stride;
}

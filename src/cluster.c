/*
 * The CTAs of a cluster: who shares an axis with whom, and how a multicast copy is cut among them.
 * A CTA's rank counts the last axis fastest (CUDA's x).
 */
#include "compile.h"

bool tc_has_cluster(const struct kern *k)
{
	return tc_cluster_size(k, ~0u) > 1;
}

int tc_cluster_size(const struct kern *k, unsigned axes)
{
	int64_t size = 1;

	for (int i = 0; i < k->cluster_rank; i++)
		if (axes >> i & 1)
			size *= k->cluster[i];
	return (int)size;
}

int tc_cluster_stride(const struct kern *k, int axis)
{
	int64_t stride = 1;

	for (int i = axis + 1; i < k->cluster_rank; i++)
		stride *= k->cluster[i];
	return (int)stride;
}

uint32_t tc_cluster_line(const struct kern *k, unsigned axes)
{
	uint32_t line = 1;

	for (int i = 0; i < k->cluster_rank; i++) {
		uint32_t grown = 0;

		if (!(axes >> i & 1))
			continue;
		for (int64_t j = 0; j < k->cluster[i]; j++)
			grown |= line << (j * tc_cluster_stride(k, i));
		line = grown;
	}
	return line;
}

int tc_cluster_peers(const struct kern *k, const unsigned *group, int count)
{
	uint32_t all = 0;

	/* The lines through rank 0: every CTA's have as many members. */
	for (int i = 0; i < count; i++)
		all |= tc_cluster_line(k, group[i]);
	return count ? __builtin_popcount(all) : 1;
}

const char *tc_axes_text(struct kern *k, unsigned axes)
{
	const char *text = "";
	int n = 0;

	for (int i = 0; i < k->cluster_rank; i++)
		if (axes >> i & 1)
			text = tc_arena_printf(&k->arena, "%s%s\"%s\"", text, n++ ? ", " : "",
					       k->cluster_names[i] ? k->cluster_names[i] : "");
	return n > 1 ? tc_arena_printf(&k->arena, "{%s}", text) : text;
}

/* ---- what differs among CTAs ------------------------------------------------------------------
 */

static bool depends(const struct kern *k, const struct val *v, unsigned axes, bool *seen)
{
	if (!v || seen[v->id])
		return false;
	seen[v->id] = true;
	if (v->kind == VAL_AXIS)
		return v->axis >= k->grid_rank && axes >> (v->axis - k->grid_rank) & 1;
	for (int i = 0; i < 3; i++)
		if (depends(k, v->arg[i], axes, seen))
			return true;
	return false;
}

bool tc_val_along(struct kern *k, const struct val *v, unsigned axes)
{
	if (!v)
		return false;
	return depends(k, v, axes, tc_arena_alloc(&k->arena, (size_t)k->val_count + 1));
}

/* ---- multicast copies ------------------------------------------------------------------------ */

static int common_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t t = a % b;

		a = b;
		b = t;
	}
	return (int)a;
}

bool tc_multicast_cut(const struct smem_layout *s, int64_t rows, int64_t columns, int ctas,
		      struct multicast_cut *cut)
{
	int64_t row_step = 1, column_step;

	*cut = (struct multicast_cut){1, 1};
	if (s->panelled) {
		/* Whole panels, then groups of eight rows. */
		cut->columns = common_divisor(columns / s->panel_columns, ctas);
		cut->rows = ctas / cut->columns;
		return rows % (8 * cut->rows) == 0;
	}
	/* Pieces start at multiples of 128 bytes, where TMA can write. */
	while (row_step * s->row_bytes % 128 && row_step < 128)
		row_step *= 2;
	if (rows % row_step == 0)
		cut->rows = common_divisor(rows / row_step, ctas);
	cut->columns = ctas / cut->rows;
	column_step = 1024 / s->bits;
	return columns % (column_step * cut->columns) == 0 || cut->columns == 1;
}

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

bool tc_cluster_reaches(const struct kern *k, int rank, int other, unsigned axes)
{
	for (int i = 0; i < k->cluster_rank; i++) {
		int stride = tc_cluster_stride(k, i), size = (int)k->cluster[i];

		if (!(axes >> i & 1) && rank / stride % size != other / stride % size)
			return false;
	}
	return true;
}

uint32_t tc_cluster_line(const struct kern *k, unsigned axes)
{
	int ctas = tc_cluster_size(k, ~0u);
	uint32_t line = 0;

	for (int i = 0; i < ctas; i++)
		if (tc_cluster_reaches(k, 0, i, axes))
			line |= 1u << i;
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

/* s32 arithmetic and predicates of known operands; false: none of those that decide a branch. */
static bool apply(enum scalar_op op, const int64_t *x, int64_t *value)
{
	switch (op) {
	case SO_ADD:
		*value = (int32_t)(uint32_t)(x[0] + x[1]);
		return true;
	case SO_SUB:
		*value = (int32_t)(uint32_t)(x[0] - x[1]);
		return true;
	case SO_MUL:
		*value = (int32_t)(uint32_t)(x[0] * x[1]);
		return true;
	case SO_FLOORDIV:
		*value = x[1] ? tc_floor_div(x[0], x[1]) : 0;
		return x[1] != 0;
	case SO_MOD:
		*value = x[1] ? x[0] - tc_floor_div(x[0], x[1]) * x[1] : 0;
		return x[1] != 0;
	case SO_AND:
		*value = x[0] & x[1];
		return true;
	case SO_OR:
		*value = x[0] | x[1];
		return true;
	case SO_XOR:
		*value = x[0] ^ x[1];
		return true;
	case SO_LT:
		*value = x[0] < x[1];
		return true;
	case SO_LE:
		*value = x[0] <= x[1];
		return true;
	case SO_GT:
		*value = x[0] > x[1];
		return true;
	case SO_GE:
		*value = x[0] >= x[1];
		return true;
	case SO_EQ:
		*value = x[0] == x[1];
		return true;
	case SO_NE:
		*value = x[0] != x[1];
		return true;
	case SO_LNOT:
		*value = !x[0];
		return true;
	default:
		return false;
	}
}

static bool counter_in(const struct turn *t, const struct op *loop, int64_t *value)
{
	for (int i = 0; i < t->loops; i++)
		if (t->loop[i] == loop) {
			*value = t->counter[i];
			return true;
		}
	return false;
}

/* Nodes are shared: after `budget` of them the answer is that it is not known. */
static bool value_in(const struct kern *k, const struct val *v, const struct turn *t, int *budget,
		     int64_t *value)
{
	int64_t x[3] = {0};
	bool known[3] = {true, true, true};

	if (v->type == VT_F32 || --*budget < 0)
		return false;
	if (tc_val_is_const(v, value))
		return true;
	if (v->kind == VAL_AXIS && v->axis >= k->grid_rank) {
		*value = t->position[v->axis - k->grid_rank];
		return *value >= 0;
	}
	if (v->kind == VAL_INDEX)
		return counter_in(t, v->def, value);
	if (v->kind != VAL_EXPR)
		return false;
	for (int i = 0; i < 3 && v->arg[i]; i++)
		known[i] = value_in(k, v->arg[i], t, budget, &x[i]);
	if (v->op == SO_LAND || v->op == SO_LOR) {
		bool decides = v->op == SO_LOR; /* one operand of this value is enough */

		*value = (known[0] && !!x[0] == decides) || (known[1] && !!x[1] == decides)
				 ? decides
				 : !decides;
		return *value == decides || (known[0] && known[1]);
	}
	if (v->op == SO_SELECT) {
		*value = x[x[0] ? 1 : 2];
		return known[0] && known[x[0] ? 1 : 2];
	}
	return known[0] && known[1] && apply(v->op, x, value);
}

bool tc_val_in(const struct kern *k, const struct val *v, const struct turn *t, int64_t *value)
{
	int budget = 1000;

	return v && value_in(k, v, t, &budget, value);
}

bool tc_val_at(const struct kern *k, const struct val *v, const int *position, int64_t *value)
{
	struct turn t = {.position = position};

	return tc_val_in(k, v, &t, value);
}

bool tc_next_position(const struct kern *k, int *position)
{
	for (int i = k->cluster_rank; i-- > 0;) {
		if (++position[i] < k->cluster[i])
			return true;
		position[i] = 0;
	}
	return false;
}

void tc_position_of(const struct kern *k, int rank, int *position)
{
	for (int i = 0; i < k->cluster_rank; i++)
		position[i] = rank / tc_cluster_stride(k, i) % (int)k->cluster[i];
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

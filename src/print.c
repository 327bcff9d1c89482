/* Recorded objects as text: shapes as Python tuples, one true line each. */
#include "tc.h"

#include <string.h>

const char *const tc_tmem_layouts[] = {"default",          "half_lane", "m64_collective",
				       "m64_collective_a", "scales",    "b_scales_m64_collective",
				       "sparse_metadata",  NULL};

const char *const tc_space_names[] = {"GMEM", "SMEM", "TMEM"};

static const char *text_of(const struct strbuf *b)
{
	return b->text ? b->text : "";
}

/* ---- shapes and refs ----------------------------------------------------- */

void tc_print_shape(struct strbuf *b, const struct dim *shape, int rank)
{
	tc_puts(b, "(");
	for (int i = 0; i < rank; i++) {
		tc_puts(b, i ? ", " : "");
		if (shape[i].size < 0)
			tc_puts(b, shape[i].name ? shape[i].name : "?");
		else
			tc_printf(b, "%lld", (long long)shape[i].size);
	}
	tc_puts(b, rank == 1 ? ",)" : ")");
}

const char *tc_shape_text(struct kern *k, const struct ref *r)
{
	struct strbuf b = {.arena = &k->arena};

	tc_print_shape(&b, r->shape, r->rank);
	return text_of(&b);
}

bool tc_ref_is_whole(const struct ref *r)
{
	if (r->rank != r->alloc->rank || r->rows)
		return false;
	for (int i = 0; i < r->rank; i++)
		if (r->axis[i] != i || r->start[i] || r->extent[i].size != r->alloc->shape[i].size)
			return false;
	return true;
}

void tc_print_line(struct strbuf *b, const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s; s++)
		tc_printf(b, *s < ' ' || *s == 127 || *s == '\\' ? "\\x%02x" : "%c", *s);
}

void tc_print_alloc_name(struct strbuf *b, const struct alloc *a)
{
	static const char *const kind[] = {"arg", "smem", "tmem"};

	if (a->name)
		tc_print_line(b, a->name);
	else
		tc_printf(b, "%s%d", kind[a->space], a->id);
}

void tc_print_attributes(struct strbuf *b, const struct alloc *a)
{
	if (a->space == SP_SMEM && a->swizzle)
		tc_printf(b, ", swizzle %d%s", a->swizzle, a->atom_32 ? " by 32" : "");
	if (a->padded)
		tc_puts(b, ", padded");
	if (a->space != SP_TMEM)
		return;
	if (a->packing > 1)
		tc_puts(b, ", packed");
	if (a->collective)
		tc_puts(b, ", collective");
	if (a->layout != TML_DEFAULT)
		tc_printf(b, ", %s layout", tc_tmem_layouts[a->layout]);
}

const char *tc_ref_text(struct kern *k, const struct ref *r)
{
	const struct alloc *a = r->alloc;
	struct strbuf b = {.arena = &k->arena};

	tc_printf(&b, "%s ref, %s ", tc_space_names[a->space], tc_dtypes[a->dtype].name);
	tc_print_shape(&b, r->shape, r->rank);
	if (!tc_ref_is_whole(r)) {
		tc_puts(&b, r->transposed ? ", transposed view of " : ", view of ");
		tc_print_shape(&b, a->shape, a->rank);
	}
	tc_print_attributes(&b, a);
	if (a->space == SP_GMEM)
		tc_printf(&b, ", argument %d", a->id + 1);
	else
		tc_printf(&b, ", allocated at %s", tc_pos_text(k, a->pos));
	if (a->name)
		tc_printf(&b, " (\"%s\")", a->name);
	if (r->cluster_rank)
		tc_printf(&b, ", of CTA %s", tc_val_text(k, r->cluster_rank));
	return text_of(&b);
}

/* ---- values -------------------------------------------------------------- */

static const char *const scalar_ops[] = {
	[SO_ADD] = "+",     [SO_SUB] = "-",       [SO_MUL] = "*",      [SO_FLOORDIV] = "//",
	[SO_MOD] = "%",     [SO_AND] = "&",       [SO_OR] = "|",       [SO_XOR] = "~",
	[SO_NOT] = "~",     [SO_NEG] = "-",       [SO_SHL] = "<<",     [SO_SHR] = ">>",
	[SO_DIV] = "/",     [SO_MIN] = "min",     [SO_MAX] = "max",    [SO_LT] = "<",
	[SO_LE] = "<=",     [SO_GT] = ">",        [SO_GE] = ">=",      [SO_EQ] = "==",
	[SO_NE] = "!=",     [SO_LAND] = "and",    [SO_LOR] = "or",     [SO_LNOT] = "not ",
	[SO_SELECT] = "",   [SO_TO_F32] = "f32",  [SO_TO_S32] = "s32", [SO_EXP2] = "exp2",
	[SO_LOG2] = "log2", [SO_RSQRT] = "rsqrt", [SO_SQRT] = "sqrt",  [SO_TANH] = "tanh",
};

static void print_val(struct strbuf *b, struct kern *k, const struct val *v, int *budget, bool top);

static void print_call(struct strbuf *b, struct kern *k, const char *name, const struct val *v,
		       int *budget)
{
	tc_printf(b, "%s(", name);
	for (int i = 0; i < 3 && v->arg[i]; i++) {
		tc_puts(b, i ? ", " : "");
		print_val(b, k, v->arg[i], budget, true);
	}
	tc_puts(b, ")");
}

static void print_expr(struct strbuf *b, struct kern *k, const struct val *v, int *budget, bool top)
{
	switch (v->op) {
	case SO_MIN:
	case SO_MAX:
	case SO_TO_F32:
	case SO_TO_S32:
	case SO_EXP2:
	case SO_LOG2:
	case SO_RSQRT:
	case SO_SQRT:
	case SO_TANH:
		print_call(b, k, scalar_ops[v->op], v, budget);
		return;
	case SO_SELECT:
		print_call(b, k, "select", v, budget);
		return;
	case SO_NOT:
	case SO_NEG:
	case SO_LNOT:
		tc_puts(b, scalar_ops[v->op]);
		print_val(b, k, v->arg[0], budget, false);
		return;
	default:
		break;
	}
	tc_puts(b, top ? "" : "(");
	print_val(b, k, v->arg[0], budget, false);
	tc_printf(b, " %s ", scalar_ops[v->op]);
	print_val(b, k, v->arg[1], budget, false);
	tc_puts(b, top ? "" : ")");
}

static void print_constant(struct strbuf *b, const struct val *v)
{
	if (v->type == VT_S32)
		tc_printf(b, "%d", (int)v->i);
	else if (v->type == VT_PRED)
		tc_puts(b, v->i ? "true" : "false");
	else
		tc_printf(b, "%.9g%s", (double)v->f,
			  v->f == (float)(int)v->f && v->f > -1e9f && v->f < 1e9f ? ".0" : "");
}

static void print_axis(struct strbuf *b, const struct kern *k, int axis)
{
	bool cluster = axis >= k->grid_rank;
	int i = cluster ? axis - k->grid_rank : axis;
	const char *name = cluster ? k->cluster_names[i] : k->grid_names[i];

	if (name)
		tc_puts(b, name);
	else
		tc_printf(b, "%s%d", cluster ? "cluster" : "grid", i);
}

/* Expressions share nodes, so their text may be far longer than the graph: cut at the budget. */
/* Which of the results of a query it is. */
static void print_member(struct strbuf *b, const struct kern *k, const struct query_cancel_op *q,
			 const struct val *v)
{
	for (int i = 0; i < q->count; i++) {
		const char *name = k->grid_names[q->axis[i]];

		if (q->index[i] != v)
			continue;
		tc_puts(b, ".");
		if (name)
			tc_print_line(b, name);
		else
			tc_printf(b, "%d", q->axis[i]);
	}
}

static void print_val(struct strbuf *b, struct kern *k, const struct val *v, int *budget, bool top)
{
	if (--*budget < 0) {
		tc_puts(b, "...");
		return;
	}
	switch (v->kind) {
	case VAL_CONST:
		print_constant(b, v);
		break;
	case VAL_EXPR:
		print_expr(b, k, v, budget, top);
		break;
	case VAL_INDEX:
		tc_printf(b, "i%d", v->def ? v->def->id : 0);
		break;
	case VAL_AXIS:
		print_axis(b, k, v->axis);
		break;
	case VAL_DIM:
		tc_puts(b, k->dim_names[v->axis]);
		break;
	case VAL_OP:
		tc_printf(b, "%%%d", v->def ? v->def->id : 0);
		if (v->def && v->def->kind == OP_QUERY_CLUSTER_CANCEL)
			print_member(b, k, &v->def->u.query_cancel, v);
		break;
	}
}

void tc_print_val(struct strbuf *b, struct kern *k, const struct val *v)
{
	int budget = 40;

	if (v)
		print_val(b, k, v, &budget, true);
	else
		tc_puts(b, "0");
}

const char *tc_val_text(struct kern *k, const struct val *v)
{
	struct strbuf b = {.arena = &k->arena};

	tc_print_val(&b, k, v);
	return text_of(&b);
}

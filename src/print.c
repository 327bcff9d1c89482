/* Recorded objects as text: shapes as Python tuples, one true line each. */
#include "tc.h"

#include <string.h>

static const char *const op_names[] = {
#define OP(id, name, ...) [OP_##id] = name,
#include "ops.def"
};

static const char *const space_names[] = {"GMEM", "SMEM", "TMEM"};

static const char *take(struct kern *k, struct strbuf *b)
{
	const char *text = tc_arena_strdup(&k->arena, b->text ? b->text : "");

	tc_strbuf_free(b);
	return text;
}

/* ---- shapes and refs ---------------------------------------------------------------- */

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
	struct strbuf b = {0};

	tc_print_shape(&b, r->shape, r->rank);
	return take(k, &b);
}

static bool is_whole(const struct ref *r)
{
	if (r->rank != r->alloc->rank)
		return false;
	for (int i = 0; i < r->rank; i++)
		if (r->axis[i] != i || r->start[i] || r->extent[i].size != r->alloc->shape[i].size)
			return false;
	return true;
}

static void print_alloc_name(struct strbuf *b, const struct alloc *a)
{
	static const char *const kind[] = {"arg", "smem", "tmem"};

	if (a->name)
		tc_puts(b, a->name);
	else
		tc_printf(b, "%s%d", kind[a->space], a->id);
}

static void print_attributes(struct strbuf *b, const struct alloc *a)
{
	static const char *const layout[] = {
		[TML_DEFAULT] = "",
		[TML_HALF_LANE] = ", half-lane layout",
		[TML_M64_COLLECTIVE] = ", m64_collective layout",
		[TML_SCALES] = ", scales layout",
		[TML_B_SCALES_M64_COLLECTIVE] = ", b_scales_m64_collective layout",
		[TML_SPARSE_METADATA] = ", sparse_metadata layout",
	};

	if (a->space == SP_SMEM && a->swizzle)
		tc_printf(b, ", swizzle %d", a->swizzle);
	if (a->space != SP_TMEM)
		return;
	if (a->packing > 1)
		tc_puts(b, ", packed");
	if (a->collective)
		tc_puts(b, ", collective");
	tc_puts(b, layout[a->layout]);
}

const char *tc_ref_text(struct kern *k, const struct ref *r)
{
	const struct alloc *a = r->alloc;
	struct strbuf b = {0};

	tc_printf(&b, "%s ref, %s ", space_names[a->space], tc_dtypes[a->dtype].name);
	tc_print_shape(&b, r->shape, r->rank);
	if (!is_whole(r)) {
		tc_puts(&b, r->transposed ? ", transposed view of " : ", view of ");
		tc_print_shape(&b, a->shape, a->rank);
	}
	print_attributes(&b, a);
	if (a->space == SP_GMEM)
		tc_printf(&b, ", argument %d", a->id + 1);
	else
		tc_printf(&b, ", allocated at %s", tc_pos_text(k, a->pos));
	if (a->name)
		tc_printf(&b, " (\"%s\")", a->name);
	return take(k, &b);
}

/* ---- values ------------------------------------------------------------------------------ */

static const char *const scalar_ops[] = {
	[SO_ADD] = "+",   [SO_SUB] = "-",      [SO_MUL] = "*",      [SO_FLOORDIV] = "//",
	[SO_MOD] = "%",   [SO_AND] = "&",      [SO_OR] = "|",       [SO_XOR] = "~",
	[SO_NOT] = "~",   [SO_NEG] = "-",      [SO_SHL] = "<<",     [SO_SHR] = ">>",
	[SO_DIV] = "/",   [SO_MIN] = "min",    [SO_MAX] = "max",    [SO_LT] = "<",
	[SO_LE] = "<=",   [SO_GT] = ">",       [SO_GE] = ">=",      [SO_EQ] = "==",
	[SO_NE] = "!=",   [SO_LAND] = "and",   [SO_LOR] = "or",     [SO_LNOT] = "not ",
	[SO_SELECT] = "", [SO_TO_F32] = "f32", [SO_TO_S32] = "s32",
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
		break;
	}
}

static void put_val(struct strbuf *b, struct kern *k, const struct val *v)
{
	int budget = 40;

	if (v)
		print_val(b, k, v, &budget, true);
	else
		tc_puts(b, "0");
}

const char *tc_val_text(struct kern *k, const struct val *v)
{
	struct strbuf b = {0};

	put_val(&b, k, v);
	return take(k, &b);
}

/* ---- operands of ops ---------------------------------------------------------------------- */

/* smem0[i3 % 4, 0:128, 0:64], with .T for a transposed view. */
static void put_ref(struct strbuf *b, struct kern *k, const struct ref *r)
{
	const struct alloc *a = r->alloc;

	print_alloc_name(b, a);
	if (is_whole(r))
		return;
	tc_puts(b, "[");
	for (int i = 0; i < a->rank; i++) {
		bool kept = false;

		for (int d = 0; d < r->rank; d++)
			kept |= r->axis[d] == i;
		tc_puts(b, i ? ", " : "");
		if (kept && !r->start[i] && r->extent[i].size == a->shape[i].size) {
			tc_puts(b, ":");
			continue;
		}
		put_val(b, k, r->start[i]);
		if (kept)
			tc_printf(b, " +: %lld", (long long)r->extent[i].size);
	}
	tc_puts(b, r->transposed ? "].T" : "]");
}

static void put_barrier(struct strbuf *b, struct kern *k, const struct barrier_ref *r)
{
	if (r->barrier->name)
		tc_puts(b, r->barrier->name);
	else
		tc_printf(b, "barrier%d", r->barrier->id);
	if (r->index) {
		tc_puts(b, "[");
		put_val(b, k, r->index);
		tc_puts(b, "]");
	}
}

static void put_frag(struct strbuf *b, const struct frag *f)
{
	tc_printf(b, "%%%d", f->def ? f->def->id : 0);
}

static void put_frag_type(struct strbuf *b, struct kern *k, const struct frag *f)
{
	tc_printf(b, " -> %s", tc_frag_text(k, f));
}

static const char *const reduce_names[] = {"sum", "max", "min"};

static void put_cluster_axes(struct strbuf *b, const struct kern *k, unsigned axes)
{
	const char *separator = " collective_axes=";

	for (int i = 0; i < 3; i++) {
		if (axes & 1u << i) {
			tc_printf(b, "%s%s", separator, k->cluster_names[i]);
			separator = ",";
		}
	}
}

static void put_collective(struct strbuf *b, const char *name)
{
	if (name)
		tc_printf(b, " collective_axis=%s", name);
}

static void put_copy(struct strbuf *b, struct kern *k, const struct op *o)
{
	const struct copy_op *c = &o->u.copy;

	put_ref(b, k, c->src);
	tc_puts(b, " -> ");
	put_ref(b, k, c->dst);
	if (c->barrier.barrier) {
		tc_puts(b, " barrier=");
		put_barrier(b, k, &c->barrier);
	}
	put_cluster_axes(b, k, c->collective_axes);
	if (c->leader_tracked && c->partitioned)
		tc_printf(b, " leader_tracked=partitioned(%d)", c->partition_axis);
	else if (c->leader_tracked)
		tc_puts(b, " leader_tracked=replicated");
	if (c->has_reduce)
		tc_printf(b, " reduce=%s", reduce_names[c->reduce]);
	if (o->kind == OP_COPY_SMEM_TO_GMEM && !c->commit_group)
		tc_puts(b, " commit_group=false");
}

static void put_mma(struct strbuf *b, struct kern *k, const struct mma_op *m)
{
	put_ref(b, k, m->acc);
	if (m->accumulate)
		tc_puts(b, " (+)= ");
	else
		tc_puts(b, m->accumulate_const && !m->accumulate_value ? " = " : " += ");
	put_ref(b, k, m->a);
	tc_puts(b, " @ ");
	put_ref(b, k, m->b);
	if (m->accumulate) {
		tc_puts(b, " accumulate=");
		put_val(b, k, m->accumulate);
	}
	if (m->a_scale) {
		tc_puts(b, " a_scale=");
		put_ref(b, k, m->a_scale);
	}
	if (m->b_scale) {
		tc_puts(b, " b_scale=");
		put_ref(b, k, m->b_scale);
	}
	if (m->a_sparse_metadata) {
		tc_puts(b, " a_sparse_metadata=");
		put_ref(b, k, m->a_sparse_metadata);
	}
	if (m->barrier.barrier) {
		tc_puts(b, " barrier=");
		put_barrier(b, k, &m->barrier);
	}
	put_collective(b, m->collective_axis_name);
}

static void put_quoted(struct strbuf *b, const char *text)
{
	char piece[2] = {0};

	tc_puts(b, "\"");
	for (; *text; text++) {
		piece[0] = *text;
		tc_puts(b, *text == '\n' ? "\\n" : *text == '"' || *text == '\\' ? "\\" : "");
		if (*text != '\n')
			tc_puts(b, piece);
	}
	tc_puts(b, "\"");
}

static void put_print(struct strbuf *b, struct kern *k, const struct print_op *p)
{
	put_quoted(b, p->format);
	for (int i = 0; i < p->count; i++) {
		tc_puts(b, ", ");
		put_val(b, k, p->values[i]);
	}
	if (p->frag) {
		tc_puts(b, ", ");
		put_frag(b, p->frag);
	}
}

static void put_range(struct strbuf *b, struct kern *k, const struct op *o)
{
	tc_printf(b, "i%d = ", o->id);
	put_val(b, k, o->u.range.lo);
	tc_puts(b, " to ");
	put_val(b, k, o->u.range.hi);
	tc_puts(b, " step ");
	put_val(b, k, o->u.range.step);
}

static void put_var(struct strbuf *b, struct kern *k, const struct op *o)
{
	tc_printf(b, "var%d", o->u.var.var->id);
	if (o->kind == OP_VAR_GET)
		return;
	tc_puts(b, " = ");
	if (o->u.var.frag)
		put_frag(b, o->u.var.frag);
	else
		put_val(b, k, o->u.var.value);
}

static void put_role(struct strbuf *b, const struct role *r)
{
	int count = r->warpgroups ? r->warps / 4 : r->warps;

	tc_printf(b, "\"%s\" (%d %s%s)", r->name, count, r->warpgroups ? "warpgroup" : "warp",
		  count == 1 ? "" : "s");
}

static void put_elementwise(struct strbuf *b, const struct frag_elementwise_op *e)
{
	tc_printf(b, "%s ", tc_frag_op_name(e->op));
	for (int i = 0; i < 3 && e->arg[i]; i++) {
		tc_puts(b, i ? ", " : "");
		put_frag(b, e->arg[i]);
	}
}

/* What follows the name of an op that works on fragments. */
static void put_frag_operands(struct strbuf *b, struct kern *k, const struct op *o)
{
	switch (o->kind) {
	case OP_ASYNC_LOAD_TMEM:
	case OP_LOAD:
		put_ref(b, k, o->u.load.ref);
		put_frag_type(b, k, o->u.load.result);
		break;
	case OP_ASYNC_STORE_TMEM:
	case OP_STORE:
		put_ref(b, k, o->u.store.ref);
		tc_puts(b, " = ");
		put_frag(b, o->u.store.value);
		break;
	case OP_FRAG_ELEMENTWISE:
		put_elementwise(b, &o->u.elementwise);
		put_frag_type(b, k, o->u.elementwise.result);
		break;
	case OP_FRAG_CAST:
		put_frag(b, o->u.cast.arg);
		put_frag_type(b, k, o->u.cast.result);
		break;
	case OP_FRAG_FULL:
		put_val(b, k, o->u.full.value);
		put_frag_type(b, k, o->u.full.result);
		break;
	case OP_FRAG_IOTA:
		tc_printf(b, "axis=%d", o->u.iota.axis);
		put_frag_type(b, k, o->u.iota.result);
		break;
	case OP_FRAG_BROADCAST:
		put_frag(b, o->u.broadcast.arg);
		tc_printf(b, " axis=%d", o->u.broadcast.axis);
		put_frag_type(b, k, o->u.broadcast.result);
		break;
	case OP_FRAG_REDUCE:
		tc_printf(b, "%s ", reduce_names[o->u.reduce.op]);
		put_frag(b, o->u.reduce.arg);
		tc_printf(b, " axis=%d", o->u.reduce.axis);
		put_frag_type(b, k, o->u.reduce.result);
		break;
	default:
		break;
	}
}

static void put_operands(struct strbuf *b, struct kern *k, const struct op *o)
{
	switch (o->kind) {
	case OP_RANGE:
		put_range(b, k, o);
		break;
	case OP_STOP:
		put_val(b, k, o->u.stop.cond);
		break;
	case OP_WHEN:
		put_val(b, k, o->u.when.cond);
		break;
	case OP_ROLE:
		put_role(b, o->u.role.role);
		break;
	case OP_VAR_NEW:
	case OP_VAR_SET:
	case OP_VAR_GET:
		put_var(b, k, o);
		break;
	case OP_LOAD_SCALAR:
		put_ref(b, k, o->u.load_scalar.ref);
		break;
	case OP_STORE_SCALAR:
		put_ref(b, k, o->u.store_scalar.ref);
		tc_puts(b, " = ");
		put_val(b, k, o->u.store_scalar.value);
		break;
	case OP_COPY_GMEM_TO_SMEM:
	case OP_COPY_SMEM_TO_GMEM:
		put_copy(b, k, o);
		break;
	case OP_WAIT_SMEM_TO_GMEM:
		tc_printf(b, "%d%s", o->u.wait_smem.n,
			  o->u.wait_smem.read_only ? " read_only" : "");
		break;
	case OP_BARRIER_ARRIVE:
	case OP_COMMIT_ARRIVE:
		put_barrier(b, k, &o->u.arrive.barrier);
		put_collective(b, o->u.arrive.collective_axis_name);
		break;
	case OP_BARRIER_WAIT:
		put_barrier(b, k, &o->u.wait.barrier);
		if (o->u.wait.parity) {
			tc_puts(b, " parity=");
			put_val(b, k, o->u.wait.parity);
		}
		break;
	case OP_MMA:
		put_mma(b, k, &o->u.mma);
		break;
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		put_ref(b, k, o->u.tmem_copy.src);
		tc_puts(b, " -> ");
		put_ref(b, k, o->u.tmem_copy.dst);
		break;
	case OP_PRINT:
		put_print(b, k, &o->u.print);
		break;
	case OP_ASSERT:
		put_val(b, k, o->u.assertion.cond);
		tc_puts(b, ", ");
		put_quoted(b, o->u.assertion.message);
		break;
	case OP_SET_MAX_REGISTERS:
		tc_printf(b, "%d", o->u.registers.count);
		break;
	default:
		put_frag_operands(b, k, o);
		break;
	}
}

static bool has_result(const struct op *o)
{
	return o->kind == OP_VAR_GET || o->kind == OP_LOAD_SCALAR || o->kind == OP_LOAD ||
	       o->kind == OP_ASYNC_LOAD_TMEM ||
	       (o->kind >= OP_FRAG_ELEMENTWISE && o->kind <= OP_FRAG_REDUCE);
}

void tc_print_op(struct strbuf *b, struct kern *k, const struct op *o)
{
	size_t before;

	if (has_result(o))
		tc_printf(b, "%%%d = ", o->id);
	tc_printf(b, "%s ", o->kind == OP_FRAG_ELEMENTWISE ? "" : op_names[o->kind]);
	before = b->length;
	if (o->kind == OP_FRAG_ELEMENTWISE)
		b->text[--b->length] = '\0';
	put_operands(b, k, o);
	if (b->length == before && b->text[before - 1] == ' ')
		b->text[--b->length] = '\0';
}

/* ---- the scope tree -------------------------------------------------------------------------- */

static void print_scope(struct strbuf *b, struct kern *k, const struct scope *s, int depth);

static void print_nested(struct strbuf *b, struct kern *k, const struct op *o, int depth)
{
	switch (o->kind) {
	case OP_RANGE:
		print_scope(b, k, o->u.range.body, depth);
		break;
	case OP_LOOP:
		print_scope(b, k, o->u.loop.body, depth);
		break;
	case OP_ROLE:
		print_scope(b, k, o->u.role.body, depth);
		break;
	case OP_WHEN:
		print_scope(b, k, o->u.when.then, depth);
		if (o->u.when.otherwise) {
			tc_printf(b, "%*selse\n", 2 * (depth - 1), "");
			print_scope(b, k, o->u.when.otherwise, depth);
		}
		break;
	default:
		break;
	}
}

static void print_scope(struct strbuf *b, struct kern *k, const struct scope *s, int depth)
{
	for (const struct op *o = s ? s->first : NULL; o; o = o->next) {
		tc_printf(b, "%*s", 2 * depth, "");
		tc_print_op(b, k, o);
		if (o->pos.file)
			tc_printf(b, "  -- %s:%d", o->pos.file, o->pos.line);
		tc_puts(b, "\n");
		print_nested(b, k, o, depth + 1);
	}
}

static void print_axes(struct strbuf *b, const char *title, int rank, const int64_t *size,
		       const char *const *names)
{
	if (!rank)
		return;
	tc_printf(b, "%s (", title);
	for (int i = 0; i < rank; i++) {
		tc_printf(b, "%s%s%s", i ? ", " : "", names[i] ? names[i] : "",
			  names[i] ? "=" : "");
		if (size[i] < 0)
			tc_puts(b, "?");
		else
			tc_printf(b, "%lld", (long long)size[i]);
	}
	tc_puts(b, ")");
}

static void print_objects(struct strbuf *b, struct kern *k)
{
	for (int i = 0; i < k->arg_count + k->allocs.count; i++) {
		const struct alloc *a =
			i < k->arg_count ? k->args[i]->alloc : k->allocs.item[i - k->arg_count];

		print_alloc_name(b, a);
		tc_printf(b, ": %s %s ", space_names[a->space], tc_dtypes[a->dtype].name);
		tc_print_shape(b, a->shape, a->rank);
		print_attributes(b, a);
		if (a->alias)
			tc_printf(b, ", union %d member %d", a->alias->id, a->alias_member);
		tc_puts(b, "\n");
	}
	for (int i = 0; i < k->barriers.count; i++) {
		const struct barrier *s = k->barriers.item[i];
		struct barrier_ref whole = {.barrier = k->barriers.item[i]};

		put_barrier(b, k, &whole);
		tc_printf(b, ": %s, num_arrivals %d, num_barriers %d%s",
			  s->cluster ? "cluster_barrier" : "barrier", s->num_arrivals,
			  s->num_barriers, s->orders_tensor_core ? ", orders_tensor_core" : "");
		put_cluster_axes(b, k, s->cluster_axes);
		tc_puts(b, "\n");
	}
}

void tc_print_ops(struct strbuf *b, struct kern *k)
{
	tc_printf(b, "kernel \"%s\"", k->name);
	print_axes(b, ", grid", k->grid_rank, k->grid, k->grid_names);
	print_axes(b, ", cluster", k->cluster_rank, k->cluster, k->cluster_names);
	tc_puts(b, "\n");
	print_objects(b, k);
	print_scope(b, k, k->root, 0);
}

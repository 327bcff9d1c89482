/* Operations and the scope tree as text. */
#include "check_atomic.h"
#include "check_copy.h"

#include <string.h>

static const char *const op_names[] = {
#define OP(id, name, ...) [OP_##id] = name,
#include "ops.def"
};

const char *tc_op_name(const struct op *op)
{
	if (op->kind == OP_ATOMIC)
		return op->u.store.atomic->name;
	if (op->kind == OP_ATOMIC_SCALAR)
		return op->u.store_scalar.atomic->name;
	return op_names[op->kind];
}

/* ---- operands of ops ----------------------------------------------------- */

/* smem0[i3 % 4, 0:128, 0:64], with .T for a transposed view. */
/* Memory of another CTA. */
static void put_rank(struct strbuf *b, struct kern *k, const struct val *rank)
{
	if (!rank)
		return;
	tc_puts(b, "@");
	tc_print_val(b, k, rank);
}

static void put_ref(struct strbuf *b, struct kern *k, const struct ref *r)
{
	const struct alloc *a = r->alloc;

	tc_print_alloc_name(b, a);
	put_rank(b, k, r->cluster_rank);
	if (tc_ref_is_whole(r))
		return;
	tc_puts(b, "[");
	for (int i = 0; i < a->rank; i++) {
		bool kept = false;

		for (int d = 0; d < r->rank; d++)
			kept |= r->axis[d] == i;
		tc_puts(b, i ? ", " : "");
		if (r->rows && i == r->axis[0]) {
			put_ref(b, k, r->rows);
			continue;
		}
		if (kept && !r->start[i] && r->extent[i].size == a->shape[i].size) {
			tc_puts(b, ":");
			continue;
		}
		tc_print_val(b, k, r->start[i]);
		if (kept)
			tc_printf(b, " +: %lld", (long long)r->extent[i].size);
	}
	tc_puts(b, r->transposed ? "].T" : "]");
}

static void put_barrier(struct strbuf *b, struct kern *k, const struct barrier_ref *r)
{
	if (r->barrier->name)
		tc_print_line(b, r->barrier->name);
	else
		tc_printf(b, "barrier%d", r->barrier->id);
	put_rank(b, k, r->cluster_rank);
	if (r->index) {
		tc_puts(b, "[");
		tc_print_val(b, k, r->index);
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

static const char *const reduce_names[] = {"sum", "max", "min", "absmax", "absmin"};

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

/* A group of several axes stands in braces. */
static void put_groups(struct strbuf *b, struct kern *k, const struct barrier *s)
{
	for (int i = 0; i < s->cluster_groups; i++)
		tc_printf(b, "%s%s",
			  i ? "," : " collective_axes=", tc_axes_text(k, s->cluster_group[i]));
	if (s->leader_tracked)
		tc_puts(b, " leader_tracked");
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
	if (c->reduce)
		tc_printf(b, " reduction_op=%s", c->reduce->name);
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
		tc_print_val(b, k, m->accumulate);
	}
	if (m->depth)
		tc_printf(b, " depth=%lld", (long long)m->depth);
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
		tc_print_val(b, k, p->values[i]);
	}
	if (p->frag) {
		tc_puts(b, ", ");
		put_frag(b, p->frag);
	}
}

static void put_range(struct strbuf *b, struct kern *k, const struct op *o)
{
	tc_printf(b, "i%d = ", o->id);
	tc_print_val(b, k, o->u.range.lo);
	tc_puts(b, " to ");
	tc_print_val(b, k, o->u.range.hi);
	tc_puts(b, " step ");
	tc_print_val(b, k, o->u.range.step);
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
		tc_print_val(b, k, o->u.var.value);
}

static void put_role(struct strbuf *b, const struct role *r)
{
	int count = r->warpgroups ? r->warps / 4 : r->warps;

	tc_puts(b, "\"");
	tc_print_line(b, r->name);
	tc_printf(b, "\" (%d %s%s)", count, r->warpgroups ? "warpgroup" : "warp",
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
		if (o->u.store.barrier.barrier) {
			tc_puts(b, " barrier=");
			put_barrier(b, k, &o->u.store.barrier);
		}
		break;
	case OP_ATOMIC:
		put_ref(b, k, o->u.store.ref);
		tc_puts(b, ", ");
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
		tc_print_val(b, k, o->u.full.value);
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
		tc_print_val(b, k, o->u.stop.cond);
		break;
	case OP_WHEN:
		tc_print_val(b, k, o->u.when.cond);
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
		tc_print_val(b, k, o->u.store_scalar.value);
		break;
	case OP_ATOMIC_SCALAR:
		put_ref(b, k, o->u.store_scalar.ref);
		tc_puts(b, ", ");
		tc_print_val(b, k, o->u.store_scalar.value);
		break;
	case OP_COPY_GMEM_TO_SMEM:
	case OP_COPY_SMEM_TO_GMEM:
		put_copy(b, k, o);
		break;
	case OP_WAIT_SMEM_TO_GMEM:
		tc_printf(b, "%d%s", o->u.wait_smem.n,
			  o->u.wait_smem.read_only ? " read_only"
			  : o->u.wait_smem.written ? " written"
						   : "");
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
			tc_print_val(b, k, o->u.wait.parity);
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
		tc_print_val(b, k, o->u.assertion.cond);
		tc_puts(b, ", ");
		put_quoted(b, o->u.assertion.message);
		break;
	case OP_SET_MAX_REGISTERS:
		tc_printf(b, "%d", o->u.registers.count);
		break;
	case OP_SEMAPHORE_SIGNAL:
	case OP_SEMAPHORE_WAIT:
		put_ref(b, k, o->u.semaphore.ref);
		tc_puts(b, o->kind == OP_SEMAPHORE_SIGNAL ? " += " : " >= ");
		tc_print_val(b, k, o->u.semaphore.value);
		if (o->u.semaphore.decrement)
			tc_puts(b, " decrement");
		tc_puts(b, o->u.semaphore.system ? " memory_scope=sys" : " memory_scope=gpu");
		break;
	case OP_SEMAPHORE_SIGNAL_PARALLEL:
		for (int i = 0; i < o->u.signals.count; i++) {
			tc_puts(b, i ? ", " : "");
			put_ref(b, k, o->u.signals.ref[i]);
			tc_puts(b, " += ");
			tc_print_val(b, k, o->u.signals.value[i]);
		}
		tc_puts(b, o->u.signals.system ? " memory_scope=sys" : " memory_scope=gpu");
		break;
	case OP_ASYNC_PREFETCH:
		put_ref(b, k, o->u.prefetch.ref);
		put_cluster_axes(b, k, o->u.prefetch.collective_axes);
		break;
	case OP_TRY_CLUSTER_CANCEL:
		put_ref(b, k, o->u.try_cancel.result);
		tc_puts(b, " barrier=");
		put_barrier(b, k, &o->u.try_cancel.barrier);
		break;
	case OP_QUERY_CLUSTER_CANCEL:
		put_ref(b, k, o->u.query_cancel.result);
		break;
	default:
		put_frag_operands(b, k, o);
		break;
	}
}

static bool has_result(const struct op *o)
{
	if (o->kind == OP_ATOMIC_SCALAR)
		return o->u.store_scalar.result;
	return o->kind == OP_VAR_GET || o->kind == OP_LOAD_SCALAR || o->kind == OP_LOAD ||
	       o->kind == OP_ASYNC_LOAD_TMEM || o->kind == OP_QUERY_CLUSTER_CANCEL ||
	       (o->kind >= OP_FRAG_ELEMENTWISE && o->kind <= OP_FRAG_REDUCE);
}

void tc_print_op(struct strbuf *b, struct kern *k, const struct op *o)
{
	size_t before;

	if (has_result(o))
		tc_printf(b, "%%%d = ", o->id);
	tc_printf(b, "%s ", o->kind == OP_FRAG_ELEMENTWISE ? "" : tc_op_name(o));
	before = b->length;
	if (o->kind == OP_FRAG_ELEMENTWISE)
		b->text[--b->length] = '\0';
	put_operands(b, k, o);
	if (b->length == before && b->text[before - 1] == ' ')
		b->text[--b->length] = '\0';
}

/* ---- the scope tree ------------------------------------------------------ */

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

/* The header names the kernel's own file; at the prompt every line has the number 1. */
static void print_place(struct strbuf *b, const struct kern *k, struct srcpos pos)
{
	if (!pos.file || strcmp(pos.file, TC_PROMPT) == 0)
		return;
	if (k->pos.file && strcmp(pos.file, k->pos.file) == 0)
		tc_printf(b, "  -- line %d", pos.line);
	else
		tc_printf(b, "  -- %s:%d", tc_base_name(pos.file), pos.line);
}

static void print_scope(struct strbuf *b, struct kern *k, const struct scope *s, int depth)
{
	for (const struct op *o = s ? s->first : NULL; o; o = o->next) {
		tc_printf(b, "%*s", 2 * depth, "");
		tc_print_op(b, k, o);
		print_place(b, k, o->pos);
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

		tc_print_alloc_name(b, a);
		tc_printf(b, ": %s %s ", tc_space_names[a->space], tc_dtypes[a->dtype].name);
		tc_print_shape(b, a->shape, a->rank);
		tc_print_attributes(b, a);
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
		put_groups(b, k, s);
		tc_puts(b, "\n");
	}
}

void tc_print_ops(struct strbuf *b, struct kern *k)
{
	tc_puts(b, "kernel \"");
	tc_print_line(b, k->name);
	tc_puts(b, "\"");
	print_axes(b, ", grid", k->grid_rank, k->grid, k->grid_names);
	print_axes(b, ", cluster", k->cluster_rank, k->cluster, k->cluster_names);
	if (k->pos.file && strcmp(k->pos.file, TC_PROMPT) == 0)
		tc_puts(b, ", recorded at the prompt");
	else if (k->pos.file)
		tc_printf(b, ", recorded at %s:%d", k->pos.file, k->pos.line);
	tc_puts(b, "\n");
	print_objects(b, k);
	print_scope(b, k, k->root, 0);
}

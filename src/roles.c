/*
 * The two tables of the compiler: who runs what (roles), and who arrives on what
 * (barriers); docs/semantics.md 1-5.
 */
#include <string.h>

#include "classes.h"

struct role_plan *tc_role_plan(struct compilation *c, const struct role *r)
{
	for (int i = 0; i < c->role_count; i++)
		if (tc_plan_runs(&c->roles[i], r))
			return &c->roles[i];
	tc_fail_internal(c->err, "a role has no plan");
}

bool tc_plan_runs(const struct role_plan *p, const struct role *r)
{
	return r && (p->members >> r->id & 1);
}

const struct role *tc_op_role(const struct compilation *c, const struct op *op)
{
	return op->scope->role ? op->scope->role : c->kern->implicit_role;
}

int tc_phase_index(const struct compilation *c, const struct op *wait)
{
	const struct role *r = tc_op_role(c, wait);

	return (r ? r->id : 0) * c->kern->barriers.count + wait->u.wait.barrier.barrier->id;
}

/* ---- the values that an op uses ---------------------------------------------------------- */

typedef void visit_fn(void *context, const struct val *v);

static void visit_ref(const struct ref *r, visit_fn *visit, void *context)
{
	if (!r)
		return;
	for (int i = 0; i < r->alloc->rank; i++) {
		visit(context, r->start[i]);
		visit(context, r->extent[i].value);
	}
	visit(context, r->cluster_rank);
	visit_ref(r->rows, visit, context);
}

static void visit_barrier(const struct barrier_ref *b, visit_fn *visit, void *context)
{
	visit(context, b->index);
	visit(context, b->cluster_rank);
}

static void visit_mma(const struct mma_op *m, visit_fn *visit, void *context)
{
	visit_ref(m->acc, visit, context);
	visit_ref(m->a, visit, context);
	visit_ref(m->b, visit, context);
	visit_ref(m->a_scale, visit, context);
	visit_ref(m->b_scale, visit, context);
	visit_ref(m->a_sparse_metadata, visit, context);
	visit_barrier(&m->barrier, visit, context);
	visit(context, m->accumulate);
}

static void visit_op(const struct op *o, visit_fn *visit, void *context)
{
	switch (o->kind) {
	case OP_RANGE:
		visit(context, o->u.range.lo);
		visit(context, o->u.range.hi);
		visit(context, o->u.range.step);
		break;
	case OP_STOP:
		visit(context, o->u.stop.cond);
		break;
	case OP_WHEN:
		visit(context, o->u.when.cond);
		break;
	case OP_VAR_NEW:
		visit(context, o->u.var.var->init);
		break;
	case OP_VAR_SET:
		visit(context, o->u.var.value);
		break;
	case OP_LOAD_SCALAR:
		visit_ref(o->u.load_scalar.ref, visit, context);
		break;
	case OP_STORE_SCALAR:
	case OP_ATOMIC_SCALAR:
		visit_ref(o->u.store_scalar.ref, visit, context);
		visit(context, o->u.store_scalar.value);
		break;
	case OP_COPY_GMEM_TO_SMEM:
	case OP_COPY_SMEM_TO_GMEM:
		visit_ref(o->u.copy.src, visit, context);
		visit_ref(o->u.copy.dst, visit, context);
		visit_barrier(&o->u.copy.barrier, visit, context);
		break;
	case OP_BARRIER_ARRIVE:
	case OP_COMMIT_ARRIVE:
		visit_barrier(&o->u.arrive.barrier, visit, context);
		break;
	case OP_BARRIER_WAIT:
		visit_barrier(&o->u.wait.barrier, visit, context);
		visit(context, o->u.wait.parity);
		break;
	case OP_MMA:
		visit_mma(&o->u.mma, visit, context);
		break;
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		visit_ref(o->u.tmem_copy.src, visit, context);
		visit_ref(o->u.tmem_copy.dst, visit, context);
		break;
	case OP_ASYNC_LOAD_TMEM:
	case OP_LOAD:
		visit_ref(o->u.load.ref, visit, context);
		break;
	case OP_ASYNC_STORE_TMEM:
	case OP_STORE:
	case OP_ATOMIC:
		visit_ref(o->u.store.ref, visit, context);
		visit_barrier(&o->u.store.barrier, visit, context);
		break;
	case OP_FRAG_FULL:
		visit(context, o->u.full.value);
		break;
	case OP_PRINT:
		for (int i = 0; i < o->u.print.count; i++)
			visit(context, o->u.print.values[i]);
		break;
	case OP_ASSERT:
		visit(context, o->u.assertion.cond);
		break;
	case OP_SEMAPHORE_SIGNAL:
	case OP_SEMAPHORE_WAIT:
		visit_ref(o->u.semaphore.ref, visit, context);
		visit(context, o->u.semaphore.value);
		break;
	case OP_SEMAPHORE_SIGNAL_PARALLEL:
		for (int i = 0; i < o->u.signals.count; i++) {
			visit_ref(o->u.signals.ref[i], visit, context);
			visit(context, o->u.signals.value[i]);
		}
		break;
	case OP_ASYNC_PREFETCH:
		visit_ref(o->u.prefetch.ref, visit, context);
		break;
	case OP_TRY_CLUSTER_CANCEL:
		visit_ref(o->u.try_cancel.result, visit, context);
		visit_barrier(&o->u.try_cancel.barrier, visit, context);
		break;
	case OP_QUERY_CLUSTER_CANCEL:
		visit_ref(o->u.query_cancel.result, visit, context);
		break;
	default:
		break;
	}
}

int tc_op_bodies(const struct op *o, const struct scope *body[2])
{
	switch (o->kind) {
	case OP_RANGE:
		body[0] = o->u.range.body;
		return 1;
	case OP_LOOP:
		body[0] = o->u.loop.body;
		return 1;
	case OP_ROLE:
		body[0] = o->u.role.body;
		return 1;
	case OP_WHEN:
		body[0] = o->u.when.then;
		body[1] = o->u.when.otherwise;
		return body[1] ? 2 : 1;
	default:
		return 0;
	}
}

/* ---- shared code over the roles: what a role runs of it ------------------------------------- */

struct marking {
	struct role_plan *role;
	bool changed;
};

static void need(void *context, const struct val *v)
{
	struct marking *m = context;

	if (!v || v->kind == VAL_CONST || m->role->val_needed[v->id])
		return;
	m->role->val_needed[v->id] = true;
	m->changed = true;
	for (int i = 0; i < 3; i++)
		need(m, v->arg[i]);
}

static void keep(struct marking *m, const struct op *o)
{
	if (!m->role->op_kept[o->id]) {
		m->role->op_kept[o->id] = true;
		m->changed = true;
	}
	if ((o->kind == OP_VAR_GET || o->kind == OP_VAR_SET) &&
	    !m->role->var_needed[o->u.var.var->id]) {
		m->role->var_needed[o->u.var.var->id] = true;
		m->changed = true;
	}
	visit_op(o, need, m);
}

static bool wants_query(const struct marking *m, const struct query_cancel_op *q)
{
	bool needed = m->role->val_needed[q->success->id];

	for (int i = 0; i < q->count; i++)
		needed = needed || m->role->val_needed[q->index[i]->id];
	return needed;
}

static bool wanted(const struct marking *m, const struct op *o)
{
	const struct scope *body[2];
	int n = tc_op_bodies(o, body);

	switch (o->kind) {
	case OP_ROLE:
		return tc_plan_runs(m->role, o->u.role.role);
	case OP_STOP:
		return m->role->op_kept[o->u.stop.loop->id];
	case OP_VAR_NEW:
	case OP_VAR_SET:
		return m->role->var_needed[o->u.var.var->id];
	case OP_VAR_GET:
		return o->u.var.value && m->role->val_needed[o->u.var.value->id];
	case OP_LOAD_SCALAR:
		return m->role->val_needed[o->u.load_scalar.result->id];
	case OP_GRIDDEPCONTROL_WAIT:
	case OP_GRIDDEPCONTROL_LAUNCH_DEPENDENTS:
		return true;
	case OP_QUERY_CLUSTER_CANCEL:
		return wants_query(m, &o->u.query_cancel);
	default:
		for (int i = 0; i < n; i++)
			for (const struct op *p = body[i]->first; p; p = p->next)
				if (m->role->op_kept[p->id])
					return true;
		return false;
	}
}

static void mark(struct marking *m, const struct scope *s)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];
		int n = tc_op_bodies(o, body);
		bool own = tc_plan_runs(m->role, s->role) || m->role->role->implicit;

		if (o->kind == OP_ROLE && !tc_plan_runs(m->role, o->u.role.role))
			continue;
		for (int i = 0; i < n; i++)
			mark(m, body[i]);
		if (own || wanted(m, o))
			keep(m, o);
	}
}

/* ---- roles
 * --------------------------------------------------------------------------------------- */

static bool is_tensor_core(const struct op *o)
{
	switch (o->kind) {
	case OP_MMA:
	case OP_COMMIT_ARRIVE:
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
	case OP_ASYNC_LOAD_TMEM:
	case OP_ASYNC_STORE_TMEM:
	case OP_WAIT_LOAD_TMEM:
	case OP_COMMIT_TMEM:
		return true;
	case OP_BARRIER_ARRIVE: /* what it has waited for, it may tell others of */
		return o->u.arrive.barrier.barrier->orders_tensor_core;
	default:
		return false;
	}
}

static void facts_of_role(struct compilation *c, struct role_plan *r, const struct scope *s)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];
		int n = tc_op_bodies(o, body);

		if (!r->op_kept[o->id])
			continue;
		if (is_tensor_core(o))
			r->tensor_core = true;
		if (o->kind == OP_BARRIER_WAIT && !o->u.wait.parity &&
		    !(c->elided && c->elided[o->u.wait.barrier.barrier->id]))
			r->waits[tc_phase_index(c, o)] = true;
		for (int i = 0; i < n; i++)
			facts_of_role(c, r, body[i]);
	}
}

static void *zeroed(struct compilation *c, int count, size_t size)
{
	return tc_arena_alloc(c->arena, size * (size_t)(count + 1));
}

/* A class runs as clones of one warpgroup, whatever its roles were written with. */
static void join_class(struct compilation *c, struct role_plan *r, struct class_plan *class)
{
	const struct kern *k = c->kern;
	struct low names = {.arena = c->arena};

	r->class = class;
	r->members = class->members;
	r->clones = class->clones;
	r->warps = 4;
	r->threads = 128;
	r->name = "";
	for (int i = 0; i < k->roles.count; i++) {
		const struct role *member = k->roles.item[i];

		if (!tc_plan_runs(r, member))
			continue;
		r->name = tc_arena_printf(c->arena, "%s%s%s", r->name, *r->name ? "_" : "",
					  tc_ptx_identifier(&names, member->name));
		if (member->max_registers > r->max_registers)
			r->max_registers = member->max_registers;
	}
}

static void plan_role(struct compilation *c, struct role_plan *r, struct role *role)
{
	const struct kern *k = c->kern;
	struct low names = {.arena = c->arena};
	struct marking m = {.role = r};

	r->role = role;
	r->name = tc_ptx_identifier(&names, role->name);
	for (int i = 0; i < r->index; i++)
		if (strcmp(c->roles[i].name, r->name) == 0)
			r->name = tc_arena_printf(c->arena, "%s_%d", r->name, r->index);
	r->class_id = r->index;
	r->clones = 1;
	r->members = UINT32_C(1) << role->id;
	r->warps = role->warps;
	r->threads = 32 * role->warps;
	r->max_registers = role->max_registers;
	if (c->class_of && c->class_of[role->id])
		join_class(c, r, c->class_of[role->id]);
	r->op_kept = zeroed(c, k->op_count, sizeof(bool));
	r->val_needed = zeroed(c, k->val_count, sizeof(bool));
	r->var_needed = zeroed(c, k->vars.count, sizeof(bool));
	r->waits = zeroed(c, k->barriers.count * k->roles.count, sizeof(bool));
	do {
		m.changed = false;
		mark(&m, k->root);
	} while (m.changed);
	facts_of_role(c, r, k->root);
	for (int i = 0; i < k->barriers.count * k->roles.count; i++)
		r->parity_words += r->waits[i];
}

/* Warpgroups first, from warp 0: tcgen05.ld's windows and wgmma want it. */
static void place_roles(struct compilation *c)
{
	int warp = 0, named = 0;

	for (int i = 0; i < c->role_count; i++) {
		struct role_plan *r = &c->roles[i];

		r->first_warp = warp;
		warp += r->warps * r->clones;
		if (r->warps == 1)
			continue;
		r->named_barrier = named + 1;
		named += r->clones;
		r->class_barrier = r->clones > 1 ? ++named : named;
		if (named > 15)
			tc_fail_at(c->err, r->role->pos,
				   "more than 15 roles have several warps: a block has 15 named "
				   "barriers");
	}
	c->warps = warp ? (warp + 3) / 4 * 4 : 4;
	if (32 * c->warps > c->target->max_threads)
		tc_fail_at(c->err, c->kern->pos,
			   "the roles have %d threads in all (padded to whole warpgroups); %s "
			   "allows %d in a block",
			   32 * c->warps, c->target->name, c->target->max_threads);
}

static void plan_roles(struct compilation *c)
{
	const struct kern *k = c->kern;

	c->roles = zeroed(c, k->roles.count, sizeof(*c->roles));
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < k->roles.count; i++) {
			struct role *role = k->roles.item[i];
			struct role_plan *r = &c->roles[c->role_count];
			struct class_plan *class = c->class_of ? c->class_of[i] : NULL;

			if ((class || role->warpgroups) != (pass == 0) ||
			    (class && class->members & ((UINT32_C(1) << i) - 1)))
				continue;
			r->index = c->role_count;
			plan_role(c, r, role);
			c->role_count++;
		}
	place_roles(c);
}

void tc_roles(struct compilation *c)
{
	plan_roles(c);
	tc_plan_barriers(c);
}

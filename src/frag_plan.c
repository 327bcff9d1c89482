/*
 * Choice of distributions: fragments that meet in an op share one.  Groups are
 * found by union-find over the recorded ops; TMEM accesses fix a group's
 * distribution, others get one that suits their memory accesses.  Where two
 * groups with different needs meet, the operand is converted at its use.
 */
#include "frag.h"

#include <string.h>

#define MAX_WORDS 128

static int find(struct frag_plan *p, int i)
{
	while (p->node[i].parent != i)
		i = p->node[i].parent = p->node[p->node[i].parent].parent;
	return i;
}

static void swap_int(int *a, int *b)
{
	int t = *a;

	*a = *b;
	*b = t;
}

/* Makes the vectors of a group that has no tile yet run along the other axis. */
static void flip(struct frag_plan *p, int root)
{
	struct frag_group *g = &p->group[root];

	for (int i = 0; i < p->count; i++) {
		struct frag_node *n = &p->node[i];

		if (!n->frag || n->splat || find(p, i) != root)
			continue;
		n->axis = 1 - n->axis;
		swap_int(&n->extent[0], &n->extent[1]);
	}
	swap_int(&g->extent[0], &g->extent[1]);
	swap_int(&g->vector[0], &g->vector[1]);
	swap_int(&g->votes[0], &g->votes[1]);
	bool t = g->reduced[0];
	g->reduced[0] = g->reduced[1];
	g->reduced[1] = t;
}

static bool orient(struct frag_plan *p, int node, int axis)
{
	struct frag_group *g = &p->group[find(p, node)];

	if (p->node[node].axis != axis) {
		if (g->oriented)
			return false;
		flip(p, find(p, node));
	}
	g->oriented = true;
	return true;
}

static bool extents_fit(const struct frag_group *a, const struct frag_group *b)
{
	for (int i = 0; i < 2; i++) {
		if (a->extent[i] == b->extent[i])
			continue;
		if (a->extent[i] != 1 && b->extent[i] != 1)
			return false;
		if ((a->fixed && a->extent[i] == 1) || (b->fixed && b->extent[i] == 1))
			return false;
	}
	return !a->fixed || !b->fixed || tc_distribution_equal(&a->distribution, &b->distribution);
}

static void merge(struct frag_plan *p, int a, int b)
{
	struct frag_group *into, *from;

	a = find(p, a);
	b = find(p, b);
	into = &p->group[a];
	from = &p->group[b];
	if (a == b || !extents_fit(into, from))
		return;
	p->node[b].parent = a;
	into->oriented |= from->oriented;
	if (from->least > into->least)
		into->least = from->least;
	if (from->fixed) {
		into->fixed = true;
		into->distribution = from->distribution;
	}
	for (int i = 0; i < 2; i++) {
		if (from->extent[i] > into->extent[i])
			into->extent[i] = from->extent[i];
		if (from->vector[i] > into->vector[i])
			into->vector[i] = from->vector[i];
		into->votes[i] += from->votes[i];
		into->reduced[i] |= from->reduced[i];
	}
}

/* Same shape: element for element. */
static void unite(struct frag_plan *p, int a, int b)
{
	if (p->node[a].splat || p->node[b].splat)
		return;
	if (p->node[a].frag->rank == 1 && p->node[a].axis != p->node[b].axis) {
		if (!p->group[find(p, a)].oriented)
			flip(p, find(p, a));
		else if (!p->group[find(p, b)].oriented)
			flip(p, find(p, b));
		else
			return;
	}
	merge(p, a, b);
}

/* A vector that runs along `axis` of a tile. */
static void unite_slice(struct frag_plan *p, int vector, int tile, int axis)
{
	if (p->node[vector].splat || p->node[tile].splat)
		return;
	if (p->node[vector].frag->rank == 1 && !orient(p, vector, axis))
		return;
	merge(p, vector, tile);
}

static void add_node(struct frag_plan *p, int i, const struct frag *f, bool splat)
{
	struct frag_node *n = &p->node[i];
	struct frag_group *g = &p->group[i];

	n->frag = f;
	n->splat = splat || f->rank == 0;
	n->axis = 1;
	n->extent[0] = f->rank == 2 ? f->shape[0] : 1;
	n->extent[1] = f->rank == 0 ? 1 : f->shape[f->rank - 1];
	g->extent[0] = n->extent[0];
	g->extent[1] = n->extent[1];
	g->vector[0] = g->vector[1] = g->least = 1;
	g->oriented = f->rank == 2;
}

/* Memory that f is loaded from or stored to, `vector` elements along `axis` at once. */
static void add_memory(struct frag_plan *p, const struct frag *f, int vector, int axis)
{
	struct frag_node *n = &p->node[f->id];
	struct frag_group *g = &p->group[find(p, f->id)];

	if (n->splat)
		return;
	if (f->rank == 1)
		axis = n->axis;
	g->votes[axis]++;
	if (vector > g->vector[axis])
		g->vector[axis] = vector;
	if (tc_dtype_least(f->dtype) > g->least)
		g->least = tc_dtype_least(f->dtype);
}

static void fix(struct low *l, struct frag_plan *p, const struct ref *r, const struct frag *f)
{
	struct frag_group *g = &p->group[find(p, f->id)], wanted = {.fixed = true};

	if (p->node[f->id].splat || r->alloc->layout == TML_M64_COLLECTIVE_A)
		return;
	l->c->target->ops->tmem_distribution(l, r, f->role, &wanted.distribution);
	for (int i = 0; i < 2; i++)
		wanted.extent[i] = wanted.distribution.axis[i].extent;
	if (!extents_fit(&wanted, g))
		return;
	g->fixed = true;
	g->distribution = wanted.distribution;
	memcpy(g->extent, wanted.extent, sizeof g->extent);
}

static void plan_elementwise(struct frag_plan *p, const struct frag_elementwise_op *e)
{
	bool splat = true;

	for (int i = 0; i < 3; i++)
		splat &= !e->arg[i] || p->node[e->arg[i]->id].splat;
	add_node(p, e->result->id, e->result, splat);
	for (int i = 0; i < 3; i++)
		if (e->arg[i] && !splat)
			unite(p, e->arg[i]->id, e->result->id);
}

static void plan_broadcast(struct frag_plan *p, const struct frag_broadcast_op *b)
{
	int arg = b->arg->id, result = b->result->id;

	add_node(p, result, b->result, p->node[arg].splat);
	if (b->result->rank == 2)
		unite_slice(p, arg, result, 1 - b->axis);
}

static void plan_reduce(struct frag_plan *p, const struct frag_reduce_op *r)
{
	int arg = r->arg->id, result = r->result->id;
	int axis = r->arg->rank == 1 ? p->node[arg].axis : r->axis;

	add_node(p, result, r->result, p->node[arg].splat);
	if (p->node[arg].splat)
		return;
	p->group[find(p, arg)].reduced[axis] = true;
	unite_slice(p, result, arg, 1 - axis);
}

static void plan_var(struct frag_plan *p, const struct op *op)
{
	const struct var *v = op->u.var.var;
	int node = p->frag_count + v->id;

	if (!v->frag)
		return;
	if (op->kind == OP_VAR_NEW) {
		add_node(p, node, v->frag, false);
		unite(p, v->frag->id, node);
	} else {
		if (op->kind == OP_VAR_GET)
			add_node(p, op->u.var.frag->id, op->u.var.frag, false);
		unite(p, op->u.var.frag->id, node);
	}
}

static void plan_op(struct low *l, struct frag_plan *p, const struct op *op)
{
	int axis, vector;

	switch (op->kind) {
	case OP_ASYNC_LOAD_TMEM:
		add_node(p, op->u.load.result->id, op->u.load.result, false);
		fix(l, p, op->u.load.ref, op->u.load.result);
		break;
	case OP_ASYNC_STORE_TMEM:
		fix(l, p, op->u.store.ref, op->u.store.value);
		break;
	case OP_LOAD:
		add_node(p, op->u.load.result->id, op->u.load.result, false);
		vector = tc_ref_vector(op->u.load.ref, &axis);
		add_memory(p, op->u.load.result, vector, axis);
		break;
	case OP_STORE:
	case OP_ATOMIC:
		vector = tc_store_vector(op, &axis);
		add_memory(p, op->u.store.value, vector, axis);
		break;
	case OP_FRAG_ELEMENTWISE:
		plan_elementwise(p, &op->u.elementwise);
		break;
	case OP_FRAG_CAST:
		add_node(p, op->u.cast.result->id, op->u.cast.result,
			 p->node[op->u.cast.arg->id].splat);
		unite(p, op->u.cast.arg->id, op->u.cast.result->id);
		break;
	case OP_FRAG_FULL:
		add_node(p, op->u.full.result->id, op->u.full.result, true);
		break;
	case OP_FRAG_IOTA:
		add_node(p, op->u.iota.result->id, op->u.iota.result, false);
		break;
	case OP_FRAG_BROADCAST:
		plan_broadcast(p, &op->u.broadcast);
		break;
	case OP_FRAG_REDUCE:
		plan_reduce(p, &op->u.reduce);
		break;
	case OP_VAR_NEW:
	case OP_VAR_SET:
	case OP_VAR_GET:
		plan_var(p, op);
		break;
	default:
		break;
	}
}

static void plan_scope(struct low *l, struct frag_plan *p, const struct scope *s)
{
	for (const struct op *op = s->first; op; op = op->next) {
		l->op = op;
		plan_op(l, p, op);
		if (op->kind == OP_RANGE)
			plan_scope(l, p, op->u.range.body);
		else if (op->kind == OP_LOOP)
			plan_scope(l, p, op->u.loop.body);
		else if (op->kind == OP_ROLE)
			plan_scope(l, p, op->u.role.body);
		else if (op->kind == OP_WHEN) {
			plan_scope(l, p, op->u.when.then);
			if (op->u.when.otherwise)
				plan_scope(l, p, op->u.when.otherwise);
		}
	}
}

/*
 * In a class, a tile with the rows of its accumulators is cut by rows, as they are;
 * of anything else every clone has a copy.
 */
void tc_frag_linear(const struct role_plan *r, struct distribution *d, const int extent[2],
		    int fast, int vector, bool reduced)
{
	int rows[2] = {64, extent[1]};

	if (r->clones > 1 && extent[0] == 64 * r->clones) {
		tc_distribution_linear(d, rows, r->threads, fast, vector, reduced);
		if (tc_axis_limit(&d->axis[0]) == 64) {
			tc_distribution_cut_rows(d, r->clones);
			return;
		}
	}
	tc_distribution_linear(d, extent, r->threads, fast, vector, reduced);
	if (r->clones > 1)
		d->replica = (struct thread_field){7, r->clones, 0};
	d->threads *= r->clones;
}

/* Vectors as wide as memory takes them, as long as every thread gets one; no narrower than it
 * takes.
 */
static void choose_linear(struct low *l, struct frag_plan *p, int root)
{
	struct frag_group *g = &p->group[root];
	const struct role_plan *r = tc_role_plan(l->c, p->node[root].frag->role);
	int fast = g->vector[0] > g->vector[1] ||
				   (g->vector[0] == g->vector[1] && g->votes[0] > g->votes[1])
			   ? 0
			   : 1;
	int vector = g->vector[fast];

	while (vector > g->least && (g->extent[fast] % vector != 0 ||
				     (int64_t)g->extent[0] * g->extent[1] / vector < r->threads))
		vector /= 2;
	tc_frag_linear(r, &g->distribution, g->extent, fast, vector, g->reduced[fast]);
}

static int words_of(const struct frag_node *n, const struct distribution *d)
{
	int elements = 1;

	for (int i = 0; i < 2; i++)
		if (n->extent[i] > 1)
			elements *= d->axis[i].count;
	if (n->frag->dtype == DT_BOOL)
		return 0;
	return (elements + tc_dtype_per_word(n->frag->dtype) - 1) /
	       tc_dtype_per_word(n->frag->dtype);
}

static const char *advice(struct arena *a, const struct frag_node *n, const struct distribution *d,
			  int words, int warps)
{
	int groups = d->threads / 128, pieces = 1;

	while (words / pieces > MAX_WORDS)
		pieces *= 2;
	if (n->extent[0] > 1 && d->kind != DIST_LINEAR && n->extent[1] % (8 * pieces) == 0)
		return tc_arena_printf(a, "slices of (%d, %d)%s", n->extent[0],
				       n->extent[1] / pieces,
				       warps % 4 == 0 && groups * pieces <= 8
					       ? tc_arena_printf(a, ", or a role of %d warpgroups",
								 groups * pieces)
					       : "");
	return tc_arena_printf(a, "pieces of 1/%d of it", pieces);
}

static void check_registers(struct low *l, struct frag_plan *p)
{
	for (int i = 0; i < p->frag_count; i++) {
		const struct frag_node *n = &p->node[i];
		const struct distribution *d = &p->group[find(p, i)].distribution;
		struct role_plan *r;
		int words;

		if (!n->frag || n->splat)
			continue;
		words = words_of(n, d);
		if (words <= MAX_WORDS)
			continue;
		r = tc_role_plan(l->c, n->frag->role);
		tc_fail_at(l->c->err, n->frag->def->pos,
			   "A fragment %s takes %d registers of each of the %d threads of role "
			   "'%s'; a fragment may take %d.\nWhat would fit: %s.",
			   tc_frag_text(l->c->kern, n->frag), words, r->threads, r->name, MAX_WORDS,
			   advice(l->arena, n, d, words, r->warps));
	}
}

struct frag_plan *tc_frag_plan(struct low *l)
{
	struct kern *k = l->c->kern;
	struct frag_plan *p = l->frag_plan;
	const struct op *op = l->op;

	if (p)
		return p;
	p = tc_arena_alloc(l->arena, sizeof *p);
	p->frag_count = k->frag_count;
	p->count = k->frag_count + k->vars.count;
	p->node = tc_arena_alloc(l->arena, sizeof *p->node * (size_t)(p->count + 1));
	p->group = tc_arena_alloc(l->arena, sizeof *p->group * (size_t)(p->count + 1));
	p->value = tc_arena_alloc(l->arena, sizeof(void *) * (size_t)(p->count + 1));
	for (int i = 0; i < p->count; i++)
		p->node[i].parent = i;
	plan_scope(l, p, k->root);
	l->op = op;
	for (int i = 0; i < p->count; i++)
		if (p->node[i].frag && !p->node[i].splat && find(p, i) == i && !p->group[i].fixed)
			choose_linear(l, p, i);
	check_registers(l, p);
	l->frag_plan = p;
	return p;
}

const struct distribution *tc_frag_distribution(struct low *l, int node)
{
	struct frag_plan *p = tc_frag_plan(l);

	return p->node[node].splat ? NULL : &p->group[find(p, node)].distribution;
}

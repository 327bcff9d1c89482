/* Who arrives on which barrier, and what its count is (docs/semantics.md 4, 6). */
#include "compile.h"

const struct barrier *tc_op_arrives(const struct op *o, enum arrival_kind *kind)
{
	switch (o->kind) {
	case OP_COPY_GMEM_TO_SMEM:
		*kind = ARRIVAL_COPY;
		return o->u.copy.barrier.barrier;
	case OP_MMA:
		*kind = ARRIVAL_MMA;
		return o->u.mma.barrier.barrier;
	case OP_COMMIT_ARRIVE:
		*kind = ARRIVAL_COMMIT;
		return o->u.arrive.barrier.barrier;
	case OP_BARRIER_ARRIVE:
		*kind = ARRIVAL_THREADS;
		return o->u.arrive.barrier.barrier;
	case OP_STORE:
		*kind = ARRIVAL_STORE;
		return o->u.store.barrier.barrier;
	case OP_TRY_CLUSTER_CANCEL:
		*kind = ARRIVAL_CANCEL;
		return o->u.try_cancel.barrier.barrier;
	default:
		return NULL;
	}
}

/* Counts the arrivals of a role's code, or writes them down. */
static void arrivals(struct compilation *c, struct role_plan *r, const struct scope *s, bool write)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];
		int n = tc_op_bodies(o, body);
		enum arrival_kind kind;
		const struct barrier *b = tc_op_arrives(o, &kind);

		if (!r->op_kept[o->id])
			continue;
		for (int i = 0; i < n; i++)
			arrivals(c, r, body[i], write);
		if (!b)
			continue;
		if (write)
			c->barriers[b->id].sources[c->barriers[b->id].source_count] =
				(struct arrival_source){o, r, kind};
		c->barriers[b->id].source_count++;
	}
}

static int lcm(int a, int b)
{
	int x = a, y = b;

	while (y) {
		int t = x % y;

		x = y;
		y = t;
	}
	return a / x * b;
}

/* U: where a commit counts one, it is 1; else every role's warps must divide it. */
static void unit_of(const struct kern *k, const struct target *t, struct barrier_plan *b)
{
	bool commits = false;

	b->unit = 1;
	for (int i = 0; i < b->source_count; i++) {
		const struct arrival_source *s = &b->sources[i];
		bool commit = s->kind == ARRIVAL_MMA || s->kind == ARRIVAL_COMMIT;

		commits |= commit && t->ops->commit_counts_one;
		if (s->kind == ARRIVAL_THREADS || (commit && !t->ops->commit_counts_one))
			b->unit = lcm(b->unit, s->role->warps * s->role->clones);
	}
	if (commits)
		b->unit = 1;
	b->init_count = b->barrier->num_arrivals * b->unit *
			tc_cluster_peers(k, b->barrier->cluster_group, b->barrier->cluster_groups);
}

/* A thread's load or store of memory, or of tensor memory that an MMA of another CTA uses. */
static bool is_access(const struct op *o)
{
	switch (o->kind) {
	case OP_LOAD:
	case OP_STORE:
	case OP_STORE_SCALAR:
	case OP_ATOMIC:
	case OP_ATOMIC_SCALAR:
	case OP_QUERY_CLUSTER_CANCEL:
		return true;
	case OP_LOAD_SCALAR:
		return o->u.load_scalar.ref->alloc->space == SP_SMEM;
	case OP_ASYNC_LOAD_TMEM:
		return o->u.load.ref->alloc->collective;
	case OP_ASYNC_STORE_TMEM:
		return o->u.store.ref->alloc->collective;
	default:
		return false;
	}
}

static bool is_async_read(const struct op *o)
{
	return o->kind == OP_MMA || o->kind == OP_COPY_SMEM_TO_GMEM;
}

static bool contains(const struct role_plan *r, const struct scope *s,
		     bool (*is)(const struct op *))
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];

		if (!r->op_kept[o->id])
			continue;
		for (int i = tc_op_bodies(o, body) - 1; i >= 0; i--)
			if (contains(r, body[i], is))
				return true;
		if (is(o))
			return true;
	}
	return false;
}

/*
 * What the role has to tell is that its MMAs, or its bulk stores, have read.  A role that does
 * nothing of it passes on what others have told it, such as copies: these may be data.
 */
static bool only_frees(const struct role_plan *r, const struct scope *root)
{
	return contains(r, root, is_async_read) && !contains(r, root, is_access);
}

/* What the arrivals of other CTAs' threads have to order. */
static void order_of_arrivals(const struct kern *k, struct barrier_plan *b)
{
	bool frees = true;

	for (int i = 0; i < b->source_count; i++) {
		const struct arrival_source *s = &b->sources[i];

		if (s->kind != ARRIVAL_THREADS)
			continue;
		frees = frees && only_frees(s->role, k->root);
		b->remote =
			b->remote || b->barrier->cluster || s->op->u.arrive.barrier.cluster_rank;
	}
	b->mma_only_release = frees;
	if (b->barrier->cluster && frees)
		b->remote = false;
}

void tc_plan_barriers(struct compilation *c)
{
	const struct kern *k = c->kern;
	struct low names = {.arena = c->arena};

	c->barriers =
		tc_arena_alloc(c->arena, sizeof(*c->barriers) * (size_t)(k->barriers.count + 1));
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < k->barriers.count; i++) {
			struct barrier_plan *b = &c->barriers[i];

			if (pass)
				b->sources = tc_arena_alloc(c->arena,
							    sizeof(*b->sources) *
								    (size_t)(b->source_count + 1));
			b->source_count = 0;
			b->barrier = k->barriers.item[i];
		}
		for (int i = 0; i < c->role_count; i++)
			arrivals(c, &c->roles[i], k->root, pass);
	}
	for (int i = 0; i < k->barriers.count; i++) {
		struct barrier_plan *b = &c->barriers[i];

		b->name = b->barrier->name ? tc_ptx_identifier(&names, b->barrier->name)
					   : tc_arena_printf(c->arena, "barrier%d", i);
		b->elided = c->elided && c->elided[i];
		unit_of(k, c->target, b);
		order_of_arrivals(k, b);
		if (b->init_count >= 1 << 20)
			tc_fail_at(
				c->err, b->barrier->pos,
				"num_arrivals = %d needs an mbarrier count of %d; the largest is "
				"1048575",
				b->barrier->num_arrivals, b->init_count);
	}
}

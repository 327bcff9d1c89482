/*
 * Phases that every warp of a role sees (docs/semantics.md 5).
 *
 * Each warp waits for itself, with a bit of parity.  The leader alone issues copies, MMAs and
 * commits; their arrivals may complete a barrier's next phase, at once or by freeing another role
 * that arrives on it.  A warp that has not yet seen the phase before would then wait for the one
 * after the next.  So a barrier of the role's warps stands before such an op where it may happen:
 * where a wait that not all warps have surely passed is on a barrier that the op can complete.
 *
 * Ways back through the role itself need nothing more: they end in an op of its own, which is
 * looked at in its turn.  Arrivals of all warps complete nothing before the last warp is there.
 */
#include <string.h>

#include "compile.h"

struct low_phases {
	int count;       /* barriers */
	bool *unseen;    /* by barrier id: waited for, and no barrier of the role's warps since */
	bool *completes; /* [x * count + b]: arriving on x can complete a phase of b */
};

/* ---- who completes what ------------------------------------------------------------------ */

struct links {
	int count;
	bool *waits, *arrives; /* [role * count + barrier] */
};

static void link_ops(struct links *n, const struct compilation *c, const struct scope *s)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];
		const struct role *role = s->role ? s->role : c->kern->implicit_role;
		enum arrival_kind kind;
		const struct barrier *b = tc_op_arrives(o, &kind);

		for (int i = tc_op_bodies(o, body) - 1; i >= 0; i--)
			link_ops(n, c, body[i]);
		if (b)
			n->arrives[role->id * n->count + b->id] = true;
		if (o->kind == OP_BARRIER_WAIT)
			n->waits[role->id * n->count + o->u.wait.barrier.barrier->id] = true;
	}
}

/* Adds what the roles that wait for `x` arrive on; true: something is new. */
static bool follow(const struct links *n, const struct compilation *c, const struct role *own,
		   int x, bool *completes)
{
	bool grown = false;

	for (int i = 0; i < c->kern->roles.count; i++) {
		const struct role *r = c->kern->roles.item[i];

		if (r == own || !n->waits[r->id * n->count + x])
			continue;
		for (int b = 0; b < n->count; b++)
			if (n->arrives[r->id * n->count + b] && !completes[b])
				grown = completes[b] = true;
	}
	return grown;
}

static void find_completions(struct low *l, struct low_phases *p)
{
	const struct kern *k = l->c->kern;
	size_t size = (size_t)(k->roles.count * p->count) + 1;
	struct links n = {p->count, tc_arena_alloc(l->arena, size), tc_arena_alloc(l->arena, size)};
	/* In a cluster the same role of another CTA is one more role. */
	const struct role *own = tc_has_cluster(k) ? NULL : l->role->role;

	link_ops(&n, l->c, k->root);
	for (int x = 0; x < p->count; x++) {
		bool *completes = p->completes + x * p->count;
		bool grown = true;

		completes[x] = true;
		while (grown) {
			grown = false;
			for (int y = 0; y < p->count; y++)
				if (completes[y])
					grown = follow(&n, l->c, own, y, completes) || grown;
		}
	}
}

/* ---- what not all warps have seen ---------------------------------------------------------- */

static bool *copied(struct low *l, const bool *set)
{
	size_t size = (size_t)l->phase_order->count + 1;

	return memcpy(tc_arena_alloc(l->arena, size), set, size);
}

static bool add(const struct low *l, bool *set, const bool *more)
{
	bool grown = false;

	for (int b = 0; b < l->phase_order->count; b++)
		if (more[b] && !set[b])
			grown = set[b] = true;
	return grown;
}

static bool may_complete(const struct low_phases *p, const bool *unseen, const struct barrier *x)
{
	for (int b = 0; b < p->count; b++)
		if (unseen[b] && p->completes[x->id * p->count + b])
			return true;
	return false;
}

static void add_waits(const struct low *l, const struct scope *s, bool *set)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];

		if (!l->role->op_kept[o->id])
			continue;
		for (int i = tc_op_bodies(o, body) - 1; i >= 0; i--)
			add_waits(l, body[i], set);
		if (o->kind == OP_BARRIER_WAIT)
			set[o->u.wait.barrier.barrier->id] = true;
	}
}

/* What is unseen at the end of a scope, of what is at its start. */
static void flow(struct low *l, const struct scope *s, bool *set)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];
		int bodies = tc_op_bodies(o, body);
		bool loop = o->kind == OP_RANGE || o->kind == OP_LOOP;
		bool *before, *after;

		if (!l->role->op_kept[o->id])
			continue;
		if (o->kind == OP_BARRIER_WAIT)
			set[o->u.wait.barrier.barrier->id] = true;
		if (o->kind == OP_COPY_GMEM_TO_SMEM &&
		    may_complete(l->phase_order, set, o->u.copy.barrier.barrier))
			memset(set, 0, (size_t)l->phase_order->count);
		if (o->kind == OP_ROLE) {
			flow(l, body[0], set);
			continue;
		}
		before = bodies ? copied(l, set) : NULL;
		for (int i = 0; i < bodies; i++) {
			after = copied(l, before);
			flow(l, body[i], after);
			/* A loop may have been left anywhere; a lone branch may not be taken. */
			if (loop)
				add_waits(l, body[i], after);
			if (i == 0 && bodies == 2)
				memset(set, 0, (size_t)l->phase_order->count);
			add(l, set, after);
		}
	}
}

/* ---- entry points ---------------------------------------------------------------------------- */

void tc_low_phases_start(struct low *l)
{
	struct low_phases *p;

	if (l->role->warps * l->role->clones == 1)
		return;
	p = l->phase_order = tc_arena_alloc(l->arena, sizeof(*p));
	p->count = l->c->kern->barriers.count;
	p->unseen = tc_arena_alloc(l->arena, (size_t)p->count + 1);
	p->completes = tc_arena_alloc(l->arena, (size_t)(p->count * p->count) + 1);
	find_completions(l, p);
}

void tc_low_phases_waited(struct low *l, const struct barrier *b)
{
	if (l->phase_order)
		l->phase_order->unseen[b->id] = true;
}

void tc_low_phases_seen(struct low *l)
{
	if (l->phase_order)
		memset(l->phase_order->unseen, 0, (size_t)l->phase_order->count);
}

void tc_low_phases_before(struct low *l, const struct barrier *b)
{
	if (l->phase_order && may_complete(l->phase_order, l->phase_order->unseen, b))
		tc_low_class_barrier(l);
}

bool *tc_low_phases_save(struct low *l)
{
	return l->phase_order ? copied(l, l->phase_order->unseen) : NULL;
}

bool *tc_low_phases_swap(struct low *l, bool *saved)
{
	bool *now = NULL;

	if (l->phase_order) {
		now = l->phase_order->unseen;
		l->phase_order->unseen = copied(l, saved);
	}
	return now;
}

void tc_low_phases_join(struct low *l, const bool *other)
{
	if (l->phase_order)
		add(l, l->phase_order->unseen, other);
}

void tc_low_phases_loop(struct low *l, const struct scope *body)
{
	bool *unseen, *end, grown = true;

	if (!l->phase_order)
		return;
	unseen = l->phase_order->unseen;
	while (grown) {
		end = copied(l, unseen);
		flow(l, body, end);
		grown = add(l, unseen, end);
	}
}

void tc_low_phases_left(struct low *l, const struct scope *body, const bool *before)
{
	if (!l->phase_order)
		return;
	add(l, l->phase_order->unseen, before);
	add_waits(l, body, l->phase_order->unseen);
}

/*
 * Synchronisation that is wrong on every path: waits that never end, arrivals that do not add
 * up, accumulators that are read without a wait.  What depends on conditions is let through.
 */
#include "verify.h"

const struct barrier_ref *tc_site_barrier(const struct op *o)
{
	switch (o->kind) {
	case OP_COPY_GMEM_TO_SMEM:
		return &o->u.copy.barrier;
	case OP_MMA:
		return &o->u.mma.barrier;
	case OP_BARRIER_ARRIVE:
	case OP_COMMIT_ARRIVE:
		return &o->u.arrive.barrier;
	case OP_BARRIER_WAIT:
		return &o->u.wait.barrier;
	case OP_STORE:
		return &o->u.store.barrier;
	case OP_TRY_CLUSTER_CANCEL:
		return &o->u.try_cancel.barrier;
	default:
		return NULL;
	}
}

const struct barrier *tc_site_arrives(const struct op *o)
{
	const struct barrier_ref *b = tc_site_barrier(o);

	return b && o->kind != OP_BARRIER_WAIT ? b->barrier : NULL;
}

const struct barrier *tc_site_waits(const struct op *o)
{
	return o->kind == OP_BARRIER_WAIT ? o->u.wait.barrier.barrier : NULL;
}

bool tc_site_copies_to_tmem(const struct op *o)
{
	return o->kind == OP_ASYNC_COPY_SMEM_TO_TMEM || o->kind == OP_ASYNC_COPY_SCALES_TO_TMEM ||
	       o->kind == OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM;
}

bool tc_site_is_remote(const struct op *o)
{
	const struct barrier_ref *b = tc_site_barrier(o);

	return b && b->cluster_rank;
}

static bool repeats(const struct scope *s)
{
	int64_t trips;

	if (s->kind != SC_RANGE)
		return s->kind == SC_LOOP;
	trips = tc_range_trips(&s->owner->u.range);
	return trips < 0 || trips > 1;
}

static const struct op *outermost_loop(const struct op *o)
{
	const struct op *loop = NULL;

	for (const struct scope *s = o->scope; s; s = s->parent)
		loop = repeats(s) ? s->owner : loop;
	return loop;
}

static void collect(void *arg, const struct site *site)
{
	struct sites *s = arg;
	const struct op *o = site->op;

	if (!tc_site_arrives(o) && !tc_site_waits(o) && o->kind != OP_MMA &&
	    o->kind != OP_ASYNC_LOAD_TMEM && o->kind != OP_ASYNC_STORE_TMEM &&
	    o->kind != OP_SEMAPHORE_WAIT && !tc_site_copies_to_tmem(o))
		return;
	if (s->count == s->capacity) {
		int capacity = s->capacity ? 2 * s->capacity : 64;
		struct site *grown =
			tc_arena_alloc(&s->kern->arena, (size_t)capacity * sizeof *grown);

		for (int i = 0; i < s->count; i++)
			grown[i] = s->item[i];
		s->item = grown;
		s->capacity = capacity;
	}
	s->item[s->count] = *site;
	s->item[s->count].loop = outermost_loop(o);
	/* How many CTAs arrive on a peer's barrier is not known. */
	if (tc_site_is_remote(o))
		s->item[s->count].times.unsure = true;
	s->count++;
}

const char *tc_barrier_text(struct kern *k, const struct barrier *b)
{
	if (b->name)
		return tc_arena_printf(&k->arena, "barrier \"%s\" (%s)", b->name,
				       tc_pos_text(k, b->pos));
	return tc_arena_printf(&k->arena, "the barrier made at %s", tc_pos_text(k, b->pos));
}

bool tc_may_follow(const struct site *a, const struct site *b)
{
	return b->op->id > a->op->id || (a->loop && a->loop == b->loop);
}

static void check_parity_forms(struct sites *s, const struct barrier *b, const struct role *role)
{
	const struct op *with = NULL, *without = NULL;

	for (int i = 0; i < s->count; i++) {
		const struct site *w = &s->item[i];

		if (tc_site_waits(w->op) != b || w->role != role)
			continue;
		*(w->op->u.wait.parity ? &with : &without) = w->op;
	}
	if (with && without)
		tc_documented_at(&s->kern->err, with->pos, PARITY_MIXED, "", role->name);
}

/* It awaits a phase that nothing but arrivals completes: not the one before the first. */
static bool needs_arrivals(const struct op *o)
{
	int64_t parity = 0;

	return !o->u.wait.parity || (tc_val_is_const(o->u.wait.parity, &parity) && !(parity & 1));
}

static void check_barrier(struct sites *s, const struct barrier *b)
{
	struct kern *k = s->kern;
	const struct op *copy = NULL, *wait = NULL;
	bool arrives = false, awaited = false;

	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;
		bool runs = s->item[i].times.constant > 0;

		if (tc_site_waits(o) == b) {
			awaited = true;
			if (!wait && runs && needs_arrivals(o) && tc_is_sure(k, o))
				wait = o;
		}
		if (tc_site_arrives(o) == b) {
			arrives = true;
			if (!copy && runs && o->kind == OP_COPY_GMEM_TO_SMEM && tc_is_sure(k, o))
				copy = o;
		}
	}
	if (copy && !awaited)
		tc_documented_at(&k->err, copy->pos, COPY_NOT_AWAITED, "", tc_barrier_text(k, b));
	if (wait && !arrives)
		tc_documented_at(&k->err, wait->pos, NOBODY_ARRIVES, "", tc_barrier_text(k, b));
	for (int i = 0; i < k->roles.count && awaited; i++)
		check_parity_forms(s, b, k->roles.item[i]);
}

/* ---- waits that never end ----------------------------------------------------------------- */

/* Its value is the same whenever the role comes by, and its loop runs each time or never. */
static bool is_fixed(const struct val *v, int *budget)
{
	if (!v)
		return true;
	if (--*budget < 0 || v->kind == VAL_INDEX ||
	    (v->kind == VAL_OP && v->home->kind != SC_ROOT))
		return false;
	for (int i = 0; i < 3; i++)
		if (!is_fixed(v->arg[i], budget))
			return false;
	return true;
}

static bool runs_with(const struct op *loop, const struct times *of)
{
	const struct range_op *r = &loop->u.range;
	int budget = 1000;

	if (loop->kind != OP_RANGE || !is_fixed(r->lo, &budget) || !is_fixed(r->hi, &budget) ||
	    !is_fixed(r->step, &budget))
		return false;
	for (int i = 0; i < of->loops; i++)
		if (tc_same_loop(loop, of->loop[i]))
			return true;
	return false;
}

/*
 * An unconditional wait for a phase that does not complete stops its role there, once the loops
 * of `of` run.
 */
static bool stops(const struct site *w, const struct times *of)
{
	if (!tc_site_waits(w->op) || w->op->u.wait.parity || w->times.maybe || w->times.unsure ||
	    w->times.constant <= 0)
		return false;
	for (int i = 0; i < w->times.loops; i++)
		if (!runs_with(w->times.loop[i], of))
			return false;
	return true;
}

/* Whether the wait stops the roles of all CTAs, not of those alone in which its loops run. */
static bool stops_everywhere(const struct kern *k, const struct site *w)
{
	for (int i = 0; i < w->times.loops; i++)
		if (!tc_runs_alike(k, w->times.loop[i]))
			return false;
	return true;
}

/* Which waits stop their roles, and behind which site of each role nothing is reached. */
struct cycles {
	const struct sites *sites;
	bool *blocked;
	int *own, *all; /* by role: in this CTA; in all of them */
};

static void find_ends(const struct cycles *c)
{
	const struct sites *s = c->sites;

	for (int i = 0; i < s->kern->roles.count; i++)
		c->own[i] = c->all[i] = s->count;
	for (int i = s->count; i-- > 0;) {
		const struct role *role = s->item[i].role;

		if (!c->blocked[i])
			continue;
		c->own[role->id] = i;
		if (stops_everywhere(s->kern, &s->item[i]))
			c->all[role->id] = i;
	}
}

/* Threads or copies of other CTAs make it, too. */
static bool comes_from_others(const struct op *o)
{
	return tc_site_arrives(o)->cluster || tc_site_is_remote(o) ||
	       (o->kind == OP_COPY_GMEM_TO_SMEM && o->u.copy.leader_tracked) ||
	       (o->kind == OP_MMA && o->u.mma.collective_axis >= 0) ||
	       (o->kind == OP_COMMIT_ARRIVE && o->u.arrive.collective_axis >= 0);
}

/* Arrivals that are made although every blocked wait stops its role. */
static int64_t reachable_arrivals(const struct cycles *c, const struct barrier *b)
{
	const struct sites *s = c->sites;
	int64_t count = 0;

	for (int i = 0; i < s->count; i++) {
		const struct site *a = &s->item[i];

		if (tc_site_arrives(a->op) == b &&
		    i < (comes_from_others(a->op) ? c->all : c->own)[a->role->id])
			count += a->times.loops || a->times.unsure ? b->num_arrivals
								   : a->times.constant;
	}
	return count;
}

static bool unblock(const struct cycles *c, const struct barrier *b)
{
	const struct sites *s = c->sites;
	bool changed = false;

	if (reachable_arrivals(c, b) < b->num_arrivals)
		return false;
	for (int i = 0; i < s->count; i++)
		if (c->blocked[i] && tc_site_waits(s->item[i].op) == b) {
			c->blocked[i] = false;
			changed = true;
		}
	return changed;
}

_Noreturn static void refuse_wait(const struct cycles *c, const struct op *wait)
{
	struct kern *k = c->sites->kern;
	const struct barrier *b = tc_site_waits(wait);
	int64_t all;

	for (int i = 0; i < c->sites->count; i++)
		c->blocked[i] = false;
	find_ends(c);
	all = reachable_arrivals(c, b);
	if (all < b->num_arrivals)
		tc_documented_at(&k->err, wait->pos, TOO_FEW_ARRIVALS, "", tc_barrier_text(k, b),
				 tc_integer_text(k, b->num_arrivals), tc_integer_text(k, all));
	tc_documented_at(&k->err, wait->pos, WAIT_CYCLE, "", tc_barrier_text(k, b));
}

/*
 * Greatest fixed point: every wait is blocked until enough arrivals on its barrier come before
 * all blocked waits of their roles.
 */
static void find_blocked(const struct cycles *c, const struct times *of)
{
	const struct sites *s = c->sites;
	bool changed = true;

	for (int i = 0; i < s->count; i++)
		c->blocked[i] = stops(&s->item[i], of);
	while (changed) {
		changed = false;
		for (int i = 0; i < s->kern->barriers.count; i++) {
			find_ends(c);
			changed = unblock(c, s->kern->barriers.item[i]) || changed;
		}
	}
}

/* For each wait, as if the loops around it run. */
static void check_cycles(struct sites *s)
{
	struct arena *a = &s->kern->arena;
	size_t roles = (size_t)s->kern->roles.count;
	struct cycles c = {.sites = s, .blocked = tc_arena_alloc(a, (size_t)s->count + 1)};
	const struct times *of = NULL;

	c.own = tc_arena_alloc(a, (roles + 1) * sizeof *c.own);
	c.all = tc_arena_alloc(a, (roles + 1) * sizeof *c.all);
	for (int i = 0; i < s->count; i++) {
		const struct site *w = &s->item[i];

		if (!stops(w, &w->times) || !tc_is_sure(s->kern, w->op))
			continue;
		if (!of || !tc_same_loops(of, &w->times))
			find_blocked(&c, &w->times);
		of = &w->times;
		if (c.blocked[i])
			refuse_wait(&c, w->op);
	}
}

/* ---- accumulators --------------------------------------------------------------------------- */

/* Barriers that complete after the mma at `m`: its own, and later ones of its leader. */
static bool mark_completions(const struct sites *s, const struct site *m, bool *completes)
{
	bool any = false;

	for (int i = 0; i < s->count; i++) {
		const struct site *c = &s->item[i];
		const struct barrier *b = tc_site_arrives(c->op);

		if (!b || c->role != m->role ||
		    (c->op->kind != OP_MMA && c->op->kind != OP_COMMIT_ARRIVE))
			continue;
		if (c == m || tc_may_follow(m, c))
			completes[b->id] = any = true;
	}
	return any;
}

/* The role may have heard: by a barrier that completes with the MMA, or by a semaphore. */
static bool has_waited(const struct sites *s, const bool *completes, const struct site *site)
{
	for (int i = 0; i < s->count; i++) {
		const struct site *w = &s->item[i];
		const struct barrier *b = tc_site_waits(w->op);

		if ((b ? completes[b->id] : w->op->kind == OP_SEMAPHORE_WAIT) &&
		    w->role == site->role && tc_may_follow(w, site))
			return true;
	}
	return false;
}

/* Who arrives after having waited passes the news on. */
static void spread(const struct sites *s, bool *completes)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (int i = 0; i < s->count; i++) {
			const struct barrier *b = tc_site_arrives(s->item[i].op);

			if (b && !completes[b->id] && has_waited(s, completes, &s->item[i]))
				completes[b->id] = changed = true;
		}
	}
}

static bool is_load_of(const struct kern *k, const struct site *s, const struct alloc *a)
{
	return s->op->kind == OP_ASYNC_LOAD_TMEM && s->op->u.load.ref->alloc == a &&
	       s->times.constant > 0 && tc_is_sure(k, s->op);
}

/* Asynchronous writes of TMEM that a barrier has to tell of. */
static const char *written_by(const struct op *o, const struct alloc *a)
{
	if (o->kind == OP_MMA && o->u.mma.acc->alloc == a)
		return "tc.mma";
	if (o->kind == OP_ASYNC_COPY_SMEM_TO_TMEM && o->u.tmem_copy.dst->alloc == a)
		return "tc.async_copy_smem_to_tmem";
	return NULL;
}

static void check_accumulator(struct sites *s, const struct alloc *a)
{
	struct kern *k = s->kern;
	bool *completes = tc_arena_alloc(&k->arena, (size_t)k->barriers.count * sizeof(bool) + 1);
	const struct op *mma = NULL;
	bool signalled = false, stored = false, awaited = false;
	const char *text, *writer = NULL;

	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		stored = stored || (o->kind == OP_ASYNC_STORE_TMEM && o->u.store.ref->alloc == a);
		if (!written_by(o, a) || s->item[i].times.constant <= 0)
			continue;
		writer = written_by(o, a);
		mma = o->kind == OP_MMA && tc_is_sure(k, o) ? o : mma;
		signalled = mark_completions(s, &s->item[i], completes) || signalled;
	}
	if (!writer)
		return;
	text = tc_ref_text(k, tc_ref_whole(k, (struct alloc *)a));
	for (int i = 0; i < s->count; i++) {
		const struct barrier *b = tc_site_waits(s->item[i].op);

		awaited = awaited || (b && completes[b->id]);
		if (!signalled && is_load_of(k, &s->item[i], a))
			tc_documented_at(&k->err, s->item[i].op->pos, NO_COMPLETION, "", text,
					 writer);
	}
	spread(s, completes);
	for (int i = 0; i < s->count && !stored; i++)
		if (is_load_of(k, &s->item[i], a) && !has_waited(s, completes, &s->item[i]))
			tc_documented_at(&k->err, s->item[i].op->pos, READ_WITHOUT_WAIT, "", text,
					 writer);
	if (mma && !awaited)
		tc_documented_at(&k->err, mma->pos, MMA_NOT_AWAITED, "");
}

void tc_verify_barriers(struct kern *k)
{
	struct sites s = {.kern = k};

	tc_verify_walk(k, collect, &s);
	for (int i = 0; i < k->barriers.count; i++)
		check_barrier(&s, k->barriers.item[i]);
	tc_verify_counts(&s);
	check_cycles(&s);
	tc_verify_multicast(&s);
	tc_verify_schedule(&s);
	tc_verify_collective(&s);
	tc_verify_cluster_counts(&s);
	for (int i = 0; i < k->allocs.count; i++) {
		const struct alloc *a = k->allocs.item[i];

		if (a->space == SP_TMEM)
			check_accumulator(&s, a);
	}
}

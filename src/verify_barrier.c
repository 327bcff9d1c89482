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

static void collect(void *arg, const struct site *site)
{
	struct sites *s = arg;
	const struct op *o = site->op;

	if (!tc_site_arrives(o) && !tc_site_waits(o) && o->kind != OP_MMA &&
	    o->kind != OP_ASYNC_LOAD_TMEM && o->kind != OP_ASYNC_STORE_TMEM &&
	    !tc_site_copies_to_tmem(o))
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

static const struct op *first_wait(const struct sites *s, const struct barrier *b)
{
	for (int i = 0; i < s->count; i++)
		if (tc_site_waits(s->item[i].op) == b)
			return s->item[i].op;
	return NULL;
}

static void check_barrier(struct sites *s, const struct barrier *b)
{
	struct kern *k = s->kern;
	const struct op *wait = first_wait(s, b);
	bool arrives = false;

	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (tc_site_arrives(o) != b)
			continue;
		arrives = true;
		if (!wait && o->kind == OP_COPY_GMEM_TO_SMEM)
			tc_documented_at(&k->err, o->pos, COPY_NOT_AWAITED, "",
					 tc_barrier_text(k, b));
	}
	if (wait && !arrives)
		tc_documented_at(&k->err, wait->pos, NOBODY_ARRIVES, "", tc_barrier_text(k, b));
	for (int i = 0; i < k->roles.count && wait; i++)
		check_parity_forms(s, b, k->roles.item[i]);
}

/* ---- waits that never end ----------------------------------------------------------------- */

/* An unconditional wait for a phase that does not complete stops its role there. */
static bool stops(const struct op *o, const struct times *t)
{
	return tc_site_waits(o) && !o->u.wait.parity && !t->maybe && t->constant > 0;
}

/* Arrivals that are made although every wait in `blocked` stops its role. */
static int64_t reachable_arrivals(const struct sites *s, const bool *blocked,
				  const struct barrier *b)
{
	int64_t count = 0;

	for (int i = 0; i < s->count; i++) {
		const struct site *a = &s->item[i];
		bool reached = true;

		if (tc_site_arrives(a->op) != b)
			continue;
		for (int j = 0; j < i && reached; j++)
			reached = !blocked[j] || s->item[j].role != a->role;
		if (reached)
			count += a->times.loops || tc_site_is_remote(a->op) ? b->num_arrivals
									    : a->times.constant;
	}
	return count;
}

static bool unblock(const struct sites *s, bool *blocked, const struct barrier *b)
{
	bool changed = false;

	if (reachable_arrivals(s, blocked, b) < b->num_arrivals)
		return false;
	for (int i = 0; i < s->count; i++)
		if (blocked[i] && tc_site_waits(s->item[i].op) == b) {
			blocked[i] = false;
			changed = true;
		}
	return changed;
}

/*
 * Greatest fixed point: every wait is blocked until enough arrivals on its barrier come before
 * all blocked waits of their roles.
 */
static void check_cycles(struct sites *s)
{
	struct kern *k = s->kern;
	bool *blocked = tc_arena_alloc(&k->arena, (size_t)s->count * sizeof *blocked + 1);
	bool *none = tc_arena_alloc(&k->arena, (size_t)s->count * sizeof *none + 1);
	bool changed = true;

	for (int i = 0; i < s->count; i++)
		blocked[i] = stops(s->item[i].op, &s->item[i].times);
	while (changed) {
		changed = false;
		for (int i = 0; i < k->barriers.count; i++)
			changed = unblock(s, blocked, k->barriers.item[i]) || changed;
	}
	for (int i = 0; i < s->count; i++) {
		const struct barrier *b = tc_site_waits(s->item[i].op);
		int64_t all;

		if (!blocked[i])
			continue;
		all = reachable_arrivals(s, none, b);
		if (all < b->num_arrivals)
			tc_documented_at(&k->err, s->item[i].op->pos, TOO_FEW_ARRIVALS, "",
					 tc_barrier_text(k, b), tc_integer_text(k, b->num_arrivals),
					 tc_integer_text(k, all));
		tc_documented_at(&k->err, s->item[i].op->pos, WAIT_CYCLE, "",
				 tc_barrier_text(k, b));
	}
}

/* ---- accumulators --------------------------------------------------------------------------- */

static bool repeats(const struct scope *s)
{
	int64_t trips;

	if (s->kind != SC_RANGE)
		return s->kind == SC_LOOP;
	trips = tc_range_trips(&s->owner->u.range);
	return trips < 0 || trips > 1;
}

bool tc_may_follow(const struct site *a, const struct site *b)
{
	if (b->op->id > a->op->id)
		return true;
	for (const struct scope *s = b->op->scope; s; s = s->parent)
		if (repeats(s) && tc_scope_encloses(s, a->op->scope))
			return true;
	return false;
}

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

/* Who arrives after having waited passes the news on. */
static void spread(const struct sites *s, bool *completes)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (int i = 0; i < s->count; i++) {
			const struct barrier *b = tc_site_arrives(s->item[i].op);

			if (!b || completes[b->id] || s->item[i].op->kind != OP_BARRIER_ARRIVE)
				continue;
			for (int j = 0; j < s->count && !completes[b->id]; j++) {
				const struct barrier *w = tc_site_waits(s->item[j].op);

				if (w && completes[w->id] && s->item[j].role == s->item[i].role &&
				    tc_may_follow(&s->item[j], &s->item[i]))
					completes[b->id] = changed = true;
			}
		}
	}
}

static bool has_waited(const struct sites *s, const bool *completes, const struct site *load)
{
	for (int i = 0; i < s->count; i++) {
		const struct site *w = &s->item[i];
		const struct barrier *b = tc_site_waits(w->op);

		if (b && completes[b->id] && w->role == load->role &&
		    (w->op->id < load->op->id || (load->times.maybe && tc_may_follow(w, load))))
			return true;
	}
	return false;
}

static bool is_load_of(const struct op *o, const struct alloc *a)
{
	return o->kind == OP_ASYNC_LOAD_TMEM && o->u.load.ref->alloc == a;
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
		if (!written_by(o, a))
			continue;
		writer = written_by(o, a);
		mma = o->kind == OP_MMA ? o : mma;
		signalled = mark_completions(s, &s->item[i], completes) || signalled;
	}
	if (!writer)
		return;
	text = tc_ref_text(k, tc_ref_whole(k, (struct alloc *)a));
	for (int i = 0; i < s->count; i++) {
		const struct barrier *b = tc_site_waits(s->item[i].op);

		awaited = awaited || (b && completes[b->id]);
		if (!signalled && is_load_of(s->item[i].op, a))
			tc_documented_at(&k->err, s->item[i].op->pos, NO_COMPLETION, "", text,
					 writer);
	}
	spread(s, completes);
	for (int i = 0; i < s->count && !stored; i++)
		if (is_load_of(s->item[i].op, a) && !has_waited(s, completes, &s->item[i]))
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

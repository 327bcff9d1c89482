/*
 * One SM, or the SMs of one cluster, through all the CTAs that it gets: a clock for each role, for
 * the tensor core, for the copies in and out; barriers hold the clocks of their phases.  The role
 * that is furthest behind goes on.
 */
#include "compile.h"
#include "estimate.h"
#include "mma_shape.h"

#include <string.h>

struct slot { /* one barrier */
	int arrived;
	double latest; /* arrival of the running phase */
	int phases, capacity;
	double *end; /* of each phase */
};

struct sm {
	double tensor_free, load_free, store_free;
};

struct cta {
	struct residence *home;
	int rank;
	struct slot *slots;
	int roles_left;
	double end;
};

/* Room for one cluster on the SMs; the next one follows where it ends. */
struct residence {
	int64_t cluster;
	struct cta *ctas;
	struct actor *actors; /* roles of all CTAs */
	int actors_left;
	double end;
	int64_t *taken; /* clusters taken over, -1 for an answer without one; by request */
	int taken_count, taken_capacity;
};

struct actor {
	struct walk walk;
	struct cta *cta;
	struct role *role;
	double time;
	const struct op *pending; /* to be tried again */
	bool blocked, done;
	int *seen;     /* phases waited for, by slot */
	double *group; /* end of each bulk group */
	int groups, group_capacity;
	int answers; /* read so far */
};

struct sim {
	struct kern *kern;
	struct err *err;
	struct arena *arena;
	struct estimate *e;
	double l2_clocks_per_byte, dram_clocks_per_byte;
	int ranks, slot_count, *first_slot; /* by barrier id */
	struct sm *sms;
	struct residence *homes;
	int home_count;
	int64_t clusters, stride, next;
	int64_t ran;
	int64_t steps;
};

/* ---- barriers ---------------------------------------------------------------------------------
 */

static void *grown(struct sim *s, void *old, int *capacity, size_t size)
{
	int bigger = *capacity ? 2 * *capacity : 16;
	void *p = tc_arena_alloc(s->arena, (size_t)bigger * size);

	if (*capacity)
		memcpy(p, old, (size_t)*capacity * size);
	*capacity = bigger;
	return p;
}

static int wanted(const struct sim *s, const struct barrier *b)
{
	int peers = b->cluster ? tc_cluster_peers(s->kern, b->cluster_group, b->cluster_groups) : 1;

	return b->num_arrivals * (b->leader_tracked ? 1 : peers);
}

static void arrive_at(struct sim *s, struct cta *c, const struct barrier *b, int index, double at)
{
	struct slot *x = &c->slots[s->first_slot[b->id] + index];

	x->latest = at > x->latest ? at : x->latest;
	if (++x->arrived < wanted(s, b))
		return;
	if (x->phases == x->capacity)
		x->end = grown(s, x->end, &x->capacity, sizeof *x->end);
	x->end[x->phases++] = x->latest;
	x->arrived = 0;
	x->latest = 0;
}

static int barrier_index(struct sim *s, struct actor *a, const struct barrier_ref *b,
			 const struct op *o)
{
	struct known index = tc_walk_value(&a->walk, b->index);

	if (!index.known)
		tc_fail_at(s->err, o->pos, "which barrier is meant only the kernel knows: %s",
			   tc_val_text(s->kern, b->index));
	if (index.i < 0 || index.i >= b->barrier->num_barriers)
		tc_fail_at(s->err, o->pos, "barrier %lld of %d", (long long)index.i,
			   b->barrier->num_barriers);
	return (int)index.i;
}

static void arrive(struct sim *s, struct actor *a, const struct barrier_ref *b, const struct op *o,
		   unsigned axes, double at)
{
	struct residence *home = a->cta->home;
	int index = barrier_index(s, a, b, o);
	const struct barrier *x = b->barrier;
	struct known rank = tc_walk_value(&a->walk, b->cluster_rank);

	if (b->cluster_rank && rank.known && rank.i >= 0 && rank.i < s->ranks) {
		arrive_at(s, &home->ctas[rank.i], x, index, at);
		return;
	}
	for (int q = 0; q < s->ranks; q++) {
		bool hit = q == a->cta->rank ||
			   (axes && tc_cluster_reaches(s->kern, a->cta->rank, q, axes));

		for (int g = 0; g < x->cluster_groups && x->cluster; g++)
			hit |= tc_cluster_reaches(s->kern, a->cta->rank, q, x->cluster_group[g]);
		if (hit)
			arrive_at(s, &home->ctas[q], x, index, at);
	}
}

/* False: the phase has not ended yet. */
static bool wait_for(struct sim *s, struct actor *a, const struct op *o)
{
	const struct wait_op *x = &o->u.wait;
	int index = barrier_index(s, a, &x->barrier, o);
	int number = s->first_slot[x->barrier.barrier->id] + index;
	const struct slot *slot = &a->cta->slots[number];
	int phase = a->seen[number];

	if (x->parity) {
		struct known parity = tc_walk_value(&a->walk, x->parity);

		if (!parity.known)
			tc_fail_at(s->err, o->pos, "a phase that only the kernel knows");
		/* Phase p has ended when p phases are over, or the one before is running. */
		phase = slot->phases - ((slot->phases & 1) == (parity.i & 1) ? 0 : 1);
		if (phase < 0)
			return true;
	}
	if (phase >= slot->phases)
		return false;
	if (!x->parity)
		a->seen[number]++;
	if (slot->end[phase] > a->time)
		a->time = slot->end[phase];
	a->time += tc_cost.wake;
	return true;
}

/* ---- engines ----------------------------------------------------------------------------------
 */

static double later(double a, double b)
{
	return a > b ? a : b;
}

static struct sm *sm_of(struct sim *s, const struct actor *a)
{
	return &s->sms[a->cta->rank];
}

static void load(struct sim *s, struct actor *a, const struct op *o)
{
	const struct copy_op *x = &o->u.copy;
	struct sm *sm = sm_of(s, a);
	double bytes = tc_own_bytes(&a->walk, x);
	double start = later(a->time, sm->load_free);
	double dram = bytes * s->e->miss * s->dram_clocks_per_byte;
	sm->load_free = start + later(bytes * s->l2_clocks_per_byte, dram);
	s->e->bytes[PATH_L2] += bytes;
	s->e->bytes[PATH_DRAM] += bytes * s->e->miss;
	s->e->busy[PATH_L2] += bytes * s->l2_clocks_per_byte;
	if (x->barrier.barrier)
		arrive(s, a, &x->barrier, o, 0, sm->load_free + tc_cost.load_latency);
	a->time += tc_cost.issue;
}

static void add_group(struct sim *s, struct actor *a, double end)
{
	if (a->groups == a->group_capacity)
		a->group = grown(s, a->group, &a->group_capacity, sizeof *a->group);
	a->group[a->groups++] = end;
}

static void store(struct sim *s, struct actor *a, const struct op *o)
{
	struct sm *sm = sm_of(s, a);
	double bytes = (double)tc_ref_bytes(&a->walk, o->u.copy.src);

	sm->store_free = later(a->time, sm->store_free) + bytes / tc_cost.store_bytes;
	s->e->bytes[PATH_OUT] += bytes;
	add_group(s, a, sm->store_free);
	a->time += tc_cost.issue;
}

static void wait_stores(struct actor *a, int n, bool read_only)
{
	if (a->groups > n)
		a->time = later(a->time, a->group[a->groups - 1 - n] +
						 (read_only ? 0 : tc_cost.store_latency));
	a->time += tc_cost.fence;
}

static double rate_of(enum mma_kind kind)
{
	static const double rates[] = {
#define RATE(kind, rate) [kind] = rate,
#include "estimate.def"
	};

	return rates[kind];
}

/* What one tc.mma asks of one CTA's SM. */
struct mma_cost {
	double clocks;      /* of the tensor core */
	double full_clocks; /* were all its rows in use */
	double smem, flop;  /* smem: bytes of operands that it reads from SMEM */
};

static struct mma_cost cost_of(const struct mma_op *m)
{
	struct mma_shape shape;

	tc_mma_describe(m, &shape);
	int64_t n = m->acc->shape[1].size;
	double a_bytes = (double)shape.m * (double)m->a->shape[1].size * shape.a_bits / 8;
	double b_bytes = (double)shape.depth * (double)shape.n * shape.b_bits / 8;
	double rate = tc_cost.mma_flop * (shape.row ? rate_of(shape.row->kind) : 1);
	double flop = 2.0 * (double)shape.m * (double)n * (double)shape.depth;
	double full = flop / (shape.sparse ? 2 * rate : rate);

	return (struct mma_cost){/* A half-filled instruction takes as long as a full one. */
				 .clocks = shape.m <= 64 ? full * 128 / (double)shape.m : full,
				 .full_clocks = full,
				 .smem = (shape.a_in_tmem ? 0 : a_bytes) + b_bytes,
				 .flop = flop};
}

static void mma(struct sim *s, struct actor *a, const struct op *o)
{
	const struct mma_op *m = &o->u.mma;
	unsigned axes = m->collective_axis >= 0 ? 1u << m->collective_axis : 0;
	struct mma_cost cost = cost_of(m);
	double end = 0;

	/* Of a pair one CTA issues for both. */
	for (int q = 0; q < s->ranks; q++) {
		struct sm *sm = &s->sms[q];

		if (q != a->cta->rank &&
		    !(axes && tc_cluster_reaches(s->kern, a->cta->rank, q, axes)))
			continue;
		sm->tensor_free = later(a->time + tc_cost.issue, sm->tensor_free) +
				  later(cost.clocks, cost.smem / tc_cost.smem_bytes);
		end = later(end, sm->tensor_free);
		s->e->tensor_clocks += cost.clocks;
		s->e->full_clocks += cost.full_clocks;
		s->e->flop += cost.flop;
		s->e->bytes[PATH_SMEM] += cost.smem;
	}
	s->e->k_steps++;
	if (m->barrier.barrier)
		arrive(s, a, &m->barrier, o, axes, end + tc_cost.mma_latency);
	a->time += tc_cost.issue;
}

/* ---- what threads do --------------------------------------------------------------------------
 */

static double elements(const struct frag *f)
{
	double n = 1;

	for (int i = 0; i < f->rank; i++)
		n *= f->shape[i];
	return n;
}

/* Lanes of the role: four warps fill an SM's. */
static double share(const struct actor *a)
{
	return a->role->warps >= 4 ? 1 : a->role->warps / 4.0;
}

static void compute(struct actor *a, const struct frag *f, bool special)
{
	double lanes = (special ? tc_cost.special_lanes : tc_cost.lanes) * share(a);

	a->time += elements(f) / lanes;
}

static void move_tmem(struct sim *s, struct actor *a, const struct frag *f)
{
	double words = elements(f) * tc_dtypes[f->dtype].bits / 32;

	s->e->bytes[PATH_TMEM] += 4 * words;
	a->time += words / (tc_cost.tmem_words * share(a)) + tc_cost.tmem_latency;
}

static void move_smem(struct actor *a, const struct ref *r, const struct frag *f)
{
	double bytes = elements(f) * tc_dtypes[f->dtype].bits / 8;

	a->time += bytes / (r->alloc->space == SP_SMEM ? tc_cost.smem_bytes : tc_cost.store_bytes);
	if (r->alloc->space == SP_GMEM)
		a->time += tc_cost.load_latency;
}

static bool is_special(enum frag_op op)
{
	return op == FO_EXP2 || op == FO_LOG2 || op == FO_EXP || op == FO_LOG || op == FO_RSQRT ||
	       op == FO_SQRT || op == FO_TANH || op == FO_DIV;
}

static void threads(struct sim *s, struct actor *a, const struct op *o)
{
	switch (o->kind) {
	case OP_ASYNC_LOAD_TMEM:
		move_tmem(s, a, o->u.load.result);
		break;
	case OP_ASYNC_STORE_TMEM:
		move_tmem(s, a, o->u.store.value);
		break;
	case OP_LOAD:
		move_smem(a, o->u.load.ref, o->u.load.result);
		break;
	case OP_STORE:
		move_smem(a, o->u.store.ref, o->u.store.value);
		if (o->u.store.barrier.barrier)
			arrive(s, a, &o->u.store.barrier, o, 0, a->time);
		break;
	case OP_ATOMIC:
		move_smem(a, o->u.store.ref, o->u.store.value);
		break;
	case OP_FRAG_ELEMENTWISE:
		compute(a, o->u.elementwise.result, is_special(o->u.elementwise.op));
		break;
	case OP_FRAG_CAST:
		compute(a, o->u.cast.result, false);
		break;
	case OP_FRAG_REDUCE:
		compute(a, o->u.reduce.arg, false);
		break;
	case OP_COMMIT_SMEM:
	case OP_COMMIT_GMEM:
	case OP_COMMIT_TMEM:
	case OP_WAIT_LOAD_TMEM:
		a->time += tc_cost.fence;
		break;
	case OP_LOAD_SCALAR:
		a->time += tc_cost.load_latency;
		break;
	default:
		break;
	}
}

/* All CTAs of the cluster ask together: what the first gets holds for all. */
static void take_over(struct sim *s, struct actor *a, const struct op *o)
{
	struct residence *home = a->cta->home;

	if (a->cta->rank == 0) {
		bool left = s->next < s->clusters;

		if (home->taken_count == home->taken_capacity)
			home->taken =
				grown(s, home->taken, &home->taken_capacity, sizeof *home->taken);
		home->taken[home->taken_count++] = left ? s->next : -1;
		s->next += left ? s->stride : 0;
		s->ran += left;
	}
	arrive(s, a, &o->u.try_cancel.barrier, o, 0, a->time + tc_cost.load_latency);
	a->time += tc_cost.issue;
}

static bool answer(struct actor *a, const struct op *o)
{
	const struct residence *home = a->cta->home;

	if (a->answers >= home->taken_count)
		return false;
	tc_walk_answer(&a->walk, &o->u.query_cancel, home->taken[a->answers++]);
	a->time += tc_cost.issue;
	return true;
}

/* False: it waits. */
static bool perform(struct sim *s, struct actor *a, const struct op *o)
{
	switch (o->kind) {
	case OP_BARRIER_WAIT:
		return wait_for(s, a, o);
	case OP_BARRIER_ARRIVE:
		arrive(s, a, &o->u.arrive.barrier, o, 0, a->time + tc_cost.issue);
		a->time += tc_cost.issue;
		break;
	case OP_COMMIT_ARRIVE:
		arrive(s, a, &o->u.arrive.barrier, o,
		       o->u.arrive.collective_axis >= 0 ? 1u << o->u.arrive.collective_axis : 0,
		       later(a->time, sm_of(s, a)->tensor_free) + tc_cost.mma_latency);
		a->time += tc_cost.issue;
		break;
	case OP_COPY_GMEM_TO_SMEM:
		load(s, a, o);
		break;
	case OP_COPY_SMEM_TO_GMEM:
		store(s, a, o);
		break;
	case OP_WAIT_SMEM_TO_GMEM:
		wait_stores(a, o->u.wait_smem.n, o->u.wait_smem.read_only);
		break;
	case OP_MMA:
		mma(s, a, o);
		break;
	case OP_TRY_CLUSTER_CANCEL:
		take_over(s, a, o);
		break;
	case OP_QUERY_CLUSTER_CANCEL:
		return answer(a, o);
	default:
		threads(s, a, o);
	}
	return true;
}

/* ---- the schedule -----------------------------------------------------------------------------
 */

static void begin_cluster(struct sim *s, struct residence *h, double time)
{
	h->cluster = s->next;
	h->actors_left = s->ranks * s->kern->roles.count;
	h->end = time;
	h->taken_count = 0;
	s->next += s->stride;
	s->ran++;
	for (int rank = 0; rank < s->ranks; rank++) {
		struct cta *c = &h->ctas[rank];

		c->home = h;
		c->rank = rank;
		memset(c->slots, 0, (size_t)s->slot_count * sizeof *c->slots);
		for (int r = 0; r < s->kern->roles.count; r++) {
			struct actor *a = &h->actors[rank * s->kern->roles.count + r];

			a->cta = c;
			a->role = s->kern->roles.item[r];
			a->time = time + tc_cost.start;
			a->done = a->blocked = false;
			a->pending = NULL;
			a->groups = 0;
			a->answers = 0;
			memset(a->seen, 0, (size_t)s->slot_count * sizeof *a->seen);
			tc_walk_begin(&a->walk, h->cluster, rank);
		}
	}
}

static void end_role(struct sim *s, struct actor *a)
{
	struct residence *h = a->cta->home;

	wait_stores(a, 0, true);
	a->done = true;
	h->end = later(h->end, a->time);
	s->e->clocks = later(s->e->clocks, a->time);
	if (--h->actors_left == 0 && s->next < s->clusters)
		begin_cluster(s, h, h->end);
}

static void step(struct sim *s, struct actor *a)
{
	const struct op *o = a->pending ? a->pending : tc_walk_next(&a->walk);

	if (!o) {
		end_role(s, a);
		return;
	}
	a->blocked = !perform(s, a, o);
	a->pending = a->blocked ? o : NULL;
}

/* The role that is furthest behind and does not wait; NULL: none. */
static struct actor *choose(struct sim *s)
{
	struct actor *best = NULL;

	for (int i = 0; i < s->home_count; i++)
		for (int j = 0; j < s->ranks * s->kern->roles.count; j++) {
			struct actor *a = &s->homes[i].actors[j];

			if (a->done || (best && a->time >= best->time))
				continue;
			if (a->blocked) {
				double before = a->time;
				bool over = perform(s, a, a->pending);

				if (!over)
					continue;
				a->blocked = false;
				a->pending = NULL;
				if (best && a->time >= best->time && a->time > before)
					continue;
			}
			best = a;
		}
	return best;
}

static void make_room(struct sim *s, struct residence *h)
{
	int roles = s->kern->roles.count;

	h->ctas = tc_arena_alloc(s->arena, (size_t)s->ranks * sizeof *h->ctas);
	h->actors = tc_arena_alloc(s->arena, (size_t)(s->ranks * roles + 1) * sizeof *h->actors);
	for (int i = 0; i < s->ranks; i++)
		h->ctas[i].slots =
			tc_arena_alloc(s->arena, (size_t)(s->slot_count + 1) * sizeof(struct slot));
	for (int i = 0; i < s->ranks * roles; i++) {
		tc_walk_init(&h->actors[i].walk, s->kern, s->err, s->arena,
			     s->kern->roles.item[i % roles], &s->steps);
		h->actors[i].seen =
			tc_arena_alloc(s->arena, (size_t)(s->slot_count + 1) * sizeof(int));
	}
}

static void number_barriers(struct sim *s)
{
	const struct kern *k = s->kern;

	s->first_slot = tc_arena_alloc(s->arena, (size_t)(k->barriers.count + 1) * sizeof(int));
	for (int i = 0; i < k->barriers.count; i++) {
		const struct barrier *b = k->barriers.item[i];

		s->first_slot[b->id] = s->slot_count;
		s->slot_count += b->num_barriers;
	}
}

/* What the CTAs of these SMs did stands for all; of the rates, one SM's. */
static void scale(struct sim *s)
{
	struct estimate *e = s->e;
	double clusters = (double)s->clusters / (double)s->ran;

	e->flop *= clusters;
	e->tensor_clocks *= clusters / e->machine->sms;
	e->full_clocks *= clusters / e->machine->sms;
	for (int i = 0; i < PATH_COUNT; i++) {
		e->bytes[i] *= clusters / e->machine->sms;
		e->busy[i] *= clusters / e->machine->sms;
	}
}

void tc_estimate_run(struct kern *k, struct err *err, struct arena *arena, struct estimate *e)
{
	struct sim s = {.kern = k, .err = err, .arena = arena, .e = e, .steps = 20000000};
	struct actor *a;
	double dram_bytes = e->machine->dram_gbps * 1e3 / e->machine->mhz; /* a clock, all SMs */

	s.ranks = tc_cluster_size(k, ~0u);
	s.clusters = tc_walk_clusters(k);
	s.stride = e->machine->sms / s.ranks;
	s.l2_clocks_per_byte = (1 + tc_cost.miss_cost * e->miss) / tc_cost.l2_bytes;
	s.dram_clocks_per_byte = e->machine->sms / dram_bytes;
	s.sms = tc_arena_alloc(arena, (size_t)s.ranks * sizeof *s.sms);
	s.homes = tc_arena_alloc(arena, (size_t)e->ctas_per_sm * sizeof *s.homes);
	number_barriers(&s);
	for (; s.home_count < e->ctas_per_sm && s.next < s.clusters; s.home_count++) {
		make_room(&s, &s.homes[s.home_count]);
		begin_cluster(&s, &s.homes[s.home_count], 0);
	}
	while ((a = choose(&s)))
		step(&s, a);
	for (int i = 0; i < s.home_count; i++)
		if (s.homes[i].actors_left)
			tc_fail(err, "its roles wait for each other");
	scale(&s);
}

/*
 * Arrivals against waits: of each role and barrier, in loops that run equally often.  What branches
 * on the index in a cluster does is known for each CTA of it: there, it is done or not.
 */
#include "verify.h"

/* ---- how often ------------------------------------------------------------------------------ */

static bool same_value(const struct val *a, const struct val *b)
{
	int64_t x, y;

	if (a == b)
		return true;
	return tc_val_is_const(a, &x) && tc_val_is_const(b, &y) && x == y;
}

bool tc_same_loop(const struct op *a, const struct op *b)
{
	const struct range_op *p = &a->u.range, *q = &b->u.range;

	if (a == b)
		return true;
	return a->kind == OP_RANGE && b->kind == OP_RANGE && same_value(p->lo, q->lo) &&
	       same_value(p->hi, q->hi) && same_value(p->step, q->step);
}

bool tc_same_loops(const struct times *a, const struct times *b)
{
	if (a->unsure || b->unsure || a->loops != b->loops)
		return false;
	for (int i = 0; i < a->loops; i++)
		if (!tc_same_loop(a->loop[i], b->loop[i]))
			return false;
	return true;
}

/* Which loop of one function stands for which of the other. */
struct pairing {
	int budget, count;
	const struct op *of_a[VERIFY_MAX_LOOPS], *of_b[VERIFY_MAX_LOOPS];
};

static bool pair_up(struct pairing *p, const struct op *a, const struct op *b)
{
	for (int i = 0; i < p->count; i++)
		if (p->of_a[i] == a || p->of_b[i] == b)
			return p->of_a[i] == a && p->of_b[i] == b;
	if (p->count == VERIFY_MAX_LOOPS || !tc_same_loop(a, b))
		return false;
	p->of_a[p->count] = a;
	p->of_b[p->count++] = b;
	return true;
}

/*
 * Equal values, or equal functions of the counters of loops that run equally often.  The graphs
 * share nodes: after `budget` of them the answer is no, which only leaves a question unasked.
 */
static bool same_function(const struct val *a, const struct val *b, struct pairing *p)
{
	if (!a || !b || a->kind == VAL_CONST || b->kind == VAL_CONST)
		return same_value(a, b);
	if (a->kind != b->kind || --p->budget < 0)
		return false;
	if (a->kind == VAL_INDEX)
		return pair_up(p, a->def, b->def);
	if (a->kind != VAL_EXPR)
		return a == b;
	if (a->op != b->op)
		return false;
	for (int i = 0; i < 3; i++)
		if ((a->arg[i] || b->arg[i]) && !same_function(a->arg[i], b->arg[i], p))
			return false;
	return true;
}

static bool same_index(const struct val *a, const struct val *b)
{
	struct pairing p = {.budget = 1000};

	return same_function(a, b, &p);
}

/* Executions of several sites in one set of loops, least and most. */
struct count {
	bool comparable;
	const struct times *loops;
	int64_t least, most;
	int sites;
	const struct op *last;
	const struct op *certain; /* one that is executed, where the loops around it run */
	bool one_slot; /* all sites name one barrier of the group, by equal expressions */
	const struct val *index;
};

static void add(struct count *c, const struct site *site)
{
	const struct val *index = tc_site_barrier(site->op)->index;

	c->one_slot = !c->sites || (c->one_slot && same_index(c->index, index));
	c->index = index;
	if (c->loops && !tc_same_loops(c->loops, &site->times))
		c->comparable = false;
	c->loops = c->loops ? c->loops : &site->times;
	if (site->times.unsure)
		c->comparable = false;
	c->most += site->times.constant;
	c->least += site->times.maybe ? 0 : site->times.constant;
	c->sites++;
	c->last = site->op;
	c->certain = site->times.maybe ? c->certain : site->op;
}

static struct count count_arrivals(const struct sites *s, const struct barrier *b)
{
	struct count c = {.comparable = true};

	for (int i = 0; i < s->count; i++)
		if (tc_site_arrives(s->item[i].op) == b)
			add(&c, &s->item[i]);
	return c;
}

static bool only_copies(const struct sites *s, const struct barrier *b)
{
	for (int i = 0; i < s->count; i++)
		if (tc_site_arrives(s->item[i].op) == b &&
		    s->item[i].op->kind != OP_COPY_GMEM_TO_SMEM)
			return false;
	return true;
}

static const char *where_text(const struct sites *s)
{
	return s->where ? s->where : "";
}

static const char *count_text(struct kern *k, const struct count *arrivals,
			      const struct count *waits)
{
	return tc_arena_printf(&k->arena, "%lld for %lld wait%s%s", (long long)arrivals->most,
			       (long long)waits->most, waits->most == 1 ? "" : "s",
			       arrivals->loops->loops ? " in each iteration" : "");
}

static struct count count_waits(const struct sites *s, const struct barrier *b,
				const struct role *role, const struct op **first)
{
	struct count c = {.comparable = true};

	*first = NULL;
	for (int i = 0; i < s->count; i++) {
		const struct site *w = &s->item[i];

		if (tc_site_waits(w->op) != b || w->role != role)
			continue;
		if (w->op->u.wait.parity)
			c.comparable = false;
		*first = *first ? *first : w->op;
		add(&c, w);
	}
	return c;
}

/*
 * The role leaves copies behind that nobody has waited for.  This is only asked where all name one
 * slot by equal expressions: it may wait for other slots than those that they are made to.
 */
static bool leaves_copies(const struct barrier *b, const struct count *arrivals,
			  const struct count *waits)
{
	return waits->comparable && tc_same_loops(arrivals->loops, waits->loops) &&
	       arrivals->one_slot && waits->one_slot && same_index(arrivals->index, waits->index) &&
	       arrivals->least > b->num_arrivals * waits->most;
}

/*
 * Each role's waits against all arrivals.  Phases may be left over at the end, as after the last
 * release of a ring, and a role may stop to wait; of copies, some role waits for all.
 */
static void check_counts(const struct sites *s, const struct barrier *b,
			 const struct count *arrivals)
{
	struct kern *k = s->kern;
	bool left = arrivals->comparable && only_copies(s, b);
	const char *text = NULL;

	for (int i = 0; i < k->roles.count; i++) {
		const struct op *first;
		struct count waits = count_waits(s, b, k->roles.item[i], &first);

		if (!first)
			continue;
		left = left && leaves_copies(b, arrivals, &waits);
		if (!waits.comparable || !arrivals->comparable ||
		    !tc_same_loops(arrivals->loops, waits.loops))
			continue;
		text = count_text(k, arrivals, &waits);
		if (arrivals->most < b->num_arrivals * waits.least && tc_is_sure(k, waits.certain))
			tc_documented_at(&k->err, first->pos, TOO_FEW_ARRIVALS, where_text(s),
					 tc_barrier_text(k, b), tc_integer_text(k, b->num_arrivals),
					 text);
	}
	if (left && text && tc_is_sure(k, arrivals->certain))
		tc_documented_at(&k->err, arrivals->last->pos, TOO_MANY_ARRIVALS, where_text(s),
				 tc_barrier_text(k, b), tc_integer_text(k, b->num_arrivals), text);
}

void tc_verify_counts(const struct sites *s)
{
	struct kern *k = s->kern;

	for (int i = 0; i < k->barriers.count; i++) {
		struct count arrivals = count_arrivals(s, k->barriers.item[i]);

		if (arrivals.sites)
			check_counts(s, k->barriers.item[i], &arrivals);
	}
}

/* ---- in one CTA of a cluster ---------------------------------------------------------------- */

/* Arrivals and waits that are the same in all CTAs, or that a CTA has for itself alone. */
static bool is_local(struct kern *k, const struct op *o)
{
	const struct barrier_ref *b = tc_site_barrier(o);

	if (b->cluster_rank)
		return false;
	if (o->kind == OP_COPY_GMEM_TO_SMEM && o->u.copy.leader_tracked)
		return !tc_stands_apart(k, o, o->u.copy.collective_axes);
	return !b->barrier->cluster || tc_site_waits(o) ||
	       !tc_stands_apart(k, o, b->barrier->cluster_axes);
}

/* The copy of a pair counts in the first CTA, once. */
static bool reaches(const struct op *o, const int *position)
{
	const struct barrier *b = tc_site_arrives(o);
	unsigned axes = 0;

	if (b && b->leader_tracked)
		axes = b->cluster_axes;
	else if (b && o->kind == OP_COPY_GMEM_TO_SMEM && o->u.copy.leader_tracked)
		axes = o->u.copy.collective_axes;
	for (int i = 0; axes >> i; i++)
		if (axes >> i & 1 && position[i] > 0)
			return false;
	return true;
}

/* The site as the CTA sees it; false: it has none. */
static bool see_from(struct site *site, struct kern *k, const int *position)
{
	enum presence p;

	if (!is_local(k, site->op)) {
		site->times.unsure = true;
		return true;
	}
	p = tc_site_arrives(site->op) ? tc_arrival_at(k, site->op, position)
				      : tc_presence_at(k, site->op, position);
	site->times.maybe = p != ALWAYS;
	return p != NEVER && reaches(site->op, position);
}

/* Nothing tells this CTA what it waits for, on every path. */
static void check_arrivals_at(const struct sites *s)
{
	for (int i = 0; i < s->count; i++) {
		const struct site *w = &s->item[i];
		const struct barrier *b = tc_site_waits(w->op);

		if (b && !w->times.maybe && w->times.constant > 0 && !w->op->u.wait.parity &&
		    !count_arrivals(s, b).sites)
			tc_documented_at(&s->kern->err, w->op->pos, NOBODY_ARRIVES, where_text(s),
					 tc_barrier_text(s->kern, b));
	}
}

static const char *position_text(struct kern *k, const int *position)
{
	const char *text = "\n  in the CTA of a cluster with";

	for (int i = 0; i < k->cluster_rank; i++)
		text = tc_arena_printf(&k->arena, "%s%s index %d along %s", text, i ? "," : "",
				       position[i], tc_axes_text(k, 1u << i));
	return text;
}

static void check_counts_at(const struct sites *s, const int *position)
{
	struct kern *k = s->kern;
	struct sites seen = {.kern = k, .where = position_text(k, position)};

	seen.item = tc_arena_alloc(&k->arena, (size_t)s->count * sizeof *seen.item + 1);
	for (int i = 0; i < s->count; i++) {
		if (!tc_site_arrives(s->item[i].op) && !tc_site_waits(s->item[i].op))
			continue;
		seen.item[seen.count] = s->item[i];
		seen.count += see_from(&seen.item[seen.count], k, position);
	}
	check_arrivals_at(&seen);
	tc_verify_counts(&seen);
}

static bool differ_among_ctas(const struct sites *s)
{
	for (int i = 0; i < s->count; i++)
		if (tc_stands_apart(s->kern, s->item[i].op, ~0u))
			return true;
	return false;
}

void tc_verify_cluster_counts(const struct sites *s)
{
	int position[TC_MAX_RANK] = {0};

	if (!tc_has_cluster(s->kern) || !differ_among_ctas(s))
		return;
	do
		check_counts_at(s, position);
	while (tc_next_position(s->kern, position));
}

/*
 * Where and how often an op is executed, as far as the recording alone tells: branches and ranges
 * whose values follow from constants, from the CTA's place in its cluster and from the counters of
 * ranges.  What variables and memory decide is not known.
 */
#include "verify.h"
#include "roles.h"

/* ---- in a CTA ----------------------------------------------------------------------------- */

/* Nodes are shared: after `budget` of them the answer is no. */
static bool is_common(const struct kern *k, const struct val *v, int *budget)
{
	if (!v)
		return true;
	if (--*budget < 0 || v->kind == VAL_OP || v->kind == VAL_INDEX ||
	    (v->kind == VAL_AXIS && v->axis >= k->grid_rank))
		return false;
	for (int i = 0; i < 3; i++)
		if (!is_common(k, v->arg[i], budget))
			return false;
	return true;
}

bool tc_runs_alike(const struct kern *k, const struct op *loop)
{
	const struct range_op *r = &loop->u.range;
	int budget = 1000;

	return loop->kind == OP_RANGE && is_common(k, r->lo, &budget) &&
	       is_common(k, r->hi, &budget) && is_common(k, r->step, &budget);
}

/* First counter, step and number of turns; false: they are not known. */
static bool turns_of(const struct kern *k, const struct range_op *r, const struct turn *t,
		     int64_t *lo, int64_t *step, int64_t *count)
{
	int64_t hi;

	*lo = 0;
	*step = 1;
	if ((r->lo && !tc_val_in(k, r->lo, t, lo)) || !tc_val_in(k, r->hi, t, &hi) ||
	    (r->step && !tc_val_in(k, r->step, t, step)))
		return false;
	*count = *step > 0 && hi > *lo ? (hi - *lo + *step - 1) / *step : 0;
	return true;
}

static bool stops_before(const struct op *loop, const struct scope *s, const struct op *o)
{
	for (const struct op *at = s->first; at && at->id < o->id; at = at->next) {
		const struct scope *body[2];

		if (at->kind == OP_STOP && at->u.stop.loop == loop)
			return true;
		for (int i = tc_op_bodies(at, body) - 1; i >= 0; i--)
			if (stops_before(loop, body[i], o))
				return true;
	}
	return false;
}

/* What the owner of one of the scopes around the op has to say. */
static enum presence decided_by(const struct kern *k, const struct scope *s, const struct op *o,
				const struct turn *t)
{
	const struct op *owner = s->owner;
	int64_t value, lo, step;

	switch (s->kind) {
	case SC_THEN:
	case SC_ELSE:
		if (!tc_val_in(k, owner->u.when.cond, t, &value))
			return MAYBE;
		return (s == owner->u.when.then) == (value != 0) ? ALWAYS : NEVER;
	case SC_RANGE:
		if (turns_of(k, &owner->u.range, t, &lo, &step, &value))
			return value ? ALWAYS : NEVER;
		return tc_runs_alike(k, owner) ? ALWAYS : MAYBE;
	case SC_LOOP:
		return stops_before(owner, s, o) ? MAYBE : ALWAYS;
	default:
		return ALWAYS;
	}
}

enum presence tc_presence_at(const struct kern *k, const struct op *o, const int *position)
{
	struct turn t = {.position = position};
	enum presence p = ALWAYS;

	for (const struct scope *s = o->scope; s; s = s->parent) {
		enum presence q = decided_by(k, s, o, &t);

		p = q < p ? q : p;
	}
	return p;
}

static int pair_axis(const struct op *o)
{
	return o->kind == OP_MMA             ? o->u.mma.collective_axis
	       : o->kind == OP_COMMIT_ARRIVE ? o->u.arrive.collective_axis
					     : -1;
}

enum presence tc_arrival_at(const struct kern *k, const struct op *o, const int *position)
{
	int there[TC_MAX_RANK], axis = pair_axis(o);

	for (int i = 0; i < k->cluster_rank; i++)
		there[i] = i == axis ? 0 : position[i];
	return tc_presence_at(k, o, there);
}

/* How often the op is executed, but for loops that run alike in all CTAs; -1: not known. */
static int64_t times_at(const struct kern *k, const struct op *o, const int *position)
{
	struct turn t = {.position = position};
	int64_t times = 1, lo, step, count;

	for (const struct scope *s = o->scope; s; s = s->parent) {
		enum presence p = decided_by(k, s, o, &t);

		if (p == NEVER)
			return 0;
		if (p == MAYBE || s->kind == SC_LOOP)
			times = -1;
		else if (times > 0 && s->kind == SC_RANGE &&
			 turns_of(k, &s->owner->u.range, &t, &lo, &step, &count) &&
			 __builtin_mul_overflow(times, count, &times))
			times = -1;
	}
	return times;
}

/* ---- what all CTAs have to execute ------------------------------------------------------------
 */

/* Another op that does the same, in the CTA; at NULL: in any. */
static bool has_twin(const struct sites *s, const struct op *o, const int *position)
{
	for (int i = 0; i < s->count; i++) {
		const struct op *p = s->item[i].op;

		if (p == o || p->kind != o->kind || tc_site_arrives(p) != tc_site_arrives(o) ||
		    (p->kind == OP_COPY_GMEM_TO_SMEM &&
		     p->u.copy.dst->alloc != o->u.copy.dst->alloc))
			continue;
		if (!position || tc_presence_at(s->kern, p, position) != NEVER)
			return true;
	}
	return false;
}

bool tc_leaves_out_some(const struct sites *s, const struct op *o, unsigned axes)
{
	const struct kern *k = s->kern;
	int p[TC_MAX_RANK], q[TC_MAX_RANK], ctas = tc_cluster_size(k, ~0u);

	for (int i = 0; i < ctas; i++)
		for (int j = 0; j < ctas; j++) {
			int64_t here, there;

			if (i == j || !tc_cluster_reaches(k, i, j, axes))
				continue;
			tc_position_of(k, i, p);
			tc_position_of(k, j, q);
			here = times_at(k, o, p);
			there = times_at(k, o, q);
			if (here == 0 && tc_is_sure_at(k, o, q) && !has_twin(s, o, p))
				return true;
			if (here > 0 && there > 0 && here != there && !has_twin(s, o, NULL))
				return true;
		}
	return false;
}

/* ---- each execution ------------------------------------------------------------------------- */

#define MOST_TURNS  512 /* that are looked at; of more, the first ones */
#define MOST_SCOPES 64  /* around an op; of what is below more, no turn is known */

struct turns {
	const struct kern *kern;
	const struct scope *path[MOST_SCOPES];
	int depth, left;
	tc_turn_fn *fn;
	void *arg;
};

static bool each(struct turns *w, int at, struct turn *t);

/* Of the turns that follow nothing is known. */
static bool give_up(struct turns *w)
{
	w->left = 0;
	return false;
}

static bool each_of_range(struct turns *w, int at, struct turn *t)
{
	const struct op *loop = w->path[at]->owner;
	int64_t lo, step, count;
	bool done = false;

	if (t->loops == TURN_MAX_LOOPS || !turns_of(w->kern, &loop->u.range, t, &lo, &step, &count))
		return give_up(w);
	t->loop[t->loops++] = loop;
	for (int64_t i = 0; i < count && w->left > 0 && !done; i++) {
		t->counter[t->loops - 1] = lo + i * step;
		done = --w->left > 0 && each(w, at - 1, t);
	}
	t->loops--;
	return done;
}

/* The scopes from the outermost one, `at`, to the op's. */
static bool each(struct turns *w, int at, struct turn *t)
{
	const struct scope *s = at < 0 ? NULL : w->path[at];
	int64_t value;

	if (!s)
		return w->fn(w->arg, t);
	if (s->kind == SC_RANGE)
		return each_of_range(w, at, t);
	if (s->kind == SC_LOOP)
		return give_up(w);
	if (s->kind == SC_THEN || s->kind == SC_ELSE) {
		if (!tc_val_in(w->kern, s->owner->u.when.cond, t, &value))
			return give_up(w);
		if ((s == s->owner->u.when.then) != (value != 0))
			return false;
	}
	return each(w, at - 1, t);
}

enum turns_known tc_each_turn(const struct kern *k, const struct op *o, const int *position,
			      tc_turn_fn *fn, void *arg)
{
	struct turns w = {.kern = k, .left = MOST_TURNS, .fn = fn, .arg = arg};
	struct turn t = {.position = position};

	for (const struct scope *s = o->scope; s; s = s->parent) {
		if (w.depth == MOST_SCOPES)
			return FIRST_TURNS;
		w.path[w.depth++] = s;
	}
	if (each(&w, w.depth - 1, &t))
		return ENOUGH_TURNS;
	return w.left > 0 ? ALL_TURNS : FIRST_TURNS;
}

static bool any_turn(void *arg, const struct turn *t)
{
	(void)arg;
	(void)t;
	return true;
}

bool tc_is_sure_at(const struct kern *k, const struct op *o, const int *position)
{
	return tc_presence_at(k, o, position) == ALWAYS ||
	       tc_each_turn(k, o, position, any_turn, NULL) == ENOUGH_TURNS;
}

bool tc_is_sure(const struct kern *k, const struct op *o)
{
	int position[TC_MAX_RANK] = {0};

	do
		if (tc_is_sure_at(k, o, position))
			return true;
	while (tc_next_position(k, position));
	return false;
}

int tc_compare_turns(const struct turn *a, const struct turn *b)
{
	for (int i = 0; i < a->loops && i < b->loops && a->loop[i] == b->loop[i]; i++)
		if (a->counter[i] != b->counter[i])
			return a->counter[i] < b->counter[i] ? -1 : 1;
	return 0;
}

/* ---- what the turns do with a view ------------------------------------------------------------
 */

bool tc_box_in(const struct kern *k, const struct ref *r, const struct turn *t, struct box *b)
{
	b->ref = r;
	for (int i = 0; i < r->alloc->rank; i++) {
		b->start[i] = 0;
		if (r->extent[i].size < 0 ||
		    (r->start[i] && !tc_val_in(k, r->start[i], t, &b->start[i])))
			return false;
	}
	return true;
}

bool tc_boxes_meet(const struct box *a, const struct box *b)
{
	for (int i = 0; i < a->ref->alloc->rank; i++)
		if (a->start[i] + a->ref->extent[i].size <= b->start[i] ||
		    b->start[i] + b->ref->extent[i].size <= a->start[i])
			return false;
	return a->ref->alloc == b->ref->alloc;
}

/* Copies that CTAs of a cluster make together: all of them make it, and slots are free in all. */
#include "verify.h"

static bool is_decided_along(struct kern *k, const struct op *o, unsigned axes)
{
	if (o->kind == OP_WHEN)
		return tc_val_along(k, o->u.when.cond, axes);
	return o->kind == OP_RANGE &&
	       (tc_val_along(k, o->u.range.lo, axes) || tc_val_along(k, o->u.range.hi, axes) ||
		tc_val_along(k, o->u.range.step, axes));
}

bool tc_stands_apart(struct kern *k, const struct op *o, unsigned axes)
{
	for (const struct scope *s = o->scope; s; s = s->parent)
		if (s->owner && is_decided_along(k, s->owner, axes))
			return true;
	return false;
}

/* ---- slots that are written twice ----------------------------------------------------------- */

#define MOST_WRITES 64 /* of a copy that are looked at; a ring has fewer slots */

/* What a copy is sure to write, in its turns in one CTA. */
struct writes {
	const struct kern *kern;
	const struct ref *ref;
	int count, capacity;
	struct box *box;
	struct turn *turn;
};

static bool note_write(void *arg, const struct turn *t)
{
	struct writes *w = arg;

	if (w->count == w->capacity || !tc_box_in(w->kern, w->ref, t, &w->box[w->count]))
		return true;
	w->turn[w->count++] = *t;
	return false;
}

static struct writes writes_of(struct kern *k, const struct site *copy, const int *position)
{
	struct writes w = {
		.kern = k, .ref = copy->op->u.copy.dst, .capacity = copy->loop ? MOST_WRITES : 1};

	w.box = tc_arena_alloc(&k->arena, (size_t)w.capacity * sizeof *w.box);
	w.turn = tc_arena_alloc(&k->arena, (size_t)w.capacity * sizeof *w.turn);
	tc_each_turn(k, copy->op, position, note_write, &w);
	return w;
}

/* Whether a wait comes behind a write and not behind a later turn of the copy. */
struct between {
	const struct op *wait, *copy;
	const struct turn *from, *to;
};

static bool note_between(void *arg, const struct turn *t)
{
	const struct between *b = arg;
	int from = tc_compare_turns(t, b->from);

	return (from > 0 || (from == 0 && b->wait->id > b->copy->id)) &&
	       tc_compare_turns(t, b->to) <= 0;
}

/* The copy's role may wait between the turns, and so hear what its next turn then tells. */
static bool waits_between(const struct sites *s, const struct site *copy, const struct turn *from,
			  const struct turn *to)
{
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;
		struct between b = {o, copy->op, from, to};

		if ((tc_site_waits(o) || o->kind == OP_SEMAPHORE_WAIT) &&
		    s->item[i].role == copy->role &&
		    tc_each_turn(s->kern, o, from->position, note_between, &b) != ALL_TURNS)
			return true;
	}
	return false;
}

/*
 * A slot is written in two turns of the copy, and no turn between them tells that what the first
 * one wrote has been read: that is for the role to hear before it makes that turn.
 */
static bool writes_again(const struct sites *s, const struct site *copy, const struct writes *w)
{
	for (int j = 1; j < w->count; j++)
		for (int i = j; i-- > 0;) {
			if (!tc_boxes_meet(&w->box[i], &w->box[j]))
				continue;
			if (j == i + 1 || !waits_between(s, copy, &w->turn[i], &w->turn[j - 1]))
				return true;
			break;
		}
	return false;
}

static bool meet(const struct writes *a, const struct writes *b)
{
	for (int i = 0; i < a->count; i++)
		for (int j = 0; j < b->count; j++)
			if (tc_boxes_meet(&a->box[i], &b->box[j]))
				return true;
	return false;
}

/* The copy that is sure to have written a slot before which this one writes; NULL: none is. */
static const struct site *written_before(const struct sites *s, const struct site *copy,
					 const int *position)
{
	struct writes here = writes_of(s->kern, copy, position);

	if (writes_again(s, copy, &here))
		return copy;
	for (const struct site *c = copy; here.count && c-- > s->item;) {
		struct writes there;

		if (c->op->kind != OP_COPY_GMEM_TO_SMEM || c->role != copy->role ||
		    c->op->u.copy.dst->alloc != here.ref->alloc || tc_may_follow(copy, c))
			continue;
		there = writes_of(s->kern, c, position);
		if (meet(&there, &here))
			return c;
	}
	return NULL;
}

/* ---- what the role is told ------------------------------------------------------------------ */

/* Two writes of a slot, of which the second one asks whether the first has been read. */
struct pair_of_writes {
	const struct site *first, *second;
};

static bool fills_first(const struct telling *t, const struct site *a)
{
	const struct pair_of_writes *w = t->subject;

	return a->op == w->first->op;
}

/* All arrivals of a phase, one after the other: they are made before the phase is complete. */
static bool share_phase(const struct sites *s, const struct op *a, const struct op *b)
{
	const struct barrier *barrier = tc_site_arrives(a);
	int count = 0;

	if (tc_site_arrives(b) != barrier || a->scope != b->scope ||
	    tc_site_barrier(a)->index != tc_site_barrier(b)->index)
		return false;
	for (int i = 0; i < s->count; i++) {
		if (tc_site_arrives(s->item[i].op) != barrier)
			continue;
		if (s->item[i].op->scope != a->scope)
			return false;
		count++;
	}
	return count == barrier->num_arrivals;
}

/* It is one of the two writes, or made in the same phase as one of them. */
static bool comes_with(const struct telling *t, const struct site *a)
{
	const struct pair_of_writes *w = t->subject;

	return a == w->first || a == w->second || share_phase(t->sites, a->op, w->first->op) ||
	       share_phase(t->sites, a->op, w->second->op);
}

/*
 * Another copy of all CTAs that is made after the first write and before the second tells what
 * each of them knew then.  The writes themselves, and those of the same phase, come too early; so
 * do other turns of them where both are turns of one copy: see writes_again.
 */
static bool comes_too_early(const struct telling *t, const struct site *a)
{
	const struct pair_of_writes *w = t->subject;

	if (comes_with(t, a))
		return w->first == w->second || !a->loop;
	return a->role == w->second->role &&
	       (!tc_may_follow(w->first, a) || !tc_may_follow(a, w->second));
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* An MMA of two CTAs reads what the copy writes. */
static bool is_read_by_pair(const struct sites *s, const struct copy_op *c)
{
	for (int i = 0; i < s->count; i++) {
		const struct mma_op *m = &s->item[i].op->u.mma;

		if (s->item[i].op->kind == OP_MMA && m->collective_axis >= 0 &&
		    (m->a->alloc == c->dst->alloc || m->b->alloc == c->dst->alloc))
			return true;
	}
	return false;
}

/* The last barrier that the copy's role may have waited for. */
static const struct barrier *awaited_before(const struct sites *s, const struct site *copy)
{
	const struct barrier *last = NULL;

	for (int i = 0; i < s->count; i++) {
		const struct barrier *b = tc_site_waits(s->item[i].op);

		if (b && s->item[i].role == copy->role && tc_may_follow(&s->item[i], copy))
			last = b;
	}
	return last;
}

_Noreturn static void refuse_release(const struct sites *s, const struct site *copy)
{
	struct kern *k = s->kern;
	const struct op *o = copy->op;
	const char *axes = tc_axes_text(k, o->u.copy.collective_axes);
	const struct barrier *local = awaited_before(s, copy);
	const char *more = local ? tc_arena_printf(&k->arena, "\n  its role waits for %s",
						   tc_barrier_text(k, local))
				 : "\n  its role waits for no barrier before";

	if (o->u.copy.partitioned)
		tc_documented_at(&k->err, o->pos, LEADER_RELEASE, more, axes);
	tc_documented_at(&k->err, o->pos, MULTICAST_RELEASE, more, axes);
}

/* In every CTA, whatever the copies tell. */
static bool is_told_by_arrivals(const struct telling *t, const struct site *copy)
{
	for (int rank = 0; rank < t->ctas; rank++)
		if (!tc_is_told(t, copy, rank, copy->op->u.copy.collective_axes))
			return false;
	return true;
}

static void check_multicast(const struct sites *s, const struct site *copy,
			    const struct telling *arrivals)
{
	struct kern *k = s->kern;
	const struct copy_op *c = &copy->op->u.copy;
	struct pair_of_writes writes = {.second = copy};
	struct telling t = {.sites = s,
			    .by = BY_MMAS,
			    .is_origin = fills_first,
			    .tells_nothing = comes_too_early,
			    .subject = &writes};
	int position[TC_MAX_RANK];

	if (tc_cluster_size(k, c->collective_axes) < 2 || (c->partitioned && !c->leader_tracked))
		return;
	if (tc_leaves_out_some(s, copy->op, c->collective_axes))
		tc_documented_at(&k->err, copy->op->pos, MULTICAST_CONDITION, "",
				 tc_axes_text(k, c->collective_axes));
	if ((c->partitioned && !is_read_by_pair(s, c)) || is_told_by_arrivals(arrivals, copy))
		return;
	for (int rank = 0; rank < tc_cluster_size(k, ~0u); rank++) {
		const struct site *first;

		tc_position_of(k, rank, position);
		first = written_before(s, copy, position);
		if (!first)
			continue;
		if (first != writes.first) {
			writes.first = first;
			tc_tell(&t);
		}
		if (!tc_is_told(&t, copy, rank, c->collective_axes))
			refuse_release(s, copy);
	}
}

void tc_verify_multicast(const struct sites *s)
{
	struct telling arrivals;

	if (!tc_has_cluster(s->kern))
		return;
	arrivals = tc_tell_by_arrivals(s, BY_MMAS);
	for (int i = 0; i < s->count; i++)
		if (s->item[i].op->kind == OP_COPY_GMEM_TO_SMEM)
			check_multicast(s, &s->item[i], &arrivals);
}

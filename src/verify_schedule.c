/*
 * Requests of cluster launch control: all CTAs of the cluster make them, somebody waits for the
 * answer, and the answer before has been read in every CTA.
 */
#include "verify.h"

static unsigned all_axes(const struct kern *k)
{
	unsigned axes = 0;

	for (int i = 0; i < k->cluster_rank; i++)
		if (k->cluster[i] > 1)
			axes |= 1u << i;
	return axes;
}

static bool is_awaited(const struct sites *s, const struct barrier *b)
{
	for (int i = 0; i < s->count; i++)
		if (tc_site_waits(s->item[i].op) == b)
			return true;
	return false;
}

/* Who has waited for the answer may have read it. */
static bool has_answer(const struct telling *t, const struct site *a)
{
	const struct site *request = t->subject;
	const struct barrier *ready = request->op->u.try_cancel.barrier.barrier;

	for (int i = 0; i < t->sites->count; i++) {
		const struct site *w = &t->sites->item[i];

		if (tc_site_waits(w->op) == ready && w->role == a->role && tc_may_follow(w, a))
			return true;
	}
	return false;
}

/* The first CTA asks for all: it hears of none of them by its own requests. */
static bool is_request(const struct telling *t, const struct site *a)
{
	(void)t;
	return a->op->kind == OP_TRY_CLUSTER_CANCEL;
}

struct answers {
	const struct kern *kern;
	const struct ref *result;
	struct box first;
	bool any, twice;
};

static bool note_answer(void *arg, const struct turn *t)
{
	struct answers *a = arg;
	struct box b;

	if (!tc_box_in(a->kern, a->result, t, &b))
		return true;
	a->twice = a->any && tc_boxes_meet(&a->first, &b);
	if (!a->any)
		a->first = b;
	a->any = true;
	return a->twice;
}

/* The loop ends with its first turn. */
static bool is_left_at_once(const struct op *loop)
{
	for (const struct op *o = loop->u.loop.body->first; o; o = o->next) {
		int64_t value;

		if (o->kind == OP_STOP && tc_val_is_const(o->u.stop.cond, &value) && value)
			return true;
	}
	return false;
}

/* One slot of answers gets several: in a loop that goes on as long as there are some. */
static bool asks_again(const struct kern *k, const struct op *o)
{
	int position[TC_MAX_RANK] = {0};
	struct turn nowhere = {.position = position};
	struct answers a = {.kern = k, .result = o->u.try_cancel.result};
	struct box b;

	for (const struct scope *s = o->scope; s; s = s->parent)
		if (s->kind == SC_LOOP && !is_left_at_once(s->owner))
			return tc_box_in(k, a.result, &nowhere, &b);
	tc_each_turn(k, o, position, note_answer, &a);
	return a.twice;
}

static void check_request(const struct sites *s, const struct site *request, unsigned axes)
{
	struct kern *k = s->kern;
	const struct op *o = request->op;
	const struct barrier *b = o->u.try_cancel.barrier.barrier;
	struct telling t = {.sites = s,
			    .by = BY_THREADS,
			    .is_origin = has_answer,
			    .tells_nothing = is_request,
			    .subject = request};

	if (!is_awaited(s, b))
		tc_documented_at(&k->err, o->pos, CANCEL_NOT_AWAITED, "", tc_barrier_text(k, b));
	if (!axes)
		return;
	if (tc_leaves_out_some(s, o, axes))
		tc_documented_at(&k->err, o->pos, CANCEL_CONDITION, "", tc_axes_text(k, axes));
	if (!asks_again(k, o))
		return;
	tc_tell(&t);
	if (!tc_is_told(&t, request, 0, axes))
		tc_documented_at(&k->err, o->pos, CANCEL_RELEASE, "", tc_axes_text(k, axes));
}

void tc_verify_schedule(const struct sites *s)
{
	unsigned axes = all_axes(s->kern);

	for (int i = 0; i < s->count; i++)
		if (s->item[i].op->kind == OP_TRY_CLUSTER_CANCEL && s->item[i].times.constant > 0 &&
		    tc_is_sure(s->kern, s->item[i].op))
			check_request(s, &s->item[i], axes);
}

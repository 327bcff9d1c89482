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

/* The role has waited for what tells of the readers in all CTAs. */
static bool is_free(const struct sites *s, const struct site *request, const bool *informed)
{
	for (int i = 0; i < s->count; i++) {
		const struct barrier *b = tc_site_waits(s->item[i].op);

		if (b && informed[b->id] && s->item[i].role == request->role &&
		    tc_may_follow(&s->item[i], request))
			return true;
	}
	return false;
}

static void check_request(const struct sites *s, const struct site *request, unsigned axes,
			  const bool *informed)
{
	struct kern *k = s->kern;
	const struct op *o = request->op;
	const struct barrier *b = o->u.try_cancel.barrier.barrier;
	bool again = request->times.loops || request->times.unsure || request->times.constant > 1;

	if (!is_awaited(s, b))
		tc_documented_at(&k->err, o->pos, CANCEL_NOT_AWAITED, "", tc_barrier_text(k, b));
	if (axes && tc_stands_apart(k, o, axes))
		tc_documented_at(&k->err, o->pos, CANCEL_CONDITION, "", tc_axes_text(k, axes));
	if (axes && again && !is_free(s, request, informed))
		tc_documented_at(&k->err, o->pos, CANCEL_RELEASE, "", tc_axes_text(k, axes));
}

void tc_verify_schedule(const struct sites *s)
{
	struct kern *k = s->kern;
	unsigned axes = all_axes(k);
	bool *informed = tc_arena_alloc(&k->arena, (size_t)k->barriers.count * sizeof(bool) + 1);

	for (int i = 0; i < s->count; i++) {
		if (s->item[i].op->kind != OP_TRY_CLUSTER_CANCEL)
			continue;
		if (axes)
			tc_mark_informed(s, axes, BY_THREADS, informed);
		check_request(s, &s->item[i], axes, informed);
	}
}

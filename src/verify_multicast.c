/* Copies that CTAs of a cluster make together: all of them make it, and slots are free in all. */
#include "verify.h"

/* An arrival on the barrier comes from every CTA along the axes. */
static bool covers(const struct barrier *b, unsigned axes)
{
	for (int i = 0; i < b->cluster_groups; i++)
		if ((b->cluster_group[i] & axes) == axes)
			return true;
	return false;
}

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

/* The axes of the pair whose two CTAs an arrival of the tensor core reaches; 0: its own alone. */
static unsigned pair_of(const struct op *o)
{
	int axis = o->kind == OP_MMA             ? o->u.mma.collective_axis
		   : o->kind == OP_COMMIT_ARRIVE ? o->u.arrive.collective_axis
						 : -1;

	return axis < 0 ? 0 : 1u << axis;
}

/*
 * Who has waited and then makes the arrival `o` tells every CTA along the axes.  One that only some
 * of them make tells these, unless it is made in a peer.
 */
static bool passes_on(struct kern *k, const struct op *o, unsigned axes, enum informant by)
{
	if (o->kind == OP_COPY_GMEM_TO_SMEM)
		return by == BY_THREADS;
	return pair_of(o) || tc_site_is_remote(o) || !tc_stands_apart(k, o, axes);
}

void tc_mark_informed(const struct sites *s, unsigned axes, enum informant by, bool *informed)
{
	bool changed = true;

	for (int i = 0; i < s->kern->barriers.count; i++)
		informed[i] = covers(s->kern->barriers.item[i], axes);
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;
		const struct barrier *b = tc_site_arrives(o);
		bool pair = by == BY_MMAS && pair_of(o) && (pair_of(o) & axes) == axes;

		/* Whose arrivals a peer gets is not known: it may be told of all. */
		if (b && (pair || tc_site_is_remote(o)))
			informed[b->id] = true;
	}
	while (changed) {
		changed = false;
		for (int i = 0; i < s->count; i++) {
			const struct barrier *w = tc_site_waits(s->item[i].op);

			if (!w || !informed[w->id])
				continue;
			for (int j = 0; j < s->count; j++) {
				const struct barrier *b = tc_site_arrives(s->item[j].op);

				if (b && !informed[b->id] && s->item[j].role == s->item[i].role &&
				    passes_on(s->kern, s->item[j].op, axes, by) &&
				    tc_may_follow(&s->item[i], &s->item[j]))
					informed[b->id] = changed = true;
			}
		}
	}
}

/* Constant indices that differ somewhere. */
static bool apart(const struct ref *a, const struct ref *b)
{
	for (int i = 0; i < a->alloc->rank; i++) {
		int64_t x, y;

		if (tc_val_is_const(a->start[i], &x) && tc_val_is_const(b->start[i], &y) &&
		    (x + a->extent[i].size <= y || y + b->extent[i].size <= x))
			return true;
	}
	return false;
}

/* The slot that the copy writes may have been written before: in a loop, or by another copy. */
static bool writes_again(const struct sites *s, const struct site *copy)
{
	if (copy->times.loops || copy->times.unsure || copy->times.constant > 1)
		return true;
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (o != copy->op && o->kind == OP_COPY_GMEM_TO_SMEM && o->id < copy->op->id &&
		    o->u.copy.dst->alloc == copy->op->u.copy.dst->alloc &&
		    !apart(o->u.copy.dst, copy->op->u.copy.dst))
			return true;
	}
	return false;
}

/* All CTAs along the axes make the copy, or it never completes. */
static void check_all_copy(struct kern *k, const struct op *o)
{
	unsigned axes = o->u.copy.collective_axes;

	if (tc_stands_apart(k, o, axes))
		tc_documented_at(&k->err, o->pos, MULTICAST_CONDITION, "", tc_axes_text(k, axes));
}

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

_Noreturn static void refuse_release(struct kern *k, const struct op *o,
				     const struct barrier *local)
{
	const struct copy_op *c = &o->u.copy;
	const char *axes = tc_axes_text(k, c->collective_axes);
	const char *more = local ? tc_arena_printf(&k->arena, "\n  its role waits for %s",
						   tc_barrier_text(k, local))
				 : "\n  its role waits for no barrier before";

	if (c->partitioned)
		tc_documented_at(&k->err, o->pos, LEADER_RELEASE, more, axes);
	tc_documented_at(&k->err, o->pos, MULTICAST_RELEASE, more, axes);
}

/* docs/semantics.md 5: a peer's slot may be written when the peer has said that it is free. */
static void check_multicast(const struct sites *s, const struct site *copy)
{
	struct kern *k = s->kern;
	const struct copy_op *c = &copy->op->u.copy;
	bool *informed = tc_arena_alloc(&k->arena, (size_t)k->barriers.count + 1);
	const struct barrier *local = NULL;

	if (tc_cluster_size(k, c->collective_axes) < 2 || (c->partitioned && !c->leader_tracked))
		return;
	check_all_copy(k, copy->op);
	if (!writes_again(s, copy) || (c->partitioned && !is_read_by_pair(s, c)))
		return;
	tc_mark_informed(s, c->collective_axes, BY_MMAS, informed);
	for (int i = 0; i < s->count; i++) {
		const struct barrier *b = tc_site_waits(s->item[i].op);

		if (!b || s->item[i].role != copy->role || !tc_may_follow(&s->item[i], copy))
			continue;
		if (informed[b->id])
			return;
		local = b;
	}
	refuse_release(k, copy->op, local);
}

void tc_verify_multicast(const struct sites *s)
{
	for (int i = 0; i < s->count; i++)
		if (s->item[i].op->kind == OP_COPY_GMEM_TO_SMEM)
			check_multicast(s, &s->item[i]);
}

/*
 * CTAs that work in pairs: all tensor-core operations of a kernel are of one CTA or all of two;
 * what only the first CTA of a pair is told, it alone waits for; what both read, both release.
 */
#include "verify.h"

/* ---- one CTA or two ------------------------------------------------------------------------ */

static const struct alloc *tensor_memory(const struct kern *k)
{
	for (int i = 0; i < k->allocs.count; i++) {
		const struct alloc *a = k->allocs.item[i];

		if (a->space == SP_TMEM)
			return a;
	}
	return NULL;
}

static void check_commits(const struct sites *s)
{
	struct kern *k = s->kern;
	const struct alloc *tmem = tensor_memory(k);

	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (o->kind == OP_COMMIT_ARRIVE && tmem &&
		    (o->u.arrive.collective_axis >= 0) != tmem->collective)
			tc_documented_at(&k->err, o->pos, COLLECTIVE_INCONSISTENT,
					 tc_arena_printf(&k->arena,
							 "\n  the TMEM made at %s is %scollective",
							 tc_pos_text(k, tmem->pos),
							 tmem->collective ? "" : "not "));
	}
}

/* ---- barriers that the leader tracks ------------------------------------------------------ */

static bool is_copy_on(const struct op *o, const struct barrier *b)
{
	return o->kind == OP_COPY_GMEM_TO_SMEM && o->u.copy.barrier.barrier == b;
}

/* Cluster axes along which arrivals reach only the first CTA's barrier; 0: none. */
static unsigned tracked_axes(const struct sites *s, const struct barrier *b)
{
	if (b->leader_tracked)
		return b->cluster_axes;
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (is_copy_on(o, b) && o->u.copy.leader_tracked)
			return o->u.copy.collective_axes;
	}
	return 0;
}

static void check_tracked(const struct sites *s, const struct barrier *b)
{
	struct kern *k = s->kern;
	unsigned axes = tracked_axes(s, b);

	if (!axes || tc_cluster_size(k, axes) < 2)
		return;
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (is_copy_on(o, b) && !o->u.copy.leader_tracked)
			tc_documented_at(&k->err, o->pos, LEADER_MIXED, "", tc_barrier_text(k, b));
		if (tc_site_waits(o) == b && !tc_stands_apart(k, o, axes))
			tc_documented_at(&k->err, o->pos, LEADER_WAIT, "", tc_axes_text(k, axes),
					 tc_barrier_text(k, b));
	}
}

/* ---- accumulators of two CTAs ---------------------------------------------------------------- */

static bool overwrites(const struct mma_op *m)
{
	return !m->accumulate_const || !m->accumulate_value;
}

/* The accumulator may have been read before, around a common loop or earlier in the text. */
static bool was_read(const struct sites *s, const struct site *mma)
{
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (o->kind == OP_ASYNC_LOAD_TMEM &&
		    o->u.load.ref->alloc == mma->op->u.mma.acc->alloc &&
		    tc_may_follow(&s->item[i], mma))
			return true;
	}
	return false;
}

static void check_accumulator(const struct sites *s, const struct site *mma)
{
	struct kern *k = s->kern;
	const struct mma_op *m = &mma->op->u.mma;
	bool *informed = tc_arena_alloc(&k->arena, (size_t)k->barriers.count + 1);
	unsigned axes;

	if (m->collective_axis < 0 || !overwrites(m) || !was_read(s, mma))
		return;
	axes = 1u << m->collective_axis;
	tc_mark_informed(s, axes, BY_THREADS, informed);
	for (int i = 0; i < s->count; i++) {
		const struct barrier *b = tc_site_waits(s->item[i].op);

		if (b && informed[b->id] && s->item[i].role == mma->role &&
		    tc_may_follow(&s->item[i], mma))
			return;
	}
	tc_documented_at(&k->err, mma->op->pos, PAIR_ACC_RELEASE, tc_got(k, "acc", m->acc),
			 tc_axes_text(k, axes));
}

void tc_verify_collective(const struct sites *s)
{
	check_commits(s);
	for (int i = 0; i < s->kern->barriers.count; i++)
		check_tracked(s, s->kern->barriers.item[i]);
	for (int i = 0; i < s->count; i++)
		if (s->item[i].op->kind == OP_MMA)
			check_accumulator(s, &s->item[i]);
}

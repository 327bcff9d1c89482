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

/* ---- who issues ---------------------------------------------------------------------------------
 */

/* The branch that keeps the first CTA along the axis from the op; NULL: none that is known. */
static const struct op *leaves_out_first(const struct kern *k, const struct op *o, int axis)
{
	int position[TC_MAX_RANK];
	int64_t value;

	for (int i = 0; i < k->cluster_rank; i++)
		position[i] = i == axis ? 0 : -1;
	for (const struct scope *in = o->scope; in; in = in->parent) {
		const struct op *when = in->owner;

		if (when && when->kind == OP_WHEN &&
		    tc_val_at(k, when->u.when.cond, position, &value) &&
		    (in == when->u.when.then) != (value != 0))
			return when;
	}
	return NULL;
}

static void check_issuer(const struct sites *s, const struct op *o, int axis)
{
	struct kern *k = s->kern;
	const struct op *when = axis < 0 ? NULL : leaves_out_first(k, o, axis);

	if (when)
		tc_documented_at(&k->err, o->pos, PAIR_ISSUER,
				 tc_arena_printf(&k->arena, "\n  the tc.when stands at %s",
						 tc_pos_text(k, when->pos)),
				 tc_axes_text(k, 1u << axis));
}

static void check_issuers(const struct sites *s)
{
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (o->kind == OP_MMA)
			check_issuer(s, o, o->u.mma.collective_axis);
		else if (o->kind == OP_COMMIT_ARRIVE)
			check_issuer(s, o, o->u.arrive.collective_axis);
		else if (tc_site_copies_to_tmem(o))
			check_issuer(s, o, o->u.tmem_copy.collective_axis);
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
		if (tc_site_waits(o) == b &&
		    (!tc_stands_apart(k, o, axes) || leaves_out_first(k, o, __builtin_ctz(axes))))
			tc_documented_at(&k->err, o->pos, LEADER_WAIT, "", tc_axes_text(k, axes),
					 tc_barrier_text(k, b));
	}
}

/* ---- what both CTAs read and write -------------------------------------------------------------
 */

/* The role has waited for something that tells of both CTAs. */
static bool has_waited(const struct sites *s, const struct site *reader, unsigned axes)
{
	bool *informed = tc_arena_alloc(&s->kern->arena, (size_t)s->kern->barriers.count + 1);

	tc_mark_informed(s, axes, BY_THREADS, informed);
	for (int i = 0; i < s->count; i++) {
		const struct barrier *b = tc_site_waits(s->item[i].op);

		if (b && informed[b->id] && s->item[i].role == reader->role &&
		    tc_may_follow(&s->item[i], reader))
			return true;
	}
	return false;
}

/* A copy of each CTA, for itself, into what the tensor core reads. */
static const struct op *own_copy(const struct sites *s, const struct ref *operand)
{
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (o->kind == OP_COPY_GMEM_TO_SMEM && !o->u.copy.leader_tracked &&
		    o->u.copy.dst->alloc == operand->alloc)
			return o;
	}
	return NULL;
}

static void check_operand(const struct sites *s, const struct site *reader, const char *op,
			  const char *name, const struct ref *operand, int axis)
{
	struct kern *k = s->kern;
	unsigned axes = 1u << axis;
	const struct op *copy = own_copy(s, operand);

	if (copy && !has_waited(s, reader, axes))
		tc_documented_at(&k->err, reader->op->pos, PAIR_OPERAND,
				 tc_arena_printf(&k->arena, "\n  it is copied at %s",
						 tc_pos_text(k, copy->pos)),
				 op, name, tc_axes_text(k, axes));
}

static void check_operands(const struct sites *s, const struct site *reader)
{
	const struct mma_op *m = &reader->op->u.mma;
	const struct tmem_copy_op *c = &reader->op->u.tmem_copy;

	if (reader->op->kind == OP_MMA && m->collective_axis >= 0) {
		check_operand(s, reader, "tc.mma", "a", m->a, m->collective_axis);
		check_operand(s, reader, "tc.mma", "b", m->b, m->collective_axis);
	} else if (tc_site_copies_to_tmem(reader->op) && c->collective_axis >= 0) {
		check_operand(s, reader, "copy into TMEM", "src", c->src, c->collective_axis);
	}
}

static bool overwrites(const struct mma_op *m)
{
	return !m->accumulate_const || !m->accumulate_value;
}

/* A load of the accumulator that may come before, around a common loop or earlier in the text. */
static const struct site *reader_of(const struct sites *s, const struct site *mma)
{
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (o->kind == OP_ASYNC_LOAD_TMEM &&
		    o->u.load.ref->alloc == mma->op->u.mma.acc->alloc &&
		    tc_may_follow(&s->item[i], mma))
			return &s->item[i];
	}
	return NULL;
}

static bool role_awaits(const struct sites *s, const struct site *mma, const struct barrier *b)
{
	for (int i = 0; i < s->count; i++)
		if (tc_site_waits(s->item[i].op) == b && s->item[i].role == mma->role &&
		    tc_may_follow(&s->item[i], mma))
			return true;
	return false;
}

/* Where it is read, and the arrival behind that, which the issuing role hears of in its own CTA. */
static const char *release_text(const struct sites *s, const struct site *mma,
				const struct site *reader)
{
	struct kern *k = s->kern;
	const char *read = tc_arena_printf(&k->arena, "%s\n  it is read at %s (role '%s')",
					   tc_got(k, "acc", mma->op->u.mma.acc),
					   tc_pos_text(k, reader->op->pos), reader->role->name);

	for (int i = 0; i < s->count; i++) {
		const struct site *a = &s->item[i];
		const struct barrier *b = tc_site_arrives(a->op);

		if (b && a->role == reader->role && tc_may_follow(reader, a) &&
		    role_awaits(s, mma, b))
			return tc_arena_printf(&k->arena,
					       "%s\n  %s tells of that, by the tc.%s at %s: in its "
					       "own CTA alone",
					       read, tc_barrier_text(k, b), tc_op_name(a->op),
					       tc_pos_text(k, a->op->pos));
	}
	return tc_join(k, read, "\n  its role waits for nothing that tells of that");
}

static void check_accumulator(const struct sites *s, const struct site *mma)
{
	struct kern *k = s->kern;
	const struct mma_op *m = &mma->op->u.mma;
	const struct site *reader = reader_of(s, mma);
	unsigned axes = 1u << m->collective_axis;

	if (!overwrites(m) || !reader || has_waited(s, mma, axes))
		return;
	tc_documented_at(&k->err, mma->op->pos, PAIR_ACC_RELEASE, release_text(s, mma, reader),
			 tc_axes_text(k, axes));
}

void tc_verify_collective(const struct sites *s)
{
	check_commits(s);
	check_issuers(s);
	for (int i = 0; i < s->kern->barriers.count; i++)
		check_tracked(s, s->kern->barriers.item[i]);
	for (int i = 0; i < s->count; i++) {
		check_operands(s, &s->item[i]);
		if (s->item[i].op->kind == OP_MMA && s->item[i].op->u.mma.collective_axis >= 0)
			check_accumulator(s, &s->item[i]);
	}
}

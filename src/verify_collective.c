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
	const struct op *when = axis < 0 || !tc_is_sure(k, o) ? NULL : leaves_out_first(k, o, axis);

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

/* The CTAs behind the first one along the axes. */
static bool is_behind_first(const int *position, unsigned axes)
{
	for (int i = 0; axes >> i; i++)
		if (axes >> i & 1 && position[i] > 0)
			return true;
	return false;
}

static bool is_tracked(const struct op *o)
{
	return tc_site_arrives(o)->leader_tracked ||
	       (o->kind == OP_COPY_GMEM_TO_SMEM && o->u.copy.leader_tracked);
}

/* The CTA, which is not the first one, may get the arrival. */
static bool may_arrive_at(const struct kern *k, const struct op *o, const int *position)
{
	return !is_tracked(o) && (tc_site_is_remote(o) || tc_arrival_at(k, o, position) != NEVER);
}

static bool any_arrives_at(const struct sites *s, const struct barrier *b, const int *position)
{
	for (int i = 0; i < s->count; i++)
		if (tc_site_arrives(s->item[i].op) == b &&
		    may_arrive_at(s->kern, s->item[i].op, position))
			return true;
	return false;
}

static bool any_waits_at(const struct sites *s, const struct barrier *b, const int *position)
{
	for (int i = 0; i < s->count; i++)
		if (tc_site_waits(s->item[i].op) == b &&
		    tc_presence_at(s->kern, s->item[i].op, position) != NEVER)
			return true;
	return false;
}

static void check_tracked_at(const struct sites *s, const struct barrier *b, unsigned axes,
			     const int *position)
{
	struct kern *k = s->kern;
	bool arrives = any_arrives_at(s, b, position), waits = any_waits_at(s, b, position);

	for (int i = 0; i < s->count; i++) {
		const struct site *site = &s->item[i];
		const struct op *o = site->op;

		if (site->times.constant <= 0)
			continue;
		if (is_copy_on(o, b) && !o->u.copy.leader_tracked && !waits &&
		    tc_is_sure_at(k, o, position))
			tc_documented_at(&k->err, o->pos, LEADER_MIXED, "", tc_barrier_text(k, b));
		if (tc_site_waits(o) == b && !arrives && !o->u.wait.parity &&
		    tc_presence_at(k, o, position) == ALWAYS)
			tc_documented_at(&k->err, o->pos, LEADER_WAIT, "", tc_axes_text(k, axes),
					 tc_barrier_text(k, b));
	}
}

static void check_tracked(const struct sites *s, const struct barrier *b)
{
	unsigned axes = tracked_axes(s, b);
	int position[TC_MAX_RANK] = {0};

	if (!axes || tc_cluster_size(s->kern, axes) < 2)
		return;
	do
		if (is_behind_first(position, axes))
			check_tracked_at(s, b, axes, position);
	while (tc_next_position(s->kern, position));
}

/* ---- what both CTAs read and write -------------------------------------------------------------
 */

static bool none_too_early(const struct telling *t, const struct site *copy)
{
	(void)t;
	(void)copy;
	return false;
}

/* In the first CTA of each pair, which issues the op, its role may have heard of both. */
static bool is_told(const struct telling *t, const struct site *issuer, int axis)
{
	const struct kern *k = t->sites->kern;
	int position[TC_MAX_RANK];

	for (int rank = 0; rank < t->ctas; rank++) {
		tc_position_of(k, rank, position);
		if (!position[axis] && tc_is_sure_at(k, issuer->op, position) &&
		    !tc_is_told(t, issuer, rank, 1u << axis))
			return false;
	}
	return true;
}

/* A copy of each CTA, for itself, into what the tensor core reads. */
static bool is_own_copy(const struct op *o, const struct alloc *operand)
{
	return o->kind == OP_COPY_GMEM_TO_SMEM && !o->u.copy.leader_tracked &&
	       o->u.copy.dst->alloc == operand;
}

static bool copies_operand(const struct telling *t, const struct site *a)
{
	return is_own_copy(a->op, t->subject);
}

/* How an operand gets there: by copies of each CTA for itself alone, or otherwise, too. */
struct filling {
	const struct alloc *operand;
	const struct op *copy;
	bool otherwise;
};

static const struct ref *written_by_threads(const struct op *o)
{
	switch (o->kind) {
	case OP_STORE:
	case OP_ATOMIC:
		return o->u.store.ref;
	case OP_STORE_SCALAR:
	case OP_ATOMIC_SCALAR:
		return o->u.store_scalar.ref;
	default:
		return NULL;
	}
}

static void note_filling(void *arg, const struct site *site)
{
	struct filling *f = arg;
	const struct op *o = site->op;
	const struct ref *written = written_by_threads(o);

	if (is_own_copy(o, f->operand))
		f->copy = f->copy ? f->copy : o;
	else if ((written && written->alloc == f->operand) ||
		 (o->kind == OP_COPY_GMEM_TO_SMEM && o->u.copy.dst->alloc == f->operand))
		f->otherwise = true;
}

static void check_operand(const struct telling *arrivals, const struct site *reader, const char *op,
			  const char *name, const struct ref *operand, int axis)
{
	struct kern *k = arrivals->sites->kern;
	struct filling f = {.operand = operand->alloc, .otherwise = operand->alloc->alias};
	struct telling t = {.sites = arrivals->sites,
			    .by = BY_THREADS,
			    .is_origin = copies_operand,
			    .tells_nothing = copies_operand,
			    .subject = operand->alloc};

	if (is_told(arrivals, reader, axis))
		return;
	tc_verify_walk(k, note_filling, &f);
	if (!f.copy || f.otherwise)
		return;
	tc_tell(&t);
	if (!is_told(&t, reader, axis))
		tc_documented_at(&k->err, reader->op->pos, PAIR_OPERAND,
				 tc_arena_printf(&k->arena, "\n  it is copied at %s",
						 tc_pos_text(k, f.copy->pos)),
				 op, name, tc_axes_text(k, 1u << axis));
}

static void check_operands(const struct telling *arrivals, const struct site *reader)
{
	const struct mma_op *m = &reader->op->u.mma;
	const struct tmem_copy_op *c = &reader->op->u.tmem_copy;

	if (reader->op->kind == OP_MMA && m->collective_axis >= 0) {
		check_operand(arrivals, reader, "tc.mma", "a", m->a, m->collective_axis);
		check_operand(arrivals, reader, "tc.mma", "b", m->b, m->collective_axis);
	} else if (tc_site_copies_to_tmem(reader->op) && c->collective_axis >= 0) {
		check_operand(arrivals, reader, "copy into TMEM", "src", c->src,
			      c->collective_axis);
	}
}

/* ---- accumulators that are used again -------------------------------------------------------- */

/* How often, for sure, an op overwrites or reads one slot of an accumulator. */
struct uses {
	const struct kern *kern;
	const struct ref *acc;
	const struct mma_op *mma; /* NULL: it reads */
	bool any, known;          /* every turn */
	struct box first;
	int64_t count;
};

static bool note_use(void *arg, const struct turn *t)
{
	struct uses *u = arg;
	int64_t accumulate = u->mma && u->mma->accumulate_const && u->mma->accumulate_value;
	struct box b;

	if (u->mma && !u->mma->accumulate_const &&
	    !(u->mma->accumulate && tc_val_in(u->kern, u->mma->accumulate, t, &accumulate)))
		u->known = false;
	if (!tc_box_in(u->kern, u->acc, t, &b))
		u->known = false;
	if (!u->known || accumulate)
		return !u->known;
	if (!u->any)
		u->first = b;
	u->any = true;
	u->count += tc_boxes_meet(&u->first, &b);
	return false;
}

static int64_t uses_of(const struct kern *k, const struct op *o, const int *position,
		       const struct box *slot, struct box *first)
{
	struct uses u = {.kern = k,
			 .acc = o->kind == OP_MMA ? o->u.mma.acc : o->u.load.ref,
			 .mma = o->kind == OP_MMA ? &o->u.mma : NULL,
			 .known = true};

	if (slot) {
		u.any = true;
		u.first = *slot;
	}
	u.known = tc_each_turn(k, o, position, note_use, &u) == ALL_TURNS && u.known;
	*first = u.first;
	return u.known ? u.count : 0;
}

/* Completes a phase behind each turn of what is around the MMA: its own barrier, or a commit. */
static bool completes(const struct site *mma, const struct site *arrival)
{
	return arrival->op == mma->op ||
	       (arrival->op->kind == OP_COMMIT_ARRIVE && arrival->role == mma->role &&
		arrival->op->id > mma->op->id &&
		tc_scope_encloses(arrival->op->scope, mma->op->scope));
}

static bool is_once(const struct times *a, const struct times *b)
{
	return !a->loops && !b->loops && !a->unsure && !b->unsure && a->constant == b->constant;
}

/*
 * The only arrival on the barrier of the wait just before the load, executed as often as these:
 * the load in turn i reads what was complete in turn i.
 */
static bool follows_each(const struct sites *s, const struct site *mma, const struct site *wait,
			 const struct site *load)
{
	const struct barrier *b = tc_site_waits(wait->op);
	const struct site *arrival = NULL;

	if (wait->role != load->role || wait->op->scope != load->op->scope ||
	    wait->op->id > load->op->id || wait->op->u.wait.parity)
		return false;
	for (int i = 0; i < s->count; i++) {
		const struct site *a = &s->item[i];

		if (tc_site_waits(a->op) == b && a->role == wait->role && a != wait)
			return false;
		if (tc_site_arrives(a->op) != b)
			continue;
		if (arrival)
			return false;
		arrival = a;
	}
	return arrival && completes(mma, arrival) && b->num_arrivals == 1 &&
	       is_once(&arrival->times, &wait->times) && is_once(&wait->times, &load->times);
}

/* The load is sure to read each of what the MMA overwrites, in between. */
static bool is_read_between(const struct sites *s, const struct site *mma, const struct site *load)
{
	int position[TC_MAX_RANK] = {0};
	struct box slot, same;
	bool follows = false;
	int64_t written;

	for (int i = 0; i < s->count && !follows; i++)
		follows = tc_site_waits(s->item[i].op) && follows_each(s, mma, &s->item[i], load);
	if (!follows)
		return false;
	written = uses_of(s->kern, mma->op, position, NULL, &slot);
	return written > 1 && written == uses_of(s->kern, load->op, position, &slot, &same);
}

/* A load that reads the accumulator each time before it is overwritten. */
static const struct site *reader_of(const struct sites *s, const struct site *mma)
{
	for (int i = 0; i < s->count; i++) {
		const struct op *o = s->item[i].op;

		if (o->kind == OP_ASYNC_LOAD_TMEM &&
		    o->u.load.ref->alloc == mma->op->u.mma.acc->alloc &&
		    is_read_between(s, mma, &s->item[i]))
			return &s->item[i];
	}
	return NULL;
}

static bool tells_of_read(const struct telling *t, const struct site *a)
{
	const struct site *reader = t->subject;

	return a->role == reader->role && tc_may_follow(reader, a);
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

static void check_accumulator(const struct telling *arrivals, const struct site *mma)
{
	const struct sites *s = arrivals->sites;
	struct kern *k = s->kern;
	int axis = mma->op->u.mma.collective_axis;
	struct telling t = {.sites = s,
			    .by = BY_THREADS,
			    .is_origin = tells_of_read,
			    .tells_nothing = none_too_early};

	if (!mma->loop || is_told(arrivals, mma, axis))
		return;
	t.subject = reader_of(s, mma);
	if (!t.subject)
		return;
	tc_tell(&t);
	if (!is_told(&t, mma, axis))
		tc_documented_at(&k->err, mma->op->pos, PAIR_ACC_RELEASE,
				 release_text(s, mma, t.subject), tc_axes_text(k, 1u << axis));
}

void tc_verify_collective(const struct sites *s)
{
	struct telling arrivals;

	check_commits(s);
	check_issuers(s);
	for (int i = 0; i < s->kern->barriers.count; i++)
		check_tracked(s, s->kern->barriers.item[i]);
	if (!tc_has_cluster(s->kern))
		return;
	arrivals = tc_tell_by_arrivals(s, BY_THREADS);
	for (int i = 0; i < s->count; i++) {
		check_operands(&arrivals, &s->item[i]);
		if (s->item[i].op->kind == OP_MMA && s->item[i].op->u.mma.collective_axis >= 0)
			check_accumulator(&arrivals, &s->item[i]);
	}
}

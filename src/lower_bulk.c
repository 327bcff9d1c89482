/*
 * Groups of bulk stores: what a wait for them waits for, and at which barrier the role learns of
 * it.  SMEM is handed to the async proxy and taken back here.
 */
#include "compile.h"

/*
 * ---- Whether a kernel can tell that a bulk store has been written, not only read from SMEM.  The
 * end of the grid waits for the rest, so a wait of a kernel that cannot tell may be the shorter
 * one.
 */

struct seen {
	bool *read, *copied; /* by argument */
	bool told;           /* a thread could say so to somebody */
};

static void look(struct seen *n, const struct ref *r, bool *set)
{
	if (r->alloc->space == SP_GMEM && set)
		set[r->alloc->id] = true;
	else if (r->alloc->space == SP_GMEM)
		n->told = true;
}

static void look_at_rows(struct seen *n, const struct ref *r)
{
	if (r->rows)
		look(n, r->rows, n->read);
}

static void look_at_scope(struct seen *n, const struct scope *s)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];

		for (int i = tc_op_bodies(o, body) - 1; i >= 0; i--)
			look_at_scope(n, body[i]);
		switch (o->kind) {
		case OP_COPY_GMEM_TO_SMEM:
			look(n, o->u.copy.src, n->read);
			look_at_rows(n, o->u.copy.src);
			break;
		case OP_COPY_SMEM_TO_GMEM:
			look(n, o->u.copy.dst, n->copied);
			look_at_rows(n, o->u.copy.dst);
			break;
		case OP_LOAD:
			look(n, o->u.load.ref, n->read);
			break;
		case OP_LOAD_SCALAR:
			look(n, o->u.load_scalar.ref, n->read);
			break;
		case OP_STORE:
		case OP_ATOMIC:
			look(n, o->u.store.ref, NULL);
			break;
		case OP_STORE_SCALAR:
		case OP_ATOMIC_SCALAR:
			look(n, o->u.store_scalar.ref, NULL);
			break;
		case OP_COMMIT_GMEM:
		case OP_SEMAPHORE_SIGNAL:
		case OP_SEMAPHORE_SIGNAL_PARALLEL:
			n->told = true;
			break;
		default:
			break;
		}
	}
}

static bool writes_seen(struct low *l)
{
	const struct kern *k = l->c->kern;
	struct seen n = {.told = false};
	size_t size = (size_t)k->arg_count + 1;

	n.read = tc_arena_alloc(l->arena, size);
	n.copied = tc_arena_alloc(l->arena, size);
	look_at_scope(&n, k->root);
	for (int i = 0; i < k->arg_count; i++)
		n.told |= n.read[i] && n.copied[i];
	return n.told;
}

/* ---- one barrier for a commit_smem and the wait after it ------------------------------------- */

static bool reads_only(struct low *l, const struct op *wait)
{
	const struct wait_smem_op *w = &wait->u.wait_smem;

	return w->read_only || (!w->written && !writes_seen(l));
}

/* Between a barrier and the next one, no thread can tell where in between another has done this. */
static bool touches_no_shared_state(struct low *l, const struct op *op)
{
	switch (op->kind) {
	case OP_ASYNC_LOAD_TMEM:
	case OP_BARRIER_ARRIVE:
	case OP_BARRIER_WAIT:
	case OP_FRAG_BROADCAST:
	case OP_FRAG_CAST:
	case OP_FRAG_ELEMENTWISE:
	case OP_FRAG_FULL:
	case OP_FRAG_IOTA:
	case OP_VAR_GET:
	case OP_VAR_NEW:
	case OP_VAR_SET:
		return true;
	case OP_LOAD:
		/* Stores of the role to the same SMEM are put in order by tc_frag_order. */
		return op->u.load.ref->alloc->space == SP_SMEM || !writes_seen(l);
	default:
		return false;
	}
}

/*
 * The wait that the barrier of a commit_smem can answer too, and how many groups may then be
 * outstanding at that barrier.
 *
 * commit_smem; g copies; wait_smem_to_gmem(n): when at most n - g groups are outstanding at the
 * commit's barrier, at most n are at the wait, and every thread knows.  Waiting there for all but
 * n - g is stricter than what was asked, never wrong, and stores complete by themselves.  What
 * stands between the two must not need the barrier of the wait for an order of its own.
 */
static const struct op *answered_wait(struct low *l, const struct op *commit, int *outstanding)
{
	int groups = 0;

	if (l->role->warps == 1)
		return NULL;
	for (const struct op *op = commit->next; op; op = op->next) {
		if (!l->role->op_kept[op->id])
			continue;
		if (op->kind == OP_WAIT_SMEM_TO_GMEM) {
			*outstanding = op->u.wait_smem.n - groups;
			return *outstanding >= 0 && reads_only(l, op) ? op : NULL;
		}
		if (op->kind == OP_COPY_SMEM_TO_GMEM)
			groups += op->u.copy.commit_group;
		else if (!touches_no_shared_state(l, op))
			return NULL;
	}
	return NULL;
}

bool tc_low_wait_answered(struct low *l, const struct op *wait)
{
	const struct op *commit = NULL;
	int outstanding;

	for (const struct op *op = wait->scope->first; op != wait; op = op->next)
		if (op->kind == OP_COMMIT_SMEM && l->role->op_kept[op->id])
			commit = op;
	return commit && answered_wait(l, commit, &outstanding) == wait;
}

static void wait_groups(struct low *l, bool read_only, int outstanding)
{
	tc_low_leader(l);
	mi(l, read_only ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group",
	   I(outstanding));
	tc_low_all(l);
}

void tc_lower_commit_smem(struct low *l, const struct op *op)
{
	int outstanding;

	tc_low_all(l);
	mi_plain(l, "fence.proxy.async.shared::cta");
	if (answered_wait(l, op, &outstanding))
		wait_groups(l, true, outstanding);
	tc_low_role_barrier(l);
}

void tc_lower_commit_gmem(struct low *l, const struct op *op)
{
	(void)op;
	tc_low_all(l);
	mi_plain(l, "fence.proxy.async.global");
	tc_low_role_barrier(l);
}

void tc_lower_wait_smem_to_gmem(struct low *l, const struct op *op)
{
	if (tc_low_wait_answered(l, op)) {
		l->comment = NULL;
		return;
	}
	wait_groups(l, reads_only(l, op), op->u.wait_smem.n);
	if (l->role->warps > 1)
		tc_low_role_barrier(l);
}

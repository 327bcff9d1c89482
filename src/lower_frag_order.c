/*
 * A role's loads see its earlier stores, and its stores come after its earlier
 * loads, although other threads may have made them: a role barrier stands
 * between where the recording has none.  Only memory that a role both loads and
 * stores through registers is concerned; for readers elsewhere the user writes
 * commit_smem() and barriers.
 */
#include "frag.h"

enum {
	ACCESS_LOAD = 1,
	ACCESS_STORE = 2
};

static bool same_memory(const struct alloc *a, const struct alloc *b)
{
	return a == b || (a->alias && a->alias == b->alias);
}

static const struct ref *accessed(const struct op *op, int *access)
{
	*access = op->kind == OP_LOAD || op->kind == OP_LOAD_SCALAR ? ACCESS_LOAD : ACCESS_STORE;
	switch (op->kind) {
	case OP_LOAD:
		return op->u.load.ref;
	case OP_STORE:
		return op->u.store.ref;
	case OP_LOAD_SCALAR:
		return op->u.load_scalar.ref;
	case OP_STORE_SCALAR:
		return op->u.store_scalar.ref;
	default:
		return NULL;
	}
}

static int accesses_of_scope(const struct low *l, const struct scope *s, const struct alloc *a);

/* How an op, or the ops in it, access the memory of a. */
static int accesses(const struct low *l, const struct op *op, const struct alloc *a)
{
	int access, of_blocks = 0;
	const struct ref *r;

	if (!l->role->op_kept[op->id])
		return 0;
	switch (op->kind) {
	case OP_RANGE:
		return accesses_of_scope(l, op->u.range.body, a);
	case OP_LOOP:
		return accesses_of_scope(l, op->u.loop.body, a);
	case OP_ROLE:
		return accesses_of_scope(l, op->u.role.body, a);
	case OP_WHEN:
		of_blocks = accesses_of_scope(l, op->u.when.then, a);
		if (op->u.when.otherwise)
			of_blocks |= accesses_of_scope(l, op->u.when.otherwise, a);
		return of_blocks;
	default:
		r = accessed(op, &access);
		return r && same_memory(r->alloc, a) ? access : 0;
	}
}

static int accesses_of_scope(const struct low *l, const struct scope *s, const struct alloc *a)
{
	int all = 0;

	for (const struct op *op = s->first; op; op = op->next)
		all |= accesses(l, op, a);
	return all;
}

/* Its code has a barrier of the role. */
static bool has_barrier(struct low *l, const struct op *op)
{
	return op->kind == OP_COMMIT_SMEM || op->kind == OP_COMMIT_GMEM ||
	       op->kind == OP_COMMIT_TMEM || op->kind == OP_WAIT_LOAD_TMEM ||
	       (op->kind == OP_WAIT_SMEM_TO_GMEM && !tc_low_wait_answered(l, op));
}

/* Between a conflicting access and `op` the role has met already. */
static bool met_since(struct low *l, const struct op *op, const struct alloc *a, int conflict)
{
	bool met = false;

	for (const struct op *o = op->scope->first; o != op; o = o->next) {
		if (!l->role->op_kept[o->id])
			continue;
		if (has_barrier(l, o))
			met = true;
		else if (accesses(l, o, a) & conflict)
			met = false;
	}
	return met;
}

void tc_frag_order(struct low *l, const struct op *op)
{
	int access, conflict;
	const struct alloc *a = accessed(op, &access)->alloc;

	conflict = ACCESS_LOAD | ACCESS_STORE;
	conflict &= ~access;
	if ((accesses_of_scope(l, l->c->kern->root, a) & conflict) &&
	    (l->role->class || !met_since(l, op, a, conflict)))
		tc_low_class_barrier(l);
}

/*
 * A role's loads see its earlier stores, and its stores come after its earlier
 * loads and stores, although other threads may have made them: a role barrier
 * stands between where the recording has none.  Only memory that a role loads and
 * stores through registers is concerned, row numbers of gathers among it; for readers elsewhere the
 * user writes commit_smem() and barriers.  Two stores of one distribution to tiles of one grid,
 * which are the same tile or disjoint ones, need none: each thread stores its own elements, or
 * others than any thread before.  Atomic updates need none between each other.
 */
#include "frag.h"

enum {
	ACCESS_LOAD = 1,
	ACCESS_STORE = 2,
	ACCESS_STORE_ELSEWHERE = 4, /* by threads other than those of the store in question */
	ACCESS_ATOMIC = 8
};

enum {
	start_depth = 4 /* of expressions for where a tile starts */
};

bool tc_same_memory(const struct alloc *a, const struct alloc *b)
{
	return a == b || (a->alias && a->alias == b->alias);
}

static const struct ref *accessed(const struct op *op, int *access)
{
	bool stores = op->kind == OP_STORE || op->kind == OP_STORE_SCALAR;
	bool updates = op->kind == OP_ATOMIC || op->kind == OP_ATOMIC_SCALAR;

	*access = stores ? ACCESS_STORE : updates ? ACCESS_ATOMIC : ACCESS_LOAD;
	switch (op->kind) {
	case OP_LOAD:
		return op->u.load.ref;
	case OP_STORE:
	case OP_ATOMIC:
		return op->u.store.ref;
	case OP_LOAD_SCALAR:
		return op->u.load_scalar.ref;
	case OP_STORE_SCALAR:
	case OP_ATOMIC_SCALAR:
		return op->u.store_scalar.ref;
	case OP_COPY_GMEM_TO_SMEM:
		return op->u.copy.src->rows;
	case OP_COPY_SMEM_TO_GMEM:
		return op->u.copy.dst->rows;
	case OP_ASYNC_PREFETCH:
		return op->u.prefetch.ref->rows;
	default:
		return NULL;
	}
}

/* As far as `depth` levels of sums and products show. */
static bool multiple_of(const struct val *v, int64_t n, int depth)
{
	int64_t x;

	if (!v)
		return true;
	if (tc_val_is_const(v, &x))
		return x % n == 0;
	if (v->kind == VAL_EXPR && depth > 0 && v->op == SO_MUL)
		return multiple_of(v->arg[0], n, depth - 1) || multiple_of(v->arg[1], n, depth - 1);
	if (v->kind == VAL_EXPR && depth > 0 && (v->op == SO_ADD || v->op == SO_SUB))
		return multiple_of(v->arg[0], n, depth - 1) && multiple_of(v->arg[1], n, depth - 1);
	return tc_val_divisor(v) % n == 0;
}

/* Their starts are whole extents apart, whatever turn of a loop either belongs to. */
static bool whole_extents_apart(const struct val *a, const struct val *b, int64_t extent)
{
	int64_t x = 0, y = 0;

	if ((!a || tc_val_is_const(a, &x)) && (!b || tc_val_is_const(b, &y)))
		return (x - y) % extent == 0;
	return multiple_of(a, extent, start_depth) && multiple_of(b, extent, start_depth);
}

bool tc_of_one_grid(const struct ref *a, const struct ref *b)
{
	if (a->alloc != b->alloc)
		return false;
	for (int i = 0; i < a->alloc->rank; i++) {
		int64_t extent = a->extent[i].size;

		if (extent != b->extent[i].size)
			return false;
		if (extent > 1 && !whole_extents_apart(a->start[i], b->start[i], extent))
			return false;
	}
	return true;
}

static bool by_same_threads(struct low *l, const struct op *a, const struct op *b)
{
	const struct frag_node *x = &tc_frag_plan(l)->node[a->u.store.value->id];
	const struct frag_node *y = &tc_frag_plan(l)->node[b->u.store.value->id];

	return tc_of_one_grid(a->u.store.ref, b->u.store.ref) && x->axis == y->axis &&
	       x->extent[0] == y->extent[0] && x->extent[1] == y->extent[1] &&
	       a->u.store.ref->transposed == b->u.store.ref->transposed &&
	       tc_distribution_equal(tc_store_distribution(l, a), tc_store_distribution(l, b));
}

static int accesses_of_scope(struct low *l, const struct scope *s, const struct op *of);

/* How an op, or the ops in it, access the memory that `of` loads or stores. */
static int accesses(struct low *l, const struct op *op, const struct op *of)
{
	int access, unused, of_blocks = 0;
	const struct ref *r;

	if (!l->role->op_kept[op->id])
		return 0;
	switch (op->kind) {
	case OP_RANGE:
		return accesses_of_scope(l, op->u.range.body, of);
	case OP_LOOP:
		return accesses_of_scope(l, op->u.loop.body, of);
	case OP_ROLE:
		return accesses_of_scope(l, op->u.role.body, of);
	case OP_WHEN:
		of_blocks = accesses_of_scope(l, op->u.when.then, of);
		if (op->u.when.otherwise)
			of_blocks |= accesses_of_scope(l, op->u.when.otherwise, of);
		return of_blocks;
	default:
		r = accessed(op, &access);
		if (!r || !tc_same_memory(r->alloc, accessed(of, &unused)->alloc))
			return 0;
		if (op->kind == OP_STORE && of->kind == OP_STORE && !by_same_threads(l, op, of))
			access |= ACCESS_STORE_ELSEWHERE;
		return access;
	}
}

static int accesses_of_scope(struct low *l, const struct scope *s, const struct op *of)
{
	int all = 0;

	for (const struct op *op = s->first; op; op = op->next)
		all |= accesses(l, op, of);
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
static bool met_since(struct low *l, const struct op *op, int conflict)
{
	bool met = false;

	for (const struct op *o = op->scope->first; o != op; o = o->next) {
		if (!l->role->op_kept[o->id])
			continue;
		if (has_barrier(l, o))
			met = true;
		else if (accesses(l, o, op) & conflict)
			met = false;
	}
	return met;
}

void tc_frag_order(struct low *l, const struct op *op)
{
	int access, conflict = ACCESS_STORE | ACCESS_ATOMIC;

	accessed(op, &access);
	if (access == ACCESS_STORE)
		conflict = ACCESS_LOAD | ACCESS_STORE_ELSEWHERE | ACCESS_ATOMIC;
	else if (access == ACCESS_ATOMIC)
		conflict = ACCESS_LOAD | ACCESS_STORE;
	if ((accesses_of_scope(l, l->c->kern->root, op) & conflict) &&
	    (l->role->class || !met_since(l, op, conflict)))
		tc_low_class_barrier(l);
}

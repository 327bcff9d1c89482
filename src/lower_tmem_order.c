/*
 * The order of a role's own loads and stores of tensor memory (docs/isa.md 5.6): loads see the
 * stores before them, and stores come behind the loads and stores before them.  A warp reaches
 * the lanes of its window alone, so the threads of one warpgroup wait for themselves.  Where
 * another warpgroup has accessed the same columns the role meets in between, as it does at
 * tc.wait_load_tmem and tc.commit_tmem.  What comes first, in any turn of a loop, is found for the
 * whole role before its first access is lowered.
 */
#include "frag.h"

#include <string.h>

struct access {
	const struct op *op;
	const struct ref *ref;
	bool store;
	/*
	 * In columns of 32 bits: where its slot begins in its allocation or union, and where it
	 * begins in the slot, -1: recorded; those of a warpgroup.
	 */
	int64_t slot, first, columns;
	int pieces; /* warpgroups that the columns are divided among; 1: all load them, one stores
		     */
	bool meets; /* the role, before it */
};

struct tmem_order {
	int count, warpgroups;
	struct access *access;        /* in the order of the recording */
	int *number;                  /* by op id; -1: none */
	const struct access **stored; /* since the last wait::st */
	int stored_count;
};

/* ---- what an access covers ---------------------------------------------------------------- */

static int64_t slot_column(const struct low *l, const struct ref *r)
{
	const struct alloc *a = r->alloc;
	int64_t slot = 0, index;

	for (int i = 0; i < a->rank - 2; i++) {
		if (!tc_val_is_const(r->start[i], &index))
			return -1;
		slot = slot * a->shape[i].size + index;
	}
	return tc_union_column(l->c->kern, a) +
	       slot * tc_tmem_columns(a, a->shape[a->rank - 2].size, a->shape[a->rank - 1].size);
}

static int64_t first_column(const struct ref *r)
{
	int64_t column;

	return tc_val_is_const(r->start[r->alloc->rank - 1], &column) ? column / r->alloc->packing
								      : -1;
}

static void describe(struct low *l, struct access *x, const struct op *op)
{
	bool store = op->kind == OP_ASYNC_STORE_TMEM;
	const struct frag *f = store ? op->u.store.value : op->u.load.result;
	const struct axis_map *m;
	struct distribution d;

	x->op = op;
	x->ref = store ? op->u.store.ref : op->u.load.ref;
	x->store = store;
	x->slot = slot_column(l, x->ref);
	x->first = first_column(x->ref);
	x->pieces = 1;
	l->op = op;
	l->c->target->ops->tmem_distribution(l, x->ref, f->role, &d);
	m = &d.axis[1];
	x->columns = x->ref->extent[x->ref->alloc->rank - 1].size / x->ref->alloc->packing;
	if (d.kind == DIST_HALVES)
		x->columns /= 2;
	for (int i = 0; i < m->field_count; i++)
		if (m->field[i].shift == 7)
			x->pieces = m->field[i].values;
	x->columns /= x->pieces;
}

static void collect(struct low *l, struct tmem_order *t, const struct scope *s)
{
	for (const struct op *op = s->first; op; op = op->next) {
		const struct scope *body[2];
		int bodies = tc_op_bodies(op, body);

		if (!l->role->op_kept[op->id])
			continue;
		for (int i = 0; i < bodies; i++)
			collect(l, t, body[i]);
		if (op->kind != OP_ASYNC_LOAD_TMEM && op->kind != OP_ASYNC_STORE_TMEM)
			continue;
		t->number[op->id] = t->count;
		describe(l, &t->access[t->count++], op);
	}
}

/* ---- which are in each other's way ----------------------------------------------------------- */

/* Whether warpgroups i of x and j of y access the same columns; recorded slots may be the same. */
static bool share(const struct access *x, int i, const struct access *y, int j)
{
	bool slots = x->slot >= 0 && y->slot >= 0;
	int64_t a = (slots ? x->slot : 0) + x->first + (x->pieces > 1 ? i * x->columns : 0);
	int64_t b = (slots ? y->slot : 0) + y->first + (y->pieces > 1 ? j * y->columns : 0);

	if ((x->pieces == 1 && x->store && i) || (y->pieces == 1 && y->store && j))
		return false;
	return a < b + y->columns && b < a + x->columns;
}

static bool is_known(const struct access *x, const struct access *y)
{
	return x->first >= 0 && y->first >= 0 &&
	       (x->ref->alloc == y->ref->alloc || (x->slot >= 0 && y->slot >= 0));
}

/* Whether a warpgroup and another one, or itself, access the same columns. */
static bool conflict(const struct tmem_order *t, const struct access *x, const struct access *y,
		     bool itself)
{
	if (!tc_same_memory(x->ref->alloc, y->ref->alloc))
		return false;
	if (!is_known(x, y)) {
		if (itself || !tc_of_one_grid(x->ref, y->ref))
			return itself || t->warpgroups > 1;
		return x->pieces == 1 && t->warpgroups > 1 && !(x->store && y->store);
	}
	for (int i = 0; i < t->warpgroups; i++)
		for (int j = 0; j < t->warpgroups; j++)
			if ((i == j) == itself && share(x, i, y, j))
				return true;
	return false;
}

/* ---- what comes before -------------------------------------------------------------------------
 */

static bool *copied(struct low *l, const struct tmem_order *t, const bool *set)
{
	return memcpy(tc_arena_alloc(l->arena, (size_t)t->count), set, (size_t)t->count);
}

static bool add(const struct tmem_order *t, bool *set, const bool *more)
{
	bool grown = false;

	for (int i = 0; i < t->count; i++)
		if (more[i] && !set[i])
			grown = set[i] = true;
	return grown;
}

static void forget(const struct tmem_order *t, bool *pending, bool stores)
{
	for (int i = 0; i < t->count; i++)
		if (t->access[i].store == stores)
			pending[i] = false;
}

/* `pending`: accesses that the role has not met since. */
static void look_at(struct tmem_order *t, int number, bool *pending)
{
	struct access *x = &t->access[number];

	for (int i = 0; i < t->count; i++) {
		const struct access *y = &t->access[i];

		if (!pending[i] || (!x->store && !y->store))
			continue;
		x->meets = x->meets || conflict(t, x, y, false);
	}
	if (x->meets)
		memset(pending, 0, (size_t)t->count);
	pending[number] = true;
}

static void add_all(struct low *l, const struct tmem_order *t, const struct scope *s, bool *set)
{
	for (const struct op *op = s->first; op; op = op->next) {
		const struct scope *body[2];

		if (!l->role->op_kept[op->id])
			continue;
		for (int i = tc_op_bodies(op, body) - 1; i >= 0; i--)
			add_all(l, t, body[i], set);
		if (t->number[op->id] >= 0)
			set[t->number[op->id]] = true;
	}
}

static void flow(struct low *l, struct tmem_order *t, const struct scope *s, bool *pending);

static void flow_loop(struct low *l, struct tmem_order *t, const struct op *op,
		      const struct scope *body, bool *pending)
{
	bool grown = true;

	while (grown) {
		bool *end = copied(l, t, pending);

		flow(l, t, body, end);
		/* It may be left anywhere. */
		if (op->kind == OP_LOOP)
			add_all(l, t, body, end);
		grown = add(t, pending, end);
	}
}

static void flow_branches(struct low *l, struct tmem_order *t, const struct scope *body[2],
			  int bodies, bool *pending)
{
	const bool *before = copied(l, t, pending);

	if (bodies == 2)
		memset(pending, 0, (size_t)t->count);
	for (int i = 0; i < bodies; i++) {
		bool *end = copied(l, t, before);

		flow(l, t, body[i], end);
		add(t, pending, end);
	}
}

static void flow(struct low *l, struct tmem_order *t, const struct scope *s, bool *pending)
{
	for (const struct op *op = s->first; op; op = op->next) {
		const struct scope *body[2];
		int bodies = tc_op_bodies(op, body);

		if (!l->role->op_kept[op->id])
			continue;
		if (op->kind == OP_WAIT_LOAD_TMEM || op->kind == OP_COMMIT_TMEM)
			forget(t, pending, op->kind == OP_COMMIT_TMEM);
		else if (op->kind == OP_ROLE)
			flow(l, t, body[0], pending);
		else if (op->kind == OP_RANGE || op->kind == OP_LOOP)
			flow_loop(l, t, op, body[0], pending);
		else if (bodies)
			flow_branches(l, t, body, bodies, pending);
		else if (t->number[op->id] >= 0)
			look_at(t, t->number[op->id], pending);
	}
}

static struct tmem_order *order_of(struct low *l)
{
	const struct kern *k = l->c->kern;
	const struct op *op = l->op;
	struct tmem_order *t = l->tmem_order;

	if (t)
		return t;
	t = l->tmem_order = tc_arena_alloc(l->arena, sizeof *t);
	t->warpgroups = l->role->warps / 4;
	t->access = tc_arena_alloc(l->arena, sizeof *t->access * (size_t)k->op_count);
	t->number = tc_arena_alloc(l->arena, sizeof *t->number * (size_t)k->op_count);
	for (int i = 0; i < k->op_count; i++)
		t->number[i] = -1;
	collect(l, t, k->root);
	t->stored = tc_arena_alloc(l->arena, sizeof(struct access *) * (size_t)t->count);
	l->op = op;
	flow(l, t, k->root, tc_arena_alloc(l->arena, (size_t)t->count));
	return t;
}

/* A thread's stores may be done in any order until it waits for them. */
static void behind_stores(struct low *l, struct tmem_order *t, const struct access *x)
{
	if (!l->pending_st)
		t->stored_count = 0;
	for (int i = 0; i < t->stored_count; i++)
		if (conflict(t, x, t->stored[i], true)) {
			tc_low_wait_st(l);
			t->stored_count = 0;
		}
	t->stored[t->stored_count++] = x;
}

void tc_tmem_order(struct low *l, const struct op *op)
{
	struct tmem_order *t = order_of(l);
	const struct access *x = &t->access[t->number[op->id]];

	if (x->store)
		tc_low_wait_ld(l);
	else
		tc_low_wait_st(l);
	if (x->meets)
		tc_low_tcgen05_meet(l);
	if (x->store)
		behind_stores(l, t, x);
}

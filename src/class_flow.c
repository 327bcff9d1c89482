/*
 * What follows from the order in which a class runs its ops: barriers that only
 * itself uses, what may be on its way before an op, loads that have to copy, and
 * whose rows an SMEM tile has.
 */
#include "classes.h"

/* ---- memory that a class both writes and reads ---------------------------------------- */

enum {
	WRITES = 1, /* by threads */
	COPIES = 2, /* by TMA */
	READS = 4   /* by threads or an MMA */
};

struct flow {
	struct compilation *c;
	struct class_plan *class;
	uint8_t *use; /* by alloc id: WRITES ... */
	/* rows */
	bool *uncut, *stored;
	/* the barrier looked at, and what arrives on it or waits for it */
	const struct barrier *barrier;
	int inside;
};

/* Arguments of the kernel are numbered apart from allocations. */
static int number(const struct flow *f, const struct alloc *a)
{
	return a->space == SP_GMEM ? f->c->kern->allocs.count + a->id : a->id;
}

static void mark(struct flow *f, const struct ref *r, int use)
{
	f->use[number(f, r->alloc)] |= (uint8_t)use;
}

static void mark_op(void *arg, const struct op *op)
{
	struct flow *f = arg;

	switch (op->kind) {
	case OP_COPY_GMEM_TO_SMEM:
		mark(f, op->u.copy.dst, COPIES);
		mark(f, op->u.copy.src, READS);
		if (op->u.copy.src->rows)
			mark(f, op->u.copy.src->rows, READS);
		break;
	case OP_STORE:
	case OP_ATOMIC:
		mark(f, op->u.store.ref, WRITES);
		break;
	case OP_STORE_SCALAR:
	case OP_ATOMIC_SCALAR:
		mark(f, op->u.store_scalar.ref, WRITES);
		break;
	case OP_LOAD:
		mark(f, op->u.load.ref, READS);
		break;
	case OP_LOAD_SCALAR:
		mark(f, op->u.load_scalar.ref, READS);
		break;
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		mark(f, op->u.tmem_copy.src, READS);
		break;
	case OP_MMA:
		mark(f, op->u.mma.a, READS);
		mark(f, op->u.mma.b, READS);
		break;
	default:
		break;
	}
}

static bool writes_what_it_reads(const struct flow *f)
{
	const struct ptrvec *allocs = &f->c->kern->allocs;

	for (int i = 0; i < f->c->kern->arg_count; i++) {
		int use = f->use[allocs->count + i];

		if ((use & WRITES) && (use & READS))
			return true;
	}
	for (int i = 0; i < allocs->count; i++)
		for (int j = 0; j < allocs->count; j++) {
			const struct alloc *a = allocs->item[i], *b = allocs->item[j];
			bool same = a == b || (a->alias && a->alias == b->alias);

			if (same && a->space != SP_TMEM && (f->use[a->id] & (WRITES | COPIES)) &&
			    (f->use[b->id] & READS))
				return true;
		}
	return false;
}

/* ---- barriers within a class ------------------------------------------------------------- */

static void count_inside(void *arg, const struct op *op)
{
	struct flow *f = arg;
	enum arrival_kind kind;

	if (tc_op_arrives(op, &kind) == f->barrier && kind != ARRIVAL_COPY &&
	    kind != ARRIVAL_STORE && kind != ARRIVAL_CANCEL)
		f->inside++;
	if (op->kind == OP_BARRIER_WAIT && op->u.wait.barrier.barrier == f->barrier)
		f->inside++;
}

static int count_all(const struct scope *s, const struct barrier *b)
{
	int count = 0;

	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];
		int n = tc_op_bodies(o, body);
		enum arrival_kind kind;

		for (int i = 0; i < n; i++)
			count += count_all(body[i], b);
		count += tc_op_arrives(o, &kind) == b;
		count += o->kind == OP_BARRIER_WAIT && o->u.wait.barrier.barrier == b;
	}
	return count;
}

/*
 * The class waits for what it has done itself: for its MMAs a wait_group 0 does.
 * Where it overwrites SMEM that it reads, its clones have to wait for each other.
 */
static void elide_barriers(struct flow *f)
{
	const struct kern *k = f->c->kern;

	if (writes_what_it_reads(f))
		return;
	for (int i = 0; i < k->barriers.count; i++) {
		f->barrier = k->barriers.item[i];
		f->inside = 0;
		if (f->barrier->cluster)
			continue;
		tc_class_walk(f->c, f->class, count_inside, f);
		f->c->elided[i] = f->inside && f->inside == count_all(k->root, f->barrier);
	}
}

/* ---- what may be on its way ------------------------------------------------------------------ */

static uint8_t state_of_scope(struct flow *f, const struct scope *s, uint8_t in);

static uint8_t after_mma(const struct flow *f, const struct mma_op *m)
{
	const struct barrier *b = m->barrier.barrier;

	return MMA_RUNNING | (b && !f->c->elided[b->id] ? RELEASE_PENDING : 0);
}

/* State after an op; `in` has been added to its own. */
static uint8_t state_after(struct flow *f, const struct op *op, uint8_t in)
{
	const struct scope *body[2];
	int n = tc_op_bodies(op, body);
	uint8_t out = in;

	switch (op->kind) {
	case OP_ROLE:
		return f->class->members >> op->u.role.role->id & 1 ? state_of_scope(f, body[0], in)
								    : in;
	case OP_RANGE:
	case OP_LOOP:
		/* States only grow: the second pass has what the first one left. */
		for (int pass = 0; pass < 2; pass++)
			out |= state_of_scope(f, body[0], out);
		return out;
	case OP_WHEN:
		out = state_of_scope(f, body[0], in);
		return out | (n == 2 ? state_of_scope(f, body[1], in) : in);
	case OP_MMA:
		return after_mma(f, &op->u.mma);
	case OP_COMMIT_ARRIVE:
	case OP_ASYNC_LOAD_TMEM:
	case OP_ASYNC_STORE_TMEM:
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		return 0;
	case OP_BARRIER_WAIT:
		return f->c->elided[op->u.wait.barrier.barrier->id] ? 0 : in;
	default:
		return in;
	}
}

static uint8_t state_of_scope(struct flow *f, const struct scope *s, uint8_t in)
{
	uint8_t stopped = 0;

	for (const struct op *o = s->first; o; o = o->next) {
		f->class->state[o->id] |= in;
		/* A stop leaves the loop in this state. */
		if (o->kind == OP_STOP)
			stopped |= in;
		in = state_after(f, o, in);
	}
	return in | stopped;
}

/* ---- how long a fragment is used ----------------------------------------------------------------
 */

static int last_id(const struct op *op)
{
	const struct scope *body[2];
	int n = tc_op_bodies(op, body), last = op->id;

	for (int i = 0; i < n; i++)
		for (const struct op *o = body[i]->first; o; o = o->next)
			last = last_id(o) > last ? last_id(o) : last;
	return last;
}

static bool uses(const struct op *op, const struct frag *f)
{
	switch (op->kind) {
	case OP_FRAG_ELEMENTWISE:
		for (int i = 0; i < 3; i++)
			if (op->u.elementwise.arg[i] == f)
				return true;
		return false;
	case OP_FRAG_CAST:
		return op->u.cast.arg == f;
	case OP_FRAG_BROADCAST:
		return op->u.broadcast.arg == f;
	case OP_FRAG_REDUCE:
		return op->u.reduce.arg == f;
	case OP_STORE:
	case OP_ATOMIC:
	case OP_ASYNC_STORE_TMEM:
		return op->u.store.value == f;
	case OP_VAR_NEW:
		return op->u.var.var->frag == f;
	case OP_VAR_SET:
		return op->u.var.frag == f;
	case OP_PRINT:
		return op->u.print.frag == f;
	default:
		return false;
	}
}

/* Id of the last op before which f's registers must keep their values. */
static int last_use(const struct scope *s, const struct frag *f, const struct op *loop)
{
	int last = -1;

	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];
		int n = tc_op_bodies(o, body), at = -1;
		bool repeats = o->kind == OP_RANGE || o->kind == OP_LOOP;

		for (int i = 0; i < n; i++) {
			int inner = last_use(body[i], f, loop ? loop : repeats ? o : NULL);

			at = inner > at ? inner : at;
		}
		if (uses(o, f)) {
			const struct frag *same = o->kind == OP_FRAG_CAST ? o->u.cast.result
						  : o->kind == OP_FRAG_BROADCAST
							  ? o->u.broadcast.result
							  : NULL;
			int further = same ? last_use(same->home, same, NULL) : -1;

			at = loop ? last_id(loop) : o->id;
			at = further > at ? further : at;
		}
		last = at > last ? at : last;
	}
	return last;
}

struct overwriting {
	const struct op *load;
	int until;
	bool found;
};

static void look_for_overwriting(void *arg, const struct op *op)
{
	struct overwriting *w = arg;
	const struct alloc *a = w->load->u.load.ref->alloc;
	const struct ref *r;
	bool writes;

	for (int i = 0; (r = tc_class_access(op, i, &writes)); i++)
		if (writes && op->id > w->load->id && op->id <= w->until &&
		    (r->alloc == a || (a->alias && r->alloc->alias == a->alias)))
			w->found = true;
}

static void find_copy(void *arg, const struct op *op)
{
	struct flow *f = arg;
	struct overwriting w = {.load = op};

	if (op->kind != OP_ASYNC_LOAD_TMEM)
		return;
	w.until = last_use(op->u.load.result->home, op->u.load.result, NULL);
	tc_class_walk(f->c, f->class, look_for_overwriting, &w);
	f->class->copied[op->id] = w.found;
}

/* ---- whose rows ---------------------------------------------------------------------------------
 */

/* All 64 * clones rows from the first, each along the view's first dimension. */
static bool is_cut(const struct flow *f, const struct ref *r)
{
	int rows = r->alloc->rank - 2;
	int64_t first;

	return rows >= 0 && r->rank == 2 && r->axis[0] == rows &&
	       tc_val_is_const(r->start[rows], &first) && first % 8 == 0 &&
	       r->extent[rows].size == 64 * f->class->clones;
}

static void look_at_rows(void *arg, const struct op *op)
{
	struct flow *f = arg;
	const struct ref *refs[2] = {NULL, NULL};

	switch (op->kind) {
	case OP_STORE:
	case OP_ATOMIC:
		refs[0] = op->u.store.ref;
		f->stored[number(f, refs[0]->alloc)] = true;
		break;
	case OP_LOAD:
		refs[0] = op->u.load.ref;
		break;
	case OP_COPY_SMEM_TO_GMEM:
		refs[0] = op->u.copy.src;
		break;
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		refs[0] = op->u.tmem_copy.src;
		break;
	case OP_MMA:
		refs[0] = op->u.mma.a;
		refs[1] = op->u.mma.b;
		break;
	default:
		break;
	}
	for (int i = 0; i < 2; i++)
		if (refs[i] && (i == 1 || !is_cut(f, refs[i])))
			f->uncut[number(f, refs[i]->alloc)] = true;
}

/* SMEM that threads store is either cut in all accesses, or barriers are for all clones. */
static void cut_rows(struct flow *f)
{
	const struct ptrvec *allocs = &f->c->kern->allocs;

	if (f->class->clones == 1)
		return;
	tc_class_walk(f->c, f->class, look_at_rows, f);
	for (int i = 0; i < allocs->count; i++) {
		const struct alloc *a = allocs->item[i];

		if (a->space != SP_SMEM)
			continue;
		f->class->rows_cut[a->id] = !f->uncut[a->id];
		for (int j = 0; j < allocs->count; j++) {
			const struct alloc *b = allocs->item[j];

			if (a != b && a->alias && b->alias == a->alias)
				f->class->rows_cut[a->id] = false;
		}
		if (f->stored[a->id] && !f->class->rows_cut[a->id])
			f->class->mixes_rows = true;
	}
}

void tc_class_flow(struct compilation *c, struct class_plan *class)
{
	size_t count = (size_t)(c->kern->allocs.count + c->kern->arg_count) + 1;
	struct flow f = {.c = c, .class = class};

	f.use = tc_arena_alloc(c->arena, count);
	f.uncut = tc_arena_alloc(c->arena, sizeof(bool) * count);
	f.stored = tc_arena_alloc(c->arena, sizeof(bool) * count);
	tc_class_walk(c, class, mark_op, &f);
	elide_barriers(&f);
	class->end_state = state_of_scope(&f, c->kern->root, 0);
	tc_class_walk(c, class, find_copy, &f);
	cut_rows(&f);
}

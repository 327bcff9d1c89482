/*
 * Tiles between registers and memory: SMEM, GMEM, and the scratch through which
 * a value changes its distribution.
 */
#include "check_atomic.h"
#include "tile.h"

#include <limits.h>

/* ---- the access itself ----------------------------------------------------------------------- */

/* Elements of a thread that are neighbours and begin at a multiple of their number, up to `most`.
 */
static int neighbours(const struct axis_map *m, int most)
{
	int width = tc_power_of_two_in(m->vector, most);

	for (int i = 0; i < m->field_count; i++)
		width = tc_power_of_two_in(m->field[i].stride, width);
	return m->count > m->vector ? tc_power_of_two_in(m->step, width) : width;
}

int tc_tile_width(const struct tile *t, const struct frag_value *v)
{
	const struct axis_map *m = &t->d->axis[t->d->fast];
	int width, per_word = tc_dtype_per_word(v->dtype);

	/* A bool is a predicate in registers and a byte in memory. */
	if (v->dtype == DT_BOOL || t->role[t->d->fast] != TILE_COLUMN || !v->along[t->d->fast])
		return 1;
	width = neighbours(m, t->aligned);
	if (width < per_word || m->count % per_word != 0)
		return 1;
	return width;
}

static const char *access_opcode(struct tile *t, const char *verb, int words)
{
	struct arena *a = t->l->arena;

	if (t->counted.id)
		return tc_arena_printf(
			a, "st.async.shared::cluster.mbarrier::complete_tx::bytes%s.b32",
			words == 4   ? ".v4"
			: words == 2 ? ".v2"
				     : "");
	if (words == 0)
		return tc_arena_printf(a, "%s.%s.u%d", verb, t->space, t->bits);
	if (words == 1)
		return tc_arena_printf(a, "%s.%s.b32", verb, t->space);
	return tc_arena_printf(a, "%s.%s.v%d.b32", verb, t->space, words);
}

static void move_words(struct tile *t, bool store, struct maddr m, struct mreg guard,
		       struct mopnd *word, int n)
{
	struct low *l = t->l;
	struct mreg r[4];
	struct minst *i;
	struct mopnd list;

	for (int w = 0; w < n; w++) {
		r[w] = store ? tc_word_register(l, word[w]) : mi_b32(l);
		word[w] = R(r[w]);
		if (!store && guard.id)
			mi(l, "mov.b32", R(r[w]), I(0));
	}
	list = n == 1 ? R(r[0]) : V(r, n);
	if (t->counted.id)
		i = mi(l, access_opcode(t, "st", n), M(m, 0), list,
		       M((struct maddr){.reg = t->counted}, 0));
	else if (store)
		i = mi(l, access_opcode(t, "st", n), M(m, 0), list);
	else
		i = mi(l, access_opcode(t, "ld", n), list, M(m, 0));
	if (guard.id)
		mi_guard(i, guard, false);
}

/* One element narrower than a register. */
static void move_element(struct tile *t, bool store, struct maddr m, struct mreg guard,
			 struct mopnd *x)
{
	struct low *l = t->l;
	struct mreg r = store ? tc_word_register(l, *x) : mi_b32(l);
	struct minst *i;

	if (!store && guard.id)
		mi(l, "mov.b32", R(r), I(0));
	if (store)
		i = mi(l, access_opcode(t, "st", 0), M(m, 0), R(r));
	else
		i = mi(l, access_opcode(t, "ld", 0), R(r), M(m, 0));
	if (guard.id)
		mi_guard(i, guard, false);
	*x = R(r);
}

/* The narrow elements of a word that begins at element e. */
static void move_narrow(struct tile *t, bool store, struct maddr m, struct mreg guard,
			struct frag_value *v, int e, struct mopnd *pending)
{
	struct low *l = t->l;
	int per_word = tc_dtype_per_word(v->dtype), at = e % per_word;
	int n = v->elements - (e - at) < per_word ? v->elements - (e - at) : per_word;

	if (v->dtype == DT_BOOL) {
		if (store)
			pending[0] = tc_convert_class(l, 'p', 'i', v->word[e]);
		move_element(t, store, m, guard, &pending[0]);
		if (!store)
			v->word[e] = tc_convert_class(l, 'i', 'p', pending[0]);
		return;
	}
	if (store && at == 0)
		tc_unpack_word(l, tc_dtype_raw(v->dtype), v->word[e / per_word], pending, n);
	move_element(t, store, m, guard, &pending[at]);
	if (!store && at == n - 1)
		v->word[e / per_word] = tc_pack_word(l, tc_dtype_raw(v->dtype), pending, n);
}

void tc_tile_accesses(struct tile *t, struct frag_value *v, int width, tile_access_fn *fn,
		      void *arg)
{
	int fast = t->d->fast, count[2], j[2];

	for (int a = 0; a < 2; a++) {
		count[a] = tc_value_count(v, a);
		t->guards[a].guard =
			tc_arena_alloc(t->l->arena, sizeof(struct mreg) * (size_t)count[a]);
		t->guards[a].known = tc_arena_alloc(t->l->arena, sizeof(bool) * (size_t)count[a]);
	}
	for (j[1 - fast] = 0; j[1 - fast] < count[1 - fast]; j[1 - fast]++) {
		for (j[fast] = 0; j[fast] < count[fast]; j[fast] += width) {
			struct tile_access x = {.element = tc_value_element(v, j[0], j[1]),
						.width = width};
			int off[2];

			for (int a = 0; a < 2; a++)
				off[a] = v->along[a] ? tc_axis_offset(&t->d->axis[a], j[a]) : 0;
			x.guard = tc_tile_guard(t, j);
			x.address = tc_tile_address(t, off);
			fn(t, v, &x, arg);
		}
	}
}

struct movement {
	bool store;
	struct mopnd pending[TC_MOST_PER_WORD]; /* narrow elements of the word under way */
};

static void move(struct tile *t, struct frag_value *v, const struct tile_access *a, void *arg)
{
	struct movement *m = arg;
	int per_word = tc_dtype_per_word(v->dtype);

	if (t->bits == 32 || a->width > 1)
		move_words(t, m->store, a->address, a->guard, &v->word[a->element / per_word],
			   a->width / per_word);
	else
		move_narrow(t, m->store, a->address, a->guard, v, a->element, m->pending);
}

static void move_tile(struct tile *t, bool store, struct frag_value *v)
{
	struct movement m = {.store = store};

	tc_tile_accesses(t, v, tc_tile_width(t, v), move, &m);
}

/* ---- ref:load(), ref:store() ---------------------------------------------------------------- */

/* The threads hold at least as many neighbours along the axis as one access has to move. */
static bool holds_vectors(const struct distribution *d, int axis, int least)
{
	const struct axis_map *m = &d->axis[axis];

	return least == 1 ||
	       (d->fast == axis && neighbours(m, least) == least && m->count % least == 0);
}

/* Elements that one access of an op moves at most. */
static int most_at_once(const struct op *op)
{
	const struct alloc *a = op->u.store.ref->alloc;

	return op->kind == OP_ATOMIC ? tc_atomic_most(a->space, a->dtype) : INT_MAX;
}

int tc_store_vector(const struct op *op, int *axis)
{
	int vector = tc_ref_vector(op->u.store.ref, axis), most = most_at_once(op);

	return vector < most ? vector : most;
}

/* That of the fragment's group, unless it holds fewer neighbours than the `least` that an access
 * moves; it moves at most `most`. */
static const struct distribution *memory_distribution(struct low *l, const struct ref *r,
						      const struct frag *f, int least, int most)
{
	const struct frag_node *n = &tc_frag_plan(l)->node[f->id];
	const struct distribution *of_group = tc_frag_distribution(l, f->id);
	struct distribution *d;
	int axis, vector = tc_ref_vector(r, &axis);

	if (r->rank == 1)
		axis = n->axis;
	if (of_group && holds_vectors(of_group, axis, least))
		return of_group;
	/* A splat belongs to no group. */
	d = tc_arena_alloc(l->arena, sizeof *d);
	while (vector > 1 && (vector > most || n->extent[axis] % vector != 0))
		vector /= 2;
	tc_frag_linear(l->role, d, n->extent, axis, vector, false);
	return d;
}

const struct distribution *tc_store_distribution(struct low *l, const struct op *op)
{
	const struct store_op *o = &op->u.store;
	enum dtype t = o->ref->alloc->dtype;

	return memory_distribution(l, o->ref, o->value,
				   op->kind == OP_ATOMIC ? tc_atomic_least(o->atomic, t)
							 : tc_dtype_least(t),
				   most_at_once(op));
}

/* The value as the tile's memory has it. */
static struct frag_value *stored_as(struct low *l, struct frag_value *v)
{
	return tc_dtype_least(v->dtype) > 1 ? tc_bytes_of(l, v) : v;
}

void tc_lower_load(struct low *l, const struct op *op)
{
	const struct load_op *o = &op->u.load;
	const struct frag_node *n = &tc_frag_plan(l)->node[o->result->id];
	const struct distribution *wanted = tc_frag_distribution(l, o->result->id);
	const struct distribution *d = memory_distribution(
		l, o->ref, o->result, tc_dtype_least(o->ref->alloc->dtype), INT_MAX);
	bool along[2] = {n->extent[0] > 1, n->extent[1] > 1};
	struct frag_value *v = tc_value_new(l, d, o->result->dtype, along), *moved;

	tc_low_all(l);
	tc_frag_order(l, op);
	moved = stored_as(l, v);
	move_tile(tc_tile_of(l, o->ref, moved->distribution, along, n->axis), false, moved);
	if (d != wanted)
		v = tc_value_convert(l, v, n->extent, wanted, false);
	tc_value_define(l, o->result, v);
}

/* The arrival of a store that its bytes complete, and the address of the barrier. */
static struct mreg expect_store(struct low *l, const struct store_op *o)
{
	const struct barrier_plan *plan = &l->c->barriers[o->barrier.barrier->id];
	struct maddr local = tc_low_barrier(l, &o->barrier);
	struct mreg peer = tc_low_peer(l, tc_low_address(l, local), o->barrier.cluster_rank);
	struct maddr barrier = {.reg = peer};
	int64_t bytes = 4;

	for (int i = 0; i < o->ref->rank; i++)
		bytes *= o->ref->shape[i].size;
	mi_require(l, 81);
	tc_low_first_leader(l);
	mi(l, "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64", M(barrier, 0), I(bytes));
	mi(l, "mbarrier.arrive.shared::cluster.b64", T("_"), M(barrier, 0), I(plan->unit));
	tc_low_all(l);
	return peer;
}

void tc_lower_store(struct low *l, const struct op *op)
{
	const struct store_op *o = &op->u.store;
	const struct frag_node *n = &tc_frag_plan(l)->node[o->value->id];
	const struct distribution *d = tc_store_distribution(l, op);
	bool along[2] = {n->extent[0] > 1, n->extent[1] > 1};
	struct frag_value *v;
	struct tile *t;

	tc_low_all(l);
	v = tc_value_stored(l, o->value, d, n->axis, along);
	tc_frag_order(l, op);
	if (l->c->target->ops->store_tile && !o->ref->cluster_rank &&
	    l->c->target->ops->store_tile(l, o->ref, v))
		return;
	v = stored_as(l, v);
	t = tc_tile_of(l, o->ref, v->distribution, along, n->axis);
	t->guard = tc_thread_unique(l, d, along);
	if (o->barrier.barrier)
		t->counted = expect_store(l, o);
	move_tile(t, true, v);
}

/* ---- scratch
 * -------------------------------------------------------------------------------------- */

static struct tile *scratch_tile(struct low *l, const struct frag_value *v,
				 const struct distribution *d, const int extent[2], bool transpose)
{
	bool along[2] = {extent[0] > 1, extent[1] > 1};
	int bytes = (tc_dtypes[v->dtype].bits + 7) / 8;
	int64_t row_bytes = ((int64_t)extent[transpose ? 0 : 1] * bytes + 15) / 16 * 16;
	int rows = extent[transpose ? 1 : 0];
	struct tile *t = tc_tile_new(l, d, v->dtype, along);
	struct smem_layout *s = &t->view.layout;

	/* Rows start in different banks. */
	if (rows > 1)
		row_bytes += 16;
	*s = (struct smem_layout){
		.bits = 8 * bytes, .row_bytes = row_bytes, .bytes = rows * row_bytes};
	t->space = "shared";
	t->bits = s->bits;
	t->unit = 1;
	/* Elements of 4 bits get a byte each. */
	t->aligned = tc_dtypes[v->dtype].bits < 8 ? 1 : 16 / bytes;
	if (along[0])
		t->role[0] = transpose ? TILE_COLUMN : TILE_ROW;
	if (along[1])
		t->role[1] = transpose ? TILE_ROW : TILE_COLUMN;
	t->view.tile = tc_low_scratch(l, s->bytes);
	t->base = l->c->smem;
	return t;
}

struct frag_value *tc_value_convert(struct low *l, struct frag_value *v, const int extent[2],
				    const struct distribution *d, bool transpose)
{
	bool along[2] = {extent[0] > 1, extent[1] > 1};
	int turned[2] = {extent[transpose ? 1 : 0], extent[transpose ? 0 : 1]};
	bool turned_along[2] = {turned[0] > 1, turned[1] > 1};
	struct frag_value *w = tc_value_new(l, d, v->dtype, turned_along);
	struct tile *t;

	v = tc_value_spread(l, v, v->distribution, along);
	t = scratch_tile(l, v, v->distribution, extent, false);
	t->guard = tc_thread_unique(l, v->distribution, along);
	tc_low_class_barrier(l);
	move_tile(t, true, v);
	tc_low_class_barrier(l);
	move_tile(scratch_tile(l, w, d, turned, transpose), false, w);
	return w;
}

struct maddr tc_value_to_scratch(struct low *l, struct frag_value *v, const int extent[2],
				 int64_t *row_bytes)
{
	bool along[2] = {extent[0] > 1, extent[1] > 1};
	struct tile *t = scratch_tile(l, v, v->distribution, extent, false);

	t->guard = tc_thread_unique(l, v->distribution, along);
	tc_low_class_barrier(l);
	move_tile(t, true, v);
	tc_low_class_barrier(l);
	*row_bytes = t->view.layout.row_bytes;
	return t->view.tile;
}

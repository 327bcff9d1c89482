/*
 * What only the whole kernel shows.  Budgets and targets are checked for every compilation,
 * synchronisation (verify_barrier.c) for finished recordings only: at the prompt a wait may still
 * wait for its arrival to be typed.
 */
#include "verify.h"
#include "compile.h"
#include "mma_shape.h"

/* ---- walking the scope tree ----------------------------------------------------------- */

struct walk {
	struct kern *kern;
	void (*fn)(void *arg, const struct site *site);
	void *arg;
};

int64_t tc_range_trips(const struct range_op *r)
{
	int64_t lo, hi, step = 1;

	if (!tc_val_is_const(r->lo, &lo) || !tc_val_is_const(r->hi, &hi) ||
	    (r->step && !tc_val_is_const(r->step, &step)) || step == 0)
		return -1;
	if (step > 0)
		return hi > lo ? (hi - lo + step - 1) / step : 0;
	return lo > hi ? (lo - hi - step - 1) / -step : 0;
}

static void add_loop(struct times *t, const struct op *loop)
{
	if (t->loops < VERIFY_MAX_LOOPS)
		t->loop[t->loops++] = loop;
	else
		t->unsure = true;
}

static void walk_scope(const struct walk *w, const struct scope *s, const struct times *outer);

static void walk_range(const struct walk *w, const struct op *o, struct times inner)
{
	int64_t n = tc_range_trips(&o->u.range);

	if (n < 0)
		add_loop(&inner, o);
	else if (inner.constant && n > VERIFY_MOST_TIMES / inner.constant)
		inner.unsure = true;
	else
		inner.constant *= n;
	walk_scope(w, o->u.range.body, &inner);
}

static void walk_op(const struct walk *w, const struct op *o, const struct times *outer)
{
	struct times inner = *outer;

	switch (o->kind) {
	case OP_RANGE:
		walk_range(w, o, inner);
		break;
	case OP_LOOP:
		inner.unsure = true;
		add_loop(&inner, o);
		walk_scope(w, o->u.loop.body, &inner);
		break;
	case OP_WHEN:
		inner.maybe = true;
		walk_scope(w, o->u.when.then, &inner);
		if (o->u.when.otherwise)
			walk_scope(w, o->u.when.otherwise, &inner);
		break;
	case OP_ROLE:
		walk_scope(w, o->u.role.body, &inner);
		break;
	default:
		break;
	}
}

static void walk_scope(const struct walk *w, const struct scope *s, const struct times *outer)
{
	struct site site = {.role = s->role ? s->role : w->kern->implicit_role, .times = *outer};

	for (const struct op *o = s->first; o; o = o->next) {
		site.op = o;
		w->fn(w->arg, &site);
		walk_op(w, o, outer);
	}
}

void tc_verify_walk(struct kern *k, void (*fn)(void *arg, const struct site *site), void *arg)
{
	struct walk w = {k, fn, arg};
	struct times once = {.constant = 1};

	walk_scope(&w, k->root, &once);
}

/* ---- budgets -------------------------------------------------------------------------- */

static int64_t smem_bytes(const struct alloc *a)
{
	struct smem_layout s;

	tc_smem_layout(a, &s);
	return s.bytes;
}

/* Bytes; columns, of which place.c gives each allocation a multiple of 8. */
static int64_t size_of(const struct alloc *a)
{
	return a->space == SP_SMEM ? smem_bytes(a) : (a->columns + 7) / 8 * 8;
}

/* Members of a union share storage: the largest one counts. */
static int64_t union_size(struct kern *k, const struct alias_set *set)
{
	int64_t largest = 0;

	for (int m = 0; m < set->member_count; m++) {
		int64_t sum = 0;

		for (int i = 0; i < k->allocs.count; i++) {
			const struct alloc *a = k->allocs.item[i];

			if (a->alias == set && a->alias_member == m)
				sum += size_of(a);
		}
		largest = sum > largest ? sum : largest;
	}
	return largest;
}

static int64_t total(struct kern *k, enum space space)
{
	int64_t sum = 0;

	for (int i = 0; i < k->allocs.count; i++) {
		const struct alloc *a = k->allocs.item[i];

		if (a->space == space && !a->alias)
			sum += size_of(a);
	}
	for (int i = 0; i < k->aliases.count; i++) {
		const struct alias_set *set = k->aliases.item[i];

		if (set->space == space)
			sum += union_size(k, set);
	}
	return sum;
}

/* The allocation with which the sum passes the limit. */
static struct srcpos last_straw(struct kern *k, enum space space, int64_t limit)
{
	struct srcpos pos = k->pos;
	int64_t sum = 0;

	for (int i = 0; i < k->allocs.count && sum <= limit; i++) {
		const struct alloc *a = k->allocs.item[i];

		if (a->space != space)
			continue;
		pos = a->pos;
		sum += size_of(a);
	}
	return pos;
}

static const char *list(struct kern *k, enum space space, const char *unit)
{
	const char *text = "";

	for (int i = 0; i < k->allocs.count; i++) {
		struct alloc *a = k->allocs.item[i];

		if (a->space == space)
			text = tc_arena_printf(&k->arena, "%s\n  %lld %s%s: %s", text,
					       (long long)size_of(a), unit,
					       a->alias ? " (in a union)" : "",
					       tc_ref_text(k, tc_ref_whole(k, a)));
	}
	return text;
}

static int64_t barrier_bytes(const struct kern *k)
{
	int64_t bytes = 0;

	for (int i = 0; i < k->barriers.count; i++)
		bytes += 8 * ((const struct barrier *)k->barriers.item[i])->num_barriers;
	return bytes;
}

void tc_verify_smem(struct kern *k, const struct target *t, int64_t placed)
{
	int64_t allocated = total(k, SP_SMEM), barriers = barrier_bytes(k);
	int64_t sum = placed > allocated + barriers ? placed : allocated + barriers;
	int64_t extra = sum - allocated - barriers;
	const char *more;

	if (sum <= t->smem_limit)
		return;
	more = tc_arena_printf(&k->arena, "%s\n  %lld bytes: barriers", list(k, SP_SMEM, "bytes"),
			       (long long)barriers);
	if (extra)
		more = tc_arena_printf(&k->arena, "%s\n  %lld bytes: scratch and alignment", more,
				       (long long)extra);
	more = tc_arena_printf(&k->arena, "%s\n  %lld bytes in all; a block of %s may use %lld",
			       more, (long long)sum, t->name, (long long)t->smem_limit);
	tc_documented_at(&k->err, last_straw(k, SP_SMEM, t->smem_limit), SMEM_LIMIT, more,
			 tc_integer_text(k, sum), tc_integer_text(k, t->smem_limit));
}

static const char *cluster_text(struct kern *k)
{
	const char *text = "(";

	for (int i = 0; i < 3; i++)
		text = tc_arena_printf(
			&k->arena, "%s%s%lld", text, i ? ", " : "",
			i < k->cluster_rank ? (long long)k->cluster[k->cluster_rank - 1 - i] : 1LL);
	return tc_join(k, text, ")");
}

static void verify_collective(struct kern *k)
{
	const struct alloc *first = NULL;
	int64_t size = 1;

	for (int i = 0; i < k->cluster_rank; i++)
		size *= k->cluster[i];
	for (int i = 0; i < k->allocs.count; i++) {
		struct alloc *a = k->allocs.item[i];

		if (a->space != SP_TMEM)
			continue;
		first = first ? first : a;
		if (a->collective != first->collective)
			tc_documented_at(&k->err, a->pos, TMEM_MIXED_COLLECTIVE,
					 list(k, SP_TMEM, "columns"));
	}
	if (first && first->collective && size % 2)
		tc_documented_at(&k->err, first->pos, TMEM_COLLECTIVE_CLUSTER, "", cluster_text(k));
}

static void verify_pairs(struct kern *k, const struct target *t)
{
	for (int i = 0; i < k->allocs.count; i++) {
		const struct alloc *a = k->allocs.item[i];

		if (a->space == SP_TMEM && a->collective)
			tc_documented_at(&k->err, a->pos, TMEM_COLLECTIVE_TARGET, "", t->name);
	}
}

static void verify_tmem(struct kern *k, const struct target *t)
{
	int64_t columns = total(k, SP_TMEM), rounded = 32;

	if (!columns)
		return;
	verify_collective(k);
	/* Registers in its place: what they hold is the target's own question. */
	if (!t->tmem_columns) {
		verify_pairs(k, t);
		return;
	}
	while (rounded < columns)
		rounded *= 2;
	if (rounded > t->tmem_columns)
		tc_documented_at(&k->err, last_straw(k, SP_TMEM, t->tmem_columns), TMEM_LIMIT,
				 tc_arena_printf(&k->arena, "%s\n  %lld columns in all",
						 list(k, SP_TMEM, "columns"), (long long)columns),
				 tc_integer_text(k, rounded));
}

/* ---- roles ------------------------------------------------------------------------------- */

#define NAMED_BARRIERS 15 /* 1 to 15: 0 is __syncthreads */

static void verify_named_barriers(struct kern *k)
{
	const struct role *last = NULL;
	int count = 0;

	for (int i = 0; i < k->roles.count; i++) {
		const struct role *r = k->roles.item[i];

		count += r->warps > 1;
		last = r->warps > 1 ? r : last;
	}
	if (count > NAMED_BARRIERS)
		tc_documented_at(&k->err, last->pos, TOO_MANY_NAMED_BARRIERS, "",
				 tc_integer_text(k, count));
}

/* setmaxnreg moves registers between warpgroups; more than were launched with never come. */
static void verify_registers(struct kern *k, const struct target *t)
{
	const struct role *setter = NULL;
	int64_t asked = 0;
	int warps = 0, threads, standard;

	for (int i = 0; i < k->roles.count; i++)
		warps += ((const struct role *)k->roles.item[i])->warps;
	threads = (warps + 3) / 4 * 128;
	/* Roles in classes take other warps: class_registers.c asks for them. */
	if (!threads || (!t->tmem_columns && total(k, SP_TMEM)))
		return;
	standard = t->registers / threads / 8 * 8;
	standard = standard > 256 ? 256 : standard;
	asked = (int64_t)threads * standard;
	for (int i = 0; i < k->roles.count; i++) {
		const struct role *role = k->roles.item[i];

		if (!role->max_registers)
			continue;
		asked += (int64_t)32 * role->warps * (role->max_registers - standard);
		setter = role;
	}
	if (setter && asked > (int64_t)threads * standard)
		tc_documented_at(&k->err, setter->pos, REGISTERS_POOL,
				 tc_arena_printf(&k->arena,
						 "\n  %d threads, each launched with %d registers",
						 threads, standard),
				 tc_integer_text(k, asked),
				 tc_integer_text(k, (int64_t)threads * standard));
}

/* ---- ops ------------------------------------------------------------------------------------ */

struct verify {
	struct kern *kern;
	const struct target *target;
};

static void verify_mma(const struct verify *v, const struct op *o)
{
	const struct mma_op *m = &o->u.mma;
	const struct mma_row *row;
	struct mma_shape s;

	tc_mma_describe(m, &s);
	row = tc_mma_row(!v->target->tmem_columns, &s);
	if (row && !tc_mma_on_target(row, v->target->name))
		tc_documented_at(&v->kern->err, o->pos, MMA_TARGET, "", row->name,
				 tc_dtypes[s.a].name, tc_dtypes[s.b].name, v->target->name);
}

static void verify_op(void *arg, const struct site *site)
{
	const struct verify *v = arg;

	if (site->op->kind == OP_MMA)
		verify_mma(v, site->op);
}

void tc_verify(struct kern *k, const struct target *t)
{
	struct verify v = {k, t};

	verify_tmem(k, t);
	tc_verify_smem(k, t, 0);
	tc_verify_walk(k, verify_op, &v);
	verify_named_barriers(k);
	verify_registers(k, t);
	if (k->finished)
		tc_verify_barriers(k);
}

/* The rest waits for the launch: another target may take what the likely one refuses. */
static void verify_promises(struct kern *k)
{
	for (int i = 0; i < k->promises.count; i++) {
		const struct promise *p = k->promises.item[i];

		if (p->kept_at >= 0)
			continue;
		k->err.pos = p->pos;
		tc_fail_documented(&k->err, (enum tc_error)p->id, p->text);
	}
}

void tc_verify_recording(struct kern *k, const struct target *likely)
{
	verify_promises(k);
	if (k->target) {
		tc_verify(k, tc_target_find(k->target));
	} else {
		verify_collective(k);
		if (likely) {
			verify_tmem(k, likely);
			tc_verify_smem(k, likely, 0);
		}
		verify_named_barriers(k);
	}
	tc_verify_barriers(k);
}

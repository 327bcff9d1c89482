/*
 * What is legal and yet likely to be wrong, as far as the recording alone shows it: accesses of
 * GMEM that lie outside of the array, arrivals that nobody waits for.
 */
#include "lower.h"
#include "verify.h"

#include <stdarg.h>

enum lint {
#define LINT(id, rule, fix) LINT_##id,
#include "lints.def"
#undef LINT
	LINT_COUNT
};

static const struct {
	const char *rule, *fix;
} lints[LINT_COUNT] = {
#define LINT(id, rule, fix) {rule, fix},
#include "lints.def"
#undef LINT
};

struct access;

struct linting {
	struct low low; /* of a role that has no code: for the bounds of values */
	struct program_lint **at;
	struct access *accesses; /* in the order of their first line */
	bool *awaited;           /* by barrier id */
};

__attribute__((format(printf, 4, 5))) static void add(struct linting *n, const struct site *site,
						      enum lint id, const char *fmt, ...)
{
	struct arena *a = n->low.arena;
	struct program_lint *lint = tc_arena_alloc(a, sizeof *lint);
	struct strbuf text = {.arena = a};
	const struct srcpos *pos = &site->op->pos;
	va_list args;

	va_start(args, fmt);
	tc_vprintf(&text, fmt, args);
	va_end(args);
	tc_printf(&text, "\n    fix: %s", lints[id].fix);
	lint->rule = lints[id].rule;
	lint->message = text.text;
	lint->file = pos->file ? tc_arena_strdup(a, pos->file) : NULL;
	lint->line = (uint32_t)pos->line;
	if (site->role && !site->role->implicit)
		lint->role = tc_arena_strdup(a, site->role->name);
	*n->at = lint;
	n->at = &lint->next;
}

/* ---- the values that an index takes --------------------------------------- */

#define MOST_LEAVES 8

/* All of low .. high is taken by some CTA in some turn; dense: so is every value between. */
struct taken {
	int64_t low, high;
	bool dense;
};
struct leaves {
	bool first_turn;       /* of every loop; else all of them */
	bool first_of_cluster; /* the CTA at 0 of each axis; else all of them */
	const struct val *seen[MOST_LEAVES];
	int count;
};

/* Grid axes and loop counters take all combinations; one that stands in a term twice does not. */
static bool is_new(struct leaves *l, const struct val *v)
{
	for (int i = 0; i < l->count; i++)
		if (l->seen[i] == v)
			return false;
	if (l->count == MOST_LEAVES)
		return false;
	l->seen[l->count++] = v;
	return true;
}

static bool axis_taken(const struct kern *k, const struct val *v, bool first_of_cluster,
		       struct taken *t)
{
	bool of_grid = v->axis < k->grid_rank;
	int64_t size = of_grid ? k->grid[v->axis] : k->cluster[v->axis - k->grid_rank];

	*t = (struct taken){0, of_grid || !first_of_cluster ? size - 1 : 0, true};
	return size > 0;
}

static bool counter_taken(const struct val *v, bool first_turn, struct taken *t)
{
	const struct range_op *r = &v->def->u.range;
	int64_t trips = tc_range_trips(r), lo, step = 1;

	if (trips < 1 || !tc_val_is_const(r->lo, &lo) ||
	    (r->step && !tc_val_is_const(r->step, &step)))
		return false;
	*t = (struct taken){lo, first_turn ? lo : lo + (trips - 1) * step, step == 1};
	return step > 0;
}

static bool modulo_taken(const struct taken *a, int64_t n, struct taken *t)
{
	if (a->dense && a->high - a->low + 1 >= n) {
		*t = (struct taken){0, n - 1, true};
		return true;
	}
	*t = *a;
	t->low -= tc_floor_div(a->low, n) * n;
	t->high -= tc_floor_div(a->high, n) * n;
	return tc_floor_div(a->low, n) == tc_floor_div(a->high, n);
}

static bool values_taken(const struct kern *k, const struct val *v, struct leaves *l,
			 struct taken *t);

static bool expression_taken(const struct kern *k, const struct val *v, struct leaves *l,
			     struct taken *t)
{
	struct taken a, b;
	int64_t n;

	if (v->op != SO_ADD && v->op != SO_SUB && v->op != SO_MUL && v->op != SO_FLOORDIV &&
	    v->op != SO_MOD)
		return false;
	if (!values_taken(k, v->arg[0], l, &a) || !values_taken(k, v->arg[1], l, &b))
		return false;
	n = b.low;
	if (v->op == SO_MUL && b.low != b.high) {
		n = a.low;
		if (a.low != a.high)
			return false;
		a = b;
	} else if (v->op != SO_ADD && v->op != SO_SUB && (b.low != b.high || n < 1)) {
		return false;
	}
	if (v->op == SO_ADD)
		*t = (struct taken){a.low + b.low, a.high + b.high, a.dense && b.dense};
	else if (v->op == SO_SUB)
		*t = (struct taken){a.low - b.high, a.high - b.low, a.dense && b.dense};
	else if (v->op == SO_MUL)
		*t = (struct taken){a.low * n, a.high * n, a.dense && n == 1};
	else if (v->op == SO_FLOORDIV)
		*t = (struct taken){tc_floor_div(a.low, n), tc_floor_div(a.high, n), a.dense};
	else if (!modulo_taken(&a, n, t))
		return false;
	return n >= 0 || v->op == SO_ADD || v->op == SO_SUB;
}

static bool values_taken(const struct kern *k, const struct val *v, struct leaves *l,
			 struct taken *t)
{
	int64_t constant;

	if (tc_val_is_const(v, &constant)) {
		*t = (struct taken){constant, constant, true};
		return true;
	}
	switch (v->kind) {
	case VAL_AXIS:
		return is_new(l, v) && axis_taken(k, v, l->first_of_cluster, t);
	case VAL_INDEX:
		return is_new(l, v) && counter_taken(v, l->first_turn, t);
	case VAL_EXPR:
		return v->type == VT_S32 && expression_taken(k, v, l, t) && t->low >= INT32_MIN &&
		       t->high <= INT32_MAX;
	default:
		return false;
	}
}

/* The op, below no branch, is executed for every combination of what is around it. */
static bool is_certain(const struct site *site)
{
	return !site->times.unsure && !site->times.loops;
}

/* ---- accesses of GMEM ------------------------------------------------------------------------ */

/* The first index along an axis, where the access lies outside of the array because of it. */
struct beyond {
	const char *at; /* NULL: it is inside, or may be */
	int axis;
	bool before;   /* the array's begin */
	bool at_times; /* other CTAs or turns are inside */
};

/* What one line does with an argument; an unrolled loop repeats it. */
struct access {
	struct access *next;
	struct site site; /* the first time */
	const struct ref *ref;
	struct beyond beyond;
	bool inside; /* once at least */
};

/* The index is the axis' size or more, whatever that is. */
static bool is_behind_size(const struct val *start, const struct dim *size)
{
	int64_t n;

	/* Of a sum of it and a number, of a multiple, and of both. */
	while (start && start->kind == VAL_EXPR && tc_val_is_const(start->arg[1], &n) &&
	       ((start->op == SO_ADD && n >= 0) || (start->op == SO_MUL && n >= 1)))
		start = start->arg[0];
	return size->value && start == size->value;
}

static bool reads(const struct op *o)
{
	return o->kind == OP_COPY_GMEM_TO_SMEM || o->kind == OP_LOAD || o->kind == OP_LOAD_SCALAR;
}

static bool follows_grid(const struct kern *k, const struct leaves *l)
{
	for (int i = 0; i < l->count; i++)
		if (l->seen[i]->kind == VAL_AXIS && l->seen[i]->axis < k->grid_rank)
			return true;
	return false;
}

/* A grid is rounded up to whole clusters: the first CTA of the last one has a tile, at least. */
static bool takes_from(const struct kern *k, const struct val *start, bool first_turn, int64_t end,
		       struct taken *t)
{
	struct leaves all = {.first_turn = first_turn};
	struct leaves first = {.first_turn = first_turn, .first_of_cluster = true};
	struct taken of_first;

	return values_taken(k, start, &all, t) && t->high >= end &&
	       (!follows_grid(k, &all) ||
		(values_taken(k, start, &first, &of_first) && of_first.high >= end));
}

/*
 * A tile may overhang, and so may be walked over in pieces of which the last ones lie outside: that
 * is how a part of a tile is clipped.  But a CTA whose first pieces lie outside has no part of it,
 * and neither has a loop that leaves out index 0 and goes beyond the end.  Of elements, the last
 * turn of a loop may load one ahead, but not store one.
 */
static bool goes_beyond(const struct kern *k, const struct op *o, const struct ref *r,
			const struct val *start, int64_t end, int64_t *high)
{
	bool element = r->rank == 0;
	struct taken t;

	if (!takes_from(k, start, !element || reads(o), end, &t) &&
	    (element || !takes_from(k, start, false, end, &t) || t.low <= 0))
		return false;
	*high = t.high;
	return true;
}

static bool goes_below(const struct kern *k, const struct val *start, int64_t least, int64_t *low)
{
	struct leaves leaves = {.first_turn = false};
	struct taken t;

	if (!values_taken(k, start, &leaves, &t) || t.low >= least)
		return false;
	*low = t.low;
	return true;
}

static struct beyond at_value(struct kern *k, const struct val *start, int axis, bool before,
			      const char *gets, int64_t value)
{
	return (struct beyond){tc_arena_printf(&k->arena, "%s, which gets %s to %lld",
					       tc_val_text(k, start), gets, (long long)value),
			       axis, before, true};
}

/* Along one axis; what begins before the array is outside of it for a copy to it. */
static struct beyond beyond(struct linting *n, const struct site *site, const struct ref *r,
			    int axis)
{
	static const struct beyond inside;
	struct kern *k = n->low.c->kern;
	const struct dim *size = &r->alloc->shape[axis];
	const struct val *start = r->start[axis];
	struct interval all = tc_low_interval(&n->low, start);
	int64_t least = site->op->kind == OP_COPY_SMEM_TO_GMEM ? 0 : 1 - r->extent[axis].size;
	int64_t end = size->size < 0 ? INT64_MAX : size->size, value;

	if (site->times.maybe)
		return inside;
	if (is_behind_size(start, size))
		return (struct beyond){tc_val_text(k, start), axis, false, false};
	if (all.low >= end || all.high < least)
		return (struct beyond){tc_val_is_const(start, &value)
					       ? tc_integer_text(k, value)
					       : tc_join(k, tc_val_text(k, start), ", always"),
				       axis, all.high < least, false};
	if (is_certain(site) && goes_beyond(k, site->op, r, start, end, &value))
		return at_value(k, start, axis, false, "up", value);
	if (is_certain(site) && goes_below(k, start, least, &value))
		return at_value(k, start, axis, true, "down", value);
	return inside;
}

static const char *call_text(struct kern *k, const struct op *o)
{
	if (o->kind == OP_LOAD || o->kind == OP_LOAD_SCALAR)
		return "ref:load";
	if (o->kind == OP_STORE || o->kind == OP_STORE_SCALAR)
		return "ref:store";
	return tc_join(k, "tc.", tc_op_name(o));
}

static const char *consequence(const struct op *o, const struct ref *r, bool before)
{
	if (o->kind == OP_COPY_SMEM_TO_GMEM && before)
		return "the hardware traps";
	if (o->kind == OP_ASYNC_PREFETCH)
		return "nothing is fetched";
	if (reads(o))
		return r->rank ? "all of it reads as zero" : "it reads as zero";
	return r->rank ? "all of it is dropped" : "it is dropped";
}

static struct access *access_of(struct linting *n, const struct site *site, const struct ref *r)
{
	struct access **at = &n->accesses, *a;

	for (; (a = *at); at = &a->next)
		if (a->site.op->kind == site->op->kind && a->ref->alloc == r->alloc &&
		    a->site.op->pos.line == site->op->pos.line &&
		    a->site.op->pos.file == site->op->pos.file)
			return a;
	a = *at = tc_arena_alloc(n->low.arena, sizeof *a);
	a->site = *site;
	a->ref = r;
	return a;
}

static void look(struct linting *n, const struct site *site, const struct ref *r)
{
	struct beyond b = {.at = NULL};
	struct access *a;

	if (r->alloc->space != SP_GMEM)
		return;
	a = access_of(n, site, r);
	for (int i = 0; i < r->alloc->rank && !b.at && !a->inside; i++)
		if (r->extent[i].size >= 0)
			b = beyond(n, site, r, i);
	a->inside |= !b.at;
	if (!a->beyond.at)
		a->beyond = b;
}

static bool may_run_ahead(const struct op *o)
{
	return reads(o) || o->kind == OP_ASYNC_PREFETCH;
}

/*
 * What another line reads inside may be read outside by some: by a loop that loads ahead of its
 * turns, or by the first and last CTAs of those that read of their neighbours, too.
 */
static bool runs_ahead(const struct linting *n, const struct access *a)
{
	if (!a->beyond.at_times || !may_run_ahead(a->site.op))
		return false;
	for (const struct access *b = n->accesses; b; b = b->next)
		if (b->inside && b->ref->alloc == a->ref->alloc && may_run_ahead(b->site.op))
			return true;
	return false;
}

static void report_accesses(struct linting *n)
{
	struct kern *k = n->low.c->kern;

	for (const struct access *a = n->accesses; a; a = a->next) {
		const struct beyond *b = &a->beyond;
		const struct dim *size = &a->ref->alloc->shape[b->axis];

		if (a->inside || runs_ahead(n, a))
			continue;
		add(n, &a->site, LINT_GMEM_OUTSIDE,
		    "%s: its %s lies outside of %s, whose dimension %d ends at %s: it begins "
		    "there at %s; %s",
		    call_text(k, a->site.op), a->ref->rank ? "tile" : "element",
		    tc_ref_text(k, tc_ref_whole(k, a->ref->alloc)), b->axis,
		    size->size < 0 ? size->name : tc_integer_text(k, size->size), b->at,
		    consequence(a->site.op, a->ref, b->before));
	}
}

static void look_at_accesses(struct linting *n, const struct site *site)
{
	const struct op *o = site->op;

	switch (o->kind) {
	case OP_COPY_GMEM_TO_SMEM:
	case OP_COPY_SMEM_TO_GMEM:
		look(n, site, o->u.copy.src);
		look(n, site, o->u.copy.dst);
		break;
	case OP_ASYNC_PREFETCH:
		look(n, site, o->u.prefetch.ref);
		break;
	case OP_LOAD:
		look(n, site, o->u.load.ref);
		break;
	case OP_STORE:
	case OP_ATOMIC:
		look(n, site, o->u.store.ref);
		break;
	case OP_LOAD_SCALAR:
		look(n, site, o->u.load_scalar.ref);
		break;
	case OP_STORE_SCALAR:
	case OP_ATOMIC_SCALAR:
		look(n, site, o->u.store_scalar.ref);
		break;
	default:
		break;
	}
}

/* ---- arrivals ------------------------------------------------------------ */

static void mark_awaited(void *arg, const struct site *site)
{
	struct linting *n = arg;
	const struct barrier *b = tc_site_waits(site->op);

	if (b)
		n->awaited[b->id] = true;
}

/* ---- all ------------------------------------------------------------ */

static void look_at(void *arg, const struct site *site)
{
	struct linting *n = arg;
	struct kern *k = n->low.c->kern;
	const struct barrier *b = tc_site_arrives(site->op);

	if (site->times.constant <= 0)
		return;
	look_at_accesses(n, site);
	/* What is left out may wait: for a second turn, say, where there is one. */
	if (b && k->finished && !k->leaves_out && !n->awaited[b->id])
		add(n, site, LINT_ARRIVAL_NOT_AWAITED,
		    "%s: nothing ever waits on %s, on which it arrives", call_text(k, site->op),
		    tc_barrier_text(k, b));
}

void tc_lints(struct compilation *c)
{
	struct linting n = {.low = {.c = c, .arena = c->arena}, .at = &c->program->lints};

	n.awaited = tc_arena_alloc(c->arena, (size_t)c->kern->barriers.count + 1);
	tc_verify_walk(c->kern, mark_awaited, &n);
	tc_verify_walk(c->kern, look_at, &n);
	report_accesses(&n);
}

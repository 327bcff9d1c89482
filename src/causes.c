/*
 * What the emulator's reports say of this kernel: where a hazard of two lines follows from a call
 * that is missing between two others, these and their lines.
 */
#include "lower.h"
#include "verify.h"

#include <string.h>

#define MOST_HINTS 256 /* in a program; what is beyond gets the hints of all programs */

/* Stores of a role to SMEM that no commit_smem has followed. */
struct uncommitted {
	struct uncommitted *next;
	const struct op *store;
	const struct role *role;
};

struct causes {
	struct compilation *c;
	struct program_hint *hints;
	int count;
	struct uncommitted *stores;
	struct ptrvec waits;          /* struct site *: wait_smem_to_gmem */
	struct ptrvec readers;        /* struct site *: what may read SMEM */
	const struct op **first_wait; /* by barrier id */
};

/* A hint that is not there yet, for its text; NULL: there is one, or no more room. */
static struct program_hint *new_hint(struct causes *n, const char *rule, const struct op *at,
				     const struct op *other)
{
	struct program_hint *hint = &n->hints[n->count];

	if (n->count == MOST_HINTS)
		return NULL;
	*hint = (struct program_hint){.rule = rule};
	if (at && at->pos.file) {
		hint->file = at->pos.file;
		hint->line = (uint32_t)at->pos.line;
	}
	if (other && other->pos.file) {
		hint->other_file = other->pos.file;
		hint->other_line = (uint32_t)other->pos.line;
	}
	for (int i = 0; i < n->count; i++)
		if (n->hints[i].line == hint->line && n->hints[i].other_line == hint->other_line &&
		    strcmp(n->hints[i].rule, rule) == 0)
			return NULL;
	return hint->file || hint->other_file ? hint : NULL;
}

static void keep(struct causes *n, struct program_hint *hint, bool consequence, const char *text)
{
	struct arena *a = n->c->arena;

	hint->consequence = consequence;
	hint->text = tc_arena_strdup(a, text);
	hint->file = hint->file ? tc_arena_strdup(a, hint->file) : NULL;
	hint->other_file = hint->other_file ? tc_arena_strdup(a, hint->other_file) : NULL;
	n->count++;
}

/* "tc.copy_smem_to_gmem (line 12)" */
static const char *call_at(struct kern *k, const char *call, const struct op *o)
{
	return tc_arena_printf(&k->arena, "%s (%s)", call, tc_pos_text(k, o->pos));
}

/* ---- stores that nothing hands over -------------------------------------------------------- */

static bool shares_storage(const struct alloc *a, const struct alloc *b)
{
	return a == b || (a->alias && a->alias == b->alias);
}

static void forget_stores(struct causes *n, const struct role *role)
{
	struct uncommitted **at = &n->stores;

	while (*at)
		if ((*at)->role == role)
			*at = (*at)->next;
		else
			at = &(*at)->next;
}

static const char *store_name(struct kern *k, const struct op *store)
{
	return store->kind == OP_STORE ? "ref:store" : tc_join(k, "tc.", tc_op_name(store));
}

static void keep_store(struct causes *n, const struct site *site)
{
	struct uncommitted *u = tc_arena_alloc(n->c->arena, sizeof *u);

	*u = (struct uncommitted){n->stores, site->op, site->role};
	n->stores = u;
}

/*
 * The reader, which the leader issues, may begin before other warps of the role have stored: what
 * they then write is written while it reads, or not there yet.
 */
static void look_at_pair(struct causes *n, const struct op *store, const struct op *reader,
			 const char *call, const char *in_flight)
{
	struct kern *k = n->c->kern;
	const struct {
		const char *rule;
		const struct op *at, *other;
		bool consequence;
	} shown[] = {{in_flight, store, reader, true},
		     {"proxy-fence", reader, store, false},
		     {"shared-race", reader, store, false},
		     {"undefined-shared", reader, NULL, true}};

	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
		struct program_hint *hint = new_hint(n, shown[i].rule, shown[i].at, shown[i].other);

		if (hint)
			keep(n, hint, shown[i].consequence,
			     tc_arena_printf(&k->arena, "tc.commit_smem() between %s and %s",
					     call_at(k, store_name(k, store), store),
					     call_at(k, call, reader)));
	}
}

static void look_at_reader(struct causes *n, const struct site *site, const struct ref *r,
			   const char *call, const char *in_flight)
{
	if (!r || r->alloc->space != SP_SMEM)
		return;
	for (const struct uncommitted *u = n->stores; u; u = u->next)
		if (u->role == site->role && shares_storage(u->store->u.store.ref->alloc, r->alloc))
			look_at_pair(n, u->store, site->op, call, in_flight);
}

/* ---- copies to GMEM ------------------------------------------------------------ */

/* The role waits, and for fewer copies than it takes; or nowhere. */
static void look_at_store(struct causes *n, const struct site *site)
{
	struct kern *k = n->c->kern;
	struct program_hint *hint = new_hint(n, "bulk-read-not-awaited", NULL, site->op);
	const struct op *wait = NULL;
	const char *copy, *text;

	if (!hint)
		return;
	copy = call_at(k, "tc.copy_smem_to_gmem", site->op);
	for (int i = 0; i < n->waits.count; i++) {
		const struct site *w = n->waits.item[i];

		if (w->role == site->role && (!wait || w->op->u.wait_smem.n > wait->u.wait_smem.n))
			wait = w->op;
	}
	if (!wait)
		text = tc_arena_printf(&k->arena,
				       "tc.wait_smem_to_gmem(n) between %s and the next write to "
				       "its SMEM, by the role that copies: it waits nowhere",
				       copy);
	else if (wait->u.wait_smem.n > 0)
		text = tc_arena_printf(
			&k->arena,
			"a smaller n, or more slots of SMEM: of the groups of %s, %s "
			"lets %d go on reading",
			copy, call_at(k, "tc.wait_smem_to_gmem", wait), wait->u.wait_smem.n);
	else
		text = tc_arena_printf(
			&k->arena,
			"%s between %s and the next write to its SMEM; where another "
			"role writes, tc.barrier_arrive(b) behind it and "
			"tc.barrier_wait(b) there",
			call_at(k, "tc.wait_smem_to_gmem(0)", wait), copy);
	keep(n, hint, false, text);
}

/* ---- copies from GMEM ------------------------------------------------------------ */

static void look_at_load(struct causes *n, const struct op *o)
{
	struct kern *k = n->c->kern;
	const struct ref *src = o->u.copy.src;
	struct program_hint *hint = new_hint(n, "boxes-outside", o, NULL);
	const char *at = "";

	if (!hint)
		return;
	for (int i = 0; i < src->alloc->rank; i++)
		at = tc_arena_printf(&k->arena, "%s%s%s", at, i ? ", " : "",
				     src->start[i] ? tc_val_text(k, src->start[i]) : "0");
	keep(n, hint, false,
	     tc_arena_printf(
		     &k->arena,
		     "other indices: it copies %s of %s from (%s) on; ref:tile(index, shape) "
		     "counts tiles, ref:at elements",
		     tc_shape_text(k, src), tc_ref_text(k, tc_ref_whole(k, src->alloc)), at));
}

/* ---- copies from GMEM that a wait passes ---------------------------------- */

static bool reads_smem(const struct op *o, const struct alloc *a)
{
	const struct ref *refs[2] = {NULL, NULL};

	if (o->kind == OP_MMA) {
		refs[0] = o->u.mma.a;
		refs[1] = o->u.mma.b;
	} else if (o->kind == OP_LOAD) {
		refs[0] = o->u.load.ref;
	} else if (o->kind == OP_COPY_SMEM_TO_GMEM) {
		refs[0] = o->u.copy.src;
	}
	for (int i = 0; i < 2; i++)
		if (refs[i] && shares_storage(refs[i]->alloc, a))
			return true;
	return false;
}

/* Whatever the emulator sees of a copy whose barrier is first waited for by parity 1. */
static void look_at_passed(struct causes *n, const struct op *copy)
{
	struct kern *k = n->c->kern;
	const struct op *wait = n->first_wait[copy->u.copy.barrier.barrier->id];
	int64_t parity;
	const struct {
		const char *rule;
		const struct op *at, *other;
	} shown[] = {{"copy-not-awaited", NULL, copy},
		     {"shared-race", copy, NULL},
		     {"shared-race", NULL, copy},
		     {"wgmma-not-awaited", copy, NULL},
		     {"mma-not-awaited", copy, NULL}};
	const char *text;

	if (!wait || !wait->u.wait.parity || !tc_val_is_const(wait->u.wait.parity, &parity) ||
	    parity != 1)
		return;
	text = tc_arena_printf(&k->arena,
			       "%s without parity, or with parity = 0: the first wait is for "
			       "parity 0; parity 1 passes while phase 0 is open",
			       call_at(k, "tc.barrier_wait", wait));
	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
		struct program_hint *hint = new_hint(n, shown[i].rule, shown[i].at, shown[i].other);

		if (hint)
			keep(n, hint, true, text);
	}
	for (int i = 0; i < n->readers.count; i++) {
		const struct op *reader = ((const struct site *)n->readers.item[i])->op;
		struct program_hint *hint = reads_smem(reader, copy->u.copy.dst->alloc)
						    ? new_hint(n, "undefined-shared", reader, NULL)
						    : NULL;

		if (hint)
			keep(n, hint, true, text);
	}
}

/* ---- all ------------------------------------------------------------------ */

static void keep_site(struct causes *n, struct ptrvec *sites, const struct site *site)
{
	struct site *copy = tc_arena_alloc(n->c->arena, sizeof *copy);

	*copy = *site;
	mi_push(n->c->arena, sites, copy);
}

static void collect_readers(void *arg, const struct site *site)
{
	struct causes *n = arg;
	const struct op *o = site->op;
	const struct barrier *b = tc_site_waits(o);

	if (o->kind == OP_MMA || o->kind == OP_LOAD || o->kind == OP_COPY_SMEM_TO_GMEM)
		keep_site(n, &n->readers, site);
	if (b && o->kind == OP_BARRIER_WAIT && !n->first_wait[b->id])
		n->first_wait[b->id] = o;
}

static void collect_waits(void *arg, const struct site *site)
{
	struct causes *n = arg;

	if (site->op->kind == OP_WAIT_SMEM_TO_GMEM)
		keep_site(n, &n->waits, site);
}

static void look_at(void *arg, const struct site *site)
{
	struct causes *n = arg;
	const struct op *o = site->op;
	const char *mma = n->c->target->tmem_columns ? "mma-not-awaited" : "wgmma-not-awaited";

	switch (o->kind) {
	case OP_STORE:
	case OP_ATOMIC:
		if (o->u.store.ref->alloc->space == SP_SMEM)
			keep_store(n, site);
		break;
	case OP_COMMIT_SMEM:
		forget_stores(n, site->role);
		break;
	case OP_COPY_SMEM_TO_GMEM:
		look_at_reader(n, site, o->u.copy.src, "tc.copy_smem_to_gmem",
			       "bulk-read-not-awaited");
		look_at_store(n, site);
		break;
	case OP_COPY_GMEM_TO_SMEM:
		look_at_load(n, o);
		if (o->u.copy.barrier.barrier)
			look_at_passed(n, o);
		break;
	case OP_MMA:
		look_at_reader(n, site, o->u.mma.a, "tc.mma", mma);
		look_at_reader(n, site, o->u.mma.b, "tc.mma", mma);
		break;
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		look_at_reader(n, site, o->u.tmem_copy.src,
			       tc_join(n->c->kern, "tc.", tc_op_name(o)), mma);
		break;
	default:
		break;
	}
}

void tc_program_causes(struct compilation *c)
{
	struct causes n = {.c = c};

	n.hints = tc_arena_alloc(c->arena, sizeof *n.hints * MOST_HINTS);
	n.first_wait = tc_arena_alloc(c->arena,
				      sizeof *n.first_wait * (size_t)(c->kern->barriers.count + 1));
	tc_verify_walk(c->kern, collect_waits, &n);
	tc_verify_walk(c->kern, collect_readers, &n);
	tc_verify_walk(c->kern, look_at, &n);
	c->program->hints = n.hints;
	c->program->hint_count = n.count;
}

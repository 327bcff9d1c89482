/*
 * Appending an op: are its operands visible here, is the call legal (check.c),
 * may it stand here?  Nothing is changed before all three are answered.
 */
#include "check_atomic.h"
#include "check_copy.h"

#include <string.h>

static const char places[] = {
#define OP(id, name, payload, where) [OP_##id] = where,
#include "ops.def"
};

/* ---- operands ------------------------------------------------------------ */

static void use_var(struct kern *k, const struct var *v)
{
	if (v->id >= k->vars.count || k->vars.item[v->id] != v)
		tc_fail(&k->err, "this tc.var was made in a block that failed and is gone");
	if (v->home->closed || !tc_scope_encloses(v->home, k->current))
		tc_fail(&k->err, "the tc.var made at %s is used outside the block that made it",
			tc_pos_text(k, v->pos));
}

static void use_ref(struct kern *k, const struct ref *r)
{
	tc_ref_usable(k, r);
	tc_check_no_gather(k, r);
}

static void use_mma(struct kern *k, const struct mma_op *m)
{
	use_ref(k, m->acc);
	use_ref(k, m->a);
	use_ref(k, m->b);
	use_ref(k, m->a_scale);
	use_ref(k, m->b_scale);
	use_ref(k, m->a_sparse_metadata);
	tc_barrier_usable(k, &m->barrier);
	tc_val_usable(k, m->accumulate);
}

static void use_print(struct kern *k, const struct print_op *p)
{
	for (int i = 0; i < p->count; i++)
		tc_val_usable(k, p->values[i]);
	tc_frag_usable(k, p->frag);
}

static void use_operands(struct kern *k, const struct op *o)
{
	switch (o->kind) {
	case OP_RANGE:
		tc_val_usable(k, o->u.range.lo);
		tc_val_usable(k, o->u.range.hi);
		tc_val_usable(k, o->u.range.step);
		break;
	case OP_STOP:
		tc_val_usable(k, o->u.stop.cond);
		break;
	case OP_WHEN:
		tc_val_usable(k, o->u.when.cond);
		break;
	case OP_VAR_SET:
	case OP_VAR_GET:
		use_var(k, o->u.var.var);
		if (o->kind == OP_VAR_GET)
			break;
		/* fallthrough */
	case OP_VAR_NEW:
		tc_val_usable(k, o->u.var.value);
		tc_frag_usable(k, o->u.var.frag);
		break;
	case OP_LOAD_SCALAR:
		use_ref(k, o->u.load_scalar.ref);
		break;
	case OP_STORE_SCALAR:
	case OP_ATOMIC_SCALAR:
		use_ref(k, o->u.store_scalar.ref);
		tc_val_usable(k, o->u.store_scalar.value);
		break;
	case OP_COPY_GMEM_TO_SMEM:
	case OP_COPY_SMEM_TO_GMEM:
		tc_ref_usable(k, o->u.copy.src);
		tc_ref_usable(k, o->u.copy.dst);
		tc_barrier_usable(k, &o->u.copy.barrier);
		break;
	case OP_MMA:
		use_mma(k, &o->u.mma);
		break;
	case OP_BARRIER_ARRIVE:
	case OP_COMMIT_ARRIVE:
		tc_barrier_usable(k, &o->u.arrive.barrier);
		break;
	case OP_BARRIER_WAIT:
		tc_barrier_usable(k, &o->u.wait.barrier);
		tc_val_usable(k, o->u.wait.parity);
		break;
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		use_ref(k, o->u.tmem_copy.src);
		use_ref(k, o->u.tmem_copy.dst);
		break;
	case OP_ASYNC_LOAD_TMEM:
	case OP_LOAD:
		use_ref(k, o->u.load.ref);
		break;
	case OP_ASYNC_STORE_TMEM:
	case OP_STORE:
	case OP_ATOMIC:
		use_ref(k, o->u.store.ref);
		tc_barrier_usable(k, &o->u.store.barrier);
		tc_frag_usable(k, o->u.store.value);
		break;
	case OP_FRAG_ELEMENTWISE:
		for (int i = 0; i < 3; i++)
			tc_frag_usable(k, o->u.elementwise.arg[i]);
		break;
	case OP_FRAG_CAST:
		tc_frag_usable(k, o->u.cast.arg);
		break;
	case OP_FRAG_FULL:
		tc_val_usable(k, o->u.full.value);
		break;
	case OP_FRAG_BROADCAST:
		tc_frag_usable(k, o->u.broadcast.arg);
		break;
	case OP_FRAG_REDUCE:
		tc_frag_usable(k, o->u.reduce.arg);
		break;
	case OP_PRINT:
		use_print(k, &o->u.print);
		break;
	case OP_ASSERT:
		tc_val_usable(k, o->u.assertion.cond);
		break;
	case OP_TRY_CLUSTER_CANCEL:
		use_ref(k, o->u.try_cancel.result);
		tc_barrier_usable(k, &o->u.try_cancel.barrier);
		break;
	case OP_SEMAPHORE_SIGNAL:
	case OP_SEMAPHORE_WAIT:
		use_ref(k, o->u.semaphore.ref);
		tc_val_usable(k, o->u.semaphore.value);
		break;
	case OP_SEMAPHORE_SIGNAL_PARALLEL:
		for (int i = 0; i < o->u.signals.count; i++) {
			use_ref(k, o->u.signals.ref[i]);
			tc_val_usable(k, o->u.signals.value[i]);
		}
		break;
	case OP_ASYNC_PREFETCH:
		tc_ref_usable(k, o->u.prefetch.ref);
		break;
	case OP_QUERY_CLUSTER_CANCEL:
		use_ref(k, o->u.query_cancel.result);
		break;
	default:
		break;
	}
}

/* ---- legality ------------------------------------------------------------ */

/* docs/semantics.md 2: whose is the var? */
static void check_var_owner(struct kern *k, const struct var *v, bool set)
{
	const struct role *here = k->current->role;
	const char *verb = set ? "set" : "read";
	uint32_t others = v->read_by & ~(here ? 2u << here->id : 1u);

	if (v->owner && v->owner != here)
		tc_fail(&k->err,
			"the tc.var made at %s belongs to role '%s', which sets it; it is %s in "
			"%s%s%s.\nEach role has its own copy: pass values between roles through "
			"shared memory.",
			tc_pos_text(k, v->pos), v->owner->name, verb,
			here ? "role '" : "shared code", here ? here->name : "", here ? "'" : "");
	if (set && here && v->set_in_shared)
		tc_fail(&k->err,
			"the tc.var made at %s is set in shared code, hence nowhere else; it is "
			"set "
			"in role '%s'",
			tc_pos_text(k, v->pos), here->name);
	if (set && here && others)
		tc_fail(&k->err,
			"the tc.var made at %s is read by %s; a var that role '%s' sets belongs to "
			"that role alone",
			tc_pos_text(k, v->pos), others & 1 ? "shared code" : "another role",
			here->name);
}

static void check_var_value(struct kern *k, const struct var_op *o)
{
	static const char *const name[] = {"an s32 scalar", "an f32 scalar", "a predicate"};
	const struct var *v = o->var;

	if (!v->frag != !o->frag)
		tc_fail(&k->err, "the tc.var made at %s holds %s, got %s", tc_pos_text(k, v->pos),
			v->frag ? "a fragment" : name[v->type],
			o->frag ? "a fragment" : name[o->value->type]);
	if (!v->frag) {
		if (v->type != o->value->type)
			tc_fail(&k->err, "the tc.var made at %s holds %s, got %s",
				tc_pos_text(k, v->pos), name[v->type], name[o->value->type]);
		return;
	}
	if (v->frag->dtype != o->frag->dtype || v->frag->rank != o->frag->rank ||
	    memcmp(v->frag->shape, o->frag->shape, (size_t)v->frag->rank * sizeof(int)) != 0)
		tc_fail(&k->err, "the tc.var made at %s holds a fragment %s, got %s",
			tc_pos_text(k, v->pos), tc_frag_text(k, v->frag), tc_frag_text(k, o->frag));
}

/* A scalar is an element: every axis indexed by an integer. */
static void check_scalar_access(struct kern *k, const struct ref *r, bool stores)
{
	const struct dtype_info *d = &tc_dtypes[r->alloc->dtype];
	const char *verb = stores ? "stored" : "loaded";

	if (r->alloc->space == SP_TMEM)
		tc_fail(&k->err,
			"one element of TMEM cannot be %s: use tc.async_load_tmem or "
			"tc.async_store_tmem on whole rows",
			verb);
	if (d->bits > 32 || (d->bits < 16 && d->klass == 'F') || d->bits < 4)
		tc_fail(&k->err, "a single %s cannot be %s: a recorded scalar is an s32 or an f32",
			d->name, verb);
	if (d->bits == 4 && r->alloc->rank > 1 &&
	    (r->alloc->shape[r->alloc->rank - 1].size & 1 ||
	     r->alloc->shape[r->alloc->rank - 1].size < 0))
		tc_fail(&k->err,
			"a single %s cannot be %s: rows of its array are no whole bytes, unless "
			"the last dimension is an even number\n%s",
			d->name, verb, tc_ref_text(k, r));
	if (d->bits == 4 && stores)
		tc_fail(&k->err,
			"a single %s cannot be %s: it shares its byte with a neighbour; store a "
			"fragment of an even number of them",
			d->name, verb);
}

static void check_stop(struct kern *k, struct stop_op *s)
{
	const struct scope *scope = k->current;

	while (scope->kind == SC_THEN || scope->kind == SC_ELSE)
		scope = scope->parent;
	if (scope->kind == SC_LOOP) {
		s->loop = scope->owner;
		return;
	}
	for (const struct scope *outer = scope; outer; outer = outer->parent)
		if (outer->kind == SC_LOOP)
			tc_fail(&k->err,
				"tc.stop cannot leave the tc.loop at %s from inside the %s at %s: "
				"set a tc.var there and stop on it in the loop itself",
				tc_pos_text(k, outer->owner->pos),
				scope->kind == SC_ROLE ? "role block" : "tc.range",
				tc_pos_text(k, scope->owner->pos));
	tc_fail(&k->err, "tc.stop outside a tc.loop");
}

static void check_legality(struct kern *k, struct op *o)
{
	switch (o->kind) {
	case OP_STOP:
		check_stop(k, &o->u.stop);
		break;
	case OP_VAR_NEW:
		break;
	case OP_VAR_SET:
		check_var_value(k, &o->u.var);
		/* fallthrough */
	case OP_VAR_GET:
		check_var_owner(k, o->u.var.var, o->kind == OP_VAR_SET);
		break;
	case OP_LOAD_SCALAR:
		check_scalar_access(k, o->u.load_scalar.ref, false);
		tc_check_own(k, o->u.load_scalar.ref);
		break;
	case OP_STORE_SCALAR:
		check_scalar_access(k, o->u.store_scalar.ref, true);
		break;
	case OP_ATOMIC:
		tc_check_atomic(k, &o->u.store);
		break;
	case OP_ATOMIC_SCALAR:
		tc_check_atomic_scalar(k, &o->u.store_scalar);
		break;
	case OP_COPY_GMEM_TO_SMEM:
		tc_check_copy_gmem_to_smem(k, &o->u.copy);
		break;
	case OP_COPY_SMEM_TO_GMEM:
		tc_check_copy_smem_to_gmem(k, &o->u.copy);
		break;
	case OP_MMA:
		tc_check_mma(k, &o->u.mma);
		tc_check_own(k, o->u.mma.a);
		tc_check_own(k, o->u.mma.b);
		break;
	case OP_BARRIER_ARRIVE:
		tc_check_arrive(k, &o->u.arrive);
		break;
	case OP_COMMIT_ARRIVE:
		tc_check_commit_arrive(k, &o->u.arrive);
		break;
	case OP_BARRIER_WAIT:
		tc_check_wait(k, &o->u.wait);
		break;
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		tc_check_own(k, o->u.tmem_copy.src);
		tc_check_tmem_copy(k, o->kind, &o->u.tmem_copy);
		break;
	case OP_ASYNC_LOAD_TMEM:
		tc_check_async_load_tmem(k, &o->u.load);
		break;
	case OP_ASYNC_STORE_TMEM:
		tc_check_async_store_tmem(k, &o->u.store);
		break;
	case OP_LOAD:
		tc_check_load(k, &o->u.load);
		tc_check_own(k, o->u.load.ref);
		break;
	case OP_STORE:
		tc_check_store(k, &o->u.store);
		break;
	case OP_SEMAPHORE_SIGNAL:
	case OP_SEMAPHORE_WAIT:
		tc_check_semaphore(k, o->u.semaphore.ref, o->u.semaphore.value, tc_op_name(o));
		break;
	case OP_SEMAPHORE_SIGNAL_PARALLEL:
		for (int i = 0; i < o->u.signals.count; i++)
			tc_check_semaphore(k, o->u.signals.ref[i], o->u.signals.value[i],
					   tc_op_name(o));
		break;
	case OP_ASYNC_PREFETCH:
		tc_check_prefetch(k, &o->u.prefetch);
		break;
	case OP_TRY_CLUSTER_CANCEL:
		tc_check_try_cancel(k, &o->u.try_cancel);
		break;
	case OP_QUERY_CLUSTER_CANCEL:
		tc_check_query_cancel(k, &o->u.query_cancel);
		break;
	default:
		break;
	}
}

/* ---- place --------------------------------------------------------------- */

static bool works_on_tiles(enum op_kind kind)
{
	return kind == OP_ASYNC_LOAD_TMEM || kind == OP_ASYNC_STORE_TMEM || kind == OP_LOAD ||
	       kind == OP_STORE || kind == OP_ATOMIC ||
	       (kind >= OP_FRAG_ELEMENTWISE && kind <= OP_FRAG_REDUCE);
}

static bool is_shared_op(const struct op *o)
{
	if (o->kind == OP_LOAD_SCALAR)
		return o->u.load_scalar.ref->alloc->space == SP_GMEM;
	if (o->kind == OP_VAR_NEW)
		return !o->u.var.frag;
	return places[o->kind] == 'S';
}

static const char *list_roles(struct kern *k)
{
	struct strbuf b = {.arena = &k->arena};
	const char *text;

	for (int i = 0; i < k->roles.count; i++)
		tc_printf(&b, "%s'%s'", i ? ", " : "", ((struct role *)k->roles.item[i])->name);
	text = tc_arena_strdup(&k->arena, b.text);
	tc_strbuf_free(&b);
	return text;
}

_Noreturn static void refuse_warps(struct kern *k, const struct op *o, const struct role *role)
{
	const char *why = tc_arena_printf(
		&k->arena, "'%s' needs a role of whole warpgroups; role '%s' (%s) has %d warp%s.",
		tc_op_name(o), role->name, tc_pos_text(k, role->pos), role->warps,
		role->warps == 1 ? "" : "s");

	if (o->kind == OP_LOAD)
		tc_documented(&k->err, LOAD_IN_WARP, tc_join(k, "\n  ", why));
	if (o->kind == OP_STORE)
		tc_documented(&k->err, STORE_IN_WARP, tc_join(k, "\n  ", why));
	tc_fail(&k->err, "%s\nMake it tc.role{ name = \"%s\", warpgroups = 1 }.", why, role->name);
}

/* True when the op makes the kernel role-less. */
static bool check_place(struct kern *k, const struct op *o)
{
	const struct role *role = k->current->role;

	if (role && works_on_tiles(o->kind) && !role->warpgroups)
		refuse_warps(k, o, role);
	if (role || is_shared_op(o))
		return false;
	if (k->roles.count && !k->implicit_role)
		tc_fail(&k->err,
			"'%s' stands outside every role block, in a kernel with roles (%s).\n"
			"Shared code holds scalars, control flow, allocations, views, scalar loads "
			"of GMEM and role blocks; put this operation into a role.",
			tc_op_name(o), list_roles(k));
	return !k->roleless_op;
}

void tc_check_place(struct kern *k, const struct op *draft)
{
	check_place(k, draft);
}

static void make_roleless(struct kern *k, struct op *o)
{
	struct role role = {.name = "main", .warps = 4, .warpgroups = true, .implicit = true};

	role.pos = o->pos;
	if (!k->implicit_role)
		k->implicit_role = tc_kern_add_role(k, &role);
	k->roleless_op = o;
}

/* ---- results ------------------------------------------------------------- */

static struct frag *result_frag(const struct op *o)
{
	switch (o->kind) {
	case OP_VAR_GET:
		return o->u.var.frag;
	case OP_ASYNC_LOAD_TMEM:
	case OP_LOAD:
		return o->u.load.result;
	case OP_FRAG_ELEMENTWISE:
		return o->u.elementwise.result;
	case OP_FRAG_CAST:
		return o->u.cast.result;
	case OP_FRAG_FULL:
		return o->u.full.result;
	case OP_FRAG_IOTA:
		return o->u.iota.result;
	case OP_FRAG_BROADCAST:
		return o->u.broadcast.result;
	case OP_FRAG_REDUCE:
		return o->u.reduce.result;
	default:
		return NULL;
	}
}

/* The i-th scalar that an op defines; NULL behind the last. */
static struct val *result_val(const struct op *o, int i)
{
	const struct query_cancel_op *q = &o->u.query_cancel;

	if (o->kind == OP_QUERY_CLUSTER_CANCEL)
		return i < q->count ? q->index[i] : i == q->count ? q->success : NULL;
	if (i > 0)
		return NULL;
	if (o->kind == OP_VAR_GET)
		return o->u.var.value;
	if (o->kind == OP_ATOMIC_SCALAR)
		return o->u.store_scalar.result;
	return o->kind == OP_LOAD_SCALAR ? o->u.load_scalar.result : NULL;
}

/* At most 128 registers a thread (docs/semantics.md 7). */
static void check_registers(struct kern *k, const struct frag *f)
{
	const struct role *role = k->current->role;
	int threads = 32 * (role ? role->warps : 4), bits = tc_dtypes[f->dtype].bits;
	int64_t elements = 1;

	for (int i = 0; i < f->rank; i++)
		elements *= f->shape[i];
	if (f->rank == 2 && elements * bits > INT64_C(128) * 32 * threads)
		tc_fail(&k->err,
			"a fragment %s takes %lld registers in each of the %d threads of role "
			"'%s'; "
			"at most 128.\nWork on column slices, or give the role more warpgroups.",
			tc_frag_text(k, f), (long long)(elements * bits / 32 / threads), threads,
			role ? role->name : "main");
}

static void complete_results(struct kern *k, struct op *o)
{
	struct frag *f = result_frag(o);
	struct val *v;

	if (f) {
		f->id = k->frag_count++;
		f->home = k->current;
		f->role = tc_kern_role(k);
		f->def = o;
	}
	for (int i = 0; (v = result_val(o, i)); i++) {
		v->home = k->current;
		v->def = o;
	}
}

/* What an op changes outside the scope tree; kern.c derives the same from the tree. */
static void note_effects(struct kern *k, struct op *o)
{
	struct role *role = k->current->role;

	if (o->kind == OP_VAR_SET) {
		o->u.var.var->owner = role;
		o->u.var.var->set_in_shared = !role;
	} else if (o->kind == OP_VAR_GET) {
		o->u.var.var->read_by |= role ? 2u << role->id : 1u;
	} else if (o->kind == OP_SET_MAX_REGISTERS) {
		tc_kern_role(k)->max_registers = o->u.registers.count;
	}
}

struct op *tc_kern_record(struct kern *k, const struct op *draft)
{
	struct op checked = *draft, *o;
	bool roleless;

	if (k->finished)
		tc_fail(&k->err, "the recording of kernel '%s' is finished", k->name);
	use_operands(k, &checked);
	check_legality(k, &checked);
	roleless = check_place(k, &checked);
	if (result_frag(&checked))
		check_registers(k, result_frag(&checked));
	o = tc_kern_append(k, checked.kind);
	o->u = checked.u;
	if (roleless)
		make_roleless(k, o);
	complete_results(k, o);
	note_effects(k, o);
	return o;
}

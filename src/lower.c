/*
 * From the scope tree to machine instructions: the kernel's frame, the roles one
 * after the other, and what every lowering function needs.
 */
#include <stdio.h>
#include <string.h>

#include "classes.h"

_Noreturn void tc_low_fail(struct low *l, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tc_fail_at(l->c->err, l->op ? l->op->pos : l->c->kern->pos, "%s", text);
}

void tc_lower_unsupported(struct low *l, const struct op *op)
{
	tc_low_fail(l, "%s is not supported on %s yet", tc_op_name(op), l->c->target->name);
}

void tc_lower_nothing(struct low *l, const struct op *op)
{
	(void)l;
	(void)op;
}

/* ---- who runs the code ----------------------------------------------------------------- */

static void open_region(struct low *l, struct mreg who)
{
	if (l->in_leader && l->issuing.id == who.id)
		return;
	tc_low_all(l);
	tc_low_open(l, true);
	l->leader_end = mi_new_label(l);
	mi_unless(l, who, "bra", LABEL(l->leader_end));
	l->in_leader = true;
	l->issuing = who;
}

void tc_low_leader(struct low *l)
{
	open_region(l, l->leader);
}

void tc_low_first_leader(struct low *l)
{
	open_region(l, l->first_leader);
}

void tc_low_pair_leader(struct low *l, int axis)
{
	if (axis >= 0 && !l->pair_leader.id) {
		struct mreg first = tc_low_is_first_cta(l, 1u << axis);
		struct low_place back = tc_low_at_entry(l);

		l->pair_leader = mi_named(l, MR_PRED, "pair_leader_%s", l->role->name);
		mi(l, "and.pred", R(l->pair_leader), R(l->leader), R(first));
		tc_low_return(l, back);
	}
	open_region(l, axis >= 0 ? l->pair_leader : l->leader);
}

void tc_low_all(struct low *l)
{
	const struct op *op = l->op;

	if (!l->in_leader)
		return;
	l->op = NULL;
	tc_low_close(l);
	mi_label(l, l->leader_end);
	mi(l, "bar.warp.sync", T("0xffffffff"));
	l->in_leader = false;
	l->op = op;
}

/* Predicate: this thread is of clone i. */
static struct mreg is_clone(struct low *l, int i)
{
	struct mreg *p = &l->is_clone[i];

	if (!p->id) {
		struct low_place back = tc_low_at_entry(l);

		*p = mi_named(l, MR_PRED, "clone%d_%s", i, l->role->name);
		mi(l, "setp.eq.u32", R(*p), R(l->clone), I(i));
		tc_low_return(l, back);
	}
	return *p;
}

void tc_low_role_barrier(struct low *l)
{
	const struct role_plan *r = l->role;

	tc_low_all(l);
	if (r->class && r->class->mixes_rows) {
		tc_low_class_barrier(l);
	} else if (!r->named_barrier) {
		mi(l, "bar.warp.sync", T("0xffffffff"));
	} else if (r->clones == 1) {
		tc_low_class_barrier(l);
	} else {
		/* Immediate numbers: one in a register would make the block hold all sixteen. */
		for (int i = 0; i < r->clones; i++)
			mi_if(l, is_clone(l, i), "bar.sync", I(r->named_barrier + i),
			      I(r->threads));
	}
}

void tc_low_class_barrier(struct low *l)
{
	const struct role_plan *r = l->role;

	tc_low_all(l);
	if (r->class_barrier)
		mi(l, "bar.sync", I(r->class_barrier), I(r->threads * r->clones));
	else
		mi(l, "bar.warp.sync", T("0xffffffff"));
	tc_low_phases_seen(l);
}

void tc_low_wait_ld(struct low *l)
{
	if (!l->pending_ld)
		return;
	tc_low_all(l);
	mi_plain(l, "tcgen05.wait::ld.sync.aligned");
	l->pending_ld = false;
	l->ld_epoch++;
}

void tc_low_wait_st(struct low *l)
{
	if (!l->pending_st)
		return;
	tc_low_all(l);
	mi_plain(l, "tcgen05.wait::st.sync.aligned");
	l->pending_st = false;
}

void tc_low_join(struct low *l)
{
	tc_low_all(l);
	tc_low_wait_ld(l);
	tc_low_wait_st(l);
}

/* ---- threads -------------------------------------------------------------------------------- */

static struct mreg in_role(struct low *l, struct mreg *cached, const char *name, struct mreg whole,
			   int first)
{
	if (!first)
		return whole;
	if (!cached->id) {
		struct low_place back = tc_low_at_entry(l);

		*cached = mi_named(l, MR_B32, "%s_%s", name, l->role->name);
		mi(l, "sub.u32", R(*cached), R(whole), I(first));
		tc_low_return(l, back);
	}
	return *cached;
}

struct mreg tc_low_thread(struct low *l)
{
	return in_role(l, &l->thread, "thread", l->c->thread, 32 * l->role->first_warp);
}

struct mreg tc_low_lane(struct low *l)
{
	return l->c->lane;
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* The comment comes with the op's first instruction that stands here. */
static void comment(struct low *l, const struct op *op)
{
	const char *name = tc_op_name(op);

	mi_flush_comment(l);
	if (op->kind == OP_ROLE)
		name = tc_arena_printf(l->arena, "role %s", op->u.role.role->name);
	if (op->pos.file)
		l->comment = tc_arena_printf(l->arena, "%s:%d %s", tc_base_name(op->pos.file),
					     op->pos.line, name);
	else
		l->comment = name;
	l->comment_op = op;
}

void tc_low_ops(struct low *l, const struct scope *s)
{
	l->profile_computing = false;
	for (const struct op *op = s->first; op; op = op->next) {
		if (!l->role->op_kept[op->id])
			continue;
		l->op = op;
		comment(l, op);
		tc_low_bounds(l, op);
		tc_low_profile_op(l, op, false);
		l->c->target->ops->lower[op->kind](l, op);
		tc_low_profile_op(l, op, true);
	}
	l->profile_computing = false;
	mi_flush_comment(l);
	l->op = s->owner;
}

/* ---- one role
 * ------------------------------------------------------------------------------------ */

static void make_phases(struct low *l)
{
	const struct kern *k = l->c->kern;
	int barriers = k->barriers.count;

	for (int i = 0; i < barriers * k->roles.count; i++) {
		const struct role *r = k->roles.item[i / barriers];

		if (!l->role->waits[i])
			continue;
		l->phases[i] =
			mi_named(l, MR_B32, "phase_%s_%s",
				 l->role->class ? tc_ptx_identifier(l, r->name) : l->role->name,
				 l->c->barriers[i % barriers].name);
		mi(l, "mov.b32", R(l->phases[i]), I(0));
	}
}

/* A class: its leader so far is that of the first clone. */
static void find_clone(struct low *l)
{
	const struct role_plan *r = l->role;
	struct mreg in_clone = mi_b32(l);

	l->clone = mi_named(l, MR_B32, "clone_%s", r->name);
	if (r->first_warp) {
		mi(l, "sub.u32", R(in_clone), R(l->c->warp), I(r->first_warp));
		mi(l, "shr.u32", R(l->clone), R(in_clone), I(2));
	} else {
		mi(l, "shr.u32", R(l->clone), R(l->c->warp), I(2));
	}
	l->leader = mi_named(l, MR_PRED, "leader_of_clone_%s", r->name);
	mi(l, "and.b32", R(in_clone), R(l->c->warp), I(3));
	mi(l, "setp.eq.and.u32", R(l->leader), R(in_clone), I(0), R(l->elected));
}

static void role_entry(struct low *l, int next)
{
	struct role_plan *r = l->role;
	int last = r->first_warp + r->warps * r->clones;

	mi_raw(l, "");
	if (r->warps == 1)
		mi_comment(l, "role %s: warp %d", r->name, r->first_warp);
	else if (r->clones > 1)
		mi_comment(l, "class %s: warps %d-%d, a warpgroup for each 64 rows", r->name,
			   r->first_warp, last - 1);
	else
		mi_comment(l, "role %s: warps %d-%d", r->name, r->first_warp, last - 1);
	if (last < l->c->warps) {
		struct mreg p = mi_pred(l);

		mi(l, "setp.ge.u32", R(p), R(l->c->warp), I(last));
		mi_if(l, p, "bra", LABEL(next));
	}
	tc_low_role_registers(l);
	l->elected = mi_named(l, MR_PRED, "elected_%s", r->name);
	mi(l, "elect.sync", mo_elect(l->elected), T("0xffffffff"));
	l->leader = l->elected;
	if (r->warps > 1) {
		l->leader = mi_named(l, MR_PRED, "leader_%s", r->name);
		mi(l, "setp.eq.and.u32", R(l->leader), R(l->c->warp), I(r->first_warp),
		   R(l->elected));
	}
	l->first_leader = l->leader;
	if (r->clones > 1)
		find_clone(l);
	make_phases(l);
	tc_low_profile_start(l);
	if (l->c->target->ops->role_start)
		l->c->target->ops->role_start(l);
	l->entry_at = l->at;
	mi_place(l);
}

static void role_end(struct low *l)
{
	tc_low_join(l);
	l->op = NULL;
	if (l->c->target->ops->role_end)
		l->c->target->ops->role_end(l);
	if (l->bulk_groups) {
		mi_comment(l, "every bulk store has read its SMEM");
		tc_low_leader(l);
		mi(l, "cp.async.bulk.wait_group.read", I(0));
		tc_low_all(l);
	}
	tc_low_profile_end(l);
}

static void lower_role(struct low *kernel, struct role_plan *r, int done)
{
	const struct kern *k = kernel->c->kern;
	bool last = r->index == kernel->c->role_count - 1;
	int next = last ? done : mi_named_label(kernel, "after_%s", r->name);
	struct low l = {.c = kernel->c, .arena = kernel->arena, .role = r, .at = kernel->at};

	tc_low_start(&l);
	l.phases = tc_arena_alloc(
		l.arena, sizeof(*l.phases) * (size_t)(k->barriers.count * k->roles.count + 1));
	tc_low_phases_start(&l);
	tc_low_issuer_registers(&l);
	role_entry(&l, next);
	tc_low_ops(&l, k->root);
	role_end(&l);
	if (!last) {
		mi(&l, "bra", LABEL(done));
		mi_label(&l, next);
	}
	kernel->at = l.at;
}

/* ---- the kernel
 * ------------------------------------------------------------------------------------ */

static void init_barriers(struct low *l, struct mreg first)
{
	const struct compilation *c = l->c;

	for (int i = 0; i < c->kern->barriers.count; i++) {
		const struct barrier_plan *b = &c->barriers[i];
		struct maddr a = {.sym = {SYM_BARRIER, b->barrier}};

		for (int j = 0; j < b->barrier->num_barriers && !b->elided; j++)
			mi_if(l, first, "mbarrier.init.shared::cta.b64", M(a, 8 * j),
			      I(b->init_count));
	}
	if (c->kern->barriers.count)
		mi_guard(mi_emit(l, "fence.mbarrier_init.release.cluster", NULL, 0), first, false);
}

/* Warp 0 makes barriers and TMEM ready; returns where the prefetches of tensor maps go. */
static struct minst **initialise(struct low *l, struct mreg *first)
{
	struct compilation *c = l->c;
	struct minst **prefetch;
	int ready = mi_named_label(l, "ready");
	struct mreg p = mi_pred(l);

	mi(l, "setp.ne.u32", R(p), R(c->warp), I(0));
	mi_if(l, p, "bra", LABEL(ready));
	*first = mi_named(l, MR_PRED, "first");
	mi(l, "elect.sync", mo_elect(*first), T("0xffffffff"));
	prefetch = l->at;
	mi_place(l);
	init_barriers(l, *first);
	if (c->target->ops->begin)
		c->target->ops->begin(l);
	mi_label(l, ready);
	if (c->uses_tmem)
		mi_plain(l, "tcgen05.fence::before_thread_sync");
	mi(l, "bar.sync", I(0));
	return prefetch;
}

/* Returns where the prefetches of tensor maps go; NULL: nowhere. */
static struct minst **prologue(struct low *l, struct mreg *first)
{
	struct compilation *c = l->c;
	struct minst **prefetch = NULL;

	c->thread = mi_named(l, MR_B32, "thread");
	c->warp = mi_named(l, MR_B32, "warp");
	c->lane = mi_named(l, MR_B32, "lane");
	c->smem = mi_named(l, MR_B32, "smem");
	mi(l, "mov.u32", R(c->thread), T("%tid.x"));
	mi(l, "shr.u32", R(c->warp), R(c->thread), I(5));
	/* The shuffle tells the assembler that the warp's number is uniform. */
	mi(l, "shfl.sync.idx.b32", R(c->warp), R(c->warp), I(0), I(31), T("0xffffffff"));
	mi(l, "and.b32", R(c->lane), R(c->thread), I(31));
	mi(l, "mov.u32", R(c->smem), T("smem"));
	c->kernel_at = l->at;
	mi_place(l);
	if (c->kern->barriers.count || c->uses_tmem)
		prefetch = initialise(l, first);
	tc_low_cluster_start(l);
	if (c->target->ops->begun)
		c->target->ops->begun(l);
	return prefetch;
}

static void prefetch_maps(struct low *l, struct minst **at, struct mreg first)
{
	struct minst **back = l->at;

	if (!at)
		return;
	l->at = at;
	for (int i = 0; i < l->c->params.count; i++) {
		const struct param_slot *s = l->c->params.item[i];

		if (s->param.kind == PARAM_TENSORMAP)
			mi_if(l, first, "prefetch.tensormap", M((struct maddr){.reg = s->reg}, 0));
	}
	l->at = back;
}

static int order_of(const struct param *p)
{
	if (p->kind == PARAM_PROFILE)
		return 3 * 10000;
	return p->kind == PARAM_DIM ? 2 * 10000 + p->arg
				    : 2 * p->arg + (p->kind == PARAM_TENSORMAP ? 1 : 0);
}

/* Arguments in their order, then named dimensions. */
static void sort_params(struct compilation *c)
{
	void **item = c->params.item;

	for (int i = 1; i < c->params.count; i++)
		for (int j = i; j > 0; j--) {
			void *before = item[j - 1];

			if (order_of(&((struct param_slot *)before)->param) <=
			    order_of(&((struct param_slot *)item[j])->param))
				break;
			item[j - 1] = item[j];
			item[j] = before;
		}
}

void tc_lower(struct compilation *c)
{
	struct low l = {.c = c, .arena = c->arena, .at = &c->first};
	struct minst **prefetch;
	struct mreg first = {.id = 0};
	int done;

	c->cta_group = 1;
	for (int i = 0; i < c->kern->allocs.count; i++) {
		const struct alloc *a = c->kern->allocs.item[i];

		if (a->space != SP_TMEM || !c->target->tmem_columns)
			continue;
		c->uses_tmem = true;
		c->cta_group = a->collective ? 2 : 1;
	}
	c->intervals =
		tc_arena_alloc(c->arena, sizeof(*c->intervals) * (size_t)(c->kern->val_count + 1));
	c->walked = tc_arena_alloc(c->arena, sizeof(*c->walked) * (size_t)(c->kern->val_count + 1));
	tc_low_start(&l);
	prefetch = prologue(&l, &first);
	done = mi_named_label(&l, "done");
	for (int i = 0; i < c->role_count; i++)
		lower_role(&l, &c->roles[i], done);
	mi_label(&l, done);
	l.op = NULL;
	if (c->target->ops->end)
		c->target->ops->end(&l);
	tc_low_cluster_end(&l);
	mi_plain(&l, "ret");
	sort_params(c);
	prefetch_maps(&l, prefetch, first);
}

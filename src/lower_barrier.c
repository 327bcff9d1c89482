/* mbarriers: phases (docs/semantics.md 5), arrivals (4) and what they order (6). */
#include "compile.h"

struct maddr tc_low_barrier_in(struct low *l, const struct barrier_ref *b, struct mreg smem)
{
	struct maddr a = {.reg = smem, .sym = {SYM_BARRIER, b->barrier}};
	struct mopnd index = tc_low_value(l, b->index);

	if (index.kind == MO_IMM)
		a.offset = 8 * index.imm;
	else
		a.reg = tc_low_add(l, tc_low_mul(l, index, 8), mo_reg(smem.id ? smem : l->c->smem))
				.reg;
	return a;
}

struct maddr tc_low_barrier(struct low *l, const struct barrier_ref *b)
{
	return tc_low_barrier_in(l, b, (struct mreg){.id = 0});
}

/* Parity that the wait awaits; the role's bit flips after it. */
static struct mopnd parity(struct low *l, const struct op *op, struct mopnd index)
{
	const struct wait_op *w = &op->u.wait;
	struct mreg phase, d;

	if (w->parity) {
		struct mopnd given = tc_low_value(l, w->parity);

		if (given.kind == MO_IMM)
			return mo_imm(given.imm & 1);
		d = mi_b32(l);
		mi(l, "and.b32", R(d), given, I(1));
		return mo_reg(d);
	}
	phase = l->phases[tc_phase_index(l->c, op)];
	if (w->barrier.barrier->num_barriers == 1)
		return mo_reg(phase);
	d = mi_b32(l);
	if (index.kind == MO_REG || index.imm) {
		mi(l, "shr.u32", R(d), R(phase), index);
		mi(l, "and.b32", R(d), R(d), I(1));
	} else {
		mi(l, "and.b32", R(d), R(phase), I(1));
	}
	return mo_reg(d);
}

static void flip(struct low *l, const struct op *op, struct mopnd index)
{
	struct mreg phase, bit;

	if (op->u.wait.parity)
		return;
	phase = l->phases[tc_phase_index(l->c, op)];
	if (index.kind == MO_IMM) {
		mi(l, "xor.b32", R(phase), R(phase), I((int64_t)(1u << (index.imm & 31))));
		return;
	}
	bit = mi_b32(l);
	mi(l, "shl.b32", R(bit), I(1), index);
	mi(l, "xor.b32", R(phase), R(phase), R(bit));
}

const char *tc_low_try_wait(const struct low *l, const struct barrier *b)
{
	return l->c->barriers[b->id].remote
		       ? "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64"
		       : "mbarrier.try_wait.parity.shared::cta.b64";
}

void tc_lower_wait(struct low *l, const struct op *op)
{
	const struct wait_op *w = &op->u.wait;
	int again = mi_new_label(l), ready = mi_new_label(l);
	struct mopnd index, awaited;
	struct maddr a;
	struct mreg p;

	tc_low_all(l);
	index = tc_low_value(l, w->barrier.index);
	a = tc_low_barrier(l, &w->barrier);
	awaited = parity(l, op, index);
	p = mi_pred(l);
	if (l->c->target->ops->before_spin)
		l->c->target->ops->before_spin(l, M(a, 0), awaited, ready);
	mi_label(l, again);
	mi(l, tc_low_try_wait(l, w->barrier.barrier), R(p), M(a, 0), awaited);
	mi_unless(l, p, "bra", LABEL(again));
	mi_label(l, ready);
	flip(l, op, index);
	tc_low_phases_waited(l, w->barrier.barrier);
	if (l->c->target->ops->after_wait)
		l->c->target->ops->after_wait(l);
}

void tc_low_arrive(struct low *l, struct mreg p, struct maddr a, struct mopnd count)
{
	struct minst *m;

	if (count.kind == MO_IMM && count.imm == 1)
		m = mi(l, "mbarrier.arrive.shared::cta.b64", T("_"), M(a, 0));
	else
		m = mi(l, "mbarrier.arrive.shared::cta.b64", T("_"), M(a, 0), count);
	if (p.id)
		mi_guard(m, p, false);
}

/* `who`: one lane of each warp that arrives; `warp`: all lanes of these warps, or no register. */
static void arrive_everywhere(struct low *l, const struct barrier_ref *b, struct mreg who,
			      struct mreg warp, int count)
{
	const struct barrier_plan *plan = &l->c->barriers[b->barrier->id];
	struct maddr a = tc_low_barrier(l, b);

	if (b->cluster_rank)
		tc_low_peer_arrive(l, b->cluster_rank, who, a, I(count));
	else if (b->barrier->cluster)
		tc_low_cluster_arrive(l, b->barrier, warp, a, I(count), !plan->mma_only_release);
	else
		tc_low_arrive(l, who, a, I(count));
}

void tc_low_arrive_on(struct low *l, const struct barrier_ref *b, int count)
{
	arrive_everywhere(l, b, l->elected, (struct mreg){.id = 0}, count);
}

static struct mreg first_warp(struct low *l)
{
	struct mreg p = mi_pred(l);

	mi(l, "setp.eq.u32", R(p), R(l->c->warp), I(l->role->first_warp));
	return p;
}

void tc_lower_arrive(struct low *l, const struct op *op)
{
	const struct arrive_op *o = &op->u.arrive;
	const struct barrier_plan *b = &l->c->barriers[o->barrier.barrier->id];
	int warps = l->role->warps * l->role->clones;

	tc_low_all(l);
	if (o->barrier.barrier->orders_tensor_core && l->c->target->ops->before_arrive)
		l->c->target->ops->before_arrive(l);
	if (b->unit == 1 && warps > 1) {
		tc_low_class_barrier(l);
		arrive_everywhere(l, &o->barrier, l->first_leader, first_warp(l), 1);
		return;
	}
	mi(l, "bar.warp.sync", T("0xffffffff"));
	tc_low_arrive_on(l, &o->barrier, b->unit / warps);
}

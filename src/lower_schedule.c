/*
 * Work between CTAs and kernels.
 *
 * Cluster launch control: a cluster that runs takes the place of one that has not started
 * (docs/isa.md 9).  Every CTA expects the 16 bytes of the response on its own barrier; the one of
 * rank 0 asks, for all of them.
 */
#include <stdio.h>

#include "compile.h"

static struct maddr response(struct low *l, const struct ref *r)
{
	struct smem_view v;
	struct mopnd offset;

	tc_low_smem_view(l, r, &v);
	offset = tc_low_mul(l, v.row, v.layout.row_bytes);
	return tc_low_smem_at(l, &v, offset);
}

void tc_lower_try_cluster_cancel(struct low *l, const struct op *op)
{
	const struct try_cancel_op *o = &op->u.try_cancel;
	struct maddr barrier, result;

	tc_low_phases_before(l, o->barrier.barrier);
	tc_low_first_leader(l);
	barrier = tc_low_barrier(l, &o->barrier);
	result = response(l, o->result);
	tc_low_expect_bytes(l, &o->barrier, 16, (struct mreg){.id = 0});
	if (tc_has_cluster(l->c->kern)) {
		struct mreg rank = mi_b32(l), asks = mi_pred(l);

		mi(l, "mov.u32", R(rank), T("%cluster_ctarank"));
		mi(l, "setp.eq.u32", R(asks), R(rank), I(0));
		mi_if(l, asks,
		      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::"
		      "bytes.multicast::cluster::all.b128",
		      M(result, 0), M(barrier, 0));
		return;
	}
	mi(l, "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128",
	   M(result, 0), M(barrier, 0));
}

/* Indices along the grid's axes from those of the cluster's first CTA, CUDA's x first. */
static void define_indices(struct low *l, const struct query_cancel_op *q, const struct mreg *ctaid)
{
	const struct kern *k = l->c->kern;

	for (int i = 0; i < q->count; i++) {
		int axis = q->axis[i], which = tc_grid_folded(k) ? 0 : k->grid_rank - 1 - axis;
		int64_t ctas =
			which < k->cluster_rank ? k->cluster[k->cluster_rank - 1 - which] : 1;
		struct mreg x = ctaid[which], d = mi_b32(l);

		if (ctas > 1) {
			mi(l, "div.u32", R(d), R(x), I(ctas));
			x = d;
			d = mi_b32(l);
		}
		if (tc_grid_folded(k))
			tc_low_unfold(l, axis, x, d);
		else
			d = x;
		tc_low_define(l, q->index[i], d);
	}
}

void tc_lower_query_cluster_cancel(struct low *l, const struct op *op)
{
	const struct query_cancel_op *q = &op->u.query_cancel;
	struct mreg success = mi_pred(l), ctaid[4];
	struct maddr a;

	tc_low_all(l);
	a = response(l, q->result);
	for (int i = 0; i < 4; i++) {
		ctaid[i] = mi_b32(l);
		mi(l, "mov.b32", R(ctaid[i]), I(0));
	}
	mi_raw(l, "{");
	mi_plain(l, ".reg .b128 response");
	mi(l, "ld.shared.b128", T("response"), M(a, 0));
	mi(l, "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", R(success), T("response"));
	mi_if(l, success, "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128",
	      V(ctaid, 4), T("response"));
	mi_raw(l, "}");
	/* The next response overwrites this one through the async proxy. */
	mi_plain(l, "fence.proxy.async.shared::cta");
	tc_low_define(l, q->success, success);
	define_indices(l, q, ctaid);
}

/* ---- a target without it: no cluster is ever taken over, so the grid runs as it was launched ----
 */

void tc_lower_no_cluster_cancel(struct low *l, const struct op *op)
{
	const struct barrier_ref *b = &op->u.try_cancel.barrier;

	tc_low_phases_before(l, b->barrier);
	tc_low_first_leader(l);
	tc_low_arrive(l, (struct mreg){.id = 0}, tc_low_barrier(l, b),
		      I(l->c->barriers[b->barrier->id].unit));
}

void tc_lower_no_cluster_query(struct low *l, const struct op *op)
{
	const struct query_cancel_op *q = &op->u.query_cancel;
	struct mreg zero = mi_b32(l), success = mi_pred(l);

	tc_low_all(l);
	mi(l, "mov.b32", R(zero), I(0));
	mi(l, "setp.ne.u32", R(success), R(zero), I(0));
	tc_low_define(l, q->success, success);
	for (int i = 0; i < q->count; i++)
		tc_low_define(l, q->index[i], zero);
}

/* ---- semaphores: counters in GMEM ------------------------------------------------------------ */

static const char *scoped(struct low *l, bool system, const char *format)
{
	char text[64];

	snprintf(text, sizeof(text), format, system ? "sys" : "gpu");
	return tc_arena_strdup(l->arena, text);
}

/* The barrier hands what the role's threads did to the leader, whose release is cumulative. */
void tc_lower_semaphore_signal(struct low *l, const struct op *op)
{
	const struct semaphore_op *o = &op->u.semaphore;
	struct maddr a;

	tc_low_class_barrier(l);
	tc_low_first_leader(l);
	a.reg = tc_low_gmem_address(l, o->ref);
	mi(l, scoped(l, o->system, "red.release.%s.global.add.u32"),
	   M((struct maddr){.reg = a.reg}, 0), tc_low_value(l, o->value));
	tc_low_all(l);
}

/* One fence releases what the role's threads did to all who are told. */
void tc_lower_semaphore_signals(struct low *l, const struct op *op)
{
	const struct signals_op *o = &op->u.signals;

	tc_low_class_barrier(l);
	tc_low_first_leader(l);
	mi_plain(l, scoped(l, o->system, "fence.acq_rel.%s"));
	for (int i = 0; i < o->count; i++) {
		struct maddr a = {.reg = tc_low_gmem_address(l, o->ref[i])};

		mi(l, scoped(l, o->system, "red.relaxed.%s.global.add.u32"), M(a, 0),
		   tc_low_value(l, o->value[i]));
	}
	tc_low_all(l);
}

/* The leader spins; the role passes the barrier behind it. */
void tc_lower_semaphore_wait(struct low *l, const struct op *op)
{
	const struct semaphore_op *o = &op->u.semaphore;
	int again = mi_new_label(l);
	struct mreg seen = mi_b32(l), p = mi_pred(l);
	struct mopnd value;
	struct maddr a = {.offset = 0};

	tc_low_first_leader(l);
	a.reg = tc_low_gmem_address(l, o->ref);
	value = tc_low_value(l, o->value);
	mi_label(l, again);
	mi(l, scoped(l, o->system, "ld.acquire.%s.global.b32"), R(seen), M(a, 0));
	mi(l, "setp.lt.s32", R(p), R(seen), value);
	mi_if(l, p, "bra", LABEL(again));
	if (o->decrement) {
		struct mreg rest = mi_b32(l), found = mi_b32(l);

		mi(l, "sub.s32", R(rest), R(seen), value);
		mi(l, scoped(l, o->system, "atom.acquire.%s.global.cas.b32"), R(found), M(a, 0),
		   R(seen), R(rest));
		mi(l, "setp.ne.b32", R(p), R(found), R(seen));
		mi_if(l, p, "bra", LABEL(again));
	}
	tc_low_all(l);
	tc_low_class_barrier(l);
}

/* ---- kernels that follow each other -----------------------------------------------------------
 */

void tc_lower_griddepcontrol(struct low *l, const struct op *op)
{
	bool wait = op->kind == OP_GRIDDEPCONTROL_WAIT;

	tc_low_all(l);
	mi_plain(l, wait ? "griddepcontrol.wait" : "griddepcontrol.launch_dependents");
	l->c->program->programmatic |= wait;
}

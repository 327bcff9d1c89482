/* tcgen05 beside the MMA: commit, copies to tensor memory, its fences and allocation (docs/isa.md
 * 1, 5). */
#include "compile.h"

/* One program runs all rows. */
static const struct mreg whole;

/* The instruction for one CTA, or for a pair: all of a kernel's are of one kind. */
static const char *opcode(struct low *l, const char *name, const char *tail)
{
	return tc_arena_printf(l->arena, "tcgen05.%s.cta_group::%d.%s", name, l->c->cta_group,
			       tail);
}

/* ---- commit ---------------------------------------------------------------------------------- */

void tc_low_tcgen05_commit(struct low *l, const struct barrier_ref *b, int axis)
{
	struct maddr a = tc_low_barrier(l, b);
	struct mreg mask = {.id = 0};

	if (b->cluster_rank)
		a = (struct maddr){.reg = tc_low_peer(l, tc_low_address(l, a), b->cluster_rank)};
	if (axis >= 0)
		mask = tc_low_multicast_mask(l, 1u << axis);
	else if (b->barrier->cluster)
		mask = tc_low_barrier_mask(l, b->barrier);
	if (mask.id)
		mi(l,
		   opcode(l, "commit",
			  "mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"),
		   M(a, 0), R(mask));
	else
		mi(l, opcode(l, "commit", "mbarrier::arrive::one.shared::cluster.b64"), M(a, 0));
}

void tc_lower_tcgen05_commit(struct low *l, const struct op *op)
{
	const struct arrive_op *o = &op->u.arrive;

	/* The leader arrives for every thread's loads and stores of TMEM. */
	if (l->pending_ld || l->pending_st) {
		tc_low_tcgen05_before_arrive(l);
		tc_low_role_barrier(l);
	}
	tc_low_phases_before(l, o->barrier.barrier);
	tc_low_pair_leader(l, o->collective_axis);
	tc_low_tcgen05_commit(l, &o->barrier, o->collective_axis);
}

/* ---- SMEM to TMEM -------------------------------------------------------------------------- */

/*
 * Row i goes to lane i; an instruction moves 32 bytes of each, 16 where rows have no more.  64 rows
 * go to lanes i + 64 as well, 16 bytes at a time.  Padded elements get a byte each.
 */
void tc_lower_tcgen05_copy(struct low *l, const struct op *op)
{
	const struct tmem_copy_op *o = &op->u.tmem_copy;
	struct smem_operand src;
	struct maddr dst;
	bool twice = o->dst->alloc->layout == TML_M64_COLLECTIVE_A;
	const char *shape, *spread = "";
	int64_t bytes, unit;

	if (o->dst->alloc->padded)
		spread = tc_dtypes[o->dst->alloc->dtype].bits == 4 ? ".b8x16.b4x16_p64"
								   : ".b8x16.b6x16_p32";
	tc_low_pair_leader(l, o->collective_axis);
	dst = tc_low_tmem_view(l, o->dst);
	tc_low_smem_operand(l, &src, o->src, 1, whole);
	bytes = o->src->extent[o->src->alloc->rank - 1].size * src.layout.bits / 8;
	unit = src.layout.swizzle && !twice ? 32 : 16;
	shape = tc_arena_printf(l->arena, "%s%s",
				twice        ? "64x128b.warpx2::02_13"
				: unit == 32 ? "128x256b"
					     : "128x128b",
				spread);
	for (int64_t at = 0; at < bytes; at += unit) {
		int64_t column = at * 8 / src.layout.bits;

		mi(l, opcode(l, "cp", shape), M(dst, at / 4),
		   R(tc_low_operand_at(l, &src, 0, column)));
	}
}

/* Tiles in SMEM, the last two axes, from one index of a dimension of the view to the next. */
static int64_t tile_stride(const struct ref *r, int dimension)
{
	int64_t stride = 1;

	for (int i = r->axis[dimension] + 1; i < r->alloc->rank - 2; i++)
		stride *= r->alloc->shape[i].size;
	return stride;
}

/*
 * A tile of SMEM has the factors of 128 rows and four blocks along K (docs/isa.md 6.2, 6.3): a line
 * of 16 bytes for each of 32 lanes, which go to four columns of all four windows.  For a pair with
 * M = 128 it has 64 lines: half of them for two windows, half for the others.
 */
void tc_lower_tcgen05_copy_scales(struct low *l, const struct op *op)
{
	const struct tmem_copy_op *o = &op->u.tmem_copy;
	bool halves = o->dst->alloc->layout == TML_B_SCALES_M64_COLLECTIVE;
	const char *shape = halves ? "64x128b.warpx2::01_23" : "32x128b.warpx4";
	int64_t lines = o->src->shape[2].size;
	int64_t group = tc_tmem_columns(o->dst->alloc, o->dst->shape[0].size, 4);
	struct smem_operand src;
	struct maddr dst;

	tc_low_pair_leader(l, o->collective_axis);
	dst = tc_low_tmem_view(l, o->dst);
	tc_low_smem_operand(l, &src, o->src, 3, whole);
	for (int64_t i = 0; i < o->src->shape[0].size; i++)
		for (int64_t j = 0; j < o->src->shape[1].size; j++) {
			int64_t tile = i * tile_stride(o->src, 0) + j * tile_stride(o->src, 1);

			mi(l, opcode(l, "cp", shape), M(dst, 4 * i + group * j),
			   R(tc_low_operand_at(l, &src, tile * lines, 0)));
		}
}

/* A tile of SMEM has the 16 bytes that a lane gets, row by row: four columns. */
void tc_lower_tcgen05_copy_metadata(struct low *l, const struct op *op)
{
	const struct tmem_copy_op *o = &op->u.tmem_copy;
	int64_t tiles = o->src->shape[1].size, lanes = o->src->shape[2].size;
	struct smem_operand src;
	struct maddr dst;

	tc_low_pair_leader(l, o->collective_axis);
	dst = tc_low_tmem_view(l, o->dst);
	tc_low_smem_operand(l, &src, o->src, 3, whole);
	for (int64_t i = 0; i < tiles; i++)
		mi(l, opcode(l, "cp", "128x128b"), M(dst, 4 * i),
		   R(tc_low_operand_at(l, &src, i * lanes, 0)));
}

/* ---- order of tensor memory accesses --------------------------------------------------------- */

/* All threads have done what they did to TMEM; what follows in the role sees it. */
static void settle(struct low *l)
{
	mi_plain(l, "tcgen05.fence::before_thread_sync");
	tc_low_role_barrier(l);
	mi_plain(l, "tcgen05.fence::after_thread_sync");
}

void tc_low_tcgen05_meet(struct low *l)
{
	tc_low_wait_ld(l);
	tc_low_wait_st(l);
	settle(l);
}

void tc_lower_wait_load_tmem(struct low *l, const struct op *op)
{
	(void)op;
	tc_low_all(l);
	tc_low_wait_ld(l);
	settle(l);
}

void tc_lower_commit_tmem(struct low *l, const struct op *op)
{
	(void)op;
	tc_low_all(l);
	tc_low_wait_st(l);
	settle(l);
}

void tc_low_tcgen05_after_wait(struct low *l)
{
	if (l->role->tensor_core)
		mi_plain(l, "tcgen05.fence::after_thread_sync");
}

void tc_low_tcgen05_before_arrive(struct low *l)
{
	tc_low_wait_ld(l);
	tc_low_wait_st(l);
	mi_plain(l, "tcgen05.fence::before_thread_sync");
}

/* ---- allocation: one for the kernel, by warp 0 --------------------------------------------------
 */

void tc_low_tcgen05_begin(struct low *l)
{
	struct compilation *c = l->c;
	struct maddr slot = {.sym = {SYM_TMEM_SLOT, NULL}};

	if (!c->uses_tmem)
		return;
	mi(l, "bar.warp.sync", T("0xffffffff"));
	mi(l, opcode(l, "alloc", "sync.aligned.shared::cta.b32"), M(slot, 0),
	   mo_offset((struct msym){SYM_TMEM_COLUMNS, NULL}, 0));
	mi_plain(l, opcode(l, "relinquish_alloc_permit", "sync.aligned"));
}

void tc_low_tcgen05_begun(struct low *l)
{
	struct maddr slot = {.sym = {SYM_TMEM_SLOT, NULL}};

	if (!l->c->uses_tmem)
		return;
	mi_plain(l, "tcgen05.fence::after_thread_sync");
	l->c->tmem = mi_named(l, MR_B32, "tmem");
	mi(l, "ld.shared.b32", R(l->c->tmem), M(slot, 0));
}

void tc_low_tcgen05_end(struct low *l)
{
	int gone;
	struct mreg p;

	if (!l->c->uses_tmem)
		return;
	gone = mi_named_label(l, "freed");
	p = mi_pred(l);
	mi_plain(l, "tcgen05.fence::before_thread_sync");
	if (l->c->cta_group == 2) {
		mi_comment(l,
			   "both CTAs are done with tensor memory and each other's shared memory");
		tc_low_cluster_barrier(l);
		mi(l, "bar.warp.sync", T("0xffffffff"));
	} else {
		mi(l, "bar.sync", I(0));
	}
	mi_plain(l, "tcgen05.fence::after_thread_sync");
	mi(l, "setp.ne.u32", R(p), R(l->c->warp), I(0));
	mi_if(l, p, "bra", LABEL(gone));
	mi(l, opcode(l, "dealloc", "sync.aligned.b32"), R(l->c->tmem),
	   mo_offset((struct msym){SYM_TMEM_COLUMNS, NULL}, 0));
	mi_label(l, gone);
}

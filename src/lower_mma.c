/*
 * tcgen05: MMA, commit, and the tensor memory's fences (docs/isa.md 2-5).
 * One instruction computes M x N x 16 (16-bit operands); K is walked by moving
 * the descriptors' start addresses, N above 256 by several accumulator slices.
 */
#include "compile.h"

/* One program runs all rows. */
static const struct mreg whole;

/* ---- MMA ---------------------------------------------------------------------------------- */

/* Kinds that are lowered; codes of the instruction descriptor (docs/isa.md 2.4). */
static const struct kind {
	enum dtype operand;
	const char *name;
	int code, k;
} kinds[] = {
	{DT_F16, "f16", 0, 16},
	{DT_BF16, "f16", 1, 16},
};

static const struct kind *kind_of(struct low *l, const struct mma_op *o)
{
	enum dtype a = o->a->alloc->dtype, b = o->b->alloc->dtype;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].operand == a && a == b)
			return &kinds[i];
	tc_low_fail(l,
		    "mma of %s and %s (%s) is not supported on %s yet.\n"
		    "There it takes float16 or bfloat16 operands; sm_90a takes float32 (as tf32), "
		    "float8_e4m3fn, float8_e5m2, int8 and uint8 too.",
		    tc_dtypes[a].name, tc_dtypes[b].name,
		    tc_dtypes[a].bits == 32     ? "kind::tf32"
		    : tc_dtypes[a].klass == 'F' ? "kind::f8f6f4"
						: "kind::i8",
		    l->c->target->name);
}

static uint32_t instruction_descriptor(const struct kind *k, enum dtype acc, int64_t m, int64_t n,
				       bool a_k_major, bool b_k_major)
{
	return (acc == DT_F32 ? 1u : 0u) << 4 | (uint32_t)k->code << 7 | (uint32_t)k->code << 10 |
	       (uint32_t)!a_k_major << 15 | (uint32_t)!b_k_major << 16 | (uint32_t)(n / 8) << 17 |
	       (uint32_t)(m / 16) << 24;
}

static void refuse_plain(struct low *l, const struct ref *r)
{
	if (r->alloc->space == SP_SMEM && !r->alloc->swizzle)
		tc_low_fail(l, "this mma needs operands with a swizzle of 32, 64 or 128 bytes; "
			       "the operand was allocated with swizzle = \"none\"");
}

static void refuse(struct low *l, const struct mma_op *o)
{
	refuse_plain(l, o->a);
	refuse_plain(l, o->b);
	if (o->collective_axis >= 0)
		tc_low_fail(l, "mma with collective_axis is not supported on %s yet",
			    l->c->target->name);
	if (o->a_scale || o->b_scale)
		tc_low_fail(l, "mma with scales is not supported on %s yet", l->c->target->name);
	if (o->a_sparse_metadata)
		tc_low_fail(l, "mma with a_sparse_metadata is not supported on %s yet",
			    l->c->target->name);
}

struct piece {
	int64_t n, width;
};

/* Widths along N: as few instructions as possible. */
static int cut(int64_t n, struct piece *piece)
{
	int count = 0;

	for (int64_t at = 0; at < n; at += piece[count++].width) {
		piece[count].n = at;
		piece[count].width = n - at < 256 ? n - at : 256;
	}
	return count;
}

static void commit(struct low *l, const struct barrier_ref *b)
{
	struct maddr a = tc_low_barrier(l, b);

	if (b->cluster_rank)
		a = (struct maddr){.reg = tc_low_peer(l, tc_low_address(l, a), b->cluster_rank)};
	if (b->barrier->cluster)
		mi(l,
		   "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::"
		   "cluster.b64",
		   M(a, 0), R(tc_low_barrier_mask(l, b->barrier)));
	else
		mi(l, "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
		   M(a, 0));
}

void tc_lower_tcgen05_mma(struct low *l, const struct op *op)
{
	const struct mma_op *o = &op->u.mma;
	const struct kind *kind = kind_of(l, o);
	int64_t m = o->acc->shape[0].size, n = o->acc->shape[1].size, k = o->a->shape[1].size;
	bool a_tmem = o->a->alloc->space == SP_TMEM;
	const char *opcode =
		tc_arena_printf(l->arena, "tcgen05.mma.cta_group::1.kind::%s", kind->name);
	struct maddr d, a_address = {.offset = 0};
	struct smem_operand a = {.k_major = true}, b;
	struct piece piece[8];
	struct mopnd enable;
	int pieces;

	refuse(l, o);
	if (n > 2048)
		tc_low_fail(l, "N = %lld is more than tensor memory has columns", (long long)n);
	if (o->barrier.barrier)
		tc_low_phases_before(l, o->barrier.barrier);
	tc_low_leader(l);
	enable = tc_low_accumulate(l, o);
	d = tc_low_tmem_view(l, o->acc);
	if (a_tmem)
		a_address = tc_low_tmem_view(l, o->a);
	else
		tc_low_smem_operand(l, &a, o->a, 1, whole);
	tc_low_smem_operand(l, &b, o->b, 0, whole);
	pieces = cut(n, piece);
	for (int64_t at = 0; at < k; at += kind->k) {
		struct mreg a_step = {.id = 0};

		if (!a_tmem)
			a_step = tc_low_operand_at(l, &a, 0, at);
		for (int i = 0; i < pieces; i++) {
			struct mreg b_step = tc_low_operand_at(l, &b, piece[i].n, at);
			uint32_t descriptor =
				instruction_descriptor(kind, o->acc->alloc->dtype, m,
						       piece[i].width, a.k_major, b.k_major);

			mi(l, opcode, M(d, piece[i].n),
			   a_tmem ? M(a_address, at * tc_dtypes[kind->operand].bits / 32)
				  : R(a_step),
			   R(b_step), mo_hex(descriptor), at ? mo_imm(1) : enable);
		}
	}
	if (o->barrier.barrier)
		commit(l, &o->barrier);
}

void tc_lower_tcgen05_commit(struct low *l, const struct op *op)
{
	const struct arrive_op *o = &op->u.arrive;

	if (o->collective_axis >= 0)
		tc_low_fail(l, "commit_arrive with collective_axis is not supported on %s yet",
			    l->c->target->name);
	/* The leader arrives for every thread's loads and stores of TMEM. */
	if (l->pending_ld || l->pending_st) {
		tc_low_tcgen05_before_arrive(l);
		tc_low_role_barrier(l);
	}
	tc_low_phases_before(l, o->barrier.barrier);
	tc_low_leader(l);
	commit(l, &o->barrier);
}

/* ---- SMEM to TMEM -------------------------------------------------------------------------- */

/* Row i goes to lane i; an instruction moves 32 bytes of each, 16 where rows have no more. */
void tc_lower_tcgen05_copy(struct low *l, const struct op *op)
{
	const struct tmem_copy_op *o = &op->u.tmem_copy;
	struct smem_operand src;
	struct maddr dst;
	int64_t bytes, unit;

	tc_low_leader(l);
	dst = tc_low_tmem_view(l, o->dst);
	tc_low_smem_operand(l, &src, o->src, 1, whole);
	bytes = o->src->extent[o->src->alloc->rank - 1].size * src.layout.bits / 8;
	unit = src.layout.swizzle ? 32 : 16;
	for (int64_t at = 0; at < bytes; at += unit) {
		int64_t column = at * 8 / src.layout.bits;

		mi(l,
		   unit == 32 ? "tcgen05.cp.cta_group::1.128x256b"
			      : "tcgen05.cp.cta_group::1.128x128b",
		   M(dst, at / 4), R(tc_low_operand_at(l, &src, 0, column)));
	}
}

/* ---- order of tensor memory accesses --------------------------------------------------------- */

/* All threads have done what they did to TMEM; the next mma of the role sees it. */
static void settle(struct low *l)
{
	mi_plain(l, "tcgen05.fence::before_thread_sync");
	tc_low_role_barrier(l);
	mi_plain(l, "tcgen05.fence::after_thread_sync");
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
	mi(l, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", M(slot, 0),
	   mo_offset((struct msym){SYM_TMEM_COLUMNS, NULL}, 0));
	mi_plain(l, "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned");
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
	mi(l, "bar.sync", I(0));
	mi_plain(l, "tcgen05.fence::after_thread_sync");
	mi(l, "setp.ne.u32", R(p), R(l->c->warp), I(0));
	mi_if(l, p, "bra", LABEL(gone));
	mi(l, "tcgen05.dealloc.cta_group::1.sync.aligned.b32", R(l->c->tmem),
	   mo_offset((struct msym){SYM_TMEM_COLUMNS, NULL}, 0));
	mi_label(l, gone);
}

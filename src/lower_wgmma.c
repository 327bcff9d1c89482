/*
 * wgmma: MMA whose accumulators are registers of the role's clones (docs/semantics.md 8,
 * docs/isa.md 7).  An mma is one commit group.  The arrival on its barrier is made
 * after the next one's commit, when wait_group 1 has seen the group complete, or
 * by a wait that would block, or where everything is waited for.
 */
#include <string.h>

#include "lower_wgmma.h"
#include "mma_shape.h"

enum {
	METADATA_ENTRIES = 32, /* for each register: of 64 rows a warpgroup holds as many */
	METADATA_LANE = 16     /* bytes of a row in a tile of SMEM */
};

/* ---- registers of tensor memory ------------------------------------------------------ */

static struct mreg *registers_of_tile(struct low *l, const struct ref *r)
{
	struct virtual_tmem *v = tc_class_tmem(l->role->class, r->alloc);
	int64_t slot = 0;

	for (int i = 0; i < r->alloc->rank - 2 && !v->slot; i++) {
		int64_t index = 0;

		tc_val_is_const(r->start[i], &index);
		slot = slot * r->alloc->shape[i].size + index;
	}
	if (!v->reg[slot]) {
		v->reg[slot] = tc_arena_alloc(l->arena, sizeof(struct mreg) * (size_t)v->words);
		for (int i = 0; i < v->words; i++)
			v->reg[slot][i] = mi_b32(l);
	}
	return v->reg[slot];
}

/* Registers of a view of tensor memory, in the order of the instruction. */
static struct mreg *registers_of(struct low *l, const struct ref *r)
{
	const struct alloc *a = r->alloc;
	int64_t column = 0;

	tc_val_is_const(r->start[a->rank - 1], &column);
	return registers_of_tile(l, r) + column * tc_dtypes[a->dtype].bits / 64;
}

void tc_low_wgmma_distribution(struct low *l, const struct ref *r, const struct role *role,
			       struct distribution *d)
{
	const struct alloc *a = r->alloc;
	int clones = tc_role_plan(l->c, role)->clones;

	tc_distribution_mma(d, (int)r->extent[a->rank - 1].size, 1,
			    tc_dtypes[a->dtype].bits == 8 ? 4 : 2);
	if (clones > 1)
		tc_distribution_cut_rows(d, clones);
}

/*
 * Register in which word i of a tile lies: the instruction goes through granules
 * of columns, in each through both rows; a value through a row, then the other.
 */
static int register_of_word(const struct frag_value *v, int i)
{
	int half = v->words / 2, row = i / half, column = i % half;

	if (tc_dtypes[v->dtype].bits == 32)
		return 4 * (column >> 1) + 2 * row + (column & 1);
	return 2 * column + row;
}

/* ---- deferred release ------------------------------------------------------------------- */

static uint8_t state(const struct low *l)
{
	const struct class_plan *class = l->role->class;

	return !class ? 0 : l->op ? class->state[l->op->id] : class->end_state;
}

static int arrivals_of_lane(const struct low *l, const struct barrier *b)
{
	return l->c->barriers[b->id].unit / (l->role->warps * l->role->clones);
}

/* The arrival that is due, by one lane of each warp. */
static void release(struct low *l)
{
	const struct class_plan *class = l->role->class;
	struct mopnd count = class->release_count ? I(class->release_count) : R(l->release_count);
	struct mreg due = mi_pred(l);
	struct maddr a = {.reg = l->release};

	if (class->release_barrier->cluster) {
		mi(l, "setp.ne.u32", R(due), R(l->release), I(0));
		tc_low_cluster_arrive(l, class->release_barrier, due, a, count, false);
		return;
	}
	mi(l, "setp.ne.and.u32", R(due), R(l->release), I(0), R(l->elected));
	tc_low_arrive(l, due, a, count);
}

/* Everything that has been issued is complete, and said so. */
static void flush(struct low *l)
{
	uint8_t s = state(l);

	if (s & MMA_RUNNING)
		mi(l, "wgmma.wait_group.sync.aligned", I(0));
	if (!(s & RELEASE_PENDING))
		return;
	release(l);
	mi(l, "mov.b32", R(l->release), I(0));
}

static void defer_release(struct low *l, const struct barrier_ref *b)
{
	int count = arrivals_of_lane(l, b->barrier);

	mi(l, "mov.b32", R(l->release), R(tc_low_address(l, tc_low_barrier(l, b))));
	if (!l->role->class->release_count)
		mi(l, "mov.b32", R(l->release_count), I(count));
}

static bool same_reach(const struct barrier *a, const struct barrier *b)
{
	return a->cluster == b->cluster && a->cluster_groups == b->cluster_groups &&
	       memcmp(a->cluster_group, b->cluster_group, sizeof(a->cluster_group)) == 0;
}

static void find_release_count(void *arg, const struct op *op)
{
	struct low *l = arg;
	struct class_plan *class = l->role->class;
	const struct barrier *b = op->kind == OP_MMA ? op->u.mma.barrier.barrier : NULL;
	int count;

	if (!b || l->c->barriers[b->id].elided)
		return;
	l->op = op;
	if (op->u.mma.barrier.cluster_rank)
		tc_low_fail(l,
			    "an mma on %s arrives on barriers of its own CTA, or of all along an "
			    "axis (tc.cluster_barrier)",
			    l->c->target->name);
	if (!class->release_barrier)
		class->release_barrier = b;
	if (!same_reach(b, class->release_barrier))
		tc_low_fail(l,
			    "on %s the MMAs of roles that share accumulators signal barriers of "
			    "one kind: tc.barrier, or tc.cluster_barrier with the same axes",
			    l->c->target->name);
	l->op = NULL;
	count = arrivals_of_lane(l, b);
	if (class->release_count < 0)
		class->release_count = count;
	else if (class->release_count != count)
		class->release_count = 0;
}

void tc_low_wgmma_start(struct low *l)
{
	struct class_plan *class = l->role->class;

	if (!class)
		return;
	class->release_count = -1;
	tc_class_walk(l->c, class, find_release_count, l);
	if (class->release_count < 0)
		return;
	l->release = mi_named(l, MR_B32, "release_%s", l->role->name);
	mi(l, "mov.b32", R(l->release), I(0));
	if (!class->release_count)
		l->release_count = mi_named(l, MR_B32, "release_count_%s", l->role->name);
}

void tc_low_wgmma_end(struct low *l)
{
	if (l->role->class)
		flush(l);
}

/*
 * One try, of about the time that the MMA under way takes; all lanes agree on its
 * outcome.  If it fails, what the class itself still owes may be what it waits for.
 */
#define TRY_NANOSECONDS 512

void tc_low_wgmma_before_spin(struct low *l, struct mopnd barrier, struct mopnd parity, int ready)
{
	struct mreg p;

	if (!(state(l) & RELEASE_PENDING))
		return;
	p = mi_pred(l);
	mi(l, tc_low_try_wait(l, l->op->u.wait.barrier.barrier), R(p), barrier, parity,
	   I(TRY_NANOSECONDS));
	mi(l, "vote.sync.all.pred", R(p), R(p), T("0xffffffff"));
	mi_if(l, p, "bra", LABEL(ready));
	flush(l);
}

void tc_lower_wgmma_wait(struct low *l, const struct op *op)
{
	if (!l->c->barriers[op->u.wait.barrier.barrier->id].elided) {
		tc_lower_wait(l, op);
		return;
	}
	tc_low_all(l);
	flush(l);
}

void tc_lower_wgmma_arrive(struct low *l, const struct op *op)
{
	if (!l->c->barriers[op->u.arrive.barrier.barrier->id].elided)
		tc_lower_arrive(l, op);
}

void tc_lower_wgmma_commit(struct low *l, const struct op *op)
{
	const struct arrive_op *o = &op->u.arrive;

	if (o->collective_axis >= 0)
		tc_low_fail(l, "commit_arrive with collective_axis is not supported on %s",
			    l->c->target->name);
	tc_low_all(l);
	flush(l);
	if (l->c->barriers[o->barrier.barrier->id].elided)
		return;
	mi(l, "bar.warp.sync", T("0xffffffff"));
	tc_low_arrive_on(l, &o->barrier, arrivals_of_lane(l, o->barrier.barrier));
}

/* ---- loads and stores --------------------------------------------------------------------------
 */

void tc_lower_wgmma_load(struct low *l, const struct op *op)
{
	const struct load_op *o = &op->u.load;
	const struct distribution *d = tc_frag_distribution(l, o->result->id);
	struct frag_value *v = tc_value_new(l, d, o->result->dtype, (bool[2]){true, true});
	struct mreg *reg = registers_of(l, o->ref);

	tc_low_all(l);
	flush(l);
	for (int i = 0; i < v->words; i++) {
		struct mreg r = reg[register_of_word(v, i)];

		if (l->role->class->copied[op->id]) {
			struct mreg copy = mi_b32(l);

			mi(l, "mov.b32", R(copy), R(r));
			r = copy;
		}
		v->word[i] = R(r);
	}
	tc_value_define(l, o->result, v);
}

void tc_lower_wgmma_store(struct low *l, const struct op *op)
{
	const struct store_op *o = &op->u.store;
	struct distribution *d = tc_arena_alloc(l->arena, sizeof *d);
	struct mreg *reg = registers_of(l, o->ref);
	struct frag_value *v;

	tc_low_all(l);
	flush(l);
	tc_low_wgmma_distribution(l, o->ref, o->value->role, d);
	v = tc_value_stored(l, o->value, d, 1, (const bool[2]){true, true});
	for (int i = 0; i < v->words; i++)
		mi(l, "mov.b32", R(reg[register_of_word(v, i)]), v->word[i]);
}

/* From SMEM by every thread: its row of A. */
void tc_lower_wgmma_copy(struct low *l, const struct op *op)
{
	const struct tmem_copy_op *o = &op->u.tmem_copy;
	const struct alloc *a = o->dst->alloc;
	int64_t columns = o->dst->extent[a->rank - 1].size;

	tc_low_all(l);
	flush(l);
	if (!tc_wgmma_ldmatrix(l, o->src, registers_of(l, o->dst),
			       (int)(columns * tc_dtypes[a->dtype].bits / 64)))
		tc_class_refuse(l->c, op, 'd',
				"the view of SMEM does not consist of rows of pairs of 16 bytes "
				"that ldmatrix loads",
				"a view of whole rows with a swizzle of 32, 64 or 128, not "
				"transposed unless its elements have 16 bits");
}

/*
 * Words of metadata as the instruction wants them (docs/isa.md 7) are words of the image in SMEM
 * (docs/isa.md 6.4): that of lane / 4 and, where lane % 2 is set, the lane 8 further; of two
 * columns the one that bit 1 of lane says.
 */
static struct mreg metadata_offset(struct low *l)
{
	static const char key[] = "metadata";
	struct mreg *r = tc_entry_register(l, key, sizeof key);
	struct mopnd lane, line;
	struct low_place place;

	if (r->id)
		return *r;
	place = tc_low_at_entry(l);
	lane = R(tc_low_lane(l));
	line = tc_low_add(l, tc_low_udiv(l, lane, 4),
			  tc_low_mul(l, tc_low_and(l, R(l->c->warp), 3), 16));
	line = tc_low_add(l, line, tc_low_mul(l, tc_low_and(l, lane, 1), 8));
	if (l->clone.id)
		line = tc_low_add(l, line, tc_low_mul(l, R(l->clone), 64));
	*r = tc_low_add(l, tc_low_mul(l, line, METADATA_LANE),
			tc_low_mul(l, tc_low_and(l, lane, 2), 2))
		     .reg;
	tc_low_return(l, place);
	return *r;
}

/*
 * An MMA reads its metadata while it runs, and the assembler does not know it: a load before the
 * wait would get the register that the MMA before still reads.
 */
void tc_lower_wgmma_copy_metadata(struct low *l, const struct op *op)
{
	const struct tmem_copy_op *o = &op->u.tmem_copy;
	struct mreg *reg = registers_of(l, o->dst);
	int words = (int)(o->dst->extent[o->dst->alloc->rank - 1].size / METADATA_ENTRIES);
	struct smem_view src;
	struct maddr from;

	tc_low_all(l);
	tc_low_smem_view(l, o->src, &src);
	from = src.tile;
	from.reg = tc_low_add(l, R(metadata_offset(l)), R(from.reg.id ? from.reg : l->c->smem)).reg;
	flush(l);
	for (int i = 0; i < words; i++)
		mi(l, "ld.volatile.shared.b32", R(reg[i]),
		   M(from, i / 2 * src.layout.tile_bytes + i % 2 * (METADATA_LANE / 2)));
}

/* ---- MMA
 * ------------------------------------------------------------------------------------------ */

static const char *type_name(enum dtype t)
{
	switch (t) {
	case DT_F32:
	case DT_TF32:
		return "tf32";
	case DT_I8:
		return "s8";
	default:
		return tc_dtypes[t].shortname;
	}
}

/* Elements along K of an instruction: 32 bytes of A, which stores half of them if it is sparse. */
static int step_of(const struct mma_op *o)
{
	return (o->a_sparse_metadata ? 512 : 256) / tc_dtypes[o->a->alloc->dtype].bits;
}

/*
 * The register of a step along K, and which threads of each four hold its entries: 8-bit elements
 * have all of them, of others a register has two steps.
 */
static int add_metadata(struct low *l, const struct mma_op *o, int64_t step, struct mopnd *operand)
{
	struct mreg *reg = registers_of(l, o->a_sparse_metadata);
	bool narrow = tc_dtypes[o->a->alloc->dtype].bits == 8;

	mi_require(l, 82);
	operand[0] = R(reg[narrow ? step : step / 2]);
	operand[1] = I(narrow ? 0 : step % 2);
	return 2;
}

/* One instruction: d, a, b, metadata, scale-d, then what the kind has of signs and orders. */
static void multiply(struct low *l, const struct mma_op *o, struct mreg *d, int64_t n,
		     struct mopnd a, struct mopnd b, int64_t step, struct mopnd scale_d,
		     const bool k_major[2])
{
	enum dtype t = o->a->alloc->dtype, acc = o->acc->alloc->dtype;
	struct mopnd operand[10] = {V(d, (int)(n * tc_dtypes[acc].bits / 64)), a, b};
	int count = 3;

	if (o->a_sparse_metadata)
		count += add_metadata(l, o, step, operand + count);
	operand[count++] = scale_d;
	if (acc != DT_I32) {
		operand[count++] = I(1);
		operand[count++] = I(1);
	}
	if (tc_dtypes[t].bits == 16) {
		if (o->a->alloc->space == SP_SMEM)
			operand[count++] = I(!k_major[0]);
		operand[count++] = I(!k_major[1]);
	}
	mi_emit(l,
		tc_arena_printf(l->arena, "wgmma.mma_async%s.sync.aligned.m64n%lldk%d.%s.%s.%s",
				o->a_sparse_metadata ? ".sp" : "", (long long)n, step_of(o),
				acc == DT_I32 ? "s32" : tc_dtypes[acc].shortname, type_name(t),
				type_name(o->b->alloc->dtype)),
		operand, count);
}

/*
 * Columns of an instruction: at most what it takes, and as few instructions as the assembler can
 * give registers to, which it does before setmaxnreg adds any.  Where columns of B lie side by
 * side, in panels, an instruction steps through panels from its first column on: none but the
 * first of a panel.  There are always registers for one of 64 columns, the widest.
 */
static int64_t columns_at_once(const struct low *l, const struct mma_op *o,
			       const struct smem_operand *b)
{
	const struct mma_row *row;
	struct mma_shape s;
	int64_t n = o->acc->shape[1].size, pieces, granule;
	int64_t most = (int64_t)(tc_launched_registers(l->c) - TC_MMA_REGISTERS) * 64 /
		       tc_dtypes[o->acc->alloc->dtype].bits;

	tc_mma_describe(o, &s);
	row = tc_mma_row(true, &s);
	granule = b->k_major ? row->n.one : b->layout.panel_columns;
	most = most > row->n.most ? row->n.most : most;
	if (n <= most)
		return n;
	most = most / granule * granule;
	pieces = (n + most - 1) / most;
	return (n + pieces * granule - 1) / (pieces * granule) * granule;
}

/* `registers`: of A, where it lies in tensor memory. */
static void multiply_all(struct low *l, const struct mma_op *o, struct mreg *registers,
			 const struct smem_operand *a, const struct smem_operand *b,
			 struct mopnd enable)
{
	int64_t n = o->acc->shape[1].size, wide = columns_at_once(l, o, b);
	int64_t k = o->depth ? o->depth : o->b->shape[0].size;
	struct mreg *d = registers_of(l, o->acc);
	const bool k_major[2] = {a->k_major, b->k_major};
	int bits = tc_dtypes[o->acc->alloc->dtype].bits, step = step_of(o);
	int stored = o->a_sparse_metadata ? 2 : 1; /* elements of K for one of A */

	for (int64_t at = 0; at < k; at += step)
		for (int64_t column = 0; column < n; column += wide) {
			int64_t width = n - column < wide ? n - column : wide;
			struct mopnd left = registers ? V(registers + at / step * 4, 4)
						      : R(tc_low_operand_at(l, a, 0, at / stored));

			multiply(l, o, d + column * bits / 64, width, left,
				 R(tc_low_operand_at(l, b, column, at)), at / step,
				 at ? mo_imm(1) : enable, k_major);
		}
}

void tc_lower_wgmma(struct low *l, const struct op *op)
{
	const struct mma_op *o = &op->u.mma;
	struct smem_operand a = {.k_major = true}, b;
	struct mreg *registers = NULL;
	struct mopnd enable;

	tc_low_all(l);
	if (o->acc->alloc->dtype == DT_I32 && o->a->alloc->dtype != o->b->alloc->dtype)
		mi_require(l, 84);
	enable = tc_low_accumulate(l, o);
	if (o->a->alloc->space == SP_TMEM)
		registers = registers_of(l, o->a);
	else
		tc_low_smem_operand(l, &a, o->a, 1, l->clone);
	tc_low_smem_operand(l, &b, o->b, 0, (struct mreg){0});
	mi_plain(l, "wgmma.fence.sync.aligned");
	multiply_all(l, o, registers, &a, &b, enable);
	mi_plain(l, "wgmma.commit_group.sync.aligned");
	if (state(l) & RELEASE_PENDING) {
		mi(l, "wgmma.wait_group.sync.aligned", I(1));
		release(l);
	}
	if (o->barrier.barrier && !l->c->barriers[o->barrier.barrier->id].elided)
		defer_release(l, &o->barrier);
	else if (state(l) & RELEASE_PENDING)
		mi(l, "mov.b32", R(l->release), I(0));
}

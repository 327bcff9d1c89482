/*
 * tc.mma on tcgen05 (docs/isa.md 2-4, 6): the instructions that one call takes.  K is walked by
 * moving the start addresses of A and B and the factors that scale them, N above 256 by several
 * slices of the accumulator.
 */
#include "lower_mma.h"

/* One program runs all rows. */
static const struct mreg whole;

enum {
	SCALES_A_GROUP = 4, /* factors along K that one column holds for each row */
	SCALE_LANES = 32    /* rows whose factors one column holds */
};

struct mma {
	struct mma_shape shape;
	const char *opcode;
	struct maddr d, a_tmem, a_scale, b_scale, metadata;
	int64_t a_group, b_group; /* columns from one group of scale factors to the next */
	struct smem_operand a, b;
	struct mopnd accumulate; /* of the first step along K */
};

/* Scale factors of one row take a byte; a group of four columns of the view, 32-bit columns. */
static struct maddr scale_operand(struct low *l, const struct ref *r, int64_t *group)
{
	*group =
		tc_tmem_columns(r->alloc, r->alloc->shape[r->alloc->rank - 2].size, SCALES_A_GROUP);
	return tc_low_tmem_view(l, r);
}

static void prepare(struct low *l, struct mma *x, const struct mma_op *o)
{
	x->opcode = tc_mma_opcode(l, &x->shape);
	x->accumulate = tc_low_accumulate(l, o);
	x->d = tc_low_tmem_view(l, o->acc);
	if (x->shape.a_in_tmem)
		x->a_tmem = tc_low_tmem_view(l, o->a);
	else
		tc_low_smem_operand(l, &x->a, o->a, 1, whole);
	tc_low_smem_operand(l, &x->b, o->b, 0, whole);
	if (x->shape.scaled) {
		x->a_scale = scale_operand(l, o->a_scale, &x->a_group);
		x->b_scale = scale_operand(l, o->b_scale, &x->b_group);
	}
	if (x->shape.sparse)
		x->metadata = tc_low_tmem_view(l, o->a_sparse_metadata);
}

static struct mopnd left_operand(struct low *l, struct mma *x, const struct mma_step *step)
{
	int64_t k = x->shape.sparse ? step->k / 2 : step->k;

	return x->shape.a_in_tmem ? M(x->a_tmem, k * x->shape.a_bits / 32)
				  : R(tc_low_operand_at(l, &x->a, 0, k));
}

/* Operands in the order of the instruction. */
static void issue(struct low *l, struct mma *x, const struct mma_step *step)
{
	const struct mma_shape *s = &x->shape;
	struct mopnd operand[8];
	int count = 0;

	/* Of a pair with 64 rows in each CTA, halves of N lie one above the other. */
	operand[count++] = M(x->d, s->collective && s->m == 64 ? step->n / 2 : step->n);
	operand[count++] = left_operand(l, x, step);
	operand[count++] = R(tc_low_operand_at(l, &x->b, step->n / tc_mma_ctas(s), step->k));
	if (s->sparse)
		operand[count++] = M(x->metadata, tc_metadata_pair(s, step));
	operand[count++] = mo_hex(tc_instruction_descriptor(s, step));
	if (s->scaled) {
		int64_t group = step->k / s->block / SCALES_A_GROUP;

		operand[count++] = M(x->a_scale, group * x->a_group);
		operand[count++] = M(x->b_scale, group * x->b_group + step->n / SCALE_LANES);
	}
	operand[count++] = step->k ? mo_imm(1) : x->accumulate;
	mi_emit(l, x->opcode, operand, count);
}

void tc_lower_tcgen05_mma(struct low *l, const struct op *op)
{
	const struct mma_op *o = &op->u.mma;
	struct mma x = {.d = {.offset = 0}};
	int64_t columns = o->acc->shape[1].size;
	struct mma_step step;
	int widest;

	tc_mma_describe(o, &x.shape);
	widest = x.shape.row->n.most;
	if (o->barrier.barrier)
		tc_low_phases_before(l, o->barrier.barrier);
	tc_low_pair_leader(l, o->collective_axis);
	prepare(l, &x, o);
	for (step.k = 0; step.k < x.shape.depth; step.k += tc_mma_step_k(&x.shape))
		for (step.n = 0; step.n < columns; step.n += widest) {
			step.width = columns - step.n < widest ? columns - step.n : widest;
			issue(l, &x, &step);
		}
	if (o->barrier.barrier)
		tc_low_tcgen05_commit(l, &o->barrier, o->collective_axis);
}

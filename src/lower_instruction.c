/* Names and instruction descriptors of tcgen05.mma (docs/isa.md 2.1, 2.4). */
#include "lower_mma.h"

/* Codes of element types: of A and B, where the kind says which set is meant, and of D. */
static const uint32_t operand_codes[DT_COUNT] = {
	[DT_F16] = 0,  [DT_BF16] = 1, [DT_F32] = 2,  [DT_TF32] = 2, [DT_E4M3] = 0, [DT_E5M2] = 1,
	[DT_E2M3] = 3, [DT_E3M2] = 4, [DT_E2M1] = 5, [DT_U8] = 0,   [DT_I8] = 1,
};
static const uint32_t result_codes[DT_COUNT] = {[DT_F16] = 0, [DT_F32] = 1, [DT_I32] = 2};

enum {
	PACKED_E2M1 = 1,
	SCALE_IDS = 4 /* bytes of a column of scale factors that an id chooses among */
};

const char *tc_mma_opcode(struct low *l, const struct mma_shape *s)
{
	const char *scale = "";

	mi_require(l, s->row->version);
	if (s->scaled)
		scale = tc_arena_printf(l->arena, ".scale_vec::%dX", tc_mma_step_scales(s));
	return tc_arena_printf(l->arena, "tcgen05.mma%s.cta_group::%d.%s%s", s->sparse ? ".sp" : "",
			       tc_mma_ctas(s), s->row->name, scale);
}

/* Kinds of 4-bit elements without padding know one type, and number it otherwise. */
static uint32_t operand_code(const struct mma_shape *s, enum dtype t)
{
	return t == DT_E2M1 && s->a_bits == 4 ? PACKED_E2M1 : operand_codes[t];
}

/* 16 entries are a column.  Kinds that read one column choose between the two of a pair. */
static int64_t metadata_column(const struct mma_shape *s, const struct mma_step *step)
{
	return tc_mma_metadata(s, step->k) / 16;
}

int64_t tc_metadata_pair(const struct mma_shape *s, const struct mma_step *step)
{
	return metadata_column(s, step) & ~INT64_C(1);
}

static uint32_t metadata_selector(const struct mma_shape *s, const struct mma_step *step)
{
	return s->sparse ? metadata_column(s, step) & 1 : 0;
}

uint32_t tc_instruction_descriptor(const struct mma_shape *s, const struct mma_step *step)
{
	uint32_t d = (uint32_t)s->sparse << 2 | operand_code(s, s->a) << 7 |
		     operand_code(s, s->b) << 10 | (uint32_t)!s->a_k_major << 15 |
		     (uint32_t)!s->b_k_major << 16 | (uint32_t)(step->width / 8) << 17 |
		     (uint32_t)(s->m * tc_mma_ctas(s) / 16) << 24;
	uint32_t scale_id;

	d |= metadata_selector(s, step);
	if (!s->scaled)
		return d | result_codes[s->d] << 4;
	scale_id = (uint32_t)(step->k / s->block % SCALE_IDS);
	return d | scale_id << 4 | (uint32_t)(s->scale == DT_E8M0) << 23 | scale_id << 29;
}

/* One tcgen05.mma, as the instruction gave it and as the tensor core runs it. */
#ifndef TCMMA_EMU_MMA_H
#define TCMMA_EMU_MMA_H

#include "async.h"

struct emu_mma_request {
	struct emu_mma_form form;
	struct emu_where where;
	struct emu_cta *cta;   /* of the issuing thread */
	uint32_t d, a_address; /* tensor memory */
	uint64_t a_descriptor, b_descriptor;
	uint32_t idesc;
	uint32_t metadata, scale_a, scale_b;
	uint32_t disabled[8];  /* bit i of word w: lane 32w + i is not written */
	uint64_t zero_columns; /* .ws */
	bool accumulate, ashift;
	int scale_d; /* D is multiplied by 2^-scale_d first */
};

struct emu_order;

/* Enters what it will read and write; says nothing where the request is faulty. */
void emu_mma_watch(const struct emu_mma_request *request, struct emu_order *order, int lane);
/* False after a fault. */
bool emu_mma_run(const struct emu_mma_request *request);

/* Panels of one instruction; rows are M or N of the pair, or lanes of tensor memory. */
enum {
	EMU_MMA_ROWS = 256,
	EMU_MMA_K = 256, /* logical elements: single bits of wgmma; sparse fp4 has 128 */
	EMU_MMA_RAW = 64 /* bytes of K of one row */
};

struct emu_mma_scratch {
	uint8_t raw[EMU_MMA_ROWS * EMU_MMA_RAW];
	float rows[EMU_MMA_ROWS * EMU_MMA_K]; /* A, K innermost */
	float a[EMU_MMA_K * EMU_MMA_ROWS];    /* A, rows innermost */
	float b[EMU_MMA_ROWS * EMU_MMA_K];    /* B, K innermost */
	float b_scaled[EMU_MMA_ROWS * EMU_MMA_K];
	float a_spread[EMU_MMA_K * EMU_GEMM_ROWS * 4]; /* see emu_fragment_a */
	float tile[EMU_MMA_ROWS * EMU_GEMM_ROWS];
	uint8_t a_scales[EMU_MMA_ROWS * 8], b_scales[EMU_MMA_ROWS * 8];
	uint8_t b_done[EMU_MMA_ROWS * 8]; /* factors that b_scaled was made with */
	int b_done_n;                     /* its first column; -1: not valid */
};

/* The cluster's buffers; NULL after a fault. */
struct emu_mma_scratch *emu_mma_scratch_of(struct emu_cluster *cluster,
					   const struct emu_where *where);

static inline struct emu_smem_view emu_smem_of(const struct emu_cta *cta)
{
	return (struct emu_smem_view){cta->shared, EMU_SHARED_BASE, cta->shared_bytes};
}

/* a[k * EMU_MMA_ROWS + row] = rows[row * k_count + k] */
void emu_mma_transpose(const float *rows, int row_count, int k_count, float *a);
/* Multiplies `count` values by -1. */
void emu_mma_negate(float *values, int count);

#endif

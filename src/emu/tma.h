/* Tensor copies: tma_decode.c reads the text, tma.c issues, tma_transfer.c moves the bytes. */
#ifndef TCMMA_EMU_TMA_H
#define TCMMA_EMU_TMA_H

#include "async.h"

enum tma_direction {
	TMA_LOAD,
	TMA_STORE,
	TMA_REDUCE,
	TMA_PREFETCH
};

/* What the text says. */
struct tma_form {
	enum tma_direction direction;
	enum emu_space space; /* of the shared side */
	int rank;
	enum emu_tensormap_mode mode;
	bool rows;            /* tile::gather4, tile::scatter4 */
	bool multicast, pair; /* pair: .cta_group::2 */
	enum emu_reduction reduction;
	int offsets, mask; /* operands, or -1 */
};

enum emu_step emu_tma_execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);
enum emu_step emu_tma_prefetch(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);

/* One copy, from its issue to its completion. */
struct tma_op {
	struct emu_engine_op op;
	const struct tma_form *form;
	struct emu_warp *warp;
	struct emu_bulk_group *group;
	struct emu_tensormap map;
	uint64_t map_at; /* generic address */
	struct emu_box box;
	int32_t coordinates[EMU_MAX_RANK];
	struct emu_pixels pixels;        /* of im2col */
	uint64_t shared, barrier;        /* 32-bit shared addresses */
	uint64_t phase[EMU_MAX_CLUSTER]; /* of the mbarrier in each target, at issue */
	uint16_t mask;
};

/* The windows a box is written to or read from. */
struct transfer {
	struct tma_op *op;
	int count;
	struct emu_cta *cta[EMU_MAX_CLUSTER];
	uint32_t address; /* offset in the window, as an address */
};

/* Shared bytes from the first to behind the last; bytes of so many elements of global memory. */
uint32_t emu_tma_footprint(const struct tma_op *op);
uint32_t emu_tma_bytes(const struct tma_op *op, uint32_t elements);
enum emu_type emu_tma_reduction_type(const struct tma_op *op);
/* The address of the mbarrier that counts the bytes of the data in `rank`. */
uint64_t emu_tma_barrier(const struct tma_op *op, uint32_t rank);
bool emu_tma_walk(const struct tma_op *op, emu_box_visitor *visit, void *context);
/* Adds the CTA that the box goes to or comes from; all that a load goes to.  False after a fault.
 */
bool emu_tma_add_target(struct transfer *t, uint64_t address);
bool emu_tma_targets(struct transfer *t);
/* What a load has yet to bring must not look like what was there before. */
bool emu_tma_poison(struct tma_op *op);
void emu_tma_complete_load(struct emu_engine_op *base);
void emu_tma_complete_store(struct emu_engine_op *base);

#endif

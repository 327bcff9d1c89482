/* Where the lanes of one memory instruction point, as host pointers. */
#ifndef TCMMA_EMU_LANES_H
#define TCMMA_EMU_LANES_H

#include "machine.h"

struct emu_lanes {
	uint8_t *at[EMU_LANES];      /* of the active lanes */
	uint64_t address[EMU_LANES]; /* as the instruction gives them */
	enum emu_space space;        /* where the first active lane points */
};

/*
 * Resolves address operand i for the active lanes; `size` bytes each, aligned
 * to `size`.  False after a fault.
 */
bool emu_resolve(struct emu_warp *warp, const struct emu_ins *ins, int i, uint32_t mask,
		 uint32_t size, enum emu_access_kind kind, struct emu_lanes *lanes);
/* ld and st of ins->count elements of ins->type. */
enum emu_step emu_load(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);
enum emu_step emu_store(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);

/* The `extra` of atom and red. */
struct emu_atomic {
	int operation;         /* enum emu_reduction, or a swap */
	enum emu_type element; /* f16x2 is two f16 */
	uint32_t size;         /* bytes of one operand item */
	int items;             /* of a vector */
	bool returns;
};

void emu_atomic_of_type(struct emu_atomic *atomic, enum emu_type type);
enum emu_step emu_atomic_execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);
/* Adds to the counters of the space. */
void emu_count_bytes(struct emu_warp *warp, enum emu_space space, uint64_t bytes, bool written);
/* Space of an access from the modifiers and, for .param, from the operand. */
enum emu_space emu_access_space(struct emu_decode *decode, int address);

#endif

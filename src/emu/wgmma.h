/* What the text of a wgmma says: wgmma_decode.c fills it, wgmma.c executes it. */
#ifndef TCMMA_EMU_WGMMA_H
#define TCMMA_EMU_WGMMA_H

#include "warp_mma.h"

struct wgmma_form {
	int n, k;
	enum emu_element a, b;
	enum emu_accumulator accumulator;
	bool a_in_registers, saturate, negate_a, negate_b, transpose_a, transpose_b;
	bool sparse; /* A stores half of K */
	int selector;
	int scale; /* the operand scale-d */
};

enum emu_step emu_wgmma_mma(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);
enum emu_step emu_wgmma_commit(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);
enum emu_step emu_wgmma_wait(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);
enum emu_step emu_wgmma_fence(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);

#endif

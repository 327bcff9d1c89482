/* What the text of a tensor copy says: tma_decode.c fills it, tma.c executes it. */
#ifndef TCMMA_EMU_TMA_H
#define TCMMA_EMU_TMA_H

#include "async.h"

enum tma_direction {
	TMA_LOAD,
	TMA_STORE,
	TMA_REDUCE,
	TMA_PREFETCH
};

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

#endif

/* Basic blocks of a function while it is loaded. */
#ifndef TCMMA_EMU_FLOW_H
#define TCMMA_EMU_FLOW_H

#include "machine.h"

struct emu_block {
	uint32_t start, end;   /* instructions [start, end) */
	uint32_t first, count; /* successors, in emu_flow.edges */
	bool falls; /* ends the thread or returns, yet post-dominance lets it fall through */
};

struct emu_flow {
	struct emu_block *blocks;
	uint32_t count;
	uint32_t *edges;
	uint32_t edge_count, edge_room;
	uint32_t *block_of; /* per instruction */
};

bool emu_flow_build(struct emu_flow *flow, const struct emu_function *function,
		    struct emu_error *error);
void emu_flow_free(struct emu_flow *flow);

#endif

/* Global memory as the machine keeps it. */
#ifndef TCMMA_EMU_HEAP_H
#define TCMMA_EMU_HEAP_H

#include "machine.h"
#include <pthread.h>

struct emu {
	char target[16];
	int sm_count;
	uint64_t memory_limit, memory_used;
	uint64_t next_address;
	struct emu_allocation **allocations; /* by address; the last released ones stay */
	size_t count, room, released;
	int running;          /* grids, whose warps point at allocations: none is forgotten then */
	pthread_mutex_t lock; /* device-side malloc runs on several host threads */
};

#endif

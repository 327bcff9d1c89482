/* Where the lanes of one memory instruction point, as host pointers. */
#ifndef TCMMA_EMU_LANES_H
#define TCMMA_EMU_LANES_H

#include "machine.h"

struct emu_lanes {
	uint8_t *at[EMU_LANES];      /* of inactive lanes: as of the first active one */
	uint64_t address[EMU_LANES]; /* as active lanes give them; check and random mode alone,
					of a run the first */
	enum emu_space space;        /* where the first active lane points */
	bool same;                   /* all lanes point to one place, by no register */
};

static inline bool emu_is_shared(enum emu_space space)
{
	return space == EMU_SHARED || space == EMU_SHARED_CLUSTER;
}

/*
 * Resolves address operand i for the active lanes; `size` bytes each, aligned
 * to `size`.  False after a fault.
 */
bool emu_resolve(struct emu_warp *warp, const struct emu_ins *ins, int i, uint32_t mask,
		 uint32_t size, enum emu_access_kind kind, struct emu_lanes *lanes);
/*
 * The same for all lanes of a warp at once, where they point to one place, or each `size` bytes
 * behind the one before it and all into one piece of memory: what lane 0 points to, and of `lanes`
 * space and same. NULL where it is not so, without a fault.
 */
uint8_t *emu_resolve_run(struct emu_warp *warp, const struct emu_ins *ins, int i, uint32_t size,
			 enum emu_access_kind kind, struct emu_lanes *lanes);
/* How the lanes of such an access move: what a decoder keeps in ins->variant, 0 where they do not.
 */
unsigned emu_run_of(const struct emu_ins *ins, const struct emu_operand *operand, bool stores);
void emu_load_run(struct emu_warp *warp, const struct emu_ins *ins, const uint8_t *from);
void emu_store_run(const struct emu_warp *warp, const struct emu_ins *ins, uint8_t *to);
/* From and to one place. */
void emu_load_same(struct emu_warp *warp, const struct emu_ins *ins, const uint8_t *from);
void emu_store_last(const struct emu_warp *warp, const struct emu_ins *ins, uint8_t *to);
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

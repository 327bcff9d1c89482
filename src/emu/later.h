/*
 * Reads of shared memory that are noted later, or never: between two barriers of all its warps
 * most of a CTA's instructions read what was written before the first one, and behind the second
 * one nobody asks who they were.  What is noted in between comes behind them.  Only where no
 * other CTA and no copy writes to the memory.
 */
#ifndef TCMMA_EMU_LATER_H
#define TCMMA_EMU_LATER_H

#include "shadow.h"

/* Weak reads of lanes, as host pointers, of which those of inactive lanes are that of an active
   one; false where they must be noted now. */
bool emu_later_read(struct emu_order *order, uint8_t *const *at, uint32_t mask, uint32_t size);
/* The same of all lanes of a warp, `step` bytes apart. */
bool emu_later_run(struct emu_order *order, const uint8_t *at, uint32_t step, uint32_t size);
void emu_later_note(struct emu_cta *cta);
/* All warps of the CTA have met. */
void emu_later_met(struct emu_cta *cta);
void emu_later_free(struct emu_cta_hazards *hazards);

/* Before an access of the CTA's shared memory that is noted now: it comes behind those. */
static inline void emu_later_access(struct emu_cta *cta, const struct emu_access *access)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);

	if (h->later_count)
		emu_later_note(cta);
	if (!access->write)
		return;
	if (access->kind == EMU_ACTOR_WARP && access->order->warp->cta == cta)
		h->wrote = true;
	else
		h->at_once = true;
}

/* Before the first block of the CTA's shared memory that has cells: they are exact. */
static inline void emu_later_cells(struct emu_cta *cta)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);

	if (h->later_count)
		emu_later_note(cta);
	h->at_once = true;
}

#endif

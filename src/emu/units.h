/*
 * Blocks that remember each unit by itself: who wrote it last, who has read it since,
 * and which lane.  They name notes, which units that one instruction has touched share.
 */
#ifndef TCMMA_EMU_UNITS_H
#define TCMMA_EMU_UNITS_H

#include "shadow.h"

/* An access; never changed. */
struct emu_note {
	uint32_t epoch, site;
	uint32_t others; /* the reads beside this one: note, 0: none */
	uint32_t lanes;  /* by unit, of the first of those: row */
	uint16_t who;
	uint8_t atomic; /* enum emu_scope */
	uint8_t shift;  /* see struct emu_mark */
};

struct emu_units {
	uint32_t write[EMU_BLOCK_UNITS], read[EMU_BLOCK_UNITS]; /* notes; 0: none */
	uint8_t write_lane[EMU_BLOCK_UNITS], read_lane[EMU_BLOCK_UNITS];
	uint8_t cta; /* 1 + the rank of the CTA whose warps alone have touched them; 0: others have
		      */
	bool used;   /* the pool has it not */
};

static inline struct emu_units *emu_units_at(const struct emu_hazards *hazards, uint32_t index)
{
	return emu_pool_at(&hazards->units, index);
}

/* ---- notes (notes.c): 0 without memory ---------------------------------------------------- */

static inline const struct emu_note *emu_note_at(const struct emu_hazards *hazards, uint32_t note)
{
	return &hazards->notes.items[note - 1];
}

/* Of the access that looks; those that no unit names go when the first one is made for it. */
uint32_t emu_note_of(struct emu_check *check);
/* Of a mark. */
uint32_t emu_note_of_mark(struct emu_hazards *hazards, const struct emu_mark *mark);
/* Of the read of `units` that looks, and those of `note` that later accesses may race with though
   they do not race with this one; 0 too where there are many. */
uint32_t emu_note_beside(struct emu_check *check, uint32_t note, const uint8_t *lanes,
			 uint32_t units);
/* Of a mark of a read, and those of `note`. */
uint32_t emu_note_above(struct emu_hazards *hazards, const struct emu_mark *mark, uint32_t note,
			const uint8_t *lanes);
void emu_notes_free(struct emu_notes *notes);

/* One read after the other, the last first; `lanes` of the one that `next` returned. */
struct emu_note_walk {
	const struct emu_hazards *hazards;
	uint32_t note;
	const uint8_t *lanes, *next_lanes;
};

static inline struct emu_note_walk emu_note_walk(const struct emu_hazards *hazards, uint32_t note,
						 const uint8_t *lanes)
{
	return (struct emu_note_walk){.hazards = hazards, .note = note, .next_lanes = lanes};
}

static inline const struct emu_note *emu_note_next(struct emu_note_walk *walk)
{
	const struct emu_note *note;

	if (!walk->note)
		return NULL;
	note = emu_note_at(walk->hazards, walk->note);
	walk->note = note->others;
	walk->lanes = walk->next_lanes;
	walk->next_lanes = note->others ? walk->hazards->notes.rows[note->lanes] : NULL;
	return note;
}

/* Each of the units belongs to the lane that touches it now. */
static inline bool emu_same_lanes(const struct emu_check *check, const uint8_t *lanes,
				  uint32_t units)
{
	EMU_FOR_LANES(unit, units)
	{
		if (lanes[unit] != emu_own_lane(check, unit))
			return false;
	}
	return true;
}

/* ---- units (units.c) ------------------------------------------------------------------------- */

/* From the marks of a block, for an access of the CTA (see struct emu_check); false without memory.
 */
bool emu_units_begin(struct emu_hazards *hazards, struct emu_block *block, uint8_t cta);
/* False where nothing has been noted: it may race. */
bool emu_units_touch(struct emu_check *check, struct emu_block *block, uint32_t units);
/* Words of lanes in shared memory, of blocks that have units: the lanes from the first one on that
   must be looked at more closely. */
uint32_t emu_access_words(struct emu_check *check, const uint64_t *address, uint32_t mask,
			  bool generic);
/* To the cells of the block. */
void emu_units_put(const struct emu_check *check, const struct emu_block *block,
		   struct emu_cell *cells);
void emu_units_give(struct emu_hazards *hazards, struct emu_block *block);
/* Units that have been read. */
uint32_t emu_units_read(const struct emu_hazards *hazards, const struct emu_block *block);

#endif

/*
 * Who touched what last: 128 bytes of shared or global memory, or 8 columns of 16
 * lanes of tensor memory, are a block of 32 units (words; a column is four of
 * them).  Most blocks are touched in whole units by few: a mark for each says
 * which units.  A block that needs more remembers its units one by one (units.h), or has
 * eight cells of its own (16 bytes, or a column), each of which may have four words.
 */
#ifndef TCMMA_EMU_SHADOW_H
#define TCMMA_EMU_SHADOW_H

#include "between.h"

enum {
	EMU_ONE_LANE = 7, /* `shift` of what one lane, or no lane, touches */
	EMU_WHOLE_CELL = 0xffff,
	EMU_WHOLE_WORD = 0xf,
	EMU_MOST_MARKS = 10 /* of a block */
};

struct emu_check {
	struct emu_access *access;
	struct emu_hazards *hazards;
	const struct emu_clock *writes, *reads; /* that earlier ones must be covered by */
	const struct emu_clock *fenced;         /* tensor memory: the same by the letter */
	struct emu_spot spot;
	uint8_t cta; /* 1 + the rank of the warp's; 0 where it is no access by a warp itself */
	int8_t lane; /* of the block that is touched: see struct emu_mark */
	uint8_t shift;
	const uint8_t *lanes; /* by unit, where that does not tell; NULL: it does */
	/* Notes of units.h, as of a sweep: the access's own, 0: it has none yet, and one of reads
	   that have all happened before it. */
	uint32_t note, alone, sweeps;
};

struct emu_check emu_check_begin(struct emu_access *access, enum emu_space space);

static inline uint8_t emu_atomic_scope(const struct emu_access *access)
{
	return access->atomic ? access->scope : EMU_SCOPE_NONE;
}

/* The actor's writes up to the epoch have happened before the access. */
static inline void emu_access_ordered(struct emu_access *access, uint16_t who, uint32_t epoch)
{
	access->ordered_others |= access->ordered_who && access->ordered_who != who;
	access->ordered_who = who;
	access->ordered_epoch = epoch;
}

/* Both are atomic, of scopes that hold both sides: they do not race. */
bool emu_same_cta(const struct emu_check *check, uint16_t who);
static inline bool emu_both_atomic(const struct emu_check *check, uint8_t scope, uint16_t who)
{
	const struct emu_access *a = check->access;

	if (!scope || !a->atomic)
		return false;
	return (scope > EMU_SCOPE_CTA && a->scope > EMU_SCOPE_CTA) || emu_same_cta(check, who);
}

enum emu_ordering {
	EMU_UNORDERED,
	EMU_ORDERED,
	EMU_LANES_TELL /* both are of one warp, whose lanes have not met between them */
};

/* What the order says of an earlier access: a write, or a read. */
enum emu_ordering emu_ordering_of(const struct emu_check *check, struct emu_moment earlier,
				  uint8_t scope, bool write);

/* An earlier access by the same warp whose lanes have not met since. */
static inline bool emu_same_step(const struct emu_access *access, uint16_t who, uint32_t epoch)
{
	return access->kind == EMU_ACTOR_WARP && access->in_order && who == access->moment.who &&
	       epoch == access->moment.epoch;
}

/* Whether what comes behind the read that looks comes behind an earlier read too: lanes of a warp
   stand beside each other until they meet. */
static inline enum emu_ordering emu_read_covers(const struct emu_check *check, uint16_t who,
						uint32_t epoch)
{
	const struct emu_access *a = check->access;

	if (who != a->moment.who)
		return emu_clock_at(check->reads, who) >= epoch ? EMU_ORDERED : EMU_UNORDERED;
	return emu_same_step(a, who, epoch) ? EMU_LANES_TELL : EMU_ORDERED;
}

/* Whether they are two, or may be. */
static inline bool emu_lanes_differ(uint8_t a, uint8_t b)
{
	return (a != b || a == EMU_SEVERAL_LANES) && a != EMU_ANY_LANE && b != EMU_ANY_LANE;
}

/* The lane of a unit; of several that share its bytes, the last. */
static inline uint8_t emu_lane_of(int8_t lane, uint8_t shift, uint32_t unit)
{
	return (uint8_t)(lane + (int)((4 * unit + 3) >> shift));
}

static inline uint8_t emu_own_lane(const struct emu_check *check, uint32_t unit)
{
	return check->lanes ? check->lanes[unit] : emu_lane_of(check->lane, check->shift, unit);
}

/* An access of global memory that is made in parts. */
struct emu_global_access {
	struct emu_check check;
	struct emu_between_check others;
	bool looking, tracing; /* others look at it; what it writes is kept */
};

void emu_global_begin(struct emu_global_access *global, struct emu_access *access);
void emu_global_part(struct emu_global_access *global, uint64_t address, uint64_t size);

/* Units of the block at an address as instructions give it; false where nothing has been noted. */
bool emu_access_units(struct emu_check *check, enum emu_space space, uint64_t address,
		      uint32_t units);

/* What lanes store that was there already, if that is still to be worked out. */
static inline void emu_access_same(struct emu_access *access)
{
	uint32_t lanes;

	if (!access->stored)
		return;
	access->same_lanes = emu_stored_same(access->stored);
	lanes = access->lane_bytes ? access->stored->mask : 1u << access->lane;
	access->same = !(lanes & ~access->same_lanes);
	access->stored = NULL;
}

/* ---- cells (cells.c) ------------------------------------------------------------------ */

/* `bytes` of a word; EMU_WHOLE_WORD of a cell that has no words, or of a column. */
void emu_cell_check(struct emu_check *check, struct emu_cell *cell, uint8_t bytes);
/* Bytes [first, first + size) of a cell, of which the spot tells the place. */
void emu_cell_bytes(struct emu_check *check, struct emu_cell *cell, uint32_t first, uint32_t size);
/* Its words; NULL without memory. */
struct emu_cell *emu_cell_split(struct emu_hazards *hazards, struct emu_cell *cell);
/* What the mark says of a cell or a word; later marks come later. */
void emu_cell_put(struct emu_hazards *hazards, struct emu_cell *cell, const struct emu_mark *mark,
		  uint8_t lane, uint8_t bytes);
/* The same of a word of a block, whose last byte was the lane's. */
void emu_cell_put_word(const struct emu_check *check, struct emu_cell *word,
		       const struct emu_mark *mark, uint8_t lane);
/* With its words and readers. */
void emu_cell_free(struct emu_hazards *hazards, struct emu_cell *cell);

/* ---- blocks (block.c) ------------------------------------------------------------------- */

/* False where nothing has been noted: it may race, or marks cannot hold it. */
bool emu_block_touch(struct emu_check *check, struct emu_block *block, uint32_t units);
/* What an ordered queue touched last, it touches again: most blocks of a matrix multiplication. */
static inline bool emu_block_touch_again(const struct emu_access *a, struct emu_block *b,
					 uint32_t units)
{
	if (!a->write || !a->in_order || a->kind == EMU_ACTOR_WARP || b->cells || b->units ||
	    b->more || b->read.units || b->write.who != a->moment.who || b->write.units != units)
		return false;
	b->write.epoch = a->moment.epoch;
	b->write.site = a->site;
	return true;
}

/* Its eight cells, for the access to look at; NULL without memory. */
struct emu_cell *emu_block_cells(const struct emu_check *check, struct emu_block *block);
/* All of it has been written: a mark again. */
void emu_block_written(struct emu_check *check, struct emu_block *block);
/* Its marks, the last of each kind first: their number. */
uint32_t emu_block_marks(const struct emu_hazards *hazards, const struct emu_block *block,
			 const struct emu_mark *marks[EMU_MOST_MARKS]);
void emu_block_free_marks(struct emu_hazards *hazards, struct emu_block *block);
/* Nobody has touched it. */
void emu_block_clear(struct emu_hazards *hazards, struct emu_block *block);
/* Units of which a byte has been written or read. */
void emu_block_touched(const struct emu_hazards *hazards, const struct emu_block *block,
		       uint32_t *written, uint32_t *read);
/* Lanes of column `column` of a block of tensor memory that have been written. */
uint16_t emu_block_lanes(const struct emu_hazards *hazards, const struct emu_block *block,
			 uint32_t column);

#endif

/*
 * Blocks: who touched which units of 128 bytes, or of 8 columns of tensor memory,
 * last.  What a mark cannot tell (parts of words, lanes in no order, a race that a
 * report must name the place of) is for the block's cells, which are made of its
 * marks and go when all of the block is written.
 */
#include "shadow.h"

#include <string.h>

enum {
	units_in_cell = 4,
	most_more = 8, /* marks besides the last write and the last read */
	unit_bytes = 4
};

static struct emu_mark *mark_at(const struct emu_hazards *h, uint32_t index)
{
	return emu_pool_at(&h->marks, index);
}

static struct emu_cell *cells_at(const struct emu_hazards *h, uint32_t index)
{
	return ((struct emu_cells *)emu_pool_at(&h->cells, index))->of;
}

/* ---- lanes ---------------------------------------------------------------------------- */

static inline uint8_t lane_of(int8_t lane, uint8_t shift, uint32_t byte)
{
	return (uint8_t)(lane + (int)(byte >> shift));
}

static inline bool is_any_lane(int8_t lane, uint8_t shift)
{
	return shift == EMU_ONE_LANE && (uint8_t)lane == EMU_ANY_LANE;
}

/* Some byte of the units belongs to another lane than it did. */
static bool lanes_differ(const struct emu_check *c, const struct emu_mark *m, uint32_t units)
{
	if ((m->lane == c->lane && m->shift == c->shift) || is_any_lane(m->lane, m->shift) ||
	    is_any_lane(c->lane, c->shift))
		return false;
	for (uint32_t byte = 0; byte < EMU_BLOCK_BYTES; byte++)
		if (units >> byte / unit_bytes & 1 &&
		    lane_of(m->lane, m->shift, byte) != lane_of(c->lane, c->shift, byte))
			return true;
	return false;
}

/* ---- whether an access is in order with a mark ------------------------------------------- */

static bool ordered(const struct emu_check *c, const struct emu_mark *m, uint32_t units)
{
	struct emu_access *a = c->access;
	const struct emu_clock *clock = m->write ? c->writes : c->reads;

	units &= m->units;
	if (!units)
		return true;
	if (m->write && m->who == a->ordered_who && m->epoch <= a->ordered_epoch)
		return true;
	if (m->who == a->moment.who && a->in_order)
		return a->kind != EMU_ACTOR_WARP || m->epoch != a->moment.epoch ||
		       m->site == a->site || !lanes_differ(c, m, units);
	if (emu_clock_at(clock, m->who) >= m->epoch &&
	    (!c->fenced || emu_clock_at(c->fenced, m->who) >= m->epoch)) {
		if (m->write && m->who != a->moment.who) {
			a->ordered_who = m->who;
			a->ordered_epoch = m->epoch;
		}
		return true;
	}
	return m->who == a->also || emu_both_atomic(c, m->atomic, m->who) ||
	       (m->write && a->same && c->hazards->actors[m->who].kind == EMU_ACTOR_WARP);
}

static bool all_ordered(const struct emu_check *c, const struct emu_block *b, uint32_t units)
{
	bool write = c->access->write;

	if (!ordered(c, &b->write, units) || (write && !ordered(c, &b->read, units)))
		return false;
	for (uint32_t i = b->more; i; i = mark_at(c->hazards, i)->next)
		if ((write || mark_at(c->hazards, i)->write) &&
		    !ordered(c, mark_at(c->hazards, i), units))
			return false;
	return true;
}

/* ---- marks ---------------------------------------------------------------------------------- */

static void free_marks(struct emu_hazards *h, struct emu_block *b)
{
	while (b->more) {
		uint32_t next = mark_at(h, b->more)->next;

		emu_pool_give(&h->marks, b->more);
		b->more = next;
	}
}

/* Units of the mark that the access takes over; a read that nothing orders stays. */
static inline uint32_t taken(const struct emu_check *c, const struct emu_mark *m, uint32_t units)
{
	const struct emu_access *a = c->access;

	units &= m->units;
	if (!units || a->write)
		return units;
	if (m->write)
		return 0;
	return m->who == a->moment.who || emu_clock_at(c->reads, m->who) >= m->epoch ? units : 0;
}

/* The number of marks that stay behind the last ones. */
static uint32_t take_over(const struct emu_check *c, struct emu_block *b, uint32_t units)
{
	uint32_t *link = &b->more, count = 0;

	b->write.units &= ~taken(c, &b->write, units);
	b->read.units &= ~taken(c, &b->read, units);
	while (*link) {
		struct emu_mark *m = mark_at(c->hazards, *link);
		uint32_t index = *link;

		m->units &= ~taken(c, m, units);
		if (m->units) {
			link = &m->next;
			count++;
		} else {
			*link = m->next;
			emu_pool_give(&c->hazards->marks, index);
		}
	}
	return count;
}

static inline bool same_mark(const struct emu_mark *a, const struct emu_mark *b)
{
	return a->who == b->who && a->epoch == b->epoch && a->site == b->site &&
	       a->lane == b->lane && a->shift == b->shift && a->atomic == b->atomic;
}

static inline struct emu_mark mark_of(const struct emu_check *c, uint32_t units)
{
	const struct emu_access *a = c->access;

	return (struct emu_mark){.units = units,
				 .epoch = a->moment.epoch,
				 .site = a->site,
				 .who = a->moment.who,
				 .atomic = emu_atomic_scope(a),
				 .lane = c->lane,
				 .shift = c->shift,
				 .write = a->write};
}

static bool push(struct emu_hazards *h, struct emu_block *b, const struct emu_mark *mark)
{
	uint32_t index = emu_pool_take(&h->marks);

	if (!index)
		return false;
	*mark_at(h, index) = *mark;
	mark_at(h, index)->next = b->more;
	b->more = index;
	return true;
}

/* What an ordered queue touched last, it touches again: most blocks of a matrix multiplication. */
static inline bool touch_again(const struct emu_access *a, struct emu_block *b, uint32_t units)
{
	if (!a->write || !a->in_order || a->kind == EMU_ACTOR_WARP || b->read.units || b->more ||
	    b->write.who != a->moment.who || b->write.units != units)
		return false;
	b->write.epoch = a->moment.epoch;
	b->write.site = a->site;
	return true;
}

bool emu_block_touch(struct emu_check *c, struct emu_block *b, uint32_t units)
{
	const struct emu_access *a = c->access;
	struct emu_mark now, *last = a->write ? &b->write : &b->read;
	uint32_t count = 0;

	if (b->cells || (a->defined && units & ~b->valid))
		return false;
	if (touch_again(a, b, units))
		return true;
	if (!all_ordered(c, b, units))
		return false;
	if (b->more) {
		count = take_over(c, b, units);
	} else {
		b->write.units &= ~taken(c, &b->write, units);
		b->read.units &= ~taken(c, &b->read, units);
	}
	now = mark_of(c, units);
	if (last->units && same_mark(last, &now))
		now.units |= last->units;
	else if (last->units && (count >= most_more || !push(c->hazards, b, last)))
		return false;
	*last = now;
	if (a->write)
		b->valid |= units;
	return true;
}

/* ---- cells -------------------------------------------------------------------------------------
 */

/* The last lane of a word counts, with its bytes. */
static void put_word(struct emu_hazards *h, struct emu_cell *word, const struct emu_mark *m,
		     uint32_t byte)
{
	uint8_t bytes =
		m->shift < 2 ? (uint8_t)(EMU_WHOLE_WORD << (4 - (1 << m->shift)) & EMU_WHOLE_WORD)
			     : EMU_WHOLE_WORD;

	emu_cell_put(h, word, m, lane_of(m->lane, m->shift, byte + unit_bytes - 1), bytes);
}

static void put(struct emu_hazards *h, struct emu_cell *cell, const struct emu_mark *m, uint32_t i)
{
	uint32_t units = m->units >> units_in_cell * i & 0xf, byte = i * EMU_CELL_BYTES;
	struct emu_cell *words;

	if (!units)
		return;
	if (units == 0xf && m->shift >= 4 && !cell->words) {
		emu_cell_put(h, cell, m, lane_of(m->lane, m->shift, byte), EMU_WHOLE_WORD);
		return;
	}
	words = emu_cell_split(h, cell);
	for (uint32_t w = 0; words && w < units_in_cell; w++)
		if (units >> w & 1)
			put_word(h, &words[w], m, byte + w * unit_bytes);
}

static uint16_t bytes_of(uint32_t units)
{
	uint32_t bytes = 0;

	for (uint32_t w = 0; w < units_in_cell; w++)
		bytes |= (units >> w & 1) * 0xfu << w * unit_bytes;
	return (uint16_t)bytes;
}

struct emu_cell *emu_block_cells(struct emu_hazards *h, struct emu_block *b)
{
	const struct emu_mark *marks[most_more + 3];
	struct emu_cell *cells;
	uint32_t count = 0;

	if (b->cells)
		return cells_at(h, b->cells);
	b->cells = emu_pool_take(&h->cells);
	if (!b->cells)
		return NULL;
	cells = cells_at(h, b->cells);
	memset(cells, 0, sizeof(struct emu_cells));
	marks[count++] = &b->write;
	marks[count++] = &b->read;
	for (uint32_t i = b->more; i && count < most_more + 3; i = mark_at(h, i)->next)
		marks[count++] = mark_at(h, i);
	for (uint32_t i = 0; i < EMU_BLOCK_CELLS; i++) {
		cells[i].valid = bytes_of(b->valid >> units_in_cell * i & 0xf);
		for (uint32_t m = count; m; m--)
			put(h, &cells[i], marks[m - 1], i);
	}
	free_marks(h, b);
	return cells;
}

static void free_cells(struct emu_hazards *h, struct emu_block *b)
{
	if (!b->cells)
		return;
	for (uint32_t i = 0; i < EMU_BLOCK_CELLS; i++)
		emu_cell_free(h, &cells_at(h, b->cells)[i]);
	emu_pool_give(&h->cells, b->cells);
	b->cells = 0;
}

void emu_block_clear(struct emu_hazards *h, struct emu_block *b)
{
	free_cells(h, b);
	free_marks(h, b);
	*b = (struct emu_block){0};
}

void emu_block_written(struct emu_check *c, struct emu_block *b)
{
	emu_block_clear(c->hazards, b);
	b->write = mark_of(c, UINT32_MAX);
	b->valid = UINT32_MAX;
}

/* ---- what has been touched ---------------------------------------------------------------------
 */

static void spread(uint32_t units, uint64_t bytes[2])
{
	for (int half = 0; half < 2; half++, units >>= 16) {
		uint64_t x = units & 0xffff;

		x = (x | x << 24) & 0x000000ff000000ffull;
		x = (x | x << 12) & 0x000f000f000f000full;
		x = (x | x << 6) & 0x0303030303030303ull;
		x = (x | x << 3) & 0x1111111111111111ull;
		bytes[half] = x * 0xf;
	}
}

/* Whole words; what was written behind the read need not be in it. */
static uint16_t read_of(const struct emu_hazards *h, const struct emu_cell *cell)
{
	const struct emu_words *words;
	uint32_t units = 0;

	if (!cell->words)
		return cell->read_who ? EMU_WHOLE_CELL : 0;
	words = emu_pool_at(&h->words, cell->words);
	for (uint32_t i = 0; i < units_in_cell; i++)
		units |= (uint32_t)(words->of[i].read_who != 0) << i;
	return bytes_of(units);
}

void emu_block_touched(const struct emu_hazards *h, const struct emu_block *b, uint64_t written[2],
		       uint64_t read[2])
{
	uint32_t units = b->read.units;

	if (!b->cells) {
		for (uint32_t i = b->more; i; i = mark_at(h, i)->next)
			if (!mark_at(h, i)->write)
				units |= mark_at(h, i)->units;
		spread(b->valid, written);
		spread(units, read);
		return;
	}
	written[0] = written[1] = read[0] = read[1] = 0;
	for (uint32_t i = 0; i < EMU_BLOCK_CELLS; i++) {
		const struct emu_cell *cell = &cells_at(h, b->cells)[i];

		written[i / 4] |= (uint64_t)cell->valid << i % 4 * EMU_CELL_BYTES;
		read[i / 4] |= (uint64_t)read_of(h, cell) << i % 4 * EMU_CELL_BYTES;
	}
}

uint16_t emu_block_lanes(const struct emu_hazards *h, const struct emu_block *b, uint32_t column)
{
	return b->cells ? cells_at(h, b->cells)[column].valid
			: bytes_of(b->valid >> units_in_cell * column & 0xf);
}

/*
 * Blocks: who touched which units of 128 bytes, or of 8 columns of tensor memory,
 * last.  Where marks cannot tell (lanes in no order, many accesses) the block
 * remembers each unit by itself (units.c); parts of words, and a race that a report
 * must name the place of, are for its cells.  Both are made of the marks, and go when
 * all of the block is written.
 */
#include "units.h"

#include <string.h>

enum {
	units_in_cell = 4,
	most_more = EMU_MOST_MARKS - 2, /* besides the last write and the last read */
	most_of_one_lane = 1,           /* a sign that more lanes will come one by one */
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

/* ---- whether an access is in order with a mark ------------------------------------------- */

static inline uint8_t lane_of_byte(int8_t lane, uint8_t shift, uint32_t byte)
{
	return (uint8_t)(lane + (int)(byte >> shift));
}

static bool lane_races(const struct emu_check *c, const struct emu_mark *m, uint32_t byte)
{
	return emu_lanes_differ(lane_of_byte(m->lane, m->shift, byte),
				lane_of_byte(c->lane, c->shift, byte));
}

/* Lanes of one warp that have not met; the same instruction may touch one place twice. */
static bool lanes_race(const struct emu_check *c, const struct emu_mark *m, uint32_t units)
{
	if (m->site == c->access->site || (m->lane == c->lane && m->shift == c->shift))
		return false;
	for (uint32_t rest = units; rest; rest &= rest - 1)
		for (uint32_t byte = 0; byte < unit_bytes; byte++)
			if (lane_races(c, m, unit_bytes * (uint32_t)__builtin_ctz(rest) + byte))
				return true;
	return false;
}

enum emu_ordering emu_ordering_of(const struct emu_check *c, struct emu_moment earlier,
				  uint8_t scope, bool write)
{
	struct emu_access *a = c->access;
	const struct emu_clock *clock = write ? c->writes : c->reads;

	if (earlier.who == a->moment.who && a->in_order) {
		if (a->kind != EMU_ACTOR_WARP || earlier.epoch != a->moment.epoch)
			return EMU_ORDERED;
		return emu_both_atomic(c, scope, earlier.who) ? EMU_ORDERED : EMU_LANES_TELL;
	}
	if (emu_clock_at(clock, earlier.who) >= earlier.epoch &&
	    (!c->fenced || emu_clock_at(c->fenced, earlier.who) >= earlier.epoch)) {
		if (write && earlier.who != a->moment.who)
			emu_access_ordered(a, earlier.who, earlier.epoch);
		return EMU_ORDERED;
	}
	if (earlier.who == a->also || emu_both_atomic(c, scope, earlier.who) ||
	    (write && a->same && c->hazards->actors[earlier.who].kind == EMU_ACTOR_WARP))
		return EMU_ORDERED;
	return EMU_UNORDERED;
}

static bool ordered_late(const struct emu_check *c, const struct emu_mark *m, uint32_t units)
{
	struct emu_moment earlier = {m->who, m->epoch};
	enum emu_ordering ordering = emu_ordering_of(c, earlier, m->atomic, m->write);

	return ordering == EMU_ORDERED || (ordering == EMU_LANES_TELL && !lanes_race(c, m, units));
}

static inline bool ordered(const struct emu_check *c, const struct emu_mark *m, uint32_t units)
{
	const struct emu_access *a = c->access;

	units &= m->units;
	return !units || (m->write && m->who == a->ordered_who && m->epoch <= a->ordered_epoch) ||
	       ordered_late(c, m, units);
}

static bool more_ordered(const struct emu_check *c, const struct emu_block *b, uint32_t units)
{
	bool write = c->access->write;

	for (uint32_t i = b->more; i; i = mark_at(c->hazards, i)->next)
		if ((write || mark_at(c->hazards, i)->write) &&
		    !ordered(c, mark_at(c->hazards, i), units))
			return false;
	return true;
}

static inline bool all_ordered(const struct emu_check *c, const struct emu_block *b, uint32_t units)
{
	return ordered(c, &b->write, units) && (!c->access->write || ordered(c, &b->read, units)) &&
	       (!(b->more_units & units) || more_ordered(c, b, units));
}

/* ---- marks that go ------------------------------------------------------------------------- */

void emu_block_free_marks(struct emu_hazards *h, struct emu_block *b)
{
	b->write.units = b->read.units = 0;
	while (b->more) {
		uint32_t next = mark_at(h, b->more)->next;

		emu_pool_give(&h->marks, b->more);
		b->more = next;
	}
	b->more_units = b->more_count = 0;
}

static inline bool covers(const struct emu_check *c, const struct emu_mark *m)
{
	enum emu_ordering ordering = emu_read_covers(c, m->who, m->epoch);

	return ordering == EMU_ORDERED ||
	       (ordering == EMU_LANES_TELL && m->lane == c->lane && m->shift == c->shift);
}

/* The access takes over units of the mark. */
static inline void take_over(const struct emu_check *c, struct emu_mark *m, uint32_t units)
{
	units &= m->units;
	if (units && (c->access->write || (!m->write && covers(c, m))))
		m->units &= ~units;
}

static void take_over_more(const struct emu_check *c, struct emu_block *b, uint32_t units)
{
	uint32_t *link = &b->more;

	b->more_units = 0;
	while (*link) {
		struct emu_mark *m = mark_at(c->hazards, *link);
		uint32_t index = *link;

		take_over(c, m, units);
		b->more_units |= m->units;
		if (m->units) {
			link = &m->next;
		} else {
			*link = m->next;
			emu_pool_give(&c->hazards->marks, index);
			b->more_count--;
		}
	}
}

/* ---- marks that come ------------------------------------------------------------------------ */

static void set(const struct emu_check *c, struct emu_mark *m, uint32_t units)
{
	const struct emu_access *a = c->access;

	*m = (struct emu_mark){.units = units,
			       .epoch = a->moment.epoch,
			       .site = a->site,
			       .next = m->next,
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
	b->more_units |= mark->units;
	b->more_count++;
	return true;
}

/* One mark for all that an instruction has touched in an epoch, but for lanes that share words. */
static inline bool joins(const struct emu_check *c, const struct emu_mark *m)
{
	const struct emu_access *a = c->access;

	return m->units && m->who == a->moment.who && m->epoch == a->moment.epoch &&
	       m->write == a->write && m->atomic == emu_atomic_scope(a) && m->site == a->site &&
	       m->lane == c->lane && m->shift == c->shift && m->shift >= 2;
}

/* That of a warp may have others behind it since. */
static struct emu_mark *mark_to_join(const struct emu_check *c, struct emu_block *b)
{
	struct emu_mark *last = c->access->write ? &b->write : &b->read;

	if (joins(c, last))
		return last;
	for (uint32_t i = c->access->kind == EMU_ACTOR_WARP ? b->more : 0; i;
	     i = mark_at(c->hazards, i)->next)
		if (joins(c, mark_at(c->hazards, i)))
			return mark_at(c->hazards, i);
	return NULL;
}

static bool note(const struct emu_check *c, struct emu_block *b, uint32_t units)
{
	struct emu_mark *last = c->access->write ? &b->write : &b->read;
	struct emu_mark *own = mark_to_join(c, b);
	bool one_lane = c->shift == EMU_ONE_LANE && c->access->kind == EMU_ACTOR_WARP;
	uint32_t most = one_lane ? most_of_one_lane : most_more;

	if (own) {
		own->units |= units;
		b->more_units |= own == last ? 0 : units;
		return true;
	}
	if (last->units && (b->more_count >= most || !push(c->hazards, b, last)))
		return false;
	set(c, last, units);
	return true;
}

/* Units that have been read since they were written will be once more. */
static bool touch_units(struct emu_check *c, struct emu_block *b, uint32_t units)
{
	const struct emu_access *a = c->access;
	bool whole = a->write && units == UINT32_MAX && !c->lanes, again;

	if (!b->units && !emu_units_begin(c->hazards, b, c->cta))
		return false;
	again = whole && a->kind == EMU_ACTOR_WARP && emu_units_read(c->hazards, b);
	if (!emu_units_touch(c, b, units))
		return false;
	if (whole && !again)
		emu_block_written(c, b);
	else if (a->write)
		b->valid |= units;
	return true;
}

bool emu_block_touch(struct emu_check *c, struct emu_block *b, uint32_t units)
{
	const struct emu_access *a = c->access;

	if (b->cells || a->looking || (a->defined && units & ~b->valid))
		return false;
	if (b->units || c->lanes)
		return touch_units(c, b, units);
	if (emu_block_touch_again(a, b, units))
		return true;
	if (!all_ordered(c, b, units))
		return false;
	take_over(c, &b->write, units);
	take_over(c, &b->read, units);
	if (b->more_units & units)
		take_over_more(c, b, units);
	if (!note(c, b, units))
		return !c->fenced && touch_units(c, b, units);
	if (a->write)
		b->valid |= units;
	return true;
}

/* ---- cells -------------------------------------------------------------------------------------
 */

static void put(const struct emu_check *c, struct emu_cell *cell, const struct emu_mark *m,
		uint32_t i)
{
	uint32_t units = m->units >> units_in_cell * i & 0xf, byte = i * EMU_CELL_BYTES;
	struct emu_cell *words;

	if (!units)
		return;
	if (units == 0xf && m->shift >= 4 && !cell->words) {
		emu_cell_put(c->hazards, cell, m, lane_of_byte(m->lane, m->shift, byte),
			     EMU_WHOLE_WORD);
		return;
	}
	words = emu_cell_split(c->hazards, cell);
	for (uint32_t w = 0; words && w < units_in_cell; w++)
		if (units >> w & 1)
			emu_cell_put_word(c, &words[w], m,
					  emu_lane_of(m->lane, m->shift, units_in_cell * i + w));
}

static uint16_t bytes_of(uint32_t units)
{
	uint32_t bytes = 0;

	for (uint32_t w = 0; w < units_in_cell; w++)
		bytes |= (units >> w & 1) * 0xfu << w * unit_bytes;
	return (uint16_t)bytes;
}

uint32_t emu_block_marks(const struct emu_hazards *h, const struct emu_block *b,
			 const struct emu_mark *marks[EMU_MOST_MARKS])
{
	uint32_t count = 0;

	marks[count++] = &b->write;
	marks[count++] = &b->read;
	for (uint32_t i = b->more; i && count < EMU_MOST_MARKS; i = mark_at(h, i)->next)
		marks[count++] = mark_at(h, i);
	return count;
}

static void put_marks(const struct emu_check *c, const struct emu_block *b, struct emu_cell *cells)
{
	const struct emu_mark *marks[EMU_MOST_MARKS];
	uint32_t count = emu_block_marks(c->hazards, b, marks);

	for (uint32_t i = 0; i < EMU_BLOCK_CELLS; i++)
		for (uint32_t m = count; m; m--)
			put(c, &cells[i], marks[m - 1], i);
}

struct emu_cell *emu_block_cells(const struct emu_check *c, struct emu_block *b)
{
	struct emu_hazards *h = c->hazards;
	struct emu_cell *cells;

	if (b->cells)
		return cells_at(h, b->cells);
	b->cells = emu_pool_take(&h->cells);
	if (!b->cells)
		return NULL;
	cells = cells_at(h, b->cells);
	memset(cells, 0, sizeof(struct emu_cells));
	for (uint32_t i = 0; i < EMU_BLOCK_CELLS; i++)
		cells[i].valid = bytes_of(b->valid >> units_in_cell * i & 0xf);
	if (b->units)
		emu_units_put(c, b, cells);
	else
		put_marks(c, b, cells);
	emu_units_give(h, b);
	emu_block_free_marks(h, b);
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
	emu_units_give(h, b);
	emu_block_free_marks(h, b);
	*b = (struct emu_block){0};
}

void emu_block_written(struct emu_check *c, struct emu_block *b)
{
	emu_block_clear(c->hazards, b);
	b->valid = UINT32_MAX;
	set(c, &b->write, UINT32_MAX);
}

/* ---- what has been touched ---------------------------------------------------------------------
 */

static uint32_t units_written(const struct emu_cell *cell)
{
	uint32_t units = 0;

	for (uint32_t w = 0; w < units_in_cell; w++)
		units |= (uint32_t)((cell->valid >> w * unit_bytes & 0xf) != 0) << w;
	return units;
}

/* What was written behind the read need not be in it. */
static uint32_t units_read(const struct emu_hazards *h, const struct emu_cell *cell)
{
	const struct emu_words *words;
	uint32_t units = 0;

	if (!cell->words)
		return cell->read_who ? 0xf : 0;
	words = emu_pool_at(&h->words, cell->words);
	for (uint32_t w = 0; w < units_in_cell; w++)
		units |= (uint32_t)(words->of[w].read_who != 0) << w;
	return units;
}

void emu_block_touched(const struct emu_hazards *h, const struct emu_block *b, uint32_t *written,
		       uint32_t *read)
{
	*written = b->valid;
	*read = b->units ? emu_units_read(h, b) : b->read.units;
	for (uint32_t i = b->more; i; i = mark_at(h, i)->next)
		if (!mark_at(h, i)->write)
			*read |= mark_at(h, i)->units;
	if (!b->cells)
		return;
	*written = *read = 0;
	for (uint32_t i = 0; i < EMU_BLOCK_CELLS; i++) {
		const struct emu_cell *cell = &cells_at(h, b->cells)[i];

		*written |= units_written(cell) << units_in_cell * i;
		*read |= units_read(h, cell) << units_in_cell * i;
	}
}

uint16_t emu_block_lanes(const struct emu_hazards *h, const struct emu_block *b, uint32_t column)
{
	return b->cells ? cells_at(h, b->cells)[column].valid
			: bytes_of(b->valid >> units_in_cell * column & 0xf);
}

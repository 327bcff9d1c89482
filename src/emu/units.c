/*
 * Blocks unit by unit: what lanes in no order, several instructions of one warp, or many warps
 * touch.  Units that are alike are looked at together.
 */
#include "wide.h"

#include "later.h"
#include "units.h"

enum {
	unit_bytes = 4,
	units_in_cell = 4
};

/* ---- rows ---------------------------------------------------------------------------------- */

/* Units whose note is `note`, those whose note is younger; and those of `units` become it. */
#define ROWS(name, attribute)                                                                      \
	attribute static uint32_t equal##name(const uint32_t *row, uint32_t note)                  \
	{                                                                                          \
		uint32_t units = 0;                                                                \
                                                                                                   \
		for (int i = 0; i < EMU_BLOCK_UNITS; i++)                                          \
			units |= (uint32_t)(row[i] == note) << i;                                  \
		return units;                                                                      \
	}                                                                                          \
	attribute static uint32_t younger##name(const uint32_t *row, uint32_t note)                \
	{                                                                                          \
		uint32_t units = 0;                                                                \
                                                                                                   \
		for (int i = 0; i < EMU_BLOCK_UNITS; i++)                                          \
			units |= (uint32_t)(row[i] > note) << i;                                   \
		return units;                                                                      \
	}                                                                                          \
	attribute static void put##name(uint32_t *row, uint32_t units, uint32_t note)              \
	{                                                                                          \
		for (int i = 0; i < EMU_BLOCK_UNITS; i++)                                          \
			row[i] = units >> i & 1 ? note : row[i];                                   \
	}                                                                                          \
	attribute static void put_lanes##name(uint8_t *row, uint32_t units, const uint8_t *lanes)  \
	{                                                                                          \
		for (int i = 0; i < EMU_BLOCK_UNITS; i++)                                          \
			row[i] = units >> i & 1 ? lanes[i] : row[i];                               \
	}

ROWS(, )
#if EMU_HAVE_WIDE
ROWS(_wide, EMU_WIDE)
#define WIDE(name) (emu_host_is_wide() ? name##_wide : name)
#else
#define WIDE(name) name
#endif

/* Not worth a look at all of a row: a word, or what one lane moves. */
static inline bool few(uint32_t units)
{
	units &= units - 1;
	units &= units - 1;
	units &= units - 1;
	return !(units & (units - 1));
}

static inline uint32_t first_of(uint32_t units)
{
	return (uint32_t)__builtin_ctz(units);
}

/* Those of `units` that have the note of the first one. */
static inline uint32_t alike(const uint32_t *row, uint32_t units)
{
	uint32_t note = row[first_of(units)], same = 0;

	if (!few(units))
		return units & WIDE(equal)(row, note);
	EMU_FOR_LANES(unit, units)
	{
		same |= (uint32_t)(row[unit] == note) << unit;
	}
	return same;
}

/* Those of `units` that are not known to be before whatever their CTA does now. */
static inline uint32_t recent(const uint32_t *row, uint32_t units, uint32_t met)
{
	uint32_t since = 0;

	if (!few(units))
		return units & WIDE(younger)(row, met);
	EMU_FOR_LANES(unit, units)
	{
		since |= (uint32_t)(row[unit] > met) << unit;
	}
	return since;
}

static inline void set(uint32_t *row, uint32_t units, uint32_t note)
{
	if (!few(units)) {
		WIDE(put)(row, units, note);
		return;
	}
	EMU_FOR_LANES(unit, units)
	{
		row[unit] = note;
	}
}

/* Those of `units` that another lane of the instruction has touched, which come one by one. */
static inline uint32_t touched_again(const struct emu_check *c, const uint32_t *row, uint32_t units)
{
	uint32_t again = 0;

	EMU_FOR_LANES(unit, few(units) && c->note ? units : 0)
	{
		again |= (uint32_t)(row[unit] == c->note) << unit;
	}
	return again;
}

/* `again`: units that other lanes of the instruction have touched before. */
static void set_lanes(const struct emu_check *c, uint8_t *row, uint32_t units, uint32_t again)
{
	uint8_t linear[EMU_BLOCK_UNITS];

	if (few(units)) {
		EMU_FOR_LANES(unit, units)
		{
			row[unit] = again >> unit & 1 ? EMU_SEVERAL_LANES : emu_own_lane(c, unit);
		}
		return;
	}
	for (uint32_t i = 0; !c->lanes && i < EMU_BLOCK_UNITS; i++)
		linear[i] = emu_own_lane(c, i);
	WIDE(put_lanes)(row, units, c->lanes ? c->lanes : linear);
}

/* ---- whether an access is in order with what is noted -------------------------------------- */

/* Where lanes share units they do so alike: the last lanes tell the others. */
static inline bool same_sharing(const struct emu_check *c, const struct emu_note *n)
{
	return (n->shift >= 2 && c->shift >= 2) || n->shift == c->shift;
}

/* Lanes of one warp that have not met; the same instruction may touch one place twice. */
static bool lanes_race(const struct emu_check *c, const struct emu_note *n, const uint8_t *lanes,
		       uint32_t units)
{
	if (n->site == c->access->site)
		return false;
	if (!same_sharing(c, n))
		return true;
	EMU_FOR_LANES(unit, units)
	{
		if (emu_lanes_differ(lanes[unit], emu_own_lane(c, unit)))
			return true;
	}
	return false;
}

static bool in_order(const struct emu_check *c, const struct emu_note *n, const uint8_t *lanes,
		     uint32_t units, bool write)
{
	struct emu_moment moment = {n->who, n->epoch};
	enum emu_ordering ordering = emu_ordering_of(c, moment, n->atomic, write);

	return ordering == EMU_ORDERED ||
	       (ordering == EMU_LANES_TELL && !lanes_race(c, n, lanes, units));
}

static inline bool after_write(const struct emu_check *c, const struct emu_units *u, uint32_t note,
			       uint32_t units)
{
	const struct emu_access *a = c->access;
	const struct emu_note *n = emu_note_at(c->hazards, note);

	return (n->who == a->ordered_who && n->epoch <= a->ordered_epoch) ||
	       emu_both_atomic(c, n->atomic, n->who) || in_order(c, n, u->write_lane, units, true);
}

static bool after_writes(const struct emu_check *c, const struct emu_units *u, uint32_t units)
{
	while (units) {
		uint32_t note = u->write[first_of(units)], same = alike(u->write, units);

		if (!after_write(c, u, note, same))
			return false;
		units &= ~same;
	}
	return true;
}

static bool after_reads(const struct emu_check *c, const struct emu_units *u, uint32_t units)
{
	while (units) {
		uint32_t note = u->read[first_of(units)], same = alike(u->read, units);
		struct emu_note_walk walk = emu_note_walk(c->hazards, note, u->read_lane);
		const struct emu_note *n;

		while ((n = emu_note_next(&walk)))
			if (!in_order(c, n, walk.lanes, same, false))
				return false;
		units &= ~same;
	}
	return true;
}

/* ---- what is noted ----------------------------------------------------------------------------
 */

/* False without memory, or where there are many. */
static bool note_reads(struct emu_check *c, struct emu_units *u, uint32_t units, uint32_t met)
{
	uint32_t rest = recent(u->read, units, met), again = touched_again(c, u->read, rest);

	if (units & ~rest)
		set(u->read, units & ~rest, c->note);
	for (uint32_t same; rest; rest &= ~same) {
		uint32_t note = u->read[first_of(rest)];

		same = alike(u->read, rest);
		if (note != c->note && note != c->alone)
			note = emu_note_beside(c, note, u->read_lane, same);
		else
			note = c->note;
		if (!note)
			return false;
		set(u->read, same, note);
	}
	set_lanes(c, u->read_lane, units, again);
	return true;
}

/* The last note that is before whatever the CTA does now, where only its warps have touched. */
static inline uint32_t met_before(const struct emu_check *c, const struct emu_units *u)
{
	return c->cta && c->cta == u->cta ? c->hazards->ctas[c->cta - 1].met : 0;
}

/* Units that the same instruction has read just so: in a loop, of which nothing has been written
   since. */
static bool noted(const struct emu_check *c, const struct emu_units *u, uint32_t units)
{
	const struct emu_access *a = c->access;
	struct emu_note_walk walk =
		emu_note_walk(c->hazards, u->read[first_of(units)], u->read_lane);
	const struct emu_note *n;

	while ((n = emu_note_next(&walk)))
		if (emu_same_step(a, n->who, n->epoch) && n->site == a->site &&
		    same_sharing(c, n) && emu_same_lanes(c, walk.lanes, units))
			return alike(u->read, units) == units;
	return false;
}

bool emu_units_touch(struct emu_check *c, struct emu_block *b, uint32_t units)
{
	struct emu_units *u = emu_units_at(c->hazards, b->units);
	uint32_t met, own, again;

	if (!c->access->write && noted(c, u, units))
		return true;
	own = emu_note_of(c);
	if (!own)
		return false;
	met = met_before(c, u);
	if (!after_writes(c, u, recent(u->write, units, met)))
		return false;
	if (u->cta != c->cta)
		u->cta = 0;
	if (!c->access->write)
		return note_reads(c, u, units, met);
	if (!after_reads(c, u, recent(u->read, units, met)))
		return false;
	again = touched_again(c, u->write, units);
	set(u->write, units, own);
	set(u->read, units, 0);
	set_lanes(c, u->write_lane, units, again);
	return true;
}

/* ---- one word for each lane ---------------------------------------------------------------------
 */

/* A write that other lanes of this instruction may race with. */
static inline bool own_step(const struct emu_check *c, uint32_t note)
{
	const struct emu_note *n = emu_note_at(c->hazards, note);

	return c->access->write && note != c->note && emu_same_step(c->access, n->who, n->epoch) &&
	       !emu_both_atomic(c, n->atomic, n->who);
}

/* False where there are reads that may not have happened before, or it may race. */
static inline bool touch_word(struct emu_check *c, struct emu_block *b, uint32_t unit, uint32_t met,
			      uint8_t lane)
{
	struct emu_units *u;

	if (!b->units || (c->access->defined && !(b->valid >> unit & 1)))
		return false;
	u = emu_units_at(c->hazards, b->units);
	if (u->cta != c->cta || u->read[unit] > met)
		return false;
	c->lane = (int8_t)lane;
	if (u->write[unit] > met &&
	    (own_step(c, u->write[unit]) || !after_write(c, u, u->write[unit], 1u << unit)))
		return false;
	if (c->access->write) {
		u->write[unit] = c->note;
		u->read[unit] = 0;
		u->write_lane[unit] = lane;
		b->valid |= 1u << unit;
	} else {
		u->read[unit] = c->note;
		u->read_lane[unit] = lane;
	}
	return true;
}

uint32_t emu_access_words(struct emu_check *c, const uint64_t *address, uint32_t mask, bool generic)
{
	struct emu_cta *cta = c->access->order->warp->cta;
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);
	uint64_t base = emu_shared_base(cta) + (generic ? EMU_WINDOW_SHARED : 0);
	uint32_t left = mask, met;

	emu_later_access(cta, c->access);
	c->lanes = NULL;
	c->shift = EMU_ONE_LANE;
	if (!emu_note_of(c))
		return mask;
	met = h->met;
	EMU_FOR_LANES(lane, mask)
	{
		uint64_t offset = address[lane] - base;

		if (offset >= cta->shared_bytes ||
		    !touch_word(c, &h->blocks[offset / EMU_BLOCK_BYTES],
				offset % EMU_BLOCK_BYTES / 4, met, (uint8_t)lane))
			break;
		left &= ~(1u << lane);
		if (c->access->write)
			h->swizzles[offset / EMU_CELL_BYTES] = c->access->swizzle;
	}
	return left;
}

/* ---- from marks, and to cells
 * ---------------------------------------------------------------------
 */

/* Marks that come are younger than those that have come. */
static bool put_mark(struct emu_hazards *h, struct emu_units *u, const struct emu_mark *m)
{
	uint32_t *row = m->write ? u->write : u->read, units = m->units;
	uint8_t *lanes = m->write ? u->write_lane : u->read_lane;

	for (uint32_t rest = units, same; rest; rest &= ~same) {
		uint32_t before = row[first_of(rest)], note;

		same = alike(row, rest);
		note = before && !m->write ? emu_note_above(h, m, before, lanes)
					   : emu_note_of_mark(h, m);
		if (!note)
			return false;
		set(row, same, note);
	}
	for (; units; units &= units - 1)
		lanes[first_of(units)] = emu_lane_of(m->lane, m->shift, first_of(units));
	return true;
}

/* 1 + the rank of a warp's; 0 of other actors. */
static uint8_t cta_of(const struct emu_hazards *h, uint16_t who)
{
	const struct emu_actor *actor = &h->actors[who];

	return actor->kind == EMU_ACTOR_WARP ? (uint8_t)(actor->order->warp->cta->rank + 1) : 0;
}

/* That of all marks; 0 where there is none. */
static uint8_t cta_of_marks(const struct emu_hazards *h, const struct emu_mark **marks,
			    uint32_t count, uint8_t cta)
{
	for (uint32_t i = 0; i < count; i++)
		if (marks[i]->units && cta_of(h, marks[i]->who) != cta)
			return 0;
	return cta;
}

bool emu_units_begin(struct emu_hazards *h, struct emu_block *b, uint8_t cta)
{
	const struct emu_mark *marks[EMU_MOST_MARKS];
	uint32_t count = emu_block_marks(h, b, marks), index = emu_pool_take(&h->units);
	struct emu_units *u;
	bool done = true;

	if (!index)
		return false;
	u = emu_units_at(h, index);
	memset(u, 0, sizeof *u);
	u->used = true;
	u->cta = cta_of_marks(h, marks, count, cta);
	while (done && count)
		done = put_mark(h, u, marks[--count]);
	u->used = done;
	if (done) {
		emu_block_free_marks(h, b);
		b->units = index;
	} else {
		emu_pool_give(&h->units, index);
	}
	return done;
}

static void put_word(const struct emu_check *c, struct emu_cell *word, const struct emu_note *n,
		     uint8_t lane, bool write)
{
	struct emu_mark mark = {.epoch = n->epoch,
				.site = n->site,
				.who = n->who,
				.atomic = n->atomic,
				.shift = n->shift,
				.write = write};

	emu_cell_put_word(c, word, &mark, lane);
}

static void put_reads(const struct emu_check *c, struct emu_cell *word, uint32_t note,
		      const uint8_t *lanes, uint32_t unit)
{
	struct emu_note_walk walk = emu_note_walk(c->hazards, note, lanes);
	const struct emu_note *n = emu_note_next(&walk);

	if (!n)
		return;
	put_reads(c, word, walk.note, walk.next_lanes, unit);
	put_word(c, word, n, lanes[unit], false);
}

void emu_units_put(const struct emu_check *c, const struct emu_block *b, struct emu_cell *cells)
{
	for (uint32_t i = 0; i < EMU_BLOCK_UNITS; i++) {
		/* The pools of the cells do not hold units: these stay where they are. */
		const struct emu_units *u = emu_units_at(c->hazards, b->units);
		struct emu_cell *words;

		if (!u->write[i] && !u->read[i])
			continue;
		words = emu_cell_split(c->hazards, &cells[i / units_in_cell]);
		if (!words)
			return;
		if (u->write[i])
			put_word(c, &words[i % units_in_cell], emu_note_at(c->hazards, u->write[i]),
				 u->write_lane[i], true);
		put_reads(c, &words[i % units_in_cell], u->read[i], u->read_lane, i);
	}
}

void emu_units_give(struct emu_hazards *h, struct emu_block *b)
{
	if (!b->units)
		return;
	emu_units_at(h, b->units)->used = false;
	emu_pool_give(&h->units, b->units);
	b->units = 0;
}

uint32_t emu_units_read(const struct emu_hazards *h, const struct emu_block *b)
{
	return ~WIDE(equal)(emu_units_at(h, b->units)->read, 0);
}

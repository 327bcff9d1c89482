/*
 * Notes of accesses, for blocks that remember each unit by itself.  An instruction leaves one
 * note, whatever it has touched, and reads that stand beside each other are a list of notes
 * that all their units share.  Now and then those that no unit names any more are swept.
 */
#include "units.h"

#include <stdlib.h>

enum {
	least_notes = 4096,
	most_beside = 64 /* reads */
};

void emu_notes_free(struct emu_notes *n)
{
	free(n->items);
	free(n->rows);
}

/* ---- sweeping ------------------------------------------------------------------------------ */

struct sweep {
	uint32_t *note, *row; /* what becomes of each: 0 goes */
};

static void keep(const struct emu_notes *n, struct sweep *s, uint32_t note)
{
	while (note && !s->note[note]) {
		const struct emu_note *item = &n->items[note - 1];

		s->note[note] = 1;
		if (item->others)
			s->row[item->lanes] = 1;
		note = item->others;
	}
}

static void keep_named(const struct emu_hazards *h, struct sweep *s)
{
	for (uint32_t i = 1; i <= h->units.count; i++) {
		const struct emu_units *u = emu_units_at(h, i);

		for (int unit = 0; u->used && unit < EMU_BLOCK_UNITS; unit++) {
			keep(&h->notes, s, u->write[unit]);
			keep(&h->notes, s, u->read[unit]);
		}
	}
}

/* Those behind move up: a note names older ones alone. */
static void close_up(struct emu_notes *n, struct sweep *s)
{
	uint32_t notes = 0, rows = 0;

	for (uint32_t i = 0; i < n->row_count; i++) {
		if (!s->row[i])
			continue;
		memmove(n->rows[rows], n->rows[i], sizeof *n->rows);
		s->row[i] = rows++;
	}
	n->row_count = rows;
	for (uint32_t i = 1; i <= n->count; i++) {
		struct emu_note note = n->items[i - 1];

		if (!s->note[i])
			continue;
		if (note.others) {
			note.others = s->note[note.others];
			note.lanes = s->row[note.lanes];
		}
		n->items[notes++] = note;
		s->note[i] = notes;
	}
	n->count = notes;
}

static void rename_all(struct emu_hazards *h, const struct sweep *s)
{
	for (uint32_t i = 1; i <= h->units.count; i++) {
		struct emu_units *u = emu_units_at(h, i);

		for (int unit = 0; u->used && unit < EMU_BLOCK_UNITS; unit++) {
			u->write[unit] = s->note[u->write[unit]];
			u->read[unit] = s->note[u->read[unit]];
		}
	}
}

/* The last one that is kept. */
static uint32_t renamed(const struct sweep *s, uint32_t note)
{
	while (note && !s->note[note])
		note--;
	return s->note[note];
}

static void sweep(struct emu_hazards *h)
{
	struct emu_notes *n = &h->notes;
	struct sweep s = {calloc(n->count + 1, sizeof *s.note),
			  calloc(n->row_count + 1, sizeof *s.row)};

	if (s.note && s.row) {
		keep_named(h, &s);
		close_up(n, &s);
		rename_all(h, &s);
		for (int i = 0; i < h->cluster->cta_count; i++)
			h->ctas[i].met = renamed(&s, h->ctas[i].met);
		n->sweeps++;
	}
	free(s.note);
	free(s.row);
	n->limit = 4 * n->count > least_notes ? 4 * n->count : least_notes;
}

/* ---- notes and rows ----------------------------------------------------------------------------
 */

/* Whose fields are to be set; NULL without memory. */
static struct emu_note *new_note(struct emu_notes *n)
{
	if (n->count == n->room) {
		uint32_t room = n->room ? 2 * n->room : least_notes;
		struct emu_note *items = realloc(n->items, room * sizeof *items);

		if (!items)
			return NULL;
		n->items = items;
		n->room = room;
	}
	return &n->items[n->count++];
}

static uint32_t add_note(struct emu_notes *n, const struct emu_note *note)
{
	struct emu_note *added = new_note(n);

	if (!added)
		return 0;
	*added = *note;
	return n->count;
}

/* False without memory. */
static bool add_row(struct emu_notes *n, const uint8_t *lanes, uint32_t *row)
{
	if (n->row_count == n->row_room) {
		uint32_t room = n->row_room ? 2 * n->row_room : least_notes / 4;
		uint8_t(*rows)[EMU_BLOCK_UNITS] = realloc(n->rows, room * sizeof *rows);

		if (!rows)
			return false;
		n->rows = rows;
		n->row_room = room;
	}
	memcpy(n->rows[n->row_count], lanes, sizeof *n->rows);
	*row = n->row_count++;
	return true;
}

uint32_t emu_note_of(struct emu_check *c)
{
	const struct emu_access *a = c->access;
	struct emu_note *note;

	if (c->note && c->sweeps == c->hazards->notes.sweeps)
		return c->note;
	if (c->hazards->notes.count >= c->hazards->notes.limit)
		sweep(c->hazards);
	c->sweeps = c->hazards->notes.sweeps;
	c->alone = 0;
	note = new_note(&c->hazards->notes);
	if (note) {
		note->epoch = a->moment.epoch;
		note->site = a->site;
		note->others = 0;
		note->who = a->moment.who;
		note->atomic = emu_atomic_scope(a);
		note->shift = c->shift;
	}
	c->note = note ? c->hazards->notes.count : 0;
	return c->note;
}

static struct emu_note note_of_mark(const struct emu_mark *m)
{
	return (struct emu_note){.epoch = m->epoch,
				 .site = m->site,
				 .who = m->who,
				 .atomic = m->atomic,
				 .shift = m->shift};
}

uint32_t emu_note_of_mark(struct emu_hazards *h, const struct emu_mark *mark)
{
	struct emu_note note = note_of_mark(mark);

	return add_note(&h->notes, &note);
}

uint32_t emu_note_above(struct emu_hazards *h, const struct emu_mark *mark, uint32_t note,
			const uint8_t *lanes)
{
	struct emu_note above = note_of_mark(mark);

	above.others = note;
	return add_row(&h->notes, lanes, &above.lanes) ? add_note(&h->notes, &above) : 0;
}

/* ---- reads beside each other -------------------------------------------------------------------
 */

static bool covered(const struct emu_check *c, const struct emu_note *n, const uint8_t *lanes,
		    uint32_t units)
{
	enum emu_ordering ordering = emu_read_covers(c, n->who, n->epoch);

	return ordering == EMU_ORDERED ||
	       (ordering == EMU_LANES_TELL && emu_same_lanes(c, lanes, units));
}

struct kept {
	struct emu_note note;
	uint8_t lanes[EMU_BLOCK_UNITS];
};

/* The list once more, of the reads that are kept; 0 without memory. */
static uint32_t build(struct emu_notes *n, struct emu_note note, struct kept *kept, uint32_t count)
{
	uint32_t others = 0;

	for (uint32_t i = count; i; i--) {
		kept[i - 1].note.others = others;
		if (others && !add_row(n, kept[i].lanes, &kept[i - 1].note.lanes))
			return 0;
		others = add_note(n, &kept[i - 1].note);
		if (!others)
			return 0;
	}
	note.others = others;
	return !others || add_row(n, kept[0].lanes, &note.lanes) ? add_note(n, &note) : 0;
}

struct reads {
	uint32_t count, stay;
	bool of_step; /* some are of the warp, whose lanes have not met since */
};

/* False where there are too many. */
static bool count_reads(const struct emu_check *c, struct emu_note_walk walk, uint32_t units,
			struct reads *reads)
{
	const struct emu_note *n;

	*reads = (struct reads){0, 0, false};
	while ((n = emu_note_next(&walk))) {
		if (++reads->count > most_beside)
			return false;
		reads->stay += !covered(c, n, walk.lanes, units);
		reads->of_step |= emu_same_step(c->access, n->who, n->epoch);
	}
	return true;
}

uint32_t emu_note_beside(struct emu_check *c, uint32_t note, const uint8_t *lanes, uint32_t units)
{
	struct emu_notes *n = &c->hazards->notes;
	struct emu_note_walk walk = emu_note_walk(c->hazards, note, lanes);
	struct emu_note own = *emu_note_at(c->hazards, c->note);
	const struct emu_note *read;
	struct kept kept[most_beside];
	struct reads reads;
	uint32_t i = 0;

	if (!count_reads(c, walk, units, &reads))
		return 0;
	if (!reads.stay) {
		if (!reads.of_step)
			c->alone = note;
		return c->note;
	}
	if (reads.stay == reads.count) {
		own.others = note;
		return add_row(n, lanes, &own.lanes) ? add_note(n, &own) : 0;
	}
	while ((read = emu_note_next(&walk))) {
		if (covered(c, read, walk.lanes, units))
			continue;
		kept[i].note = *read;
		memcpy(kept[i++].lanes, walk.lanes, sizeof kept->lanes);
	}
	return build(n, own, kept, reads.stay);
}

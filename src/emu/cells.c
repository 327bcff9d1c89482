/*
 * Cells: who touched 16 bytes, a word of them, or 16 lanes of a column of tensor
 * memory last.  A write is remembered until the next one of the same bytes, reads
 * until a later one of which they are known to have happened before.
 */
#include "shadow.h"

enum {
	words_in_cell = EMU_CELL_BYTES / 4
};

/* ---- pools ------------------------------------------------------------------------ */

static struct emu_reader *reader_at(const struct emu_hazards *h, uint32_t index)
{
	return emu_pool_at(&h->readers, index);
}

static struct emu_cell *words_at(const struct emu_hazards *h, uint32_t index)
{
	return ((struct emu_words *)emu_pool_at(&h->words, index))->of;
}

static void free_readers(struct emu_hazards *h, struct emu_cell *cell)
{
	while (cell->more) {
		uint32_t next = reader_at(h, cell->more)->next;

		emu_pool_give(&h->readers, cell->more);
		cell->more = next;
	}
}

static bool add_reader(struct emu_hazards *h, struct emu_cell *cell, struct emu_reader reader)
{
	uint32_t index = emu_pool_take(&h->readers);

	if (!index)
		return false;
	reader.next = cell->more;
	*reader_at(h, index) = reader;
	cell->more = index;
	return true;
}

/* The reader that stands in the cell moves to its list; false when there is no memory. */
static bool push_reader(struct emu_hazards *h, struct emu_cell *cell)
{
	return add_reader(h, cell,
			  (struct emu_reader){.moment = {cell->read_who, cell->read_epoch},
					      .site = cell->read_site,
					      .lane = cell->read_lane,
					      .bytes = cell->read_bytes,
					      .atomic = cell->read_atomic});
}

static void copy_readers(struct emu_hazards *h, struct emu_cell *to, uint32_t from)
{
	for (; from; from = reader_at(h, from)->next)
		add_reader(h, to, *reader_at(h, from));
}

struct emu_cell *emu_cell_split(struct emu_hazards *h, struct emu_cell *cell)
{
	struct emu_cell *words;

	if (cell->words)
		return words_at(h, cell->words);
	cell->words = emu_pool_take(&h->words);
	if (!cell->words)
		return NULL;
	words = words_at(h, cell->words);
	for (uint32_t i = 0; i < words_in_cell; i++) {
		words[i] = *cell;
		words[i].more = words[i].words = 0;
		words[i].write_bytes = words[i].read_bytes = EMU_WHOLE_WORD;
		copy_readers(h, &words[i], cell->more);
	}
	free_readers(h, cell);
	return words;
}

void emu_cell_free(struct emu_hazards *h, struct emu_cell *cell)
{
	free_readers(h, cell);
	if (!cell->words)
		return;
	for (uint32_t i = 0; i < words_in_cell; i++)
		free_readers(h, &words_at(h, cell->words)[i]);
	emu_pool_give(&h->words, cell->words);
	cell->words = 0;
}

void emu_cell_put(struct emu_hazards *h, struct emu_cell *cell, const struct emu_mark *mark,
		  uint8_t lane, uint8_t bytes)
{
	if (mark->write) {
		cell->write_who = mark->who;
		cell->write_epoch = mark->epoch;
		cell->write_site = mark->site;
		cell->write_lane = lane;
		cell->write_bytes = bytes;
		cell->write_atomic = mark->atomic;
		return;
	}
	if (cell->read_who && !push_reader(h, cell))
		return;
	cell->read_who = mark->who;
	cell->read_epoch = mark->epoch;
	cell->read_site = mark->site;
	cell->read_lane = lane;
	cell->read_bytes = bytes;
	cell->read_atomic = mark->atomic;
}

void emu_cell_put_word(const struct emu_check *c, struct emu_cell *word, const struct emu_mark *m,
		       uint8_t lane)
{
	uint8_t bytes = EMU_WHOLE_WORD;

	/* Of lanes that share a word the last one counts, with its bytes; to other actors, all of
	   them. */
	if (m->shift < 2 && m->who != c->access->moment.who)
		lane = EMU_ANY_LANE;
	else if (m->shift < 2)
		bytes = (uint8_t)(EMU_WHOLE_WORD << (4 - (1 << m->shift)) & EMU_WHOLE_WORD);
	emu_cell_put(c->hazards, word, m, lane, bytes);
}

/* ---- what races ------------------------------------------------------------------------- */

/* Of the CTA that an actor belongs to; NULL for a barrier. */
static const struct emu_cta *cta_of(const struct emu_hazards *h, uint16_t who)
{
	return h->actors[who].order ? h->actors[who].order->warp->cta : NULL;
}

bool emu_same_cta(const struct emu_check *c, uint16_t who)
{
	return cta_of(c->hazards, who) == c->access->order->warp->cta;
}

static void race_with_write(struct emu_check *c, const struct emu_cell *cell)
{
	struct emu_earlier earlier = {{cell->write_who, cell->write_epoch},
				      cell->write_site,
				      cell->write_lane,
				      true,
				      cell->write_atomic};

	emu_report_race(c->access, &earlier, &c->spot);
}

static void race_with_read(struct emu_check *c, struct emu_moment moment, uint32_t site,
			   uint8_t lane, bool atomic)
{
	struct emu_earlier earlier = {moment, site, lane, false, atomic};

	emu_report_race(c->access, &earlier, &c->spot);
}

/* Lanes of one warp that have not met; the same instruction may write one place twice. */
static inline bool lanes_race(const struct emu_access *a, uint32_t epoch, uint8_t lane,
			      uint32_t site)
{
	return a->kind == EMU_ACTOR_WARP && epoch == a->moment.epoch && site != a->site &&
	       emu_lanes_differ(lane, a->lane);
}

static inline bool unordered(const struct emu_check *c, const struct emu_clock *clock, uint16_t who,
			     uint32_t epoch, uint8_t lane, uint32_t site)
{
	const struct emu_access *a = c->access;

	if (who == a->moment.who && a->in_order)
		return lanes_race(a, epoch, lane, site);
	if (emu_clock_at(clock, who) < epoch)
		return who != a->also;
	return c->fenced && emu_clock_at(c->fenced, who) < epoch && who != a->also;
}

static void check_readers(struct emu_check *c, const struct emu_cell *cell, uint8_t bytes)
{
	uint32_t next;

	for (uint32_t i = cell->more; i; i = next) {
		const struct emu_reader *r = reader_at(c->hazards, i);

		next = r->next;
		if (r->bytes & bytes && !emu_both_atomic(c, r->atomic, r->moment.who) &&
		    unordered(c, c->reads, r->moment.who, r->moment.epoch, r->lane, r->site))
			race_with_read(c, r->moment, r->site, r->lane, r->atomic);
	}
}

/* Most cells of a tile have one writer. */
static inline bool ordered_before(const struct emu_access *a, const struct emu_cell *cell)
{
	return cell->write_who == a->ordered_who && cell->write_epoch <= a->ordered_epoch;
}

static void check_write(struct emu_check *c, const struct emu_cell *cell)
{
	struct emu_access *a = c->access;

	if (emu_both_atomic(c, cell->write_atomic, cell->write_who) ||
	    (a->same && c->hazards->actors[cell->write_who].kind == EMU_ACTOR_WARP))
		return;
	if (unordered(c, c->writes, cell->write_who, cell->write_epoch, cell->write_lane,
		      cell->write_site)) {
		race_with_write(c, cell);
	} else if (cell->write_who != a->moment.who && cell->write_who != a->also) {
		emu_access_ordered(a, cell->write_who, cell->write_epoch);
	}
}

/* ---- what is remembered ----------------------------------------------------------------- */

/* `beyond`: bytes of the earlier read that the one which is made now has not. */
static bool covers(const struct emu_check *c, struct emu_moment earlier, uint8_t lane,
		   uint8_t beyond)
{
	enum emu_ordering ordering = emu_read_covers(c, earlier.who, earlier.epoch);

	if (beyond)
		return false;
	return ordering == EMU_ORDERED ||
	       (ordering == EMU_LANES_TELL && (lane == c->access->lane || lane == EMU_ANY_LANE));
}

static void note_read(struct emu_check *c, struct emu_cell *cell, uint8_t bytes)
{
	const struct emu_access *a = c->access;

	if (cell->read_who && !covers(c, (struct emu_moment){cell->read_who, cell->read_epoch},
				      cell->read_lane, cell->read_bytes & ~bytes)) {
		for (uint32_t i = cell->more; i; i = reader_at(c->hazards, i)->next) {
			struct emu_reader *r = reader_at(c->hazards, i);

			if (r->moment.who == a->moment.who &&
			    covers(c, r->moment, r->lane, r->bytes & ~bytes)) {
				r->moment.epoch = a->moment.epoch;
				r->site = a->site;
				r->lane = a->lane;
				r->bytes = bytes;
				if (r->atomic > emu_atomic_scope(a))
					r->atomic = emu_atomic_scope(a);
				return;
			}
		}
		if (!push_reader(c->hazards, cell))
			return;
	}
	cell->read_who = a->moment.who;
	cell->read_epoch = a->moment.epoch;
	cell->read_site = a->site;
	cell->read_lane = a->lane;
	cell->read_bytes = bytes;
	cell->read_atomic = emu_atomic_scope(a);
}

static void note_write(struct emu_check *c, struct emu_cell *cell, uint8_t bytes)
{
	const struct emu_access *a = c->access;

	cell->write_who = a->moment.who;
	cell->write_epoch = a->moment.epoch;
	cell->write_site = a->site;
	cell->write_lane = a->lane;
	cell->write_bytes = bytes;
	cell->write_atomic = emu_atomic_scope(a);
}

static void check_access(struct emu_check *c, const struct emu_cell *cell, uint8_t bytes)
{
	if (cell->write_who && cell->write_bytes & bytes && !ordered_before(c->access, cell))
		check_write(c, cell);
	if (!c->access->write || !cell->read_who)
		return;
	if (cell->read_bytes & bytes && !emu_both_atomic(c, cell->read_atomic, cell->read_who) &&
	    unordered(c, c->reads, cell->read_who, cell->read_epoch, cell->read_lane,
		      cell->read_site))
		race_with_read(c, (struct emu_moment){cell->read_who, cell->read_epoch},
			       cell->read_site, cell->read_lane, cell->read_atomic);
	check_readers(c, cell, bytes);
}

void emu_cell_check(struct emu_check *c, struct emu_cell *cell, uint8_t bytes)
{
	check_access(c, cell, bytes);
	if (c->access->looking)
		return;
	if (!c->access->write) {
		note_read(c, cell, bytes);
		return;
	}
	free_readers(c->hazards, cell);
	cell->read_who = 0;
	note_write(c, cell, bytes);
}

/* ---- bytes ------------------------------------------------------------------------------ */

static void check_words(struct emu_check *c, struct emu_cell *cell, uint32_t first, uint32_t size)
{
	struct emu_cell *words = emu_cell_split(c->hazards, cell);

	for (uint32_t i = first / 4; words && i <= (first + size - 1) / 4; i++) {
		uint32_t from = first > 4 * i ? first - 4 * i : 0;
		uint32_t to = first + size < 4 * i + 4 ? first + size - 4 * i : 4;

		emu_cell_check(c, &words[i], (uint8_t)((1u << to) - (1u << from)));
	}
}

/* All of the cell has been written: what its first word says. */
static void unite(struct emu_hazards *h, struct emu_cell *cell)
{
	struct emu_cell now = words_at(h, cell->words)[0];

	now.valid = cell->valid;
	emu_cell_free(h, cell);
	now.more = now.words = 0;
	*cell = now;
}

void emu_cell_bytes(struct emu_check *c, struct emu_cell *cell, uint32_t first, uint32_t size)
{
	uint16_t bytes = (uint16_t)((1u << (first + size)) - (1u << first));

	if (c->access->defined && (cell->valid & bytes) != bytes)
		emu_report_undefined(c->access, &c->spot);
	if (c->access->write && !c->access->looking)
		cell->valid |= bytes;
	if (size == EMU_CELL_BYTES && !cell->words) {
		emu_cell_check(c, cell, EMU_WHOLE_WORD);
		return;
	}
	check_words(c, cell, first, size);
	if (size == EMU_CELL_BYTES && c->access->write && !c->access->looking && cell->words)
		unite(c->hazards, cell);
}

/*
 * Who touched which bytes last: cells of 16 bytes of shared and global memory,
 * split into words where accesses are narrower, and of 16 lanes of a column of
 * tensor memory.  Asynchronous operations enter at issue with the epoch they
 * will complete in, so that what touches their memory meanwhile finds them.
 */
#include "between.h"

#include <stdlib.h>

enum {
	words_in_cell = EMU_CELL_BYTES / 4,
	whole_cell = 0xffff,
	whole_word = 0xf
};

/* ---- pools ------------------------------------------------------------------------ */

static bool grow(void **items, uint32_t *room, uint32_t want, size_t size)
{
	uint32_t more = *room ? 2 * *room : 256;
	void *grown;

	if (want <= *room)
		return true;
	grown = realloc(*items, more * size);
	if (!grown)
		return false;
	*items = grown;
	*room = more;
	return true;
}

static void free_readers(struct emu_hazards *h, struct emu_cell *cell)
{
	while (cell->more) {
		struct emu_reader *reader = &h->readers[cell->more - 1];
		uint32_t next = reader->next;

		reader->next = h->reader_free;
		h->reader_free = cell->more;
		cell->more = next;
	}
}

/* The reader that stands in the cell moves to its list; false when there is no memory. */
static bool push_reader(struct emu_hazards *h, struct emu_cell *cell)
{
	uint32_t index = h->reader_free;

	if (index) {
		h->reader_free = h->readers[index - 1].next;
	} else {
		if (!grow((void **)&h->readers, &h->reader_room, h->reader_count + 1,
			  sizeof *h->readers))
			return false;
		index = ++h->reader_count;
	}
	h->readers[index - 1] = (struct emu_reader){.moment = {cell->read_who, cell->read_epoch},
						    .site = cell->read_site,
						    .next = cell->more,
						    .lane = cell->read_lane,
						    .bytes = cell->read_bytes,
						    .atomic = cell->read_atomic};
	cell->more = index;
	return true;
}

/* 1 + index of the first of four words that are as the cell was; 0 without memory. */
static uint32_t split(struct emu_hazards *h, struct emu_cell *cell)
{
	uint32_t first = h->word_free;

	if (first) {
		h->word_free = h->words[first - 1].words;
	} else {
		if (!grow((void **)&h->words, &h->word_room, h->word_count + words_in_cell,
			  sizeof *h->words))
			return 0;
		first = h->word_count + 1;
		h->word_count += words_in_cell;
	}
	for (uint32_t i = 0; i < words_in_cell; i++) {
		struct emu_cell *word = &h->words[first - 1 + i];

		*word = *cell;
		word->more = word->words = 0;
		word->write_bytes = word->read_bytes = whole_word;
	}
	/* The list of readers goes with the first word: it stands for the whole cell then. */
	h->words[first - 1].more = cell->more;
	cell->more = 0;
	cell->words = first;
	return first;
}

static void unite(struct emu_hazards *h, struct emu_cell *cell)
{
	uint32_t first = cell->words;

	for (uint32_t i = 0; i < words_in_cell; i++)
		free_readers(h, &h->words[first - 1 + i]);
	h->words[first - 1].words = h->word_free;
	h->word_free = first;
	cell->words = 0;
}

/* ---- sites -------------------------------------------------------------------------- */

static uint32_t site_hash(const struct emu_ins *ins, uint32_t key)
{
	uint64_t value = ((uint64_t)(uintptr_t)ins >> 4) * 0x9e3779b97f4a7c15ull + key;

	return (uint32_t)((value * 0xff51afd7ed558ccdull) >> 32);
}

static bool more_sites(struct emu_hazards *h)
{
	uint32_t buckets = h->site_buckets ? 2 * h->site_buckets : 1024;
	uint32_t *table = calloc(buckets, sizeof *table);

	if (!table)
		return false;
	for (uint32_t i = 0; i < h->site_count; i++) {
		uint32_t at = site_hash(h->sites[i].ins, h->sites[i].key) & (buckets - 1);

		while (table[at])
			at = (at + 1) & (buckets - 1);
		table[at] = i + 1;
	}
	free(h->site_table);
	h->site_table = table;
	h->site_buckets = buckets;
	return true;
}

/* 1 + index; 0, which names nobody, without memory. */
uint32_t emu_site_of(struct emu_order *order)
{
	struct emu_hazards *h = order->hazards;
	const struct emu_warp *warp = order->warp;
	uint32_t at;

	if (2 * h->site_count >= h->site_buckets && !more_sites(h))
		return 0;
	at = site_hash(warp->ins, order->self) & (h->site_buckets - 1);
	for (; h->site_table[at]; at = (at + 1) & (h->site_buckets - 1)) {
		const struct emu_site *site = &h->sites[h->site_table[at] - 1];

		if (site->ins == warp->ins && site->key == order->self)
			return h->site_table[at];
	}
	if (!grow((void **)&h->sites, &h->site_room, h->site_count + 1, sizeof *h->sites))
		return 0;
	struct emu_site *site = &h->sites[h->site_count++];

	*site = (struct emu_site){.ins = warp->ins,
				  .function = warp->frame ? warp->frame->function : NULL,
				  .warp = warp->index,
				  .key = order->self};
	memcpy(site->cta, warp->cta->id, sizeof site->cta);
	h->site_table[at] = h->site_count;
	return h->site_count;
}

/* ---- one cell ------------------------------------------------------------------------- */

static const struct emu_clock *clock_of(const struct emu_access *a, enum emu_space space)
{
	const struct emu_clock *clocks = a->order->now.clock;

	if (a->map)
		return &clocks[EMU_CLOCK_MAP];
	if (space == EMU_REG)
		return &clocks[EMU_CLOCK_TENSOR];
	if (!a->proxy)
		return &clocks[EMU_CLOCK_GENERIC];
	return &clocks[space == EMU_GLOBAL ? EMU_CLOCK_ASYNC_GLOBAL : EMU_CLOCK_ASYNC_SHARED];
}

struct check {
	struct emu_access *access;
	struct emu_hazards *hazards;
	const struct emu_clock *writes, *reads; /* that earlier ones must be covered by */
	const struct emu_clock *fenced;         /* tensor memory: the same by the letter */
	struct emu_spot spot;
};

/* Of the CTA that an actor belongs to; NULL for a barrier. */
static const struct emu_cta *cta_of(const struct emu_hazards *h, uint16_t who)
{
	return h->actors[who].order ? h->actors[who].order->warp->cta : NULL;
}

/* Atomic accesses whose scopes hold both sides do not race. */
static inline bool both_atomic(const struct check *c, uint8_t scope, uint16_t who)
{
	const struct emu_access *a = c->access;

	if (!scope || !a->atomic)
		return false;
	return (scope > EMU_SCOPE_CTA && a->scope > EMU_SCOPE_CTA) ||
	       cta_of(c->hazards, who) == a->order->warp->cta;
}

static void race_with_write(struct check *c, const struct emu_cell *cell)
{
	struct emu_earlier earlier = {{cell->write_who, cell->write_epoch},
				      cell->write_site,
				      cell->write_lane,
				      true,
				      cell->write_atomic};

	emu_report_race(c->access, &earlier, &c->spot);
}

static void race_with_read(struct check *c, struct emu_moment moment, uint32_t site, uint8_t lane,
			   bool atomic)
{
	struct emu_earlier earlier = {moment, site, lane, false, atomic};

	emu_report_race(c->access, &earlier, &c->spot);
}

/* Lanes of one warp that have not met; the same instruction may write one place twice. */
static inline bool lanes_race(const struct emu_access *a, uint32_t epoch, uint8_t lane,
			      uint32_t site)
{
	return a->kind == EMU_ACTOR_WARP && epoch == a->moment.epoch && lane != a->lane &&
	       site != a->site && lane != EMU_ANY_LANE && a->lane != EMU_ANY_LANE;
}

static inline bool unordered(const struct check *c, const struct emu_clock *clock, uint16_t who,
			     uint32_t epoch, uint8_t lane, uint32_t site)
{
	const struct emu_access *a = c->access;

	if (who == a->moment.who && a->in_order)
		return lanes_race(a, epoch, lane, site);
	if (emu_clock_at(clock, who) < epoch)
		return who != a->also;
	return c->fenced && emu_clock_at(c->fenced, who) < epoch && who != a->also;
}

static void check_readers(struct check *c, const struct emu_cell *cell, uint8_t bytes)
{
	const struct emu_hazards *h = c->hazards;
	uint32_t next;

	for (uint32_t i = cell->more; i; i = next) {
		const struct emu_reader *r = &h->readers[i - 1];

		next = r->next;
		if (r->bytes & bytes && !both_atomic(c, r->atomic, r->moment.who) &&
		    unordered(c, c->reads, r->moment.who, r->moment.epoch, r->lane, r->site))
			race_with_read(c, r->moment, r->site, r->lane, r->atomic);
	}
}

static inline uint8_t atomic_scope(const struct emu_access *a)
{
	return a->atomic ? a->scope : EMU_SCOPE_NONE;
}

static void note_read(struct check *c, struct emu_cell *cell, uint8_t bytes)
{
	const struct emu_access *a = c->access;

	/* A reader that is ordered before this one need not be remembered. */
	if (cell->read_who &&
	    (cell->read_who != a->moment.who ||
	     lanes_race(a, cell->read_epoch, cell->read_lane, 0)) &&
	    emu_clock_at(c->reads, cell->read_who) < cell->read_epoch) {
		if (cell->read_who == a->moment.who) {
			cell->read_lane = EMU_MANY_LANES;
			cell->read_bytes |= bytes;
			return;
		}
		for (uint32_t i = cell->more; i; i = c->hazards->readers[i - 1].next) {
			struct emu_reader *r = &c->hazards->readers[i - 1];

			if (r->moment.who == a->moment.who) {
				r->moment.epoch = a->moment.epoch;
				r->site = a->site;
				r->lane = a->lane;
				r->bytes |= bytes;
				if (r->atomic > atomic_scope(a))
					r->atomic = atomic_scope(a);
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
	cell->read_atomic = atomic_scope(a);
}

/* What an ordered queue touched last, it touches again: most cells of a matrix multiplication. */
static inline bool touch_again(const struct emu_access *a, struct emu_cell *cell)
{
	if (!a->in_order || a->kind == EMU_ACTOR_WARP || cell->more || cell->words)
		return false;
	if (a->write && cell->write_who == a->moment.who && !cell->read_who) {
		cell->write_epoch = a->moment.epoch;
		cell->write_site = a->site;
		return true;
	}
	return false;
}

/* Most cells of a tile have one writer. */
static inline bool ordered_before(const struct emu_access *a, const struct emu_cell *cell)
{
	return cell->write_who == a->ordered_who && cell->write_epoch <= a->ordered_epoch;
}

static void check_write(struct check *c, struct emu_cell *cell)
{
	struct emu_access *a = c->access;

	if (both_atomic(c, cell->write_atomic, cell->write_who) ||
	    (a->same && c->hazards->actors[cell->write_who].kind == EMU_ACTOR_WARP))
		return;
	if (unordered(c, c->writes, cell->write_who, cell->write_epoch, cell->write_lane,
		      cell->write_site)) {
		race_with_write(c, cell);
	} else if (cell->write_who != a->moment.who && cell->write_who != a->also) {
		a->ordered_who = cell->write_who;
		a->ordered_epoch = cell->write_epoch;
	}
}

static void check_cell(struct check *c, struct emu_cell *cell, uint8_t bytes)
{
	struct emu_access *a = c->access;

	if (bytes == whole_word && cell->write_bytes == whole_word && touch_again(a, cell))
		return;
	if (cell->write_who && cell->write_bytes & bytes && !ordered_before(a, cell))
		check_write(c, cell);
	if (!a->write) {
		note_read(c, cell, bytes);
		return;
	}
	if (cell->read_who) {
		if (cell->read_bytes & bytes &&
		    !both_atomic(c, cell->read_atomic, cell->read_who) &&
		    unordered(c, c->reads, cell->read_who, cell->read_epoch, cell->read_lane,
			      cell->read_site))
			race_with_read(c, (struct emu_moment){cell->read_who, cell->read_epoch},
				       cell->read_site, cell->read_lane, cell->read_atomic);
		if (cell->more) {
			check_readers(c, cell, bytes);
			free_readers(c->hazards, cell);
		}
		cell->read_who = 0;
	}
	cell->write_who = a->moment.who;
	cell->write_epoch = a->moment.epoch;
	cell->write_site = a->site;
	cell->write_lane = a->lane;
	cell->write_bytes = bytes;
	cell->write_atomic = atomic_scope(a);
}

/* ---- bytes ------------------------------------------------------------------------------ */

static void check_words(struct check *c, struct emu_cell *cell, uint32_t first, uint32_t size)
{
	uint32_t words = cell->words ? cell->words : split(c->hazards, cell);

	for (uint32_t i = first / 4; words && i <= (first + size - 1) / 4; i++) {
		uint32_t from = first > 4 * i ? first - 4 * i : 0;
		uint32_t to = first + size < 4 * i + 4 ? first + size - 4 * i : 4;

		check_cell(c, &c->hazards->words[words - 1 + i],
			   (uint8_t)((1u << to) - (1u << from)));
	}
}

/* Bytes [first, first + size) of one cell. */
static void check_bytes(struct check *c, struct emu_cell *cell, uint32_t first, uint32_t size)
{
	uint16_t bytes = (uint16_t)((1u << (first + size)) - (1u << first));

	if (c->access->defined && (cell->valid & bytes) != bytes)
		emu_report_undefined(c->access, &c->spot);
	if (c->access->write)
		cell->valid |= bytes;
	if (size == EMU_CELL_BYTES && !cell->words) {
		check_cell(c, cell, whole_word);
		return;
	}
	check_words(c, cell, first, size);
	if (size == EMU_CELL_BYTES && c->access->write && cell->words) {
		struct emu_cell now = c->hazards->words[cell->words - 1];

		now.valid = cell->valid;
		now.more = 0;
		unite(c->hazards, cell);
		now.words = 0;
		*cell = now;
	}
}

static struct check begin(struct emu_access *access, enum emu_space space)
{
	struct check c = {.access = access, .hazards = access->order->hazards};

	c.writes = clock_of(access, space);
	c.reads =
		&access->order->now.clock[space == EMU_REG ? EMU_CLOCK_TENSOR : EMU_CLOCK_GENERIC];
	if (space == EMU_REG)
		c.fenced = &access->order->now.clock[EMU_CLOCK_FENCED];
	c.spot.space = space;
	return c;
}

void emu_access_shared(struct emu_access *access, struct emu_cta *cta, uint32_t offset,
		       uint32_t size)
{
	struct check c = begin(access, EMU_SHARED);
	struct emu_cell *cells = emu_hazards_of_cta(cta)->cells;
	uint8_t *swizzles = emu_hazards_of_cta(cta)->swizzles;
	uint32_t end = offset + size;

	if (!access->moment.who || end > cta->shared_bytes || end < offset)
		return;
	c.spot.cta = cta;
	while (offset < end) {
		uint32_t first = offset % EMU_CELL_BYTES;
		uint32_t bytes = EMU_CELL_BYTES - first < end - offset ? EMU_CELL_BYTES - first
								       : end - offset;

		struct emu_cell *cell = &cells[offset / EMU_CELL_BYTES];

		c.spot.address = offset;
		c.spot.size = bytes;
		if (access->write)
			swizzles[offset / EMU_CELL_BYTES] = access->swizzle;
		if (bytes == EMU_CELL_BYTES && !cell->words &&
		    (access->write || cell->valid == whole_cell)) {
			cell->valid = whole_cell;
			check_cell(&c, cell, whole_word);
		} else {
			check_bytes(&c, cell, first, bytes);
		}
		offset += bytes;
	}
}

/* ---- global memory --------------------------------------------------------------------------- */

static uint32_t page_hash(uint64_t number)
{
	return (uint32_t)((number * 0x9e3779b97f4a7c15ull) >> 40);
}

static bool more_pages(struct emu_hazards *h)
{
	uint32_t buckets = h->page_buckets ? 2 * h->page_buckets : 256;
	struct emu_page **pages = calloc(buckets, sizeof *pages);

	if (!pages)
		return false;
	for (uint32_t i = 0; i < h->page_buckets; i++) {
		uint32_t at;

		if (!h->pages[i])
			continue;
		at = page_hash(h->pages[i]->number) & (buckets - 1);
		while (pages[at])
			at = (at + 1) & (buckets - 1);
		pages[at] = h->pages[i];
	}
	free(h->pages);
	h->pages = pages;
	h->page_buckets = buckets;
	return true;
}

struct emu_page *emu_page_of(struct emu_hazards *h, uint64_t number)
{
	uint32_t at;

	if (h->page_hit && h->page_hit->number == number)
		return h->page_hit;
	if (2 * h->page_count >= h->page_buckets && !more_pages(h))
		return NULL;
	at = page_hash(number) & (h->page_buckets - 1);
	while (h->pages[at] && h->pages[at]->number != number)
		at = (at + 1) & (h->page_buckets - 1);
	if (!h->pages[at]) {
		h->pages[at] = calloc(1, sizeof **h->pages);
		if (!h->pages[at])
			return NULL;
		h->pages[at]->number = number;
		h->page_count++;
	}
	h->page_hit = h->pages[at];
	return h->page_hit;
}

void emu_access_global(struct emu_access *access, uint64_t address, uint64_t size)
{
	struct check c = begin(access, EMU_GLOBAL);
	struct emu_grid *grid = c.hazards->cluster->grid;
	struct emu_between *between = grid->between;
	bool tracing = between && *emu_between_footprints(between), looking;
	struct emu_between_check others;
	uint64_t end = address + size;

	if (!access->moment.who)
		return;
	looking = between && !tracing && emu_between_begin(&others, access);
	access->defined = false;
	if (tracing && access->write && access->kind != EMU_ACTOR_WARP)
		emu_footprint_save(grid, c.hazards, address, size);
	while (address < end) {
		uint64_t number = address / (EMU_CELL_BYTES * EMU_PAGE_CELLS);
		struct emu_page *page = emu_page_of(c.hazards, number);
		uint32_t first = address % EMU_CELL_BYTES;
		uint32_t bytes = EMU_CELL_BYTES - first;
		uint32_t cell = address / EMU_CELL_BYTES % EMU_PAGE_CELLS;

		if (!page)
			return;
		if (bytes > end - address)
			bytes = (uint32_t)(end - address);
		c.spot.address = address;
		c.spot.size = bytes;
		check_bytes(&c, &page->cells[cell], first, bytes);
		if (looking)
			emu_between_cell(&others, page, address, first, bytes);
		address += bytes;
	}
}

/* ---- tensor memory ------------------------------------------------------------------------------
 */

static struct emu_cell *tmem_cells(const struct emu_cta *cta)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);

	if (!h->tmem)
		h->tmem = calloc(EMU_TMEM_COLUMNS * EMU_TMEM_WINDOWS, sizeof *h->tmem);
	return h->tmem;
}

void emu_access_tmem(struct emu_access *access, struct emu_cta *cta, uint32_t column,
		     uint32_t columns, uint32_t window, uint16_t lanes)
{
	struct check c = begin(access, EMU_REG);
	struct emu_cell *cells = tmem_cells(cta);

	if (!cells || !access->moment.who || window >= EMU_TMEM_WINDOWS ||
	    column + columns > EMU_TMEM_COLUMNS)
		return;
	c.spot.cta = cta;
	c.spot.size = 1;
	for (uint32_t i = column; i < column + columns; i++) {
		struct emu_cell *cell = &cells[i * EMU_TMEM_WINDOWS + window];

		c.spot.address = (uint64_t)window * EMU_TMEM_WINDOW << 16 | i;
		if (access->defined && (cell->valid & lanes) != lanes)
			emu_report_undefined(access, &c.spot);
		if (access->write)
			cell->valid |= lanes;
		check_cell(&c, cell, whole_word);
	}
}

void emu_access_tmem_lanes(struct emu_access *access, struct emu_cta *cta, uint32_t column,
			   uint32_t columns, uint32_t lane, uint32_t lanes)
{
	for (uint32_t at = lane; at < lane + lanes; at += EMU_TMEM_WINDOW)
		emu_access_tmem(access, cta, column, columns, at / EMU_TMEM_WINDOW, whole_cell);
}

uint32_t emu_tmem_undefined(const struct emu_cta *cta, uint32_t column, uint32_t lane)
{
	const struct emu_cell *cells = tmem_cells(cta);
	uint32_t window = lane / EMU_TMEM_WINDOW;

	if (!cells || column >= EMU_TMEM_COLUMNS || window + 1 >= EMU_TMEM_WINDOWS)
		return 0;
	cells += column * EMU_TMEM_WINDOWS + window;
	return ~(cells[0].valid | (uint32_t)cells[1].valid << EMU_TMEM_WINDOW);
}

void emu_access_tmem_fresh(struct emu_cta *cta, uint32_t column, uint32_t columns)
{
	struct emu_cell *cells = tmem_cells(cta);

	if (!cells)
		return;
	for (uint32_t i = column * EMU_TMEM_WINDOWS; i < (column + columns) * EMU_TMEM_WINDOWS;
	     i++) {
		free_readers(cta->cluster->hazards, &cells[i]);
		cells[i] = (struct emu_cell){0};
	}
}

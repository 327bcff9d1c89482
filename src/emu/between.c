/*
 * What clusters have done to global memory, cell by cell, for those that run
 * beside or behind them on the same host thread.  A cell remembers a write, those
 * of other bytes in a list, a read, and a set of further ones: an entry is replaced
 * only by one of the same bytes that comes behind it, or of the same warp in the
 * same epoch.
 */
#include "between.h"

#include <stdlib.h>

struct more {
	struct emu_touch touch;
	uint32_t next;
};

/* The sites of a cluster: its own while it runs, handed over when it ends. */
struct ended {
	struct emu_site *sites;
	const struct emu_hazards *running;
};

struct emu_between {
	struct emu_places *places;
	struct emu_between_page **pages;
	uint32_t page_count, page_buckets;
	struct more *more; /* writes */
	uint32_t more_count, more_room, more_free;
	struct emu_readers *readers;
	struct ended *clusters;
	uint64_t cluster_room;
	struct emu_footprints *footprints;
};

bool emu_between_init(struct emu_grid *grid)
{
	struct emu_between *b = calloc(1, sizeof *b);

	grid->between = b;
	if (!b)
		return false;
	b->places = emu_places_new();
	b->readers = emu_readers_new();
	return b->places && b->readers;
}

void emu_between_free(struct emu_grid *grid)
{
	struct emu_between *b = grid->between;

	if (!b)
		return;
	emu_places_free(b->places);
	emu_readers_free(b->readers);
	for (uint32_t i = 0; i < b->page_buckets; i++)
		free(b->pages[i]);
	for (uint64_t i = 0; i < b->cluster_room; i++)
		free(b->clusters[i].sites);
	free(b->pages);
	free(b->more);
	free(b->clusters);
	free(b);
	grid->between = NULL;
}

struct emu_places *emu_between_places(struct emu_between *between)
{
	return between->places;
}

struct emu_footprints **emu_between_footprints(struct emu_between *between)
{
	return &between->footprints;
}

/* ---- sites ------------------------------------------------------------------------- */

static struct ended *ended(struct emu_between *b, uint64_t cluster)
{
	uint64_t room = b->cluster_room ? b->cluster_room : 64;
	struct ended *grown;

	if (cluster < b->cluster_room)
		return &b->clusters[cluster];
	while (room <= cluster)
		room *= 2;
	grown = realloc(b->clusters, room * sizeof *grown);
	if (!grown)
		return NULL;
	memset(grown + b->cluster_room, 0, (room - b->cluster_room) * sizeof *grown);
	b->clusters = grown;
	b->cluster_room = room;
	return &b->clusters[cluster];
}

void emu_between_ends(struct emu_hazards *hazards)
{
	struct emu_between *b = hazards->cluster->grid->between;
	uint64_t cluster = hazards->cluster->index;

	if (!b || cluster >= b->cluster_room || b->clusters[cluster].running != hazards)
		return;
	b->clusters[cluster] = (struct ended){.sites = hazards->sites};
	hazards->sites = NULL;
}

static const struct emu_site *site_of(const struct emu_between *b, const struct emu_touch *t)
{
	const struct ended *e = &b->clusters[t->cluster - 1];

	return t->site ? &(e->running ? e->running->sites : e->sites)[t->site - 1] : NULL;
}

/* ---- pages --------------------------------------------------------------------------- */

static struct emu_between_page **slot(struct emu_between_page **pages, uint32_t buckets,
				      uint64_t number)
{
	uint32_t at = (uint32_t)((number * 0x9e3779b97f4a7c15ull) >> 40) & (buckets - 1);

	while (pages[at] && pages[at]->number != number)
		at = (at + 1) & (buckets - 1);
	return &pages[at];
}

static bool more_pages(struct emu_between *b)
{
	uint32_t buckets = b->page_buckets ? 2 * b->page_buckets : 256;
	struct emu_between_page **pages = calloc(buckets, sizeof *pages);

	if (!pages)
		return false;
	for (uint32_t i = 0; i < b->page_buckets; i++)
		if (b->pages[i])
			*slot(pages, buckets, b->pages[i]->number) = b->pages[i];
	free(b->pages);
	b->pages = pages;
	b->page_buckets = buckets;
	return true;
}

static struct emu_between_page *page_of(struct emu_between *b, uint64_t number)
{
	struct emu_between_page **at;

	if (2 * b->page_count >= b->page_buckets && !more_pages(b))
		return NULL;
	at = slot(b->pages, b->page_buckets, number);
	if (!*at) {
		*at = calloc(1, sizeof **at);
		if (!*at)
			return NULL;
		(*at)->number = number;
		b->page_count++;
	}
	return *at;
}

/* ---- one cell -------------------------------------------------------------------------- */

static void judge(struct emu_between_check *c, const struct emu_touch *earlier, bool write)
{
	struct emu_access *a = c->access;
	const struct emu_clock *clock;
	struct emu_foreign foreign;

	if (!earlier->cluster || earlier->cluster == c->touch.cluster ||
	    !(earlier->bytes & c->touch.bytes) || (!write && !a->write) ||
	    (a->atomic && a->scope == EMU_SCOPE_GPU && earlier->scope == EMU_SCOPE_GPU) ||
	    (a->same && earlier->kind == EMU_ACTOR_WARP))
		return;
	clock = emu_known_of(a->order->now.known, earlier->cluster - 1, write && a->proxy);
	if (clock && emu_clock_at(clock, earlier->who) >= earlier->epoch)
		return;
	foreign = (struct emu_foreign){.site = site_of(c->between, earlier),
				       .cluster = earlier->cluster - 1,
				       .moment = {earlier->who, earlier->epoch},
				       .kind = earlier->kind,
				       .scope = earlier->scope,
				       .write = write};
	emu_report_foreign(a, &foreign, &c->spot);
}

static void drop(struct emu_between *b, uint32_t *link)
{
	uint32_t index = *link;

	*link = b->more[index - 1].next;
	b->more[index - 1].next = b->more_free;
	b->more_free = index;
}

/* The write that stands in the cell goes to the list. */
static void push(struct emu_between *b, struct emu_between_cell *cell)
{
	uint32_t index = b->more_free;

	if (index) {
		b->more_free = b->more[index - 1].next;
	} else {
		if (b->more_count == b->more_room) {
			uint32_t room = b->more_room ? 2 * b->more_room : 256;
			struct more *grown = realloc(b->more, room * sizeof *grown);

			if (!grown)
				return;
			b->more = grown;
			b->more_room = room;
		}
		index = ++b->more_count;
	}
	b->more[index - 1] = (struct more){cell->write, cell->writes};
	cell->writes = index;
}

static bool covered(const struct emu_touch *old, uint16_t bytes)
{
	return !(old->bytes & ~bytes & 0xffff);
}

static bool again(const struct emu_touch *now, const struct emu_touch *old)
{
	return old->cluster == now->cluster && old->who == now->who && old->epoch == now->epoch;
}

static void leave_write(struct emu_between_check *c, struct emu_between_cell *cell)
{
	struct emu_touch now = c->touch;

	if (again(&now, &cell->write))
		now.bytes |= cell->write.bytes;
	else if (cell->write.cluster && !covered(&cell->write, now.bytes))
		push(c->between, cell);
	cell->write = now;
	for (uint32_t *link = &cell->writes; *link;) {
		struct more *m = &c->between->more[*link - 1];

		if (covered(&m->touch, now.bytes))
			drop(c->between, link);
		else
			link = &m->next;
	}
	/* Reads of what is written now have been looked at. */
	if (covered(&cell->read, now.bytes))
		cell->read.cluster = 0;
	cell->readers = emu_readers_without(c->between->readers, cell->readers, now.bytes);
}

static void leave_read(struct emu_between_check *c, struct emu_between_cell *cell)
{
	const struct emu_order *order = c->access->order;
	struct emu_touch now = c->touch;

	if (again(&now, &cell->read)) {
		now.bytes |= cell->read.bytes;
	} else if (cell->read.cluster && !emu_readers_covers(order, &now, &cell->read)) {
		cell->readers = emu_readers_add(c->between->readers, cell->readers, &now, order);
		return;
	}
	cell->read = now;
}

bool emu_between_joins(struct emu_hazards *h)
{
	struct ended *e = ended(h->cluster->grid->between, h->cluster->index);

	if (e)
		e->running = h;
	h->joined = e;
	return e;
}

static void check_cell(struct emu_between_check *c, struct emu_between_cell *cell)
{
	uint32_t readers = cell->readers;
	const struct emu_touch *read;

	judge(c, &cell->write, true);
	for (uint32_t i = cell->writes; i; i = c->between->more[i - 1].next)
		judge(c, &c->between->more[i - 1].touch, true);
	if (!c->access->write) {
		leave_read(c, cell);
		return;
	}
	judge(c, &cell->read, false);
	while ((read = emu_readers_next(c->between->readers, &readers)))
		judge(c, read, false);
	leave_write(c, cell);
}

bool emu_between_page_of(struct emu_between *between, struct emu_page *page)
{
	page->between = page_of(between, page->number);
	return page->between;
}

void emu_between_look(struct emu_between_check *c, struct emu_between_cell *cell, uint64_t address)
{
	c->spot = (struct emu_spot){.space = EMU_GLOBAL,
				    .address = address,
				    .size = (uint32_t)__builtin_popcount(c->touch.bytes)};
	check_cell(c, cell);
}

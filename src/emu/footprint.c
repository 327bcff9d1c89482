/*
 * Clusters on several host threads.  Each leaves a footprint of the bytes of global
 * memory that it has read and written; footprints are compared in the order of the
 * clusters.  What a page held before its first write is kept, so that a grid
 * whose clusters meet can begin again on one thread.
 */
#include "between.h"

#include <pthread.h>
#include <stdlib.h>

struct page {
	uint64_t number;
	uint16_t written[EMU_PAGE_CELLS], read[EMU_PAGE_CELLS]; /* bytes of each cell */
};

struct saved {
	uint64_t number, address;
	uint32_t size;
	uint8_t bytes[EMU_PAGE_BYTES];
};

/* Pages by number: open addressing. */
struct table {
	void **items;
	uint32_t count, buckets;
};

struct emu_footprint {
	uint32_t count;
	struct page pages[];
};

struct emu_footprints {
	struct table merged, saved;
	pthread_mutex_t lock; /* of `saved` */
};

/* ---- tables; both kinds of pages begin with their number ------------------------------- */

static void **slot(void **items, uint32_t buckets, uint64_t number)
{
	uint32_t at = (uint32_t)((number * 0x9e3779b97f4a7c15ull) >> 40) & (buckets - 1);

	while (items[at] && *(const uint64_t *)items[at] != number)
		at = (at + 1) & (buckets - 1);
	return &items[at];
}

static bool reserve(struct table *table)
{
	uint32_t buckets = table->buckets ? 2 * table->buckets : 256;
	void **items;

	if (2 * table->count < table->buckets)
		return true;
	items = calloc(buckets, sizeof *items);
	if (!items)
		return false;
	for (uint32_t i = 0; i < table->buckets; i++)
		if (table->items[i])
			*slot(items, buckets, *(const uint64_t *)table->items[i]) = table->items[i];
	free(table->items);
	table->items = items;
	table->buckets = buckets;
	return true;
}

/* The page of that number, zeroed and numbered where it is new; NULL without memory. */
static void *page_in(struct table *table, uint64_t number, size_t size)
{
	void **at;

	if (!reserve(table))
		return NULL;
	at = slot(table->items, table->buckets, number);
	if (!*at) {
		*at = calloc(1, size);
		if (!*at)
			return NULL;
		*(uint64_t *)*at = number;
		table->count++;
	}
	return *at;
}

static void free_table(struct table *table)
{
	for (uint32_t i = 0; i < table->buckets; i++)
		free(table->items[i]);
	free(table->items);
}

/* ---- what memory held ---------------------------------------------------------------------- */

bool emu_footprint_begin(struct emu_grid *grid)
{
	struct emu_footprints **footprints = emu_between_footprints(grid->between);

	*footprints = calloc(1, sizeof **footprints);
	return *footprints && !pthread_mutex_init(&(*footprints)->lock, NULL);
}

void emu_footprint_end(struct emu_grid *grid)
{
	struct emu_footprints **footprints = emu_between_footprints(grid->between);

	if (!*footprints)
		return;
	free_table(&(*footprints)->merged);
	free_table(&(*footprints)->saved);
	pthread_mutex_destroy(&(*footprints)->lock);
	free(*footprints);
	*footprints = NULL;
}

/* An allocation ends a page away from the next one. */
static void save(struct emu_grid *grid, struct saved *page, uint64_t address)
{
	const struct emu_allocation *a = emu_nearest_allocation(grid->emu, address);
	uint64_t first = page->number * EMU_PAGE_BYTES, end = first + EMU_PAGE_BYTES;

	if (!a || !a->host)
		return;
	if (first < a->address)
		first = a->address;
	if (end > a->address + a->size)
		end = a->address + a->size;
	if (first >= end)
		return;
	page->address = first;
	page->size = (uint32_t)(end - first);
	memcpy(page->bytes, a->host + (first - a->address), page->size);
}

void emu_footprint_save(struct emu_grid *grid, struct emu_hazards *hazards, uint64_t address,
			uint64_t size)
{
	struct emu_footprints *footprints = *emu_between_footprints(grid->between);

	if (!footprints)
		return;
	for (uint64_t n = address / EMU_PAGE_BYTES; n <= (address + size - 1) / EMU_PAGE_BYTES;
	     n++) {
		struct emu_page *page = emu_page_of(hazards, n);
		struct saved *saved;

		if (!page || page->saved)
			continue;
		page->saved = true;
		pthread_mutex_lock(&footprints->lock);
		saved = page_in(&footprints->saved, n, sizeof *saved);
		if (saved && !saved->size)
			save(grid, saved,
			     n == address / EMU_PAGE_BYTES ? address : address + size - 1);
		pthread_mutex_unlock(&footprints->lock);
	}
}

void emu_footprint_undo(struct emu_grid *grid)
{
	struct table *saved = &(*emu_between_footprints(grid->between))->saved;

	for (uint32_t i = 0; i < saved->buckets; i++) {
		const struct saved *page = saved->items[i];
		const struct emu_allocation *a;

		if (!page || !page->size)
			continue;
		a = emu_nearest_allocation(grid->emu, page->address);
		memcpy(a->host + (page->address - a->address), page->bytes, page->size);
	}
}

/* ---- footprints
 * ---------------------------------------------------------------------------------- */

/* Whole words; what was written behind the read need not be in it. */
static uint16_t read_of(const struct emu_hazards *h, const struct emu_cell *cell)
{
	uint16_t bytes = 0;

	if (!cell->words)
		return cell->read_who ? 0xffff : 0;
	for (int i = 0; i < EMU_CELL_BYTES / 4; i++)
		if (h->words[cell->words - 1 + i].read_who)
			bytes |= 0xf << 4 * i;
	return bytes;
}

static void take_page(const struct emu_hazards *h, struct page *to, const struct emu_page *from)
{
	to->number = from->number;
	for (int i = 0; i < EMU_PAGE_CELLS; i++) {
		to->written[i] = from->cells[i].valid;
		to->read[i] = read_of(h, &from->cells[i]);
	}
}

struct emu_footprint *emu_footprint_take(const struct emu_cluster *cluster)
{
	const struct emu_hazards *h = cluster->hazards;
	struct emu_footprint *footprint =
		calloc(1, sizeof *footprint + h->page_count * sizeof *footprint->pages);

	for (uint32_t i = 0; footprint && i < h->page_buckets; i++)
		if (h->pages[i])
			take_page(h, &footprint->pages[footprint->count++], h->pages[i]);
	return footprint;
}

void emu_footprint_free(struct emu_footprint *footprint)
{
	free(footprint);
}

static bool merge_page(struct page *all, const struct page *one)
{
	uint16_t both = 0;

	for (int i = 0; i < EMU_PAGE_CELLS; i++) {
		both |= one->written[i] & (all->written[i] | all->read[i]);
		both |= one->read[i] & all->written[i];
		all->written[i] |= one->written[i];
		all->read[i] |= one->read[i];
	}
	return !both;
}

bool emu_footprint_merge(struct emu_grid *grid, const struct emu_footprint *footprint)
{
	struct emu_footprints *footprints = *emu_between_footprints(grid->between);
	bool apart = true;

	for (uint32_t i = 0; i < footprint->count; i++) {
		struct page *all =
			page_in(&footprints->merged, footprint->pages[i].number, sizeof *all);

		apart &= all && merge_page(all, &footprint->pages[i]);
	}
	return apart;
}

/*
 * Clusters on several host threads.  Each leaves a footprint of the words of global
 * memory that it has read and written; footprints are compared in the order of the
 * clusters.  What a page held before its first write is kept, so that a grid
 * whose clusters meet can begin again on one thread.
 */
#include "between.h"
#include "shadow.h"

#include <pthread.h>
#include <stdlib.h>

struct page {
	uint64_t number;
	uint32_t written[EMU_PAGE_BLOCKS], read[EMU_PAGE_BLOCKS]; /* words of each block */
};

struct saved {
	uint64_t number, address;
	uint32_t size;
	uint8_t bytes[EMU_PAGE_BYTES];
};

struct emu_footprint {
	uint32_t count;
	struct page pages[];
};

struct emu_footprints {
	struct emu_index merged, saved; /* of struct page, struct saved */
	pthread_mutex_t lock;           /* of `saved` */
};

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
	emu_index_free(&(*footprints)->merged);
	emu_index_free(&(*footprints)->saved);
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
		saved = emu_index_at(&footprints->saved, n, sizeof *saved);
		if (saved && !saved->size)
			save(grid, saved,
			     n == address / EMU_PAGE_BYTES ? address : address + size - 1);
		pthread_mutex_unlock(&footprints->lock);
	}
}

void emu_footprint_undo(struct emu_grid *grid)
{
	struct emu_index *saved = &(*emu_between_footprints(grid->between))->saved;

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

static void take_page(const struct emu_hazards *h, struct page *to, const struct emu_page *from)
{
	to->number = from->number;
	for (int i = 0; i < EMU_PAGE_BLOCKS; i++)
		emu_block_touched(h, &from->blocks[i], &to->written[i], &to->read[i]);
}

struct emu_footprint *emu_footprint_take(const struct emu_cluster *cluster)
{
	const struct emu_hazards *h = cluster->hazards;
	struct emu_footprint *footprint =
		malloc(sizeof *footprint + h->pages.count * sizeof *footprint->pages);

	if (footprint)
		footprint->count = 0;
	for (uint32_t i = 0; footprint && i < h->pages.buckets; i++)
		if (h->pages.items[i])
			take_page(h, &footprint->pages[footprint->count++], h->pages.items[i]);
	return footprint;
}

void emu_footprint_free(struct emu_footprint *footprint)
{
	free(footprint);
}

static bool merge_page(struct page *all, const struct page *one)
{
	uint32_t both = 0;

	for (int i = 0; i < EMU_PAGE_BLOCKS; i++) {
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
			emu_index_at(&footprints->merged, footprint->pages[i].number, sizeof *all);

		apart &= all && merge_page(all, &footprint->pages[i]);
	}
	return apart;
}

/*
 * Between clusters: what one has done to global memory, for the others.
 *
 * Clusters that run on one host thread look at each access; those that share
 * none with another one, as far as the text says, may run on several: then their
 * footprints are compared behind them, and where two have touched the same bytes the
 * grid's memory is put back and it runs once more, on one thread.
 */
#ifndef TCMMA_EMU_BETWEEN_H
#define TCMMA_EMU_BETWEEN_H

#include "hazard.h"

/* ---- what is known of other clusters (known.c) --------------------------------------- */

/* One reference less; NULL is nothing. */
void emu_known_drop(struct emu_known *known);
void emu_known_join(struct emu_known **to, struct emu_known *from);
void emu_known_add(struct emu_known **known, uint64_t cluster, const struct emu_clock *generic,
		   const struct emu_clock *global);
/* What is known is visible to the async proxy too. */
void emu_known_fence(struct emu_known **known);
/* NULL: nothing has been heard of the cluster. */
const struct emu_clock *emu_known_of(const struct emu_known *known, uint64_t cluster, bool proxy);

/* ---- places that strong accesses synchronise at (strong.c) ------------------------------ */

struct emu_places *emu_places_new(void);
void emu_places_free(struct emu_places *places);
/* Nothing has been handed on at any place, and the access hands on nothing. */
bool emu_strong_idle(const struct emu_order *order, const struct emu_places *places,
		     unsigned semantics, enum emu_scope scope, enum emu_access_kind kind);
void emu_strong_access(struct emu_order *order, struct emu_places *places, uint64_t address,
		       unsigned semantics, enum emu_scope scope, enum emu_access_kind kind);
/* ---- accesses (between.c) ------------------------------------------------------------------ */

/* Of one cell by one cluster. */
struct emu_touch {
	uint32_t cluster : 25; /* 1 + index, 0: none */
	uint32_t kind : 5;     /* enum emu_actor_kind */
	uint32_t scope : 2;    /* of an atomic access, enum emu_scope */
	uint32_t epoch, site;
	uint16_t who, bytes;
};

struct emu_between_cell {
	struct emu_touch write, read;
	uint32_t writes;  /* further ones, of other bytes: 1 + index, 0: none */
	uint32_t readers; /* further ones: a set of readers.c */
};

/* ---- sets of reads of one cell (readers.c); 0 is the empty one ------------------------------ */

struct emu_readers;

struct emu_readers *emu_readers_new(void);
void emu_readers_free(struct emu_readers *readers);
/* Takes one out of the set; NULL when there is none. */
const struct emu_touch *emu_readers_next(const struct emu_readers *readers, uint32_t *set);
/* The set and the read that is made now, less those that it covers. */
uint32_t emu_readers_add(struct emu_readers *readers, uint32_t set, const struct emu_touch *touch,
			 const struct emu_order *order);
/* Less those of the bytes. */
uint32_t emu_readers_without(struct emu_readers *readers, uint32_t set, uint16_t bytes);
/* What comes behind the read that is made now comes behind the earlier one of its bytes as well. */
bool emu_readers_covers(const struct emu_order *order, const struct emu_touch *now,
			const struct emu_touch *earlier);

struct emu_between_page {
	uint64_t number;
	struct emu_between_cell cells[EMU_PAGE_CELLS];
};

struct emu_foreign {
	const struct emu_site *site; /* NULL: unknown */
	uint64_t cluster;
	struct emu_moment moment;
	uint8_t kind, scope; /* enum emu_actor_kind, enum emu_scope of an atomic access */
	bool write;
};

bool emu_between_init(struct emu_grid *grid);
void emu_between_free(struct emu_grid *grid);
struct emu_places *emu_between_places(struct emu_between *between);
/* The cluster is about to be freed. */
void emu_between_ends(struct emu_hazards *hazards);
struct emu_between_check {
	struct emu_access *access;
	struct emu_between *between;
	struct emu_spot spot;
	struct emu_touch touch; /* what the access leaves behind */
};

/* Parts of the two below: the cluster's first access; the page's; whatever is not simple. */
bool emu_between_joins(struct emu_hazards *hazards);
bool emu_between_page_of(struct emu_between *between, struct emu_page *page);
void emu_between_look(struct emu_between_check *check, struct emu_between_cell *cell,
		      uint64_t address);

/* False without memory: then nothing is looked at. */
static inline bool emu_between_begin(struct emu_between_check *check, struct emu_access *access)
{
	struct emu_hazards *h = access->order->hazards;

	if (!h->joined && !emu_between_joins(h))
		return false;
	check->access = access;
	check->between = h->cluster->grid->between;
	check->touch = (struct emu_touch){.cluster = (uint32_t)h->cluster->index + 1,
					  .kind = access->kind,
					  .scope = access->atomic ? access->scope : EMU_SCOPE_NONE,
					  .epoch = access->moment.epoch,
					  .site = access->site,
					  .who = access->moment.who};
	return true;
}

/* Most cells belong to one cluster, and are read by one warp or barrier: false for others. */
static inline bool emu_between_own(struct emu_between_check *check, struct emu_page *page,
				   uint64_t address, uint32_t first, uint32_t size)
{
	struct emu_touch *now = &check->touch, *own;
	struct emu_between_cell *cell;
	bool again;

	if (!page->between && !emu_between_page_of(check->between, page))
		return true;
	cell = &page->between->cells[address / EMU_CELL_BYTES % EMU_PAGE_CELLS];
	now->bytes = (uint16_t)((1u << (first + size)) - (1u << first));
	own = check->access->write ? &cell->write : &cell->read;
	if (cell->writes || cell->readers ||
	    (cell->write.cluster && cell->write.cluster != now->cluster) ||
	    (cell->read.cluster && cell->read.cluster != now->cluster))
		return false;
	again = own->who == now->who && own->epoch == now->epoch;
	if (own->cluster && !again &&
	    (now->bytes != 0xffff || (!check->access->write && own->who != now->who)))
		return false;
	now->bytes |= again && own->cluster ? own->bytes : 0;
	*own = *now;
	return true;
}

/* The other clusters' accesses of a cell that nothing orders with this one are reported. */
static inline void emu_between_cell(struct emu_between_check *check, struct emu_page *page,
				    uint64_t address, uint32_t first, uint32_t size)
{
	if (!emu_between_own(check, page, address, first, size) && page->between)
		emu_between_look(check,
				 &page->between->cells[address / EMU_CELL_BYTES % EMU_PAGE_CELLS],
				 address);
}

/* ---- clusters on several host threads (footprint.c)
 * ---------------------------------------------- */

struct emu_footprint; /* of a cluster that has run */
struct emu_footprints;

struct emu_footprints **emu_between_footprints(struct emu_between *between);
/* From now on clusters run beside each other; until emu_footprint_end. */
bool emu_footprint_begin(struct emu_grid *grid);
void emu_footprint_end(struct emu_grid *grid);
/* Before a write; what stood there is kept. */
void emu_footprint_save(struct emu_grid *grid, struct emu_hazards *hazards, uint64_t address,
			uint64_t size);
struct emu_footprint *emu_footprint_take(const struct emu_cluster *cluster);
/* In the order of the clusters: false when an earlier one has touched the same bytes. */
bool emu_footprint_merge(struct emu_grid *grid, const struct emu_footprint *footprint);
void emu_footprint_free(struct emu_footprint *footprint);
/* Memory becomes what it was at emu_footprint_begin. */
void emu_footprint_undo(struct emu_grid *grid);

#endif

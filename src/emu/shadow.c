/*
 * Accesses of shared, global and tensor memory, block by block.  Asynchronous
 * operations enter at issue with the epoch they will complete in, so that what
 * touches their memory meanwhile finds them.
 */
#include "later.h"

#include <stdlib.h>

enum {
	unit_bytes = EMU_BLOCK_BYTES / 32,
	units_in_cell = 4,
	units_in_column = 4
};

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

struct emu_check emu_check_begin(struct emu_access *access, enum emu_space space)
{
	static const struct emu_clock nothing;
	const struct emu_clock *clocks = access->order->now.clock;
	struct emu_check c = {.access = access,
			      .hazards = access->order->hazards,
			      .lane = (int8_t)access->lane,
			      .shift = EMU_ONE_LANE};

	c.writes = clock_of(access, space);
	c.reads = access->late ? &nothing
			       : &clocks[space == EMU_REG ? EMU_CLOCK_TENSOR : EMU_CLOCK_GENERIC];
	if (space == EMU_REG)
		c.fenced = &clocks[EMU_CLOCK_FENCED];
	if (access->kind == EMU_ACTOR_WARP && !access->map)
		c.cta = (uint8_t)(access->order->warp->cta->rank + 1);
	c.spot.space = space;
	return c;
}

/* ---- bytes of a block ------------------------------------------------------------------ */

/* What an access touches of one block. */
struct part {
	uint64_t address;     /* or the offset in shared memory */
	uint32_t first, size; /* bytes of the block */
	uint64_t behind;      /* bytes of the access before it */
};

/* Who looks at a part cell by cell: the cluster where it has cells, others where there are any. */
struct lookers {
	struct emu_cell *cells;
	struct emu_between_check *others;
	struct emu_page *page;
};

static void look_at(struct emu_check *c, const struct lookers *l, uint64_t address, uint32_t first,
		    uint32_t size)
{
	for (uint32_t end = first + size, bytes; first < end; first += bytes) {
		uint32_t within = first % EMU_CELL_BYTES;

		bytes = EMU_CELL_BYTES - within < end - first ? EMU_CELL_BYTES - within
							      : end - first;
		c->spot.address = address;
		c->spot.size = bytes;
		if (l->cells)
			emu_cell_bytes(c, &l->cells[first / EMU_CELL_BYTES], within, bytes);
		if (l->others)
			emu_between_cell(l->others, l->page, address, within, bytes);
		address += bytes;
	}
}

/* Lane by lane, since lanes lie within blocks. */
static void look_at_lanes(struct emu_check *c, const struct lookers *l, const struct part *part)
{
	struct emu_access *a = c->access;
	uint8_t lane = a->lane;
	bool same = a->same;

	for (uint32_t i = 0; i < part->size; i += a->lane_bytes) {
		a->lane = (uint8_t)(lane + (part->behind + i) / a->lane_bytes);
		a->same = a->same_lanes >> a->lane & 1;
		look_at(c, l, part->address + i, part->first + i, a->lane_bytes);
	}
	a->lane = lane;
	a->same = same;
}

/* Lanes of cells that the cluster has for itself need not be told apart. */
static void look_at_cells(struct emu_check *c, const struct lookers *l, const struct part *part)
{
	struct part cell = *part;

	cell.size = EMU_CELL_BYTES;
	for (uint32_t i = 0; i < part->size; i += EMU_CELL_BYTES) {
		cell.address = part->address + i;
		cell.first = part->first + i;
		cell.behind = part->behind + i;
		if (!emu_between_own(l->others, l->page, cell.address, 0, EMU_CELL_BYTES))
			look_at_lanes(c, l, &cell);
	}
}

static void look(struct emu_check *c, const struct lookers *l, const struct part *part)
{
	if (!c->access->lane_bytes)
		look_at(c, l, part->address, part->first, part->size);
	else if (l->cells || c->access->lane_bytes > EMU_CELL_BYTES ||
		 (part->first | part->size) % EMU_CELL_BYTES)
		look_at_lanes(c, l, part);
	else
		look_at_cells(c, l, part);
}

static inline bool touch_units(struct emu_check *c, struct emu_block *block,
			       const struct part *part)
{
	const struct emu_access *a = c->access;
	uint32_t units = UINT32_MAX;

	if ((part->first | part->size) % unit_bytes)
		return false;
	if (part->size < EMU_BLOCK_BYTES)
		units = ((1u << part->size / unit_bytes) - 1) << part->first / unit_bytes;
	if (a->lane_bytes)
		c->lane = (int8_t)(a->lane +
				   (int)((int64_t)(part->behind - part->first) >> c->shift));
	return emu_block_touch(c, block, units);
}

static void touch_cells(struct emu_check *c, struct emu_block *block, const struct part *part,
			struct lookers *l)
{
	emu_access_same(c->access);
	if (touch_units(c, block, part)) {
		if (l->others)
			look(c, l, part);
		return;
	}
	if (c->spot.cta)
		emu_later_cells((struct emu_cta *)(uintptr_t)c->spot.cta);
	l->cells = emu_block_cells(c, block);
	if (!l->cells)
		return;
	look(c, l, part);
	if (c->access->write && part->size == EMU_BLOCK_BYTES)
		emu_block_written(c, block);
}

static inline void touch(struct emu_check *c, struct emu_block *block, const struct part *part,
			 struct emu_between_check *others, struct emu_page *page)
{
	struct lookers l = {.others = c->access->looking ? NULL : others, .page = page};

	if (l.others || !touch_units(c, block, part))
		touch_cells(c, block, part, &l);
}

/* The part of the block at `address`; `left` bytes of the access are still to be touched. */
static inline struct part part_at(uint64_t address, uint64_t left, uint64_t behind)
{
	uint32_t first = address % EMU_BLOCK_BYTES, size = EMU_BLOCK_BYTES - first;

	return (struct part){address, first, size < left ? size : (uint32_t)left, behind};
}

/* ---- shared memory ------------------------------------------------------------------------- */

void emu_access_shared(struct emu_access *access, struct emu_cta *cta, uint32_t offset,
		       uint32_t size)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);
	struct emu_check c = emu_check_begin(access, EMU_SHARED);
	uint32_t end = offset + size;

	if (!access->moment.who || end > cta->shared_bytes || end <= offset)
		return;
	c.spot.cta = cta;
	if (access->lane_bytes)
		c.shift = (uint8_t)__builtin_ctz(access->lane_bytes);
	emu_later_access(cta, access);
	if (access->write)
		memset(h->swizzles + offset / EMU_CELL_BYTES, access->swizzle,
		       (end - 1) / EMU_CELL_BYTES - offset / EMU_CELL_BYTES + 1);
	for (uint32_t at = offset; at < end;) {
		struct part part = part_at(at, end - at, at - offset);

		touch(&c, &h->blocks[at / EMU_BLOCK_BYTES], &part, NULL, NULL);
		at += part.size;
	}
}

/* ---- global memory --------------------------------------------------------------------------- */

struct emu_page *emu_page_of(struct emu_hazards *h, uint64_t number)
{
	struct emu_page **hit = &h->page_hits[number % EMU_PAGE_HITS], *page = *hit;

	if (page && page->number == number)
		return page;
	page = emu_index_at(&h->pages, number, sizeof *page);
	if (page)
		*hit = page;
	return page;
}

void emu_global_begin(struct emu_global_access *g, struct emu_access *access)
{
	struct emu_between *between = access->order->warp->grid->between;

	g->check = emu_check_begin(access, EMU_GLOBAL);
	g->tracing = between && *emu_between_footprints(between);
	g->looking = access->moment.who && between && !g->tracing &&
		     emu_between_begin(&g->others, access);
	access->defined = false;
	if (access->lane_bytes)
		g->check.shift = (uint8_t)__builtin_ctz(access->lane_bytes);
}

void emu_global_part(struct emu_global_access *g, uint64_t address, uint64_t size)
{
	const struct emu_access *access = g->check.access;
	struct emu_hazards *h = g->check.hazards;

	if (!access->moment.who)
		return;
	if (g->tracing && access->write && access->kind != EMU_ACTOR_WARP)
		emu_footprint_save(h->cluster->grid, h, address, size);
	for (uint64_t behind = 0; behind < size;) {
		struct part part = part_at(address + behind, size - behind, behind);
		struct emu_page *page = emu_page_of(h, part.address / EMU_PAGE_BYTES);

		if (!page)
			return;
		touch(&g->check, &page->blocks[part.address / EMU_BLOCK_BYTES % EMU_PAGE_BLOCKS],
		      &part, g->looking ? &g->others : NULL, page);
		behind += part.size;
	}
}

void emu_access_global(struct emu_access *access, uint64_t address, uint64_t size)
{
	struct emu_global_access global;

	emu_global_begin(&global, access);
	emu_global_part(&global, address, size);
}

/* ---- lanes in no order ----------------------------------------------------------------------- */

static struct emu_block *global_block(const struct emu_order *order, uint64_t address)
{
	struct emu_between *between = order->warp->grid->between;
	struct emu_page *page;

	if (between && !*emu_between_footprints(between))
		return NULL;
	page = emu_page_of(order->hazards, address / EMU_PAGE_BYTES);
	return page ? &page->blocks[address / EMU_BLOCK_BYTES % EMU_PAGE_BLOCKS] : NULL;
}

static struct emu_block *shared_block(const struct emu_access *access, uint32_t address,
				      uint32_t units)
{
	struct emu_cta *owner = emu_shared_owner(access->order->warp->cta, address);
	uint32_t block = ((address & EMU_SHARED_MASK) - EMU_SHARED_BASE) / EMU_BLOCK_BYTES;
	struct emu_cta_hazards *h;

	if (!owner || block >= owner->shared_bytes / EMU_BLOCK_BYTES)
		return NULL;
	h = emu_hazards_of_cta(owner);
	emu_later_access(owner, access);
	if (access->write) {
		uint32_t first = (uint32_t)__builtin_ctz(units) / units_in_cell;
		uint32_t last = (31 - (uint32_t)__builtin_clz(units)) / units_in_cell;

		for (uint32_t i = first; i <= last; i++)
			if (units >> units_in_cell * i & 0xf)
				h->swizzles[block * EMU_BLOCK_CELLS + i] = access->swizzle;
	}
	return &h->blocks[block];
}

bool emu_access_units(struct emu_check *c, enum emu_space space, uint64_t address, uint32_t units)
{
	struct emu_block *block = NULL;

	if (space == EMU_GLOBAL)
		block = global_block(c->access->order, address);
	else if (space == EMU_SHARED || space == EMU_SHARED_CLUSTER)
		block = shared_block(c->access, (uint32_t)address, units);
	return block && emu_block_touch(c, block, units);
}

/* ---- tensor memory ------------------------------------------------------------------------------
 */

static struct emu_block *tmem_blocks(const struct emu_cta *cta)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);

	if (!h->tmem)
		h->tmem = calloc(EMU_TMEM_COLUMNS / EMU_BLOCK_CELLS * EMU_TMEM_WINDOWS,
				 sizeof *h->tmem);
	return h->tmem;
}

static uint32_t columns_mask(uint32_t first, uint32_t columns)
{
	uint32_t units = columns * units_in_column;

	return (units < 32 ? (1u << units) - 1 : UINT32_MAX) << first * units_in_column;
}

static inline bool touch_columns(struct emu_check *c, struct emu_block *block, uint32_t units)
{
	return (!(units & ~block->valid) && emu_block_touch_again(c->access, block, units)) ||
	       emu_block_touch(c, block, units);
}

static void columns_of(struct emu_check *c, struct emu_cell *cells, uint32_t columns,
		       uint16_t lanes)
{
	for (uint32_t i = 0; i < columns; i++, c->spot.address++) {
		if (c->access->defined && (cells[i].valid & lanes) != lanes)
			emu_report_undefined(c->access, &c->spot);
		if (c->access->write)
			cells[i].valid |= lanes;
		emu_cell_check(c, &cells[i], EMU_WHOLE_WORD);
	}
}

void emu_access_tmem(struct emu_access *access, struct emu_cta *cta, uint32_t column,
		     uint32_t columns, uint32_t window, uint16_t lanes)
{
	struct emu_check c = emu_check_begin(access, EMU_REG);
	struct emu_block *blocks = tmem_blocks(cta);

	if (!blocks || !access->moment.who || window >= EMU_TMEM_WINDOWS ||
	    column + columns > EMU_TMEM_COLUMNS)
		return;
	c.spot.cta = cta;
	c.spot.size = 1;
	for (uint32_t count; columns; column += count, columns -= count) {
		uint32_t first = column % EMU_BLOCK_CELLS;
		struct emu_block *block =
			&blocks[column / EMU_BLOCK_CELLS * EMU_TMEM_WINDOWS + window];
		struct emu_cell *cells;

		count = EMU_BLOCK_CELLS - first < columns ? EMU_BLOCK_CELLS - first : columns;
		if (lanes == EMU_WHOLE_CELL && touch_columns(&c, block, columns_mask(first, count)))
			continue;
		cells = emu_block_cells(&c, block);
		if (!cells)
			return;
		c.spot.address = (uint64_t)window * EMU_TMEM_WINDOW << 16 | column;
		columns_of(&c, cells + first, count, lanes);
		if (access->write && lanes == EMU_WHOLE_CELL && count == EMU_BLOCK_CELLS)
			emu_block_written(&c, block);
	}
}

void emu_access_tmem_lanes(struct emu_access *access, struct emu_cta *cta, uint32_t column,
			   uint32_t columns, uint32_t lane, uint32_t lanes)
{
	for (uint32_t at = lane; at < lane + lanes; at += EMU_TMEM_WINDOW)
		emu_access_tmem(access, cta, column, columns, at / EMU_TMEM_WINDOW, EMU_WHOLE_CELL);
}

uint32_t emu_tmem_undefined(const struct emu_cta *cta, uint32_t column, uint32_t lane)
{
	const struct emu_hazards *h = cta->cluster->hazards;
	const struct emu_block *block = tmem_blocks(cta);
	uint32_t window = lane / EMU_TMEM_WINDOW, within = column % EMU_BLOCK_CELLS;

	if (!block || column >= EMU_TMEM_COLUMNS || window + 1 >= EMU_TMEM_WINDOWS)
		return 0;
	block += column / EMU_BLOCK_CELLS * EMU_TMEM_WINDOWS + window;
	return ~(emu_block_lanes(h, block, within) | (uint32_t)emu_block_lanes(h, block + 1, within)
							     << EMU_TMEM_WINDOW);
}

bool emu_tmem_written(const struct emu_cta *cta, uint32_t column, uint32_t columns, uint32_t lane)
{
	const struct emu_block *blocks = tmem_blocks(cta);
	uint32_t window = lane / EMU_TMEM_WINDOW;

	if (!blocks || column + columns > EMU_TMEM_COLUMNS || window + 1 >= EMU_TMEM_WINDOWS)
		return false;
	for (uint32_t count; columns; column += count, columns -= count) {
		uint32_t first = column % EMU_BLOCK_CELLS;
		const struct emu_block *b =
			&blocks[column / EMU_BLOCK_CELLS * EMU_TMEM_WINDOWS + window];

		count = EMU_BLOCK_CELLS - first < columns ? EMU_BLOCK_CELLS - first : columns;
		if (b[0].cells || b[1].cells ||
		    columns_mask(first, count) & ~(b[0].valid & b[1].valid))
			return false;
	}
	return true;
}

void emu_access_tmem_fresh(struct emu_cta *cta, uint32_t column, uint32_t columns)
{
	struct emu_block *blocks = tmem_blocks(cta);
	uint32_t end = (column + columns) / EMU_BLOCK_CELLS * EMU_TMEM_WINDOWS;

	for (uint32_t i = column / EMU_BLOCK_CELLS * EMU_TMEM_WINDOWS; blocks && i < end; i++)
		emu_block_clear(cta->cluster->hazards, &blocks[i]);
}

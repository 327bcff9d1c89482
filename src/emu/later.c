#include "wide.h"

#include "later.h"

#include <stdlib.h>

enum {
	most_later = 1024
};

struct emu_later {
	struct emu_order *order;
	uint32_t epoch, site, mask, size;
	uint32_t offset[EMU_LANES]; /* in shared memory */
};

void emu_later_free(struct emu_cta_hazards *h)
{
	free(h->later);
}

void emu_later_met(struct emu_cta *cta)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);

	h->later_count = 0;
	h->wrote = false;
}

/* ---- what has been written ------------------------------------------------------------------ */

/* Bytes of shared memory from its beginning on without a word that has not been. */
static uint32_t written(struct emu_cta_hazards *h, const struct emu_cta *cta)
{
	while (h->written + EMU_BLOCK_BYTES <= cta->shared_bytes &&
	       h->blocks[h->written / EMU_BLOCK_BYTES].valid == UINT32_MAX)
		h->written += EMU_BLOCK_BYTES;
	return h->written;
}

/* Units of a block that an aligned access touches. */
static inline uint32_t units_of(uint32_t offset, uint32_t size)
{
	return ((1u << (size + 3) / 4) - 1) << offset % EMU_BLOCK_BYTES / 4;
}

static bool defined(struct emu_cta_hazards *h, const struct emu_cta *cta, const uint32_t *offset,
		    uint32_t mask, uint64_t end, uint32_t size)
{
	if (end <= h->written || end <= written(h, cta))
		return true;
	EMU_FOR_LANES(l, mask)
	{
		if (units_of(offset[l], size) & ~h->blocks[offset[l] / EMU_BLOCK_BYTES].valid)
			return false;
	}
	return true;
}

/* ---- reads that wait ---------------------------------------------------------------------------
 */

/* Whose order and place in the text are noted; NULL where there is no room: as many as there have
   been cost more than they save. */
static struct emu_later *add(struct emu_order *order, uint32_t mask, uint32_t size)
{
	struct emu_cta *cta = order->warp->cta;
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);
	struct emu_later *later;

	if (!h->later)
		h->later = malloc(most_later * sizeof *h->later);
	if (!h->later)
		return NULL;
	if (h->later_count == most_later) {
		emu_later_note(cta);
		h->wrote = true;
		return NULL;
	}
	later = &h->later[h->later_count++];
	later->order = order;
	later->epoch = emu_clock_at(&order->now.clock[EMU_CLOCK_GENERIC], order->self);
	later->site = emu_site_of(order);
	later->mask = mask;
	later->size = size;
	return later;
}

static inline bool must_note(const struct emu_cta_hazards *h)
{
	return h->wrote || h->at_once;
}

/* Offsets of all lanes, of which the highest is returned; more than any where one is outside. */
#define OFFSETS(name, attribute)                                                                   \
	attribute static uint64_t name(const uint64_t *at, uint64_t base, uint32_t *offset)        \
	{                                                                                          \
		uint64_t bits = 0;                                                                 \
		uint32_t last = 0;                                                                 \
                                                                                                   \
		for (int l = 0; l < EMU_LANES; l++) {                                              \
			bits |= at[l] - base;                                                      \
			offset[l] = (uint32_t)(at[l] - base);                                      \
		}                                                                                  \
		for (int l = 0; l < EMU_LANES; l++)                                                \
			last = offset[l] > last ? offset[l] : last;                                \
		return bits >> 32 ? UINT64_MAX : last;                                             \
	}

OFFSETS(offsets, )
#if EMU_HAVE_WIDE
OFFSETS(offsets_wide, EMU_WIDE)
#else
#define offsets_wide offsets
#endif

bool emu_later_read(struct emu_order *order, uint8_t *const *at, uint32_t mask, uint32_t size)
{
	const struct emu_cta *cta = order->warp->cta;
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);
	uint32_t offset[EMU_LANES];
	struct emu_later *later;
	uint64_t last;

	if (must_note(h))
		return false;
	last = (emu_host_is_wide() ? offsets_wide : offsets)((const uint64_t *)(const void *)at,
							     (uintptr_t)cta->shared, offset);
	if (last >= cta->shared_bytes || !defined(h, cta, offset, mask, last + size, size))
		return false;
	later = add(order, mask, size);
	if (later)
		memcpy(later->offset, offset, sizeof offset);
	return later;
}

bool emu_later_run(struct emu_order *order, const uint8_t *at, uint32_t step, uint32_t size)
{
	const struct emu_cta *cta = order->warp->cta;
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);
	uint64_t offset = (uintptr_t)at - (uintptr_t)cta->shared;
	uint64_t end = offset + (EMU_LANES - 1) * step + size;
	uint32_t offsets[EMU_LANES];
	struct emu_later *later;

	if (must_note(h) || offset >= cta->shared_bytes)
		return false;
	for (uint32_t l = 0; l < EMU_LANES; l++)
		offsets[l] = (uint32_t)offset + l * step;
	if (!defined(h, cta, offsets, EMU_FULL, end, size))
		return false;
	later = add(order, EMU_FULL, size);
	if (later)
		memcpy(later->offset, offsets, sizeof offsets);
	return later;
}

/* ---- and are noted
 * ------------------------------------------------------------------------------- */

/* What the warp has learnt since then came behind its read. */
static void note(struct emu_cta *cta, const struct emu_later *later)
{
	struct emu_access access = {.order = later->order,
				    .moment = {later->order->self, later->epoch},
				    .kind = EMU_ACTOR_WARP,
				    .in_order = true,
				    .late = true,
				    .site = later->site};
	uint64_t address[EMU_LANES];

	for (int l = 0; l < EMU_LANES; l++)
		address[l] = emu_shared_base(cta) + later->offset[l];
	emu_watch_access(&access, EMU_SHARED, address, later->mask, later->size);
}

void emu_later_note(struct emu_cta *cta)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(cta);
	uint32_t count = h->later_count;

	h->later_count = 0;
	for (uint32_t i = 0; i < count; i++)
		note(cta, &h->later[i]);
}

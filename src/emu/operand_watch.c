/*
 * Operands of the tensor cores in shared memory.  Their 16-byte units are looked at
 * a block at a time: which units of which blocks an operand has does not depend on
 * where it begins but for the bits that swizzling looks at, so it is worked out
 * once for each kind of operand.
 */
#include "shadow.h"

#include <stdlib.h>

enum {
	atom_bytes = 1024, /* of the longest pattern of swizzling */
	most_apart =
		16 /* units of a block lie no further apart in the walk, or it has two entries */
};

/* ---- unit by unit ----------------------------------------------------------------------- */

static const char *swizzle_name(uint8_t one_based)
{
	static const char *const names[] = {"no", "32B", "64B", "128B", "128B (32-byte atoms)"};

	return one_based <= sizeof names / sizeof *names ? names[one_based - 1] : "another";
}

static void swizzles_differ(struct emu_watched *w, uint32_t address, uint8_t written)
{
	struct emu_where where = emu_here(w->access.order->warp, -1);

	emu_report_rule(&where, EMU_RULE_SWIZZLE, NULL,
			"reads shared 0x%x of CTA rank %u with %s swizzle; a tensor copy wrote it "
			"with %s swizzle",
			address, w->cta->rank, swizzle_name(w->swizzle), swizzle_name(written));
	w->swizzle = 0;
}

static void watch_unit(void *context, uint32_t address)
{
	struct emu_watched *w = context;
	uint32_t offset = address - EMU_SHARED_BASE;
	uint8_t written;

	if (w->swizzle && offset < w->cta->shared_bytes) {
		written = emu_hazards_of_cta(w->cta)->swizzles[offset / EMU_CELL_BYTES];
		if (written && written != w->swizzle)
			swizzles_differ(w, address, written);
	}
	emu_access_shared(&w->access, w->cta, offset, EMU_CELL_BYTES);
}

/* ---- blocks of an operand ----------------------------------------------------------------- */

struct kind {
	uint32_t start, leading, stride, base_offset; /* the start within an atom */
	int element_bytes, rows, k_bytes;
	enum emu_swizzle swizzle;
	bool mn_major;
};

struct units {
	uint32_t block; /* from the atom that the operand begins in */
	uint32_t units;
};

struct emu_operand_blocks {
	struct kind kind;
	uint32_t count;
	struct units of[];
};

static bool same_kind(const struct kind *a, const struct kind *b)
{
	return a->start == b->start && a->leading == b->leading && a->stride == b->stride &&
	       a->base_offset == b->base_offset && a->element_bytes == b->element_bytes &&
	       a->rows == b->rows && a->k_bytes == b->k_bytes && a->swizzle == b->swizzle &&
	       a->mn_major == b->mn_major;
}

static struct emu_operand_blocks **place_of(struct emu_hazards *h, const struct kind *kind)
{
	uint32_t hash = kind->start / EMU_CELL_BYTES + (uint32_t)kind->rows * 5 + kind->mn_major;

	return &h->operands[hash * 0x9e3779b9u >> 28 & (EMU_OPERAND_KINDS - 1)];
}

static void add_unit(void *context, uint32_t address)
{
	struct emu_operand_blocks *o = context;
	uint32_t block = address / EMU_BLOCK_BYTES, units = 0xfu << address % EMU_BLOCK_BYTES / 4;
	uint32_t first = o->count > most_apart ? o->count - most_apart : 0;

	for (uint32_t i = o->count; i > first; i--)
		if (o->of[i - 1].block == block) {
			o->of[i - 1].units |= units;
			return;
		}
	o->of[o->count++] = (struct units){block, units};
}

static size_t most_units(const struct kind *kind)
{
	size_t rows = (size_t)kind->rows, bytes = (size_t)kind->k_bytes;
	size_t element = (size_t)kind->element_bytes;

	return kind->mn_major ? (bytes + element - 1) / element * ((rows * element + 15) / 16)
			      : rows * ((bytes + 15) / 16);
}

static struct emu_operand_blocks *make(const struct emu_smem_descriptor *descriptor,
				       const struct kind *kind)
{
	struct emu_smem_descriptor within = *descriptor;
	struct emu_operand_blocks *o = malloc(sizeof *o + most_units(kind) * sizeof *o->of);

	if (!o)
		return NULL;
	o->kind = *kind;
	o->count = 0;
	within.start = kind->start;
	emu_operand_units(&within, kind->mn_major, kind->element_bytes, kind->rows, kind->k_bytes,
			  add_unit, o);
	return o;
}

static const struct emu_operand_blocks *blocks_of(struct emu_hazards *h,
						  const struct emu_smem_descriptor *descriptor,
						  const struct kind *kind)
{
	struct emu_operand_blocks **at = place_of(h, kind);

	if (!*at || !same_kind(&(*at)->kind, kind)) {
		free(*at);
		*at = make(descriptor, kind);
	}
	return *at;
}

void emu_operands_free(struct emu_hazards *h)
{
	for (int i = 0; i < EMU_OPERAND_KINDS; i++)
		free(h->operands[i]);
}

/* ---- block by block ------------------------------------------------------------------------- */

/* What tensor copies wrote was written as the descriptor reads it. */
static bool swizzle_fits(const struct emu_watched *w, const uint8_t *written, uint32_t units)
{
	uint64_t all, wanted = w->swizzle * 0x0101010101010101ull;

	memcpy(&all, written, sizeof all);
	if (!w->swizzle || !all || all == wanted)
		return true;
	for (uint32_t i = 0; i < EMU_BLOCK_CELLS; i++)
		if (units >> 4 * i & 1 && written[i] && written[i] != w->swizzle)
			return false;
	return true;
}

/* False where a unit may race, or is not what it should be. */
static bool watch_blocks(struct emu_watched *w, const struct emu_operand_blocks *o, uint32_t first)
{
	struct emu_cta_hazards *h = emu_hazards_of_cta(w->cta);
	struct emu_check check = emu_check_begin(&w->access, EMU_SHARED);
	uint32_t end = w->cta->shared_bytes / EMU_BLOCK_BYTES;

	for (uint32_t i = 0; i < o->count; i++) {
		uint32_t block = first + o->of[i].block, units = o->of[i].units;

		if (block >= end ||
		    !swizzle_fits(w, h->swizzles + block * EMU_BLOCK_CELLS, units) ||
		    !emu_block_touch(&check, &h->blocks[block], units))
			return false;
	}
	return true;
}

void emu_watch_operand(struct emu_watched *w, const struct emu_smem_descriptor *descriptor,
		       bool mn_major, int element_bytes, int rows, int k_bytes)
{
	uint32_t start = descriptor->start - EMU_SHARED_BASE;
	struct kind kind = {descriptor->start % atom_bytes,
			    descriptor->leading,
			    descriptor->stride,
			    descriptor->base_offset,
			    element_bytes,
			    rows,
			    k_bytes,
			    descriptor->swizzle,
			    mn_major};
	const struct emu_operand_blocks *blocks = NULL;

	if (!w->access.moment.who)
		return;
	if (!descriptor->absolute && descriptor->start >= EMU_SHARED_BASE)
		blocks = blocks_of(w->access.order->hazards, descriptor, &kind);
	/* What has been noted before a block that fails is noted once more. */
	if (!blocks ||
	    !watch_blocks(w, blocks, start / atom_bytes * (atom_bytes / EMU_BLOCK_BYTES)))
		emu_operand_units(descriptor, mn_major, element_bytes, rows, k_bytes, watch_unit,
				  w);
}

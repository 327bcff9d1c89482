/* Matrix descriptors in shared memory: bits, canonical layouts, operand tiles (3). */
#include "tensor.h"

#include <stdio.h>
#include <string.h>

static uint32_t field(uint64_t bits, int low, int count)
{
	return (uint32_t)(bits >> low & ((1ull << count) - 1));
}

static bool fail(struct emu_error *error, uint64_t bits, const char *what)
{
	snprintf(error->text, sizeof error->text, "shared-memory descriptor 0x%016llx: %s",
		 (unsigned long long)bits, what);
	error->line = 0;
	return false;
}

static void common_fields(uint64_t bits, struct emu_smem_descriptor *descriptor)
{
	descriptor->start = field(bits, 0, 14) << 4;
	descriptor->leading = field(bits, 16, 14) << 4;
	descriptor->stride = field(bits, 32, 14) << 4;
	descriptor->base_offset = field(bits, 49, 3);
	descriptor->absolute = false;
}

bool emu_descriptor_tcgen05(uint64_t bits, bool demand_version,
			    struct emu_smem_descriptor *descriptor, struct emu_error *error)
{
	uint32_t version = field(bits, 46, 3);

	common_fields(bits, descriptor);
	descriptor->absolute = field(bits, 52, 1);
	if (field(bits, 14, 2) || field(bits, 30, 2) || field(bits, 53, 8))
		return fail(error, bits, "bits 14-15, 30-31 and 53-60 must be zero");
	if (version != 1 && (demand_version || version != 0))
		return fail(error, bits, "bits 46-48 must be 0b001");
	switch (field(bits, 61, 3)) {
	case 0:
		descriptor->swizzle = EMU_SWIZZLE_NONE;
		break;
	case 1:
		descriptor->swizzle = EMU_SWIZZLE_128_ATOM_32;
		break;
	case 2:
		descriptor->swizzle = EMU_SWIZZLE_128;
		break;
	case 4:
		descriptor->swizzle = EMU_SWIZZLE_64;
		break;
	case 6:
		descriptor->swizzle = EMU_SWIZZLE_32;
		break;
	default:
		return fail(error, bits,
			    "bits 61-63 hold a swizzle mode that does not exist; 0 is "
			    "none, 1 128B with 32-byte atoms, 2 128B, 4 64B, 6 32B");
	}
	if (descriptor->absolute &&
	    (descriptor->swizzle != EMU_SWIZZLE_128 || descriptor->base_offset))
		return fail(error, bits,
			    "the absolute leading address (bit 52) needs the 128B "
			    "swizzle and base offset 0");
	return true;
}

bool emu_descriptor_wgmma(uint64_t bits, struct emu_smem_descriptor *descriptor,
			  struct emu_error *error)
{
	static const enum emu_swizzle modes[] = {EMU_SWIZZLE_NONE, EMU_SWIZZLE_128, EMU_SWIZZLE_64,
						 EMU_SWIZZLE_32};

	common_fields(bits, descriptor);
	if (field(bits, 14, 2) || field(bits, 30, 2) || field(bits, 46, 3) || field(bits, 52, 10))
		return fail(error, bits,
			    "bits 14-15, 30-31, 46-48 and 52-61 of a wgmma descriptor must be zero "
			    "(bits 46-48 = 0b001 is the form of tcgen05)");
	descriptor->swizzle = modes[field(bits, 62, 2)];
	return true;
}

/* Bytes after which the swizzle repeats along the contiguous dimension. */
static uint32_t span(enum emu_swizzle swizzle)
{
	static const uint32_t spans[] = {16, 32, 64, 128, 128};

	return spans[swizzle];
}

static uint32_t apply(const struct emu_smem_descriptor *descriptor, uint32_t address)
{
	uint32_t line = (address >> 7) - descriptor->base_offset;

	switch (descriptor->swizzle) {
	case EMU_SWIZZLE_32:
		return address ^ (line & 1) << 4;
	case EMU_SWIZZLE_64:
		return address ^ (line & 3) << 4;
	case EMU_SWIZZLE_128:
		return address ^ (line & 7) << 4;
	case EMU_SWIZZLE_128_ATOM_32:
		return address ^ (line & 3) << 5;
	default:
		return address;
	}
}

static uint32_t k_major(const struct emu_smem_descriptor *d, uint32_t row, uint32_t k_byte)
{
	uint32_t rows = row / 8 * d->stride;

	if (d->swizzle == EMU_SWIZZLE_NONE)
		return d->start + row % 8 * 16 + rows + k_byte / 16 * d->leading + k_byte % 16;
	if (d->absolute && (d->start & 127) + k_byte >= 128)
		return d->leading + row % 8 * 128 + rows + (d->start & 127) + k_byte - 128;
	/* Sparse operands have 64 bytes of K: two spans of 32. */
	if (d->swizzle == EMU_SWIZZLE_32)
		return d->start + row % 8 * 32 + rows + k_byte % 32 + k_byte / 32 * d->leading;
	return d->start + row % 8 * span(d->swizzle) + rows + k_byte;
}

static uint32_t mn_major(const struct emu_smem_descriptor *d, uint32_t element, uint32_t row,
			 uint32_t k)
{
	uint32_t byte = row * element, width = span(d->swizzle);

	switch (d->swizzle) {
	case EMU_SWIZZLE_NONE:
		return d->start + byte % 16 + byte / 16 * d->stride + k % 8 * 16 +
		       k / 8 * d->leading;
	case EMU_SWIZZLE_128_ATOM_32:
		return d->start + byte % 128 + byte / 128 * d->leading + k % 4 * 128 +
		       k / 4 * d->stride;
	default:
		return d->start + byte % width + byte / width * d->leading + k % 8 * width +
		       k / 8 * d->stride;
	}
}

uint32_t emu_descriptor_address(const struct emu_smem_descriptor *descriptor, bool mn,
				int element_bytes, uint32_t row, uint32_t k_byte)
{
	uint32_t element = (uint32_t)element_bytes;

	if (!mn)
		return apply(descriptor, k_major(descriptor, row, k_byte));
	return apply(descriptor,
		     mn_major(descriptor, element, row, k_byte / element) + k_byte % element);
}

static bool outside(uint32_t address, const struct emu_smem_view *smem, int row, int k_byte,
		    struct emu_error *error)
{
	snprintf(error->text, sizeof error->text,
		 "the operand reads shared address 0x%x (row %d, byte %d of K); the CTA has "
		 "0x%x..0x%x: start address, leading or stride byte offset of the descriptor is "
		 "wrong, or the tile was not allocated",
		 address, row, k_byte, smem->base, smem->base + smem->size - 1);
	error->line = 0;
	return false;
}

static const uint8_t *unit(const struct emu_smem_view *smem, uint32_t address)
{
	uint32_t offset = address - smem->base;

	return address >= smem->base && smem->size >= 16 && offset <= smem->size - 16
		       ? smem->bytes + offset
		       : NULL;
}

static bool gather_k_major(const struct emu_smem_descriptor *descriptor, int rows, int k_bytes,
			   const struct emu_smem_view *smem, uint8_t *raw, struct emu_error *error)
{
	for (int row = 0; row < rows; row++)
		for (int k = 0; k < k_bytes; k += 16) {
			uint32_t address =
				apply(descriptor, k_major(descriptor, (uint32_t)row, (uint32_t)k));
			const uint8_t *from = unit(smem, address);

			if (!from)
				return outside(address, smem, row, k, error);
			memcpy(raw + row * k_bytes + k, from, 16);
		}
	return true;
}

/* Elements of a 16-byte unit to consecutive rows, each at its own place of K. */
static void scatter(const uint8_t *unit, int element, int count, int pitch, uint8_t *to)
{
	switch (element) {
	case 1:
		for (int i = 0; i < count; i++)
			to[i * pitch] = unit[i];
		break;
	case 2:
		for (int i = 0; i < count; i++)
			memcpy(to + i * pitch, unit + 2 * i, 2);
		break;
	default:
		for (int i = 0; i < count; i++)
			memcpy(to + i * pitch, unit + 4 * i, 4);
	}
}

/* One 16-byte unit holds the same k of consecutive rows. */
static bool gather_mn_major(const struct emu_smem_descriptor *descriptor, int element, int rows,
			    int k_bytes, const struct emu_smem_view *smem, uint8_t *raw,
			    struct emu_error *error)
{
	int per_unit = 16 / element;

	for (int k = 0; k * element < k_bytes; k++)
		for (int row = 0; row < rows; row += per_unit) {
			uint32_t address = apply(descriptor, mn_major(descriptor, (uint32_t)element,
								      (uint32_t)row, (uint32_t)k));
			const uint8_t *from = unit(smem, address);

			if (!from)
				return outside(address, smem, row, k * element, error);
			scatter(from, element, rows - row < per_unit ? rows - row : per_unit,
				k_bytes, raw + row * k_bytes + k * element);
		}
	return true;
}

bool emu_operand_gather(const struct emu_smem_descriptor *descriptor, bool mn, int element_bytes,
			int rows, int k_bytes, const struct emu_smem_view *smem, uint8_t *raw,
			struct emu_error *error)
{
	if (mn)
		return gather_mn_major(descriptor, element_bytes, rows, k_bytes, smem, raw, error);
	return gather_k_major(descriptor, rows, k_bytes, smem, raw, error);
}

void emu_operand_units(const struct emu_smem_descriptor *descriptor, bool mn, int element_bytes,
		       int rows, int k_bytes, emu_unit_visitor *visit, void *context)
{
	uint32_t element = (uint32_t)element_bytes;

	if (!mn) {
		for (uint32_t row = 0; row < (uint32_t)rows; row++)
			for (uint32_t k = 0; k < (uint32_t)k_bytes; k += 16)
				visit(context, apply(descriptor, k_major(descriptor, row, k)));
		return;
	}
	for (uint32_t k = 0; k * element < (uint32_t)k_bytes; k++)
		for (uint32_t row = 0; row < (uint32_t)rows; row += 16 / element)
			visit(context, apply(descriptor, mn_major(descriptor, element, row, k)));
}

/*
 * Arithmetic on rows: all 32 lanes are computed, the active ones kept.  The
 * loops are written so that the compiler turns them into vector code.  Include
 * it first: it raises the optimization level of the file.
 */
#ifndef TCMMA_EMU_ALU_H
#define TCMMA_EMU_ALU_H

#include "wide.h"

#include "machine.h"

/* For each byte eight lanes: 0 or EMU_FULL. */
extern const uint32_t emu_byte_lanes[256][8];

static inline void emu_expand_mask(uint32_t mask, uint32_t lanes[EMU_LANES])
{
	for (int byte = 0; byte < 4; byte++)
		memcpy(lanes + 8 * byte, emu_byte_lanes[mask >> 8 * byte & 0xff],
		       sizeof emu_byte_lanes[0]);
}

/* Lane mask of 32 bytes that are 0 or 1. */
static inline uint32_t emu_pack_flags(const uint8_t flags[EMU_LANES])
{
	uint32_t mask = 0;

	for (int i = 0; i < 4; i++) {
		uint64_t eight;

		memcpy(&eight, flags + 8 * i, 8);
		mask |= (uint32_t)(eight * 0x0102040810204080ull >> 56) << 8 * i;
	}
	return mask;
}

/* 0 or EMU_FULL for each lane of `mask`. */
static inline const uint32_t *emu_lane_mask(struct emu_warp *warp, uint32_t mask)
{
	if (warp->lane_mask_of != mask) {
		emu_expand_mask(mask, warp->lane_mask);
		warp->lane_mask_of = mask;
	}
	return warp->lane_mask;
}

#define EMU_ROW_OF_8(warp, ref)  emu_row32(warp, ref)
#define EMU_ROW_OF_16(warp, ref) emu_row32(warp, ref)
#define EMU_ROW_OF_32(warp, ref) emu_row32(warp, ref)
#define EMU_ROW_OF_64(warp, ref) emu_row64(warp, ref)
#define EMU_CELL_8               uint32_t
#define EMU_CELL_16              uint32_t
#define EMU_CELL_32              uint32_t
#define EMU_CELL_64              uint64_t

/* Runs `value` over the lanes into row d of cell type `cell`. */
#define EMU_OVER_LANES(cell, value)                                                                \
	if (mask == EMU_FULL) {                                                                    \
		EMU_IVDEP                                                                          \
		for (int l = 0; l < EMU_LANES; l++)                                                \
			d[l] = value;                                                              \
	} else {                                                                                   \
		const uint32_t *m = emu_lane_mask(warp, mask);                                     \
		EMU_IVDEP                                                                          \
		for (int l = 0; l < EMU_LANES; l++) {                                              \
			cell result = value;                                                       \
			d[l] = m[l] ? result : d[l];                                               \
		}                                                                                  \
	}                                                                                          \
	return EMU_NEXT;

/* One accepted form of an opcode: its types and who executes it. */
struct emu_form {
	const char *opcode;
	enum emu_type type;
	emu_execute execute;
	uint8_t bits[5]; /* of the operands, the result first; 0 ends */
};

/*
 * Finds the form named by the opcode, the modifiers in their order and the
 * type; takes all of them and checks the operands.
 */
bool emu_decode_form(struct emu_decode *decode, const struct emu_form *forms, int count);

/* Forms with a carry, and those of more than three sources (alu_bits.c). */
extern const struct emu_form emu_bits_forms[];
extern const int emu_bits_form_count;

#endif

/* Special registers: %tid.x and its kin. */
#ifndef TCMMA_EMU_SPECIAL_H
#define TCMMA_EMU_SPECIAL_H

#include "machine.h"

enum emu_special {
#define EMU_SPECIAL(name, text, type) EMU_S_##name,
#define EMU_DYNAMIC(name, text, type) EMU_S_##name,
#include "specials.def"
#undef EMU_SPECIAL
#undef EMU_DYNAMIC
	EMU_S_COUNT
};

/* Rows of the warp bank: one per special register, two for %gridid, the last static one. */
#define EMU_SPECIAL_ROWS (EMU_S_GRIDID + 2)

static inline uint32_t emu_special_ref(int special)
{
	return (uint32_t)special * EMU_ROW_BYTES | EMU_BANK_WARP;
}

/* The special register of a name such as %tid.x, -1 when there is none. */
int emu_special_named(const char *text, size_t length, enum emu_type *type);
bool emu_special_is_dynamic(int special);
/* Makes the warp's bank; its CTA and index are set.  False: no memory. */
bool emu_special_fill(struct emu_warp *warp);
/* A dynamic special register, the same for all lanes. */
uint64_t emu_special_read(const struct emu_warp *warp, int special);

#endif

/* Conversions, as decoded. */
#ifndef TCMMA_EMU_CONVERT_H
#define TCMMA_EMU_CONVERT_H

#include "machine.h"
#include "number.h"
#include "rounding.h"

struct emu_conversion {
	enum emu_type to, from;
	enum emu_rounding rounding;
	bool integral; /* .rni and the like */
	bool flush, saturate, finite, relu, stochastic, scaled;
	bool wide_from; /* the source register has 64 bits */
};

/* Bits of a floating type as a double, and back; the double of a narrowing need not be exact. */
double emu_widen(enum emu_type type, uint64_t bits);
uint64_t emu_narrow(enum emu_type type, double value, enum emu_rounding rounding);

/* A loop over rows, NULL where the form has none; `rounding` as in the text, -1 for none. */
emu_execute emu_conversion_rows(const struct emu_decode *decode, const struct emu_conversion *c,
				int rounding);
bool emu_conversion_is_packed(const struct emu_conversion *conversion);
bool emu_decode_packed(struct emu_decode *decode, struct emu_conversion *conversion, int rounding);
bool emu_decode_pack(struct emu_decode *decode);

#endif

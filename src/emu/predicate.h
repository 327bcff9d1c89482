/* Decoders that share an opcode's name with others: the type among the modifiers decides. */
#ifndef TCMMA_EMU_PREDICATE_H
#define TCMMA_EMU_PREDICATE_H

#include "machine.h"

/* and, or, xor, not of .pred */
bool emu_decode_predicate_logic(struct emu_decode *decode);
/* arithmetic of f32, f64, f32x2, and of the 16-bit floating types */
bool emu_decode_float(struct emu_decode *decode, enum emu_type type);
bool emu_decode_half(struct emu_decode *decode, enum emu_type type);
/* A loop over rows, NULL where there is none; without modifiers, but .relu where that is true. */
emu_execute emu_half_rows(const char *opcode, enum emu_type type, bool relu);
/* The first type among the modifiers, not taken. */
enum emu_type emu_peek_type(const struct emu_decode *decode);

#endif

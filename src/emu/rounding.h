/* Rounding to any binary floating point format, by any of PTX' modes. */
#ifndef TCMMA_EMU_ROUNDING_H
#define TCMMA_EMU_ROUNDING_H

#include "machine.h"

enum emu_rounding {
	EMU_ROUND_NEAREST_EVEN, /* rn */
	EMU_ROUND_ZERO,         /* rz */
	EMU_ROUND_DOWN,         /* rm */
	EMU_ROUND_UP,           /* rp */
	EMU_ROUND_NEAREST_AWAY  /* rna */
};

/* rn, rz, rm, rp, rna, NULL */
extern const char *const emu_rounding_names[];

/* A format with `precision` significant bits, least normal exponent `least`, largest value. */
struct emu_format {
	int precision, least;
	double largest;
};

extern const struct emu_format emu_format_f32, emu_format_f16, emu_format_bf16, emu_format_tf32;

/* Infinity where the format has no such value; NaN stays NaN. */
double emu_round_to(const struct emu_format *format, double value, enum emu_rounding rounding);
/*
 * a + b as a double whose last bit is set when the sum is not exact: rounding
 * it once more to fewer than 52 bits then gives what rounding the exact sum would.
 */
double emu_add_to_odd(double a, double b);
/* An integer as such a double. */
double emu_integer_to_odd(uint64_t magnitude, bool negative);
/* To an integral value. */
double emu_round_integral(double value, enum emu_rounding rounding);
/* The host's rounding mode, for add, mul, fma, div and sqrt of its own types. */
void emu_host_rounding(enum emu_rounding rounding);

#endif

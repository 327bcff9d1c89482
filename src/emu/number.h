/*
 * Number formats of the tensor core and of cvt: bits to values and back.
 *
 * Every format here is a subset of f32, so widening is exact.  Narrowing rounds
 * to nearest even.
 */
#ifndef TCMMA_EMU_NUMBER_H
#define TCMMA_EMU_NUMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A binary format of at most 8 bits (docs/isa.md 10). */
struct emu_minifloat {
	int exponent_bits, mantissa_bits, bias;
	bool has_infinity; /* e5m2: all ones in the exponent as in IEEE */
	bool has_nan;      /* e4m3: only S.1111.111; fp6 and fp4: none */
};

/* What loops over rows call must become part of them: a call keeps a loop from becoming vector
 * code. */
#define EMU_INLINE static inline __attribute__((always_inline))

extern const struct emu_minifloat emu_e4m3, emu_e5m2, emu_e2m3, emu_e3m2, emu_e2m1;

EMU_INLINE float emu_f32_of_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

EMU_INLINE uint32_t emu_bits_of_f32(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

EMU_INLINE float emu_bf16_to_f32(uint16_t bits)
{
	return emu_f32_of_bits((uint32_t)bits << 16);
}

/* a or b, where ?: would become a branch that keeps a loop from becoming vector code. */
EMU_INLINE uint32_t emu_select(bool condition, uint32_t a, uint32_t b)
{
	return b ^ ((a ^ b) & (0u - (uint32_t)condition));
}

/* Of the low 16 bits.  No subnormal f32 arises on the way: hosts are slow with them. */
EMU_INLINE float emu_f32_of_f16(uint32_t bits)
{
	uint32_t magnitude = bits & 0x7fff, sign = (bits & 0x8000) << 16;
	float tiny = (float)(int32_t)magnitude * 0x1p-24f;
	uint32_t special = 0u - (uint32_t)(magnitude >= 0x7c00);
	uint32_t normal = (magnitude << 13) + 0x38000000u + (special & 0x38000000u);

	return emu_f32_of_bits(emu_select(magnitude < 0x400, emu_bits_of_f32(tiny), normal) | sign);
}

EMU_INLINE float emu_f16_to_f32(uint16_t bits)
{
	return emu_f32_of_f16(bits);
}

/* From the bits of an f32, without branches: loops over rows become vector code.  NaN: 0x7fff. */
EMU_INLINE uint32_t emu_f16_bits(uint32_t bits)
{
	uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffffu;
	bool tiny = magnitude < 0x38800000u; /* below 2^-14: a multiple of 2^-24 */
	float shifted = emu_f32_of_bits(emu_select(tiny, magnitude, 0)) + 0x1p-1f;
	uint32_t subnormal = emu_bits_of_f32(shifted) - 0x3f000000u;
	uint32_t half = magnitude - 0x38000000u;

	half = (half + 0xfffu + (half >> 13 & 1)) >> 13;
	half = emu_select(tiny, subnormal, half);
	half = emu_select(magnitude >= 0x477ff000u, 0x7c00u, half); /* 65520 rounds to infinity */
	return emu_select(magnitude > 0x7f800000u, 0x7fffu, half | sign);
}

EMU_INLINE uint32_t emu_bf16_bits(uint32_t bits)
{
	uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;

	return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded;
}

EMU_INLINE uint16_t emu_f16_from_f32(float value)
{
	return (uint16_t)emu_f16_bits(emu_bits_of_f32(value));
}

EMU_INLINE uint16_t emu_bf16_from_f32(float value)
{
	return (uint16_t)emu_bf16_bits(emu_bits_of_f32(value));
}

float emu_tf32_round(float value); /* to 10 mantissa bits; inf and NaN kept */

float emu_minifloat_to_f32(const struct emu_minifloat *format, uint8_t bits);
/* Saturates at the largest finite value, infinities as well (cvt .satfinite). */
uint8_t emu_minifloat_from_f32(const struct emu_minifloat *format, float value);

float emu_ue8m0_to_f32(uint8_t bits); /* 0xff: NaN */
float emu_ue4m3_to_f32(uint8_t bits); /* bit 7 is ignored, 0x7f: NaN */

#endif

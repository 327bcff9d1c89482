/* Operand panels: raw bytes of a tile to f32 or s32 numbers (3.7, 5.4). */
#include "tensor.h"

#include "number.h"

#include <pthread.h>
#include <string.h>

/* Values of all 8-bit codes, filled once. */
static float tables[5][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
	static const struct emu_minifloat *const formats[] = {&emu_e4m3, &emu_e5m2, &emu_e2m3,
							      &emu_e3m2, &emu_e2m1};

	for (int f = 0; f < 5; f++)
		for (int code = 0; code < 256; code++)
			tables[f][code] = emu_minifloat_to_f32(formats[f], (uint8_t)code);
}

int emu_packed_bytes(enum emu_element element, enum emu_packing packing, int elements)
{
	if (packing != EMU_PACK_DENSE && emu_element_bits(element) < 8)
		return elements;
	return elements * emu_element_bits(element) / 8;
}

static void f16(const uint8_t *raw, int elements, float *out)
{
	for (int i = 0; i < elements; i++) {
		uint16_t bits;

		memcpy(&bits, raw + i * 2, 2);
		out[i] = emu_f16_to_f32(bits);
	}
}

static void bf16(const uint8_t *raw, int elements, float *out)
{
	for (int i = 0; i < elements; i++) {
		uint16_t bits;

		memcpy(&bits, raw + i * 2, 2);
		out[i] = emu_bf16_to_f32(bits);
	}
}

/* The hardware ignores the low 13 bits of a tf32 operand. */
static void tf32(const uint8_t *raw, int elements, float *out)
{
	for (int i = 0; i < elements; i++) {
		uint32_t word;

		memcpy(&word, raw + i * 4, 4);
		out[i] = emu_f32_of_bits(word & ~0x1fffu);
	}
}

/* Code of element i, as the packing has it. */
static uint8_t narrow_code(int bits, enum emu_packing packing, const uint8_t *raw, int i)
{
	const uint8_t *unit = raw + i / 16 * 16;
	int position = i % 16 * bits;

	switch (packing) {
	case EMU_PACK_CONTAINERS:
		return (uint8_t)(bits == 4 ? raw[i] >> 2 & 15 : raw[i] >> 1 & 63);
	case EMU_PACK_DENSE:
		unit = raw;
		position = i * bits;
		break;
	case EMU_PACK_UNITS:
		break;
	}
	unit += position / 8;
	position %= 8;
	if (position + bits <= 8)
		return (uint8_t)(unit[0] >> position & ((1 << bits) - 1));
	return (uint8_t)((unit[0] | unit[1] << 8) >> position & ((1 << bits) - 1));
}

void emu_panel_f32(enum emu_element element, enum emu_packing packing, const uint8_t *raw,
		   int elements, float *out)
{
	int bits = emu_element_bits(element);
	const float *table;

	if (bits > 8) {
		if (element == EMU_ELEMENT_F16)
			f16(raw, elements, out);
		else if (element == EMU_ELEMENT_BF16)
			bf16(raw, elements, out);
		else
			tf32(raw, elements, out);
		return;
	}
	pthread_once(&tables_once, fill_tables);
	table = tables[element - EMU_ELEMENT_E4M3];
	for (int i = 0; i < elements; i++)
		out[i] = table[bits == 8 ? raw[i] : narrow_code(bits, packing, raw, i)];
}

static int32_t integer(enum emu_element element, const uint8_t *raw, int i)
{
	int32_t nibble;

	switch (element) {
	case EMU_ELEMENT_S8:
		return (int8_t)raw[i];
	case EMU_ELEMENT_S4:
	case EMU_ELEMENT_U4:
		nibble = raw[i / 2] >> 4 * (i & 1) & 15;
		return element == EMU_ELEMENT_S4 && nibble > 7 ? nibble - 16 : nibble;
	case EMU_ELEMENT_B1:
		return raw[i / 8] >> i % 8 & 1;
	default:
		return raw[i];
	}
}

void emu_panel_s32(enum emu_element element, const uint8_t *raw, int elements, int32_t *out)
{
	for (int i = 0; i < elements; i++)
		out[i] = integer(element, raw, i);
}

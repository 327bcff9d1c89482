/* Operand panels: raw bytes of a tile to f32 or s32 numbers (3.7, 5.4). */
#include "wide.h"

#include "tensor.h"

#include "number.h"

#include <pthread.h>
#include <string.h>

/* Values of all codes of 4 and 6 bits, filled once. */
static float tables[3][64];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
	static const struct emu_minifloat *const formats[] = {&emu_e2m3, &emu_e3m2, &emu_e2m1};

	for (int f = 0; f < 3; f++)
		for (int code = 0; code < 64; code++)
			tables[f][code] = emu_minifloat_to_f32(formats[f], (uint8_t)code);
}

int emu_packed_bytes(enum emu_element element, enum emu_packing packing, int elements)
{
	if (packing != EMU_PACK_DENSE && emu_element_bits(element) < 8)
		return elements;
	return elements * emu_element_bits(element) / 8;
}

/* Two bytes anywhere. */
typedef uint16_t half __attribute__((aligned(1), may_alias));

EMU_INLINE uint32_t e4m3(uint32_t code)
{
	uint32_t magnitude = code & 0x7f;
	float tiny = (float)(int32_t)magnitude * 0x1p-9f;
	uint32_t value =
		emu_select(magnitude < 8, emu_bits_of_f32(tiny), (magnitude << 20) + 0x3c000000u);

	return emu_select(magnitude == 0x7f, 0x7fc00000u, value) | (code & 0x80) << 24;
}

EMU_INLINE uint32_t e5m2(uint32_t code)
{
	uint32_t value = emu_bits_of_f32(emu_f32_of_f16((code & 0x7f) << 8));

	return emu_select((code & 0x7f) > 0x7c, 0x7fc00000u, value) | (code & 0x80) << 24;
}

#define PANEL(name, attribute, element, value)                                                     \
	attribute static void name(const uint8_t *raw, int elements, float *out)                   \
	{                                                                                          \
		EMU_IVDEP                                                                          \
		for (int i = 0; i < elements; i++) {                                               \
			uint32_t x = ((const element *)raw)[i];                                    \
                                                                                                   \
			out[i] = value;                                                            \
		}                                                                                  \
	}

PANEL(f16, , half, emu_f32_of_f16(x))
PANEL(e4m3_panel, , uint8_t, emu_f32_of_bits(e4m3(x)))
PANEL(e5m2_panel, , uint8_t, emu_f32_of_bits(e5m2(x)))
#if EMU_HAVE_WIDE
PANEL(f16_wide, EMU_WIDE, half, emu_f32_of_f16(x))
PANEL(e4m3_panel_wide, EMU_WIDE, uint8_t, emu_f32_of_bits(e4m3(x)))
PANEL(e5m2_panel_wide, EMU_WIDE, uint8_t, emu_f32_of_bits(e5m2(x)))
#else
#define f16_wide        f16
#define e4m3_panel_wide e4m3_panel
#define e5m2_panel_wide e5m2_panel
#endif

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

	pthread_once(&tables_once, fill_tables);
	switch (element) {
	case EMU_ELEMENT_F16:
		(emu_host_is_wide() ? f16_wide : f16)(raw, elements, out);
		return;
	case EMU_ELEMENT_BF16:
		bf16(raw, elements, out);
		return;
	case EMU_ELEMENT_TF32:
		tf32(raw, elements, out);
		return;
	case EMU_ELEMENT_E4M3:
		(emu_host_is_wide() ? e4m3_panel_wide : e4m3_panel)(raw, elements, out);
		return;
	case EMU_ELEMENT_E5M2:
		(emu_host_is_wide() ? e5m2_panel_wide : e5m2_panel)(raw, elements, out);
		return;
	default:
		break;
	}
	table = tables[element - EMU_ELEMENT_E2M3];
	for (int i = 0; i < elements; i++)
		out[i] = table[narrow_code(bits, packing, raw, i)];
}

static int32_t nibble(enum emu_element element, uint8_t byte, int i)
{
	int32_t value = byte >> 4 * (i & 1) & 15;

	return element == EMU_ELEMENT_S4 && value > 7 ? value - 16 : value;
}

void emu_panel_s32(enum emu_element element, const uint8_t *raw, int elements, int32_t *out)
{
	switch (element) {
	case EMU_ELEMENT_S8:
		for (int i = 0; i < elements; i++)
			out[i] = (int8_t)raw[i];
		break;
	case EMU_ELEMENT_S4:
	case EMU_ELEMENT_U4:
		for (int i = 0; i < elements; i++)
			out[i] = nibble(element, raw[i / 2], i);
		break;
	case EMU_ELEMENT_B1:
		for (int i = 0; i < elements; i++)
			out[i] = raw[i / 8] >> i % 8 & 1;
		break;
	default:
		for (int i = 0; i < elements; i++)
			out[i] = raw[i];
	}
}

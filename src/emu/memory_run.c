/* ld and st of a whole warp whose lanes point to places in a row, or all to one: no lane is looked
 * at. */
#include "alu.h"
#include "lanes.h"

enum run {
	RUN_NONE,
	RUN_BYTES, /* to and from registers of 16 or 32 bits, not signed */
	RUN_HALVES,
	RUN_WORDS,
	RUN_DOUBLES,
	RUN_PAIRS, /* vectors of registers of 32 bits */
	RUN_QUADRUPLES
};

unsigned emu_run_of(const struct emu_ins *ins, const struct emu_operand *operand, bool stores)
{
	bool is_signed = emu_types[ins->type].class == EMU_CLASS_SIGNED && !stores;
	int bits = emu_types[ins->type].bits, wanted = bits == 64 ? 64 : 32;

	for (int i = 0; i < ins->count; i++) {
		const struct emu_operand *item = emu_item(operand, i);
		bool narrow = bits < 32 && item->bits <= 32 && !is_signed;

		if (item->kind != EMU_O_REGISTER || (item->bits != wanted && !narrow))
			return RUN_NONE;
	}
	if (ins->count == 1)
		return bits == 8    ? RUN_BYTES
		       : bits == 16 ? RUN_HALVES
		       : bits == 32 ? RUN_WORDS
		       : bits == 64 ? RUN_DOUBLES
				    : RUN_NONE;
	return bits != 32        ? RUN_NONE
	       : ins->count == 2 ? RUN_PAIRS
	       : ins->count == 4 ? RUN_QUADRUPLES
				 : RUN_NONE;
}

/* A word anywhere in memory. */
typedef uint32_t loose __attribute__((aligned(1), may_alias));

#define MOVE_VECTORS(name, attribute)                                                              \
	attribute static void load_pairs##name(struct emu_warp *warp,                              \
					       const struct emu_operand *items, const loose *from) \
	{                                                                                          \
		uint32_t *a = emu_row32(warp, items[0].ref), *b = emu_row32(warp, items[1].ref);   \
                                                                                                   \
		EMU_IVDEP                                                                          \
		for (int l = 0; l < EMU_LANES; l++) {                                              \
			a[l] = from[2 * l];                                                        \
			b[l] = from[2 * l + 1];                                                    \
		}                                                                                  \
	}                                                                                          \
	attribute static void load_quadruples##name(                                               \
		struct emu_warp *warp, const struct emu_operand *items, const loose *from)         \
	{                                                                                          \
		uint32_t *a = emu_row32(warp, items[0].ref), *b = emu_row32(warp, items[1].ref);   \
		uint32_t *c = emu_row32(warp, items[2].ref), *d = emu_row32(warp, items[3].ref);   \
                                                                                                   \
		EMU_IVDEP                                                                          \
		for (int l = 0; l < EMU_LANES; l++) {                                              \
			a[l] = from[4 * l];                                                        \
			b[l] = from[4 * l + 1];                                                    \
			c[l] = from[4 * l + 2];                                                    \
			d[l] = from[4 * l + 3];                                                    \
		}                                                                                  \
	}                                                                                          \
	attribute static void store_pairs##name(const struct emu_warp *warp,                       \
						const struct emu_operand *items, loose *to)        \
	{                                                                                          \
		const uint32_t *a = emu_row32(warp, items[0].ref);                                 \
		const uint32_t *b = emu_row32(warp, items[1].ref);                                 \
                                                                                                   \
		EMU_IVDEP                                                                          \
		for (int l = 0; l < EMU_LANES; l++) {                                              \
			to[2 * l] = a[l];                                                          \
			to[2 * l + 1] = b[l];                                                      \
		}                                                                                  \
	}                                                                                          \
	attribute static void store_quadruples##name(const struct emu_warp *warp,                  \
						     const struct emu_operand *items, loose *to)   \
	{                                                                                          \
		const uint32_t *a = emu_row32(warp, items[0].ref);                                 \
		const uint32_t *b = emu_row32(warp, items[1].ref);                                 \
		const uint32_t *c = emu_row32(warp, items[2].ref);                                 \
		const uint32_t *d = emu_row32(warp, items[3].ref);                                 \
                                                                                                   \
		EMU_IVDEP                                                                          \
		for (int l = 0; l < EMU_LANES; l++) {                                              \
			to[4 * l] = a[l];                                                          \
			to[4 * l + 1] = b[l];                                                      \
			to[4 * l + 2] = c[l];                                                      \
			to[4 * l + 3] = d[l];                                                      \
		}                                                                                  \
	}

MOVE_VECTORS(, )
#if EMU_HAVE_WIDE
MOVE_VECTORS(_wide, EMU_WIDE)
#define VECTORS(name) (emu_host_is_wide() ? name##_wide : name)
#else
#define VECTORS(name) name
#endif

void emu_load_run(struct emu_warp *warp, const struct emu_ins *ins, const uint8_t *from)
{
	const struct emu_operand *to = &ins->operands[0], *item = emu_item(to, 0);
	uint32_t *d = emu_row32(warp, item->ref);
	uint16_t halves[EMU_LANES];
	uint8_t bytes[EMU_LANES];

	switch ((enum run)ins->variant) {
	case RUN_BYTES:
		memcpy(bytes, from, sizeof bytes);
		for (int l = 0; l < EMU_LANES; l++)
			d[l] = bytes[l];
		break;
	case RUN_HALVES:
		memcpy(halves, from, sizeof halves);
		for (int l = 0; l < EMU_LANES; l++)
			d[l] = halves[l];
		break;
	case RUN_WORDS:
		memcpy(d, from, EMU_ROW_BYTES);
		break;
	case RUN_DOUBLES:
		memcpy(emu_row64(warp, item->ref), from, 2 * EMU_ROW_BYTES);
		break;
	case RUN_PAIRS:
		VECTORS(load_pairs)(warp, to->items, (const loose *)from);
		break;
	default:
		VECTORS(load_quadruples)(warp, to->items, (const loose *)from);
	}
}

/* Every lane loads the same. */
void emu_load_same(struct emu_warp *warp, const struct emu_ins *ins, const uint8_t *from)
{
	uint32_t size = emu_types[ins->type].bits / 8u;

	for (int i = 0; i < ins->count; i++) {
		uint32_t ref = emu_item(&ins->operands[0], i)->ref, *d = emu_row32(warp, ref);
		uint64_t value = 0, *wide = emu_row64(warp, ref);

		memcpy(&value, from + (size_t)i * size, size);
		if (size == 8)
			for (int l = 0; l < EMU_LANES; l++)
				wide[l] = value;
		else
			for (int l = 0; l < EMU_LANES; l++)
				d[l] = (uint32_t)value;
	}
}

void emu_store_run(const struct emu_warp *warp, const struct emu_ins *ins, uint8_t *to)
{
	const struct emu_operand *from = &ins->operands[1], *item = emu_item(from, 0);
	const uint32_t *s = emu_row32(warp, item->ref);
	uint16_t halves[EMU_LANES];
	uint8_t bytes[EMU_LANES];

	switch ((enum run)ins->variant) {
	case RUN_BYTES:
		for (int l = 0; l < EMU_LANES; l++)
			bytes[l] = (uint8_t)s[l];
		memcpy(to, bytes, sizeof bytes);
		break;
	case RUN_HALVES:
		for (int l = 0; l < EMU_LANES; l++)
			halves[l] = (uint16_t)s[l];
		memcpy(to, halves, sizeof halves);
		break;
	case RUN_WORDS:
		memcpy(to, s, EMU_ROW_BYTES);
		break;
	case RUN_DOUBLES:
		memcpy(to, emu_row64(warp, item->ref), 2 * EMU_ROW_BYTES);
		break;
	case RUN_PAIRS:
		VECTORS(store_pairs)(warp, from->items, (loose *)to);
		break;
	default:
		VECTORS(store_quadruples)(warp, from->items, (loose *)to);
	}
}

/* Every lane stores to the same place; that of the last one stays. */
void emu_store_last(const struct emu_warp *warp, const struct emu_ins *ins, uint8_t *to)
{
	uint32_t size = emu_types[ins->type].bits / 8u;

	for (int i = 0; i < ins->count; i++) {
		uint64_t value = emu_value(warp, emu_item(&ins->operands[1], i), EMU_LANES - 1);

		memcpy(to + (size_t)i * size, &value, size);
	}
}

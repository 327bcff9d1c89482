/* Integer arithmetic, logic, shifts and bit fields. */
#include "alu.h"
#include "number.h"
#include "predicate.h"

/* ---- what the expressions of alu_int.def use ------------------------------------ */

static inline int64_t saturate(int64_t value)
{
	return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
}

static inline int32_t not_negative(int32_t value)
{
	return value < 0 ? 0 : value;
}

static inline uint64_t high_unsigned(uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)a * b >> 64);
}

static inline int64_t high_signed(int64_t a, int64_t b)
{
	return (int64_t)((__int128)a * b >> 64);
}

static inline uint64_t unsigned24(uint32_t value)
{
	return value & 0xffffff;
}

static inline uint64_t signed24(uint32_t value)
{
	return (uint64_t)(int64_t)((int32_t)(value << 8) >> 8);
}

/* Quotient and remainder by zero are all ones; INT_MIN / -1 wraps. */
static inline int64_t divide(int32_t a, int32_t b)
{
	return b ? (int64_t)a / b : -1;
}

static inline int64_t divide64(int64_t a, int64_t b)
{
	return !b ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline int64_t remainder32(int32_t a, int32_t b)
{
	return b ? (int64_t)a % b : -1;
}

static inline int64_t remainder64(int64_t a, int64_t b)
{
	return !b ? -1 : b == -1 ? 0 : a % b;
}

static inline uint32_t pair(uint32_t low, uint32_t high)
{
	return (low & 0xffff) | high << 16;
}

static inline uint32_t pair_add(uint32_t a, uint32_t b)
{
	return pair(a + b, (a >> 16) + (b >> 16));
}

static inline uint32_t pair_min_unsigned(uint32_t a, uint32_t b)
{
	uint32_t al = a & 0xffff, bl = b & 0xffff, ah = a >> 16, bh = b >> 16;

	return pair(al < bl ? al : bl, ah < bh ? ah : bh);
}

static inline uint32_t pair_max_unsigned(uint32_t a, uint32_t b)
{
	uint32_t al = a & 0xffff, bl = b & 0xffff, ah = a >> 16, bh = b >> 16;

	return pair(al > bl ? al : bl, ah > bh ? ah : bh);
}

/* Adding 0x8000 to both halves turns signed order into unsigned order. */
static inline uint32_t pair_min_signed(uint32_t a, uint32_t b)
{
	return pair_min_unsigned(a ^ 0x80008000u, b ^ 0x80008000u) ^ 0x80008000u;
}

static inline uint32_t pair_max_signed(uint32_t a, uint32_t b)
{
	return pair_max_unsigned(a ^ 0x80008000u, b ^ 0x80008000u) ^ 0x80008000u;
}

static inline int find_signed(int32_t value)
{
	uint32_t bits = (uint32_t)(value < 0 ? ~value : value);

	return bits ? 31 - __builtin_clz(bits) : -1;
}

static inline int find_signed64(int64_t value)
{
	uint64_t bits = (uint64_t)(value < 0 ? ~value : value);

	return bits ? 63 - __builtin_clzll(bits) : -1;
}

static inline int shift_from(int top, int found)
{
	return found < 0 ? -1 : top - found;
}

static inline uint32_t reverse(uint32_t x)
{
	x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
	x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
	x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
	return __builtin_bswap32(x);
}

/* Of a 32-bit field position and length are the low bytes of their operands. */
static inline uint64_t extract_unsigned(uint64_t value, uint32_t position, uint32_t length,
					uint32_t bits)
{
	if (bits == 32) {
		position &= 0xff;
		length &= 0xff;
	}
	if (!length || position >= bits)
		return 0;
	value >>= position;
	return length >= 64 ? value : value & ((1ull << length) - 1);
}

EMU_INLINE uint32_t extract_unsigned32(uint32_t value, uint32_t position, uint32_t length)
{
	uint32_t at = position & 0xff, bits = length & 0xff;
	uint32_t field = emu_select(at > 31, 0, value >> (at & 31));

	return field & emu_select(bits > 31, EMU_FULL, (1u << (bits & 31)) - 1);
}

/* The sign is the field's highest bit, or the word's where the field reaches beyond. */
static inline uint64_t extract_signed(int64_t value, uint32_t position, uint32_t length,
				      uint32_t bits)
{
	uint32_t top;
	uint64_t field, sign;

	if (bits == 32) {
		position &= 0xff;
		length &= 0xff;
	}
	if (!length)
		return 0;
	top = (uint64_t)position + length - 1 < bits ? position + length - 1 : bits - 1;
	sign = (uint64_t)value >> top & 1 ? UINT64_MAX : 0;
	if (position >= bits)
		return sign;
	field = (uint64_t)value >> position;
	top -= position;
	return top >= 63 ? field : (field & ((2ull << top) - 1)) | (sign & ~((2ull << top) - 1));
}

static inline uint32_t bit_mask(uint32_t start, uint32_t width)
{
	uint64_t ones = width >= 32 ? 0xffffffffu : (1ull << width) - 1;

	return start >= 32 ? 0 : (uint32_t)(ones << start);
}

static inline uint32_t extend_unsigned(uint32_t value, uint32_t width)
{
	return width >= 32 ? value : value & ((1u << width) - 1);
}

static inline uint32_t extend_signed(uint32_t value, uint32_t width)
{
	if (width >= 32)
		return value;
	if (!width)
		return 0;
	return (uint32_t)((int32_t)(value << (32 - width)) >> (32 - width));
}

static inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t shift)
{
	return (uint32_t)(((uint64_t)high << 32 | low) << shift >> 32);
}

static inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t shift)
{
	return (uint32_t)(((uint64_t)high << 32 | low) >> shift);
}

/* Each nibble picks a byte of the eight; its high bit spreads the byte's sign. */
EMU_INLINE uint32_t permute(uint32_t low, uint32_t high, uint32_t selector)
{
	uint32_t result = 0;

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t pick = selector >> 4 * i;
		uint32_t byte = emu_select(pick & 4, high, low) >> 8 * (pick & 3) & 0xff;
		uint32_t sign = (0u - (byte >> 7)) & 0xff;

		result |= emu_select(pick & 8, sign, byte) << 8 * i;
	}
	return result;
}

static inline uint32_t backward_selector(uint32_t z)
{
	static const uint32_t selectors[4] = {0x5670, 0x6701, 0x7012, 0x0123};

	return selectors[z];
}

static inline uint32_t edge_left(uint32_t z)
{
	static const uint32_t selectors[4] = {0x3210, 0x3211, 0x3222, 0x3333};

	return selectors[z];
}

static inline uint32_t edge_right(uint32_t z)
{
	static const uint32_t selectors[4] = {0x0000, 0x1110, 0x2210, 0x3210};

	return selectors[z];
}

/* ---- the forms ------------------------------------------------------------------ */

/* The same code twice: for any host, and for one with wider vectors and shifts by lane. */
#define FORM(name) name
#define ATTRIBUTE
#include "alu_forms.h"
#undef FORM
#undef ATTRIBUTE

#if EMU_HAVE_WIDE
#define FORM(name) wide_##name
#define ATTRIBUTE  EMU_WIDE
#include "alu_forms.h"
#undef FORM
#undef ATTRIBUTE

static const struct emu_form *host_forms(void)
{
	return emu_host_is_wide() ? wide_forms : forms;
}
#else
static const struct emu_form *host_forms(void)
{
	return forms;
}
#endif

static bool take_form(struct emu_decode *decode, const struct emu_form *form)
{
	int count = 0;

	for (int i = 0; i < decode->modifier_count; i++)
		decode->taken[i] = true;
	while (count < 5 && form->bits[count])
		count++;
	if (!emu_want_operands(decode, count, count) ||
	    !emu_want_register(decode, 0, form->bits[0]))
		return false;
	for (int i = 1; i < count; i++)
		if (!emu_want_value(decode, i, form->bits[i]))
			return false;
	decode->ins->type = (uint8_t)form->type;
	decode->ins->execute = form->execute;
	return true;
}

bool emu_decode_form(struct emu_decode *decode, const struct emu_form *list, int count)
{
	enum emu_type type = emu_peek_type(decode);
	size_t used = strlen(decode->opcode->name);
	char name[256];

	if (type == EMU_T_NONE)
		return emu_reject(decode, "needs a type");
	memcpy(name, decode->opcode->name, used + 1);
	for (int i = 0; i < decode->modifier_count; i++) {
		size_t length = strlen(decode->modifiers[i]);

		if (!strcmp(decode->modifiers[i], emu_types[type].text) ||
		    used + length + 2 > sizeof name)
			continue;
		name[used++] = '.';
		memcpy(name + used, decode->modifiers[i], length + 1);
		used += length;
	}
	for (int i = 0; i < count; i++)
		if (list[i].type == type && !strcmp(list[i].opcode, name))
			return take_form(decode, &list[i]);
	return false;
}

enum emu_type emu_peek_type(const struct emu_decode *decode)
{
	for (int i = 0; i < decode->modifier_count; i++) {
		enum emu_type type =
			emu_type_named(decode->modifiers[i], strlen(decode->modifiers[i]));

		if (type != EMU_T_NONE && !decode->taken[i])
			return type;
	}
	return EMU_T_NONE;
}

static bool decode_arithmetic(struct emu_decode *decode)
{
	enum emu_type type = emu_peek_type(decode);

	switch (type) {
	case EMU_T_F32:
	case EMU_T_F64:
	case EMU_T_F32X2:
		return emu_decode_float(decode, type);
	case EMU_T_F16:
	case EMU_T_F16X2:
	case EMU_T_BF16:
	case EMU_T_BF16X2:
		return emu_decode_half(decode, type);
	case EMU_T_PRED:
		return emu_decode_predicate_logic(decode);
	default:
		break;
	}
	if (emu_decode_form(decode, host_forms(), (int)(sizeof forms / sizeof *forms)) ||
	    emu_decode_form(decode, emu_bits_forms, emu_bits_form_count))
		return true;
	return emu_reject(decode, "%s has no form with these modifiers", decode->opcode->name);
}

static const struct emu_opcode opcodes[] = {
	{"add", decode_arithmetic, NULL, 0},   {"sub", decode_arithmetic, NULL, 0},
	{"mul", decode_arithmetic, NULL, 0},   {"mad", decode_arithmetic, NULL, 0},
	{"fma", decode_arithmetic, NULL, 0},   {"mul24", decode_arithmetic, NULL, 0},
	{"mad24", decode_arithmetic, NULL, 0}, {"sad", decode_arithmetic, NULL, 0},
	{"div", decode_arithmetic, NULL, 0},   {"rem", decode_arithmetic, NULL, 0},
	{"abs", decode_arithmetic, NULL, 0},   {"neg", decode_arithmetic, NULL, 0},
	{"min", decode_arithmetic, NULL, 0},   {"max", decode_arithmetic, NULL, 0},
	{"popc", decode_arithmetic, NULL, 0},  {"clz", decode_arithmetic, NULL, 0},
	{"bfind", decode_arithmetic, NULL, 0}, {"brev", decode_arithmetic, NULL, 0},
	{"bfe", decode_arithmetic, NULL, 0},   {"bfi", decode_arithmetic, NULL, 0},
	{"bmsk", decode_arithmetic, NULL, 0},  {"szext", decode_arithmetic, NULL, 0},
	{"and", decode_arithmetic, NULL, 0},   {"or", decode_arithmetic, NULL, 0},
	{"xor", decode_arithmetic, NULL, 0},   {"not", decode_arithmetic, NULL, 0},
	{"cnot", decode_arithmetic, NULL, 0},  {"shl", decode_arithmetic, NULL, 0},
	{"shr", decode_arithmetic, NULL, 0},   {"shf", decode_arithmetic, NULL, 0},
	{"prmt", decode_arithmetic, NULL, 0},  {"addc", decode_arithmetic, NULL, 0},
	{"subc", decode_arithmetic, NULL, 0},  {"madc", decode_arithmetic, NULL, 0},
	{"fns", decode_arithmetic, NULL, 0},   {"copysign", decode_arithmetic, NULL, 0},
	{"rcp", decode_arithmetic, NULL, 0},   {"sqrt", decode_arithmetic, NULL, 0},
	{"rsqrt", decode_arithmetic, NULL, 0}, {"sin", decode_arithmetic, NULL, 0},
	{"cos", decode_arithmetic, NULL, 0},   {"lg2", decode_arithmetic, NULL, 0},
	{"ex2", decode_arithmetic, NULL, 0},   {"tanh", decode_arithmetic, NULL, 0},
};

EMU_OPCODE_TABLE(alu_int, opcodes);

/* Carry chains, bit-field insertion, lop3, dot products of small integers. */
#include "alu.h"
#include "number.h"

/* ---- carries ---------------------------------------------------------------------- */

enum carry_operation {
	ADD,
	SUBTRACT,
	MAD_LOW,
	MAD_HIGH
};

struct carry_form {
	enum carry_operation operation;
	bool in, out, is_signed, wide;
};

static unsigned __int128 product(const struct carry_form *form, uint64_t a, uint64_t b)
{
	unsigned __int128 full;

	if (form->wide && form->is_signed)
		full = (unsigned __int128)((__int128)(int64_t)a * (int64_t)b);
	else if (form->wide)
		full = (unsigned __int128)a * b;
	else if (form->is_signed)
		full = (uint64_t)((int64_t)(int32_t)a * (int32_t)b);
	else
		full = (uint64_t)(uint32_t)a * (uint32_t)b;
	return form->operation == MAD_LOW ? full : full >> (form->wide ? 64 : 32);
}

static uint64_t cell(const struct emu_warp *warp, uint32_t ref, int lane, bool wide)
{
	return wide ? emu_row64(warp, ref)[lane] : emu_row32(warp, ref)[lane];
}

/*
 * CC.CF is the carry of an adder that takes b inverted to subtract: after sub.cc it is set where
 * nothing was borrowed.  A chain that goes over from differences to sums sees this (an H200 too).
 */
static enum emu_step carry(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			   const struct carry_form *form)
{
	uint64_t limit = form->wide ? UINT64_MAX : UINT32_MAX;

	EMU_FOR_LANES(lane, mask)
	{
		uint64_t a = cell(warp, ins->ref[1], (int)lane, form->wide);
		uint64_t b = cell(warp, ins->ref[2], (int)lane, form->wide);
		unsigned __int128 in = form->in ? warp->carry >> lane & 1 : 0, sum;
		bool out;

		if (form->operation == SUBTRACT) {
			unsigned __int128 borrow = form->in ? !in : 0;

			out = (unsigned __int128)a >= b + borrow;
			sum = (unsigned __int128)a - b - borrow;
		} else if (form->operation == ADD) {
			sum = (unsigned __int128)a + b + in;
			out = sum > limit;
		} else {
			uint64_t c = cell(warp, ins->ref[3], (int)lane, form->wide);

			sum = (unsigned __int128)((uint64_t)product(form, a, b) & limit) + c + in;
			out = sum > limit;
		}
		if (form->out)
			warp->carry = (warp->carry & ~(1u << lane)) | (uint32_t)out << lane;
		if (form->wide)
			emu_row64(warp, ins->ref[0])[lane] = (uint64_t)sum;
		else
			emu_row32(warp, ins->ref[0])[lane] = (uint32_t)sum;
	}
	return EMU_NEXT;
}

#define CARRY_FORMS(name, operation, in, out)                                                      \
	CARRY(name, U32, operation, in, out, false, false)                                         \
	CARRY(name, S32, operation, in, out, true, false)                                          \
	CARRY(name, U64, operation, in, out, false, true)                                          \
	CARRY(name, S64, operation, in, out, true, true)
#define CARRY(name, type, operation, in, out, is_signed, wide)                                     \
	static enum emu_step name##_##type(struct emu_warp *warp, const struct emu_ins *ins,       \
					   uint32_t mask)                                          \
	{                                                                                          \
		static const struct carry_form form = {operation, in, out, is_signed, wide};       \
                                                                                                   \
		return carry(warp, ins, mask, &form);                                              \
	}
CARRY_FORMS(add_cc, ADD, false, true)
CARRY_FORMS(addc, ADD, true, false)
CARRY_FORMS(addc_cc, ADD, true, true)
CARRY_FORMS(sub_cc, SUBTRACT, false, true)
CARRY_FORMS(subc, SUBTRACT, true, false)
CARRY_FORMS(subc_cc, SUBTRACT, true, true)
CARRY_FORMS(mad_lo_cc, MAD_LOW, false, true)
CARRY_FORMS(mad_hi_cc, MAD_HIGH, false, true)
CARRY_FORMS(madc_lo, MAD_LOW, true, false)
CARRY_FORMS(madc_hi, MAD_HIGH, true, false)
CARRY_FORMS(madc_lo_cc, MAD_LOW, true, true)
CARRY_FORMS(madc_hi_cc, MAD_HIGH, true, true)

/* ---- bit fields and bits --------------------------------------------------------------- */

EMU_INLINE uint32_t insert(uint32_t a, uint32_t b, uint32_t position, uint32_t length)
{
	uint32_t at = position & 0xff, bits = length & 0xff;
	uint32_t ones = emu_select(bits > 31, EMU_FULL, (1u << (bits & 31)) - 1);
	uint32_t with = (b & ~(ones << (at & 31))) | (a & ones) << (at & 31);

	return emu_select(at > 31, b, with);
}

#define BFI_B32(name, attribute)                                                                   \
	attribute static enum emu_step name(struct emu_warp *warp, const struct emu_ins *ins,      \
					    uint32_t mask)                                         \
	{                                                                                          \
		uint32_t *d = emu_row32(warp, ins->ref[0]);                                        \
		const uint32_t *a = emu_row32(warp, ins->ref[1]);                                  \
		const uint32_t *b = emu_row32(warp, ins->ref[2]);                                  \
		const uint32_t *c = emu_row32(warp, ins->ref[3]);                                  \
		const uint32_t *e = emu_row32(warp, ins->ref[4]);                                  \
                                                                                                   \
		EMU_OVER_LANES(uint32_t, insert(a[l], b[l], c[l], e[l]))                           \
	}

BFI_B32(bfi_narrow, )
#if EMU_HAVE_WIDE
BFI_B32(bfi_wide, EMU_WIDE)
#else
#define bfi_wide bfi_narrow
#endif

static enum emu_step bfi_B32(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	return emu_host_is_wide() ? bfi_wide(warp, ins, mask) : bfi_narrow(warp, ins, mask);
}

static enum emu_step bfi_B64(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint64_t *d = emu_row64(warp, ins->ref[0]);
	const uint64_t *a = emu_row64(warp, ins->ref[1]), *b = emu_row64(warp, ins->ref[2]);
	const uint32_t *c = emu_row32(warp, ins->ref[3]), *e = emu_row32(warp, ins->ref[4]);

	EMU_FOR_LANES(l, mask)
	{
		uint32_t position = c[l], length = e[l];
		uint64_t ones = length >= 64 ? UINT64_MAX : (1ull << length) - 1;

		if (position >= 64)
			d[l] = b[l];
		else
			d[l] = (b[l] & ~(ones << position)) | (a[l] & ones) << position;
	}
	return EMU_NEXT;
}

/* The n-th set bit of a mask, counted from a base, upwards for positive n. */
static uint32_t nth_set(uint32_t bits, uint32_t base, int32_t offset)
{
	int step = offset < 0 ? -1 : 1, left;

	if (offset == INT32_MIN) /* which has no magnitude */
		return 0;
	if (base > 31 || offset < -32 || offset > 32)
		return UINT32_MAX;
	left = offset < 0 ? -offset : offset;
	if (!offset)
		return bits >> base & 1 ? base : UINT32_MAX;
	for (int i = (int)base; i >= 0 && i < 32; i += step)
		if (bits >> i & 1 && --left == 0)
			return (uint32_t)i;
	return UINT32_MAX;
}

static enum emu_step fns_B32(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(l, mask)
	{
		emu_row32(warp, ins->ref[0])[l] =
			nth_set(emu_row32(warp, ins->ref[1])[l], emu_row32(warp, ins->ref[2])[l],
				(int32_t)emu_row32(warp, ins->ref[3])[l]);
	}
	return EMU_NEXT;
}

#define FOUR(name, opcode, b0, b1)                                                                 \
	{opcode, EMU_T_U32, name##_U32, {32, 32, 32, b0}},                                         \
		{opcode, EMU_T_S32, name##_S32, {32, 32, 32, b0}},                                 \
		{opcode, EMU_T_U64, name##_U64, {64, 64, 64, b1}},                                 \
	{                                                                                          \
		opcode, EMU_T_S64, name##_S64,                                                     \
		{                                                                                  \
			64, 64, 64, b1                                                             \
		}                                                                                  \
	}

const struct emu_form emu_bits_forms[] = {
	FOUR(add_cc, "add.cc", 0, 0),
	FOUR(addc, "addc", 0, 0),
	FOUR(addc_cc, "addc.cc", 0, 0),
	FOUR(sub_cc, "sub.cc", 0, 0),
	FOUR(subc, "subc", 0, 0),
	FOUR(subc_cc, "subc.cc", 0, 0),
	FOUR(mad_lo_cc, "mad.lo.cc", 32, 64),
	FOUR(mad_hi_cc, "mad.hi.cc", 32, 64),
	FOUR(madc_lo, "madc.lo", 32, 64),
	FOUR(madc_hi, "madc.hi", 32, 64),
	FOUR(madc_lo_cc, "madc.lo.cc", 32, 64),
	FOUR(madc_hi_cc, "madc.hi.cc", 32, 64),
	{"bfi", EMU_T_B32, bfi_B32, {32, 32, 32, 32, 32}},
	{"bfi", EMU_T_B64, bfi_B64, {64, 64, 64, 32, 32}},
	{"fns", EMU_T_B32, fns_B32, {32, 32, 32, 32}},
};

const int emu_bits_form_count = (int)(sizeof emu_bits_forms / sizeof *emu_bits_forms);

/* ---- lop3 ----------------------------------------------------------------------------------- */

/* Bit 4 a + 2 b + c of the table; `table` has each of its bits all over a word. */
EMU_INLINE uint32_t look_up(const uint32_t table[8], uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t pairs[4], low, high;

	for (int i = 0; i < 4; i++)
		pairs[i] = table[2 * i] ^ ((table[2 * i] ^ table[2 * i + 1]) & c);
	low = pairs[0] ^ ((pairs[0] ^ pairs[1]) & b);
	high = pairs[2] ^ ((pairs[2] ^ pairs[3]) & b);
	return low ^ ((low ^ high) & a);
}

#define LOOK_UP_ROWS(name, attribute)                                                              \
	attribute static void name(const uint32_t table[8], const uint32_t *a, const uint32_t *b,  \
				   const uint32_t *c, uint32_t *value)                             \
	{                                                                                          \
		for (int l = 0; l < EMU_LANES; l++)                                                \
			value[l] = look_up(table, a[l], b[l], c[l]);                               \
	}

LOOK_UP_ROWS(look_up_rows, )
#if EMU_HAVE_WIDE
LOOK_UP_ROWS(look_up_rows_wide, EMU_WIDE)
#else
#define look_up_rows_wide look_up_rows
#endif

static enum emu_step lop3(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const uint32_t *a = emu_row32(warp, ins->ref[1]), *b = emu_row32(warp, ins->ref[2]);
	const uint32_t *c = emu_row32(warp, ins->ref[3]);
	uint32_t value[EMU_LANES], table[8];

	for (int term = 0; term < 8; term++)
		table[term] = 0u - (ins->variant >> term & 1u);
	(emu_host_is_wide() ? look_up_rows_wide : look_up_rows)(table, a, b, c, value);
	if (ins->count) {
		const struct emu_operand *predicate = emu_item(&ins->operands[0], 1);
		uint32_t given = emu_predicate(warp, &ins->operands[5]), result = 0;

		for (int l = 0; l < EMU_LANES; l++)
			result |= (uint32_t)(value[l] != 0) << l;
		emu_set_predicate(warp, predicate, mask,
				  ins->count == 1 ? result | given : result & given);
		EMU_FOR_LANES(l, mask)
		{
			emu_set_value(warp, emu_item(&ins->operands[0], 0), (int)l, value[l]);
		}
		return EMU_NEXT;
	}
	uint32_t *d = emu_row32(warp, ins->ref[0]);

	EMU_OVER_LANES(uint32_t, value[l])
}

/* lop3.b32 d, a, b, c, lut;  lop3.or.b32 d|p, a, b, c, lut, q */
static bool decode_lop3(struct emu_decode *decode)
{
	static const char *const operations[] = {"or", "and", NULL};
	struct emu_ins *ins = decode->ins;
	int operation = emu_take_one(decode, operations);
	int last = operation >= 0 ? 6 : 5;

	if (emu_take_type(decode) != EMU_T_B32)
		return emu_reject(decode, "needs .b32");
	if (!emu_want_operands(decode, last, last) || !emu_want_immediate(decode, 4, 0, 255))
		return false;
	for (int i = 1; i < 4; i++)
		if (!emu_want_value(decode, i, 32))
			return false;
	if (operation < 0) {
		if (!emu_want_register(decode, 0, 32))
			return false;
	} else if (ins->operands[0].kind != EMU_O_PAIR || !emu_want_predicate(decode, 5)) {
		return emu_reject(decode,
				  "with .%s the result is d|p and the last operand a predicate",
				  operations[operation]);
	}
	ins->variant = (uint8_t)ins->operands[4].value;
	ins->count = (uint8_t)(operation + 1);
	return true;
}

/* ---- dp4a, dp2a --------------------------------------------------------------------------------
 */

static int32_t small(uint32_t word, int index, int bits, bool is_signed)
{
	uint32_t value = word >> index * bits & ((1u << bits) - 1);

	return is_signed ? (int32_t)(value << (32 - bits)) >> (32 - bits) : (int32_t)value;
}

static enum emu_step dot(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	bool a_signed = ins->type == EMU_T_S32, b_signed = ins->type2 == EMU_T_S32;
	int terms = ins->count, a_bits = 32 / terms;
	int first = ins->variant; /* of b: dp2a.hi takes its upper half */

	EMU_FOR_LANES(l, mask)
	{
		uint32_t a = emu_row32(warp, ins->ref[1])[l], b = emu_row32(warp, ins->ref[2])[l];
		uint32_t sum = emu_row32(warp, ins->ref[3])[l];

		for (int i = 0; i < terms; i++)
			sum += (uint32_t)small(a, i, a_bits, a_signed) *
			       (uint32_t)small(b, first + i, 8, b_signed);
		emu_row32(warp, ins->ref[0])[l] = sum;
	}
	return EMU_NEXT;
}

static bool decode_dot(struct emu_decode *decode)
{
	static const char *const halves[] = {"lo", "hi", NULL};
	struct emu_ins *ins = decode->ins;
	bool two = decode->opcode->name[2] == '2';
	int half = two ? emu_take_one(decode, halves) : 0;

	if (half < 0)
		return emu_reject(decode, "needs .lo or .hi");
	ins->type = (uint8_t)emu_take_type(decode);
	ins->type2 = (uint8_t)emu_take_type(decode);
	if ((ins->type != EMU_T_U32 && ins->type != EMU_T_S32) ||
	    (ins->type2 != EMU_T_U32 && ins->type2 != EMU_T_S32))
		return emu_reject(decode, "needs two types, each .u32 or .s32");
	ins->count = two ? 2 : 4;
	ins->variant = half == 1 ? 2 : 0;
	return emu_want_operands(decode, 4, 4) && emu_want_register(decode, 0, 32) &&
	       emu_want_value(decode, 1, 32) && emu_want_value(decode, 2, 32) &&
	       emu_want_value(decode, 3, 32);
}

static const struct emu_opcode opcodes[] = {
	{"lop3", decode_lop3, lop3, 0},
	{"dp4a", decode_dot, dot, 0},
	{"dp2a", decode_dot, dot, 0},
};

EMU_OPCODE_TABLE(alu_bits, opcodes);

/* cvt of pairs and quadruples: f16x2, bf16x2, FP8, FP6, FP4, UE8M0; and cvt.pack. */
#include "alu.h"
#include "convert.h"
#include "number.h"
#include <math.h>

/* What one element of a packed type is. */
struct element {
	enum emu_type packed;
	int count, bits;      /* elements; bits of the container of each */
	enum emu_type scalar; /* f16, bf16, or NONE for the narrow ones */
	const struct emu_minifloat *narrow;
};

static const struct element elements[] = {
	{EMU_T_F16X2, 2, 16, EMU_T_F16, NULL},       {EMU_T_BF16X2, 2, 16, EMU_T_BF16, NULL},
	{EMU_T_E4M3X2, 2, 8, EMU_T_NONE, &emu_e4m3}, {EMU_T_E5M2X2, 2, 8, EMU_T_NONE, &emu_e5m2},
	{EMU_T_E2M3X2, 2, 8, EMU_T_NONE, &emu_e2m3}, {EMU_T_E3M2X2, 2, 8, EMU_T_NONE, &emu_e3m2},
	{EMU_T_E2M1X2, 2, 4, EMU_T_NONE, &emu_e2m1}, {EMU_T_E4M3X4, 4, 8, EMU_T_NONE, &emu_e4m3},
	{EMU_T_E5M2X4, 4, 8, EMU_T_NONE, &emu_e5m2}, {EMU_T_E2M3X4, 4, 8, EMU_T_NONE, &emu_e2m3},
	{EMU_T_E3M2X4, 4, 8, EMU_T_NONE, &emu_e3m2}, {EMU_T_E2M1X4, 4, 4, EMU_T_NONE, &emu_e2m1},
	{EMU_T_UE8M0X2, 2, 8, EMU_T_NONE, NULL},
};

static const struct element *element_of(enum emu_type type)
{
	for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
		if (elements[i].packed == type)
			return &elements[i];
	return NULL;
}

bool emu_conversion_is_packed(const struct emu_conversion *c)
{
	return element_of(c->to) || element_of(c->from);
}

struct packed {
	struct emu_conversion c;
	const struct element *to, *from; /* from: NULL for f32 sources */
	int random;                      /* operand with random bits, 0: none */
};

/* A power of two without sign: rounded up, or cut off. */
static uint32_t ue8m0_of(double value, bool up)
{
	int exponent;
	double mantissa;

	if (value != value)
		return 0xff;
	value = fabs(value);
	if (value == 0)
		return 0;
	if (isinf(value))
		return 0xfe;
	mantissa = frexp(value, &exponent);
	exponent += 126 + (up && mantissa > 0.5);
	return exponent < 0 ? 0 : exponent > 0xfe ? 0xfe : (uint32_t)exponent;
}

/*
 * .rs adds random bits below the last place that stays and cuts off: `bits`
 * are as many as lie between the formats, at most 16.
 */
static double add_random(const struct packed *p, double value, uint32_t bits)
{
	int precision = p->to->narrow                ? p->to->narrow->mantissa_bits + 1
			: p->to->scalar == EMU_T_F16 ? 11
						     : 8;
	int least = p->to->narrow                ? 1 - p->to->narrow->bias
		    : p->to->scalar == EMU_T_F16 ? -14
						 : -126;
	int exponent;
	double last;

	if (!isfinite(value) || value == 0)
		return value;
	frexp(value, &exponent);
	exponent -= 1;
	last = ldexp(1.0, (exponent < least ? least : exponent) - precision + 1);
	value += copysign(last * (double)(bits & 0xffff) / 65536.0, value);
	return trunc(value / last) * last;
}

static uint32_t narrow_element(const struct packed *p, double value, uint32_t random)
{
	const struct emu_conversion *c = &p->c;
	const struct element *to = p->to;

	if (to->packed == EMU_T_UE8M0X2)
		return ue8m0_of(value, c->rounding == EMU_ROUND_UP);
	if (c->relu && value <= 0) /* -0 as well */
		value = 0;
	if (c->stochastic)
		value = add_random(p, value, random);
	if (to->narrow)
		return emu_minifloat_from_f32(to->narrow, (float)value);
	if (c->finite && value == value) {
		double largest = to->scalar == EMU_T_F16 ? 65504 : emu_format_bf16.largest;

		if (fabs(value) > largest)
			value = copysign(largest, value);
	}
	return (uint32_t)emu_narrow(to->scalar, value, c->rounding);
}

static double widen_element(const struct element *from, uint32_t bits)
{
	if (from->packed == EMU_T_UE8M0X2)
		return emu_ue8m0_to_f32((uint8_t)bits);
	if (from->narrow)
		return emu_minifloat_to_f32(from->narrow, (uint8_t)bits);
	return emu_widen(from->scalar, bits);
}

/* Rounds a float to the minifloat exactly once: sources are f32 or narrower. */
static enum emu_step execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct packed *p = ins->extra;
	int count = p->to->count, bits = p->to->bits;

	EMU_FOR_LANES(l, mask)
	{
		uint32_t random =
			p->random ? (uint32_t)emu_value(warp, &ins->operands[p->random], (int)l)
				  : 0;
		uint64_t result = 0;

		for (int i = 0; i < count; i++) {
			double value;

			if (p->from) {
				uint64_t source = emu_value(warp, &ins->operands[1], (int)l);
				uint32_t mask_bits = (1u << p->from->bits) - 1;

				value = widen_element(p->from,
						      (uint32_t)(source >> p->from->bits * i) &
							      mask_bits);
			} else {
				/* The first source goes to the highest element. */
				const struct emu_operand *source =
					count == 2 ? &ins->operands[2 - i]
						   : emu_item(&ins->operands[1], 3 - i);

				value = emu_f32_of_bits(emu_row32(warp, source->ref)[l]);
				if (p->c.flush && fabs(value) < 0x1p-126)
					value = copysign(0.0, value);
			}
			result |= (uint64_t)narrow_element(p, value, random >> 16 * (i & 1))
				  << bits * i;
		}
		emu_set_value(warp, &ins->operands[0], (int)l, result);
	}
	return EMU_NEXT;
}

static bool legal(const struct packed *p)
{
	enum emu_type to = p->c.to, from = p->c.from;

	if (!p->to)
		return false;
	if (!p->from) /* f32 sources; quadruples exist with .rs alone */
		return from == EMU_T_F32 && (p->to->count == 2 || p->c.stochastic);
	if (p->to->count != 2 || p->from->count != 2)
		return false;
	if (from == EMU_T_UE8M0X2)
		return to == EMU_T_BF16X2;
	if (to == EMU_T_UE8M0X2)
		return from == EMU_T_BF16X2;
	if (p->from->narrow)
		return to == EMU_T_F16X2;
	return p->to->narrow && (from == EMU_T_F16X2 || from == EMU_T_BF16X2);
}

static bool want_result(struct emu_decode *decode, int bits)
{
	const struct emu_operand *to = &decode->ins->operands[0];

	if (to->kind == EMU_O_REGISTER && to->bits == bits)
		return true;
	return emu_reject(decode, "the result needs a register of %d bits", bits);
}

/* Scale factors, and elements of 4 and 6 bits. */
static bool is_tiny(enum emu_type type)
{
	static const enum emu_type types[] = {EMU_T_E2M1X2,  EMU_T_E2M3X2, EMU_T_E3M2X2,
					      EMU_T_UE8M0X2, EMU_T_E2M1X4, EMU_T_E2M3X4,
					      EMU_T_E3M2X4};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i] == type)
			return true;
	return false;
}

bool emu_decode_packed(struct emu_decode *decode, struct emu_conversion *c, int rounding)
{
	struct packed *p = emu_decode_extra(decode, sizeof *p);
	int sources;

	if (!p)
		return false;
	p->c = *c;
	p->to = element_of(c->to);
	p->from = element_of(c->from);
	if (!legal(p))
		return emu_reject(decode, "cannot convert .%s to .%s", emu_types[c->from].text,
				  emu_types[c->to].text);
	if (c->stochastic && !emu_want_target(decode, EMU_P_SM100_OR_103, ".rs"))
		return false;
	if ((is_tiny(c->to) || is_tiny(c->from)) &&
	    !emu_want_target(decode, EMU_P_SM100 | EMU_P_SPECIFIC, "a type of this kind"))
		return false;
	if (c->saturate || c->integral || c->scaled)
		return emu_reject(decode, "these modifiers do not go with packed types");
	if (rounding < 0 && !c->stochastic)
		return emu_reject(decode, "needs a rounding such as .rn");
	if (c->to == EMU_T_UE8M0X2 && rounding != EMU_ROUND_UP && rounding != EMU_ROUND_ZERO)
		return emu_reject(decode, "to .ue8m0x2 rounds by .rp or .rz");
	if (p->to->narrow && !p->from && !c->finite)
		return emu_reject(decode, "to .%s needs .satfinite", emu_types[c->to].text);
	sources = p->from ? 1 : p->to->count == 4 ? 1 : 2;
	decode->ins->extra = p;
	decode->ins->execute = emu_conversion_rows(decode, c, rounding);
	if (!decode->ins->execute)
		decode->ins->execute = execute;
	if (!emu_want_operands(decode, 1 + sources + c->stochastic, 1 + sources + c->stochastic) ||
	    !want_result(decode, emu_types[c->to].bits))
		return false;
	if (c->stochastic) {
		p->random = 1 + sources;
		if (!emu_want_value(decode, p->random, 32))
			return false;
	}
	if (p->from)
		return emu_want_value(decode, 1, emu_types[c->from].bits);
	if (p->to->count == 4)
		return emu_want_vector(decode, 1, 4, 32);
	return emu_want_value(decode, 1, 32) && emu_want_value(decode, 2, 32);
}

/* ---- cvt.pack: saturating integers, packed ------------------------------------------------ */

static uint32_t clamp(int32_t value, int bits, bool is_signed)
{
	int32_t most = is_signed ? (1 << (bits - 1)) - 1 : (int32_t)((1u << bits) - 1);
	int32_t least = is_signed ? -most - 1 : 0;

	value = value > most ? most : value < least ? least : value;
	return (uint32_t)value & ((1u << bits) - 1);
}

static enum emu_step pack(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	int bits = ins->count;
	bool is_signed = ins->variant;

	EMU_FOR_LANES(l, mask)
	{
		uint32_t a = clamp((int32_t)emu_row32(warp, ins->ref[1])[l], bits, is_signed);
		uint32_t b = clamp((int32_t)emu_row32(warp, ins->ref[2])[l], bits, is_signed);
		uint32_t c = ins->operand_count > 3 ? emu_row32(warp, ins->ref[3])[l] : 0;

		/* c moves up, the new pair comes in below it. */
		emu_row32(warp, ins->ref[0])[l] = (bits < 16 ? c << 2 * bits : 0) | a << bits | b;
	}
	return EMU_NEXT;
}

/* cvt.pack.sat.u16.s32 d, a, b;  cvt.pack.sat.u8.s32.b32 d, a, b, c */
bool emu_decode_pack(struct emu_decode *decode)
{
	static const char *const types[] = {"u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16", NULL};
	int type = emu_take_one(decode, types), count;

	if (!emu_take(decode, "sat") || type < 0 || emu_take_type(decode) != EMU_T_S32)
		return emu_reject(decode, "the form is cvt.pack.sat.TYPE.s32");
	decode->ins->count = (uint8_t)(2 << type / 2);
	decode->ins->variant = type & 1;
	decode->ins->execute = pack;
	emu_take(decode, "b32");
	count = type < 6 ? 4 : 3;
	if (!emu_want_operands(decode, count, count) || !emu_want_register(decode, 0, 32))
		return false;
	for (int i = 1; i < count; i++)
		if (!emu_want_value(decode, i, 32))
			return false;
	return true;
}

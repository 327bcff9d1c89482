/* f16, bf16 and pairs of them: computed in wider formats, rounded once. */
#include "approximate.h"
#include "machine.h"
#include "number.h"
#include "predicate.h"
#include "rounding.h"
#include <math.h>

enum operation {
	ADD,
	SUB,
	MUL,
	FMA,
	MIN,
	MAX,
	NEG,
	ABS,
	EX2,
	TANH
};

struct half_form {
	enum operation operation;
	bool bfloat, pair, flush, saturate, relu, nan, xor_sign, third, outside;
	int sources;
};

static float widen(const struct half_form *form, uint16_t bits)
{
	if (form->bfloat)
		return emu_bf16_to_f32(bits);
	if (form->flush && !(bits & 0x7c00))
		bits &= 0x8000;
	return emu_f16_to_f32(bits);
}

static uint16_t narrow(const struct half_form *form, float value)
{
	uint16_t bits = form->bfloat ? emu_bf16_from_f32(value) : emu_f16_from_f32(value);

	if (form->flush && !form->bfloat && !(bits & 0x7c00))
		bits &= 0x8000;
	return bits;
}

static float least(float x, float y)
{
	if (x != x || y != y)
		return x != x ? y : x;
	return x == y ? (signbit(x) ? x : y) : x < y ? x : y;
}

static float greatest(float x, float y)
{
	if (x != x || y != y)
		return x != x ? y : x;
	return x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}

static float min_max(const struct half_form *form, float x, float y)
{
	bool negative = form->xor_sign && (signbit(x) != 0) != (signbit(y) != 0);
	float value;

	if (form->nan && (x != x || y != y))
		return NAN;
	if (form->xor_sign) {
		x = fabsf(x);
		y = fabsf(y);
	}
	value = form->operation == MIN ? least(x, y) : greatest(x, y);
	return negative ? -value : value;
}

/*
 * A product of two values is exact in double, and a sum kept odd rounds to the
 * narrow format as the exact one would.
 */
static float fused(const struct half_form *form, float x, float y, float z)
{
	const struct emu_format *format = form->bfloat ? &emu_format_bf16 : &emu_format_f16;
	double product = (double)x * y;

	if (!isfinite(product) || !isfinite(z))
		return (float)(product + z);
	return (float)emu_round_to(format, emu_add_to_odd(product, z), EMU_ROUND_NEAREST_EVEN);
}

static float apply(const struct half_form *form, float x, float y, float z)
{
	switch (form->operation) {
	case ADD:
		return x + y;
	case SUB:
		return x - y;
	case MUL:
		return x * y;
	case FMA:
		return fused(form, x, y, z);
	case EX2:
		return emu_ex2(x);
	case TANH:
		return emu_tanh(x);
	default:
		x = min_max(form, x, y);
		return form->third ? min_max(form, x, z) : x;
	}
}

/* A result is flushed where it would be below 2^-14 rounded as if exponents had no bound. */
static bool is_tiny(const struct half_form *form, float x, float y, float z)
{
	double exact = form->operation == FMA ? (double)x * y + z : (double)x * y;

	return form->flush && (form->operation == MUL || form->operation == FMA) &&
	       fabs(emu_round_to(&emu_format_f16, exact * 1024, EMU_ROUND_NEAREST_EVEN)) < 0x1p-4;
}

/* The NaN that stands for an element outside a tensor: with fma.oob nothing comes of it. */
static bool out_of_bounds(uint16_t bits)
{
	return (bits & 0x7fff) == 0x7ff7;
}

static uint16_t one(const struct half_form *form, const uint16_t in[3])
{
	float operand[3], value;

	if (form->operation == NEG || form->operation == ABS) {
		if ((in[0] & 0x7fff) > (form->bfloat ? 0x7f80 : 0x7c00))
			return 0x7fff;
		if (form->flush && !form->bfloat && !(in[0] & 0x7c00))
			return form->operation == NEG ? ~in[0] & 0x8000 : 0;
		return form->operation == NEG ? (uint16_t)(in[0] ^ 0x8000) : in[0] & 0x7fff;
	}
	if (form->outside && (out_of_bounds(in[0]) || out_of_bounds(in[1])))
		return 0;
	for (int i = 0; i < 3; i++)
		operand[i] = widen(form, in[i]);
	value = apply(form, operand[0], operand[1], operand[2]);
	if (is_tiny(form, operand[0], operand[1], operand[2]))
		value = copysignf(0.0f, value);
	if (form->saturate)
		value = value > 0 ? value < 1 ? value : 1 : 0;
	if (form->relu && value <= 0) /* -0 as well */
		value = 0;
	return narrow(form, value);
}

static enum emu_step execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct half_form *form = ins->extra;
	int halves = form->pair ? 2 : 1;

	EMU_FOR_LANES(l, mask)
	{
		uint32_t result = 0;

		for (int half = 0; half < halves; half++) {
			uint16_t in[3] = {0, 0, 0};

			for (int i = 0; i < form->sources && i < 3; i++)
				in[i] = (uint16_t)(emu_row32(warp, ins->ref[i + 1])[l] >>
						   16 * half);
			result |= (uint32_t)one(form, in) << 16 * half;
		}
		emu_row32(warp, ins->ref[0])[l] = result;
	}
	return EMU_NEXT;
}

static bool take_operation(struct emu_decode *decode, struct half_form *form)
{
	static const struct {
		const char *name;
		enum operation operation;
		int sources;
	} list[] = {{"add", ADD, 2}, {"sub", SUB, 2},  {"mul", MUL, 2}, {"fma", FMA, 3},
		    {"min", MIN, 2}, {"max", MAX, 2},  {"neg", NEG, 1}, {"abs", ABS, 1},
		    {"ex2", EX2, 1}, {"tanh", TANH, 1}};

	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (!strcmp(list[i].name, decode->opcode->name)) {
			form->operation = list[i].operation;
			form->sources = list[i].sources;
			return true;
		}
	return false;
}

static bool has_modifier(const struct emu_decode *decode, const char *name)
{
	for (int i = 0; i < decode->modifier_count; i++)
		if (!strcmp(decode->modifiers[i], name))
			return true;
	return false;
}

static bool take_modifiers(struct emu_decode *decode, struct half_form *form)
{
	bool min_max = form->operation == MIN || form->operation == MAX;

	if (form->operation <= FMA) {
		if (!emu_take(decode, "rn") && form->operation == FMA)
			return emu_reject(decode, "needs .rn");
		form->saturate = !form->bfloat && emu_take(decode, "sat");
		form->relu = form->operation == FMA && emu_take(decode, "relu");
		form->outside = form->operation == FMA && emu_take(decode, "oob");
		if (form->outside && form->saturate)
			return emu_reject(decode, "'.oob' goes with '.relu' alone");
	}
	if (form->operation == EX2 || form->operation == TANH)
		if (!emu_take(decode, "approx"))
			return emu_reject(decode, "needs .approx");
	if (min_max) {
		form->nan = emu_take(decode, "NaN");
		form->xor_sign = emu_take(decode, "xorsign");
		if (form->xor_sign && !emu_take(decode, "abs"))
			return emu_reject(decode, "'.xorsign' goes with '.abs'");
		form->third = decode->ins->operand_count == 4;
		form->sources += form->third;
	}
	if (form->operation == EX2 && form->bfloat && !has_modifier(decode, "ftz"))
		return emu_reject(decode, "needs .ftz");
	if (form->operation == EX2 ? form->bfloat : !form->bfloat && form->operation != TANH)
		form->flush = emu_take(decode, "ftz");
	if (form->flush && form->outside)
		return emu_reject(decode, "'.ftz' does not go with '.oob'");
	return true;
}

bool emu_decode_half(struct emu_decode *decode, enum emu_type type)
{
	struct half_form *form = emu_decode_extra(decode, sizeof *form);
	int bits = emu_types[type].bits;

	if (!form)
		return false;
	if (!take_operation(decode, form))
		return emu_reject(decode, "has no form for .%s", emu_types[type].text);
	emu_take(decode, emu_types[type].text);
	form->pair = type == EMU_T_F16X2 || type == EMU_T_BF16X2;
	form->bfloat = type == EMU_T_BF16 || type == EMU_T_BF16X2;
	if (!take_modifiers(decode, form))
		return false;
	decode->ins->extra = form;
	if (!form->saturate && !form->nan && !form->xor_sign && !form->third && !form->outside &&
	    (!form->flush || form->bfloat))
		decode->ins->execute = emu_half_rows(decode->opcode->name, type, form->relu);
	if (!decode->ins->execute)
		decode->ins->execute = execute;
	if (!emu_want_operands(decode, form->sources + 1, form->sources + 1) ||
	    !emu_want_register(decode, 0, bits))
		return false;
	for (int i = 1; i <= form->sources; i++)
		if (!emu_want_value(decode, i, bits))
			return false;
	return true;
}

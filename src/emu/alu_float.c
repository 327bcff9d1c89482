/*
 * f32, f64 and f32x2: what the text says, and every combination of rounding, flushing and
 * saturation that is no loop over rows (alu_float_rows.c), lane by lane.
 */
#include "alu_float.h"
#include "predicate.h"
#include "rounding.h"

#define PARAMETERS struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask

enum operation {
	ADD,
	SUB,
	MUL,
	FMA,
	DIV,
	RCP,
	SQRT,
	MIN,
	MAX,
	OTHER
};

struct general {
	enum operation operation;
	enum emu_rounding rounding;
	bool flush, saturate, nan, xor_sign, third;
	bool far; /* div.approx */
	bool absolute;
	int sources;
	int halves; /* leading sources of 16 bits: f16, or bf16 */
	bool bfloat;
};

static float min_max_f32(const struct general *g, float x, float y)
{
	uint32_t sign = (emu_bits_of_f32(x) ^ emu_bits_of_f32(y)) & 0x80000000u;
	float value;

	if (g->nan && (x != x || y != y))
		return NAN;
	if (g->xor_sign || g->absolute) {
		x = fabsf(x);
		y = fabsf(y);
	}
	value = g->operation == MIN ? emu_least_f32(x, y) : emu_greatest_f32(x, y);
	return g->xor_sign ? emu_f32_of_bits(emu_bits_of_f32(value) | sign) : value;
}

static float apply_f32(const struct general *g, float x, float y, float z)
{
	switch (g->operation) {
	case ADD:
		return x + y;
	case SUB:
		return x - y;
	case MUL:
		return x * y;
	case FMA:
		return fmaf(x, y, z);
	case DIV:
		return x / y;
	case RCP:
		return 1.0f / x;
	case SQRT:
		return sqrtf(x);
	default:
		x = min_max_f32(g, x, y);
		return g->third ? min_max_f32(g, x, z) : x;
	}
}

static float flush_result(const struct general *g, float result, const float in[3])
{
	switch (g->operation) {
	case MUL:
		return emu_flush_tiny(result, (double)in[0] * in[1]);
	case FMA:
		return emu_flush_tiny(result, (double)in[0] * in[1] + in[2]);
	case DIV:
		return emu_flush_tiny(result, (double)in[0] / in[1]);
	default:
		return emu_flush_f32(result);
	}
}

static double apply_f64(const struct general *g, double x, double y, double z)
{
	switch (g->operation) {
	case ADD:
		return emu_propagate(x + y, x, y);
	case SUB:
		return emu_propagate(x - y, x, y);
	case MUL:
		return emu_propagate(x * y, x, y);
	case FMA:
		return emu_propagate3(fma(x, y, z), x, y, z);
	case DIV:
		return x / y;
	case RCP:
		return 1.0 / x;
	default:
		return sqrt(x);
	}
}

static float source_f32(const struct general *g, int i, uint32_t bits)
{
	if (i >= g->halves)
		return emu_f32_of_bits(bits);
	return g->bfloat ? emu_bf16_to_f32((uint16_t)bits) : emu_f16_to_f32((uint16_t)bits);
}

static enum emu_step general_f32(PARAMETERS)
{
	const struct general *g = ins->extra;
	float in[3] = {0, 0, 0}, out;

	emu_host_rounding(g->rounding);
	EMU_FOR_LANES(l, mask)
	{
		for (int i = 0; i < g->sources && i < 3; i++) {
			in[i] = source_f32(g, i, emu_row32(warp, ins->ref[i + 1])[l]);
			if (g->flush)
				in[i] = emu_flush_f32(in[i]);
		}
		out = apply_f32(g, in[0], in[1], in[2]);
		if (g->flush)
			out = flush_result(g, out, in);
		if (g->saturate)
			out = emu_saturate_f32(out);
		emu_row32(warp, ins->ref[0])[l] = emu_canonical(out);
	}
	emu_host_rounding(EMU_ROUND_NEAREST_EVEN);
	return EMU_NEXT;
}

static enum emu_step general_f64(PARAMETERS)
{
	const struct general *g = ins->extra;
	double in[4] = {0, 0, 0, 0}, out;

	emu_host_rounding(g->rounding);
	EMU_FOR_LANES(l, mask)
	{
		for (int i = 0; i < g->sources && i < 3; i++)
			memcpy(&in[i], &emu_row64(warp, ins->ref[i + 1])[l], 8);
		out = apply_f64(g, in[0], in[1], in[2]);
		memcpy(&emu_row64(warp, ins->ref[0])[l], &out, 8);
	}
	emu_host_rounding(EMU_ROUND_NEAREST_EVEN);
	return EMU_NEXT;
}

/* Two f32 in a 64-bit register: 64 values in a row of 32 lanes. */
static enum emu_step general_f32x2(PARAMETERS)
{
	const struct general *g = ins->extra;
	uint32_t *d = (uint32_t *)emu_row64(warp, ins->ref[0]);
	bool host = g->rounding != EMU_ROUND_NEAREST_EVEN;

	if (host)
		emu_host_rounding(g->rounding);
	EMU_FOR_LANES(l, mask)
	{
		for (uint32_t half = 2 * l; half < 2 * l + 2; half++) {
			float in[3] = {0, 0, 0}, out;

			for (int i = 0; i < g->sources && i < 3; i++) {
				in[i] = ((const float *)emu_row64(warp, ins->ref[i + 1]))[half];
				if (g->flush)
					in[i] = emu_flush_f32(in[i]);
			}
			out = apply_f32(g, in[0], in[1], in[2]);
			d[half] = emu_canonical(g->flush ? flush_result(g, out, in) : out);
		}
	}
	if (host)
		emu_host_rounding(EMU_ROUND_NEAREST_EVEN);
	return EMU_NEXT;
}

/* ---- decoding -------------------------------------------------------------------------------- */

struct opcode_info {
	const char *name;
	enum operation operation;
	int sources;
	bool rounds;      /* takes .rn and the like */
	bool approximate; /* exists only with .approx */
	bool saturates;
};

static const struct opcode_info infos[] = {
	{"add", ADD, 2, true, false, true},          {"sub", SUB, 2, true, false, true},
	{"mul", MUL, 2, true, false, true},          {"fma", FMA, 3, true, false, true},
	{"mad", FMA, 3, true, false, true},          {"div", DIV, 2, true, false, false},
	{"min", MIN, 2, false, false, false},        {"max", MAX, 2, false, false, false},
	{"rcp", RCP, 1, true, false, false},         {"sqrt", SQRT, 1, true, false, false},
	{"neg", OTHER, 1, false, false, false},      {"abs", OTHER, 1, false, false, false},
	{"copysign", OTHER, 2, false, false, false}, {"rsqrt", OTHER, 1, false, true, false},
	{"ex2", OTHER, 1, false, true, false},       {"lg2", OTHER, 1, false, true, false},
	{"sin", OTHER, 1, false, true, false},       {"cos", OTHER, 1, false, true, false},
	{"tanh", OTHER, 1, false, true, false},
};

static const struct opcode_info *find_info(const struct emu_decode *decode)
{
	for (size_t i = 0; i < sizeof infos / sizeof *infos; i++)
		if (!strcmp(infos[i].name, decode->opcode->name))
			return &infos[i];
	return NULL;
}

static bool take_modifiers(struct emu_decode *decode, const struct opcode_info *info,
			   enum emu_type type, struct general *g, bool *approximate)
{
	int rounding = info->rounds ? emu_take_one(decode, emu_rounding_names) : -1;

	if (rounding == -2)
		return false;
	if (rounding == EMU_ROUND_NEAREST_AWAY)
		return emu_reject(decode, "'.rna' goes with cvt alone");
	g->rounding = rounding < 0 ? EMU_ROUND_NEAREST_EVEN : (enum emu_rounding)rounding;
	*approximate = emu_take(decode, "approx");
	g->far = *approximate && info->operation == DIV;
	if (info->operation == DIV && emu_take(decode, "full"))
		*approximate = true;
	if (*approximate && !(info->approximate || info->operation == DIV ||
			      info->operation == RCP || info->operation == SQRT))
		return emu_reject(decode, "'.approx' does not exist for %s", info->name);
	if (info->approximate && !*approximate)
		return emu_reject(decode, "needs .approx");
	if ((info->operation == DIV || info->operation == RCP || info->operation == SQRT) &&
	    rounding < 0 && !*approximate)
		return emu_reject(decode, "needs .approx or a rounding such as .rn");
	if (info->operation == FMA && rounding < 0)
		return emu_reject(decode, "needs a rounding such as .rn");
	g->flush = (type != EMU_T_F64 || *approximate) && emu_take(decode, "ftz");
	g->saturate = info->saturates && type == EMU_T_F32 && emu_take(decode, "sat");
	if (info->operation == MIN || info->operation == MAX) {
		g->nan = type == EMU_T_F32 && emu_take(decode, "NaN");
		g->xor_sign = type == EMU_T_F32 && emu_take(decode, "xorsign");
		if (g->xor_sign && !emu_take(decode, "abs"))
			return emu_reject(decode, "'.xorsign' goes with '.abs'");
		g->absolute = g->third && emu_take(decode, "abs");
	}
	return true;
}

static emu_execute choose(const struct opcode_info *info, enum emu_type type,
			  const struct general *g, bool approximate)
{
	bool plain = g->rounding == EMU_ROUND_NEAREST_EVEN && !(g->saturate && g->flush) &&
		     !g->nan && !g->xor_sign && !g->third && !g->halves;
	const char *opcode = info->operation == FMA ? "fma" : info->name;
	enum emu_float_variant variant = g->flush ? EMU_FLOAT_FLUSH : EMU_FLOAT_PLAIN;

	if (type == EMU_T_F32X2 && info->operation > FMA)
		return NULL;
	if (type == EMU_T_F64 && approximate && info->operation != OTHER &&
	    (info->operation != RCP || !g->flush))
		return NULL;
	if (!plain)
		return type == EMU_T_F64     ? general_f64
		       : type == EMU_T_F32X2 ? general_f32x2
					     : general_f32;
	if (g->saturate)
		variant = EMU_FLOAT_SATURATE;
	if (g->far)
		variant = g->flush ? EMU_FLOAT_FAR_FLUSH : EMU_FLOAT_FAR;
	return emu_float_rows(opcode, type, variant);
}

/* add.f32.f16 and the like: all but the last source are of the narrow type. */
static bool take_halves(struct emu_decode *decode, const struct opcode_info *info,
			struct general *g)
{
	static const char *const types[] = {"f16", "bf16", NULL};
	int narrow = info->operation == ADD || info->operation == SUB || info->operation == FMA
			     ? emu_take_one(decode, types)
			     : -1;

	if (narrow < 0)
		return narrow == -1;
	if (g->flush || !strcmp(info->name, "mad"))
		return emu_reject(decode, "has no such form with .%s", types[narrow]);
	g->halves = info->sources - 1;
	g->bfloat = narrow == 1;
	return emu_want_target(decode, EMU_P_SM100, "a source of 16 bits");
}

bool emu_decode_float(struct emu_decode *decode, enum emu_type type)
{
	const struct opcode_info *info = find_info(decode);
	struct general *g = emu_decode_extra(decode, sizeof *g);
	int bits = emu_types[type].bits;
	bool approximate = false;

	if (!g)
		return false;
	if (!info)
		return emu_reject(decode, "has no form for .%s", emu_types[type].text);
	emu_take(decode, emu_types[type].text);
	if (type == EMU_T_F32X2 && !emu_want_target(decode, EMU_P_SM100, ".f32x2"))
		return false;
	g->operation = info->operation;
	g->sources = info->sources;
	if ((info->operation == MIN || info->operation == MAX) && decode->ins->operand_count == 4 &&
	    type == EMU_T_F32 && decode->module->sm >= 100) {
		g->third = true;
		g->sources = 3;
	}
	if (!take_modifiers(decode, info, type, g, &approximate) ||
	    (type == EMU_T_F32 && !take_halves(decode, info, g)))
		return false;
	decode->ins->extra = g;
	decode->ins->execute = choose(info, type, g, approximate);
	if (!decode->ins->execute)
		return emu_reject(decode, "has no such form for .%s", emu_types[type].text);
	if (!emu_want_operands(decode, g->sources + 1, g->sources + 1) ||
	    !emu_want_register(decode, 0, bits))
		return false;
	for (int i = 1; i <= g->sources; i++)
		if (!emu_want_value(decode, i, i <= g->halves ? 16 : bits))
			return false;
	return true;
}

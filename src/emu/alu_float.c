/*
 * f32, f64 and f32x2.  The common forms are loops over rows; every other
 * combination of rounding, flushing and saturation goes lane by lane.
 */
#include "alu.h"
#include "approximate.h"
#include "number.h"
#include "predicate.h"
#include "rounding.h"
#include <math.h>

/* ---- f32 values ------------------------------------------------------------------ */

static inline float flush(float value)
{
	uint32_t bits = emu_bits_of_f32(value);

	return emu_f32_of_bits(bits & 0x7f800000u ? bits : bits & 0x80000000u);
}

/* A result is flushed where it would be below 2^-126 rounded as if exponents had no bound. */
static inline float flush_tiny(float rounded, double exact)
{
	float unbounded = (float)(exact * 0x1p64);

	return fabsf(unbounded) < 0x1p-62f ? copysignf(0.0f, rounded) : rounded;
}

/* A NaN result has one pattern. */
static inline uint32_t canonical(float value)
{
	uint32_t bits = emu_bits_of_f32(value);

	return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}

static inline float saturate(float value)
{
	return value > 0 ? value < 1 ? value : 1 : 0;
}

static inline float keep(float value)
{
	return value;
}

/* div.approx by more than 2^126 gives zero, of infinity NaN. */
static inline float far_quotient(float x, float y)
{
	return isinf(x) ? NAN : copysignf(0.0f, signbit(x) != signbit(y) ? -1.0f : 1.0f);
}

/* Without NaN, -0 is less than +0; of a number and a NaN the number is chosen. */
static inline float least(float x, float y)
{
	uint32_t both = emu_bits_of_f32(x) | emu_bits_of_f32(y);
	float chosen = x == y ? emu_f32_of_bits(both) : x < y ? x : y;

	return x != x ? y : y != y ? x : chosen;
}

static inline float greatest(float x, float y)
{
	uint32_t both = emu_bits_of_f32(x) & emu_bits_of_f32(y);
	float chosen = x == y ? emu_f32_of_bits(both) : x > y ? x : y;

	return x != x ? y : y != y ? x : chosen;
}

static inline double quiet_double(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	bits |= 0x0008000000000000u;
	memcpy(&x, &bits, sizeof bits);
	return x;
}

/* A NaN of f64 goes on: y's, of fma else z's, else x's; one that arises is negative. */
static inline double propagate(double result, double x, double y)
{
	if (result == result)
		return result;
	return quiet_double(y != y ? y : x != x ? x : -(double)NAN);
}

static inline double propagate3(double result, double x, double y, double z)
{
	return z != z && y == y ? quiet_double(z) : propagate(result, x, y);
}

static inline double least_double(double x, double y)
{
	if (x != x || y != y)
		return x == x ? x : y == y ? y : quiet_double(y);
	return x == y ? (signbit(x) ? x : y) : x < y ? x : y;
}

static inline double greatest_double(double x, double y)
{
	if (x != x || y != y)
		return x == x ? x : y == y ? y : quiet_double(y);
	return x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}

/* ---- the common forms ---------------------------------------------------------------- */

#define F32_1(name, in, out, expression)                                                           \
	static enum emu_step name(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask) \
	{                                                                                          \
		uint32_t *d = emu_row32(warp, ins->ref[0]);                                        \
		const float *a = (const float *)emu_row32(warp, ins->ref[1]);                      \
                                                                                                   \
		EMU_OVER_LANES(uint32_t, ({                                                        \
				       float x = in(a[l]);                                         \
				       canonical(out(expression));                                 \
			       }))                                                                 \
	}
#define F32_2(name, in, out, expression)                                                           \
	static enum emu_step name(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask) \
	{                                                                                          \
		uint32_t *d = emu_row32(warp, ins->ref[0]);                                        \
		const float *a = (const float *)emu_row32(warp, ins->ref[1]);                      \
		const float *b = (const float *)emu_row32(warp, ins->ref[2]);                      \
                                                                                                   \
		EMU_OVER_LANES(uint32_t, ({                                                        \
				       float x = in(a[l]), y = in(b[l]);                           \
				       canonical(out(expression));                                 \
			       }))                                                                 \
	}
#define BOTH_1(name, expression)                                                                   \
	F32_1(name##_f32, keep, keep, expression) F32_1(name##_ftz_f32, flush, flush, expression)
#define BOTH_2(name, expression)                                                                   \
	F32_2(name##_f32, keep, keep, expression) F32_2(name##_ftz_f32, flush, flush, expression)

BOTH_2(add, x + y)
BOTH_2(sub, x - y)
F32_2(mul_f32, keep, keep, x *y)
F32_2(mul_ftz_f32, flush, keep, flush_tiny(x *y, (double)x *y))
F32_2(div_f32, keep, keep, x / y)
F32_2(div_ftz_f32, flush, keep, flush_tiny(x / y, (double)x / y))
BOTH_2(div_approx, fabsf(y) > 0x1p126f && !isinf(y) && x == x ? far_quotient(x, y) : x / y)
BOTH_2(min, least(x, y))
BOTH_2(max, greatest(x, y))
BOTH_1(rcp, 1.0f / x)
BOTH_1(sqrt, sqrtf(x))
BOTH_1(rsqrt, emu_rsqrt(x))
BOTH_1(ex2, emu_ex2(x))
BOTH_1(lg2, emu_lg2(x))
BOTH_1(sin, emu_sin(x))
BOTH_1(cos, emu_cos(x))
F32_1(tanh_f32, keep, keep, emu_tanh(x))

#define SIGN(name, flushing, expression)                                                           \
	static enum emu_step name(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask) \
	{                                                                                          \
		uint32_t *d = emu_row32(warp, ins->ref[0]);                                        \
		const float *a = (const float *)emu_row32(warp, ins->ref[1]);                      \
                                                                                                   \
		EMU_OVER_LANES(uint32_t, ({                                                        \
				       uint32_t x = emu_bits_of_f32(flushing(a[l]));               \
				       expression;                                                 \
			       }))                                                                 \
	}
static inline uint32_t quiet(uint32_t bits)
{
	return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}

SIGN(neg_f32, keep, quiet(x ^ 0x80000000u))
SIGN(neg_ftz_f32, flush, quiet(x ^ 0x80000000u))
SIGN(abs_f32, keep, quiet(x & 0x7fffffffu))
SIGN(abs_ftz_f32, flush, quiet(x & 0x7fffffffu))

#define F64_1(name, expression)                                                                    \
	static enum emu_step name(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask) \
	{                                                                                          \
		double *d = (double *)emu_row64(warp, ins->ref[0]);                                \
		const double *a = (const double *)emu_row64(warp, ins->ref[1]);                    \
                                                                                                   \
		EMU_OVER_LANES(double, ({                                                          \
				       double x = a[l];                                            \
				       expression;                                                 \
			       }))                                                                 \
	}
#define F64_2(name, expression)                                                                    \
	static enum emu_step name(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask) \
	{                                                                                          \
		double *d = (double *)emu_row64(warp, ins->ref[0]);                                \
		const double *a = (const double *)emu_row64(warp, ins->ref[1]);                    \
		const double *b = (const double *)emu_row64(warp, ins->ref[2]);                    \
                                                                                                   \
		EMU_OVER_LANES(double, ({                                                          \
				       double x = a[l], y = b[l];                                  \
				       expression;                                                 \
			       }))                                                                 \
	}
F64_2(add_f64, propagate(x + y, x, y))
F64_2(sub_f64, propagate(x - y, x, y))
F64_2(mul_f64, propagate(x *y, x, y))
F64_2(div_f64, x / y)
F64_2(min_f64, least_double(x, y))
F64_2(max_f64, greatest_double(x, y))
F64_2(copysign_f64, copysign(y, x))
F64_1(neg_f64, x != x ? quiet_double(x) : -x)
F64_1(abs_f64, x != x ? quiet_double(x) : fabs(x))
F64_1(rcp_f64, 1.0 / x)
F64_1(sqrt_f64, sqrt(x))
F64_1(rcp_approx_f64, emu_rcp_gross(x))
F64_1(rsqrt_approx_f64, 1.0 / sqrt(x))
F64_1(rsqrt_ftz_f64, emu_rsqrt_gross(x))

/* copysign d, a, b: the sign of a, the magnitude of b */
static enum emu_step copysign_f32(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t *d = emu_row32(warp, ins->ref[0]);
	const uint32_t *a = emu_row32(warp, ins->ref[1]), *b = emu_row32(warp, ins->ref[2]);

	EMU_OVER_LANES(uint32_t, (a[l] & 0x80000000u) | (b[l] & 0x7fffffffu))
}

/* ---- fma: by the host's instruction where there is one ------------------------------------- */

#define FMA_ROWS                                                                                   \
	uint32_t *d = emu_row32(warp, ins->ref[0]);                                                \
	const float *a = (const float *)emu_row32(warp, ins->ref[1]);                              \
	const float *b = (const float *)emu_row32(warp, ins->ref[2]);                              \
	const float *c = (const float *)emu_row32(warp, ins->ref[3])
#define FMA_BODY                                                                                   \
	FMA_ROWS;                                                                                  \
	EMU_OVER_LANES(uint32_t, canonical(__builtin_fmaf(a[l], b[l], c[l])))
#define FMA_FTZ_BODY                                                                               \
	FMA_ROWS;                                                                                  \
	EMU_OVER_LANES(uint32_t, ({                                                                \
			       float x = flush(a[l]), y = flush(b[l]), z = flush(c[l]);            \
			       canonical(flush_tiny(__builtin_fmaf(x, y, z), (double)x *y + z));   \
		       }))
#define FMA64_BODY                                                                                 \
	double *d = (double *)emu_row64(warp, ins->ref[0]);                                        \
	const double *a = (const double *)emu_row64(warp, ins->ref[1]);                            \
	const double *b = (const double *)emu_row64(warp, ins->ref[2]);                            \
	const double *c = (const double *)emu_row64(warp, ins->ref[3]);                            \
                                                                                                   \
	EMU_OVER_LANES(double, propagate3(__builtin_fma(a[l], b[l], c[l]), a[l], b[l], c[l]))
#define PARAMETERS struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask

static enum emu_step fma_f32(PARAMETERS)
{
	FMA_BODY
}

static enum emu_step fma_ftz_f32(PARAMETERS)
{
	FMA_FTZ_BODY
}

static enum emu_step fma_f64(PARAMETERS){FMA64_BODY}

#if defined __x86_64__
#define HOST_FMA __attribute__((target("avx2,fma")))

HOST_FMA static enum emu_step fma_f32_host(PARAMETERS){FMA_BODY}

HOST_FMA static enum emu_step fma_ftz_f32_host(PARAMETERS){FMA_FTZ_BODY}

HOST_FMA static enum emu_step fma_f64_host(PARAMETERS)
{
	FMA64_BODY
}

static emu_execute host_fma(emu_execute plain)
{
	if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2"))
		return plain;
	return plain == fma_f32 ? fma_f32_host : plain == fma_f64 ? fma_f64_host : fma_ftz_f32_host;
}
#else
static emu_execute host_fma(emu_execute plain)
{
	return plain;
}
#endif

/* ---- everything else, lane by lane --------------------------------------------------------- */

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
	value = g->operation == MIN ? least(x, y) : greatest(x, y);
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
		return flush_tiny(result, (double)in[0] * in[1]);
	case FMA:
		return flush_tiny(result, (double)in[0] * in[1] + in[2]);
	case DIV:
		return flush_tiny(result, (double)in[0] / in[1]);
	default:
		return flush(result);
	}
}

static double apply_f64(const struct general *g, double x, double y, double z)
{
	switch (g->operation) {
	case ADD:
		return propagate(x + y, x, y);
	case SUB:
		return propagate(x - y, x, y);
	case MUL:
		return propagate(x * y, x, y);
	case FMA:
		return propagate3(fma(x, y, z), x, y, z);
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
				in[i] = flush(in[i]);
		}
		out = apply_f32(g, in[0], in[1], in[2]);
		if (g->flush)
			out = flush_result(g, out, in);
		if (g->saturate)
			out = saturate(out);
		emu_row32(warp, ins->ref[0])[l] = canonical(out);
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
					in[i] = flush(in[i]);
			}
			out = apply_f32(g, in[0], in[1], in[2]);
			d[half] = canonical(g->flush ? flush_result(g, out, in) : out);
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
	emu_execute f32, ftz_f32, f64;
	bool rounds;      /* takes .rn and the like */
	bool approximate; /* exists only with .approx */
	bool saturates;
};

static const struct opcode_info infos[] = {
	{"add", ADD, 2, add_f32, add_ftz_f32, add_f64, true, false, true},
	{"sub", SUB, 2, sub_f32, sub_ftz_f32, sub_f64, true, false, true},
	{"mul", MUL, 2, mul_f32, mul_ftz_f32, mul_f64, true, false, true},
	{"fma", FMA, 3, fma_f32, fma_ftz_f32, fma_f64, true, false, true},
	{"mad", FMA, 3, fma_f32, fma_ftz_f32, fma_f64, true, false, true},
	{"div", DIV, 2, div_f32, div_ftz_f32, div_f64, true, false, false},
	{"min", MIN, 2, min_f32, min_ftz_f32, min_f64, false, false, false},
	{"max", MAX, 2, max_f32, max_ftz_f32, max_f64, false, false, false},
	{"rcp", RCP, 1, rcp_f32, rcp_ftz_f32, rcp_f64, true, false, false},
	{"sqrt", SQRT, 1, sqrt_f32, sqrt_ftz_f32, sqrt_f64, true, false, false},
	{"neg", OTHER, 1, neg_f32, neg_ftz_f32, neg_f64, false, false, false},
	{"abs", OTHER, 1, abs_f32, abs_ftz_f32, abs_f64, false, false, false},
	{"copysign", OTHER, 2, copysign_f32, NULL, copysign_f64, false, false, false},
	{"rsqrt", OTHER, 1, rsqrt_f32, rsqrt_ftz_f32, rsqrt_approx_f64, false, true, false},
	{"ex2", OTHER, 1, ex2_f32, ex2_ftz_f32, NULL, false, true, false},
	{"lg2", OTHER, 1, lg2_f32, lg2_ftz_f32, NULL, false, true, false},
	{"sin", OTHER, 1, sin_f32, sin_ftz_f32, NULL, false, true, false},
	{"cos", OTHER, 1, cos_f32, cos_ftz_f32, NULL, false, true, false},
	{"tanh", OTHER, 1, tanh_f32, NULL, NULL, false, true, false},
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
	bool plain = g->rounding == EMU_ROUND_NEAREST_EVEN && !g->saturate && !g->nan &&
		     !g->xor_sign && !g->third && !g->halves;

	if (type == EMU_T_F32X2)
		return info->operation <= FMA ? general_f32x2 : NULL;
	if (type == EMU_T_F64) {
		if (approximate)
			return info->operation == RCP && g->flush ? rcp_approx_f64
			       : info->operation != OTHER         ? NULL
			       : g->flush                         ? rsqrt_ftz_f64
								  : info->f64;
		if (!plain)
			return general_f64;
		return info->operation == FMA ? host_fma(info->f64) : info->f64;
	}
	if (!plain)
		return general_f32;
	if (g->far)
		return g->flush ? div_approx_ftz_f32 : div_approx_f32;
	if (info->operation == FMA)
		return host_fma(g->flush ? info->ftz_f32 : info->f32);
	return g->flush ? info->ftz_f32 : info->f32;
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

/* The instructions of one scalar op, operands given. */
#include "compile.h"
#include <math.h>
#include <string.h>

int tc_log2(int64_t x)
{
	int n = 0;

	if (x <= 0 || (x & (x - 1)))
		return -1;
	while (x >>= 1)
		n++;
	return n;
}

/* Floor division and modulo of Lua: the remainder has the divisor's sign. */
struct mreg tc_low_floor_division(struct low *l, bool div, bool natural, struct mopnd a,
				  struct mopnd b)
{
	struct mreg d = mi_b32(l), r, t, q;
	struct mreg p;
	int shift = b.kind == MO_IMM ? tc_log2(b.imm) : -1;

	if (shift >= 0) {
		mi(l,
		   !div      ? "and.b32"
		   : natural ? "shr.u32"
			     : "shr.s32",
		   R(d), a, I(div ? shift : b.imm - 1));
		return d;
	}
	if (natural) {
		mi(l, div ? "div.u32" : "rem.u32", R(d), a, b);
		return d;
	}
	r = mi_b32(l);
	t = mi_b32(l);
	p = mi_pred(l);
	mi(l, "rem.s32", R(r), a, b);
	mi(l, "xor.b32", R(t), R(r), b);
	mi(l, "setp.lt.s32", R(p), R(t), I(0));
	mi(l, "setp.ne.and.s32", R(p), R(r), I(0), R(p));
	if (!div) {
		mi(l, "add.s32", R(t), R(r), b);
		mi(l, "selp.b32", R(d), R(t), R(r), R(p));
		return d;
	}
	q = mi_b32(l);
	mi(l, "div.s32", R(q), a, b);
	mi(l, "sub.s32", R(t), R(q), I(1));
	mi(l, "selp.b32", R(d), R(t), R(q), R(p));
	return d;
}

static struct mreg floor_division(struct low *l, const struct val *v, struct mopnd a,
				  struct mopnd b)
{
	bool natural =
		tc_low_interval(l, v->arg[0]).low >= 0 && tc_low_interval(l, v->arg[1]).low >= 0;

	return tc_low_floor_division(l, v->op == SO_FLOORDIV, natural, a, b);
}

/* 1 / b where that is exact, for a constant b; otherwise 0. */
static float exact_reciprocal(struct mopnd b)
{
	uint32_t bits = (uint32_t)b.imm;
	float value;
	int exponent;

	if (b.kind != MO_F32)
		return 0;
	memcpy(&value, &bits, sizeof value);
	return fabsf(frexpf(value, &exponent)) == 0.5f && isfinite(1 / value) ? 1 / value : 0;
}

/*
 * Within 2 ulp (PTX ISA, div), exact by a constant power of two.  div.rn would be a call of a
 * function in the machine code, and next to a call the assembler serialises every wgmma.
 */
void tc_low_float_division(struct low *l, struct mreg d, struct mopnd a, struct mopnd b)
{
	float reciprocal = exact_reciprocal(b);

	if (reciprocal != 0)
		mi(l, "mul.rn.f32", R(d), a, mo_f32(reciprocal));
	else
		mi(l, "div.full.f32", R(d), a, b);
}

/* ops that are one instruction with two operands: of s32, f32, predicates */
static const struct {
	const char *s32, *f32, *pred;
} plain[] = {
	[SO_ADD] = {"add.s32", "add.rn.f32", NULL},
	[SO_SUB] = {"sub.s32", "sub.rn.f32", NULL},
	[SO_MUL] = {"mul.lo.s32", "mul.rn.f32", NULL},
	[SO_AND] = {"and.b32", NULL, "and.pred"},
	[SO_OR] = {"or.b32", NULL, "or.pred"},
	[SO_XOR] = {"xor.b32", NULL, "xor.pred"},
	[SO_SHL] = {"shl.b32", NULL, NULL},
	[SO_SHR] = {"shr.s32", NULL, NULL},
	[SO_MIN] = {"min.s32", "min.f32", NULL},
	[SO_MAX] = {"max.s32", "max.f32", NULL},
	[SO_LT] = {"setp.lt.s32", "setp.lt.f32", NULL},
	[SO_LE] = {"setp.le.s32", "setp.le.f32", NULL},
	[SO_GT] = {"setp.gt.s32", "setp.gt.f32", NULL},
	[SO_GE] = {"setp.ge.s32", "setp.ge.f32", NULL},
	[SO_EQ] = {"setp.eq.s32", "setp.eq.f32", NULL},
	[SO_NE] = {"setp.ne.s32", "setp.neu.f32", NULL},
	[SO_LAND] = {NULL, NULL, "and.pred"},
	[SO_LOR] = {NULL, NULL, "or.pred"},
};

static struct mreg result_register(struct low *l, const struct val *v)
{
	return v->type == VT_PRED ? mi_pred(l) : v->type == VT_F32 ? mi_f32(l) : mi_b32(l);
}

/* ops of one f32 */
static const char *const functions[] = {
	[SO_EXP2] = "ex2.approx.ftz.f32", [SO_LOG2] = "lg2.approx.f32",
	[SO_RSQRT] = "rsqrt.approx.f32",  [SO_SQRT] = "sqrt.approx.f32",
	[SO_TANH] = "tanh.approx.f32",
};

static struct mreg unary(struct low *l, const struct val *v, struct mopnd a)
{
	struct mreg d = result_register(l, v);
	bool real = v->arg[0]->type == VT_F32;

	if (v->op >= SO_EXP2) {
		mi(l, functions[v->op], R(d), a);
		return d;
	}
	switch (v->op) {
	case SO_NEG:
		mi(l, real ? "neg.f32" : "neg.s32", R(d), a);
		break;
	case SO_NOT:
		mi(l, "not.b32", R(d), a);
		break;
	case SO_LNOT:
		mi(l, "not.pred", R(d), a);
		break;
	case SO_TO_F32:
		mi(l, real ? "mov.f32" : "cvt.rn.f32.s32", R(d), a);
		break;
	default:
		mi(l, real ? "cvt.rzi.s32.f32" : "mov.b32", R(d), a);
		break;
	}
	return d;
}

struct mreg tc_low_compute(struct low *l, const struct val *v, const struct mopnd *a)
{
	enum val_type type = v->arg[0]->type;
	const char *opcode;
	struct mreg d;
	int shift;

	if (v->op == SO_SELECT) {
		d = result_register(l, v);
		mi(l, v->type == VT_F32 ? "selp.f32" : "selp.b32", R(d), a[1], a[2], a[0]);
		return d;
	}
	if (!v->arg[1])
		return unary(l, v, a[0]);
	if (v->op == SO_FLOORDIV || v->op == SO_MOD)
		return floor_division(l, v, a[0], a[1]);
	d = result_register(l, v);
	if (v->op == SO_DIV) {
		tc_low_float_division(l, d, a[0], a[1]);
		return d;
	}
	shift = v->op == SO_MUL && a[1].kind == MO_IMM ? tc_log2(a[1].imm) : -1;
	if (type == VT_S32 && shift >= 0) {
		mi(l, "shl.b32", R(d), a[0], I(shift));
		return d;
	}
	opcode = type == VT_PRED  ? plain[v->op].pred
		 : type == VT_F32 ? plain[v->op].f32
				  : plain[v->op].s32;
	if (!opcode)
		tc_fail_internal(l->c->err, "no instruction for scalar op %d of type %d", v->op,
				 type);
	mi(l, opcode, R(d), a[0], a[1]);
	return d;
}

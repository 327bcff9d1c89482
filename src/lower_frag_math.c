/* Elementwise arithmetic on fragments. */
#include "frag.h"

/*
 * Arithmetic that float16 and bfloat16 have in pairs is done in pairs: for one
 * operation the result is that of float32 arithmetic rounded once.  Everything
 * else goes through float32 with one rounding at the end, narrow integers
 * through 32 bits.  `.rn` keeps a mul and an add apart, so that results do not
 * depend on what the assembler fuses: tc.fma says it when it is wanted.
 */
struct operation {
	const char *f32, *f16x2, *bf16x2, *s32, *u32;
	const char *words; /* bitwise: any integer type, whole words */
	const char *pred;
};

static const struct operation operations[] = {
	[FO_ADD] = {"add.rn.f32", "add.rn.f16x2", "add.rn.bf16x2", "add.s32", "add.u32", NULL,
		    NULL},
	[FO_SUB] = {"sub.rn.f32", "sub.rn.f16x2", "sub.rn.bf16x2", "sub.s32", "sub.u32", NULL,
		    NULL},
	[FO_MUL] = {"mul.rn.f32", "mul.rn.f16x2", "mul.rn.bf16x2", "mul.lo.s32", "mul.lo.u32", NULL,
		    NULL},
	[FO_DIV] = {"div.full.f32", NULL, NULL, NULL, NULL, NULL, NULL},
	[FO_FLOORDIV] = {NULL, NULL, NULL, "div.s32", "div.u32", NULL, NULL},
	[FO_MOD] = {NULL, NULL, NULL, "rem.s32", "rem.u32", NULL, NULL},
	[FO_MAX] = {"max.f32", "max.f16x2", "max.bf16x2", "max.s32", "max.u32", NULL, "or.pred"},
	[FO_MIN] = {"min.f32", "min.f16x2", "min.bf16x2", "min.s32", "min.u32", NULL, "and.pred"},
	[FO_AND] = {NULL, NULL, NULL, NULL, NULL, "and.b32", "and.pred"},
	[FO_OR] = {NULL, NULL, NULL, NULL, NULL, "or.b32", "or.pred"},
	[FO_XOR] = {NULL, NULL, NULL, NULL, NULL, "xor.b32", "xor.pred"},
	[FO_NOT] = {NULL, NULL, NULL, NULL, NULL, "not.b32", "not.pred"},
	[FO_SHL] = {NULL, NULL, NULL, "shl.b32", "shl.b32", NULL, NULL},
	[FO_SHR] = {NULL, NULL, NULL, "shr.s32", "shr.u32", NULL, NULL},
	[FO_NEG] = {"neg.f32", "neg.f16x2", "neg.bf16x2", "neg.s32", "neg.s32", NULL, NULL},
	[FO_ABS] = {"abs.f32", "abs.f16x2", "abs.bf16x2", "abs.s32", "mov.b32", NULL, NULL},
	[FO_EXP2] = {"ex2.approx.ftz.f32", NULL, NULL, NULL, NULL, NULL, NULL},
	[FO_LOG2] = {"lg2.approx.f32", NULL, NULL, NULL, NULL, NULL, NULL},
	[FO_EXP] = {"ex2.approx.ftz.f32", NULL, NULL, NULL, NULL, NULL, NULL},
	[FO_LOG] = {"lg2.approx.f32", NULL, NULL, NULL, NULL, NULL, NULL},
	[FO_RSQRT] = {"rsqrt.approx.f32", NULL, NULL, NULL, NULL, NULL, NULL},
	[FO_SQRT] = {"sqrt.approx.f32", NULL, NULL, NULL, NULL, NULL, NULL},
	[FO_TANH] = {"tanh.approx.f32", NULL, NULL, NULL, NULL, NULL, NULL},
	[FO_LT] = {"setp.lt.f32", NULL, NULL, "setp.lt.s32", "setp.lt.u32", NULL, NULL},
	[FO_LE] = {"setp.le.f32", NULL, NULL, "setp.le.s32", "setp.le.u32", NULL, NULL},
	[FO_GT] = {"setp.gt.f32", NULL, NULL, "setp.gt.s32", "setp.gt.u32", NULL, NULL},
	[FO_GE] = {"setp.ge.f32", NULL, NULL, "setp.ge.s32", "setp.ge.u32", NULL, NULL},
	[FO_EQ] = {"setp.eq.f32", NULL, NULL, "setp.eq.s32", "setp.eq.u32", NULL, NULL},
	/* NaN differs from everything. */
	[FO_NE] = {"setp.neu.f32", NULL, NULL, "setp.ne.s32", "setp.ne.u32", NULL, "xor.pred"},
	[FO_WHERE] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL},
	[FO_FMA] = {"fma.rn.f32", "fma.rn.f16x2", "fma.rn.bf16x2", "mad.lo.s32", "mad.lo.u32", NULL,
		    NULL},
};

static const float log2_e = 1.44269504088896340736f, ln_2 = 0.693147180559945309417f;

static struct mopnd apply(struct low *l, const char *opcode, bool pred, const struct mopnd *x,
			  int n)
{
	struct mreg d = pred ? mi_pred(l) : mi_b32(l);
	struct mopnd o[4] = {R(d)};

	for (int i = 0; i < n; i++)
		o[i + 1] = x[i];
	mi_emit(l, opcode, o, n + 1);
	return R(d);
}

static bool is_comparison(enum frag_op op)
{
	return op >= FO_LT && op <= FO_NE;
}

/* What works on whole words of type t, NULL where elements must be taken out. */
static const char *word_opcode(enum frag_op op, enum dtype t)
{
	const struct operation *o = &operations[op];

	if (t == DT_BOOL)
		return o->pred;
	if (o->words && tc_compute_class(t) != 'f')
		return o->words;
	if (is_comparison(op))
		return NULL;
	return t == DT_F16 ? o->f16x2 : t == DT_BF16 ? o->bf16x2 : NULL;
}

static const char *element_opcode(enum frag_op op, enum dtype t)
{
	const struct operation *o = &operations[op];
	char c = tc_compute_class(t);

	return c == 'f' ? o->f32 : c == 'i' ? o->s32 : c == 'u' ? o->u32 : o->pred;
}

/* exp and log by way of base 2. */
static struct mopnd compute(struct low *l, enum frag_op op, enum dtype t, struct mopnd *x, int n)
{
	const char *opcode = element_opcode(op, t);
	struct mopnd y;

	if (op == FO_EQ && t == DT_BOOL) {
		y = apply(l, "xor.pred", true, x, 2);
		return apply(l, "not.pred", true, &y, 1);
	}
	if (!opcode)
		tc_low_fail(l, "%s is not defined for fragments of %s.", tc_frag_op_name(op),
			    tc_dtypes[t].name);
	if (op == FO_FLOORDIV || op == FO_MOD) {
		/* A constant of a fragment is written in hexadecimal. */
		struct mopnd b = x[1].kind == MO_HEX ? I((int32_t)x[1].imm) : x[1];

		return R(tc_low_floor_division(l, op == FO_FLOORDIV, t == DT_U32, x[0], b));
	}
	if (op == FO_DIV) {
		struct mreg q = mi_b32(l);

		tc_low_float_division(l, q, x[0], x[1]);
		return R(q);
	}
	if (op == FO_EXP)
		x[0] = apply(l, "mul.rn.f32", false, (struct mopnd[]){x[0], mo_f32(log2_e)}, 2);
	y = apply(l, opcode, is_comparison(op) || t == DT_BOOL, x, n);
	if (op == FO_LOG)
		y = apply(l, "mul.rn.f32", false, (struct mopnd[]){y, mo_f32(ln_2)}, 2);
	return y;
}

static void by_words(struct low *l, const char *opcode, struct frag_value *const *arg, int n,
		     struct frag_value *v)
{
	bool pairs = tc_dtype_per_word(v->dtype) > 1, pred = v->dtype == DT_BOOL;
	struct mopnd x[3];

	for (int w = 0; w < v->words; w++) {
		for (int i = 0; i < n; i++) {
			x[i] = arg[i]->word[w];
			if (pairs)
				x[i] = R(tc_word_register(l, x[i]));
		}
		v->word[w] = apply(l, opcode, pred, x, n);
	}
}

/* Elements of the words at `base`, of every operand. */
static void by_elements(struct low *l, enum frag_op op, struct frag_value *const *arg, int n,
			struct frag_value *v)
{
	enum dtype t = arg[0]->dtype;
	int per_word = tc_dtype_per_word(t);
	struct mopnd in[3][TC_MOST_PER_WORD], out[TC_MOST_PER_WORD], x[3];

	for (int base = 0; base < v->elements; base += per_word) {
		int count = v->elements - base < per_word ? v->elements - base : per_word;

		for (int i = 0; i < n; i++)
			tc_unpack_word(l, t, arg[i]->word[base / per_word], in[i], count);
		for (int e = 0; e < count; e++) {
			for (int i = 0; i < n; i++)
				x[i] = in[i][e];
			out[e] = compute(l, op, t, x, n);
			if (is_comparison(op))
				v->word[base + e] = out[e];
		}
		if (!is_comparison(op))
			v->word[base / per_word] = tc_pack_word(l, t, out, count);
	}
}

/* Values are moved, not computed with: as unsigned integers of their width. */
static void where(struct low *l, struct frag_value *const *arg, struct frag_value *v)
{
	int per_word = tc_dtype_per_word(v->dtype);
	enum dtype raw = tc_dtype_raw(v->dtype);
	struct mopnd yes[TC_MOST_PER_WORD], no[TC_MOST_PER_WORD], out[TC_MOST_PER_WORD];

	for (int base = 0; base < v->elements; base += per_word) {
		int count = v->elements - base < per_word ? v->elements - base : per_word;

		tc_unpack_word(l, raw, arg[1]->word[base / per_word], yes, count);
		tc_unpack_word(l, raw, arg[2]->word[base / per_word], no, count);
		for (int e = 0; e < count; e++) {
			struct mopnd x[3] = {yes[e], no[e], arg[0]->word[base + e]};

			out[e] = apply(l, "selp.b32", false, x, 3);
		}
		v->word[base / per_word] = tc_pack_word(l, raw, out, count);
	}
}

static void where_bool(struct low *l, struct frag_value *const *arg, struct frag_value *v)
{
	for (int w = 0; w < v->words; w++) {
		struct mopnd c = arg[0]->word[w], x[2];

		x[0] = apply(l, "and.pred", true, (struct mopnd[]){c, arg[1]->word[w]}, 2);
		c = apply(l, "not.pred", true, &c, 1);
		x[1] = apply(l, "and.pred", true, (struct mopnd[]){c, arg[2]->word[w]}, 2);
		v->word[w] = apply(l, "or.pred", true, x, 2);
	}
}

void tc_lower_elementwise(struct low *l, const struct op *op)
{
	const struct frag_elementwise_op *e = &op->u.elementwise;
	const struct distribution *d = tc_frag_distribution(l, e->result->id);
	int axis = tc_frag_plan(l)->node[e->result->id].axis, n = 0;
	struct frag_value *arg[3], *v;
	bool along[2] = {false, false};
	const char *opcode;

	tc_low_all(l);
	for (; n < 3 && e->arg[n]; n++) {
		arg[n] = tc_value_in(l, e->arg[n], d, axis);
		along[0] |= arg[n]->along[0];
		along[1] |= arg[n]->along[1];
	}
	if (!along[0] && !along[1])
		d = NULL;
	for (int i = 0; i < n; i++)
		arg[i] = tc_value_spread(l, arg[i], d, along);
	v = tc_value_new(l, d, e->result->dtype, along);
	opcode = word_opcode(e->op, arg[0]->dtype);
	if (e->op == FO_WHERE && v->dtype == DT_BOOL)
		where_bool(l, arg, v);
	else if (e->op == FO_WHERE)
		where(l, arg, v);
	else if (opcode)
		by_words(l, opcode, arg, n, v);
	else
		by_elements(l, e->op, arg, n, v);
	tc_value_define(l, e->result, v);
}

/* Elements packed into words, and values from one type to another. */
#include "frag.h"

char tc_compute_class(enum dtype t)
{
	switch (tc_dtypes[t].klass) {
	case 'F':
		return 'f';
	case 'I':
		return 'i';
	case 'B':
		return 'p';
	default:
		return 'u';
	}
}

static void split_halves(struct low *l, struct mopnd word, struct mreg half[2])
{
	half[0] = mi_b16(l);
	half[1] = mi_b16(l);
	mi(l, "mov.b32", V(half, 2), R(tc_word_register(l, word)));
}

static void unpack_f16(struct low *l, struct mopnd word, struct mopnd *out, int n)
{
	struct mreg half[2];

	split_halves(l, word, half);
	for (int i = 0; i < n; i++) {
		struct mreg d = mi_b32(l);

		mi(l, "cvt.f32.f16", R(d), R(half[i]));
		out[i] = R(d);
	}
}

/* bfloat16 is the upper half of a float32. */
static void unpack_bf16(struct low *l, struct mopnd word, struct mopnd *out, int n)
{
	for (int i = 0; i < n; i++) {
		struct mreg d = mi_b32(l);

		if (i == 0)
			mi(l, "shl.b32", R(d), word, I(16));
		else
			mi(l, "and.b32", R(d), word, mo_hex(0xffff0000u));
		out[i] = R(d);
	}
}

static void unpack_f8(struct low *l, const char *opcode, struct mopnd word, struct mopnd *out,
		      int n)
{
	struct mreg pair[2];

	split_halves(l, word, pair);
	for (int i = 0; i < n; i += 2) {
		struct mreg halves = mi_b32(l);

		mi(l, opcode, R(halves), R(pair[i / 2]));
		unpack_f16(l, R(halves), out + i, n - i < 2 ? n - i : 2);
	}
}

static void unpack_integers(struct low *l, enum dtype t, struct mopnd word, struct mopnd *out,
			    int n)
{
	int bits = tc_dtypes[t].bits;

	for (int i = 0; i < n; i++) {
		struct mreg d = mi_b32(l);

		mi(l, tc_dtypes[t].klass == 'I' ? "bfe.s32" : "bfe.u32", R(d), word, I(i * bits),
		   I(bits));
		out[i] = R(d);
	}
}

void tc_unpack_word(struct low *l, enum dtype t, struct mopnd word, struct mopnd *out, int n)
{
	switch (t) {
	case DT_F16:
		unpack_f16(l, word, out, n);
		break;
	case DT_BF16:
		unpack_bf16(l, word, out, n);
		break;
	case DT_E4M3:
		unpack_f8(l, "cvt.rn.f16x2.e4m3x2", word, out, n);
		break;
	case DT_E5M2:
		unpack_f8(l, "cvt.rn.f16x2.e5m2x2", word, out, n);
		break;
	case DT_I16:
	case DT_U16:
	case DT_I8:
	case DT_U8:
		unpack_integers(l, t, word, out, n);
		break;
	case DT_F32:
	case DT_TF32:
	case DT_I32:
	case DT_U32:
	case DT_BOOL:
		out[0] = word;
		break;
	default:
		tc_low_fail(l, "Fragments of %s are not supported.", tc_dtypes[t].name);
	}
}

static struct mopnd pack_f8(struct low *l, const char *opcode, const struct mopnd *in, int n)
{
	struct mreg d = mi_b32(l), pair[2];

	for (int i = 0; i < 2; i++) {
		pair[i] = mi_b16(l);
		mi(l, opcode, R(pair[i]), in[2 * i + 1 < n ? 2 * i + 1 : 0],
		   in[2 * i < n ? 2 * i : 0]);
	}
	mi(l, "mov.b32", R(d), V(pair, 2));
	return R(d);
}

static struct mopnd pack_bytes(struct low *l, const struct mopnd *in, int n)
{
	struct mreg d = mi_b32(l), pair[2];

	for (int i = 0; i < 2; i++) {
		pair[i] = mi_b32(l);
		mi(l, "prmt.b32", R(pair[i]), in[2 * i < n ? 2 * i : 0],
		   in[2 * i + 1 < n ? 2 * i + 1 : 0], mo_hex(0x40));
	}
	mi(l, "prmt.b32", R(d), R(pair[0]), R(pair[1]), mo_hex(0x5410));
	return R(d);
}

struct mopnd tc_pack_word(struct low *l, enum dtype t, const struct mopnd *in, int n)
{
	struct mopnd high = in[n > 1 ? 1 : 0];
	struct mreg d;

	switch (t) {
	case DT_F16:
	case DT_BF16:
		d = mi_b32(l);
		mi(l, t == DT_F16 ? "cvt.rn.f16x2.f32" : "cvt.rn.bf16x2.f32", R(d), high, in[0]);
		return R(d);
	case DT_E4M3:
		return pack_f8(l, "cvt.rn.satfinite.e4m3x2.f32", in, n);
	case DT_E5M2:
		return pack_f8(l, "cvt.rn.satfinite.e5m2x2.f32", in, n);
	case DT_TF32:
		d = mi_b32(l);
		mi(l, "cvt.rn.tf32.f32", R(d), in[0]);
		return R(d);
	case DT_I16:
	case DT_U16:
		d = mi_b32(l);
		mi(l, "prmt.b32", R(d), in[0], high, mo_hex(0x5410));
		return R(d);
	case DT_I8:
	case DT_U8:
		return pack_bytes(l, in, n);
	case DT_F32:
	case DT_I32:
	case DT_U32:
	case DT_BOOL:
		return in[0];
	default:
		tc_low_fail(l, "Fragments of %s are not supported.", tc_dtypes[t].name);
	}
}

struct mopnd tc_convert_class(struct low *l, char from, char to, struct mopnd x)
{
	struct mreg d;

	if (from == to || (from != 'f' && from != 'p' && to != 'f' && to != 'p'))
		return x;
	d = to == 'p' ? mi_pred(l) : mi_b32(l);
	if (from == 'p')
		mi(l, "selp.b32", R(d), to == 'f' ? mo_f32(1.0f) : I(1),
		   to == 'f' ? mo_f32(0.0f) : I(0), x);
	else if (to == 'p' && from == 'f')
		mi(l, "setp.neu.f32", R(d), x, mo_f32(0.0f));
	else if (to == 'p')
		mi(l, "setp.ne.s32", R(d), x, I(0));
	else if (to == 'f')
		mi(l, from == 'i' ? "cvt.rn.f32.s32" : "cvt.rn.f32.u32", R(d), x);
	else
		mi(l, to == 'i' ? "cvt.rzi.s32.f32" : "cvt.rzi.u32.f32", R(d), x);
	return R(d);
}

/* ---- astype ------------------------------------------------------------------------------- */

/* Float to a narrow integer saturates; integers among themselves wrap. */
static struct mopnd saturate(struct low *l, enum dtype t, struct mopnd x)
{
	bool is_signed = tc_dtypes[t].klass == 'I';
	int bits = tc_dtypes[t].bits;
	struct mreg low = mi_b32(l), d = mi_b32(l);

	mi(l, "max.s32", R(low), x, I(is_signed ? -(1 << (bits - 1)) : 0));
	mi(l, "min.s32", R(d), R(low), I((1 << (is_signed ? bits - 1 : bits)) - 1));
	return R(d);
}

static struct mopnd cast_element(struct low *l, enum dtype from, enum dtype to, struct mopnd x)
{
	char a = tc_compute_class(from), b = tc_compute_class(to);

	if (a == 'f' && b != 'f' && b != 'p' && tc_dtypes[to].bits < 32)
		return saturate(l, to, tc_convert_class(l, 'f', 'i', x));
	return tc_convert_class(l, a, b, x);
}

/* The same bits in both types. */
static bool same_words(enum dtype a, enum dtype b)
{
	const struct dtype_info *x = &tc_dtypes[a], *y = &tc_dtypes[b];

	if (a == b || (a == DT_TF32 && b == DT_F32))
		return true;
	return x->bits == y->bits && (x->klass == 'I' || x->klass == 'U') &&
	       (y->klass == 'I' || y->klass == 'U');
}

static bool is_f8(enum dtype t)
{
	return t == DT_E4M3 || t == DT_E5M2;
}

/* float16 to and from float8 goes two at a time, without float32. */
static void cast_f16_f8(struct low *l, const struct frag_value *v, struct frag_value *w)
{
	bool narrow = v->dtype == DT_F16;
	enum dtype f8 = narrow ? w->dtype : v->dtype;
	struct mreg pair[2];

	for (int i = 0; i < (narrow ? w->words : v->words); i++) {
		if (!narrow)
			split_halves(l, v->word[i], pair);
		for (int j = 0; j < 2; j++) {
			int word = 2 * i + j;
			int last = (narrow ? v->words : w->words) - 1;

			if (narrow) {
				pair[j] = mi_b16(l);
				mi(l,
				   f8 == DT_E4M3 ? "cvt.rn.satfinite.e4m3x2.f16x2"
						 : "cvt.rn.satfinite.e5m2x2.f16x2",
				   R(pair[j]),
				   R(tc_word_register(l, v->word[word < last ? word : last])));
			} else if (word <= last) {
				struct mreg d = mi_b32(l);

				mi(l, f8 == DT_E4M3 ? "cvt.rn.f16x2.e4m3x2" : "cvt.rn.f16x2.e5m2x2",
				   R(d), R(pair[j]));
				w->word[word] = R(d);
			}
		}
		if (narrow) {
			struct mreg d = mi_b32(l);

			mi(l, "mov.b32", R(d), V(pair, 2));
			w->word[i] = R(d);
		}
	}
}

static void cast_elements(struct low *l, const struct frag_value *v, struct frag_value *w)
{
	int per_in = tc_dtype_per_word(v->dtype), per_out = tc_dtype_per_word(w->dtype);
	int step = per_in > per_out ? per_in : per_out;
	struct mopnd x[4];

	for (int base = 0; base < v->elements; base += step) {
		int n = v->elements - base < step ? v->elements - base : step;

		for (int i = 0; i < n; i += per_in)
			tc_unpack_word(l, v->dtype, v->word[(base + i) / per_in], x + i,
				       n - i < per_in ? n - i : per_in);
		for (int i = 0; i < n; i++)
			x[i] = cast_element(l, v->dtype, w->dtype, x[i]);
		for (int i = 0; i < n; i += per_out)
			w->word[(base + i) / per_out] =
				tc_pack_word(l, w->dtype, x + i, n - i < per_out ? n - i : per_out);
	}
}

void tc_lower_cast(struct low *l, const struct op *op)
{
	const struct frag *result = op->u.cast.result;
	const struct distribution *d = tc_frag_distribution(l, result->id);
	struct frag_value *v, *w;

	tc_low_all(l);
	v = tc_value_in(l, op->u.cast.arg, d, tc_frag_plan(l)->node[result->id].axis);
	if (same_words(v->dtype, result->dtype)) {
		w = tc_arena_alloc(l->arena, sizeof *w);
		*w = *v;
		w->dtype = result->dtype;
	} else {
		w = tc_value_new(l, v->distribution ? d : NULL, result->dtype, v->along);
		if ((v->dtype == DT_F16 && is_f8(w->dtype)) ||
		    (is_f8(v->dtype) && w->dtype == DT_F16))
			cast_f16_f8(l, v, w);
		else
			cast_elements(l, v, w);
	}
	tc_value_define(l, result, w);
}

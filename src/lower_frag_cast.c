/* Fragments from one type to another. */
#include "frag.h"

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
			tc_split_word(l, v->word[i], pair, 2);
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

/* Signed ones count from -8, so that all are unsigned. */
static struct mreg biased(struct low *l, enum dtype t, struct mopnd word)
{
	struct mreg x;

	if (t == DT_U4)
		return tc_word_register(l, word);
	x = mi_b32(l);
	mi(l, "xor.b32", R(x), R(tc_word_register(l, word)), mo_hex(0x88888888));
	return x;
}

static struct mreg shifted(struct low *l, struct mreg x, int bits)
{
	struct mreg d;

	if (!bits)
		return x;
	d = mi_b32(l);
	mi(l, "shr.u32", R(d), R(x), I(bits));
	return d;
}

/* With the bits of 2^23 above it, an unsigned integer is that much too large. */
static void cast_nibbles_to_f32(struct low *l, const struct frag_value *v, struct frag_value *w)
{
	struct mopnd least = mo_f32(v->dtype == DT_I4 ? 8388616.0f : 8388608.0f);

	for (int i = 0; i < v->words; i++) {
		struct mreg x = biased(l, v->dtype, v->word[i]);

		for (int j = 0; j < TC_MOST_PER_WORD && 8 * i + j < w->words; j++) {
			struct mreg sum = mi_b32(l), d = mi_b32(l);

			mi(l, "lop3.b32", R(sum), R(shifted(l, x, 4 * j)), mo_hex(0xf),
			   mo_hex(0x4b000000), mo_hex(0xea));
			mi(l, "sub.rn.f32", R(d), R(sum), least);
			w->word[8 * i + j] = R(d);
		}
	}
}

/*
 * Integers of 4 bits to float16 and bfloat16, four pairs at a time: with the bits of 1024 (128 in
 * bfloat16) above it, an unsigned one is that much too large.
 */
static void cast_nibbles_to_half(struct low *l, const struct frag_value *v, struct frag_value *w)
{
	bool is_signed = v->dtype == DT_I4, f16 = w->dtype == DT_F16;
	unsigned one = f16 ? 0x64006400 : 0x43004300;
	struct mopnd least = R(tc_word_register(l, mo_hex(is_signed ? one | 0x00080008 : one)));

	for (int i = 0; i < v->words; i++) {
		struct mreg x = biased(l, v->dtype, v->word[i]), pair[4];

		/* Element j and, in the upper half, element j + 4. */
		for (int j = 0; j < 4; j++) {
			struct mreg sum = mi_b32(l);

			pair[j] = mi_b32(l);
			mi(l, "lop3.b32", R(sum), R(shifted(l, x, 4 * j)), mo_hex(0x000f000f),
			   mo_hex(one), mo_hex(0xea));
			mi(l, f16 ? "sub.rn.f16x2" : "sub.rn.bf16x2", R(pair[j]), R(sum), least);
		}
		for (int j = 0; j < 4 && 4 * i + j < w->words; j++) {
			struct mreg d = mi_b32(l);

			mi(l, "prmt.b32", R(d), R(pair[j % 2 * 2]), R(pair[j % 2 * 2 + 1]),
			   mo_hex(j < 2 ? 0x5410 : 0x7632));
			w->word[4 * i + j] = R(d);
		}
	}
}

/* To integers of 8 bits: the even elements and the odd ones, then one of each in turn. */
static void cast_nibbles_to_bytes(struct low *l, const struct frag_value *v, struct frag_value *w)
{
	for (int i = 0; i < v->words; i++) {
		struct mreg word = tc_word_register(l, v->word[i]);
		struct mreg even = mi_b32(l), high = mi_b32(l), odd = mi_b32(l);

		mi(l, "and.b32", R(even), R(word), mo_hex(0x0f0f0f0f));
		mi(l, "shr.u32", R(high), R(word), I(4));
		mi(l, "and.b32", R(odd), R(high), mo_hex(0x0f0f0f0f));
		for (int j = 0; j < 2 && 2 * i + j < w->words; j++) {
			struct mreg d = mi_b32(l), sign, ones, x;

			mi(l, "prmt.b32", R(d), R(even), R(odd), mo_hex(j ? 0x7362 : 0x5140));
			w->word[2 * i + j] = R(d);
			if (v->dtype == DT_U4)
				continue;
			/* 8 * 30 is 0xf0: no byte reaches into the next. */
			sign = mi_b32(l);
			ones = mi_b32(l);
			x = mi_b32(l);
			mi(l, "and.b32", R(sign), R(d), mo_hex(0x08080808));
			mi(l, "mul.lo.u32", R(ones), R(sign), I(30));
			mi(l, "or.b32", R(x), R(d), R(ones));
			w->word[2 * i + j] = R(x);
		}
	}
}

static void cast_e2m1_to_f16(struct low *l, const struct frag_value *v, struct frag_value *w)
{
	struct mreg byte[4];

	for (int i = 0; i < w->words; i++) {
		if (i % 4 == 0)
			tc_split_word(l, v->word[i / 4], byte, 4);
		w->word[i] = R(tc_halves_of_e2m1(l, byte[i % 4]));
	}
}

static bool is_nibble(enum dtype t)
{
	return t == DT_I4 || t == DT_U4;
}

static void cast_elements(struct low *l, const struct frag_value *v, struct frag_value *w)
{
	int per_in = tc_dtype_per_word(v->dtype), per_out = tc_dtype_per_word(w->dtype);
	int step = per_in > per_out ? per_in : per_out;
	struct mopnd x[TC_MOST_PER_WORD];

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
		else if (is_nibble(v->dtype) && w->dtype == DT_F32)
			cast_nibbles_to_f32(l, v, w);
		else if (is_nibble(v->dtype) && (w->dtype == DT_F16 || w->dtype == DT_BF16))
			cast_nibbles_to_half(l, v, w);
		else if (is_nibble(v->dtype) && (w->dtype == DT_I8 || w->dtype == DT_U8))
			cast_nibbles_to_bytes(l, v, w);
		else if (v->dtype == DT_E2M1 && w->dtype == DT_F16)
			cast_e2m1_to_f16(l, v, w);
		else
			cast_elements(l, v, w);
	}
	tc_value_define(l, result, w);
}

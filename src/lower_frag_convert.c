/* Elements packed into words, and taken out of them. */
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

enum dtype tc_dtype_raw(enum dtype t)
{
	switch (tc_dtypes[t].bits) {
	case 32:
		return DT_U32;
	case 16:
		return DT_U16;
	case 8:
		return DT_U8;
	default:
		return DT_U4;
	}
}

void tc_split_word(struct low *l, struct mopnd word, struct mreg *part, int n)
{
	for (int i = 0; i < n; i++)
		part[i] = n == 2 ? mi_b16(l) : mi_b8(l);
	mi(l, "mov.b32", V(part, n), R(tc_word_register(l, word)));
}

static void unpack_f16(struct low *l, struct mopnd word, struct mopnd *out, int n)
{
	struct mreg half[2];

	tc_split_word(l, word, half, 2);
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

	tc_split_word(l, word, pair, 2);
	for (int i = 0; i < n; i += 2) {
		struct mreg halves = mi_b32(l);

		mi(l, opcode, R(halves), R(pair[i / 2]));
		unpack_f16(l, R(halves), out + i, n - i < 2 ? n - i : 2);
	}
}

static void check_e2m1(struct low *l)
{
	if (l->c->target->sm < 100)
		tc_low_fail(
			l,
			"%s does not convert from or to float4_e2m1fn, which only Blackwell's "
			"instructions know; loads, stores and copies of it are possible.\n  What "
			"would fit: int4 with :astype, or a table in SMEM.",
			l->c->target->name);
}

/* Two elements of a byte of four to a word of float16. */
struct mreg tc_halves_of_e2m1(struct low *l, struct mreg byte)
{
	struct mreg d = mi_b32(l);

	check_e2m1(l);
	mi(l, "cvt.rn.f16x2.e2m1x2", R(d), R(byte));
	return d;
}

static void unpack_e2m1(struct low *l, struct mopnd word, struct mopnd *out, int n)
{
	struct mreg byte[4];

	tc_split_word(l, word, byte, 4);
	for (int i = 0; i < n; i += 2)
		unpack_f16(l, R(tc_halves_of_e2m1(l, byte[i / 2])), out + i, n - i < 2 ? n - i : 2);
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
	case DT_I4:
	case DT_U4:
		unpack_integers(l, t, word, out, n);
		break;
	case DT_E2M1:
		unpack_e2m1(l, word, out, n);
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

/* The low 4 bits of each. */
static struct mopnd pack_nibbles(struct low *l, const struct mopnd *in, int n)
{
	struct mreg d = tc_word_register(l, in[0]), next;

	for (int i = 1; i < TC_MOST_PER_WORD; i++) {
		next = mi_b32(l);
		mi(l, "bfi.b32", R(next), R(tc_word_register(l, in[i < n ? i : 0])), R(d), I(4 * i),
		   I(4));
		d = next;
	}
	return R(d);
}

static struct mopnd pack_e2m1(struct low *l, const struct mopnd *in, int n)
{
	struct mreg d = mi_b32(l), byte[4];

	check_e2m1(l);
	for (int i = 0; i < 4; i++) {
		byte[i] = mi_b8(l);
		mi(l, "cvt.rn.satfinite.e2m1x2.f32", R(byte[i]), in[2 * i + 1 < n ? 2 * i + 1 : 0],
		   in[2 * i < n ? 2 * i : 0]);
	}
	mi(l, "mov.b32", R(d), V(byte, 4));
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
	case DT_I4:
	case DT_U4:
		return pack_nibbles(l, in, n);
	case DT_E2M1:
		return pack_e2m1(l, in, n);
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

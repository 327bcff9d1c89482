/* Instruction descriptors of tcgen05.mma: bits and legality (2.3, 2.4). */
#include "tensor.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const kind_names[] = {"f16",      "tf32", "f8f6f4",  "i8",
					 "mxf8f6f4", "mxf4", "mxf4nvf4"};

static const struct {
	const char *name;
	int bits;
} elements[] = {
	[EMU_ELEMENT_F16] = {"f16", 16},   [EMU_ELEMENT_BF16] = {"bf16", 16},
	[EMU_ELEMENT_TF32] = {"tf32", 32}, [EMU_ELEMENT_E4M3] = {"e4m3", 8},
	[EMU_ELEMENT_E5M2] = {"e5m2", 8},  [EMU_ELEMENT_E2M3] = {"e2m3", 6},
	[EMU_ELEMENT_E3M2] = {"e3m2", 6},  [EMU_ELEMENT_E2M1] = {"e2m1", 4},
	[EMU_ELEMENT_S8] = {"s8", 8},      [EMU_ELEMENT_U8] = {"u8", 8},
	[EMU_ELEMENT_S4] = {"s4", 4},      [EMU_ELEMENT_U4] = {"u4", 4},
	[EMU_ELEMENT_B1] = {"b1", 1},
};

const char *emu_kind_name(enum emu_kind kind)
{
	return kind_names[kind];
}

const char *emu_element_name(enum emu_element element)
{
	return elements[element].name;
}

int emu_element_bits(enum emu_element element)
{
	return elements[element].bits;
}

/* What every function below passes on. */
struct decoding {
	const struct emu_mma_form *form;
	uint32_t bits;
	struct emu_idesc *out;
	struct emu_error *error;
};

__attribute__((format(printf, 2, 3))) static bool fail(const struct decoding *d, const char *format,
						       ...)
{
	va_list arguments;
	struct emu_error *error = d->error;
	int length = snprintf(error->text, sizeof error->text,
			      "instruction descriptor 0x%08x for kind::%s: ", d->bits,
			      kind_names[d->form->kind]);

	va_start(arguments, format);
	vsnprintf(error->text + length, sizeof error->text - (size_t)length, format, arguments);
	va_end(arguments);
	error->line = 0;
	return false;
}

static uint32_t field(const struct decoding *d, int low, int count)
{
	return d->bits >> low & ((1u << count) - 1);
}

static bool block_scaled(enum emu_kind kind)
{
	return kind >= EMU_KIND_MXF8F6F4;
}

static bool four_bit(enum emu_kind kind)
{
	return kind >= EMU_KIND_MXF4;
}

/* ---- element types ---------------------------------------------------------- */

static bool element_type(const struct decoding *d, const char *which, uint32_t code,
			 enum emu_element *element)
{
	static const int narrow[8] = {EMU_ELEMENT_E4M3, EMU_ELEMENT_E5M2, -1, EMU_ELEMENT_E2M3,
				      EMU_ELEMENT_E3M2, EMU_ELEMENT_E2M1, -1, -1};

	switch (d->form->kind) {
	case EMU_KIND_F16:
		if (code > 1)
			return fail(d, "%s type %u; 0 is f16, 1 is bf16", which, code);
		*element = code ? EMU_ELEMENT_BF16 : EMU_ELEMENT_F16;
		return true;
	case EMU_KIND_TF32:
		*element = EMU_ELEMENT_TF32;
		return code == 2 || fail(d, "%s type %u; it must be 2 (tf32)", which, code);
	case EMU_KIND_I8:
		if (code > 1)
			return fail(d, "%s type %u; 0 is u8, 1 is s8", which, code);
		*element = code ? EMU_ELEMENT_S8 : EMU_ELEMENT_U8;
		return true;
	case EMU_KIND_F8F6F4:
	case EMU_KIND_MXF8F6F4:
		if (narrow[code] < 0)
			return fail(d, "%s type %u; 0 is e4m3, 1 e5m2, 3 e2m3, 4 e3m2, 5 e2m1",
				    which, code);
		*element = (enum emu_element)narrow[code];
		return true;
	default:
		*element = EMU_ELEMENT_E2M1;
		return code == 1 || fail(d, "%s type %u; it must be 1 (e2m1)", which, code);
	}
}

static bool accumulator_type(const struct decoding *d)
{
	uint32_t code = field(d, 4, 2);
	enum emu_kind kind = d->form->kind;

	if (kind == EMU_KIND_I8) {
		d->out->accumulator = EMU_ACCUMULATE_S32;
		return code == 2 || fail(d, "D type %u; it must be 2 (s32)", code);
	}
	if (code > 1 || (kind == EMU_KIND_TF32 && code != 1))
		return fail(d, "D type %u; %s", code,
			    kind == EMU_KIND_TF32 ? "it must be 1 (f32)" : "0 is f16, 1 is f32");
	d->out->accumulator = code ? EMU_ACCUMULATE_F32 : EMU_ACCUMULATE_F16;
	if (!code && d->out->a != EMU_ELEMENT_F16 && kind == EMU_KIND_F16)
		return fail(d, "bf16 operands need an f32 accumulator (D type 1)");
	return true;
}

/* ---- shape ------------------------------------------------------------------- */

static int logical_k(const struct decoding *d)
{
	static const int k[] = {16, 8, 32, 32, 32, 64, 64};
	int dense = k[d->form->kind];

	if (four_bit(d->form->kind) && field(d, 31, 1))
		return 96;
	return d->form->sparse ? 2 * dense : dense;
}

static bool shape_weight_stationary(const struct decoding *d, int m, int n)
{
	if (m != 32 && m != 64 && m != 128)
		return fail(d, "M = %d; .ws takes 32, 64 or 128", m);
	if (n != 64 && n != 128 && (n != 256 || d->form->sparse))
		return fail(d, "N = %d; .ws takes 64 or 128%s", n,
			    d->form->sparse ? "" : " or 256");
	return true;
}

static bool shape_one(const struct decoding *d, int m, int n)
{
	enum emu_kind kind = d->form->kind;

	if (m != 128 && (m != 64 || block_scaled(kind)))
		return fail(d, "M = %d; cta_group::1 takes %s128", m,
			    block_scaled(kind) ? "" : "64 or ");
	if (n < 8 || n > 256)
		return fail(d, "N = %d; 8..256 in steps of 8 are possible", n);
	if (kind == EMU_KIND_I8 && n > 32 && n % 16)
		return fail(d, "N = %d; over 32 it must be a multiple of 16 for this kind", n);
	return true;
}

static bool shape_pair(const struct decoding *d, int m, int n)
{
	enum emu_kind kind = d->form->kind;
	int step = kind == EMU_KIND_I8 ? 32 : 16;

	if (m != 128 && m != 256)
		return fail(d, "M = %d; cta_group::2 takes 128 or 256", m);
	if (m == 128 && block_scaled(kind) && d->form->sparse)
		return fail(d, "M = 128; sparse block-scaled kinds take 256 in cta_group::2");
	if (n < step || n > 256 || n % step)
		return fail(d, "N = %d; cta_group::2 takes %d..256 in steps of %d", n, step, step);
	return true;
}

static bool shape(const struct decoding *d)
{
	int m = block_scaled(d->form->kind) ? (int)field(d, 27, 2) * 128
					    : (int)field(d, 24, 5) * 16;
	int n = (int)field(d, 17, 6) * 8;

	d->out->m = m;
	d->out->n = n;
	d->out->k = logical_k(d);
	if (d->form->weight_stationary)
		return shape_weight_stationary(d, m, n);
	return d->form->cta_group == 2 ? shape_pair(d, m, n) : shape_one(d, m, n);
}

static bool transposes(const struct decoding *d)
{
	struct emu_idesc *out = d->out;

	out->transpose_a = field(d, 15, 1);
	out->transpose_b = field(d, 16, 1);
	if (out->transpose_a && d->form->a_in_tmem)
		return fail(d, "A in tensor memory is K-major: bit 15 must be 0");
	if (four_bit(d->form->kind) && (out->transpose_a || out->transpose_b))
		return fail(d, "this kind takes K-major operands only: bits 15 and 16 must be 0");
	if ((out->transpose_a && elements[out->a].bits < 8) ||
	    (out->transpose_b && elements[out->b].bits < 8))
		return fail(d, "6-bit and 4-bit operands must be K-major (bits 15, 16)");
	if (out->transpose_b && elements[out->b].bits == 8 &&
	    out->n % (d->form->cta_group == 2 ? 32 : 16))
		return fail(d, "N = %d; an MN-major 8-bit B needs a multiple of %d", out->n,
			    d->form->cta_group == 2 ? 32 : 16);
	return true;
}

/* ---- the two families ---------------------------------------------------------- */

static bool decode_plain(const struct decoding *d)
{
	struct emu_idesc *out = d->out;
	enum emu_kind kind = d->form->kind;

	if (field(d, 6, 1) || field(d, 23, 1) || field(d, 29, 1))
		return fail(d, "bits 6, 23 and 29 are reserved and must be 0");
	if (!d->form->weight_stationary && field(d, 30, 2))
		return fail(d, "bits 30-31 (reuse of B) belong to .ws and must be 0");
	if (d->form->sparse && field(d, 0, 2) && kind != EMU_KIND_F16 && kind != EMU_KIND_TF32)
		return fail(d, "the sparsity selector (bits 0-1) must be 0 for this kind");
	out->saturate = field(d, 3, 1);
	if (out->saturate && kind != EMU_KIND_I8)
		return fail(d, "saturation (bit 3) exists for kind::i8 only");
	out->negate_a = field(d, 13, 1);
	out->negate_b = field(d, 14, 1);
	if (kind == EMU_KIND_I8 && (out->negate_a || out->negate_b))
		return fail(d, "kind::i8 cannot negate: bits 13 and 14 must be 0");
	out->max_shift = field(d, 30, 2) ? 4 << field(d, 30, 2) : 0;
	return element_type(d, "A", field(d, 7, 3), &out->a) &&
	       element_type(d, "B", field(d, 10, 3), &out->b) && accumulator_type(d) && shape(d) &&
	       transposes(d);
}

static bool scales(const struct decoding *d)
{
	struct emu_idesc *out = d->out;
	int vector = d->form->scale_vector;
	int step = out->k == 96 ? (vector == 4 ? 2 : 1) : vector;

	out->scale_ue4m3 = !field(d, 23, 1);
	out->scale_b_id = (int)field(d, 4, 2);
	out->scale_a_id = (int)field(d, 29, 2);
	if (out->scale_ue4m3 && d->form->kind != EMU_KIND_MXF4NVF4)
		return fail(d, "the scale type (bit 23) must be 1 (ue8m0)");
	if (out->scale_a_id % step || out->scale_b_id % step)
		return fail(d,
			    "scale factor ids %d (A) and %d (B); with this scale vector size "
			    "they must be %s",
			    out->scale_a_id, out->scale_b_id, step == 4 ? "0" : "0 or 2");
	return true;
}

static bool decode_block_scaled(const struct decoding *d)
{
	struct emu_idesc *out = d->out;
	bool narrow = four_bit(d->form->kind);

	if (field(d, 3, 1) || field(d, 6, 1) || field(d, 24, 3) || (narrow && field(d, 12, 1)) ||
	    (!narrow && field(d, 31, 1)))
		return fail(d, "bits 3, 6, %s and 24-26 are reserved and must be 0",
			    narrow ? "12" : "31");
	if (field(d, 0, 2) && d->form->sparse)
		return fail(d, "the sparsity selector (bits 0-1) must be 0 for this kind");
	if (narrow && field(d, 31, 1) && !d->form->k96_allowed)
		return fail(d, "K = 96 (bit 31) exists on sm_103a only");
	if (narrow && field(d, 31, 1) && d->form->sparse)
		return fail(d, "K = 96 (bit 31) does not exist for sparse A");
	out->saturate = false;
	out->max_shift = 0;
	out->accumulator = EMU_ACCUMULATE_F32;
	out->negate_a = field(d, 13, 1);
	out->negate_b = field(d, 14, 1);
	return element_type(d, "A", field(d, 7, 3), &out->a) &&
	       element_type(d, "B", field(d, 10, narrow ? 2 : 3), &out->b) && shape(d) &&
	       transposes(d) && scales(d);
}

bool emu_idesc_decode(const struct emu_mma_form *form, uint32_t bits, struct emu_idesc *idesc,
		      struct emu_error *error)
{
	struct decoding d = {form, bits, idesc, error};

	*idesc = (struct emu_idesc){0};
	idesc->selector = (int)field(&d, 0, 2);
	if (field(&d, 2, 1) != form->sparse)
		return fail(&d, form->sparse ? "the sparse bit (2) is 0, but the instruction is .sp"
					     : "the sparse bit (2) is set, but the instruction has "
					       "no .sp");
	if (!form->sparse && idesc->selector)
		return fail(&d, "bits 0-1 must be 0 without .sp");
	return block_scaled(form->kind) ? decode_block_scaled(&d) : decode_plain(&d);
}

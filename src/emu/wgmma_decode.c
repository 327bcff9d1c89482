/* Decoding of wgmma: shapes, types and operands (7). */
#include "wgmma.h"

#include <stdio.h>

/* Types that go together, and D's. */
static bool check_types(struct emu_decode *decode, struct wgmma_form *form, enum emu_type d)
{
	bool half = form->a == EMU_ELEMENT_F16 || form->a == EMU_ELEMENT_E4M3 ||
		    form->a == EMU_ELEMENT_E5M2;

	if (!emu_elements_agree(form->a, form->b) || emu_element_bits(form->a) == 4)
		return emu_reject(decode, "the types .%s and .%s do not go together",
				  emu_element_name(form->a), emu_element_name(form->b));
	if (emu_element_integer(form->a) ? d != EMU_T_S32
					 : d != EMU_T_F32 && (d != EMU_T_F16 || !half))
		return emu_reject(decode, "D cannot be .%s for .%s operands", emu_types[d].text,
				  emu_element_name(form->a));
	form->accumulator = d == EMU_T_S32   ? EMU_ACCUMULATE_S32
			    : d == EMU_T_F32 ? EMU_ACCUMULATE_F32
					     : EMU_ACCUMULATE_F16;
	return true;
}

static bool take_form(struct emu_decode *decode, struct wgmma_form *form)
{
	const char *shape = emu_take_prefix(decode, "m64n");
	enum emu_type d, a, b;
	int k;

	if (!shape || sscanf(shape, "%dk%d", &form->n, &form->k) != 2)
		return emu_reject(decode, "the shape is missing: .m64nNkK");
	form->sparse = emu_take(decode, "sp");
	form->saturate = emu_take(decode, "satfinite");
	d = emu_take_type(decode);
	a = emu_take_type(decode);
	b = emu_take_type(decode);
	if (!emu_element_of(a, &form->a) || !emu_element_of(b, &form->b))
		return emu_reject(decode, "the operand types .%s and .%s are not supported",
				  emu_types[a].text, emu_types[b].text);
	if (!check_types(decode, form, d))
		return false;
	k = form->sparse ? 512 / emu_element_bits(form->a) : 256 / emu_element_bits(form->a);
	if (form->a == EMU_ELEMENT_B1 && (form->sparse || form->saturate ||
					  !emu_take(decode, "and") || !emu_take(decode, "popc")))
		return emu_reject(decode, "single bits are .and.popc, dense and not .satfinite");
	if (form->k != k)
		return emu_reject(decode, "K must be %d for .%s", k, emu_element_name(form->a));
	if (form->n < 8 || form->n > 256 || form->n % 8 ||
	    (emu_element_integer(form->a) && form->n > 24 && form->n % 16))
		return emu_reject(decode, "N = %d; %s", form->n,
				  emu_element_integer(form->a)
					  ? "8, 16, 24, 32, 48 ... 256 are possible"
					  : "8..256 in steps of 8 are possible");
	return true;
}

/* Metadata, and which threads of a quad hold it. */
static bool want_metadata(struct emu_decode *decode, struct wgmma_form *form)
{
	int threads = emu_sparse_threads(emu_sparse_span(form->a), form->k);

	form->scale = form->sparse ? 5 : 3;
	if (!form->sparse)
		return true;
	if (!emu_want_register(decode, 3, 32) || !emu_want_immediate(decode, 4, 0, 4 / threads - 1))
		return false;
	form->selector = (int)decode->ins->operands[4].value;
	return true;
}

/* scale-d, then the immediates that the types have. */
static bool take_tail(struct emu_decode *decode, struct wgmma_form *form)
{
	struct emu_ins *ins = decode->ins;
	bool halves = emu_element_bits(form->a) == 16;
	int scales = emu_element_integer(form->a) ? 0 : 2, at = form->scale;
	int majors = !halves ? 0 : form->a_in_registers ? 1 : 2, want = at + 1 + scales + majors;

	if (!emu_want_operands(decode, want, want))
		return false;
	if (ins->operands[at].kind == EMU_O_IMMEDIATE ? !emu_want_immediate(decode, at, 0, 1)
						      : !emu_want_predicate(decode, at))
		return false;
	at++;
	for (int i = at; i < at + scales; i++) {
		if (!emu_want_immediate(decode, i, -1, 1))
			return false;
		if (ins->operands[i].value == 0)
			return emu_reject(decode, "imm-scale must be 1 or -1");
	}
	for (int i = at + scales; i < want; i++)
		if (!emu_want_immediate(decode, i, 0, 1))
			return false;
	form->negate_a = scales && ins->operands[at].value < 0;
	form->negate_b = scales && ins->operands[at + 1].value < 0;
	form->transpose_a = majors == 2 && ins->operands[at + 2].value;
	form->transpose_b = majors && ins->operands[want - 1].value;
	return true;
}

static bool decode_mma(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct wgmma_form *form = emu_decode_extra(decode, sizeof *form);
	int d;

	if (!form || !emu_take_aligned(decode) || !take_form(decode, form))
		return false;
	ins->extra = form;
	ins->flags |= EMU_I_PENDING_WGMMA;
	form->a_in_registers = ins->operand_count > 1 && ins->operands[1].kind == EMU_O_VECTOR;
	d = form->accumulator == EMU_ACCUMULATE_F16 ? form->n / 4 : form->n / 2;
	if (!want_metadata(decode, form) || !take_tail(decode, form) ||
	    !emu_want_vector(decode, 0, d, 32) ||
	    !(form->a_in_registers ? emu_want_vector(decode, 1, 4, 32)
				   : emu_want_value(decode, 1, 64)) ||
	    !emu_want_value(decode, 2, 64))
		return false;
	emu_results(ins, 1);
	ins->read |= 1; /* D is C as well */
	return true;
}

static bool decode_plain(struct emu_decode *decode)
{
	return emu_take_aligned(decode) && emu_want_operands(decode, 0, 0);
}

static bool decode_wait(struct emu_decode *decode)
{
	decode->ins->flags |= EMU_I_AWAIT_WGMMA;
	emu_results(decode->ins, 0);
	return emu_take_aligned(decode) && emu_want_operands(decode, 1, 1) &&
	       emu_want_immediate(decode, 0, 0, INT32_MAX);
}

static const struct emu_opcode rows[] = {
	{"wgmma.fence", decode_plain, emu_wgmma_fence, EMU_P_SM90A},
	{"wgmma.mma_async", decode_mma, emu_wgmma_mma, EMU_P_SM90A},
	{"wgmma.commit_group", decode_plain, emu_wgmma_commit, EMU_P_SM90A},
	{"wgmma.wait_group", decode_wait, emu_wgmma_wait, EMU_P_NO_RESULT | EMU_P_SM90A},
};

EMU_OPCODE_TABLE(wgmma, rows);

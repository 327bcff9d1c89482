/* mma.sync: the matrix multiplication of one warp, 16 rows by 8 columns. */
#include "mma.h"

#include "number.h"

#include <stdio.h>

enum {
	columns = 8
};

struct warp_mma_form {
	int k, k_bytes;
	enum emu_element a, b;
	enum emu_accumulator accumulator; /* of D and C alike, except: */
	bool d_half, c_half, saturate;
};

/* Register j of A: rows g and g + 8, then the next 16 bytes of K; of B: 16 bytes each. */
static void load_a(struct emu_warp *warp, const struct emu_operand *operand, int k_bytes,
		   uint8_t *raw)
{
	for (int j = 0; j < k_bytes / 8; j++) {
		const uint32_t *row = emu_row32(warp, emu_item(operand, j)->ref);
		for (int lane = 0; lane < EMU_LANES; lane++)
			memcpy(raw + ((lane >> 2) + 8 * (j & 1)) * k_bytes + 4 * (lane & 3) +
				       16 * (j >> 1),
			       &row[lane], 4);
	}
}

static void load_b(struct emu_warp *warp, const struct emu_operand *operand, int k_bytes,
		   uint8_t *raw)
{
	for (int j = 0; j < k_bytes / 16; j++) {
		const uint32_t *row = emu_row32(warp, emu_item(operand, j)->ref);
		for (int lane = 0; lane < EMU_LANES; lane++)
			memcpy(raw + (lane >> 2) * k_bytes + 4 * (lane & 3) + 16 * j, &row[lane],
			       4);
	}
}

static int place(int i, int lane)
{
	return (2 * (lane & 3) + (i & 1)) * EMU_GEMM_ROWS + (lane >> 2) + 8 * (i >> 1);
}

static void load_c(struct emu_warp *warp, const struct emu_operand *operand, bool half_width,
		   float *tile)
{
	for (int i = 0; i < 4; i++) {
		const uint32_t *row =
			emu_row32(warp, emu_item(operand, half_width ? i / 2 : i)->ref);
		for (int lane = 0; lane < EMU_LANES; lane++)
			tile[place(i, lane)] =
				half_width ? emu_f16_to_f32((uint16_t)(row[lane] >> 16 * (i & 1)))
					   : emu_f32_of_bits(row[lane]);
	}
}

static void store_d(struct emu_warp *warp, const struct emu_operand *operand, bool half_width,
		    const float *tile, uint32_t mask)
{
	for (int i = 0; i < 4; i += half_width ? 2 : 1)
		EMU_FOR_LANES(lane, mask)
		{
			float value = tile[place(i, (int)lane)];
			uint32_t word = emu_bits_of_f32(value);
			if (half_width)
				word = emu_f16_from_f32(value) |
				       (uint32_t)emu_f16_from_f32(tile[place(i + 1, (int)lane)])
					       << 16;
			emu_set_value(warp, emu_item(operand, half_width ? i / 2 : i), (int)lane,
				      word);
		}
}

static enum emu_step execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct warp_mma_form *form = ins->extra;
	float a_rows[EMU_GEMM_ROWS * 32], a[32 * EMU_GEMM_ROWS], b[columns * 32];
	float tile[columns * EMU_GEMM_ROWS];
	uint8_t raw[EMU_GEMM_ROWS * 32];
	struct emu_adder adder = {25, 23, form->d_half, form->a, form->b};
	bool integer = form->accumulator == EMU_ACCUMULATE_S32;
	int k = form->k;

	load_a(warp, &ins->operands[1], form->k_bytes, raw);
	if (integer)
		emu_panel_s32(form->a, raw, EMU_GEMM_ROWS * k, (int32_t *)(void *)a_rows);
	else
		emu_panel_f32(form->a, EMU_PACK_DENSE, raw, EMU_GEMM_ROWS * k, a_rows);
	for (int i = 0; i < k; i++)
		for (int r = 0; r < EMU_GEMM_ROWS; r++)
			a[i * EMU_GEMM_ROWS + r] = a_rows[r * k + i];
	load_b(warp, &ins->operands[2], form->k_bytes, raw);
	if (integer)
		emu_panel_s32(form->b, raw, columns * k, (int32_t *)(void *)b);
	else
		emu_panel_f32(form->b, EMU_PACK_DENSE, raw, columns * k, b);
	load_c(warp, &ins->operands[3], form->c_half, tile);
	if (integer)
		emu_gemm_s32(columns, k, (int32_t *)(void *)a, EMU_GEMM_ROWS, (int32_t *)(void *)b,
			     k, (int32_t *)(void *)tile, EMU_GEMM_ROWS, true, form->saturate);
	else if (warp->grid->numerics == EMU_HARDWARE)
		emu_gemm_adder(&adder, NULL, columns, k, a, EMU_GEMM_ROWS, b, k, tile,
			       EMU_GEMM_ROWS, true);
	else
		emu_gemm_f32(columns, k, a, EMU_GEMM_ROWS, b, k, tile, EMU_GEMM_ROWS, true);
	store_d(warp, &ins->operands[0], form->d_half, tile, mask);
	warp->worker->counters.mma_flops += 2ull * EMU_GEMM_ROWS * columns * (uint64_t)k;
	warp->worker->counters.mma_instructions++;
	return EMU_NEXT;
}

/* ---- decode ---------------------------------------------------------------------------- */

static bool element_of(enum emu_type type, enum emu_element *element)
{
	static const struct {
		enum emu_type type;
		enum emu_element element;
	} pairs[] = {
		{EMU_T_F16, EMU_ELEMENT_F16},   {EMU_T_BF16, EMU_ELEMENT_BF16},
		{EMU_T_TF32, EMU_ELEMENT_TF32}, {EMU_T_E4M3, EMU_ELEMENT_E4M3},
		{EMU_T_E5M2, EMU_ELEMENT_E5M2}, {EMU_T_S8, EMU_ELEMENT_S8},
		{EMU_T_U8, EMU_ELEMENT_U8},
	};

	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (pairs[i].type == type) {
			*element = pairs[i].element;
			return true;
		}
	return false;
}

static bool take_types(struct emu_decode *decode, struct warp_mma_form *form)
{
	enum emu_type d = emu_take_type(decode), a = emu_take_type(decode);
	enum emu_type b = emu_take_type(decode), c = emu_take_type(decode);
	bool integer;

	if (!element_of(a, &form->a) || !element_of(b, &form->b) ||
	    emu_element_bits(form->a) != emu_element_bits(form->b))
		return emu_reject(decode, "the operand types .%s and .%s are not supported",
				  emu_types[a].text, emu_types[b].text);
	integer = form->a >= EMU_ELEMENT_S8;
	if (integer ? d != EMU_T_S32 || c != EMU_T_S32
		    : (d != EMU_T_F32 && d != EMU_T_F16) || (c != EMU_T_F32 && c != EMU_T_F16))
		return emu_reject(decode, "D .%s and C .%s do not go with .%s operands",
				  emu_types[d].text, emu_types[c].text, emu_types[a].text);
	form->accumulator = integer ? EMU_ACCUMULATE_S32 : EMU_ACCUMULATE_F32;
	form->d_half = d == EMU_T_F16;
	form->c_half = c == EMU_T_F16;
	form->k_bytes = form->k * emu_element_bits(form->a) / 8;
	if (form->k_bytes != 16 && form->k_bytes != 32)
		return emu_reject(decode, "K = %d is not supported for .%s", form->k,
				  emu_types[a].text);
	return true;
}

static bool decode_mma(struct emu_decode *decode)
{
	struct warp_mma_form *form = emu_decode_extra(decode, sizeof *form);
	const char *shape = emu_take_prefix(decode, "m16n8k");

	if (!form)
		return false;
	if (!shape || sscanf(shape, "%d", &form->k) != 1)
		return emu_reject(decode, "the shape must be .m16n8kK");
	if (!emu_take(decode, "sync") || !emu_take(decode, "aligned"))
		return emu_reject(decode, ".sync.aligned is missing");
	if (!emu_take(decode, "row") || !emu_take(decode, "col"))
		return emu_reject(decode, "A is .row and B is .col");
	form->saturate = emu_take(decode, "satfinite");
	if (!take_types(decode, form))
		return false;
	decode->ins->extra = form;
	decode->ins->flags |= EMU_I_ALIGNED;
	emu_results(decode->ins, 1);
	return emu_want_operands(decode, 4, 4) &&
	       emu_want_vector(decode, 0, form->d_half ? 2 : 4, 32) &&
	       emu_want_vector(decode, 1, form->k_bytes / 8, 32) &&
	       emu_want_vector(decode, 2, form->k_bytes / 16, 32) &&
	       emu_want_vector(decode, 3, form->c_half ? 2 : 4, 32);
}

static const struct emu_opcode rows[] = {
	{"mma", decode_mma, execute, 0},
};

EMU_OPCODE_TABLE(warp_mma, rows);

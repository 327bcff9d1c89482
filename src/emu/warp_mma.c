/* mma.sync: the matrix multiplication of one warp, 8 or 16 rows by 8 columns. */
#include "warp_mma.h"

#include "number.h"

#include <stdio.h>

enum {
	columns = 8,
	max_k = 256,      /* single bits */
	max_a_bytes = 32, /* of K in one row */
	max_b_bytes = 64
};

struct warp_mma_form {
	struct emu_warp_product product;
	int rows, a_bytes, b_bytes; /* of K as stored */
	bool half_c;                /* C is f16 */
	bool sparse;
	int selector;
};

/* ---- operands ------------------------------------------------------------------------ */

/* Register j of A: rows g and, of 16, g + 8, then the next 16 bytes of K; of B: 16 bytes each. */
static void load_a(struct emu_warp *warp, const struct emu_operand *operand,
		   const struct warp_mma_form *form, uint8_t *raw)
{
	int halves = form->rows / 8, bytes = form->a_bytes;

	for (int j = 0; j < bytes / 16 * halves; j++) {
		const uint32_t *row = emu_row32(warp, emu_item(operand, j)->ref);

		for (int g = 0; g < 8; g++)
			memcpy(raw + (g + 8 * (j % halves)) * bytes + 16 * (j / halves),
			       row + 4 * g, 16);
	}
}

static void load_b(struct emu_warp *warp, const struct emu_operand *operand, int bytes,
		   uint8_t *raw)
{
	for (int j = 0; j < bytes / 16; j++) {
		const uint32_t *row = emu_row32(warp, emu_item(operand, j)->ref);

		for (int g = 0; g < 8; g++)
			memcpy(raw + g * bytes + 16 * j, row + 4 * g, 16);
	}
}

static int place(int i, int lane)
{
	return (2 * (lane & 3) + (i & 1)) * EMU_GEMM_ROWS + (lane >> 2) + 8 * (i >> 1);
}

static void load_c(struct emu_warp *warp, const struct emu_operand *operand,
		   const struct warp_mma_form *form, float *tile)
{
	for (int i = 0; i < form->rows / 4; i++) {
		const uint32_t *row =
			emu_row32(warp, emu_item(operand, form->half_c ? i / 2 : i)->ref);
		for (int lane = 0; lane < EMU_LANES; lane++)
			tile[place(i, lane)] =
				form->half_c ? emu_f16_to_f32((uint16_t)(row[lane] >> 16 * (i & 1)))
					     : emu_f32_of_bits(row[lane]);
	}
}

static void store_d(struct emu_warp *warp, const struct emu_operand *operand,
		    const struct warp_mma_form *form, const float *tile, uint32_t mask)
{
	bool half = form->product.half_d;

	for (int i = 0; i < form->rows / 4; i += half ? 2 : 1)
		EMU_FOR_LANES(lane, mask)
		{
			float value = tile[place(i, (int)lane)];
			uint32_t word = emu_bits_of_f32(value);
			if (half)
				word = emu_f16_from_f32(value) |
				       (uint32_t)emu_f16_from_f32(tile[place(i + 1, (int)lane)])
					       << 16;
			emu_set_value(warp, emu_item(operand, half ? i / 2 : i), (int)lane, word);
		}
}

/* ---- products -------------------------------------------------------------------------- */

/* Bits that differ: sums of both less twice what they share. */
static void multiply_exclusive(int n, int k, const int32_t *a, const int32_t *b, int32_t *tile)
{
	for (int j = 0; j < n; j++)
		for (int i = 0; i < k; i++)
			for (int r = 0; r < EMU_GEMM_ROWS; r++)
				tile[j * EMU_GEMM_ROWS + r] +=
					a[i * EMU_GEMM_ROWS + r] ^ b[j * k + i];
}

/*
 * Hopper has no mma.sync of 8-bit floats: the assembler makes f16 of them and multiplies in two
 * steps, the first and then the second half of each four elements of K (sparse: of each eight),
 * from zero; C comes last.
 */
static void multiply_in_steps(const struct emu_warp_product *product, int n, const float *a,
			      const float *b, float *tile)
{
	const struct emu_adder adder = {25, 23, product->half_d, EMU_ELEMENT_F16, EMU_ELEMENT_F16};
	float part_a[max_k / 2 * EMU_GEMM_ROWS], part_b[columns * max_k / 2];
	float sum[columns * EMU_GEMM_ROWS];
	int k = product->k, piece = product->sparse ? 4 : 2;

	for (int step = 0; step < 2; step++) {
		int count = 0;

		for (int i = 0; i < k; i++) {
			if (i / piece % 2 != step)
				continue;
			memcpy(part_a + count * EMU_GEMM_ROWS, a + i * EMU_GEMM_ROWS,
			       EMU_GEMM_ROWS * sizeof *a);
			for (int j = 0; j < n; j++)
				part_b[j * (k / 2) + count] = b[j * k + i];
			count++;
		}
		emu_gemm_adder(&adder, NULL, n, count, part_a, EMU_GEMM_ROWS, part_b, count, sum,
			       EMU_GEMM_ROWS, step > 0);
	}
	for (int i = 0; i < n * EMU_GEMM_ROWS; i++) {
		float value = tile[i] + sum[i];

		tile[i] = value == value ? value : emu_f32_of_bits(0x7fffffff);
	}
}

static bool is_byte(enum emu_element element)
{
	return element == EMU_ELEMENT_E4M3 || element == EMU_ELEMENT_E5M2;
}

void emu_warp_multiply(struct emu_warp *warp, const struct emu_warp_product *product, int n,
		       const float *a, const float *b, float *tile)
{
	struct emu_adder adder = {25, 23, product->half_d, product->a, product->b};
	const int32_t *integers_a = (const int32_t *)(const void *)a;
	const int32_t *integers_b = (const int32_t *)(const void *)b;
	int32_t *integers = (int32_t *)(void *)tile;
	int k = product->k;

	if (product->exclusive)
		multiply_exclusive(n, k, integers_a, integers_b, integers);
	else if (emu_element_integer(product->a))
		emu_gemm_s32(n, k, integers_a, EMU_GEMM_ROWS, integers_b, k, integers,
			     EMU_GEMM_ROWS, true, product->saturate);
	else if (warp->grid->numerics == EMU_HARDWARE && is_byte(product->a) && n <= columns &&
		 warp->grid->module->sm < 100)
		multiply_in_steps(product, n, a, b, tile);
	else if (warp->grid->numerics == EMU_HARDWARE)
		emu_gemm_adder(&adder, NULL, n, k, a, EMU_GEMM_ROWS, b, k, tile, EMU_GEMM_ROWS,
			       true);
	else
		emu_gemm_f32(n, k, a, EMU_GEMM_ROWS, b, k, tile, EMU_GEMM_ROWS, true);
	warp->worker->counters.mma_flops += 2ull * EMU_GEMM_ROWS * (uint64_t)n * (uint64_t)k;
}

void emu_warp_panel(enum emu_element element, const uint8_t *raw, int count, float *out)
{
	if (emu_element_integer(element))
		emu_panel_s32(element, raw, count, (int32_t *)(void *)out);
	else
		emu_panel_f32(element, EMU_PACK_DENSE, raw, count, out);
}

/* Rows of A with their zeros, and which elements they keep; false after a fault. */
static bool spread(struct emu_warp *warp, const struct emu_ins *ins,
		   const struct warp_mma_form *form, const float *stored, float *rows, bool *kept)
{
	const uint32_t *words = emu_row32(warp, ins->operands[4].ref);
	int k = form->product.k, span = emu_sparse_span(form->product.a);
	uint8_t nibbles[max_k / 4];

	for (int r = 0; r < form->rows; r++) {
		for (int g = 0; g < k / span; g++)
			nibbles[g] =
				emu_sparse_nibble(words, form->product.a, k, form->selector, r, g);
		if (!emu_sparse_row(span, nibbles, k, stored + r * k / 2, rows + r * k)) {
			emu_fault(warp, -1, "sparsity-metadata",
				  "a metadata nibble of row %d selects no two different elements",
				  r);
			return false;
		}
		emu_sparse_kept(span, nibbles, k, kept + r);
	}
	return true;
}

static void multiply(struct emu_warp *warp, const struct warp_mma_form *form, float *a, float *b,
		     const bool *kept, float *tile)
{
	int k = form->product.k;
	float a_apart[max_k * EMU_GEMM_ROWS], b_apart[columns * max_k];
	bool some = false;

	if (form->sparse && !emu_element_integer(form->product.b)) {
		some = emu_sparse_set_apart(a, a_apart, k * EMU_GEMM_ROWS);
		some |= emu_sparse_set_apart(b, b_apart, columns * k);
	}
	if (some)
		emu_sparse_join(columns, k, kept, a, a_apart, EMU_GEMM_ROWS, b, b_apart, tile);
	emu_warp_multiply(warp, &form->product, columns, a, b, tile);
}

/* Whether the products are added in order, as the registers have them; else by way of a tile. */
static bool in_registers(const struct emu_warp *warp, const struct warp_mma_form *form)
{
	bool integer = emu_element_integer(form->product.a);

	return !form->sparse && !form->product.exclusive &&
	       (integer || warp->grid->numerics != EMU_HARDWARE);
}

/* C to four rows of f32 or s32; those of rows that the product does not have are zero. */
static void take_c(struct emu_warp *warp, const struct emu_ins *ins,
		   const struct warp_mma_form *form, float (*rows)[EMU_LANES])
{
	const struct emu_operand *c = &ins->operands[3];

	for (int i = 0; i < form->rows / 4; i++)
		if (!form->half_c)
			memcpy(rows[i], emu_row32(warp, emu_item(c, i)->ref), EMU_ROW_BYTES);
		else if (i % 2 == 0)
			emu_fragment_halves(emu_row32(warp, emu_item(c, i / 2)->ref), rows[i],
					    rows[i + 1]);
	for (int i = form->rows / 4; i < 4; i++)
		memset(rows[i], 0, EMU_ROW_BYTES);
}

static void give_d(struct emu_warp *warp, const struct emu_ins *ins,
		   const struct warp_mma_form *form, float (*rows)[EMU_LANES], uint32_t mask)
{
	bool half = form->product.half_d;

	for (int i = 0; i < form->rows / 4; i += 1 + half) {
		const struct emu_operand *item = emu_item(&ins->operands[0], half ? i / 2 : i);
		uint32_t words[EMU_LANES], *d = emu_row32(warp, item->ref);

		if (half)
			emu_fragment_pack(rows[i], rows[i + 1], words);
		else
			memcpy(words, rows[i], sizeof words);
		if (item->kind == EMU_O_REGISTER && mask == EMU_FULL)
			memcpy(d, words, sizeof words);
		else if (item->kind == EMU_O_REGISTER)
			EMU_FOR_LANES(lane, mask)
			{
				d[lane] = words[lane];
			}
	}
}

static void execute_in_registers(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct warp_mma_form *form = ins->extra;
	const struct emu_warp_product *product = &form->product;
	float values[EMU_GEMM_ROWS * max_k], a[4 * EMU_GEMM_ROWS * max_k], b[columns * max_k];
	float rows[4][EMU_LANES], *d[4] = {rows[0], rows[1], rows[2], rows[3]};
	uint8_t raw[EMU_GEMM_ROWS * max_a_bytes];
	int k = product->k;

	load_a(warp, &ins->operands[1], form, raw);
	emu_warp_panel(product->a, raw, form->rows * k, values);
	memset(values + form->rows * k, 0,
	       sizeof *values * (size_t)((EMU_GEMM_ROWS - form->rows) * k));
	emu_fragment_a(values, k, 1, k, a);
	load_b(warp, &ins->operands[2], form->b_bytes, raw);
	emu_warp_panel(product->b, raw, columns * k, values);
	emu_fragment_b(values, columns, k, b);
	take_c(warp, ins, form, rows);
	if (emu_element_integer(product->a))
		emu_fragment_s32(columns, k, (const int32_t *)(const void *)a,
				 (const int32_t *)(const void *)b, (int32_t *const *)(void *)d,
				 true, product->saturate);
	else
		emu_fragment_f32(columns, k, a, b, d, true);
	give_d(warp, ins, form, rows, mask);
	warp->worker->counters.mma_flops += 2ull * EMU_GEMM_ROWS * columns * (uint64_t)k;
}

static enum emu_step execute_by_tile(struct emu_warp *warp, const struct emu_ins *ins,
				     uint32_t mask)
{
	const struct warp_mma_form *form = ins->extra;
	int k = form->product.k, stored = form->sparse ? k / 2 : k;
	float rows[2][EMU_GEMM_ROWS * max_k], a[max_k * EMU_GEMM_ROWS], b[columns * max_k];
	float tile[columns * EMU_GEMM_ROWS] = {0};
	uint8_t raw[EMU_GEMM_ROWS * max_a_bytes], raw_b[columns * max_b_bytes];
	bool kept[max_k * EMU_GEMM_ROWS] = {false};

	load_a(warp, &ins->operands[1], form, raw);
	emu_warp_panel(form->product.a, raw, form->rows * stored, rows[0]);
	if (form->sparse && !spread(warp, ins, form, rows[0], rows[1], kept))
		return EMU_STOPPED;
	for (int i = 0; i < k; i++)
		for (int r = 0; r < EMU_GEMM_ROWS; r++)
			a[i * EMU_GEMM_ROWS + r] =
				r < form->rows ? rows[form->sparse][r * k + i] : 0;
	load_b(warp, &ins->operands[2], form->b_bytes, raw_b);
	emu_warp_panel(form->product.b, raw_b, columns * k, b);
	load_c(warp, &ins->operands[3], form, tile);
	multiply(warp, form, a, b, kept, tile);
	store_d(warp, &ins->operands[0], form, tile, mask);
	return EMU_NEXT;
}

static enum emu_step execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	warp->worker->counters.mma_instructions++;
	if (!in_registers(warp, ins->extra))
		return execute_by_tile(warp, ins, mask);
	execute_in_registers(warp, ins, mask);
	return EMU_NEXT;
}

/* ---- decode ---------------------------------------------------------------------------- */

bool emu_element_of(enum emu_type type, enum emu_element *element)
{
	static const struct {
		enum emu_type type;
		enum emu_element element;
	} pairs[] = {
		{EMU_T_F16, EMU_ELEMENT_F16},   {EMU_T_BF16, EMU_ELEMENT_BF16},
		{EMU_T_TF32, EMU_ELEMENT_TF32}, {EMU_T_E4M3, EMU_ELEMENT_E4M3},
		{EMU_T_E5M2, EMU_ELEMENT_E5M2}, {EMU_T_S8, EMU_ELEMENT_S8},
		{EMU_T_U8, EMU_ELEMENT_U8},     {EMU_T_S4, EMU_ELEMENT_S4},
		{EMU_T_U4, EMU_ELEMENT_U4},     {EMU_T_B1, EMU_ELEMENT_B1},
	};

	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (pairs[i].type == type) {
			*element = pairs[i].element;
			return true;
		}
	return false;
}

bool emu_element_integer(enum emu_element element)
{
	return element >= EMU_ELEMENT_S8;
}

bool emu_elements_agree(enum emu_element a, enum emu_element b)
{
	return a == b || (emu_element_bits(a) == emu_element_bits(b) && emu_element_bits(a) <= 8 &&
			  emu_element_integer(a) == emu_element_integer(b));
}

static bool check_accumulators(struct emu_decode *decode, struct warp_mma_form *form,
			       enum emu_type d, enum emu_type c)
{
	enum emu_element a = form->product.a;
	bool half = a == EMU_ELEMENT_F16 || a == EMU_ELEMENT_E4M3 || a == EMU_ELEMENT_E5M2;

	if (d != c ||
	    (emu_element_integer(a) ? d != EMU_T_S32 : d != EMU_T_F32 && (d != EMU_T_F16 || !half)))
		return emu_reject(decode, "D .%s and C .%s do not go with .%s operands",
				  emu_types[d].text, emu_types[c].text, emu_element_name(a));
	form->product.half_d = form->half_c = d == EMU_T_F16;
	if (form->sparse && form->half_c && a != EMU_ELEMENT_F16 && decode->module->sm < 120)
		return emu_reject(decode, "sparse 8-bit operands have no .f16 accumulator on %s",
				  decode->module->target);
	return true;
}

/* .and.popc and .xor.popc of single bits. */
static bool take_bits(struct emu_decode *decode, struct warp_mma_form *form)
{
	static const char *const operations[] = {"and", "xor", NULL};
	int operation;

	if (form->product.a != EMU_ELEMENT_B1)
		return true;
	operation = emu_take_one(decode, operations);
	form->product.exclusive = operation == 1;
	if (operation == -1 || !emu_take(decode, "popc"))
		return emu_reject(decode, "single bits need .and.popc or .xor.popc");
	return operation >= 0;
}

static bool take_types(struct emu_decode *decode, struct warp_mma_form *form)
{
	enum emu_type d = emu_take_type(decode), a = emu_take_type(decode);
	enum emu_type b = emu_take_type(decode), c = emu_take_type(decode);
	struct emu_warp_product *product = &form->product;
	int bits;

	if (!emu_element_of(a, &product->a) || !emu_element_of(b, &product->b) ||
	    !emu_elements_agree(product->a, product->b))
		return emu_reject(decode, "the operand types .%s and .%s are not supported",
				  emu_types[a].text, emu_types[b].text);
	bits = emu_element_bits(product->a);
	product->saturate = emu_take(decode, "satfinite");
	if (product->saturate && (!emu_element_integer(product->a) || bits == 1))
		return emu_reject(decode, ".satfinite goes with integers of 4 and 8 bits");
	if (form->sparse && bits == 1)
		return emu_reject(decode, "single bits cannot be sparse");
	form->b_bytes = product->k * bits / 8;
	form->a_bytes = form->sparse ? form->b_bytes / 2 : form->b_bytes;
	if (8 * form->b_bytes != product->k * bits ||
	    (form->a_bytes != 16 && form->a_bytes != max_a_bytes) ||
	    (form->sparse && 2 * form->a_bytes != form->b_bytes) ||
	    (form->rows == 8 && (form->a_bytes != 16 || !emu_element_integer(product->a))) ||
	    (form->sparse && form->a_bytes == 16 && bits == 8 && !emu_element_integer(product->a)))
		return emu_reject(decode, "K = %d is not supported for .%s", product->k,
				  emu_types[a].text);
	return check_accumulators(decode, form, d, c) && take_bits(decode, form);
}

/* Metadata, and which of the quad's threads hold it. */
static bool want_metadata(struct emu_decode *decode, struct warp_mma_form *form)
{
	int threads = emu_sparse_threads(emu_sparse_span(form->product.a), form->product.k);

	if (!form->sparse)
		return true;
	if (!emu_want_register(decode, 4, 32) || !emu_want_immediate(decode, 5, 0, 4 / threads - 1))
		return false;
	form->selector = (int)decode->ins->operands[5].value;
	return true;
}

static bool want_operands(struct emu_decode *decode, struct warp_mma_form *form)
{
	int halves = form->rows / 8, count = form->sparse ? 6 : 4;

	return emu_want_operands(decode, count, count) &&
	       emu_want_vector(decode, 0, form->product.half_d ? halves : 2 * halves, 32) &&
	       emu_want_vector(decode, 1, form->a_bytes / 16 * halves, 32) &&
	       emu_want_vector(decode, 2, form->b_bytes / 16, 32) &&
	       emu_want_vector(decode, 3, form->half_c ? halves : 2 * halves, 32) &&
	       want_metadata(decode, form);
}

static bool names_type(const struct emu_decode *decode, const char *type)
{
	for (int i = 0; i < decode->modifier_count; i++)
		if (!strcmp(decode->modifiers[i], type))
			return true;
	return false;
}

static bool decode_mma(struct emu_decode *decode)
{
	struct warp_mma_form *form = emu_decode_extra(decode, sizeof *form);
	const char *wide = emu_take_prefix(decode, "m16n8k");
	const char *shape = wide ? wide : emu_take_prefix(decode, "m8n8k");

	if (!form)
		return false;
	if (!shape || sscanf(shape, "%d", &form->product.k) != 1)
		return emu_reject(decode, "the shape must be .m16n8kK or .m8n8kK");
	if (!emu_take_aligned(decode))
		return false;
	form->rows = wide ? 16 : 8;
	form->sparse = strchr(decode->opcode->name, '.') != NULL;
	form->product.sparse = form->sparse;
	emu_results(decode->ins, 1);
	if (!wide && form->product.k == 4 && !names_type(decode, "f64"))
		return emu_decode_mma_quad(decode);
	if (!emu_take(decode, "row") || !emu_take(decode, "col"))
		return emu_reject(decode, "A is .row and B is .col");
	if (names_type(decode, "f64"))
		return emu_decode_mma_double(decode, form->rows, form->product.k);
	decode->ins->extra = form;
	decode->ins->execute = execute;
	return take_types(decode, form) && want_operands(decode, form);
}

static const struct emu_opcode rows[] = {
	{"mma", decode_mma, NULL, 0},
	{"mma.sp", decode_mma, NULL, 0},
	{"mma.sp::ordered_metadata", decode_mma, NULL, 0},
};

EMU_OPCODE_TABLE(warp_mma, rows);

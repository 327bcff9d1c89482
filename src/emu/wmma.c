/*
 * wmma: matrices whose place in the registers the ISA leaves open.
 *
 * Here element e of a matrix of `count` elements, counted along rows of A and of
 * C and along columns of B, lies in lane e / (count / 32); registers with room
 * for more repeat what the lane has.
 */
#include "warp_mma.h"
#include "hazard.h"

#include "number.h"
#include "rounding.h"

#include <stdio.h>

enum matrix {
	MATRIX_A,
	MATRIX_B,
	MATRIX_C /* and D */
};

struct matrix_form {
	enum matrix matrix;
	int rows, columns; /* of B: columns and K, as it is multiplied */
	int bits, registers;
	bool along; /* elements of a row (of B: of a column) lie side by side in memory */
};

struct wmma_form {
	int m, n;
	bool doubles, half_c, half_d;
	enum emu_rounding rounding; /* of doubles */
	bool rounded;               /* the text has a rounding */
	struct emu_warp_product product;
	struct matrix_form a, b, c, d;
};

enum {
	max_elements = 32 * 128 /* any matrix */
};

/* ---- registers ------------------------------------------------------------------------ */

static int element_count(const struct matrix_form *form)
{
	return form->rows * form->columns;
}

/* Bits of element i of a lane. */
static uint64_t take(const struct emu_warp *warp, const struct emu_operand *operand,
		     const struct matrix_form *form, int i, int lane)
{
	int per = form->bits < 32 ? 32 / form->bits : 1;
	uint64_t word = emu_value(warp, emu_item(operand, i / per), lane);

	return form->bits < 32 ? word >> i % per * form->bits & ((1ull << form->bits) - 1) : word;
}

/* All elements of a matrix, in its own order. */
static void take_matrix(const struct emu_warp *warp, const struct emu_operand *operand,
			const struct matrix_form *form, uint64_t *elements)
{
	int per = element_count(form) / EMU_LANES;

	for (int e = 0; e < element_count(form); e++)
		elements[e] = take(warp, operand, form, e % per, e / per);
}

static void give_matrix(struct emu_warp *warp, const struct emu_operand *operand,
			const struct matrix_form *form, const uint64_t *elements, uint32_t mask)
{
	int per = element_count(form) / EMU_LANES, bits = form->bits;
	int packed = bits < 32 ? 32 / bits : 1;

	EMU_FOR_LANES(lane, mask)
	{
		const uint64_t *own = elements + (int)lane * per;

		for (int r = 0; r < form->registers; r++) {
			uint64_t word = 0;

			for (int i = 0; i < packed; i++)
				word |= own[(r * packed + i) % per] << i * bits % 64;
			emu_set_value(warp, emu_item(operand, r), (int)lane, word);
		}
	}
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Elements that lie side by side: a row where they go along, else a column. */
static bool move_line(struct emu_warp *warp, const struct emu_ins *ins, uint64_t address, int line,
		      uint64_t *elements, bool stores)
{
	const struct matrix_form *form = ins->extra;
	int length = form->along ? form->columns : form->rows, bits = form->bits, lane = 0;
	uint32_t bytes = (uint32_t)(length * bits / 8), least = bits < 8 ? 1u : (uint32_t)bits / 8;
	uint8_t *at = emu_mem(warp, lane, (enum emu_space)ins->space, address, bytes, least,
			      stores ? EMU_WRITE : EMU_READ);

	if (!at)
		return false;
	/* Before the write: what stood there is kept where the grid may have to begin again. */
	if (warp->order)
		emu_watch_one(warp, lane, (enum emu_space)ins->space, address, bytes,
			      stores ? EMU_WRITE : EMU_READ);
	for (int i = 0; i < length; i++) {
		uint64_t *element = &elements[form->along ? line * form->columns + i
							  : i * form->columns + line];

		if (stores)
			memcpy(at + (uint32_t)i * least, element, least);
		else if (bits < 8)
			*element = at[i * bits / 8] >> i * bits % 8 & ((1 << bits) - 1);
		else
			memcpy(element, at + (uint32_t)i * least, least);
	}
	return true;
}

static bool move_matrix(struct emu_warp *warp, const struct emu_ins *ins, int operand,
			uint64_t *elements, bool stores)
{
	const struct matrix_form *form = ins->extra;
	uint64_t address = emu_address(warp, &ins->operands[operand], 0);
	uint64_t stride = (uint64_t)(form->along ? form->columns : form->rows);
	int lines = form->along ? form->rows : form->columns;

	if (ins->operand_count == 3)
		stride = (uint32_t)emu_value(warp, &ins->operands[2], 0);
	for (int line = 0; line < lines; line++)
		if (!move_line(warp, ins,
			       address + (uint64_t)line * stride * (uint64_t)form->bits / 8, line,
			       elements, stores))
			return false;
	return true;
}

static enum emu_step execute_load(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint64_t elements[max_elements] = {0};

	if (!move_matrix(warp, ins, 1, elements, false))
		return EMU_STOPPED;
	give_matrix(warp, &ins->operands[0], ins->extra, elements, mask);
	return EMU_NEXT;
}

static enum emu_step execute_store(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint64_t elements[max_elements];

	(void)mask;
	take_matrix(warp, &ins->operands[1], ins->extra, elements);
	if (!move_matrix(warp, ins, 0, elements, true))
		return EMU_STOPPED;
	emu_changed(warp->worker);
	return EMU_NEXT;
}

/* ---- products -------------------------------------------------------------------------- */

static float number_of(enum emu_element element, uint64_t bits)
{
	uint8_t raw[4];
	float value;

	for (int i = 0; i < 4; i++)
		raw[i] = (uint8_t)(bits >> 8 * i);
	emu_warp_panel(element, raw, 1, &value);
	return value;
}

static void multiply_doubles(const struct wmma_form *form, const uint64_t *a, const uint64_t *b,
			     uint64_t *c)
{
	int k = form->a.columns;

	emu_host_rounding(form->rounding);
	for (int e = 0; e < form->m * form->n; e++) {
		double sum;

		memcpy(&sum, &c[e], sizeof sum);
		for (int i = 0; i < k; i++) {
			double x, y;

			memcpy(&x, &a[e / form->n * k + i], sizeof x);
			memcpy(&y, &b[e % form->n * k + i], sizeof y);
			sum = emu_warp_multiply_add(x, y, sum);
		}
		memcpy(&c[e], &sum, sizeof sum);
	}
	emu_host_rounding(EMU_ROUND_NEAREST_EVEN);
}

static uint64_t rounded(const struct wmma_form *form, float value)
{
	return form->half_d ? emu_f16_from_f32(value) : emu_bits_of_f32(value);
}

/* Rows `first` and up to 16 of the product. */
static void multiply_rows(struct emu_warp *warp, const struct wmma_form *form, int first,
			  const uint64_t *a, const float *b, uint64_t *c)
{
	int k = form->a.columns, rows = form->m < EMU_GEMM_ROWS ? form->m : EMU_GEMM_ROWS;
	float panel[128 * EMU_GEMM_ROWS] = {0}, tile[32 * EMU_GEMM_ROWS] = {0};

	for (int r = 0; r < rows; r++) {
		for (int i = 0; i < k; i++)
			panel[i * EMU_GEMM_ROWS + r] =
				number_of(form->product.a, a[(first + r) * k + i]);
		for (int n = 0; n < form->n; n++) {
			uint64_t bits = c[(first + r) * form->n + n];

			tile[n * EMU_GEMM_ROWS + r] = form->half_c
							      ? emu_f16_to_f32((uint16_t)bits)
							      : emu_f32_of_bits((uint32_t)bits);
		}
	}
	for (int i = 0; i < k; i += form->product.k)
		emu_warp_multiply(warp, &form->product, form->n, panel + i * EMU_GEMM_ROWS,
				  b + i * form->n, tile);
	for (int r = 0; r < rows; r++)
		for (int n = 0; n < form->n; n++)
			c[(first + r) * form->n + n] = rounded(form, tile[n * EMU_GEMM_ROWS + r]);
}

/* Of element e of B, which has K innermost: a panel holds the columns of one product after the
 * other. */
static int place_in_panel(const struct wmma_form *form, int e)
{
	int k = form->a.columns, step = form->product.k, column = e / k, i = e % k;

	return i / step * step * form->n + column * step + i % step;
}

static enum emu_step execute_mma(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct wmma_form *form = ins->extra;
	uint64_t a[max_elements], b[max_elements], c[max_elements];
	float panel[max_elements];

	take_matrix(warp, &ins->operands[1], &form->a, a);
	take_matrix(warp, &ins->operands[2], &form->b, b);
	take_matrix(warp, &ins->operands[3], &form->c, c);
	if (form->doubles) {
		multiply_doubles(form, a, b, c);
	} else {
		for (int e = 0; e < element_count(&form->b); e++)
			panel[place_in_panel(form, e)] = number_of(form->product.b, b[e]);
		for (int first = 0; first < form->m; first += EMU_GEMM_ROWS)
			multiply_rows(warp, form, first, a, panel, c);
	}
	give_matrix(warp, &ins->operands[0], &form->d, c, mask);
	warp->worker->counters.mma_instructions++;
	return EMU_NEXT;
}

/* ---- decode ---------------------------------------------------------------------------- */

/* Shapes by element type. */
static bool legal_shape(enum emu_type type, int m, int n, int k)
{
	bool wide = (m == 16 && n == 16) || (m == 8 && n == 32) || (m == 32 && n == 8);

	switch (type) {
	case EMU_T_F16:
	case EMU_T_BF16:
	case EMU_T_S8:
	case EMU_T_U8:
		return wide && k == 16;
	case EMU_T_TF32:
		return m == 16 && n == 16 && k == 8;
	case EMU_T_F64:
		return m == 8 && n == 8 && k == 4;
	case EMU_T_S4:
	case EMU_T_U4:
		return m == 8 && n == 8 && k == 32;
	case EMU_T_B1:
		return m == 8 && n == 8 && k == 128;
	default:
		return false;
	}
}

static bool take_shape(struct emu_decode *decode, int *m, int *n, int *k)
{
	for (int i = 0; i < decode->modifier_count; i++)
		if (!decode->taken[i] && sscanf(decode->modifiers[i], "m%dn%dk%d", m, n, k) == 3) {
			decode->taken[i] = true;
			return true;
		}
	return emu_reject(decode, "the shape is missing: .mMnNkK");
}

static struct matrix_form matrix_of(enum matrix matrix, int rows, int columns, enum emu_type type)
{
	struct matrix_form form = {
		.matrix = matrix, .rows = rows, .columns = columns, .bits = emu_types[type].bits};

	form.registers = form.bits == 64 ? rows * columns / EMU_LANES
					 : rows * columns * form.bits / (32 * EMU_LANES);
	if (matrix != MATRIX_C && type == EMU_T_F16)
		form.registers = 8;
	return form;
}

static bool want_matrix(struct emu_decode *decode, int i, const struct matrix_form *form)
{
	return emu_want_vector(decode, i, form->registers, form->bits == 64 ? 64 : 32);
}

int emu_take_orders(struct emu_decode *decode, bool rows[2])
{
	int found = 0;

	for (int i = 0; i < decode->modifier_count && found < 2; i++)
		if (!decode->taken[i] && (!strcmp(decode->modifiers[i], "row") ||
					  !strcmp(decode->modifiers[i], "col"))) {
			rows[found++] = decode->modifiers[i][0] == 'r';
			decode->taken[i] = true;
		}
	return found;
}

/* Accumulators go with several element types: the shape decides. */
static bool accumulator_shape(enum emu_type type, int m, int n, int k)
{
	switch (type) {
	case EMU_T_F16:
		return legal_shape(EMU_T_F16, m, n, k);
	case EMU_T_F32:
		return legal_shape(EMU_T_F16, m, n, k) || legal_shape(EMU_T_TF32, m, n, k);
	case EMU_T_S32:
		return legal_shape(EMU_T_S8, m, n, k) || legal_shape(EMU_T_S4, m, n, k) ||
		       legal_shape(EMU_T_B1, m, n, k);
	case EMU_T_F64:
		return legal_shape(EMU_T_F64, m, n, k);
	default:
		return false;
	}
}

static bool decode_move(struct emu_decode *decode, bool stores)
{
	static const char *const matrices[] = {"a", "b", "c", NULL};
	struct emu_ins *ins = decode->ins;
	struct matrix_form *form = emu_decode_extra(decode, sizeof *form);
	int matrix = stores ? MATRIX_C : emu_take_one(decode, matrices), m, n, k;
	enum emu_type type;
	bool row[2];

	if (!form || matrix == -2 || !emu_take_aligned(decode) || !take_shape(decode, &m, &n, &k))
		return false;
	if (matrix < 0)
		return emu_reject(decode, "the matrix is missing: .a, .b or .c");
	if (stores && !emu_take(decode, "d"))
		return emu_reject(decode, "only .d can be stored");
	if (emu_take_orders(decode, row) != 1)
		return emu_reject(decode, "the order is needed: .row or .col");
	ins->space = emu_take_space(decode, EMU_GENERIC);
	type = emu_take_type(decode);
	if (!(matrix == MATRIX_C ? accumulator_shape : legal_shape)(type, m, n, k))
		return emu_reject(decode, "matrix .%s of .m%dn%dk%d cannot be .%s",
				  stores ? "d" : matrices[matrix], m, n, k, emu_types[type].text);
	if (emu_types[type].bits < 8 && row[0] != (matrix == MATRIX_A))
		return emu_reject(decode, "A of less than 8 bits is .row, B is .col");
	*form = matrix == MATRIX_A   ? matrix_of(MATRIX_A, m, k, type)
		: matrix == MATRIX_B ? matrix_of(MATRIX_B, n, k, type)
				     : matrix_of(MATRIX_C, m, n, type);
	form->along = row[0] != (matrix == MATRIX_B);
	ins->extra = form;
	emu_results(ins, stores ? 0 : 1);
	return emu_want_operands(decode, 2, 3) && emu_want_address(decode, stores ? 0 : 1) &&
	       want_matrix(decode, stores ? 1 : 0, form) &&
	       (ins->operand_count == 2 || emu_want_value(decode, 2, 32));
}

static bool decode_load(struct emu_decode *decode)
{
	return decode_move(decode, false);
}

static bool decode_store(struct emu_decode *decode)
{
	return decode_move(decode, true);
}

/* .d.c, where A and B are f16, or .d.a.b.c. */
static bool take_types(struct emu_decode *decode, enum emu_type types[4])
{
	int count = 0;

	while (count < 4 && (types[count] = emu_take_type(decode)) != EMU_T_NONE)
		count++;
	if (count == 2) {
		types[3] = types[1];
		types[1] = types[2] = EMU_T_F16;
	}
	if (count != 2 && count != 4)
		return emu_reject(decode, "the types are .d.c, or .d.a.b.c");
	if (types[1] == EMU_T_F16)
		return (types[0] == EMU_T_F16 || types[0] == EMU_T_F32) &&
				       (types[3] == EMU_T_F16 || types[3] == EMU_T_F32)
			       ? true
			       : emu_reject(decode, "D and C are .f16 or .f32");
	if (types[0] != types[3] ||
	    types[0] != (types[1] == EMU_T_F64                              ? EMU_T_F64
			 : types[1] == EMU_T_BF16 || types[1] == EMU_T_TF32 ? EMU_T_F32
									    : EMU_T_S32))
		return emu_reject(decode, "D .%s and C .%s do not go with .%s operands",
				  emu_types[types[0]].text, emu_types[types[3]].text,
				  emu_types[types[1]].text);
	return types[1] == types[2] || emu_reject(decode, "A and B must be of one type");
}

static bool take_product(struct emu_decode *decode, struct wmma_form *form,
			 const enum emu_type types[4])
{
	static const char *const operations[] = {"and", "xor", NULL};
	int operation = emu_take_one(decode, operations);
	bool bits = types[1] == EMU_T_B1;

	form->doubles = types[1] == EMU_T_F64;
	form->half_c = types[3] == EMU_T_F16;
	if (form->rounded && !form->doubles)
		return emu_reject(decode, "a rounding goes with .f64");
	form->half_d = types[0] == EMU_T_F16;
	/* From C of f32 the sum is one of f32, rounded once more. */
	form->product.half_d = form->half_d && form->half_c;
	form->product.saturate = emu_take(decode, "satfinite");
	form->product.exclusive = operation == 1;
	if (operation == -2 || (!form->doubles && (!emu_element_of(types[1], &form->product.a) ||
						   !emu_element_of(types[2], &form->product.b))))
		return emu_reject(decode, "A .%s does not exist", emu_types[types[1]].text);
	if (bits != (operation >= 0) || (bits && !emu_take(decode, "popc")))
		return emu_reject(decode, ".and.popc and .xor.popc go with .b1, which needs one");
	if (form->product.saturate && (bits || types[0] != EMU_T_S32))
		return emu_reject(decode, ".satfinite goes with .s32");
	return true;
}

static bool take_rounding(struct emu_decode *decode, struct wmma_form *form)
{
	int rounding = emu_take_one(decode, emu_rounding_names);

	if (rounding == -2)
		return false;
	if (rounding == EMU_ROUND_NEAREST_AWAY)
		return emu_reject(decode, "'.rna' goes with cvt alone");
	form->rounded = rounding >= 0;
	form->rounding = rounding < 0 ? EMU_ROUND_NEAREST_EVEN : (enum emu_rounding)rounding;
	return true;
}

static bool decode_mma(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct wmma_form *form = emu_decode_extra(decode, sizeof *form);
	enum emu_type types[4];
	bool row[2];
	int k;

	if (!form || !emu_take_aligned(decode) || !take_shape(decode, &form->m, &form->n, &k))
		return false;
	if (emu_take_orders(decode, row) != 2)
		return emu_reject(decode, "the order of A and of B is needed: .row or .col");
	if (!take_rounding(decode, form) || !take_types(decode, types) ||
	    !take_product(decode, form, types))
		return false;
	if (!legal_shape(types[1], form->m, form->n, k) ||
	    (emu_types[types[1]].bits < 8 && (!row[0] || row[1])))
		return emu_reject(decode, "this shape and order do not exist for .%s",
				  emu_types[types[1]].text);
	form->product.k = types[1] == EMU_T_TF32 ? k / 2 : k; /* two products, as seen on an H200 */
	form->a = matrix_of(MATRIX_A, form->m, k, types[1]);
	form->b = matrix_of(MATRIX_B, form->n, k, types[2]);
	form->c = matrix_of(MATRIX_C, form->m, form->n, types[3]);
	form->d = matrix_of(MATRIX_C, form->m, form->n, types[0]);
	ins->extra = form;
	emu_results(ins, 1);
	return emu_want_operands(decode, 4, 4) && want_matrix(decode, 0, &form->d) &&
	       want_matrix(decode, 1, &form->a) && want_matrix(decode, 2, &form->b) &&
	       want_matrix(decode, 3, &form->c);
}

static const struct emu_opcode rows[] = {
	{"wmma.load", decode_load, execute_load, 0},
	{"wmma.store", decode_store, execute_store, EMU_P_NO_RESULT},
	{"wmma.mma", decode_mma, execute_mma, 0},
};

EMU_OPCODE_TABLE(wmma, rows);

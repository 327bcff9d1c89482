/* mma.sync with layouts of their own: f64, and the four 8x8x4 products of f16. */
#include "warp_mma.h"

#include "number.h"
#include "rounding.h"

#include <math.h>

/* ---- f64 ------------------------------------------------------------------------------ */

struct double_form {
	int rows, k;
	enum emu_rounding rounding;
};

static double double_of(const struct emu_warp *warp, const struct emu_operand *operand, int i,
			int lane)
{
	uint64_t bits = emu_value(warp, emu_item(operand, i), lane);
	double value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

/* A NaN goes on quiet: that of B, else of the sum, else of A. */
double emu_warp_multiply_add(double a, double b, double sum)
{
	const double *nan = isnan(b) ? &b : isnan(sum) ? &sum : &a;
	uint64_t bits;

	if (!isnan(a) && !isnan(b) && !isnan(sum))
		return fma(a, b, sum);
	memcpy(&bits, nan, sizeof bits);
	bits |= 0x0008000000000000u;
	memcpy(&sum, &bits, sizeof sum);
	return sum;
}

/* Element i of A: row g, and g + 8 where there are 16; then the next 4 of K.  Of B: 4 of K each. */
static enum emu_step execute_double(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct double_form *form = ins->extra;
	int halves = form->rows / 8;
	double a[16][16], b[8][16], d[EMU_LANES][4];

	for (int lane = 0; lane < EMU_LANES; lane++) {
		int g = lane >> 2, q = lane & 3;

		for (int i = 0; i < form->k / 4 * halves; i++)
			a[g + 8 * (i % halves)][q + 4 * (i / halves)] =
				double_of(warp, &ins->operands[1], i, lane);
		for (int i = 0; i < form->k / 4; i++)
			b[g][q + 4 * i] = double_of(warp, &ins->operands[2], i, lane);
	}
	emu_host_rounding(form->rounding);
	EMU_FOR_LANES(lane, mask)
	{
		for (int i = 0; i < 2 * halves; i++) {
			const double *row = a[(lane >> 2) + 8 * (uint32_t)(i >> 1)];
			const double *column = b[2 * (lane & 3) + (i & 1)];
			double sum = double_of(warp, &ins->operands[3], i, (int)lane);

			for (int k = 0; k < form->k; k++)
				sum = emu_warp_multiply_add(row[k], column[k], sum);
			d[lane][i] = sum;
		}
	}
	emu_host_rounding(EMU_ROUND_NEAREST_EVEN);
	EMU_FOR_LANES(lane, mask)
	{
		for (int i = 0; i < 2 * halves; i++) {
			uint64_t bits;

			memcpy(&bits, &d[lane][i], sizeof bits);
			emu_set_value(warp, emu_item(&ins->operands[0], i), (int)lane, bits);
		}
	}
	warp->worker->counters.mma_flops += 2ull * (uint64_t)(form->rows * 8 * form->k);
	warp->worker->counters.mma_instructions++;
	return EMU_NEXT;
}

bool emu_decode_mma_double(struct emu_decode *decode, int rows, int k)
{
	struct double_form *form = emu_decode_extra(decode, sizeof *form);
	int rounding = emu_take_one(decode, emu_rounding_names), halves = rows / 8;

	if (!form || rounding == -2)
		return false;
	if (rounding == EMU_ROUND_NEAREST_AWAY)
		return emu_reject(decode, "'.rna' goes with cvt alone");
	for (int i = 0; i < 4; i++)
		if (emu_take_type(decode) != EMU_T_F64)
			return emu_reject(decode, "all four types must be .f64");
	if (k != 4 && (rows == 8 || (k != 8 && k != 16)))
		return emu_reject(decode, "K = %d is not supported for .f64", k);
	*form = (struct double_form){
		rows, k, rounding < 0 ? EMU_ROUND_NEAREST_EVEN : (enum emu_rounding)rounding};
	decode->ins->extra = form;
	decode->ins->execute = execute_double;
	return emu_want_operands(decode, 4, 4) && emu_want_vector(decode, 0, 2 * halves, 64) &&
	       emu_want_vector(decode, 1, k / 4 * halves, 64) &&
	       emu_want_vector(decode, 2, k / 4, 64) && emu_want_vector(decode, 3, 2 * halves, 64);
}

/* ---- m8n8k4 of f16 ----------------------------------------------------------------------- */

/* Lanes 4p to 4p + 3 and 16 more make product p, 8 by 8 by 4. */
struct quad_form {
	bool column_a, row_b, half_c, half_d;
};

enum {
	quads = 4,
	side = 8,
	depth = 4
};

static int quad_of(int lane)
{
	return lane / 4 % quads;
}

/* Of a lane in its quad pair: 0 .. 7. */
static int member(int lane)
{
	return lane % 4 + lane / 16 * 4;
}

static float half_of(const struct emu_warp *warp, const struct emu_operand *operand, int i,
		     int lane)
{
	uint64_t word = emu_value(warp, emu_item(operand, i / 2), lane);

	return emu_f16_to_f32((uint16_t)(word >> 16 * (i & 1)));
}

/* Row and column of element i of C and D. */
static void place(bool half, int i, int lane, int *row, int *column)
{
	*row = half ? member(lane) : (lane & 1) + (i & 2) + lane / 16 * 4;
	*column = half ? i : (i & 4) + (lane & 2) + (i & 1);
}

/* The assembler makes a chain of fma in f32 of it, from zero; C comes last. */
static void multiply_by_chain(const float *a, const float *b, float *tile)
{
	for (int j = 0; j < side; j++) {
		for (int r = 0; r < side; r++) {
			float *d = &tile[j * EMU_GEMM_ROWS + r], sum = 0;

			for (int k = 0; k < depth; k++)
				sum = fmaf(a[k * EMU_GEMM_ROWS + r], b[j * depth + k], sum);
			*d += sum;
			if (isnan(*d))
				*d = emu_f32_of_bits(0x7fffffff);
		}
	}
}

static enum emu_step execute_quad(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct quad_form *form = ins->extra;
	const struct emu_warp_product product = {
		.a = EMU_ELEMENT_F16, .b = EMU_ELEMENT_F16, .k = depth, .half_d = form->half_d};
	float a[quads][depth * EMU_GEMM_ROWS] = {{0}}, b[quads][side * depth];
	float tile[quads][side * EMU_GEMM_ROWS] = {{0}};
	int row, column;

	for (int lane = 0; lane < EMU_LANES; lane++) {
		int quad = quad_of(lane), high = lane / 16 * 4;

		for (int i = 0; i < 4; i++) {
			int m = form->column_a ? i + high : member(lane);
			int k = form->column_a ? lane % 4 : i;

			a[quad][k * EMU_GEMM_ROWS + m] = half_of(warp, &ins->operands[1], i, lane);
			k = form->row_b ? lane % 4 : i;
			m = form->row_b ? i + high : member(lane);
			b[quad][m * depth + k] = half_of(warp, &ins->operands[2], i, lane);
		}
		for (int i = 0; i < 8; i++) {
			place(form->half_c, i, lane, &row, &column);
			tile[quad][column * EMU_GEMM_ROWS + row] =
				form->half_c ? half_of(warp, &ins->operands[3], i, lane)
					     : emu_f32_of_bits((uint32_t)emu_value(
						       warp, emu_item(&ins->operands[3], i), lane));
		}
	}
	for (int quad = 0; quad < quads; quad++)
		if (warp->grid->numerics == EMU_HARDWARE)
			multiply_by_chain(a[quad], b[quad], tile[quad]);
		else
			emu_warp_multiply(warp, &product, side, a[quad], b[quad], tile[quad]);
	EMU_FOR_LANES(lane, mask)
	{
		const float *d = tile[quad_of((int)lane)];

		for (int i = 0; i < 8; i += form->half_d ? 2 : 1) {
			uint32_t word;

			place(form->half_d, i, (int)lane, &row, &column);
			word = emu_bits_of_f32(d[column * EMU_GEMM_ROWS + row]);
			if (form->half_d)
				word = emu_f16_from_f32(d[column * EMU_GEMM_ROWS + row]) |
				       (uint32_t)emu_f16_from_f32(
					       d[(column + 1) * EMU_GEMM_ROWS + row])
					       << 16;
			emu_set_value(warp, emu_item(&ins->operands[0], form->half_d ? i / 2 : i),
				      (int)lane, word);
		}
	}
	warp->worker->counters.mma_instructions++;
	return EMU_NEXT;
}

bool emu_decode_mma_quad(struct emu_decode *decode)
{
	struct quad_form *form = emu_decode_extra(decode, sizeof *form);
	enum emu_type types[4];
	bool row[2];

	if (!form)
		return false;
	if (emu_take_orders(decode, row) != 2)
		return emu_reject(decode, "the order of A and of B is needed: .row or .col");
	for (int i = 0; i < 4; i++)
		types[i] = emu_take_type(decode);
	if (types[1] != EMU_T_F16 || types[2] != EMU_T_F16 ||
	    (types[0] != EMU_T_F16 && types[0] != EMU_T_F32) ||
	    (types[3] != EMU_T_F16 && types[3] != EMU_T_F32) ||
	    (types[0] == EMU_T_F16 && types[3] == EMU_T_F32))
		return emu_reject(decode, ".m8n8k4 multiplies .f16 or .f64");
	*form = (struct quad_form){!row[0], row[1], types[3] == EMU_T_F16, types[0] == EMU_T_F16};
	decode->ins->extra = form;
	decode->ins->execute = execute_quad;
	return emu_want_operands(decode, 4, 4) &&
	       emu_want_vector(decode, 0, form->half_d ? 4 : 8, 32) &&
	       emu_want_vector(decode, 1, 2, 32) && emu_want_vector(decode, 2, 2, 32) &&
	       emu_want_vector(decode, 3, form->half_c ? 4 : 8, 32);
}

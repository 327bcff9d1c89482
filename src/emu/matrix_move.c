/* ldmatrix and stmatrix: 8x8 and 8-bit matrices between shared memory and a warp (9.4). */
#include "hazard.h"
#include "lanes.h"

enum matrix_shape {
	MATRIX_8x8,   /* 16-bit */
	MATRIX_16x16, /* 8-bit, transposed */
	MATRIX_8x16,  /* 4- and 6-bit, widened to bytes */
	MATRIX_16x8   /* 8-bit, transposed store */
};

struct matrix_form {
	enum matrix_shape shape;
	bool transposed;
	int count;           /* matrices */
	int registers, rows; /* of all matrices: rows of 16 bytes */
	int narrow;          /* 4 or 6: bits of an element in memory; 0: all 8 or 16 */
};

/* Pointers to the rows that the lanes name in operand i; false after a fault. */
static bool find_rows(struct emu_warp *warp, const struct emu_ins *ins, int i,
		      uint8_t *rows[EMU_LANES], enum emu_access_kind kind)
{
	const struct matrix_form *form = ins->extra;
	const struct emu_operand *address = &ins->operands[i];
	struct emu_lanes lanes;

	if (!warp->order) {
		if (!emu_resolve(warp, ins, i, EMU_FULL >> (EMU_LANES - form->rows), 16, kind,
				 &lanes))
			return false;
		memcpy(rows, lanes.at, sizeof lanes.at);
		return true;
	}
	for (int lane = 0; lane < form->rows; lane++) {
		uint64_t at = emu_address(warp, address, lane);

		rows[lane] = emu_mem(warp, lane, (enum emu_space)ins->space, at, 16, 16, kind);
		if (!rows[lane])
			return false;
		if (warp->order)
			emu_watch_one(warp, lane, (enum emu_space)ins->space, at, 16, kind);
	}
	return true;
}

static uint32_t half(const uint8_t *row, int column)
{
	return row[2 * column] | (uint32_t)row[2 * column + 1] << 8;
}

/* Element i of the packed 4- or 6-bit row, in the low bits of a byte. */
static uint32_t narrow_element(const uint8_t *row, int bits, int i)
{
	int at = i * bits;
	uint32_t pair = row[at / 8] | (uint32_t)row[at / 8 + 1] << 8;

	return pair >> at % 8 & ((1u << bits) - 1);
}

/* An element of a row of 16: a byte, or 4 or 6 bits in the low bits of one. */
static uint32_t element16(const struct matrix_form *form, const uint8_t *row, int i)
{
	return form->narrow ? narrow_element(row, form->narrow, i) : row[i];
}

static uint32_t load_register(const struct matrix_form *form, uint8_t *const *rows, int j, int lane)
{
	int g = lane >> 2, q = lane & 3;
	uint32_t value = 0;

	switch (form->shape) {
	case MATRIX_8x8:
		rows += 8 * j;
		if (form->transposed)
			return half(rows[2 * q], g) | half(rows[2 * q + 1], g) << 16;
		return half(rows[g], 2 * q) | half(rows[g], 2 * q + 1) << 16;
	case MATRIX_16x16:
		rows += 16 * (j / 2);
		for (int byte = 0; byte < 4; byte++)
			value |= element16(form, rows[4 * q + byte], g + 8 * (j % 2)) << 8 * byte;
		return value;
	default:
		rows += 8 * j;
		for (int byte = 0; byte < 4; byte++)
			value |= narrow_element(rows[g], form->narrow, 4 * q + byte) << 8 * byte;
		return value;
	}
}

static void store_register(const struct matrix_form *form, uint8_t *const *rows, int j, int lane,
			   uint32_t value)
{
	int g = lane >> 2, q = lane & 3;
	uint16_t low = (uint16_t)value, high = (uint16_t)(value >> 16);

	rows += 8 * j;
	if (form->shape == MATRIX_16x8) {
		for (int byte = 0; byte < 4; byte++)
			rows[2 * q + (byte & 1)][g + 8 * (byte >> 1)] =
				(uint8_t)(value >> 8 * byte);
	} else if (form->transposed) {
		memcpy(rows[2 * q] + 2 * g, &low, 2);
		memcpy(rows[2 * q + 1] + 2 * g, &high, 2);
	} else {
		memcpy(rows[g] + 4 * q, &value, 4);
	}
}

/* Four lanes hold a row as it is in memory. */
static bool plain(const struct matrix_form *form)
{
	return form->shape == MATRIX_8x8 && !form->transposed;
}

static enum emu_step execute_load(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct matrix_form *form = ins->extra;
	uint8_t *rows[EMU_LANES];

	if (!find_rows(warp, ins, 1, rows, EMU_READ))
		return EMU_STOPPED;
	for (int j = 0; j < form->registers; j++) {
		const struct emu_operand *item = emu_item(&ins->operands[0], j);

		if (plain(form) && mask == EMU_FULL && item->kind == EMU_O_REGISTER) {
			for (int row = 0; row < 8; row++)
				memcpy(emu_row32(warp, item->ref) + 4 * row, rows[8 * j + row], 16);
			continue;
		}
		EMU_FOR_LANES(lane, mask)
		{
			emu_set_value(warp, item, (int)lane,
				      load_register(form, rows, j, (int)lane));
		}
	}
	warp->worker->counters.shared_read += (uint64_t)form->rows * 16;
	return EMU_NEXT;
}

static enum emu_step execute_store(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct matrix_form *form = ins->extra;
	uint8_t *rows[EMU_LANES];

	if (!find_rows(warp, ins, 0, rows, EMU_WRITE))
		return EMU_STOPPED;
	for (int j = 0; j < form->registers; j++) {
		const uint32_t *row = emu_row32(warp, emu_item(&ins->operands[1], j)->ref);

		if (plain(form) && mask == EMU_FULL) {
			for (int i = 0; i < 8; i++)
				memcpy(rows[8 * j + i], row + 4 * i, 16);
			continue;
		}
		EMU_FOR_LANES(lane, mask)
		{
			store_register(form, rows, j, (int)lane, row[lane]);
		}
	}
	warp->worker->counters.shared_written += (uint64_t)form->rows * 16;
	emu_changed(warp->worker);
	return EMU_NEXT;
}

/* Thread t holds (row t/4, columns 2(t%4) and the next) of an 8x8 matrix, and gets its transpose.
 */
static enum emu_step execute_transpose(struct emu_warp *warp, const struct emu_ins *ins,
				       uint32_t mask)
{
	uint32_t from[EMU_LANES];

	memcpy(from, emu_row32(warp, ins->operands[1].ref), sizeof from);
	EMU_FOR_LANES(lane, mask)
	{
		uint32_t g = lane >> 2, q = lane & 3, shift = 16 * (g & 1), value = 0;

		for (uint32_t half = 0; half < 2; half++)
			value |= (from[4 * (2 * q + half) + g / 2] >> shift & 0xffff) << 16 * half;
		emu_set_value(warp, &ins->operands[0], (int)lane, value);
	}
	return EMU_NEXT;
}

/* ---- decode ------------------------------------------------------------------------- */

static bool take_form(struct emu_decode *decode, struct matrix_form *form)
{
	static const char *const shapes[] = {"m8n8", "m16n16", "m8n16", "m16n8", NULL};
	static const char *const counts[] = {"x1", "x2", "x4", NULL};
	static const char *const sources[] = {"b4x16_p64", "b6x16_p32", NULL};
	int shape = emu_take_one(decode, shapes), count = emu_take_one(decode, counts);
	int source = emu_take_one(decode, sources);
	bool wide = emu_take(decode, "b8x16");

	if (shape == -2 || count == -2 || source == -2)
		return false;
	if (shape < 0 || count < 0)
		return emu_reject(decode, "a shape (.m8n8 ...) and a number (.x1, .x2, .x4) are "
					  "needed");
	if (!emu_take_aligned(decode))
		return false;
	form->shape = (enum matrix_shape)shape;
	if (shape != MATRIX_8x8 &&
	    !emu_want_target(decode, EMU_P_SM100 | EMU_P_SPECIFIC, shapes[shape]))
		return false;
	form->count = 1 << count;
	form->transposed = emu_take(decode, "trans");
	form->narrow = source < 0 ? 0 : source == 0 ? 4 : 6;
	form->registers = form->shape == MATRIX_16x16 ? 2 * form->count : form->count;
	form->rows = form->shape == MATRIX_16x16 ? 16 * form->count : 8 * form->count;
	if (wide != (source >= 0) || (form->shape == MATRIX_8x16 && !wide) ||
	    (wide && form->shape != MATRIX_8x16 && form->shape != MATRIX_16x16))
		return emu_reject(decode, ".b8x16.b4x16_p64 and .b8x16.b6x16_p32 go with .m8n16, "
					  "which needs one of them, and .m16n16");
	if (form->shape == MATRIX_8x16 && form->transposed)
		return emu_reject(decode, ".m8n16 takes no .trans");
	if (form->shape == MATRIX_16x16 && (count == 2 || !form->transposed))
		return emu_reject(decode, ".m16n16 needs .trans and .x1 or .x2");
	if (form->shape == MATRIX_16x8 && !form->transposed)
		return emu_reject(decode, ".m16n8 needs .trans");
	if (!wide)
		emu_take(decode, form->shape == MATRIX_8x8 ? "b16" : "b8");
	decode->ins->space = emu_take_space(decode, EMU_GENERIC);
	decode->ins->extra = form;
	return true;
}

static bool decode_load(struct emu_decode *decode)
{
	struct matrix_form *form = emu_decode_extra(decode, sizeof *form);

	if (!form || !take_form(decode, form))
		return false;
	if (form->shape == MATRIX_16x8)
		return emu_reject(decode, ".m16n8 belongs to stmatrix");
	emu_results(decode->ins, 1);
	return emu_want_operands(decode, 2, 2) && emu_want_vector(decode, 0, form->registers, 32) &&
	       emu_want_address(decode, 1);
}

static bool decode_store(struct emu_decode *decode)
{
	struct matrix_form *form = emu_decode_extra(decode, sizeof *form);

	if (!form || !take_form(decode, form))
		return false;
	if (form->shape != MATRIX_8x8 && form->shape != MATRIX_16x8)
		return emu_reject(decode, "stmatrix takes .m8n8 and .m16n8");
	emu_results(decode->ins, 0);
	return emu_want_operands(decode, 2, 2) && emu_want_address(decode, 0) &&
	       emu_want_vector(decode, 1, form->registers, 32);
}

static bool decode_transpose(struct emu_decode *decode)
{
	static const char *const words[] = {"sync", "aligned", "m8n8", "trans", "b16"};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!emu_take(decode, words[i]))
			return emu_reject(decode, ".%s is missing", words[i]);
	decode->ins->flags |= EMU_I_ALIGNED;
	return emu_want_operands(decode, 2, 2) && emu_want_register(decode, 0, 32) &&
	       emu_want_register(decode, 1, 32);
}

static const struct emu_opcode rows[] = {
	{"movmatrix", decode_transpose, execute_transpose, 0},
	{"ldmatrix", decode_load, execute_load, 0},
	{"stmatrix", decode_store, execute_store, EMU_P_NO_RESULT | EMU_P_SM90},
};

EMU_OPCODE_TABLE(matrix_move, rows);

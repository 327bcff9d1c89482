/* tcgen05.cp and tcgen05.shift: shared memory to tensor memory, rows by one lane (5.2 to 5.4). */
#include "timeline.h"
#include "mma.h"

enum copy_shape {
	COPY_128x256b,
	COPY_4x256b,
	COPY_128x128b,
	COPY_64x128b,
	COPY_32x128b
};

static const char *const shape_names[] = {"128x256b", "4x256b",  "128x128b",
					  "64x128b",  "32x128b", NULL};

enum copy_spread {
	SPREAD_NONE,
	SPREAD_02_13, /* row i to lanes i and i + 64 */
	SPREAD_01_23, /* rows 0..31 to lanes 0..63, rows 32..63 to 64..127 */
	SPREAD_4
};

struct copy_form {
	enum copy_shape shape;
	enum copy_spread spread;
	int cta_group;
	int narrow; /* 0, or bits of the packed source elements */
};

struct copy_op {
	struct emu_engine_op op;
	const struct copy_form *form;
	struct emu_cta *cta;
	uint32_t address;
	uint64_t descriptor;
};

static int rows_of(enum copy_shape shape)
{
	static const int rows[] = {128, 4, 128, 64, 32};

	return rows[shape];
}

static int units_of(enum copy_shape shape)
{
	return shape == COPY_128x256b || shape == COPY_4x256b ? 2 : 1;
}

/* The lanes that a row goes to, from the lane of the address. */
static int lanes_of(const struct copy_form *form, int row, int lanes[4])
{
	switch (form->spread) {
	case SPREAD_02_13:
		lanes[0] = row;
		lanes[1] = row + 64;
		return 2;
	case SPREAD_01_23:
		lanes[0] = row / 32 * 64 + row % 32;
		lanes[1] = lanes[0] + 32;
		return 2;
	case SPREAD_4:
		for (int i = 0; i < 4; i++)
			lanes[i] = row + 32 * i;
		return 4;
	default:
		lanes[0] = form->shape == COPY_4x256b ? 32 * row : row;
		return 1;
	}
}

/* 16 packed elements to one a byte: fp4 in bits 5:2, fp6 in bits 6:1. */
static void widen(int bits, const uint8_t *unit, uint8_t *out)
{
	for (int i = 0; i < 16; i++) {
		int at = i * bits;
		uint32_t pair = unit[at / 8] | (uint32_t)unit[at / 8 + 1] << 8;
		uint32_t code = pair >> at % 8 & ((1u << bits) - 1);

		out[i] = (uint8_t)(bits == 4 ? code << 2 : code << 1);
	}
}

static bool copy_into(const struct copy_op *op, struct emu_cta *cta,
		      const struct emu_smem_descriptor *descriptor)
{
	struct emu_smem_view view = emu_smem_of(cta);
	uint8_t raw[128 * 32], wide[16];
	struct emu_error error;
	int units = units_of(op->form->shape), rows = rows_of(op->form->shape);
	uint32_t column = op->address & 0xffff;
	int base = (int)(op->address >> 16), lanes[4];
	emu_tmem_column *cells;

	if (!emu_tmem_check(cta, &op->op.where, column, (uint32_t)units * 4, "tcgen05.cp"))
		return false;
	cells = emu_tmem_of(cta)->columns + column;
	if (!emu_operand_gather(descriptor, false, 1, rows, units * 16, &view, raw, &error)) {
		emu_fault_at(&op->op.where, "smem-descriptor", "tcgen05.cp: %s", error.text);
		return false;
	}
	for (int row = 0; row < rows; row++)
		for (int u = 0; u < units; u++) {
			const uint8_t *unit = raw + (row * units + u) * 16;
			int count = lanes_of(op->form, row, lanes);

			if (op->form->narrow) {
				widen(op->form->narrow, unit, wide);
				unit = wide;
			}
			for (int i = 0; i < count; i++)
				for (int c = 0; c < 4; c++)
					memcpy(&cells[u * 4 + c]
						     [(lanes[i] + base) % EMU_TMEM_LANES],
					       unit + c * 4, 4);
		}
	cta->worker->counters.shared_read += (uint64_t)(rows * units) * 16;
	cta->worker->counters.tmem_written += (uint64_t)(rows * units) * 16;
	return true;
}

static void complete_copy(struct emu_engine_op *base)
{
	struct copy_op *op = (struct copy_op *)base;
	struct emu_smem_descriptor descriptor;
	struct emu_error error;
	uint32_t lane = op->address >> 16;

	if (!emu_descriptor_tcgen05(op->descriptor, false, &descriptor, &error)) {
		emu_fault_at(&op->op.where, "smem-descriptor", "tcgen05.cp: %s", error.text);
		return;
	}
	if (descriptor.absolute) {
		emu_fault_at(&op->op.where, "smem-descriptor",
			     "tcgen05.cp: the absolute leading address (bit 52) belongs to "
			     "tcgen05.mma with K = 96");
		return;
	}
	if (lane && (op->form->shape != COPY_4x256b || lane >= 32)) {
		emu_fault_at(&op->op.where, "tmem-address",
			     "tcgen05.cp to lane %u; shape %s begins at lane 0%s", lane,
			     shape_names[op->form->shape],
			     op->form->shape == COPY_4x256b ? "..31" : "");
		return;
	}
	if (!copy_into(op, op->cta, &descriptor) || op->form->cta_group == 1)
		return;
	if (!emu_peer(op->cta))
		emu_fault_at(&op->op.where, "cta-pair",
			     "cta_group::2 needs a cluster of an even "
			     "number of CTAs");
	else
		copy_into(op, emu_peer(op->cta), &descriptor);
}

/* ---- order ----------------------------------------------------------------------------- */

static void watch_copy_in(const struct copy_op *op, struct emu_order *order, int lane,
			  struct emu_cta *cta, const struct emu_smem_descriptor *descriptor)
{
	struct emu_moment moment = emu_moment_of(order, EMU_ACTOR_MMA, lane);
	struct emu_watched w = {emu_access_by(order, EMU_ACTOR_MMA, lane, moment, EMU_READ), cta,
				0};
	uint32_t columns = (uint32_t)units_of(op->form->shape) * 4, column = op->address & 0xffff;
	uint32_t base = op->address >> 16;

	emu_watch_operand(&w, descriptor, false, 1, rows_of(op->form->shape),
			  units_of(op->form->shape) * 16);
	w.access = emu_access_by(order, EMU_ACTOR_MMA, lane, moment, EMU_WRITE);
	if (op->form->shape != COPY_4x256b) {
		emu_access_tmem_lanes(&w.access, cta, column, columns, 0, EMU_TMEM_LANES);
		return;
	}
	for (uint32_t row = 0; row < 4; row++)
		emu_access_tmem(&w.access, cta, column, columns,
				(32 * row + base) % EMU_TMEM_LANES / EMU_TMEM_WINDOW,
				(uint16_t)(1u << base % EMU_TMEM_WINDOW));
}

static void watch_copy(const struct copy_op *op, struct emu_order *order, int lane)
{
	struct emu_smem_descriptor descriptor;
	struct emu_error error;

	if (!emu_descriptor_tcgen05(op->descriptor, false, &descriptor, &error))
		return;
	watch_copy_in(op, order, lane, op->cta, &descriptor);
	if (op->form->cta_group == 2 && emu_peer(op->cta))
		watch_copy_in(op, order, lane, emu_peer(op->cta), &descriptor);
	emu_mma_issued(order, lane);
	if (emu_timeline_on(order))
		emu_timeline_tensor_copy(order, op->cta,
					 (uint64_t)rows_of(op->form->shape) *
						 (uint64_t)units_of(op->form->shape) * 16);
}

static void watch_shift(const struct copy_op *op, struct emu_order *order, int lane)
{
	struct emu_access access = emu_access_by(
		order, EMU_ACTOR_MMA, lane, emu_moment_of(order, EMU_ACTOR_MMA, lane), EMU_WRITE);
	uint32_t column = op->address & 0xffff, from = op->address >> 16 & ~31u;

	emu_access_tmem_lanes(&access, op->cta, column, 8, from, 32);
	if (op->form->cta_group == 2 && emu_peer(op->cta))
		emu_access_tmem_lanes(&access, emu_peer(op->cta), column, 8, from, 32);
	emu_mma_issued(order, lane);
}

/* Of a copy or a shift, which has no descriptor. */
static enum emu_step issue(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			   void (*complete)(struct emu_engine_op *op),
			   void (*watch)(const struct copy_op *op, struct emu_order *order,
					 int lane))
{
	EMU_FOR_LANES(lane, mask)
	{
		struct copy_op *op = emu_op_new(warp, (int)lane, sizeof *op, complete);
		if (!op)
			return EMU_STOPPED;
		op->form = ins->extra;
		op->cta = warp->cta;
		op->address = (uint32_t)emu_address(warp, &ins->operands[0], (int)lane);
		if (ins->operand_count > 1)
			op->descriptor = emu_value(warp, &ins->operands[1], (int)lane);
		op->op.order = &emu_async_of_warp(warp)->lanes[lane].commit_order;
		if (warp->order)
			watch(op, warp->order, (int)lane);
		emu_op_issue(warp, op);
	}
	return EMU_NEXT;
}

static enum emu_step execute_copy(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	return issue(warp, ins, mask, complete_copy, watch_copy);
}

/* ---- shift ---------------------------------------------------------------------------- */

static bool shift_in(const struct copy_op *op, struct emu_cta *cta)
{
	uint32_t column = op->address & 0xffff, lane = op->address >> 16;

	if (!emu_tmem_check(cta, &op->op.where, column, 8, "tcgen05.shift"))
		return false;
	for (uint32_t c = column; c < column + 8; c++) {
		uint32_t *lanes = &emu_tmem_of(cta)->columns[c][lane];
		memmove(lanes, lanes + 1, 31 * sizeof *lanes);
	}
	return true;
}

static void complete_shift(struct emu_engine_op *base)
{
	struct copy_op *op = (struct copy_op *)base;
	uint32_t lane = op->address >> 16;

	if (lane % 32 || lane >= EMU_TMEM_LANES) {
		emu_fault_at(&op->op.where, "tmem-address",
			     "tcgen05.shift at lane %u; it must be 0, 32, 64 or 96", lane);
		return;
	}
	if (!shift_in(op, op->cta) || op->form->cta_group == 1)
		return;
	if (!emu_peer(op->cta))
		emu_fault_at(&op->op.where, "cta-pair",
			     "cta_group::2 needs a cluster of an even "
			     "number of CTAs");
	else
		shift_in(op, emu_peer(op->cta));
}

static enum emu_step execute_shift(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	return issue(warp, ins, mask, complete_shift, watch_shift);
}

/* ---- decode ------------------------------------------------------------------------------ */

static bool take_narrow(struct emu_decode *decode, struct copy_form *form)
{
	static const char *const sources[] = {"b4x16_p64", "b6x16_p32", NULL};
	bool wide = emu_take(decode, "b8x16");
	int source = emu_take_one(decode, sources);

	if (source == -2)
		return false;
	if (wide != (source >= 0))
		return emu_reject(decode, "decompression is .b8x16.b4x16_p64 or .b8x16.b6x16_p32");
	form->narrow = source < 0 ? 0 : source == 0 ? 4 : 6;
	return true;
}

static bool decode_copy(struct emu_decode *decode)
{
	static const char *const spreads[] = {"warpx2::02_13", "warpx2::01_23", "warpx4", NULL};
	struct copy_form *form = emu_decode_extra(decode, sizeof *form);
	int shape, spread;

	if (!form || !emu_take_cta_group(decode, &form->cta_group))
		return false;
	shape = emu_take_one(decode, shape_names);
	spread = emu_take_one(decode, spreads);
	if (shape == -2 || spread == -2)
		return false;
	if (shape < 0)
		return emu_reject(decode, "the shape is missing: .128x256b, .4x256b, .128x128b, "
					  ".64x128b or .32x128b");
	form->shape = (enum copy_shape)shape;
	form->spread = (enum copy_spread)(spread + 1);
	if ((shape == COPY_64x128b) != (spread == 0 || spread == 1) ||
	    (shape == COPY_32x128b) != (spread == 2))
		return emu_reject(decode,
				  ".64x128b needs .warpx2::02_13 or .warpx2::01_23, .32x128b "
				  "needs .warpx4, the other shapes take neither");
	decode->ins->extra = form;
	emu_results(decode->ins, 0);
	return take_narrow(decode, form) && emu_want_operands(decode, 2, 2) &&
	       emu_want_address(decode, 0) && emu_want_value(decode, 1, 64);
}

static bool decode_shift(struct emu_decode *decode)
{
	struct copy_form *form = emu_decode_extra(decode, sizeof *form);

	if (!form || !emu_take_cta_group(decode, &form->cta_group))
		return false;
	if (!emu_take(decode, "down"))
		return emu_reject(decode, ".down is missing");
	decode->ins->extra = form;
	emu_results(decode->ins, 0);
	return emu_want_operands(decode, 1, 1) && emu_want_address(decode, 0);
}

static const struct emu_opcode rows[] = {
	{"tcgen05.cp", decode_copy, execute_copy, EMU_P_NO_RESULT | EMU_P_SM100A},
	{"tcgen05.shift", decode_shift, execute_shift, EMU_P_NO_RESULT | EMU_P_SM100A},
};

EMU_OPCODE_TABLE(tcgen05_copy, rows);

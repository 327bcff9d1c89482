/* tcgen05.ld and tcgen05.st: tensor memory and the registers of a warp (5.1). */
#include "number.h"
#include "timeline.h"

#include <stdio.h>
#include <stdlib.h>

enum shape {
	SHAPE_32x32b,
	SHAPE_16x64b,
	SHAPE_16x128b,
	SHAPE_16x256b,
	SHAPE_16x32bx2
};

static const uint32_t not_loaded = 0x7fc0dead; /* a NaN */

static const char *const shape_names[] = {"32x32b",  "16x64b",   "16x128b",
					  "16x256b", "16x32bx2", NULL};

struct move_form {
	enum shape shape;
	bool packed; /* .pack::16b, .unpack::16b */
	int registers;
	uint32_t columns; /* that one window spans */
	uint32_t split;   /* 16x32bx2: distance of the second window */
	const struct emu_operand *address, *values;
	/* tcgen05.ld.red: the least or greatest that each thread loads; NULL for the others. */
	const struct emu_operand *extreme;
	enum emu_type type;
	bool greatest, absolute, nan;
};

struct move_op {
	struct emu_engine_op op;
	const struct move_form *form;
	struct emu_warp *warp;
	struct emu_frame *frame; /* of a load's registers */
	uint32_t mask, lane, column;
	uint32_t (*data)[EMU_LANES]; /* of a store */
};

/* Row and column of the cell that register r of thread t holds, from the address. */
static void cell(enum shape shape, uint32_t split, uint32_t t, uint32_t r, uint32_t *row,
		 uint32_t *column)
{
	switch (shape) {
	case SHAPE_32x32b:
		*row = t;
		*column = r;
		break;
	case SHAPE_16x64b:
		*row = (t >> 2) + 8 * (t & 1);
		*column = 2 * r + (t >> 1 & 1);
		break;
	case SHAPE_16x128b:
		*row = (t >> 2) + 8 * (r & 1);
		*column = 4 * (r >> 1) + (t & 3);
		break;
	case SHAPE_16x256b:
		*row = (t >> 2) + 8 * (r >> 1 & 1);
		*column = 8 * (r >> 2) + 2 * (t & 3) + (r & 1);
		break;
	case SHAPE_16x32bx2:
		*row = t & 15;
		*column = r + (t < 16 ? 0 : split);
		break;
	}
}

static uint32_t load_cell(const emu_tmem_column *columns, const struct move_op *op, uint32_t t,
			  uint32_t r)
{
	uint32_t row, column;

	cell(op->form->shape, op->form->packed ? 0 : op->form->split, t, r, &row, &column);
	row += op->lane;
	if (!op->form->packed)
		return columns[op->column + column][row];
	column = op->column + 2 * column +
		 (op->form->shape == SHAPE_16x32bx2 && t >= 16 ? op->form->split : 0);
	return (columns[column][row] & 0xffff) | columns[column + 1][row] << 16;
}

static void store_cell(emu_tmem_column *columns, const struct move_op *op, uint32_t t, uint32_t r,
		       uint32_t value)
{
	uint32_t row, column;

	cell(op->form->shape, op->form->packed ? 0 : op->form->split, t, r, &row, &column);
	row += op->lane;
	if (!op->form->packed) {
		columns[op->column + column][row] = value;
		return;
	}
	column = op->column + 2 * column +
		 (op->form->shape == SHAPE_16x32bx2 && t >= 16 ? op->form->split : 0);
	columns[column][row] = value & 0xffff;
	columns[column + 1][row] = value >> 16;
}

static bool check(const struct move_op *op, const char *what)
{
	struct emu_cta *cta = op->warp->cta;

	return emu_tmem_check(cta, &op->op.where, op->column, op->form->columns, what) &&
	       (op->form->shape != SHAPE_16x32bx2 ||
		emu_tmem_check(cta, &op->op.where, op->column + op->form->split, op->form->columns,
			       what));
}

static uint32_t choose_float(const struct move_form *form, uint32_t a, uint32_t b)
{
	uint32_t magnitude = form->absolute ? 0x7fffffff : 0xffffffff;
	float x = emu_f32_of_bits(a & magnitude), y = emu_f32_of_bits(b & magnitude);

	if (x != x || y != y) {
		if (form->nan || (x != x && y != y))
			return 0x7fffffff;
		return x != x ? b & magnitude : a & magnitude;
	}
	if (x == y) /* -0 is less than +0 */
		return form->greatest ? a & b & magnitude : (a | b) & magnitude;
	return (x < y) != form->greatest ? a & magnitude : b & magnitude;
}

static uint32_t choose(const struct move_form *form, uint32_t a, uint32_t b)
{
	bool less = form->type == EMU_T_S32 ? (int32_t)a < (int32_t)b : a < b;

	if (form->type == EMU_T_F32)
		return choose_float(form, a, b);
	return less != form->greatest ? a : b;
}

static void store_extremes(const struct move_op *op, const emu_tmem_column *columns)
{
	const struct move_form *form = op->form;

	if (!form->extreme || form->extreme->kind != EMU_O_REGISTER)
		return;
	EMU_FOR_LANES(lane, op->mask)
	{
		uint32_t value = load_cell(columns, op, lane, 0);

		for (int r = 0; r < form->registers; r++)
			value = choose(form, value, load_cell(columns, op, lane, (uint32_t)r));
		emu_frame_row32(op->frame, form->extreme->ref)[lane] = value;
	}
}

static void complete_load(struct emu_engine_op *base)
{
	struct move_op *op = (struct move_op *)base;
	struct emu_async_warp *async = emu_async_of_warp(op->warp);
	const emu_tmem_column *columns =
		(const emu_tmem_column *)emu_tmem_of(op->warp->cta)->columns;
	bool direct = op->form->shape == SHAPE_32x32b && !op->form->packed && op->mask == EMU_FULL;

	if (!check(op, "tcgen05.ld"))
		return;
	for (int r = 0; r < op->form->registers; r++) {
		const struct emu_operand *item = emu_item(op->form->values, r);
		uint32_t *row;

		if (item->kind != EMU_O_REGISTER)
			continue;
		row = emu_frame_row32(op->frame, item->ref);
		if (direct)
			memcpy(row, &columns[op->column + (uint32_t)r][op->lane], EMU_ROW_BYTES);
		else
			EMU_FOR_LANES(lane, op->mask)
		row[lane] = load_cell(columns, op, lane, (uint32_t)r);
	}
	store_extremes(op, columns);
	op->op.cluster->worker->counters.tmem_read += (uint64_t)op->form->registers * EMU_ROW_BYTES;
	if (!--async->tmem_loads)
		emu_wake(&async->tmem_load_done);
}

static void complete_store(struct emu_engine_op *base)
{
	struct move_op *op = (struct move_op *)base;
	struct emu_async_warp *async = emu_async_of_warp(op->warp);
	emu_tmem_column *columns = emu_tmem_of(op->warp->cta)->columns;
	bool direct = op->form->shape == SHAPE_32x32b && !op->form->packed && op->mask == EMU_FULL;

	if (!check(op, "tcgen05.st"))
		return;
	for (uint32_t r = 0; r < (uint32_t)op->form->registers; r++) {
		if (direct)
			memcpy(&columns[op->column + r][op->lane], op->data[r], EMU_ROW_BYTES);
		else
			EMU_FOR_LANES(lane, op->mask)
		store_cell(columns, op, lane, r, op->data[r][lane]);
	}
	op->op.cluster->worker->counters.tmem_written +=
		(uint64_t)op->form->registers * EMU_ROW_BYTES;
	if (!--async->tmem_stores)
		emu_wake(&async->tmem_store_done);
}

static void discard_load(struct emu_engine_op *base)
{
	struct move_op *op = (struct move_op *)base;

	emu_frame_release(op->warp, op->frame);
	free(op);
}

static void discard_store(struct emu_engine_op *base)
{
	free(((struct move_op *)base)->data);
	free(base);
}

/* The address of all threads must be one, inside the warp's window of 32 lanes. */
static bool locate(struct emu_warp *warp, struct move_op *op)
{
	uint32_t first = emu_lowest(op->mask), window = (uint32_t)warp->index % 4, field, sub;
	uint32_t address = (uint32_t)emu_address(warp, op->form->address, (int)first);

	EMU_FOR_LANES(lane, op->mask)
	if ((uint32_t)emu_address(warp, op->form->address, (int)lane) != address) {
		emu_fault(warp, (int)lane, "tmem-address",
			  "the threads of the warp give different tensor memory addresses");
		return false;
	}
	field = address >> 16;
	sub = field % 32;
	op->column = address & 0xffff;
	op->lane = 32 * window + sub;
	if (field >= EMU_TMEM_LANES || (field / 32 != 0 && field / 32 != window)) {
		emu_fault(
			warp, -1, "tmem-window",
			"tensor memory address 0x%x names lane %u; warp %d may touch lanes %u..%u "
			"only (warp %% 4 selects the window)",
			address, field, warp->index, 32 * window, 32 * window + 31);
		return false;
	}
	if (sub && (sub != 16 || op->form->shape == SHAPE_32x32b)) {
		emu_fault(warp, -1, "tmem-window",
			  "tensor memory address 0x%x begins at lane %u of the window; shape %s "
			  "takes "
			  "%s",
			  address, sub, shape_names[op->form->shape],
			  op->form->shape == SHAPE_32x32b ? "0" : "0 or 16");
		return false;
	}
	if (op->column >= EMU_TMEM_COLUMNS) {
		emu_fault(warp, -1, "tmem-address",
			  "tensor memory address 0x%x: column %u, there are 512", address,
			  op->column);
		return false;
	}
	return true;
}

static struct move_op *prepare(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			       void (*complete)(struct emu_engine_op *))
{
	struct move_op *op = emu_op_new(warp, -1, sizeof *op, complete);

	if (!op)
		return NULL;
	op->form = ins->extra;
	op->warp = warp;
	op->mask = mask;
	op->op.order = emu_async_of_warp(warp);
	if (locate(warp, op))
		return op;
	free(op);
	return NULL;
}

/* Registers that tcgen05.wait::ld has yet to make valid must not look like old values. */
static void poison(const struct move_op *op)
{
	int count = op->form->registers;

	for (int r = 0; r < count + (op->form->extreme != NULL); r++) {
		const struct emu_operand *item =
			r < count ? emu_item(op->form->values, r) : op->form->extreme;

		if (item->kind == EMU_O_REGISTER)
			EMU_FOR_LANES(lane, op->mask)
		emu_frame_row32(op->frame, item->ref)[lane] = not_loaded;
	}
}

/* ---- order ------------------------------------------------------------------------------- */

static void watch(const struct move_op *op, enum emu_actor_kind actor)
{
	struct emu_order *order = op->warp->order;
	struct emu_access access =
		emu_access_by(order, actor, -1, emu_moment_of(order, actor, 0),
			      actor == EMU_ACTOR_TMEM_LOAD ? EMU_READ : EMU_WRITE);
	uint32_t lanes = op->form->shape == SHAPE_32x32b ? 32 : 16;

	emu_access_tmem_lanes(&access, op->warp->cta, op->column, op->form->columns, op->lane,
			      lanes);
	if (op->form->shape == SHAPE_16x32bx2)
		emu_access_tmem_lanes(&access, op->warp->cta, op->column + op->form->split,
				      op->form->columns, op->lane, lanes);
	if (emu_timeline_on(order))
		emu_timeline_ends(order, emu_moment_of(order, actor, 0),
				  emu_timeline_tmem(order, (uint64_t)op->form->columns * lanes));
	if (actor == EMU_ACTOR_TMEM_LOAD) {
		order->tmem_loaded++;
		order->load_issued = emu_moment_of(order, EMU_ACTOR_WARP, 0).epoch;
	} else {
		order->tmem_stored++;
		order->store_issued = emu_moment_of(order, EMU_ACTOR_WARP, 0).epoch;
	}
}

/* Whether nothing has written the cell that the lane's register gets; half of one counts as none.
 */
static bool undefined(const struct move_op *op, uint32_t lane, uint32_t r)
{
	const struct move_form *form = op->form;
	const struct emu_cta *cta = op->warp->cta;
	uint32_t row, column;

	cell(form->shape, form->packed ? 0 : form->split, lane, r, &row, &column);
	row += op->lane;
	if (!form->packed)
		return emu_tmem_undefined(cta, op->column + column, row & ~31u) >> (row & 31) & 1;
	column = op->column + 2 * column +
		 (form->shape == SHAPE_16x32bx2 && lane >= 16 ? form->split : 0);
	return emu_tmem_undefined(cta, column, row & ~31u) &
	       emu_tmem_undefined(cta, column + 1, row & ~31u) & 1u << (row & 31);
}

/* Most loads are of what has been written. */
static bool written(const struct move_op *op)
{
	const struct emu_cta *cta = op->warp->cta;
	uint32_t columns = op->form->columns, lane = op->lane & ~31u;

	return emu_tmem_written(cta, op->column, columns, lane) &&
	       (op->form->shape != SHAPE_16x32bx2 ||
		emu_tmem_written(cta, op->column + op->form->split, columns, lane));
}

/* Registers that get what nothing has written. */
static void taint(const struct move_op *op)
{
	bool columns = op->form->shape == SHAPE_32x32b && !op->form->packed;
	uint32_t all = 0;

	if (written(op))
		return;
	for (uint32_t r = 0; r < (uint32_t)op->form->registers; r++) {
		uint32_t lanes = 0;

		if (columns)
			lanes = emu_tmem_undefined(op->warp->cta, op->column + r, op->lane) &
				op->mask;
		else
			EMU_FOR_LANES(lane, op->mask)
		lanes |= (uint32_t)undefined(op, lane, r) << lane;
		emu_taint_loaded(op->warp, emu_item(op->form->values, (int)r), lanes);
		all |= lanes;
	}
	if (op->form->extreme)
		emu_taint_loaded(op->warp, op->form->extreme, all);
}

static void order_waited(struct emu_order *order, bool stores)
{
	if (stores) {
		emu_order_waited(order, order->tmem_store, order->tmem_stored);
		return;
	}
	emu_order_waited(order, order->tmem_load, order->tmem_loaded);
	emu_pending_loaded(order);
}

static enum emu_step execute_load(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct move_op *op = prepare(warp, ins, mask, complete_load);

	if (!op)
		return EMU_STOPPED;
	op->frame = warp->frame;
	emu_frame_retain(op->frame);
	op->op.discard = discard_load;
	if (warp->grid->mode != EMU_FAST)
		poison(op);
	if (warp->order) {
		watch(op, EMU_ACTOR_TMEM_LOAD);
		emu_pending_load(warp->order, op->form->values);
		taint(op);
		if (op->form->extreme)
			emu_pending_load(warp->order, op->form->extreme);
	}
	emu_async_of_warp(warp)->tmem_loads++;
	emu_op_issue(warp, op);
	return EMU_NEXT;
}

static enum emu_step execute_store(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct move_op *op = prepare(warp, ins, mask, complete_store);

	if (!op)
		return EMU_STOPPED;
	op->op.discard = discard_store;
	op->data = malloc((size_t)op->form->registers * EMU_ROW_BYTES);
	if (!op->data) {
		free(op);
		return emu_fault(warp, -1, "out-of-memory",
				 "the host has no memory for an asynchronous operation");
	}
	for (int r = 0; r < op->form->registers; r++)
		memcpy(op->data[r], emu_row32(warp, emu_item(op->form->values, r)->ref),
		       EMU_ROW_BYTES);
	if (warp->order)
		watch(op, EMU_ACTOR_TMEM_STORE);
	emu_async_of_warp(warp)->tmem_stores++;
	emu_op_issue(warp, op);
	return EMU_NEXT;
}

/* ---- wait, fence ----------------------------------------------------------------------- */

static void describe_loads(const struct emu_waitable *waitable, const struct emu_split *split,
			   char *text, size_t size)
{
	(void)waitable;
	snprintf(text, size, "%u tcgen05.ld", emu_async_of_warp(split->warp)->tmem_loads);
}

static void describe_stores(const struct emu_waitable *waitable, const struct emu_split *split,
			    char *text, size_t size)
{
	(void)waitable;
	snprintf(text, size, "%u tcgen05.st", emu_async_of_warp(split->warp)->tmem_stores);
}

static enum emu_step execute_wait(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_async_warp *async = emu_async_of_warp(warp);
	struct emu_waitable *done = ins->variant ? &async->tmem_store_done : &async->tmem_load_done;

	(void)mask;
	if (!(ins->variant ? async->tmem_stores : async->tmem_loads)) {
		if (warp->order)
			order_waited(warp->order, ins->variant);
		return EMU_NEXT;
	}
	done->describe = ins->variant ? describe_stores : describe_loads;
	return emu_block_on(warp, done);
}

static enum emu_step execute_fence(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)mask;
	if (warp->order)
		emu_order_tcgen05_fence(warp->order, ins->variant);
	return EMU_NEXT;
}

static bool decode_wait(struct emu_decode *decode)
{
	decode->ins->variant = strstr(decode->opcode->name, "::st") != NULL;
	decode->ins->flags |= EMU_I_AWAIT_TMEM;
	return emu_take_aligned(decode) && emu_want_operands(decode, 0, 0);
}

static bool decode_fence(struct emu_decode *decode)
{
	decode->ins->variant = strstr(decode->opcode->name, "after") != NULL;
	return emu_want_operands(decode, 0, 0);
}

/* ---- decode ------------------------------------------------------------------------------ */

static bool take_form(struct emu_decode *decode, struct move_form *form, const char *half)
{
	static const char *const repeats[] = {"x1",  "x2",  "x4",   "x8", "x16",
					      "x32", "x64", "x128", NULL};
	static const uint32_t columns[] = {1, 2, 4, 8, 1}; /* per repeat */
	static const int registers[] = {1, 1, 2, 4, 1};
	int shape = emu_take_one(decode, shape_names), repeat = emu_take_one(decode, repeats);

	if (shape == -2 || repeat == -2)
		return false;
	if (shape < 0)
		return emu_reject(decode, "the shape is missing: .32x32b, .16x64b, .16x128b, "
					  ".16x256b or .16x32bx2");
	if (repeat < 0)
		return emu_reject(decode, "the number is missing: .x1 to .x128");
	form->shape = (enum shape)shape;
	form->packed = emu_take(decode, half);
	form->registers = registers[shape] << repeat;
	form->columns = columns[shape] << repeat << form->packed;
	if (form->registers > 128)
		return emu_reject(decode, ".%s takes at most .x%d", shape_names[shape],
				  128 / registers[shape]);
	emu_take(decode, "b32");
	return emu_take_aligned(decode);
}

static bool want_split(struct emu_decode *decode, int i, struct move_form *form)
{
	if (form->shape != SHAPE_16x32bx2)
		return true;
	if (!emu_want_immediate(decode, i, 0, EMU_TMEM_COLUMNS - 1))
		return false;
	form->split = (uint32_t)decode->ins->operands[i].value;
	return true;
}

static bool decode_load(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct move_form *form = emu_decode_extra(decode, sizeof *form);
	int want;

	if (!form || !take_form(decode, form, "pack::16b"))
		return false;
	want = form->shape == SHAPE_16x32bx2 ? 3 : 2;
	ins->extra = form;
	ins->flags |= EMU_I_PENDING_TMEM;
	emu_results(ins, 1);
	if (!emu_want_operands(decode, want, want) ||
	    !emu_want_vector(decode, 0, form->registers, 32) || !emu_want_address(decode, 1) ||
	    !want_split(decode, 2, form))
		return false;
	form->values = &ins->operands[0];
	form->address = &ins->operands[1];
	return true;
}

static bool take_reduction(struct emu_decode *decode, struct move_form *form)
{
	static const char *const operations[] = {"min", "max", NULL};
	int operation = emu_take_one(decode, operations);

	form->greatest = operation == 1;
	form->absolute = emu_take(decode, "abs");
	form->nan = emu_take(decode, "NaN");
	form->type = emu_take_type(decode);
	if (operation == -2)
		return false;
	if (operation < 0 ||
	    (form->type != EMU_T_F32 && form->type != EMU_T_U32 && form->type != EMU_T_S32))
		return emu_reject(decode, "needs .min or .max, and .f32, .u32 or .s32");
	if (form->type != EMU_T_F32 && (form->absolute || form->nan))
		return emu_reject(decode, ".abs and .NaN go with .f32");
	return true;
}

static bool decode_load_reduce(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct move_form *form = emu_decode_extra(decode, sizeof *form);
	int want;

	if (!form || !take_reduction(decode, form) || !take_form(decode, form, ""))
		return false;
	if ((form->shape != SHAPE_32x32b && form->shape != SHAPE_16x32bx2) || form->registers < 2)
		return emu_reject(decode, "takes .32x32b and .16x32bx2, of .x2 and more");
	want = form->shape == SHAPE_16x32bx2 ? 4 : 3;
	ins->extra = form;
	ins->flags |= EMU_I_PENDING_TMEM;
	emu_results(ins, 3);
	if (!emu_want_operands(decode, want, want) ||
	    !emu_want_vector(decode, 0, form->registers, 32) || !emu_want_register(decode, 1, 32) ||
	    !emu_want_address(decode, 2) || !want_split(decode, 3, form))
		return false;
	form->values = &ins->operands[0];
	form->extreme = &ins->operands[1];
	form->address = &ins->operands[2];
	return true;
}

static bool decode_store(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct move_form *form = emu_decode_extra(decode, sizeof *form);
	int want;

	if (!form || !take_form(decode, form, "unpack::16b"))
		return false;
	want = form->shape == SHAPE_16x32bx2 ? 3 : 2;
	ins->extra = form;
	emu_results(ins, 0);
	if (!emu_want_operands(decode, want, want) || !emu_want_address(decode, 0) ||
	    !want_split(decode, 1, form) || !emu_want_vector(decode, want - 1, form->registers, 32))
		return false;
	form->address = &ins->operands[0];
	form->values = &ins->operands[want - 1];
	return true;
}

static const struct emu_opcode rows[] = {
	{"tcgen05.ld", decode_load, execute_load, EMU_P_SM100A},
	{"tcgen05.ld.red", decode_load_reduce, execute_load, EMU_P_SM103A},
	{"tcgen05.st", decode_store, execute_store, EMU_P_NO_RESULT | EMU_P_SM100A},
	{"tcgen05.wait::ld", decode_wait, execute_wait, EMU_P_SM100A},
	{"tcgen05.wait::st", decode_wait, execute_wait, EMU_P_SM100A},
	{"tcgen05.fence::before_thread_sync", decode_fence, execute_fence, EMU_P_SM100A},
	{"tcgen05.fence::after_thread_sync", decode_fence, execute_fence, EMU_P_SM100A},
};

EMU_OPCODE_TABLE(tmem_move, rows);

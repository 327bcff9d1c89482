/*
 * Registers that an asynchronous instruction has yet to write or may still
 * read, and those that wgmma needs fenced.  Only the frame that issued last is
 * watched: these instructions do not cross calls.
 */
#include "hazard.h"

#include <stdlib.h>

struct row {
	uint32_t load;  /* number of the tcgen05.ld that writes it */
	uint32_t wgmma; /* of the wgmma that accesses it */
	const struct emu_ins *by;
	uint32_t reg;   /* virtual register: a row may come to hold another one */
	uint32_t dirty; /* 1 + the one that something else wrote since the last wgmma.fence */
	bool reads;     /* the wgmma reads it and does not write it */
};

/* Of a virtual register, in the frame: bits. */
enum origin {
	FROM_OTHERS = 1, /* an instruction other than wgmma writes it, at some place of the text */
	FROM_WGMMA = 2   /* a wgmma of the frame has written it */
};

struct emu_pending {
	const struct emu_frame *frame;
	struct row *rows;
	uint32_t row_count;
	uint8_t *origins;        /* enum origin by virtual register; NULL before the first wgmma */
	uint32_t issued, loaded; /* tcgen05.ld */
	uint32_t wgmma, wgmma_done;
	bool fenced;
	const struct emu_ins
		*accumulated[4]; /* the last wgmma whose registers have been looked at */
};

void emu_pending_free(struct emu_pending *pending)
{
	if (pending) {
		free(pending->rows);
		free(pending->origins);
	}
	free(pending);
}

static struct emu_pending *pending_of(struct emu_order *order)
{
	struct emu_pending *p = order->pending;
	const struct emu_frame *frame = order->warp->frame;

	if (!p)
		p = order->pending = calloc(1, sizeof *p);
	if (!p || p->frame == frame)
		return p;
	free(p->rows);
	free(p->origins);
	p->origins = NULL;
	p->frame = NULL;
	memset(p->accumulated, 0, sizeof p->accumulated);
	p->row_count = frame->function->slot_count;
	p->rows = calloc(p->row_count + 1, sizeof *p->rows);
	if (!p->rows)
		return NULL;
	p->frame = frame;
	return p;
}

static struct row *row_of(const struct emu_pending *p, const struct emu_operand *operand)
{
	uint32_t index = operand->ref / EMU_ROW_BYTES;

	return operand->kind == EMU_O_REGISTER && (operand->ref & 3) == EMU_BANK_FRAME &&
			       index < p->row_count
		       ? &p->rows[index]
		       : NULL;
}

/* Whether instructions are looked at before they are executed. */
static void attend(struct emu_order *order)
{
	const struct emu_pending *p = order->pending;

	if (p->issued != p->loaded || p->wgmma)
		order->warp->attention |= EMU_I_PENDING;
	else
		order->warp->attention &= ~(uint32_t)EMU_I_PENDING;
}

/* ---- which instructions are looked at ---------------------------------------------------- */

static void touch(const struct emu_operand *operand, uint8_t *touched)
{
	if (operand->kind == EMU_O_REGISTER)
		touched[operand->reg] = 1;
	for (uint32_t i = 0; i < operand->count; i++)
		touch(&operand->items[i], touched);
}

static bool touches(const struct emu_operand *operand, const uint8_t *touched)
{
	if (operand->kind == EMU_O_REGISTER && touched[operand->reg])
		return true;
	for (uint32_t i = 0; i < operand->count; i++)
		if (touches(&operand->items[i], touched))
			return true;
	return false;
}

void emu_pending_mark(struct emu_function *function, uint8_t *touched)
{
	bool any = false;

	for (uint32_t pc = 0; pc < function->ins_count; pc++) {
		const struct emu_ins *ins = &function->ins[pc];

		if (!(ins->flags & (EMU_I_PENDING_WGMMA | EMU_I_PENDING_TMEM)))
			continue;
		any = true;
		for (uint32_t i = 0; i < ins->operand_count; i++)
			touch(&ins->operands[i], touched);
	}
	for (uint32_t pc = 0; any && pc < function->ins_count; pc++) {
		struct emu_ins *ins = &function->ins[pc];

		for (uint32_t i = 0; i < ins->operand_count; i++)
			if (touches(&ins->operands[i], touched))
				ins->flags |= EMU_I_PENDING;
	}
}

/* ---- tcgen05.ld ------------------------------------------------------------------- */

void emu_pending_load(struct emu_order *order, const struct emu_operand *values)
{
	struct emu_pending *p = pending_of(order);
	uint32_t count = values->kind == EMU_O_VECTOR ? values->count : 1;

	if (!p)
		return;
	p->issued++;
	for (uint32_t i = 0; i < count; i++) {
		struct row *row = row_of(p, emu_item(values, (int)i));

		if (row) {
			row->load = p->issued;
			row->reg = emu_item(values, (int)i)->reg;
			row->by = order->warp->ins;
		}
	}
	attend(order);
}

void emu_pending_loaded(struct emu_order *order)
{
	struct emu_pending *p = order->pending;

	if (!p)
		return;
	p->loaded = p->issued;
	attend(order);
}

/* ---- wgmma -------------------------------------------------------------------------- */

static void fence_missing(struct emu_order *order, const struct emu_pending *p)
{
	struct emu_where where = emu_here(order->warp, -1);

	emu_report_rule(&where, EMU_RULE_WGMMA_FENCE, NULL, "%s",
			p->fenced ? "a register of the operands was written since the last "
				    "wgmma.fence"
				  : "the warp has not executed wgmma.fence");
}

static bool take_rows(struct emu_order *order, struct emu_pending *p,
		      const struct emu_operand *values, uint32_t number, bool reads)
{
	bool dirty = false;

	for (uint32_t i = 0; i < values->count; i++) {
		const struct emu_operand *item = emu_item(values, (int)i);
		struct row *row = row_of(p, item);

		if (!row)
			continue;
		dirty |= row->dirty == item->reg + 1;
		row->dirty = 0;
		row->wgmma = number;
		row->reg = item->reg;
		row->reads = reads;
		row->by = order->warp->ins;
	}
	return dirty;
}

static void written_by_others(uint8_t *origins, const struct emu_operand *operand)
{
	if (operand->kind == EMU_O_REGISTER)
		origins[operand->reg] |= FROM_OTHERS;
	for (uint32_t i = 0; i < operand->count; i++)
		written_by_others(origins, &operand->items[i]);
}

static uint8_t *origins_of(const struct emu_function *function)
{
	uint8_t *origins = calloc(function->register_count + 1u, 1);

	for (uint32_t pc = 0; origins && pc < function->ins_count; pc++) {
		const struct emu_ins *ins = &function->ins[pc];

		for (uint32_t i = 0; i < ins->operand_count; i++)
			if (ins->written >> i & 1 && !(ins->flags & EMU_I_PENDING_WGMMA))
				written_by_others(origins, &ins->operands[i]);
	}
	return origins;
}

/* Registers that only wgmma writes must not be added to before one has. */
static void accumulators(struct emu_order *order, struct emu_pending *p,
			 const struct emu_operand *values, bool accumulate)
{
	struct emu_where where = emu_here(order->warp, -1);
	const struct emu_ins **recent =
		&p->accumulated[(uintptr_t)where.ins / sizeof *where.ins % 4];
	uint32_t undefined = 0;

	/* What has been written once stays so. */
	if (*recent == where.ins)
		return;
	*recent = where.ins;
	if (!p->origins)
		p->origins = origins_of(order->warp->frame->function);
	for (uint32_t i = 0; p->origins && i < values->count; i++) {
		const struct emu_operand *item = emu_item(values, (int)i);

		if (item->kind != EMU_O_REGISTER)
			continue;
		undefined += !p->origins[item->reg];
		p->origins[item->reg] |= FROM_WGMMA;
	}
	if (accumulate && undefined)
		emu_report_rule(&where, EMU_RULE_UNDEFINED_ACCUMULATOR, NULL,
				"adds to %u registers of %u that nothing has written", undefined,
				values->count);
}

void emu_pending_wgmma(struct emu_order *order, const struct emu_ins *ins, uint64_t number,
		       bool accumulate)
{
	struct emu_pending *p = pending_of(order);
	bool dirty;

	if (!p)
		return;
	accumulators(order, p, &ins->operands[0], accumulate);
	p->wgmma = (uint32_t)number;
	dirty = take_rows(order, p, &ins->operands[0], (uint32_t)number, false);
	if (ins->operands[1].kind == EMU_O_VECTOR)
		dirty |= take_rows(order, p, &ins->operands[1], (uint32_t)number, true);
	if (dirty || !p->fenced)
		fence_missing(order, p);
	p->fenced = true;
	attend(order);
}

void emu_pending_wgmma_done(struct emu_order *order, uint64_t number)
{
	if (order->pending && order->pending->wgmma_done < number)
		order->pending->wgmma_done = (uint32_t)number;
}

void emu_pending_wgmma_fence(struct emu_order *order)
{
	struct emu_pending *p = pending_of(order);

	if (!p)
		return;
	p->fenced = true;
	for (uint32_t i = 0; i < p->row_count; i++)
		p->rows[i].dirty = 0;
}

/* ---- ordinary instructions ------------------------------------------------------------- */

static void early(struct emu_warp *warp, enum emu_rule rule, const struct emu_ins *by, bool written,
		  const char *what, const char *missing)
{
	struct emu_where where = emu_here(warp, -1);
	char line[EMU_LINE_TEXT];

	emu_describe_line(warp->grid, by, line, sizeof line);
	emu_report_rule(&where, rule, by, "%s a register %s at %s%s", written ? "writes" : "reads",
			what, line, missing);
}

static void check(struct emu_warp *warp, const struct emu_pending *p,
		  const struct emu_operand *operand, bool written, bool mma)
{
	struct row *row;

	if (operand->kind == EMU_O_VECTOR || operand->kind == EMU_O_PAIR ||
	    operand->kind == EMU_O_ADDRESS || operand->kind == EMU_O_LIST) {
		for (uint32_t i = 0; i < operand->count; i++)
			check(warp, p, &operand->items[i],
			      written && operand->kind != EMU_O_ADDRESS, mma);
		return;
	}
	row = row_of(p, operand);
	if (!row)
		return;
	if (row->load > p->loaded && row->reg == operand->reg) {
		early(warp, EMU_RULE_LOAD_NOT_AWAITED, row->by, written, "that tcgen05.ld",
		      " has yet to write");
		row->load = 0;
	}
	if (row->wgmma > p->wgmma_done && row->reg == operand->reg && !mma &&
	    (written || !row->reads)) {
		early(warp, EMU_RULE_WGMMA_REGISTER, row->by, written, "of wgmma",
		      ", which has not been waited for");
		row->wgmma = 0;
	}
	if (written && !mma)
		row->dirty = operand->reg + 1;
}

void emu_pending_check(struct emu_warp *warp, const struct emu_ins *ins)
{
	const struct emu_pending *p = warp->order->pending;
	bool mma = ins->flags & EMU_I_PENDING_WGMMA;

	if (!p || p->frame != warp->frame)
		return;
	for (uint32_t i = 0; i < ins->operand_count; i++)
		check(warp, p, &ins->operands[i], ins->written >> i & 1, mma);
}

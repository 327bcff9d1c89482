/*
 * Values that are undefined, or that differ from run to run, followed through
 * the registers of the kernel's own frame to where they matter: an address, a
 * branch, what is stored, what an asynchronous operation is told.  A lane of a
 * register is wholly tainted or not at all, so operations that may drop the
 * tainted part of a value give one that is not.
 */
#include "hazard.h"
#include "special.h"

#include <stdlib.h>

enum taint_kind {
	TAINT_REGISTER, /* nothing has written it */
	TAINT_TMEM,     /* loaded from where nothing has written */
	TAINT_CLOCK     /* of a clock, or of where the CTA runs */
};

struct taint_row {
	uint32_t mask; /* lanes */
	uint32_t reg;  /* virtual register: a row may come to hold another one */
	const struct emu_ins *by;
	enum taint_kind kind;
};

struct emu_taint {
	const struct emu_frame *frame;
	struct taint_row *rows, *predicates;
	bool any; /* some lane of some register is, or has been, tainted */
};

void emu_taint_free(struct emu_taint *taint)
{
	if (taint) {
		free(taint->rows);
		free(taint->predicates);
	}
	free(taint);
}

/* ---- which instructions are looked at ------------------------------------------------------ */

static bool begins(const struct emu_ins *ins, const char *with)
{
	return !strncmp(ins->mnemonic, with, strlen(with));
}

/* What it gives is defined whatever it is given. */
static bool gives_defined(const struct emu_ins *ins)
{
	static const char *const names[] = {"ld.",      "ldu",        "atom",    "shfl",     "vote",
					    "match",    "redux",      "elect",   "ldmatrix", "mma.",
					    "wgmma.",   "call",       "tcgen05", "barrier",  "bar.",
					    "mbarrier", "activemask", "isspacep"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (begins(ins, names[i]))
			return true;
	return false;
}

static bool is_clock(const struct emu_operand *operand)
{
	if (operand->kind != EMU_O_SPECIAL)
		return false;
	switch (operand->value) {
	case EMU_S_CLOCK:
	case EMU_S_CLOCK_HI:
	case EMU_S_CLOCK64:
	case EMU_S_GLOBALTIMER:
	case EMU_S_GLOBALTIMER_LO:
	case EMU_S_GLOBALTIMER_HI:
	case EMU_S_SMID:
	case EMU_S_WARPID:
		return true;
	default:
		return false;
	}
}

static bool reads_clock(const struct emu_ins *ins)
{
	for (uint32_t i = 0; i < ins->operand_count; i++)
		if (is_clock(&ins->operands[i]))
			return true;
	return false;
}

static bool has_register(const struct emu_operand *operand, const uint8_t *tainted)
{
	if (operand->kind == EMU_O_REGISTER || operand->kind == EMU_O_PREDICATE)
		return tainted[operand->reg];
	for (uint32_t i = 0; i < operand->count; i++)
		if (has_register(&operand->items[i], tainted))
			return true;
	return false;
}

static bool taint_operand(const struct emu_operand *operand, uint8_t *tainted)
{
	bool changed = false;

	if (operand->kind == EMU_O_REGISTER || operand->kind == EMU_O_PREDICATE) {
		changed = !tainted[operand->reg];
		tainted[operand->reg] = 1;
		return changed;
	}
	if (operand->kind != EMU_O_ADDRESS)
		for (uint32_t i = 0; i < operand->count; i++)
			changed |= taint_operand(&operand->items[i], tainted);
	return changed;
}

static bool reads_tainted(const struct emu_ins *ins, const uint8_t *tainted)
{
	if (ins->guard != EMU_NO_GUARD && tainted[ins->guard])
		return true;
	for (uint32_t i = 0; i < ins->operand_count; i++)
		if ((!(ins->written >> i & 1) || ins->operands[i].kind == EMU_O_ADDRESS) &&
		    has_register(&ins->operands[i], tainted))
			return true;
	return false;
}

static bool taint_results(const struct emu_ins *ins, uint8_t *tainted)
{
	bool changed = false;

	for (uint32_t i = 0; i < ins->operand_count; i++)
		if (ins->written >> i & 1)
			changed |= taint_operand(&ins->operands[i], tainted);
	return changed;
}

static bool is_source(const struct emu_ins *ins)
{
	return begins(ins, "tcgen05.ld") || reads_clock(ins);
}

/* Registers that may be tainted, from those that may be read before they are written on. */
void emu_taint_mark(struct emu_function *function, uint8_t *tainted)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (uint32_t pc = 0; pc < function->ins_count; pc++) {
			const struct emu_ins *ins = &function->ins[pc];

			if (is_source(ins) || (!gives_defined(ins) && reads_tainted(ins, tainted)))
				changed |= taint_results(ins, tainted);
		}
	}
	for (uint32_t pc = 0; pc < function->ins_count; pc++) {
		struct emu_ins *ins = &function->ins[pc];
		bool touches = is_source(ins) || reads_tainted(ins, tainted);

		for (uint32_t i = 0; !touches && i < ins->operand_count; i++)
			touches = ins->written >> i & 1 && has_register(&ins->operands[i], tainted);
		if (touches)
			ins->flags |= EMU_I_TAINT;
	}
}

/* ---- registers that are tainted now ------------------------------------------------------------
 */

static struct emu_taint *taint_of(struct emu_order *order)
{
	struct emu_taint *t = order->taint;
	const struct emu_frame *frame = order->warp->frame;
	const struct emu_function *function = frame->function;

	if (t || frame->parent)
		return t && t->frame == frame ? t : NULL;
	t = order->taint = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->rows = calloc(function->slot_count + 1u, sizeof *t->rows);
	t->predicates = calloc(function->predicate_count + 1u, sizeof *t->predicates);
	if (!t->rows || !t->predicates)
		return NULL;
	t->frame = frame;
	for (uint32_t i = 0; i < function->undefined_count; i++) {
		uint32_t reg = function->undefined[i], ref = function->register_refs[reg];
		bool predicate = function->register_types[reg] == EMU_T_PRED;

		*(predicate ? &t->predicates[ref] : &t->rows[ref]) =
			(struct taint_row){EMU_FULL, reg, NULL, TAINT_REGISTER};
		t->any = true;
	}
	return t;
}

static struct taint_row *row_of(const struct emu_taint *t, const struct emu_operand *operand)
{
	if (operand->kind == EMU_O_PREDICATE)
		return &t->predicates[operand->ref];
	return operand->kind == EMU_O_REGISTER && (operand->ref & 3) == EMU_BANK_FRAME
		       ? &t->rows[operand->ref / EMU_ROW_BYTES]
		       : NULL;
}

/* What the sources of an instruction bring. */
struct brought {
	uint32_t any, all;           /* lanes of one source, of every one */
	const struct taint_row *row; /* the first that is tainted */
};

static void bring(const struct emu_taint *t, const struct emu_operand *operand, uint32_t mask,
		  struct brought *b)
{
	const struct taint_row *row = row_of(t, operand);
	uint32_t lanes;

	if (row) {
		lanes = row->reg == operand->reg ? row->mask & mask : 0;
		if (lanes && !b->any)
			b->row = row;
		b->any |= lanes;
		b->all &= lanes;
		return;
	}
	if (!operand->count && operand->kind != EMU_O_IMMEDIATE && operand->kind != EMU_O_FLOAT)
		b->all = 0;
	for (uint32_t i = 0; i < operand->count; i++)
		bring(t, &operand->items[i], mask, b);
}

static void set(const struct emu_taint *t, const struct emu_operand *operand, uint32_t mask,
		uint32_t lanes, const struct emu_ins *by, enum taint_kind kind)
{
	struct taint_row *row = row_of(t, operand);

	if (row && row->reg == operand->reg && !lanes) {
		row->mask &= ~mask;
	} else if (row && lanes) {
		uint32_t kept = row->reg == operand->reg ? row->mask & ~mask : 0;

		*row = (struct taint_row){kept | lanes, operand->reg, by, kind};
	}
	if (operand->kind == EMU_O_ADDRESS)
		return;
	for (uint32_t i = 0; i < operand->count; i++)
		set(t, &operand->items[i], mask, lanes, by, kind);
}

/* ---- what an instruction does with them
 * ------------------------------------------------------------ */

/* Its result may be defined where one of its sources is. */
static bool may_drop(const struct emu_ins *ins)
{
	static const char *const names[] = {"prmt", "bfi", "shf.", "lop3", "and", "or.", "set"};

	if (begins(ins, "mov") || begins(ins, "cvt.pack"))
		for (uint32_t i = 0; i < ins->operand_count; i++)
			if (ins->operands[i].kind == EMU_O_VECTOR)
				return true;
	if (begins(ins, "set") && ins->operand_count < 4)
		return false;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (begins(ins, names[i]))
			return true;
	return false;
}

static bool same_register(const struct emu_operand *a, const struct emu_operand *b)
{
	return a->kind == EMU_O_REGISTER && b->kind == EMU_O_REGISTER && a->reg == b->reg;
}

/* x ^ x and x - x are 0. */
static bool cancels(const struct emu_ins *ins)
{
	return (begins(ins, "xor") || begins(ins, "sub")) && ins->operand_count == 3 &&
	       same_register(&ins->operands[1], &ins->operands[2]);
}

static void report(struct emu_warp *warp, uint32_t lanes, const struct taint_row *row,
		   const char *what)
{
	struct emu_where where = emu_here(warp, emu_lowest(lanes));
	char line[400] = "";

	if (row->by)
		emu_describe_line(warp->grid, row->by, line, sizeof line);
	if (row->kind == TAINT_REGISTER)
		emu_report_rule(&where, EMU_RULE_UNDEFINED_VALUE, NULL,
				"%s comes from a register that nothing has written", what);
	else if (row->kind == TAINT_TMEM)
		emu_report_rule(
			&where, EMU_RULE_UNDEFINED_VALUE, row->by,
			"%s comes from tensor memory that nothing has written, loaded at %s", what,
			line);
	else
		emu_report_rule(&where, EMU_RULE_CLOCK, row->by, "%s depends on what is read at %s",
				what, line);
}

static bool stores(const struct emu_ins *ins)
{
	return begins(ins, "st.") || begins(ins, "red") || begins(ins, "atom") ||
	       begins(ins, "stmatrix") || begins(ins, "tcgen05.st");
}

static bool is_private(const struct emu_ins *ins)
{
	return ins->space == EMU_LOCAL || ins->space == EMU_PARAM ||
	       ins->space == EMU_PARAM_FUNCTION;
}

/* Addresses, and what instructions without a result take, must be defined. */
static void check_sinks(struct emu_warp *warp, const struct emu_taint *t, const struct emu_ins *ins,
			uint32_t mask)
{
	bool data = stores(ins) || begins(ins, "cp.") || begins(ins, "tcgen05.mma") ||
		    begins(ins, "mbarrier");

	for (uint32_t i = 0; i < ins->operand_count; i++) {
		const struct emu_operand *operand = &ins->operands[i];
		bool address = operand->kind == EMU_O_ADDRESS;
		struct brought b = {.all = EMU_FULL};

		if (!address && (!data || ins->written >> i & 1))
			continue;
		bring(t, operand, mask, &b);
		if (b.any && b.row->kind != TAINT_CLOCK)
			report(warp, b.any, b.row,
			       address       ? "the address"
			       : stores(ins) ? "what is stored"
					     : "an operand");
	}
}

static void check_guard(struct emu_warp *warp, const struct emu_taint *t, const struct emu_ins *ins)
{
	const struct taint_row *row = &t->predicates[ins->guard];
	uint32_t lanes = row->reg == ins->guard_register ? row->mask & warp->split->mask : 0;

	if (lanes && ins->flags & (EMU_I_BRANCH | EMU_I_EXIT | EMU_I_RETURN))
		report(warp, lanes, row, "the branch");
	else if (lanes && stores(ins) && row->kind != TAINT_CLOCK)
		report(warp, lanes, row, "the predicate");
}

/* Only the source that is chosen counts. */
static void choose(struct emu_warp *warp, const struct emu_taint *t, const struct emu_ins *ins,
		   uint32_t mask, struct brought *b)
{
	uint32_t chosen = emu_predicate(warp, &ins->operands[3]);

	bring(t, &ins->operands[3], mask, b);
	bring(t, &ins->operands[1], mask & chosen, b);
	bring(t, &ins->operands[2], mask & ~chosen, b);
}

static void propagate(struct emu_warp *warp, const struct emu_taint *t, const struct emu_ins *ins,
		      uint32_t mask)
{
	struct brought b = {.all = EMU_FULL};
	struct taint_row from = {.mask = 0};
	uint32_t lanes;

	if (begins(ins, "selp") && ins->operand_count == 4)
		choose(warp, t, ins, mask, &b);
	else
		for (uint32_t i = 0; i < ins->operand_count; i++)
			if (!(ins->written >> i & 1))
				bring(t, &ins->operands[i], mask, &b);
	lanes = may_drop(ins) ? b.all & mask : b.any;
	if (gives_defined(ins) || cancels(ins))
		lanes = 0;
	if (lanes)
		from = *b.row;
	if (reads_clock(ins)) {
		lanes = mask;
		from = (struct taint_row){.by = ins, .kind = TAINT_CLOCK};
	}
	for (uint32_t i = 0; i < ins->operand_count; i++)
		if (ins->written >> i & 1)
			set(t, &ins->operands[i], mask, lanes, from.by, from.kind);
}

void emu_taint_step(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_taint *t = taint_of(warp->order);

	if (!t || t->frame != warp->frame)
		return;
	t->any |= reads_clock(ins);
	if (!t->any)
		return;
	if (ins->guard != EMU_NO_GUARD)
		check_guard(warp, t, ins);
	if (!is_private(ins) && !begins(ins, "call") && !begins(ins, "prefetch"))
		check_sinks(warp, t, ins, mask);
	propagate(warp, t, ins, mask);
}

void emu_taint_guard(struct emu_warp *warp, const struct emu_ins *ins)
{
	const struct emu_taint *t = taint_of(warp->order);

	if (t && t->any && t->frame == warp->frame)
		check_guard(warp, t, ins);
}

void emu_taint_loaded(struct emu_warp *warp, const struct emu_operand *item, uint32_t lanes)
{
	struct emu_taint *t = taint_of(warp->order);

	if (!t || t->frame != warp->frame || !lanes)
		return;
	t->any = true;
	set(t, item, lanes, lanes, warp->ins, TAINT_TMEM);
}

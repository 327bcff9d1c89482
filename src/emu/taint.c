/* Undefined values: which instructions are looked at, and what each does with them. */
#include "taint.h"
#include "special.h"

#include <stdlib.h>

/* ---- what an instruction does ----------------------------------------------------------- */

static bool begins(const struct emu_ins *ins, const char *with)
{
	return !strncmp(ins->mnemonic, with, strlen(with));
}

static bool begins_with_one(const struct emu_ins *ins, const char *const *names)
{
	for (; *names; names++)
		if (begins(ins, *names))
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

/* Its result may be defined where one of its sources is. */
static bool may_drop(const struct emu_ins *ins)
{
	static const char *const names[] = {"prmt", "bfi", "shf.", "lop3", "and", "or.", NULL};

	if (begins(ins, "mov") || begins(ins, "cvt.pack"))
		for (uint32_t i = 0; i < ins->operand_count; i++)
			if (ins->operands[i].kind == EMU_O_VECTOR)
				return true;
	if (begins(ins, "set"))
		return ins->operand_count >= 4;
	return begins_with_one(ins, names);
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

static bool may_be_local(const struct emu_function *function, const struct emu_ins *ins)
{
	return ins->space == EMU_LOCAL || ins->space == EMU_PARAM_FUNCTION ||
	       (ins->space == EMU_GENERIC && (!function->entry || function->frame_bytes));
}

static enum emu_taint_flow flow_of(const struct emu_function *function, const struct emu_ins *ins)
{
	static const char *const defined[] = {
		"ld.",  "ldu",      "atom",       "ldmatrix", "tcgen05",  "elect",     "barrier",
		"bar.", "mbarrier", "activemask", "red",      "isspacep", "wmma.load", NULL};
	static const char *const lanes[] = {"shfl", "vote", "match", "redux", NULL};
	static const char *const whole[] = {"wmma.mma", "mma.sync.aligned.m8n8k4.", "movmatrix",
					    NULL};

	if (begins(ins, "tcgen05.ld"))
		return EMU_FLOW_TMEM;
	if (begins_with_one(ins, lanes))
		return EMU_FLOW_LANES;
	if (begins(ins, "ld.") && !begins(ins, "ld.param::entry") && may_be_local(function, ins))
		return EMU_FLOW_LOAD;
	if (begins(ins, "st.") && !begins(ins, "st.async") && !begins(ins, "st.bulk") &&
	    may_be_local(function, ins))
		return EMU_FLOW_STORE;
	if (ins->flags & EMU_I_CALL)
		return EMU_FLOW_CALL;
	if (ins->flags & EMU_I_PENDING_WGMMA)
		return EMU_FLOW_WGMMA;
	if (begins_with_one(ins, whole))
		return EMU_FLOW_WHOLE;
	if (begins(ins, "mma."))
		return EMU_FLOW_MMA;
	if (begins_with_one(ins, defined) || cancels(ins))
		return EMU_FLOW_DEFINED;
	if (begins(ins, "selp") && ins->operand_count == 4)
		return EMU_FLOW_CHOOSE;
	return may_drop(ins) ? EMU_FLOW_DROP : EMU_FLOW_ORDINARY;
}

/* Stores to local memory carry the taint. */
static bool stores(const struct emu_ins *ins)
{
	static const char *const names[] = {"st.",        "red.",       "atom",      "stmatrix",
					    "tcgen05.st", "wmma.store", "multimem.", NULL};

	return begins_with_one(ins, names) && ins->space != EMU_LOCAL &&
	       ins->space != EMU_PARAM_FUNCTION;
}

static bool takes(const struct emu_ins *ins)
{
	static const char *const names[] = {"cp.",  "tcgen05.", "mbarrier",  "bar.", "barrier",
					    "brx.", "wgmma.",   "tensormap", "call", NULL};

	return begins_with_one(ins, names);
}

static uint8_t taint_of(const struct emu_function *function, const struct emu_ins *ins)
{
	return (uint8_t)(flow_of(function, ins) | (reads_clock(ins) ? EMU_FLOW_CLOCK : 0) |
			 (stores(ins)  ? EMU_FLOW_STORES
			  : takes(ins) ? EMU_FLOW_TAKES
				       : 0));
}

/* ---- which instructions are looked at ---------------------------------------------------- */

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

static bool guarded_by(const struct emu_ins *ins, const uint8_t *tainted)
{
	return ins->guard != EMU_NO_GUARD && tainted[ins->guard];
}

static bool reads_tainted(const struct emu_ins *ins, const uint8_t *tainted)
{
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
	int flow = ins->taint & EMU_FLOW_BITS;

	return ins->taint & EMU_FLOW_CLOCK || flow == EMU_FLOW_TMEM || flow == EMU_FLOW_LOAD ||
	       flow == EMU_FLOW_CALL;
}

static bool may_taint(const struct emu_ins *ins, const uint8_t *tainted)
{
	if (is_source(ins) || guarded_by(ins, tainted))
		return true;
	return (ins->taint & EMU_FLOW_BITS) != EMU_FLOW_DEFINED && reads_tainted(ins, tainted);
}

/* Registers that may be tainted, from those that may be read before they are written on. */
void emu_taint_mark(struct emu_function *function, uint8_t *tainted)
{
	bool changed = true;

	for (uint32_t pc = 0; pc < function->ins_count; pc++)
		function->ins[pc].taint = taint_of(function, &function->ins[pc]);
	while (changed) {
		changed = false;
		for (uint32_t pc = 0; pc < function->ins_count; pc++)
			if (may_taint(&function->ins[pc], tainted))
				changed |= taint_results(&function->ins[pc], tainted);
	}
	for (uint32_t pc = 0; pc < function->ins_count; pc++) {
		struct emu_ins *ins = &function->ins[pc];
		bool touches = is_source(ins) || (ins->taint & EMU_FLOW_BITS) == EMU_FLOW_STORE ||
			       guarded_by(ins, tainted) || reads_tainted(ins, tainted);

		for (uint32_t i = 0; !touches && i < ins->operand_count; i++)
			touches = ins->written >> i & 1 && has_register(&ins->operands[i], tainted);
		if (touches)
			ins->flags |= EMU_I_TAINT;
	}
}

/* ---- reports ------------------------------------------------------------------------------ */

static void report(struct emu_warp *warp, uint32_t lanes, struct emu_taint_origin from,
		   const char *what)
{
	struct emu_where where = emu_here(warp, emu_lowest(lanes));
	char line[EMU_LINE_TEXT] = "";

	if (from.by)
		emu_describe_line(warp->grid, from.by, line, sizeof line);
	switch ((enum emu_taint_kind)from.kind) {
	case EMU_TAINT_REGISTER:
		emu_report_rule(&where, EMU_RULE_UNDEFINED_VALUE, NULL,
				"%s comes from a register that nothing has written", what);
		break;
	case EMU_TAINT_LOCAL:
		emu_report_rule(&where, EMU_RULE_UNDEFINED_VALUE, from.by,
				"%s comes from local memory that nothing has written, loaded at %s",
				what, line);
		break;
	case EMU_TAINT_TMEM:
		emu_report_rule(
			&where, EMU_RULE_UNDEFINED_VALUE, from.by,
			"%s comes from tensor memory that nothing has written, loaded at %s", what,
			line);
		break;
	case EMU_TAINT_CLOCK:
		emu_report_rule(&where, EMU_RULE_CLOCK, from.by, "%s depends on what is read at %s",
				what, line);
		break;
	}
}

/* What the sources of an instruction bring. */
struct brought {
	uint32_t any, all; /* lanes of one source, of every one */
	struct emu_taint_origin from;
};

static void bring(const struct emu_taint_frame *f, const struct emu_operand *operand, uint32_t mask,
		  struct brought *b)
{
	const struct emu_taint_row *row = emu_taint_row(f, operand);
	uint32_t lanes;

	if (row) {
		lanes = emu_taint_lanes(f, operand, mask);
		if (lanes && !b->any)
			b->from = row->from;
		b->any |= lanes;
		b->all &= lanes;
		return;
	}
	if (!operand->count && operand->kind != EMU_O_IMMEDIATE && operand->kind != EMU_O_FLOAT)
		b->all = 0;
	for (uint32_t i = 0; i < operand->count; i++)
		bring(f, &operand->items[i], mask, b);
}

/* A register of a multiplication that is no descriptor. */
static bool is_matrix(const struct emu_ins *ins, const struct emu_operand *operand)
{
	return (ins->taint & EMU_FLOW_BITS) == EMU_FLOW_WGMMA && operand->kind == EMU_O_VECTOR;
}

/* Addresses, and what instructions store or take, must be defined. */
static void check_sinks(struct emu_warp *warp, const struct emu_taint_frame *f,
			const struct emu_ins *ins, uint32_t mask)
{
	bool data = ins->taint & (EMU_FLOW_STORES | EMU_FLOW_TAKES);

	for (uint32_t i = 0; i < ins->operand_count; i++) {
		const struct emu_operand *operand = &ins->operands[i];
		bool address = operand->kind == EMU_O_ADDRESS;
		struct brought b = {.all = EMU_FULL};

		/* Lists are the parameters and results of a call. */
		if (!address && (!data || ins->written >> i & 1 || operand->kind == EMU_O_LIST ||
				 is_matrix(ins, operand)))
			continue;
		bring(f, operand, mask, &b);
		if (b.any && b.from.kind != EMU_TAINT_CLOCK)
			report(warp, b.any, b.from,
			       address                        ? "the address"
			       : ins->taint & EMU_FLOW_STORES ? "what is stored"
							      : "an operand");
	}
}

/* Lanes whose guard is tainted; they do not know whether they execute it. */
static uint32_t check_guard(struct emu_warp *warp, const struct emu_taint_frame *f,
			    const struct emu_ins *ins)
{
	const struct emu_taint_row *row = &f->predicates[ins->guard];
	uint32_t lanes = row->reg == ins->guard_register ? row->mask & warp->split->mask : 0;

	if (lanes && ins->flags & (EMU_I_BRANCH | EMU_I_EXIT | EMU_I_RETURN))
		report(warp, lanes, row->from, "the branch");
	else if (lanes && ins->taint & EMU_FLOW_STORES && row->from.kind != EMU_TAINT_CLOCK)
		report(warp, lanes, row->from, "the predicate");
	return lanes;
}

/* ---- what becomes of them ------------------------------------------------------------------- */

/* Only the source that is chosen counts. */
static void choose(struct emu_warp *warp, const struct emu_taint_frame *f,
		   const struct emu_ins *ins, uint32_t mask, struct brought *b)
{
	uint32_t chosen = emu_predicate(warp, &ins->operands[3]);

	bring(f, &ins->operands[3], mask, b);
	bring(f, &ins->operands[1], mask & chosen, b);
	bring(f, &ins->operands[2], mask & ~chosen, b);
}

static void give(const struct emu_taint_frame *f, const struct emu_ins *ins, uint32_t mask,
		 uint32_t lanes, struct emu_taint_origin from)
{
	for (uint32_t i = 0; i < ins->operand_count; i++)
		if (ins->written >> i & 1)
			emu_taint_set(f, &ins->operands[i], mask, lanes, from);
}

static void propagate(struct emu_warp *warp, const struct emu_taint_frame *f,
		      const struct emu_ins *ins, uint32_t mask, enum emu_taint_flow flow)
{
	struct brought b = {.all = EMU_FULL};
	uint32_t lanes;

	if (flow == EMU_FLOW_CHOOSE)
		choose(warp, f, ins, mask, &b);
	else if (flow != EMU_FLOW_DEFINED && flow != EMU_FLOW_TMEM)
		for (uint32_t i = 0; i < ins->operand_count; i++)
			if (!(ins->written >> i & 1))
				bring(f, &ins->operands[i], mask, &b);
	lanes = flow == EMU_FLOW_DROP ? b.all & b.any : b.any;
	if (flow == EMU_FLOW_WHOLE && lanes)
		lanes = mask;
	if (ins->taint & EMU_FLOW_CLOCK) {
		lanes = mask;
		b.from = (struct emu_taint_origin){ins, EMU_TAINT_CLOCK};
	}
	give(f, ins, mask, lanes, b.from);
}

static void go_through(struct emu_taint *t, struct emu_warp *warp, const struct emu_taint_frame *f,
		       const struct emu_ins *ins, uint32_t mask)
{
	enum emu_taint_flow flow = (enum emu_taint_flow)(ins->taint & EMU_FLOW_BITS);
	const struct emu_operand *scale;

	switch (flow) {
	case EMU_FLOW_LOAD:
		emu_taint_load(t, f, warp, ins, mask);
		break;
	case EMU_FLOW_STORE:
		emu_taint_store(t, f, warp, ins, mask);
		break;
	case EMU_FLOW_LANES:
	case EMU_FLOW_CALL:
		break;
	case EMU_FLOW_MMA:
		emu_taint_mma(f, ins, mask);
		break;
	case EMU_FLOW_WGMMA:
		scale = &ins->operands[strstr(ins->mnemonic, ".sp.") ? 5 : 3];
		emu_taint_wgmma(f, ins, mask, emu_predicate(warp, scale) & mask);
		break;
	default:
		propagate(warp, f, ins, mask, flow);
	}
}

void emu_taint_step(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_taint *t = emu_taint_of(warp->order);
	int flow = ins->taint & EMU_FLOW_BITS;
	const struct emu_taint_frame *f;
	struct emu_taint_origin from = {NULL, EMU_TAINT_REGISTER};
	uint32_t unsure = 0;

	f = t ? emu_taint_frame(t, warp->frame) : NULL;
	if (!f)
		return;
	t->any |= (ins->taint & EMU_FLOW_CLOCK) != 0;
	if (!t->any && flow != EMU_FLOW_LOAD && flow != EMU_FLOW_STORE)
		return;
	if (ins->guard != EMU_NO_GUARD) {
		unsure = check_guard(warp, f, ins);
		from = f->predicates[ins->guard].from;
	}
	if (t->any && !begins(ins, "prefetch"))
		check_sinks(warp, f, ins, mask);
	go_through(t, warp, f, ins, mask);
	if (unsure)
		give(f, ins, unsure, unsure, from);
}

void emu_taint_guard(struct emu_warp *warp, const struct emu_ins *ins)
{
	struct emu_taint *t = emu_taint_of(warp->order);
	const struct emu_taint_frame *f = t ? emu_taint_frame(t, warp->frame) : NULL;
	uint32_t unsure;

	if (!f || !t->any)
		return;
	unsure = check_guard(warp, f, ins);
	if (unsure)
		give(f, ins, unsure, unsure, f->predicates[ins->guard].from);
}

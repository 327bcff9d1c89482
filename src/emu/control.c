/* Branches, calls, returns, the end of threads. */
#include "hazard.h"
#include "schedule.h"

/* ---- branches ------------------------------------------------------------------- */

static enum emu_step jump(struct emu_warp *warp, uint32_t target)
{
	struct emu_split *split = warp->split;
	bool backward = target <= split->pc;

	split->pc = target;
	return backward ? emu_poll_check(warp) : EMU_JUMPED;
}

/*
 * Lanes of `mask` go to `target`, the rest of the split behind the branch.  The
 * running split keeps the side that is not at the meeting point yet.
 */
static enum emu_step diverge(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			     uint32_t target)
{
	struct emu_split *split = warp->split;
	uint32_t next = split->pc + 1;

	if (target == next)
		return EMU_NEXT;
	if (ins->join != EMU_NO_JOIN)
		emu_join_push(split, ins->join);
	if (emu_join_pc(split) != next) {
		emu_part_to(split, mask, target);
		split->pc = next;
		return EMU_JUMPED;
	}
	emu_part_to(split, split->mask & ~mask, next);
	return jump(warp, target);
}

static enum emu_step bra(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t target = (uint32_t)ins->operands[0].value;

	if (mask == warp->split->mask)
		return jump(warp, target);
	return diverge(warp, ins, mask, target);
}

static bool decode_bra(struct emu_decode *decode)
{
	emu_take(decode, "uni");
	decode->ins->flags |= EMU_I_BRANCH;
	if (!emu_want_operands(decode, 1, 1))
		return false;
	return decode->ins->operands[0].kind == EMU_O_LABEL || emu_reject(decode, "needs a label");
}

static enum emu_step brx(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct emu_table *table = ins->operands[1].table;
	const uint32_t *index = emu_row32(warp, ins->ref[0]);
	struct emu_split *split = warp->split;
	uint32_t first, same = 0;

	EMU_FOR_LANES(l, mask)
	{
		if (index[l] >= table->count)
			return emu_fault(warp, (int)l, "branch-index", "index %u of %u targets",
					 index[l], table->count);
	}
	first = index[emu_lowest(mask)];
	EMU_FOR_LANES(l, mask)
	{
		same |= (uint32_t)(table->pcs[index[l]] == table->pcs[first]) << l;
	}
	if (same == split->mask)
		return jump(warp, table->pcs[first]);
	if (ins->join != EMU_NO_JOIN)
		emu_join_push(split, ins->join);
	/* One group leaves; the others come back to this instruction or go on. */
	if (same != mask)
		return emu_part_to(split, same, table->pcs[first]), split->stage = 0,
								    brx(warp, ins, mask & ~same);
	emu_part_to(split, split->mask & ~mask, split->pc + 1);
	return jump(warp, table->pcs[first]);
}

static bool decode_brx(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;

	emu_take(decode, "uni");
	ins->flags |= EMU_I_BRANCH;
	if (!emu_want_operands(decode, 2, 2) || !emu_want_value(decode, 0, 32))
		return false;
	return (ins->operands[1].kind == EMU_O_TABLE && ins->operands[1].table->targets) ||
	       emu_reject(decode, "needs a list of .branchtargets");
}

/* ---- ends --------------------------------------------------------------------------- */

static enum emu_step leave(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)ins;
	return emu_exit_lanes(warp, mask);
}

static enum emu_step ret(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)ins;
	if (!warp->frame->parent)
		return emu_exit_lanes(warp, mask);
	return emu_return_lanes(warp, mask);
}

static bool decode_end(struct emu_decode *decode)
{
	bool returns = decode->opcode->execute == ret;

	emu_take(decode, "uni");
	decode->ins->flags |= returns && !decode->function->entry ? EMU_I_RETURN : EMU_I_EXIT;
	return emu_want_operands(decode, 0, 0);
}

static enum emu_step trap(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);

/* The note's text line for this trap, as there are traps before it on its PTX line. */
static enum emu_step outside(struct emu_warp *warp, const struct emu_ins *ins, int lane,
			     const char *note)
{
	const struct emu_ins *first = warp->frame->function->ins;
	const struct emu_operand *compared =
		ins > first && ins[-1].operand_count > 1 ? &ins[-1].operands[1] : NULL;
	int before;

	for (const struct emu_ins *i = ins; i-- > first && i->line == ins->line;)
		if (i->execute == trap && strchr(note, '\n'))
			note = strchr(note, '\n') + 1;
	before = (int)strcspn(note, "{\n");
	if (!compared || note[before] != '{')
		return emu_fault(warp, lane, "index-out-of-bounds", "%.*s",
				 (int)strcspn(note, "\n"), note);
	return emu_fault(warp, lane, "index-out-of-bounds", "%.*s%d%.*s", before, note,
			 (int32_t)emu_value(warp, compared, lane),
			 (int)strcspn(note + before, "\n") - 2, note + before + 2);
}

static enum emu_step trap(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct emu_source_line *at = emu_line_of(warp->grid, ins);

	if (at && at->note)
		return outside(warp, ins, emu_lowest(mask), at->note);
	return emu_fault(warp, emu_lowest(mask), "trap", "the kernel stopped itself");
}

static bool decode_trap(struct emu_decode *decode)
{
	return emu_want_operands(decode, 0, 0);
}

static enum emu_step nanosleep(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)ins;
	(void)mask;
	warp->split->polled = true;
	return EMU_YIELD;
}

static bool decode_nanosleep(struct emu_decode *decode)
{
	if (emu_take_type(decode) != EMU_T_U32)
		return emu_reject(decode, "needs .u32");
	return emu_want_operands(decode, 1, 1) && emu_want_value(decode, 0, 32);
}

/* ---- calls ---------------------------------------------------------------------------- */

struct call {
	int target;    /* operand that names the function */
	int arguments; /* operand with the arguments, -1: none */
};

/* One argument, copied from the caller's variable or register to the callee's parameter. */
static void pass(struct emu_warp *warp, const struct emu_frame *caller,
		 const struct emu_frame *callee, const struct emu_variable *param,
		 const struct emu_operand *from, uint32_t mask)
{
	if (warp->order)
		emu_taint_pass(warp, caller, callee, param, from, mask);
	EMU_FOR_LANES(l, mask)
	{
		uint8_t *local = warp->local + (size_t)l * warp->local_bytes;
		uint8_t *to = local + callee->local_base + param->address;
		uint64_t value;

		if (from->kind == EMU_O_SYMBOL) {
			memmove(to, local + caller->local_base + from->variable->address,
				param->size);
			continue;
		}
		value = emu_value(warp, from, (int)l);
		memcpy(to, &value, param->size < 8 ? param->size : 8);
	}
}

static bool arguments_fit(struct emu_warp *warp, const struct emu_ins *ins,
			  const struct emu_function *function)
{
	const struct call *call = ins->extra;
	const struct emu_operand *arguments =
		call->arguments >= 0 ? &ins->operands[call->arguments] : NULL;
	const struct emu_operand *results = call->target == 1 ? &ins->operands[0] : NULL;
	int given = arguments ? (int)arguments->count : 0;
	int taken = results ? (int)results->count : 0;

	if (given < function->param_count || taken > function->result_count) {
		emu_fault(warp, -1, "call-mismatch",
			  "'%s' has %d parameters and %d results; the call has %d and %d",
			  function->name, function->param_count, function->result_count, given,
			  taken);
		return false;
	}
	for (int i = 0; i < function->param_count; i++)
		if (arguments->items[i].kind == EMU_O_SYMBOL &&
		    arguments->items[i].variable->size < function->params[i]->size) {
			emu_fault(warp, -1, "call-mismatch",
				  "argument %d of '%s' has %llu bytes, not %llu", i + 1,
				  function->name,
				  (unsigned long long)arguments->items[i].variable->size,
				  (unsigned long long)function->params[i]->size);
			return false;
		}
	for (int i = 0; i < taken; i++)
		if (results->items[i].kind == EMU_O_SYMBOL &&
		    results->items[i].variable->size < function->results[i]->size) {
			emu_fault(warp, -1, "call-mismatch",
				  "result %d of '%s' does not fit its variable", i + 1,
				  function->name);
			return false;
		}
	return true;
}

static enum emu_step enter(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			   const struct emu_function *function)
{
	struct emu_split *split = warp->split;
	struct emu_frame *caller = warp->frame, *callee;
	const struct call *call = ins->extra;
	enum emu_step step;

	if (!arguments_fit(warp, ins, function))
		return EMU_STOPPED;
	callee = emu_frame_new(warp, function, caller, caller->local_top);
	if (!callee)
		return emu_fault(warp, -1, "stack-overflow",
				 "calls are nested %u deep; neither registers nor 512 KiB of local "
				 "memory for each thread hold more",
				 caller->depth + 1);
	callee->call = ins;
	callee->return_pc = split->pc + 1;
	callee->mask = mask;
	callee->join = split->join;
	if (warp->order)
		emu_taint_enter(warp, callee, mask);
	for (int i = 0; i < function->param_count; i++)
		pass(warp, caller, callee, function->params[i],
		     &ins->operands[call->arguments].items[i], mask);
	split->frame = callee;
	emu_frame_release(warp, caller);
	split->join = -1;
	split->pc = 0;
	if (!function->builtin)
		return EMU_JUMPED;
	warp->frame = callee;
	step = function->builtin(warp, ins, mask);
	if (step != EMU_NEXT)
		return step;
	return emu_return_lanes(warp, mask);
}

static enum emu_step call_function(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
				   const struct emu_function *function)
{
	struct emu_split *split = warp->split;
	uint32_t others = split->mask & ~mask;

	if (others) {
		emu_join_push(split, split->pc + 1);
		emu_part_to(split, others, split->pc + 1);
	}
	return enter(warp, ins, mask, function);
}

static enum emu_step call_direct(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct call *call = ins->extra;

	return call_function(warp, ins, mask, ins->operands[call->target].function);
}

static const struct emu_function *function_at(const struct emu_warp *warp, uint64_t address)
{
	const struct emu_module *module = warp->grid->module;
	uint64_t index = (address - EMU_WINDOW_FUNCTION) / 16 - 1;

	if (address <= EMU_WINDOW_FUNCTION || address % 16 ||
	    index >= (uint64_t)module->function_count)
		return NULL;
	return module->by_index[index];
}

/* Lanes that call different functions part here and meet behind the call. */
static enum emu_step call_indirect(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct call *call = ins->extra;
	const struct emu_operand *target = &ins->operands[call->target];
	uint64_t first = emu_value(warp, target, emu_lowest(mask));
	const struct emu_function *function = function_at(warp, first);
	uint32_t same = 0;

	if (!function || !(function->defined || function->builtin))
		return emu_fault(warp, emu_lowest(mask), "bad-call", "0x%llx is no function",
				 (unsigned long long)first);
	EMU_FOR_LANES(l, mask)
	{
		same |= (uint32_t)(emu_value(warp, target, (int)l) == first) << l;
	}
	if (same != mask) {
		emu_join_push(warp->split, warp->split->pc + 1);
		emu_part_to(warp->split, mask & ~same, warp->split->pc);
		mask = same;
	}
	return call_function(warp, ins, mask, function);
}

/* call [(results),] function [, (arguments)] [, prototype]; */
static bool decode_call(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct call *call = emu_decode_extra(decode, sizeof *call);
	struct emu_operand *target;
	int at = 0;

	emu_take(decode, "uni");
	if (!call || !emu_want_operands(decode, 1, 4))
		return false;
	if (ins->operands[0].kind == EMU_O_LIST)
		at = 1;
	if (at >= ins->operand_count)
		return emu_reject(decode, "names no function");
	call->target = at;
	target = &ins->operands[at++];
	call->arguments = -1;
	if (at < ins->operand_count && ins->operands[at].kind == EMU_O_LIST)
		call->arguments = at++;
	ins->extra = call;
	ins->flags |= EMU_I_CALL;
	ins->written = call->target ? 1 : 0;
	ins->read = ((1u << ins->operand_count) - 1) & ~ins->written;
	for (int i = 0; i < 2 && call->arguments >= 0; i++) {
		struct emu_operand *list = &ins->operands[i              ? call->arguments
							  : call->target ? 0
									 : call->arguments];

		for (uint32_t k = 0; k < list->count; k++) {
			int kind = list->items[k].kind;

			if (kind == EMU_O_SYMBOL &&
			    list->items[k].variable->space == EMU_PARAM_FUNCTION)
				continue;
			if (kind != EMU_O_REGISTER && (kind != EMU_O_IMMEDIATE || !i))
				return emu_reject(decode,
						  "arguments are .param variables or registers");
		}
	}
	if (target->kind == EMU_O_REGISTER) {
		ins->execute = call_indirect;
		return target->bits == 64 || emu_reject(decode, "a function's address has 64 bits");
	}
	if (target->kind != EMU_O_FUNCTION)
		return emu_reject(decode, "names no function");
	if (!target->function->defined && !target->function->builtin)
		return emu_reject(decode, "'%s' is not defined in the module",
				  target->function->name);
	if (target->function->entry)
		return emu_reject(decode, "'%s' is a kernel", target->function->name);
	ins->execute = call_direct;
	return true;
}

static const struct emu_opcode opcodes[] = {
	{"bra", decode_bra, bra, EMU_P_NO_RESULT},
	{"brx.idx", decode_brx, brx, EMU_P_NO_RESULT},
	{"call", decode_call, NULL, EMU_P_NO_RESULT},
	{"ret", decode_end, ret, 0},
	{"exit", decode_end, leave, 0},
	{"trap", decode_trap, trap, 0},
	{"brkpt", decode_trap, trap, 0},
	{"nanosleep", decode_nanosleep, nanosleep, EMU_P_NO_RESULT},
};

EMU_OPCODE_TABLE(control, opcodes);

/*
 * Operations of the lanes of a warp together: shfl, vote, match, redux, elect,
 * bar.warp.sync.  Lanes named by the member mask meet here even when they come
 * apart, from different places.
 */
#include "alu.h"
#include "collective.h"
#include "hazard.h"
#include "number.h"
#include "schedule.h"
#include <stdio.h>
#include <stdlib.h>

/* What the lanes bring and what they take away. */
struct exchange {
	uint32_t lanes; /* who takes part */
	uint64_t a[EMU_LANES];
	uint32_t b[EMU_LANES], c[EMU_LANES];
	uint32_t result[EMU_LANES];
	uint32_t predicate;
	/* In check mode: lanes that bring undefined values, in `a` and in the others, and lanes
	   that take one away. */
	uint32_t tainted, unsure, spoilt;
	struct emu_taint_origin from;
};

struct emu_rendezvous {
	const struct collective_form *form;
	uint32_t members, arrived, taken;
	bool complete;
	struct exchange exchange;
	struct emu_rendezvous *next;
};

/* ---- the operations ------------------------------------------------------------------ */

static void shuffle(const struct collective_form *form, struct exchange *x)
{
	EMU_FOR_LANES(l, x->lanes)
	{
		int lane = (int)l, value = (int)(x->b[l] & 31), clamp = (int)(x->c[l] & 31);
		int segment = (int)(x->c[l] >> 8 & 31);
		int most = (lane & segment) | (clamp & ~segment), from;
		bool inside;

		switch (form->variant) {
		case UP:
			from = lane - value;
			inside = from >= most;
			break;
		case DOWN:
			from = lane + value;
			inside = from <= most;
			break;
		case BUTTERFLY:
			from = lane ^ value;
			inside = from <= most;
			break;
		default:
			from = (lane & segment) | (value & ~segment);
			inside = from <= most;
		}
		if (!inside)
			from = lane;
		x->spoilt |= (x->tainted >> (from & 31) & 1) << l;
		x->result[l] = (uint32_t)x->a[from & 31];
		x->predicate |= (uint32_t)inside << l;
	}
}

static void vote(const struct collective_form *form, struct exchange *x)
{
	uint32_t set = 0;
	bool result;

	EMU_FOR_LANES(l, x->lanes)
	{
		set |= (uint32_t)(x->a[l] & 1) << l;
	}
	result = form->variant == ALL   ? set == x->lanes
		 : form->variant == ANY ? set != 0
					: set == x->lanes || !set;
	x->predicate = result ? EMU_FULL : 0;
	EMU_FOR_LANES(l, x->lanes)
	{
		x->result[l] = set;
	}
}

static void match(const struct collective_form *form, struct exchange *x)
{
	bool all = true;

	EMU_FOR_LANES(l, x->lanes)
	{
		uint32_t same = 0;

		EMU_FOR_LANES(k, x->lanes)
		{
			same |= (uint32_t)(x->a[k] == x->a[l]) << k;
		}
		x->result[l] = same;
		all &= same == x->lanes;
	}
	if (form->kind == MATCH_ANY)
		return;
	x->predicate = all ? EMU_FULL : 0;
	EMU_FOR_LANES(l, x->lanes)
	{
		x->result[l] = all ? x->lanes : 0;
	}
}

static uint32_t reduce_float(const struct collective_form *form, uint32_t a, uint32_t b)
{
	float x = emu_f32_of_bits(a), y = emu_f32_of_bits(b);

	if (form->absolute) {
		x = emu_f32_of_bits(a & 0x7fffffff);
		y = emu_f32_of_bits(b & 0x7fffffff);
	}
	if (x != x || y != y) {
		if (form->nan || (x != x && y != y))
			return 0x7fffffff;
		return emu_bits_of_f32(x != x ? y : x);
	}
	if (x == y) /* -0 < +0 */
		return form->variant == MIN ? emu_bits_of_f32(x) | emu_bits_of_f32(y)
					    : emu_bits_of_f32(x) & emu_bits_of_f32(y);
	return emu_bits_of_f32((x < y) == (form->variant == MIN) ? x : y);
}

static uint32_t reduce_two(const struct collective_form *form, uint32_t a, uint32_t b)
{
	return form->type == EMU_T_F32 ? reduce_float(form, a, b)
				       : emu_collective_reduce(form, a, b);
}

static void reduce(const struct collective_form *form, struct exchange *x)
{
	uint32_t first = (uint32_t)emu_lowest(x->lanes), value = (uint32_t)x->a[first];

	if (form->type == EMU_T_F32)
		value = reduce_float(form, value, value);
	EMU_FOR_LANES(l, x->lanes & (x->lanes - 1))
	{
		value = reduce_two(form, value, (uint32_t)x->a[l]);
	}
	EMU_FOR_LANES(l, x->lanes)
	{
		x->result[l] = value;
	}
}

/* The lowest lane is elected, as hardware does. */
static void elect(struct exchange *x)
{
	uint32_t leader = (uint32_t)emu_lowest(x->lanes);

	x->predicate = 1u << leader;
	EMU_FOR_LANES(l, x->lanes)
	{
		x->result[l] = leader;
	}
}

/* A lane of a mask of lanes is one part of it of many: undefined are masks that are so altogether.
 */
static void spoil(const struct collective_form *form, struct exchange *x)
{
	bool parts = form->kind == MATCH_ANY || (form->kind == VOTE && form->variant == BALLOT);

	x->spoilt |= x->unsure;
	if (form->kind == SHUFFLE || form->kind == ELECT || !x->tainted)
		return;
	if (!parts || !(x->lanes & ~x->tainted))
		x->spoilt = x->lanes;
}

static void compute(const struct collective_form *form, struct exchange *x)
{
	x->predicate = 0;
	switch (form->kind) {
	case SHUFFLE:
		shuffle(form, x);
		break;
	case VOTE:
		vote(form, x);
		break;
	case MATCH_ANY:
	case MATCH_ALL:
		match(form, x);
		break;
	case REDUCE:
		reduce(form, x);
		break;
	case ELECT:
		elect(x);
		break;
	case WARP_SYNC:
		break;
	}
	if (x->tainted | x->unsure)
		spoil(form, x);
}

/* ---- in and out of registers -------------------------------------------------------------- */

static void bring_taint(struct emu_warp *warp, const struct emu_ins *ins,
			const struct collective_form *form, uint32_t mask, struct exchange *x)
{
	if (form->a >= 0)
		x->tainted |= emu_taint_read(warp, &ins->operands[form->a], mask, &x->from);
	if (form->b < 0)
		return;
	x->unsure |= emu_taint_read(warp, &ins->operands[form->b], mask, &x->from);
	x->unsure |= emu_taint_read(warp, &ins->operands[form->c], mask, &x->from);
}

static void take_taint(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
		       const struct exchange *x)
{
	const struct emu_operand *result = &ins->operands[0];
	bool pair = result->kind == EMU_O_PAIR;

	emu_taint_write(warp, pair ? &result->items[0] : result, mask, x->spoilt & mask, x->from);
	/* Whether the lane was inside, or all agree. */
	if (pair)
		emu_taint_write(warp, &result->items[1], mask, x->unsure & mask, x->from);
}

static void bring(struct emu_warp *warp, const struct emu_ins *ins,
		  const struct collective_form *form, uint32_t mask, struct exchange *x)
{
	if (ins->flags & EMU_I_TAINT && warp->order)
		bring_taint(warp, ins, form, mask, x);
	if (form->kind == VOTE) {
		uint32_t set = emu_predicate(warp, &ins->operands[form->a]);

		EMU_FOR_LANES(l, mask)
		{
			x->a[l] = set >> l & 1;
		}
		return;
	}
	if (form->a >= 0)
		EMU_FOR_LANES(l, mask)
		{
			x->a[l] = form->wide ? emu_row64(warp, ins->ref[form->a])[l]
					     : emu_row32(warp, ins->ref[form->a])[l];
		}
	if (form->b >= 0)
		EMU_FOR_LANES(l, mask)
		{
			x->b[l] = emu_row32(warp, ins->ref[form->b])[l];
			x->c[l] = emu_row32(warp, ins->ref[form->c])[l];
		}
}

static void take_away(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
		      const struct exchange *x)
{
	const struct collective_form *form = ins->extra;
	const struct emu_operand *result;

	if (form->kind == WARP_SYNC)
		return;
	if (ins->flags & EMU_I_TAINT && warp->order)
		take_taint(warp, ins, mask, x);
	result = &ins->operands[0];
	if (form->kind == VOTE && form->variant != BALLOT) {
		emu_set_predicate(warp, result, mask, x->predicate);
		return;
	}
	if (result->kind == EMU_O_PAIR) {
		emu_set_predicate(warp, &result->items[1], mask, x->predicate);
		result = &result->items[0];
	}
	if (result->kind != EMU_O_REGISTER)
		return;
	uint32_t *d = emu_row32(warp, result->ref);

	EMU_FOR_LANES(l, mask)
	{
		d[l] = x->result[l];
	}
}

/* ---- meeting --------------------------------------------------------------------------------- */

static void describe(const struct emu_waitable *waitable, const struct emu_split *split, char *text,
		     size_t size)
{
	const struct emu_rendezvous *meeting =
		(const struct emu_rendezvous *)(uintptr_t)split->scratch;

	(void)waitable;
	snprintf(text, size, "lanes 0x%08x of 0x%08x",
		 meeting->members & split->warp->live & ~meeting->arrived, meeting->members);
}

static bool everyone_here(const struct emu_warp *warp, const struct emu_rendezvous *meeting)
{
	return !(meeting->members & warp->live & ~meeting->arrived);
}

static void unlink_meeting(struct emu_warp *warp, struct emu_rendezvous *meeting)
{
	struct emu_rendezvous **link = &warp->rendezvous;

	while (*link != meeting)
		link = &(*link)->next;
	*link = meeting->next;
	free(meeting);
}

static void conclude(struct emu_warp *warp, struct emu_rendezvous *meeting)
{
	meeting->exchange.lanes = meeting->arrived;
	compute(meeting->form, &meeting->exchange);
	meeting->complete = true;
	emu_wake(&warp->meeting);
}

void emu_rendezvous_exits(struct emu_warp *warp)
{
	for (struct emu_rendezvous *m = warp->rendezvous; m; m = m->next)
		if (!m->complete && everyone_here(warp, m))
			conclude(warp, m);
}

void emu_rendezvous_free(struct emu_warp *warp)
{
	while (warp->rendezvous)
		unlink_meeting(warp, warp->rendezvous);
}

/* The same operation on the same members; not necessarily the same instruction. */
static bool same_form(const struct collective_form *a, const struct collective_form *b)
{
	return a->kind == b->kind && a->variant == b->variant && a->type == b->type &&
	       a->absolute == b->absolute && a->nan == b->nan;
}

static struct emu_rendezvous *find_meeting(struct emu_warp *warp,
					   const struct collective_form *form, uint32_t members)
{
	struct emu_rendezvous *meeting = warp->rendezvous;

	while (meeting && (meeting->complete || meeting->members != members ||
			   !same_form(meeting->form, form)))
		meeting = meeting->next;
	if (meeting)
		return meeting;
	meeting = calloc(1, sizeof *meeting);
	if (!meeting)
		return NULL;
	meeting->form = form;
	meeting->members = members;
	meeting->next = warp->rendezvous;
	warp->rendezvous = meeting;
	return meeting;
}

static enum emu_step finish(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			    struct emu_rendezvous *meeting)
{
	take_away(warp, ins, mask, &meeting->exchange);
	meeting->taken |= mask;
	if (!(meeting->arrived & warp->live & ~meeting->taken))
		unlink_meeting(warp, meeting);
	return EMU_NEXT;
}

static enum emu_step meet(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			  uint32_t members)
{
	const struct collective_form *form = ins->extra;
	struct emu_split *split = warp->split;
	struct emu_rendezvous *meeting;

	if (split->stage) {
		meeting = (struct emu_rendezvous *)(uintptr_t)split->scratch;
	} else {
		meeting = find_meeting(warp, form, members);
		if (!meeting)
			return emu_fault(warp, -1, "out-of-memory", "the host has no memory");
		bring(warp, ins, form, mask, &meeting->exchange);
		meeting->arrived |= mask;
		split->stage = 1;
		split->scratch = (uintptr_t)meeting;
		if (everyone_here(warp, meeting)) {
			emu_absorb(split, &warp->meeting, split->scratch);
			mask = emu_active(warp, ins, split->mask);
			conclude(warp, meeting);
		}
	}
	if (meeting->complete)
		return finish(warp, ins, mask, meeting);
	warp->meeting.describe = describe;
	return emu_block_on(warp, &warp->meeting);
}

static enum emu_step execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct collective_form *form = ins->extra;
	const uint32_t *row = emu_row32(warp, ins->ref[form->members]);
	uint32_t members = row[emu_lowest(mask)], same = 0;
	struct exchange x;

	if (emu_collective_rows(warp, ins, mask))
		return EMU_NEXT;
	if (warp->order)
		emu_order_warp(warp->order);
	EMU_FOR_LANES(l, mask)
	{
		if (!(row[l] >> l & 1))
			return emu_fault(
				warp, (int)l, "not-a-member",
				"the lane executes this but is not in its member mask 0x%08x",
				row[l]);
		same |= (uint32_t)(row[l] == members) << l;
	}
	if (same != mask) {
		/* Several groups, each on its own. */
		emu_join_push(warp->split, warp->split->pc + 1);
		if (!emu_part(warp, mask & ~same))
			return EMU_STOPPED;
		mask = same;
	}
	if (warp->split->stage || members & warp->live & ~mask)
		return meet(warp, ins, mask, members);
	x.lanes = mask;
	x.tainted = x.unsure = x.spoilt = 0;
	if (mask != EMU_FULL)
		memset(x.a, 0, sizeof x.a);
	bring(warp, ins, form, mask, &x);
	compute(form, &x);
	take_away(warp, ins, mask, &x);
	return EMU_NEXT;
}

/* ---- decoding
 * ------------------------------------------------------------------------------------ */

static struct collective_form *new_form(struct emu_decode *decode, enum collective kind, int a,
					int members)
{
	struct collective_form *form = emu_decode_extra(decode, sizeof *form);

	if (!form)
		return NULL;
	*form = (struct collective_form){
		.kind = kind, .a = a, .b = -1, .c = -1, .members = members};
	decode->ins->extra = form;
	return emu_want_value(decode, members, 32) ? form : NULL;
}

/* d or d|p, where either may be _ */
static bool want_result(struct emu_decode *decode, bool pair_allowed)
{
	const struct emu_operand *result = &decode->ins->operands[0];

	if (result->kind == EMU_O_PAIR && pair_allowed) {
		if (result->items[1].kind != EMU_O_PREDICATE && result->items[1].kind != EMU_O_SINK)
			return emu_reject(decode, "behind '|' stands a predicate");
		result = &result->items[0];
	}
	if (result->kind == EMU_O_SINK || (result->kind == EMU_O_REGISTER && result->bits == 32))
		return true;
	return emu_reject(decode, "the result is a 32-bit register");
}

static bool decode_shuffle(struct emu_decode *decode)
{
	static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
	struct collective_form *form;
	int mode = emu_take_one(decode, modes);

	if (mode < 0)
		return emu_reject(decode, "needs .up, .down, .bfly or .idx");
	if (emu_take_type(decode) != EMU_T_B32)
		return emu_reject(decode, "needs .b32");
	if (!emu_want_operands(decode, 5, 5) || !(form = new_form(decode, SHUFFLE, 1, 4)))
		return false;
	form->variant = mode;
	form->b = 2;
	form->c = 3;
	return want_result(decode, true) && emu_want_value(decode, 1, 32) &&
	       emu_want_value(decode, 2, 32) && emu_want_value(decode, 3, 32);
}

static bool decode_vote(struct emu_decode *decode)
{
	static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
	struct collective_form *form;
	int mode = emu_take_one(decode, modes);

	if (mode < 0)
		return emu_reject(decode, "needs .all, .any, .uni or .ballot");
	if (!emu_take(decode, mode == BALLOT ? "b32" : "pred"))
		return emu_reject(decode, "needs .%s", mode == BALLOT ? "b32" : "pred");
	if (!emu_want_operands(decode, 3, 3) || !(form = new_form(decode, VOTE, 1, 2)))
		return false;
	form->variant = mode;
	return (mode == BALLOT ? want_result(decode, false) : emu_want_predicate(decode, 0)) &&
	       emu_want_predicate(decode, 1);
}

static bool decode_match(struct emu_decode *decode)
{
	static const char *const modes[] = {"any", "all", NULL};
	struct collective_form *form;
	int mode = emu_take_one(decode, modes), bits;

	if (mode < 0 || !emu_take(decode, "sync"))
		return emu_reject(decode, "needs .any.sync or .all.sync");
	bits = emu_types[emu_take_type(decode)].bits;
	if (bits != 32 && bits != 64)
		return emu_reject(decode, "needs .b32 or .b64");
	if (!emu_want_operands(decode, 3, 3) ||
	    !(form = new_form(decode, mode ? MATCH_ALL : MATCH_ANY, 1, 2)))
		return false;
	form->wide = bits == 64;
	return want_result(decode, mode == 1) && emu_want_value(decode, 1, bits);
}

static bool decode_redux(struct emu_decode *decode)
{
	static const char *const operations[] = {"add", "min", "max", "and", "or", "xor", NULL};
	struct collective_form *form;
	int operation = emu_take_one(decode, operations);
	enum emu_type type;

	if (operation < 0)
		return emu_reject(decode, "needs an operation such as .add");
	type = emu_take_type(decode);
	if (operation >= AND ? type != EMU_T_B32
			     : type != EMU_T_U32 && type != EMU_T_S32 &&
				       !(type == EMU_T_F32 && operation != ADD))
		return emu_reject(decode, ".%s does not exist for .%s", operations[operation],
				  emu_types[type].text);
	if (!emu_want_operands(decode, 3, 3) || !(form = new_form(decode, REDUCE, 1, 2)))
		return false;
	form->variant = operation;
	form->type = type;
	if (type == EMU_T_F32 && !emu_want_target(decode, EMU_P_SM100_OR_103, ".f32"))
		return false;
	form->absolute = type == EMU_T_F32 && emu_take(decode, "abs");
	form->nan = type == EMU_T_F32 && emu_take(decode, "NaN");
	return want_result(decode, false) && emu_want_value(decode, 1, 32);
}

static bool decode_elect(struct emu_decode *decode)
{
	return emu_want_operands(decode, 2, 2) && new_form(decode, ELECT, -1, 1) &&
	       want_result(decode, true);
}

static bool decode_warp_sync(struct emu_decode *decode)
{
	decode->ins->flags |= EMU_I_SYNC;
	return emu_want_operands(decode, 1, 1) && new_form(decode, WARP_SYNC, -1, 0);
}

static enum emu_step activemask(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(l, mask)
	{
		emu_row32(warp, ins->ref[0])[l] = mask;
	}
	return EMU_NEXT;
}

static bool decode_activemask(struct emu_decode *decode)
{
	if (emu_take_type(decode) != EMU_T_B32)
		return emu_reject(decode, "needs .b32");
	return emu_want_operands(decode, 1, 1) && emu_want_register(decode, 0, 32);
}

static const struct emu_opcode opcodes[] = {
	{"shfl.sync", decode_shuffle, execute, 0},
	{"vote.sync", decode_vote, execute, 0},
	{"match", decode_match, execute, 0},
	{"redux.sync", decode_redux, execute, 0},
	{"elect.sync", decode_elect, execute, EMU_P_SM90},
	{"bar.warp.sync", decode_warp_sync, execute, EMU_P_NO_RESULT},
	{"activemask", decode_activemask, activemask, 0},
};

EMU_OPCODE_TABLE(collective, opcodes);

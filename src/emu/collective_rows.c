/* Operations of all 32 lanes of a warp that are here together, as loops over rows. */
#include "alu.h"
#include "collective.h"
#include "hazard.h"

/* The lanes that a shuffle takes from, and for which of them it has one; the others take their own.
 */
static uint32_t shuffle_sources(const struct collective_form *form, const uint32_t *b,
				const uint32_t *c, int32_t *from)
{
	uint8_t flags[EMU_LANES];
	int32_t inside[EMU_LANES];

#define SOURCES(source, holds)                                                                     \
	for (int l = 0; l < EMU_LANES; l++) {                                                      \
		int value = (int)(b[l] & 31), clamp = (int)(c[l] & 31);                            \
		int segment = (int)(c[l] >> 8 & 31), most = (l & segment) | (clamp & ~segment);    \
		int lane = source;                                                                 \
                                                                                                   \
		(void)value;                                                                       \
		inside[l] = holds;                                                                 \
		from[l] = inside[l] ? lane & 31 : l;                                               \
	}
	if (form->variant == UP)
		SOURCES(l - value, lane >= most)
	else if (form->variant == DOWN)
		SOURCES(l + value, lane <= most)
	else if (form->variant == BUTTERFLY)
		SOURCES(l ^ value, lane <= most)
	else
		SOURCES((l & segment) | (value & ~segment), lane <= most)
#undef SOURCES
	for (int l = 0; l < EMU_LANES; l++)
		flags[l] = (uint8_t)inside[l];
	return emu_pack_flags(flags);
}

static void shuffle_rows(struct emu_warp *warp, const struct emu_ins *ins)
{
	const struct collective_form *form = ins->extra;
	const struct emu_operand *result = &ins->operands[0];
	const uint32_t *a = emu_row32(warp, ins->ref[form->a]);
	uint32_t taken[EMU_LANES], inside;
	int32_t from[EMU_LANES];

	inside = shuffle_sources(form, emu_row32(warp, ins->ref[form->b]),
				 emu_row32(warp, ins->ref[form->c]), from);
	for (int l = 0; l < EMU_LANES; l++)
		taken[l] = a[from[l]];
	if (result->kind == EMU_O_PAIR) {
		emu_set_predicate(warp, &result->items[1], EMU_FULL, inside);
		result = &result->items[0];
	}
	if (result->kind == EMU_O_REGISTER)
		memcpy(emu_row32(warp, result->ref), taken, sizeof taken);
}

static void vote_rows(struct emu_warp *warp, const struct emu_ins *ins)
{
	const struct collective_form *form = ins->extra;
	const struct emu_operand *result = &ins->operands[0];
	uint32_t set = emu_predicate(warp, &ins->operands[form->a]), *d;
	bool holds = form->variant == ALL   ? set == EMU_FULL
		     : form->variant == ANY ? set != 0
					    : set == EMU_FULL || !set;

	if (form->variant != BALLOT) {
		emu_set_predicate(warp, result, EMU_FULL, holds ? EMU_FULL : 0);
		return;
	}
	if (result->kind != EMU_O_REGISTER)
		return;
	d = emu_row32(warp, result->ref);
	for (int l = 0; l < EMU_LANES; l++)
		d[l] = set;
}

/* False for floats. */
static bool reduce_rows(struct emu_warp *warp, const struct emu_ins *ins)
{
	const struct collective_form *form = ins->extra;
	const struct emu_operand *result = &ins->operands[0];
	const uint32_t *a = emu_row32(warp, ins->ref[form->a]);
	uint32_t value = a[0], *d;

	if (form->type == EMU_T_F32 || result->kind != EMU_O_REGISTER)
		return false;
	for (int l = 1; l < EMU_LANES; l++)
		value = emu_collective_reduce(form, value, a[l]);
	d = emu_row32(warp, result->ref);
	for (int l = 0; l < EMU_LANES; l++)
		d[l] = value;
	return true;
}

static bool all_members(const uint32_t *row)
{
	uint32_t missing = 0;

	for (int l = 0; l < EMU_LANES; l++)
		missing |= ~row[l];
	return !missing;
}

bool emu_collective_rows(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct collective_form *form = ins->extra;

	if ((warp->order && ins->flags & EMU_I_TAINT) || mask != EMU_FULL || warp->split->stage ||
	    !all_members(emu_row32(warp, ins->ref[form->members])))
		return false;
	if (form->kind == SHUFFLE)
		shuffle_rows(warp, ins);
	else if (form->kind == VOTE)
		vote_rows(warp, ins);
	else if (form->kind != WARP_SYNC && !(form->kind == REDUCE && reduce_rows(warp, ins)))
		return false;
	if (warp->order)
		emu_order_warp(warp->order);
	return true;
}

/* Operands of a running instruction, one lane at a time. */
#include "special.h"

/* Address of a variable for the running warp, in the variable's own space. */
static uint64_t variable_address(const struct emu_warp *warp, const struct emu_variable *variable)
{
	switch ((enum emu_space)variable->space) {
	case EMU_SHARED:
		return emu_shared_base(warp->cta) +
		       (variable->external ? warp->grid->static_smem : variable->address);
	case EMU_LOCAL:
	case EMU_PARAM_FUNCTION:
		return warp->frame->local_base + variable->address;
	default:
		return variable->address;
	}
}

static uint64_t row_value(const struct emu_warp *warp, uint32_t ref, int bits, int lane)
{
	if (bits == 64)
		return emu_row64(warp, ref)[lane];
	if (bits == 128)
		return emu_row128(warp, ref)[lane].low;
	return emu_row32(warp, ref)[lane];
}

uint64_t emu_value(const struct emu_warp *warp, const struct emu_operand *operand, int lane)
{
	switch ((enum emu_operand_kind)operand->kind) {
	case EMU_O_REGISTER:
		return row_value(warp, operand->ref, operand->bits, lane);
	case EMU_O_IMMEDIATE:
	case EMU_O_FLOAT:
		return (uint64_t)operand->value;
	case EMU_O_SPECIAL:
		if (operand->value > EMU_S_GRIDID)
			return emu_special_read(warp, (int)operand->value);
		return row_value(warp, emu_special_ref((int)operand->value), operand->bits, lane);
	case EMU_O_SYMBOL:
		return variable_address(warp, operand->variable) + (uint64_t)operand->value;
	case EMU_O_FUNCTION:
		return EMU_WINDOW_FUNCTION + 16 * ((uint64_t)operand->function->index + 1);
	case EMU_O_PREDICATE:
		return emu_predicate(warp, operand) >> lane & 1;
	case EMU_O_VECTOR:
	case EMU_O_PAIR:
		return operand->count ? emu_value(warp, &operand->items[0], lane) : 0;
	default:
		return 0;
	}
}

void emu_set_value(struct emu_warp *warp, const struct emu_operand *operand, int lane,
		   uint64_t value)
{
	if (operand->kind != EMU_O_REGISTER)
		return;
	if (operand->bits == 64)
		emu_row64(warp, operand->ref)[lane] = value;
	else if (operand->bits == 128)
		emu_row128(warp, operand->ref)[lane] = (struct emu_u128){value, 0};
	else if (operand->bits == 32)
		emu_row32(warp, operand->ref)[lane] = (uint32_t)value;
	else
		emu_row32(warp, operand->ref)[lane] =
			(uint32_t)(value & ((1u << operand->bits) - 1));
}

uint32_t emu_predicate(const struct emu_warp *warp, const struct emu_operand *operand)
{
	uint32_t value;

	if (operand->kind == EMU_O_IMMEDIATE)
		return operand->value ? EMU_FULL : 0;
	if (operand->kind == EMU_O_SPECIAL)
		return emu_special_read(warp, (int)operand->value) ? EMU_FULL : 0;
	if (operand->kind != EMU_O_PREDICATE)
		return 0;
	value = warp->predicates[operand->ref];
	return operand->negated ? ~value : value;
}

void emu_set_predicate(struct emu_warp *warp, const struct emu_operand *operand, uint32_t mask,
		       uint32_t value)
{
	if (operand->kind == EMU_O_PREDICATE) {
		uint32_t *slot = &warp->predicates[operand->ref];

		*slot = (*slot & ~mask) | (value & mask);
	}
}

uint64_t emu_address(const struct emu_warp *warp, const struct emu_operand *operand, int lane)
{
	const struct emu_operand *base = &operand->items[0];
	uint64_t address = emu_value(warp, base, lane) + (uint64_t)operand->value;

	return base->kind == EMU_O_REGISTER && base->bits == 32 ? (uint32_t)address : address;
}

/* mov in all its forms, and the operations on addresses. */
#include "alu.h"
#include "predicate.h"
#include "schedule.h"
#include "special.h"

/* ---- mov ------------------------------------------------------------------------ */

static enum emu_step move16(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t *d = emu_row32(warp, ins->ref[0]);
	const uint32_t *a = emu_row32(warp, ins->ref[1]);

	EMU_OVER_LANES(uint32_t, a[l] & 0xffff)
}

static enum emu_step move32(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t *d = emu_row32(warp, ins->ref[0]);
	const uint32_t *a = emu_row32(warp, ins->ref[1]);

	EMU_OVER_LANES(uint32_t, a[l])
}

static enum emu_step move64(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint64_t *d = emu_row64(warp, ins->ref[0]);
	const uint64_t *a = emu_row64(warp, ins->ref[1]);

	EMU_OVER_LANES(uint64_t, a[l])
}

static enum emu_step move128(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(l, mask)
	{
		emu_row128(warp, ins->ref[0])[l] = emu_row128(warp, ins->ref[1])[l];
	}
	return EMU_NEXT;
}

static enum emu_step move_predicate(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	emu_set_predicate(warp, &ins->operands[0], mask, emu_predicate(warp, &ins->operands[1]));
	return EMU_NEXT;
}

/* An address, or a register that is the same for all lanes. */
static enum emu_step move_uniform(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint64_t value = emu_value(warp, &ins->operands[1], emu_lowest(mask));

	EMU_FOR_LANES(l, mask)
	{
		emu_set_value(warp, &ins->operands[0], (int)l, value);
	}
	return EMU_NEXT;
}

static enum emu_step pack_64(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint64_t *d = emu_row64(warp, ins->ref[0]);
	const uint32_t *a = emu_row32(warp, ins->operands[1].items[0].ref);
	const uint32_t *b = emu_row32(warp, ins->operands[1].items[1].ref);

	EMU_OVER_LANES(uint64_t, a[l] | (uint64_t)b[l] << 32)
}

/* The halves of a register of 64 or 32 bits, from one and to two. */
#define UNPACK(name, cell, row, half)                                                              \
	static enum emu_step name(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask) \
	{                                                                                          \
		const struct emu_operand *to = ins->operands[0].items;                             \
		cell from[EMU_LANES];                                                              \
                                                                                                   \
		memcpy(from, row(warp, ins->operands[1].ref), sizeof from);                        \
		for (int i = 0; i < 2; i++) {                                                      \
			uint32_t *d, part[EMU_LANES];                                              \
			const uint32_t *m = emu_lane_mask(warp, mask);                             \
                                                                                                   \
			if (to[i].kind != EMU_O_REGISTER)                                          \
				continue;                                                          \
			d = emu_row32(warp, to[i].ref);                                            \
			for (int l = 0; l < EMU_LANES; l++)                                        \
				part[l] = (uint32_t)(half)(from[l] >> i * (int)sizeof(half) * 8);  \
			for (int l = 0; l < EMU_LANES; l++)                                        \
				d[l] = m[l] ? part[l] : d[l];                                      \
		}                                                                                  \
		return EMU_NEXT;                                                                   \
	}

UNPACK(unpack_64, uint64_t, emu_row64, uint32_t)
UNPACK(unpack_32, uint32_t, emu_row32, uint16_t)

static enum emu_step pack_32(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t *d = emu_row32(warp, ins->ref[0]);
	const uint32_t *a = emu_row32(warp, ins->operands[1].items[0].ref);
	const uint32_t *b = emu_row32(warp, ins->operands[1].items[1].ref);

	EMU_OVER_LANES(uint32_t, (a[l] & 0xffff) | b[l] << 16)
}

static struct emu_u128 wide_value(const struct emu_warp *warp, const struct emu_operand *operand,
				  int lane)
{
	if (operand->kind == EMU_O_REGISTER && operand->bits == 128)
		return emu_row128(warp, operand->ref)[lane];
	return (struct emu_u128){emu_value(warp, operand, lane), 0};
}

static void set_wide(struct emu_warp *warp, const struct emu_operand *operand, int lane,
		     struct emu_u128 value)
{
	if (operand->kind == EMU_O_REGISTER && operand->bits == 128)
		emu_row128(warp, operand->ref)[lane] = value;
	else
		emu_set_value(warp, operand, lane, value.low);
}

/* One side is a vector whose elements make up the other. */
static enum emu_step repack(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct emu_operand *to = &ins->operands[0], *from = &ins->operands[1];
	unsigned bits = ins->count;

	EMU_FOR_LANES(l, mask)
	{
		unsigned __int128 value = 0;
		uint32_t count = from->kind == EMU_O_VECTOR ? from->count : 1;

		for (uint32_t i = 0; i < count; i++) {
			struct emu_u128 part = wide_value(warp, emu_item(from, (int)i), (int)l);

			value |= ((unsigned __int128)part.high << 64 | part.low) << bits * i;
		}
		count = to->kind == EMU_O_VECTOR ? to->count : 1;
		for (uint32_t i = 0; i < count; i++) {
			unsigned __int128 part = value >> bits * i;

			if (count > 1 && bits < 64)
				part &= (1ull << bits) - 1;
			set_wide(warp, emu_item(to, (int)i), (int)l,
				 (struct emu_u128){(uint64_t)part, (uint64_t)(part >> 64)});
		}
	}
	return EMU_NEXT;
}

static bool decode_repack(struct emu_decode *decode, int bits)
{
	struct emu_ins *ins = decode->ins;
	bool packs = ins->operands[1].kind == EMU_O_VECTOR;
	const struct emu_operand *vector = &ins->operands[packs];
	int part;

	if (ins->operands[!packs].kind == EMU_O_VECTOR)
		return emu_reject(decode, "moves between a vector and a register");
	if (vector->count != 1 && vector->count != 2 && vector->count != 4 && vector->count != 8)
		return emu_reject(decode, "a vector here has 1, 2, 4 or 8 elements, not %u",
				  vector->count);
	part = bits / (int)vector->count;
	if (part < 8)
		return emu_reject(decode, "elements are narrower than 8 bits");
	ins->count = (uint8_t)(part < 128 ? part : 0);
	ins->execute = repack;
	if (vector->count == 2 && bits == 64)
		ins->execute = packs ? pack_64 : unpack_64;
	if (vector->count == 2 && bits == 32)
		ins->execute = packs ? pack_32 : unpack_32;
	if (packs)
		return emu_want_register(decode, 0, bits) &&
		       emu_want_vector(decode, 1, (int)vector->count, part);
	return emu_want_vector(decode, 0, (int)vector->count, part) &&
	       (bits == 128 ? emu_want_register(decode, 1, bits) : emu_want_value(decode, 1, bits));
}

static bool decode_move(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct emu_operand *from;
	enum emu_type type = emu_take_type(decode);
	int bits = emu_types[type].bits;

	if (!emu_want_operands(decode, 2, 2))
		return false;
	from = &ins->operands[1];
	if (type == EMU_T_PRED) {
		ins->execute = move_predicate;
		if (from->kind == EMU_O_SPECIAL && from->type == EMU_T_PRED)
			return emu_want_predicate(decode, 0);
		return emu_want_predicate(decode, 0) && emu_want_predicate(decode, 1);
	}
	if (bits != 16 && bits != 32 && bits != 64 && bits != 128)
		return emu_reject(decode, "needs a type of 16 to 128 bits or .pred");
	if (from->kind == EMU_O_VECTOR || ins->operands[0].kind == EMU_O_VECTOR)
		return decode_repack(decode, bits);
	if (from->kind == EMU_O_SYMBOL || from->kind == EMU_O_FUNCTION ||
	    (from->kind == EMU_O_SPECIAL && emu_special_is_dynamic((int)from->value))) {
		if (bits < 32)
			return emu_reject(decode, "an address has 32 or 64 bits");
		ins->execute = move_uniform;
		return emu_want_register(decode, 0, bits);
	}
	ins->execute = bits == 128 ? move128 : bits == 64 ? move64 : bits == 32 ? move32 : move16;
	return emu_want_register(decode, 0, bits) &&
	       (bits == 128 ? emu_want_register(decode, 1, bits) : emu_want_value(decode, 1, bits));
}

/* ---- addresses --------------------------------------------------------------------- */

static uint64_t window_of(const struct emu_decode *decode, enum emu_space space)
{
	switch (space) {
	case EMU_SHARED:
	case EMU_SHARED_CLUSTER:
		return EMU_WINDOW_SHARED;
	case EMU_LOCAL:
		return EMU_WINDOW_LOCAL;
	case EMU_PARAM:
	case EMU_PARAM_FUNCTION:
		return decode->function->entry ? EMU_WINDOW_PARAM : EMU_WINDOW_LOCAL;
	default:
		return 0;
	}
}

static enum emu_step to_generic(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint64_t *d = emu_row64(warp, ins->ref[0]), window = *(const uint64_t *)ins->extra;
	const uint64_t *a = emu_row64(warp, ins->ref[1]);

	EMU_OVER_LANES(uint64_t, a[l] + window)
}

static enum emu_step from_generic(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint64_t *d = emu_row64(warp, ins->ref[0]), window = *(const uint64_t *)ins->extra;
	const uint64_t *a = emu_row64(warp, ins->ref[1]);

	EMU_OVER_LANES(uint64_t, a[l] - window)
}

static bool decode_cvta(struct emu_decode *decode)
{
	bool to = emu_take(decode, "to");
	enum emu_space space = emu_take_space(decode, EMU_GENERIC);
	uint64_t *window = emu_decode_extra(decode, sizeof *window);

	if (space == EMU_GENERIC)
		return emu_reject(decode, "needs a state space");
	if (emu_take_type(decode) != EMU_T_U64)
		return emu_reject(decode, "addresses have 64 bits: .u64");
	if (!window)
		return false;
	*window = window_of(decode, space);
	decode->ins->extra = window;
	decode->ins->execute = !*window ? move64 : to ? from_generic : to_generic;
	return emu_want_operands(decode, 2, 2) && emu_want_register(decode, 0, 64) &&
	       emu_want_value(decode, 1, 64);
}

static bool is_constant(const struct emu_warp *warp, uint64_t address)
{
	const struct emu_allocation *found = emu_find_allocation(warp->grid->emu, address);

	return found && found->read_only;
}

static bool lies_in(const struct emu_warp *warp, enum emu_space wanted, uint64_t address)
{
	enum emu_space space;

	if (address >= EMU_WINDOW_FUNCTION && address < EMU_WINDOW_END)
		return false;
	space = emu_generic_space(&address);
	switch (wanted) {
	case EMU_GLOBAL: /* a parameter lies in it too, a constant does not */
		return space == EMU_PARAM || (space == EMU_GLOBAL && !is_constant(warp, address));
	case EMU_SHARED:
		return space == EMU_SHARED_CLUSTER &&
		       emu_shared_owner(warp->cta, address) == warp->cta;
	case EMU_CONST:
		return space == EMU_GLOBAL && is_constant(warp, address);
	default:
		return space == wanted;
	}
}

static enum emu_step isspacep(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t result = 0;

	EMU_FOR_LANES(l, mask)
	{
		uint64_t address = emu_row64(warp, ins->ref[1])[l];

		result |= (uint32_t)lies_in(warp, (enum emu_space)ins->space, address) << l;
	}
	emu_set_predicate(warp, &ins->operands[0], mask, result);
	return EMU_NEXT;
}

static bool decode_isspacep(struct emu_decode *decode)
{
	enum emu_space space = emu_take_space(decode, EMU_GENERIC);

	if (space == EMU_GENERIC)
		return emu_reject(decode, "needs a state space");
	decode->ins->space = (uint8_t)space;
	return emu_want_operands(decode, 2, 2) && emu_want_predicate(decode, 0) &&
	       emu_want_value(decode, 1, 64);
}

/* There are no textures, samplers and surfaces that an address could be one of. */
static enum emu_step istypep(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	emu_set_predicate(warp, &ins->operands[0], mask, 0);
	return EMU_NEXT;
}

static bool decode_istypep(struct emu_decode *decode)
{
	static const char *const kinds[] = {"texref", "samplerref", "surfref", NULL};

	if (emu_take_one(decode, kinds) < 0)
		return emu_reject(decode, "needs .texref, .samplerref or .surfref");
	return emu_want_operands(decode, 2, 2) && emu_want_predicate(decode, 0) &&
	       emu_want_value(decode, 1, 64);
}

/* Shared memory at the same place in another CTA of the cluster. */
static enum emu_step mapa(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	bool wide = emu_types[ins->type].bits == 64, generic = ins->space == EMU_GENERIC;

	EMU_FOR_LANES(l, mask)
	{
		uint64_t address = emu_value(warp, &ins->operands[1], (int)l);
		uint32_t rank = (uint32_t)emu_value(warp, &ins->operands[2], (int)l);

		if (!emu_shared_address(warp, (int)l, (enum emu_space)ins->space, &address))
			return EMU_STOPPED;
		if (rank >= (uint32_t)warp->cta->cluster->cta_count)
			return emu_fault(warp, (int)l, "cluster-rank", "CTA %u of a cluster of %d",
					 rank, warp->cta->cluster->cta_count);
		address = (address & EMU_SHARED_MASK) | (uint64_t)rank << EMU_SHARED_RANK;
		if (generic)
			address |= EMU_WINDOW_SHARED;
		if (wide)
			emu_row64(warp, ins->ref[0])[l] = address;
		else
			emu_row32(warp, ins->ref[0])[l] = (uint32_t)address;
	}
	return EMU_NEXT;
}

static enum emu_step getctarank(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(l, mask)
	{
		uint64_t address = emu_value(warp, &ins->operands[1], (int)l);

		if (!emu_shared_address(warp, (int)l, (enum emu_space)ins->space, &address))
			return EMU_STOPPED;
		emu_row32(warp, ins->ref[0])[l] = (uint32_t)(address >> EMU_SHARED_RANK);
	}
	return EMU_NEXT;
}

static bool decode_mapa(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	bool map = decode->opcode->execute == mapa;
	enum emu_type type;
	int bits;

	ins->space = (uint8_t)emu_take_space(decode, EMU_GENERIC);
	type = emu_take_type(decode);
	bits = emu_types[type].bits;
	if (type != EMU_T_U32 && type != EMU_T_U64)
		return emu_reject(decode, "needs .u32 or .u64");
	if (ins->space != EMU_GENERIC && ins->space != EMU_SHARED_CLUSTER)
		return emu_reject(decode, "takes .shared::cluster or a generic address");
	/* The low half of a generic address is one of shared memory, on an H200 too. */
	if (ins->space == EMU_GENERIC && bits != 64)
		ins->space = EMU_SHARED_CLUSTER;
	ins->type = (uint8_t)type;
	return emu_want_operands(decode, map ? 3 : 2, map ? 3 : 2) &&
	       emu_want_register(decode, 0, map ? bits : 32) && emu_want_value(decode, 1, bits) &&
	       (!map || emu_want_value(decode, 2, 32));
}

/* ---- the stack ----------------------------------------------------------------------- */

static enum emu_step alloca_bytes(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_frame *frame = warp->frame;
	uint64_t most = 0, align = (uint64_t)ins->operands[2].value;
	uint64_t start = (frame->local_top + align - 1) & ~(align - 1);

	EMU_FOR_LANES(l, mask)
	{
		uint64_t size = emu_value(warp, &ins->operands[1], (int)l);

		most = size > most ? size : most;
	}
	if (most > 1u << 20 || !emu_local_grow(warp, (uint32_t)(start + ((most + 15) & ~15ull))))
		return emu_fault(warp, -1, "stack-overflow", "%llu bytes do not fit local memory",
				 (unsigned long long)most);
	frame->local_top = (uint32_t)(start + ((most + 15) & ~15ull));
	EMU_FOR_LANES(l, mask)
	{
		emu_set_value(warp, &ins->operands[0], (int)l, start);
	}
	return EMU_NEXT;
}

static bool decode_alloca(struct emu_decode *decode)
{
	int bits = emu_types[emu_take_type(decode)].bits;
	int64_t align;

	if (bits != 32 && bits != 64)
		return emu_reject(decode, "needs .u32 or .u64");
	if (decode->ins->operand_count == 2) {
		struct emu_operand *operands = emu_decode_extra(decode, 3 * sizeof *operands);

		if (!operands)
			return false;
		memcpy(operands, decode->ins->operands, 2 * sizeof *operands);
		operands[2] = (struct emu_operand){.kind = EMU_O_IMMEDIATE, .value = 8};
		decode->ins->operands = operands;
		decode->ins->operand_count = 3;
	}
	if (!emu_want_operands(decode, 3, 3) || !emu_want_register(decode, 0, bits) ||
	    !emu_want_value(decode, 1, bits) || !emu_want_immediate(decode, 2, 1, 4096))
		return false;
	align = decode->ins->operands[2].value;
	return !(align & (align - 1)) || emu_reject(decode, "the alignment is no power of two");
}

static enum emu_step stacksave(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(l, mask)
	{
		emu_set_value(warp, &ins->operands[0], (int)l, warp->frame->local_top);
	}
	return EMU_NEXT;
}

static enum emu_step stackrestore(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_frame *frame = warp->frame;
	uint64_t top = emu_value(warp, &ins->operands[0], emu_lowest(mask));

	if (top < frame->local_base + frame->function->frame_bytes || top > frame->local_top)
		return emu_fault(warp, emu_lowest(mask), "stack-overflow",
				 "0x%llx is no saved stack pointer of this function",
				 (unsigned long long)top);
	frame->local_top = (uint32_t)top;
	return EMU_NEXT;
}

static bool decode_stack(struct emu_decode *decode)
{
	int bits = emu_types[emu_take_type(decode)].bits;

	if (bits != 32 && bits != 64)
		return emu_reject(decode, "needs .u32 or .u64");
	return emu_want_operands(decode, 1, 1) && emu_want_register(decode, 0, bits);
}

static const struct emu_opcode opcodes[] = {
	{"mov", decode_move, NULL, 0},
	{"cvta", decode_cvta, NULL, 0},
	{"isspacep", decode_isspacep, isspacep, 0},
	{"istypep", decode_istypep, istypep, 0},
	{"mapa", decode_mapa, mapa, EMU_P_SM90},
	{"getctarank", decode_mapa, getctarank, EMU_P_SM90},
	{"alloca", decode_alloca, alloca_bytes, 0},
	{"stacksave", decode_stack, stacksave, 0},
	{"stackrestore", decode_stack, stackrestore, EMU_P_NO_RESULT},
};

EMU_OPCODE_TABLE(move, opcodes);

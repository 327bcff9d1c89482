/* Instructions that change tensor maps in memory (8.1). */
#include "hazard.h"

/* ---- tensormap.replace (8.1) ----------------------------------------------------------- */

enum map_field {
	FIELD_GLOBAL_ADDRESS,
	FIELD_RANK,
	FIELD_BOX_DIM,
	FIELD_GLOBAL_DIM,
	FIELD_GLOBAL_STRIDE,
	FIELD_ELEMENT_STRIDE,
	FIELD_ELEMTYPE,
	FIELD_INTERLEAVE,
	FIELD_SWIZZLE,
	FIELD_ATOMICITY,
	FIELD_FILL
};

static const char *const field_names[] = {
	"global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
	"element_stride", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity",
	"fill_mode",      NULL};

static bool has_ordinal(enum map_field field)
{
	return field >= FIELD_BOX_DIM && field <= FIELD_ELEMENT_STRIDE;
}

/* The instruction numbers the element types in an order of its own. */
static const int element_types[] = {
	EMU_TM_U8,       EMU_TM_U16,          EMU_TM_U32,           EMU_TM_S32,
	EMU_TM_U64,      EMU_TM_S64,          EMU_TM_F16,           EMU_TM_F32,
	EMU_TM_F32_FTZ,  EMU_TM_F64,          EMU_TM_BF16,          EMU_TM_TF32,
	EMU_TM_TF32_FTZ, EMU_TM_16U4_ALIGN8B, EMU_TM_16U4_ALIGN16B, EMU_TM_16U6_ALIGN16B};

/* Mode and atomicity are two fields here and one in cuTensorMapEncodeTiled: 128B has atoms. */
static bool set_swizzle(struct emu_tensormap *map, enum map_field field, uint64_t value)
{
	static const int atoms[] = {3, 4, 5, 6};

	if (field == FIELD_SWIZZLE && value == 4) {
		map->swizzle = EMU_TM_SWIZZLE_96;
		return true;
	}
	if (value > 3)
		return false;
	if (field == FIELD_SWIZZLE)
		map->swizzle = value == 3 && map->swizzle >= 3 && map->swizzle <= 6 ? map->swizzle
										    : (int)value;
	else if (map->swizzle >= 3 && map->swizzle <= 6)
		map->swizzle = atoms[value];
	else if (value)
		return false;
	return true;
}

static bool set_field(struct emu_tensormap *map, enum map_field field, int ordinal, uint64_t value)
{
	uint32_t word = (uint32_t)value;

	switch (field) {
	case FIELD_GLOBAL_ADDRESS:
		map->address = value;
		return true;
	case FIELD_RANK:
		map->rank = (int)(word + 1);
		return word < EMU_MAX_RANK;
	case FIELD_BOX_DIM:
		map->box[ordinal] = word;
		return word <= 0xffff;
	case FIELD_GLOBAL_DIM:
		map->dims[ordinal] = word ? word : 1ull << 32;
		return true;
	case FIELD_GLOBAL_STRIDE:
		if (ordinal >= EMU_MAX_RANK - 1)
			return false;
		map->strides[ordinal] = value;
		return true;
	case FIELD_ELEMENT_STRIDE:
		map->element_strides[ordinal] = word;
		return word <= 0xff;
	case FIELD_ELEMTYPE:
		if (word > 15)
			return false;
		map->type = element_types[word];
		return true;
	case FIELD_INTERLEAVE:
		map->interleave = (int)word;
		return word <= 2;
	case FIELD_FILL:
		map->oob_fill = (int)word;
		return word <= 1;
	default:
		return set_swizzle(map, field, value);
	}
}

static enum emu_step execute_replace(struct emu_warp *warp, const struct emu_ins *ins,
				     uint32_t mask)
{
	enum map_field field = (enum map_field)ins->variant;
	int last = ins->operand_count - 1;

	EMU_FOR_LANES(lane, mask)
	{
		uint64_t value = emu_value(warp, &ins->operands[last], (int)lane);
		int ordinal = has_ordinal(field) ? (int)ins->operands[1].value : 0;
		uint8_t *bytes = emu_mem(warp, (int)lane, (enum emu_space)ins->space,
					 emu_address(warp, &ins->operands[0], (int)lane), 128, 64,
					 EMU_UPDATE);
		struct emu_tensormap map;
		struct emu_error error;

		if (!bytes)
			return EMU_STOPPED;
		if (!emu_tensormap_unpack(bytes, &map, &error))
			return emu_fault(warp, (int)lane, "tensormap", "%s", error.text);
		if (!set_field(&map, field, ordinal, value))
			return emu_fault(warp, (int)lane, "tensormap",
					 "tensormap.replace: %s cannot become %llu",
					 field_names[field], (unsigned long long)value);
		emu_tensormap_pack(&map, bytes);
		if (warp->order)
			emu_watch_one(warp, (int)lane, (enum emu_space)ins->space,
				      emu_address(warp, &ins->operands[0], (int)lane), 128,
				      EMU_UPDATE);
		emu_changed(warp->worker);
	}
	return EMU_NEXT;
}

/* New values that stand in the text (a rank may also be in a register), and the targets that have
 * them. */
static bool want_constant(struct emu_decode *decode, enum map_field field)
{
	static const int last[] = {
		[FIELD_RANK] = 4,    [FIELD_ELEMTYPE] = 15, [FIELD_INTERLEAVE] = 2,
		[FIELD_SWIZZLE] = 4, [FIELD_ATOMICITY] = 3, [FIELD_FILL] = 1};
	const struct emu_operand *value = &decode->ins->operands[1];

	if (field == FIELD_RANK && value->kind == EMU_O_REGISTER)
		return emu_want_value(decode, 1, 32);
	if (!emu_want_immediate(decode, 1, 0, last[field]))
		return false;
	if (field == FIELD_SWIZZLE && value->value == 4)
		return (decode->module->sm == 103 &&
			emu_want_target(decode, EMU_P_SM103A, "swizzle mode 4")) ||
		       emu_reject(decode, "swizzle mode 4 exists on sm_103a alone");
	if (field == FIELD_ATOMICITY || (field == FIELD_ELEMTYPE && value->value > 12))
		return emu_want_target(decode, EMU_P_SM100, field_names[field]);
	return true;
}

static bool decode_replace(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	int field = emu_take_one(decode, field_names), want;

	if (field == -2)
		return false;
	if (field < 0 || !emu_take(decode, "tile"))
		return emu_reject(decode,
				  ".tile and a field (.global_address, .rank, .box_dim ...) "
				  "are needed");
	ins->variant = (uint8_t)field;
	ins->space = emu_take_space(decode, EMU_GENERIC);
	emu_take(decode, "b1024");
	emu_take(decode, "b32");
	emu_take(decode, "b64");
	emu_results(ins, 0);
	want = has_ordinal((enum map_field)field) ? 3 : 2;
	if (!emu_want_operands(decode, want, want) || !emu_want_address(decode, 0))
		return false;
	if (want == 2 && field != FIELD_GLOBAL_ADDRESS)
		return want_constant(decode, (enum map_field)field);
	return (want == 2 || emu_want_immediate(decode, 1, 0, EMU_MAX_RANK - 1)) &&
	       emu_want_value(decode, want - 1,
			      field == FIELD_GLOBAL_ADDRESS || field == FIELD_GLOBAL_STRIDE ? 64
											    : 32);
}

/* ---- copy and fence ----------------------------------------------------------------------- */

/* All threads of the warp give the same addresses; one copy is made. */
static enum emu_step execute_copy(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	int lane = emu_lowest(mask);
	uint8_t *to = emu_mem(warp, lane, EMU_GLOBAL, emu_address(warp, &ins->operands[0], lane),
			      128, 128, EMU_WRITE);
	const uint8_t *from =
		to ? emu_mem(warp, lane, EMU_SHARED, emu_address(warp, &ins->operands[1], lane),
			     128, 128, EMU_READ)
		   : NULL;

	if (!from)
		return EMU_STOPPED;
	memcpy(to, from, 128);
	if (warp->order) {
		emu_watch_one(warp, lane, EMU_SHARED, emu_address(warp, &ins->operands[1], lane),
			      128, EMU_READ);
		emu_watch_one(warp, lane, EMU_GLOBAL, emu_address(warp, &ins->operands[0], lane),
			      128, EMU_WRITE);
		emu_order_tensormap_fence(warp->order, false);
	}
	emu_changed(warp->worker);
	return EMU_NEXT;
}

static bool decode_copy(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;

	emu_take_space(decode, EMU_GLOBAL);
	emu_take_space(decode, EMU_SHARED);
	emu_take(decode, "tensormap::generic");
	emu_take(decode, "sync");
	emu_take(decode, "aligned");
	emu_take_semantics(decode);
	ins->flags |= EMU_I_ALIGNED;
	emu_results(ins, 0);
	return emu_want_operands(decode, 3, 3) && emu_want_address(decode, 0) &&
	       emu_want_address(decode, 1) && emu_want_immediate(decode, 2, 128, 128);
}

static const struct emu_opcode rows[] = {
	{"tensormap.replace", decode_replace, execute_replace,
	 EMU_P_NO_RESULT | EMU_P_SM90 | EMU_P_SPECIFIC},
	{"tensormap.cp_fenceproxy", decode_copy, execute_copy, EMU_P_NO_RESULT | EMU_P_SM90},
};

EMU_OPCODE_TABLE(tensormap_ops, rows);

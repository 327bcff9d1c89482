/* ld, st and their kin: scalars and vectors, every width, every space. */
#include "alu.h"
#include "lanes.h"
#include "later.h"

/* ---- values ------------------------------------------------------------------------ */

/* Lanes that are not active read what the first active one does, and keep what they have. */
#define LOAD(type, cell, row, convert)                                                             \
	{                                                                                          \
		cell part[EMU_LANES], *d = row(warp, item->ref),                                   \
				      *to = mask == EMU_FULL ? d : part;                           \
		type value;                                                                        \
                                                                                                   \
		EMU_UNROLL                                                                         \
		for (int l = 0; l < EMU_LANES; l++) {                                              \
			memcpy(&value, lanes->at[l] + offset, sizeof value);                       \
			to[l] = (cell)(convert)value;                                              \
		}                                                                                  \
		if (to == part)                                                                    \
			KEEP(cell)                                                                 \
		break;                                                                             \
	}

#define KEEP(cell)                                                                                 \
	{                                                                                          \
		const uint32_t *m = emu_lane_mask(warp, mask);                                     \
                                                                                                   \
		for (int l = 0; l < EMU_LANES; l++)                                                \
			d[l] = m[l] ? part[l] : d[l];                                              \
	}

enum load_shape {
	L8,
	L8_64,
	S8,
	S8_32,
	S8_64,
	L16,
	L16_64,
	S16_32,
	S16_64,
	L32,
	L32_64,
	S32_64,
	L64,
	L128
};

/* How an element of `type` arrives in a register of `bits`: sign or zero extended. */
static enum load_shape load_shape(enum emu_type type, int bits)
{
	bool is_signed = emu_types[type].class == EMU_CLASS_SIGNED;

	switch (emu_types[type].bits) {
	case 8:
		if (is_signed)
			return bits == 64 ? S8_64 : bits == 32 ? S8_32 : S8;
		return bits == 64 ? L8_64 : L8;
	case 16:
		if (is_signed && bits > 16)
			return bits == 64 ? S16_64 : S16_32;
		return bits == 64 ? L16_64 : L16;
	case 32:
		return bits == 64 ? is_signed ? S32_64 : L32_64 : L32;
	case 64:
		return L64;
	default:
		return L128;
	}
}

/* A signed byte in a 16-bit register is extended to 16 bits, in an 8-bit one not at all. */
static uint32_t narrow_sign(uint8_t byte, int bits)
{
	return bits == 8 ? byte : (uint16_t)(int16_t)(int8_t)byte;
}

static void load_element(struct emu_warp *warp, enum emu_type type, const struct emu_operand *item,
			 uint32_t offset, uint32_t mask, const struct emu_lanes *lanes)
{
	if (item->kind != EMU_O_REGISTER)
		return;
	switch (load_shape(type, item->bits)) {
	case L8:
		LOAD(uint8_t, uint32_t, emu_row32, uint8_t)
	case L8_64:
		LOAD(uint8_t, uint64_t, emu_row64, uint8_t)
	case S8: {
		uint32_t *d = emu_row32(warp, item->ref);

		EMU_FOR_LANES(l, mask)
		{
			d[l] = narrow_sign(lanes->at[l][offset], item->bits);
		}
		break;
	}
	case S8_32:
		LOAD(int8_t, uint32_t, emu_row32, int32_t)
	case S8_64:
		LOAD(int8_t, uint64_t, emu_row64, int64_t)
	case L16:
		LOAD(uint16_t, uint32_t, emu_row32, uint16_t)
	case L16_64:
		LOAD(uint16_t, uint64_t, emu_row64, uint16_t)
	case S16_32:
		LOAD(int16_t, uint32_t, emu_row32, int32_t)
	case S16_64:
		LOAD(int16_t, uint64_t, emu_row64, int64_t)
	case L32:
		LOAD(uint32_t, uint32_t, emu_row32, uint32_t)
	case L32_64:
		LOAD(uint32_t, uint64_t, emu_row64, uint32_t)
	case S32_64:
		LOAD(int32_t, uint64_t, emu_row64, int64_t)
	case L64:
		LOAD(uint64_t, uint64_t, emu_row64, uint64_t)
	case L128:
		EMU_FOR_LANES(l, mask)
		{
			memcpy(&emu_row128(warp, item->ref)[l], lanes->at[l] + offset, 16);
		}
		break;
	}
}

/* Strong accesses of lanes synchronise one by one. */
static bool may_run(const struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	return ins->variant && mask == EMU_FULL && (!warp->order || !ins->semantics);
}

static void one_place(struct emu_lanes *lanes)
{
	for (int l = 1; l < EMU_LANES; l++)
		lanes->address[l] = lanes->address[0];
}

static void watch_load(struct emu_warp *warp, const struct emu_ins *ins, struct emu_lanes *lanes,
		       const uint8_t *run, uint32_t size)
{
	if (emu_is_shared(lanes->space) &&
	    emu_later_run(warp->order, run, lanes->same ? 0 : size, size))
		return;
	if (!lanes->same) {
		emu_watch_run(warp, ins, lanes->address[0], NULL, size, EMU_READ);
		return;
	}
	one_place(lanes);
	emu_watch_lanes(warp, ins, lanes->address, EMU_FULL, NULL, size, EMU_READ);
}

enum emu_step emu_load(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t size = emu_types[ins->type].bits / 8u, count = ins->count;
	uint64_t bytes = (uint64_t)size * count * emu_count(mask);
	struct emu_lanes lanes;
	const uint8_t *run;

	if (may_run(warp, ins, mask) &&
	    (run = emu_resolve_run(warp, ins, 1, size * count, EMU_READ, &lanes))) {
		if (warp->order)
			watch_load(warp, ins, &lanes, run, size * count);
		(lanes.same ? emu_load_same : emu_load_run)(warp, ins, run);
		emu_count_bytes(warp, lanes.space, bytes, false);
		return EMU_NEXT;
	}
	if (!emu_resolve(warp, ins, 1, mask, size * count, EMU_READ, &lanes))
		return EMU_STOPPED;
	for (uint32_t i = 0; i < count; i++)
		load_element(warp, (enum emu_type)ins->type, emu_item(&ins->operands[0], (int)i),
			     i * size, mask, &lanes);
	emu_count_bytes(warp, lanes.space, bytes, false);
	return EMU_NEXT;
}

#define STORE(type, cell, row)                                                                     \
	{                                                                                          \
		const cell *s = row(warp, item->ref);                                              \
                                                                                                   \
		if (mask == EMU_FULL) {                                                            \
			EMU_UNROLL                                                                 \
			for (int l = 0; l < EMU_LANES; l++) {                                      \
				type value = (type)s[l];                                           \
                                                                                                   \
				memcpy(lanes->at[l] + offset, &value, sizeof value);               \
			}                                                                          \
			break;                                                                     \
		}                                                                                  \
		EMU_FOR_LANES(l, mask)                                                             \
		{                                                                                  \
			type value = (type)s[l];                                                   \
                                                                                                   \
			memcpy(lanes->at[l] + offset, &value, sizeof value);                       \
		}                                                                                  \
		break;                                                                             \
	}

static void store_element(struct emu_warp *warp, int bits, const struct emu_operand *item,
			  uint32_t offset, uint32_t mask, const struct emu_lanes *lanes)
{
	bool wide = item->kind == EMU_O_REGISTER && item->bits == 64;

	switch (bits) {
	case 8:
		if (wide)
			STORE(uint8_t, uint64_t, emu_row64)
		STORE(uint8_t, uint32_t, emu_row32)
	case 16:
		if (wide)
			STORE(uint16_t, uint64_t, emu_row64)
		STORE(uint16_t, uint32_t, emu_row32)
	case 32:
		if (wide)
			STORE(uint32_t, uint64_t, emu_row64)
		STORE(uint32_t, uint32_t, emu_row32)
	case 64:
		STORE(uint64_t, uint64_t, emu_row64)
	default:
		EMU_FOR_LANES(l, mask)
		{
			memcpy(lanes->at[l] + offset, &emu_row128(warp, item->ref)[l], 16);
		}
	}
}

static void store_elements(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			   const struct emu_lanes *lanes)
{
	int bits = emu_types[ins->type].bits;

	for (uint32_t i = 0; i < ins->count; i++)
		store_element(warp, bits, emu_item(&ins->operands[1], (int)i),
			      i * (uint32_t)bits / 8, mask, lanes);
}

static void store_watched(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask,
			  const struct emu_lanes *lanes)
{
	struct emu_stored stored;

	stored.mask = mask;
	stored.size = emu_types[ins->type].bits / 8u * ins->count;
	stored.run = NULL;
	stored.at = lanes->at;
	emu_watch_keep(&stored);
	if (warp->grid->between)
		emu_watch_before_write(warp, (enum emu_space)ins->space, lanes->address, mask,
				       stored.size);
	store_elements(warp, ins, mask, lanes);
	emu_watch_lanes(warp, ins, lanes->address, mask, &stored, stored.size, EMU_WRITE);
}

static void store_run(struct emu_warp *warp, const struct emu_ins *ins, struct emu_lanes *lanes,
		      uint8_t *run)
{
	struct emu_stored stored;

	if (!warp->order) {
		emu_store_run(warp, ins, run);
		return;
	}
	stored.mask = EMU_FULL;
	stored.size = emu_types[ins->type].bits / 8u * ins->count;
	stored.run = run;
	emu_watch_keep(&stored);
	if (warp->grid->between)
		emu_watch_before_write(warp, (enum emu_space)ins->space, lanes->address, 1,
				       EMU_LANES * stored.size);
	emu_store_run(warp, ins, run);
	emu_watch_run(warp, ins, lanes->address[0], &stored, stored.size, EMU_WRITE);
}

static void store_last(struct emu_warp *warp, const struct emu_ins *ins, struct emu_lanes *lanes,
		       uint8_t *to)
{
	if (!warp->order) {
		emu_store_last(warp, ins, to);
		return;
	}
	one_place(lanes);
	for (int l = 0; l < EMU_LANES; l++)
		lanes->at[l] = to;
	store_watched(warp, ins, EMU_FULL, lanes);
}

enum emu_step emu_store(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	uint32_t size = emu_types[ins->type].bits / 8u * ins->count;
	struct emu_lanes lanes;
	uint8_t *run = NULL;

	if (may_run(warp, ins, mask))
		run = emu_resolve_run(warp, ins, 0, size, EMU_WRITE, &lanes);
	if (!run && !emu_resolve(warp, ins, 0, mask, size, EMU_WRITE, &lanes))
		return EMU_STOPPED;
	if (run && lanes.same)
		store_last(warp, ins, &lanes, run);
	else if (run)
		store_run(warp, ins, &lanes, run);
	else if (warp->order && lanes.space != EMU_LOCAL)
		store_watched(warp, ins, mask, &lanes);
	else
		store_elements(warp, ins, mask, &lanes);
	emu_count_bytes(warp, lanes.space, (uint64_t)size * emu_count(mask), true);
	if (lanes.space != EMU_LOCAL)
		emu_changed(warp->worker);
	return EMU_NEXT;
}

/* st.bulk: the bytes that each thread names become zero. */
static enum emu_step store_bulk(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(lane, mask)
	{
		uint64_t address = emu_address(warp, &ins->operands[0], (int)lane);
		uint64_t size = emu_value(warp, &ins->operands[1], (int)lane);
		uint8_t *to;

		if (!emu_shared_address(warp, (int)lane, (enum emu_space)ins->space, &address))
			return EMU_STOPPED;
		if (size % 8)
			return emu_fault(warp, (int)lane, "misaligned",
					 "st.bulk of %llu bytes; the size must be a multiple of 8",
					 (unsigned long long)size);
		if (!size)
			continue;
		if (size > UINT32_MAX)
			size = UINT32_MAX;
		to = emu_mem(warp, (int)lane, EMU_SHARED_CLUSTER, address, (uint32_t)size, 8,
			     EMU_WRITE);
		if (!to)
			return EMU_STOPPED;
		memset(to, 0, size);
		if (warp->order)
			emu_watch_one(warp, (int)lane, EMU_SHARED_CLUSTER, address, (uint32_t)size,
				      EMU_WRITE);
		emu_count_bytes(warp, EMU_SHARED, size, true);
	}
	emu_changed(warp->worker);
	return EMU_NEXT;
}

/* ---- decoding ------------------------------------------------------------------------- */

enum emu_space emu_access_space(struct emu_decode *decode, int address)
{
	enum emu_space space = emu_take_space(decode, EMU_GENERIC);
	const struct emu_operand *operand = &decode->ins->operands[address];
	const struct emu_operand *base = operand->items;

	if (space == EMU_PARAM && !decode->function->entry)
		space = EMU_PARAM_FUNCTION;
	if (operand->kind == EMU_O_ADDRESS && base->kind == EMU_O_SYMBOL) {
		enum emu_space declared = (enum emu_space)base->variable->space;

		if (space == EMU_PARAM || space == EMU_PARAM_FUNCTION)
			return declared;
		if (space == EMU_GENERIC && (declared == EMU_GLOBAL || declared == EMU_CONST ||
					     declared == EMU_SHARED || declared == EMU_LOCAL))
			return declared;
	}
	return space;
}

/* Registers may be wider than the element; a constant takes the element's size. */
static bool want_elements(struct emu_decode *decode, int i, int count, int bits, bool written)
{
	struct emu_operand *operand = &decode->ins->operands[i];

	if (count == 1 && operand->kind == EMU_O_VECTOR && operand->count > 1)
		return emu_reject(decode, "operand %d is a vector: .v%u is missing", i + 1,
				  operand->count);
	if (count > 1 && (operand->kind != EMU_O_VECTOR || operand->count != (uint32_t)count))
		return emu_reject(decode, "operand %d must be a vector of %d", i + 1, count);
	for (int k = 0; k < count; k++) {
		const struct emu_operand *item = emu_item(operand, k);

		if (item->kind == EMU_O_REGISTER) {
			if (item->bits < bits || (bits == 128) != (item->bits == 128))
				return emu_reject(decode,
						  "a register of %d bits for an element of %d",
						  item->bits, bits);
		} else if (!(written && item->kind == EMU_O_SINK) && written) {
			return emu_reject(decode, "operand %d is no register", i + 1);
		}
	}
	if (written)
		return true;
	for (int k = 0; k < count; k++)
		if (emu_item(operand, k)->kind != EMU_O_REGISTER)
			return emu_want_vector(decode, i, count, bits);
	return true;
}

static bool decode_access(struct emu_decode *decode, bool stores)
{
	static const char *const vectors[] = {"v2", "v4", "v8", NULL};
	struct emu_ins *ins = decode->ins;
	int address = stores ? 0 : 1, vector, least = 2;
	bool constant = emu_take(decode, "nc");
	bool policy = emu_take_cache(decode);

	emu_take(decode, "unified");
	emu_take_semantics(decode);
	if (!emu_want_operands(decode, least, 4) || !emu_want_address(decode, address))
		return false;
	ins->space = (uint8_t)emu_access_space(decode, address);
	vector = emu_take_one(decode, vectors);
	if (vector == -2)
		return false;
	ins->count = (uint8_t)(vector < 0 ? 1 : 2 << vector);
	ins->type = (uint8_t)emu_take_type(decode);
	int bits = emu_types[ins->type].bits;

	if (bits < 8 || bits > 128 || bits & 7)
		return emu_reject(decode, "needs a type of 8 to 128 bits");
	if (bits * ins->count > 256 || (bits * ins->count > 128 && decode->module->sm < 100))
		return emu_reject(decode, "%d bits are more than one access moves",
				  bits * ins->count);
	if (bits * ins->count > 128 && ins->space != EMU_GLOBAL && ins->space != EMU_GENERIC)
		return emu_reject(decode, "256 bits go to .global alone");
	if (strstr(ins->mnemonic, ".L2::evict_") && bits * ins->count != 256)
		return emu_reject(decode, ".L2::evict_ goes with 256 bits");
	if (constant && stores)
		return emu_reject(decode, "'.nc' goes with loads");
	if (stores && (ins->space == EMU_CONST || ins->space == EMU_PARAM))
		return emu_reject(decode, "this space cannot be written");
	if (ins->operand_count != (policy ? 3 : 2) && ins->operand_count != 2)
		return emu_reject(decode, "takes %d operands", policy ? 3 : 2);
	if (!stores && ins->space != EMU_CONST && ins->space != EMU_PARAM &&
	    ins->space != EMU_LOCAL && ins->space != EMU_PARAM_FUNCTION)
		ins->flags |= EMU_I_POLL;
	if (!want_elements(decode, !address, ins->count, bits, !stores))
		return false;
	ins->variant = (uint8_t)emu_run_of(ins, &ins->operands[!address], stores);
	return true;
}

static bool decode_load(struct emu_decode *decode)
{
	return decode_access(decode, false);
}

static bool decode_store(struct emu_decode *decode)
{
	return decode_access(decode, true);
}

static bool decode_store_bulk(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;

	emu_take(decode, "weak");
	ins->space = emu_take_space(decode, EMU_GENERIC);
	if (ins->space != EMU_SHARED && ins->space != EMU_GENERIC)
		return emu_reject(decode, "goes to .shared::cta");
	return emu_want_operands(decode, 3, 3) && emu_want_address(decode, 0) &&
	       emu_want_value(decode, 1, 64) && emu_want_immediate(decode, 2, 0, 0);
}

static const struct emu_opcode opcodes[] = {
	{"ld", decode_load, emu_load, 0},
	{"ldu", decode_load, emu_load, 0},
	{"st", decode_store, emu_store, EMU_P_NO_RESULT},
	{"st.bulk", decode_store_bulk, store_bulk, EMU_P_NO_RESULT | EMU_P_SM100},
};

EMU_OPCODE_TABLE(memory, opcodes);

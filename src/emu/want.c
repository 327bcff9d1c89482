/* What operands an instruction takes; the rows of its constants. */
#include "ptx.h"
#include "special.h"

bool emu_want_operands(struct emu_decode *decode, int least, int most)
{
	int count = decode->ins->operand_count;

	if (count >= least && count <= most)
		return true;
	if (least == most)
		return emu_reject(decode, "takes %d operand%s, not %d", least,
				  least == 1 ? "" : "s", count);
	return emu_reject(decode, "takes %d to %d operands, not %d", least, most, count);
}

static const char *kind_name(const struct emu_operand *operand)
{
	static const char *const names[] = {"nothing",     "'_'",        "a register",
					    "a predicate", "an integer", "a floating point number",
					    "a variable",  "a function", "a special register",
					    "a vector",    "a pair",     "an address",
					    "a list",      "a label",    "a table"};

	return names[operand->kind];
}

static struct emu_operand *operand_at(struct emu_decode *decode, int i)
{
	if (i < 0 || i >= decode->ins->operand_count) {
		emu_reject(decode, "operand %d is missing", i + 1);
		return NULL;
	}
	return &decode->ins->operands[i];
}

static struct emu_constant **bucket_of(const struct emu_function *function, uint64_t bits)
{
	uint64_t hash = bits * 0x9e3779b97f4a7c15ull >> 32;

	return &function->constant_buckets[hash & (function->constant_bucket_count - 1)];
}

/* As many buckets as constants, so that chains stay short; a power of two. */
static bool grow_buckets(struct emu_decode *decode)
{
	struct emu_function *function = decode->function;
	struct emu_constant **old = function->constant_buckets;
	uint32_t count = function->constant_bucket_count, grown = count ? 4 * count : 64;

	if (function->constant_count < count)
		return true;
	function->constant_buckets =
		emu_arena_alloc(&decode->module->arena, grown * sizeof(struct emu_constant *));
	if (!function->constant_buckets) {
		function->constant_buckets = old;
		return emu_reject(decode, "out of memory");
	}
	function->constant_bucket_count = grown;
	for (uint32_t i = 0; i < count; i++)
		for (struct emu_constant *c = old[i], *next; c; c = next) {
			struct emu_constant **bucket = bucket_of(function, c->value);

			next = c->next;
			c->next = *bucket;
			*bucket = c;
		}
	return true;
}

/* A row of the constant bank that holds `bits` in every lane. */
static bool constant_row(struct emu_decode *decode, struct emu_operand *operand, uint64_t bits,
			 bool wide)
{
	struct emu_function *function = decode->function;
	uint32_t size = EMU_ROW_BYTES * (wide ? 2 : 1);
	uint32_t at = function->constant_bytes;
	struct emu_constant *known;

	if (!grow_buckets(decode))
		return false;
	for (known = *bucket_of(function, bits); known; known = known->next)
		if (known->value == bits && known->wide == wide) {
			operand->ref = known->offset | EMU_BANK_CONSTANT;
			return true;
		}
	if (at + size > function->constant_room) {
		uint32_t room = function->constant_room ? function->constant_room * 2 : 4096;
		uint8_t *rows =
			room > (256u << 20) ? NULL : emu_arena_alloc(&decode->module->arena, room);

		if (!rows)
			return emu_reject(decode, "too many constants in the function");
		if (at)
			memcpy(rows, function->constants, at);
		function->constants = rows;
		function->constant_room = room;
	}
	known = emu_arena_alloc(&decode->module->arena, sizeof *known);
	if (!known)
		return emu_reject(decode, "out of memory");
	*known = (struct emu_constant){bits, at, wide, *bucket_of(function, bits)};
	*bucket_of(function, bits) = known;
	function->constant_count++;
	function->constant_bytes = at + size;
	for (int lane = 0; lane < EMU_LANES; lane++)
		if (wide)
			((uint64_t *)(function->constants + at))[lane] = bits;
		else
			((uint32_t *)(function->constants + at))[lane] = (uint32_t)bits;
	operand->ref = at | EMU_BANK_CONSTANT;
	return true;
}

static uint64_t float_bits(const struct emu_operand *operand, int bits)
{
	double wide;
	float narrow;
	uint64_t result = (uint64_t)operand->value;

	if (operand->type == EMU_T_F32 && bits == 64) {
		memcpy(&narrow, &result, 4);
		wide = narrow;
		memcpy(&result, &wide, 8);
	} else if (operand->type == EMU_T_F64 && bits == 32) {
		memcpy(&wide, &result, 8);
		narrow = (float)wide;
		result = 0;
		memcpy(&result, &narrow, 4);
	}
	return result;
}

static bool want_row(struct emu_decode *decode, struct emu_operand *operand, int i, int bits,
		     bool constant)
{
	uint64_t mask = bits >= 64 ? UINT64_MAX : (1ull << bits) - 1;

	if (operand->kind == EMU_O_REGISTER) {
		if (operand->bits == bits)
			return true;
		return emu_reject(decode, "operand %d is a register of %d bits; %d are needed",
				  i + 1, operand->bits, bits);
	}
	if (constant && operand->kind == EMU_O_IMMEDIATE && bits <= 64)
		return constant_row(decode, operand, (uint64_t)operand->value & mask, bits == 64);
	if (constant && operand->kind == EMU_O_FLOAT && (bits == 32 || bits == 64))
		return constant_row(decode, operand, float_bits(operand, bits), bits == 64);
	if (constant && operand->kind == EMU_O_SPECIAL &&
	    !emu_special_is_dynamic((int)operand->value) &&
	    (operand->bits == bits || (operand->bits == 32 && bits < 32))) {
		operand->ref = emu_special_ref((int)operand->value);
		return true;
	}
	return emu_reject(decode, "operand %d is %s%s; a %d-bit register%s is needed", i + 1,
			  kind_name(operand),
			  operand->kind == EMU_O_SPECIAL ? " of another size" : "", bits,
			  constant ? " or a constant" : "");
}

bool emu_want_value(struct emu_decode *decode, int i, int bits)
{
	struct emu_operand *operand = operand_at(decode, i);

	return operand && want_row(decode, operand, i, bits, true);
}

bool emu_want_register(struct emu_decode *decode, int i, int bits)
{
	struct emu_operand *operand = operand_at(decode, i);

	return operand && want_row(decode, operand, i, bits, false);
}

bool emu_want_predicate(struct emu_decode *decode, int i)
{
	struct emu_operand *operand = operand_at(decode, i);
	bool written = decode->ins->written >> i & 1;

	if (!operand)
		return false;
	if (operand->kind == EMU_O_PREDICATE && !(written && operand->negated))
		return true;
	if (!written && operand->kind == EMU_O_IMMEDIATE)
		return true;
	return emu_reject(decode, "operand %d is %s; a predicate register is needed", i + 1,
			  kind_name(operand));
}

bool emu_want_address(struct emu_decode *decode, int i)
{
	struct emu_operand *operand = operand_at(decode, i);

	if (!operand)
		return false;
	if (operand->kind != EMU_O_ADDRESS)
		return emu_reject(decode, "operand %d is %s; an address in [ ] is needed", i + 1,
				  kind_name(operand));
	if (operand->items[0].kind == EMU_O_REGISTER && operand->items[0].bits != 32 &&
	    operand->items[0].bits != 64)
		return emu_reject(decode, "an address register has 32 or 64 bits, not %d",
				  operand->items[0].bits);
	return true;
}

bool emu_want_generic(struct emu_decode *decode, int i)
{
	const struct emu_operand *operand = operand_at(decode, i);

	if (!operand || operand->kind != EMU_O_ADDRESS ||
	    operand->items[0].kind != EMU_O_REGISTER || operand->items[0].bits != 32)
		return operand != NULL;
	return emu_reject(decode,
			  "operand %d is a generic address of 32 bits: a state space is missing, "
			  "or 64 bits",
			  i + 1);
}

bool emu_want_vector(struct emu_decode *decode, int i, int count, int bits)
{
	struct emu_operand *operand = operand_at(decode, i);
	bool written = operand && (decode->ins->written >> i & 1);

	if (!operand)
		return false;
	if (operand->kind != EMU_O_VECTOR) {
		if (count > 1)
			return emu_reject(decode, "operand %d is %s; a vector of %d is needed",
					  i + 1, kind_name(operand), count);
		return want_row(decode, operand, i, bits, !written);
	}
	if (count && operand->count != (uint32_t)count)
		return emu_reject(decode, "operand %d has %u elements; %d are needed", i + 1,
				  operand->count, count);
	for (uint32_t k = 0; k < operand->count; k++) {
		struct emu_operand *item = &operand->items[k];

		if (written && item->kind == EMU_O_SINK)
			continue;
		if (!want_row(decode, item, i, bits, !written))
			return false;
	}
	return true;
}

bool emu_want_immediate(struct emu_decode *decode, int i, int64_t least, int64_t most)
{
	struct emu_operand *operand = operand_at(decode, i);

	if (!operand)
		return false;
	if (operand->kind != EMU_O_IMMEDIATE)
		return emu_reject(decode, "operand %d is %s; an integer constant is needed", i + 1,
				  kind_name(operand));
	if (operand->value < least || operand->value > most)
		return emu_reject(decode, "operand %d is %lld; %lld to %lld is possible", i + 1,
				  (long long)operand->value, (long long)least, (long long)most);
	return true;
}

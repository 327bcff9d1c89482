/* Element-wise reductions of bulk copies into memory (8.3). */
#include "async.h"

#include "number.h"

#include <math.h>

const char *const emu_reduction_names[] = {"add", "min", "max", "inc", "dec",
					   "and", "or",  "xor", NULL};

bool emu_reduction_legal(enum emu_reduction reduction, enum emu_type type)
{
	switch (reduction) {
	case EMU_REDUCE_ADD:
		return type == EMU_T_U32 || type == EMU_T_S32 || type == EMU_T_U64 ||
		       type == EMU_T_F16 || type == EMU_T_BF16 || type == EMU_T_F32 ||
		       type == EMU_T_F64;
	case EMU_REDUCE_MIN:
	case EMU_REDUCE_MAX:
		return type == EMU_T_U32 || type == EMU_T_S32 || type == EMU_T_U64 ||
		       type == EMU_T_S64 || type == EMU_T_F16 || type == EMU_T_BF16;
	case EMU_REDUCE_INC:
	case EMU_REDUCE_DEC:
		return type == EMU_T_U32;
	default:
		return type == EMU_T_B32 || type == EMU_T_B64;
	}
}

bool emu_reduction_in_shared(enum emu_reduction reduction, enum emu_type type)
{
	switch (reduction) {
	case EMU_REDUCE_ADD:
		return type == EMU_T_U32 || type == EMU_T_S32 || type == EMU_T_U64;
	case EMU_REDUCE_MIN:
	case EMU_REDUCE_MAX:
		return type == EMU_T_U32 || type == EMU_T_S32;
	case EMU_REDUCE_INC:
	case EMU_REDUCE_DEC:
		return type == EMU_T_U32;
	default:
		return type == EMU_T_B32;
	}
}

static uint64_t reduce_integer(enum emu_reduction reduction, bool is_signed, uint64_t a, uint64_t b)
{
	bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;

	switch (reduction) {
	case EMU_REDUCE_ADD:
		return a + b;
	case EMU_REDUCE_MIN:
		return less ? a : b;
	case EMU_REDUCE_MAX:
		return less ? b : a;
	case EMU_REDUCE_INC:
		return a >= b ? 0 : a + 1;
	case EMU_REDUCE_DEC:
		return a == 0 || a > b ? b : a - 1;
	case EMU_REDUCE_AND:
		return a & b;
	case EMU_REDUCE_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

/* f16 and bf16; the sum is rounded once to the type, and -0 is less than +0. */
static float reduce_float(enum emu_reduction reduction, float a, float b)
{
	if (reduction == EMU_REDUCE_ADD)
		return a + b;
	if (isnan(a) || isnan(b))
		return isnan(a) ? b : a;
	if (a == b)
		return (signbit(a) != 0) == (reduction == EMU_REDUCE_MIN) ? a : b;
	return (a < b) == (reduction == EMU_REDUCE_MIN) ? a : b;
}

static void reduce_half(enum emu_reduction reduction, bool bf16, uint8_t *target,
			const uint8_t *source)
{
	uint16_t a, b;
	float result;

	memcpy(&a, target, 2);
	memcpy(&b, source, 2);
	if (bf16)
		result = reduce_float(reduction, emu_bf16_to_f32(a), emu_bf16_to_f32(b));
	else
		result = reduce_float(reduction, emu_f16_to_f32(a), emu_f16_to_f32(b));
	a = bf16 ? emu_bf16_from_f32(result) : emu_f16_from_f32(result);
	memcpy(target, &a, 2);
}

static void reduce_one(enum emu_reduction reduction, enum emu_type type, uint8_t *target,
		       const uint8_t *source)
{
	bool is_signed = emu_types[type].class == EMU_CLASS_SIGNED;
	size_t width = emu_types[type].bits / 8;
	uint64_t a = 0, b = 0;
	double da, db;
	float fa, fb;

	switch (type) {
	case EMU_T_F16:
	case EMU_T_BF16:
		reduce_half(reduction, type == EMU_T_BF16, target, source);
		return;
	case EMU_T_F32:
		memcpy(&fa, target, 4);
		memcpy(&fb, source, 4);
		fa += fb;
		a = isnan(fa) ? 0x7fffffff : emu_bits_of_f32(fa);
		memcpy(target, &a, 4);
		return;
	case EMU_T_F64:
		memcpy(&da, target, 8);
		memcpy(&db, source, 8);
		/* A NaN stays as it is, the operand's before memory's. */
		if (isnan(db))
			da = db;
		else if (!isnan(da))
			da = isnan(da + db) ? -(double)NAN : da + db;
		memcpy(target, &da, 8);
		return;
	default:
		memcpy(&a, target, width);
		memcpy(&b, source, width);
		if (is_signed && width == 4) {
			a = (uint64_t)(int64_t)(int32_t)a;
			b = (uint64_t)(int64_t)(int32_t)b;
		}
		a = reduce_integer(reduction, is_signed, a, b);
		memcpy(target, &a, width);
	}
}

void emu_reduce(enum emu_reduction reduction, enum emu_type type, uint8_t *target,
		const uint8_t *source, uint32_t size)
{
	uint32_t width = emu_types[type].bits / 8;

	for (uint32_t i = 0; i + width <= size; i += width)
		reduce_one(reduction, type, target + i, source + i);
}

static float flush(float value)
{
	return fabsf(value) < 0x1p-126f ? copysignf(0.0f, value) : value;
}

void emu_reduce_flushed(uint8_t *target, const uint8_t *source, uint32_t size)
{
	for (uint32_t i = 0; i + 4 <= size; i += 4) {
		float a, b;

		memcpy(&a, target + i, 4);
		memcpy(&b, source + i, 4);
		a = flush(a);
		b = flush(b);
		memcpy(target + i, &a, 4);
		reduce_one(EMU_REDUCE_ADD, EMU_T_F32, target + i, (const uint8_t *)&b);
		memcpy(&a, target + i, 4);
		a = flush(a);
		memcpy(target + i, &a, 4);
	}
}

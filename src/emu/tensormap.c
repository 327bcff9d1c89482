/* Tensor maps: the rules of cuTensorMapEncodeTiled and an encoding of our own (8.1). */
#include "tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int bits;
	bool floating;
} types[] = {
	[EMU_TM_U8] = {"UINT8", 8, false},
	[EMU_TM_U16] = {"UINT16", 16, false},
	[EMU_TM_U32] = {"UINT32", 32, false},
	[EMU_TM_S32] = {"INT32", 32, false},
	[EMU_TM_U64] = {"UINT64", 64, false},
	[EMU_TM_S64] = {"INT64", 64, false},
	[EMU_TM_F16] = {"FLOAT16", 16, true},
	[EMU_TM_F32] = {"FLOAT32", 32, true},
	[EMU_TM_F64] = {"FLOAT64", 64, true},
	[EMU_TM_BF16] = {"BFLOAT16", 16, true},
	[EMU_TM_F32_FTZ] = {"FLOAT32_FTZ", 32, true},
	[EMU_TM_TF32] = {"TFLOAT32", 32, true},
	[EMU_TM_TF32_FTZ] = {"TFLOAT32_FTZ", 32, true},
	[EMU_TM_16U4_ALIGN8B] = {"16U4_ALIGN8B", 4, false},
	[EMU_TM_16U4_ALIGN16B] = {"16U4_ALIGN16B", 4, false},
	[EMU_TM_16U6_ALIGN16B] = {"16U6_ALIGN16B", 6, false},
};

static const char *const swizzle_names[] = {
	"NONE",          "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B",
	"128B_ATOM_64B", "96B"};
/* Bytes of an innermost row that the swizzle spans; 0 for none. */
static const uint32_t swizzle_span[] = {0, 32, 64, 128, 128, 128, 128, 96};

int emu_tensormap_element_bits(int type)
{
	return types[type].bits;
}

const char *emu_tensormap_type_name(int type)
{
	return type >= 0 && type <= EMU_TM_16U6_ALIGN16B ? types[type].name : "?";
}

__attribute__((format(printf, 2, 3))) static bool fail(struct emu_error *error, const char *format,
						       ...)
{
	va_list arguments;
	int length = snprintf(error->text, sizeof error->text, "tensor map: ");

	va_start(arguments, format);
	vsnprintf(error->text + length, sizeof error->text - (size_t)length, format, arguments);
	va_end(arguments);
	error->line = 0;
	return false;
}

static bool padded(int type)
{
	return type == EMU_TM_16U4_ALIGN16B || type == EMU_TM_16U6_ALIGN16B;
}

static bool check_modes(const struct emu_tensormap *map, struct emu_error *error)
{
	if (map->type < 0 || map->type > EMU_TM_16U6_ALIGN16B)
		return fail(error, "data type %d; the types are 0..15", map->type);
	if (map->interleave < 0 || map->interleave > 2)
		return fail(error, "interleave %d; it is 0 (none), 1 (16B) or 2 (32B)",
			    map->interleave);
	if (map->swizzle < 0 || map->swizzle > EMU_TM_SWIZZLE_96)
		return fail(error, "swizzle %d; the modes are 0..6", map->swizzle);
	if (map->l2_promotion < 0 || map->l2_promotion > 3)
		return fail(error, "L2 promotion %d; it is 0 (none), 1 (64B), 2 (128B) or 3 (256B)",
			    map->l2_promotion);
	if (map->oob_fill < 0 || map->oob_fill > 1)
		return fail(error, "out-of-bounds fill %d; it is 0 (zeros) or 1 (NaN)",
			    map->oob_fill);
	if (map->oob_fill && !types[map->type].floating)
		return fail(error, "out-of-bounds fill with NaN needs a float type, not %s",
			    types[map->type].name);
	if (map->interleave == 2 && map->swizzle != 1)
		return fail(error, "interleave 32B needs swizzle 32B, not %s",
			    swizzle_names[map->swizzle]);
	if (map->type == EMU_TM_16U4_ALIGN16B && map->swizzle != 0 && map->swizzle != 3 &&
	    map->swizzle != 4)
		return fail(error,
			    "16U4_ALIGN16B takes swizzle NONE, 128B or 128B_ATOM_32B, not %s",
			    swizzle_names[map->swizzle]);
	if (map->type == EMU_TM_16U6_ALIGN16B && map->swizzle != 0 && map->swizzle != 3 &&
	    map->swizzle != 4 && map->swizzle != 6)
		return fail(error,
			    "16U6_ALIGN16B takes swizzle NONE, 128B, 128B_ATOM_32B or "
			    "128B_ATOM_64B, not %s",
			    swizzle_names[map->swizzle]);
	return true;
}

static bool check_global(const struct emu_tensormap *map, struct emu_error *error)
{
	bool wide = map->interleave == 2 || padded(map->type);
	uint64_t alignment = wide ? 32 : 16;

	if (map->rank < 1 || map->rank > EMU_MAX_RANK)
		return fail(error, "rank %d; it is 1..5", map->rank);
	if (map->interleave && padded(map->type))
		return fail(error, "%s is supported without interleaved layouts only",
			    types[map->type].name);
	if (map->interleave && map->rank < 3)
		return fail(error, "rank %d with an interleaved layout, which needs 3..5",
			    map->rank);
	if (map->address % alignment)
		return fail(error, "global address 0x%llx; this map needs a multiple of %d bytes",
			    (unsigned long long)map->address, (int)alignment);
	for (int i = 0; i < map->rank; i++)
		if (map->dims[i] < 1 || map->dims[i] > 1ull << 32)
			return fail(error, "dimension %d has %llu elements; 1..2^32 are possible",
				    i, (unsigned long long)map->dims[i]);
	for (int i = 0; i + 1 < map->rank; i++) {
		if (map->strides[i] % alignment)
			return fail(error,
				    "stride of dimension %d is %llu bytes; it must be a "
				    "multiple of %d",
				    i + 1, (unsigned long long)map->strides[i], (int)alignment);
		if (map->strides[i] >= 1ull << 40)
			return fail(error,
				    "stride of dimension %d is %llu bytes; it must be less "
				    "than 2^40",
				    i + 1, (unsigned long long)map->strides[i]);
	}
	if (padded(map->type) && map->dims[0] % 128)
		return fail(error,
			    "%s needs an innermost dimension that is a multiple of 128 "
			    "elements, not %llu",
			    types[map->type].name, (unsigned long long)map->dims[0]);
	if (map->type == EMU_TM_16U4_ALIGN8B && map->dims[0] % 2)
		return fail(error, "16U4_ALIGN8B needs an even innermost dimension, not %llu",
			    (unsigned long long)map->dims[0]);
	return true;
}

static bool check_box(const struct emu_tensormap *map, struct emu_error *error)
{
	uint32_t bits = map->box[0] * (uint32_t)types[map->type].bits;

	for (int i = 0; i < map->rank; i++) {
		if (map->box[i] < 1 || map->box[i] > 256)
			return fail(error, "box dimension %d has %u elements; 1..256 are possible",
				    i, map->box[i]);
		if (map->element_strides[i] < 1 || map->element_strides[i] > 8)
			return fail(error, "element stride %d is %u; 1..8 are possible", i,
				    map->element_strides[i]);
	}
	if (padded(map->type)) {
		if (map->box[0] != 128)
			return fail(error, "%s needs a box of 128 elements in dimension 0, not %u",
				    types[map->type].name, map->box[0]);
		return true;
	}
	if (bits % 128)
		return fail(error,
			    "a box row of %u elements of %s is %u.%s bytes; it must be a "
			    "multiple of 16",
			    map->box[0], types[map->type].name, bits / 8, bits % 8 ? "5" : "0");
	if (map->interleave)
		return true;
	if (map->swizzle && bits / 8 > swizzle_span[map->swizzle])
		return fail(error,
			    "a box row of %u elements of %s is %u bytes; swizzle %s allows %u",
			    map->box[0], types[map->type].name, bits / 8,
			    swizzle_names[map->swizzle], swizzle_span[map->swizzle]);
	return true;
}

/* No box of pixels is empty. */
static bool check_corners(const struct emu_tensormap *map, int spatial, struct emu_error *error)
{
	for (int i = 0; i < spatial; i++) {
		int dimension = i + emu_box_width(map);
		int64_t last = (int64_t)map->dims[dimension] - 1 + map->upper[i];

		if (map->lower[i] > last)
			return fail(error,
				    "corners %d and %d of dimension %d leave none of its %llu "
				    "elements",
				    map->lower[i], map->upper[i], dimension,
				    (unsigned long long)map->dims[dimension]);
	}
	return true;
}

static bool check_pixels(const struct emu_tensormap *map, struct emu_error *error)
{
	static const int limits[] = {1 << 15, 1 << 7, 1 << 4};
	uint32_t bytes = map->channels * (uint32_t)types[map->type].bits / 8;
	int spatial = map->mode == EMU_TM_IM2COL ? map->rank - 2 : 1, limit;

	if (map->rank < 3)
		return fail(error, "rank %d; im2col needs 3..5", map->rank);
	if (map->interleave && map->mode != EMU_TM_IM2COL)
		return fail(error, "im2col along the width alone has no interleaved layouts");
	limit = limits[map->rank - 3];
	for (int i = 0; i < spatial; i++)
		if (map->lower[i] < -limit || map->lower[i] >= limit || map->upper[i] < -limit ||
		    map->upper[i] >= limit)
			return fail(error,
				    "corners %d and %d of dimension %d; for rank %d they are "
				    "%d..%d",
				    map->lower[i], map->upper[i], i + emu_box_width(map), map->rank,
				    -limit, limit - 1);
	if (!check_corners(map, spatial, error))
		return false;
	for (int i = 0; i < map->rank; i++)
		if (map->element_strides[i] < 1 || map->element_strides[i] > 8)
			return fail(error, "element stride %d is %u; 1..8 are possible", i,
				    map->element_strides[i]);
	if (map->channels < 1 || map->channels > 256)
		return fail(error, "%u channels a pixel; 1..256 are possible", map->channels);
	if (map->mode != EMU_TM_IM2COL_W128 && (map->pixels < 1 || map->pixels > 1024))
		return fail(error, "%u pixels a column; 1..1024 are possible", map->pixels);
	if (padded(map->type) && map->channels != 128)
		return fail(error, "%s needs 128 channels a pixel, not %u", types[map->type].name,
			    map->channels);
	if (bytes % 16 && !padded(map->type))
		return fail(error, "%u channels of %s are %u bytes; it must be a multiple of 16",
			    map->channels, types[map->type].name, bytes);
	if (map->swizzle && !map->interleave && !padded(map->type) &&
	    bytes > swizzle_span[map->swizzle])
		return fail(error, "%u channels of %s are %u bytes; swizzle %s allows %u",
			    map->channels, types[map->type].name, bytes,
			    swizzle_names[map->swizzle], swizzle_span[map->swizzle]);
	return true;
}

/* What devices before those of sm_100 lack. */
static bool check_target(const struct emu_tensormap *map, int target, struct emu_error *error)
{
	if (target >= 100)
		return true;
	if (map->type >= EMU_TM_16U4_ALIGN8B)
		return fail(error, "type %s needs sm_100 or later; sm_%d has UINT8 to TFLOAT32_FTZ",
			    types[map->type].name, target);
	if (map->swizzle > 3)
		return fail(error,
			    "swizzle %s needs sm_100 or later; sm_%d has NONE, 32B, 64B and 128B",
			    swizzle_names[map->swizzle], target);
	if (map->mode > EMU_TM_IM2COL)
		return fail(error,
			    "im2col along the width alone needs sm_100 or later; sm_%d has "
			    "im2col",
			    target);
	return true;
}

bool emu_tensormap_check(const struct emu_tensormap *map, int target, struct emu_error *error)
{
	if (map->mode < EMU_TM_TILED || map->mode > EMU_TM_IM2COL_W128)
		return fail(error, "mode %d; the modes are 0..3", map->mode);
	return check_modes(map, error) && check_target(map, target, error) &&
	       check_global(map, error) &&
	       (map->mode == EMU_TM_TILED ? check_box(map, error) : check_pixels(map, error));
}

/* ---- encoding -------------------------------------------------------------- */

static const char magic[8] = "emu-tmap";

struct packed {
	char magic[8];
	uint64_t address;
	uint64_t strides[4];
	uint32_t dims_less_one[5];
	uint16_t box[5];
	uint8_t element_strides[5];
	uint8_t version, type, rank, interleave, swizzle, l2_promotion, oob_fill;
	uint8_t mode, zero;
	int16_t lower[3], upper[3];
	uint16_t channels, pixels;
	uint8_t reserved[16];
	uint32_t checksum; /* of everything before it */
};

_Static_assert(sizeof(struct packed) == 128, "a tensor map is 128 bytes");

enum {
	encoding_version = 2
};

static uint32_t checksum(const uint8_t *bytes, size_t size)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return hash;
}

static uint32_t at_most(uint32_t value, uint32_t limit)
{
	return value < limit ? value : limit;
}

void emu_tensormap_pack(const struct emu_tensormap *map, uint8_t out[128])
{
	struct packed packed = {.address = map->address};

	memcpy(packed.magic, magic, sizeof magic);
	memcpy(packed.strides, map->strides, sizeof packed.strides);
	for (int i = 0; i < EMU_MAX_RANK; i++) {
		packed.dims_less_one[i] = (uint32_t)(map->dims[i] - 1);
		packed.box[i] = (uint16_t)at_most(map->box[i], 0xffff);
		packed.element_strides[i] = (uint8_t)at_most(map->element_strides[i], 0xff);
	}
	for (int i = 0; i < EMU_MAX_RANK - 2; i++) {
		packed.lower[i] = (int16_t)map->lower[i];
		packed.upper[i] = (int16_t)map->upper[i];
	}
	packed.channels = (uint16_t)map->channels;
	packed.pixels = (uint16_t)map->pixels;
	packed.mode = (uint8_t)map->mode;
	packed.version = encoding_version;
	packed.type = (uint8_t)map->type;
	packed.rank = (uint8_t)map->rank;
	packed.interleave = (uint8_t)map->interleave;
	packed.swizzle = (uint8_t)map->swizzle;
	packed.l2_promotion = (uint8_t)map->l2_promotion;
	packed.oob_fill = (uint8_t)map->oob_fill;
	packed.checksum = checksum((uint8_t *)&packed, offsetof(struct packed, checksum));
	memcpy(out, &packed, sizeof packed);
}

bool emu_tensormap_unpack(const uint8_t in[128], struct emu_tensormap *map, struct emu_error *error)
{
	struct packed packed;

	memcpy(&packed, in, sizeof packed);
	if (memcmp(packed.magic, magic, sizeof magic))
		return fail(error, "the 128 bytes are not a tensor map of the emulator: they were "
				   "never encoded, were overwritten, or the address is wrong");
	if (packed.version != encoding_version ||
	    packed.checksum != checksum(in, offsetof(struct packed, checksum)))
		return fail(error, "the 128 bytes were changed by something other than "
				   "tensormap.replace");
	memset(map, 0, sizeof *map);
	map->type = packed.type;
	map->rank = packed.rank;
	map->address = packed.address;
	for (int i = 0; i < EMU_MAX_RANK; i++) {
		map->dims[i] = (uint64_t)packed.dims_less_one[i] + 1;
		map->box[i] = packed.box[i];
		map->element_strides[i] = packed.element_strides[i];
	}
	memcpy(map->strides, packed.strides, sizeof packed.strides);
	for (int i = 0; i < EMU_MAX_RANK - 2; i++) {
		map->lower[i] = packed.lower[i];
		map->upper[i] = packed.upper[i];
	}
	map->channels = packed.channels;
	map->pixels = packed.pixels;
	map->mode = packed.mode;
	map->interleave = packed.interleave;
	map->swizzle = packed.swizzle;
	map->l2_promotion = packed.l2_promotion;
	map->oob_fill = packed.oob_fill;
	return true;
}

bool emu_tensormap_encode(const struct emu_tensormap *map, int target, uint8_t out[128],
			  struct emu_error *error)
{
	if (map->swizzle == EMU_TM_SWIZZLE_96) /* tensormap.replace alone can set it */
		return fail(error, "swizzle %d; the modes are 0..6", map->swizzle);
	if (!emu_tensormap_check(map, target, error))
		return false;
	emu_tensormap_pack(map, out);
	return true;
}

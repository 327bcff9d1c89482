/*
 * Unit tests of the emulator's parts that know no machine: tensor maps, boxes,
 * descriptors, panels, the multiplication.  Prints "N passed, N failed".
 */
#include "../../src/emu/mma_adder.h"
#include "../../src/emu/number.h"
#include "../../src/emu/tensor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

static void check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void check(bool good, const char *format, ...)
{
	va_list arguments;

	if (good) {
		passed++;
		return;
	}
	failed++;
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

/* ---- numbers -------------------------------------------------------------------------- */

static void test_minifloat(const char *name, const struct emu_minifloat *format, float largest)
{
	int codes = 1 << (1 + format->exponent_bits + format->mantissa_bits);

	for (int code = 0; code < codes; code++) {
		float value = emu_minifloat_to_f32(format, (uint8_t)code);
		if (isfinite(value))
			check(emu_minifloat_from_f32(format, value) == code, "%s 0x%02x -> %g",
			      name, code, value);
	}
	check(emu_minifloat_to_f32(format, emu_minifloat_from_f32(format, 1e9f)) == largest,
	      "%s saturates", name);
	check(emu_minifloat_to_f32(format, emu_minifloat_from_f32(format, -INFINITY)) == -largest,
	      "%s saturates below", name);
}

/* Each value between two neighbours goes to the nearer one, a tie to the even code. */
static void test_rounding(const char *name, const struct emu_minifloat *format, int last)
{
	for (int code = 0; code < last; code++) {
		float low = emu_minifloat_to_f32(format, (uint8_t)code);
		float high = emu_minifloat_to_f32(format, (uint8_t)(code + 1));
		float middle = (low + high) / 2;

		check(emu_minifloat_from_f32(format, middle) == (code & 1 ? code + 1 : code),
		      "%s tie at %g", name, middle);
		check(emu_minifloat_from_f32(format, nextafterf(middle, high)) == code + 1,
		      "%s above %g", name, middle);
		check(emu_minifloat_from_f32(format, nextafterf(middle, low)) == code,
		      "%s below %g", name, middle);
	}
}

/* IEEE binary16 by arithmetic. */
static double half_value(uint16_t bits)
{
	int exponent = bits >> 10 & 31, mantissa = bits & 1023;
	double value = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);

	return bits >> 15 ? -value : value;
}

static void test_halves(void)
{
	int wrong = 0;

	for (uint32_t bits = 0; bits < 0x10000; bits++) {
		float value = emu_f16_to_f32((uint16_t)bits);
		if ((bits & 0x7c00) == 0x7c00)
			wrong += bits & 0x3ff ? !isnan(value) : !isinf(value);
		else
			wrong += value != half_value((uint16_t)bits) ||
				 emu_f16_from_f32(value) != bits;
	}
	check(wrong == 0, "%d f16 codes", wrong);
	check(emu_f16_from_f32(65519.0f) == 0x7bff, "65519 stays finite");
	check(emu_f16_from_f32(65520.0f) == 0x7c00, "65520 is infinity");
	check(emu_f16_from_f32(0x1p-25f) == 0, "a tie below the least subnormal");
	check(emu_f16_from_f32(0x1.8p-25f) == 1, "above the tie");
	check(emu_bf16_from_f32(1.00390625f) == 0x3f80, "bf16 tie to even");
	check(emu_bf16_from_f32(1.01171875f) == 0x3f82, "bf16 tie to even upwards");
	check(emu_tf32_round(1.0f + 0x1p-11f) == 1.0f, "tf32 tie to even");
	check(emu_tf32_round(1.0f + 0x1.8p-11f) == 1.0f + 0x1p-10f, "tf32 up");
}

static void test_numbers(void)
{
	test_minifloat("e4m3", &emu_e4m3, 448);
	test_minifloat("e5m2", &emu_e5m2, 57344);
	test_minifloat("e2m3", &emu_e2m3, 7.5f);
	test_minifloat("e3m2", &emu_e3m2, 28);
	test_minifloat("e2m1", &emu_e2m1, 6);
	test_rounding("e4m3", &emu_e4m3, 0x7e);
	test_rounding("e5m2", &emu_e5m2, 0x7b);
	test_rounding("e2m3", &emu_e2m3, 0x1f);
	test_rounding("e3m2", &emu_e3m2, 0x1f);
	test_rounding("e2m1", &emu_e2m1, 0x07);
	test_halves();
	check(emu_ue8m0_to_f32(127) == 1.0f && emu_ue8m0_to_f32(0) == 0x1p-127f, "ue8m0");
	check(emu_ue4m3_to_f32(0xb8) == 1.0f && isnan(emu_ue4m3_to_f32(0x7f)), "ue4m3");
}

/* ---- tensor maps ------------------------------------------------------------------------ */

static struct emu_tensormap matrix(int type, uint64_t columns, uint64_t rows, uint64_t pitch,
				   uint32_t box_columns, uint32_t box_rows, int swizzle)
{
	return (struct emu_tensormap){
		.type = type,
		.rank = 2,
		.address = 0x10000,
		.dims = {columns, rows},
		.strides = {pitch},
		.box = {box_columns, box_rows},
		.element_strides = {1, 1},
		.swizzle = swizzle,
	};
}

static void refused_on(int target, struct emu_tensormap map, const char *words)
{
	struct emu_error error = {{0}, 0};
	uint8_t bytes[128];

	check(!emu_tensormap_encode(&map, target, bytes, &error) && strstr(error.text, words),
	      "expected \"%s\", got \"%s\"", words, error.text);
}

static void refused(struct emu_tensormap map, const char *words)
{
	refused_on(100, map, words);
}

static void test_map_targets(void)
{
	static const int packed[] = {EMU_TM_16U4_ALIGN8B, EMU_TM_16U4_ALIGN16B,
				     EMU_TM_16U6_ALIGN16B};
	struct emu_tensormap map = matrix(EMU_TM_F16, 256, 256, 512, 64, 128, 3);
	struct emu_error error = {{0}, 0};
	uint8_t bytes[128];

	for (map.swizzle = 4; map.swizzle <= 6; map.swizzle++) {
		refused_on(90, map, "swizzle 128B_ATOM_");
		check(emu_tensormap_encode(&map, 100, bytes, &error),
		      "sm_100 has atoms of swizzles");
	}
	for (int i = 0; i < 3; i++) {
		map = matrix(packed[i], 256, 256, 512, 128, 64, 0);
		refused_on(90, map, "needs sm_100 or later; sm_90 has UINT8 to TFLOAT32_FTZ");
		check(emu_tensormap_encode(&map, 100, bytes, &error), "sm_100 has packed types");
	}
}

static void test_map_rules(void)
{
	struct emu_tensormap good = matrix(EMU_TM_F16, 256, 256, 512, 64, 128, 3), map;

	map = good, map.rank = 6, refused(map, "rank 6");
	map = good, map.interleave = 1, refused(map, "interleaved");
	map = good, map.address += 8, refused(map, "global address");
	map = good, map.dims[1] = 0, refused(map, "dimension 1");
	map = good, map.strides[0] = 520, refused(map, "multiple of 16");
	map = good, map.strides[0] = 1ull << 40, refused(map, "2^40");
	map = good, map.box[1] = 257, refused(map, "1..256");
	map = good, map.box[0] = 60, refused(map, "multiple of 16");
	map = good, map.box[0] = 128, refused(map, "swizzle 128B allows 128");
	map = good, map.swizzle = 2, refused(map, "swizzle 64B allows 64");
	map = good, map.swizzle = 7, refused(map, "swizzle 7");
	map = good, map.element_strides[1] = 9, refused(map, "element stride 1");
	map = good, map.l2_promotion = 4, refused(map, "L2 promotion");
	map = good, map.type = 16, refused(map, "data type 16");
	map = good, map.type = EMU_TM_U16, map.oob_fill = 1, refused(map, "float type");
	map = good, map.type = EMU_TM_16U4_ALIGN16B, refused(map, "128 elements");
	map = good, map.type = EMU_TM_16U4_ALIGN16B, map.swizzle = 1,
	refused(map, "16U4_ALIGN16B takes swizzle");
	map = good, map.type = EMU_TM_16U4_ALIGN8B, map.dims[0] = 255, map.box[0] = 32,
	map.swizzle = 0, refused(map, "even");
	map = good, map.rank = 3, map.interleave = 2, map.box[2] = map.element_strides[2] = 1,
	map.dims[2] = 1, refused(map, "swizzle 32B");
}

static void test_map_bytes(void)
{
	struct emu_tensormap map = matrix(EMU_TM_BF16, 1ull << 32, 77, 512, 64, 128, 3), back;
	struct emu_error error;
	uint8_t bytes[128];

	check(emu_tensormap_encode(&map, 90, bytes, &error), "a legal map is encoded");
	check(emu_tensormap_unpack(bytes, &back, &error), "and read back");
	check(back.type == map.type && back.rank == 2 && back.dims[0] == map.dims[0] &&
		      back.dims[1] == 77 && back.strides[0] == 512 && back.box[1] == 128 &&
		      back.swizzle == 3 && back.address == map.address,
	      "with the same fields");
	bytes[40] ^= 1;
	check(!emu_tensormap_unpack(bytes, &back, &error) && strstr(error.text, "changed"),
	      "a changed byte is noticed");
	memset(bytes, 0, sizeof bytes);
	check(!emu_tensormap_unpack(bytes, &back, &error) && strstr(error.text, "not a tensor map"),
	      "128 zeros are no map");
}

/* ---- boxes ---------------------------------------------------------------------------------- */

struct rows {
	struct emu_box_row row[64];
	int count;
};

static bool collect(void *context, const struct emu_box_row *row)
{
	struct rows *rows = context;

	if (rows->count < 64)
		rows->row[rows->count++] = *row;
	return true;
}

static void test_box_clipping(void)
{
	struct emu_tensormap map = matrix(EMU_TM_F16, 100, 10, 208, 32, 4, 0);
	int32_t corner[5] = {80, 8}, before[5] = {-8, -2};
	struct rows rows = {.count = 0};
	struct emu_box box;

	emu_box_shape(&map, &box);
	check(box.rows == 4 && box.row_shared == 64 && box.footprint == 256 &&
		      box.transaction == 256,
	      "shape of a box");
	emu_box_walk(&map, corner, collect, &rows);
	check(rows.count == 4, "4 rows");
	check(rows.row[1].first == 0 && rows.row[1].inside == 20 &&
		      rows.row[1].address == map.address + 9 * 208 + 160 &&
		      rows.row[1].offset == 64,
	      "upper corner: row 9, 20 elements");
	check(rows.row[2].inside == 0, "row 10 does not exist");
	rows.count = 0;
	emu_box_walk(&map, before, collect, &rows);
	check(rows.row[1].inside == 0, "row -1 does not exist");
	check(rows.row[2].first == 8 && rows.row[2].inside == 24 &&
		      rows.row[2].address == map.address,
	      "8 elements before the first column");
}

static void test_box_strides(void)
{
	struct emu_tensormap map = {.type = EMU_TM_F32,
				    .rank = 3,
				    .dims = {64, 9, 5},
				    .strides = {256, 4096},
				    .box = {4, 5, 3},
				    .element_strides = {7, 2, 3}};
	int32_t origin[5] = {4, 1, 1};
	struct rows rows = {.count = 0};
	struct emu_box box;

	emu_box_shape(&map, &box);
	check(box.count[0] == 4 && box.count[1] == 3 && box.count[2] == 1,
	      "element strides: ceil(box / stride), none in dimension 0");
	emu_box_walk(&map, origin, collect, &rows);
	check(rows.count == 3 && rows.row[2].address == 16 + 5 * 256 + 4096 &&
		      rows.row[2].inside == 4,
	      "element strides multiply the step");
}

static void test_packed_rows(void)
{
	struct emu_tensormap map = matrix(EMU_TM_16U6_ALIGN16B, 128, 8, 96, 128, 8, 3);
	uint8_t packed[96], shared[128], again[96];
	struct emu_box box;

	for (int i = 0; i < 96; i++)
		packed[i] = (uint8_t)(i * 37 + 5);
	emu_box_shape(&map, &box);
	check(box.row_global == 96 && box.row_shared == 128 && box.transaction == 8 * 96,
	      "fp6: 96 bytes of a row take 128");
	emu_box_unpack_row(&map, &box, packed, shared);
	check(shared[16] == packed[12] && shared[27] == packed[23] && shared[28] == 0,
	      "fp6: 12 bytes and 4 of padding");
	emu_box_pack_row(&map, &box, shared, again);
	check(!memcmp(packed, again, 96), "fp6: there and back");
}

/* ---- descriptors ----------------------------------------------------------------------------- */

struct place {
	uint32_t row, k, byte;
};

struct layout {
	const char *name;
	uint64_t bits;
	bool wgmma, mn_major;
	int element_bytes;
	struct place places[8];
};

/* Offsets from a base of 0x400, worked out by hand from the canonical layouts. */
static const struct layout layouts[] = {
	{"K-major 128B f16",
	 0x4000404000010040,
	 false,
	 false,
	 2,
	 {{1, 0, 0x90},
	  {1, 8, 0x80},
	  {3, 5, 0x1ba},
	  {7, 63, 0x38e},
	  {8, 0, 0x400},
	  {77, 37, 0x269a},
	  {127, 63, 0x3f8e}}},
	{"K-major 128B f16, wgmma",
	 0x4000004000010040,
	 true,
	 false,
	 2,
	 {{1, 0, 0x90}, {3, 5, 0x1ba}, {77, 37, 0x269a}, {127, 63, 0x3f8e}}},
	{"K-major 64B f16",
	 0x8000402000010040,
	 false,
	 false,
	 2,
	 {{1, 0, 0x40}, {2, 0, 0x90}, {4, 0, 0x120}, {8, 0, 0x200}, {9, 9, 0x252}}},
	{"K-major 32B f16",
	 0xc000401000010040,
	 false,
	 false,
	 2,
	 {{1, 0, 0x20}, {4, 0, 0x90}, {5, 9, 0xa2}, {8, 0, 0x100}}},
	{"K-major none f16",
	 0x0000401000080040,
	 false,
	 false,
	 2,
	 {{1, 0, 0x10}, {0, 8, 0x80}, {8, 0, 0x100}, {9, 9, 0x192}}},
	{"K-major 128B fp8",
	 0x4000404000010040,
	 false,
	 false,
	 1,
	 {{3, 16, 0x1a0}, {77, 37, 0x26f5}, {127, 127, 0x3f8f}}},
	{"K-major 128B tf32",
	 0x4000404000010040,
	 false,
	 false,
	 4,
	 {{3, 4, 0x1a0}, {77, 21, 0x2684}, {127, 31, 0x3f8c}}},
	{"MN-major 128B f16",
	 0x4000404002000040,
	 false,
	 true,
	 2,
	 {{0, 1, 0x90},
	  {8, 1, 0x80},
	  {64, 0, 0x2000},
	  {0, 8, 0x400},
	  {77, 37, 0x32ca},
	  {127, 63, 0x3f8e}}},
	{"MN-major 128B fp8",
	 0x4000404000000040,
	 false,
	 true,
	 1,
	 {{16, 1, 0x80}, {77, 37, 0x129d}}},
	{"MN-major 128B with 32-byte atoms, tf32",
	 0x2000402001000040,
	 false,
	 true,
	 4,
	 {{0, 1, 0xa0}, {8, 1, 0x80}, {0, 4, 0x200}, {32, 0, 0x1000}, {77, 21, 0x2a94}}},
};

static void test_layouts(void)
{
	struct emu_smem_descriptor d;
	struct emu_error error = {{0}, 0};

	for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
		const struct layout *l = &layouts[i];
		bool good = l->wgmma ? emu_descriptor_wgmma(l->bits, &d, &error)
				     : emu_descriptor_tcgen05(l->bits, true, &d, &error);

		check(good, "%s: %s", l->name, error.text);
		for (int j = 0; j < 8 && l->places[j].byte; j++) {
			const struct place *p = &l->places[j];
			uint32_t at =
				emu_descriptor_address(&d, l->mn_major, l->element_bytes, p->row,
						       p->k * (uint32_t)l->element_bytes);
			check(at == 0x400 + p->byte, "%s: (%u, %u) at 0x%x, expected 0x%x", l->name,
			      p->row, p->k, at - 0x400, p->byte);
		}
	}
}

static void test_descriptor_bits(void)
{
	struct emu_smem_descriptor d;
	struct emu_error error;

	check(!emu_descriptor_tcgen05(0x4000004000010040, true, &d, &error),
	      "tcgen05 demands 0b001 in bits 46-48");
	check(emu_descriptor_tcgen05(0x4000004000010040, false, &d, &error), "cp does not");
	check(!emu_descriptor_wgmma(0x4000404000010040, &d, &error),
	      "wgmma refuses a tcgen05 descriptor");
	check(!emu_descriptor_tcgen05(0x6000404000010040, true, &d, &error) &&
		      strstr(error.text, "swizzle"),
	      "swizzle 3 does not exist");
	check(!emu_descriptor_tcgen05(0x400040400001c040, true, &d, &error) &&
		      strstr(error.text, "14-15"),
	      "reserved bits 14-15");
}

/* A tile stored row by row through the swizzle of a tensor map, read by a descriptor. */
static void test_image(int map_swizzle, uint64_t code, uint32_t width)
{
	static uint8_t smem[64 << 10], raw[128 * 32];
	struct emu_smem_view view = {smem, 0x400, sizeof smem};
	struct emu_smem_descriptor d;
	struct emu_error error;
	int wrong = 0;

	for (uint32_t row = 0; row < 128; row++)
		for (uint32_t byte = 0; byte < width; byte++)
			smem[emu_box_swizzle(map_swizzle, 0x400 + row * width + byte) - 0x400] =
				(uint8_t)(row * 31 + byte * 7);
	for (uint32_t start = 0; start < width; start += 32) {
		uint64_t bits = code << 61 | 1ull << 46 | (uint64_t)(width * 8 >> 4) << 32 |
				1 << 16 | (0x400 + start) >> 4;

		check(emu_descriptor_tcgen05(bits, true, &d, &error) &&
			      emu_operand_gather(&d, false, 2, 128, 32, &view, raw, &error),
		      "%s", error.text);
		for (uint32_t row = 0; row < 128; row++)
			for (uint32_t byte = 0; byte < 32; byte++)
				wrong += raw[row * 32 + byte] !=
					 (uint8_t)(row * 31 + (start + byte) * 7);
	}
	check(wrong == 0, "image of swizzle %d: %d bytes differ", map_swizzle, wrong);
	d.stride = 16384;
	check(!emu_operand_gather(&d, false, 2, 128, 32, &view, raw, &error) &&
		      strstr(error.text, "shared address"),
	      "an operand outside shared memory is refused");
}

/* ---- instruction descriptors --------------------------------------------------------------------
 */

static struct emu_mma_form form_of(enum emu_kind kind, int cta_group, int scale_vector)
{
	return (struct emu_mma_form){
		.kind = kind, .cta_group = cta_group, .scale_vector = scale_vector};
}

static void decodes(struct emu_mma_form form, uint32_t bits, int m, int n, enum emu_element a)
{
	struct emu_error error = {{0}, 0};
	struct emu_idesc idesc;
	bool good = emu_idesc_decode(&form, bits, &idesc, &error);

	check(good && idesc.m == m && idesc.n == n && idesc.a == a, "0x%08x: %s m%d n%d a%d", bits,
	      error.text, idesc.m, idesc.n, (int)idesc.a);
}

static void rejects(struct emu_mma_form form, uint32_t bits, const char *words)
{
	struct emu_error error = {{0}, 0};
	struct emu_idesc idesc;

	check(!emu_idesc_decode(&form, bits, &idesc, &error) && strstr(error.text, words),
	      "0x%08x: expected \"%s\", got \"%s\"", bits, words, error.text);
}

static void test_instruction_descriptors(void)
{
	struct emu_mma_form f16 = form_of(EMU_KIND_F16, 1, 0), pair = form_of(EMU_KIND_F16, 2, 0);
	struct emu_mma_form f8 = form_of(EMU_KIND_F8F6F4, 1, 0), i8 = form_of(EMU_KIND_I8, 1, 0);
	struct emu_mma_form mx8 = form_of(EMU_KIND_MXF8F6F4, 1, 1);
	struct emu_mma_form mx4 = form_of(EMU_KIND_MXF4, 1, 2);
	struct emu_mma_form nv4 = form_of(EMU_KIND_MXF4NVF4, 2, 4);

	decodes(f16, 0x08400010, 128, 256, EMU_ELEMENT_F16);
	decodes(f16, 0x08400490, 128, 256, EMU_ELEMENT_BF16);
	decodes(f16, 0x08418490, 128, 256, EMU_ELEMENT_BF16);
	decodes(pair, 0x10400490, 256, 256, EMU_ELEMENT_BF16);
	decodes(form_of(EMU_KIND_TF32, 1, 0), 0x08200910, 128, 128, EMU_ELEMENT_TF32);
	decodes(f8, 0x08200010, 128, 128, EMU_ELEMENT_E4M3);
	decodes(i8, 0x082004a0, 128, 128, EMU_ELEMENT_S8);
	decodes(i8, 0x08200020, 128, 128, EMU_ELEMENT_U8);
	decodes(mx8, 0x08a00000, 128, 128, EMU_ELEMENT_E4M3);
	decodes(mx8, 0x48a00020, 128, 128, EMU_ELEMENT_E4M3);
	decodes(mx4, 0x08a00480, 128, 128, EMU_ELEMENT_E2M1);
	decodes(nv4, 0x10400480, 256, 256, EMU_ELEMENT_E2M1);
	rejects(f16, 0x08400050, "reserved");
	rejects(f16, 0x0c400010, "M = 192");
	rejects(pair, 0x04400490, "M = 64");
	rejects(pair, 0x10420490, "N = 264");
	rejects(f16, 0x08400480, "bf16 operands need an f32");
	rejects(f16, 0x08400110, "A type 2");
	rejects(f16, 0x08400014, "sparse bit");
	rejects(f16, 0x08400018, "saturation");
	rejects(f16, 0x48400010, "belong to .ws");
	rejects(f8, 0x08200110, "A type 2");
	rejects(f8, 0x08208290, "K-major");
	rejects(i8, 0x080a04a0, "multiple of 16");
	rejects(i8, 0x082024a0, "negate");
	rejects(mx4, 0x08200480, "ue8m0");
	rejects(mx4, 0x28a00480, "scale factor ids");
	rejects(mx4, 0x88a00480, "sm_103a");
	f16.a_in_tmem = true;
	rejects(f16, 0x08408010, "K-major");
	f16.weight_stationary = true;
	rejects(f16, 0x08080010, "N = 32");
}

/* ---- panels and products
 * ---------------------------------------------------------------------------- */

static void test_panels(void)
{
	uint8_t nibbles[16] = {0x21, 0x43, 0x65, 0x07, 0xa9}, wide[16] = {0};
	uint8_t sixes[16] = {0x41, 0x20, 0x0c}; /* codes 1, 1, 2, 3 */
	float out[32];

	emu_panel_f32(EMU_ELEMENT_E2M1, EMU_PACK_DENSE, nibbles, 32, out);
	check(out[0] == 0.5f && out[1] == 1 && out[5] == 4 && out[6] == 6 && out[8] == -0.5f,
	      "dense fp4: the even element in the low half");
	emu_panel_f32(EMU_ELEMENT_E2M1, EMU_PACK_UNITS, nibbles, 16, out);
	check(out[9] == -1 && out[15] == 0, "fp4 in units");
	emu_panel_f32(EMU_ELEMENT_E3M2, EMU_PACK_UNITS, sixes, 4, out);
	check(out[0] == 0x1p-4f && out[1] == 0x1p-4f && out[2] == 0x1p-3f && out[3] == 0x1.8p-3f,
	      "fp6: a stream of bits");
	wide[3] = 7 << 2;
	emu_panel_f32(EMU_ELEMENT_E2M1, EMU_PACK_CONTAINERS, wide, 16, out);
	check(out[3] == 6 && out[2] == 0, "fp4 in containers: bits 5:2");
	check(emu_packed_bytes(EMU_ELEMENT_E2M1, EMU_PACK_UNITS, 32) == 32 &&
		      emu_packed_bytes(EMU_ELEMENT_E2M1, EMU_PACK_DENSE, 64) == 32 &&
		      emu_packed_bytes(EMU_ELEMENT_TF32, EMU_PACK_DENSE, 8) == 32,
	      "bytes of K");
}

static void test_gemm(void)
{
	enum {
		n = 23,
		k = 16
	};
	float a[k * 16], b[n * k], d[n * 16], reference[n * 16];
	int wrong = 0;

	for (int i = 0; i < k * 16; i++)
		a[i] = (float)(i * 37 % 101) / 64 - 0.7f;
	for (int i = 0; i < n * k; i++)
		b[i] = (float)(i * 53 % 97) / 32 - 1.3f;
	for (int i = 0; i < n * 16; i++)
		d[i] = reference[i] = (float)i / 7;
	for (int j = 0; j < n; j++)
		for (int r = 0; r < 16; r++)
			for (int i = 0; i < k; i++) {
				volatile float product = a[i * 16 + r] * b[j * k + i];
				reference[j * 16 + r] += product;
			}
	emu_gemm_f32(n, k, a, 16, b, k, d, 16, true);
	for (int i = 0; i < n * 16; i++)
		wrong += d[i] != reference[i];
	check(wrong == 0, "f32: %d sums differ from k-sequential ones", wrong);
}

static void test_integer_gemm(void)
{
	int32_t a[16] = {127}, b[1] = {127}, d[16] = {INT32_MAX};

	emu_gemm_s32(1, 1, a, 16, b, 1, d, 16, true, true);
	check(d[0] == INT32_MAX, "s32 clamps");
	emu_gemm_s32(1, 1, a, 16, b, 1, d, 16, true, false);
	check(d[0] == INT32_MIN + 127 * 127 - 1, "s32 wraps");
}

static float add(int fraction_bits, int result_bits, int count, const float *a, const float *b,
		 float c)
{
	struct emu_adder adder = {fraction_bits, result_bits, false, EMU_ELEMENT_F16,
				  EMU_ELEMENT_F16};
	float panel[16 * 16] = {0}, d[16] = {c};

	for (int i = 0; i < count; i++)
		panel[i * 16] = a[i];
	emu_gemm_adder(&adder, NULL, 1, count, panel, 16, b, count, d, 16, true);
	return d[0];
}

static void test_adder(void)
{
	const float one[4] = {1, 1, 1, 1}, small[4] = {1, 0x1p-13f, 0x1p-13f, -0x1p-14f};
	const float scale[4] = {1, 0x1p-13f, 0x1p-12f, 0x1p-13f};
	const float infinite[2] = {INFINITY, 1}, zero[2] = {0, 1};

	check(add(25, 23, 2, one, one, 1) == 3, "1 + 1 + 1");
	check(add(25, 23, 2, small, scale, 0) == 1.0f, "2^-26 is cut off at 25 fraction bits");
	check(add(25, 23, 2, small, one, 0) == 1.0f + 0x1p-13f, "2^-13 is kept");
	check(add(13, 13, 2, small, one, 0) == 1.0f + 0x1p-13f, "2^-13 is the last bit of 13");
	check(add(13, 13, 4, small, one, 0) == 1.0f + 0x1p-12f,
	      "each term is cut off by itself, towards zero");
	check(add(25, 23, 1, one, one, 0x1p-25f) == 1.0f, "the result is cut off, not rounded");
	check(add(25, 23, 1, one, one, -0x1p-25f) == 1.0f - 0x1p-24f, "also below one");
	check(add(25, 23, 1, one, one, 0x1p30f) == 0x1p30f, "C decides the exponent");
	check(isinf(add(25, 23, 2, infinite, one, 0)), "infinity goes through");
	check(emu_bits_of_f32(add(25, 23, 2, infinite, zero, 0)) == 0x7fffffff,
	      "infinity times zero is the canonical NaN");
}

static void test_adder_exact(void)
{
	enum {
		n = 5,
		k = 16
	};
	struct emu_adder adder = {25, 23, false, EMU_ELEMENT_F16, EMU_ELEMENT_F16};
	float a[k * 16], b[n * k], d[n * 16] = {0};
	int wrong = 0;

	for (int i = 0; i < k * 16; i++)
		a[i] = (float)(i * 37 % 9) - 4;
	for (int i = 0; i < n * k; i++)
		b[i] = (float)(i * 53 % 9) - 4;
	emu_gemm_adder(&adder, NULL, n, k, a, 16, b, k, d, 16, false);
	for (int j = 0; j < n; j++)
		for (int r = 0; r < 16; r++) {
			double sum = 0;
			for (int i = 0; i < k; i++)
				sum += (double)a[i * 16 + r] * b[j * k + i];
			wrong += d[j * 16 + r] != sum;
		}
	check(wrong == 0, "adder: %d integer sums differ", wrong);
}

/* Both implementations of the adder give the same bits. */
static void test_adder_dense(enum emu_element element, int fraction_bits, bool half_result)
{
	enum {
		n = 9,
		k = 32
	};
	struct emu_adder adder = {fraction_bits, fraction_bits == 13 ? 13 : 23, half_result,
				  element, element};
	static float a[k * 16], b[n * k], d[n * 16], e[n * 16];
	uint32_t state = 12345;
	int wrong = 0;

	for (int i = 0; i < k * 16 + n * k; i++) {
		uint8_t raw[4];
		state = state * 1664525 + 1013904223;
		raw[0] = (uint8_t)(state >> 8);
		raw[1] = raw[3] = (uint8_t)(0x30 + (state >> 16 & 0x8f));
		raw[2] = (uint8_t)(state >> 20);
		emu_panel_f32(element, EMU_PACK_CONTAINERS, raw, 1,
			      i < k * 16 ? a + i : b + i - k * 16);
	}
	for (int i = 0; i < n * 16; i++)
		d[i] = e[i] = (float)((i * 29 % 64 - 32) * 0.37);
	emu_gemm_adder(&adder, NULL, n, k, a, 16, b, k, d, 16, true);
	for (int j = 0; j < n; j++)
		emu_adder_column(&adder, NULL, j, k, a, 16, b + j * k, e + j * 16, true);
	for (int i = 0; i < n * 16; i++)
		wrong += emu_bits_of_f32(d[i]) != emu_bits_of_f32(e[i]);
	check(wrong == 0, "adder in vectors, %s, %d bits: %d differ", emu_element_name(element),
	      fraction_bits, wrong);
}

static float wide_value(enum emu_element element, uint32_t *state, bool finite)
{
	uint8_t raw[4];
	float value;

	for (int i = 0; i < 4; i++) {
		*state = *state * 1664525 + 1013904223;
		raw[i] = (uint8_t)(*state >> 16);
	}
	emu_panel_f32(element, EMU_PACK_CONTAINERS, raw, 1, &value);
	return (finite && !isfinite(value)) || *state >> 28 == 0 ? 0.0f : value;
}

/* The same over all that the types hold: subnormals, zeros, the ends of the range, NaN. */
static void test_adder_wide(enum emu_element element, int fraction_bits, int k)
{
	enum {
		n = 9,
		most_k = 32
	};
	struct emu_adder adder = {fraction_bits, fraction_bits == 13 ? 13 : 23, false, element,
				  element};
	static float a[most_k * 16], b[n * most_k], d[n * 16], e[n * 16];
	uint32_t state = 99;
	int wrong = 0;

	for (int round = 0; round < 300; round++) {
		bool finite = round % 10 != 0;
		/* Now and then all products are tiny, so that C or a subnormal sum decides. */
		float unit = round % 3 == 0 ? 0x1p-126f : 1.0f;

		for (int i = 0; i < k * 16; i++)
			a[i] = wide_value(element, &state, finite);
		for (int i = 0; i < n * k; i++)
			b[i] = wide_value(element, &state, finite);
		for (int i = 0; i < n * 16; i++)
			d[i] = e[i] = wide_value(EMU_ELEMENT_TF32, &state, finite) * unit;
		if (round % 6 == 0)
			memset(a, 0, sizeof a);
		emu_gemm_adder(&adder, NULL, n, k, a, 16, b, k, d, 16, true);
		for (int j = 0; j < n; j++)
			emu_adder_column(&adder, NULL, j, k, a, 16, b + j * k, e + j * 16, true);
		for (int i = 0; i < n * 16; i++)
			wrong += emu_bits_of_f32(d[i]) != emu_bits_of_f32(e[i]);
	}
	check(wrong == 0, "adder in vectors over the range, %s, %d bits, K = %d: %d differ",
	      emu_element_name(element), fraction_bits, k, wrong);
}

int main(void)
{
	test_numbers();
	test_map_rules();
	test_map_targets();
	test_map_bytes();
	test_box_clipping();
	test_box_strides();
	test_packed_rows();
	test_layouts();
	test_descriptor_bits();
	test_image(3, 2, 128);
	test_image(2, 4, 64);
	test_image(1, 6, 32);
	test_image(4, 1, 128);
	test_instruction_descriptors();
	test_panels();
	test_gemm();
	test_integer_gemm();
	test_adder();
	test_adder_exact();
	test_adder_dense(EMU_ELEMENT_F16, 25, false);
	test_adder_dense(EMU_ELEMENT_F16, 25, true);
	test_adder_dense(EMU_ELEMENT_BF16, 25, false);
	test_adder_dense(EMU_ELEMENT_TF32, 25, false);
	test_adder_dense(EMU_ELEMENT_E4M3, 25, false);
	test_adder_dense(EMU_ELEMENT_E4M3, 13, false);
	test_adder_dense(EMU_ELEMENT_E5M2, 13, true);
	test_adder_dense(EMU_ELEMENT_E2M1, 25, false);
	test_adder_wide(EMU_ELEMENT_F16, 25, 16);
	test_adder_wide(EMU_ELEMENT_BF16, 25, 16);
	test_adder_wide(EMU_ELEMENT_TF32, 25, 8);
	test_adder_wide(EMU_ELEMENT_E4M3, 13, 32);
	test_adder_wide(EMU_ELEMENT_E5M2, 13, 32);
	test_adder_wide(EMU_ELEMENT_E5M2, 25, 24);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}

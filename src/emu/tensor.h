/*
 * Tensor maps, matrix descriptors, operand panels and the multiplication itself.
 *
 * Nothing here knows warps, instructions or the machine: bytes and numbers in,
 * bytes and numbers out.  Section numbers in comments are those of docs/isa.md.
 */
#ifndef TCMMA_EMU_TENSOR_H
#define TCMMA_EMU_TENSOR_H

#include "emu.h"

/* ---- tensor maps (8.1) ----------------------------------------------------- */

/* Checks the rules of a target and nothing else. */
bool emu_tensormap_check(const struct emu_tensormap *map, int target, struct emu_error *error);
/* Writes the 128 bytes without checking: tensormap.replace passes through illegal states. */
void emu_tensormap_pack(const struct emu_tensormap *map, uint8_t out[128]);
/* False unless the bytes are a map of this emulator, unchanged since they were written. */
bool emu_tensormap_unpack(const uint8_t in[128], struct emu_tensormap *map,
			  struct emu_error *error);
int emu_tensormap_element_bits(int type);
const char *emu_tensormap_type_name(int type);

/* ---- boxes (8.2) ------------------------------------------------------------ */

struct emu_box {
	uint32_t unit_bits; /* of what dimension 0 counts: elements, or slices of channels */
	uint32_t count[EMU_MAX_RANK];    /* elements taken along each dimension */
	uint32_t row_global, row_shared; /* bytes of an innermost row */
	uint32_t row_pitch;              /* in shared memory */
	uint32_t rows;
	uint32_t footprint;   /* bytes of shared memory */
	uint32_t transaction; /* bytes that complete_tx counts */
};

/*
 * One innermost row: `inside` elements from `first` on exist in global memory,
 * `step` elements apart.
 */
struct emu_box_row {
	uint64_t address; /* of element `first` */
	uint32_t step;
	uint32_t offset;        /* of the row from the box's start in shared memory */
	uint32_t first, inside; /* elements */
};

typedef bool emu_box_visitor(void *context, const struct emu_box_row *row);

void emu_box_shape(const struct emu_tensormap *map, struct emu_box *box);
/* Visits the rows in order of their offset; false if a visit returned false. */
bool emu_box_walk(const struct emu_tensormap *map, const int32_t *coordinates,
		  emu_box_visitor *visit, void *context);
/* tile::gather4 and tile::scatter4: {column, row 0 .. row 3} of a two-dimensional map. */
bool emu_box_walk_rows(const struct emu_tensormap *map, const int32_t coordinates[5],
		       emu_box_visitor *visit, void *context);
/* The dimension of the width, which height and depth follow: 0 in an interleaved layout. */
int emu_box_width(const struct emu_tensormap *map);
/* Where a copy of pixels begins: im2col offsets, or {halo, offset} along the width. */
struct emu_pixels {
	const int32_t *coordinates;
	uint32_t offsets[EMU_MAX_RANK - 2];
};

/* Rows are pixels: the number follows from the map and, along the width, from the halo. */
void emu_box_shape_pixels(const struct emu_tensormap *map, const struct emu_pixels *pixels,
			  struct emu_box *box);
bool emu_box_walk_pixels(const struct emu_tensormap *map, const struct emu_pixels *pixels,
			 emu_box_visitor *visit, void *context);
/* From row_global packed bytes to row_shared bytes and back; in place is not allowed. */
void emu_box_unpack_row(const struct emu_tensormap *map, const struct emu_box *box,
			const uint8_t *packed, uint8_t *shared);
void emu_box_pack_row(const struct emu_tensormap *map, const struct emu_box *box,
		      const uint8_t *shared, uint8_t *packed);
/* Conversions that a load makes on the way: tf32 rounding, flush of subnormals. */
void emu_box_convert(int type, uint8_t *bytes, uint32_t size);
/* Fills `count` elements with the map's out-of-bounds value. */
void emu_box_fill(const struct emu_tensormap *map, uint8_t *bytes, uint32_t size);
/* Where the byte at a linear shared address lies, by the swizzle of the map. */
uint32_t emu_box_swizzle(int swizzle, uint32_t address);
/* The largest run of bytes that the swizzle keeps together. */
uint32_t emu_box_swizzle_run(int swizzle);

/* ---- matrix descriptors (3) -------------------------------------------------- */

enum emu_swizzle {
	EMU_SWIZZLE_NONE,
	EMU_SWIZZLE_32,
	EMU_SWIZZLE_64,
	EMU_SWIZZLE_128,
	EMU_SWIZZLE_128_ATOM_32
};

struct emu_smem_descriptor {
	uint32_t start, leading, stride; /* bytes */
	uint32_t base_offset;
	bool absolute; /* `leading` is an address (K = 96) */
	enum emu_swizzle swizzle;
};

/* `version` of tcgen05 descriptors: mma demands 0b001, cp takes 0 as well. */
bool emu_descriptor_tcgen05(uint64_t bits, bool demand_version,
			    struct emu_smem_descriptor *descriptor, struct emu_error *error);
bool emu_descriptor_wgmma(uint64_t bits, struct emu_smem_descriptor *descriptor,
			  struct emu_error *error);
/*
 * Shared address of byte `k_byte` of row `row` (K-major) or of element (row, k)
 * (MN-major; k_byte = k * element_bytes).
 */
uint32_t emu_descriptor_address(const struct emu_smem_descriptor *descriptor, bool mn_major,
				int element_bytes, uint32_t row, uint32_t k_byte);

/* A CTA's shared memory: addresses base .. base + size. */
struct emu_smem_view {
	const uint8_t *bytes;
	uint32_t base, size;
};

/* The shared addresses of the 16-byte units that emu_operand_gather reads, K-major or MN-major. */
typedef void emu_unit_visitor(void *context, uint32_t address);
void emu_operand_units(const struct emu_smem_descriptor *descriptor, bool mn_major,
		       int element_bytes, int rows, int k_bytes, emu_unit_visitor *visit,
		       void *context);
/* raw[row * k_bytes + b]: the operand tile with K innermost; false on an address outside. */
bool emu_operand_gather(const struct emu_smem_descriptor *descriptor, bool mn_major,
			int element_bytes, int rows, int k_bytes, const struct emu_smem_view *smem,
			uint8_t *raw, struct emu_error *error);

/* ---- instruction descriptors (2.3, 2.4) --------------------------------------- */

enum emu_kind {
	EMU_KIND_F16,
	EMU_KIND_TF32,
	EMU_KIND_F8F6F4,
	EMU_KIND_I8,
	EMU_KIND_MXF8F6F4,
	EMU_KIND_MXF4,
	EMU_KIND_MXF4NVF4
};

enum emu_element {
	EMU_ELEMENT_F16,
	EMU_ELEMENT_BF16,
	EMU_ELEMENT_TF32,
	EMU_ELEMENT_E4M3,
	EMU_ELEMENT_E5M2,
	EMU_ELEMENT_E2M3,
	EMU_ELEMENT_E3M2,
	EMU_ELEMENT_E2M1,
	EMU_ELEMENT_S8, /* from here on integers */
	EMU_ELEMENT_U8,
	EMU_ELEMENT_S4, /* of mma.sync */
	EMU_ELEMENT_U4,
	EMU_ELEMENT_B1
};

enum emu_accumulator {
	EMU_ACCUMULATE_F16,
	EMU_ACCUMULATE_F32,
	EMU_ACCUMULATE_S32
};

/* What the instruction itself says, against which the descriptor is held. */
struct emu_mma_form {
	enum emu_kind kind;
	bool sparse, weight_stationary, a_in_tmem;
	int cta_group;
	int scale_vector; /* 1, 2, 4; 0 where the kind has no scales */
	bool k96_allowed; /* sm_103a */
};

struct emu_idesc {
	bool saturate, negate_a, negate_b, transpose_a, transpose_b;
	int selector; /* sparsity metadata */
	enum emu_accumulator accumulator;
	enum emu_element a, b;
	int m, n, k;      /* k: logical elements of one instruction */
	int max_shift;    /* .ws */
	bool scale_ue4m3; /* else ue8m0 */
	int scale_a_id, scale_b_id;
};

bool emu_idesc_decode(const struct emu_mma_form *form, uint32_t bits, struct emu_idesc *idesc,
		      struct emu_error *error);
const char *emu_kind_name(enum emu_kind kind);
const char *emu_element_name(enum emu_element element);
int emu_element_bits(enum emu_element element);

/* ---- panels -------------------------------------------------------------------- */

enum emu_packing {
	EMU_PACK_DENSE,     /* nibbles and bytes back to back */
	EMU_PACK_UNITS,     /* 3.7: 16 elements in each 16-byte unit, padded */
	EMU_PACK_CONTAINERS /* 5.4: one element a byte, fp4 in bits 5:2, fp6 in 6:1 */
};

int emu_packed_bytes(enum emu_element element, enum emu_packing packing, int elements);
void emu_panel_f32(enum emu_element element, enum emu_packing packing, const uint8_t *raw,
		   int elements, float *out);
void emu_panel_s32(enum emu_element element, const uint8_t *raw, int elements, int32_t *out);

/* ---- multiplication ------------------------------------------------------------- */

#define EMU_GEMM_ROWS  16
#define EMU_GEMM_MAX_K 256

/*
 * d[n * d_stride + i] (+)= sum over k of a[k * a_stride + i] * b[n * b_stride + k],
 * i = 0 .. 15.  Products and sums are single operations in f32, k ascending, so
 * that the result does not depend on the host.
 */
void emu_gemm_f32(int n, int k, const float *a, int a_stride, const float *b, int b_stride,
		  float *d, int d_stride, bool accumulate);
/* The same in integers; the sum over k is exact, the addition to d wraps or clamps. */
void emu_gemm_s32(int n, int k, const int32_t *a, int a_stride, const int32_t *b, int b_stride,
		  int32_t *d, int d_stride, bool accumulate, bool saturate);

/*
 * The same for operands and results as mma.sync and wgmma have them in registers: 16 rows of A, n
 * columns (a multiple of 8), and of D n / 2 rows of 32 lanes.  The panels of A and B are made by
 * the first two functions, `a` from element (row, k) at a[row * row_stride + k * k_stride], to k *
 * 64 values; `b` from b[column * k + i], to as many values.  f32 and s32 alike.
 */
void emu_fragment_a(const float *a, int row_stride, int k_stride, int k, float *out);
void emu_fragment_b(const float *b, int n, int k, float *out);
void emu_fragment_f32(int n, int k, const float *a, const float *b, float *const *d,
		      bool accumulate);
void emu_fragment_s32(int n, int k, const int32_t *a, const int32_t *b, int32_t *const *d,
		      bool accumulate, bool saturate);

/* Between n / 2 such rows and a tile, element (row, column) at tile[column * 16 + row]. */
void emu_fragment_to_tile(int n, float *const *d, float *tile);
void emu_fragment_of_tile(int n, const float *tile, float *const *d);
/* A row of pairs of f16 from and to two rows of f32. */
void emu_fragment_halves(const uint32_t *pairs, float *even, float *odd);
void emu_fragment_pack(const float *even, const float *odd, uint32_t *pairs);

/* The adder of a tensor core (10): all products and C in one truncated sum. */
struct emu_adder {
	int fraction_bits; /* F */
	int result_bits;   /* mantissa bits of an f32 result */
	bool f16_result;
	enum emu_element a, b;
};

/* Scale factors: block `j` of row i is a_scale[i * blocks + j]; NULL where there are none. */
struct emu_adder_scales {
	int blocks, block_k;
	const uint8_t *a_scale, *b_scale;
	bool ue4m3;
	bool by_group; /* fp4: sums of 16 products are scaled, not products */
};

void emu_gemm_adder(const struct emu_adder *adder, const struct emu_adder_scales *scales, int n,
		    int k, const float *a, int a_stride, const float *b, int b_stride, float *d,
		    int d_stride, bool accumulate);

#endif

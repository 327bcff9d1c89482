/* Runs one tcgen05.mma: operands to panels, panels to the tiles of D in tensor memory (2, 4). */
#include "mma.h"

#include "number.h"

#include <math.h>
#include <stdlib.h>

struct run {
	const struct emu_mma_request *request;
	struct emu_idesc idesc;
	struct emu_mma_scratch *scratch;
	struct emu_cta *ctas[2]; /* even and odd; the second one NULL for one CTA */
	int cta_count;
	uint32_t d_column, d_lane;
	bool integer, adder;
};

/* 16 rows of D that lie in 16 consecutive lanes, and the columns of one range of N. */
struct tile {
	int cta, row, lane, n, n_count;
	uint32_t column;
};

static bool fail(const struct run *run, const char *rule, const char *text)
{
	emu_fault_at(&run->request->where, rule, "tcgen05.mma: %s", text);
	return false;
}

struct emu_mma_scratch *emu_mma_scratch_of(struct emu_cluster *cluster,
					   const struct emu_where *where)
{
	struct emu_async_cluster *async = cluster->async;

	if (!async->scratch)
		async->scratch = malloc(sizeof *async->scratch);
	if (!async->scratch)
		emu_fault_at(where, "out-of-memory", "the host has no memory for an MMA");
	return async->scratch;
}

void emu_mma_scratch_free(struct emu_mma_scratch *scratch)
{
	free(scratch);
}

void emu_mma_transpose(const float *rows, int row_count, int k_count, float *a)
{
	for (int block = 0; block < row_count; block += EMU_GEMM_ROWS)
		for (int k = 0; k < k_count; k++)
			for (int i = block; i < block + EMU_GEMM_ROWS && i < row_count; i++)
				a[k * EMU_MMA_ROWS + i] = rows[i * k_count + k];
}

void emu_mma_negate(float *values, int count)
{
	for (int i = 0; i < count; i++)
		values[i] = -values[i];
}

/* ---- where D lies ------------------------------------------------------------------ */

static int tiles_of_n(const struct run *run)
{
	if (run->request->form.weight_stationary)
		return 128 / run->idesc.m;
	return run->cta_count == 2 && run->idesc.m == 128 && !run->request->form.sparse ? 2 : 1;
}

/* Layouts C and F: 16 rows in each window of 32 lanes. */
static bool half_lanes(const struct run *run)
{
	return !run->request->form.weight_stationary && run->idesc.m == 64 * run->cta_count &&
	       tiles_of_n(run) == 1;
}

/*
 * Tile i of part p: the layouts A to G of section 4 in one formula.  A part is
 * the range of N that one group of lanes holds.
 */
static struct tile tile_at(const struct run *run, int i, int part)
{
	int parts = tiles_of_n(run), rows = run->idesc.m / run->cta_count, row = i * EMU_GEMM_ROWS;
	struct tile tile = {.cta = row / rows, .row = row};

	tile.n_count = run->idesc.n / parts;
	tile.n = part * tile.n_count;
	tile.column = run->d_column;
	tile.lane = half_lanes(run) ? row % rows * 2 + (int)run->d_lane
				    : row % rows + part * (EMU_TMEM_LANES / parts);
	return tile;
}

static bool locate(struct run *run)
{
	uint32_t d = run->request->d, a = run->request->a_address;

	run->d_lane = d >> 16;
	run->d_column = d & 0xffff;
	if (run->d_lane && (run->d_lane != 16 || !half_lanes(run)))
		return fail(run, "tmem-address",
			    half_lanes(run) ? "D must begin at lane 0 or 16"
					    : "D must begin at lane 0 for this shape");
	if (run->request->form.a_in_tmem && a >> 16 != run->d_lane)
		return fail(run, "tmem-address", "A in tensor memory must begin at the lane of D");
	for (int c = 0; c < run->cta_count; c++)
		if (!emu_tmem_check(run->ctas[c], &run->request->where, run->d_column,
				    (uint32_t)(run->idesc.n / tiles_of_n(run)), "tcgen05.mma (D)"))
			return false;
	return true;
}

/* ---- operands ------------------------------------------------------------------------ */

static enum emu_packing packing_in_smem(const struct run *run)
{
	return run->request->form.kind >= EMU_KIND_MXF4 ? EMU_PACK_DENSE : EMU_PACK_UNITS;
}

static int stored_k(const struct run *run, bool is_a)
{
	return is_a && run->request->form.sparse ? run->idesc.k / 2 : run->idesc.k;
}

static bool check_major(const struct run *run, const char *which, bool transposed,
			const struct emu_smem_descriptor *descriptor)
{
	bool atoms = descriptor->swizzle == EMU_SWIZZLE_128_ATOM_32;

	if (!transposed || atoms == (run->request->form.kind == EMU_KIND_TF32))
		return true;
	emu_fault_at(
		&run->request->where, "smem-descriptor",
		"tcgen05.mma: MN-major %s with this swizzle; kind::tf32 needs 128B with 32-byte "
		"atoms, the other kinds everything else",
		which);
	return false;
}

/* Rows [0, rows) of the CTA's part to raw, K innermost. */
static bool gather(const struct run *run, bool is_a, int cta, int rows, uint8_t *raw)
{
	uint64_t bits = is_a ? run->request->a_descriptor : run->request->b_descriptor;
	enum emu_element element = is_a ? run->idesc.a : run->idesc.b;
	bool transposed = is_a ? run->idesc.transpose_a : run->idesc.transpose_b;
	struct emu_smem_view view = emu_smem_of(run->ctas[cta]);
	struct emu_smem_descriptor descriptor;
	struct emu_error error;
	int bytes = emu_packed_bytes(element, packing_in_smem(run), stored_k(run, is_a));
	int element_bytes = emu_element_bits(element) < 8 ? 1 : emu_element_bits(element) / 8;

	if (!emu_descriptor_tcgen05(bits, true, &descriptor, &error) ||
	    !emu_operand_gather(&descriptor, transposed, element_bytes, rows, bytes, &view, raw,
				&error)) {
		emu_fault_at(&run->request->where, "smem-descriptor", "tcgen05.mma, operand %s: %s",
			     is_a ? "A" : "B", error.text);
		return false;
	}
	return check_major(run, is_a ? "A" : "B", transposed, &descriptor);
}

static void convert(const struct run *run, bool is_a, enum emu_packing packing, const uint8_t *raw,
		    int count, float *out)
{
	enum emu_element element = is_a ? run->idesc.a : run->idesc.b;

	if (run->integer) {
		emu_panel_s32(element, raw, count, (int32_t *)(void *)out);
		return;
	}
	emu_panel_f32(element, packing, raw, count, out);
	if (is_a ? run->idesc.negate_a : run->idesc.negate_b)
		emu_mma_negate(out, count);
}

/* B to scratch->b, N rows of K. */
static bool load_b(const struct run *run)
{
	int rows = run->idesc.n / run->cta_count, k = run->idesc.k;

	for (int c = 0; c < run->cta_count; c++) {
		if (!gather(run, false, c, rows, run->scratch->raw))
			return false;
		convert(run, false, packing_in_smem(run), run->scratch->raw, rows * k,
			run->scratch->b + c * rows * k);
	}
	return true;
}

static bool load_a_smem(const struct run *run)
{
	int rows = run->idesc.m / run->cta_count, k = stored_k(run, true);

	for (int c = 0; c < run->cta_count; c++) {
		if (!gather(run, true, c, rows, run->scratch->raw))
			return false;
		convert(run, true, packing_in_smem(run), run->scratch->raw, rows * k,
			run->scratch->rows + c * rows * k);
	}
	return true;
}

/* A row of A is what the lane of D holds: layouts that need copies find them there. */
static bool load_a_tmem(const struct run *run)
{
	int k = stored_k(run, true);
	enum emu_packing packing =
		run->request->form.kind >= EMU_KIND_MXF4 ? EMU_PACK_DENSE : EMU_PACK_CONTAINERS;
	int columns = emu_packed_bytes(run->idesc.a, packing, k) / 4;
	uint32_t first = run->request->a_address & 0xffff;

	for (int c = 0; c < run->cta_count; c++) {
		const emu_tmem_column *cells;

		if (!emu_tmem_check(run->ctas[c], &run->request->where, first, (uint32_t)columns,
				    "tcgen05.mma (A)"))
			return false;
		cells = (const emu_tmem_column *)emu_tmem_of(run->ctas[c])->columns;
		for (int i = 0; i < columns; i++)
			for (int lane = 0; lane < EMU_TMEM_LANES; lane++)
				memcpy(run->scratch->raw + (lane * columns + i) * 4,
				       &cells[first + (uint32_t)i][lane], 4);
		convert(run, true, packing, run->scratch->raw, EMU_TMEM_LANES * k,
			run->scratch->rows + c * EMU_TMEM_LANES * k);
	}
	return true;
}

/* ---- sparsity (6.4) ---------------------------------------------------------------------- */

/* The metadata bits of logical elements [k, k + 4) (tf32: [k, k + 2)) of a lane's row. */
static uint32_t metadata_nibble(const struct run *run, const emu_tmem_column *cells, int lane,
				int k)
{
	uint32_t column = run->request->metadata & 0xffff;
	int m = lane;

	switch (run->request->form.kind) {
	case EMU_KIND_F16:
		column += (uint32_t)run->idesc.selector;
		lane = m / 16 * 16 + (k >= 16) * 8 + m % 8;
		return cells[column][lane] >> (16 * (m / 8 % 2) + k % 16) & 15;
	case EMU_KIND_TF32:
		column += (uint32_t)run->idesc.selector;
		lane = m / 16 * 16 + (k >= 8) * 8 + m % 8;
		return cells[column][lane] >> (16 * (m / 8 % 2) + 2 * (k % 8)) & 15;
	case EMU_KIND_MXF4:
	case EMU_KIND_MXF4NVF4:
		return cells[column + (uint32_t)k / 64][lane] >> (k % 64 / 2) & 15;
	default:
		return cells[column + (uint32_t)k / 32][lane] >> k % 32 & 15;
	}
}

/* Spreads the stored half of a row over its logical places. */
static bool expand_row(const struct run *run, const emu_tmem_column *cells, int lane,
		       const float *stored, float *row)
{
	enum emu_kind kind = run->request->form.kind;
	int unit = kind >= EMU_KIND_MXF4 ? 2 : 1; /* elements that move together */
	int span = kind == EMU_KIND_TF32 ? 2 : 4 * unit;

	memset(row, 0, sizeof *row * (size_t)run->idesc.k);
	for (int k = 0; k < run->idesc.k; k += span, stored += span / 2) {
		uint32_t nibble = metadata_nibble(run, cells, lane, k);
		uint32_t first = nibble & 3, second = nibble >> 2;

		if (kind == EMU_KIND_TF32) {
			if (nibble != 4 && nibble != 14)
				return false;
			row[k + (nibble == 14)] = stored[0];
			continue;
		}
		if (first == second)
			return false;
		for (int i = 0; i < unit; i++) {
			row[k + (int)first * unit + i] = stored[i];
			row[k + (int)second * unit + i] = stored[unit + i];
		}
	}
	return true;
}

static int a_row_of(const struct run *run, const struct tile *tile)
{
	return run->request->form.a_in_tmem ? tile->cta * EMU_TMEM_LANES + tile->lane : tile->row;
}

static bool expand(const struct run *run)
{
	int k = run->idesc.k, tiles = run->idesc.m / EMU_GEMM_ROWS;
	float row[EMU_MMA_K];

	for (int c = 0; c < run->cta_count; c++)
		if (!emu_tmem_check(run->ctas[c], &run->request->where,
				    run->request->metadata & 0xffff,
				    run->request->form.kind <= EMU_KIND_TF32 ? 1 : 2,
				    "tcgen05.mma (sparsity metadata)"))
			return false;
	for (int part = 0; part < tiles_of_n(run); part++)
		for (int i = 0; i < tiles; i++) {
			struct tile tile = tile_at(run, i, part);
			int first = a_row_of(run, &tile);
			const emu_tmem_column *cells =
				(const emu_tmem_column *)emu_tmem_of(run->ctas[tile.cta])->columns;

			if (part && !run->request->form.a_in_tmem)
				break;
			for (int r = 0; r < EMU_GEMM_ROWS; r++) {
				if (!expand_row(run, cells, tile.lane + r,
						run->scratch->rows + (first + r) * k / 2, row))
					return fail(run, "sparsity-metadata",
						    "a metadata nibble selects no two different "
						    "elements; legal are 4, 8, 12, 9, 13, 14, 6 "
						    "(tf32: 4 and 14)");
				for (int j = 0; j < k; j++)
					run->scratch->a[j * EMU_MMA_ROWS + first + r] = row[j];
			}
		}
	return true;
}

/* A to scratch->a, rows innermost. */
static bool load_a(const struct run *run)
{
	bool tmem = run->request->form.a_in_tmem;
	int rows = tmem ? EMU_TMEM_LANES * run->cta_count : run->idesc.m;

	if (!(tmem ? load_a_tmem(run) : load_a_smem(run)))
		return false;
	if (run->request->form.sparse)
		return expand(run);
	emu_mma_transpose(run->scratch->rows, rows, run->idesc.k, run->scratch->a);
	return true;
}

/* ---- scale factors (6) --------------------------------------------------------------------- */

static int scale_blocks(const struct run *run)
{
	if (run->idesc.k == 96)
		return run->request->form.scale_vector == 4 ? 6 : 3;
	return run->request->form.scale_vector;
}

/* Factors of `rows` rows from the lane partition that a tile lies in. */
static bool load_scales(const struct run *run, const struct tile *tile, bool is_a, int first,
			int rows, uint8_t *out)
{
	uint32_t column = (is_a ? run->request->scale_a : run->request->scale_b) & 0x1ff;
	int id = is_a ? run->idesc.scale_a_id : run->idesc.scale_b_id, blocks = scale_blocks(run);
	int group = run->idesc.k == 96 && !is_a && run->idesc.n > 128 ? 8 : 4;
	int last = (first + rows - 1) / 32 + group * ((id + blocks - 1) / 4);
	struct emu_cta *cta = run->ctas[tile->cta];
	const emu_tmem_column *cells;

	if (!emu_tmem_check(cta, &run->request->where, column + (uint32_t)first / 32,
			    (uint32_t)(last - first / 32 + 1),
			    is_a ? "tcgen05.mma (scale factors of A)"
				 : "tcgen05.mma (scale factors of B)"))
		return false;
	cells = (const emu_tmem_column *)emu_tmem_of(cta)->columns;
	for (int r = 0; r < rows; r++)
		for (int j = 0; j < blocks; j++) {
			int at = first + r, byte = id + j;
			uint32_t word = cells[column + (uint32_t)(at / 32 + group * (byte / 4))]
					     [tile->lane / 32 * 32 + at % 32];
			out[r * blocks + j] = (uint8_t)(word >> 8 * (byte % 4));
		}
	return true;
}

static float scale_value(const struct run *run, uint8_t bits)
{
	return run->idesc.scale_ue4m3 ? emu_ue4m3_to_f32(bits) : emu_ue8m0_to_f32(bits);
}

/* In f32 the factors go onto the operands, as long as that cannot overflow. */
static bool moderate(const struct run *run, const uint8_t *scales, int count)
{
	if (run->idesc.scale_ue4m3)
		return true;
	for (int i = 0; i < count; i++)
		if (scales[i] < 127 - 50 || scales[i] > 127 + 50)
			return false;
	return true;
}

static void scale_rows(const struct run *run, const uint8_t *scales, const float *in, int rows,
		       float *out)
{
	int k = run->idesc.k, blocks = scale_blocks(run), block = k / blocks;

	for (int r = 0; r < rows; r++)
		for (int i = 0; i < k; i++)
			out[r * k + i] =
				in[r * k + i] * scale_value(run, scales[r * blocks + i / block]);
}

/* ---- the product ------------------------------------------------------------------------------
 */

static struct emu_adder adder_of(const struct run *run)
{
	return (struct emu_adder){
		.fraction_bits = run->request->form.kind >= EMU_KIND_MXF4 ? 35 : 25,
		.result_bits = 23,
		.f16_result = run->idesc.accumulator == EMU_ACCUMULATE_F16,
		.a = run->idesc.a,
		.b = run->idesc.b,
	};
}

static void multiply(const struct run *run, const struct tile *tile, const float *a, const float *b,
		     float *d, int d_stride, const struct emu_adder_scales *scales)
{
	bool accumulate = run->request->accumulate;
	int k = run->idesc.k;

	if (run->integer) {
		emu_gemm_s32(tile->n_count, k, (const int32_t *)(const void *)a, EMU_MMA_ROWS,
			     (const int32_t *)(const void *)b, k, (int32_t *)(void *)d, d_stride,
			     accumulate, run->idesc.saturate);
	} else if (run->adder || scales) {
		struct emu_adder adder = adder_of(run);
		emu_gemm_adder(&adder, scales, tile->n_count, k, a, EMU_MMA_ROWS, b, k, d, d_stride,
			       accumulate);
	} else {
		emu_gemm_f32(tile->n_count, k, a, EMU_MMA_ROWS, b, k, d, d_stride, accumulate);
	}
}

static uint32_t disabled_lanes(const struct run *run, const struct tile *tile)
{
	return run->request->disabled[tile->cta * 4 + tile->lane / 32] >> tile->lane % 32 & 0xffff;
}

static uint32_t to_cell(const struct run *run, float value)
{
	if (run->idesc.accumulator == EMU_ACCUMULATE_F16)
		return emu_f16_from_f32(value);
	return emu_bits_of_f32(value);
}

static float from_cell(const struct run *run, uint32_t cell)
{
	if (run->integer)
		return emu_f32_of_bits(cell);
	if (run->idesc.accumulator == EMU_ACCUMULATE_F16)
		return ldexpf(emu_f16_to_f32((uint16_t)cell), -run->request->scale_d);
	return ldexpf(emu_f32_of_bits(cell), -run->request->scale_d);
}

/* Through a buffer, where D is not simply f32 that is updated in place. */
static void multiply_apart(const struct run *run, const struct tile *tile, const float *a,
			   const float *b, emu_tmem_column *columns,
			   const struct emu_adder_scales *scales)
{
	uint32_t disabled = disabled_lanes(run, tile);
	float *buffer = run->scratch->tile;

	for (int n = 0; n < tile->n_count; n++)
		for (int r = 0; r < EMU_GEMM_ROWS; r++)
			buffer[n * EMU_GEMM_ROWS + r] = from_cell(run, columns[n][tile->lane + r]);
	multiply(run, tile, a, b, buffer, EMU_GEMM_ROWS, scales);
	for (int n = 0; n < tile->n_count; n++)
		for (int r = 0; r < EMU_GEMM_ROWS; r++)
			if (!(disabled >> r & 1))
				columns[n][tile->lane + r] =
					run->integer
						? emu_bits_of_f32(buffer[n * EMU_GEMM_ROWS + r])
						: to_cell(run, buffer[n * EMU_GEMM_ROWS + r]);
}

static void run_tile(const struct run *run, const struct tile *tile, const float *a, const float *b,
		     const struct emu_adder_scales *scales)
{
	emu_tmem_column *columns = emu_tmem_of(run->ctas[tile->cta])->columns + tile->column;

	if (run->idesc.accumulator == EMU_ACCUMULATE_F16 || run->request->scale_d ||
	    disabled_lanes(run, tile))
		multiply_apart(run, tile, a, b, columns, scales);
	else
		multiply(run, tile, a, b, (float *)(void *)&columns[0][tile->lane], EMU_TMEM_LANES,
			 scales);
}

static bool run_scaled_tile(const struct run *run, const struct tile *tile)
{
	struct emu_mma_scratch *s = run->scratch;
	int k = run->idesc.k, blocks = scale_blocks(run);
	int row_in_cta = tile->row % (run->idesc.m / run->cta_count);
	struct emu_adder_scales scales = {blocks,
					  k / blocks,
					  s->a_scales,
					  s->b_scales,
					  run->idesc.scale_ue4m3,
					  run->request->form.kind >= EMU_KIND_MXF4};
	int first = a_row_of(run, tile);

	if (!load_scales(run, tile, true, row_in_cta, EMU_GEMM_ROWS, s->a_scales) ||
	    !load_scales(run, tile, false, 0, tile->n_count, s->b_scales))
		return false;
	if (run->adder || !moderate(run, s->a_scales, EMU_GEMM_ROWS * blocks) ||
	    !moderate(run, s->b_scales, tile->n_count * blocks)) {
		run_tile(run, tile, s->a + first, s->b + tile->n * k, &scales);
		return true;
	}
	for (int i = 0; i < k; i++)
		for (int r = 0; r < EMU_GEMM_ROWS; r++)
			s->rows[i * EMU_MMA_ROWS + r] =
				s->a[i * EMU_MMA_ROWS + first + r] *
				scale_value(run, s->a_scales[r * blocks + i / scales.block_k]);
	scale_rows(run, s->b_scales, s->b + tile->n * k, tile->n_count, s->b_scaled);
	run_tile(run, tile, s->rows, s->b_scaled, NULL);
	return true;
}

static bool run_tiles(const struct run *run)
{
	int k = run->idesc.k, tiles = run->idesc.m / EMU_GEMM_ROWS;

	for (int part = 0; part < tiles_of_n(run); part++)
		for (int i = 0; i < tiles; i++) {
			struct tile tile = tile_at(run, i, part);

			if (!run->request->form.scale_vector)
				run_tile(run, &tile, run->scratch->a + a_row_of(run, &tile),
					 run->scratch->b + tile.n * k, NULL);
			else if (!run_scaled_tile(run, &tile))
				return false;
		}
	return true;
}

/* ---- .ws and .ashift
 * ------------------------------------------------------------------------------ */

/* 2.6: bit j of a part of N set means that column j counts as zero. */
static void zero_columns(const struct run *run)
{
	uint64_t mask = run->request->zero_columns;
	uint32_t skip = (uint32_t)(mask >> 40 & 0xff) + 1, use = (uint32_t)(mask >> 48 & 0xff) + 1;
	int parts = tiles_of_n(run), count = run->idesc.n / parts, k = run->idesc.k;

	if (!(mask >> 39 & 1))
		return;
	for (int part = 0; part < parts; part++) {
		uint32_t position = (uint32_t)(mask >> 8 * part & 0xff);
		bool ones_first = mask >> (32 + part) & 1;

		for (int n = 0; n < count; n++, position++) {
			uint32_t at = position % (skip + use);
			bool zero = ones_first ? at < skip : at >= use;
			if (zero)
				memset(run->scratch->b + (part * count + n) * k, 0,
				       sizeof(float) * (size_t)k);
		}
	}
}

/* A moves up by one lane after use; the last row of each 32 lanes stays (2.2). */
static void shift_a(const struct run *run)
{
	uint32_t first = run->request->a_address & 0xffff;

	for (int c = 0; c < run->cta_count; c++)
		for (uint32_t i = first; i < first + 8; i++)
			for (int window = 0; window < EMU_TMEM_LANES; window += 32) {
				uint32_t *lanes = &emu_tmem_of(run->ctas[c])->columns[i][window];
				memmove(lanes, lanes + 1, 31 * sizeof *lanes);
			}
}

/* ---- all of it
 * ---------------------------------------------------------------------------------------- */

static bool choose_ctas(struct run *run)
{
	struct emu_cta *cta = run->request->cta, *peer;

	run->cta_count = run->request->form.cta_group;
	run->ctas[0] = cta;
	if (run->cta_count == 1)
		return true;
	peer = emu_peer(cta);
	if (!peer)
		return fail(run, "cta-pair",
			    "cta_group::2 needs a cluster of an even number of "
			    "CTAs");
	if (peer->exited)
		return fail(run, "cta-pair", "the peer CTA has exited");
	run->ctas[cta->rank & 1] = cta;
	run->ctas[~cta->rank & 1] = peer;
	return true;
}

bool emu_mma_run(const struct emu_mma_request *request)
{
	struct run run = {.request = request};
	struct emu_counters *counters = &request->cta->worker->counters;
	struct emu_error error;

	if (!emu_idesc_decode(&request->form, request->idesc, &run.idesc, &error)) {
		emu_fault_at(&request->where, "instruction-descriptor", "%s", error.text);
		return false;
	}
	run.integer = request->form.kind == EMU_KIND_I8;
	run.adder = request->cta->grid->numerics == EMU_HARDWARE;
	run.scratch = emu_mma_scratch_of(request->cta->cluster, &request->where);
	if (!run.scratch || !choose_ctas(&run) || !locate(&run))
		return false;
	if (request->ashift && run.idesc.m != 128 * run.cta_count)
		return fail(&run, "instruction-descriptor",
			    ".ashift needs M = 128, or 256 in a pair");
	if (!load_b(&run) || !load_a(&run))
		return false;
	if (request->form.weight_stationary)
		zero_columns(&run);
	if (!run_tiles(&run))
		return false;
	if (request->ashift)
		shift_a(&run);
	counters->mma_flops +=
		2ull * (uint64_t)run.idesc.m * (uint64_t)run.idesc.n * (uint64_t)run.idesc.k;
	counters->mma_instructions++;
	return true;
}

/* Runs one tcgen05.mma: panels of A and B to the tiles of D in tensor memory (2, 4, 6). */
#include "wide.h"

#include "mma_run.h"

#include "number.h"

#include <math.h>
#include <stdlib.h>

bool emu_mma_fail(const struct emu_mma_run *run, const char *rule, const char *text)
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

/* ---- where D lies ------------------------------------------------------------------ */

int emu_mma_parts(const struct emu_mma_run *run)
{
	if (run->request->form.weight_stationary)
		return 128 / run->idesc.m;
	return run->cta_count == 2 && run->idesc.m == 128 && !run->request->form.sparse ? 2 : 1;
}

/* Layouts C and F: 16 rows in each window of 32 lanes. */
static bool half_lanes(const struct emu_mma_run *run)
{
	return !run->request->form.weight_stationary && run->idesc.m == 64 * run->cta_count &&
	       emu_mma_parts(run) == 1;
}

/*
 * Tile i of part p: the layouts A to G of section 4 in one formula.  A part is
 * the range of N that one group of lanes holds.
 */
struct emu_mma_tile emu_mma_tile_at(const struct emu_mma_run *run, int i, int part)
{
	int parts = emu_mma_parts(run), rows = run->idesc.m / run->cta_count,
	    row = i * EMU_GEMM_ROWS;
	struct emu_mma_tile tile = {.cta = row / rows, .row = row};

	tile.n_count = run->idesc.n / parts;
	tile.n = part * tile.n_count;
	tile.column = run->d_column;
	tile.lane = half_lanes(run) ? row % rows * 2 + (int)run->d_lane
				    : row % rows + part * (EMU_TMEM_LANES / parts);
	return tile;
}

static bool locate(struct emu_mma_run *run)
{
	uint32_t d = run->request->d, a = run->request->a_address;

	run->d_lane = d >> 16;
	run->d_column = d & 0xffff;
	if (run->d_lane && (run->d_lane != 16 || !half_lanes(run)))
		return emu_mma_fail(run, "tmem-address",
				    half_lanes(run) ? "D must begin at lane 0 or 16"
						    : "D must begin at lane 0 for this shape");
	if (run->request->form.a_in_tmem && a >> 16 != run->d_lane)
		return emu_mma_fail(run, "tmem-address",
				    "A in tensor memory must begin at the lane of D");
	for (int c = 0; c < run->cta_count; c++)
		if (!emu_tmem_check(run->ctas[c], &run->request->where, run->d_column,
				    (uint32_t)(run->idesc.n / emu_mma_parts(run)),
				    "tcgen05.mma (D)"))
			return false;
	return true;
}

/* ---- scale factors (6) --------------------------------------------------------------------- */

static int scale_blocks(const struct emu_mma_run *run)
{
	if (run->idesc.k == 96)
		return run->request->form.scale_vector == 4 ? 6 : 3;
	return run->request->form.scale_vector;
}

/* Factors of `rows` rows from the lane partition that a tile lies in. */
static bool load_scales(const struct emu_mma_run *run, const struct emu_mma_tile *tile, bool is_a,
			int first, int rows, uint8_t *out)
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

static float scale_value(const struct emu_mma_run *run, uint8_t bits)
{
	if (run->idesc.scale_ue4m3)
		return emu_ue4m3_to_f32(bits);
	return bits && bits != 0xff ? emu_f32_of_bits((uint32_t)bits << 23)
				    : emu_ue8m0_to_f32(bits);
}

/* In f32 the factors go onto the operands, as long as that cannot overflow. */
static bool moderate(const struct emu_mma_run *run, const uint8_t *scales, int count)
{
	if (run->idesc.scale_ue4m3)
		return true;
	for (int i = 0; i < count; i++)
		if (scales[i] < 127 - 50 || scales[i] > 127 + 50)
			return false;
	return true;
}

/* B of the tile to scratch->b_scaled; most tiles have the factors of the one before. */
static void scale_b(const struct emu_mma_run *run, const struct emu_mma_tile *tile)
{
	struct emu_mma_scratch *s = run->scratch;
	int k = run->idesc.k, blocks = scale_blocks(run), block = k / blocks;
	size_t bytes = (size_t)(tile->n_count * blocks);

	if (s->b_done_n == tile->n && !memcmp(s->b_done, s->b_scales, bytes))
		return;
	for (int r = 0; r < tile->n_count * blocks; r++) {
		float factor = scale_value(run, s->b_scales[r]);
		const float *in = s->b + tile->n * k + r * block;
		for (int i = 0; i < block; i++)
			s->b_scaled[r * block + i] = in[i] * factor;
	}
	memcpy(s->b_done, s->b_scales, bytes);
	s->b_done_n = tile->n;
}

/* 16 rows of A to scratch->rows, rows innermost. */
static void scale_a(const struct emu_mma_run *run, int first)
{
	struct emu_mma_scratch *s = run->scratch;
	int blocks = scale_blocks(run), block = run->idesc.k / blocks;
	float factors[EMU_GEMM_ROWS];

	for (int i = 0; i < run->idesc.k; i++) {
		const float *in = s->a + i * EMU_MMA_ROWS + first;
		for (int r = 0; r < EMU_GEMM_ROWS && i % block == 0; r++)
			factors[r] = scale_value(run, s->a_scales[r * blocks + i / block]);
		for (int r = 0; r < EMU_GEMM_ROWS; r++)
			s->rows[i * EMU_MMA_ROWS + r] = in[r] * factors[r];
	}
}

/* ---- the product ------------------------------------------------------------------------------
 */

static struct emu_adder adder_of(const struct emu_mma_run *run)
{
	return (struct emu_adder){
		.fraction_bits = run->request->form.kind >= EMU_KIND_MXF4 ? 35 : 25,
		.result_bits = 23,
		.f16_result = run->idesc.accumulator == EMU_ACCUMULATE_F16,
		.a = run->idesc.a,
		.b = run->idesc.b,
	};
}

static void multiply(const struct emu_mma_run *run, const struct emu_mma_tile *tile, const float *a,
		     const float *b, float *d, int d_stride, const struct emu_adder_scales *scales)
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

static uint32_t disabled_lanes(const struct emu_mma_run *run, const struct emu_mma_tile *tile)
{
	return run->request->disabled[tile->cta * 4 + tile->lane / 32] >> tile->lane % 32 & 0xffff;
}

/* 16 cells of D to numbers and back. */
static void from_cells(const struct emu_mma_run *run, const uint32_t *cells, float *values)
{
	if (run->idesc.accumulator == EMU_ACCUMULATE_F16)
		for (int r = 0; r < EMU_GEMM_ROWS; r++)
			values[r] = emu_f32_of_f16(cells[r]);
	else
		memcpy(values, cells, EMU_GEMM_ROWS * sizeof *values);
	for (int r = 0; r < EMU_GEMM_ROWS && run->request->scale_d && !run->integer; r++)
		values[r] = ldexpf(values[r], -run->request->scale_d);
}

static void to_cells(const struct emu_mma_run *run, const float *values, uint32_t disabled,
		     uint32_t *cells)
{
	uint32_t words[EMU_GEMM_ROWS];

	if (run->idesc.accumulator == EMU_ACCUMULATE_F16)
		for (int r = 0; r < EMU_GEMM_ROWS; r++)
			words[r] = emu_f16_bits(emu_bits_of_f32(values[r]));
	else
		memcpy(words, values, sizeof words);
	for (int r = 0; r < EMU_GEMM_ROWS; r++)
		cells[r] = disabled >> r & 1 ? cells[r] : words[r];
}

/* Through a buffer, where D is not simply f32 that is updated in place. */
static void multiply_apart(const struct emu_mma_run *run, const struct emu_mma_tile *tile,
			   const float *a, const float *b, emu_tmem_column *columns,
			   const struct emu_adder_scales *scales)
{
	uint32_t disabled = disabled_lanes(run, tile);
	float *buffer = run->scratch->tile;

	for (int n = 0; n < tile->n_count; n++)
		from_cells(run, &columns[n][tile->lane], buffer + n * EMU_GEMM_ROWS);
	multiply(run, tile, a, b, buffer, EMU_GEMM_ROWS, scales);
	for (int n = 0; n < tile->n_count; n++)
		to_cells(run, buffer + n * EMU_GEMM_ROWS, disabled, &columns[n][tile->lane]);
}

static void run_tile(const struct emu_mma_run *run, const struct emu_mma_tile *tile, const float *a,
		     const float *b, const struct emu_adder_scales *scales)
{
	emu_tmem_column *columns = emu_tmem_of(run->ctas[tile->cta])->columns + tile->column;

	if (run->idesc.accumulator == EMU_ACCUMULATE_F16 || run->request->scale_d ||
	    disabled_lanes(run, tile))
		multiply_apart(run, tile, a, b, columns, scales);
	else
		multiply(run, tile, a, b, (float *)(void *)&columns[0][tile->lane], EMU_TMEM_LANES,
			 scales);
}

static bool run_scaled_tile(const struct emu_mma_run *run, const struct emu_mma_tile *tile)
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
	int first = emu_mma_a_row(run, tile);

	if (!load_scales(run, tile, true, row_in_cta, EMU_GEMM_ROWS, s->a_scales) ||
	    !load_scales(run, tile, false, 0, tile->n_count, s->b_scales))
		return false;
	if (run->adder || !moderate(run, s->a_scales, EMU_GEMM_ROWS * blocks) ||
	    !moderate(run, s->b_scales, tile->n_count * blocks)) {
		run_tile(run, tile, s->a + first, s->b + tile->n * k, &scales);
		return true;
	}
	scale_a(run, first);
	scale_b(run, tile);
	run_tile(run, tile, s->rows, s->b_scaled, NULL);
	return true;
}

static bool run_tiles(const struct emu_mma_run *run)
{
	int k = run->idesc.k, tiles = run->idesc.m / EMU_GEMM_ROWS;

	run->scratch->b_done_n = -1;
	for (int part = 0; part < emu_mma_parts(run); part++)
		for (int i = 0; i < tiles; i++) {
			struct emu_mma_tile tile = emu_mma_tile_at(run, i, part);

			if (!run->request->form.scale_vector)
				run_tile(run, &tile, run->scratch->a + emu_mma_a_row(run, &tile),
					 run->scratch->b + tile.n * k, NULL);
			else if (!run_scaled_tile(run, &tile))
				return false;
		}
	return true;
}

/* ---- .ws and .ashift
 * ------------------------------------------------------------------------------ */

/* 2.6: bit j of a part of N set means that column j counts as zero. */
static void zero_columns(const struct emu_mma_run *run)
{
	uint64_t mask = run->request->zero_columns;
	uint32_t skip = (uint32_t)(mask >> 40 & 0xff) + 1, use = (uint32_t)(mask >> 48 & 0xff) + 1;
	int parts = emu_mma_parts(run), count = run->idesc.n / parts, k = run->idesc.k;

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
static void shift_a(const struct emu_mma_run *run)
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

static bool choose_ctas(struct emu_mma_run *run)
{
	struct emu_cta *cta = run->request->cta, *peer;

	run->cta_count = run->request->form.cta_group;
	run->ctas[0] = cta;
	if (run->cta_count == 1)
		return true;
	peer = emu_peer(cta);
	if (!peer)
		return emu_mma_fail(run, "cta-pair",
				    "cta_group::2 needs a cluster of an even number of "
				    "CTAs");
	if (peer->exited)
		return emu_mma_fail(run, "cta-pair", "the peer CTA has exited");
	run->ctas[cta->rank & 1] = cta;
	run->ctas[~cta->rank & 1] = peer;
	return true;
}

bool emu_mma_run(const struct emu_mma_request *request)
{
	struct emu_mma_run run = {.request = request};
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
		return emu_mma_fail(&run, "instruction-descriptor",
				    ".ashift needs M = 128, or 256 in a pair");
	if (!emu_mma_load_b(&run) || !emu_mma_load_a(&run))
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

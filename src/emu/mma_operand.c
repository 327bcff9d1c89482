/* Operands of tcgen05.mma: shared or tensor memory to panels of numbers (3, 4, 6.4). */
#include "mma_run.h"
#include "warp_mma.h"

#include <stdlib.h>

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

/* ---- operands ------------------------------------------------------------------------ */

static enum emu_packing packing_in_smem(const struct emu_mma_run *run)
{
	return run->request->form.kind >= EMU_KIND_MXF4 ? EMU_PACK_DENSE : EMU_PACK_UNITS;
}

static int stored_k(const struct emu_mma_run *run, bool is_a)
{
	return is_a && run->request->form.sparse ? run->idesc.k / 2 : run->idesc.k;
}

static bool check_major(const struct emu_mma_run *run, const char *which, bool transposed,
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

/* The absolute leading address tells where rows of 48 bytes go on (3.6). */
static bool check_leading(const struct emu_mma_run *run, const char *which,
			  const struct emu_smem_descriptor *descriptor)
{
	static const int k_of_48_bytes = 96;

	if (!descriptor->absolute || run->idesc.k == k_of_48_bytes)
		return true;
	emu_fault_at(&run->request->where, "smem-descriptor",
		     "tcgen05.mma, operand %s: the absolute leading address (bit 52) belongs to "
		     "K = 96 on sm_103a; here K is %d",
		     which, run->idesc.k);
	return false;
}

/* Rows [0, rows) of the CTA's part to raw, K innermost. */
static bool gather(const struct emu_mma_run *run, bool is_a, int cta, int rows, uint8_t *raw)
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
	run->request->cta->worker->counters.shared_read += (uint64_t)(rows * bytes);
	return check_major(run, is_a ? "A" : "B", transposed, &descriptor) &&
	       check_leading(run, is_a ? "A" : "B", &descriptor);
}

static void convert(const struct emu_mma_run *run, bool is_a, enum emu_packing packing,
		    const uint8_t *raw, int count, float *out)
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

bool emu_mma_load_b(const struct emu_mma_run *run)
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

static bool load_a_smem(const struct emu_mma_run *run)
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
static bool load_a_tmem(const struct emu_mma_run *run)
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
		run->ctas[c]->worker->counters.tmem_read +=
			(uint64_t)(EMU_TMEM_LANES * columns) * 4;
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
static uint32_t metadata_nibble(const struct emu_mma_run *run, const emu_tmem_column *cells,
				int lane, int k)
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

/* The row of a lane with its zeros. */
static bool expand_row(const struct emu_mma_run *run, const emu_tmem_column *cells, int lane,
		       const float *stored, float *row)
{
	enum emu_kind kind = run->request->form.kind;
	int span = kind == EMU_KIND_TF32 ? 2 : kind >= EMU_KIND_MXF4 ? 8 : 4;
	uint8_t nibbles[EMU_MMA_K / 4];

	for (int k = 0; k < run->idesc.k; k += span)
		nibbles[k / span] = (uint8_t)metadata_nibble(run, cells, lane, k);
	return emu_sparse_row(span, nibbles, run->idesc.k, stored, row);
}

int emu_mma_a_row(const struct emu_mma_run *run, const struct emu_mma_tile *tile)
{
	return run->request->form.a_in_tmem ? tile->cta * EMU_TMEM_LANES + tile->lane : tile->row;
}

static bool expand(const struct emu_mma_run *run)
{
	int k = run->idesc.k, tiles = run->idesc.m / EMU_GEMM_ROWS;
	float row[EMU_MMA_K];

	for (int c = 0; c < run->cta_count; c++)
		if (!emu_tmem_check(run->ctas[c], &run->request->where,
				    (run->request->metadata & 0xffff) +
					    (uint32_t)run->idesc.selector,
				    run->request->form.kind <= EMU_KIND_TF32 ? 1 : 2,
				    "tcgen05.mma (sparsity metadata)"))
			return false;
	for (int part = 0; part < emu_mma_parts(run); part++)
		for (int i = 0; i < tiles; i++) {
			struct emu_mma_tile tile = emu_mma_tile_at(run, i, part);
			int first = emu_mma_a_row(run, &tile);
			const emu_tmem_column *cells =
				(const emu_tmem_column *)emu_tmem_of(run->ctas[tile.cta])->columns;

			if (part && !run->request->form.a_in_tmem)
				break;
			for (int r = 0; r < EMU_GEMM_ROWS; r++) {
				if (!expand_row(run, cells, tile.lane + r,
						run->scratch->rows + (first + r) * k / 2, row))
					return emu_mma_fail(
						run, "sparsity-metadata",
						"a metadata nibble selects no two different "
						"elements; legal are 4, 8, 12, 9, 13, 14, 6 "
						"(tf32: 4 and 14)");
				for (int j = 0; j < k; j++)
					run->scratch->a[j * EMU_MMA_ROWS + first + r] = row[j];
			}
		}
	return true;
}

bool emu_mma_load_a(const struct emu_mma_run *run)
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

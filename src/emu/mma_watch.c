/* What a tcgen05.mma will read and write, entered at issue. */
#include "timeline.h"
#include "mma_run.h"

static void watch_shared(const struct emu_mma_run *run, struct emu_access access, bool is_a)
{
	const struct emu_mma_request *r = run->request;
	enum emu_element element = is_a ? run->idesc.a : run->idesc.b;
	int rows = (is_a ? run->idesc.m : run->idesc.n) / run->cta_count;
	int k = is_a && r->form.sparse ? run->idesc.k / 2 : run->idesc.k;
	int bytes = emu_packed_bytes(
		element, r->form.kind >= EMU_KIND_MXF4 ? EMU_PACK_DENSE : EMU_PACK_UNITS, k);
	int element_bytes = emu_element_bits(element) < 8 ? 1 : emu_element_bits(element) / 8;
	struct emu_smem_descriptor descriptor;
	struct emu_error error;

	if (!emu_descriptor_tcgen05(is_a ? r->a_descriptor : r->b_descriptor, true, &descriptor,
				    &error))
		return;
	for (int c = 0; c < run->cta_count; c++) {
		struct emu_watched w = {access, run->ctas[c], (uint8_t)(1 + descriptor.swizzle)};

		emu_watch_operand(&w, &descriptor,
				  is_a ? run->idesc.transpose_a : run->idesc.transpose_b,
				  element_bytes, rows, bytes);
	}
}

/* Columns that all rows of an operand lie in, lanes as those of D. */
static void watch_lanes_of_d(const struct emu_mma_run *run, struct emu_access *access,
			     uint32_t column, uint32_t columns)
{
	for (int part = 0; part < emu_mma_parts(run); part++)
		for (int i = 0; i < run->idesc.m / EMU_GEMM_ROWS; i++) {
			struct emu_mma_tile tile = emu_mma_tile_at(run, i, part);

			emu_access_tmem_lanes(access, run->ctas[tile.cta], column, columns,
					      (uint32_t)tile.lane, EMU_GEMM_ROWS);
		}
}

/* Columns of an operand; its lanes are D's, or all. */
static void watch_overlap(const struct emu_mma_run *run, const struct emu_access *access,
			  const char *operand, uint32_t column, uint32_t columns)
{
	struct emu_where where = emu_here(access->order->warp, -1);

	for (int part = 0; part < emu_mma_parts(run); part++) {
		struct emu_mma_tile d = emu_mma_tile_at(run, 0, part);

		if (column < d.column + (uint32_t)d.n_count && d.column < column + columns) {
			emu_report_rule(&where, EMU_RULE_MMA_OVERLAP, NULL,
					"%s in columns %u to %u of tensor memory, D in %u to %u",
					operand, column, column + columns - 1, d.column,
					d.column + (uint32_t)d.n_count - 1);
			return;
		}
	}
}

static void watch_a_in_tmem(const struct emu_mma_run *run, struct emu_access *access)
{
	const struct emu_mma_request *r = run->request;
	int k = r->form.sparse ? run->idesc.k / 2 : run->idesc.k;
	int bytes = emu_packed_bytes(
		run->idesc.a, r->form.kind >= EMU_KIND_MXF4 ? EMU_PACK_DENSE : EMU_PACK_CONTAINERS,
		k);

	watch_lanes_of_d(run, access, r->a_address & 0xffff, (uint32_t)bytes / 4);
	watch_overlap(run, access, "A lies", r->a_address & 0xffff, (uint32_t)bytes / 4);
}

/*
 * Factors of 32 rows lie in a column; the four windows of 32 lanes hold copies, or, where D has its
 * columns in two parts one above the other, each half of the lanes the factors of its part.
 */
static void watch_scales(const struct emu_mma_run *run, struct emu_access *access, bool is_a)
{
	const struct emu_mma_request *r = run->request;
	uint32_t column = (is_a ? r->scale_a : r->scale_b) & 0x1ff;
	int rows = is_a ? run->idesc.m / run->cta_count : run->idesc.n / emu_mma_parts(run);

	watch_overlap(run, access, is_a ? "scales of A lie" : "scales of B lie", column,
		      (uint32_t)(rows + 31) / 32);
	for (int c = 0; c < run->cta_count; c++)
		emu_access_tmem_lanes(access, run->ctas[c], column, (uint32_t)(rows + 31) / 32, 0,
				      EMU_TMEM_LANES);
}

/* 16- and 32-bit kinds read one column in all lanes of A's windows, the others two like A's. */
static void watch_metadata(const struct emu_mma_run *run, struct emu_access *access)
{
	uint32_t columns = run->request->form.kind <= EMU_KIND_TF32 ? 1 : 2;
	uint32_t column = (run->request->metadata & 0xffff) + (uint32_t)run->idesc.selector;

	watch_lanes_of_d(run, access, column, columns);
	watch_overlap(run, access, "metadata lies", column, columns);
}

static void watch_d(const struct emu_mma_run *run, struct emu_access *access)
{
	for (int part = 0; part < emu_mma_parts(run); part++)
		for (int i = 0; i < run->idesc.m / EMU_GEMM_ROWS; i++) {
			struct emu_mma_tile tile = emu_mma_tile_at(run, i, part);

			emu_access_tmem_lanes(access, run->ctas[tile.cta], tile.column,
					      (uint32_t)tile.n_count, (uint32_t)tile.lane,
					      EMU_GEMM_ROWS);
		}
}

static bool prepare(struct emu_mma_run *run)
{
	const struct emu_mma_request *r = run->request;
	struct emu_cta *peer = emu_peer(r->cta);
	struct emu_error error;

	if (!emu_idesc_decode(&r->form, r->idesc, &run->idesc, &error))
		return false;
	run->cta_count = r->form.cta_group;
	run->d_lane = r->d >> 16;
	run->d_column = r->d & 0xffff;
	run->ctas[0] = r->cta;
	if (run->cta_count == 1)
		return true;
	if (!peer || peer->exited)
		return false;
	run->ctas[r->cta->rank & 1] = r->cta;
	run->ctas[~r->cta->rank & 1] = peer;
	return true;
}

/* The wider operand decides how fast; mixed narrow ones go as those of 8 bits. */
static int wider_bits(const struct emu_mma_run *run)
{
	int a = emu_element_bits(run->idesc.a), b = emu_element_bits(run->idesc.b);
	int bits = a > b ? a : b;

	return run->request->form.kind < EMU_KIND_MXF4 && bits < 8 ? 8 : bits;
}

void emu_mma_watch(const struct emu_mma_request *request, struct emu_order *order, int lane)
{
	struct emu_mma_run run = {.request = request};
	struct emu_moment moment = emu_moment_of(order, EMU_ACTOR_MMA, lane);
	struct emu_access read, write;

	if (!prepare(&run))
		return;
	read = emu_access_by(order, EMU_ACTOR_MMA, lane, moment, EMU_READ);
	write = emu_access_by(order, EMU_ACTOR_MMA, lane, moment, EMU_WRITE);
	if (request->form.a_in_tmem)
		watch_a_in_tmem(&run, &read);
	else
		watch_shared(&run, read, true);
	watch_shared(&run, read, false);
	if (request->form.scale_vector) {
		watch_scales(&run, &read, true);
		watch_scales(&run, &read, false);
	}
	if (request->form.sparse)
		watch_metadata(&run, &read);
	write.defined = request->accumulate;
	watch_d(&run, &write);
	emu_mma_issued(order, lane);
	for (int i = 0; emu_timeline_on(order) && i < run.cta_count; i++)
		emu_timeline_mma(order, run.ctas[i], run.idesc.m, run.cta_count, run.idesc.n,
				 run.idesc.k, wider_bits(&run));
}

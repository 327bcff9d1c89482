/* The bytes of a tensor copy: rows of its box, between global memory and shared windows (8.2). */
#include "hazard.h"
#include "tma.h"

enum {
	max_row = 256 * 32 /* slices of channels */
};

static uint64_t in_rank(uint64_t address, uint32_t rank)
{
	return (address & EMU_SHARED_MASK) | (uint64_t)rank << EMU_SHARED_RANK;
}

uint32_t emu_tma_footprint(const struct tma_op *op)
{
	return op->form->rows ? 3 * op->box.row_pitch + op->box.row_shared : op->box.footprint;
}

static uint32_t transaction(const struct tma_op *op)
{
	return op->form->rows ? 4 * op->box.row_global : op->box.transaction;
}

/*
 * Moves one row between `row` and the swizzled places of a window.  The swizzle
 * of a base that is not aligned to its atom can leave the box, hence the check.
 */
static bool swizzled(struct transfer *t, struct emu_cta *cta, uint32_t offset, uint8_t *row,
		     bool write)
{
	int swizzle = t->op->map.swizzle;
	uint32_t size = t->op->box.row_shared, run = swizzle ? emu_box_swizzle_run(swizzle) : size;

	for (uint32_t i = 0; i < size; i += run) {
		uint32_t bytes = size - i < run ? size - i : run;
		uint32_t place = emu_box_swizzle(swizzle, t->address + offset + i);

		if (place < EMU_SHARED_BASE ||
		    place - EMU_SHARED_BASE + bytes > cta->shared_bytes) {
			emu_fault_at(
				&t->op->op.where, "out-of-bounds",
				"the swizzle of the tensor map moves bytes of the box to shared "
				"address 0x%x, outside the CTA's 0x%x..0x%x: the base 0x%x is "
				"not aligned to the swizzle's atom",
				place, EMU_SHARED_BASE, EMU_SHARED_BASE + cta->shared_bytes - 1,
				t->address);
			return false;
		}
		place -= EMU_SHARED_BASE;
		if (write)
			memcpy(cta->shared + place, row + i, bytes);
		else
			memcpy(row + i, cta->shared + place, bytes);
	}
	return true;
}

uint32_t emu_tma_bytes(const struct tma_op *op, uint32_t elements)
{
	return elements * op->box.unit_bits / 8;
}

/* Bytes from the first element of a row to behind its last. */
static uint32_t span_of(const struct tma_op *op, const struct emu_box_row *row)
{
	return row->inside ? emu_tma_bytes(op, (row->inside - 1) * row->step + 1) : 0;
}

static uint8_t *global_row(struct tma_op *op, const struct emu_box_row *row,
			   enum emu_access_kind kind)
{
	return emu_mem_global(op->op.cluster->grid, &op->op.where, row->address, span_of(op, row),
			      1, kind);
}

static void gather(const struct tma_op *op, const struct emu_box_row *row, uint8_t *to,
		   const uint8_t *from)
{
	uint32_t element = emu_tma_bytes(op, 1);

	if (row->step == 1)
		memcpy(to, from, emu_tma_bytes(op, row->inside));
	for (uint32_t i = 0; row->step != 1 && i < row->inside; i++)
		memcpy(to + i * element, from + i * row->step * element, element);
}

static bool load_row(void *context, const struct emu_box_row *row)
{
	struct transfer *t = context;
	struct tma_op *op = t->op;
	uint8_t packed[max_row], shared[max_row];
	uint32_t first = emu_tma_bytes(op, row->first), inside = emu_tma_bytes(op, row->inside);
	const uint8_t *from;

	if (inside < op->box.row_global)
		emu_box_fill(&op->map, packed, op->box.row_global);
	if (inside) {
		from = global_row(op, row, EMU_READ);
		if (!from)
			return false;
		gather(op, row, packed + first, from);
		emu_box_convert(op->map.type, packed + first, inside);
	}
	emu_box_unpack_row(&op->map, &op->box, packed, shared);
	for (int i = 0; i < t->count; i++)
		if (!swizzled(t, t->cta[i], row->offset, shared, true))
			return false;
	return true;
}

static enum emu_type element_type(int type)
{
	static const enum emu_type types[] = {
		[EMU_TM_U8] = EMU_T_U8,        [EMU_TM_U16] = EMU_T_U16,
		[EMU_TM_U32] = EMU_T_U32,      [EMU_TM_S32] = EMU_T_S32,
		[EMU_TM_U64] = EMU_T_U64,      [EMU_TM_S64] = EMU_T_S64,
		[EMU_TM_F16] = EMU_T_F16,      [EMU_TM_F32] = EMU_T_F32,
		[EMU_TM_F64] = EMU_T_F64,      [EMU_TM_BF16] = EMU_T_BF16,
		[EMU_TM_F32_FTZ] = EMU_T_F32,  [EMU_TM_TF32] = EMU_T_F32,
		[EMU_TM_TF32_FTZ] = EMU_T_F32,
	};

	return type < (int)(sizeof types / sizeof *types) ? types[type] : EMU_T_NONE;
}

/* Bitwise operations go by width: a tensor map has no .b32. */
enum emu_type emu_tma_reduction_type(const struct tma_op *op)
{
	enum emu_type type = element_type(op->map.type);

	if (op->form->reduction < EMU_REDUCE_AND)
		return type;
	return emu_tensormap_element_bits(op->map.type) == 64 ? EMU_T_B64 : EMU_T_B32;
}

/* Stores or reduces one run of elements that lie side by side. */
static void put(const struct tma_op *op, uint8_t *to, const uint8_t *from, uint32_t size)
{
	if (op->form->direction == TMA_REDUCE && op->map.type == EMU_TM_F32_FTZ)
		emu_reduce_flushed(to, from, size);
	else if (op->form->direction == TMA_REDUCE)
		emu_reduce(op->form->reduction, emu_tma_reduction_type(op), to, from, size);
	else
		memcpy(to, from, size);
}

static bool store_row(void *context, const struct emu_box_row *row)
{
	struct transfer *t = context;
	struct tma_op *op = t->op;
	uint8_t packed[max_row], shared[max_row];
	uint32_t first = emu_tma_bytes(op, row->first), inside = emu_tma_bytes(op, row->inside);
	uint8_t *to;

	if (!inside)
		return true;
	if (!swizzled(t, t->cta[0], row->offset, shared, false))
		return false;
	emu_box_pack_row(&op->map, &op->box, shared, packed);
	to = global_row(op, row, op->form->direction == TMA_REDUCE ? EMU_UPDATE : EMU_WRITE);
	if (!to)
		return false;
	if (row->step == 1)
		put(op, to, packed + first, inside);
	for (uint32_t i = 0; row->step != 1 && i < row->inside; i++)
		put(op, to + emu_tma_bytes(op, i * row->step),
		    packed + first + emu_tma_bytes(op, i), emu_tma_bytes(op, 1));
	return true;
}

bool emu_tma_walk(const struct tma_op *op, emu_box_visitor *visit, void *context)
{
	if (op->form->rows)
		return emu_box_walk_rows(&op->map, op->coordinates, visit, context);
	if (op->form->mode != EMU_TM_TILED)
		return emu_box_walk_pixels(&op->map, &op->pixels, visit, context);
	return emu_box_walk(&op->map, op->coordinates, visit, context);
}

static bool walk(struct transfer *t, emu_box_visitor *visit)
{
	return emu_tma_walk(t->op, visit, t);
}

bool emu_tma_add_target(struct transfer *t, uint64_t address)
{
	const uint32_t alignment = 128;

	return emu_mem_shared(t->op->warp->cta, &t->op->op.where, address, emu_tma_footprint(t->op),
			      alignment, t->op->form->direction == TMA_LOAD ? EMU_WRITE : EMU_READ,
			      &t->cta[t->count++]);
}

uint64_t emu_tma_barrier(const struct tma_op *op, uint32_t rank)
{
	uint32_t own = (uint32_t)(op->barrier >> EMU_SHARED_RANK);

	if (op->form->pair)
		return in_rank(op->barrier, (rank & ~1u) | (own & 1));
	return in_rank(op->barrier, rank);
}

static bool signal(struct transfer *t)
{
	struct tma_op *op = t->op;

	for (int i = 0; i < t->count; i++) {
		struct emu_mbarrier *barrier = emu_mbarrier_at(
			op->warp->cta, &op->op.where, emu_tma_barrier(op, t->cta[i]->rank));
		if (barrier && op->op.cluster->hazards)
			emu_order_landed(&op->op.where, barrier, op->phase[t->cta[i]->rank]);
		if (!barrier || !emu_mbarrier_complete_tx(barrier, &op->op.where, transaction(op)))
			return false;
	}
	return true;
}

bool emu_tma_targets(struct transfer *t)
{
	struct tma_op *op = t->op;
	uint32_t ranks = op->form->multicast ? op->mask : 1u << (op->shared >> EMU_SHARED_RANK);

	for (uint32_t rank = 0; rank < EMU_MAX_CLUSTER; rank++)
		if ((ranks >> rank & 1) && !emu_tma_add_target(t, in_rank(op->shared, rank)))
			return false;
	return true;
}

void emu_tma_complete_load(struct emu_engine_op *base)
{
	struct tma_op *op = (struct tma_op *)base;
	struct transfer t = {.op = op, .address = (uint32_t)(op->shared & EMU_SHARED_MASK)};

	if (!emu_tma_targets(&t) || !walk(&t, load_row))
		return;
	op->op.cluster->worker->counters.tma_bytes += transaction(op);
	emu_changed(op->op.cluster->worker);
	signal(&t);
}

void emu_tma_complete_store(struct emu_engine_op *base)
{
	struct tma_op *op = (struct tma_op *)base;
	struct transfer t = {.op = op, .address = (uint32_t)(op->shared & EMU_SHARED_MASK)};

	if (emu_tma_add_target(&t, op->shared) && walk(&t, store_row))
		op->op.cluster->worker->counters.tma_bytes += transaction(op);
	emu_changed(op->op.cluster->worker);
	emu_async_of_cta(op->warp->cta)->open_reads--;
	emu_bulk_done(op->warp, op->group);
}

static bool poison_row(void *context, const struct emu_box_row *row)
{
	struct transfer *t = context;
	uint8_t nobody[max_row];

	memset(nobody, 0xff, t->op->box.row_shared);
	for (int i = 0; i < t->count; i++)
		if (!swizzled(t, t->cta[i], row->offset, nobody, true))
			return false;
	return true;
}

bool emu_tma_poison(struct tma_op *op)
{
	struct transfer t = {.op = op, .address = (uint32_t)(op->shared & EMU_SHARED_MASK)};

	if (!emu_tma_targets(&t))
		return false;
	/* A swizzle moves bytes within units of 1024. */
	if (t.address % 1024 || emu_tma_footprint(op) % 1024 ||
	    op->box.row_pitch != op->box.row_shared)
		return walk(&t, poison_row);
	for (int i = 0; i < t.count; i++)
		memset(t.cta[i]->shared + t.address - EMU_SHARED_BASE, 0xff, emu_tma_footprint(op));
	return true;
}

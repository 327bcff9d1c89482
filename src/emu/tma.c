/* Tensor copies: cp.async.bulk.tensor and cp.reduce.async.bulk.tensor (8.2, 8.3). */
#include "tma.h"
#include "coverage.h"
#include "timeline.h"

#include <stdlib.h>

struct tma_op {
	struct emu_engine_op op;
	const struct tma_form *form;
	struct emu_warp *warp;
	struct emu_bulk_group *group;
	struct emu_tensormap map;
	uint64_t map_at; /* generic address */
	struct emu_box box;
	int32_t coordinates[EMU_MAX_RANK];
	struct emu_pixels pixels;        /* of im2col */
	uint64_t shared, barrier;        /* 32-bit shared addresses */
	uint64_t phase[EMU_MAX_CLUSTER]; /* of the mbarrier in each target, at issue */
	uint16_t mask;
};

enum {
	max_row = 256 * 32, /* slices of channels */
	max_targets = EMU_MAX_CLUSTER
};

/* The windows a box is written to or read from. */
struct transfer {
	struct tma_op *op;
	int count;
	struct emu_cta *cta[max_targets];
	uint32_t address; /* offset in the window, as an address */
};

static uint64_t in_rank(uint64_t address, uint32_t rank)
{
	return (address & EMU_SHARED_MASK) | (uint64_t)rank << EMU_SHARED_RANK;
}

static uint32_t footprint(const struct tma_op *op)
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

static uint32_t bytes_of(const struct tma_op *op, uint32_t elements)
{
	return elements * op->box.unit_bits / 8;
}

/* Bytes from the first element of a row to behind its last. */
static uint32_t span_of(const struct tma_op *op, const struct emu_box_row *row)
{
	return row->inside ? bytes_of(op, (row->inside - 1) * row->step + 1) : 0;
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
	uint32_t element = bytes_of(op, 1);

	if (row->step == 1)
		memcpy(to, from, bytes_of(op, row->inside));
	for (uint32_t i = 0; row->step != 1 && i < row->inside; i++)
		memcpy(to + i * element, from + i * row->step * element, element);
}

static bool load_row(void *context, const struct emu_box_row *row)
{
	struct transfer *t = context;
	struct tma_op *op = t->op;
	uint8_t packed[max_row], shared[max_row];
	uint32_t first = bytes_of(op, row->first), inside = bytes_of(op, row->inside);
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
static enum emu_type reduction_type(const struct tma_op *op)
{
	enum emu_type type = element_type(op->map.type);

	if (op->form->reduction < EMU_REDUCE_AND)
		return type;
	return emu_tensormap_element_bits(op->map.type) == 64 ? EMU_T_B64 : EMU_T_B32;
}

/* Stores or reduces one run of elements that lie side by side. */
static void put(const struct tma_op *op, uint8_t *to, const uint8_t *from, uint32_t size)
{
	if (op->form->direction == TMA_REDUCE)
		emu_reduce(op->form->reduction, reduction_type(op), to, from, size);
	else
		memcpy(to, from, size);
}

static bool store_row(void *context, const struct emu_box_row *row)
{
	struct transfer *t = context;
	struct tma_op *op = t->op;
	uint8_t packed[max_row], shared[max_row];
	uint32_t first = bytes_of(op, row->first), inside = bytes_of(op, row->inside);
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
		put(op, to + bytes_of(op, i * row->step), packed + first + bytes_of(op, i),
		    bytes_of(op, 1));
	return true;
}

static bool walk_box(const struct tma_op *op, emu_box_visitor *visit, void *context)
{
	if (op->form->rows)
		return emu_box_walk_rows(&op->map, op->coordinates, visit, context);
	if (op->form->mode != EMU_TM_TILED)
		return emu_box_walk_pixels(&op->map, &op->pixels, visit, context);
	return emu_box_walk(&op->map, op->coordinates, visit, context);
}

static bool walk(struct transfer *t, emu_box_visitor *visit)
{
	return walk_box(t->op, visit, t);
}

/* Adds the CTA that the box goes to or comes from; false after a fault. */
static bool add_target(struct transfer *t, uint64_t address)
{
	uint32_t alignment = t->op->map.swizzle ? 128 : 16;

	return emu_mem_shared(t->op->warp->cta, &t->op->op.where, address, footprint(t->op),
			      alignment, t->op->form->direction == TMA_LOAD ? EMU_WRITE : EMU_READ,
			      &t->cta[t->count++]);
}

/* Where the bytes for data in `rank` are counted. */
static uint64_t barrier_of(const struct tma_op *op, uint32_t rank)
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
		struct emu_mbarrier *barrier = emu_mbarrier_at(op->warp->cta, &op->op.where,
							       barrier_of(op, t->cta[i]->rank));
		if (barrier && op->op.cluster->hazards)
			emu_order_landed(&op->op.where, barrier, op->phase[t->cta[i]->rank]);
		if (!barrier || !emu_mbarrier_complete_tx(barrier, &op->op.where, transaction(op)))
			return false;
	}
	return true;
}

static bool targets(struct transfer *t)
{
	struct tma_op *op = t->op;
	uint32_t ranks = op->form->multicast ? op->mask : 1u << (op->shared >> EMU_SHARED_RANK);

	for (uint32_t rank = 0; rank < EMU_MAX_CLUSTER; rank++)
		if ((ranks >> rank & 1) && !add_target(t, in_rank(op->shared, rank)))
			return false;
	return true;
}

static void complete_load(struct emu_engine_op *base)
{
	struct tma_op *op = (struct tma_op *)base;
	struct transfer t = {.op = op, .address = (uint32_t)(op->shared & EMU_SHARED_MASK)};

	if (!targets(&t) || !walk(&t, load_row))
		return;
	op->op.cluster->worker->counters.tma_bytes += transaction(op);
	emu_changed(op->op.cluster->worker);
	signal(&t);
}

static void complete_store(struct emu_engine_op *base)
{
	struct tma_op *op = (struct tma_op *)base;
	struct transfer t = {.op = op, .address = (uint32_t)(op->shared & EMU_SHARED_MASK)};

	if (add_target(&t, op->shared) && walk(&t, store_row))
		op->op.cluster->worker->counters.tma_bytes += transaction(op);
	emu_changed(op->op.cluster->worker);
	emu_async_of_cta(op->warp->cta)->open_reads--;
	emu_bulk_done(op->warp, op->group);
}

/* ---- issue ------------------------------------------------------------------------- */

static const char *const mode_names[] = {"tile", "im2col", "im2col::w", "im2col::w::128"};

/* The im2col offsets, or the halo and the offset along the width. */
static bool read_offsets(struct emu_warp *warp, const struct emu_ins *ins, int lane,
			 struct tma_op *op)
{
	static const int bits[] = {16, 8, 5};
	const struct tma_form *form = op->form;
	int count = form->mode == EMU_TM_IM2COL ? form->rank - 2 : 2;
	int limit = form->mode == EMU_TM_IM2COL ? bits[form->rank - 3] : 16;

	op->pixels.coordinates = op->coordinates;
	for (int i = 0; form->offsets >= 0 && i < count; i++) {
		op->pixels.offsets[i] =
			(uint16_t)emu_value(warp, emu_item(&ins->operands[form->offsets], i), lane);
		if (op->pixels.offsets[i] >> limit) {
			emu_fault(warp, lane, "tensormap",
				  "im2col offset %d is %u; for rank %d it has %d bits", i,
				  op->pixels.offsets[i], form->rank, limit);
			return false;
		}
	}
	emu_box_shape_pixels(&op->map, &op->pixels, &op->box);
	return true;
}

/* What makes the hardware trap: a box that begins inside 16 bytes of its row, a store from before
 * the tensor. */
static bool check_start(struct emu_warp *warp, int lane, const struct tma_op *op)
{
	int64_t bits = (int64_t)op->coordinates[0] * emu_tensormap_element_bits(op->map.type);
	bool stores = op->form->direction == TMA_STORE || op->form->direction == TMA_REDUCE;

	if (op->map.mode != EMU_TM_TILED || op->map.interleave)
		return true;
	if (op->map.type < EMU_TM_16U4_ALIGN8B && bits % 128) {
		emu_fault(warp, lane, "tensormap",
			  "coordinate 0 is %d, byte %lld of a row; a box begins at a multiple of "
			  "16 bytes",
			  op->coordinates[0], (long long)bits / 8);
		return false;
	}
	for (int i = 0; stores && i < op->map.rank; i++)
		if (!op->form->rows && op->coordinates[i] < 0) {
			emu_fault(warp, lane, "tensormap",
				  "coordinate %d is %d; what is stored cannot begin before the "
				  "tensor",
				  i, op->coordinates[i]);
			return false;
		}
	return true;
}

static bool read_map(struct emu_warp *warp, const struct emu_ins *ins, int lane, int index,
		     struct tma_op *op)
{
	const struct emu_operand *operand = &ins->operands[index];
	const struct tma_form *form = op->form;
	const uint8_t *bytes = emu_mem(warp, lane, EMU_GENERIC, emu_address(warp, operand, lane),
				       128, 64, EMU_READ);
	struct emu_error error;
	int coordinates = form->rows ? 5 : form->rank, unit;

	if (!bytes)
		return false;
	if (!emu_tensormap_unpack(bytes, &op->map, &error) ||
	    !emu_tensormap_check(&op->map, &error)) {
		emu_fault(warp, lane, "tensormap", "%s", error.text);
		return false;
	}
	if (op->map.rank != form->rank) {
		emu_fault(warp, lane, "tensormap",
			  "the instruction is .%dd, the tensor map has rank %d", form->rank,
			  op->map.rank);
		return false;
	}
	if ((int)op->map.mode != (int)form->mode) {
		emu_fault(warp, lane, "tensormap", "the instruction is .%s, the tensor map .%s",
			  mode_names[form->mode], mode_names[op->map.mode]);
		return false;
	}
	if (form->rows && op->map.box[1] != 1) {
		emu_fault(warp, lane, "tensormap",
			  "gather4 and scatter4 need a box of 1 row, the tensor map has %u",
			  op->map.box[1]);
		return false;
	}
	op->map_at = emu_address(warp, operand, lane);
	if (warp->order)
		emu_watch_map(warp, lane, op->map_at);
	if (form->mode == EMU_TM_TILED)
		emu_box_shape(&op->map, &op->box);
	else if (!read_offsets(warp, ins, lane, op))
		return false;
	unit = op->map.type == EMU_TM_16U4_ALIGN8B  ? 2
	       : op->map.type > EMU_TM_16U4_ALIGN8B ? 128
						    : 1;
	for (int i = 0; i < coordinates; i++)
		op->coordinates[i] =
			(int32_t)emu_value(warp, emu_item(&operand->items[1], i), lane);
	if (op->coordinates[0] % unit) {
		emu_fault(warp, lane, "tensormap",
			  "coordinate 0 is %d; for %s it must be a multiple of %d",
			  op->coordinates[0], emu_tensormap_type_name(op->map.type), unit);
		return false;
	}
	return check_start(warp, lane, op);
}

static bool check_types(struct emu_warp *warp, int lane, const struct tma_op *op)
{
	if (op->form->direction == TMA_LOAD)
		return true;
	if (op->map.type == EMU_TM_16U4_ALIGN16B) {
		emu_fault(warp, lane, "tensormap",
			  "a tensor map of type 16U4_ALIGN16B can only be "
			  "loaded");
		return false;
	}
	if (op->form->direction == TMA_REDUCE &&
	    !emu_reduction_legal(op->form->reduction, reduction_type(op))) {
		emu_fault(warp, lane, "tensormap", "the reduction .%s does not exist for %s",
			  emu_reduction_names[op->form->reduction],
			  emu_tensormap_type_name(op->map.type));
		return false;
	}
	return true;
}

static bool check_ranks(struct emu_warp *warp, int lane, const struct tma_op *op)
{
	uint32_t data = (uint32_t)(op->shared >> EMU_SHARED_RANK);
	uint32_t barrier = (uint32_t)(op->barrier >> EMU_SHARED_RANK);
	int ctas = warp->cta->cluster->cta_count;

	if (op->form->multicast && (op->mask == 0 || op->mask >> ctas)) {
		emu_fault(warp, lane, "multicast-mask",
			  "multicast mask 0x%x; the cluster has %d CTAs, bit i names rank i",
			  op->mask, ctas);
		return false;
	}
	if (!op->form->multicast && (int)data >= ctas) {
		emu_fault(warp, lane, "out-of-bounds",
			  "shared address 0x%llx lies in CTA rank %u; the cluster has %d CTAs",
			  (unsigned long long)op->shared, data, ctas);
		return false;
	}
	if (!op->form->multicast && barrier != data && (!op->form->pair || (barrier ^ data) != 1)) {
		emu_fault(
			warp, lane, "mbarrier-rank",
			"the data go to CTA rank %u, the mbarrier lies in rank %u; it must lie in "
			"the same CTA%s",
			data, barrier, op->form->pair ? " or its peer" : "");
		return false;
	}
	return true;
}

static bool prepare_load(struct emu_warp *warp, const struct emu_ins *ins, int lane,
			 struct tma_op *op)
{
	const struct tma_form *form = op->form;

	op->shared = emu_address(warp, &ins->operands[0], lane);
	op->barrier = emu_address(warp, &ins->operands[2], lane);
	if (form->multicast)
		op->mask = (uint16_t)emu_value(warp, &ins->operands[form->mask], lane);
	return emu_shared_address(warp, lane, form->space, &op->shared) &&
	       emu_shared_address(warp, lane, form->space, &op->barrier) &&
	       read_map(warp, ins, lane, 1, op) && check_ranks(warp, lane, op);
}

static bool prepare_store(struct emu_warp *warp, const struct emu_ins *ins, int lane,
			  struct tma_op *op)
{
	op->shared = emu_address(warp, &ins->operands[1], lane);
	if (!emu_shared_address(warp, lane, op->form->space, &op->shared) ||
	    !read_map(warp, ins, lane, 0, op) || !check_types(warp, lane, op))
		return false;
	op->group = emu_bulk_current(warp, lane);
	if (!op->group)
		return false;
	op->group->open++;
	emu_async_of_cta(warp->cta)->open_reads++;
	return true;
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

/* What a load has yet to bring must not look like what was there before. */
static bool poison(struct tma_op *op)
{
	struct transfer t = {.op = op, .address = (uint32_t)(op->shared & EMU_SHARED_MASK)};

	if (!targets(&t))
		return false;
	/* A swizzle moves bytes within units of 1024. */
	if (t.address % 1024 || footprint(op) % 1024 || op->box.row_pitch != op->box.row_shared)
		return walk(&t, poison_row);
	for (int i = 0; i < t.count; i++)
		memset(t.cta[i]->shared + t.address - EMU_SHARED_BASE, 0xff, footprint(op));
	return true;
}

/* ---- order --------------------------------------------------------------------------- */

struct watched {
	struct tma_op *op;
	struct emu_access *access;
};

static bool watch_row(void *context, const struct emu_box_row *row)
{
	struct watched *w = context;

	if (row->step == 1 && row->inside)
		emu_access_global(w->access, row->address, bytes_of(w->op, row->inside));
	for (uint32_t i = 0; row->step != 1 && i < row->inside; i++)
		emu_access_global(w->access, row->address + bytes_of(w->op, i * row->step),
				  bytes_of(w->op, 1));
	return true;
}

static void watch_global(struct tma_op *op, struct emu_access *access)
{
	struct watched w = {op, access};

	walk_box(op, watch_row, &w);
}

/* The bytes of the box in each target belong to the phase of the mbarrier there. */
static bool watch_load(struct tma_op *op, int lane)
{
	struct transfer t = {.op = op, .address = (uint32_t)(op->shared & EMU_SHARED_MASK)};
	struct emu_order *order = op->warp->order;
	struct emu_access access;

	double end;

	if (!targets(&t))
		return false;
	if (op->form->mode == EMU_TM_TILED && !op->form->rows)
		emu_coverage_note(op->warp->worker, &op->op.where, op->map_at, &op->map,
				  op->coordinates);
	end = emu_timeline_on(order) ? emu_timeline_load(order, t.address, footprint(op)) : 0;
	for (int i = 0; i < t.count; i++) {
		const struct emu_mbarrier *barrier = emu_mbarrier_at(
			op->warp->cta, &op->op.where, barrier_of(op, t.cta[i]->rank));
		struct emu_moment moment;

		if (!barrier)
			return false;
		emu_order_barrier_used(order, barrier);
		op->phase[t.cta[i]->rank] = barrier->phase;
		moment = emu_moment_of_barrier(order, barrier);
		access = emu_access_by(order, EMU_ACTOR_BARRIER, lane, moment, EMU_WRITE);
		access.swizzle = (uint8_t)(1 + op->map.swizzle);
		emu_access_shared(&access, t.cta[i], t.address - EMU_SHARED_BASE, footprint(op));
		access = emu_access_by(order, EMU_ACTOR_BARRIER, lane, moment, EMU_READ);
		if (!i)
			watch_global(op, &access);
		emu_order_barrier_arrive(order, barrier, false);
		emu_timeline_lands(barrier, end);
	}
	return true;
}

static bool watch_store(struct tma_op *op, int lane)
{
	struct transfer t = {.op = op, .address = (uint32_t)(op->shared & EMU_SHARED_MASK)};
	struct emu_order *order = op->warp->order;
	bool reduce = op->form->direction == TMA_REDUCE;
	struct emu_access access =
		emu_access_by(order, EMU_ACTOR_BULK_READ, lane,
			      emu_moment_of(order, EMU_ACTOR_BULK_READ, lane), EMU_READ);

	if (!add_target(&t, op->shared))
		return false;
	emu_access_shared(&access, t.cta[0], t.address - EMU_SHARED_BASE, footprint(op));
	access = emu_access_by(order, EMU_ACTOR_BULK_WRITE, lane,
			       emu_moment_of(order, EMU_ACTOR_BULK_WRITE, lane),
			       reduce ? EMU_UPDATE : EMU_WRITE);
	watch_global(op, &access);
	if (emu_timeline_on(order))
		emu_timeline_bulk_ends(order, lane,
				       emu_timeline_store(order, t.address, footprint(op)));
	emu_bulk_issued(order, lane);
	return true;
}

enum emu_step emu_tma_execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct tma_form *form = ins->extra;
	bool load = form->direction == TMA_LOAD;

	EMU_FOR_LANES(lane, mask)
	{
		struct tma_op *op = emu_op_new(warp, (int)lane, sizeof *op,
					       load ? complete_load : complete_store);
		if (!op)
			return EMU_STOPPED;
		op->form = form;
		op->warp = warp;
		if (!(load ? prepare_load : prepare_store)(warp, ins, (int)lane, op) ||
		    (load && warp->grid->mode != EMU_FAST && !poison(op)) ||
		    (warp->order && !(load ? watch_load : watch_store)(op, (int)lane))) {
			op->op.discard(&op->op);
			return EMU_STOPPED;
		}
		emu_op_issue(warp, op);
	}
	return EMU_NEXT;
}

/* A prefetch changes nothing that can be observed, but its map must be one. */
enum emu_step emu_tma_prefetch(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(lane, mask)
	{
		struct tma_op op = {.form = ins->extra};
		if (!read_map(warp, ins, (int)lane, 0, &op))
			return EMU_STOPPED;
	}
	return EMU_NEXT;
}

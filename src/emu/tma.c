/* Tensor copies: cp.async.bulk.tensor and cp.reduce.async.bulk.tensor (8.2, 8.3). */
#include "tma.h"
#include "coverage.h"
#include "shadow.h"
#include "timeline.h"

#include <stdlib.h>

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

/* The first pixel lies in its box. */
static bool check_pixel(struct emu_warp *warp, int lane, const struct tma_op *op)
{
	const struct emu_tensormap *map = &op->map;

	for (int corner = 0; map->mode == EMU_TM_IM2COL && corner < map->rank - 2; corner++) {
		int i = emu_box_width(map) + corner;
		int64_t last = (int64_t)map->dims[i] - 1 + map->upper[corner];

		if (op->coordinates[i] >= map->lower[corner] && op->coordinates[i] <= last)
			continue;
		emu_fault(warp, lane, "tensormap",
			  "coordinate %d is %d, outside the box of pixels, which has %d..%lld", i,
			  op->coordinates[i], map->lower[corner], (long long)last);
		return false;
	}
	return true;
}

/* What makes the hardware trap: a box that begins inside 16 bytes of its row, a store from before
 * the tensor. */
static bool check_start(struct emu_warp *warp, int lane, const struct tma_op *op)
{
	int64_t bits = (int64_t)op->coordinates[0] * emu_tensormap_element_bits(op->map.type);
	bool stores = op->form->direction == TMA_STORE || op->form->direction == TMA_REDUCE;

	if (!op->map.interleave && op->map.type < EMU_TM_16U4_ALIGN8B && bits % 128) {
		emu_fault(warp, lane, "tensormap",
			  "coordinate 0 is %d, byte %lld of a row; a box begins at a multiple of "
			  "16 bytes",
			  op->coordinates[0], (long long)bits / 8);
		return false;
	}
	if (op->map.mode != EMU_TM_TILED)
		return check_pixel(warp, lane, op);
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
	    !emu_tensormap_check(&op->map, warp->worker->grid->module->sm, &error)) {
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
	    (!emu_reduction_legal(op->form->reduction, emu_tma_reduction_type(op)) ||
	     (op->form->reduction >= EMU_REDUCE_AND && op->map.type == EMU_TM_S64))) {
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

/* ---- order --------------------------------------------------------------------------- */

struct watched {
	struct tma_op *op;
	struct emu_global_access access;
};

static bool watch_row(void *context, const struct emu_box_row *row)
{
	struct watched *w = context;

	if (row->step == 1 && row->inside)
		emu_global_part(&w->access, row->address, emu_tma_bytes(w->op, row->inside));
	for (uint32_t i = 0; row->step != 1 && i < row->inside; i++)
		emu_global_part(&w->access, row->address + emu_tma_bytes(w->op, i * row->step),
				emu_tma_bytes(w->op, 1));
	return true;
}

static void watch_global(struct tma_op *op, struct emu_access *access)
{
	struct watched w = {.op = op};

	emu_global_begin(&w.access, access);
	emu_tma_walk(op, watch_row, &w);
}

/* The bytes of the box in each target belong to the phase of the mbarrier there. */
static bool watch_load(struct tma_op *op, int lane)
{
	struct transfer t = {.op = op, .address = (uint32_t)(op->shared & EMU_SHARED_MASK)};
	struct emu_order *order = op->warp->order;
	struct emu_access access;

	double end;

	if (!emu_tma_targets(&t))
		return false;
	if (op->form->mode == EMU_TM_TILED && !op->form->rows)
		emu_coverage_note(op->warp->worker, &op->op.where, op->map_at, &op->map,
				  op->coordinates);
	end = emu_timeline_on(order) ? emu_timeline_load(order, t.address, emu_tma_footprint(op))
				     : 0;
	for (int i = 0; i < t.count; i++) {
		const struct emu_mbarrier *barrier = emu_mbarrier_at(
			op->warp->cta, &op->op.where, emu_tma_barrier(op, t.cta[i]->rank));
		struct emu_moment moment;

		if (!barrier)
			return false;
		emu_order_barrier_used(order, barrier);
		op->phase[t.cta[i]->rank] = barrier->phase;
		moment = emu_moment_of_barrier(order, barrier);
		access = emu_access_by(order, EMU_ACTOR_BARRIER, lane, moment, EMU_WRITE);
		access.swizzle = (uint8_t)(1 + op->map.swizzle);
		emu_access_shared(&access, t.cta[i], t.address - EMU_SHARED_BASE,
				  emu_tma_footprint(op));
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

	if (!emu_tma_add_target(&t, op->shared))
		return false;
	emu_access_shared(&access, t.cta[0], t.address - EMU_SHARED_BASE, emu_tma_footprint(op));
	access = emu_access_by(order, EMU_ACTOR_BULK_WRITE, lane,
			       emu_moment_of(order, EMU_ACTOR_BULK_WRITE, lane),
			       reduce ? EMU_UPDATE : EMU_WRITE);
	watch_global(op, &access);
	if (emu_timeline_on(order))
		emu_timeline_bulk_ends(order, lane,
				       emu_timeline_store(order, t.address, emu_tma_footprint(op)));
	emu_bulk_issued(order, lane);
	return true;
}

enum emu_step emu_tma_execute(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct tma_form *form = ins->extra;
	bool load = form->direction == TMA_LOAD;

	if (warp->order && mask & (mask - 1))
		emu_watch_issue(warp, ins, mask);
	EMU_FOR_LANES(lane, mask)
	{
		struct tma_op *op =
			emu_op_new(warp, (int)lane, sizeof *op,
				   load ? emu_tma_complete_load : emu_tma_complete_store);
		if (!op)
			return EMU_STOPPED;
		op->form = form;
		op->warp = warp;
		if (!(load ? prepare_load : prepare_store)(warp, ins, (int)lane, op) ||
		    (load && warp->grid->mode != EMU_FAST && !emu_tma_poison(op)) ||
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

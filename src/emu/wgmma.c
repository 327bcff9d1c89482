/*
 * wgmma: the matrix multiplication of a warpgroup (7).
 *
 * Each warp queues what it issues; when all four warps of the group have issued
 * an instruction, it becomes one operation of the engine.  Registers of A are
 * read at issue, those of D when the operation runs.
 */
#include "timeline.h"
#include "wgmma.h"

#include "number.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	group_warps = 4,
	group_rows = 64,
	remembered_groups = 64
};

/* One warp's part of one instruction. */
struct entry {
	struct entry *next;
	struct emu_warp *warp;
	const struct emu_ins *ins;
	struct emu_frame *frame;
	uint32_t mask;
	bool accumulate;
	uint64_t a_descriptor, b_descriptor;
	uint32_t a[4][EMU_LANES];
	uint32_t metadata[EMU_LANES];
};

struct emu_wgmma_queue {
	struct entry *first, *last;       /* the other warps have not issued these yet */
	uint64_t issued, completed;       /* instructions */
	uint64_t committed;               /* groups */
	uint64_t ends[remembered_groups]; /* `issued` at the end of a group */
	struct emu_waitable done;
};

struct wgmma_op {
	struct emu_engine_op op;
	struct entry *entries[group_warps];
};

static struct emu_wgmma_queue *queue_of(struct emu_warp *warp)
{
	struct emu_async_warp *async = emu_async_of_warp(warp);

	if (!async->wgmma)
		async->wgmma = calloc(1, sizeof *async->wgmma);
	if (!async->wgmma)
		emu_fault(warp, -1, "out-of-memory", "the host has no memory for wgmma");
	return async->wgmma;
}

static void free_entry(struct entry *entry)
{
	emu_frame_release(entry->warp, entry->frame);
	free(entry);
}

void emu_wgmma_warp_free(struct emu_warp *warp)
{
	struct emu_wgmma_queue *queue = emu_async_of_warp(warp)->wgmma;
	struct entry *next;

	if (!queue)
		return;
	for (struct entry *e = queue->first; e; e = next) {
		next = e->next;
		free(e);
	}
	free(queue);
}

/* ---- operands --------------------------------------------------------------------- */

/* Bytes of K that a row holds. */
static int stored_bytes(const struct wgmma_form *form, bool is_a)
{
	return emu_packed_bytes(is_a ? form->a : form->b, EMU_PACK_DENSE,
				is_a && form->sparse ? form->k / 2 : form->k);
}

static int element_bytes(enum emu_element element)
{
	return element == EMU_ELEMENT_B1 ? 1 : emu_element_bits(element) / 8;
}

static bool gather(const struct wgmma_op *op, bool is_a, uint64_t bits, int rows, uint8_t *raw)
{
	const struct entry *entry = op->entries[0];
	const struct wgmma_form *form = entry->ins->extra;
	enum emu_element element = is_a ? form->a : form->b;
	struct emu_smem_view view = emu_smem_of(entry->warp->cta);
	struct emu_smem_descriptor descriptor;
	struct emu_error error;
	int bytes = stored_bytes(form, is_a);

	if (emu_descriptor_wgmma(bits, &descriptor, &error) &&
	    emu_operand_gather(&descriptor, is_a ? form->transpose_a : form->transpose_b,
			       element_bytes(element), rows, bytes, &view, raw, &error)) {
		op->op.cluster->worker->counters.shared_read += (uint64_t)(rows * bytes);
		return true;
	}
	emu_fault_at(&op->op.where, "smem-descriptor", "wgmma, operand %s: %s", is_a ? "A" : "B",
		     error.text);
	return false;
}

/* Register j of a lane holds 4 bytes of K: the same place for all element widths. */
static void registers_to_raw(const struct wgmma_op *op, uint8_t *raw)
{
	for (int w = 0; w < group_warps; w++)
		for (int j = 0; j < 4; j++)
			for (int g = 0; g < 8; g++)
				memcpy(raw + (16 * w + g + 8 * (j & 1)) * 32 + 16 * (j >> 1),
				       &op->entries[w]->a[j][4 * g], 16);
}

static void convert(const struct wgmma_form *form, bool is_a, const uint8_t *raw, int count,
		    float *out)
{
	enum emu_element element = is_a ? form->a : form->b;

	if (form->accumulator == EMU_ACCUMULATE_S32) {
		emu_panel_s32(element, raw, count, (int32_t *)(void *)out);
		return;
	}
	emu_panel_f32(element, EMU_PACK_DENSE, raw, count, out);
	if (is_a ? form->negate_a : form->negate_b)
		emu_mma_negate(out, count);
}

/* ---- D in the registers of a warp ---------------------------------------------------- */

/* The row of register i of D; NULL for a sink. */
static uint32_t *register_row(const struct entry *entry, int i)
{
	const struct emu_operand *item = emu_item(&entry->ins->operands[0], i);

	return item->kind == EMU_O_REGISTER ? emu_frame_row32(entry->frame, item->ref) : NULL;
}

/* Whether the registers of D can be multiplied into as they are. */
static bool in_place(const struct entry *entry, const struct wgmma_form *form)
{
	if (form->accumulator == EMU_ACCUMULATE_F16 || entry->mask != EMU_FULL)
		return false;
	for (int i = 0; i < form->n / 2; i++)
		if (!register_row(entry, i))
			return false;
	return true;
}

/* One row of 32 lanes for each of the n / 2 elements of a lane: in the registers, then true, or in
 * `buffer`. */
static bool rows_of_d(const struct entry *entry, const struct wgmma_form *form, float *buffer,
		      float **rows)
{
	bool place = in_place(entry, form);

	for (int i = 0; i < form->n / 2; i++)
		rows[i] = place ? (float *)(void *)register_row(entry, i) : buffer + i * EMU_LANES;
	return place;
}

static void load_d(const struct entry *entry, const struct wgmma_form *form, float *const *rows)
{
	static const uint32_t zeros[EMU_LANES];
	bool half = form->accumulator == EMU_ACCUMULATE_F16;

	for (int i = 0; i < form->n / 2; i += 1 + half) {
		const uint32_t *row = register_row(entry, half ? i / 2 : i);

		if (half)
			emu_fragment_halves(row ? row : zeros, rows[i], rows[i + 1]);
		else if (row != (const uint32_t *)rows[i])
			memcpy(rows[i], row ? row : zeros, EMU_ROW_BYTES);
	}
}

static void store_d(const struct entry *entry, const struct wgmma_form *form, float *const *rows)
{
	bool half = form->accumulator == EMU_ACCUMULATE_F16;

	for (int i = 0; i < form->n / 2; i += 1 + half) {
		uint32_t *row = register_row(entry, half ? i / 2 : i), words[EMU_LANES];

		if (!row || row == (const uint32_t *)rows[i])
			continue;
		if (half)
			emu_fragment_pack(rows[i], rows[i + 1], words);
		else
			memcpy(words, rows[i], sizeof words);
		EMU_FOR_LANES(lane, entry->mask)
		{
			row[lane] = words[lane];
		}
	}
}

/* ---- the product ----------------------------------------------------------------------- */

/* Stored rows of A to scratch->a, with their zeros, and what each 16 rows keep; false after a
 * fault. */
static bool spread(const struct wgmma_op *op, const struct wgmma_form *form,
		   struct emu_mma_scratch *scratch, bool (*kept)[EMU_MMA_K * EMU_GEMM_ROWS])
{
	int k = form->k, span = emu_sparse_span(form->a);
	uint8_t nibbles[EMU_MMA_K / 2];
	float row[EMU_MMA_K];

	for (int r = 0; r < group_rows; r++) {
		const struct entry *entry = op->entries[r / 16];

		for (int g = 0; g < k / span; g++)
			nibbles[g] = emu_sparse_nibble(entry->metadata, form->a, k, form->selector,
						       r % 16, g);
		if (!emu_sparse_row(span, nibbles, k, scratch->rows + r * k / 2, row)) {
			emu_fault_at(&op->op.where, "sparsity-metadata",
				     "a metadata nibble of row %d selects no two different "
				     "elements",
				     r);
			return false;
		}
		for (int i = 0; i < k; i++)
			scratch->a[i * EMU_MMA_ROWS + r] = row[i];
		emu_sparse_kept(span, nibbles, k, kept[r / 16] + r % 16);
	}
	return true;
}

/* Both operands as numbers: A to scratch->rows, or where it is sparse to scratch->a; B to
 * scratch->b. */
static bool load_operands(const struct wgmma_op *op, const struct wgmma_form *form,
			  struct emu_mma_scratch *scratch, bool (*kept)[EMU_MMA_K * EMU_GEMM_ROWS])
{
	const struct entry *first = op->entries[0];

	if (form->a_in_registers)
		registers_to_raw(op, scratch->raw);
	else if (!gather(op, true, first->a_descriptor, group_rows, scratch->raw))
		return false;
	convert(form, true, scratch->raw, group_rows * form->k / (form->sparse ? 2 : 1),
		scratch->rows);
	if (form->sparse && !spread(op, form, scratch, kept))
		return false;
	if (!gather(op, false, first->b_descriptor, form->n, scratch->raw))
		return false;
	convert(form, false, scratch->raw, form->n * form->k, scratch->b);
	return true;
}

/* As the hardware adds, or with what was set apart: 16 rows of D as a tile. */
static void multiply_tile(const struct wgmma_op *op, const struct wgmma_form *form, const float *a,
			  const struct emu_mma_scratch *scratch, float *tile, bool accumulate)
{
	bool narrow = emu_element_bits(form->a) == 8;
	struct emu_adder adder = {narrow ? 13 : 25, narrow ? 13 : 23,
				  form->accumulator == EMU_ACCUMULATE_F16, form->a, form->b};

	if (op->op.cluster->grid->numerics == EMU_HARDWARE)
		emu_gemm_adder(&adder, NULL, form->n, form->k, a, EMU_MMA_ROWS, scratch->b, form->k,
			       tile, EMU_GEMM_ROWS, accumulate);
	else
		emu_gemm_f32(form->n, form->k, a, EMU_MMA_ROWS, scratch->b, form->k, tile,
			     EMU_GEMM_ROWS, accumulate);
}

static void run_by_tiles(const struct wgmma_op *op, const struct wgmma_form *form,
			 struct emu_mma_scratch *scratch, bool (*kept)[EMU_MMA_K * EMU_GEMM_ROWS],
			 bool apart)
{
	float *rows[EMU_MMA_ROWS / 2], tile[EMU_MMA_ROWS * EMU_GEMM_ROWS];

	if (!form->sparse)
		emu_mma_transpose(scratch->rows, group_rows, form->k, scratch->a);
	for (int w = 0; w < group_warps; w++) {
		const struct entry *entry = op->entries[w];

		rows_of_d(entry, form, scratch->tile, rows);
		if (entry->accumulate) {
			load_d(entry, form, rows);
			emu_fragment_to_tile(form->n, rows, tile);
		} else {
			memset(tile, 0, sizeof tile);
		}
		if (apart)
			emu_sparse_join(form->n, form->k, kept[w], scratch->a + 16 * w,
					scratch->rows + 16 * w, EMU_MMA_ROWS, scratch->b,
					scratch->b_scaled, tile);
		multiply_tile(op, form, scratch->a + 16 * w, scratch, tile,
			      entry->accumulate || apart);
		emu_fragment_of_tile(form->n, tile, rows);
		store_d(entry, form, rows);
	}
}

static void run_by_fragments(const struct wgmma_op *op, const struct wgmma_form *form,
			     struct emu_mma_scratch *scratch)
{
	float *rows[EMU_MMA_ROWS / 2], *spread_a = scratch->a_spread, *b = scratch->b_scaled;
	const float *a = form->sparse ? scratch->a : scratch->rows;
	int row_stride = form->sparse ? 1 : form->k, k_stride = form->sparse ? EMU_MMA_ROWS : 1;
	bool place;

	emu_fragment_b(scratch->b, form->n, form->k, b);
	for (int w = 0; w < group_warps; w++) {
		const struct entry *entry = op->entries[w];

		emu_fragment_a(a + 16 * w * row_stride, row_stride, k_stride, form->k, spread_a);
		place = rows_of_d(entry, form, scratch->tile, rows);
		if (entry->accumulate && !place)
			load_d(entry, form, rows);
		if (form->accumulator == EMU_ACCUMULATE_S32)
			emu_fragment_s32(form->n, form->k, (const int32_t *)(const void *)spread_a,
					 (const int32_t *)(const void *)b,
					 (int32_t *const *)(void *)rows, entry->accumulate,
					 form->saturate);
		else
			emu_fragment_f32(form->n, form->k, spread_a, b, rows, entry->accumulate);
		if (!place)
			store_d(entry, form, rows);
	}
}

static void run(struct wgmma_op *op, struct emu_mma_scratch *scratch)
{
	const struct wgmma_form *form = op->entries[0]->ins->extra;
	bool kept[group_warps][EMU_MMA_K * EMU_GEMM_ROWS], apart = false;
	bool integer = form->accumulator == EMU_ACCUMULATE_S32;

	if (!load_operands(op, form, scratch, kept))
		return;
	if (form->sparse && !integer) {
		apart = emu_sparse_set_apart(scratch->a, scratch->rows, form->k * EMU_MMA_ROWS);
		apart |= emu_sparse_set_apart(scratch->b, scratch->b_scaled, form->n * form->k);
	}
	if (apart || (op->op.cluster->grid->numerics == EMU_HARDWARE && !integer))
		run_by_tiles(op, form, scratch, kept, apart);
	else
		run_by_fragments(op, form, scratch);
}

static void complete(struct emu_engine_op *base)
{
	struct wgmma_op *op = (struct wgmma_op *)base;
	const struct wgmma_form *form = op->entries[0]->ins->extra;
	struct emu_mma_scratch *scratch = emu_mma_scratch_of(op->op.cluster, &op->op.where);
	struct emu_counters *counters = &op->op.cluster->worker->counters;

	if (!scratch)
		return;
	run(op, scratch);
	counters->mma_flops += 2ull * group_rows * (uint64_t)form->n * (uint64_t)form->k;
	counters->mma_instructions++;
	for (int w = 0; w < group_warps; w++) {
		struct emu_wgmma_queue *queue = emu_async_of_warp(op->entries[w]->warp)->wgmma;
		queue->completed++;
		emu_wake(&queue->done);
	}
}

static void discard(struct emu_engine_op *base)
{
	struct wgmma_op *op = (struct wgmma_op *)base;

	for (int w = 0; w < group_warps; w++)
		free_entry(op->entries[w]);
	free(op);
}

/* ---- order ------------------------------------------------------------------------------- */

/*
 * Every warp of the group reads all of B, and its 16 rows of A: each must see
 * what was written.  The actor is the warpgroup, its epoch the instruction.
 */
static void watch(const struct entry *entry, uint64_t number)
{
	struct emu_order *order = entry->warp->order;
	const struct wgmma_form *form = entry->ins->extra;
	struct emu_moment moment = emu_moment_of(order, EMU_ACTOR_WGMMA, 0);
	struct emu_smem_descriptor descriptor;
	struct emu_watched w = {.cta = entry->warp->cta};
	struct emu_error error;
	int a_bytes = stored_bytes(form, true), b_bytes = stored_bytes(form, false);

	moment.epoch = (uint32_t)number;
	emu_pending_wgmma(order, entry->ins, number, entry->accumulate);
	if (emu_timeline_on(order))
		emu_timeline_wgmma(order, moment, form->n, form->k, emu_element_bits(form->a));
	if (emu_wgmma_seen(order, number))
		return;
	w.access = emu_access_by(order, EMU_ACTOR_WGMMA, -1, moment, EMU_READ);
	if (!form->a_in_registers &&
	    emu_descriptor_wgmma(entry->a_descriptor, &descriptor, &error)) {
		w.swizzle = (uint8_t)(1 + descriptor.swizzle);
		emu_watch_operand(&w, &descriptor, form->transpose_a, element_bytes(form->a),
				  group_rows, a_bytes);
		emu_wgmma_needs(order, number, 0, &w.access);
	}
	if (emu_descriptor_wgmma(entry->b_descriptor, &descriptor, &error)) {
		w.swizzle = (uint8_t)(1 + descriptor.swizzle);
		emu_watch_operand(&w, &descriptor, form->transpose_b, element_bytes(form->b),
				  form->n, b_bytes);
		emu_wgmma_needs(order, number, 1, &w.access);
	}
}

static void order_waited(struct emu_order *order, uint64_t number)
{
	emu_order_waited(order, emu_moment_of(order, EMU_ACTOR_WGMMA, 0).who, (uint32_t)number);
	emu_pending_wgmma_done(order, number);
}

/* ---- issue --------------------------------------------------------------------------------- */

static struct entry *make_entry(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct wgmma_form *form = ins->extra;
	struct entry *entry = calloc(1, sizeof *entry);
	int lane = emu_lowest(mask);

	if (!entry) {
		emu_fault(warp, -1, "out-of-memory", "the host has no memory for wgmma");
		return NULL;
	}
	entry->warp = warp;
	entry->ins = ins;
	entry->frame = warp->frame;
	entry->mask = mask;
	entry->accumulate = emu_predicate(warp, &ins->operands[form->scale]) >> lane & 1;
	entry->b_descriptor = emu_value(warp, &ins->operands[2], lane);
	if (form->a_in_registers)
		for (int j = 0; j < 4; j++)
			memcpy(entry->a[j], emu_row32(warp, emu_item(&ins->operands[1], j)->ref),
			       EMU_ROW_BYTES);
	else
		entry->a_descriptor = emu_value(warp, &ins->operands[1], lane);
	if (form->sparse)
		memcpy(entry->metadata, emu_row32(warp, ins->operands[3].ref), EMU_ROW_BYTES);
	emu_frame_retain(entry->frame);
	return entry;
}

static bool matches(const struct entry *a, const struct entry *b)
{
	return a->ins == b->ins && a->accumulate == b->accumulate &&
	       a->a_descriptor == b->a_descriptor && a->b_descriptor == b->b_descriptor;
}

/* Issues the oldest instruction of the group if all four warps have come to it. */
static enum emu_step issue_ready(struct emu_warp *warp)
{
	int base = warp->index & ~3;
	struct wgmma_op *op;

	for (int w = 0; w < group_warps; w++) {
		struct emu_wgmma_queue *queue =
			emu_async_of_warp(warp->cta->warps[base + w])->wgmma;
		if (!queue || !queue->first)
			return EMU_NEXT;
	}
	op = emu_op_new(warp, -1, sizeof *op, complete);
	if (!op)
		return EMU_STOPPED;
	op->op.discard = discard;
	op->op.order = &warp->cta->warps[base]->async;
	for (int w = 0; w < group_warps; w++) {
		struct emu_wgmma_queue *queue =
			emu_async_of_warp(warp->cta->warps[base + w])->wgmma;
		op->entries[w] = queue->first;
		queue->first = queue->first->next;
	}
	for (int w = 1; w < group_warps; w++)
		if (!matches(op->entries[0], op->entries[w])) {
			char first[EMU_LINE_TEXT], other[EMU_LINE_TEXT];

			emu_describe_line(warp->grid, op->entries[0]->ins, first, sizeof first);
			emu_describe_line(warp->grid, op->entries[w]->ins, other, sizeof other);
			emu_fault(warp, -1, "wgmma-diverged",
				  "the four warps of the warpgroup issue different wgmma "
				  "instructions: warp %d at %s, warp %d at %s (same instruction, "
				  "descriptors and scale-d are needed)",
				  base, first, base + w, other);
			op->op.discard(&op->op);
			return EMU_STOPPED;
		}
	emu_op_issue(warp, op);
	return EMU_NEXT;
}

enum emu_step emu_wgmma_mma(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_wgmma_queue *queue = queue_of(warp);
	struct entry *entry;

	if (!queue)
		return EMU_STOPPED;
	if ((warp->index | 3) >= (int)warp->cta->warp_count)
		return emu_fault(warp, -1, "warpgroup",
				 "wgmma needs a warpgroup of four warps; the CTA has %u warps",
				 warp->cta->warp_count);
	entry = make_entry(warp, ins, mask);
	if (!entry)
		return EMU_STOPPED;
	if (queue->first)
		queue->last->next = entry;
	else
		queue->first = entry;
	queue->last = entry;
	queue->issued++;
	if (warp->order)
		watch(entry, queue->issued);
	return issue_ready(warp);
}

/* ---- groups ------------------------------------------------------------------------------------
 */

enum emu_step emu_wgmma_commit(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_wgmma_queue *queue = queue_of(warp);

	(void)ins, (void)mask;
	if (!queue)
		return EMU_STOPPED;
	queue->ends[queue->committed++ % remembered_groups] = queue->issued;
	return EMU_NEXT;
}

static void describe_wait(const struct emu_waitable *waitable, const struct emu_split *split,
			  char *text, size_t size)
{
	const struct emu_wgmma_queue *queue = emu_async_of_warp(split->warp)->wgmma;

	(void)waitable;
	snprintf(text, size, "wgmma: %llu instructions are not complete%s",
		 (unsigned long long)(queue->issued - queue->completed),
		 queue->first ? "; other warps of the warpgroup have not issued the same" : "");
}

enum emu_step emu_wgmma_wait(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	struct emu_wgmma_queue *queue = queue_of(warp);
	uint64_t allowed = (uint64_t)ins->operands[0].value, end;

	(void)mask;
	if (!queue)
		return EMU_STOPPED;
	if (allowed >= remembered_groups || queue->committed <= allowed)
		return EMU_NEXT;
	end = queue->ends[(queue->committed - 1 - allowed) % remembered_groups];
	if (queue->completed >= end) {
		if (warp->order)
			order_waited(warp->order, end);
		return EMU_NEXT;
	}
	queue->done.describe = describe_wait;
	return emu_block_on(warp, &queue->done);
}

enum emu_step emu_wgmma_fence(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)ins, (void)mask;
	if (warp->order)
		emu_pending_wgmma_fence(warp->order);
	return EMU_NEXT;
}

/* Frames: registers and local memory of one call. */
#include "hazard.h"
#include "schedule.h"
#include <stdlib.h>

#define MAX_DEPTH       8192u
#define MAX_LOCAL_BYTES (512u << 10)
#define FIRST_LOCAL     1024u
#define POISON          0x7fc0deadu

bool emu_local_grow(struct emu_warp *warp, uint32_t bytes)
{
	uint32_t size = warp->local_bytes ? warp->local_bytes : FIRST_LOCAL;
	uint8_t *grown;

	if (bytes <= warp->local_bytes)
		return true;
	if (bytes > MAX_LOCAL_BYTES)
		return false;
	while (size < bytes)
		size *= 2;
	grown = calloc(EMU_LANES, size);
	if (!grown)
		return false;
	for (size_t lane = 0; warp->local && lane < EMU_LANES; lane++)
		memcpy(grown + lane * size, warp->local + lane * warp->local_bytes,
		       warp->local_bytes);
	free(warp->local);
	warp->local = grown;
	warp->local_bytes = size;
	return true;
}

struct emu_frame *emu_frame_new(struct emu_warp *warp, const struct emu_function *function,
				struct emu_frame *parent, uint32_t local_base)
{
	size_t rows = (size_t)function->slot_count * EMU_ROW_BYTES;
	size_t predicates = (size_t)function->predicate_count * sizeof(uint32_t);
	size_t header = (sizeof(struct emu_frame) + 63) & ~(size_t)63;
	struct emu_frame *frame;

	if ((parent && parent->depth + 1 > MAX_DEPTH) || local_base > MAX_LOCAL_BYTES)
		return NULL;
	if (function->frame_bytes && !emu_local_grow(warp, local_base + function->frame_bytes))
		return NULL;
	frame = malloc(header + rows + predicates);
	if (!frame)
		return NULL;
	memset(frame, 0, sizeof *frame);
	frame->function = function;
	frame->parent = parent;
	frame->rows = (uint8_t *)frame + header;
	frame->predicates = (uint32_t *)(frame->rows + rows);
	frame->local_base = local_base;
	frame->local_top = local_base + function->frame_bytes;
	frame->references = 1;
	frame->join = -1;
	if (parent) {
		frame->depth = parent->depth + 1;
		parent->references++;
	}
	if (warp->grid->mode == EMU_FAST)
		memset(frame->rows, 0, rows);
	else
		for (size_t i = 0; i < rows / 4; i++)
			((uint32_t *)frame->rows)[i] = POISON;
	memset(frame->predicates, 0, predicates);
	return frame;
}

void emu_frame_retain(struct emu_frame *frame)
{
	frame->references++;
}

void emu_frame_release(struct emu_warp *warp, struct emu_frame *frame)
{
	while (frame && --frame->references == 0) {
		struct emu_frame *parent = frame->parent;

		if (warp->order)
			emu_taint_leave(warp->order, frame);
		free(frame);
		frame = parent;
	}
}

/* Results go from the callee's frame to the variables that the call names. */
void emu_frame_results(struct emu_warp *warp, struct emu_frame *frame, uint32_t mask)
{
	const struct emu_operand *list =
		frame->call->operand_count > 1 && frame->call->operands[0].kind == EMU_O_LIST
			? &frame->call->operands[0]
			: NULL;
	const struct emu_function *function = frame->function;
	struct emu_frame *parent = frame->parent;

	for (int i = 0; list && i < function->result_count && (uint32_t)i < list->count; i++) {
		const struct emu_variable *result = function->results[i];
		const struct emu_operand *to = &list->items[i];

		if (warp->order)
			emu_taint_result(warp, frame, result, to, mask);
		EMU_FOR_LANES(lane, mask)
		{
			uint8_t *local = warp->local + (size_t)lane * warp->local_bytes;
			const uint8_t *from = local + frame->local_base + result->address;
			uint64_t value = 0;

			if (to->kind == EMU_O_SYMBOL) {
				memcpy(local + parent->local_base + to->variable->address, from,
				       result->size);
				continue;
			}
			if (to->kind != EMU_O_REGISTER)
				continue;
			memcpy(&value, from, result->size < 8 ? result->size : 8);
			if (to->bits == 64)
				((uint64_t *)(parent->rows + to->ref))[lane] = value;
			else
				((uint32_t *)(parent->rows + to->ref))[lane] = (uint32_t)value;
		}
	}
}

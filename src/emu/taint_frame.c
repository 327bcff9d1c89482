/* Which registers of which frame are tainted, and which bytes of local memory. */
#include "taint.h"

#include <stdlib.h>

enum {
	never_written,
	defined,
	first_origin
};

/* ---- frames ------------------------------------------------------------------------ */

struct emu_taint *emu_taint_of(struct emu_order *order)
{
	if (!order->taint)
		order->taint = calloc(1, sizeof *order->taint);
	return order->taint;
}

static void free_frame(struct emu_taint_frame *f)
{
	free(f->rows);
	free(f->predicates);
	free(f);
}

void emu_taint_free(struct emu_taint *taint)
{
	struct emu_taint_frame *next;

	if (!taint)
		return;
	for (struct emu_taint_frame *f = taint->frames; f; f = next) {
		next = f->next;
		free_frame(f);
	}
	free(taint->local);
	free(taint);
}

void emu_taint_leave(struct emu_order *order, const struct emu_frame *frame)
{
	struct emu_taint_frame **at = order->taint ? &order->taint->frames : NULL, *found;

	while (at && *at && (*at)->frame != frame)
		at = &(*at)->next;
	if (!at || !*at)
		return;
	found = *at;
	*at = found->next;
	free_frame(found);
}

static struct emu_taint_frame *make(struct emu_taint *t, const struct emu_frame *frame)
{
	const struct emu_function *function = frame->function;
	struct emu_taint_frame *f = calloc(1, sizeof *f);

	if (!f)
		return NULL;
	f->rows = calloc(function->slot_count + 1u, sizeof *f->rows);
	f->predicates = calloc(function->predicate_count + 1u, sizeof *f->predicates);
	if (!f->rows || !f->predicates) {
		free_frame(f);
		return NULL;
	}
	f->frame = frame;
	for (uint32_t i = 0; i < function->undefined_count; i++) {
		uint32_t reg = function->undefined[i], ref = function->register_refs[reg];
		bool predicate = function->register_types[reg] == EMU_T_PRED;

		*(predicate ? &f->predicates[ref] : &f->rows[ref]) =
			(struct emu_taint_row){EMU_FULL, reg, {NULL, EMU_TAINT_REGISTER}};
		t->any = true;
	}
	return f;
}

struct emu_taint_frame *emu_taint_frame(struct emu_taint *t, const struct emu_frame *frame)
{
	struct emu_taint_frame **at = &t->frames, *found;

	if (t->frames && t->frames->frame == frame)
		return t->frames;
	while (*at && (*at)->frame != frame)
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	else
		found = make(t, frame);
	if (!found)
		return NULL;
	found->next = t->frames;
	t->frames = found;
	return found;
}

/* ---- registers ------------------------------------------------------------------------ */

struct emu_taint_row *emu_taint_row(const struct emu_taint_frame *f,
				    const struct emu_operand *operand)
{
	if (operand->kind == EMU_O_PREDICATE)
		return &f->predicates[operand->ref];
	return operand->kind == EMU_O_REGISTER && (operand->ref & 3) == EMU_BANK_FRAME
		       ? &f->rows[operand->ref / EMU_ROW_BYTES]
		       : NULL;
}

uint32_t emu_taint_lanes(const struct emu_taint_frame *f, const struct emu_operand *operand,
			 uint32_t mask)
{
	const struct emu_taint_row *row = emu_taint_row(f, operand);

	return row && row->reg == operand->reg ? row->mask & mask : 0;
}

void emu_taint_set(const struct emu_taint_frame *f, const struct emu_operand *operand,
		   uint32_t mask, uint32_t lanes, struct emu_taint_origin from)
{
	struct emu_taint_row *row = emu_taint_row(f, operand);

	if (row && row->reg == operand->reg && !lanes) {
		row->mask &= ~mask;
	} else if (row && lanes) {
		uint32_t kept = row->reg == operand->reg ? row->mask & ~mask : 0;

		*row = (struct emu_taint_row){kept | lanes, operand->reg, from};
	}
	if (operand->kind == EMU_O_ADDRESS)
		return;
	for (uint32_t i = 0; i < operand->count; i++)
		emu_taint_set(f, &operand->items[i], mask, lanes, from);
}

uint32_t emu_taint_read(struct emu_warp *warp, const struct emu_operand *operand, uint32_t mask,
			struct emu_taint_origin *from)
{
	struct emu_taint *t = emu_taint_of(warp->order);
	const struct emu_taint_frame *f = t && t->any ? emu_taint_frame(t, warp->frame) : NULL;
	uint32_t lanes = f ? emu_taint_lanes(f, operand, mask) : 0;

	if (lanes)
		*from = emu_taint_row(f, operand)->from;
	return lanes;
}

void emu_taint_write(struct emu_warp *warp, const struct emu_operand *operand, uint32_t mask,
		     uint32_t lanes, struct emu_taint_origin from)
{
	struct emu_taint *t = emu_taint_of(warp->order);
	const struct emu_taint_frame *f = t && t->any ? emu_taint_frame(t, warp->frame) : NULL;

	if (f)
		emu_taint_set(f, operand, mask, lanes, from);
}

void emu_taint_loaded(struct emu_warp *warp, const struct emu_operand *item, uint32_t lanes)
{
	struct emu_taint *t = lanes ? emu_taint_of(warp->order) : NULL;

	if (!t)
		return;
	t->any = true;
	emu_taint_write(warp, item, lanes, lanes,
			(struct emu_taint_origin){warp->ins, EMU_TAINT_TMEM});
}

/* ---- local memory ------------------------------------------------------------------------ */

/* Marks of [at, at + size) of a lane; NULL where there is no such local memory, or none to mark it.
 */
static uint8_t *marks(struct emu_taint *t, const struct emu_warp *warp, uint32_t lane, uint64_t at,
		      uint64_t size)
{
	uint32_t bytes = warp->local_bytes;
	uint8_t *grown;

	if (at > bytes || size > bytes - at)
		return NULL;
	if (t->local_bytes != bytes) {
		grown = calloc(EMU_LANES, bytes);
		if (!grown)
			return NULL;
		for (size_t l = 0; t->local && l < EMU_LANES; l++)
			memcpy(grown + l * bytes, t->local + l * t->local_bytes, t->local_bytes);
		free(t->local);
		t->local = grown;
		t->local_bytes = bytes;
	}
	return t->local + (size_t)lane * bytes + at;
}

static uint8_t mark_of(struct emu_taint *t, struct emu_taint_origin from)
{
	for (int i = 0; i < t->origin_count; i++)
		if (t->origins[i].by == from.by && t->origins[i].kind == from.kind)
			return (uint8_t)(first_origin + i);
	if (t->origin_count == EMU_TAINT_ORIGINS)
		return first_origin;
	t->origins[t->origin_count] = from;
	return (uint8_t)(first_origin + t->origin_count++);
}

static struct emu_taint_origin origin_of(const struct emu_taint *t, uint8_t mark,
					 const struct emu_ins *by)
{
	return mark < first_origin ? (struct emu_taint_origin){by, EMU_TAINT_LOCAL}
				   : t->origins[mark - first_origin];
}

/* A value is tainted where all of its bytes are. */
static bool all_tainted(const uint8_t *mark, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		if (mark[i] == defined)
			return false;
	return size > 0;
}

/* Whether the lane's address lies in local memory; then the offset in it. */
static bool in_local(const struct emu_warp *warp, const struct emu_ins *ins, int operand, int lane,
		     uint64_t *at)
{
	*at = emu_address(warp, &ins->operands[operand], lane);
	return ins->space == EMU_LOCAL || ins->space == EMU_PARAM_FUNCTION ||
	       (ins->space == EMU_GENERIC && emu_generic_space(at) == EMU_LOCAL);
}

void emu_taint_load(struct emu_taint *t, const struct emu_taint_frame *f, struct emu_warp *warp,
		    const struct emu_ins *ins, uint32_t mask)
{
	uint32_t size = emu_types[ins->type].bits / 8u, lanes[EMU_MAX_ACCESS] = {0};
	struct emu_taint_origin from[EMU_MAX_ACCESS];

	EMU_FOR_LANES(lane, mask)
	{
		uint64_t at;
		const uint8_t *mark = NULL;

		if (in_local(warp, ins, 1, (int)lane, &at))
			mark = marks(t, warp, lane, at, (uint64_t)size * ins->count);
		for (uint32_t i = 0; mark && i < ins->count; i++, mark += size)
			if (all_tainted(mark, size)) {
				lanes[i] |= 1u << lane;
				from[i] = origin_of(t, *mark, ins);
			}
	}
	for (uint32_t i = 0; i < ins->count; i++) {
		if (!lanes[i])
			from[i] = (struct emu_taint_origin){NULL, EMU_TAINT_LOCAL};
		t->any |= lanes[i] != 0;
		emu_taint_set(f, emu_item(&ins->operands[0], (int)i), mask, lanes[i], from[i]);
	}
}

static void mark_value(struct emu_taint *t, const struct emu_taint_frame *f, uint8_t *mark,
		       uint32_t size, const struct emu_operand *from, uint32_t lane)
{
	bool tainted = f && emu_taint_lanes(f, from, 1u << lane);

	memset(mark, tainted ? mark_of(t, emu_taint_row(f, from)->from) : defined, size);
}

void emu_taint_store(struct emu_taint *t, const struct emu_taint_frame *f, struct emu_warp *warp,
		     const struct emu_ins *ins, uint32_t mask)
{
	uint32_t size = emu_types[ins->type].bits / 8u;

	EMU_FOR_LANES(lane, mask)
	{
		uint64_t at;
		uint8_t *mark = NULL;

		if (in_local(warp, ins, 0, (int)lane, &at))
			mark = marks(t, warp, lane, at, (uint64_t)size * ins->count);
		for (uint32_t i = 0; mark && i < ins->count; i++, mark += size)
			mark_value(t, f, mark, size, emu_item(&ins->operands[1], (int)i), lane);
	}
}

/* ---- calls ---------------------------------------------------------------------------- */

/* What functions of the emulator itself leave behind is defined. */
void emu_taint_enter(struct emu_warp *warp, const struct emu_frame *callee, uint32_t mask)
{
	struct emu_taint *t = emu_taint_of(warp->order);
	uint32_t size = callee->function->frame_bytes;

	EMU_FOR_LANES(lane, mask)
	{
		uint8_t *mark = t ? marks(t, warp, lane, callee->local_base, size) : NULL;

		if (mark)
			memset(mark, callee->function->builtin ? defined : never_written, size);
	}
}

void emu_taint_pass(struct emu_warp *warp, const struct emu_frame *caller,
		    const struct emu_frame *callee, const struct emu_variable *param,
		    const struct emu_operand *from, uint32_t mask)
{
	struct emu_taint *t = emu_taint_of(warp->order);
	const struct emu_taint_frame *f = t && t->any ? emu_taint_frame(t, caller) : NULL;
	uint32_t size = (uint32_t)param->size;

	EMU_FOR_LANES(lane, mask)
	{
		uint8_t *to =
			t ? marks(t, warp, lane, callee->local_base + param->address, size) : NULL;
		const uint8_t *given;

		if (!to)
			continue;
		if (from->kind != EMU_O_SYMBOL) {
			mark_value(t, f, to, size, from, lane);
			continue;
		}
		given = marks(t, warp, lane, caller->local_base + from->variable->address, size);
		if (given)
			memmove(to, given, size);
	}
}

void emu_taint_result(struct emu_warp *warp, const struct emu_frame *callee,
		      const struct emu_variable *result, const struct emu_operand *to,
		      uint32_t mask)
{
	struct emu_taint *t = emu_taint_of(warp->order);
	const struct emu_frame *caller = callee->parent;
	const struct emu_taint_frame *f = t ? emu_taint_frame(t, caller) : NULL;
	struct emu_taint_origin from = {NULL, EMU_TAINT_LOCAL};
	uint32_t size = (uint32_t)result->size, lanes = 0;

	EMU_FOR_LANES(lane, mask)
	{
		const uint8_t *given =
			f ? marks(t, warp, lane, callee->local_base + result->address, size) : NULL;
		uint8_t *mark = NULL;

		if (!given)
			continue;
		if (to->kind == EMU_O_SYMBOL)
			mark = marks(t, warp, lane, caller->local_base + to->variable->address,
				     size);
		else if (all_tainted(given, size))
			lanes |= 1u << lane, from = origin_of(t, *given, callee->call);
		if (mark)
			memcpy(mark, given, size);
	}
	if (!f || to->kind == EMU_O_SYMBOL)
		return;
	t->any |= lanes != 0;
	emu_taint_set(f, to, mask, lanes, from);
}

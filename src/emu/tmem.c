/* Tensor memory: its allocator and who may touch what (1). */
#include "deadlock.h"
#include "hazard.h"

#include <stdio.h>
#include <stdlib.h>

static const uint32_t fresh = 0x7fc0dead; /* a NaN: what nobody has written */

struct emu_cta *emu_peer(const struct emu_cta *cta)
{
	uint32_t rank = cta->rank ^ 1;

	return (int)rank < cta->cluster->cta_count ? cta->cluster->ctas[rank] : NULL;
}

bool emu_take_cta_group(struct emu_decode *decode, int *group)
{
	static const char *const groups[] = {"cta_group::1", "cta_group::2", NULL};
	struct emu_function *function = decode->function;
	int which = emu_take_one(decode, groups);

	*group = which + 1;
	if (which == -2)
		return false;
	if (which == -1)
		return emu_reject(decode, "cta_group::1 or cta_group::2 is missing");
	if (!function->cta_group) {
		function->cta_group = *group;
		function->cta_group_line = decode->ins->line;
	}
	if (function->cta_group != *group)
		return emu_reject(decode,
				  "cta_group::%d, but line %u has cta_group::%d: the tcgen05 "
				  "instructions of a function have one of the two",
				  *group, function->cta_group_line, function->cta_group);
	return true;
}

static struct emu_tmem_allocation *allocation_of(struct emu_tmem *tmem, uint32_t column)
{
	for (int i = 0; i < EMU_TMEM_ALLOCATIONS; i++) {
		struct emu_tmem_allocation *a = &tmem->allocations[i];
		if (a->live && column >= a->column && column < (uint32_t)a->column + a->columns)
			return a;
	}
	return NULL;
}

static int list_allocations(const struct emu_tmem *tmem, char *text, size_t size)
{
	int length = 0;
	char line[EMU_LINE_TEXT];

	text[0] = 0;
	for (int i = 0; i < EMU_TMEM_ALLOCATIONS && length < (int)size; i++) {
		const struct emu_tmem_allocation *a = &tmem->allocations[i];

		if (!a->live)
			continue;
		emu_describe_line(a->made.grid, a->made.ins, line, sizeof line);
		length += snprintf(text + length, size - (size_t)length, "%s%u..%u of %s",
				   length ? ", " : "", a->column, a->column + a->columns - 1, line);
	}
	if (!length)
		length = snprintf(text, size, "none");
	return length;
}

bool emu_tmem_check(struct emu_cta *cta, const struct emu_where *where, uint32_t column,
		    uint32_t count, const char *what)
{
	struct emu_tmem *tmem = emu_tmem_of(cta);
	uint32_t at = column;
	char list[512];

	while (at < column + count) {
		struct emu_tmem_allocation *a = allocation_of(tmem, at);
		if (!a)
			break;
		at = (uint32_t)a->column + a->columns;
	}
	if (at >= column + count)
		return true;
	list_allocations(tmem, list, sizeof list);
	emu_fault_at(where, "tmem-unallocated",
		     "%s touches tensor memory columns %u..%u of CTA rank %u, column %u is not "
		     "allocated; allocated columns: %s",
		     what, column, column + count - 1, cta->rank, at, list);
	return false;
}

void emu_tmem_cta_exit(struct emu_cta *cta)
{
	struct emu_tmem *tmem = emu_tmem_of(cta);

	for (int i = 0; i < EMU_TMEM_ALLOCATIONS; i++) {
		struct emu_tmem_allocation *a = &tmem->allocations[i];
		if (a->live)
			emu_fault_at(
				&a->made, "tmem-leak",
				"tensor memory columns %u..%u are still allocated when the CTA "
				"ends: tcgen05.dealloc is missing",
				a->column, a->column + a->columns - 1);
	}
}

/* ---- placement ------------------------------------------------------------------- */

static bool is_free(const struct emu_tmem *tmem, uint32_t column, uint32_t count)
{
	for (int i = 0; i < EMU_TMEM_ALLOCATIONS; i++) {
		const struct emu_tmem_allocation *a = &tmem->allocations[i];
		if (a->live && column < (uint32_t)a->column + a->columns &&
		    a->column < column + count)
			return false;
	}
	return true;
}

/*
 * The lowest free place, or a random one in random mode: the ISA does not say
 * where an allocation lies.  `other` is the peer's memory of a pair, or NULL.
 */
static int place(struct emu_warp *warp, const struct emu_tmem *tmem, const struct emu_tmem *other,
		 uint32_t count)
{
	int places[EMU_TMEM_ALLOCATIONS], found = 0;

	for (uint32_t column = 0; column + count <= EMU_TMEM_COLUMNS; column += count)
		if (is_free(tmem, column, count) && (!other || is_free(other, column, count)))
			places[found++] = (int)column;
	if (!found)
		return -1;
	return warp->grid->mode == EMU_RANDOM ? places[emu_random(&warp->random) % (uint32_t)found]
					      : places[0];
}

static bool take(struct emu_tmem *tmem, const struct emu_where *where, uint32_t column,
		 uint32_t count, int cta_group)
{
	struct emu_tmem_allocation *a = tmem->allocations;

	if (!tmem->columns)
		tmem->columns = malloc(sizeof(emu_tmem_column) * EMU_TMEM_COLUMNS);
	if (!tmem->columns)
		return false;
	while (a->live)
		a++;
	*a = (struct emu_tmem_allocation){(uint16_t)column, (uint16_t)count, (uint8_t)cta_group,
					  true, *where};
	for (uint32_t c = column; c < column + count; c++)
		for (int lane = 0; lane < EMU_TMEM_LANES; lane++)
			tmem->columns[c][lane] = fresh;
	return true;
}

/* ---- alloc ------------------------------------------------------------------------- */

static void describe_full(const struct emu_waitable *waitable, const struct emu_split *split,
			  char *text, size_t size)
{
	char list[512];

	(void)waitable;
	list_allocations(emu_tmem_of(split->warp->cta), list, sizeof list);
	snprintf(text, size, "%llu free columns of tensor memory; allocated columns: %s",
		 (unsigned long long)split->scratch, list);
}

static void describe_peer(const struct emu_waitable *waitable, const struct emu_split *split,
			  char *text, size_t size)
{
	(void)waitable;
	snprintf(text, size,
		 "the peer CTA (rank %u) to execute the same "
		 "tcgen05.alloc.cta_group::2",
		 split->warp->cta->rank ^ 1);
}

static void explain_full(const struct emu_waitable *waitable, const struct emu_split *split,
			 struct emu_causes *causes)
{
	(void)waitable;
	emu_cause(causes, "deadlock-columns",
		  "tcgen05.dealloc by those that have them, or fewer columns for each",
		  "nobody gives tensor memory back, and %llu columns in a row are not free",
		  (unsigned long long)split->scratch);
}

static void explain_peer(const struct emu_waitable *waitable, const struct emu_split *split,
			 struct emu_causes *causes)
{
	(void)waitable;
	emu_cause(causes, "deadlock-pair", "the instruction in both CTAs, by one warp of each",
		  "CTA rank %u does not come to tcgen05.alloc.cta_group::2, which both CTAs of a "
		  "pair execute",
		  split->warp->cta->rank ^ 1);
}

static enum emu_step publish(struct emu_warp *warp, const struct emu_ins *ins, int lane,
			     uint32_t column)
{
	uint64_t address = emu_address(warp, &ins->operands[0], lane);
	void *to = emu_mem(warp, lane, (enum emu_space)ins->space, address, 4, 4, EMU_WRITE);

	if (!to)
		return EMU_STOPPED;
	if (warp->order) {
		emu_watch_one(warp, -1, (enum emu_space)ins->space, address, 4, EMU_WRITE);
		emu_access_tmem_fresh(warp->cta, column,
				      (uint32_t)emu_value(warp, &ins->operands[1], lane));
	}
	memcpy(to, &column, 4);
	emu_changed(warp->worker);
	return EMU_NEXT;
}

static enum emu_step wait_for_room(struct emu_warp *warp, struct emu_tmem *tmem, uint32_t count)
{
	tmem->freed.describe = describe_full;
	tmem->freed.explain = explain_full;
	warp->split->scratch = count;
	return emu_block_on(warp, &tmem->freed);
}

static enum emu_step no_memory(struct emu_warp *warp)
{
	return emu_fault(warp, -1, "out-of-memory", "the host has no memory for tensor memory");
}

static enum emu_step alloc_one(struct emu_warp *warp, const struct emu_ins *ins, int lane,
			       uint32_t count)
{
	struct emu_tmem *tmem = emu_tmem_of(warp->cta);
	struct emu_where where = emu_here(warp, lane);
	int column = place(warp, tmem, NULL, count);

	if (column < 0)
		return wait_for_room(warp, tmem, count);
	if (!take(tmem, &where, (uint32_t)column, count, 1))
		return no_memory(warp);
	return publish(warp, ins, lane, (uint32_t)column);
}

/* The CTA that comes second allocates for both. */
static enum emu_step alloc_pair(struct emu_warp *warp, const struct emu_ins *ins, int lane,
				uint32_t count)
{
	struct emu_cta *peer_cta = emu_peer(warp->cta);
	struct emu_tmem *tmem = emu_tmem_of(warp->cta), *peer;
	struct emu_where where = emu_here(warp, lane);
	int column;

	if (!peer_cta)
		return emu_fault(warp, lane, "cta-pair",
				 "cta_group::2 needs a cluster of an even number of CTAs; this "
				 "one has %d",
				 warp->cta->cluster->cta_count);
	if (warp->split->stage && tmem->grant) {
		column = (int)tmem->grant - 1;
		tmem->grant = tmem->request = 0;
		return publish(warp, ins, lane, (uint32_t)column);
	}
	peer = emu_tmem_of(peer_cta);
	if (warp->split->stage || !peer->request || peer->grant) {
		warp->split->stage = 1;
		tmem->request = count;
		tmem->requested_by = where;
		tmem->paired.describe = describe_peer;
		tmem->paired.explain = explain_peer;
		return emu_block_on(warp, &tmem->paired);
	}
	if (peer->request != count)
		return emu_fault(warp, lane, "tmem-columns",
				 "tcgen05.alloc.cta_group::2 of %u columns, the peer asks for %u",
				 count, peer->request);
	column = place(warp, tmem, peer, count);
	if (column < 0)
		return wait_for_room(warp, tmem, count);
	if (!take(tmem, &where, (uint32_t)column, count, 2) ||
	    !take(peer, &peer->requested_by, (uint32_t)column, count, 2))
		return no_memory(warp);
	peer->grant = (uint32_t)column + 1;
	emu_wake(&peer->paired);
	return publish(warp, ins, lane, (uint32_t)column);
}

static enum emu_step execute_alloc(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	int lane = emu_lowest(mask);
	struct emu_tmem *tmem = emu_tmem_of(warp->cta);
	uint32_t count = (uint32_t)emu_value(warp, &ins->operands[1], lane);
	char line[EMU_LINE_TEXT];

	if (count < EMU_TMEM_GRANULE || count > EMU_TMEM_COLUMNS || (count & (count - 1)))
		return emu_fault(
			warp, -1, "tmem-columns",
			"tcgen05.alloc of %u columns; 32, 64, 128, 256 or 512 are possible", count);
	if (tmem->relinquished) {
		emu_describe_line(warp->grid, tmem->relinquished_by.ins, line, sizeof line);
		return emu_fault(warp, -1, "tmem-relinquished",
				 "tcgen05.alloc after tcgen05.relinquish_alloc_permit (%s)", line);
	}
	return ins->variant == 2 ? alloc_pair(warp, ins, lane, count)
				 : alloc_one(warp, ins, lane, count);
}

/* ---- dealloc, relinquish -------------------------------------------------------------- */

/* All that touched the columns must have happened before they are given back. */
static void watch_dealloc(struct emu_warp *warp, const struct emu_tmem_allocation *a)
{
	struct emu_access access = emu_access_by_warp(warp->order, -1, EMU_WRITE, false);

	emu_access_tmem_lanes(&access, warp->cta, a->column, a->columns, 0, EMU_TMEM_LANES);
}

static enum emu_step execute_dealloc(struct emu_warp *warp, const struct emu_ins *ins,
				     uint32_t mask)
{
	int lane = emu_lowest(mask);
	struct emu_tmem *tmem = emu_tmem_of(warp->cta);
	uint32_t address = (uint32_t)emu_value(warp, &ins->operands[0], lane);
	uint32_t count = (uint32_t)emu_value(warp, &ins->operands[1], lane);
	struct emu_tmem_allocation *a = allocation_of(tmem, address);
	char list[512], line[EMU_LINE_TEXT];

	if (!a || a->column != address) {
		list_allocations(tmem, list, sizeof list);
		return emu_fault(
			warp, -1, "tmem-dealloc",
			"tcgen05.dealloc of address 0x%x, which no tcgen05.alloc returned or "
			"which is free already; allocated columns: %s",
			address, list);
	}
	emu_describe_line(warp->grid, a->made.ins, line, sizeof line);
	if (a->columns != count)
		return emu_fault(warp, -1, "tmem-dealloc",
				 "tcgen05.dealloc of %u columns at column %u, %u were allocated "
				 "(%s)",
				 count, address, a->columns, line);
	if (a->cta_group != ins->variant)
		return emu_fault(warp, -1, "tmem-dealloc",
				 "tcgen05.dealloc.cta_group::%u of columns that were allocated by "
				 "cta_group::%u (%s)",
				 ins->variant, a->cta_group, line);
	if (warp->order)
		watch_dealloc(warp, a);
	a->live = false;
	emu_wake(&tmem->freed);
	if (ins->variant == 2 && emu_peer(warp->cta))
		emu_wake(&emu_tmem_of(emu_peer(warp->cta))->freed);
	return EMU_NEXT;
}

static enum emu_step execute_relinquish(struct emu_warp *warp, const struct emu_ins *ins,
					uint32_t mask)
{
	struct emu_tmem *tmem = emu_tmem_of(warp->cta);

	(void)ins;
	tmem->relinquished = true;
	tmem->relinquished_by = emu_here(warp, emu_lowest(mask));
	return EMU_NEXT;
}

static bool take_common(struct emu_decode *decode)
{
	int group;

	if (!emu_take_cta_group(decode, &group))
		return false;
	if (!emu_take_aligned(decode))
		return false;
	emu_take(decode, "b32");
	decode->ins->variant = (uint8_t)group;
	emu_results(decode->ins, 0);
	return true;
}

static bool decode_alloc(struct emu_decode *decode)
{
	decode->ins->space = emu_take_space(decode, EMU_GENERIC);
	return take_common(decode) && emu_want_operands(decode, 2, 2) &&
	       emu_want_address(decode, 0) && emu_want_value(decode, 1, 32);
}

static bool decode_dealloc(struct emu_decode *decode)
{
	return take_common(decode) && emu_want_operands(decode, 2, 2) &&
	       emu_want_value(decode, 0, 32) && emu_want_value(decode, 1, 32);
}

static bool decode_relinquish(struct emu_decode *decode)
{
	return take_common(decode) && emu_want_operands(decode, 0, 0);
}

static const struct emu_opcode rows[] = {
	{"tcgen05.alloc", decode_alloc, execute_alloc, EMU_P_NO_RESULT | EMU_P_SM100A},
	{"tcgen05.dealloc", decode_dealloc, execute_dealloc, EMU_P_NO_RESULT | EMU_P_SM100A},
	{"tcgen05.relinquish_alloc_permit", decode_relinquish, execute_relinquish, EMU_P_SM100A},
};

EMU_OPCODE_TABLE(tmem, rows);

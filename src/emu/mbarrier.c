/*
 * mbarriers: the objects and their ledger (9.1).
 *
 * The 8 bytes in shared memory hold a mark and the index of the object, so that
 * a barrier that was never made, or was overwritten, is recognised at its next use.
 */
#include "deadlock.h"
#include "hazard.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	max_count = (1 << 20) - 1
};

static const uint32_t mark = 0x6d626172u;

void emu_mbarrier_name(const struct emu_mbarrier *barrier, char *text, size_t size)
{
	uint32_t address = EMU_SHARED_BASE + barrier->offset, within = 0;
	const struct emu_symbol *symbol =
		emu_symbol_at(barrier->cta->grid, 'b', barrier->offset, &within);
	char slot[16] = "";

	if (!symbol) {
		snprintf(text, size, "mbarrier at shared 0x%x", address);
		return;
	}
	if (symbol->size > 8)
		snprintf(slot, sizeof slot, "[%u]", within / 8);
	if (symbol->file)
		snprintf(text, size, "barrier %s%s (made at %s:%u, shared 0x%x)", symbol->name,
			 slot, symbol->file, symbol->line, address);
	else
		snprintf(text, size, "barrier %s%s (shared 0x%x)", symbol->name, slot, address);
}

static const char *arrivers(const struct emu_mbarrier *barrier)
{
	uint32_t within;
	const struct emu_symbol *symbol =
		emu_symbol_at(barrier->cta->grid, 'b', barrier->offset, &within);

	return symbol ? symbol->note : NULL;
}

static struct emu_mbarrier *find(struct emu_async_cta *async, uint32_t offset)
{
	for (uint32_t i = 0; i < async->barrier_count; i++)
		if (async->barriers[i]->offset == offset && async->barriers[i]->live)
			return async->barriers[i];
	return NULL;
}

static struct emu_mbarrier *named_by(struct emu_async_cta *async, const uint8_t *bytes,
				     uint32_t offset)
{
	uint32_t words[2];

	memcpy(words, bytes, sizeof words);
	if (words[0] != mark || words[1] >= async->barrier_count)
		return NULL;
	return async->barriers[words[1]]->offset == offset && async->barriers[words[1]]->live
		       ? async->barriers[words[1]]
		       : NULL;
}

static void fault_missing(struct emu_cta *owner, const struct emu_where *where, uint32_t offset)
{
	struct emu_mbarrier *lost = find(emu_async_of_cta(owner), offset);
	char name[400], line[EMU_LINE_TEXT];

	if (!lost) {
		emu_fault_at(where, "mbarrier-not-initialised",
			     "no mbarrier at shared address 0x%x of CTA rank %u: mbarrier.init was "
			     "not executed for it, or mbarrier.inval ended it",
			     EMU_SHARED_BASE + offset, owner->rank);
		return;
	}
	emu_mbarrier_name(lost, name, sizeof name);
	emu_describe_line(lost->made.grid, lost->made.ins, line, sizeof line);
	emu_fault_at(where, "mbarrier-overwritten",
		     "the bytes of %s, initialised at %s, were overwritten by something that is "
		     "no mbarrier operation: its memory overlaps a buffer, or mbarrier.inval is "
		     "missing before the memory is used again",
		     name, line);
}

struct emu_mbarrier *emu_mbarrier_at(struct emu_cta *cta, const struct emu_where *where,
				     uint64_t address)
{
	struct emu_cta *owner;
	uint8_t *bytes = emu_mem_shared(cta, where, address, 8, 8, EMU_UPDATE, &owner);
	struct emu_mbarrier *barrier;
	uint32_t offset;

	if (!bytes)
		return NULL;
	offset = (uint32_t)(address & EMU_SHARED_MASK) - EMU_SHARED_BASE;
	barrier = named_by(emu_async_of_cta(owner), bytes, offset);
	if (!barrier)
		fault_missing(owner, where, offset);
	return barrier;
}

/* ---- the object ------------------------------------------------------------------ */

static void note(struct emu_mbarrier *barrier, const struct emu_where *where,
		 enum emu_mbarrier_event_kind kind, uint32_t amount)
{
	struct emu_mbarrier_event *event =
		&barrier->events[barrier->event_count++ % EMU_MBARRIER_EVENTS];

	*event = (struct emu_mbarrier_event){kind, amount, barrier->phase, *where};
	emu_changed(barrier->cta->worker);
}

static void check_phase(struct emu_mbarrier *barrier)
{
	if (barrier->pending || barrier->tx)
		return;
	barrier->phase++;
	if (barrier->cta->cluster->hazards)
		emu_order_barrier_phase(barrier, barrier->phase);
	barrier->pending = barrier->expected;
	emu_wake(&barrier->waitable);
}

static int describe_event(const struct emu_mbarrier_event *event, char *text, size_t size)
{
	static const char *const kinds[] = {"arrive x", "expect_tx ", "complete_tx ",
					    "tcgen05.commit x"};

	char who[160], line[EMU_LINE_TEXT];

	emu_describe_warp(event->where.grid, event->where.cta, event->where.warp, who, sizeof who);
	emu_describe_line(event->where.grid, event->where.ins, line, sizeof line);
	return snprintf(text, size, "\n      phase %llu: %s%u by %s, %s",
			(unsigned long long)event->phase, kinds[event->kind], event->amount, who,
			line);
}

/* What of the running phase is missing, then the last events. */
void emu_mbarrier_state(const struct emu_mbarrier *barrier, char *text, size_t size)
{
	uint64_t first = barrier->event_count > EMU_MBARRIER_EVENTS
				 ? barrier->event_count - EMU_MBARRIER_EVENTS
				 : 0;
	const char *note = arrivers(barrier);
	char name[400], line[EMU_LINE_TEXT];
	int length;

	emu_mbarrier_name(barrier, name, sizeof name);
	emu_describe_line(barrier->made.grid, barrier->made.ins, line, sizeof line);
	length = snprintf(text, size,
			  "%s, phase %llu (parity %u) is not complete: %u of %u arrivals missing, "
			  "%lld bytes outstanding%s; initialised at %s%s%s; its last events:%s",
			  name, (unsigned long long)barrier->phase, (unsigned)(barrier->phase & 1),
			  barrier->pending, barrier->expected, (long long)barrier->tx,
			  barrier->tx < 0 ? " (more arrived than was expected)" : "", line,
			  note ? "; arrivals come from " : "", note ? note : "",
			  barrier->event_count ? "" : " none");
	for (uint64_t i = first; i < barrier->event_count && length < (int)size; i++)
		length += describe_event(&barrier->events[i % EMU_MBARRIER_EVENTS], text + length,
					 size - (size_t)length);
}

static void describe_wait(const struct emu_waitable *waitable, const struct emu_split *split,
			  char *text, size_t size)
{
	int length = snprintf(text, size, "parity %llu of ", (unsigned long long)split->scratch);

	if (length > 0 && (size_t)length < size)
		emu_mbarrier_state((const struct emu_mbarrier *)waitable, text + length,
				   size - (size_t)length);
}

bool emu_mbarrier_arrive(struct emu_mbarrier *barrier, const struct emu_where *where,
			 enum emu_mbarrier_event_kind kind, uint32_t count)
{
	char state[EMU_ERROR_SIZE / 2];

	if (count > barrier->pending) {
		emu_mbarrier_state(barrier, state, sizeof state);
		emu_fault_at(
			where, "mbarrier-over-arrival",
			"arrival of %u when only %u are left in this phase: the count given to "
			"mbarrier.init is too small, or too many threads arrive; %s",
			count, barrier->pending, state);
		return false;
	}
	note(barrier, where, kind, count);
	barrier->pending -= count;
	check_phase(barrier);
	return true;
}

static bool in_range(struct emu_mbarrier *barrier, const struct emu_where *where, int64_t tx)
{
	char state[EMU_ERROR_SIZE / 2];

	if (tx >= -max_count && tx <= max_count)
		return true;
	emu_mbarrier_state(barrier, state, sizeof state);
	emu_fault_at(where, "mbarrier-tx-range",
		     "the byte count becomes %lld, outside -(2^20-1) .. 2^20-1; %s", (long long)tx,
		     state);
	return false;
}

bool emu_mbarrier_expect_tx(struct emu_mbarrier *barrier, const struct emu_where *where,
			    uint32_t bytes)
{
	if (!in_range(barrier, where, barrier->tx + bytes))
		return false;
	note(barrier, where, EMU_MBARRIER_EXPECT_TX, bytes);
	barrier->tx += bytes;
	return true;
}

bool emu_mbarrier_complete_tx(struct emu_mbarrier *barrier, const struct emu_where *where,
			      uint32_t bytes)
{
	if (!in_range(barrier, where, barrier->tx - bytes))
		return false;
	note(barrier, where, EMU_MBARRIER_COMPLETE_TX, bytes);
	barrier->tx -= bytes;
	check_phase(barrier);
	return true;
}

void emu_mbarrier_cta_exit(struct emu_cta *cta)
{
	struct emu_async_cta *async = emu_async_of_cta(cta);
	char state[EMU_ERROR_SIZE / 2];

	for (uint32_t i = 0; i < async->barrier_count; i++) {
		struct emu_mbarrier *barrier = async->barriers[i];

		if (!barrier->live || !barrier->tx || barrier->waitable.first ||
		    !named_by(async, cta->shared + barrier->offset, barrier->offset))
			continue;
		emu_mbarrier_state(barrier, state, sizeof state);
		emu_fault_at(&barrier->made, "mbarrier-tx",
			     "the CTA ends with bytes outstanding: expect_tx and the copies do not "
			     "add up; %s",
			     state);
	}
}

void emu_mbarrier_cta_free(struct emu_cta *cta)
{
	struct emu_async_cta *async = emu_async_of_cta(cta);

	for (uint32_t i = 0; i < async->barrier_count; i++)
		free(async->barriers[i]);
	free(async->barriers);
}

/* ---- init, inval -------------------------------------------------------------------- */

static struct emu_mbarrier *add_barrier(struct emu_async_cta *async)
{
	struct emu_mbarrier *barrier;

	if (async->barrier_count == async->barrier_room) {
		uint32_t room = async->barrier_room ? 2 * async->barrier_room : 16;
		struct emu_mbarrier **grown =
			realloc(async->barriers, room * sizeof *async->barriers);
		if (!grown)
			return NULL;
		async->barriers = grown;
		async->barrier_room = room;
	}
	barrier = calloc(1, sizeof *barrier);
	if (!barrier)
		return NULL;
	barrier->index = async->barrier_count;
	async->barriers[async->barrier_count++] = barrier;
	return barrier;
}

/* A dead object of the same place is used again: a kernel may init and inval in a loop. */
static struct emu_mbarrier *object_for(struct emu_async_cta *async, uint32_t offset)
{
	for (uint32_t i = 0; i < async->barrier_count; i++)
		if (async->barriers[i]->offset == offset)
			return async->barriers[i];
	return add_barrier(async);
}

static bool init_one(struct emu_warp *warp, int lane, uint64_t address, uint32_t count)
{
	struct emu_where where = emu_here(warp, lane);
	struct emu_cta *owner;
	uint8_t *bytes = emu_mem_shared(warp->cta, &where, address, 8, 8, EMU_WRITE, &owner);
	struct emu_mbarrier *barrier;
	uint32_t words[2] = {mark, 0}, offset;

	if (!bytes)
		return false;
	if (count < 1 || count > max_count) {
		emu_fault(warp, lane, "mbarrier-count",
			  "mbarrier.init with %u arrivals; 1 .. 2^20-1 are possible", count);
		return false;
	}
	offset = (uint32_t)(address & EMU_SHARED_MASK) - EMU_SHARED_BASE;
	barrier = object_for(emu_async_of_cta(owner), offset);
	if (!barrier) {
		emu_fault(warp, lane, "out-of-memory", "the host has no memory for an mbarrier");
		return false;
	}
	if (barrier->live && barrier->waitable.first) {
		char line[EMU_LINE_TEXT];

		emu_describe_line(warp->grid, barrier->made.ins, line, sizeof line);
		emu_fault(warp, lane, "mbarrier-reinitialised",
			  "mbarrier.init of an mbarrier that threads are waiting for (initialised "
			  "at %s)",
			  line);
		return false;
	}
	barrier->cta = owner;
	barrier->offset = offset;
	barrier->live = true;
	barrier->expected = barrier->pending = count;
	barrier->tx = 0;
	barrier->phase = 0;
	barrier->event_count = 0;
	barrier->made = where;
	barrier->passed_by = NULL;
	barrier->first_awaited = false;
	barrier->waitable.describe = describe_wait;
	barrier->waitable.explain = emu_mbarrier_explain;
	words[1] = barrier->index;
	memcpy(bytes, words, sizeof words);
	if (warp->order)
		emu_order_barrier_made(warp->order, barrier);
	emu_changed(warp->worker);
	return true;
}

static enum emu_step execute_init(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(lane, mask)
	{
		uint64_t address = emu_address(warp, &ins->operands[0], (int)lane);
		if (!emu_shared_address(warp, (int)lane, ins->space, &address) ||
		    !init_one(warp, (int)lane, address,
			      (uint32_t)emu_value(warp, &ins->operands[1], (int)lane)))
			return EMU_STOPPED;
	}
	return EMU_NEXT;
}

static enum emu_step execute_inval(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(lane, mask)
	{
		uint64_t address = emu_address(warp, &ins->operands[0], (int)lane);
		struct emu_where where = emu_here(warp, (int)lane);
		struct emu_mbarrier *barrier;

		if (!emu_shared_address(warp, (int)lane, ins->space, &address))
			return EMU_STOPPED;
		barrier = emu_mbarrier_at(warp->cta, &where, address);
		if (!barrier)
			return EMU_STOPPED;
		if (barrier->waitable.first)
			return emu_fault(warp, (int)lane, "mbarrier-invalidated",
					 "mbarrier.inval while threads wait for the mbarrier");
		barrier->live = false;
		memset(barrier->cta->shared + barrier->offset, 0, 8);
	}
	return EMU_NEXT;
}

static bool decode_init(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;

	ins->space = emu_take_space(decode, EMU_GENERIC);
	emu_take(decode, "b64");
	emu_results(ins, 0);
	return emu_want_operands(decode, 2, 2) && emu_want_address(decode, 0) &&
	       (ins->space != EMU_GENERIC || emu_want_generic(decode, 0)) &&
	       emu_want_value(decode, 1, 32);
}

static bool decode_inval(struct emu_decode *decode)
{
	decode->ins->space = emu_take_space(decode, EMU_GENERIC);
	emu_take(decode, "b64");
	emu_results(decode->ins, 0);
	return emu_want_operands(decode, 1, 1) && emu_want_address(decode, 0) &&
	       (decode->ins->space != EMU_GENERIC || emu_want_generic(decode, 0));
}

static const struct emu_opcode rows[] = {
	{"mbarrier.init", decode_init, execute_init, EMU_P_NO_RESULT},
	{"mbarrier.inval", decode_inval, execute_inval, EMU_P_NO_RESULT},
};

EMU_OPCODE_TABLE(mbarrier, rows);

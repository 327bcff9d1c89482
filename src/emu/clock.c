/* Clocks: for each actor, up to which of its epochs something has happened before. */
#include "between.h"

#include <stdlib.h>

/* ---- one clock -------------------------------------------------------------------- */

static bool reach(struct emu_clock *clock, uint32_t count)
{
	uint32_t room = (count + 31) & ~31u;
	uint32_t *at;

	if (count <= clock->count)
		return true;
	at = realloc(clock->at, room * sizeof *at);
	if (!at)
		return false;
	memset(at + clock->count, 0, (room - clock->count) * sizeof *at);
	clock->at = at;
	clock->count = room;
	return true;
}

void emu_clock_raise(struct emu_clock *clock, uint16_t who, uint32_t epoch)
{
	if (who && reach(clock, who + 1u) && clock->at[who] < epoch)
		clock->at[who] = epoch;
}

void emu_clock_join(struct emu_clock *to, const struct emu_clock *from)
{
	if (!from->count || !reach(to, from->count))
		return;
	for (uint32_t i = 0; i < from->count; i++)
		to->at[i] = to->at[i] > from->at[i] ? to->at[i] : from->at[i];
}

void emu_clock_clear(struct emu_clock *clock)
{
	if (clock->count)
		memset(clock->at, 0, clock->count * sizeof *clock->at);
}

void emu_clocks_time(struct emu_clocks *to, double time)
{
	to->time = to->time > time ? to->time : time;
}

void emu_clocks_join(struct emu_clocks *to, const struct emu_clocks *from)
{
	for (int i = 0; i < EMU_CLOCK_COUNT; i++)
		emu_clock_join(&to->clock[i], &from->clock[i]);
	emu_known_join(&to->known, from->known);
	emu_clocks_time(to, from->time);
}

void emu_clocks_raise(struct emu_clocks *clocks, uint16_t who, uint32_t epoch)
{
	for (int i = 0; i < EMU_CLOCK_MAP_RELEASED; i++)
		emu_clock_raise(&clocks->clock[i], who, epoch);
}

void emu_clocks_free(struct emu_clocks *clocks)
{
	for (int i = 0; i < EMU_CLOCK_COUNT; i++)
		free(clocks->clock[i].at);
	emu_known_drop(clocks->known);
}

/* The running phase is complete. */
void emu_sync_flip(struct emu_sync *sync)
{
	struct emu_clocks old = sync->done;

	sync->done = sync->running;
	sync->running = old;
	for (int i = 0; i < EMU_CLOCK_COUNT; i++)
		emu_clock_clear(&sync->running.clock[i]);
	emu_known_drop(sync->running.known);
	sync->running.known = NULL;
	sync->running.time = 0;
}

void emu_sync_free(struct emu_sync *sync)
{
	emu_clocks_free(&sync->running);
	emu_clocks_free(&sync->done);
}

/* Emulated time, and the slices of a trace that it makes. */
#include "timeline.h"

#include <stdio.h>

static const struct {
	int target;
	double mhz, flop;
} machines[] = {
#define MACHINE(target, mhz, flop) {target, mhz, flop},
#include "timeline.def"
};

static const struct {
	const char *beginning;
	double clocks;
} steps[] = {
#define STEP(beginning, clocks) {beginning, clocks},
#include "timeline.def"
};

static const struct {
#define COST(id, value, meaning) double id;
#include "timeline.def"
} cost = {
#define COST(id, value, meaning) .id = value,
#include "timeline.def"
};

static int machine_of(const struct emu_order *order)
{
	int i = 0;

	while (machines[i].target > order->warp->grid->module->sm)
		i++;
	return i;
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

/* ---- slices -----------------------------------------------------------------------------------
 */

static void emit(const struct emu_order *order, const struct emu_cta *cta, const char *track,
		 uint32_t number, const char *kind, const char *name, double start, double end)
{
	const struct emu_launch *launch = order->warp->grid->launch;
	struct emu_trace_event event = {
		.track = track, .track_number = number, .kind = kind, .name = name};
	double to_us = 1 / machines[machine_of(order)].mhz;

	memcpy(event.cta, cta->id, sizeof event.cta);
	event.start = start * to_us;
	event.duration = (end - start) * to_us;
	launch->trace(launch->trace_context, &event);
}

static bool has_roles(const struct emu_launch *launch)
{
	for (int i = 0; i < launch->symbol_count; i++)
		if (launch->symbols[i].space == 'w')
			return true;
	return false;
}

/* Of a role its first warp is shown; where there are no roles, all warps. */
static bool shown(const struct emu_order *order, const char **track, char *text, size_t size)
{
	uint32_t within = 0;
	const struct emu_symbol *role =
		emu_symbol_at(order->warp->grid, 'w', (uint32_t)order->warp->index, &within);

	if (role) {
		*track = role->name;
		return within == 0;
	}
	snprintf(text, size, "warp %d", order->warp->index);
	*track = text;
	return !has_roles(order->warp->grid->launch);
}

static void slice(const struct emu_order *order, const char *kind, const char *name, double start)
{
	char text[32];
	const char *track;

	if (order->time > start && shown(order, &track, text, sizeof text))
		emit(order, order->warp->cta, track, (uint32_t)order->warp->index, kind, name,
		     start, order->time);
}

/* The function's own line, whatever it calls that was inlined. */
static struct emu_position line_of(const struct emu_grid *grid, const struct emu_ins *ins)
{
	struct emu_position at = emu_source_of(grid, ins);

	while (at.inlined_at)
		at = *at.inlined_at;
	return at;
}

/* What the warp did since it came to the line of its script, or of the PTX text. */
static void end_line(struct emu_order *order)
{
	char name[96];

	if (!order->line_ins)
		return;
	struct emu_position at = line_of(order->warp->grid, order->line_ins);

	if (at.file)
		snprintf(name, sizeof name, "line %u", at.line);
	else
		snprintf(name, sizeof name, "PTX from line %u", order->line_ins->line);
	slice(order, "line", name, order->line_start);
	order->line_ins = NULL;
}

static bool same_line(const struct emu_grid *grid, const struct emu_ins *a, const struct emu_ins *b)
{
	struct emu_position before = line_of(grid, a), now = line_of(grid, b);

	return before.file == now.file && before.line == now.line;
}

/* Loads of one line are under way together; the line ends when they have come. */
static void settle_loads(struct emu_order *order)
{
	order->time = order->time > order->loaded ? order->time : order->loaded;
}

/* Where registers are told to others, whatever was loaded is there. */
static bool needs_loads(const struct emu_ins *ins)
{
	static const char *const uses[] = {"st.", "bar", "mbarrier.", "red", "atom"};

	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		if (strncmp(ins->mnemonic, uses[i], strlen(uses[i])) == 0)
			return true;
	return false;
}

void emu_timeline_step(struct emu_warp *warp, const struct emu_ins *ins)
{
	struct emu_order *order = warp->order;
	size_t i = 0;

	if (needs_loads(ins))
		settle_loads(order);
	if (!order->line_ins || !same_line(warp->grid, order->line_ins, ins)) {
		settle_loads(order);
		end_line(order);
		order->line_ins = ins;
		order->line_start = order->time;
	}
	while (strncmp(ins->mnemonic, steps[i].beginning, strlen(steps[i].beginning)) != 0)
		i++;
	order->time += steps[i].clocks;
	if (strncmp(ins->mnemonic, "ld.global", 9) == 0)
		order->loaded = order->time + cost.global_latency;
}

void emu_timeline_wait(struct emu_order *order, double until, const struct emu_mbarrier *barrier,
		       const char *what)
{
	double start = order->time;
	char name[96];
	uint32_t within;
	const struct emu_symbol *symbol;

	if (until <= start)
		return;
	order->time = until;
	if (!barrier) {
		slice(order, "wait", what, start);
		return;
	}
	symbol = emu_symbol_at(order->warp->grid, 'b', barrier->offset, &within);
	if (symbol)
		snprintf(name, sizeof name, "wait %s[%u]", symbol->name, within / 8);
	else
		snprintf(name, sizeof name, "wait mbarrier 0x%x",
			 EMU_SHARED_BASE + barrier->offset);
	slice(order, "wait", name, start);
}

void emu_timeline_cta_exit(const struct emu_cta *cta)
{
	for (uint32_t w = 0; w < cta->warp_count; w++)
		end_line(cta->warps[w]->order);
}

/* ---- engines ----------------------------------------------------------------------------------
 */

static const char *const engine_names[] = {"copies in", "copies out", "tensor core"};

static double use(struct emu_order *order, const struct emu_cta *cta, int engine, double clocks,
		  const char *name)
{
	double *free_at = &emu_hazards_of_cta(cta)->engine_free[engine];
	double start = later(order->time, *free_at);

	*free_at = start + clocks;
	emit(order, cta, engine_names[engine], 1000 + (uint32_t)engine, "engine", name, start,
	     *free_at);
	return *free_at;
}

static const char *copy_name(const struct emu_order *order, uint32_t shared, uint64_t bytes,
			     char *text, size_t size)
{
	uint32_t within;
	const struct emu_symbol *symbol =
		emu_symbol_at(order->warp->grid, 's', shared - EMU_SHARED_BASE, &within);

	snprintf(text, size, "%s, %llu bytes", symbol ? symbol->name : "SMEM",
		 (unsigned long long)bytes);
	return text;
}

double emu_timeline_load(struct emu_order *order, uint32_t shared, uint64_t bytes)
{
	char name[96];

	copy_name(order, shared, bytes, name, sizeof name);
	return use(order, order->warp->cta, EMU_ENGINE_LOAD, (double)bytes / cost.load_bytes,
		   name) +
	       cost.load_latency;
}

double emu_timeline_store(struct emu_order *order, uint32_t shared, uint64_t bytes)
{
	char name[96];

	copy_name(order, shared, bytes, name, sizeof name);
	return use(order, order->warp->cta, EMU_ENGINE_STORE, (double)bytes / cost.store_bytes,
		   name);
}

double emu_timeline_mma(struct emu_order *order, struct emu_cta *cta, int m, int ctas, int n, int k,
			int bits)
{
	char name[64];
	/* Narrower operands go as many times faster as they are narrower; fp6 goes as fp8. */
	double rate = machines[machine_of(order)].flop * (bits > 8   ? 16.0 / bits
							  : bits > 4 ? 2
								     : 4);
	double clocks = 2.0 * m / ctas * n * k / rate;
	double operands = (double)n * k * (bits > 4 ? bits > 8 ? bits : 8 : 4) / 8;

	snprintf(name, sizeof name, "M%d N%d K%d", m, n, k);
	return use(order, cta, EMU_ENGINE_TENSOR, later(clocks, operands / cost.operand_bytes),
		   name);
}

double emu_timeline_tensor_copy(struct emu_order *order, struct emu_cta *cta, uint64_t bytes)
{
	return use(order, cta, EMU_ENGINE_TENSOR, (double)bytes / cost.operand_bytes,
		   "copy to TMEM");
}

double emu_timeline_tmem(const struct emu_order *order, uint64_t words)
{
	return order->time + (double)words / cost.tmem_words + cost.tmem_latency;
}

double emu_timeline_commit(const struct emu_order *order)
{
	const struct emu_cta_hazards *h = emu_hazards_of_cta(order->warp->cta);

	return later(order->time, h->engine_free[EMU_ENGINE_TENSOR]) + cost.commit_latency;
}

/* ---- ends -------------------------------------------------------------------------------------
 */

void emu_timeline_ends(struct emu_order *order, struct emu_moment moment, double end)
{
	struct emu_actor *actor = &order->hazards->actors[moment.who];
	double *at = &actor->end[moment.epoch % EMU_ACTOR_ENDS];

	/* What is older than the ring has ended before what is in it. */
	if (actor->end_epoch[moment.epoch % EMU_ACTOR_ENDS] != moment.epoch)
		*at = 0;
	actor->end_epoch[moment.epoch % EMU_ACTOR_ENDS] = moment.epoch;
	*at = later(*at, end);
}

double emu_timeline_end_of(const struct emu_order *order, uint16_t who, uint32_t epoch)
{
	const struct emu_actor *actor = &order->hazards->actors[who];
	double end = 0;

	for (int i = 0; i < EMU_ACTOR_ENDS; i++)
		if (actor->end_epoch[i] <= epoch)
			end = later(end, actor->end[i]);
	return end;
}

void emu_timeline_bulk_ends(struct emu_order *order, int lane, double end)
{
	emu_timeline_ends(order, emu_moment_of(order, EMU_ACTOR_BULK_READ, lane), end);
	emu_timeline_ends(order, emu_moment_of(order, EMU_ACTOR_BULK_WRITE, lane),
			  end + cost.store_latency);
}

void emu_timeline_wgmma(struct emu_order *order, struct emu_moment moment, int n, int k, int bits)
{
	struct emu_order *group = order - (order->warp->index & 3);

	if (moment.epoch <= group->wgmma_timed)
		return;
	group->wgmma_timed = moment.epoch;
	emu_timeline_ends(order, moment,
			  emu_timeline_mma(order, order->warp->cta, 64, 1, n, k, bits));
}

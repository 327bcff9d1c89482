/*
 * How far the copies of a grid reach into the tensor behind a map.  Boxes that lie
 * outside altogether are no fault: tiles overhang.  Coordinates are likely to be
 * exchanged where there are such boxes and yet half of the tensor is never read, or
 * where two dimensions are gone through as far as, or in steps such as, the
 * other one of the two would be.  A square tensor read in square boxes looks the same
 * either way.
 */
#include "coverage.h"
#include "hazard.h"

#include <stdlib.h>

struct emu_coverage {
	struct emu_coverage *next;
	uint64_t at; /* of the map; its tensor is in `map` */
	struct emu_tensormap map;
	uint64_t reached[EMU_MAX_RANK]; /* end of what was read, by dimension */
	uint64_t step[EMU_MAX_RANK];    /* greatest that divides all coordinates, 0: all are 0 */
	int64_t last[EMU_MAX_RANK];     /* greatest coordinate */
	uint64_t outside;               /* boxes */
	struct emu_where where;         /* of the first such box */
};

static struct emu_coverage *find(struct emu_coverage *list, uint64_t at, uint64_t address)
{
	while (list && (list->at != at || list->map.address != address))
		list = list->next;
	return list;
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static uint64_t size_of(int64_t coordinate)
{
	return (uint64_t)(coordinate < 0 ? -coordinate : coordinate);
}

void emu_coverage_note(struct emu_worker *worker, const struct emu_where *where, uint64_t at,
		       const struct emu_tensormap *map, const int32_t *coordinates)
{
	struct emu_coverage *c = find(worker->coverage, at, map->address);
	bool outside = false;

	if (!c) {
		c = calloc(1, sizeof *c);
		if (!c)
			return;
		c->at = at;
		c->map = *map;
		c->next = worker->coverage;
		worker->coverage = c;
	}
	for (int i = 0; i < map->rank; i++) {
		outside |= coordinates[i] >= (int64_t)map->dims[i] ||
			   coordinates[i] + (int64_t)map->box[i] <= 0;
		c->step[i] = divisor(size_of(coordinates[i]), c->step[i]);
		if (c->last[i] < coordinates[i])
			c->last[i] = coordinates[i];
	}
	if (!c->where.ins || (outside && !c->outside))
		c->where = *where;
	c->outside += outside;
	for (int i = 0; i < map->rank && !outside; i++) {
		uint64_t end = (uint64_t)(coordinates[i] + (int64_t)map->box[i]);

		if (c->reached[i] < end)
			c->reached[i] = end;
	}
}

/* `from` is of later clusters than what is there. */
void emu_coverage_merge(struct emu_coverage **into, struct emu_coverage *from)
{
	struct emu_coverage *next;

	for (; from; from = next) {
		struct emu_coverage *to = find(*into, from->at, from->map.address);

		next = from->next;
		if (!to) {
			from->next = *into;
			*into = from;
			continue;
		}
		if (!to->outside && from->outside)
			to->where = from->where;
		to->outside += from->outside;
		for (int i = 0; i < EMU_MAX_RANK; i++) {
			if (to->reached[i] < from->reached[i])
				to->reached[i] = from->reached[i];
			if (to->last[i] < from->last[i])
				to->last[i] = from->last[i];
			to->step[i] = divisor(to->step[i], from->step[i]);
		}
		free(from);
	}
}

/* Steps of `from` that end where dimension `to` does. */
static bool goes_through(const struct emu_coverage *c, int from, int to)
{
	uint64_t last = (uint64_t)c->last[from], step = c->step[from];

	return last < c->map.dims[to] &&
	       last + (step > c->map.box[to] ? step : c->map.box[to]) >= c->map.dims[to];
}

/* One is left before its end, the other one behind its own: each at the end of the other. */
static bool ends_exchanged(const struct emu_coverage *c, int i, int j)
{
	return c->outside && c->last[j] >= (int64_t)c->map.dims[j] && !goes_through(c, i, i) &&
	       goes_through(c, i, j) && goes_through(c, j, i);
}

/* Boxes of one overlap and those of the other leave out what lies between; exchanged they fit. */
static bool steps_exchanged(const struct emu_coverage *c, int i, int j)
{
	const uint32_t *box = c->map.box;

	return c->step[j] % box[j] && c->step[i] >= 2 * (uint64_t)box[i] &&
	       c->step[i] % box[j] == 0 && c->step[j] % box[i] == 0;
}

static void report(struct emu_grid *grid, const struct emu_coverage *c)
{
	const struct emu_tensormap *map = &c->map;
	struct emu_where where = c->where;

	where.grid = grid;
	for (int i = 0; i < map->rank; i++) {
		if (!c->outside || 2 * c->reached[i] > map->dims[i])
			continue;
		emu_report_rule(&where, EMU_RULE_COVERAGE, NULL,
				"%llu boxes lie outside of the tensor; of its dimension %d only "
				"%llu of %llu elements are ever read through this map",
				(unsigned long long)c->outside, i,
				(unsigned long long)c->reached[i],
				(unsigned long long)map->dims[i]);
		return;
	}
	for (int i = 0; i < map->rank; i++)
		for (int j = 0; j < map->rank; j++) {
			if (i == j || !(ends_exchanged(c, i, j) || steps_exchanged(c, i, j)))
				continue;
			emu_report_rule(
				&where, EMU_RULE_COVERAGE, NULL,
				"boxes of %u by %u elements in dimensions %d and %d, of %llu and "
				"%llu, begin at multiples of %llu up to %lld and of %llu up to "
				"%lld: exchanged they would fit",
				map->box[i], map->box[j], i, j, (unsigned long long)map->dims[i],
				(unsigned long long)map->dims[j], (unsigned long long)c->step[i],
				(long long)c->last[i], (unsigned long long)c->step[j],
				(long long)c->last[j]);
			return;
		}
}

/* In the order of the text, whatever the order of the list. */
void emu_coverage_report(struct emu_grid *grid, const struct emu_coverage *list)
{
	const struct emu_coverage *next;
	uint32_t line = 0;

	do {
		next = NULL;
		for (const struct emu_coverage *c = list; c; c = c->next)
			if (c->where.ins->line > line &&
			    (!next || c->where.ins->line < next->where.ins->line))
				next = c;
		if (next) {
			line = next->where.ins->line;
			report(grid, next);
		}
	} while (next);
}

void emu_coverage_free(struct emu_coverage *list)
{
	while (list) {
		struct emu_coverage *next = list->next;

		free(list);
		list = next;
	}
}

/*
 * How far the copies of a grid reach into the tensor behind a map.  Boxes that lie
 * outside altogether are no fault: tiles overhang.  Where there are such boxes and
 * yet half of the tensor is never read, coordinates are likely to be exchanged.
 */
#include "coverage.h"
#include "hazard.h"

#include <stdlib.h>

struct emu_coverage {
	struct emu_coverage *next;
	uint64_t at; /* of the map; its tensor is in `map` */
	struct emu_tensormap map;
	uint64_t reached[EMU_MAX_RANK]; /* end of what was read, by dimension */
	uint64_t outside;               /* boxes */
	struct emu_where where;         /* of the first such box */
};

static struct emu_coverage *find(struct emu_coverage *list, uint64_t at, uint64_t address)
{
	while (list && (list->at != at || list->map.address != address))
		list = list->next;
	return list;
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
	for (int i = 0; i < map->rank; i++)
		outside |= coordinates[i] >= (int64_t)map->dims[i] ||
			   coordinates[i] + (int64_t)map->box[i] <= 0;
	if (outside && !c->outside++)
		c->where = *where;
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
		if (!to->outside)
			to->where = from->where;
		to->outside += from->outside;
		for (int i = 0; i < EMU_MAX_RANK; i++)
			if (to->reached[i] < from->reached[i])
				to->reached[i] = from->reached[i];
		free(from);
	}
}

static void report(struct emu_grid *grid, const struct emu_coverage *c)
{
	struct emu_where where = c->where;

	where.grid = grid;
	for (int i = 0; i < c->map.rank; i++) {
		if (2 * c->reached[i] > c->map.dims[i])
			continue;
		emu_report_rule(&where, EMU_RULE_COVERAGE, NULL,
				"%llu boxes lie outside of the tensor; of its dimension %d only "
				"%llu of %llu elements are ever read through this map",
				(unsigned long long)c->outside, i,
				(unsigned long long)c->reached[i],
				(unsigned long long)c->map.dims[i]);
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
			if (c->outside && c->where.ins->line > line &&
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

/* What went wrong in a running grid: collected, counted, with its place in the source. */
#include "machine.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_HAZARDS 1000
#define MAX_MESSAGE 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct emu_where emu_here(const struct emu_warp *warp, int lane)
{
	struct emu_where where = {.grid = warp->grid,
				  .ins = warp->ins,
				  .function = warp->frame ? warp->frame->function : NULL,
				  .warp = warp->index,
				  .lane = lane};

	memcpy(where.cta, warp->cta->id, sizeof where.cta);
	return where;
}

const struct emu_source_line *emu_line_of(const struct emu_grid *grid, const struct emu_ins *ins)
{
	const struct emu_launch *launch = grid->launch;
	const struct emu_source_line *found = NULL;
	int low = 0, high = launch->lines ? launch->line_count : 0;

	while (ins && low < high) {
		int middle = (low + high) / 2;

		if (launch->lines[middle].ptx_line <= ins->line) {
			found = &launch->lines[middle];
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return found;
}

/* The launch's table first, then .loc. */
struct emu_position emu_source_of(const struct emu_grid *grid, const struct emu_ins *ins)
{
	const struct emu_source_line *found = emu_line_of(grid, ins);

	if (found && found->file)
		return (struct emu_position){.file = found->file, .line = found->line};
	return ins ? emu_module_position(grid->module, ins) : (struct emu_position){0};
}

/* Both known, or neither. */
static bool same_position(const struct emu_position *a, const struct emu_position *b)
{
	while (a && b && a->file && b->file && a->line == b->line && !strcmp(a->file, b->file)) {
		a = a->inlined_at;
		b = b->inlined_at;
	}
	return (!a || !a->file) && (!b || !b->file);
}

/* By lines of the source where they are known: a loop that is unrolled has many PTX lines. */
static bool same_places(const struct emu_hazard *a, const struct emu_hazard *b)
{
	if (!a->at.file || !b->at.file || !a->other.file != !b->other.file)
		return a->ptx_line == b->ptx_line && a->other_line == b->other_line;
	return same_position(&a->at, &b->at) && same_position(&a->other, &b->other);
}

static struct emu_hazard *known_hazard(const struct emu_grid *grid, const struct emu_hazard *hazard)
{
	struct emu_report *report = grid->report;

	for (int i = 0; i < report->hazard_count; i++)
		if (!strcmp(report->hazards[i].rule, hazard->rule) &&
		    same_places(&report->hazards[i], hazard))
			return &report->hazards[i];
	return NULL;
}

static struct emu_hazard hazard_of(const struct emu_where *where, enum emu_severity severity,
				   const char *rule, const struct emu_ins *other)
{
	struct emu_hazard hazard = {.rule = rule,
				    .severity = severity,
				    .ptx_line = where->ins ? where->ins->line : 0,
				    .other_line = other ? other->line : 0,
				    .warp = where->warp,
				    .role = emu_role_of(where->grid, where->warp),
				    .count = 1};

	memcpy(hazard.cta, where->cta, sizeof hazard.cta);
	hazard.at = emu_source_of(where->grid, where->ins);
	hazard.other = emu_source_of(where->grid, other);
	return hazard;
}

static bool count_again(const struct emu_grid *grid, const struct emu_hazard *hazard)
{
	struct emu_hazard *known = known_hazard(grid, hazard);

	if (known)
		known->count++;
	return known != NULL;
}

/* Keeps a copy with a text of its own. */
static void keep_hazard(struct emu_report *report, const struct emu_hazard *hazard,
			const char *message)
{
	struct emu_hazard *hazards;
	char *copy;

	if (report->hazard_count >= MAX_HAZARDS && hazard->severity != EMU_ERROR)
		return;
	hazards = realloc(report->hazards, ((size_t)report->hazard_count + 1) * sizeof *hazards);
	if (!hazards)
		return;
	report->hazards = hazards;
	copy = malloc(strlen(message) + 1);
	if (!copy)
		return;
	strcpy(copy, message);
	hazards[report->hazard_count] = *hazard;
	hazards[report->hazard_count++].message = copy;
}

static void add_hazard(const struct emu_where *where, enum emu_severity severity, const char *rule,
		       const struct emu_ins *other, const char *message)
{
	struct emu_hazard hazard = hazard_of(where, severity, rule, other);

	if (!count_again(where->grid, &hazard))
		keep_hazard(where->grid->report, &hazard, message);
}

static void report(const struct emu_where *where, enum emu_severity severity, const char *rule,
		   const char *format, va_list arguments)
{
	const struct emu_hint *hint = emu_hint_for(where->grid, rule, where->ins, NULL);
	char *text = malloc(MAX_MESSAGE);
	int used = 0;

	pthread_mutex_lock(&lock);
	if (text) {
		if (where->ins)
			used = snprintf(text, MAX_MESSAGE, "%s: ", where->ins->mnemonic);
		vsnprintf(text + used, (size_t)(MAX_MESSAGE - used), format, arguments);
		if (where->lane >= 0) {
			size_t length = strlen(text);

			snprintf(text + length, MAX_MESSAGE - length, " (lane %d)", where->lane);
		}
		if (hint) {
			size_t length = strlen(text);

			snprintf(text + length, MAX_MESSAGE - length, "\n    fix: %s", hint->text);
		}
	}
	if (!where->grid->stopped || severity != EMU_ERROR)
		add_hazard(where, severity, rule, NULL, text ? text : rule);
	if (severity == EMU_ERROR)
		where->grid->stopped = true;
	pthread_mutex_unlock(&lock);
	free(text);
}

enum emu_step emu_fault(struct emu_warp *warp, int lane, const char *rule, const char *format, ...)
{
	struct emu_where where = emu_here(warp, lane);
	va_list arguments;

	va_start(arguments, format);
	report(&where, EMU_ERROR, rule, format, arguments);
	va_end(arguments);
	return EMU_STOPPED;
}

void emu_fault_at(const struct emu_where *where, const char *rule, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	report(where, EMU_ERROR, rule, format, arguments);
	va_end(arguments);
}

void emu_hazard_at(const struct emu_where *where, enum emu_severity severity, const char *rule,
		   const struct emu_ins *other, const char *text)
{
	pthread_mutex_lock(&lock);
	if (!where->grid->stopped && where->grid->report->hazard_count < MAX_HAZARDS)
		add_hazard(where, severity, rule, other, text);
	pthread_mutex_unlock(&lock);
}

void emu_report_merge(const struct emu_grid *grid, const struct emu_report *part)
{
	for (int i = 0; i < part->hazard_count; i++) {
		const struct emu_hazard *hazard = &part->hazards[i];
		struct emu_hazard *known = known_hazard(grid, hazard);

		if (known)
			known->count += hazard->count;
		else
			keep_hazard(grid->report, hazard, hazard->message);
	}
}

bool emu_hazard_again(const struct emu_where *where, const char *rule, const struct emu_ins *other)
{
	struct emu_hazard hazard = hazard_of(where, EMU_LINT, rule, other);
	bool again;

	pthread_mutex_lock(&lock);
	again = count_again(where->grid, &hazard);
	pthread_mutex_unlock(&lock);
	return again;
}

void emu_report_clear(struct emu_report *report)
{
	for (int i = 0; i < report->hazard_count; i++)
		free(report->hazards[i].message);
	free(report->hazards);
	memset(report, 0, sizeof *report);
}

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

/* The launch's table first, then .loc. */
void emu_source_of(const struct emu_grid *grid, const struct emu_ins *ins, const char **file,
		   uint32_t *line)
{
	const struct emu_launch *launch = grid->launch;
	const struct emu_source_line *found = NULL;
	int low = 0, high = launch->lines ? launch->line_count : 0;

	*file = NULL;
	*line = 0;
	if (!ins)
		return;
	while (low < high) {
		int middle = (low + high) / 2;

		if (launch->lines[middle].ptx_line <= ins->line) {
			found = &launch->lines[middle];
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	if (found && found->file) {
		*file = found->file;
		*line = found->line;
	} else if (ins->source && ins->source < grid->module->location_count) {
		*file = grid->module->locations[ins->source].file;
		*line = grid->module->locations[ins->source].line;
	}
}

static bool count_again(const struct emu_where *where, const char *rule, uint32_t other)
{
	struct emu_report *report = where->grid->report;
	uint32_t line = where->ins ? where->ins->line : 0;

	for (int i = 0; i < report->hazard_count; i++) {
		struct emu_hazard *hazard = &report->hazards[i];

		if (hazard->ptx_line == line && hazard->other_line == other &&
		    !strcmp(hazard->rule, rule)) {
			hazard->count++;
			return true;
		}
	}
	return false;
}

static void add_hazard(const struct emu_where *where, enum emu_severity severity, const char *rule,
		       uint32_t other, const char *message)
{
	struct emu_report *report = where->grid->report;
	uint32_t line = where->ins ? where->ins->line : 0;

	if (count_again(where, rule, other))
		return;
	if (report->hazard_count >= MAX_HAZARDS && severity != EMU_ERROR)
		return;
	struct emu_hazard *hazards =
		realloc(report->hazards, ((size_t)report->hazard_count + 1) * sizeof *hazards);
	char *copy = hazards ? malloc(strlen(message) + 1) : NULL;

	if (hazards)
		report->hazards = hazards;
	if (!copy)
		return;
	strcpy(copy, message);
	struct emu_hazard *hazard = &hazards[report->hazard_count++];

	*hazard = (struct emu_hazard){.rule = rule,
				      .severity = severity,
				      .message = copy,
				      .ptx_line = line,
				      .other_line = other,
				      .warp = where->warp,
				      .count = 1};
	memcpy(hazard->cta, where->cta, sizeof hazard->cta);
	emu_source_of(where->grid, where->ins, &hazard->file, &hazard->line);
}

static void report(const struct emu_where *where, enum emu_severity severity, const char *rule,
		   const char *format, va_list arguments)
{
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
	}
	if (!where->grid->stopped || severity != EMU_ERROR)
		add_hazard(where, severity, rule, 0, text ? text : rule);
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

void emu_lint_at(const struct emu_where *where, const char *rule, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	report(where, EMU_LINT, rule, format, arguments);
	va_end(arguments);
}

void emu_hazard_at(const struct emu_where *where, enum emu_severity severity, const char *rule,
		   const struct emu_ins *other, const char *text)
{
	pthread_mutex_lock(&lock);
	if (!where->grid->stopped && where->grid->report->hazard_count < MAX_HAZARDS)
		add_hazard(where, severity, rule, other ? other->line : 0, text);
	pthread_mutex_unlock(&lock);
}

bool emu_hazard_again(const struct emu_where *where, const char *rule, const struct emu_ins *other)
{
	bool again;

	pthread_mutex_lock(&lock);
	again = count_again(where, rule, other ? other->line : 0);
	pthread_mutex_unlock(&lock);
	return again;
}

const char *emu_symbol_name(const struct emu_grid *grid, int space, uint32_t address,
			    uint32_t *offset)
{
	const struct emu_launch *launch = grid->launch;

	for (int i = 0; launch->symbols && i < launch->symbol_count; i++) {
		const struct emu_symbol *symbol = &launch->symbols[i];

		if (symbol->space == space && address >= symbol->address &&
		    address - symbol->address < symbol->size) {
			*offset = address - symbol->address;
			return symbol->name;
		}
	}
	return NULL;
}

void emu_report_clear(struct emu_report *report)
{
	for (int i = 0; i < report->hazard_count; i++)
		free(report->hazards[i].message);
	free(report->hazards);
	memset(report, 0, sizeof *report);
}

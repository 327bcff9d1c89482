/* Words for reports: what the launch's tables call warps, memory, barriers and lines. */
#include "machine.h"
#include <stdio.h>

const struct emu_symbol *emu_symbol_after(const struct emu_grid *grid,
					  const struct emu_symbol *before, int space,
					  uint32_t address, uint32_t *offset)
{
	const struct emu_launch *launch = grid->launch;
	int first = before ? (int)(before - launch->symbols) + 1 : 0;

	for (int i = first; launch->symbols && i < launch->symbol_count; i++) {
		const struct emu_symbol *symbol = &launch->symbols[i];

		if (symbol->space == space && address >= symbol->address &&
		    address - symbol->address < symbol->size) {
			*offset = address - symbol->address;
			return symbol;
		}
	}
	return NULL;
}

const struct emu_symbol *emu_symbol_at(const struct emu_grid *grid, int space, uint32_t address,
				       uint32_t *offset)
{
	return emu_symbol_after(grid, NULL, space, address, offset);
}

const char *emu_role_of(const struct emu_grid *grid, int warp)
{
	uint32_t within;
	const struct emu_symbol *role =
		warp < 0 ? NULL : emu_symbol_at(grid, 'w', (uint32_t)warp, &within);

	return role ? role->name : NULL;
}

/* A hint without a file is for every line. */
static bool is_of_line(const struct emu_grid *grid, const char *file, uint32_t line,
		       const struct emu_ins *ins)
{
	struct emu_position at = emu_source_of(grid, ins);

	return !file || (at.file && at.line == line && !strcmp(at.file, file));
}

const struct emu_hint *emu_hint_for(const struct emu_grid *grid, const char *rule,
				    const struct emu_ins *ins, const struct emu_ins *other)
{
	const struct emu_launch *launch = grid->launch;

	for (int i = 0; launch->hints && i < launch->hint_count; i++) {
		const struct emu_hint *hint = &launch->hints[i];

		if (!strcmp(hint->rule, rule) && is_of_line(grid, hint->file, hint->line, ins) &&
		    is_of_line(grid, hint->other_file, hint->other_line, other))
			return hint;
	}
	return NULL;
}

int emu_describe_warp(const struct emu_grid *grid, const uint32_t cta[3], int warp, char *text,
		      size_t size)
{
	const char *role = emu_role_of(grid, warp);

	if (role)
		return snprintf(text, size, "CTA (%u,%u,%u) warp %d (role '%s')", cta[0], cta[1],
				cta[2], warp, role);
	return snprintf(text, size, "CTA (%u,%u,%u) warp %d", cta[0], cta[1], cta[2], warp);
}

int emu_position_text(const struct emu_position *position, char *text, size_t size)
{
	const struct emu_position *caller = position->inlined_at;
	const struct emu_position *outermost = caller;
	char near[600] = "", far[600] = "";

	while (outermost && outermost->inlined_at)
		outermost = outermost->inlined_at;
	if (caller)
		snprintf(near, sizeof near, ", inlined at %s:%u", caller->file, caller->line);
	if (outermost != caller)
		snprintf(far, sizeof far, "%s, inlined at %s:%u",
			 caller->inlined_at == outermost ? "" : ", ...", outermost->file,
			 outermost->line);
	return snprintf(text, size, "%s:%u%s%s", position->file, position->line, near, far);
}

int emu_line_text(const struct emu_ins *ins, struct emu_position at, char *text, size_t size)
{
	char source[1800];

	if (!at.file)
		return snprintf(text, size, "PTX line %u", ins->line);
	emu_position_text(&at, source, sizeof source);
	return snprintf(text, size, "PTX line %u (%s)", ins->line, source);
}

int emu_describe_line(const struct emu_grid *grid, const struct emu_ins *ins, char *text,
		      size_t size)
{
	return emu_line_text(ins, emu_source_of(grid, ins), text, size);
}

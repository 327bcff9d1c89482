/* The report of a grid in which nothing can run any more. */
#include "schedule.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_BYTES 16384
#define MAX_LISTED 48

struct text {
	char *bytes;
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...)
{
	va_list arguments;
	int count;

	if (text->used >= TEXT_BYTES - 1)
		return;
	va_start(arguments, format);
	count = vsnprintf(text->bytes + text->used, TEXT_BYTES - text->used, format, arguments);
	va_end(arguments);
	text->used += count > 0 ? (size_t)count : 0;
	if (text->used >= TEXT_BYTES)
		text->used = TEXT_BYTES - 1;
}

static void describe_split(struct text *text, const struct emu_split *split)
{
	const struct emu_warp *warp = split->warp;
	const struct emu_cta *cta = warp->cta;
	const struct emu_ins *ins = &split->frame->function->ins[split->pc];
	const char *file;
	uint32_t line;
	char what[1024] = "";

	emu_source_of(warp->grid, ins, &file, &line);
	say(text, "\n  CTA (%u,%u,%u) warp %d", cta->id[0], cta->id[1], cta->id[2], warp->index);
	if (split->mask != warp->live || warp->live != EMU_FULL)
		say(text, " lanes 0x%08x", split->mask);
	say(text, ", PTX line %u", ins->line);
	if (file)
		say(text, " (%s:%u)", file, line);
	say(text, ", %s: ", ins->mnemonic);
	switch ((enum emu_split_state)split->state) {
	case EMU_SPLIT_BLOCKED:
		if (split->waitable->describe)
			split->waitable->describe(split->waitable, split, what, sizeof what);
		say(text, "waits for %s", what[0] ? what : "a barrier");
		break;
	case EMU_SPLIT_POLLING:
		say(text, "spins on memory that nobody changes");
		break;
	default:
		say(text, "waits for the other lanes of its warp");
	}
}

static void visit(struct emu_worker *worker, struct text *text, struct emu_split **first,
		  int *listed, int *polling)
{
	for (struct emu_cluster *cluster = worker->clusters; cluster; cluster = cluster->next)
		for (int c = 0; c < cluster->cta_count; c++)
			for (uint32_t w = 0; w < cluster->ctas[c]->warp_count; w++)
				for (int i = 0; i < EMU_LANES; i++) {
					struct emu_split *split =
						&cluster->ctas[c]->warps[w]->splits[i];

					if (split->state == EMU_SPLIT_FREE)
						continue;
					if (!*first)
						*first = split;
					*polling += split->state == EMU_SPLIT_POLLING;
					if (++*listed <= MAX_LISTED)
						describe_split(text, split);
				}
}

void emu_report_deadlock(struct emu_worker *worker)
{
	struct text text = {.bytes = malloc(TEXT_BYTES)};
	struct emu_split *first = NULL;
	struct emu_where where = {.grid = worker->grid, .warp = -1, .lane = -1};
	int listed = 0, polling = 0;

	if (text.bytes) {
		text.bytes[0] = 0;
		visit(worker, &text, &first, &listed, &polling);
		if (listed > MAX_LISTED)
			say(&text, "\n  and %d more", listed - MAX_LISTED);
	}
	if (first) {
		where.ins = &first->frame->function->ins[first->pc];
		where.function = first->frame->function;
		where.warp = first->warp->index;
		memcpy(where.cta, first->warp->cta->id, sizeof where.cta);
	}
	emu_fault_at(&where, listed && polling == listed ? "livelock" : "deadlock",
		     "nothing can run any more:%s", text.bytes ? text.bytes : "");
	free(text.bytes);
}

/* The report of a grid in which nothing can run any more. */
#include "deadlock.h"
#include "schedule.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_BYTES 16384
#define WHAT_BYTES 4096
#define MAX_LISTED 48

struct text {
	char *bytes;
	size_t used;
};

/* Warps of a CTA, one behind the other, of which the same is said. */
struct alike {
	const struct emu_cta *cta;
	const char *role;
	int first, last;
	char what[WHAT_BYTES];
};

struct listing {
	struct text text;
	struct emu_split *first;
	struct alike alike; /* not yet said; cta NULL: nothing */
	int listed, splits, polling;
	struct emu_causes causes;
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

/* Where a split stands and what it waits for. */
static void describe_split(const struct emu_split *split, char *text, size_t size)
{
	const struct emu_warp *warp = split->warp;
	const struct emu_ins *ins = &split->frame->function->ins[split->pc];
	char line[512], lanes[32] = "", what[WHAT_BYTES - 1024] = "";

	emu_describe_line(warp->grid, ins, line, sizeof line);
	if (split->mask != warp->live || warp->live != EMU_FULL)
		snprintf(lanes, sizeof lanes, " lanes 0x%08x", split->mask);
	if (split->state == EMU_SPLIT_BLOCKED && split->waitable->describe)
		split->waitable->describe(split->waitable, split, what, sizeof what);
	snprintf(text, size, "%s, %s, %.200s: %s%s", lanes, line, ins->mnemonic,
		 split->state == EMU_SPLIT_BLOCKED   ? "waits for "
		 : split->state == EMU_SPLIT_POLLING ? "spins on memory that nobody changes"
						     : "waits for the other lanes of its warp",
		 split->state != EMU_SPLIT_BLOCKED ? ""
		 : what[0]                         ? what
						   : "a barrier");
}

static void say_alike(struct listing *listing)
{
	const struct alike *alike = &listing->alike;
	const uint32_t *id = alike->cta ? alike->cta->id : NULL;

	if (!alike->cta)
		return;
	if (++listing->listed <= MAX_LISTED) {
		say(&listing->text, "\n  CTA (%u,%u,%u) warp", id[0], id[1], id[2]);
		if (alike->last > alike->first)
			say(&listing->text, "s %d..%d", alike->first, alike->last);
		else
			say(&listing->text, " %d", alike->first);
		if (alike->role)
			say(&listing->text, " (role '%s')", alike->role);
		say(&listing->text, "%s", alike->what);
	}
	listing->alike.cta = NULL;
}

static void add_split(struct listing *listing, struct emu_split *split)
{
	struct alike *alike = &listing->alike;
	const struct emu_warp *warp = split->warp;
	char what[WHAT_BYTES];

	if (!listing->first)
		listing->first = split;
	listing->splits++;
	if (split->state == EMU_SPLIT_BLOCKED && split->waitable->explain)
		split->waitable->explain(split->waitable, split, &listing->causes);
	listing->polling += split->state == EMU_SPLIT_POLLING;
	describe_split(split, what, sizeof what);
	if (alike->cta == warp->cta && warp->index == alike->last + 1 &&
	    !strcmp(what, alike->what) && alike->role == emu_role_of(warp->grid, warp->index)) {
		alike->last++;
		return;
	}
	say_alike(listing);
	alike->cta = warp->cta;
	alike->role = emu_role_of(warp->grid, warp->index);
	alike->first = alike->last = warp->index;
	memcpy(alike->what, what, sizeof what);
}

static void visit(struct emu_worker *worker, struct listing *listing)
{
	for (struct emu_cluster *cluster = worker->clusters; cluster; cluster = cluster->next)
		for (int c = 0; c < cluster->cta_count; c++)
			for (uint32_t w = 0; w < cluster->ctas[c]->warp_count; w++)
				for (int i = 0; i < EMU_LANES; i++) {
					struct emu_split *split =
						&cluster->ctas[c]->warps[w]->splits[i];

					if (split->state != EMU_SPLIT_FREE)
						add_split(listing, split);
				}
	say_alike(listing);
}

/* ---- causes ------------------------------------------------------------------------------ */

struct emu_where emu_where_waiting(const struct emu_split *split)
{
	struct emu_where where = {.grid = split->warp->grid,
				  .ins = &split->frame->function->ins[split->pc],
				  .function = split->frame->function,
				  .warp = split->warp->index,
				  .lane = -1};

	memcpy(where.cta, split->warp->cta->id, sizeof where.cta);
	return where;
}

void emu_cause(struct emu_causes *causes, const char *kind, const char *fix, const char *format,
	       ...)
{
	const struct emu_hint *hint = emu_hint_for(causes->grid, kind, NULL, NULL);
	char cause[EMU_CAUSE_BYTES / 2];
	va_list arguments;
	int count;

	for (int i = 0; i < causes->said_count; i++)
		if (!strcmp(causes->said[i], kind))
			return;
	if (causes->said_count == EMU_CAUSE_KINDS)
		return;
	causes->said[causes->said_count++] = kind;
	va_start(arguments, format);
	vsnprintf(cause, sizeof cause, format, arguments);
	va_end(arguments);
	count = snprintf(causes->text + causes->used, sizeof causes->text - causes->used,
			 "\n    likely: %s\n    fix: %s", cause, hint ? hint->text : fix);
	if (count > 0 && (size_t)count < sizeof causes->text - causes->used)
		causes->used += (size_t)count;
}

void emu_report_deadlock(struct emu_worker *worker)
{
	struct listing *listing = calloc(1, sizeof *listing);
	struct emu_where where = {.grid = worker->grid, .warp = -1, .lane = -1};
	const struct emu_split *first;

	if (listing)
		listing->text.bytes = calloc(1, TEXT_BYTES);
	if (!listing || !listing->text.bytes) {
		emu_fault_at(&where, "deadlock", "nothing can run any more");
		free(listing);
		return;
	}
	listing->causes.grid = worker->grid;
	visit(worker, listing);
	emu_mbarrier_unused(&listing->causes);
	if (listing->listed > MAX_LISTED)
		say(&listing->text, "\n  and %d more", listing->listed - MAX_LISTED);
	first = listing->first;
	if (first)
		where = emu_where_waiting(first);
	emu_fault_at(&where,
		     listing->splits && listing->polling == listing->splits ? "livelock"
									    : "deadlock",
		     "nothing can run any more:%s%s", listing->text.bytes, listing->causes.text);
	free(listing->text.bytes);
	free(listing);
}

/* What the ledger of an mbarrier that threads wait for in vain tells of the reason. */
#include "deadlock.h"
#include "hazard.h"

#include <stdio.h>

enum {
	name_bytes = 400
};

static uint64_t first_event(const struct emu_mbarrier *b)
{
	return b->event_count > EMU_MBARRIER_EVENTS ? b->event_count - EMU_MBARRIER_EVENTS : 0;
}

static const struct emu_mbarrier_event *event(const struct emu_mbarrier *b, uint64_t i)
{
	return &b->events[i % EMU_MBARRIER_EVENTS];
}

static bool arrives(const struct emu_mbarrier_event *e)
{
	return e->kind == EMU_MBARRIER_ARRIVE || e->kind == EMU_MBARRIER_COMMIT;
}

static bool same_cta(const struct emu_mbarrier_event *e, const struct emu_cta *cta)
{
	return !memcmp(e->where.cta, cta->id, sizeof cta->id);
}

static bool same_place(const struct emu_where *a, const struct emu_where *b)
{
	return a->ins == b->ins && a->warp == b->warp && !memcmp(a->cta, b->cta, sizeof a->cta);
}

static bool brings(const struct emu_mbarrier_event *e)
{
	return e->kind == EMU_MBARRIER_COMPLETE_TX;
}

/* Whether the place has an event of the kind in a phase of those given. */
static bool took_part(const struct emu_mbarrier *b, bool (*kind)(const struct emu_mbarrier_event *),
		      const struct emu_where *where, uint64_t from, uint64_t to)
{
	for (uint64_t i = first_event(b); i < b->event_count; i++) {
		const struct emu_mbarrier_event *e = event(b, i);

		if (kind(e) && e->phase >= from && e->phase <= to && same_place(&e->where, where))
			return true;
	}
	return false;
}

/* A place that has an event of the kind in the phase before and none in this one; NULL: none. */
static const struct emu_where *absent(const struct emu_mbarrier *b,
				      bool (*kind)(const struct emu_mbarrier_event *))
{
	for (uint64_t i = first_event(b); b->phase && i < b->event_count; i++) {
		const struct emu_mbarrier_event *e = event(b, i);

		if (kind(e) && e->phase + 1 == b->phase &&
		    !took_part(b, kind, &e->where, b->phase, b->phase))
			return &e->where;
	}
	return NULL;
}

static void describe(const struct emu_where *where, char *text, size_t size)
{
	char line[name_bytes / 2];
	int used = emu_describe_warp(where->grid, where->cta, where->warp, text, size);

	emu_describe_line(where->grid, where->ins, line, sizeof line);
	if (used >= 0 && (size_t)used < size)
		snprintf(text + used, size - (size_t)used, ", %s", line);
}

/* ---- bytes ---------------------------------------------------------------------------- */

/* All arrivals have come, and bytes alone are missing or too many. */
static void wrong_bytes(const struct emu_mbarrier *b, const struct emu_split *split,
			struct emu_causes *causes)
{
	const struct emu_where *missed = b->tx > 0 ? absent(b, brings) : NULL;
	struct emu_where where = emu_where_waiting(split);
	char state[EMU_ERROR_SIZE / 2], name[name_bytes], who[name_bytes];

	if (missed) {
		emu_mbarrier_name(b, name, sizeof name);
		describe(missed, who, sizeof who);
		emu_cause(causes, "deadlock-copy", "a copy in each phase",
			  "%lld bytes of %s are missing: the copy of %s has come in phase %llu and "
			  "not in phase %llu",
			  (long long)b->tx, name, who, (unsigned long long)b->phase - 1,
			  (unsigned long long)b->phase);
		return;
	}
	emu_mbarrier_state(b, state, sizeof state);
	emu_report_rule(&where, EMU_RULE_BARRIER_BYTES, NULL,
			"%s bytes are expected than copies have brought: %s",
			b->tx < 0 ? "fewer" : "more", state);
}

/* ---- parities ---------------------------------------------------------------------------- */

void emu_mbarrier_passed(struct emu_mbarrier *barrier, const struct emu_warp *warp)
{
	if (barrier->phase || barrier->event_count)
		return;
	barrier->passed_by = warp;
	barrier->passed_at = warp->ins;
}

/* One that the same instruction has gone through when it was as this one is. */
static const struct emu_mbarrier *passed_before(const struct emu_mbarrier *b,
						const struct emu_split *split)
{
	const struct emu_async_cta *async = emu_async_of_cta(b->cta);
	const struct emu_ins *ins = &split->frame->function->ins[split->pc];

	if (b->passed_by == split->warp && b->passed_at == ins)
		return NULL;
	for (uint32_t i = 0; i < async->barrier_count; i++)
		if (async->barriers[i]->live && async->barriers[i]->passed_by == split->warp &&
		    async->barriers[i]->passed_at == ins)
			return async->barriers[i];
	return NULL;
}

/* The one at the same place of another CTA, on which there are arrivals and for which nobody waits.
 */
static const struct emu_mbarrier *twin(const struct emu_mbarrier *b)
{
	const struct emu_cluster *cluster = b->cta->cluster;

	for (int c = 0; c < cluster->cta_count; c++) {
		const struct emu_async_cta *async = emu_async_of_cta(cluster->ctas[c]);

		for (uint32_t i = 0; i < async->barrier_count; i++) {
			const struct emu_mbarrier *other = async->barriers[i];

			if (other != b && other->live && other->offset == b->offset &&
			    other->event_count && !other->waitable.first)
				return other;
		}
	}
	return NULL;
}

static void nobody_arrived(const struct emu_mbarrier *b, const struct emu_split *split,
			   struct emu_causes *causes)
{
	const struct emu_mbarrier *other = passed_before(b, split);
	struct emu_where where = emu_where_waiting(split);
	char name[name_bytes], before[name_bytes];

	if (other) {
		emu_mbarrier_name(b, name, sizeof name);
		emu_mbarrier_name(other, before, sizeof before);
		emu_report_rule(&where, EMU_RULE_BARRIER_STEP, NULL,
				"waits for parity 0 of %s, on which nobody has arrived yet; it has "
				"gone through %s by parity 1 when nobody had arrived there either",
				name, before);
		return;
	}
	other = twin(b);
	if (other) {
		emu_mbarrier_name(b, name, sizeof name);
		emu_cause(
			causes, "deadlock-other-cta",
			"arrivals and bytes for the CTA that waits, or a wait in the one that is "
			"told",
			"nobody has arrived on %s of CTA rank %u, and nobody waits for that of CTA "
			"rank %u, which has arrivals",
			name, b->cta->rank, other->cta->rank);
		return;
	}
	causes->unused++;
	causes->several |= causes->barrier && causes->barrier != b;
	if (!causes->barrier)
		causes->barrier = b;
}

void emu_mbarrier_unused(struct emu_causes *causes)
{
	const struct emu_grid *grid = causes->grid;
	const uint32_t *most = grid->kernel->info.max_threads;
	uint64_t threads = (uint64_t)most[0] * (most[1] ? most[1] : 1) * (most[2] ? most[2] : 1);
	char name[name_bytes];

	if (!causes->unused || causes->unused != causes->waits)
		return;
	if (grid->thread_count < threads)
		emu_cause(causes, "deadlock-threads", "a block of all the kernel's threads",
			  "the block has %u threads, the kernel's .maxntid allows %llu: those that "
			  "are to arrive may not be there",
			  grid->thread_count, (unsigned long long)threads);
	emu_mbarrier_name(causes->barrier, name, sizeof name);
	if (causes->several)
		emu_cause(causes, "deadlock-first",
			  "a wait for parity 1 of a barrier on which nobody has arrived is true at "
			  "once: the one that begins waits for that",
			  "nobody has arrived on any barrier that is waited for, such as %s: the "
			  "one that is to begin waits for what follows from its own work",
			  name);
	else
		emu_cause(causes, "deadlock-arrival", "an arrival by a thread that can get there",
			  "nobody has arrived on %s", name);
}

/* ---- arrivals ------------------------------------------------------------------------------ */

/* An arrival of this phase by who waits for it, of a kind that no earlier phase has. */
static const struct emu_where *own_arrival(const struct emu_mbarrier *b,
					   const struct emu_split *split)
{
	for (uint64_t i = first_event(b); b->phase && i < b->event_count; i++) {
		const struct emu_mbarrier_event *e = event(b, i);

		if (arrives(e) && e->phase == b->phase && e->where.warp == split->warp->index &&
		    same_cta(e, split->warp->cta) &&
		    !took_part(b, arrives, &e->where, 0, b->phase - 1))
			return &e->where;
	}
	return NULL;
}

/* All arrivals that there have been are of the barrier's own CTA, which has others beside it. */
static bool peers_missing(const struct emu_mbarrier *b)
{
	uint32_t count = 0;

	for (uint64_t i = first_event(b); i < b->event_count; i++) {
		const struct emu_mbarrier_event *e = event(b, i);

		if (arrives(e) && !same_cta(e, b->cta))
			return false;
		count += arrives(e);
	}
	return count && b->cta->cluster->cta_count > 1;
}

static void arrivals_missing(const struct emu_mbarrier *b, const struct emu_split *split,
			     struct emu_causes *causes)
{
	const struct emu_where *missed = absent(b, arrives), *own = own_arrival(b, split);
	char name[name_bytes], who[name_bytes];

	emu_mbarrier_name(b, name, sizeof name);
	if (own) {
		describe(own, who, sizeof who);
		emu_cause(
			causes, "deadlock-other-barrier", "the barrier that others wait for",
			"the arrival of %s is on %s, which that warp itself waits for, and none of "
			"the phases before has one like it: it may be meant for another barrier",
			who, name);
		return;
	}
	if (b->phase == 1 && split->scratch && !b->first_awaited) {
		emu_cause(causes, "deadlock-parity", "the first wait for parity 0",
			  "nobody has waited for parity 0 of %s, which is complete: the first wait "
			  "is for parity 0; parity 1 passes while phase 0 is open",
			  name);
		return;
	}
	if (peers_missing(b))
		emu_cause(causes, "deadlock-peer",
			  "tcgen05.commit with .multicast::cluster and a mask of both CTAs; mapa "
			  "before mbarrier.arrive.shared::cluster",
			  "%u of %u arrivals on %s are missing, and all that have come are of its "
			  "own "
			  "CTA: those of the other CTAs of the cluster do not reach it",
			  b->pending, b->expected, name);
	else if (missed) {
		describe(missed, who, sizeof who);
		emu_cause(causes, "deadlock-arrival", "an arrival in each phase",
			  "%u of %u arrivals on %s are missing: %s, has arrived in phase %llu and "
			  "not in phase %llu",
			  b->pending, b->expected, name, who, (unsigned long long)b->phase - 1,
			  (unsigned long long)b->phase);
	} else if (b->event_count)
		emu_cause(
			causes, "deadlock-arrival",
			"a smaller count in mbarrier.init, or one more arrival",
			"%u of %u arrivals on %s are missing, and no thread that could still make "
			"them runs: fewer arrive than mbarrier.init says",
			b->pending, b->expected, name);
}

void emu_mbarrier_explain(const struct emu_waitable *waitable, const struct emu_split *split,
			  struct emu_causes *causes)
{
	const struct emu_mbarrier *b = (const struct emu_mbarrier *)waitable;

	causes->waits++;
	if (!b->pending && b->tx)
		wrong_bytes(b, split, causes);
	else if (!b->event_count && !split->scratch)
		nobody_arrived(b, split, causes);
	else if (b->pending)
		arrivals_missing(b, split, causes);
}

/* Shared by verify*.c. */
#ifndef TCMMA_VERIFY_H
#define TCMMA_VERIFY_H

#include "tc.h"

/* Synchronisation: arrivals, waits, accumulators. */
void tc_verify_barriers(struct kern *k);

/*
 * How often an op is executed: `constant` times the trips of each loop in `loop`, whose numbers
 * are not known; not at all where a `when` says so.
 */
#define VERIFY_MAX_LOOPS  16
#define VERIFY_MOST_TIMES (INT64_C(1) << 32) /* of `constant`; more are not counted */
struct times {
	int64_t constant;
	int loops;
	const struct op *loop[VERIFY_MAX_LOOPS];
	bool maybe;  /* below a when */
	bool unsure; /* in a tc.loop (ops before and after its stop differ by one), too deep, too
			often */
};
struct site {
	const struct op *op;
	const struct role *role;
	struct times times;
	const struct op
		*loop; /* the outermost one around it that may have a second turn; NULL: none */
};
/* The ops that synchronise, in program order. */
struct sites {
	struct kern *kern;
	int count, capacity;
	struct site *item;
	const char *where; /* of which CTA of a cluster these are, for messages; NULL: of all */
};
/* The barrier of an op, on which it arrives or waits; NULL: none. */
const struct barrier_ref *tc_site_barrier(const struct op *o);
const struct barrier *tc_site_arrives(const struct op *o);
const struct barrier *tc_site_waits(const struct op *o);
bool tc_site_is_remote(const struct op *o); /* arrives in another CTA */
bool tc_site_copies_to_tmem(const struct op *o);
/* Trips of a range with constant bounds; -1: not known. */
int64_t tc_range_trips(const struct range_op *r);
/* True when b can come after a: later in the text, or around a common loop. */
bool tc_may_follow(const struct site *a, const struct site *b);
const char *tc_barrier_text(struct kern *k, const struct barrier *b);
/* Loops that run equally often: the same one, or ranges of equal bounds. */
bool tc_same_loop(const struct op *a, const struct op *b);
bool tc_same_loops(const struct times *a, const struct times *b);
/* verify_count.c: of all CTAs alike, and of each CTA of a cluster where branches tell them apart */
void tc_verify_counts(const struct sites *s);
void tc_verify_cluster_counts(const struct sites *s);
/* verify_presence.c */
enum presence {
	NEVER,
	MAYBE, /* not known */
	ALWAYS /* at least once, where loops of an unknown number of turns, equal in all CTAs, run
		*/
};
enum presence tc_presence_at(const struct kern *k, const struct op *o, const int *position);
/* It is executed in the CTA once at least; in some CTA. */
bool tc_is_sure_at(const struct kern *k, const struct op *o, const int *position);
bool tc_is_sure(const struct kern *k, const struct op *o);
/* Of an arrival: those of the tensor core of a pair are the first CTA's, in both. */
enum presence tc_arrival_at(const struct kern *k, const struct op *o, const int *position);
/* A range whose bounds, known or not, are the same in all CTAs of a cluster. */
bool tc_runs_alike(const struct kern *k, const struct op *loop);
/* Some CTA executes the op, or an equal one, less often than another along the axes. */
bool tc_leaves_out_some(const struct sites *s, const struct op *o, unsigned axes);
/*
 * Calls fn for the turns in which the op is sure to be executed in the CTA, in their order: for
 * all, for the first ones, before one of which that is not known, or until fn returns true.
 */
enum turns_known {
	FIRST_TURNS,
	ALL_TURNS,
	ENOUGH_TURNS
};
typedef bool tc_turn_fn(void *arg, const struct turn *t);
enum turns_known tc_each_turn(const struct kern *k, const struct op *o, const int *position,
			      tc_turn_fn *fn, void *arg);
/* By the counters of the loops that are around both; 0: it is the same turn of these. */
int tc_compare_turns(const struct turn *a, const struct turn *b);
/* The elements of a view in a turn; false: not known.  Two that have one in common. */
struct box {
	const struct ref *ref;
	int64_t start[TC_MAX_RANK];
};
bool tc_box_in(const struct kern *k, const struct ref *r, const struct turn *t, struct box *b);
bool tc_boxes_meet(const struct box *a, const struct box *b);
/*
 * verify_told.c: whether a role may have heard that something has come true in each CTA.  Arrivals
 * that are an origin tell it of their own CTA.  BY_MMAS: it is an MMA of a pair, and arrivals of
 * such tell of it; BY_THREADS: they tell what who makes them knows.
 */
enum informant {
	BY_MMAS,
	BY_THREADS
};
struct telling {
	const struct sites *sites;
	enum informant by;
	bool (*is_origin)(const struct telling *t, const struct site *arrival);
	/* A copy or a request that CTAs make together, but too early. */
	bool (*tells_nothing)(const struct telling *t, const struct site *together);
	const void *subject; /* of these two */
	int ctas;
	uint8_t *of_barrier, *of_site, *of_loop;
};
void tc_tell(struct telling *t);
/* Of any matter, but for what copies tell: who has heard so has heard in any case. */
struct telling tc_tell_by_arrivals(const struct sites *s, enum informant by);
/* The role may have heard so before it gets to the site, in the CTA of that rank. */
bool tc_is_told(const struct telling *t, const struct site *site, int rank, unsigned axes);
/* verify_multicast.c */
void tc_verify_multicast(const struct sites *s);
/* A branch or a loop decides by the index along the axes whether or how often the op is executed.
 */
bool tc_stands_apart(struct kern *k, const struct op *o, unsigned axes);
/* verify_schedule.c */
void tc_verify_schedule(const struct sites *s);
/* verify_collective.c */
void tc_verify_collective(const struct sites *s);

/* Calls fn for every op, in program order. */
void tc_verify_walk(struct kern *k, void (*fn)(void *arg, const struct site *site), void *arg);

#endif

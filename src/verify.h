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
#define VERIFY_MAX_LOOPS 16
struct times {
	int64_t constant;
	int loops;
	const struct op *loop[VERIFY_MAX_LOOPS];
	bool maybe;  /* below a when */
	bool unsure; /* in a tc.loop (ops before and after its stop differ by one), or too deep */
};
struct site {
	const struct op *op;
	const struct role *role;
	struct times times;
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
/* verify_count.c: of all CTAs alike, and of each CTA of a cluster where branches tell them apart */
void tc_verify_counts(const struct sites *s);
void tc_verify_cluster_counts(const struct sites *s);
/* verify_multicast.c */
void tc_verify_multicast(const struct sites *s);
/* A branch or a loop decides by the index along the axes whether or how often the op is executed.
 */
bool tc_stands_apart(struct kern *k, const struct op *o, unsigned axes);
/*
 * By barrier id: whether arrivals tell of all CTAs along the axes, directly or from somebody who
 * has waited for such.  BY_MMAS: commits of an MMA of these CTAs do; BY_THREADS: they do not.
 */
enum informant {
	BY_MMAS,
	BY_THREADS
};
void tc_mark_informed(const struct sites *s, unsigned axes, enum informant by, bool *informed);
/* verify_schedule.c */
void tc_verify_schedule(const struct sites *s);
/* verify_collective.c */
void tc_verify_collective(const struct sites *s);

/* Calls fn for every op, in program order. */
void tc_verify_walk(struct kern *k, void (*fn)(void *arg, const struct site *site), void *arg);

#endif

/* Shared by verify.c and verify_barrier.c. */
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
/* Calls fn for every op, in program order. */
void tc_verify_walk(struct kern *k, void (*fn)(void *arg, const struct site *site), void *arg);

#endif

/*
 * Emulated time, for traces: each warp, barrier and engine has a clock.  It is carried by what
 * carries the order of events (order.c), so there is none in fast mode.
 */
#ifndef TCMMA_EMU_TIMELINE_H
#define TCMMA_EMU_TIMELINE_H

#include "hazard.h"

static inline bool emu_timeline_on(const struct emu_order *order)
{
	return order && order->hazards->timeline;
}

/* The warp is about to execute the instruction. */
void emu_timeline_step(struct emu_warp *warp, const struct emu_ins *ins);
/* The warp has waited until `until`: for an mbarrier, or for `what`. */
void emu_timeline_wait(struct emu_order *order, double until, const struct emu_mbarrier *barrier,
		       const char *what);
/* The last thread of the CTA has exited. */
void emu_timeline_cta_exit(const struct emu_cta *cta);

/* Engines: the clock at which what is issued now will have ended. */
double emu_timeline_load(struct emu_order *order, uint32_t shared, uint64_t bytes);
double emu_timeline_store(struct emu_order *order, uint32_t shared, uint64_t bytes);
/* An MMA of `m` rows (of one CTA) on the tensor core of `cta`; bits: of the wider operand. */
/* Of `ctas` that share its M rows, the part of one. */
double emu_timeline_mma(struct emu_order *order, struct emu_cta *cta, int m, int ctas, int n, int k,
			int bits);
double emu_timeline_tensor_copy(struct emu_order *order, struct emu_cta *cta, uint64_t bytes);
double emu_timeline_tmem(const struct emu_order *order, uint64_t words);
double emu_timeline_commit(const struct emu_order *order);

/* What was counted for a barrier's running phase comes at `end`. */
void emu_timeline_lands(const struct emu_mbarrier *barrier, double end);
/* The actor's accesses of this epoch have ended then. */
void emu_timeline_ends(struct emu_order *order, struct emu_moment moment, double end);
double emu_timeline_end_of(const struct emu_order *order, uint16_t who, uint32_t epoch);
/* The bulk store that the thread is about to issue. */
void emu_timeline_bulk_ends(struct emu_order *order, int lane, double end);
/* Of 64 rows; the first warp of the group to issue it is on time. */
void emu_timeline_wgmma(struct emu_order *order, struct emu_moment moment, int n, int k, int bits);

#endif

/* What the scheduler, the splits and the control instructions share. */
#ifndef TCMMA_EMU_SCHEDULE_H
#define TCMMA_EMU_SCHEDULE_H

#include "machine.h"

/* ---- splits (split.c) ---- */

struct emu_split *emu_split_new(struct emu_warp *warp, uint32_t mask, uint32_t pc,
				struct emu_frame *frame, int16_t join);
void emu_ready(struct emu_split *split);
void emu_unlink_ready(struct emu_split *split);
/* Makes `split` the running one: banks, predicates, frame. */
void emu_enter(struct emu_warp *warp, struct emu_split *split);
/* pc at which the running split meets others, or EMU_NO_JOIN. */
uint32_t emu_join_pc(const struct emu_split *split);
/* The running split is at its join: true when it goes on, with all the others. */
bool emu_join_arrive(struct emu_split *split);
/* All lanes of the running split are to meet again at `pc`. */
void emu_join_push(struct emu_split *split, uint32_t pc);
/* Parts lanes of the running split to another pc. */
void emu_part_to(struct emu_split *split, uint32_t mask, uint32_t pc);
/* The lanes return from the running split's frame; the frame is not the kernel's. */
enum emu_step emu_return_lanes(struct emu_warp *warp, uint32_t mask);
enum emu_step emu_exit_lanes(struct emu_warp *warp, uint32_t mask);
/*
 * Splits blocked on `waitable` with the same `scratch` at the same place join
 * `into`, which has just been given what they all waited for.
 */
void emu_absorb(struct emu_split *into, struct emu_waitable *waitable, uint64_t scratch);
/* Lets a parked split go on without the others. */
void emu_release_parked(struct emu_split *split);

/* ---- frames (frame.c) ---- */

struct emu_frame *emu_frame_new(struct emu_warp *warp, const struct emu_function *function,
				struct emu_frame *parent, uint32_t local_base);
void emu_frame_results(struct emu_warp *warp, struct emu_frame *frame, uint32_t mask);
bool emu_local_grow(struct emu_warp *warp, uint32_t bytes);

/* ---- barriers that exits complete (barrier.c) ---- */

void emu_barrier_exits(struct emu_warp *warp);
void emu_rendezvous_exits(struct emu_warp *warp);
void emu_cluster_barrier_exits(struct emu_cluster *cluster);
void emu_rendezvous_free(struct emu_warp *warp);
void emu_copies_free(struct emu_warp *warp);

/* ---- clusters (grid.c) ---- */

struct emu_cluster *emu_cluster_new(struct emu_worker *worker, uint64_t index);
void emu_cluster_free(struct emu_cluster *cluster);
void emu_cta_finish(struct emu_cta *cta);

/* ---- engines (engine.c) ---- */

/* Completes the first operation that may, or a random one; false when there is none. */
bool emu_engine_step(struct emu_cluster *cluster, bool any);

/* ---- polling (schedule.c) ---- */

/* A split took a backward branch: EMU_YIELD when it spins, EMU_JUMPED otherwise. */
enum emu_step emu_poll_check(struct emu_warp *warp);

/* Runs the grid on host threads; false, and nothing has run, when its clusters need one. */
bool emu_run_threads(struct emu_grid *grid, int threads);

void emu_schedule(struct emu_worker *worker);
void emu_report_deadlock(struct emu_worker *worker);

#endif

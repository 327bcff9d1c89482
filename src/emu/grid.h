/* The running grid: its workers, clusters, CTAs, warps, splits and frames. */
#ifndef TCMMA_EMU_GRID_H
#define TCMMA_EMU_GRID_H

#include "module.h"

struct emu_split;
struct emu_cta;
struct emu_cluster;
struct emu_grid;
struct emu_worker;
struct emu_order;
struct emu_hazards;
struct emu_between;
struct emu_footprint;
struct emu_coverage;

/*
 * What splits wait for; first member of every object that can be waited for.
 * `describe` writes what the split waits for and what is missing, without a
 * line break; it is called only while the split is blocked.
 */
struct emu_causes; /* deadlock.h */

struct emu_waitable {
	struct emu_split *first, *last;
	void (*describe)(const struct emu_waitable *waitable, const struct emu_split *split,
			 char *text, size_t size);
	/* Where nothing can run any more: why, as far as it can tell; NULL: it cannot. */
	void (*explain)(const struct emu_waitable *waitable, const struct emu_split *split,
			struct emu_causes *causes);
};

/* One call of a function by some lanes of a warp. */
struct emu_frame {
	struct emu_frame *parent;
	const struct emu_function *function;
	uint8_t *rows; /* function->slot_count rows */
	uint32_t *predicates;
	uint32_t return_pc;  /* in the parent */
	uint32_t local_base; /* offset of the frame in local memory */
	uint32_t references; /* splits, child frames and engine operations */
	uint32_t depth;
	const struct emu_ins *call; /* in the parent */
	uint32_t mask;              /* lanes that entered and have not left */
	uint32_t returned;          /* lanes parked at a return */
	uint32_t local_top;         /* end of the frame in local memory, alloca included */
	int16_t join;               /* innermost join of the caller, -1: none */
};

/* Lanes that parted at a branch and meet again at `pc` of `frame`. */
struct emu_join {
	struct emu_frame *frame;
	uint32_t pc;
	uint32_t mask;    /* lanes still to meet */
	uint32_t arrived; /* lanes parked */
	int16_t parent;   /* -1: none */
	bool used;
};

enum emu_split_state {
	EMU_SPLIT_FREE,
	EMU_SPLIT_READY,
	EMU_SPLIT_BLOCKED,
	EMU_SPLIT_PARKED,    /* at a join */
	EMU_SPLIT_RETURNING, /* at a return, until the other lanes of the call return */
	EMU_SPLIT_POLLING    /* spins, and nothing it can see has changed */
};

struct emu_split {
	struct emu_warp *warp;
	struct emu_frame *frame;
	uint32_t pc, mask;
	uint8_t state;
	int16_t join;                      /* innermost, -1: none */
	struct emu_waitable *waitable;     /* while blocked */
	struct emu_split *next, *previous; /* in the queue of its state */
	/* For handlers that block: zero when an instruction is first reached, kept
	   over EMU_BLOCKED, zeroed when the instruction is done. */
	uint32_t stage;
	uint64_t scratch;
	uint8_t timeouts; /* of mbarrier.try_wait, one after the other */
#define EMU_TIMED_OUT 1   /* `stage` of a try_wait that is to return false */
	/* Poll detection. */
	bool polled;
	uint32_t poll_pc, poll_repeats;
	uint64_t poll_hash, poll_changes;
};

struct emu_warp {
	/* What the running instruction sees. */
	uint8_t *bank[4];     /* enum emu_bank */
	uint32_t *predicates; /* of the frame */
	struct emu_frame *frame;
	struct emu_split *split;
	const struct emu_ins *ins;
	uint32_t lane_mask[EMU_LANES]; /* 0 or EMU_FULL, of `lane_mask_of` */
	uint32_t lane_mask_of;
	uint32_t carry;                   /* CC.CF of each lane */
	struct emu_allocation *hit;       /* last allocation accessed */
	struct emu_allocation *recent[3]; /* the ones before it */

	struct emu_cta *cta;
	struct emu_worker *worker;
	struct emu_grid *grid;
	int index;     /* in the CTA */
	uint32_t live; /* lanes that have not exited */
	struct emu_split splits[EMU_LANES];
	int split_count;
	struct emu_join joins[EMU_MAX_JOINS];
	struct emu_rendezvous *rendezvous; /* of .sync operations under divergence */
	struct emu_waitable meeting;
	uint8_t *specials; /* EMU_BANK_WARP */
	uint8_t *local;    /* lane l at l * local_bytes */
	uint32_t local_bytes;
	struct emu_frame *frames_free;
	uint32_t registers;             /* per thread, as setmaxnreg left it */
	uint32_t cluster_arrived;       /* lanes between barrier.cluster.arrive and wait */
	uint32_t cluster_pending;       /* of those, the ones whose phase is still open */
	struct emu_copy_groups *copies; /* cp.async, per lane */
	uint64_t instructions;
	uint64_t random;         /* state of the warp's generator */
	void *async;             /* of the asynchronous half */
	uint32_t attention;      /* flags of instructions that are not simply executed */
	struct emu_order *order; /* of hazard.h; NULL in fast mode */
};

#define EMU_BARRIER_RESULTS 4

struct emu_named_barrier {
	struct emu_waitable waitable;
	uint32_t expected; /* threads; 0: all that have not exited */
	uint32_t count;    /* arrived, in the running phase */
	bool open;         /* has arrivals */
	bool counted;      /* the running phase has a thread count */
	uint64_t phase;
	uint32_t arrived[EMU_MAX_CTA_WARPS]; /* lanes, in the running phase */
	/* bar.red: of the running phase, and of the last ones by phase. */
	uint32_t voted, votes, results[EMU_BARRIER_RESULTS][2];
};

struct emu_cta {
	struct emu_cluster *cluster;
	struct emu_grid *grid;
	struct emu_worker *worker;
	uint32_t id[3];    /* %ctaid */
	uint32_t rank;     /* in the cluster */
	uint32_t rank3[3]; /* %cluster_ctaid */
	uint32_t thread_count, warp_count;
	uint32_t live_threads;
	bool exited;
	uint8_t *shared; /* static, then dynamic */
	uint32_t shared_bytes;
	struct emu_warp **warps;
	struct emu_named_barrier barriers[EMU_NAMED_BARRIERS];
	uint32_t register_pool; /* registers free for setmaxnreg.inc */
	struct emu_waitable pool;
	void *async; /* of the asynchronous half */
};

struct emu_cluster {
	struct emu_grid *grid;
	struct emu_worker *worker;
	uint64_t index;
	uint32_t id[3]; /* %clusterid */
	int cta_count;
	struct emu_cta **ctas; /* by rank */
	uint32_t live_threads;
	uint32_t barrier_arrived; /* threads */
	uint64_t barrier_phase;
	struct emu_waitable barrier;
	struct emu_engine_op *ops, *last_op; /* issued, not complete; in issue order */
	uint32_t op_count;
	bool refused; /* a thread has seen that no other cluster is taken over */
	struct emu_cluster *next, *previous;
	void *async;                 /* of the asynchronous half */
	struct emu_hazards *hazards; /* NULL in fast mode */
};

/* What is wanted of one host thread. */
struct emu_worker {
	struct emu_grid *grid;
	struct emu_cluster *clusters; /* resident */
	int resident_ctas;
	struct emu_split *ready, *ready_last;
	uint32_t ready_count;
	struct emu_split *polling, *polling_last;
	uint64_t changes; /* of memory and barriers, see emu_changed */
	uint64_t instructions, since_admission;
	uint64_t before; /* instructions of clusters that other workers, or this one before, ran */
	uint64_t random;
	struct emu_counters counters;
	struct emu_coverage *coverage; /* of check and random mode */
	struct emu_footprint
		*footprint; /* of the last cluster that was freed, where they are taken */
	uint8_t *specials[EMU_MAX_CTA_WARPS]; /* model of the EMU_BANK_WARP of each warp */
	bool stop;
};

struct emu_grid {
	struct emu *emu;
	const struct emu_module *module;
	const struct emu_function *kernel;
	const struct emu_launch *launch;
	struct emu_report *report;
	uint32_t grid[3], block[3], cluster[3];
	uint64_t cta_count, cluster_count, next_cluster, cluster_ctas;
	uint32_t thread_count, warp_count;
	uint32_t shared_bytes, static_smem;
	uint8_t *params; /* the parameter block */
	uint32_t param_bytes;
	uint32_t registers_per_thread;
	int sm_count;
	uint64_t max_instructions;
	struct emu_between *between; /* of between.h; NULL in fast mode and for a single cluster */
	enum emu_mode mode;
	enum emu_numerics numerics;
	_Atomic bool stopped; /* another host thread may find that an earlier cluster has stopped */
};

#endif

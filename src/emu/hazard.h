/*
 * Hazards: what happens before what, and accesses that nothing orders.
 *
 * Only where a launch asks for it (check and random mode): `order` of a warp
 * and `hazards` of a cluster are NULL in fast mode, and nothing here is called.
 *
 * Every access belongs to an actor: a warp, or a queue of asynchronous
 * operations that later code waits for as one (the copies that one mbarrier
 * counts, the MMAs of one thread, the bulk groups of one thread ...).  An actor
 * has a number, its accesses have epochs, and a clock says for each actor up to
 * which epoch its accesses have happened before.
 */
#ifndef TCMMA_EMU_HAZARD_H
#define TCMMA_EMU_HAZARD_H

#include "async.h"
#include "index.h"

/* ---- clocks -------------------------------------------------------------------- */

struct emu_clock {
	uint32_t *at; /* epoch by actor; 0 behind `count` */
	uint32_t count;
};

/* What has happened before the next access of a kind. */
enum emu_clock_kind {
	EMU_CLOCK_GENERIC,
	EMU_CLOCK_ASYNC_SHARED, /* by the async proxy, to shared memory */
	EMU_CLOCK_ASYNC_GLOBAL,
	EMU_CLOCK_TENSOR,       /* to tensor memory */
	EMU_CLOCK_FENCED,       /* the same, with every tcgen05.fence that the ISA asks for */
	EMU_CLOCK_MAP_RELEASED, /* given to the proxy of tensor maps */
	EMU_CLOCK_MAP,          /* and taken: what reads of a tensor map see */
	EMU_CLOCK_COUNT
};

/* What is known of other clusters; shared by all that know the same, never changed then. */
struct emu_known;

struct emu_clocks {
	struct emu_clock clock[EMU_CLOCK_COUNT];
	struct emu_known *known; /* NULL: nothing */
	double time;             /* emulated: see timeline.h */
};

/* What arrivals bring and waits take away. */
struct emu_sync {
	struct emu_clocks running, done; /* the phase that runs, and the last complete one */
};

enum emu_actor_kind {
	EMU_ACTOR_NONE,
	EMU_ACTOR_WARP,
	EMU_ACTOR_BARRIER,    /* copies that an mbarrier counts; the epoch is the phase */
	EMU_ACTOR_MMA,        /* tcgen05.mma, cp and shift of one thread */
	EMU_ACTOR_WGMMA,      /* of a warpgroup */
	EMU_ACTOR_BULK_READ,  /* source of the bulk stores of one thread; the epoch is the group */
	EMU_ACTOR_BULK_WRITE, /* their destination */
	EMU_ACTOR_CP_ASYNC,   /* of a warp; the epoch is the group */
	EMU_ACTOR_TMEM_LOAD,  /* of a warp */
	EMU_ACTOR_TMEM_STORE,
	EMU_ACTOR_KINDS
};

struct emu_order;
struct emu_access;

/* The actor's number and the epoch of what it does next. */
struct emu_moment {
	uint16_t who;
	uint32_t epoch;
};

/* ---- a warp's place in the order ------------------------------------------------- */

struct emu_pending;
struct emu_taint;

enum {
	EMU_RECENT_SITES = 64,
	EMU_RECENT_WGMMAS = 64
};

/* A wgmma whose operands a warp of the group has been through: what others must know to read them.
 */
struct emu_wgmma_needs {
	uint64_t number;
	struct emu_moment of[2]; /* by operand */
	bool more;               /* than that */
};

struct emu_order {
	struct emu_warp *warp;
	struct emu_hazards *hazards;
	uint16_t self;
	uint16_t mma[EMU_LANES], bulk_read[EMU_LANES], bulk_write[EMU_LANES];
	uint16_t wgmma, copies, tmem_load, tmem_store;
	uint32_t mma_issued[EMU_LANES], bulk_committed[EMU_LANES];
	uint32_t bulk_issued[EMU_LANES]; /* the group of the last bulk store, 0: none */
	uint32_t bulk_site[EMU_LANES];
	uint32_t tmem_loaded, tmem_stored;
	uint32_t load_issued, store_issued; /* the warp's own epoch at its last tcgen05.ld, st */
	struct emu_clocks now;
	struct emu_clock before; /* FENCED at the last tcgen05.fence::before_thread_sync */
	struct emu_clock after;  /* becomes FENCED at tcgen05.fence::after_thread_sync */
	/* By scope: `now` at the last fence, which a relaxed write releases, and what relaxed
	   reads have seen, which the next fence acquires. */
	struct emu_clocks fenced[EMU_SCOPE_COUNT], observed[EMU_SCOPE_COUNT];
	struct emu_clocks missed; /* what a scope that is too narrow has not brought */
	struct emu_pending *pending;
	struct emu_taint *taint;
	struct {
		const struct emu_ins *ins;
		uint32_t site;
	} recent[EMU_RECENT_SITES];          /* sites that were asked for last */
	struct emu_wgmma_needs *wgmma_needs; /* of the first warp of a group, by number */
	/* Emulated time, and the line that the warp has been at since `line_start`. */
	double time, line_start;
	double loaded; /* when the loads of global memory that were issued have come */
	const struct emu_ins *line_ins;
	uint64_t wgmma_timed; /* of the first warp of a group: the last wgmma that has a time */
};

bool emu_hazards_init(struct emu_cluster *cluster);
void emu_hazards_free(struct emu_cluster *cluster);

/* The moment of the next access of a kind; `lane` where the actor is a thread. */
struct emu_moment emu_moment_of(struct emu_order *order, enum emu_actor_kind kind, int lane);
/* That of a copy which the barrier will count. */
struct emu_moment emu_moment_of_barrier(struct emu_order *order,
					const struct emu_mbarrier *barrier);
/*
 * Whether a warp of the group has been through the operands of the instruction and
 * this one knows what must have happened before; if not, this one is noted to do so.
 */
bool emu_wgmma_seen(struct emu_order *order, uint64_t number);
/* What the access has found to have happened before it: operand 0 or 1 of that instruction. */
void emu_wgmma_needs(struct emu_order *order, uint64_t number, int operand,
		     struct emu_access *access);
/* The thread has issued one more bulk store. */
void emu_bulk_issued(struct emu_order *order, int lane);
/* The last thread of the CTA has exited. */
void emu_hazards_cta_exit(const struct emu_cta *cta);
/* One more tcgen05 operation of the thread has been issued. */
void emu_mma_issued(struct emu_order *order, int lane);

/* ---- what orders -------------------------------------------------------------------- */

/* Lanes of the warp have met: what they did before is in order with what they do now. */
void emu_order_warp(struct emu_order *order);
void emu_order_thread_fence(struct emu_order *order, enum emu_scope scope);
void emu_order_tensormap_fence(struct emu_order *order, bool acquire);
/* fence.proxy.async for shared and for global memory. */
void emu_order_proxy_fence(struct emu_order *order, bool shared, bool global);
void emu_order_tcgen05_fence(struct emu_order *order, bool after);
/* The warp has waited for all of the actor up to the epoch. */
void emu_order_waited(struct emu_order *order, uint16_t who, uint32_t epoch);
/* The same for what is not of the async proxy: cp.async. */
void emu_order_waited_generic(struct emu_order *order, uint16_t who, uint32_t epoch);

void emu_order_release(struct emu_order *order, struct emu_clocks *to);
void emu_order_acquire(struct emu_order *order, const struct emu_clocks *from);

/* Clocks: they grow with the actors that they know of; without memory they stay. */
void emu_clock_raise(struct emu_clock *clock, uint16_t who, uint32_t epoch);
void emu_clock_join(struct emu_clock *to, const struct emu_clock *from);
void emu_clock_clear(struct emu_clock *clock);
/* What completes raises all but the clocks of tensor maps. */
void emu_clocks_raise(struct emu_clocks *clocks, uint16_t who, uint32_t epoch);
void emu_clocks_join(struct emu_clocks *to, const struct emu_clocks *from);
void emu_clocks_time(struct emu_clocks *to, double time);
void emu_clocks_free(struct emu_clocks *clocks);
/* The running phase is complete. */
void emu_sync_flip(struct emu_sync *sync);
void emu_sync_free(struct emu_sync *sync);

/* mbarriers: made, about to be used (a report where its init is not ordered), arrived on. */
void emu_order_barrier_made(struct emu_order *order, const struct emu_mbarrier *barrier);
void emu_order_barrier_fence(struct emu_order *order);
void emu_order_barrier_used(struct emu_order *order, const struct emu_mbarrier *barrier);
void emu_order_barrier_arrive(struct emu_order *order, const struct emu_mbarrier *barrier,
			      bool relaxed);
void emu_order_barrier_wait(struct emu_order *order, const struct emu_mbarrier *barrier,
			    bool relaxed);
/* Its phase is about to become `phase`. */
void emu_order_barrier_phase(const struct emu_mbarrier *barrier, uint64_t phase);
/* All earlier tcgen05 operations of a thread arrive: what `emu_order_commit` noted at issue. */
struct emu_clocks *emu_order_commit(struct emu_order *order, int lane);
void emu_order_commit_arrives(const struct emu_mbarrier *barrier, const struct emu_clocks *clocks);
/* Earlier cp.async of the warp up to the group arrive. */
void emu_order_copies_arrive(struct emu_order *order, const struct emu_mbarrier *barrier,
			     uint32_t group);
/* A copy issued in `phase` of the barrier is counted now. */
void emu_order_landed(const struct emu_where *where, const struct emu_mbarrier *barrier,
		      uint64_t phase);
/* bar.sync and barrier.cluster. */
void emu_order_named_arrive(struct emu_order *order, int barrier);
void emu_order_named_complete(struct emu_cta *cta, int barrier);
void emu_order_named_wait(struct emu_order *order, int barrier);
/* Every warp of the CTA is at a barrier that it waits for. */
void emu_order_cta_met(struct emu_cta *cta);
void emu_order_cluster_arrive(struct emu_order *order);
void emu_order_cluster_complete(struct emu_cluster *cluster);
void emu_order_cluster_wait(struct emu_order *order);

/* ---- accesses -------------------------------------------------------------------------- */

enum {
	EMU_MAX_ACCESS = 32, /* bytes of a lane */
	EMU_ANY_LANE = 0xff, /* of the warp together */
	EMU_SEVERAL_LANES = 0xfe
};

struct emu_access {
	struct emu_order *order;
	struct emu_moment moment;
	uint16_t also;       /* an actor whose accesses are in order with these */
	uint8_t kind;        /* enum emu_actor_kind */
	uint8_t lane;        /* EMU_ANY_LANE: of the warp */
	uint8_t lane_bytes;  /* the bytes belong to lanes from `lane` on, so many to each; 0: to one
			      */
	uint32_t same_lanes; /* those of which `same` is true, where there are many */
	const struct emu_stored *stored; /* that tells them; NULL: they are known */
	bool write;
	bool atomic;     /* does not race with its like */
	bool defined;    /* it reads: bytes that nobody has written are reported */
	bool in_order;   /* with the actor's own earlier accesses */
	bool proxy;      /* async: earlier writes must be visible to that proxy */
	bool same;       /* it writes what is there already */
	bool map;        /* by the proxy of tensor maps */
	bool looking;    /* nothing of it is noted */
	bool late;       /* a read that later ones may stand before: none is forgotten for it */
	uint8_t swizzle; /* of a tensor copy: 1 + that of its map; 0: of anything else */
	uint8_t scope;   /* of an atomic one, enum emu_scope */
	bool reported, linted; /* one error and one lint for an instruction */
	uint32_t site;
	/* An actor other than its own whose writes up to the epoch are in order with it. */
	uint16_t ordered_who;
	uint32_t ordered_epoch;
	bool ordered_others; /* there are more of these actors */
};

struct emu_access emu_access_by_warp(struct emu_order *order, int lane, enum emu_access_kind kind,
				     bool atomic);
struct emu_access emu_access_by(struct emu_order *order, enum emu_actor_kind actor, int lane,
				struct emu_moment moment, enum emu_access_kind kind);
void emu_access_shared(struct emu_access *access, struct emu_cta *cta, uint32_t offset,
		       uint32_t size);
/* The 128 bytes of a tensor map that an instruction takes; those of parameters never change. */
void emu_watch_map(struct emu_warp *warp, int lane, uint64_t address);
struct emu_watched {
	struct emu_access access;
	struct emu_cta *cta;
	uint8_t swizzle; /* 1 + enum emu_swizzle of the descriptor; 0: not compared */
};
/* The 16-byte units that emu_operand_units visits (operand_watch.c). */
void emu_watch_operand(struct emu_watched *watched, const struct emu_smem_descriptor *descriptor,
		       bool mn_major, int element_bytes, int rows, int k_bytes);
void emu_access_global(struct emu_access *access, uint64_t address, uint64_t size);
/* Columns of 16 lanes; bit i of `lanes` is lane 16 * window + i. */
void emu_access_tmem(struct emu_access *access, struct emu_cta *cta, uint32_t column,
		     uint32_t columns, uint32_t window, uint16_t lanes);
/* The same for whole windows [lane, lane + lanes). */
void emu_access_tmem_lanes(struct emu_access *access, struct emu_cta *cta, uint32_t column,
			   uint32_t columns, uint32_t lane, uint32_t lanes);
/* Columns that nobody has touched. */
void emu_access_tmem_fresh(struct emu_cta *cta, uint32_t column, uint32_t columns);

/* A store: threads that store what is there already do not race with the one that stored it. */
struct emu_stored {
	uint32_t mask, size; /* bytes of a lane */
	uint8_t *run;        /* where lane 0 stores and the others behind it; NULL: at `at` */
	uint8_t *const *at;
	uint8_t before[EMU_LANES * EMU_MAX_ACCESS];
};
/* Before the store: what is there. */
void emu_watch_keep(struct emu_stored *stored);
/* Lanes that have stored what was there. */
uint32_t emu_stored_same(const struct emu_stored *stored);

/* A load, store or atomic; `stored` of a store that has been done, else NULL. */
void emu_watch_lanes(struct emu_warp *warp, const struct emu_ins *ins, const uint64_t *address,
		     uint32_t mask, const struct emu_stored *stored, uint32_t size,
		     enum emu_access_kind kind);
/* The same of weak lanes, or of such that synchronise nothing. */
void emu_watch_access(struct emu_access *access, enum emu_space space, const uint64_t *address,
		      uint32_t mask, uint32_t size);
/* The same of all lanes of a warp, each `size` bytes behind the one before it; weak. */
void emu_watch_run(struct emu_warp *warp, const struct emu_ins *ins, uint64_t address,
		   const struct emu_stored *stored, uint32_t size, enum emu_access_kind kind);
/* Stores of lanes to a space are about to change memory. */
void emu_watch_before_write(struct emu_warp *warp, enum emu_space space, const uint64_t *address,
			    uint32_t mask, uint32_t size);
/* One lane's, or of the warp together (lane -1), by a generic or shared address. */
void emu_watch_one(struct emu_warp *warp, int lane, enum emu_space space, uint64_t address,
		   uint32_t size, enum emu_access_kind kind);

/* Several lanes issue an asynchronous operation: a report where two issue the same. */
void emu_watch_issue(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);

/* ---- registers ------------------------------------------------------------------------------ */

/* tcgen05.ld writes them until the wait; wgmma until instruction `number` has been waited for. */
void emu_pending_load(struct emu_order *order, const struct emu_operand *values);
void emu_pending_loaded(struct emu_order *order);
void emu_pending_wgmma(struct emu_order *order, const struct emu_ins *ins, uint64_t number,
		       bool accumulate);
void emu_pending_wgmma_done(struct emu_order *order, uint64_t number);
void emu_pending_wgmma_fence(struct emu_order *order);
/* An instruction with EMU_I_PENDING is about to be executed. */
void emu_pending_check(struct emu_warp *warp, const struct emu_ins *ins);
void emu_pending_free(struct emu_pending *pending);

/* ---- undefined values (taint.c) ----------------------------------------------------------------
 */

/* Where an undefined value comes from. */
struct emu_taint_origin {
	const struct emu_ins *by; /* what loaded it; NULL: a register */
	uint8_t kind;             /* enum emu_taint_kind */
};

/* An instruction with EMU_I_TAINT is about to be executed by the lanes. */
void emu_taint_step(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);
/* No lane executes it. */
void emu_taint_guard(struct emu_warp *warp, const struct emu_ins *ins);
/* Lanes of a register of the running frame that are undefined. */
uint32_t emu_taint_read(struct emu_warp *warp, const struct emu_operand *operand, uint32_t mask,
			struct emu_taint_origin *from);
/* The registers of an operand become undefined in `lanes` of `mask`, and defined in the others. */
void emu_taint_write(struct emu_warp *warp, const struct emu_operand *operand, uint32_t mask,
		     uint32_t lanes, struct emu_taint_origin from);
/* tcgen05.ld brings the lanes of a register what nothing has written. */
void emu_taint_loaded(struct emu_warp *warp, const struct emu_operand *item, uint32_t lanes);
/* A function is called: its local memory, then each parameter; then it returns each result. */
void emu_taint_enter(struct emu_warp *warp, const struct emu_frame *callee, uint32_t mask);
void emu_taint_pass(struct emu_warp *warp, const struct emu_frame *caller,
		    const struct emu_frame *callee, const struct emu_variable *param,
		    const struct emu_operand *from, uint32_t mask);
void emu_taint_result(struct emu_warp *warp, const struct emu_frame *callee,
		      const struct emu_variable *result, const struct emu_operand *to,
		      uint32_t mask);
/* The frame is about to be freed. */
void emu_taint_leave(struct emu_order *order, const struct emu_frame *frame);
void emu_taint_free(struct emu_taint *taint);
/* Lanes of a warp's window that nothing has written in the column. */
uint32_t emu_tmem_undefined(const struct emu_cta *cta, uint32_t column, uint32_t lane);
/* The columns of 32 lanes from `lane` on are written; false where that is not easily told. */
bool emu_tmem_written(const struct emu_cta *cta, uint32_t column, uint32_t columns, uint32_t lane);

/* ---- reports -----------------------------------------------------------------------------------
 */

enum emu_rule {
#define EMU_RULE(id, name, severity, section, text, fix) EMU_RULE_##id,
#include "rules.def"
#undef EMU_RULE
	EMU_RULE_COUNT
};

/* Who made an access. */
struct emu_site {
	const struct emu_ins *ins;
	const struct emu_function *function;
	uint32_t cta[3];
	int warp;
	uint32_t key; /* of the warp in the cluster */
};

/* Where it was. */
struct emu_spot {
	enum emu_space space; /* EMU_REG: tensor memory */
	const struct emu_cta *cta;
	uint64_t address;
	uint32_t size;
};

/* The other side of a race: an earlier access. */
struct emu_earlier {
	struct emu_moment moment;
	uint32_t site;
	uint8_t lane;
	bool write, atomic;
};

struct emu_foreign;

/* The same where the other side belongs to another cluster. */
void emu_report_foreign(struct emu_access *access, const struct emu_foreign *earlier,
			const struct emu_spot *spot);
void emu_report_race(struct emu_access *access, const struct emu_earlier *earlier,
		     const struct emu_spot *spot);
void emu_report_undefined(struct emu_access *access, const struct emu_spot *spot);
/* Of the running instruction, without another side or with one (`other` may be NULL). */
void emu_report_rule(const struct emu_where *where, enum emu_rule rule, const struct emu_ins *other,
		     const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- the state of a cluster
 * ---------------------------------------------------------------------- */

enum {
	EMU_ACTOR_ENDS = 16
};

struct emu_actor {
	double end[EMU_ACTOR_ENDS]; /* emulated, by epoch */
	uint32_t end_epoch[EMU_ACTOR_ENDS];
	uint8_t kind;
	uint8_t lane;
	struct emu_order *order;            /* of the warp that issues; NULL for a barrier */
	const struct emu_mbarrier *barrier; /* of EMU_ACTOR_BARRIER */
};

/* Structures of shadow.h. */
struct emu_cell {
	uint32_t write_epoch, read_epoch;
	uint32_t write_site, read_site;
	uint16_t write_who, read_who;
	uint16_t valid; /* bytes, or lanes of tensor memory, that have been written */
	uint8_t write_lane, read_lane;
	uint8_t write_bytes, read_bytes;   /* of a word */
	uint8_t write_atomic, read_atomic; /* enum emu_scope */
	uint32_t more;                     /* further readers: index, 0: none */
	uint32_t words; /* the cell is split into words: index of the four, 0: it is not */
};

struct emu_reader {
	struct emu_moment moment;
	uint32_t site, next;
	uint8_t lane, bytes;
	uint8_t atomic;
};

enum {
	EMU_CELL_BYTES = 16,
	EMU_BLOCK_CELLS = 8,
	EMU_BLOCK_BYTES = EMU_BLOCK_CELLS * EMU_CELL_BYTES,
	EMU_BLOCK_UNITS = EMU_BLOCK_BYTES / 4,
	EMU_PAGE_BLOCKS = 8,
	EMU_PAGE_CELLS = EMU_PAGE_BLOCKS * EMU_BLOCK_CELLS,
	EMU_PAGE_BYTES = EMU_PAGE_BLOCKS * EMU_BLOCK_BYTES,
	EMU_PAGE_HITS = 256,
	EMU_OPERAND_KINDS = 16,
	EMU_TMEM_WINDOW = 16,
	EMU_TMEM_WINDOWS = EMU_TMEM_LANES / EMU_TMEM_WINDOW
};

struct emu_words {
	struct emu_cell of[EMU_CELL_BYTES / 4];
};

struct emu_cells {
	struct emu_cell of[EMU_BLOCK_CELLS];
};

/* Who touched units of a block, which belong to lanes: byte b to lane + (b >> shift). */
struct emu_mark {
	uint32_t units; /* a bit each; 0: it is none */
	uint32_t epoch, site;
	uint32_t next; /* of further ones: index, 0: none */
	uint16_t who;
	uint8_t atomic; /* enum emu_scope */
	int8_t lane;    /* -1 with EMU_ONE_LANE: EMU_ANY_LANE */
	uint8_t shift;
	bool write;
};

/* Of units.h. */
struct emu_notes {
	struct emu_note *items;
	uint32_t count, room;
	uint32_t limit; /* notes from which on they are swept */
	uint32_t sweeps;
	uint8_t (*rows)[EMU_BLOCK_UNITS]; /* lanes by unit */
	uint32_t row_count, row_room;
};

struct emu_block {
	struct emu_mark write, read; /* the last ones */
	uint32_t more;               /* further ones, the last first: index, 0: none */
	uint32_t more_units;         /* no others are theirs */
	uint32_t more_count;
	uint32_t valid; /* units that have been written */
	/* What there is instead of marks: an index, 0: it is not that. */
	uint32_t units, cells;
};

struct emu_page {
	uint64_t number;                  /* address / EMU_PAGE_BYTES */
	struct emu_between_page *between; /* what all clusters did there; NULL: not looked up */
	bool saved;                       /* what stood there before the launch is kept */
	struct emu_block blocks[EMU_PAGE_BLOCKS];
};

struct emu_barrier_order {
	struct emu_sync sync;
	uint16_t actor;
	struct emu_moment made;
	bool fenced; /* by fence.mbarrier_init */
};

enum emu_engine {
	EMU_ENGINE_LOAD,
	EMU_ENGINE_STORE,
	EMU_ENGINE_TENSOR,
	EMU_ENGINE_COUNT
};

struct emu_cta_hazards {
	double engine_free[EMU_ENGINE_COUNT]; /* emulated time */
	struct emu_block *blocks;             /* of shared memory */
	uint8_t *swizzles; /* of the tensor copy that wrote a cell: 1 + its map's */
	uint32_t met;      /* the last note (units.h) when all warps were at one barrier */
	/* Reads of later.h, and whether there may be none: shared memory has been written by the
	   CTA's warps since then, or ever by others; and bytes that have all been written. */
	struct emu_later *later;
	uint32_t later_count;
	bool wrote, at_once;
	uint32_t written;
	struct emu_block *tmem; /* column / EMU_BLOCK_CELLS * EMU_TMEM_WINDOWS + window */
	struct emu_barrier_order **barriers; /* by index */
	uint32_t barrier_room;
	struct emu_sync named[EMU_NAMED_BARRIERS];
};

struct emu_hazards {
	struct emu_cluster *cluster;
	struct emu_order *orders; /* cta rank * warp_count + warp */
	uint32_t order_count;
	struct emu_cta_hazards *ctas;
	struct emu_actor *actors;
	uint32_t actor_count, actor_room;
	struct emu_site *sites;
	uint32_t site_count, site_room;
	uint32_t *site_table; /* 1 + index */
	uint32_t site_buckets;
	struct emu_pool marks, readers;
	struct emu_pool units, cells, words; /* of struct emu_units, emu_cells, emu_words */
	struct emu_notes notes;
	struct emu_index pages;                                 /* of struct emu_page */
	struct emu_page *page_hits[EMU_PAGE_HITS];              /* by number */
	struct emu_operand_blocks *operands[EMU_OPERAND_KINDS]; /* that were looked at last */
	struct emu_places *places;                              /* of shared memory */
	struct emu_sync barrier;                                /* of the cluster */
	bool joined;   /* those that look at each other's accesses */
	bool timeline; /* emulated time is kept */
};

static inline struct emu_cta_hazards *emu_hazards_of_cta(const struct emu_cta *cta)
{
	return &cta->cluster->hazards->ctas[cta->rank];
}

static inline uint32_t emu_clock_at(const struct emu_clock *clock, uint16_t who)
{
	return who < clock->count ? clock->at[who] : 0;
}

/* Its number; 0, for which nothing is checked, when there are too many. */
uint16_t emu_add_actor(struct emu_hazards *hazards, struct emu_actor actor);
void emu_operands_free(struct emu_hazards *hazards);
uint32_t emu_site_found(struct emu_order *order);

/* The site of the running instruction of the warp: 1 + index; 0 without memory. */
static inline uint32_t emu_site_of(struct emu_order *order)
{
	const struct emu_ins *ins = order->warp->ins;
	uint32_t slot = (uint32_t)((uintptr_t)ins / sizeof *ins) % EMU_RECENT_SITES;

	return order->recent[slot].ins == ins ? order->recent[slot].site : emu_site_found(order);
}
/* Cells of [number * EMU_PAGE_BYTES, + EMU_PAGE_BYTES); NULL when there is no memory. */
struct emu_page *emu_page_of(struct emu_hazards *hazards, uint64_t number);

#endif

/*
 * The asynchronous half of the machine: mbarriers, TMA, tensor memory, tensor
 * cores.  What a CTA or a warp has in flight hangs on its `async` member.
 */
#ifndef TCMMA_EMU_ASYNC_H
#define TCMMA_EMU_ASYNC_H

#include "machine.h"
#include "tensor.h"

/* ---- instructions ------------------------------------------------------------- */

/* Operands of `written` are results; all others are read. */
static inline void emu_results(struct emu_ins *ins, uint32_t written)
{
	ins->written = written;
	ins->read = ((1u << ins->operand_count) - 1) & ~written;
}

/* ---- mbarriers (9.1) ------------------------------------------------------------ */

enum {
	EMU_MBARRIER_EVENTS = 12
};

enum emu_mbarrier_event_kind {
	EMU_MBARRIER_ARRIVE,
	EMU_MBARRIER_EXPECT_TX,
	EMU_MBARRIER_COMPLETE_TX,
	EMU_MBARRIER_COMMIT
};

struct emu_mbarrier_event {
	enum emu_mbarrier_event_kind kind;
	uint32_t amount; /* arrivals or bytes */
	uint64_t phase;
	struct emu_where where;
};

struct emu_mbarrier {
	struct emu_waitable waitable;
	struct emu_cta *cta;
	uint32_t offset; /* in the CTA's shared memory */
	uint32_t index;  /* in the CTA's table */
	bool live;
	uint32_t expected, pending;
	int64_t tx; /* bytes announced and not yet complete */
	uint64_t phase;
	struct emu_where made;
	struct emu_mbarrier_event events[EMU_MBARRIER_EVENTS];
	uint64_t event_count;
	/* Who has waited for it by parity 1 when it was as it was made. */
	const struct emu_warp *passed_by;
	const struct emu_ins *passed_at;
	bool first_awaited; /* somebody has waited for parity 0 */
};

/*
 * The live barrier at a 32-bit shared address as seen from `cta`; NULL after a
 * fault: no barrier was made there, or its bytes were overwritten since.
 */
struct emu_mbarrier *emu_mbarrier_at(struct emu_cta *cta, const struct emu_where *where,
				     uint64_t address);
/* False after a fault. */
bool emu_mbarrier_arrive(struct emu_mbarrier *barrier, const struct emu_where *where,
			 enum emu_mbarrier_event_kind kind, uint32_t count);
bool emu_mbarrier_expect_tx(struct emu_mbarrier *barrier, const struct emu_where *where,
			    uint32_t bytes);
bool emu_mbarrier_complete_tx(struct emu_mbarrier *barrier, const struct emu_where *where,
			      uint32_t bytes);
/* Barriers that the CTA leaves with bytes outstanding. */
void emu_mbarrier_cta_exit(struct emu_cta *cta);
void emu_mbarrier_cta_free(struct emu_cta *cta);

/* ---- bulk groups: per thread, in order of commit --------------------------------- */

struct emu_bulk_group {
	struct emu_bulk_group *next;
	uint32_t open; /* operations not complete */
	bool committed;
};

/* The uncommitted group of a thread; NULL after a fault. */
struct emu_bulk_group *emu_bulk_current(struct emu_warp *warp, int lane);
/* One operation of the group is complete; NULL: it belongs to none. */
void emu_bulk_done(struct emu_warp *warp, struct emu_bulk_group *group);

/* ---- reductions in memory (8.3) -------------------------------------------------- */

enum emu_reduction {
	EMU_REDUCE_ADD,
	EMU_REDUCE_MIN,
	EMU_REDUCE_MAX,
	EMU_REDUCE_INC,
	EMU_REDUCE_DEC,
	EMU_REDUCE_AND,
	EMU_REDUCE_OR,
	EMU_REDUCE_XOR
};

extern const char *const emu_reduction_names[]; /* NULL-terminated */

/* False when the operation does not exist for the type. */
/* Into shared memory: fewer combinations than into global memory. */
bool emu_reduction_in_shared(enum emu_reduction reduction, enum emu_type type);
bool emu_reduction_legal(enum emu_reduction reduction, enum emu_type type);
/* The sums of a tensor of FLOAT32_FTZ: subnormals are zeros before and after. */
void emu_reduce_flushed(uint8_t *target, const uint8_t *source, uint32_t size);
/* target[i] = target[i] op source[i] over `size` bytes of elements of `type`. */
void emu_reduce(enum emu_reduction reduction, enum emu_type type, uint8_t *target,
		const uint8_t *source, uint32_t size);

/* ---- tensor memory (1, 4) ---------------------------------------------------------- */

enum {
	EMU_TMEM_LANES = 128,
	EMU_TMEM_COLUMNS = 512,
	EMU_TMEM_GRANULE = 32
};

struct emu_tmem_allocation {
	uint16_t column, columns;
	uint8_t cta_group;
	bool live;
	struct emu_where made;
};

enum {
	EMU_TMEM_ALLOCATIONS = EMU_TMEM_COLUMNS / EMU_TMEM_GRANULE
};

typedef uint32_t emu_tmem_column[EMU_TMEM_LANES];

struct emu_tmem {
	emu_tmem_column *columns; /* NULL until the first allocation */
	struct emu_tmem_allocation allocations[EMU_TMEM_ALLOCATIONS];
	bool relinquished;
	struct emu_where relinquished_by;
	struct emu_waitable freed;  /* tcgen05.alloc that found no room */
	struct emu_waitable paired; /* tcgen05.alloc.cta_group::2 that waits for the peer */
	uint32_t request, grant;    /* columns wanted; column + 1 granted by the peer */
	uint64_t request_destination;
	struct emu_where requested_by;
};

/*
 * True when columns [column, column + count) belong to live allocations; else a
 * fault naming `what`.
 */
bool emu_tmem_check(struct emu_cta *cta, const struct emu_where *where, uint32_t column,
		    uint32_t count, const char *what);
void emu_tmem_cta_exit(struct emu_cta *cta);
/* The other CTA of the pair; NULL when the cluster has none. */
struct emu_cta *emu_peer(const struct emu_cta *cta);
/* .cta_group::1 or ::2, the same in all tcgen05 instructions of a function. */
bool emu_take_cta_group(struct emu_decode *decode, int *group);

/* ---- state ---------------------------------------------------------------------------- */

struct emu_async_cta {
	struct emu_mbarrier **barriers;
	uint32_t barrier_count, barrier_room;
	struct emu_tmem tmem;
	uint32_t open_reads; /* copies that still need the shared memory */
};

/* What one thread has in flight. */
struct emu_async_lane {
	struct emu_bulk_group *groups; /* oldest first; the last one may be uncommitted */
	uint32_t commit_order;         /* its address orders tcgen05.mma, cp, shift, commit */
};

struct emu_wgmma_queue;

struct emu_async_warp {
	struct emu_async_lane lanes[EMU_LANES];
	struct emu_waitable bulk;         /* wait_group */
	uint32_t tmem_loads, tmem_stores; /* open */
	struct emu_waitable tmem_load_done, tmem_store_done;
	struct emu_wgmma_queue *wgmma;
};

/* Buffers of the multiplication, one set for a cluster. */
struct emu_mma_scratch;

struct emu_async_cluster {
	struct emu_mma_scratch *scratch;
};

static inline struct emu_async_cta *emu_async_of_cta(const struct emu_cta *cta)
{
	return cta->async;
}

static inline struct emu_async_warp *emu_async_of_warp(const struct emu_warp *warp)
{
	return warp->async;
}

static inline struct emu_tmem *emu_tmem_of(const struct emu_cta *cta)
{
	return &emu_async_of_cta(cta)->tmem;
}

void emu_wgmma_warp_free(struct emu_warp *warp);
void emu_bulk_warp_free(struct emu_warp *warp);
void emu_mma_scratch_free(struct emu_mma_scratch *scratch);

/*
 * A zeroed operation of `size` bytes that begins with struct emu_engine_op; NULL
 * after a fault.
 */
void *emu_op_new(struct emu_warp *warp, int lane, size_t size,
		 void (*complete)(struct emu_engine_op *op));
void emu_op_issue(struct emu_warp *warp, void *op);

#endif

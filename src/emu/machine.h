/*
 * The inside of the emulator: modules, instructions, grids, warps.
 *
 * Invariants every file relies on:
 *   A register is a row of 32 lanes: 8, 16 and 32 bit registers uint32_t[32]
 *   (narrow ones zero-extended), 64 bit uint64_t[32], 128 bit struct emu_u128[32].
 *   A predicate is one uint32_t lane mask.
 *   A warp's lanes are partitioned into splits; a split is what is scheduled.
 *   An execute function writes only the lanes of the mask it is given.
 *
 * Section numbers in the comments of this folder, such as (9.1), are those of docs/isa.md.
 */
#ifndef TCMMA_EMU_MACHINE_H
#define TCMMA_EMU_MACHINE_H

#include "grid.h"
#include <string.h>

/* ---- reading and writing operands ---- */

static inline uint8_t *emu_row(const struct emu_warp *warp, uint32_t ref)
{
	return warp->bank[ref & 3] + (ref & ~3u);
}

/* Rows of a register or immediate operand of at most 32, of 64, of 128 bits. */
static inline uint32_t *emu_row32(const struct emu_warp *warp, uint32_t ref)
{
	return (uint32_t *)emu_row(warp, ref);
}

static inline uint64_t *emu_row64(const struct emu_warp *warp, uint32_t ref)
{
	return (uint64_t *)emu_row(warp, ref);
}

static inline struct emu_u128 *emu_row128(const struct emu_warp *warp, uint32_t ref)
{
	return (struct emu_u128 *)emu_row(warp, ref);
}

/* A register row of a frame that need not be the running one (late results). */
static inline uint32_t *emu_frame_row32(const struct emu_frame *frame, uint32_t ref)
{
	return (uint32_t *)(frame->rows + (ref & ~3u));
}

/*
 * The value of a register, immediate, special register or symbol for one lane;
 * for sinks 0.  128-bit registers: the low half.
 */
uint64_t emu_value(const struct emu_warp *warp, const struct emu_operand *operand, int lane);
/* Writes a register; nothing for a sink. */
void emu_set_value(struct emu_warp *warp, const struct emu_operand *operand, int lane,
		   uint64_t value);
/* Lane mask of a predicate operand (negation applied) or of an integer immediate. */
uint32_t emu_predicate(const struct emu_warp *warp, const struct emu_operand *operand);
/* Writes the lanes of `mask`; nothing for a sink. */
void emu_set_predicate(struct emu_warp *warp, const struct emu_operand *operand, uint32_t mask,
		       uint32_t value);
/*
 * The address an EMU_O_ADDRESS names for one lane, in the instruction's state
 * space: base + displacement, wrapped to 32 bits for a 32-bit base.
 */
uint64_t emu_address(const struct emu_warp *warp, const struct emu_operand *operand, int lane);

/* Item i of a vector; the operand itself for a lone register and i = 0. */
static inline const struct emu_operand *emu_item(const struct emu_operand *operand, int i)
{
	return operand->kind == EMU_O_VECTOR || operand->kind == EMU_O_PAIR ? &operand->items[i]
									    : operand;
}

/* How many lanes; most often all. */
static inline uint32_t emu_count(uint32_t mask)
{
	return mask == EMU_FULL ? EMU_LANES : (uint32_t)__builtin_popcount(mask);
}

static inline int emu_lowest(uint32_t mask)
{
	return __builtin_ctz(mask);
}

#define EMU_FOR_LANES(lane, mask)                                                                  \
	for (uint32_t lanes_ = (mask), lane = 0;                                                   \
	     lanes_ && (lane = (uint32_t)__builtin_ctz(lanes_), 1); lanes_ &= lanes_ - 1)

/* The lanes of `mask` that the instruction's guard lets through. */
static inline uint32_t emu_active(const struct emu_warp *warp, const struct emu_ins *ins,
				  uint32_t mask)
{
	uint32_t guard;

	if (ins->guard == EMU_NO_GUARD)
		return mask;
	guard = warp->predicates[ins->guard];
	return mask & (ins->guard_negated ? ~guard : guard);
}

/* ---- memory ---- */

struct emu_allocation {
	uint64_t address, size;
	uint8_t *host;
	bool read_only; /* .const */
	bool released;  /* kept, so that a use after the release can be named */
	char name[64];
};

/* Of a parked or running instruction, kept for reports made later. */
struct emu_where {
	struct emu_grid *grid;
	const struct emu_ins *ins;
	const struct emu_function *function;
	uint32_t cta[3];
	int warp; /* -1: none */
	int lane; /* -1: none */
};

struct emu_where emu_here(const struct emu_warp *warp, int lane);

/*
 * Host pointer to [address, address + size) of `space`, or NULL after a fault
 * has been reported: unmapped, out of bounds, read-only, misaligned (`align`
 * bytes; 1 for none), a CTA that has exited.
 */
void *emu_mem(struct emu_warp *warp, int lane, enum emu_space space, uint64_t address,
	      uint32_t size, uint32_t align, enum emu_access_kind kind);
/* Shared memory by the 32-bit address as seen from `cta`; *owner is the CTA it lies in. */
void *emu_mem_shared(struct emu_cta *cta, const struct emu_where *where, uint64_t address,
		     uint32_t size, uint32_t align, enum emu_access_kind kind,
		     struct emu_cta **owner);
void *emu_mem_global(struct emu_grid *grid, const struct emu_where *where, uint64_t address,
		     uint64_t size, uint32_t align, enum emu_access_kind kind);
/* What lies at a global address, released or not; NULL when nothing ever did. */
struct emu_allocation *emu_find_allocation(struct emu *emu, uint64_t address);
/* The one that starts at or below the address, for reports. */
struct emu_allocation *emu_nearest_allocation(struct emu *emu, uint64_t address);
/* The space and the address in it that a generic address means. */
enum emu_space emu_generic_space(uint64_t *address);
/* The 32-bit shared address (any CTA of the cluster) of a .shared or generic address; false when
   a generic address lies elsewhere (a fault has been reported). */
bool emu_shared_address(struct emu_warp *warp, int lane, enum emu_space space, uint64_t *address);
/* The CTA whose window holds the address, NULL when there is none or it lies elsewhere. */
struct emu_cta *emu_shared_owner(const struct emu_cta *cta, uint64_t address);

static inline uint32_t emu_shared_base(const struct emu_cta *cta)
{
	return cta->rank << EMU_SHARED_RANK | EMU_SHARED_BASE;
}

/* Whoever changes memory or a barrier says so: spinning splits look again. */
static inline void emu_changed(struct emu_worker *worker)
{
	worker->changes++;
}

/* ---- faults ---- */

/* Both report an EMU_ERROR, which stops the grid; lane -1: the whole warp. */
enum emu_step emu_fault(struct emu_warp *warp, int lane, const char *rule, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void emu_fault_at(const struct emu_where *where, const char *rule, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A lint or hazard that does not stop the grid; counted once for each pair of instructions. */
void emu_hazard_at(const struct emu_where *where, enum emu_severity severity, const char *rule,
		   const struct emu_ins *other, const char *text);
/* Adds the hazards of a part of the grid, as if they had been found now. */
void emu_report_merge(const struct emu_grid *grid, const struct emu_report *part);
/* The same hazard has been reported: it is counted, and its text need not be made. */
bool emu_hazard_again(const struct emu_where *where, const char *rule, const struct emu_ins *other);
/* The launch's line for an instruction, NULL if it has none. */
const struct emu_source_line *emu_line_of(const struct emu_grid *grid, const struct emu_ins *ins);
/* The position in the source that an instruction was made from. */
struct emu_position emu_source_of(const struct emu_grid *grid, const struct emu_ins *ins);

/* ---- words for reports ---- */

/* What the launch's symbols have at a place of a space, and how far in; NULL if nothing. */
const struct emu_symbol *emu_symbol_at(const struct emu_grid *grid, int space, uint32_t address,
				       uint32_t *offset);
/* The next one behind `before`: members of a union share a place. */
const struct emu_symbol *emu_symbol_after(const struct emu_grid *grid,
					  const struct emu_symbol *before, int space,
					  uint32_t address, uint32_t *offset);
/* The name of a warp of every CTA, NULL if it has none. */
const char *emu_role_of(const struct emu_grid *grid, int warp);
/* NULL where the launch has none for the rule and the lines; `other`: of the earlier access, NULL:
 * none. */
const struct emu_hint *emu_hint_for(const struct emu_grid *grid, const char *rule,
				    const struct emu_ins *ins, const struct emu_ins *other);
/* Both as snprintf: "CTA (0,0,0) warp 1 (role 'mma')" and "PTX line 60 (gemm.lua:18)". */
int emu_describe_warp(const struct emu_grid *grid, const uint32_t cta[3], int warp, char *text,
		      size_t size);
int emu_describe_line(const struct emu_grid *grid, const struct emu_ins *ins, char *text,
		      size_t size);

/* ---- scheduling ---- */

/* Blocks the running split; return EMU_BLOCKED right after. */
enum emu_step emu_block_on(struct emu_warp *warp, struct emu_waitable *waitable);
/* All, or one, of the waiting splits execute their instruction again. */
void emu_wake(struct emu_waitable *waitable);
/*
 * Parts `mask` from the running split: those lanes stay at this instruction, in
 * a ready split of their own.  What remains is the running split; its mask must
 * not become empty.  False (after a fault) when that cannot be done.
 */
bool emu_part(struct emu_warp *warp, uint32_t mask);

void emu_frame_retain(struct emu_frame *frame);
void emu_frame_release(struct emu_warp *warp, struct emu_frame *frame);

/* Deterministic: depends on the launch's seed and on what was drawn before. */
uint32_t emu_random(uint64_t *state);

/* ---- asynchronous operations ---- */

/*
 * Something an engine does behind the instruction's back.  FAST completes it at
 * issue, CHECK when nothing else can run, RANDOM at some moment.  Operations
 * with the same non-NULL `order` complete in the order of issue.  `complete`
 * does the effects (data, then signals) and may wake splits and issue further
 * operations; it must not free the operation.  `discard` frees it, completed or not.
 */
struct emu_engine_op {
	struct emu_engine_op *next, *previous;
	struct emu_cluster *cluster;
	const void *order;
	struct emu_where where;
	void (*complete)(struct emu_engine_op *op);
	void (*discard)(struct emu_engine_op *op);
};

void emu_engine_issue(struct emu_cluster *cluster, struct emu_engine_op *op);

/*
 * The asynchronous half keeps its state in the `async` members.  Created before
 * anything runs, false when there is no memory; `exit` is called when the last
 * thread of the CTA is gone (leaks are reported there), `free` at the end,
 * also for a grid that was stopped.
 */
bool emu_async_cluster_init(struct emu_cluster *cluster);
bool emu_async_cta_init(struct emu_cta *cta);
bool emu_async_warp_init(struct emu_warp *warp);
void emu_async_cta_exit(struct emu_cta *cta);
void emu_async_warp_free(struct emu_warp *warp);
void emu_async_cta_free(struct emu_cta *cta);
void emu_async_cluster_free(struct emu_cluster *cluster);
/* True when the CTA has asynchronous work that must end before it may (open reads of its memory).
 */
bool emu_async_cta_busy(const struct emu_cta *cta);

#endif

/*
 * Undefined values, followed from where they come from to where they matter.
 *
 * A lane of a register is wholly tainted or not at all: what may drop the tainted
 * part of a value gives one that is not.  Bytes of local memory have a mark each.
 */
#ifndef TCMMA_EMU_TAINT_H
#define TCMMA_EMU_TAINT_H

#include "hazard.h"

/* How values go through an instruction: the low bits of `taint` of struct emu_ins. */
enum emu_taint_flow {
	EMU_FLOW_DEFINED,  /* what it gives is defined whatever it is given */
	EMU_FLOW_ORDINARY, /* a tainted source taints the result */
	EMU_FLOW_DROP,     /* only where all of its sources are tainted */
	EMU_FLOW_CHOOSE,   /* selp */
	EMU_FLOW_TMEM,     /* tcgen05.ld: tmem_move.c says */
	EMU_FLOW_LANES,    /* between lanes: collective.c says */
	EMU_FLOW_LOAD,     /* of local memory or a function's parameters, or possibly so */
	EMU_FLOW_STORE,
	EMU_FLOW_CALL,
	EMU_FLOW_MMA, /* mma.sync of 8 or 16 rows */
	EMU_FLOW_WGMMA,
	EMU_FLOW_WHOLE, /* one tainted lane taints the results of all */
	EMU_FLOW_BITS = 15,
	EMU_FLOW_CLOCK = 16,  /* its result differs from run to run */
	EMU_FLOW_STORES = 32, /* its operands are stored where others see them */
	EMU_FLOW_TAKES = 64   /* its operands must be defined */
};

enum emu_taint_kind {
	EMU_TAINT_REGISTER, /* nothing has written it */
	EMU_TAINT_LOCAL,    /* loaded from local memory that nothing has written */
	EMU_TAINT_TMEM,
	EMU_TAINT_CLOCK /* of a clock, or of where the CTA runs */
};

struct emu_taint_row {
	uint32_t mask; /* lanes */
	uint32_t reg;  /* virtual register: a row may come to hold another one */
	struct emu_taint_origin from;
};

struct emu_taint_frame {
	struct emu_taint_frame *next;
	const struct emu_frame *frame;
	struct emu_taint_row *rows, *predicates;
};

enum {
	EMU_TAINT_ORIGINS = 253
};

struct emu_taint {
	struct emu_taint_frame *frames; /* the one looked up last comes first */
	bool any;                       /* some lane of some register is, or has been, tainted */
	/* Of each byte of the warp's local memory: 0 nothing has written it, 1 it is defined, else
	   2 + the index of the origin of what was stored. */
	uint8_t *local;
	uint32_t local_bytes;
	struct emu_taint_origin origins[EMU_TAINT_ORIGINS];
	int origin_count;
};

/* ---- frames and local memory (taint_frame.c) ------------------------------------------ */

/* NULL without memory. */
struct emu_taint *emu_taint_of(struct emu_order *order);
struct emu_taint_frame *emu_taint_frame(struct emu_taint *taint, const struct emu_frame *frame);
/* NULL for what is no register. */
struct emu_taint_row *emu_taint_row(const struct emu_taint_frame *frame,
				    const struct emu_operand *operand);
/* Lanes of `mask` in which a register is tainted. */
uint32_t emu_taint_lanes(const struct emu_taint_frame *frame, const struct emu_operand *operand,
			 uint32_t mask);
/* Of all registers of the operand: the lanes of `mask` become what `lanes` says. */
void emu_taint_set(const struct emu_taint_frame *frame, const struct emu_operand *operand,
		   uint32_t mask, uint32_t lanes, struct emu_taint_origin from);
void emu_taint_load(struct emu_taint *taint, const struct emu_taint_frame *frame,
		    struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);
void emu_taint_store(struct emu_taint *taint, const struct emu_taint_frame *frame,
		     struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);

/* ---- products (taint_matrix.c) ------------------------------------------------------------ */

void emu_taint_mma(const struct emu_taint_frame *frame, const struct emu_ins *ins, uint32_t mask);
void emu_taint_wgmma(const struct emu_taint_frame *frame, const struct emu_ins *ins, uint32_t mask,
		     bool accumulate);

#endif

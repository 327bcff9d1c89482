/* What the parts of one running tcgen05.mma share: operands, tiles of D. */
#ifndef TCMMA_EMU_MMA_RUN_H
#define TCMMA_EMU_MMA_RUN_H

#include "mma.h"

struct emu_mma_run {
	const struct emu_mma_request *request;
	struct emu_idesc idesc;
	struct emu_mma_scratch *scratch;
	struct emu_cta *ctas[2]; /* even and odd; the second one NULL for one CTA */
	int cta_count;
	uint32_t d_column, d_lane;
	bool integer, adder;
};

/* 16 rows of D that lie in 16 consecutive lanes, and the columns of one range of N. */
struct emu_mma_tile {
	int cta, row, lane, n, n_count;
	uint32_t column;
};

/* Always false. */
bool emu_mma_fail(const struct emu_mma_run *run, const char *rule, const char *text);

/* A part of N is the range of columns that one group of lanes holds; how many there are. */
int emu_mma_parts(const struct emu_mma_run *run);
/* Tile i of a part: rows 16 i and up. */
struct emu_mma_tile emu_mma_tile_at(const struct emu_mma_run *run, int i, int part);
/* First row of scratch->a that belongs to a tile. */
int emu_mma_a_row(const struct emu_mma_run *run, const struct emu_mma_tile *tile);

/* A to scratch->a, rows innermost; B to scratch->b, K innermost.  False after a fault. */
bool emu_mma_load_a(const struct emu_mma_run *run);
bool emu_mma_load_b(const struct emu_mma_run *run);

#endif

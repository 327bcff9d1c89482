/* Special registers: what a warp knows about itself and its place in the grid. */
#include "special.h"
#include "ptx.h"
#include <stdlib.h>

static const struct {
	const char *text;
	uint8_t type;
	bool dynamic;
} specials[EMU_S_COUNT] = {
#define EMU_SPECIAL(name, text, type) {text, EMU_T_##type, false},
#define EMU_DYNAMIC(name, text, type) {text, EMU_T_##type, true},
#include "specials.def"
#undef EMU_SPECIAL
#undef EMU_DYNAMIC
};

int emu_special_named(const char *text, size_t length, enum emu_type *type)
{
	for (int i = 0; i < EMU_S_COUNT; i++)
		if (strlen(specials[i].text) == length && !memcmp(specials[i].text, text, length)) {
			*type = (enum emu_type)specials[i].type;
			return i;
		}
	return -1;
}

bool emu_special_is_dynamic(int special)
{
	return specials[special].dynamic;
}

static void fill(struct emu_warp *warp, int special, uint32_t value)
{
	uint32_t *row = (uint32_t *)(warp->specials + special * EMU_ROW_BYTES);

	for (int lane = 0; lane < EMU_LANES; lane++)
		row[lane] = value;
}

static void fill3(struct emu_warp *warp, int special, const uint32_t value[3])
{
	for (int i = 0; i < 3; i++)
		fill(warp, special + i, value[i]);
}

static void fill_threads(struct emu_warp *warp)
{
	const uint32_t *block = warp->grid->block;

	for (int lane = 0; lane < EMU_LANES; lane++) {
		uint32_t thread = (uint32_t)(warp->index * EMU_LANES + lane);
		uint32_t tid[3] = {thread % block[0], thread / block[0] % block[1],
				   thread / block[0] / block[1]};
		uint32_t bit = 1u << lane;
		uint32_t masks[5] = {bit, bit | (bit - 1), bit - 1, ~(bit - 1), ~(bit | (bit - 1))};

		for (int i = 0; i < 3; i++)
			((uint32_t *)(warp->specials + (EMU_S_TID_X + i) * EMU_ROW_BYTES))[lane] =
				tid[i];
		((uint32_t *)(warp->specials + EMU_S_LANEID * EMU_ROW_BYTES))[lane] =
			(uint32_t)lane;
		for (int i = 0; i < 5; i++)
			((uint32_t *)(warp->specials +
				      (EMU_S_LANEMASK_EQ + i) * EMU_ROW_BYTES))[lane] = masks[i];
	}
}

/* Rows that are the same for every warp of the grid with this index. */
static void fill_fixed(struct emu_warp *warp)
{
	const struct emu_grid *grid = warp->grid;
	uint32_t clusters[3];

	for (int i = 0; i < 3; i++)
		clusters[i] = grid->grid[i] / grid->cluster[i];
	fill_threads(warp);
	fill3(warp, EMU_S_NTID_X, grid->block);
	fill3(warp, EMU_S_NCTAID_X, grid->grid);
	fill(warp, EMU_S_WARPID, (uint32_t)warp->index);
	fill(warp, EMU_S_NWARPID, grid->warp_count);
	fill(warp, EMU_S_NSMID, (uint32_t)grid->sm_count);
	fill3(warp, EMU_S_NCLUSTERID_X, clusters);
	fill3(warp, EMU_S_CLUSTER_NCTAID_X, grid->cluster);
	fill(warp, EMU_S_CLUSTER_NCTARANK, (uint32_t)warp->cta->cluster->cta_count);
	fill(warp, EMU_S_TOTAL_SMEM, grid->shared_bytes);
	fill(warp, EMU_S_DYNAMIC_SMEM, grid->launch->dynamic_smem);
	fill(warp, EMU_S_AGGREGATE_SMEM, grid->shared_bytes + EMU_SHARED_BASE);
	fill(warp, EMU_S_RESERVED_BEGIN, 0);
	fill(warp, EMU_S_RESERVED_END, EMU_SHARED_BASE);
	fill(warp, EMU_S_RESERVED_CAP, EMU_SHARED_BASE);
	for (int i = 0; i < 4; i++)
		fill(warp, EMU_S_ENVREG0 + i, 0);
	memset(warp->specials + EMU_S_GRIDID * EMU_ROW_BYTES, 0, 2 * EMU_ROW_BYTES);
}

bool emu_special_fill(struct emu_warp *warp)
{
	const struct emu_cta *cta = warp->cta;
	const struct emu_grid *grid = warp->grid;
	uint8_t **model = &warp->worker->specials[warp->index];

	warp->specials = malloc(EMU_SPECIAL_ROWS * EMU_ROW_BYTES);
	if (!warp->specials)
		return false;
	if (!*model) {
		*model = malloc(EMU_SPECIAL_ROWS * EMU_ROW_BYTES);
		if (!*model)
			return false;
		fill_fixed(warp);
		memcpy(*model, warp->specials, EMU_SPECIAL_ROWS * EMU_ROW_BYTES);
	} else {
		memcpy(warp->specials, *model, EMU_SPECIAL_ROWS * EMU_ROW_BYTES);
	}
	fill3(warp, EMU_S_CTAID_X, cta->id);
	fill(warp, EMU_S_SMID,
	     (uint32_t)((cta->cluster->index * (uint64_t)cta->cluster->cta_count + cta->rank) %
			(uint64_t)grid->sm_count));
	fill3(warp, EMU_S_CLUSTERID_X, cta->cluster->id);
	fill3(warp, EMU_S_CLUSTER_CTAID_X, cta->rank3);
	fill(warp, EMU_S_CLUSTER_CTARANK, cta->rank);
	return true;
}

/* Time is counted in instructions, so that a run can be repeated. */
uint64_t emu_special_read(const struct emu_warp *warp, int special)
{
	uint64_t time = warp->worker->instructions;

	switch (special) {
	case EMU_S_EXPLICIT_CLUSTER:
		return warp->cta->cluster->cta_count > 1;
	case EMU_S_CURRENT_GRAPH_EXEC:
		return 0; /* launched outside any graph */
	case EMU_S_CLOCK:
	case EMU_S_GLOBALTIMER_LO:
		return (uint32_t)time;
	case EMU_S_CLOCK_HI:
	case EMU_S_GLOBALTIMER_HI:
		return time >> 32;
	default:
		return time;
	}
}

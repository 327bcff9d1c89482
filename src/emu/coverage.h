/* What the copies of a grid read of the tensors behind their maps. */
#ifndef TCMMA_EMU_COVERAGE_H
#define TCMMA_EMU_COVERAGE_H

#include "machine.h"

struct emu_coverage;

/* A copy reads a box; `at` is where its map lies. */
void emu_coverage_note(struct emu_worker *worker, const struct emu_where *where, uint64_t at,
		       const struct emu_tensormap *map, const int32_t *coordinates);
/* Takes `from`, which is of later clusters. */
void emu_coverage_merge(struct emu_coverage **into, struct emu_coverage *from);
void emu_coverage_report(struct emu_grid *grid, const struct emu_coverage *list);
void emu_coverage_free(struct emu_coverage *list);

#endif

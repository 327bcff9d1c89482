/* Why nothing can run any more: what those that are waited for say of it. */
#ifndef TCMMA_EMU_DEADLOCK_H
#define TCMMA_EMU_DEADLOCK_H

#include "async.h"

enum {
	EMU_CAUSE_KINDS = 8,
	EMU_CAUSE_BYTES = 4096
};

struct emu_causes {
	const struct emu_grid *grid;
	char text[EMU_CAUSE_BYTES];
	size_t used;
	const char *said[EMU_CAUSE_KINDS];
	int said_count;
	int waits, unused; /* for mbarriers; for those on which nobody has ever arrived */
	/* Of the latter the first, and whether there are others. */
	const struct emu_mbarrier *barrier;
	bool several;
};

/* Once for each kind, which is what the launch's hints call it too: those come before `fix`. */
void emu_cause(struct emu_causes *causes, const char *kind, const char *fix, const char *format,
	       ...) __attribute__((format(printf, 4, 5)));
/* The instruction that the split waits in. */
struct emu_where emu_where_waiting(const struct emu_split *split);

/* ---- mbarriers (mbarrier_cause.c) ---- */

void emu_mbarrier_explain(const struct emu_waitable *waitable, const struct emu_split *split,
			  struct emu_causes *causes);
/* What those on which nobody has arrived say together. */
void emu_mbarrier_unused(struct emu_causes *causes);
/* A thread goes through a barrier that is as it was made. */
void emu_mbarrier_passed(struct emu_mbarrier *barrier, const struct emu_warp *warp);
/* "barrier full[0] (made at ...)", and its state with its last events. */
void emu_mbarrier_name(const struct emu_mbarrier *barrier, char *text, size_t size);
void emu_mbarrier_state(const struct emu_mbarrier *barrier, char *text, size_t size);

#endif

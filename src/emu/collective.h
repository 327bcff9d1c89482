/* What the text of shfl, vote, match, redux, elect and bar.warp.sync says. */
#ifndef TCMMA_EMU_COLLECTIVE_H
#define TCMMA_EMU_COLLECTIVE_H

#include "machine.h"

enum collective {
	SHUFFLE,
	VOTE,
	MATCH_ANY,
	MATCH_ALL,
	REDUCE,
	ELECT,
	WARP_SYNC
};
enum shuffle {
	UP,
	DOWN,
	BUTTERFLY,
	INDEX
};
enum vote {
	ALL,
	ANY,
	UNIFORM,
	BALLOT
};
enum reduce {
	ADD,
	MIN,
	MAX,
	AND,
	OR,
	XOR
};

/* What one instruction does; where its operands are, -1 for none. */
struct collective_form {
	enum collective kind;
	int variant; /* enum shuffle, vote, reduce */
	enum emu_type type;
	bool absolute, nan, wide;
	int a, b, c, members;
};

/* redux of two integers. */
static inline uint32_t emu_collective_reduce(const struct collective_form *form, uint32_t a,
					     uint32_t b)
{
	bool less = form->type == EMU_T_S32 ? (int32_t)a < (int32_t)b : a < b;

	switch ((enum reduce)form->variant) {
	case ADD:
		return a + b;
	case MIN:
		return less ? a : b;
	case MAX:
		return less ? b : a;
	case AND:
		return a & b;
	case OR:
		return a | b;
	default:
		return a ^ b;
	}
}

/* All 32 lanes at once, in fast mode; false, with nothing done, where that is not so. */
bool emu_collective_rows(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask);

#endif

/*
 * Tainted operands of products: a tainted element of A taints a row of D, one of B
 * a column.  An element that shares its register with a defined one is taken to
 * be defined.
 */
#include "taint.h"

#include <stdlib.h>

enum {
	most_registers = 16 /* of D */
};

struct product {
	uint32_t rows, columns; /* tainted ones, a bit each */
	struct emu_taint_origin from;
};

static uint32_t tainted(struct product *p, const struct emu_taint_frame *f,
			const struct emu_operand *item)
{
	uint32_t lanes = emu_taint_lanes(f, item, EMU_FULL);

	if (lanes)
		p->from = emu_taint_row(f, item)->from;
	return lanes;
}

static int count_of(const struct emu_operand *operand)
{
	return operand->kind == EMU_O_VECTOR ? (int)operand->count : 1;
}

/* Register j of a lane holds elements of row lane / 4, and of 16 rows, of that plus 8. */
static void rows_of(struct product *p, const struct emu_taint_frame *f, const struct emu_operand *a,
		    int halves)
{
	for (int j = 0; j < count_of(a); j++)
		EMU_FOR_LANES(lane, tainted(p, f, emu_item(a, j)))
		{
			p->rows |= 1u << (lane / 4 + 8 * (uint32_t)(j % halves));
		}
}

static void columns_of(struct product *p, const struct emu_taint_frame *f,
		       const struct emu_operand *b)
{
	for (int j = 0; j < count_of(b); j++)
		EMU_FOR_LANES(lane, tainted(p, f, emu_item(b, j)))
		{
			p->columns |= 1u << lane / 4;
		}
}

/* Lanes of register i of D, which holds one column, or two side by side. */
static uint32_t lanes_of_d(const struct product *p, int half, int i, bool packed)
{
	uint32_t lanes = 0;

	for (uint32_t lane = 0; lane < EMU_LANES; lane++) {
		uint32_t pair = p->columns >> 2 * (lane & 3) & 3;
		bool row = p->rows >> (lane / 4 + 8 * (uint32_t)half) & 1;
		bool column = packed ? pair == 3 : pair >> (i & 1) & 1;

		lanes |= (uint32_t)(row || column) << lane;
	}
	return lanes;
}

void emu_taint_mma(const struct emu_taint_frame *f, const struct emu_ins *ins, uint32_t mask)
{
	const struct emu_operand *d = &ins->operands[0], *c = &ins->operands[3];
	int halves = strstr(ins->mnemonic, ".m8n8") ? 1 : 2;
	int count = count_of(d) < most_registers ? count_of(d) : most_registers;
	bool packed = count == halves;
	struct product p = {.rows = 0};
	uint32_t lanes[most_registers] = {0};

	rows_of(&p, f, &ins->operands[1], halves);
	columns_of(&p, f, &ins->operands[2]);
	for (int i = 0; i < count; i++) {
		lanes[i] = lanes_of_d(&p, packed ? i : i / 2, i, packed);
		/* C of half the width lies in half the registers. */
		lanes[i] |= tainted(&p, f, emu_item(c, count_of(c) * i / count));
	}
	for (int i = 0; i < count; i++)
		emu_taint_set(f, emu_item(d, i), mask, lanes[i] & mask, p.from);
}

/* A comes in registers; D stays what it was where it is added to. */
void emu_taint_wgmma(const struct emu_taint_frame *f, const struct emu_ins *ins, uint32_t mask,
		     bool accumulate)
{
	const struct emu_operand *d = &ins->operands[0];
	const char *n = strstr(ins->mnemonic, ".m64n");
	bool packed = n && count_of(d) == atoi(n + 5) / 4;
	struct product p = {.rows = 0};

	if (ins->operands[1].kind == EMU_O_VECTOR)
		rows_of(&p, f, &ins->operands[1], 2);
	for (int i = 0; i < count_of(d); i++) {
		const struct emu_operand *item = emu_item(d, i);
		uint32_t lanes = lanes_of_d(&p, (packed ? i : i / 2) & 1, i, packed) & mask;

		if (!accumulate)
			emu_taint_set(f, item, mask, lanes, p.from);
		else if (lanes)
			emu_taint_set(f, item, lanes, lanes, p.from);
	}
}

/*
 * Registers to rows: liveness, then linear scan over live intervals.
 *
 * Sharing a row is sound under divergence because a lane's value is written
 * under the lane's mask alone.  Registers of different widths never share: the
 * lanes of a 64-bit row lie elsewhere than those of the two 32-bit rows in its
 * place.  A source never shares its row with a result of
 * the same instruction, so handlers may write one lane while they still read
 * others.  Registers that an asynchronous instruction writes later stay live
 * until the wait that makes them valid.
 */
#include "flow.h"
#include "ptx.h"
#include <stdio.h>
#include <stdlib.h>

#define MAX_ROWS      65536u
#define MAX_SET_BYTES (3ull << 30)

struct slots {
	struct emu_function *function;
	struct emu_flow flow;
	/* Sets hold the registers that more than one block may know: `member` numbers them,
	   `members` lists them.  All others begin and end inside a block. */
	uint32_t *member, *members, member_count;
	uint32_t *killed_in;  /* by register: 1 + the last block that writes it unguarded */
	bool *written;        /* by register: an instruction writes it */
	uint8_t *accumulator; /* by register: bit 0 wgmma writes it, bit 1 something else does */
	size_t words;         /* of a set */
	uint64_t *in, *out, *uses, *kills;
	uint32_t *start, *end; /* interval of each register; start UINT32_MAX: unused */
};

typedef void (*visit_register)(struct slots *slots, uint32_t reg, bool written, uint32_t pc);

static void visit_operand(struct slots *slots, const struct emu_operand *operand, bool written,
			  bool read, uint32_t pc, visit_register visit)
{
	switch ((enum emu_operand_kind)operand->kind) {
	case EMU_O_REGISTER:
	case EMU_O_PREDICATE:
		if (read)
			visit(slots, operand->reg, false, pc);
		if (written)
			visit(slots, operand->reg, true, pc);
		break;
	case EMU_O_ADDRESS:
		written = false;
		read = true;
		/* fall through */
	case EMU_O_VECTOR:
	case EMU_O_PAIR:
	case EMU_O_LIST:
		for (uint32_t i = 0; i < operand->count; i++)
			visit_operand(slots, &operand->items[i], written, read, pc, visit);
		break;
	default:
		break;
	}
}

/* Reads first, then writes. */
static void visit_instruction(struct slots *slots, uint32_t pc, visit_register visit)
{
	const struct emu_ins *ins = &slots->function->ins[pc];

	if (ins->guard != EMU_NO_GUARD)
		visit(slots, ins->guard, false, pc);
	for (int i = 0; i < ins->operand_count; i++)
		visit_operand(slots, &ins->operands[i], false,
			      (ins->read >> i & 1) || ins->operands[i].kind == EMU_O_ADDRESS, pc,
			      visit);
	for (int i = 0; i < ins->operand_count; i++)
		if (ins->written >> i & 1 && ins->operands[i].kind != EMU_O_ADDRESS)
			visit_operand(slots, &ins->operands[i], true, false, pc, visit);
}

static bool has(const uint64_t *set, uint32_t member)
{
	return set[member / 64] >> member % 64 & 1;
}

static void add(uint64_t *set, uint32_t member)
{
	set[member / 64] |= 1ull << member % 64;
}

/* ---- which registers blocks share ----------------------------------------------------- */

static void become_member(struct slots *slots, uint32_t reg)
{
	if (slots->member[reg] != UINT32_MAX)
		return;
	slots->member[reg] = slots->member_count;
	slots->members[slots->member_count++] = reg;
}

static void find_member(struct slots *slots, uint32_t reg, bool written, uint32_t pc)
{
	const struct emu_ins *ins = &slots->function->ins[pc];
	uint32_t block = slots->flow.block_of[pc] + 1;

	if (!written && slots->killed_in[reg] != block)
		become_member(slots, reg);
	if (written && ins->flags & (EMU_I_PENDING_WGMMA | EMU_I_PENDING_TMEM))
		become_member(slots, reg);
	if (written && ins->guard == EMU_NO_GUARD)
		slots->killed_in[reg] = block;
	slots->written[reg] |= written;
}

static void note_undefined(struct slots *slots, uint32_t reg, bool written, uint32_t pc)
{
	if (!written && !slots->written[reg])
		slots->function->ins[pc].flags |= EMU_I_UNDEFINED;
}

/* ---- liveness -------------------------------------------------------------------------- */

static void extend(struct slots *slots, uint32_t reg, uint32_t pc)
{
	if (slots->start[reg] == UINT32_MAX || pc < slots->start[reg])
		slots->start[reg] = pc;
	if (pc > slots->end[reg])
		slots->end[reg] = pc;
}

static void summarize(struct slots *slots, uint32_t reg, bool written, uint32_t pc)
{
	uint32_t b = slots->flow.block_of[pc];
	uint64_t *uses = slots->uses + b * slots->words, *kills = slots->kills + b * slots->words;
	uint32_t member = slots->member[reg];

	extend(slots, reg, pc);
	if (member == UINT32_MAX)
		return;
	if (!written && !has(kills, member))
		add(uses, member);
	/* A guarded write leaves the other lanes' values in place. */
	if (written && slots->function->ins[pc].guard == EMU_NO_GUARD)
		add(kills, member);
}

static void solve_liveness(struct slots *slots)
{
	const struct emu_flow *flow = &slots->flow;
	size_t words = slots->words;
	bool changed = true;

	while (changed) {
		changed = false;
		for (uint32_t b = flow->count; b-- > 0;) {
			uint64_t *in = slots->in + b * words, *out = slots->out + b * words;
			const uint64_t *uses = slots->uses + b * words,
				       *kills = slots->kills + b * words;

			for (uint32_t e = 0; e < flow->blocks[b].count; e++) {
				const uint64_t *next =
					slots->in + flow->edges[flow->blocks[b].first + e] * words;

				for (size_t w = 0; w < words; w++)
					out[w] |= next[w];
			}
			for (size_t w = 0; w < words; w++) {
				uint64_t value = uses[w] | (out[w] & ~kills[w]);

				changed |= value != in[w];
				in[w] = value;
			}
		}
	}
}

static void extend_set(struct slots *slots, const uint64_t *set, uint32_t pc)
{
	for (size_t w = 0; w < slots->words; w++)
		for (uint64_t bits = set[w]; bits; bits &= bits - 1)
			extend(slots, slots->members[w * 64 + (size_t)__builtin_ctzll(bits)], pc);
}

static void extend_blocks(struct slots *slots)
{
	for (uint32_t b = 0; b < slots->flow.count; b++) {
		extend_set(slots, slots->in + b * slots->words, slots->flow.blocks[b].start);
		extend_set(slots, slots->out + b * slots->words, slots->flow.blocks[b].end - 1);
	}
}

/* ---- registers written late -------------------------------------------------------- */

static void note_pending(struct slots *slots, uint32_t reg, bool written, uint32_t pc)
{
	(void)pc;
	if (written)
		add(slots->uses,
		    slots->member[reg]); /* `uses` of block 0 serves as the running set */
}

static void walk_pending(struct slots *slots, uint32_t b, uint32_t pending, uint32_t await,
			 bool mark)
{
	const struct emu_block *block = &slots->flow.blocks[b];
	uint64_t *now = slots->uses;

	memcpy(now, slots->in + b * slots->words, slots->words * sizeof *now);
	if (mark)
		extend_set(slots, now, block->start);
	for (uint32_t pc = block->start; pc < block->end; pc++) {
		uint32_t flags = slots->function->ins[pc].flags;

		if (flags & await) {
			if (mark)
				extend_set(slots, now, pc);
			memset(now, 0, slots->words * sizeof *now);
		}
		if (flags & pending)
			visit_instruction(slots, pc, note_pending);
	}
	if (mark)
		extend_set(slots, now, block->end - 1);
}

static void extend_pending(struct slots *slots, uint32_t pending, uint32_t await)
{
	const struct emu_flow *flow = &slots->flow;
	size_t words = slots->words;
	bool changed = true, any = false;

	for (uint32_t pc = 0; pc < slots->function->ins_count; pc++)
		any |= (slots->function->ins[pc].flags & pending) != 0;
	if (!any)
		return;
	memset(slots->in, 0, flow->count * words * sizeof *slots->in);
	while (changed) {
		changed = false;
		for (uint32_t b = 0; b < flow->count; b++) {
			walk_pending(slots, b, pending, await, false);
			for (uint32_t e = 0; e < flow->blocks[b].count; e++) {
				uint64_t *next =
					slots->in + flow->edges[flow->blocks[b].first + e] * words;

				for (size_t w = 0; w < words; w++) {
					changed |= (slots->uses[w] & ~next[w]) != 0;
					next[w] |= slots->uses[w];
				}
			}
		}
	}
	for (uint32_t b = 0; b < flow->count; b++)
		walk_pending(slots, b, pending, await, true);
}

/* ---- colouring ----------------------------------------------------------------------- */

struct rows {
	uint64_t *used;
	uint32_t words, count; /* count: highest row ever used, plus one */
	uint32_t first_free_word;
};

static bool find_row(struct rows *rows, uint32_t *row)
{
	uint32_t w = rows->first_free_word;

	while (w < rows->words && rows->used[w] == UINT64_MAX)
		w++;
	rows->first_free_word = w;
	if (w == rows->words)
		return false;
	*row = w * 64 + (uint32_t)__builtin_ctzll(~rows->used[w]);
	rows->used[w] |= 1ull << *row % 64;
	if (*row + 1 > rows->count)
		rows->count = *row + 1;
	return true;
}

static void free_row(struct rows *rows, uint32_t row)
{
	rows->used[row / 64] &= ~(1ull << row % 64);
	if (row / 64 < rows->first_free_word)
		rows->first_free_word = row / 64;
}

/* Files of registers that are coloured apart, by the 32-bit rows that one takes. */
enum {
	PREDICATES,
	ROWS_1,
	ROWS_2,
	ROWS_4,
	FILES
};

static const uint32_t file_width[FILES] = {1, 1, 2, 4};

static int file_of(const struct emu_function *function, uint32_t reg)
{
	uint32_t bits = emu_types[function->register_types[reg]].bits;

	return bits == 1 ? PREDICATES : bits <= 32 ? ROWS_1 : bits == 64 ? ROWS_2 : ROWS_4;
}

/* Chains of registers by the instruction where their interval starts, or ends. */
struct chains {
	uint32_t *start, *end, *next_start, *next_end;
};

static bool color(struct slots *slots, int file, const struct chains *chains)
{
	struct emu_function *function = slots->function;
	uint32_t count = function->ins_count, *refs = function->register_refs;
	uint32_t base = file == PREDICATES ? 0 : function->slot_count;
	struct rows rows = {.words = MAX_ROWS / 64};
	bool fine = true;

	rows.used = calloc(rows.words, sizeof *rows.used);
	if (!rows.used)
		return false;
	memset(chains->start, 0xff, count * sizeof *chains->start);
	memset(chains->end, 0xff, count * sizeof *chains->end);
	for (uint32_t reg = function->register_count; reg-- > 0;) {
		if (slots->start[reg] == UINT32_MAX || file_of(function, reg) != file)
			continue;
		chains->next_start[reg] = chains->start[slots->start[reg]];
		chains->start[slots->start[reg]] = reg;
		chains->next_end[reg] = chains->end[slots->end[reg]];
		chains->end[slots->end[reg]] = reg;
	}
	for (uint32_t pc = 0; fine && pc < count; pc++) {
		for (uint32_t reg = pc ? chains->end[pc - 1] : UINT32_MAX; reg != UINT32_MAX;
		     reg = chains->next_end[reg])
			free_row(&rows, (refs[reg] - base) / file_width[file]);
		for (uint32_t reg = chains->start[pc]; fine && reg != UINT32_MAX;
		     reg = chains->next_start[reg]) {
			fine = find_row(&rows, &refs[reg]);
			refs[reg] = base + refs[reg] * file_width[file];
		}
	}
	free(rows.used);
	if (file == PREDICATES)
		function->predicate_count = rows.count;
	else
		function->slot_count += rows.count * file_width[file];
	return fine && function->slot_count <= MAX_ROWS;
}

static void set_ref(const struct emu_function *function, struct emu_operand *operand)
{
	if (operand->kind == EMU_O_REGISTER)
		operand->ref =
			function->register_refs[operand->reg] * EMU_ROW_BYTES | EMU_BANK_FRAME;
	else if (operand->kind == EMU_O_PREDICATE)
		operand->ref = function->register_refs[operand->reg];
	for (uint32_t i = 0; operand->items && i < operand->count; i++)
		set_ref(function, &operand->items[i]);
}

static void set_refs(struct emu_function *function)
{
	for (uint32_t pc = 0; pc < function->ins_count; pc++) {
		struct emu_ins *ins = &function->ins[pc];

		ins->guard_register = ins->guard;
		if (ins->guard != EMU_NO_GUARD)
			ins->guard = function->register_refs[ins->guard];
		for (int i = 0; i < ins->operand_count; i++) {
			set_ref(function, &ins->operands[i]);
			if (i < 5)
				ins->ref[i] = ins->operands[i].ref;
		}
	}
}

static bool color_all(struct slots *slots)
{
	struct emu_function *function = slots->function;
	size_t count = function->ins_count, registers = function->register_count;
	uint32_t *memory = malloc((2 * count + 2 * registers + 1) * sizeof *memory);
	struct chains chains = {memory, memory + count, memory + 2 * count,
				memory + 2 * count + registers};
	bool fine = memory != NULL;

	for (int file = 0; fine && file < FILES; file++)
		fine = color(slots, file, &chains);
	free(memory);
	return fine;
}

static void set_all(uint32_t *values, size_t count)
{
	memset(values, 0xff, count * sizeof *values);
}

/* Which registers the sets have; then the sets, all empty; NULL when they are too large. */
static uint64_t *make_sets(struct slots *slots)
{
	size_t sets, bytes;
	uint64_t *memory;

	for (uint32_t pc = 0; pc < slots->function->ins_count; pc++)
		visit_instruction(slots, pc, find_member);
	for (uint32_t pc = 0; pc < slots->function->ins_count; pc++)
		visit_instruction(slots, pc, note_undefined);
	slots->words = (slots->member_count + 63u) / 64;
	sets = slots->words * slots->flow.count;
	bytes = sets * 4 * sizeof *memory;
	memory = bytes <= MAX_SET_BYTES ? calloc(1, bytes + sizeof *memory) : NULL;
	slots->in = memory;
	slots->out = memory ? memory + sets : NULL;
	slots->uses = memory ? memory + 2 * sets : NULL;
	slots->kills = memory ? memory + 3 * sets : NULL;
	return memory;
}

static void is_accumulator(struct slots *slots, uint32_t reg, bool written, uint32_t pc)
{
	bool wgmma = slots->function->ins[pc].flags & EMU_I_PENDING_WGMMA;

	if (written)
		slots->accumulator[reg] |= wgmma ? 1 : 2;
}

/* What is live at the beginning may be read before it is written; accumulators that nothing else
   writes are looked at by themselves. */
static bool note_tainted(struct slots *slots)
{
	struct emu_function *function = slots->function;
	uint8_t *tainted = calloc(2 * (function->register_count + 1u), 1);

	function->undefined = emu_arena_alloc(&function->module->arena,
					      (slots->member_count + 1u) * sizeof(uint32_t));
	if (!tainted || !function->undefined) {
		free(tainted);
		return false;
	}
	slots->accumulator = tainted + function->register_count + 1;
	for (uint32_t pc = 0; pc < function->ins_count; pc++)
		visit_instruction(slots, pc, is_accumulator);
	for (uint32_t m = 0; m < slots->member_count && function->ins_count; m++) {
		uint32_t reg = slots->members[m];

		if (!has(slots->in, m) || slots->accumulator[reg] == 1)
			continue;
		function->undefined[function->undefined_count++] = reg;
		tainted[reg] = 1;
	}
	emu_taint_mark(function, tainted);
	memset(tainted, 0, function->register_count + 1u);
	emu_pending_mark(function, tainted);
	free(tainted);
	return true;
}

static bool find_intervals(struct slots *slots)
{
	uint64_t *sets = make_sets(slots);

	if (!sets)
		return false;
	for (uint32_t pc = 0; pc < slots->function->ins_count; pc++)
		visit_instruction(slots, pc, summarize);
	solve_liveness(slots);
	if (!note_tainted(slots)) {
		free(sets);
		return false;
	}
	extend_blocks(slots);
	extend_pending(slots, EMU_I_PENDING_WGMMA, EMU_I_AWAIT_WGMMA);
	extend_pending(slots, EMU_I_PENDING_TMEM, EMU_I_AWAIT_TMEM);
	free(sets);
	return true;
}

bool emu_slots_function(struct emu_function *function, struct emu_error *error)
{
	struct slots slots = {.function = function};
	size_t registers = function->register_count + 1u;
	uint32_t *memory = calloc(5 * registers + (registers + 3) / 4, sizeof *memory);
	bool fine = emu_flow_build(&slots.flow, function, error);

	function->register_refs =
		emu_arena_alloc(&function->module->arena, registers * sizeof(uint32_t));
	fine = fine && memory && function->register_refs;
	if (fine) {
		slots.start = memory;
		slots.end = memory + registers;
		slots.member = memory + 2 * registers;
		slots.members = memory + 3 * registers;
		slots.killed_in = memory + 4 * registers;
		slots.written = (bool *)(memory + 5 * registers);
		set_all(slots.start, registers);
		set_all(slots.member, registers);
		fine = find_intervals(&slots) && color_all(&slots);
	}
	if (fine)
		set_refs(function);
	if (!fine && !error->text[0])
		snprintf(error->text, sizeof error->text,
			 "the registers of '%s' that are live at once are too many for the memory "
			 "there is",
			 function->name);
	free(memory);
	emu_flow_free(&slots.flow);
	return fine;
}

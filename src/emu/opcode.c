/* From a mnemonic to its row of the tables, and from there to a decoded instruction. */
#include "ptx.h"
#include "special.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define EMU_OPCODES(file) extern const struct emu_opcode_table emu_opcodes_##file;
#include "opcodes.def"
#undef EMU_OPCODES

static const struct emu_opcode_table *const tables[] = {
#define EMU_OPCODES(file) &emu_opcodes_##file,
#include "opcodes.def"
#undef EMU_OPCODES
};

#define MAX_ROWS 1024

/* All rows by name: built for a load, so that no state outlives it. */
struct opcode_index {
	const struct emu_opcode *rows[MAX_ROWS];
	int count;
};

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct emu_opcode *const *)a)->name,
		      (*(const struct emu_opcode *const *)b)->name);
}

static void build_index(struct opcode_index *index)
{
	index->count = 0;
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (int r = 0; r < tables[t]->count && index->count < MAX_ROWS; r++)
			index->rows[index->count++] = &tables[t]->rows[r];
	qsort(index->rows, (size_t)index->count, sizeof *index->rows, by_name);
}

static const struct emu_opcode *find_exact(const struct opcode_index *index, const char *name)
{
	int low = 0, high = index->count;

	while (low < high) {
		int middle = (low + high) / 2, order = strcmp(name, index->rows[middle]->name);

		if (!order)
			return index->rows[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* The longest row name made of leading components of the mnemonic. */
static const struct emu_opcode *find_opcode(const struct opcode_index *index, const char *mnemonic,
					    size_t *length)
{
	char name[256];
	size_t used = strlen(mnemonic);

	if (used >= sizeof name)
		return NULL;
	memcpy(name, mnemonic, used + 1);
	for (;;) {
		const struct emu_opcode *opcode = find_exact(index, name);

		if (opcode) {
			*length = strlen(name);
			return opcode;
		}
		char *dot = strrchr(name, '.');

		if (!dot)
			return NULL;
		*dot = 0;
	}
}

bool emu_reject(struct emu_decode *decode, const char *format, ...)
{
	struct emu_error *error = decode->error;
	const struct emu_ins *ins = decode->ins;
	char line[EMU_LINE_TEXT];
	va_list arguments;
	int used;

	if (error->text[0])
		return false;
	emu_line_text(ins, emu_module_position(decode->module, ins), line, sizeof line);
	error->line = (int)ins->line;
	used = snprintf(error->text, sizeof error->text, "%s: %s: ", line, ins->mnemonic);
	va_start(arguments, format);
	vsnprintf(error->text + used, sizeof error->text - (size_t)used, format, arguments);
	va_end(arguments);
	return false;
}

bool emu_take(struct emu_decode *decode, const char *modifier)
{
	for (int i = 0; i < decode->modifier_count; i++)
		if (!decode->taken[i] && !strcmp(decode->modifiers[i], modifier)) {
			decode->taken[i] = true;
			return true;
		}
	return false;
}

bool emu_take_aligned(struct emu_decode *decode)
{
	if (!emu_take(decode, "sync") || !emu_take(decode, "aligned"))
		return emu_reject(decode, ".sync.aligned is missing");
	decode->ins->flags |= EMU_I_ALIGNED;
	return true;
}

int emu_take_one(struct emu_decode *decode, const char *const *names)
{
	int found = -1;

	for (int i = 0; names[i]; i++) {
		if (!emu_take(decode, names[i]))
			continue;
		if (found >= 0) {
			emu_reject(decode, "modifiers '.%s' and '.%s' exclude each other",
				   names[found], names[i]);
			return -2;
		}
		found = i;
	}
	return found;
}

enum emu_type emu_take_type(struct emu_decode *decode)
{
	for (int i = 0; i < decode->modifier_count; i++) {
		enum emu_type type;

		if (decode->taken[i])
			continue;
		type = emu_type_named(decode->modifiers[i], strlen(decode->modifiers[i]));
		if (type != EMU_T_NONE) {
			decode->taken[i] = true;
			return type;
		}
	}
	return EMU_T_NONE;
}

const char *emu_take_prefix(struct emu_decode *decode, const char *prefix)
{
	size_t length = strlen(prefix);

	for (int i = 0; i < decode->modifier_count; i++)
		if (!decode->taken[i] && !strncmp(decode->modifiers[i], prefix, length)) {
			decode->taken[i] = true;
			return decode->modifiers[i] + length;
		}
	return NULL;
}

enum emu_space emu_take_space(struct emu_decode *decode, enum emu_space otherwise)
{
	static const struct {
		const char *name;
		enum emu_space space;
	} spaces[] = {
		{"global", EMU_GLOBAL},
		{"shared", EMU_SHARED},
		{"shared::cta", EMU_SHARED},
		{"shared::cluster", EMU_SHARED_CLUSTER},
		{"const", EMU_CONST},
		{"local", EMU_LOCAL},
		{"param", EMU_PARAM},
		{"param::entry", EMU_PARAM},
		{"param::func", EMU_PARAM_FUNCTION},
	};

	/* In the order of the text: copies name the target's space, then the source's. */
	for (int m = 0; m < decode->modifier_count; m++)
		for (size_t i = 0; i < sizeof spaces / sizeof *spaces && !decode->taken[m]; i++)
			if (!strcmp(decode->modifiers[m], spaces[i].name)) {
				decode->taken[m] = true;
				return spaces[i].space;
			}
	return otherwise;
}

bool emu_take_cache(struct emu_decode *decode)
{
	static const char *const hints[] = {"ca",
					    "cg",
					    "cs",
					    "lu",
					    "cv",
					    "wb",
					    "wt",
					    "L1::evict_normal",
					    "L1::evict_unchanged",
					    "L1::evict_first",
					    "L1::evict_last",
					    "L1::no_allocate",
					    "L2::evict_normal",
					    "L2::evict_first",
					    "L2::evict_last",
					    "L2::64B",
					    "L2::128B",
					    "L2::256B"};

	for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
		emu_take(decode, hints[i]);
	return emu_take(decode, "L2::cache_hint");
}

void emu_take_semantics(struct emu_decode *decode)
{
	static const struct {
		const char *word;
		uint8_t semantics, scope;
	} words[] = {
		{"weak", EMU_WEAK, EMU_SCOPE_NONE},
		{"relaxed", EMU_RELAXED, EMU_SCOPE_NONE},
		{"acquire", EMU_ACQUIRE, EMU_SCOPE_NONE},
		{"release", EMU_RELEASE, EMU_SCOPE_NONE},
		{"acq_rel", EMU_ACQUIRE | EMU_RELEASE, EMU_SCOPE_NONE},
		{"sc", EMU_ACQUIRE | EMU_RELEASE, EMU_SCOPE_NONE},
		{"volatile", EMU_RELAXED, EMU_SCOPE_GPU},
		{"mmio", EMU_RELAXED, EMU_SCOPE_GPU},
		{"cta", EMU_WEAK, EMU_SCOPE_CTA},
		{"cluster", EMU_WEAK, EMU_SCOPE_CLUSTER},
		{"gpu", EMU_WEAK, EMU_SCOPE_GPU},
		{"sys", EMU_WEAK, EMU_SCOPE_GPU},
	};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (emu_take(decode, words[i].word)) {
			decode->ins->semantics |= words[i].semantics;
			decode->ins->scope |= words[i].scope;
		}
}

void *emu_decode_extra(struct emu_decode *decode, size_t size)
{
	void *extra = emu_arena_alloc(&decode->module->arena, size);

	if (!extra)
		emu_reject(decode, "out of memory");
	return extra;
}

/* ---- one function ------------------------------------------------------------ */

static bool split_modifiers(struct emu_decode *decode, const char *mnemonic, size_t skip)
{
	char *rest;

	decode->modifier_count = 0;
	memset(decode->taken, 0, sizeof decode->taken);
	if (!mnemonic[skip])
		return true;
	rest = emu_arena_text(&decode->module->arena, mnemonic + skip + 1,
			      strlen(mnemonic + skip + 1));
	if (!rest)
		return emu_reject(decode, "out of memory");
	for (char *at = rest; at;) {
		char *dot = strchr(at, '.');

		if (decode->modifier_count == EMU_MAX_MODIFIERS)
			return emu_reject(decode, "more than %d modifiers", EMU_MAX_MODIFIERS);
		if (dot)
			*dot = 0;
		decode->modifiers[decode->modifier_count++] = at;
		at = dot ? dot + 1 : NULL;
	}
	return true;
}

/* Targets by flag, with what a message says of them. */
static bool has_target(unsigned flag, int sm, char suffix)
{
	switch (flag) {
	case EMU_P_SM90:
		return sm >= 90;
	case EMU_P_SM90A:
		return sm == 90 && suffix == 'a';
	case EMU_P_SM100:
		return sm >= 100;
	case EMU_P_SM100A:
		return sm >= 100 && sm < 120 && suffix;
	case EMU_P_SPECIFIC:
		return suffix;
	case EMU_P_SM100_OR_110:
		return (sm == 100 || sm == 101 || sm == 110) && suffix == 'a';
	case EMU_P_SM103A:
		return (sm == 103 || sm == 110) && suffix;
	default:
		return (sm == 100 || sm == 103) && suffix;
	}
}

bool emu_want_target(struct emu_decode *decode, unsigned flags, const char *what)
{
	static const struct {
		unsigned flag;
		const char *text;
	} targets[] = {
		{EMU_P_SM90, "needs sm_90 or later"},
		{EMU_P_SM90A, "exists on sm_90a alone"},
		{EMU_P_SM100, "needs sm_100 or later"},
		{EMU_P_SM100A, "needs sm_100a or its family"},
		{EMU_P_SPECIFIC, "needs a target such as sm_90a or sm_100f, with a or f"},
		{EMU_P_SM100_OR_110, "exists on sm_100a and sm_110a alone"},
		{EMU_P_SM103A, "exists on sm_103a and sm_110a, not on sm_100a"},
		{EMU_P_SM100_OR_103, "exists on sm_100a and sm_103a alone"},
	};
	const struct emu_module *module = decode->module;

	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
		if ((flags & targets[i].flag) &&
		    !has_target(targets[i].flag, module->sm, module->sm_suffix))
			return emu_reject(decode, "%s%s%s; the module is for %s", what,
					  *what ? " " : "", targets[i].text, module->target);
	return true;
}

static bool decode_one(struct emu_decode *decode, const struct opcode_index *index)
{
	struct emu_ins *ins = decode->ins;
	size_t length = 0;

	decode->opcode = find_opcode(index, ins->mnemonic, &length);
	if (!decode->opcode)
		return emu_reject(decode, "unknown opcode '%.*s'", (int)strcspn(ins->mnemonic, "."),
				  ins->mnemonic);
	if (!emu_want_target(decode, decode->opcode->flags, "") ||
	    !split_modifiers(decode, ins->mnemonic, length))
		return false;
	ins->execute = decode->opcode->execute;
	ins->written = ins->operand_count && !(decode->opcode->flags & EMU_P_NO_RESULT) ? 1 : 0;
	ins->read = ((1u << ins->operand_count) - 1) & ~ins->written;
	if (!decode->opcode->decode(decode))
		return emu_reject(decode, "cannot be decoded");
	for (int i = 0; i < decode->modifier_count; i++)
		if (!decode->taken[i])
			return emu_reject(decode,
					  "modifier '.%s' is unknown to %s, or stands twice",
					  decode->modifiers[i], decode->opcode->name);
	if (decode->error->text[0])
		return false;
	if (!ins->execute)
		return emu_reject(decode, "this form is not implemented");
	ins->flags |= EMU_I_ALL;
	return true;
}

bool emu_decode_function(struct emu_module *module, struct emu_function *function,
			 struct emu_error *error)
{
	struct opcode_index *index = malloc(sizeof *index);
	struct emu_decode decode = {.module = module, .function = function, .error = error};
	bool fine = index != NULL;

	if (!index)
		snprintf(error->text, sizeof error->text, "out of memory");
	else
		build_index(index);
	for (uint32_t pc = 0; fine && pc < function->ins_count; pc++) {
		decode.ins = &function->ins[pc];
		fine = decode_one(&decode, index);
	}
	free(index);
	return fine;
}

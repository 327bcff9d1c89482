/* How instructions get their handlers; functions and modules. */
#ifndef TCMMA_EMU_MODULE_H
#define TCMMA_EMU_MODULE_H

#include "instruction.h"

/* ---- opcodes: how an instruction gets its handler ---- */

struct emu_decode {
	struct emu_module *module;
	struct emu_function *function;
	struct emu_ins *ins; /* operands, line, mnemonic are filled; written/read hold the default:
				operand 0 written, all others read */
	const struct emu_opcode *opcode;
	const char *modifiers[EMU_MAX_MODIFIERS]; /* behind the opcode's name, no dots */
	bool taken[EMU_MAX_MODIFIERS];
	int modifier_count;
	struct emu_error *error;
};

/* Flags of a row; all but the first name targets, of which each must hold the module's. */
enum emu_opcode_flags {
	EMU_P_NO_RESULT = 1,     /* operand 0 is read like the others */
	EMU_P_SM90A = 2,         /* sm_90a alone */
	EMU_P_SM100A = 4,        /* sm_100a, 100f, 101a, 103a, 110a and f */
	EMU_P_SM90 = 8,          /* sm_90 and later */
	EMU_P_SM100 = 16,        /* sm_100 and later */
	EMU_P_SPECIFIC = 32,     /* a target with the suffix a or f */
	EMU_P_SM100_OR_110 = 64, /* sm_100a, 101a, 110a alone */
	EMU_P_SM103A = 128,      /* sm_103a, 110a and f */
	EMU_P_SM100_OR_103 = 256 /* sm_100a, 103a; with f where EMU_P_SM100A takes it */
};

/*
 * One row of a table.  `name` is the opcode with the leading components of the
 * mnemonic that select it ("cp.async.bulk.tensor"); the row with the longest
 * name that is a prefix of the mnemonic wins.  decode looks at modifiers (a set:
 * in any order; whatever it does not take is an error), checks operands and
 * fills ins; it sets ins->execute where `execute` is NULL.
 */
struct emu_opcode {
	const char *name;
	bool (*decode)(struct emu_decode *decode);
	emu_execute execute;
	unsigned flags;
};

struct emu_opcode_table {
	const struct emu_opcode *rows;
	int count;
};

/* Each file with opcodes defines one with EMU_OPCODE_TABLE and is named in opcodes.def. */
#define EMU_OPCODE_TABLE(file, array)                                                              \
	const struct emu_opcode_table emu_opcodes_##file = {                                       \
		(array), (int)(sizeof(array) / sizeof *(array))}

/* True and taken when the set holds `modifier`. */
bool emu_take(struct emu_decode *decode, const char *modifier);
/* .sync.aligned, of an instruction that needs it; else error set. */
bool emu_take_aligned(struct emu_decode *decode);
/*
 * The index in the NULL-terminated list of the one that is there, -1 when none
 * is; two at once are an error: then -2, error set.
 */
int emu_take_one(struct emu_decode *decode, const char *const *names);
/* The first type not yet taken, EMU_T_NONE when none is left. */
enum emu_type emu_take_type(struct emu_decode *decode);
/* Removes a modifier that begins with `prefix`; the rest of it, NULL when there is none. */
const char *emu_take_prefix(struct emu_decode *decode, const char *prefix);
/* The state space among the modifiers, or `otherwise`. */
enum emu_space emu_take_space(struct emu_decode *decode, enum emu_space otherwise);
/* Takes whatever only directs caches: .L2::128B, .L1::no_allocate, .ca, .L2::cache_hint ...;
   true when .L2::cache_hint was there, whose policy is one more operand. */
bool emu_take_cache(struct emu_decode *decode);
/* .sem and .scope, kept in the instruction. */
void emu_take_semantics(struct emu_decode *decode);

/* Sets the error; always false. */
bool emu_reject(struct emu_decode *decode, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool emu_want_operands(struct emu_decode *decode, int least, int most);
/* Operand i is a register or an immediate usable with `bits`; immediates get a row. */
bool emu_want_value(struct emu_decode *decode, int i, int bits);
bool emu_want_register(struct emu_decode *decode, int i, int bits);
bool emu_want_predicate(struct emu_decode *decode, int i);
bool emu_want_address(struct emu_decode *decode, int i);
/* A vector of `count` items (0: any) of `bits`; a lone register is a vector of one. */
bool emu_want_vector(struct emu_decode *decode, int i, int count, int bits);
/* The address is generic: it has 64 bits. */
bool emu_want_generic(struct emu_decode *decode, int i);
bool emu_want_immediate(struct emu_decode *decode, int i, int64_t least, int64_t most);
/* The module's target is one of those of `flags` (enum emu_opcode_flags); `what` needs it. */
bool emu_want_target(struct emu_decode *decode, unsigned flags, const char *what);
/* Zeroed, lives as long as the module. */
void *emu_decode_extra(struct emu_decode *decode, size_t size);

/* ---- functions and modules ---- */

/* A row of a function's constant bank. */
struct emu_constant {
	uint64_t value;
	uint32_t offset;
	bool wide;
	struct emu_constant *next;
};

struct emu_function {
	const char *name;
	bool entry, defined, noreturn;
	int index; /* in the module; its VA is EMU_WINDOW_FUNCTION + 16 * (index + 1) */
	struct emu_module *module;
	emu_execute builtin; /* vprintf and the like: called with the frame of the callee */
	struct emu_variable **params;
	int param_count;
	struct emu_variable **results;
	int result_count;
	struct emu_variable *variables; /* of the function's scopes */
	struct emu_table *tables;
	struct emu_ins *ins;
	uint32_t ins_count, ins_room;
	uint32_t register_count; /* virtual */
	uint8_t *register_types;
	uint32_t *register_refs; /* per virtual register, set by colouring */
	uint32_t slot_count;     /* 32-bit rows of a frame */
	uint32_t predicate_count;
	uint32_t *undefined,
		undefined_count; /* virtual, that may be read before they are written */
	uint32_t frame_bytes;    /* local memory of one call, per lane, 16-byte aligned */
	uint32_t param_bytes;    /* entry: size of the parameter block */
	uint8_t *constants;      /* the constant bank */
	uint32_t constant_bytes, constant_room;
	struct emu_constant **constant_buckets; /* by hash of the value */
	uint32_t constant_count, constant_bucket_count;
	uint32_t static_smem; /* bytes of shared memory that its module declares and it uses */
	struct emu_kernel_info info;
	uint32_t max_registers; /* .maxnreg, 0 where absent */
	uint32_t dynamic_smem_align;
	int cta_group; /* of all its tcgen05 instructions; 0: it has none */
	uint32_t cta_group_line;
	struct emu_function *next;
};

struct emu_module {
	struct emu *emu;
	struct emu_arena arena;
	char target[16];
	int sm;         /* 90, 100, ... */
	char sm_suffix; /* 'a', 'f' or 0 */
	int version_major, version_minor;
	struct emu_function *functions, **by_index;
	int function_count;
	struct emu_function **kernels;
	int kernel_count;
	struct emu_variable *variables;
	uint32_t static_smem, shared_align;
	const struct emu_position **positions; /* of .loc; [0] means none */
	uint32_t position_count;
	uint64_t *allocations; /* of .global and .const variables */
	int allocation_count;
};

/* What .loc says of an instruction. */
static inline struct emu_position emu_module_position(const struct emu_module *module,
						      const struct emu_ins *ins)
{
	return ins->source ? *module->positions[ins->source] : (struct emu_position){0};
}

/* Bytes that hold a line of the text with its position, of names that are not very long. */
#define EMU_LINE_TEXT 600
/* As snprintf: "PTX line 60 (gemm.lua:18)". */
int emu_line_text(const struct emu_ins *ins, struct emu_position at, char *text, size_t size);

/* Whether the machine that the module is loaded into runs code for its .target. */
bool emu_target_runs(const struct emu_module *module, struct emu_error *error);

#endif

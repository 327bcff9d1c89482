/* What a PTX text consists of: addresses, types, operands, instructions. */
#ifndef TCMMA_EMU_INSTRUCTION_H
#define TCMMA_EMU_INSTRUCTION_H

#include "emu.h"

#define EMU_LANES          32
#define EMU_FULL           0xffffffffu
#define EMU_MAX_CTA_WARPS  32
#define EMU_MAX_CLUSTER    16
#define EMU_NAMED_BARRIERS 16
#define EMU_MAX_MODIFIERS  24
#define EMU_MAX_JOINS      64
#define EMU_ROW_BYTES      (EMU_LANES * 4)

/* ---- the map of addresses ---- */

/*
 * A 32-bit shared address is rank << 24 | EMU_SHARED_BASE + offset, rank being
 * that of the CTA in its cluster: the own window is part of shared::cluster.
 * A generic address is a global one, or a window plus the 32-bit address.
 */
#define EMU_SHARED_BASE     0x400u
#define EMU_SHARED_RANK     24
#define EMU_SHARED_MASK     0xffffffu
#define EMU_GLOBAL_BASE     0x0000000200000000ull
#define EMU_WINDOW_SHARED   0x0001000000000000ull
#define EMU_WINDOW_LOCAL    0x0001000100000000ull
#define EMU_WINDOW_PARAM    0x0001000200000000ull
#define EMU_WINDOW_FUNCTION 0x0001000300000000ull
#define EMU_WINDOW_END      0x0001000400000000ull

enum emu_space {
	EMU_GENERIC,
	EMU_GLOBAL,
	EMU_CONST,
	EMU_SHARED,         /* the own CTA's: .shared, .shared::cta */
	EMU_SHARED_CLUSTER, /* any CTA of the cluster */
	EMU_LOCAL,
	EMU_PARAM,          /* of the kernel, read-only */
	EMU_PARAM_FUNCTION, /* of a .func or a call sequence: in the frame's local memory */
	EMU_REG
};

enum emu_access_kind {
	EMU_READ,
	EMU_WRITE,
	EMU_UPDATE
};

/* ---- types ---- */

enum emu_type {
#define EMU_TYPE(name, text, bits, class) EMU_T_##name,
#include "types.def"
#undef EMU_TYPE
	EMU_T_COUNT
};

enum emu_type_class {
	EMU_CLASS_BITS,
	EMU_CLASS_UNSIGNED,
	EMU_CLASS_SIGNED,
	EMU_CLASS_FLOAT
};

struct emu_type_info {
	const char *text; /* without the dot */
	uint16_t bits;
	uint8_t class;
};

extern const struct emu_type_info emu_types[EMU_T_COUNT];

/* EMU_T_NONE when `text` (no dot, `length` bytes) names no type. */
enum emu_type emu_type_named(const char *text, size_t length);

struct emu_u128 {
	uint64_t low, high;
};

/* ---- memory that lives as long as its owner ---- */

struct emu_arena {
	struct emu_arena_block *blocks;
	size_t used, limit; /* bytes in all; past the limit allocation fails */
};

/* Zeroed, 16-byte aligned; NULL when there is no room. */
void *emu_arena_alloc(struct emu_arena *arena, size_t size);
char *emu_arena_text(struct emu_arena *arena, const char *text, size_t length);
void emu_arena_free(struct emu_arena *arena);

/* ---- operands ---- */

enum emu_operand_kind {
	EMU_O_NONE,
	EMU_O_SINK, /* _ */
	EMU_O_REGISTER,
	EMU_O_PREDICATE, /* .pred register */
	EMU_O_IMMEDIATE, /* integer, bits in `value` */
	EMU_O_FLOAT,     /* 0f, 0d or decimal: `value` holds the bits of a double */
	EMU_O_SYMBOL,    /* address of `variable`, plus `value` */
	EMU_O_FUNCTION,  /* address of `function` */
	EMU_O_SPECIAL,   /* %tid.x, ...: `value` is enum emu_special */
	EMU_O_VECTOR,    /* {a, b, ...}: items */
	EMU_O_PAIR,      /* a|b: two items */
	EMU_O_ADDRESS,   /* [items[0] + value], or [items[0], items[1] ...] */
	EMU_O_LIST,      /* (a, b): tuple of a call */
	EMU_O_LABEL,     /* `value` is the instruction it names */
	EMU_O_TABLE      /* label of .branchtargets, .calltargets or .callprototype */
};

/*
 * Where a row of lanes lies: a byte offset into one of the warp's banks, the
 * bank in the low two bits.  Predicates: the index into the frame's masks.
 */
enum emu_bank {
	EMU_BANK_FRAME,
	EMU_BANK_CONSTANT,
	EMU_BANK_WARP
};

struct emu_operand {
	uint8_t kind;   /* enum emu_operand_kind */
	uint8_t type;   /* declared type of a register, enum emu_type */
	uint16_t bits;  /* of a register: 1, 8, 16, 32, 64, 128 */
	bool negated;   /* !p; of a register, by video instructions alone, -r */
	uint32_t ref;   /* see enum emu_bank; valid once registers have slots */
	uint32_t reg;   /* virtual register */
	uint32_t count; /* of items */
	int64_t value;
	struct emu_operand *items;
	union {
		const struct emu_variable *variable;
		const struct emu_function *function;
		const struct emu_table *table;
		const char *selector; /* of a video instruction's register: "h1", "b3210" */
	};
};

/* A variable of the module, of a function, or a parameter. */
struct emu_variable {
	const char *name;
	uint8_t space; /* enum emu_space */
	uint8_t type;
	bool external;  /* .extern .shared x[]: starts behind all static shared memory */
	bool pointer;   /* .ptr */
	bool parameter; /* formal parameter, as opposed to a call sequence's */
	uint32_t align;
	uint64_t size;
	uint64_t address; /* global, const: the VA; shared: offset in the CTA's window;
			     local, .func param: offset in the frame; kernel param:
			     offset in the parameter block */
	/* Shared: the function that uses it; in common when several do. */
	const struct emu_function *user;
	bool common;
	struct emu_variable *next;
};

struct emu_table {
	const char *name;
	bool targets; /* .branchtargets: labels */
	uint32_t count;
	uint32_t *pcs;                        /* .branchtargets */
	const struct emu_function *prototype; /* .callprototype */
	struct emu_table *next;
};

/* ---- instructions ---- */

struct emu_warp;
struct emu_ins;

enum emu_step {
	EMU_NEXT,    /* done: on to the next instruction */
	EMU_JUMPED,  /* the handler has set the split's pc, or split or ended it */
	EMU_BLOCKED, /* emu_block_on was called: executed again from scratch when woken */
	EMU_YIELD,   /* done; let others run */
	EMU_STOPPED  /* a fault was reported */
};

typedef enum emu_step (*emu_execute)(struct emu_warp *warp, const struct emu_ins *ins,
				     uint32_t mask);

enum emu_ins_flags {
	EMU_I_ALIGNED = 1, /* all live lanes of the warp must be here together */
	EMU_I_UNIFORM = 2, /* .uni */
	EMU_I_BRANCH = 4,  /* bra, brx: operands name the targets */
	EMU_I_EXIT = 8,    /* exit, ret of the entry */
	EMU_I_RETURN = 16,
	EMU_I_CALL = 32,
	EMU_I_POLL = 64,           /* may be what a spinning loop watches */
	EMU_I_PENDING_WGMMA = 128, /* writes registers until the next wait of the class */
	EMU_I_PENDING_TMEM = 256,
	EMU_I_AWAIT_WGMMA = 512, /* all pending registers of the class are written */
	EMU_I_AWAIT_TMEM = 1024,
	EMU_I_SYNC = 2048,      /* a point where other splits get their turn */
	EMU_I_UNDEFINED = 8192, /* reads a register that no instruction of the function writes */
	EMU_I_TAINT = 16384,    /* touches a register whose value may be undefined */
	EMU_I_PENDING = 32768,  /* touches one that a pending instruction of the function touches */
	EMU_I_ALL = 4096        /* every instruction has it: see `attention` of a warp */
};

/* What an access of memory synchronises, of which EMU_WEAK is nothing; a mask. */
enum emu_semantics {
	EMU_WEAK,
	EMU_RELAXED = 1, /* .volatile too */
	EMU_ACQUIRE = 3,
	EMU_RELEASE = 5
};

/* Whom an atomic access, a release or an acquire reaches. */
enum emu_scope {
	EMU_SCOPE_NONE,
	EMU_SCOPE_CTA,
	EMU_SCOPE_CLUSTER,
	EMU_SCOPE_GPU, /* .sys too */
	EMU_SCOPE_COUNT
};

struct emu_ins {
	emu_execute execute;
	uint32_t ref[5]; /* of the first register-like operands, for the ALU */
	uint32_t guard;  /* index of the guarding predicate, or EMU_NO_GUARD */
	bool guard_negated;
	uint32_t guard_register; /* virtual */
	uint8_t operand_count;
	uint8_t space;       /* enum emu_space of a memory access */
	uint8_t type, type2; /* enum emu_type */
	uint8_t variant;     /* the handler's own */
	uint8_t count;       /* the handler's own, e.g. elements of a vector access */
	uint8_t semantics;   /* enum emu_semantics, as far as the text says */
	uint8_t scope;       /* enum emu_scope, as far as the text says */
	uint8_t taint;       /* how undefined values go through it: enum emu_taint_flow */
	uint32_t flags;      /* enum emu_ins_flags */
	uint32_t written;    /* bit i: operand i is written */
	uint32_t read;       /* bit i: operand i is read (may be written too) */
	uint32_t line;       /* of the PTX text */
	uint32_t source;     /* index into the module's positions, 0: none */
	uint32_t join;       /* pc of the immediate post-dominator of a branch */
	struct emu_operand *operands;
	void *extra; /* the handler's own, from emu_decode_extra */
	const char *mnemonic;
};

#define EMU_NO_GUARD 0xffffffffu
#define EMU_NO_JOIN  0xffffffffu /* lanes meet at the return, or never */

#endif

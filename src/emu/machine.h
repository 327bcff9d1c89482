/*
 * The inside of the emulator: modules, instructions, grids, warps.
 *
 * Invariants every file relies on:
 *   A register is a row of 32 lanes: 8, 16 and 32 bit registers uint32_t[32]
 *   (narrow ones zero-extended), 64 bit uint64_t[32], 128 bit struct emu_u128[32].
 *   A predicate is one uint32_t lane mask.
 *   A warp's lanes are partitioned into splits; a split is what is scheduled.
 *   An execute function writes only the lanes of the mask it is given.
 *
 * Section numbers in the comments of this folder, such as (9.1), are those of docs/isa.md.
 */
#ifndef TCMMA_EMU_MACHINE_H
#define TCMMA_EMU_MACHINE_H

#include "emu.h"
#include <string.h>

#define EMU_LANES          32
#define EMU_FULL           0xffffffffu
#define EMU_MAX_CTA_WARPS  32
#define EMU_MAX_CLUSTER    16
#define EMU_NAMED_BARRIERS 16
#define EMU_MAX_MODIFIERS  24
#define EMU_MAX_JOINS      64
#define EMU_ROW_BYTES      (EMU_LANES * 4)

/* ---- the map of addresses --------------------------------------------------- */

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

/* ---- types -------------------------------------------------------------------- */

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

/* ---- memory that lives as long as its owner ------------------------------------- */

struct emu_arena {
	struct emu_arena_block *blocks;
	size_t used, limit; /* bytes in all; past the limit allocation fails */
};

/* Zeroed, 16-byte aligned; NULL when there is no room. */
void *emu_arena_alloc(struct emu_arena *arena, size_t size);
char *emu_arena_text(struct emu_arena *arena, const char *text, size_t length);
void emu_arena_free(struct emu_arena *arena);

/* ---- operands -------------------------------------------------------------------- */

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
	bool negated;   /* !p */
	uint32_t ref;   /* see enum emu_bank; valid once registers have slots */
	uint32_t reg;   /* virtual register */
	uint32_t count; /* of items */
	int64_t value;
	struct emu_operand *items;
	union {
		const struct emu_variable *variable;
		const struct emu_function *function;
		const struct emu_table *table;
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

/* ---- instructions ------------------------------------------------------------------ */

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
	uint32_t flags;      /* enum emu_ins_flags */
	uint32_t written;    /* bit i: operand i is written */
	uint32_t read;       /* bit i: operand i is read (may be written too) */
	uint32_t line;       /* of the PTX text */
	uint32_t source;     /* index into the module's .loc positions, 0: none */
	uint32_t join;       /* pc of the immediate post-dominator of a branch */
	struct emu_operand *operands;
	void *extra; /* the handler's own, from emu_decode_extra */
	const char *mnemonic;
};

#define EMU_NO_GUARD 0xffffffffu
#define EMU_NO_JOIN  0xffffffffu /* lanes meet at the return, or never */

/* ---- opcodes: how an instruction gets its handler ------------------------------------ */

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

/* ---- functions and modules ------------------------------------------------------------ */

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

struct emu_location {
	const char *file;
	uint32_t line;
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
	const char **files; /* .file by number */
	int file_count;
	struct emu_location *locations;
	uint32_t location_count, location_room;
	uint64_t *allocations; /* of .global and .const variables */
	int allocation_count;
};

/* Whether the machine that the module is loaded into runs code for its .target. */
bool emu_target_runs(const struct emu_module *module, struct emu_error *error);

/* ---- the running grid -------------------------------------------------------------------- */

struct emu_split;
struct emu_cta;
struct emu_cluster;
struct emu_grid;
struct emu_worker;
struct emu_order;
struct emu_hazards;
struct emu_between;
struct emu_footprint;
struct emu_coverage;

/*
 * What splits wait for; first member of every object that can be waited for.
 * `describe` writes what the split waits for and what is missing, without a
 * line break; it is called only while the split is blocked.
 */
struct emu_waitable {
	struct emu_split *first, *last;
	void (*describe)(const struct emu_waitable *waitable, const struct emu_split *split,
			 char *text, size_t size);
};

/* One call of a function by some lanes of a warp. */
struct emu_frame {
	struct emu_frame *parent;
	const struct emu_function *function;
	uint8_t *rows; /* function->slot_count rows */
	uint32_t *predicates;
	uint32_t return_pc;  /* in the parent */
	uint32_t local_base; /* offset of the frame in local memory */
	uint32_t references; /* splits, child frames and engine operations */
	uint32_t depth;
	const struct emu_ins *call; /* in the parent */
	uint32_t mask;              /* lanes that entered and have not left */
	uint32_t returned;          /* lanes parked at a return */
	uint32_t local_top;         /* end of the frame in local memory, alloca included */
	int16_t join;               /* innermost join of the caller, -1: none */
};

/* Lanes that parted at a branch and meet again at `pc` of `frame`. */
struct emu_join {
	struct emu_frame *frame;
	uint32_t pc;
	uint32_t mask;    /* lanes still to meet */
	uint32_t arrived; /* lanes parked */
	int16_t parent;   /* -1: none */
	bool used;
};

enum emu_split_state {
	EMU_SPLIT_FREE,
	EMU_SPLIT_READY,
	EMU_SPLIT_BLOCKED,
	EMU_SPLIT_PARKED,    /* at a join */
	EMU_SPLIT_RETURNING, /* at a return, until the other lanes of the call return */
	EMU_SPLIT_POLLING    /* spins, and nothing it can see has changed */
};

struct emu_split {
	struct emu_warp *warp;
	struct emu_frame *frame;
	uint32_t pc, mask;
	uint8_t state;
	int16_t join;                      /* innermost, -1: none */
	struct emu_waitable *waitable;     /* while blocked */
	struct emu_split *next, *previous; /* in the queue of its state */
	/* For handlers that block: zero when an instruction is first reached, kept
	   over EMU_BLOCKED, zeroed when the instruction is done. */
	uint32_t stage;
	uint64_t scratch;
	uint8_t timeouts; /* of mbarrier.try_wait, one after the other */
#define EMU_TIMED_OUT 1   /* `stage` of a try_wait that is to return false */
	/* Poll detection. */
	bool polled;
	uint32_t poll_pc, poll_repeats;
	uint64_t poll_hash, poll_changes;
};

struct emu_warp {
	/* What the running instruction sees. */
	uint8_t *bank[4];     /* enum emu_bank */
	uint32_t *predicates; /* of the frame */
	struct emu_frame *frame;
	struct emu_split *split;
	const struct emu_ins *ins;
	uint32_t lane_mask[EMU_LANES]; /* 0 or EMU_FULL, of `lane_mask_of` */
	uint32_t lane_mask_of;
	uint32_t carry;             /* CC.CF of each lane */
	struct emu_allocation *hit; /* last allocation accessed */

	struct emu_cta *cta;
	struct emu_worker *worker;
	struct emu_grid *grid;
	int index;     /* in the CTA */
	uint32_t live; /* lanes that have not exited */
	struct emu_split splits[EMU_LANES];
	int split_count;
	struct emu_join joins[EMU_MAX_JOINS];
	struct emu_rendezvous *rendezvous; /* of .sync operations under divergence */
	struct emu_waitable meeting;
	uint8_t *specials; /* EMU_BANK_WARP */
	uint8_t *local;    /* lane l at l * local_bytes */
	uint32_t local_bytes;
	struct emu_frame *frames_free;
	uint32_t registers;             /* per thread, as setmaxnreg left it */
	uint32_t cluster_arrived;       /* lanes between barrier.cluster.arrive and wait */
	uint32_t cluster_pending;       /* of those, the ones whose phase is still open */
	struct emu_copy_groups *copies; /* cp.async, per lane */
	uint64_t instructions;
	uint64_t random;         /* state of the warp's generator */
	void *async;             /* of the asynchronous half */
	uint32_t attention;      /* flags of instructions that are not simply executed */
	struct emu_order *order; /* of hazard.h; NULL in fast mode */
};

#define EMU_BARRIER_RESULTS 4

struct emu_named_barrier {
	struct emu_waitable waitable;
	uint32_t expected; /* threads; 0: all that have not exited */
	uint32_t count;    /* arrived, in the running phase */
	bool open;         /* has arrivals */
	bool counted;      /* the running phase has a thread count */
	uint64_t phase;
	uint32_t arrived[EMU_MAX_CTA_WARPS]; /* lanes, in the running phase */
	/* bar.red: of the running phase, and of the last ones by phase. */
	uint32_t voted, votes, results[EMU_BARRIER_RESULTS][2];
};

struct emu_cta {
	struct emu_cluster *cluster;
	struct emu_grid *grid;
	struct emu_worker *worker;
	uint32_t id[3];    /* %ctaid */
	uint32_t rank;     /* in the cluster */
	uint32_t rank3[3]; /* %cluster_ctaid */
	uint32_t thread_count, warp_count;
	uint32_t live_threads;
	bool exited;
	uint8_t *shared; /* static, then dynamic */
	uint32_t shared_bytes;
	struct emu_warp **warps;
	struct emu_named_barrier barriers[EMU_NAMED_BARRIERS];
	uint32_t register_pool; /* registers free for setmaxnreg.inc */
	struct emu_waitable pool;
	void *async; /* of the asynchronous half */
};

struct emu_cluster {
	struct emu_grid *grid;
	struct emu_worker *worker;
	uint64_t index;
	uint32_t id[3]; /* %clusterid */
	int cta_count;
	struct emu_cta **ctas; /* by rank */
	uint32_t live_threads;
	uint32_t barrier_arrived; /* threads */
	uint64_t barrier_phase;
	struct emu_waitable barrier;
	struct emu_engine_op *ops, *last_op; /* issued, not complete; in issue order */
	uint32_t op_count;
	bool refused; /* a thread has seen that no other cluster is taken over */
	struct emu_cluster *next, *previous;
	void *async;                 /* of the asynchronous half */
	struct emu_hazards *hazards; /* NULL in fast mode */
};

/* What is wanted of one host thread. */
struct emu_worker {
	struct emu_grid *grid;
	struct emu_cluster *clusters; /* resident */
	int resident_ctas;
	struct emu_split *ready, *ready_last;
	uint32_t ready_count;
	struct emu_split *polling, *polling_last;
	uint64_t changes; /* of memory and barriers, see emu_changed */
	uint64_t instructions, since_admission;
	uint64_t before; /* instructions of clusters that other workers, or this one before, ran */
	uint64_t random;
	struct emu_counters counters;
	struct emu_coverage *coverage; /* of check and random mode */
	struct emu_footprint
		*footprint; /* of the last cluster that was freed, where they are taken */
	uint8_t *specials[EMU_MAX_CTA_WARPS]; /* model of the EMU_BANK_WARP of each warp */
	bool stop;
};

struct emu_grid {
	struct emu *emu;
	const struct emu_module *module;
	const struct emu_function *kernel;
	const struct emu_launch *launch;
	struct emu_report *report;
	uint32_t grid[3], block[3], cluster[3];
	uint64_t cta_count, cluster_count, next_cluster, cluster_ctas;
	uint32_t thread_count, warp_count;
	uint32_t shared_bytes, static_smem;
	uint8_t *params; /* the parameter block */
	uint32_t param_bytes;
	uint32_t registers_per_thread;
	int sm_count;
	uint64_t max_instructions;
	struct emu_between *between; /* of between.h; NULL in fast mode and for a single cluster */
	enum emu_mode mode;
	enum emu_numerics numerics;
	_Atomic bool stopped; /* another host thread may find that an earlier cluster has stopped */
};

/* ---- reading and writing operands --------------------------------------------------------- */

static inline uint8_t *emu_row(const struct emu_warp *warp, uint32_t ref)
{
	return warp->bank[ref & 3] + (ref & ~3u);
}

/* Rows of a register or immediate operand of at most 32, of 64, of 128 bits. */
static inline uint32_t *emu_row32(const struct emu_warp *warp, uint32_t ref)
{
	return (uint32_t *)emu_row(warp, ref);
}

static inline uint64_t *emu_row64(const struct emu_warp *warp, uint32_t ref)
{
	return (uint64_t *)emu_row(warp, ref);
}

static inline struct emu_u128 *emu_row128(const struct emu_warp *warp, uint32_t ref)
{
	return (struct emu_u128 *)emu_row(warp, ref);
}

/* A register row of a frame that need not be the running one (late results). */
static inline uint32_t *emu_frame_row32(const struct emu_frame *frame, uint32_t ref)
{
	return (uint32_t *)(frame->rows + (ref & ~3u));
}

/*
 * The value of a register, immediate, special register or symbol for one lane;
 * for sinks 0.  128-bit registers: the low half.
 */
uint64_t emu_value(const struct emu_warp *warp, const struct emu_operand *operand, int lane);
/* Writes a register; nothing for a sink. */
void emu_set_value(struct emu_warp *warp, const struct emu_operand *operand, int lane,
		   uint64_t value);
/* Lane mask of a predicate operand (negation applied) or of an integer immediate. */
uint32_t emu_predicate(const struct emu_warp *warp, const struct emu_operand *operand);
/* Writes the lanes of `mask`; nothing for a sink. */
void emu_set_predicate(struct emu_warp *warp, const struct emu_operand *operand, uint32_t mask,
		       uint32_t value);
/*
 * The address an EMU_O_ADDRESS names for one lane, in the instruction's state
 * space: base + displacement, wrapped to 32 bits for a 32-bit base.
 */
uint64_t emu_address(const struct emu_warp *warp, const struct emu_operand *operand, int lane);

/* Item i of a vector; the operand itself for a lone register and i = 0. */
static inline const struct emu_operand *emu_item(const struct emu_operand *operand, int i)
{
	return operand->kind == EMU_O_VECTOR || operand->kind == EMU_O_PAIR ? &operand->items[i]
									    : operand;
}

static inline int emu_lowest(uint32_t mask)
{
	return __builtin_ctz(mask);
}

#define EMU_FOR_LANES(lane, mask)                                                                  \
	for (uint32_t lanes_ = (mask), lane = 0;                                                   \
	     lanes_ && (lane = (uint32_t)__builtin_ctz(lanes_), 1); lanes_ &= lanes_ - 1)

/* The lanes of `mask` that the instruction's guard lets through. */
static inline uint32_t emu_active(const struct emu_warp *warp, const struct emu_ins *ins,
				  uint32_t mask)
{
	uint32_t guard;

	if (ins->guard == EMU_NO_GUARD)
		return mask;
	guard = warp->predicates[ins->guard];
	return mask & (ins->guard_negated ? ~guard : guard);
}

/* ---- memory ---------------------------------------------------------------------------------- */

struct emu_allocation {
	uint64_t address, size;
	uint8_t *host;
	bool read_only; /* .const */
	bool released;  /* kept, so that a use after the release can be named */
	char name[64];
};

/* Of a parked or running instruction, kept for reports made later. */
struct emu_where {
	struct emu_grid *grid;
	const struct emu_ins *ins;
	const struct emu_function *function;
	uint32_t cta[3];
	int warp; /* -1: none */
	int lane; /* -1: none */
};

struct emu_where emu_here(const struct emu_warp *warp, int lane);

/*
 * Host pointer to [address, address + size) of `space`, or NULL after a fault
 * has been reported: unmapped, out of bounds, read-only, misaligned (`align`
 * bytes; 1 for none), a CTA that has exited.
 */
void *emu_mem(struct emu_warp *warp, int lane, enum emu_space space, uint64_t address,
	      uint32_t size, uint32_t align, enum emu_access_kind kind);
/* Shared memory by the 32-bit address as seen from `cta`; *owner is the CTA it lies in. */
void *emu_mem_shared(struct emu_cta *cta, const struct emu_where *where, uint64_t address,
		     uint32_t size, uint32_t align, enum emu_access_kind kind,
		     struct emu_cta **owner);
void *emu_mem_global(struct emu_grid *grid, const struct emu_where *where, uint64_t address,
		     uint64_t size, uint32_t align, enum emu_access_kind kind);
/* What lies at a global address, released or not; NULL when nothing ever did. */
struct emu_allocation *emu_find_allocation(struct emu *emu, uint64_t address, uint64_t size);
/* The one that starts at or below the address, for reports. */
struct emu_allocation *emu_nearest_allocation(struct emu *emu, uint64_t address);
/* The space and the address in it that a generic address means. */
enum emu_space emu_generic_space(uint64_t *address);
/* The 32-bit shared address (any CTA of the cluster) of a .shared or generic address; false when
   a generic address lies elsewhere (a fault has been reported). */
bool emu_shared_address(struct emu_warp *warp, int lane, enum emu_space space, uint64_t *address);
/* The CTA whose window holds the address, NULL when there is none or it lies elsewhere. */
struct emu_cta *emu_shared_owner(const struct emu_cta *cta, uint64_t address);

static inline uint32_t emu_shared_base(const struct emu_cta *cta)
{
	return cta->rank << EMU_SHARED_RANK | EMU_SHARED_BASE;
}

/* Whoever changes memory or a barrier says so: spinning splits look again. */
static inline void emu_changed(struct emu_worker *worker)
{
	worker->changes++;
}

/* ---- faults ------------------------------------------------------------------------------------
 */

/* Both report an EMU_ERROR, which stops the grid; lane -1: the whole warp. */
enum emu_step emu_fault(struct emu_warp *warp, int lane, const char *rule, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void emu_fault_at(const struct emu_where *where, const char *rule, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A lint: reported, and the grid goes on. */
/* A hazard that does not stop the grid; counted once for each pair of instructions. */
void emu_hazard_at(const struct emu_where *where, enum emu_severity severity, const char *rule,
		   const struct emu_ins *other, const char *text);
/* Adds the hazards of a part of the grid, as if they had been found now. */
void emu_report_merge(const struct emu_grid *grid, const struct emu_report *part);
/* The same hazard has been reported: it is counted, and its text need not be made. */
bool emu_hazard_again(const struct emu_where *where, const char *rule, const struct emu_ins *other);
/* The launch's line for an instruction, NULL if it has none. */
const struct emu_source_line *emu_line_of(const struct emu_grid *grid, const struct emu_ins *ins);
/* The position in the source that an instruction was made from; NULL, 0 when unknown. */
void emu_source_of(const struct emu_grid *grid, const struct emu_ins *ins, const char **file,
		   uint32_t *line);

/* ---- words for reports ---------------------------------------------------------------------- */

/* What the launch's symbols have at a place of a space, and how far in; NULL if nothing. */
const struct emu_symbol *emu_symbol_at(const struct emu_grid *grid, int space, uint32_t address,
				       uint32_t *offset);
/* The next one behind `before`: members of a union share a place. */
const struct emu_symbol *emu_symbol_after(const struct emu_grid *grid,
					  const struct emu_symbol *before, int space,
					  uint32_t address, uint32_t *offset);
/* The name of a warp of every CTA, NULL if it has none. */
const char *emu_role_of(const struct emu_grid *grid, int warp);
/* NULL where the launch has none for the rule. */
const char *emu_hint_for(const struct emu_grid *grid, const char *rule);
/* Both as snprintf: "CTA (0,0,0) warp 1 (role 'mma')" and "PTX line 60 (gemm.lua:18)". */
int emu_describe_warp(const struct emu_grid *grid, const uint32_t cta[3], int warp, char *text,
		      size_t size);
int emu_describe_line(const struct emu_grid *grid, const struct emu_ins *ins, char *text,
		      size_t size);

/* ---- scheduling
 * ---------------------------------------------------------------------------------- */

/* Blocks the running split; return EMU_BLOCKED right after. */
enum emu_step emu_block_on(struct emu_warp *warp, struct emu_waitable *waitable);
/* All, or one, of the waiting splits execute their instruction again. */
void emu_wake(struct emu_waitable *waitable);
/*
 * Parts `mask` from the running split: those lanes stay at this instruction, in
 * a ready split of their own.  What remains is the running split; its mask must
 * not become empty.  False (after a fault) when that cannot be done.
 */
bool emu_part(struct emu_warp *warp, uint32_t mask);

void emu_frame_retain(struct emu_frame *frame);
void emu_frame_release(struct emu_warp *warp, struct emu_frame *frame);

/* Deterministic: depends on the launch's seed and on what was drawn before. */
uint32_t emu_random(uint64_t *state);

/* ---- asynchronous operations
 * ---------------------------------------------------------------------- */

/*
 * Something an engine does behind the instruction's back.  FAST completes it at
 * issue, CHECK when nothing else can run, RANDOM at some moment.  Operations
 * with the same non-NULL `order` complete in the order of issue.  `complete`
 * does the effects (data, then signals) and may wake splits and issue further
 * operations; it must not free the operation.  `discard` frees it, completed or not.
 */
struct emu_engine_op {
	struct emu_engine_op *next, *previous;
	struct emu_cluster *cluster;
	const void *order;
	struct emu_where where;
	void (*complete)(struct emu_engine_op *op);
	void (*discard)(struct emu_engine_op *op);
};

void emu_engine_issue(struct emu_cluster *cluster, struct emu_engine_op *op);

/*
 * The asynchronous half keeps its state in the `async` members.  Created before
 * anything runs, false when there is no memory; `exit` is called when the last
 * thread of the CTA is gone (leaks are reported there), `free` at the end,
 * also for a grid that was stopped.
 */
bool emu_async_cluster_init(struct emu_cluster *cluster);
bool emu_async_cta_init(struct emu_cta *cta);
bool emu_async_warp_init(struct emu_warp *warp);
void emu_async_cta_exit(struct emu_cta *cta);
void emu_async_warp_free(struct emu_warp *warp);
void emu_async_cta_free(struct emu_cta *cta);
void emu_async_cluster_free(struct emu_cluster *cluster);
/* True when the CTA has asynchronous work that must end before it may (open reads of its memory).
 */
bool emu_async_cta_busy(const struct emu_cta *cta);

#endif

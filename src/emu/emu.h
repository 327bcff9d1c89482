/*
 * The emulator: PTX text in, grid out, host memory as global memory.
 *
 * A library of its own.  It knows PTX and nothing of the recorder or of Lua, so
 * that it can judge what the emitter wrote as well as what nvcc or Triton wrote.
 * Every function that can fail takes an error buffer; none exits, none aborts,
 * whatever PTX or arguments it is given.
 */
#ifndef TCMMA_EMU_H
#define TCMMA_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_ERROR_SIZE 4096
#define EMU_MAX_RANK   5

/* A message ready to be shown; `line` is a line of the PTX text or 0. */
struct emu_error {
	char text[EMU_ERROR_SIZE];
	int line;
};

/* ---- machine and global memory ------------------------------------------ */

struct emu;

struct emu_options {
	const char *target;    /* "sm_100a", "sm_90a", ...: what the device is */
	uint64_t memory_limit; /* bytes of global memory in all; 0: 64 GiB */
	int sm_count;          /* CTAs that may be resident together; 0: 132 */
};

struct emu *emu_new(const struct emu_options *options, struct emu_error *error);
void emu_free(struct emu *emu);

/*
 * Global memory.  Device addresses are never reused, so that a use after free
 * is an access to nothing.  emu_alloc returns 0 on failure.  A fresh
 * allocation is zero; emu_host gives the bytes behind [address, address + size)
 * or NULL, for reading and writing by the host.
 */
uint64_t emu_alloc(struct emu *emu, uint64_t size, const char *name, struct emu_error *error);
bool emu_release(struct emu *emu, uint64_t address);
void *emu_host(struct emu *emu, uint64_t address, uint64_t size);
bool emu_read(struct emu *emu, void *dst, uint64_t address, uint64_t size, struct emu_error *error);
bool emu_write(struct emu *emu, uint64_t address, const void *src, uint64_t size,
	       struct emu_error *error);

/* ---- modules ------------------------------------------------------------- */

struct emu_module;

/* Parses, checks and decodes; .global variables get their memory here. */
struct emu_module *emu_module_load(struct emu *emu, const char *ptx, size_t length,
				   struct emu_error *error);
void emu_module_free(struct emu_module *module);

struct emu_param_info {
	uint32_t size, align;
	const char *type; /* "u32", "f32", "b8", ... */
	bool pointer;     /* has a .ptr attribute */
};

struct emu_kernel_info {
	const char *name;
	int param_count;
	const struct emu_param_info *params;
	uint32_t static_smem;
	uint32_t max_threads[3];      /* .maxntid, 0 where absent */
	uint32_t required_threads[3]; /* .reqntid */
	uint32_t required_cluster[3]; /* .reqnctapercluster */
	uint32_t instruction_count;
	uint32_t register_slots; /* 32-bit slots a lane needs after colouring */
};

int emu_module_target(const struct emu_module *module); /* 90, 100, ... */
int emu_module_kernel_count(const struct emu_module *module);
const struct emu_kernel_info *emu_module_kernel(const struct emu_module *module, int index);

/* ---- tensor maps ---------------------------------------------------------- */

enum emu_tensormap_type { /* numbered as CUtensorMapDataType */
	EMU_TM_U8,
	EMU_TM_U16,
	EMU_TM_U32,
	EMU_TM_S32,
	EMU_TM_U64,
	EMU_TM_S64,
	EMU_TM_F16,
	EMU_TM_F32,
	EMU_TM_F64,
	EMU_TM_BF16,
	EMU_TM_F32_FTZ,
	EMU_TM_TF32,
	EMU_TM_TF32_FTZ,
	EMU_TM_16U4_ALIGN8B,
	EMU_TM_16U4_ALIGN16B,
	EMU_TM_16U6_ALIGN16B
};

enum {
	EMU_TM_SWIZZLE_96 = 7
};

enum emu_tensormap_mode {
	EMU_TM_TILED,
	EMU_TM_IM2COL,
	EMU_TM_IM2COL_W,   /* along the width alone, with a halo */
	EMU_TM_IM2COL_W128 /* the same, of 128 pixels */
};

/*
 * The arguments of cuTensorMapEncodeTiled, innermost dimension first; of
 * cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide in the other modes.
 */
struct emu_tensormap {
	int type; /* enum emu_tensormap_type */
	int rank; /* 1..5 */
	uint64_t address;
	uint64_t dims[EMU_MAX_RANK];    /* elements */
	uint64_t strides[EMU_MAX_RANK]; /* bytes; strides[i] belongs to dims[i + 1] */
	uint32_t box[EMU_MAX_RANK];     /* elements */
	uint32_t element_strides[EMU_MAX_RANK];
	int interleave; /* 0 none, 1 16 B, 2 32 B */
	int swizzle;    /* 0 none, 1 32B, 2 64B, 3 128B, 4 128B atom
			   32B, 5 the same with 8 B flip, 6 atom 64B;
			   EMU_TM_SWIZZLE_96, which only tensormap.replace sets */
	int l2_promotion;
	int oob_fill; /* 0 zeros, 1 NaN */
	int mode;     /* enum emu_tensormap_mode: im2col has no `box`, but the following */
	int lower[EMU_MAX_RANK - 2]; /* corners of the box of pixels, of dims[1] and on; */
	int upper[EMU_MAX_RANK - 2]; /* the upper ones count from the last pixel */
	uint32_t channels, pixels;   /* of a copy */
};

/* Checks every rule that the driver's encode function has on a device of `target` (90, 100 ...). */
bool emu_tensormap_encode(const struct emu_tensormap *map, int target, uint8_t out[128],
			  struct emu_error *error);

/* ---- launch --------------------------------------------------------------- */

enum emu_mode {
	EMU_FAST,
	EMU_CHECK,
	EMU_RANDOM
};
enum emu_numerics {
	EMU_F32,
	EMU_HARDWARE
};

/* What the writer of the PTX may add to make reports readable. */
struct emu_symbol {
	int space;              /* 's' shared, 't' tensor memory, 'b' mbarriers, 'w' warps */
	uint32_t address, size; /* shared: offset in the CTA's window; tensor memory:
				   column relative to the first allocation; warps: index */
	const char *name;
	const char *file; /* where it was made, NULL if unknown */
	uint32_t line;
	const char *note; /* mbarriers: who arrives; NULL if unknown */
};

/*
 * How the writer of the PTX calls what mends a hazard of a rule: the first one that fits.  One with
 * a file is for hazards of that line of it, one with another file for those whose earlier access is
 * of that line.
 */
struct emu_hint {
	const char *rule, *text;
	const char *file, *other_file;
	uint32_t line, other_line;
	bool consequence; /* the cause is another than the rule's: what mends that does not help */
};

/* A position in a source, and where the function that holds it was inlined; NULL: it was not. */
struct emu_position {
	const char *file; /* NULL: unknown */
	uint32_t line;
	const struct emu_position *inlined_at;
};

struct emu_source_line {
	uint32_t ptx_line; /* holds from here to the next entry */
	uint32_t line;
	const char *file;
	/*
	 * Of an index that is out of bounds, NULL if there is none: a text line for each trap of
	 * the PTX line, in which {} is the value that the instruction before the trap compared.
	 */
	const char *note;
};

/* What a CTA's memory held when its last thread and all that was in flight had ended. */
struct emu_cta_memory {
	uint32_t cta[3];
	const uint8_t *shared;          /* static, then dynamic */
	uint32_t shared_bytes, dynamic; /* `dynamic`: where the dynamic part begins */
	/* Column c, lane r is tmem[c * 128 + r]; NULL where none was allocated. */
	const uint32_t *tmem;
	uint32_t first_column; /* of the first allocation */
};

/* A slice of a trace: what a warp or an engine did, in microseconds of emulated time. */
struct emu_trace_event {
	uint32_t cta[3];
	const char *track;     /* a role, a warp or an engine */
	uint32_t track_number; /* their order */
	const char *kind;      /* "line", "wait", "engine" */
	const char *name;
	double start, duration;
};

struct emu_launch {
	const char *kernel;
	uint32_t grid[3], block[3], cluster[3]; /* cluster 0: 1, or the kernel's own */
	uint32_t dynamic_smem;
	int param_count;
	const void *const *params; /* bytes of each .param */
	const uint32_t *param_sizes;
	enum emu_mode mode;
	enum emu_numerics numerics;
	uint64_t seed;
	uint64_t max_instructions; /* warp-instructions; 0: 2^34 */
	int threads;               /* host threads; 0: 1 */
	int symbol_count;
	const struct emu_symbol *symbols;
	int line_count;
	const struct emu_source_line *lines;
	int hint_count;
	const struct emu_hint *hints;
	void (*print)(void *context, const char *text, size_t length);
	void *print_context;
	bool (*interrupted)(void *context); /* polled; true ends the launch */
	void *interrupt_context;
	/* Called now and then from the caller's thread: how much has run, and CTAs begun. */
	void (*progress)(void *context, uint64_t instructions, uint64_t ctas);
	void *progress_context;
	void (*inspect)(void *context, const struct emu_cta_memory *memory);
	void *inspect_context;
	/* In check and random mode: every slice, in no order; one host thread then runs the grid.
	 */
	void (*trace)(void *context, const struct emu_trace_event *event);
	void *trace_context;
};

enum emu_severity {
	EMU_ERROR,
	EMU_LINT
};

struct emu_hazard {
	const char *rule; /* "deadlock", "out-of-bounds", ... */
	enum emu_severity severity;
	char *message;
	uint32_t ptx_line;
	struct emu_position at; /* as the launch's lines or the module, whose memory it names */
	uint32_t cta[3];
	int warp;
	uint64_t count;            /* how often the same fault was seen */
	uint32_t other_line;       /* PTX line of the other side of a race, 0 if none */
	struct emu_position other; /* its position */
	const char *role;          /* name of the warp by the launch's symbols, NULL if none */
};

struct emu_counters {
	uint64_t warp_instructions, thread_instructions;
	uint64_t global_read, global_written; /* bytes, of instructions of threads */
	uint64_t shared_read, shared_written; /* the same, and operands of MMAs and tcgen05.cp */
	uint64_t tmem_read, tmem_written; /* of ld, st and cp; A of an MMA, not what it adds to */
	uint64_t tma_bytes;
	uint64_t mma_flops; /* 2 * m * n * k of each MMA */
	uint64_t mma_instructions;
	double seconds; /* host wall time */
};

struct emu_report {
	int hazard_count;
	struct emu_hazard *hazards;
	struct emu_counters counters;
	bool completed; /* false: an error stopped the grid */
};

/*
 * Runs a grid to its end.  Returns false when the launch itself is illegal
 * (`error` says why) and nothing ran.  Faults of the running kernel are in
 * `report`; the first EMU_ERROR stops the grid.
 */
bool emu_run(struct emu *emu, const struct emu_module *module, const struct emu_launch *launch,
	     struct emu_report *report, struct emu_error *error);
void emu_report_clear(struct emu_report *report);
/* As snprintf: "swap.h:5, inlined at gemm.cu:18"; of many calls the nearest and the outermost. */
int emu_position_text(const struct emu_position *position, char *text, size_t size);

#endif

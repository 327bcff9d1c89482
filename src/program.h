/* A compiled kernel and its launch: what the compiler hands to the devices. */
#ifndef TCMMA_PROGRAM_H
#define TCMMA_PROGRAM_H

#include "tc.h"

#define TC_MAP_RANK 5   /* dimensions that a tensor map can have */
#define TC_MAP_BOX  256 /* elements along a dimension of its boxes */
/* A coordinate behind all arrays, with room for a box; a multiple of 16 bytes along a row. */
#define TC_MAP_OUTSIDE 0x7fffff00

/* One launch parameter of the emitted kernel, filled from the user's arrays. */
enum param_kind {
	PARAM_TENSORMAP,
	PARAM_POINTER,
	PARAM_DIM,    /* u32: a named dimension */
	PARAM_PROFILE /* the buffer of a kernel with profile = true, or NULL */
};
struct param {
	enum param_kind kind;
	int arg; /* PARAM_DIM: number of the named dimension */
	/*
	 * PARAM_TENSORMAP: innermost first.  Map dimension i runs along axis[i] of
	 * the argument; collapsed[i] further axes, slower ones, are merged into it.
	 */
	int rank;
	int axis[TC_MAX_RANK], collapsed[TC_MAX_RANK];
	uint32_t box[TC_MAX_RANK];
	int swizzle;     /* bytes: 0, 32, 64, 128 */
	bool atom_32;    /* which 128 moves together */
	int tma_type;    /* CUtensorMapDataType */
	int per_element; /* elements of the argument that make one of the map: 4 of tc.uint2 */
};

/* What the leader of one program in one CTA writes where a kernel has profile = true. */
#define TC_PROFILE_CTAS   64
#define TC_PROFILE_EVENTS 4096
#define TC_PROFILE_AFTER  0x80000000u /* a wait has ended; else an op is about to begin */
struct tc_profile_part {
	uint64_t timer[2]; /* nanoseconds: begin and end */
	uint32_t clock[2]; /* of the SM, at the same moments */
	uint32_t events, unused;
	struct {
		uint32_t op, clock; /* id of the op */
	} event[TC_PROFILE_EVENTS];
};

/*
 * Variable of a kernel with tc.assert: the address of host memory for so many bytes, a text with a
 * zero at its end that the first failing assert writes; 0: nowhere.
 */
#define TC_ASSERT_VARIABLE "tc_assert_text"
#define TC_ASSERT_TEXT     512

struct program_symbol {
	char space; /* 's' SMEM, 't' TMEM, 'b' barriers, 'w' warps of a role */
	uint32_t address, size;
	const char *name;
	const char *file; /* where it was made, NULL: unknown */
	uint32_t line;
	const char *note; /* barriers: who arrives, NULL: nobody */
};
struct program_line {
	uint32_t ptx_line, line;
	const char *file;
	const char *note; /* what the traps here mean, a line each (emu.h); NULL: nothing */
};
/* Legal and yet likely to be wrong, as the recording alone shows; a list in its order. */
struct program_lint {
	struct program_lint *next;
	const char *rule, *message;
	const char *role; /* NULL: none was made */
	const char *file; /* NULL: unknown */
	uint32_t line;
};
/* What mends a hazard of a rule between these lines; no file: any line. */
struct program_hint {
	const char *rule, *text;
	const char *file, *other_file; /* the other: of the earlier access */
	uint32_t line, other_line;
	bool consequence; /* the cause is another than the rule's */
};
/* The same lines with checks of recorded indices among them, for the emulator. */
struct program_text {
	const char *ptx;
	size_t length;
	int line_count;
	struct program_line *lines;
};
struct program_info {
	int threads, warps;
	int64_t smem_bytes;
	int tmem_columns, barrier_count, named_barriers;
	const char *text; /* roles, allocations, barriers: for k:info and dumps */
};

/* A compiled kernel: text and what a launch needs.  Lives in its own arena. */
struct program {
	struct arena arena;
	const struct target *target;
	const char *ptx;
	size_t ptx_length;
	const char *entry;
	uint32_t block[3], cluster[3];
	uint32_t smem;     /* dynamic bytes */
	bool programmatic; /* may start before the grids that it depends on have ended */
	int param_count;
	struct param *params;
	int symbol_count;
	struct program_symbol *symbols;
	int line_count;
	struct program_line *lines;
	struct program_text *checked; /* NULL: no index needs a check */
	struct program_lint *lints;
	int hint_count;
	struct program_hint *hints;
	struct program_info info;
	int profile_programs;       /* parts a CTA; 0: no profile */
	const char **profile_names; /* of the programs */
};
struct tensormap { /* arguments of cuTensorMapEncodeTiled, innermost first */
	int type, rank;
	uint64_t address;
	uint64_t dims[TC_MAP_RANK],
		strides[TC_MAP_RANK]; /* elements; bytes, strides[i] of dims[i + 1] */
	uint32_t box[TC_MAP_RANK], element_strides[TC_MAP_RANK];
	int interleave, swizzle, l2_promotion, oob_fill; /* the driver's enumerators */
	/* Of cuTensorMapEncodeIm2col, which has no box; see enum map_mode. */
	int mode, zero;         /* zero fills up: maps are compared by bytes */
	int lower[3], upper[3]; /* corners of the box of pixels, dimension i + 1 */
	uint32_t channels, pixels;
};

enum map_mode {
	MAP_TILED,
	MAP_IM2COL,
	MAP_IM2COL_W,
	MAP_IM2COL_W128
};

struct launch_param {
	bool is_tensormap;
	struct tensormap map;
	uint8_t bytes[128];
	uint32_t size;     /* of bytes */
	const void *large; /* in place of `bytes` where size > 128; the caller's */
};

struct launch {
	const char *ptx; /* NUL-terminated */
	size_t ptx_length;
	const char *entry, *name; /* entry in the PTX; the user's name */
	uint32_t grid[3], block[3], cluster[3], smem;
	bool programmatic; /* griddepcontrol.wait waits for the launch before, not the stream */
	int param_count;
	const struct launch_param *params;
	int symbol_count, line_count;
	const struct program_symbol *symbols;
	const struct program_line *lines;
	const struct program_text *checked; /* what the emulator runs, NULL: ptx */
	const struct program_lint *lints;
	int hint_count;
	const struct program_hint *hints;
	const char *source_name, *source; /* what the PTX was compiled from, NULL: unknown */
	void **cache; /* a slot of the caller's: the loaded module on this device */
};

#endif

/*
 * Devices: where arrays live and kernels run.  Only dev*.c, gpu.c and the border
 * include this; nothing else asks whether a device is a GPU or the emulator.
 */
#ifndef TCMMA_DEV_H
#define TCMMA_DEV_H

#include "tc.h"

#include <signal.h>

struct emu_cta_memory;
struct emu_position;
struct emu_trace_event;

struct run_options {
	const char *mode;     /* "fast", "check", "random"; NULL: the default */
	const char *numerics; /* "f32", "hardware"; NULL: the default of the mode */
	uint64_t seed, max_instructions;
	int threads;
	void *stream;
	struct emu_report *report; /* filled by the emulator when given */
	void (*print)(void *context, const char *text, size_t length);
	void *print_context;
	/* The memory of each block at its end: the emulator calls it when given. */
	void (*inspect)(void *context, const struct emu_cta_memory *memory);
	void *inspect_context;
	/* Slices of emulated time: the emulator calls it when given, on one thread. */
	void (*trace)(void *context, const struct emu_trace_event *event);
	void *trace_context;
};

struct device_properties {
	char description[128]; /* the product's name */
	int sm_count, max_threads, clock_khz;
	uint64_t memory, memory_free; /* bytes */
	int64_t smem_limit;           /* bytes a block may use */
};

/*
 * Failures: false or NULL, with e->text and e->kind set.  ERR_ENVIRONMENT has one of the codes
 * "no-library", "no-driver", "no-device", "no-assembler"; "ptx-rejected" marks PTX that the
 * assembler or the emulator refuses, "hazard" a fault of the running kernel, "lost" a GPU whose
 * context died.
 */
struct device_ops {
	/* 0 on failure, with a message in e->text */
	uint64_t (*alloc)(struct device *d, uint64_t bytes, const char *name, struct err *e);
	void (*release)(struct device *d, uint64_t address);
	bool (*read)(struct device *d, void *dst, uint64_t src, uint64_t bytes, struct err *e);
	bool (*write)(struct device *d, uint64_t dst, const void *src, uint64_t bytes,
		      struct err *e);
	/* The host's view of device memory, NULL where there is none (GPU). */
	void *(*host)(struct device *d, uint64_t address, uint64_t bytes);
	bool (*launch)(struct device *d, const struct launch *l, const struct run_options *o,
		       struct err *e);
	bool (*synchronize)(struct device *d, struct err *e);
	void (*unload)(struct device *d, void *cached);
	void (*close)(struct device *d);
	/* Streams and events; NULL handles are the device's own order. */
	void *(*stream_new)(struct device *d, struct err *e);
	void (*stream_free)(struct device *d, void *stream);
	bool (*stream_synchronize)(struct device *d, void *stream, struct err *e);
	void *(*event_new)(struct device *d, struct err *e);
	void (*event_free)(struct device *d, void *event);
	bool (*event_record)(struct device *d, void *event, void *stream, struct err *e);
	/* Both were recorded.  Waits for them; milliseconds from one record to the other. */
	bool (*event_elapsed)(struct device *d, void *from, void *to, double *ms, struct err *e);
	void (*properties)(struct device *d, struct device_properties *p);
};

struct device {
	const char *name; /* "cuda:0", "emulator:sm_100a" */
	const struct target *target;
	const struct device_ops *ops;
	int references; /* the registry's, each array's, each module's */
	bool closed;
	void *state;
};

/* dev.c */
/* Sets e and returns false. */
bool tc_dev_fail(struct err *e, enum err_kind kind, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Can code for `target` ("sm_90a", "sm_80", "sm_100f") run where the device is `device`? */
bool tc_target_runs(const char *target, const char *device);
/* "cuda:0", "emulator", "emulator:sm_90a", NULL for the default; NULL and e on failure. */
struct device *tc_device_open(const char *name, struct err *e);
struct device *tc_device_hold(struct device *d);
void tc_device_drop(struct device *d);
/* The emulated device that arrays of d can be run on (d itself for emulators). */
bool tc_device_is_emulator(const struct device *d);
/*
 * Of the source that a launch's PTX was compiled from, the line of the position, or of the nearest
 * call of it in that source, without its indentation; NULL where there is none.
 */
const char *tc_source_line(const struct launch *l, const struct emu_position *at, size_t *length);

/* dev_emu.c, gpu.c */
struct device *tc_emulator_open(const struct target *t, struct err *e);
struct device *tc_gpu_open(int ordinal, struct err *e);
int tc_gpu_count(struct err *e); /* 0 with e->text when there is no driver */
int tc_driver_version(void);     /* 13000 for CUDA 13.0; 0: no driver */

/* jit.c: PTX to cubin, CUDA C to PTX.  false: e->text says what is missing or wrong. */
bool tc_assemble(const char *ptx, size_t length, const char *target, struct strbuf *cubin,
		 struct strbuf *log, struct err *e);
/*
 * For cubins and reports: as tc_assemble, but by ptxas where the text needs that (ptxas.c) and it
 * is installed.  `assembler`: which it was, e.g. "ptxas 13.0.88".
 */
bool tc_assemble_whole(const char *ptx, size_t length, const char *target, struct strbuf *cubin,
		       struct strbuf *log, const char **assembler, struct err *e);
/* The PTX names files in the current folder as they were given, without the folder. */
bool tc_nvrtc(const char *source, const char *name, const char *target, const char *const *options,
	      int option_count, struct strbuf *ptx, struct strbuf *log, struct err *e);

/* Version of the assembler that tc_assemble uses, e.g. "nvJitLink 13.0"; NULL: there is none. */
const char *tc_assembler_version(void);
const char *tc_nvrtc_version(void);

/* ptxas.c: the assembler as a program, which no launch starts. */
/* What the text says has an effect only when it is assembled as a whole program. */
bool tc_needs_whole_program(const char *ptx);
/* Of an extern shared array that stands behind static ones and needs more than 16; else 0. */
int tc_shared_tail_alignment(const char *ptx);
const char *tc_ptxas_version(void); /* NULL: there is none */
bool tc_ptxas(const char *ptx, size_t length, const char *target, struct strbuf *cubin,
	      struct strbuf *log);

/* tool.c: programs of the toolkit. */
bool tc_tool_find(const char *name, char *path, size_t size);
/* argv[0] is a path.  True when it ends well; output: what it printed, which the caller frees. */
bool tc_tool_run(const char *const argv[], struct strbuf *output);

/* dl.c: visits "nvidia/PACKAGE/KIND" of Python's installations until one is taken. */
bool tc_dl_python_folders(const char *kind, bool (*visit)(void *arg, const char *folder),
			  void *arg);

/* What the assembler's log says about one entry; -1 where it says nothing. */
struct assembly_info {
	int registers, spill_stores, spill_loads, stack, barriers;
	int64_t smem; /* static, bytes */
};
bool tc_assembly_info(const char *log, const char *entry, struct assembly_info *info);
/*
 * The log's next message of lost performance, by its number C75xx, without the assembler's prefix:
 * NULL after the last one.  *log begins at the whole log and moves on.
 */
const char *tc_assembly_warning(const char **log, size_t *length);
/* Says those messages on standard error, unless TCMMA_WARNINGS is off. */
void tc_assembly_warn(const char *name, const char *log);

/* signature.c: the entries of a PTX text, without a PTX parser. */
struct ptx_param {
	char name[128], type[8];   /* "u64", "f32", "b8" */
	uint32_t size, align;      /* bytes in all */
	bool is_array, is_pointer; /* .ptr: the text says that it is an address */
};
struct ptx_entry {
	char name[1024];
	int param_count;
	struct ptx_param *params;
	uint32_t max_threads[3], required_threads[3], required_cluster[3]; /* 0: not given */
};
struct ptx_signature {
	char version[16], target[32];
	int entry_count;
	struct ptx_entry *entries;
};
bool tc_ptx_signature(const char *ptx, struct ptx_signature *s, struct err *e);
void tc_ptx_signature_free(struct ptx_signature *s);
uint32_t tc_ptx_type_size(const char *type); /* "u64" -> 8; 0: not a type */

/* config.c: the TCMMA_* variables, read once; a setting of the whole process. */
enum config {
#define CONFIG(id, ...) CONFIG_##id,
#include "config.def"
	CONFIG_COUNT
};
struct config_info {
	const char *name, *variable;
	char type; /* 's' string, 'b' boolean, 'i' integer */
	const char *standard, *doc;
};
extern const struct config_info tc_config_infos[CONFIG_COUNT];
const char *tc_config_string(enum config c); /* NULL: not set; stays valid */
bool tc_config_boolean(enum config c);
int64_t tc_config_integer(enum config c);
bool tc_config_acceptable(enum config c, const char *text);
/* value NULL: back to the default.  False: not a value of its type. */
bool tc_config_set(enum config c, const char *value);

/* progress.c: the line that says how far a grid on the emulator is. */
struct progress {
	const char *name;
	uint64_t blocks;
	double due; /* seconds, of the next showing */
	bool wanted, shown;
};
void tc_progress_begin(struct progress *p, const struct launch *l);
void tc_progress_show(struct progress *p, uint64_t instructions, uint64_t block);
void tc_progress_end(struct progress *p);

/* interrupt.c: SIGINT sets a flag between begin and end, unless the process ignores it. */
struct interrupt {
	struct sigaction old;
	bool caught;
};
void tc_interrupt_begin(struct interrupt *i);
bool tc_interrupt_seen(void); /* since the last begin */
void tc_interrupt_end(struct interrupt *i);

/* cache.c */
bool tc_cache_get(uint64_t key[2], struct strbuf *data);
void tc_cache_put(uint64_t key[2], const void *data, size_t size);

#endif

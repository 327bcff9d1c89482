/* The border's device side: what lua_dev.c, lua_run.c, lua_module.c and lua_launch.c share. */
#ifndef TCMMA_LUA_DEV_H
#define TCMMA_LUA_DEV_H

#include "dev.h"
#include "emu/emu.h"
#include "lua_tc.h"

#define TC_STREAM "tcmma.stream"
#define TC_EVENT  "tcmma.event"
#define TC_REPORT "tcmma.report"
#define TC_INFO   "tcmma.info"

/* lua_config.c */
void tc_open_config(lua_State *L);

/* lua_dev.c */
/* Opens a device by name; false with e, nothing pushed.  The device stays the registry's. */
struct device *tc_open_named(lua_State *L, const char *name, struct err *e);
/* Raises e; a failure of the environment too, with its code in brackets. */
int tc_raise_device(lua_State *L, struct err *e);
/* nil, message, code for a failure of the environment; raises every other one. */
int tc_fail_device(lua_State *L, struct err *e);
/* Option 'stream' of the table: its handle, NULL if absent; must be of device d. */
void *tc_option_stream(lua_State *L, int arg, struct device *d);

/* lua_run.c: one launch, plain or emulated */

/* The loaded modules of one PTX text, one per device. */
struct loaded {
	int count;
	struct {
		struct device *device;
		void *cached;
	} at[8];
};
void **tc_loaded_slot(lua_State *L, struct loaded *l, struct device *d);
void tc_loaded_free(struct loaded *l);

/* An argument's array, for staging on another device; NULL where a parameter has none. */
struct run {
	struct launch launch;
	struct launch_param *params; /* launch.params */
	struct array **arrays;       /* per parameter */
	struct run_options options;
	/* With a report: what the run left. */
	struct emu_report report;
	char *output; /* what the kernel printed */
	size_t output_length, output_capacity;
	bool output_cut;           /* some is lost: too long, or no memory */
	struct trace *trace;       /* NULL: none is kept */
	uint64_t profile;          /* address of the buffer for PARAM_PROFILE, 0: none */
	struct lua_kernel *kernel; /* held; user value 1.  NULL: none */
};
/* The kernel at `index` stays for what the run at the top of the stack tells of it. */
void tc_run_holds(lua_State *L, struct run *r, int index);
/* A userdata that holds room for `count` parameters; pushed.  `report`: tc_run_report will use it.
 */
struct run *tc_new_run(lua_State *L, int count, bool report);
/* Option names of launch and emulate, and what they set. */
extern const char *const tc_run_options[];
extern const char *const tc_emulate_options[];
void tc_read_run_options(lua_State *L, int arg, struct run *r);
/* "grid = {..}" in the options at arg: 1 to 3 sizes, 1 where absent. */
bool tc_option_dims(lua_State *L, int arg, const char *name, uint32_t out[3]);
/* The emulated device of a target for `emulate`; pushes nothing. */
struct device *tc_emulate_device(lua_State *L, const char *target);
/* Launches on d; false and e. */
bool tc_run(struct device *d, struct run *r, struct err *e);
/*
 * Runs on an emulated device, arrays of other devices copied there and back, and pushes the
 * report; false and e when nothing ran (nothing pushed).
 */
/* Pushes it as a hazard of a report. */
void tc_push_lint(lua_State *L, const struct program_lint *lint);
bool tc_run_report(lua_State *L, struct device *d, struct run *r, struct err *e);
void tc_open_run(lua_State *L);
/* lua_report.c: pushes the report of a run on d, of which an emulator fills r->report. */
void tc_push_report(lua_State *L, const struct device *d, const struct run *r);
void tc_open_report(lua_State *L);
/* Writes text to a new file in the folder for dumps; its name, or NULL.  Pushed as a string. */
const char *tc_save_text(lua_State *L, const char *name, const char *suffix, const char *text,
			 size_t length);

/* lua_module.c */
struct lua_module {
	char *ptx; /* NULL once closed */
	size_t ptx_length;
	char *source_name, *source; /* of CUDA C; NULL: foreign PTX */
	struct ptx_signature signature;
	struct loaded loaded;
};
/* What the compiler or the assembler gave, owned by a userdata. */
struct assembled {
	struct strbuf text, log; /* PTX, or a cubin */
	const char *assembler;   /* of a cubin: which one */
};
/* Pushes an empty one. */
struct assembled *tc_new_assembled(lua_State *L);
/*
 * Pushes the owner of the cubin for the option 'target' at arg, else for the text's
 * own target; NULL and e.
 */
struct assembled *tc_module_assemble(lua_State *L, const struct lua_module *m, int arg,
				     struct err *e);
/* Pushes ".u64", ".b8[128]". */
void tc_push_param_type(lua_State *L, const struct ptx_param *p);
/* Pushes the entry as module:kernels() shows it. */
void tc_push_entry(lua_State *L, const struct ptx_entry *entry);

/* lua_function.c: a kernel of a module.  User value 1 is the module. */
struct lua_function {
	struct lua_module *module;
	const struct ptx_entry *entry;
	char name[1024]; /* as the user asked for it */
};
void tc_open_function(lua_State *L);

/* lua_program.c: a kernel compiled for a target, kept in the kernel */
struct compiled {
	const struct target *target;
	struct program *program;
	struct loaded loaded;
};
/* Compiles on first use; raises what is wrong with the kernel, at the user's line. */
struct compiled *tc_kernel_program(lua_State *L, int arg, const struct target *t);
/* The same, but NULL where the kernel cannot be compiled: its err says why. */
struct compiled *tc_kernel_try_program(lua_State *L, int arg, const struct target *t);
/* The option 'target' of the table at arg, else the kernel's own, else the current device's. */
const struct target *tc_kernel_target(lua_State *L, int arg, const struct kern *k);
/* Raises e, as an internal error with the PTX saved where the text that we wrote was refused. */
int tc_raise_program(lua_State *L, const struct program *p, struct err *e);
void tc_open_program(lua_State *L);
/* Compiles the kernel at 1 anew, finished or not; pushes what owns the program. */
struct program *tc_fresh_program(lua_State *L, const struct target *t);
/* The program for the option 'target' at arg, of the kernel at 1, whose recording may be open. */
const struct program *tc_program_of_call(lua_State *L, int arg);
/* Pushes what owns the cubin and the log; NULL and e where there is no assembler. */
struct assembled *tc_program_assemble(lua_State *L, const struct program *p, struct err *e);

/* lua_info.c */
void tc_open_info(lua_State *L);
/*
 * Sets `registers`, `spill_stores`, `spill_loads`, `stack`, `assembler` and `warnings` in the table
 * on top, and adds the last to its `lints`.  False: the log says nothing of the entry.
 */
bool tc_set_assembly(lua_State *L, const char *log, const char *entry, const char *assembler,
		     struct assembly_info *info);

/* lua_export.c: raises where it cannot. */
void tc_write_file(lua_State *L, const char *path, const char *text, size_t length);

/* lua_trace.c */
void tc_trace_begin(lua_State *L, struct run *r);
void tc_trace_free(struct trace *t);
struct trace *tc_trace_new(void); /* NULL: no memory */
void tc_trace_add(struct trace *t, const struct emu_trace_event *e);
void tc_push_trace(lua_State *L, const struct trace *t); /* as text */
/* lua_profile.c */
int tc_kernel_profile(lua_State *L, struct run *r, struct device *d, const struct program *p);
int tc_report_trace(lua_State *L);
extern const char tc_report_trace_doc[];

/* lua_estimate.c */
void tc_open_estimate(lua_State *L);
/* Field `estimate` of the table on top, or `estimate_missing`. */
void tc_set_estimate(lua_State *L, struct kern *k, const struct program *p);

/* lua_launch.c: pushes a run of p, a program of the kernel at 1, on the arrays from `first` on. */
struct run *tc_kernel_run(lua_State *L, const struct program *p, int first);

/* lua_export.c */
void tc_open_export(lua_State *L);

/* lua_tensormap.c */
struct lua_tensormap {
	struct tensormap map;
};
void tc_open_tensormap(lua_State *L);

#endif

/*
 * The types and functions of the core, which knows neither Lua nor CUDA: those of the headers
 * here, the targets and the compiler as a whole.
 */
#ifndef TCMMA_TC_H
#define TCMMA_TC_H

#include "check.h"
#include "kernel.h"
#include "record.h"
#include "util.h"

/* ---- target.c: what a target has ---- */

struct target {
	const char *name;             /* "sm_100a" */
	int sm;                       /* 100 */
	const char *ptx_version;      /* lowest that the target accepts */
	int64_t smem_limit;           /* bytes a block may use */
	int tmem_columns;             /* 0: none */
	bool load_reduces;            /* there is tcgen05.ld.red */
	int max_threads, registers;   /* a block; 32-bit registers a block */
	int sm_count;                 /* of the device that the emulator stands for */
	const struct target_ops *ops; /* lower.c: how this target carries out an op */
};
const struct target *tc_target_find(const char *name); /* NULL: unknown */
/* Accumulators of 64 rows lie in halves of the lanes: false if the kernel says that its target is
 * Hopper, whose accumulators are registers. */
bool tc_lanes_have_halves(const struct kern *k);
const struct target *const *tc_targets(void); /* NULL-terminated */

/* ---- verify.c, and the passes ---- */

/* What only the whole kernel shows; the message points at the op's line. */
void tc_verify(struct kern *k, const struct target *t);
/* What is known where a recording ends; `likely`: where it will run unless it says so, or NULL. */
void tc_verify_recording(struct kern *k, const struct target *likely);
/* SMEM of all allocations and barriers fits the target; `placed`: bytes with scratch and
 * alignment too, once they are known. */
void tc_verify_smem(struct kern *k, const struct target *t, int64_t placed);

struct program;
/* verify, lower, roles, place, emit.  Fails by tc_fail on k->err. */
struct program *tc_compile(struct kern *k, const struct target *t);
void tc_program_free(struct program *p);
/* The kernel after a pass, "record" "roles" "lower" "place" as text. */
void tc_dump(struct strbuf *b, struct kern *k, const struct target *t, const char *pass);

struct device;
struct device_ops;

#include "program.h"

#endif

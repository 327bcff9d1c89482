/*
 * Devices: where arrays live and kernels run.  Only dev*.c, gpu.c and the border
 * include this; nothing else asks whether a device is a GPU or the emulator.
 */
#ifndef TCMMA_DEV_H
#define TCMMA_DEV_H

#include "tc.h"

struct run_options {
	const char *mode;       /* "fast", "check", "random"; NULL: the default */
	const char *numerics;   /* "f32", "hardware"; NULL: the default of the mode */
	uint64_t seed, max_instructions;
	int threads;
	void *stream;
	struct emu_report *report;      /* filled by the emulator when given */
	void (*print)(void *context, const char *text, size_t length);
	void *print_context;
};

struct device_ops {
	/* 0 on failure, with a message in e->text */
	uint64_t (*alloc)(struct device *d, uint64_t bytes, const char *name, struct err *e);
	void (*release)(struct device *d, uint64_t address);
	bool (*read)(struct device *d, void *dst, uint64_t src, uint64_t bytes, struct err *e);
	bool (*write)(struct device *d, uint64_t dst, const void *src, uint64_t bytes, struct err *e);
	/* The host's view of device memory, NULL where there is none (GPU). */
	void *(*host)(struct device *d, uint64_t address, uint64_t bytes);
	bool (*launch)(struct device *d, const struct launch *l, const struct run_options *o,
	               struct err *e);
	bool (*synchronize)(struct device *d, struct err *e);
	void (*unload)(struct device *d, void *cached);
	void (*close)(struct device *d);
};

struct device {
	const char *name;       /* "cuda:0", "emulator:sm_100a" */
	const struct target *target;
	const struct device_ops *ops;
	int references;         /* the registry's, each array's, each module's */
	bool closed;
	void *state;
};

/* dev.c */
/* "cuda:0", "emulator", "emulator:sm_90a", NULL for the default; NULL and e on failure. */
struct device *tc_device_open(const char *name, struct err *e);
struct device *tc_device_hold(struct device *d);
void tc_device_drop(struct device *d);
/* The emulated device that arrays of d can be run on (d itself for emulators). */
bool tc_device_is_emulator(const struct device *d);

/* dev_emu.c, gpu.c */
struct device *tc_emulator_open(const struct target *t, struct err *e);
struct device *tc_gpu_open(int ordinal, struct err *e);
int tc_gpu_count(struct err *e);        /* 0 with e->text when there is no driver */

/* jit.c: PTX to cubin, CUDA C to PTX.  false: e->text says what is missing or wrong. */
bool tc_assemble(const char *ptx, size_t length, const char *target, struct strbuf *cubin,
                 struct strbuf *log, struct err *e);
bool tc_nvrtc(const char *source, const char *name, const char *target, const char *const *options,
              int option_count, struct strbuf *ptx, struct strbuf *log, struct err *e);

/* cache.c */
bool tc_cache_get(uint64_t key[2], struct strbuf *data);
void tc_cache_put(uint64_t key[2], const void *data, size_t size);

#endif

/*
 * A GPU's state: gpu.c has errors, memory and opening, gpu_wait.c waiting, gpu_launch.c modules and
 * launches.
 */
#ifndef TCMMA_GPU_H
#define TCMMA_GPU_H

#include "cuda_abi.h"
#include "dev.h"

#define PENDING      16  /* kernels whose names are kept for a late error */
#define ENCODED_MAPS 256 /* tensor maps kept, by content; a power of two */
#define NAME_SIZE    96

struct encoded_map {
	struct tensormap key;
	CUtensorMap map;
	bool used;
};

struct gpu {
	const struct cuda_driver *cu;
	CUdevice id;
	CUcontext context;
	/* Kernels launched since the last wait for the whole device, oldest overwritten. */
	char pending[PENDING][NAME_SIZE];
	unsigned pending_count;
	/* What killed the context; after that every call answers with it. */
	char lost[1536];
	struct encoded_map *maps;
	bool streams; /* one was made: launches may be on it */
	bool prints;  /* a module that calls vprintf was loaded */
	CUevent all;  /* for waiting for all streams; NULL: not needed yet */
	CUevent mark; /* behind a launch some time ago; NULL: not needed yet */
	unsigned launches;
	bool abandoned;                /* the user does not wait for what runs */
	bool hung;                     /* a kernel took longer than any wait; `lost` says so */
	struct gpu_deferred *deferred; /* to be given back once nothing runs */
	struct gpu_record *record;     /* host memory that kernels write; NULL: not needed yet */
};

/* Of the first tc.assert that failed: the kernel writes it before it stops. */
struct gpu_record {
	char text[TC_ASSERT_TEXT];
};

/* gpu.c */
/* Does this error end the context? */
bool tc_gpu_kills_context(CUresult r);
const char *tc_gpu_error_text(const struct cuda_driver *cu, CUresult r, char *out, size_t size);
/* The context is lost: sets e, names the kernels that may have done it; false. */
bool tc_gpu_lose(struct device *d, CUresult r, struct err *e);
/* True when r is success; else sets e from what was done. */
bool tc_gpu_check(struct device *d, CUresult r, const char *doing, struct err *e);
/* Makes the context current; NULL and e when the device is lost. */
struct gpu *tc_gpu_enter(struct device *d, struct err *e);

/* gpu_wait.c.  Each returns false with e after the time of TCMMA_GPU_TIMEOUT and after SIGINT. */
bool tc_gpu_synchronize(struct device *d, struct err *e);
bool tc_gpu_wait_stream(struct device *d, void *stream, struct err *e);
bool tc_gpu_wait_event(struct device *d, void *event, struct err *e);
/* Waits where the driver's queue may become full, in which it would wait itself. */
bool tc_gpu_before_launch(struct device *d, void *stream, struct err *e);
/* The driver loads a module when nothing runs. */
bool tc_gpu_before_load(struct device *d, struct err *e);
/* "kernel 'b', 'a' (one of them, latest first)": those that may run. */
const char *tc_gpu_pending_text(const struct gpu *g, char *out, size_t size);
/* Gives back a module, or memory where that is NULL: at once or when no kernel runs. */
void tc_gpu_defer(struct device *d, CUmodule module, CUdeviceptr address);
/* Before closing: false when something may still run, and the context is to be left alone. */
bool tc_gpu_finish(struct device *d);

/* gpu_launch.c: of the device_ops */
bool tc_gpu_launch(struct device *d, const struct launch *l, const struct run_options *o,
		   struct err *e);
void tc_gpu_unload(struct device *d, void *cached);

#endif

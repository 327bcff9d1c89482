/* A GPU as a device, through the driver's interface. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors -------------------------------------------------------------- */

bool tc_gpu_kills_context(CUresult r)
{
	return (r >= CUDA_ERROR_ILLEGAL_ADDRESS && r <= CUDA_ERROR_LAUNCH_FAILED &&
		r != CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) ||
	       r == CUDA_ERROR_TENSOR_MEMORY_LEAK;
}

const char *tc_gpu_error_text(const struct cuda_driver *cu, CUresult r, char *out, size_t size)
{
	const char *name = NULL, *text = NULL;

	cu->error_name(r, &name);
	cu->error_string(r, &text);
	snprintf(out, size, "%s (%s, %d)", text ? text : "unknown error", name ? name : "?", r);
	return out;
}

bool tc_gpu_lose(struct device *d, CUresult r, struct err *e)
{
	struct gpu *g = d->state;
	char why[256], kernels[768];
	const char *text = g->record ? g->record->text : "";

	tc_gpu_pending_text(g, kernels, sizeof kernels);
	tc_gpu_error_text(g->cu, r, why, sizeof why);
	if (*text)
		snprintf(g->lost, sizeof g->lost, "%s failed on %s: tc.assert: %.*s", kernels,
			 d->name, TC_ASSERT_TEXT, text);
	else
		snprintf(g->lost, sizeof g->lost, "%s failed on %s: %s", kernels, d->name, why);
	return tc_dev_fail(e, ERR_USER, "lost",
			   "%s\nThe GPU's context is lost with it: start the process again.%s",
			   g->lost,
			   *text ? ""
				 : " TCMMA_LAUNCH_BLOCKING=1 reports a fault at its launch; "
				   "`:emulate` says where it is.");
}

/* True when r is success; else sets e from what was done. */
bool tc_gpu_check(struct device *d, CUresult r, const char *doing, struct err *e)
{
	struct gpu *g = d->state;
	char why[256];

	if (r == CUDA_SUCCESS)
		return true;
	if (tc_gpu_kills_context(r))
		return tc_gpu_lose(d, r, e);
	return tc_dev_fail(e, ERR_USER, NULL, "%s: %s: %s", d->name, doing,
			   tc_gpu_error_text(g->cu, r, why, sizeof why));
}

/* Makes the context current; refuses a device that is lost. */
struct gpu *tc_gpu_enter(struct device *d, struct err *e)
{
	struct gpu *g = d->state;

	if (g->lost[0]) {
		tc_dev_fail(e, ERR_USER, "lost",
			    "%s is lost since an earlier failure (%s): start the process again",
			    d->name, g->lost);
		return NULL;
	}
	return tc_gpu_check(d, g->cu->context_set(g->context), "cannot make the context current", e)
		       ? g
		       : NULL;
}

/* ---- memory -------------------------------------------------------------- */

static uint64_t alloc(struct device *d, uint64_t bytes, const char *name, struct err *e)
{
	struct gpu *g = tc_gpu_enter(d, e);
	CUdeviceptr address = 0;
	size_t free_bytes = 0, total = 0;

	(void)name;
	if (!g)
		return 0;
	CUresult r = g->cu->mem_alloc(&address, bytes ? bytes : 1);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && g->deferred) {
		if (!tc_gpu_synchronize(d, e))
			return 0;
		r = g->cu->mem_alloc(&address, bytes ? bytes : 1);
	}
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		g->cu->mem_info(&free_bytes, &total);
		tc_dev_fail(e, ERR_MEMORY, NULL,
			    "%s: out of memory: %.1f MiB asked, %.1f MiB of %.1f MiB free", d->name,
			    (double)bytes / 1048576, (double)free_bytes / 1048576,
			    (double)total / 1048576);
		return 0;
	}
	return tc_gpu_check(d, r, "cannot allocate memory", e) ? address : 0;
}

static void release(struct device *d, uint64_t address)
{
	tc_gpu_defer(d, NULL, address);
}

/* Copies wait for the whole device first, so that work on any stream is seen. */
static bool copy_out(struct device *d, void *dst, uint64_t src, uint64_t bytes, struct err *e)
{
	struct gpu *g = d->state;

	return tc_gpu_synchronize(d, e) &&
	       (!bytes || tc_gpu_check(d, g->cu->copy_to_host(dst, src, bytes),
				       "cannot copy to the host", e));
}

static bool copy_in(struct device *d, uint64_t dst, const void *src, uint64_t bytes, struct err *e)
{
	struct gpu *g = d->state;

	return tc_gpu_synchronize(d, e) &&
	       (!bytes || tc_gpu_check(d, g->cu->copy_to_device(dst, src, bytes),
				       "cannot copy to the GPU", e));
}

static void *host(struct device *d, uint64_t address, uint64_t bytes)
{
	(void)d;
	(void)address;
	(void)bytes;
	return NULL;
}

/* ---- streams and events -------------------------------------------------- */

static void *stream_new(struct device *d, struct err *e)
{
	struct gpu *g = tc_gpu_enter(d, e);
	CUstream s = NULL;

	if (!g || !tc_gpu_check(d, g->cu->stream_create(&s, 0), "cannot create a stream", e))
		return NULL;
	g->streams = true;
	return s;
}

static void stream_free(struct device *d, void *stream)
{
	struct err ignored = {0};
	struct gpu *g = tc_gpu_enter(d, &ignored);

	if (g)
		g->cu->stream_destroy(stream);
}

static void *event_new(struct device *d, struct err *e)
{
	struct gpu *g = tc_gpu_enter(d, e);
	CUevent v = NULL;

	return g && tc_gpu_check(d, g->cu->event_create(&v, 0), "cannot create an event", e) ? v
											     : NULL;
}

static void event_free(struct device *d, void *event)
{
	struct err ignored = {0};
	struct gpu *g = tc_gpu_enter(d, &ignored);

	if (g)
		g->cu->event_destroy(event);
}

static bool event_record(struct device *d, void *event, void *stream, struct err *e)
{
	struct gpu *g = tc_gpu_enter(d, e);

	return g &&
	       tc_gpu_check(d, g->cu->event_record(event, stream), "cannot record the event", e);
}

static bool event_elapsed(struct device *d, void *from, void *to, double *ms, struct err *e)
{
	struct gpu *g = tc_gpu_enter(d, e);
	float elapsed = 0;

	if (!g || !tc_gpu_wait_event(d, from, e) || !tc_gpu_wait_event(d, to, e) ||
	    !tc_gpu_check(d, g->cu->event_elapsed(&elapsed, from, to),
			  "cannot measure between the events", e))
		return false;
	*ms = elapsed;
	return true;
}

/* ---- opening ------------------------------------------------------------- */

static void properties(struct device *d, struct device_properties *p)
{
	struct gpu *g = d->state;
	struct err ignored = {0};
	size_t bytes = 0, free_bytes = 0, total = 0;
	int smem = 0;

	g->cu->device_name(p->description, sizeof p->description, g->id);
	g->cu->device_attribute(&p->sm_count, CU_MULTIPROCESSOR_COUNT, g->id);
	g->cu->device_attribute(&p->max_threads, CU_MAX_THREADS_PER_BLOCK, g->id);
	g->cu->device_attribute(&p->clock_khz, CU_CLOCK_RATE, g->id);
	g->cu->device_attribute(&smem, CU_MAX_SHARED_MEMORY_OPTIN, g->id);
	g->cu->device_memory(&bytes, g->id);
	if (tc_gpu_enter(d, &ignored))
		g->cu->mem_info(&free_bytes, &total);
	p->memory = bytes;
	p->memory_free = free_bytes;
	p->smem_limit = smem;
}

static void close_device(struct device *d)
{
	struct gpu *g = d->state;

	if (tc_gpu_finish(d)) {
		if (g->all)
			g->cu->event_destroy(g->all);
		if (g->mark)
			g->cu->event_destroy(g->mark);
		if (g->record)
			g->cu->host_free(g->record);
		g->cu->context_release(g->id);
	}
	free(g->maps);
	free(g);
}

static const struct device_ops gpu_ops = {.alloc = alloc,
					  .release = release,
					  .read = copy_out,
					  .write = copy_in,
					  .host = host,
					  .launch = tc_gpu_launch,
					  .synchronize = tc_gpu_synchronize,
					  .unload = tc_gpu_unload,
					  .close = close_device,
					  .stream_new = stream_new,
					  .stream_free = stream_free,
					  .stream_synchronize = tc_gpu_wait_stream,
					  .event_new = event_new,
					  .event_free = event_free,
					  .event_record = event_record,
					  .event_elapsed = event_elapsed,
					  .properties = properties};

/* The driver with cuInit done; NULL and e. */
static const struct cuda_driver *start_driver(struct err *e)
{
	const struct cuda_driver *cu = tc_dl_driver(e);
	char why[256];

	if (!cu) {
		e->code = "no-driver";
		return NULL;
	}
	CUresult r = cu->init(0);
	if (r == CUDA_SUCCESS)
		return cu;
	tc_dev_fail(e, ERR_ENVIRONMENT, r == CUDA_ERROR_NO_DEVICE ? "no-device" : "no-driver",
		    "the NVIDIA driver does not start: %s%s",
		    tc_gpu_error_text(cu, r, why, sizeof why),
		    r == CUDA_ERROR_STUB_LIBRARY
			    ? "; the library found is the toolkit's stub, not a driver"
			    : "");
	return NULL;
}

int tc_gpu_count(struct err *e)
{
	const struct cuda_driver *cu = start_driver(e);
	int count = 0;

	if (!cu || cu->device_count(&count))
		return 0;
	if (!count)
		tc_dev_fail(e, ERR_ENVIRONMENT, "no-device", "the NVIDIA driver sees no GPU");
	return count;
}

int tc_driver_version(void)
{
	struct err ignored = {0};
	const struct cuda_driver *cu = tc_dl_driver(&ignored);
	int version = 0;

	return cu && cu->driver_version(&version) == CUDA_SUCCESS ? version : 0;
}

/* The target whose code the device runs; NULL when tcmma has none for it. */
static const struct target *target_of(const struct cuda_driver *cu, CUdevice id, int *sm)
{
	int major = 0, minor = 0;

	cu->device_attribute(&major, CU_CAPABILITY_MAJOR, id);
	cu->device_attribute(&minor, CU_CAPABILITY_MINOR, id);
	*sm = major * 10 + minor;
	for (const struct target *const *t = tc_targets(); *t; t++)
		if ((*t)->sm == *sm)
			return *t;
	return NULL;
}

static bool no_target(const struct cuda_driver *cu, CUdevice id, int ordinal, int sm, struct err *e)
{
	char name[128] = "?";

	cu->device_name(name, sizeof name, id);
	return tc_dev_fail(
		e, ERR_ENVIRONMENT, "no-device",
		"cuda:%d (%s) has compute capability %d.%d, for which there is no target; use the "
		"emulator (TCMMA_DEVICE=emulator)",
		ordinal, name, sm / 10, sm % 10);
}

static struct device *make_device(const struct cuda_driver *cu, CUdevice id, int ordinal,
				  const struct target *t, struct err *e)
{
	struct device *d = calloc(1, sizeof *d);
	struct gpu *g = calloc(1, sizeof *g);
	struct encoded_map *maps = aligned_alloc(64, ENCODED_MAPS * sizeof *maps);
	char *name = malloc(16);
	char why[256];
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (d && g && maps && name) {
		memset(maps, 0, ENCODED_MAPS * sizeof *maps);
		snprintf(name, 16, "cuda:%d", ordinal);
		*g = (struct gpu){.cu = cu, .id = id, .maps = maps};
		*d = (struct device){
			.name = name, .target = t, .ops = &gpu_ops, .references = 1, .state = g};
		r = cu->context_retain(&g->context, id);
		if (r == CUDA_SUCCESS)
			return d;
	}
	tc_dev_fail(e, ERR_ENVIRONMENT, "no-device", "cuda:%d cannot be opened: %s", ordinal,
		    tc_gpu_error_text(cu, r, why, sizeof why));
	free(d);
	free(g);
	free(maps);
	free(name);
	return NULL;
}

struct device *tc_gpu_open(int ordinal, struct err *e)
{
	int count = tc_gpu_count(e), sm;
	CUdevice id;
	const struct cuda_driver *cu = count ? tc_dl_driver(e) : NULL;

	if (!cu)
		return NULL;
	if (ordinal >= count || cu->device_get(&id, ordinal)) {
		tc_dev_fail(e, ERR_ENVIRONMENT, "no-device",
			    "there is no cuda:%d: the driver sees %d GPU%s", ordinal, count,
			    count == 1 ? "" : "s");
		return NULL;
	}
	const struct target *t = target_of(cu, id, &sm);
	if (!t) {
		no_target(cu, id, ordinal, sm, e);
		return NULL;
	}
	return make_device(cu, id, ordinal, t, e);
}

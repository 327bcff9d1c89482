/* A GPU as a device, through the driver's interface. */
#include "cuda_abi.h"
#include "dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PENDING      16  /* launches whose names are kept for a late error */
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
	/* Launches since the last wait for the whole device, oldest overwritten. */
	char pending[PENDING][NAME_SIZE];
	unsigned pending_count;
	/* What killed the context; after that every call answers with it. */
	char lost[1024];
	struct encoded_map *maps;
};

struct gpu_function {
	CUfunction handle;
	char *entry;
	uint32_t smem; /* dynamic bytes that it was allowed last */
	bool large_cluster;
};

/* What a launch keeps in its cache slot: one module on one device. */
struct gpu_module {
	CUmodule handle;
	int function_count;
	struct gpu_function *functions;
};

/* ---- errors ------------------------------------------------------------------------------- */

static bool kills_context(CUresult r)
{
	return (r >= CUDA_ERROR_ILLEGAL_ADDRESS && r <= CUDA_ERROR_LAUNCH_FAILED &&
		r != CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) ||
	       r == CUDA_ERROR_TENSOR_MEMORY_LEAK;
}

static const char *error_text(const struct cuda_driver *cu, CUresult r, char *out, size_t size)
{
	const char *name = NULL, *text = NULL;

	cu->error_name(r, &name);
	cu->error_string(r, &text);
	snprintf(out, size, "%s (%s, %d)", text ? text : "unknown error", name ? name : "?", r);
	return out;
}

/* The kernels that may have caused an error that came late. */
static void list_pending(const struct gpu *g, char *out, size_t size)
{
	unsigned kept = g->pending_count < PENDING ? g->pending_count : PENDING;
	size_t length = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < kept; i++) {
		const char *name = g->pending[(g->pending_count - 1 - i) % PENDING];
		bool repeated = false;
		for (unsigned j = 0; j < i && !repeated; j++)
			repeated = !strcmp(name, g->pending[(g->pending_count - 1 - j) % PENDING]);
		if (!repeated && length + NAME_SIZE + 8 < size)
			length += (size_t)sprintf(out + length, "%s'%s'", length ? ", " : "", name);
	}
}

static bool lose(struct device *d, CUresult r, struct err *e)
{
	struct gpu *g = d->state;
	char why[256], names[640];

	list_pending(g, names, sizeof names);
	error_text(g->cu, r, why, sizeof why);
	snprintf(g->lost, sizeof g->lost, "%s%s%s failed on %s: %s",
		 *names ? "kernel " : "a kernel", names,
		 g->pending_count > 1 && strchr(names, ',') ? " (one of them, latest first)" : "",
		 d->name, why);
	return tc_dev_fail(e, ERR_USER, "lost",
			   "%s\nThe GPU's context is lost with it: start the process again. "
			   "TCMMA_LAUNCH_BLOCKING=1 reports a fault at its launch; `:emulate` says "
			   "where it is.",
			   g->lost);
}

/* True when r is success; else sets e from what was done. */
static bool check(struct device *d, CUresult r, const char *doing, struct err *e)
{
	struct gpu *g = d->state;
	char why[256];

	if (r == CUDA_SUCCESS)
		return true;
	if (kills_context(r))
		return lose(d, r, e);
	return tc_dev_fail(e, ERR_USER, NULL, "%s: %s: %s", d->name, doing,
			   error_text(g->cu, r, why, sizeof why));
}

/* Makes the context current; refuses a device that is lost. */
static struct gpu *enter(struct device *d, struct err *e)
{
	struct gpu *g = d->state;

	if (g->lost[0]) {
		tc_dev_fail(e, ERR_USER, "lost",
			    "%s is lost since an earlier failure (%s): start the process again",
			    d->name, g->lost);
		return NULL;
	}
	return check(d, g->cu->context_set(g->context), "cannot make the context current", e)
		       ? g
		       : NULL;
}

/* ---- memory ------------------------------------------------------------------------------------
 */

static uint64_t alloc(struct device *d, uint64_t bytes, const char *name, struct err *e)
{
	struct gpu *g = enter(d, e);
	CUdeviceptr address = 0;
	size_t free_bytes = 0, total = 0;

	(void)name;
	if (!g)
		return 0;
	CUresult r = g->cu->mem_alloc(&address, bytes ? bytes : 1);
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		g->cu->mem_info(&free_bytes, &total);
		tc_dev_fail(e, ERR_MEMORY, NULL,
			    "%s: out of memory: %.1f MiB asked, %.1f MiB of %.1f MiB free", d->name,
			    (double)bytes / 1048576, (double)free_bytes / 1048576,
			    (double)total / 1048576);
		return 0;
	}
	return check(d, r, "cannot allocate memory", e) ? address : 0;
}

/* A dead context has freed its memory already. */
static void release(struct device *d, uint64_t address)
{
	struct err ignored = {0};
	struct gpu *g = enter(d, &ignored);

	if (g)
		g->cu->mem_free(address);
}

static bool synchronize(struct device *d, struct err *e)
{
	struct gpu *g = enter(d, e);

	if (!g || !check(d, g->cu->context_synchronize(), "cannot wait for the device", e))
		return false;
	g->pending_count = 0;
	return true;
}

/* Copies wait for the whole device first, so that work on any stream is seen. */
static bool copy_out(struct device *d, void *dst, uint64_t src, uint64_t bytes, struct err *e)
{
	struct gpu *g = d->state;

	return synchronize(d, e) && (!bytes || check(d, g->cu->copy_to_host(dst, src, bytes),
						     "cannot copy to the host", e));
}

static bool copy_in(struct device *d, uint64_t dst, const void *src, uint64_t bytes, struct err *e)
{
	struct gpu *g = d->state;

	return synchronize(d, e) && (!bytes || check(d, g->cu->copy_to_device(dst, src, bytes),
						     "cannot copy to the GPU", e));
}

static void *host(struct device *d, uint64_t address, uint64_t bytes)
{
	(void)d;
	(void)address;
	(void)bytes;
	return NULL;
}

/* ---- modules
 * -------------------------------------------------------------------------------------- */

/* Where nvJitLink is missing, the driver assembles. */
static bool load_ptx(struct device *d, const struct launch *l, CUmodule *m, struct err *e)
{
	struct gpu *g = d->state;
	char log[4096] = "", why[256];
	int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_SIZE};
	void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
	CUresult r = g->cu->module_load(m, l->ptx, 2, options, values);

	if (r == CUDA_SUCCESS)
		return true;
	if (kills_context(r))
		return lose(d, r, e);
	error_text(g->cu, r, why, sizeof why);
	if (r == CUDA_ERROR_JIT_COMPILER_NOT_FOUND || r == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
		return tc_dev_fail(
			e, ERR_ENVIRONMENT, "no-assembler",
			"the driver cannot assemble the PTX of '%s': %s. Set TCMMA_CUDA_HOME to a "
			"CUDA toolkit whose nvJitLink can",
			l->name, why);
	return tc_dev_fail(e, ERR_USER, r == CUDA_ERROR_INVALID_PTX ? "ptx-rejected" : NULL,
			   "the driver refuses the PTX of '%s': %s%s%s", l->name, why,
			   *log ? "\n" : "", log);
}

static bool load_module(struct device *d, const struct launch *l, CUmodule *m, struct err *e)
{
	struct gpu *g = d->state;
	struct strbuf cubin = {0};
	bool ok = tc_assemble(l->ptx, l->ptx_length, d->target->name, &cubin, NULL, e);

	if (ok)
		ok = check(d, g->cu->module_load(m, cubin.text, 0, NULL, NULL),
			   "cannot load the cubin", e);
	else if (e->kind == ERR_ENVIRONMENT)
		ok = load_ptx(d, l, m, e);
	free(cubin.text);
	return ok;
}

static struct gpu_module *find_module(struct device *d, const struct launch *l, struct err *e)
{
	struct gpu_module *m = *l->cache;
	CUmodule handle;

	if (m)
		return m;
	if (!load_module(d, l, &handle, e))
		return NULL;
	m = calloc(1, sizeof *m);
	if (!m) {
		tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for the module of '%s'", l->name);
		((struct gpu *)d->state)->cu->module_unload(handle);
		return NULL;
	}
	m->handle = handle;
	return *l->cache = m;
}

static struct gpu_function *find_function(struct device *d, struct gpu_module *m,
					  const struct launch *l, struct err *e)
{
	struct gpu *g = d->state;
	CUfunction handle;

	for (int i = 0; i < m->function_count; i++)
		if (!strcmp(m->functions[i].entry, l->entry))
			return &m->functions[i];
	if (!check(d, g->cu->module_function(&handle, m->handle, l->entry), "cannot find the entry",
		   e))
		return NULL;
	struct gpu_function *grown =
		realloc(m->functions, (size_t)(m->function_count + 1) * sizeof *grown);
	char *entry = grown ? strdup(l->entry) : NULL;
	if (grown)
		m->functions = grown;
	if (!entry) {
		tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for the entry '%s'", l->entry);
		return NULL;
	}
	grown[m->function_count] = (struct gpu_function){.handle = handle, .entry = entry};
	return &grown[m->function_count++];
}

static void unload(struct device *d, void *cached)
{
	struct gpu_module *m = cached;
	struct err ignored = {0};
	struct gpu *g;

	if (!m)
		return;
	g = enter(d, &ignored);
	if (g)
		g->cu->module_unload(m->handle);
	for (int i = 0; i < m->function_count; i++)
		free(m->functions[i].entry);
	free(m->functions);
	free(m);
}

/* ---- launch
 * ----------------------------------------------------------------------------------------- */

static bool allow_smem(struct device *d, struct gpu_function *f, const struct launch *l,
		       struct err *e)
{
	struct gpu *g = d->state;
	int fixed = 0;

	/* Up to 48 KiB in all need no permission. */
	if (l->smem <= f->smem)
		return true;
	CUresult r = g->cu->function_set(f->handle, CU_FUNC_MAX_DYNAMIC_SHARED, (int)l->smem);
	if (r != CUDA_SUCCESS && !kills_context(r)) {
		g->cu->function_get(&fixed, CU_FUNC_SHARED_SIZE, f->handle);
		return tc_dev_fail(
			e, ERR_USER, "launch",
			"kernel '%s' asks for %u bytes of dynamic and %d bytes of static shared "
			"memory; a block of %s has at most %lld",
			l->name, l->smem, fixed, d->name, (long long)d->target->smem_limit);
	}
	if (!check(d, r, "cannot set the size of the shared memory", e))
		return false;
	f->smem = l->smem;
	return true;
}

static bool allow_cluster(struct device *d, struct gpu_function *f, const struct launch *l,
			  struct err *e)
{
	struct gpu *g = d->state;
	uint64_t size = (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];

	if (size <= 8 || f->large_cluster)
		return true;
	return f->large_cluster =
		       check(d, g->cu->function_set(f->handle, CU_FUNC_NON_PORTABLE_CLUSTER, 1),
			     "cannot allow a cluster of more than 8 blocks", e);
}

/* Slot of a map in the cache: one multiplication a word, since every launch pays for it. */
static unsigned map_slot(const struct tensormap *m)
{
	uint64_t words[sizeof *m / sizeof(uint64_t)], hash = 0;

	_Static_assert(sizeof *m % sizeof(uint64_t) == 0, "a map is hashed by words");
	memcpy(words, m, sizeof *m);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (unsigned)(hash >> 40) & (ENCODED_MAPS - 1);
}

/* The encoded map in its slot of the cache; NULL and e when the driver refuses it. */
static const CUtensorMap *encode(struct device *d, const struct tensormap *m, int number,
				 struct err *e)
{
	struct gpu *g = d->state;
	struct encoded_map *slot = &g->maps[map_slot(m)];
	char why[256];

	if (slot->used && !memcmp(&slot->key, m, sizeof *m))
		return &slot->map;
	slot->used = false;
	CUresult r = g->cu->tensormap_encode(&slot->map, m->type, (uint32_t)m->rank,
					     (void *)(uintptr_t)m->address, m->dims, m->strides,
					     m->box, m->element_strides, m->interleave, m->swizzle,
					     m->l2_promotion, m->oob_fill);
	if (r != CUDA_SUCCESS) {
		tc_dev_fail(e, ERR_USER, NULL,
			    "tensor map of parameter %d: cuTensorMapEncodeTiled failed: %s",
			    number + 1, error_text(g->cu, r, why, sizeof why));
		return NULL;
	}
	memcpy(&slot->key, m, sizeof *m);
	slot->used = true;
	return &slot->map;
}

#define INLINE_PARAMS 32

/*
 * Pointers to the parameters' bytes.  Maps are copied out of the cache, since two maps of one
 * launch may share a slot of it.
 */
static bool gather(struct device *d, const struct launch *l, void **values, CUtensorMap *maps,
		   struct err *e)
{
	for (int i = 0; i < l->param_count; i++) {
		const struct launch_param *p = &l->params[i];
		values[i] = (void *)(p->large ? p->large : p->bytes);
		if (!p->is_tensormap)
			continue;
		const CUtensorMap *map = encode(d, &p->map, i, e);
		if (!map)
			return false;
		maps[i] = *map;
		values[i] = &maps[i];
	}
	return true;
}

static bool explain_launch(struct device *d, CUresult r, const struct gpu_function *f,
			   const CUlaunchConfig *config, const struct launch *l, struct err *e)
{
	struct gpu *g = d->state;
	char why[256];
	int registers = 0, clusters = 0;

	if (kills_context(r))
		return lose(d, r, e);
	g->cu->function_get(&registers, CU_FUNC_NUM_REGS, f->handle);
	if (config->attribute_count && g->cu->max_clusters)
		g->cu->max_clusters(&clusters, f->handle, config);
	tc_dev_fail(e, ERR_USER, "launch",
		    "cannot launch '%s' on %s: %s\n  grid (%u, %u, %u), block (%u, %u, %u), "
		    "cluster (%u, %u, "
		    "%u), %u bytes of dynamic shared memory, %d registers a thread",
		    l->name, d->name, error_text(g->cu, r, why, sizeof why), l->grid[0], l->grid[1],
		    l->grid[2], l->block[0], l->block[1], l->block[2], l->cluster[0], l->cluster[1],
		    l->cluster[2], l->smem, registers);
	if (config->attribute_count && !clusters)
		return tc_dev_fail(e, ERR_USER, "launch",
				   "%s\n  no cluster of this size fits on the device", e->text);
	return false;
}

static bool start(struct device *d, struct gpu_function *f, const struct launch *l, void *stream,
		  void **values, struct err *e)
{
	struct gpu *g = d->state;
	CUlaunchAttribute cluster = {.id = CU_LAUNCH_CLUSTER_DIMENSION};
	CUlaunchConfig config = {.shared_bytes = l->smem, .stream = stream};

	memcpy(config.grid, l->grid, sizeof config.grid);
	memcpy(config.block, l->block, sizeof config.block);
	if (l->cluster[0]) {
		memcpy(cluster.value.cluster, l->cluster, sizeof cluster.value.cluster);
		config.attributes = &cluster;
		config.attribute_count = 1;
	}
	snprintf(g->pending[g->pending_count++ % PENDING], NAME_SIZE, "%s", l->name);
	CUresult r = g->cu->launch(&config, f->handle, values, NULL);
	return r == CUDA_SUCCESS || explain_launch(d, r, f, &config, l, e);
}

static bool launch(struct device *d, const struct launch *l, const struct run_options *o,
		   struct err *e)
{
	void *inline_values[INLINE_PARAMS];
	CUtensorMap inline_maps[INLINE_PARAMS];
	void **values = inline_values;
	CUtensorMap *maps = inline_maps;
	struct gpu *g = enter(d, e);
	struct gpu_module *m = g ? find_module(d, l, e) : NULL;
	struct gpu_function *f = m ? find_function(d, m, l, e) : NULL;

	if (!f || !allow_smem(d, f, l, e) || !allow_cluster(d, f, l, e))
		return false;
	if (l->param_count > INLINE_PARAMS) {
		values = calloc((size_t)l->param_count, sizeof *values);
		maps = aligned_alloc(64, (size_t)l->param_count * sizeof *maps);
	}
	bool ok = values && maps;
	if (!ok)
		tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for the launch of '%s'", l->name);
	else
		ok = gather(d, l, values, maps, e) &&
		     start(d, f, l, o ? o->stream : NULL, values, e);
	if (l->param_count > INLINE_PARAMS) {
		free(values);
		free(maps);
	}
	return ok && (!tc_config_boolean(CONFIG_launch_blocking) || synchronize(d, e));
}

/* ---- streams and events
 * ---------------------------------------------------------------------------- */

static void *stream_new(struct device *d, struct err *e)
{
	struct gpu *g = enter(d, e);
	CUstream s = NULL;

	return g && check(d, g->cu->stream_create(&s, 0), "cannot create a stream", e) ? s : NULL;
}

static void stream_free(struct device *d, void *stream)
{
	struct err ignored = {0};
	struct gpu *g = enter(d, &ignored);

	if (g)
		g->cu->stream_destroy(stream);
}

static bool stream_synchronize(struct device *d, void *stream, struct err *e)
{
	struct gpu *g = enter(d, e);

	return g && check(d, g->cu->stream_synchronize(stream), "cannot wait for the stream", e);
}

static void *event_new(struct device *d, struct err *e)
{
	struct gpu *g = enter(d, e);
	CUevent v = NULL;

	return g && check(d, g->cu->event_create(&v, 0), "cannot create an event", e) ? v : NULL;
}

static void event_free(struct device *d, void *event)
{
	struct err ignored = {0};
	struct gpu *g = enter(d, &ignored);

	if (g)
		g->cu->event_destroy(event);
}

static bool event_record(struct device *d, void *event, void *stream, struct err *e)
{
	struct gpu *g = enter(d, e);

	return g && check(d, g->cu->event_record(event, stream), "cannot record the event", e);
}

static bool event_elapsed(struct device *d, void *from, void *to, double *ms, struct err *e)
{
	struct gpu *g = enter(d, e);
	float elapsed = 0;

	if (!g || !check(d, g->cu->event_synchronize(to), "cannot wait for the event", e) ||
	    !check(d, g->cu->event_elapsed(&elapsed, from, to), "cannot measure between the events",
		   e))
		return false;
	*ms = elapsed;
	return true;
}

/* ---- opening
 * ------------------------------------------------------------------------------------------ */

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
	if (enter(d, &ignored))
		g->cu->mem_info(&free_bytes, &total);
	p->memory = bytes;
	p->memory_free = free_bytes;
	p->smem_limit = smem;
}

static void close_device(struct device *d)
{
	struct gpu *g = d->state;

	g->cu->context_release(g->id);
	free(g->maps);
	free(g);
}

static const struct device_ops gpu_ops = {.alloc = alloc,
					  .release = release,
					  .read = copy_out,
					  .write = copy_in,
					  .host = host,
					  .launch = launch,
					  .synchronize = synchronize,
					  .unload = unload,
					  .close = close_device,
					  .stream_new = stream_new,
					  .stream_free = stream_free,
					  .stream_synchronize = stream_synchronize,
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
		    "the NVIDIA driver does not start: %s%s", error_text(cu, r, why, sizeof why),
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
		    error_text(cu, r, why, sizeof why));
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

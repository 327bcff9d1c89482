/* Modules and launches on a GPU: parameters, tensor maps, clusters. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- modules ------------------------------------------------------------- */

/* The driver assembles, and keeps the result in a cache of its own. */
static bool load_ptx(struct device *d, const struct launch *l, CUmodule *m, struct err *e)
{
	struct gpu *g = d->state;
	char log[4096] = "", info[4096] = "", why[256];
	int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_SIZE, CU_JIT_INFO_LOG,
			 CU_JIT_INFO_LOG_SIZE};
	void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1), info,
			  (void *)(uintptr_t)(sizeof info - 1)};
	CUresult r = g->cu->module_load(m, l->ptx, 4, options, values);

	if (r == CUDA_SUCCESS) {
		tc_assembly_warn(l->name, info);
		return true;
	}
	if (tc_gpu_kills_context(r))
		return tc_gpu_lose(d, r, e);
	tc_gpu_error_text(g->cu, r, why, sizeof why);
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

/*
 * nvJitLink assembles.  The driver does where nvJitLink is missing, and where it would not give all
 * that the text asks for; if the driver is too old for the text, fewer registers will do, another
 * alignment of shared memory will not.
 */
static bool load_module(struct device *d, const struct launch *l, CUmodule *m, struct err *e)
{
	struct gpu *g = d->state;
	struct strbuf cubin = {0}, log = {0};

	if (tc_needs_whole_program(l->ptx) && load_ptx(d, l, m, e))
		return true;
	if (g->lost[0] || tc_shared_tail_alignment(l->ptx))
		return false;
	bool ok = tc_assemble(l->ptx, l->ptx_length, d->target->name, &cubin, &log, e);

	if (ok) {
		tc_assembly_warn(l->name, log.text);
		ok = tc_gpu_check(d, g->cu->module_load(m, cubin.text, 0, NULL, NULL),
				  "cannot load the cubin", e);
	} else if (e->kind == ERR_ENVIRONMENT)
		ok = load_ptx(d, l, m, e);
	free(cubin.text);
	free(log.text);
	return ok;
}

/* The text of a failing tc.assert goes to host memory, which outlives the context. */
static bool connect_record(struct device *d, CUmodule module, struct err *e)
{
	struct gpu *g = d->state;
	CUdeviceptr variable;
	size_t bytes;
	void *host;

	if (g->cu->module_global(&variable, &bytes, module, TC_ASSERT_VARIABLE))
		return true;
	if (!g->record) {
		if (!tc_gpu_check(d,
				  g->cu->host_alloc(&host, sizeof *g->record,
						    CU_HOST_ALLOC_PORTABLE_DEVICEMAP),
				  "cannot allocate host memory", e))
			return false;
		memset(host, 0, sizeof *g->record);
		g->record = host;
	}
	/* One address for both: all 64-bit systems have unified addressing. */
	host = g->record;
	return tc_gpu_check(d, g->cu->copy_to_device(variable, &host, sizeof host),
			    "cannot copy to the GPU", e);
}

static struct gpu_module *find_module(struct device *d, const struct launch *l, struct err *e)
{
	struct gpu_module *m = *l->cache;
	CUmodule handle;

	if (m)
		return m;
	if (!tc_gpu_before_load(d, e) || !load_module(d, l, &handle, e))
		return NULL;
	((struct gpu *)d->state)->prints |= strstr(l->ptx, "vprintf") != NULL;
	m = calloc(1, sizeof *m);
	if (!m)
		tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for the module of '%s'", l->name);
	if (!m || !connect_record(d, handle, e)) {
		free(m);
		tc_gpu_defer(d, handle, 0);
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
	if (!tc_gpu_check(d, g->cu->module_function(&handle, m->handle, l->entry),
			  "cannot find the entry", e))
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

void tc_gpu_unload(struct device *d, void *cached)
{
	struct gpu_module *m = cached;

	if (!m)
		return;
	tc_gpu_defer(d, m->handle, 0);
	for (int i = 0; i < m->function_count; i++)
		free(m->functions[i].entry);
	free(m->functions);
	free(m);
}

/* ---- launch -------------------------------------------------------------- */

static bool allow_smem(struct device *d, struct gpu_function *f, const struct launch *l,
		       struct err *e)
{
	struct gpu *g = d->state;
	int fixed = 0;

	/* Up to 48 KiB in all need no permission. */
	if (l->smem <= f->smem)
		return true;
	CUresult r = g->cu->function_set(f->handle, CU_FUNC_MAX_DYNAMIC_SHARED, (int)l->smem);
	if (r != CUDA_SUCCESS && !tc_gpu_kills_context(r)) {
		g->cu->function_get(&fixed, CU_FUNC_SHARED_SIZE, f->handle);
		return tc_dev_fail(
			e, ERR_USER, "launch",
			"kernel '%s' asks for %u bytes of dynamic and %d bytes of static shared "
			"memory; a block of %s has at most %lld",
			l->name, l->smem, fixed, d->name, (long long)d->target->smem_limit);
	}
	if (!tc_gpu_check(d, r, "cannot set the size of the shared memory", e))
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
	return f->large_cluster = tc_gpu_check(
		       d, g->cu->function_set(f->handle, CU_FUNC_NON_PORTABLE_CLUSTER, 1),
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

/* The driver's encoding; *name is the function that was called, *missing that it has none. */
static CUresult encode_mode(struct gpu *g, CUtensorMap *map, const struct tensormap *m,
			    const char **name, bool *missing)
{
	void *address = (void *)(uintptr_t)m->address;
	uint32_t rank = (uint32_t)m->rank;

	switch (m->mode) {
	case MAP_TILED:
		*name = "cuTensorMapEncodeTiled";
		return g->cu->tensormap_encode(map, m->type, rank, address, m->dims, m->strides,
					       m->box, m->element_strides, m->interleave,
					       m->swizzle, m->l2_promotion, m->oob_fill);
	case MAP_IM2COL:
		*name = "cuTensorMapEncodeIm2col";
		if ((*missing = !g->cu->tensormap_encode_im2col))
			return CUDA_SUCCESS;
		return g->cu->tensormap_encode_im2col(map, m->type, rank, address, m->dims,
						      m->strides, m->lower, m->upper, m->channels,
						      m->pixels, m->element_strides, m->interleave,
						      m->swizzle, m->l2_promotion, m->oob_fill);
	default:
		*name = "cuTensorMapEncodeIm2colWide";
		if ((*missing = !g->cu->tensormap_encode_im2col_wide))
			return CUDA_SUCCESS;
		return g->cu->tensormap_encode_im2col_wide(
			map, m->type, rank, address, m->dims, m->strides, m->lower[0], m->upper[0],
			m->channels, m->pixels, m->element_strides, m->interleave,
			m->mode == MAP_IM2COL_W128, m->swizzle, m->l2_promotion, m->oob_fill);
	}
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
	const char *name;
	bool missing = false;
	CUresult r = encode_mode(g, &slot->map, m, &name, &missing);
	if (r != CUDA_SUCCESS || missing) {
		tc_dev_fail(e, ERR_USER, NULL, "tensor map of parameter %d: %s %s%s", number + 1,
			    name, missing ? "is missing from this driver" : "failed: ",
			    missing ? "" : tc_gpu_error_text(g->cu, r, why, sizeof why));
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

	if (tc_gpu_kills_context(r))
		return tc_gpu_lose(d, r, e);
	g->cu->function_get(&registers, CU_FUNC_NUM_REGS, f->handle);
	if (l->cluster[0] && g->cu->max_clusters)
		g->cu->max_clusters(&clusters, f->handle, config);
	tc_dev_fail(e, ERR_USER, "launch",
		    "cannot launch '%s' on %s: %s\n  grid (%u, %u, %u), block (%u, %u, %u), "
		    "cluster (%u, %u, "
		    "%u), %u bytes of dynamic shared memory, %d registers a thread",
		    l->name, d->name, tc_gpu_error_text(g->cu, r, why, sizeof why), l->grid[0],
		    l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->cluster[0],
		    l->cluster[1], l->cluster[2], l->smem, registers);
	if (l->cluster[0] && !clusters)
		return tc_dev_fail(e, ERR_USER, "launch",
				   "%s\n  no cluster of this size fits on the device", e->text);
	return false;
}

/* A kernel that is launched again and again takes one place. */
static void remember(struct gpu *g, const char *name)
{
	char *to = g->pending[g->pending_count % PENDING];
	size_t length = strnlen(name, NAME_SIZE - 1);

	if (g->pending_count &&
	    !strncmp(g->pending[(g->pending_count - 1) % PENDING], name, NAME_SIZE - 1))
		return;
	memcpy(to, name, length);
	to[length] = '\0';
	g->pending_count++;
}

static bool start(struct device *d, struct gpu_function *f, const struct launch *l, void *stream,
		  void **values, struct err *e)
{
	struct gpu *g = d->state;
	CUlaunchAttribute attributes[2], *next = attributes;
	CUlaunchConfig config = {
		.shared_bytes = l->smem, .stream = stream, .attributes = attributes};

	memcpy(config.grid, l->grid, sizeof config.grid);
	memcpy(config.block, l->block, sizeof config.block);
	if (l->cluster[0]) {
		*next = (CUlaunchAttribute){.id = CU_LAUNCH_CLUSTER_DIMENSION};
		memcpy(next++->value.cluster, l->cluster, sizeof l->cluster);
	}
	if (l->programmatic)
		*next++ = (CUlaunchAttribute){.id = CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION,
					      .value.programmatic = 1};
	config.attribute_count = (unsigned)(next - attributes);
	if (!tc_gpu_before_launch(d, stream, e))
		return false;
	remember(g, l->name);
	CUresult r = g->cu->launch(&config, f->handle, values, NULL);
	return r == CUDA_SUCCESS || explain_launch(d, r, f, &config, l, e);
}

bool tc_gpu_launch(struct device *d, const struct launch *l, const struct run_options *o,
		   struct err *e)
{
	void *inline_values[INLINE_PARAMS];
	CUtensorMap inline_maps[INLINE_PARAMS];
	void **values = inline_values;
	CUtensorMap *maps = inline_maps;
	struct gpu *g = tc_gpu_enter(d, e);
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
	return ok && (!tc_config_boolean(CONFIG_launch_blocking) || d->ops->synchronize(d, e));
}

/*
 * A libcuda.so.1 without a GPU, built by spec/driver_spec.lua against the real cuda.h, so that our
 * own declarations of the interface are checked against the published ones.
 *
 * Device memory is host memory.  A kernel called "probe" stores what it was launched with at its
 * first argument; "slow" and "endless" keep the device busy, and what waits for it in the driver then
 * does not return; the others fail as their names say, at the next wait, as a GPU would.
 */
#include <cuda.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEMORY ((size_t)64 << 20)

struct allocation {
	struct allocation *next;
	size_t bytes;
	char data[];
};

static struct allocation *allocations;
static size_t used;
static CUresult sticky;
static int dynamic_limit, nonportable, encodes, cubins, texts, streams;

static double busy_until; /* seconds */
static int queued;
static CUdeviceptr assert_variable[2];

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* What the driver answers where it does not wait. */
static CUresult query(void)
{
	return now() < busy_until ? CUDA_ERROR_NOT_READY : sticky;
}

static CUresult status(void)
{
	while (now() < busy_until)
		usleep(1000);
	return sticky;
}

CUresult cuInit(unsigned flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *v)
{
	*v = 13000;
	return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count)
{
	*count = 2;
	return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *d, int ordinal)
{
	*d = 40 + ordinal;
	return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult r, const char **text)
{
	*text = r == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
		: r == CUDA_ERROR_LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
						: "CUDA_ERROR_OTHER";
	return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult r, const char **text)
{
	*text = r == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
						: "some error";
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice d)
{
	snprintf(name, (size_t)size, "Fake GPU %d", d);
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice d)
{
	(void)d;
	*bytes = MEMORY;
	return CUDA_SUCCESS;
}

/* The first device is an H200, the second one has no target. */
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice d)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = d == 40 ? 9 : 7;
		break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		*value = d == 40 ? 0 : 5;
		break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = 132;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
		*value = 1980000;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
		*value = 232448;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
	*c = (CUcontext)(size_t)d;
	return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice d)
{
	(void)d;
	return status();
}
CUresult cuCtxSetCurrent(CUcontext c)
{
	(void)c;
	return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void)
{
	return status();
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
	*free_bytes = MEMORY - used;
	*total = MEMORY;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
	if (used + bytes > MEMORY)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct allocation *a = aligned_alloc(256, (sizeof *a + bytes + 511) / 256 * 256);
	a->next = allocations;
	a->bytes = bytes;
	allocations = a;
	used += bytes;
	*address = (CUdeviceptr)(size_t)a->data;
	return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address)
{
	status();
	for (struct allocation **a = &allocations; *a; a = &(*a)->next) {
		if ((CUdeviceptr)(size_t)(*a)->data != address)
			continue;
		struct allocation *dead = *a;
		*a = dead->next;
		used -= dead->bytes;
		free(dead);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t n)
{
	memcpy((void *)(size_t)dst, src, n);
	return status();
}

CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t n)
{
	memcpy(dst, (void *)(size_t)src, n);
	return status();
}

/* A cubin, or a text that the driver assembles; an error log goes where it was asked. */
CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *options,
			    void **values)
{
	*m = (CUmodule)1;
	status();
	if (!memcmp(image, "\177ELF", 4)) {
		cubins++;
		return CUDA_SUCCESS;
	}
	if (strstr(image, "frobnicate")) {
		for (unsigned i = 0; i < n; i++)
			if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
				strcpy(values[i], "line 7: no instruction frobnicate");
		return CUDA_ERROR_INVALID_PTX;
	}
	if (strstr(image, "newer than the driver"))
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	texts++;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule m)
{
	(void)m;
	return status();
}

CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned flags)
{
	if (flags != (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP))
		return CUDA_ERROR_INVALID_VALUE;
	*host = malloc(bytes);
	return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void *host)
{
	free(host);
	return CUDA_SUCCESS;
}

/* Every module has a tc.assert. */
CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule m, const char *name)
{
	(void)m;
	if (strcmp(name, "tc_assert_text"))
		return CUDA_ERROR_NOT_FOUND;
	*address = (CUdeviceptr)(size_t)assert_variable;
	*bytes = sizeof assert_variable;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	(void)m;
	*f = (CUfunction)strdup(name);
	return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
	(void)f;
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
		if (value > 200000)
			return CUDA_ERROR_INVALID_VALUE;
		dynamic_limit = value;
	} else if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
		nonportable = value;
	}
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
	(void)f;
	*value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 33
		 : attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 48
								    : 0;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction f, const CUlaunchConfig *config)
{
	(void)f;
	(void)config;
	*count = 0;
	return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
				void *address, const cuuint64_t *dims, const cuuint64_t *strides,
				const cuuint32_t *box, const cuuint32_t *steps,
				CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
				CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	cuuint64_t fields[16] = {(cuuint64_t)(size_t)address,
				 type,
				 rank,
				 dims[0],
				 rank > 1 ? dims[1] : 0,
				 rank > 1 ? strides[0] : 0,
				 box[0],
				 rank > 1 ? box[1] : 0,
				 steps[0],
				 interleave,
				 swizzle,
				 promotion,
				 fill,
				 (cuuint64_t)++encodes};

	if ((size_t)map % 64)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(map, fields, sizeof fields);
	return CUDA_SUCCESS;
}

static const CUlaunchAttributeValue *attribute(const CUlaunchConfig *c, CUlaunchAttributeID id)
{
	static const CUlaunchAttributeValue none;

	for (unsigned i = 0; i < c->numAttrs; i++)
		if (c->attrs[i].id == id)
			return &c->attrs[i].value;
	return &none;
}

/* out[]: grid, block, shared bytes, cluster, second argument, stream, limits, cubins, whether it
 * may start early. */
static void probe(const CUlaunchConfig *c, void **parameters)
{
	int *out = *(int **)parameters[0];
	const CUlaunchAttributeValue *a = attribute(c, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
	const int values[] = {(int)c->gridDimX,
			      (int)c->gridDimY,
			      (int)c->gridDimZ,
			      (int)c->blockDimX,
			      (int)c->blockDimY,
			      (int)c->blockDimZ,
			      (int)c->sharedMemBytes,
			      (int)a->clusterDim.x,
			      (int)a->clusterDim.y,
			      *(int *)parameters[1],
			      c->hStream ? 1 : 0,
			      dynamic_limit,
			      nonportable,
			      cubins,
			      attribute(c, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
				      ->programmaticStreamSerializationAllowed};

	memcpy(out, values, sizeof values);
}

/* What two programs in two CTAs of a kernel with a profile write: ops 0 to 4, every 198 clocks. */
static void timed(void **parameters)
{
	struct part {
		uint64_t timer[2];
		uint32_t clock[2], events, unused;
		struct {
			uint32_t op, clock;
		} event[4096];
	} *part = *(struct part **)parameters[0];

	for (int i = 0; part && i < 4; i++, part++) {
		part->timer[0] = 5000000 + 2000 * (unsigned)(i / 2);
		part->timer[1] = part->timer[0] + 1000;
		part->clock[0] = 1000;
		part->clock[1] = 1000 + 5 * 198;
		part->events = 5;
		for (uint32_t j = 0; j < 5; j++) {
			part->event[j].op = j == 3 ? 3 | 0x80000000u : j;
			part->event[j].clock = 1000 + 198 * j;
		}
	}
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **parameters, void **extra)
{
	const char *name = (const char *)f;

	(void)extra;
	if (query() == CUDA_ERROR_NOT_READY && queued++ > 1000)
		status();
	if (sticky)
		return sticky;
	if (c->gridDimX == 7)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	if (!strcmp(name, "probe"))
		probe(c, parameters);
	else if (!strcmp(name, "maps"))
		memcpy(*(void **)parameters[0], parameters[1], 128);
	else if (!strcmp(name, "loads"))
		memcpy(*(void **)parameters[0], (int[]){cubins, texts}, 2 * sizeof(int));
	else if (!strcmp(name, "timed"))
		timed(parameters);
	else if (!strcmp(name, "wild"))
		sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
	else if (!strcmp(name, "trap"))
		sticky = CUDA_ERROR_LAUNCH_FAILED;
	else if (!strcmp(name, "slow"))
		busy_until = now() + 0.3;
	else if (!strcmp(name, "endless"))
		busy_until = INFINITY;
	else if (!strcmp(name, "asserts")) {
		strcpy((char *)(size_t)assert_variable[0], "x.lua:7: too large");
		sticky = CUDA_ERROR_ASSERT;
	}
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
	(void)flags;
	*s = (CUstream)(size_t)++streams;
	return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream s)
{
	(void)s;
	return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream s)
{
	(void)s;
	return status();
}
CUresult cuStreamQuery(CUstream s)
{
	(void)s;
	return query();
}
CUresult cuEventCreate(CUevent *e, unsigned flags)
{
	(void)flags;
	*e = (CUevent)malloc(1);
	return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent e)
{
	free(e);
	return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream s)
{
	(void)e;
	(void)s;
	return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent e)
{
	(void)e;
	return query();
}
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	(void)from;
	(void)to;
	*ms = 2.5f;
	return CUDA_SUCCESS;
}

/*
 * What we use of the binary interfaces of libcuda, libnvJitLink and libnvrtc, declared here so
 * that nothing of CUDA is needed to build.  Sizes and numbers are those of the published
 * interfaces, which do not change within a soname.
 */
#ifndef TCMMA_CUDA_ABI_H
#define TCMMA_CUDA_ABI_H

#include "tc.h"

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct nvJitLink *nvJitLinkHandle;
typedef struct _nvrtcProgram *nvrtcProgram;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_STUB_LIBRARY = 34,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
	CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	/* From here to 719, and 721, the context is lost. */
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,
	CUDA_ERROR_ASSERT = 710,
	CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
	CUDA_ERROR_INVALID_CLUSTER_SIZE = 912
};

enum { /* CUdevice_attribute */
	CU_MAX_THREADS_PER_BLOCK = 1,
	CU_CLOCK_RATE = 13,
	CU_MULTIPROCESSOR_COUNT = 16,
	CU_CAPABILITY_MAJOR = 75,
	CU_CAPABILITY_MINOR = 76,
	CU_MAX_SHARED_MEMORY_OPTIN = 97
};

enum { /* CUfunction_attribute */
	CU_FUNC_SHARED_SIZE = 1,
	CU_FUNC_LOCAL_SIZE = 3,
	CU_FUNC_NUM_REGS = 4,
	CU_FUNC_MAX_DYNAMIC_SHARED = 8,
	CU_FUNC_NON_PORTABLE_CLUSTER = 14
};

enum {
	CU_EVENT_DISABLE_TIMING = 2,
	CU_HOST_ALLOC_PORTABLE_DEVICEMAP = 3
};

enum { /* CUjit_option */
	CU_JIT_INFO_LOG = 3,
	CU_JIT_INFO_LOG_SIZE = 4,
	CU_JIT_ERROR_LOG = 5,
	CU_JIT_ERROR_LOG_SIZE = 6,
	CU_JIT_LOG_VERBOSE = 12
};

typedef struct {
	_Alignas(64) uint64_t opaque[16];
} CUtensorMap;

enum { /* CUlaunchAttributeID */
	CU_LAUNCH_CLUSTER_DIMENSION = 4,
	CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

typedef struct {
	int id;
	char pad[4];
	union {
		char pad[64];
		unsigned cluster[3];
		int programmatic;
	} value;
} CUlaunchAttribute;

typedef struct {
	unsigned grid[3], block[3], shared_bytes;
	CUstream stream;
	CUlaunchAttribute *attributes;
	unsigned attribute_count;
} CUlaunchConfig;

_Static_assert(sizeof(CUtensorMap) == 128, "a tensor map has 128 bytes");
_Static_assert(sizeof(CUlaunchAttribute) == 72, "id, pad, 64 bytes");

enum {
	NVJITLINK_INPUT_PTX = 2
};
enum {
	NVRTC_SUCCESS = 0,
	NVRTC_ERROR_COMPILATION = 6
};

/* Pointers into the libraries, one struct each; a symbol that may be missing can be NULL. */
#define SYMBOL(type, name, exported, optional, parameters) type(*name) parameters;
struct cuda_driver {
#define DRIVER SYMBOL
#include "cuda_symbols.def"
};
struct nvjitlink {
#define NVJITLINK SYMBOL
#include "cuda_symbols.def"
};
struct nvrtc {
#define NVRTC SYMBOL
#include "cuda_symbols.def"
};
#undef SYMBOL

/*
 * dl.c.  The library, opened at the first call; NULL when it is missing: e->text then has its
 * name, the places tried and the variable to set, and e->kind is ERR_ENVIRONMENT.
 */
const struct cuda_driver *tc_dl_driver(struct err *e);
const struct nvjitlink *tc_dl_nvjitlink(struct err *e);
const struct nvrtc *tc_dl_nvrtc(struct err *e);
/* The file that NVRTC came from, NULL if it is not open. */
const char *tc_dl_nvrtc_path(void);

#endif

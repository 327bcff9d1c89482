/*
 * The libraries of CUDA, opened at run time.  Nothing is linked; a missing one is an ordinary
 * answer that says what was looked for, where, and what to set.
 */
#include "cuda_abi.h"
#include "dev.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct symbol {
	const char *exported;
	bool optional;
	size_t offset;
};

static const struct symbol driver_symbols[] = {
#define DRIVER(type, name, exported, optional, parameters)                                         \
	{exported, optional, offsetof(struct cuda_driver, name)},
#include "cuda_symbols.def"
};
static const struct symbol nvjitlink_symbols[] = {
#define NVJITLINK(type, name, exported, optional, parameters)                                      \
	{exported, optional, offsetof(struct nvjitlink, name)},
#include "cuda_symbols.def"
};
static const struct symbol nvrtc_symbols[] = {
#define NVRTC(type, name, exported, optional, parameters)                                          \
	{exported, optional, offsetof(struct nvrtc, name)},
#include "cuda_symbols.def"
};

struct library {
	const char *title;
	const char *sonames[3];
	const char *advice;
	bool toolkit; /* part of the toolkit, which TCMMA_CUDA_HOME names */
	const struct symbol *symbols;
	size_t symbol_count;
	void *functions;
	bool loaded;
	char path[4096];
};

static struct cuda_driver driver_functions;
static struct nvjitlink nvjitlink_functions;
static struct nvrtc nvrtc_functions;

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct library driver = {.title = "the NVIDIA driver",
				.sonames = {"libcuda.so.1"},
				.advice = "Install the NVIDIA driver, or use the emulator "
					  "(TCMMA_DEVICE=emulator), which needs neither.",
				.symbols = driver_symbols,
				.symbol_count = COUNT(driver_symbols),
				.functions = &driver_functions};
static struct library nvjitlink = {
	.title = "nvJitLink, the assembler",
	.sonames = {"libnvJitLink.so.13", "libnvJitLink.so.12"},
	.advice = "Set TCMMA_CUDA_HOME to the folder of a CUDA toolkit (12 or 13), or install one: "
		  "pip install nvidia-nvjitlink-cu12 is enough.",
	.toolkit = true,
	.symbols = nvjitlink_symbols,
	.symbol_count = COUNT(nvjitlink_symbols),
	.functions = &nvjitlink_functions};
static struct library nvrtc = {
	.title = "NVRTC, the compiler of CUDA C",
	.sonames = {"libnvrtc.so.13", "libnvrtc.so.12"},
	.advice = "Set TCMMA_CUDA_HOME to the folder of a CUDA toolkit (12 or 13), or install one: "
		  "pip install nvidia-cuda-nvrtc-cu12 is enough.",
	.toolkit = true,
	.symbols = nvrtc_symbols,
	.symbol_count = COUNT(nvrtc_symbols),
	.functions = &nvrtc_functions};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* nvJitLink up to 12.x exports its functions with the version in the name. */
static void *find_symbol(void *handle, const char *name)
{
	void *p = dlsym(handle, name);
	char versioned[96];

	for (int major = 13; !p && major >= 12; major--) {
		for (int minor = 9; !p && minor >= 0; minor--) {
			snprintf(versioned, sizeof versioned, "__%s_%d_%d", name, major, minor);
			p = dlsym(handle, versioned);
		}
	}
	return p;
}

/* The places and files that failed, for the message; it is cut when it is too long. */
struct attempts {
	char text[3072];
	size_t length;
};

static void note(struct attempts *a, const char *where, const char *why)
{
	if (a->length + strlen(where) + strlen(why) + 8 < sizeof a->text)
		a->length += (size_t)sprintf(a->text + a->length, "\n  %s%s%s", where,
					     *why ? ": " : "", why);
}

static bool bind(struct library *lib, void *handle, const char *name, struct attempts *tried)
{
	char why[160];

	for (size_t i = 0; i < lib->symbol_count; i++) {
		const struct symbol *s = &lib->symbols[i];
		void *p = find_symbol(handle, s->exported);
		if (!p && !s->optional) {
			snprintf(why, sizeof why, "is too old, it has no %s", s->exported);
			note(tried, name, why);
			return false;
		}
		memcpy((char *)lib->functions + s->offset, &p, sizeof p);
	}
	return true;
}

static bool open_file(struct library *lib, const char *file, struct attempts *tried)
{
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	Dl_info info;

	if (!handle) {
		const char *why = dlerror();
		bool absent = !why || strstr(why, "No such file");
		/* A file that is there and does not load says why; absence needs no words. */
		note(tried, file, absent ? "" : why);
		return false;
	}
	if (!bind(lib, handle, file, tried)) {
		dlclose(handle);
		return false;
	}
	snprintf(lib->path, sizeof lib->path, "%s", file);
	if (dladdr(find_symbol(handle, lib->symbols[0].exported), &info) && info.dli_fname)
		snprintf(lib->path, sizeof lib->path, "%s", info.dli_fname);
	return lib->loaded = true;
}

static bool open_in(struct library *lib, const char *folder, struct attempts *tried)
{
	char file[4352];

	for (int i = 0; i < 3 && lib->sonames[i]; i++) {
		snprintf(file, sizeof file, "%s/%s", folder, lib->sonames[i]);
		if (open_file(lib, file, tried))
			return true;
	}
	return false;
}

/* The folders of a toolkit that may hold libraries. */
static bool open_in_home(struct library *lib, const char *home, struct attempts *tried)
{
	static const char *const below[] = {"/lib64", "/lib", "/targets/x86_64-linux/lib",
					    "/targets/sbsa-linux/lib", ""};
	char folder[4096];

	for (size_t i = 0; i < COUNT(below); i++) {
		snprintf(folder, sizeof folder, "%s%s", home, below[i]);
		if (open_in(lib, folder, tried))
			return true;
	}
	return false;
}

/* What pip and conda install: nvidia/PACKAGE/lib, or bin, below a site-packages folder. */
static const struct {
	const char *variable, *below;
} python_places[] = {
	{"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/*/"},
	{"CONDA_PREFIX", "/"},
	{"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/*/"},
	{"HOME", "/.local/lib/python3*/site-packages/nvidia/*/"},
	{NULL, "/usr/local/lib/python3*/site-packages/nvidia/*/"},
	{NULL, "/usr/local/lib/python3*/dist-packages/nvidia/*/"},
	{NULL, "/usr/lib/python3*/dist-packages/nvidia/*/"},
};

static bool visit_python_folders(const char *kind, bool (*visit)(void *arg, const char *folder),
				 void *arg, struct attempts *tried)
{
	char pattern[4096];

	for (size_t i = 0; i < COUNT(python_places); i++) {
		const char *variable = python_places[i].variable;
		const char *base = variable ? getenv(variable) : "";
		bool done = false;
		glob_t found;

		if (!base || (variable && !*base))
			continue;
		snprintf(pattern, sizeof pattern, "%s%s%s", base, python_places[i].below, kind);
		if (glob(pattern, 0, NULL, &found)) {
			note(tried, pattern, "");
			continue;
		}
		for (size_t j = 0; j < found.gl_pathc && !done; j++)
			done = visit(arg, found.gl_pathv[j]);
		globfree(&found);
		if (done)
			return true;
	}
	return false;
}

bool tc_dl_python_folders(const char *kind, bool (*visit)(void *arg, const char *folder), void *arg)
{
	struct attempts ignored = {.length = 0};

	return visit_python_folders(kind, visit, arg, &ignored);
}

struct opening {
	struct library *lib;
	struct attempts *tried;
};

static bool open_in_folder(void *arg, const char *folder)
{
	struct opening *o = arg;

	return open_in(o->lib, folder, o->tried);
}

static bool open_in_python(struct library *lib, struct attempts *tried)
{
	struct opening o = {lib, tried};

	return visit_python_folders("lib", open_in_folder, &o, tried);
}

static bool search(struct library *lib, struct attempts *tried)
{
	const char *home = tc_config_string(CONFIG_cuda_home);

	if (home && *home) {
		if (open_in_home(lib, home, tried))
			return true;
		if (lib->toolkit)
			return false;
	}
	if (lib->toolkit) {
		const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
		for (size_t i = 0; i < COUNT(variables); i++) {
			home = getenv(variables[i]);
			if (home && *home && open_in_home(lib, home, tried))
				return true;
		}
	}
	for (int i = 0; i < 3 && lib->sonames[i]; i++)
		if (open_file(lib, lib->sonames[i], tried))
			return true;
	if (open_in(lib, "/usr/local/cuda/lib64", tried))
		return true;
	if (!lib->toolkit)
		return open_in(lib, "/usr/lib/wsl/lib", tried);
	return open_in_python(lib, tried);
}

static bool load(struct library *lib, struct err *e)
{
	struct attempts tried = {.length = 0};

	pthread_mutex_lock(&mutex);
	bool ok = lib->loaded || search(lib, &tried);
	pthread_mutex_unlock(&mutex);
	if (ok)
		return true;
	return tc_dev_fail(e, ERR_ENVIRONMENT, "no-library",
			   "%s (%s%s%s) was not found.\n%s\nTried:%s", lib->title, lib->sonames[0],
			   lib->sonames[1] ? " or " : "", lib->sonames[1] ? lib->sonames[1] : "",
			   lib->advice, tried.text);
}

const struct cuda_driver *tc_dl_driver(struct err *e)
{
	return load(&driver, e) ? &driver_functions : NULL;
}

const struct nvjitlink *tc_dl_nvjitlink(struct err *e)
{
	return load(&nvjitlink, e) ? &nvjitlink_functions : NULL;
}

const struct nvrtc *tc_dl_nvrtc(struct err *e)
{
	return load(&nvrtc, e) ? &nvrtc_functions : NULL;
}

const char *tc_dl_nvrtc_path(void)
{
	return nvrtc.loaded ? nvrtc.path : NULL;
}

/* PTX to cubin through nvJitLink or ptxas, CUDA C to PTX through NVRTC; none needs a GPU. */
#include "cuda_abi.h"
#include "dev.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes room for size bytes and a NUL; false when there is no memory. */
static bool reserve(struct strbuf *b, size_t size)
{
	char *p = realloc(b->text, size + 1);

	if (!p)
		return false;
	p[size] = '\0';
	*b = (struct strbuf){.text = p, .length = size, .capacity = size + 1};
	return true;
}

/* Logs come with a NUL and often a line end too many. */
static void trim(struct strbuf *b)
{
	b->length = b->text ? strlen(b->text) : 0;
	while (b->length && isspace((unsigned char)b->text[b->length - 1]))
		b->text[--b->length] = '\0';
}

/* ---- the assembler ------------------------------------------------------- */

static const char *const assembler_options[] = {"-Xptxas=-v"};

const char *tc_assembler_version(void)
{
	static _Thread_local char text[48];
	struct err ignored = {0};
	const struct nvjitlink *lib = tc_dl_nvjitlink(&ignored);
	unsigned major = 12, minor = 0;

	if (!lib)
		return NULL;
	if (lib->version)
		lib->version(&major, &minor);
	snprintf(text, sizeof text, "nvJitLink %u.%u", major, minor);
	return text;
}

static bool fetch_log(const struct nvjitlink *lib, nvJitLinkHandle h, bool errors,
		      struct strbuf *log)
{
	size_t size = 0;

	if ((errors ? lib->error_log_size : lib->info_log_size)(h, &size) || size == 0 ||
	    !reserve(log, size))
		return false;
	(errors ? lib->error_log : lib->info_log)(h, log->text);
	trim(log);
	return log->length > 0;
}

/* The log says how long it took; without that line, the same text gives the same log. */
static void drop_times(struct strbuf *log)
{
	char *from = log->text, *to = log->text;

	while (*from) {
		size_t n = strcspn(from, "\n");
		n += from[n] == '\n';
		const char *time = strstr(from, "Compile time =");
		if (!time || time >= from + n) {
			memmove(to, from, n);
			to += n;
		}
		from += n;
	}
	*to = '\0';
	trim(log);
}

static void content_key(uint64_t key[2], const char *ptx, size_t length, const char *target,
			const char *version)
{
	for (int i = 0; i < 2; i++) {
		uint64_t h = tc_hash(ptx, length, i ? 0x9e3779b97f4a7c15u : 0x243f6a8885a308d3u);
		h = tc_hash(target, strlen(target), h);
		h = tc_hash(version, strlen(version), h);
		key[i] = tc_hash(assembler_options[0], strlen(assembler_options[0]), h);
	}
}

/* A cached entry is the length of the log, the log, the cubin. */
static bool from_cache(uint64_t key[2], struct strbuf *cubin, struct strbuf *log)
{
	struct strbuf data = {0};
	uint64_t log_length;
	bool ok = tc_cache_get(key, &data) && data.length > sizeof log_length;

	if (ok) {
		memcpy(&log_length, data.text, sizeof log_length);
		ok = log_length < data.length - sizeof log_length &&
		     reserve(log, (size_t)log_length) &&
		     reserve(cubin, data.length - sizeof log_length - (size_t)log_length);
	}
	if (ok) {
		memcpy(log->text, data.text + sizeof log_length, log->length);
		memcpy(cubin->text, data.text + sizeof log_length + log->length, cubin->length);
	}
	free(data.text);
	return ok;
}

static void to_cache(uint64_t key[2], const struct strbuf *cubin, const struct strbuf *log)
{
	struct strbuf data = {0};
	uint64_t log_length = log->length;

	if (!reserve(&data, sizeof log_length + log->length + cubin->length))
		return;
	memcpy(data.text, &log_length, sizeof log_length);
	if (log->length)
		memcpy(data.text + sizeof log_length, log->text, log->length);
	memcpy(data.text + sizeof log_length + log->length, cubin->text, cubin->length);
	tc_cache_put(key, data.text, data.length);
	free(data.text);
}

static bool link_ptx(const struct nvjitlink *lib, nvJitLinkHandle h, const char *ptx, size_t length,
		     struct strbuf *cubin, struct strbuf *log, struct err *e)
{
	size_t size = 0;

	/* The size counts the NUL: some versions read the text as a string. */
	int rc = lib->add_data(h, NVJITLINK_INPUT_PTX, ptx, length + 1, "kernel.ptx");
	if (!rc)
		rc = lib->complete(h);
	if (!rc)
		rc = lib->cubin_size(h, &size);
	if (rc) {
		if (!fetch_log(lib, h, true, log))
			fetch_log(lib, h, false, log);
		return tc_dev_fail(e, ERR_USER, "ptx-rejected",
				   "the assembler refuses the PTX:\n%s",
				   log->length ? log->text : "(it gave no reason)");
	}
	if (!reserve(cubin, size))
		return tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for a cubin of %zu bytes",
				   size);
	rc = lib->cubin(h, cubin->text);
	if (rc)
		return tc_dev_fail(e, ERR_INTERNAL, NULL, "nvJitLink gave no cubin (error %d)", rc);
	if (fetch_log(lib, h, false, log))
		drop_times(log);
	else if (reserve(log, 0))
		log->text[0] = '\0';
	return true;
}

bool tc_assemble(const char *ptx, size_t length, const char *target, struct strbuf *cubin,
		 struct strbuf *log, struct err *e)
{
	char arch[64];
	uint64_t key[2];
	nvJitLinkHandle h;
	struct err missing = {0};
	struct strbuf own = {0};
	const struct nvjitlink *lib = tc_dl_nvjitlink(&missing);

	if (!log)
		log = &own;
	if (!lib)
		return tc_dev_fail(e, ERR_ENVIRONMENT, "no-assembler", "%s", missing.text);
	content_key(key, ptx, length, target, tc_assembler_version());
	bool ok = from_cache(key, cubin, log);
	if (!ok) {
		snprintf(arch, sizeof arch, "-arch=%s", target);
		const char *options[] = {arch, assembler_options[0]};
		int rc = lib->create(&h, 2, options);
		if (rc)
			return tc_dev_fail(
				e, ERR_ENVIRONMENT, "no-assembler",
				"%s does not know the target %s (error %d): a newer CUDA toolkit "
				"is needed; set TCMMA_CUDA_HOME to its folder",
				tc_assembler_version(), target, rc);
		ok = link_ptx(lib, h, ptx, length, cubin, log, e);
		lib->destroy(&h);
		if (ok)
			to_cache(key, cubin, log);
	}
	free(own.text);
	return ok;
}

bool tc_assemble_whole(const char *ptx, size_t length, const char *target, struct strbuf *cubin,
		       struct strbuf *log, const char **assembler, struct err *e)
{
	uint64_t key[2];

	*assembler = tc_needs_whole_program(ptx) ? tc_ptxas_version() : NULL;
	if (*assembler) {
		content_key(key, ptx, length, target, *assembler);
		if (from_cache(key, cubin, log))
			return true;
		if (tc_ptxas(ptx, length, target, cubin, log)) {
			drop_times(log);
			to_cache(key, cubin, log);
			return true;
		}
		/* What refuses it may be too old for it, and nvJitLink newer. */
		free(cubin->text);
		free(log->text);
		*cubin = *log = (struct strbuf){0};
	}
	int alignment = tc_shared_tail_alignment(ptx);
	if (alignment)
		return tc_dev_fail(
			e, ERR_ENVIRONMENT, "no-assembler",
			"this text has static shared memory, and an extern shared array aligned to "
			"%d behind it, which nvJitLink would place at a multiple of 16: its cubin "
			"needs ptxas. Set TCMMA_CUDA_HOME to a CUDA toolkit that has it",
			alignment);
	*assembler = tc_assembler_version();
	return tc_assemble(ptx, length, target, cubin, log, e);
}

/* ---- what the log of ptxas says ------------------------------------------ */

static int number_before(const char *text, const char *end, const char *word)
{
	for (const char *p = text; (p = strstr(p, word)) && p < end; p++) {
		const char *q = p;
		while (q > text && q[-1] == ' ')
			q--;
		while (q > text && isdigit((unsigned char)q[-1]))
			q--;
		if (isdigit((unsigned char)*q))
			return atoi(q);
	}
	return -1;
}

bool tc_assembly_info(const char *log, const char *entry, struct assembly_info *info)
{
	char wanted[640];
	const char *start, *end;

	*info = (struct assembly_info){-1, -1, -1, -1, -1, -1};
	snprintf(wanted, sizeof wanted, "entry function '%s'", entry);
	if (!log || !(start = strstr(log, wanted)))
		return false;
	start += strlen(wanted);
	end = strstr(start, "entry function '");
	if (!end)
		end = start + strlen(start);
	info->registers = number_before(start, end, "registers");
	info->spill_stores = number_before(start, end, "bytes spill stores");
	info->spill_loads = number_before(start, end, "bytes spill loads");
	info->stack = number_before(start, end, "bytes stack frame");
	info->barriers = number_before(start, end, "barriers");
	info->smem = number_before(start, end, "bytes smem");
	return true;
}

const char *tc_assembly_warning(const char **log, size_t *length)
{
	while (*log && **log) {
		const char *line = *log, *number = strstr(line, "(C75");
		size_t n = strcspn(line, "\n");

		*log = line + n + (line[n] == '\n');
		if (number && number < line + n) {
			*length = (size_t)(line + n - number);
			return number;
		}
	}
	return NULL;
}

void tc_assembly_warn(const char *name, const char *log)
{
	const char *warning;
	size_t length;

	if (!tc_config_boolean(CONFIG_warnings))
		return;
	while ((warning = tc_assembly_warning(&log, &length)))
		fprintf(stderr, "tcmma: warning: kernel '%s': %.*s\n", name, (int)length, warning);
}

/* ---- NVRTC --------------------------------------------------------------- */

const char *tc_nvrtc_version(void)
{
	static _Thread_local char text[48];
	struct err ignored = {0};
	const struct nvrtc *lib = tc_dl_nvrtc(&ignored);
	int major = 0, minor = 0;

	if (!lib || lib->version(&major, &minor))
		return NULL;
	snprintf(text, sizeof text, "NVRTC %d.%d", major, minor);
	return text;
}

#define MAX_INCLUDES 6
struct includes {
	int count;
	char option[MAX_INCLUDES][4200];
};

static void add_include(struct includes *in, const char *base, const char *below)
{
	char probe[4400];
	struct stat st;
	char *option = in->option[in->count];

	if (in->count == MAX_INCLUDES || !base || !*base)
		return;
	snprintf(option, sizeof in->option[0], "--include-path=%s%s", base, below);
	const char *folder = strchr(option, '=') + 1;
	/* A toolkit's folder has cuda_fp16.h, that of its C++ library cuda/std. */
	snprintf(probe, sizeof probe, "%s/cuda_fp16.h", folder);
	bool ok = !stat(probe, &st);
	snprintf(probe, sizeof probe, "%s/cuda/std", folder);
	if (ok || !stat(probe, &st))
		in->count++;
}

/* The headers that belong to the NVRTC found: beside its folder, or in pip's other package. */
static void find_includes(struct includes *in)
{
	char folder[4096];
	const char *path = tc_dl_nvrtc_path();
	const char *const homes[] = {tc_config_string(CONFIG_cuda_home), getenv("CUDA_HOME"),
				     getenv("CUDA_PATH"), "/usr/local/cuda"};

	in->count = 0;
	if (path && strchr(path, '/')) {
		snprintf(folder, sizeof folder, "%s", path);
		*strrchr(folder, '/') = '\0';
		add_include(in, folder, "/../include");
		add_include(in, folder, "/../include/cccl");
		add_include(in, folder, "/../../cuda_runtime/include");
	}
	for (size_t i = 0; i < 4 && in->count == 0; i++) {
		add_include(in, homes[i], "/include");
		add_include(in, homes[i], "/include/cccl");
	}
}

static bool fetch_ptx(const struct nvrtc *lib, nvrtcProgram p, struct strbuf *ptx, struct err *e)
{
	size_t size = 0;
	int rc = lib->ptx_size(p, &size);

	if (!rc && !reserve(ptx, size))
		return tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for the PTX of %zu bytes",
				   size);
	if (!rc)
		rc = lib->ptx(p, ptx->text);
	if (rc)
		return tc_dev_fail(e, ERR_INTERNAL, NULL, "NVRTC gave no PTX: %s",
				   lib->error_string(rc));
	ptx->length = strlen(ptx->text);
	return true;
}

/* As NVRTC sees it: where the environment's name of the current folder is right, that. */
static bool current_folder(char *folder, size_t size)
{
	struct stat here, named;
	const char *name = getenv("PWD");

	if (name && *name == '/' && strlen(name) < size && !stat(".", &here) &&
	    !stat(name, &named) && here.st_dev == named.st_dev && here.st_ino == named.st_ino)
		strcpy(folder, name);
	else if (!getcwd(folder, size))
		return false;
	for (size_t n = strlen(folder); n && folder[n - 1] == '/'; n--)
		folder[n - 1] = '\0';
	return true;
}

/* As it stands in a .file: with escapes, and a slash at its end. */
static void escape(const char *folder, char *text, size_t size)
{
	size_t used = 0;

	for (const unsigned char *c = (const unsigned char *)folder; *c && used + 6 < size; c++)
		if (*c < ' ' || *c > '~')
			used += (size_t)sprintf(text + used, "\\%03o", *c);
		else
			used += (size_t)sprintf(text + used, *c == '\\' ? "\\\\" : "%c", *c);
	strcpy(text + used, "/");
}

/*
 * NVRTC puts the current folder before every relative name.  Without it the same source gives the
 * same text everywhere, and reports name files as they were given.
 */
static void shorten_files(struct strbuf *ptx, const char *source)
{
	static const char directive[] = "\n\t.file\t";
	char folder[PATH_MAX], text[4 * PATH_MAX];

	if (!current_folder(folder, sizeof folder))
		return;
	escape(folder, text, sizeof text);
	for (char *at = ptx->text; (at = strstr(at, directive)) != NULL; at++) {
		char *name = at + sizeof directive - 1;

		name += strcspn(name, "\"\n");
		if (*name != '"' || strncmp(name + 1, text, strlen(text)) != 0)
			continue;
		char *rest = name + 1 + strlen(text);
		/* Below the root, every absolute name begins so. */
		if (*folder || !strncmp(rest, source, strlen(source)))
			memmove(name + 1, rest, strlen(rest) + 1);
	}
	ptx->length = strlen(ptx->text);
}

/* Without a host compiler there are no headers of its libraries. */
static const char host_header_hint[] = "\nA header of the host's C or C++ library: device code has "
				       "<cuda/std/cstdint> and its like "
				       "instead, with the names in cuda::std.";

static bool lacks_host_header(const char *log)
{
	static const char text[] = "cannot open source file \"";
	const char *name = log ? strstr(log, text) : NULL;
	size_t length;

	if (!name)
		return false;
	name += sizeof text - 1;
	length = strcspn(name, "\"\n");
	/* <cstdint>, <vector>, <stdint.h>, but not "mine.h" or a header of the toolkit. */
	if (length > 2 && !strncmp(name + length - 2, ".h", 2))
		return !strncmp(name, "std", 3) || !strncmp(name, "limits.h", length) ||
		       !strncmp(name, "math.h", length) || !strncmp(name, "assert.h", length) ||
		       !strncmp(name, "float.h", length) || !strncmp(name, "string.h", length);
	return length && !memchr(name, '.', length) && !memchr(name, '/', length);
}

static bool compile(const struct nvrtc *lib, nvrtcProgram p, const char *name,
		    const char *const *options, int count, struct strbuf *log, struct err *e)
{
	int rc = lib->compile(p, count, options);
	size_t size = 0;

	if (!lib->log_size(p, &size) && size && reserve(log, size)) {
		lib->log(p, log->text);
		trim(log);
	}
	if (!rc)
		return true;
	return tc_dev_fail(e, ERR_USER, "compile", "NVRTC cannot compile '%s': %s%s%s%s", name,
			   lib->error_string(rc), log->length ? "\n" : "",
			   log->length ? log->text : "",
			   lacks_host_header(log->text) ? host_header_hint : "");
}

bool tc_nvrtc(const char *source, const char *name, const char *target, const char *const *options,
	      int option_count, struct strbuf *ptx, struct strbuf *log, struct err *e)
{
	char arch[64];
	nvrtcProgram p;
	struct strbuf own = {0};
	const struct nvrtc *lib = tc_dl_nvrtc(e);

	if (!lib)
		return false;
	struct includes *in = malloc(sizeof *in);
	const char **all = calloc((size_t)option_count + MAX_INCLUDES + 2, sizeof *all);
	int count = 0;
	bool ok = in && all && !lib->create(&p, source, name, 0, NULL, NULL);
	if (!ok) {
		tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for the compilation of '%s'", name);
	} else {
		snprintf(arch, sizeof arch, "--gpu-architecture=compute_%s",
			 !strncmp(target, "sm_", 3) ? target + 3 : target);
		all[count++] = arch;
		for (int i = 0; i < option_count; i++)
			all[count++] = options[i];
		find_includes(in);
		for (int i = 0; i < in->count; i++)
			all[count++] = in->option[i];
		ok = compile(lib, p, name, all, count, log ? log : &own, e) &&
		     fetch_ptx(lib, p, ptx, e);
		lib->destroy(&p);
		if (ok)
			shorten_files(ptx, name);
	}
	free(own.text);
	free(all);
	free(in);
	return ok;
}

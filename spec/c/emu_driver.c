/*
 * Runs a kernel of a PTX file in the emulator, without Lua:
 *
 *   emu_driver [options] file.ptx kernel [argument ...]
 *   emu_driver --parse file.ptx ...        loads each, prints its kernels
 *
 * Options: --grid X[,Y[,Z]] --block X[,Y[,Z]] --cluster X[,Y[,Z]] --smem BYTES
 *   --mode fast|check|random --seed N --limit INSTRUCTIONS --threads N --quiet
 * Arguments: i32=N u32=N i64=N u64=N f32=X f64=X
 *   in=FILE          a buffer with the file's bytes
 *   out=BYTES:FILE   a zeroed buffer, written to FILE afterwards
 *   inout=FILE:FILE  a buffer with the first file's bytes, written to the second
 * Exit status: 0 done, 1 a fault of the kernel, 2 it could not be started.
 */
#include "../../src/emu/emu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS 64

struct argument {
	uint8_t bytes[8];
	uint32_t size;
	uint64_t address, length;
	const char *dump;
};

struct run {
	struct emu *emu;
	struct emu_launch launch;
	struct argument arguments[MAX_ARGUMENTS];
	const void *params[MAX_ARGUMENTS];
	uint32_t sizes[MAX_ARGUMENTS];
	bool quiet;
};

static void *read_file(const char *name, size_t *size)
{
	FILE *file = fopen(name, "rb");
	char *bytes = NULL;
	long length;

	if (file && !fseek(file, 0, SEEK_END) && (length = ftell(file)) >= 0) {
		rewind(file);
		bytes = malloc((size_t)length + 1);
		*size = bytes ? fread(bytes, 1, (size_t)length, file) : 0;
	}
	if (file)
		fclose(file);
	if (!bytes)
		fprintf(stderr, "cannot read %s\n", name);
	return bytes;
}

static void print(void *context, const char *text, size_t length)
{
	(void)context;
	fwrite(text, 1, length, stdout);
}

static bool three(const char *text, uint32_t out[3])
{
	unsigned x, y = 1, z = 1;
	int count = sscanf(text, "%u,%u,%u", &x, &y, &z);

	out[0] = x;
	out[1] = y;
	out[2] = z;
	return count >= 1;
}

static bool buffer(struct run *run, struct argument *argument, const void *bytes, uint64_t size)
{
	struct emu_error error;

	argument->size = 8;
	argument->length = size;
	argument->address = emu_alloc(run->emu, size, "argument", &error);
	memcpy(argument->bytes, &argument->address, 8);
	if (argument->address && bytes)
		return emu_write(run->emu, argument->address, bytes, size, &error);
	if (!argument->address)
		fprintf(stderr, "%s\n", error.text);
	return argument->address != 0;
}

static bool file_argument(struct run *run, struct argument *argument, char *value, bool dumped)
{
	char *colon = strchr(value, ':');
	size_t size = 0;
	void *bytes;
	bool fine;

	if (dumped) {
		if (!colon)
			return false;
		*colon = 0;
		argument->dump = colon + 1;
	}
	bytes = read_file(value, &size);
	fine = bytes && buffer(run, argument, bytes, size);
	free(bytes);
	return fine;
}

static bool parse_argument(struct run *run, char *text)
{
	struct argument *argument = &run->arguments[run->launch.param_count];
	char *value = strchr(text, '=');
	bool fine = true;

	if (!value || run->launch.param_count == MAX_ARGUMENTS)
		return false;
	*value++ = 0;
	if (!strcmp(text, "i32") || !strcmp(text, "u32") || !strcmp(text, "i64") ||
	    !strcmp(text, "u64")) {
		long long number = strtoll(value, NULL, 0);

		argument->size = text[1] == '3' ? 4 : 8;
		memcpy(argument->bytes, &number, argument->size);
	} else if (!strcmp(text, "f32")) {
		float number = strtof(value, NULL);

		argument->size = 4;
		memcpy(argument->bytes, &number, 4);
	} else if (!strcmp(text, "f64")) {
		double number = strtod(value, NULL);

		argument->size = 8;
		memcpy(argument->bytes, &number, 8);
	} else if (!strcmp(text, "in")) {
		fine = file_argument(run, argument, value, false);
	} else if (!strcmp(text, "inout")) {
		fine = file_argument(run, argument, value, true);
	} else if (!strcmp(text, "out")) {
		char *colon = strchr(value, ':');

		argument->dump = colon ? colon + 1 : NULL;
		fine = colon && buffer(run, argument, NULL, strtoull(value, NULL, 0));
	} else {
		fine = false;
	}
	run->params[run->launch.param_count] = argument->bytes;
	run->sizes[run->launch.param_count++] = argument->size;
	return fine;
}

/* How many words an option took, 0: it is none. */
static int option(struct run *run, char **words)
{
	struct emu_launch *launch = &run->launch;
	const char *name = words[0], *value = words[1];

	if (!strcmp(name, "--quiet"))
		return run->quiet = true, 1;
	if (!value)
		return 0;
	if (!strcmp(name, "--grid"))
		three(value, launch->grid);
	else if (!strcmp(name, "--block"))
		three(value, launch->block);
	else if (!strcmp(name, "--cluster"))
		three(value, launch->cluster);
	else if (!strcmp(name, "--smem"))
		launch->dynamic_smem = (uint32_t)strtoul(value, NULL, 0);
	else if (!strcmp(name, "--seed"))
		launch->seed = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--limit"))
		launch->max_instructions = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--threads"))
		launch->threads = atoi(value);
	else if (!strcmp(name, "--mode"))
		launch->mode = !strcmp(value, "check")    ? EMU_CHECK
			       : !strcmp(value, "random") ? EMU_RANDOM
							  : EMU_FAST;
	else
		return 0;
	return 2;
}

static struct emu_module *load(struct emu *emu, const char *name)
{
	struct emu_error error;
	struct emu_module *module = NULL;
	size_t size = 0;
	char *text = read_file(name, &size);

	if (text) {
		module = emu_module_load(emu, text, size, &error);
		if (!module)
			fprintf(stderr, "%s: %s\n", name, error.text);
	}
	free(text);
	return module;
}

static int parse_files(struct emu *emu, int count, char **names)
{
	int status = 0;

	for (int i = 0; i < count; i++) {
		struct emu_module *module = load(emu, names[i]);

		if (!module)
			status = 2;
		for (int k = 0; module && k < emu_module_kernel_count(module); k++) {
			const struct emu_kernel_info *info = emu_module_kernel(module, k);

			printf("%s: %s: %u instructions, %u rows, %u bytes static\n", names[i],
			       info->name, info->instruction_count, info->register_slots,
			       info->static_smem);
		}
		emu_module_free(module);
	}
	return status;
}

static void report(const struct run *run, const struct emu_report *result)
{
	const struct emu_counters *c = &result->counters;

	for (int i = 0; i < result->hazard_count; i++) {
		const struct emu_hazard *h = &result->hazards[i];

		printf("%s %s: PTX line %u", h->severity == EMU_ERROR ? "ERROR" : "LINT", h->rule,
		       h->ptx_line);
		if (h->at.file)
			printf(" (%s:%u)", h->at.file, h->at.line);
		printf(", CTA (%u,%u,%u) warp %d: %s\n", h->cta[0], h->cta[1], h->cta[2], h->warp,
		       h->message);
	}
	if (!run->quiet)
		printf("%llu warp-instructions, %llu thread-instructions, %.3f s, %.1f M/s\n",
		       (unsigned long long)c->warp_instructions,
		       (unsigned long long)c->thread_instructions, c->seconds,
		       (double)c->warp_instructions / c->seconds * 1e-6);
}

static void dump(const struct run *run)
{
	for (int i = 0; i < run->launch.param_count; i++) {
		const struct argument *argument = &run->arguments[i];
		FILE *file = argument->dump ? fopen(argument->dump, "wb") : NULL;

		if (!file)
			continue;
		fwrite(emu_host(run->emu, argument->address, argument->length), 1,
		       (size_t)argument->length, file);
		fclose(file);
	}
}

static int launch(struct run *run, char **words, int count)
{
	struct emu_module *module = load(run->emu, words[0]);
	struct emu_report result;
	struct emu_error error;
	int status = 2;

	run->launch.kernel = words[1];
	for (int i = 2; module && i < count; i++)
		if (!parse_argument(run, words[i])) {
			fprintf(stderr, "bad argument %s\n", words[i]);
			emu_module_free(module);
			return 2;
		}
	if (module && emu_run(run->emu, module, &run->launch, &result, &error)) {
		report(run, &result);
		dump(run);
		status = result.completed ? 0 : 1;
		emu_report_clear(&result);
	} else if (module) {
		fprintf(stderr, "%s\n", error.text);
	}
	emu_module_free(module);
	return status;
}

int main(int count, char **words)
{
	static struct run run = {
		.launch = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .print = print}};
	struct emu_error error;
	int at = 1, taken, status = 2;

	run.launch.params = run.params;
	run.launch.param_sizes = run.sizes;
	run.emu = emu_new(NULL, &error);
	if (!run.emu) {
		fprintf(stderr, "%s\n", error.text);
		return 2;
	}
	if (count > 1 && !strcmp(words[1], "--parse")) {
		status = parse_files(run.emu, count - 2, words + 2);
	} else {
		while (at < count && (taken = option(&run, &words[at])) > 0)
			at += taken;
		if (count - at >= 2)
			status = launch(&run, &words[at], count - at);
		else
			fprintf(stderr, "emu_driver [options] file.ptx kernel [argument ...]\n");
	}
	emu_free(run.emu);
	return status;
}

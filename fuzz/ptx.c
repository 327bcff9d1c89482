/*
 * libFuzzer: any bytes as PTX.  Loads the module and, when it loads, launches its
 * first kernel with small budgets.  Whatever happens, the process must go on.
 */
#include "emu/emu.h"
#include <stdlib.h>
#include <string.h>

static void launch(struct emu *emu, const struct emu_module *module, enum emu_mode mode)
{
	const struct emu_kernel_info *info = emu_module_kernel(module, 0);
	struct emu_error error;
	const void **params = calloc((size_t)info->param_count + 1, sizeof *params);
	uint32_t *sizes = calloc((size_t)info->param_count + 1, sizeof *sizes);
	uint64_t buffer = emu_alloc(emu, 4096, "buffer", &error);
	uint8_t *bytes[64] = {0};
	int count = info->param_count < 64 ? info->param_count : 64;
	for (int i = 0; i < count; i++) {
		sizes[i] = info->params[i].size;
		bytes[i] = calloc(1, sizes[i] + 8);
		memcpy(bytes[i], &buffer, sizes[i] < 8 ? sizes[i] : 8);
		params[i] = bytes[i];
	}
	struct emu_launch run = {.kernel = info->name,
				 .grid = {2, 1, 1},
				 .block = {64, 1, 1},
				 .dynamic_smem = 4096,
				 .param_count = count,
				 .params = params,
				 .param_sizes = sizes,
				 .mode = mode,
				 .seed = 1,
				 .max_instructions = 20000};
	struct emu_report report;
	memset(&report, 0, sizeof report);
	emu_run(emu, module, &run, &report, &error);
	emu_report_clear(&report);
	emu_release(emu, buffer);
	for (int i = 0; i < count; i++)
		free(bytes[i]);
	free(params);
	free(sizes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct emu_options options = {
		.target = size % 2 ? "sm_90a" : "sm_100a", .memory_limit = 64 << 20, .sm_count = 4};
	struct emu_error error;
	struct emu *emu = emu_new(&options, &error);
	char *text = malloc(size + 1);
	memcpy(text, data, size);
	text[size] = 0;
	struct emu_module *module = emu_module_load(emu, text, size, &error);
	if (module) {
		if (emu_module_kernel_count(module) > 0) {
			launch(emu, module, EMU_FAST);
			launch(emu, module, EMU_CHECK);
			launch(emu, module, EMU_RANDOM);
		}
		emu_module_free(module);
	}
	free(text);
	emu_free(emu);
	return 0;
}

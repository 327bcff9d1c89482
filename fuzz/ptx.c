/*
 * libFuzzer: any bytes as PTX and, behind a NUL, as the launch: grid, tensor maps, parameters.
 * Loads the module and, when it loads, launches its first kernel with small budgets.  Whatever
 * happens, the process must go on.
 */
#include "emu/emu.h"
#include <stdlib.h>
#include <string.h>

/* What follows the text's first NUL decides how the kernel is launched; zeros where it ends. */
struct bytes {
	const uint8_t *at;
	size_t left;
};

static uint8_t take(struct bytes *b)
{
	if (!b->left)
		return 0;
	b->left--;
	return *b->at++;
}

static uint64_t take_number(struct bytes *b, int count)
{
	uint64_t x = 0;

	for (int i = 0; i < count; i++)
		x = x << 8 | take(b);
	return x;
}

/* A tensor map of any description; its bytes are any where the encoder refuses it. */
static void take_map(struct bytes *b, uint64_t buffer, uint8_t out[128])
{
	struct emu_tensormap map = {.type = take(b) % 16, .rank = 1 + take(b) % 5};
	struct emu_error error;

	map.address = buffer + take(b);
	for (int i = 0; i < map.rank; i++) {
		map.dims[i] = 1 + take_number(b, 1 + take(b) % 4);
		map.strides[i] = take_number(b, 1 + take(b) % 5);
		map.box[i] = 1 + take(b);
		map.element_strides[i] = 1 + take(b) % 8;
	}
	map.interleave = take(b) % 3;
	map.swizzle = take(b) % 8;
	map.l2_promotion = take(b) % 4;
	map.oob_fill = take(b) % 2;
	map.mode = take(b) % 4;
	for (int i = 0; i < 3; i++) {
		map.lower[i] = (int8_t)take(b);
		map.upper[i] = (int8_t)take(b);
	}
	map.channels = 1 + take(b);
	map.pixels = 1 + take(b);
	if (!emu_tensormap_encode(&map, take(b) % 2 ? 90 : 100, out, &error))
		for (int i = 0; i < 128; i++)
			out[i] = take(b);
}

static void take_parameter(struct bytes *b, uint64_t buffer, uint8_t *out, uint32_t size)
{
	uint64_t x = b->left && take(b) % 4 ? take_number(b, 8) : buffer;

	memset(out, 0, size);
	if (size == 128)
		take_map(b, buffer, out);
	else
		memcpy(out, &x, size < 8 ? size : 8);
}

static void trace(void *context, const struct emu_trace_event *event)
{
	*(size_t *)context += strlen(event->name) + strlen(event->track);
}

/* Where a report says that it was: memory of the module and of the launch. */
static void show(const struct emu_hazard *hazard)
{
	char text[100];

	if (hazard->at.file)
		emu_position_text(&hazard->at, text, sizeof text);
	if (hazard->other.file)
		emu_position_text(&hazard->other, text, sizeof text);
}

static void launch(struct emu *emu, const struct emu_module *module, struct bytes how,
		   enum emu_mode mode)
{
	const struct emu_kernel_info *info = emu_module_kernel(module, 0);
	struct emu_error error;
	const void **params = calloc((size_t)info->param_count + 1, sizeof *params);
	uint32_t *sizes = calloc((size_t)info->param_count + 1, sizeof *sizes);
	uint64_t buffer = emu_alloc(emu, 4096, "buffer", &error);
	uint8_t *bytes[64] = {0};
	int count = info->param_count < 64 ? info->param_count : 64;
	size_t traced = 0;
	struct emu_launch run = {.kernel = info->name,
				 .grid = {2, 1, 1},
				 .block = {64, 1, 1},
				 .dynamic_smem = 4096,
				 .param_count = count,
				 .params = params,
				 .param_sizes = sizes,
				 .mode = mode,
				 .seed = 1,
				 .trace_context = &traced,
				 .max_instructions = 20000};

	if (how.left) {
		for (int i = 0; i < 3; i++) {
			run.grid[i] = 1 + take(&how) % 4;
			run.block[i] =
				i ? 1 + take(&how) % 4 : (uint32_t)take_number(&how, 2) % 1100;
			run.cluster[i] = take(&how) % 5;
		}
		run.dynamic_smem = (uint32_t)take_number(&how, 3);
		run.trace = mode != EMU_FAST && take(&how) % 2 ? trace : NULL;
		run.threads = 1 + take(&how) % 2;
		run.numerics = take(&how) % 2 ? EMU_HARDWARE : EMU_F32;
	}
	for (int i = 0; i < count; i++) {
		sizes[i] = info->params[i].size;
		bytes[i] = calloc(1, sizes[i] + 8);
		take_parameter(&how, buffer, bytes[i], sizes[i]);
		params[i] = bytes[i];
	}
	struct emu_report report;
	memset(&report, 0, sizeof report);
	emu_run(emu, module, &run, &report, &error);
	for (int i = 0; i < report.hazard_count; i++)
		show(&report.hazards[i]);
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
	size_t length = strlen(text);
	size_t launch_at = length + (length < size);
	struct bytes how = {data + launch_at, size - launch_at};
	struct emu_module *module = emu_module_load(emu, text, length, &error);
	if (module) {
		if (emu_module_kernel_count(module) > 0) {
			launch(emu, module, how, EMU_FAST);
			launch(emu, module, how, EMU_CHECK);
			launch(emu, module, how, EMU_RANDOM);
		}
		emu_module_free(module);
	}
	free(text);
	emu_free(emu);
	return 0;
}

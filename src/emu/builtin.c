/* vprintf, __assertfail, malloc, free: what device code calls and no PTX defines. */
#include "builtin.h"
#include "heap.h"
#include <stdio.h>
#include <stdlib.h>

#define MAX_STRING    65536u
#define MAX_OUTPUT    (1u << 20)
#define MAX_DIRECTIVE 64

/* Parameter i of the running built-in. */
static uint64_t argument(const struct emu_warp *warp, int i, int lane)
{
	const struct emu_variable *param = warp->frame->function->params[i];
	const uint8_t *at = warp->local + (size_t)lane * warp->local_bytes +
			    warp->frame->local_base + param->address;
	uint64_t value = 0;

	memcpy(&value, at, param->size < 8 ? param->size : 8);
	return value;
}

static void set_result(struct emu_warp *warp, int lane, uint64_t value)
{
	const struct emu_function *function = warp->frame->function;

	if (function->result_count)
		memcpy(warp->local + (size_t)lane * warp->local_bytes + warp->frame->local_base +
			       function->results[0]->address,
		       &value, function->results[0]->size < 8 ? function->results[0]->size : 8);
}

static bool has_arguments(struct emu_warp *warp, int count)
{
	if (warp->frame->function->param_count >= count)
		return true;
	emu_fault(warp, -1, "call-mismatch", "'%s' is declared with %d parameters; it has %d",
		  warp->frame->function->name, warp->frame->function->param_count, count);
	return false;
}

/* A zero-terminated string of the kernel, NULL after a fault; freed by the caller. */
static char *take_string(struct emu_warp *warp, int lane, uint64_t address)
{
	char *text = malloc(MAX_STRING);

	if (!text)
		emu_fault(warp, lane, "out-of-memory", "the host has no memory for a string");
	for (uint32_t i = 0; text && i < MAX_STRING; i++) {
		const char *c = emu_mem(warp, lane, EMU_GENERIC, address + i, 1, 1, EMU_READ);

		if (!c)
			break;
		text[i] = *c;
		if (!*c)
			return text;
	}
	if (text && !warp->grid->stopped)
		emu_fault(warp, lane, "bad-string", "a string of more than %u bytes", MAX_STRING);
	free(text);
	return NULL;
}

struct output {
	char *text;
	size_t used, room;
};

static void put(struct output *output, const char *text, size_t length)
{
	if (!length)
		return;
	if (output->used + length > output->room) {
		size_t room = (output->used + length) * 2;
		char *grown = room > MAX_OUTPUT ? NULL : realloc(output->text, room);

		if (!grown)
			return;
		output->text = grown;
		output->room = room;
	}
	memcpy(output->text + output->used, text, length);
	output->used += length;
}

struct arguments {
	struct emu_warp *warp;
	int lane;
	uint64_t at;
	bool failed;
};

/* Arguments lie one behind the other, each aligned to its size of 4 or 8 bytes. */
static uint64_t next_argument(struct arguments *arguments, uint32_t size)
{
	uint64_t value = 0;
	const void *from;

	arguments->at = (arguments->at + size - 1) & ~(uint64_t)(size - 1);
	from = emu_mem(arguments->warp, arguments->lane, EMU_GENERIC, arguments->at, size, size,
		       EMU_READ);
	if (!from) {
		arguments->failed = true;
		return 0;
	}
	memcpy(&value, from, size);
	arguments->at += size;
	return value;
}

/* One directive, %...c, printed by the host with the value that belongs to it. */
static void put_directive(struct output *output, const char *directive, size_t length,
			  struct arguments *arguments)
{
	char format[MAX_DIRECTIVE + 4], text[1024];
	char conversion = directive[length - 1];
	bool wide = false;
	size_t used = 0;
	int written = 0;

	for (size_t i = 0; i + 1 < length; i++) {
		if (directive[i] == 'l' || directive[i] == 'j' || directive[i] == 'z' ||
		    directive[i] == 't')
			wide = true;
		else if (directive[i] != 'h' && directive[i] != 'L')
			format[used++] = directive[i];
	}
	if (strchr("diouxX", conversion)) {
		uint64_t value = next_argument(arguments, wide ? 8 : 4);
		bool is_signed = conversion == 'd' || conversion == 'i';

		if (is_signed && !wide)
			value = (uint64_t)(int64_t)(int32_t)value;
		memcpy(format + used, "ll", 2);
		format[used + 2] = conversion;
		format[used + 3] = 0;
		written = snprintf(text, sizeof text, format, (unsigned long long)value);
	} else if (strchr("eEfFgGaA", conversion)) {
		uint64_t bits = next_argument(arguments, 8);
		double value;

		memcpy(&value, &bits, sizeof value);
		format[used] = conversion;
		format[used + 1] = 0;
		written = snprintf(text, sizeof text, format, value);
	} else if (conversion == 'c') {
		format[used] = 'c';
		format[used + 1] = 0;
		written = snprintf(text, sizeof text, format, (int)next_argument(arguments, 4));
	} else if (conversion == 'p') {
		written = snprintf(text, sizeof text, "0x%llx",
				   (unsigned long long)next_argument(arguments, 8));
	} else if (conversion == 's') {
		char *string =
			take_string(arguments->warp, arguments->lane, next_argument(arguments, 8));

		if (!string) {
			arguments->failed = true;
			return;
		}
		format[used] = 's';
		format[used + 1] = 0;
		written = snprintf(text, sizeof text, format, string);
		if (used == 1)
			put(output, string, strlen(string));
		free(string);
		if (used == 1)
			return;
	}
	if (written > 0)
		put(output, text,
		    (size_t)written < sizeof text ? (size_t)written : sizeof text - 1);
}

/* Widths are bounded, so that no directive prints more than its buffer. */
static size_t directive_length(const char *at)
{
	size_t length = 1, digits = 0;

	while (at[length] && strchr("-+ #0123456789.hlLjzt", at[length])) {
		digits += at[length] >= '0' && at[length] <= '9';
		length++;
	}
	if (!at[length] || length >= MAX_DIRECTIVE || digits > 6)
		return 0;
	return strchr("diouxXeEfFgGaAcps%", at[length]) ? length + 1 : 0;
}

static bool format_lane(struct arguments *arguments, const char *format, struct output *output)
{
	while (*format && !arguments->failed) {
		size_t length = strcspn(format, "%");

		put(output, format, length);
		format += length;
		if (!*format)
			break;
		length = directive_length(format);
		if (!length) {
			put(output, format, 1);
			length = 1;
		} else if (format[length - 1] == '%') {
			put(output, "%", 1);
		} else {
			put_directive(output, format, length, arguments);
		}
		format += length;
	}
	return !arguments->failed;
}

static enum emu_step builtin_vprintf(struct emu_warp *warp, const struct emu_ins *ins,
				     uint32_t mask)
{
	const struct emu_launch *launch = warp->grid->launch;

	(void)ins;
	if (!has_arguments(warp, 2))
		return EMU_STOPPED;
	EMU_FOR_LANES(l, mask)
	{
		struct arguments arguments = {warp, (int)l, argument(warp, 1, (int)l), false};
		char *format = take_string(warp, (int)l, argument(warp, 0, (int)l));
		struct output output = {0};
		bool fine = format && format_lane(&arguments, format, &output);

		if (fine && launch->print && output.used)
			launch->print(launch->print_context, output.text, output.used);
		free(output.text);
		free(format);
		if (!fine)
			return EMU_STOPPED;
		set_result(warp, (int)l, 1);
	}
	return EMU_NEXT;
}

/* (message, file, line, function, size of a character) */
static enum emu_step builtin_assertfail(struct emu_warp *warp, const struct emu_ins *ins,
					uint32_t mask)
{
	int lane = emu_lowest(mask);
	char *text[3] = {NULL, NULL, NULL};
	static const int which[3] = {0, 1, 3};
	bool fine = has_arguments(warp, 4);

	(void)ins;
	for (int i = 0; i < 3 && fine; i++) {
		text[i] = take_string(warp, lane, argument(warp, which[i], lane));
		fine = text[i] != NULL;
	}
	if (fine)
		emu_fault(warp, lane, "assert", "%s:%u: %s: assertion `%s` failed", text[1],
			  (unsigned)argument(warp, 2, lane), text[2], text[0]);
	for (int i = 0; i < 3; i++)
		free(text[i]);
	return EMU_STOPPED;
}

static enum emu_step builtin_malloc(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)ins;
	if (!has_arguments(warp, 1))
		return EMU_STOPPED;
	EMU_FOR_LANES(l, mask)
	{
		struct emu_error error;
		uint64_t size = argument(warp, 0, (int)l);

		set_result(warp, (int)l,
			   size ? emu_alloc(warp->grid->emu, size, "malloc", &error) : 0);
	}
	return EMU_NEXT;
}

static enum emu_step builtin_free(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)ins;
	if (!has_arguments(warp, 1))
		return EMU_STOPPED;
	EMU_FOR_LANES(l, mask)
	{
		uint64_t address = argument(warp, 0, (int)l);
		struct emu_allocation *found = emu_find_allocation(warp->grid->emu, address);

		if (!address)
			continue;
		if (!found || strcmp(found->name, "malloc") ||
		    !emu_release(warp->grid->emu, address))
			return emu_fault(warp, (int)l, "bad-free",
					 "0x%llx does not come from malloc",
					 (unsigned long long)address);
	}
	return EMU_NEXT;
}

emu_execute emu_builtin_named(const char *name)
{
	static const struct {
		const char *name;
		emu_execute execute;
	} list[] = {
		{"vprintf", builtin_vprintf},
		{"__assertfail", builtin_assertfail},
		{"malloc", builtin_malloc},
		{"free", builtin_free},
	};

	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (!strcmp(name, list[i].name))
			return list[i].execute;
	return NULL;
}

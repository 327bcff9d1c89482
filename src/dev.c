/* Devices by name; which code runs where. */
#include "dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tc_dev_fail(struct err *e, enum err_kind kind, const char *code, const char *fmt, ...)
{
	char text[sizeof e->text]; /* an argument may be e->text itself */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	memcpy(e->text, text, sizeof text);
	e->kind = kind;
	e->code = code;
	return false;
}

/* "sm_90a" -> 90, 'a'; suffix 0 where there is none. */
static bool parse_target(const char *name, int *sm, char *suffix)
{
	char *end;

	if (strncmp(name, "sm_", 3))
		return false;
	*sm = (int)strtol(name + 3, &end, 10);
	*suffix = *end;
	return end != name + 3 && *sm > 0;
}

/*
 * Plain code runs on its architecture and later ones; 'a' code on exactly one; 'f' code on
 * those of its family (same major number) from its own on.
 */
bool tc_target_runs(const char *target, const char *device)
{
	int code, machine;
	char suffix, ignored;

	if (!parse_target(target, &code, &suffix) || !parse_target(device, &machine, &ignored))
		return false;
	if (suffix == 'a')
		return code == machine;
	if (suffix == 'f')
		return code / 10 == machine / 10 && code <= machine;
	return code <= machine;
}

static bool unknown_emulator(struct err *e, const char *name)
{
	char list[256] = "";
	size_t length = 0;

	for (const struct target *const *t = tc_targets(); *t; t++)
		length += (size_t)snprintf(list + length, sizeof list - length, "%semulator:%s",
					   length ? ", " : "", (*t)->name);
	return tc_dev_fail(e, ERR_USER, NULL, "there is no device '%s': the emulated ones are %s",
			   name, list);
}

static struct device *open_emulator(const char *name, struct err *e)
{
	const struct target *t = tc_target_find(name[8] ? name + 9 : "sm_100a");

	if (!t) {
		unknown_emulator(e, name);
		return NULL;
	}
	return tc_emulator_open(t, e);
}

static struct device *open_default(struct err *e)
{
	struct err ignored = {0};
	int count = tc_gpu_count(&ignored);

	for (int i = 0; i < count; i++) {
		struct device *d = tc_gpu_open(i, &ignored);
		if (d)
			return d;
	}
	return tc_emulator_open(tc_target_find("sm_100a"), e);
}

struct device *tc_device_open(const char *name, struct err *e)
{
	char *end;

	if (!name)
		return open_default(e);
	if (!strcmp(name, "emulator") || !strncmp(name, "emulator:", 9))
		return open_emulator(name, e);
	if (!strcmp(name, "cuda"))
		return tc_gpu_open(0, e);
	if (!strncmp(name, "cuda:", 5) && name[5] >= '0' && name[5] <= '9') {
		long ordinal = strtol(name + 5, &end, 10);
		if (!*end && ordinal < 1024)
			return tc_gpu_open((int)ordinal, e);
	}
	tc_dev_fail(e, ERR_USER, NULL,
		    "there is no device '%s': a device is \"cuda:0\" (and so on), \"emulator\" or "
		    "\"emulator:sm_90a\"",
		    name);
	return NULL;
}

struct device *tc_device_hold(struct device *d)
{
	d->references++;
	return d;
}

void tc_device_drop(struct device *d)
{
	if (d && --d->references == 0) {
		d->ops->close(d);
		free((char *)d->name);
		free(d);
	}
}

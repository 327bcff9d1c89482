/* One launch from Lua: options, arrays that live elsewhere. */
#include "lua_dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPORTING_RUN "tcmma.run" /* class of a run that owns a report */

/* ---- what a launch holds ------------------------------------------------- */

void **tc_loaded_slot(lua_State *L, struct loaded *l, struct device *d)
{
	const int capacity = (int)(sizeof l->at / sizeof *l->at);

	for (int i = 0; i < l->count; i++)
		if (l->at[i].device == d)
			return &l->at[i].cached;
	if (l->count == capacity)
		tc_error(L, "the module is loaded on %d devices already", capacity);
	l->at[l->count].device = tc_device_hold(d);
	l->at[l->count].cached = NULL;
	return &l->at[l->count++].cached;
}

void tc_loaded_free(struct loaded *l)
{
	for (int i = 0; i < l->count; i++) {
		struct device *d = l->at[i].device;
		if (l->at[i].cached)
			d->ops->unload(d, l->at[i].cached);
		tc_device_drop(d);
	}
	l->count = 0;
}

struct run *tc_new_run(lua_State *L, int count, bool report)
{
	size_t n = (size_t)count + 1;
	size_t size =
		sizeof(struct run) + n * (sizeof(struct launch_param) + sizeof(struct array *));
	struct run *r = lua_newuserdatauv(L, size, 1);

	memset(r, 0, size);
	r->params = (struct launch_param *)(r + 1);
	r->arrays = (struct array **)(r->params + n);
	r->launch.params = r->params;
	r->launch.param_count = count;
	if (report)
		luaL_setmetatable(L, REPORTING_RUN);
	return r;
}

void tc_run_holds(lua_State *L, struct run *r, int index)
{
	lua_pushvalue(L, index);
	lua_setiuservalue(L, -2, 1);
	r->kernel = lua_touserdata(L, index);
	tc_hold_kernel(r->kernel);
}

static void drop_kernel(struct run *r)
{
	if (r->kernel)
		tc_drop_kernel(r->kernel);
	r->kernel = NULL;
}

/* ---- options ------------------------------------------------------------- */

void tc_read_run_options(lua_State *L, int arg, struct run *r)
{
	static const char *const modes[] = {"fast", "check", "random", NULL};
	static const char *const numerics[] = {"f32", "hardware", NULL};

	r->options.mode = tc_option_word(L, arg, "mode", modes);
	r->options.numerics = tc_option_word(L, arg, "numerics", numerics);
	r->options.seed =
		(uint64_t)tc_option_integer(L, arg, "seed", 0, LUA_MININTEGER, LUA_MAXINTEGER);
	r->options.max_instructions =
		(uint64_t)tc_option_integer(L, arg, "max_instructions", 0, 1, LUA_MAXINTEGER);
	r->options.threads = (int)tc_option_integer(L, arg, "threads", 0, 1, 1024);
	if (tc_option_boolean(L, arg, "trace", false)) {
		if (!r->options.mode)
			r->options.mode = "check";
		if (!strcmp(r->options.mode, "fast"))
			tc_argerror(L, arg,
				    "option 'trace' needs the mode \"check\" or \"random\": in "
				    "\"fast\" nothing has a time");
		tc_trace_begin(L, r);
	}
}

static void size_at(lua_State *L, int arg, const char *name, int i, uint32_t *out)
{
	int ok = 0;
	lua_Integer n = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &ok) : 0;

	if (!ok || n < 1 || n > INT32_MAX)
		tc_argerror(L, arg,
			    "option '%s': size %d must be an integer from 1 to 2147483647, got %s",
			    name, i + 1, tc_describe(L, -1));
	*out = (uint32_t)n;
}

bool tc_option_dims(lua_State *L, int arg, const char *name, uint32_t out[3])
{
	out[0] = out[1] = out[2] = 1;
	if (!tc_option_push(L, arg, name))
		return false;
	if (lua_isinteger(L, -1)) {
		size_at(L, arg, name, 0, &out[0]);
		lua_pop(L, 1);
		return true;
	}
	lua_Integer count = lua_istable(L, -1) ? luaL_len(L, -1) : 0;
	if (count < 1 || count > 3)
		tc_argerror(L, arg, "option '%s' must be a table of 1 to 3 sizes (x, y, z), got %s",
			    name,
			    lua_istable(L, -1) ? lua_pushfstring(L, "one of %I", (LUAI_UACINT)count)
					       : tc_describe(L, -1));
	for (int i = 0; i < count; i++) {
		lua_geti(L, -1, i + 1);
		size_at(L, arg, name, i, &out[i]);
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	return true;
}

struct device *tc_emulate_device(lua_State *L, const char *target)
{
	struct err e = {0};

	lua_pushfstring(L, "emulator:%s", target);
	struct device *d = tc_open_named(L, lua_tostring(L, -1), &e);
	lua_pop(L, 1);
	if (!d)
		tc_raise_device(L, &e);
	return d;
}

bool tc_run(struct device *d, struct run *r, struct err *e)
{
	return d->ops->launch(d, &r->launch, &r->options, e);
}

/* ---- arrays of other devices --------------------------------------------- */

/* The memory that an array lies in: its own, or that of the array it is a view of. */
static struct array *memory_of(struct array *a)
{
	return a->owner ? a->owner : a;
}

static bool copy_between(struct device *to, uint64_t dst, struct device *from, uint64_t src,
			 uint64_t bytes, struct err *e)
{
	void *data = malloc(bytes ? (size_t)bytes : 1);

	if (!data)
		return tc_dev_fail(e, ERR_MEMORY, NULL, "%llu bytes to copy an argument",
				   (unsigned long long)bytes);
	bool ok = from->ops->read(from, data, src, bytes, e) &&
		  to->ops->write(to, dst, data, bytes, e);
	free(data);
	return ok;
}

/* Where parameter i has its address: in the map, or in its bytes. */
static void move_param(struct launch_param *p, uint64_t address)
{
	if (p->is_tensormap)
		p->map.address = address;
	else
		memcpy(p->bytes, &address, sizeof address);
}

static uint64_t param_address(const struct launch_param *p)
{
	uint64_t address;

	if (p->is_tensormap)
		return p->map.address;
	memcpy(&address, p->bytes, sizeof address);
	return address;
}

struct staged {
	struct array *memory;
	uint64_t copy;
};

static struct staged *stage_one(struct device *d, struct staged *list, int *count, struct array *a,
				struct err *e)
{
	struct array *memory = memory_of(a);

	for (int i = 0; i < *count; i++)
		if (list[i].memory == memory)
			return &list[i];
	struct staged *s = &list[*count];
	s->memory = memory;
	s->copy = d->ops->alloc(d, (uint64_t)memory->bytes, "argument", e);
	if (!s->copy)
		return NULL;
	++*count;
	return copy_between(d, s->copy, memory->device, memory->address, (uint64_t)memory->bytes, e)
		       ? s
		       : NULL;
}

static bool stage(struct device *d, struct run *r, struct staged *list, int *count, struct err *e)
{
	for (int i = 0; i < r->launch.param_count; i++) {
		struct array *a = r->arrays[i];
		if (!a || a->device == d)
			continue;
		struct staged *s = stage_one(d, list, count, a, e);
		if (!s)
			return false;
		uint64_t offset = param_address(&r->params[i]) - s->memory->address;
		move_param(&r->params[i], s->copy + offset);
	}
	return true;
}

static bool run_staged(struct device *d, struct run *r, struct err *e)
{
	struct staged *list = calloc((size_t)r->launch.param_count + 1, sizeof *list);
	int count = 0;

	if (!list)
		return tc_dev_fail(e, ERR_MEMORY, NULL, "the arguments' copies");
	bool ok = stage(d, r, list, &count, e) && tc_run(d, r, e);
	for (int i = 0; i < count; i++) {
		struct array *memory = list[i].memory;
		if (ok)
			ok = copy_between(memory->device, memory->address, d, list[i].copy,
					  (uint64_t)memory->bytes, e);
		d->ops->release(d, list[i].copy);
	}
	free(list);
	return ok;
}

/* ---- runs with a report -------------------------------------------------- */

#define MAX_OUTPUT ((size_t)64 << 20)

static int run_gc(lua_State *L)
{
	struct run *r = luaL_testudata(L, 1, REPORTING_RUN);

	if (r) {
		emu_report_clear(&r->report);
		free(r->output);
		r->output = NULL;
		tc_trace_free(r->trace);
		r->trace = NULL;
		drop_kernel(r);
	}
	return 0;
}

static void collect_output(void *context, const char *text, size_t length)
{
	struct run *r = context;

	if (r->output_length + length > r->output_capacity) {
		size_t wanted = (r->output_length + length) * 2 + 256;
		char *grown = wanted <= MAX_OUTPUT ? realloc(r->output, wanted) : NULL;
		if (!grown) {
			r->output_cut = true;
			return;
		}
		r->output = grown;
		r->output_capacity = wanted;
	}
	memcpy(r->output + r->output_length, text, length);
	r->output_length += length;
}

bool tc_run_report(lua_State *L, struct device *d, struct run *r, struct err *e)
{
	r->options.report = &r->report;
	r->options.print = collect_output;
	r->options.print_context = r;
	if (!run_staged(d, r, e))
		return false;
	tc_push_report(L, d, r);
	drop_kernel(r);
	return true;
}

const char *tc_save_text(lua_State *L, const char *name, const char *suffix, const char *text,
			 size_t length)
{
	const char *folder = tc_config_string(CONFIG_dump_dir);

	if (!folder)
		folder = getenv("TMPDIR");
	lua_pushfstring(L, "%s/tcmma-%s-XXXXXX%s", folder && *folder ? folder : "/tmp", name,
			suffix);
	size_t size = lua_rawlen(L, -1) + 1;
	char *path = lua_newuserdatauv(L, size, 0);
	memcpy(path, lua_tostring(L, -2), size);
	int fd = mkstemps(path, (int)strlen(suffix));
	bool ok = fd >= 0 && write(fd, text, length) == (ssize_t)length;
	if (fd >= 0)
		close(fd);
	if (ok)
		lua_pushstring(L, path);
	else
		lua_pushnil(L);
	lua_replace(L, -3);
	lua_pop(L, 1);
	return lua_tostring(L, -1);
}

void tc_open_run(lua_State *L)
{
	luaL_newmetatable(L, REPORTING_RUN);
	lua_pushcfunction(L, run_gc);
	lua_setfield(L, -2, "__gc");
	lua_pop(L, 1);
	tc_open_report(L);
}

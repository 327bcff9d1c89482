/* One launch from Lua: options, arrays that live elsewhere, the emulator's report. */
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

/* One of a NULL-terminated list of words, or NULL where the option is absent. */
static const char *option_word(lua_State *L, int arg, const char *name, const char *const *words)
{
	const char *word = tc_option_string(L, arg, name, NULL);

	if (!word)
		return NULL;
	for (int i = 0; words[i]; i++)
		if (!strcmp(word, words[i]))
			return words[i];
	luaL_Buffer b;
	luaL_buffinit(L, &b);
	for (int i = 0; words[i]; i++) {
		luaL_addstring(&b, i ? ", \"" : "\"");
		luaL_addstring(&b, words[i]);
		luaL_addstring(&b, "\"");
	}
	luaL_pushresult(&b);
	tc_argerror(L, arg, "option '%s' must be one of %s, got \"%s\"", name, lua_tostring(L, -1),
		    word);
	return NULL;
}

void tc_read_run_options(lua_State *L, int arg, struct run *r)
{
	static const char *const modes[] = {"fast", "check", "random", NULL};
	static const char *const numerics[] = {"f32", "hardware", NULL};

	r->options.mode = option_word(L, arg, "mode", modes);
	r->options.numerics = option_word(L, arg, "numerics", numerics);
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

/* ---- the report ---------------------------------------------------------- */

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

static void set_integer(lua_State *L, const char *name, uint64_t value)
{
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

static void push_hazard(lua_State *L, const struct emu_hazard *h)
{
	lua_createtable(L, 0, 12);
	lua_pushstring(L, h->rule);
	lua_setfield(L, -2, "rule");
	lua_pushstring(L, h->severity == EMU_ERROR ? "error" : "lint");
	lua_setfield(L, -2, "severity");
	lua_pushstring(L, h->message);
	lua_setfield(L, -2, "message");
	if (h->ptx_line)
		set_integer(L, "ptx_line", h->ptx_line);
	if (h->file) {
		lua_pushstring(L, h->file);
		lua_setfield(L, -2, "lua_file");
		set_integer(L, "lua_line", h->line);
	}
	if (h->other_file) {
		lua_pushstring(L, h->other_file);
		lua_setfield(L, -2, "other_lua_file");
		set_integer(L, "other_lua_line", h->other_source_line);
	}
	if (h->role) {
		lua_pushstring(L, h->role);
		lua_setfield(L, -2, "role");
	}
	lua_createtable(L, 3, 0);
	for (int i = 0; i < 3; i++) {
		lua_pushinteger(L, h->cta[i]);
		lua_rawseti(L, -2, i + 1);
	}
	lua_setfield(L, -2, "cta");
	lua_pushinteger(L, h->warp);
	lua_setfield(L, -2, "warp");
	set_integer(L, "count", h->count);
}

static void push_counters(lua_State *L, const struct emu_counters *c)
{
	lua_createtable(L, 0, 12);
#define COUNTER(name) set_integer(L, #name, c->name)
	COUNTER(warp_instructions);
	COUNTER(thread_instructions);
	COUNTER(global_read);
	COUNTER(global_written);
	COUNTER(shared_read);
	COUNTER(shared_written);
	COUNTER(tmem_read);
	COUNTER(tmem_written);
	COUNTER(tma_bytes);
	COUNTER(mma_flops);
	COUNTER(mma_instructions);
#undef COUNTER
	lua_pushnumber(L, c->seconds);
	lua_setfield(L, -2, "seconds");
}

static void push_report(lua_State *L, const struct device *d, const struct run *r)
{
	lua_createtable(L, 0, 6);
	lua_createtable(L, r->report.hazard_count, 0);
	for (int i = 0; i < r->report.hazard_count; i++) {
		push_hazard(L, &r->report.hazards[i]);
		lua_rawseti(L, -2, i + 1);
	}
	lua_setfield(L, -2, "hazards");
	push_counters(L, &r->report.counters);
	lua_setfield(L, -2, "counters");
	lua_pushboolean(L, r->report.completed);
	lua_setfield(L, -2, "completed");
	lua_pushlstring(L, r->output ? r->output : "", r->output_length);
	if (r->output_cut)
		lua_pushliteral(L, "\n[output was cut]\n");
	else
		lua_pushliteral(L, "");
	lua_concat(L, 2);
	lua_setfield(L, -2, "output");
	if (r->trace) {
		tc_push_trace(L, r);
		lua_setfield(L, -2, "trace_text");
	}
	lua_pushstring(L, r->launch.name);
	lua_setfield(L, -2, "kernel");
	lua_pushstring(L, d->target->name);
	lua_setfield(L, -2, "target");
	lua_pushstring(L, d->name);
	lua_setfield(L, -2, "device");
	lua_pushstring(L,
		       r->options.mode ? r->options.mode : tc_config_string(CONFIG_emulator_mode));
	lua_setfield(L, -2, "mode");
	luaL_setmetatable(L, TC_REPORT);
}

bool tc_run_report(lua_State *L, struct device *d, struct run *r, struct err *e)
{
	r->options.report = &r->report;
	r->options.print = collect_output;
	r->options.print_context = r;
	if (!run_staged(d, r, e))
		return false;
	push_report(L, d, r);
	drop_kernel(r);
	return true;
}

/* ---- the report's methods ------------------------------------------------ */

static const char *text_field(lua_State *L, int index, const char *name)
{
	lua_getfield(L, index, name);
	const char *text = luaL_tolstring(L, -1, NULL);
	lua_replace(L, -2);
	return text;
}

static void add_hazard_text(lua_State *L, luaL_Buffer *b, int hazard)
{
	static const struct {
		const char *field, *before;
	} parts[] = {{"rule", "\n["},       {"severity", ", "},    {"message", "] "},
		     {"warp", "\n  warp "}, {"count", ", times "}, {"ptx_line", ", PTX line "},
		     {"lua_file", ", "},    {"lua_line", ":"}};

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		lua_getfield(L, hazard, parts[i].field);
		bool present = !lua_isnil(L, -1);
		lua_pop(L, 1);
		if (!present)
			continue;
		luaL_addstring(b, parts[i].before);
		text_field(L, hazard, parts[i].field);
		luaL_addvalue(b);
	}
}

/* A report is a table with the class's metatable. */
static void check_report(lua_State *L)
{
	bool same = lua_istable(L, 1) && lua_getmetatable(L, 1);

	if (same) {
		luaL_getmetatable(L, TC_REPORT);
		same = lua_rawequal(L, -1, -2);
		lua_pop(L, 2);
	}
	if (!same)
		tc_check_object(L, 1, TC_REPORT);
}

/* Pushes the report at index 1 as text. */
static void push_text(lua_State *L)
{
	luaL_Buffer b;
	char line[256];

	check_report(L);
	lua_settop(L, 1);
	lua_getfield(L, 1, "hazards");
	lua_getfield(L, 1, "counters");
	lua_pushnil(L); /* slot 4: the hazard in turn */
	lua_Integer count = lua_istable(L, 2) ? luaL_len(L, 2) : 0;
	lua_getfield(L, 1, "completed");
	bool completed = lua_toboolean(L, -1);
	lua_getfield(L, 1, "mode");
	bool fast = lua_isstring(L, -1) && !strcmp(lua_tostring(L, -1), "fast");
	lua_pop(L, 2);
	luaL_buffinit(L, &b);
	luaL_addstring(&b, "report of '");
	text_field(L, 1, "kernel");
	luaL_addvalue(&b);
	luaL_addstring(&b, "' on ");
	text_field(L, 1, "device");
	luaL_addvalue(&b);
	snprintf(line, sizeof line, ": %s, %d hazard%s%s", completed ? "completed" : "stopped",
		 (int)count, count == 1 ? "" : "s",
		 fast ? " (mode fast: races are not looked for)" : "");
	luaL_addstring(&b, line);
	for (lua_Integer i = 1; i <= count; i++) {
		lua_geti(L, 2, i);
		lua_replace(L, 4);
		if (lua_istable(L, 4))
			add_hazard_text(L, &b, 4);
	}
	luaL_pushresult(&b);
}

static int report_tostring(lua_State *L)
{
	push_text(L);
	return 1;
}

static void show_counters(lua_State *L)
{
	static const char *const names[] = {
		"warp_instructions", "thread_instructions", "global_read",     "global_written",
		"shared_read",       "shared_written",      "tmem_read",       "tmem_written",
		"tma_bytes",         "mma_flops",           "mma_instructions"};

	lua_getfield(L, 1, "counters");
	for (size_t i = 0; lua_istable(L, -1) && i < sizeof names / sizeof *names; i++) {
		lua_getfield(L, -1, names[i]);
		lua_Integer n = lua_tointeger(L, -1);
		lua_pop(L, 1);
		if (n)
			printf("  %-20s %15lld\n", names[i], (long long)n);
	}
	lua_pop(L, 1);
}

static int report_show(lua_State *L)
{
	size_t length;

	push_text(L);
	puts(lua_tostring(L, -1));
	show_counters(L);
	lua_getfield(L, 1, "output");
	const char *output = lua_tolstring(L, -1, &length);
	if (output && length) {
		fputs("output:\n", stdout);
		fwrite(output, 1, length, stdout);
	}
	fflush(stdout);
	lua_settop(L, 1);
	return 1;
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

static int report_trace(lua_State *L)
{
	check_report(L);
	return tc_report_trace(L);
}

static const struct tc_function report_methods[] = {
	{"trace", report_trace, tc_report_trace_doc},
	{"show", report_show,
	 "show() -> tcmma.report\n"
	 "Prints the hazards with their places, the counters, and what the kernel printed."},
	{NULL, NULL, NULL}};
static const luaL_Reg report_meta[] = {{"__tostring", report_tostring}, {NULL, NULL}};

void tc_open_run(lua_State *L)
{
	luaL_newmetatable(L, REPORTING_RUN);
	lua_pushcfunction(L, run_gc);
	lua_setfield(L, -2, "__gc");
	lua_pop(L, 1);
	tc_class(L, TC_REPORT,
		 "What an emulated run left behind: a table.\n"
		 "---@field completed boolean False where an error stopped the grid\n"
		 "---@field hazards table[] `{rule=, severity=, message=, ptx_line=, lua_file=, "
		 "lua_line=, other_lua_file=, other_lua_line=, cta={x, y, z}, warp=, role=, "
		 "count=}`; severity is \"error\" or \"lint\". The other line is that of the "
		 "earlier "
		 "access. One hazard for each rule and pair of lines, `count` times seen\n"
		 "---@field counters table Instructions, bytes by space, MMA flops, `seconds`\n"
		 "---@field output string What the kernel printed\n"
		 "---@field trace_text string? The trace that `trace` writes, of a run with `trace "
		 "= "
		 "true`\n"
		 "---@field kernel string\n"
		 "---@field target string\n"
		 "---@field device string\n"
		 "---@field mode string? \"fast\", \"check\" or \"random\"; nil of a GPU\n",
		 report_methods, report_meta, NULL);
}

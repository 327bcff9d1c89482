/* k:info: what a kernel takes of the machine, a table with a class. */
#include "compile.h"
#include "lua_dev.h"

#include <stdio.h>

static void set_count(lua_State *L, const char *name, int64_t value)
{
	if (value >= 0)
		tc_set_integer(L, name, value);
}

/* A warning of the assembler, at the top, as a lint. */
static void push_warning_lint(lua_State *L, const char *message)
{
	struct program_lint lint = {.rule = "assembler-warning", .message = message};

	tc_push_lint(L, &lint);
}

/* Sets `warnings` in the table on top, and appends them to its `lints`. */
static void set_warnings(lua_State *L, const char *log)
{
	const char *warning;
	size_t n;

	lua_newtable(L);
	if (lua_getfield(L, -2, "lints") != LUA_TTABLE) {
		lua_pop(L, 1);
		lua_newtable(L);
	}
	while ((warning = tc_assembly_warning(&log, &n))) {
		push_warning_lint(L, lua_pushlstring(L, warning, n));
		lua_rawseti(L, -3, (lua_Integer)lua_rawlen(L, -3) + 1);
		lua_rawseti(L, -3, (lua_Integer)lua_rawlen(L, -3) + 1);
	}
	tc_set_shown(L);
	lua_setfield(L, -3, "lints");
	tc_set_shown(L);
	lua_setfield(L, -2, "warnings");
}

bool tc_set_assembly(lua_State *L, const char *log, const char *entry, const char *assembler,
		     struct assembly_info *info)
{
	tc_set_string(L, "assembler", assembler);
	set_warnings(L, log);
	if (!tc_assembly_info(log, entry, info))
		return false;
	set_count(L, "registers", info->registers);
	set_count(L, "spill_stores", info->spill_stores);
	set_count(L, "spill_loads", info->spill_loads);
	set_count(L, "stack", info->stack);
	return true;
}

static void push_program_info(lua_State *L, const struct program *p)
{
	lua_createtable(L, 0, 16);
	tc_set_string(L, "target", p->target->name);
	tc_set_string(L, "entry", p->entry);
	set_count(L, "threads", p->info.threads);
	set_count(L, "warps", p->info.warps);
	set_count(L, "smem", p->smem);
	set_count(L, "tmem_columns", p->info.tmem_columns);
	set_count(L, "barriers", p->info.barrier_count);
	set_count(L, "named_barriers", p->info.named_barriers);
	set_count(L, "params", p->param_count);
	tc_set_string(L, "text", p->info.text ? p->info.text : "");
	lua_newtable(L);
	for (const struct program_lint *lint = p->lints; lint; lint = lint->next) {
		tc_push_lint(L, lint);
		lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
	}
	tc_set_shown(L);
	lua_setfield(L, -2, "lints");
	luaL_setmetatable(L, TC_INFO);
}

static int kernel_info(lua_State *L)
{
	struct err e = {0};
	struct assembly_info info;

	lua_settop(L, 2);
	const struct program *p = tc_program_of_call(L, 2);
	struct assembled *a = tc_program_assemble(L, p, &e);
	push_program_info(L, p);
	tc_set_estimate(L, tc_check_kernel(L, 1), p);
	if (!a) {
		tc_set_string(L, "assembler_missing", e.text);
		return 1;
	}
	tc_set_assembly(L, a->log.text, p->entry, a->assembler, &info);
	tc_set_string(L, "log", a->log.text ? a->log.text : "");
	return 1;
}

static const char *text_or(lua_State *L, int index, const char *standard)
{
	const char *text = lua_tostring(L, index);

	return text ? text : standard;
}

/* The lint on top as a line; those of the assembler are of the whole kernel. */
static void push_lint_line(lua_State *L)
{
	lua_getfield(L, -1, "rule");
	lua_getfield(L, -2, "lua_file");
	lua_getfield(L, -3, "lua_line");
	lua_getfield(L, -4, "message");
	if (lua_isnil(L, -3))
		lua_pushfstring(L, "lint = [%s] %s", text_or(L, -4, "?"), text_or(L, -1, "?"));
	else
		lua_pushfstring(L, "lint = [%s] %s:%s: %s", text_or(L, -4, "?"),
				text_or(L, -3, "?"), text_or(L, -2, "?"), text_or(L, -1, "?"));
}

/* The text at -2 with the lints at -1, each with its place, before it. */
static void add_lints(lua_State *L)
{
	int text = lua_absindex(L, -2), list = lua_absindex(L, -1);

	for (lua_Integer i = (lua_Integer)lua_rawlen(L, list); i > 0; i--) {
		if (lua_rawgeti(L, list, i) == LUA_TTABLE) {
			push_lint_line(L);
			lua_pushfstring(L, "%s\n%s", lua_tostring(L, -1), lua_tostring(L, text));
			lua_replace(L, text);
		}
		lua_settop(L, list);
	}
	lua_pop(L, 1);
}

/* Pushes the table at 1 as lines. */
static void push_info_text(lua_State *L)
{
	static const char *const names[] = {
		"target",       "threads",  "registers",      "spill_stores", "spill_loads", "smem",
		"tmem_columns", "barriers", "named_barriers", "assembler",    "estimate"};
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		lua_getfield(L, 1, names[i]);
		bool present = !lua_isnil(L, -1);
		lua_pop(L, 1);
		if (!present)
			continue;
		luaL_addstring(&b, names[i]);
		luaL_addstring(&b, " = ");
		lua_getfield(L, 1, names[i]);
		luaL_tolstring(L, -1, NULL);
		lua_remove(L, -2);
		luaL_addvalue(&b);
		luaL_addchar(&b, '\n');
	}
	lua_getfield(L, 1, "text");
	luaL_tolstring(L, -1, NULL);
	lua_remove(L, -2);
	luaL_addvalue(&b);
	luaL_pushresult(&b);
	if (lua_getfield(L, 1, "lints") == LUA_TTABLE)
		add_lints(L);
	else
		lua_pop(L, 1);
}

/* An info is a table with the class's metatable. */
static void check_info(lua_State *L)
{
	bool same = lua_istable(L, 1) && lua_getmetatable(L, 1);

	if (same) {
		luaL_getmetatable(L, TC_INFO);
		same = lua_rawequal(L, -1, -2);
	}
	if (!same)
		tc_check_object(L, 1, TC_INFO);
	lua_settop(L, 1);
}

static int info_show(lua_State *L)
{
	check_info(L);
	push_info_text(L);
	puts(lua_tostring(L, -1));
	fflush(stdout);
	return 0;
}

enum {
	LONGEST_INFO = 400 /* bytes of the line, whatever was put into the table */
};

/* "info of 'k' for sm_100a: 128 threads, 40 registers ...": what is known. */
static int info_tostring(lua_State *L)
{
	static const struct {
		const char *field, *one, *more;
	} parts[] = {{"threads", "thread", "threads"},
		     {"registers", "register", "registers"},
		     {"spill_stores", "byte spilled", "bytes spilled"},
		     {"smem", "byte of SMEM", "bytes of SMEM"},
		     {"tmem_columns", "TMEM column", "TMEM columns"},
		     {"barriers", "barrier", "barriers"}};
	luaL_Buffer b;

	check_info(L);
	lua_getfield(L, 1, "entry");
	lua_getfield(L, 1, "target");
	lua_getfield(L, 1, "lints");
	lua_Integer lints = lua_istable(L, -1) ? (lua_Integer)lua_rawlen(L, -1) : 0;
	luaL_buffinit(L, &b);
	lua_pushfstring(L, "info of '%s' for %s:", text_or(L, 2, "?"), text_or(L, 3, "?"));
	luaL_addvalue(&b);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		lua_getfield(L, 1, parts[i].field);
		bool known = lua_isinteger(L, -1);
		lua_Integer n = lua_tointeger(L, -1);
		lua_pop(L, 1);
		if (!known)
			continue;
		lua_pushfstring(L, " %I %s,", (LUAI_UACINT)n,
				n == 1 ? parts[i].one : parts[i].more);
		luaL_addvalue(&b);
	}
	lua_pushfstring(L, " %I lint%s", (LUAI_UACINT)lints, lints == 1 ? "" : "s");
	luaL_addvalue(&b);
	luaL_addstring(&b, "; info:show() tells more");
	luaL_pushresult(&b);
	tc_push_start(L, lua_tostring(L, -1), LONGEST_INFO);
	return 1;
}

static const struct tc_function kernel_methods[] = {
	{"info", kernel_info,
	 "info(opts?: {target?: string}) -> tcmma.info\n"
	 "What the kernel takes, and `estimate`: what it would reach on a machine of the target "
	 "with "
	 "TMEM, by a model that docs/performance.md describes. What uses `setmaxnreg` is assembled "
	 "by `ptxas` where it is installed, and for a launch by the driver: nvJitLink does not "
	 "honour it."},
	{NULL, NULL, NULL}};

static const char info_doc[] =
	"What a kernel takes of the machine: a table. `print(info)` is one line, `info:show()` all "
	"that is known.\n"
	"---@field target string\n"
	"---@field entry string The kernel's name in the PTX\n"
	"---@field threads integer\n"
	"---@field warps integer\n"
	"---@field smem integer Bytes\n"
	"---@field tmem_columns integer\n"
	"---@field barriers integer\n"
	"---@field named_barriers integer\n"
	"---@field params integer\n"
	"---@field text string Roles and allocations\n"
	"---@field lints table[] `{rule=, message=, lua_file=, lua_line=, role=}`: what is legal "
	"and "
	"likely to be wrong, as reports of mode check list it, and `warnings`\n"
	"---@field assembler string? Which one: this and the following fields are its own\n"
	"---@field registers integer? Of a thread\n"
	"---@field spill_stores integer? Bytes\n"
	"---@field spill_loads integer? Bytes\n"
	"---@field stack integer? Bytes\n"
	"---@field warnings string[]? Messages of lost performance, which the first launch on a "
	"GPU "
	"tells too\n"
	"---@field log string?\n"
	"---@field assembler_missing string? The reason\n"
	"---@field estimate table? `machine`, `ctas_per_sm`, `occupancy_limit`, `ctas`, `waves`, "
	"`clocks` of the kernel, `tensor_clocks` that its MMAs occupy the tensor core, `flop`, "
	"`k_steps` (MMAs of an SM), `bytes` and `bytes_per_k_step` of an SM and `busy` (0 to 1) by "
	"path (`dram`, `l2`, `smem`, `tmem`, `out`; `tensor`: the tensor core, which MMAs of 64 "
	"rows occupy as those of 128 do), `l2_miss`, `bound`, `utilization` (`tflops` of "
	"`peak_tflops`, the peak of the kinds that it multiplies with), `microseconds`\n"
	"---@field estimate_missing string? The reason\n";

static const struct tc_function info_methods[] = {
	{"show", info_show, "show()\nPrints all fields, a line each."}, {NULL, NULL, NULL}};
static const luaL_Reg info_meta[] = {{"__tostring", info_tostring}, {NULL, NULL}};

void tc_open_info(lua_State *L)
{
	tc_class(L, TC_INFO, info_doc, info_methods, info_meta, NULL);
	luaL_getmetatable(L, TC_KERNEL);
	lua_getfield(L, -1, "__methods");
	tc_functions(L, TC_KERNEL, kernel_methods);
	lua_pop(L, 2);
	tc_open_estimate(L);
}

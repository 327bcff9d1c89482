/* What a run left behind: the report, a table, and its methods. */
#include "lua_dev.h"

#include <stdio.h>
#include <string.h>

#define HAZARD_LINE "tcmma.hazard" /* metatable of a hazard, a plain table */

/* Pops a value into the field `side``name` of the table below it. */
static void set_of_side(lua_State *L, const char *side, const char *name)
{
	lua_pushfstring(L, "%s%s", side, name);
	lua_insert(L, -2);
	lua_rawset(L, -3);
}

/* The calls that were inlined, from the nearest on. */
static void push_callers(lua_State *L, const struct emu_position *caller)
{
	lua_newtable(L);
	for (int i = 1; caller; caller = caller->inlined_at) {
		lua_createtable(L, 0, 2);
		tc_set_string(L, "file", caller->file);
		tc_set_integer(L, "line", caller->line);
		tc_set_shown(L);
		lua_rawseti(L, -2, i++);
	}
	tc_set_shown(L);
}

/* Only a recorded kernel has lines of Lua.  `side`: "", or "other_" of the earlier access. */
static void set_position(lua_State *L, const struct launch *l, const char *side,
			 const struct emu_position *at)
{
	size_t length = 0;
	const char *text = tc_source_line(l, at, &length);

	if (!at->file)
		return;
	lua_pushstring(L, at->file);
	set_of_side(L, side, l->line_count ? "lua_file" : "file");
	lua_pushinteger(L, at->line);
	set_of_side(L, side, l->line_count ? "lua_line" : "line");
	if (at->inlined_at) {
		push_callers(L, at->inlined_at);
		set_of_side(L, side, "inlined_at");
	}
	if (text) {
		lua_pushlstring(L, text, length);
		set_of_side(L, side, "text");
	}
}

static void push_hazard(lua_State *L, const struct launch *l, const struct emu_hazard *h)
{
	lua_createtable(L, 0, 12);
	tc_set_string(L, "rule", h->rule);
	tc_set_string(L, "severity", h->severity == EMU_ERROR ? "error" : "lint");
	tc_set_string(L, "message", h->message);
	if (h->ptx_line)
		tc_set_integer(L, "ptx_line", h->ptx_line);
	set_position(L, l, "", &h->at);
	set_position(L, l, "other_", &h->other);
	if (h->role) {
		tc_set_string(L, "role", h->role);
	}
	lua_createtable(L, 3, 0);
	for (int i = 0; i < 3; i++) {
		lua_pushinteger(L, h->cta[i]);
		lua_rawseti(L, -2, i + 1);
	}
	tc_set_shown(L);
	lua_setfield(L, -2, "cta");
	tc_set_integer(L, "warp", h->warp);
	tc_set_integer(L, "count", h->count);
	luaL_setmetatable(L, HAZARD_LINE);
}

#define COUNTERS(row)                                                                              \
	row(warp_instructions) row(thread_instructions) row(global_read) row(global_written)       \
		row(shared_read) row(shared_written) row(tmem_read) row(tmem_written)              \
			row(tma_bytes) row(mma_flops) row(mma_instructions)

void tc_push_lint(lua_State *L, const struct program_lint *lint)
{
	lua_createtable(L, 0, 7);
	tc_set_string(L, "rule", lint->rule);
	lua_pushliteral(L, "lint");
	lua_setfield(L, -2, "severity");
	tc_set_string(L, "message", lint->message);
	if (lint->file) {
		tc_set_string(L, "lua_file", lint->file);
		tc_set_integer(L, "lua_line", lint->line);
	}
	if (lint->role) {
		tc_set_string(L, "role", lint->role);
	}
	tc_set_integer(L, "count", 1);
	luaL_setmetatable(L, HAZARD_LINE);
}

static void push_counters(lua_State *L, const struct emu_counters *c)
{
	lua_createtable(L, 0, 12);
#define SET(name) tc_set_integer(L, #name, c->name);
	COUNTERS(SET)
#undef SET
	tc_set_number(L, "seconds", c->seconds);
	tc_set_shown(L);
}

void tc_push_report(lua_State *L, const struct device *d, const struct run *r)
{
	bool emulated = r->options.report != NULL;
	const char *mode =
		r->options.mode ? r->options.mode : tc_config_string(CONFIG_emulator_mode);
	/* Of a run that failed, what the recording alone shows may be the reason. */
	bool linted = emulated && (strcmp(mode, "fast") != 0 || !r->report.completed);
	int count = r->report.hazard_count;

	lua_createtable(L, 0, 9);
	lua_createtable(L, r->report.hazard_count, 0);
	for (int i = 0; i < r->report.hazard_count; i++) {
		push_hazard(L, &r->launch, &r->report.hazards[i]);
		lua_rawseti(L, -2, i + 1);
	}
	for (const struct program_lint *lint = r->launch.lints; lint && linted; lint = lint->next) {
		tc_push_lint(L, lint);
		lua_rawseti(L, -2, ++count);
	}
	tc_set_shown(L);
	lua_setfield(L, -2, "hazards");
	if (emulated) {
		push_counters(L, &r->report.counters);
	} else {
		lua_newtable(L);
		tc_set_shown(L);
	}
	lua_setfield(L, -2, "counters");
	lua_pushboolean(L, !emulated || r->report.completed);
	lua_setfield(L, -2, "completed");
	lua_pushlstring(L, r->output ? r->output : "", r->output_length);
	if (r->output_cut)
		lua_pushliteral(L, "\n[output was cut]\n");
	else
		lua_pushliteral(L, "");
	lua_concat(L, 2);
	lua_setfield(L, -2, "output");
	if (r->trace) {
		tc_push_trace(L, r->trace);
		lua_setfield(L, -2, "trace_text");
	}
	tc_set_string(L, "kernel", r->launch.name);
	tc_set_string(L, "target", d->target->name);
	tc_set_string(L, "device", d->name);
	if (emulated) {
		tc_set_string(L, "mode", mode);
	}
	luaL_setmetatable(L, TC_REPORT);
}

/* ---- the report's methods ------------------------------------------------ */

/* Slots of the stack while a report is written. */
enum {
	HAZARD = 4, /* in turn */
	CALLERS,    /* its inlined_at */
	CALLER      /* in turn */
};

static const char *text_field(lua_State *L, int index, const char *name)
{
	lua_getfield(L, index, name);
	const char *text = luaL_tolstring(L, -1, NULL);
	lua_replace(L, -2);
	return text;
}

/* Pushes the hazard's field of that side. */
static int get_of_side(lua_State *L, int hazard, const char *side, const char *name)
{
	char field[32];

	snprintf(field, sizeof field, "%s%s", side, name);
	return lua_getfield(L, hazard, field);
}

/* Whatever the user has put into the report's tables. */
static void add_position(lua_State *L, luaL_Buffer *b, int at, const char *side)
{
	char field[2][32];

	snprintf(field[0], sizeof field[0], "%sfile", side);
	snprintf(field[1], sizeof field[1], "%sline", side);
	text_field(L, at, field[0]);
	luaL_addvalue(b);
	luaL_addstring(b, ":");
	text_field(L, at, field[1]);
	luaL_addvalue(b);
}

/* Where foreign code comes from.  Lists are in slots of their own: a buffer may use the top. */
static void add_source(lua_State *L, luaL_Buffer *b, int hazard, const char *side,
		       const char *before)
{
	bool known = get_of_side(L, hazard, side, "file") != LUA_TNIL;

	lua_pop(L, 1);
	if (!known)
		return;
	luaL_addstring(b, before);
	add_position(L, b, hazard, side);
	get_of_side(L, hazard, side, "inlined_at");
	lua_replace(L, CALLERS);
	lua_Integer count = lua_istable(L, CALLERS) ? luaL_len(L, CALLERS) : 0;
	for (lua_Integer i = 1; i <= count; i++) {
		lua_geti(L, CALLERS, i);
		lua_replace(L, CALLER);
		if (!lua_istable(L, CALLER))
			continue;
		luaL_addstring(b, ", inlined at ");
		add_position(L, b, CALLER, "");
	}
	if (get_of_side(L, hazard, side, "text") == LUA_TSTRING) {
		lua_pushfstring(L, "\n    %s", lua_tostring(L, -1));
		lua_replace(L, -2);
		luaL_addvalue(b);
	} else {
		lua_pop(L, 1);
	}
}

static void add_hazard_text(lua_State *L, luaL_Buffer *b, int hazard)
{
	static const struct {
		const char *field, *before;
	} parts[] = {{"rule", "\n["},   {"severity", ", "},  {"message", "] "},
		     {"warp", "warp "}, {"count", "times "}, {"ptx_line", "PTX line "},
		     {"lua_file", ""},  {"lua_line", ":"}};
	enum {
		PLACE = 3, /* parts from here on stand in a line of their own */
		LINE = 7   /* follows the file */
	};
	bool placed = false;

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		lua_getfield(L, hazard, parts[i].field);
		bool present = !lua_isnil(L, -1);
		lua_pop(L, 1);
		if (!present)
			continue;
		if (i >= PLACE && i < LINE) {
			luaL_addstring(b, placed ? ", " : "\n  ");
			placed = true;
		}
		luaL_addstring(b, parts[i].before);
		text_field(L, hazard, parts[i].field);
		luaL_addvalue(b);
	}
	add_source(L, b, hazard, "", ", ");
	add_source(L, b, hazard, "other_", "\n  the earlier one: ");
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

/* The report at index 1, its hazards at 2, and slots of the stack for them; how many there are. */
static lua_Integer open_report(lua_State *L)
{
	check_report(L);
	lua_settop(L, 1);
	lua_getfield(L, 1, "hazards");
	lua_getfield(L, 1, "counters");
	for (int slot = HAZARD; slot <= CALLER; slot++)
		lua_pushnil(L);
	return lua_istable(L, 2) ? luaL_len(L, 2) : 0;
}

/* "report of 'k' on emulator:sm_100a: completed, 1 hazard" */
static void add_head(lua_State *L, luaL_Buffer *b, lua_Integer count)
{
	char line[256];

	lua_getfield(L, 1, "completed");
	bool completed = lua_toboolean(L, -1);
	lua_getfield(L, 1, "mode");
	bool fast = lua_isstring(L, -1) && !strcmp(lua_tostring(L, -1), "fast");
	lua_pop(L, 2);
	luaL_buffinit(L, b);
	luaL_addstring(b, "report of '");
	text_field(L, 1, "kernel");
	luaL_addvalue(b);
	luaL_addstring(b, "' on ");
	text_field(L, 1, "device");
	luaL_addvalue(b);
	snprintf(line, sizeof line, ": %s, %d hazard%s%s", completed ? "completed" : "stopped",
		 (int)count, count == 1 ? "" : "s",
		 fast ? " (mode fast: races are not looked for)" : "");
	luaL_addstring(b, line);
}

/* Pushes the report at index 1 as text. */
static void push_text(lua_State *L)
{
	lua_Integer count = open_report(L);
	luaL_Buffer b;

	add_head(L, &b, count);
	for (lua_Integer i = 1; i <= count; i++) {
		lua_geti(L, 2, i);
		lua_replace(L, HAZARD);
		if (lua_istable(L, HAZARD))
			add_hazard_text(L, &b, HAZARD);
	}
	luaL_pushresult(&b);
}

static int report_text(lua_State *L)
{
	push_text(L);
	return 1;
}

/* ---- in one line --------------------------------------------------------- */

enum {
	MOST_RULES = 3,       /* that the line of a report names */
	LONGEST_REPORT = 400, /* bytes of that line */
	LONGEST_LINE = 160    /* bytes of a message in the line of a hazard */
};

/* Pushes a field of the table at `index` as the start of a text, "?" where there is none. */
static void push_field(lua_State *L, int index, const char *name, int longest)
{
	if (lua_getfield(L, index, name) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_pushliteral(L, "?");
		return;
	}
	tc_push_start(L, luaL_tolstring(L, -1, NULL), longest);
	lua_replace(L, -3);
	lua_pop(L, 1);
}

/* Pushes " at FILE:LINE" of the hazard at `index`: of Lua, else of foreign source, else of PTX. */
static void push_line(lua_State *L, int index)
{
	static const char *const fields[][2] = {
		{"lua_file", "lua_line"}, {"file", "line"}, {NULL, "ptx_line"}};

	for (int i = 0; i < 3; i++) {
		bool known = lua_getfield(L, index, fields[i][1]) != LUA_TNIL;

		lua_pop(L, 1);
		if (!known)
			continue;
		if (fields[i][0])
			push_field(L, index, fields[i][0], LONGEST_LINE);
		else
			lua_pushliteral(L, "PTX");
		push_field(L, index, fields[i][1], LONGEST_LINE);
		lua_pushfstring(L, fields[i][0] ? " at %s:%s" : " at %s line %s",
				lua_tostring(L, -2), lua_tostring(L, -1));
		lua_replace(L, -3);
		lua_pop(L, 1);
		return;
	}
	lua_pushliteral(L, "");
}

/* "[smem-race, error] at k.lua:12: what there is of the message" */
static int hazard_tostring(lua_State *L)
{
	if (!lua_istable(L, 1))
		return tc_argerror(L, 1, "table expected, got %s", tc_describe(L, 1));
	lua_settop(L, 1);
	push_field(L, 1, "rule", LONGEST_LINE);
	push_field(L, 1, "severity", LONGEST_LINE);
	push_line(L, 1);
	push_field(L, 1, "message", LONGEST_LINE);
	lua_pushfstring(L, "[%s, %s]%s: %s", lua_tostring(L, 2), lua_tostring(L, 3),
			lua_tostring(L, 4), lua_tostring(L, 5));
	return 1;
}

static int report_tostring(lua_State *L)
{
	lua_Integer count = open_report(L), named = 0;
	luaL_Buffer b;

	add_head(L, &b, count);
	for (lua_Integer i = 1; i <= count && named < MOST_RULES; i++) {
		lua_geti(L, 2, i);
		lua_replace(L, HAZARD);
		if (!lua_istable(L, HAZARD))
			continue;
		luaL_addstring(&b, named++ ? ", " : ": ");
		push_field(L, HAZARD, "rule", LONGEST_LINE);
		luaL_addvalue(&b);
		push_line(L, HAZARD);
		luaL_addvalue(&b);
	}
	luaL_addstring(&b, count > named ? " ...; report:show() tells all"
			   : count       ? "; report:show() tells more"
					 : "");
	luaL_pushresult(&b);
	tc_push_start(L, lua_tostring(L, -1), LONGEST_REPORT);
	return 1;
}

static void show_counters(lua_State *L)
{
#define NAME(name) #name,
	static const char *const names[] = {COUNTERS(NAME)};
#undef NAME

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
	return 0;
}

static int report_trace(lua_State *L)
{
	check_report(L);
	return tc_report_trace(L);
}

static const struct tc_function report_methods[] = {
	{"trace", report_trace, tc_report_trace_doc},
	{"text", report_text,
	 "text() -> string\n"
	 "The hazards with their places, as `show` prints them; `tostring` of a report is one "
	 "line."},
	{"show", report_show,
	 "show()\n"
	 "Prints the hazards with their places, the counters, and what the kernel printed."},
	{NULL, NULL, NULL}};
static const luaL_Reg report_meta[] = {{"__tostring", report_tostring}, {NULL, NULL}};

void tc_open_report(lua_State *L)
{
	luaL_newmetatable(L, HAZARD_LINE);
	lua_pushcfunction(L, hazard_tostring);
	lua_setfield(L, -2, "__tostring");
	lua_pop(L, 1);
	tc_class(L, TC_REPORT,
		 "What an emulated run left behind: a table.\n"
		 "---@field completed boolean False where an error stopped the grid\n"
		 "---@field hazards table[] `{rule=, severity=, message=, ptx_line=, lua_file=, "
		 "lua_line=, other_lua_file=, other_lua_line=, cta={x, y, z}, warp=, role=, "
		 "count=}`; severity is \"error\" or \"lint\". The other line is that of the "
		 "earlier "
		 "access. Of foreign code with line information (`tc.cuda`, PTX with `.loc`) "
		 "`file=, line=, other_file=, other_line=` in place of Lua's, "
		 "`inlined_at={{file=, line=}}` and `other_inlined_at`: the calls of a function "
		 "that was inlined, from the nearest on; `text` and `other_text`: what stands "
		 "there in the source that `tc.cuda` was given. One hazard for each rule and pair "
		 "of lines, `count` times "
		 "seen. Lints of "
		 "the recording, which `k:info()` lists too, have neither PTX line nor warp\n"
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

/* A kernel as files: PTX, cubin, and what a launcher in another language needs to know. */
#include "lua_dev.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void add_numbers(luaL_Buffer *b, const char *name, const uint32_t *values, int n)
{
	char text[96];

	snprintf(text, sizeof text, "\"%s\": [", name);
	luaL_addstring(b, text);
	for (int i = 0; i < n; i++) {
		snprintf(text, sizeof text, i ? ", %u" : "%u", values[i]);
		luaL_addstring(b, text);
	}
	luaL_addstring(b, "]");
}

/* What JSON takes between quotes. */
static void add_escaped(luaL_Buffer *b, const char *name)
{
	char text[8];

	for (const unsigned char *s = (const unsigned char *)name; *s; s++) {
		bool plain = *s >= ' ' && *s != '"' && *s != '\\';

		snprintf(text, sizeof text, plain ? "%c" : "\\u%04x", *s);
		luaL_addstring(b, text);
	}
}

static void add_param(luaL_Buffer *b, const struct param *p, const struct kern *k)
{
	static const char *const kinds[] = {"tensormap", "pointer", "u32", "profile"};
	char text[128];
	uint32_t axes[TC_MAP_RANK], collapsed[TC_MAP_RANK];

	snprintf(text, sizeof text, "{\"kind\": \"%s\", ", kinds[p->kind]);
	luaL_addstring(b, text);
	if (p->kind == PARAM_DIM) {
		luaL_addstring(b, "\"dimension\": \"");
		add_escaped(b, k->dim_names[p->arg]);
		luaL_addstring(b, "\"}");
		return;
	}
	snprintf(text, sizeof text, "\"argument\": %d", p->arg);
	luaL_addstring(b, text);
	if (p->kind == PARAM_TENSORMAP) {
		for (int i = 0; i < TC_MAP_RANK; i++) {
			axes[i] = (uint32_t)p->axis[i];
			collapsed[i] = (uint32_t)p->collapsed[i];
		}
		snprintf(text, sizeof text,
			 ", \"type\": %d, \"per_element\": %d, \"swizzle_bytes\": %d, "
			 "\"swizzle_atom_bytes\": %d, ",
			 p->tma_type, p->per_element, p->swizzle, p->atom_32 ? 32 : 16);
		luaL_addstring(b, text);
		add_numbers(b, "axis", axes, p->rank);
		luaL_addstring(b, ", ");
		add_numbers(b, "collapsed", collapsed, p->rank);
		luaL_addstring(b, ", ");
		add_numbers(b, "box", p->box, p->rank);
	}
	luaL_addstring(b, "}");
}

/* What a launcher in another language needs to know. */
static void push_manifest(lua_State *L, const struct kern *k, const struct program *p)
{
	luaL_Buffer b;
	char text[256];

	luaL_buffinit(L, &b);
	luaL_addstring(&b, "{\n  \"entry\": \"");
	luaL_addstring(&b, p->entry);
	luaL_addstring(&b, "\",\n  \"target\": \"");
	luaL_addstring(&b, p->target->name);
	luaL_addstring(&b, "\",\n  ");
	add_numbers(&b, "block", p->block, 3);
	luaL_addstring(&b, ",\n  ");
	add_numbers(&b, "cluster", p->cluster, 3);
	luaL_addstring(&b, ",\n  \"grid\": [");
	for (int i = 0; i < k->grid_rank; i++) {
		snprintf(text, sizeof text, i ? ", %lld" : "%lld", (long long)k->grid[i]);
		luaL_addstring(&b, text);
	}
	snprintf(text, sizeof text,
		 "],\n  \"dynamic_smem\": %u,\n  \"programmatic_stream_serialization\": %s,\n  "
		 "\"params\": [",
		 p->smem, p->programmatic ? "true" : "false");
	luaL_addstring(&b, text);
	for (int i = 0; i < p->param_count; i++) {
		luaL_addstring(&b, i ? ",\n    " : "\n    ");
		add_param(&b, &p->params[i], k);
	}
	luaL_addstring(&b, "\n  ]\n}\n");
	luaL_pushresult(&b);
}

void tc_write_file(lua_State *L, const char *path, const char *text, size_t length)
{
	FILE *f = fopen(path, "wb");
	bool ok = f && fwrite(text, 1, length, f) == length;

	if (f && fclose(f))
		ok = false;
	if (!ok)
		tc_error(L, "cannot write '%s': %s", path, strerror(errno));
}

/* Writes the string on top of the stack and pops it; the file's name goes to the list below. */
static void write_file(lua_State *L, int list, const char *path)
{
	size_t length;
	const char *text = lua_tolstring(L, -1, &length);

	tc_write_file(L, path, text, length);
	lua_pop(L, 1);
	lua_pushstring(L, path);
	lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n > m && !strcmp(text + n - m, end);
}

static int kernel_export(lua_State *L)
{
	struct kern *k = tc_check_kernel(L, 1);
	struct err e = {0};

	if (lua_type(L, 2) != LUA_TSTRING)
		return tc_argerror(L, 2, "a path is expected, got %s", tc_describe(L, 2));
	const char *path = lua_tostring(L, 2);
	lua_settop(L, 3);
	const struct program *p = tc_program_of_call(L, 3);
	bool one_ptx = ends_with(path, ".ptx"), one_cubin = ends_with(path, ".cubin");
	lua_newtable(L);
	tc_set_shown(L);
	int list = lua_gettop(L);
	if (!one_cubin) {
		lua_pushfstring(L, one_ptx ? "%s" : "%s.ptx", path);
		lua_pushlstring(L, p->ptx, p->ptx_length);
		write_file(L, list, lua_tostring(L, -2));
		lua_settop(L, list);
	}
	struct assembled *a = one_ptx ? NULL : tc_program_assemble(L, p, &e);
	if (one_cubin && !a)
		return tc_fail_device(L, &e);
	if (a) {
		lua_pushfstring(L, one_cubin ? "%s" : "%s.cubin", path);
		lua_pushlstring(L, a->text.text, a->text.length);
		write_file(L, list, lua_tostring(L, -2));
	}
	if (!one_ptx && !one_cubin) {
		lua_settop(L, list);
		lua_pushfstring(L, "%s.json", path);
		push_manifest(L, k, p);
		write_file(L, list, lua_tostring(L, -2));
	}
	lua_settop(L, list);
	return 1;
}

static const struct tc_function methods[] = {
	{"export", kernel_export,
	 "export(path: string, opts?: {target?: string}) -> string[]\n"
	 "Writes `path.ptx`, `path.cubin` (where there is an assembler) and `path.json` with all "
	 "that a launcher "
	 "in another language needs; a path that ends in `.ptx` or `.cubin` writes that file "
	 "alone. Returns the "
	 "files' names."},
	{NULL, NULL, NULL}};

void tc_open_export(lua_State *L)
{
	luaL_getmetatable(L, TC_KERNEL);
	lua_getfield(L, -1, "__methods");
	tc_functions(L, TC_KERNEL, methods);
	lua_pop(L, 2);
}

/* Foreign code: PTX texts and CUDA C as modules. */
#include "lua_dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- modules ------------------------------------------------------------- */

static int module_gc(lua_State *L)
{
	struct lua_module *m = luaL_testudata(L, 1, TC_MODULE);

	if (m) {
		tc_loaded_free(&m->loaded);
		tc_ptx_signature_free(&m->signature);
		free(m->ptx);
		free(m->source_name);
		free(m->source);
		m->ptx = m->source_name = m->source = NULL;
	}
	return 0;
}

static struct lua_module *check_module(lua_State *L, int arg)
{
	struct lua_module *m = tc_check_object(L, arg, TC_MODULE);

	if (!m->ptx)
		tc_argerror(L, arg, "the module is closed");
	return m;
}

/* Pushes a module of a copy of the text. */
static struct lua_module *new_module(lua_State *L, const char *ptx, size_t length)
{
	struct err e = {0};
	struct lua_module *m = tc_new_object(L, TC_MODULE, sizeof *m, 0);

	m->ptx = malloc(length + 1);
	if (!m->ptx)
		tc_error(L, "not enough memory: PTX of %zu bytes", length);
	memcpy(m->ptx, ptx, length);
	m->ptx[length] = '\0';
	m->ptx_length = length;
	if (!tc_ptx_signature(m->ptx, &m->signature, &e))
		tc_raise_device(L, &e);
	if (!m->signature.entry_count)
		tc_error(L, "the PTX has no kernel: there is no .entry in it");
	return m;
}

static int ptx(lua_State *L)
{
	size_t length;

	if (lua_type(L, 1) != LUA_TSTRING)
		return tc_argerror(L, 1, "PTX text expected, got %s", tc_describe(L, 1));
	const char *text = lua_tolstring(L, 1, &length);
	if (strlen(text) != length)
		return tc_argerror(L, 1,
				   "PTX text expected, but it has a NUL byte (is it a cubin?)");
	new_module(L, text, length);
	return 1;
}

/* ---- CUDA C -------------------------------------------------------------- */

#define ASSEMBLED "tcmma.assembled"

static int assembled_gc(lua_State *L)
{
	struct assembled *a = tc_test_object(L, 1, ASSEMBLED);

	if (a) {
		free(a->text.text);
		free(a->log.text);
		memset(a, 0, sizeof *a);
	}
	return 0;
}

struct assembled *tc_new_assembled(lua_State *L)
{
	return tc_new_object(L, ASSEMBLED, sizeof(struct assembled), 0);
}

/*
 * The list of strings of the option, and what the others say; pushed as a userdata that holds the
 * pointers.
 */
static const char **option_list(lua_State *L, int arg, int *count)
{
	bool given = tc_option_push(L, arg, "options");

	if (given && !lua_istable(L, -1))
		tc_argerror(L, arg, "option 'options' must be a list of strings for NVRTC, got %s",
			    tc_describe(L, -1));
	lua_Integer n = given ? luaL_len(L, -1) : 0;
	const char **list = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *list, 0);
	for (int i = 0; i < n; i++) {
		lua_geti(L, -2, i + 1);
		if (!tc_is_text(L, -1))
			tc_argerror(L, arg, "option 'options': entry %d must be a string, got %s",
				    i + 1, tc_describe(L, -1));
		list[i] = lua_tostring(L, -1);
		lua_pop(L, 1);
	}
	*count = (int)n;
	if (tc_option_boolean(L, arg, "lineinfo", true))
		list[(*count)++] = "-lineinfo";
	return list;
}

/* The name stands in quotes in the PTX, where a quote cannot be written. */
static const char *option_name(lua_State *L, int arg)
{
	const char *name = tc_option_string(L, arg, "name", "kernel.cu");

	if (strchr(name, '"'))
		tc_argerror(L, arg, "option 'name' must have no double quotes in it, got '%s'",
			    name);
	return name;
}

static char *copy_text(lua_State *L, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		tc_error(L, "not enough memory: source of %zu bytes", strlen(text));
	return copy;
}

static const char *option_target(lua_State *L, int arg)
{
	const char *target = tc_option_string(L, arg, "target", NULL);
	char *end;

	if (!target)
		return tc_current_device(L)->target->name;
	long sm = !strncmp(target, "sm_", 3) ? strtol(target + 3, &end, 10) : 0;
	if (sm < 50 || sm > 999 || (*end && strcmp(end, "a") && strcmp(end, "f")))
		tc_argerror(
			L, arg,
			"option 'target' must be an architecture such as \"sm_90a\", got \"%s\"",
			target);
	return target;
}

static int cuda(lua_State *L)
{
	static const char *const names[] = {"options", "target", "name", "lineinfo", NULL};
	struct err e = {0};
	int count;

	if (!tc_is_text(L, 1))
		return tc_argerror(L, 1, "CUDA C source expected, got %s", tc_describe(L, 1));
	lua_settop(L, 2);
	tc_options(L, 2, names);
	const char *target = option_target(L, 2);
	const char *name = option_name(L, 2);
	const char **options = option_list(L, 2, &count);
	struct assembled *c = tc_new_assembled(L);
	if (!tc_nvrtc(lua_tostring(L, 1), name, target, options, count, &c->text, &c->log, &e))
		return tc_fail_device(L, &e);
	if (!strstr(c->text.text, ".entry"))
		return tc_error(L, "'%s' has no kernel: no __global__ function is defined in it",
				name);
	struct lua_module *m = new_module(L, c->text.text, c->text.length);
	m->source_name = copy_text(L, name);
	m->source = copy_text(L, lua_tostring(L, 1));
	if (c->log.length)
		lua_pushlstring(L, c->log.text, c->log.length);
	else
		lua_pushnil(L);
	return 2;
}

/* ---- kernels of a module ------------------------------------------------- */

/* Is `entry` the C++ name of a function called `name`, as in _Z3addPfi? */
static bool mangles(const char *entry, const char *name)
{
	char *rest;

	if (strncmp(entry, "_Z", 2) || entry[2] < '0' || entry[2] > '9')
		return false;
	size_t length = (size_t)strtoul(entry + 2, &rest, 10);
	return length == strlen(name) && !strncmp(rest, name, length);
}

static int no_kernel(lua_State *L, const struct lua_module *m, const char *name, const char *why)
{
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	for (int i = 0; i < m->signature.entry_count; i++) {
		luaL_addstring(&b, i ? ", '" : "'");
		luaL_addstring(&b, m->signature.entries[i].name);
		luaL_addstring(&b, "'");
	}
	luaL_pushresult(&b);
	return tc_argerror(L, 2, "the module has %s kernel '%s'; it has %s", why, name,
			   lua_tostring(L, -1));
}

static const struct ptx_entry *find_entry(lua_State *L, const struct lua_module *m,
					  const char *name)
{
	const struct ptx_entry *found = NULL;

	for (int i = 0; i < m->signature.entry_count; i++)
		if (!strcmp(m->signature.entries[i].name, name))
			return &m->signature.entries[i];
	for (int i = 0; i < m->signature.entry_count; i++) {
		if (!mangles(m->signature.entries[i].name, name))
			continue;
		if (found)
			no_kernel(L, m, name, "more than one");
		found = &m->signature.entries[i];
	}
	if (!found)
		no_kernel(L, m, name, "no");
	return found;
}

static int module_kernel(lua_State *L)
{
	struct lua_module *m = check_module(L, 1);
	const struct ptx_entry *entry;
	const char *name;

	if (lua_isnoneornil(L, 2) && m->signature.entry_count == 1) {
		entry = &m->signature.entries[0];
		name = entry->name;
	} else {
		if (!tc_is_text(L, 2))
			return tc_argerror(L, 2, "name of a kernel expected, got %s",
					   tc_describe(L, 2));
		name = lua_tostring(L, 2);
		entry = find_entry(L, m, name);
	}
	struct lua_function *f = tc_new_object(L, TC_FUNCTION, sizeof *f, 1);
	f->module = m;
	f->entry = entry;
	snprintf(f->name, sizeof f->name, "%s", name);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, 1);
	return 1;
}

static void push_dims(lua_State *L, const char *name, const uint32_t dims[3])
{
	if (!dims[0])
		return;
	lua_createtable(L, 3, 0);
	for (int i = 0; i < 3; i++) {
		lua_pushinteger(L, dims[i]);
		lua_rawseti(L, -2, i + 1);
	}
	tc_set_shown(L);
	lua_setfield(L, -2, name);
}

void tc_push_param_type(lua_State *L, const struct ptx_param *p)
{
	if (p->is_array)
		lua_pushfstring(L, ".%s[%d]", p->type, (int)(p->size / tc_ptx_type_size(p->type)));
	else
		lua_pushfstring(L, ".%s", p->type);
}

void tc_push_entry(lua_State *L, const struct ptx_entry *entry)
{
	lua_createtable(L, 0, 5);
	tc_set_string(L, "name", entry->name);
	lua_createtable(L, entry->param_count, 0);
	for (int i = 0; i < entry->param_count; i++) {
		const struct ptx_param *p = &entry->params[i];
		lua_createtable(L, 0, 3);
		tc_set_string(L, "name", p->name);
		tc_push_param_type(L, p);
		lua_setfield(L, -2, "type");
		tc_set_integer(L, "bytes", p->size);
		tc_set_shown(L);
		lua_rawseti(L, -2, i + 1);
	}
	tc_set_shown(L);
	lua_setfield(L, -2, "params");
	push_dims(L, "max_threads", entry->max_threads);
	push_dims(L, "required_threads", entry->required_threads);
	push_dims(L, "required_cluster", entry->required_cluster);
	tc_set_shown(L);
}

static int module_kernels(lua_State *L)
{
	struct lua_module *m = check_module(L, 1);

	lua_createtable(L, m->signature.entry_count, 0);
	for (int i = 0; i < m->signature.entry_count; i++) {
		tc_push_entry(L, &m->signature.entries[i]);
		lua_rawseti(L, -2, i + 1);
	}
	tc_set_shown(L);
	return 1;
}

static int module_ptx(lua_State *L)
{
	struct lua_module *m = check_module(L, 1);

	lua_pushlstring(L, m->ptx, m->ptx_length);
	return 1;
}

/* Assembles for the option 'target', else for the text's own. */
struct assembled *tc_module_assemble(lua_State *L, const struct lua_module *m, int arg,
				     struct err *e)
{
	static const char *const names[] = {"target", NULL};
	struct assembled *c = tc_new_assembled(L);

	tc_options(L, arg, names);
	const char *target = lua_istable(L, arg) ? tc_option_string(L, arg, "target", NULL) : NULL;
	if (target && !tc_target_runs(m->signature.target, target))
		tc_argerror(L, arg, "code for %s cannot be assembled for \"%s\"",
			    m->signature.target, target);
	if (!tc_assemble_whole(m->ptx, m->ptx_length, target ? target : m->signature.target,
			       &c->text, &c->log, &c->assembler, e))
		return NULL;
	return c;
}

static int module_cubin(lua_State *L)
{
	struct lua_module *m = check_module(L, 1);
	struct err e = {0};

	lua_settop(L, 2);
	struct assembled *c = tc_module_assemble(L, m, 2, &e);
	if (!c)
		return tc_fail_device(L, &e);
	lua_pushlstring(L, c->text.text, c->text.length);
	lua_pushstring(L, c->log.text ? c->log.text : "");
	return 2;
}

static int module_field(lua_State *L)
{
	struct lua_module *m = tc_check_object(L, 1, TC_MODULE);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (!strcmp(key, "target"))
		lua_pushstring(L, m->signature.target);
	else if (!strcmp(key, "ptx_version"))
		lua_pushstring(L, m->signature.version);
	else
		return 0;
	return 1;
}

static int module_tostring(lua_State *L)
{
	struct lua_module *m = tc_check_object(L, 1, TC_MODULE);

	if (!m->ptx)
		lua_pushliteral(L, TC_MODULE " (closed)");
	else
		lua_pushfstring(L, TC_MODULE " for %s with %d kernel%s", m->signature.target,
				m->signature.entry_count, m->signature.entry_count == 1 ? "" : "s");
	return 1;
}

/* ---- registration -------------------------------------------------------- */

static const struct tc_function functions[] = {
	{"ptx", ptx,
	 "ptx(text: string) -> tcmma.module\n"
	 "A module of PTX text, whoever wrote it. Its declarations are read here; the text is "
	 "assembled (or "
	 "loaded by the emulator) at the first launch on a device, and kept."},
	{"cuda", cuda,
	 "cuda(source: string, opts?: {options?: string[], target?: string, name?: string, "
	 "lineinfo?: boolean}) -> "
	 "tcmma.module?, "
	 "string?, string?\n"
	 "Compiles CUDA C with NVRTC. `options` go to the compiler, `target` is the architecture "
	 "(default: "
	 "that of the current device), `name` the file name in its messages and in the emulator's "
	 "reports, which name lines of the source unless `lineinfo = false`: the code is the same "
	 "either way. The toolkit's headers are found. "
	 "What the compiler rejects is an error with its log; warnings come as the second result. "
	 "Without "
	 "NVRTC the answer is nil, a message and the code `no-library`."},
	{NULL, NULL, NULL}};

static const struct tc_function module_methods[] = {
	{"kernel", module_kernel,
	 "kernel(name?: string) -> tcmma.function\n"
	 "A kernel of the module, by the name of its entry or, where that is unique, by the plain "
	 "name of a C++ "
	 "function. The name may be left out when there is one kernel only."},
	{"kernels", module_kernels,
	 "kernels() -> table[]\n"
	 "All entries: `{name=, params={{name=, type=, bytes=}}, max_threads=, required_threads=, "
	 "required_cluster=}`."},
	{"ptx", module_ptx, "ptx() -> string\nThe PTX text."},
	{"cubin", module_cubin,
	 "cubin(opts?: {target?: string}) -> string?, string, string?\n"
	 "The assembled module and the assembler's log. Without nvJitLink: nil, a message, "
	 "`no-assembler`."},
	{NULL, NULL, NULL}};

static const luaL_Reg module_meta[] = {
	{"__tostring", module_tostring}, {"__gc", module_gc}, {"__close", module_gc}, {NULL, NULL}};
void tc_open_module(lua_State *L)
{
	tc_class(L, TC_MODULE,
		 "Foreign code: a PTX text and its kernels.\n"
		 "---@field target string The text's `.target`\n"
		 "---@field ptx_version string The text's `.version`\n",
		 module_methods, module_meta, module_field);
	luaL_newmetatable(L, ASSEMBLED);
	lua_pushcfunction(L, assembled_gc);
	lua_setfield(L, -2, "__gc");
	lua_pop(L, 1);
	tc_open_function(L);
	tc_functions(L, "tcmma", functions);
	tc_open_run(L);
	tc_open_tensormap(L);
}

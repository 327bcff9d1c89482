/* Classes: their methods and fields, the documentation of both, and what a misspelt name is told.
 */
#include "lua_tc.h"

#include <stdlib.h>
#include <string.h>

#define DOCUMENTED "tcmma.documented" /* registry: sequence of owner, list, doc pointers */

/* ---- documentation ------------------------------------------------------- */

static void *pointer_at(lua_State *L, lua_Integer i)
{
	lua_rawgeti(L, -1, i);
	void *p = lua_touserdata(L, -1);
	lua_pop(L, 1);
	return p;
}

static void append_pointer(lua_State *L, const void *p)
{
	lua_pushlightuserdata(L, (void *)p);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/*
 * All three are static data of the module, so that pointers are enough and
 * loading the module copies no text.  A module may be loaded again in the same
 * state; then they are there already.
 */
static void document(lua_State *L, const char *owner, const struct tc_function *list,
		     const char *doc)
{
	luaL_getsubtable(L, LUA_REGISTRYINDEX, DOCUMENTED);
	lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
	bool known = false;
	for (lua_Integer i = 1; i < n && !known; i += 3)
		known = pointer_at(L, i + 1) == list && pointer_at(L, i + 2) == doc;
	if (!known) {
		append_pointer(L, owner);
		append_pointer(L, list);
		append_pointer(L, doc);
	}
	lua_pop(L, 1);
}

const struct tc_function *tc_find_function(lua_State *L, lua_CFunction f, const char **owner)
{
	const struct tc_function *found = NULL;
	luaL_getsubtable(L, LUA_REGISTRYINDEX, DOCUMENTED);
	lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
	for (lua_Integer i = 1; i < n && !found; i += 3) {
		const struct tc_function *list = pointer_at(L, i + 1);
		for (; list && list->name && !found; list++) {
			if (list->function == f) {
				found = list;
				*owner = pointer_at(L, i);
			}
		}
	}
	lua_pop(L, 1);
	return found;
}

static void push_entry(lua_State *L, const char *owner, const char *name, const char *doc)
{
	lua_createtable(L, 0, 4);
	tc_set_string(L, "owner", owner);
	tc_set_string(L, "doc", doc ? doc : "");
	if (name) {
		tc_set_string(L, "name", name);
	}
	tc_set_shown(L);
}

static int module_documentation(lua_State *L)
{
	lua_Integer count = 0;
	lua_newtable(L);
	luaL_getsubtable(L, LUA_REGISTRYINDEX, DOCUMENTED);
	lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
	for (lua_Integer i = 1; i < n; i += 3) {
		const char *owner = pointer_at(L, i);
		const struct tc_function *list = pointer_at(L, i + 1);
		const char *doc = pointer_at(L, i + 2);
		if (doc) {
			push_entry(L, owner, NULL, doc);
			lua_rawseti(L, -3, ++count);
		}
		for (; list && list->name; list++) {
			push_entry(L, owner, list->name, list->doc);
			lua_pushcfunction(L, list->function);
			lua_setfield(L, -2, "value");
			lua_rawseti(L, -3, ++count);
		}
	}
	lua_pop(L, 1);
	tc_set_shown(L);
	return 1;
}

void tc_functions(lua_State *L, const char *owner, const struct tc_function *list)
{
	document(L, owner, list, NULL);
	for (; list->name; list++) {
		lua_pushcfunction(L, list->function);
		lua_setfield(L, -2, list->name);
	}
}

/* ---- misspelt names ------------------------------------------------------ */

enum {
	MOST_NAMES = 3 /* that a message offers */
};

const char *tc_push_advice(lua_State *L, const char *word, const char *const *names,
			   const char *all)
{
	const char *near[MOST_NAMES];
	int count = tc_nearest_names(word, names, near, MOST_NAMES);
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	if (count) {
		luaL_addstring(&b, "did you mean ");
		for (int i = 0; i < count; i++) {
			luaL_addstring(&b, i == 0 ? "'" : i < count - 1 ? "', '" : "' or '");
			luaL_addstring(&b, near[i]);
		}
		luaL_addstring(&b, "'?");
	} else {
		luaL_addstring(&b, all);
		luaL_addstring(&b, *names ? ": " : ": none");
		for (const char *const *name = names; *name; name++) {
			luaL_addstring(&b, name == names ? "" : ", ");
			luaL_addstring(&b, *name);
		}
	}
	luaL_pushresult(&b);
	return lua_tostring(L, -1);
}

/* The strings of the list at `index`, NULL at the end, in a userdata that is pushed. */
static const char **push_strings(lua_State *L, int index)
{
	lua_Integer count = (lua_Integer)lua_rawlen(L, index);
	const char **names = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *names, 0);

	for (lua_Integer i = 0; i < count; i++) {
		lua_rawgeti(L, index, i + 1);
		names[i] = lua_tostring(L, -1); /* kept by the list */
		lua_pop(L, 1);
	}
	names[count] = NULL;
	return names;
}

/* Appends the names of the class's `---@field` lines to the list on top; whether one is `key`. */
static bool add_fields(lua_State *L, const char *class_name, const char *key)
{
	static const char mark[] = "---@field ";
	int list = lua_gettop(L);
	bool found = false;

	luaL_getsubtable(L, LUA_REGISTRYINDEX, DOCUMENTED);
	lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
	for (lua_Integer i = 1; i < n; i += 3) {
		const char *doc = pointer_at(L, i + 2);
		if (!doc || strcmp(pointer_at(L, i), class_name) != 0)
			continue;
		while ((doc = strstr(doc, mark))) {
			doc += sizeof mark - 1;
			lua_pushlstring(L, doc, strcspn(doc, " "));
			found |= strcmp(lua_tostring(L, -1), key) == 0;
			lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
		}
	}
	lua_pop(L, 1);
	return found;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Index 2 is neither method nor field of the object at 1: raises, or pushes nil. */
static int no_field(lua_State *L, int methods, const char *class_name)
{
	const char *key;

	if (lua_type(L, 2) != LUA_TSTRING)
		return tc_error(L, "a %s cannot be indexed by %s", class_name, tc_describe(L, 2));
	key = lua_tostring(L, 2);
	luaL_checkstack(L, 12, "for the names of a class");
	lua_newtable(L);
	int list = lua_gettop(L);
	if (add_fields(L, class_name, key)) {
		if (!lua_istable(L, 1))
			return tc_error(L, "this %s has no field '%s'", class_name, key);
		lua_pushnil(L); /* an optional field of what is a table */
		return 1;
	}
	lua_pushnil(L);
	while (lua_next(L, methods)) {
		lua_pop(L, 1);
		lua_pushvalue(L, -1);
		lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
	}
	const char **names = push_strings(L, list);
	qsort(names, lua_rawlen(L, list), sizeof *names, by_name);
	return tc_error(L, "a %s has no field '%s' (%s)", class_name, key,
			tc_push_advice(L, key, names, "it has"));
}

static int module_nearest(lua_State *L)
{
	const char *near[MOST_NAMES], **names;
	int count;

	if (lua_type(L, 1) != LUA_TSTRING)
		return tc_argerror(L, 1, "word expected, a string; got %s", tc_describe(L, 1));
	if (!lua_istable(L, 2))
		return tc_argerror(L, 2, "names expected, a list of strings; got %s",
				   tc_describe(L, 2));
	lua_settop(L, 2);
	lua_newtable(L); /* a copy, which no finalizer can reach */
	for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 2); i++) {
		if (lua_rawgeti(L, 2, i) != LUA_TSTRING)
			return tc_argerror(L, 2, "entry %d of the names is %s, not a string",
					   (int)i, tc_describe(L, -1));
		lua_rawseti(L, 3, i);
	}
	names = push_strings(L, 3);
	count = tc_nearest_names(lua_tostring(L, 1), names, near, MOST_NAMES);
	lua_createtable(L, count, 0);
	for (int i = 0; i < count; i++) {
		lua_pushstring(L, near[i]);
		lua_rawseti(L, -2, i + 1);
	}
	tc_set_shown(L);
	return 1;
}

/* ---- classes ------------------------------------------------------------- */

/* Upvalues: methods, C function for fields or nil, name of the class. */
static int class_index(lua_State *L)
{
	lua_CFunction field = lua_tocfunction(L, lua_upvalueindex(2));

	lua_settop(L, 2);
	lua_pushvalue(L, 2);
	if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
		return 1;
	lua_settop(L, 2);
	if (field && field(L))
		return 1;
	lua_settop(L, 2);
	return no_field(L, lua_upvalueindex(1), lua_tostring(L, lua_upvalueindex(3)));
}

/* Upvalue: name of the class.  What is a table takes further fields. */
static int class_newindex(lua_State *L)
{
	if (lua_istable(L, 1)) {
		lua_settop(L, 3);
		lua_rawset(L, 1);
		return 0;
	}
	return tc_error(L, "fields of a %s cannot be set (%s)",
			lua_tostring(L, lua_upvalueindex(1)), tc_describe(L, 2));
}

void tc_class(lua_State *L, const char *name, const char *doc, const struct tc_function *methods,
	      const luaL_Reg *meta, int (*field)(lua_State *L))
{
	static const struct tc_function none[] = {{NULL, NULL, NULL}};

	luaL_newmetatable(L, name);
	document(L, name, NULL, doc);
	lua_newtable(L);
	tc_functions(L, name, methods ? methods : none);
	lua_pushvalue(L, -1);
	lua_setfield(L, -3, "__methods");
	if (field)
		lua_pushcfunction(L, field);
	else
		lua_pushnil(L);
	lua_pushstring(L, name);
	lua_pushcclosure(L, class_index, 3);
	lua_setfield(L, -2, "__index");
	lua_pushstring(L, name);
	lua_pushcclosure(L, class_newindex, 1);
	lua_setfield(L, -2, "__newindex");
	if (meta)
		luaL_setfuncs(L, meta, 0);
	lua_pop(L, 1);
}

/* ---- functions written in Lua -------------------------------------------- */

static int end_entry(lua_State *L, int status, lua_KContext context)
{
	(void)status;
	(void)context;
	return lua_gettop(L);
}

/* Upvalue: what it calls. */
static int run_entry(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, end_entry);
	return lua_gettop(L);
}

static int module_entry_point(lua_State *L)
{
	if (!lua_isfunction(L, 1))
		tc_argerror(L, 1, "function expected, got %s", tc_describe(L, 1));
	lua_settop(L, 1);
	lua_pushcclosure(L, run_entry, 1);
	return 1;
}

static const struct tc_function functions[] = {
	{"documentation", module_documentation,
	 "documentation() -> table[]\n"
	 "What `tc.help` and docs/reference.md are made from: a list of `{owner=, name=, doc=, "
	 "value=}`,\n"
	 "where `owner` is `\"tcmma\"` or the class and `value` the function. The entry of a class "
	 "itself\n"
	 "has no `name`."},
	{"nearest", module_nearest,
	 "nearest(word: string, names: string[]) -> string[]\n"
	 "The names that are most like a misspelt word, best first, at most 3: what \"did you "
	 "mean\" "
	 "says."},
	{"entry_point", module_entry_point,
	 "entry_point(fn: function) -> function\n"
	 "A C function that calls `fn`. A tail call of a Lua function, as in `return f(x)` and in "
	 "every expression at the prompt, drops the caller, and with it the line that an error or "
	 "an operation belongs to; that of a C function keeps it. For libraries written on this "
	 "module."},
	{NULL, NULL, NULL},
};

void tc_open_class(lua_State *L)
{
	tc_functions(L, "tcmma", functions);
}

/*
 * Helpers of the border: error positions, objects, arguments and options tables.
 */
#include "lua_tc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys of the registry. */
#define OWN_DIRECTORY "tcmma.directory" /* "lua/tcmma/", false: not found */
#define FILES         "tcmma.files"     /* names of source files, kept for srcpos */

/* ---- positions and errors ----------------------------------------------------- */

/* Pushes the directory of tcmma's own Lua files ("lua/tcmma/"), or false. */
static void push_own_directory(lua_State *L)
{
	if (lua_getfield(L, LUA_REGISTRYINDEX, OWN_DIRECTORY) != LUA_TNIL)
		return;
	lua_pop(L, 1);
	int top = lua_gettop(L);
	const char *path = NULL;
	if (luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) &&
	    lua_getfield(L, -1, LUA_LOADLIBNAME) == LUA_TTABLE &&
	    lua_getfield(L, -1, "searchpath") == LUA_TFUNCTION) {
		lua_pushliteral(L, "tcmma");
		lua_getfield(L, -3, "path");
		if (lua_pcall(L, 2, 1, 0) == LUA_OK)
			path = lua_tostring(L, -1);
	}
	const char *slash = path ? strrchr(path, '/') : NULL;
	if (slash)
		lua_pushlstring(L, path, (size_t)(slash - path) + 1);
	else
		lua_pushboolean(L, 0);
	lua_replace(L, top + 1);
	lua_settop(L, top + 1);
	lua_pushvalue(L, -1);
	lua_setfield(L, LUA_REGISTRYINDEX, OWN_DIRECTORY);
}

/* "=tcmma/..." is the name of our files in a program that has them built in. */
static bool is_own_source(const char *source, const char *directory)
{
	if (strncmp(source, "=tcmma/", 7) == 0)
		return true;
	size_t n = directory ? strlen(directory) : 0;
	return n && source[0] == '@' && strncmp(source + 1, directory, n) == 0;
}

/* A copy of the text that lives as long as the state. */
static const char *keep_text(lua_State *L, const char *text)
{
	luaL_getsubtable(L, LUA_REGISTRYINDEX, FILES);
	lua_pushstring(L, text);
	lua_pushvalue(L, -1);
	if (lua_rawget(L, -3) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_pushvalue(L, -1);
		lua_pushvalue(L, -1);
		lua_rawset(L, -4);
	}
	const char *kept = lua_tostring(L, -1);
	lua_pop(L, lua_type(L, -2) == LUA_TSTRING ? 3 : 2);
	return kept;
}

void tc_position(lua_State *L, struct srcpos *pos)
{
	lua_Debug ar;

	luaL_checkstack(L, 8, "for an error position");
	pos->file = NULL;
	pos->line = 0;
	push_own_directory(L);
	const char *directory = lua_tostring(L, -1);
	for (int level = 0; lua_getstack(L, level, &ar); level++) {
		lua_getinfo(L, "Sl", &ar);
		if (ar.currentline > 0 && !is_own_source(ar.source, directory)) {
			pos->file = keep_text(L, ar.short_src);
			pos->line = ar.currentline;
			break;
		}
	}
	lua_pop(L, 1);
}

const char *tc_push_place(lua_State *L, struct srcpos pos)
{
	if (!pos.file)
		return lua_pushliteral(L, "an unknown line");
	if (strcmp(pos.file, TC_PROMPT) == 0)
		return lua_pushliteral(L, "the prompt");
	return lua_pushfstring(L, "%s:%d", pos.file, pos.line);
}

static const char *push_vformat(lua_State *L, const char *fmt, va_list ap)
{
	va_list again;
	luaL_Buffer b;

	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	char *text = luaL_buffinitsize(L, &b, (size_t)n + 1);
	vsnprintf(text, (size_t)n + 1, fmt, ap);
	luaL_pushresultsize(&b, (size_t)n);
	return lua_tostring(L, -1);
}

/* Raises the string on top of the stack at a position. */
static int raise_at(lua_State *L, const struct srcpos *pos)
{
	if (pos->file) {
		lua_pushfstring(L, "%s:%d: ", pos->file, pos->line);
		lua_insert(L, -2);
		lua_concat(L, 2);
	}
	return lua_error(L);
}

static int raise_here(lua_State *L)
{
	struct srcpos pos;
	tc_position(L, &pos);
	return raise_at(L, &pos);
}

int tc_error(lua_State *L, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	push_vformat(L, fmt, ap);
	va_end(ap);
	return raise_here(L);
}

/* tc:zeros(...): the module is the first argument. */
static bool is_module(lua_State *L, int index)
{
	luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
	lua_getfield(L, -1, "tcmma.core");
	bool same = lua_istable(L, index) && lua_rawequal(L, index, -1);
	lua_pop(L, 2);
	return same;
}

int tc_argerror(lua_State *L, int arg, const char *fmt, ...)
{
	lua_Debug ar;
	const struct tc_function *entry = NULL;
	const char *owner = NULL;
	va_list ap;

	va_start(ap, fmt);
	const char *text = push_vformat(L, fmt, ap);
	va_end(ap);
	if (!lua_getstack(L, 0, &ar)) {
		lua_pushfstring(L, "bad argument #%d (%s)", arg, text);
		return raise_here(L);
	}
	lua_getinfo(L, "nf", &ar);
	if (lua_iscfunction(L, -1))
		entry = tc_find_function(L, lua_tocfunction(L, -1), &owner);
	const char *name = entry ? entry->name : ar.name ? ar.name : "function";
	if (entry && is_module(L, 1))
		lua_pushfstring(L, "'%s' was called with a colon: write tc.%s(...), with a dot",
				name, name);
	else if (strcmp(ar.namewhat, "method") == 0 && --arg == 0)
		lua_pushfstring(L, "calling '%s' on bad self (%s)", name, text);
	else
		lua_pushfstring(L, "bad argument #%d to '%s' (%s)", arg, name, text);
	return raise_here(L);
}

int tc_raise(lua_State *L, struct err *e)
{
	switch (e->kind) {
	default:
		lua_pushstring(L, e->text);
		break;
	case ERR_MEMORY:
		lua_pushfstring(L, "not enough memory%s%s", e->text[0] ? ": " : "", e->text);
		break;
	case ERR_INTERNAL:
		if (strncmp(e->text, "internal error", 14) == 0)
			lua_pushstring(L, e->text);
		else
			lua_pushfstring(L, "internal error: %s", e->text);
		break;
	}
	return raise_at(L, &e->pos);
}

void tc_call(lua_State *L, struct err *e, void (*fn)(void *), void *arg)
{
	tc_position(L, &e->pos);
	if (!tc_protect(e, fn, arg))
		tc_raise(L, e);
}

struct documented {
	struct err e;
	enum tc_error id;
	const char *const *text;
};

static void fail_documented(void *arg)
{
	struct documented *d = arg;

	tc_fail_documented(&d->e, d->id, d->text);
}

int tc_raise_documented(lua_State *L, enum tc_error id, const char *const *text)
{
	struct documented d = {.id = id, .text = text};

	tc_call(L, &d.e, fail_documented, &d);
	return 0;
}

int tc_failure(lua_State *L, const char *code, const char *fmt, ...)
{
	va_list ap;
	lua_pushnil(L);
	va_start(ap, fmt);
	push_vformat(L, fmt, ap);
	va_end(ap);
	lua_pushstring(L, code);
	return 3;
}

/* ---- objects -------------------------------------------------------------------- */

void *tc_new_object(lua_State *L, const char *name, size_t size, int uservalues)
{
	void *object = lua_newuserdatauv(L, size, uservalues);
	memset(object, 0, size);
	luaL_setmetatable(L, name);
	return object;
}

/*
 * luaL_testudata, which every call makes several times, without the search for the name: where the
 * text of the name lies is a key of the registry too.
 */
void *tc_test_object(lua_State *L, int arg, const char *name)
{
	void *object = lua_touserdata(L, arg);

	if (!object || !lua_getmetatable(L, arg))
		return NULL;
	const void *metatable = lua_topointer(L, -1);
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, name) == LUA_TNIL) {
		lua_pop(L, 1);
		if (luaL_getmetatable(L, name) == LUA_TTABLE) {
			lua_pushvalue(L, -1);
			lua_rawsetp(L, LUA_REGISTRYINDEX, name);
		}
	}
	const void *wanted = lua_topointer(L, -1);
	lua_pop(L, 2);
	return metatable == wanted ? object : NULL;
}

/* The name of the running function if it is a method of that class. */
static const char *running_method(lua_State *L, const char *class_name)
{
	lua_Debug ar;
	const char *owner = NULL;
	const struct tc_function *entry = NULL;

	if (!lua_getstack(L, 0, &ar))
		return NULL;
	lua_getinfo(L, "f", &ar);
	if (lua_iscfunction(L, -1))
		entry = tc_find_function(L, lua_tocfunction(L, -1), &owner);
	lua_pop(L, 1);
	return entry && strcmp(owner, class_name) == 0 ? entry->name : NULL;
}

void *tc_check_object(lua_State *L, int arg, const char *name)
{
	void *object = tc_test_object(L, arg, name);
	if (object)
		return object;
	const char *method = arg == 1 ? running_method(L, name) : NULL;
	const char *got = tc_describe(L, arg);
	const char *noun = strchr(name, '.') ? strchr(name, '.') + 1 : name;
	if (method)
		tc_error(L, "calling '%s' on bad self (%s expected, got %s); call it as %s:%s(...)",
			 method, name, got, noun, method);
	tc_argerror(L, arg, "%s expected, got %s", name, got);
	return NULL;
}

static const char *describe_object(lua_State *L, int index)
{
	const char *text = luaL_tolstring(L, index, NULL);
	if (luaL_getmetafield(L, index, "__name") != LUA_TSTRING)
		return text;
	/* The name of a class may say more, in brackets. */
	size_t n = strcspn(lua_tostring(L, -1), " ");
	const char *name = lua_pushlstring(L, lua_tostring(L, -1), n);
	if (strncmp(text, name, n) == 0 && text[n] == ' ')
		lua_pushfstring(L, "%s (%s)", name, text + n + 1);
	else if (strncmp(text, name, n) == 0)
		lua_pushstring(L, name);
	else
		lua_pushfstring(L, "%s (%s)", name, text);
	return lua_tostring(L, -1);
}

/* The text stays on the stack. */
const char *tc_describe(lua_State *L, int index)
{
	luaL_checkstack(L, 6, "for a description");
	index = lua_absindex(L, index);
	switch (lua_type(L, index)) {
	case LUA_TNUMBER:
		lua_pushvalue(L, index);
		return lua_pushfstring(L, "%s %s", lua_isinteger(L, index) ? "integer" : "number",
				       lua_tostring(L, -1));
	case LUA_TSTRING: {
		size_t length;
		const char *s = lua_tolstring(L, index, &length);
		if (strlen(s) < length && length <= 40)
			return lua_pushfstring(L, "string \"%s\\0...\", which has a zero byte", s);
		if (length <= 40)
			return lua_pushfstring(L, "string \"%s\"", s);
		lua_pushlstring(L, s, 37);
		return lua_pushfstring(L, "string \"%s...\"", lua_tostring(L, -1));
	}
	case LUA_TBOOLEAN:
		return lua_pushfstring(L, "boolean %s", lua_toboolean(L, index) ? "true" : "false");
	case LUA_TUSERDATA:
		return describe_object(L, index);
	default:
		return lua_pushstring(L, luaL_typename(L, index));
	}
}

/* ---- fields of a table -------------------------------------------------------------- */

void tc_set_integer(lua_State *L, const char *name, int64_t value)
{
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

void tc_set_number(lua_State *L, const char *name, double value)
{
	lua_pushnumber(L, value);
	lua_setfield(L, -2, name);
}

void tc_set_string(lua_State *L, const char *name, const char *value)
{
	lua_pushstring(L, value);
	lua_setfield(L, -2, name);
}

/* ---- arguments and options --------------------------------------------------------- */

bool tc_is_text(lua_State *L, int index)
{
	return lua_type(L, index) == LUA_TSTRING &&
	       strlen(lua_tostring(L, index)) == lua_rawlen(L, index);
}

static int unknown_option(lua_State *L, int arg, const char *key, const char *const *names)
{
	return tc_argerror(L, arg, "unknown option '%s' (%s)", key,
			   tc_push_advice(L, key, names, "options"));
}

bool tc_options(lua_State *L, int arg, const char *const *names)
{
	if (lua_isnoneornil(L, arg))
		return false;
	if (!lua_istable(L, arg)) {
		tc_argerror(L, arg, "options table expected, got %s", tc_describe(L, arg));
		return false;
	}
	lua_pushnil(L);
	while (lua_next(L, arg)) {
		lua_pop(L, 1);
		if (lua_type(L, -1) != LUA_TSTRING)
			tc_argerror(L, arg, "names of options are strings, got %s",
				    tc_describe(L, -1));
		const char *key = lua_tostring(L, -1);
		const char *const *name = names;
		while (*name && strcmp(*name, key) != 0)
			name++;
		if (!*name)
			unknown_option(L, arg, key, names);
	}
	return true;
}

bool tc_option_push(lua_State *L, int arg, const char *name)
{
	if (!lua_istable(L, arg))
		return false;
	if (lua_getfield(L, arg, name) != LUA_TNIL)
		return true;
	lua_pop(L, 1);
	return false;
}

bool tc_option_boolean(lua_State *L, int arg, const char *name, bool standard)
{
	if (!tc_option_push(L, arg, name))
		return standard;
	if (!lua_isboolean(L, -1))
		tc_argerror(L, arg, "option '%s' must be a boolean, got %s", name,
			    tc_describe(L, -1));
	bool value = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return value;
}

static const char *push_range(lua_State *L, lua_Integer low, lua_Integer high)
{
	if (low == LUA_MININTEGER && high == LUA_MAXINTEGER)
		return lua_pushstring(L, "an integer");
	if (high == LUA_MAXINTEGER)
		return lua_pushfstring(L, "an integer >= %I", (LUAI_UACINT)low);
	if (low == LUA_MININTEGER)
		return lua_pushfstring(L, "an integer <= %I", (LUAI_UACINT)high);
	return lua_pushfstring(L, "an integer from %I to %I", (LUAI_UACINT)low, (LUAI_UACINT)high);
}

/* Strings that look like numbers do not count. */
static bool to_integer(lua_State *L, int index, lua_Integer low, lua_Integer high,
		       lua_Integer *value)
{
	int ok = 0;
	if (lua_type(L, index) == LUA_TNUMBER)
		*value = lua_tointegerx(L, index, &ok);
	return ok && *value >= low && *value <= high;
}

lua_Integer tc_option_integer(lua_State *L, int arg, const char *name, lua_Integer standard,
			      lua_Integer low, lua_Integer high)
{
	lua_Integer value = standard;
	if (!tc_option_push(L, arg, name))
		return standard;
	if (!to_integer(L, -1, low, high, &value)) {
		const char *got = tc_describe(L, -1);
		tc_argerror(L, arg, "option '%s' must be %s, got %s", name,
			    push_range(L, low, high), got);
	}
	lua_pop(L, 1);
	return value;
}

const char *tc_option_string(lua_State *L, int arg, const char *name, const char *standard)
{
	if (!tc_option_push(L, arg, name))
		return standard;
	if (!tc_is_text(L, -1))
		tc_argerror(L, arg, "option '%s' must be a string, got %s", name,
			    tc_describe(L, -1));
	const char *value = lua_tostring(L, -1);
	lua_pop(L, 1);
	return value;
}

const char *tc_push_words(lua_State *L, const char *const *words)
{
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	for (int i = 0; words[i]; i++) {
		luaL_addstring(&b, i ? ", \"" : "\"");
		luaL_addstring(&b, words[i]);
		luaL_addstring(&b, "\"");
	}
	luaL_pushresult(&b);
	return lua_tostring(L, -1);
}

const char *tc_option_word(lua_State *L, int arg, const char *name, const char *const *words)
{
	const char *word = tc_option_string(L, arg, name, NULL);

	if (!word)
		return NULL;
	for (int i = 0; words[i]; i++)
		if (!strcmp(word, words[i]))
			return words[i];
	tc_argerror(L, arg, "option '%s' must be one of %s, got \"%s\"", name,
		    tc_push_words(L, words), word);
	return NULL;
}

lua_Integer tc_check_integer(lua_State *L, int arg, lua_Integer low, lua_Integer high)
{
	lua_Integer value = 0;
	if (!to_integer(L, arg, low, high, &value)) {
		const char *got = tc_describe(L, arg);
		tc_argerror(L, arg, "%s expected, got %s", push_range(L, low, high), got);
	}
	return value;
}

/* The size on top of the stack, number i of `what`. */
static int64_t check_size(lua_State *L, int arg, const char *what, int i, int64_t low)
{
	lua_Integer size = 0;

	if (tc_test_object(L, -1, TC_SCALAR))
		tc_argerror(L, arg,
			    "size %d of %s must be an integer >= %lld, got %s; it is known only "
			    "when the kernel runs. Where a tile begins may be recorded: "
			    "ref:tile(index, shape), ref:at(tc.ds(start, size))",
			    i, what, (long long)low, tc_describe(L, -1));
	if (!to_integer(L, -1, low, LUA_MAXINTEGER, &size))
		tc_argerror(L, arg, "size %d of %s must be an integer >= %lld, got %s", i, what,
			    (long long)low, tc_describe(L, -1));
	if (size > TC_LARGEST_ARRAY)
		tc_argerror(L, arg, "size %d of %s must be at most 2^46, got %s", i, what,
			    tc_describe(L, -1));
	return size;
}

int tc_check_sizes(lua_State *L, int arg, const char *what, int64_t *size, int max_rank,
		   int64_t low)
{
	lua_Integer rank = luaL_len(L, -1);

	if (rank > max_rank)
		return tc_argerror(L, arg, "%s has %lld dimensions; at most %d", what,
				   (long long)rank, max_rank);
	for (int i = 0; i < rank; i++) {
		lua_geti(L, -1, i + 1);
		size[i] = check_size(L, arg, what, i + 1, low);
		lua_pop(L, 1);
	}
	return (int)rank;
}

int tc_check_shape(lua_State *L, int arg, int64_t *shape, int max_rank, int64_t low)
{
	int rank;

	if (!lua_istable(L, arg))
		return tc_argerror(L, arg, "shape expected, a table such as {128, 64}; got %s",
				   tc_describe(L, arg));
	if (luaL_len(L, arg) > max_rank)
		return tc_argerror(L, arg, "a shape of at most %d dimensions expected, got %lld",
				   max_rank, (long long)luaL_len(L, arg));
	lua_pushvalue(L, arg);
	rank = tc_check_sizes(L, arg, "the shape", shape, max_rank, low);
	lua_pop(L, 1);
	return rank;
}

/* Tables that show their values: tostring gives one line, which says how much it leaves out. */
#include "lua_tc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN "tcmma.shown"

enum {
	LONGEST = 200,       /* bytes of a line, but for brackets and how much there is */
	LONGEST_NESTED = 90, /* of a table in it */
	LONGEST_TEXT = 60,   /* of a string */
	DEEPEST = 4,         /* tables may hold each other */
	ROOM = 48            /* for what follows a line that is cut */
};

struct line {
	char text[LONGEST + DEEPEST * ROOM + LONGEST_TEXT + ROOM];
	size_t length;
};

static void add(struct line *line, const char *text, size_t n)
{
	size_t room = sizeof line->text - line->length;

	if (n > room)
		n = room;
	memcpy(line->text + line->length, text, n);
	line->length += n;
}

static void add_text(struct line *line, const char *text)
{
	add(line, text, strlen(text));
}

/* The first line of a text, cut between characters of UTF-8. */
static void add_start(struct line *line, const char *text, size_t longest)
{
	size_t whole = strcspn(text, "\r\n"), n = whole;

	if (n > longest) {
		n = longest;
		while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
			n--;
	}
	add(line, text, n);
	if (n < whole || text[whole])
		add_text(line, "...");
}

static int shown_tostring(lua_State *L);
static void add_table(lua_State *L, struct line *line, size_t limit, int depth);

static bool has_own_text(lua_State *L)
{
	if (luaL_getmetafield(L, -1, "__tostring") == LUA_TNIL)
		return false;
	bool own = lua_tocfunction(L, -1) != shown_tostring;
	lua_pop(L, 1);
	return own;
}

/* The value on top. */
static void add_value(lua_State *L, struct line *line, size_t limit, int depth)
{
	int type = lua_type(L, -1);

	if (type == LUA_TFUNCTION || type == LUA_TTHREAD || type == LUA_TLIGHTUSERDATA) {
		add_text(line, lua_typename(L, type));
	} else if (type == LUA_TTABLE && !has_own_text(L)) {
		add_table(L, line, limit, depth + 1);
	} else {
		add_start(line, luaL_tolstring(L, -1, NULL), LONGEST_TEXT);
		lua_pop(L, 1);
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * The names among the keys of the table on top, sorted.  Pushes a list that keeps them, whatever a
 * __tostring does to the table, and a userdata of pointers.
 */
static const char **push_names(lua_State *L, lua_Integer *count)
{
	int table = lua_gettop(L), list = table + 1;
	lua_Integer n = 0;

	lua_newtable(L);
	for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
		if (lua_type(L, -2) == LUA_TSTRING) {
			lua_pushvalue(L, -2);
			lua_rawseti(L, list, ++n);
		}
	}
	const char **names = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *names, 0);
	for (lua_Integer i = 0; i < n; i++, lua_pop(L, 1)) {
		lua_rawgeti(L, list, i + 1);
		names[i] = lua_tostring(L, -1);
	}
	qsort(names, (size_t)n, sizeof *names, by_name);
	*count = n;
	return names;
}

/* The table on top: what is in its list, then what has a name. */
static void add_table(lua_State *L, struct line *line, size_t limit, int depth)
{
	lua_Integer listed = (lua_Integer)lua_rawlen(L, -1), named;
	int table = lua_gettop(L);

	luaL_checkstack(L, 12, "for a nested table");
	const char **names = push_names(L, &named);
	if (limit > line->length + LONGEST_NESTED && depth > 0)
		limit = line->length + LONGEST_NESTED;
	add_text(line, "{");
	for (lua_Integer i = 0; i < listed + named; i++) {
		size_t before = line->length;

		add_text(line, i ? ", " : "");
		if (i < listed) {
			lua_rawgeti(L, table, i + 1);
		} else {
			add_start(line, names[i - listed], LONGEST_TEXT);
			add_text(line, " = ");
			lua_pushstring(L, names[i - listed]);
			lua_rawget(L, table);
		}
		if (depth < DEEPEST)
			add_value(L, line, limit, depth);
		lua_pop(L, 1);
		if (line->length > limit || depth == DEEPEST) {
			char rest[ROOM];

			line->length = before;
			snprintf(rest, sizeof rest, "%s... (%lld in all)", i ? ", " : "",
				 (long long)(listed + named));
			add_text(line, rest);
			break;
		}
	}
	add_text(line, "}");
	lua_settop(L, table);
}

static int shown_tostring(lua_State *L)
{
	struct line line = {.length = 0};

	if (!lua_istable(L, 1))
		return tc_argerror(L, 1, "table expected, got %s", tc_describe(L, 1));
	lua_settop(L, 1);
	add_table(L, &line, LONGEST, 0);
	lua_pushlstring(L, line.text, line.length);
	return 1;
}

void tc_set_shown(lua_State *L)
{
	if (luaL_newmetatable(L, SHOWN)) {
		lua_pushcfunction(L, shown_tostring);
		lua_setfield(L, -2, "__tostring");
	}
	lua_setmetatable(L, -2);
}

void tc_push_start(lua_State *L, const char *text, int longest)
{
	struct line line = {.length = 0};

	if (longest > (int)sizeof line.text - ROOM)
		longest = (int)sizeof line.text - ROOM;
	add_start(&line, text, (size_t)longest);
	lua_pushlstring(L, line.text, line.length);
}

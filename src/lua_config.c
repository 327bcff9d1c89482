/* tc.config and tc.versions. */
#include "lua_dev.h"

#include <stdlib.h>
#include <string.h>

static const char *const field_names[CONFIG_COUNT + 1] = {
#define CONFIG(id, ...) #id,
#include "config.def"
};

static const char *expected(enum config c)
{
	if (c == CONFIG_emulator_mode)
		return "\"fast\", \"check\" or \"random\"";
	switch (tc_config_infos[c].type) {
	case 'b':
		return "true or false";
	case 'i':
		return "an integer >= 0";
	default:
		return "a string";
	}
}

static int field(lua_State *L, int arg)
{
	const char *name =
		lua_type(L, arg) == LUA_TSTRING ? lua_tostring(L, arg) : tc_describe(L, arg);

	for (int c = 0; c < CONFIG_COUNT; c++)
		if (!strcmp(name, field_names[c]))
			return c;
	return tc_error(L, "tc.config has no field '%s' (%s)", name,
			tc_push_advice(L, name, field_names, "it has"));
}

static void push_field(lua_State *L, enum config c)
{
	const char *text = tc_config_string(c);

	if (tc_config_infos[c].type == 'b')
		lua_pushboolean(L, tc_config_boolean(c));
	else if (tc_config_infos[c].type == 'i')
		lua_pushinteger(L, (lua_Integer)tc_config_integer(c));
	else
		lua_pushstring(L, text);
}

static int config_index(lua_State *L)
{
	push_field(L, (enum config)field(L, 2));
	return 1;
}

static const char *as_text(lua_State *L, int arg, enum config c)
{
	switch (tc_config_infos[c].type) {
	case 'b':
		return lua_isboolean(L, arg) ? lua_toboolean(L, arg) ? "1" : "0" : NULL;
	case 'i':
		return lua_isinteger(L, arg)
			       ? lua_pushfstring(L, "%I", (LUAI_UACINT)lua_tointeger(L, arg))
			       : NULL;
	default:
		return lua_type(L, arg) == LUA_TSTRING ? lua_tostring(L, arg) : NULL;
	}
}

static int config_newindex(lua_State *L)
{
	enum config c = (enum config)field(L, 2);
	const char *text = NULL;

	if (!lua_isnil(L, 3)) {
		text = as_text(L, 3, c);
		if (!text || !tc_config_set(c, text))
			return tc_error(L,
					"tc.config.%s must be %s, or nil for the default; got %s",
					field_names[c], expected(c), tc_describe(L, 3));
		return 0;
	}
	tc_config_set(c, NULL);
	return 0;
}

static int config_next(lua_State *L)
{
	int c = 0;

	if (!lua_isnil(L, 2))
		c = field(L, 2) + 1;
	for (; c < CONFIG_COUNT; c++) {
		lua_pushstring(L, field_names[c]);
		push_field(L, (enum config)c);
		if (!lua_isnil(L, -1))
			return 2;
		lua_pop(L, 2);
	}
	return 0;
}

static int config_pairs(lua_State *L)
{
	lua_pushcfunction(L, config_next);
	lua_pushvalue(L, 1);
	lua_pushnil(L);
	return 3;
}

/* "tcmma.config (device = emulator, cache = true ...)": what is set. */
static int config_tostring(lua_State *L)
{
	luaL_Buffer b;
	const char *between = " (";

	luaL_buffinit(L, &b);
	luaL_addstring(&b, "tcmma.config");
	for (int c = 0; c < CONFIG_COUNT; c++) {
		push_field(L, (enum config)c);
		if (lua_isnil(L, -1)) {
			lua_pop(L, 1);
			continue;
		}
		lua_pushfstring(L, "%s%s = %s", between, field_names[c],
				luaL_tolstring(L, -1, NULL));
		lua_replace(L, -3);
		lua_pop(L, 1);
		luaL_addvalue(&b);
		between = ", ";
	}
	luaL_addstring(&b, ")");
	luaL_pushresult(&b);
	return 1;
}

/* A variable that is set to nonsense is a mistake of the user's, not a reason to guess. */
static void refuse_bad_variables(lua_State *L)
{
	for (int c = 0; c < CONFIG_COUNT; c++) {
		const char *text = getenv(tc_config_infos[c].variable);
		if (text && *text && !tc_config_acceptable((enum config)c, text))
			tc_error(L, "the environment variable %s must be %s, got '%s'",
				 tc_config_infos[c].variable, expected((enum config)c), text);
	}
}

static int versions(lua_State *L)
{
	int driver = tc_driver_version();

	lua_createtable(L, 0, 5);
	lua_getglobal(L, "_VERSION");
	lua_setfield(L, -2, "lua");
	if (driver)
		lua_pushfstring(L, "%d.%d", driver / 1000, driver % 1000 / 10);
	else
		lua_pushnil(L);
	lua_setfield(L, -2, "driver");
	tc_set_string(L, "nvjitlink", tc_assembler_version());
	tc_set_string(L, "nvrtc", tc_nvrtc_version());
	tc_set_shown(L);
	return 1;
}

static int settings(lua_State *L)
{
	lua_createtable(L, CONFIG_COUNT, 0);
	for (int c = 0; c < CONFIG_COUNT; c++) {
		const struct config_info *info = &tc_config_infos[c];
		lua_createtable(L, 0, 4);
		tc_set_string(L, "field", info->name);
		tc_set_string(L, "variable", info->variable);
		tc_set_string(L, "default", info->standard);
		tc_set_string(L, "doc", info->doc);
		tc_set_shown(L);
		lua_rawseti(L, -2, c + 1);
	}
	tc_set_shown(L);
	return 1;
}

static const struct tc_function functions[] = {
	{"versions", versions,
	 "versions() -> table\n"
	 "The versions of what tcmma runs on: `lua`, `driver` (the CUDA version that the driver "
	 "offers), "
	 "`nvjitlink`, `nvrtc`. A field is nil where the library is missing."},
	{"settings", settings,
	 "settings() -> table[]\n"
	 "Every field of `tc.config` in order, as tables `{field=, variable=, default=, doc=}`; "
	 "`variable` is "
	 "the environment variable that is read at `require`."},
	{NULL, NULL, NULL}};

void tc_open_config(lua_State *L)
{
	refuse_bad_variables(L);
	tc_functions(L, "tcmma", functions);
	lua_newtable(L);
	lua_createtable(L, 0, 4);
	lua_pushcfunction(L, config_index);
	lua_setfield(L, -2, "__index");
	lua_pushcfunction(L, config_newindex);
	lua_setfield(L, -2, "__newindex");
	lua_pushcfunction(L, config_pairs);
	lua_setfield(L, -2, "__pairs");
	lua_pushcfunction(L, config_tostring);
	lua_setfield(L, -2, "__tostring");
	lua_pushliteral(L, "tcmma.config");
	lua_setfield(L, -2, "__name");
	lua_setmetatable(L, -2);
	lua_setfield(L, -2, "config");
}

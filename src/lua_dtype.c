/*
 * Element types and memory spaces as Lua objects.
 *
 * There is one object of each per state, so that == is identity.
 */
#include "lua_tc.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define DTYPES "tcmma.dtypes" /* registry: objects by enum value + 1 */
#define SPACES "tcmma.spaces"

struct dtype_object {
	enum dtype dtype;
};

struct space_object {
	enum space space;
};

static const char *const space_names[] = {
	[SP_GMEM] = "GMEM", [SP_SMEM] = "SMEM", [SP_TMEM] = "TMEM"};
#define SPACE_COUNT ((int)(sizeof space_names / sizeof *space_names))

/* ---- arguments ------------------------------------------------------------------ */

static void push_from_registry(lua_State *L, const char *table, int number)
{
	lua_getfield(L, LUA_REGISTRYINDEX, table);
	lua_rawgeti(L, -1, number + 1);
	lua_remove(L, -2);
}

void tc_push_dtype(lua_State *L, enum dtype t)
{
	push_from_registry(L, DTYPES, (int)t);
}

void tc_push_space(lua_State *L, enum space s)
{
	push_from_registry(L, SPACES, (int)s);
}

/* The dtype at an index; -1 and a message on the stack if it is none. */
static int to_dtype(lua_State *L, int index)
{
	struct dtype_object *object = tc_test_object(L, index, TC_DTYPE);
	if (object)
		return (int)object->dtype;
	if (!tc_is_text(L, index)) {
		lua_pushfstring(L, "dtype expected, tc.float16 or \"f16\" for instance; got %s",
				tc_describe(L, index));
		return -1;
	}
	const char *name = lua_tostring(L, index);
	int t = tc_dtype_find(name);
	if (t < 0) {
		const char *near = tc_dtype_nearest(name);
		if (near)
			lua_pushfstring(L, "unknown dtype '%s' (did you mean '%s'?)", name, near);
		else
			lua_pushfstring(L, "unknown dtype '%s'; tc.dtypes() lists them", name);
	}
	return t;
}

enum dtype tc_check_dtype(lua_State *L, int arg)
{
	int t = to_dtype(L, arg);
	if (t < 0)
		tc_argerror(L, arg, "%s", lua_tostring(L, -1));
	return (enum dtype)t;
}

enum space tc_check_space(lua_State *L, int arg)
{
	struct space_object *object = tc_test_object(L, arg, TC_SPACE);
	if (object)
		return object->space;
	if (lua_type(L, arg) == LUA_TSTRING)
		for (int s = 0; s < SPACE_COUNT; s++)
			if (strcasecmp(lua_tostring(L, arg), space_names[s]) == 0)
				return (enum space)s;
	tc_argerror(L, arg, "memory space expected: tc.GMEM, tc.SMEM or tc.TMEM; got %s",
		    tc_describe(L, arg));
	return SP_GMEM;
}

/* ---- dtype ----------------------------------------------------------------------- */

static enum dtype check_self(lua_State *L)
{
	return ((struct dtype_object *)tc_check_object(L, 1, TC_DTYPE))->dtype;
}

static double largest(enum dtype t)
{
	const struct dtype_info *d = &tc_dtypes[t];
	if (t == DT_F64)
		return 0x1.fffffffffffffp1023;
	if (t == DT_F32)
		return 0x1.fffffep127;
	if (d->klass == 'F') {
		/* The largest code that is a finite number. */
		uint64_t code = UINT64_C(1) << (t == DT_E8M0 ? 8 : d->bits - 1);
		double x;
		do
			x = tc_to_double(t, code -= t == DT_TF32 ? 1u << 13 : 1u);
		while (!isfinite(x));
		return x;
	}
	return d->klass == 'B' ? 1 : ldexp(1.0, d->bits - (d->klass == 'I')) - 1;
}

static void push_limit(lua_State *L, enum dtype t, bool lower)
{
	const struct dtype_info *d = &tc_dtypes[t];
	int64_t value;
	if (d->klass == 'F') {
		double x = largest(t);
		lua_pushnumber(L, !lower ? x : t == DT_E8M0 ? tc_to_double(t, 0) : -x);
		return;
	}
	if (d->klass == 'I')
		tc_to_integer(t, UINT64_C(1) << (d->bits - 1), &value);
	else
		value = 0;
	if (!lower)
		value = d->klass == 'I' ? -(value + 1)
					: (int64_t)(d->klass == 'B' ? 1
						    : d->bits == 64 ? UINT64_MAX
								    : (UINT64_C(1) << d->bits) - 1);
	lua_pushinteger(L, value);
}

/* Name of the type in a file format, nil where it has none. */
static void push_code(lua_State *L, const char *code)
{
	if (code[0])
		lua_pushstring(L, code);
	else
		lua_pushnil(L);
}

static int dtype_field(lua_State *L)
{
	enum dtype t = check_self(L);
	const struct dtype_info *d = &tc_dtypes[t];
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (strcmp(key, "name") == 0)
		lua_pushstring(L, d->name);
	else if (strcmp(key, "short") == 0)
		lua_pushstring(L, d->shortname);
	else if (strcmp(key, "bits") == 0)
		lua_pushinteger(L, d->bits);
	else if (strcmp(key, "kind") == 0)
		lua_pushstring(L, d->klass == 'F'   ? "float"
				  : d->klass == 'I' ? "int"
				  : d->klass == 'U' ? "uint"
						    : "bool");
	else if (strcmp(key, "npy") == 0)
		push_code(L, d->npy);
	else if (strcmp(key, "safetensors") == 0)
		push_code(L, d->safetensors);
	else if (strcmp(key, "max") == 0)
		push_limit(L, t, false);
	else if (strcmp(key, "min") == 0)
		push_limit(L, t, true);
	else
		return 0;
	return 1;
}

static int dtype_tostring(lua_State *L)
{
	lua_pushstring(L, tc_dtypes[check_self(L)].name);
	return 1;
}

static int dtype_concat(lua_State *L)
{
	luaL_tolstring(L, 1, NULL);
	luaL_tolstring(L, 2, NULL);
	lua_concat(L, 2);
	return 1;
}

static int dtype_encode(lua_State *L)
{
	enum dtype t = check_self(L);
	uint64_t bits;
	if (lua_type(L, 2) != LUA_TNUMBER)
		return tc_argerror(L, 2, "number expected, got %s", tc_describe(L, 2));
	if (lua_isinteger(L, 2))
		bits = tc_from_integer(t, lua_tointeger(L, 2));
	else
		bits = tc_from_double(t, lua_tonumber(L, 2));
	lua_pushinteger(L, (lua_Integer)bits);
	return 1;
}

static int dtype_decode(lua_State *L)
{
	enum dtype t = check_self(L);
	int bits = tc_dtypes[t].bits;
	lua_Integer highest = bits == 64 ? LUA_MAXINTEGER : (INT64_C(1) << bits) - 1;
	lua_Integer code = tc_check_integer(L, 2, bits == 64 ? LUA_MININTEGER : 0, highest);
	int64_t value;
	if (tc_dtypes[t].klass == 'F')
		lua_pushnumber(L, tc_to_double(t, (uint64_t)code));
	else if (tc_to_integer(t, (uint64_t)code, &value))
		lua_pushinteger(L, value);
	else
		lua_pushinteger(L, code);
	return 1;
}

static const struct tc_function dtype_methods[] = {
	{"encode", dtype_encode,
	 "encode(x: number) -> integer\n"
	 "The bits of `x` as an element of this type. Rounds once, to nearest even.\n\n"
	 "- `float16`, `bfloat16`, `tfloat32`, `float32` overflow to infinity; NaN becomes the\n"
	 "  canonical NaN of `cvt` (`0x7fff`; `0x7fffffff` in f32, `0x7fffe000` in tf32).\n"
	 "- fp8, fp6 and fp4 saturate, infinity too, as `cvt.rn.satfinite` does. NaN becomes "
	 "`0x7f` in\n"
	 "  `e4m3` and `e5m2`, and the largest value in the types that have no NaN.\n"
	 "- `float8_e8m0fnu` rounds up to a power of two, as `cvt.rp.satfinite` does; zero and\n"
	 "  negative numbers become 2^-127, NaN `0xff`.\n"
	 "- Integers saturate; NaN becomes 0. `bool` is 1 for everything but zero."},
	{"decode", dtype_decode,
	 "decode(bits: integer) -> number\n"
	 "The value of an element with these bits. A `uint64` above `math.maxinteger` comes back "
	 "as\n"
	 "the negative integer with the same bits."},
	{NULL, NULL, NULL},
};

static const luaL_Reg dtype_meta[] = {
	{"__tostring", dtype_tostring},
	{"__concat", dtype_concat},
	{NULL, NULL},
};

static const char dtype_doc[] =
	"tcmma.dtype\n"
	"The type of an element. `tc.float16`, `tc.f16`, `\"float16\"` and `\"f16\"` mean the same "
	"wherever\n"
	"a dtype is expected; there is one object of each type, so `==` compares them. `tostring` "
	"gives\n"
	"the long name.\n\n"
	"---@field name string Long name, `\"float16\"`.\n"
	"---@field short string Short name, `\"f16\"`.\n"
	"---@field bits integer Bits an element, in memory.\n"
	"---@field kind string `\"float\"`, `\"int\"`, `\"uint\"` or `\"bool\"`.\n"
	"---@field max number Largest finite value.\n"
	"---@field min number Smallest finite value: most negative, but 2^-127 in "
	"`float8_e8m0fnu`.\n";

/* ---- space ------------------------------------------------------------------------ */

static enum space check_space_self(lua_State *L)
{
	return ((struct space_object *)tc_check_object(L, 1, TC_SPACE))->space;
}

static int space_tostring(lua_State *L)
{
	lua_pushstring(L, space_names[check_space_self(L)]);
	return 1;
}

static const luaL_Reg space_meta[] = {
	{"__tostring", space_tostring},
	{"__concat", dtype_concat},
	{NULL, NULL},
};

static const char space_doc[] = "tcmma.space\n"
				"A memory space: `tc.GMEM` (global), `tc.SMEM` (shared) or "
				"`tc.TMEM` (tensor memory). The names\n"
				"as strings mean the same.";

/* ---- module ------------------------------------------------------------------------ */

static int module_dtype(lua_State *L)
{
	tc_push_dtype(L, tc_check_dtype(L, 1));
	return 1;
}

static int module_dtypes(lua_State *L)
{
	lua_createtable(L, DT_COUNT, 0);
	for (int t = 0; t < DT_COUNT; t++) {
		tc_push_dtype(L, (enum dtype)t);
		lua_rawseti(L, -2, t + 1);
	}
	tc_set_shown(L);
	return 1;
}

static const struct tc_function module_functions[] = {
	{"dtype", module_dtype,
	 "dtype(name: DType) -> tcmma.dtype\n"
	 "The dtype object of a name, long or short; `s8`, `s16`, `s32`, `s64` are PTX's names of "
	 "the "
	 "signed integers."},
	{"dtypes", module_dtypes,
	 "dtypes() -> tcmma.dtype[]\n"
	 "All element types."},
	{NULL, NULL, NULL},
};

void tc_open_dtype(lua_State *L)
{
	tc_class(L, TC_DTYPE, dtype_doc, dtype_methods, dtype_meta, dtype_field);
	tc_class(L, TC_SPACE, space_doc, NULL, space_meta, NULL);

	bool first = !luaL_getsubtable(L, LUA_REGISTRYINDEX, DTYPES);
	for (int t = 0; t < DT_COUNT && first; t++) {
		struct dtype_object *object = tc_new_object(L, TC_DTYPE, sizeof *object, 0);
		object->dtype = (enum dtype)t;
		lua_rawseti(L, -2, t + 1);
	}
	for (int t = 0; t < DT_COUNT; t++) {
		lua_rawgeti(L, -1, t + 1);
		lua_pushvalue(L, -1);
		lua_setfield(L, -4, tc_dtypes[t].name);
		if (tc_dtype_alias(t)) {
			lua_pushvalue(L, -1);
			lua_setfield(L, -4, tc_dtype_alias(t));
		}
		lua_setfield(L, -3, tc_dtypes[t].shortname);
	}
	lua_pop(L, 1);

	first = !luaL_getsubtable(L, LUA_REGISTRYINDEX, SPACES);
	for (int s = 0; s < SPACE_COUNT && first; s++) {
		struct space_object *object = tc_new_object(L, TC_SPACE, sizeof *object, 0);
		object->space = (enum space)s;
		lua_rawseti(L, -2, s + 1);
	}
	for (int s = 0; s < SPACE_COUNT; s++) {
		lua_rawgeti(L, -1, s + 1);
		lua_setfield(L, -3, space_names[s]);
	}
	lua_pop(L, 1);
	tc_functions(L, "tcmma", module_functions);
}

/* tc.tensormap: the arguments of cuTensorMapEncodeTiled, or Im2col, from a table. */
#include "lua_dev.h"

#include <stdio.h>
#include <string.h>

/* Words for the driver's enumerators, in their order. */
static const char *const types[] = {
	"u8",       "u16",          "u32",           "s32",           "u64",     "s64",
	"f16",      "f32",          "f64",           "bf16",          "f32_ftz", "tf32",
	"tf32_ftz", "16u4_align8b", "16u4_align16b", "16u6_align16b", NULL};
static const char *const swizzles[] = {
	"none",          "32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B",
	"128B_atom_64B", NULL};
static const char *const interleaves[] = {"none", "16B", "32B", NULL};
static const char *const promotions[] = {"none", "64B", "128B", "256B", NULL};
static const char *const fills[] = {"zeros", "nan", NULL};

struct refusal {
	struct err e;
	enum tc_error id;
	const char *more, *got;
};

static void refuse(void *arg)
{
	struct refusal *r = arg;

	tc_fail_documented(&r->e, r->id, (const char *const[]){r->more, r->got, NULL});
}

/* What the driver would refuse with a number is refused with the documented text. */
static void documented(lua_State *L, enum tc_error id, const char *more, const char *got)
{
	struct refusal r = {.id = id, .more = more, .got = got};

	tc_call(L, &r.e, refuse, &r);
}

static int bad_word(lua_State *L, const char *name, const char *const *words)
{
	const char *list = tc_push_words(L, words);

	lua_getfield(L, 2, name);
	if (words == swizzles || words == types) {
		const char *got = luaL_tolstring(L, -1, NULL);
		const char *more =
			lua_pushfstring(L, "\n  option '%s' must be one of %s", name, list);

		documented(L, words == types ? ERROR_MAP_DTYPE : ERROR_MAP_SWIZZLE, more, got);
	}
	return tc_argerror(L, 2, "option '%s' must be one of %s; got %s", name, list,
			   tc_describe(L, -1));
}

/* The number of a word; the number of bytes, as 128 for "128B", will do too. */
static int word_option(lua_State *L, const char *name, const char *const *words, int standard)
{
	char text[16];

	if (!tc_option_push(L, 2, name))
		return standard;
	const char *word = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
	if (lua_isinteger(L, -1)) {
		lua_Integer n = lua_tointeger(L, -1);
		snprintf(text, sizeof text, n ? "%dB" : "none", (int)n);
		word = n >= 0 && n <= 256 ? text : NULL;
	}
	for (int i = 0; word && words[i]; i++) {
		if (!strcmp(word, words[i])) {
			lua_pop(L, 1);
			return i;
		}
	}
	return bad_word(L, name, words);
}

/* A list of integers in [low, high]; its length, 0 where the option is absent. */
static int list_option(lua_State *L, const char *name, uint64_t *out, int max, lua_Integer high)
{
	if (!tc_option_push(L, 2, name))
		return 0;
	if (!lua_istable(L, -1))
		return tc_argerror(L, 2, "option '%s' must be a list, innermost first; got %s",
				   name, tc_describe(L, -1));
	lua_Integer n = luaL_len(L, -1);
	if (strcmp(name, "dims") == 0 && (n < 1 || n > max))
		documented(L, ERROR_MAP_RANK, "", lua_pushfstring(L, "%I", (LUAI_UACINT)n));
	if (n < 1 || n > max)
		return tc_argerror(L, 2, "option '%s' must have 1 to %d entries, got %d", name, max,
				   (int)n);
	for (int i = 0; i < n; i++) {
		int ok = 0;
		lua_geti(L, -1, i + 1);
		lua_Integer v = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &ok) : 0;
		if (!ok || v < 0 || v > high)
			tc_argerror(
				L, 2,
				"option '%s': entry %d must be an integer from 0 to %lld, got %s",
				name, i + 1, (long long)high, tc_describe(L, -1));
		out[i] = (uint64_t)v;
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	return (int)n;
}

static int bits_of(int type)
{
	static const int bits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};

	return bits[type];
}

static void need(lua_State *L, const char *name, int got, int wanted)
{
	if (got != wanted)
		tc_argerror(L, 2, "option '%s' must have %d entr%s, one a dimension; got %d", name,
			    wanted, wanted == 1 ? "y" : "ies", got);
}

/* Corner coordinates: `count` integers of either sign. */
static void read_corners(lua_State *L, int table, const char *name, int count, int *out)
{
	int type = lua_getfield(L, table, name);

	if (type != LUA_TTABLE || luaL_len(L, -1) != count)
		tc_argerror(L, 2, "option 'im2col': '%s' must be a list of %d integer%s, got %s",
			    name, count, count == 1 ? "" : "s", tc_describe(L, -1));
	for (int i = 0; i < count; i++) {
		int ok = 0;
		lua_geti(L, -1, i + 1);
		lua_Integer v = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &ok) : 0;
		if (!ok || v < -32768 || v > 32767)
			tc_argerror(L, 2,
				    "option 'im2col': entry %d of '%s' must be an integer from "
				    "-32768 to 32767, got %s",
				    i + 1, name, tc_describe(L, -1));
		out[i] = (int)v;
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
}

static uint32_t read_count(lua_State *L, int table, const char *name, lua_Integer high)
{
	int ok;

	lua_getfield(L, table, name);
	lua_Integer v = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &ok) : 0;
	if (v < 1 || v > high)
		tc_argerror(L, 2, "option 'im2col': '%s' must be an integer from 1 to %d, got %s",
			    name, (int)high, tc_describe(L, -1));
	lua_pop(L, 1);
	return (uint32_t)v;
}

/* The option im2col: a table of corners, channels and pixels. */
static void read_im2col(lua_State *L, struct tensormap *m)
{
	static const char *const names[] = {"lower", "upper", "channels", "pixels", "mode", NULL};
	static const char *const modes[] = {"all", "w", "w128", NULL};
	int table;

	if (!tc_option_push(L, 2, "im2col"))
		return;
	table = lua_gettop(L);
	if (!lua_istable(L, table))
		tc_argerror(L, 2, "option 'im2col' must be a table, got %s", tc_describe(L, table));
	for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
		int i = 0;
		const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
		while (names[i] && strcmp(names[i], key))
			i++;
		if (!names[i])
			tc_argerror(L, 2,
				    "option 'im2col' takes lower, upper, channels, pixels and "
				    "mode, not %s",
				    tc_describe(L, -2));
	}
	lua_getfield(L, table, "mode");
	const char *mode = lua_isnil(L, -1)                 ? modes[0]
			   : lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1)
							    : "";
	m->mode = MAP_IM2COL;
	while (modes[m->mode - MAP_IM2COL] && strcmp(modes[m->mode - MAP_IM2COL], mode))
		m->mode++;
	if (!modes[m->mode - MAP_IM2COL])
		tc_argerror(L, 2,
			    "option 'im2col': 'mode' must be \"all\", \"w\" or \"w128\", got %s",
			    tc_describe(L, -1));
	lua_pop(L, 1);
	if (m->rank < 3)
		tc_argerror(L, 2, "option 'im2col' needs 3 to 5 dimensions, got %d", m->rank);
	read_corners(L, table, "lower", m->mode == MAP_IM2COL ? m->rank - 2 : 1, m->lower);
	read_corners(L, table, "upper", m->mode == MAP_IM2COL ? m->rank - 2 : 1, m->upper);
	m->channels = read_count(L, table, "channels", 256);
	if (m->mode != MAP_IM2COL_W128)
		m->pixels = read_count(L, table, "pixels", 1024);
	lua_pop(L, 1);
}

/* Of dimension 0, which in an interleaved layout counts slices of 16 or 32 bytes. */
static uint64_t row_bytes(const struct tensormap *m)
{
	if (m->interleave)
		return m->dims[0] * (uint64_t)m->interleave * 16;
	return m->dims[0] * (uint64_t)bits_of(m->type) / 8;
}

static void read_dims(lua_State *L, struct tensormap *m, const struct array *a)
{
	uint64_t strides[5], steps[5], box[5];
	int n;

	m->rank = list_option(L, "dims", m->dims, 5, INT64_C(1) << 33);
	if (!m->rank) {
		if (a->rank < 1 || a->rank > 5)
			tc_argerror(L, 1, "an array of rank %d needs the option 'dims'", a->rank);
		m->rank = a->rank;
		for (int i = 0; i < a->rank; i++)
			m->dims[i] = (uint64_t)a->shape[a->rank - 1 - i];
		m->dims[0] /= (uint64_t)tc_tma_unit(a->dtype);
	}
	n = list_option(L, "strides", strides, 5, LUA_MAXINTEGER);
	if (n)
		need(L, "strides", n, m->rank - 1);
	uint64_t bytes = row_bytes(m);
	for (int i = 0; i + 1 < m->rank; i++) {
		m->strides[i] = n ? strides[i] : bytes;
		if (!n && __builtin_mul_overflow(bytes, m->dims[i + 1], &bytes))
			tc_argerror(L, 2, "option 'dims': the sizes are too large");
	}
	n = list_option(L, "box", box, 5, INT32_MAX);
	read_im2col(L, m);
	if (n && m->mode != MAP_TILED)
		tc_argerror(L, 2, "the options 'box' and 'im2col' exclude each other");
	if (!n && m->mode == MAP_TILED)
		tc_argerror(L, 2, "option 'box' is needed: the size of the tile, innermost first");
	if (n)
		need(L, "box", n, m->rank);
	for (int i = 0; !n && i < m->rank; i++)
		box[i] = 0;
	n = list_option(L, "element_strides", steps, 5, INT32_MAX);
	if (n)
		need(L, "element_strides", n, m->rank);
	for (int i = 0; i < m->rank; i++) {
		m->box[i] = (uint32_t)box[i];
		m->element_strides[i] = n ? (uint32_t)steps[i] : 1;
	}
}

/* The last byte that the map describes must lie in the array. */
static void check_extent(lua_State *L, const struct tensormap *m, const struct array *a)
{
	uint64_t last = row_bytes(m);
	bool overflow = m->dims[0] > UINT64_C(1) << 40;

	for (int i = 0; i + 1 < m->rank && !overflow; i++) {
		uint64_t step;
		overflow = m->dims[i + 1] == 0 ||
			   __builtin_mul_overflow(m->dims[i + 1] - 1, m->strides[i], &step) ||
			   __builtin_add_overflow(last, step, &last);
	}
	if (overflow || last > (uint64_t)a->bytes)
		tc_argerror(L, 2, "the map describes %s%llu bytes, the array %s has %lld",
			    overflow ? "more than " : "", (unsigned long long)last,
			    tc_array_text(L, a), (long long)a->bytes);
}

struct check {
	struct err e;
	const struct tensormap *map;
};

static void check_map(void *arg)
{
	struct check *c = arg;

	tc_check_tensormap(&c->e, c->map);
}

static int tensormap(lua_State *L)
{
	static const char *const names[] = {"dims",    "strides",    "box", "element_strides",
					    "swizzle", "interleave", "l2",  "oob",
					    "dtype",   "im2col",     NULL};
	struct array *a = tc_check_array(L, 1);
	struct check c = {0};

	lua_settop(L, 2);
	if (!tc_options(L, 2, names))
		return tc_argerror(L, 2, "options table expected, with at least 'box'; got %s",
				   tc_describe(L, 2));
	struct lua_tensormap *t = tc_new_object(L, TC_TENSORMAP, sizeof *t, 1);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, 1);
	t->map.address = a->address;
	t->map.type = word_option(L, "dtype", types, tc_dtypes[a->dtype].tma);
	t->map.interleave = word_option(L, "interleave", interleaves, 0);
	read_dims(L, &t->map, a);
	t->map.swizzle = word_option(L, "swizzle", swizzles, 0);
	t->map.l2_promotion = word_option(L, "l2", promotions, 0);
	t->map.oob_fill = word_option(L, "oob", fills, 0);
	c.map = &t->map;
	tc_call(L, &c.e, check_map, &c);
	check_extent(L, &t->map, a);
	return 1;
}

static void add_list(luaL_Buffer *b, lua_State *L, const char *title, const uint64_t *dims,
		     const uint32_t *box, int n)
{
	luaL_addstring(b, title);
	for (int i = 0; i < n; i++) {
		lua_pushfstring(L, i ? ", %I" : "%I", (LUAI_UACINT)(dims ? dims[i] : box[i]));
		luaL_addvalue(b);
	}
	luaL_addstring(b, "}");
}

static int tensormap_tostring(lua_State *L)
{
	const struct lua_tensormap *t = tc_check_object(L, 1, TC_TENSORMAP);
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	luaL_addstring(&b, TC_TENSORMAP " ");
	luaL_addstring(&b, types[t->map.type]);
	add_list(&b, L, " {", t->map.dims, NULL, t->map.rank);
	if (t->map.mode == MAP_TILED)
		add_list(&b, L, ", box {", NULL, t->map.box, t->map.rank);
	else
		add_list(&b, L, ", im2col {", NULL,
			 (const uint32_t[]){t->map.channels, t->map.pixels}, 2);
	luaL_addstring(&b, ", swizzle ");
	luaL_addstring(&b, swizzles[t->map.swizzle]);
	luaL_pushresult(&b);
	return 1;
}

static const struct tc_function functions[] = {
	{"tensormap", tensormap,
	 "tensormap(array: tcmma.array, opts: table) -> tcmma.tensormap\n"
	 "A tensor map for TMA, an argument of a foreign kernel. All lists are **innermost "
	 "dimension "
	 "first**, as in `cuTensorMapEncodeTiled`.\n\n"
	 "- `box` (needed): the tile, in elements, 1 to 256 each; its inner size is a multiple of "
	 "16 bytes.\n"
	 "- `dims`: sizes in elements; default: the array's shape, reversed.\n"
	 "- `strides`: bytes, one fewer than `dims`; default: dense.\n"
	 "- `element_strides`: 1 to 8, default 1.\n"
	 "- `swizzle`: `\"none\"`, `\"32B\"`, `\"64B\"`, `\"128B\"`, `\"128B_atom_32B\"`, "
	 "`\"128B_atom_32B_flip_8B\"`, `\"128B_atom_64B\"`.\n"
	 "- `interleave`: `\"none\"`, or `\"16B\"` or `\"32B\"` a pixel: dimension 0 is the width "
	 "then, "
	 "and the last but one counts slices of channels; `l2`: `\"none\"`, `\"64B\"`, "
	 "`\"128B\"`, "
	 "`\"256B\"`; `oob`: `\"zeros\"`, `\"nan\"`.\n"
	 "- `im2col`, in place of `box`: a table with `lower` and `upper`, the corners of the box "
	 "of pixels along width, height and depth, `channels` and `pixels` of a copy, and `mode`: "
	 "`\"all\"` (default), or `\"w\"` or `\"w128\"` along the width alone.\n"
	 "- `dtype`: the map's element type, such as `\"tf32\"` or `\"16u4_align16b\"`; default: "
	 "the "
	 "array's; of `int4`, `uint4` and `uint2` it is `uint8`, and all sizes count bytes."},
	{NULL, NULL, NULL}};
static const luaL_Reg meta[] = {{"__tostring", tensormap_tostring}, {NULL, NULL}};

void tc_open_tensormap(lua_State *L)
{
	tc_class(L, TC_TENSORMAP, "How TMA sees an array: made by `tc.tensormap`.", NULL, meta,
		 NULL);
	tc_functions(L, "tcmma", functions);
}

/*
 * Values of Lua in and out of arrays: tables, single elements, bytes, text.
 */
#include "dev.h"
#include "lua_tc.h"

#include <stdio.h>
#include <string.h>

/* ---- elements ---------------------------------------------------------------------- */

bool tc_element_from_lua(lua_State *L, int index, enum dtype t, uint64_t *bits)
{
	if (lua_type(L, index) == LUA_TNUMBER) {
		*bits = lua_isinteger(L, index) ? tc_from_integer(t, lua_tointeger(L, index))
						: tc_from_double(t, lua_tonumber(L, index));
		/* A negative Lua integer stands for the u64 with the same bits. */
		if (t == DT_U64 && lua_isinteger(L, index))
			*bits = (uint64_t)lua_tointeger(L, index);
		return true;
	}
	if (lua_isboolean(L, index) && tc_dtypes[t].klass == 'B') {
		*bits = (uint64_t)lua_toboolean(L, index);
		return true;
	}
	return false;
}

void tc_push_element(lua_State *L, enum dtype t, uint64_t bits)
{
	int64_t value;

	if (tc_dtypes[t].klass == 'F')
		lua_pushnumber(L, tc_to_double(t, bits));
	else if (tc_dtypes[t].klass == 'B')
		lua_pushboolean(L, (bits & 0xff) != 0);
	else if (tc_to_integer(t, bits, &value))
		lua_pushinteger(L, value);
	else
		lua_pushinteger(L, (lua_Integer)bits);
}

/* ---- tables ------------------------------------------------------------------------- */

/* Reads a nested table in C order into staged memory. */
struct reader {
	enum dtype dtype;
	char *data;
	int64_t next, elements;
	int rank;
	const int64_t *shape;       /* NULL: only the number of elements counts */
	int64_t place[TC_MAX_RANK]; /* 1-based keys on the way, for messages */
};

static int reader_error(lua_State *L, const struct reader *r, int depth, const char *what)
{
	luaL_Buffer b;
	luaL_buffinit(L, &b);
	luaL_addstring(&b, "table");
	for (int i = 0; i < depth; i++) {
		lua_pushfstring(L, "[%I]", (LUAI_UACINT)r->place[i]);
		luaL_addvalue(&b);
	}
	luaL_pushresult(&b);
	return tc_error(L, "%s %s", lua_tostring(L, -1), what);
}

/* The table or number on top of the stack. */
static void read_value(lua_State *L, struct reader *r, int depth)
{
	uint64_t bits = 0;

	if (lua_istable(L, -1)) {
		int64_t n = (int64_t)luaL_len(L, -1);
		if (depth >= (r->shape ? r->rank : TC_MAX_RANK))
			reader_error(L, r, depth, "is nested deeper than the shape");
		if (r->shape && n != r->shape[depth])
			reader_error(L, r, depth,
				     lua_pushfstring(L, "has %I entries, expected %I",
						     (LUAI_UACINT)n, (LUAI_UACINT)r->shape[depth]));
		luaL_checkstack(L, 8, "for a nested table");
		for (int64_t i = 1; i <= n; i++) {
			r->place[depth] = i;
			lua_geti(L, -1, i);
			read_value(L, r, depth + 1);
			lua_pop(L, 1);
		}
		return;
	}
	if (r->shape && depth != r->rank)
		reader_error(L, r, depth,
			     lua_pushfstring(L, "is %s, expected a table", tc_describe(L, -1)));
	if (!tc_element_from_lua(L, -1, r->dtype, &bits))
		reader_error(L, r, depth,
			     lua_pushfstring(L, "is %s, expected a number for %s",
					     tc_describe(L, -1), tc_dtypes[r->dtype].name));
	if (r->next < r->elements)
		tc_set_element(r->dtype, r->data, r->next, bits);
	r->next++;
}

/* Contents of array `a` from the table at an index, nested as `nested` says or in any way. */
static void read_table(lua_State *L, int index, const struct array *a, bool nested)
{
	struct reader r = {.dtype = a->dtype, .elements = a->elements, .rank = a->rank};

	luaL_checkstack(L, 8 + 2 * TC_MAX_RANK, "for a nested table");
	r.shape = nested ? a->shape : NULL;
	r.data = tc_array_stage(L, a);
	r.data[a->bytes - 1] = 0;
	lua_pushvalue(L, index);
	read_value(L, &r, 0);
	lua_pop(L, 1);
	if (r.next != r.elements)
		tc_error(L, "the table has %lld numbers, %s has %lld elements", (long long)r.next,
			 tc_array_text(L, a), (long long)r.elements);
	tc_array_write(L, a, r.data);
	lua_pop(L, 1);
}

/* Sizes along the first entries of a nested table. */
static int infer_shape(lua_State *L, int index, int64_t *shape)
{
	int rank = 0, top = lua_gettop(L);

	luaL_checkstack(L, TC_MAX_RANK + 4, "for a nested table");
	lua_pushvalue(L, index);
	while (lua_istable(L, -1)) {
		if (rank == TC_MAX_RANK)
			tc_argerror(L, index, "a table of at most %d dimensions expected",
				    TC_MAX_RANK);
		shape[rank] = (int64_t)luaL_len(L, -1);
		if (shape[rank++] == 0)
			tc_argerror(L, index, "the table has no entries in dimension %d", rank);
		lua_geti(L, -1, 1);
	}
	lua_settop(L, top);
	return rank;
}

static const char *const creation_options[] = {"device", NULL};

static int module_from_table(lua_State *L)
{
	int64_t shape[TC_MAX_RANK];
	bool given = !lua_isnoneornil(L, 3);
	int rank;

	if (!lua_istable(L, 1))
		return tc_argerror(L, 1, "table of numbers expected, got %s", tc_describe(L, 1));
	enum dtype t = tc_check_dtype(L, 2);
	rank = given ? tc_check_shape(L, 3, shape, TC_MAX_RANK, 1) : infer_shape(L, 1, shape);
	tc_options(L, 4, creation_options);
	struct array *a = tc_new_array_on(L, tc_option_device(L, 4, "device"), t, rank, shape);
	read_table(L, 1, a, !given);
	return 1;
}

static int array_copy_from(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);

	lua_settop(L, 2);
	if (lua_istable(L, 2)) {
		lua_geti(L, 2, 1);
		bool nested = lua_istable(L, -1);
		lua_pop(L, 1);
		read_table(L, 2, a, nested);
		lua_settop(L, 1);
		return 1;
	}
	if (!tc_test_object(L, 2, TC_ARRAY))
		return tc_argerror(L, 2, "array or table expected, got %s", tc_describe(L, 2));
	struct array *source = tc_check_array(L, 2);
	bool same = source->rank == a->rank;
	for (int i = 0; same && i < a->rank; i++)
		same = a->shape[i] == source->shape[i];
	if (!same)
		return tc_argerror(L, 2, "shapes differ: %s cannot be copied to %s",
				   tc_array_text(L, source), tc_array_text(L, a));
	/* A view of the array must not change under the conversion. */
	bool shared = source->device == a->device && source->address == a->address;
	char *converted = shared ? tc_array_stage(L, a) : tc_array_open(L, a);
	const void *data = tc_array_data(L, source);
	tc_check_live(L, a);
	converted[a->bytes - 1] = 0;
	tc_convert_elements(a->dtype, converted, source->dtype, data, a->elements);
	tc_array_write(L, a, converted);
	lua_settop(L, 1);
	return 1;
}

#define CHUNK 512

/* Elements of floats into the table on top of the stack, from its first entry on. */
static void push_floats(lua_State *L, enum dtype t, const void *data, int64_t first, int64_t count)
{
	double chunk[CHUNK];

	for (int64_t i = 0; i < count; i++) {
		if (i % CHUNK == 0)
			tc_load_doubles(t, data, first + i, count - i < CHUNK ? count - i : CHUNK,
					chunk);
		lua_pushnumber(L, chunk[i % CHUNK]);
		lua_rawseti(L, -2, i + 1);
	}
}

static int64_t push_table(lua_State *L, const struct array *a, const void *data, int depth,
			  int64_t next)
{
	if (depth == a->rank) {
		tc_push_element(L, a->dtype, tc_get_element(a->dtype, data, next));
		return next + 1;
	}
	luaL_checkstack(L, 4, "for a nested table");
	lua_createtable(L, a->shape[depth] < INT32_MAX ? (int)a->shape[depth] : 0, 0);
	if (depth == a->rank - 1 && tc_dtypes[a->dtype].klass == 'F') {
		push_floats(L, a->dtype, data, next, a->shape[depth]);
		return next + a->shape[depth];
	}
	for (int64_t i = 1; i <= a->shape[depth]; i++) {
		next = push_table(L, a, data, depth + 1, next);
		lua_rawseti(L, -2, i);
	}
	return next;
}

static int array_totable(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	const void *data = tc_array_copy(L, a);
	push_table(L, a, data, 0, 0);
	if (a->rank)
		tc_set_shown(L);
	return 1;
}

/* ---- single elements ------------------------------------------------------------------ */

/* Number of the element whose coordinates begin at argument 2. */
static int64_t check_coordinates(lua_State *L, const struct array *a, int count)
{
	int64_t element = 0;

	if (count != a->rank)
		tc_error(L, "%s needs %d coordinates, got %d", tc_array_text(L, a), a->rank, count);
	for (int i = 0; i < a->rank; i++) {
		int64_t at = tc_check_integer(L, i + 2, LUA_MININTEGER, LUA_MAXINTEGER);
		if (at < 0 || at >= a->shape[i])
			tc_argerror(L, i + 2,
				    "coordinate %lld is outside of dimension %d of %s; coordinates "
				    "run from 0 to %lld",
				    (long long)at, i, tc_array_text(L, a),
				    (long long)a->shape[i] - 1);
		element = element * a->shape[i] + at;
	}
	return element;
}

/* The bytes around one element, at most two: where they are, and the element's number there. */
struct window {
	uint64_t address;
	int bytes;
	int64_t element;
	uint8_t data[16];
};

static void open_window(lua_State *L, const struct array *a, int64_t element, struct window *w)
{
	int bits = tc_dtypes[a->dtype].bits;
	/* Eight elements of a packed type are whole bytes. */
	int64_t first = bits < 8 ? element / 8 * 8 : element;
	int64_t last = bits < 8 ? first + 8 : first + 1;
	int64_t from = tc_storage_bytes(a->dtype, first);
	int64_t to = last > a->elements ? a->bytes : tc_storage_bytes(a->dtype, last);
	struct err e = {0};

	w->address = a->address + (uint64_t)from;
	w->bytes = (int)(to - from);
	w->element = element - first;
	if (!a->device->ops->read(a->device, w->data, w->address, (uint64_t)w->bytes, &e)) {
		tc_position(L, &e.pos);
		tc_raise(L, &e);
	}
}

static int array_get(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	struct window w;

	open_window(L, a, check_coordinates(L, a, lua_gettop(L) - 1), &w);
	tc_push_element(L, a->dtype, tc_get_element(a->dtype, w.data, w.element));
	return 1;
}

static int array_set(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	int value = lua_gettop(L);
	struct window w;
	struct err e = {0};
	uint64_t bits = 0;

	if (value < 2)
		return tc_error(L, "%s needs %d coordinates and a value", tc_array_text(L, a),
				a->rank);
	int64_t element = check_coordinates(L, a, value - 2);
	if (!tc_element_from_lua(L, value, a->dtype, &bits))
		return tc_argerror(L, value, "number expected for %s, got %s",
				   tc_dtypes[a->dtype].name, tc_describe(L, value));
	open_window(L, a, element, &w);
	tc_set_element(a->dtype, w.data, w.element, bits);
	if (!a->device->ops->write(a->device, w.address, w.data, (uint64_t)w.bytes, &e)) {
		tc_position(L, &e.pos);
		tc_raise(L, &e);
	}
	lua_settop(L, 1);
	return 1;
}

/* ---- bytes ------------------------------------------------------------------------------- */

static int array_tobytes(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	const void *data = tc_array_data(L, a);
	lua_pushlstring(L, data, (size_t)a->bytes);
	return 1;
}

static void check_bytes(lua_State *L, int arg, const struct array *a)
{
	size_t length = 0;
	if (lua_type(L, arg) != LUA_TSTRING)
		tc_argerror(L, arg, "string of bytes expected, got %s", tc_describe(L, arg));
	lua_tolstring(L, arg, &length);
	if ((int64_t)length != a->bytes)
		tc_argerror(L, arg, "%s has %lld bytes, the string %lld", tc_array_text(L, a),
			    (long long)a->bytes, (long long)length);
}

static int array_frombytes(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	check_bytes(L, 2, a);
	tc_array_write(L, a, lua_tostring(L, 2));
	lua_settop(L, 1);
	return 1;
}

static int module_frombytes(lua_State *L)
{
	int64_t shape[TC_MAX_RANK];
	enum dtype t = tc_check_dtype(L, 2);
	int rank = tc_check_shape(L, 3, shape, TC_MAX_RANK, 1);

	tc_options(L, 4, creation_options);
	struct array *a = tc_new_array_on(L, tc_option_device(L, 4, "device"), t, rank, shape);
	check_bytes(L, 1, a);
	tc_array_write(L, a, lua_tostring(L, 1));
	return 1;
}

/* ---- text --------------------------------------------------------------------------------- */

struct text {
	const struct array *array;
	const void *data;
	int precision, edge, width;
	struct strbuf *out;
};

static void element_text(const struct text *t, int64_t i, char *text, size_t size)
{
	enum dtype type = t->array->dtype;
	uint64_t bits = tc_get_element(type, t->data, i);
	int64_t value;

	if (tc_dtypes[type].klass == 'F')
		snprintf(text, size, "%.*g", t->precision, tc_to_double(type, bits));
	else if (tc_dtypes[type].klass == 'B')
		snprintf(text, size, "%s", bits & 0xff ? "true" : "false");
	else if (tc_to_integer(type, bits, &value))
		snprintf(text, size, "%lld", (long long)value);
	else
		snprintf(text, size, "%llu", (unsigned long long)bits);
}

/* Text of dimension `depth` and the ones inside it; only measures when `measure`. */
static void write_dimension(struct text *t, int depth, int64_t first, bool measure)
{
	const struct array *a = t->array;
	char word[64];
	int64_t n, stride = 1;

	if (depth == a->rank) {
		element_text(t, first, word, sizeof word);
		if (measure)
			t->width = (int)strlen(word) > t->width ? (int)strlen(word) : t->width;
		else
			tc_printf(t->out, "%*s", t->width, word);
		return;
	}
	n = a->shape[depth];
	for (int i = depth + 1; i < a->rank; i++)
		stride *= a->shape[i];
	bool inner = depth == a->rank - 1, cut = n > 2 * t->edge + 2;
	if (!measure)
		tc_puts(t->out, "{");
	for (int64_t i = 0; i < n; i++) {
		if (!measure && i > 0)
			tc_printf(t->out, inner ? ", " : ",\n%*s", inner ? 0 : depth + 1, "");
		if (cut && i == t->edge) {
			if (!measure)
				tc_puts(t->out, "...");
			i = n - t->edge - 1;
			continue;
		}
		write_dimension(t, depth + 1, first + i * stride, measure);
	}
	if (!measure)
		tc_puts(t->out, "}");
}

static void write_all(void *arg)
{
	struct text *t = arg;

	write_dimension(t, 0, 0, true);
	write_dimension(t, 0, 0, false);
}

static int array_tostring_values(lua_State *L)
{
	static const char *const options[] = {"precision", "edge", NULL};
	struct array *a = tc_check_array(L, 1);
	struct text t = {.array = a};
	struct err e = {0};

	tc_options(L, 2, options);
	t.precision = (int)tc_option_integer(L, 2, "precision", a->dtype == DT_F64 ? 8 : 5, 1, 17);
	t.edge = (int)tc_option_integer(L, 2, "edge", 3, 1, 1000000);
	t.out = tc_new_object(L, "tcmma.text", sizeof *t.out, 0);
	t.data = tc_array_data(L, tc_check_array(L, 1));
	tc_call(L, &e, write_all, &t);
	lua_pushlstring(L, t.out->text ? t.out->text : "", t.out->length);
	tc_strbuf_free(t.out);
	return 1;
}

static int array_show(lua_State *L)
{
	lua_settop(L, 2);
	lua_getglobal(L, "print");
	luaL_tolstring(L, 1, NULL);
	lua_call(L, 1, 0);
	lua_getglobal(L, "print");
	lua_pushcfunction(L, array_tostring_values);
	lua_pushvalue(L, 1);
	lua_pushvalue(L, 2);
	lua_call(L, 2, 1);
	lua_call(L, 1, 0);
	return 0;
}

/* ---- registration --------------------------------------------------------------------------- */

static const struct tc_function array_methods[] = {
	{"totable", array_totable,
	 "totable() -> table\n"
	 "The elements as nested tables, one level a dimension. Types narrower than a double come "
	 "back\n"
	 "exactly; a `uint64` above `math.maxinteger` as the negative integer with the same bits."},
	{"copy_from", array_copy_from,
	 "copy_from(source: tcmma.array|table) -> tcmma.array\n"
	 "Overwrites every element with those of an array of the same shape (of any type and "
	 "device) or\n"
	 "of a table, flat or nested; returns the array."},
	{"get", array_get,
	 "get(...: integer) -> number|boolean\n"
	 "One element; as many coordinates as the array has dimensions. **They begin at 0.**"},
	{"set", array_set,
	 "set(...: number|boolean) -> tcmma.array\n"
	 "`set(i, j, value)` writes one element. **Coordinates begin at 0.** Returns the array."},
	{"tobytes", array_tobytes,
	 "tobytes() -> string\n"
	 "The memory of the array."},
	{"frombytes", array_frombytes,
	 "frombytes(bytes: string) -> tcmma.array\n"
	 "Overwrites the memory of the array with a string of `nbytes` bytes; returns the array."},
	{"tostring_values", array_tostring_values,
	 "tostring_values(opts?: {precision?: integer, edge?: integer}) -> string\n"
	 "The elements as text. Of long dimensions only `edge` elements at each end are shown (3 "
	 "unless\n"
	 "given); floats have `precision` digits."},
	{"show", array_show,
	 "show(opts?: {precision?: integer, edge?: integer})\n"
	 "Prints the array and its elements, as `tostring_values` gives them."},
	{NULL, NULL, NULL},
};

static const struct tc_function module_functions[] = {
	{"from_table", module_from_table,
	 "from_table(values: table, dtype: DType, shape?: integer[], opts?: {device?: "
	 "tcmma.device|string}) -> tcmma.array\n"
	 "A new array from numbers. Without a shape it is that of the nested tables, which must "
	 "be\n"
	 "regular; with one, the table may be nested or flat and must have as many numbers. Values "
	 "are\n"
	 "converted as `dtype:encode` does; integers to 64-bit types exactly."},
	{"frombytes", module_frombytes,
	 "frombytes(bytes: string, dtype: DType, shape: integer[], opts?: {device?: "
	 "tcmma.device|string}) -> tcmma.array\n"
	 "A new array whose memory is a string of bytes, in C order and little-endian."},
	{NULL, NULL, NULL},
};

void tc_open_values(lua_State *L)
{
	tc_functions(L, "tcmma", module_functions);
	luaL_getmetatable(L, TC_ARRAY);
	lua_getfield(L, -1, "__methods");
	tc_functions(L, TC_ARRAY, array_methods);
	lua_pop(L, 2);
}

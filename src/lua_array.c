/*
 * Arrays: memory of a device with a shape and an element type.
 *
 * An array holds its device.  A view (reshape, view) shares the memory of the
 * array it came from, keeps that alive through a user value, and is dead once
 * that is freed.
 */
#include "dev.h"
#include "lua_tc.h"

#include <limits.h>
#include <string.h>

/* ---- memory ----------------------------------------------------------------------- */

const char *tc_array_text(lua_State *L, const struct array *a)
{
	luaL_Buffer b;
	luaL_buffinit(L, &b);
	luaL_addstring(&b, tc_dtypes[a->dtype].shortname);
	luaL_addchar(&b, '[');
	for (int i = 0; i < a->rank; i++) {
		lua_pushfstring(L, i ? ", %I" : "%I", (LUAI_UACINT)a->shape[i]);
		luaL_addvalue(&b);
	}
	luaL_addchar(&b, ']');
	luaL_pushresult(&b);
	return lua_tostring(L, -1);
}

static bool is_live(const struct array *a)
{
	return a->address != 0 && (!a->owner || a->owner->address != 0);
}

void tc_check_live(lua_State *L, const struct array *a)
{
	if (!is_live(a))
		tc_error(L, "attempt to use a freed array (%s)", tc_array_text(L, a));
	if (a->device->closed)
		tc_error(L, "the device of the array is closed (%s on %s)", tc_array_text(L, a),
			 a->device->name);
}

struct array *tc_check_array(lua_State *L, int arg)
{
	struct array *a = tc_check_object(L, arg, TC_ARRAY);

	tc_check_live(L, a);
	return a;
}

/*
 * Lua counts the userdata only.  Once the arrays made since the last time come
 * to this many bytes, the collector is told of them as if Lua had allocated them.
 */
#define ACCOUNT_UNIT (INT64_C(64) << 20)
#define ACCOUNT      "tcmma.unaccounted" /* registry: bytes */

static void account(lua_State *L, int64_t bytes)
{
	lua_getfield(L, LUA_REGISTRYINDEX, ACCOUNT);
	int64_t unaccounted = lua_tointeger(L, -1) + bytes;
	if (unaccounted >= ACCOUNT_UNIT && lua_gc(L, LUA_GCISRUNNING)) {
		int64_t kib = unaccounted / 1024;
		lua_gc(L, LUA_GCSTEP, kib > INT_MAX / 1024 ? INT_MAX / 1024 : (int)kib);
		unaccounted = 0;
	}
	lua_pushinteger(L, unaccounted);
	lua_setfield(L, LUA_REGISTRYINDEX, ACCOUNT);
	lua_pop(L, 1);
}

/* An array without memory, on the stack. */
static struct array *new_header(lua_State *L, struct device *d, enum dtype t, int rank,
				const int64_t *shape)
{
	int64_t elements = 1;
	for (int i = 0; i < rank; i++) {
		if (shape[i] > TC_LARGEST_ARRAY / elements)
			tc_error(L, "the array is too large: more than 2^46 elements");
		elements *= shape[i];
	}
	struct array *a = tc_new_object(L, TC_ARRAY, sizeof *a, 1);
	a->dtype = t;
	a->rank = rank;
	if (rank > 0)
		memcpy(a->shape, shape, (size_t)rank * sizeof *shape);
	a->elements = elements;
	a->bytes = tc_storage_bytes(t, elements);
	a->device = tc_device_hold(d);
	return a;
}

struct array *tc_new_array_on(lua_State *L, struct device *d, enum dtype t, int rank,
			      const int64_t *shape)
{
	luaL_checkstack(L, 10, "for an array");
	struct array *a = new_header(L, d, t, rank, shape);
	account(L, a->bytes);
	const char *name = lua_pushfstring(L, "array %s", tc_array_text(L, a));
	a->address = tc_device_alloc(L, d, (uint64_t)a->bytes, name);
	lua_pop(L, 2);
	return a;
}

/* A view of the array at `index` with the same bytes, on the stack. */
static struct array *new_view(lua_State *L, int index, enum dtype t, int rank, const int64_t *shape)
{
	struct array *a = tc_check_array(L, index);
	struct array *view = new_header(L, a->device, t, rank, shape);
	view->address = a->address;
	view->owner = a->owner ? a->owner : a;
	if (a->owner)
		lua_getiuservalue(L, index, 1);
	else
		lua_pushvalue(L, index);
	lua_setiuservalue(L, -2, 1);
	return view;
}

static int array_release(lua_State *L)
{
	struct array *a = tc_check_object(L, 1, TC_ARRAY);
	if (a->address && !a->owner && !a->device->closed)
		a->device->ops->release(a->device, a->address);
	a->address = 0;
	return 0;
}

static int array_gc(lua_State *L)
{
	struct array *a = tc_check_object(L, 1, TC_ARRAY);
	array_release(L);
	if (a->device)
		tc_device_drop(a->device);
	a->device = NULL;
	return 0;
}

static void read_bytes(lua_State *L, const struct array *a, void *dst)
{
	struct err e = {0};
	if (!a->device->ops->read(a->device, dst, a->address, (uint64_t)a->bytes, &e)) {
		tc_position(L, &e.pos);
		tc_raise(L, &e);
	}
}

/* The contents themselves, NULL where the host does not see them. */
static void *seen_by_host(const struct array *a)
{
	return a->device->ops->host(a->device, a->address, (uint64_t)a->bytes);
}

const void *tc_array_data(lua_State *L, const struct array *a)
{
	tc_check_live(L, a);
	void *data = seen_by_host(a);
	if (!data)
		return tc_array_copy(L, a);
	lua_pushnil(L);
	return data;
}

const void *tc_array_copy(lua_State *L, const struct array *a)
{
	void *data = tc_array_stage(L, a);

	tc_check_live(L, a); /* a finalizer may have freed it */
	read_bytes(L, a, data);
	return data;
}

void *tc_array_stage(lua_State *L, const struct array *a)
{
	return lua_newuserdatauv(L, (size_t)a->bytes, 0);
}

void *tc_array_open(lua_State *L, const struct array *a)
{
	tc_check_live(L, a);
	char *data = seen_by_host(a);
	if (data)
		lua_pushnil(L);
	else
		data = tc_array_stage(L, a);
	data[a->bytes - 1] = 0;
	return data;
}

void tc_array_write(lua_State *L, const struct array *a, const void *data)
{
	struct err e = {0};
	if (data != seen_by_host(a) &&
	    !a->device->ops->write(a->device, a->address, data, (uint64_t)a->bytes, &e)) {
		tc_position(L, &e.pos);
		tc_raise(L, &e);
	}
}

struct device *tc_option_device(lua_State *L, int arg, const char *name)
{
	if (!tc_option_push(L, arg, name))
		return tc_current_device(L);
	struct device *d = tc_to_device(L, lua_gettop(L));
	lua_pop(L, 1);
	return d;
}

/* ---- making arrays ------------------------------------------------------------------- */

static const char *const creation_options[] = {"device", NULL};

/* Shape at 1, dtype and options at the arguments given; leaves a new array on the stack. */
static struct array *create(lua_State *L, int dtype_arg, int options)
{
	int64_t shape[TC_MAX_RANK];
	int rank = tc_check_shape(L, 1, shape, TC_MAX_RANK, 1);
	enum dtype t = tc_check_dtype(L, dtype_arg);
	tc_options(L, options, creation_options);
	return tc_new_array_on(L, tc_option_device(L, options, "device"), t, rank, shape);
}

static void fill(lua_State *L, const struct array *a, uint64_t bits)
{
	void *data = tc_array_open(L, a);
	tc_fill_elements(a->dtype, data, a->elements, bits);
	tc_array_write(L, a, data);
	lua_pop(L, 1);
}

/* Larger arrays, of which little may be used, take no memory of the host until they are written. */
#define MOST_UNSET (256 << 20)

/* Where the host sees the memory, what was never written shows: NaN, or -1. */
static int module_empty(lua_State *L)
{
	const struct array *a = create(L, 2, 3);
	void *seen = a->bytes <= MOST_UNSET ? seen_by_host(a) : NULL;

	if (seen)
		memset(seen, 0xff, (size_t)a->bytes);
	return 1;
}

static int module_zeros(lua_State *L)
{
	fill(L, create(L, 2, 3), 0);
	return 1;
}

static int module_ones(lua_State *L)
{
	struct array *a = create(L, 2, 3);
	fill(L, a, tc_from_double(a->dtype, 1));
	return 1;
}

static uint64_t check_element(lua_State *L, int arg, enum dtype t)
{
	uint64_t bits = 0;
	if (!tc_element_from_lua(L, arg, t, &bits))
		tc_argerror(L, arg, "%s expected for %s, got %s",
			    tc_dtypes[t].klass == 'B' ? "boolean or number" : "number",
			    tc_dtypes[t].name, tc_describe(L, arg));
	return bits;
}

/* tc.full outside of a recording; lua_frag.c registers the function. */
int tc_array_full(lua_State *L)
{
	struct array *a = create(L, 3, 4);
	fill(L, a, check_element(L, 2, a->dtype));
	return 1;
}

#define CHUNK 512

static lua_Number check_number(lua_State *L, int arg)
{
	if (lua_type(L, arg) != LUA_TNUMBER)
		tc_argerror(L, arg, "number expected, got %s", tc_describe(L, arg));
	return lua_tonumber(L, arg);
}

/* arange(stop, dtype), arange(start, stop, dtype), arange(start, stop, step, dtype) */
static int module_arange(lua_State *L)
{
	int numbers = 0;
	while (numbers < 3 && lua_type(L, numbers + 1) == LUA_TNUMBER)
		numbers++;
	lua_Number start = numbers > 1 ? check_number(L, 1) : 0;
	lua_Number stop = check_number(L, numbers > 1 ? 2 : 1);
	lua_Number step = numbers > 2 ? check_number(L, 3) : 1;
	enum dtype t = tc_check_dtype(L, numbers + 1);
	int options = numbers + 2;

	tc_options(L, options, creation_options);
	if (step == 0 || step != step)
		return tc_argerror(L, 3, "the step must not be 0");
	lua_Number count = (stop - start) / step;
	if (!(count > 0 && count < (lua_Number)TC_LARGEST_ARRAY))
		return tc_argerror(L, numbers > 1 ? 2 : 1,
				   "no number lies between %.14g and %.14g in steps of %.14g",
				   start, stop, step);
	int64_t n = (int64_t)count;
	n += (lua_Number)n < count;
	struct array *a = tc_new_array_on(L, tc_option_device(L, options, "device"), t, 1, &n);
	void *data = tc_array_open(L, a);
	double chunk[CHUNK];
	for (int64_t first = 0, some; first < n; first += some) {
		some = n - first < CHUNK ? n - first : CHUNK;
		for (int64_t i = 0; i < some; i++)
			chunk[i] = start + (lua_Number)(first + i) * step;
		tc_store_doubles(t, data, first, some, chunk);
	}
	tc_array_write(L, a, data);
	lua_pop(L, 1);
	return 1;
}

/* ---- methods ---------------------------------------------------------------------------- */

static int array_fill(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	fill(L, a, check_element(L, 2, a->dtype));
	lua_settop(L, 1);
	return 1;
}

/* Leaves a new array with the contents of `a`, converted, on the stack. */
static struct array *new_copy(lua_State *L, const struct array *a, struct device *d, enum dtype t)
{
	struct array *copy = tc_new_array_on(L, d, t, a->rank, a->shape);
	if (t == a->dtype) {
		tc_array_write(L, copy, tc_array_data(L, a));
		lua_pop(L, 1);
		return copy;
	}
	void *data = tc_array_open(L, copy);
	const void *source = tc_array_data(L, a);
	tc_check_live(L, copy);
	tc_convert_elements(t, data, a->dtype, source, a->elements);
	tc_array_write(L, copy, data);
	lua_pop(L, 2);
	return copy;
}

static int array_to(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	struct device *d = tc_to_device(L, 2);
	lua_settop(L, 2);
	if (d == a->device)
		lua_settop(L, 1);
	else
		new_copy(L, a, d, a->dtype);
	return 1;
}

static int array_astype(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	new_copy(L, a, a->device, tc_check_dtype(L, 2));
	return 1;
}

static int array_copy(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	new_copy(L, a, a->device, a->dtype);
	return 1;
}

static int array_reshape(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	int64_t shape[TC_MAX_RANK], known = 1;
	int rank = tc_check_shape(L, 2, shape, TC_MAX_RANK, -1), open = -1;

	for (int i = 0; i < rank; i++) {
		if (shape[i] == 0 || (shape[i] == -1 && open >= 0))
			return tc_argerror(L, 2,
					   "sizes must be at least 1, and one of them may be -1");
		if (shape[i] == -1)
			open = i;
		else if (shape[i] > TC_LARGEST_ARRAY / known)
			return tc_argerror(L, 2, "the shape has more than 2^46 elements");
		else
			known *= shape[i];
	}
	if (open >= 0 && a->elements % known == 0) {
		shape[open] = a->elements / known;
		known = a->elements;
	}
	if (known != a->elements)
		return tc_argerror(L, 2, "%s has %lld elements, the new shape %s%lld",
				   tc_array_text(L, a), (long long)a->elements,
				   open >= 0 ? "a multiple of " : "", (long long)known);
	new_view(L, 1, a->dtype, rank, shape);
	return 1;
}

static int array_view(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	enum dtype t = tc_check_dtype(L, 2);
	int64_t shape[TC_MAX_RANK] = {1};
	int rank = a->rank > 0 ? a->rank : 1;

	if (a->rank > 0)
		memcpy(shape, a->shape, sizeof shape);
	int64_t row_bits = shape[rank - 1] * tc_dtypes[a->dtype].bits;
	if (row_bits % tc_dtypes[t].bits != 0)
		return tc_argerror(L, 2, "the last dimension of %s is %lld bits, no multiple of %s",
				   tc_array_text(L, a), (long long)row_bits, tc_dtypes[t].name);
	shape[rank - 1] = row_bits / tc_dtypes[t].bits;
	new_view(L, 1, t, rank, shape);
	return 1;
}

static void push_shape(lua_State *L, const struct array *a)
{
	lua_createtable(L, a->rank, 0);
	for (int i = 0; i < a->rank; i++) {
		lua_pushinteger(L, a->shape[i]);
		lua_rawseti(L, -2, i + 1);
	}
	tc_set_shown(L);
}

static int array_field(lua_State *L)
{
	struct array *a = tc_check_object(L, 1, TC_ARRAY);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (strcmp(key, "shape") == 0)
		push_shape(L, a);
	else if (strcmp(key, "dtype") == 0)
		tc_push_dtype(L, a->dtype);
	else if (strcmp(key, "device") == 0)
		tc_push_device(L, tc_check_array(L, 1)->device);
	else if (strcmp(key, "nbytes") == 0)
		lua_pushinteger(L, a->bytes);
	else if (strcmp(key, "rank") == 0)
		lua_pushinteger(L, a->rank);
	else if (strcmp(key, "elements") == 0)
		lua_pushinteger(L, a->elements);
	else if (strcmp(key, "address") == 0)
		lua_pushinteger(L, (lua_Integer)tc_check_array(L, 1)->address);
	else if (lua_type(L, 2) == LUA_TNUMBER)
		return tc_error(L, "elements of an array are read with array:get(i, j, ...), "
				   "whose coordinates begin at 0");
	else
		return 0;
	return 1;
}

static int array_newindex(lua_State *L)
{
	if (lua_type(L, 2) == LUA_TNUMBER)
		return tc_error(
			L, "elements of an array are written with array:set(i, j, ..., value), "
			   "whose coordinates begin at 0");
	return tc_error(L, "fields of an array cannot be set (%s)", tc_describe(L, 2));
}

static int array_tostring(lua_State *L)
{
	struct array *a = tc_check_object(L, 1, TC_ARRAY);
	if (!is_live(a) || !a->device)
		lua_pushfstring(L, TC_ARRAY " %s (freed)", tc_array_text(L, a));
	else
		lua_pushfstring(L, TC_ARRAY " %s on %s%s", tc_array_text(L, a), a->device->name,
				a->device->closed ? " (closed)" : "");
	return 1;
}

static int array_len(lua_State *L)
{
	struct array *a = tc_check_object(L, 1, TC_ARRAY);
	if (a->rank == 0)
		return tc_error(L, "an array of rank 0 has no length");
	lua_pushinteger(L, a->shape[0]);
	return 1;
}

/* ---- registration --------------------------------------------------------------------- */

static const struct tc_function array_methods[] = {
	{"fill", array_fill,
	 "fill(value: number|boolean) -> tcmma.array\n"
	 "Sets every element; returns the array."},
	{"to", array_to,
	 "to(device: tcmma.device|string) -> tcmma.array\n"
	 "A copy on another device; the array itself if it is there already."},
	{"astype", array_astype,
	 "astype(dtype: DType) -> tcmma.array\n"
	 "A converted copy on the same device. Rounds once; the rules are those of "
	 "`dtype:encode`."},
	{"copy", array_copy,
	 "copy() -> tcmma.array\n"
	 "A copy on the same device."},
	{"reshape", array_reshape,
	 "reshape(shape: integer[]) -> tcmma.array\n"
	 "A view of the same memory with another shape of as many elements. One size may be -1."},
	{"view", array_view,
	 "view(dtype: DType) -> tcmma.array\n"
	 "A view of the same memory with another element type: no value is converted. The last\n"
	 "dimension shrinks or grows with the size of an element."},
	{"free", array_release,
	 "free()\n"
	 "Gives the memory back now; a second call does nothing. Every later use of the array, or "
	 "of a\n"
	 "view of it, is an error. `local a <close> = ...` does the same at the end of the block."},
	{NULL, NULL, NULL},
};

static const luaL_Reg array_meta[] = {

	{"__newindex", array_newindex}, {"__gc", array_gc},   {"__close", array_release},
	{"__tostring", array_tostring}, {"__len", array_len}, {NULL, NULL},
};

static const char array_doc[] = "tcmma.array\n"
				"Elements in the memory of a device, in C order (the last "
				"dimension is contiguous). An array\n"
				"lives on the device that was current when it was made, or on the "
				"one of the option `device`.\n"
				"Types of fewer than 8 bits are packed densely, the first element "
				"in the low bits. `#array` is the\n"
				"first size.\n\n"
				"**Coordinates of elements begin at 0**, as everything the "
				"hardware counts; the tables that go in\n"
				"and out are ordinary Lua tables and begin at 1.\n\n"
				"---@field shape integer[] The sizes; a new table each time.\n"
				"---@field dtype tcmma.dtype\n"
				"---@field device tcmma.device\n"
				"---@field rank integer Number of dimensions.\n"
				"---@field elements integer Number of elements.\n"
				"---@field nbytes integer Bytes of memory.\n"
				"---@field address integer Address on the device.\n";

static const struct tc_function module_functions[] = {
	{"empty", module_empty,
	 "empty(shape: integer[], dtype: DType, opts?: {device?: tcmma.device|string}) -> "
	 "tcmma.array\n"
	 "A new array whose contents are undefined until written. On the emulator all bits of one "
	 "of up to 256 MB are set, which is NaN in floats and -1 in int32, so that results show "
	 "what was never written; no report speaks of it."},
	{"zeros", module_zeros,
	 "zeros(shape: integer[], dtype: DType, opts?: {device?: tcmma.device|string}) -> "
	 "tcmma.array\n"
	 "A new array of zeros (in `float8_e8m0fnu`, which has none, of 2^-127)."},
	{"ones", module_ones,
	 "ones(shape: integer[], dtype: DType, opts?: {device?: tcmma.device|string}) -> "
	 "tcmma.array\n"
	 "A new array of ones."},
	{"arange", module_arange,
	 "arange(start: number, stop: number, step: number, dtype: DType, opts?: {device?: "
	 "tcmma.device|string}) -> tcmma.array\n"
	 "The numbers `start`, `start + step`, ... below `stop` (above it for a negative step). "
	 "Also\n"
	 "`arange(stop, dtype)` and `arange(start, stop, dtype)`."},
	{NULL, NULL, NULL},
};

void tc_open_array(lua_State *L)
{
	tc_class(L, TC_ARRAY, array_doc, array_methods, array_meta, array_field);
	tc_functions(L, "tcmma", module_functions);
	tc_open_values(L);
}

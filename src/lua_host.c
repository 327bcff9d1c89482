/*
 * Random arrays, comparisons, reductions and reference results on the host.
 */
#include "dev.h"
#include "host.h"
#include "lua_tc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CHUNK 1024
#define SEEDS "tcmma.seeds" /* registry: number of arrays made without a seed */

/* ---- random ------------------------------------------------------------------------- */

/* Arrays without a seed are numbered, so that a script repeats itself but its arrays differ. */
static uint64_t option_seed(lua_State *L, int options)
{
	if (tc_option_push(L, options, "seed")) {
		lua_pop(L, 1);
		return (uint64_t)tc_option_integer(L, options, "seed", 0, LUA_MININTEGER,
						   LUA_MAXINTEGER);
	}
	lua_getfield(L, LUA_REGISTRYINDEX, SEEDS);
	lua_Integer next = lua_tointeger(L, -1);
	lua_pushinteger(L, next + 1);
	lua_setfield(L, LUA_REGISTRYINDEX, SEEDS);
	lua_pop(L, 1);
	/* Far from the small seeds that users write. */
	return UINT64_C(0x5eed000000000000) + (uint64_t)next;
}

static lua_Number option_number(lua_State *L, int arg, const char *name, lua_Number standard)
{
	if (!tc_option_push(L, arg, name))
		return standard;
	if (lua_type(L, -1) != LUA_TNUMBER)
		tc_argerror(L, arg, "option '%s' must be a number, got %s", name,
			    tc_describe(L, -1));
	lua_Number value = lua_tonumber(L, -1);
	lua_pop(L, 1);
	return value;
}

static struct array *create(lua_State *L, int options)
{
	int64_t shape[TC_MAX_RANK];
	int rank = tc_check_shape(L, 1, shape, TC_MAX_RANK, 1);
	enum dtype t = tc_check_dtype(L, 2);
	return tc_new_array_on(L, tc_option_device(L, options, "device"), t, rank, shape);
}

typedef void draw(uint64_t seed, int64_t first, int64_t count, double *out);

/* offset + scale * number, for every element of a new array. */
static int random_array(lua_State *L, draw *numbers, double offset, double scale)
{
	double chunk[CHUNK];
	uint64_t seed = option_seed(L, 3);
	struct array *a = create(L, 3);
	void *data = tc_array_open(L, a);

	for (int64_t first = 0; first < a->elements; first += CHUNK) {
		int64_t n = a->elements - first < CHUNK ? a->elements - first : CHUNK;
		numbers(seed, first, n, chunk);
		for (int64_t i = 0; i < n; i++)
			chunk[i] = offset + scale * chunk[i];
		tc_store_doubles(a->dtype, data, first, n, chunk);
	}
	tc_array_write(L, a, data);
	lua_pop(L, 1);
	return 1;
}

static int module_randn(lua_State *L)
{
	static const char *const names[] = {"seed", "mean", "std", "device", NULL};
	tc_options(L, 3, names);
	return random_array(L, tc_random_normal, option_number(L, 3, "mean", 0),
			    option_number(L, 3, "std", 1));
}

static int module_rand(lua_State *L)
{
	static const char *const names[] = {"seed", "low", "high", "device", NULL};
	tc_options(L, 3, names);
	lua_Number low = option_number(L, 3, "low", 0), high = option_number(L, 3, "high", 1);
	return random_array(L, tc_random_uniform, low, high - low);
}

static int module_randint(lua_State *L)
{
	static const char *const names[] = {"seed", "low", "high", "device", NULL};
	int64_t chunk[CHUNK];

	if (!tc_options(L, 3, names) || !tc_option_push(L, 3, "high"))
		return tc_argerror(L, 3,
				   "option 'high' is missing: randint(shape, dtype, {low = 0, "
				   "high = 10}); `high` itself is not drawn");
	lua_pop(L, 1);
	int64_t low = tc_option_integer(L, 3, "low", 0, LUA_MININTEGER, LUA_MAXINTEGER);
	int64_t high = tc_option_integer(L, 3, "high", 0, LUA_MININTEGER, LUA_MAXINTEGER);
	if (high <= low)
		return tc_argerror(L, 3, "option 'high' (%lld) must be greater than 'low' (%lld)",
				   (long long)high, (long long)low);
	uint64_t seed = option_seed(L, 3);
	struct array *a = create(L, 3);
	char *data = tc_array_open(L, a);
	for (int64_t first = 0; first < a->elements; first += CHUNK) {
		int64_t n = a->elements - first < CHUNK ? a->elements - first : CHUNK;
		tc_random_integer(seed, first, n, low, (uint64_t)high - (uint64_t)low, chunk);
		tc_convert_elements(a->dtype, data + tc_storage_bytes(a->dtype, first), DT_I64,
				    chunk, n);
	}
	tc_array_write(L, a, data);
	lua_pop(L, 1);
	return 1;
}

/* ---- comparison ------------------------------------------------------------------------ */

/* Leaves one value on the stack that keeps the data. */
static struct plain plain_of(lua_State *L, const struct array *a)
{
	struct plain p = {a->dtype, tc_array_data(L, a), a->elements};
	return p;
}

/* Of both, two values. */
static void plain_pair(lua_State *L, const struct array *a, const struct array *b,
		       struct plain *left, struct plain *right)
{
	*left = plain_of(L, a);
	*right = plain_of(L, b);
	tc_check_live(L, a);
}

static void push_coordinates(lua_State *L, const struct array *a, int64_t element)
{
	lua_createtable(L, a->rank, 0);
	for (int i = a->rank - 1; i >= 0; i--) {
		lua_pushinteger(L, element % a->shape[i]);
		lua_rawseti(L, -2, i + 1);
		element /= a->shape[i];
	}
	tc_set_shown(L);
}

static void check_same_shape(lua_State *L, const struct array *a, const struct array *b)
{
	bool same = a->rank == b->rank;
	for (int i = 0; same && i < a->rank; i++)
		same = a->shape[i] == b->shape[i];
	if (!same)
		tc_argerror(L, 2, "shapes differ: %s and %s", tc_array_text(L, a),
			    tc_array_text(L, b));
}

/* Two units in the last place of 1 in the coarser of the types, but no less than 1e-5. */
static double standard_rtol(enum dtype a, enum dtype b)
{
	double coarsest = 1e-5;
	enum dtype types[] = {a, b};

	for (int i = 0; i < 2; i++) {
		enum dtype t = types[i];
		int bits = tc_dtypes[t].bits;
		if (tc_dtypes[t].klass != 'F' || bits >= 32 || t == DT_E8M0)
			continue;
		double next = tc_to_double(t, tc_from_double(t, 1) + 1);
		coarsest = fmax(coarsest, 2 * (next - 1));
	}
	if ((a == DT_TF32 || b == DT_TF32) && coarsest < 0x1p-9)
		coarsest = 0x1p-9;
	return coarsest;
}

static void push_report(lua_State *L, const struct array *a, const struct comparison *c)
{
	lua_createtable(L, 0, 14);
	tc_set_number(L, "rtol", c->rtol);
	tc_set_number(L, "atol", c->atol);
	tc_set_number(L, "max_abs_error", c->max_abs_error);
	tc_set_number(L, "max_rel_error", c->max_rel_error);
	tc_set_number(L, "relative_rms", c->relative_rms);
	tc_set_integer(L, "mismatches", c->mismatches);
	tc_set_integer(L, "nan_mismatches", c->nan_mismatches);
	tc_set_integer(L, "elements", a->elements);
	if (c->worst >= 0) {
		push_coordinates(L, a, c->worst);
		lua_setfield(L, -2, "index");
		tc_set_number(L, "a", c->worst_a);
		tc_set_number(L, "b", c->worst_b);
	}
	if (c->first_mismatch >= 0) {
		push_coordinates(L, a, c->first_mismatch);
		lua_setfield(L, -2, "first_mismatch");
	}
	luaL_setmetatable(L, "tcmma.comparison");
}

static lua_Number field(lua_State *L, const char *name)
{
	lua_getfield(L, 1, name);
	lua_Number x = lua_tonumber(L, -1);
	lua_pop(L, 1);
	return x;
}

static int comparison_tostring(lua_State *L)
{
	char text[256];

	if (!lua_istable(L, 1))
		return tc_argerror(L, 1, "table expected, got %s", tc_describe(L, 1));
	snprintf(text, sizeof text,
		 "%.0f of %.0f elements differ; greatest error %.3g, relative rms %.3g (rtol %.3g, "
		 "atol %.3g)",
		 field(L, "mismatches"), field(L, "elements"), field(L, "max_abs_error"),
		 field(L, "relative_rms"), field(L, "rtol"), field(L, "atol"));
	lua_pushstring(L, text);
	return 1;
}

static int module_allclose(lua_State *L)
{
	static const char *const names[] = {"rtol", "atol", "equal_nan", NULL};
	struct array *a = tc_check_array(L, 1), *b = tc_check_array(L, 2);
	struct comparison c = {0};
	struct plain left, right;

	check_same_shape(L, a, b);
	tc_options(L, 3, names);
	c.rtol = option_number(L, 3, "rtol", standard_rtol(a->dtype, b->dtype));
	c.atol = option_number(L, 3, "atol", 1e-5);
	c.equal_nan = tc_option_boolean(L, 3, "equal_nan", false);
	if (!(c.rtol >= 0) || !(c.atol >= 0))
		return tc_argerror(L, 3, "tolerances must not be negative");
	plain_pair(L, a, b, &left, &right);
	tc_compare(&left, &right, &c);
	lua_pushboolean(L, c.mismatches == 0);
	push_report(L, a, &c);
	return 2;
}

static int module_max_error(lua_State *L)
{
	struct array *a = tc_check_array(L, 1), *b = tc_check_array(L, 2);
	struct comparison c = {.equal_nan = true};
	struct plain left, right;

	check_same_shape(L, a, b);
	plain_pair(L, a, b, &left, &right);
	tc_compare(&left, &right, &c);
	if (c.nan_mismatches > 0) {
		lua_pushnumber(L, (lua_Number)NAN);
		push_coordinates(L, a, c.first_mismatch);
		return 2;
	}
	lua_pushnumber(L, c.max_abs_error);
	push_coordinates(L, a, c.worst < 0 ? 0 : c.worst);
	return 2;
}

/* ---- reductions ------------------------------------------------------------------------- */

static int array_sum(lua_State *L)
{
	struct array *a = tc_check_array(L, 1);
	struct plain p = plain_of(L, a);
	if (tc_dtypes[a->dtype].klass == 'F') {
		lua_pushnumber(L, tc_sum(&p));
		return 1;
	}
	lua_pushinteger(L, (lua_Integer)tc_sum_integers(&p));
	return 1;
}

static int extreme(lua_State *L, bool largest)
{
	struct array *a = tc_check_array(L, 1);
	struct plain p = plain_of(L, a);
	bool long_integers = a->dtype == DT_I64 || a->dtype == DT_U64;
	int64_t where = long_integers ? tc_extreme_integer(&p, largest) : tc_extreme(&p, largest);

	tc_push_element(L, a->dtype, tc_get_element(a->dtype, p.data, where));
	push_coordinates(L, a, where);
	return 2;
}

static int array_max(lua_State *L)
{
	return extreme(L, true);
}

static int array_min(lua_State *L)
{
	return extreme(L, false);
}

static int array_equal(lua_State *L)
{
	struct array *a = tc_check_array(L, 1), *b = tc_check_array(L, 2);
	bool same = a->rank == b->rank && a->dtype == b->dtype;
	for (int i = 0; same && i < a->rank; i++)
		same = a->shape[i] == b->shape[i];
	if (same) {
		/* The bits that fill the last byte of a packed type do not count. */
		int64_t bits = a->elements * tc_dtypes[a->dtype].bits;
		struct plain one, other;
		plain_pair(L, a, b, &one, &other);
		const uint8_t *left = one.data, *right = other.data;
		same = memcmp(left, right, (size_t)(bits / 8)) == 0;
		if (same && bits % 8)
			same = ((left[bits / 8] ^ right[bits / 8]) & ((1 << bits % 8) - 1)) == 0;
	}
	lua_pushboolean(L, same);
	return 1;
}

/* ---- reference ------------------------------------------------------------------------------ */

/* A matrix as doubles in new memory on the stack; transposed on the way if asked. */
static const double *push_matrix(lua_State *L, const struct array *a, bool transpose)
{
	double *out = lua_newuserdatauv(L, (size_t)a->elements * sizeof *out, 0);
	const void *data = tc_array_data(L, a);

	if (!transpose) {
		tc_load_doubles(a->dtype, data, 0, a->elements, out);
	} else {
		int64_t rows = a->shape[0], columns = a->shape[1];
		double chunk[CHUNK];
		for (int64_t i = 0; i < rows; i++) {
			for (int64_t j = 0; j < columns; j += CHUNK) {
				int64_t n = columns - j < CHUNK ? columns - j : CHUNK;
				tc_load_doubles(a->dtype, data, i * columns + j, n, chunk);
				for (int64_t c = 0; c < n; c++)
					out[(j + c) * rows + i] = chunk[c];
			}
		}
	}
	lua_pop(L, 1);
	return out;
}

/* Stays on the stack: the options may change meanwhile. */
static const struct array *option_bias(lua_State *L, int options, int64_t n)
{
	if (!tc_option_push(L, options, "bias"))
		return NULL;
	if (!tc_test_object(L, -1, TC_ARRAY))
		tc_argerror(L, options, "option 'bias' must be an array, got %s",
			    tc_describe(L, -1));
	struct array *bias = tc_check_array(L, lua_gettop(L));
	if (bias->elements != n)
		tc_argerror(L, options, "option 'bias' must have %lld elements, got %s",
			    (long long)n, tc_array_text(L, bias));
	return bias;
}

static int reference_matmul(lua_State *L)
{
	static const char *const names[] = {"transpose_a", "transpose_b", "bias", "relu", NULL};
	struct array *a = tc_check_array(L, 1), *b = tc_check_array(L, 2);
	struct matmul p = {0};
	struct interrupt interrupt;

	tc_options(L, 3, names);
	bool transpose_a = tc_option_boolean(L, 3, "transpose_a", false);
	bool transpose_b = tc_option_boolean(L, 3, "transpose_b", false);
	if (a->rank != 2 || b->rank != 2)
		return tc_argerror(L, a->rank != 2 ? 1 : 2, "matrices expected, got %s and %s",
				   tc_array_text(L, a), tc_array_text(L, b));
	p.m = a->shape[transpose_a];
	p.k = a->shape[!transpose_a];
	p.n = b->shape[!transpose_b];
	if (b->shape[transpose_b] != p.k)
		return tc_argerror(L, 2, "inner sizes differ: %s%s times %s%s", tc_array_text(L, a),
				   transpose_a ? " transposed" : "", tc_array_text(L, b),
				   transpose_b ? " transposed" : "");
	p.relu = tc_option_boolean(L, 3, "relu", false);
	const struct array *bias = option_bias(L, 3, p.n);
	p.a = push_matrix(L, a, transpose_a);
	p.b = push_matrix(L, b, transpose_b);
	p.bias = bias ? push_matrix(L, bias, false) : NULL;
	int64_t shape[2] = {p.m, p.n};
	struct array *out = tc_new_array_on(L, a->device, DT_F64, 2, shape);
	p.out = tc_array_open(L, out);
	p.stop = tc_interrupt_seen;
	tc_interrupt_begin(&interrupt);
	bool done = tc_reference_matmul(&p);
	tc_interrupt_end(&interrupt);
	if (!done)
		return tc_error(L, "tc.reference.matmul was interrupted");
	tc_array_write(L, out, p.out);
	lua_pop(L, 1);
	return 1;
}

static int module_clock(lua_State *L)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	lua_pushnumber(L, (lua_Number)now.tv_sec + (lua_Number)now.tv_nsec * 1e-9);
	return 1;
}

/* ---- registration ------------------------------------------------------------------------------
 */

static const struct tc_function module_functions[] = {
	{"randn", module_randn,
	 "randn(shape: integer[], dtype: DType, opts?: {seed?: integer, mean?: number, std?: "
	 "number, "
	 "device?: tcmma.device|string}) -> tcmma.array\n"
	 "A new array of normal random numbers. Element i depends on the seed and on i alone, and "
	 "is the\n"
	 "same on every machine (Philox4x32-10 and Box-Muller, without functions of libm). Arrays "
	 "made\n"
	 "without a seed are numbered: a script that runs again gets the same ones."},
	{"rand", module_rand,
	 "rand(shape: integer[], dtype: DType, opts?: {seed?: integer, low?: number, high?: "
	 "number, "
	 "device?: tcmma.device|string}) -> tcmma.array\n"
	 "A new array of uniform random numbers from `low` (0) to below `high` (1); rounding to a "
	 "narrow\n"
	 "type can reach `high`. Reproducible as `randn` is."},
	{"randint", module_randint,
	 "randint(shape: integer[], dtype: DType, opts: {high: integer, low?: integer, seed?: "
	 "integer, "
	 "device?: tcmma.device|string}) -> tcmma.array\n"
	 "A new array of random integers, `low` (0) to `high - 1`. Reproducible as `randn` is."},
	{"allclose", module_allclose,
	 "allclose(a: tcmma.array, b: tcmma.array, opts?: {rtol?: number, atol?: number, "
	 "equal_nan?: "
	 "boolean}) -> boolean, table\n"
	 "Whether |a - b| <= atol + rtol |b| for every element, computed in double. `b` is the "
	 "reference;\n"
	 "the types may differ. `rtol` is two units in the last place of the coarser type unless "
	 "given,\n"
	 "at least 1e-5; `atol` is 1e-5. NaN equals NaN only with `equal_nan`.\n\n"
	 "The second result says how far they are apart: `max_abs_error` and `index`, its "
	 "coordinates\n"
	 "(from 0), with the values `a` and `b` there; `max_rel_error`; `relative_rms`, the root "
	 "mean\n"
	 "square of the error over that of `b`; `mismatches`, `nan_mismatches` and "
	 "`first_mismatch`\n"
	 "(coordinates, nil when there is none); `rtol`, `atol`, `elements`. `tostring` sums it "
	 "up."},
	{"max_error", module_max_error,
	 "max_error(a: tcmma.array, b: tcmma.array) -> number, integer[]\n"
	 "The greatest |a - b| and its coordinates (from 0); NaN where only one has a NaN."},
	{"clock", module_clock,
	 "clock() -> number\n"
	 "Seconds of the host's monotonic clock, to take differences of."},
	{NULL, NULL, NULL},
};

static const struct tc_function array_methods[] = {
	{"sum", array_sum,
	 "sum() -> number\n"
	 "The sum of all elements: of floats compensated in double, in order; of integers modulo "
	 "2^64."},
	{"max", array_max,
	 "max() -> number, integer[]\n"
	 "The greatest element and its coordinates (from 0), the first if there are several; NaN "
	 "wins."},
	{"min", array_min,
	 "min() -> number, integer[]\n"
	 "The least element and its coordinates (from 0), the first if there are several; NaN "
	 "wins."},
	{"equal", array_equal,
	 "equal(other: tcmma.array) -> boolean\n"
	 "Whether shape, type and every bit are the same; NaNs with the same bits are equal, 0 and "
	 "-0 are\n"
	 "not."},
	{NULL, NULL, NULL},
};

static const struct tc_function reference_functions[] = {
	{"matmul", reference_matmul,
	 "matmul(a: tcmma.array, b: tcmma.array, opts?: {transpose_a?: boolean, transpose_b?: "
	 "boolean, "
	 "bias?: tcmma.array, relu?: boolean}) -> tcmma.array\n"
	 "The product in double precision on the host, for tests: products are summed over "
	 "ascending k,\n"
	 "then `bias` (one element a column) is added, then negative results become 0 with `relu`. "
	 "A\n"
	 "float64 array on the device of `a`."},
	{NULL, NULL, NULL},
};

void tc_open_host(lua_State *L)
{
	tc_functions(L, "tcmma", module_functions);
	lua_newtable(L);
	tc_functions(L, "tcmma.reference", reference_functions);
	lua_setfield(L, -2, "reference");

	luaL_getmetatable(L, TC_ARRAY);
	lua_getfield(L, -1, "__methods");
	tc_functions(L, TC_ARRAY, array_methods);
	lua_pop(L, 2);

	luaL_newmetatable(L, "tcmma.comparison");
	lua_pushcfunction(L, comparison_tostring);
	lua_setfield(L, -2, "__tostring");
	lua_pop(L, 1);
}

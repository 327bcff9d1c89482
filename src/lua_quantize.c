/*
 * Block-scaled and sparse operands made on the host.
 */
#include "host.h"
#include "lua_tc.h"

#include <string.h>

/* ---- arguments ----------------------------------------------------------------------- */

/*
 * The dimension along K of a matrix, of which `axis` says which it is (1, the last, unless
 * given); an array of `length` elements along it, else like `a`, has lines of these steps.
 */
static int option_axis(lua_State *L, int options)
{
	return (int)tc_option_integer(L, options, "axis", 1, 0, 1);
}

static struct array *check_matrix(lua_State *L, int arg)
{
	struct array *a = tc_check_array(L, arg);

	if (a->rank != 2)
		tc_argerror(L, arg, "a matrix expected, got %s; array:reshape{-1, K} makes one",
			    tc_array_text(L, a));
	return a;
}

static struct lines lines_of(const struct array *a, int axis, void *data)
{
	struct lines l = {.dtype = a->dtype,
			  .data = data,
			  .rows = a->shape[1 - axis],
			  .length = a->shape[axis],
			  .row_step = axis ? a->shape[1] : 1,
			  .step = axis ? 1 : a->shape[1]};
	return l;
}

/* The contents, only to read, until Lua allocates again; leaves one value on the stack. */
static struct lines read_lines(lua_State *L, const struct array *a, int axis)
{
	union {
		const void *contents;
		void *data;
	} u = {tc_array_data(L, a)};
	return lines_of(a, axis, u.data);
}

/* As tc_array_open, all zero. */
static void *open_zeroed(lua_State *L, const struct array *a)
{
	return memset(tc_array_open(L, a), 0, (size_t)a->bytes);
}

/* A new matrix of `rows` lines along the axis; leaves it on the stack. */
static struct array *new_matrix(lua_State *L, struct device *d, enum dtype t, int axis,
				int64_t rows, int64_t length)
{
	int64_t shape[2] = {axis ? rows : length, axis ? length : rows};
	return tc_new_array_on(L, d, t, 2, shape);
}

static const char *dtype_names(lua_State *L, const enum dtype *list)
{
	luaL_Buffer b;
	luaL_buffinit(L, &b);
	for (int i = 0; list[i] != DT_COUNT; i++) {
		luaL_addstring(&b, i ? " or " : "");
		luaL_addstring(&b, tc_dtypes[list[i]].name);
	}
	luaL_pushresult(&b);
	return lua_tostring(L, -1);
}

/* The option `dtype`, one of the list, the first unless given. */
static enum dtype option_dtype(lua_State *L, int options, const char *what, const enum dtype *list)
{
	if (!tc_option_push(L, options, "dtype"))
		return list[0];
	enum dtype t = tc_check_dtype(L, lua_gettop(L));
	lua_pop(L, 1);
	for (int i = 0; list[i] != DT_COUNT; i++)
		if (list[i] == t)
			return t;
	tc_argerror(L, options, "elements of %s are %s, not %s", what, dtype_names(L, list),
		    tc_dtypes[t].name);
	return t;
}

/* ---- block scaling -------------------------------------------------------------------- */

static const struct block_format *check_format(lua_State *L, int arg)
{
	const char *name = lua_type(L, arg) == LUA_TSTRING ? lua_tostring(L, arg) : "";

	for (const struct block_format *f = tc_block_formats; f->name; f++)
		if (strcmp(f->name, name) == 0)
			return f;
	tc_argerror(L, arg, "\"mxfp8\", \"mxfp6\", \"mxfp4\" or \"nvfp4\" expected, got %s",
		    tc_describe(L, arg));
	return NULL;
}

/* The sizes that kinds of MMA have, dense and sparse. */
static int option_block(lua_State *L, int options, const struct block_format *f)
{
	int block = (int)tc_option_integer(L, options, "block", f->block, 1, 64);

	if (block != 16 && block != 32 && block != 64)
		tc_argerror(L, options, "option 'block' must be 16, 32 or 64, got %d", block);
	return block;
}

/* A positive number that is a float32; 0 where the option is absent. */
static float option_global(lua_State *L, int options)
{
	if (!tc_option_push(L, options, "global_scale"))
		return 0;
	lua_Number x = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
	if (!(x > 0) || !((float)x > 0) || (float)x > 0x1.fffffep127f)
		tc_argerror(L, options,
			    "option 'global_scale' must be a positive number within float32, got "
			    "%s",
			    tc_describe(L, -1));
	lua_pop(L, 1);
	return (float)x;
}

static bool option_up(lua_State *L, int options, const struct block_format *f)
{
	const char *word = tc_option_string(L, options, "scale_rounding", NULL);

	if (!word)
		return false;
	if (strcmp(word, "up") != 0 && strcmp(word, "down") != 0)
		tc_argerror(L, options,
			    "option 'scale_rounding' must be \"down\" or \"up\", got "
			    "\"%s\"",
			    word);
	if (f->scale != DT_E8M0)
		tc_argerror(L, options,
			    "option 'scale_rounding' is for scales that are powers of two; those "
			    "of %s are rounded to nearest",
			    f->name);
	return strcmp(word, "up") == 0;
}

static void check_source(lua_State *L, int arg, const struct array *a)
{
	if (tc_dtypes[a->dtype].klass != 'F' || a->dtype == DT_E8M0)
		tc_argerror(L, arg, "an array of floating-point numbers expected, got %s",
			    tc_array_text(L, a));
}

static int module_quantize(lua_State *L)
{
	static const char *const names[] = {"dtype",          "block",        "axis",
					    "scale_rounding", "global_scale", NULL};
	struct array *a = check_matrix(L, 1);
	const struct block_format *f = check_format(L, 2);

	lua_settop(L, 3);
	tc_options(L, 3, names);
	check_source(L, 1, a);
	enum dtype element = option_dtype(L, 3, f->name, f->element);
	int axis = option_axis(L, 3), block = option_block(L, 3, f);
	bool up = option_up(L, 3, f), two_levels = f->scale != DT_E8M0;
	if (!two_levels && tc_option_push(L, 3, "global_scale"))
		return tc_argerror(L, 3, "option 'global_scale' is for nvfp4; %s has none",
				   f->name);
	int64_t rows = a->shape[1 - axis], length = a->shape[axis];
	if (length % block)
		return tc_argerror(
			L, 1,
			"dimension %d of %s is no multiple of the %d elements that share "
			"a scale; pad it with zeros to %lld",
			axis, tc_array_text(L, a), block,
			(long long)((length / block + 1) * block));
	float global = two_levels ? option_global(L, 3) : 1;
	struct array *out = new_matrix(L, a->device, element, axis, rows, length);
	struct array *scales = new_matrix(L, a->device, f->scale, 1, rows, length / block);
	struct lines elements = lines_of(out, axis, tc_array_open(L, out));
	void *codes = tc_array_open(L, scales);
	struct lines source = read_lines(L, a, axis);
	if (global == 0)
		global = tc_global_scale(&(struct plain){a->dtype, source.data, a->elements});
	tc_quantize(f, block, &source, up, global, &elements, codes);
	tc_array_write(L, out, elements.data);
	tc_array_write(L, scales, codes);
	lua_pop(L, 3);
	if (!two_levels)
		return 2;
	lua_pushnumber(L, (lua_Number)global);
	return 3;
}

/* Two-dimensional scales of a type that scales have. */
static struct array *check_scales(lua_State *L, int arg)
{
	struct array *a = tc_check_array(L, arg);

	if (a->rank != 2 || (a->dtype != DT_E8M0 && a->dtype != DT_E4M3))
		tc_argerror(L, arg,
			    "scales expected: float8_e8m0fnu or float8_e4m3fn (rows, K / block), "
			    "got %s",
			    tc_array_text(L, a));
	return a;
}

static int module_dequantize(lua_State *L)
{
	static const char *const names[] = {"axis", "global_scale", "dtype", NULL};
	static const enum dtype results[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_COUNT};
	struct array *a = check_matrix(L, 1), *s = check_scales(L, 2);

	lua_settop(L, 3);
	tc_options(L, 3, names);
	check_source(L, 1, a);
	int axis = option_axis(L, 3);
	enum dtype t = option_dtype(L, 3, "the result", results);
	float global = option_global(L, 3);
	int64_t rows = a->shape[1 - axis], length = a->shape[axis];
	if (s->shape[0] != rows || length % s->shape[1])
		return tc_argerror(L, 2,
				   "scales of %s along dimension %d have %lld rows, and a divisor "
				   "of %lld columns; got %s",
				   tc_array_text(L, a), axis, (long long)rows, (long long)length,
				   tc_array_text(L, s));
	struct array *out = new_matrix(L, a->device, t, axis, rows, length);
	const void *codes = tc_array_copy(L, s);
	struct lines result = lines_of(out, axis, tc_array_open(L, out));
	struct lines elements = read_lines(L, a, axis);
	tc_dequantize(&elements, s->dtype, codes, length / s->shape[1],
		      global > 0 ? (double)global : 1, &result);
	tc_array_write(L, out, result.data);
	lua_pop(L, 3);
	return 1;
}

static int module_interleave_scales(lua_State *L)
{
	static const char *const names[] = {"layout", NULL};
	static const char *const layouts[] = {"scales", "b_scales_m64_collective", NULL};
	struct array *a = check_scales(L, 1);

	lua_settop(L, 2);
	tc_options(L, 2, names);
	const char *layout = tc_option_word(L, 2, "layout", layouts);
	bool halves = layout == layouts[1];
	if (halves && (a->shape[0] > 256 || a->shape[0] % 2))
		return tc_argerror(L, 1,
				   "the layout b_scales_m64_collective holds an even number of "
				   "rows up to 256, got %s",
				   tc_array_text(L, a));
	int64_t shape[4] = {halves ? 1 : (a->shape[0] + 127) / 128, (a->shape[1] + 3) / 4,
			    halves ? 64 : 32, 16};
	struct array *out = tc_new_array_on(L, a->device, a->dtype, 4, shape);
	void *data = open_zeroed(L, out);
	tc_interleave_scales(tc_array_data(L, a), a->shape[0], a->shape[1], halves, data);
	tc_array_write(L, out, data);
	lua_pop(L, 2);
	return 1;
}

/* ---- sparsity -------------------------------------------------------------------------- */

static const struct sparse_pattern *option_pattern(lua_State *L, int options, enum dtype t)
{
	const struct sparse_pattern *standard = tc_sparse_default(t), *p = tc_sparse_patterns;
	const char *word = tc_option_string(L, options, "pattern", standard->name);

	while (p->name && strcmp(p->name, word) != 0)
		p++;
	/* 4-bit elements have two: those of kind::f8f6f4 are kept one by one. */
	if (p == standard || (t == DT_E2M1 && p == tc_sparse_patterns))
		return p;
	tc_argerror(L, options, "sparse %s has the pattern \"%s\"%s, got \"%s\"", tc_dtypes[t].name,
		    standard->name, t == DT_E2M1 ? " or \"2:4\"" : "", word);
	return NULL;
}

static struct array *check_sparse(lua_State *L, int arg)
{
	struct array *a = check_matrix(L, arg);

	if (!(tc_sparse_types >> a->dtype & 1))
		tc_argerror(L, arg, "no mma has sparse operands of %s", tc_dtypes[a->dtype].name);
	return a;
}

enum {
	METADATA_RANK = 4
};

/* Of an array of metadata: tiles of 128 rows and 64 entries. */
static void metadata_shape(int64_t rows, int64_t entries, int64_t shape[METADATA_RANK])
{
	shape[0] = (rows + 127) / 128;
	shape[1] = (entries + 63) / 64;
	shape[2] = 128;
	shape[3] = 64;
}

static const char *const sparse_options[] = {"axis", "pattern", NULL};

static int module_sparsify(lua_State *L)
{
	struct array *a = check_sparse(L, 1);

	lua_settop(L, 2);
	tc_options(L, 2, sparse_options);
	int axis = option_axis(L, 2);
	const struct sparse_pattern *p = option_pattern(L, 2, a->dtype);
	int64_t rows = a->shape[1 - axis], length = a->shape[axis];
	int group = p->group * p->unit;
	if (length % group)
		return tc_argerror(
			L, 1,
			"dimension %d of %s is no multiple of the %d elements of a group "
			"of the pattern %s; pad it with zeros",
			axis, tc_array_text(L, a), group, p->name);
	int64_t shape[METADATA_RANK];
	metadata_shape(rows, tc_sparse_entries(p, length), shape);
	struct array *values = new_matrix(L, a->device, a->dtype, axis, rows, length / 2);
	struct array *metadata = tc_new_array_on(L, a->device, DT_U2, METADATA_RANK, shape);
	struct lines kept = lines_of(values, axis, tc_array_open(L, values));
	void *entries = tc_array_open(L, metadata);
	struct lines source = read_lines(L, a, axis);
	tc_sparsify(p, &source, &kept, entries);
	tc_array_write(L, values, kept.data);
	tc_array_write(L, metadata, entries);
	lua_pop(L, 3);
	return 2;
}

static int module_densify(lua_State *L)
{
	struct array *a = check_sparse(L, 1), *m = tc_check_array(L, 2);

	lua_settop(L, 3);
	tc_options(L, 3, sparse_options);
	int axis = option_axis(L, 3);
	const struct sparse_pattern *p = option_pattern(L, 3, a->dtype);
	int64_t rows = a->shape[1 - axis], length = 2 * a->shape[axis], shape[METADATA_RANK];
	metadata_shape(rows, tc_sparse_entries(p, length), shape);
	if (length % (p->group * p->unit))
		return tc_argerror(L, 1, "%s is no result of sparsify with the pattern %s",
				   tc_array_text(L, a), p->name);
	if (m->dtype != DT_U2 || m->rank != METADATA_RANK ||
	    memcmp(m->shape, shape, sizeof shape) != 0)
		return tc_argerror(L, 2,
				   "the metadata of %s with the pattern %s is u2[%lld, %lld, 128, "
				   "64], got %s",
				   tc_array_text(L, a), p->name, (long long)shape[0],
				   (long long)shape[1], tc_array_text(L, m));
	struct array *out = new_matrix(L, a->device, a->dtype, axis, rows, length);
	const void *entries = tc_array_copy(L, m);
	struct lines result = lines_of(out, axis, open_zeroed(L, out));
	struct lines values = read_lines(L, a, axis);
	if (!tc_densify(p, &values, entries, &result))
		return tc_argerror(L, 2, "a nibble of the metadata %s",
				   p->keep == 1 ? "is neither 4 nor 14"
						: "selects one position twice");
	tc_array_write(L, out, result.data);
	lua_pop(L, 3);
	return 1;
}

struct positions {
	const struct array *array;
	enum dtype operand;
	struct err e;
};

static void check_positions(void *arg)
{
	struct positions *p = arg;

	tc_check_positions(&p->e, p->array->dtype, p->array->rank, p->array->shape, p->operand);
}

static int module_format_sparse_metadata(lua_State *L)
{
	struct positions p = {.array = tc_check_array(L, 1), .operand = tc_check_dtype(L, 2)};

	tc_call(L, &p.e, check_positions, &p);
	int64_t rows = p.array->shape[0], groups = p.array->shape[1];
	int64_t shape[METADATA_RANK];
	metadata_shape(rows, groups * 2, shape);
	struct array *out = tc_new_array_on(L, p.array->device, DT_U2, METADATA_RANK, shape);
	void *entries = tc_array_open(L, out);
	const void *pairs = tc_array_data(L, p.array);
	int bits = tc_dtypes[p.operand].bits;
	if (!tc_positions_differ(bits, pairs, rows * groups))
		return tc_argerror(L, 1, "a pair of positions in %s is %s",
				   tc_array_text(L, p.array),
				   bits == 32 ? "neither 0, 1 (the first of two is kept) nor 2, 3"
					      : "one position twice");
	tc_format_metadata(bits, pairs, rows, groups, entries);
	tc_array_write(L, out, entries);
	lua_pop(L, 2);
	return 1;
}

/* ---- registration -------------------------------------------------------------------------- */

static const struct tc_function module_functions[] = {
	{"quantize", module_quantize,
	 "quantize(array: tcmma.array, format: \"mxfp8\"|\"mxfp6\"|\"mxfp4\"|\"nvfp4\", opts?: "
	 "{dtype?: DType, block?: integer, axis?: integer, scale_rounding?: \"down\"|\"up\", "
	 "global_scale?: "
	 "number}) -> tcmma.array, tcmma.array, number?\n"
	 "A matrix (rows, K) of floating-point numbers as narrow elements and a scale for each "
	 "block "
	 "of K.\n"
	 "Returns the elements (rows, K) and the scales (rows, K / block); of nvfp4 also the "
	 "global "
	 "scale.\n"
	 "An element stands for element * scale (* global scale); `dequantize` computes that.\n\n"
	 "| format | elements | scales | block |\n"
	 "|---|---|---|---|\n"
	 "| `mxfp8` | `float8_e4m3fn`, or `float8_e5m2` by `dtype` | `float8_e8m0fnu` | 32 |\n"
	 "| `mxfp6` | `float6_e3m2fn`, or `float6_e2m3fn` by `dtype` | `float8_e8m0fnu` | 32 |\n"
	 "| `mxfp4` | `float4_e2m1fn` | `float8_e8m0fnu` | 32 |\n"
	 "| `nvfp4` | `float4_e2m1fn` | `float8_e4m3fn` | 16 |\n\n"
	 "The mx formats follow the OCP Microscaling specification 1.0: the scale is the greatest "
	 "power of\n"
	 "two not above the block's greatest magnitude, divided by the greatest power of two of "
	 "the "
	 "element\n"
	 "type; elements round to nearest even and saturate. With `scale_rounding = \"up\"` the "
	 "scale is the\n"
	 "least power of two with which nothing saturates. nvfp4: the global scale is the array's "
	 "greatest\n"
	 "magnitude over 448 * 6 as float32, unless `global_scale` gives it; a block's scale is "
	 "its "
	 "greatest\n"
	 "magnitude over 6 and over the global scale, rounded to nearest. A block with a NaN or an "
	 "infinity gets\n"
	 "a scale of NaN, which makes all of it NaN; a block of zeros the least scale.\n\n"
	 "`block` is another number of elements a scale, 16, 32 or 64: twice the format's for "
	 "both\n"
	 "operands of a sparse `mma`, 16 for mxfp4 in `kind::mxf4nvf4`. "
	 "`axis` is the dimension along K, from 0; with `axis = 0` the array is (K, rows), as B of "
	 "`mma` is\n"
	 "written; the scales are (rows, K / block) all the same. `interleave_scales` brings them "
	 "into the\n"
	 "order that a kernel copies to TMEM."},
	{"dequantize", module_dequantize,
	 "dequantize(elements: tcmma.array, scales: tcmma.array, opts?: {axis?: integer, "
	 "global_scale?: number, dtype?: DType}) -> tcmma.array\n"
	 "The numbers that `quantize` made elements and scales (rows, K / block) of: element * "
	 "scale "
	 "(* global\n"
	 "scale), rounded once to `dtype` (`float32`, or `float64`, `float16`, `bfloat16`)."},
	{"interleave_scales", module_interleave_scales,
	 "interleave_scales(scales: tcmma.array, opts?: {layout?: "
	 "\"scales\"|\"b_scales_m64_collective\"}) -> tcmma.array\n"
	 "Scales (rows, K / block) in the order of `async_copy_scales_to_tmem`: an array (rows / "
	 "128, K / block / 4, 32, 16),\n"
	 "both rounded up, the rest zero bytes. Tile [i, j], element (r, 4 c + b) is the scale of "
	 "row 128 i + 32 c + r\n"
	 "and block 4 j + b. With the layout `b_scales_m64_collective` (B of a collective mma with "
	 "M = 128) it is\n"
	 "(1, K / block / 4, 64, 16): lines 0 to 31 for the first half of the rows, 32 to 63 for "
	 "the "
	 "second."},
	{"sparsify", module_sparsify,
	 "sparsify(array: tcmma.array, opts?: {axis?: integer, pattern?: "
	 "\"2:4\"|\"4:8\"|\"1:2\"}) -> tcmma.array, tcmma.array\n"
	 "Prunes a matrix (M, K) for a sparse `mma`: the greatest magnitudes of each group stay, "
	 "of "
	 "equal ones the\n"
	 "first, NaNs before numbers. Returns the kept values (M, K / 2), and the metadata that "
	 "says "
	 "where they were.\n\n"
	 "| pattern | keeps | of | entries of metadata |\n"
	 "|---|---|---|---|\n"
	 "| `2:4` | 2 of 4 elements | 16- and 8-bit types; 6- and 4-bit ones of `kind::f8f6f4` | "
	 "K / 2 |\n"
	 "| `4:8` | 2 of 4 pairs of neighbours, by the sum of their magnitudes | `float4_e2m1fn`, "
	 "its default | K / 4 |\n"
	 "| `1:2` | 1 of 2 elements | `float32`, `tfloat32` | K |\n\n"
	 "The metadata is a `uint2` array (M / 128, entries / 64, 128, 64), both rounded up, in "
	 "the "
	 "order of tensor\n"
	 "memory: what `async_copy_sparse_metadata_to_tmem` takes. `axis` is the dimension along "
	 "K, "
	 "from 0: with\n"
	 "`axis = 0` the array is (K, M) and the values (K / 2, M)."},
	{"format_sparse_metadata", module_format_sparse_metadata,
	 "format_sparse_metadata(positions: tcmma.array, dtype: DType) -> tcmma.array\n"
	 "Metadata in the order of tensor memory, as `sparsify` makes it, from plain positions: a "
	 "`uint2` array (M, K / 4, 2)\n"
	 "with the positions of the two elements kept of each four (of four pairs of "
	 "`float4_e2m1fn`: "
	 "(M, K / 8, 2)). Of\n"
	 "32-bit types (M, K / 2, 2): 0, 1 where the first of two is kept, 2, 3 where the second "
	 "is. "
	 "`dtype` is that of A."},
	{"densify", module_densify,
	 "densify(values: tcmma.array, metadata: tcmma.array, opts?: {axis?: integer, pattern?: "
	 "\"2:4\"|\"4:8\"|\"1:2\"}) -> tcmma.array\n"
	 "The inverse of `sparsify`: the matrix (M, K) with zeros where elements were dropped."},
	{NULL, NULL, NULL},
};

void tc_open_quantize(lua_State *L)
{
	tc_functions(L, "tcmma", module_functions);
}

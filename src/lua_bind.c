/* Arrays bound to the arguments of a recorded kernel, and what a launch takes of them. */
#include "lua_bind.h"
#include "compile.h"

#include <stdio.h>
#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

static void expected_shape(struct strbuf *b, const struct alloc *a)
{
	tc_puts(b, "(");
	for (int i = 0; i < a->rank; i++) {
		if (a->shape[i].size < 0)
			tc_printf(b, "%s%s", i ? ", " : "", a->shape[i].name);
		else
			tc_printf(b, "%s%lld", i ? ", " : "", (long long)a->shape[i].size);
	}
	tc_puts(b, a->rank == 1 ? ",)" : ")");
}

struct mismatch {
	struct strbuf wanted, got; /* in the kernel's arena */
	const struct array *array;
	const struct alloc *argument;
};

static void write_mismatch(struct kern *k, void *arg)
{
	struct mismatch *m = arg;
	struct dim shape[TC_MAX_RANK] = {{0}};

	m->wanted.arena = m->got.arena = &k->arena;
	for (int d = 0; d < m->array->rank; d++)
		shape[d].size = m->array->shape[d];
	expected_shape(&m->wanted, m->argument);
	tc_print_shape(&m->got, shape, m->array->rank);
}

/* The further line of a message: which argument. */
static const char *push_argument(lua_State *L, const struct binding *b, int i, const char *more)
{
	return lua_pushfstring(L, "\n  argument %d of kernel '%s'%s", i + 1, b->kern->name, more);
}

static int shape_error(lua_State *L, const struct binding *b, int i, const char *more)
{
	struct mismatch m = {.array = b->arrays[i], .argument = b->kern->args[i]->alloc};

	tc_text_call(L, tc_check_kernel(L, 1), write_mismatch, &m);
	return tc_documented_error(L, ARGUMENT_SHAPE, push_argument(L, b, i, more), m.wanted.text,
				   m.got.text);
}

static void bind_dim(lua_State *L, struct binding *b, int i, int d, const struct dim *dim)
{
	int number = dim->value->axis;
	int64_t size = b->arrays[i]->shape[d];
	char more[256];

	if (!b->dim_args[number]) {
		b->dims[number] = size;
		b->dim_args[number] = i + 1;
	} else if (b->dims[number] != size) {
		snprintf(more, sizeof more,
			 ": dimension '%s' is %lld here, but %lld in argument %d", dim->name,
			 (long long)size, (long long)b->dims[number], b->dim_args[number]);
		shape_error(L, b, i, more);
	}
	if (size > TC_MAP_OUTSIDE)
		shape_error(L, b, i, ": a named dimension is at most 2^31 - 1");
}

static void bind_array(lua_State *L, struct binding *b, int i, int arg)
{
	const struct alloc *wanted = b->kern->args[i]->alloc;

	struct array *a = b->arrays[i] = tc_test_object(L, arg, TC_ARRAY);

	if (!a)
		tc_error(L, "argument %d of kernel '%s' must be an array, got %s", i + 1,
			 b->kern->name, tc_describe(L, arg));
	tc_check_live(L, a);
	if (a->rank != wanted->rank)
		shape_error(L, b, i, "");
	for (int d = 0; d < a->rank; d++) {
		if (wanted->shape[d].size < 0)
			bind_dim(L, b, i, d, &wanted->shape[d]);
		else if (a->shape[d] != wanted->shape[d].size)
			shape_error(L, b, i, "");
	}
	if (a->dtype != wanted->dtype)
		tc_documented_error(L, ARGUMENT_DTYPE, push_argument(L, b, i, ""),
				    tc_dtypes[wanted->dtype].name, tc_dtypes[a->dtype].name, "");
}

/* Calls function(dims); the sizes of the axes, as written. */
static void call_grid_function(lua_State *L, struct binding *b)
{
	const struct kern *k = b->kern;

	lua_createtable(L, 0, k->dim_count);
	tc_check_kernel(L, 1);
	for (int i = 0; i < k->dim_count; i++) {
		lua_pushinteger(L, (lua_Integer)b->dims[i]);
		lua_setfield(L, -2, k->dim_names[i]);
		tc_check_kernel(L, 1); /* a finalizer may have closed it */
	}
	lua_call(L, 1, 1);
	tc_check_kernel(L, 1); /* the function may have closed it */
	if (!lua_istable(L, -1))
		tc_error(L,
			 "the grid function of kernel '%s' must return a list of integers, got %s",
			 k->name, tc_describe(L, -1));
	if (luaL_len(L, -1) != k->grid_rank)
		tc_error(L,
			 "the grid function of kernel '%s' returned a list of %lld; grid_names has "
			 "%d",
			 k->name, (long long)luaL_len(L, -1), k->grid_rank);
	for (int i = 0; i < k->grid_rank; i++) {
		int ok = 0;
		lua_geti(L, -1, i + 1);
		b->grid[i] = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &ok) : 0;
		if (!ok || b->grid[i] < 1 || b->grid[i] > INT32_MAX)
			tc_error(L,
				 "the grid function of kernel '%s' returned %s for axis %d: an "
				 "integer >= 1 is "
				 "needed",
				 k->name, tc_describe(L, -1), i + 1);
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
}

static void read_grid(lua_State *L, struct binding *b)
{
	memcpy(b->grid, b->kern->grid, sizeof b->grid);
	if (lua_getiuservalue(L, 1, TC_KERNEL_GRID) == LUA_TFUNCTION)
		call_grid_function(L, b);
	else
		lua_pop(L, 1);
}

static void make_room(lua_State *L, struct binding *b, const struct kern *k)
{
	size_t n = (size_t)k->arg_count + 1, dims = (size_t)k->dim_count + 1;
	size_t size = n * sizeof *b->arrays + dims * (sizeof *b->dims + sizeof *b->dim_args);

	if (k->arg_count <= TC_FEW && k->dim_count <= TC_FEW) {
		b->arrays = b->few.arrays;
		b->dims = b->few.dims;
		b->dim_args = b->few.dim_args;
		return;
	}
	b->dims = lua_newuserdatauv(L, size, 0);
	tc_check_kernel(L, 1); /* a finalizer may have closed it */
	memset(b->dims, 0, size);
	b->arrays = (struct array **)(b->dims + dims);
	b->dim_args = (int *)(b->arrays + n);
}

void tc_bind_arguments(lua_State *L, struct binding *b, struct kern *k, int first)
{
	int count = lua_gettop(L) - first + 1;

	if (count != k->arg_count)
		tc_documented_error(L, ARGUMENT_COUNT,
				    lua_pushfstring(L, "\n  arguments of kernel '%s'", k->name),
				    lua_pushfstring(L, "%d array%s", k->arg_count,
						    k->arg_count == 1 ? "" : "s"),
				    lua_pushfstring(L, "%d value%s", count, count == 1 ? "" : "s"));
	luaL_checkstack(L, 16, "for a launch");
	make_room(L, b, k);
	b->kern = k;
	b->first = first;
	for (int i = 0; i < k->arg_count; i++)
		bind_array(L, b, i, first + i);
	read_grid(L, b);
}

/* ---- parameters of the compiled kernel ----------------------------------- */

/* Byte stride of an axis of a dense array. */
static uint64_t stride_bytes(const struct array *a, int axis)
{
	uint64_t elements = 1;

	for (int i = a->rank - 1; i > axis; i--)
		elements *= (uint64_t)a->shape[i];
	return elements * (uint64_t)tc_dtypes[a->dtype].bits / 8;
}

/* Axes first .. last as one: a coordinate counts them together in 32 bits. */
static uint64_t merged_size(lua_State *L, const struct array *a, int first, int last)
{
	uint64_t size = 1;

	for (int axis = first; axis <= last; axis++)
		size *= (uint64_t)a->shape[axis];
	if (first < last && size > TC_MAP_OUTSIDE)
		tc_error(
			L,
			"dimensions %d to %d of %s are copied as one, which would have %llu "
			"elements: at most 2^31 - 256 are possible.\n  What would fit: an array of "
			"fewer dimensions, of the same memory: array:reshape(shape)",
			first, last, tc_array_text(L, a), (unsigned long long)size);
	return size;
}

/* Packed elements are moved by the byte. */
static uint64_t moved_elements(lua_State *L, const struct param *p, const struct array *a,
			       uint64_t size)
{
	if (size % (uint64_t)p->per_element)
		tc_error(L,
			 "Rows of %s are no whole bytes: TMA moves %d of its elements at once, and "
			 "the last dimension has to be a multiple of that.",
			 tc_array_text(L, a), p->per_element);
	return size / (uint64_t)p->per_element;
}

static void fill_map(lua_State *L, struct tensormap *m, const struct param *p,
		     const struct array *a)
{
	static const int promotion_128 = 2;

	m->type = p->tma_type;
	m->rank = p->rank;
	m->address = a->address;
	if (p->axis[0] != a->rank - 1)
		tc_error(L, "Minormost stride must be 1, but got %llu",
			 (unsigned long long)(stride_bytes(a, p->axis[0]) * 8 /
					      (uint64_t)tc_dtypes[a->dtype].bits));
	for (int i = 0; i < p->rank; i++) {
		m->dims[i] = merged_size(L, a, p->axis[i] - p->collapsed[i], p->axis[i]);
		if (i)
			m->strides[i - 1] = stride_bytes(a, p->axis[i]);
		else
			m->dims[i] = moved_elements(L, p, a, m->dims[i]);
		m->box[i] = p->box[i];
		m->element_strides[i] = 1;
	}
	m->swizzle = p->atom_32 ? 4 : p->swizzle == 128 ? 3 : p->swizzle / 32;
	m->l2_promotion = promotion_128;
}

struct map_check {
	struct err e;
	const struct tensormap *map;
};

static void check_map(void *arg)
{
	struct map_check *c = arg;

	tc_check_tensormap(&c->e, c->map);
}

static void check_parameter(lua_State *L, const struct binding *b, const struct param *p,
			    const struct tensormap *m)
{
	struct map_check c; /* its text is large: not cleared at every launch */

	c.map = m;
	c.e.jump = NULL;
	c.e.code = NULL;
	c.e.text[0] = '\0';

	if (tc_protect(&c.e, check_map, &c))
		return;
	tc_error(L, "%s\n  argument %d of kernel '%s', %s", c.e.text, p->arg + 1, b->kern->name,
		 tc_array_text(L, b->arrays[p->arg]));
}

void tc_bind_params(lua_State *L, struct run *r, const struct binding *b, const struct program *p)
{
	for (int i = 0; i < p->param_count; i++) {
		const struct param *param = &p->params[i];
		struct launch_param *out = &r->params[i];
		bool is_array = param->kind == PARAM_TENSORMAP || param->kind == PARAM_POINTER;
		struct array *a = is_array ? b->arrays[param->arg] : NULL;
		uint32_t dim;

		r->arrays[i] = a;
		switch (param->kind) {
		case PARAM_TENSORMAP:
			out->is_tensormap = true;
			fill_map(L, &out->map, param, a);
			check_parameter(L, b, param, &out->map);
			break;
		case PARAM_POINTER:
			out->size = sizeof a->address;
			memcpy(out->bytes, &a->address, sizeof a->address);
			break;
		case PARAM_DIM:
			dim = (uint32_t)b->dims[param->arg];
			out->size = sizeof dim;
			memcpy(out->bytes, &dim, sizeof dim);
			break;
		case PARAM_PROFILE:
			out->size = sizeof r->profile;
			memcpy(out->bytes, &r->profile, sizeof r->profile);
			break;
		}
	}
}

/* ---- the grid ------------------------------------------------------------ */

/* The last axis is CUDA's x; a grid counts clusters. */
void tc_bind_grid(lua_State *L, struct launch *l, const struct binding *b, const struct program *p)
{
	static const int64_t limit[3] = {INT32_MAX, 65535, 65535};
	const struct kern *k = b->kern;
	const int64_t *grid = b->grid;
	int64_t blocks[3] = {1, 1, 1};

	if (tc_grid_folded(k)) {
		for (int i = 0; i < k->grid_rank; i++)
			if (__builtin_mul_overflow(blocks[0], grid[i], &blocks[0]))
				tc_error(L, "the grid of kernel '%s' is too large", k->name);
	} else {
		for (int i = 0; i < k->grid_rank; i++)
			blocks[k->grid_rank - 1 - i] = grid[i];
	}
	for (int i = 0; i < 3; i++) {
		if (p->cluster[i])
			blocks[i] *= p->cluster[i];
		if (blocks[i] > limit[i])
			tc_error(L,
				 "the grid of kernel '%s' has %lld blocks along CUDA's %c; at most "
				 "%lld",
				 k->name, (long long)blocks[i], "xyz"[i], (long long)limit[i]);
		l->grid[i] = (uint32_t)blocks[i];
	}
}

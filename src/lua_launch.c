/* Running a recorded kernel: arrays bound to its arguments, launch and emulation. */
#include "compile.h"
#include "lua_dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

enum {
	FEW = 12 /* arguments, named dimensions, parameters: up to so many need no userdata */
};

/* The arrays of one call and the sizes that they give to the named dimensions. */
struct binding {
	const struct kern *kern;
	struct array **arrays; /* `few`, or in a userdata on Lua's stack; so are the others */
	int64_t *dims;
	int *dim_args; /* the argument that gave it, 1-based */
	struct {
		struct array *arrays[FEW];
		int64_t dims[FEW];
		int dim_args[FEW];
	} few;
	int64_t grid[TC_MAX_RANK]; /* as written: the last axis is CUDA's x */
	int first;                 /* index of the first argument */
};

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

static int shape_error(lua_State *L, const struct binding *b, int i, const char *more)
{
	struct mismatch m = {.array = b->arrays[i], .argument = b->kern->args[i]->alloc};

	tc_text_call(L, tc_check_kernel(L, 1), write_mismatch, &m);
	return tc_error(L,
			"Argument shape mismatch: expected %s, got %s\n"
			"  argument %d of kernel '%s'%s",
			m.wanted.text, m.got.text, i + 1, b->kern->name, more);
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
	if (size > INT32_MAX)
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
		tc_error(L,
			 "Argument dtype mismatch: expected %s, got %s\n"
			 "  argument %d of kernel '%s'; array:astype(\"%s\") converts",
			 tc_dtypes[wanted->dtype].name, tc_dtypes[a->dtype].name, i + 1,
			 b->kern->name, tc_dtypes[wanted->dtype].name);
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

	if (k->arg_count <= FEW && k->dim_count <= FEW) {
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

/* Binds the arguments from index `first` on; may push a userdata that holds the tables. */
static void bind_arguments(lua_State *L, struct binding *b, struct kern *k, int first)
{
	int count = lua_gettop(L) - first + 1;

	if (count != k->arg_count)
		tc_error(L,
			 "Invalid argument structure: expected %d array%s, got %d value%s\n"
			 "  arguments of kernel '%s'",
			 k->arg_count, k->arg_count == 1 ? "" : "s", count, count == 1 ? "" : "s",
			 k->name);
	luaL_checkstack(L, 16, "for a launch");
	make_room(L, b, k);
	b->kern = k;
	b->first = first;
	for (int i = 0; i < k->arg_count; i++)
		bind_array(L, b, i, first + i);
	read_grid(L, b);
}

static void check_finished(lua_State *L, const struct kern *k)
{
	if (!k->finished)
		tc_error(L, "the recording of kernel '%s' is still open: call its :finish() first",
			 k->name);
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
		m->dims[i] = 1;
		for (int c = 0; c <= p->collapsed[i]; c++)
			m->dims[i] *= (uint64_t)a->shape[p->axis[i] - c];
		if (i)
			m->strides[i - 1] = stride_bytes(a, p->axis[i]);
		else
			m->dims[i] /= (uint64_t)p->per_element;
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

static void fill_params(lua_State *L, struct run *r, const struct binding *b,
			const struct program *p)
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
static void fill_grid(lua_State *L, struct launch *l, const struct binding *b,
		      const struct program *p)
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

/* ---- launch -------------------------------------------------------------- */

static void fill_run(lua_State *L, struct run *r, const struct binding *b, const struct program *p)
{
	struct launch *l = &r->launch;

	l->ptx = p->ptx;
	l->ptx_length = p->ptx_length;
	l->entry = p->entry;
	l->name = b->kern->name;
	memcpy(l->block, p->block, sizeof l->block);
	/* Clusters of one block are launched as none. */
	if (p->cluster[0] * p->cluster[1] * p->cluster[2] > 1)
		memcpy(l->cluster, p->cluster, sizeof l->cluster);
	l->smem = p->smem;
	l->programmatic = p->programmatic;
	l->symbol_count = p->symbol_count;
	l->symbols = p->symbols;
	l->line_count = p->line_count;
	l->lines = p->lines;
	l->checked = p->checked;
	fill_params(L, r, b, p);
	fill_grid(L, l, b, p);
}

/*
 * Pushes a run of the program with everything but its device's slot filled in.  Making it may
 * run finalizers, and those may close or free what was checked: so all is looked at once more.
 */
static struct run *prepare(lua_State *L, const struct binding *b, struct compiled **compiled,
			   bool report)
{
	const struct target *t = (*compiled)->target;
	struct run *r = tc_new_run(L, (*compiled)->program->param_count, report);
	struct compiled *c = *compiled = tc_kernel_program(L, 1, t);

	for (int i = 0; i < b->kern->arg_count; i++)
		tc_check_array(L, b->first + i);
	if (report)
		tc_run_holds(L, r, 1);
	fill_run(L, r, b, c->program);
	return r;
}

/* The run of a launch with few parameters: it ends with the call, and nothing is allocated. */
struct few_params {
	struct run run;
	struct launch_param params[FEW + 1];
	struct array *arrays[FEW + 1];
};

static struct run *prepare_few(lua_State *L, const struct binding *b, const struct program *p,
			       struct few_params *few)
{
	size_t n = (size_t)p->param_count;

	memset(&few->run, 0, sizeof few->run);
	memset(few->params, 0, n * sizeof *few->params);
	few->run.params = few->params;
	few->run.arrays = few->arrays;
	few->run.launch.params = few->params;
	few->run.launch.param_count = p->param_count;
	/* Compiling may have run finalizers that free arrays. */
	for (int i = 0; i < b->kern->arg_count; i++)
		tc_check_live(L, b->arrays[i]);
	fill_run(L, &few->run, b, p);
	return &few->run;
}

struct run *tc_kernel_run(lua_State *L, const struct program *p, int first)
{
	struct kern *k = tc_check_kernel(L, 1);
	struct binding b = {0};

	bind_arguments(L, &b, k, first);
	struct run *r = tc_new_run(L, p->param_count, false);
	tc_check_kernel(L, 1);
	for (int i = 0; i < k->arg_count; i++)
		tc_check_array(L, first + i);
	fill_run(L, r, &b, p);
	return r;
}

static struct device *choose_device(lua_State *L, const struct binding *b, int options)
{
	struct device *d = b->kern->arg_count ? b->arrays[0]->device : NULL;

	if (options && tc_option_push(L, options, "device")) {
		d = tc_to_device(L, lua_gettop(L));
		lua_pop(L, 1);
	}
	if (!d)
		d = tc_current_device(L);
	tc_check_kernel(L, 1);
	for (int i = 0; i < b->kern->arg_count; i++)
		if (b->arrays[i]->device != d)
			tc_error(L,
				 "argument %d of kernel '%s' lives on %s, but the launch is on %s; "
				 "copy it with "
				 "array:to(\"%s\")",
				 i + 1, b->kern->name, b->arrays[i]->device->name, d->name,
				 d->name);
	if (b->kern->target && strcmp(b->kern->target, d->target->name))
		tc_error(L,
			 "kernel '%s' is for %s, but %s runs %s. With TCMMA_DEVICE=emulator:%s, or "
			 "by "
			 ":emulate(), it runs on the emulator",
			 b->kern->name, b->kern->target, d->name, d->target->name, b->kern->target);
	return d;
}

/* A target of the emulator that takes the kernel which `refusing` does not; NULL: none. */
static const struct target *other_target(lua_State *L, const struct target *refusing)
{
	for (const struct target *const *t = tc_targets(); *t; t++)
		if (*t != refusing && tc_kernel_try_program(L, 1, *t))
			return *t;
	return NULL;
}

/* The program for a device; what a GPU's target refuses says where the kernel does run. */
static struct compiled *compile_for(lua_State *L, struct device *d)
{
	struct compiled *c = tc_kernel_try_program(L, 1, d->target);

	if (c)
		return c;
	struct err e = tc_check_kernel(L, 1)->err;
	const struct target *other = tc_device_is_emulator(d) ? NULL : other_target(L, d->target);
	if (other)
		tc_dev_fail(
			&e, e.kind, e.code,
			"%s\n  This is for %s, the target of %s. With TCMMA_DEVICE=emulator:%s the "
			"kernel runs on the emulator",
			e.text, d->target->name, d->name, other->name);
	tc_raise(L, &e);
	return NULL;
}

/* Arguments from `first` on; options at index `options`, 0: none. */
static int launch(lua_State *L, int options, int first)
{
	struct kern *k = tc_check_kernel(L, 1);
	struct binding b = {0};
	struct err e; /* its text is large: not cleared at every launch */
	struct few_params few;

	e.jump = NULL;
	e.kind = ERR_USER;
	e.pos = (struct srcpos){0};
	e.code = NULL;
	e.text[0] = '\0';
	check_finished(L, k);
	bind_arguments(L, &b, k, first);
	struct device *d = choose_device(L, &b, options);
	struct compiled *c = compile_for(L, d);
	struct run *r = c->program->param_count <= FEW ? prepare_few(L, &b, c->program, &few)
						       : prepare(L, &b, &c, false);
	if (options)
		r->options.stream = tc_option_stream(L, options, d);
	r->launch.cache = tc_loaded_slot(L, &c->loaded, d);
	if (tc_run(d, r, &e))
		return 0;
	if (e.kind == ERR_ENVIRONMENT)
		return tc_fail_device(L, &e);
	return tc_raise_program(L, c->program, &e);
}

static int kernel_call(lua_State *L)
{
	return launch(L, 0, 2);
}

static int kernel_launch(lua_State *L)
{
	static const char *const names[] = {"stream", "device", NULL};

	tc_check_kernel(L, 1);
	if (!lua_istable(L, 2) && !lua_isnoneornil(L, 2))
		return tc_argerror(L, 2, "options table expected, got %s", tc_describe(L, 2));
	if (lua_gettop(L) < 2)
		lua_settop(L, 2);
	tc_options(L, 2, names);
	return launch(L, lua_istable(L, 2) ? 2 : 0, 3);
}

/* The emulated device: the option's target, else the kernel's, the arrays' own, the current one's.
 */
static struct device *emulate_device(lua_State *L, const struct binding *b)
{
	const struct kern *k = b->kern;
	struct device *first = k->arg_count ? b->arrays[0]->device : NULL;
	bool given = lua_istable(L, 2) && tc_option_string(L, 2, "target", NULL);

	tc_check_kernel(L, 1);
	if (!given && !k->target && first)
		return tc_device_is_emulator(first) ? first
						    : tc_emulate_device(L, first->target->name);
	return tc_emulate_device(L, tc_kernel_target(L, 2, k)->name);
}

static int kernel_emulate(lua_State *L)
{
	static const char *const names[] = {"target",           "mode",    "numerics", "seed",
					    "max_instructions", "threads", "trace",    NULL};
	struct kern *k = tc_check_kernel(L, 1);
	struct binding b = {0};
	struct err e = {0};

	if (!lua_istable(L, 2) && !lua_isnoneornil(L, 2))
		return tc_argerror(L, 2, "options table expected, got %s", tc_describe(L, 2));
	if (lua_gettop(L) < 2)
		lua_settop(L, 2);
	tc_options(L, 2, names);
	check_finished(L, k);
	bind_arguments(L, &b, k, 3);
	struct device *d = emulate_device(L, &b);
	struct compiled *c = tc_kernel_program(L, 1, d->target);
	struct run *r = prepare(L, &b, &c, true);
	tc_read_run_options(L, 2, r);
	r->launch.cache = tc_loaded_slot(L, &c->loaded, d);
	if (!tc_run_report(L, d, r, &e))
		return tc_raise_program(L, c->program, &e);
	return 1;
}

static int kernel_profile(lua_State *L)
{
	static const char *const names[] = {"device", NULL};
	struct kern *k = tc_check_kernel(L, 1);
	struct binding b = {0};

	if (!lua_istable(L, 2) && !lua_isnoneornil(L, 2))
		return tc_argerror(L, 2, "options table expected, got %s", tc_describe(L, 2));
	if (lua_gettop(L) < 2)
		lua_settop(L, 2);
	tc_options(L, 2, names);
	check_finished(L, k);
	if (!k->profile)
		return tc_error(L, "kernel '%s' keeps no times: build it with profile = true",
				k->name);
	bind_arguments(L, &b, k, 3);
	struct device *d = choose_device(L, &b, lua_istable(L, 2) ? 2 : 0);
	struct compiled *c = compile_for(L, d);
	struct run *r = prepare(L, &b, &c, true);
	r->launch.cache = tc_loaded_slot(L, &c->loaded, d);
	return tc_kernel_profile(L, r, d, c->program);
}

static const struct tc_function methods[] = {
	{"profile", kernel_profile,
	 "profile(opts?: {device?: tcmma.device|string}, ...: tcmma.array) -> tcmma.report\n"
	 "Runs a kernel that was built with `profile = true`, waits for its end, and returns a "
	 "report "
	 "whose `:trace(path)` shows when each role did what. On a GPU the first thread of each "
	 "role "
	 "writes the time of its ops, in the first 64 CTAs, up to 4096 of a role; this takes some "
	 "time itself. On the emulator it is `:emulate{trace = true}`. A plain launch of such a "
	 "kernel writes nothing."},
	{"launch", kernel_launch,
	 "launch(opts?: {stream?: tcmma.stream, device?: tcmma.device|string}, ...: "
	 "tcmma.array)\n"
	 "Runs the kernel on the device of its arrays, as calling it does, on a stream of that "
	 "device. It is "
	 "compiled at the first launch on a target and kept. Shapes and dtypes must be those of "
	 "`args`; a named "
	 "dimension has one size in all of them. On a GPU it returns at once; on the emulator when "
	 "the grid has "
	 "ended, and a hazard of severity \"error\" is a Lua error with the whole report."},
	{"emulate", kernel_emulate,
	 "emulate(opts?: {target?: string, mode?: string, numerics?: string, seed?: integer, "
	 "max_instructions?: integer, threads?: integer, trace?: boolean}, ...: tcmma.array) -> "
	 "tcmma.report\n"
	 "Runs the kernel on the emulator wherever its arrays live (they are copied there and "
	 "back). `mode` is "
	 "`\"fast\"`, `\"check\"` or `\"random\"`, else that of `tc.config`; fast looks for no "
	 "races. `numerics` is `\"f32\"` or `\"hardware\"`. "
	 "Hazards are in "
	 "the report, not errors. `trace` keeps what "
	 "`report:trace` writes, in mode `\"check\"` unless `\"random\"` is given."},
	{NULL, NULL, NULL}};

void tc_open_launch(lua_State *L)
{
	luaL_getmetatable(L, TC_KERNEL);
	lua_pushcfunction(L, kernel_call);
	lua_setfield(L, -2, "__call");
	lua_getfield(L, -1, "__methods");
	tc_functions(L, TC_KERNEL, methods);
	lua_pop(L, 2);
	tc_open_program(L);
}

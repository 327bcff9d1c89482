/* Running a recorded kernel: launch and emulation. */
#include "lua_bind.h"

#include <string.h>

static void check_finished(lua_State *L, const struct kern *k)
{
	if (!k->finished)
		tc_error(L, "the recording of kernel '%s' is still open: call its :finish() first",
			 k->name);
}

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
	l->lints = p->lints;
	l->hint_count = p->hint_count;
	l->hints = p->hints;
	tc_bind_params(L, r, b, p);
	tc_bind_grid(L, l, b, p);
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
	struct launch_param params[TC_FEW + 1];
	struct array *arrays[TC_FEW + 1];
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

	tc_bind_arguments(L, &b, k, first);
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
	if (options || !b->kern->arg_count)
		tc_check_kernel(L, 1); /* the options or a finalizer may have closed it */
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
	tc_bind_arguments(L, &b, k, first);
	struct device *d = choose_device(L, &b, options);
	struct compiled *c = compile_for(L, d);
	struct run *r = c->program->param_count <= TC_FEW ? prepare_few(L, &b, c->program, &few)
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

/* Options stand at 2, and arrays from 3 on.  The index of the options, 0: none. */
static int call_options(lua_State *L, const char *const *names)
{
	if (lua_gettop(L) < 2)
		lua_settop(L, 2);
	return tc_options(L, 2, names) ? 2 : 0;
}

static int kernel_launch(lua_State *L)
{
	static const char *const names[] = {"stream", "device", NULL};

	tc_check_kernel(L, 1);
	return launch(L, call_options(L, names), 3);
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

	call_options(L, names);
	check_finished(L, k);
	tc_bind_arguments(L, &b, k, 3);
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

	int options = call_options(L, names);
	check_finished(L, k);
	if (!k->profile)
		return tc_error(L, "kernel '%s' keeps no times: build it with profile = true",
				k->name);
	tc_bind_arguments(L, &b, k, 3);
	struct device *d = choose_device(L, &b, options);
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

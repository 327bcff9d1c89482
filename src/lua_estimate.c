/* k:info's `estimate`: what the kernel would reach on a machine that need not be there. */
#include "estimate.h"
#include "lua_dev.h"

#include <stdio.h>

struct estimate_call {
	struct kern *kern;
	const struct program *program;
	const struct machine *machine;
	struct err *err;
	struct arena *arena;
	struct estimate out;
};

static void estimate(void *arg)
{
	struct estimate_call *c = arg;

	tc_estimate(c->kern, c->program, c->machine, c->err, c->arena, &c->out);
}

/* A table by path, each value times `factor`. */
static void set_paths(lua_State *L, const char *name, const double *value, double factor)
{
	lua_createtable(L, 0, PATH_COUNT + 1);
	for (int i = 0; i < PATH_COUNT; i++)
		tc_set_number(L, tc_path_names[i], value[i] * factor);
	tc_set_shown(L);
	lua_setfield(L, -2, name);
}

static void push(lua_State *L, const struct estimate *e)
{
	double k_steps = e->k_steps > 0 ? e->k_steps : 1;

	lua_createtable(L, 0, 21);
	tc_set_string(L, "machine", e->machine->name);
	tc_set_integer(L, "ctas_per_sm", e->ctas_per_sm);
	tc_set_string(L, "occupancy_limit", e->occupancy_limit);
	tc_set_integer(L, "ctas", e->ctas);
	tc_set_number(L, "waves", e->waves);
	tc_set_number(L, "clocks", e->clocks);
	tc_set_number(L, "tensor_clocks", e->tensor_clocks);
	tc_set_number(L, "flop", e->flop);
	tc_set_number(L, "k_steps", e->k_steps);
	tc_set_number(L, "l2_miss", e->miss);
	set_paths(L, "bytes", e->bytes, 1);
	set_paths(L, "bytes_per_k_step", e->bytes, 1 / k_steps);
	set_paths(L, "busy", e->busy, 1);
	lua_getfield(L, -1, "busy");
	tc_set_number(L, "tensor", e->tensor_busy);
	lua_pop(L, 1);
	tc_set_string(L, "bound", e->bound);
	tc_set_number(L, "utilization", e->utilization);
	tc_set_number(L, "tflops", e->tflops);
	tc_set_number(L, "peak_tflops", e->peak_tflops);
	tc_set_number(L, "microseconds", e->microseconds);
	luaL_setmetatable(L, "tcmma.estimate");
}

void tc_set_estimate(lua_State *L, struct kern *k, const struct program *p)
{
	struct err e = {0};
	struct arena arena = {0};
	struct estimate_call c = {.kern = k,
				  .program = p,
				  .machine = tc_machine_of(p->target),
				  .err = &e,
				  .arena = &arena};
	bool ok = c.machine && tc_protect(&e, estimate, &c);

	/* Nothing of the estimate lies in the arena. */
	tc_arena_free(&arena);
	if (ok) {
		push(L, &c.out);
		lua_setfield(L, -2, "estimate");
		return;
	}
	if (!c.machine)
		lua_pushfstring(L, "no machine with %s is modelled", p->target->name);
	else if (e.pos.line > 0)
		lua_pushfstring(L, "line %d: %s", e.pos.line, e.text);
	else
		lua_pushstring(L, e.text);
	lua_setfield(L, -2, "estimate_missing");
}

static double field(lua_State *L, int table, const char *name)
{
	lua_getfield(L, table, name);
	double value = lua_tonumber(L, -1);
	lua_pop(L, 1);
	return value;
}

static int to_string(lua_State *L)
{
	char text[512];

	lua_settop(L, 1);
	if (!lua_istable(L, 1))
		return tc_argerror(L, 1, "table expected, got %s", tc_describe(L, 1));
	lua_getfield(L, 1, "machine");
	lua_getfield(L, 1, "bound");
	lua_getfield(L, 1, "occupancy_limit");
	snprintf(text, sizeof text,
		 "%s: %.1f %% of the peak, %.0f TFLOP/s, %.1f us; bound by %s; %.0f CTAs in %.2f "
		 "waves, %.0f on an SM (%s)",
		 luaL_optstring(L, 2, "?"), 100 * field(L, 1, "utilization"), field(L, 1, "tflops"),
		 field(L, 1, "microseconds"), luaL_optstring(L, 3, "?"), field(L, 1, "ctas"),
		 field(L, 1, "waves"), field(L, 1, "ctas_per_sm"), luaL_optstring(L, 4, "?"));
	lua_pushstring(L, text);
	return 1;
}

void tc_open_estimate(lua_State *L)
{
	luaL_newmetatable(L, "tcmma.estimate");
	lua_pushcfunction(L, to_string);
	lua_setfield(L, -2, "__tostring");
	lua_pop(L, 1);
}

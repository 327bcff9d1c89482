/* Control flow: roles, ranges, loops, branches; what a role prints and asserts. */
#include "lua_tc.h"

#include <string.h>

/* ---- blocks -------------------------------------------------------------- */

/* A block being recorded: its op, and what the core needs to open it. */
struct block {
	struct op draft;
	enum scope_kind scope;
	struct role *role;
	struct lua_value lo, hi, step, cond;
	struct val *index; /* of a range */
	struct op *op;
};

static void open_block(struct kern *k, void *arg)
{
	struct block *b = arg;
	struct scope *s;

	b->op = tc_kern_record(k, &b->draft);
	s = tc_kern_open(k, b->scope, b->op, b->role);
	switch (b->scope) {
	case SC_RANGE:
		b->op->u.range.body = s;
		b->index = b->op->u.range.index;
		b->index->home = s;
		b->index->def = b->op;
		break;
	case SC_LOOP:
		b->op->u.loop.body = s;
		break;
	case SC_THEN:
		b->op->u.when.then = s;
		break;
	default:
		b->op->u.role.body = s;
		break;
	}
}

static void close_block(struct kern *k, void *arg)
{
	(void)arg;
	tc_kern_close(k);
}

static void check_function(lua_State *L, int arg)
{
	if (!lua_isfunction(L, arg))
		tc_argerror(L, arg, "function that records the block expected, got %s",
			    tc_describe(L, arg));
}

/* ---- range --------------------------------------------------------------- */

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void open_range(struct kern *k, void *arg)
{
	struct block *b = arg;
	struct range_op *r = &b->draft.u.range;
	int64_t step;

	r->lo = tc_value_node(k, &b->lo);
	r->hi = tc_value_node(k, &b->hi);
	r->step = tc_value_node(k, &b->step);
	if (tc_val_is_const(r->step, &step) && step <= 0)
		tc_fail(&k->err,
			"the step of a tc.range must be positive, got %lld; to count down, compute "
			"n - 1 - i in the body",
			(long long)step);
	r->index = tc_val_leaf(k, VAL_INDEX, VT_S32);
	r->index->divisor = smaller(r->lo->divisor, r->step->divisor);
	open_block(k, b);
}

static const char range_doc[] =
	"range(lo: integer|Scalar, hi: integer|Scalar, step: integer|Scalar, body: function)\n"
	"`range(n, body)` or `range(lo, hi, step, body)`: records a loop over the half-open range; "
	"`body` runs once and gets the counter, a "
	"recorded s32.\n\n"
	"Bounds and step may be recorded. The step is positive: a recorded one that is 0 or less "
	"when the kernel runs makes no turn. Bounds may lie anywhere in s32. A Lua `for` unrolls "
	"instead. What "
	"the body makes is not visible after it; a `tc.var` carries a value from turn to turn.";

static int control_range(lua_State *L)
{
	struct block b = {.draft = {.kind = OP_RANGE}, .scope = SC_RANGE};
	int body = lua_gettop(L) <= 2 ? 2 : 4;
	bool *done;

	if (lua_gettop(L) == 3 && lua_isfunction(L, 3))
		return tc_error(
			L, "tc.range takes (n, body) or (lo, hi, step, body): after lo and hi the "
			   "step is missing, 1 for instance");
	lua_settop(L, body);
	check_function(L, body);
	tc_check_index_value(L, body == 2 ? 1 : 2, &b.hi, "end of the range");
	if (body == 4) {
		tc_check_index_value(L, 1, &b.lo, "start of the range");
		tc_check_index_value(L, 3, &b.step, "step of the range");
	} else {
		b.lo.kind = b.step.kind = 'i';
		b.step.i = 1;
	}
	done = tc_push_guard(L);
	tc_record_call(L, open_range, &b);
	lua_pushvalue(L, body);
	tc_push_scalar(L, b.index);
	lua_call(L, 1, 0);
	tc_record_call(L, close_block, NULL);
	*done = true;
	return 0;
}

/* ---- loop ---------------------------------------------------------------- */

static bool has_stop(const struct scope *s)
{
	for (const struct op *o = s ? s->first : NULL; o; o = o->next)
		if (o->kind == OP_STOP || (o->kind == OP_WHEN && (has_stop(o->u.when.then) ||
								  has_stop(o->u.when.otherwise))))
			return true;
	return false;
}

static void close_loop(struct kern *k, void *arg)
{
	(void)arg;
	if (!has_stop(k->current))
		tc_fail(&k->err, "this tc.loop has no tc.stop and would never end");
	tc_kern_close(k);
}

static const char loop_doc[] = "loop(body: function)\n"
			       "Records a loop that runs until a `tc.stop(cond)` in it holds.";

static int control_loop(lua_State *L)
{
	struct block b = {.draft = {.kind = OP_LOOP}, .scope = SC_LOOP};
	bool *done;

	lua_settop(L, 1);
	check_function(L, 1);
	done = tc_push_guard(L);
	tc_record_call(L, open_block, &b);
	lua_pushvalue(L, 1);
	lua_call(L, 0, 0);
	tc_record_call(L, close_loop, NULL);
	*done = true;
	return 0;
}

static void record_stop(struct kern *k, void *arg)
{
	struct block *b = arg;

	b->draft.u.stop.cond = tc_value_node(k, &b->cond);
	tc_kern_record(k, &b->draft);
}

static const char stop_doc[] =
	"stop(cond?: boolean|Scalar)\n"
	"Leaves the innermost `tc.loop` if the condition holds (always, without one). It stands in "
	"the loop itself or in a `tc.when` in it.";

static int control_stop(lua_State *L)
{
	struct block b = {.draft = {.kind = OP_STOP}, .cond = {.kind = 'b', .i = 1}};

	if (!lua_isnone(L, 1))
		tc_check_condition(L, 1, &b.cond);
	tc_record_call(L, record_stop, &b);
	return 0;
}

/* ---- when ---------------------------------------------------------------- */

static void open_then(struct kern *k, void *arg)
{
	struct block *b = arg;

	b->draft.u.when.cond = b->cond.val;
	open_block(k, b);
}

static void open_else(struct kern *k, void *arg)
{
	struct block *b = arg;

	tc_kern_close(k);
	b->op->u.when.otherwise = tc_kern_open(k, SC_ELSE, b->op, NULL);
}

static const char when_doc[] =
	"when(cond: boolean|Scalar, body: function, else_body?: function)\n"
	"Records a branch. A Lua boolean, or a condition that is constant, records only the body "
	"that it chooses.";

static int control_when(lua_State *L)
{
	struct block b = {.draft = {.kind = OP_WHEN}, .scope = SC_THEN};
	struct kern *k;
	int64_t constant;
	bool *done;

	lua_settop(L, 3);
	tc_check_condition(L, 1, &b.cond);
	check_function(L, 2);
	if (!lua_isnil(L, 3))
		check_function(L, 3);
	k = tc_current_kernel(L);
	constant = b.cond.i;
	if (b.cond.kind == 'b' || tc_val_is_const(b.cond.val, &constant)) {
		k->leaves_out |= !constant || !lua_isnil(L, 3);
		lua_pushvalue(L, constant ? 2 : 3);
		if (!lua_isnil(L, -1))
			lua_call(L, 0, 0); /* which may close the kernel */
		return 0;
	}
	done = tc_push_guard(L);
	tc_record_call(L, open_then, &b);
	lua_pushvalue(L, 2);
	lua_call(L, 0, 0);
	if (!lua_isnil(L, 3)) {
		tc_record_call(L, open_else, &b);
		lua_pushvalue(L, 3);
		lua_call(L, 0, 0);
	}
	tc_record_call(L, close_block, NULL);
	*done = true;
	return 0;
}

/* ---- roles --------------------------------------------------------------- */

struct new_role {
	struct role draft, *result;
};

static void add_role(struct kern *k, void *arg)
{
	struct new_role *r = arg;

	if (!r->draft.name)
		r->draft.name = tc_arena_printf(&k->arena, "role%d", k->roles.count);
	r->result = tc_kern_add_role(k, &r->draft);
}

static const char role_doc[] =
	"role(spec: {name?: string, warps?: integer, warpgroups?: integer}) -> Role\n"
	"Makes a role: warps that run the role's blocks and nothing else. Call it with a function "
	"to record a block: `load(function() ... end)`.\n\n"
	"Give `warps` or `warpgroups` (4 warps each). Fragments and TMEM loads need whole "
	"warpgroups; one warp is enough to issue copies and MMAs. Blocks of a role run in program "
	"order; they do not nest.";

static int role_new(lua_State *L)
{
	static const char *const options[] = {"name", "warps", "warpgroups", NULL};
	struct new_role r = {{0}, NULL};
	int warps, groups;

	tc_current_kernel(L);
	if (!tc_options(L, 1, options))
		return tc_argerror(L, 1,
				   "table expected, such as { name = \"load\", warps = 1 }; "
				   "got %s",
				   tc_describe(L, 1));
	r.draft.name = tc_option_string(L, 1, "name", NULL);
	if (r.draft.name && !r.draft.name[0])
		return tc_argerror(L, 1, "option 'name' is empty");
	warps = (int)tc_option_integer(L, 1, "warps", 0, 1, INT16_MAX);
	groups = (int)tc_option_integer(L, 1, "warpgroups", 0, 1, INT16_MAX);
	if (!warps == !groups)
		return tc_argerror(L, 1, "a role has either warps or warpgroups (of 4 warps); %s",
				   warps ? "both are given" : "none is given");
	r.draft.warps = warps + 4 * groups;
	r.draft.warpgroups = groups > 0;
	tc_record_call(L, add_role, &r);
	tc_push_recorded(L, TC_ROLE, r.result);
	return 1;
}

static void open_role(struct kern *k, void *arg)
{
	struct block *b = arg;
	const struct role *outer = k->current->role;

	if (b->role->id >= k->roles.count || k->roles.item[b->role->id] != b->role)
		tc_fail(&k->err, "this role was made in a block that failed, and is gone");
	if (outer)
		tc_fail(&k->err, "role blocks do not nest: '%s' inside a block of '%s' (%s)",
			b->role->name, outer->name, tc_pos_text(k, outer->pos));
	b->draft.u.role.role = b->role;
	open_block(k, b);
}

static int role_call(lua_State *L)
{
	struct block b = {.draft = {.kind = OP_ROLE}, .scope = SC_ROLE};
	bool *done;

	lua_settop(L, 2);
	b.role = tc_check_recorded(L, 1, TC_ROLE);
	if (!lua_isfunction(L, 2))
		return tc_error(L,
				"role '%s' is called with the function that records its block, "
				"got %s",
				b.role->name, tc_describe(L, 2));
	done = tc_push_guard(L);
	tc_record_call(L, open_role, &b);
	lua_pushvalue(L, 2);
	lua_call(L, 0, 0);
	tc_record_call(L, close_block, NULL);
	*done = true;
	return 0;
}

static int role_tostring(lua_State *L)
{
	const struct role *r = tc_read_recorded(L, 1, TC_ROLE, NULL);
	int count = r->warpgroups ? r->warps / 4 : r->warps;

	lua_pushfstring(L, "role '%s', %d %s%s", r->name, count,
			r->warpgroups ? "warpgroup" : "warp", count == 1 ? "" : "s");
	return 1;
}

static int role_field(lua_State *L)
{
	const struct role *r = tc_read_recorded(L, 1, TC_ROLE, NULL);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (strcmp(key, "name") == 0)
		lua_pushstring(L, r->name);
	else if (strcmp(key, "warps") == 0)
		lua_pushinteger(L, r->warps);
	else
		return 0;
	return 1;
}

/* ---- print, assert, registers -------------------------------------------- */

#define MAX_PRINTED 8

struct printing {
	const char *format;
	struct lua_value value[MAX_PRINTED];
	int count;
};

static void record_print(struct kern *k, void *arg)
{
	struct printing *p = arg;
	struct op draft = {.kind = OP_PRINT};
	struct print_op *o = &draft.u.print;

	o->values = tc_arena_alloc(&k->arena, MAX_PRINTED * sizeof *o->values);
	o->format = tc_arena_strdup(&k->arena, p->format);
	for (int i = 0; i < p->count; i++) {
		if (p->value[i].frag)
			o->frag = p->value[i].frag;
		else
			o->values[o->count++] = tc_value_node(k, &p->value[i]);
	}
	tc_kern_record(k, &draft);
}

static const char print_doc[] =
	"print(format: string, ...: number|boolean|Scalar|Fragment)\n"
	"Prints when the kernel runs, once per block, from one thread of the role. Every `{}` in "
	"the format takes one value, of at most 8; `{{` and `}}` are braces. A fragment is printed "
	"alone.";

static int count_placeholders(lua_State *L, const char *s)
{
	int n = 0;

	for (; *s; s++) {
		if ((*s == '{' && s[1] == '{') || (*s == '}' && s[1] == '}')) {
			s++;
		} else if (*s == '{' && s[1] == '}') {
			n++;
			s++;
		} else if (*s == '{' || *s == '}') {
			tc_argerror(L, 1,
				    "a value is printed by '{}'; a brace is written '{{' or "
				    "'}}'");
		}
	}
	return n;
}

static int control_print(lua_State *L)
{
	struct printing p = {.count = lua_gettop(L) - 1};
	bool fragment = false;
	int placeholders;

	if (lua_type(L, 1) != LUA_TSTRING)
		return tc_argerror(L, 1, "format string expected, such as \"k = {}\"; got %s",
				   tc_describe(L, 1));
	p.format = lua_tostring(L, 1);
	if (strlen(p.format) != lua_rawlen(L, 1))
		return tc_argerror(L, 1, "the format contains a zero byte");
	placeholders = count_placeholders(L, p.format);
	if (placeholders != p.count)
		return tc_argerror(L, 1, "the format has %d '{}', but %d value%s given",
				   placeholders, p.count, p.count == 1 ? " is" : "s are");
	if (p.count > MAX_PRINTED)
		return tc_argerror(L, MAX_PRINTED + 2, "at most %d values", MAX_PRINTED);
	for (int i = 0; i < p.count; i++) {
		tc_check_value(L, i + 2, &p.value[i]);
		fragment |= p.value[i].kind == 't';
	}
	if (fragment && p.count > 1)
		return tc_argerror(L, 1, "a fragment is printed alone");
	tc_record_call(L, record_print, &p);
	return 0;
}

struct assertion {
	struct lua_value cond;
	const char *message;
};

static void record_assert(struct kern *k, void *arg)
{
	struct assertion *a = arg;
	struct op draft = {.kind = OP_ASSERT};

	draft.u.assertion.cond = tc_value_node(k, &a->cond);
	draft.u.assertion.message = tc_arena_strdup(&k->arena, a->message);
	tc_kern_record(k, &draft);
}

static const char assert_doc[] =
	"assert(cond: boolean|Scalar, message?: string)\n"
	"Stops the kernel with the message if the condition does not hold when it runs. On a GPU "
	"the "
	"error comes at the next wait, and the process must be started again: a kernel that stops "
	"itself takes the GPU's context with it.";

static int control_assert(lua_State *L)
{
	struct assertion a = {.message = "assertion failed!"};

	tc_check_condition(L, 1, &a.cond);
	if (!lua_isnoneornil(L, 2)) {
		if (!tc_is_text(L, 2))
			return tc_argerror(L, 2, "message expected, a string; got %s",
					   tc_describe(L, 2));
		a.message = lua_tostring(L, 2);
	}
	tc_record_call(L, record_assert, &a);
	return 0;
}

static void record_registers(struct kern *k, void *arg)
{
	struct op draft = {.kind = OP_SET_MAX_REGISTERS};
	const struct role *role = k->current->role;

	draft.u.registers.count = *(int *)arg;
	if (role && !role->warpgroups)
		tc_fail(&k->err,
			"registers are moved between whole warpgroups; role '%s' (%s) has %d "
			"warp%s",
			role->name, tc_pos_text(k, role->pos), role->warps,
			role->warps == 1 ? "" : "s");
	tc_kern_record(k, &draft);
}

static const char registers_doc[] =
	"set_max_registers(n: integer)\n"
	"Sets how many registers each thread of this role may use from here on: a multiple of 8 "
	"from 24 to 256 (`setmaxnreg`). The sum over the block's warpgroups must fit.";

static int control_registers(lua_State *L)
{
	int count = (int)tc_check_integer(L, 1, 24, 256);

	if (count % 8)
		return tc_argerror(L, 1, "a multiple of 8 expected, got %d (nearest: %d)", count,
				   (count + 4) / 8 * 8);
	tc_record_call(L, record_registers, &count);
	return 0;
}

/* ---- registration -------------------------------------------------------- */

static const struct tc_function functions[] = {
	{"role", role_new, role_doc},
	{"range", control_range, range_doc},
	{"loop", control_loop, loop_doc},
	{"stop", control_stop, stop_doc},
	{"when", control_when, when_doc},
	{"print", control_print, print_doc},
	{"assert", control_assert, assert_doc},
	{"set_max_registers", control_registers, registers_doc},
	{NULL, NULL, NULL},
};

void tc_open_control(lua_State *L)
{
	static const luaL_Reg role_meta[] = {
		{"__call", role_call}, {"__tostring", role_tostring}, {NULL, NULL}};

	tc_recorded_class(L, TC_ROLE,
			  "A role; called with a function it records a block.\n"
			  "---@field name string\n"
			  "---@field warps integer In all; a warpgroup is 4\n",
			  NULL, role_meta, role_field);
	tc_functions(L, "tcmma", functions);
}

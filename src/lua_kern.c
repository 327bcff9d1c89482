/* Kernels: tc.kernel, tc.record and their methods. */
#include "lua_tc.h"

#include <string.h>

/* ---- the table given to tc.kernel and tc.record -------------------------- */

static const char *const kernel_options[] = {
	"name",          "args",   "grid",    "grid_names", "cluster",
	"cluster_names", "target", "profile", "body",       NULL};
static const char *const record_options[] = {"name",       "args",    "grid",
					     "grid_names", "cluster", "cluster_names",
					     "target",     "profile", NULL};

struct setup {
	const char *name, *target;
	bool profile;
	int arg_count, grid_rank, cluster_rank;
	bool grid_function;
	int64_t grid[TC_MAX_RANK], cluster[3];
	const char *grid_names[TC_MAX_RANK], *cluster_names[3];
	const struct lua_gmem **args; /* a userdata on the stack */
};

static int read_sizes(lua_State *L, const char *field, int64_t *size, int max_rank)
{
	int rank;

	if (!lua_istable(L, -1))
		tc_argerror(L, 1, "field '%s' must be a list of integers%s, got %s", field,
			    strcmp(field, "grid") == 0 ? " or a function" : "", tc_describe(L, -1));
	rank = (int)luaL_len(L, -1);
	if (rank > max_rank)
		tc_argerror(L, 1, "field '%s' has %d entries; at most %d", field, rank, max_rank);
	for (int i = 0; i < rank; i++) {
		int integral;

		lua_rawgeti(L, -1, i + 1);
		size[i] = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &integral) : 0;
		if (lua_type(L, -1) != LUA_TNUMBER || !integral || size[i] < 1 ||
		    size[i] > INT32_MAX)
			tc_argerror(L, 1, "field '%s', entry %d: an integer >= 1 expected, got %s",
				    field, i + 1, tc_describe(L, -1));
		lua_pop(L, 1);
	}
	return rank;
}

/* Strings stay valid: the table of the call holds them. */
static int read_names(lua_State *L, const char *field, const char **names, int max_rank)
{
	int rank;

	if (!tc_option_push(L, 1, field))
		return 0;
	if (!lua_istable(L, -1))
		tc_argerror(L, 1, "field '%s' must be a list of names, got %s", field,
			    tc_describe(L, -1));
	rank = (int)luaL_len(L, -1);
	if (rank > max_rank)
		tc_argerror(L, 1, "field '%s' has %d entries; at most %d", field, rank, max_rank);
	for (int i = 0; i < rank; i++) {
		if (lua_rawgeti(L, -1, i + 1) != LUA_TSTRING)
			tc_argerror(L, 1, "field '%s', entry %d: a name expected, got %s", field,
				    i + 1, tc_describe(L, -1));
		names[i] = lua_tostring(L, -1);
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	return rank;
}

static void check_names(lua_State *L, const struct setup *s)
{
	const char *all[TC_MAX_RANK + 3];
	int count = 0;

	for (int i = 0; i < s->grid_rank; i++)
		all[count++] = s->grid_names[i];
	for (int i = 0; i < s->cluster_rank; i++)
		all[count++] = s->cluster_names[i];
	for (int i = 0; i < count; i++)
		for (int j = 0; all[i] && j < i; j++)
			if (all[j] && strcmp(all[i], all[j]) == 0)
				tc_argerror(L, 1,
					    "two axes of the grid and the cluster are named "
					    "'%s'",
					    all[i]);
}

static void read_cluster(lua_State *L, struct setup *s)
{
	int names = read_names(L, "cluster_names", s->cluster_names, 3);
	int64_t blocks = 1;

	if (tc_option_push(L, 1, "cluster"))
		s->cluster_rank = read_sizes(L, "cluster", s->cluster, 3);
	for (int i = 0; i < s->cluster_rank && blocks <= 16; i++)
		blocks *= s->cluster[i];
	if (blocks > 16)
		tc_argerror(L, 1,
			    "field 'cluster': a cluster has at most 16 blocks (more than 8 "
			    "only where the device allows it)");
	if (names && names != s->cluster_rank)
		tc_argerror(L, 1, "cluster has %d axes, cluster_names has %d", s->cluster_rank,
			    names);
}

static void read_grid(lua_State *L, struct setup *s)
{
	int names = read_names(L, "grid_names", s->grid_names, TC_MAX_RANK);

	if (!tc_option_push(L, 1, "grid")) {
		s->grid_rank = 1;
		s->grid[0] = 1;
	} else if (lua_isfunction(L, -1)) {
		s->grid_function = true;
		s->grid_rank = names;
		if (!names)
			tc_argerror(L, 1,
				    "a grid that a function gives needs grid_names, which "
				    "say how many axes it has");
		for (int i = 0; i < names; i++)
			s->grid[i] = -1;
	} else {
		s->grid_rank = read_sizes(L, "grid", s->grid, TC_MAX_RANK);
		if (!s->grid_rank)
			tc_argerror(L, 1, "field 'grid' is empty");
	}
	if (names && names != s->grid_rank)
		tc_argerror(L, 1, "grid has %d axes, grid_names has %d", s->grid_rank, names);
	read_cluster(L, s);
	check_names(L, s);
}

static void read_args(lua_State *L, struct setup *s)
{
	if (!tc_option_push(L, 1, "args"))
		return;
	if (!lua_istable(L, -1))
		tc_argerror(L, 1, "field 'args' must be a list of tc.gmem(shape, dtype), got %s",
			    tc_describe(L, -1));
	s->arg_count = (int)luaL_len(L, -1);
	if (s->arg_count > 64)
		tc_argerror(L, 1, "field 'args' has %d entries; at most 64", s->arg_count);
	s->args = lua_newuserdatauv(L, (size_t)(s->arg_count + 1) * sizeof *s->args, 0);
	for (int i = 0; i < s->arg_count; i++) {
		lua_rawgeti(L, -2, i + 1);
		s->args[i] = tc_test_object(L, -1, TC_GMEM);
		if (!s->args[i])
			tc_argerror(
				L, 1,
				"field 'args', entry %d: tc.gmem(shape, dtype) expected, got %s",
				i + 1, tc_describe(L, -1));
		lua_pop(L, 1);
	}
}

static void read_target(lua_State *L, struct setup *s)
{
	s->target = tc_option_string(L, 1, "target", NULL);
	if (!s->target || tc_target_find(s->target))
		return;

	const char *list = "";
	const struct target *const *t = tc_targets();

	for (int i = 0; t[i]; i++)
		list = lua_pushfstring(L, "%s%s%s", list, i ? ", " : "", t[i]->name);
	tc_argerror(L, 1, "unknown target '%s'; there are %s", s->target, list);
}

/* Leaves values on the stack that hold what the setup points at. */
static void read_setup(lua_State *L, const char *const *options, struct setup *s)
{
	memset(s, 0, sizeof *s);
	if (!lua_istable(L, 1))
		tc_argerror(L, 1,
			    "table expected, such as { name = \"matmul\", args = {...}, grid "
			    "= {...} }; got %s",
			    tc_describe(L, 1));
	tc_options(L, 1, options);
	s->name = tc_option_string(L, 1, "name", "kernel");
	if (!s->name[0])
		tc_argerror(L, 1, "field 'name' is empty");
	s->profile = tc_option_boolean(L, 1, "profile", false);
	read_target(L, s);
	read_args(L, s);
	read_grid(L, s);
}

/* ---- a new kernel -------------------------------------------------------- */

static struct val *named_dimension(struct kern *k, const char *name)
{
	struct val *v;

	for (int i = 0; i < k->dim_count; i++)
		if (strcmp(k->dim_names[i], name) == 0)
			return k->dim_values[i];
	v = tc_val_leaf(k, VAL_DIM, VT_S32);
	v->axis = k->dim_count;
	k->dim_names[k->dim_count] = tc_arena_strdup(&k->arena, name);
	k->dim_values[k->dim_count++] = v;
	return v;
}

static struct ref *argument(struct kern *k, const struct lua_gmem *g, int number)
{
	struct alloc *a = tc_arena_alloc(&k->arena, sizeof *a);

	a->id = number;
	a->space = SP_GMEM;
	a->dtype = g->dtype;
	a->rank = g->rank;
	a->pos = k->pos;
	a->alias_member = -1;
	for (int i = 0; i < g->rank; i++) {
		a->shape[i].size = g->size[i];
		if (g->size[i] < 0) {
			a->shape[i].value = named_dimension(k, g->name[i]);
			a->shape[i].name = k->dim_names[a->shape[i].value->axis];
		}
	}
	return tc_ref_whole(k, a);
}

static void set_up(struct kern *k, void *arg)
{
	const struct setup *s = arg;
	size_t dims = 1;

	k->pos = k->err.pos;
	k->profile = s->profile;
	k->target = s->target ? tc_target_find(s->target)->name : NULL;
	k->grid_rank = s->grid_rank;
	k->cluster_rank = s->cluster_rank;
	for (int i = 0; i < s->grid_rank; i++) {
		k->grid[i] = s->grid[i];
		if (s->grid_names[i])
			k->grid_names[i] = tc_arena_strdup(&k->arena, s->grid_names[i]);
	}
	for (int i = 0; i < s->cluster_rank; i++) {
		k->cluster[i] = s->cluster[i];
		if (s->cluster_names[i])
			k->cluster_names[i] = tc_arena_strdup(&k->arena, s->cluster_names[i]);
	}
	for (int i = 0; i < s->arg_count; i++)
		dims += (size_t)s->args[i]->rank;
	k->dim_names = tc_arena_alloc(&k->arena, dims * sizeof *k->dim_names);
	k->dim_values = tc_arena_alloc(&k->arena, dims * sizeof *k->dim_values);
	k->args = tc_arena_alloc(&k->arena, (size_t)(s->arg_count + 1) * sizeof *k->args);
	for (int i = 0; i < s->arg_count; i++)
		k->args[k->arg_count++] = argument(k, s->args[i], i);
}

/* Pushes the userdata of a new kernel and makes it the open recording. */
static struct lua_kernel *push_kernel(lua_State *L, struct setup *s)
{
	struct lua_kernel *owner;

	luaL_checkstack(L, s->arg_count + 16, "for the arguments of a kernel");
	tc_check_none_open(L);
	owner = tc_new_object(L, TC_KERNEL, sizeof *owner, 3);
	owner->kern = tc_kern_new(s->name);
	if (!owner->kern)
		luaL_error(L, "not enough memory");
	tc_text_call(L, owner->kern, set_up, s);
	if (s->grid_function) {
		lua_getfield(L, 1, "grid");
		lua_setiuservalue(L, -2, TC_KERNEL_GRID);
	}
	tc_set_open_recording(L, lua_gettop(L));
	return owner;
}

static void push_arguments(lua_State *L, struct kern *k)
{
	for (int i = 0; i < k->arg_count; i++)
		tc_push_recorded(L, TC_REF, k->args[i]);
}

static void finish(struct kern *k, void *likely)
{
	tc_verify_recording(k, likely);
	tc_kern_finish(k);
}

/* Ends the open recording, or says at which line it is at fault. */
static void finish_recording(lua_State *L)
{
	tc_record_call(L, finish, (void *)tc_likely_target(L));
	tc_set_open_recording(L, 0);
}

static const char kernel_doc[] =
	"kernel(spec: {name?: string, args?: tcmma.gmem[], grid?: integer[]|function, grid_names?: "
	"string[], cluster?: integer[], "
	"cluster_names?: string[], target?: string, profile?: boolean, body: function}) -> Kernel\n"
	"Records a kernel by running `body` once, and returns it ready to call.\n\n"
	"Fields of the table:\n"
	"- `name` string, default \"kernel\": the name in messages and in the PTX\n"
	"- `args` list of `tc.gmem(shape, dtype)`: the arrays that a call passes, in order\n"
	"- `grid` list of integers, or `function(dims)` that returns one at launch from the named "
	"dimensions (then `grid_names` is needed); default {1}. It counts clusters; the last axis "
	"runs fastest\n"
	"- `grid_names`, `cluster_names` lists of strings for `tc.axis_index`\n"
	"- `cluster` list of up to 3 integers: blocks of a cluster\n"
	"- `target` \"sm_100a\", \"sm_103a\" or \"sm_90a\"; default: what the device has\n"
	"- `profile` boolean\n"
	"- `body` function(ref, ...): gets one ref per argument\n\n"
	"An error in the body goes through and leaves no recording open. At its end the whole "
	"kernel is "
	"verified: barriers on which nobody arrives, waits that never end, named barriers; what "
	"depends on the target for the one that is given, without one memory for that of the "
	"current device. A message points at the line of the op.";

static int kernel_new(lua_State *L)
{
	struct setup s;
	struct lua_kernel *owner;
	bool *done;
	int kernel;

	lua_settop(L, 1);
	read_setup(L, kernel_options, &s);
	if (!tc_option_push(L, 1, "body"))
		tc_argerror(L, 1,
			    "field 'body' is missing: function(ref, ...) that records the "
			    "kernel");
	if (!lua_isfunction(L, -1))
		tc_argerror(L, 1, "field 'body' must be a function, got %s", tc_describe(L, -1));
	owner = push_kernel(L, &s);
	kernel = lua_gettop(L);
	done = tc_push_kernel_guard(L, kernel);
	lua_pushvalue(L, kernel - 1);
	push_arguments(L, owner->kern);
	lua_call(L, owner->kern->arg_count, 0);
	finish_recording(L);
	*done = true;
	lua_pushvalue(L, kernel);
	return 1;
}

static const char record_doc[] =
	"record(spec: {name?: string, args?: tcmma.gmem[], grid?: integer[]|function, grid_names?: "
	"string[], cluster?: integer[], "
	"cluster_names?: string[], target?: string, profile?: boolean}) -> Kernel, Ref...\n"
	"Opens a recording for the prompt: the table of `tc.kernel` without `body`. Returns the "
	"kernel and one ref per argument.\n\n"
	"Every following call is checked and appended at once; a refused call leaves the recording "
	"as it was. `k:ops()` shows it, `k:finish()` ends it. One recording is open at a time.";

static int kernel_record(lua_State *L)
{
	struct setup s;
	struct lua_kernel *owner;

	lua_settop(L, 1);
	read_setup(L, record_options, &s);
	owner = push_kernel(L, &s);
	push_arguments(L, owner->kern);
	return owner->kern->arg_count + 1;
}

static const char recording_doc[] =
	"recording() -> Kernel?\n"
	"The kernel whose recording is open, nil if none is: at the prompt, where a local ends "
	"with its "
	"line, `tc.recording():close()` gives up one that nothing names.";

static int kernel_recording(lua_State *L)
{
	tc_push_open_recording(L);
	return 1;
}

/* ---- methods ------------------------------------------------------------- */

struct kern *tc_check_kernel(lua_State *L, int arg)
{
	return tc_live_kernel(L, tc_check_object(L, arg, TC_KERNEL));
}

struct kern *tc_live_kernel(lua_State *L, struct lua_kernel *owner)
{
	if (owner->guard)
		tc_open_recording(L); /* takes back the blocks of coroutines that died */
	if (!owner->kern)
		tc_error(L, "this kernel was closed");
	return owner->kern;
}

static const char finish_doc[] =
	"finish() -> Kernel\n"
	"Ends the recording and returns the kernel, which can then be called.\n\n"
	"Raises inside a block (`tc.range`, a role ...), on a kernel that is finished already, and "
	"where "
	"the whole kernel is at fault (see `tc.kernel`): the recording then stays open.";

static int kernel_finish(lua_State *L)
{
	struct kern *k = tc_check_kernel(L, 1);

	if (k->finished)
		return tc_error(L, "the recording of kernel '%s' is finished already", k->name);
	if (k->current != k->root)
		return tc_error(L,
				"finish() inside a block: the recording of kernel '%s' ends "
				"outside all blocks",
				k->name);
	finish_recording(L);
	lua_settop(L, 1);
	return 1;
}

static const char ops_doc[] =
	"ops() -> string\n"
	"What is recorded, as text: arguments, allocations and barriers, then one line per "
	"operation with its Lua line, blocks indented.";

static void print_ops(struct kern *k, void *arg)
{
	tc_print_ops(arg, k);
}

static int push_text(lua_State *L, struct kern *k, void (*fn)(struct kern *k, void *arg))
{
	struct strbuf *b = tc_new_object(L, "tcmma.text", sizeof *b, 0);

	tc_text_call(L, k, fn, b);
	lua_pushlstring(L, b->text ? b->text : "", b->length);
	return 1;
}

static int text_gc(lua_State *L)
{
	tc_strbuf_free(lua_touserdata(L, 1));
	return 0;
}

static int kernel_ops(lua_State *L)
{
	return push_text(L, tc_check_kernel(L, 1), print_ops);
}

static const char len_doc[] = "len() -> integer\nHow many operations are recorded.";

static int kernel_len(lua_State *L)
{
	lua_pushinteger(L, tc_check_kernel(L, 1)->op_count);
	return 1;
}

static const char close_doc[] = "close()\n"
				"Gives the recording and everything compiled from it back. Its "
				"refs, barriers and so on can "
				"no longer be used. Closing twice is fine.";

static int kernel_close(lua_State *L)
{
	struct lua_kernel *owner = tc_check_object(L, 1, TC_KERNEL);

	if (owner->kern && owner == tc_open_recording(L)) {
		if (owner->kern->current != owner->kern->root)
			return tc_error(L, "close() inside a block of the recording");
		tc_set_open_recording(L, 0);
	}
	tc_release_kernel(owner);
	return 0;
}

/* At the end of a block: a kernel whose callback is running stays. */
static int kernel_scope_end(lua_State *L)
{
	struct lua_kernel *owner = tc_check_object(L, 1, TC_KERNEL);

	if (owner->kern && owner->kern->current == owner->kern->root)
		return kernel_close(L);
	return 0;
}

static int kernel_gc(lua_State *L)
{
	tc_release_kernel(lua_touserdata(L, 1));
	return 0;
}

static int kernel_tostring(lua_State *L)
{
	struct lua_kernel *owner = tc_check_object(L, 1, TC_KERNEL);
	const struct kern *k = owner->kern;

	if (!k)
		lua_pushliteral(L, "kernel (closed)");
	else
		lua_pushfstring(L, "kernel '%s', %d operation%s%s, recorded at %s", k->name,
				k->op_count, k->op_count == 1 ? "" : "s",
				k->finished ? "" : " so far", tc_push_place(L, k->pos));
	return 1;
}

/* A list; false for an axis without a name. */
static void push_names(lua_State *L, const char *const *names, int count)
{
	lua_createtable(L, count, 0);
	for (int i = 0; i < count; i++) {
		if (names[i])
			lua_pushstring(L, names[i]);
		else
			lua_pushboolean(L, false);
		lua_rawseti(L, -2, i + 1);
	}
}

static void push_role(lua_State *L, struct role *role)
{
	if (role)
		tc_push_part(L, 1, TC_ROLE, role);
	else
		lua_pushnil(L);
}

/* Those that the user made. */
static void push_roles(lua_State *L, const struct kern *k)
{
	int count = 0;

	lua_newtable(L);
	for (int i = 0; i < k->roles.count; i++) {
		struct role *role = k->roles.item[i];

		if (role->implicit)
			continue;
		push_role(L, role);
		lua_rawseti(L, -2, ++count);
	}
}

static bool in_loop(const struct scope *s)
{
	for (; s; s = s->parent)
		if (s->kind == SC_RANGE || s->kind == SC_LOOP)
			return true;
	return false;
}

static int kernel_field(lua_State *L)
{
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
	const struct kern *k = tc_check_kernel(L, 1);

	if (strcmp(key, "name") == 0)
		lua_pushstring(L, k->name);
	else if (strcmp(key, "finished") == 0)
		lua_pushboolean(L, k->finished);
	else if (strcmp(key, "grid_names") == 0)
		push_names(L, k->grid_names, k->grid_rank);
	else if (strcmp(key, "cluster_names") == 0)
		push_names(L, k->cluster_names, k->cluster_rank);
	else if (strcmp(key, "roles") == 0)
		push_roles(L, k);
	else if (strcmp(key, "role") == 0)
		push_role(L, k->current->role);
	else if (strcmp(key, "in_loop") == 0)
		lua_pushboolean(L, in_loop(k->current));
	else
		return 0;
	return 1;
}

void tc_open_kernel(lua_State *L)
{
	static const struct tc_function functions[] = {
		{"kernel", kernel_new, kernel_doc},
		{"record", kernel_record, record_doc},
		{"recording", kernel_recording, recording_doc},
		{NULL, NULL, NULL},
	};
	static const struct tc_function methods[] = {
		{"finish", kernel_finish, finish_doc},
		{"ops", kernel_ops, ops_doc},
		{"len", kernel_len, len_doc},
		{"close", kernel_close, close_doc},
		{NULL, NULL, NULL},
	};
	static const luaL_Reg meta[] = {
		{"__tostring", kernel_tostring}, {"__len", kernel_len}, {"__gc", kernel_gc},
		{"__close", kernel_scope_end},   {NULL, NULL},
	};
	static const luaL_Reg text_meta[] = {{"__gc", text_gc}, {NULL, NULL}};

	tc_recorded_class(L, TC_KERNEL,
			  "A recorded kernel. Calling it runs it.\n"
			  "---@field name string\n"
			  "---@field finished boolean The recording is closed\n"
			  "---@field grid_names string[]\n"
			  "---@field cluster_names string[]\n"
			  "---@field roles tcmma.role[]\n"
			  "---@field role tcmma.role? Whose block is being recorded\n"
			  "---@field in_loop boolean What is recorded now stands in a loop\n",
			  methods, meta, kernel_field);
	tc_open_recordings(L);
	tc_class(L, "tcmma.text", NULL, NULL, text_meta, NULL);
	tc_functions(L, "tcmma", functions);
}

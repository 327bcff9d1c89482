/* tc.kernel, tc.record: from a table to an open recording. */
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
			tc_argerror(L, 1,
				    "field '%s', entry %d: an integer from 1 to %d expected, got "
				    "%s",
				    field, i + 1, INT32_MAX, tc_describe(L, -1));
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
		lua_rawgeti(L, -1, i + 1);
		if (!tc_is_text(L, -1))
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

/* "(2, 3)", "('x',)" or "nil": the list that the field has. */
static const char *push_list(lua_State *L, const char *field)
{
	luaL_Buffer b;
	int list, count;

	if (!tc_option_push(L, 1, field))
		return lua_pushliteral(L, "nil");
	list = lua_gettop(L);
	count = (int)luaL_len(L, list);
	luaL_buffinit(L, &b);
	luaL_addchar(&b, '(');
	for (int i = 1; i <= count; i++) {
		bool name = lua_rawgeti(L, list, i) == LUA_TSTRING;

		lua_pushfstring(L, name ? "'%s'" : "%s", luaL_tolstring(L, -1, NULL));
		lua_replace(L, -3);
		lua_pop(L, 1);
		luaL_addvalue(&b);
		luaL_addstring(&b, i < count ? ", " : count == 1 ? ",)" : ")");
	}
	if (!count)
		luaL_addchar(&b, ')');
	luaL_pushresult(&b);
	return lua_tostring(L, -1);
}

/* "grid=(2, 3), grid_names=('x',)" */
static const char *push_mesh(lua_State *L, const char *sizes, const char *names)
{
	return lua_pushfstring(L, "%s=%s, %s=%s", sizes, push_list(L, sizes), names,
			       push_list(L, names));
}

static void check_cluster_rank(lua_State *L)
{
	static const char *const fields[] = {"cluster", "cluster_names"};

	for (int i = 0; i < 2; i++) {
		if (!tc_option_push(L, 1, fields[i]))
			continue;
		if (lua_istable(L, -1) && luaL_len(L, -1) > 3)
			tc_documented_error(L, CLUSTER_RANK_3, "",
					    push_mesh(L, "cluster", "cluster_names"));
		lua_pop(L, 1);
	}
}

static void read_cluster(lua_State *L, struct setup *s)
{
	int64_t blocks = 1;
	int names;

	check_cluster_rank(L);
	names = read_names(L, "cluster_names", s->cluster_names, 3);
	if (tc_option_push(L, 1, "cluster"))
		s->cluster_rank = read_sizes(L, "cluster", s->cluster, 3);
	for (int i = 0; i < s->cluster_rank && blocks <= 16; i++)
		blocks *= s->cluster[i];
	if (blocks > 16)
		tc_argerror(L, 1,
			    "field 'cluster': a cluster has at most 16 blocks (more than 8 "
			    "only where the device allows it)");
	if (names && names != s->cluster_rank)
		tc_documented_error(L, CLUSTER_NAMES, "", push_mesh(L, "cluster", "cluster_names"));
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
		tc_documented_error(L, GRID_NAMES, "", push_mesh(L, "grid", "grid_names"));
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

void tc_finish_recording(lua_State *L)
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
	tc_finish_recording(L);
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

static const struct tc_function functions[] = {
	{"kernel", kernel_new, kernel_doc},
	{"record", kernel_record, record_doc},
	{"recording", kernel_recording, recording_doc},
	{NULL, NULL, NULL},
};

void tc_open_record(lua_State *L)
{
	tc_functions(L, "tcmma", functions);
}

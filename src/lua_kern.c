/* Kernels: their methods and fields. */
#include "lua_tc.h"

#include <string.h>

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
	tc_finish_recording(L);
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
	struct strbuf *b = tc_test_object(L, 1, "tcmma.text");

	if (b)
		tc_strbuf_free(b);
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
	struct lua_kernel *owner = tc_test_object(L, 1, TC_KERNEL);

	if (owner)
		tc_release_kernel(owner);
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

/* A list; empty where the axes have no names: all have them or none. */
static void push_names(lua_State *L, const char *const *names, int count)
{
	lua_createtable(L, count, 0);
	for (int i = 0; i < count && names[i]; i++) {
		lua_pushstring(L, names[i]);
		lua_rawseti(L, -2, i + 1);
	}
	tc_set_shown(L);
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
	tc_set_shown(L);
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
	else if (strcmp(key, "grid_rank") == 0)
		lua_pushinteger(L, k->grid_rank);
	else if (strcmp(key, "cluster_rank") == 0)
		lua_pushinteger(L, k->cluster_rank);
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
			  "---@field grid_rank integer Axes of the grid\n"
			  "---@field cluster_rank integer Axes of the cluster, 0 without one\n"
			  "---@field grid_names string[] Empty where the axes have no names\n"
			  "---@field cluster_names string[] Empty where the axes have no names\n"
			  "---@field roles tcmma.role[]\n"
			  "---@field role tcmma.role? Whose block is being recorded\n"
			  "---@field in_loop boolean What is recorded now stands in a loop\n",
			  methods, meta, kernel_field);
	tc_open_recordings(L);
	tc_class(L, "tcmma.text", NULL, NULL, text_meta, NULL);
	tc_open_record(L);
}

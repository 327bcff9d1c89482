/*
 * The open recording of a state, and the objects that belong to recordings.
 *
 * One recording is open at a time; the registry holds it.
 */
#include "lua_tc.h"

#include <string.h>

#define GUARD "tcmma.guard"

static const char current_key; /* its address: registry key of the open kernel */

/* ---- guards -------------------------------------------------------------- */

/*
 * A to-be-closed variable around a callback: however it is left, what it
 * recorded by half is taken back, and the error goes on with its traceback.
 *
 * A coroutine that dies of an error does not close its variables before somebody
 * closes it.  So the kernel knows its guards, innermost first, and those of dead
 * coroutines are closed when the recording is used next; one that is never
 * resumed is collected with its guards.  A kernel closed in a block, which only
 * its metamethods do, lasts until the block ends.  User values of a guard:
 * 1 the kernel, 2 the coroutine, 3 the guard around it.
 */
struct guard {
	struct lua_kernel *owner;
	struct guard *outer;
	lua_State *thread;
	struct kern_mark mark;
	bool whole; /* the body of tc.kernel: the kernel itself goes */
	bool done, closed;
};

static struct guard *push_guard(lua_State *L, int kernel_index, bool whole)
{
	struct lua_kernel *owner = lua_touserdata(L, kernel_index);
	struct guard *g;

	luaL_checkstack(L, 8, "for a block of the recording");
	kernel_index = lua_absindex(L, kernel_index);
	g = tc_new_object(L, GUARD, sizeof *g, 3);
	g->owner = owner;
	g->whole = whole;
	g->thread = L;
	tc_kern_mark(owner->kern, &g->mark);
	lua_pushvalue(L, kernel_index);
	lua_setiuservalue(L, -2, 1);
	lua_pushthread(L);
	lua_setiuservalue(L, -2, 2);
	lua_getiuservalue(L, kernel_index, TC_KERNEL_GUARD);
	lua_setiuservalue(L, -2, 3);
	lua_pushvalue(L, -1);
	lua_setiuservalue(L, kernel_index, TC_KERNEL_GUARD);
	g->outer = owner->guard;
	owner->guard = g;
	lua_toclose(L, -1);
	return g;
}

bool *tc_push_guard(lua_State *L)
{
	struct guard *g;

	tc_current_kernel(L);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &current_key);
	g = push_guard(L, lua_gettop(L), false);
	return &g->done;
}

void tc_hold_kernel(struct lua_kernel *owner)
{
	owner->holds++;
}

/* What was closed while something used it goes with the last use. */
static void release_closed(struct lua_kernel *owner)
{
	if (owner->holds || owner->guard || !owner->closed)
		return;
	owner->kern = owner->closed;
	owner->closed = NULL;
	tc_release_kernel(owner);
}

void tc_drop_kernel(struct lua_kernel *owner)
{
	owner->holds--;
	release_closed(owner);
}

void tc_release_kernel(struct lua_kernel *owner)
{
	if (owner->holds || owner->guard) {
		if (owner->kern)
			owner->closed = owner->kern;
		owner->kern = NULL;
		return;
	}
	if (owner->free_programs)
		owner->free_programs(owner->programs);
	owner->programs = NULL;
	tc_kern_free(owner->kern);
	owner->kern = NULL;
}

/* Takes back what the innermost guard of the kernel at `index` guards, unless all went well. */
static void close_innermost(lua_State *L, int index)
{
	struct lua_kernel *owner = lua_touserdata(L, index);
	struct guard *g = owner->guard;

	lua_getiuservalue(L, index, TC_KERNEL_GUARD);
	lua_getiuservalue(L, -1, 3);
	lua_setiuservalue(L, index, TC_KERNEL_GUARD);
	lua_pop(L, 1);
	owner->guard = g->outer;
	g->closed = true;
	release_closed(owner);
	if (g->done || !owner->kern)
		return;
	if (g->whole) {
		tc_release_kernel(owner);
		tc_set_open_recording(L, 0);
	} else {
		tc_kern_rollback(owner->kern, &g->mark);
	}
}

/* Guards inside this one are of coroutines that died. */
static int guard_close(lua_State *L)
{
	struct guard *g = tc_test_object(L, 1, GUARD);

	if (!g)
		return 0;
	lua_settop(L, 1);
	lua_getiuservalue(L, 1, 1);
	while (!g->closed)
		close_innermost(L, 2);
	return 0;
}

bool *tc_push_kernel_guard(lua_State *L, int kernel_index)
{
	return &push_guard(L, kernel_index, true)->done;
}

static void close_dead_guards(lua_State *L, int index)
{
	struct lua_kernel *owner = lua_touserdata(L, index);

	while (owner->guard && lua_status(owner->guard->thread) > LUA_YIELD)
		close_innermost(L, index);
}

/* ---- the open recording -------------------------------------------------- */

struct lua_kernel *tc_open_recording(lua_State *L)
{
	struct lua_kernel *owner;

	lua_rawgetp(L, LUA_REGISTRYINDEX, &current_key);
	owner = lua_touserdata(L, -1);
	if (owner && owner->guard)
		close_dead_guards(L, lua_gettop(L));
	lua_pop(L, 1);
	return owner && owner->kern ? owner : NULL;
}

void tc_push_open_recording(lua_State *L)
{
	if (tc_open_recording(L))
		lua_rawgetp(L, LUA_REGISTRYINDEX, &current_key);
	else
		lua_pushnil(L);
}

static struct lua_kernel *need_open_kernel(lua_State *L)
{
	struct lua_kernel *owner = tc_open_recording(L);

	if (!owner)
		tc_error(L, "no recording is open: this function records an operation of a kernel. "
			    "Call it in the body of tc.kernel{...} or after k = tc.record{...}");
	return owner;
}

struct kern *tc_current_kernel(lua_State *L)
{
	return need_open_kernel(L)->kern;
}

void tc_set_open_recording(lua_State *L, int index)
{
	if (index)
		lua_pushvalue(L, index);
	else
		lua_pushnil(L);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &current_key);
}

/* A recording that nobody holds any more is given up when the next one opens. */
void tc_check_none_open(lua_State *L)
{
	struct kern *k;

	if (!tc_open_recording(L))
		return;
	lua_createtable(L, 1, 0);
	lua_createtable(L, 0, 1);
	lua_pushliteral(L, "v");
	lua_setfield(L, -2, "__mode");
	lua_setmetatable(L, -2);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &current_key);
	lua_rawseti(L, -2, 1);
	tc_set_open_recording(L, 0);
	lua_gc(L, LUA_GCCOLLECT, 0);
	if (lua_rawgeti(L, -1, 1) == LUA_TNIL) {
		lua_pop(L, 2);
		return;
	}
	tc_set_open_recording(L, lua_gettop(L));
	k = tc_current_kernel(L);
	tc_error(L,
		 "the recording of kernel '%s', opened at %s, is still open: call its :finish() "
		 "or :close() first (tc.recording() is that kernel)",
		 k->name, tc_push_place(L, k->pos));
}

struct protected_call {
	struct kern *kern;
	void (*fn)(struct kern *k, void *arg);
	void *arg;
};

static void run_protected(void *arg)
{
	struct protected_call *c = arg;

	c->fn(c->kern, c->arg);
}

void tc_record_call(lua_State *L, void (*fn)(struct kern *k, void *arg), void *arg)
{
	struct kern *k = tc_current_kernel(L);
	struct protected_call call = {k, fn, arg};
	struct kern_mark mark;

	tc_position(L, &k->err.pos);
	tc_kern_mark(k, &mark);
	if (!tc_protect(&k->err, run_protected, &call)) {
		tc_kern_rollback(k, &mark);
		tc_raise(L, &k->err);
	}
}

void tc_text_call(lua_State *L, struct kern *k, void (*fn)(struct kern *k, void *arg), void *arg)
{
	struct protected_call call = {k, fn, arg};

	tc_call(L, &k->err, run_protected, &call);
}

/* ---- objects of a recording ---------------------------------------------- */

void tc_push_recorded(lua_State *L, const char *class_name, void *item)
{
	struct lua_kernel *owner = need_open_kernel(L);
	struct lua_recorded *object = tc_new_object(L, class_name, sizeof *object, 1);

	object->owner = owner;
	object->item = item;
	lua_rawgetp(L, LUA_REGISTRYINDEX, &current_key);
	lua_setiuservalue(L, -2, 1);
}

void tc_push_part(lua_State *L, int kernel_index, const char *class_name, void *item)
{
	struct lua_recorded *object;

	kernel_index = lua_absindex(L, kernel_index);
	object = tc_new_object(L, class_name, sizeof *object, 1);
	object->owner = lua_touserdata(L, kernel_index);
	object->item = item;
	lua_pushvalue(L, kernel_index);
	lua_setiuservalue(L, -2, 1);
}

void tc_push_related(lua_State *L, int index, const char *class_name, void *item)
{
	lua_getiuservalue(L, index, 1);
	tc_push_part(L, -1, class_name, item);
	lua_remove(L, -2);
}

void *tc_read_recorded(lua_State *L, int arg, const char *class_name, struct kern **k)
{
	struct lua_recorded *object = tc_check_object(L, arg, class_name);

	if (!object->owner->kern)
		tc_error(L, "this %s belongs to a kernel that was closed", class_name);
	if (k)
		*k = object->owner->kern;
	return object->item;
}

static void *of_open_recording(lua_State *L, const struct lua_recorded *object,
			       const char *class_name)
{
	struct lua_kernel *open = tc_open_recording(L);
	const struct kern *k = object->owner->kern;

	if (object->owner == open)
		return object->item;
	if (!k)
		tc_error(L, "this %s belongs to a kernel that was closed", class_name);
	else if (!open)
		tc_error(L, "this %s belongs to kernel '%s' (%s), whose recording is finished",
			 class_name, k->name, tc_push_place(L, k->pos));
	else
		tc_error(L,
			 "this %s belongs to kernel '%s' (%s), not to '%s', which is being "
			 "recorded",
			 class_name, k->name, tc_push_place(L, k->pos), open->kern->name);
	return NULL;
}

void *tc_check_recorded(lua_State *L, int arg, const char *class_name)
{
	return of_open_recording(L, tc_check_object(L, arg, class_name), class_name);
}

void *tc_test_recorded(lua_State *L, int arg, const char *class_name)
{
	struct lua_recorded *object = tc_test_object(L, arg, class_name);

	return object ? of_open_recording(L, object, class_name) : NULL;
}

/* Upvalues: the class's own __tostring, name of the class. */
static int closed_tostring(lua_State *L)
{
	const char *name = lua_tostring(L, lua_upvalueindex(2));
	struct lua_recorded *object = tc_check_object(L, 1, name);

	if (object->owner->kern)
		return lua_tocfunction(L, lua_upvalueindex(1))(L);
	lua_pushfstring(L, "%s of a closed kernel", name);
	return 1;
}

void tc_recorded_class(lua_State *L, const char *name, const char *doc,
		       const struct tc_function *methods, const luaL_Reg *meta,
		       int (*field)(lua_State *L))
{
	tc_class(L, name, doc, methods, meta, field);
	luaL_getmetatable(L, name);
	if (strcmp(name, TC_KERNEL) != 0) {
		lua_getfield(L, -1, "__tostring");
		lua_pushstring(L, name);
		lua_pushcclosure(L, closed_tostring, 2);
		lua_setfield(L, -2, "__tostring");
	}
	lua_pop(L, 1);
}

void tc_open_recordings(lua_State *L)
{
	static const luaL_Reg guard_meta[] = {
		{"__close", guard_close}, {"__gc", guard_close}, {NULL, NULL}};

	tc_class(L, GUARD, NULL, NULL, guard_meta, NULL);
}

/* Work between CTAs and kernels: cluster launch control, semaphores, dependent launches, prefetch.
 */
#include "lua_tc.h"

#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

struct refused {
	const char *name, *space, *got;
};

static void refuse(struct kern *k, void *arg)
{
	const struct refused *r = arg;

	tc_check_reference(k, r->name, r->space, r->got);
}

static struct ref *check_ref(lua_State *L, int arg, const char *name)
{
	struct ref *ref = tc_test_recorded(L, arg, TC_REF);
	struct refused r = {.name = name};

	if (!ref) {
		r.got = tc_describe(L, arg);
		tc_record_call(L, refuse, &r);
	}
	return ref;
}

static void record(struct kern *k, void *arg)
{
	tc_kern_record(k, arg);
}

/* ---- cluster launch control ---------------------------------------------- */

static const char try_doc[] =
	"try_cluster_cancel(result: Ref, barrier: Barrier)\n"
	"Asks for the work of a cluster of the same grid that has not started: that one will not "
	"start, and this one does its work. The answer is written to `result`, 16 bytes of SMEM "
	"(`tc.cluster_cancel_result`); the request is one arrival on the barrier, whose phase "
	"completes when the answer is there.\n\n"
	"Every CTA of the cluster makes the request, each with its own `result` and `barrier`: all "
	"get one answer. An answer without success is the last: do not ask again; work that is "
	"left, if any, starts by itself. "
	"`sm_90a` has no launch control; there the answer is always that nothing is left, and the "
	"grid runs as it was launched.";

static int try_cluster_cancel(lua_State *L)
{
	struct op draft = {.kind = OP_TRY_CLUSTER_CANCEL};
	struct refused r = {.name = "barrier"};
	const struct barrier_ref *barrier;

	draft.u.try_cancel.result = check_ref(L, 1, "result");
	barrier = tc_test_recorded(L, 2, TC_BARRIER);
	if (!barrier) {
		r.got = tc_describe(L, 2);
		tc_record_call(L, refuse, &r);
		return 0;
	}
	draft.u.try_cancel.barrier = *barrier;
	tc_record_call(L, record, &draft);
	return 0;
}

struct query {
	struct op draft;
	int count; /* of names; -1: all axes of the grid */
	const char *name[TC_MAX_RANK];
	struct query_cancel_op result;
};

static int grid_axis(struct kern *k, const char *name)
{
	const char *list = "";

	for (int i = 0; i < k->grid_rank; i++) {
		if (k->grid_names[i] && strcmp(k->grid_names[i], name) == 0)
			return i;
		list = tc_arena_printf(&k->arena, "%s%s%s", list, i ? ", " : "",
				       k->grid_names[i] ? k->grid_names[i] : "?");
	}
	tc_fail(&k->err, "unknown grid axis '%s'; axes of the grid: %s", name, list);
}

static void record_query(struct kern *k, void *arg)
{
	struct query *x = arg;
	struct query_cancel_op *q = &x->draft.u.query_cancel;

	q->count = x->count < 0 ? k->grid_rank : x->count;
	for (int i = 0; i < q->count; i++) {
		q->axis[i] = x->count < 0 ? i : grid_axis(k, x->name[i]);
		q->index[i] = tc_val_leaf(k, VAL_OP, VT_S32);
	}
	q->success = tc_val_leaf(k, VAL_OP, VT_PRED);
	x->result = tc_kern_record(k, &x->draft)->u.query_cancel;
}

static void read_names(lua_State *L, int arg, struct query *x)
{
	lua_Integer count;

	x->count = -1;
	if (lua_isnoneornil(L, arg))
		return;
	if (!lua_istable(L, arg))
		tc_argerror(L, arg, "grid_names: list of names of grid axes expected, got %s",
			    tc_describe(L, arg));
	count = luaL_len(L, arg);
	if (count > TC_MAX_RANK)
		tc_argerror(L, arg, "grid_names: at most %d names, got %lld", TC_MAX_RANK,
			    (long long)count);
	x->count = (int)count;
	for (int i = 0; i < x->count; i++) {
		lua_rawgeti(L, arg, i + 1);
		if (!tc_is_text(L, -1))
			tc_argerror(L, arg, "grid_names: name of a grid axis expected, got %s",
				    tc_describe(L, -1));
		x->name[i] = lua_tostring(L, -1);
		lua_pop(L, 1);
	}
}

static const char query_doc[] =
	"query_cluster_cancel(result: Ref, grid_names?: string[]) -> Scalar[], Scalar\n"
	"Reads the answer to `tc.try_cluster_cancel` after its barrier was waited for: the indices "
	"of the work that was taken over along the axes of the grid (all, or those named), and "
	"whether there was any. Without success the indices are 0.\n\n"
	"It may stand in shared code, where every role reads the answer for itself, behind a wait "
	"in each of them.";

static int query_cluster_cancel(lua_State *L)
{
	struct query x = {.draft = {.kind = OP_QUERY_CLUSTER_CANCEL}};

	x.draft.u.query_cancel.result = check_ref(L, 1, "result");
	read_names(L, 2, &x);
	tc_record_call(L, record_query, &x);
	lua_createtable(L, x.result.count, 0);
	for (int i = 0; i < x.result.count; i++) {
		tc_push_scalar(L, x.result.index[i]);
		lua_rawseti(L, -2, i + 1);
	}
	tc_set_shown(L);
	tc_push_scalar(L, x.result.success);
	return 2;
}

/* ---- semaphores ---------------------------------------------------------- */

struct semaphore {
	struct op draft;
	struct lua_value value;
};

static void record_semaphore(struct kern *k, void *arg)
{
	struct semaphore *s = arg;

	s->draft.u.semaphore.value = tc_value_node(k, &s->value);
	tc_kern_record(k, &s->draft);
}

/* Of the options at `arg`: who waits is on any device, else on this one. */
static bool is_system_scope(lua_State *L, int arg, const char *const *options)
{
	const char *scope;

	tc_options(L, arg, options);
	scope = tc_option_string(L, arg, "memory_scope", "sys");
	if (strcmp(scope, "sys") != 0 && strcmp(scope, "gpu") != 0)
		tc_documented_error(L, MEMORY_SCOPE, "", scope);
	return strcmp(scope, "sys") == 0;
}

/* Number or scalar at argument 2, 1 if absent; options at 3. */
static int semaphore(lua_State *L, enum op_kind kind, const char *what, const char *const *options)
{
	struct semaphore s = {.draft = {.kind = kind}, .value = {.kind = 'i', .i = 1}};
	struct semaphore_op *o = &s.draft.u.semaphore;

	o->ref = check_ref(L, 1, "sem");
	if (!lua_isnoneornil(L, 2))
		tc_check_index_value(L, 2, &s.value, what);
	o->system = is_system_scope(L, 3, options);
	o->decrement = kind == OP_SEMAPHORE_WAIT && tc_option_boolean(L, 3, "decrement", true);
	tc_record_call(L, record_semaphore, &s);
	return 0;
}

/* ---- several signals ------------------------------------------------------ */

struct signals {
	struct op draft;
	int given;
	struct ref *ref[TC_MAX_SIGNALS];
	struct lua_value value[TC_MAX_SIGNALS];
};

static void add_signal(struct kern *k, struct signals_op *o, struct ref *r, struct val *value)
{
	if (o->count == TC_MAX_SIGNALS)
		tc_documented(&k->err, SEMAPHORE_MANY, "", tc_integer_text(k, TC_MAX_SIGNALS));
	o->ref[o->count] = r;
	o->value[o->count++] = value;
}

/* A vector of semaphores stands for its elements. */
static void record_signals(struct kern *k, void *arg)
{
	struct signals *s = arg;
	struct signals_op *o = &s->draft.u.signals;

	o->ref = tc_arena_alloc(&k->arena, sizeof(*o->ref) * TC_MAX_SIGNALS);
	o->value = tc_arena_alloc(&k->arena, sizeof(*o->value) * TC_MAX_SIGNALS);
	for (int i = 0; i < s->given; i++) {
		struct ref *r = s->ref[i];
		struct val *value = tc_value_node(k, &s->value[i]);

		if (r->rank != 1 || r->shape[0].size < 0) {
			add_signal(k, o, r, value);
			continue;
		}
		for (int e = 0; e < r->shape[0].size; e++) {
			struct index at = {.start = tc_val_const(k, e)};

			add_signal(k, o, tc_ref_index(k, r, &at, 1), value);
		}
	}
	tc_kern_record(k, &s->draft);
}

/* Raises for a key of the list that is none of 1 .. count. */
static void check_keys(lua_State *L, int list, lua_Integer count, const char *what)
{
	for (lua_pushnil(L); lua_next(L, list); lua_pop(L, 1)) {
		lua_Integer i = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;

		if (i < 1 || i > count)
			tc_argerror(L, 1, "%s expected, but there is an entry at %s", what,
				    tc_describe(L, lua_gettop(L) - 1));
	}
}

/* The entry on top of the stack: a ref, or {ref, inc}. */
static void read_signal(lua_State *L, int number, struct signals *s)
{
	int top = lua_gettop(L), i = s->given++;

	s->value[i] = (struct lua_value){.kind = 'i', .i = 1};
	if (lua_istable(L, top)) {
		check_keys(L, top, 2, lua_pushfstring(L, "signal %d: ref or {ref, inc}", number));
		lua_pop(L, 1);
		lua_rawgeti(L, top, 1);
		lua_rawgeti(L, top, 2);
		if (!lua_isnil(L, -1) && !tc_test_index_value(L, top + 2, &s->value[i]))
			tc_argerror(L, 1,
				    "signal %d: increment of the semaphore: integer or recorded "
				    "s32 expected, got %s",
				    number, tc_describe(L, top + 2));
		lua_pop(L, 1);
	}
	s->ref[i] = tc_test_recorded(L, -1, TC_REF);
	if (!s->ref[i])
		tc_argerror(L, 1, "signal %d: ref or {ref, inc} expected, got %s", number,
			    tc_describe(L, -1));
	lua_settop(L, top - 1);
}

static const char parallel_doc[] =
	"semaphore_signal_parallel(signals: any[], opts?: {memory_scope?: string})\n"
	"Signals several semaphores with one fence: what the role's threads have done before is "
	"visible to all who waited for any of them. Each of `signals` is a semaphore as for "
	"`tc.semaphore_signal`, `{sem, inc}`, or a vector of them, all of whose elements are "
	"signalled: a flag for each CTA that waits. At most 64 in all.";

static int semaphore_signal_parallel(lua_State *L)
{
	static const char *const options[] = {"memory_scope", NULL};
	struct signals s = {.draft = {.kind = OP_SEMAPHORE_SIGNAL_PARALLEL}};
	lua_Integer count;

	if (!lua_istable(L, 1))
		return tc_argerror(L, 1, "signals: list of refs or {ref, inc} expected, got %s",
				   tc_describe(L, 1));
	s.draft.u.signals.system = is_system_scope(L, 2, options);
	lua_settop(L, 1);
	count = luaL_len(L, 1);
	if (count < 1 || count > TC_MAX_SIGNALS)
		return tc_argerror(L, 1, "signals: 1 to %d expected, got %lld", TC_MAX_SIGNALS,
				   (long long)count);
	check_keys(L, 1, count, "signals: list of refs or {ref, inc}");
	for (int i = 1; i <= count; i++) {
		lua_rawgeti(L, 1, i);
		read_signal(L, i, &s);
	}
	tc_record_call(L, record_signals, &s);
	return 0;
}

static const char signal_doc[] =
	"semaphore_signal(sem: Ref, inc?: integer|Scalar, opts?: {memory_scope?: string})\n"
	"Adds `inc` (1) to a semaphore, one int32 element of an argument: what the role's threads "
	"have done before is visible to those who waited for it. Copies to GMEM must have been "
	"waited for, `tc.wait_smem_to_gmem(0)`; stores that another CTA copies by TMA need "
	"`tc.commit_gmem()` first.\n\n"
	"`memory_scope`: who waits, `\"sys\"` (any device) or `\"gpu\"` (this one). The array is "
	"zero at the start.";

static int semaphore_signal(lua_State *L)
{
	static const char *const options[] = {"memory_scope", NULL};

	return semaphore(L, OP_SEMAPHORE_SIGNAL, "increment of the semaphore", options);
}

static const char semaphore_wait_doc[] =
	"semaphore_wait(sem: Ref, value?: integer|Scalar, opts?: {decrement?: boolean, "
	"memory_scope?: string})\n"
	"Waits until a semaphore is at least `value` (1), and takes that much off it unless "
	"`decrement = false`. The CTA that signals must be able to run: it is one of those that "
	"fit on the device together, or started before.\n\n"
	"`memory_scope` as for `tc.semaphore_signal`.";

static int semaphore_wait(lua_State *L)
{
	static const char *const options[] = {"decrement", "memory_scope", NULL};

	return semaphore(L, OP_SEMAPHORE_WAIT, "value of the semaphore", options);
}

/* ---- kernels that follow each other -------------------------------------- */

static int grid_dependency(lua_State *L, enum op_kind kind)
{
	struct op draft = {.kind = kind};

	if (lua_gettop(L) > 0)
		return tc_argerror(L, 1, "no argument expected, got %s", tc_describe(L, 1));
	tc_record_call(L, record, &draft);
	return 0;
}

static int griddepcontrol_wait(lua_State *L)
{
	return grid_dependency(L, OP_GRIDDEPCONTROL_WAIT);
}

static int griddepcontrol_launch_dependents(lua_State *L)
{
	return grid_dependency(L, OP_GRIDDEPCONTROL_LAUNCH_DEPENDENTS);
}

/* ---- prefetch ------------------------------------------------------------ */

struct prefetch {
	struct op draft;
	struct lua_axes axes;
};

static void record_prefetch(struct kern *k, void *arg)
{
	struct prefetch *p = arg;

	p->draft.u.prefetch.collective_axes = tc_kern_axes(k, p->axes.name, p->axes.count);
	tc_kern_record(k, &p->draft);
}

static const char prefetch_doc[] =
	"async_prefetch(ref: Ref, opts?: {collective_axes?: string|string[]})\n"
	"Asks for a tile of an argument to be brought into L2, for a copy that follows later. "
	"Nothing waits for it.\n\n"
	"`collective_axes`: cluster axes whose CTAs ask for a part each of what all of them name.";

static int async_prefetch(lua_State *L)
{
	static const char *const options[] = {"collective_axes", NULL};
	struct prefetch p = {.draft = {.kind = OP_ASYNC_PREFETCH}};

	p.draft.u.prefetch.ref = check_ref(L, 1, "ref");
	tc_options(L, 2, options);
	tc_option_axes(L, 2, "collective_axes", &p.axes);
	tc_record_call(L, record_prefetch, &p);
	return 0;
}

/* ---- documented messages of what is written in Lua ------------------------- */

struct documented {
	enum tc_error id;
	const char *text[TC_PROMISE_WORDS + 2]; /* further lines, words, NULL */
	struct promise *promise;
};

static const char raise_doc[] = "raise_documented(id: string, ...: string)\n"
				"Raises a message of docs/errors.md at the line of the script: its "
				"id in src/errors.def, and "
				"the texts for its words. For libraries written on this module.";

/* Pushes the message that the arguments give: an id and the texts of its words. */
static struct documented *push_documented(lua_State *L)
{
	static const char *const ids[] = {
#define SECTION(title)
#define ERROR(id, ...)   #id,
#define ALTERED(id, ...) #id,
#define OWN(id, ...)     #id,
#include "errors.def"
		NULL};
	int words = lua_gettop(L) - 1, id = 0;
	struct documented *d;

	if (lua_type(L, 1) != LUA_TSTRING)
		tc_argerror(L, 1, "id of a message expected, got %s", tc_describe(L, 1));
	while (ids[id] && strcmp(ids[id], lua_tostring(L, 1)) != 0)
		id++;
	if (!ids[id])
		tc_argerror(L, 1, "there is no message '%s'", lua_tostring(L, 1));
	for (int i = 2; i <= words + 1; i++)
		if (lua_type(L, i) != LUA_TSTRING)
			tc_argerror(L, i, "text of a word expected, got %s", tc_describe(L, i));
	if (words != tc_message_words((enum tc_error)id) || words > TC_PROMISE_WORDS)
		tc_argerror(L, 1, "message '%s' has %d words, got %d", ids[id],
			    tc_message_words((enum tc_error)id), words);
	d = lua_newuserdatauv(L, sizeof *d, 0);
	memset(d, 0, sizeof *d);
	d->id = (enum tc_error)id;
	d->text[0] = "";
	for (int i = 0; i < words; i++)
		d->text[1 + i] = lua_tostring(L, 2 + i);
	return d;
}

static int raise_documented(lua_State *L)
{
	struct documented *d = push_documented(L);

	return tc_raise_documented(L, d->id, d->text);
}

static const char promise_doc[] =
	"promise_documented(id: string, ...: string) -> function\n"
	"Raises a message of docs/errors.md, as `tc.raise_documented`, but where the recording "
	"ends, and unless the function that is returned has been called by then. For libraries "
	"whose objects must be used, such as the result of `tc.emit_pipeline`.";

static void record_promise(struct kern *k, void *arg)
{
	struct documented *d = arg;

	d->promise = tc_kern_promise(k, (int)d->id, d->text);
}

/* Upvalues: the kernel, the promise. */
static int keep_promise(lua_State *L)
{
	const struct lua_kernel *owner = lua_touserdata(L, lua_upvalueindex(1));

	if (owner->kern && !owner->kern->finished)
		tc_kern_keep(owner->kern, lua_touserdata(L, lua_upvalueindex(2)));
	return 0;
}

static int promise_documented(lua_State *L)
{
	struct documented *d = push_documented(L);

	tc_record_call(L, record_promise, d);
	tc_push_open_recording(L);
	lua_pushlightuserdata(L, d->promise);
	lua_pushcclosure(L, keep_promise, 2);
	return 1;
}

static const struct tc_function functions[] = {
	{"raise_documented", raise_documented, raise_doc},
	{"promise_documented", promise_documented, promise_doc},
	{"semaphore_signal", semaphore_signal, signal_doc},
	{"semaphore_signal_parallel", semaphore_signal_parallel, parallel_doc},
	{"semaphore_wait", semaphore_wait, semaphore_wait_doc},
	{"griddepcontrol_wait", griddepcontrol_wait,
	 "griddepcontrol_wait()\n"
	 "Waits until the kernels launched before in the stream have ended and what they wrote is "
	 "visible. A kernel with it is launched as soon as they allow (programmatic dependent "
	 "launch), so that its start runs under their end; nothing that they write or read may be "
	 "touched before. In shared code every role waits."},
	{"griddepcontrol_launch_dependents", griddepcontrol_launch_dependents,
	 "griddepcontrol_launch_dependents()\n"
	 "Allows the next kernel in the stream to start, once every block has said so or ended, if "
	 "it has a `tc.griddepcontrol_wait`."},
	{"async_prefetch", async_prefetch, prefetch_doc},
	{"try_cluster_cancel", try_cluster_cancel, try_doc},
	{"query_cluster_cancel", query_cluster_cancel, query_doc},
	{NULL, NULL, NULL},
};

void tc_open_schedule(lua_State *L)
{
	tc_functions(L, "tcmma", functions);
}

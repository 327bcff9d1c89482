/* Devices, streams and events as Lua objects; the current device. */
#include "lua_dev.h"

#include <string.h>

struct lua_device {
	struct device *device;
};

/* A stream or an event: a handle of a device's. */
struct lua_handle {
	struct device *device;
	void *handle;
	bool recorded; /* events */
};

#define DEVICES "tcmma.devices" /* registry: name -> device object */
#define CURRENT "tcmma.current" /* registry: the current device's object */

/* ---- errors -------------------------------------------------------------- */

int tc_raise_device(lua_State *L, struct err *e)
{
	tc_position(L, &e->pos);
	return tc_raise(L, e);
}

int tc_fail_device(lua_State *L, struct err *e)
{
	if (e->kind == ERR_ENVIRONMENT)
		return tc_failure(L, e->code ? e->code : "environment", "%s", e->text);
	return tc_raise_device(L, e);
}

/* ---- devices by name ----------------------------------------------------- */

/* Pushes the object of an open device of this name, or nothing. */
static struct device *find_open(lua_State *L, const char *name)
{
	luaL_getsubtable(L, LUA_REGISTRYINDEX, DEVICES);
	lua_getfield(L, -1, name);
	lua_remove(L, -2);
	struct lua_device *object = luaL_testudata(L, -1, TC_DEVICE);
	if (object && object->device)
		return object->device;
	lua_pop(L, 1);
	return NULL;
}

void tc_push_device(lua_State *L, struct device *d)
{
	if (find_open(L, d->name) == d)
		return;
	struct lua_device *object = tc_new_object(L, TC_DEVICE, sizeof *object, 0);
	object->device = tc_device_hold(d);
	luaL_getsubtable(L, LUA_REGISTRYINDEX, DEVICES);
	lua_pushvalue(L, -2);
	lua_setfield(L, -2, d->name);
	lua_pop(L, 1);
}

struct device *tc_open_named(lua_State *L, const char *name, struct err *e)
{
	struct device *d = NULL;

	if (name && !strcmp(name, "emulator"))
		name = "emulator:sm_100a";
	if (name && !strcmp(name, "cuda"))
		name = "cuda:0";
	if (name && (d = find_open(L, name))) {
		lua_pop(L, 1);
		return d;
	}
	d = tc_device_open(name, e);
	if (!d)
		return NULL;
	struct device *same = find_open(L, d->name);
	if (same) {
		tc_device_drop(d);
		lua_pop(L, 1);
		return same;
	}
	/* A reference is held by the object; ours goes back. */
	tc_push_device(L, d);
	lua_pop(L, 1);
	tc_device_drop(d);
	return d;
}

static void set_current(lua_State *L, struct device *d)
{
	tc_push_device(L, d);
	lua_setfield(L, LUA_REGISTRYINDEX, CURRENT);
}

struct device *tc_current_device(lua_State *L)
{
	struct err e = {0};
	const char *name;

	lua_getfield(L, LUA_REGISTRYINDEX, CURRENT);
	struct lua_device *object = luaL_testudata(L, -1, TC_DEVICE);
	lua_pop(L, 1);
	if (object && object->device)
		return object->device;
	name = tc_config_string(CONFIG_device);
	struct device *d = tc_open_named(L, name, &e);
	if (!d && name) {
		tc_dev_fail(&e, e.kind, e.code, "TCMMA_DEVICE (tc.config.device) is '%s', but %s",
			    name, e.text);
		tc_raise_device(L, &e);
	}
	if (!d)
		tc_raise_device(L, &e);
	set_current(L, d);
	return d;
}

const struct target *tc_likely_target(lua_State *L)
{
	struct err e = {0};
	struct lua_device *object;
	struct device *d;

	lua_getfield(L, LUA_REGISTRYINDEX, CURRENT);
	object = luaL_testudata(L, -1, TC_DEVICE);
	lua_pop(L, 1);
	if (object && object->device)
		return object->device->target;
	d = tc_open_named(L, tc_config_string(CONFIG_device), &e);
	return d ? d->target : NULL;
}

/* The object of an open device; raises when `arg` is none, or is closed. */
static struct device *check_device(lua_State *L, int arg)
{
	struct lua_device *object = tc_check_object(L, arg, TC_DEVICE);

	if (!object->device)
		tc_argerror(L, arg, "the device is closed");
	return object->device;
}

struct device *tc_to_device(lua_State *L, int arg)
{
	struct err e = {0};
	struct device *d;

	if (!tc_is_text(L, arg))
		return check_device(L, arg);
	d = tc_open_named(L, lua_tostring(L, arg), &e);
	if (!d)
		tc_raise_device(L, &e);
	return d;
}

uint64_t tc_device_alloc(lua_State *L, struct device *d, uint64_t bytes, const char *name)
{
	struct err e = {0};
	uint64_t address = d->ops->alloc(d, bytes, name, &e);

	if (!address && e.kind == ERR_MEMORY) {
		/* Arrays that nobody can reach may hold what is missing. */
		lua_gc(L, LUA_GCCOLLECT);
		lua_gc(L, LUA_GCCOLLECT);
		address = d->ops->alloc(d, bytes, name, &e);
	}
	if (!address)
		tc_raise_device(L, &e);
	return address;
}

/* ---- tc.device and its like ---------------------------------------------- */

static int device(lua_State *L)
{
	struct err e = {0};

	if (lua_isnoneornil(L, 1)) {
		tc_push_device(L, tc_current_device(L));
		return 1;
	}
	if (tc_test_object(L, 1, TC_DEVICE)) {
		lua_settop(L, 1);
		return 1;
	}
	if (!tc_is_text(L, 1))
		return tc_argerror(
			L, 1,
			"name of a device expected, such as \"cuda:0\" or \"emulator\"; got %s",
			tc_describe(L, 1));
	struct device *d = tc_open_named(L, lua_tostring(L, 1), &e);
	if (!d)
		return tc_fail_device(L, &e);
	tc_push_device(L, d);
	return 1;
}

static int devices(lua_State *L)
{
	struct err e = {0};
	int count = tc_gpu_count(&e), n = 0;

	lua_newtable(L);
	for (int i = 0; i < count; i++) {
		lua_pushfstring(L, "cuda:%d", i);
		if (tc_open_named(L, lua_tostring(L, -1), &e))
			lua_rawseti(L, -2, ++n);
		else
			lua_pop(L, 1);
	}
	for (const struct target *const *t = tc_targets(); *t; t++) {
		lua_pushfstring(L, "emulator:%s", (*t)->name);
		lua_rawseti(L, -2, ++n);
	}
	tc_set_shown(L);
	return 1;
}

static int use(lua_State *L)
{
	struct device *d = tc_to_device(L, 1);

	set_current(L, d);
	tc_push_device(L, d);
	return 1;
}

static int device_use(lua_State *L)
{
	set_current(L, check_device(L, 1));
	lua_settop(L, 1);
	return 1;
}

static int device_synchronize(lua_State *L)
{
	struct device *d = check_device(L, 1);
	struct err e = {0};

	if (!d->ops->synchronize(d, &e))
		return tc_raise_device(L, &e);
	lua_settop(L, 1);
	return 1;
}

static void push_properties(lua_State *L, struct device *d)
{
	struct device_properties p = {0};

	d->ops->properties(d, &p);
	lua_createtable(L, 0, 7);
	tc_set_string(L, "description", p.description);
	tc_set_integer(L, "sm_count", p.sm_count);
	tc_set_integer(L, "max_threads", p.max_threads);
	tc_set_integer(L, "clock_khz", p.clock_khz);
	tc_set_integer(L, "memory", p.memory);
	tc_set_integer(L, "memory_free", p.memory_free);
	tc_set_integer(L, "smem_limit", p.smem_limit);
	tc_set_shown(L);
}

static int device_field(lua_State *L)
{
	struct device *d = check_device(L, 1);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (!strcmp(key, "name"))
		lua_pushstring(L, d->name);
	else if (!strcmp(key, "target"))
		lua_pushstring(L, d->target->name);
	else if (!strcmp(key, "properties"))
		push_properties(L, d);
	else if (!strcmp(key, "is_emulator"))
		lua_pushboolean(L, tc_device_is_emulator(d));
	else
		return 0;
	return 1;
}

static int device_tostring(lua_State *L)
{
	struct lua_device *object = tc_check_object(L, 1, TC_DEVICE);

	if (!object->device)
		lua_pushliteral(L, "tcmma.device (closed)");
	else
		lua_pushfstring(L, "tcmma.device %s (%s)", object->device->name,
				object->device->target->name);
	return 1;
}

static int device_gc(lua_State *L)
{
	struct lua_device *object = luaL_testudata(L, 1, TC_DEVICE);

	if (object && object->device) {
		tc_device_drop(object->device);
		object->device = NULL;
	}
	return 0;
}

/* ---- streams and events -------------------------------------------------- */

static struct lua_handle *check_handle(lua_State *L, int arg, const char *class_name)
{
	struct lua_handle *h = tc_check_object(L, arg, class_name);

	if (!h->device)
		tc_argerror(L, arg, "the %s is closed", strchr(class_name, '.') + 1);
	return h;
}

static struct lua_handle *new_handle(lua_State *L, struct device *d, const char *class_name,
				     void *(*make)(struct device *, struct err *))
{
	struct err e = {0};
	struct lua_handle *h = tc_new_object(L, class_name, sizeof *h, 0);

	h->recorded = false;
	h->handle = make(d, &e);
	if (!h->handle)
		tc_raise_device(L, &e);
	h->device = tc_device_hold(d);
	return h;
}

static int device_stream(lua_State *L)
{
	struct device *d = check_device(L, 1);

	new_handle(L, d, TC_STREAM, d->ops->stream_new);
	return 1;
}

static int device_event(lua_State *L)
{
	struct device *d = check_device(L, 1);

	new_handle(L, d, TC_EVENT, d->ops->event_new);
	return 1;
}

static int stream_synchronize(lua_State *L)
{
	struct lua_handle *h = check_handle(L, 1, TC_STREAM);
	struct err e = {0};

	if (!h->device->ops->stream_synchronize(h->device, h->handle, &e))
		return tc_raise_device(L, &e);
	lua_settop(L, 1);
	return 1;
}

static int event_record(lua_State *L)
{
	struct lua_handle *h = check_handle(L, 1, TC_EVENT);
	struct err e = {0};
	void *stream = NULL;

	if (!lua_isnoneornil(L, 2)) {
		struct lua_handle *s = check_handle(L, 2, TC_STREAM);
		if (s->device != h->device)
			return tc_argerror(L, 2, "the event is of %s, the stream of %s",
					   h->device->name, s->device->name);
		stream = s->handle;
	}
	if (!h->device->ops->event_record(h->device, h->handle, stream, &e))
		return tc_raise_device(L, &e);
	h->recorded = true;
	lua_settop(L, 1);
	return 1;
}

static int event_since(lua_State *L)
{
	struct lua_handle *to = check_handle(L, 1, TC_EVENT), *from = check_handle(L, 2, TC_EVENT);
	struct err e = {0};
	double ms = 0;

	if (from->device != to->device)
		return tc_argerror(L, 2, "the events are of %s and %s", to->device->name,
				   from->device->name);
	for (int arg = 1; arg <= 2; arg++)
		if (!(arg == 1 ? to : from)->recorded)
			return tc_argerror(
				L, arg,
				"the event was not recorded: call earlier:record() before the "
				"work and later:record() after it, then later:since(earlier)");
	if (!to->device->ops->event_elapsed(to->device, from->handle, to->handle, &ms, &e))
		return tc_raise_device(L, &e);
	lua_pushnumber(L, ms);
	return 1;
}

static int stream_gc(lua_State *L)
{
	struct lua_handle *h = luaL_testudata(L, 1, TC_STREAM);

	if (h && h->device) {
		h->device->ops->stream_free(h->device, h->handle);
		tc_device_drop(h->device);
		h->device = NULL;
	}
	return 0;
}

static int event_gc(lua_State *L)
{
	struct lua_handle *h = luaL_testudata(L, 1, TC_EVENT);

	if (h && h->device) {
		h->device->ops->event_free(h->device, h->handle);
		tc_device_drop(h->device);
		h->device = NULL;
	}
	return 0;
}

static int handle_tostring(lua_State *L)
{
	const struct lua_handle *h = lua_touserdata(L, 1);

	luaL_getmetafield(L, 1, "__name");
	if (h->device)
		lua_pushfstring(L, "%s of %s", lua_tostring(L, -1), h->device->name);
	else
		lua_pushfstring(L, "%s (closed)", lua_tostring(L, -1));
	return 1;
}

static int stream_tostring(lua_State *L)
{
	tc_check_object(L, 1, TC_STREAM);
	return handle_tostring(L);
}

static int event_tostring(lua_State *L)
{
	tc_check_object(L, 1, TC_EVENT);
	return handle_tostring(L);
}

void *tc_option_stream(lua_State *L, int arg, struct device *d)
{
	if (!tc_option_push(L, arg, "stream"))
		return NULL;
	struct lua_handle *s = tc_test_object(L, -1, TC_STREAM);
	if (!s || !s->device)
		tc_argerror(L, arg, "option 'stream' must be a stream (device:stream()), got %s",
			    tc_describe(L, -1));
	if (s->device != d)
		tc_argerror(L, arg, "option 'stream' is of %s, but the launch is on %s",
			    s->device->name, d->name);
	lua_pop(L, 1);
	return s->handle;
}

/* ---- registration -------------------------------------------------------- */

static const struct tc_function functions[] = {
	{"device", device,
	 "device(name?: string) -> tcmma.device?, string?, string?\n"
	 "A device by name: `\"cuda:0\"`, `\"emulator\"` (that is `\"emulator:sm_100a\"`), "
	 "`\"emulator:sm_90a\"`, `\"emulator:sm_103a\"`. Without a name, the current device. It "
	 "does not "
	 "change the current device; `tc.use` does.\n\n"
	 "Where this machine lacks what the name asks for, the answer is nil, a message and a "
	 "code: "
	 "`no-driver`, `no-device`. A name that no machine could have is an error."},
	{"devices", devices,
	 "devices() -> string[]\n"
	 "The names that `tc.device` opens here: GPUs that have a target, then the emulated "
	 "devices."},
	{"use", use,
	 "use(device: tcmma.device|string) -> tcmma.device\n"
	 "Makes a device the current one: new arrays live on it, and `tc.cuda` compiles for its "
	 "target. "
	 "Arrays made before stay where they are."},
	{NULL, NULL, NULL}};

static const struct tc_function device_methods[] = {
	{"use", device_use,
	 "use() -> tcmma.device\nMakes it the current device, as `tc.use` does."},
	{"synchronize", device_synchronize,
	 "synchronize() -> tcmma.device\n"
	 "Waits for all work on the device. A fault of a kernel that ran since the last wait is "
	 "raised here "
	 "and names the kernel. A kernel that does not end is named on standard error after 10 s "
	 "(`TCMMA_GPU_PROGRESS`); `TCMMA_GPU_TIMEOUT` makes it an error, Ctrl-C ends the wait. So "
	 "it is with everything that waits: copies, streams, events."},
	{"stream", device_stream,
	 "stream() -> tcmma.stream\nA new stream: launches on one stream run in order. On the "
	 "emulator a launch "
	 "is finished when it returns, whatever its stream."},
	{"event", device_event,
	 "event() -> tcmma.event\nA new event, for measuring: `e:record(stream?)`, "
	 "`e2:since(e1)`."},
	{NULL, NULL, NULL}};

static const struct tc_function stream_methods[] = {
	{"synchronize", stream_synchronize,
	 "synchronize() -> tcmma.stream\nWaits for the stream's work."},
	{NULL, NULL, NULL}};

static const struct tc_function event_methods[] = {
	{"record", event_record,
	 "record(stream?: tcmma.stream) -> tcmma.event\nMarks the present point of the "
	 "stream, or of the "
	 "device's "
	 "own order of launches."},
	{"since", event_since,
	 "since(earlier: tcmma.event) -> number\nMilliseconds from the earlier event to this "
	 "one; waits for both, which were recorded."},
	{NULL, NULL, NULL}};

static const luaL_Reg device_meta[] = {
	{"__tostring", device_tostring}, {"__gc", device_gc}, {NULL, NULL}};
static const luaL_Reg stream_meta[] = {
	{"__tostring", stream_tostring}, {"__gc", stream_gc}, {"__close", stream_gc}, {NULL, NULL}};
static const luaL_Reg event_meta[] = {
	{"__tostring", event_tostring}, {"__gc", event_gc}, {"__close", event_gc}, {NULL, NULL}};

void tc_open_device(lua_State *L)
{
	tc_class(
		L, TC_DEVICE,
		"Where arrays live and kernels run.\n"
		"---@field name string \"cuda:0\", \"emulator:sm_100a\"\n"
		"---@field target string \"sm_100a\"\n"
		"---@field is_emulator boolean\n"
		"---@field properties table `description`, `sm_count`, `max_threads`, `clock_khz`, "
		"`memory`, `memory_free`, `smem_limit` (bytes). An emulated device "
		"has the `sm_count` of an H200 (sm_90a: 132), a B200 (sm_100a: 148) or a B300 "
		"(sm_103a: 148)\n",
		device_methods, device_meta, device_field);
	tc_class(L, TC_STREAM, "An order of launches on a device.", stream_methods, stream_meta,
		 NULL);
	tc_class(L, TC_EVENT, "A point in the order of launches, with its time.", event_methods,
		 event_meta, NULL);
	tc_functions(L, "tcmma", functions);
	tc_open_config(L);
}

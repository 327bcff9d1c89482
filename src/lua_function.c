/* Kernels of foreign modules: arguments converted to their PTX types, launch and emulation. */
#include "lua_dev.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOWEST_ADDRESS 65536 /* no memory of any device lies below */

/* ---- arguments ----------------------------------------------------------- */

static struct lua_function *check_function(lua_State *L, int arg)
{
	struct lua_function *f = tc_check_object(L, arg, TC_FUNCTION);

	if (!f->module || !f->module->ptx)
		tc_argerror(L, arg, "the kernel's module is closed");
	return f;
}

/* Compilers name a parameter after its entry and number, which says nothing: "" then. */
static const char *param_name(const struct ptx_entry *entry, int i)
{
	size_t n = strlen(entry->name);
	const char *name = entry->params[i].name;

	return !strncmp(name, entry->name, n < 120 ? n : 120) ? "" : name;
}

/* Pushes "a .u64, n .u32". */
static const char *push_params(lua_State *L, const struct ptx_entry *entry)
{
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	for (int i = 0; i < entry->param_count; i++) {
		if (i)
			luaL_addstring(&b, ", ");
		const char *name = param_name(entry, i);
		luaL_addstring(&b, name);
		luaL_addstring(&b, *name ? " " : "");
		tc_push_param_type(L, &entry->params[i]);
		luaL_addvalue(&b);
	}
	luaL_pushresult(&b);
	return lua_tostring(L, -1);
}

static int bad_value(lua_State *L, const struct lua_function *f, int i, const char *why)
{
	const char *got = tc_describe(L, -1);

	const char *name = param_name(f->entry, i);

	tc_push_param_type(L, &f->entry->params[i]);
	return tc_error(L, "argument %d of kernel '%s' (%s%s%s): %s, got %s", i + 1, f->name, name,
			*name ? " " : "", lua_tostring(L, -1), why, got);
}

static void set_float(lua_State *L, const struct lua_function *f, int i, struct launch_param *p)
{
	const char *type = f->entry->params[i].type;
	double x = lua_tonumber(L, -1);

	if (!strcmp(type, "f64")) {
		memcpy(p->bytes, &x, sizeof x);
	} else if (!strcmp(type, "f32")) {
		float y = (float)x;
		if (isinf(y) && !isinf(x))
			bad_value(L, f, i, "the number is out of range");
		memcpy(p->bytes, &y, sizeof y);
	} else {
		uint64_t bits = tc_from_double(!strcmp(type, "f16") ? DT_F16 : DT_BF16, x);
		memcpy(p->bytes, &bits, p->size);
	}
}

static void set_integer(lua_State *L, const struct lua_function *f, int i, struct launch_param *p)
{
	char kind = f->entry->params[i].type[0];
	int bits = (int)p->size * 8, ok;
	lua_Integer n = lua_tointegerx(L, -1, &ok);

	if (!ok)
		bad_value(L, f, i, "an integer is expected");
	if (f->entry->params[i].is_pointer && n != 0 && (uint64_t)n < LOWEST_ADDRESS)
		bad_value(L, f, i,
			  "it is a pointer: an array, an address (array.address + bytes) or 0 is "
			  "expected");
	/* A .b type takes the signed and the unsigned range; 64 bits take any Lua integer. */
	lua_Integer low = kind == 'u'  ? 0
			  : bits == 64 ? LUA_MININTEGER
				       : -((lua_Integer)1 << (bits - 1));
	lua_Integer high = bits == 64    ? LUA_MAXINTEGER
			   : kind == 's' ? ((lua_Integer)1 << (bits - 1)) - 1
					 : ((lua_Integer)1 << bits) - 1;
	if (n < low || n > high) {
		char why[96];
		snprintf(why, sizeof why, "an integer from %lld to %lld is expected",
			 (long long)low, (long long)high);
		bad_value(L, f, i, why);
	}
	memcpy(p->bytes, &n, p->size);
}

static void set_number(lua_State *L, const struct lua_function *f, int i, struct launch_param *p)
{
	const struct ptx_param *param = &f->entry->params[i];

	if (param->is_array || param->size > 8)
		bad_value(L, f, i, "a string of its bytes is expected");
	if (param->type[0] == 'f' || !strcmp(param->type, "bf16"))
		set_float(L, f, i, p);
	else
		set_integer(L, f, i, p);
}

static void set_array(lua_State *L, const struct lua_function *f, int i, struct run *r)
{
	const struct ptx_param *param = &f->entry->params[i];
	struct array *a = tc_check_array(L, lua_gettop(L));

	if (param->is_array || param->size != 8 || param->type[0] == 'f')
		bad_value(L, f, i, "an array goes into a 64-bit parameter");
	r->arrays[i] = a;
	memcpy(r->params[i].bytes, &a->address, sizeof a->address);
}

static void set_tensormap(lua_State *L, const struct lua_function *f, int i, struct run *r)
{
	const struct lua_tensormap *t = lua_touserdata(L, -1);

	if (f->entry->params[i].size != 128)
		bad_value(L, f, i, "a tensor map goes into a parameter of 128 bytes");
	lua_getiuservalue(L, -1, 1);
	r->arrays[i] = tc_check_array(L, lua_gettop(L));
	lua_pop(L, 1);
	r->params[i].is_tensormap = true;
	r->params[i].map = t->map;
}

/* The string stays in the table of arguments while the launch runs. */
static void set_bytes(lua_State *L, const struct lua_function *f, int i, struct launch_param *p)
{
	size_t length;
	const char *bytes = lua_tolstring(L, -1, &length);

	if (length != p->size) {
		char why[96];
		snprintf(why, sizeof why, "a string must have the parameter's %u bytes, not %zu",
			 p->size, length);
		bad_value(L, f, i, why);
	}
	if (length > sizeof p->bytes)
		p->large = bytes;
	else
		memcpy(p->bytes, bytes, length);
}

static void set_argument(lua_State *L, const struct lua_function *f, int i, struct run *r)
{
	struct launch_param *p = &r->params[i];

	p->size = f->entry->params[i].size;
	if (lua_type(L, -1) == LUA_TNUMBER)
		set_number(L, f, i, p);
	else if (lua_type(L, -1) == LUA_TSTRING)
		set_bytes(L, f, i, p);
	else if (tc_test_object(L, -1, TC_ARRAY))
		set_array(L, f, i, r);
	else if (tc_test_object(L, -1, TC_TENSORMAP))
		set_tensormap(L, f, i, r);
	else if (lua_isboolean(L, -1) && p->size <= 4 && f->entry->params[i].type[0] != 'f')
		p->bytes[0] = (uint8_t)lua_toboolean(L, -1);
	else
		bad_value(L, f, i,
			  "an array, a number, a tensor map or a string of bytes is expected");
}

/* Arguments of the option 'args'; the table stays on the stack, below the run. */
static struct run *read_arguments(lua_State *L, const struct lua_function *f, bool report)
{
	const struct ptx_entry *entry = f->entry;
	lua_Integer count = 0;

	if (!tc_option_push(L, 2, "args"))
		lua_newtable(L);
	if (!lua_istable(L, -1))
		tc_argerror(L, 2, "option 'args' must be a list of arguments, got %s",
			    tc_describe(L, -1));
	int args = lua_gettop(L);
	/* Not the table's length: a nil in the middle is an argument that is missing. */
	lua_pushnil(L);
	while (lua_next(L, args)) {
		lua_Integer key = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
		if (key < 1)
			tc_argerror(L, 2, "option 'args' is a list: it has the key %s",
				    tc_describe(L, -2));
		count = key > count ? key : count;
		lua_pop(L, 1);
	}
	if (count != entry->param_count)
		tc_error(L, "kernel '%s' takes %d argument%s (%s), got %lld", f->name,
			 entry->param_count, entry->param_count == 1 ? "" : "s",
			 push_params(L, entry), (long long)count);
	struct run *r = tc_new_run(L, entry->param_count, report);
	luaL_checkstack(L, entry->param_count + 16, "for the arguments");
	for (int i = 0; i < entry->param_count; i++) {
		lua_rawgeti(L, args, i + 1);
		set_argument(L, f, i, r);
		/* The argument stays on the stack, and so alive. */
		lua_settop(L, args + 2 + i);
	}
	return r;
}

/* ---- launch -------------------------------------------------------------- */

static void describe_dims(char *out, size_t size, const uint32_t d[3])
{
	snprintf(out, size, "{%u, %u, %u}", d[0], d[1], d[2]);
}

static void check_block(lua_State *L, const struct lua_function *f, const uint32_t block[3])
{
	const struct ptx_entry *entry = f->entry;
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
	uint64_t limit =
		(uint64_t)entry->max_threads[0] * entry->max_threads[1] * entry->max_threads[2];
	char got[48], wanted[48];

	describe_dims(got, sizeof got, block);
	describe_dims(wanted, sizeof wanted, entry->required_threads);
	if (block[0] > 1024 || block[1] > 1024 || block[2] > 64 || threads > 1024)
		tc_argerror(L, 2,
			    "option 'block': %s is more than 1024 threads (at most 1024 along x "
			    "and y, 64 along z)",
			    got);
	if (entry->required_threads[0] && memcmp(block, entry->required_threads, 3 * sizeof *block))
		tc_argerror(L, 2, "option 'block': kernel '%s' needs exactly %s (.reqntid), got %s",
			    f->name, wanted, got);
	if (limit && threads > limit)
		tc_argerror(L, 2,
			    "option 'block': kernel '%s' takes at most %llu threads (.maxntid), "
			    "got %llu",
			    f->name, (unsigned long long)limit, (unsigned long long)threads);
}

static void check_cluster(lua_State *L, const struct lua_function *f, struct launch *l, bool given)
{
	const uint32_t *required = f->entry->required_cluster;
	char got[48], wanted[48];

	if (!given && !required[0]) {
		memset(l->cluster, 0, sizeof l->cluster);
		return;
	}
	describe_dims(got, sizeof got, l->cluster);
	describe_dims(wanted, sizeof wanted, required);
	if (given && required[0] && memcmp(l->cluster, required, sizeof l->cluster))
		tc_argerror(L, 2,
			    "option 'cluster': kernel '%s' needs %s (.reqnctapercluster), got %s",
			    f->name, wanted, got);
	if (!given)
		memcpy(l->cluster, required, sizeof l->cluster);
	for (int i = 0; i < 3; i++)
		if (l->grid[i] % l->cluster[i])
			tc_argerror(L, 2,
				    "option 'grid': %u blocks along %c cannot be cut into clusters "
				    "of %u",
				    l->grid[i], "xyz"[i], l -> cluster[i]);
}

static struct run *read_launch(lua_State *L, const struct lua_function *f, bool report)
{
	struct run *r = read_arguments(L, f, report);
	struct launch *l = &r->launch;

	tc_option_dims(L, 2, "grid", l->grid);
	if (l->grid[1] > 65535 || l->grid[2] > 65535)
		tc_argerror(L, 2, "option 'grid': at most 65535 blocks along y and z");
	if (!tc_option_dims(L, 2, "block", l->block) && f->entry->required_threads[0])
		memcpy(l->block, f->entry->required_threads, sizeof l->block);
	check_block(L, f, l->block);
	check_cluster(L, f, l, tc_option_dims(L, 2, "cluster", l->cluster));
	l->smem = (uint32_t)tc_option_integer(L, 2, "smem", 0, 0, 1 << 20);
	return r;
}

/* Last, since what ran in between may have closed the module. */
static void set_code(lua_State *L, struct run *r, struct device *d)
{
	struct lua_function *f = check_function(L, 1);
	struct launch *l = &r->launch;

	l->ptx = f->module->ptx;
	l->ptx_length = f->module->ptx_length;
	l->source_name = f->module->source_name;
	l->source = f->module->source;
	l->entry = f->entry->name;
	l->name = f->name;
	l->cache = tc_loaded_slot(L, &f->module->loaded, d);
}

static struct device *first_device(const struct run *r)
{
	for (int i = 0; i < r->launch.param_count; i++)
		if (r->arrays[i])
			return r->arrays[i]->device;
	return NULL;
}

static struct device *launch_device(lua_State *L, const struct lua_function *f, const struct run *r)
{
	struct device *d = first_device(r);

	if (tc_option_push(L, 2, "device")) {
		d = tc_to_device(L, lua_gettop(L));
		lua_pop(L, 1);
	}
	if (!d)
		d = tc_current_device(L);
	for (int i = 0; i < r->launch.param_count; i++)
		if (r->arrays[i] && r->arrays[i]->device != d)
			tc_error(L,
				 "argument %d of kernel '%s' lives on %s, but the launch is on %s; "
				 "copy it with "
				 "array:to(\"%s\")",
				 i + 1, f->name, r->arrays[i]->device->name, d->name, d->name);
	if (!tc_target_runs(f->module->signature.target, d->target->name))
		tc_error(L,
			 "kernel '%s' is code for %s, which %s (%s) cannot run; "
			 "the emulator "
			 "can: :emulate{...}, or TCMMA_DEVICE=emulator:%s",
			 f->name, f->module->signature.target, d->name, d->target->name,
			 f->module->signature.target);
	return d;
}

static void check_smem(lua_State *L, const struct device *d, uint32_t smem)
{
	if (smem > d->target->smem_limit)
		tc_argerror(L, 2,
			    "option 'smem': a block of %s has at most %lld bytes of shared memory, "
			    "got %u",
			    d->target->name, (long long)d->target->smem_limit, smem);
}

static int function_launch(lua_State *L)
{
	static const char *const names[] = {
		"grid", "block",  "cluster", "smem",
		"args", "stream", "device",  "programmatic_stream_serialization",
		NULL};
	struct lua_function *f = check_function(L, 1);
	struct err e = {0};

	lua_settop(L, 2);
	tc_options(L, 2, names);
	struct run *r = read_launch(L, f, false);
	struct device *d = launch_device(L, f, r);
	check_smem(L, d, r->launch.smem);
	r->options.stream = tc_option_stream(L, 2, d);
	r->launch.programmatic =
		tc_option_boolean(L, 2, "programmatic_stream_serialization", false);
	set_code(L, r, d);
	if (!tc_run(d, r, &e))
		return tc_fail_device(L, &e);
	lua_settop(L, 1);
	return 1;
}

/* The emulated device: the option's target, the arrays' own, the text's target, else any that can.
 */
static struct device *emulate_device(lua_State *L, const struct lua_function *f,
				     const struct run *r)
{
	const char *code = f->module->signature.target;
	const char *target = tc_option_string(L, 2, "target", NULL);
	struct device *d = first_device(r);

	if (!target && d && tc_device_is_emulator(d) && tc_target_runs(code, d->target->name))
		return d;
	if (!target && tc_target_find(code))
		target = code;
	for (const struct target *const *t = tc_targets(); !target && *t; t++)
		if (tc_target_runs(code, (*t)->name))
			target = (*t)->name;
	if (!target)
		tc_error(L, "kernel '%s' is code for %s, which no emulated target runs", f->name,
			 code);
	if (!tc_target_find(target) || !tc_target_runs(code, target))
		tc_argerror(L, 2, "option 'target': code for %s does not run on \"%s\"", code,
			    target);
	return tc_emulate_device(L, target);
}

static int function_emulate(lua_State *L)
{
	static const char *const names[] = {
		"grid",     "block", "cluster",          "smem",    "args",  "target", "mode",
		"numerics", "seed",  "max_instructions", "threads", "trace", NULL};
	struct lua_function *f = check_function(L, 1);
	struct err e = {0};

	lua_settop(L, 2);
	tc_options(L, 2, names);
	struct run *r = read_launch(L, f, true);
	tc_read_run_options(L, 2, r);
	struct device *d = emulate_device(L, f, r);
	check_smem(L, d, r->launch.smem);
	set_code(L, r, d);
	if (!tc_run_report(L, d, r, &e))
		return tc_raise_device(L, &e);
	return 1;
}

static int function_info(lua_State *L)
{
	struct lua_function *f = check_function(L, 1);
	struct assembly_info info;
	struct err e = {0};

	lua_settop(L, 2);
	struct assembled *c = tc_module_assemble(L, f->module, 2, &e);
	if (!c)
		return tc_fail_device(L, &e);
	tc_push_entry(L, f->entry);
	if (tc_set_assembly(L, c->log.text, f->entry->name, c->assembler, &info)) {
		tc_set_integer(L, "smem", info.smem < 0 ? 0 : info.smem);
		tc_set_integer(L, "barriers", info.barriers < 0 ? 0 : info.barriers);
	}
	tc_set_shown(L);
	return 1;
}

static int function_field(lua_State *L)
{
	struct lua_function *f = tc_check_object(L, 1, TC_FUNCTION);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (!strcmp(key, "name"))
		lua_pushstring(L, f->name);
	else if (!strcmp(key, "entry") && f->module && f->module->ptx)
		lua_pushstring(L, f->entry->name);
	else if (!strcmp(key, "module"))
		lua_getiuservalue(L, 1, 1);
	else
		return 0;
	return 1;
}

static int function_tostring(lua_State *L)
{
	struct lua_function *f = tc_check_object(L, 1, TC_FUNCTION);

	if (!f->module || !f->module->ptx)
		lua_pushfstring(L, TC_FUNCTION " %s (closed)", f->name);
	else
		lua_pushfstring(L, TC_FUNCTION " %s(%s)", f->name, push_params(L, f->entry));
	return 1;
}

static const struct tc_function function_methods[] = {
	{"launch", function_launch,
	 "launch(opts?: {grid?: integer[], block?: integer[], cluster?: integer[], smem?: "
	 "integer, args?: "
	 "any[], stream?: tcmma.stream, device?: tcmma.device|string, "
	 "programmatic_stream_serialization?: boolean}) -> tcmma.function\n"
	 "Launches the kernel where its arrays live. `grid` counts blocks, sizes are x, y, z and 1 "
	 "where left "
	 "out; `smem` is dynamic shared memory in bytes. An argument is an array, a number "
	 "(converted to the "
	 "parameter's PTX type, with a range check), a `tc.tensormap`, or a string with exactly "
	 "the bytes of a "
	 "struct. `programmatic_stream_serialization` lets a kernel with `griddepcontrol.wait` "
	 "start before the launch in front of it has ended. On a GPU it returns at once; on the "
	 "emulator when the grid has ended, and a "
	 "fault is an error."},
	{"emulate", function_emulate,
	 "emulate(opts?: {grid?: integer[], block?: integer[], cluster?: integer[], smem?: "
	 "integer, args?: "
	 "any[], target?: string, mode?: string, numerics?: string, seed?: integer, "
	 "max_instructions?: integer, "
	 "threads?: integer, trace?: boolean}) -> tcmma.report\n"
	 "Runs the kernel on the emulator, wherever its arrays live (they are copied there and "
	 "back), and "
	 "returns a report; faults are entries of the report, not errors. `trace` (mode "
	 "`\"check\"` unless `\"random\"` is given) keeps what `report:trace` writes."},
	{"info", function_info,
	 "info(opts?: {target?: string}) -> table?, string?, string?\n"
	 "The entry as `module:kernels()` shows it, and what the assembler says: `registers`, "
	 "`spill_stores`, "
	 "`spill_loads`, `stack`, `smem` (static), `barriers`."},
	{NULL, NULL, NULL}};

static const luaL_Reg function_meta[] = {{"__tostring", function_tostring}, {NULL, NULL}};

void tc_open_function(lua_State *L)
{
	tc_class(L, TC_FUNCTION,
		 "A kernel of a module.\n"
		 "---@field name string\n"
		 "---@field entry string The name in the PTX\n"
		 "---@field module tcmma.module\n",
		 function_methods, function_meta, function_field);
}

/* Foreign code: PTX texts and CUDA C as modules, their kernels as functions. */
#include "lua_dev.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct module {
	char *ptx;
	size_t ptx_length;
	struct ptx_signature signature;
	struct loaded loaded;
};

/* User value 1 is the module. */
struct function {
	struct module *module;
	const struct ptx_entry *entry;
	char name[1024]; /* as the user asked for it */
};

/* ---- modules --------------------------------------------------------------------------- */

static int module_gc(lua_State *L)
{
	struct module *m = luaL_testudata(L, 1, TC_MODULE);

	if (m) {
		tc_loaded_free(&m->loaded);
		tc_ptx_signature_free(&m->signature);
		free(m->ptx);
		m->ptx = NULL;
	}
	return 0;
}

static struct module *check_module(lua_State *L, int arg)
{
	struct module *m = tc_check_object(L, arg, TC_MODULE);

	if (!m->ptx)
		tc_argerror(L, arg, "the module is closed");
	return m;
}

/* Pushes a module of a copy of the text. */
static struct module *new_module(lua_State *L, const char *ptx, size_t length)
{
	struct err e = {0};
	struct module *m = tc_new_object(L, TC_MODULE, sizeof *m, 0);

	m->ptx = malloc(length + 1);
	if (!m->ptx)
		tc_error(L, "not enough memory: PTX of %zu bytes", length);
	memcpy(m->ptx, ptx, length);
	m->ptx[length] = '\0';
	m->ptx_length = length;
	if (!tc_ptx_signature(m->ptx, &m->signature, &e))
		tc_raise_device(L, &e);
	if (!m->signature.entry_count)
		tc_error(L, "the PTX has no kernel: there is no .entry in it");
	return m;
}

static int ptx(lua_State *L)
{
	size_t length;

	if (lua_type(L, 1) != LUA_TSTRING)
		return tc_argerror(L, 1, "PTX text expected, got %s", tc_describe(L, 1));
	const char *text = lua_tolstring(L, 1, &length);
	if (strlen(text) != length)
		return tc_argerror(L, 1,
				   "PTX text expected, but it has a NUL byte (is it a cubin?)");
	new_module(L, text, length);
	return 1;
}

/* ---- CUDA C ------------------------------------------------------------------------------- */

/* Owns what NVRTC gave while Lua may raise. */
struct compilation {
	struct strbuf ptx, log;
};

static int compilation_gc(lua_State *L)
{
	struct compilation *c = lua_touserdata(L, 1);

	free(c->ptx.text);
	free(c->log.text);
	memset(c, 0, sizeof *c);
	return 0;
}

static struct compilation *new_compilation(lua_State *L)
{
	struct compilation *c = lua_newuserdatauv(L, sizeof *c, 0);

	memset(c, 0, sizeof *c);
	if (luaL_newmetatable(L, "tcmma.compilation")) {
		lua_pushcfunction(L, compilation_gc);
		lua_setfield(L, -2, "__gc");
	}
	lua_setmetatable(L, -2);
	return c;
}

/* The list of strings of the option; pushed as a userdata that holds the pointers. */
static const char **option_list(lua_State *L, int arg, int *count)
{
	*count = 0;
	if (!tc_option_push(L, arg, "options")) {
		lua_pushnil(L);
		return NULL;
	}
	if (!lua_istable(L, -1))
		tc_argerror(L, arg, "option 'options' must be a list of strings for NVRTC, got %s",
			    tc_describe(L, -1));
	lua_Integer n = luaL_len(L, -1);
	const char **list = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *list, 0);
	for (int i = 0; i < n; i++) {
		if (lua_geti(L, -2, i + 1) != LUA_TSTRING)
			tc_argerror(L, arg, "option 'options': entry %d must be a string, got %s",
				    i + 1, tc_describe(L, -1));
		list[i] = lua_tostring(L, -1);
		lua_pop(L, 1);
	}
	*count = (int)n;
	return list;
}

static const char *option_target(lua_State *L, int arg)
{
	const char *target = tc_option_string(L, arg, "target", NULL);
	char *end;

	if (!target)
		return tc_current_device(L)->target->name;
	long sm = !strncmp(target, "sm_", 3) ? strtol(target + 3, &end, 10) : 0;
	if (sm < 50 || sm > 999 || (*end && strcmp(end, "a") && strcmp(end, "f")))
		tc_argerror(
			L, arg,
			"option 'target' must be an architecture such as \"sm_90a\", got \"%s\"",
			target);
	return target;
}

static int cuda(lua_State *L)
{
	static const char *const names[] = {"options", "target", "name", NULL};
	struct err e = {0};
	int count;

	if (lua_type(L, 1) != LUA_TSTRING)
		return tc_argerror(L, 1, "CUDA C source expected, got %s", tc_describe(L, 1));
	lua_settop(L, 2);
	tc_options(L, 2, names);
	const char *target = option_target(L, 2);
	const char *name = tc_option_string(L, 2, "name", "kernel.cu");
	const char **options = option_list(L, 2, &count);
	struct compilation *c = new_compilation(L);
	if (!tc_nvrtc(lua_tostring(L, 1), name, target, options, count, &c->ptx, &c->log, &e))
		return tc_fail_device(L, &e);
	if (!strstr(c->ptx.text, ".entry"))
		return tc_error(L, "'%s' has no kernel: no __global__ function is defined in it",
				name);
	new_module(L, c->ptx.text, c->ptx.length);
	if (c->log.length)
		lua_pushlstring(L, c->log.text, c->log.length);
	else
		lua_pushnil(L);
	return 2;
}

/* ---- kernels of a module ------------------------------------------------------------------- */

/* Is `entry` the C++ name of a function called `name`, as in _Z3addPfi? */
static bool mangles(const char *entry, const char *name)
{
	char *rest;

	if (strncmp(entry, "_Z", 2) || entry[2] < '0' || entry[2] > '9')
		return false;
	size_t length = (size_t)strtoul(entry + 2, &rest, 10);
	return length == strlen(name) && !strncmp(rest, name, length);
}

static int no_kernel(lua_State *L, const struct module *m, const char *name, const char *why)
{
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	for (int i = 0; i < m->signature.entry_count; i++) {
		luaL_addstring(&b, i ? ", '" : "'");
		luaL_addstring(&b, m->signature.entries[i].name);
		luaL_addstring(&b, "'");
	}
	luaL_pushresult(&b);
	return tc_argerror(L, 2, "the module has %s kernel '%s'; it has %s", why, name,
			   lua_tostring(L, -1));
}

static const struct ptx_entry *find_entry(lua_State *L, const struct module *m, const char *name)
{
	const struct ptx_entry *found = NULL;

	for (int i = 0; i < m->signature.entry_count; i++)
		if (!strcmp(m->signature.entries[i].name, name))
			return &m->signature.entries[i];
	for (int i = 0; i < m->signature.entry_count; i++) {
		if (!mangles(m->signature.entries[i].name, name))
			continue;
		if (found)
			no_kernel(L, m, name, "more than one");
		found = &m->signature.entries[i];
	}
	if (!found)
		no_kernel(L, m, name, "no");
	return found;
}

static int module_kernel(lua_State *L)
{
	struct module *m = check_module(L, 1);
	const struct ptx_entry *entry;
	const char *name;

	if (lua_isnoneornil(L, 2) && m->signature.entry_count == 1) {
		entry = &m->signature.entries[0];
		name = entry->name;
	} else {
		if (lua_type(L, 2) != LUA_TSTRING)
			return tc_argerror(L, 2, "name of a kernel expected, got %s",
					   tc_describe(L, 2));
		name = lua_tostring(L, 2);
		entry = find_entry(L, m, name);
	}
	struct function *f = tc_new_object(L, TC_FUNCTION, sizeof *f, 1);
	f->module = m;
	f->entry = entry;
	snprintf(f->name, sizeof f->name, "%s", name);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, 1);
	return 1;
}

static void push_dims(lua_State *L, const char *name, const uint32_t dims[3])
{
	if (!dims[0])
		return;
	lua_createtable(L, 3, 0);
	for (int i = 0; i < 3; i++) {
		lua_pushinteger(L, dims[i]);
		lua_rawseti(L, -2, i + 1);
	}
	lua_setfield(L, -2, name);
}

static void push_param_type(lua_State *L, const struct ptx_param *p)
{
	if (p->is_array)
		lua_pushfstring(L, ".%s[%d]", p->type, (int)(p->size / tc_ptx_type_size(p->type)));
	else
		lua_pushfstring(L, ".%s", p->type);
}

static void push_entry(lua_State *L, const struct ptx_entry *entry)
{
	lua_createtable(L, 0, 5);
	lua_pushstring(L, entry->name);
	lua_setfield(L, -2, "name");
	lua_createtable(L, entry->param_count, 0);
	for (int i = 0; i < entry->param_count; i++) {
		const struct ptx_param *p = &entry->params[i];
		lua_createtable(L, 0, 3);
		lua_pushstring(L, p->name);
		lua_setfield(L, -2, "name");
		push_param_type(L, p);
		lua_setfield(L, -2, "type");
		lua_pushinteger(L, p->size);
		lua_setfield(L, -2, "bytes");
		lua_rawseti(L, -2, i + 1);
	}
	lua_setfield(L, -2, "params");
	push_dims(L, "max_threads", entry->max_threads);
	push_dims(L, "required_threads", entry->required_threads);
	push_dims(L, "required_cluster", entry->required_cluster);
}

static int module_kernels(lua_State *L)
{
	struct module *m = check_module(L, 1);

	lua_createtable(L, m->signature.entry_count, 0);
	for (int i = 0; i < m->signature.entry_count; i++) {
		push_entry(L, &m->signature.entries[i]);
		lua_rawseti(L, -2, i + 1);
	}
	return 1;
}

static int module_ptx(lua_State *L)
{
	struct module *m = check_module(L, 1);

	lua_pushlstring(L, m->ptx, m->ptx_length);
	return 1;
}

/* Assembles for the option 'target', else for the text's own. */
static struct compilation *assemble(lua_State *L, const struct module *m, int arg, struct err *e)
{
	static const char *const names[] = {"target", NULL};
	struct compilation *c = new_compilation(L);

	tc_options(L, arg, names);
	const char *target = lua_istable(L, arg) ? tc_option_string(L, arg, "target", NULL) : NULL;
	if (target && !tc_target_runs(m->signature.target, target))
		tc_argerror(L, arg, "code for %s cannot be assembled for \"%s\"",
			    m->signature.target, target);
	if (!tc_assemble(m->ptx, m->ptx_length, target ? target : m->signature.target, &c->ptx,
			 &c->log, e))
		return NULL;
	return c;
}

static int module_cubin(lua_State *L)
{
	struct module *m = check_module(L, 1);
	struct err e = {0};

	lua_settop(L, 2);
	struct compilation *c = assemble(L, m, 2, &e);
	if (!c)
		return tc_fail_device(L, &e);
	lua_pushlstring(L, c->ptx.text, c->ptx.length);
	lua_pushstring(L, c->log.text ? c->log.text : "");
	return 2;
}

static int module_index(lua_State *L)
{
	struct module *m = tc_check_object(L, 1, TC_MODULE);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (!strcmp(key, "target"))
		lua_pushstring(L, m->signature.target);
	else if (!strcmp(key, "ptx_version"))
		lua_pushstring(L, m->signature.version);
	else {
		lua_pushvalue(L, 2);
		lua_gettable(L, lua_upvalueindex(1));
	}
	return 1;
}

static int module_tostring(lua_State *L)
{
	struct module *m = tc_check_object(L, 1, TC_MODULE);

	if (!m->ptx)
		lua_pushliteral(L, TC_MODULE " (closed)");
	else
		lua_pushfstring(L, TC_MODULE " for %s with %d kernel%s", m->signature.target,
				m->signature.entry_count, m->signature.entry_count == 1 ? "" : "s");
	return 1;
}

/* ---- arguments --------------------------------------------------------------------------------
 */

static struct function *check_function(lua_State *L, int arg)
{
	struct function *f = tc_check_object(L, arg, TC_FUNCTION);

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
		push_param_type(L, &entry->params[i]);
		luaL_addvalue(&b);
	}
	luaL_pushresult(&b);
	return lua_tostring(L, -1);
}

static int bad_value(lua_State *L, const struct function *f, int i, const char *why)
{
	const char *got = tc_describe(L, -1);

	const char *name = param_name(f->entry, i);

	push_param_type(L, &f->entry->params[i]);
	return tc_error(L, "argument %d of kernel '%s' (%s%s%s): %s, got %s", i + 1, f->name, name,
			*name ? " " : "", lua_tostring(L, -1), why, got);
}

static void set_float(lua_State *L, const struct function *f, int i, struct launch_param *p)
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

static void set_integer(lua_State *L, const struct function *f, int i, struct launch_param *p)
{
	char kind = f->entry->params[i].type[0];
	int bits = (int)p->size * 8, ok;
	lua_Integer n = lua_tointegerx(L, -1, &ok);

	if (!ok)
		bad_value(L, f, i, "an integer is expected");
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

static void set_number(lua_State *L, const struct function *f, int i, struct launch_param *p)
{
	const struct ptx_param *param = &f->entry->params[i];

	if (param->is_array || param->size > 8)
		bad_value(L, f, i, "a string of its bytes is expected");
	if (param->type[0] == 'f' || !strcmp(param->type, "bf16"))
		set_float(L, f, i, p);
	else
		set_integer(L, f, i, p);
}

static void set_array(lua_State *L, const struct function *f, int i, struct run *r)
{
	const struct ptx_param *param = &f->entry->params[i];
	struct array *a = tc_check_array(L, lua_gettop(L));

	if (param->is_array || param->size != 8 || param->type[0] == 'f')
		bad_value(L, f, i, "an array goes into a 64-bit parameter");
	r->arrays[i] = a;
	memcpy(r->params[i].bytes, &a->address, sizeof a->address);
}

static void set_tensormap(lua_State *L, const struct function *f, int i, struct run *r)
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
static void set_bytes(lua_State *L, const struct function *f, int i, struct launch_param *p)
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

static void set_argument(lua_State *L, const struct function *f, int i, struct run *r)
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
static struct run *read_arguments(lua_State *L, const struct function *f)
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
	struct run *r = tc_new_run(L, entry->param_count);
	for (int i = 0; i < entry->param_count; i++) {
		lua_geti(L, args, i + 1);
		set_argument(L, f, i, r);
		lua_settop(L, args + 1);
	}
	return r;
}

/* ---- launch -------------------------------------------------------------------------------------
 */

static void describe_dims(char *out, size_t size, const uint32_t d[3])
{
	snprintf(out, size, "{%u, %u, %u}", d[0], d[1], d[2]);
}

static void check_block(lua_State *L, const struct function *f, const uint32_t block[3])
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

static void check_cluster(lua_State *L, const struct function *f, struct launch *l, bool given)
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

static struct run *read_launch(lua_State *L, const struct function *f)
{
	struct run *r = read_arguments(L, f);
	struct launch *l = &r->launch;

	tc_option_dims(L, 2, "grid", l->grid);
	if (l->grid[1] > 65535 || l->grid[2] > 65535)
		tc_argerror(L, 2, "option 'grid': at most 65535 blocks along y and z");
	if (!tc_option_dims(L, 2, "block", l->block) && f->entry->required_threads[0])
		memcpy(l->block, f->entry->required_threads, sizeof l->block);
	check_block(L, f, l->block);
	check_cluster(L, f, l, tc_option_dims(L, 2, "cluster", l->cluster));
	l->smem = (uint32_t)tc_option_integer(L, 2, "smem", 0, 0, 1 << 20);
	l->ptx = f->module->ptx;
	l->ptx_length = f->module->ptx_length;
	l->entry = f->entry->name;
	l->name = f->name;
	return r;
}

static struct device *first_device(const struct run *r)
{
	for (int i = 0; i < r->launch.param_count; i++)
		if (r->arrays[i])
			return r->arrays[i]->device;
	return NULL;
}

static struct device *launch_device(lua_State *L, const struct function *f, const struct run *r)
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
	static const char *const names[] = {"grid", "block",  "cluster", "smem",
					    "args", "stream", "device",  NULL};
	struct function *f = check_function(L, 1);
	struct err e = {0};

	lua_settop(L, 2);
	tc_options(L, 2, names);
	struct run *r = read_launch(L, f);
	struct device *d = launch_device(L, f, r);
	check_smem(L, d, r->launch.smem);
	r->options.stream = tc_option_stream(L, 2, d);
	r->launch.cache = tc_loaded_slot(L, &f->module->loaded, d);
	if (!tc_run(d, r, &e))
		return tc_fail_device(L, &e);
	lua_settop(L, 1);
	return 1;
}

/* The emulated device: the option's target, the arrays' own, the text's target, else any that can.
 */
static struct device *emulate_device(lua_State *L, const struct function *f, const struct run *r)
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
		"grid",     "block", "cluster",          "smem",    "args", "target", "mode",
		"numerics", "seed",  "max_instructions", "threads", NULL};
	struct function *f = check_function(L, 1);
	struct err e = {0};

	lua_settop(L, 2);
	tc_options(L, 2, names);
	struct run *r = read_launch(L, f);
	tc_read_run_options(L, 2, r);
	struct device *d = emulate_device(L, f, r);
	check_smem(L, d, r->launch.smem);
	r->launch.cache = tc_loaded_slot(L, &f->module->loaded, d);
	if (!tc_run_report(L, d, r, &e))
		return tc_raise_device(L, &e);
	return 1;
}

static void set_count(lua_State *L, const char *name, int64_t value)
{
	if (value < 0)
		return;
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

static int function_info(lua_State *L)
{
	struct function *f = check_function(L, 1);
	struct assembly_info info;
	struct err e = {0};

	lua_settop(L, 2);
	struct compilation *c = assemble(L, f->module, 2, &e);
	if (!c)
		return tc_fail_device(L, &e);
	push_entry(L, f->entry);
	if (tc_assembly_info(c->log.text, f->entry->name, &info)) {
		set_count(L, "registers", info.registers);
		set_count(L, "spill_stores", info.spill_stores);
		set_count(L, "spill_loads", info.spill_loads);
		set_count(L, "stack", info.stack);
		set_count(L, "smem", info.smem < 0 ? 0 : info.smem);
		set_count(L, "barriers", info.barriers < 0 ? 0 : info.barriers);
	}
	return 1;
}

static int function_index(lua_State *L)
{
	struct function *f = tc_check_object(L, 1, TC_FUNCTION);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (!strcmp(key, "name"))
		lua_pushstring(L, f->name);
	else if (!strcmp(key, "entry") && f->module && f->module->ptx)
		lua_pushstring(L, f->entry->name);
	else if (!strcmp(key, "module"))
		lua_getiuservalue(L, 1, 1);
	else {
		lua_pushvalue(L, 2);
		lua_gettable(L, lua_upvalueindex(1));
	}
	return 1;
}

static int function_tostring(lua_State *L)
{
	struct function *f = tc_check_object(L, 1, TC_FUNCTION);

	if (!f->module || !f->module->ptx)
		lua_pushfstring(L, TC_FUNCTION " %s (closed)", f->name);
	else
		lua_pushfstring(L, TC_FUNCTION " %s(%s)", f->name, push_params(L, f->entry));
	return 1;
}

/* ---- registration
 * ---------------------------------------------------------------------------------- */

static const struct tc_function functions[] = {
	{"ptx", ptx,
	 "ptx(text: string) -> tcmma.module\n"
	 "A module of PTX text, whoever wrote it. Its declarations are read here; the text is "
	 "assembled (or "
	 "loaded by the emulator) at the first launch on a device, and kept."},
	{"cuda", cuda,
	 "cuda(source: string, opts?: {options?: string[], target?: string, name?: string}) -> "
	 "tcmma.module?, "
	 "string?, string?\n"
	 "Compiles CUDA C with NVRTC. `options` go to the compiler, `target` is the architecture "
	 "(default: "
	 "that of the current device), `name` the file name in its messages. The toolkit's headers "
	 "are found. "
	 "What the compiler rejects is an error with its log; warnings come as the second result. "
	 "Without "
	 "NVRTC the answer is nil, a message and the code `no-library`."},
	{NULL, NULL, NULL}};

static const struct tc_function module_methods[] = {
	{"kernel", module_kernel,
	 "kernel(self, name?: string) -> tcmma.function\n"
	 "A kernel of the module, by the name of its entry or, where that is unique, by the plain "
	 "name of a C++ "
	 "function. The name may be left out when there is one kernel only."},
	{"kernels", module_kernels,
	 "kernels(self) -> table[]\n"
	 "All entries: `{name=, params={{name=, type=, bytes=}}, max_threads=, required_threads=, "
	 "required_cluster=}`."},
	{"ptx", module_ptx, "ptx(self) -> string\nThe PTX text."},
	{"cubin", module_cubin,
	 "cubin(self, opts?: {target?: string}) -> string?, string, string?\n"
	 "The assembled module and the assembler's log. Without nvJitLink: nil, a message, "
	 "`no-assembler`."},
	{NULL, NULL, NULL}};

static const struct tc_function function_methods[] = {
	{"launch", function_launch,
	 "launch(self, opts: {grid?: integer[], block?: integer[], cluster?: integer[], smem?: "
	 "integer, args?: "
	 "any[], stream?: tcmma.stream, device?: tcmma.device|string}) -> tcmma.function\n"
	 "Launches the kernel where its arrays live. `grid` counts blocks, sizes are x, y, z and 1 "
	 "where left "
	 "out; `smem` is dynamic shared memory in bytes. An argument is an array, a number "
	 "(converted to the "
	 "parameter's PTX type, with a range check), a `tc.tensormap`, or a string with exactly "
	 "the bytes of a "
	 "struct. On a GPU it returns at once; on the emulator when the grid has ended, and a "
	 "fault is an error."},
	{"emulate", function_emulate,
	 "emulate(self, opts: {grid?: integer[], block?: integer[], cluster?: integer[], smem?: "
	 "integer, args?: "
	 "any[], target?: string, mode?: string, numerics?: string, seed?: integer, "
	 "max_instructions?: integer, "
	 "threads?: integer}) -> tcmma.report\n"
	 "Runs the kernel on the emulator, wherever its arrays live (they are copied there and "
	 "back), and "
	 "returns a report; faults are entries of the report, not errors."},
	{"info", function_info,
	 "info(self, opts?: {target?: string}) -> table?, string?, string?\n"
	 "The entry as `module:kernels()` shows it, and what the assembler says: `registers`, "
	 "`spill_stores`, "
	 "`spill_loads`, `stack`, `smem` (static), `barriers`."},
	{NULL, NULL, NULL}};

static const luaL_Reg module_meta[] = {{"__index", module_index},
				       {"__tostring", module_tostring},
				       {"__gc", module_gc},
				       {"__close", module_gc},
				       {NULL, NULL}};
static const luaL_Reg function_meta[] = {
	{"__index", function_index}, {"__tostring", function_tostring}, {NULL, NULL}};

void tc_open_module(lua_State *L)
{
	tc_class(L, TC_MODULE,
		 "Foreign code: a PTX text and its kernels.\n"
		 "---@field target string The text's `.target`\n"
		 "---@field ptx_version string The text's `.version`\n",
		 module_methods, module_meta);
	tc_class(L, TC_FUNCTION,
		 "A kernel of a module.\n"
		 "---@field name string\n"
		 "---@field entry string The name in the PTX\n"
		 "---@field module tcmma.module\n",
		 function_methods, function_meta);
	tc_functions(L, "tcmma", functions);
	tc_open_run(L);
	tc_open_tensormap(L);
}

/* A kernel as text and machine code: ptx, cubin, sass, dump. */
#include "compile.h"
#include "lua_dev.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- compiled programs --------------------------------------------------- */

struct programs {
	int count;
	struct compiled at[8];
};

static void free_programs(void *p)
{
	struct programs *all = p;

	if (!all)
		return;
	for (int i = 0; i < all->count; i++) {
		tc_loaded_free(&all->at[i].loaded);
		tc_program_free(all->at[i].program);
	}
	free(all);
}

const struct target *tc_kernel_target(lua_State *L, int arg, const struct kern *k)
{
	const char *name = lua_istable(L, arg) ? tc_option_string(L, arg, "target", NULL) : NULL;
	const struct target *t = name ? tc_target_find(name) : NULL;

	if (t)
		return t;
	if (!name)
		return k->target ? tc_target_find(k->target) : tc_current_device(L)->target;
	luaL_Buffer b;
	luaL_buffinit(L, &b);
	for (const struct target *const *each = tc_targets(); *each; each++) {
		luaL_addstring(&b, each == tc_targets() ? "\"" : ", \"");
		luaL_addstring(&b, (*each)->name);
		luaL_addstring(&b, "\"");
	}
	luaL_pushresult(&b);
	tc_argerror(L, arg, "option 'target' must be one of %s, got \"%s\"", lua_tostring(L, -1),
		    name);
	return NULL;
}

struct compile_call {
	struct kern *kern;
	const struct target *target;
	struct program *program;
};

static void compile(void *arg)
{
	struct compile_call *c = arg;

	c->program = tc_compile(c->kern, c->target);
}

static struct program *compile_now(lua_State *L, struct kern *k, const struct target *t)
{
	struct compile_call c = {.kern = k, .target = t};

	tc_call(L, &k->err, compile, &c);
	return c.program;
}

static struct programs *programs_of(lua_State *L, struct lua_kernel *owner)
{
	if (!owner->programs) {
		owner->programs = calloc(1, sizeof(struct programs));
		owner->free_programs = free_programs;
	}
	if (!owner->programs)
		tc_error(L, "not enough memory");
	return owner->programs;
}

struct compiled *tc_kernel_try_program(lua_State *L, int arg, const struct target *t)
{
	struct lua_kernel *owner = tc_check_object(L, arg, TC_KERNEL);
	struct kern *k = tc_live_kernel(L, owner);
	struct compile_call call = {.kern = k, .target = t};
	struct programs *all = programs_of(L, owner);

	for (int i = 0; i < all->count; i++)
		if (all->at[i].target == t)
			return &all->at[i];
	if (!k->finished)
		tc_error(L, "the recording of kernel '%s' is still open: call its :finish() first",
			 k->name);
	tc_position(L, &k->err.pos);
	if (!tc_protect(&k->err, compile, &call))
		return NULL;
	struct compiled *c = &all->at[all->count++];
	*c = (struct compiled){.target = t, .program = call.program};
	return c;
}

struct compiled *tc_kernel_program(lua_State *L, int arg, const struct target *t)
{
	struct compiled *c = tc_kernel_try_program(L, arg, t);

	if (!c)
		tc_raise(L, &tc_check_kernel(L, arg)->err);
	return c;
}

#define FRESH "tcmma.fresh"

/* Owns the program of a recording that is still open; that one is compiled anew each time. */
struct fresh {
	struct program *program;
};

static int fresh_gc(lua_State *L)
{
	struct fresh *f = tc_test_object(L, 1, FRESH);

	if (f && f->program) {
		tc_program_free(f->program);
		f->program = NULL;
	}
	return 0;
}

struct program *tc_fresh_program(lua_State *L, const struct target *t)
{
	struct fresh *f = tc_new_object(L, FRESH, sizeof *f, 0);

	f->program = compile_now(L, tc_check_kernel(L, 1), t);
	return f->program;
}

/* The program of a kernel, whose recording may be open; what holds it may be pushed. */
static const struct program *any_program(lua_State *L, const struct target *t)
{
	return tc_check_kernel(L, 1)->finished ? tc_kernel_program(L, 1, t)->program
					       : tc_fresh_program(L, t);
}

int tc_raise_program(lua_State *L, const struct program *p, struct err *e)
{
	const char *saved;

	if (!e->code || strcmp(e->code, "ptx-rejected"))
		return tc_raise_device(L, e);
	saved = tc_save_text(L, p->entry, ".ptx", p->ptx, p->ptx_length);
	return tc_error(
		L,
		"internal error: the PTX made for this kernel is refused%s%s. This is a fault of "
		"tcmma, please report it with that file.\n%s",
		saved ? "; it is saved in " : " (and could not be saved)", saved ? saved : "",
		e->text);
}

/* ---- text ---------------------------------------------------------------- */

static const char *const target_option[] = {"target", NULL};

const struct program *tc_program_of_call(lua_State *L, int arg)
{
	struct kern *k = tc_check_kernel(L, 1);

	tc_options(L, arg, target_option);
	return any_program(L, tc_kernel_target(L, arg, k));
}

static int kernel_ptx(lua_State *L)
{
	lua_settop(L, 2);
	const struct program *p = tc_program_of_call(L, 2);

	lua_pushlstring(L, p->ptx, p->ptx_length);
	return 1;
}

struct dump {
	struct kern *kern;
	const struct target *target;
	const char *pass;
	struct strbuf *text;
};

static void dump(void *arg)
{
	struct dump *d = arg;

	tc_dump(d->text, d->kern, d->target, d->pass);
}

static int kernel_dump(lua_State *L)
{
	static const char *const passes[] = {"record", "lower", "roles", "place", "emit", NULL};
	struct kern *k = tc_check_kernel(L, 1);
	const char *pass = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
	bool known = false;

	lua_settop(L, 3);
	for (int i = 0; pass && passes[i]; i++)
		known = known || !strcmp(pass, passes[i]);
	if (!known)
		return tc_argerror(
			L, 2,
			"a pass is expected: \"record\", \"lower\", \"roles\", \"place\" or "
			"\"emit\"; got %s",
			tc_describe(L, 2));
	if (!strcmp(pass, "emit")) {
		const struct program *p = tc_program_of_call(L, 3);
		lua_pushlstring(L, p->ptx, p->ptx_length);
		return 1;
	}
	tc_options(L, 3, target_option);
	struct strbuf *text = tc_new_object(L, "tcmma.text", sizeof *text, 0);
	struct dump d = {
		.kern = k, .target = tc_kernel_target(L, 3, k), .pass = pass, .text = text};
	tc_call(L, &k->err, dump, &d);
	lua_pushlstring(L, text->text ? text->text : "", text->length);
	return 1;
}

/* ---- machine code -------------------------------------------------------- */

/* Pushes what owns the cubin and the log; NULL and e where the environment lacks the assembler. */
struct assembled *tc_program_assemble(lua_State *L, const struct program *p, struct err *e)
{
	struct assembled *a = tc_new_assembled(L);

	if (tc_assemble_whole(p->ptx, p->ptx_length, p->target->name, &a->text, &a->log,
			      &a->assembler, e))
		return a;
	if (e->kind != ERR_ENVIRONMENT)
		tc_raise_program(L, p, e);
	return NULL;
}

static int kernel_cubin(lua_State *L)
{
	struct err e = {0};

	lua_settop(L, 2);
	struct assembled *a = tc_program_assemble(L, tc_program_of_call(L, 2), &e);
	if (!a)
		return tc_fail_device(L, &e);
	lua_pushlstring(L, a->text.text, a->text.length);
	lua_pushstring(L, a->log.text ? a->log.text : "");
	return 2;
}

static int kernel_sass(lua_State *L)
{
	struct err e = {0};

	lua_settop(L, 2);
	struct assembled *a = tc_program_assemble(L, tc_program_of_call(L, 2), &e);
	if (!a)
		return tc_fail_device(L, &e);
	char tool[4096];
	bool nvdisasm = tc_tool_find("nvdisasm", tool, sizeof tool);
	if (!nvdisasm && !tc_tool_find("cuobjdump", tool, sizeof tool))
		return tc_failure(
			L, "no-disassembler",
			"neither nvdisasm nor cuobjdump was found: install the CUDA toolkit's "
			"binary utilities, or set TCMMA_CUDA_HOME to a toolkit that has them");
	const char *cubin = tc_save_text(L, "sass", ".cubin", a->text.text, a->text.length);
	if (!cubin)
		return tc_failure(L, "no-disassembler", "the cubin cannot be written to a file: %s",
				  strerror(errno));
	const char *const argv[] = {tool, nvdisasm ? "-c" : "-sass", cubin, NULL};
	struct strbuf text = {0};
	bool ok = tc_tool_run(argv, &text);
	unlink(cubin);
	/* What is pushed may raise: the text belongs to an object by then. */
	free(a->log.text);
	a->log = text;
	if (!ok)
		return tc_failure(L, "no-disassembler",
				  "%s cannot read the cubin: is it as new as the assembler?", tool);
	lua_pushlstring(L, text.text, text.length);
	return 1;
}

static const struct tc_function methods[] = {
	{"ptx", kernel_ptx,
	 "ptx(opts?: {target?: string}) -> string\n"
	 "The PTX for a target; without the option, for the kernel's own, else for the current "
	 "device's. Works "
	 "on an open recording too."},
	{"cubin", kernel_cubin,
	 "cubin(opts?: {target?: string}) -> string?, string, string?\n"
	 "The assembled kernel, and the assembler's log. It needs nvJitLink but no GPU: without "
	 "it, nil, a "
	 "message, `no-assembler`."},
	{"sass", kernel_sass,
	 "sass(opts?: {target?: string}) -> string?, string?, string?\n"
	 "The machine code as text, by `nvdisasm` or `cuobjdump`; nil, a message, "
	 "`no-disassembler` where "
	 "there is neither."},
	{"dump", kernel_dump,
	 "dump(pass: string, opts?: {target?: string}) -> string\n"
	 "The kernel after a pass of the compiler: `\"record\"`, `\"lower\"`, `\"roles\"`, "
	 "`\"place\"`, "
	 "`\"emit\"`."},
	{NULL, NULL, NULL}};

void tc_open_program(lua_State *L)
{
	luaL_newmetatable(L, FRESH);
	lua_pushcfunction(L, fresh_gc);
	lua_setfield(L, -2, "__gc");
	lua_pop(L, 1);
	luaL_getmetatable(L, TC_KERNEL);
	lua_getfield(L, -1, "__methods");
	tc_functions(L, TC_KERNEL, methods);
	lua_pop(L, 2);
	tc_open_info(L);
	tc_open_export(L);
}

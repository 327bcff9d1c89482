/* Modules: the text's outermost level, shared memory, what the kernels say of themselves. */
#include "ptx.h"
#include "builtin.h"
#include <stdio.h>
#include <stdlib.h>

#define MODULE_MEMORY   (4ull << 30)
#define MAX_SMEM_OFFSET (8u << 20)

static bool version(struct ptx_parser *parser)
{
	/* 9.0 reads as one floating point number. */
	struct emu_module *module = parser->module;
	double number;

	if (parser->token.kind != PTX_FLOAT64)
		return ptx_fail(parser, parser->token.line, ".version needs a number such as 8.6");
	memcpy(&number, &parser->token.value, sizeof number);
	if (!(number >= 1 && number < 100))
		return ptx_fail(parser, parser->token.line, "unknown PTX version");
	module->version_major = (int)number;
	module->version_minor = (int)((number - module->version_major) * 10 + 0.5);
	ptx_next(parser);
	return true;
}

static bool target(struct ptx_parser *parser)
{
	struct emu_module *module = parser->module;
	struct ptx_token name = parser->token;
	char buffer[80];

	if (name.kind != PTX_WORD || name.length < 5 || name.length >= sizeof module->target ||
	    memcmp(name.text, "sm_", 3))
		return ptx_fail(parser, name.line,
				".target needs a device such as sm_90a, found %s",
				ptx_quote(&name, buffer, sizeof buffer));
	memcpy(module->target, name.text, name.length);
	module->sm = atoi(module->target + 3);
	char last = module->target[name.length - 1];

	module->sm_suffix = last == 'a' || last == 'f' ? last : 0;
	ptx_next(parser);
	while (ptx_accept(parser, ","))
		ptx_next(parser);
	return emu_target_runs(module, parser->error) || (parser->failed = true, false);
}

static bool linkage(struct ptx_parser *parser, bool *external)
{
	*external = false;
	for (;;) {
		if (ptx_accept(parser, ".visible") || ptx_accept(parser, ".weak"))
			continue;
		if (ptx_accept(parser, ".common"))
			continue;
		if (!ptx_accept(parser, ".extern"))
			return !parser->failed;
		*external = true;
	}
}

static bool statement(struct ptx_parser *parser)
{
	bool external;
	char buffer[80];

	if (ptx_accept(parser, ".version"))
		return version(parser);
	if (ptx_accept(parser, ".target"))
		return target(parser);
	if (ptx_accept(parser, ".address_size")) {
		int64_t size;

		return ptx_constant(parser, &size) &&
		       (size == 64 ||
			ptx_fail(parser, parser->token.line, "only .address_size 64 is supported"));
	}
	if (ptx_accept(parser, ".file"))
		return ptx_file(parser);
	if (ptx_accept(parser, ".section"))
		return ptx_section(parser);
	if (ptx_accept(parser, ".pragma")) {
		while (parser->token.kind == PTX_STRING || ptx_is(parser, ","))
			ptx_next(parser);
		return ptx_expect(parser, ";");
	}
	if (ptx_accept(parser, ";"))
		return true;
	if (!linkage(parser, &external))
		return false;
	if (ptx_accept(parser, ".entry"))
		return ptx_function(parser, true, external);
	if (ptx_accept(parser, ".func"))
		return ptx_function(parser, false, external);
	if (ptx_accept(parser, ".global"))
		return ptx_variables(parser, EMU_GLOBAL, external);
	if (ptx_accept(parser, ".const"))
		return ptx_variables(parser, EMU_CONST, external);
	if (ptx_accept(parser, ".shared"))
		return ptx_variables(parser, EMU_SHARED, external);
	return ptx_fail(parser, parser->token.line, "unknown statement %s",
			ptx_quote(&parser->token, buffer, sizeof buffer));
}

/* ---- shared memory ---------------------------------------------------------- */

/*
 * Variables that one kernel alone uses share their place with those of others;
 * what several functions use lies in front.
 */
static bool place_shared(struct ptx_parser *parser, struct emu_variable *variable, uint64_t *at)
{
	uint64_t align = variable->align > 16 ? variable->align : 16;

	if (variable->external || variable->space != EMU_SHARED)
		return true;
	if (variable->align < 16)
		align = variable->align ? variable->align : 1;
	*at = (*at + align - 1) & ~(align - 1);
	variable->address = *at;
	*at += variable->size;
	return *at <= MAX_SMEM_OFFSET ||
	       ptx_fail(parser, 0, "shared variables take more than 8 MiB");
}

static void note_use(struct emu_operand *operand, struct emu_function *function, int depth)
{
	for (uint32_t i = 0; operand->items && i < operand->count && depth < PTX_MAX_DEPTH; i++)
		note_use(&operand->items[i], function, depth + 1);
	if (operand->kind != EMU_O_SYMBOL || operand->variable->space != EMU_SHARED)
		return;
	struct emu_variable *variable = (struct emu_variable *)operand->variable;

	if (variable->external && function->dynamic_smem_align < variable->align)
		function->dynamic_smem_align = variable->align;
	if (!function->entry || (variable->user && variable->user != function))
		variable->common = true;
	variable->user = function;
}

static bool layout_shared(struct ptx_parser *parser)
{
	struct emu_module *module = parser->module;
	uint64_t common = 0;
	uint32_t dynamic_align = 16;

	for (struct emu_function *f = module->functions; f; f = f->next) {
		for (uint32_t i = 0; i < f->ins_count; i++)
			for (int o = 0; o < f->ins[i].operand_count; o++)
				note_use(&f->ins[i].operands[o], f, 0);
		if (!f->entry && f->dynamic_smem_align > dynamic_align)
			dynamic_align = f->dynamic_smem_align;
	}
	/* Declared first, placed first: the list has the last one at its head. */
	struct emu_variable *list = NULL;

	for (struct emu_variable *v = module->variables, *next; v; v = next) {
		next = v->next;
		v->next = list;
		list = v;
	}
	module->variables = list;
	for (struct emu_variable *v = list; v; v = v->next)
		if (v->common && !place_shared(parser, v, &common))
			return false;
	for (struct emu_function *f = module->functions; f; f = f->next) {
		uint64_t at = common;

		if (!f->entry)
			continue;
		for (struct emu_variable *v = list; v; v = v->next)
			if (!v->common && v->user == f && !place_shared(parser, v, &at))
				return false;
		if (f->dynamic_smem_align < dynamic_align)
			f->dynamic_smem_align = dynamic_align;
		f->static_smem = (uint32_t)at;
		f->info.static_smem = (uint32_t)at;
	}
	return true;
}

/* ---- the whole ---------------------------------------------------------------- */

static bool index_functions(struct ptx_parser *parser)
{
	struct emu_module *module = parser->module;
	int kernel = 0;

	module->by_index =
		ptx_keep(parser, (size_t)(module->function_count + 1) * sizeof *module->by_index);
	module->kernels =
		ptx_keep(parser, (size_t)(module->function_count + 1) * sizeof *module->kernels);
	if (!module->by_index || !module->kernels)
		return false;
	for (struct emu_function *f = module->functions; f; f = f->next)
		module->by_index[f->index] = f;
	for (int i = 0; i < module->function_count; i++) {
		struct emu_function *f = module->by_index[i];

		if (f->defined && f->entry)
			module->kernels[kernel++] = f;
		if (!f->defined) {
			f->builtin = emu_builtin_named(f->name);
			f->frame_bytes = (f->frame_bytes + 15) & ~15u;
		}
	}
	module->kernel_count = kernel;
	return true;
}

static bool finish(struct ptx_parser *parser)
{
	struct emu_module *module = parser->module;

	if (!module->target[0])
		return ptx_fail(parser, 1, "a module needs .version and .target");
	if (!ptx_sources_finish(parser))
		return false;
	if (!index_functions(parser) || !layout_shared(parser))
		return false;
	for (int i = 0; i < module->function_count; i++) {
		struct emu_function *f = module->by_index[i];

		if (!f->defined)
			continue;
		if (!emu_decode_function(module, f, parser->error) ||
		    !emu_flow_function(f, parser->error) || !emu_slots_function(f, parser->error))
			return false;
		f->info.instruction_count = f->ins_count;
		f->info.register_slots = f->slot_count;
	}
	return true;
}

struct emu_module *emu_module_load(struct emu *emu, const char *ptx, size_t length,
				   struct emu_error *error)
{
	struct ptx_parser *parser = calloc(1, sizeof *parser);
	struct emu_module *module = calloc(1, sizeof *module);
	bool fine = parser && module;

	error->text[0] = 0;
	error->line = 0;
	if (fine) {
		module->emu = emu;
		module->arena.limit = MODULE_MEMORY;
		parser->scratch.limit = MODULE_MEMORY;
		parser->module = module;
		parser->error = error;
		parser->lexer = (struct ptx_lexer){ptx, ptx + length, 1};
		if (length > PTX_MAX_TEXT)
			fine = ptx_fail(parser, 0, "more than 64 MiB of PTX");
		/* A terminating zero, which some producers count, is not part of the text. */
		while (length && !ptx[length - 1])
			parser->lexer.end = ptx + --length;
		ptx_next(parser);
		while (fine && !parser->failed && parser->token.kind != PTX_END)
			fine = statement(parser);
		fine = fine && !parser->failed && finish(parser);
	}
	if (!fine) {
		if (!error->text[0])
			snprintf(error->text, sizeof error->text,
				 "out of memory while loading PTX");
		emu_module_free(module);
		module = NULL;
	}
	if (parser) {
		ptx_sources_free(parser);
		emu_arena_free(&parser->scratch);
	}
	free(parser);
	return module;
}

void emu_module_free(struct emu_module *module)
{
	if (!module)
		return;
	for (int i = 0; i < module->allocation_count; i++)
		emu_release(module->emu, module->allocations[i]);
	emu_arena_free(&module->arena);
	free(module);
}

int emu_module_target(const struct emu_module *module)
{
	return module->sm;
}

int emu_module_kernel_count(const struct emu_module *module)
{
	return module->kernel_count;
}

const struct emu_kernel_info *emu_module_kernel(const struct emu_module *module, int index)
{
	return index >= 0 && index < module->kernel_count ? &module->kernels[index]->info : NULL;
}

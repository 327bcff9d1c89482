/* .entry and .func: names, parameters, performance directives. */
#include "ptx.h"
#include <stdlib.h>

#define MAX_PARAMS      4096
#define MAX_PARAM_BYTES 32764

static bool parameters(struct ptx_parser *parser, struct emu_variable ***list, int *count,
		       enum emu_space space)
{
	struct emu_variable **variables = NULL;
	int room = 0;

	*count = 0;
	while (!ptx_is(parser, ")")) {
		if (*count && !ptx_expect(parser, ","))
			return false;
		if (!ptx_accept(parser, ".param"))
			return ptx_fail(parser, parser->token.line,
					"parameters are declared with .param; .reg parameters are "
					"not supported");
		if (*count == MAX_PARAMS)
			return ptx_fail(parser, parser->token.line, "more than %d parameters",
					MAX_PARAMS);
		if (*count == room) {
			room = room ? room * 2 : 8;
			struct emu_variable **grown =
				ptx_keep(parser, (size_t)room * sizeof *grown);

			if (!grown)
				return false;
			if (*count)
				memcpy(grown, variables, (size_t)*count * sizeof *grown);
			variables = grown;
		}
		variables[*count] = ptx_parameter(parser, space);
		if (!variables[*count])
			return false;
		++*count;
	}
	*list = variables;
	return ptx_expect(parser, ")");
}

/* Offsets of parameters: one behind the other, each aligned. */
static bool layout(struct ptx_parser *parser, struct emu_variable **list, int count, uint64_t *at,
		   uint64_t limit)
{
	for (int i = 0; i < count; i++) {
		uint64_t align = list[i]->align ? list[i]->align : 1;

		*at = (*at + align - 1) & ~(align - 1);
		list[i]->address = *at;
		*at += list[i]->size;
		if (*at > limit)
			return ptx_fail(parser, parser->token.line,
					"parameters take more than %llu bytes",
					(unsigned long long)limit);
	}
	return true;
}

static bool three_numbers(struct ptx_parser *parser, uint32_t out[3])
{
	for (int i = 0; i < 3; i++)
		out[i] = 1;
	for (int i = 0; i < 3; i++) {
		int64_t number;

		if (!ptx_constant(parser, &number))
			return false;
		if (number < 1 || number > INT32_MAX)
			return ptx_fail(parser, parser->token.line, "a size of %lld",
					(long long)number);
		out[i] = (uint32_t)number;
		if (i == 2 || !ptx_accept(parser, ","))
			break;
	}
	return true;
}

static bool performance(struct ptx_parser *parser, struct emu_function *function)
{
	static const char *const single[] = {".minnctapersm", ".maxnctapersm", ".maxclusterrank"};
	int64_t number;

	for (;;) {
		bool known = false;

		if (ptx_accept(parser, ".maxntid")) {
			if (!three_numbers(parser, function->info.max_threads))
				return false;
			continue;
		}
		if (ptx_accept(parser, ".reqntid")) {
			if (!three_numbers(parser, function->info.required_threads))
				return false;
			continue;
		}
		if (ptx_accept(parser, ".reqnctapercluster")) {
			if (!three_numbers(parser, function->info.required_cluster))
				return false;
			continue;
		}
		if (ptx_accept(parser, ".maxnreg")) {
			if (!ptx_constant(parser, &number))
				return false;
			if (number < 1 || number > 256)
				return ptx_fail(parser, parser->token.line,
						".maxnreg is 1 to 256, not %lld",
						(long long)number);
			function->max_registers = (uint32_t)number;
			continue;
		}
		for (size_t i = 0; i < sizeof single / sizeof *single && !known; i++)
			if (ptx_accept(parser, single[i])) {
				known = true;
				if (!ptx_constant(parser, &number))
					return false;
			}
		if (known || ptx_accept(parser, ".explicitcluster") ||
		    ptx_accept(parser, ".blocksareclusters") || ptx_accept(parser, ".noreturn"))
			continue;
		if (ptx_accept(parser, ".abi_preserve") ||
		    ptx_accept(parser, ".abi_preserve_control")) {
			if (!ptx_constant(parser, &number))
				return false;
			continue;
		}
		if (ptx_accept(parser, ".pragma") || ptx_accept(parser, ".attribute")) {
			const char *end = ptx_is(parser, "(") ? ")" : ";";

			while (!ptx_is(parser, end) && parser->token.kind != PTX_END)
				ptx_next(parser);
			if (!ptx_expect(parser, end))
				return false;
			continue;
		}
		return !parser->failed;
	}
}

static struct emu_function *get_function(struct ptx_parser *parser, const struct ptx_token *name,
					 bool entry)
{
	struct emu_module *module = parser->module;
	uint32_t index;
	struct ptx_symbol *symbol = ptx_lookup(parser, name->text, name->length, &index);
	struct ptx_scope *scope = parser->scope;

	if (symbol && symbol->kind == PTX_FUNCTION)
		return symbol->function;
	parser->scope = NULL; /* functions belong to the module */
	symbol = ptx_declare(parser, name->text, name->length, PTX_FUNCTION);
	parser->scope = scope;
	struct emu_function *function = symbol ? ptx_keep(parser, sizeof *function) : NULL;

	if (!function)
		return NULL;
	symbol->function = function;
	function->name = ptx_keep_text(parser, name->text, name->length);
	function->entry = entry;
	function->module = module;
	function->index = module->function_count++;
	function->next = module->functions;
	module->functions = function;
	return function;
}

static bool describe_params(struct ptx_parser *parser, struct emu_function *function)
{
	struct emu_param_info *infos =
		ptx_keep(parser, (size_t)(function->param_count + 1) * sizeof *infos);

	if (!infos)
		return false;
	for (int i = 0; i < function->param_count; i++) {
		const struct emu_variable *variable = function->params[i];

		infos[i] = (struct emu_param_info){.size = (uint32_t)variable->size,
						   .align = variable->align,
						   .type = emu_types[variable->type].text,
						   .pointer = variable->pointer};
	}
	function->info.name = function->name;
	function->info.param_count = function->param_count;
	function->info.params = infos;
	return true;
}

/*
 * Parameters of a .func lie at the start of its frame, results first: where
 * both sides find them without knowing more than the prototype.
 */
static bool signature(struct ptx_parser *parser, bool entry, struct emu_function **result)
{
	enum emu_space space = entry ? EMU_PARAM : EMU_PARAM_FUNCTION;
	struct emu_variable **results = NULL;
	struct emu_function *function;
	struct ptx_token name;
	int result_count = 0;
	uint64_t at = 0;
	char buffer[80];

	while (ptx_accept(parser, ".noreturn") || ptx_accept(parser, ".attribute"))
		if (ptx_is(parser, "("))
			while (parser->token.kind != PTX_END && !ptx_accept(parser, ")"))
				ptx_next(parser);
	if (!entry && ptx_accept(parser, "(") &&
	    !parameters(parser, &results, &result_count, space))
		return false;
	name = parser->token;
	if (name.kind != PTX_WORD)
		return ptx_fail(parser, name.line, "expected the name of a function, found %s",
				ptx_quote(&name, buffer, sizeof buffer));
	function = get_function(parser, &name, entry);
	if (!function)
		return false;
	if (function->entry != entry)
		return ptx_fail(parser, name.line, "'%s' is both .entry and .func", function->name);
	ptx_next(parser);
	function->results = results;
	function->result_count = result_count;
	function->param_count = 0;
	if (ptx_accept(parser, "(") &&
	    !parameters(parser, &function->params, &function->param_count, space))
		return false;
	uint64_t limit = entry ? MAX_PARAM_BYTES : 512u << 10;

	if (!layout(parser, results, result_count, &at, limit) ||
	    !layout(parser, function->params, function->param_count, &at, limit))
		return false;
	if (entry)
		function->param_bytes = (uint32_t)at;
	else
		function->frame_bytes = (uint32_t)at;
	*result = function;
	return true;
}

bool ptx_function(struct ptx_parser *parser, bool entry, bool external)
{
	struct emu_function *function = NULL;

	(void)external;
	/* Formal parameters are names of the body's outermost scope. */
	if (!ptx_scope_open(parser) || !signature(parser, entry, &function) ||
	    !performance(parser, function))
		return false;
	if (ptx_is(parser, "{")) {
		if (function->defined)
			return ptx_fail(parser, parser->token.line, "'%s' is defined twice",
					function->name);
		function->defined = true;
		parser->function = function;
		parser->register_room = 0;
		if (!ptx_body(parser))
			return false;
		if (entry && !describe_params(parser, function))
			return false;
		function->frame_bytes = (function->frame_bytes + 15) & ~15u;
		parser->function = NULL;
	} else {
		ptx_accept(parser, ";");
	}
	ptx_scope_close(parser);
	return !parser->failed;
}

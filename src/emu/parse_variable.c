/* Variables, parameters and the data they start with. */
#include "ptx.h"

#define MAX_SIZE (1ull << 36)

struct declaration {
	struct emu_variable *variable;
	enum emu_type type;
	uint32_t vector;
	uint64_t elements; /* of the initialiser's first level, 0: unknown */
	bool sized;
};

/* .align 8 .v2 .f32, .ptr .global .align 4: what stands before a name. */
static bool attributes(struct ptx_parser *parser, struct declaration *declaration)
{
	struct emu_variable *variable = declaration->variable;
	char buffer[80];
	int64_t number;

	for (;;) {
		if (ptx_accept(parser, ".align")) {
			if (!ptx_constant(parser, &number))
				return false;
			if (number < 1 || number > 4096 || (number & (number - 1)))
				return ptx_fail(
					parser, parser->token.line,
					"an alignment is a power of two up to 4096, not %lld",
					(long long)number);
			if (!variable->pointer)
				variable->align = (uint32_t)number;
		} else if (ptx_accept(parser, ".ptr")) {
			variable->pointer = true;
		} else if (variable->pointer &&
			   (ptx_accept(parser, ".global") || ptx_accept(parser, ".shared") ||
			    ptx_accept(parser, ".const") || ptx_accept(parser, ".local") ||
			    ptx_accept(parser, ".param"))) {
			continue;
		} else if (ptx_accept(parser, ".attribute")) {
			while (!ptx_is(parser, ")") && parser->token.kind != PTX_END)
				ptx_next(parser);
			if (!ptx_expect(parser, ")"))
				return false;
		} else if (ptx_accept(parser, ".v2")) {
			declaration->vector = 2;
		} else if (ptx_accept(parser, ".v4")) {
			declaration->vector = 4;
		} else if (parser->token.kind == PTX_DIRECTIVE) {
			declaration->type =
				emu_type_named(parser->token.text + 1, parser->token.length - 1);
			if (declaration->type == EMU_T_NONE ||
			    emu_types[declaration->type].bits < 8)
				return ptx_fail(parser, parser->token.line,
						"expected the type of a variable, found %s",
						ptx_quote(&parser->token, buffer, sizeof buffer));
			ptx_next(parser);
		} else {
			break;
		}
	}
	if (declaration->type == EMU_T_NONE)
		return ptx_fail(parser, parser->token.line, "a variable needs a type");
	return !parser->failed;
}

static bool dimensions(struct ptx_parser *parser, struct declaration *declaration)
{
	struct emu_variable *variable = declaration->variable;
	uint64_t size = emu_types[declaration->type].bits / 8u * declaration->vector;

	variable->type = (uint8_t)declaration->type;
	if (!variable->align)
		variable->align = (uint32_t)size;
	declaration->sized = true;
	declaration->elements = 1;
	while (ptx_accept(parser, "[")) {
		int64_t count = 0;

		if (ptx_is(parser, "]"))
			declaration->sized = false;
		else if (!ptx_constant(parser, &count))
			return false;
		if (count < 0 || (count && size > MAX_SIZE / (uint64_t)count))
			return ptx_fail(parser, parser->token.line,
					"a variable is larger than 64 GiB");
		if (declaration->sized) {
			size *= (uint64_t)count;
			declaration->elements *= (uint64_t)count;
		}
		if (!ptx_expect(parser, "]"))
			return false;
	}
	variable->size = declaration->sized ? size : 0;
	return true;
}

struct data {
	uint8_t *bytes;
	uint64_t size, at;
	uint32_t width;
	bool floating;
};

static bool put(struct ptx_parser *parser, struct data *data, uint64_t value)
{
	if (data->at + data->width > data->size)
		return ptx_fail(parser, parser->token.line,
				"more initial values than the variable holds");
	if (data->bytes)
		memcpy(data->bytes + data->at, &value, data->width > 8 ? 8 : data->width);
	data->at += data->width;
	return true;
}

static bool symbol_value(struct ptx_parser *parser, uint64_t *value)
{
	struct ptx_symbol *symbol;
	uint32_t index;
	int64_t offset = 0;
	bool generic = ptx_accept(parser, "generic") && ptx_expect(parser, "(");

	symbol = ptx_lookup(parser, parser->token.text, parser->token.length, &index);
	if (symbol && symbol->kind == PTX_VARIABLE &&
	    (symbol->variable->space == EMU_GLOBAL || symbol->variable->space == EMU_CONST))
		*value = symbol->variable->address;
	else if (symbol && symbol->kind == PTX_FUNCTION)
		*value = EMU_WINDOW_FUNCTION + 16 * ((uint64_t)symbol->function->index + 1);
	else {
		char buffer[80];

		return ptx_fail(
			parser, parser->token.line,
			"an initial value is a number, a global variable or a function, not %s",
			ptx_quote(&parser->token, buffer, sizeof buffer));
	}
	ptx_next(parser);
	if (generic && !ptx_expect(parser, ")"))
		return false;
	if ((ptx_is(parser, "+") || ptx_is(parser, "-")) && !ptx_constant(parser, &offset))
		return false;
	*value += (uint64_t)offset;
	return true;
}

/* mask(symbol): one byte of an address, 0xff00(symbol). */
static bool scalar_value(struct ptx_parser *parser, struct data *data)
{
	uint64_t value;
	int64_t number = 0;
	bool negative = false;

	if (parser->token.kind == PTX_WORD && !ptx_is(parser, "WARP_SZ"))
		return symbol_value(parser, &value) && put(parser, data, value);
	if (ptx_is(parser, "-")) {
		struct ptx_lexer lexer = parser->lexer;
		struct ptx_token token = parser->token;

		ptx_next(parser);
		negative = parser->token.kind == PTX_FLOAT32 || parser->token.kind == PTX_FLOAT64;
		if (!negative) {
			parser->lexer = lexer;
			parser->token = token;
		}
	}
	if (parser->token.kind == PTX_FLOAT32 || parser->token.kind == PTX_FLOAT64) {
		bool wide = parser->token.kind == PTX_FLOAT64;

		value = parser->token.value ^ (negative ? wide ? 1ull << 63 : 1ull << 31 : 0);
		ptx_next(parser);
		if (wide && data->width == 4) {
			double wide_value;
			float narrow;
			uint32_t bits;

			memcpy(&wide_value, &value, 8);
			narrow = (float)wide_value;
			memcpy(&bits, &narrow, 4);
			value = bits;
		} else if (!wide && data->width == 8) {
			float narrow;
			double wide_value;
			uint32_t bits = (uint32_t)value;

			memcpy(&narrow, &bits, 4);
			wide_value = narrow;
			memcpy(&value, &wide_value, 8);
		}
		return put(parser, data, value);
	}
	if (!ptx_constant(parser, &number))
		return false;
	value = (uint64_t)number;
	if (ptx_accept(parser, "(")) {
		uint64_t mask = value;

		if (!symbol_value(parser, &value) || !ptx_expect(parser, ")"))
			return false;
		if (mask)
			value = (value & mask) >> __builtin_ctzll(mask);
	}
	return put(parser, data, value);
}

static bool values(struct ptx_parser *parser, struct data *data)
{
	if (!ptx_accept(parser, "{"))
		return scalar_value(parser, data);
	if (parser->depth >= PTX_MAX_DEPTH)
		return ptx_fail(parser, parser->token.line, "initial values are nested too deep");
	parser->depth++;
	while (!ptx_is(parser, "}"))
		if (!values(parser, data) || (!ptx_is(parser, "}") && !ptx_expect(parser, ",")))
			return false;
	parser->depth--;
	return ptx_expect(parser, "}");
}

/* Counts the values of `x[] = {...}` without keeping them. */
static bool count_values(struct ptx_parser *parser, const struct declaration *declaration,
			 uint64_t *size)
{
	struct ptx_lexer lexer = parser->lexer;
	struct ptx_token token = parser->token;
	struct data data = {.size = MAX_SIZE, .width = emu_types[declaration->type].bits / 8u};

	if (!values(parser, &data))
		return false;
	*size = data.at;
	parser->lexer = lexer;
	parser->token = token;
	return true;
}

static bool place_global(struct ptx_parser *parser, struct declaration *declaration)
{
	struct emu_variable *variable = declaration->variable;
	struct emu_module *module = parser->module;
	bool initial = ptx_accept(parser, "=");

	if (initial && !declaration->sized && !count_values(parser, declaration, &variable->size))
		return false;
	if (variable->external)
		return !initial || ptx_fail(parser, parser->token.line,
					    "an external variable has no initial value");
	if (module->allocation_count % 64 == 0) {
		uint64_t *more =
			ptx_keep(parser, ((size_t)module->allocation_count + 64) * sizeof *more);

		if (!more)
			return false;
		if (module->allocation_count)
			memcpy(more, module->allocations,
			       (size_t)module->allocation_count * sizeof *more);
		module->allocations = more;
	}
	variable->address = emu_alloc(module->emu, variable->size ? variable->size : 1,
				      variable->name, parser->error);
	if (!variable->address) {
		parser->failed = true;
		return false;
	}
	module->allocations[module->allocation_count++] = variable->address;
	struct data data = {.bytes = emu_host(module->emu, variable->address,
					      variable->size ? variable->size : 1),
			    .size = variable->size,
			    .width = emu_types[declaration->type].bits / 8u};

	if (initial && !values(parser, &data))
		return false;
	if (variable->space == EMU_CONST)
		emu_find_allocation(module->emu, variable->address)->read_only = true;
	return true;
}

static bool place_frame(struct ptx_parser *parser, struct emu_variable *variable)
{
	struct emu_function *function = parser->function;
	uint64_t at = (function->frame_bytes + (uint64_t)variable->align - 1) &
		      ~((uint64_t)variable->align - 1);

	if (at + variable->size > 512u << 10)
		return ptx_fail(parser, parser->token.line,
				"a function has at most 512 KiB of local memory for each thread");
	variable->address = at;
	function->frame_bytes = (uint32_t)(at + variable->size);
	return true;
}

static struct emu_variable *new_variable(struct ptx_parser *parser, enum emu_space space)
{
	struct emu_variable *variable = ptx_keep(parser, sizeof *variable);

	if (variable)
		variable->space = (uint8_t)space;
	return variable;
}

static bool declare(struct ptx_parser *parser, struct emu_variable *variable)
{
	char buffer[80];
	struct ptx_symbol *symbol;

	if (parser->token.kind != PTX_WORD)
		return ptx_fail(parser, parser->token.line,
				"expected the name of a variable, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	variable->name = ptx_keep_text(parser, parser->token.text, parser->token.length);
	symbol = ptx_declare(parser, parser->token.text, parser->token.length, PTX_VARIABLE);
	if (!symbol || !variable->name)
		return false;
	symbol->variable = variable;
	ptx_next(parser);
	return !parser->failed;
}

/* name<count>: a range of parameters, as in .param .b32 p<3>. */
static bool place(struct ptx_parser *parser, struct declaration *declaration)
{
	struct emu_variable *variable = declaration->variable;
	bool in_function = parser->function && parser->scope;

	switch ((enum emu_space)variable->space) {
	case EMU_GLOBAL:
	case EMU_CONST:
		return place_global(parser, declaration);
	case EMU_SHARED:
		if (!declaration->sized || !variable->size)
			variable->external = true;
		variable->next = parser->module->variables;
		parser->module->variables = variable;
		return true;
	default:
		if (!in_function)
			return ptx_fail(parser, parser->token.line,
					"a local variable stands in a function");
		variable->next = parser->function->variables;
		parser->function->variables = variable;
		return place_frame(parser, variable);
	}
}

bool ptx_variables(struct ptx_parser *parser, enum emu_space space, bool external)
{
	struct declaration shape = {.vector = 1};
	struct emu_variable *variable = new_variable(parser, space);

	if (!variable)
		return false;
	shape.variable = variable;
	/* `.shared::cta` and the bank numbers of .const[n] say nothing new. */
	if (!attributes(parser, &shape))
		return false;
	uint32_t align = variable->align;

	for (;;) {
		struct declaration declaration = shape;

		variable->external = external;
		variable->align = align;
		declaration.variable = variable;
		if (!declare(parser, variable) || !dimensions(parser, &declaration) ||
		    !place(parser, &declaration))
			return false;
		if (!ptx_accept(parser, ","))
			break;
		variable = new_variable(parser, space);
		if (!variable)
			return false;
	}
	return ptx_expect(parser, ";");
}

struct emu_variable *ptx_parameter(struct ptx_parser *parser, enum emu_space space)
{
	struct declaration declaration = {.vector = 1, .variable = new_variable(parser, space)};

	if (!declaration.variable || !attributes(parser, &declaration))
		return NULL;
	declaration.variable->parameter = true;
	if (!declare(parser, declaration.variable) || !dimensions(parser, &declaration))
		return NULL;
	return declaration.variable;
}

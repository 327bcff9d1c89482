/* The body of a function: blocks, registers, labels, directives. */
#include "ptx.h"

#define MAX_TABLE 65536

static bool registers(struct ptx_parser *parser)
{
	enum emu_type type = EMU_T_NONE;
	char buffer[80];

	if (parser->token.kind == PTX_DIRECTIVE)
		type = emu_type_named(parser->token.text + 1, parser->token.length - 1);
	if (ptx_is(parser, ".b1"))
		type = EMU_T_PRED;
	if (type == EMU_T_NONE || emu_types[type].bits > 128)
		return ptx_fail(parser, parser->token.line,
				"expected the type of a register, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	do {
		struct ptx_symbol *symbol;
		struct ptx_token name;
		int64_t count = 1;
		bool many;

		ptx_next(parser);
		name = parser->token;
		if (name.kind != PTX_WORD)
			return ptx_fail(parser, name.line,
					"expected the name of a register, found %s",
					ptx_quote(&name, buffer, sizeof buffer));
		ptx_next(parser);
		many = ptx_accept(parser, "<");
		if (many && (!ptx_constant(parser, &count) || !ptx_expect(parser, ">")))
			return false;
		if (count < 0 || count > PTX_MAX_REGISTERS)
			return ptx_fail(parser, name.line, "a range of %lld registers",
					(long long)count);
		symbol = ptx_declare(parser, name.text, name.length,
				     many ? PTX_REGISTERS : PTX_REGISTER);
		if (!symbol)
			return false;
		symbol->type = type;
		symbol->count = (uint32_t)count;
		symbol->reg = ptx_new_register(parser, type, (uint32_t)count);
		if (parser->failed)
			return false;
	} while (ptx_is(parser, ","));
	return ptx_expect(parser, ";");
}

static struct emu_table *add_table(struct ptx_parser *parser, const struct ptx_token *name)
{
	struct ptx_symbol *symbol = ptx_declare(parser, name->text, name->length, PTX_TABLE);
	struct emu_table *table = symbol ? ptx_keep(parser, sizeof *table) : NULL;

	if (!table)
		return NULL;
	table->name = ptx_keep_text(parser, name->text, name->length);
	table->next = parser->function->tables;
	parser->function->tables = table;
	symbol->table = table;
	return table;
}

static bool branch_targets(struct ptx_parser *parser, const struct ptx_token *name)
{
	struct emu_table *table = add_table(parser, name);
	uint32_t count = 0, room = 0;
	struct ptx_token *names = NULL;
	char buffer[80];

	if (!table)
		return false;
	do {
		if (parser->token.kind != PTX_WORD || count == MAX_TABLE)
			return ptx_fail(parser, parser->token.line, "expected a label, found %s",
					ptx_quote(&parser->token, buffer, sizeof buffer));
		if (count == room) {
			struct ptx_token *grown =
				ptx_scratch(parser, (room ? room * 2 : 16) * sizeof *grown);

			if (!grown)
				return false;
			if (count)
				memcpy(grown, names, count * sizeof *grown);
			names = grown;
			room = room ? room * 2 : 16;
		}
		names[count++] = parser->token;
		ptx_next(parser);
	} while (ptx_accept(parser, ","));
	table->targets = true;
	table->count = count;
	table->pcs = ptx_keep(parser, count * sizeof *table->pcs);
	if (!table->pcs)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!ptx_label_refer(parser, &names[i], NULL, &table->pcs[i]))
			return false;
	return ptx_expect(parser, ";");
}

/* label: .callprototype (.param ...) _ (.param ...); only its shape matters to the caller. */
static bool prototype(struct ptx_parser *parser, const struct ptx_token *name)
{
	struct emu_table *table = add_table(parser, name);
	int depth = 0;

	if (!table)
		return false;
	while (!(depth == 0 && ptx_is(parser, ";"))) {
		depth += ptx_is(parser, "(") - ptx_is(parser, ")");
		if (parser->token.kind == PTX_END || depth < 0)
			return ptx_fail(parser, name->line, "prototype without end");
		ptx_next(parser);
	}
	return ptx_expect(parser, ";");
}

static bool label_or_instruction(struct ptx_parser *parser)
{
	struct ptx_token word = parser->token;
	struct ptx_lexer after = parser->lexer;

	while (after.at < after.end && (*after.at == ' ' || *after.at == '\t'))
		after.at++;
	if (after.at >= after.end || *after.at != ':')
		return ptx_instruction(parser);
	ptx_next(parser);
	if (!ptx_expect(parser, ":"))
		return false;
	if (ptx_accept(parser, ".branchtargets"))
		return branch_targets(parser, &word);
	if (ptx_accept(parser, ".callprototype") || ptx_accept(parser, ".calltargets"))
		return prototype(parser, &word);
	return ptx_label_add(parser, word.text, word.length);
}

static bool skip_to(struct ptx_parser *parser, const char *mark)
{
	while (!ptx_is(parser, mark) && parser->token.kind != PTX_END)
		ptx_next(parser);
	return ptx_expect(parser, mark);
}

static bool directive(struct ptx_parser *parser)
{
	char buffer[80];

	if (ptx_accept(parser, ".reg"))
		return registers(parser);
	if (ptx_accept(parser, ".loc"))
		return ptx_location(parser);
	if (ptx_accept(parser, ".pragma"))
		return skip_to(parser, ";");
	if (ptx_accept(parser, ".local"))
		return ptx_variables(parser, EMU_LOCAL, false);
	if (ptx_accept(parser, ".shared"))
		return ptx_variables(parser, EMU_SHARED, false);
	if (ptx_accept(parser, ".param"))
		return ptx_variables(parser, EMU_PARAM_FUNCTION, false);
	if (ptx_accept(parser, ".global"))
		return ptx_variables(parser, EMU_GLOBAL, false);
	if (ptx_accept(parser, ".const"))
		return ptx_variables(parser, EMU_CONST, false);
	if (ptx_accept(parser, ".extern")) {
		if (!ptx_expect(parser, ".shared"))
			return false;
		return ptx_variables(parser, EMU_SHARED, true);
	}
	return ptx_fail(parser, parser->token.line, "unknown directive %s",
			ptx_quote(&parser->token, buffer, sizeof buffer));
}

static bool finish(struct ptx_parser *parser)
{
	/* Running off the end returns; every label at the end names this instruction. */
	struct emu_ins *ins = ptx_emit(parser);

	if (!ins)
		return false;
	ins->mnemonic = "ret";
	ins->operands = ptx_keep(parser, sizeof *ins->operands);
	return ins->operands && ptx_labels_resolve(parser);
}

bool ptx_body(struct ptx_parser *parser)
{
	int base = parser->depth;

	parser->source = 0;
	if (!ptx_expect(parser, "{") || !ptx_scope_open(parser))
		return false;
	while (!parser->failed && parser->depth > base) {
		if (ptx_accept(parser, "{")) {
			ptx_scope_open(parser);
		} else if (ptx_is(parser, "}")) {
			if (parser->depth == base + 1 && !finish(parser))
				return false;
			ptx_scope_close(parser);
			ptx_next(parser);
		} else if (parser->token.kind == PTX_DIRECTIVE) {
			directive(parser);
		} else if (parser->token.kind == PTX_WORD) {
			label_or_instruction(parser);
		} else if (ptx_is(parser, "@")) {
			ptx_instruction(parser);
		} else if (!ptx_accept(parser, ";")) {
			char buffer[80];

			ptx_fail(parser, parser->token.line, "expected an instruction, found %s",
				 ptx_quote(&parser->token, buffer, sizeof buffer));
		}
	}
	return !parser->failed;
}

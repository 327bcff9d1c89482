/* Instructions and their operands. */
#include "ptx.h"
#include "special.h"

#define MAX_OPERANDS 24

/* `r.h0` of a video instruction: the register, and what is behind its name. */
static struct ptx_symbol *selected(struct ptx_parser *parser, const struct ptx_token *token,
				   uint32_t *index, struct emu_operand *operand)
{
	const char *dot = parser->video ? memchr(token->text, '.', token->length) : NULL;
	size_t length = dot ? (size_t)(dot - token->text) : 0;
	struct ptx_symbol *symbol = dot ? ptx_lookup(parser, token->text, length, index) : NULL;

	if (!symbol || (symbol->kind != PTX_REGISTER && symbol->kind != PTX_REGISTERS))
		return NULL;
	operand->selector = ptx_keep_text(parser, dot + 1, token->length - length - 1);
	return operand->selector ? symbol : NULL;
}

static bool name_operand(struct ptx_parser *parser, struct emu_operand *operand)
{
	struct ptx_token token = parser->token;
	uint32_t index;
	struct ptx_symbol *symbol = ptx_lookup(parser, token.text, token.length, &index);
	enum emu_type type;
	int special;

	if (!symbol)
		symbol = selected(parser, &token, &index, operand);
	ptx_next(parser);
	if (!symbol) {
		special = emu_special_named(token.text, token.length, &type);
		if (special >= 0) {
			operand->kind = EMU_O_SPECIAL;
			operand->value = special;
			operand->type = (uint8_t)type;
			operand->bits = emu_types[type].bits;
			return true;
		}
		if (token.length == 7 && !memcmp(token.text, "WARP_SZ", 7)) {
			operand->kind = EMU_O_IMMEDIATE;
			operand->value = EMU_LANES;
			return true;
		}
		operand->kind = EMU_O_LABEL;
		return ptx_label_refer(parser, &token, operand, NULL);
	}
	switch (symbol->kind) {
	case PTX_REGISTER:
	case PTX_REGISTERS:
		operand->kind = symbol->type == EMU_T_PRED ? EMU_O_PREDICATE : EMU_O_REGISTER;
		operand->reg = symbol->reg + index;
		operand->type = (uint8_t)symbol->type;
		operand->bits = emu_types[symbol->type].bits;
		break;
	case PTX_VARIABLE:
		operand->kind = EMU_O_SYMBOL;
		operand->variable = symbol->variable;
		break;
	case PTX_FUNCTION:
		operand->kind = EMU_O_FUNCTION;
		operand->function = symbol->function;
		break;
	case PTX_TABLE:
		operand->kind = EMU_O_TABLE;
		operand->table = symbol->table;
		break;
	}
	return true;
}

static bool number_operand(struct ptx_parser *parser, struct emu_operand *operand)
{
	bool negative = false;

	if (ptx_is(parser, "-")) {
		struct ptx_lexer lexer = parser->lexer;
		struct ptx_token token = parser->token;

		ptx_next(parser);
		negative = parser->token.kind == PTX_FLOAT32 || parser->token.kind == PTX_FLOAT64;
		if (!negative && !parser->failed) {
			parser->lexer = lexer;
			parser->token = token;
		}
	}
	if (parser->token.kind == PTX_FLOAT32 || parser->token.kind == PTX_FLOAT64) {
		bool wide = parser->token.kind == PTX_FLOAT64;

		operand->kind = EMU_O_FLOAT;
		operand->type = wide ? EMU_T_F64 : EMU_T_F32;
		operand->value = (int64_t)(parser->token.value ^
					   (negative ? wide ? 1ull << 63 : 1ull << 31 : 0));
		ptx_next(parser);
		return !parser->failed;
	}
	operand->kind = EMU_O_IMMEDIATE;
	return ptx_constant(parser, &operand->value);
}

/* Items up to the closing mark, behind the opening one. */
static bool item_list(struct ptx_parser *parser, const char *close, struct emu_operand *operand)
{
	struct emu_operand *items = NULL;
	uint32_t room = 0, count = 0;

	if (parser->depth >= PTX_MAX_DEPTH)
		return ptx_fail(parser, parser->token.line, "operands are nested too deep");
	parser->depth++;
	while (!ptx_is(parser, close)) {
		if (count == PTX_MAX_VECTOR)
			return ptx_fail(parser, parser->token.line,
					"more than %d items in an operand", PTX_MAX_VECTOR);
		if (count && !ptx_expect(parser, ","))
			return false;
		if (count == room) {
			uint32_t more = room ? room * 4 : 4;
			struct emu_operand *grown = ptx_keep(parser, more * sizeof *grown);

			if (!grown)
				return false;
			for (uint32_t i = 0; i < count; i++) {
				grown[i] = items[i];
				for (struct ptx_reference *r = parser->references;
				     r != parser->references_before; r = r->next)
					if (r->operand == &items[i])
						r->operand = &grown[i];
			}
			items = grown;
			room = more;
		}
		if (!ptx_operand(parser, &items[count]))
			return false;
		count++;
	}
	parser->depth--;
	operand->items = items;
	operand->count = count;
	return ptx_expect(parser, close);
}

static bool address_operand(struct ptx_parser *parser, struct emu_operand *operand)
{
	struct emu_operand list = {0};
	struct emu_operand *base;

	if (!item_list(parser, "]", &list))
		return false;
	if (!list.count)
		return ptx_fail(parser, parser->token.line, "an address needs a base");
	*operand = (struct emu_operand){
		.kind = EMU_O_ADDRESS, .items = list.items, .count = list.count};
	base = &operand->items[0];
	if (base->kind == EMU_O_IMMEDIATE) {
		operand->value = base->value;
		base->value = 0;
	} else if (base->kind == EMU_O_REGISTER || base->kind == EMU_O_SYMBOL) {
		/* A sum moves into the displacement of the address. */
		operand->value = base->value;
		base->value = 0;
	} else {
		return ptx_fail(parser, parser->token.line,
				"an address starts with a register, a variable or a number");
	}
	return true;
}

/* `-r` of a video instruction, or a number. */
static bool negated_operand(struct ptx_parser *parser, struct emu_operand *operand)
{
	struct ptx_lexer lexer = parser->lexer;
	struct ptx_token token = parser->token;

	ptx_next(parser);
	if (parser->token.kind == PTX_WORD && name_operand(parser, operand) &&
	    operand->kind == EMU_O_REGISTER) {
		operand->negated = true;
		return true;
	}
	parser->lexer = lexer;
	parser->token = token;
	*operand = (struct emu_operand){0};
	return !parser->failed && number_operand(parser, operand);
}

static bool primary_operand(struct ptx_parser *parser, struct emu_operand *operand)
{
	char buffer[80];

	if (ptx_accept(parser, "{")) {
		operand->kind = EMU_O_VECTOR;
		return item_list(parser, "}", operand);
	}
	if (ptx_accept(parser, "(")) {
		operand->kind = EMU_O_LIST;
		return item_list(parser, ")", operand);
	}
	if (ptx_accept(parser, "["))
		return address_operand(parser, operand);
	if (ptx_accept(parser, "_")) {
		operand->kind = EMU_O_SINK;
		return true;
	}
	if (ptx_accept(parser, "!")) {
		if (parser->token.kind != PTX_WORD || !name_operand(parser, operand) ||
		    operand->kind != EMU_O_PREDICATE)
			return ptx_fail(parser, parser->token.line,
					"'!' stands before a predicate register");
		operand->negated = true;
		return true;
	}
	if (parser->token.kind == PTX_WORD)
		return name_operand(parser, operand);
	if (parser->video && ptx_is(parser, "-"))
		return negated_operand(parser, operand);
	if (parser->token.kind == PTX_INTEGER || parser->token.kind == PTX_FLOAT32 ||
	    parser->token.kind == PTX_FLOAT64 || ptx_is(parser, "-") || ptx_is(parser, "~") ||
	    ptx_is(parser, "+"))
		return number_operand(parser, operand);
	return ptx_fail(parser, parser->token.line, "expected an operand, found %s",
			ptx_quote(&parser->token, buffer, sizeof buffer));
}

bool ptx_operand(struct ptx_parser *parser, struct emu_operand *operand)
{
	if (!primary_operand(parser, operand))
		return false;
	if ((operand->kind == EMU_O_SYMBOL || operand->kind == EMU_O_REGISTER) &&
	    (ptx_is(parser, "+") || ptx_is(parser, "-")))
		return ptx_constant(parser, &operand->value);
	if (ptx_accept(parser, "|")) {
		struct emu_operand *items = ptx_keep(parser, 2 * sizeof *items);

		if (!items)
			return false;
		items[0] = *operand;
		*operand = (struct emu_operand){.kind = EMU_O_PAIR, .items = items, .count = 2};
		return primary_operand(parser, &items[1]);
	}
	return !parser->failed;
}

struct emu_ins *ptx_emit(struct ptx_parser *parser)
{
	struct emu_function *function = parser->function;

	if (function->ins_count >= PTX_MAX_INSTRUCTIONS) {
		ptx_fail(parser, parser->token.line, "more than %u instructions in a function",
			 PTX_MAX_INSTRUCTIONS);
		return NULL;
	}
	if (function->ins_count == function->ins_room) {
		uint32_t room = function->ins_room ? function->ins_room * 2 : 64;
		struct emu_ins *ins = ptx_keep(parser, room * sizeof *ins);

		if (!ins)
			return NULL;
		if (function->ins_count)
			memcpy(ins, function->ins, function->ins_count * sizeof *ins);
		function->ins = ins;
		function->ins_room = room;
	}
	struct emu_ins *ins = &function->ins[function->ins_count++];

	memset(ins, 0, sizeof *ins);
	ins->guard = EMU_NO_GUARD;
	ins->join = EMU_NO_JOIN;
	ins->line = (uint32_t)parser->token.line;
	ins->source = parser->source;
	return ins;
}

/*
 * A variable's address or the clock as an operand of arithmetic: a move into a
 * register of its own goes before the instruction.
 */
static bool materialize(struct ptx_parser *parser, struct emu_operand *operand, int bits)
{
	static const char *const moves[2] = {"mov.b32", "mov.b64"};
	struct emu_operand *operands;
	struct emu_ins *move;
	enum emu_type type;
	uint32_t reg;

	if (operand->kind == EMU_O_SPECIAL) {
		if (!emu_special_is_dynamic((int)operand->value) || operand->type == EMU_T_PRED)
			return true;
		bits = emu_types[operand->type].bits;
	} else if (operand->kind != EMU_O_SYMBOL && operand->kind != EMU_O_FUNCTION) {
		return true;
	}
	type = bits == 64 ? EMU_T_B64 : EMU_T_B32;
	reg = ptx_new_register(parser, type, 1);
	move = ptx_emit(parser);
	operands = ptx_keep(parser, 2 * sizeof *operands);
	if (parser->failed || !move || !operands)
		return false;
	operands[0] = (struct emu_operand){.kind = EMU_O_REGISTER,
					   .type = (uint8_t)type,
					   .bits = emu_types[type].bits,
					   .reg = reg};
	operands[1] = *operand;
	*operand = operands[0];
	move->mnemonic = moves[bits == 64];
	move->operands = operands;
	move->operand_count = 2;
	return true;
}

static bool starts(const struct ptx_token *token, const char *opcode)
{
	size_t length = strlen(opcode);

	return token->length >= length && !memcmp(token->text, opcode, length) &&
	       (token->length == length || token->text[length] == '.');
}

static bool is_video(const struct ptx_token *mnemonic)
{
	static const char *const stems[] = {"vadd",  "vsub", "vabsdiff", "vmin", "vmax",
					    "vavrg", "vshl", "vshr",     "vmad", "vset"};

	for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
		if (mnemonic->length > strlen(stems[i]) &&
		    !memcmp(mnemonic->text, stems[i], strlen(stems[i])))
			return true;
	return false;
}

static bool materialize_all(struct ptx_parser *parser, const struct ptx_token *mnemonic,
			    struct emu_operand *operands, int count)
{
	int bits = 64;

	if (starts(mnemonic, "mov") || starts(mnemonic, "call") || starts(mnemonic, "bra") ||
	    starts(mnemonic, "brx"))
		return true;
	if (count && operands[0].kind == EMU_O_REGISTER && operands[0].bits == 32)
		bits = 32;
	for (int i = 0; i < count; i++)
		if (!materialize(parser, &operands[i], bits))
			return false;
	return true;
}

static bool guard(struct ptx_parser *parser, struct emu_operand *predicate)
{
	if (!ptx_accept(parser, "@"))
		return true;
	return ptx_operand(parser, predicate) &&
	       (predicate->kind == EMU_O_PREDICATE ||
		ptx_fail(parser, parser->token.line, "a guard is a predicate register"));
}

bool ptx_instruction(struct ptx_parser *parser)
{
	struct emu_operand predicate = {0}, operands[MAX_OPERANDS];
	struct ptx_token mnemonic;
	char buffer[80];
	int count = 0;

	if (!guard(parser, &predicate))
		return false;
	mnemonic = parser->token;
	if (mnemonic.kind != PTX_WORD || mnemonic.length > 250)
		return ptx_fail(parser, mnemonic.line, "expected an instruction, found %s",
				ptx_quote(&mnemonic, buffer, sizeof buffer));
	ptx_next(parser);
	parser->video = is_video(&mnemonic);
	parser->references_before = parser->references;
	while (!ptx_is(parser, ";")) {
		if (count == MAX_OPERANDS)
			return ptx_fail(parser, mnemonic.line, "more than %d operands",
					MAX_OPERANDS);
		if (count && !ptx_accept(parser, ","))
			return ptx_fail(parser, parser->token.line, "expected ',' or ';', found %s",
					ptx_quote(&parser->token, buffer, sizeof buffer));
		operands[count] = (struct emu_operand){0};
		if (!ptx_operand(parser, &operands[count]))
			return false;
		count++;
	}
	struct emu_operand *kept = ptx_keep(parser, (size_t)(count ? count : 1) * sizeof *kept);

	if (!kept || !materialize_all(parser, &mnemonic, operands, count))
		return false;
	memcpy(kept, operands, (size_t)count * sizeof *kept);
	for (struct ptx_reference *r = parser->references; r != parser->references_before;
	     r = r->next)
		if (r->operand >= operands && r->operand < operands + count)
			r->operand = kept + (r->operand - operands);

	struct emu_ins *ins = ptx_emit(parser);

	if (!ins)
		return false;
	ins->mnemonic = ptx_keep_text(parser, mnemonic.text, mnemonic.length);
	ins->line = (uint32_t)mnemonic.line;
	ins->operands = kept;
	ins->operand_count = (uint8_t)count;
	if (predicate.kind == EMU_O_PREDICATE) {
		ins->guard = predicate.reg;
		ins->guard_negated = predicate.negated;
	}
	return ptx_expect(parser, ";");
}

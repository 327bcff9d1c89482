/* Names of PTX: scopes with their own registers, variables and labels. */
#include "ptx.h"
#include <ctype.h>

static bool same(const char *a, size_t a_length, const char *b, size_t b_length)
{
	return a_length == b_length && !memcmp(a, b, a_length);
}

static struct ptx_symbol *find(struct ptx_parser *parser, const char *name, size_t length,
			       uint32_t hash)
{
	struct ptx_symbol *symbol = parser->buckets[hash % PTX_BUCKETS];

	while (symbol &&
	       (symbol->hash != hash || !same(symbol->name, symbol->length, name, length)))
		symbol = symbol->chain;
	return symbol;
}

struct ptx_symbol *ptx_declare(struct ptx_parser *parser, const char *name, size_t length,
			       enum ptx_symbol_kind kind)
{
	struct ptx_scope *scope = parser->scope ? parser->scope : &parser->module_scope;
	uint32_t hash = ptx_hash(name, length);

	for (struct ptx_symbol *s = find(parser, name, length, hash); s; s = s->chain) {
		if (s->hash != hash || !same(s->name, s->length, name, length))
			continue;
		for (struct ptx_symbol *own = scope->symbols; own; own = own->scope_next)
			if (own == s && scope != &parser->module_scope && own->kind == kind) {
				ptx_fail(parser, parser->token.line,
					 "'%.*s' is declared twice in one scope",
					 (int)(length < 200 ? length : 200), name);
				return NULL;
			}
		break;
	}
	struct ptx_symbol *symbol = ptx_scratch(parser, sizeof *symbol);

	if (!symbol)
		return NULL;
	symbol->name = name;
	symbol->length = length;
	symbol->hash = hash;
	symbol->kind = kind;
	symbol->chain = parser->buckets[hash % PTX_BUCKETS];
	parser->buckets[hash % PTX_BUCKETS] = symbol;
	symbol->scope_next = scope->symbols;
	scope->symbols = symbol;
	return symbol;
}

struct ptx_symbol *ptx_lookup(struct ptx_parser *parser, const char *name, size_t length,
			      uint32_t *index)
{
	struct ptx_symbol *symbol = find(parser, name, length, ptx_hash(name, length));
	size_t stem = length;
	uint64_t number = 0, scale = 1;

	*index = 0;
	if (symbol && symbol->kind != PTX_REGISTERS)
		return symbol;
	/* %r12 may be number 12 of %r<100>, or 2 of %r1<3>. */
	while (stem > 1 && isdigit((unsigned char)name[stem - 1]) && scale <= 1000000000) {
		number += scale * (uint64_t)(name[stem - 1] - '0');
		scale *= 10;
		stem--;
		if (name[stem] == '0' && length - stem > 1)
			continue;
		uint32_t hash = ptx_hash(name, stem);

		for (struct ptx_symbol *s = find(parser, name, stem, hash); s; s = s->chain)
			if (s->kind == PTX_REGISTERS && s->hash == hash && number < s->count &&
			    same(s->name, s->length, name, stem)) {
				*index = (uint32_t)number;
				return s;
			}
	}
	return NULL;
}

bool ptx_scope_open(struct ptx_parser *parser)
{
	struct ptx_scope *scope;

	if (parser->depth >= PTX_MAX_DEPTH)
		return ptx_fail(parser, parser->token.line, "blocks are nested more than %d deep",
				PTX_MAX_DEPTH);
	scope = ptx_scratch(parser, sizeof *scope);
	if (!scope)
		return false;
	scope->parent = parser->scope;
	parser->scope = scope;
	parser->depth++;
	return true;
}

void ptx_scope_close(struct ptx_parser *parser)
{
	struct ptx_scope *scope = parser->scope;

	/* Newest first, so that each symbol heads its chain when it goes. */
	for (struct ptx_symbol *symbol = scope->symbols; symbol; symbol = symbol->scope_next)
		parser->buckets[symbol->hash % PTX_BUCKETS] = symbol->chain;
	parser->scope = scope->parent;
	parser->depth--;
}

static struct ptx_label *find_label(const struct ptx_parser *parser, const struct ptx_scope *scope,
				    const char *name, size_t length, uint32_t hash)
{
	struct ptx_label *label = parser->label_buckets[hash % PTX_BUCKETS];

	while (label && (label->scope != scope || label->hash != hash ||
			 !same(label->name, label->length, name, length)))
		label = label->chain;
	return label;
}

bool ptx_label_add(struct ptx_parser *parser, const char *name, size_t length)
{
	uint32_t hash = ptx_hash(name, length);
	struct ptx_label *label;

	if (find_label(parser, parser->scope, name, length, hash))
		return ptx_fail(parser, parser->token.line,
				"label '%.*s' is defined twice in one scope",
				(int)(length < 200 ? length : 200), name);
	label = ptx_scratch(parser, sizeof *label);
	if (!label)
		return false;
	label->name = name;
	label->length = length;
	label->hash = hash;
	label->pc = parser->function->ins_count;
	label->scope = parser->scope;
	label->chain = parser->label_buckets[hash % PTX_BUCKETS];
	parser->label_buckets[hash % PTX_BUCKETS] = label;
	label->next = parser->scope->labels;
	parser->scope->labels = label;
	return true;
}

bool ptx_label_refer(struct ptx_parser *parser, const struct ptx_token *name,
		     struct emu_operand *operand, uint32_t *pc)
{
	struct ptx_reference *reference = ptx_scratch(parser, sizeof *reference);

	if (!reference)
		return false;
	reference->name = name->text;
	reference->length = name->length;
	reference->line = name->line;
	reference->scope = parser->scope;
	reference->operand = operand;
	reference->pc = pc;
	reference->next = parser->references;
	parser->references = reference;
	return true;
}

bool ptx_labels_resolve(struct ptx_parser *parser)
{
	for (struct ptx_reference *r = parser->references; r; r = r->next) {
		uint32_t hash = ptx_hash(r->name, r->length);
		struct ptx_label *label = NULL;

		for (struct ptx_scope *scope = r->scope; scope && !label; scope = scope->parent)
			label = find_label(parser, scope, r->name, r->length, hash);
		if (!label)
			return ptx_fail(parser, r->line, "'%.*s' is not declared",
					(int)(r->length < 200 ? r->length : 200), r->name);
		if (r->pc)
			*r->pc = label->pc;
		if (r->operand) {
			r->operand->kind = EMU_O_LABEL;
			r->operand->value = label->pc;
		}
	}
	parser->references = NULL;
	memset(parser->label_buckets, 0, sizeof parser->label_buckets);
	return true;
}

uint32_t ptx_new_register(struct ptx_parser *parser, enum emu_type type, uint32_t count)
{
	struct emu_function *function = parser->function;

	if (count > PTX_MAX_REGISTERS || function->register_count > PTX_MAX_REGISTERS - count) {
		ptx_fail(parser, parser->token.line, "more than %u registers in a function",
			 PTX_MAX_REGISTERS);
		return 0;
	}
	uint32_t first = function->register_count, total = first + count;

	if (!count)
		return first;
	if (total > parser->register_room) {
		uint32_t room = total * 2 > 64 ? total * 2 : 64;
		uint8_t *types = ptx_keep(parser, room);

		if (!types)
			return 0;
		if (first)
			memcpy(types, function->register_types, first);
		function->register_types = types;
		parser->register_room = room;
	}
	memset(function->register_types + first, type, count);
	function->register_count = total;
	return first;
}

/* Tokens of PTX, and what the parser does with one at a time. */
#include "ptx.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool ptx_fail(struct ptx_parser *parser, int line, const char *format, ...)
{
	va_list arguments;
	int used;

	if (parser->failed)
		return false;
	parser->failed = true;
	parser->error->line = line;
	used = snprintf(parser->error->text, sizeof parser->error->text, "PTX line %d: ", line);
	va_start(arguments, format);
	vsnprintf(parser->error->text + used, sizeof parser->error->text - (size_t)used, format,
		  arguments);
	va_end(arguments);
	return false;
}

uint32_t ptx_hash(const char *text, size_t length)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)text[i]) * 16777619u;
	return hash;
}

static bool word_start(int c)
{
	return isalpha(c) || c == '_' || c == '$' || c == '%';
}

static bool word_part(int c)
{
	return isalnum(c) || c == '_' || c == '$';
}

static bool skip_space(struct ptx_parser *parser)
{
	struct ptx_lexer *lexer = &parser->lexer;

	while (lexer->at < lexer->end) {
		const char *at = lexer->at;

		if (*at == '\n') {
			lexer->line++;
			lexer->at++;
		} else if (isspace((unsigned char)*at)) {
			lexer->at++;
		} else if (*at == '/' && at + 1 < lexer->end && at[1] == '/') {
			while (lexer->at < lexer->end && *lexer->at != '\n')
				lexer->at++;
		} else if (*at == '/' && at + 1 < lexer->end && at[1] == '*') {
			int line = lexer->line;

			for (at += 2;; at++) {
				if (at + 1 >= lexer->end)
					return ptx_fail(parser, line, "comment without end");
				if (*at == '*' && at[1] == '/')
					break;
				lexer->line += *at == '\n';
			}
			lexer->at = at + 2;
		} else {
			break;
		}
	}
	return true;
}

/* Letters, digits, and the dots and double colons between them. */
static void take_word(struct ptx_lexer *lexer)
{
	const char *at = lexer->at;

	for (;;) {
		while (at < lexer->end && word_part((unsigned char)*at))
			at++;
		if (at + 1 < lexer->end && *at == '.' && word_part((unsigned char)at[1]))
			at++;
		else if (at + 2 < lexer->end && *at == ':' && at[1] == ':' &&
			 word_part((unsigned char)at[2]))
			at += 2;
		else
			break;
	}
	lexer->at = at;
}

static int digit_of(int c)
{
	if (isdigit(c))
		return c - '0';
	if (isxdigit(c))
		return tolower(c) - 'a' + 10;
	return 99;
}

static void take_integer(struct ptx_parser *parser, int base)
{
	struct ptx_lexer *lexer = &parser->lexer;
	const char *start = lexer->at;
	uint64_t value = 0;

	while (lexer->at < lexer->end && digit_of((unsigned char)*lexer->at) < base) {
		uint64_t digit = (uint64_t)digit_of((unsigned char)*lexer->at);

		if (value > (UINT64_MAX - digit) / (uint64_t)base) {
			ptx_fail(parser, lexer->line, "integer is wider than 64 bits");
			return;
		}
		value = value * (uint64_t)base + digit;
		lexer->at++;
	}
	if (lexer->at == start)
		ptx_fail(parser, lexer->line, "number without digits");
	if (lexer->at < lexer->end && *lexer->at == 'U')
		lexer->at++;
	parser->token.kind = PTX_INTEGER;
	parser->token.value = value;
}

static void take_decimal_float(struct ptx_parser *parser)
{
	struct ptx_lexer *lexer = &parser->lexer;
	const char *at = lexer->at;
	char text[64];

	while (at < lexer->end &&
	       (isdigit((unsigned char)*at) || *at == '.' || *at == 'e' || *at == 'E' ||
		((*at == '+' || *at == '-') && (at[-1] == 'e' || at[-1] == 'E'))))
		at++;
	if ((size_t)(at - lexer->at) >= sizeof text) {
		ptx_fail(parser, lexer->line, "floating point number has too many digits");
		return;
	}
	memcpy(text, lexer->at, (size_t)(at - lexer->at));
	text[at - lexer->at] = 0;
	double value = strtod(text, NULL);

	memcpy(&parser->token.value, &value, sizeof value);
	parser->token.kind = PTX_FLOAT64;
	lexer->at = at;
}

static void take_number(struct ptx_parser *parser)
{
	struct ptx_lexer *lexer = &parser->lexer;
	const char *at = lexer->at;
	int second = at + 1 < lexer->end ? tolower((unsigned char)at[1]) : 0;

	if (*at == '0' && (second == 'f' || second == 'd')) {
		int digits = second == 'f' ? 8 : 16, i;
		uint64_t value = 0;

		for (i = 0; i < digits && at + 2 + i < lexer->end; i++) {
			int digit = digit_of((unsigned char)at[2 + i]);

			if (digit > 15)
				break;
			value = value << 4 | (uint64_t)digit;
		}
		if (i != digits)
			ptx_fail(parser, lexer->line, "0%c is followed by %d hexadecimal digits",
				 second, digits);
		parser->token.kind = second == 'f' ? PTX_FLOAT32 : PTX_FLOAT64;
		parser->token.value = value;
		lexer->at = at + 2 + i;
		return;
	}
	if (*at == '0' && (second == 'x' || second == 'b')) {
		lexer->at += 2;
		take_integer(parser, second == 'x' ? 16 : 2);
		return;
	}
	while (at < lexer->end && isdigit((unsigned char)*at))
		at++;
	if (at < lexer->end && (*at == '.' || *at == 'e' || *at == 'E'))
		take_decimal_float(parser);
	else
		take_integer(parser, *lexer->at == '0' ? 8 : 10);
}

void ptx_next(struct ptx_parser *parser)
{
	struct ptx_lexer *lexer = &parser->lexer;
	struct ptx_token *token = &parser->token;

	if (parser->failed || !skip_space(parser)) {
		token->kind = PTX_END;
		return;
	}
	token->text = lexer->at;
	token->line = lexer->line;
	token->length = 0;
	if (lexer->at >= lexer->end) {
		token->kind = PTX_END;
		return;
	}
	int c = (unsigned char)*lexer->at;

	if (word_start(c)) {
		token->kind = PTX_WORD;
		lexer->at++;
		take_word(lexer);
	} else if (c == '.' && lexer->at + 1 < lexer->end &&
		   word_start((unsigned char)lexer->at[1])) {
		token->kind = PTX_DIRECTIVE;
		lexer->at++;
		/* .global.f32 would be two directives; they are written apart. */
		while (lexer->at < lexer->end &&
		       (word_part((unsigned char)*lexer->at) ||
			(*lexer->at == ':' && lexer->at + 1 < lexer->end && lexer->at[1] == ':')))
			lexer->at += *lexer->at == ':' ? 2 : 1;
	} else if (isdigit(c)) {
		take_number(parser);
	} else if (c == '"') {
		token->kind = PTX_STRING;
		token->text = ++lexer->at;
		while (lexer->at < lexer->end && *lexer->at != '"')
			lexer->line += *lexer->at++ == '\n';
		token->length = (size_t)(lexer->at - token->text);
		if (lexer->at >= lexer->end) {
			ptx_fail(parser, token->line, "string without end");
			return;
		}
		lexer->at++;
		return;
	} else {
		token->kind = PTX_MARK;
		lexer->at++;
	}
	token->length = (size_t)(lexer->at - token->text);
}

bool ptx_is(const struct ptx_parser *parser, const char *text)
{
	const struct ptx_token *token = &parser->token;

	return token->kind != PTX_END && token->kind != PTX_STRING &&
	       token->length == strlen(text) && !memcmp(token->text, text, token->length);
}

bool ptx_accept(struct ptx_parser *parser, const char *text)
{
	if (!ptx_is(parser, text))
		return false;
	ptx_next(parser);
	return true;
}

const char *ptx_quote(const struct ptx_token *token, char *buffer, size_t size)
{
	size_t length = token->length < 60 ? token->length : 60;

	if (token->kind == PTX_END)
		snprintf(buffer, size, "the end of the text");
	else
		snprintf(buffer, size, "'%.*s'", (int)length, token->text);
	for (char *c = buffer; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = '?';
	return buffer;
}

bool ptx_expect(struct ptx_parser *parser, const char *text)
{
	char buffer[80];

	if (ptx_accept(parser, text))
		return !parser->failed;
	return ptx_fail(parser, parser->token.line, "expected '%s', found %s", text,
			ptx_quote(&parser->token, buffer, sizeof buffer));
}

static bool constant_primary(struct ptx_parser *parser, int64_t *value)
{
	char buffer[80], prefix[16];
	int prefixes = 0;

	while (ptx_is(parser, "-") || ptx_is(parser, "+") || ptx_is(parser, "~")) {
		if (prefixes == (int)sizeof prefix)
			return ptx_fail(parser, parser->token.line, "too many signs");
		prefix[prefixes++] = *parser->token.text;
		ptx_next(parser);
	}
	if (parser->token.kind == PTX_INTEGER)
		*value = (int64_t)parser->token.value;
	else if (ptx_is(parser, "WARP_SZ"))
		*value = EMU_LANES;
	else
		return ptx_fail(parser, parser->token.line, "expected an integer, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	ptx_next(parser);
	while (prefixes-- > 0)
		*value = prefix[prefixes] == '-'   ? (int64_t)(0 - (uint64_t)*value)
			 : prefix[prefixes] == '~' ? ~*value
						   : *value;
	return !parser->failed;
}

bool ptx_constant(struct ptx_parser *parser, int64_t *value)
{
	*value = 0;
	if (!constant_primary(parser, value))
		return false;
	while (ptx_is(parser, "+") || ptx_is(parser, "-") || ptx_is(parser, "*")) {
		char operation = *parser->token.text;
		int64_t right = 0;

		ptx_next(parser);
		if (!constant_primary(parser, &right))
			return false;
		uint64_t a = (uint64_t)*value, b = (uint64_t)right;

		*value = (int64_t)(operation == '+' ? a + b : operation == '-' ? a - b : a * b);
	}
	return true;
}

void *ptx_keep(struct ptx_parser *parser, size_t size)
{
	void *memory = emu_arena_alloc(&parser->module->arena, size);

	if (!memory)
		ptx_fail(parser, parser->token.line, "the module needs too much memory");
	return memory;
}

void *ptx_scratch(struct ptx_parser *parser, size_t size)
{
	void *memory = emu_arena_alloc(&parser->scratch, size);

	if (!memory)
		ptx_fail(parser, parser->token.line, "the module needs too much memory");
	return memory;
}

char *ptx_keep_text(struct ptx_parser *parser, const char *text, size_t length)
{
	char *copy = ptx_keep(parser, length + 1);

	if (copy)
		memcpy(copy, text, length);
	return copy;
}

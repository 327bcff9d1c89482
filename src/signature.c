/*
 * The entries of a PTX text and their parameters.  Only declarations are read, so that any PTX
 * can be launched, also one with instructions that no part of tcmma knows.
 */
#include "dev.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TOKEN_MAX = 1024
};

struct scanner {
	const char *at;
	int line;
	char token[TOKEN_MAX];
};

static void skip_blank(struct scanner *s)
{
	for (;;) {
		if (*s->at == '\n') {
			s->line++;
			s->at++;
		} else if (isspace((unsigned char)*s->at)) {
			s->at++;
		} else if (s->at[0] == '/' && s->at[1] == '/') {
			s->at += strcspn(s->at, "\n");
		} else if (s->at[0] == '/' && s->at[1] == '*') {
			const char *end = strstr(s->at + 2, "*/");
			for (s->at += 2; *s->at && s->at != end; s->at++)
				s->line += *s->at == '\n';
			if (*s->at)
				s->at += 2;
		} else {
			return;
		}
	}
}

static bool is_word(int c)
{
	return isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* The next word or single character; false at the end of the text. */
static bool next(struct scanner *s)
{
	size_t n = 0;

	skip_blank(s);
	if (!*s->at)
		return false;
	if (*s->at == '"') {
		for (s->at++; *s->at && *s->at != '"'; s->at++)
			s->line += *s->at == '\n';
		s->at += *s->at == '"';
		strcpy(s->token, "\"");
		return true;
	}
	if (!is_word((unsigned char)*s->at)) {
		s->token[0] = *s->at++;
		s->token[1] = '\0';
		return true;
	}
	for (; is_word((unsigned char)*s->at); s->at++)
		if (n + 1 < TOKEN_MAX)
			s->token[n++] = *s->at;
	s->token[n] = '\0';
	return true;
}

static bool is(const struct scanner *s, const char *word)
{
	return !strcmp(s->token, word);
}

static bool fail(const struct scanner *s, const char *what, struct err *e)
{
	return tc_dev_fail(e, ERR_USER, "ptx-rejected", "PTX line %d: %s (at '%s')", s->line, what,
			   *s->at || s->token[0] ? s->token : "the end");
}

uint32_t tc_ptx_type_size(const char *type)
{
	static const char *const types[] = {"b8",  "u8",  "s8",  "b16",  "u16", "s16",
					    "f16", "b32", "u32", "s32",  "f32", "b64",
					    "u64", "s64", "f64", "bf16", "b128"};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(type, types[i]))
			return (uint32_t)atoi(type + strcspn(type, "0123456789")) / 8;
	return 0;
}

static bool number(struct scanner *s, uint32_t *out, struct err *e)
{
	char *end;

	if (!next(s) || !isdigit((unsigned char)s->token[0]))
		return fail(s, "a number was expected", e);
	unsigned long n = strtoul(s->token, &end, 0);
	if (n > UINT32_MAX || (*end && strcmp(end, "U")))
		return fail(s, "the number is too large", e);
	*out = (uint32_t)n;
	return true;
}

/* After ".param": attributes, the type, the name, perhaps [bytes]; leaves ',' or ')' as token. */
static bool parse_param(struct scanner *s, struct ptx_param *p, struct err *e)
{
	*p = (struct ptx_param){0};
	while (next(s) && s->token[0] == '.') {
		if (is(s, ".align")) {
			uint32_t bytes; /* behind .ptr: of what it points to */
			if (!number(s, &bytes, e))
				return false;
			if (!p->is_pointer)
				p->align = bytes;
		} else if (is(s, ".ptr")) {
			p->is_pointer = true;
		} else if (tc_ptx_type_size(s->token + 1)) {
			snprintf(p->type, sizeof p->type, "%.7s", s->token + 1);
			p->size = tc_ptx_type_size(p->type);
		}
	}
	if (!p->size || !is_word((unsigned char)s->token[0]))
		return fail(s, "a parameter without type or name", e);
	snprintf(p->name, sizeof p->name, "%.127s", s->token);
	if (!p->align)
		p->align = p->size;
	if (!next(s))
		return fail(s, "the parameter list does not end", e);
	if (is(s, "[")) {
		uint32_t n;
		if (!number(s, &n, e) || !next(s) || !is(s, "]") || !next(s))
			return e->text[0] ? false : fail(s, "']' was expected", e);
		if (n > 65536)
			return fail(s, "the parameter is too large", e);
		p->is_array = true;
		p->size *= n;
	}
	return true;
}

static bool parse_params(struct scanner *s, struct ptx_entry *entry, struct err *e)
{
	while (next(s) && !is(s, ")")) {
		if (!is(s, ".param"))
			return fail(s, "'.param' was expected", e);
		struct ptx_param *grown =
			realloc(entry->params, (size_t)(entry->param_count + 1) * sizeof *grown);
		if (!grown)
			return tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory");
		entry->params = grown;
		if (!parse_param(s, &grown[entry->param_count], e))
			return false;
		entry->param_count++;
		if (is(s, ")"))
			return true;
		if (!is(s, ","))
			return fail(s, "',' or ')' was expected", e);
	}
	return *s->at || is(s, ")") ? true : fail(s, "the parameter list does not end", e);
}

/* ".maxntid 128, 1, 1": one to three numbers; the token after them is not consumed. */
static bool parse_dims(struct scanner *s, uint32_t dims[3], struct err *e)
{
	dims[1] = dims[2] = 1;
	for (int i = 0; i < 3; i++) {
		if (!number(s, &dims[i], e))
			return false;
		skip_blank(s);
		if (*s->at != ',')
			return true;
		s->at++;
	}
	return true;
}

/* From the name to the '{' of the body or the ';' of a declaration. */
static bool parse_entry(struct scanner *s, struct ptx_entry *entry, bool *defined, struct err *e)
{
	if (!next(s) || !is_word((unsigned char)s->token[0]))
		return fail(s, "an entry without name", e);
	if (strlen(s->token) + 1 == TOKEN_MAX)
		return fail(s, "the entry's name is too long", e);
	snprintf(entry->name, sizeof entry->name, "%s", s->token);
	while (next(s)) {
		bool ok = true;
		if (is(s, "("))
			ok = parse_params(s, entry, e);
		else if (is(s, ".maxntid"))
			ok = parse_dims(s, entry->max_threads, e);
		else if (is(s, ".reqntid"))
			ok = parse_dims(s, entry->required_threads, e);
		else if (is(s, ".reqnctapercluster"))
			ok = parse_dims(s, entry->required_cluster, e);
		else if (is(s, "{") || is(s, ";")) {
			*defined = is(s, "{");
			return true;
		}
		if (!ok)
			return false;
	}
	return fail(s, "the entry does not end", e);
}

static bool skip_body(struct scanner *s, struct err *e)
{
	int depth = 1;

	while (depth && next(s))
		depth += is(s, "{") ? 1 : is(s, "}") ? -1 : 0;
	return depth == 0 || fail(s, "'}' is missing", e);
}

static bool add_entry(struct scanner *s, struct ptx_signature *sig, struct err *e)
{
	bool defined = false;
	struct ptx_entry *grown =
		realloc(sig->entries, (size_t)(sig->entry_count + 1) * sizeof *grown);

	if (!grown)
		return tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory");
	sig->entries = grown;
	struct ptx_entry *entry = &grown[sig->entry_count++];
	memset(entry, 0, sizeof *entry);
	if (!parse_entry(s, entry, &defined, e))
		return false;
	if (defined)
		return skip_body(s, e);
	free(entry->params);
	sig->entry_count--;
	return true;
}

bool tc_ptx_signature(const char *ptx, struct ptx_signature *sig, struct err *e)
{
	struct scanner s = {.at = ptx, .line = 1};
	bool ok = true;

	memset(sig, 0, sizeof *sig);
	e->text[0] = '\0';
	while (ok && next(&s)) {
		if (is(&s, ".version")) {
			ok = next(&s) || fail(&s, "the version is missing", e);
			snprintf(sig->version, sizeof sig->version, "%.15s", s.token);
		} else if (is(&s, ".target")) {
			ok = next(&s) || fail(&s, "the target is missing", e);
			snprintf(sig->target, sizeof sig->target, "%.31s", s.token);
		} else if (is(&s, ".entry")) {
			ok = add_entry(&s, sig, e);
		} else if (is(&s, "{")) {
			ok = skip_body(&s, e);
		}
	}
	if (ok && !sig->version[0])
		ok = tc_dev_fail(e, ERR_USER, "ptx-rejected",
				 "this is no PTX text: it has no .version (PTX begins with "
				 ".version, .target, "
				 ".address_size)");
	if (ok && !sig->target[0])
		ok = tc_dev_fail(e, ERR_USER, "ptx-rejected", "the PTX has no .target");
	if (!ok)
		tc_ptx_signature_free(sig);
	return ok;
}

void tc_ptx_signature_free(struct ptx_signature *sig)
{
	for (int i = 0; i < sig->entry_count; i++)
		free(sig->entries[i].params);
	free(sig->entries);
	memset(sig, 0, sizeof *sig);
}

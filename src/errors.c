/* The messages of the checks: texts of errors.def, and the pieces they are made of. */
#include "tc.h"

#include <string.h>

static const struct message {
	const char *text, *fix;
} messages[ERROR_COUNT] = {
#define SECTION(title)
#define ERROR(id, text, condition, cause, fix)        {text, fix},
#define ALTERED(id, text, why, condition, cause, fix) {text, fix},
#define OWN(id, text, condition, cause, fix)          {text, fix},
#include "errors.def"
};

struct cut {
	char *at, *end;
};

static void put(struct cut *c, const char *s, size_t n)
{
	size_t room = (size_t)(c->end - c->at);

	n = n < room ? n : room;
	memcpy(c->at, s, n);
	c->at += n;
}

int tc_message_words(enum tc_error id)
{
	int count = 0;

	for (const char *s = messages[id].text; (s = strchr(s, '{')); s++)
		count++;
	return count;
}

void tc_fail_documented(struct err *e, enum tc_error id, const char *const *text)
{
	const struct message *m = &messages[id];
	char buffer[sizeof e->text];
	struct cut c = {buffer, buffer + sizeof buffer - 1};
	const char *s = m->text, *open;
	const char *const *argument = text + 1;

	for (; (open = strchr(s, '{')); s = strchr(open, '}') + 1) {
		put(&c, s, (size_t)(open - s));
		if (!*argument)
			tc_fail_internal(e, "too few arguments for the message '%s'", m->text);
		put(&c, *argument, strlen(*argument));
		argument++;
	}
	put(&c, s, strlen(s));
	if (*argument)
		tc_fail_internal(e, "too many arguments for the message '%s'", m->text);
	put(&c, text[0], strlen(text[0]));
	if (*m->fix) {
		put(&c, "\n  ", 3);
		put(&c, m->fix, strlen(m->fix));
	}
	*c.at = '\0';
	tc_fail(e, "%s", buffer);
}

/* ---- pieces ---------------------------------------------------------------------- */

const char *tc_integer_text(struct kern *k, int64_t i)
{
	return tc_arena_printf(&k->arena, "%lld", (long long)i);
}

const char *tc_pair_text(struct kern *k, int64_t a, int64_t b)
{
	return tc_arena_printf(&k->arena, "(%lld, %lld)", (long long)a, (long long)b);
}

const char *tc_layout_text(struct kern *k, const struct alloc *a)
{
	return tc_arena_printf(&k->arena, "%s(packing=%d)", tc_tmem_layouts[a->layout], a->packing);
}

const char *tc_got(struct kern *k, const char *name, const struct ref *r)
{
	return tc_arena_printf(&k->arena, "\n  %s is %s", name, tc_ref_text(k, r));
}

const char *tc_join(struct kern *k, const char *a, const char *b)
{
	return tc_arena_printf(&k->arena, "%s%s", a, b);
}

bool tc_dim_equal(const struct dim *a, const struct dim *b)
{
	if (a->size >= 0 || b->size >= 0)
		return a->size == b->size;
	return a->value == b->value;
}

bool tc_static_shape(const struct ref *r)
{
	for (int i = 0; i < r->rank; i++)
		if (r->shape[i].size < 0)
			return false;
	return true;
}

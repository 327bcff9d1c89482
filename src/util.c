/* Arenas, growing text, and the one way an error leaves the core. */
#include "tc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors -------------------------------------------------------------- */

static _Thread_local struct err *arena_errors;

static _Noreturn void leave(struct err *e)
{
	if (!e->jump) {
		fprintf(stderr, "tcmma: failure outside tc_protect: %s\n", e->text);
		abort();
	}
	longjmp(*e->jump, 1);
}

static void set_text(struct err *e, enum err_kind kind, const char *fmt, va_list ap)
{
	char text[sizeof e->text]; /* an argument may be e->text itself */

	vsnprintf(text, sizeof text, fmt, ap);
	memcpy(e->text, text, sizeof text);
	e->kind = kind;
}

void tc_fail(struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_text(e, ERR_USER, fmt, ap);
	va_end(ap);
	leave(e);
}

void tc_fail_at(struct err *e, struct srcpos pos, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_text(e, ERR_USER, fmt, ap);
	va_end(ap);
	e->pos = pos;
	leave(e);
}

void tc_fail_internal(struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_text(e, ERR_INTERNAL, fmt, ap);
	va_end(ap);
	leave(e);
}

bool tc_protect(struct err *e, void (*fn)(void *), void *arg)
{
	jmp_buf here;
	jmp_buf *const outer = e->jump;
	struct err *const outer_errors = arena_errors;
	bool ok;

	arena_errors = e;
	e->jump = &here;
	if (setjmp(here) == 0) {
		fn(arg);
		ok = true;
	} else {
		ok = false;
	}
	e->jump = outer;
	arena_errors = outer_errors;
	return ok;
}

static _Noreturn void out_of_memory(size_t size)
{
	struct err *e = arena_errors;

	if (!e) {
		fprintf(stderr, "tcmma: out of memory (%zu bytes)\n", size);
		abort();
	}
	snprintf(e->text, sizeof e->text, "out of memory (%zu bytes asked)", size);
	e->kind = ERR_MEMORY;
	leave(e);
}

/* ---- arena --------------------------------------------------------------- */

struct arena_block {
	struct arena_block *next;
	size_t size;
	max_align_t data[];
};

#define ARENA_BLOCK ((size_t)32768)
#define ARENA_ALIGN sizeof(max_align_t)

void *tc_arena_alloc(struct arena *a, size_t size)
{
	if (size > PTRDIFF_MAX - ARENA_BLOCK)
		out_of_memory(size);
	size = size ? (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN : ARENA_ALIGN;
	if (!a->blocks || a->blocks->size - a->used < size) {
		size_t wanted = size > ARENA_BLOCK / 4 ? size : ARENA_BLOCK;
		struct arena_block *block = malloc(sizeof *block + wanted);

		if (!block)
			out_of_memory(wanted);
		block->size = wanted;
		a->total += wanted;
		if (a->blocks && wanted != ARENA_BLOCK) {
			/* A large piece gets its own block; the current one stays current. */
			block->next = a->blocks->next;
			a->blocks->next = block;
			return memset(block->data, 0, size);
		}
		block->next = a->blocks;
		a->blocks = block;
		a->used = 0;
	}

	void *piece = (char *)a->blocks->data + a->used;

	a->used += size;
	return memset(piece, 0, size);
}

char *tc_arena_strdup(struct arena *a, const char *s)
{
	size_t size = strlen(s) + 1;

	return memcpy(tc_arena_alloc(a, size), s, size);
}

char *tc_arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	int length;
	char *text;

	va_start(ap, fmt);
	length = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	text = tc_arena_alloc(a, (size_t)length + 1);
	va_start(ap, fmt);
	vsnprintf(text, (size_t)length + 1, fmt, ap);
	va_end(ap);
	return text;
}

void tc_arena_free(struct arena *a)
{
	struct arena_block *next;

	for (struct arena_block *block = a->blocks; block; block = next) {
		next = block->next;
		free(block);
	}
	memset(a, 0, sizeof *a);
}

/* ---- growing text -------------------------------------------------------- */

static void reserve(struct strbuf *b, size_t more)
{
	size_t wanted = b->length + more + 1;

	if (wanted <= b->capacity)
		return;

	size_t capacity = b->capacity ? b->capacity : b->arena ? 64 : 256;

	while (capacity < wanted)
		capacity *= 2;

	char *text = b->arena ? tc_arena_alloc(b->arena, capacity) : realloc(b->text, capacity);

	if (!text)
		out_of_memory(capacity);
	if (b->arena && b->length)
		memcpy(text, b->text, b->length + 1);
	b->text = text;
	b->capacity = capacity;
}

void tc_puts(struct strbuf *b, const char *s)
{
	size_t length = strlen(s);

	reserve(b, length);
	memcpy(b->text + b->length, s, length + 1);
	b->length += length;
}

void tc_vprintf(struct strbuf *b, const char *fmt, va_list ap)
{
	va_list again;
	int length;

	va_copy(again, ap);
	length = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	reserve(b, (size_t)length);
	vsnprintf(b->text + b->length, (size_t)length + 1, fmt, ap);
	b->length += (size_t)length;
}

void tc_printf(struct strbuf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tc_vprintf(b, fmt, ap);
	va_end(ap);
}

void tc_strbuf_free(struct strbuf *b)
{
	if (!b->arena)
		free(b->text);
	memset(b, 0, sizeof *b);
}

const char *tc_base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

/* ---- hash ---------------------------------------------------------------- */

/* FNV-1a over bytes with a final mix (the 64-bit finalizer of MurmurHash3). */
uint64_t tc_hash(const void *data, size_t size, uint64_t seed)
{
	const unsigned char *byte = data;
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;

	for (size_t i = 0; i < size; i++)
		h = (h ^ byte[i]) * UINT64_C(0x100000001b3);
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

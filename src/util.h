/* What all of the core stands on: memory, text, errors, element types. */
#ifndef TCMMA_UTIL_H
#define TCMMA_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TC_MAX_RANK 8

/* ---- util.c: memory, text, errors ---- */

/* Everything a recording or a compilation makes lives in one arena. */
struct arena {
	struct arena_block *blocks;
	size_t used, total; /* of the current block; bytes in all */
};
void *tc_arena_alloc(struct arena *a, size_t size); /* zeroed, never NULL: fails by longjmp */
char *tc_arena_strdup(struct arena *a, const char *s);
char *tc_arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tc_arena_free(struct arena *a);

struct strbuf {
	char *text; /* NUL-terminated; malloc'ed unless it grows in an arena */
	size_t length, capacity;
	struct arena *arena; /* where a failure in the middle must lose nothing; NULL: malloc */
};
void tc_puts(struct strbuf *b, const char *s);
void tc_printf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tc_vprintf(struct strbuf *b, const char *fmt, va_list ap);
void tc_strbuf_free(struct strbuf *b);

struct srcpos {
	const char *file; /* NULL: unknown */
	int line;
};

enum err_kind {
	ERR_USER,       /* the caller's mistake */
	ERR_MEMORY,     /* out of host memory */
	ERR_INTERNAL,   /* ours */
	ERR_ENVIRONMENT /* something that this machine lacks: `code` says what */
};

/*
 * One error slot per entry point.  tc_fail writes the text and jumps to the
 * tc_protect around it; no Lua call happens between the two.
 */
struct err {
	jmp_buf *jump;
	enum err_kind kind;
	struct srcpos pos; /* where the message points; set before each call */
	const char *code;  /* "no-library", "ptx-rejected" ...: see dev.h; else NULL */
	char text[8192];
};
_Noreturn void tc_fail(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void tc_fail_at(struct err *e, struct srcpos pos, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
_Noreturn void tc_fail_internal(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Runs fn(arg); false when it failed, `e` then holds kind, position and text. */
bool tc_protect(struct err *e, void (*fn)(void *), void *arg);

const char *tc_base_name(const char *file); /* without its folders */
uint64_t tc_hash(const void *data, size_t size, uint64_t seed);

/* nearest.c */
/* Those of a NULL-terminated list that are most like a misspelt word, best first; how many. */
int tc_nearest_names(const char *word, const char *const *list, const char **near, int most);
/* The best of them, NULL if none is near. */
const char *tc_nearest(const char *word, const char *const *list);

/* ---- dtype.c: element types ---- */

enum dtype {
#define DT(id, ...) DT_##id,
#include "dtype.def"
	DT_COUNT
};

struct dtype_info {
	const char *name, *shortname; /* "float16", "f16" */
	int bits;
	char klass; /* 'F', 'I', 'U', 'B' */
	const char *mlir, *ptx;
	int tma;
	const char *npy, *safetensors;
};
extern const struct dtype_info tc_dtypes[DT_COUNT];
const char *tc_dtype_alias(int t);   /* PTX's name of a signed integer, "s32"; else NULL */
int tc_dtype_find(const char *name); /* long or short name, or alias; -1 */
const char *tc_dtype_nearest(const char *name); /* for "did you mean" */

/*
 * Conversions of single elements.  `bits` is the element in the low bits.
 * Round to nearest even; float formats without infinity saturate, as do
 * integers; the rules are at each definition.
 */
uint64_t tc_from_double(enum dtype t, double x);
double tc_to_double(enum dtype t, uint64_t bits);
/* Element i of a packed array (sub-byte types: element 0 in the low bits). */
uint64_t tc_get_element(enum dtype t, const void *data, int64_t i);
void tc_set_element(enum dtype t, void *data, int64_t i, uint64_t bits);
int64_t tc_storage_bytes(enum dtype t, int64_t elements);
/* Elements that TMA moves as one byte, having no type for them, or 1. */
int tc_tma_unit(enum dtype t);
/* Exact where the type can hold it, else rounded and saturated as doubles are. */
uint64_t tc_from_integer(enum dtype t, int64_t x);
uint64_t tc_from_unsigned(enum dtype t, uint64_t x);
/* False for floats and for what is above INT64_MAX. */
bool tc_to_integer(enum dtype t, uint64_t bits, int64_t *value);

/* float_format.c: the float types of tc_from_double and tc_to_double */
uint64_t tc_float_encode(enum dtype t, double x);
double tc_float_decode(enum dtype t, uint64_t bits);

/* convert.c: whole arrays, packed */
/* Elements first .. first + count - 1. */
void tc_load_doubles(enum dtype t, const void *data, int64_t first, int64_t count, double *out);
void tc_store_doubles(enum dtype t, void *data, int64_t first, int64_t count, const double *in);
/* Rounds once; 64-bit integers are not widened to doubles on the way. */
void tc_convert_elements(enum dtype to, void *dst, enum dtype from, const void *src, int64_t count);
/* The unused bits of the last byte become zero. */
void tc_fill_elements(enum dtype t, void *data, int64_t count, uint64_t bits);

#endif

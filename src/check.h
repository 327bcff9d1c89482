/* What is legal, and the messages that say what is not. */
#ifndef TCMMA_CHECK_H
#define TCMMA_CHECK_H

#include "kernel.h"

/* ---- errors.c: the messages of the checks (errors.def) ---- */

enum tc_error {
#define SECTION(title)
#define ERROR(id, ...)   ERROR_##id,
#define ALTERED(id, ...) ERROR_##id,
#define OWN(id, ...)     ERROR_##id,
#include "errors.def"
	ERROR_COUNT
};
/*
 * Fails with the text of `id`, its {words} replaced in order by text[1], text[2] ...;
 * text[0], which may be "", are further lines (what was got), and the message's fix is the
 * last one.
 */
_Noreturn void tc_fail_documented(struct err *e, enum tc_error id, const char *const *text);
/* How many words the text of a message leaves open. */
int tc_message_words(enum tc_error id);
#define tc_documented(e, id, ...)                                                                  \
	tc_fail_documented(e, ERROR_##id, (const char *const[]){__VA_ARGS__, NULL})
/* The same, pointing at an op or allocation. */
#define tc_documented_at(e, where, id, ...) ((e)->pos = (where), tc_documented(e, id, __VA_ARGS__))
/* Pieces of the texts, in the kernel's arena. */
const char *tc_integer_text(struct kern *k, int64_t i);
const char *tc_pair_text(struct kern *k, int64_t a, int64_t b); /* (a, b) */
const char *tc_layout_text(struct kern *k, const struct alloc *a);
/* "\n  name is ...": one further line of a message. */
const char *tc_got(struct kern *k, const char *name, const struct ref *r);
const char *tc_join(struct kern *k, const char *a, const char *b);
/* Same static size, or the same named dimension. */
bool tc_dim_equal(const struct dim *a, const struct dim *b);
bool tc_same_shape(const struct ref *a, const struct ref *b);
bool tc_static_shape(const struct ref *r);

/* ---- check*.c: is this call legal? ---- */

void tc_check_alloc(struct kern *k, struct alloc *a, bool packed_given, bool layout_given,
		    bool collective_given); /* completes swizzle, packing, columns */
/* Bits that memory has for an element: padded ones, and 6-bit ones in SMEM, take a byte. */
int tc_stored_bits(const struct alloc *a);
/* 32-bit columns that `columns` elements of `rows` rows take in the layout of a TMEM allocation. */
int64_t tc_tmem_columns(const struct alloc *a, int64_t rows, int64_t columns);
void tc_check_mma(struct kern *k, struct mma_op *m);
void tc_check_commit_arrive(struct kern *k, struct arrive_op *a);
/* check_collective.c: the number of the axis; the barrier of a commit with such an axis. */
int tc_check_collective_axis(struct kern *k, const char *name);
void tc_check_collective_commit(struct kern *k, const struct barrier_ref *b);
void tc_check_barrier(struct kern *k, const struct barrier *b);
void tc_check_arrive(struct kern *k, struct arrive_op *a);
void tc_check_wait(struct kern *k, struct wait_op *w);
/* tc.cluster_ref; and ops that work on the CTA's own memory. */
void tc_check_cluster_ref(struct kern *k, const struct ref *r, const struct val *rank);
void tc_check_cluster_barrier_ref(struct kern *k, const struct barrier_ref *b,
				  const struct val *rank);
void tc_check_own(struct kern *k, const struct ref *r);
void tc_check_copy_gmem_to_smem(struct kern *k, struct copy_op *c);
void tc_check_copy_smem_to_gmem(struct kern *k, struct copy_op *c);
void tc_check_tmem_copy(struct kern *k, enum op_kind kind, struct tmem_copy_op *c);
void tc_check_async_load_tmem(struct kern *k, struct load_op *l);
void tc_check_async_store_tmem(struct kern *k, struct store_op *s);
void tc_check_load(struct kern *k, struct load_op *l);
void tc_check_store(struct kern *k, struct store_op *s);
/* The fragment has the shape of the ref, or is one value for all of it. */
bool tc_fragment_fits(const struct frag *f, const struct ref *r);
const char *tc_fragment_shape_text(struct kern *k, const struct frag *f); /* (128, 64) */
void tc_check_alias(struct kern *k, struct ref **members, int count);
void tc_check_index(struct kern *k, const struct ref *r, const struct index *index, int count);
void tc_check_transpose(struct kern *k, const struct ref *r);
void tc_check_barrier_index(struct kern *k, const struct barrier *b, const struct val *index);
/* A group of barriers has to be indexed. */
void tc_check_single_barrier(struct kern *k, const struct barrier_ref *b);
void tc_check_tile(struct kern *k, const struct ref *r);
/* An argument that is no ref, or no barrier: `got` describes it; `space` "SMEM", "GMEM", NULL: any.
 */
_Noreturn void tc_check_reference(struct kern *k, const char *name, const char *space,
				  const char *got);
struct tensormap;
/* Arguments of cuTensorMapEncodeTiled, at launch. */
void tc_check_tensormap(struct err *e, const struct tensormap *m);

/* ---- mma_rows.c: mma.def, which says what the matrix instructions take ---- */

enum mma_kind {
	MMA_F16,
	MMA_TF32,
	MMA_F8F6F4,
	MMA_I8,
	MMA_MXF8F6F4,
	MMA_MXF4,
	MMA_MXF4NVF4
};
/* Limits that are Pallas' own: the instruction set lacks them. */
enum mma_limit {
	MMA_LIMIT_SPARSE_M = 1,
	MMA_LIMIT_SPARSE_N = 2,
	MMA_LIMIT_SPARSE_K = 4
};
struct mma_row {
	enum mma_kind kind;
	bool wgmma;       /* sm_90a; else tcgen05 */
	const char *name; /* "kind::f16" */
	uint32_t a, b, d; /* bit sets of enum dtype */
	uint32_t scale;   /* 0: not block-scaled */
	int block;        /* elements along K that a scale factor covers; twice that if sparse */
	bool same;        /* A and B must have one dtype */
	int k, k_sparse;  /* elements along K an instruction */
	struct {
		unsigned one, two, sparse_one, sparse_two; /* bits 0, 1, 2: M 64, 128, 256 */
	} m;
	struct {
		/* Multiples of it, of one CTA below `fine` of 8; `most` an instruction. */
		int one, fine, two, sparse_two, most;
	} n;
	const char *targets; /* "sm_100a sm_103a" */
	int version;         /* of PTX, times ten */
	unsigned pallas;     /* set of enum mma_limit */
};
/* What a row and a shape (mma_shape.h) may agree in. */
enum mma_property {
	MMA_TYPES = 1,   /* of A and B */
	MMA_WIDTHS = 2,  /* of their elements as stored */
	MMA_RESULT = 4,  /* type of D */
	MMA_SCALING = 8, /* scaled or not */
	MMA_SCALE = 16,  /* type of the scales */
	MMA_BLOCK = 32,  /* elements that each covers */
	MMA_ALL = 63
};
struct mma_shape;
/* The first row behind `after` (NULL: of all) that agrees in the properties; NULL: none. */
const struct mma_row *tc_mma_next(bool wgmma, const struct mma_shape *s, unsigned properties,
				  const struct mma_row *after);
/* The first that agrees in all of them: the instruction. */
const struct mma_row *tc_mma_row(bool wgmma, const struct mma_shape *s);
bool tc_mma_on_target(const struct mma_row *row, const char *target);
/* m, n: of both CTAs together. */
bool tc_mma_takes_m(const struct mma_row *row, bool collective, bool sparse, int64_t m);
bool tc_mma_takes_n(const struct mma_row *row, bool collective, int64_t n);

#endif

/* Legality of what moves data, and of work that CTAs hand to each other. */
#ifndef TCMMA_CHECK_COPY_H
#define TCMMA_CHECK_COPY_H

#include "tc.h"

/* What a copy from SMEM does to the elements that GMEM holds: one row of tc_store_reductions. */
struct store_reduction {
	const char *name, *ptx;
	char sign; /* of integers: 'u', 's', or 0 for that of the dtype */
	bool floats, f32;
};
extern const struct store_reduction tc_store_reductions[]; /* ends with a NULL name */

/* check_copy.c: what TMA takes of an argument. */
void tc_check_tma_gmem(struct kern *k, const struct ref *r);

/*
 * copy_box.c: elements of a box along rows, columns and the tiles before them, by axis of the
 * allocation, for so many rows and columns of a view; `deep`: along how many axes of tiles a box
 * may have more than one.  False: no such boxes cover it.
 */
struct copy_boxes {
	int64_t rows, columns, tiles[TC_MAX_RANK];
};
bool tc_copy_boxes(const struct ref *r, int64_t rows, int64_t columns, int deep,
		   struct copy_boxes *b);
/* The largest divisor of n up to `limit` that is such a multiple. */
int64_t tc_largest_divisor(int64_t n, int64_t limit, int64_t multiple);

/* check_gather.c: rows that a vector names; copies of them; what all else than copies asks. */
void tc_check_gather(struct kern *k, const struct ref *r, const struct ref *rows, int gathered,
		     const struct index *index, int count);
void tc_check_gather_view(struct kern *k, const struct ref *view);
void tc_check_gather_copy(struct kern *k, const struct copy_op *c);
void tc_check_no_gather(struct kern *k, const struct ref *r);
void tc_check_prefetch(struct kern *k, struct prefetch_op *p);
/* The first dimension that falls into a part for each CTA; -1: none does. */
int tc_prefetch_cut(const struct ref *r, int ctas);

/* check_schedule.c */
void tc_check_try_cancel(struct kern *k, struct try_cancel_op *t);
void tc_check_query_cancel(struct kern *k, struct query_cancel_op *q);

/* `op`: who counts by `value` in it. */
void tc_check_semaphore(struct kern *k, const struct ref *r, const struct val *value,
			const char *op);

#endif

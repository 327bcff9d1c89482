/* Work between CTAs: cluster launch control, semaphores. */
#include "check_copy.h"

/* ---- cluster launch control -------------------------------------------------------------- */

static int64_t bits_of(const struct ref *r)
{
	int64_t bits = tc_dtypes[r->alloc->dtype].bits;

	for (int i = 0; i < r->rank; i++)
		bits *= r->shape[i].size;
	return bits;
}

/* One row of a plain array whose rows are 16 bytes: they are aligned whatever the row's number. */
static bool is_row(const struct ref *r)
{
	const struct alloc *a = r->alloc;
	int last = a->rank - 1;

	return !a->swizzle && !r->transposed && last >= 0 &&
	       r->extent[last].size == a->shape[last].size &&
	       a->shape[last].size * tc_dtypes[a->dtype].bits == 128;
}

static void check_response(struct kern *k, const struct ref *r)
{
	if (r->alloc->space != SP_SMEM)
		tc_documented(&k->err, CANCEL_SPACE, tc_got(k, "result", r));
	tc_check_own(k, r);
}

static void check_row(struct kern *k, const struct ref *r)
{
	if (!is_row(r))
		tc_documented(&k->err, CANCEL_PLAIN, tc_got(k, "result", r));
}

void tc_check_try_cancel(struct kern *k, struct try_cancel_op *t)
{
	int64_t bits = bits_of(t->result);

	check_response(k, t->result);
	if (bits != 128)
		tc_documented(&k->err, TRY_CANCEL_BITS, tc_got(k, "result", t->result),
			      tc_integer_text(k, bits));
	check_row(k, t->result);
	if (t->barrier.cluster_rank)
		tc_documented(&k->err, PEER_REF, "");
	if (t->barrier.barrier->cluster)
		tc_documented(&k->err, CANCEL_CLUSTER_BARRIER, "");
	tc_check_single_barrier(k, &t->barrier);
}

void tc_check_query_cancel(struct kern *k, struct query_cancel_op *q)
{
	int64_t bits = bits_of(q->result);

	check_response(k, q->result);
	if (bits != 128)
		tc_documented(&k->err, QUERY_CANCEL_BITS, tc_got(k, "result", q->result),
			      tc_integer_text(k, bits));
	check_row(k, q->result);
}

/* ---- semaphores ---------------------------------------------------------------------------- */

void tc_check_semaphore(struct kern *k, const struct ref *r, const struct val *value,
			const char *op)
{
	const struct alloc *a = r->alloc;
	int64_t constant;

	if (a->space != SP_GMEM || r->rank)
		tc_documented(&k->err, SEMAPHORE_ELEMENT, "", tc_ref_text(k, r));
	if (a->dtype != DT_I32 && a->dtype != DT_U32)
		tc_documented(&k->err, SEMAPHORE_DTYPE, "", tc_dtypes[a->dtype].name);
	if (value->type != VT_S32 || (tc_val_is_const(value, &constant) && constant < 1))
		tc_documented(&k->err, SEMAPHORE_VALUE, "", op, tc_val_text(k, value));
}

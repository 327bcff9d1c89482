/*
 * Recorded indices of shared memory, tensor memory and barriers: MI_CHECK, which stops the kernel
 * where one is beyond its array.  Only the text for the emulator has them (tc_emit).
 */
#include "compile.h"

static const char *made_at(struct low *l, const char *kind, const char *name, struct srcpos pos)
{
	const char *place = tc_pos_text(l->c->kern, pos);

	return name ? tc_arena_printf(l->arena, "\"%s\" (%smade at %s)", name, kind, place)
		    : tc_arena_printf(l->arena, "the %smade at %s", kind, place);
}

/* The value is in 0 .. limit - 1, where that does not follow from how it is computed. */
static void check(struct low *l, const struct val *v, int64_t limit, const char *of)
{
	struct interval at = tc_low_interval(l, v);

	if (at.low < 0 || at.high >= limit)
		mi_check(l, tc_low_register(l, v), limit,
			 tc_arena_printf(l->arena, "index {} of %s is outside 0 to %lld", of,
					 (long long)limit - 1));
}

static void check_ref(struct low *l, const struct ref *r)
{
	static const char *const kinds[] = {[SP_SMEM] = "SMEM ", [SP_TMEM] = "TMEM "};
	const struct alloc *a = r ? r->alloc : NULL;

	/* TMA and the guards of loads know the bounds of GMEM; virtual tensor memory has no
	 * addresses. */
	if (r && r->rows)
		check_ref(l, r->rows);
	if (!a || a->space == SP_GMEM || (a->space == SP_TMEM && !l->c->target->tmem_columns))
		return;
	for (int i = 0; i < a->rank; i++) {
		int64_t constant;

		if (tc_val_is_const(r->start[i], &constant))
			continue;
		check(l, r->start[i], a->shape[i].size - r->extent[i].size + 1,
		      tc_arena_printf(l->arena, "dimension %d of %s", i,
				      made_at(l, kinds[a->space], a->name, a->pos)));
	}
}

static void check_barrier(struct low *l, const struct barrier_ref *b)
{
	int64_t constant;

	if (!b->barrier || tc_val_is_const(b->index, &constant) ||
	    (l->c->elided && l->c->elided[b->barrier->id]))
		return;
	check(l, b->index, b->barrier->num_barriers,
	      b->barrier->name ? tc_arena_printf(l->arena, "barrier %s",
						 made_at(l, "", b->barrier->name, b->barrier->pos))
			       : made_at(l, "barriers ", NULL, b->barrier->pos));
}

void tc_low_bounds(struct low *l, const struct op *op)
{
	switch (op->kind) {
	case OP_COPY_GMEM_TO_SMEM:
	case OP_COPY_SMEM_TO_GMEM:
		check_ref(l, op->u.copy.src);
		check_ref(l, op->u.copy.dst);
		check_barrier(l, &op->u.copy.barrier);
		break;
	case OP_MMA:
		check_ref(l, op->u.mma.acc);
		check_ref(l, op->u.mma.a);
		check_ref(l, op->u.mma.b);
		check_ref(l, op->u.mma.a_scale);
		check_ref(l, op->u.mma.b_scale);
		check_ref(l, op->u.mma.a_sparse_metadata);
		check_barrier(l, &op->u.mma.barrier);
		break;
	case OP_BARRIER_ARRIVE:
	case OP_COMMIT_ARRIVE:
		check_barrier(l, &op->u.arrive.barrier);
		break;
	case OP_BARRIER_WAIT:
		check_barrier(l, &op->u.wait.barrier);
		break;
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		check_ref(l, op->u.tmem_copy.src);
		check_ref(l, op->u.tmem_copy.dst);
		break;
	case OP_ASYNC_LOAD_TMEM:
	case OP_LOAD:
		check_ref(l, op->u.load.ref);
		break;
	case OP_ASYNC_STORE_TMEM:
	case OP_STORE:
	case OP_ATOMIC:
		check_ref(l, op->u.store.ref);
		check_barrier(l, &op->u.store.barrier);
		break;
	case OP_LOAD_SCALAR:
		check_ref(l, op->u.load_scalar.ref);
		break;
	case OP_STORE_SCALAR:
	case OP_ATOMIC_SCALAR:
		check_ref(l, op->u.store_scalar.ref);
		break;
	case OP_TRY_CLUSTER_CANCEL:
		check_ref(l, op->u.try_cancel.result);
		check_barrier(l, &op->u.try_cancel.barrier);
		break;
	case OP_QUERY_CLUSTER_CANCEL:
		check_ref(l, op->u.query_cancel.result);
		break;
	default:
		break;
	}
}

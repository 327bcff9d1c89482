/* Barriers: making, indexing, arriving, waiting. */
#include "tc.h"

#include <string.h>

void tc_check_reference(struct kern *k, const char *name, const char *space, const char *got)
{
	if (strcmp(name, "barrier") == 0)
		tc_documented(&k->err, BARRIER_REFERENCE, "", got);
	if (space)
		tc_documented(&k->err, WRONG_SPACE, "", name, space, got);
	tc_documented(&k->err, NOT_A_REFERENCE, "", name, got);
}

#define MAX_BARRIERS 32        /* of a group: the phases are bits of one register */
#define MAX_ARRIVALS (1 << 15) /* times the warps that arrive: below mbarrier's 2^20 - 1 */

void tc_check_barrier(struct kern *k, const struct barrier *b)
{
	if (b->num_arrivals < 1)
		tc_documented(&k->err, BARRIER_ARRIVALS, "", tc_integer_text(k, b->num_arrivals));
	if (b->num_barriers < 1)
		tc_documented(&k->err, BARRIER_NUMBER, "", tc_integer_text(k, b->num_barriers));
	if (b->num_barriers > MAX_BARRIERS)
		tc_documented(&k->err, BARRIER_COUNT, "");
	if (b->leader_tracked && b->cluster_groups > 1)
		tc_documented(&k->err, LEADER_ONE_DIMENSION, "");
	if (b->leader_tracked && (b->cluster_group[0] & (b->cluster_group[0] - 1)))
		tc_documented(&k->err, LEADER_UNGROUPED, "");
	if (b->num_arrivals >= MAX_ARRIVALS)
		tc_documented(&k->err, BARRIER_ARRIVALS_MAX, "",
			      tc_integer_text(k, b->num_arrivals));
}

static const char *made_at(struct kern *k, const struct barrier *b)
{
	return tc_arena_printf(&k->arena, "\n  the barrier was made at %s", tc_pos_text(k, b->pos));
}

void tc_check_barrier_index(struct kern *k, const struct barrier *b, const struct val *index)
{
	int64_t i;

	if (index && index->type != VT_S32)
		tc_documented(&k->err, BARRIER_INDEX_TYPE, made_at(k, b), tc_val_text(k, index));
	if (tc_val_is_const(index, &i) && (i < 0 || i >= b->num_barriers))
		tc_documented(&k->err, BARRIER_BOUNDS,
			      tc_arena_printf(&k->arena, "%s with num_barriers = %d", made_at(k, b),
					      b->num_barriers),
			      tc_integer_text(k, i));
}

void tc_check_single_barrier(struct kern *k, const struct barrier_ref *b)
{
	if (!b->index && b->barrier->num_barriers > 1)
		tc_documented(&k->err, BARRIER_SINGLE, made_at(k, b->barrier),
			      tc_integer_text(k, b->barrier->num_barriers));
	if (b->index)
		tc_check_barrier_index(k, b->barrier, b->index);
}

void tc_check_arrive(struct kern *k, struct arrive_op *a)
{
	if (!a->barrier.barrier)
		tc_check_reference(k, "barrier", "SMEM", "nothing");
	tc_check_single_barrier(k, &a->barrier);
}

void tc_check_wait(struct kern *k, struct wait_op *w)
{
	if (!w->barrier.barrier)
		tc_check_reference(k, "barrier", "SMEM", "nothing");
	if (w->barrier.cluster_rank)
		tc_documented(&k->err, AWAIT_REMOTE, made_at(k, w->barrier.barrier));
	tc_check_single_barrier(k, &w->barrier);
}

/* ---- other CTAs of the cluster ------------------------------------------------------------ */

static void check_rank(struct kern *k, const struct val *rank)
{
	int size = tc_cluster_size(k, ~0u);
	int64_t i;

	if (!k->cluster_rank)
		tc_documented(&k->err, NO_CLUSTER_AXES, "");
	if (tc_val_is_const(rank, &i) && (i < 0 || i >= size))
		tc_documented(&k->err, CLUSTER_RANK, "", tc_integer_text(k, size),
			      tc_integer_text(k, i));
}

void tc_check_cluster_ref(struct kern *k, const struct ref *r, const struct val *rank)
{
	if (r->alloc->space != SP_SMEM)
		tc_check_reference(k, "ref", "SMEM", tc_ref_text(k, r));
	if (r->cluster_rank)
		tc_documented(&k->err, PEER_OF_PEER, "");
	check_rank(k, rank);
}

void tc_check_cluster_barrier_ref(struct kern *k, const struct barrier_ref *b,
				  const struct val *rank)
{
	if (b->cluster_rank)
		tc_documented(&k->err, PEER_OF_PEER, "");
	if (b->barrier->cluster)
		tc_documented(&k->err, REMAP_CLUSTER_BARRIER, made_at(k, b->barrier));
	check_rank(k, rank);
}

void tc_check_own(struct kern *k, const struct ref *r)
{
	if (r && r->cluster_rank)
		tc_documented(&k->err, PEER_REF, tc_got(k, "the ref", r));
}

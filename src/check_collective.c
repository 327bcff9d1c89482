/*
 * What the two CTAs of a pair do together: the cluster axis that an op names, and the barrier that
 * is to arrive in both.
 */
#include "tc.h"

#include <string.h>

static const char *list_axes(struct kern *k)
{
	const char *text = "[";

	for (int i = 0; i < k->cluster_rank; i++)
		text = tc_arena_printf(&k->arena, "%s%s'%s'", text, i ? ", " : "",
				       k->cluster_names[i] ? k->cluster_names[i] : "");
	return tc_join(k, text, "]");
}

static bool is_grid_axis(const struct kern *k, const char *name)
{
	for (int i = 0; i < k->grid_rank; i++)
		if (k->grid_names[i] && strcmp(k->grid_names[i], name) == 0)
			return true;
	return false;
}

/* The cluster axis of that name, which has to be the last one, of two CTAs. */
int tc_check_collective_axis(struct kern *k, const char *name)
{
	int axis = tc_kern_cluster_axis(k, name), last = k->cluster_rank - 1;

	if (axis < 0 && k->cluster_rank == 0 && is_grid_axis(k, name))
		tc_documented(&k->err, NO_CLUSTER_AXES, "");
	if (axis < 0)
		tc_documented(&k->err, UNKNOWN_CLUSTER_AXIS, "", name, list_axes(k));
	if (axis != last)
		tc_documented(&k->err, COLLECTIVE_AXIS_NOT_MINOR, "", name,
			      k->cluster_names[last] ? k->cluster_names[last] : "");
	if (k->cluster[axis] != 2)
		tc_documented(&k->err, COLLECTIVE_SIZE, "", name,
			      tc_integer_text(k, k->cluster[axis]));
	return axis;
}

/* The arrival reaches the same barrier of both CTAs. */
void tc_check_collective_commit(struct kern *k, const struct barrier_ref *b)
{
	for (int i = 0; i + 1 < k->cluster_rank; i++)
		if (k->cluster[i] != 1)
			tc_documented(&k->err, COLLECTIVE_COMMIT_CLUSTER, "");
	if (b->barrier->cluster)
		tc_documented(&k->err, COLLECTIVE_COMMIT_BARRIER,
			      tc_arena_printf(&k->arena, "\n  the barrier was made at %s",
					      tc_pos_text(k, b->barrier->pos)));
	if (b->cluster_rank)
		tc_documented(&k->err, PEER_REF, "");
}

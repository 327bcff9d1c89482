/*
 * What the CTAs of a cluster hear of each other: by barriers that arrivals of other CTAs reach, by
 * copies and MMAs that they make together, by who has waited for such and arrives in turn, and by
 * semaphores.  It errs on the side of having heard.
 */
#include "verify.h"

/*
 * Knowledge is a set of sets of cluster axes, a bit each: with bit m, the matter has come true in
 * all CTAs that differ from this one along the axes of m alone.
 */
typedef uint8_t knowledge;
#define EVERYTHING 0xff
#define OWN        1 /* bit 0, no axes: in this CTA */

static knowledge joined(knowledge of, unsigned axes)
{
	knowledge with = 0;

	for (unsigned m = 0; m < 8; m++)
		if (of >> m & 1)
			with |= (knowledge)(1u << (m | axes));
	return with;
}

static knowledge *at_barrier(const struct telling *t, int rank, const struct barrier *b)
{
	return &t->of_barrier[(size_t)rank * (size_t)t->sites->kern->barriers.count +
			      (size_t)b->id];
}

static knowledge *at_site(const struct telling *t, int rank, int site)
{
	return &t->of_site[(size_t)rank * (size_t)t->sites->count + (size_t)site];
}

/* ---- what a role has heard when it gets to a site ------------------------------------------ */

static knowledge hears(const struct telling *t, int rank, const struct site *site)
{
	const struct barrier *b = tc_site_waits(site->op);
	int position[TC_MAX_RANK];

	if (!b && site->op->kind != OP_SEMAPHORE_WAIT)
		return 0;
	tc_position_of(t->sites->kern, rank, position);
	if (tc_presence_at(t->sites->kern, site->op, position) == NEVER)
		return 0;
	return b ? *at_barrier(t, rank, b) : EVERYTHING;
}

/* By waits before it in the text, and by those around the same loop. */
static void hear(const struct telling *t, int rank, const struct role *role)
{
	const struct sites *s = t->sites;
	knowledge before = 0;

	for (int i = 0; i < s->count; i++)
		if (s->item[i].role == role && s->item[i].loop)
			t->of_loop[s->item[i].loop->id] = 0;
	for (int i = 0; i < s->count; i++)
		if (s->item[i].role == role && s->item[i].loop)
			t->of_loop[s->item[i].loop->id] |= hears(t, rank, &s->item[i]);
	for (int i = 0; i < s->count; i++) {
		const struct site *site = &s->item[i];

		if (site->role != role)
			continue;
		*at_site(t, rank, i) = before | (site->loop ? t->of_loop[site->loop->id] : 0);
		before |= hears(t, rank, site);
	}
}

/* ---- what its arrivals tell -------------------------------------------------------------------
 */

static bool add(const struct telling *t, int rank, const struct barrier *b, knowledge more)
{
	knowledge *all = at_barrier(t, rank, b);
	bool changed = more & ~*all;

	*all |= more;
	return changed;
}

static bool add_everywhere(const struct telling *t, const struct barrier *b, knowledge more)
{
	bool changed = false;

	for (int i = 0; i < t->ctas; i++)
		changed = add(t, i, b, more) || changed;
	return changed;
}

/* One that is complete when all CTAs along the axes have made it tells what all of them know. */
static bool tell_together(const struct telling *t, int site, unsigned axes)
{
	const struct barrier *b = tc_site_arrives(t->sites->item[site].op);
	bool changed = false;

	for (int i = 0; i < t->ctas; i++) {
		knowledge all = EVERYTHING;

		for (int j = 0; j < t->ctas; j++)
			if (tc_cluster_reaches(t->sites->kern, i, j, axes))
				all &= *at_site(t, j, site);
		changed = add(t, i, b, joined(all, axes)) || changed;
	}
	return changed;
}

/* An arrival of the tensor core of a pair, which its first CTA makes in both. */
static bool tell_pair(const struct telling *t, int site, int axis)
{
	const struct kern *k = t->sites->kern;
	const struct barrier *b = tc_site_arrives(t->sites->item[site].op);
	bool changed = false;

	if (t->by == BY_MMAS)
		return add_everywhere(t, b, EVERYTHING);
	for (int i = 0; i < t->ctas; i++) {
		int first = i - i / tc_cluster_stride(k, axis) % (int)k->cluster[axis] *
					tc_cluster_stride(k, axis);
		knowledge known = *at_site(t, first, site);

		for (unsigned m = 0; m < 8 && i != first; m++)
			if (!(m >> axis & 1))
				known &= (knowledge) ~(1u << m);
		changed = add(t, i, b, known) || changed;
	}
	return changed;
}

static int pair_axis(const struct op *o)
{
	return o->kind == OP_MMA             ? o->u.mma.collective_axis
	       : o->kind == OP_COMMIT_ARRIVE ? o->u.arrive.collective_axis
					     : -1;
}

static knowledge of_groups(const struct barrier *b, knowledge known)
{
	knowledge all = 0;

	for (int i = 0; i < b->cluster_groups; i++)
		all |= joined(known | OWN, b->cluster_group[i]);
	return all;
}

static bool tell(const struct telling *t, int site)
{
	const struct site *a = &t->sites->item[site];
	const struct op *o = a->op;
	const struct barrier *b = tc_site_arrives(o);
	bool changed = false;

	/* Whose arrivals a peer gets is not known: it may be told of all. */
	if (tc_site_is_remote(o) || (o->kind == OP_TRY_CLUSTER_CANCEL && !t->tells_nothing(t, a)))
		return add_everywhere(t, b, EVERYTHING);
	if (pair_axis(o) >= 0)
		return tell_pair(t, site, pair_axis(o));
	if (o->kind == OP_COPY_GMEM_TO_SMEM && o->u.copy.collective_axes && !t->tells_nothing(t, a))
		changed = tell_together(t, site, o->u.copy.collective_axes);
	for (int i = 0; i < t->ctas; i++) {
		knowledge known = *at_site(t, i, site) | (t->is_origin(t, a) ? OWN : 0);
		int position[TC_MAX_RANK];

		tc_position_of(t->sites->kern, i, position);
		if (tc_presence_at(t->sites->kern, o, position) == NEVER)
			continue;
		changed = (b->cluster ? add_everywhere(t, b, of_groups(b, known))
				      : add(t, i, b, known)) ||
			  changed;
	}
	return changed;
}

/* ---- all ------------------------------------------------------------------------------------ */

void tc_tell(struct telling *t)
{
	struct kern *k = t->sites->kern;
	bool changed = true;

	t->ctas = tc_cluster_size(k, ~0u);
	t->of_barrier = tc_arena_alloc(&k->arena, (size_t)t->ctas * (size_t)k->barriers.count + 1);
	t->of_site = tc_arena_alloc(&k->arena, (size_t)t->ctas * (size_t)t->sites->count + 1);
	t->of_loop = tc_arena_alloc(&k->arena, (size_t)k->op_count + 1);
	while (changed) {
		changed = false;
		for (int i = 0; i < t->ctas; i++)
			for (int j = 0; j < k->roles.count; j++)
				hear(t, i, k->roles.item[j]);
		for (int i = 0; i < t->sites->count; i++)
			if (tc_site_arrives(t->sites->item[i].op))
				changed = tell(t, i) || changed;
	}
}

static bool no_origin(const struct telling *t, const struct site *a)
{
	(void)t;
	(void)a;
	return false;
}

static bool is_copy(const struct telling *t, const struct site *a)
{
	(void)t;
	return a->op->kind == OP_COPY_GMEM_TO_SMEM;
}

struct telling tc_tell_by_arrivals(const struct sites *s, enum informant by)
{
	struct telling t = {.sites = s, .by = by, .is_origin = no_origin, .tells_nothing = is_copy};

	tc_tell(&t);
	return t;
}

bool tc_is_told(const struct telling *t, const struct site *site, int rank, unsigned axes)
{
	const struct kern *k = t->sites->kern;
	knowledge known = *at_site(t, rank, (int)(site - t->sites->item));
	unsigned wide = 0;

	for (int i = 0; i < k->cluster_rank; i++)
		wide |= k->cluster[i] > 1 ? 1u << i : 0;
	for (unsigned m = 0; m < 8; m++)
		if (known >> m & 1 && !(axes & wide & ~m))
			return true;
	return false;
}

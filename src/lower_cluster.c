/*
 * Clusters: which CTAs an operation reaches, addresses in their shared memory, arrivals on their
 * barriers; the cluster's start and end.
 *
 * Lane r of a warp arrives at the CTA of rank r, so that all arrivals of a warp are one
 * instruction.  `.release.cluster` stands only where threads have touched memory with ordinary
 * instructions: in a loop over stages that only the tensor core has read it costs a fifth.
 */
#include <string.h>

#include "compile.h"

/* CTAs along some axes, seen from this one; computed where the role starts. */
struct cluster_set {
	struct cluster_set *next;
	int groups;
	unsigned group[3];
	bool leader;        /* of the CTAs along the axes the first alone */
	struct mopnd mask;  /* bits: ranks */
	struct mreg mask16; /* the same for TMA and commit; no register: not asked for yet */
	struct mreg here;   /* predicate: the lane's number is a rank of the set */
	struct mreg offset; /* from an address here to that in the lane's CTA */
	struct mopnd place; /* of this CTA along the axes, once asked for */
	bool placed;
	struct mreg first; /* leader: predicate, this is that CTA */
	struct mreg smem;  /* leader: the base of its shared memory */
};

static struct mopnd rank_here(struct low *l)
{
	struct mreg d = mi_b32(l);

	mi(l, "mov.u32", R(d), T("%cluster_ctarank"));
	return mo_reg(d);
}

/* This CTA's index along axes, the last one fastest. */
static struct mopnd position(struct low *l, unsigned axes)
{
	static const char *const index[3] = {"%cluster_ctaid.x", "%cluster_ctaid.y",
					     "%cluster_ctaid.z"};
	const struct kern *k = l->c->kern;
	struct mopnd sum = mo_imm(0);

	for (int i = 0; i < k->cluster_rank; i++) {
		struct mreg d;

		if (!(axes >> i & 1) || k->cluster[i] == 1)
			continue;
		d = mi_b32(l);
		mi(l, "mov.u32", R(d), T(index[k->cluster_rank - 1 - i]));
		sum = tc_low_add(l, tc_low_mul(l, sum, k->cluster[i]), mo_reg(d));
	}
	return sum;
}

/* Rank of the first CTA of the line along the axes that this one stands in. */
static struct mopnd first_rank(struct low *l, unsigned axes)
{
	const struct kern *k = l->c->kern;
	struct mopnd rank;

	if (tc_cluster_size(k, axes) == tc_cluster_size(k, ~0u))
		return mo_imm(0);
	rank = rank_here(l);
	for (int i = 0; i < k->cluster_rank; i++)
		if (axes >> i & 1)
			rank = tc_low_add(
				l, rank,
				tc_low_mul(l, position(l, 1u << i), -tc_cluster_stride(k, i)));
	return rank;
}

static struct mopnd line(struct low *l, unsigned axes, bool leader)
{
	uint32_t bits = leader ? 1 : tc_cluster_line(l->c->kern, axes);
	struct mopnd first = first_rank(l, axes);
	struct mreg d;

	if (first.kind == MO_IMM)
		return mo_imm(bits);
	d = mi_b32(l);
	mi(l, "shl.b32", R(d), I(bits), first);
	return mo_reg(d);
}

static struct cluster_set *set_of(struct low *l, const unsigned *group, int groups, bool leader)
{
	struct cluster_set *s = l->cluster_sets;
	struct low_place back;

	while (s && (s->groups != groups || s->leader != leader ||
		     memcmp(s->group, group, (size_t)groups * sizeof(*group)) != 0))
		s = s->next;
	if (s)
		return s;
	s = tc_arena_alloc(l->arena, sizeof(*s));
	s->next = l->cluster_sets;
	l->cluster_sets = s;
	s->groups = groups;
	s->leader = leader;
	memcpy(s->group, group, (size_t)groups * sizeof(*group));
	back = tc_low_at_entry(l);
	s->mask = line(l, group[0], leader);
	for (int i = 1; i < groups; i++) {
		struct mreg d = mi_b32(l);

		mi(l, "or.b32", R(d), s->mask, line(l, group[i], leader));
		s->mask = mo_reg(d);
	}
	tc_low_return(l, back);
	return s;
}

/* ---- what TMA and commit take -------------------------------------------------------------- */

static struct mreg mask16(struct low *l, struct cluster_set *s)
{
	if (!s->mask16.id) {
		struct low_place back = tc_low_at_entry(l);

		s->mask16 = mi_b16(l);
		if (s->mask.kind == MO_IMM)
			mi(l, "mov.b16", R(s->mask16), s->mask);
		else
			mi(l, "cvt.u16.u32", R(s->mask16), s->mask);
		tc_low_return(l, back);
	}
	return s->mask16;
}

struct mreg tc_low_multicast_mask(struct low *l, unsigned axes)
{
	return mask16(l, set_of(l, &axes, 1, false));
}

struct mreg tc_low_barrier_mask(struct low *l, const struct barrier *b)
{
	return mask16(l, set_of(l, b->cluster_group, b->cluster_groups, b->leader_tracked));
}

struct mopnd tc_low_cluster_position(struct low *l, unsigned axes)
{
	struct cluster_set *s = set_of(l, &axes, 1, true);

	if (!s->placed) {
		struct low_place back = tc_low_at_entry(l);

		s->place = position(l, axes);
		s->placed = true;
		tc_low_return(l, back);
	}
	return s->place;
}

/* ---- the first CTA along axes ---------------------------------------------------------------- */

struct mreg tc_low_is_first_cta(struct low *l, unsigned axes)
{
	struct cluster_set *s = set_of(l, &axes, 1, true);

	if (!s->first.id) {
		struct mopnd place = tc_low_cluster_position(l, axes);
		struct low_place back = tc_low_at_entry(l);

		s->first = mi_pred(l);
		mi(l, "setp.eq.u32", R(s->first), place, I(0));
		tc_low_return(l, back);
	}
	return s->first;
}

struct mreg tc_low_first_cta_smem(struct low *l, unsigned axes)
{
	struct cluster_set *s = set_of(l, &axes, 1, true);

	if (!s->smem.id) {
		struct low_place back = tc_low_at_entry(l);

		s->smem = mi_b32(l);
		mi(l, "mapa.shared::cluster.u32", R(s->smem), R(l->c->smem), first_rank(l, axes));
		tc_low_return(l, back);
	}
	return s->smem;
}

/* ---- addresses in another CTA ---------------------------------------------------------------- */

struct mreg tc_low_peer(struct low *l, struct mreg address, const struct val *rank)
{
	struct mreg d = mi_b32(l);

	mi(l, "mapa.shared::cluster.u32", R(d), R(address), tc_low_value(l, rank));
	return d;
}

/* ---- arrivals ----------------------------------------------------------------------------------
 */

static void prepare_lanes(struct low *l, struct cluster_set *s)
{
	struct low_place back;
	struct mreg bit = mi_b32(l);

	if (s->here.id)
		return;
	back = tc_low_at_entry(l);
	s->here = mi_pred(l);
	s->offset = mi_b32(l);
	if (s->mask.kind == MO_IMM && (s->mask.imm & (s->mask.imm + 1)) == 0) {
		mi(l, "setp.lt.u32", R(s->here), R(l->c->lane),
		   I(__builtin_popcount((unsigned)s->mask.imm)));
	} else {
		struct mreg mask = bit;

		if (s->mask.kind == MO_IMM) {
			mask = mi_b32(l);
			mi(l, "mov.b32", R(mask), s->mask);
		} else {
			mask = s->mask.reg;
		}
		mi(l, "shr.u32", R(bit), R(mask), R(l->c->lane));
		mi(l, "and.b32", R(bit), R(bit), I(1));
		mi(l, "setp.ne.u32", R(s->here), R(bit), I(0));
	}
	mi(l, "mov.b32", R(s->offset), I(0));
	mi_if(l, s->here, "mapa.shared::cluster.u32", R(s->offset), R(l->c->smem), R(l->c->lane));
	mi(l, "sub.u32", R(s->offset), R(s->offset), R(l->c->smem));
	tc_low_return(l, back);
}

static const char *arrive_opcode(bool release)
{
	return release ? "mbarrier.arrive.release.cluster.shared::cluster.b64"
		       : "mbarrier.arrive.shared::cluster.b64";
}

void tc_low_cluster_arrive(struct low *l, const struct barrier *b, struct mreg who,
			   struct maddr local, struct mopnd count, bool release)
{
	struct cluster_set *s = set_of(l, b->cluster_group, b->cluster_groups, b->leader_tracked);
	struct mreg p, address = mi_b32(l);

	prepare_lanes(l, s);
	p = s->here;
	if (who.id) {
		p = mi_pred(l);
		mi(l, "and.pred", R(p), R(s->here), R(who));
	}
	mi(l, "add.u32", R(address), R(tc_low_address(l, local)), R(s->offset));
	mi_if(l, p, arrive_opcode(release), T("_"), M((struct maddr){.reg = address}, 0), count);
}

void tc_low_peer_arrive(struct low *l, const struct val *rank, struct mreg who, struct maddr local,
			struct mopnd count)
{
	struct mreg peer = tc_low_peer(l, tc_low_address(l, local), rank);

	mi_if(l, who, arrive_opcode(true), T("_"), M((struct maddr){.reg = peer}, 0), count);
}

/* ---- start and end --------------------------------------------------------------------------- */

void tc_low_cluster_start(struct low *l)
{
	if (!tc_has_cluster(l->c->kern))
		return;
	mi_comment(l, "no CTA signals another before its barriers are there");
	mi_plain(l, "barrier.cluster.arrive.aligned");
	mi_plain(l, "barrier.cluster.wait.aligned");
}

void tc_low_cluster_barrier(struct low *l)
{
	mi_plain(l, "barrier.cluster.arrive");
	mi_plain(l, "barrier.cluster.wait");
}

/*
 * Threads get here one by one: warps without a role at once, leaders last.  Tensor memory that a
 * pair has allocated together was given back behind such a barrier.
 */
void tc_low_cluster_end(struct low *l)
{
	if (!tc_has_cluster(l->c->kern) || l->c->cta_group == 2)
		return;
	mi_comment(l, "no CTA ends while another may reach its shared memory");
	tc_low_cluster_barrier(l);
}

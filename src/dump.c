/* The compiler's tables as text: k:dump and k:info. */
#include <stdio.h>

#include "classes.h"

static const char *const arrival_names[] = {[ARRIVAL_CANCEL] = "try_cluster_cancel",
					    [ARRIVAL_COPY] = "copy",
					    [ARRIVAL_MMA] = "mma",
					    [ARRIVAL_COMMIT] = "commit_arrive",
					    [ARRIVAL_THREADS] = "barrier_arrive",
					    [ARRIVAL_STORE] = "store"};

static void dump_source(struct strbuf *b, const struct arrival_source *s)
{
	const struct op *o = s->op;
	bool tracked = o->kind == OP_COPY_GMEM_TO_SMEM && o->u.copy.leader_tracked;

	tc_printf(b, "    %s at line %d in role %s%s\n", arrival_names[s->kind], o->pos.line,
		  s->role->name, tracked ? ", at the leader" : "");
}

void tc_dump_roles(struct strbuf *b, const struct compilation *c)
{
	tc_printf(b, "roles: %d, %d threads with padding\n", c->role_count, 32 * c->warps);
	for (int i = 0; i < c->role_count; i++) {
		const struct role_plan *r = &c->roles[i];

		tc_printf(b, "  %-12s ", r->name);
		if (r->warps == 1)
			tc_printf(b, "warp %d", r->first_warp);
		else
			tc_printf(b, "warps %d-%d", r->first_warp,
				  r->first_warp + r->warps * r->clones - 1);
		tc_printf(b, ", class %d, clones %d, leader: a lane of warp %d", r->class_id,
			  r->clones, r->first_warp);
		if (r->named_barrier)
			tc_printf(b, ", named barrier %d of %d threads", r->named_barrier,
				  r->threads);
		if (r->class)
			tc_printf(b, ", tensor memory in %d registers of each", r->class->words);
		tc_printf(b, ", phase words %d", r->parity_words);
		if (r->max_registers)
			tc_printf(b, ", registers %d", r->max_registers);
		if (r->scratch_bytes)
			tc_printf(b, ", scratch %lld bytes", (long long)r->scratch_bytes);
		tc_puts(b, "\n");
	}
	tc_printf(b, "barriers: %d\n", c->kern->barriers.count);
	for (int i = 0; i < c->kern->barriers.count; i++) {
		const struct barrier_plan *p = &c->barriers[i];

		tc_printf(b, "  %-12s x %d, count %d (num_arrivals %d x unit %d", p->name,
			  p->barrier->num_barriers, p->init_count, p->barrier->num_arrivals,
			  p->unit);
		if (p->barrier->cluster)
			tc_printf(b, " x %d CTAs%s",
				  tc_cluster_peers(c->kern, p->barrier->cluster_group,
						   p->barrier->cluster_groups),
				  p->barrier->leader_tracked ? ", at the first" : "");
		tc_puts(b,
			p->elided ? "), no mbarrier: the class waits for its own MMAs\n" : ")\n");
		for (int j = 0; j < p->source_count; j++)
			dump_source(b, &p->sources[j]);
	}
}

static void dump_alloc(struct strbuf *b, const struct alloc *a)
{
	struct smem_layout s;
	char number[32];

	snprintf(number, sizeof(number), "%s%d", a->space == SP_SMEM ? "smem" : "tmem", a->id);
	tc_printf(b, "    %-12s ", a->name ? a->name : number);
	if (a->space == SP_SMEM) {
		tc_smem_layout(a, &s);
		tc_printf(b, "%7lld  %7lld bytes  ", (long long)a->offset, (long long)s.bytes);
	} else {
		tc_printf(b, "%7lld  %7d columns  ", (long long)a->offset, a->columns);
	}
	tc_puts(b, tc_dtypes[a->dtype].name);
	tc_puts(b, " ");
	tc_print_shape(b, a->shape, a->rank);
	if (a->space == SP_SMEM && a->swizzle)
		tc_printf(b, ", swizzle %d%s", a->swizzle, a->atom_32 ? " by 32" : "");
	if (a->alias)
		tc_printf(b, ", member %d of union %d", a->alias_member, a->alias->id);
	tc_puts(b, "\n");
}

void tc_dump_place(struct strbuf *b, const struct compilation *c)
{
	tc_printf(b, "SMEM: %lld of %lld bytes\n", (long long)c->smem_bytes,
		  (long long)c->target->smem_limit);
	for (int i = 0; i < c->kern->allocs.count; i++)
		if (((struct alloc *)c->kern->allocs.item[i])->space == SP_SMEM)
			dump_alloc(b, c->kern->allocs.item[i]);
	for (int i = 0; i < c->role_count; i++)
		if (c->roles[i].scratch_bytes)
			tc_printf(b, "    %-12s %7lld  %7lld bytes  of role %s\n", "scratch",
				  (long long)c->roles[i].scratch_offset,
				  (long long)c->roles[i].scratch_bytes, c->roles[i].name);
	for (int i = 0; i < c->kern->barriers.count; i++)
		tc_printf(b, "    %-12s %7lld  %7d bytes  barriers\n", c->barriers[i].name,
			  (long long)c->barriers[i].barrier->offset,
			  8 * c->barriers[i].barrier->num_barriers);
	if (!c->uses_tmem)
		return;
	tc_printf(b, "TMEM: %d columns allocated\n", c->tmem_columns);
	for (int i = 0; i < c->kern->allocs.count; i++)
		if (((struct alloc *)c->kern->allocs.item[i])->space == SP_TMEM)
			dump_alloc(b, c->kern->allocs.item[i]);
}

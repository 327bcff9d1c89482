/* What reports call memory, barriers and warps: their names, lines, and who arrives on what. */
#include "compile.h"

#define MAX_ARRIVERS 8 /* named in one note */

static struct program_symbol *add(struct compilation *c, char space, int64_t address, int64_t size,
				  struct srcpos pos)
{
	struct program *p = c->program;
	struct program_symbol *s = &p->symbols[p->symbol_count++];

	*s = (struct program_symbol){.space = space,
				     .address = (uint32_t)address,
				     .size = (uint32_t)size,
				     .line = (uint32_t)pos.line};
	if (pos.file)
		s->file = tc_arena_strdup(c->arena, pos.file);
	return s;
}

static void add_alloc(struct compilation *c, const struct alloc *a)
{
	struct program_symbol *s;
	struct smem_layout layout;

	if (a->space == SP_SMEM) {
		tc_smem_layout(a, &layout);
		s = add(c, 's', a->offset, layout.bytes, a->pos);
	} else {
		s = add(c, 't', a->offset, a->columns, a->pos);
	}
	s->name = a->name ? tc_arena_strdup(c->arena, a->name)
			  : tc_arena_printf(c->arena, "%s%d", a->space == SP_SMEM ? "smem" : "tmem",
					    a->id);
}

/* The user's names of the roles that run as this program; NULL where no role was made. */
static const char *role_name(struct compilation *c, const struct role_plan *r)
{
	const char *name = NULL;

	for (int i = 0; i < c->kern->roles.count; i++) {
		const struct role *role = c->kern->roles.item[i];

		if (!tc_plan_runs(r, role) || role->implicit)
			continue;
		name = name ? tc_arena_printf(c->arena, "%s, %s", name, role->name)
			    : tc_arena_strdup(c->arena, role->name);
	}
	return name;
}

/* ---- barriers ---------------------------------------------------------------------------- */

static const char *arriver(struct compilation *c, const struct arrival_source *source)
{
	static const char *const calls[] = {[ARRIVAL_COPY] = "tc.copy_gmem_to_smem",
					    [ARRIVAL_MMA] = "tc.mma",
					    [ARRIVAL_COMMIT] = "tc.commit_arrive",
					    [ARRIVAL_THREADS] = "tc.barrier_arrive",
					    [ARRIVAL_STORE] = "ref:store",
					    [ARRIVAL_CANCEL] = "tc.try_cluster_cancel"};
	const char *role = role_name(c, source->role);
	struct srcpos pos = source->op->pos;
	const char *place =
		pos.file ? tc_arena_printf(c->arena, " at %s:%d", pos.file, pos.line) : "";

	return role ? tc_arena_printf(c->arena, "role '%s' by %s%s", role, calls[source->kind],
				      place)
		    : tc_arena_printf(c->arena, "%s%s", calls[source->kind], place);
}

static bool said_before(const struct barrier_plan *b, int i)
{
	for (int j = 0; j < i; j++)
		if (b->sources[j].role == b->sources[i].role &&
		    b->sources[j].kind == b->sources[i].kind &&
		    b->sources[j].op->pos.line == b->sources[i].op->pos.line &&
		    b->sources[j].op->pos.file == b->sources[i].op->pos.file)
			return true;
	return false;
}

static const char *arrivers(struct compilation *c, const struct barrier_plan *b)
{
	const char *note = NULL;
	int count = 0;

	for (int i = 0; i < b->source_count; i++) {
		if (said_before(b, i) || ++count > MAX_ARRIVERS)
			continue;
		note = note ? tc_arena_printf(c->arena, "%s, %s", note, arriver(c, &b->sources[i]))
			    : arriver(c, &b->sources[i]);
	}
	return count > MAX_ARRIVERS
		       ? tc_arena_printf(c->arena, "%s and %d more", note, count - MAX_ARRIVERS)
		       : note;
}

static void add_barrier(struct compilation *c, const struct barrier_plan *plan)
{
	const struct barrier *b = plan->barrier;
	struct program_symbol *s = add(c, 'b', b->offset, 8 * (int64_t)b->num_barriers, b->pos);

	s->name = b->name ? tc_arena_strdup(c->arena, b->name) : plan->name;
	s->note = arrivers(c, plan);
}

/* ---- all ------------------------------------------------------------------------------------ */

void tc_program_symbols(struct compilation *c)
{
	const struct kern *k = c->kern;
	int most = k->allocs.count + k->barriers.count + c->role_count;

	c->program->symbols =
		tc_arena_alloc(c->arena, sizeof(*c->program->symbols) * (size_t)(most + 1));
	for (int i = 0; i < k->allocs.count; i++) {
		const struct alloc *a = k->allocs.item[i];

		if (a->space != SP_GMEM)
			add_alloc(c, a);
	}
	for (int i = 0; i < k->barriers.count; i++)
		add_barrier(c, &c->barriers[i]);
	for (int i = 0; i < c->role_count; i++) {
		const struct role_plan *r = &c->roles[i];
		const char *name = role_name(c, r);

		if (name)
			add(c, 'w', r->first_warp, (int64_t)r->warps * r->clones,
			    (struct srcpos){0})
				->name = name;
	}
}

/*
 * Which roles run as one program (docs/semantics.md 8): those that write or read the same
 * tensor memory.  The rules are in class_legal.c, what follows from the merged
 * order in class_flow.c.
 */
#include "classes.h"

#include <string.h>

/* ---- what ops do with tensor memory ------------------------------------------------- */

static const struct ref *nth(const struct ref *const *refs, int count, int n)
{
	for (int i = 0; i < count; i++) {
		if (!refs[i] || refs[i]->alloc->space != SP_TMEM)
			continue;
		if (n-- == 0)
			return refs[i];
	}
	return NULL;
}

const struct ref *tc_class_access(const struct op *op, int n, bool *writes)
{
	const struct mma_op *m = &op->u.mma;
	const struct ref *mma[] = {m->acc, m->a, m->a_scale, m->b_scale, m->a_sparse_metadata};

	*writes = false;
	switch (op->kind) {
	case OP_MMA:
		*writes = n == 0;
		return nth(mma, 5, n);
	case OP_ASYNC_LOAD_TMEM:
		return n ? NULL : op->u.load.ref;
	case OP_ASYNC_STORE_TMEM:
		*writes = true;
		return n ? NULL : op->u.store.ref;
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
		*writes = true;
		return n ? NULL : op->u.tmem_copy.dst;
	default:
		return NULL;
	}
}

struct virtual_tmem *tc_class_tmem(struct class_plan *class, const struct alloc *a)
{
	for (int i = 0; i < class->tmem_count; i++)
		if (class->tmem[i].alloc == a)
			return &class->tmem[i];
	return NULL;
}

static void walk(const struct compilation *c, const struct class_plan *class, const struct scope *s,
		 void (*fn)(void *arg, const struct op *op), void *arg)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];
		int n = tc_op_bodies(o, body);

		if (o->kind == OP_ROLE && !(class->members >> o->u.role.role->id & 1))
			continue;
		fn(arg, o);
		for (int i = 0; i < n; i++)
			walk(c, class, body[i], fn, arg);
	}
}

void tc_class_walk(const struct compilation *c, const struct class_plan *class,
		   void (*fn)(void *arg, const struct op *op), void *arg)
{
	walk(c, class, c->kern->root, fn, arg);
}

/* ---- closure ---------------------------------------------------------------------------- */

struct closure {
	struct compilation *c;
	int *parent;              /* by role id */
	const struct role **user; /* by alloc id: a role that uses it */
	bool *touches;            /* by role id */
};

static int find(struct closure *x, int i)
{
	while (x->parent[i] != i)
		i = x->parent[i] = x->parent[x->parent[i]];
	return i;
}

static void use(struct closure *x, const struct alloc *a, const struct role *r)
{
	x->touches[r->id] = true;
	if (x->user[a->id])
		x->parent[find(x, r->id)] = find(x, x->user[a->id]->id);
	x->user[a->id] = r;
}

static void use_in_scope(struct closure *x, const struct scope *s)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];
		const struct ref *r;
		int n = tc_op_bodies(o, body);
		bool writes;

		for (int i = 0; i < n; i++)
			use_in_scope(x, body[i]);
		for (int i = 0; (r = tc_class_access(o, i, &writes)); i++)
			use(x, r->alloc, tc_op_role(x->c, o));
	}
}

/* Members of a union share storage. */
static void use_aliases(struct closure *x)
{
	const struct ptrvec *allocs = &x->c->kern->allocs;

	for (int i = 0; i < allocs->count; i++)
		for (int j = 0; j < i; j++) {
			const struct alloc *a = allocs->item[i], *b = allocs->item[j];

			if (a->alias && a->alias == b->alias && x->user[a->id] && x->user[b->id])
				x->parent[find(x, x->user[a->id]->id)] =
					find(x, x->user[b->id]->id);
		}
}

static struct class_plan *new_class(struct compilation *c)
{
	const struct kern *k = c->kern;
	struct class_plan *p = tc_arena_alloc(c->arena, sizeof *p);

	p->state = tc_arena_alloc(c->arena, (size_t)k->op_count + 1);
	p->copied = tc_arena_alloc(c->arena, sizeof(bool) * (size_t)(k->op_count + 1));
	p->rows_cut = tc_arena_alloc(c->arena, sizeof(bool) * (size_t)(k->allocs.count + 1));
	p->tmem = tc_arena_alloc(c->arena, sizeof *p->tmem * (size_t)(k->allocs.count + 1));
	return p;
}

static void add_tmem(struct closure *x, struct class_plan *p, const struct alloc *a)
{
	struct arena *arena = x->c->arena;
	struct virtual_tmem *v = &p->tmem[p->tmem_count++];

	v->alloc = a;
	v->slots = 1;
	for (int i = 0; i < a->rank - 2; i++)
		v->slots *= (int)a->shape[i].size;
	v->words = (int)(a->shape[a->rank - 1].size * tc_dtypes[a->dtype].bits / 64);
	v->used = tc_arena_alloc(arena, sizeof(bool) * (size_t)(v->slots + 1));
	v->reg = tc_arena_alloc(arena, sizeof *v->reg * (size_t)(v->slots + 1));
}

static void add_tmems(struct closure *x)
{
	const struct ptrvec *allocs = &x->c->kern->allocs;

	for (int i = 0; i < allocs->count; i++) {
		const struct alloc *a = allocs->item[i];

		if (a->space == SP_TMEM && x->user[a->id])
			add_tmem(x, x->c->class_of[x->user[a->id]->id], a);
	}
}

void tc_wgmma_classes(struct compilation *c)
{
	const struct kern *k = c->kern;
	size_t roles = (size_t)k->roles.count + 1;
	struct closure x = {.c = c};

	c->class_of = tc_arena_alloc(c->arena, sizeof(void *) * roles);
	c->elided = tc_arena_alloc(c->arena, sizeof(bool) * (size_t)(k->barriers.count + 1));
	x.parent = tc_arena_alloc(c->arena, sizeof(int) * roles);
	x.touches = tc_arena_alloc(c->arena, sizeof(bool) * roles);
	x.user = tc_arena_alloc(c->arena, sizeof(void *) * (size_t)(k->allocs.count + 1));
	for (int i = 0; i < k->roles.count; i++)
		x.parent[i] = i;
	use_in_scope(&x, k->root);
	use_aliases(&x);
	for (int i = 0; i < k->roles.count; i++) {
		int root = find(&x, i);

		if (!x.touches[i])
			continue;
		if (!c->class_of[root])
			c->class_of[root] = new_class(c);
		c->class_of[i] = c->class_of[root];
		c->class_of[i]->members |= UINT32_C(1) << i;
	}
	add_tmems(&x);
	for (int i = 0; i < k->roles.count; i++) {
		struct class_plan *p = c->class_of[i];

		if (!p || (p->members & ((UINT32_C(1) << i) - 1)))
			continue;
		tc_class_check(c, p);
		tc_class_flow(c, p);
	}
}

bool tc_low_rows_cut(const struct low *l, const struct ref *r)
{
	const struct class_plan *p = l->role->class;

	return p && p->clones > 1 && p->rows_cut[r->alloc->id];
}

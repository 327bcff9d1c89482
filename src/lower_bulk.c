/*
 * Whether a kernel can tell that a bulk store has been written, not only read from
 * SMEM.  The end of the grid waits for the rest, so a wait of a kernel that cannot
 * tell may be the shorter one.
 */
#include "compile.h"

struct seen {
	bool *read, *copied; /* by argument */
	bool told;           /* a thread could say so to somebody */
};

static void look(struct seen *n, const struct ref *r, bool *set)
{
	if (r->alloc->space == SP_GMEM && set)
		set[r->alloc->id] = true;
	else if (r->alloc->space == SP_GMEM)
		n->told = true;
}

static void look_at_scope(struct seen *n, const struct scope *s)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];

		for (int i = tc_op_bodies(o, body) - 1; i >= 0; i--)
			look_at_scope(n, body[i]);
		switch (o->kind) {
		case OP_COPY_GMEM_TO_SMEM:
			look(n, o->u.copy.src, n->read);
			break;
		case OP_COPY_SMEM_TO_GMEM:
			look(n, o->u.copy.dst, n->copied);
			break;
		case OP_LOAD:
			look(n, o->u.load.ref, n->read);
			break;
		case OP_LOAD_SCALAR:
			look(n, o->u.load_scalar.ref, n->read);
			break;
		case OP_STORE:
			look(n, o->u.store.ref, NULL);
			break;
		case OP_STORE_SCALAR:
			look(n, o->u.store_scalar.ref, NULL);
			break;
		case OP_COMMIT_GMEM:
			n->told = true;
			break;
		default:
			break;
		}
	}
}

bool tc_low_writes_seen(struct low *l)
{
	const struct kern *k = l->c->kern;
	struct seen n = {.told = false};
	size_t size = (size_t)k->arg_count + 1;

	n.read = tc_arena_alloc(l->arena, size);
	n.copied = tc_arena_alloc(l->arena, size);
	look_at_scope(&n, k->root);
	for (int i = 0; i < k->arg_count; i++)
		n.told |= n.read[i] && n.copied[i];
	return n.told;
}

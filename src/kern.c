/*
 * The recorded kernel: its scope tree, its objects, and taking back what a
 * failed call or callback has recorded.
 */
#include "tc.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------- */

static struct scope *new_scope(struct kern *k, enum scope_kind kind, struct op *owner,
			       struct role *role)
{
	struct scope *s = tc_arena_alloc(&k->arena, sizeof *s);

	s->kind = kind;
	s->parent = k->current;
	s->depth = s->parent ? s->parent->depth + 1 : 0;
	s->owner = owner;
	s->role = role ? role : s->parent ? s->parent->role : NULL;
	return s;
}

struct new_kern {
	struct kern *kern;
	const char *name;
};

static void fill(void *arg)
{
	struct new_kern *n = arg;
	struct kern *k = n->kern;

	k->name = tc_arena_strdup(&k->arena, n->name);
	k->root = k->current = new_scope(k, SC_ROOT, NULL, NULL);
}

struct kern *tc_kern_new(const char *name)
{
	struct kern *k = calloc(1, sizeof *k);
	struct new_kern n = {k, name};

	if (k && !tc_protect(&k->err, fill, &n)) {
		tc_kern_free(k);
		k = NULL;
	}
	return k;
}

void tc_kern_free(struct kern *k)
{
	if (!k)
		return;
	tc_arena_free(&k->arena);
	free(k);
}

void tc_ptrvec_add(struct kern *k, struct ptrvec *v, void *item)
{
	if (v->count == v->capacity) {
		int capacity = v->capacity ? 2 * v->capacity : 8;
		void **grown = tc_arena_alloc(&k->arena, (size_t)capacity * sizeof *grown);

		if (v->count)
			memcpy(grown, v->item, (size_t)v->count * sizeof *grown);
		v->item = grown;
		v->capacity = capacity;
	}
	v->item[v->count++] = item;
}

const char *tc_pos_text(struct kern *k, struct srcpos pos)
{
	if (!pos.file)
		return "an unknown line";
	if (strcmp(pos.file, TC_PROMPT) == 0)
		return "the prompt";
	if (k->err.pos.file && strcmp(pos.file, k->err.pos.file) == 0)
		return tc_arena_printf(&k->arena, "line %d", pos.line);
	return tc_arena_printf(&k->arena, "%s:%d", pos.file, pos.line);
}

/* ---- scopes -------------------------------------------------------------- */

#define MAX_DEPTH 64 /* nested scopes: the passes recurse over them */

struct op *tc_kern_append(struct kern *k, enum op_kind kind)
{
	struct scope *s = k->current;
	struct op *o = tc_arena_alloc(&k->arena, sizeof *o);

	o->kind = kind;
	o->id = k->op_count++;
	o->pos = k->err.pos;
	o->scope = s;
	if (s->last)
		s->last->next = o;
	else
		s->first = o;
	s->last = o;
	s->count++;
	return o;
}

struct scope *tc_kern_open(struct kern *k, enum scope_kind kind, struct op *owner,
			   struct role *role)
{
	if (k->current->depth >= MAX_DEPTH)
		tc_fail(&k->err, "control flow is nested more than %d deep", MAX_DEPTH);
	return k->current = new_scope(k, kind, owner, role);
}

void tc_kern_close(struct kern *k)
{
	k->current->closed = true;
	k->current = k->current->parent;
}

bool tc_scope_encloses(const struct scope *outer, const struct scope *inner)
{
	while (inner && inner->depth > outer->depth)
		inner = inner->parent;
	return inner == outer;
}

struct role *tc_kern_role(struct kern *k)
{
	return k->current->role ? k->current->role : k->implicit_role;
}

void tc_kern_finish(struct kern *k)
{
	if (!k->roles.count) {
		struct role role = {
			.name = "main", .warps = 4, .warpgroups = true, .implicit = true};

		role.pos = k->pos;
		k->implicit_role = tc_kern_add_role(k, &role);
	}
	k->finished = true;
}

/* ---- allocations, barriers, roles ---------------------------------------- */

struct alloc *tc_kern_alloc(struct kern *k, const struct alloc *draft, bool packed_given,
			    bool layout_given, bool collective_given)
{
	struct alloc *a = tc_arena_alloc(&k->arena, sizeof *a);

	*a = *draft;
	a->id = k->allocs.count;
	a->pos = k->err.pos;
	a->alias_member = -1;
	tc_check_alloc(k, a, packed_given, layout_given, collective_given);
	if (a->name)
		a->name = tc_arena_strdup(&k->arena, a->name);
	tc_ptrvec_add(k, &k->allocs, a);
	return a;
}

struct barrier *tc_kern_barrier(struct kern *k, const struct barrier *draft)
{
	struct barrier *b = tc_arena_alloc(&k->arena, sizeof *b);

	*b = *draft;
	b->id = k->barriers.count;
	b->pos = k->err.pos;
	tc_check_barrier(k, b);
	if (b->name)
		b->name = tc_arena_strdup(&k->arena, b->name);
	tc_ptrvec_add(k, &k->barriers, b);
	return b;
}

#define MAX_WARPS 32 /* 1024 threads a block */

/* The outermost loop that the role would be made in and that has the operation; NULL: none. */
static const struct op *common_loop(const struct scope *s, const struct op *op)
{
	const struct op *loop = NULL;

	for (; s; s = s->parent) {
		const struct scope *other = op->scope;

		while (other && other != s)
			other = other->parent;
		if (other && (s->kind == SC_RANGE || s->kind == SC_LOOP))
			loop = s->owner;
	}
	return loop;
}

static void refuse_late_role(struct kern *k)
{
	const struct op *loop = common_loop(k->current, k->roleless_op);
	struct strbuf b = {.arena = &k->arena};
	const char *text;

	if (loop)
		tc_fail(&k->err,
			"tc.role in a loop (%s) that operations of a kernel without roles stand in "
			"already.\n"
			"Make the roles before the loop, and give them their code inside: "
			"role(function() ... end).",
			tc_pos_text(k, loop->pos));
	tc_print_op(&b, k, k->roleless_op);
	text = tc_arena_strdup(&k->arena, b.text);
	tc_strbuf_free(&b);
	tc_fail(&k->err,
		"this kernel has no roles: '%s' at %s stands outside every role block.\n"
		"Make the roles first and put that operation into one of them.",
		text, tc_pos_text(k, k->roleless_op->pos));
}

static void check_role(struct kern *k, const struct role *draft)
{
	int groups = 0, warps = 0;

	if (k->current->role)
		tc_fail(&k->err,
			"tc.role inside the block of role '%s' (%s): roles are made in shared code",
			k->current->role->name, tc_pos_text(k, k->current->role->pos));
	if (k->roleless_op)
		refuse_late_role(k);
	if (k->roles.count == TC_MAX_ROLES)
		tc_fail(&k->err, "a kernel has at most %d roles", TC_MAX_ROLES);
	for (int i = 0; i <= k->roles.count; i++) {
		const struct role *r = i < k->roles.count ? k->roles.item[i] : draft;

		if (r != draft && strcmp(r->name, draft->name) == 0)
			tc_fail(&k->err, "there is a role '%s' already (%s)", r->name,
				tc_pos_text(k, r->pos));
		*(r->warpgroups ? &groups : &warps) += r->warps;
	}
	if (groups + (warps + 3) / 4 * 4 > MAX_WARPS)
		tc_documented(
			&k->err, TOO_MANY_THREADS,
			tc_arena_printf(
				&k->arena,
				"\n  with role '%s' the roles have %d warpgroups and %d single "
				"warps, padded to %d threads; a block has at most %d",
				draft->name, groups / 4, warps, 32 * (groups + (warps + 3) / 4 * 4),
				32 * MAX_WARPS),
			tc_integer_text(k, groups / 4 + (warps + 3) / 4));
}

struct role *tc_kern_add_role(struct kern *k, const struct role *draft)
{
	struct role *r;

	if (!draft->implicit)
		check_role(k, draft);
	r = tc_arena_alloc(&k->arena, sizeof *r);
	*r = *draft;
	r->id = k->roles.count;
	r->name = tc_arena_strdup(&k->arena, draft->name);
	if (!draft->implicit)
		r->pos = k->err.pos;
	tc_ptrvec_add(k, &k->roles, r);
	return r;
}

struct alias_set *tc_kern_union(struct kern *k, struct ref ***members, const int *counts,
				int member_count)
{
	int total = 0;

	for (int i = 0; i < member_count; i++)
		total += counts[i];

	struct ref **all = tc_arena_alloc(&k->arena, (size_t)total * sizeof(struct ref *));

	for (int i = 0, n = 0; i < member_count; i++)
		for (int j = 0; j < counts[i]; j++)
			all[n++] = members[i][j];
	for (int i = 0; i < total; i++) {
		struct alloc *a = all[i]->alloc;

		tc_ref_usable(k, all[i]);
		for (int j = 0; j < i; j++)
			if (all[j]->alloc == a)
				tc_fail(&k->err, "the union names one allocation twice:\n%s",
					tc_ref_text(k, all[i]));
	}
	tc_check_alias(k, all, total);

	struct alias_set *set = tc_arena_alloc(&k->arena, sizeof *set);

	set->id = k->aliases.count;
	set->member_count = member_count;
	set->space = all[0]->alloc->space;
	for (int i = 0; i < member_count; i++) {
		for (int j = 0; j < counts[i]; j++) {
			members[i][j]->alloc->alias = set;
			members[i][j]->alloc->alias_member = i;
		}
	}
	tc_ptrvec_add(k, &k->aliases, set);
	return set;
}

int tc_kern_cluster_axis(const struct kern *k, const char *name)
{
	for (int i = 0; i < k->cluster_rank; i++)
		if (k->cluster_names[i] && strcmp(k->cluster_names[i], name) == 0)
			return i;
	return -1;
}

unsigned tc_kern_axes(struct kern *k, const char *const *names, int count)
{
	const char *list = "[";
	unsigned axes = 0;

	for (int i = 0; i < k->cluster_rank; i++)
		list = tc_arena_printf(&k->arena, "%s%s'%s'", list, i ? ", " : "",
				       k->cluster_names[i] ? k->cluster_names[i] : "");
	list = tc_arena_printf(&k->arena, "%s]", list);
	for (int i = 0; i < count; i++) {
		int axis = tc_kern_cluster_axis(k, names[i]);

		if (axis < 0)
			tc_documented(&k->err, UNKNOWN_CLUSTER_AXIS, "", names[i], list);
		axes |= 1u << axis;
	}
	return axes;
}

/* ---- marks --------------------------------------------------------------- */

void tc_kern_mark(const struct kern *k, struct kern_mark *m)
{
	m->scope = k->current;
	m->last = k->current->last;
	m->count = k->current->count;
	m->roleless_op = k->roleless_op;
	m->implicit_role = k->implicit_role;
	m->op_count = k->op_count;
	m->allocs = k->allocs.count;
	m->barriers = k->barriers.count;
	m->roles = k->roles.count;
	m->vars = k->vars.count;
	m->aliases = k->aliases.count;
	m->promises = k->promises.count;
}

/* Owners of vars and register limits follow from the ops that are left. */
static void derive(struct kern *k, const struct scope *s)
{
	uint32_t reader = 0;

	for (const struct op *o = s->first; o; o = o->next) {
		struct var *v = o->u.var.var;

		switch (o->kind) {
		case OP_VAR_SET:
			v->owner = s->role;
			v->set_in_shared = !s->role;
			break;
		case OP_VAR_GET:
			reader = s->role ? 2u << s->role->id : 1u;
			v->read_by |= reader;
			break;
		case OP_SET_MAX_REGISTERS:
			if (s->role || k->implicit_role)
				(s->role ? s->role : k->implicit_role)->max_registers =
					o->u.registers.count;
			break;
		case OP_RANGE:
			derive(k, o->u.range.body);
			break;
		case OP_LOOP:
			derive(k, o->u.loop.body);
			break;
		case OP_WHEN:
			derive(k, o->u.when.then);
			if (o->u.when.otherwise)
				derive(k, o->u.when.otherwise);
			break;
		case OP_ROLE:
			derive(k, o->u.role.body);
			break;
		default:
			break;
		}
	}
}

/* What kept a promise may be among the ops that are taken back. */
static void rollback_promises(struct kern *k, const struct kern_mark *m)
{
	k->promises.count = m->promises;
	for (int i = 0; i < m->promises; i++) {
		struct promise *p = k->promises.item[i];

		if (p->kept_at > m->op_count)
			p->kept_at = -1;
	}
}

void tc_kern_rollback(struct kern *k, const struct kern_mark *m)
{
	struct scope *s = m->scope;

	if (k->current == s && k->op_count == m->op_count && k->allocs.count == m->allocs &&
	    k->barriers.count == m->barriers && k->roles.count == m->roles &&
	    k->vars.count == m->vars && k->aliases.count == m->aliases &&
	    k->promises.count == m->promises)
		return;
	while (k->current != s)
		tc_kern_close(k);
	s->last = m->last;
	s->count = m->count;
	if (s->last)
		s->last->next = NULL;
	else
		s->first = NULL;
	k->roleless_op = m->roleless_op;
	k->implicit_role = m->implicit_role;
	k->op_count = m->op_count;
	k->allocs.count = m->allocs;
	k->barriers.count = m->barriers;
	k->roles.count = m->roles;
	k->vars.count = m->vars;
	k->aliases.count = m->aliases;
	rollback_promises(k, m);
	for (int i = 0; i < k->allocs.count; i++) {
		struct alloc *a = k->allocs.item[i];

		if (a->alias && a->alias->id >= m->aliases) {
			a->alias = NULL;
			a->alias_member = -1;
		}
	}
	for (int i = 0; i < k->roles.count; i++)
		((struct role *)k->roles.item[i])->max_registers = 0;
	for (int i = 0; i < k->vars.count; i++) {
		struct var *v = k->vars.item[i];

		v->owner = NULL;
		v->set_in_shared = false;
		v->read_by = 0;
	}
	derive(k, k->root);
}

/* ---- promises ------------------------------------------------------------ */

struct promise *tc_kern_promise(struct kern *k, int id, const char *const *text)
{
	struct promise *p = tc_arena_alloc(&k->arena, sizeof *p);

	p->id = id;
	for (int i = 0; text[i]; i++)
		p->text[i] = tc_arena_strdup(&k->arena, text[i]);
	p->pos = k->err.pos;
	p->kept_at = -1;
	tc_ptrvec_add(k, &k->promises, p);
	return p;
}

void tc_kern_keep(struct kern *k, struct promise *p)
{
	if (p->kept_at < 0)
		p->kept_at = k->op_count;
}

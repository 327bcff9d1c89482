/*
 * Where everything lies: SMEM (allocations by falling alignment, barriers, the
 * TMEM slot, scratch), TMEM columns, and the CUDA grid.
 */
#include "compile.h"

bool tc_grid_folded(const struct kern *k)
{
	if (k->grid_rank > 3)
		return true;
	for (int i = 0; i + 1 < k->grid_rank; i++)
		if (k->grid[i] > 65535)
			return true;
	return false;
}

static int64_t align(int64_t offset, int64_t alignment)
{
	return (offset + alignment - 1) / alignment * alignment;
}

/* ---- SMEM ------------------------------------------------------------------------------------ */

static struct alloc *alloc_at(const struct compilation *c, int i)
{
	return c->kern->allocs.item[i];
}

static int64_t alignment_of(const struct alloc *a)
{
	struct smem_layout s;

	tc_smem_layout(a, &s);
	return s.alignment;
}

/* A union takes the space of its largest member, aligned as any of it wants. */
static int64_t place_union(struct compilation *c, const struct alias_set *set, int64_t base)
{
	int64_t end = base, alignment = 128;

	for (int i = 0; i < c->kern->allocs.count; i++)
		if (alloc_at(c, i)->alias == set && alignment_of(alloc_at(c, i)) > alignment)
			alignment = alignment_of(alloc_at(c, i));
	base = align(base, alignment);
	for (int member = 0; member < set->member_count; member++) {
		int64_t offset = base;

		for (int i = 0; i < c->kern->allocs.count; i++) {
			struct alloc *a = alloc_at(c, i);
			struct smem_layout s;

			if (a->alias != set || a->alias_member != member)
				continue;
			tc_smem_layout(a, &s);
			offset = align(offset, s.alignment);
			a->offset = offset;
			offset += s.bytes;
		}
		end = offset > end ? offset : end;
	}
	return end;
}

static void place_smem(struct compilation *c)
{
	static const int64_t order[] = {1024, 512, 256, 128};
	int64_t offset = 0;

	for (int i = 0; i < c->kern->aliases.count; i++) {
		const struct alias_set *set = c->kern->aliases.item[i];

		if (set->space == SP_SMEM)
			offset = place_union(c, set, offset);
	}
	for (int pass = 0; pass < 4; pass++)
		for (int i = 0; i < c->kern->allocs.count; i++) {
			struct alloc *a = alloc_at(c, i);
			struct smem_layout s;

			if (a->space != SP_SMEM || a->alias)
				continue;
			tc_smem_layout(a, &s);
			if (s.alignment != order[pass])
				continue;
			a->offset = align(offset, s.alignment);
			offset = a->offset + s.bytes;
		}
	for (int i = 0; i < c->role_count; i++) {
		struct role_plan *r = &c->roles[i];

		if (!r->scratch_bytes)
			continue;
		r->scratch_offset = align(offset, 128);
		offset = r->scratch_offset + r->scratch_bytes;
	}
	for (int i = 0; i < c->kern->barriers.count; i++) {
		struct barrier *b = c->kern->barriers.item[i];

		b->offset = align(offset, 8);
		offset = b->offset + 8 * b->num_barriers;
	}
	if (c->uses_tmem) {
		c->tmem_slot = align(offset, 8);
		offset = c->tmem_slot + 8;
	}
	c->smem_bytes = offset;
	if (offset > c->target->smem_limit)
		tc_verify_smem(c->kern, c->target, offset);
}

/* ---- TMEM -------------------------------------------------------------------------------------
 */

static int64_t columns_of(const struct alloc *a)
{
	return align(a->columns, 8);
}

int64_t tc_union_column(const struct kern *k, const struct alloc *a)
{
	int64_t column = 0;

	for (int i = 0; a->alias && k->allocs.item[i] != a; i++) {
		const struct alloc *other = k->allocs.item[i];

		if (other->alias == a->alias && other->alias_member == a->alias_member)
			column += columns_of(other);
	}
	return column;
}

static int64_t place_tmem_union(struct compilation *c, const struct alias_set *set, int64_t base)
{
	int64_t end = base;

	for (int i = 0; i < c->kern->allocs.count; i++) {
		struct alloc *a = alloc_at(c, i);

		if (a->alias != set)
			continue;
		a->offset = base + tc_union_column(c->kern, a);
		if (a->offset + columns_of(a) > end)
			end = a->offset + columns_of(a);
	}
	return end;
}

static void place_tmem(struct compilation *c)
{
	int64_t column = 0;

	for (int i = 0; i < c->kern->aliases.count; i++) {
		const struct alias_set *set = c->kern->aliases.item[i];

		if (set->space == SP_TMEM)
			column = place_tmem_union(c, set, column);
	}
	for (int i = 0; i < c->kern->allocs.count; i++) {
		struct alloc *a = alloc_at(c, i);

		if (a->space != SP_TMEM || a->alias)
			continue;
		a->offset = column;
		column += columns_of(a);
	}
	if (!c->uses_tmem)
		return;
	c->tmem_columns = 32;
	while (c->tmem_columns < column)
		c->tmem_columns *= 2;
	if (c->tmem_columns > c->target->tmem_columns)
		tc_fail_at(c->err, c->kern->pos,
			   "the kernel needs %lld columns of tensor memory; %s has %d",
			   (long long)column, c->target->name, c->target->tmem_columns);
}

void tc_place(struct compilation *c)
{
	place_smem(c);
	place_tmem(c);
	tc_program_symbols(c);
}

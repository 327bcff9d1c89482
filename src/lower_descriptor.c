/*
 * Operands of MMAs in SMEM, under 64-bit descriptors (docs/isa.md 3): high word constant, low
 * word the address; steps are added to the whole.  The targets differ in constant bits alone.
 */
#include "frag.h"

enum {
	LBO_UNUSED = 16,
	STRIDE_LARGEST = 0x3fff
};

/*
 * Strides: between groups of 8 rows, 4 with atoms of 32 bytes, and between panels.  The former is
 * that of the high word, and the latter, where panels are stepped through at all, that of the low
 * one; without swizzle an operand of the other order exchanges them.
 */
static void strides(const struct smem_operand *o, int64_t *high, int64_t *low)
{
	const struct smem_layout *s = &o->layout;
	int64_t group = (s->xor_shift == 5 ? 4 : 8) * s->row_bytes;
	bool exchanged = !s->swizzle && !o->k_major;

	*high = exchanged ? s->panel_bytes : group;
	*low = exchanged ? group : s->panel_bytes;
	if (s->swizzle && o->k_major)
		*low = LBO_UNUSED;
}

/* The stride, the swizzle's code, and what the target wants set. */
static uint32_t high_word(const struct target *t, const struct smem_layout *s, int64_t stride)
{
	/* In bits 61 to 63; only tcgen05 has the odd one. */
	uint32_t code = s->xor_shift == 5   ? 1
			: s->swizzle == 128 ? 2
			: s->swizzle == 64  ? 4
			: s->swizzle == 32  ? 6
					    : 0;

	return (uint32_t)(stride >> 4) | code << 29 | t->ops->descriptor_bits;
}

/* In a cluster the high bits of an address say whose it is; a descriptor has no place for them. */
static void start_address(struct low *l, struct mreg low, struct mreg address)
{
	if (tc_has_cluster(l->c->kern))
		mi(l, "bfe.u32", R(low), R(address), I(4), I(14));
	else
		mi(l, "shr.u32", R(low), R(address), I(4));
}

static int64_t linear(const struct smem_operand *o, int64_t mn, int64_t k)
{
	return o->k_major ? tc_smem_linear(&o->layout, mn, k) : tc_smem_linear(&o->layout, k, mn);
}

struct base_key {
	const struct alloc *alloc;
	int64_t clone_bytes;
	uint64_t lbo;
};

/* Low word of the allocation's first byte, with the clone's rows: made at the role's entry. */
static struct mreg base(struct low *l, const struct alloc *a, uint32_t lbo, struct mreg clone,
			int64_t clone_bytes)
{
	struct base_key key = {a, clone.id ? clone_bytes : -1, lbo};
	struct mreg *r = tc_entry_register(l, &key, sizeof key);
	struct low_place place;
	struct mreg address;

	if (r->id)
		return *r;
	place = tc_low_at_entry(l);
	address = tc_low_address(l, (struct maddr){.sym = {SYM_SMEM, a}});
	*r = mi_b32(l);
	start_address(l, *r, address);
	if (lbo)
		mi(l, "or.b32", R(*r), R(*r), mo_hex(lbo << 16));
	if (clone.id)
		mi(l, "mad.lo.u32", R(*r), R(clone), I(clone_bytes >> 4), R(*r));
	tc_low_return(l, place);
	return *r;
}

/* Offset of the view's first element in units of 16 bytes. */
static struct mopnd first_offset(struct low *l, const struct ref *r, const struct smem_layout *s)
{
	const struct alloc *a = r->alloc;
	struct mopnd sum = mo_imm(0), panel;

	for (int i = 0; i < a->rank - 2; i++)
		sum = tc_low_add(l, tc_low_mul(l, sum, a->shape[i].size),
				 tc_low_value(l, r->start[i]));
	sum = tc_low_mul(l, sum, s->tile_bytes >> 4);
	sum = tc_low_add(l, sum,
			 tc_low_mul(l, tc_low_value(l, r->start[a->rank - 2]), s->row_bytes >> 4));
	panel = tc_low_udiv(l, tc_low_value(l, r->start[a->rank - 1]), s->panel_columns);
	return tc_low_add(l, sum, tc_low_mul(l, panel, s->panel_bytes >> 4));
}

void tc_low_smem_operand(struct low *l, struct smem_operand *o, const struct ref *r,
			 int k_dimension, struct mreg clone)
{
	int64_t high_stride, low_stride;
	struct mreg low, high;
	struct mopnd offset;

	tc_smem_layout(r->alloc, &o->layout);
	o->k_major = r->axis[k_dimension] == r->alloc->rank - 1;
	strides(o, &high_stride, &low_stride);
	if (high_stride >> 4 > STRIDE_LARGEST || low_stride >> 4 > STRIDE_LARGEST)
		tc_low_fail(l,
			    "the operand's panels are %lld bytes apart, more than a descriptor "
			    "can say (262128)",
			    (long long)o->layout.panel_bytes);
	low = base(l, r->alloc, (uint32_t)(low_stride >> 4), clone, linear(o, 64, 0));
	offset = first_offset(l, r, &o->layout);
	low = tc_low_add(l, offset, mo_reg(low)).reg;
	high = mi_b32(l);
	o->descriptor = mi_b64(l);
	mi(l, "mov.b32", R(high), mo_hex(high_word(l->c->target, &o->layout, high_stride)));
	mi(l, "mov.b64", R(o->descriptor), V(((struct mreg[]){low, high}), 2));
}

struct mreg tc_low_operand_at(struct low *l, const struct smem_operand *o, int64_t mn, int64_t k)
{
	int64_t bytes = linear(o, mn, k);
	struct mreg d;

	if (!bytes)
		return o->descriptor;
	d = mi_b64(l);
	mi(l, "add.s64", R(d), R(o->descriptor), I(bytes >> 4));
	return d;
}

/* Enable-input-d of tcgen05, scale-d of wgmma. */
struct mopnd tc_low_accumulate(struct low *l, const struct mma_op *o)
{
	int64_t constant;

	if (o->accumulate_const)
		return mo_imm(o->accumulate_value);
	if (!o->accumulate)
		return mo_imm(1);
	if (tc_val_is_const(o->accumulate, &constant))
		return mo_imm(constant != 0);
	return mo_reg(tc_low_pred(l, o->accumulate));
}

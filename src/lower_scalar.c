/* Variables and single elements of GMEM and SMEM. */
#include <string.h>

#include "check_atomic.h"
#include "compile.h"
#include "tile.h"

/* ---- variables --------------------------------------------------------------------------- */

static struct mreg *variable(struct low *l, const struct var *v)
{
	if (!l->vars)
		l->vars = tc_arena_alloc(l->arena,
					 sizeof(*l->vars) * (size_t)(l->c->kern->vars.count + 1));
	return &l->vars[v->id];
}

static void move(struct low *l, struct mreg d, const struct val *v)
{
	struct mopnd s = tc_low_value(l, v);

	if (d.type == MR_PRED)
		mi(l, "mov.pred", R(d), R(tc_low_pred(l, v)));
	else
		mi(l, d.type == MR_F32 ? "mov.f32" : "mov.b32", R(d), s);
}

static struct mreg new_register(struct low *l, enum val_type t)
{
	return t == VT_PRED ? mi_pred(l) : t == VT_F32 ? mi_f32(l) : mi_b32(l);
}

void tc_lower_var(struct low *l, const struct op *op)
{
	const struct var *v = op->u.var.var;
	struct mreg *r, d;

	if (v->frag) {
		tc_lower_frag_var(l, op);
		return;
	}
	tc_low_all(l);
	r = variable(l, v);
	if (op->kind == OP_VAR_NEW && !r->id)
		*r = new_register(l, v->type);
	if (op->kind == OP_VAR_GET) {
		d = new_register(l, v->type);
		mi(l,
		   v->type == VT_PRED  ? "mov.pred"
		   : v->type == VT_F32 ? "mov.f32"
				       : "mov.b32",
		   R(d), R(*r));
		tc_low_define(l, op->u.var.value, d);
		return;
	}
	move(l, *r, op->kind == OP_VAR_NEW ? v->init : op->u.var.value);
}

/* ---- elements ---------------------------------------------------------------------------------
 */

/* How an element becomes an s32 or f32, and back. */
static const struct element {
	enum dtype dtype;
	const char *type; /* of the memory instruction */
	enum mreg_type reg;
	const char *widen, *narrow; /* NULL: it is the value's register */
} elements[] = {
	{DT_F32, "f32", MR_F32, NULL, NULL},
	{DT_F64, "f64", MR_F64, "cvt.rn.f32.f64", "cvt.f64.f32"},
	{DT_F16, "b16", MR_B16, "cvt.f32.f16", "cvt.rn.f16.f32"},
	{DT_BF16, "b16", MR_B16, "cvt.f32.bf16", "cvt.rn.bf16.f32"},
	{DT_TF32, "f32", MR_F32, NULL, NULL},
	{DT_I32, "b32", MR_B32, NULL, NULL},
	{DT_U32, "b32", MR_B32, NULL, NULL},
	{DT_I16, "s16", MR_B16, "cvt.s32.s16", "cvt.u16.u32"},
	{DT_U16, "u16", MR_B16, "cvt.u32.u16", "cvt.u16.u32"},
	{DT_I8, "s8", MR_B16, "cvt.s32.s8", "cvt.u16.u32"},
	{DT_U8, "u8", MR_B16, "cvt.u32.u8", "cvt.u16.u32"},
	{DT_I4, "u8", MR_B16, "cvt.u32.u8", NULL}, /* with its neighbour */
	{DT_U4, "u8", MR_B16, "cvt.u32.u8", NULL},
	{DT_BOOL, "u8", MR_B16, "cvt.u32.u8", "cvt.u16.u32"},
	{DT_I64, "s64", MR_B64, "cvt.s32.s64", "cvt.s64.s32"},
	{DT_U64, "u64", MR_B64, "cvt.u32.u64", "cvt.s64.s32"},
};

static const struct element *element_of(struct low *l, enum dtype t)
{
	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++)
		if (elements[i].dtype == t)
			return &elements[i];
	tc_low_fail(l, "a single element of %s cannot be loaded or stored as a scalar",
		    tc_dtypes[t].name);
}

/* Swizzle of an address that is only known at run time: a ^ ((a >> 7 & mask) << shift). */
static struct mreg swizzled(struct low *l, struct mreg a, const struct smem_layout *s)
{
	struct mreg x, d;

	if (!s->xor_mask)
		return a;
	x = mi_b32(l);
	d = mi_b32(l);
	mi(l, "shr.u32", R(x), R(a), I(7 - s->xor_shift));
	mi(l, "and.b32", R(x), R(x), I(s->xor_mask << s->xor_shift));
	mi(l, "xor.b32", R(d), R(a), R(x));
	return d;
}

static struct maddr smem_element(struct low *l, const struct ref *r)
{
	struct smem_view v;
	struct mopnd panel, inside, sum;
	struct maddr a;
	int bytes;

	tc_low_smem_view(l, r, &v);
	if (v.layout.bits == 4) {
		v.column = tc_low_udiv(l, v.column, 2);
		v.layout.panel_columns /= 2;
		v.layout.bits = 8;
	}
	bytes = v.layout.bits / 8;
	a = v.tile;
	if (v.row.kind == MO_IMM && v.column.kind == MO_IMM && a.reg.id == 0) {
		a.offset +=
			tc_smem_xor(&v.layout, tc_smem_linear(&v.layout, v.row.imm, v.column.imm));
		return a;
	}
	panel = v.layout.panels > 1 ? tc_low_udiv(l, v.column, v.layout.panel_columns) : mo_imm(0);
	inside = tc_low_add(l, v.column, tc_low_mul(l, panel, -v.layout.panel_columns));
	sum = tc_low_add(l, tc_low_mul(l, panel, v.layout.panel_bytes),
			 tc_low_mul(l, v.row, v.layout.row_bytes));
	sum = tc_low_add(l, sum, tc_low_mul(l, inside, bytes));
	sum = tc_low_add(l, sum, mo_reg(tc_low_address(l, a)));
	return (struct maddr){.reg = swizzled(l, sum.reg, &v.layout)};
}

static struct maddr element_address(struct low *l, const struct ref *r, const char **space)
{
	if (r->alloc->space == SP_TMEM)
		tc_low_fail(l, "a single element of TMEM cannot be loaded or stored");
	*space = r->alloc->space == SP_GMEM ? "global"
		 : r->cluster_rank          ? "shared::cluster"
					    : "shared";
	if (r->alloc->space == SP_GMEM)
		return (struct maddr){.reg = tc_low_gmem_address(l, r)};
	return smem_element(l, r);
}

/* Predicate that a GMEM element lies in the array; no register if it surely does. */
static struct mreg in_bounds(struct low *l, const struct ref *r)
{
	struct mreg all = {0};

	if (r->alloc->space != SP_GMEM)
		return all;
	for (int i = 0; i < r->alloc->rank; i++) {
		struct interval at = tc_low_interval(l, r->start[i]);
		struct mopnd limit = tc_low_dim(l, &r->alloc->shape[i]);
		struct mreg p;

		if (limit.kind == MO_IMM && at.low >= 0 && at.high < limit.imm)
			continue;
		p = mi_pred(l);
		if (all.id)
			mi(l, "setp.lt.and.u32", R(p), R(tc_low_register(l, r->start[i])), limit,
			   R(all));
		else
			mi(l, "setp.lt.u32", R(p), R(tc_low_register(l, r->start[i])), limit);
		all = p;
	}
	return all;
}

/* One of the two elements of a byte. */
static struct mreg half_byte(struct low *l, const struct ref *r, struct mreg byte)
{
	enum dtype t = r->alloc->dtype;
	struct mopnd place =
		tc_low_mul(l, tc_low_and(l, tc_low_value(l, r->start[r->alloc->rank - 1]), 1), 4);
	struct mreg d = mi_b32(l);

	mi(l, t == DT_I4 ? "bfe.s32" : "bfe.u32", R(d), R(byte), place, I(4));
	return d;
}

/* Zero, what an element outside of its array is. */
static void clear(struct low *l, struct mreg r)
{
	mi(l,
	   r.type == MR_B16   ? "mov.b16"
	   : r.type == MR_B64 ? "mov.b64"
	   : r.type == MR_F64 ? "mov.f64"
	   : r.type == MR_F32 ? "mov.f32"
			      : "mov.b32",
	   R(r),
	   r.type == MR_F32   ? mo_f32(0)
	   : r.type == MR_F64 ? T("0d0000000000000000")
			      : mo_imm(0));
}

/* The element as the s32 or f32 that a recorded scalar is. */
static struct mreg widened(struct low *l, const struct element *e, struct mreg raw, bool real)
{
	struct mreg d;

	if (!e->widen)
		return raw;
	d = real ? mi_f32(l) : mi_b32(l);
	mi(l, e->widen, R(d), R(raw));
	return d;
}

void tc_lower_load_scalar(struct low *l, const struct op *op)
{
	const struct load_scalar_op *o = &op->u.load_scalar;
	const struct element *e = element_of(l, o->ref->alloc->dtype);
	const char *space;
	struct mreg raw, d, inside;
	struct maddr a;
	struct minst *m;

	tc_low_all(l);
	a = element_address(l, o->ref, &space);
	inside = in_bounds(l, o->ref);
	raw = mi_reg(l, e->reg);
	if (inside.id)
		clear(l, raw);
	m = mi(l, tc_arena_printf(l->arena, "ld.%s.%s", space, e->type), R(raw), M(a, 0));
	if (inside.id)
		mi_guard(m, inside, false);
	d = widened(l, e, raw, o->result->type == VT_F32);
	if (tc_dtypes[e->dtype].bits == 4)
		d = half_byte(l, o->ref, d);
	if (o->result->type == VT_PRED) {
		struct mreg p = mi_pred(l);

		mi(l, "setp.ne.s32", R(p), R(d), I(0));
		d = p;
	}
	tc_low_define(l, o->result, d);
}

/* Register with the stored bits; bool and predicates become 0 or 1. */
static struct mreg narrowed(struct low *l, const struct element *e, const struct val *v)
{
	bool real = tc_dtypes[e->dtype].klass == 'F';
	struct mreg s, d;

	if (v->type == VT_PRED) {
		s = mi_b32(l);
		mi(l, "selp.b32", R(s), I(1), I(0), R(tc_low_pred(l, v)));
	} else {
		s = tc_low_register(l, v);
	}
	if (real != (s.type == MR_F32)) {
		d = real ? mi_f32(l) : mi_b32(l);
		mi(l, real ? "cvt.rn.f32.s32" : "cvt.rzi.s32.f32", R(d), R(s));
		s = d;
	}
	if (!e->narrow)
		return s;
	d = mi_reg(l, e->reg);
	mi(l, e->narrow, R(d), R(s));
	return d;
}

/* From the leader to the role, through scratch that a barrier has freed. */
static void tell_role(struct low *l, struct val *result, struct mreg x)
{
	struct maddr at = tc_low_scratch(l, 4);
	struct mreg d = new_register(l, result->type);

	at.reg = l->c->smem;
	mi(l, "st.shared.b32", M(at, 0), R(x));
	tc_low_all(l);
	tc_low_class_barrier(l);
	mi(l, "ld.shared.b32", R(d), M(at, 0));
	tc_low_define(l, result, d);
}

/* One lane of the role stores, or updates. */
void tc_lower_store_scalar(struct low *l, const struct op *op)
{
	const struct store_scalar_op *o = &op->u.store_scalar;
	const struct element *e = element_of(l, o->ref->alloc->dtype);
	const char *space, *opcode;
	struct mreg s, inside, old = {0};
	struct maddr a;
	struct minst *m;

	/* Other lanes and warps of the role may still read the old value, or read it next. */
	tc_low_class_barrier(l);
	tc_low_first_leader(l);
	s = narrowed(l, e, o->value);
	a = element_address(l, o->ref, &space);
	inside = in_bounds(l, o->ref);
	opcode = o->atomic ? tc_atomic_opcode(l, o->atomic, o->result ? "atom" : "red", space,
					      e->dtype, e->reg != MR_B16)
			   : tc_arena_printf(l->arena, "st.%s.%s", space, e->type);
	if (o->result)
		old = mi_reg(l, e->reg);
	if (o->result && inside.id)
		clear(l, old);
	m = o->result ? mi(l, opcode, R(old), M(a, 0), R(s)) : mi(l, opcode, M(a, 0), R(s));
	if (inside.id)
		mi_guard(m, inside, false);
	if (o->result) {
		tell_role(l, o->result, widened(l, e, old, o->result->type == VT_F32));
		return;
	}
	tc_low_all(l);
	if (l->role->warps > 1)
		tc_low_class_barrier(l);
}

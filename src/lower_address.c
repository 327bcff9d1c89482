/* Addresses: parameters, GMEM, views of SMEM and of TMEM. */
#include <ctype.h>
#include <string.h>

#include "compile.h"

const char *tc_ptx_identifier(struct low *l, const char *name)
{
	char *text = tc_arena_strdup(l->arena, name);

	for (char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_')
			*p = '_';
	return text;
}

/* ---- parameters ------------------------------------------------------------------------ */

static const char *arg_name(struct low *l, int arg)
{
	const struct alloc *a = l->c->kern->args[arg]->alloc;

	if (a->name)
		return tc_arena_printf(l->arena, "arg_%s", tc_ptx_identifier(l, a->name));
	return tc_arena_printf(l->arena, "arg%d", arg);
}

static const char *unique_name(struct low *l, const char *base)
{
	const char *name = base;

	for (int n = 2, i = 0; i < l->c->params.count; i++) {
		if (strcmp(((struct param_slot *)l->c->params.item[i])->name, name) == 0) {
			name = tc_arena_printf(l->arena, "%s_%d", base, n++);
			i = -1;
		}
	}
	return name;
}

static bool same_map(const struct param *a, const struct param *b)
{
	if (a->arg != b->arg || a->rank != b->rank || a->swizzle != b->swizzle ||
	    a->atom_32 != b->atom_32 || a->per_element != b->per_element ||
	    a->tma_type != b->tma_type)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->axis[i] != b->axis[i] || a->collapsed[i] != b->collapsed[i] ||
		    a->box[i] != b->box[i])
			return false;
	return true;
}

/* Code that all roles share goes before everything else. */
static struct mreg load_param(struct low *l, struct param_slot *s)
{
	struct minst **at = l->at;
	const char *memory = tc_arena_printf(l->arena, "[%s]", s->name);
	const struct op *op = l->op;
	int depth = l->depth;

	l->at = l->c->kernel_at;
	l->op = NULL;
	l->depth = 0;
	if (s->param.kind == PARAM_DIM) {
		s->reg = mi_named(l, MR_B32, "%s", s->name);
		mi(l, "ld.param.u32", R(s->reg), T(memory));
	} else if (s->param.kind == PARAM_PROFILE) {
		/* A null pointer stays one: the conversion to .global changes no address. */
		s->reg = mi_named(l, MR_B64, "%s", s->name);
		mi(l, "ld.param.u64", R(s->reg), T(memory));
	} else if (s->param.kind == PARAM_POINTER) {
		s->reg = mi_named(l, MR_B64, "%s", s->name);
		mi(l, "ld.param.u64", R(s->reg), T(memory));
		mi(l, "cvta.to.global.u64", R(s->reg), R(s->reg));
	} else {
		s->reg = mi_named(l, MR_B64, "%s", s->name);
		mi(l, "mov.b64", R(s->reg), T(s->name));
		mi(l, "cvta.param.u64", R(s->reg), R(s->reg));
	}
	l->c->kernel_at = l->at;
	l->at = at;
	l->op = op;
	l->depth = depth;
	return s->reg;
}

static struct mreg param(struct low *l, const struct param *p, const char *name)
{
	struct param_slot *s;

	for (int i = 0; i < l->c->params.count; i++) {
		s = l->c->params.item[i];
		if (s->param.kind == p->kind &&
		    (p->kind == PARAM_TENSORMAP ? same_map(&s->param, p) : s->param.arg == p->arg))
			return s->reg;
	}
	s = tc_arena_alloc(l->arena, sizeof(*s));
	s->param = *p;
	s->name = unique_name(l, name);
	mi_add_param(l, s);
	return load_param(l, s);
}

struct mreg tc_low_dim_param(struct low *l, int number)
{
	struct param p = {.kind = PARAM_DIM, .arg = number};
	const char *name = tc_ptx_identifier(l, l->c->kern->dim_names[number]);

	return param(l, &p, tc_arena_printf(l->arena, "dim_%s", name));
}

static struct mreg pointer(struct low *l, const struct alloc *gmem)
{
	struct param p = {.kind = PARAM_POINTER, .arg = gmem->id};

	return param(l, &p, arg_name(l, gmem->id));
}

struct mreg tc_low_profile_buffer(struct low *l)
{
	struct param p = {.kind = PARAM_PROFILE};

	return param(l, &p, "profile");
}

struct mreg tc_low_tensormap(struct low *l, const struct param *p)
{
	return param(l, p, tc_arena_printf(l->arena, "%s_map", arg_name(l, p->arg)));
}

/* ---- GMEM: arrays are dense, the last axis is contiguous ---------------------------------- */

static struct mopnd stride_of(struct low *l, const struct alloc *a, int axis)
{
	struct mopnd stride = mo_imm(1);

	for (int i = a->rank - 1; i > axis; i--) {
		struct mopnd d = tc_low_dim(l, &a->shape[i]);

		if (d.kind == MO_REG)
			d = tc_low_wide(l, d, mo_imm(1));
		stride = tc_low_mul64(l, stride, d);
	}
	return stride;
}

struct mopnd tc_low_gmem_step(struct low *l, const struct alloc *a, int axis)
{
	int bits = tc_dtypes[a->dtype].bits, last = a->rank - 1;
	struct mopnd bytes;

	if (bits >= 8)
		return tc_low_mul64(l, stride_of(l, a, axis), mo_imm(bits / 8));
	if (axis == last)
		return mo_imm(1);
	bytes = mo_imm(a->shape[last].size * bits / 8);
	for (int i = last - 1; i > axis; i--) {
		struct mopnd d = tc_low_dim(l, &a->shape[i]);

		if (d.kind == MO_REG)
			d = tc_low_wide(l, d, mo_imm(1));
		bytes = tc_low_mul64(l, bytes, d);
	}
	return bytes;
}

struct mreg tc_low_gmem_address(struct low *l, const struct ref *r)
{
	const struct alloc *a = r->alloc;
	struct mopnd offset = mo_imm(0);

	for (int i = 0; i < a->rank; i++) {
		struct mopnd start = tc_low_value(l, r->start[i]);

		if (i == a->rank - 1 && tc_dtypes[a->dtype].bits == 4)
			start = tc_low_shift_right(l, start, 1);
		offset = tc_low_add64(l, offset, tc_low_wide(l, start, tc_low_gmem_step(l, a, i)));
	}
	return tc_low_add64(l, mo_reg(pointer(l, a)), offset).reg;
}

/* ---- SMEM ------------------------------------------------------------------------------------ */

/* base + sum of indices times bytes; constants go into the offset. */
static struct maddr indexed(struct low *l, struct msym sym, struct mreg base, struct mopnd index,
			    int64_t scale)
{
	struct maddr a = {.sym = sym};

	if (index.kind == MO_IMM) {
		a.offset = index.imm * scale;
		return a;
	}
	a.reg = tc_low_add(l, tc_low_mul(l, index, scale), mo_reg(base)).reg;
	return a;
}

/* Sum of start * stride over the first `count` axes, in elements of that many axes. */
static struct mopnd leading_index(struct low *l, const struct ref *r, int count)
{
	struct mopnd sum = mo_imm(0);

	for (int i = 0; i < count; i++) {
		int64_t stride = 1;

		for (int j = i + 1; j < count; j++)
			stride *= r->alloc->shape[j].size;
		sum = tc_low_add(l, sum, tc_low_mul(l, tc_low_value(l, r->start[i]), stride));
	}
	return sum;
}

void tc_low_smem_view(struct low *l, const struct ref *r, struct smem_view *v)
{
	const struct alloc *a = r->alloc;
	int rank = a->rank;
	struct msym sym = {SYM_SMEM, a};
	struct mreg base = l->c->smem;

	memset(v, 0, sizeof(*v));
	tc_smem_layout(a, &v->layout);
	v->rows = v->columns = 1;
	v->row = v->column = mo_imm(0);
	if (rank >= 1) {
		v->column = tc_low_value(l, r->start[rank - 1]);
		v->columns = r->extent[rank - 1].size;
	}
	if (rank >= 2) {
		v->row = tc_low_value(l, r->start[rank - 2]);
		v->rows = r->extent[rank - 2].size;
	}
	v->transposed = r->rank >= 2 && r->axis[r->rank - 1] < r->axis[r->rank - 2];
	if (r->cluster_rank)
		base = tc_low_peer(l, base, r->cluster_rank);
	v->tile = indexed(l, sym, base, leading_index(l, r, rank - 2), v->layout.tile_bytes);
	if (r->cluster_rank && !v->tile.reg.id)
		v->tile.reg = base;
}

struct maddr tc_low_smem_at(struct low *l, const struct smem_view *v, struct mopnd offset)
{
	struct maddr at = v->tile;

	if (offset.kind == MO_IMM)
		at.offset += offset.imm;
	else
		at.reg = tc_low_add(l, offset, mo_reg(at.reg.id ? at.reg : l->c->smem)).reg;
	return at;
}

/* ---- TMEM --------------------------------------------------------------------------------------
 */

static struct maddr tmem_view(struct low *l, const struct ref *r, struct mreg base)
{
	const struct alloc *a = r->alloc;
	int rank = a->rank, packing = a->packing ? a->packing : 1;
	int64_t rows = a->shape[rank - 2].size;
	int64_t per_slot = tc_tmem_columns(a, rows, a->shape[rank - 1].size);
	struct msym sym = {SYM_TMEM, a};
	struct mopnd column, slot = tc_low_mul(l, leading_index(l, r, rank - 2), per_slot);
	struct maddr m;
	int64_t row;

	/* Starts are multiples of what the layout puts into one column, or one group of them. */
	column = tc_low_udiv(l, tc_low_value(l, r->start[rank - 1]), packing);
	column = tc_low_mul(l, column, tc_tmem_columns(a, rows, packing));
	m = indexed(l, sym, base, tc_low_add(l, slot, column), 1);
	if (!tc_val_is_const(r->start[rank - 2], &row))
		tc_low_fail(l, "the first row of a TMEM slice must be a constant");
	m.offset += row << 16;
	if (!m.reg.id)
		m.reg = base;
	return m;
}

struct maddr tc_low_tmem_view(struct low *l, const struct ref *r)
{
	return tmem_view(l, r, l->c->tmem);
}

struct maddr tc_low_tmem_window(struct low *l, const struct ref *r)
{
	if (!l->window.id) {
		struct low_place back = tc_low_at_entry(l);
		struct mreg w = mi_b32(l);

		l->window = mi_named(l, MR_B32, "tmem_%s", l->role->name);
		mi(l, "and.b32", R(w), R(l->c->warp), I(3));
		mi(l, "shl.b32", R(w), R(w), I(21));
		mi(l, "add.s32", R(l->window), R(l->c->tmem), R(w));
		tc_low_return(l, back);
	}
	return tmem_view(l, r, l->window);
}

struct mreg tc_low_address(struct low *l, struct maddr a)
{
	struct mreg base = a.reg.id                 ? a.reg
			   : a.sym.kind == SYM_TMEM ? l->c->tmem
			   : a.sym.kind != SYM_NONE ? l->c->smem
						    : a.reg;
	struct mreg d;

	if (a.sym.kind == SYM_NONE)
		return tc_low_add(l, mo_reg(base), mo_imm(a.offset)).reg;
	d = mi_b32(l);
	mi(l, "add.s32", R(d), R(base), mo_offset(a.sym, a.offset));
	return d;
}

struct maddr tc_low_scratch(struct low *l, int64_t bytes)
{
	if (l->role->scratch_bytes < bytes)
		l->role->scratch_bytes = bytes;
	return (struct maddr){.sym = {SYM_SCRATCH, l->role}};
}

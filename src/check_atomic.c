/* Atomic updates of memory from registers: which exist, and for what. */
#include "check_atomic.h"

#include "frag.h"
#include "tile.h"

const struct atomic_update tc_atomic_updates[] = {
	[ATOMIC_ADD] = {"atomic_add", "add", .f32 = true, .half = true, .half_smem = true},
	[ATOMIC_MAX] = {"atomic_max", "max", .half = true, .is_signed = true},
	[ATOMIC_MIN] = {"atomic_min", "min", .half = true, .is_signed = true},
	[ATOMIC_AND] = {"atomic_and", "and", .is_bitwise = true},
	[ATOMIC_OR] = {"atomic_or", "or", .is_bitwise = true},
	[ATOMIC_XOR] = {"atomic_xor", "xor", .is_bitwise = true},
};

static bool is_half(enum dtype t)
{
	return t == DT_F16 || t == DT_BF16;
}

int tc_atomic_least(const struct atomic_update *u, enum dtype t)
{
	return is_half(t) && u->is_signed ? 2 : 1;
}

int tc_atomic_most(enum space space, enum dtype t)
{
	if (is_half(t))
		return space == SP_GMEM ? 8 : 2;
	return space == SP_GMEM && t == DT_F32 ? 4 : 1;
}

static void check_update(struct kern *k, const struct atomic_update *u, const struct ref *r)
{
	enum dtype t = r->alloc->dtype;

	if (r->alloc->space == SP_TMEM)
		tc_documented(&k->err, ATOMIC_SPACE, "", u->name, tc_ref_text(k, r));
	if (t == DT_F32 && !u->f32)
		tc_documented(&k->err, ATOMIC_F32, tc_got(k, "the ref", r), u->name);
	if (is_half(t) && !u->half)
		tc_documented(&k->err, ATOMIC_HALF, tc_got(k, "the ref", r), u->name);
	if (is_half(t) && r->alloc->space == SP_SMEM && !u->half_smem)
		tc_documented(&k->err, ATOMIC_HALF_SMEM, tc_got(k, "the ref", r), u->name);
	if (t != DT_F32 && !is_half(t) && t != DT_I32 && t != DT_U32)
		tc_documented(&k->err, ATOMIC_TYPE, tc_got(k, "the ref", r), tc_dtypes[t].name);
}

/* Neighbours in memory that surely lie in one aligned vector. */
static int vector_of(const struct ref *r)
{
	int axis, vector = tc_ref_vector(r, &axis);

	return tc_power_of_two_in(r->shape[axis].size, vector);
}

void tc_check_atomic(struct kern *k, struct store_op *s)
{
	const struct atomic_update *u = s->atomic;
	const struct ref *r = s->ref;
	enum dtype t = r->alloc->dtype;
	int vector;

	check_update(k, u, r);
	if (!tc_fragment_fits(s->value, r))
		tc_documented(&k->err, ATOMIC_SHAPE, tc_got(k, "the ref", r), u->name,
			      tc_shape_text(k, r), tc_fragment_shape_text(k, s->value));
	if (s->value->dtype != t)
		tc_documented(&k->err, ATOMIC_DTYPE, tc_got(k, "the ref", r), u->name,
			      tc_dtypes[t].name, tc_dtypes[s->value->dtype].name);
	vector = vector_of(r);
	if (vector < tc_atomic_least(u, t))
		tc_documented(&k->err, ATOMIC_EVEN, tc_got(k, "the ref", r),
			      tc_integer_text(k, vector));
}

void tc_check_atomic_scalar(struct kern *k, struct store_scalar_op *s)
{
	check_update(k, s->atomic, s->ref);
	if (tc_atomic_least(s->atomic, s->ref->alloc->dtype) > 1)
		tc_documented(&k->err, ATOMIC_EVEN, tc_got(k, "the ref", s->ref), "1");
}

/* Atomic updates of memory: tc.atomic_add and the like. */
#include "check_atomic.h"
#include "lua_tc.h"

struct updating {
	const struct atomic_update *update;
	struct ref *ref;
	struct lua_value value;
	bool old;
	struct val *result; /* what the element was, if `old` */
};

static void record_element(struct kern *k, struct updating *a)
{
	struct op draft = {.kind = OP_ATOMIC_SCALAR};

	if (a->value.frag)
		tc_documented(&k->err, ATOMIC_SHAPE, tc_got(k, "the ref", a->ref), a->update->name,
			      tc_shape_text(k, a->ref), tc_fragment_shape_text(k, a->value.frag));
	draft.u.store_scalar.ref = a->ref;
	draft.u.store_scalar.value = tc_element_value(k, &a->value, a->ref->alloc->dtype);
	draft.u.store_scalar.atomic = a->update;
	if (a->old)
		draft.u.store_scalar.result = tc_val_leaf(
			k, VAL_OP, tc_dtypes[a->ref->alloc->dtype].klass == 'F' ? VT_F32 : VT_S32);
	a->result = tc_kern_record(k, &draft)->u.store_scalar.result;
}

static void record_update(struct kern *k, void *arg)
{
	struct updating *a = arg;
	struct op draft = {.kind = OP_ATOMIC};
	int shape[2];

	if (a->ref->alloc->space == SP_TMEM)
		tc_documented(&k->err, ATOMIC_SPACE, "", a->update->name, tc_ref_text(k, a->ref));
	if (a->ref->rank == 0) {
		record_element(k, a);
		return;
	}
	if (a->old)
		tc_documented(&k->err, ATOMIC_OLD, tc_got(k, "the ref", a->ref),
			      tc_shape_text(k, a->ref));
	tc_fragment_shape(k, a->ref, shape);
	draft.u.store.ref = a->ref;
	draft.u.store.value = a->value.frag;
	draft.u.store.atomic = a->update;
	tc_check_place(k, &draft);
	if (!a->value.frag)
		draft.u.store.value = tc_frag_full(k, tc_value_node(k, &a->value),
						   a->ref->alloc->dtype, a->ref->rank, shape);
	tc_kern_record(k, &draft);
}

static int update(lua_State *L, int row)
{
	static const char *const options[] = {"old", NULL};
	struct updating a = {.update = &tc_atomic_updates[row]};

	a.ref = tc_check_recorded(L, 1, TC_REF);
	if (!tc_read_value(L, 2, &a.value))
		return tc_argerror(L, 2, "fragment, recorded scalar or number expected, got %s",
				   tc_describe(L, 2));
	if (a.update->is_bitwise && a.value.kind == 'f' && !a.value.integral)
		return tc_argerror(L, 2, "fragment, recorded s32 or integer expected, got %s",
				   tc_describe(L, 2));
	tc_options(L, 3, options);
	a.old = tc_option_boolean(L, 3, "old", false);
	tc_record_call(L, record_update, &a);
	if (!a.result)
		return 0;
	tc_push_scalar(L, a.result);
	return 1;
}

static int atomic_add(lua_State *L)
{
	return update(L, ATOMIC_ADD);
}

static int atomic_max(lua_State *L)
{
	return update(L, ATOMIC_MAX);
}

static int atomic_min(lua_State *L)
{
	return update(L, ATOMIC_MIN);
}

static int atomic_and(lua_State *L)
{
	return update(L, ATOMIC_AND);
}

static int atomic_or(lua_State *L)
{
	return update(L, ATOMIC_OR);
}

static int atomic_xor(lua_State *L)
{
	return update(L, ATOMIC_XOR);
}

#define DETAILS(types)                                                                             \
	"\n\n`ref` is in GMEM or SMEM, `value` a fragment of its shape and dtype, or one value "   \
	"for "                                                                                     \
	"every element; a single element takes a recorded scalar or a number. Types: " types ". "  \
	"Nothing is ordered by it: who reads the result waits, as for stores.\n"                   \
	"- `old`: returns what the element was before, where it is a single one; a ticket, say"

static const char add_doc[] =
	"atomic_add(ref: Ref, value: Fragment|Scalar|number, opts?: {old?: boolean}) -> Scalar?\n"
	"Adds to what memory holds, element by element and atomically: other threads, roles and "
	"CTAs may do so at the same time. Floats are added in any order, so that sums of several "
	"CTAs round differently from run to run; subnormal float32 in GMEM count as zero. What "
	"lies "
	"outside a GMEM array is left out." DETAILS("float32, float16, bfloat16, int32, uint32");

static const struct tc_function functions[] = {
	{"atomic_add", atomic_add, add_doc},
	{"atomic_max", atomic_max,
	 "atomic_max(ref: Ref, value: Fragment|Scalar|number, opts?: {old?: boolean}) -> Scalar?\n"
	 "Replaces each element that is less than the value, atomically." DETAILS(
		 "int32, uint32; float16 and bfloat16 in GMEM, by pairs")},
	{"atomic_min", atomic_min,
	 "atomic_min(ref: Ref, value: Fragment|Scalar|number, opts?: {old?: boolean}) -> Scalar?\n"
	 "Replaces each element that is greater than the value, atomically." DETAILS(
		 "int32, uint32; float16 and bfloat16 in GMEM, by pairs")},
	{"atomic_and", atomic_and,
	 "atomic_and(ref: Ref, value: Fragment|Scalar|integer, opts?: {old?: boolean}) -> Scalar?\n"
	 "Keeps the bits that the value has too, atomically." DETAILS("int32, uint32")},
	{"atomic_or", atomic_or,
	 "atomic_or(ref: Ref, value: Fragment|Scalar|integer, opts?: {old?: boolean}) -> Scalar?\n"
	 "Sets the bits of the value, atomically." DETAILS("int32, uint32")},
	{"atomic_xor", atomic_xor,
	 "atomic_xor(ref: Ref, value: Fragment|Scalar|integer, opts?: {old?: boolean}) -> Scalar?\n"
	 "Flips the bits of the value, atomically." DETAILS("int32, uint32")},
	{NULL, NULL, NULL},
};

void tc_open_atomic(lua_State *L)
{
	tc_functions(L, "tcmma", functions);
}

/* Refs: views, plain loads and stores. */
#include "check_copy.h"
#include "lua_tc.h"

#include <string.h>

/* ---- slices -------------------------------------------------------------- */

/* User value 1: the recorded scalar it starts at. */
struct slice {
	bool all;
	struct lua_value start;
	int64_t size, step;
};

static const char ds_doc[] =
	"ds(start: integer|Scalar, size: integer, step?: integer) -> Slice\n"
	"A slice for `ref:at`: `size` indices from `start`, which may be recorded.";

static lua_Integer check_slice_size(lua_State *L, int arg)
{
	if (tc_test_object(L, arg, TC_SCALAR))
		tc_documented_error(L, SLICE_DYNAMIC,
				    lua_pushfstring(L, "\n  the size is %s", tc_describe(L, arg)));
	if (lua_isinteger(L, arg) && lua_tointeger(L, arg) < 0)
		tc_documented_error(L, SLICE_LENGTH, "", luaL_tolstring(L, arg, NULL));
	return tc_check_integer(L, arg, 1, INT32_MAX);
}

static int slice_new(lua_State *L)
{
	struct slice *s;

	lua_settop(L, 3);
	s = tc_new_object(L, TC_SLICE, sizeof *s, 1);
	tc_check_index_value(L, 1, &s->start, "start of the slice");
	s->size = check_slice_size(L, 2);
	s->step = lua_isnoneornil(L, 3) ? 1 : tc_check_integer(L, 3, 1, INT32_MAX);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, 1);
	return 1;
}

static int slice_tostring(lua_State *L)
{
	struct slice *s = tc_check_object(L, 1, TC_SLICE);

	if (s->all)
		lua_pushliteral(L, "tc.all");
	else
		lua_pushfstring(L, "tc.ds(%s, %I)",
				(lua_getiuservalue(L, 1, 1), luaL_tolstring(L, -1, NULL)),
				(LUAI_UACINT)s->size);
	return 1;
}

/* ---- views --------------------------------------------------------------- */

struct view {
	const struct ref *ref;
	int count;
	struct slice at[TC_MAX_RANK]; /* size 0: a single index */
	const struct ref *rows;       /* in place of at[gathered], or NULL */
	struct frag *numbers;         /* the same, not yet in SMEM */
	int gathered;
	int64_t shape[TC_MAX_RANK]; /* of a tile */
	struct ref *result;
};

/* Row numbers in a fragment are read from SMEM. */
static const struct ref *store_numbers(struct kern *k, const struct view *v,
				       const struct index *index)
{
	const struct frag *f = v->numbers;
	struct alloc draft = {.space = SP_SMEM,
			      .dtype = f->dtype,
			      .rank = f->rank,
			      .name = "rows",
			      .pos = k->err.pos};
	struct op store = {.kind = OP_STORE};

	for (int i = 0; i < f->rank; i++)
		draft.shape[i].size = f->shape[i];
	tc_check_gather(k, v->ref, tc_ref_whole(k, &draft), v->gathered, index, v->count);
	store.u.store.ref = tc_ref_whole(k, tc_kern_alloc(k, &draft, false, false, false));
	store.u.store.value = v->numbers;
	tc_kern_record(k, &store);
	return store.u.store.ref;
}

static void view_index(struct kern *k, void *arg)
{
	struct view *v = arg;
	struct index index[TC_MAX_RANK];

	for (int i = 0; i < v->count; i++) {
		const struct slice *s = &v->at[i];
		bool inside = i < v->ref->rank;

		index[i].is_all = s->all;
		index[i].is_slice = s->all || s->size > 0;
		index[i].start = s->all || !s->start.kind ? NULL : tc_value_node(k, &s->start);
		index[i].size = s->all && inside ? v->ref->shape[i].size : s->size;
		index[i].step = s->all || !s->size ? 1 : s->step;
	}
	if (v->numbers)
		v->rows = store_numbers(k, v, index);
	v->result = v->rows ? tc_ref_gather(k, v->ref, v->rows, v->gathered, index, v->count)
			    : tc_ref_index(k, v->ref, index, v->count);
}

static void view_tile(struct kern *k, void *arg)
{
	struct view *v = arg;
	struct val *index[TC_MAX_RANK];

	for (int i = 0; i < v->count; i++)
		index[i] = tc_value_node(k, &v->at[i].start);
	v->result = tc_ref_tile(k, v->ref, index, v->shape, v->count);
}

static void view_transpose(struct kern *k, void *arg)
{
	struct view *v = arg;

	v->result = tc_ref_transpose(k, v->ref);
}

static void refuse_index(struct kern *k, void *got)
{
	tc_documented(&k->err, INDEX_TYPE, "", (const char *)got);
}

static void refuse_second_rows(struct kern *k, void *ref)
{
	tc_documented(&k->err, GATHER_DIMENSION, tc_got(k, "the ref", ref));
}

static void read_index(lua_State *L, int arg, struct lua_value *v)
{
	if (!tc_read_value(L, arg, v) || strchr("bt", v->kind) || (v->kind == 'f' && !v->integral))
		tc_record_call(L, refuse_index, (void *)tc_describe(L, arg));
	if (v->kind == 'f')
		v->kind = 'i';
}

static const char at_doc[] =
	"at(...: integer|Scalar|Slice|Ref|Fragment) -> Ref\n"
	"A view: one index per dimension, 0-based; an integer or recorded value drops the "
	"dimension, `tc.ds(start, size)` and `tc.all` keep it. Missing indices are `tc.all`.\n\n"
	"Nothing is moved. TMEM is sliced along columns only.\n\n"
	"One index into an argument may be a vector of uint32, a ref in SMEM or GMEM or a fragment "
	"(which is stored to SMEM), where the last dimension is a slice and all others are "
	"integers: "
	"`x:at(rows, tc.ds(0, n))`, `x:at(batch, rows)`, `x:at(rows, head)`. The view has the rows "
	"that it names, in its order. Such a view is copied by `tc.copy_gmem_to_smem` (a gather) "
	"and "
	"`tc.copy_smem_to_gmem` (a scatter), on `sm_100a`. One thread reads the numbers, after the "
	"role's own stores of them.";

/* A vector of row numbers where an index may stand. */
static void read_rows(lua_State *L, int arg, struct view *v)
{
	if (v->rows || v->numbers)
		tc_record_call(L, refuse_second_rows, (void *)v->ref);
	v->rows = tc_test_recorded(L, arg, TC_REF);
	v->numbers = tc_test_recorded(L, arg, TC_FRAGMENT);
	v->gathered = arg - 2;
}

static int ref_at(lua_State *L)
{
	struct view v = {.ref = tc_check_recorded(L, 1, TC_REF)};

	v.count = lua_gettop(L) - 1;
	if (v.count > TC_MAX_RANK)
		return tc_argerror(L, TC_MAX_RANK + 2, "at most %d indices", TC_MAX_RANK);
	for (int i = 0; i < v.count; i++) {
		struct slice *s = tc_test_object(L, i + 2, TC_SLICE);

		if (tc_test_object(L, i + 2, TC_REF) || tc_test_object(L, i + 2, TC_FRAGMENT)) {
			read_rows(L, i + 2, &v);
			continue;
		}
		if (s)
			v.at[i] = *s;
		else
			read_index(L, i + 2, &v.at[i].start);
		if (s && s->start.kind == 'v') { /* of this recording? */
			lua_getiuservalue(L, i + 2, 1);
			tc_check_recorded(L, lua_gettop(L), TC_SCALAR);
			lua_pop(L, 1);
		}
	}
	tc_record_call(L, view_index, &v);
	tc_push_recorded(L, TC_REF, v.result);
	return 1;
}

static const char tile_doc[] =
	"tile(index: (integer|Scalar)[], shape: integer[]) -> Ref\n"
	"The tile number `index` of size `shape`, both per dimension: it starts at index * "
	"shape.\n\n"
	"A tile of GMEM may overhang the array: loads give 0 there, stores are clipped.";

static void read_tile_index(lua_State *L, int i, struct lua_value *v)
{
	lua_rawgeti(L, 2, i + 1);
	if (!tc_read_value(L, lua_gettop(L), v) ||
	    !(v->kind == 'i' || (v->kind == 'f' && v->integral) || v->kind == 'v'))
		tc_argerror(L, 2, "tile index %d: integer or recorded s32 expected, got %s", i + 1,
			    tc_describe(L, -1));
	if (v->kind == 'f')
		v->kind = 'i';
	lua_pop(L, 1);
}

static int ref_tile(lua_State *L)
{
	struct view v = {.ref = tc_check_recorded(L, 1, TC_REF)};

	if (!lua_istable(L, 2))
		return tc_argerror(L, 2, "list of tile indices expected, such as {m, k}; got %s",
				   tc_describe(L, 2));
	v.count = tc_check_shape(L, 3, v.shape, TC_MAX_RANK, 1);
	for (int i = 0; i < v.count; i++)
		if (v.shape[i] > INT32_MAX)
			tc_argerror(L, 3, "size %d of the tile is above 2^31 - 1", i + 1);
	if (luaL_len(L, 2) != v.count)
		return tc_argerror(L, 2, "%lld tile indices, but a tile of %d dimensions",
				   (long long)luaL_len(L, 2), v.count);
	for (int i = 0; i < v.count; i++)
		read_tile_index(L, i, &v.at[i].start);
	tc_record_call(L, view_tile, &v);
	tc_push_recorded(L, TC_REF, v.result);
	return 1;
}

static const char transpose_doc[] = "T() -> Ref\n"
				    "The transpose: the view with its last two dimensions swapped. "
				    "Nothing is moved. Legal on SMEM and GMEM.";

static int ref_transpose(lua_State *L)
{
	struct view v = {.ref = tc_check_recorded(L, 1, TC_REF)};

	tc_record_call(L, view_transpose, &v);
	tc_push_recorded(L, TC_REF, v.result);
	return 1;
}

/* ref[i] */
static int index_first(lua_State *L)
{
	struct view v = {.ref = tc_check_recorded(L, 1, TC_REF), .count = 1};
	struct slice *s = tc_test_object(L, 2, TC_SLICE);

	if (s)
		v.at[0] = *s;
	else if (!tc_read_value(L, 2, &v.at[0].start) || strchr("bt", v.at[0].start.kind) ||
		 (v.at[0].start.kind == 'f' && !v.at[0].start.integral))
		return 0;
	if (v.at[0].start.kind == 'f')
		v.at[0].start.kind = 'i';
	tc_record_call(L, view_index, &v);
	tc_push_recorded(L, TC_REF, v.result);
	return 1;
}

/* ---- fields -------------------------------------------------------------- */

static int push_shape(lua_State *L, const struct ref *r)
{
	lua_createtable(L, r->rank, 0);
	for (int i = 0; i < r->rank; i++) {
		if (r->shape[i].size < 0)
			tc_push_related(L, 1, TC_SCALAR, r->shape[i].value);
		else
			lua_pushinteger(L, r->shape[i].size);
		lua_rawseti(L, -2, i + 1);
	}
	tc_set_shown(L);
	return 1;
}

static int ref_field(lua_State *L)
{
	struct ref *r;
	const char *key;

	if (lua_type(L, 2) != LUA_TSTRING)
		return index_first(L);
	r = tc_read_recorded(L, 1, TC_REF, NULL);
	key = lua_tostring(L, 2);
	if (strcmp(key, "shape") == 0)
		return push_shape(L, r);
	if (strcmp(key, "dtype") == 0)
		tc_push_dtype(L, r->alloc->dtype);
	else if (strcmp(key, "space") == 0)
		tc_push_space(L, r->alloc->space);
	else if (strcmp(key, "rank") == 0)
		lua_pushinteger(L, r->rank);
	else if (strcmp(key, "swizzle") == 0 && r->alloc->space == SP_SMEM)
		r->alloc->atom_32 ? (void)lua_pushliteral(L, "128B_atom_32B")
				  : lua_pushinteger(L, r->alloc->swizzle);
	else if (strcmp(key, "collective") == 0 && r->alloc->space == SP_TMEM)
		lua_pushboolean(L, r->alloc->collective);
	else if (strcmp(key, "layout") == 0 && r->alloc->space == SP_TMEM)
		lua_pushstring(L, tc_tmem_layouts[r->alloc->layout]);
	else
		return 0;
	return 1;
}

struct text {
	const struct ref *ref;
	const char *text;
};

static void make_text(struct kern *k, void *arg)
{
	struct text *t = arg;

	t->text = tc_ref_text(k, t->ref);
}

static int ref_tostring(lua_State *L)
{
	struct kern *k;
	struct text t;

	t.ref = tc_read_recorded(L, 1, TC_REF, &k);
	tc_text_call(L, k, make_text, &t);
	lua_pushstring(L, t.text);
	return 1;
}

/* ---- loads and stores ---------------------------------------------------- */

struct access {
	struct ref *ref;
	struct lua_value value;
	struct frag *frag;
	struct val *val;
	struct barrier_ref barrier;
};

void tc_fragment_shape(struct kern *k, const struct ref *r, int shape[2])
{
	if (r->rank > 2)
		tc_fail(&k->err, "a fragment has 1 or 2 dimensions; index the leading ones of\n%s",
			tc_ref_text(k, r));
	for (int i = 0; i < r->rank; i++) {
		if (r->shape[i].size < 0)
			tc_fail(&k->err,
				"a fragment has a fixed shape, dimension '%s' is known at launch: "
				"take a tile of\n%s",
				r->shape[i].name, tc_ref_text(k, r));
		if (r->shape[i].size > 65536)
			tc_fail(&k->err,
				"a fragment of %lld elements along axis %d is too large\n%s",
				(long long)r->shape[i].size, i, tc_ref_text(k, r));
		shape[i] = (int)r->shape[i].size;
	}
}

static enum val_type scalar_type(enum dtype t)
{
	return t == DT_BOOL ? VT_PRED : tc_dtypes[t].klass == 'F' ? VT_F32 : VT_S32;
}

static void load(struct kern *k, void *arg)
{
	struct access *a = arg;
	struct op draft = {.kind = OP_LOAD};
	int shape[2];

	if (a->ref->alloc->space == SP_TMEM)
		tc_documented(&k->err, TMEM_LOAD, tc_got(k, "the ref", a->ref));
	if (a->ref->rank == 0) {
		draft.kind = OP_LOAD_SCALAR;
		draft.u.load_scalar.ref = a->ref;
		draft.u.load_scalar.result =
			tc_val_leaf(k, VAL_OP, scalar_type(a->ref->alloc->dtype));
		a->val = tc_kern_record(k, &draft)->u.load_scalar.result;
		return;
	}
	tc_fragment_shape(k, a->ref, shape);
	draft.u.load.ref = a->ref;
	draft.u.load.result = tc_frag_new(k, a->ref->alloc->dtype, a->ref->rank, shape);
	a->frag = tc_kern_record(k, &draft)->u.load.result;
}

static const char load_doc[] =
	"load() -> Scalar|Fragment\n"
	"Loads from SMEM or GMEM: one element (every dimension indexed) into a recorded scalar, a "
	"ref of 1 or 2 dimensions into a fragment.\n\n"
	"A fragment needs a role of whole warpgroups. Elements outside a GMEM array are 0. "
	"Elements "
	"of 4 bits are moved by pairs: the last dimension of the array is even, and so are start "
	"and "
	"size of the view along it. TMEM is loaded by `tc.async_load_tmem`.";

static int ref_load(lua_State *L)
{
	struct access a = {0};

	if (!tc_test_object(L, 1, TC_REF))
		tc_documented_error(L, LOAD_REFERENCE, "\n  'load' is called on it",
				    tc_describe(L, 1));
	a.ref = tc_check_recorded(L, 1, TC_REF);
	tc_record_call(L, load, &a);
	if (a.val)
		tc_push_scalar(L, a.val);
	else
		tc_push_recorded(L, TC_FRAGMENT, a.frag);
	return 1;
}

struct val *tc_element_value(struct kern *k, const struct lua_value *v, enum dtype t)
{
	struct val *node = tc_value_node(k, v);
	enum val_type wanted = scalar_type(t);

	if (node->type == wanted)
		return node;
	if (wanted == VT_F32 && v->kind == 'i')
		return tc_val_float(k, (float)v->f);
	if (wanted == VT_S32 && v->kind == 'f' && v->integral)
		return tc_val_const(k, (int32_t)v->i);
	if (v->kind == 'v')
		tc_fail(&k->err, "%s stored into %s: convert it with :astype", tc_val_text(k, node),
			tc_dtypes[t].name);
	tc_fail(&k->err, "%s stored into %s: %s is needed", tc_val_text(k, node), tc_dtypes[t].name,
		wanted == VT_S32 ? "an integer" : "a number");
}

static void store(struct kern *k, void *arg)
{
	struct access *a = arg;
	struct op draft = {.kind = OP_STORE};
	int shape[2];

	if (a->ref->alloc->space == SP_TMEM)
		tc_documented(&k->err, TMEM_STORE, tc_got(k, "the ref", a->ref));
	if (a->ref->rank == 0) {
		if (a->value.frag)
			tc_fail(&k->err, "a fragment %s stored into one element:\n%s",
				tc_frag_text(k, a->value.frag), tc_ref_text(k, a->ref));
		if (a->barrier.barrier)
			tc_fail(&k->err,
				"option 'barrier' is for fragments; this is one element:\n%s",
				tc_ref_text(k, a->ref));
		draft.kind = OP_STORE_SCALAR;
		draft.u.store_scalar.ref = a->ref;
		draft.u.store_scalar.value = tc_element_value(k, &a->value, a->ref->alloc->dtype);
		tc_kern_record(k, &draft);
		return;
	}
	tc_fragment_shape(k, a->ref, shape);
	draft.u.store.ref = a->ref;
	draft.u.store.value = a->value.frag;
	draft.u.store.barrier = a->barrier;
	tc_check_place(k, &draft);
	if (!a->value.frag)
		draft.u.store.value = tc_frag_full(k, tc_value_node(k, &a->value),
						   a->ref->alloc->dtype, a->ref->rank, shape);
	tc_kern_record(k, &draft);
}

static const char store_doc[] =
	"store(value: Fragment|Scalar|number, opts?: {barrier?: Barrier})\n"
	"Stores into SMEM or GMEM: a fragment of the ref's shape and dtype, or one value into "
	"every element. `ref[i] = x` is `ref[i]:store(x)`. Elements of 4 bits are stored by pairs, "
	"as "
	"they are loaded.\n\n"
	"What lies outside a GMEM array is not written. Before TMA or an MMA reads the stored "
	"SMEM, call `tc.commit_smem()`. TMEM is stored by `tc.async_store_tmem`.\n"
	"- `barrier`: for SMEM of another CTA (`tc.cluster_ref`) with elements of 32 bits. The "
	"store is asynchronous, and one arrival on that CTA's barrier, whose phase completes when "
	"the values are there: no arrival of the role and no fence is needed";

static void check_stored(lua_State *L, int arg, struct lua_value *v)
{
	if (!tc_read_value(L, arg, v))
		tc_documented_error(L, STORED_VALUE, "\n  it is the value that 'store' is given",
				    tc_describe(L, arg));
}

static int ref_store(lua_State *L)
{
	static const char *const options[] = {"barrier", NULL};
	struct access a = {0};

	if (!tc_test_object(L, 1, TC_REF))
		tc_documented_error(L, STORE_REFERENCE, "\n  'store' is called on it",
				    tc_describe(L, 1));
	a.ref = tc_check_recorded(L, 1, TC_REF);
	check_stored(L, 2, &a.value);
	tc_options(L, 3, options);
	if (tc_option_push(L, 3, "barrier")) {
		const struct barrier_ref *b = tc_test_recorded(L, lua_gettop(L), TC_BARRIER);

		if (!b)
			return tc_argerror(L, 3, "option 'barrier' must be a tc.barrier, got %s",
					   tc_describe(L, -1));
		a.barrier = *b;
		lua_pop(L, 1);
	}
	tc_record_call(L, store, &a);
	return 0;
}

static int ref_newindex(lua_State *L)
{
	struct ref *r = tc_check_recorded(L, 1, TC_REF);
	struct access a = {0};

	if (lua_type(L, 2) == LUA_TSTRING)
		return tc_error(L, "the field '%s' of a ref cannot be set", lua_tostring(L, 2));
	if (r->alloc->space == SP_TMEM) {
		a.ref = r;
	} else if (index_first(L)) {
		a.ref = tc_check_recorded(L, lua_gettop(L), TC_REF);
	} else {
		return tc_error(L, "a ref cannot be indexed by %s", tc_describe(L, 2));
	}
	check_stored(L, 3, &a.value);
	tc_record_call(L, store, &a);
	return 0;
}

/* ---- registration -------------------------------------------------------- */

static const struct tc_function functions[] = {
	{"ds", slice_new, ds_doc},
	{NULL, NULL, NULL},
};

static const struct tc_function methods[] = {
	{"at", ref_at, at_doc},
	{"tile", ref_tile, tile_doc},
	{"T", ref_transpose, transpose_doc},
	{"load", ref_load, load_doc},
	{"store", ref_store, store_doc},
	{"peek", tc_ref_peek, tc_peek_doc},
	{NULL, NULL, NULL},
};

void tc_open_ref(lua_State *L)
{
	static const luaL_Reg slice_meta[] = {{"__tostring", slice_tostring}, {NULL, NULL}};
	static const luaL_Reg ref_meta[] = {
		{"__tostring", ref_tostring}, {"__newindex", ref_newindex}, {NULL, NULL}};
	struct slice *all;

	tc_open_alloc(L);
	tc_open_atomic(L);
	tc_class(L, TC_SLICE, "A slice for `ref:at`.", NULL, slice_meta, NULL);
	tc_recorded_class(L, TC_REF,
			  "A view of GMEM, SMEM or TMEM. `ref[i]` indexes its first dimension, "
			  "0-based.\n"
			  "---@field shape any[] A named dimension is a recorded s32, which can be "
			  "computed with\n"
			  "---@field dtype tcmma.dtype\n"
			  "---@field space tcmma.space\n"
			  "---@field rank integer\n"
			  "---@field swizzle any? Of SMEM: bytes, or `\"128B_atom_32B\"`\n"
			  "---@field collective boolean? Of TMEM\n"
			  "---@field layout string? Of TMEM\n",
			  methods, ref_meta, ref_field);
	tc_functions(L, "tcmma", functions);
	all = tc_new_object(L, TC_SLICE, sizeof *all, 1);
	all->all = true;
	lua_setfield(L, -2, "all");
}

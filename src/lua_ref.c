/* Refs: arguments, allocations, views, plain loads and stores. */
#include "lua_tc.h"

#include <string.h>

/* ---- tc.gmem: the descriptor of an argument --------------------------------------------- */

static const char gmem_doc[] =
	"gmem(shape: (integer|string)[], dtype: DType) -> Gmem\n"
	"Describes a kernel argument, an array in global memory, for `args` of `tc.kernel`.\n\n"
	"A dimension may be a name (`tc.gmem({\"M\", \"K\"}, tc.f16)`): it is bound at launch from "
	"the array passed; equal names must have equal sizes.";

static bool is_identifier(const char *s)
{
	if (!*s || (*s >= '0' && *s <= '9'))
		return false;
	for (; *s; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
		      (*s >= '0' && *s <= '9') || *s == '_'))
			return false;
	return true;
}

static void read_dimension(lua_State *L, struct lua_gmem *g, int i)
{
	int integral = 0;

	if (lua_type(L, -1) == LUA_TSTRING && is_identifier(lua_tostring(L, -1))) {
		g->size[i] = -1;
		g->name[i] = lua_tostring(L, -1);
		return;
	}
	if (lua_type(L, -1) == LUA_TNUMBER)
		g->size[i] = lua_tointegerx(L, -1, &integral);
	if (!integral || g->size[i] < 1 || g->size[i] > INT64_C(1) << 40)
		tc_argerror(L, 1, "dimension %d: an integer >= 1 or a name expected, got %s", i + 1,
			    tc_describe(L, -1));
}

static int gmem_new(lua_State *L)
{
	struct lua_gmem *g;
	lua_Integer rank;

	lua_settop(L, 2);
	if (!lua_istable(L, 1))
		return tc_argerror(L, 1, "shape expected, a table such as {512, \"K\"}; got %s",
				   tc_describe(L, 1));
	rank = luaL_len(L, 1);
	if (rank < 1 || rank > 5)
		return tc_argerror(L, 1, "a shape of 1 to 5 dimensions expected, got %lld",
				   (long long)rank);
	g = tc_new_object(L, TC_GMEM, sizeof *g, 1);
	g->dtype = tc_check_dtype(L, 2);
	g->rank = (int)rank;
	lua_createtable(L, g->rank, 0);
	for (int i = 0; i < g->rank; i++) {
		lua_rawgeti(L, 1, i + 1);
		read_dimension(L, g, i);
		lua_rawseti(L, -2, i + 1);
	}
	lua_setiuservalue(L, -2, 1);
	return 1;
}

static int gmem_tostring(lua_State *L)
{
	struct lua_gmem *g = tc_check_object(L, 1, TC_GMEM);
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	luaL_addstring(&b, "gmem ");
	luaL_addstring(&b, tc_dtypes[g->dtype].name);
	luaL_addstring(&b, " (");
	for (int i = 0; i < g->rank; i++) {
		if (g->size[i] < 0)
			lua_pushstring(L, g->name[i]);
		else
			lua_pushfstring(L, "%I", (LUAI_UACINT)g->size[i]);
		luaL_addvalue(&b);
		luaL_addstring(&b, i + 1 < g->rank ? ", " : g->rank == 1 ? ",)" : ")");
	}
	luaL_pushresult(&b);
	return 1;
}

/* ---- slices ----------------------------------------------------------------------------- */

/* User value 1: the recorded scalar it starts at. */
struct slice {
	bool all;
	struct lua_value start;
	int64_t size, step;
};

static const char ds_doc[] =
	"ds(start: integer|Scalar, size: integer, step?: integer) -> Slice\n"
	"A slice for `ref:at`: `size` indices from `start`, which may be recorded.";

static int slice_new(lua_State *L)
{
	struct slice *s;

	lua_settop(L, 3);
	s = tc_new_object(L, TC_SLICE, sizeof *s, 1);
	tc_check_index_value(L, 1, &s->start, "start of the slice");
	s->size = tc_check_integer(L, 2, 1, INT32_MAX);
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

/* ---- allocation ----------------------------------------------------------------------------- */

struct allocation {
	struct alloc draft;
	bool packed_given, layout_given, collective_given;
	struct ref *result;
};

static void allocate(struct kern *k, void *arg)
{
	struct allocation *a = arg;

	a->result = tc_ref_whole(k, tc_kern_alloc(k, &a->draft, a->packed_given, a->layout_given,
						  a->collective_given));
}

static void read_swizzle(lua_State *L, int arg, struct alloc *a)
{
	if (!tc_option_push(L, arg, "swizzle"))
		return;
	a->swizzle_given = true;
	if (lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "none") == 0) {
		a->swizzle = 0;
	} else {
		int integral = 0;
		lua_Integer w =
			lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &integral) : 0;

		if (!integral || w < 1 || w > INT32_MAX)
			tc_argerror(L, arg,
				    "option 'swizzle' must be 32, 64, 128 or \"none\", got %s",
				    tc_describe(L, -1));
		a->swizzle = (int)w;
	}
	lua_pop(L, 1);
}

static void read_tiling(lua_State *L, int arg, struct alloc *a)
{
	if (!tc_option_push(L, arg, "tiling"))
		return;
	a->tiling_given = true;
	a->tiling_rank = tc_check_shape(L, lua_gettop(L), a->tiling, TC_MAX_RANK, 1);
	lua_pop(L, 1);
}

static void read_layout(lua_State *L, int arg, struct allocation *a)
{
	static const char *const names[] = {"default",
					    "half_lane",
					    "m64_collective",
					    "scales",
					    "b_scales_m64_collective",
					    "sparse_metadata",
					    NULL};
	const char *name = tc_option_string(L, arg, "layout", NULL), *near;

	if (!name)
		return;
	a->layout_given = true;
	for (int i = 0; names[i]; i++) {
		if (strcmp(name, names[i]) == 0) {
			a->draft.layout = (enum tmem_layout)i;
			return;
		}
	}
	near = tc_nearest(name, names);
	tc_argerror(L, arg, "unknown TMEM layout '%s' (%s%s)", name,
		    near ? "did you mean "
			 : "default, half_lane, m64_collective, scales, "
			   "b_scales_m64_collective, sparse_metadata",
		    near ? near : "");
}

static bool is_given(lua_State *L, int arg, const char *name)
{
	bool given = tc_option_push(L, arg, name);

	lua_pop(L, given);
	return given;
}

/* shape, dtype and options stand from `arg` on. */
static int allocate_at(lua_State *L, enum space space, int arg)
{
	static const char *const options[] = {"swizzle", "tiling", "collective", "packed",
					      "layout",  "name",   NULL};
	struct allocation a = {.draft = {.space = space}};
	int64_t shape[TC_MAX_RANK];

	lua_settop(L, arg + 2);
	tc_current_kernel(L);
	if (space == SP_GMEM)
		return tc_argerror(L, 1,
				   "GMEM is not allocated by a kernel: describe an argument "
				   "with tc.gmem(shape, dtype) in 'args'");
	a.draft.rank = tc_check_shape(L, arg, shape, TC_MAX_RANK, 1);
	if (!a.draft.rank)
		tc_argerror(L, arg, "the shape is empty; one element is {1}");
	for (int i = 0; i < a.draft.rank; i++)
		a.draft.shape[i].size = shape[i];
	a.draft.dtype = tc_check_dtype(L, arg + 1);
	tc_options(L, arg + 2, options);
	a.packed_given = is_given(L, arg + 2, "packed");
	a.collective_given = is_given(L, arg + 2, "collective");
	a.draft.packed = tc_option_boolean(L, arg + 2, "packed", false);
	a.draft.collective = tc_option_boolean(L, arg + 2, "collective", false);
	a.draft.name = tc_option_string(L, arg + 2, "name", NULL);
	read_swizzle(L, arg + 2, &a.draft);
	read_tiling(L, arg + 2, &a.draft);
	read_layout(L, arg + 2, &a);
	tc_record_call(L, allocate, &a);
	tc_push_recorded(L, TC_REF, a.result);
	return 1;
}

#define OPTIONS_DOC                                                                                \
	"SMEM takes `swizzle` (128, 64, 32 or \"none\"; default: the largest that divides a "      \
	"row). TMEM takes `collective` (for 2-CTA MMAs), `packed` (a dtype narrower than 32 "      \
	"bits needs it: true for an A operand, false for an f16 accumulator) or `layout` "         \
	"(\"m64_collective\", \"scales\", \"b_scales_m64_collective\", \"sparse_metadata\"). "     \
	"`tiling` (SMEM) states the tiles a swizzle implies, {8, 8 * swizzle / bits}, and is "     \
	"only checked. `name` shows in messages and dumps.\n\n"                                    \
	"Allocations are static: one per call, whatever loop of the kernel they stand in."

static const char allocate_doc[] =
	"allocate(space: Space, shape: integer[], dtype: DType, opts?: AllocOptions) -> Ref\n"
	"Allocates shared or tensor memory for the kernel that is being recorded.\n\n" OPTIONS_DOC;

static int ref_allocate(lua_State *L)
{
	return allocate_at(L, tc_check_space(L, 1), 2);
}

static const char smem_doc[] =
	"smem(shape: integer[], dtype: DType, opts?: AllocOptions) -> Ref\n"
	"`tc.allocate` in shared memory. The last two dimensions are a tile, the others count "
	"tiles (stages).\n\n" OPTIONS_DOC;

static int ref_smem(lua_State *L)
{
	return allocate_at(L, SP_SMEM, 1);
}

static const char tmem_doc[] =
	"tmem(shape: integer[], dtype: DType, opts?: AllocOptions) -> Ref\n"
	"`tc.allocate` in tensor memory: 64 or 128 rows (lanes), and columns of 32 bits, 512 in "
	"all.\n\n" OPTIONS_DOC;

static int ref_tmem(lua_State *L)
{
	return allocate_at(L, SP_TMEM, 1);
}

/* ---- unions ------------------------------------------------------------------------------------
 */

static const char union_doc[] =
	"union(member: Ref|Ref[], member: Ref|Ref[], ...) -> Union\n"
	"Lets allocations share storage. Each argument is one alternative: a ref, or a list of "
	"refs that stand one after the other. All are in SMEM, or all in TMEM.\n\n"
	"The refs themselves stay usable; the union has `.space`, and for TMEM `.collective` and "
	"`.layout`.";

struct aliases {
	struct ref ***members;
	int *counts, count;
	struct alias_set *result;
};

static void make_union(struct kern *k, void *arg)
{
	struct aliases *a = arg;

	a->result = tc_kern_union(k, a->members, a->counts, a->count);
}

static int read_member(lua_State *L, int arg, struct ref ***member)
{
	lua_Integer n = 1;
	bool list = lua_istable(L, arg);

	if (list)
		n = luaL_len(L, arg);
	if (n < 1 || n > 1024)
		tc_argerror(L, arg, "a list of 1 to 1024 refs expected, got %lld", (long long)n);
	*member = lua_newuserdatauv(L, (size_t)n * sizeof **member, 0);
	for (int i = 0; i < (int)n; i++) {
		if (list)
			lua_rawgeti(L, arg, i + 1);
		else
			lua_pushvalue(L, arg);
		if (!tc_test_object(L, -1, TC_REF))
			tc_argerror(L, arg, "ref or list of refs expected, got %s",
				    tc_describe(L, -1));
		(*member)[i] = tc_check_recorded(L, lua_gettop(L), TC_REF);
		lua_pop(L, 1);
	}
	return (int)n;
}

static int ref_union(lua_State *L)
{
	struct aliases a;

	a.count = lua_gettop(L);
	if (a.count < 2)
		return tc_argerror(L, a.count + 1, "a union has two or more members");
	luaL_checkstack(L, a.count + 8, "for the members of a union");
	a.members = lua_newuserdatauv(L, (size_t)a.count * sizeof *a.members, 0);
	a.counts = lua_newuserdatauv(L, (size_t)a.count * sizeof *a.counts, 0);
	for (int i = 0; i < a.count; i++)
		a.counts[i] = read_member(L, i + 1, &a.members[i]);
	tc_record_call(L, make_union, &a);
	tc_push_recorded(L, TC_UNION, a.members[0][0]);
	return 1;
}

static void refuse_assignment(struct kern *k, void *arg)
{
	(void)arg;
	tc_documented(&k->err, UNION_ASSIGN, "");
}

static void refuse_attribute(struct kern *k, void *arg)
{
	if (strcmp(arg, "layout") == 0)
		tc_documented(&k->err, UNION_LAYOUT, "");
	tc_documented(&k->err, UNION_COLLECTIVE_ATTRIBUTE, "");
}

static int union_newindex(lua_State *L)
{
	struct kern *k;

	tc_read_recorded(L, 1, TC_UNION, &k);
	tc_text_call(L, k, refuse_assignment, NULL);
	return 0;
}

static const char *layout_name(const struct alloc *a)
{
	static const char *const names[] = {"default",
					    "half_lane",
					    "m64_collective",
					    "scales",
					    "b_scales_m64_collective",
					    "sparse_metadata"};

	return names[a->layout];
}

static int union_field(lua_State *L)
{
	struct kern *k;
	struct ref *r = tc_read_recorded(L, 1, TC_UNION, &k);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
	bool layout = strcmp(key, "layout") == 0, collective = strcmp(key, "collective") == 0;

	if ((layout || collective) && r->alloc->space != SP_TMEM)
		tc_text_call(L, k, refuse_attribute, (void *)key);
	if (layout)
		lua_pushstring(L, layout_name(r->alloc));
	else if (collective)
		lua_pushboolean(L, r->alloc->collective);
	else if (strcmp(key, "space") == 0)
		tc_push_space(L, r->alloc->space);
	else
		return 0;
	return 1;
}

static int union_tostring(lua_State *L)
{
	struct ref *r = tc_read_recorded(L, 1, TC_UNION, NULL);

	lua_pushfstring(L, "union of %d alternatives in %s", r->alloc->alias->member_count,
			r->alloc->space == SP_SMEM ? "SMEM" : "TMEM");
	return 1;
}

/* ---- views
 * --------------------------------------------------------------------------------------- */

struct view {
	const struct ref *ref;
	int count;
	struct slice at[TC_MAX_RANK]; /* size 0: a single index */
	int64_t shape[TC_MAX_RANK];   /* of a tile */
	struct ref *result;
};

static void view_index(struct kern *k, void *arg)
{
	struct view *v = arg;
	struct index index[TC_MAX_RANK];

	for (int i = 0; i < v->count; i++) {
		const struct slice *s = &v->at[i];
		bool inside = i < v->ref->rank;

		index[i].is_all = s->all;
		index[i].is_slice = s->all || s->size > 0;
		index[i].start = s->all ? NULL : tc_value_node(k, &s->start);
		index[i].size = s->all && inside ? v->ref->shape[i].size : s->size;
		index[i].step = s->all || !s->size ? 1 : s->step;
	}
	v->result = tc_ref_index(k, v->ref, index, v->count);
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

static void read_index(lua_State *L, int arg, struct lua_value *v)
{
	if (!tc_read_value(L, arg, v) || strchr("bt", v->kind) || (v->kind == 'f' && !v->integral))
		tc_record_call(L, refuse_index, (void *)tc_describe(L, arg));
	if (v->kind == 'f')
		v->kind = 'i';
}

static const char at_doc[] =
	"at(...: integer|Scalar|Slice) -> Ref\n"
	"A view: one index per dimension, 0-based; an integer or recorded value drops the "
	"dimension, `tc.ds(start, size)` and `tc.all` keep it. Missing indices are `tc.all`.\n\n"
	"Nothing is moved. TMEM is sliced along columns only.";

static int ref_at(lua_State *L)
{
	struct view v = {.ref = tc_check_recorded(L, 1, TC_REF)};

	v.count = lua_gettop(L) - 1;
	if (v.count > TC_MAX_RANK)
		return tc_argerror(L, TC_MAX_RANK + 2, "at most %d indices", TC_MAX_RANK);
	for (int i = 0; i < v.count; i++) {
		struct slice *s = tc_test_object(L, i + 2, TC_SLICE);

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

static const char transpose_doc[] =
	"T() -> Ref\n"
	"The view with its last two dimensions swapped. Nothing is moved. Legal on SMEM and GMEM.";

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

/* ---- fields
 * ------------------------------------------------------------------------------------------ */

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
		lua_pushinteger(L, r->alloc->swizzle);
	else if (strcmp(key, "collective") == 0 && r->alloc->space == SP_TMEM)
		lua_pushboolean(L, r->alloc->collective);
	else if (strcmp(key, "layout") == 0 && r->alloc->space == SP_TMEM)
		lua_pushstring(L, layout_name(r->alloc));
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

/* ---- loads and stores
 * ---------------------------------------------------------------------------------- */

struct access {
	struct ref *ref;
	struct lua_value value;
	struct frag *frag;
	struct val *val;
};

static void check_static(struct kern *k, const struct ref *r, int shape[2])
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
	check_static(k, a->ref, shape);
	draft.u.load.ref = a->ref;
	draft.u.load.result = tc_frag_new(k, a->ref->alloc->dtype, a->ref->rank, shape);
	a->frag = tc_kern_record(k, &draft)->u.load.result;
}

static const char load_doc[] =
	"load() -> Scalar|Fragment\n"
	"Loads from SMEM or GMEM: one element (every dimension indexed) into a recorded scalar, a "
	"ref of 1 or 2 dimensions into a fragment.\n\n"
	"A fragment needs a role of whole warpgroups. Elements outside a GMEM array are 0. TMEM is "
	"loaded by `tc.async_load_tmem`.";

static int ref_load(lua_State *L)
{
	struct access a = {.ref = tc_check_recorded(L, 1, TC_REF)};

	tc_record_call(L, load, &a);
	if (a.val)
		tc_push_scalar(L, a.val);
	else
		tc_push_recorded(L, TC_FRAGMENT, a.frag);
	return 1;
}

static struct val *element_value(struct kern *k, const struct lua_value *v, enum dtype t)
{
	struct val *node = tc_value_node(k, v);
	enum val_type wanted = scalar_type(t);

	if (node->type == wanted)
		return node;
	if (wanted == VT_F32 && v->kind == 'i')
		return tc_val_float(k, (float)v->f);
	if (wanted == VT_S32 && v->kind == 'f' && v->integral)
		return tc_val_const(k, (int32_t)v->i);
	tc_fail(&k->err, "%s stored into %s: convert it with :astype", tc_val_text(k, node),
		tc_dtypes[t].name);
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
		draft.kind = OP_STORE_SCALAR;
		draft.u.store_scalar.ref = a->ref;
		draft.u.store_scalar.value = element_value(k, &a->value, a->ref->alloc->dtype);
		tc_kern_record(k, &draft);
		return;
	}
	check_static(k, a->ref, shape);
	draft.u.store.ref = a->ref;
	draft.u.store.value = a->value.frag;
	if (!a->value.frag)
		draft.u.store.value = tc_frag_full(k, tc_value_node(k, &a->value),
						   a->ref->alloc->dtype, a->ref->rank, shape);
	tc_kern_record(k, &draft);
}

static const char store_doc[] =
	"store(value: Fragment|Scalar|number)\n"
	"Stores into SMEM or GMEM: a fragment of the ref's shape and dtype, or one value into "
	"every element. `ref[i] = x` is `ref[i]:store(x)`.\n\n"
	"What lies outside a GMEM array is not written. Before TMA or an MMA reads the stored "
	"SMEM, call `tc.commit_smem()`. TMEM is stored by `tc.async_store_tmem`.";

static void check_value(lua_State *L, int arg, struct lua_value *v)
{
	if (!tc_read_value(L, arg, v))
		tc_argerror(L, arg, "fragment, recorded scalar or number expected, got %s",
			    tc_describe(L, arg));
}

static int ref_store(lua_State *L)
{
	struct access a = {.ref = tc_check_recorded(L, 1, TC_REF)};

	check_value(L, 2, &a.value);
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
	check_value(L, 3, &a.value);
	tc_record_call(L, store, &a);
	return 0;
}

/* ---- registration
 * ------------------------------------------------------------------------------------------ */

static const struct tc_function functions[] = {
	{"gmem", gmem_new, gmem_doc},
	{"ds", slice_new, ds_doc},
	{"allocate", ref_allocate, allocate_doc},
	{"smem", ref_smem, smem_doc},
	{"tmem", ref_tmem, tmem_doc},
	{"union", ref_union, union_doc},
	{NULL, NULL, NULL},
};

static const struct tc_function methods[] = {
	{"at", ref_at, at_doc},
	{"tile", ref_tile, tile_doc},
	{"T", ref_transpose, transpose_doc},
	{"load", ref_load, load_doc},
	{"store", ref_store, store_doc},
	{NULL, NULL, NULL},
};

void tc_open_ref(lua_State *L)
{
	static const luaL_Reg gmem_meta[] = {{"__tostring", gmem_tostring}, {NULL, NULL}};
	static const luaL_Reg slice_meta[] = {{"__tostring", slice_tostring}, {NULL, NULL}};
	static const luaL_Reg union_meta[] = {
		{"__tostring", union_tostring}, {"__newindex", union_newindex}, {NULL, NULL}};
	static const luaL_Reg ref_meta[] = {
		{"__tostring", ref_tostring}, {"__newindex", ref_newindex}, {NULL, NULL}};
	struct slice *all;

	tc_class(L, TC_GMEM, "The description of a kernel argument.", NULL, gmem_meta);
	tc_class(L, TC_SLICE, "A slice for `ref:at`.", NULL, slice_meta);
	tc_recorded_class(L, TC_UNION, "Allocations that share storage.", NULL, union_meta,
			  union_field);
	tc_recorded_class(L, TC_REF,
			  "A view of GMEM, SMEM or TMEM. `ref[i]` indexes its first dimension, "
			  "0-based. Fields: `shape`, `dtype`, `space`, `rank`; `swizzle` of SMEM; "
			  "`collective`, `layout` of TMEM.",
			  methods, ref_meta, ref_field);
	tc_functions(L, "tcmma", functions);
	all = tc_new_object(L, TC_SLICE, sizeof *all, 1);
	all->all = true;
	lua_setfield(L, -2, "all");
}

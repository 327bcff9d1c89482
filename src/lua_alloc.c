/* What refs are made of: arguments, allocations, unions. */
#include "lua_tc.h"

#include <string.h>

/* ---- tc.gmem: the descriptor of an argument ------------------------------ */

static const char gmem_doc[] =
	"gmem(shape: (integer|string)[], dtype: DType) -> Gmem\n"
	"Describes a kernel argument, an array in global memory of 1 to 8 dimensions, for `args` "
	"of "
	"`tc.kernel`.\n\n"
	"A dimension may be a name (`tc.gmem({\"M\", \"K\"}, tc.f16)`): it is bound at launch from "
	"the array passed; equal names must have equal sizes. In the kernel, `ref.shape[i]` is "
	"then a "
	"recorded s32: `tc.cdiv(ref.shape[1], 128)` counts tiles of 128.";

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

	if (tc_is_text(L, -1) && is_identifier(lua_tostring(L, -1))) {
		g->size[i] = -1;
		g->name[i] = lua_tostring(L, -1);
		return;
	}
	if (lua_type(L, -1) == LUA_TNUMBER)
		g->size[i] = lua_tointegerx(L, -1, &integral);
	if (!integral || g->size[i] < 1)
		tc_argerror(L, 1, "dimension %d: an integer >= 1 or a name expected, got %s", i + 1,
			    tc_describe(L, -1));
}

static void check_elements(lua_State *L, const struct lua_gmem *g)
{
	int64_t elements = 1;

	for (int i = 0; i < g->rank; i++) {
		if (g->size[i] > TC_LARGEST_ARRAY / elements)
			tc_argerror(L, 1, "the array is too large: more than 2^46 elements");
		elements *= g->size[i] < 0 ? 1 : g->size[i];
	}
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
	if (rank < 1 || rank > TC_MAX_RANK)
		return tc_argerror(L, 1, "a shape of 1 to %d dimensions expected, got %lld",
				   TC_MAX_RANK, (long long)rank);
	g = tc_new_object(L, TC_GMEM, sizeof *g, 1);
	g->dtype = tc_check_dtype(L, 2);
	g->rank = (int)rank;
	lua_createtable(L, g->rank, 0);
	for (int i = 0; i < g->rank; i++) {
		lua_rawgeti(L, 1, i + 1);
		read_dimension(L, g, i);
		lua_rawseti(L, -2, i + 1);
	}
	check_elements(L, g);
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

/* ---- allocation ---------------------------------------------------------- */

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
	} else if (lua_type(L, -1) == LUA_TSTRING &&
		   strcmp(lua_tostring(L, -1), "128B_atom_32B") == 0) {
		a->swizzle = 128;
		a->atom_32 = true;
	} else {
		int integral = 0;
		lua_Integer w =
			lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &integral) : 0;

		if (!integral || w < 1 || w > INT32_MAX)
			tc_argerror(L, arg,
				    "option 'swizzle' must be 32, 64, 128, \"128B_atom_32B\" or "
				    "\"none\", got %s",
				    tc_describe(L, -1));
		a->swizzle = (int)w;
	}
	lua_pop(L, 1);
}

static void read_tiling(lua_State *L, int arg, struct alloc *a)
{
	if (!tc_option_push(L, arg, "tiling"))
		return;
	if (!lua_istable(L, -1))
		tc_argerror(L, arg,
			    "option 'tiling' must be a list of sizes such as {8, 64}, got %s",
			    tc_describe(L, -1));
	a->tiling_given = true;
	a->tiling_rank = tc_check_sizes(L, arg, "option 'tiling'", a->tiling, TC_MAX_RANK, 1);
	lua_pop(L, 1);
}

static void read_layout(lua_State *L, int arg, struct allocation *a)
{
	const char *name = tc_option_string(L, arg, "layout", NULL);

	if (!name)
		return;
	a->layout_given = true;
	for (int i = 0; tc_tmem_layouts[i]; i++) {
		if (strcmp(name, tc_tmem_layouts[i]) == 0) {
			a->draft.layout = (enum tmem_layout)i;
			return;
		}
	}
	tc_argerror(L, arg, "unknown TMEM layout '%s' (%s)", name,
		    tc_push_advice(L, name, tc_tmem_layouts, "layouts"));
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
					      "padded",  "layout", "name",       NULL};
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
	a.draft.padded = tc_option_boolean(L, arg + 2, "padded", false);
	read_swizzle(L, arg + 2, &a.draft);
	read_tiling(L, arg + 2, &a.draft);
	read_layout(L, arg + 2, &a);
	tc_record_call(L, allocate, &a);
	tc_push_recorded(L, TC_REF, a.result);
	return 1;
}

#define OPTIONS_TYPE                                                                               \
	"{swizzle?: integer|string, tiling?: integer[], padded?: boolean, collective?: boolean, "  \
	"packed?: boolean, layout?: string, name?: string}"

#define OPTIONS_DOC                                                                                \
	"SMEM takes `swizzle` (128, 64, 32, \"128B_atom_32B\", which float32 operands stored "     \
	"with K "                                                                                  \
	"first need, or \"none\"; default: the largest that divides a "                            \
	"row) and `padded` (float4_e2m1fn: 16 elements fill 16 bytes, as a tc.mma with 8- or "     \
	"6-bit elements, or without scales, wants them; in TMEM, as A of such a tc.mma, also "     \
	"float6_e3m2fn: each in a byte). TMEM takes `collective` (for 2-CTA "                      \
	"MMAs), `packed` (a dtype narrower than 32 "                                               \
	"bits needs it: true for an A operand, false for an f16 accumulator) or `layout` "         \
	"(\"m64_collective\", \"m64_collective_a\", \"scales\", \"b_scales_m64_collective\", "     \
	"\"sparse_metadata\"). "                                                                   \
	"`tiling` (SMEM) states the tiles a swizzle implies, {8, 8 * swizzle / bits}; without "    \
	"swizzle, {8, 128 / bits} cuts rows into panels of 16 bytes, as a tc.mma wants them. "     \
	"`name` shows in messages and dumps.\n\n"                                                  \
	"Allocations are static: one per call, whatever loop of the kernel they stand in."

static const char allocate_doc[] =
	"allocate(space: Space, shape: integer[], dtype: DType, opts?: " OPTIONS_TYPE ") -> Ref\n"
	"Allocates shared or tensor memory for the kernel that is being recorded.\n\n" OPTIONS_DOC;

static int ref_allocate(lua_State *L)
{
	return allocate_at(L, tc_check_space(L, 1), 2);
}

static const char smem_doc[] =
	"smem(shape: integer[], dtype: DType, opts?: " OPTIONS_TYPE ") -> Ref\n"
	"`tc.allocate` in shared memory. The last two dimensions are a tile, the others count "
	"tiles (stages).\n\n" OPTIONS_DOC;

static int ref_smem(lua_State *L)
{
	return allocate_at(L, SP_SMEM, 1);
}

static const char tmem_doc[] =
	"tmem(shape: integer[], dtype: DType, opts?: " OPTIONS_TYPE ") -> Ref\n"
	"`tc.allocate` in tensor memory: 64 or 128 rows (lanes), and columns of 32 bits, 512 in "
	"all.\n\n" OPTIONS_DOC;

static int ref_tmem(lua_State *L)
{
	return allocate_at(L, SP_TMEM, 1);
}

/* ---- unions -------------------------------------------------------------- */

static const char union_doc[] =
	"union(first: Ref|Ref[], second: Ref|Ref[], ...: Ref|Ref[]) -> Union\n"
	"Lets allocations share storage. Each argument is one alternative: a ref, or a list of "
	"refs that stand one after the other. All are in SMEM, or all in TMEM.\n\n"
	"The refs themselves stay usable; the union has `.space`, and for TMEM `.collective` and "
	"`.layout`.\n\n"
	"Writing one member makes the others undefined: use them one after the other, with the "
	"wait "
	"between that the memory itself would want (an MMA that reads or writes a member is waited "
	"for before another member is stored to). The emulator tracks bytes and columns, not "
	"members. On `sm_90a` members in TMEM share a budget of registers.";

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

static int union_field(lua_State *L)
{
	struct kern *k;
	struct ref *r = tc_read_recorded(L, 1, TC_UNION, &k);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
	bool layout = strcmp(key, "layout") == 0, collective = strcmp(key, "collective") == 0;

	if ((layout || collective) && r->alloc->space != SP_TMEM)
		tc_text_call(L, k, refuse_attribute, (void *)key);
	if (layout)
		lua_pushstring(L, tc_tmem_layouts[r->alloc->layout]);
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

/* ---- registration -------------------------------------------------------- */

void tc_open_alloc(lua_State *L)
{
	static const struct tc_function functions[] = {
		{"gmem", gmem_new, gmem_doc},    {"allocate", ref_allocate, allocate_doc},
		{"smem", ref_smem, smem_doc},    {"tmem", ref_tmem, tmem_doc},
		{"union", ref_union, union_doc}, {NULL, NULL, NULL},
	};
	static const luaL_Reg gmem_meta[] = {{"__tostring", gmem_tostring}, {NULL, NULL}};
	static const luaL_Reg union_meta[] = {
		{"__tostring", union_tostring}, {"__newindex", union_newindex}, {NULL, NULL}};

	tc_class(L, TC_GMEM, "The description of a kernel argument.", NULL, gmem_meta, NULL);
	tc_recorded_class(L, TC_UNION,
			  "Allocations that share storage.\n"
			  "---@field space tcmma.space\n"
			  "---@field collective boolean? Of TMEM\n"
			  "---@field layout string? Of TMEM\n",
			  NULL, union_meta, union_field);
	tc_functions(L, "tcmma", functions);
}

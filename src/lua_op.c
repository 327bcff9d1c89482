/* Matrix multiplications and copies. */
#include "check_copy.h"
#include "lua_tc.h"

#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

struct reference {
	const char *name, *space, *got;
};

static void refuse_reference(struct kern *k, void *arg)
{
	const struct reference *r = arg;

	tc_check_reference(k, r->name, r->space, r->got);
}

/* An operand of a copy: other values get the documented text. */
static struct ref *check_ref(lua_State *L, int arg, const char *name)
{
	struct reference r = {.name = name};
	struct ref *ref = tc_test_recorded(L, arg, TC_REF);

	if (ref)
		return ref;
	r.got = tc_describe(L, arg);
	tc_record_call(L, refuse_reference, &r);
	return NULL;
}

static void check_barrier(lua_State *L, int arg, struct barrier_ref *b)
{
	struct reference r = {.name = "barrier"};
	const struct barrier_ref *given = tc_test_recorded(L, arg, TC_BARRIER);

	if (given) {
		*b = *given;
		return;
	}
	r.got = tc_describe(L, arg);
	tc_record_call(L, refuse_reference, &r);
}

bool tc_option_axes(lua_State *L, int arg, const char *option, struct lua_axes *axes)
{
	lua_Integer count = 1;
	bool list;

	axes->count = 0;
	if (!tc_option_push(L, arg, option))
		return false;
	list = lua_istable(L, -1);
	if (list)
		count = luaL_len(L, -1);
	if (count < 1 || count > 3)
		tc_argerror(L, arg, "option '%s': 1 to 3 names of cluster axes expected, got %lld",
			    option, (long long)count);
	for (int i = 0; i < (int)count; i++) {
		if (list)
			lua_rawgeti(L, -1, i + 1);
		else
			lua_pushvalue(L, -1);
		if (!tc_is_text(L, -1))
			tc_argerror(L, arg, "option '%s': name of a cluster axis expected, got %s",
				    option, tc_describe(L, -1));
		axes->name[axes->count++] = lua_tostring(L, -1);
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	return true;
}

static void record(struct kern *k, void *arg)
{
	tc_kern_record(k, arg);
}

/* ---- mma ----------------------------------------------------------------- */

struct multiplication {
	struct op draft;
	const char *axis;
	struct lua_value accumulate;
};

static void record_mma(struct kern *k, void *arg)
{
	struct multiplication *x = arg;
	struct mma_op *m = &x->draft.u.mma;
	int64_t constant;

	m->collective_axis = -1;
	if (x->axis)
		m->collective_axis_name = tc_arena_strdup(&k->arena, x->axis);
	m->accumulate_const = true;
	m->accumulate_value = x->accumulate.i != 0;
	if (x->accumulate.kind == 'v') {
		if (tc_val_is_const(x->accumulate.val, &constant)) {
			m->accumulate_value = constant != 0;
		} else {
			m->accumulate = x->accumulate.val;
			m->accumulate_const = false;
		}
	}
	tc_kern_record(k, &x->draft);
}

static struct ref *option_ref(lua_State *L, int arg, const char *name)
{
	struct ref *r;

	if (!tc_option_push(L, arg, name))
		return NULL;
	r = tc_test_recorded(L, lua_gettop(L), TC_REF);
	if (!r)
		tc_argerror(L, arg, "option '%s' must be a ref, got %s", name, tc_describe(L, -1));
	lua_pop(L, 1);
	return r;
}

static void read_accumulate(lua_State *L, struct lua_value *v)
{
	v->kind = 'b';
	v->i = 1;
	if (!tc_option_push(L, 4, "accumulate"))
		return;
	if (!tc_read_value(L, lua_gettop(L), v) ||
	    !(v->kind == 'b' || (v->kind == 'v' && v->val->type == VT_PRED)))
		tc_argerror(L, 4,
			    "option 'accumulate' must be a boolean or a comparison such as "
			    "k:gt(0), got %s",
			    tc_describe(L, -1));
	lua_pop(L, 1);
}

static const char mma_doc[] =
	"mma(acc: Ref, a: Ref, b: Ref, opts?: {barrier?: Barrier, accumulate?: boolean|Scalar, "
	"depth?: integer, a_scale?: Ref, b_scale?: Ref, a_sparse_metadata?: Ref, "
	"collective_axis?: string})\n"
	"acc (M, N) = a (M, K) @ b (K, N) + acc, on the tensor core, asynchronously.\n\n"
	"`acc` is in TMEM, `a` in SMEM or TMEM, `b` in SMEM. Any K that is a multiple of the "
	"instruction's. Options:\n"
	"- `barrier`: arrives when this and all earlier MMAs of the role are complete; it needs "
	"`orders_tensor_core`\n"
	"- `accumulate` (true): boolean or recorded predicate; false overwrites `acc`\n"
	"- `depth`: multiplies only so many elements of K, the first of both operands: what "
	"lies behind is zero, or of no interest. A multiple of 32 bytes; not with scales or sparse "
	"`a`\n"
	"- `a_scale`, `b_scale`: block scales in TMEM\n"
	"- `a_sparse_metadata`: (M, entries) of `uint2` in TMEM; `a` is (M, K / 2), what "
	"`sparsify` keeps\n"
	"- `collective_axis`: cluster axis of the 2 CTAs that share the MMA; the first issues it, "
	"and the barrier arrives in both. `acc` and `a` have the rows of this CTA, `acc` the "
	"columns of both, `b` half of them";

static int op_mma(lua_State *L)
{
	static const char *const options[] = {"barrier",         "accumulate", "depth",
					      "a_scale",         "b_scale",    "a_sparse_metadata",
					      "collective_axis", NULL};
	struct multiplication x = {.draft = {.kind = OP_MMA}};
	struct mma_op *m = &x.draft.u.mma;

	m->acc = tc_check_recorded(L, 1, TC_REF);
	m->a = tc_check_recorded(L, 2, TC_REF);
	m->b = tc_check_recorded(L, 3, TC_REF);
	tc_options(L, 4, options);
	read_accumulate(L, &x.accumulate);
	m->a_scale = option_ref(L, 4, "a_scale");
	m->b_scale = option_ref(L, 4, "b_scale");
	m->a_sparse_metadata = option_ref(L, 4, "a_sparse_metadata");
	if (tc_option_push(L, 4, "barrier")) {
		const struct barrier_ref *b = tc_test_recorded(L, lua_gettop(L), TC_BARRIER);

		if (!b)
			return tc_argerror(L, 4, "option 'barrier' must be a tc.barrier, got %s",
					   tc_describe(L, -1));
		m->barrier = *b;
		lua_pop(L, 1);
	}
	m->depth = tc_option_integer(L, 4, "depth", 0, 1, INT32_MAX);
	x.axis = tc_option_string(L, 4, "collective_axis", NULL);
	tc_record_call(L, record_mma, &x);
	return 0;
}

/* ---- GMEM to SMEM and back ----------------------------------------------- */

struct copying {
	struct op draft;
	struct lua_axes axes;
};

static void record_copy(struct kern *k, void *arg)
{
	struct copying *c = arg;

	c->draft.u.copy.collective_axes = tc_kern_axes(k, c->axes.name, c->axes.count);
	tc_kern_record(k, &c->draft);
}

static void read_leader_tracked(lua_State *L, struct copy_op *c)
{
	const char *mode;

	c->partition_axis = (int)tc_option_integer(L, 4, "partition_axis", -1, 0, TC_MAX_RANK - 1);
	c->partitioned = c->partition_axis >= 0;
	if (!tc_option_push(L, 4, "leader_tracked"))
		return;
	mode = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
	if (lua_isboolean(L, -1))
		c->leader_tracked = lua_toboolean(L, -1);
	else if (strcmp(mode, "replicated") == 0 || strcmp(mode, "partitioned") == 0)
		c->leader_tracked = true;
	else
		tc_argerror(L, 4,
			    "option 'leader_tracked' must be \"replicated\", \"partitioned\" or "
			    "a boolean, got %s",
			    tc_describe(L, -1));
	if (strcmp(mode, "partitioned") == 0 && !c->partitioned)
		tc_argerror(L, 4,
			    "option 'leader_tracked' = \"partitioned\" needs partition_axis: the "
			    "dimension of dst that the CTAs divide");
	if (strcmp(mode, "replicated") == 0 && c->partitioned)
		tc_argerror(L, 4,
			    "option 'partition_axis' goes with leader_tracked = "
			    "\"partitioned\"");
	lua_pop(L, 1);
}

static const char gmem_to_smem_doc[] =
	"copy_gmem_to_smem(src: Ref, dst: Ref, barrier: Barrier, opts?: {collective_axes?: "
	"string|string[], leader_tracked?: boolean|string, partition_axis?: integer})\n"
	"Copies a tile of an argument into SMEM by TMA, asynchronously. The copy is one arrival on "
	"the barrier, whose phase completes when the bytes are there.\n\n"
	"`src` and `dst` have one shape and dtype; what lies outside the array reads as 0. "
	"Options:\n"
	"- `collective_axes`: cluster axes whose CTAs all receive the tile\n"
	"- `leader_tracked`: \"replicated\" or \"partitioned\": the first CTA's barrier alone "
	"has the arrival, and counts the bytes of both CTAs\n"
	"- `partition_axis`: dimension of `dst` that the CTAs divide among them";

static int op_gmem_to_smem(lua_State *L)
{
	static const char *const options[] = {"collective_axes", "leader_tracked", "partition_axis",
					      NULL};
	struct copying c = {.draft = {.kind = OP_COPY_GMEM_TO_SMEM}};
	struct copy_op *o = &c.draft.u.copy;

	o->src = check_ref(L, 1, "src");
	o->dst = check_ref(L, 2, "dst");
	if (!lua_isnoneornil(L, 3))
		check_barrier(L, 3, &o->barrier);
	tc_options(L, 4, options);
	read_leader_tracked(L, o);
	tc_option_axes(L, 4, "collective_axes", &c.axes);
	o->commit_group = true;
	tc_record_call(L, record_copy, &c);
	return 0;
}

static void read_reduction(lua_State *L, struct copy_op *c)
{
	const char *name = tc_option_string(L, 3, "reduction_op", NULL);

	if (!name)
		return;
	lua_pushliteral(L, "");
	for (const struct store_reduction *r = tc_store_reductions; r->name; r++) {
		if (strcmp(name, r->name) == 0) {
			c->reduce = r;
			lua_pop(L, 1);
			return;
		}
		lua_pushfstring(L, "%s%s", r == tc_store_reductions ? "" : ", ", r->name);
		lua_concat(L, 2);
	}
	tc_argerror(L, 3, "option 'reduction_op' must be one of %s; got \"%s\"",
		    lua_tostring(L, -1), name);
}

static const char smem_to_gmem_doc[] =
	"copy_smem_to_gmem(src: Ref, dst: Ref, opts?: {commit_group?: boolean, reduction_op?: "
	"string})\n"
	"Copies SMEM to a tile of an argument by TMA, asynchronously; what lies outside the array "
	"is not written.\n\n"
	"Call `tc.commit_smem()` between a `ref:store` and the copy that reads it, and "
	"`tc.wait_smem_to_gmem(n)` before the SMEM is written again. Options:\n"
	"- `commit_group` (true): closes the group of copies that `wait_smem_to_gmem` counts\n"
	"- `reduction_op`: what is done to the elements of GMEM with those of SMEM, each "
	"atomically: "
	"\"add\", \"min\", \"max\" (16-bit floats, integers of 32 and 64 bits; add also float32), "
	"\"umin\", \"umax\", \"smin\", \"smax\" (integers as if they had no sign, or one), "
	"\"inc\", "
	"\"dec\" (32 bits: up to, down from the element of SMEM, then around), \"and\", \"or\", "
	"\"xor\"";

static int op_smem_to_gmem(lua_State *L)
{
	static const char *const options[] = {"commit_group", "reduction_op", NULL};
	struct copying c = {.draft = {.kind = OP_COPY_SMEM_TO_GMEM}};
	struct copy_op *o = &c.draft.u.copy;

	o->src = check_ref(L, 1, "src");
	o->dst = check_ref(L, 2, "dst");
	if (tc_test_object(L, 3, TC_BARRIER)) {
		check_barrier(L, 3, &o->barrier);
		lua_settop(L, 2);
	}
	tc_options(L, 3, options);
	o->commit_group = tc_option_boolean(L, 3, "commit_group", true);
	o->partition_axis = -1;
	read_reduction(L, o);
	tc_record_call(L, record_copy, &c);
	return 0;
}

static const char wait_smem_doc[] =
	"wait_smem_to_gmem(n: integer, opts?: {wait_read_only?: boolean})\n"
	"Waits until at most `n` groups of this role's SMEM-to-GMEM copies are unfinished; with "
	"`wait_read_only` until their SMEM has been read. That is also enough in a kernel that "
	"never "
	"looks at what it has copied, and taken unless `wait_read_only = false` says that GMEM "
	"must "
	"be written, as before another copy to the same place.";

static int op_wait_smem(lua_State *L)
{
	static const char *const options[] = {"wait_read_only", NULL};
	struct op draft = {.kind = OP_WAIT_SMEM_TO_GMEM};

	draft.u.wait_smem.n = (int)tc_check_integer(L, 1, 0, 63);
	tc_options(L, 2, options);
	draft.u.wait_smem.read_only = tc_option_boolean(L, 2, "wait_read_only", false);
	if (tc_option_push(L, 2, "wait_read_only"))
		draft.u.wait_smem.written = !draft.u.wait_smem.read_only;
	tc_record_call(L, record, &draft);
	return 0;
}

/* ---- orders without operands --------------------------------------------- */

static int plain(lua_State *L, enum op_kind kind)
{
	struct op draft = {.kind = kind};

	if (lua_gettop(L) > 0)
		return tc_argerror(L, 1, "no argument expected, got %s", tc_describe(L, 1));
	tc_record_call(L, record, &draft);
	return 0;
}

static int op_commit_smem(lua_State *L)
{
	return plain(L, OP_COMMIT_SMEM);
}

static int op_commit_gmem(lua_State *L)
{
	return plain(L, OP_COMMIT_GMEM);
}

static int op_wait_load_tmem(lua_State *L)
{
	return plain(L, OP_WAIT_LOAD_TMEM);
}

static int op_commit_tmem(lua_State *L)
{
	return plain(L, OP_COMMIT_TMEM);
}

/* ---- TMEM ---------------------------------------------------------------- */

/*
 * collective_axis of a copy into TMEM is resolved here: the payload has no
 * name, and an unknown axis is a documented error.
 */
struct tmem_copying {
	struct op draft;
	const char *axis;
};

static void record_tmem_copy(struct kern *k, void *arg)
{
	struct tmem_copying *c = arg;

	c->draft.u.tmem_copy.collective_axis = -1;
	if (c->axis) {
		tc_kern_axes(k, &c->axis, 1);
		c->draft.u.tmem_copy.collective_axis = tc_kern_cluster_axis(k, c->axis);
	}
	tc_kern_record(k, &c->draft);
}

static int tmem_copy(lua_State *L, enum op_kind kind)
{
	static const char *const options[] = {"collective_axis", NULL};
	struct tmem_copying c = {.draft = {.kind = kind}};

	c.draft.u.tmem_copy.src = check_ref(L, 1, "src");
	c.draft.u.tmem_copy.dst = check_ref(L, 2, "dst");
	tc_options(L, 3, options);
	c.axis = tc_option_string(L, 3, "collective_axis", NULL);
	tc_record_call(L, record_tmem_copy, &c);
	return 0;
}

static int op_copy_to_tmem(lua_State *L)
{
	return tmem_copy(L, OP_ASYNC_COPY_SMEM_TO_TMEM);
}

static int op_copy_scales(lua_State *L)
{
	return tmem_copy(L, OP_ASYNC_COPY_SCALES_TO_TMEM);
}

static int op_copy_metadata(lua_State *L)
{
	return tmem_copy(L, OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM);
}

struct tmem_access {
	struct ref *ref;
	struct lua_value value;
	const char *reduce; /* NULL: no reduction */
	struct frag *result, *reduced;
};

static enum reduce_op load_reduction(struct kern *k, const struct tmem_access *a)
{
	static const struct {
		const char *name;
		enum reduce_op op;
	} reductions[] = {
		{"max", RO_MAX}, {"min", RO_MIN}, {"absmax", RO_ABSMAX}, {"absmin", RO_ABSMIN}};
	enum dtype t = a->ref->alloc->dtype;

	if (t != DT_F32 && t != DT_I32 && t != DT_U32)
		tc_documented(&k->err, LOAD_REDUCE_DTYPE, tc_got(k, "the ref", a->ref),
			      tc_dtypes[t].name);
	for (size_t i = 0; i < sizeof reductions / sizeof reductions[0]; i++)
		if (strcmp(reductions[i].name, a->reduce) == 0)
			return reductions[i].op;
	tc_documented(&k->err, LOAD_REDUCE_OP, "", a->reduce);
}

static void record_tmem_load(struct kern *k, void *arg)
{
	struct tmem_access *a = arg;
	struct op draft = {.kind = OP_ASYNC_LOAD_TMEM};
	enum reduce_op reduction = RO_MAX;
	int shape[2] = {0, 0};

	draft.u.load.ref = a->ref;
	tc_ref_usable(k, a->ref);
	tc_check_async_load_tmem(k, &draft.u.load);
	if (a->reduce)
		reduction = load_reduction(k, a);
	for (int i = 0; i < a->ref->rank; i++)
		shape[i] = (int)a->ref->shape[i].size;
	draft.u.load.result = tc_frag_new(k, a->ref->alloc->dtype, a->ref->rank, shape);
	a->result = tc_kern_record(k, &draft)->u.load.result;
	if (a->reduce)
		a->reduced = tc_frag_reduce(k, reduction, a->result, 1);
}

static const char load_tmem_doc[] =
	"async_load_tmem(src: Ref, opts?: {reduce?: \"max\"|\"min\"|\"absmax\"|\"absmin\"}) -> "
	"Fragment, Fragment?\n"
	"Loads TMEM into a fragment, in a role of whole warpgroups. The MMAs that wrote it must "
	"have been waited for (their barrier).\n\n"
	"The fragment can be used at once. Call `tc.wait_load_tmem()` before an MMA of the same "
	"role overwrites what was loaded. Options:\n"
	"- `reduce`: of 32-bit types; there is a second result, of each row the greatest or the "
	"least element or magnitude, as `:reduce(op, 1)` of the fragment gives it. On `sm_103a` "
	"the load itself finds it (`tcgen05.ld.red`), asked for here or by `:reduce` of what was "
	"loaded, but not in 64 rows of one CTA and not the magnitudes of integers: registers do, "
	"as on other targets";

static int op_load_tmem(lua_State *L)
{
	static const char *const options[] = {"reduce", NULL};
	struct tmem_access a = {.ref = tc_check_recorded(L, 1, TC_REF)};

	tc_options(L, 2, options);
	a.reduce = tc_option_string(L, 2, "reduce", NULL);
	tc_record_call(L, record_tmem_load, &a);
	tc_push_recorded(L, TC_FRAGMENT, a.result);
	if (!a.reduce)
		return 1;
	tc_push_recorded(L, TC_FRAGMENT, a.reduced);
	return 2;
}

static void record_tmem_store(struct kern *k, void *arg)
{
	struct tmem_access *a = arg;
	struct op draft = {.kind = OP_ASYNC_STORE_TMEM};
	const struct alloc *alloc = a->ref->alloc;

	draft.u.store.ref = a->ref;
	draft.u.store.value = a->value.frag;
	tc_ref_usable(k, a->ref);
	if (!a->value.frag) {
		struct frag shape = {.dtype = alloc->dtype};
		struct store_op probe = {.ref = a->ref, .value = &shape};

		tc_check_async_store_tmem(k, &probe);
		tc_check_place(k, &draft);
		for (int i = 0; i < a->ref->rank; i++)
			shape.shape[i] = (int)a->ref->shape[i].size;
		if (a->value.kind == 'f' && a->value.integral &&
		    tc_dtypes[alloc->dtype].klass != 'F')
			a->value.kind = 'i';
		draft.u.store.value = tc_frag_full(k, tc_value_node(k, &a->value), alloc->dtype,
						   a->ref->rank, shape.shape);
	}
	tc_kern_record(k, &draft);
}

static const char store_tmem_doc[] =
	"async_store_tmem(dst: Ref, value: Fragment|Scalar|number)\n"
	"Stores a fragment of the ref's shape and dtype into TMEM, in a role of whole "
	"warpgroups.\n\n"
	"Call `tc.commit_tmem()` before an MMA reads it.";

static int op_store_tmem(lua_State *L)
{
	struct tmem_access a = {.ref = tc_check_recorded(L, 1, TC_REF)};

	if (!tc_read_value(L, 2, &a.value))
		return tc_documented_error(L, STORED_FRAGMENT, "\n  it is the value, argument 2",
					   tc_describe(L, 2));
	tc_record_call(L, record_tmem_store, &a);
	return 0;
}

/* ---- registration -------------------------------------------------------- */

static const struct tc_function functions[] = {
	{"mma", op_mma, mma_doc},
	{"copy_gmem_to_smem", op_gmem_to_smem, gmem_to_smem_doc},
	{"copy_smem_to_gmem", op_smem_to_gmem, smem_to_gmem_doc},
	{"wait_smem_to_gmem", op_wait_smem, wait_smem_doc},
	{"commit_smem", op_commit_smem,
	 "commit_smem()\n"
	 "Makes the role's stores to SMEM visible to copies and MMAs (a proxy fence and a barrier "
	 "of the role)."},
	{"commit_gmem", op_commit_gmem,
	 "commit_gmem()\n"
	 "Makes the role's stores to GMEM visible to later `tc.copy_gmem_to_smem` of this block."},
	{"async_copy_smem_to_tmem", op_copy_to_tmem,
	 "async_copy_smem_to_tmem(src: Ref, dst: Ref, opts?: {collective_axis?: string})\n"
	 "Copies a tile from SMEM to TMEM, in order with later MMAs of the role."},
	{"async_copy_scales_to_tmem", op_copy_scales,
	 "async_copy_scales_to_tmem(src: Ref, dst: Ref, opts?: {collective_axis?: string})\n"
	 "Copies block scales from SMEM to TMEM, in order with later MMAs of the role. `dst` is "
	 "(rows, blocks), `src` (rows / 128, blocks / 4, 32, 16) as `interleave_scales` makes it."},
	{"async_copy_sparse_metadata_to_tmem", op_copy_metadata,
	 "async_copy_sparse_metadata_to_tmem(src: Ref, dst: Ref, opts?: {collective_axis?: "
	 "string})\n"
	 "Copies the metadata of a sparse operand from SMEM to TMEM, in order with later MMAs of "
	 "the role. `dst` is (128, entries), `src` (1, entries / 64, 128, 64) as `sparsify` makes "
	 "it, both of `uint2`."},
	{"async_load_tmem", op_load_tmem, load_tmem_doc},
	{"async_store_tmem", op_store_tmem, store_tmem_doc},
	{"wait_load_tmem", op_wait_load_tmem,
	 "wait_load_tmem()\n"
	 "Waits for the role's TMEM loads, so that an MMA of this role may overwrite what they "
	 "read."},
	{"commit_tmem", op_commit_tmem,
	 "commit_tmem()\n"
	 "Makes the role's stores to TMEM visible to later MMAs."},
	{NULL, NULL, NULL},
};

void tc_open_op(lua_State *L)
{
	tc_functions(L, "tcmma", functions);
}

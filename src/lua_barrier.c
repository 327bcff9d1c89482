/* Barriers: making, indexing, arriving, waiting. */
#include "lua_tc.h"

#include <string.h>

/* ---- making -------------------------------------------------------------- */

struct making {
	struct barrier draft;
	int groups; /* of a cluster barrier */
	struct lua_axes group[3];
	struct barrier_ref *result;
};

static struct barrier_ref *new_ref(struct kern *k, struct barrier *b, struct val *index)
{
	struct barrier_ref *r = tc_arena_alloc(&k->arena, sizeof *r);

	r->barrier = b;
	r->index = index;
	return r;
}

static void make(struct kern *k, void *arg)
{
	struct making *m = arg;

	m->draft.cluster_groups = m->groups;
	for (int i = 0; i < m->groups; i++) {
		m->draft.cluster_group[i] = tc_kern_axes(k, m->group[i].name, m->group[i].count);
		m->draft.cluster_axes |= m->draft.cluster_group[i];
	}
	m->result = new_ref(k, tc_kern_barrier(k, &m->draft), NULL);
}

/* Low bounds are left to tc_check_barrier, which has the documented texts. */
static void read_counts(lua_State *L, struct barrier *b)
{
	b->num_arrivals = (int)tc_option_integer(L, 1, "num_arrivals", 1, INT32_MIN, (1 << 20) - 1);
	b->num_barriers = (int)tc_option_integer(L, 1, "num_barriers", 1, INT32_MIN, INT32_MAX);
	b->orders_tensor_core = tc_option_boolean(L, 1, "orders_tensor_core", false);
	b->name = tc_option_string(L, 1, "name", NULL);
}

static const char barrier_doc[] =
	"barrier(opts?: {num_arrivals?: integer, num_barriers?: integer, orders_tensor_core?: "
	"boolean, name?: string}) -> Barrier\n"
	"An mbarrier, or an array of them, in shared memory.\n\n"
	"- `num_arrivals` (1): operations as written that complete a phase; each copy, mma with "
	"`barrier=`, `tc.commit_arrive` and `tc.barrier_arrive` counts 1\n"
	"- `num_barriers` (1, at most 32): length of the array, which `barrier[i]` indexes from 0\n"
	"- `orders_tensor_core` (false): arrivals on it order tensor-core operations; needed for "
	"an MMA's barrier\n"
	"- `name`: shown in messages and dumps";

static int barrier_new(lua_State *L)
{
	static const char *const options[] = {"num_arrivals", "num_barriers", "orders_tensor_core",
					      "name", NULL};
	struct making m = {0};

	tc_current_kernel(L);
	tc_options(L, 1, options);
	read_counts(L, &m.draft);
	tc_record_call(L, make, &m);
	tc_push_recorded(L, TC_BARRIER, m.result);
	return 1;
}

static const char cluster_barrier_doc[] =
	"cluster_barrier(opts: {collective_axes: string|(string|string[])[], num_arrivals?: "
	"integer, num_barriers?: integer, orders_tensor_core?: boolean, leader_tracked?: boolean, "
	"name?: string}) -> Barrier\n"
	"A barrier in every CTA of the cluster: an arrival arrives at those of all CTAs along "
	"`collective_axes`.\n\n"
	"- `collective_axes` (required): a cluster axis by name, or a list. An arrival reaches the "
	"CTAs that differ from its own along one entry of the list; an entry may be a list of axes "
	"itself, and stands for all CTAs along them\n"
	"- `num_arrivals` counts the operations of one CTA: each arrives at its peers too\n"
	"- `leader_tracked` (false): arrivals reach only the first CTA along the one axis, which "
	"alone can wait\n"
	"- `num_barriers`, `orders_tensor_core`, `name`: as for `tc.barrier`";

static void read_group(lua_State *L, struct lua_axes *group)
{
	bool list = lua_istable(L, -1);
	lua_Integer count = list ? luaL_len(L, -1) : 1;

	if (count < 1 || count > 3)
		tc_argerror(L, 1,
			    "option 'collective_axes': a group of 1 to 3 cluster axes, got %lld",
			    (long long)count);
	group->count = (int)count;
	for (int i = 0; i < group->count; i++) {
		if (list)
			lua_rawgeti(L, -1, i + 1);
		else
			lua_pushvalue(L, -1);
		if (!tc_is_text(L, -1))
			tc_argerror(
				L, 1,
				"option 'collective_axes': name of a cluster axis expected, got %s",
				tc_describe(L, -1));
		group->name[i] = lua_tostring(L, -1);
		lua_pop(L, 1);
	}
}

/* "x", {"x", "y"}: the CTAs of my row and of my column; {{"x", "y"}}: of my plane. */
static void read_groups(lua_State *L, struct making *m)
{
	if (!tc_option_push(L, 1, "collective_axes"))
		tc_argerror(
			L, 1,
			"option 'collective_axes' is missing: a cluster axis, or a list of them");
	if (lua_istable(L, -1)) {
		lua_Integer count = luaL_len(L, -1);

		if (count < 1 || count > 3)
			tc_argerror(L, 1, "option 'collective_axes': 1 to 3 entries, got %lld",
				    (long long)count);
		m->groups = (int)count;
		for (int i = 0; i < m->groups; i++) {
			lua_rawgeti(L, -1, i + 1);
			read_group(L, &m->group[i]);
			lua_pop(L, 1);
		}
	} else {
		m->groups = 1;
		read_group(L, &m->group[0]);
	}
	lua_pop(L, 1);
}

static int cluster_barrier_new(lua_State *L)
{
	static const char *const options[] = {"num_arrivals",
					      "num_barriers",
					      "orders_tensor_core",
					      "collective_axes",
					      "name",
					      "leader_tracked",
					      NULL};
	struct making m = {0};

	tc_current_kernel(L);
	tc_options(L, 1, options);
	m.draft.cluster = true;
	m.draft.leader_tracked = tc_option_boolean(L, 1, "leader_tracked", false);
	read_groups(L, &m);
	read_counts(L, &m.draft);
	tc_record_call(L, make, &m);
	tc_push_recorded(L, TC_BARRIER, m.result);
	return 1;
}

/* ---- indexing ------------------------------------------------------------ */

struct indexing {
	const struct barrier_ref *of;
	struct lua_value index;
	struct barrier_ref *result;
};

static void index_barrier(struct kern *k, void *arg)
{
	struct indexing *x = arg;
	struct val *index = tc_value_node(k, &x->index);

	tc_barrier_usable(k, x->of);
	if (x->of->index)
		tc_fail(&k->err, "this barrier is one of an array already: it was indexed by %s",
			tc_val_text(k, x->of->index));
	tc_val_usable(k, index);
	tc_check_barrier_index(k, x->of->barrier, index);
	x->result = new_ref(k, x->of->barrier, index);
	x->result->cluster_rank = x->of->cluster_rank;
}

static void refuse_index(struct kern *k, void *got)
{
	tc_documented(&k->err, BARRIER_INDEX_TYPE, "", (const char *)got);
}

static int barrier_field(lua_State *L)
{
	struct indexing x;
	const struct barrier *b;
	const char *key;

	if (lua_type(L, 2) != LUA_TSTRING) {
		x.of = tc_check_recorded(L, 1, TC_BARRIER);
		if (!tc_read_value(L, 2, &x.index) || strchr("bt", x.index.kind) ||
		    (x.index.kind == 'f' && !x.index.integral))
			tc_record_call(L, refuse_index, (void *)tc_describe(L, 2));
		if (x.index.kind == 'f')
			x.index.kind = 'i';
		tc_record_call(L, index_barrier, &x);
		tc_push_recorded(L, TC_BARRIER, x.result);
		return 1;
	}
	b = ((struct barrier_ref *)tc_read_recorded(L, 1, TC_BARRIER, NULL))->barrier;
	key = lua_tostring(L, 2);
	if (strcmp(key, "num_arrivals") == 0)
		lua_pushinteger(L, b->num_arrivals);
	else if (strcmp(key, "num_barriers") == 0)
		lua_pushinteger(L, b->num_barriers);
	else if (strcmp(key, "orders_tensor_core") == 0)
		lua_pushboolean(L, b->orders_tensor_core);
	else
		return 0;
	return 1;
}

static int barrier_len(lua_State *L)
{
	const struct barrier_ref *r = tc_read_recorded(L, 1, TC_BARRIER, NULL);

	lua_pushinteger(L, r->index ? 1 : r->barrier->num_barriers);
	return 1;
}

static int barrier_tostring(lua_State *L)
{
	const struct barrier_ref *r = tc_read_recorded(L, 1, TC_BARRIER, NULL);
	const struct barrier *b = r->barrier;

	lua_pushfstring(L, "%s%s%s%s, %d arrival%s, %s made at %s",
			b->cluster ? "cluster barrier" : "barrier", b->name ? " '" : "",
			b->name ? b->name : "", b->name ? "'" : "", b->num_arrivals,
			b->num_arrivals == 1 ? "" : "s",
			lua_pushfstring(L,
					r->index              ? "one of %d,"
					: b->num_barriers > 1 ? "array of %d,"
							      : "single,",
					b->num_barriers),
			tc_push_place(L, b->pos));
	return 1;
}

static void refuse_array(struct kern *k, void *ref)
{
	if (((const struct barrier_ref *)ref)->barrier->cluster)
		tc_documented(&k->err, CLUSTER_BARRIER_ARRAY, "");
	tc_documented(&k->err, BARRIER_ARRAY, "");
}

static int barrier_newindex(lua_State *L)
{
	const struct barrier_ref *r = tc_check_recorded(L, 1, TC_BARRIER);

	tc_record_call(L, refuse_array, (void *)r);
	return 0;
}

/* ---- operations ---------------------------------------------------------- */

struct recording {
	struct op draft;
	struct lua_value parity;
	const char *axis;
};

static void record(struct kern *k, void *arg)
{
	struct recording *r = arg;

	if (r->parity.kind)
		r->draft.u.wait.parity = tc_value_node(k, &r->parity);
	if (r->axis)
		r->draft.u.arrive.collective_axis_name = tc_arena_strdup(&k->arena, r->axis);
	tc_kern_record(k, &r->draft);
}

static void refuse_barrier(struct kern *k, void *got)
{
	tc_check_reference(k, "barrier", "SMEM", got);
}

static const struct barrier_ref *check_barrier(lua_State *L)
{
	if (!tc_test_object(L, 1, TC_BARRIER))
		tc_record_call(L, refuse_barrier, (void *)tc_describe(L, 1));
	return tc_check_recorded(L, 1, TC_BARRIER);
}

static const char arrive_doc[] =
	"barrier_arrive(barrier: Barrier)\n"
	"Arrives once: what the role's threads did before is visible to those that wait. On a "
	"barrier with `orders_tensor_core`, TMEM loads and stores before it are complete too.";

static int barrier_arrive(lua_State *L)
{
	struct recording r = {.draft = {.kind = OP_BARRIER_ARRIVE}};

	r.draft.u.arrive.barrier = *check_barrier(L);
	r.draft.u.arrive.collective_axis = -1;
	tc_record_call(L, record, &r);
	return 0;
}

static const char wait_doc[] =
	"barrier_wait(barrier: Barrier, opts?: {parity?: integer|Scalar})\n"
	"Waits for the next phase of the barrier. Phases are counted for you, per role: a role's "
	"i-th executed wait awaits the i-th completion.\n\n"
	"`parity` (0 or 1, or a recorded s32) waits for the phase of that parity instead and "
	"leaves the count alone; one role uses one of the two forms on one barrier. The "
	"first phase has parity 0; a wait for parity 1 passes while it is open.";

static int barrier_wait(lua_State *L)
{
	static const char *const options[] = {"parity", NULL};
	struct recording r = {.draft = {.kind = OP_BARRIER_WAIT}};

	r.draft.u.wait.barrier = *check_barrier(L);
	if (tc_options(L, 2, options) && tc_option_push(L, 2, "parity")) {
		if (!tc_read_value(L, lua_gettop(L), &r.parity) ||
		    !((r.parity.kind == 'i' && (r.parity.i == 0 || r.parity.i == 1)) ||
		      (r.parity.kind == 'v' && r.parity.val->type == VT_S32)))
			return tc_argerror(L, 2,
					   "option 'parity' must be 0, 1 or a recorded s32, "
					   "got %s",
					   tc_describe(L, -1));
	}
	tc_record_call(L, record, &r);
	return 0;
}

static const char commit_arrive_doc[] =
	"commit_arrive(barrier: Barrier, opts?: {collective_axis?: string})\n"
	"Arrives when all MMAs and SMEM-to-TMEM copies that this role has issued so far are "
	"complete. The barrier must order the tensor core.\n\n"
	"`collective_axis`: cluster axis of the 2 CTAs whose MMAs they are: the first issues the "
	"arrival, in both.";

static int barrier_commit_arrive(lua_State *L)
{
	static const char *const options[] = {"collective_axis", NULL};
	struct recording r = {.draft = {.kind = OP_COMMIT_ARRIVE}};

	r.draft.u.arrive.barrier = *check_barrier(L);
	r.draft.u.arrive.collective_axis = -1;
	tc_options(L, 2, options);
	r.axis = tc_option_string(L, 2, "collective_axis", NULL);
	tc_record_call(L, record, &r);
	return 0;
}

/* ---- other CTAs ------------------------------------------------------------ */

struct remote {
	const struct ref *ref;
	const struct barrier_ref *barrier;
	struct lua_value rank;
	struct ref *ref_result;
	struct barrier_ref *barrier_result;
};

static void make_remote(struct kern *k, void *arg)
{
	struct remote *r = arg;
	struct val *rank = tc_value_node(k, &r->rank);

	tc_val_usable(k, rank);
	if (r->ref) {
		tc_ref_usable(k, r->ref);
		tc_check_cluster_ref(k, r->ref, rank);
		r->ref_result = tc_arena_alloc(&k->arena, sizeof *r->ref_result);
		*r->ref_result = *r->ref;
		r->ref_result->cluster_rank = rank;
		return;
	}
	tc_barrier_usable(k, r->barrier);
	tc_check_cluster_barrier_ref(k, r->barrier, rank);
	r->barrier_result = new_ref(k, r->barrier->barrier, r->barrier->index);
	r->barrier_result->cluster_rank = rank;
}

static void refuse_remote(struct kern *k, void *got)
{
	tc_check_reference(k, "ref", NULL, got);
}

static const char cluster_ref_doc[] =
	"cluster_ref(ref: Ref|Barrier, rank: integer|Scalar) -> Ref|Barrier\n"
	"The same SMEM, or the same barrier, in another CTA of the cluster. `rank` counts the CTAs "
	"from 0, the last cluster axis fastest.\n\n"
	"A ref of a peer can be stored to, a barrier of a peer arrived on. Waits, loads, copies "
	"and "
	"MMAs work on the CTA's own memory.";

static int cluster_ref_new(lua_State *L)
{
	struct remote r = {.ref = tc_test_recorded(L, 1, TC_REF),
			   .barrier = tc_test_recorded(L, 1, TC_BARRIER)};

	tc_current_kernel(L);
	if (!r.ref && !r.barrier)
		tc_record_call(L, refuse_remote, (void *)tc_describe(L, 1));
	if (!tc_read_value(L, 2, &r.rank) ||
	    !(r.rank.kind == 'i' || (r.rank.kind == 'f' && r.rank.integral) ||
	      (r.rank.kind == 'v' && r.rank.val->type == VT_S32)))
		return tc_argerror(L, 2,
				   "rank of a CTA expected, an integer or a recorded s32; got %s",
				   tc_describe(L, 2));
	r.rank.kind = r.rank.kind == 'f' ? 'i' : r.rank.kind;
	tc_record_call(L, make_remote, &r);
	if (r.ref)
		tc_push_recorded(L, TC_REF, r.ref_result);
	else
		tc_push_recorded(L, TC_BARRIER, r.barrier_result);
	return 1;
}

void tc_open_barrier(lua_State *L)
{
	static const struct tc_function functions[] = {
		{"barrier", barrier_new, barrier_doc},
		{"cluster_barrier", cluster_barrier_new, cluster_barrier_doc},
		{"barrier_arrive", barrier_arrive, arrive_doc},
		{"barrier_wait", barrier_wait, wait_doc},
		{"commit_arrive", barrier_commit_arrive, commit_arrive_doc},
		{"cluster_ref", cluster_ref_new, cluster_ref_doc},
		{NULL, NULL, NULL},
	};
	static const luaL_Reg meta[] = {
		{"__tostring", barrier_tostring},
		{"__len", barrier_len},
		{"__newindex", barrier_newindex},
		{NULL, NULL},
	};

	tc_recorded_class(L, TC_BARRIER,
			  "A barrier or an array of them; `barrier[i]` is one, 0-based.\n"
			  "---@field num_arrivals integer\n"
			  "---@field num_barriers integer\n"
			  "---@field orders_tensor_core boolean\n",
			  NULL, meta, barrier_field);
	tc_functions(L, "tcmma", functions);
}

/* Where a block stands in the grid and its cluster, and how many tiles cover a size. */
#include "lua_tc.h"

#include <string.h>

struct axis {
	const char *name;
	lua_Integer number; /* when name is NULL */
	int axis;
	int64_t size;
	struct val *result;
};

/* NULL: none has a name. */
static const char *axis_list(struct kern *k)
{
	struct strbuf b = {.arena = &k->arena};
	const char *text;
	int names = 0;

	for (int i = 0; i < k->grid_rank + k->cluster_rank; i++) {
		const char *name =
			i < k->grid_rank ? k->grid_names[i] : k->cluster_names[i - k->grid_rank];

		if (name)
			tc_printf(&b, "%s'%s'", names++ ? ", " : "", name);
	}
	text = names ? tc_arena_printf(&k->arena, names == 1 ? "(%s,)" : "(%s)", b.text) : NULL;
	tc_strbuf_free(&b);
	return text;
}

static void find_axis(struct kern *k, void *arg)
{
	struct axis *a = arg;
	int count = k->grid_rank + k->cluster_rank;

	a->axis = -1;
	for (int i = 0; a->name && i < count; i++) {
		const char *name =
			i < k->grid_rank ? k->grid_names[i] : k->cluster_names[i - k->grid_rank];

		if (name && strcmp(name, a->name) == 0)
			a->axis = i;
	}
	if (!a->name && a->number >= 0 && a->number < k->grid_rank)
		a->axis = (int)a->number;
	if (a->axis < 0 && a->name && !axis_list(k))
		tc_documented(&k->err, AXIS_NO_NAMES, "");
	if (a->axis < 0 && a->name)
		tc_documented(&k->err, AXIS_UNKNOWN, "", a->name, axis_list(k), "()");
	if (a->axis < 0)
		tc_fail(&k->err, "grid axis %lld of a grid of %d; axes count from 0",
			(long long)a->number, k->grid_rank);
	a->size = a->axis < k->grid_rank ? k->grid[a->axis] : k->cluster[a->axis - k->grid_rank];
	a->result = tc_val_axis(k, a->axis);
}

static void check_axis(lua_State *L, struct axis *a)
{
	a->name = NULL;
	if (tc_is_text(L, 1))
		a->name = lua_tostring(L, 1);
	else if (lua_isinteger(L, 1))
		a->number = lua_tointeger(L, 1);
	else
		tc_argerror(L, 1, "name of a grid or cluster axis expected, got %s",
			    tc_describe(L, 1));
	tc_record_call(L, find_axis, a);
}

static const char axis_index_doc[] =
	"axis_index(axis: string|integer) -> Scalar\n"
	"The index of this block along an axis of the grid, or of this CTA along an axis of the "
	"cluster, by its name in `grid_names` or `cluster_names`; a number counts the grid's axes "
	"from 0.";

static int axis_index(lua_State *L)
{
	struct axis a;

	check_axis(L, &a);
	tc_push_scalar(L, a.result);
	return 1;
}

static const char axis_size_doc[] =
	"axis_size(axis: string|integer) -> integer\n"
	"How long an axis of the grid or the cluster is. Raises when a function gives the grid at "
	"launch: compute the size from the named dimensions then.";

static int axis_size(lua_State *L)
{
	struct axis a;

	check_axis(L, &a);
	if (a.size < 0)
		return tc_error(L, "the grid of this kernel is known only at launch: compute the "
				   "size from the named dimensions (ref.shape)");
	lua_pushinteger(L, a.size);
	return 1;
}

static const char cdiv_doc[] =
	"cdiv(a: integer|Scalar, b: integer|Scalar) -> integer|Scalar\n"
	"a / b rounded up, for b > 0: how many tiles of b cover a. Exact for "
	"every s32.";

struct ceiling {
	struct lua_value a, b;
	struct val *result;
};

static void divide_up(struct kern *k, void *arg)
{
	struct ceiling *c = arg;
	struct val *a = tc_value_node(k, &c->a), *b = tc_value_node(k, &c->b);
	struct val *rest = tc_val_expr(k, SO_MOD, a, b, NULL);

	/* a + b - 1 may overflow; a remainder of b > 0 is not negative. */
	c->result = tc_val_expr(k, SO_ADD, tc_val_expr(k, SO_FLOORDIV, a, b, NULL),
				tc_val_expr(k, SO_MIN, rest, tc_val_const(k, 1), NULL), NULL);
}

static int cdiv(lua_State *L)
{
	struct ceiling c;

	if (lua_isinteger(L, 1) && lua_isinteger(L, 2)) {
		lua_Integer a = lua_tointeger(L, 1), b = lua_tointeger(L, 2);

		if (b <= 0)
			return tc_argerror(L, 2, "a divisor above 0 expected, got %lld",
					   (long long)b);
		lua_pushinteger(L, a / b + (a % b > 0));
		return 1;
	}
	tc_check_index_value(L, 1, &c.a, "dividend");
	tc_check_index_value(L, 2, &c.b, "divisor");
	tc_record_call(L, divide_up, &c);
	tc_push_scalar(L, c.result);
	return 1;
}

static const struct tc_function functions[] = {
	{"axis_index", axis_index, axis_index_doc},
	{"axis_size", axis_size, axis_size_doc},
	{"cdiv", cdiv, cdiv_doc},
	{NULL, NULL, NULL},
};

void tc_open_axis(lua_State *L)
{
	tc_functions(L, "tcmma", functions);
}

/* Recorded scalars: operators and methods. */
#include "lua_tc.h"

#include <math.h>
#include <string.h>

/* ---- Lua values as operands ---------------------------------------------- */

bool tc_read_value(lua_State *L, int arg, struct lua_value *v)
{
	lua_Integer i;
	int ok;

	memset(v, 0, sizeof *v);
	switch (lua_type(L, arg)) {
	case LUA_TNUMBER:
		i = lua_tointegerx(L, arg, &ok);
		v->kind = lua_isinteger(L, arg) ? 'i' : 'f';
		v->integral = ok && i >= INT32_MIN && i <= INT32_MAX;
		v->i = ok ? i : 0;
		v->f = lua_tonumber(L, arg);
		if (v->kind == 'i' && !v->integral)
			tc_error(L, "integer %lld does not fit a recorded s32 (%d to %d)",
				 (long long)i, INT32_MIN, INT32_MAX);
		return true;
	case LUA_TBOOLEAN:
		v->kind = 'b';
		v->i = lua_toboolean(L, arg);
		return true;
	case LUA_TUSERDATA:
		v->val = tc_test_recorded(L, arg, TC_SCALAR);
		v->frag = v->val ? NULL : tc_test_recorded(L, arg, TC_FRAGMENT);
		v->kind = v->val ? 'v' : v->frag ? 't' : 0;
		return v->kind != 0;
	default:
		return false;
	}
}

static bool is_integer_value(const struct lua_value *v)
{
	return v->kind == 'i' || (v->kind == 'f' && v->integral) ||
	       (v->kind == 'v' && v->val->type == VT_S32);
}

bool tc_test_index_value(lua_State *L, int arg, struct lua_value *v)
{
	if (!tc_read_value(L, arg, v) || !is_integer_value(v))
		return false;
	if (v->kind == 'f')
		v->kind = 'i';
	return true;
}

void tc_check_index_value(lua_State *L, int arg, struct lua_value *v, const char *what)
{
	if (!tc_test_index_value(L, arg, v))
		tc_argerror(L, arg, "%s: integer or recorded s32 expected, got %s", what,
			    tc_describe(L, arg));
}

void tc_check_condition(lua_State *L, int arg, struct lua_value *v)
{
	if (tc_read_value(L, arg, v) &&
	    (v->kind == 'b' || (v->kind == 'v' && v->val->type == VT_PRED)))
		return;
	tc_argerror(L, arg, "condition expected: a boolean or a comparison such as k:gt(0), got %s",
		    tc_describe(L, arg));
}

void tc_check_value(lua_State *L, int arg, struct lua_value *v)
{
	if (!tc_read_value(L, arg, v))
		tc_argerror(L, arg, "number, boolean, recorded scalar or fragment expected, got %s",
			    tc_describe(L, arg));
}

struct val *tc_value_node(struct kern *k, const struct lua_value *v)
{
	switch (v->kind) {
	case 'i':
		return tc_val_const(k, (int32_t)v->i);
	case 'f':
		return tc_val_float(k, (float)v->f);
	case 'b':
		return tc_val_pred(k, v->i != 0);
	default:
		return v->val;
	}
}

void tc_push_scalar(lua_State *L, struct val *v)
{
	tc_push_recorded(L, TC_SCALAR, v);
}

/* ---- operators ----------------------------------------------------------- */

static const struct scalar_operator {
	const char *text;
	enum frag_op frag;
	char types; /* i: s32; n: s32 and f32; l: s32 and predicates; f: f32; e: all */
} operators[] = {
	[SO_ADD] = {"+", FO_ADD, 'n'},   [SO_SUB] = {"-", FO_SUB, 'n'},
	[SO_MUL] = {"*", FO_MUL, 'n'},   [SO_DIV] = {"/", FO_DIV, 'f'},
	[SO_AND] = {"&", FO_AND, 'l'},   [SO_OR] = {"|", FO_OR, 'l'},
	[SO_XOR] = {"~", FO_XOR, 'l'},   [SO_SHL] = {"<<", FO_SHL, 'i'},
	[SO_SHR] = {">>", FO_SHR, 'i'},  [SO_FLOORDIV] = {"//", FO_FLOORDIV, 'i'},
	[SO_MOD] = {"%", FO_MOD, 'i'},   [SO_MIN] = {"min", FO_MIN, 'n'},
	[SO_MAX] = {"max", FO_MAX, 'n'}, [SO_LT] = {"lt", FO_LT, 'n'},
	[SO_LE] = {"le", FO_LE, 'n'},    [SO_GT] = {"gt", FO_GT, 'n'},
	[SO_GE] = {"ge", FO_GE, 'n'},    [SO_EQ] = {"eq", FO_EQ, 'e'},
	[SO_NE] = {"ne", FO_NE, 'e'},    [SO_LAND] = {"land", FO_AND, 'p'},
	[SO_LOR] = {"lor", FO_OR, 'p'},
};

struct binary {
	enum scalar_op op;
	struct lua_value a, b;
	struct val *result;
};

static const char *type_name(enum val_type t)
{
	return t == VT_S32 ? "an s32" : t == VT_F32 ? "an f32" : "a predicate";
}

/* A Lua number takes the type of its partner. */
static struct val *adapt(struct kern *k, const struct lua_value *v, enum val_type partner)
{
	if (partner == VT_F32 && v->kind == 'i')
		return tc_val_float(k, (float)v->f);
	if (partner == VT_S32 && v->kind == 'f' && v->integral)
		return tc_val_const(k, (int32_t)v->i);
	return tc_value_node(k, v);
}

static void check_operand_types(struct kern *k, const struct scalar_operator *o, enum scalar_op op,
				const struct val *a, const struct val *b)
{
	if (a->type != b->type)
		tc_fail(&k->err,
			"'%s' of %s (%s) and %s (%s): convert one with :astype(tc.float32) or "
			":astype(tc.int32)",
			o->text, type_name(a->type), tc_val_text(k, a), type_name(b->type),
			tc_val_text(k, b));
	if (a->type == VT_PRED && !strchr("lep", o->types))
		tc_fail(&k->err,
			"'%s' of predicates: they have :land, :lor, :lnot, :eq, :ne, :select; "
			":astype(tc.int32) makes 0 or 1 of one",
			o->text);
	if (a->type == VT_S32 && op == SO_DIV)
		tc_fail(&k->err,
			"'/' of two s32 (%s, %s): use // (it floors), or "
			":astype(tc.float32)",
			tc_val_text(k, a), tc_val_text(k, b));
	if (a->type == VT_S32 && o->types == 'p')
		tc_fail(&k->err, "':%s' joins predicates, got %s (%s)", o->text, type_name(a->type),
			tc_val_text(k, a));
	if (a->type == VT_F32 && !strchr("nfe", o->types))
		tc_fail(&k->err, "'%s' needs s32 operands, got %s (%s)", o->text,
			type_name(a->type), tc_val_text(k, a));
}

static struct val *predicate_operation(struct kern *k, enum scalar_op op, struct val *a,
				       struct val *b)
{
	struct val *x, *y;

	if (op == SO_AND || op == SO_LAND)
		return tc_val_expr(k, SO_LAND, a, b, NULL);
	if (op == SO_OR || op == SO_LOR)
		return tc_val_expr(k, SO_LOR, a, b, NULL);
	/* xor, which is ne; eq is its opposite */
	x = tc_val_expr(k, SO_LAND, a, tc_val_expr(k, SO_LNOT, b, NULL, NULL), NULL);
	y = tc_val_expr(k, SO_LAND, tc_val_expr(k, SO_LNOT, a, NULL, NULL), b, NULL);
	x = tc_val_expr(k, SO_LOR, x, y, NULL);
	return op == SO_EQ ? tc_val_expr(k, SO_LNOT, x, NULL, NULL) : x;
}

static void compute(struct kern *k, void *arg)
{
	struct binary *c = arg;
	struct val *a = tc_value_node(k, &c->a), *b = tc_value_node(k, &c->b);

	if (c->a.kind != 'v')
		a = adapt(k, &c->a, b->type);
	else if (c->b.kind != 'v')
		b = adapt(k, &c->b, a->type);
	check_operand_types(k, &operators[c->op], c->op, a, b);
	c->result = a->type == VT_PRED ? predicate_operation(k, c->op, a, b)
				       : tc_val_expr(k, c->op, a, b, NULL);
}

static int binary(lua_State *L, enum scalar_op op)
{
	struct binary c = {.op = op};
	bool readable = tc_read_value(L, 1, &c.a);

	readable = tc_read_value(L, 2, &c.b) && readable;
	if (!readable) {
		const char *a = tc_describe(L, 1), *b = tc_describe(L, 2);

		return tc_error(L, "'%s' of %s and %s: a number or a recorded value expected",
				operators[op].text, a, b);
	}
	if (c.a.kind == 't' || c.b.kind == 't')
		return tc_fragment_operator(L, operators[op].frag, 2);
	tc_record_call(L, compute, &c);
	tc_push_scalar(L, c.result);
	return 1;
}

#define BINARY(name, op)                                                                           \
	static int scalar_##name(lua_State *L)                                                     \
	{                                                                                          \
		return binary(L, op);                                                              \
	}

BINARY(add, SO_ADD)
BINARY(sub, SO_SUB)
BINARY(mul, SO_MUL)
BINARY(div, SO_DIV)
BINARY(idiv, SO_FLOORDIV)
BINARY(mod, SO_MOD)
BINARY(band, SO_AND)
BINARY(bor, SO_OR)
BINARY(bxor, SO_XOR)
BINARY(shl, SO_SHL)
BINARY(shr, SO_SHR)
BINARY(lt, SO_LT)
BINARY(le, SO_LE)
BINARY(gt, SO_GT)
BINARY(ge, SO_GE)
BINARY(eq, SO_EQ)
BINARY(ne, SO_NE)
BINARY(land, SO_LAND)
BINARY(lor, SO_LOR)

/* ---- unary and other operations ------------------------------------------ */

struct unary {
	char op; /* '-' '~' '!' */
	struct val *a, *result;
};

static void negate(struct kern *k, void *arg)
{
	struct unary *u = arg;
	struct val *a = u->a;

	if (a->type == VT_PRED && u->op != '-') {
		u->result = tc_val_expr(k, SO_LNOT, a, NULL, NULL);
		return;
	}
	if (u->op == '!')
		tc_fail(&k->err, "':lnot' of %s (%s): a predicate expected", type_name(a->type),
			tc_val_text(k, a));
	if (a->type == VT_PRED || (u->op == '~' && a->type == VT_F32))
		tc_fail(&k->err, "'%c' of %s (%s)", u->op, type_name(a->type), tc_val_text(k, a));
	u->result = tc_val_expr(k, u->op == '-' ? SO_NEG : SO_NOT, a, NULL, NULL);
}

static int unary(lua_State *L, char op)
{
	struct unary u = {.op = op};

	u.a = tc_check_recorded(L, 1, TC_SCALAR);
	tc_record_call(L, negate, &u);
	tc_push_scalar(L, u.result);
	return 1;
}

static int scalar_unm(lua_State *L)
{
	return unary(L, '-');
}

static int scalar_bnot(lua_State *L)
{
	return unary(L, '~');
}

static int scalar_lnot(lua_State *L)
{
	return unary(L, '!');
}

struct choice {
	struct val *cond;
	struct lua_value a, b;
	struct val *result;
};

static void choose(struct kern *k, void *arg)
{
	struct choice *c = arg;
	struct val *a = tc_value_node(k, &c->a), *b = tc_value_node(k, &c->b);

	if (c->a.kind != 'v')
		a = adapt(k, &c->a, b->type);
	else if (c->b.kind != 'v')
		b = adapt(k, &c->b, a->type);
	if (c->cond->type != VT_PRED)
		tc_fail(&k->err, "':select' of %s (%s): a predicate expected",
			type_name(c->cond->type), tc_val_text(k, c->cond));
	if (a->type != b->type)
		tc_fail(&k->err, "':select' between %s (%s) and %s (%s): one type expected",
			type_name(a->type), tc_val_text(k, a), type_name(b->type),
			tc_val_text(k, b));
	if (a->type == VT_PRED) {
		struct val *other = tc_val_expr(k, SO_LNOT, c->cond, NULL, NULL);

		c->result = tc_val_expr(k, SO_LOR, tc_val_expr(k, SO_LAND, c->cond, a, NULL),
					tc_val_expr(k, SO_LAND, other, b, NULL), NULL);
		return;
	}
	c->result = tc_val_expr(k, SO_SELECT, c->cond, a, b);
}

static void check_scalar_operand(lua_State *L, int arg, struct lua_value *v)
{
	if (!tc_read_value(L, arg, v) || v->kind == 't')
		tc_argerror(L, arg, "number, boolean or recorded scalar expected, got %s",
			    tc_describe(L, arg));
}

static int scalar_select(lua_State *L)
{
	struct choice c;

	c.cond = tc_check_recorded(L, 1, TC_SCALAR);
	check_scalar_operand(L, 2, &c.a);
	check_scalar_operand(L, 3, &c.b);
	tc_record_call(L, choose, &c);
	tc_push_scalar(L, c.result);
	return 1;
}

struct cast {
	struct val *a, *result;
	enum dtype dtype;
};

static void convert(struct kern *k, void *arg)
{
	struct cast *c = arg;

	if (c->dtype != DT_F32 && c->dtype != DT_I32 && c->dtype != DT_BOOL)
		tc_fail(&k->err, "a recorded scalar is a float32, an int32 or a bool, not %s",
			tc_dtypes[c->dtype].name);
	c->result = tc_val_to(k, c->a,
			      c->dtype == DT_F32   ? VT_F32
			      : c->dtype == DT_I32 ? VT_S32
						   : VT_PRED);
}

static int scalar_astype(lua_State *L)
{
	struct cast c;

	c.a = tc_check_recorded(L, 1, TC_SCALAR);
	c.dtype = tc_check_dtype(L, 2);
	tc_record_call(L, convert, &c);
	tc_push_scalar(L, c.result);
	return 1;
}

/* ---- what has no value at recording time --------------------------------- */

static int no_value(lua_State *L, const char *operator, const char * method)
{
	return tc_error(L,
			"'%s' of recorded values: they have no value while the kernel is recorded. "
			"Use %s, which records the comparison, and tc.when for a branch",
			operator, method);
}

static int scalar_raise_lt(lua_State *L)
{
	return no_value(L, "<", "a:lt(b) (for >, a:gt(b))");
}

static int scalar_raise_le(lua_State *L)
{
	return no_value(L, "<=", "a:le(b) (for >=, a:ge(b))");
}

static int scalar_raise_eq(lua_State *L)
{
	return no_value(L, "==", "a:eq(b) (for ~=, a:ne(b))");
}

static int scalar_raise_concat(lua_State *L)
{
	return tc_error(L, "a recorded value cannot be put into a string: it has no value while "
			   "the kernel is recorded. tc.print(\"k = {}\", k) prints it when the "
			   "kernel runs");
}

int tc_raise_power(lua_State *L)
{
	return tc_error(L,
			"'^' is not recorded: write v * v for a square, tc.sqrt(v) for a root, and "
			"tc.exp2(y * tc.log2(v)) for a power of a positive v");
}

static int scalar_raise_len(lua_State *L)
{
	return tc_error(L, "'#' of a recorded scalar: it is one number, unknown until the kernel "
			   "runs");
}

struct text {
	const struct val *val;
	const char *text;
};

static void make_text(struct kern *k, void *arg)
{
	struct text *t = arg;

	t->text = tc_val_text(k, t->val);
}

static int scalar_tostring(lua_State *L)
{
	static const char *const name[] = {"s32", "f32", "predicate"};
	struct kern *k;
	struct text t;

	t.val = tc_read_recorded(L, 1, TC_SCALAR, &k);
	tc_text_call(L, k, make_text, &t);
	lua_pushfstring(L, "recorded %s: %s", name[t.val->type], t.text);
	return 1;
}

/* ---- functions ----------------------------------------------------------- */

/* tc.min and tc.max: numbers stay numbers. */
static int extreme(lua_State *L, enum scalar_op op)
{
	struct lua_value a, b;

	if (lua_type(L, 1) == LUA_TNUMBER && lua_type(L, 2) == LUA_TNUMBER) {
		bool first_less = lua_compare(L, 1, 2, LUA_OPLT);

		lua_pushvalue(L, first_less == (op == SO_MIN) ? 1 : 2);
		return 1;
	}
	for (int arg = 1; arg <= 2; arg++)
		if (!tc_read_value(L, arg, arg == 1 ? &a : &b))
			tc_argerror(L, arg, "number, recorded scalar or fragment expected, got %s",
				    tc_describe(L, arg));
	return binary(L, op);
}

static const char min_doc[] =
	"min(a: number|Scalar|Fragment, b: number|Scalar|Fragment) -> "
	"number|Scalar|Fragment\n"
	"The smaller one, by elements. Of a number and a NaN it is the number.";

static int scalar_min(lua_State *L)
{
	return extreme(L, SO_MIN);
}

static const char max_doc[] =
	"max(a: number|Scalar|Fragment, b: number|Scalar|Fragment) -> "
	"number|Scalar|Fragment\n"
	"The larger one, by elements. Of a number and a NaN it is the number.";

static int scalar_max(lua_State *L)
{
	return extreme(L, SO_MAX);
}

#define COMPARE_DOC(name, text)                                                                    \
	name "(other: number|Scalar) -> Scalar\nRecords the comparison self " text                 \
	     " other; the result is a predicate, for `tc.when`, `tc.stop`, `:select`."

static const struct tc_function functions[] = {
	{"min", scalar_min, min_doc},
	{"max", scalar_max, max_doc},
	{NULL, NULL, NULL},
};

static const struct tc_function methods[] = {
	{"lt", scalar_lt, COMPARE_DOC("lt", "<")},
	{"le", scalar_le, COMPARE_DOC("le", "<=")},
	{"gt", scalar_gt, COMPARE_DOC("gt", ">")},
	{"ge", scalar_ge, COMPARE_DOC("ge", ">=")},
	{"eq", scalar_eq, COMPARE_DOC("eq", "==")},
	{"ne", scalar_ne, COMPARE_DOC("ne", "~=")},
	{"land", scalar_land, "land(other: boolean|Scalar) -> Scalar\nBoth predicates hold."},
	{"lor", scalar_lor, "lor(other: boolean|Scalar) -> Scalar\nOne of the predicates holds."},
	{"lnot", scalar_lnot, "lnot() -> Scalar\nThe predicate does not hold."},
	{"select", scalar_select,
	 "select(a: number|Scalar, b: number|Scalar) -> Scalar\n"
	 "a where the predicate self holds, else b; both are computed."},
	{"astype", scalar_astype,
	 "astype(dtype: DType) -> Scalar\n"
	 "Converted to tc.float32 (rounded to nearest), tc.int32 (truncated) or tc.bool (not 0)."},
	{NULL, NULL, NULL},
};

static int scalar_field(lua_State *L)
{
	static const enum dtype dtypes[] = {
		[VT_S32] = DT_I32, [VT_F32] = DT_F32, [VT_PRED] = DT_BOOL};
	const struct val *v = tc_read_recorded(L, 1, TC_SCALAR, NULL);

	if (lua_type(L, 2) != LUA_TSTRING || strcmp(lua_tostring(L, 2), "dtype") != 0)
		return 0;
	tc_push_dtype(L, dtypes[v->type]);
	return 1;
}

void tc_open_scalar(lua_State *L)
{
	static const luaL_Reg meta[] = {
		{"__add", scalar_add},
		{"__sub", scalar_sub},
		{"__mul", scalar_mul},
		{"__div", scalar_div},
		{"__idiv", scalar_idiv},
		{"__mod", scalar_mod},
		{"__band", scalar_band},
		{"__bor", scalar_bor},
		{"__bxor", scalar_bxor},
		{"__shl", scalar_shl},
		{"__shr", scalar_shr},
		{"__unm", scalar_unm},
		{"__bnot", scalar_bnot},
		{"__lt", scalar_raise_lt},
		{"__le", scalar_raise_le},
		{"__eq", scalar_raise_eq},
		{"__len", scalar_raise_len},
		{"__concat", scalar_raise_concat},
		{"__pow", tc_raise_power},
		{"__tostring", scalar_tostring},
		{NULL, NULL},
	};

	tc_recorded_class(
		L, TC_SCALAR,
		"A recorded scalar: s32, f32 or a predicate. Operators record. Of s32: "
		"`+ - * // % & | ~ << >>`, which wrap; `//` and `%` floor as in Lua, `>>` "
		"keeps the sign (in Lua it does not). Of f32: `+ - * /`, `/` within 2 ulp. Of "
		"predicates: "
		"`& | ~`. It has no value while recording.\n"
		"---@field dtype tcmma.dtype `tc.int32`, `tc.float32` or `tc.bool`",
		methods, meta, scalar_field);
	/* Lua's own messages, such as that of a `for` limit, name the class so. */
	luaL_getmetatable(L, TC_SCALAR);
	lua_pushliteral(L, TC_SCALAR " (recorded; tc.range counts to it)");
	lua_setfield(L, -2, "__name");
	lua_pop(L, 1);
	tc_functions(L, "tcmma", functions);
}

/* Fragments: operators, functions and methods on register tiles. */
#include "lua_tc.h"

#include <math.h>

#include <string.h>

/* ---- elementwise operations ---------------------------------------------- */

struct elementwise {
	enum frag_op op;
	int count;
	struct lua_value value[3];
	struct frag *result;
};

/* Numbers and scalars take the dtype of the first fragment, a condition is bool. */
static struct frag *splat(struct kern *k, const struct lua_value *v, enum dtype t)
{
	struct lua_value copy = *v;

	if (copy.kind == 'f' && copy.integral && tc_dtypes[t].klass != 'F')
		copy.kind = 'i';
	return tc_frag_full(k, tc_value_node(k, &copy), t, 0, NULL);
}

static enum dtype partner_dtype(const struct elementwise *e)
{
	bool numbers = false;

	for (int i = e->op == FO_WHERE; i < e->count; i++) {
		if (e->value[i].frag)
			return e->value[i].frag->dtype;
		numbers |= e->value[i].kind == 'f' ||
			   (e->value[i].val && e->value[i].val->type == VT_F32);
	}
	return numbers ? DT_F32 : DT_I32;
}

static void record_elementwise(struct kern *k, void *arg)
{
	struct elementwise *e = arg;
	struct frag *operand[3] = {NULL, NULL, NULL};
	enum dtype t = partner_dtype(e);

	if ((e->op == FO_FLOORDIV || e->op == FO_MOD) && !e->value[1].frag &&
	    e->value[1].kind != 'v' && e->value[1].f == 0)
		tc_fail(&k->err, "'%s' by zero", tc_frag_op_name(e->op));
	for (int i = 0; i < e->count; i++)
		tc_frag_usable(k, e->value[i].frag);
	for (int i = 0; i < e->count; i++) {
		enum dtype wanted = e->op == FO_WHERE && i == 0 ? DT_BOOL : t;

		operand[i] = e->value[i].frag ? e->value[i].frag : splat(k, &e->value[i], wanted);
	}
	e->result = tc_frag_elementwise(k, e->op, operand, e->count);
}

static int run(lua_State *L, struct elementwise *e)
{
	tc_record_call(L, record_elementwise, e);
	tc_push_recorded(L, TC_FRAGMENT, e->result);
	return 1;
}

int tc_fragment_operator(lua_State *L, enum frag_op op, int count)
{
	struct elementwise e = {.op = op, .count = count};

	for (int i = 0; i < count; i++) {
		if (tc_read_value(L, i + 1, &e.value[i]))
			continue;
		if (count == 2) {
			const char *a = tc_describe(L, 1), *b = tc_describe(L, 2);

			return tc_error(L,
					"'%s' of %s and %s: a fragment, a recorded scalar or a "
					"number expected",
					tc_frag_op_name(op), a, b);
		}
		return tc_argerror(L, i + 1, "fragment expected, got %s", tc_describe(L, i + 1));
	}
	return run(L, &e);
}

#define OPERATOR(name, op, count)                                                                  \
	static int frag_##name(lua_State *L)                                                       \
	{                                                                                          \
		return tc_fragment_operator(L, op, count);                                         \
	}

OPERATOR(add, FO_ADD, 2)
OPERATOR(sub, FO_SUB, 2)
OPERATOR(mul, FO_MUL, 2)
OPERATOR(div, FO_DIV, 2)
OPERATOR(idiv, FO_FLOORDIV, 2)
OPERATOR(mod, FO_MOD, 2)
OPERATOR(band, FO_AND, 2)
OPERATOR(bor, FO_OR, 2)
OPERATOR(bxor, FO_XOR, 2)
OPERATOR(shl, FO_SHL, 2)
OPERATOR(shr, FO_SHR, 2)
OPERATOR(unm, FO_NEG, 1)
OPERATOR(bnot, FO_NOT, 1)
OPERATOR(lt, FO_LT, 2)
OPERATOR(le, FO_LE, 2)
OPERATOR(gt, FO_GT, 2)
OPERATOR(ge, FO_GE, 2)
OPERATOR(eq, FO_EQ, 2)
OPERATOR(ne, FO_NE, 2)

/* Functions of fragments: at least one argument is one. */
static int function_of(lua_State *L, enum frag_op op, int count)
{
	bool any = false;

	for (int i = 1; i <= count; i++) {
		struct lua_value v;

		if (!tc_read_value(L, i, &v))
			return tc_argerror(L, i, "fragment expected, got %s", tc_describe(L, i));
		any |= v.kind == 't';
	}
	if (!any)
		return tc_argerror(L, op == FO_WHERE ? 2 : 1,
				   "fragment expected, got %s; tc.full(shape, value, dtype) makes "
				   "one",
				   tc_describe(L, op == FO_WHERE ? 2 : 1));
	return tc_fragment_operator(L, op, count);
}

#define FUNCTION(name, op, count)                                                                  \
	static int frag_##name(lua_State *L)                                                       \
	{                                                                                          \
		return function_of(L, op, count);                                                  \
	}

FUNCTION(fma, FO_FMA, 3)

/* ---- functions of one fragment or recorded f32 ---------------------------------- */

struct real_function {
	const char *name;
	enum frag_op frag;
	enum scalar_op scalar;
	float before, after; /* factors of a scalar: exp and log go by way of base 2 */
	double (*of_number)(double x);
};

struct real_call {
	const struct real_function *function;
	struct val *x, *result;
};

static struct val *times(struct kern *k, struct val *x, float factor)
{
	return factor == 1 ? x : tc_val_expr(k, SO_MUL, x, tc_val_float(k, factor), NULL);
}

static void scalar_function(struct kern *k, void *arg)
{
	struct real_call *c = arg;
	const struct real_function *f = c->function;

	if (c->x->type != VT_F32)
		tc_fail(&k->err,
			"tc.%s needs an f32, got %s (%s): convert with :astype(tc.float32)",
			f->name, c->x->type == VT_S32 ? "an s32" : "a predicate",
			tc_val_text(k, c->x));
	c->result = times(k, tc_val_expr(k, f->scalar, times(k, c->x, f->before), NULL, NULL),
			  f->after);
}

static int real_function(lua_State *L, const struct real_function *f)
{
	struct real_call c = {.function = f};
	struct lua_value v;

	if (!tc_read_value(L, 1, &v) || v.kind == 't' || v.kind == 'b')
		return function_of(L, f->frag, 1);
	if (v.kind != 'v') {
		lua_pushnumber(L, f->of_number(lua_tonumber(L, 1)));
		return 1;
	}
	c.x = v.val;
	tc_record_call(L, scalar_function, &c);
	tc_push_scalar(L, c.result);
	return 1;
}

#define LOG2_E 1.44269504088896340736f
#define LN_2   0.693147180559945309417f

static double reciprocal_root(double x)
{
	return 1 / sqrt(x);
}

#define REAL_FUNCTION(name, frag, scalar, before, after, of)                                       \
	static int frag_##name(lua_State *L)                                                       \
	{                                                                                          \
		static const struct real_function f = {#name, frag, scalar, before, after, of};    \
		return real_function(L, &f);                                                       \
	}

REAL_FUNCTION(exp2, FO_EXP2, SO_EXP2, 1, 1, exp2)
REAL_FUNCTION(log2, FO_LOG2, SO_LOG2, 1, 1, log2)
REAL_FUNCTION(exp, FO_EXP, SO_EXP2, LOG2_E, 1, exp)
REAL_FUNCTION(log, FO_LOG, SO_LOG2, 1, LN_2, log)
REAL_FUNCTION(rsqrt, FO_RSQRT, SO_RSQRT, 1, 1, reciprocal_root)
REAL_FUNCTION(sqrt, FO_SQRT, SO_SQRT, 1, 1, sqrt)
REAL_FUNCTION(tanh, FO_TANH, SO_TANH, 1, 1, tanh)

/* tc.abs, also of numbers and recorded scalars. */
struct absolute {
	struct lua_value value;
	struct val *result;
};

static void scalar_absolute(struct kern *k, void *arg)
{
	struct absolute *a = arg;
	struct val *v = a->value.val;

	if (v->type == VT_PRED)
		tc_fail(&k->err, "tc.abs of a predicate (%s)", tc_val_text(k, v));
	a->result = tc_val_expr(k, SO_MAX, v, tc_val_expr(k, SO_NEG, v, NULL, NULL), NULL);
}

static int frag_abs(lua_State *L)
{
	struct absolute a;

	if (!tc_read_value(L, 1, &a.value) || a.value.kind == 'b')
		return tc_argerror(L, 1, "fragment, recorded scalar or number expected, got %s",
				   tc_describe(L, 1));
	if (a.value.kind == 't')
		return tc_fragment_operator(L, FO_ABS, 1);
	if (a.value.kind != 'v') {
		lua_pushvalue(L, 1);
		if (a.value.f < 0)
			lua_arith(L, LUA_OPUNM);
		return 1;
	}
	tc_record_call(L, scalar_absolute, &a);
	tc_push_scalar(L, a.result);
	return 1;
}

static int frag_where(lua_State *L)
{
	struct lua_value v[3];
	bool scalars = true;

	for (int i = 0; i < 3; i++) {
		if (!tc_read_value(L, i + 1, &v[i]))
			return tc_argerror(L, i + 1,
					   "fragment, recorded scalar or number expected, got %s",
					   tc_describe(L, i + 1));
		scalars &= v[i].kind != 't';
	}
	if (v[0].kind == 'i' || v[0].kind == 'f' || (scalars && v[0].kind == 'b'))
		return tc_argerror(L, 1,
				   "condition expected: a bool fragment or a recorded predicate, "
				   "from :lt and its like; got %s",
				   tc_describe(L, 1));
	if (scalars && v[0].kind == 'v') {
		lua_settop(L, 3);
		lua_getfield(L, 1, "select");
		lua_insert(L, 1);
		lua_call(L, 3, 1);
		return 1;
	}
	return function_of(L, FO_WHERE, 3);
}

/* ---- leaves and shapes --------------------------------------------------- */

struct shaping {
	struct frag *frag, *result;
	struct lua_value value;
	enum dtype dtype;
	int rank, shape[2], axis;
	enum reduce_op reduce;
};

static void check_fragment_shape(lua_State *L, int arg, struct shaping *s, int low)
{
	int64_t size[2];

	s->rank = tc_check_shape(L, arg, size, 2, 1);
	if (s->rank < low)
		tc_argerror(L, arg, "a fragment has 1 or 2 dimensions, got none");
	for (int i = 0; i < s->rank; i++) {
		if (size[i] > 65536)
			tc_argerror(L, arg,
				    "a fragment of %lld elements along axis %d is too large",
				    (long long)size[i], i);
		s->shape[i] = (int)size[i];
	}
}

static void make_full(struct kern *k, void *arg)
{
	struct shaping *s = arg;

	if (s->value.kind == 'f' && s->value.integral && tc_dtypes[s->dtype].klass != 'F')
		s->value.kind = 'i';
	s->result = tc_frag_full(k, tc_value_node(k, &s->value), s->dtype, s->rank, s->shape);
}

static const char full_doc[] =
	"full(shape: integer[], value: number|boolean|Scalar, dtype: DType, opts?: {device?: "
	"tcmma.device|string}) -> "
	"Fragment|tcmma.array\n"
	"In a recording, a fragment with one value everywhere, in role code of whole warpgroups. "
	"Outside of one, a new array with one value everywhere; `opts.device` names its device.";

static int frag_full(lua_State *L)
{
	struct shaping s = {0};

	if (!tc_open_recording(L))
		return tc_array_full(L);
	check_fragment_shape(L, 1, &s, 1);
	if (!tc_read_value(L, 2, &s.value) || s.value.kind == 't')
		return tc_argerror(L, 2, "number, boolean or recorded scalar expected, got %s",
				   tc_describe(L, 2));
	s.dtype = tc_check_dtype(L, 3);
	tc_options(L, 4, (const char *const[]){NULL}); /* those are of arrays */
	tc_record_call(L, make_full, &s);
	tc_push_recorded(L, TC_FRAGMENT, s.result);
	return 1;
}

static void make_iota(struct kern *k, void *arg)
{
	struct shaping *s = arg;

	s->result = tc_frag_iota(k, s->dtype, s->rank, s->shape, s->axis);
}

static const char iota_doc[] =
	"iota(shape: integer[], axis: integer, dtype?: DType) -> Fragment\n"
	"A fragment whose elements are their index along `axis` (0-based); int32 unless given.";

static int frag_iota(lua_State *L)
{
	struct shaping s = {0};

	check_fragment_shape(L, 1, &s, 1);
	s.axis = (int)tc_check_integer(L, 2, 0, 1);
	s.dtype = lua_isnoneornil(L, 3) ? DT_I32 : tc_check_dtype(L, 3);
	tc_record_call(L, make_iota, &s);
	tc_push_recorded(L, TC_FRAGMENT, s.result);
	return 1;
}

/* ---- methods ------------------------------------------------------------- */

static void cast(struct kern *k, void *arg)
{
	struct shaping *s = arg;

	s->result = tc_frag_cast(k, s->frag, s->dtype);
}

static const char astype_doc[] =
	"astype(dtype: DType) -> Fragment\n"
	"Converted: to floats rounded to nearest even, to integers truncated. No dtype is "
	"converted silently.";

static int frag_astype(lua_State *L)
{
	struct shaping s = {.frag = tc_check_recorded(L, 1, TC_FRAGMENT)};

	s.dtype = tc_check_dtype(L, 2);
	tc_record_call(L, cast, &s);
	tc_push_recorded(L, TC_FRAGMENT, s.result);
	return 1;
}

static void reduce(struct kern *k, void *arg)
{
	struct shaping *s = arg;

	s->result = tc_frag_reduce(k, s->reduce, s->frag, s->axis);
}

static const char reduce_doc[] =
	"reduce(op: \"max\"|\"sum\"|\"min\"|\"absmax\"|\"absmin\", axis: integer) -> Fragment\n"
	"Combines the elements along `axis` (0-based), which the result lacks; \"absmax\" and "
	"\"absmin\" of the magnitudes. A NaN does not count for the greatest and the least.";

static int frag_reduce(lua_State *L)
{
	static const char *const names[] = {"sum", "max", "min", "absmax", "absmin", NULL};
	struct shaping s = {.frag = tc_check_recorded(L, 1, TC_FRAGMENT)};
	const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
	int i = 0;

	while (names[i] && strcmp(names[i], name) != 0)
		i++;
	if (!names[i])
		return tc_argerror(L, 2,
				   "\"max\", \"sum\", \"min\", \"absmax\" or \"absmin\" expected, "
				   "got %s",
				   tc_describe(L, 2));
	s.reduce = (enum reduce_op)i;
	s.axis = (int)tc_check_integer(L, 3, 0, 1);
	tc_record_call(L, reduce, &s);
	tc_push_recorded(L, TC_FRAGMENT, s.result);
	return 1;
}

static void broadcast(struct kern *k, void *arg)
{
	struct shaping *s = arg;

	s->result = tc_frag_broadcast(k, s->frag, s->rank, s->shape, s->axis);
}

static const char broadcast_doc[] =
	"broadcast(shape: integer[], axis: integer) -> Fragment\n"
	"Repeated along `axis` of `shape`: self lacks that axis or has extent 1 there. A per-row "
	"vector (m,) becomes (m, n) by `:broadcast({m, n}, 1)`.";

static int frag_broadcast(lua_State *L)
{
	struct shaping s = {.frag = tc_check_recorded(L, 1, TC_FRAGMENT)};

	check_fragment_shape(L, 2, &s, 1);
	s.axis = (int)tc_check_integer(L, 3, 0, 1);
	tc_record_call(L, broadcast, &s);
	tc_push_recorded(L, TC_FRAGMENT, s.result);
	return 1;
}

static int frag_field(lua_State *L)
{
	const struct frag *f = tc_read_recorded(L, 1, TC_FRAGMENT, NULL);
	const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (strcmp(key, "dtype") == 0) {
		tc_push_dtype(L, f->dtype);
	} else if (strcmp(key, "rank") == 0) {
		lua_pushinteger(L, f->rank);
	} else if (strcmp(key, "shape") == 0) {
		lua_createtable(L, f->rank, 0);
		for (int i = 0; i < f->rank; i++) {
			lua_pushinteger(L, f->shape[i]);
			lua_rawseti(L, -2, i + 1);
		}
		tc_set_shown(L);
	} else {
		return 0;
	}
	return 1;
}

struct text {
	const struct frag *frag;
	const char *text;
};

static void make_text(struct kern *k, void *arg)
{
	struct text *t = arg;

	t->text = tc_frag_text(k, t->frag);
}

static int frag_tostring(lua_State *L)
{
	struct kern *k;
	struct text t;

	t.frag = tc_read_recorded(L, 1, TC_FRAGMENT, &k);
	tc_text_call(L, k, make_text, &t);
	lua_pushfstring(L, "fragment %s", t.text);
	return 1;
}

/* ---- what does not exist ------------------------------------------------- */

static int no_value(lua_State *L, const char *operator, const char * method)
{
	return tc_error(L,
			"'%s' of fragments: they have no value while the kernel is recorded. Use "
			"%s, which gives a bool fragment, and tc.where",
			operator, method);
}

static int frag_raise_lt(lua_State *L)
{
	return no_value(L, "<", "a:lt(b) (for >, a:gt(b))");
}

static int frag_raise_le(lua_State *L)
{
	return no_value(L, "<=", "a:le(b) (for >=, a:ge(b))");
}

static int frag_raise_eq(lua_State *L)
{
	return no_value(L, "==", "a:eq(b) (for ~=, a:ne(b))");
}

static int frag_raise_concat(lua_State *L)
{
	return tc_error(L,
			"a fragment cannot be put into a string: it has no value while the "
			"kernel is recorded. tc.print(\"{}\", x) prints it when the kernel runs");
}

/* ---- registration -------------------------------------------------------- */

#define UNARY_DOC(name, text, error)                                                               \
	name "(x: number|Scalar|Fragment) -> number|Scalar|Fragment\n" text                        \
	     " of every element, of a recorded f32, or of a number, in double precision. " error

static const struct tc_function functions[] = {
	{"full", frag_full, full_doc},
	{"iota", frag_iota, iota_doc},
	{"exp2", frag_exp2, UNARY_DOC("exp2", "2 to the power", "Relative error: 2^-22.")},
	{"log2", frag_log2,
	 UNARY_DOC("log2", "Logarithm to base 2",
		   "Relative error: 2^-22; between 0.5 and 2 it is the absolute one.")},
	{"exp", frag_exp,
	 UNARY_DOC("exp", "e to the power",
		   "Relative error: that of tc.exp2, and |x| 2^-23 by the rounding of x times log2 "
		   "e.")},
	{"log", frag_log,
	 UNARY_DOC("log", "Natural logarithm",
		   "Error: ln 2 times that of tc.log2, and the rounding of the product.")},
	{"rsqrt", frag_rsqrt,
	 UNARY_DOC("rsqrt", "One over the square root", "Relative error: 2^-22.9.")},
	{"sqrt", frag_sqrt, UNARY_DOC("sqrt", "Square root", "Relative error: 2^-23.")},
	{"tanh", frag_tanh, UNARY_DOC("tanh", "Hyperbolic tangent", "Relative error: 2^-11.")},
	{"abs", frag_abs,
	 "abs(x: number|Scalar|Fragment) -> number|Scalar|Fragment\n"
	 "Absolute value, by elements."},
	{"where", frag_where,
	 "where(cond: Fragment|Scalar, a: number|Scalar|Fragment, b: number|Scalar|Fragment) -> "
	 "Fragment|Scalar\n"
	 "a where the condition holds, else b, by elements; a bool fragment comes from `:lt` and "
	 "so on."},
	{"fma", frag_fma,
	 "fma(a: Fragment, b: number|Scalar|Fragment, c: number|Scalar|Fragment) -> Fragment\n"
	 "a * b + c with one rounding."},
	{NULL, NULL, NULL},
};

#define COMPARE_DOC(name, text)                                                                    \
	name "(other: number|Scalar|Fragment) -> Fragment\nself " text                             \
	     " other by elements: a bool fragment."

static const struct tc_function methods[] = {
	{"astype", frag_astype, astype_doc},          {"reduce", frag_reduce, reduce_doc},
	{"broadcast", frag_broadcast, broadcast_doc}, {"lt", frag_lt, COMPARE_DOC("lt", "<")},
	{"le", frag_le, COMPARE_DOC("le", "<=")},     {"gt", frag_gt, COMPARE_DOC("gt", ">")},
	{"ge", frag_ge, COMPARE_DOC("ge", ">=")},     {"eq", frag_eq, COMPARE_DOC("eq", "==")},
	{"ne", frag_ne, COMPARE_DOC("ne", "~=")},     {NULL, NULL, NULL},
};

void tc_open_fragment(lua_State *L)
{
	static const luaL_Reg meta[] = {
		{"__add", frag_add},
		{"__sub", frag_sub},
		{"__mul", frag_mul},
		{"__div", frag_div},
		{"__band", frag_band},
		{"__bor", frag_bor},
		{"__bxor", frag_bxor},
		{"__shl", frag_shl},
		{"__shr", frag_shr},
		{"__unm", frag_unm},
		{"__bnot", frag_bnot},
		{"__lt", frag_raise_lt},
		{"__le", frag_raise_le},
		{"__eq", frag_raise_eq},
		{"__mod", frag_mod},
		{"__idiv", frag_idiv},
		{"__concat", frag_raise_concat},
		{"__pow", tc_raise_power},
		{"__tostring", frag_tostring},
		{NULL, NULL},
	};

	tc_recorded_class(
		L, TC_FRAGMENT,
		"A register tile of one role. The operators `+ - * / // % & | ~ << >>` work by "
		"elements and broadcast as in numpy; Lua numbers and recorded scalars take its "
		"dtype. float32, float16, bfloat16, int32 and uint32 are computed in. `/` is of "
		"floats, float32 within 2 ulp, exactly rounded by a constant power of two; `//` "
		"and `%`, "
		"which floor as in Lua, bits and shifts are of integers; "
		"`>>` of int32 keeps the sign.\n"
		"---@field shape integer[]\n"
		"---@field dtype tcmma.dtype\n"
		"---@field rank integer\n",
		methods, meta, frag_field);
	tc_functions(L, "tcmma", functions);
}

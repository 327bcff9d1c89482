/* Variables of a kernel: values that change while it runs. */
#include "lua_tc.h"

struct variable {
	struct var *var;
	struct lua_value value;
	struct val *val;
	struct frag *frag;
};

static void new_var(struct kern *k, void *arg)
{
	struct variable *x = arg;
	struct op draft = {.kind = OP_VAR_NEW};
	struct var *v = tc_arena_alloc(&k->arena, sizeof *v);

	v->id = k->vars.count;
	v->home = k->current;
	v->pos = k->err.pos;
	v->frag = x->value.frag;
	if (!v->frag) {
		v->init = tc_value_node(k, &x->value);
		v->type = v->init->type;
	}
	draft.u.var.var = x->var = v;
	draft.u.var.value = v->init;
	draft.u.var.frag = v->frag;
	tc_kern_record(k, &draft);
	tc_ptrvec_add(k, &k->vars, v);
}

static void set_var(struct kern *k, void *arg)
{
	struct variable *x = arg;
	const struct var *v = x->var;
	struct op draft = {.kind = OP_VAR_SET};

	draft.u.var.var = x->var;
	draft.u.var.frag = x->value.frag;
	if (!x->value.frag) {
		if (v->type == VT_F32 && x->value.kind == 'i')
			x->value.kind = 'f';
		if (v->type == VT_S32 && x->value.kind == 'f' && x->value.integral)
			x->value.kind = 'i';
		draft.u.var.value = tc_value_node(k, &x->value);
	}
	tc_kern_record(k, &draft);
}

static void get_var(struct kern *k, void *arg)
{
	struct variable *x = arg;
	struct op draft = {.kind = OP_VAR_GET};

	draft.u.var.var = x->var;
	if (x->var->frag)
		draft.u.var.frag = tc_frag_new(k, x->var->frag->dtype, x->var->frag->rank,
					       x->var->frag->shape);
	else
		draft.u.var.value = tc_val_leaf(k, VAL_OP, x->var->type);
	tc_kern_record(k, &draft);
	x->val = draft.u.var.value;
	x->frag = draft.u.var.frag;
}

static const char var_doc[] =
	"var(x: number|boolean|Scalar|Fragment) -> Var\n"
	"A variable of the kernel with that initial value; its type is that of `x` (an integer "
	"makes an s32, a float an f32).\n\n"
	"Each role has its own copy. A var that is set in a role's block belongs to that role; "
	"one that is set in shared code is set nowhere else. Fragments only in role code.";

static int var_new(lua_State *L)
{
	struct variable x = {0};

	tc_check_value(L, 1, &x.value);
	tc_record_call(L, new_var, &x);
	tc_push_recorded(L, TC_VAR, x.var);
	return 1;
}

static int var_set(lua_State *L)
{
	struct variable x = {.var = tc_check_recorded(L, 1, TC_VAR)};

	tc_check_value(L, 2, &x.value);
	tc_record_call(L, set_var, &x);
	return 0;
}

static int var_get(lua_State *L)
{
	struct variable x = {.var = tc_check_recorded(L, 1, TC_VAR)};

	tc_record_call(L, get_var, &x);
	if (x.frag)
		tc_push_recorded(L, TC_FRAGMENT, x.frag);
	else
		tc_push_scalar(L, x.val);
	return 1;
}

static int var_tostring(lua_State *L)
{
	static const char *const type[] = {"s32", "f32", "predicate"};
	const struct var *v = tc_read_recorded(L, 1, TC_VAR, NULL);

	lua_pushfstring(L, "var of %s %s, made at %s", v->frag ? "fragment" : "recorded",
			v->frag ? tc_dtypes[v->frag->dtype].name : type[v->type],
			tc_push_place(L, v->pos));
	return 1;
}

static const struct tc_function functions[] = {
	{"var", var_new, var_doc},
	{NULL, NULL, NULL},
};

void tc_open_var(lua_State *L)
{
	static const struct tc_function var_methods[] = {
		{"set", var_set,
		 "set(x: number|boolean|Scalar|Fragment)\n"
		 "Gives the var a new value of its type (for a fragment: of its shape and dtype)."},
		{"get", var_get, "get() -> Scalar|Fragment\nThe value at this place."},
		{NULL, NULL, NULL},
	};
	static const luaL_Reg var_meta[] = {{"__tostring", var_tostring}, {NULL, NULL}};

	tc_recorded_class(L, TC_VAR, "A variable of the kernel.", var_methods, var_meta, NULL);
	tc_functions(L, "tcmma", functions);
}

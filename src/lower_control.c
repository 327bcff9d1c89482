/* Control flow, uniform over a role; printing and assertions. */
#include <stdio.h>
#include <string.h>

#include "compile.h"

static bool any_kept(const struct low *l, const struct scope *s)
{
	for (const struct op *op = s ? s->first : NULL; op; op = op->next)
		if (l->role->op_kept[op->id])
			return true;
	return false;
}

static struct interval step_interval(struct low *l, const struct range_op *r)
{
	return r->step ? tc_low_interval(l, r->step) : (struct interval){true, 1, 1};
}

/* A range in registers; p is its predicate. */
struct counter {
	struct mreg i, p;
	struct mopnd hi, step;
};

/* Jumps to `end` where the range is empty or its step not positive. */
static void skip_empty(struct low *l, const struct range_op *r, const struct counter *c, int end)
{
	struct interval first = tc_low_interval(l, r->lo), bound = tc_low_interval(l, r->hi);
	bool forward = step_interval(l, r).low > 0, filled = first.high < bound.low;

	if (forward && filled)
		return;
	if (!filled)
		mi(l, "setp.ge.s32", R(c->p), R(c->i), c->hi);
	if (!forward && filled)
		mi(l, "setp.le.s32", R(c->p), c->step, I(0));
	else if (!forward)
		mi(l, "setp.le.or.s32", R(c->p), c->step, I(0), R(c->p));
	mi_if(l, c->p, "bra", LABEL(end));
}

/* i += step; p says whether i < hi.  i + step may be above all s32: then the rest decides. */
static void advance(struct low *l, const struct range_op *r, const struct counter *c)
{
	struct mreg rest;

	if (tc_low_interval(l, r->hi).high - 1 + step_interval(l, r).high <= INT32_MAX) {
		mi(l, "add.s32", R(c->i), R(c->i), c->step);
		mi(l, "setp.lt.s32", R(c->p), R(c->i), c->hi);
		return;
	}
	rest = mi_b32(l);
	mi(l, "sub.s32", R(rest), c->hi, R(c->i));
	mi(l, "setp.gt.u32", R(c->p), R(rest), c->step);
	mi(l, "add.s32", R(c->i), R(c->i), c->step);
}

/* The step is a positive constant, or recorded. */
void tc_lower_range(struct low *l, const struct op *op)
{
	const struct range_op *r = &op->u.range;
	int head = mi_new_label(l), end = mi_new_label(l);
	struct counter c;
	struct mopnd lo;
	bool *unseen;

	tc_low_join(l);
	unseen = tc_low_phases_save(l);
	lo = tc_low_value(l, r->lo);
	c.hi = tc_low_value(l, r->hi);
	c.step = r->step ? tc_low_value(l, r->step) : mo_imm(1);
	c.i = mi_b32(l);
	c.p = mi_pred(l);
	tc_low_open(l, true);
	mi(l, "mov.b32", R(c.i), lo);
	skip_empty(l, r, &c, end);
	mi_label(l, head);
	tc_low_phases_loop(l, r->body);
	tc_low_define(l, r->index, c.i);
	tc_low_ops(l, r->body);
	tc_low_join(l);
	advance(l, r, &c);
	mi_if(l, c.p, "bra", LABEL(head));
	mi_label(l, end);
	tc_low_phases_left(l, r->body, unseen);
	tc_low_close(l);
}

/* Labels behind loops that are being lowered, innermost first. */
struct loop_end {
	struct loop_end *outer;
	const struct op *loop;
	int label;
};

void tc_lower_loop(struct low *l, const struct op *op)
{
	int head = mi_new_label(l);
	struct loop_end end = {l->loops, op, mi_new_label(l)};
	bool *unseen;

	tc_low_join(l);
	unseen = tc_low_phases_save(l);
	tc_low_open(l, true);
	l->loops = &end;
	mi_label(l, head);
	tc_low_phases_loop(l, op->u.loop.body);
	tc_low_ops(l, op->u.loop.body);
	tc_low_join(l);
	mi(l, "bra", LABEL(head));
	mi_label(l, end.label);
	tc_low_phases_left(l, op->u.loop.body, unseen);
	l->loops = end.outer;
	tc_low_close(l);
}

void tc_lower_stop(struct low *l, const struct op *op)
{
	struct loop_end *e = l->loops;

	while (e && e->loop != op->u.stop.loop)
		e = e->outer;
	if (!e)
		tc_fail_internal(l->c->err, "stop outside its loop");
	tc_low_join(l);
	mi_if(l, tc_low_pred(l, op->u.stop.cond), "bra", LABEL(e->label));
}

void tc_lower_when(struct low *l, const struct op *op)
{
	const struct when_op *w = &op->u.when;
	bool then = any_kept(l, w->then), otherwise = any_kept(l, w->otherwise);
	int middle = mi_new_label(l), end = mi_new_label(l);
	int64_t constant;
	bool *other;
	struct mreg p;

	tc_low_join(l);
	if (tc_val_is_const(w->cond, &constant)) {
		if (constant ? then : otherwise)
			tc_low_ops(l, constant ? w->then : w->otherwise);
		tc_low_join(l);
		return;
	}
	if (!then && !otherwise)
		return;
	p = tc_low_pred(l, w->cond);
	other = tc_low_phases_save(l);
	tc_low_open(l, false);
	if (!then)
		mi_if(l, p, "bra", LABEL(end));
	else
		mi_unless(l, p, "bra", LABEL(otherwise ? middle : end));
	tc_low_ops(l, then ? w->then : w->otherwise);
	tc_low_join(l);
	if (then && otherwise) {
		const struct low_scope *first = l->scope;

		tc_low_close(l);
		mi(l, "bra", LABEL(end));
		mi_label(l, middle);
		other = tc_low_phases_swap(l, other);
		tc_low_open_beside(l, first);
		tc_low_ops(l, w->otherwise);
		tc_low_join(l);
	}
	tc_low_close(l);
	mi_label(l, end);
	tc_low_phases_join(l, other);
}

void tc_lower_role(struct low *l, const struct op *op)
{
	tc_low_ops(l, op->u.role.body);
}

/* ---- printf of one lane ------------------------------------------------------------------ */

/* "{}" takes the next value, "{{" and "}}" are braces. */
static const char *printf_format(struct low *l, const struct print_op *p)
{
	struct strbuf b = {.arena = l->arena};
	const char *text;
	int next = 0;

	for (const char *s = p->format ? p->format : ""; *s; s++) {
		char one[2] = {*s, 0};

		if (s[0] == '{' && s[1] == '}' && next < p->count) {
			tc_puts(&b, p->values[next++]->type == VT_F32 ? "%g" : "%d");
			s++;
			continue;
		}
		if ((*s == '{' || *s == '}') && s[1] == s[0])
			s++;
		tc_puts(&b, *s == '%' ? "%%" : one);
	}
	tc_puts(&b, "\n");
	text = tc_arena_strdup(l->arena, b.text);
	tc_strbuf_free(&b);
	return text;
}

/* vprintf(text, arguments); the arguments stand in local memory, 8 bytes each. */
void tc_low_printf(struct low *l, const char *format, const struct mopnd *value,
		   const bool *is_float, int count)
{
	struct compilation *c = l->c;
	struct mreg text = mi_b64(l), local = mi_b64(l), generic = mi_b64(l);
	int offset = 0;

	c->uses_vprintf = true;
	if (c->local_bytes < 8 * count || !c->local_bytes)
		c->local_bytes = 8 * (count ? count : 1);
	mi(l, "mov.u64", R(local), T("print_arguments"));
	for (int i = 0; i < count; i++) {
		struct maddr a = {.reg = local};

		if (is_float[i]) {
			struct mreg wide = mi_reg(l, MR_F64);

			offset = (offset + 7) / 8 * 8;
			mi(l, "cvt.f64.f32", R(wide), value[i]);
			mi(l, "st.local.f64", M(a, offset), R(wide));
			offset += 8;
		} else {
			mi(l, "st.local.b32", M(a, offset), value[i]);
			offset += 4;
		}
	}
	mi(l, "cvta.local.u64", R(generic), R(local));
	mi(l, "mov.u64", R(text), T(tc_arena_printf(l->arena, "text%d", mi_string(l, format))));
	mi(l, "cvta.global.u64", R(text), R(text));
	mi_raw(l, "{");
	mi_plain(l, ".param .b64 format");
	mi_plain(l, ".param .b64 arguments");
	mi_plain(l, ".param .b32 result");
	mi(l, "st.param.b64", T("[format]"), R(text));
	mi(l, "st.param.b64", T("[arguments]"), R(generic));
	mi(l, "call.uni", T("(result)"), T("vprintf"), T("(format, arguments)"));
	mi_raw(l, "}");
}

void tc_lower_print(struct low *l, const struct op *op)
{
	const struct print_op *p = &op->u.print;
	struct mopnd *value;
	bool *is_float;

	if (p->frag) {
		tc_lower_frag_print(l, op);
		return;
	}
	value = tc_arena_alloc(l->arena, sizeof(*value) * (size_t)(p->count + 1));
	is_float = tc_arena_alloc(l->arena, sizeof(*is_float) * (size_t)(p->count + 1));
	tc_low_first_leader(l);
	for (int i = 0; i < p->count; i++) {
		const struct val *v = p->values[i];

		value[i] = tc_low_value(l, v);
		is_float[i] = v->type == VT_F32;
		if (v->type == VT_PRED && value[i].kind == MO_REG) {
			struct mreg d = mi_b32(l);

			mi(l, "selp.b32", R(d), I(1), I(0), value[i]);
			value[i] = mo_reg(d);
		} else if (is_float[i]) {
			value[i] = mo_reg(tc_low_register(l, v));
		}
	}
	tc_low_printf(l, printf_format(l, p), value, is_float, p->count);
	tc_low_all(l);
}

static struct mreg text_address(struct low *l, const char *text)
{
	struct mreg at = mi_b64(l);

	mi(l, "mov.u64", R(at), T(tc_arena_printf(l->arena, "text%d", mi_string(l, text))));
	mi(l, "cvta.global.u64", R(at), R(at));
	return at;
}

/* __assertfail(message, file, line, function, bytes of a character), of which the driver knows. */
static void call_assertfail(struct low *l, struct mreg message, int line)
{
	struct mreg file = text_address(l, "tc.assert"),
		    function = text_address(l, l->c->kern->name);

	mi_raw(l, "{");
	mi_plain(l, ".param .b64 message");
	mi_plain(l, ".param .b64 file");
	mi_plain(l, ".param .b32 line");
	mi_plain(l, ".param .b64 function");
	mi_plain(l, ".param .b64 size");
	mi(l, "st.param.b64", T("[message]"), R(message));
	mi(l, "st.param.b64", T("[file]"), R(file));
	mi(l, "st.param.b32", T("[line]"), I(line));
	mi(l, "st.param.b64", T("[function]"), R(function));
	mi(l, "st.param.b64", T("[size]"), I(1));
	mi(l, "call.uni", T("__assertfail"), T("(message, file, line, function, size)"));
	mi_raw(l, "}");
}

/* The text goes to where the host finds it when the context is dead; the first one only. */
static void store_text(struct low *l, struct mreg text)
{
	int end = mi_new_label(l), next = mi_new_label(l);
	struct mreg variable = mi_b64(l), host = mi_b64(l), from = mi_b64(l);
	struct mreg taken = mi_b32(l), character = mi_b32(l), p = mi_pred(l);
	struct maddr at = {.reg = variable}, source = {.reg = from}, to = {.reg = host};

	mi(l, "mov.u64", R(variable), T(TC_ASSERT_VARIABLE));
	mi(l, "ld.global.u64", R(host), M(at, 0));
	mi(l, "setp.eq.u64", R(p), R(host), I(0));
	mi_if(l, p, "bra", LABEL(end));
	mi(l, "atom.global.exch.b32", R(taken), M(at, 8), I(1));
	mi(l, "setp.ne.u32", R(p), R(taken), I(0));
	mi_if(l, p, "bra", LABEL(end));
	mi(l, "mov.u64", R(from), R(text));
	mi_label(l, next);
	mi(l, "ld.u8", R(character), M(source, 0));
	mi(l, "st.u8", M(to, 0), R(character));
	mi(l, "add.u64", R(from), R(from), I(1));
	mi(l, "add.u64", R(host), R(host), I(1));
	mi(l, "setp.ne.u32", R(p), R(character), I(0));
	mi_if(l, p, "bra", LABEL(next));
	mi_plain(l, "membar.sys");
	mi_label(l, end);
}

/*
 * One thread reports and ends the grid, so that no other may end it first: the driver gives what
 * was printed only at the end that __assertfail makes.
 */
void tc_lower_assert(struct low *l, const struct op *op)
{
	const struct assert_op *a = &op->u.assertion;
	int fine = mi_new_label(l);
	const char *place =
		tc_arena_printf(l->arena, "%.*s:%d: ", TC_ASSERT_TEXT / 4,
				op->pos.file ? tc_base_name(op->pos.file) : "?", op->pos.line);
	struct mreg text, message, p;

	l->c->uses_assert = true;
	tc_low_all(l);
	p = tc_low_pred(l, a->cond);
	tc_low_open(l, false);
	mi_if(l, p, "bra", LABEL(fine));
	tc_low_leader(l);
	text = text_address(l, tc_arena_printf(l->arena, "%s%.*s", place, TC_ASSERT_TEXT / 2,
					       a->message ? a->message : "assertion failed"));
	message = mi_b64(l);
	mi(l, "add.u64", R(message), R(text), I((int64_t)strlen(place)));
	store_text(l, text);
	call_assertfail(l, message, op->pos.line);
	mi_plain(l, "trap");
	tc_low_all(l);
	mi_plain(l, "exit");
	tc_low_close(l);
	mi_label(l, fine);
}

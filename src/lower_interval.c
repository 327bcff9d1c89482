/*
 * What a recorded s32 value can be: bounds that follow from loops, grids and
 * arithmetic.  Sound under wrapping: what may overflow may be anything.
 */
#include "compile.h"

static struct interval make(int64_t low, int64_t high)
{
	struct interval r = {true, low, high};

	if (low < INT32_MIN || high > INT32_MAX || low > high)
		r = (struct interval){true, INT32_MIN, INT32_MAX};
	return r;
}

static struct interval corners(struct interval a, struct interval b)
{
	int64_t p[4] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
	int64_t low = p[0], high = p[0];

	for (int i = 1; i < 4; i++) {
		low = p[i] < low ? p[i] : low;
		high = p[i] > high ? p[i] : high;
	}
	return make(low, high);
}

static struct interval of_expr(struct low *l, const struct val *v)
{
	struct interval all = make(INT32_MIN, INT32_MAX), a, b;

	if (v->arg[0]->type != VT_S32 || (v->arg[1] && v->arg[1]->type != VT_S32))
		return all;
	a = tc_low_interval(l, v->arg[0]);
	b = v->arg[1] ? tc_low_interval(l, v->arg[1]) : all;
	switch (v->op) {
	case SO_ADD:
		return make(a.low + b.low, a.high + b.high);
	case SO_SUB:
		return make(a.low - b.high, a.high - b.low);
	case SO_MUL:
		return corners(a, b);
	case SO_FLOORDIV:
		if (b.low < 1)
			return all;
		return make(tc_floor_div(a.low, a.low < 0 ? b.low : b.high),
			    tc_floor_div(a.high, a.high < 0 ? b.high : b.low));
	case SO_MOD:
		if (b.low < 1)
			return all;
		return make(0, a.low >= 0 && a.high < b.high - 1 ? a.high : b.high - 1);
	case SO_AND:
		if (a.low >= 0 || b.low >= 0)
			return make(0, a.low < 0         ? b.high
				       : b.low < 0       ? a.high
				       : a.high < b.high ? a.high
							 : b.high);
		return all;
	case SO_SHR:
		return a.low >= 0 ? make(0, a.high) : all;
	case SO_MIN:
		return make(a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high);
	case SO_MAX:
		return make(a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high);
	default:
		return all;
	}
}

static struct interval of_index(struct low *l, const struct val *v)
{
	const struct range_op *r = &v->def->u.range;
	struct interval lo = tc_low_interval(l, r->lo), hi = tc_low_interval(l, r->hi);

	/* Steps are positive, and no turn is beyond hi. */
	return hi.high > lo.low ? make(lo.low, hi.high - 1) : make(INT32_MIN, INT32_MAX);
}

static int64_t axis_size(const struct kern *k, int axis)
{
	int64_t size = axis < k->grid_rank ? k->grid[axis] : k->cluster[axis - k->grid_rank];

	return size > 0 ? size : INT32_MAX;
}

struct interval tc_low_interval(struct low *l, const struct val *v)
{
	struct interval *known;
	struct interval r = make(INT32_MIN, INT32_MAX);

	if (!v)
		return make(0, 0);
	if (v->kind == VAL_CONST)
		return v->type == VT_S32 ? make(v->i, v->i) : r;
	known = &l->c->intervals[v->id];
	if (known->known)
		return *known;
	switch (v->kind) {
	case VAL_EXPR:
		if (v->type == VT_S32)
			r = of_expr(l, v);
		break;
	case VAL_INDEX:
		r = of_index(l, v);
		break;
	case VAL_AXIS:
		r = make(0, axis_size(l->c->kern, v->axis) - 1);
		break;
	case VAL_DIM:
		r = make(0, INT32_MAX);
		break;
	default:
		break;
	}
	*known = r;
	return r;
}

/* Register tiles: types and shapes of their operations, numpy's broadcasting. */
#include "tc.h"

#include <string.h>

static const char *const operations[] = {
	[FO_ADD] = "+",       [FO_SUB] = "-",       [FO_MUL] = "*",     [FO_DIV] = "/",
	[FO_FLOORDIV] = "//", [FO_MOD] = "%",       [FO_MAX] = "max",   [FO_MIN] = "min",
	[FO_AND] = "&",       [FO_OR] = "|",        [FO_XOR] = "xor",   [FO_SHL] = "<<",
	[FO_SHR] = ">>",      [FO_NEG] = "neg",     [FO_ABS] = "abs",   [FO_NOT] = "not",
	[FO_EXP2] = "exp2",   [FO_LOG2] = "log2",   [FO_EXP] = "exp",   [FO_LOG] = "log",
	[FO_RSQRT] = "rsqrt", [FO_SQRT] = "sqrt",   [FO_TANH] = "tanh", [FO_LT] = "lt",
	[FO_LE] = "le",       [FO_GT] = "gt",       [FO_GE] = "ge",     [FO_EQ] = "eq",
	[FO_NE] = "ne",       [FO_WHERE] = "where", [FO_FMA] = "fma",
};

const char *tc_frag_op_name(enum frag_op op)
{
	return operations[op];
}

static void print_ints(struct strbuf *b, const int *shape, int rank)
{
	struct dim dims[TC_MAX_RANK] = {{0}};

	for (int i = 0; i < rank; i++)
		dims[i].size = shape[i];
	tc_print_shape(b, dims, rank);
}

const char *tc_frag_text(struct kern *k, const struct frag *f)
{
	struct strbuf b = {.arena = &k->arena};
	const char *text;

	tc_printf(&b, "%s ", tc_dtypes[f->dtype].name);
	print_ints(&b, f->shape, f->rank);
	text = tc_arena_strdup(&k->arena, b.text);
	tc_strbuf_free(&b);
	return text;
}

struct frag *tc_frag_new(struct kern *k, enum dtype t, int rank, const int *shape)
{
	struct frag *f = tc_arena_alloc(&k->arena, sizeof *f);

	f->id = -1;
	f->dtype = t;
	f->rank = rank;
	if (rank)
		memcpy(f->shape, shape, (size_t)rank * sizeof *shape);
	return f;
}

/* ---- leaves -------------------------------------------------------------- */

static bool is_float(enum dtype t)
{
	return tc_dtypes[t].klass == 'F';
}

static struct val *value_for(struct kern *k, struct val *v, enum dtype t)
{
	const struct dtype_info *d = &tc_dtypes[t];
	int64_t low = d->klass == 'I' ? -(INT64_C(1) << (d->bits - 1)) : 0;
	int64_t high = (INT64_C(1) << (d->klass == 'I' ? d->bits - 1 : d->bits)) - 1;

	if (t == DT_BOOL) {
		if (v->type != VT_PRED)
			tc_fail(&k->err,
				"a predicate or a boolean expected for a bool fragment, "
				"got %s",
				tc_val_text(k, v));
		return v;
	}
	if (v->type == VT_PRED)
		tc_fail(&k->err, "a number expected for a %s fragment, got the predicate %s",
			d->name, tc_val_text(k, v));
	if (is_float(t))
		return tc_val_to(k, v, VT_F32);
	if (v->type == VT_F32)
		tc_fail(&k->err,
			"%s is no integer; the fragment is %s: use :astype(tc.float32) on "
			"it first",
			tc_val_text(k, v), d->name);
	if (v->kind == VAL_CONST && d->bits < 32 && (v->i < low || v->i > high))
		tc_fail(&k->err, "%d does not fit into %s (%lld to %lld)", (int)v->i, d->name,
			(long long)low, (long long)high);
	return v;
}

bool tc_dtype_in_registers(enum dtype t)
{
	int bits = tc_dtypes[t].bits;

	return bits == 4 || bits == 8 || bits == 16 || bits == 32;
}

static void check_bits(struct kern *k, enum dtype t)
{
	if (!tc_dtype_in_registers(t))
		tc_fail(&k->err, "a fragment of %s is not possible: 4, 8, 16 or 32 bits an element",
			tc_dtypes[t].name);
}

struct frag *tc_frag_full(struct kern *k, struct val *value, enum dtype t, int rank,
			  const int *shape)
{
	struct op draft = {.kind = OP_FRAG_FULL};

	check_bits(k, t);
	draft.u.full.value = value_for(k, value, t);
	draft.u.full.result = tc_frag_new(k, t, rank, shape);
	return tc_kern_record(k, &draft)->u.full.result;
}

struct frag *tc_frag_iota(struct kern *k, enum dtype t, int rank, const int *shape, int axis)
{
	struct op draft = {.kind = OP_FRAG_IOTA};

	if (tc_dtypes[t].bits > 32 || tc_dtypes[t].bits < 16)
		tc_fail(&k->err, "tc.iota makes 16-bit and 32-bit numbers, got %s",
			tc_dtypes[t].name);
	if (axis < 0 || axis >= rank)
		tc_fail(&k->err, "axis %d of a fragment of %d dimension%s; axes count from 0", axis,
			rank, rank == 1 ? "" : "s");
	draft.u.iota.axis = axis;
	draft.u.iota.result = tc_frag_new(k, t, rank, shape);
	return tc_kern_record(k, &draft)->u.iota.result;
}

/* ---- shapes -------------------------------------------------------------- */

/* Shape of the result by numpy's rule: aligned at the last axis, 1 stretches. */
static int broadcast_shape(struct kern *k, enum frag_op op, struct frag *const *arg, int count,
			   int shape[2])
{
	int rank = 0;

	for (int i = 0; i < count; i++)
		rank = arg[i]->rank > rank ? arg[i]->rank : rank;
	for (int d = 0; d < rank; d++)
		shape[d] = 1;
	for (int i = 0; i < count; i++) {
		for (int d = 0; d < arg[i]->rank; d++) {
			int at = rank - arg[i]->rank + d, n = arg[i]->shape[d];
			bool fits = n == 1 || shape[at] == 1 || n == shape[at];

			if (!fits)
				tc_fail(&k->err,
					"the shapes of '%s' do not broadcast: %s and %s.\n"
					"A per-row vector (m,) needs :broadcast({m, n}, 1) to meet "
					"(m, n).",
					operations[op], tc_frag_text(k, arg[0]),
					tc_frag_text(k, arg[i]));
			if (n != 1)
				shape[at] = n;
		}
	}
	return rank;
}

static struct frag *broadcast(struct kern *k, struct frag *f, int rank, const int *shape, int axis)
{
	struct op draft = {.kind = OP_FRAG_BROADCAST};

	draft.u.broadcast.arg = f;
	draft.u.broadcast.axis = axis;
	draft.u.broadcast.result = tc_frag_new(k, f->dtype, rank, shape);
	return tc_kern_record(k, &draft)->u.broadcast.result;
}

/* Repeats along one axis a step, until f has the shape; splats stay. */
static struct frag *stretch(struct kern *k, struct frag *f, int rank, const int *shape)
{
	int half[2];

	if (f->rank == 0)
		return f;
	if (f->rank < rank) {
		if (f->shape[0] == shape[1])
			return broadcast(k, f, rank, shape, 0);
		half[0] = 1;
		half[1] = f->shape[0];
		f = broadcast(k, f, 2, half, 0);
	}
	for (int axis = 0; axis < rank; axis++) {
		if (f->shape[axis] == shape[axis])
			continue;
		memcpy(half, f->shape, sizeof half);
		half[axis] = shape[axis];
		f = broadcast(k, f, rank, half, axis);
	}
	return f;
}

struct frag *tc_frag_broadcast(struct kern *k, struct frag *f, int rank, const int *shape, int axis)
{
	int kept[2], n = 0;
	bool fits;

	tc_frag_usable(k, f);
	if (axis < 0 || axis >= rank)
		tc_fail(&k->err, "axis %d of a shape of %d dimension%s; axes count from 0", axis,
			rank, rank == 1 ? "" : "s");
	for (int d = 0; d < rank; d++)
		if (d != axis)
			kept[n++] = shape[d];
	if (f->rank == rank)
		fits = f->shape[axis] == 1 && (rank == 1 || f->shape[1 - axis] == kept[0]);
	else
		fits = f->rank == n && (n == 0 || f->shape[0] == kept[0]);
	if (!fits) {
		struct frag *wanted = tc_frag_new(k, f->dtype, n, kept);

		tc_fail(&k->err,
			"a fragment %s cannot be repeated along axis %d to %s: %s expected",
			tc_frag_text(k, f), axis,
			tc_frag_text(k, tc_frag_new(k, f->dtype, rank, shape)),
			tc_frag_text(k, wanted));
	}
	return broadcast(k, f, rank, shape, axis);
}

/* ---- operations ---------------------------------------------------------- */

static bool computes(enum dtype t)
{
	return t == DT_F32 || t == DT_F16 || t == DT_BF16 || t == DT_I32 || t == DT_U32;
}

static void check_dtype(struct kern *k, enum frag_op op, enum dtype t)
{
	const char *name = operations[op], *dtype = tc_dtypes[t].name;
	bool logic = op == FO_AND || op == FO_OR || op == FO_XOR || op == FO_NOT;
	bool compare = op >= FO_LT && op <= FO_NE;

	if (t == DT_BOOL && (logic || op == FO_WHERE || op == FO_EQ || op == FO_NE))
		return;
	if (!computes(t) && !(op == FO_WHERE && tc_dtypes[t].bits <= 32))
		tc_fail(&k->err,
			"'%s' is not computed in %s but in float32, float16, bfloat16, int32 and "
			"uint32: convert with :astype(tc.float32)",
			name, dtype);
	if ((logic || op == FO_SHL || op == FO_SHR) && is_float(t))
		tc_fail(&k->err, "'%s' needs integers or bool, got %s", name, dtype);
	if ((op == FO_FLOORDIV || op == FO_MOD) && is_float(t))
		tc_fail(&k->err,
			"'%s' needs int32 or uint32, got %s: convert with :astype(tc.int32)", name,
			dtype);
	if (op == FO_DIV && !is_float(t))
		tc_fail(&k->err,
			"'/' needs floating point, got %s: use // (it floors), or convert with "
			":astype(tc.float32)",
			dtype);
	if (!is_float(t) && (op == FO_FMA || (op >= FO_EXP2 && op <= FO_TANH)))
		tc_fail(&k->err,
			"'%s' needs floating point, got %s: convert with :astype(tc.float32)", name,
			dtype);
	if (t == DT_U32 && (op == FO_NEG || op == FO_ABS) && !compare)
		tc_fail(&k->err, "'%s' of an unsigned fragment: convert with :astype(tc.int32)",
			name);
}

static enum dtype common_dtype(struct kern *k, enum frag_op op, struct frag *const *arg, int count)
{
	int first = op == FO_WHERE;

	if (op == FO_WHERE && arg[0]->dtype != DT_BOOL)
		tc_fail(&k->err,
			"the condition of tc.where must be a bool fragment (from :lt, :ge "
			"...), got %s",
			tc_frag_text(k, arg[0]));
	for (int i = first + 1; i < count; i++)
		if (arg[i]->dtype != arg[first]->dtype)
			tc_fail(&k->err,
				"'%s' of %s and %s: dtypes are not converted silently; use "
				":astype(tc.%s) or :astype(tc.%s)",
				operations[op], tc_frag_text(k, arg[first]),
				tc_frag_text(k, arg[i]), tc_dtypes[arg[first]->dtype].name,
				tc_dtypes[arg[i]->dtype].name);
	return arg[first]->dtype;
}

struct frag *tc_frag_elementwise(struct kern *k, enum frag_op op, struct frag *const *arg,
				 int count)
{
	struct op draft = {.kind = OP_FRAG_ELEMENTWISE};
	int shape[2] = {0, 0}, rank;
	enum dtype t;

	for (int i = 0; i < count; i++)
		tc_frag_usable(k, arg[i]);
	t = common_dtype(k, op, arg, count);
	check_dtype(k, op, t);
	rank = broadcast_shape(k, op, arg, count, shape);
	for (int i = 0; i < count; i++)
		draft.u.elementwise.arg[i] = stretch(k, arg[i], rank, shape);
	draft.u.elementwise.op = op;
	draft.u.elementwise.result =
		tc_frag_new(k, op >= FO_LT && op <= FO_NE ? DT_BOOL : t, rank, shape);
	return tc_kern_record(k, &draft)->u.elementwise.result;
}

struct frag *tc_frag_cast(struct kern *k, struct frag *f, enum dtype t)
{
	struct op draft = {.kind = OP_FRAG_CAST};

	tc_frag_usable(k, f);
	check_bits(k, t);
	if (t == DT_BOOL && f->dtype != DT_BOOL)
		tc_fail(&k->err, "a bool fragment comes from a comparison, such as x:ne(0)");
	if (t == f->dtype)
		return f;
	draft.u.cast.arg = f;
	draft.u.cast.result = tc_frag_new(k, t, f->rank, f->shape);
	return tc_kern_record(k, &draft)->u.cast.result;
}

struct frag *tc_frag_reduce(struct kern *k, enum reduce_op op, struct frag *f, int axis)
{
	struct op draft = {.kind = OP_FRAG_REDUCE};

	tc_frag_usable(k, f);
	if (axis < 0 || axis >= f->rank)
		tc_fail(&k->err, "axis %d of a fragment %s; axes count from 0", axis,
			tc_frag_text(k, f));
	if (!computes(f->dtype))
		tc_fail(&k->err,
			"%s is not reduced, but float32, float16, bfloat16, int32 and uint32 are: "
			"convert with :astype(tc.float32)",
			tc_dtypes[f->dtype].name);
	draft.u.reduce.op = op;
	draft.u.reduce.axis = axis;
	draft.u.reduce.arg = f;
	draft.u.reduce.result = tc_frag_new(k, f->dtype, f->rank - 1, &f->shape[1 - axis]);
	return tc_kern_record(k, &draft)->u.reduce.result;
}

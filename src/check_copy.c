/* Copies between GMEM and SMEM (TMA). */
#include <string.h>

#include "check_copy.h"
#include "compile.h"

/* ---- the call ----------------------------------------------------------------------- */

static void check_space(struct kern *k, const char *name, const struct ref *r, enum space space)
{
	if (r->alloc->space != space)
		tc_check_reference(k, name, space == SP_SMEM ? "SMEM" : "GMEM", tc_ref_text(k, r));
}

static void check_dtypes(struct kern *k, const struct copy_op *c)
{
	enum dtype a = c->src->alloc->dtype, b = c->dst->alloc->dtype;

	if (a != b)
		tc_documented(&k->err, COPY_DTYPES,
			      tc_join(k, tc_got(k, "src", c->src), tc_got(k, "dst", c->dst)),
			      tc_dtypes[a].name, tc_dtypes[b].name);
}

bool tc_same_shape(const struct ref *a, const struct ref *b)
{
	if (a->rank != b->rank)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (!tc_dim_equal(&a->shape[i], &b->shape[i]))
			return false;
	return true;
}

/* ---- what TMA takes -------------------------------------------------------------------- */

/* Elements between neighbours along an axis; -1: a named dimension is among the factors. */
static int64_t axis_stride(const struct alloc *a, int axis)
{
	int64_t stride = 1;

	for (int i = axis + 1; i < a->rank; i++) {
		if (a->shape[i].size < 0)
			return -1;
		stride *= a->shape[i].size;
	}
	return stride;
}

static const char *strides_text(struct kern *k, const struct ref *r)
{
	const char *text = "[";

	for (int i = 0; i < r->rank; i++)
		text = tc_arena_printf(&k->arena, "%s%s%lld", text, i ? ", " : "",
				       (long long)axis_stride(r->alloc, r->axis[i]));
	return tc_join(k, text, "]");
}

/* A box is one piece of SMEM: in a plain array the view has to be whole from its first axis
 * of more than one index on, in a swizzled one it holds the last two axes. */
static bool has_panels(const struct alloc *a)
{
	struct smem_layout s;

	tc_smem_layout(a, &s);
	return s.panelled;
}

static bool is_contiguous(const struct ref *r)
{
	const struct alloc *a = r->alloc;
	bool open = false;

	if (has_panels(a)) {
		int low = a->rank - 2, named = 0;

		for (int d = 0; d < r->rank; d++)
			named += r->axis[d] >= low;
		return named == 2;
	}
	for (int i = 0; i < a->rank; i++) {
		if (open && r->extent[i].size != a->shape[i].size)
			return false;
		open = open || r->extent[i].size > 1;
	}
	return true;
}

/* Plain slices start where TMA can write: at multiples of 128 bytes. */
static bool is_aligned(const struct ref *r)
{
	const struct alloc *a = r->alloc;
	int64_t bits = 0, i;

	if (has_panels(a))
		return true;
	for (int axis = 0; axis < a->rank; axis++) {
		int64_t step = axis_stride(a, axis) * tc_stored_bits(a);

		if (tc_val_is_const(r->start[axis], &i))
			bits += i * step;
		else if (step * tc_val_divisor(r->start[axis]) % 1024)
			return false;
	}
	return bits % 1024 == 0;
}

static void check_smem_side(struct kern *k, const struct ref *r)
{
	const struct alloc *a = r->alloc;
	int64_t columns = r->rank ? r->shape[r->rank - 1].size : 1;
	struct copy_boxes boxes;

	if (r->transposed)
		columns = r->shape[r->rank - 2].size;
	if (!is_contiguous(r))
		tc_documented(&k->err, COPY_CONTIGUOUS, tc_got(k, "the SMEM ref", r),
			      strides_text(k, r), tc_shape_text(k, r));
	if (!is_aligned(r))
		tc_documented(&k->err, COPY_ALIGNMENT, tc_got(k, "the SMEM ref", r));
	if (columns * tc_stored_bits(a) % 128)
		tc_documented(&k->err, COPY_LAST_BITS, tc_got(k, "the SMEM ref", r),
			      tc_integer_text(k, columns * tc_stored_bits(a)));
	if (!tc_copy_boxes(r, a->rank > 1 ? r->extent[a->rank - 2].size : 1,
			   r->extent[a->rank - 1].size, a->rank, &boxes))
		tc_documented(&k->err, COPY_BOX, tc_got(k, "the SMEM ref", r), tc_shape_text(k, r));
}

/* Columns by which a copy may begin: 4-bit elements have no address of their own. */
static int column_unit(enum dtype t)
{
	return tc_dtypes[t].bits == 4 ? 2 : tc_tma_unit(t);
}

static void check_gmem_side(struct kern *k, const struct ref *gmem, const struct ref *smem)
{
	const struct alloc *a = gmem->alloc;
	int last = gmem->rank - 1, axis;
	int64_t start;

	for (int i = 0; i + 1 < a->rank; i++) {
		int64_t stride = axis_stride(a, i);

		if (stride >= 0 && a->shape[i].size != 1 && stride * tc_stored_bits(a) % 128)
			tc_documented(&k->err, COPY_STRIDES, tc_got(k, "the GMEM ref", gmem));
	}
	if (gmem->rank > 0) {
		axis = gmem->axis[gmem->transposed && smem->transposed ? last - 1 : last];
		if (axis != a->rank - 1) {
			int64_t stride = axis_stride(a, axis);

			tc_documented(&k->err, COPY_STRIDE_ONE, tc_got(k, "the GMEM ref", gmem),
				      stride < 0 ? "dynamic" : tc_integer_text(k, stride));
		}
	}
	if (tc_val_divisor(gmem->start[a->rank - 1]) % column_unit(a->dtype))
		tc_documented(&k->err, COPY_UNIT, tc_got(k, "the GMEM ref", gmem),
			      tc_integer_text(k, column_unit(a->dtype)), tc_dtypes[a->dtype].name);
	/* The types that TMA pads have rules of their own. */
	if ((tc_dtypes[a->dtype].bits >= 8 || tc_tma_unit(a->dtype) > 1) && a->rank > 0 &&
	    tc_val_is_const(gmem->start[a->rank - 1], &start) &&
	    start * tc_dtypes[a->dtype].bits % 128)
		tc_documented(&k->err, COPY_START, tc_got(k, "the GMEM ref", gmem),
			      tc_integer_text(k, start * tc_dtypes[a->dtype].bits / 8));
	if (gmem->transposed != smem->transposed)
		tc_documented(&k->err, COPY_TRANSPOSED, tc_got(k, "the SMEM ref", smem));
}

/* The types of TMA that pad move 128 elements a row of the box, and know one swizzle. */
static void check_padded_gmem(struct kern *k, const struct ref *gmem)
{
	int last = gmem->alloc->rank - 1;
	int64_t all = gmem->alloc->shape[last].size, columns = gmem->extent[last].size;

	if (columns % TC_PADDED_ROW || (all >= 0 && all % TC_PADDED_ROW) ||
	    tc_val_divisor(gmem->start[last]) % TC_PADDED_ROW)
		tc_documented(&k->err, COPY_PADDED, tc_got(k, "the GMEM ref", gmem));
}

static void check_padded(struct kern *k, const struct ref *gmem, const struct ref *smem)
{
	const struct alloc *a = smem->alloc;

	if (smem->extent[a->rank - 1].size % TC_PADDED_ROW || (has_panels(a) && a->swizzle != 128))
		tc_documented(&k->err, COPY_PADDED, tc_got(k, "the SMEM ref", smem));
	check_padded_gmem(k, gmem);
}

static void check_tma(struct kern *k, const struct ref *gmem, const struct ref *smem)
{
	enum dtype t = gmem->alloc->dtype;
	int64_t elements = 1;

	for (int i = 0; i < smem->rank; i++)
		elements *= smem->shape[i].size;
	if (elements * tc_dtypes[t].bits % 8)
		tc_documented(&k->err, COPY_BYTES, "", tc_shape_text(k, smem), tc_dtypes[t].name);
	if (t == DT_U2 && smem->alloc->swizzle)
		tc_documented(&k->err, COPY_TMA_DTYPE, "", tc_dtypes[t].mlir);
	check_gmem_side(k, gmem, smem);
	check_smem_side(k, smem);
	if (tc_stored_bits(smem->alloc) != tc_dtypes[t].bits)
		check_padded(k, gmem, smem);
}

void tc_check_tma_gmem(struct kern *k, const struct ref *r)
{
	int64_t bits = (r->rank ? r->shape[r->rank - 1].size : 1) * tc_stored_bits(r->alloc);

	check_gmem_side(k, r, r);
	if (r->transposed)
		bits = r->shape[r->rank - 2].size * tc_stored_bits(r->alloc);
	if (bits % 128)
		tc_documented(&k->err, COPY_LAST_BITS, tc_got(k, "the GMEM ref", r),
			      tc_integer_text(k, bits));
	if (tc_dtypes[r->alloc->dtype].bits == 6)
		check_padded_gmem(k, r);
}

/* ---- clusters ------------------------------------------------------------------------------ */

static int count_bits(unsigned bits)
{
	int n = 0;

	for (; bits; bits &= bits - 1)
		n++;
	return n;
}

static const char *axes_text(struct kern *k, unsigned axes)
{
	const char *text = "(";
	int n = 0;

	for (int i = 0; i < k->cluster_rank; i++)
		if (axes >> i & 1)
			text = tc_arena_printf(&k->arena, "%s%s'%s'", text, n++ ? ", " : "",
					       k->cluster_names[i] ? k->cluster_names[i] : "");
	return tc_join(k, text, n == 1 ? ",)" : ")");
}

/* The tile falls into one piece for each CTA. */
static void check_cut(struct kern *k, const struct ref *dst, int ctas)
{
	struct multicast_cut cut;
	struct smem_layout s;
	int last = dst->alloc->rank - 1;

	tc_smem_layout(dst->alloc, &s);
	if (!tc_multicast_cut(&s, last ? dst->extent[last - 1].size : 1, dst->extent[last].size,
			      ctas, &cut))
		tc_documented(&k->err, COPY_COLLECTIVE_SIZE, tc_got(k, "dst", dst),
			      tc_shape_text(k, dst), tc_integer_text(k, ctas));
}

static void check_same(struct kern *k, const struct copy_op *c, const char *what,
		       const struct val *v)
{
	if (tc_val_along(k, v, c->collective_axes))
		tc_documented(&k->err, COPY_COLLECTIVE_DIFFERS, "",
			      tc_axes_text(k, c->collective_axes), what);
}

/* A multicast writes the same tile to the same place of every CTA. */
static void check_multicast(struct kern *k, const struct copy_op *c)
{
	check_cut(k, c->dst, tc_cluster_size(k, c->collective_axes));
	for (int i = 0; i < c->src->alloc->rank; i++)
		check_same(k, c, "src", c->src->start[i]);
	for (int i = 0; i < c->dst->alloc->rank; i++)
		check_same(k, c, "dst", c->dst->start[i]);
	check_same(k, c, "the barrier", c->barrier.index);
}

static void check_collective(struct kern *k, const struct copy_op *c)
{
	int64_t size = tc_cluster_size(k, ~0u);

	if (c->leader_tracked && !c->collective_axes)
		tc_documented(&k->err, COPY_LEADER_AXES, "");
	if (c->leader_tracked && count_bits(c->collective_axes) != 1)
		tc_documented(&k->err, COPY_ONE_AXIS, "", axes_text(k, c->collective_axes));
	if (c->leader_tracked && size != 2)
		tc_documented(&k->err, COPY_PARTITION_CLUSTER, "", tc_integer_text(k, size));
	if (c->partitioned && !c->collective_axes)
		tc_documented(&k->err, COPY_ONLY_COLLECTIVE, "");
}

static void check_partition_axis(struct kern *k, const struct copy_op *c)
{
	if (c->partitioned && c->partition_axis >= c->dst->rank)
		tc_documented(&k->err, COPY_PARTITION_AXIS, tc_got(k, "dst", c->dst),
			      tc_integer_text(k, c->partition_axis),
			      tc_integer_text(k, c->dst->rank));
}

/* ---- entry points -----------------------------------------------------------------------------
 */

/* With a partitioned axis the source is the whole of what the CTAs load together. */
static void check_source_shape(struct kern *k, const struct copy_op *c)
{
	struct ref expected = *c->dst;
	const char *tail = "";

	if (c->partitioned) {
		int64_t size = tc_cluster_size(k, c->collective_axes);

		expected.shape[c->partition_axis].size *= size;
		tail = tc_arena_printf(&k->arena,
				       " Dim %d is partitioned over an axis of size %lld.",
				       c->partition_axis, (long long)size);
	}
	if (!tc_same_shape(&expected, c->src))
		tc_documented(&k->err, COPY_SOURCE_SHAPE,
			      tc_join(k, tc_got(k, "src", c->src), tc_got(k, "dst", c->dst)),
			      tc_shape_text(k, &expected), tc_shape_text(k, c->src), tail);
}

void tc_check_copy_gmem_to_smem(struct kern *k, struct copy_op *c)
{
	check_space(k, "src", c->src, SP_GMEM);
	check_space(k, "dst", c->dst, SP_SMEM);
	check_dtypes(k, c);
	check_partition_axis(k, c);
	check_source_shape(k, c);
	check_collective(k, c);
	if (!c->barrier.barrier)
		tc_documented(&k->err, COPY_NO_BARRIER, "");
	tc_check_own(k, c->dst);
	if (c->src->rows)
		tc_check_gather_copy(k, c);
	if (c->barrier.cluster_rank)
		tc_documented(&k->err, PEER_REF, "");
	if (c->barrier.barrier->cluster)
		tc_documented(&k->err, COPY_CLUSTER_BARRIER, "");
	tc_check_single_barrier(k, &c->barrier);
	check_tma(k, c->src, c->dst);
	if (c->collective_axes && !c->partitioned)
		check_multicast(k, c);
}

/* cp.reduce.async.bulk.tensor (docs/isa.md 8.3): the operations, and for which types. */
const struct store_reduction tc_store_reductions[] = {
	{"add", "add", 'u', true, true},    {"min", "min", 0, true, false},
	{"max", "max", 0, true, false},     {"umin", "min", 'u', false, false},
	{"umax", "max", 'u', false, false}, {"smin", "min", 's', false, false},
	{"smax", "max", 's', false, false}, {"inc", "inc", 'u', false, false},
	{"dec", "dec", 'u', false, false},  {"and", "and", 'u', false, false},
	{"or", "or", 'u', false, false},    {"xor", "xor", 'u', false, false},
	{NULL, NULL, 0, false, false},
};

static void check_reduction(struct kern *k, const struct copy_op *c)
{
	const struct store_reduction *r = c->reduce;
	enum dtype t = c->src->alloc->dtype;
	bool wide = t == DT_I64 || t == DT_U64, integer = wide || t == DT_I32 || t == DT_U32;
	bool counts = strcmp(r->ptx, "inc") == 0 || strcmp(r->ptx, "dec") == 0;
	bool half = t == DT_F16 || t == DT_BF16;

	if ((integer && !(wide && counts)) || (half && r->floats) || (t == DT_F32 && r->f32))
		return;
	tc_documented(&k->err, COPY_REDUCTION, "", r->name, tc_dtypes[t].mlir);
}

/* TMA clips what lies behind the array; a store that begins before it traps. */
static void check_store_start(struct kern *k, const struct ref *dst)
{
	int64_t start;

	for (int axis = 0; axis < dst->alloc->rank; axis++)
		if (tc_val_is_const(dst->start[axis], &start) && start < 0)
			tc_documented(&k->err, COPY_STORE_START, tc_got(k, "dst", dst),
				      tc_integer_text(k, start), tc_integer_text(k, axis));
}

void tc_check_copy_smem_to_gmem(struct kern *k, struct copy_op *c)
{
	check_space(k, "src", c->src, SP_SMEM);
	check_space(k, "dst", c->dst, SP_GMEM);
	check_dtypes(k, c);
	if (!tc_same_shape(c->src, c->dst))
		tc_documented(&k->err, COPY_SHAPES,
			      tc_join(k, tc_got(k, "src", c->src), tc_got(k, "dst", c->dst)),
			      tc_shape_text(k, c->src), tc_shape_text(k, c->dst));
	if (c->barrier.barrier)
		tc_documented(&k->err, COPY_STORE_BARRIER, "");
	tc_check_own(k, c->src);
	if (c->dst->rows)
		tc_check_gather_copy(k, c);
	if (c->reduce)
		check_reduction(k, c);
	if (c->src->alloc->padded)
		tc_documented(&k->err, COPY_PADDED_STORE, tc_got(k, "src", c->src));
	if (!c->dst->rows)
		check_store_start(k, c->dst);
	check_tma(k, c->dst, c->src);
}

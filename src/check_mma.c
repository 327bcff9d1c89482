/*
 * tc.mma: the checks, in the order in which Pallas:Mosaic GPU makes them: the call itself
 * (shapes, spaces, collectivity), the cluster axis, then what the instruction takes.
 */
#include "compile.h"
#include "mma_shape.h"

const char *tc_mma_dtype(enum dtype t)
{
	return tc_dtypes[t].mlir;
}

/* ---- the call -------------------------------------------------------- */

static const char *got_operands(struct kern *k, const struct mma_op *m)
{
	return tc_arena_printf(&k->arena, "%s%s%s", tc_got(k, "acc", m->acc), tc_got(k, "a", m->a),
			       tc_got(k, "b", m->b));
}

static void check_rank(struct kern *k, const struct mma_op *m)
{
	const struct ref *const ref[] = {m->acc, m->a, m->b};
	static const char *const name[] = {"acc", "a", "b"};

	for (int i = 0; i < 3; i++)
		if (ref[i]->rank != 2)
			tc_documented(&k->err, MMA_RANK, tc_got(k, name[i], ref[i]), name[i],
				      tc_shape_text(k, ref[i]));
}

static bool twice(const struct dim *d, const struct dim *half)
{
	return d->size >= 0 && half->size >= 0 && d->size == 2 * half->size;
}

static void check_shapes(struct kern *k, const struct mma_op *m)
{
	const struct dim *acc = m->acc->shape, *a = m->a->shape, *b = m->b->shape;
	const char *more = got_operands(k, m);
	const char *acc_text = tc_shape_text(k, m->acc), *a_text = tc_shape_text(k, m->a),
		   *b_text = tc_shape_text(k, m->b);

	if (!tc_dim_equal(&acc[0], &a[0]))
		tc_documented(&k->err, MMA_ACC_LHS_SHAPE, more, acc_text, a_text);
	if (m->collective_axis_name && !twice(&acc[1], &b[1]))
		tc_documented(&k->err, MMA_ACC_RHS_SHAPE_COLLECTIVE, more, acc_text, b_text);
	if (!m->collective_axis_name && m->acc->alloc->collective && twice(&acc[1], &b[1]))
		more = tc_join(k, more,
			       "\n  acc is that of two CTAs, but collective_axis is not set");
	if (!m->collective_axis_name && !tc_dim_equal(&acc[1], &b[1]))
		tc_documented(&k->err, MMA_ACC_RHS_SHAPE, more, acc_text, b_text);
	if (m->a_sparse_metadata ? !twice(&b[0], &a[1]) : !tc_dim_equal(&a[1], &b[0]))
		tc_documented(&k->err, MMA_LHS_RHS_SHAPE, more, a_text, b_text);
}

static void check_spaces(struct kern *k, const struct mma_op *m)
{
	if (!m->a_scale != !m->b_scale)
		tc_documented(&k->err, MMA_SCALES_BOTH,
			      m->a_scale ? tc_got(k, "a_scale", m->a_scale)
					 : tc_got(k, "b_scale", m->b_scale));
	if (m->acc->alloc->space != SP_TMEM)
		tc_documented(&k->err, MMA_ACC_SPACE, tc_got(k, "acc", m->acc));
	if (m->a->alloc->space == SP_GMEM)
		tc_documented(&k->err, MMA_LHS_SPACE, tc_got(k, "a", m->a));
	if (m->b->alloc->space != SP_SMEM)
		tc_documented(&k->err, MMA_RHS_SPACE, tc_got(k, "b", m->b));
	if (m->collective_axis_name && !m->acc->alloc->collective)
		tc_documented(&k->err, MMA_ACC_COLLECTIVE, tc_got(k, "acc", m->acc));
	if (m->collective_axis_name && m->a->alloc->space == SP_TMEM && !m->a->alloc->collective)
		tc_documented(&k->err, MMA_LHS_COLLECTIVE, tc_got(k, "a", m->a));
}

static void check_barrier(struct kern *k, const struct barrier_ref *b)
{
	if (!b->barrier->orders_tensor_core)
		tc_documented(&k->err, MMA_BARRIER_TENSOR_CORE,
			      tc_arena_printf(&k->arena, "\n  the barrier was made at %s",
					      tc_pos_text(k, b->barrier->pos)));
}

/* What Pallas finds later, or never: the same questions of scales and metadata. */
static void check_extra_operand(struct kern *k, const struct mma_op *m, const char *name,
				const struct ref *r)
{
	if (!r)
		return;
	if (m->collective_axis_name && !r->alloc->collective)
		tc_documented(&k->err, MMA_EXTRA_COLLECTIVE, tc_got(k, name, r), name);
	if (r->rank != 2)
		tc_documented(&k->err, MMA_SCALE_RANK, tc_got(k, name, r), name,
			      tc_shape_text(k, r));
}

static void check_call(struct kern *k, const struct mma_op *m)
{
	check_rank(k, m);
	check_shapes(k, m);
	check_spaces(k, m);
	if (m->barrier.barrier)
		check_barrier(k, &m->barrier);
	if (m->a_scale && m->a_scale->alloc->space != SP_TMEM)
		tc_documented(&k->err, MMA_A_SCALE_SPACE, tc_got(k, "a_scale", m->a_scale));
	if (m->b_scale && m->b_scale->alloc->space != SP_TMEM)
		tc_documented(&k->err, MMA_B_SCALE_SPACE, tc_got(k, "b_scale", m->b_scale));
	if (m->a_sparse_metadata && m->a_sparse_metadata->alloc->space != SP_TMEM)
		tc_documented(&k->err, MMA_METADATA_SPACE,
			      tc_got(k, "a_sparse_metadata", m->a_sparse_metadata),
			      tc_space_names[m->a_sparse_metadata->alloc->space]);
	check_extra_operand(k, m, "a_scale", m->a_scale);
	check_extra_operand(k, m, "b_scale", m->b_scale);
	check_extra_operand(k, m, "a_sparse_metadata", m->a_sparse_metadata);
}

/* ---- without a cluster axis ------------------------------------------------------- */

static void check_not_collective(struct kern *k, const struct mma_op *m)
{
	const struct ref *const ref[] = {m->acc, m->a, m->a_scale, m->b_scale,
					 m->a_sparse_metadata};
	static const char *const name[] = {"acc", "a", "a_scale", "b_scale", "a_sparse_metadata"};

	for (int i = 0; i < 5; i++)
		if (ref[i] && ref[i]->alloc->space == SP_TMEM && ref[i]->alloc->collective)
			tc_documented(&k->err, COLLECTIVE_MIXED_OPERANDS,
				      tc_got(k, name[i], ref[i]), name[i]);
}

/* ---- the instruction ------------------------------------------------------- */

static void check_operand_axes(struct kern *k, const char *name, const struct ref *r)
{
	int last = r->alloc->rank - 1;
	int low = r->axis[0] < r->axis[1] ? r->axis[0] : r->axis[1];
	int high = r->axis[0] + r->axis[1] - low;

	if (high != last || low != last - 1)
		tc_documented(&k->err, MMA_AXES, tc_got(k, name, r), name);
}

void tc_mma_describe(const struct mma_op *m, struct mma_shape *s)
{
	int64_t scales = m->a_scale ? m->a_scale->shape[1].size : 0;

	s->m = m->acc->shape[0].size;
	s->n = m->b->shape[1].size;
	s->k = m->b->shape[0].size;
	s->depth = m->depth ? m->depth : s->k;
	s->collective = m->collective_axis_name != NULL;
	s->sparse = m->a_sparse_metadata != NULL;
	s->scaled = m->a_scale != NULL;
	s->scale = s->scaled ? m->a_scale->alloc->dtype : DT_COUNT;
	s->block = scales > 0 ? s->k / scales : 0;
	s->a_in_tmem = m->a->alloc->space == SP_TMEM;
	s->a_k_major = s->a_in_tmem || !m->a->transposed;
	s->b_k_major = m->b->transposed;
	s->a = m->a->alloc->dtype;
	s->b = m->b->alloc->dtype;
	s->d = m->acc->alloc->dtype;
	s->a_bits = tc_stored_bits(m->a->alloc);
	s->b_bits = tc_stored_bits(m->b->alloc);
	s->b_swizzle = m->b->alloc->swizzle;
	s->a_swizzle = s->a_in_tmem ? s->b_swizzle : m->a->alloc->swizzle;
	s->row = tc_mma_row(false, s);
}

/* The instructions left once A, B and scaling are settled; NULL: none. */
static const struct mma_row *candidate(const struct mma_shape *s, const struct mma_row *after)
{
	return tc_mma_next(false, s, MMA_TYPES | MMA_WIDTHS | MMA_SCALING, after);
}

/* The instruction, or where scales or accumulator rule all out the first left. */
static const struct mma_row *nearest(const struct mma_shape *s)
{
	return s->row ? s->row : candidate(s, NULL);
}

/* A further line for a limit that the instruction set does not have. */
static const char *with_origin(struct kern *k, const char *more, const struct mma_row *row,
			       enum mma_limit limit)
{
	if (!row || !(row->pallas & limit))
		return more;
	return tc_join(k, more, "\n  a limit of Pallas:Mosaic GPU, not of the instruction set");
}

static void check_swizzle(struct kern *k, const char *name, const struct ref *r)
{
	struct smem_layout layout;

	if (r->alloc->space != SP_SMEM)
		return;
	tc_smem_layout(r->alloc, &layout);
	if (!layout.panelled)
		tc_documented(&k->err, MMA_NO_SWIZZLE, tc_got(k, name, r));
}

/* Rows of one CTA in TMEM: where the lanes of its accumulator are. */
static void check_a_in_tmem(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	const struct alloc *a = m->a->alloc;
	enum tmem_layout layout = s->m != 64 || !tc_lanes_have_halves(k) ? TML_DEFAULT
				  : s->collective                        ? TML_M64_COLLECTIVE_A
									 : TML_HALF_LANE;

	if (s->collective && s->m != 128 && (s->m != 64 || a->layout != layout))
		tc_documented(&k->err, MMA_TMEM_A_M,
			      tc_join(k, tc_got(k, "a", m->a),
				      "\n  with 64 rows in each CTA both halves of the lanes need "
				      "them: layout = \"m64_collective_a\""),
			      tc_integer_text(k, s->m));
	if ((a->layout != layout && tc_lanes_have_halves(k)) || a->packing != 32 / s->a_bits)
		tc_documented(&k->err, MMA_A_LAYOUT, tc_got(k, "a", m->a),
			      tc_arena_printf(&k->arena, "%s(packing=%d)", tc_tmem_layouts[layout],
					      32 / s->a_bits),
			      tc_layout_text(k, a));
}

static void check_places(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	check_swizzle(k, "b", m->b);
	check_swizzle(k, "a", m->a);
	if (s->a_in_tmem)
		check_a_in_tmem(k, m, s);
	if (s->a != s->b && !tc_mma_next(false, s, MMA_TYPES, NULL))
		tc_documented(&k->err, MMA_DTYPE_MIX, got_operands(k, m), tc_mma_dtype(s->a),
			      tc_mma_dtype(s->b));
	if (s->a_bits != s->b_bits && s->a_in_tmem)
		tc_documented(&k->err, MMA_TMEM_A_NARROW, got_operands(k, m), tc_mma_dtype(s->a));
	if (s->a_bits != s->b_bits)
		tc_documented(&k->err, MMA_PADDED, got_operands(k, m));
}

static void check_acc_layout(struct kern *k, const struct mma_op *m, enum tmem_layout layout,
			     const char *expected)
{
	const struct alloc *acc = m->acc->alloc;

	if (acc->layout != layout || acc->packing != 1)
		tc_documented(&k->err, MMA_ACC_LAYOUT, tc_got(k, "acc", m->acc),
			      tc_join(k, expected, "(packing=1)"), tc_layout_text(k, acc));
}

/* Whether an instruction has this M, of those for the types if there are any for them. */
static bool takes_m(const struct mma_shape *s, bool sparse)
{
	const unsigned typed = MMA_SCALING | MMA_TYPES | MMA_WIDTHS;
	unsigned properties = tc_mma_next(false, s, typed, NULL) ? typed : MMA_SCALING;
	const struct mma_row *r = NULL;

	while ((r = tc_mma_next(false, s, properties, r)))
		if (tc_mma_takes_m(r, s->collective, sparse, s->m * tc_mma_ctas(s)))
			return true;
	return false;
}

/* wgmma takes 64 rows, and as many of them as four warpgroups have. */
static bool is_stack_of_wgmma(struct kern *k, const struct mma_shape *s)
{
	return s->m > 128 && s->m <= 256 && !tc_lanes_have_halves(k);
}

static void check_m(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	const char *more = got_operands(k, m);

	if (is_stack_of_wgmma(k, s)) {
		check_acc_layout(k, m, TML_DEFAULT, "default");
		return;
	}
	if (s->m == 64 && s->scaled && !takes_m(s, false))
		tc_documented(&k->err, MMA_SCALED_M64, more);
	if (!takes_m(s, false))
		tc_documented(&k->err, MMA_M, tc_got(k, "acc", m->acc), tc_integer_text(k, s->m));
	if (s->sparse && !takes_m(s, true))
		tc_documented(
			&k->err, MMA_SPARSE_M64,
			tc_join(k, with_origin(k, more, nearest(s), MMA_LIMIT_SPARSE_M),
				"\n  no document says where tensor memory holds the metadata of "
				"64 rows"));
	if (s->m != 64)
		check_acc_layout(k, m, TML_DEFAULT, "default");
	else
		check_acc_layout(k, m, s->collective ? TML_M64_COLLECTIVE : TML_HALF_LANE,
				 s->collective ? "m64_collective" : "half_lane");
}

/* The message says which accumulators the types have. */
_Noreturn static void refuse_result(struct kern *k, const struct mma_op *m,
				    const struct mma_shape *s)
{
	const char *more = got_operands(k, m), *t = tc_mma_dtype(s->a), *d = tc_mma_dtype(s->d);
	const struct mma_row *r = candidate(s, NULL);

	if (s->scaled)
		tc_documented(&k->err, MMA_SCALED_ACC_F32, more, t, d);
	if (r->kind == MMA_I8)
		tc_documented(&k->err, MMA_ACC_S32, more, d);
	if (r->d >> DT_F16 & 1)
		tc_documented(&k->err, MMA_ACC_F32_F16, more, t, d);
	tc_documented(&k->err, MMA_ACC_F32, more, t, d);
}

static void check_dtypes(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	const char *more = got_operands(k, m), *t = tc_mma_dtype(s->a);
	const unsigned types = MMA_TYPES | MMA_WIDTHS;

	if (!tc_mma_next(false, s, types, NULL))
		tc_documented(&k->err, MMA_DTYPE, more, t);
	if (!candidate(s, NULL) && s->scaled)
		tc_documented(&k->err, MMA_NO_SCALING, more, t);
	if (!candidate(s, NULL))
		tc_documented(&k->err, MMA_ONLY_SCALED, more, t);
	if (!tc_mma_next(false, s, types | MMA_SCALING | MMA_RESULT, NULL))
		refuse_result(k, m, s);
}

/*
 * Each instruction takes half of its columns from either CTA's B.  Where the halves lie one above
 * the other, so do those of several instructions; side by side they would take turns.
 */
static const char *with_reason(struct kern *k, const char *more, const struct mma_shape *s)
{
	return tc_join(k, more,
		       s->scaled ? "\n  the factors of a pair's B are those of 256 columns"
				 : "\n  with 128 rows in each CTA the columns of several "
				   "instructions would not lie in the order of B's: multiply by "
				   "each 128 columns of b into accumulators of their own");
}

/* N of the instruction, in each CTA half of it for a pair. */
static void check_n(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	const char *more = tc_got(k, "b", m->b), *n = tc_integer_text(k, s->n);
	const struct mma_row *r = nearest(s);
	int ctas = tc_mma_ctas(s);
	int step = (s->collective ? r->n.two : r->n.one) / ctas,
	    sparse_step = r->n.sparse_two / ctas;

	if (!tc_mma_takes_n(r, s->collective, s->n * ctas))
		tc_documented(&k->err, MMA_N_MULTIPLE, more, s->collective ? "2 CTA" : "1 CTA",
			      r->kind == MMA_I8 ? " integer" : "", tc_integer_text(k, step), n);
	if (s->sparse && s->collective && s->n % sparse_step)
		tc_documented(&k->err, MMA_N_SPARSE, with_origin(k, more, r, MMA_LIMIT_SPARSE_N),
			      tc_integer_text(k, sparse_step), n);
	if (s->collective && s->n * ctas > r->n.most && !tc_mma_pair_in_slices(s))
		tc_documented(&k->err, MMA_N_COLLECTIVE, with_reason(k, more, s));
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The instruction's K and the spans of K-major operands; of sparse ones, Pallas' rule. */
static void check_k(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	const struct mma_row *r = nearest(s);
	int64_t a_span = 8 * s->a_swizzle * (s->sparse ? 2 : 1) / s->a_bits;
	int64_t b_span = 8 * s->b_swizzle / s->b_bits;
	bool strict = s->sparse && r->pallas & MMA_LIMIT_SPARSE_K;
	int64_t group = s->sparse ? r->k_sparse : r->k;

	if (strict || (!s->a_in_tmem && s->a_k_major))
		group = larger(group, a_span);
	if (strict || s->b_k_major)
		group = larger(group, b_span);
	if (strict)
		group = larger(group, 64);
	if (s->scaled)
		group = larger(group, 4 * s->block);
	if (s->k % group)
		tc_documented(&k->err, MMA_GROUP,
			      strict ? with_origin(k, got_operands(k, m), r, MMA_LIMIT_SPARSE_K)
				     : got_operands(k, m),
			      "K", tc_integer_text(k, group), tc_integer_text(k, s->k));
}

/* Whole instructions, each of 32 bytes of both operands. */
static void check_depth(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	int64_t step = candidate(s, NULL)->k;

	if (!m->depth)
		return;
	if (s->scaled || s->sparse || s->a_bits != s->b_bits)
		tc_fail(&k->err, "option 'depth' is for dense operands of one width without "
				 "scales");
	if (s->depth % step || s->depth > s->k)
		tc_fail(&k->err,
			"option 'depth' must be a multiple of %lld (32 bytes of K) up to K = %lld, "
			"got %lld",
			(long long)step, (long long)s->k, (long long)s->depth);
}

/*
 * docs/isa.md 2.4: MN-major are elements of a byte or two, and those of four bytes in atoms of 32
 * bytes, which serve nothing else.  wgmma's rule is stricter, and its own.
 */
static void check_order(struct kern *k, const char *name, const struct ref *r, bool k_major)
{
	enum dtype t = r->alloc->dtype;
	int bits = tc_dtypes[t].bits;

	if (r->alloc->space != SP_SMEM || !tc_lanes_have_halves(k))
		return;
	if (r->alloc->atom_32 && (k_major || bits != 32))
		tc_documented(&k->err, MMA_ATOM, tc_got(k, name, r), name, tc_mma_dtype(t));
	if (!k_major && bits == 32 && !r->alloc->atom_32)
		tc_documented(&k->err, MMA_TF32_MAJOR, tc_got(k, name, r), name, tc_mma_dtype(t));
	if (!k_major && bits != 8 && bits != 16 && bits != 32)
		tc_documented(&k->err, MMA_K_MAJOR, tc_got(k, name, r), name, tc_mma_dtype(t));
}

/* Orders and shapes that no address calculation serves. */
static void check_tiles(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	if (s->a_bits == 4 && !s->a_k_major)
		tc_documented(&k->err, MMA_FP4_A_MAJOR, tc_got(k, "a", m->a));
	if (s->b_bits == 4 && !s->b_k_major)
		tc_documented(&k->err, MMA_FP4_B_MAJOR, tc_got(k, "b", m->b));
	check_order(k, "a", m->a, s->a_k_major);
	check_order(k, "b", m->b, s->b_k_major);
	if (s->sparse && s->b_swizzle == 32 && s->b_k_major)
		tc_documented(&k->err, MMA_SPARSE_B_TILING, tc_got(k, "b", m->b));
}

/* ---- the SMEM descriptor ------------------------------------------------------------ */

/* Field values are bytes >> 4 in 14 bits. */
static void check_encodable(struct kern *k, const char *name, const struct ref *r, int64_t bytes)
{
	if (bytes % 16 || bytes < 0 || bytes >= INT64_C(1) << 18)
		tc_documented(&k->err, MMA_DESCRIPTOR, tc_got(k, name, r),
			      tc_integer_text(k, bytes));
}

/* Distance of panels, where a descriptor names it, and the constant part of the start. */
static void check_descriptor(struct kern *k, const char *name, const struct ref *r, bool k_major)
{
	const struct alloc *a = r->alloc;
	struct smem_layout s;
	int64_t stride, start = 0, i;

	tc_smem_layout(a, &s);
	if ((!k_major || !s.swizzle) && r->extent[a->rank - 1].size > s.panel_columns)
		check_encodable(k, name, r, s.panel_bytes);
	stride = s.tile_bytes;
	for (int axis = a->rank - 3; axis >= 0; axis--) {
		if (tc_val_is_const(r->start[axis], &i))
			start += i * stride;
		stride *= a->shape[axis].size;
	}
	if (tc_val_is_const(r->start[a->rank - 2], &i))
		start += i * s.row_bytes;
	if (tc_val_is_const(r->start[a->rank - 1], &i))
		start += i / s.panel_columns * s.panel_bytes;
	if (start >= s.tile_bytes)
		check_encodable(k, name, r, start);
}

/* ---- what the target has --------------------------------------------------------------------- */

static void check_target(struct kern *k, const struct mma_op *m, const struct mma_shape *s)
{
	bool wgmma = k->target && !tc_target_find(k->target)->tmem_columns;
	const struct mma_row *row = wgmma ? tc_mma_row(true, s) : s->row;
	const char *kind = s->row ? s->row->name : "an MMA";

	if (!row || (k->target && !tc_mma_on_target(row, k->target)))
		tc_documented(&k->err, MMA_TARGET, got_operands(k, m), kind, tc_mma_dtype(s->a),
			      tc_mma_dtype(s->b), k->target ? k->target : "any target");
}

/* ---- entry points ---------------------------------------------------------------------------- */

void tc_check_mma(struct kern *k, struct mma_op *m)
{
	struct mma_shape s;

	check_call(k, m);
	if (m->collective_axis_name) {
		m->collective_axis = tc_check_collective_axis(k, m->collective_axis_name);
		if (m->barrier.barrier)
			tc_check_collective_commit(k, &m->barrier);
	} else {
		m->collective_axis = -1;
		check_not_collective(k, m);
	}
	if (m->barrier.barrier)
		tc_check_single_barrier(k, &m->barrier);
	tc_mma_describe(m, &s);
	check_operand_axes(k, "b", m->b);
	if (!s.a_in_tmem)
		check_operand_axes(k, "a", m->a);
	check_places(k, m, &s);
	check_m(k, m, &s);
	check_dtypes(k, m, &s);
	if (s.scaled && (m->a_scale->shape[1].size < 1 || s.k % m->a_scale->shape[1].size))
		tc_documented(&k->err, MMA_SCALE_K, tc_got(k, "a_scale", m->a_scale),
			      tc_integer_text(k, s.k),
			      tc_integer_text(k, m->a_scale->shape[1].size));
	check_n(k, m, &s);
	check_k(k, m, &s);
	check_depth(k, m, &s);
	tc_check_mma_extras(k, m, &s);
	check_tiles(k, m, &s);
	check_descriptor(k, "b", m->b, s.b_k_major);
	if (!s.a_in_tmem)
		check_descriptor(k, "a", m->a, s.a_k_major);
	check_target(k, m, &s);
}

void tc_check_commit_arrive(struct kern *k, struct arrive_op *a)
{
	if (!a->barrier.barrier)
		tc_check_reference(k, "barrier", "SMEM", "nothing");
	check_barrier(k, &a->barrier);
	a->collective_axis = -1;
	if (a->collective_axis_name) {
		a->collective_axis = tc_check_collective_axis(k, a->collective_axis_name);
		tc_check_collective_commit(k, &a->barrier);
	}
	tc_check_single_barrier(k, &a->barrier);
}

/* Loads and stores of tiles, and copies from SMEM to TMEM. */
#include "compile.h"

bool tc_fragment_fits(const struct frag *f, const struct ref *r)
{
	if (f->rank == 0)
		return true;
	if (f->rank != r->rank)
		return false;
	for (int i = 0; i < r->rank; i++)
		if (f->shape[i] != r->shape[i].size)
			return false;
	return true;
}

const char *tc_fragment_shape_text(struct kern *k, const struct frag *f)
{
	if (f->rank == 2)
		return tc_pair_text(k, f->shape[0], f->shape[1]);
	return f->rank ? tc_arena_printf(&k->arena, "(%d,)", f->shape[0]) : "()";
}

/* ---- SMEM and GMEM ------------------------------------------------------------------- */

/* Whole bytes of whole bytes. */
static bool is_of_pairs(const struct ref *r)
{
	const struct alloc *a = r->alloc;
	int last = a->rank - 1;
	bool taken = false;

	for (int i = 0; i < r->rank; i++)
		taken |= r->axis[i] == last;
	return taken && a->shape[last].size >= 0 && a->shape[last].size % 2 == 0 &&
	       r->extent[last].size % 2 == 0 && tc_val_divisor(r->start[last]) % 2 == 0;
}

static void check_tile(struct kern *k, const struct ref *r, const char *what)
{
	enum dtype t = r->alloc->dtype;

	if (!tc_static_shape(r))
		tc_documented(&k->err, FRAGMENT_SHAPE, tc_got(k, "the ref", r),
			      tc_shape_text(k, r));
	if (r->rank < 1 || r->rank > 2)
		tc_documented(&k->err, FRAGMENT_RANK, tc_got(k, "the ref", r), tc_shape_text(k, r));
	if (!tc_dtype_in_registers(t))
		tc_documented(&k->err, FRAGMENT_DTYPE, tc_got(k, "the ref", r), what,
			      tc_dtypes[t].name);
	if (tc_dtypes[t].bits == 4 && r->alloc->padded)
		tc_documented(&k->err, FRAGMENT_PADDED, tc_got(k, "the ref", r), what);
	if (tc_dtypes[t].bits == 4 && !is_of_pairs(r))
		tc_documented(&k->err, FRAGMENT_PAIRS, tc_got(k, "the ref", r), what);
}

void tc_check_load(struct kern *k, struct load_op *l)
{
	if (l->ref->alloc->space == SP_TMEM)
		tc_documented(&k->err, TMEM_LOAD, tc_got(k, "the ref", l->ref));
	check_tile(k, l->ref, "ref:load");
}

/* st.async: into the CTA that the ref names, whose barrier counts the bytes. */
static void check_counted_store(struct kern *k, struct store_op *s)
{
	if (!s->ref->cluster_rank)
		tc_fail(&k->err,
			"A store with a barrier goes into the SMEM of another CTA: "
			"tc.cluster_ref(ref, rank):store(value, {barrier = b})\n%s",
			tc_ref_text(k, s->ref));
	if (tc_dtypes[s->ref->alloc->dtype].bits != 32)
		tc_fail(&k->err, "A store with a barrier moves elements of 32 bits, got %s\n%s",
			tc_dtypes[s->ref->alloc->dtype].name, tc_ref_text(k, s->ref));
	if (s->barrier.cluster_rank || s->barrier.barrier->cluster)
		tc_fail(&k->err, "The barrier of a store is a tc.barrier, not a reference to "
				 "another CTA's or a tc.cluster_barrier: it is the one of the CTA "
				 "that the store goes to");
	if (s->barrier.barrier->num_barriers > 1 && !s->barrier.index)
		tc_documented(
			&k->err, STORE_BARRIER, "",
			tc_arena_printf(&k->arena, "(%d,)", s->barrier.barrier->num_barriers));
	tc_check_single_barrier(k, &s->barrier);
	s->barrier.cluster_rank = s->ref->cluster_rank;
}

void tc_check_store(struct kern *k, struct store_op *s)
{
	if (s->ref->alloc->space == SP_TMEM)
		tc_documented(&k->err, TMEM_STORE, tc_got(k, "the ref", s->ref));
	check_tile(k, s->ref, "ref:store");
	if (!tc_fragment_fits(s->value, s->ref))
		tc_documented(&k->err, STORED_SHAPE, tc_got(k, "the ref", s->ref),
			      tc_fragment_shape_text(k, s->value), tc_shape_text(k, s->ref));
	if (s->value->dtype != s->ref->alloc->dtype)
		tc_documented(&k->err, STORED_DTYPE, tc_got(k, "the ref", s->ref),
			      tc_dtypes[s->value->dtype].name,
			      tc_dtypes[s->ref->alloc->dtype].name);
	if (s->barrier.barrier)
		check_counted_store(k, s);
}

/* ---- TMEM ------------------------------------------------------------------------------- */

/* Registers hold 32-bit columns, 16-bit elements one or two a column, and narrower ones that fill
 * it. */
static bool register_layout(const struct alloc *a)
{
	int bits = tc_dtypes[a->dtype].bits;

	if (a->layout != TML_DEFAULT && a->layout != TML_HALF_LANE &&
	    a->layout != TML_M64_COLLECTIVE && a->layout != TML_M64_COLLECTIVE_A)
		return false;
	return bits >= 16 || (tc_dtype_in_registers(a->dtype) && a->packing * bits == 32);
}

static void check_tmem_tile(struct kern *k, const struct ref *r, bool load)
{
	const struct alloc *a = r->alloc;
	/* Which of the two lanes would be asked? */
	bool twice = load && a->layout == TML_M64_COLLECTIVE_A;

	if (r->rank != 2)
		tc_documented(&k->err, FRAGMENT_RANK, tc_got(k, "the ref", r), tc_shape_text(k, r));
	if (!register_layout(a) || twice)
		tc_documented(&k->err, TMEM_LAYOUT_REGISTERS, tc_got(k, "the ref", r),
			      tc_layout_text(k, a));
	if (r->shape[0].size > 128 && tc_lanes_have_halves(k))
		tc_documented(&k->err, LOAD_ROW_TILES, tc_got(k, "the ref", r));
}

void tc_check_async_load_tmem(struct kern *k, struct load_op *l)
{
	if (l->ref->alloc->space != SP_TMEM)
		tc_documented(&k->err, ASYNC_LOAD_SPACE, tc_got(k, "the ref", l->ref));
	if (l->ref->alloc->layout == TML_SPARSE_METADATA)
		tc_documented(&k->err, LOAD_METADATA, tc_got(k, "the ref", l->ref));
	check_tmem_tile(k, l->ref, true);
}

void tc_check_async_store_tmem(struct kern *k, struct store_op *s)
{
	const struct alloc *a = s->ref->alloc;

	if (a->space != SP_TMEM)
		tc_documented(&k->err, ASYNC_STORE_SPACE, tc_got(k, "the ref", s->ref));
	if (!tc_fragment_fits(s->value, s->ref))
		tc_documented(&k->err, STORE_SHAPE, tc_got(k, "the ref", s->ref),
			      tc_fragment_shape_text(k, s->value), tc_shape_text(k, s->ref));
	/* Before the dtype, which no fragment has. */
	if (a->layout == TML_SPARSE_METADATA)
		tc_documented(&k->err, STORE_METADATA, tc_got(k, "the ref", s->ref));
	if (s->value->dtype != a->dtype)
		tc_documented(&k->err, STORE_DTYPE, tc_got(k, "the ref", s->ref),
			      tc_dtypes[s->value->dtype].mlir, tc_dtypes[a->dtype].mlir);
	check_tmem_tile(k, s->ref, false);
}

/* ---- SMEM to TMEM ------------------------------------------------------------------------ */

static bool smem_shape_is(const struct ref *r, int64_t a, int64_t b, int64_t c, int64_t d)
{
	return r->rank == 4 && r->shape[0].size == a && r->shape[1].size == b &&
	       r->shape[2].size == c && r->shape[3].size == d;
}

static void check_scales_shape(struct kern *k, const struct ref *src, int64_t a, int64_t b,
			       int64_t c, int64_t d, const struct ref *dst)
{
	if (smem_shape_is(src, a, b, c, d))
		return;
	tc_documented(&k->err, COPY_SCALES_SHAPE,
		      tc_join(k, tc_got(k, "src", src), tc_got(k, "dst", dst)),
		      tc_shape_text(k, src),
		      tc_arena_printf(&k->arena, "(%lld, %lld, %lld, %lld)", (long long)a,
				      (long long)b, (long long)c, (long long)d),
		      tc_shape_text(k, dst));
}

/* The rows of a tile lie one behind the other: they are whole, and all are taken. */
static bool is_dense(const struct ref *r)
{
	const struct alloc *a = r->alloc;

	for (int i = 1; i <= 2; i++)
		if (r->axis[r->rank - i] != a->rank - i ||
		    r->extent[a->rank - i].size != a->shape[a->rank - i].size)
			return false;
	return !a->swizzle;
}

static void check_plain(struct kern *k, const struct ref *src)
{
	if (!is_dense(src))
		tc_documented(&k->err, COPY_SCALES_CONTIGUOUS, tc_got(k, "src", src));
}

static void check_copy_dtypes(struct kern *k, const struct ref *src, const struct ref *dst)
{
	if (src->alloc->dtype != dst->alloc->dtype)
		tc_documented(&k->err, COPY_TMEM_DTYPES, "", tc_dtypes[src->alloc->dtype].mlir,
			      tc_dtypes[dst->alloc->dtype].mlir);
}

static void check_scales(struct kern *k, const struct ref *src, const struct ref *dst)
{
	enum dtype t = dst->alloc->dtype;
	int64_t rows = dst->shape[0].size, columns = dst->shape[1].size;

	check_copy_dtypes(k, src, dst);
	if (t != DT_E8M0 && t != DT_E4M3)
		tc_documented(&k->err, COPY_SCALES_DTYPE, "", tc_dtypes[t].mlir);
	if (rows % 128)
		tc_documented(&k->err, COPY_ROWS_128, tc_got(k, "dst", dst),
			      tc_integer_text(k, rows));
	if (columns % 4)
		tc_documented(&k->err, COPY_SCALES_COLUMNS, tc_got(k, "dst", dst),
			      tc_integer_text(k, columns));
	check_plain(k, src);
	if (dst->alloc->layout == TML_B_SCALES_M64_COLLECTIVE) {
		if (!smem_shape_is(src, 1, columns / 4, 64, 16))
			tc_documented(&k->err, COPY_SCALES_SHAPE_64,
				      tc_join(k, tc_got(k, "src", src), tc_got(k, "dst", dst)),
				      tc_shape_text(k, src), tc_integer_text(k, columns / 4),
				      tc_shape_text(k, dst));
		return;
	}
	if (dst->alloc->layout != TML_SCALES)
		tc_documented(&k->err, COPY_SCALES_LAYOUT, tc_got(k, "dst", dst),
			      tc_layout_text(k, dst->alloc));
	check_scales_shape(k, src, rows / 128, columns / 4, 32, 16, dst);
}

static void check_metadata(struct kern *k, const struct ref *src, const struct ref *dst)
{
	int64_t rows = dst->shape[0].size, columns = dst->shape[1].size;

	check_copy_dtypes(k, src, dst);
	if (dst->alloc->dtype != DT_U2)
		tc_documented(&k->err, COPY_METADATA_DTYPE, "", tc_dtypes[dst->alloc->dtype].mlir);
	if (rows % 128)
		tc_documented(&k->err, COPY_ROWS_128, tc_got(k, "dst", dst),
			      tc_integer_text(k, rows));
	if (columns % 64)
		tc_documented(&k->err, COPY_METADATA_COLUMNS, tc_got(k, "dst", dst),
			      tc_integer_text(k, columns));
	if (dst->alloc->layout != TML_SPARSE_METADATA)
		tc_documented(&k->err, TMEM_LAYOUT_REGISTERS, tc_got(k, "dst", dst),
			      tc_layout_text(k, dst->alloc));
	check_scales_shape(k, src, rows / 128, columns / 64, 128, 64, dst);
	check_plain(k, src);
	if (rows != 128)
		tc_documented(&k->err, COPY_METADATA_ROWS, tc_got(k, "dst", dst));
}

static void check_tile_copy(struct kern *k, const struct ref *src, const struct ref *dst)
{
	const struct alloc *a = dst->alloc;
	int full = 32 / tc_stored_bits(a);
	struct smem_layout layout;

	if (src->alloc->dtype != a->dtype)
		tc_documented(&k->err, COPY_TMEM_DTYPE, "", tc_dtypes[src->alloc->dtype].name,
			      tc_dtypes[a->dtype].name);
	if (!tc_same_shape(src, dst))
		tc_documented(&k->err, COPY_TMEM_SHAPE,
			      tc_join(k, tc_got(k, "src", src), tc_got(k, "dst", dst)),
			      tc_shape_text(k, src), tc_shape_text(k, dst));
	if (tc_stored_bits(src->alloc) != tc_stored_bits(a))
		tc_documented(&k->err, COPY_TMEM_PADDED,
			      tc_join(k, tc_got(k, "src", src), tc_got(k, "dst", dst)),
			      tc_integer_text(k, tc_stored_bits(src->alloc)),
			      tc_integer_text(k, tc_stored_bits(a)));
	if (a->packing != full)
		tc_documented(&k->err, COPY_PACKED, tc_got(k, "dst", dst), tc_integer_text(k, full),
			      tc_integer_text(k, a->packing));
	if (dst->shape[0].size != (a->layout == TML_M64_COLLECTIVE_A ? 64 : 128))
		tc_documented(&k->err, COPY_ROWS, tc_got(k, "dst", dst),
			      tc_integer_text(k, dst->shape[0].size));
	if (a->layout != TML_DEFAULT && a->layout != TML_M64_COLLECTIVE_A)
		tc_documented(&k->err, COPY_LAYOUT, tc_got(k, "dst", dst), tc_layout_text(k, a));
	if (src->transposed)
		tc_documented(&k->err, COPY_TMEM_TRANSPOSED, tc_got(k, "src", src));
	tc_smem_layout(src->alloc, &layout);
	if ((!layout.swizzle && layout.row_bytes != 16) || src->alloc->atom_32)
		tc_documented(&k->err, COPY_TMEM_PLAIN, tc_got(k, "src", src));
}

/* A copy is of one CTA or of two, as the tensor memory that it writes. */
static void check_pair(struct kern *k, const struct tmem_copy_op *c)
{
	if (c->collective_axis >= 0)
		tc_check_collective_axis(k, k->cluster_names[c->collective_axis]);
	if (c->collective_axis >= 0 && !c->dst->alloc->collective)
		tc_documented(&k->err, MMA_EXTRA_COLLECTIVE, tc_got(k, "dst", c->dst), "dst");
	if (c->collective_axis < 0 && c->dst->alloc->collective)
		tc_documented(&k->err, COLLECTIVE_INCONSISTENT, tc_got(k, "dst", c->dst));
}

void tc_check_tmem_copy(struct kern *k, enum op_kind kind, struct tmem_copy_op *c)
{
	const char *source = tc_got(k, "src", c->src), *target = tc_got(k, "dst", c->dst);
	bool from_smem = c->src->alloc->space == SP_SMEM, to_tmem = c->dst->alloc->space == SP_TMEM;

	if (kind == OP_ASYNC_COPY_SCALES_TO_TMEM) {
		if (!from_smem)
			tc_documented(&k->err, COPY_SCALES_SOURCE, source);
		if (!to_tmem)
			tc_documented(&k->err, COPY_SCALES_TARGET, target);
	} else if (kind == OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM) {
		if (!from_smem)
			tc_documented(&k->err, COPY_METADATA_SOURCE, source);
		if (!to_tmem)
			tc_documented(&k->err, COPY_METADATA_TARGET, target);
	} else {
		if (!from_smem)
			tc_documented(&k->err, COPY_TMEM_SOURCE, source);
		if (!to_tmem)
			tc_documented(&k->err, COPY_TMEM_TARGET, target);
	}
	if (c->dst->rank != 2)
		tc_documented(&k->err, FRAGMENT_RANK, target, tc_shape_text(k, c->dst));
	check_pair(k, c);
	if (kind == OP_ASYNC_COPY_SCALES_TO_TMEM) {
		check_scales(k, c->src, c->dst);
	} else if (kind == OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM) {
		check_metadata(k, c->src, c->dst);
	} else {
		check_tile_copy(k, c->src, c->dst);
	}
}

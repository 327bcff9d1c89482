/*
 * Tiles between SMEM and registers in wgmma's layouts by stmatrix and ldmatrix: four
 * matrices of 8 rows of 16 bytes an instruction, a row for each lane's address
 * (docs/isa.md 9.4).  Matrix i of the four has rows 8 * (i % 2) of the warp's 16, and is
 * chunk i / 2 of 16 bytes along them.
 */
#include "lower_wgmma.h"

/* A tile whose rows (or, transposed, columns) are the fragment's. */
struct matrices {
	struct smem_view view;
	bool transposed;
	int chunks;       /* of 16 bytes, in a row of a panel */
	struct mreg lane; /* this lane's address for the first two columns of matrices */
};

struct lane_key {
	int64_t row_bytes, panel_bytes;
	int swizzle, transposed;
};

static int mask_of(int swizzle)
{
	return swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
}

/* x / divisor * factor of a register, all powers of two but the factor. */
static struct mopnd scaled(struct low *l, struct mopnd x, int64_t divisor, int64_t factor)
{
	return tc_low_mul(l, tc_low_udiv(l, x, divisor), factor);
}

/* The chunk of 16 bytes XOR what the row's number asks for. */
static struct mopnd swizzled(struct low *l, const struct smem_layout *s, struct mopnd chunk,
			     struct mopnd row)
{
	if (s->swizzle)
		chunk = tc_low_xor(
			l, chunk,
			tc_low_and(l, tc_low_udiv(l, row, 128 / s->swizzle), mask_of(s->swizzle)));
	return tc_low_mul(l, chunk, 16);
}

/* Bytes from the tile to this lane's row of its matrix. */
static struct mopnd lane_offset(struct low *l, const struct matrices *m)
{
	const struct smem_layout *s = &m->view.layout;
	struct mopnd lane = R(tc_low_lane(l)), warp = tc_low_and(l, R(l->c->warp), 3);
	struct mopnd row = tc_low_and(l, lane, 7), matrix = tc_low_udiv(l, lane, 8);
	struct mopnd below = tc_low_and(l, matrix, 1), beside = tc_low_udiv(l, matrix, 2), offset;

	if (m->transposed) {
		struct mopnd chunk = tc_low_add(l, tc_low_mul(l, warp, 2), below);

		if (l->clone.id)
			chunk = tc_low_add(l, tc_low_mul(l, R(l->clone), 8), chunk);
		offset = s->swizzle ? scaled(l, chunk, m->chunks, s->panel_bytes) : I(0);
		chunk = s->swizzle ? tc_low_and(l, chunk, m->chunks - 1) : chunk;
		offset = tc_low_add(l, offset, tc_low_mul(l, beside, 8 * s->row_bytes));
		offset = tc_low_add(l, offset, tc_low_mul(l, row, s->row_bytes));
		return tc_low_add(l, offset, swizzled(l, s, chunk, row));
	}
	offset = tc_low_mul(l, warp, 16 * s->row_bytes);
	if (l->clone.id)
		offset = tc_low_add(l, tc_low_mul(l, R(l->clone), 64 * s->row_bytes), offset);
	offset = tc_low_add(l, offset, tc_low_mul(l, below, 8 * s->row_bytes));
	offset = tc_low_add(l, offset, tc_low_mul(l, row, s->row_bytes));
	return tc_low_add(l, offset, swizzled(l, s, beside, row));
}

static struct mreg lane_address(struct low *l, const struct matrices *m)
{
	const struct smem_layout *s = &m->view.layout;
	struct lane_key key = {s->row_bytes, s->panel_bytes, s->swizzle, m->transposed};
	struct mreg *r = tc_entry_register(l, &key, sizeof key);
	struct low_place place;

	if (r->id)
		return *r;
	place = tc_low_at_entry(l);
	*r = tc_low_add(l, lane_offset(l, m), R(l->c->smem)).reg;
	tc_low_return(l, place);
	return *r;
}

static bool starts_at(const struct ref *r, int axis, int64_t multiple)
{
	return tc_val_divisor(r->start[axis]) % multiple == 0;
}

/* Whole matrices, in whole pairs of chunks where they lie side by side. */
static bool lies_in_matrices(const struct ref *r, struct matrices *m)
{
	const struct alloc *a = r->alloc;
	int last = a->rank - 1, elements = 128 / tc_dtypes[a->dtype].bits;
	int64_t chunks, start;

	if (a->space != SP_SMEM || r->cluster_rank || a->rank < 2 || r->rank != 2)
		return false;
	tc_smem_layout(a, &m->view.layout);
	if ((m->view.layout.panelled && !m->view.layout.swizzle) || a->atom_32)
		return false;
	m->transposed = r->axis[0] == last && r->axis[1] == last - 1;
	if (!m->transposed && (r->axis[0] != last - 1 || r->axis[1] != last))
		return false;
	m->chunks = m->view.layout.swizzle / 16;
	chunks = m->view.layout.swizzle ? m->chunks : 1;
	if (!starts_at(r, last - 1, 8) || m->view.layout.row_bytes % 16)
		return false;
	if (!m->transposed && tc_val_is_const(r->start[last], &start))
		return start % (2 * elements) == 0;
	return starts_at(r, last, elements * chunks);
}

static bool is_16_bit_tile(const struct frag_value *v)
{
	const struct distribution *d = v->distribution;

	return d && tc_dtypes[v->dtype].bits == 16 && d->kind == DIST_MMA &&
	       d->axis[1].vector == 2 && d->axis[1].field_count == 1 && v->along[0] && v->along[1];
}

/* Address of the tile's first row and column, and of the lane in it. */
static struct maddr first_address(struct low *l, struct matrices *m, int64_t *chunk)
{
	const struct smem_layout *s = &m->view.layout;
	struct maddr a = m->view.tile;
	struct mopnd offset = tc_low_mul(l, m->view.row, s->row_bytes);

	*chunk = 0;
	if (m->view.column.kind == MO_IMM)
		*chunk = m->view.column.imm * s->bits / 128;
	else if (s->swizzle)
		offset = tc_low_add(l, offset,
				    scaled(l, m->view.column, s->panel_columns, s->panel_bytes));
	else
		offset = tc_low_add(l, offset, tc_low_mul(l, m->view.column, s->bits / 8));
	if (offset.kind == MO_IMM)
		a.offset += offset.imm;
	else
		a.reg = tc_low_add(l, offset, R(a.reg.id ? a.reg : l->c->smem)).reg;
	/* The lane's part has the base of SMEM in it. */
	if (a.reg.id)
		a.reg = tc_low_add(l, tc_low_add(l, R(a.reg), R(m->lane)),
				   tc_low_mul(l, R(l->c->smem), -1))
				.reg;
	else
		a.reg = m->lane;
	return a;
}

/* Registers of one instruction, from chunk `block` of the rows on. */
static void move(struct low *l, const struct matrices *m, struct maddr a, int64_t first, int block,
		 struct mreg *word, int n, bool store)
{
	const struct smem_layout *s = &m->view.layout;
	int64_t chunk = m->transposed ? first : first + block;
	const char *opcode =
		tc_arena_printf(l->arena, "%s.sync.aligned.m8n8.x%d%s.shared.b16",
				store ? "stmatrix" : "ldmatrix", n, m->transposed ? ".trans" : "");

	if (s->swizzle) {
		a.offset += chunk / m->chunks * s->panel_bytes;
		a.reg = tc_low_xor(l, R(a.reg), I(chunk % m->chunks * 16)).reg;
	} else {
		a.offset += chunk * 16;
	}
	if (m->transposed)
		a.offset += 8 * block * s->row_bytes;
	if (store)
		mi(l, opcode, M(a, 0), V(word, n));
	else
		mi(l, opcode, V(word, n), M(a, 0));
}

bool tc_low_stmatrix(struct low *l, const struct ref *r, const struct frag_value *v)
{
	struct matrices m;
	struct maddr a;
	int64_t first;
	int blocks = v->words / 2;

	if (!is_16_bit_tile(v) || !lies_in_matrices(r, &m))
		return false;
	tc_low_smem_view(l, r, &m.view);
	m.lane = lane_address(l, &m);
	a = first_address(l, &m, &first);
	for (int block = 0; block < blocks; block += 2) {
		int n = blocks - block > 1 ? 4 : 2;
		struct mreg word[4];

		for (int i = 0; i < n; i++)
			word[i] = tc_word_register(l, v->word[i % 2 * blocks + block + i / 2]);
		move(l, &m, a, first, block, word, n, true);
	}
	return true;
}

bool tc_wgmma_ldmatrix(struct low *l, const struct ref *r, struct mreg *reg, int words)
{
	struct matrices m;
	struct maddr a;
	int64_t first;

	/* Transposed rows would need elements of 16 bits. */
	if (!lies_in_matrices(r, &m) || (m.transposed && tc_dtypes[r->alloc->dtype].bits != 16))
		return false;
	tc_low_smem_view(l, r, &m.view);
	m.lane = lane_address(l, &m);
	a = first_address(l, &m, &first);
	for (int i = 0; i < words; i += 4)
		move(l, &m, a, first, i / 2, reg + i, words - i < 4 ? words - i : 4, false);
	return true;
}

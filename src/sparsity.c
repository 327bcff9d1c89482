/*
 * Structured sparsity on the host: keeps the greatest of each group of elements
 * and says which, in the bits that the tensor core reads (docs/isa.md 6.4).
 */
#include "host.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "loops.h"

#define FIRST_TWO 0x4u /* the nibble of positions 0 and 1; of 1:2, of the first */

const uint32_t tc_sparse_types = 1u << DT_F32 | 1u << DT_TF32 | 1u << DT_F16 | 1u << DT_BF16 |
				 1u << DT_E4M3 | 1u << DT_E5M2 | 1u << DT_E2M3 | 1u << DT_E3M2 |
				 1u << DT_E2M1 | 1u << DT_I8 | 1u << DT_U8;

/*
 * A nibble of metadata speaks of one group.  Units are what is kept or dropped
 * together: pairs of the 4-bit kinds.
 */
const struct sparse_pattern tc_sparse_patterns[] = {
	{"2:4", 4, 2, 1},
	{"4:8", 4, 2, 2},
	{"1:2", 2, 1, 1},
	{NULL, 0, 0, 0},
};

const struct sparse_pattern *tc_sparse_default(enum dtype t)
{
	int bits = tc_dtypes[t].bits;

	return &tc_sparse_patterns[bits == 32 ? 2 : bits == 4 ? 1 : 0];
}

int64_t tc_sparse_entries(const struct sparse_pattern *p, int64_t length)
{
	return length / (p->group * p->unit) * 2;
}

TC_INLINE int64_t place(const struct lines *l, int64_t row, int64_t i)
{
	return row * l->row_step + i * l->step;
}

/* Of a unit, from its elements; NaN counts as infinite, so that it stays. */
TC_INLINE double magnitude(const struct sparse_pattern *p, const double *x)
{
	double sum = fabs(x[0]);

	if (p->unit == 2)
		sum += fabs(x[1]);
	return sum != sum ? (double)INFINITY : sum;
}

/* The nibble of each set of two positions. */
static const uint8_t nibbles_of_two[16] = {
	[0x3] = 0x4, [0x5] = 0x8, [0x9] = 0xc, [0x6] = 0x9, [0xa] = 0xd, [0xc] = 0xe,
};

/*
 * Units stay that fewer than `keep` are greater than, of equal ones the first.  No branches: on
 * random numbers they would cost more than all else.  Of 1:2 the two positions are those of the
 * element's halves.
 */
TC_INLINE unsigned choose(const struct sparse_pattern *p, const double *x)
{
	double a = magnitude(p, x), b = magnitude(p, x + p->unit);

	if (p->keep == 1)
		return b > a ? 0xe : 0x4;
	double c = magnitude(p, x + 2 * p->unit), d = magnitude(p, x + 3 * p->unit);
	int ab = b > a, ac = c > a, ad = d > a, bc = c > b, bd = d > b, cd = d > c;
	int first = ab + ac + ad < 2, second = !ab + bc + bd < 2, third = !ac + !bc + cd < 2;
	int fourth = !ad + !bd + !cd < 2;

	return nibbles_of_two[first | second << 1 | third << 2 | fourth << 3];
}

TC_INLINE void choose_groups(const struct sparse_pattern *p, const double *x, int groups,
			     uint8_t *nibbles)
{
	for (int i = 0; i < groups; i++)
		nibbles[i] = (uint8_t)choose(p, x + i * p->group * p->unit);
}

/* The pattern is constant in each of the loops. */
static void choose_all(const struct sparse_pattern *p, const double *x, int groups,
		       uint8_t *nibbles)
{
	if (p == &tc_sparse_patterns[0])
		choose_groups(&tc_sparse_patterns[0], x, groups, nibbles);
	else if (p == &tc_sparse_patterns[1])
		choose_groups(&tc_sparse_patterns[1], x, groups, nibbles);
	else
		choose_groups(&tc_sparse_patterns[2], x, groups, nibbles);
}

/*
 * Entry (even) of a nibble in the metadata of an array, tile by tile of 128 rows
 * and 64 entries.  8- and 4-bit elements (an instruction reads 32 entries of a
 * row) lie row by row; of 16- and 32-bit ones, 16 entries are a column of tensor
 * memory: its first 8 lie in the lower 8 of 16 lanes, the others in the upper,
 * rows 8..15 of 16 beside rows 0..7.
 */
TC_INLINE int64_t entry_place(int bits, int64_t row, int64_t entry, int64_t tiles)
{
	int64_t tile = row / 128 * tiles + entry / 64, m = row % 128, e = entry % 64;
	int64_t lane = m, within = e;

	if (bits >= 16) {
		lane = m / 16 * 16 + e % 16 / 8 * 8 + m % 8;
		within = e / 16 * 16 + m / 8 % 2 * 8 + e % 8;
	}
	return tile * 128 * 64 + lane * 64 + within;
}

/* Two entries, of which the first is even, are a nibble. */
static void set_nibble(void *metadata, int64_t entry, unsigned nibble)
{
	tc_set_element(DT_U4, metadata, entry / 2, nibble);
}

TC_INLINE void move_element(const struct lines *to, int64_t to_place, const struct lines *from,
			    int64_t from_place)
{
	switch (tc_dtypes[to->dtype].bits) {
	case 32:
		((uint32_t *)to->data)[to_place] = ((const uint32_t *)from->data)[from_place];
		break;
	case 16:
		((uint16_t *)to->data)[to_place] = ((const uint16_t *)from->data)[from_place];
		break;
	case 8:
		((uint8_t *)to->data)[to_place] = ((const uint8_t *)from->data)[from_place];
		break;
	default:
		tc_set_element(to->dtype, to->data, to_place,
			       tc_get_element(from->dtype, from->data, from_place));
	}
}

/* The elements of a group that the nibble says, between all of them and these in order. */
TC_INLINE void move_group(const struct sparse_pattern *p, unsigned nibble, bool out_of_all,
			  const struct lines *all, const struct lines *some, int64_t row,
			  int64_t group)
{
	int64_t kept[2] = {p->keep == 1 ? nibble >> 3 : nibble & 3, nibble >> 2};

	for (int i = 0; i < p->keep; i++)
		for (int j = 0; j < p->unit; j++) {
			int64_t wide = place(all, row, (group * p->group + kept[i]) * p->unit + j);
			int64_t dense = place(some, row, (group * p->keep + i) * p->unit + j);

			if (out_of_all)
				move_element(some, dense, all, wide);
			else
				move_element(all, wide, some, dense);
		}
}

/* Groups of a tile of the lines. */
static void sparsify_tile(const struct sparse_pattern *p, const struct lines *src, int64_t row,
			  int rows, int64_t first, int count, const struct lines *values,
			  void *metadata)
{
	int bits = tc_dtypes[src->dtype].bits, span = p->group * p->unit, groups = count / span;
	int64_t tiles = (src->length / span * 2 + 63) / 64;
	double x[TC_TILE * TC_TILE];
	uint8_t nibbles[TC_TILE * TC_TILE / 2];

	tc_load_lines(src, row, rows, first, count, x);
	choose_all(p, x, rows * groups, nibbles);
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < groups; i++) {
			unsigned nibble = nibbles[r * groups + i];
			int64_t group = first / span + i;

			move_group(p, nibble, true, src, values, row + r, group);
			set_nibble(metadata, entry_place(bits, row + r, group * 2, tiles), nibble);
		}
}

void tc_sparsify(const struct sparse_pattern *p, const struct lines *src,
		 const struct lines *values, void *metadata)
{
	int64_t entries = (tc_sparse_entries(p, src->length) + 63) / 64 * 64;
	int64_t rows = (src->rows + 127) / 128 * 128;

	/* Also where there is no data the hardware wants legal nibbles. */
	tc_fill_elements(DT_U4, metadata, rows * entries / 2, FIRST_TWO);
	for (int64_t row = 0; row < src->rows; row += TC_TILE)
		for (int64_t first = 0; first < src->length; first += TC_TILE)
			sparsify_tile(p, src, row, tc_at_most(src->rows - row, TC_TILE), first,
				      tc_at_most(src->length - first, TC_TILE), values, metadata);
}

void tc_format_metadata(int bits, const void *positions, int64_t rows, int64_t groups, void *out)
{
	int64_t tiles = (groups * 2 + 63) / 64;

	tc_fill_elements(DT_U4, out, (rows + 127) / 128 * tiles * 128 * 32, FIRST_TWO);
	for (int64_t row = 0; row < rows; row++)
		for (int64_t group = 0; group < groups; group++)
			set_nibble(
				out, entry_place(bits, row, group * 2, tiles),
				(unsigned)tc_get_element(DT_U4, positions, row * groups + group));
}

void tc_check_positions(struct err *e, enum dtype positions, int rank, const int64_t *shape,
			enum dtype operand)
{
	char number[24];

	if (positions != DT_U2)
		tc_documented(e, FORMAT_DTYPE, "", tc_dtypes[positions].name);
	snprintf(number, sizeof number, "%d", rank);
	if (rank != 3)
		tc_documented(e, FORMAT_RANK, "", number);
	snprintf(number, sizeof number, "%" PRId64, shape[2]);
	if (shape[2] != 2)
		tc_documented(e, FORMAT_PAIR, "", number);
	if (!(tc_sparse_types >> operand & 1))
		tc_documented(e, FORMAT_OPERAND, "", tc_dtypes[operand].name);
}

bool tc_positions_differ(int bits, const void *positions, int64_t pairs)
{
	const uint8_t *bytes = positions;

	for (int64_t i = 0; i < pairs; i++) {
		int pair = bytes[i / 2] >> (i % 2 * 4) & 15;

		if ((pair & 3) == pair >> 2 || (bits == 32 && pair != 4 && pair != 14))
			return false;
	}
	return true;
}

bool tc_densify(const struct sparse_pattern *p, const struct lines *values, const void *metadata,
		const struct lines *out)
{
	int bits = tc_dtypes[values->dtype].bits, span = p->group * p->unit;
	int64_t groups = out->length / span, tiles = (groups * 2 + 63) / 64;

	for (int64_t row = 0; row < out->rows; row++)
		for (int64_t group = 0; group < groups; group++) {
			int64_t entry = entry_place(bits, row, group * 2, tiles);
			unsigned nibble = (unsigned)tc_get_element(DT_U4, metadata, entry / 2);

			if (p->keep == 1 ? nibble != 0x4 && nibble != 0xe
					 : (nibble & 3) == nibble >> 2)
				return false;
			move_group(p, nibble, false, out, values, row, group);
		}
	return true;
}

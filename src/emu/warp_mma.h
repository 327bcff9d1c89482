/* What mma.sync, wmma and sparse wgmma share. */
#ifndef TCMMA_EMU_WARP_MMA_H
#define TCMMA_EMU_WARP_MMA_H

#include "mma.h"

/* ---- types ------------------------------------------------------------------------- */

/* The element type of a matrix by the type in the text; false for others. */
bool emu_element_of(enum emu_type type, enum emu_element *element);
/* Of integers and single bits. */
bool emu_element_integer(enum emu_element element);
/* That both may be operands of one multiplication. */
bool emu_elements_agree(enum emu_element a, enum emu_element b);

/* ---- products ------------------------------------------------------------------------ */

struct emu_warp_product {
	enum emu_element a, b;
	int k;                    /* logical elements */
	bool half_d;              /* D is f16 */
	bool saturate, exclusive; /* exclusive: single bits meet by xor, else by and */
	bool sparse;
};

/*
 * tile[n * 16 + m] += sum over k of A and B, 16 rows; a[k * 16 + m], b[n * k + k].
 * The panels hold f32, or s32 in the same words; single bits are 0 and 1.
 */
void emu_warp_multiply(struct emu_warp *warp, const struct emu_warp_product *product, int n,
		       const float *a, const float *b, float *tile);
/* a * b + sum as f64 products have it, in the host's rounding. */
double emu_warp_multiply_add(double a, double b, double sum);
/* Raw bytes to a panel of f32 or s32. */
void emu_warp_panel(enum emu_element element, const uint8_t *raw, int count, float *out);

/* Takes up to two of .row and .col; rows[i]: the i-th is .row.  Returns how many there are. */
int emu_take_orders(struct emu_decode *decode, bool rows[2]);
bool emu_decode_mma_double(struct emu_decode *decode, int rows, int k);
bool emu_decode_mma_quad(struct emu_decode *decode);

/* ---- sparsity -------------------------------------------------------------------------- */

/* Elements of K that one nibble of metadata speaks of: 4; of tf32 2, of 4-bit types 8. */
int emu_sparse_span(enum emu_element element);
/*
 * Spreads the stored half of a row over its logical places, a nibble a span;
 * false where one selects no two different places.
 */
bool emu_sparse_row(int span, const uint8_t *nibbles, int k, const float *stored, float *row);
/* kept[at * 16]: whether the row keeps element `at` of its k. */
void emu_sparse_kept(int span, const uint8_t *nibbles, int k, bool *kept);
/*
 * A row does not see the elements of B that it drops, were they infinite: infinities and NaN of
 * `count` elements of an operand move to `apart`, zeros stay.  Whether there are any.
 */
bool emu_sparse_set_apart(float *operand, float *apart, int count);
/*
 * Adds the products with what was set apart to C, ahead of the others: a[i * a_stride + r],
 * kept[i * 16 + r], b and tile as above.
 */
void emu_sparse_join(int n, int k, const bool *kept, const float *a, const float *a_apart,
		     int a_stride, const float *b, const float *b_apart, float *tile);
/* How many threads of each four hold the metadata of 16 rows. */
int emu_sparse_threads(int span, int k);
/* The nibble of group `group` of one of the 16 rows, from the words of a warp's lanes. */
uint8_t emu_sparse_nibble(const uint32_t *words, enum emu_element element, int k, int selector,
			  int row, int group);

#endif

/* Sparse operands: stored elements to their places in a row of K, as metadata says (6.4). */
#include "warp_mma.h"

#include "number.h"

#include <math.h>

int emu_sparse_span(enum emu_element element)
{
	switch (emu_element_bits(element)) {
	case 4:
		return 8;
	case 32:
		return 2;
	default:
		return 4;
	}
}

bool emu_sparse_row(int span, const uint8_t *nibbles, int k, const float *stored, float *row)
{
	int unit = span == 8 ? 2 : 1; /* elements that move together */

	memset(row, 0, sizeof *row * (size_t)k);
	for (int at = 0; at < k; at += span, stored += span / 2, nibbles++) {
		int first = *nibbles & 3, second = *nibbles >> 2;

		if (span == 2) {
			if (*nibbles != 4 && *nibbles != 14)
				return false;
			row[at + (*nibbles == 14)] = stored[0];
			continue;
		}
		if (first == second)
			return false;
		for (int i = 0; i < unit; i++) {
			row[at + first * unit + i] = stored[i];
			row[at + second * unit + i] = stored[unit + i];
		}
	}
	return true;
}

void emu_sparse_kept(int span, const uint8_t *nibbles, int k, bool *kept)
{
	float ones[EMU_GEMM_MAX_K] = {0}, row[EMU_GEMM_MAX_K];

	for (int i = 0; i < k; i++)
		ones[i] = 1;
	emu_sparse_row(span, nibbles, k, ones, row);
	for (int i = 0; i < k; i++)
		kept[i * EMU_GEMM_ROWS] = row[i] != 0;
}

bool emu_sparse_set_apart(float *operand, float *apart, int count)
{
	bool any = false;

	for (int i = 0; i < count; i++) {
		bool finite = isfinite(operand[i]);

		apart[i] = finite ? 0 : operand[i];
		operand[i] = finite ? operand[i] : 0;
		any |= !finite;
	}
	return any;
}

void emu_sparse_join(int n, int k, const bool *kept, const float *a, const float *a_apart,
		     int a_stride, const float *b, const float *b_apart, float *tile)
{
	for (int j = 0; j < n; j++) {
		for (int i = 0; i < k; i++) {
			int at = j * k + i;

			for (int r = 0; r < EMU_GEMM_ROWS; r++) {
				float *d = &tile[j * EMU_GEMM_ROWS + r];
				float x = a_apart[i * a_stride + r];

				if (!kept[i * EMU_GEMM_ROWS + r] || (x == 0 && b_apart[at] == 0))
					continue;
				*d += (a[i * a_stride + r] + x) * (b[at] + b_apart[at]);
				if (isnan(*d))
					*d = emu_f32_of_bits(0x7fffffff);
			}
		}
	}
}

int emu_sparse_threads(int span, int k)
{
	int bits = 4 * (k / span);

	return bits <= 16 ? 1 : bits / 16;
}

uint8_t emu_sparse_nibble(const uint32_t *words, enum emu_element element, int k, int selector,
			  int row, int group)
{
	int span = emu_sparse_span(element), thread = emu_sparse_threads(span, k) * selector;
	int high = row / 8, at = 4 * (row % 8) + thread;

	if (emu_element_bits(element) <= 8) /* a thread has one row, the next one row + 8 */
		return words[at + high + group / 8 * 2] >> 4 * (group % 8) & 15;
	return words[at + group / 4] >> (16 * high + 4 * (group % 4)) & 15;
}

/* Sparse operands: stored elements to their places in a row of K, as metadata says (6.4). */
#include "warp_mma.h"

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

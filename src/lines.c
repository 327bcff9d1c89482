/* Parts of packed matrices, line by line, whichever way the lines run in memory. */
#include "host.h"

void tc_load_lines(const struct lines *l, int64_t row, int rows, int64_t first, int count,
		   double *out)
{
	double across[TC_TILE];

	for (int r = 0; l->step == 1 && r < rows; r++)
		tc_load_doubles(l->dtype, l->data, (row + r) * l->row_step + first, count,
				out + r * count);
	for (int i = 0; l->step != 1 && i < count; i++) {
		tc_load_doubles(l->dtype, l->data, (first + i) * l->step + row, rows, across);
		for (int r = 0; r < rows; r++)
			out[r * count + i] = across[r];
	}
}

void tc_store_lines(const struct lines *l, int64_t row, int rows, int64_t first, int count,
		    const double *in)
{
	double across[TC_TILE];

	for (int r = 0; l->step == 1 && r < rows; r++)
		tc_store_doubles(l->dtype, l->data, (row + r) * l->row_step + first, count,
				 in + r * count);
	for (int i = 0; l->step != 1 && i < count; i++) {
		for (int r = 0; r < rows; r++)
			across[r] = in[r * count + i];
		tc_store_doubles(l->dtype, l->data, (first + i) * l->step + row, rows, across);
	}
}

/*
 * Reference results in double precision, and how far others are from them.
 */
#include "host.h"

#include <math.h>
#include <string.h>

#define CHUNK 1024

/* ---- comparison ------------------------------------------------------------------ */

struct square_sums {
	double error, reference;
};

static bool close_enough(const struct comparison *c, double a, double b)
{
	if (a == b)
		return true;
	if (a != a || b != b)
		return c->equal_nan && a != a && b != b;
	return isfinite(a) && isfinite(b) && fabs(a - b) <= c->atol + c->rtol * fabs(b);
}

static void compare_one(struct comparison *c, struct square_sums *sums, int64_t i, double a,
			double b)
{
	if (!close_enough(c, a, b)) {
		if (c->mismatches++ == 0)
			c->first_mismatch = i;
		if (a != a || b != b)
			c->nan_mismatches++;
	}
	if (a != a || b != b)
		return;
	double error = a == b ? 0 : fabs(a - b);
	double relative = error == 0 ? 0 : isfinite(b) ? error / fabs(b) : (double)INFINITY;
	if (error > c->max_abs_error || c->worst < 0) {
		c->max_abs_error = error;
		c->worst = i;
		c->worst_a = a;
		c->worst_b = b;
	}
	if (relative > c->max_rel_error)
		c->max_rel_error = relative;
	sums->error += error * error;
	if (isfinite(b))
		sums->reference += b * b;
}

void tc_compare(const struct plain *a, const struct plain *b, struct comparison *c)
{
	double left[CHUNK], right[CHUNK];
	struct square_sums sums = {0, 0};

	c->mismatches = c->nan_mismatches = 0;
	c->first_mismatch = c->worst = -1;
	c->max_abs_error = c->max_rel_error = c->worst_a = c->worst_b = 0;
	for (int64_t first = 0; first < a->elements; first += CHUNK) {
		int64_t n = a->elements - first < CHUNK ? a->elements - first : CHUNK;
		tc_load_doubles(a->dtype, a->data, first, n, left);
		tc_load_doubles(b->dtype, b->data, first, n, right);
		for (int64_t i = 0; i < n; i++)
			compare_one(c, &sums, first + i, left[i], right[i]);
	}
	c->relative_rms = sums.error == 0 ? 0 : sqrt(sums.error / sums.reference);
}

/* ---- reductions -------------------------------------------------------------------- */

double tc_sum(const struct plain *a)
{
	double chunk[CHUNK], sum = 0, lost = 0;

	for (int64_t first = 0; first < a->elements; first += CHUNK) {
		int64_t n = a->elements - first < CHUNK ? a->elements - first : CHUNK;
		tc_load_doubles(a->dtype, a->data, first, n, chunk);
		for (int64_t i = 0; i < n; i++) {
			double next = sum + chunk[i];
			if (fabs(sum) >= fabs(chunk[i]))
				lost += sum - next + chunk[i];
			else
				lost += chunk[i] - next + sum;
			sum = next;
		}
	}
	return isfinite(sum) ? sum + lost : sum;
}

double tc_extreme(const struct plain *a, bool largest, int64_t *where)
{
	double chunk[CHUNK], best = 0;

	*where = -1;
	for (int64_t first = 0; first < a->elements; first += CHUNK) {
		int64_t n = a->elements - first < CHUNK ? a->elements - first : CHUNK;
		tc_load_doubles(a->dtype, a->data, first, n, chunk);
		for (int64_t i = 0; i < n; i++) {
			double x = chunk[i];
			if (*where >= 0 && !(x != x) && !(largest ? x > best : x < best))
				continue;
			best = x;
			*where = first + i;
			if (x != x)
				return x;
		}
	}
	return best;
}

/* ---- matrix product -------------------------------------------------------------------- */

/*
 * A tile of the result stays in registers while k runs; a panel of b is small
 * enough for the cache.  Every sum runs over ascending k in one chain, so that
 * the result does not depend on the blocking.
 */
#define TILE_M  4
#define TILE_N  8
#define PANEL_K 256

static void full_tile(const struct matmul *p, int64_t i, int64_t j, int64_t k, int64_t k_end)
{
	double sum[TILE_M][TILE_N];

	for (int r = 0; r < TILE_M; r++)
		memcpy(sum[r], p->out + (i + r) * p->n + j, sizeof sum[r]);
	for (; k < k_end; k++) {
		const double *b = p->b + k * p->n + j;
		for (int r = 0; r < TILE_M; r++) {
			double a = p->a[(i + r) * p->k + k];
			for (int s = 0; s < TILE_N; s++)
				sum[r][s] += a * b[s];
		}
	}
	for (int r = 0; r < TILE_M; r++)
		memcpy(p->out + (i + r) * p->n + j, sum[r], sizeof sum[r]);
}

static void edge_tile(const struct matmul *p, int64_t i, int64_t j, int64_t k, int64_t k_end)
{
	int64_t i_end = i + TILE_M < p->m ? i + TILE_M : p->m;
	int64_t j_end = j + TILE_N < p->n ? j + TILE_N : p->n;

	for (; i < i_end; i++) {
		for (int64_t column = j; column < j_end; column++) {
			double sum = p->out[i * p->n + column];
			for (int64_t at = k; at < k_end; at++)
				sum += p->a[i * p->k + at] * p->b[at * p->n + column];
			p->out[i * p->n + column] = sum;
		}
	}
}

static void finish(const struct matmul *p)
{
	for (int64_t i = 0; i < p->m; i++) {
		double *row = p->out + i * p->n;
		for (int64_t j = 0; p->bias && j < p->n; j++)
			row[j] += p->bias[j];
		for (int64_t j = 0; p->relu && j < p->n; j++)
			row[j] = row[j] < 0 ? 0 : row[j];
	}
}

void tc_reference_matmul(const struct matmul *p)
{
	memset(p->out, 0, (size_t)(p->m * p->n) * sizeof *p->out);
	for (int64_t k = 0; k < p->k; k += PANEL_K) {
		int64_t k_end = k + PANEL_K < p->k ? k + PANEL_K : p->k;
		for (int64_t j = 0; j < p->n; j += TILE_N) {
			for (int64_t i = 0; i < p->m; i += TILE_M) {
				if (i + TILE_M <= p->m && j + TILE_N <= p->n)
					full_tile(p, i, j, k, k_end);
				else
					edge_tile(p, i, j, k, k_end);
			}
		}
	}
	finish(p);
}

/*
 * Reference results in double precision, and how far others are from them.
 */
#include "host.h"

#include <math.h>
#include <string.h>

#include "loops.h"

#define CHUNK 512 /* what tc_compare keeps of it fits the first cache */

/* ---- comparison ------------------------------------------------------------------ */

struct pairs {
	double a[CHUNK], b[CHUNK];
	double error[CHUNK];    /* |a - b|; -1 where one is NaN */
	double relative[CHUNK]; /* error / |b|; 0 where one is NaN */
	double square[CHUNK];   /* of b; 0 where one is NaN or b infinite */
	double wrong[CHUNK];    /* 1: beyond the tolerance */
};

TC_INLINE void measure_pairs(const struct comparison *c, struct pairs *restrict p, bool equal_nan)
{
	double rtol = c->rtol, atol = c->atol;

	for (int i = 0; i < CHUNK; i++) {
		double a = p->a[i], b = p->b[i], gap = fabs(a - b), size = fabs(b);
		bool nan = (a != a) | (b != b), same = (a == b) | ((a != a) & (b != b) & equal_nan);
		bool within = isfinite(a) & isfinite(b) & (gap <= atol + rtol * size);
		double error = a == b ? 0 : gap,
		       relative = isfinite(b) ? error / size : (double)INFINITY;

		p->error[i] = nan ? -1 : error;
		p->relative[i] = ((error == 0) | nan) ? 0 : relative;
		p->square[i] = (isfinite(b) & !nan) ? b * b : 0;
		p->wrong[i] = (same | within) ? 0 : 1;
	}
}

TC_INLINE void measure_loops(const struct comparison *c, struct pairs *p)
{
	if (c->equal_nan)
		measure_pairs(c, p, true);
	else
		measure_pairs(c, p, false);
}

TC_BUILDS(measure, (const struct comparison *c, struct pairs *p), (c, p))

struct square_sums {
	double error, reference;
};

static void sum_up(struct comparison *c, struct square_sums *sums, int64_t first, int n,
		   const struct pairs *p)
{
	struct square_sums s = *sums;

	for (int i = 0; i < n; i++) {
		double error = p->error[i];

		if (p->wrong[i] > 0) {
			if (c->mismatches++ == 0)
				c->first_mismatch = first + i;
			c->nan_mismatches += error < 0;
		}
		if (error > c->max_abs_error) {
			c->max_abs_error = error;
			c->worst = first + i;
			c->worst_a = p->a[i];
			c->worst_b = p->b[i];
		}
		if (p->relative[i] > c->max_rel_error)
			c->max_rel_error = p->relative[i];
		error = error > 0 ? error : 0;
		s.error += error * error;
		s.reference += p->square[i];
	}
	*sums = s;
}

void tc_compare(const struct plain *a, const struct plain *b, struct comparison *c)
{
	struct pairs p = {0};
	struct square_sums sums = {0, 0};

	c->mismatches = c->nan_mismatches = 0;
	c->first_mismatch = c->worst = -1;
	c->max_abs_error = -1;
	c->max_rel_error = c->worst_a = c->worst_b = 0;
	for (int64_t first = 0; first < a->elements; first += CHUNK) {
		int n = a->elements - first < CHUNK ? (int)(a->elements - first) : CHUNK;
		tc_load_doubles(a->dtype, a->data, first, n, p.a);
		tc_load_doubles(b->dtype, b->data, first, n, p.b);
		measure(c, &p);
		sum_up(c, &sums, first, n, &p);
	}
	if (c->worst < 0)
		c->max_abs_error = 0;
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

uint64_t tc_sum_integers(const struct plain *a)
{
	double chunk[CHUNK];
	uint64_t sum = 0;

	for (int64_t i = 0; tc_dtypes[a->dtype].bits == 64 && i < a->elements; i++)
		sum += ((const uint64_t *)a->data)[i];
	for (int64_t first = 0; tc_dtypes[a->dtype].bits < 64 && first < a->elements;
	     first += CHUNK) {
		int64_t n = a->elements - first < CHUNK ? a->elements - first : CHUNK;
		double exact = 0; /* below 2^42 */

		tc_load_doubles(a->dtype, a->data, first, n, chunk);
		for (int64_t i = 0; i < n; i++)
			exact += chunk[i];
		sum += (uint64_t)(int64_t)exact;
	}
	return sum;
}

int64_t tc_extreme(const struct plain *a, bool largest)
{
	double chunk[CHUNK], sign = largest ? 1 : -1, best = (double)NAN;
	int64_t where = 0;

	for (int64_t first = 0; first < a->elements; first += CHUNK) {
		int64_t n = a->elements - first < CHUNK ? a->elements - first : CHUNK;
		tc_load_doubles(a->dtype, a->data, first, n, chunk);
		for (int64_t i = 0; i < n; i++) {
			double x = sign * chunk[i];
			if (x <= best)
				continue;
			best = x;
			where = first + i;
			if (x != x)
				return where;
		}
	}
	return where;
}

/* Flipping the sign bit turns the order of i64 into that of u64; all of them that of the others. */
int64_t tc_extreme_integer(const struct plain *a, bool largest)
{
	const uint64_t *data = a->data;
	uint64_t flip = (a->dtype == DT_I64 ? UINT64_C(1) << 63 : 0) ^ (largest ? 0 : UINT64_MAX);
	int64_t where = 0;

	for (int64_t i = 1; i < a->elements; i++)
		if ((data[i] ^ flip) > (data[where] ^ flip))
			where = i;
	return where;
}

/* ---- matrix product -------------------------------------------------------------------- */

/*
 * A tile of the result stays in registers while k runs; a panel of b is small
 * enough for the cache, and copied together.  Every sum runs over ascending k in
 * one chain, so that the result does not depend on the blocking.
 */
#define TILE_M  4
#define TILE_N  8
#define PANEL_K 256

typedef double row __attribute__((vector_size(TILE_N * sizeof(double))));

TC_INLINE void full_tile_loops(const struct matmul *p, const row *panel, int64_t i, int64_t j,
			       int64_t k, int64_t k_end)
{
	const double *a = p->a + i * p->k;
	double *out = p->out + i * p->n + j;
	row sum[TILE_M];

#pragma GCC unroll 4
	for (int r = 0; r < TILE_M; r++)
		memcpy(&sum[r], out + r * p->n, sizeof *sum);
	for (; k < k_end; k++, panel++) {
#pragma GCC unroll 4
		for (int r = 0; r < TILE_M; r++)
			sum[r] += a[r * p->k + k] * *panel;
	}
#pragma GCC unroll 4
	for (int r = 0; r < TILE_M; r++)
		memcpy(out + r * p->n, &sum[r], sizeof *sum);
}

TC_BUILDS(full_tile,
	  (const struct matmul *p, const row *panel, int64_t i, int64_t j, int64_t k,
	   int64_t k_end),
	  (p, panel, i, j, k, k_end))

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

bool tc_reference_matmul(const struct matmul *p)
{
	row panel[PANEL_K];

	memset(p->out, 0, (size_t)(p->m * p->n) * sizeof *p->out);
	for (int64_t k = 0; k < p->k; k += PANEL_K) {
		int64_t k_end = k + PANEL_K < p->k ? k + PANEL_K : p->k;
		for (int64_t j = 0; j < p->n; j += TILE_N) {
			bool full = j + TILE_N <= p->n;
			if (p->stop())
				return false;
			for (int64_t at = k; full && at < k_end; at++)
				memcpy(&panel[at - k], p->b + at * p->n + j, sizeof *panel);
			for (int64_t i = 0; i < p->m; i += TILE_M) {
				if (full && i + TILE_M <= p->m)
					full_tile(p, panel, i, j, k, k_end);
				else
					edge_tile(p, i, j, k, k_end);
			}
		}
	}
	finish(p);
	return true;
}

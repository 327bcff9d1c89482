/*
 * Random numbers that are the same everywhere.
 *
 * The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw, 2011): a function
 * of a counter, so that every element of an array has its own number whatever
 * the order of filling.  Normal numbers are made by the method of Box and Muller
 * with a logarithm, sine and cosine of our own; these use + - * / and sqrt only,
 * which IEEE 754 defines to the last bit.  No function of libm takes part.
 */
#include "host.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "loops.h"

#if FLT_EVAL_METHOD != 0
#error "random numbers need arithmetic without excess precision (FLT_EVAL_METHOD 0)"
#endif

#define BLOCKS 64 /* made at once, each of them two numbers */

/* Streams of different purposes do not share numbers. */
enum purpose {
	PURPOSE_NORMAL,
	PURPOSE_UNIFORM,
	PURPOSE_INTEGER
};

struct words {
	uint32_t word[4][BLOCKS];
};

TC_INLINE void philox(uint64_t seed, uint64_t first, enum purpose purpose, struct words *out)
{
	for (int i = 0; i < BLOCKS; i++) {
		uint64_t counter = first + (uint64_t)i;
		uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32), x2 = purpose,
			 x3 = 0;
		uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);

		for (int round = 0; round < 10; round++) {
			uint64_t p0 = (uint64_t)0xd2511f53 * x0, p1 = (uint64_t)0xcd9e8d57 * x2;

			x0 = (uint32_t)(p1 >> 32) ^ x1 ^ key0;
			x1 = (uint32_t)p1;
			x2 = (uint32_t)(p0 >> 32) ^ x3 ^ key1;
			x3 = (uint32_t)p0;
			key0 += 0x9e3779b9;
			key1 += 0xbb67ae85;
		}
		out->word[0][i] = x0;
		out->word[1][i] = x1;
		out->word[2][i] = x2;
		out->word[3][i] = x3;
	}
}

/* The upper 53 of the 64 bits, exactly; by conversions that vectors have. */
TC_INLINE double upper_bits(uint32_t high, uint32_t low)
{
	return ((double)(int32_t)(high ^ 0x80000000) + 0x1p31) * 0x1p21 +
	       (double)(int32_t)(low >> 11);
}

/* ln x for 0 < x <= 1, by the series of 2 artanh((m - 1) / (m + 1)), x = m 2^e. */
TC_INLINE double natural_log(double x)
{
	const double ln2 = 0x1.62e42fefa39efp-1, sqrt_half = 0x1.6a09e667f3bcdp-1;
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	int exponent = (int)(bits >> 52) - 1022;
	bits = (bits & 0xfffffffffffff) | (uint64_t)1022 << 52; /* [0.5, 1) */
	double m;
	memcpy(&m, &bits, sizeof m);
	bool low = m < sqrt_half;
	double power = (double)exponent - (low ? 1 : 0);
	m = low ? m * 2 : m;
	double s = (m - 1) / (m + 1), square = s * s, sum = 0;
#pragma GCC unroll 12
	for (int n = 23; n >= 1; n -= 2) /* square < 0.0295: 12 terms reach 2^-60 */
		sum = sum * square + 1.0 / n;
	return power * ln2 + 2 * s * sum;
}

/*
 * Sine and cosine of 2 pi u / 2^64.  The top three bits are the octant; the
 * Taylor series below pi/4 has nine terms, the next is under 2^-58.
 */
TC_INLINE void sine_cosine(uint32_t high, uint32_t low, double *sine, double *cosine)
{
	const double quarter_pi = 0x1.921fb54442d18p-1;
	uint32_t octant = high >> 29;
	double x = (double)(int32_t)(high & 0x1fffffff) * 0x1p-29 +
		   (double)(int32_t)(low >> 8) * 0x1p-53;
	double s = 0, c = 0;

	x = (octant & 1 ? 1 - x : x) * quarter_pi; /* x was [0, 1) of an octant */
	double square = x * x;
#pragma GCC unroll 8
	for (int n = 16; n >= 2; n -= 2) {
		s = (s + 1) * -square / (n * (n + 1));
		c = (c + 1) * -square / (n * (n - 1));
	}
	s = x * (s + 1);
	c = c + 1;
	/* The octants 1, 2, 5 and 6 have sine and cosine exchanged. */
	bool swapped = (octant + 1) & 2;
	double first = swapped ? c : s, second = swapped ? s : c;
	*sine = octant >= 4 ? -first : first;
	*cosine = (octant + 2) & 4 ? -second : second;
}

/* A block makes the numbers 2 i and 2 i + 1. */
TC_INLINE void normal(const struct words *w, double *out)
{
	for (int i = 0; i < BLOCKS; i++) {
		double u = (upper_bits(w->word[0][i], w->word[1][i]) + 1) * 0x1p-53; /* (0, 1] */
		double radius = sqrt(-2 * natural_log(u)), sine, cosine;

		sine_cosine(w->word[2][i], w->word[3][i], &sine, &cosine);
		out[2 * i] = radius * cosine;
		out[2 * i + 1] = radius * sine;
	}
}

TC_INLINE void uniform(const struct words *w, double *out)
{
	for (int i = 0; i < BLOCKS; i++) {
		out[2 * i] = upper_bits(w->word[0][i], w->word[1][i]) * 0x1p-53;
		out[2 * i + 1] = upper_bits(w->word[2][i], w->word[3][i]) * 0x1p-53;
	}
}

/* What is random in the numbers first .. first + count - 1 of a stream. */
struct draw {
	uint64_t seed;
	enum purpose purpose;
	int64_t low;   /* of integers */
	uint64_t span; /* 0: 2^64 */
};

/* The word times the span / 2^64, off from uniform by less than span / 2^64. */
TC_INLINE uint64_t scaled(uint64_t high, uint64_t low, uint64_t span)
{
	uint64_t upper = span >> 32, lower = (uint32_t)span;
	uint64_t middle = (low * lower >> 32) + (uint32_t)(high * lower) + (uint32_t)(low * upper);
	uint64_t product =
		high * upper + (high * lower >> 32) + (low * upper >> 32) + (middle >> 32);

	return span ? product : high << 32 | low;
}

TC_INLINE void integer(const struct words *w, uint64_t least, uint64_t span, uint64_t *out)
{
	for (int i = 0; i < BLOCKS; i++) {
		out[2 * i] = least + scaled(w->word[0][i], w->word[1][i], span);
		out[2 * i + 1] = least + scaled(w->word[2][i], w->word[3][i], span);
	}
}

/* 2 BLOCKS numbers, from a block on. */
TC_INLINE void numbers_loops(const struct draw *d, uint64_t block, void *out)
{
	struct words w;

	philox(d->seed, block, d->purpose, &w);
	if (d->purpose == PURPOSE_NORMAL)
		normal(&w, out);
	else if (d->purpose == PURPOSE_UNIFORM)
		uniform(&w, out);
	else
		integer(&w, (uint64_t)d->low, d->span, out);
}

TC_BUILDS(numbers, (const struct draw *d, uint64_t block, void *out), (d, block, out))

/* Doubles or integers, of eight bytes either way. */
static void stream(const struct draw *d, int64_t first, int64_t count, void *out)
{
	char *to = out;
	uint64_t some[2 * BLOCKS];

	for (int64_t n; count > 0; first += n, count -= n, to += 8 * n) {
		int64_t skipped = first & 1, room = 2 * BLOCKS - skipped;

		n = count < room ? count : room;
		numbers(d, (uint64_t)first >> 1, some);
		memcpy(to, some + skipped, (size_t)n * 8);
	}
}

void tc_random_normal(uint64_t seed, int64_t first, int64_t count, double *out)
{
	stream(&(struct draw){seed, PURPOSE_NORMAL, 0, 0}, first, count, out);
}

void tc_random_uniform(uint64_t seed, int64_t first, int64_t count, double *out)
{
	stream(&(struct draw){seed, PURPOSE_UNIFORM, 0, 0}, first, count, out);
}

void tc_random_integer(uint64_t seed, int64_t first, int64_t count, int64_t low, uint64_t span,
		       int64_t *out)
{
	stream(&(struct draw){seed, PURPOSE_INTEGER, low, span}, first, count, out);
}

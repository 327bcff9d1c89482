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

#if FLT_EVAL_METHOD != 0
#error "random numbers need arithmetic without excess precision (FLT_EVAL_METHOD 0)"
#endif

struct block {
	uint32_t word[4];
};

static struct block philox(uint64_t seed, uint64_t counter, uint32_t purpose)
{
	struct block x = {{(uint32_t)counter, (uint32_t)(counter >> 32), purpose, 0}};
	uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);

	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xd2511f53 * x.word[0];
		uint64_t p1 = (uint64_t)0xcd9e8d57 * x.word[2];
		struct block y = {{(uint32_t)(p1 >> 32) ^ x.word[1] ^ key0, (uint32_t)p1,
				   (uint32_t)(p0 >> 32) ^ x.word[3] ^ key1, (uint32_t)p0}};
		x = y;
		key0 += 0x9e3779b9;
		key1 += 0xbb67ae85;
	}
	return x;
}

/* Streams of different purposes do not share numbers. */
enum {
	PURPOSE_NORMAL,
	PURPOSE_UNIFORM,
	PURPOSE_INTEGER
};

static uint64_t half(const struct block *b, int which)
{
	return (uint64_t)b->word[2 * which] << 32 | b->word[2 * which + 1];
}

/* ln x for 0 < x <= 1, by the series of 2 artanh((m - 1) / (m + 1)), x = m 2^e. */
static double natural_log(double x)
{
	const double ln2 = 0x1.62e42fefa39efp-1, sqrt_half = 0x1.6a09e667f3bcdp-1;
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	int exponent = (int)(bits >> 52) - 1022;
	bits = (bits & 0xfffffffffffff) | (uint64_t)1022 << 52; /* [0.5, 1) */
	double m;
	memcpy(&m, &bits, sizeof m);
	if (m < sqrt_half) {
		m *= 2;
		exponent--;
	}
	double s = (m - 1) / (m + 1), square = s * s, sum = 0;
	for (int n = 23; n >= 1; n -= 2) /* square < 0.0295: 12 terms reach 2^-60 */
		sum = sum * square + 1.0 / n;
	return exponent * ln2 + 2 * s * sum;
}

/*
 * Sine and cosine of 2 pi u / 2^64.  The top three bits are the octant; the
 * Taylor series below pi/4 has nine terms, the next is under 2^-58.
 */
static void sine_cosine(uint64_t u, double *sine, double *cosine)
{
	const double quarter_pi = 0x1.921fb54442d18p-1;
	int octant = (int)(u >> 61);
	double x = (double)(u >> 8 & 0x1fffffffffffff) * 0x1p-53; /* [0, 1) of an octant */
	double s = 0, c = 0;

	if (octant & 1)
		x = 1 - x;
	x *= quarter_pi;
	double square = x * x;
	for (int n = 16; n >= 2; n -= 2) {
		s = (s + 1) * -square / (n * (n + 1));
		c = (c + 1) * -square / (n * (n - 1));
	}
	s = x * (s + 1);
	c = c + 1;
	/* The octants 1, 2, 5 and 6 have sine and cosine exchanged. */
	bool swapped = (octant + 1) & 2;
	*sine = swapped ? c : s;
	*cosine = swapped ? s : c;
	if (octant >= 4)
		*sine = -*sine;
	if (octant >= 2 && octant < 6)
		*cosine = -*cosine;
}

/* One block makes the numbers 2 i and 2 i + 1. */
static void normal_pair(uint64_t seed, uint64_t i, double pair[2])
{
	struct block b = philox(seed, i, PURPOSE_NORMAL);
	double u = (double)((half(&b, 0) >> 11) + 1) * 0x1p-53; /* (0, 1] */
	double radius = sqrt(-2 * natural_log(u));
	double sine, cosine;

	sine_cosine(half(&b, 1), &sine, &cosine);
	pair[0] = radius * cosine;
	pair[1] = radius * sine;
}

void tc_random_normal(uint64_t seed, int64_t first, int64_t count, double *out)
{
	double pair[2];
	int64_t made = -1;

	for (int64_t i = first; i < first + count; i++) {
		if (i >> 1 != made) {
			made = i >> 1;
			normal_pair(seed, (uint64_t)made, pair);
		}
		*out++ = pair[i & 1];
	}
}

static uint64_t word64(uint64_t seed, int64_t i, uint32_t purpose)
{
	struct block b = philox(seed, (uint64_t)i >> 1, purpose);
	return half(&b, (int)(i & 1));
}

void tc_random_uniform(uint64_t seed, int64_t first, int64_t count, double *out)
{
	for (int64_t i = 0; i < count; i++)
		out[i] = (double)(word64(seed, first + i, PURPOSE_UNIFORM) >> 11) * 0x1p-53;
}

/* High half of a 64 x 64 bit product. */
static uint64_t high_product(uint64_t a, uint64_t b)
{
	uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
	uint64_t middle = (al * bl >> 32) + (uint32_t)(ah * bl) + (uint32_t)(al * bh);
	return ah * bh + (ah * bl >> 32) + (al * bh >> 32) + (middle >> 32);
}

/* Off from uniform by less than span / 2^64. */
void tc_random_integer(uint64_t seed, int64_t first, int64_t count, int64_t low, uint64_t span,
		       int64_t *out)
{
	for (int64_t i = 0; i < count; i++) {
		uint64_t word = word64(seed, first + i, PURPOSE_INTEGER);
		uint64_t offset = span ? high_product(word, span) : word;
		out[i] = (int64_t)((uint64_t)low + offset);
	}
}

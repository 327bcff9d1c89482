/*
 * Element types: their table, conversions of values, packed storage.
 */
#include "tc.h"

#include <math.h>
#include <string.h>
#include <strings.h>

const struct dtype_info tc_dtypes[DT_COUNT] = {
#define KLASS_F 'F'
#define KLASS_I 'I'
#define KLASS_U 'U'
#define KLASS_B 'B'
#define DT(id, name, shortname, bits, klass, mlir, ptx, tma, npy, safetensors)                     \
	{name, shortname, bits, KLASS_##klass, mlir, ptx, tma, npy, safetensors},
#include "dtype.def"
};

const char *tc_dtype_alias(int t)
{
	return tc_dtypes[t].ptx[0] == 's' ? tc_dtypes[t].ptx : NULL;
}

int tc_dtype_find(const char *name)
{
	for (int t = 0; t < DT_COUNT; t++)
		if (strcmp(name, tc_dtypes[t].name) == 0 ||
		    strcmp(name, tc_dtypes[t].shortname) == 0 ||
		    (tc_dtype_alias(t) && strcmp(name, tc_dtype_alias(t)) == 0))
			return t;
	return -1;
}

/* ---- values --------------------------------------------------------------------- */

static uint64_t low_bits(int bits)
{
	return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

/*
 * Integers: to nearest, ties to even; values beyond the ends saturate, infinities
 * too; NaN becomes 0.  (nearbyint relies on the default rounding mode of C.)
 */
static uint64_t encode_integer(int bits, bool is_signed, double x)
{
	double end = ldexp(1.0, is_signed ? bits - 1 : bits); /* first value above */
	double rounded = nearbyint(x);

	if (x != x)
		return 0;
	if (rounded >= end)
		return is_signed ? low_bits(bits - 1) : low_bits(bits);
	if (is_signed)
		return rounded <= -end ? UINT64_C(1) << (bits - 1)
				       : (uint64_t)(int64_t)rounded & low_bits(bits);
	return rounded <= 0 ? 0 : (uint64_t)rounded;
}

static int64_t sign_extended(int bits, uint64_t value)
{
	uint64_t sign = UINT64_C(1) << (bits - 1);
	value &= low_bits(bits);
	return (int64_t)((value ^ sign) - sign);
}

/* bool: every value but zero is true, NaN too; stored as 0 or 1. */
uint64_t tc_from_double(enum dtype t, double x)
{
	switch (tc_dtypes[t].klass) {
	case 'F':
		return tc_float_encode(t, x);
	case 'B':
		return x != 0;
	default:
		return encode_integer(tc_dtypes[t].bits, tc_dtypes[t].klass == 'I', x);
	}
}

double tc_to_double(enum dtype t, uint64_t bits)
{
	switch (tc_dtypes[t].klass) {
	case 'F':
		return tc_float_decode(t, bits);
	case 'B':
		return (bits & 0xff) != 0;
	case 'I':
		return (double)sign_extended(tc_dtypes[t].bits, bits);
	default:
		return (double)(bits & low_bits(tc_dtypes[t].bits));
	}
}

/*
 * A double that rounds to any narrower format as the integer itself would: the
 * bits that do not fit are folded into the last one (round to odd).
 */
static double double_to_odd(uint64_t magnitude, bool negative)
{
	if (magnitude >> 53) {
		int excess = 0;
		while (magnitude >> 53 >> excess)
			excess++;
		uint64_t lost = magnitude & low_bits(excess);
		magnitude = (magnitude >> excess | (lost != 0)) << excess;
	}
	return negative ? -(double)magnitude : (double)magnitude;
}

uint64_t tc_from_unsigned(enum dtype t, uint64_t x)
{
	if (x <= INT64_MAX)
		return tc_from_integer(t, (int64_t)x);
	return tc_from_double(t, t == DT_F64 ? (double)x : double_to_odd(x, false));
}

uint64_t tc_from_integer(enum dtype t, int64_t x)
{
	const struct dtype_info *d = &tc_dtypes[t];

	if (d->klass == 'B')
		return x != 0;
	if (d->klass == 'F')
		return t == DT_F64 ? tc_float_encode(t, (double)x)
				   : tc_float_encode(
					     t, double_to_odd(x < 0 ? -(uint64_t)x : (uint64_t)x,
							      x < 0));
	if (d->klass == 'U') {
		if (x < 0)
			return 0;
		return (uint64_t)x > low_bits(d->bits) ? low_bits(d->bits) : (uint64_t)x;
	}
	int64_t highest = (int64_t)low_bits(d->bits - 1);
	if (x > highest)
		x = highest;
	if (x < -highest - 1)
		x = -highest - 1;
	return (uint64_t)x & low_bits(d->bits);
}

bool tc_to_integer(enum dtype t, uint64_t bits, int64_t *value)
{
	const struct dtype_info *d = &tc_dtypes[t];

	if (d->klass == 'F')
		return false;
	*value = d->klass == 'I' ? sign_extended(d->bits, bits)
				 : (int64_t)(bits & low_bits(d->bits));
	return d->klass == 'I' || *value >= 0;
}

/* ---- storage ----------------------------------------------------------------------- */

int64_t tc_storage_bytes(enum dtype t, int64_t elements)
{
	int bits = tc_dtypes[t].bits;
	return bits >= 8 ? elements * (bits / 8) : (elements * bits + 7) / 8;
}

int tc_tma_unit(enum dtype t)
{
	int bits = tc_dtypes[t].bits;

	return bits < 8 && tc_dtypes[t].tma == 0 ? 8 / bits : 1;
}

/* Sub-byte elements are dense and may lie across two bytes. */
static uint64_t get_packed(int bits, const uint8_t *data, int64_t i)
{
	int64_t bit = i * bits;
	int offset = (int)(bit & 7);
	unsigned window = data[bit >> 3];
	if (offset + bits > 8)
		window |= (unsigned)data[(bit >> 3) + 1] << 8;
	return window >> offset & (unsigned)low_bits(bits);
}

static void set_packed(int bits, uint8_t *data, int64_t i, uint64_t value)
{
	int64_t bit = i * bits;
	int offset = (int)(bit & 7);
	uint8_t *byte = data + (bit >> 3);
	unsigned mask = (unsigned)low_bits(bits) << offset;
	unsigned placed = (unsigned)(value & low_bits(bits)) << offset;
	byte[0] = (uint8_t)((byte[0] & ~mask) | placed);
	if (offset + bits > 8)
		byte[1] = (uint8_t)((byte[1] & ~(mask >> 8)) | placed >> 8);
}

#define GET(type) (((const struct { type v; } __attribute__((packed)) *)data)[i].v)
#define SET(type) (((struct { type v; } __attribute__((packed)) *)data)[i].v = (type)bits)

uint64_t tc_get_element(enum dtype t, const void *data, int64_t i)
{
	switch (tc_dtypes[t].bits) {
	case 64:
		return GET(uint64_t);
	case 32:
		return GET(uint32_t);
	case 16:
		return GET(uint16_t);
	case 8:
		return GET(uint8_t);
	default:
		return get_packed(tc_dtypes[t].bits, data, i);
	}
}

void tc_set_element(enum dtype t, void *data, int64_t i, uint64_t bits)
{
	switch (tc_dtypes[t].bits) {
	case 64:
		SET(uint64_t);
		break;
	case 32:
		SET(uint32_t);
		break;
	case 16:
		SET(uint16_t);
		break;
	case 8:
		SET(uint8_t);
		break;
	default:
		set_packed(tc_dtypes[t].bits, data, i, bits);
	}
}

/* ---- near misses -------------------------------------------------------------------- */

/* What other libraries and C call some of the types. */
static const char *const synonyms[][2] = {
	{"half", "float16"},
	{"float", "float32"},
	{"single", "float32"},
	{"double", "float64"},
	{"fp64", "float64"},
	{"fp32", "float32"},
	{"fp16", "float16"},
	{"bf", "bfloat16"},
	{"fp8", "float8_e4m3fn"},
	{"float8", "float8_e4m3fn"},
	{"e4m3fn", "float8_e4m3fn"},
	{"fp4", "float4_e2m1fn"},
	{"float4", "float4_e2m1fn"},
	{"fp6", "float6_e3m2fn"},
	{"ue8m0", "float8_e8m0fnu"},
	{"e8m0fnu", "float8_e8m0fnu"},
	{"int", "int32"},
	{"uint", "uint32"},
	{"long", "int64"},
	{"short", "int16"},
	{"char", "int8"},
	{"byte", "uint8"},
	{"boolean", "bool"},
};

const char *tc_dtype_nearest(const char *name)
{
	const char *names[2 * DT_COUNT + 1];

	for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
		if (strcasecmp(name, synonyms[i][0]) == 0)
			return synonyms[i][1];
	for (int t = 0; t < DT_COUNT; t++) {
		names[t] = tc_dtypes[t].name;
		names[DT_COUNT + t] = tc_dtypes[t].shortname;
	}
	names[2 * DT_COUNT] = NULL;
	return tc_nearest(name, names);
}

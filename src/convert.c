/*
 * Whole arrays to and from doubles, a loop for each element type.
 */
#include "float_format.h"

/* A loop has this length, so that it needs no rest of another kind. */
#define UNIT 64

/* Parts of an array, which may lie at any address. */
typedef uint16_t word16 __attribute__((aligned(1), may_alias));
typedef uint64_t word64 __attribute__((aligned(1), may_alias));

/* ---- elements of at most 32 bits, a word each ------------------------------------------- */

TC_INLINE void decode_loops(enum dtype t, const uint32_t *restrict words, double *restrict out)
{
#define EACH(value)                                                                                \
	for (int i = 0; i < UNIT; i++) {                                                           \
		const uint32_t x = words[i];                                                       \
		out[i] = (value);                                                                  \
	}                                                                                          \
	break
#define FORMAT(id)                                                                                 \
	case DT_##id:                                                                              \
		EACH(tc_format_decode(&tc_float_formats[DT_##id], x));

	switch (t) {
		TC_FLOAT_FORMATS
	case DT_F32:
		EACH(tc_f32_decode(x));
	case DT_E8M0:
		EACH(tc_e8m0_decode(x));
	case DT_I32:
		EACH((double)(int32_t)x);
	case DT_I16:
		EACH((double)(int16_t)x);
	case DT_I8:
		EACH((double)(int8_t)x);
	case DT_I4:
		EACH((double)((int32_t)(x ^ 8) - 8));
	case DT_BOOL:
		EACH((double)(x != 0));
	default: /* unsigned integers */
		EACH((double)x);
	}
#undef EACH
#undef FORMAT
}

/*
 * Rounded by an addition that leaves no fraction; the low bits of the sum are those of the integer,
 * in two's complement.  tc_from_double says the rules.
 */
TC_INLINE uint32_t encode_integer(double x, double least, double most)
{
	double low = x > least ? x : least, kept = low < most ? low : most;

	return (uint32_t)tc_bits_of((x != x ? 0 : kept) + 0x1.8p52);
}

TC_INLINE void encode_loops(enum dtype t, const double *restrict in, uint32_t *restrict words)
{
	int bits = tc_dtypes[t].bits;
	double least = tc_dtypes[t].klass == 'I' ? -tc_power_of_two(bits - 1) : 0;
	double most = tc_power_of_two(tc_dtypes[t].klass == 'I' ? bits - 1 : bits) - 1;
#define EACH(value)                                                                                \
	for (int i = 0; i < UNIT; i++) {                                                           \
		const double x = in[i];                                                            \
		words[i] = (value);                                                                \
	}                                                                                          \
	break
#define FORMAT(id)                                                                                 \
	case DT_##id:                                                                              \
		EACH(tc_format_encode(&tc_float_formats[DT_##id], x));

	switch (t) {
		TC_FLOAT_FORMATS
	case DT_F32:
		EACH(tc_f32_encode(x));
	case DT_E8M0:
		EACH(tc_e8m0_encode(x));
	case DT_BOOL:
		EACH(x != 0);
	default:
		EACH(encode_integer(x, least, most));
	}
#undef EACH
#undef FORMAT
}

TC_BUILDS(decode, (enum dtype t, const uint32_t *words, double *out), (t, words, out))
TC_BUILDS(encode, (enum dtype t, const double *in, uint32_t *words), (t, in, words))

/* ---- sub-byte types ------------------------------------------------------------------ */

/*
 * Eight codes, which are `bits` bytes, and the same with a byte each: halves, quarters and eighths
 * of the word move apart, or together.
 */
struct spread {
	uint64_t half, quarter, eighth; /* the lower ones of each pair, apart */
};

static struct spread spread_of(int bits)
{
	struct spread s = {(UINT64_C(1) << 4 * bits) - 1,
			   ((UINT64_C(1) << 2 * bits) - 1) * 0x100000001,
			   ((UINT64_C(1) << bits) - 1) * 0x1000100010001};
	return s;
}

static void unpack(int bits, const uint8_t *packed, int64_t groups, uint8_t *codes)
{
	const struct spread s = spread_of(bits);

	for (int64_t i = 0; i < groups; i++) {
		uint64_t x = 0;
		for (int j = 0; j < bits; j += 2)
			x |= (uint64_t)(packed[j] | packed[j + 1] << 8) << 8 * j;
		x = (x & s.half) | (x & ~s.half) << (32 - 4 * bits);
		x = (x & s.quarter) | (x & s.quarter << 2 * bits) << (16 - 2 * bits);
		x = (x & s.eighth) | (x & s.eighth << bits) << (8 - bits);
		memcpy(codes + i * 8, &x, 8);
		packed += bits;
	}
}

static void pack(int bits, const uint8_t *codes, int64_t groups, uint8_t *packed)
{
	const struct spread s = spread_of(bits);

	for (int64_t i = 0; i < groups; i++) {
		uint64_t x;
		memcpy(&x, codes + i * 8, 8);
		x = (x & s.eighth) | (x >> (8 - bits) & s.eighth << bits);
		x = (x & s.quarter) | (x >> (16 - 2 * bits) & s.quarter << 2 * bits);
		x = (x & s.half) | (x >> (32 - 4 * bits) & ~s.half);
		for (int j = 0; j < bits; j++)
			packed[j] = (uint8_t)(x >> 8 * j);
		packed += bits;
	}
}

/* Elements before the next that begins a group of eight, of `count`. */
static int64_t loose_elements(int64_t first, int64_t count)
{
	int64_t loose = -first & 7;

	return loose < count ? loose : count;
}

static void load_packed(enum dtype t, const uint8_t *data, int64_t first, int64_t count,
			uint8_t *codes)
{
	int64_t i = 0, before = loose_elements(first, count), groups = (count - before) / 8;

	for (; i < before; i++)
		codes[i] = (uint8_t)tc_get_element(t, data, first + i);
	unpack(tc_dtypes[t].bits, data + tc_storage_bytes(t, first + i), groups, codes + i);
	for (i += groups * 8; i < count; i++)
		codes[i] = (uint8_t)tc_get_element(t, data, first + i);
}

static void store_packed(enum dtype t, uint8_t *data, int64_t first, int64_t count,
			 const uint8_t *codes)
{
	int64_t i = 0, before = loose_elements(first, count), groups = (count - before) / 8;

	for (; i < before; i++)
		tc_set_element(t, data, first + i, codes[i]);
	pack(tc_dtypes[t].bits, codes + i, groups, data + tc_storage_bytes(t, first + i));
	for (i += groups * 8; i < count; i++)
		tc_set_element(t, data, first + i, codes[i]);
}

/* ---- storage ------------------------------------------------------------------------ */

/* At most UNIT elements. */
static void load_words(enum dtype t, const void *data, int64_t first, int64_t count,
		       uint32_t *words)
{
	const uint8_t *bytes = (const uint8_t *)data + tc_storage_bytes(t, first);
	uint8_t codes[UNIT];

	switch (tc_dtypes[t].bits) {
	case 32:
		memcpy(words, bytes, (size_t)count * 4);
		return;
	case 16:
		for (int64_t i = 0; i < count; i++)
			words[i] = ((const word16 *)bytes)[i];
		return;
	case 8:
		break;
	default:
		load_packed(t, data, first, count, codes);
		bytes = codes;
	}
	for (int64_t i = 0; i < count; i++)
		words[i] = bytes[i];
}

static void store_words(enum dtype t, void *data, int64_t first, int64_t count,
			const uint32_t *words)
{
	uint8_t *bytes = (uint8_t *)data + tc_storage_bytes(t, first);
	uint8_t codes[UNIT];

	switch (tc_dtypes[t].bits) {
	case 32:
		memcpy(bytes, words, (size_t)count * 4);
		return;
	case 16:
		for (int64_t i = 0; i < count; i++)
			((word16 *)bytes)[i] = (uint16_t)words[i];
		return;
	case 8:
		for (int64_t i = 0; i < count; i++)
			bytes[i] = (uint8_t)words[i];
		return;
	default:
		for (int64_t i = 0; i < count; i++)
			codes[i] = (uint8_t)words[i];
		store_packed(t, data, first, count, codes);
	}
}

/* False: not of 64 bits. */
static bool load_wide(enum dtype t, const word64 *data, int64_t count, double *out)
{
	switch (t) {
	case DT_F64:
		memcpy(out, data, (size_t)count * sizeof *out);
		return true;
	case DT_I64:
		for (int64_t i = 0; i < count; i++)
			out[i] = (double)(int64_t)data[i];
		return true;
	case DT_U64:
		for (int64_t i = 0; i < count; i++)
			out[i] = (double)data[i];
		return true;
	default:
		return false;
	}
}

void tc_load_doubles(enum dtype t, const void *data, int64_t first, int64_t count, double *out)
{
	uint32_t words[UNIT] = {0};
	double unit[UNIT];

	if (load_wide(t, (const word64 *)data + first, count, out))
		return;
	for (int64_t n; count > 0; first += n, count -= n, out += n) {
		n = count < UNIT ? count : UNIT;
		load_words(t, data, first, n, words);
		decode(t, words, n < UNIT ? unit : out);
		if (n < UNIT)
			memcpy(out, unit, (size_t)n * sizeof *out);
	}
}

static bool store_wide(enum dtype t, word64 *data, int64_t count, const double *in)
{
	if (t == DT_F64)
		memcpy(data, in, (size_t)count * sizeof *in);
	else
		for (int64_t i = 0; tc_dtypes[t].bits == 64 && i < count; i++)
			data[i] = tc_from_double(t, in[i]);
	return tc_dtypes[t].bits == 64;
}

void tc_store_doubles(enum dtype t, void *data, int64_t first, int64_t count, const double *in)
{
	uint32_t words[UNIT];
	double unit[UNIT] = {0};

	if (store_wide(t, (word64 *)data + first, count, in))
		return;
	for (int64_t n; count > 0; first += n, count -= n, in += n) {
		n = count < UNIT ? count : UNIT;
		if (n < UNIT)
			memcpy(unit, in, (size_t)n * sizeof *in);
		encode(t, n < UNIT ? unit : in, words);
		store_words(t, data, first, n, words);
	}
}

/* ---- from type to type --------------------------------------------------------------- */

#define CHUNK 512

/* Each of the 64-bit integers is a double: its magnitude is no more than 2^53. */
static bool are_doubles(enum dtype t, const word64 *data, int64_t count)
{
	const uint64_t end = UINT64_C(1) << 53, below = t == DT_I64 ? end : 0;
	bool beyond = false;

	for (int64_t i = 0; i < count; i++)
		beyond |= data[i] + below > end + below;
	return !beyond;
}

static void convert_integers(enum dtype to, void *dst, enum dtype from, const void *src,
			     int64_t first, int64_t count)
{
	for (int64_t i = first; i < first + count; i++) {
		uint64_t bits = tc_get_element(from, src, i);

		tc_set_element(to, dst, i,
			       from == DT_I64 ? tc_from_integer(to, (int64_t)bits)
					      : tc_from_unsigned(to, bits));
	}
}

void tc_convert_elements(enum dtype to, void *dst, enum dtype from, const void *src, int64_t count)
{
	double chunk[CHUNK];
	bool wide = from == DT_I64 || from == DT_U64;

	if (to == from) {
		memcpy(dst, src, (size_t)tc_storage_bytes(to, count));
		return;
	}
	for (int64_t i = 0; i < count; i += CHUNK) {
		int64_t n = count - i < CHUNK ? count - i : CHUNK;

		if (wide && !are_doubles(from, (const word64 *)src + i, n)) {
			convert_integers(to, dst, from, src, i, n);
			continue;
		}
		tc_load_doubles(from, src, i, n, chunk);
		tc_store_doubles(to, dst, i, n, chunk);
	}
}

void tc_fill_elements(enum dtype t, void *data, int64_t count, uint64_t bits)
{
	int64_t bytes = tc_storage_bytes(t, count), done = tc_storage_bytes(t, 8);
	char *to = data;

	to[bytes - 1] = 0;
	for (int64_t i = 0; i < 8 && i < count; i++)
		tc_set_element(t, data, i, bits);
	for (; done < bytes; done *= 2)
		memcpy(to + done, to, (size_t)(bytes - done < done ? bytes - done : done));
	if (count * tc_dtypes[t].bits % 8)
		to[bytes - 1] &= (char)((1 << count * tc_dtypes[t].bits % 8) - 1);
}

/* Arguments of cuTensorMapEncodeTiled (docs/isa.md 8.1): wrong ones would be refused by the driver
 * with a bare number. */
#include "tc.h"

#include <inttypes.h>
#include <stdio.h>

#define TYPE_COUNT      16
#define SWIZZLE_COUNT   7
#define INTERLEAVE_NONE 0

/* Bytes of an element as memory holds it; the packed types in half bytes and six bits. */
static const int type_bits[TYPE_COUNT] = {8,  16, 32, 32, 64, 64, 16, 32,
					  64, 16, 32, 32, 32, 4,  4,  6};

struct number {
	char text[24];
};

static struct number number(int64_t i)
{
	struct number n;

	snprintf(n.text, sizeof n.text, "%" PRId64, i);
	return n;
}

static void check_sizes(struct err *e, const struct tensormap *m)
{
	for (int i = 0; i < m->rank; i++)
		if (m->dims[i] < 1 || m->dims[i] > UINT64_C(1) << 32)
			tc_documented(e, MAP_SIZE, "", number((int64_t)m->dims[i]).text,
				      number(i).text);
}

static void check_strides(struct err *e, const struct tensormap *m)
{
	int bits = type_bits[m->type], bytes = bits < 8 ? 1 : bits / 8;

	for (int i = 0; i + 1 < m->rank; i++)
		if (m->strides[i] % 16 || m->strides[i] >= UINT64_C(1) << 40)
			tc_documented(e, MAP_STRIDE, "", number((int64_t)m->strides[i]).text,
				      number((int64_t)(m->strides[i] * 8 / (unsigned)bits)).text,
				      number(bytes).text, number(i + 1).text);
}

static void check_box(struct err *e, const struct tensormap *m)
{
	static const char *const swizzles[SWIZZLE_COUNT] = {"none", "32",  "64", "128",
							    "128",  "128", "128"};
	static const unsigned widths[SWIZZLE_COUNT] = {0, 32, 64, 128, 128, 128, 128};
	int bits = type_bits[m->type], bytes = bits < 8 ? 1 : bits / 8;
	uint64_t row = (uint64_t)m->box[0] * (unsigned)bits / 8;

	for (int i = 0; i < m->rank; i++)
		if (m->box[i] < 1 || m->box[i] > 256)
			tc_documented(e, MAP_WINDOW, "", number(m->box[i]).text, number(i).text);
	if (m->interleave != INTERLEAVE_NONE)
		return;
	if ((uint64_t)m->box[0] * (unsigned)bits % 128)
		tc_documented(e, MAP_WINDOW_BYTES, "", number(m->box[0]).text, number(bytes).text,
			      number(0).text);
	if (m->swizzle && row > widths[m->swizzle])
		tc_documented(e, MAP_SWIZZLE_SPAN, "", number((int64_t)row).text,
			      swizzles[m->swizzle]);
}

void tc_check_tensormap(struct err *e, const struct tensormap *m)
{
	if (m->type < 0 || m->type >= TYPE_COUNT)
		tc_documented(e, MAP_DTYPE, "", number(m->type).text);
	if (m->rank < 1 || m->rank > 5)
		tc_documented(e, MAP_RANK, "", number(m->rank).text);
	if (m->address % 16) {
		char address[24];

		snprintf(address, sizeof address, "%" PRIx64, m->address);
		tc_documented(e, MAP_ADDRESS, "", address);
	}
	check_sizes(e, m);
	check_strides(e, m);
	if (m->swizzle < 0 || m->swizzle >= SWIZZLE_COUNT)
		tc_documented(e, MAP_SWIZZLE, "", number(m->swizzle).text);
	if (m->mode == MAP_TILED)
		check_box(e, m);
	for (int i = 0; i < m->rank; i++)
		if (m->element_strides[i] < 1 || m->element_strides[i] > 8)
			tc_documented(e, MAP_ELEMENT_STRIDE, "", number(m->element_strides[i]).text,
				      number(i).text);
}

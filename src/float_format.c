/* Single elements of floating-point types, to and from double. */
#include "float_format.h"

uint64_t tc_float_encode(enum dtype t, double x)
{
	switch (t) {
	case DT_F64:
		return tc_bits_of(x);
	case DT_F32:
		return tc_f32_encode(x);
	case DT_E8M0:
		return tc_e8m0_encode(x);
	default:
		return tc_format_encode(&tc_float_formats[t], x);
	}
}

double tc_float_decode(enum dtype t, uint64_t bits)
{
	uint32_t word = (uint32_t)bits;

	switch (t) {
	case DT_F64:
		return tc_double_of(bits);
	case DT_F32:
		return tc_f32_decode(word);
	case DT_E8M0:
		return tc_e8m0_decode(word & 0xff);
	default:
		return tc_format_decode(&tc_float_formats[t], word);
	}
}

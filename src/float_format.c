/* Single elements of floating-point types, to and from double; a case for each type is faster. */
#include "float_format.h"

uint64_t tc_float_encode(enum dtype t, double x)
{
	switch (t) {
#define FORMAT(id)                                                                                 \
	case DT_##id:                                                                              \
		return tc_format_encode(&tc_float_formats[DT_##id], x);
		TC_FLOAT_FORMATS
#undef FORMAT
	case DT_F32:
		return tc_f32_encode(x);
	case DT_E8M0:
		return tc_e8m0_encode(x);
	default:
		return tc_bits_of(x);
	}
}

double tc_float_decode(enum dtype t, uint64_t bits)
{
	uint32_t word = (uint32_t)bits;

	switch (t) {
#define FORMAT(id)                                                                                 \
	case DT_##id:                                                                              \
		return tc_format_decode(&tc_float_formats[DT_##id], word);
		TC_FLOAT_FORMATS
#undef FORMAT
	case DT_F32:
		return tc_f32_decode(word);
	case DT_E8M0:
		return tc_e8m0_decode(word & 0xff);
	default:
		return tc_double_of(bits);
	}
}

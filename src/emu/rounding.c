/* Rounding to any binary floating point format. */
#include "rounding.h"
#include <fenv.h>
#include <math.h>

const char *const emu_rounding_names[] = {"rn", "rz", "rm", "rp", "rna", NULL};

const struct emu_format emu_format_f32 = {24, -126, 0x1.fffffep127};
const struct emu_format emu_format_f16 = {11, -14, 65504};
const struct emu_format emu_format_bf16 = {8, -126, 0x1.fep127};
const struct emu_format emu_format_tf32 = {11, -126, 0x1.ffcp127};

double emu_round_integral(double value, enum emu_rounding rounding)
{
	switch (rounding) {
	case EMU_ROUND_ZERO:
		return trunc(value);
	case EMU_ROUND_DOWN:
		return floor(value);
	case EMU_ROUND_UP:
		return ceil(value);
	case EMU_ROUND_NEAREST_AWAY:
		return round(value);
	default: {
		/* Half-way cases go to even, whatever the host's mode is. */
		double down = floor(value), rest = value - down;

		if (rest == 0)
			return value;
		if (rest == 0.5)
			return copysign(fmod(down, 2) == 0 ? down : down + 1, value);
		return copysign(rest < 0.5 ? down : down + 1, value);
	}
	}
}

/* What lies beyond the largest value becomes infinity or stays the largest, by the mode. */
static double overflow(const struct emu_format *format, double value, enum emu_rounding rounding)
{
	bool keep = rounding == EMU_ROUND_ZERO || (rounding == EMU_ROUND_DOWN && value > 0) ||
		    (rounding == EMU_ROUND_UP && value < 0);

	return copysign(keep ? format->largest : INFINITY, value);
}

double emu_round_to(const struct emu_format *format, double value, enum emu_rounding rounding)
{
	int exponent;
	double scaled, rounded;

	if (!isfinite(value) || value == 0)
		return value;
	frexp(value, &exponent);
	exponent -= 1;
	if (exponent < format->least)
		exponent = format->least;
	/* Scaling by powers of two is exact: the unit in the last place becomes 1. */
	scaled = ldexp(value, format->precision - 1 - exponent);
	rounded = ldexp(emu_round_integral(scaled, rounding), exponent - format->precision + 1);
	if (fabs(rounded) > format->largest)
		return overflow(format, value, rounding);
	return rounded == 0 ? copysign(0.0, value) : rounded;
}

static double make_odd(double value, bool towards_more)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	if (bits & 1)
		return value;
	bits = towards_more ? bits + 1 : bits - 1;
	memcpy(&value, &bits, sizeof value);
	return value;
}

double emu_add_to_odd(double a, double b)
{
	double sum = a + b, part = sum - a;
	double error = (a - (sum - part)) + (b - part);

	if (error == 0 || !isfinite(sum) || sum == 0)
		return sum;
	return make_odd(sum, (error > 0) == (sum > 0));
}

double emu_integer_to_odd(uint64_t magnitude, bool negative)
{
	double high = (double)(uint32_t)(magnitude >> 32) * 0x1p32,
	       low = (double)(uint32_t)magnitude;
	double value = emu_add_to_odd(high, low);

	return negative ? -value : value;
}

void emu_host_rounding(enum emu_rounding rounding)
{
	static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD,
				    FE_TONEAREST};

	fesetround(modes[rounding]);
}

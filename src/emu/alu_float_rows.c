/* The common arithmetic of floating point as loops over rows, for any host and for one with wider
 * vectors. */
#include "alu.h"
#include "alu_float.h"
#include "approximate.h"

EMU_INLINE float keep(float value)
{
	return value;
}

EMU_INLINE uint32_t quiet(uint32_t bits)
{
	return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}

#define BEGIN(opcode, type, variant)                                                               \
	ATTRIBUTE static enum emu_step FORM(opcode##_##type##_##variant)(                          \
		struct emu_warp * warp, const struct emu_ins *ins, uint32_t mask)                  \
	{                                                                                          \
		const type *a = (const type *)emu_row(warp, ins->ref[1]);
#define F32_1(opcode, variant, in, out, value)                                                     \
	BEGIN(opcode, float, variant)                                                              \
	uint32_t *d = emu_row32(warp, ins->ref[0]);                                                \
                                                                                                   \
	EMU_OVER_LANES(uint32_t, ({                                                                \
			       float x = in(a[l]);                                                 \
			       emu_canonical(out(value));                                          \
		       }))                                                                         \
	}
#define F32_2(opcode, variant, in, out, value)                                                     \
	BEGIN(opcode, float, variant)                                                              \
	uint32_t *d = emu_row32(warp, ins->ref[0]);                                                \
	const float *b = (const float *)emu_row(warp, ins->ref[2]);                                \
                                                                                                   \
	EMU_OVER_LANES(uint32_t, ({                                                                \
			       float x = in(a[l]), y = in(b[l]);                                   \
			       emu_canonical(out(value));                                          \
		       }))                                                                         \
	}
#define F32_3(opcode, variant, in, out, value)                                                     \
	BEGIN(opcode, float, variant)                                                              \
	uint32_t *d = emu_row32(warp, ins->ref[0]);                                                \
	const float *b = (const float *)emu_row(warp, ins->ref[2]);                                \
	const float *c = (const float *)emu_row(warp, ins->ref[3]);                                \
                                                                                                   \
	EMU_OVER_LANES(uint32_t, ({                                                                \
			       float x = in(a[l]), y = in(b[l]), z = in(c[l]);                     \
			       emu_canonical(out(value));                                          \
		       }))                                                                         \
	}
#define BOTH_1(opcode, value)                                                                      \
	F32_1(opcode, PLAIN, keep, keep, value)                                                    \
	F32_1(opcode, FLUSH, emu_flush_f32, emu_flush_f32, value)
#define BOTH_2(opcode, value)                                                                      \
	F32_2(opcode, PLAIN, keep, keep, value)                                                    \
	F32_2(opcode, FLUSH, emu_flush_f32, emu_flush_f32, value)
#define BITS_1(opcode, variant, in, value)                                                         \
	BEGIN(opcode, float, variant)                                                              \
	uint32_t *d = emu_row32(warp, ins->ref[0]);                                                \
                                                                                                   \
	EMU_OVER_LANES(uint32_t, ({                                                                \
			       uint32_t x = emu_bits_of_f32(in(a[l]));                             \
			       value;                                                              \
		       }))                                                                         \
	}
#define BITS_2(opcode, variant, value)                                                             \
	BEGIN(opcode, float, variant)                                                              \
	uint32_t *d = emu_row32(warp, ins->ref[0]);                                                \
	const float *b = (const float *)emu_row(warp, ins->ref[2]);                                \
                                                                                                   \
	EMU_OVER_LANES(uint32_t, ({                                                                \
			       uint32_t x = emu_bits_of_f32(a[l]), y = emu_bits_of_f32(b[l]);      \
			       value;                                                              \
		       }))                                                                         \
	}
#define F64_1(opcode, variant, value)                                                              \
	BEGIN(opcode, double, variant)                                                             \
	double *d = (double *)emu_row(warp, ins->ref[0]);                                          \
                                                                                                   \
	EMU_OVER_LANES(double, ({                                                                  \
			       double x = a[l];                                                    \
			       value;                                                              \
		       }))                                                                         \
	}
#define F64_2(opcode, variant, value)                                                              \
	BEGIN(opcode, double, variant)                                                             \
	double *d = (double *)emu_row(warp, ins->ref[0]);                                          \
	const double *b = (const double *)emu_row(warp, ins->ref[2]);                              \
                                                                                                   \
	EMU_OVER_LANES(double, ({                                                                  \
			       double x = a[l], y = b[l];                                          \
			       value;                                                              \
		       }))                                                                         \
	}
#define F64_3(opcode, variant, value)                                                              \
	BEGIN(opcode, double, variant)                                                             \
	double *d = (double *)emu_row(warp, ins->ref[0]);                                          \
	const double *b = (const double *)emu_row(warp, ins->ref[2]);                              \
	const double *c = (const double *)emu_row(warp, ins->ref[3]);                              \
                                                                                                   \
	EMU_OVER_LANES(double, ({                                                                  \
			       double x = a[l], y = b[l], z = c[l];                                \
			       value;                                                              \
		       }))                                                                         \
	}

/* Two f32 in a 64-bit register: 64 values in a row of 32 lanes. */
#define OVER_PAIRS(value)                                                                          \
	uint32_t lanes[2 * EMU_LANES];                                                             \
	const uint32_t *m = emu_lane_mask(warp, mask);                                             \
                                                                                                   \
	EMU_IVDEP                                                                                  \
	for (int l = 0; l < 2 * EMU_LANES; l++)                                                    \
		lanes[l] = value;                                                                  \
	for (int l = 0; l < 2 * EMU_LANES; l++)                                                    \
		d[l] = m[l / 2] ? lanes[l] : d[l];                                                 \
	return EMU_NEXT;
#define PAIR_2(opcode, variant, in, out, value)                                                    \
	BEGIN(opcode##x2, float, variant)                                                          \
	uint32_t *d = emu_row32(warp, ins->ref[0]);                                                \
	const float *b = (const float *)emu_row(warp, ins->ref[2]);                                \
                                                                                                   \
	OVER_PAIRS(({                                                                              \
		float x = in(a[l]), y = in(b[l]);                                                  \
		emu_canonical(out(value));                                                         \
	}))                                                                                        \
	}
#define PAIR_3(opcode, variant, in, out, value)                                                    \
	BEGIN(opcode##x2, float, variant)                                                          \
	uint32_t *d = emu_row32(warp, ins->ref[0]);                                                \
	const float *b = (const float *)emu_row(warp, ins->ref[2]);                                \
	const float *c = (const float *)emu_row(warp, ins->ref[3]);                                \
                                                                                                   \
	OVER_PAIRS(({                                                                              \
		float x = in(a[l]), y = in(b[l]), z = in(c[l]);                                    \
		emu_canonical(out(value));                                                         \
	}))                                                                                        \
	}

#define FORM(name) name
#define ATTRIBUTE
#include "alu_float.def"
#undef FORM
#undef ATTRIBUTE
#if EMU_HAVE_WIDE
#define FORM(name) wide_##name
#define ATTRIBUTE  EMU_WIDE
#include "alu_float.def"
#undef FORM
#undef ATTRIBUTE
#define FORM(name) widest_##name
#define ATTRIBUTE  EMU_WIDEST
#include "alu_float.def"
#undef FORM
#undef ATTRIBUTE
#define HOSTS(name)                                                                                \
	{                                                                                          \
		name, wide_##name, widest_##name                                                   \
	}
#else
#define HOSTS(name)                                                                                \
	{                                                                                          \
		name                                                                               \
	}
#endif
#undef F32_1
#undef F32_2
#undef F32_3
#undef BOTH_1
#undef BOTH_2
#undef BITS_1
#undef BITS_2
#undef F64_1
#undef F64_2
#undef F64_3
#undef PAIR_2
#undef PAIR_3

/* ---- the table ---------------------------------------------------------------------------- */

static const struct {
	const char *opcode;
	enum emu_type type;
	enum emu_float_variant variant;
	emu_execute execute[EMU_WIDTHS];
} rows[] = {
#define F32(opcode, variant)                                                                       \
	{#opcode, EMU_T_F32, EMU_FLOAT_##variant, HOSTS(opcode##_float_##variant)},
#define F64(opcode, variant)                                                                       \
	{#opcode, EMU_T_F64, EMU_FLOAT_##variant, HOSTS(opcode##_double_##variant)},
#define PAIR(opcode, variant)                                                                      \
	{#opcode, EMU_T_F32X2, EMU_FLOAT_##variant, HOSTS(opcode##x2_float_##variant)},
#define F32_1(opcode, variant, in, out, value)  F32(opcode, variant)
#define F32_2(opcode, variant, in, out, value)  F32(opcode, variant)
#define F32_3(opcode, variant, in, out, value)  F32(opcode, variant)
#define BITS_1(opcode, variant, in, value)      F32(opcode, variant)
#define BITS_2(opcode, variant, value)          F32(opcode, variant)
#define BOTH_1(opcode, value)                   F32(opcode, PLAIN) F32(opcode, FLUSH)
#define BOTH_2(opcode, value)                   F32(opcode, PLAIN) F32(opcode, FLUSH)
#define F64_1(opcode, variant, value)           F64(opcode, variant)
#define F64_2(opcode, variant, value)           F64(opcode, variant)
#define F64_3(opcode, variant, value)           F64(opcode, variant)
#define PAIR_2(opcode, variant, in, out, value) PAIR(opcode, variant)
#define PAIR_3(opcode, variant, in, out, value) PAIR(opcode, variant)
#include "alu_float.def"
};

emu_execute emu_float_rows(const char *opcode, enum emu_type type, enum emu_float_variant variant)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].type == type && rows[i].variant == variant &&
		    !strcmp(rows[i].opcode, opcode))
			return rows[i].execute[emu_host_width()];
	return NULL;
}

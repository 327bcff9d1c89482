/*
 * Loops for the compiler to vectorize: what a file with such loops includes first, for it raises
 * the optimization level of the file; and
 * the attribute of functions that exist a second time for hosts with wider vectors.  Both give the
 * same bits: nothing is contracted, also where the module is not built by the Makefile.
 */
#ifndef TCMMA_EMU_WIDE_H
#define TCMMA_EMU_WIDE_H

#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("O3", "fp-contract=off", "no-math-errno", "no-trapping-math")
#define EMU_IVDEP  _Pragma("GCC ivdep")
#define EMU_UNROLL _Pragma("GCC unroll 8")
#else
#pragma STDC FP_CONTRACT OFF
#define EMU_IVDEP
#define EMU_UNROLL _Pragma("clang loop unroll_count(8)")
#endif

#include <stdbool.h>

#if defined __x86_64__
#define EMU_HAVE_WIDE 1
#define EMU_WIDE      __attribute__((target("avx2,fma")))
#define EMU_WIDEST    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

static inline bool emu_host_is_wide(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static inline bool emu_host_is_widest(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
#define EMU_HAVE_WIDE 0

static inline bool emu_host_is_wide(void)
{
	return false;
}
#endif

/* Which of a function's builds, of which hosts of other kinds have the first. */
#define EMU_WIDTHS 3

static inline int emu_host_width(void)
{
#if EMU_HAVE_WIDE
	return emu_host_is_widest() ? 2 : emu_host_is_wide();
#else
	return 0;
#endif
}

#endif

/*
 * Loops over whole arrays for the compiler to make vector code of: what a file with such loops
 * includes last, for it asks the compiler for that in what follows.  The emulator, which includes
 * nothing of the core, has its own in emu/wide.h.
 */
#ifndef TCMMA_LOOPS_H
#define TCMMA_LOOPS_H

/* What the Makefile says for all files, other ways to build do not. */
#if defined __clang__
#pragma STDC FP_CONTRACT OFF
#elif defined __GNUC__
#pragma GCC optimize("tree-vectorize", "vect-cost-model=dynamic", "fp-contract=off",               \
		     "no-math-errno", "no-trapping-math")
#endif

/* Of the body of loops, so that what is constant at the call is so in the loop. */
#define TC_INLINE static inline __attribute__((always_inline))

/*
 * Defines `name`, which runs name##_loops, where the host has AVX-512 as built for it; AVX2 gains
 * little over the SSE2 of every x86-64.  Both builds give the same bits: nothing is contracted, and
 * no loop depends on a width.
 */
#if defined __x86_64__
#define TC_BUILDS(name, parameters, arguments)                                                     \
	__attribute__((target(                                                                     \
		"avx512f,avx512bw,avx512dq,avx512vl"))) static void name##_avx512 parameters       \
	{                                                                                          \
		name##_loops arguments;                                                            \
	}                                                                                          \
	static void name parameters                                                                \
	{                                                                                          \
		if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&    \
		    __builtin_cpu_supports("avx512vl"))                                            \
			name##_avx512 arguments;                                                   \
		else                                                                               \
			name##_loops arguments;                                                    \
	}
#else
#define TC_BUILDS(name, parameters, arguments)                                                     \
	static void name parameters                                                                \
	{                                                                                          \
		name##_loops arguments;                                                            \
	}
#endif

#endif

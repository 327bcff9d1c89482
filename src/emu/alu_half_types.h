/*
 * The functions of alu_half.def.  Included once for each width of the host's vectors, with FORM
 * naming the functions and ATTRIBUTE marking them.
 */
#define FUSED FUSED_f16
#define HALF(opcode, variant, n, value)                                                            \
	ONE(opcode##_f16_##variant, f16, n, value)                                                 \
	TWO(opcode##_f16x2_##variant, f16, n, value)
#include "alu_half.def"
#undef HALF
#undef FUSED
#define FUSED FUSED_bf16
#define HALF(opcode, variant, n, value)                                                            \
	ONE(opcode##_bf16_##variant, bf16, n, value)                                               \
	TWO(opcode##_bf16x2_##variant, bf16, n, value)
#include "alu_half.def"
#undef HALF
#undef FUSED

/*
 * The functions of alu_int.def and the table that names them.  Included once for
 * each kind of host, with FORM naming the functions and ATTRIBUTE marking them.
 */
#define UNARY(name, opcode, type, db, ab, V, R, expression)                                        \
	ATTRIBUTE static enum emu_step FORM(name##_##type)(                                        \
		struct emu_warp * warp, const struct emu_ins *ins, uint32_t mask)                  \
	{                                                                                          \
		EMU_CELL_##db *d = EMU_ROW_OF_##db(warp, ins->ref[0]);                             \
		const EMU_CELL_##ab *a = EMU_ROW_OF_##ab(warp, ins->ref[1]);                       \
                                                                                                   \
		EMU_OVER_LANES(EMU_CELL_##db, ({                                                   \
				       V x = (V)a[l];                                              \
				       (EMU_CELL_##db)(R)(expression);                             \
			       }))                                                                 \
	}
#define BINARY(name, opcode, type, db, ab, bb, V, W, R, expression)                                \
	ATTRIBUTE static enum emu_step FORM(name##_##type)(                                        \
		struct emu_warp * warp, const struct emu_ins *ins, uint32_t mask)                  \
	{                                                                                          \
		EMU_CELL_##db *d = EMU_ROW_OF_##db(warp, ins->ref[0]);                             \
		const EMU_CELL_##ab *a = EMU_ROW_OF_##ab(warp, ins->ref[1]);                       \
		const EMU_CELL_##bb *b = EMU_ROW_OF_##bb(warp, ins->ref[2]);                       \
                                                                                                   \
		EMU_OVER_LANES(EMU_CELL_##db, ({                                                   \
				       V x = (V)a[l];                                              \
				       W y = (W)b[l];                                              \
				       (EMU_CELL_##db)(R)(expression);                             \
			       }))                                                                 \
	}
#define TERNARY(name, opcode, type, db, ab, bb, cb, V, W, U, R, expression)                        \
	ATTRIBUTE static enum emu_step FORM(name##_##type)(                                        \
		struct emu_warp * warp, const struct emu_ins *ins, uint32_t mask)                  \
	{                                                                                          \
		EMU_CELL_##db *d = EMU_ROW_OF_##db(warp, ins->ref[0]);                             \
		const EMU_CELL_##ab *a = EMU_ROW_OF_##ab(warp, ins->ref[1]);                       \
		const EMU_CELL_##bb *b = EMU_ROW_OF_##bb(warp, ins->ref[2]);                       \
		const EMU_CELL_##cb *c = EMU_ROW_OF_##cb(warp, ins->ref[3]);                       \
                                                                                                   \
		EMU_OVER_LANES(EMU_CELL_##db, ({                                                   \
				       V x = (V)a[l];                                              \
				       W y = (W)b[l];                                              \
				       U z = (U)c[l];                                              \
				       (void)x, (void)y;                                           \
				       (EMU_CELL_##db)(R)(expression);                             \
			       }))                                                                 \
	}
#include "alu_int.def"
#undef UNARY
#undef BINARY
#undef TERNARY

static const struct emu_form FORM(forms)[] = {
#define UNARY(name, opcode, type, db, ab, V, R, expression)                                        \
	{opcode, EMU_T_##type, FORM(name##_##type), {db, ab}},
#define BINARY(name, opcode, type, db, ab, bb, V, W, R, expression)                                \
	{opcode, EMU_T_##type, FORM(name##_##type), {db, ab, bb}},
#define TERNARY(name, opcode, type, db, ab, bb, cb, V, W, U, R, expression)                        \
	{opcode, EMU_T_##type, FORM(name##_##type), {db, ab, bb, cb}},
#include "alu_int.def"
#undef UNARY
#undef BINARY
#undef TERNARY
};

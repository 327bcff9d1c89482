/*
 * Images of allocations, and the machine-level form of the code.
 *
 * The machine-level form is PTX: instructions with virtual registers, and
 * operands that may name an allocation whose offset place.c decides later.
 *
 * How lowering code is written:
 *
 *	struct mreg d = mi_b32(l);
 *	mi(l, "add.s32", R(d), R(a), I(4));                   add.s32 %r1, %r0, 4;
 *	mi(l, "st.shared.v4.b32", M(addr, 16), V(regs, 4));   st.shared.v4.b32 [%r1+16], {...};
 *	mi_if(l, p, "st.global.b16", M(addr, 0), R(h));       @%p1 st.global.b16 [...], %h1;
 *	mi_unless(l, p, "bra", LABEL(skip));                  @!%p1 bra L3;
 *	mi_label(l, skip);
 */
#ifndef TCMMA_MACHINE_H
#define TCMMA_MACHINE_H

#include "tc.h"

/* ---- layout.c: the image of an SMEM allocation (docs/semantics.md 9) ---- */

/*
 * A tile is the last two axes (R rows, C columns); further axes count tiles.
 * Swizzled: panels of `panel_columns` columns side by side, each R rows of
 * `row_bytes` = W bytes, XOR on address bits.  swizzle 0: one panel of plain
 * row-major rows, or with a tiling of 16 bytes panels of them.  A vector has one row.
 */
struct smem_layout {
	int bits;    /* of an element as stored */
	int swizzle; /* W: 0, 32, 64, 128 */
	/* The XOR on addresses: of these bits from bit 7 on, with those from bit xor_shift on. */
	int xor_mask, xor_shift;
	bool panelled; /* swizzled, or cut into panels of 16 bytes, the core matrices of no swizzle
			*/
	int64_t rows, columns, tiles;
	int64_t panel_columns, panels, row_bytes, panel_bytes, tile_bytes, bytes;
	int64_t alignment; /* of the allocation: 1024, 512, 256, 128 */
};
/* Elements in a row of a box whose elements TMA pads. */
#define TC_PADDED_ROW 128
void tc_smem_layout(const struct alloc *a, struct smem_layout *s);
/* Byte offset of (row, column) in a tile before the XOR; and the XOR itself,
 * valid on offsets from the allocation since its base is aligned. */
int64_t tc_smem_linear(const struct smem_layout *s, int64_t row, int64_t column);
int64_t tc_smem_xor(const struct smem_layout *s, int64_t offset);
/* Elements from one index of `axis` to the next; static (SMEM, TMEM). */
int64_t tc_axis_stride(const struct alloc *a, int axis);

/* ---- machine.c: instructions ---- */

enum mreg_type {
	MR_PRED,
	MR_B8,
	MR_B16,
	MR_B32,
	MR_B64,
	MR_F32,
	MR_F64,
	MR_COUNT
};

/* A virtual register.  `name` is NULL for numbered ones. */
struct mreg {
	enum mreg_type type;
	int id;    /* from 1; 0: no register */
	int depth; /* nesting of the scope of code that it is computed in */
	const char *name;
};

/* What place.c resolves. */
enum msym_kind {
	SYM_NONE,
	SYM_SMEM,         /* alloc: bytes from the dynamic base */
	SYM_TMEM,         /* alloc: columns from the kernel's TMEM base */
	SYM_BARRIER,      /* barrier: bytes from the dynamic base */
	SYM_SCRATCH,      /* role_plan: its scratch, bytes from the dynamic base */
	SYM_TMEM_COLUMNS, /* how many are allocated */
	SYM_TMEM_SLOT     /* where tcgen05.alloc leaves the address */
};
struct msym {
	enum msym_kind kind;
	const void *object; /* struct alloc, barrier or role_plan */
};

/*
 * An address: reg + symbol + offset.  For the SMEM symbols a missing `reg`
 * stands for the dynamic base, for SYM_TMEM for the TMEM base; a `reg` that is
 * given contains that base already.  Without symbol: reg + offset.
 */
struct maddr {
	struct mreg reg;
	struct msym sym;
	int64_t offset;
};

enum mopnd_kind {
	MO_REG, /* %r1; negated: !%p1 */
	MO_IMM,
	MO_HEX,
	MO_F32,
	MO_ADDR,   /* [%r1+16] */
	MO_OFFSET, /* a symbol's offset plus imm, as an integer */
	MO_LIST,   /* {%r1, %r2} */
	MO_LABEL,
	MO_TEXT, /* as it is: [param], _, %tid.x */
	MO_MAP,  /* [%rd1, {%r1, %r2}] */
	MO_ELECT /* _|%p1 */
};
struct mopnd {
	enum mopnd_kind kind;
	bool negated;
	int count;
	struct mreg reg;
	int64_t imm; /* MO_F32: the bits */
	struct maddr addr;
	const struct mopnd *list;
	const char *text;
};

struct mopnd mo_reg(struct mreg r);
struct mopnd mo_imm(int64_t i);
struct mopnd mo_hex(uint64_t i);
struct mopnd mo_f32(float f);
struct mopnd mo_mem(struct maddr a, int64_t offset);
struct mopnd mo_offset(struct msym sym, int64_t offset);
struct mopnd mo_label(int label);
struct mopnd mo_elect(struct mreg p);   /* _|%p */
struct mopnd mo_text(const char *text); /* text lives as long as the program */
#define R(reg)       mo_reg(reg)
#define I(imm)       mo_imm(imm)
#define M(addr, off) mo_mem(addr, off)
#define T(text)      mo_text(text)
#define LABEL(n)     mo_label(n)

enum minst_kind {
	MI_OP,
	MI_LABEL,
	MI_COMMENT,
	MI_RAW,   /* a line of text without semicolon: braces */
	MI_CHECK, /* stops where operand 0, unsigned, is not below operand 1; opcode: why */
	MI_PLACE  /* no code: holds a place that instructions are put before */
};
struct minst {
	struct minst *next;
	enum minst_kind kind;
	const struct op *op; /* recorded op it comes from; NULL */
	struct mreg guard;
	bool guard_not;
	const char *opcode; /* MI_COMMENT: the text */
	int label, count;
	struct mopnd *operand;
};

struct low;        /* lower.h */
struct param_slot; /* roles.h */

/* Appends an instruction to the role's code. */
struct minst *mi_emit(struct low *l, const char *opcode, const struct mopnd *operand, int count);
#define mi(l, opcode, ...)                                                                         \
	mi_emit(l, opcode, (const struct mopnd[]){__VA_ARGS__},                                    \
		(int)(sizeof((const struct mopnd[]){__VA_ARGS__}) / sizeof(struct mopnd)))
#define mi_if(l, p, ...)     mi_guard(mi(l, __VA_ARGS__), p, false)
#define mi_unless(l, p, ...) mi_guard(mi(l, __VA_ARGS__), p, true)
void mi_guard(struct minst *m, struct mreg p, bool negated);
void mi_push(struct arena *a, struct ptrvec *v, void *item);
struct minst *mi_place(struct low *l);          /* MI_PLACE */
int mi_string(struct low *l, const char *text); /* number of a text in .global memory */
void mi_add_param(struct low *l, struct param_slot *slot);
void mi_plain(struct low *l, const char *opcode); /* without operands */
int mi_new_label(struct low *l);
int mi_named_label(struct low *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mi_label(struct low *l, int label);
void mi_flush_comment(struct low *l);
/* A line as it is, without semicolon. */
void mi_raw(struct low *l, const char *text);
/* The 32 bits of `index` are below `limit`, or the emulator stops here and says `why`. */
void mi_check(struct low *l, struct mreg index, int64_t limit, const char *why);
void mi_comment(struct low *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct mreg mi_reg(struct low *l, enum mreg_type type);
struct mreg mi_pred(struct low *l);
struct mreg mi_b8(struct low *l);
struct mreg mi_b16(struct low *l);
struct mreg mi_b32(struct low *l);
struct mreg mi_b64(struct low *l);
struct mreg mi_f32(struct low *l);
/* A register with a name made unique; shown as %name. */
struct mreg mi_named(struct low *l, enum mreg_type type, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* {%r1, ...} of n registers. */
struct mopnd mo_list(struct low *l, const struct mreg *regs, int n);
#define V(regs, n) mo_list(l, regs, n)
/* [%rd1, {coordinates}] of a TMA instruction. */
struct mopnd mo_map(struct low *l, struct mreg map, const struct mopnd *coordinates, int n);
/* The target needs at least this .version (86 is 8.6). */
void mi_require(struct low *l, int version);

#endif

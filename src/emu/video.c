/*
 * Video instructions: arithmetic on bytes, half-words and words chosen by selectors (9.7.18).
 * No device has had them for long: the assembler makes sequences of them, which depart from the
 * manual in what is marked "assembled".  It is so on an H200, ptxas 13.0.
 */
#include "machine.h"

#include "module.h"

enum operation {
	ADD,
	SUBTRACT,
	DIFFERENCE,
	MINIMUM,
	MAXIMUM,
	AVERAGE,
	SHIFT_LEFT,
	SHIFT_RIGHT,
	MULTIPLY,
	COMPARE
};

static const char *const names[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg",
				    "vshl", "vshr", "vmad",     "vset", NULL};

/* Where the parts of an operand are: part i has `bits` bits from bit at[i] of a (0..31) or b
 * (32..63) on. */
struct selection {
	uint8_t bits, count;
	uint8_t at[4];
};

struct video {
	enum operation operation;
	uint8_t parts; /* 1, 2 or 4 */
	bool d_signed, a_signed, b_signed;
	bool saturate, wrap, plus_one;
	bool negate_product, negate_c;
	int second; /* of seconds[], or -1 */
	int comparison;
	int scale; /* bits to the right */
	struct selection d, a, b;
};

static const char *const seconds[] = {"add", "min", "max", NULL};
static const char *const comparisons[] = {"eq", "ne", "lt", "le", "gt", "ge", NULL};

/* ---- arithmetic ------------------------------------------------------------------------------ */

static __int128 part(const struct selection *s, int i, uint64_t words, bool is_signed)
{
	uint64_t value = words >> s->at[i] << (64 - s->bits);

	return is_signed ? (__int128)((int64_t)value >> (64 - s->bits))
			 : (__int128)(value >> (64 - s->bits));
}

static bool compare(int comparison, __int128 a, __int128 b)
{
	const bool holds[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};

	return holds[comparison];
}

static __int128 shift(const struct video *v, __int128 a, __int128 b)
{
	int by = (int)(v->wrap ? b & 31 : b > 32 ? 32 : b);

	return v->operation == SHIFT_LEFT ? a * ((__int128)1 << by) : a >> by;
}

static __int128 apply(const struct video *v, __int128 a, __int128 b)
{
	switch (v->operation) {
	case ADD:
		return a + b;
	case SUBTRACT:
		return a - b;
	case DIFFERENCE:
		return a > b ? a - b : b - a;
	case MINIMUM:
		return a < b ? a : b;
	case MAXIMUM:
		return a > b ? a : b;
	case AVERAGE:
		return (a + b + (a + b >= 0)) >> 1;
	case COMPARE:
		return compare(v->comparison, a, b);
	default:
		return shift(v, a, b);
	}
}

static __int128 clamp(__int128 value, int bits, bool is_signed)
{
	__int128 least = is_signed ? -((__int128)1 << (bits - 1)) : 0;
	__int128 most = ((__int128)1 << (bits - is_signed)) - 1;

	return value < least ? least : value > most ? most : value;
}

/* The low bits of a value, signed. */
static __int128 cut(__int128 value, int bits)
{
	return (__int128)((unsigned __int128)value << (128 - bits)) >> (128 - bits);
}

static __int128 wide(uint32_t word, bool is_signed)
{
	return is_signed ? (__int128)(int32_t)word : (__int128)word;
}

/* a * b + c, where at most one of the product and c is negated.  Assembled: all three words are
 * signed, and a sum that should have no sign is shifted as if it had none. */
static uint32_t multiply(const struct video *v, uint32_t a, uint32_t b, uint32_t c)
{
	bool is_signed = v->a_signed || v->b_signed || v->negate_product || v->negate_c;
	int64_t product = (int64_t)(int32_t)a * (int32_t)b;
	int64_t sum = (v->negate_product ? ~product : product) + (int32_t)(v->negate_c ? ~c : c) +
		      (v->plus_one || v->negate_product || v->negate_c);

	sum = is_signed ? sum >> v->scale : (int64_t)((uint64_t)sum >> v->scale);
	return (uint32_t)(v->saturate ? clamp(sum, 32, is_signed) : sum);
}

static uint32_t merge(uint32_t into, const struct selection *d, int i, uint32_t value)
{
	uint32_t ones = d->bits == 32 ? UINT32_MAX : (1u << d->bits) - 1;

	return (into & ~(ones << d->at[i])) | (value & ones) << d->at[i];
}

static bool shifts(const struct video *v)
{
	return v->operation == SHIFT_LEFT || v->operation == SHIFT_RIGHT;
}

/* Assembled: sums, differences and saturated shifts meet c as words, where unsigned ones with the
 * top bit are greater than any c, other results as 64 bits; vset compares c as a. */
static uint32_t second(const struct video *v, __int128 value, uint32_t c)
{
	bool is_signed = v->operation == COMPARE ? v->a_signed : v->d_signed;
	bool word = v->operation == ADD || v->operation == SUBTRACT || (shifts(v) && v->saturate);
	__int128 other = wide(c, is_signed);
	uint32_t result = (uint32_t)value;
	bool less;

	if (v->second == 0)
		return result + c;
	if (word)
		value = wide(result, is_signed);
	else
		value = is_signed ? (__int128)(int64_t)value : (__int128)(uint64_t)value;
	less = value < other && !(word && !is_signed && result >> 31);
	return (v->second == 1) == less ? result : c;
}

/* Assembled: a part takes what is out of its range, below it too, as the greatest value; a sum
 * with c of unsigned words is not bounded above. */
static __int128 saturate(const struct video *v, __int128 value)
{
	__int128 most = ((__int128)1 << (v->d.bits - v->d_signed)) - 1;

	if (shifts(v))
		return clamp(value, 32, v->d_signed);
	if (v->d.bits < 32)
		return value < 0 || value > most ? most : value;
	if (v->second >= 0 && !v->d_signed && value > most)
		return value;
	return clamp(value, 32, v->d_signed);
}

/* One lane; c is 0 where there is none. */
static uint32_t scalar(const struct video *v, uint32_t a, uint32_t b, uint32_t c)
{
	__int128 x = part(&v->a, 0, a, v->a_signed), y = part(&v->b, 0, b, v->b_signed), value;

	if (v->operation == MULTIPLY)
		return multiply(v, (uint32_t)x, (uint32_t)y, c);
	value = apply(v, x, y);
	if (v->saturate)
		value = saturate(v, cut(value, 34));
	if (v->second >= 0)
		return second(v, value, c);
	/* assembled: the upper half takes that of the result */
	return merge(c, &v->d, 0, (uint32_t)(v->d.bits == 16 && v->d.at[0] ? value >> 16 : value));
}

/* Parts that the mask of d names are merged into c, or with .add all added to it. */
static uint32_t parallel(const struct video *v, uint32_t a, uint32_t b, uint32_t c)
{
	uint64_t words = (uint64_t)b << 32 | a;
	uint32_t result = c;

	for (int i = 0; i < v->d.count; i++) {
		int from = v->d.at[i] / v->d.bits;
		__int128 value = apply(v, part(&v->a, from, words, v->a_signed),
				       part(&v->b, from, words, v->b_signed));

		if (v->saturate)
			value = clamp(value, v->d.bits, v->d_signed);
		result = v->second < 0 ? merge(result, &v->d, i, (uint32_t)value)
				       : result + (uint32_t)value;
	}
	return result;
}

static enum emu_step video(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	const struct video *v = ins->extra;

	EMU_FOR_LANES(l, mask)
	{
		uint32_t a = emu_row32(warp, ins->ref[1])[l], b = emu_row32(warp, ins->ref[2])[l];
		uint32_t c = ins->operand_count > 3 ? emu_row32(warp, ins->ref[3])[l] : 0;

		emu_row32(warp, ins->ref[0])[l] = (v->parts == 1 ? scalar : parallel)(v, a, b, c);
	}
	return EMU_NEXT;
}

/* ---- selectors ---------------------------------------------------------------------------------
 */

/* Digits name parts of `bits` bits from the most significant one on; at[] begins with the least. */
static bool select_parts(const char *text, int bits, int limit, int least, int most,
			 struct selection *s)
{
	int count = (int)strlen(text) - 1;

	if (text[0] != (bits == 8 ? 'b' : 'h') || count < least || count > most)
		return false;
	s->bits = (uint8_t)bits;
	s->count = (uint8_t)count;
	for (int i = 0; i < count; i++) {
		int digit = text[count - i] - '0';

		if (digit < 0 || digit >= limit)
			return false;
		s->at[i] = (uint8_t)(digit * bits);
	}
	return true;
}

static bool falls(const struct selection *s)
{
	for (int i = 0; i + 1 < s->count; i++)
		if (s->at[i] >= s->at[i + 1])
			return false;
	return true;
}

static bool select_operand(struct emu_decode *decode, const struct video *v, int i,
			   struct selection *s)
{
	const char *text = decode->ins->operands[i].kind == EMU_O_REGISTER
				   ? decode->ins->operands[i].selector
				   : NULL;
	int bits = 32 / v->parts;

	if (v->parts == 1) {
		*s = (struct selection){.bits = 32, .count = 1};
		if (!text || select_parts(text, 8, 4, 1, 1, s) ||
		    select_parts(text, 16, 2, 1, 1, s))
			return true;
		return emu_reject(decode,
				  "operand %d has the selector .%s; it is .b0 to .b3, .h0 "
				  "or .h1",
				  i + 1, text);
	}
	if (!text)
		text = bits == 8 ? (i == 2 ? "b7654" : "b3210") : i == 2 ? "h32" : "h10";
	if (i == 0 ? select_parts(text, bits, v->parts, 1, v->parts, s) && falls(s)
		   : select_parts(text, bits, 2 * v->parts, v->parts, v->parts, s))
		return true;
	return emu_reject(decode, "operand %d has the selector .%s; it is %s", i + 1, text,
			  i == 0      ? bits == 8 ? ".b and digits from 3 to 0, falling"
						  : ".h0, .h1 or .h10"
			  : bits == 8 ? ".b and four digits from 0 to 7"
				      : ".h and two digits from 0 to 3");
}

/* ---- decoding ----------------------------------------------------------------------------------
 */

static bool take_sign(struct emu_decode *decode, bool *is_signed)
{
	enum emu_type type = emu_take_type(decode);

	*is_signed = type == EMU_T_S32;
	return type == EMU_T_S32 || type == EMU_T_U32 ||
	       emu_reject(decode, "needs types .u32 or .s32");
}

static bool take_types(struct emu_decode *decode, struct video *v)
{
	if (v->operation == COMPARE) {
		v->comparison = emu_take_one(decode, comparisons);
		if (v->comparison < 0)
			return emu_reject(decode, "needs .eq, .ne, .lt, .le, .gt or .ge");
	} else if (!take_sign(decode, &v->d_signed)) {
		return false;
	}
	if (!take_sign(decode, &v->a_signed) || !take_sign(decode, &v->b_signed))
		return false;
	return (v->operation != SHIFT_LEFT && v->operation != SHIFT_RIGHT) || !v->b_signed ||
	       emu_reject(decode, "shifts by .u32");
}

static bool take_modifiers(struct emu_decode *decode, struct video *v)
{
	static const char *const modes[] = {"clamp", "wrap", NULL};
	static const char *const scales[] = {"shr7", "shr15", NULL};
	bool shifts = v->operation == SHIFT_LEFT || v->operation == SHIFT_RIGHT;
	int mode = shifts ? emu_take_one(decode, modes) : 0, scale;

	if (mode < 0)
		return emu_reject(decode, "needs .clamp or .wrap");
	v->wrap = mode == 1;
	v->saturate = v->operation != COMPARE && emu_take(decode, "sat");
	v->second = -1;
	if (v->operation != MULTIPLY) {
		v->second = emu_take_one(decode, seconds);
		if (v->parts > 1 && v->second > 0)
			return emu_reject(decode, "the second operation of parts is .add");
		if (v->parts > 1 && v->second == 0 && v->saturate)
			return emu_reject(decode, "'.sat' does not go with '.add'");
		return v->second != -2;
	}
	v->plus_one = emu_take(decode, "po");
	scale = emu_take_one(decode, scales);
	v->scale = scale < 0 ? 0 : scale == 0 ? 7 : 15;
	return scale != -2;
}

static bool check_operands(struct emu_decode *decode, struct video *v)
{
	const struct emu_operand *o = decode->ins->operands;
	bool merges = o[0].kind == EMU_O_REGISTER && o[0].selector;
	int least = v->parts > 1 || v->operation == MULTIPLY || v->second >= 0 ? 4 : 3;

	if (!emu_want_operands(decode, least, 4))
		return false;
	for (int i = 0; i < decode->ins->operand_count; i++)
		if (!(i && v->parts == 1 ? emu_want_value : emu_want_register)(decode, i, 32))
			return false;
	if (merges && v->parts == 1 && v->operation == MULTIPLY)
		return emu_reject(decode, "the result has no selector");
	if (merges && v->parts == 1 && v->second >= 0)
		return emu_reject(decode, "a selector of the result and a second operation exclude "
					  "each other");
	if (merges && decode->ins->operand_count < 4)
		return emu_reject(decode, "a selector of the result needs a word to merge it into");
	if (decode->ins->operand_count > 3 && o[3].kind == EMU_O_REGISTER && o[3].selector)
		return emu_reject(decode, "operand 4 has no selector");
	return select_operand(decode, v, 0, &v->d) && select_operand(decode, v, 1, &v->a) &&
	       select_operand(decode, v, 2, &v->b);
}

static bool check_signs(struct emu_decode *decode, struct video *v)
{
	const struct emu_operand *o = decode->ins->operands;
	bool negated = false;

	for (int i = 0; i < decode->ins->operand_count; i++)
		negated |= o[i].negated;
	if (v->operation != MULTIPLY)
		return !negated || emu_reject(decode, "operands cannot be negated");
	v->negate_product = o[1].negated != o[2].negated;
	v->negate_c = o[3].negated;
	if (o[0].negated || (v->negate_product && v->negate_c))
		return emu_reject(decode, "either the product or c can be negated");
	return !(v->negate_product || v->negate_c) || !v->plus_one ||
	       emu_reject(decode, "'.po' does not go with a negated operand");
}

static bool decode_video(struct emu_decode *decode)
{
	struct video *v = emu_decode_extra(decode, sizeof *v);
	const char *name = decode->opcode->name;
	size_t length = strlen(name);

	if (!v)
		return false;
	decode->ins->extra = v;
	v->parts = name[length - 1] == '2' ? 2 : name[length - 1] == '4' ? 4 : 1;
	if (v->parts > 1)
		length--;
	while (strncmp(names[v->operation], name, length) || names[v->operation][length])
		v->operation++;
	return take_types(decode, v) && take_modifiers(decode, v) && check_operands(decode, v) &&
	       check_signs(decode, v);
}

static const struct emu_opcode opcodes[] = {
	{"vadd", decode_video, video, 0},      {"vadd2", decode_video, video, 0},
	{"vadd4", decode_video, video, 0},     {"vsub", decode_video, video, 0},
	{"vsub2", decode_video, video, 0},     {"vsub4", decode_video, video, 0},
	{"vabsdiff", decode_video, video, 0},  {"vabsdiff2", decode_video, video, 0},
	{"vabsdiff4", decode_video, video, 0}, {"vmin", decode_video, video, 0},
	{"vmin2", decode_video, video, 0},     {"vmin4", decode_video, video, 0},
	{"vmax", decode_video, video, 0},      {"vmax2", decode_video, video, 0},
	{"vmax4", decode_video, video, 0},     {"vavrg2", decode_video, video, 0},
	{"vavrg4", decode_video, video, 0},    {"vset", decode_video, video, 0},
	{"vset2", decode_video, video, 0},     {"vset4", decode_video, video, 0},
	{"vshl", decode_video, video, 0},      {"vshr", decode_video, video, 0},
	{"vmad", decode_video, video, 0},
};

EMU_OPCODE_TABLE(video, opcodes);

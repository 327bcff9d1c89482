/* Building machine-level instructions: registers, operands, labels. */
#include <stdio.h>
#include <string.h>

#include "compile.h"

void mi_push(struct arena *a, struct ptrvec *v, void *item)
{
	if (v->count == v->capacity) {
		int capacity = v->capacity ? 2 * v->capacity : 16;
		void **grown = tc_arena_alloc(a, sizeof(*grown) * (size_t)capacity);

		if (v->count)
			memcpy(grown, v->item, sizeof(*grown) * (size_t)v->count);
		v->item = grown;
		v->capacity = capacity;
	}
	v->item[v->count++] = item;
}

struct mopnd mo_reg(struct mreg r)
{
	return (struct mopnd){.kind = MO_REG, .reg = r};
}

struct mopnd mo_imm(int64_t i)
{
	return (struct mopnd){.kind = MO_IMM, .imm = i};
}

struct mopnd mo_hex(uint64_t i)
{
	return (struct mopnd){.kind = MO_HEX, .imm = (int64_t)i};
}

struct mopnd mo_f32(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return (struct mopnd){.kind = MO_F32, .imm = bits};
}

struct mopnd mo_mem(struct maddr a, int64_t offset)
{
	a.offset += offset;
	return (struct mopnd){.kind = MO_ADDR, .addr = a};
}

struct mopnd mo_offset(struct msym sym, int64_t offset)
{
	return (struct mopnd){.kind = MO_OFFSET, .addr = {.sym = sym, .offset = offset}};
}

struct mopnd mo_label(int label)
{
	return (struct mopnd){.kind = MO_LABEL, .imm = label};
}

struct mopnd mo_text(const char *text)
{
	return (struct mopnd){.kind = MO_TEXT, .text = text};
}

struct mopnd mo_elect(struct mreg p)
{
	return (struct mopnd){.kind = MO_ELECT, .reg = p};
}

static struct mopnd operand_list(struct low *l, const struct mopnd *operands, int n)
{
	struct mopnd *list = tc_arena_alloc(l->arena, sizeof(*list) * (size_t)(n ? n : 1));

	if (n)
		memcpy(list, operands, sizeof(*list) * (size_t)n);
	return (struct mopnd){.kind = MO_LIST, .list = list, .count = n};
}

struct mopnd mo_list(struct low *l, const struct mreg *regs, int n)
{
	struct mopnd *list = tc_arena_alloc(l->arena, sizeof(*list) * (size_t)(n ? n : 1));

	for (int i = 0; i < n; i++)
		list[i] = mo_reg(regs[i]);
	return (struct mopnd){.kind = MO_LIST, .list = list, .count = n};
}

struct mopnd mo_map(struct low *l, struct mreg map, const struct mopnd *coordinates, int n)
{
	struct mopnd o = operand_list(l, coordinates, n);

	o.kind = MO_MAP;
	o.reg = map;
	return o;
}

static struct minst *append(struct low *l, enum minst_kind kind);

void mi_flush_comment(struct low *l)
{
	const char *text = l->comment;

	l->comment = NULL;
	if (text)
		append(l, MI_COMMENT)->opcode = text;
}

/* What is computed for all roles belongs to no line of the one that asks first. */
static const struct op *cause(const struct low *l)
{
	return l->role && l->scope == l->c->kernel_scope ? NULL : l->op;
}

static struct minst *append(struct low *l, enum minst_kind kind)
{
	struct minst *m = tc_arena_alloc(l->arena, sizeof(*m));

	if (l->comment && !l->away && l->op == l->comment_op && kind != MI_PLACE)
		mi_flush_comment(l);

	m->kind = kind;
	m->op = cause(l);
	m->next = *l->at;
	*l->at = m;
	l->at = &m->next;
	return m;
}

struct minst *mi_emit(struct low *l, const char *opcode, const struct mopnd *operand, int count)
{
	struct minst *m = append(l, MI_OP);

	m->opcode = opcode;
	m->count = count;
	if (count) {
		m->operand = tc_arena_alloc(l->arena, sizeof(*operand) * (size_t)count);
		memcpy(m->operand, operand, sizeof(*operand) * (size_t)count);
	}
	return m;
}

void mi_plain(struct low *l, const char *opcode)
{
	mi_emit(l, opcode, NULL, 0);
}

void mi_guard(struct minst *m, struct mreg p, bool negated)
{
	m->guard = p;
	m->guard_not = negated;
}

struct minst *mi_place(struct low *l)
{
	return append(l, MI_PLACE);
}

int mi_new_label(struct low *l)
{
	mi_push(l->arena, &l->c->labels, NULL);
	return l->c->labels.count - 1;
}

int mi_named_label(struct low *l, const char *fmt, ...)
{
	char text[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mi_push(l->arena, &l->c->labels, tc_arena_strdup(l->arena, text));
	return l->c->labels.count - 1;
}

void mi_label(struct low *l, int label)
{
	append(l, MI_LABEL)->label = label;
}

void mi_raw(struct low *l, const char *text)
{
	append(l, MI_RAW)->opcode = text;
}

void mi_check(struct low *l, struct mreg index, int64_t limit, const char *why)
{
	struct minst *m = append(l, MI_CHECK);

	m->count = 2;
	m->operand = tc_arena_alloc(l->arena, 2 * sizeof(*m->operand));
	m->operand[0] = mo_reg(index);
	m->operand[1] = mo_imm(limit);
	m->opcode = why;
	l->c->has_checks = true;
}

void mi_comment(struct low *l, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	append(l, MI_COMMENT)->opcode = tc_arena_strdup(l->arena, text);
}

struct mreg mi_reg(struct low *l, enum mreg_type type)
{
	return (struct mreg){.type = type, .id = ++l->c->register_count[type], .depth = l->depth};
}

struct mreg mi_pred(struct low *l)
{
	return mi_reg(l, MR_PRED);
}

struct mreg mi_b8(struct low *l)
{
	return mi_reg(l, MR_B8);
}

struct mreg mi_b16(struct low *l)
{
	return mi_reg(l, MR_B16);
}

struct mreg mi_b32(struct low *l)
{
	return mi_reg(l, MR_B32);
}

struct mreg mi_b64(struct low *l)
{
	return mi_reg(l, MR_B64);
}

struct mreg mi_f32(struct low *l)
{
	return mi_reg(l, MR_F32);
}

static bool name_taken(const struct compilation *c, const char *name)
{
	for (int i = 0; i < c->named_registers.count; i++)
		if (!strcmp(((struct mreg *)c->named_registers.item[i])->name, name))
			return true;
	return false;
}

struct mreg mi_named(struct low *l, enum mreg_type type, const char *fmt, ...)
{
	struct mreg *r = tc_arena_alloc(l->arena, sizeof(*r));
	char text[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->type = type;
	r->depth = l->depth;
	r->id = l->c->named_registers.count + 1;
	r->name = tc_arena_strdup(l->arena, text);
	for (int i = 2; name_taken(l->c, r->name); i++)
		r->name = tc_arena_printf(l->arena, "%s_%d", text, i);
	mi_push(l->arena, &l->c->named_registers, r);
	return *r;
}

int mi_string(struct low *l, const char *text)
{
	for (int i = 0; i < l->c->strings.count; i++)
		if (!strcmp(l->c->strings.item[i], text))
			return i;
	mi_push(l->arena, &l->c->strings, tc_arena_strdup(l->arena, text));
	return l->c->strings.count - 1;
}

void mi_add_param(struct low *l, struct param_slot *slot)
{
	mi_push(l->arena, &l->c->params, slot);
}

void mi_require(struct low *l, int version)
{
	if (l->c->version < version)
		l->c->version = version;
}

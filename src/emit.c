/* PTX text: deterministic, one comment a recorded op, and the line table. */
#include <string.h>

#include "compile.h"

static const char *const register_prefix[MR_COUNT] = {
	[MR_PRED] = "p", [MR_B8] = "b",  [MR_B16] = "h", [MR_B32] = "r",
	[MR_B64] = "rd", [MR_F32] = "f", [MR_F64] = "fd"};
static const char *const register_type[MR_COUNT] = {
	[MR_PRED] = ".pred", [MR_B8] = ".b8",   [MR_B16] = ".b16", [MR_B32] = ".b32",
	[MR_B64] = ".b64",   [MR_F32] = ".f32", [MR_F64] = ".f64"};

/* ---- names that are not ours ------------------------------------------------------------ */

/* What the assembler takes, in comments too, and what cannot join lines. */
static bool printable(char c)
{
	return c >= ' ' && c < 127 && c != '\\';
}

static void put_ascii(struct strbuf *b, const char *text)
{
	for (const char *s = text; *s; s++)
		tc_printf(b, printable(*s) ? "%c" : "\\x%02x", (unsigned char)*s);
}

/* ---- operands -------------------------------------------------------------------------- */

static void put_register(struct strbuf *b, struct mreg r)
{
	if (r.name)
		tc_printf(b, "%%%s", r.name);
	else
		tc_printf(b, "%%%s%d", register_prefix[r.type], r.id);
}

static int64_t resolve(const struct compilation *c, struct msym s)
{
	switch (s.kind) {
	case SYM_SMEM:
	case SYM_TMEM:
		return ((const struct alloc *)s.object)->offset;
	case SYM_BARRIER:
		return ((const struct barrier *)s.object)->offset;
	case SYM_SCRATCH:
		return ((const struct role_plan *)s.object)->scratch_offset;
	case SYM_TMEM_SLOT:
		return c->tmem_slot;
	case SYM_TMEM_COLUMNS:
		return c->tmem_columns;
	default:
		return 0;
	}
}

static void put_address(struct compilation *c, struct strbuf *b, const struct maddr *a)
{
	int64_t offset = a->offset + resolve(c, a->sym);
	struct mreg base = a->reg;

	if (!base.id && a->sym.kind != SYM_NONE)
		base = a->sym.kind == SYM_TMEM ? c->tmem : c->smem;
	tc_puts(b, "[");
	put_register(b, base);
	if (offset)
		tc_printf(b, "%s%lld", offset > 0 ? "+" : "", (long long)offset);
	tc_puts(b, "]");
}

static void put_label(struct compilation *c, struct strbuf *b, int label)
{
	const char *name = c->labels.item[label];

	if (name)
		tc_printf(b, "L_%s", name);
	else
		tc_printf(b, "L%d", label);
}

static void put_operand(struct compilation *c, struct strbuf *b, const struct mopnd *o);

static void put_list(struct compilation *c, struct strbuf *b, const struct mopnd *o)
{
	tc_puts(b, "{");
	for (int i = 0; i < o->count; i++) {
		tc_puts(b, i ? ", " : "");
		put_operand(c, b, &o->list[i]);
	}
	tc_puts(b, "}");
}

static void put_operand(struct compilation *c, struct strbuf *b, const struct mopnd *o)
{
	switch (o->kind) {
	case MO_REG:
		tc_puts(b, o->negated ? "!" : "");
		put_register(b, o->reg);
		break;
	case MO_IMM:
		tc_printf(b, "%lld", (long long)o->imm);
		break;
	case MO_HEX:
		tc_printf(b, "0x%llx", (unsigned long long)o->imm);
		break;
	case MO_F32:
		tc_printf(b, "0f%08X", (unsigned)o->imm);
		break;
	case MO_ADDR:
		put_address(c, b, &o->addr);
		break;
	case MO_OFFSET:
		tc_printf(b, "%lld", (long long)(o->addr.offset + resolve(c, o->addr.sym)));
		break;
	case MO_LIST:
		put_list(c, b, o);
		break;
	case MO_LABEL:
		put_label(c, b, (int)o->imm);
		break;
	case MO_TEXT:
		tc_puts(b, o->text);
		break;
	case MO_MAP:
		tc_puts(b, "[");
		put_register(b, o->reg);
		tc_puts(b, ", ");
		put_list(c, b, o);
		tc_puts(b, "]");
		break;
	case MO_ELECT:
		tc_puts(b, "_|");
		put_register(b, o->reg);
		break;
	}
}

static void put_instruction(struct compilation *c, struct strbuf *b, const struct minst *m)
{
	tc_puts(b, "\t");
	if (m->guard.id) {
		tc_puts(b, m->guard_not ? "@!" : "@");
		put_register(b, m->guard);
		tc_puts(b, " ");
	}
	tc_puts(b, m->opcode);
	for (int i = 0; i < m->count; i++) {
		tc_puts(b, i ? ", " : " ");
		put_operand(c, b, &m->operand[i]);
	}
	tc_puts(b, ";\n");
}

/* ---- the line table -------------------------------------------------------------------------- */

struct lines {
	uint32_t line;  /* of the text, from 1 */
	size_t counted; /* bytes of it that are counted */
	struct srcpos at;
	uint32_t checked; /* the last line with a check */
	bool stale;       /* the table speaks of that check */
	int capacity;
	struct ptrvec files; /* const char *: .file directives, with profile */
};

static uint32_t line_number(struct lines *n, const struct strbuf *b)
{
	for (; n->counted < b->length; n->counted++)
		n->line += b->text[n->counted] == '\n';
	return n->line;
}

/* Number of a file's .file directive, from 1. */
static int file_number(struct compilation *c, struct lines *n, const char *file)
{
	for (int i = 0; i < n->files.count; i++)
		if (strcmp(n->files.item[i], file) == 0)
			return i + 1;
	mi_push(c->arena, &n->files, tc_arena_strdup(c->arena, file));
	return n->files.count;
}

static void put_loc(struct compilation *c, struct lines *n, struct strbuf *b, struct srcpos pos)
{
	if (c->kern->profile && pos.file)
		tc_printf(b, "\t.loc %d %d 0\n", file_number(c, n, pos.file), pos.line);
}

static void add_line(struct compilation *c, struct lines *n, struct strbuf *b, struct srcpos pos,
		     const char *note)
{
	struct program *p = c->program;

	if (p->line_count == n->capacity) {
		int capacity = n->capacity ? 2 * n->capacity : 64;
		struct program_line *grown =
			tc_arena_alloc(c->arena, sizeof(*grown) * (size_t)capacity);

		if (p->line_count)
			memcpy(grown, p->lines, sizeof(*grown) * (size_t)p->line_count);
		p->lines = grown;
		n->capacity = capacity;
	}
	p->lines[p->line_count++] =
		(struct program_line){.ptx_line = line_number(n, b),
				      .line = (uint32_t)pos.line,
				      .file = pos.file ? tc_arena_strdup(c->arena, pos.file) : NULL,
				      .note = note ? tc_arena_strdup(c->arena, note) : NULL};
}

static void map_line(struct compilation *c, struct lines *n, struct strbuf *b, const struct op *op)
{
	struct srcpos pos = op ? op->pos : (struct srcpos){0};
	bool same = pos.line == n->at.line && pos.file == n->at.file;

	if (same && !n->stale)
		return;
	if (!same)
		put_loc(c, n, b, pos);
	n->at = pos;
	/* A check's own entry holds for its whole line. */
	if (n->stale && line_number(n, b) == n->checked)
		return;
	n->stale = false;
	add_line(c, n, b, pos, NULL);
}

/* On the line of what comes next.  Checks that share it have a line of its note each. */
static void put_check(struct compilation *c, struct lines *n, struct strbuf *b,
		      const struct minst *m)
{
	struct program *p = c->program;

	tc_puts(b, "{ .reg .pred %outside; setp.ge.u32 %outside, ");
	put_operand(c, b, &m->operand[0]);
	tc_puts(b, ", ");
	put_operand(c, b, &m->operand[1]);
	tc_puts(b, "; @%outside trap; }");
	if (n->stale && line_number(n, b) == n->checked) {
		struct program_line *last = &p->lines[p->line_count - 1];

		last->note = tc_arena_printf(c->arena, "%s\n%s", last->note, m->opcode);
		return;
	}
	n->checked = line_number(n, b);
	n->stale = true;
	add_line(c, n, b, m->op ? m->op->pos : (struct srcpos){0}, m->opcode);
}

/* ---- declarations
 * -------------------------------------------------------------------------------- */

static void put_params(struct compilation *c, struct strbuf *b)
{
	for (int i = 0; i < c->params.count; i++) {
		const struct param_slot *s = c->params.item[i];
		const char *comma = i + 1 < c->params.count ? "," : "";

		if (s->param.kind == PARAM_TENSORMAP)
			tc_printf(b, "\t.param .align 64 .b8 %s[128]%s\n", s->name, comma);
		else
			tc_printf(b, "\t.param %s %s%s\n",
				  s->param.kind == PARAM_DIM ? ".u32" : ".u64", s->name, comma);
	}
}

static void put_string(struct strbuf *b, int number, const char *text)
{
	tc_printf(b, ".global .align 1 .b8 text%d[%zu] = {", number, strlen(text) + 1);
	for (const unsigned char *s = (const unsigned char *)text; *s; s++)
		tc_printf(b, "%u, ", *s);
	tc_puts(b, "0};\n");
}

static void put_header(struct compilation *c, struct strbuf *b)
{
	const struct kern *k = c->kern;
	const struct program *p = c->program;

	tc_puts(b, "// kernel ");
	put_ascii(b, k->name);
	tc_printf(b, " for %s\n.version %d.%d\n.target %s\n.address_size 64\n\n", c->target->name,
		  c->version / 10, c->version % 10, c->target->name);
	tc_puts(b, ".extern .shared .align 1024 .b8 smem[];\n");
	if (c->uses_vprintf)
		tc_puts(b, ".extern .func (.param .b32 result) vprintf (.param .b64 format, "
			   ".param .b64 arguments);\n");
	if (c->uses_assert)
		tc_puts(b, ".extern .func __assertfail (.param .b64 message, .param .b64 file, "
			   ".param .b32 line, .param .b64 function, .param .b64 size);\n"
			   ".visible .global .align 8 .u64 " TC_ASSERT_VARIABLE "[2];\n");
	for (int i = 0; i < c->strings.count; i++)
		put_string(b, i, c->strings.item[i]);
	tc_printf(b, "\n.visible .entry %s(\n", p->entry);
	put_params(c, b);
	tc_printf(b, ")\n.maxntid %u, 1, 1\n.minnctapersm 1\n", p->block[0]);
	if (k->cluster_rank)
		tc_printf(b, ".explicitcluster\n.reqnctapercluster %u, %u, %u\n", p->cluster[0],
			  p->cluster[1], p->cluster[2]);
	tc_puts(b, "{\n");
}

static void put_registers(struct compilation *c, struct strbuf *b)
{
	for (int t = 0; t < MR_COUNT; t++) {
		bool open = false;

		if (c->register_count[t])
			tc_printf(b, "\t.reg %s %%%s<%d>;\n", register_type[t], register_prefix[t],
				  c->register_count[t] + 1);
		for (int i = 0, on_line = 0; i < c->named_registers.count; i++) {
			const struct mreg *r = c->named_registers.item[i];

			if ((int)r->type != t)
				continue;
			if (open && on_line == 6) {
				tc_puts(b, ";\n");
				open = false;
			}
			if (!open) {
				tc_printf(b, "\t.reg %s ", register_type[t]);
				on_line = 0;
			}
			tc_printf(b, "%s%%%s", open ? ", " : "", r->name);
			open = true;
			on_line++;
		}
		if (open)
			tc_puts(b, ";\n");
	}
	if (c->local_bytes)
		tc_printf(b, "\t.local .align 8 .b8 print_arguments[%d];\n", c->local_bytes);
	tc_puts(b, "\n");
}

/* PTX has no escapes in this string. */
static void put_file(struct strbuf *b, int number, const char *name)
{
	tc_printf(b, ".file %d \"", number);
	for (const char *s = name; *s; s++)
		tc_printf(b, "%c", printable(*s) && *s != '"' ? *s : '_');
	tc_puts(b, "\"\n");
}

/* By label: something branches to it. */
static bool *used_labels(struct compilation *c)
{
	bool *used = tc_arena_alloc(c->arena, sizeof(*used) * (size_t)(c->labels.count + 1));

	for (const struct minst *m = c->first; m; m = m->next)
		for (int i = 0; i < m->count; i++)
			if (m->operand[i].kind == MO_LABEL)
				used[m->operand[i].imm] = true;
	return used;
}

void tc_emit(struct compilation *c, struct strbuf *out, bool checked)
{
	struct lines n = {.line = 1};
	const bool *used = used_labels(c);

	put_header(c, out);
	put_registers(c, out);
	for (const struct minst *m = c->first; m; m = m->next) {
		switch (m->kind) {
		case MI_OP:
			map_line(c, &n, out, m->op);
			put_instruction(c, out, m);
			break;
		case MI_LABEL:
			if (used[m->label]) {
				put_label(c, out, m->label);
				tc_puts(out, ":\n");
			}
			break;
		case MI_COMMENT:
			tc_puts(out, "\t// ");
			put_ascii(out, m->opcode);
			tc_puts(out, "\n");
			break;
		case MI_RAW:
			tc_printf(out, *m->opcode ? "\t%s\n" : "%s\n", m->opcode);
			break;
		case MI_CHECK:
			if (checked)
				put_check(c, &n, out, m);
			break;
		case MI_PLACE:
			break;
		}
	}
	tc_puts(out, "}\n");
	for (int i = 0; i < n.files.count; i++)
		put_file(out, i + 1, n.files.item[i]);
}

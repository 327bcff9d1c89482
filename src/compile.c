/* The passes in order; a program owns what they make. */
#include <stdlib.h>
#include <string.h>

#include "compile.h"

void tc_program_free(struct program *p)
{
	if (!p)
		return;
	tc_arena_free(&p->arena);
	free(p);
}

static uint32_t cluster_size(const struct kern *k, int cuda_axis)
{
	int axis = k->cluster_rank - 1 - cuda_axis;

	return axis >= 0 && k->cluster[axis] > 0 ? (uint32_t)k->cluster[axis] : 1;
}

/* Folding divides by the sizes of the axes. */
static void check_grid(struct compilation *c)
{
	for (int i = 0; i < c->kern->grid_rank; i++)
		if (c->kern->grid[i] < 0 && tc_grid_folded(c->kern))
			tc_fail_at(c->err, c->kern->pos,
				   "the grid has %d axes; CUDA has three, and more need sizes that "
				   "are known when the kernel is recorded (axis %d has not)",
				   c->kern->grid_rank, i);
}

static void begin(struct compilation *c)
{
	struct program *p = c->program;
	struct low names = {.arena = c->arena};

	check_grid(c);
	c->version = (c->target->ptx_version[0] - '0') * 10 + (c->target->ptx_version[2] - '0');
	p->target = c->target;
	p->entry = tc_ptx_identifier(&names, c->kern->name);
	if ((*p->entry >= '0' && *p->entry <= '9') || !strcmp(p->entry, "smem") ||
	    !strcmp(p->entry, "vprintf") || !strcmp(p->entry, TC_ASSERT_VARIABLE))
		p->entry = tc_arena_printf(c->arena, "kernel_%s", p->entry);
	for (int i = 0; i < 3; i++)
		p->cluster[i] = cluster_size(c->kern, i);
}

/* The second emission gives the program other lines. */
static void add_checks(struct compilation *c)
{
	struct program *p = c->program;
	struct program_text *t = tc_arena_alloc(c->arena, sizeof(*t));
	struct program_line *lines = p->lines;
	struct strbuf text = {.arena = c->arena};
	int count = p->line_count;

	p->line_count = 0;
	p->lines = NULL;
	tc_emit(c, &text, true);
	*t = (struct program_text){text.text, text.length, p->line_count, p->lines};
	p->line_count = count;
	p->lines = lines;
	p->checked = t;
}

static void name_programs(struct compilation *c)
{
	struct program *p = c->program;

	p->profile_programs = c->role_count;
	p->profile_names =
		tc_arena_alloc(&p->arena, (size_t)c->role_count * sizeof *p->profile_names);
	for (int i = 0; i < c->role_count; i++)
		p->profile_names[c->roles[i].index] = c->roles[i].name;
}

static void finish(struct compilation *c, struct strbuf *text)
{
	struct program *p = c->program;
	struct strbuf info = {.arena = c->arena};

	p->ptx = tc_arena_strdup(c->arena, text->text);
	p->ptx_length = text->length;
	p->param_count = c->params.count;
	p->params = tc_arena_alloc(c->arena, sizeof(*p->params) * (size_t)(c->params.count + 1));
	for (int i = 0; i < c->params.count; i++)
		p->params[i] = ((struct param_slot *)c->params.item[i])->param;
	p->info.threads = 32 * c->warps;
	p->info.warps = c->warps;
	if (c->kern->profile)
		name_programs(c);
	p->info.smem_bytes = c->smem_bytes;
	p->info.tmem_columns = c->tmem_columns;
	p->info.barrier_count = c->kern->barriers.count;
	for (int i = 0; i < c->role_count; i++)
		if (c->roles[i].class_barrier > p->info.named_barriers)
			p->info.named_barriers = c->roles[i].class_barrier;
	tc_dump_roles(&info, c);
	tc_dump_place(&info, c);
	p->info.text = tc_arena_strdup(c->arena, info.text ? info.text : "");
	tc_strbuf_free(&info);
}

struct build {
	struct compilation c;
	struct strbuf text;
	void (*done)(struct compilation *c, void *arg); /* after place; NULL */
	void *arg;
};

static void build(void *arg)
{
	struct build *b = arg;
	struct compilation *c = &b->c;

	begin(c);
	tc_verify(c->kern, c->target);
	if (c->target->ops->classes)
		c->target->ops->classes(c);
	tc_roles(c);
	if (c->target->ops->registers)
		c->target->ops->registers(c);
	c->program->block[0] = 32 * (uint32_t)c->warps;
	c->program->block[1] = c->program->block[2] = 1;
	tc_lower(c);
	tc_place(c);
	c->program->smem = (uint32_t)c->smem_bytes;
	if (b->done) {
		b->done(c, b->arg);
		return;
	}
	tc_lints(c);
	tc_program_causes(c);
	tc_emit(c, &b->text, false);
	finish(c, &b->text);
	if (c->has_checks)
		add_checks(c);
}

/* NULL: failed, and the kernel's err says why. */
static struct program *run(struct kern *k, const struct target *t,
			   void (*done)(struct compilation *c, void *arg), void *arg)
{
	struct program *p = calloc(1, sizeof(*p));
	struct build b = {.done = done, .arg = arg};
	bool fine;

	if (!p)
		tc_fail(&k->err, "out of memory");
	b.c = (struct compilation){
		.kern = k, .target = t, .program = p, .arena = &p->arena, .err = &k->err};
	fine = tc_protect(&k->err, build, &b);
	tc_strbuf_free(&b.text);
	if (!fine) {
		tc_program_free(p);
		p = NULL;
	}
	return p;
}

/* Hands the failure of an inner protection on to the one around it. */
static _Noreturn void again(struct kern *k)
{
	if (!k->err.jump)
		abort();
	longjmp(*k->err.jump, 1);
}

struct program *tc_compile(struct kern *k, const struct target *t)
{
	struct program *p = run(k, t, NULL, NULL);

	if (!p)
		again(k);
	return p;
}

struct dump {
	struct strbuf *out;
	const char *pass;
};

static void dump(struct compilation *c, void *arg)
{
	struct dump *d = arg;

	if (strcmp(d->pass, "roles") == 0)
		tc_dump_roles(d->out, c);
	else if (strcmp(d->pass, "place") == 0)
		tc_dump_place(d->out, c);
	else
		tc_emit(c, d->out, false);
}

void tc_dump(struct strbuf *b, struct kern *k, const struct target *t, const char *pass)
{
	static const char *const passes[] = {"record", "roles", "lower", "place"};
	struct dump d = {b, pass};
	struct program *p;

	if (strcmp(pass, "record") == 0) {
		tc_print_ops(b, k);
		return;
	}
	for (int i = 1; i < 4; i++) {
		if (strcmp(pass, passes[i]) != 0)
			continue;
		p = run(k, t, dump, &d);
		if (!p)
			again(k);
		tc_program_free(p);
		return;
	}
	tc_fail(&k->err, "there is no pass '%s': record, roles, lower and place can be shown",
		pass);
}

/*
 * Registers of classes: whether tensor memory fits in what a thread can have (rule c
 * of docs/semantics.md 8), and how setmaxnreg moves registers from the roles that only issue
 * copies to those that hold accumulators.
 */
#include "classes.h"

enum {
	OTHER_REGISTERS = 32,  /* addresses, counters, descriptors: the least */
	ROOM_REGISTERS = 40,   /* the same where an issuer can do with fewer */
	ISSUER_REGISTERS = 40, /* of roles of one warp */
	LEAST_REGISTERS = 24,  /* that setmaxnreg takes */
	SCALAR_REGISTERS = 24, /* of a class beside accumulators and fragments */
	MOST_REGISTERS = 240
};

struct pool {
	int threads, launched; /* of the block; registers of each at its start */
	int issuers;           /* threads in warpgroups of one-warp roles */
	bool other_groups;     /* roles of warpgroups that are in no class */
	bool given;            /* set_max_registers */
	int classes;
};

static struct pool pool_of(const struct compilation *c)
{
	struct pool p = {.threads = 32 * c->warps};
	int first = c->warps;

	p.launched = tc_launched_registers(c);
	for (int i = 0; i < c->role_count; i++) {
		const struct role_plan *r = &c->roles[i];

		p.classes += r->class != NULL;
		p.other_groups |= !r->class && r->warps > 1;
		for (int j = 0; j < c->kern->roles.count; j++)
			if (((struct role *)c->kern->roles.item[j])->max_registers)
				p.given = true;
		if (r->warps == 1 && r->first_warp < first)
			first = r->first_warp;
	}
	p.issuers = 32 * (c->warps - first);
	return p;
}

/* What setmaxnreg can give a thread of the class; without issuers what it starts with. */
static int most_registers(const struct pool *p, int clones, int issuer)
{
	int left, most;

	if (p->classes != 1 || p->other_groups || !p->issuers)
		return p->launched;
	left = p->launched * p->threads - issuer * p->issuers;
	most = left / (128 * clones) / 8 * 8;
	return most > MOST_REGISTERS ? MOST_REGISTERS : most;
}

/* ---- what a class needs -------------------------------------------------------------------- */

static int tmem_words(const struct virtual_tmem *v)
{
	int words = 0;

	for (int i = 0; i < v->slots; i++)
		words += v->used[i] ? v->words : 0;
	return words;
}

static int union_words(const struct class_plan *class, const struct alias_set *set)
{
	int most = 0;

	for (int m = 0; m < set->member_count; m++) {
		int sum = 0;

		for (int i = 0; i < class->tmem_count; i++) {
			const struct alloc *a = class->tmem[i].alloc;

			if (a->alias == set && a->alias_member == m)
				sum += tmem_words(&class->tmem[i]);
		}
		most = sum > most ? sum : most;
	}
	return most;
}

/* Members of a union are live at different times: the largest one counts. */
static int class_words(const struct compilation *c, const struct class_plan *class)
{
	int total = 0;

	for (int i = 0; i < class->tmem_count; i++)
		if (!class->tmem[i].alloc->alias)
			total += tmem_words(&class->tmem[i]);
	for (int s = 0; s < c->kern->aliases.count; s++)
		total += union_words(class, c->kern->aliases.item[s]);
	return total;
}

struct widest {
	const struct class_plan *class;
	int words;
};

static void look_at_fragment(void *arg, const struct op *op)
{
	struct widest *w = arg;
	const struct frag *f = op->kind == OP_FRAG_ELEMENTWISE ? op->u.elementwise.result
			       : op->kind == OP_FRAG_CAST      ? op->u.cast.result
			       : op->kind == OP_LOAD           ? op->u.load.result
			       : op->kind == OP_ASYNC_LOAD_TMEM && w->class->copied[op->id]
				       ? op->u.load.result
				       : NULL;
	int64_t elements;

	if (!f || f->rank != 2)
		return;
	elements = (int64_t)f->shape[0] * f->shape[1] / 128;
	if (f->shape[0] == 64 * w->class->clones)
		elements /= w->class->clones;
	elements = elements * tc_dtypes[f->dtype].bits / 32;
	if (elements > w->words)
		w->words = (int)elements;
}

/* ---- rule (c) ----------------------------------------------------------------------------------
 */

static int at_most(int a, int b)
{
	return a < b ? a : b;
}

static int at_least(int a, int b)
{
	return a > b ? a : b;
}

/* Registers that rule (c) allows a thread. */
static int limit(int clones)
{
	return clones <= 2 ? MOST_REGISTERS : clones == 3 ? 160 : 120;
}

static void check_words(struct compilation *c, const struct class_plan *class, int words, int most)
{
	const char *list = "";

	most = at_most(most, limit(class->clones)) - OTHER_REGISTERS;
	if (words <= most)
		return;
	for (int i = 0; i < class->tmem_count; i++) {
		struct alloc *a = (struct alloc *)class->tmem[i].alloc;

		list = tc_arena_printf(c->arena, "%s\n  %d: %s", list, tmem_words(&class->tmem[i]),
				       tc_ref_text(c->kern, tc_ref_whole(c->kern, a)));
	}
	tc_class_refuse(c, class->first, 'c',
			tc_arena_printf(c->arena,
					"tensor memory takes %d registers of each thread of %d "
					"warpgroup%s; %d are to be had:%s",
					words, class->clones, class->clones == 1 ? "" : "s", most,
					list),
			tc_arena_printf(c->arena,
					"accumulators and A operands of %d columns of 32 bits in "
					"all; slots of one allocation that a recorded index names "
					"count once",
					2 * most));
}

/* ---- setmaxnreg
 * ---------------------------------------------------------------------------------- */

/* Asking for more than the block was launched with never comes back. */
static void check_pool(struct compilation *c, const struct pool *p)
{
	const struct role *setter = NULL;
	int asked = 0;

	for (int i = 0; i < c->kern->roles.count; i++) {
		const struct role *r = c->kern->roles.item[i];

		setter = r->max_registers ? r : setter;
	}
	for (int g = 0; g < c->warps / 4; g++) {
		int count = tc_group_registers(c, g);

		asked += 128 * (count ? count : p->launched);
	}
	if (setter && asked > p->threads * p->launched)
		tc_documented_at(c->err, setter->pos, REGISTERS_POOL,
				 tc_arena_printf(c->arena,
						 "\n  %d threads, each launched with %d registers",
						 p->threads, p->launched),
				 tc_integer_text(c->kern, asked),
				 tc_integer_text(c->kern, p->threads * p->launched));
}

static void move_registers(struct compilation *c, const struct pool *p, int clones, int words)
{
	static const int issuer[] = {ISSUER_REGISTERS, 32, LEAST_REGISTERS};
	int i = 0;

	while (i < 2 && words + ROOM_REGISTERS > most_registers(p, clones, issuer[i]))
		i++;
	for (int j = 0; j < c->role_count; j++)
		c->roles[j].max_registers =
			c->roles[j].class ? most_registers(p, clones, issuer[i]) : issuer[i];
}

void tc_class_registers(struct compilation *c)
{
	struct pool p = pool_of(c);

	for (int i = 0; i < c->role_count; i++) {
		struct class_plan *class = c->roles[i].class;
		struct widest w = {class, 0};
		int words, most;

		if (!class)
			continue;
		words = class->words = class_words(c, class);
		most = p.given ? MOST_REGISTERS
			       : most_registers(&p, class->clones, LEAST_REGISTERS);
		check_words(c, class, words, most);
		tc_class_walk(c, class, look_at_fragment, &w);
		if (!p.given && most > p.launched &&
		    words + at_least(w.words + SCALAR_REGISTERS, TC_MMA_REGISTERS) > p.launched)
			move_registers(c, &p, class->clones, words);
	}
	if (p.classes)
		check_pool(c, &p);
}

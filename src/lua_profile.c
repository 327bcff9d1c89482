/* kernel:profile: from the times that a kernel wrote to the slices of a trace. */
#include "compile.h"
#include "lua_dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct profile {
	const struct program *program;
	struct kern *kern;
	const struct op **ops; /* by id */
	const struct tc_profile_part *parts;
	const uint32_t *grid;
	uint64_t start;      /* nanoseconds: the first part's beginning */
	double us_per_clock; /* at the device's nominal clock */
	struct trace *trace;
};

/* ---- ops --------------------------------------------------------------------------------------
 */

static void list_ops(struct profile *p, const struct scope *s)
{
	for (const struct op *o = s->first; o; o = o->next) {
		const struct scope *body[2];

		if (o->id < p->kern->op_count)
			p->ops[o->id] = o;
		for (int i = tc_op_bodies(o, body) - 1; i >= 0; i--)
			list_ops(p, body[i]);
	}
}

/* ---- slices -----------------------------------------------------------------------------------
 */

/* The timer may move in steps of a microsecond: where a part is short, the nominal clock is better.
 */
static double us_per_clock(const struct profile *p, const struct tc_profile_part *part)
{
	double span = (double)(uint32_t)(part->clock[1] - part->clock[0]);
	double us = (double)(part->timer[1] - part->timer[0]) * 1e-3;

	return us >= 100 && span > 0 ? us / span : p->us_per_clock;
}

/* "line 41: arithmetic", or "lines 41 to 46" of a run of it. */
static void name_computing(const struct op *first, char *name, size_t size)
{
	const struct scope *body[2];
	int from = first->pos.line, to = from;

	for (const struct op *o = first; o; o = o->next) {
		if (tc_profile_is_event(o->kind) || tc_op_bodies(o, body))
			break;
		if (!tc_profile_computes(o->kind))
			continue;
		from = o->pos.line < from ? o->pos.line : from;
		to = o->pos.line > to ? o->pos.line : to;
	}
	if (from == to)
		snprintf(name, size, "line %d: arithmetic", from);
	else
		snprintf(name, size, "lines %d to %d: arithmetic", from, to);
}

static void add(struct profile *p, const struct tc_profile_part *part, int number, uint32_t from,
		uint32_t to, uint32_t what)
{
	double per_clock = us_per_clock(p, part);
	int program = number % p->program->profile_programs;
	uint32_t cta = (uint32_t)(number / p->program->profile_programs);
	struct emu_trace_event e = {.track = p->program->profile_names[program],
				    .track_number = (uint32_t)program,
				    .kind = "line"};
	const struct op *o = p->ops[what & ~TC_PROFILE_AFTER];
	char name[160];

	if (what & TC_PROFILE_AFTER || !o)
		return;
	e.cta[0] = cta % p->grid[0];
	e.cta[1] = cta / p->grid[0] % p->grid[1];
	e.cta[2] = cta / p->grid[0] / p->grid[1];
	if (tc_profile_computes(o->kind))
		name_computing(o, name, sizeof name);
	else
		snprintf(name, sizeof name, "line %d: %s", o->pos.line, tc_op_name(o));
	if (o->kind == OP_BARRIER_WAIT) {
		const struct barrier *b = o->u.wait.barrier.barrier;

		e.kind = "wait";
		if (b->name)
			snprintf(name, sizeof name, "wait %s", b->name);
		else
			snprintf(name, sizeof name, "wait barrier%d", b->id);
	}
	e.name = name;
	e.start = (double)(part->timer[0] - p->start) * 1e-3 +
		  (double)(uint32_t)(from - part->clock[0]) * per_clock;
	e.duration = (double)(uint32_t)(to - from) * per_clock;
	tc_trace_add(p->trace, &e);
}

/* Each op until the next event of its role. */
static void add_part(struct profile *p, int number)
{
	const struct tc_profile_part *part = &p->parts[number];
	uint32_t count = part->events < TC_PROFILE_EVENTS ? part->events : TC_PROFILE_EVENTS;

	for (uint32_t i = 0; i < count; i++)
		if ((part->event[i].op & ~TC_PROFILE_AFTER) < (uint32_t)p->kern->op_count)
			add(p, part, number, part->event[i].clock,
			    i + 1 < count ? part->event[i + 1].clock : part->clock[1],
			    part->event[i].op);
}

static int part_count(const struct run *r, const struct program *p)
{
	uint64_t ctas = (uint64_t)r->launch.grid[0] * r->launch.grid[1] * r->launch.grid[2];

	return (int)(ctas < TC_PROFILE_CTAS ? ctas : TC_PROFILE_CTAS) * p->profile_programs;
}

static bool make_trace(struct profile *p, int parts)
{
	p->ops = calloc((size_t)p->kern->op_count + 1, sizeof *p->ops);
	p->trace = tc_trace_new();
	if (!p->ops || !p->trace)
		return false;
	list_ops(p, p->kern->root);
	p->start = UINT64_MAX;
	for (int i = 0; i < parts; i++)
		if (p->parts[i].timer[0] && p->parts[i].timer[0] < p->start)
			p->start = p->parts[i].timer[0];
	for (int i = 0; i < parts; i++)
		if (p->parts[i].timer[0])
			add_part(p, i);
	return true;
}

/* ---- the run ----------------------------------------------------------------------------------
 */

/* Runs with a buffer on the device, whose bytes `parts` gets. */
static bool run_with_buffer(struct device *d, struct run *r, int param, uint64_t bytes,
			    struct tc_profile_part *parts, struct err *e)
{
	uint64_t address = d->ops->alloc(d, bytes, "profile", e);

	if (!address)
		return false;
	memcpy(r->params[param].bytes, &address, sizeof address);
	bool ok = d->ops->write(d, address, parts, bytes, e) && tc_run(d, r, e) &&
		  d->ops->synchronize(d, e) && d->ops->read(d, parts, address, bytes, e);
	d->ops->release(d, address);
	return ok;
}

int tc_kernel_profile(lua_State *L, struct run *r, struct device *d, const struct program *program)
{
	struct err e = {0};
	struct profile p = {
		.program = program, .kern = tc_check_kernel(L, 1), .grid = r->launch.grid};
	int parts = part_count(r, program), param = 0;
	uint64_t bytes = (uint64_t)parts * sizeof(struct tc_profile_part);

	if (tc_device_is_emulator(d)) {
		r->options.mode = "check";
		tc_trace_begin(L, r);
		if (!tc_run_report(L, d, r, &e))
			return tc_raise_program(L, program, &e);
		return 1;
	}
	struct tc_profile_part *buffer = lua_newuserdatauv(L, bytes, 0);
	for (int i = 0; i < program->param_count; i++)
		if (r->arrays[i])
			tc_check_live(L, r->arrays[i]);
	memset(buffer, 0, bytes);
	p.parts = buffer;
	while (program->params[param].kind != PARAM_PROFILE)
		param++;
	if (!run_with_buffer(d, r, param, bytes, buffer, &e)) {
		if (e.kind == ERR_ENVIRONMENT)
			return tc_fail_device(L, &e);
		return tc_raise_program(L, program, &e);
	}
	struct device_properties properties = {0};
	d->ops->properties(d, &properties);
	p.us_per_clock = properties.clock_khz > 0 ? 1e3 / properties.clock_khz : 1e-3;
	bool ok = make_trace(&p, parts);
	free(p.ops);
	/* The run's finalizer frees it, also where what follows fails. */
	r->trace = p.trace;
	if (!ok)
		return tc_error(L, "not enough memory");
	tc_push_report(L, d, r);
	return 1;
}

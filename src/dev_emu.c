/* The emulator as a device: memory, launches, and its reports as error messages. */
#include "dev.h"
#include "emu/emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct emulator {
	struct emu *emu;
};

static struct emu *machine(struct device *d)
{
	return ((struct emulator *)d->state)->emu;
}

/* ---- memory -------------------------------------------------------------- */

static uint64_t alloc(struct device *d, uint64_t bytes, const char *name, struct err *e)
{
	struct emu_error why = {0};
	uint64_t address = emu_alloc(machine(d), bytes, name, &why);

	if (!address)
		tc_dev_fail(e, ERR_MEMORY, NULL, "%s: out of memory for %llu bytes: %s", d->name,
			    (unsigned long long)bytes, why.text);
	return address;
}

static void release(struct device *d, uint64_t address)
{
	emu_release(machine(d), address);
}

static bool copy_out(struct device *d, void *dst, uint64_t src, uint64_t bytes, struct err *e)
{
	struct emu_error why = {0};

	return emu_read(machine(d), dst, src, bytes, &why) ||
	       tc_dev_fail(e, ERR_USER, NULL, "%s: %s", d->name, why.text);
}

static bool copy_in(struct device *d, uint64_t dst, const void *src, uint64_t bytes, struct err *e)
{
	struct emu_error why = {0};

	return emu_write(machine(d), dst, src, bytes, &why) ||
	       tc_dev_fail(e, ERR_USER, NULL, "%s: %s", d->name, why.text);
}

static void *host(struct device *d, uint64_t address, uint64_t bytes)
{
	return emu_host(machine(d), address, bytes);
}

/* ---- what the emulator calls while it runs ------------------------------- */

static bool interrupted(void *context)
{
	(void)context;
	return tc_interrupt_seen();
}

static void show_progress(void *context, uint64_t instructions, uint64_t ctas)
{
	tc_progress_show(context, instructions, ctas);
}

/* ---- reports ------------------------------------------------------------- */

static void print_to_stdout(void *context, const char *text, size_t length)
{
	(void)context;
	fwrite(text, 1, length, stdout);
}

struct text {
	char *at;
	size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(t->at + t->length, t->size - t->length, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->length += (size_t)n < t->size - t->length ? (size_t)n : t->size - t->length - 1;
}

/* Line `number` of a text without its indentation; NULL: there is none. */
static const char *line_of(const char *text, uint32_t number, size_t *length)
{
	while (text && number-- > 1) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	if (!text || !*text)
		return NULL;
	text += strspn(text, " \t");
	*length = strcspn(text, "\r\n");
	return text;
}

const char *tc_source_line(const struct launch *l, const struct emu_position *at, size_t *length)
{
	while (at && at->file && l->source && strcmp(at->file, l->source_name) != 0)
		at = at->inlined_at;
	return at && at->file ? line_of(l->source, at->line, length) : NULL;
}

static void add_line(struct text *t, const char *line, size_t length)
{
	if (line)
		add(t, "\n      %.*s", (int)(length < 200 ? length : 200), line);
}

static void add_ptx_line(struct text *t, const char *ptx, uint32_t number)
{
	size_t length = 0;
	const char *line = line_of(ptx, number, &length);

	add_line(t, line, length);
}

static void add_position(struct text *t, const struct launch *l, const char *what,
			 const struct emu_position *at)
{
	size_t length = 0;
	const char *line = tc_source_line(l, at, &length);
	char position[2000];

	emu_position_text(at, position, sizeof position);
	add(t, "\n    %s %s", what, position);
	add_line(t, line, length);
}

static void add_hazard(struct text *t, const struct launch *l, const struct emu_hazard *h)
{
	add(t, "\n  [%s] %s", h->rule, h->message);
	add(t, "\n    at CTA (%u, %u, %u), warp %d", h->cta[0], h->cta[1], h->cta[2], h->warp);
	if (h->role)
		add(t, " (role '%s')", h->role);
	if (h->count > 1)
		add(t, ", %llu times", (unsigned long long)h->count);
	/* A check of an index stands on the line of what comes next. */
	if (h->ptx_line && strcmp(h->rule, "index-out-of-bounds")) {
		add(t, "\n    PTX line %u", h->ptx_line);
		add_ptx_line(t, l->ptx, h->ptx_line);
	}
	if (h->at.file)
		add_position(t, l, l->line_count ? "recorded at" : "source", &h->at);
	/* The message names its line; what stands there is known of foreign code alone. */
	if (h->other.file && l->source)
		add_position(t, l, "the earlier one", &h->other);
}

/* True when a hazard of kind error stands in the report; e then has all of them as text. */
static bool has_errors(const struct device *d, const struct launch *l, const struct emu_report *r,
		       struct err *e)
{
	int count = 0;
	char buffer[sizeof e->text];
	struct text t = {.at = buffer, .size = sizeof buffer};

	for (int i = 0; i < r->hazard_count; i++)
		count += r->hazards[i].severity == EMU_ERROR;
	if (!count && r->completed)
		return false;
	add(&t, "kernel '%s' failed on %s", l->name, d->name);
	if (!count)
		add(&t, ": it was stopped before its end");
	for (int i = 0; i < r->hazard_count; i++)
		if (r->hazards[i].severity == EMU_ERROR)
			add_hazard(&t, l, &r->hazards[i]);
	for (const struct program_lint *lint = l->lints; lint; lint = lint->next) {
		add(&t, "\n  lint [%s] %s", lint->rule, lint->message);
		if (lint->file)
			add(&t, "\n    recorded at %s:%u", lint->file, lint->line);
	}
	tc_dev_fail(e, ERR_USER, "hazard", "%s", buffer);
	return true;
}

/* ---- launch -------------------------------------------------------------- */

static struct emu_module *load(struct device *d, const struct launch *l, struct err *e)
{
	struct emu_error why = {0};

	if (*l->cache)
		return *l->cache;
	*l->cache = emu_module_load(machine(d), l->checked ? l->checked->ptx : l->ptx,
				    l->checked ? l->checked->length : l->ptx_length, &why);
	if (!*l->cache) {
		char line[512] = "";
		struct text t = {.at = line, .size = sizeof line};
		if (why.line > 0)
			add_ptx_line(&t, l->ptx, (uint32_t)why.line);
		tc_dev_fail(e, ERR_USER, "ptx-rejected",
			    "the emulator refuses the PTX of '%s': %s%s", l->name, why.text, line);
	}
	return *l->cache;
}

struct converted {
	const void **params;
	uint32_t *sizes;
	uint8_t (*maps)[128];
	struct emu_symbol *symbols;
	struct emu_source_line *lines;
	struct emu_hint *hints;
};

static void converted_free(struct converted *c)
{
	free(c->params);
	free(c->sizes);
	free(c->maps);
	free(c->symbols);
	free(c->lines);
	free(c->hints);
}

/* Of all kernels that were recorded. */
static const struct emu_hint hints[] = {
#define HINT(rule_name, fix) {.rule = rule_name, .text = fix},
#include "hints.def"
#undef HINT
};
#define HINTS ((int)(sizeof hints / sizeof *hints))

static int line_count(const struct launch *l)
{
	return l->checked ? l->checked->line_count : l->line_count;
}

static bool converted_new(struct converted *c, const struct launch *l)
{
	size_t n = (size_t)l->param_count + 1;

	c->params = calloc(n, sizeof *c->params);
	c->sizes = calloc(n, sizeof *c->sizes);
	c->maps = calloc(n, sizeof *c->maps);
	c->symbols = calloc((size_t)l->symbol_count + 1, sizeof *c->symbols);
	c->lines = calloc((size_t)line_count(l) + 1, sizeof *c->lines);
	c->hints = calloc((size_t)l->hint_count + HINTS, sizeof *c->hints);
	return c->params && c->sizes && c->maps && c->symbols && c->lines && c->hints;
}

static bool encode(const struct tensormap *m, int target, uint8_t out[128], int number,
		   struct err *e)
{
	struct emu_error why = {0};
	struct emu_tensormap map = {.type = m->type,
				    .rank = m->rank,
				    .address = m->address,
				    .interleave = m->interleave,
				    .swizzle = m->swizzle,
				    .l2_promotion = m->l2_promotion,
				    .oob_fill = m->oob_fill,
				    .mode = m->mode,
				    .channels = m->channels,
				    .pixels = m->pixels};

	memcpy(map.dims, m->dims, sizeof map.dims);
	memcpy(map.strides, m->strides, sizeof map.strides);
	memcpy(map.box, m->box, sizeof map.box);
	memcpy(map.element_strides, m->element_strides, sizeof map.element_strides);
	memcpy(map.lower, m->lower, sizeof map.lower);
	memcpy(map.upper, m->upper, sizeof map.upper);
	return emu_tensormap_encode(&map, target, out, &why) ||
	       tc_dev_fail(e, ERR_USER, NULL, "tensor map of parameter %d: %s", number + 1,
			   why.text);
}

static bool convert(struct converted *c, const struct emu_module *m, const struct launch *l,
		    struct err *e)
{
	if (!converted_new(c, l))
		return tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for the launch of '%s'",
				   l->name);
	for (int i = 0; i < l->param_count; i++) {
		const struct launch_param *p = &l->params[i];
		c->params[i] = p->is_tensormap ? c->maps[i] : p->large ? p->large : p->bytes;
		c->sizes[i] = p->is_tensormap ? sizeof c->maps[i] : p->size;
		if (p->is_tensormap && !encode(&p->map, emu_module_target(m), c->maps[i], i, e))
			return false;
	}
	for (int i = 0; i < l->symbol_count; i++)
		c->symbols[i] = (struct emu_symbol){.space = l->symbols[i].space,
						    .address = l->symbols[i].address,
						    .size = l->symbols[i].size,
						    .name = l->symbols[i].name,
						    .file = l->symbols[i].file,
						    .line = l->symbols[i].line,
						    .note = l->symbols[i].note};
	for (int i = 0; i < line_count(l); i++) {
		const struct program_line *at = l->checked ? &l->checked->lines[i] : &l->lines[i];

		c->lines[i] = (struct emu_source_line){.ptx_line = at->ptx_line,
						       .line = at->line,
						       .file = at->file,
						       .note = at->note};
	}
	for (int i = 0; i < l->hint_count; i++) {
		const struct program_hint *h = &l->hints[i];

		c->hints[i] = (struct emu_hint){.rule = h->rule,
						.text = h->text,
						.file = h->file,
						.other_file = h->other_file,
						.line = h->line,
						.other_line = h->other_line,
						.consequence = h->consequence};
	}
	memcpy(c->hints + l->hint_count, hints, sizeof hints);
	return true;
}

/* Only the recorder's text has lines. */
static void set_hints(struct emu_launch *run, const struct converted *c, const struct launch *l)
{
	if (!run->line_count)
		return;
	run->hints = c->hints;
	run->hint_count = l->hint_count + HINTS;
}

static enum emu_mode mode_of(const char *name)
{
	if (!name)
		name = tc_config_string(CONFIG_emulator_mode);
	return !strcmp(name, "check") ? EMU_CHECK : !strcmp(name, "random") ? EMU_RANDOM : EMU_FAST;
}

static void set_options(struct emu_launch *run, const struct run_options *o)
{
	static const struct run_options none;

	if (!o)
		o = &none;
	run->mode = mode_of(o->mode);
	run->numerics = run->mode == EMU_FAST ? EMU_F32 : EMU_HARDWARE;
	if (o->numerics)
		run->numerics = !strcmp(o->numerics, "hardware") ? EMU_HARDWARE : EMU_F32;
	run->seed = o->seed;
	run->max_instructions = o->max_instructions
					? o->max_instructions
					: (uint64_t)tc_config_integer(CONFIG_max_instructions);
	run->threads = o->threads ? o->threads : (int)tc_config_integer(CONFIG_emulator_threads);
	run->print = o->print ? o->print : print_to_stdout;
	run->print_context = o->print_context;
	run->interrupted = interrupted;
	run->inspect = o->inspect;
	run->inspect_context = o->inspect_context;
	run->trace = o->trace;
	run->trace_context = o->trace_context;
	if (o->trace)
		run->threads = 1;
}

/* Runs with SIGINT caught; an interrupted run is an error of its own. */
static bool run_grid(struct device *d, const struct emu_module *m, const struct launch *l,
		     const struct emu_launch *run, struct emu_report *report, struct err *e)
{
	struct emu_error why = {0};
	struct interrupt interrupt;

	tc_interrupt_begin(&interrupt);
	bool ok = emu_run(machine(d), m, run, report, &why);

	tc_progress_end(run->progress_context);
	tc_interrupt_end(&interrupt);
	if (tc_interrupt_seen())
		return tc_dev_fail(e, ERR_USER, "interrupted", "kernel '%s' was interrupted",
				   l->name);
	return ok || tc_dev_fail(e, ERR_USER, "launch", "cannot launch '%s' on %s: %s", l->name,
				 d->name, why.text);
}

static bool launch(struct device *d, const struct launch *l, const struct run_options *o,
		   struct err *e)
{
	struct emu_module *m = load(d, l, e);
	struct converted c = {0};
	struct emu_report own = {0};
	struct emu_report *report = o && o->report ? o->report : &own;
	struct progress progress;

	if (!m)
		return false;
	bool ok = convert(&c, m, l, e);
	if (ok) {
		struct emu_launch run = {.kernel = l->entry,
					 .dynamic_smem = l->smem,
					 .param_count = l->param_count,
					 .params = c.params,
					 .param_sizes = c.sizes,
					 .symbol_count = l->symbol_count,
					 .symbols = c.symbols,
					 .line_count = line_count(l),
					 .lines = c.lines};
		memcpy(run.grid, l->grid, sizeof run.grid);
		memcpy(run.block, l->block, sizeof run.block);
		memcpy(run.cluster, l->cluster, sizeof run.cluster);
		set_options(&run, o);
		set_hints(&run, &c, l);
		tc_progress_begin(&progress, l);
		run.progress = show_progress;
		run.progress_context = &progress;
		ok = run_grid(d, m, l, &run, report, e);
	}
	if (ok && report == &own)
		ok = !has_errors(d, l, report, e);
	emu_report_clear(&own);
	converted_free(&c);
	return ok;
}

static bool synchronize(struct device *d, struct err *e)
{
	(void)d;
	(void)e;
	return true;
}

static void unload(struct device *d, void *cached)
{
	(void)d;
	emu_module_free(cached);
}

static void close_device(struct device *d)
{
	emu_free(machine(d));
	free(d->state);
}

/* ---- streams and events: launches are synchronous, so a stream is only a name ---- */

static void *stream_new(struct device *d, struct err *e)
{
	void *p = malloc(1);

	(void)d;
	if (!p)
		tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for a stream");
	return p;
}

static bool stream_synchronize(struct device *d, void *stream, struct err *e)
{
	(void)stream;
	return synchronize(d, e);
}

static void *event_new(struct device *d, struct err *e)
{
	void *p = calloc(1, sizeof(struct timespec));

	(void)d;
	if (!p)
		tc_dev_fail(e, ERR_MEMORY, NULL, "out of memory for an event");
	return p;
}

static void handle_free(struct device *d, void *handle)
{
	(void)d;
	free(handle);
}

static bool event_record(struct device *d, void *event, void *stream, struct err *e)
{
	(void)d;
	(void)stream;
	(void)e;
	clock_gettime(CLOCK_MONOTONIC, event);
	return true;
}

static bool event_elapsed(struct device *d, void *from, void *to, double *ms, struct err *e)
{
	const struct timespec *a = from, *b = to;

	(void)d;
	(void)e;
	*ms = (double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6;
	return true;
}

static void properties(struct device *d, struct device_properties *p)
{
	uint64_t limit = (uint64_t)tc_config_integer(CONFIG_emulator_memory);

	snprintf(p->description, sizeof p->description, "emulated %s", d->target->name);
	p->sm_count = d->target->sm_count;
	p->max_threads = d->target->max_threads;
	p->memory = p->memory_free = limit ? limit : (uint64_t)64 << 30;
	p->smem_limit = d->target->smem_limit;
}

static const struct device_ops emulator_ops = {.alloc = alloc,
					       .release = release,
					       .read = copy_out,
					       .write = copy_in,
					       .host = host,
					       .launch = launch,
					       .synchronize = synchronize,
					       .unload = unload,
					       .close = close_device,
					       .stream_new = stream_new,
					       .stream_free = handle_free,
					       .stream_synchronize = stream_synchronize,
					       .event_new = event_new,
					       .event_free = handle_free,
					       .event_record = event_record,
					       .event_elapsed = event_elapsed,
					       .properties = properties};

bool tc_device_is_emulator(const struct device *d)
{
	return d->ops == &emulator_ops;
}

struct device *tc_emulator_open(const struct target *t, struct err *e)
{
	struct emu_error why = {0};
	struct emu_options options = {.target = t->name,
				      .sm_count = t->sm_count,
				      .memory_limit =
					      (uint64_t)tc_config_integer(CONFIG_emulator_memory)};
	struct device *d = calloc(1, sizeof *d);
	struct emulator *state = calloc(1, sizeof *state);
	size_t size = strlen(t->name) + sizeof "emulator:";
	char *name = malloc(size);

	if (state)
		state->emu = emu_new(&options, &why);
	if (!d || !state || !name || !state->emu) {
		tc_dev_fail(e, ERR_MEMORY, NULL, "cannot start the emulator of %s: %s", t->name,
			    *why.text ? why.text : "out of memory");
		if (state && state->emu)
			emu_free(state->emu);
		free(d);
		free(state);
		free(name);
		return NULL;
	}
	snprintf(name, size, "emulator:%s", t->name);
	*d = (struct device){
		.name = name, .target = t, .ops = &emulator_ops, .references = 1, .state = state};
	return d;
}

/*
 * Waiting for a GPU, whose kernels may never end: by polling, so that it can be told, limited and
 * interrupted.  Nothing here calls what blocks in the driver while a kernel runs.
 */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPIN        5e-3 /* seconds without a sleep; the longest wait of a short kernel */
#define CATCH_AFTER 2e-4 /* seconds before SIGINT is caught, which takes system calls */
#define LAST_WAIT   10.0 /* seconds that closing a device waits at most */
#define QUEUE       256  /* launches between two marks; the driver takes about 1000 */

/* What a release could not give back while kernels ran. */
struct gpu_deferred {
	struct gpu_deferred *next;
	CUmodule module; /* NULL: memory */
	CUdeviceptr address;
};

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* ---- what is said -------------------------------------------------------- */

/* Without repetitions, latest first. */
static void list_pending(const struct gpu *g, char *out, size_t size)
{
	unsigned kept = g->pending_count < PENDING ? g->pending_count : PENDING;
	size_t length = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < kept; i++) {
		const char *name = g->pending[(g->pending_count - 1 - i) % PENDING];
		bool repeated = false;
		for (unsigned j = 0; j < i && !repeated; j++)
			repeated = !strcmp(name, g->pending[(g->pending_count - 1 - j) % PENDING]);
		if (!repeated && length + NAME_SIZE + 8 < size)
			length += (size_t)sprintf(out + length, "%s'%s'", length ? ", " : "", name);
	}
}

const char *tc_gpu_pending_text(const struct gpu *g, char *out, size_t size)
{
	char names[640];

	list_pending(g, names, sizeof names);
	snprintf(out, size, "%s%s%s", *names ? "kernel " : "a kernel", names,
		 strstr(names, "', '") ? " (one of them, latest first)" : "");
	return out;
}

static const char *running_text(const struct device *d, double seconds, char *out, size_t size)
{
	char kernels[768];

	snprintf(out, size,
		 "%s has been running for %.0f s on %s; k:emulate({mode = \"check\"}, ...) tells "
		 "who waits for what",
		 tc_gpu_pending_text(d->state, kernels, sizeof kernels), seconds, d->name);
	return out;
}

/* ---- waiting ------------------------------------------------------------- */

static CUresult query_stream(struct gpu *g, void *stream)
{
	return g->cu->stream_query(stream);
}

static CUresult query_event(struct gpu *g, void *event)
{
	return g->cu->event_query(event);
}

struct wait {
	double begin, due, limit; /* seconds; due and limit after begin, 0: never */
	struct interrupt interrupt;
};

static double limit(void)
{
	return (double)tc_config_integer(CONFIG_gpu_timeout);
}

static bool timed_out(struct device *d, double seconds, struct err *e)
{
	struct gpu *g = d->state;
	char text[1024];

	g->hung = true;
	running_text(d, seconds, text, sizeof text);
	snprintf(g->lost, sizeof g->lost, "%.*s", (int)sizeof g->lost - 1, text);
	return tc_dev_fail(e, ERR_USER, "lost",
			   "%s\n%s Nothing stops the kernel but the end of the process: the GPU's "
			   "context is lost with it, start the process again.",
			   text,
			   limit() > 0 && seconds >= limit()
				   ? "That is the limit of TCMMA_GPU_TIMEOUT "
				     "(tc.config.gpu_timeout)."
				   : "The device is being closed and does not wait for it any "
				     "longer.");
}

static bool interrupted(struct device *d, struct err *e)
{
	struct gpu *g = d->state;
	char kernels[768];

	g->abandoned = true;
	return tc_dev_fail(e, ERR_USER, "interrupted",
			   "interrupted while waiting for %s on %s, which still runs",
			   tc_gpu_pending_text(g, kernels, sizeof kernels), d->name);
}

/* One look at the clock; false and e where the wait is to end. */
static bool go_on(struct device *d, struct wait *w, struct err *e)
{
	double seconds = now() - w->begin;
	char text[1024];

	if (tc_interrupt_seen())
		return interrupted(d, e);
	if (w->limit > 0 && seconds >= w->limit)
		return timed_out(d, seconds, e);
	if (w->due > 0 && seconds >= w->due) {
		fprintf(stderr, "%s\n", running_text(d, seconds, text, sizeof text));
		w->due *= 2;
	}
	if (seconds >= SPIN) {
		/* At most a hundredth of the time waited is lost by sleeping too long. */
		double pause = seconds < 0.1 ? seconds * 1e-2 : 1e-3;
		nanosleep(&(struct timespec){.tv_nsec = (long)(pause * 1e9)}, NULL);
	}
	return true;
}

/* A short kernel's end is seen as soon as may be: until SIGINT is caught, nothing else is done. */
static CUresult spin(struct gpu *g, CUresult (*query)(struct gpu *, void *), void *handle,
		     double begin)
{
	CUresult r = CUDA_ERROR_NOT_READY;

	while (r == CUDA_ERROR_NOT_READY && now() - begin < CATCH_AFTER)
		r = query(g, handle);
	return r;
}

/* `last`: of closing, where the setting asks for no shorter time; else 0. */
static bool poll(struct device *d, CUresult (*query)(struct gpu *, void *), void *handle,
		 const char *doing, double last, struct err *e)
{
	struct gpu *g = d->state;
	CUresult r = query(g, handle);
	struct wait w;
	bool ok = true;

	if (r == CUDA_ERROR_NOT_READY) {
		w.begin = now();
		r = spin(g, query, handle, w.begin);
	}
	if (r != CUDA_ERROR_NOT_READY)
		return tc_gpu_check(d, r, doing, e);
	w.due = (double)tc_config_integer(CONFIG_gpu_progress);
	w.limit = last > 0 && (limit() <= 0 || last < limit()) ? last : limit();
	tc_interrupt_begin(&w.interrupt);
	while (ok && r == CUDA_ERROR_NOT_READY)
		if ((ok = go_on(d, &w, e)))
			r = query(g, handle);
	tc_interrupt_end(&w.interrupt);
	return ok && tc_gpu_check(d, r, doing, e);
}

/*
 * The driver's own order waits for all streams, but only what is put into it does: an event, where
 * there are other streams.
 */
static bool poll_device(struct device *d, double last, struct err *e)
{
	static const char doing[] = "cannot wait for the device";
	struct gpu *g = d->state;

	if (!g->streams)
		return poll(d, query_stream, NULL, doing, last, e);
	if (!g->all &&
	    !tc_gpu_check(d, g->cu->event_create(&g->all, CU_EVENT_DISABLE_TIMING), doing, e))
		return false;
	return tc_gpu_check(d, g->cu->event_record(g->all, NULL), doing, e) &&
	       poll(d, query_event, g->all, doing, last, e);
}

static void give_back(struct gpu *g)
{
	while (g->deferred) {
		struct gpu_deferred *first = g->deferred;

		if (first->module)
			g->cu->module_unload(first->module);
		else
			g->cu->mem_free(first->address);
		g->deferred = first->next;
		free(first);
	}
}

/* The driver shows what kernels printed when it waits itself. */
static bool show_prints(struct device *d, struct err *e)
{
	struct gpu *g = d->state;

	return !g->prints ||
	       tc_gpu_check(d, g->cu->context_synchronize(), "cannot wait for the device", e);
}

/* Nothing runs. */
static bool settle(struct device *d, struct err *e)
{
	struct gpu *g = d->state;

	if (!show_prints(d, e))
		return false;
	g->pending_count = 0;
	g->abandoned = false;
	give_back(g);
	return true;
}

bool tc_gpu_synchronize(struct device *d, struct err *e)
{
	struct gpu *g = tc_gpu_enter(d, e);

	return g && poll_device(d, 0, e) && settle(d, e);
}

bool tc_gpu_wait_stream(struct device *d, void *stream, struct err *e)
{
	struct gpu *g = tc_gpu_enter(d, e);
	const char *doing = "cannot wait for the stream";

	return g && poll(d, query_stream, stream, doing, 0, e) &&
	       (!g->prints || tc_gpu_check(d, g->cu->stream_synchronize(stream), doing, e));
}

bool tc_gpu_wait_event(struct device *d, void *event, struct err *e)
{
	struct gpu *g = tc_gpu_enter(d, e);

	return g && poll(d, query_event, event, "cannot wait for the event", 0, e);
}

bool tc_gpu_before_launch(struct device *d, void *stream, struct err *e)
{
	struct gpu *g = d->state;
	const char *doing = "cannot mark a launch";

	if (++g->launches % QUEUE)
		return true;
	if (!g->mark)
		return tc_gpu_check(d, g->cu->event_create(&g->mark, CU_EVENT_DISABLE_TIMING),
				    doing, e) &&
		       tc_gpu_check(d, g->cu->event_record(g->mark, stream), doing, e);
	return tc_gpu_wait_event(d, g->mark, e) &&
	       tc_gpu_check(d, g->cu->event_record(g->mark, stream), doing, e);
}

/* ---- giving back --------------------------------------------------------- */

static bool may_run(const struct gpu *g)
{
	return g->pending_count &&
	       (g->streams || g->cu->stream_query(NULL) == CUDA_ERROR_NOT_READY);
}

void tc_gpu_defer(struct device *d, CUmodule module, CUdeviceptr address)
{
	struct err ignored = {0};
	struct gpu *g = tc_gpu_enter(d, &ignored);
	struct gpu_deferred *last = g && may_run(g) ? malloc(sizeof *last) : NULL;

	if (!g)
		return; /* a dead context has freed all already */
	if (last) {
		*last = (struct gpu_deferred){
			.next = g->deferred, .module = module, .address = address};
		g->deferred = last;
	} else if (module) {
		g->cu->module_unload(module);
	} else {
		g->cu->mem_free(address);
	}
}

bool tc_gpu_before_load(struct device *d, struct err *e)
{
	return !may_run(d->state) || tc_gpu_synchronize(d, e);
}

bool tc_gpu_finish(struct device *d)
{
	struct err e = {0};
	struct gpu *g = d->state;

	/* Nobody is left whom an unfinished kernel could serve, save by what it prints. */
	if (!g->lost[0] && !g->abandoned && tc_gpu_enter(d, &e) &&
	    !(poll_device(d, LAST_WAIT, &e) && settle(d, &e)) && !g->abandoned)
		fprintf(stderr, "%s\n", e.text);
	while (g->deferred) {
		struct gpu_deferred *first = g->deferred;

		g->deferred = first->next;
		free(first);
	}
	return !g->hung && !g->abandoned;
}

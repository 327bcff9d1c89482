/*
 * Clusters over host threads.  Each cluster runs as a grid of its own, with a
 * report of its own; reports are put together in the order of the clusters, so
 * that neither results nor reports depend on the number of threads.  Kernels
 * whose clusters speak with each other run on one thread; so do those, once more,
 * whose clusters turn out to touch the same memory.
 */
#include "async.h"
#include "between.h"
#include "coverage.h"
#include "schedule.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- whether clusters speak with each other ---------------------------------------- */

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool shared(const struct emu_ins *ins)
{
	return ins->space == EMU_SHARED || ins->space == EMU_SHARED_CLUSTER;
}

static bool communicates(const struct emu_ins *ins)
{
	const char *name = ins->mnemonic;
	bool access = begins(name, "ld") || begins(name, "st") || begins(name, "atom") ||
		      begins(name, "red.");

	if (access && ins->semantics != EMU_WEAK && !shared(ins))
		return true;
	return begins(name, "cp.reduce") || begins(name, "clusterlaunchcontrol") ||
	       begins(name, "tensormap") || begins(name, "multimem");
}

/* Calls into the host: print in order, allocate. */
static bool has_order(const struct emu_function *function)
{
	return function->builtin && !function->noreturn;
}

static bool independent(const struct emu_grid *grid)
{
	if (grid->launch->inspect)
		return false;
	for (const struct emu_function *f = grid->module->functions; f; f = f->next) {
		if (has_order(f))
			return false;
		for (uint32_t i = 0; i < f->ins_count; i++)
			if (communicates(&f->ins[i]))
				return false;
	}
	return true;
}

/* ---- clusters that have run ------------------------------------------------------------ */

struct done {
	struct done *next;
	uint64_t cluster;
	struct emu_report report;
	struct emu_footprint *footprint; /* NULL in fast mode */
	struct emu_coverage *coverage;
	bool stopped;
};

struct pool;

struct member {
	struct pool *pool;
	pthread_t thread;
	struct emu_grid grid; /* the one cluster that is running */
	struct emu_launch launch;
	struct emu_worker worker;
	struct emu_report report;
	uint64_t cluster;
	bool started, running;
};

struct pool {
	struct emu_grid *grid;
	pthread_mutex_t lock;
	struct member *members;
	int count;
	uint64_t next;         /* cluster to be run */
	uint64_t merged;       /* clusters whose reports are in the grid's */
	uint64_t end;          /* behind the first cluster that stopped */
	uint64_t instructions; /* of all that have run */
	struct done *waiting;  /* by cluster; earlier ones still run */
	struct emu_coverage *coverage;
	bool met; /* two clusters have touched the same bytes */
};

static void add_counters(struct emu_counters *to, const struct emu_counters *from)
{
	to->warp_instructions += from->warp_instructions;
	to->thread_instructions += from->thread_instructions;
	to->global_read += from->global_read;
	to->global_written += from->global_written;
	to->shared_read += from->shared_read;
	to->shared_written += from->shared_written;
	to->tmem_read += from->tmem_read;
	to->tmem_written += from->tmem_written;
	to->tma_bytes += from->tma_bytes;
	to->mma_flops += from->mma_flops;
	to->mma_instructions += from->mma_instructions;
}

static void merge(struct pool *pool)
{
	while (pool->waiting && pool->waiting->cluster == pool->merged) {
		struct done *done = pool->waiting;

		pool->waiting = done->next;
		pool->merged++;
		if (!pool->grid->stopped && pool->grid->between &&
		    (!done->footprint || !emu_footprint_merge(pool->grid, done->footprint)))
			pool->met = true;
		emu_footprint_free(done->footprint);
		if (!pool->grid->stopped) {
			emu_report_merge(pool->grid, &done->report);
			emu_coverage_merge(&pool->coverage, done->coverage);
			done->coverage = NULL;
			add_counters(&pool->grid->report->counters, &done->report.counters);
			pool->grid->stopped = done->stopped;
		}
		emu_report_clear(&done->report);
		emu_coverage_free(done->coverage);
		free(done);
	}
}

/* Those behind a cluster that stopped have never run. */
static void stop_later(struct pool *pool)
{
	for (int i = 0; i < pool->count; i++) {
		struct member *m = &pool->members[i];

		if (m->running && m->cluster >= pool->end)
			m->grid.stopped = true;
	}
}

static void finished(struct pool *pool, struct member *m, struct done *done)
{
	struct done **at = &pool->waiting;

	done->cluster = m->cluster;
	done->report = m->report;
	done->report.counters = m->worker.counters;
	done->footprint = m->worker.footprint;
	m->worker.footprint = NULL;
	done->coverage = m->worker.coverage;
	m->worker.coverage = NULL;
	done->stopped = m->grid.stopped;
	memset(&m->report, 0, sizeof m->report);
	pool->instructions += m->worker.instructions;
	while (*at && (*at)->cluster < done->cluster)
		at = &(*at)->next;
	done->next = *at;
	*at = done;
	if (done->stopped && done->cluster + 1 < pool->end) {
		pool->end = done->cluster + 1;
		stop_later(pool);
	}
	merge(pool);
	if (pool->met) {
		pool->end = 0;
		stop_later(pool);
	}
}

/* ---- one host thread -------------------------------------------------------------------- */

static bool take(struct pool *pool, struct member *m)
{
	bool taken;

	pthread_mutex_lock(&pool->lock);
	taken = pool->next < pool->end;
	if (taken) {
		m->cluster = pool->next++;
		m->running = true;
		m->grid = *pool->grid;
		m->grid.stopped = false;
		m->grid.launch = &m->launch;
		m->grid.report = &m->report;
		m->grid.next_cluster = m->cluster;
		m->grid.cluster_count = m->cluster + 1;
		m->grid.max_instructions =
			pool->grid->max_instructions > pool->instructions
				? pool->grid->max_instructions - pool->instructions
				: 0;
		m->worker.grid = &m->grid;
		m->worker.instructions = 0;
		m->worker.before = pool->instructions;
		memset(&m->worker.counters, 0, sizeof m->worker.counters);
	}
	pthread_mutex_unlock(&pool->lock);
	return taken;
}

static void free_clusters(struct emu_worker *worker)
{
	while (worker->clusters) {
		struct emu_cluster *cluster = worker->clusters;

		worker->clusters = cluster->next;
		if (worker->clusters)
			worker->clusters->previous = NULL;
		emu_cluster_free(cluster);
	}
	worker->resident_ctas = 0;
}

static void *run_member(void *argument)
{
	struct member *m = argument;
	struct done *done;

	while (take(m->pool, m)) {
		emu_schedule(&m->worker);
		free_clusters(&m->worker);
		done = calloc(1, sizeof *done);
		pthread_mutex_lock(&m->pool->lock);
		m->running = false;
		if (done)
			finished(m->pool, m, done);
		else
			m->pool->grid->stopped = true;
		pthread_mutex_unlock(&m->pool->lock);
		if (!done)
			break;
	}
	for (int w = 0; w < EMU_MAX_CTA_WARPS; w++)
		free(m->worker.specials[w]);
	return NULL;
}

/* The launch of another thread than the caller's: the caller alone may be asked to stop. */
static void prepare(struct pool *pool, int index)
{
	struct member *m = &pool->members[index];

	m->pool = pool;
	m->launch = *pool->grid->launch;
	if (!index)
		return;
	m->launch.interrupted = NULL;
	m->launch.progress = NULL;
}

/* As if nothing had run. */
static void undo(struct emu_grid *grid)
{
	emu_footprint_undo(grid);
	emu_report_clear(grid->report);
	memset(&grid->report->counters, 0, sizeof grid->report->counters);
	grid->stopped = false;
}

bool emu_run_threads(struct emu_grid *grid, int threads)
{
	struct pool pool = {.grid = grid, .end = grid->cluster_count};

	if ((uint64_t)threads > grid->cluster_count)
		threads = (int)grid->cluster_count;
	if (threads < 1)
		threads = 1;
	/* Footprints cost less than to look at every access, on one thread as well. */
	if ((threads < 2 && !grid->between) || !independent(grid) ||
	    (grid->between && !emu_footprint_begin(grid)))
		return false;
	pool.members = calloc((size_t)threads, sizeof *pool.members);
	if (!pool.members) {
		if (grid->between)
			emu_footprint_end(grid);
		return false;
	}
	pool.count = threads;
	pthread_mutex_init(&pool.lock, NULL);
	for (int i = 0; i < threads; i++)
		prepare(&pool, i);
	for (int i = 1; i < threads; i++)
		pool.members[i].started = !pthread_create(&pool.members[i].thread, NULL, run_member,
							  &pool.members[i]);
	run_member(&pool.members[0]);
	for (int i = 1; i < threads; i++)
		if (pool.members[i].started)
			pthread_join(pool.members[i].thread, NULL);
	pthread_mutex_destroy(&pool.lock);
	free(pool.members);
	if (pool.met)
		undo(grid);
	else if (!grid->stopped)
		emu_coverage_report(grid, pool.coverage);
	emu_coverage_free(pool.coverage);
	if (grid->between)
		emu_footprint_end(grid);
	return !pool.met;
}

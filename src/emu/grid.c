/* A launch: what is checked before anything runs, and the CTAs it is made of. */
#include "between.h"
#include "coverage.h"
#include "heap.h"
#include "schedule.h"
#include "special.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_SHARED       (227u << 10)
#define MAX_THREADS      1024u
#define DEFAULT_BUDGET   (1ull << 34)
#define REGISTER_FILE    65536u
#define UNDEFINED_SHARED 0xa5

static bool refuse(struct emu_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool refuse(struct emu_error *error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	error->line = 0;
	return false;
}

/* ---- what a launch must satisfy ---------------------------------------------------- */

static bool check_sizes(struct emu_grid *grid, struct emu_error *error)
{
	static const uint32_t most_ctas[3] = {INT32_MAX, 65535, 65535};
	static const uint32_t most_threads[3] = {1024, 1024, 64};
	const struct emu_kernel_info *info = &grid->kernel->info;
	uint64_t threads = 1, ctas = 1, cluster = 1, most = 1;

	for (int i = 0; i < 3; i++) {
		if (grid->grid[i] < 1 || grid->grid[i] > most_ctas[i])
			return refuse(error, "grid[%d] is %u; 1 to %u is possible", i,
				      grid->grid[i], most_ctas[i]);
		if (grid->block[i] < 1 || grid->block[i] > most_threads[i])
			return refuse(error, "block[%d] is %u; 1 to %u is possible", i,
				      grid->block[i], most_threads[i]);
		if (grid->cluster[i] < 1 || grid->cluster[i] > EMU_MAX_CLUSTER ||
		    grid->grid[i] % grid->cluster[i])
			return refuse(error, "grid[%d] is %u, not a multiple of the cluster's %u",
				      i, grid->grid[i], grid->cluster[i]);
		if (info->required_threads[i] && info->required_threads[i] != grid->block[i])
			return refuse(error, "the kernel requires a block of %u x %u x %u threads",
				      info->required_threads[0], info->required_threads[1],
				      info->required_threads[2]);
		if (info->required_cluster[i] && info->required_cluster[i] != grid->cluster[i])
			return refuse(error, "the kernel requires a cluster of %u x %u x %u CTAs",
				      info->required_cluster[0], info->required_cluster[1],
				      info->required_cluster[2]);
		threads *= grid->block[i];
		ctas *= grid->grid[i];
		cluster *= grid->cluster[i];
		most *= info->max_threads[i] ? info->max_threads[i] : 1;
	}
	if (threads > MAX_THREADS)
		return refuse(error, "a block of %llu threads; at most %u",
			      (unsigned long long)threads, MAX_THREADS);
	if (info->max_threads[0] && threads > most)
		return refuse(error, "a block of %llu threads; the kernel's .maxntid allows %llu",
			      (unsigned long long)threads, (unsigned long long)most);
	if (cluster > EMU_MAX_CLUSTER)
		return refuse(error, "a cluster of %llu CTAs; at most %d",
			      (unsigned long long)cluster, EMU_MAX_CLUSTER);
	grid->thread_count = (uint32_t)threads;
	grid->warp_count = (uint32_t)(threads + EMU_LANES - 1) / EMU_LANES;
	grid->cta_count = ctas;
	grid->cluster_ctas = cluster;
	grid->cluster_count = ctas / cluster;
	return true;
}

static bool check_shared(struct emu_grid *grid, struct emu_error *error)
{
	const struct emu_function *kernel = grid->kernel;
	uint32_t align = kernel->dynamic_smem_align;
	uint64_t fixed = kernel->static_smem;

	if (grid->launch->dynamic_smem)
		fixed = (fixed + align - 1) & ~((uint64_t)align - 1);
	if (fixed + grid->launch->dynamic_smem > MAX_SHARED)
		return refuse(error,
			      "%llu bytes of static and %u of dynamic shared memory; a CTA has %u",
			      (unsigned long long)fixed, grid->launch->dynamic_smem, MAX_SHARED);
	grid->static_smem = (uint32_t)((fixed + align - 1) & ~((uint64_t)align - 1));
	grid->shared_bytes = (uint32_t)(fixed + grid->launch->dynamic_smem);
	return true;
}

static bool take_params(struct emu_grid *grid, struct emu_error *error)
{
	const struct emu_launch *launch = grid->launch;
	const struct emu_function *kernel = grid->kernel;

	if (launch->param_count != kernel->param_count)
		return refuse(error, "the kernel '%s' takes %d parameters, not %d", kernel->name,
			      kernel->param_count, launch->param_count);
	grid->param_bytes = kernel->param_bytes;
	grid->params = calloc(1, grid->param_bytes + 16u);
	if (!grid->params)
		return refuse(error, "out of memory");
	for (int i = 0; i < kernel->param_count; i++) {
		const struct emu_variable *param = kernel->params[i];

		if (launch->param_sizes[i] != param->size)
			return refuse(error, "parameter %d of '%s' has %llu bytes, not %u", i + 1,
				      kernel->name, (unsigned long long)param->size,
				      launch->param_sizes[i]);
		memcpy(grid->params + param->address, launch->params[i], param->size);
	}
	return true;
}

static bool find_kernel(struct emu_grid *grid, struct emu_error *error)
{
	for (int i = 0; i < grid->module->kernel_count; i++)
		if (!strcmp(grid->module->kernels[i]->name, grid->launch->kernel))
			grid->kernel = grid->module->kernels[i];
	return grid->kernel ||
	       refuse(error, "the module has no kernel '%.200s'", grid->launch->kernel);
}

static bool prepare(struct emu_grid *grid, struct emu_error *error)
{
	const struct emu_launch *launch = grid->launch;

	if (!launch->kernel || !find_kernel(grid, error))
		return launch->kernel ? false : refuse(error, "no kernel is named");
	for (int i = 0; i < 3; i++) {
		uint32_t own = grid->kernel->info.required_cluster[i];

		grid->grid[i] = launch->grid[i];
		grid->block[i] = launch->block[i];
		grid->cluster[i] = launch->cluster[i] ? launch->cluster[i] : own ? own : 1;
	}
	grid->mode = launch->mode;
	grid->numerics = launch->numerics;
	grid->sm_count = grid->emu->sm_count;
	grid->max_instructions =
		launch->max_instructions ? launch->max_instructions : DEFAULT_BUDGET;
	if (!check_sizes(grid, error) || !check_shared(grid, error) || !take_params(grid, error))
		return false;
	/* What ptxas may use at most when it is told nothing but the number of threads. */
	uint32_t threads = grid->warp_count * EMU_LANES;
	uint32_t most = grid->kernel->max_registers;

	if (!most)
		most = REGISTER_FILE / threads & ~7u;
	grid->registers_per_thread = most > 255 ? 255 : most;
	return true;
}

/* ---- CTAs ------------------------------------------------------------------------------ */

static struct emu_warp *new_warp(struct emu_cta *cta, int index)
{
	struct emu_warp *warp = calloc(1, sizeof *warp);
	uint32_t threads = cta->thread_count - (uint32_t)index * EMU_LANES;
	struct emu_frame *frame;

	if (!warp)
		return NULL;
	warp->cta = cta;
	warp->grid = cta->grid;
	warp->worker = cta->worker;
	warp->index = index;
	warp->live = threads >= EMU_LANES ? EMU_FULL : (1u << threads) - 1;
	warp->registers = cta->grid->registers_per_thread;
	warp->attention = EMU_I_ALIGNED | EMU_I_POLL;
	if (cta->grid->mode != EMU_FAST)
		warp->attention |=
			EMU_I_UNDEFINED | EMU_I_TAINT | (cta->grid->launch->trace ? EMU_I_ALL : 0);
	warp->random = cta->grid->launch->seed ^ (cta->cluster->index << 20) ^
		       ((uint64_t)cta->rank << 8) ^ (uint64_t)index ^ 0x51ed270b7a649c21ull;
	frame = emu_special_fill(warp) ? emu_frame_new(warp, cta->grid->kernel, NULL, 0) : NULL;
	if (!frame) {
		free(warp->local);
		free(warp->specials);
		free(warp);
		return NULL;
	}
	frame->mask = warp->live;
	emu_ready(emu_split_new(warp, warp->live, 0, frame, -1));
	emu_frame_release(warp, frame);
	return warp;
}

static void free_warp(struct emu_warp *warp)
{
	if (!warp)
		return;
	emu_async_warp_free(warp);
	emu_rendezvous_free(warp);
	emu_copies_free(warp);
	for (int i = 0; i < EMU_LANES; i++)
		if (warp->splits[i].state != EMU_SPLIT_FREE) {
			if (warp->splits[i].state == EMU_SPLIT_READY)
				emu_unlink_ready(&warp->splits[i]);
			emu_frame_release(warp, warp->splits[i].frame);
		}
	for (int j = 0; j < EMU_MAX_JOINS; j++)
		if (warp->joins[j].used)
			emu_frame_release(warp, warp->joins[j].frame);
	free(warp->local);
	free(warp->specials);
	free(warp);
}

static void free_cta(struct emu_cta *cta)
{
	if (!cta)
		return;
	for (uint32_t w = 0; cta->warps && w < cta->warp_count; w++)
		free_warp(cta->warps[w]);
	emu_async_cta_free(cta);
	free(cta->warps);
	free(cta->shared);
	free(cta);
}

static struct emu_cta *new_cta(struct emu_cluster *cluster, uint32_t rank)
{
	const struct emu_grid *grid = cluster->grid;
	struct emu_cta *cta = calloc(1, sizeof *cta);

	if (!cta)
		return NULL;
	cta->cluster = cluster;
	cta->grid = cluster->grid;
	cta->worker = cluster->worker;
	cta->rank = rank;
	cta->rank3[0] = rank % grid->cluster[0];
	cta->rank3[1] = rank / grid->cluster[0] % grid->cluster[1];
	cta->rank3[2] = rank / grid->cluster[0] / grid->cluster[1];
	for (int i = 0; i < 3; i++)
		cta->id[i] = cluster->id[i] * grid->cluster[i] + cta->rank3[i];
	cta->thread_count = cta->live_threads = grid->thread_count;
	cta->warp_count = grid->warp_count;
	cta->shared_bytes = grid->shared_bytes;
	cta->register_pool =
		REGISTER_FILE - grid->registers_per_thread * grid->warp_count * EMU_LANES;
	cta->shared = malloc(cta->shared_bytes + 16u);
	cta->warps = calloc(cta->warp_count, sizeof *cta->warps);
	if (!cta->shared || !cta->warps || !emu_async_cta_init(cta)) {
		free(cta->shared);
		free(cta->warps);
		free(cta);
		return NULL;
	}
	memset(cta->shared, grid->mode == EMU_FAST ? 0 : UNDEFINED_SHARED, cta->shared_bytes + 16u);
	return cta;
}

static bool fill_cta(struct emu_cta *cta)
{
	for (uint32_t w = 0; w < cta->warp_count; w++) {
		cta->warps[w] = new_warp(cta, (int)w);
		if (!cta->warps[w] || !emu_async_warp_init(cta->warps[w]))
			return false;
	}
	return true;
}

struct emu_cluster *emu_cluster_new(struct emu_worker *worker, uint64_t index)
{
	struct emu_grid *grid = worker->grid;
	struct emu_cluster *cluster = calloc(1, sizeof *cluster);
	uint64_t clusters[2] = {grid->grid[0] / grid->cluster[0], grid->grid[1] / grid->cluster[1]};
	bool fine;

	if (!cluster)
		return NULL;
	cluster->grid = grid;
	cluster->worker = worker;
	cluster->index = index;
	cluster->id[0] = (uint32_t)(index % clusters[0]);
	cluster->id[1] = (uint32_t)(index / clusters[0] % clusters[1]);
	cluster->id[2] = (uint32_t)(index / clusters[0] / clusters[1]);
	cluster->cta_count = (int)(grid->cluster[0] * grid->cluster[1] * grid->cluster[2]);
	cluster->live_threads = grid->thread_count * (uint32_t)cluster->cta_count;
	cluster->ctas = calloc((size_t)cluster->cta_count, sizeof *cluster->ctas);
	fine = cluster->ctas && emu_async_cluster_init(cluster);
	if (!fine) {
		free(cluster->ctas);
		free(cluster);
		return NULL;
	}
	for (int c = 0; fine && c < cluster->cta_count; c++) {
		cluster->ctas[c] = new_cta(cluster, (uint32_t)c);
		fine = cluster->ctas[c] && fill_cta(cluster->ctas[c]);
	}
	if (fine && grid->mode != EMU_FAST)
		fine = emu_hazards_init(cluster);
	if (!fine) {
		emu_cluster_free(cluster);
		return NULL;
	}
	return cluster;
}

void emu_cluster_free(struct emu_cluster *cluster)
{
	struct emu_engine_op *op = cluster->ops;

	while (op) {
		struct emu_engine_op *next = op->next;

		op->discard(op);
		op = next;
	}
	emu_hazards_free(cluster);
	for (int c = 0; c < cluster->cta_count; c++)
		free_cta(cluster->ctas[c]);
	emu_async_cluster_free(cluster);
	free(cluster->ctas);
	free(cluster);
}

/* Tensor memory keeps its contents when it is given back. */
static void inspect(const struct emu_cta *cta)
{
	const struct emu_launch *launch = cta->grid->launch;
	const struct emu_tmem *tmem = emu_tmem_of((struct emu_cta *)cta);
	struct emu_cta_memory memory = {.shared = cta->shared,
					.shared_bytes = cta->shared_bytes,
					.dynamic = cta->grid->static_smem,
					.tmem = tmem->columns ? tmem->columns[0] : NULL,
					.first_column = tmem->allocations[0].column};

	memcpy(memory.cta, cta->id, sizeof memory.cta);
	if (launch->inspect)
		launch->inspect(launch->inspect_context, &memory);
}

/* The last thread is gone: what the CTA still has in flight ends first. */
void emu_cta_finish(struct emu_cta *cta)
{
	if (cta->cluster->hazards)
		emu_hazards_cta_exit(cta);
	while (emu_async_cta_busy(cta) && emu_engine_step(cta->cluster, false))
		;
	emu_async_cta_exit(cta);
	cta->exited = true;
	inspect(cta);
}

/* ---- the launch ---------------------------------------------------------------------------- */

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void run(struct emu_grid *grid)
{
	struct emu_worker worker = {.grid = grid};

	if (grid->mode != EMU_FAST && grid->cluster_count > 1 && !emu_between_init(grid)) {
		emu_fault_at(&(struct emu_where){.grid = grid, .warp = -1, .lane = -1},
			     "out-of-memory", "the host has no memory to look for races");
		return;
	}
	if (emu_run_threads(grid, grid->launch->threads))
		return;
	emu_schedule(&worker);
	while (worker.clusters) {
		struct emu_cluster *cluster = worker.clusters;

		worker.clusters = cluster->next;
		if (worker.clusters)
			worker.clusters->previous = NULL;
		emu_cluster_free(cluster);
	}
	for (int w = 0; w < EMU_MAX_CTA_WARPS; w++)
		free(worker.specials[w]);
	if (!grid->stopped)
		emu_coverage_report(grid, worker.coverage);
	emu_coverage_free(worker.coverage);
	grid->report->counters = worker.counters;
}

bool emu_run(struct emu *emu, const struct emu_module *module, const struct emu_launch *launch,
	     struct emu_report *report, struct emu_error *error)
{
	struct emu_grid grid = {.emu = emu, .module = module, .launch = launch, .report = report};
	double start = seconds_now();

	memset(report, 0, sizeof *report);
	error->text[0] = 0;
	if (!prepare(&grid, error)) {
		free(grid.params);
		return false;
	}
	emu->running++;
	run(&grid);
	emu_between_free(&grid);
	emu->running--;
	report->completed = !grid.stopped;
	report->counters.seconds = seconds_now() - start;
	free(grid.params);
	return true;
}

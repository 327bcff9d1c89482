/* What a kernel would reach on a machine: residence, memory, time, and what binds it. */
#include "compile.h"
#include "estimate.h"

#include <string.h>

const struct machine tc_machines[] = {
#define MACHINE(target, name, sms, mhz, tflops, l2, dram, source)                                  \
	{target, name, sms, mhz, tflops, l2, dram, source},
#include "estimate.def"
};
const int tc_machine_count = sizeof tc_machines / sizeof *tc_machines;

const struct machine_cost tc_cost = {
#define COST(id, value, meaning) .id = value,
#include "estimate.def"
};

const char *const tc_path_names[PATH_COUNT] = {"dram", "l2", "smem", "tmem", "out"};

/* Of one SM of these architectures; a CTA's SMEM takes 1 KB more than it asks for. */
#define SM_SMEM    (228 * 1024)
#define SM_THREADS 2048
#define SM_CTAS    32

const struct machine *tc_machine_of(const struct target *t)
{
	for (int i = 0; i < tc_machine_count; i++)
		if (strcmp(tc_machines[i].target, t->name) == 0)
			return &tc_machines[i];
	return NULL;
}

static void limit(struct estimate *e, int ctas, const char *what)
{
	if (ctas >= e->ctas_per_sm)
		return;
	e->ctas_per_sm = ctas > 1 ? ctas : 1;
	e->occupancy_limit = what;
}

static void occupancy(struct estimate *e, const struct program *p)
{
	e->ctas_per_sm = SM_CTAS;
	e->occupancy_limit = "CTAs";
	limit(e, (int)(SM_SMEM / (p->smem + 1024)), "SMEM");
	limit(e, SM_THREADS / p->info.threads, "threads");
	if (p->info.tmem_columns)
		limit(e, 512 / p->info.tmem_columns, "TMEM");
}

static void need_static(const struct kern *k, struct err *err)
{
	for (int i = 0; i < k->grid_rank; i++)
		if (k->grid[i] < 0)
			tc_fail(err, "its grid is known only at launch");
	for (int i = 0; i < k->arg_count; i++)
		for (int d = 0; d < k->args[i]->rank; d++)
			if (k->args[i]->shape[d].size < 0)
				tc_fail(err,
					"dimension '%s' of argument %d is known only at launch",
					k->args[i]->shape[d].name, i + 1);
}

static void find_bound(struct estimate *e)
{
	static const char *const names[PATH_COUNT] = {"DRAM", "L2", "SMEM", "TMEM", "stores"};
	double most = e->tensor_busy;

	e->bound = "tensor core";
	for (int i = 0; i < PATH_COUNT; i++)
		if (e->busy[i] > most) {
			most = e->busy[i];
			e->bound = names[i];
		}
	if (most < 0.5)
		e->bound = "latency";
}

static void shares(struct estimate *e)
{
	double dram = e->machine->dram_gbps * 1e3 / e->machine->mhz / e->machine->sms;
	double smem = tc_cost.smem_bytes, tmem = 4 * tc_cost.tmem_words;

	e->tensor_busy = e->tensor_clocks / e->clocks;
	e->busy[PATH_DRAM] = (e->bytes[PATH_DRAM] + e->bytes[PATH_OUT]) / dram / e->clocks;
	e->busy[PATH_L2] /= e->clocks;
	e->busy[PATH_SMEM] = e->bytes[PATH_SMEM] / smem / e->clocks;
	e->busy[PATH_TMEM] = e->bytes[PATH_TMEM] / tmem / e->clocks;
	e->busy[PATH_OUT] = e->bytes[PATH_OUT] / tc_cost.store_bytes / e->clocks;
}

void tc_estimate(struct kern *k, const struct program *p, const struct machine *m, struct err *err,
		 struct arena *arena, struct estimate *e)
{
	int ranks = tc_cluster_size(k, ~0u);

	*e = (struct estimate){.machine = m};
	need_static(k, err);
	occupancy(e, p);
	e->ctas = tc_walk_clusters(k) * ranks;
	int64_t resident = (int64_t)(m->sms / ranks) * e->ctas_per_sm;
	e->waves = (double)tc_walk_clusters(k) / (double)resident;
	e->miss = tc_estimate_misses(k, err, arena, m->l2_bytes, resident);
	tc_estimate_run(k, err, arena, e);
	shares(e);
	find_bound(e);
	/* Power grows with use, and beyond a part of it lowers the clock. */
	double used = e->full_clocks / e->clocks;
	double clock = 1 - tc_cost.throttle * used * used;
	e->utilization = used * clock;
	e->microseconds = e->clocks / (m->mhz * clock);
	e->tflops = e->flop / e->microseconds * 1e-6;
	e->peak_tflops = e->full_clocks > 0 ? e->flop / e->full_clocks * m->mhz * 1e-6 : 0;
}

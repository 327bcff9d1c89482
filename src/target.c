/* The targets: what they have, and which function lowers which op. */
#include <string.h>

#include "frag.h"

/* Ops that every target carries out alike. */
#define COMMON                                                                                     \
	[OP_RANGE] = tc_lower_range, [OP_LOOP] = tc_lower_loop, [OP_STOP] = tc_lower_stop,         \
	[OP_WHEN] = tc_lower_when, [OP_ROLE] = tc_lower_role, [OP_VAR_NEW] = tc_lower_var,         \
	[OP_VAR_SET] = tc_lower_var, [OP_VAR_GET] = tc_lower_var,                                  \
	[OP_LOAD_SCALAR] = tc_lower_load_scalar, [OP_STORE_SCALAR] = tc_lower_store_scalar,        \
	[OP_ATOMIC] = tc_lower_atomic, [OP_ATOMIC_SCALAR] = tc_lower_store_scalar,                 \
	[OP_COPY_GMEM_TO_SMEM] = tc_lower_copy_gmem_to_smem,                                       \
	[OP_COPY_SMEM_TO_GMEM] = tc_lower_copy_smem_to_gmem,                                       \
	[OP_ASYNC_PREFETCH] = tc_lower_async_prefetch,                                             \
	[OP_SEMAPHORE_SIGNAL] = tc_lower_semaphore_signal,                                         \
	[OP_SEMAPHORE_SIGNAL_PARALLEL] = tc_lower_semaphore_signals,                               \
	[OP_SEMAPHORE_WAIT] = tc_lower_semaphore_wait,                                             \
	[OP_GRIDDEPCONTROL_WAIT] = tc_lower_griddepcontrol,                                        \
	[OP_GRIDDEPCONTROL_LAUNCH_DEPENDENTS] = tc_lower_griddepcontrol,                           \
	[OP_COMMIT_SMEM] = tc_lower_commit_smem, [OP_COMMIT_GMEM] = tc_lower_commit_gmem,          \
	[OP_WAIT_SMEM_TO_GMEM] = tc_lower_wait_smem_to_gmem, [OP_LOAD] = tc_lower_load,            \
	[OP_STORE] = tc_lower_store, [OP_FRAG_ELEMENTWISE] = tc_lower_elementwise,                 \
	[OP_FRAG_CAST] = tc_lower_cast, [OP_FRAG_FULL] = tc_lower_full,                            \
	[OP_FRAG_IOTA] = tc_lower_iota, [OP_FRAG_BROADCAST] = tc_lower_broadcast,                  \
	[OP_FRAG_REDUCE] = tc_lower_reduce, [OP_PRINT] = tc_lower_print,                           \
	[OP_ASSERT] = tc_lower_assert, [OP_SET_MAX_REGISTERS] = tc_lower_nothing

const struct target_ops tc_ops_sm90 = {
	.lower = {COMMON, [OP_MMA] = tc_lower_wgmma, [OP_COMMIT_ARRIVE] = tc_lower_wgmma_commit,
		  [OP_ASYNC_COPY_SMEM_TO_TMEM] = tc_lower_wgmma_copy,
		  [OP_ASYNC_COPY_SCALES_TO_TMEM] = tc_lower_unsupported,
		  [OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM] = tc_lower_wgmma_copy_metadata,
		  [OP_ASYNC_LOAD_TMEM] = tc_lower_wgmma_load,
		  [OP_ASYNC_STORE_TMEM] = tc_lower_wgmma_store,
		  /* Loads and stores are registers: in order with what the thread does. */
		  [OP_WAIT_LOAD_TMEM] = tc_lower_nothing, [OP_COMMIT_TMEM] = tc_lower_nothing,
		  [OP_BARRIER_WAIT] = tc_lower_wgmma_wait,
		  [OP_BARRIER_ARRIVE] = tc_lower_wgmma_arrive,
		  [OP_TRY_CLUSTER_CANCEL] = tc_lower_no_cluster_cancel,
		  [OP_QUERY_CLUSTER_CANCEL] = tc_lower_no_cluster_query},
	.classes = tc_wgmma_classes,
	.registers = tc_class_registers,
	.role_start = tc_low_wgmma_start,
	.role_end = tc_low_wgmma_end,
	.before_spin = tc_low_wgmma_before_spin,
	.tmem_distribution = tc_low_wgmma_distribution,
	.store_tile = tc_low_stmatrix,
};

const struct target_ops tc_ops_sm100 = {
	.lower = {COMMON, [OP_BARRIER_ARRIVE] = tc_lower_arrive, [OP_BARRIER_WAIT] = tc_lower_wait,
		  [OP_MMA] = tc_lower_tcgen05_mma, [OP_COMMIT_ARRIVE] = tc_lower_tcgen05_commit,
		  [OP_ASYNC_COPY_SMEM_TO_TMEM] = tc_lower_tcgen05_copy,
		  [OP_ASYNC_COPY_SCALES_TO_TMEM] = tc_lower_tcgen05_copy_scales,
		  [OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM] = tc_lower_tcgen05_copy_metadata,
		  [OP_ASYNC_LOAD_TMEM] = tc_lower_load_tmem,
		  [OP_ASYNC_STORE_TMEM] = tc_lower_store_tmem,
		  [OP_WAIT_LOAD_TMEM] = tc_lower_wait_load_tmem,
		  [OP_COMMIT_TMEM] = tc_lower_commit_tmem,
		  [OP_TRY_CLUSTER_CANCEL] = tc_lower_try_cluster_cancel,
		  [OP_QUERY_CLUSTER_CANCEL] = tc_lower_query_cluster_cancel},
	.begin = tc_low_tcgen05_begin,
	.begun = tc_low_tcgen05_begun,
	.end = tc_low_tcgen05_end,
	.after_wait = tc_low_tcgen05_after_wait,
	.before_arrive = tc_low_tcgen05_before_arrive,
	.commit_counts_one = true,
	.descriptor_bits = 1 << 14, /* docs/isa.md 3: a constant */
	.tmem_distribution = tc_frag_tmem_distribution,
};

static const struct target sm_90a = {.name = "sm_90a",
				     .sm = 90,
				     .ptx_version = "8.0",
				     .smem_limit = 232448,
				     .tmem_columns = 0,
				     .max_threads = 1024,
				     .registers = 65536,
				     .sm_count = 132, /* H200 */
				     .ops = &tc_ops_sm90};
static const struct target sm_100a = {.name = "sm_100a",
				      .sm = 100,
				      .ptx_version = "8.6",
				      .smem_limit = 232448,
				      .tmem_columns = 512,
				      .max_threads = 1024,
				      .registers = 65536,
				      .sm_count = 148, /* B200 */
				      .ops = &tc_ops_sm100};
static const struct target sm_103a = {.name = "sm_103a",
				      .sm = 103,
				      .ptx_version = "8.8",
				      .smem_limit = 232448,
				      .tmem_columns = 512,
				      .load_reduces = true,
				      .max_threads = 1024,
				      .registers = 65536,
				      .sm_count = 148, /* B300 */
				      .ops = &tc_ops_sm100};

static const struct target *const targets[] = {&sm_90a, &sm_100a, &sm_103a, NULL};

const struct target *const *tc_targets(void)
{
	return targets;
}

const struct target *tc_target_find(const char *name)
{
	for (int i = 0; targets[i]; i++)
		if (strcmp(targets[i]->name, name) == 0)
			return targets[i];
	return NULL;
}

bool tc_lanes_have_halves(const struct kern *k)
{
	return !k->target || tc_target_find(k->target) != &sm_90a;
}

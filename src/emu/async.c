/* State of the asynchronous half of the machine: created, checked and freed with its owner. */
#include "async.h"

#include <stdlib.h>

bool emu_async_cluster_init(struct emu_cluster *cluster)
{
	cluster->async = calloc(1, sizeof(struct emu_async_cluster));
	return cluster->async;
}

bool emu_async_cta_init(struct emu_cta *cta)
{
	cta->async = calloc(1, sizeof(struct emu_async_cta));
	return cta->async;
}

bool emu_async_warp_init(struct emu_warp *warp)
{
	warp->async = calloc(1, sizeof(struct emu_async_warp));
	return warp->async;
}

void emu_async_cta_exit(struct emu_cta *cta)
{
	emu_mbarrier_cta_exit(cta);
	emu_tmem_cta_exit(cta);
}

void emu_async_warp_free(struct emu_warp *warp)
{
	if (!warp->async)
		return;
	emu_bulk_warp_free(warp);
	emu_wgmma_warp_free(warp);
	free(warp->async);
	warp->async = NULL;
}

void emu_async_cta_free(struct emu_cta *cta)
{
	if (!cta->async)
		return;
	emu_mbarrier_cta_free(cta);
	free(emu_tmem_of(cta)->columns);
	free(cta->async);
	cta->async = NULL;
}

void emu_async_cluster_free(struct emu_cluster *cluster)
{
	struct emu_async_cluster *async = cluster->async;

	if (!async)
		return;
	emu_mma_scratch_free(async->scratch);
	free(async);
	cluster->async = NULL;
}

bool emu_async_cta_busy(const struct emu_cta *cta)
{
	return cta->async && emu_async_of_cta(cta)->open_reads > 0;
}

static void discard(struct emu_engine_op *op)
{
	free(op);
}

void *emu_op_new(struct emu_warp *warp, int lane, size_t size,
		 void (*complete)(struct emu_engine_op *op))
{
	struct emu_engine_op *op = calloc(1, size);

	if (!op) {
		emu_fault(warp, lane, "out-of-memory",
			  "the host has no memory for an "
			  "asynchronous operation");
		return NULL;
	}
	op->complete = complete;
	op->discard = discard;
	op->cluster = warp->cta->cluster;
	op->where = emu_here(warp, lane);
	return op;
}

void emu_op_issue(struct emu_warp *warp, void *op)
{
	emu_engine_issue(warp->cta->cluster, op);
}

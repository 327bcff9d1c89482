/* State of the asynchronous half of the machine: created, checked and freed with its owner. */
#include "machine.h"

bool emu_async_cluster_init(struct emu_cluster *cluster)
{
	cluster->async = NULL;
	return true;
}

bool emu_async_cta_init(struct emu_cta *cta)
{
	cta->async = NULL;
	return true;
}

bool emu_async_warp_init(struct emu_warp *warp)
{
	warp->async = NULL;
	return true;
}

void emu_async_cta_exit(struct emu_cta *cta)
{
	(void)cta;
}

void emu_async_warp_free(struct emu_warp *warp)
{
	(void)warp;
}

void emu_async_cta_free(struct emu_cta *cta)
{
	(void)cta;
}

void emu_async_cluster_free(struct emu_cluster *cluster)
{
	(void)cluster;
}

bool emu_async_cta_busy(const struct emu_cta *cta)
{
	(void)cta;
	return false;
}

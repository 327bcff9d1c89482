/* Items by number, in open addressing; pools of items. */
#include "index.h"

#include <stdlib.h>

enum {
	least_buckets = 64,
	least_room = 256
};

static void **slot(void **items, uint32_t buckets, uint64_t number)
{
	uint32_t at = (uint32_t)((number * 0x9e3779b97f4a7c15ull) >> 36) & (buckets - 1);

	while (items[at] && *(const uint64_t *)items[at] != number)
		at = (at + 1) & (buckets - 1);
	return &items[at];
}

static bool reserve(struct emu_index *index)
{
	uint32_t buckets = index->buckets ? 2 * index->buckets : least_buckets;
	void **items;

	if (2 * index->count < index->buckets)
		return true;
	items = calloc(buckets, sizeof *items);
	if (!items)
		return false;
	for (uint32_t i = 0; i < index->buckets; i++)
		if (index->items[i])
			*slot(items, buckets, *(const uint64_t *)index->items[i]) = index->items[i];
	free(index->items);
	index->items = items;
	index->buckets = buckets;
	return true;
}

void *emu_index_at(struct emu_index *index, uint64_t number, size_t size)
{
	void **at;

	if (!reserve(index))
		return NULL;
	at = slot(index->items, index->buckets, number);
	if (!*at) {
		*at = calloc(1, size);
		if (!*at)
			return NULL;
		*(uint64_t *)*at = number;
		index->count++;
	}
	return *at;
}

void emu_index_free(struct emu_index *index)
{
	for (uint32_t i = 0; i < index->buckets; i++)
		free(index->items[i]);
	free(index->items);
	*index = (struct emu_index){0};
}

uint32_t emu_pool_take(struct emu_pool *pool)
{
	uint32_t item = pool->free;

	if (item) {
		pool->free = *(const uint32_t *)emu_pool_at(pool, item);
		return item;
	}
	if (pool->count == pool->room) {
		uint32_t room = pool->room ? 2 * pool->room : least_room;
		void *grown = realloc(pool->items, (size_t)room * pool->size);

		if (!grown)
			return 0;
		pool->items = grown;
		pool->room = room;
	}
	return ++pool->count;
}

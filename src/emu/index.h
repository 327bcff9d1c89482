/* Items by number, and items named by an index. */
#ifndef TCMMA_EMU_INDEX_H
#define TCMMA_EMU_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_chunk;

/* Items begin with their number and stay where they are; empty places are NULL in `items`. */
struct emu_index {
	void **items;
	uint32_t count, buckets;
	struct emu_chunk *chunks; /* that the items lie in */
	uint32_t left;            /* items that the last one has room for */
};

/* The item of the number, zeroed and numbered where it is new; NULL without memory.  All items of
   an index have one size. */
void *emu_index_at(struct emu_index *index, uint64_t number, size_t size);
/* NULL where there is none. */
void *emu_index_find(const struct emu_index *index, uint64_t number);
/* With all its items. */
void emu_index_free(struct emu_index *index);

/* Items of one size, which move when there are more.  An index is one more than the place: 0 is
   none. */
struct emu_pool {
	void *items;
	uint32_t size; /* bytes of an item, at least 4 */
	uint32_t count, room, free;
};

/* 0 without memory; the item holds whatever it held. */
uint32_t emu_pool_take(struct emu_pool *pool);

static inline void *emu_pool_at(const struct emu_pool *pool, uint32_t index)
{
	return (char *)pool->items + (size_t)(index - 1) * pool->size;
}

/* Items that are not in use hold the next one. */
static inline void emu_pool_give(struct emu_pool *pool, uint32_t index)
{
	*(uint32_t *)emu_pool_at(pool, index) = pool->free;
	pool->free = index;
}

#endif

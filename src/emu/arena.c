/* Memory that is freed together, items by number and by index, and the names of the types. */
#include "machine.h"
#include "index.h"

#include <stdlib.h>

#define BLOCK_BYTES (64u << 10)

struct emu_arena_block {
	struct emu_arena_block *next;
	size_t used, size;
};

/* The header's size, rounded so that what follows is aligned. */
#define HEADER_BYTES ((sizeof(struct emu_arena_block) + 15) & ~(size_t)15)

void *emu_arena_alloc(struct emu_arena *arena, size_t size)
{
	struct emu_arena_block *block = arena->blocks;

	size = (size + 15) & ~(size_t)15;
	if (!size)
		size = 16;
	if (size > SIZE_MAX / 2 || (arena->limit && arena->used + size > arena->limit))
		return NULL;
	if (!block || block->size - block->used < size) {
		size_t room = size > BLOCK_BYTES / 4 ? size : BLOCK_BYTES;

		block = calloc(1, HEADER_BYTES + room);
		if (!block)
			return NULL;
		block->size = room;
		/* A block of one large object goes behind the one with room to spare. */
		if (room == size && arena->blocks) {
			block->next = arena->blocks->next;
			arena->blocks->next = block;
		} else {
			block->next = arena->blocks;
			arena->blocks = block;
		}
	}
	void *memory = (char *)block + HEADER_BYTES + block->used;

	block->used += size;
	arena->used += size;
	return memory;
}

char *emu_arena_text(struct emu_arena *arena, const char *text, size_t length)
{
	char *copy = emu_arena_alloc(arena, length + 1);

	if (copy)
		memcpy(copy, text, length);
	return copy;
}

void emu_arena_free(struct emu_arena *arena)
{
	struct emu_arena_block *block = arena->blocks;

	while (block) {
		struct emu_arena_block *next = block->next;

		free(block);
		block = next;
	}
	arena->blocks = NULL;
	arena->used = 0;
}

/* ---- items by number, in open addressing --------------------------------------------- */

enum {
	least_buckets = 64,
	least_items = 4,
	chunk_bytes = 32 << 10, /* about */
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

/* Many items at a time: the first ones are few. */
struct emu_chunk {
	struct emu_chunk *next;
	uint32_t count;
	_Alignas(16) char items[];
};

static void *new_item(struct emu_index *index, size_t size)
{
	struct emu_chunk *chunk = index->chunks;

	size = (size + 15) & ~(size_t)15;
	if (!index->left) {
		uint32_t count = chunk ? chunk->count : least_items;

		if (chunk && count * size < chunk_bytes)
			count *= 2;
		chunk = calloc(1, sizeof *chunk + count * size);
		if (!chunk)
			return NULL;
		chunk->next = index->chunks;
		chunk->count = count;
		index->chunks = chunk;
		index->left = count;
	}
	return chunk->items + (chunk->count - index->left--) * size;
}

void *emu_index_at(struct emu_index *index, uint64_t number, size_t size)
{
	void **at;

	if (!reserve(index))
		return NULL;
	at = slot(index->items, index->buckets, number);
	if (!*at) {
		*at = new_item(index, size);
		if (!*at)
			return NULL;
		*(uint64_t *)*at = number;
		index->count++;
	}
	return *at;
}

void *emu_index_find(const struct emu_index *index, uint64_t number)
{
	return index->buckets ? *slot(index->items, index->buckets, number) : NULL;
}

void emu_index_free(struct emu_index *index)
{
	for (struct emu_chunk *chunk = index->chunks, *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(index->items);
	*index = (struct emu_index){0};
}

/* ---- items by index ---------------------------------------------------------------------- */

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

/* ---- the names of the types --------------------------------------------------------------- */

const struct emu_type_info emu_types[EMU_T_COUNT] = {
#define EMU_TYPE(name, text, bits, class) {text, bits, class},
#include "types.def"
#undef EMU_TYPE
};

enum emu_type emu_type_named(const char *text, size_t length)
{
	for (int i = EMU_T_NONE + 1; i < EMU_T_COUNT; i++)
		if (strlen(emu_types[i].text) == length && !memcmp(emu_types[i].text, text, length))
			return (enum emu_type)i;
	return EMU_T_NONE;
}

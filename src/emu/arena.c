/* Memory that is freed together, and the names of the types. */
#include "machine.h"
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

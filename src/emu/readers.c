/*
 * Who has read a cell of global memory, where that is more than one: sets of reads.
 * Cells of a tile are read alike, so equal sets are one set, made of a read and
 * the set of the others.  A read that happened before a later one of the same
 * bytes is not kept: what comes behind the later one comes behind it too.
 */
#include "between.h"

#include <stdlib.h>

enum {
	most_compared = 64
};

struct reader {
	struct emu_touch touch;
	uint32_t others; /* set: 1 + index, 0: none */
};

struct emu_readers {
	struct reader *items;
	uint32_t count, room;
	uint32_t *table; /* 1 + index, by hash */
	uint32_t buckets;
	/* The last one that was asked for: cells follow each other. */
	struct emu_touch touch;
	uint32_t set, result;
};

struct emu_readers *emu_readers_new(void)
{
	return calloc(1, sizeof(struct emu_readers));
}

void emu_readers_free(struct emu_readers *readers)
{
	if (!readers)
		return;
	free(readers->items);
	free(readers->table);
	free(readers);
}

const struct emu_touch *emu_readers_next(const struct emu_readers *readers, uint32_t *set)
{
	const struct reader *reader = *set ? &readers->items[*set - 1] : NULL;

	if (!reader)
		return NULL;
	*set = reader->others;
	return &reader->touch;
}

static bool same(const struct emu_touch *a, const struct emu_touch *b)
{
	return a->cluster == b->cluster && a->kind == b->kind && a->scope == b->scope &&
	       a->epoch == b->epoch && a->site == b->site && a->who == b->who &&
	       a->bytes == b->bytes;
}

static uint32_t hash(const struct emu_touch *t, uint32_t others)
{
	uint64_t value = ((uint64_t)t->cluster << 32 | t->epoch) * 0x9e3779b97f4a7c15ull;

	value ^= ((uint64_t)t->site << 32 | (uint32_t)t->who << 16 | t->bytes) *
		 0xff51afd7ed558ccdull;
	value += others;
	return (uint32_t)((value * 0xc4ceb9fe1a85ec53ull) >> 32);
}

static bool more_buckets(struct emu_readers *r)
{
	uint32_t buckets = r->buckets ? 2 * r->buckets : 256;
	uint32_t *table = calloc(buckets, sizeof *table);

	if (!table)
		return false;
	for (uint32_t i = 0; i < r->count; i++) {
		uint32_t at = hash(&r->items[i].touch, r->items[i].others) & (buckets - 1);

		while (table[at])
			at = (at + 1) & (buckets - 1);
		table[at] = i + 1;
	}
	free(r->table);
	r->table = table;
	r->buckets = buckets;
	return true;
}

/* The set of the read and the others; 0 without memory. */
static uint32_t with(struct emu_readers *r, const struct emu_touch *touch, uint32_t others)
{
	uint32_t at;

	if (2 * r->count >= r->buckets && !more_buckets(r))
		return 0;
	at = hash(touch, others) & (r->buckets - 1);
	for (; r->table[at]; at = (at + 1) & (r->buckets - 1)) {
		const struct reader *reader = &r->items[r->table[at] - 1];

		if (reader->others == others && same(&reader->touch, touch))
			return r->table[at];
	}
	if (r->count == r->room) {
		uint32_t room = r->room ? 2 * r->room : 256;
		struct reader *grown = realloc(r->items, room * sizeof *grown);

		if (!grown)
			return 0;
		r->items = grown;
		r->room = room;
	}
	r->items[r->count++] = (struct reader){*touch, others};
	r->table[at] = r->count;
	return r->count;
}

static bool happened_before(const struct emu_order *order, const struct emu_touch *earlier)
{
	const struct emu_clock *clock = &order->now.clock[EMU_CLOCK_GENERIC];

	if (earlier->cluster != order->hazards->cluster->index + 1)
		clock = emu_known_of(order->now.known, earlier->cluster - 1, false);
	return clock && emu_clock_at(clock, earlier->who) >= earlier->epoch;
}

bool emu_readers_covers(const struct emu_order *order, const struct emu_touch *now,
			const struct emu_touch *earlier)
{
	if (earlier->bytes & ~now->bytes & 0xffff)
		return false;
	return (earlier->cluster == now->cluster && earlier->who == now->who) ||
	       happened_before(order, earlier);
}

/* The reads of the set that stay beside the new one; further ones than `most_compared` all do. */
static uint32_t uncovered(struct emu_readers *r, uint32_t set, const struct emu_touch *touch,
			  const struct emu_order *order)
{
	struct emu_touch kept[most_compared];
	uint32_t rest = set, count = 0, compared = 0;
	const struct emu_touch *earlier;

	while (compared < most_compared && (earlier = emu_readers_next(r, &rest))) {
		compared++;
		if (!emu_readers_covers(order, touch, earlier))
			kept[count++] = *earlier;
	}
	if (count == compared)
		return set;
	for (uint32_t i = count; i; i--)
		rest = with(r, &kept[i - 1], rest);
	return rest;
}

uint32_t emu_readers_add(struct emu_readers *r, uint32_t set, const struct emu_touch *touch,
			 const struct emu_order *order)
{
	if (r->result && r->set == set && same(&r->touch, touch))
		return r->result;
	r->set = set;
	r->touch = *touch;
	r->result = with(r, touch, uncovered(r, set, touch, order));
	return r->result;
}

uint32_t emu_readers_without(struct emu_readers *r, uint32_t set, uint16_t bytes)
{
	uint32_t kept = 0;
	const struct emu_touch *earlier;

	while (bytes != 0xffff && (earlier = emu_readers_next(r, &set))) {
		struct emu_touch touch = *earlier;

		if (touch.bytes & ~bytes & 0xffff)
			kept = with(r, &touch, kept);
	}
	return kept;
}

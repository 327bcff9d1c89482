/*
 * What L2 holds: the copies of all clusters that run at one time, interleaved, against a cache that
 * drops what has not been used while its size was filled anew.
 */
#include "compile.h"
#include "estimate.h"

#include <stdlib.h>
#include <string.h>

/* Enough for the first waves of a large grid; beyond it the share is taken for the whole. */
#define MAX_ACCESSES 200000

struct access {
	uint64_t tile;
	double bytes;
	bool store;
};

struct entry {
	uint64_t tile;
	double filled; /* bytes that had been filled when it was last used */
};

struct cache {
	struct kern *kern;
	struct arena *arena;
	struct walk *walks; /* one a role */
	int role_count;
	/* per resident CTA */
	struct access **list;
	int *count, *capacity;
	struct entry *entries;
	size_t entry_count; /* a power of two */
	double filled, loaded, missed, size;
	int64_t resident, total; /* clusters */
};

/* `part`: which one of a tile that CTAs divide. */
static uint64_t tile_of(struct walk *w, const struct ref *r, int part, int64_t unknown_id)
{
	int64_t key[TC_MAX_RANK + 3] = {r->alloc->id};

	key[TC_MAX_RANK + 2] = part;

	for (int i = 0; i < r->alloc->rank; i++) {
		struct known start = tc_walk_value(w, r->start[i]);

		key[i + 1] = start.i;
		if (!start.known)
			key[TC_MAX_RANK + 1] = unknown_id; /* nobody else's */
	}
	uint64_t hash = tc_hash(key, sizeof key, 0);
	return hash ? hash : 1;
}

static void add(struct cache *c, int slot, struct access a)
{
	if (c->count[slot] == c->capacity[slot]) {
		int capacity = c->capacity[slot] ? 2 * c->capacity[slot] : 64;
		struct access *list = tc_arena_alloc(c->arena, (size_t)capacity * sizeof *list);

		if (c->count[slot])
			memcpy(list, c->list[slot], (size_t)c->count[slot] * sizeof *list);
		c->list[slot] = list;
		c->capacity[slot] = capacity;
	}
	c->list[slot][c->count[slot]++] = a;
}

/* Of a multicast each CTA asks for a part; of a partitioned copy the destination is its part. */
double tc_own_bytes(struct walk *w, const struct copy_op *o)
{
	double bytes = (double)tc_ref_bytes(w, o->dst);
	bool shared = o->collective_axes && !o->partitioned;

	return shared ? bytes / tc_cluster_size(w->kern, o->collective_axes) : bytes;
}

static int64_t collect(struct cache *c, int slot, int64_t cluster, int rank)
{
	int64_t accesses = 0;

	c->count[slot] = 0;
	for (int r = 0; r < c->role_count; r++) {
		struct walk *w = &c->walks[r];
		const struct op *o;

		tc_walk_begin(w, cluster, rank);
		int64_t taken = cluster;

		while ((o = tc_walk_next(w))) {
			if (o->kind == OP_QUERY_CLUSTER_CANCEL) {
				/* Clusters that run together take over those that would follow. */
				taken = taken < 0 || taken + c->resident >= c->total
						? -1
						: taken + c->resident;
				tc_walk_answer(w, &o->u.query_cancel, taken);
				continue;
			}
			bool load = o->kind == OP_COPY_GMEM_TO_SMEM;

			if (!load && o->kind != OP_COPY_SMEM_TO_GMEM)
				continue;
			const struct copy_op *x = &o->u.copy;
			const struct ref *r_gmem = load ? x->src : x->dst;
			bool divided = load && x->collective_axes;
			double bytes = load ? tc_own_bytes(w, x) : (double)tc_ref_bytes(w, x->src);
			add(c, slot,
			    (struct access){tile_of(w, r_gmem, divided ? rank : 0,
						    cluster * 64 + ++accesses),
					    bytes, !load});
		}
	}
	return accesses;
}

/* The clusters of the first wave do all the work. */
static bool takes_over(const struct scope *s)
{
	bool found = false;

	for (const struct op *o = s->first; o && !found; o = o->next) {
		const struct scope *body[2] = {NULL, NULL};
		int bodies = tc_op_bodies(o, body);

		found = o->kind == OP_QUERY_CLUSTER_CANCEL;
		for (int i = 0; i < bodies && !found; i++)
			found = takes_over(body[i]);
	}
	return found;
}

static struct entry *find(struct cache *c, uint64_t tile)
{
	size_t i = tile & (c->entry_count - 1);

	while (c->entries[i].tile && c->entries[i].tile != tile)
		i = (i + 1) & (c->entry_count - 1);
	return &c->entries[i];
}

static void use(struct cache *c, const struct access *a)
{
	struct entry *e = find(c, a->tile);
	bool hit = e->tile && c->filled - e->filled < c->size;

	if (!hit)
		c->filled += a->bytes;
	if (!a->store) {
		c->loaded += a->bytes;
		c->missed += hit ? 0 : a->bytes;
	}
	e->tile = a->tile;
	e->filled = c->filled;
}

static void run_wave(struct cache *c, int ctas)
{
	bool any = true;

	for (int i = 0; any; i++) {
		any = false;
		for (int j = 0; j < ctas; j++)
			if (i < c->count[j]) {
				use(c, &c->list[j][i]);
				any = true;
			}
	}
}

double tc_estimate_misses(struct kern *k, struct err *err, struct arena *arena, double l2_bytes,
			  int64_t resident)
{
	int64_t steps = 40000000, total = tc_walk_clusters(k), accesses = 0;
	int ranks = tc_cluster_size(k, ~0u);
	struct cache c = {.kern = k, .arena = arena, .size = l2_bytes};

	resident = resident < total ? resident : total;
	c.resident = resident;
	c.total = total;
	c.role_count = k->roles.count;
	c.walks = tc_arena_alloc(arena, (size_t)(c.role_count + 1) * sizeof *c.walks);
	for (int i = 0; i < c.role_count; i++)
		tc_walk_init(&c.walks[i], k, err, arena, k->roles.item[i], &steps);
	size_t ctas = (size_t)resident * (size_t)ranks;
	c.list = tc_arena_alloc(arena, ctas * sizeof *c.list);
	c.count = tc_arena_alloc(arena, ctas * sizeof *c.count);
	c.capacity = tc_arena_alloc(arena, ctas * sizeof *c.capacity);
	c.entry_count = 1u << 19;
	c.entries = tc_arena_alloc(arena, c.entry_count * sizeof *c.entries);
	for (int64_t first = 0;
	     first < (takes_over(k->root) ? resident : total) && accesses < MAX_ACCESSES;
	     first += resident) {
		int n = (int)(total - first < resident ? total - first : resident);

		for (int j = 0; j < n; j++) {
			for (int rank = 0; rank < ranks; rank++)
				accesses += collect(&c, j * ranks + rank, first + j, rank);
			if (accesses > (int64_t)c.entry_count / 2)
				return c.loaded > 0 ? c.missed / c.loaded : 0;
		}
		run_wave(&c, n * ranks);
	}
	return c.loaded > 0 ? c.missed / c.loaded : 0;
}

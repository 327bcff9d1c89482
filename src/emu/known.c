/*
 * What a warp, or a barrier, knows of other clusters: for each that it has heard
 * of, what of that cluster has happened before.  Objects are shared by all that
 * know the same; one that others hold too is copied before it changes.
 */
#include "between.h"

#include <stdlib.h>

struct known_cluster {
	uint64_t cluster;
	struct emu_clock generic, global; /* EMU_CLOCK_GENERIC, EMU_CLOCK_ASYNC_GLOBAL */
};

struct emu_known {
	uint32_t references, count;
	struct known_cluster of[]; /* by cluster */
};

static struct emu_known *make(uint32_t count)
{
	struct emu_known *known = calloc(1, sizeof *known + count * sizeof *known->of);

	if (known)
		known->references = 1;
	return known;
}

void emu_known_drop(struct emu_known *known)
{
	if (!known || --known->references)
		return;
	for (uint32_t i = 0; i < known->count; i++) {
		free(known->of[i].generic.at);
		free(known->of[i].global.at);
	}
	free(known);
}

static struct emu_known *share(struct emu_known *known)
{
	if (known)
		known->references++;
	return known;
}

static void add(struct known_cluster *to, const struct emu_clock *generic,
		const struct emu_clock *global)
{
	emu_clock_join(&to->generic, generic);
	emu_clock_join(&to->global, global);
}

/* Index of the cluster, or where it belongs. */
static uint32_t place(const struct emu_known *known, uint64_t cluster)
{
	uint32_t low = 0, high = known ? known->count : 0;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (known->of[middle].cluster < cluster)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool has(const struct emu_known *known, uint32_t at, uint64_t cluster)
{
	return known && at < known->count && known->of[at].cluster == cluster;
}

/* One that nobody else holds, with an entry for the cluster; NULL without memory. */
static struct emu_known *own(struct emu_known *known, uint64_t cluster)
{
	uint32_t at = place(known, cluster), count = known ? known->count : 0;
	bool there = has(known, at, cluster);
	struct emu_known *copy;

	if (known && known->references == 1 && there)
		return known;
	copy = make(count + !there);
	if (!copy)
		return NULL;
	copy->count = count + !there;
	for (uint32_t i = 0; i < count; i++) {
		struct known_cluster *to = &copy->of[i + (!there && i >= at)];

		to->cluster = known->of[i].cluster;
		add(to, &known->of[i].generic, &known->of[i].global);
	}
	copy->of[at].cluster = cluster;
	emu_known_drop(known);
	return copy;
}

static bool covers(const struct emu_clock *clock, const struct emu_clock *other)
{
	for (uint32_t i = 0; i < other->count; i++)
		if (other->at[i] > emu_clock_at(clock, (uint16_t)i))
			return false;
	return true;
}

void emu_known_add(struct emu_known **known, uint64_t cluster, const struct emu_clock *generic,
		   const struct emu_clock *global)
{
	uint32_t at = place(*known, cluster);
	struct emu_known *mine;

	if (has(*known, at, cluster) && covers(&(*known)->of[at].generic, generic) &&
	    covers(&(*known)->of[at].global, global))
		return;
	mine = own(*known, cluster);
	if (!mine)
		return;
	add(&mine->of[place(mine, cluster)], generic, global);
	*known = mine;
}

void emu_known_join(struct emu_known **to, struct emu_known *from)
{
	if (!from || *to == from)
		return;
	if (!*to) {
		*to = share(from);
		return;
	}
	for (uint32_t i = 0; i < from->count; i++)
		emu_known_add(to, from->of[i].cluster, &from->of[i].generic, &from->of[i].global);
}

void emu_known_fence(struct emu_known **known)
{
	uint32_t count = *known ? (*known)->count : 0;

	for (uint32_t i = 0; i < count; i++) {
		struct emu_known *mine = own(*known, (*known)->of[i].cluster);

		if (!mine)
			return;
		*known = mine;
		emu_clock_join(&mine->of[i].global, &mine->of[i].generic);
	}
}

const struct emu_clock *emu_known_of(const struct emu_known *known, uint64_t cluster, bool proxy)
{
	uint32_t at = place(known, cluster);

	if (!has(known, at, cluster))
		return NULL;
	return proxy ? &known->of[at].global : &known->of[at].generic;
}

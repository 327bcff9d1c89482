/* Accesses that instructions make: whose they are, and where. */
#include "wide.h"

#include "between.h"
#include "lanes.h"
#include "shadow.h"
#include "units.h"

/* ---- whose an access is ------------------------------------------------------------- */

static void begin(struct emu_access *access, struct emu_order *order, int lane,
		  enum emu_access_kind kind, bool atomic)
{
	memset(access, 0, sizeof *access);
	access->order = order;
	access->moment.who = order->self;
	access->moment.epoch = emu_clock_at(&order->now.clock[EMU_CLOCK_GENERIC], order->self);
	access->kind = EMU_ACTOR_WARP;
	access->lane = lane < 0 ? EMU_ANY_LANE : (uint8_t)lane;
	access->write = kind != EMU_READ;
	access->defined = kind != EMU_WRITE;
	access->atomic = atomic;
	access->in_order = true;
	access->site = emu_site_of(order);
}

struct emu_access emu_access_by_warp(struct emu_order *order, int lane, enum emu_access_kind kind,
				     bool atomic)
{
	struct emu_access access;

	begin(&access, order, lane, kind, atomic);
	return access;
}

/* Copies that an mbarrier counts, and bulk copies, have no order among themselves. */
static bool keeps_order(enum emu_actor_kind actor)
{
	return actor == EMU_ACTOR_MMA || actor == EMU_ACTOR_WGMMA || actor == EMU_ACTOR_TMEM_LOAD ||
	       actor == EMU_ACTOR_TMEM_STORE || actor == EMU_ACTOR_CP_ASYNC;
}

struct emu_access emu_access_by(struct emu_order *order, enum emu_actor_kind actor, int lane,
				struct emu_moment moment, enum emu_access_kind kind)
{
	struct emu_access access = {.order = order,
				    .moment = moment,
				    .kind = (uint8_t)actor,
				    .lane = lane < 0 ? EMU_ANY_LANE : (uint8_t)lane,
				    .write = kind != EMU_READ,
				    .defined = kind != EMU_WRITE,
				    .atomic = kind == EMU_UPDATE,
				    .scope = kind == EMU_UPDATE ? EMU_SCOPE_GPU : EMU_SCOPE_NONE,
				    .in_order = keeps_order(actor),
				    .proxy = actor != EMU_ACTOR_CP_ASYNC,
				    .site = emu_site_of(order)};

	if (actor == EMU_ACTOR_TMEM_LOAD)
		access.also = order->tmem_store;
	if (actor == EMU_ACTOR_TMEM_STORE)
		access.also = order->tmem_load;
	return access;
}

/* ---- what stores change ------------------------------------------------------------------- */

#define KEEP(bytes)                                                                                \
	case bytes:                                                                                \
		EMU_FOR_LANES(l, s->mask)                                                          \
		{                                                                                  \
			memcpy(s->before + l * bytes, s->at[l], bytes);                            \
		}                                                                                  \
		break;

void emu_watch_keep(struct emu_stored *s)
{
	if (s->run) {
		memcpy(s->before, s->run, EMU_LANES * s->size);
		return;
	}
	switch (s->size) {
		KEEP(1)
		KEEP(2)
		KEEP(4)
		KEEP(8)
		KEEP(16)
		KEEP(32)
	}
}

uint32_t emu_stored_same(const struct emu_stored *s)
{
	uint32_t same = 0;

	EMU_FOR_LANES(l, s->mask)
	{
		const uint8_t *now = s->run ? s->run + l * s->size : s->at[l];

		if (!memcmp(s->before + l * s->size, now, s->size))
			same |= 1u << l;
	}
	return same;
}

/* ---- generic accesses --------------------------------------------------------------------- */

static struct emu_places *global_places(const struct emu_order *order)
{
	struct emu_between *between = order->warp->grid->between;

	return between ? emu_between_places(between) : order->hazards->places;
}

/* The same for all CTAs that name it. */
static uint64_t shared_place(const struct emu_cta *owner, uint32_t offset)
{
	return (uint64_t)owner->rank << EMU_SHARED_RANK | (EMU_SHARED_BASE + offset);
}

/* A strong access: what its place hands on. */
static void synchronise(const struct emu_access *access, enum emu_space space, uint64_t address,
			unsigned semantics, enum emu_access_kind kind)
{
	struct emu_order *order = access->order;
	struct emu_places *places = order->hazards->places;
	const struct emu_cta *owner;

	if (space == EMU_GENERIC)
		space = emu_generic_space(&address);
	if (space == EMU_GLOBAL) {
		places = global_places(order);
	} else if (space == EMU_SHARED || space == EMU_SHARED_CLUSTER) {
		owner = emu_shared_owner(order->warp->cta, (uint32_t)address);
		if (!owner)
			return;
		address = EMU_WINDOW_SHARED |
			  shared_place(owner,
				       ((uint32_t)address & EMU_SHARED_MASK) - EMU_SHARED_BASE);
	} else {
		return;
	}
	emu_strong_access(order, places, address, semantics, (enum emu_scope)access->scope, kind);
}

/* Strong accesses of which none synchronises, wherever they are. */
static bool idle(const struct emu_access *access, unsigned semantics, enum emu_access_kind kind)
{
	const struct emu_order *order = access->order;
	enum emu_scope scope = (enum emu_scope)access->scope;

	return emu_strong_idle(order, order->hazards->places, semantics, scope, kind) &&
	       emu_strong_idle(order, global_places(order), semantics, scope, kind);
}

static void one(struct emu_access *access, enum emu_space space, uint64_t address, uint32_t size)
{
	struct emu_cta *owner;

	if (space == EMU_GENERIC)
		space = emu_generic_space(&address);
	if (space == EMU_GLOBAL)
		emu_access_global(access, address, size);
	if (space != EMU_SHARED && space != EMU_SHARED_CLUSTER)
		return;
	owner = emu_shared_owner(access->order->warp->cta, (uint32_t)address);
	if (owner)
		emu_access_shared(access, owner,
				  ((uint32_t)address & EMU_SHARED_MASK) - EMU_SHARED_BASE, size);
}

/* Lanes from `first` on whose bytes follow each other. */
static uint32_t lanes_in_row(const uint64_t *address, uint32_t mask, uint32_t first, uint32_t size)
{
	uint64_t base = address[first] - (uint64_t)first * size;
	uint32_t end = first + 1;

	while (end < EMU_LANES && mask >> end & 1 && address[end] == base + (uint64_t)end * size)
		end++;
	return end - first;
}

static void watch_lane(struct emu_access *access, enum emu_space space, const uint64_t *address,
		       uint32_t lane, uint32_t size)
{
	access->lane = (uint8_t)lane;
	access->same = access->same_lanes >> lane & 1;
	one(access, space, address[lane], size);
}

/* Lanes that may race.  All are looked at before one of them is noted: what a lane writes hides
   what the next one races with. */
static void watch_each(struct emu_access *access, enum emu_space space, const uint64_t *address,
		       uint32_t lanes, uint32_t size)
{
	for (int looking = access->write && lanes & (lanes - 1); looking >= 0; looking--) {
		access->looking = looking;
		EMU_FOR_LANES(lane, lanes)
		{
			watch_lane(access, space, address, lane, size);
		}
	}
}

/* Lanes in one block. */
struct lanes_of_block {
	uint64_t block; /* address / EMU_BLOCK_BYTES */
	uint32_t lanes, units;
	/* A power of two apart: `first` and `shift` are as in struct emu_mark.  Else `lane` is of
	   the units. */
	int8_t first;
	uint8_t shift;
	uint8_t lane[EMU_BLOCK_UNITS];
};

/* How far all lanes of a warp are apart, a power of two and at least their size; 0 where they are
   not. */
static uint32_t apart_evenly(const uint64_t *address, uint32_t mask, uint32_t size)
{
	uint64_t step = address[1] - address[0], differs = 0;

	if (mask != EMU_FULL || step < size || step > EMU_BLOCK_BYTES / 2 || step & (step - 1))
		return 0;
	for (int l = 0; l < EMU_LANES; l++)
		differs |= address[l] ^ (address[0] + (uint64_t)l * step);
	return differs ? 0 : (uint32_t)step;
}

/* Units of `count` lanes from the beginning of a block on. */
static uint32_t even_units(uint32_t count, uint32_t step, uint32_t size)
{
	uint64_t units = (1u << size / 4) - 1, span = (count - 1) * step / 4 + size / 4;

	for (uint32_t shift = step / 4; shift < EMU_BLOCK_UNITS; shift *= 2)
		units |= units << shift;
	return (uint32_t)(units & ((1ull << span) - 1));
}

static void collect_even(struct lanes_of_block *b, const uint64_t *address, uint32_t mask,
			 uint32_t step, uint32_t size)
{
	uint32_t first = (uint32_t)emu_lowest(mask), at = address[first] % EMU_BLOCK_BYTES;
	uint32_t count = (EMU_BLOCK_BYTES - at + step - 1) / step;

	if (count > EMU_LANES - first)
		count = EMU_LANES - first;
	b->block = address[first] / EMU_BLOCK_BYTES;
	b->lanes = ((count < EMU_LANES ? 1u << count : 0) - 1) << first;
	b->units = even_units(count, step, size) << at / 4;
	b->shift = (uint8_t)__builtin_ctz(step);
	b->first = (int8_t)((int)first - (int)(at >> b->shift));
}

/* `size` bytes of a lane do not reach into another block. */
static inline void add_lane(struct lanes_of_block *b, uint64_t address, uint32_t lane,
			    uint32_t size)
{
	uint32_t first = address % EMU_BLOCK_BYTES / 4, count = size / 4;
	uint32_t units = ((1u << count) - 1) << first;

	for (uint32_t i = first; i < first + count; i++)
		b->lane[i] = b->units >> i & 1 ? EMU_SEVERAL_LANES : (uint8_t)lane;
	b->units |= units;
	b->lanes |= 1u << lane;
}

#define LANES_IN_BLOCK(name, attribute)                                                            \
	attribute static uint32_t name(const uint64_t *address, uint64_t block)                    \
	{                                                                                          \
		uint32_t lanes = 0;                                                                \
                                                                                                   \
		for (int l = 0; l < EMU_LANES; l++)                                                \
			lanes |= address[l] / EMU_BLOCK_BYTES == block ? 1u << l : 0;              \
		return lanes;                                                                      \
	}

LANES_IN_BLOCK(lanes_in_block, )
#if EMU_HAVE_WIDE
LANES_IN_BLOCK(lanes_in_block_wide, EMU_WIDE)
#else
#define lanes_in_block_wide lanes_in_block
#endif

/* All lanes, of which each has a word of the block. */
static void collect_words(struct lanes_of_block *b, const uint64_t *address)
{
	b->lanes = EMU_FULL;
	for (uint32_t l = 0; l < EMU_LANES; l++) {
		uint32_t unit = address[l] % EMU_BLOCK_BYTES / 4;

		b->lane[unit] = b->units >> unit & 1 ? EMU_SEVERAL_LANES : (uint8_t)l;
		b->units |= 1u << unit;
	}
}

/* All lanes of the first one's block: those that touch one word are looked at together. */
static inline void collect(struct lanes_of_block *b, const uint64_t *address, uint32_t mask,
			   uint32_t size)
{
	uint32_t lanes;

	b->block = address[emu_lowest(mask)] / EMU_BLOCK_BYTES;
	b->lanes = b->units = 0;
	lanes = mask &
		(emu_host_is_wide() ? lanes_in_block_wide : lanes_in_block)(address, b->block);
	if (size == 4 && lanes == EMU_FULL) {
		collect_words(b, address);
		return;
	}
	EMU_FOR_LANES(lane, lanes)
	{
		add_lane(b, address[lane], lane, size);
	}
}

static bool touch_lanes(struct emu_check *check, enum emu_space space,
			const struct lanes_of_block *b, bool even)
{
	uint64_t address = b->block * EMU_BLOCK_BYTES;

	if (space == EMU_GENERIC && emu_generic_space(&address) != check->spot.space)
		return false;
	check->access->same = false;
	check->lanes = !even && b->lanes & (b->lanes - 1) ? b->lane : NULL;
	check->lane = even ? b->first : (int8_t)emu_lowest(b->lanes);
	check->shift = even ? b->shift : EMU_ONE_LANE;
	return emu_access_units(check, check->spot.space, address, b->units);
}

/* Generic addresses point where the first one does, or each lane goes by itself. */
static enum emu_space space_of(enum emu_space space, uint64_t address)
{
	return space == EMU_GENERIC ? emu_generic_space(&address) : space;
}

/* Whether the first two lanes point to two blocks. */
static inline bool apart(const uint64_t *address, uint32_t mask)
{
	uint64_t first = address[emu_lowest(mask)], second = address[emu_lowest(mask & (mask - 1))];

	return first / EMU_BLOCK_BYTES != second / EMU_BLOCK_BYTES;
}

/* Lanes of the first block, or of the first ones that are quickly told; those that are left. */
static uint32_t watch_some(struct emu_check *check, enum emu_space space, const uint64_t *address,
			   uint32_t mask, uint32_t step, uint32_t size)
{
	struct emu_access *access = check->access;
	bool defined = access->defined, shared = emu_is_shared(check->spot.space);
	struct lanes_of_block b;

	if (!step && size == 4 && shared && mask & (mask - 1) && apart(address, mask))
		mask = emu_access_words(check, address, mask, space == EMU_GENERIC);
	if (!mask)
		return 0;
	if (step)
		collect_even(&b, address, mask, step, size);
	else if (size == 4)
		collect(&b, address, mask, 4);
	else
		collect(&b, address, mask, size);
	access->defined = defined && check->spot.space != EMU_GLOBAL;
	if (!touch_lanes(check, space, &b, step)) {
		access->defined = defined;
		watch_each(access, space, address, b.lanes, size);
	}
	access->defined = defined;
	return mask & ~b.lanes;
}

void emu_watch_access(struct emu_access *access, enum emu_space space, const uint64_t *address,
		      uint32_t mask, uint32_t size)
{
	uint32_t first = (uint32_t)emu_lowest(mask);
	uint32_t count = lanes_in_row(address, mask, first, size), step;
	uint32_t lanes = (count < EMU_LANES ? (1u << count) - 1 : EMU_FULL) << first;
	struct emu_check check;

	if (lanes == mask) {
		access->lane = (uint8_t)first;
		access->lane_bytes = count > 1 ? (uint8_t)size : 0;
		one(access, space, address[first], count * size);
	} else if (size < 4) {
		watch_each(access, space, address, mask, size);
	} else {
		check = emu_check_begin(access, space_of(space, address[first]));
		step = apart_evenly(address, mask, size);
		while (mask)
			mask = watch_some(&check, space, address, mask, step, size);
	}
}

static void begin_lanes(struct emu_access *access, struct emu_warp *warp, const struct emu_ins *ins,
			const struct emu_stored *stored, enum emu_access_kind kind)
{
	begin(access, warp->order, 0, kind, ins->semantics != EMU_WEAK);
	access->scope = ins->scope ? ins->scope : EMU_SCOPE_GPU;
	access->stored = stored;
}

void emu_watch_run(struct emu_warp *warp, const struct emu_ins *ins, uint64_t address,
		   const struct emu_stored *stored, uint32_t size, enum emu_access_kind kind)
{
	struct emu_access access;

	begin_lanes(&access, warp, ins, stored, kind);
	access.lane_bytes = (uint8_t)size;
	one(&access, (enum emu_space)ins->space, address, EMU_LANES * size);
}

void emu_watch_lanes(struct emu_warp *warp, const struct emu_ins *ins, const uint64_t *address,
		     uint32_t mask, const struct emu_stored *stored, uint32_t size,
		     enum emu_access_kind kind)
{
	enum emu_space space = (enum emu_space)ins->space;
	struct emu_access access;

	begin_lanes(&access, warp, ins, stored, kind);
	if (!ins->semantics || idle(&access, ins->semantics, kind)) {
		emu_watch_access(&access, space, address, mask, size);
		return;
	}
	/* What one lane acquires does not order the others. */
	EMU_FOR_LANES(lane, mask)
	{
		synchronise(&access, space, address[lane], ins->semantics, kind);
		watch_lane(&access, space, address, lane, size);
	}
}

void emu_watch_one(struct emu_warp *warp, int lane, enum emu_space space, uint64_t address,
		   uint32_t size, enum emu_access_kind kind)
{
	struct emu_access access = emu_access_by_warp(warp->order, lane, kind, false);

	if (space == EMU_SHARED || space == EMU_SHARED_CLUSTER)
		address = (uint32_t)address;
	if (kind != EMU_READ && warp->grid->between)
		emu_watch_before_write(warp, space, &address, 1, size);
	one(&access, space, address, size);
}

void emu_watch_map(struct emu_warp *warp, int lane, uint64_t address)
{
	struct emu_access access;

	if (emu_generic_space(&address) != EMU_GLOBAL)
		return;
	access = emu_access_by_warp(warp->order, lane, EMU_READ, false);
	access.map = true;
	access.in_order = false;
	emu_access_global(&access, address, 128);
}

void emu_watch_before_write(struct emu_warp *warp, enum emu_space space, const uint64_t *address,
			    uint32_t mask, uint32_t size)
{
	uint64_t kept = ~0ull;

	if (!*emu_between_footprints(warp->grid->between) || space == EMU_SHARED ||
	    space == EMU_SHARED_CLUSTER)
		return;
	EMU_FOR_LANES(l, mask)
	{
		uint64_t at = address[l];

		if (at / EMU_PAGE_BYTES == kept && (at + size - 1) / EMU_PAGE_BYTES == kept)
			continue;
		kept = at / EMU_PAGE_BYTES;
		if ((space == EMU_GENERIC ? emu_generic_space(&at) : space) == EMU_GLOBAL)
			emu_footprint_save(warp->grid, warp->order->hazards, at, size);
	}
}

/* ---- operations that one lane is meant to issue ----------------------------------------- */

static bool same_value(const struct emu_warp *warp, const struct emu_operand *operand, int a, int b)
{
	if (operand->kind == EMU_O_ADDRESS && operand->count == 1)
		return emu_address(warp, operand, a) == emu_address(warp, operand, b);
	for (uint32_t i = 0; i < operand->count; i++)
		if (!same_value(warp, &operand->items[i], a, b))
			return false;
	return operand->count || operand->kind == EMU_O_PREDICATE ||
	       emu_value(warp, operand, a) == emu_value(warp, operand, b);
}

void emu_watch_issue(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	int first = emu_lowest(mask), second = emu_lowest(mask & (mask - 1));
	struct emu_where where = emu_here(warp, second);

	for (uint32_t i = 0; i < ins->operand_count; i++)
		if (!same_value(warp, &ins->operands[i], first, second))
			return;
	emu_report_rule(&where, EMU_RULE_MANY_LANES, NULL,
			"%d lanes issue it, lanes %d and %d with the same operands",
			__builtin_popcount(mask), first, second);
}

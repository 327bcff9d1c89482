/* Accesses that instructions make: whose they are, and where. */
#include "between.h"
#include "shadow.h"

/* ---- whose an access is ------------------------------------------------------------- */

struct emu_access emu_access_by_warp(struct emu_order *order, int lane, enum emu_access_kind kind,
				     bool atomic)
{
	return (struct emu_access){.order = order,
				   .moment = emu_moment_of(order, EMU_ACTOR_WARP, 0),
				   .kind = EMU_ACTOR_WARP,
				   .lane = lane < 0 ? EMU_ANY_LANE : (uint8_t)lane,
				   .write = kind != EMU_READ,
				   .defined = kind != EMU_WRITE,
				   .atomic = atomic,
				   .in_order = true,
				   .site = emu_site_of(order)};
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

static void one(struct emu_access *access, enum emu_space space, uint64_t address, uint32_t size,
		unsigned semantics, enum emu_access_kind kind)
{
	struct emu_order *order = access->order;
	struct emu_cta *owner;
	uint32_t offset;

	if (space == EMU_GENERIC)
		space = emu_generic_space(&address);
	if (space == EMU_GLOBAL) {
		if (semantics)
			emu_strong_access(order, global_places(order), address, semantics,
					  (enum emu_scope)access->scope, kind);
		emu_access_global(access, address, size);
		return;
	}
	if (space != EMU_SHARED && space != EMU_SHARED_CLUSTER)
		return;
	owner = emu_shared_owner(order->warp->cta, (uint32_t)address);
	offset = ((uint32_t)address & EMU_SHARED_MASK) - EMU_SHARED_BASE;
	if (!owner)
		return;
	if (semantics)
		emu_strong_access(order, order->hazards->places,
				  EMU_WINDOW_SHARED | shared_place(owner, offset), semantics,
				  (enum emu_scope)access->scope, kind);
	emu_access_shared(access, owner, offset, size);
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

/* Lanes that follow each other in one block, in no order. */
struct lanes_of_block {
	uint64_t block; /* address / EMU_BLOCK_BYTES */
	uint32_t lanes, units;
	bool many; /* lanes to a unit */
	uint8_t lane[EMU_BLOCK_UNITS];
};

static void watch_lane(struct emu_access *access, const struct emu_ins *ins,
		       const uint64_t *address, uint32_t lane, uint32_t size,
		       enum emu_access_kind kind)
{
	access->lane = (uint8_t)lane;
	access->same = access->same_lanes >> lane & 1;
	one(access, (enum emu_space)ins->space, address[lane], size, ins->semantics, kind);
}

static void watch_block_of_lanes(struct emu_access *access, const struct emu_ins *ins,
				 const uint64_t *address, const struct lanes_of_block *b,
				 uint32_t size, enum emu_access_kind kind)
{
	enum emu_space space = (enum emu_space)ins->space;
	uint64_t at = b->block * EMU_BLOCK_BYTES;

	access->same = !(b->lanes & ~access->same_lanes);
	if (b->lanes & (b->lanes - 1) && size >= 4) {
		if (space == EMU_GENERIC)
			space = emu_generic_space(&at);
		if (emu_access_spread(access, space, at, b->units, b->lane, b->many))
			return;
	}
	EMU_FOR_LANES(lane, b->lanes)
	{
		watch_lane(access, ins, address, lane, size, kind);
	}
}

/* `size` bytes of a lane do not reach into another block. */
static void add_lane(struct lanes_of_block *b, uint64_t address, uint32_t lane, uint32_t size)
{
	uint32_t first = address % EMU_BLOCK_BYTES / 4, count = size < 4 ? 1 : size / 4;
	uint32_t units = ((1u << count) - 1) << first;

	b->many |= (b->units & units) != 0;
	b->units |= units;
	b->lanes |= 1u << lane;
	for (uint32_t i = 0; i < count; i++)
		b->lane[first + i] = (uint8_t)lane;
}

static void watch_spread(struct emu_access *access, const struct emu_ins *ins,
			 const uint64_t *address, uint32_t mask, uint32_t size,
			 enum emu_access_kind kind)
{
	struct lanes_of_block b = {.lanes = 0};

	EMU_FOR_LANES(lane, mask)
	{
		uint64_t block = address[lane] / EMU_BLOCK_BYTES;

		if (b.lanes && b.block != block) {
			watch_block_of_lanes(access, ins, address, &b, size, kind);
			b.lanes = b.units = b.many = 0;
		}
		b.block = block;
		add_lane(&b, address[lane], lane, size);
	}
	watch_block_of_lanes(access, ins, address, &b, size, kind);
}

void emu_watch_lanes(struct emu_warp *warp, const struct emu_ins *ins, const uint64_t *address,
		     uint32_t mask, uint32_t same, uint32_t size, enum emu_access_kind kind)
{
	struct emu_access access =
		emu_access_by_warp(warp->order, 0, kind, ins->semantics != EMU_WEAK);
	uint32_t first = (uint32_t)emu_lowest(mask), count, lanes;

	access.scope = ins->scope ? ins->scope : EMU_SCOPE_GPU;
	access.same_lanes = same;
	/* Each strong access synchronises at its own place. */
	if (ins->semantics) {
		EMU_FOR_LANES(lane, mask)
		{
			watch_lane(&access, ins, address, lane, size, kind);
		}
		return;
	}
	count = lanes_in_row(address, mask, first, size);
	lanes = (count < EMU_LANES ? (1u << count) - 1 : EMU_FULL) << first;
	if (lanes != mask) {
		watch_spread(&access, ins, address, mask, size, kind);
		return;
	}
	access.lane = (uint8_t)first;
	access.lane_bytes = count > 1 ? (uint8_t)size : 0;
	access.same = !(mask & ~same);
	one(&access, (enum emu_space)ins->space, address[first], count * size, EMU_WEAK, kind);
}

void emu_watch_one(struct emu_warp *warp, int lane, enum emu_space space, uint64_t address,
		   uint32_t size, enum emu_access_kind kind)
{
	struct emu_access access = emu_access_by_warp(warp->order, lane, kind, false);

	if (space == EMU_SHARED || space == EMU_SHARED_CLUSTER)
		address = (uint32_t)address;
	if (kind != EMU_READ && warp->grid->between)
		emu_watch_before_write(warp, space, &address, 1, size);
	one(&access, space, address, size, EMU_WEAK, kind);
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

/* ---- operands of the tensor cores --------------------------------------------------------------
 */

static const char *swizzle_name(uint8_t one_based)
{
	static const char *const names[] = {"no", "32B", "64B", "128B", "128B (32-byte atoms)"};

	return one_based <= sizeof names / sizeof *names ? names[one_based - 1] : "another";
}

static void swizzles_differ(struct emu_watched *w, uint32_t address, uint8_t written)
{
	struct emu_where where = emu_here(w->access.order->warp, -1);

	emu_report_rule(&where, EMU_RULE_SWIZZLE, NULL,
			"reads shared 0x%x of CTA rank %u with %s swizzle; a tensor copy wrote it "
			"with %s swizzle",
			address, w->cta->rank, swizzle_name(w->swizzle), swizzle_name(written));
	w->swizzle = 0;
}

static void watch_unit(void *context, uint32_t address)
{
	struct emu_watched *w = context;
	uint32_t offset = address - EMU_SHARED_BASE;
	uint8_t written;

	if (w->swizzle && offset < w->cta->shared_bytes) {
		written = emu_hazards_of_cta(w->cta)->swizzles[offset / EMU_CELL_BYTES];
		if (written && written != w->swizzle)
			swizzles_differ(w, address, written);
	}
	emu_access_shared(&w->access, w->cta, offset, EMU_CELL_BYTES);
}

/* Units that follow each other and lie in one block, which is looked at once. */
struct units_of_block {
	struct emu_watched *watched;
	struct emu_check check;
	uint32_t block, units;
	bool failed; /* a unit may race, or is not what it should be */
};

/* Bytes of `swizzles` that are neither 0 nor as the descriptor says. */
static bool swizzle_fits(const struct emu_watched *w, uint32_t block, uint32_t units)
{
	const uint8_t *written = emu_hazards_of_cta(w->cta)->swizzles + block * EMU_BLOCK_CELLS;

	for (uint32_t i = 0; i < EMU_BLOCK_CELLS; i++)
		if (units >> 4 * i & 1 && written[i] && written[i] != w->swizzle)
			return false;
	return true;
}

static void watch_block(struct units_of_block *u)
{
	struct emu_watched *w = u->watched;

	if (!u->units || u->failed)
		return;
	if ((u->block + 1) * EMU_BLOCK_BYTES > w->cta->shared_bytes ||
	    (w->swizzle && !swizzle_fits(w, u->block, u->units)) ||
	    !emu_block_touch(&u->check, &emu_hazards_of_cta(w->cta)->blocks[u->block], u->units))
		u->failed = true;
}

static void collect_unit(void *context, uint32_t address)
{
	struct units_of_block *u = context;
	uint32_t offset = address - EMU_SHARED_BASE;

	if (offset / EMU_BLOCK_BYTES != u->block) {
		watch_block(u);
		u->block = offset / EMU_BLOCK_BYTES;
		u->units = 0;
	}
	u->units |= 0xfu << offset % EMU_BLOCK_BYTES / 4;
}

void emu_watch_operand(struct emu_watched *w, const struct emu_smem_descriptor *descriptor,
		       bool mn_major, int element_bytes, int rows, int k_bytes)
{
	struct units_of_block u = {w, emu_check_begin(&w->access, EMU_SHARED), 0, 0, false};

	if (!w->access.moment.who)
		return;
	emu_operand_units(descriptor, mn_major, element_bytes, rows, k_bytes, collect_unit, &u);
	watch_block(&u);
	/* What has been noted before is noted once more. */
	if (u.failed)
		emu_operand_units(descriptor, mn_major, element_bytes, rows, k_bytes, watch_unit,
				  w);
}

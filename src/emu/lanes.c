/* Where the lanes of a memory instruction point: one check of all of them where that can be. */
#include "alu.h"
#include "lanes.h"
#include "later.h"

struct window {
	uint64_t base, size;
	uint8_t *host;
};

/* Memory of which each lane has its own. */
static bool of_each_lane(const struct emu_ins *ins)
{
	return ins->space == EMU_LOCAL || ins->space == EMU_PARAM_FUNCTION;
}

/* The allocation of the address, if it is one of the last few that the warp accessed. */
static const struct emu_allocation *recent_allocation(struct emu_warp *warp, uint64_t address)
{
	struct emu_allocation *hit = warp->hit;

	if (!hit || address - hit->address < hit->size)
		return hit;
	for (size_t i = 0; i < sizeof warp->recent / sizeof *warp->recent; i++) {
		struct emu_allocation *other = warp->recent[i];

		if (!other || address - other->address >= other->size)
			continue;
		warp->recent[i] = hit;
		warp->hit = other;
		return other;
	}
	return hit;
}

/* The piece of memory that holds the first address: most often that of all. */
static struct window guess_window(struct emu_warp *warp, enum emu_space *space, uint64_t address,
				  enum emu_access_kind kind)
{
	const struct emu_cta *cta = warp->cta;
	const struct emu_allocation *hit;
	struct window window = {0, 0, NULL};
	uint64_t base = emu_shared_base(cta);

	/* In the generic window the parameters lie elsewhere: slowly, then. */
	if (*space == EMU_GENERIC) {
		uint64_t inside = address;

		*space = emu_generic_space(&inside);
		if (*space == EMU_SHARED_CLUSTER)
			base += EMU_WINDOW_SHARED;
		if (*space == EMU_PARAM)
			return window;
	}
	switch (*space) {
	case EMU_SHARED:
	case EMU_SHARED_CLUSTER:
		return (struct window){base, cta->shared_bytes, cta->shared};
	case EMU_GLOBAL:
	case EMU_CONST:
		hit = recent_allocation(warp, address);
		if (hit && !hit->released && (kind == EMU_READ || !hit->read_only))
			return (struct window){hit->address, hit->size, hit->host};
		return window;
	case EMU_PARAM:
		if (kind == EMU_READ)
			return (struct window){0, warp->grid->param_bytes, warp->grid->params};
		return window;
	default:
		return window;
	}
}

/* ---- all lanes at once ------------------------------------------------------------------ */

/* The row of the base register, and which lanes are active, NULL where all are. */
struct bases {
	const uint64_t *wide;
	const uint32_t *narrow;
	uint64_t displacement, first; /* first: the address of the first active lane */
	const uint32_t *active;
};

/* False where the operand's base is no register. */
static bool take_bases(const struct emu_warp *warp, const struct emu_operand *operand, int first,
		       struct bases *bases)
{
	const struct emu_operand *base = &operand->items[0];

	*bases = (struct bases){.displacement = (uint64_t)operand->value};
	if (base->kind == EMU_O_REGISTER && base->bits == 64) {
		bases->wide = emu_row64(warp, base->ref);
		bases->first = bases->wide[first] + bases->displacement;
	} else if (base->kind == EMU_O_REGISTER) {
		bases->narrow = emu_row32(warp, base->ref);
		bases->first = (uint32_t)(bases->narrow[first] + (uint32_t)bases->displacement);
	} else {
		bases->first = emu_value(warp, base, first) + bases->displacement;
		return false;
	}
	return true;
}

/*
 * Pointers into a window for all lanes, and whether each lane's access lies in it, aligned.  Of a
 * window of less than 2^63 bytes, offset and limit - offset are both below 2^63 where it does.
 */
#define POINT(name, attribute)                                                                     \
	attribute static bool name(const struct bases *bases, const struct window *window,         \
				   uint32_t size, uint64_t *at)                                    \
	{                                                                                          \
		const uint64_t *wide = bases->wide, displacement = bases->displacement;            \
		const uint32_t *narrow = bases->narrow, *active = bases->active;                   \
		uint64_t first = bases->first, limit = window->size - size, base = window->base;   \
		uint64_t host = (uint64_t)(uintptr_t)window->host - base, outside = 0, low = 0;    \
                                                                                                   \
		if (wide && !active)                                                               \
			EACH_LANE(wide[l] + displacement)                                          \
		else if (wide)                                                                     \
			EACH_LANE(active[l] ? wide[l] + displacement : first)                      \
		else if (!active)                                                                  \
			EACH_LANE((uint32_t)(narrow[l] + (uint32_t)displacement))                  \
		else                                                                               \
			EACH_LANE((uint32_t)(active[l] ? narrow[l] + (uint32_t)displacement        \
						       : (uint32_t)first))                         \
		return size <= window->size && !(outside >> 63) && !(low & (size - 1));            \
	}
#define EACH_LANE(value)                                                                           \
	{                                                                                          \
		EMU_IVDEP                                                                          \
		for (int l = 0; l < EMU_LANES; l++) {                                              \
			uint64_t address = value, offset = address - base;                         \
                                                                                                   \
			at[l] = host + address;                                                    \
			outside |= offset | (limit - offset);                                      \
			low |= address;                                                            \
		}                                                                                  \
	}

/* Whether each lane points `size` bytes behind the one before it. */
#define FOLLOWS(name, attribute)                                                                   \
	attribute static bool name(const struct bases *bases, uint32_t size)                       \
	{                                                                                          \
		const uint64_t *wide = bases->wide;                                                \
		const uint32_t *narrow = bases->narrow;                                            \
		uint64_t wide_rest = wide ? (wide[1] - wide[0]) ^ size : 0;                        \
		uint32_t rest = narrow ? (narrow[1] - narrow[0]) ^ size : 0;                       \
                                                                                                   \
		if (wide_rest || rest)                                                             \
			return false;                                                              \
		for (int l = 1; wide && l < EMU_LANES - 1; l++)                                    \
			wide_rest |= (wide[l + 1] - wide[l]) ^ size;                               \
		for (int l = 1; narrow && l < EMU_LANES - 1; l++)                                  \
			rest |= (narrow[l + 1] - narrow[l]) ^ size;                                \
		return !wide_rest && !rest;                                                        \
	}

POINT(point, )
FOLLOWS(follows, )
#if EMU_HAVE_WIDE
POINT(point_wide, EMU_WIDE)
FOLLOWS(follows_wide, EMU_WIDE)
#else
#define point_wide   point
#define follows_wide follows
#endif

uint8_t *emu_resolve_run(struct emu_warp *warp, const struct emu_ins *ins, int i, uint32_t size,
			 enum emu_access_kind kind, struct emu_lanes *lanes)
{
	struct window window;
	struct bases bases;
	uint64_t offset, all = size;

	if (of_each_lane(ins))
		return NULL;
	lanes->same = !take_bases(warp, &ins->operands[i], 0, &bases);
	if (!lanes->same) {
		if (!(emu_host_is_wide() ? follows_wide : follows)(&bases, size))
			return NULL;
		all *= EMU_LANES;
	}
	lanes->space = (enum emu_space)ins->space;
	window = guess_window(warp, &lanes->space, bases.first, kind);
	offset = bases.first - window.base;
	if (window.size < all || offset > window.size - all || bases.first & (size - 1))
		return NULL;
	lanes->address[0] = bases.first;
	return window.host + offset;
}

/* ---- one lane after the other ------------------------------------------------------------- */

static bool resolve_each(struct emu_warp *warp, const struct emu_ins *ins, int i, uint32_t mask,
			 uint32_t size, enum emu_access_kind kind, struct emu_lanes *lanes)
{
	uint8_t *first;

	EMU_FOR_LANES(l, mask)
	{
		uint64_t address = emu_address(warp, &ins->operands[i], (int)l);

		lanes->at[l] = emu_mem(warp, (int)l, (enum emu_space)ins->space, address, size,
				       size, kind);
		if (!lanes->at[l])
			return false;
	}
	first = lanes->at[emu_lowest(mask)];
	EMU_FOR_LANES(l, ~mask)
	{
		lanes->at[l] = first;
	}
	return true;
}

/* Local memory at one place for all lanes, each in its own. */
static bool resolve_own(struct emu_warp *warp, uint64_t offset, uint32_t size,
			struct emu_lanes *lanes)
{
	if (size > warp->local_bytes || offset > warp->local_bytes - size || offset & (size - 1))
		return false;
	for (uint32_t l = 0; l < EMU_LANES; l++)
		lanes->at[l] = warp->local + (size_t)l * warp->local_bytes + offset;
	return true;
}

static bool resolve(struct emu_warp *warp, const struct emu_ins *ins, int i, uint32_t mask,
		    uint32_t size, enum emu_access_kind kind, struct emu_lanes *lanes)
{
	struct window window;
	struct bases bases;
	bool varies = take_bases(warp, &ins->operands[i], emu_lowest(mask), &bases);

	lanes->same = false;
	lanes->space = of_each_lane(ins) ? EMU_LOCAL : (enum emu_space)ins->space;
	if (of_each_lane(ins))
		return (!varies && resolve_own(warp, bases.first, size, lanes)) ||
		       resolve_each(warp, ins, i, mask, size, kind, lanes);
	window = guess_window(warp, &lanes->space, bases.first, kind);
	if (!varies)
		return resolve_each(warp, ins, i, mask, size, kind, lanes);
	if (mask != EMU_FULL)
		bases.active = emu_lane_mask(warp, mask);
	return (emu_host_is_wide() ? point_wide : point)(&bases, &window, size,
							 (uint64_t *)(void *)lanes->at) ||
	       resolve_each(warp, ins, i, mask, size, kind, lanes);
}

static void addresses(const struct emu_warp *warp, const struct emu_operand *operand,
		      uint64_t *address)
{
	struct bases bases;
	bool varies = take_bases(warp, operand, 0, &bases);
	const uint64_t *wide = bases.wide, displacement = bases.displacement;
	const uint32_t *narrow = bases.narrow;

	for (int l = 0; !varies && l < EMU_LANES; l++)
		address[l] = bases.first;
	for (int l = 0; wide && l < EMU_LANES; l++)
		address[l] = wide[l] + displacement;
	for (int l = 0; narrow && l < EMU_LANES; l++)
		address[l] = (uint32_t)(narrow[l] + (uint32_t)displacement);
}

bool emu_resolve(struct emu_warp *warp, const struct emu_ins *ins, int i, uint32_t mask,
		 uint32_t size, enum emu_access_kind kind, struct emu_lanes *lanes)
{
	if (!resolve(warp, ins, i, mask, size, kind, lanes))
		return false;
	if (!warp->order)
		return true;
	if (kind == EMU_READ && !ins->semantics && emu_is_shared(lanes->space) &&
	    emu_later_read(warp->order, lanes->at, mask, size))
		return true;
	addresses(warp, &ins->operands[i], lanes->address);
	if (kind != EMU_WRITE && !of_each_lane(ins))
		emu_watch_lanes(warp, ins, lanes->address, mask, NULL, size, kind);
	return true;
}

void emu_count_bytes(struct emu_warp *warp, enum emu_space space, uint64_t bytes, bool written)
{
	struct emu_counters *counters = &warp->worker->counters;

	if (space == EMU_GLOBAL)
		*(written ? &counters->global_written : &counters->global_read) += bytes;
	else if (space == EMU_SHARED || space == EMU_SHARED_CLUSTER)
		*(written ? &counters->shared_written : &counters->shared_read) += bytes;
}

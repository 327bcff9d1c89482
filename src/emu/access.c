/* Where an address leads: the one place that decides what memory may be touched. */
#include "machine.h"

static const char *const verbs[] = {"read", "write", "atomic update"};

static bool misaligned(uint64_t address, uint32_t align)
{
	return address & (align - 1);
}

static void *global_fault(struct emu_grid *grid, const struct emu_where *where, uint64_t address,
			  uint64_t size, enum emu_access_kind kind)
{
	struct emu_allocation *a = emu_nearest_allocation(grid->emu, address);
	unsigned long long at = address, bytes = size;

	if (!a || address - a->address > a->size + (1u << 20)) {
		emu_fault_at(where, "out-of-bounds",
			     "%s of %llu bytes at 0x%llx: nothing was ever allocated there",
			     verbs[kind], bytes, at);
	} else if (a->released && address - a->address < a->size) {
		emu_fault_at(where, "use-after-free",
			     "%s of %llu bytes at 0x%llx: in '%s', which was released", verbs[kind],
			     bytes, at, a->name);
	} else if (address - a->address >= a->size) {
		emu_fault_at(where, "out-of-bounds",
			     "%s of %llu bytes at 0x%llx: %llu bytes behind the end of '%s' (%llu "
			     "bytes at 0x%llx)",
			     verbs[kind], bytes, at,
			     (unsigned long long)(address - a->address - a->size), a->name,
			     (unsigned long long)a->size, (unsigned long long)a->address);
	} else if (size > a->size - (address - a->address)) {
		emu_fault_at(where, "out-of-bounds",
			     "%s of %llu bytes at 0x%llx reaches beyond the end of '%s' (%llu "
			     "bytes at 0x%llx)",
			     verbs[kind], bytes, at, a->name, (unsigned long long)a->size,
			     (unsigned long long)a->address);
	} else {
		emu_fault_at(where, "read-only", "%s of %llu bytes at 0x%llx: '%s' is constant",
			     verbs[kind], bytes, at, a->name);
	}
	return NULL;
}

void *emu_mem_global(struct emu_grid *grid, const struct emu_where *where, uint64_t address,
		     uint64_t size, uint32_t align, enum emu_access_kind kind)
{
	struct emu_allocation *a;

	if (misaligned(address, align)) {
		emu_fault_at(where, "misaligned",
			     "%s of %llu bytes at 0x%llx, which is not a multiple of %u",
			     verbs[kind], (unsigned long long)size, (unsigned long long)address,
			     align);
		return NULL;
	}
	a = emu_find_allocation(grid->emu, address);
	if (!a || a->released || size > a->size - (address - a->address) ||
	    (kind != EMU_READ && a->read_only))
		return global_fault(grid, where, address, size, kind);
	return a->host + (address - a->address);
}

struct emu_cta *emu_shared_owner(const struct emu_cta *cta, uint64_t address)
{
	uint64_t rank = address >> EMU_SHARED_RANK;

	return rank < (uint64_t)cta->cluster->cta_count ? cta->cluster->ctas[rank] : NULL;
}

void *emu_mem_shared(struct emu_cta *cta, const struct emu_where *where, uint64_t address,
		     uint32_t size, uint32_t align, enum emu_access_kind kind,
		     struct emu_cta **owner)
{
	struct emu_cta *target = emu_shared_owner(cta, address);
	uint64_t offset = (address & EMU_SHARED_MASK) - EMU_SHARED_BASE;

	if (owner)
		*owner = target;
	if (misaligned(address, align)) {
		emu_fault_at(
			where, "misaligned",
			"%s of %u bytes of shared memory at 0x%llx, which is not a multiple of %u",
			verbs[kind], size, (unsigned long long)address, align);
		return NULL;
	}
	if (!target) {
		emu_fault_at(where, "out-of-bounds",
			     "%s of %u bytes of shared memory at 0x%llx: the cluster has %d CTA%s, "
			     "not one of rank %llu",
			     verbs[kind], size, (unsigned long long)address,
			     cta->cluster->cta_count, cta->cluster->cta_count == 1 ? "" : "s",
			     (unsigned long long)(address >> EMU_SHARED_RANK));
		return NULL;
	}
	if (target->exited) {
		emu_fault_at(where, "exited-cta",
			     "%s of %u bytes of shared memory at 0x%llx: CTA %llu of the cluster "
			     "has exited",
			     verbs[kind], size, (unsigned long long)address,
			     (unsigned long long)(address >> EMU_SHARED_RANK));
		return NULL;
	}
	if ((address & EMU_SHARED_MASK) < EMU_SHARED_BASE || size > target->shared_bytes ||
	    offset > target->shared_bytes - size) {
		emu_fault_at(where, "out-of-bounds",
			     "%s of %u bytes of shared memory at 0x%llx: the CTA has 0x%x to 0x%x",
			     verbs[kind], size, (unsigned long long)address,
			     target->rank << EMU_SHARED_RANK | EMU_SHARED_BASE,
			     (target->rank << EMU_SHARED_RANK | EMU_SHARED_BASE) +
				     target->shared_bytes);
		return NULL;
	}
	return target->shared + offset;
}

enum emu_space emu_generic_space(uint64_t *address)
{
	uint64_t value = *address;

	if (value < EMU_WINDOW_SHARED || value >= EMU_WINDOW_END)
		return EMU_GLOBAL;
	*address = value & 0xffffffffu;
	switch (value >> 32) {
	case EMU_WINDOW_SHARED >> 32:
		return EMU_SHARED_CLUSTER;
	case EMU_WINDOW_LOCAL >> 32:
		return EMU_LOCAL;
	case EMU_WINDOW_PARAM >> 32:
		return EMU_PARAM;
	default:
		*address = value;
		return EMU_GLOBAL;
	}
}

bool emu_shared_address(struct emu_warp *warp, int lane, enum emu_space space, uint64_t *address)
{
	uint64_t value = *address;

	if (space != EMU_GENERIC) {
		*address &= 0xffffffffu;
		return true;
	}
	if (emu_generic_space(address) == EMU_SHARED_CLUSTER)
		return true;
	emu_fault(warp, lane, "wrong-space", "0x%llx is no address of shared memory",
		  (unsigned long long)value);
	return false;
}

static void *local(struct emu_warp *warp, int lane, uint64_t address, uint32_t size, uint32_t align,
		   enum emu_access_kind kind)
{
	if (misaligned(address, align)) {
		emu_fault(warp, lane, "misaligned",
			  "%s of %u bytes of local memory at 0x%llx, which is not a multiple of %u",
			  verbs[kind], size, (unsigned long long)address, align);
		return NULL;
	}
	if (size > warp->local_bytes || address > warp->local_bytes - size) {
		emu_fault(warp, lane, "out-of-bounds",
			  "%s of %u bytes of local memory at 0x%llx: the thread has %u bytes",
			  verbs[kind], size, (unsigned long long)address, warp->local_bytes);
		return NULL;
	}
	return warp->local + (size_t)lane * warp->local_bytes + address;
}

static void *param(struct emu_warp *warp, int lane, uint64_t address, uint32_t size, uint32_t align,
		   enum emu_access_kind kind)
{
	const struct emu_grid *grid = warp->grid;

	if (kind != EMU_READ) {
		emu_fault(warp, lane, "read-only", "%s of a kernel parameter", verbs[kind]);
		return NULL;
	}
	if (misaligned(address, align)) {
		emu_fault(warp, lane, "misaligned",
			  "read of %u bytes of the parameters at offset %llu, which is not a "
			  "multiple of %u",
			  size, (unsigned long long)address, align);
		return NULL;
	}
	if (size > grid->param_bytes || address > grid->param_bytes - size) {
		emu_fault(warp, lane, "out-of-bounds",
			  "read of %u bytes of the parameters at offset %llu; there are %u", size,
			  (unsigned long long)address, grid->param_bytes);
		return NULL;
	}
	return grid->params + address;
}

void *emu_mem(struct emu_warp *warp, int lane, enum emu_space space, uint64_t address,
	      uint32_t size, uint32_t align, enum emu_access_kind kind)
{
	struct emu_allocation *hit;
	struct emu_where where;

	if (space == EMU_GENERIC)
		space = emu_generic_space(&address);
	switch (space) {
	case EMU_SHARED:
	case EMU_SHARED_CLUSTER: {
		struct emu_cta *cta = warp->cta;
		uint64_t offset = address - emu_shared_base(cta);

		address = (uint32_t)address;
		if (size <= cta->shared_bytes && offset <= cta->shared_bytes - size &&
		    !misaligned(address, align))
			return cta->shared + offset;
		where = emu_here(warp, lane);
		if (space == EMU_SHARED && emu_shared_owner(cta, address) &&
		    emu_shared_owner(cta, address) != cta) {
			emu_fault_at(
				&where, "wrong-space",
				"%s at 0x%llx: shared memory of another CTA needs .shared::cluster",
				verbs[kind], (unsigned long long)address);
			return NULL;
		}
		return emu_mem_shared(cta, &where, address, size, align, kind, NULL);
	}
	case EMU_LOCAL:
	case EMU_PARAM_FUNCTION:
		return local(warp, lane, address, size, align, kind);
	case EMU_PARAM:
		return param(warp, lane, address, size, align, kind);
	default:
		break;
	}
	hit = warp->hit;
	if (hit && address - hit->address < hit->size &&
	    size <= hit->size - (address - hit->address) && !misaligned(address, align) &&
	    (kind == EMU_READ || !hit->read_only) && !hit->released)
		return hit->host + (address - hit->address);
	where = emu_here(warp, lane);
	void *host = emu_mem_global(warp->grid, &where, address, size, align, kind);

	if (host) {
		memmove(warp->recent + 1, warp->recent, sizeof warp->recent - sizeof *warp->recent);
		warp->recent[0] = warp->hit;
		warp->hit = emu_find_allocation(warp->grid->emu, address);
	}
	return host;
}

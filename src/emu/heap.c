/*
 * Global memory: addresses grow and are never used twice, so that an access to
 * what was released is recognised.  Large allocations are mapped between
 * inaccessible pages: a defect of the emulator itself then shows at once.
 */
#include "heap.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define DEFAULT_LIMIT   (64ull << 30)
#define DEFAULT_SMS     132
#define GAP             4096u
#define MAPPED_FROM     (1u << 20)
#define HUGE_PAGES_TO   (1u << 30) /* of larger ones little may be used */
#define MAX_ALLOCATIONS (16u << 20)
#define REMEMBERED      1024u /* released allocations */

static bool parse_target(const char *target, int *sm, char *suffix)
{
	char *end;

	if (strncmp(target, "sm_", 3))
		return false;
	*sm = (int)strtol(target + 3, &end, 10);
	*suffix = *end;
	return *sm >= 50 && *sm < 1000 && (!*end || ((*end == 'a' || *end == 'f') && !end[1]));
}

struct emu *emu_new(const struct emu_options *options, struct emu_error *error)
{
	struct emu *emu = calloc(1, sizeof *emu);
	int sm;
	char suffix;

	error->text[0] = 0;
	error->line = 0;
	if (!emu) {
		snprintf(error->text, sizeof error->text, "out of memory");
		return NULL;
	}
	if (options && options->target) {
		if (!parse_target(options->target, &sm, &suffix)) {
			snprintf(error->text, sizeof error->text,
				 "unknown device '%.40s'; a device is named like sm_90a or sm_100a",
				 options->target);
			free(emu);
			return NULL;
		}
		snprintf(emu->target, sizeof emu->target, "%s", options->target);
	}
	emu->memory_limit =
		options && options->memory_limit ? options->memory_limit : DEFAULT_LIMIT;
	emu->sm_count = options && options->sm_count > 0 ? options->sm_count : DEFAULT_SMS;
	emu->next_address = EMU_GLOBAL_BASE;
	pthread_mutex_init(&emu->lock, NULL);
	return emu;
}

/* sm_90 code runs on sm_90a; architecture-specific code on its own device alone. */
bool emu_target_runs(const struct emu_module *module, struct emu_error *error)
{
	const char *device = module->emu->target;
	int sm;
	char suffix;
	bool fine;

	if (!device[0] || !parse_target(device, &sm, &suffix))
		return true;
	if (module->sm_suffix == 'a')
		fine = module->sm == sm && suffix == 'a';
	else if (module->sm_suffix == 'f')
		fine = module->sm / 10 == sm / 10 && module->sm <= sm && suffix;
	else
		fine = module->sm <= sm;
	if (!fine)
		snprintf(error->text, sizeof error->text, "the module is for %s; the device is %s",
			 module->target, device);
	return fine;
}

static uint64_t page_up(uint64_t size)
{
	return (size + 4095) & ~4095ull;
}

static uint8_t *host_take(uint64_t size)
{
	uint8_t *memory;

	if (size < MAPPED_FROM) {
		memory = aligned_alloc(256, (size_t)((size + 255) & ~255ull));
		if (memory)
			memset(memory, 0, (size_t)size);
		return memory;
	}
	memory = mmap(NULL, (size_t)(page_up(size) + 8192), PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	if (mprotect(memory + 4096, (size_t)page_up(size), PROT_READ | PROT_WRITE)) {
		munmap(memory, (size_t)(page_up(size) + 8192));
		return NULL;
	}
#ifdef MADV_HUGEPAGE
	if (size <= HUGE_PAGES_TO)
		madvise(memory + 4096, (size_t)page_up(size), MADV_HUGEPAGE);
#endif
	return memory + 4096;
}

static void host_give(uint8_t *memory, uint64_t size)
{
	if (size < MAPPED_FROM)
		free(memory);
	else
		munmap(memory - 4096, (size_t)(page_up(size) + 8192));
}

void emu_free(struct emu *emu)
{
	if (!emu)
		return;
	for (size_t i = 0; i < emu->count; i++) {
		if (!emu->allocations[i]->released)
			host_give(emu->allocations[i]->host, emu->allocations[i]->size);
		free(emu->allocations[i]);
	}
	free(emu->allocations);
	pthread_mutex_destroy(&emu->lock);
	free(emu);
}

static bool grow(struct emu *emu)
{
	if (emu->count == emu->room) {
		size_t room = emu->room ? emu->room * 2 : 64;
		struct emu_allocation **list = realloc(emu->allocations, room * sizeof *list);

		if (!list)
			return false;
		emu->allocations = list;
		emu->room = room;
	}
	return emu->count < MAX_ALLOCATIONS;
}

static uint64_t take(struct emu *emu, uint64_t size, const char *name, struct emu_error *error)
{
	struct emu_allocation *allocation;

	if (!size || size > emu->memory_limit - emu->memory_used) {
		snprintf(error->text, sizeof error->text,
			 size ? "%llu bytes of global memory were asked for; %llu of %llu are free"
			      : "an allocation of %llu bytes",
			 (unsigned long long)size,
			 (unsigned long long)(emu->memory_limit - emu->memory_used),
			 (unsigned long long)emu->memory_limit);
		return 0;
	}
	allocation = calloc(1, sizeof *allocation);
	if (!allocation || !grow(emu) || !(allocation->host = host_take(size))) {
		free(allocation);
		snprintf(error->text, sizeof error->text,
			 "the host has no memory for %llu bytes of global memory",
			 (unsigned long long)size);
		return 0;
	}
	allocation->address = emu->next_address;
	allocation->size = size;
	snprintf(allocation->name, sizeof allocation->name, "%s", name ? name : "");
	emu->next_address += page_up(size) + GAP;
	emu->memory_used += size;
	emu->allocations[emu->count++] = allocation;
	return allocation->address;
}

uint64_t emu_alloc(struct emu *emu, uint64_t size, const char *name, struct emu_error *error)
{
	uint64_t address;

	pthread_mutex_lock(&emu->lock);
	address = take(emu, size, name, error);
	pthread_mutex_unlock(&emu->lock);
	return address;
}

/* The last allocation that starts at or below the address. */
static struct emu_allocation *below(struct emu *emu, uint64_t address)
{
	size_t low = 0, high = emu->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (emu->allocations[middle]->address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? emu->allocations[low - 1] : NULL;
}

struct emu_allocation *emu_find_allocation(struct emu *emu, uint64_t address)
{
	struct emu_allocation *found;

	pthread_mutex_lock(&emu->lock);
	found = below(emu, address);
	pthread_mutex_unlock(&emu->lock);
	return found && address - found->address < found->size ? found : NULL;
}

struct emu_allocation *emu_nearest_allocation(struct emu *emu, uint64_t address)
{
	struct emu_allocation *found;

	pthread_mutex_lock(&emu->lock);
	found = below(emu, address);
	pthread_mutex_unlock(&emu->lock);
	return found;
}

/* The oldest released allocations: their addresses are nobody's from now on. */
static void forget(struct emu *emu)
{
	size_t kept = 0;

	if (emu->running || emu->released <= REMEMBERED)
		return;
	for (size_t i = 0; i < emu->count; i++) {
		struct emu_allocation *a = emu->allocations[i];

		if (a->released && emu->released > REMEMBERED) {
			emu->released--;
			free(a);
		} else {
			emu->allocations[kept++] = a;
		}
	}
	emu->count = kept;
}

bool emu_release(struct emu *emu, uint64_t address)
{
	struct emu_allocation *allocation = emu_find_allocation(emu, address);

	if (!allocation || allocation->address != address || allocation->released)
		return false;
	pthread_mutex_lock(&emu->lock);
	host_give(allocation->host, allocation->size);
	allocation->host = NULL;
	allocation->released = true;
	emu->memory_used -= allocation->size;
	emu->released++;
	forget(emu);
	pthread_mutex_unlock(&emu->lock);
	return true;
}

void *emu_host(struct emu *emu, uint64_t address, uint64_t size)
{
	struct emu_allocation *allocation = emu_find_allocation(emu, address);

	if (!allocation || allocation->released || size > allocation->size ||
	    address - allocation->address > allocation->size - size)
		return NULL;
	return allocation->host + (address - allocation->address);
}

static void *host_or_error(struct emu *emu, uint64_t address, uint64_t size, const char *what,
			   struct emu_error *error)
{
	void *host = emu_host(emu, address, size);

	if (!host) {
		error->line = 0;
		snprintf(error->text, sizeof error->text,
			 "%s of %llu bytes at 0x%llx: not inside one allocation of global memory",
			 what, (unsigned long long)size, (unsigned long long)address);
	}
	return host;
}

bool emu_read(struct emu *emu, void *dst, uint64_t address, uint64_t size, struct emu_error *error)
{
	void *host = size ? host_or_error(emu, address, size, "read", error) : dst;

	if (host && size)
		memcpy(dst, host, (size_t)size);
	return host || !size;
}

bool emu_write(struct emu *emu, uint64_t address, const void *src, uint64_t size,
	       struct emu_error *error)
{
	void *host = size ? host_or_error(emu, address, size, "write", error) : NULL;

	if (host)
		memcpy(host, src, (size_t)size);
	return host || !size;
}

/*
 * Makes allocations fail: preloaded, it stands before malloc, calloc, realloc
 * and their like; required by Lua as "fail_malloc", it is armed and disarmed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static long countdown; /* allocations until the first failure; 0: disarmed */
static int lasting;    /* all after that one fail, too */
static long calls, live;
static int armed;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);

/* dlsym itself may call calloc before there is one. */
static char early[4096];
static size_t early_used;

static void find(void)
{
	*(void **)&real_calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&real_malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&real_realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&real_free = dlsym(RTLD_NEXT, "free");
}

static int fails(void)
{
	if (!armed)
		return 0;
	calls++;
	if (!countdown || (countdown > 1 && countdown--))
		return 0;
	if (!lasting)
		countdown = 0;
	errno = ENOMEM;
	return 1;
}

static int is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof early;
}

void *malloc(size_t size)
{
	if (!real_malloc)
		find();
	if (fails())
		return NULL;
	live++;
	return real_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	if (!real_calloc) {
		void *p = early + early_used;

		early_used += (n * size + 15) / 16 * 16;
		if (early_used > sizeof early)
			abort();
		return p;
	}
	if (fails())
		return NULL;
	live++;
	return real_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	if (!real_realloc)
		find();
	if (size && fails())
		return NULL;
	if (is_early(p)) {
		void *moved = malloc(size);

		return moved ? memcpy(moved, p, size) : NULL;
	}
	live += !p - (p && !size);
	return real_realloc(p, size);
}

void free(void *p)
{
	if (!real_free)
		find();
	if (!p || is_early(p))
		return;
	live--;
	real_free(p);
}

/* arm(n, lasting): the n-th allocation from here on fails; 0: none, only counting. */
static int arm(lua_State *L)
{
	long n = (long)luaL_checkinteger(L, 1);

	lasting = lua_toboolean(L, 2);
	countdown = n;
	calls = 0;
	armed = 1;
	return 0;
}

/* disarm() -> allocations since arm, blocks that are allocated now */
static int disarm(lua_State *L)
{
	long now = live;

	armed = 0;
	countdown = 0;
	lua_pushinteger(L, calls);
	lua_pushinteger(L, now);
	return 2;
}

int luaopen_fail_malloc(lua_State *L)
{
	static const luaL_Reg functions[] = {{"arm", arm}, {"disarm", disarm}, {NULL, NULL}};

	luaL_newlib(L, functions);
	return 1;
}

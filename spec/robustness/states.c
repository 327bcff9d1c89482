/*
 * Several Lua states in one process: each runs the script, and they are closed
 * first to last, last to first or in the middle of each other.
 * Usage: states CYCLES SCRIPT; prints the resident memory of the second half's
 * start and end, in KiB.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STATES 3

static lua_State *open(const char *script)
{
	lua_State *L = luaL_newstate();

	if (!L)
		exit(2);
	luaL_openlibs(L);
	if (luaL_dofile(L, script)) {
		fprintf(stderr, "%s\n", lua_tostring(L, -1));
		exit(1);
	}
	return L;
}

static long resident(void)
{
	long size, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
	static const int order[3][STATES] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
	int cycles = argc > 2 ? atoi(argv[1]) : 1;
	long before = 0;

	for (int i = 0; i < cycles; i++) {
		lua_State *states[STATES];

		if (i == cycles / 2)
			before = resident();
		for (int s = 0; s < STATES; s++)
			states[s] = open(argv[2]);
		for (int s = 0; s < STATES; s++)
			lua_close(states[order[i % 3][s]]);
	}
	printf("%ld %ld\n", before, resident());
	return 0;
}

/* Arrays bound to the arguments of a recorded kernel. */
#ifndef TCMMA_LUA_BIND_H
#define TCMMA_LUA_BIND_H

#include "lua_dev.h"

enum {
	TC_FEW = 12 /* arguments, named dimensions, parameters: up to so many need no userdata */
};

/* The arrays of one call and the sizes that they give to the named dimensions. */
struct binding {
	const struct kern *kern;
	struct array **arrays; /* `few`, or in a userdata on Lua's stack; so are the others */
	int64_t *dims;
	int *dim_args; /* the argument that gave it, 1-based */
	struct {
		struct array *arrays[TC_FEW];
		int64_t dims[TC_FEW];
		int dim_args[TC_FEW];
	} few;
	int64_t grid[TC_MAX_RANK]; /* as written: the last axis is CUDA's x */
	int first;                 /* index of the first argument */
};

/* Binds the arguments from index `first` on; may push a userdata that holds the tables. */
void tc_bind_arguments(lua_State *L, struct binding *b, struct kern *k, int first);
/* The parameters of the compiled kernel. */
void tc_bind_params(lua_State *L, struct run *r, const struct binding *b, const struct program *p);
/* CUDA's grid. */
void tc_bind_grid(lua_State *L, struct launch *l, const struct binding *b, const struct program *p);

#endif

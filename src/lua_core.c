/* luaopen_tcmma_core: one table with everything the C side offers. */
#include "lua_tc.h"

#if LUA_VERSION_NUM < 504
#error "tcmma needs Lua 5.4 or newer"
#endif

__attribute__((visibility("default"))) int luaopen_tcmma_core(lua_State *L);

/* Objects of one library in the hands of another would share neither devices nor arenas. */
static void refuse_second_library(lua_State *L)
{
	static const char library;

	if (lua_getfield(L, LUA_REGISTRYINDEX, "tcmma.library") == LUA_TNIL) {
		lua_pushlightuserdata(L, (void *)&library);
		lua_setfield(L, LUA_REGISTRYINDEX, "tcmma.library");
	} else if (lua_touserdata(L, -1) != &library) {
		luaL_error(L, "tcmma.core is loaded already in this Lua state, from another file "
			      "(one of two installations?)");
	}
	lua_pop(L, 1);
}

int luaopen_tcmma_core(lua_State *L)
{
	luaL_checkversion(L);
	refuse_second_library(L);
	lua_newtable(L);
	tc_open_class(L);
	tc_open_dtype(L);
	tc_open_device(L);
	tc_open_array(L);
	tc_open_host(L);
	tc_open_quantize(L);
	tc_open_module(L);
	tc_open_kernel(L);
	tc_open_launch(L);
	tc_open_ref(L);
	tc_open_barrier(L);
	tc_open_axis(L);
	tc_open_scalar(L);
	tc_open_control(L);
	tc_open_var(L);
	tc_open_fragment(L);
	tc_open_op(L);
	tc_open_schedule(L);
	return 1;
}

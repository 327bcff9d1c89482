-- Installation as a user does it: the rock into a temporary tree, offline; and what the built
-- module depends on.
local function run(command)
   local pipe = assert(io.popen(command .. " 2>&1; echo status=$?"))
   local text = pipe:read "a"
   pipe:close()
   return text:match "status=(%d+)%s*$" == "0", text
end

describe("installation", function()
   it("has a rockspec that lists every source", function()
      assert(run "lua5.4 tools/rockspec.lua --check")
   end)

   it("builds and loads as a rock in a fresh tree", function()
      if not run "command -v luarocks-5.4" then pending "luarocks-5.4 is not installed" return end
      local tree, source = os.tmpname(), os.tmpname()
      os.remove(tree) os.remove(source)
      assert(run(("mkdir -p %s && cp -r src lua docs examples LICENSE tcmma-scm-1.rockspec %s"):format(source, source)))
      local make = "luarocks-5.4 make --deps-mode=none --tree %s tcmma-scm-1.rockspec"
      local ok, log = run(("cd %s && CFLAGS='-O1 -fPIC' " .. make):format(source, tree))
      assert(ok, log)
      local script = [[
         package.path = "%s/share/lua/5.4/?.lua;%s/share/lua/5.4/?/init.lua"
         package.cpath = "%s/lib/lua/5.4/?.so"
         local tc = require "tcmma"
         assert(tc.float16.bits == 16)
         print(tc._VERSION)]]
      ok, log = run(("cd / && lua5.4 -e '%s'"):format(script:gsub("%%s", tree)))
      run(("rm -rf %s %s"):format(tree, source))
      assert(ok, log)
      assert.matches("tcmma", log)
   end)

   it("needs nothing of CUDA to load", function()
      local build = os.getenv "BUILD" or "build"
      local ok, log = run("ldd " .. build .. "/tcmma/core.so")
      assert(ok, log)
      assert.not_matches("cuda", log)
      assert.not_matches("nv", log)
   end)

   it("exports one symbol", function()
      local build = os.getenv "BUILD" or "build"
      local ok, log = run("nm -D --defined-only " .. build .. "/tcmma/core.so")
      assert(ok, log)
      local names = {}
      for name in log:gmatch " [TDBRVWuiI] ([%w_]+)" do
         if not name:match "^_" then names[#names + 1] = name end
      end
      assert.same({ "luaopen_tcmma_core" }, names)
   end)

   it("does not link what lacks a function", function()
      local folder = os.tmpname()
      os.remove(folder)
      assert(run(("mkdir -p %s/src/emu && cp Makefile %s"):format(folder, folder)))
      local function write(name, text)
         local f <close> = assert(io.open(folder .. "/src/" .. name, "w"))
         f:write(text)
      end
      write("emu/part.c", "#include <stdlib.h>\nvoid *emu_part(void);\nvoid *emu_part(void) { return malloc(1); }\n")
      local function make(called)
         write("core.c", ([[
            #include <lauxlib.h>
            #include <math.h>
            void *emu_part(void);
            void *%s(void);
            __attribute__((visibility("default"))) int luaopen_tcmma_core(lua_State *L);
            int luaopen_tcmma_core(lua_State *L)
            {
               lua_pushlightuserdata(L, %s());
               lua_pushlightuserdata(L, emu_part());
               lua_pushnumber(L, cos(lua_tonumber(L, 1)));
               return luaL_error(L, "%%d", 1);
            }
         ]]):format(called, called))
         return run(("make -C %s -s BUILD=out all"):format(folder))
      end
      local ok, log = make "emu_part_that_is_not_there"
      assert.is_false(ok)
      assert.matches("error: out/tcmma/core.so would lack emu_part_that_is_not_there, which nothing in src/ defines",
         log, 1, true)
      assert(not io.open(folder .. "/out/tcmma/core.so"))
      assert(make "emu_part")
      assert(make "emu_part") -- nothing to do
      run("rm -rf " .. folder)
   end)

   it("sets no global", function()
      local ok, log = run [[lua5.4 -e '
         local before = {}
         for k in pairs(_G) do before[k] = true end
         require "tcmma"
         for k in pairs(_G) do assert(before[k], k) end']]
      assert(ok, log)
   end)

   it("tells an older Lua what it needs", function()
      if not run "command -v lua5.1" then pending "lua5.1 is not installed" return end
      local _, log = run [[lua5.1 -e 'require "tcmma"']]
      assert.matches("tcmma needs Lua 5%.4 or newer, this is Lua 5%.1", log)
   end)
end)

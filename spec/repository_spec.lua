-- Rules of the source tree that a compiler does not check: who may know whom.
local function files(pattern)
   local pipe = assert(io.popen("ls " .. pattern .. " 2>/dev/null"))
   local list = {}
   for name in pipe:lines() do
      local file = assert(io.open(name))
      list[#list + 1] = { name = name, text = file:read "a" }
      file:close()
   end
   pipe:close()
   return list
end

local function includes(text)
   local list = {}
   for header in text:gmatch '#include%s+["<]([^">]+)[">]' do list[#list + 1] = header end
   return list
end

local function defined_symbols(pattern)
   local build = os.getenv "BUILD" or "build"
   local pipe = assert(io.popen("nm --defined-only " .. build .. "/" .. pattern .. " 2>/dev/null"))
   local set = {}
   for name in pipe:read("a"):gmatch " [TDBR] ([%w_]+)" do set[name] = true end
   pipe:close()
   return set
end

describe("the source tree", function()
   it("keeps lua.h at the border", function()
      for _, f in ipairs(files "src/*.c src/emu/*.c") do
         if not f.name:match "^src/lua_" then
            for _, h in ipairs(includes(f.text)) do
               local of_lua = h:match "^lua" or h == "lauxlib.h" or h == "lualib.h"
               assert.is_nil(of_lua or nil, f.name .. " includes " .. h)
            end
         end
      end
   end)

   it("keeps the emulator blind to the emitter", function()
      for _, f in ipairs(files "src/emu/*.c src/emu/*.h src/emu/*.def") do
         for _, h in ipairs(includes(f.text)) do
            local known = files("src/emu/" .. h)
            local system = f.text:match("#include <" .. h:gsub("%p", "%%%0") .. ">")
            assert(#known == 1 or system, f.name .. " includes " .. h .. ", which is not of src/emu")
         end
      end
   end)

   it("links the emulator without the core", function()
      local core = defined_symbols "obj/*.o"
      local build = os.getenv "BUILD" or "build"
      local pipe = assert(io.popen("nm -u " .. build .. "/libtcmma-emu.a"))
      for name in pipe:read("a"):gmatch "U ([%w_]+)" do
         assert.is_nil(core[name], "the emulator uses " .. name .. " of the core")
      end
      pipe:close()
   end)

   it("asks only device files about the emulator", function()
      for _, f in ipairs(files "src/*.c") do
         if f.text:match '#include "emu/' then
            assert(f.name:match "dev_emu%.c$" or f.name:match "lua_module%.c$" or f.name:match "lua_launch%.c$"
               or f.name:match "lua_report%.c$" or f.name:match "gpu%.c$", f.name .. " includes the emulator")
         end
      end
   end)

   it("declares CUDA's interface itself", function()
      for _, f in ipairs(files "src/*.c src/*.h") do
         for _, h in ipairs(includes(f.text)) do
            assert.is_nil(h:match "^cuda%.h" or h:match "^nv" or h:match "^cuda_runtime", f.name .. " includes " .. h)
         end
      end
   end)

   it("has files alone, no links", function()
      local pipe = assert(io.popen "git ls-files -s 2>/dev/null")
      for line in pipe:lines() do assert.not_matches("^120000", line) end
      pipe:close()
   end)

   it("keeps files readable", function()
      for _, f in ipairs(files "src/*.c src/*.h src/emu/*.c src/emu/*.h") do
         local _, lines = f.text:gsub("\n", "\n")
         assert(lines <= 900, f.name .. " has " .. lines .. " lines")
      end
   end)

   it("has every source on the map", function()
      local map = files("src/README.md")[1].text
      local core, emulator = map:match "(.-)\nThe emulator:\n(.*)"
      local function patterns(text)
         local list = {}
         for word in text:gmatch "[%w_/%*]+%.[ch]%f[%W]" do
            list[#list + 1] = "^" .. word:gsub("%.", "%%."):gsub("%*", ".*") .. "$"
         end
         return list
      end
      local function covered(pattern, folder, list)
         for _, f in ipairs(files(pattern)) do
            local name, found = f.name:sub(#folder + 1), false
            for _, p in ipairs(list) do found = found or name:match(p) ~= nil end
            assert(found, "src/README.md does not name " .. f.name)
         end
      end
      covered("src/*.c src/*.h", "src/", patterns(core))
      covered("src/emu/*.c src/emu/*.h", "src/emu/", patterns(emulator))
   end)

   it("leaves nothing for later in the text", function()
      for _, f in ipairs(files "src/*.c src/*.h src/emu/*.c src/emu/*.h lua/tcmma/*.lua") do
         for _, word in ipairs { "TO" .. "DO", "FIX" .. "ME", "XX" .. "X" } do
            assert.is_nil(f.text:find("%f[%w]" .. word .. "%f[%W]"), f.name .. " says " .. word)
         end
      end
   end)
end)

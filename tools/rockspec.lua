-- Writes tcmma-scm-1.rockspec: the list of sources stands in the tree, not in two files.
-- `lua5.4 tools/rockspec.lua --check` fails when the rockspec is stale.
local function list(pattern)
   local pipe = assert(io.popen("ls " .. pattern))
   local names = {}
   for name in pipe:lines() do names[#names + 1] = name end
   pipe:close()
   return names
end

local out = {}
local function put(fmt, ...) out[#out + 1] = fmt:format(...) end

put [[
rockspec_format = "3.0"
package = "tcmma"
version = "scm-1"
source = { url = "." }
description = {
   summary = "Prototyping of tensor-core kernels: recorded in Lua, checked, emitted as PTX, emulated",
   detailed = "A script allocates tensor memory, shared memory and barriers, records copies and MMAs in " ..
      "warp-specialised roles, and calls the result. It runs on Blackwell (tcgen05), and with no GPU on an " ..
      "emulator that executes the emitted PTX.",
   license = "MIT",
   labels = { "gpu", "cuda", "compiler" },
}
dependencies = { "lua >= 5.4, < 5.6" }
test_dependencies = { "busted >= 2.1" }
supported_platforms = { "linux" }
build = {
   type = "builtin",
   modules = {]]
for _, name in ipairs(list "lua/tcmma/*.lua") do
   local module = name:match "([%w_]+)%.lua$"
   if module ~= "meta" then
      put('      ["%s"] = "%s",', module == "init" and "tcmma" or "tcmma." .. module, name)
   end
end
put [[
      ["tcmma.core"] = {
         defines = { "_GNU_SOURCE" },
         incdirs = { "src", "src/emu" },
         libraries = { "m", "dl", "pthread" },
         sources = {]]
for _, name in ipairs(list "src/*.c src/emu/*.c") do put('            "%s",', name) end
put [[
         },
      },
   },
   install = { lua = { ["tcmma.meta"] = "lua/tcmma/meta.lua" } },
   copy_directories = { "docs", "examples" },
}
test = { type = "busted", flags = { "--exclude-tags=gpu,slow" } }]]

local text = table.concat(out, "\n") .. "\n"
local path = "tcmma-scm-1.rockspec"
if arg[1] == "--check" then
   local file = io.open(path)
   local old = file and file:read "a"
   if file then file:close() end
   if old ~= text then
      io.stderr:write(path, " is stale: run lua5.4 tools/rockspec.lua\n")
      os.exit(1)
   end
else
   local file = assert(io.open(path, "w"))
   file:write(text)
   file:close()
end

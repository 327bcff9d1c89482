-- Speed on this machine: loading the module, recording and emitting against assembling, and the
-- emulator (emulator.lua). Medians, each with the number of runs; of the emulator the shortest run.
local tc = require "tcmma"

local build_dir = os.getenv "BUILD" or "build"
local lua = os.getenv "LUA" or "lua5.4"

local function median(list)
   table.sort(list)
   local n = #list
   return n % 2 == 1 and list[(n + 1) // 2] or (list[n // 2] + list[n // 2 + 1]) / 2
end

local function time(n, f)
   local list = {}
   for i = 1, n do
      local start = tc.clock()
      f()
      list[i] = tc.clock() - start
   end
   return median(list)
end

local function row(what, fmt, ...)
   print(("%-58s %s"):format(what, fmt:format(...)))
end

-- require: a whole process with and without it, in turn.
local with, without = {}, {}
for i = 1, 31 do
   local start = tc.clock()
   os.execute(lua .. " -e ''")
   without[i] = tc.clock() - start
   start = tc.clock()
   os.execute(lua .. " -e 'require \"tcmma\"'")
   with[i] = tc.clock() - start
end
row("require, over bare Lua (31 processes each, in turn)", "%.2f ms", (median(with) - median(without)) * 1e3)
local size = io.popen("stat -c %s " .. build_dir .. "/tcmma/core.so"):read "n"
local copy = os.tmpname()
os.execute(("strip -o %s %s/tcmma/core.so"):format(copy, build_dir))
local stripped = io.popen("stat -c %s " .. copy):read "n"
os.remove(copy)
row("size of core.so, as built / stripped", "%.2f / %.2f MB", size / 1e6, stripped / 1e6)

local build = dofile "examples/04_matmul_tiled_epilogue.lua"
local record = time(51, function() build(512, 512, 512) end)
local emit = time(51, function() build(512, 512, 512):ptx { target = "sm_100a" } end)
row("record a pipelined matmul / record and emit (51 runs)", "%.3f / %.3f ms", record * 1e3, emit * 1e3)
local text = build(512, 512, 512):ptx { target = "sm_100a" }
tc.config.cache = false -- assemble each time
local ok, message = tc.ptx(text):cubin { target = "sm_100a" }
if ok then
   local assemble = time(11, function() tc.ptx(text):cubin { target = "sm_100a" } end)
   row("assemble the same PTX with nvJitLink (11 runs)", "%.1f ms: record + emit is %.2f %% of it", assemble * 1e3,
      emit / assemble * 100)
else
   row("assemble", "not run: %s", message)
end

local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
dofile(here .. "emulator.lua")

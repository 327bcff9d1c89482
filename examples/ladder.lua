-- The first steps of the Blackwell matmul ladder side by side. Each result is compared with a product
-- in double precision; a wrong one ends the program with status 1.
local tc = require "tcmma"
local here = debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./"
local support = dofile(here .. "support.lua")

local steps = {
   { "0 basic", "02_matmul_basic.lua" },
   { "1 warp specialisation", "03_matmul_warp_specialized.lua" },
   { "2 tiled epilogue", "04_matmul_tiled_epilogue.lua" },
}

local M, N, K = support.sizes(512, 512, 512)
print(("f16 matmul %dx%dx%d on %s\n"):format(M, N, K, tc.device().name))
print(("%-24s %10s %14s %14s  %s"):format("step", "time", "largest error", "relative", "result"))
local all_ok = true
for _, step in ipairs(steps) do
   local kernel = dofile(here .. step[2])(M, N, K)
   local result = support.check(kernel, M, N, K)
   all_ok = all_ok and result.ok
   print(("%-24s %7.1f ms %14.2e %14.2e  %s"):format(step[1], result.seconds * 1e3, result.error,
      result.relative, result.ok and "correct" or "WRONG"))
end
if tc.device().name:match "^emulator" then
   print "\nThe emulator executes the emitted PTX on the CPU: its times say nothing about a GPU."
end
os.exit(all_ok)

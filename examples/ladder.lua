-- The steps of the Blackwell matmul ladder side by side, with what each is estimated to reach on a B200 at
-- 4096 x 8192 x 4096 (k:info; docs/performance.md has the published figures). Each result is compared with a product
-- in double precision; a wrong one ends the program with status 1.
local tc = require "tcmma"
local here = debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./"
local support = dofile(here .. "support.lua")

local steps = {
   { "0 basic", "02_matmul_basic.lua" },
   { "1 warp specialisation", "03_matmul_warp_specialized.lua" },
   { "2 tiled epilogue", "04_matmul_tiled_epilogue.lua" },
   { "3 two CTAs an MMA", "10_matmul_collective.lua" },
   { "4 persistent", "11_matmul_persistent.lua" },
   { "5 overlapped epilogue", "12_matmul_overlapped.lua" },
   { "6 tiles in a snake", "13_matmul_snake.lua" },
}

-- Percent of the peak, by the model behind k:info.
local function estimate(build)
   local e = build(4096, 8192, 4096):info { target = "sm_100a" }.estimate
   return e and ("%9.1f %%"):format(100 * e.utilization) or "        - "
end

local M, N, K = support.sizes(512, 512, 512)
print(("f16 matmul %dx%dx%d\n"):format(M, N, K))
print(("%-24s %-17s %10s %14s %10s %11s  %s"):format("step", "device", "time", "largest error", "relative",
   "estimate", "result"))
local all_ok = true
for _, step in ipairs(steps) do
   local build = dofile(here .. step[2])
   local result = support.check(build(M, N, K), M, N, K)
   all_ok = all_ok and result.ok
   -- Steps 3 to 6 change to an emulated Blackwell where there is none.
   print(("%-24s %-17s %7.1f ms %14.2e %10.2e %s  %s"):format(step[1], tc.device().name, result.seconds * 1e3,
      result.error, result.relative, estimate(build), result.ok and "correct" or "WRONG"))
end
if tc.device().name:match "^emulator" then
   print "\nThe emulator executes the emitted PTX on the CPU: its times say nothing about a GPU."
end
os.exit(all_ok)

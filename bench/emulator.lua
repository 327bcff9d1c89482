-- Speed of the emulator on one core, modes fast and check:
--   lua bench/emulator.lua [part of a name] [runs]
-- Both modes in turn; the shortest of the runs counts: whatever else the machine does only adds to it.
local tc = require "tcmma"

local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local kernels = dofile(here .. "emulator_kernels.lua")

local wanted, runs = arg and arg[1] or "", tonumber(arg and arg[2]) or 7

local function row(what, fmt, ...)
   print(("%-58s %s"):format(what, fmt:format(...)))
end

local function shortest(f)
   local best = { fast = math.huge, check = math.huge }
   for _ = 1, runs do
      for mode, seconds in pairs(best) do
         local start = os.clock()
         f(mode)
         best[mode] = math.min(seconds, os.clock() - start)
      end
   end
   return best
end

local function rate(case)
   local module, why = tc.cuda(case.source, { target = "sm_90a" })
   if not module then return row(case.name, "not run: %s", why) end
   local args, kernel, report = case.args(), module:kernel "run", nil
   local seconds = shortest(function(mode)
      report = kernel:emulate {
         grid = { case.grid or 32 }, block = { 256 }, args = args, mode = mode, threads = 1,
      }
      assert(#report.hazards == 0, case.name)
   end)
   local millions = report.counters.warp_instructions / 1e6
   row(case.name, "%.1f M warp-instructions/s, check %.1f (%.2f)", millions / seconds.fast, millions / seconds.check,
      seconds.fast / seconds.check)
   return { millions = millions, fast = seconds.fast, check = seconds.check }
end

tc.device("emulator:sm_90a"):use()
local millions, fast, check, ratios, count = 0, 0, 0, 0, 0
for _, case in ipairs(kernels) do
   local of = case.name:find(wanted, 1, true) and rate(case)
   if of then
      millions, fast, check = millions + of.millions, fast + of.fast, check + of.check
      ratios, count = ratios + math.log(of.fast / of.check), count + 1
   end
end
if count > 1 then
   row("all together", "%.1f M warp-instructions/s, check %.1f (%.2f; mean of the ratios %.2f)", millions / fast,
      millions / check, fast / check, math.exp(ratios / count))
end

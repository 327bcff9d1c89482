-- Where a pipeline waits: traces of ladder steps 1 and 2 on the emulator, in emulated time. Step 1 loads its
-- whole result at once and stores it once; step 2 cuts it into pieces, and copies out while it converts.
-- The files are for https://ui.perfetto.dev; the table says what stands in them.
-- Usage: lua5.4 examples/06_pipeline_bubbles.lua [FOLDER], by default /tmp
local tc = require "tcmma"
local json = require "tcmma.json"
local here = debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./"

local M, N, K = 128, 256, 1024

-- Sums of a trace's slices of CTA (0, 0, 0), and when the last of them ends: microseconds.
local function measure(text)
   local names, sums, last, first_mma, last_mma = {}, {}, 0, math.huge, 0
   for _, e in ipairs(json.decode(text).traceEvents) do
      if e.name == "thread_name" then names[e.tid] = e.args.name end
      if e.ph == "X" and e.pid == 1 then
         local key = names[e.tid] .. " " .. e.cat
         sums[key] = (sums[key] or 0) + e.dur
         last = math.max(last, e.ts + e.dur)
         if names[e.tid] == "tensor core" then
            first_mma, last_mma = math.min(first_mma, e.ts), math.max(last_mma, e.ts + e.dur)
         end
      end
   end
   return sums, last, first_mma, last_mma
end

local folder = arg and arg[1] or "/tmp"
print(("%-26s %9s %12s %10s %12s %14s %11s"):format("f16 128x256x1024, one CTA", "us", "tensor core", "to 1st MMA",
   "in the loop", "after the last", "copies out"))
local ok = true
for step, name in ipairs { "03_matmul_warp_specialized", "04_matmul_tiled_epilogue" } do
   local kernel = dofile(here .. name .. ".lua")(M, N, K)
   local a, b = tc.randn({ M, K }, tc.float16, { seed = 1 }), tc.randn({ K, N }, tc.float16, { seed = 2 })
   local out = tc.empty({ M, N }, tc.float16)
   local report = kernel:emulate({ target = "sm_100a", trace = true }, a, b, out)
   ok = ok and #report.hazards == 0 and tc.allclose(out, tc.reference.matmul(a, b), { rtol = 2e-3, atol = 2e-2 })
   report:trace(("%s/ladder_step_%d.json"):format(folder, step))
   local sums, last, first_mma, last_mma = measure(report.trace_text)
   local busy = sums["tensor core engine"]
   print(("%-26s %9.2f %10.1f %% %10.2f %12.2f %14.2f %11.2f"):format("step " .. step, last, 100 * busy / last,
      first_mma, last_mma - first_mma - busy, last - last_mma, sums["copies out engine"]))
end
print(("\nThe four right columns are microseconds; the tensor core idles in the first three. Traces: "
   .. "%s/ladder_step_1.json and _2.json. Results: %s"):format(folder, ok and "correct" or "WRONG"))
os.exit(ok)

-- Speed on this machine: loading the module, recording and emitting against assembling, and the
-- emulator. Medians; each figure says of how many runs.
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

local function matmul(n, runs)
   local kernel = build(n, n, n)
   local a = tc.randn({ n, n }, tc.float16, { seed = 1 })
   local b = tc.randn({ n, n }, tc.float16, { seed = 2 })
   local out = tc.empty({ n, n }, tc.float16)
   kernel(a, b, out)
   local report
   local seconds = time(runs, function() report = kernel:emulate({ mode = "fast" }, a, b, out) end)
   row(("emulator, %d^3 f16 matmul, fast, one core (%d runs)"):format(n, runs),
      "%.3f s, %.1f GFLOP/s of MMA, %.2f M warp-instructions", seconds,
      report.counters.mma_flops / seconds / 1e9, report.counters.warp_instructions / 1e6)
end

tc.device("emulator:sm_100a"):use()
matmul(512, 5)
matmul(1024, 3)

local source = [[
extern "C" __global__ void mix(const float *x, float *y, int n)
{
   int i = blockIdx.x * blockDim.x + threadIdx.x;
   __shared__ float s[256];
   float v = x[i];
   for (int k = 0; k < n; k++) {
      s[threadIdx.x] = v;
      unsigned h = (unsigned)i * 2654435761u + (unsigned)k;
      h ^= h >> 13;
      v = fmaf(v, 0.999f, (float)(h & 255) * 0.001f) + s[threadIdx.x ^ 1] * 0.5f;
      v = v > 100.0f ? v - 100.0f : v;
   }
   y[i] = v;
}]]
local module, why = tc.cuda(source, { target = "sm_100a" })
if module then
   local x, y = tc.rand({ 8192 }, tc.float32, { seed = 1 }), tc.empty({ 8192 }, tc.float32)
   local mix, report = module:kernel "mix", nil
   local seconds = time(5, function()
      report = mix:emulate { grid = { 32 }, block = { 256 }, args = { x, y, 500 }, mode = "fast" }
   end)
   row("emulator, CUDA C of integer, float and shared memory (5 runs)", "%.1f M warp-instructions/s",
      report.counters.warp_instructions / seconds / 1e6)
else
   row("emulator, CUDA C", "not run: %s", why)
end

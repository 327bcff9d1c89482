-- Needs a GPU: `make check-gpu`.  The emulator's result is what the GPU's is compared with.
local tc = require "tcmma"
local process = require "spec.process"

local gpu = tc.device(os.getenv("TCMMA_DEVICE") or "cuda:0")
local on_gpu = gpu and it or pending
local with_nvrtc = gpu and tc.versions().nvrtc and it or pending

local function randn(shape, dtype, seed)
  return tc.randn(shape, dtype, { seed = seed, device = gpu })
end

local function empty(shape, dtype)
  return tc.zeros(shape, dtype, { device = gpu })
end

-- Runs the kernel on both; the results are the same bytes.
local function agree(kernel, inputs, shape, dtype)
  local here, there = empty(shape, dtype), empty(shape, dtype)
  local arguments = table.pack(table.unpack(inputs))
  arguments[#inputs + 1] = here
  kernel(table.unpack(arguments))
  arguments[#inputs + 1] = there
  local report = kernel:emulate({ target = gpu.target }, table.unpack(arguments))
  assert.is_true(report.completed, report:text())
  assert.same(there:totable(), here:totable())
  return here:totable()
end

-- GMEM -> SMEM -> GMEM by TMA, tile by tile.
local function copying(dtype, swizzle, rows, columns, tile)
  return tc.kernel{
    name = "copy", args = { tc.gmem({ rows, columns }, dtype), tc.gmem({ rows, columns }, dtype) },
    grid = { (rows + tile[1] - 1) // tile[1], (columns + tile[2] - 1) // tile[2] }, grid_names = { "m", "n" },
    body = function(x, y)
      local m, n = tc.axis_index "m", tc.axis_index "n"
      local buffer, full = tc.smem(tile, dtype, { swizzle = swizzle }), tc.barrier{}
      local mover = tc.role{ name = "mover", warps = 1 }
      mover(function()
        tc.copy_gmem_to_smem(x:tile({ m, n }, tile), buffer, full)
        tc.barrier_wait(full)
        tc.copy_smem_to_gmem(buffer, y:tile({ m, n }, tile))
        tc.wait_smem_to_gmem(0)
      end)
    end,
  }
end

describe("a GPU #gpu", function()
  for _, swizzle in ipairs{ "none", 32, 64, 128 } do
    for _, dtype in ipairs{ "f16", "f32", "i8" } do
      on_gpu(("copies %s with swizzle %s"):format(dtype, swizzle), function()
        local bytes = { f16 = 2, f32 = 4, i8 = 1 }
        local columns = (swizzle == "none" and 64 or swizzle) // bytes[dtype]
        local x = randn({ 128, 2 * columns }, tc.f32, 3):astype(dtype)
        local y = agree(copying(dtype, swizzle, 128, 2 * columns, { 64, columns }), { x }, { 128, 2 * columns }, dtype)
        assert.same(x:totable(), y)
      end)
    end
  end

  on_gpu("clips tiles that reach over the edge", function()
    local x = randn({ 100, 72 }, tc.f16, 4)
    assert.same(x:totable(), agree(copying("f16", 128, 100, 72, { 64, 64 }), { x }, { 100, 72 }, tc.f16))
  end)

  on_gpu("computes elementwise as the emulator does", function()
    local kernel = tc.kernel{
      name = "axpy", grid_names = { "m" }, grid = function(dims) return { dims.M // 128 } end,
      args = { tc.gmem({ "M", 64 }, tc.f32), tc.gmem({ "M", 64 }, tc.f32), tc.gmem({ "M", 64 }, tc.f32) },
      body = function(x, y, z)
        local m, tile = tc.axis_index "m", { 128, 64 }
        local a, b = x:tile({ m, 0 }, tile):load(), y:tile({ m, 0 }, tile):load()
        z:tile({ m, 0 }, tile):store(tc.max(a * 3 + b, b - a))
      end,
    }
    agree(kernel, { randn({ 512, 64 }, tc.f32, 5), randn({ 512, 64 }, tc.f32, 6) }, { 512, 64 }, tc.f32)
  end)

  with_nvrtc("runs CUDA C with shared memory, shuffles and atomics as the emulator does", function()
    local f = assert(tc.cuda([[extern "C" __global__ void k(const int *a, int *out, int n) {
      __shared__ int s[128];
      int i = blockIdx.x * blockDim.x + threadIdx.x, x = i < n ? a[i] : 0;
      s[threadIdx.x] = x; __syncthreads();
      x += s[127 - threadIdx.x] * 3;
      for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
      if (threadIdx.x % 32 == 0) atomicAdd(out + blockIdx.x, x);
    }]], { target = gpu.target })):kernel()
    local a = tc.arange(0, 1000, 1, tc.i32, { device = gpu })
    local here, there = empty({ 8 }, tc.i32), empty({ 8 }, tc.i32)
    f:launch{ grid = { 8 }, block = { 128 }, args = { a, here, 1000 } }
    f:emulate{ grid = { 8 }, block = { 128 }, args = { a, there, 1000 }, target = gpu.target }
    assert.same(there:totable(), here:totable())
  end)

  with_nvrtc("launches clusters", function()
    local f = assert(tc.cuda([[#include <cooperative_groups.h>
    extern "C" __global__ void k(int *out) {
      auto c = cooperative_groups::this_cluster();
      out[blockIdx.x] = c.block_rank() * 100 + c.num_blocks();
    }]], { target = gpu.target })):kernel()
    local out = empty({ 8 }, tc.i32)
    f:launch{ grid = { 8 }, block = { 32 }, cluster = { 4 }, args = { out } }
    assert.same({ 4, 104, 204, 304, 4, 104, 204, 304 }, out:totable())
  end)

  with_nvrtc("takes a thousand launches, on streams too", function()
    local f = assert(tc.cuda([[extern "C" __global__ void k(int *p) { atomicAdd(p, 1); }]], { target = gpu.target }))
      :kernel()
    local p, stream = empty({ 1 }, tc.i32), gpu:stream()
    local first, last = gpu:event(), gpu:event()
    first:record()
    for i = 1, 1000 do f:launch{ args = { p }, stream = i % 2 == 0 and stream or nil } end
    stream:synchronize()
    last:record()
    assert.is_true(last:since(first) > 0)
    assert.same({ 1000 }, p:totable())
  end)

  on_gpu("writes when each role did what", function()
    local kernel = tc.kernel{
      name = "timed", profile = true, grid = { 4 }, grid_names = { "i" },
      args = { tc.gmem({ 256, 64 }, tc.f32), tc.gmem({ 256, 64 }, tc.f32) },
      body = function(x, y)
        local i = tc.axis_index "i"
        local buffer, full = tc.smem({ 64, 64 }, tc.f32, { swizzle = "none" }), tc.barrier{ name = "full" }
        tc.role{ name = "load", warps = 1 }(function()
          tc.copy_gmem_to_smem(x:tile({ i, 0 }, { 64, 64 }), buffer, full)
        end)
        tc.role{ name = "store", warpgroups = 1 }(function()
          tc.barrier_wait(full)
          y:tile({ i, 0 }, { 64, 64 }):store(buffer:load() * 2)
        end)
      end,
    }
    local x, y = randn({ 256, 64 }, tc.f32, 1), empty({ 256, 64 }, tc.f32)
    local report = kernel:profile({}, x, y)
    assert.same(2 * x:get(200, 3), y:get(200, 3))
    local waits, arithmetic, slices, ctas = 0, 0, 0, {}
    for pid, duration, name in report.trace_text:gmatch('"ph":"X","pid":(%d+),"tid":%d+,"ts":[%d.]+,"dur":([%d.]+),'
      .. '"cat":"%w+","name":"([^"]*)"') do
      slices, ctas[pid] = slices + 1, true
      if name:match "^line %d+: arithmetic$" then arithmetic = arithmetic + 1 end
      if name == "wait full" then
        waits = waits + 1
        assert.is_true(tonumber(duration) > 0.05 and tonumber(duration) < 1000, duration)
      end
    end
    assert.equal(4, waits)
    assert.equal(4 * 5, slices)
    assert.equal(4, arithmetic)
    assert.is_nil(select(5, next(ctas)))
    y:copy_from(tc.zeros({ 256, 64 }, tc.f32, { device = gpu }))
    kernel(x, y)
    assert.same(2 * x:get(17, 5), y:get(17, 5))
  end)

  on_gpu("tells how much memory there is when there is none", function()
    local size = gpu.properties.memory // 2
    local keep = {}
    local ok, message = pcall(function()
      for i = 1, 4 do keep[i] = tc.empty({ size }, tc.u8, { device = gpu }) end
    end)
    assert.is_false(ok)
    for i = 1, #keep do keep[i]:free() end
    assert.matches("out of memory", message, 1, true)
    collectgarbage()
    assert.is_true(tc.empty({ size // 4 }, tc.u8, { device = gpu }).nbytes == size // 4)
  end)

  with_nvrtc("a kernel that traps or goes astray is named", function()
    for body, text in pairs{ ["__trap();"] = "kernel 'k' failed", ["*(int *)64 = 1;"] = "kernel 'k' failed" } do
      local output = process.run(([[
        local tc = require "tcmma"
        local p = tc.zeros({ 4 }, "i32")
        local f = tc.cuda("extern \"C\" __global__ void k() { %s }"):kernel()
        print(pcall(function() f:launch{} p:totable() end))]]):format(body), { TCMMA_DEVICE = gpu.name })
      assert.matches(text, output, 1, true)
    end
  end)
end)

-- Needs a GPU that has clusters: `make check-gpu`.  The results are known without it.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local cluster = require "cluster_kernels"

local gpu = tc.device(os.getenv("TCMMA_DEVICE") or "cuda:0")
local on_gpu = gpu and it or pending

local function there(array)
  return array:to(gpu)
end

describe("clusters on a GPU #gpu", function()
  for _, case in ipairs{ { 2, 1 }, { 1, 2 }, { 2, 2 }, { 4, 1 } } do
    local rows, columns = case[1], case[2]
    on_gpu(("multiply with multicast in %d x %d CTAs"):format(rows, columns), function()
      local steps = 24
      local a = kernels.integers({ 128 * rows, 64 * steps }, tc.float16, 1)
      local b = kernels.integers({ 64 * steps, 64 * columns }, tc.float16, 2)
      local expected = tc.reference.matmul(a, b)
      for stages = 1, 3 do
        local kernel = cluster.multicast{ rows = rows, columns = columns, stages = stages, steps = steps }
        local out = tc.zeros({ 128 * rows, 64 * columns }, tc.float32, { device = gpu })
        for _ = 1, 20 do kernel(there(a), there(b), out) end
        assert.are.same(expected:totable(), out:totable())
      end
    end)
  end

  on_gpu("walk over the tiles of a ragged product", function()
    local case = { m = 5000, n = 1000, k = 648, tn = 128, stages = 4, clusters = 60 }
    local a = kernels.integers({ case.m, case.k }, tc.bfloat16, 1)
    local b = kernels.integers({ case.k, case.n }, tc.bfloat16, 2)
    local expected, kernel = tc.reference.matmul(a, b):totable(), cluster.persistent(case)
    local out = tc.zeros({ case.m, case.n }, tc.float32, { device = gpu })
    for _ = 1, 20 do kernel(there(a), there(b), out) end
    assert.are.same(expected, out:totable())
  end)

  for _, axis in ipairs{ "y", "x" } do
    on_gpu("sum along " .. axis .. " where the first CTA alone is told", function()
      local kernel = require("collective_kernels").sum{ cluster = { 2, 3 }, axis = axis }
      local parts = kernels.integers({ 2, 3, 64, 32 }, tc.float32, 5)
      local expected = tc.zeros({ axis == "y" and 3 or 2, 64, 32 }, tc.float32)
      kernel:emulate({ target = "sm_90a" }, parts, expected)
      local out = tc.zeros(expected.shape, tc.float32, { device = gpu })
      for _ = 1, 20 do kernel(there(parts), out) end
      assert.are.same(expected:totable(), out:totable())
    end)
  end

  for _, case in ipairs{
    { size = 2, shape = { 64, 64 }, dtype = tc.float16 },
    { size = 4, shape = { 64, 128 }, dtype = tc.float16 },
    { size = 2, shape = { 64, 64 }, dtype = tc.float16, fragments = true },
    { size = 2, shape = { 32, 32 }, dtype = tc.float32, swizzle = "none" },
    { size = 2, shape = { 64, 64 }, dtype = tc.float16, warps = 2 },
  } do
    on_gpu(("pass tiles of (%d, %d) on to %d CTAs%s%s"):format(case.shape[1], case.shape[2], case.size,
      case.swizzle and ", plain" or "", case.fragments and ", through registers" or ""), function()
      local steps, R, C = 20, case.shape[1], case.shape[2]
      local o = { steps = steps, stages = 2 }
      for key, value in pairs(case) do o[key] = value end
      local kernel = cluster.pass(o)
      local a = kernels.integers({ steps * R, C }, case.dtype, 3)
      local out = tc.zeros({ case.size * steps * R, C }, case.dtype, { device = gpu })
      for _ = 1, 20 do kernel(there(a), out) end
      local expected, got = a:totable(), out:totable()
      for i = 1, case.size * steps * R do assert.are.same(expected[(i - 1) % (steps * R) + 1], got[i]) end
    end)
  end

  for _, size in ipairs{ 2, 4 } do
    on_gpu(("add the partial sums of %d CTAs as the emulator does"):format(size), function()
      local kernel = cluster.reduce(size, 64, 32)
      local parts = tc.randn({ size, 128, 32 }, tc.float32, { seed = 5 })
      local here, out = tc.zeros({ 128, 32 }, tc.float32), tc.zeros({ 128, 32 }, tc.float32, { device = gpu })
      kernels.run(kernel, { target = gpu.target }, parts, here)
      for _ = 1, 20 do kernel(there(parts), out) end
      assert.are.same(here:totable(), out:totable())
    end)
  end
end)

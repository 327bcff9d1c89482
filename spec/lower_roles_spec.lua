-- Roles and phases: rings of 1, 2 and 3 stages, conditional waits, persistent loops, several warps
-- that arrive, ragged and named dimensions; each result against the product in double precision.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local function matmul(o)
  local kernel = kernels.matmul(o)
  local M, N, K = o.m or 256, o.n or 256, o.k or 256
  local a = kernels.integers({ M, K }, tc.float16, 1)
  local b = kernels.integers({ K, N }, tc.float16, 2)
  local out = tc.zeros({ M, N }, tc.float16)
  kernels.run(kernel, { target = "sm_100a" }, a, b, out)
  local expected = tc.reference.matmul(a, b):astype(tc.float16)
  assert.are.equal(0, (tc.max_error(out, expected)))
end

describe("rings of stages", function()
  for stages = 1, 3 do
    for extra = -1, 2 do
      local steps = stages + extra
      if steps > 0 then
        it(("%d stages, %d steps"):format(stages, steps), function()
          matmul{ stages = stages, m = 128, n = 128, k = 64 * steps }
        end)
      end
    end
  end
end)

describe("boundaries", function()
  it("clip ragged M, N and K", function()
    matmul{ m = 200, n = 136, k = 104 }
    matmul{ m = 1, n = 8, k = 8 }
    matmul{ m = 130, n = 264, k = 72 }
  end)

  it("follow named dimensions", function()
    matmul{ m = 256, n = 128, k = 192, dims = true }
    matmul{ m = 200, n = 136, k = 104, dims = true }
  end)
end)

-- A persistent kernel: the loop over tiles is shared code, distributed over the roles.
local function persistent(tiles, ctas)
  local T = 128
  return tc.kernel{
    name = "persistent",
    args = { tc.gmem({ tiles * T, 64 }, tc.float16), tc.gmem({ 64, T }, tc.float16),
             tc.gmem({ tiles * T, T }, tc.float32) },
    grid = { ctas }, grid_names = { "cta" },
    body = function(a, b, out)
      local cta = tc.axis_index "cta"
      local a_smem, b_smem = tc.smem({ 2, T, 64 }, tc.float16), tc.smem({ 2, 64, T }, tc.float16)
      local acc = tc.tmem({ T, T }, tc.float32)
      local loaded = tc.barrier{ num_arrivals = 2, num_barriers = 2 }
      local consumed = tc.barrier{ num_barriers = 2, orders_tensor_core = true }
      local done = tc.barrier{ orders_tensor_core = true }
      local read = tc.barrier{ orders_tensor_core = true }
      local load, issue = tc.role{ name = "load", warps = 1 }, tc.role{ name = "mma", warps = 1 }
      local store = tc.role{ name = "store", warpgroups = 1 }
      tc.range(cta, tiles, ctas, function(tile)
        local t = (tile - cta) // ctas
        local s = t % 2
        load(function()
          tc.when(t:ge(2), function() tc.barrier_wait(consumed[s]) end)
          tc.copy_gmem_to_smem(a:tile({ tile, 0 }, { T, 64 }), a_smem[s], loaded[s])
          tc.copy_gmem_to_smem(b, b_smem[s], loaded[s])
        end)
        issue(function()
          tc.barrier_wait(loaded[s])
          tc.when(t:gt(0), function() tc.barrier_wait(read) end)
          tc.mma(acc, a_smem[s], b_smem[s], { barrier = consumed[s], accumulate = false })
          tc.commit_arrive(done)
        end)
        store(function()
          tc.barrier_wait(done)
          out:tile({ tile, 0 }, { T, T }):store(tc.async_load_tmem(acc))
          tc.barrier_arrive(read)
        end)
      end)
    end,
  }
end

describe("persistent loops", function()
  for _, case in ipairs{ { 1, 1 }, { 5, 2 }, { 3, 4 }, { 7, 1 } } do
    local tiles, ctas = case[1], case[2]
    it(("%d tiles on %d CTAs"):format(tiles, ctas), function()
      local a = kernels.integers({ tiles * 128, 64 }, tc.float16, 1)
      local b = kernels.integers({ 64, 128 }, tc.float16, 2)
      local out = tc.zeros({ tiles * 128, 128 }, tc.float32)
      kernels.run(persistent(tiles, ctas), nil, a, b, out)
      assert.are.equal(0, (tc.max_error(out, tc.reference.matmul(a, b))))
    end)
  end
end)

describe("arrivals of several warps", function()
  it("count once an operation", function()
    local kernel = tc.kernel{
      name = "arrive", args = { tc.gmem({ 4 }, tc.int32) }, grid = { 1 }, grid_names = { "x" },
      body = function(out)
        local ready = tc.barrier{ num_arrivals = 3 }
        local two, four = tc.role{ name = "two", warps = 2 }, tc.role{ name = "four", warpgroups = 1 }
        local last = tc.role{ name = "last", warps = 1 }
        two(function()
          tc.barrier_arrive(ready)
          tc.barrier_arrive(ready)
        end)
        four(function() tc.barrier_arrive(ready) end)
        last(function()
          tc.barrier_wait(ready)
          out[0]:store(7)
        end)
      end,
    }
    local out = tc.zeros({ 4 }, tc.int32)
    kernels.run(kernel, nil, out)
    assert.are.equal(7, out:totable()[1])
    local text = kernel:dump("roles", { target = "sm_100a" })
    assert.is_truthy(text:find("count 12 (num_arrivals 3 x unit 4)", 1, true))
  end)
end)

describe("the layout of threads", function()
  it("puts warpgroups first and pads to whole warpgroups", function()
    local text = kernels.matmul{}:dump("roles", { target = "sm_100a" })
    assert.is_truthy(text:find("roles: 3, 256 threads", 1, true))
    assert.is_truthy(text:match "epilogue%s+warps 0%-3")
    assert.is_truthy(text:match "load%s+warp 4,")
    assert.is_truthy(text:match "mma%s+warp 5,")
  end)
end)

-- k:info's estimate: counts against arithmetic on the kernel's own numbers, and the ladder of matmuls
-- against the utilisation that the Pallas documentation (gpu/blackwell_matmul.md) measured.
local tc = require "tcmma"

local TM, TN, TK = 128, 128, 64

-- A warp-specialised matmul whose numbers are easy to count.
local function matmul(M, N, K, options)
  options = options or {}
  local stages = options.stages or 2
  return tc.kernel {
    name = "estimated",
    args = { tc.gmem({ options.named and "M" or M, K }, "f16"), tc.gmem({ K, N }, "f16"), tc.gmem({ M, N }, "f16") },
    grid = { M // TM, N // TN }, grid_names = { "m", "n" },
    body = function(a, b, out)
      local m, n = tc.axis_index "m", tc.axis_index "n"
      local sa, sb = tc.smem({ stages, TM, TK }, "f16"), tc.smem({ stages, TK, TN }, "f16")
      local acc, so = tc.tmem({ TM, TN }, "f32"), tc.smem({ TM, TN }, "f16")
      if options.wide_tmem then tc.tmem({ 128, 256 }, "f32") end
      local loaded = tc.barrier { num_arrivals = 2, num_barriers = stages }
      local consumed = tc.barrier { num_barriers = stages, orders_tensor_core = true }
      local done = tc.barrier { orders_tensor_core = true }
      tc.role { name = "load", warps = 1 }(function()
        tc.range(K // TK, function(k)
          local s = k % stages
          tc.when(k:ge(stages), function() tc.barrier_wait(consumed[s]) end)
          tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), sa[s], loaded[s])
          tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), sb[s], loaded[s])
        end)
      end)
      tc.role { name = "mma", warps = 1 }(function()
        tc.range(K // TK, function(k)
          local s = k % stages
          tc.barrier_wait(loaded[s])
          tc.mma(acc, sa[s], sb[s], { barrier = consumed[s], accumulate = k:gt(0) })
        end)
        tc.commit_arrive(done)
      end)
      tc.role { name = "store", warpgroups = 1 }(function()
        tc.barrier_wait(done)
        so:store(tc.async_load_tmem(acc):astype "f16")
        tc.commit_smem()
        tc.copy_smem_to_gmem(so, out:tile({ m, n }, { TM, TN }))
        tc.wait_smem_to_gmem(0)
      end)
    end,
  }
end

local function estimate(kernel, target)
  local info = kernel:info { target = target or "sm_100a" }
  return info.estimate, info.estimate_missing
end

describe("the estimate of a kernel", function()
  it("counts what the kernel says", function()
    local M, N, K = 128 * 37, 128 * 4, 1024 -- as many tiles as the machine has SMs
    local e = estimate(matmul(M, N, K))
    assert.equal(148, e.ctas)
    assert.equal("B200", e.machine)
    assert.equal(2.0 * M * N * K, e.flop)
    assert.equal(K // TK, e.k_steps)
    local tile = (TM + TN) * TK * 2
    assert.equal(tile, e.bytes_per_k_step.l2)
    assert.equal(tile, e.bytes_per_k_step.smem)
    assert.equal(TM * TN * 4, e.bytes.tmem)
    assert.equal(TM * TN * 2, e.bytes.out)
    -- 8192 FLOP a clock, as 2250 TFLOP/s of 148 SMs at 1.856 GHz are
    assert.equal(2 * TM * TN * K / 8192, e.tensor_clocks)
    assert.near(8192, 2250e12 / 148 / 1.856e9, 1)
    assert.is_true(e.clocks > e.tensor_clocks)
    assert.near(e.flop / e.microseconds * 1e-6, e.tflops, 1e-6 * e.tflops)
    assert.near(e.utilization, e.tflops / 2250, 1e-2 * e.utilization)
    -- each byte of A and B comes from DRAM once: they fit into L2
    assert.near((M * K + K * N) * 2 / 148, e.bytes.dram, 1)
  end)

  it("knows what limits the CTAs of an SM", function()
    local e = estimate(matmul(1024, 1024, 256)) -- 64 KiB of stages, 32 KiB of output
    assert.equal(2, e.ctas_per_sm)
    assert.equal("SMEM", e.occupancy_limit)
    assert.near(64 / (148 * 2), e.waves, 1e-9)
    e = estimate(matmul(1024, 1024, 256, { wide_tmem = true })) -- 384 columns, 512 allocated
    assert.equal(1, e.ctas_per_sm)
    assert.equal("TMEM", e.occupancy_limit)
  end)

  it("is bound by L2 where a tile asks more of it than it gives", function()
    -- 128 x 128 x 64: 32 KiB in 256 clocks are 128 bytes a clock; L2 gives little more than half
    local e = estimate(matmul(4096, 4096, 4096, { stages = 4 }))
    assert.equal("L2", e.bound)
    assert.is_true(e.busy.l2 > 0.75 and e.busy.l2 <= 1)
    assert.is_true(e.busy.tensor < 0.5)
    assert.matches("^B200: %d+%.%d %% of the peak, %d+ TFLOP/s, .* bound by L2; 1024 CTAs", tostring(e))
  end)

  it("follows CTAs that take over the work of others", function()
    local M, N, K, stages = 128 * 74, 128 * 8, 512, 4 -- four tiles an SM
    local kernel = tc.kernel {
      name = "dynamic", target = "sm_100a",
      args = { tc.gmem({ M, K }, "f16"), tc.gmem({ K, N }, "f16"), tc.gmem({ M, N }, "f16") },
      grid = { M // TM, N // TN }, grid_names = { "m", "n" },
      body = function(a, b, out)
        local sa, sb = tc.smem({ stages, TM, TK }, "f16"), tc.smem({ stages, TK, TN }, "f16")
        local acc, so = tc.tmem({ 2, TM, TN }, "f32"), tc.smem({ TM, TN }, "f16")
        tc.smem({ 1024, 32 }, "f16") -- leaves room for one CTA
        local loaded = tc.barrier { num_arrivals = 2, num_barriers = stages }
        local consumed = tc.barrier { num_barriers = stages, orders_tensor_core = true }
        local done = tc.barrier { num_barriers = 2, orders_tensor_core = true }
        local read = tc.barrier { num_barriers = 2, orders_tensor_core = true }
        local load, issue, store = tc.role { name = "load", warps = 1 }, tc.role { name = "mma", warps = 1 },
          tc.role { name = "store", warpgroups = 1 }
        tc.dynamic_scheduling_loop({ "m", "n" }, function(work)
          local m, n, turn = work.index[1], work.index[2], work.local_index
          local slot, first = turn % 2, turn * (K // TK)
          load(function()
            tc.range(K // TK, function(k)
              local s = (first + k) % stages
              tc.when((first + k):ge(stages), function() tc.barrier_wait(consumed[s]) end)
              tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), sa[s], loaded[s])
              tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), sb[s], loaded[s])
            end)
          end)
          issue(function()
            tc.when(turn:ge(2), function() tc.barrier_wait(read[slot]) end)
            tc.range(K // TK, function(k)
              local s = (first + k) % stages
              tc.barrier_wait(loaded[s])
              tc.mma(acc[slot], sa[s], sb[s], { barrier = consumed[s], accumulate = k:gt(0) })
            end)
            tc.commit_arrive(done[slot])
          end)
          store(function()
            tc.barrier_wait(done[slot])
            local tile = tc.async_load_tmem(acc[slot])
            tc.wait_smem_to_gmem(0)
            so:store(tile:astype "f16")
            tc.barrier_arrive(read[slot])
            tc.commit_smem()
            tc.copy_smem_to_gmem(so, out:tile({ m, n }, { TM, TN }))
          end)
        end)
      end,
    }
    local e = assert(estimate(kernel))
    assert.equal(592, e.ctas)
    assert.equal(2.0 * M * N * K, e.flop)
    assert.equal(4 * 2 * TM * TN * K / 8192, e.tensor_clocks)
    assert.equal(4 * TM * TN * 2, e.bytes.out)
    assert.near((M * K + K * N) * 2 / 148, e.bytes.dram, 1)
    -- it starts once, and loads of a tile run under the end of the one before
    local restarted = assert(estimate(matmul(M, N, K, { stages = stages })))
    assert.is_true(e.clocks < restarted.clocks)
  end)

  it("says why there is none", function()
    local e, why = estimate(matmul(1024, 1024, 256, { named = true }))
    assert.is_nil(e)
    assert.equal("dimension 'M' of argument 1 is known only at launch", why)
    e, why = estimate(matmul(1024, 1024, 256), "sm_90a")
    assert.is_nil(e)
    assert.equal("no machine with sm_90a is modelled", why)
    local k = tc.kernel { name = "reads", args = { tc.gmem({ 4 }, "i32"), tc.gmem({ 4 }, "i32") }, grid = { 1 },
      body = function(count, out)
        local n = count:at(0):load()
        tc.role { name = "writes", warps = 1 }(function()
          tc.range(n, function(i) out:at(i):store(i) end)
        end)
      end }
    e, why = estimate(k)
    assert.is_nil(e)
    assert.matches("^line %d+: which ops are run depends on a value that only the kernel knows", why)
  end)

  -- The machine's dense peaks: f16 2250 TFLOP/s, tf32 half of it, 8-bit kinds twice and 4-bit ones four times as much;
  -- a sparse A doubles them.  MMAs again and again on the same operands: nothing else takes time.
  local function products(o)
    local dtype, n, k = tc.dtype(o.dtype or "f16"), o.n or 256, o.k or 128
    local cta = o.pair and "cta" or nil
    local float = dtype.kind == "float"
    return tc.kernel {
      name = "products", target = "sm_100a", args = {}, grid = { o.pair and 74 or 148 },
      cluster = o.pair and { 2 }, cluster_names = o.pair and { "cta" },
      body = function()
        local a = tc.smem({ o.m, o.sparse and k // 2 or k }, dtype)
        local b = tc.smem({ o.pair and n // 2 or n, k }, dtype)
        local function tmem(shape, t, layout) return tc.tmem(shape, t, { layout = layout, collective = o.pair }) end
        local acc = tmem({ o.m, n }, float and "f32" or "i32")
        local done = tc.barrier { orders_tensor_core = true }
        local options = { collective_axis = cta }
        if o.scale then
          options.a_scale = tmem({ 128, k // o.block }, o.scale, "scales")
          options.b_scale = tmem({ 256, k // o.block }, o.scale, "scales")
        end
        if o.sparse then options.a_sparse_metadata = tmem({ 128, k // 2 }, "u2", "sparse_metadata") end
        local function issue()
          tc.range(200, function() tc.mma(acc, a, b:T(), options) end)
          tc.commit_arrive(done, { collective_axis = cta })
        end
        if cta then tc.when(tc.axis_index(cta):eq(0), issue) else issue() end
        tc.barrier_wait(done)
      end,
    }
  end

  it("gives utilization as a share of the peak of the kind, for every shape", function()
    for _, o in ipairs {
      { m = 128, peak = 2250 }, { m = 128, n = 64, peak = 2250 }, { m = 128, n = 8, peak = 2250 },
      { m = 64, peak = 2250 }, { m = 64, n = 16, peak = 2250 }, { m = 128, pair = true, peak = 2250 },
      { m = 64, pair = true, peak = 2250 }, { m = 64, dtype = "f32", k = 32, peak = 1125 },
      { m = 64, dtype = "e4m3", peak = 4500 }, { m = 64, dtype = "i8", peak = 4500 },
      { m = 128, dtype = "e4m3", scale = "e8m0", block = 32, peak = 4500 },
      { m = 128, dtype = "e2m1", k = 256, scale = "e4m3", block = 16, peak = 9000 },
      { m = 128, sparse = true, peak = 4500 }, { m = 128, sparse = true, n = 16, dtype = "e4m3", k = 256, peak = 9000 },
    } do
      local e = assert(estimate(products(o)))
      assert.near(o.peak, e.peak_tflops, 1e-3 * o.peak)
      assert.near(e.tflops / o.peak, e.utilization, 1e-3 * e.utilization)
      assert.is_true(e.utilization < (o.m == 64 and 0.5 or 1))
      assert.equal(2.0 * o.m * (o.n or 256) * (o.k or 128) * 200 * 148, e.flop)
    end
  end)

  it("lets MMAs of 64 rows occupy the tensor core as long as those of 128", function()
    local half, full = estimate(products { m = 64 }), estimate(products { m = 128 })
    assert.equal(full.tensor_clocks, half.tensor_clocks)
    assert.equal("tensor core", half.bound)
    assert.is_true(half.busy.tensor > 0.9)
    assert.near(half.busy.tensor / 2, half.tflops / 2250, 0.1)
    assert.is_true(half.tflops < 0.7 * full.tflops)
  end)

  it("ranks the ladder and stays within ten points of what was measured", function()
    -- facts of the Pallas documentation: 4096 x 8192 x 4096, f16, share of 2250 TFLOP/s
    local ladder = {
      { "02_matmul_basic", 0.3762 }, { "03_matmul_warp_specialized", 0.4547 },
      { "04_matmul_tiled_epilogue", 0.5582 }, { "10_matmul_collective", 0.5941 },
      { "11_matmul_persistent", 0.6146 }, { "12_matmul_overlapped", 0.6338 }, { "13_matmul_snake", 0.6944 },
    }
    local before = 0
    for _, step in ipairs(ladder) do
      local e = estimate(dofile("examples/" .. step[1] .. ".lua")(4096, 8192, 4096))
      assert.near(step[2], e.utilization, 0.1, step[1])
      assert.is_true(e.utilization > before, step[1])
      before = e.utilization
    end
  end)
end)

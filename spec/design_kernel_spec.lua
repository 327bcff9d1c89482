-- The kernel that shows what tcmma is for, typed as its user types it: one script for Blackwell's tensor memory and
-- for Hopper, where the same names stand for registers.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local M, N, K = 512, 512, 512
local TM, TN, TK, STAGES = 128, 256, 64, 4

local function record()
  return tc.kernel{
    name = "matmul",
    args = { tc.gmem({M, K}, tc.float16), tc.gmem({K, N}, tc.float16), tc.gmem({M, N}, tc.float16) },
    grid = { M // TM, N // TN }, grid_names = { "m", "n" },
    body = function(a, b, out)
      local m, n = tc.axis_index "m", tc.axis_index "n"
      local a_smem   = tc.smem({STAGES, TM, TK}, tc.float16)
      local b_smem   = tc.smem({STAGES, TK, TN}, tc.float16)
      local acc      = tc.tmem({TM, TN}, tc.float32)
      local out_smem = tc.smem({2, TM, 64}, tc.float16)
      local loaded   = tc.barrier{ num_arrivals = 2, num_barriers = STAGES }
      local consumed = tc.barrier{ num_barriers = STAGES, orders_tensor_core = true }
      local done     = tc.barrier{ orders_tensor_core = true }

      local load, issue, store = tc.role{ name = "load", warps = 1 }, tc.role{ name = "mma", warps = 1 },
                                 tc.role{ name = "epilogue", warpgroups = 1 }
      load(function()
        tc.range(K // TK, function(k)
          local s = k % STAGES
          tc.when(k:ge(STAGES), function() tc.barrier_wait(consumed[s]) end)
          tc.copy_gmem_to_smem(a:tile({m, k}, {TM, TK}), a_smem[s], loaded[s])
          tc.copy_gmem_to_smem(b:tile({k, n}, {TK, TN}), b_smem[s], loaded[s])
        end)
      end)
      issue(function()
        tc.range(K // TK, function(k)
          local s = k % STAGES
          tc.barrier_wait(loaded[s])
          tc.mma(acc, a_smem[s], b_smem[s], { barrier = consumed[s], accumulate = k:gt(0) })
        end)
        tc.commit_arrive(done)
      end)
      store(function()
        tc.barrier_wait(done)
        for i = 0, TN // 64 - 1 do
          tc.wait_smem_to_gmem(1)
          out_smem[i % 2]:store(tc.async_load_tmem(acc:at(tc.all, tc.ds(i * 64, 64))):astype(tc.float16))
          tc.commit_smem()
          tc.copy_smem_to_gmem(out_smem[i % 2], out:tile({m, n * (TN // 64) + i}, {TM, 64}))
        end
        tc.wait_smem_to_gmem(0)
      end)
    end,
  }
end

describe("the kernel of the manual", function()
  local targets = { "sm_100a", "sm_90a" }

  -- Products of integers are exact in f32 and, below 2048, in f16.
  for _, target in ipairs(targets) do
    for _, mode in ipairs{ "fast", "check", "random" } do
      it(("gives the exact product on emulator:%s, mode %s"):format(target, mode), function()
        local a = tc.randint({M, K}, tc.float16, { low = -2, high = 3, seed = 1 })
        local b = tc.randint({K, N}, tc.float16, { low = -1, high = 2, seed = 2 })
        local out = tc.empty({M, N}, tc.float16)
        kernels.run(record(), { target = target, mode = mode, numerics = "f32" }, a, b, out)
        assert.equal(0, (tc.max_error(out, tc.reference.matmul(a, b))))
      end)
    end

    it(("gives normal inputs' product on emulator:%s"):format(target), function()
      local a, b = tc.randn({M, K}, tc.float16, { seed = 1 }), tc.randn({K, N}, tc.float16, { seed = 2 })
      local out = tc.empty({M, N}, tc.float16)
      kernels.run(record(), { target = target }, a, b, out)
      local absolute = tc.max_error(out, tc.reference.matmul(a, b))
      -- Sums of 512 products have a deviation of 22.6; 2^-11 of the largest is rounding to f16.
      assert.is_true(absolute <= 0.07, tostring(absolute))
    end)

    it(("assembles for %s without spilled registers"):format(target), function()
      local info = record():info{ target = target }
      if info.assembler_missing then return pending("no assembler") end
      assert.equal(0, info.spill_stores + info.spill_loads)
      assert.same({}, info.warnings)
    end)
  end

  it("is recorded and emitted in less than a twentieth of the time that assembling takes", function()
    if not tc.versions().nvjitlink then return pending("no assembler") end
    local function least(times, run)
      local best = math.huge
      for _ = 1, times do
        local start = os.clock()
        run()
        best = math.min(best, os.clock() - start)
      end
      return best
    end
    local cached = tc.config.cache
    tc.config.cache = false
    for _, target in ipairs(targets) do
      local kernel
      local ours = least(10, function()
        kernel = record()
        kernel:ptx{ target = target }
      end)
      local theirs = least(3, function() kernel:cubin{ target = target } end)
      assert.is_true(ours < theirs / 20, ("%s: %.2f ms of %.1f"):format(target, ours * 1e3, theirs * 1e3))
    end
    tc.config.cache = cached
  end)
end)

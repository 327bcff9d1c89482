-- Kernels that several specs of the compiler use.
local tc = require "tcmma"

local kernels = {}

-- The warp-specialised matmul of the manual: one role loads, one issues, one stores.
-- options: m, n, k (the problem), tm, tn, tk, stages, dtype, dims (named dimensions of the
-- arguments; the grid is then given by m and n, and the loop's count is recorded).
function kernels.matmul(o)
  local TM, TN, TK, STAGES = o.tm or 128, o.tn or 128, o.tk or 64, o.stages or 2
  local dtype = o.dtype or tc.float16
  local M, N, K = o.m or 256, o.n or 256, o.k or 256
  local steps = (K + TK - 1) // TK
  local args
  if o.dims then
    args = { tc.gmem({ "M", "K" }, dtype), tc.gmem({ "K", "N" }, dtype), tc.gmem({ "M", "N" }, dtype) }
  else
    args = { tc.gmem({ M, K }, dtype), tc.gmem({ K, N }, dtype), tc.gmem({ M, N }, dtype) }
  end
  return tc.kernel{
    name = o.name or "matmul", args = args,
    grid = { (M + TM - 1) // TM, (N + TN - 1) // TN }, grid_names = { "m", "n" },
    body = function(a, b, out)
      local m, n = tc.axis_index "m", tc.axis_index "n"
      if o.dims then steps = (a.shape[2] + (TK - 1)) // TK end
      local a_smem = tc.smem({ STAGES, TM, TK }, dtype)
      local b_smem = tc.smem({ STAGES, TK, TN }, dtype)
      local acc = tc.tmem({ TM, TN }, tc.float32)
      local out_smem = tc.smem({ 2, TM, 64 }, dtype)
      local loaded = tc.barrier{ num_arrivals = 2, num_barriers = STAGES }
      local consumed = tc.barrier{ num_barriers = STAGES, orders_tensor_core = true }
      local done = tc.barrier{ orders_tensor_core = true }

      local load = tc.role{ name = "load", warps = 1 }
      local issue = tc.role{ name = "mma", warps = 1 }
      local store = tc.role{ name = "epilogue", warpgroups = 1 }
      load(function()
        tc.range(steps, function(k)
          local s = k % STAGES
          tc.when(k:ge(STAGES), function() tc.barrier_wait(consumed[s]) end)
          tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), a_smem[s], loaded[s])
          tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), b_smem[s], loaded[s])
        end)
      end)
      issue(function()
        tc.range(steps, function(k)
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
          out_smem[i % 2]:store(tc.async_load_tmem(acc:at(tc.all, tc.ds(i * 64, 64))):astype(dtype))
          tc.commit_smem()
          tc.copy_smem_to_gmem(out_smem[i % 2], out:tile({ m, n * (TN // 64) + i }, { TM, 64 }))
        end
        tc.wait_smem_to_gmem(0)
      end)
    end,
  }
end

-- One tile, one role: out = a * b, with operands stored as asked.
-- options: m, n, k, dtype, acc (dtype of the accumulator), swizzle (bytes, both operands),
-- a_transposed: a is stored (K, M); b_transposed: b is stored (N, K); a_tmem: A goes through TMEM.
function kernels.tile(o)
  local dtype = o.dtype or tc.float16
  local m, n, k = o.m, o.n, o.k
  local out_dtype = o.acc or tc.float32
  local a_shape = o.a_transposed and { k, m } or { m, k }
  local b_shape = o.b_transposed and { n, k } or { k, n }
  return tc.kernel{
    name = "tile",
    args = { tc.gmem(a_shape, dtype), tc.gmem(b_shape, dtype), tc.gmem({ m, n }, out_dtype) },
    grid = { 1 }, grid_names = { "x" },
    body = function(a, b, out)
      local a_smem = tc.smem(a_shape, dtype, { swizzle = o.swizzle })
      local b_smem = tc.smem(b_shape, dtype, { swizzle = o.swizzle })
      local acc = out_dtype == tc.float32 and tc.tmem({ m, n }, out_dtype)
        or tc.tmem({ m, n }, out_dtype, { packed = false })
      local a_tmem = o.a_tmem and tc.tmem({ m, k }, dtype, { packed = true })
      local loaded = tc.barrier{ num_arrivals = 2 }
      local done = tc.barrier{ orders_tensor_core = true }
      tc.copy_gmem_to_smem(a, a_smem, loaded)
      tc.copy_gmem_to_smem(b, b_smem, loaded)
      tc.barrier_wait(loaded)
      local left = o.a_transposed and a_smem:T() or a_smem
      if o.a_tmem then
        tc.async_store_tmem(a_tmem, a_smem:load())
        tc.commit_tmem()
        left = a_tmem
      end
      tc.mma(acc, left, o.b_transposed and b_smem:T() or b_smem, { accumulate = false })
      tc.commit_arrive(done)
      tc.barrier_wait(done)
      for c = 0, n - 1, 64 do
        local columns = tc.ds(c, math.min(64, n - c))
        out:at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
      end
    end,
  }
end

-- Small integers: every product and sum is exact in f16 and f32.
function kernels.integers(shape, dtype, seed)
  return tc.randint(shape, dtype, { low = -3, high = 4, seed = seed })
end

-- Runs on the emulator of a target; a hazard that is an error fails.
function kernels.run(kernel, options, ...)
  local report = kernel:emulate(options or { target = "sm_100a" }, ...)
  for _, hazard in ipairs(report.hazards) do
    if hazard.severity == "error" then error(hazard.message, 2) end
  end
  return report
end

-- Assembles; nil where no assembler is at hand.
function kernels.assembles(kernel, target)
  local cubin, message, code = kernel:cubin{ target = target or "sm_100a" }
  if not cubin then return nil, message, code end
  return #cubin > 0
end

return kernels

-- The smallest matmul: one block computes one 128 x 128 tile with K = 64 in a single step.
--
-- Shared memory stages the two operands, tensor memory holds the accumulator, one barrier says
-- that both copies have landed and another that the tensor core is done.
local tc = require "tcmma"

local M, N, K = 128, 128, 64

local tile = tc.kernel {
   name = "first_kernel",
   args = { tc.gmem({ M, K }, tc.float16), tc.gmem({ K, N }, tc.float16), tc.gmem({ M, N }, tc.float32) },
   grid = { 1 }, grid_names = { "tile" },
   body = function(a, b, out)
      local a_smem, b_smem = tc.smem({ M, K }, tc.float16), tc.smem({ K, N }, tc.float16)
      local acc = tc.tmem({ M, N }, tc.float32)
      local loaded = tc.barrier { num_arrivals = 2 }
      local done = tc.barrier { orders_tensor_core = true }

      tc.copy_gmem_to_smem(a, a_smem, loaded)
      tc.copy_gmem_to_smem(b, b_smem, loaded)
      tc.barrier_wait(loaded)
      tc.mma(acc, a_smem, b_smem, { accumulate = false, barrier = done })
      tc.barrier_wait(done)
      out:store(tc.async_load_tmem(acc))
   end,
}

local a = tc.randn({ M, K }, tc.float16, { seed = 1 })
local b = tc.randn({ K, N }, tc.float16, { seed = 2 })
local out = tc.empty({ M, N }, tc.float32)
tile(a, b, out)

local ok, report = tc.allclose(out, tc.reference.matmul(a, b), { rtol = 1e-4, atol = 1e-4 })
print(("first_kernel on %s: largest error %.2e: %s"):format(tc.device().name, report.max_abs_error,
   ok and "correct" or "WRONG"))
os.exit(ok)

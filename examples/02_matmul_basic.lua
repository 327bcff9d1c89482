-- Step 0 of the matmul ladder: one warpgroup does everything. A ring of stages keeps the copies
-- ahead of the tensor core; each step refills the slot that the step before it has released.
local tc = require "tcmma"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "support.lua")

local TM, TN, TK, STAGES = 128, 128, 64, 3

local function build(M, N, K)
   local steps = (K + TK - 1) // TK
   return tc.kernel {
      name = "matmul_basic",
      args = { tc.gmem({ M, K }, tc.float16), tc.gmem({ K, N }, tc.float16), tc.gmem({ M, N }, tc.float16) },
      grid = { (M + TM - 1) // TM, (N + TN - 1) // TN }, grid_names = { "m", "n" },
      body = function(a, b, out)
         local m, n = tc.axis_index "m", tc.axis_index "n"
         local a_smem = tc.smem({ STAGES, TM, TK }, tc.float16)
         local b_smem = tc.smem({ STAGES, TK, TN }, tc.float16)
         local acc = tc.tmem({ TM, TN }, tc.float32)
         local out_smem = tc.smem({ TM, TN }, tc.float16)
         local loaded = tc.barrier { num_arrivals = 2, num_barriers = STAGES }
         local consumed = tc.barrier { num_barriers = STAGES, orders_tensor_core = true }
         local done = tc.barrier { orders_tensor_core = true }

         local function load(k, slot)
            tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), a_smem[slot], loaded[slot])
            tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), b_smem[slot], loaded[slot])
         end

         for k = 0, math.min(STAGES - 1, steps) - 1 do -- a Lua loop unrolls
            load(k, k)
         end
         tc.range(steps, function(k) -- tc.range records a loop
            local slot = k % STAGES
            tc.barrier_wait(loaded[slot])
            tc.mma(acc, a_smem[slot], b_smem[slot], { barrier = consumed[slot], accumulate = k:gt(0) })
            local ahead = k + (STAGES - 1)
            tc.when(ahead:lt(steps), function()
               local free = ahead % STAGES
               tc.when(k:gt(0), function() tc.barrier_wait(consumed[free]) end)
               load(ahead, free)
            end)
         end)
         tc.commit_arrive(done)
         tc.barrier_wait(done)

         out_smem:store(tc.async_load_tmem(acc):astype(tc.float16))
         tc.commit_smem()
         tc.copy_smem_to_gmem(out_smem, out:tile({ m, n }, { TM, TN }))
         tc.wait_smem_to_gmem(0)
      end,
   }
end

if support.is_program() then
   local M, N, K = support.sizes(512, 512, 512)
   support.report("02 basic", M, N, K, support.check(build(M, N, K), M, N, K))
end
return build

-- Step 1 of the matmul ladder: warp specialisation. One warp does nothing but copy, one nothing but
-- issue MMAs, a warpgroup stores the result. The roles meet only at barriers, so copies never wait
-- for the epilogue's instructions nor the tensor core for the copies' addresses.
local tc = require "tcmma"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "support.lua")

local TM, TN, TK, STAGES = 128, 128, 64, 4

local function build(M, N, K)
   local steps = (K + TK - 1) // TK
   return tc.kernel {
      name = "matmul_warp_specialized",
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

         tc.role { name = "load", warps = 1 }(function()
            tc.range(steps, function(k)
               local slot = k % STAGES
               tc.when(k:ge(STAGES), function() tc.barrier_wait(consumed[slot]) end)
               tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), a_smem[slot], loaded[slot])
               tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), b_smem[slot], loaded[slot])
            end)
         end)
         tc.role { name = "mma", warps = 1 }(function()
            tc.range(steps, function(k)
               local slot = k % STAGES
               tc.barrier_wait(loaded[slot])
               tc.mma(acc, a_smem[slot], b_smem[slot], { barrier = consumed[slot], accumulate = k:gt(0) })
            end)
            tc.commit_arrive(done)
         end)
         tc.role { name = "epilogue", warpgroups = 1 }(function()
            tc.barrier_wait(done)
            out_smem:store(tc.async_load_tmem(acc):astype(tc.float16))
            tc.commit_smem()
            tc.copy_smem_to_gmem(out_smem, out:tile({ m, n }, { TM, TN }))
            tc.wait_smem_to_gmem(0)
         end)
      end,
   }
end

if support.is_program() then
   local M, N, K = support.sizes(512, 512, 512)
   support.report("03 warp specialisation", M, N, K, support.check(build(M, N, K), M, N, K))
end
return build

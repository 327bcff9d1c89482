-- A matmul with a fused epilogue: out = relu(a @ b + bias). The bias is a vector over the columns;
-- it is loaded once for each piece and broadcast along the rows, in float32, before the rounding.
local tc = require "tcmma"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "support.lua")

local TM, TN, TK, STAGES, PIECE = 128, 128, 64, 4, 64

local function build(M, N, K)
   local steps = (K + TK - 1) // TK
   return tc.kernel {
      name = "matmul_bias_relu",
      args = {
         tc.gmem({ M, K }, tc.float16), tc.gmem({ K, N }, tc.float16), tc.gmem({ N }, tc.float32),
         tc.gmem({ M, N }, tc.float16),
      },
      grid = { (M + TM - 1) // TM, (N + TN - 1) // TN }, grid_names = { "m", "n" },
      body = function(a, b, bias, out)
         local m, n = tc.axis_index "m", tc.axis_index "n"
         local a_smem = tc.smem({ STAGES, TM, TK }, tc.float16)
         local b_smem = tc.smem({ STAGES, TK, TN }, tc.float16)
         local acc = tc.tmem({ TM, TN }, tc.float32)
         local out_smem = tc.smem({ 2, TM, PIECE }, tc.float16)
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
            for i = 0, TN // PIECE - 1 do
               local column = n * (TN // PIECE) + i
               tc.wait_smem_to_gmem(1)
               local piece = tc.async_load_tmem(acc:at(tc.all, tc.ds(i * PIECE, PIECE)))
               local shifted = piece + bias:tile({ column }, { PIECE }):load()
               out_smem[i % 2]:store(tc.max(shifted, 0):astype(tc.float16))
               tc.commit_smem()
               tc.copy_smem_to_gmem(out_smem[i % 2], out:tile({ m, column }, { TM, PIECE }))
            end
            tc.wait_smem_to_gmem(0)
         end)
      end,
   }
end

if support.is_program() then
   local M, N, K = support.sizes(512, 512, 512)
   support.report("05 bias + relu", M, N, K, support.check(build(M, N, K), M, N, K, { bias = true, relu = true }))
end
return build

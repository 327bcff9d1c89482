-- A matmul with few tiles and a long K: parts of K are work of their own, and their results are added to one
-- output atomically. Workers take the parts in turn, in a pipeline of pipelines: the loads of the next part run
-- under the end of this one.
local tc = require "tcmma"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "support.lua")

local TM, TN, TK, STAGES, WORKERS = 128, 128, 64, 4, 16

-- Each part is `steps` tiles along K.
local function build(M, N, K, steps)
   local parts = (K + steps * TK - 1) // (steps * TK)
   return tc.kernel {
      name = "matmul_split_k",
      args = { tc.gmem({ M, K }, tc.float16), tc.gmem({ K, N }, tc.float16), tc.gmem({ M, N }, tc.float32) },
      grid = { WORKERS }, grid_names = { "worker" },
      body = function(a, b, out)
         local acc = tc.tmem({ TM, TN }, tc.float32)
         local done = tc.barrier { orders_tensor_core = true }
         local memory, compute = tc.role { name = "memory", warps = 1 }, tc.role { name = "compute", warpgroups = 1 }
         tc.nd_loop({ (M + TM - 1) // TM, (N + TN - 1) // TN, parts }, function(info)
            local m, n, part = table.unpack(info.index)
            tc.emit_pipeline_warp_specialized(function(step, x, y)
               tc.mma(acc, x, y, { barrier = step.consumed, accumulate = step.step:gt(0) })
            end, {
               grid = { steps }, max_concurrent_steps = STAGES, manual_consumed_barriers = true,
               memory = memory, compute = compute, turn = info.local_index,
               in_specs = {
                  tc.block_spec({ TM, TK }, function(k) return m, part * steps + k end),
                  tc.block_spec({ TK, TN }, function(k) return part * steps + k, n end),
               },
               compute_context = function(run)
                  run()
                  tc.commit_arrive(done)
                  tc.barrier_wait(done)
                  tc.atomic_add(out:tile({ m, n }, { TM, TN }), tc.async_load_tmem(acc))
                  tc.wait_load_tmem()
               end,
            })(a, b)
         end, { collective_axes = "worker" })
      end,
   }
end

if support.is_program() then
   local M, N, K = support.sizes(256, 128, 4096)
   local a, b = tc.randn({ M, K }, tc.float16, { seed = 1 }), tc.randn({ K, N }, tc.float16, { seed = 2 })
   local expected = tc.reference.matmul(a, b)
   for _, steps in ipairs { (K + TK - 1) // TK, 8 } do
      local kernel, out = build(M, N, K, steps), tc.zeros({ M, N }, tc.float32)
      kernel(a, b, out) -- the first call compiles
      out = tc.zeros({ M, N }, tc.float32)
      local start = tc.clock()
      kernel(a, b, out)
      tc.device():synchronize()
      local seconds = tc.clock() - start
      local ok, report = tc.allclose(out, expected, { rtol = 1e-3, atol = 2e-2 })
      support.report(("17 parts of %d along K"):format(steps * TK), M, N, K,
         { ok = ok, seconds = seconds, error = report.max_abs_error, relative = report.relative_rms })
   end
end
return build

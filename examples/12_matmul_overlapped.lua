-- Step 5 of the matmul ladder: the epilogue overlaps the MMAs. All 512 columns of tensor memory are two
-- accumulators: while the epilogue stores one tile, the tensor core works on the next in the other.
local tc = require "tcmma"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "support.lua")

local TM, TN, TK, STAGES, PIECE = 256, 256, 64, 6, 64 -- TM and TN: of the pair

local function build(M, N, K)
   local m_tiles, n_tiles, steps = tc.cdiv(M, TM), tc.cdiv(N, TN), tc.cdiv(K, TK)
   return tc.kernel {
      name = "matmul_overlapped", target = support.blackwell(),
      args = { tc.gmem({ M, K }, tc.float16), tc.gmem({ K, N }, tc.float16), tc.gmem({ M, N }, tc.float16) },
      grid = { support.clusters(m_tiles * n_tiles) }, grid_names = { "pair" },
      cluster = { 2 }, cluster_names = { "cta" },
      body = function(a, b, out)
         local cta = tc.axis_index "cta"
         local a_smem = tc.smem({ STAGES, TM // 2, TK }, tc.float16)
         local b_smem = tc.smem({ STAGES, TK, TN // 2 }, tc.float16)
         local acc = tc.tmem({ 2, TM // 2, TN }, tc.float32, { collective = true })
         local out_smem = tc.smem({ 2, TM // 2, PIECE }, tc.float16)
         local loaded = tc.barrier { num_arrivals = 2, num_barriers = STAGES }
         local consumed = tc.barrier { num_barriers = STAGES, orders_tensor_core = true }
         local done = tc.barrier { num_barriers = 2, orders_tensor_core = true }
         -- Both CTAs have read their rows of an accumulator: a later tile may overwrite it.
         local read = tc.cluster_barrier { num_barriers = 2, collective_axes = "cta", orders_tensor_core = true,
            leader_tracked = true }

         local load, issue, store = tc.role { name = "load", warps = 1 }, tc.role { name = "mma", warps = 1 },
            tc.role { name = "epilogue", warpgroups = 1 }
         tc.nd_loop({ m_tiles, n_tiles }, function(tile)
            local m, n, turn = tile.index[1], tile.index[2], tile.local_index
            local buffer = turn % 2
            load(function()
               tc.range(steps, function(k)
                  local at = turn * steps + k
                  local slot = at % STAGES
                  tc.when(at:ge(STAGES), function() tc.barrier_wait(consumed[slot]) end)
                  tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), a_smem[slot], loaded[slot],
                     { collective_axes = "cta", leader_tracked = "partitioned", partition_axis = 0 })
                  tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), b_smem[slot], loaded[slot],
                     { collective_axes = "cta", leader_tracked = "partitioned", partition_axis = 1 })
               end)
            end)
            issue(function()
               tc.when(cta:eq(0), function()
                  tc.when(turn:ge(2), function() tc.barrier_wait(read[buffer]) end)
                  tc.range(steps, function(k)
                     local slot = (turn * steps + k) % STAGES
                     tc.barrier_wait(loaded[slot])
                     tc.mma(acc[buffer], a_smem[slot], b_smem[slot],
                        { barrier = consumed[slot], accumulate = k:gt(0), collective_axis = "cta" })
                  end)
                  tc.commit_arrive(done[buffer], { collective_axis = "cta" })
               end)
            end)
            store(function()
               tc.barrier_wait(done[buffer])
               for i = 0, TN // PIECE - 1 do
                  local piece = tc.async_load_tmem(acc[buffer]:at(tc.all, tc.ds(i * PIECE, PIECE)))
                  tc.wait_smem_to_gmem(1, { wait_read_only = true })
                  out_smem[i % 2]:store(piece:astype(tc.float16))
                  tc.commit_smem()
                  tc.copy_smem_to_gmem(out_smem[i % 2],
                     out:tile({ m * 2 + cta, n * (TN // PIECE) + i }, { TM // 2, PIECE }))
               end
               tc.barrier_arrive(read[buffer])
            end)
         end, { collective_axes = "pair" })
      end,
   }
end

if support.is_program() then
   local M, N, K = support.sizes(512, 512, 512)
   support.report("12 overlapped epilogue", M, N, K, support.check(build(M, N, K), M, N, K))
end
return build

-- A 2:4 sparse matmul: of each four neighbours along K two weights are kept. The host prunes the weights and
-- writes down which ones stayed, two bits each; the tensor core picks the elements of B that meet them, and
-- does twice the work of a dense MMA in the same time, with half the bytes of A.
local tc = require "tcmma"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "support.lua")

local TM, TN, TK, STAGES, PIECE = 128, 128, 128, 4, 64 -- TK: of the pruned matrix, of which half is stored

-- out (M, N) = a (M, K), stored as (M, K / 2) and metadata, times b (K, N); in whole tiles.
local function build(M, N, K)
   local steps, entries = K // TK, TK // 2
   assert(M % TM == 0 and N % TN == 0 and K % TK == 0, "M, N and K in whole tiles")
   return tc.kernel {
      name = "matmul_sparse",
      args = { tc.gmem({ M, K // 2 }, tc.float16), tc.gmem({ M // TM, K // 2 // 64, 128, 64 }, tc.uint2),
         tc.gmem({ K, N }, tc.float16), tc.gmem({ M, N }, tc.float16) },
      grid = { M // TM, N // TN }, grid_names = { "m", "n" },
      body = function(a, metadata, b, out)
         local m, n = tc.axis_index "m", tc.axis_index "n"
         local a_smem = tc.smem({ STAGES, TM, TK // 2 }, tc.float16)
         local b_smem = tc.smem({ STAGES, TK, TN }, tc.float16)
         local metadata_smem = tc.smem({ STAGES, 1, entries // 64, 128, 64 }, tc.uint2, { swizzle = "none" })
         local acc = tc.tmem({ TM, TN }, tc.float32)
         local metadata_tmem = tc.tmem({ TM, entries }, tc.uint2, { layout = "sparse_metadata" })
         local out_smem = tc.smem({ TM, PIECE }, tc.float16)
         local loaded = tc.barrier { num_arrivals = 3, num_barriers = STAGES }
         local consumed = tc.barrier { num_barriers = STAGES, orders_tensor_core = true }
         local done = tc.barrier { orders_tensor_core = true }

         tc.role { name = "load", warps = 1 }(function()
            tc.range(steps, function(k)
               local slot = k % STAGES
               tc.when(k:ge(STAGES), function() tc.barrier_wait(consumed[slot]) end)
               tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK // 2 }), a_smem[slot], loaded[slot])
               tc.copy_gmem_to_smem(metadata:tile({ m, k, 0, 0 }, { 1, entries // 64, 128, 64 }),
                  metadata_smem[slot], loaded[slot])
               tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), b_smem[slot], loaded[slot])
            end)
         end)
         tc.role { name = "mma", warps = 1 }(function()
            tc.range(steps, function(k)
               local slot = k % STAGES
               tc.barrier_wait(loaded[slot])
               tc.async_copy_sparse_metadata_to_tmem(metadata_smem[slot], metadata_tmem)
               tc.mma(acc, a_smem[slot], b_smem[slot],
                  { barrier = consumed[slot], accumulate = k:gt(0), a_sparse_metadata = metadata_tmem })
            end)
            tc.commit_arrive(done)
         end)
         tc.role { name = "epilogue", warpgroups = 1 }(function()
            tc.barrier_wait(done)
            for i = 0, TN // PIECE - 1 do
               local piece = tc.async_load_tmem(acc:at(tc.all, tc.ds(i * PIECE, PIECE)))
               tc.wait_smem_to_gmem(0, { wait_read_only = true })
               out_smem:store(piece:astype(tc.float16))
               tc.commit_smem()
               tc.copy_smem_to_gmem(out_smem, out:tile({ m, n * (TN // PIECE) + i }, { TM, PIECE }))
            end
         end)
      end,
   }
end

-- The matrix that the kept values stand for: the greatest two of each four, the others zero.
local function pruned(a)
   local rows = a:totable()
   for _, row in ipairs(rows) do
      for first = 1, #row, 4 do
         local order = { first, first + 1, first + 2, first + 3 }
         table.sort(order, function(i, j)
            local x, y = math.abs(row[i]), math.abs(row[j])
            return x > y or x == y and i < j
         end)
         row[order[3]], row[order[4]] = 0, 0
      end
   end
   return tc.from_table(rows, a.dtype)
end

if support.is_program() then
   local M, N, K = support.sizes(256, 512, 512)
   local kernel = build(M, N, K)
   local a, b = tc.randn({ M, K }, tc.float16, { seed = 1 }), tc.randn({ K, N }, tc.float16, { seed = 2 })
   local values, metadata = tc.sparsify(a)
   local out = tc.empty({ M, N }, tc.float16)
   kernel(values, metadata, b, out)
   local ok, report = tc.allclose(out, tc.reference.matmul(pruned(a), b), { rtol = 2e-3, atol = 2e-2 })
   print(("16 2:4 sparse  %dx%dx%d on %s: largest error %.2e, relative %.2e: %s"):format(M, N, K, tc.device().name,
      report.max_abs_error, report.relative_rms, ok and "correct" or "WRONG"))
   os.exit(ok)
end
return build

-- Weights of 4 bits: integers with a scale for each row and each 64 elements along K. TMA brings them as they are,
-- a quarter of the bytes of bfloat16; a warpgroup makes bfloat16 of them in registers, which are operand A of the
-- MMA: through tensor memory on Blackwell, as they are on Hopper. While the tensor core reads one of two such
-- tiles, the other one is made.
local tc = require "tcmma"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "support.lua")

local TM, TN, TK, STAGES, PIECE = 128, 128, 64, 4, 64 -- TK: what one scale is for

-- out (M, N) = (weights (M, K) * scales (K / TK, M)) * b (K, N); in whole tiles, an even number of them along K.
local function build(M, N, K)
   local steps = K // TK
   assert(M % TM == 0 and N % TN == 0 and K % (2 * TK) == 0, "M, N and K in whole tiles")
   return tc.kernel {
      name = "matmul_int4",
      args = { tc.gmem({ M, K }, tc.int4), tc.gmem({ steps, M }, tc.float32), tc.gmem({ K, N }, tc.bfloat16),
         tc.gmem({ M, N }, tc.bfloat16) },
      grid = { M // TM, N // TN }, grid_names = { "m", "n" },
      body = function(weights, scales, b, out)
         local m, n = tc.axis_index "m", tc.axis_index "n"
         local w_smem = tc.smem({ STAGES, TM, TK }, tc.int4)
         local b_smem = tc.smem({ STAGES, TK, TN }, tc.bfloat16)
         local a = { tc.tmem({ TM, TK }, tc.bfloat16, { packed = true }),
            tc.tmem({ TM, TK }, tc.bfloat16, { packed = true }) }
         local acc = tc.tmem({ TM, TN }, tc.float32)
         local out_smem = tc.smem({ TM, PIECE }, tc.bfloat16)
         local loaded = tc.barrier { num_arrivals = 2, num_barriers = STAGES }
         local consumed = tc.barrier { num_barriers = STAGES, orders_tensor_core = true }
         local load, compute = tc.role { name = "load", warps = 1 }, tc.role { name = "compute", warpgroups = 1 }

         load(function()
            tc.range(steps, function(k)
               local slot = k % STAGES
               tc.when(k:ge(STAGES), function() tc.barrier_wait(consumed[slot]) end)
               tc.copy_gmem_to_smem(weights:tile({ m, k }, { TM, TK }), w_smem[slot], loaded[slot])
               tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), b_smem[slot], loaded[slot])
            end)
         end)
         compute(function()
            tc.range(steps // 2, function(pair)
               for i = 0, 1 do
                  local k = pair * 2 + i
                  local slot = k % STAGES
                  tc.barrier_wait(loaded[slot])
                  local scale = scales:at(k, tc.ds(m * TM, TM)):load():broadcast({ TM, TK }, 1)
                  local tile = (w_smem[slot]:load():astype(tc.float32) * scale):astype(tc.bfloat16)
                  -- The MMA of two steps ago has read the tile that lay here.
                  tc.when(k:ge(2), function() tc.barrier_wait(consumed[(k - 2) % STAGES]) end)
                  tc.async_store_tmem(a[i + 1], tile)
                  tc.commit_tmem()
                  tc.mma(acc, a[i + 1], b_smem[slot], { barrier = consumed[slot], accumulate = k:gt(0) })
               end
            end)
            for i = 2, 1, -1 do tc.barrier_wait(consumed[(steps - i) % STAGES]) end
            for i = 0, TN // PIECE - 1 do
               local piece = tc.async_load_tmem(acc:at(tc.all, tc.ds(i * PIECE, PIECE)))
               tc.wait_smem_to_gmem(0, { wait_read_only = true })
               out_smem:store(piece:astype(tc.bfloat16))
               tc.commit_smem()
               tc.copy_smem_to_gmem(out_smem, out:tile({ m, n * (TN // PIECE) + i }, { TM, PIECE }))
            end
         end)
      end,
   }
end

-- Each TK elements of a row as integers of -7 to 7, and what they are to be multiplied by.
local function quantized(rows)
   local integers, scales = {}, {}
   for i, row in ipairs(rows) do
      integers[i] = {}
      for step = 0, #row // TK - 1 do
         local most = 1e-30
         for k = 1, TK do most = math.max(most, math.abs(row[step * TK + k])) end
         scales[step + 1] = scales[step + 1] or {}
         scales[step + 1][i] = most / 7
         for k = 1, TK do integers[i][step * TK + k] = math.floor(row[step * TK + k] * 7 / most + 0.5) end
      end
   end
   return tc.from_table(integers, tc.int4), tc.from_table(scales, tc.float32)
end

-- The weights that these stand for, as the kernel rounds them.
local function dequantized(integers, scales)
   local rows, factors = integers:totable(), scales:totable()
   for i, row in ipairs(rows) do
      for k = 1, #row do row[k] = row[k] * factors[(k - 1) // TK + 1][i] end
   end
   return tc.from_table(rows, tc.bfloat16)
end

if support.is_program() then
   local M, N, K = support.sizes(256, 256, 512)
   local kernel = build(M, N, K)
   local weights, scales = quantized(tc.randn({ M, K }, tc.float32, { seed = 1 }):totable())
   local b, out = tc.randn({ K, N }, tc.bfloat16, { seed = 2 }), tc.empty({ M, N }, tc.bfloat16)
   kernel(weights, scales, b, out)
   local ok, report = tc.allclose(out, tc.reference.matmul(dequantized(weights, scales), b),
      { rtol = 1e-2, atol = 5e-2 })
   print(("18 int4 weights  %dx%dx%d on %s: largest error %.2e, relative %.2e: %s"):format(M, N, K, tc.device().name,
      report.max_abs_error, report.relative_rms, ok and "correct" or "WRONG"))
   os.exit(ok)
end
return build

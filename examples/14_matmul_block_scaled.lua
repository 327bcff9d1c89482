-- Block-scaled matmuls: mxfp8 and nvfp4. The host quantises plain matrices; each block of 32 (16) elements
-- along K has a scale, which travels with its tile into shared memory and from there into tensor memory,
-- where the tensor core multiplies by it. nvfp4 has a scale of the whole array too: the epilogue's factor.
local tc = require "tcmma"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "support.lua")

local TM, TN, STAGES, PIECE = 128, 256, 3, 64
local formats = { -- TK: 128 bytes of a row
   mxfp8 = { element = tc.float8_e4m3fn, scale = tc.float8_e8m0fnu, block = 32, TK = 128 },
   nvfp4 = { element = tc.float4_e2m1fn, scale = tc.float8_e4m3fn, block = 16, TK = 256 },
}

-- out (M, N) = factor * a (M, K) * b (N, K)^T; M, N and K in whole tiles.
local function build(format, M, N, K)
   local f = formats[format]
   local TK, steps = f.TK, K // f.TK
   local groups = TK // f.block // 4 -- of four scales along K: what one step takes of a row
   assert(M % TM == 0 and N % TN == 0 and K % TK == 0, "M, N and K in whole tiles")
   return tc.kernel {
      name = "matmul_" .. format, target = support.blackwell(),
      args = { tc.gmem({ M, K }, f.element), tc.gmem({ N, K }, f.element),
         tc.gmem({ M // 128, K // f.block // 4, 32, 16 }, f.scale), -- as tc.interleave_scales has them
         tc.gmem({ N // 128, K // f.block // 4, 32, 16 }, f.scale),
         tc.gmem({ 1 }, tc.float32), tc.gmem({ M, N }, tc.bfloat16) },
      grid = { M // TM, N // TN }, grid_names = { "m", "n" },
      body = function(a, b, a_scales, b_scales, factor, out)
         local m, n = tc.axis_index "m", tc.axis_index "n"
         local a_smem = tc.smem({ STAGES, TM, TK }, f.element)
         local b_smem = tc.smem({ STAGES, TN, TK }, f.element)
         local a_scale_smem = tc.smem({ STAGES, TM // 128, groups, 32, 16 }, f.scale)
         local b_scale_smem = tc.smem({ STAGES, TN // 128, groups, 32, 16 }, f.scale)
         local acc = tc.tmem({ TM, TN }, tc.float32)
         local a_scale = tc.tmem({ TM, 4 * groups }, f.scale, { layout = "scales" })
         local b_scale = tc.tmem({ TN, 4 * groups }, f.scale, { layout = "scales" })
         local out_smem = tc.smem({ 2, TM, PIECE }, tc.bfloat16)
         local loaded = tc.barrier { num_arrivals = 4, num_barriers = STAGES }
         local consumed = tc.barrier { num_barriers = STAGES, orders_tensor_core = true }
         local done = tc.barrier { orders_tensor_core = true }

         tc.role { name = "load", warps = 1 }(function()
            tc.range(steps, function(k)
               local slot = k % STAGES
               tc.when(k:ge(STAGES), function() tc.barrier_wait(consumed[slot]) end)
               tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), a_smem[slot], loaded[slot])
               tc.copy_gmem_to_smem(b:tile({ n, k }, { TN, TK }), b_smem[slot], loaded[slot])
               tc.copy_gmem_to_smem(a_scales:tile({ m, k, 0, 0 }, { TM // 128, groups, 32, 16 }),
                  a_scale_smem[slot], loaded[slot])
               tc.copy_gmem_to_smem(b_scales:tile({ n, k, 0, 0 }, { TN // 128, groups, 32, 16 }),
                  b_scale_smem[slot], loaded[slot])
            end)
         end)
         tc.role { name = "mma", warps = 1 }(function()
            tc.range(steps, function(k)
               local slot = k % STAGES
               tc.barrier_wait(loaded[slot])
               -- Copies into tensor memory and MMAs of one role are carried out in order.
               tc.async_copy_scales_to_tmem(a_scale_smem[slot], a_scale)
               tc.async_copy_scales_to_tmem(b_scale_smem[slot], b_scale)
               tc.mma(acc, a_smem[slot], b_smem[slot]:T(), { barrier = consumed[slot], accumulate = k:gt(0),
                  a_scale = a_scale, b_scale = b_scale })
            end)
            tc.commit_arrive(done)
         end)
         tc.role { name = "epilogue", warpgroups = 1 }(function()
            local by = factor[0]:load()
            tc.barrier_wait(done)
            for i = 0, TN // PIECE - 1 do
               tc.wait_smem_to_gmem(1)
               local piece = tc.async_load_tmem(acc:at(tc.all, tc.ds(i * PIECE, PIECE)))
               out_smem[i % 2]:store((piece * by):astype(tc.bfloat16))
               tc.commit_smem()
               tc.copy_smem_to_gmem(out_smem[i % 2], out:tile({ m, n * (TN // PIECE) + i }, { TM, PIECE }))
            end
            tc.wait_smem_to_gmem(0)
         end)
      end,
   }
end

-- Quantises random matrices, multiplies, and compares with the product in double precision: of what the
-- quantised elements stand for, which must agree, and of the matrices themselves, which shows the loss.
local function run(format, M, N, K)
   local kernel = build(format, M, N, K)
   local a, b = tc.randn({ M, K }, tc.float32, { seed = 1 }), tc.randn({ N, K }, tc.float32, { seed = 2 })
   local a_elements, a_scales, a_global = tc.quantize(a, format)
   local b_elements, b_scales, b_global = tc.quantize(b, format)
   local factor = (a_global or 1) * (b_global or 1)
   local out = tc.empty({ M, N }, tc.bfloat16)
   kernel(a_elements, b_elements, tc.interleave_scales(a_scales), tc.interleave_scales(b_scales),
      tc.full({ 1 }, factor, tc.float32), out)
   local same = tc.reference.matmul(tc.dequantize(a_elements, a_scales, { global_scale = a_global }),
      tc.dequantize(b_elements, b_scales, { global_scale = b_global }), { transpose_b = true })
   local ok, report = tc.allclose(out, same, { rtol = 1e-2, atol = 1e-2 })
   local _, loss = tc.allclose(out, tc.reference.matmul(a, b, { transpose_b = true }))
   print(("14 %s  %dx%dx%d on %s: relative error %.2e, %.2e of the unquantised product: %s"):format(format, M, N, K,
      tc.device().name, report.relative_rms, loss.relative_rms, ok and "correct" or "WRONG"))
   return ok
end

if support.is_program() then
   local M, N, K = support.sizes(256, 512, 1024)
   local ok = run("mxfp8", M, N, K)
   ok = run("nvfp4", M, N, K) and ok
   os.exit(ok)
end
return build

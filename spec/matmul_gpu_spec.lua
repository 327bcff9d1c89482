-- Needs a GPU: `make check-gpu`. Inputs are small integers, so that every order of additions gives the same sum: the
-- result of the GPU is exactly the product.
local tc = require "tcmma"
local matmul = require "tcmma.matmul"

local gpu = tc.device(os.getenv("TCMMA_DEVICE") or "cuda:0")
local on_gpu = gpu and it or pending

local function integers(shape, dtype, seed)
   return tc.randint(shape, dtype, { low = -4, high = 5, seed = seed, device = gpu })
end

local function exact(M, N, K, o)
   local dtype = o.dtype or "bf16"
   local a, b = integers({ M, K }, dtype, 1), integers(o.transpose_b == false and { K, N } or { N, K }, dtype, 2)
   local out = tc.full({ M, N }, 0 / 0, tc.float32, { device = gpu })
   local options = { transpose_b = o.transpose_b ~= false, config = o.config, epilogue = o.epilogue }
   if o.with_vectors then
      options.bias, options.residual = integers({ N }, "f32", 3), integers({ M, N }, "f32", 4)
      options.row_scale, options.column_scale = integers({ M }, "f32", 5), integers({ N }, "f32", 6)
   end
   for _ = 1, 3 do matmul(a, b, out, options) end
   gpu:synchronize()
   local expected = tc.reference.matmul(a, b, { transpose_b = options.transpose_b })
   if o.with_vectors then
      local values, bias, residual = expected:totable(), options.bias:totable(), options.residual:totable()
      local rows, columns = options.row_scale:totable(), options.column_scale:totable()
      for i, row in ipairs(values) do
         for j, x in ipairs(row) do row[j] = math.max(0, x * rows[i] * columns[j] + bias[j]) + residual[i][j] end
      end
      expected = tc.from_table(values, "f64")
   end
   local ok, report = tc.allclose(out:to "emulator", expected:to "emulator", { rtol = 0, atol = 0 })
   assert.is_true(ok, ("%dx%dx%d: %s"):format(M, N, K, tostring(report)))
end

describe("matmul on a GPU #gpu", function()
   for _, shape in ipairs {
      { 128, 128, 64 }, { 8, 8, 8 }, { 200, 296, 104 }, { 129, 136, 72 }, { 1000, 200, 40 }, { 512, 512, 512 },
      { 16, 4096, 1024 }, { 64, 2112, 1024 }, { 128, 2112, 512 }, { 1024, 1024, 256 }, { 1000, 2000, 200 },
      { 4096, 2112, 128 }, { 2048, 2048, 128 },
   } do
      local M, N, K = table.unpack(shape)
      for _, transpose_b in ipairs { true, false } do
         on_gpu(("%dx%dx%d, b as %s"):format(M, N, K, transpose_b and "[N, K]" or "[K, N]"), function()
            exact(M, N, K, { transpose_b = transpose_b })
         end)
      end
   end

   for _, dtype in ipairs { "f16", "e4m3", "e5m2" } do
      on_gpu(dtype, function() exact(520, 784, 528, { dtype = dtype }) end)
   end

   local configs = {
      { tile_m = 128, tile_n = 256, stages = 4 }, { tile_m = 128, tile_n = 176, ctas = 5 },
      { tile_m = 64, tile_n = 64, stages = 1 }, { tile_m = 64, tile_n = 32, stages = 2, tile_k = 128 },
      { tile_m = 128, tile_n = 208, cluster = 2, ctas = 8 }, { tile_m = 64, tile_n = 128, cluster = 4, ctas = 8 },
      { tile_m = 128, tile_n = 128, ctas = 1 }, { tile_m = 128, tile_n = 216, cluster = 2, ctas = 8 },
      { tile_m = 128, tile_n = 128, cluster_n = 2, ctas = 8 }, { tile_m = 256, tile_n = 160, cluster_n = 2, slots = 1 },
      { tile_m = 192, tile_n = 160, ctas = 7 },
   }
   for _, config in ipairs(configs) do
      local described = {}
      for key, value in pairs(config) do described[#described + 1] = key .. "=" .. value end
      table.sort(described)
      local title = table.concat(described, " ")
      on_gpu(title, function() exact(776, 1040, 712, { config = config }) end)
      on_gpu(title .. ", with every epilogue", function()
         local c = {}
         for key, value in pairs(config) do c[key] = value end
         if c.stages and c.stages > 3 then c.stages = nil end
         exact(392, 528, 200, { config = c, epilogue = "relu", with_vectors = true })
      end)
   end

   for _, config in ipairs {
      { swap = true, tile_m = 64, tile_n = 16, tile_k = 128, split_k = 2 }, { swap = true, tile_m = 128, tile_n = 16 },
      { tile_m = 64, tile_n = 64, split_k = 3 }, { swap = true, tile_m = 64, tile_n = 64, split_k = 4, stages = 3 },
   } do
      local title = ("%s%dx%d, split %d"):format(config.swap and "swapped " or "", config.tile_m, config.tile_n,
         config.split_k or 1)
      on_gpu(title, function() exact(16, 1024, 2048, { config = config }) end)
      on_gpu(title .. ", with every epilogue", function()
         exact(16, 512, 1024, { config = config, epilogue = "relu", with_vectors = true })
      end)
   end

   on_gpu("tuned", function()
      local a, b = integers({ 256, 512 }, "bf16", 1), integers({ 384, 512 }, "bf16", 2)
      local out = tc.zeros({ 256, 384 }, tc.float32, { device = gpu })
      local best, results = matmul.tune(a, b, out, { transpose_b = true }, { cache = false })
      assert.is_table(best)
      assert.equal("time", results.by)
      exact(256, 384, 512, {})
   end)
end)

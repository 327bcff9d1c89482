local tc = require "tcmma"
local matmul = require "tcmma.matmul"

local TARGET = "sm_100a"

local function on(target)
   return tc.device("emulator:" .. target)
end

-- Runs a matmul on the emulator of a target and compares each element with the double-precision product.
-- `o`: options of matmul, and dtype, dtype_b, out_dtype, target, with (names of extra inputs).
local function run(M, N, K, o)
   o = o or {}
   local device = on(o.target or TARGET)
   local function random(shape, dtype, seed)
      return tc.randn(shape, dtype, { seed = seed, device = device })
   end
   local dtype = tc.dtype(o.dtype or "bf16")
   local a = random({ M, K }, dtype, 1)
   local b = random(o.transpose_b and { N, K } or { K, N }, o.dtype_b or dtype, 2)
   local out_dtype = tc.dtype(o.out_dtype or dtype)
   local out = tc.full({ M, N }, 7, out_dtype, { device = device })
   local options = {
      transpose_b = o.transpose_b, epilogue = o.epilogue, accumulate_f32 = o.accumulate_f32, config = o.config,
   }
   local extra = {
      bias = { { N }, "f32" }, row_scale = { { M }, "f32" }, column_scale = { { N }, "f32" },
      residual = { { M, N }, out_dtype },
   }
   for i, name in ipairs(o.with or {}) do
      options[name] = random(extra[name][1], o[name .. "_dtype"] or extra[name][2], 10 + i)
   end
   assert.equal(out, matmul(a, b, out, options))

   local expected = tc.reference.matmul(a, b, { transpose_b = o.transpose_b }):totable()
   local extras = {}
   for name in pairs(extra) do extras[name] = options[name] and options[name]:totable() end
   local act = { relu = function(x) return math.max(x, 0) end, gelu = function(x)
      local y = math.sqrt(2 / math.pi) * (x + 0.044715 * x ^ 3)
      return x / (1 + math.exp(-2 * y))
   end, silu = function(x) return x / (1 + math.exp(-x)) end, sigmoid = function(x) return 1 / (1 + math.exp(-x)) end }
   local activation = o.host_epilogue or act[o.epilogue] or function(x) return x end
   for i, row in ipairs(expected) do
      for j, x in ipairs(row) do
         if extras.row_scale then x = x * extras.row_scale[i] end
         if extras.column_scale then x = x * extras.column_scale[j] end
         if extras.bias then x = x + extras.bias[j] end
         x = activation(x)
         if extras.residual then x = x + extras.residual[i][j] end
         row[j] = x
      end
   end
   expected = tc.from_table(expected, "f64")
   local rtol = out_dtype.bits == 8 and 0.13 or out_dtype == tc.bf16 and 1 / 128 or out_dtype == tc.f16 and 2e-3 or 1e-4
   local ok, report = tc.allclose(out:to "emulator", expected, { rtol = rtol, atol = o.atol or 3e-3 })
   assert.is_true(ok, ("%dx%dx%d: %s"):format(M, N, K, tostring(report)))
end

local both = { "sm_100a", "sm_90a" }

local message = require "helper".message

describe("matmul", function()
   for i = 0, 3 do
      local transpose_b, target = i % 2 == 1, both[i // 2 + 1]
      describe((transpose_b and "with b as [N, K] on " or "with b as [K, N] on ") .. target, function()
         for _, shape in ipairs {
            { 128, 128, 64 }, { 256, 256, 256 }, { 200, 296, 104 }, { 8, 8, 8 }, { 1, 16, 8 }, { 129, 136, 72 },
            { 300, 64, 640 }, { 16, 512, 512 }, { 64, 2112, 128 }, { 1000, 200, 40 },
         } do
            it(("multiplies %dx%dx%d"):format(table.unpack(shape)), function()
               local M, N, K = table.unpack(shape)
               run(M, N, K, { transpose_b = transpose_b, target = target })
            end)
         end
      end)
   end

   for _, types in ipairs {
      { "f16", "f16" }, { "f16", "f32" }, { "bf16", "f32" }, { "bf16", "f16" }, { "f16", "bf16" },
   } do
      it(("takes %s into %s"):format(table.unpack(types)), function()
         run(136, 144, 128, { dtype = types[1], out_dtype = types[2], transpose_b = true })
      end)
   end

   it("accumulates in f16 where that is asked for", function()
      run(128, 128, 64, { dtype = "f16", accumulate_f32 = false, atol = 0.1 })
   end)

   for i = 0, 5 do
      local types = ({ { "e4m3", "e4m3" }, { "e5m2", "e5m2" }, { "e4m3", "e5m2" } })[i // 2 + 1]
      local promoted = i % 2 == 1
      local how = promoted and ", summed in float32" or ""
      it(("takes %s and %s on Hopper%s"):format(types[1], types[2], how), function()
         run(200, 272, 528, {
            dtype = types[1], dtype_b = types[2], out_dtype = "f32", transpose_b = true, target = "sm_90a",
            accumulate_f32 = promoted or nil, atol = 2e-2, config = { tile_n = 128, ctas = 2 },
         })
      end)
   end

   it("adds short sums in float32 where that is asked for", function()
      local device, K = on "sm_90a", 1024
      -- One large product first: what follows is lost in sums of 14 bits.
      local a = tc.full({ 64, K }, 1, "e4m3", { device = device })
      local b = tc.full({ 64, K }, 0.0625, "e4m3", { device = device })
      for i = 0, 63 do
         a:set(i, 0, 448)
         b:set(i, 0, 448)
      end
      local problem = {
         M = 64, N = 64, K = K, dtype = "e4m3", out_dtype = "f32", transpose_b = true, target = "sm_90a",
      }
      local exact, errors = 448 * 448 + (K - 1) * 0.0625, {}
      for i, promoted in ipairs { false, true } do
         problem.accumulate_f32 = promoted
         local out = tc.zeros({ 64, 64 }, "f32", { device = device })
         local kernel = matmul.kernel(problem)
         kernel:emulate({ target = "sm_90a", numerics = "hardware" }, a, b, out)
         errors[i] = math.abs(out:get(5, 7) - exact)
      end
      assert.is_true(errors[2] < errors[1] / 3, ("%g against %g"):format(errors[2], errors[1]))
   end)

   it("allocates the result", function()
      local a, b = tc.ones({ 64, 32 }, "f16"), tc.ones({ 32, 64 }, "f16")
      local out = matmul(a, b)
      assert.equal(tc.f16, out.dtype)
      assert.equal(32, out:get(63, 63))
   end)

   it("keeps one kernel for each problem", function()
      local problem = { M = 128, N = 128, K = 64, dtype = "f16", target = TARGET }
      assert.equal((matmul.kernel(problem)), (matmul.kernel(problem)))
      problem.epilogue = "relu"
      local other = matmul.kernel(problem)
      problem.epilogue = nil
      assert.not_equal(other, (matmul.kernel(problem)))
   end)
end)

describe("matmul's epilogue", function()
   local shape = { 136, 208, 96 }
   local function case(title, options)
      for i = 0, 3 do
         local swap, target = i % 2 == 1, both[i // 2 + 1]
         it(title .. (swap and ", swapped, on " or " on ") .. target, function()
            local config = { swap = swap, tile_m = 128, tile_n = swap and 72 or 112, ctas = 2 }
            local o = { transpose_b = true, config = config, target = target }
            for key, value in pairs(options) do o[key] = value end
            run(shape[1], shape[2], shape[3], o)
         end)
      end
   end
   case("relu", { epilogue = "relu" })
   case("gelu", { epilogue = "gelu", atol = 2e-2 })
   case("silu", { epilogue = "silu", atol = 2e-2 })
   case("sigmoid", { epilogue = "sigmoid", atol = 2e-3 })
   case("bias", { with = { "bias" } })
   case("bias in bf16", { with = { "bias" }, bias_dtype = "bf16" })
   case("residual", { with = { "residual" } })
   case("row scale", { with = { "row_scale" } })
   case("column scale", { with = { "column_scale" } })
   case("scales, bias, relu, residual", {
      with = { "row_scale", "column_scale", "bias", "residual" }, epilogue = "relu", atol = 1e-2,
   })
   case("a function", {
      with = { "bias" }, atol = 1e-2,
      epilogue = function(x) return x * x + 1 end, host_epilogue = function(x) return x * x + 1 end,
   })
   case("residual into f32", { with = { "residual", "bias" }, out_dtype = "f32" })
end)

describe("matmul's configuration", function()
   local function with(config, M, N, K, o)
      local problem = { M = M, N = N, K = K, dtype = "bf16", transpose_b = true, target = TARGET }
      local title = matmul.describe(matmul.choose(problem, config))
      for _, target in ipairs(both) do
         it(title .. " on " .. target, function()
            o = o or {}
            o.transpose_b, o.config, o.target = o.transpose_b == nil or o.transpose_b, config, target
            run(M, N, K, o)
         end)
      end
   end
   with({ tile_m = 128, tile_n = 176, ctas = 3 }, 512, 352, 320)
   with({ tile_m = 128, tile_n = 256, ctas = 2, group = 2 }, 640, 512, 192)
   with({ tile_m = 128, tile_n = 256, ctas = 3, group = 4, stages = 3 }, 1152, 768, 448)
   with({ tile_m = 128, tile_n = 8, ctas = 5, stages = 2 }, 256, 64, 256)
   with({ tile_m = 64, tile_n = 48, stages = 1 }, 128, 96, 192)
   with({ tile_m = 64, tile_n = 64, tile_k = 128, stages = 3, ctas = 2 }, 192, 192, 1024)
   with({ tile_m = 128, tile_n = 248, stages = 2, ctas = 1 }, 256, 496, 128)
   with({ swap = true, tile_m = 64, tile_n = 16, tile_k = 128 }, 16, 512, 1024)
   with({ swap = true, tile_m = 128, tile_n = 16, ctas = 3 }, 16, 1024, 256, { transpose_b = false })
   with({ swap = true, tile_m = 128, tile_n = 104, ctas = 2 }, 104, 512, 128)
   with({ tile_m = 128, tile_n = 128, stages = 3, cluster = 2, ctas = 4 }, 640, 392, 328)
   with({ tile_m = 64, tile_n = 64, stages = 2, cluster = 4, ctas = 4 }, 512, 256, 320)
   with({ tile_m = 128, tile_n = 208, stages = 2, cluster = 2, ctas = 2 }, 520, 416, 72, { transpose_b = false })
   with({ tile_m = 128, tile_n = 216, stages = 2, cluster = 2, ctas = 2 }, 520, 432, 72)
   with({ tile_m = 128, tile_n = 136, stages = 3, cluster_n = 2, ctas = 4 }, 392, 640, 328)
   with({ tile_m = 128, tile_n = 128, stages = 3, ctas = 4, piece = 32, slots = 1 }, 392, 640, 336)
   with({ tile_m = 64, tile_n = 96, tile_k = 128, stages = 2, ctas = 2 }, 136, 192, 144, { transpose_b = false })
   with({ swap = true, tile_m = 64, tile_n = 16, tile_k = 128, stages = 3, split_k = 2 }, 16, 512, 1024,
      { with = { "bias", "residual" } })
   with({ tile_m = 64, tile_n = 64, stages = 3, split_k = 3 }, 64, 192, 1024, { with = { "row_scale" } })
   with({ swap = true, tile_m = 128, tile_n = 64, stages = 2, split_k = 4 }, 64, 256, 1000)

   for _, config in ipairs {
      { tile_m = 256, tile_n = 160, stages = 3, cluster_n = 2, ctas = 2, slots = 1 },
      { tile_m = 192, tile_n = 216, stages = 3, cluster = 2, ctas = 2 }, { tile_m = 192, tile_n = 160, ctas = 1 },
   } do
      local problem = { M = 392, N = 640, K = 200, dtype = "bf16", transpose_b = true, target = "sm_90a" }
      it(matmul.describe(matmul.choose(problem, config)) .. " on Hopper, without spills", function()
         run(392, 640, 200, { transpose_b = true, config = config, target = "sm_90a" })
         local kernel = matmul.kernel(problem, config)
         assert.is_truthy(kernel:cubin { target = "sm_90a" })
         assert.equal(0, kernel:info({ target = "sm_90a" }).spill_stores)
      end)
   end

   it("multiplies no more of the last block of K than there is", function()
      for _, case in ipairs { { "bf16", 200, 5 }, { "bf16", 192, 4 }, { "e4m3", 160, 5 } } do
         local kernel = matmul.kernel({
            M = 128, N = 128, K = case[2], dtype = case[1], out_dtype = "bf16", transpose_b = true, target = "sm_90a",
         }, { tile_m = 128, tile_n = 128 })
         local _, count = kernel:ptx({ target = "sm_90a" }):gsub("wgmma%.mma_async", "")
         assert.equal(case[3], count)
      end
   end)

   for _, target in ipairs(both) do
      for _, mode in ipairs { "check", "random" } do
         it(("leaves no hazard on %s in mode %s"):format(target, mode), function()
            local M, N, K, device = 264, 352, 320, on(target)
            local problem = {
               M = M, N = N, K = K, dtype = "bf16", transpose_b = true, bias = "f32", residual = "bf16",
               target = target,
            }
            local kernel = matmul.kernel(problem, { tile_m = 128, tile_n = 176, stages = 3, ctas = 4, cluster = 2 })
            local function random(shape, dtype, seed)
               return tc.randn(shape, dtype, { seed = seed, device = device })
            end
            local report = kernel:emulate({ mode = mode, seed = 4 }, random({ M, K }, "bf16", 1),
               random({ N, K }, "bf16", 2), random({ N }, "f32", 3), random({ M, N }, "bf16", 4),
               tc.empty({ M, N }, "bf16", { device = device }))
            assert.is_true(report.completed)
            assert.same({}, report.hazards)
         end)
      end
   end

   -- Among the fastest configurations measured on an H200.
   for _, case in ipairs {
      { 512, 512, 512, "^64x32x128 s4" }, { 1024, 2048, 1024, "^128x128x64 s6" },
      { 4096, 4096, 4096, "^128x256x64 s4 g8" }, { 6144, 6144, 6144, "^128x256x64 s4 g12" },
      { 8192, 8192, 8192, "^128x256x64 s4" }, { 4096, 8192, 4096, "^128x256x64 s4" },
      { 4096, 4096, 14336, "^128x256x64 s4" }, { 4096, 2112, 7168, "^128x176x64 s%d g4" },
      { 4000, 4000, 4000, "^192x160x64 s4" }, { 16, 14336, 4096, "^swap 64x16x128 s8" },
      { 8200, 8200, 8200, "^128x216x64 s4 g11 cl2" }, { 1000, 2000, 1000, "^128x128x64 s6 g%d cl2" },
      { 16, 4096, 4096, "^swap 64x16x128 s8" }, { 16, 4096, 14336, "^swap 64x16x128 s8 g1 sk2" },
      { 64, 4096, 4096, "64x32x128 s8" }, { 64, 7168, 2048, "^swap 64x64x128 s6" },
      { 16, 8192, 8192, "^swap 64x16x128 s8" }, { 128, 2112, 7168, "^swap 64x32x128 s8 g1" },
      { 128, 7168, 16384, "^64x112x64 s9" },
   } do
      local M, N, K, expected = table.unpack(case)
      it(("on Hopper for %dx%dx%d"):format(M, N, K), function()
         local config = matmul.choose { M = M, N = N, K = K, dtype = "bf16", transpose_b = true, target = "sm_90a" }
         assert.matches(expected, matmul.describe(config))
      end)
   end

   it("costs little time", function()
      local start = tc.clock()
      matmul.choose { M = 128, N = 8192, K = 8192, dtype = "bf16", transpose_b = true, target = "sm_90a" }
      assert.is_true(tc.clock() - start < 0.2)
   end)
end)

describe("matmul refuses", function()
   local a, b = tc.ones({ 64, 64 }, "f16"), tc.ones({ 64, 64 }, "f16")
   local function refuses(title, expected, ...)
      local arguments = table.pack(...)
      it(title, function()
         local text = message(matmul, table.unpack(arguments, 1, arguments.n))
         assert.matches(expected, text, 1, true)
      end)
   end
   refuses("what is no array", "'a' must be an array, got integer 1", 1, b)
   refuses("vectors", "'a' must have two dimensions, it has shape (64)", tc.ones({ 64 }, "f16"), b)
   refuses("shapes that do not meet", "'b' has shape (32, 64), expected (64, 64)", a, tc.ones({ 32, 64 }, "f16"))
   refuses("a wrong result", "'out' has shape (64, 32), expected (64, 64)", a, b, tc.ones({ 64, 32 }, "f16"))
   refuses("mixed types", "a is float16 and b is bfloat16; they must have one type", a, tc.ones({ 64, 64 }, "bf16"))
   refuses("other types", "operands must be one of bfloat16, float16, float8_e4m3fn, float8_e5m2, got int32",
      tc.ones({ 64, 64 }, "i32"), tc.ones({ 64, 64 }, "i32"))
   refuses("rows that TMA cannot step over",
      "a row of 'a' has 60 elements of float16; TMA needs a multiple of 8 (16 bytes). Pad the array to 64 columns",
      tc.ones({ 64, 60 }, "f16"), tc.ones({ 60, 64 }, "f16"))
   refuses("an unknown option", "unknown option 'biass'", a, b, nil, { biass = a })
   refuses("an option of the wrong kind", "option 'bias' must be an array, got integer 1", a, b, nil, { bias = 1 })
   refuses("an unknown epilogue",
      "option 'epilogue' must be one of none, gelu, relu, sigmoid, silu, or a function", a, b, nil,
      { epilogue = "swish" })
   refuses("a bias of the wrong length", "'bias' has shape (32), expected (64)", a, b, nil,
      { bias = tc.ones({ 32 }, "f32") })
   refuses("an unknown field of config", "option 'config' has no field 'tile'", a, b, nil, { config = { tile = 1 } })
   refuses("a tile that is not one", "config.tile_n = 12: legal is a multiple of 8 up to 256", a, b, nil,
      { config = { tile_n = 12 } })
   refuses("rows of tiles", "config.tile_m = 96: legal is 64 or 128", a, b, nil, { config = { tile_m = 96 } })
   refuses("narrow halves", "tile_n = 8: with tile_m = 64, sm_100a needs a multiple of 16", a, b, nil,
      { transpose_b = true, config = { tile_m = 64, tile_n = 8 } })
   refuses("a split of more tiles than run at once", "split_k = 2: 256 tiles are more than the 74 clusters",
      tc.ones({ 1024, 128 }, "f16"), tc.ones({ 128, 1024 }, "f16"), nil,
      { config = { tile_m = 64, tile_n = 64, split_k = 2 } })
   refuses("a split of nothing", "split_k = 2: K = 64 has fewer blocks of tile_k = 64", a, b, nil,
      { config = { tile_m = 64, tile_n = 64, split_k = 2 } })
   refuses("clusters of three", "cluster = 3: tile_k = 64 must be a multiple of 24", a, b, nil,
      { config = { tile_n = 64, cluster = 3 } })
   refuses("more stages than fit", "bytes of SMEM, sm_100a has", a, b, nil,
      { config = { tile_m = 128, tile_n = 256, stages = 9 } })
   refuses("bf16 accumulated in f16", "accumulate_f32 = false is for float16 and 8-bit operands",
      tc.ones({ 64, 64 }, "bf16"), tc.ones({ 64, 64 }, "bf16"), nil, { accumulate_f32 = false })

   it("with the caller's line", function()
      assert.matches("^spec/matmul_spec.lua:%d+: matmul: ", message(function() matmul(1, 2) end))
   end)
end)

describe("a configuration that matmul.choose gives", function()
   it("has the fields that the documentation lists, and no other", function()
      local documentation = require "tcmma.documentation"
      local text
      for _, entry in ipairs(documentation.all()) do
         if entry.owner == "tcmma.matmul" and entry.name == "choose" then text = entry.doc end
      end
      local problem, listed = { M = 512, N = 512, K = 256, dtype = "f16", target = "sm_90a" }, {}
      local always = text:match "gets: (.-)%."
      for name in always:gmatch "`([%w_]+)`" do listed[name] = true end
      local config = matmul.choose(problem)
      for name in pairs(listed) do assert(config[name] ~= nil, name) end
      for name in pairs(config) do assert(listed[name], name) end
      assert.equal(4, matmul.choose(problem, { ctas = 4 }).ctas)
   end)
end)

-- What the matrix instruction takes: documented errors of the instruction builder.
local tc = require "tcmma"
local helper = require "helper"
local refuses = helper.refuses

local pair = { cluster = { 2 }, cluster_names = { "x" } }

-- o: m, n, k, a, b, d (dtypes), options of the allocations, a_tmem, b_t (b stored as (n, k)).
local function operands(o)
   local m, n, k = o.m or 128, o.n or 128, o.k or 128
   local d, a_type = o.d or tc.f32, o.a or tc.f16
   local b_type = o.b or a_type
   local acc_options = o.acc or {}
   if d == tc.f16 or d == tc.bf16 then acc_options.packed = acc_options.packed or false end
   local acc = tc.tmem({ m, n }, d, acc_options)
   local a, b
   if o.a_tmem then
      a = tc.tmem({ m, k }, a_type, o.a_tmem)
   elseif o.a_t then
      a = tc.smem({ k, m }, a_type, o.a_options):T()
   else
      a = tc.smem({ m, k }, a_type, o.a_options)
   end
   if o.b_t then
      b = tc.smem({ n, k }, b_type, o.b_options):T()
   else
      b = tc.smem({ k, n }, b_type, o.b_options)
   end
   return acc, a, b
end

local function case(o, options, good)
   return function()
      local acc, a, b = operands(o)
      local bad = function() tc.mma(acc, a, b, options) end
      if not good then return bad end
      local acc2, a2, b2 = operands(good)
      return bad, function() tc.mma(acc2, a2, b2) end
   end
end

describe("Places and types:", function()
   refuses("A in TMEM is packed", "A layout mismatch: expected default(packing=2), got default(packing=1)",
      case({ a_tmem = { packed = false } }, nil, { a_tmem = { packed = true } }))
   refuses("A and B have one type",
      "MMA requires A and B to have the same element type, except that FP8 types (f8E4M3FN and f8E5M2) may be mixed; "
         .. "got: f16 and bf16", case({ a = tc.f16, b = tc.bf16 }, nil, { a = tc.bf16 }))
   refuses("fp8 and f16",
      "MMA requires A and B to have the same element type, except that FP8 types (f8E4M3FN and f8E5M2) may be mixed; "
         .. "got: f8E4M3FN and f16", case { a = tc.e4m3, b = tc.f16 })
   refuses("an f16 accumulator is not packed",
      "Accumulator layout mismatch: expected default(packing=1), got default(packing=2)",
      case({ d = tc.f16, acc = { packed = true } }, nil, { d = tc.f16 }))
   refuses("an accumulator of M = 64 is not packed",
      "Accumulator layout mismatch: expected half_lane(packing=1), got half_lane(packing=2)",
      case({ m = 64, d = tc.f16, acc = { packed = true } }, nil, { m = 64, d = tc.f16 }))
   refuses("M is 64 or 128", "Only M=128 and M=64 are supported for MMA, but got M=256",
      case { m = 256, acc = { layout = "default" } })
   refuses("bf16 into f16", "MMA with element type bf16 only supports accumulators of type f32, but got: f16",
      case({ a = tc.bf16, d = tc.f16 }, nil, { a = tc.bf16 }))
   refuses("f32 into f16", "MMA with element type f32 only supports accumulators of type f32, but got: f16",
      case { a = tc.f32, d = tc.f16, k = 32 })
   refuses("f16 into s32", "MMA with element type f16 only supports accumulators of type f32 or f16, but got: i32",
      case { d = tc.i32 })
   refuses("fp8 into s32", "MMA with element type f8E4M3FN only supports accumulators of type f32 or f16, but got: i32",
      case { a = tc.e4m3, d = tc.i32 })
   refuses("fp4 without scales", "MMA with element type f4E2M1FN only supports block scaling", case { a = tc.e2m1 })
   refuses("int8 into f32", "MMA with element type s8 only supports s32 accumulators, but got: f32",
      case { a = tc.i8 })
   refuses("another element type", "Unsupported element type: i16", case { a = tc.i16 })
end)

describe("Sizes:", function()
   refuses("K of an instruction", "K must be a multiple of 16, got: 8",
      case({ k = 8, a_t = true }, nil, { k = 16, a_t = true }))
   refuses("K of an instruction of fp8", "K must be a multiple of 32, got: 16",
      case({ a = tc.e4m3, k = 16, a_t = true }, nil, { a = tc.e4m3, k = 32, a_t = true }))
   refuses("N of int8", "In 1 CTA integer MMA, N must be a multiple of 16, got N=72",
      case({ a = tc.i8, d = tc.i32, n = 72, b_t = true }, nil, { a = tc.i8, d = tc.i32, n = 24, b_t = true }))
   refuses("N of int8, M = 64", "In 1 CTA integer MMA, N must be a multiple of 16, got N=40",
      case({ a = tc.i8, d = tc.i32, m = 64, n = 40, b_t = true }, nil,
        { a = tc.i8, d = tc.i32, m = 64, n = 48, b_t = true }))
   refuses("collective N of int8", "In 2 CTA integer MMA, N must be a multiple of 16, got N=8", function()
      local acc = tc.tmem({ 128, 16 }, tc.i32, { collective = true })
      local good = tc.tmem({ 128, 32 }, tc.i32, { collective = true })
      local a, b = tc.smem({ 128, 64 }, tc.i8), tc.smem({ 8, 64 }, tc.i8):T()
      local sixteen = tc.smem({ 16, 64 }, tc.i8):T()
      return function() tc.mma(acc, a, b, { collective_axis = "x" }) end,
         function() tc.mma(good, a, sixteen, { collective_axis = "x" }) end
   end, pair)
   refuses("collective N above 128", "Only N <= 128 are supported for collective MMA", function()
      local acc = tc.tmem({ 128, 512 }, tc.f32, { collective = true })
      local a, b = tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 256 }, tc.f16)
      local half, rows = tc.tmem({ 64, 512 }, tc.f32, { collective = true }), tc.smem({ 64, 64 }, tc.f16)
      return function() tc.mma(acc, a, b, { collective_axis = "x" }) end,
         function() tc.mma(half, rows, b, { collective_axis = "x" }) end
   end, pair)

   for _, n in ipairs { 8, 16, 24, 40, 136, 248, 256, 512 } do
      it("M = 128 takes N = " .. n, function()
         helper.recording(nil, function()
            local acc, a, b = operands { n = n, b_t = true, k = 64 }
            tc.mma(acc, a, b)
         end)
      end)
   end
   for _, n in ipairs { 16, 32, 48, 128, 256 } do
      it("M = 64 takes N = " .. n, function()
         helper.recording(nil, function()
            local acc, a, b = operands { m = 64, n = n, b_t = true, k = 64, b_options = { swizzle = 32 } }
            tc.mma(acc, a, b)
         end)
      end)
   end
   for _, k in ipairs { 16, 32, 48, 64, 80, 256 } do
      it("K = " .. k .. " is taken", function()
         helper.recording(nil, function()
            local acc, a, b = operands { n = 64, k = k }
            tc.mma(acc, a, b)
         end)
      end)
   end
end)

-- o: rows and columns of the scales, layout, dtype.
local function scale(rows, columns, dtype, layout)
   return tc.tmem({ rows, columns }, dtype or tc.e8m0, { layout = layout or "scales" })
end

local function scaled(o, a_scale, b_scale)
   return function()
      local acc, a, b = operands(o)
      local options = { a_scale = scale(table.unpack(a_scale)), b_scale = scale(table.unpack(b_scale or a_scale)) }
      return function() tc.mma(acc, a, b, options) end
   end
end

describe("Block scaling:", function()
   local fp8, fp4 = { a = tc.e4m3 }, { a = tc.e2m1, k = 256, b_t = true }

   refuses("1 CTA, M = 64", "MMA with block scaling is not supported for 1CTA M=64",
      scaled({ a = tc.e4m3, m = 64 }, { 128, 4 }))
   refuses("f16", "MMA with element type f16 does not support block scaling", scaled({}, { 128, 4 }))
   refuses("bf16", "MMA with element type bf16 does not support block scaling", scaled({ a = tc.bf16 }, { 128, 4 }))
   refuses("f32", "MMA with element type f32 does not support block scaling",
      scaled({ a = tc.f32, k = 32 }, { 128, 4 }))
   refuses("int8", "MMA with element type i8 does not support block scaling",
      scaled({ a = tc.i8, d = tc.i32 }, { 128, 4 }))
   refuses("fp8 into f16", "Block-scaled MMA with element type f8E4M3FN only supports f32 accumulators, but got: f16",
      scaled({ a = tc.e4m3, d = tc.f16 }, { 128, 4 }))
   refuses("fp4 into f16", "Block-scaled MMA with element type f4E2M1FN only supports f32 accumulators, but got: f16",
      scaled({ a = tc.e2m1, d = tc.f16, k = 256, b_t = true }, { 128, 8 }))
   refuses("K and the number of scales", "K=128 is not divisible by A scale second dimension 12",
      scaled(fp8, { 128, 12 }))
   refuses("scales of different types", "B scale dtype mismatch: expected f8E8M0FNU (same as A), got f8E4M3FN",
      scaled(fp4, { 128, 8 }, { 128, 8, tc.e4m3 }))
   refuses("fp8 with other scales", "Scale element type mismatch: expected f8e8m0fnu, got f8E4M3FN",
      scaled(fp8, { 128, 4, tc.e4m3 }))
   refuses("the block of fp8", "Scale block size mismatch: expected 32, got 16", scaled(fp8, { 128, 8 }))
   refuses("the block of fp4 with e4m3 scales", "Scale block size mismatch: expected 16, got 32",
      scaled(fp4, { 128, 8, tc.e4m3 }))
   refuses("the block of fp4 with e8m0 scales", "Scale block size mismatch: expected 16 or 32, got 64",
      scaled(fp4, { 128, 4 }))
   refuses("fp4 with other scales", "Scale element type mismatch: expected f8e8m0fnu or f8e4m3fn, got f8E5M2",
      scaled(fp4, { 128, 8, tc.e5m2 }))
   refuses("the shape of A's scales", "A scale shape mismatch: expected (128, 4), got (256, 4)",
      scaled(fp8, { 256, 4 }, { 128, 4 }))
   refuses("the layout of A's scales", "A scale layout default(packing=1) is not supported", function()
      local acc, a, b = operands(fp8)
      local plain = tc.tmem({ 128, 4 }, tc.e8m0, { packed = false })
      return function() tc.mma(acc, a, b, { a_scale = plain, b_scale = plain }) end
   end)
   refuses("the layout of B's scales",
      "Expected B scales to have a M=128 layout, got b_scales_m64_collective(packing=4)",
      scaled(fp8, { 128, 4 }, { 256, 4, tc.e8m0, "b_scales_m64_collective" }))
   refuses("the layout of B's scales for collective M = 64",
      "Expected B scales to have a M=64 collective layout, got scales(packing=4)", function()
         local acc = tc.tmem({ 64, 256 }, tc.f32, { collective = true })
         local a, b = tc.smem({ 64, 128 }, tc.e4m3), tc.smem({ 128, 128 }, tc.e4m3)
         local s = tc.tmem({ 128, 4 }, tc.e8m0, { layout = "scales", collective = true })
         return function() tc.mma(acc, a, b, { a_scale = s, b_scale = s, collective_axis = "x" }) end
      end, pair)
   refuses("the rows of B's scales", "B scale shape[0] must be a multiple of 128 and >= N=256, got 128",
      scaled({ a = tc.e4m3, n = 256 }, { 128, 4 }))
   refuses("the columns of B's scales", "B scale shape mismatch: expected (128, 4), got (128, 8)",
      scaled(fp8, { 128, 4 }, { 128, 8 }))
   refuses("fp4 A is K-major", "4-bit block scaled MMA only supports K-fastest operands, but A is M-fastest",
      scaled({ a = tc.e2m1, k = 256, a_t = true, a_options = { swizzle = 64 }, b_t = true }, { 128, 8 }))
   refuses("fp4 B is K-major", "4-bit block scaled MMA only supports K-fastest operands, but B is N-fastest",
      scaled({ a = tc.e2m1, k = 256, n = 256 }, { 128, 8 }, { 256, 8 }))
   refuses("scales of a call that is not 2-D", "a_scale must be 2-D, but has shape (2, 128, 4).", function()
      local acc, a, b = operands(fp8)
      local s = tc.tmem({ 2, 128, 4 }, tc.e8m0, { layout = "scales" })
      return function() tc.mma(acc, a, b, { a_scale = s, b_scale = s }) end
   end)
end)

describe("The SMEM descriptor", function()
   refuses("cannot say a panel of 2^18 bytes", "Cannot encode value in an MMA descriptor: 262144", function()
      local acc, a, b = tc.tmem({ 128, 128 }, tc.f32), tc.smem({ 128, 2048 }, tc.f16), tc.smem({ 2048, 128 }, tc.f16)
      local b1 = tc.smem({ 2048, 64 }, tc.f16)
      local acc1 = tc.tmem({ 128, 64 }, tc.f32)
      return function() tc.mma(acc, a, b) end, function() tc.mma(acc1, a, b1) end
   end)
   refuses("cannot reach a stage beyond 2^18 bytes", "Cannot encode value in an MMA descriptor: 262144", function()
      local acc, a, b = tc.tmem({ 128, 64 }, tc.f32), tc.smem({ 20, 128, 64 }, tc.f16), tc.smem({ 64, 64 }, tc.f16)
      return function() tc.mma(acc, a[16], b) end, function() tc.mma(acc, a[15], b) end
   end)
   refuses("is of the last two dimensions of an allocation",
      "tc.mma needs the last two dimensions of an SMEM allocation, but a has others.", function()
         local acc, a, b = tc.tmem({ 128, 64 }, tc.f32), tc.smem({ 128, 8, 64 }, tc.f16), tc.smem({ 64, 64 }, tc.f16)
         return function() tc.mma(acc, a:at(tc.all, 0, tc.all), b) end
      end)
end)

describe("A target", function()
   refuses("without the kind", "kind::i8 with i8 and i8 does not exist on sm_103a.", case { a = tc.i8, d = tc.i32 },
      { target = "sm_103a" })
   refuses("without the types", "kind::f8f6f4 with f6E3M2FN and f6E3M2FN does not exist on sm_90a.",
      case { a = tc.e3m2, b_t = true }, { target = "sm_90a" })
end)

-- Block-scaled kinds of tcgen05.mma: assembled for both targets, and in every mode of the emulator, without
-- hazards, equal to the product of scaled operands in double precision.
local tc = require "tcmma"
local mma = require "mma_kernels"

local function transposed(array)
  local out = {}
  for i, row in ipairs(array:totable()) do
    for j, x in ipairs(row) do
      out[j] = out[j] or {}
      out[j][i] = x
    end
  end
  return tc.from_table(out, array.dtype)
end

local function check(o)
  o.d = tc.f32
  if o.b_transposed == nil then o.b_transposed = true end
  local a, b = mma.operand({ o.m, o.k }, o.a, 1), mma.operand({ o.n, o.k }, o.b, 2)
  local a_scale, b_scale = mma.scales(o.m, o.k // o.block, o.scale, 3), mma.scales(o.n, o.k // o.block, o.scale, 4)
  local expected = tc.reference.matmul(mma.scaled(a, a_scale, o.block), mma.scaled(b, b_scale, o.block),
    { transpose_b = true })
  return mma.check(o, { o.a_transposed and transposed(a) or a, o.b_transposed and b or transposed(b),
                        tc.interleave_scales(a_scale), tc.interleave_scales(b_scale) }, expected)
end

local floats = { tc.e4m3, tc.e5m2, tc.e2m3, tc.e3m2, tc.e2m1 }

describe("Block-scaled tcgen05.mma", function()
  it("of every pair of kind::mxf8f6f4", function()
    for _, a in ipairs(floats) do
      for _, b in ipairs(floats) do
        check{ m = 128, n = 64, k = 128, a = a, b = b, scale = tc.e8m0, block = 32, padded = true,
               modes = { "fast", "check" } }
      end
    end
  end)

  it("of kind::mxf8f6f4 with every step along K, and every N", function()
    check{ m = 128, n = 128, k = 512, a = tc.e4m3, b = tc.e5m2, scale = tc.e8m0, block = 32 }
    for n = 8, 256, 24 do
      check{ m = 128, n = n, k = 128, a = tc.e4m3, b = tc.e4m3, scale = tc.e8m0, block = 32, modes = { "check" } }
    end
    for _, n in ipairs{ 256, 264, 448 } do
      check{ m = 128, n = n, k = 256, a = tc.e4m3, b = tc.e4m3, scale = tc.e8m0, block = 32 }
    end
  end)

  it("of kind::mxf8f6f4 with operands in either order", function()
    for order = 1, 3 do
      check{ m = 128, n = 128, k = 128, a = tc.e4m3, b = tc.e4m3, scale = tc.e8m0, block = 32,
             a_transposed = order % 2 == 1, b_transposed = order < 2 }
    end
  end)

  it("of kind::mxf4 and kind::mxf4nvf4", function()
    for _, scale in ipairs{ { tc.e8m0, 32 }, { tc.e8m0, 16 }, { tc.e4m3, 16 } } do
      for _, n in ipairs{ 64, 128, 200, 256 } do
        check{ m = 128, n = n, k = 256, a = tc.e2m1, b = tc.e2m1, scale = scale[1], block = scale[2] }
      end
      check{ m = 128, n = 128, k = 1024, a = tc.e2m1, b = tc.e2m1, scale = scale[1], block = scale[2] }
    end
  end)

  it("with A in tensor memory", function()
    for _, a in ipairs{ tc.e4m3, tc.e5m2 } do
      check{ m = 128, n = 64, k = 128, a = a, b = tc.e4m3, scale = tc.e8m0, block = 32, a_tmem = "store" }
    end
    check{ m = 128, n = 64, k = 256, a = tc.e2m1, b = tc.e2m1, scale = tc.e4m3, block = 16, a_tmem = "copy" }
    check{ m = 128, n = 64, k = 256, a = tc.e3m2, b = tc.e2m1, scale = tc.e8m0, block = 32, padded = true,
           a_tmem = "copy" }
  end)

  it("in several calls along K, each with its columns of the scales", function()
    check{ m = 128, n = 192, k = 512, a = tc.e4m3, b = tc.e4m3, scale = tc.e8m0, block = 32, parts = 4 }
    check{ m = 128, n = 192, k = 1024, a = tc.e2m1, b = tc.e2m1, scale = tc.e8m0, block = 32, parts = 4 }
    check{ m = 128, n = 64, k = 512, a = tc.e2m1, b = tc.e2m1, scale = tc.e4m3, block = 16, parts = 2 }
  end)

  it("was assembled", function()
    local done, why = mma.assembled()
    if not done then return pending(why) end
  end)
end)

describe("The instruction descriptor of a block-scaled MMA", function()
  local function same(title, expected, o)
    it(title, function()
      o.d, o.b_transposed = tc.f32, true
      assert.same(expected, mma.descriptors(mma.tile(o)))
    end)
  end

  same("mxf8 e4m3, 128 x 128", { 0x08A00000, 0x28A00010, 0x48A00020, 0x68A00030 },
    { m = 128, n = 128, k = 128, a = tc.e4m3, b = tc.e4m3, scale = tc.e8m0, block = 32 })
  same("mxf4, 128 x 128", { 0x08A00480, 0x48A004A0 },
    { m = 128, n = 128, k = 256, a = tc.e2m1, b = tc.e2m1, scale = tc.e8m0, block = 32 })
  same("nvf4, 128 x 256", { 0x08400480 },
    { m = 128, n = 256, k = 256, a = tc.e2m1, b = tc.e2m1, scale = tc.e4m3, block = 16 })
end)

describe("A pipelined matmul", function()
  local function agrees(title, format, o)
    it(title, function()
      local a, a_scales, a_global = tc.quantize(tc.randn({ mma.M, mma.K }, tc.f32, { seed = 1 }), format)
      local b, b_scales, b_global = tc.quantize(tc.randn({ mma.N, mma.K }, tc.f32, { seed = 2 }), format)
      local expected = tc.reference.matmul(tc.dequantize(a, a_scales), tc.dequantize(b, b_scales),
        { transpose_b = true })
      o.a, o.scale = a.dtype, a_scales.dtype
      assert.equal(a_global == nil, b_global == nil)
      for _, slots in ipairs{ 0, 2, 3 } do
        o.slots = slots > 0 and slots or nil
        local kernel = mma.pipelined(o)
        for _, mode in ipairs{ "fast", "check", "random" } do
          local out = tc.zeros({ mma.M, mma.N }, tc.f32)
          local report = kernel:emulate({ target = "sm_100a", mode = mode }, a, b, tc.interleave_scales(a_scales),
            tc.interleave_scales(b_scales), out)
          assert.same({}, report.hazards)
          assert.is_true(tc.allclose(out, expected, { rtol = 1e-4, atol = 1e-3 }))
        end
      end
    end)
  end

  agrees("of mxfp8", "mxfp8", { tk = 128, block = 32 })
  agrees("of mxfp4", "mxfp4", { tk = 256, block = 32 })
  agrees("of nvfp4", "nvfp4", { tk = 256, block = 16 })
end)

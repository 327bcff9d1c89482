-- Every dense kind of tcgen05.mma: assembled for both targets, and in every mode of the emulator, without
-- hazards, equal to the product in double precision.  Operands are small integers, so results are exact.
local tc = require "tcmma"
local mma = require "mma_kernels"

local floats = { tc.e4m3, tc.e5m2, tc.e2m3, tc.e3m2, tc.e2m1 }
local i8 = { "sm_100a" } -- kind::i8 is not on sm_103a

describe("tcgen05.mma", function()
  it("of kind::tf32", function()
    for _, dtype in ipairs{ tc.f32, tc.tf32 } do
      for _, swizzle in ipairs{ 32, 64, 128 } do
        for _, m in ipairs{ 64, 128 } do
          mma.dense{ m = m, n = 64, k = 64, a = dtype, b = tc.f32, a_swizzle = swizzle, b_swizzle = swizzle,
                     b_transposed = true }
        end
      end
    end
  end)

  it("of kind::tf32 with operands stored with K first", function()
    local atom = "128B_atom_32B"
    for _, m in ipairs{ 64, 128 } do
      for order = 1, 3 do
        local a_transposed, b_transposed = order % 2 == 1, order < 2
        mma.dense{ m = m, n = 96, k = 64, a = tc.f32, b = tc.f32, a_swizzle = a_transposed and atom or 64,
                   b_swizzle = not b_transposed and atom or 128, a_transposed = a_transposed,
                   b_transposed = b_transposed }
      end
    end
  end)

  it("of every pair of kind::f8f6f4", function()
    for _, a in ipairs(floats) do
      for _, b in ipairs(floats) do
        mma.dense{ m = 128, n = 64, k = 128, a = a, b = b, padded = true, b_transposed = true,
                   modes = { "fast", "check" } }
      end
    end
  end)

  it("of kind::f8f6f4 with M = 64, and into f16", function()
    for _, a in ipairs(floats) do
      mma.dense{ m = 64, n = 128, k = 128, a = a, b = tc.e5m2, d = tc.f16, padded = true, b_transposed = true }
    end
  end)

  it("of kind::f8f6f4 with 8-bit operands in either order", function()
    for _, swizzle in ipairs{ 32, 64, 128 } do
      for order = 0, 3 do
        mma.dense{ m = 128, n = 128, k = 128, a = tc.e4m3, b = tc.e5m2, a_swizzle = swizzle, b_swizzle = swizzle,
                   a_transposed = order % 2 == 1, b_transposed = order >= 2 }
      end
    end
  end)

  it("of kind::i8, signed and unsigned", function()
    for _, a in ipairs{ tc.i8, tc.u8 } do
      for _, b in ipairs{ tc.i8, tc.u8 } do
        for _, m in ipairs{ 64, 128 } do
          mma.dense{ m = m, n = 64, k = 64, a = a, b = b, d = tc.i32, a_swizzle = 64, b_swizzle = 32,
                     b_transposed = true, targets = i8 }
        end
      end
    end
    mma.dense{ m = 128, n = 128, k = 128, a = tc.i8, b = tc.u8, d = tc.i32, a_transposed = true, targets = i8 }
  end)

  it("with N from 8 to 512", function()
    for n = 8, 512, 16 do
      mma.dense{ m = 128, n = n, k = 16, a = tc.f16, b = tc.f16, a_swizzle = 32, b_swizzle = 32, b_transposed = true,
                 modes = { "fast" } }
    end
    for _, n in ipairs{ 264, 384, 504 } do
      mma.dense{ m = 128, n = n, k = 64, a = tc.e4m3, b = tc.e4m3, b_transposed = true }
    end
    for _, n in ipairs{ 8, 24, 40, 104 } do
      mma.dense{ m = 64, n = n, k = 32, a = tc.f16, b = tc.f16, b_transposed = true }
    end
    for _, n in ipairs{ 8, 24, 48 } do
      mma.dense{ m = 128, n = n, k = 32, a = tc.i8, b = tc.u8, d = tc.i32, b_transposed = true, targets = i8 }
      mma.dense{ m = 64, n = n, k = 64, a = tc.u8, b = tc.u8, d = tc.i32, b_transposed = true, targets = i8 }
    end
    for _, n in ipairs{ 272, 384, 496, 512 } do
      mma.dense{ m = 128, n = n, k = 32, a = tc.i8, b = tc.u8, d = tc.i32, b_transposed = true, targets = i8 }
      mma.dense{ m = 64, n = n, k = 16, a = tc.f16, b = tc.f16, d = tc.f16, b_transposed = true }
    end
  end)

  it("with operands of different swizzles, one of them none", function()
    local all = { 32, 64, 128, "none" }
    for _, a_swizzle in ipairs(all) do
      for _, b_swizzle in ipairs(all) do
        for order = 0, 3 do
          mma.dense{ m = 128, n = 128, k = 64, a = tc.f16, b = tc.f16, a_swizzle = a_swizzle, b_swizzle = b_swizzle,
                     a_transposed = order % 2 == 1, b_transposed = order >= 2, modes = { "check" } }
        end
      end
    end
    mma.dense{ m = 64, n = 32, k = 32, a = tc.f32, b = tc.f32, a_swizzle = "none", b_swizzle = "none",
               b_transposed = true }
    mma.dense{ m = 128, n = 64, k = 64, a = tc.e4m3, b = tc.e4m3, a_swizzle = "none", b_swizzle = "none" }
    mma.dense{ m = 128, n = 64, k = 64, a = tc.i8, b = tc.i8, d = tc.i32, a_swizzle = 64, b_swizzle = "none",
               targets = i8 }
  end)

  it("with A in tensor memory", function()
    for _, m in ipairs{ 64, 128 } do
      for _, dtype in ipairs{ tc.f16, tc.bf16, tc.f32 } do
        mma.dense{ m = m, n = 64, k = 64, a = dtype, b = dtype, a_tmem = "store", b_transposed = true }
      end
      for _, dtype in ipairs{ tc.e4m3, tc.e5m2 } do
        for _, b in ipairs{ tc.e4m3, tc.e3m2 } do
          mma.dense{ m = m, n = 64, k = 128, a = dtype, b = b, a_tmem = "store", b_transposed = true }
        end
      end
      for _, dtype in ipairs{ tc.i8, tc.u8 } do
        mma.dense{ m = m, n = 64, k = 64, a = dtype, b = tc.i8, d = tc.i32, a_tmem = "store", b_transposed = true,
                   targets = i8 }
      end
    end
    for _, dtype in ipairs{ tc.f16, tc.f32, tc.e4m3 } do
      mma.dense{ m = 128, n = 64, k = 128, a = dtype, b = dtype, a_tmem = "copy", b_transposed = true }
    end
    for _, dtype in ipairs{ tc.e2m1, tc.e3m2 } do
      for _, b in ipairs(floats) do
        mma.dense{ m = 128, n = 64, k = 256, a = dtype, b = b, padded = true, a_tmem = "copy", b_transposed = true }
      end
    end
  end)

  it("in several calls along K", function()
    for _, dtype in ipairs{ tc.f16, tc.f32, tc.e4m3 } do
      mma.dense{ m = 128, n = 64, k = 256, a = dtype, b = dtype, a_swizzle = 32, b_swizzle = 32, parts = 4,
                 b_transposed = true }
    end
  end)

  it("was assembled", function()
    local done, why = mma.assembled()
    if not done then return pending(why) end
  end)
end)

-- docs/isa.md 2.4: worked by hand from the fields.
describe("The instruction descriptor", function()
  local function of(o)
    o.d = o.d or tc.f32
    return mma.descriptors(mma.tile(o))
  end
  local function same(title, expected, o)
    it(title, function() assert.same({ expected }, of(o)) end)
  end

  same("f16, 128 x 256", 0x08400010, { m = 128, n = 256, k = 64, a = tc.f16, b = tc.f16, b_transposed = true })
  same("bf16, 128 x 256", 0x08400490, { m = 128, n = 256, k = 64, a = tc.bf16, b = tc.bf16, b_transposed = true })
  same("bf16, both stored with K first", 0x08418490,
    { m = 128, n = 256, k = 64, a = tc.bf16, b = tc.bf16, a_transposed = true })
  same("tf32, 128 x 128", 0x08200910, { m = 128, n = 128, k = 32, a = tc.f32, b = tc.f32, b_transposed = true })
  same("e4m3, 128 x 128", 0x08200010, { m = 128, n = 128, k = 128, a = tc.e4m3, b = tc.e4m3, b_transposed = true })
  same("s8, 128 x 128", 0x082004A0,
    { m = 128, n = 128, k = 128, a = tc.i8, b = tc.i8, d = tc.i32, b_transposed = true })
  same("u8, 128 x 128", 0x08200020,
    { m = 128, n = 128, k = 128, a = tc.u8, b = tc.u8, d = tc.i32, b_transposed = true })
  same("e2m3 by e2m1 into f16, 64 x 32", 0x04081580,
    { m = 64, n = 32, k = 128, a = tc.e2m3, b = tc.e2m1, d = tc.f16, padded = true, b_transposed = true })
end)

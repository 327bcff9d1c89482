-- The cases of Pallas:Mosaic GPU's own tests that concern MMAs of one CTA, with their shapes, element types and
-- tolerances, on the emulator against the product in double precision.  Where a case is reduced, its line says how.
local tc = require "tcmma"
local mma = require "mma_kernels"

local function each(list, fn)
  for _, x in ipairs(list) do fn(x) end
end

local function operand(shape, dtype, low, high, positive, seed)
  if low then return tc.randint(shape, dtype, { low = low, high = high, seed = seed }) end
  return tc.rand(shape, dtype, { low = positive and 0 or -1, seed = seed })
end

-- o: as for mma.tile; low, high: range of integers; scales are powers of two.  Other numbers are of -1 to 1, without
-- an absolute tolerance positive, so that no sum is near zero.
local function agrees(o, atol, rtol)
  o.d = o.d or tc.f32
  local a = operand(o.a_transposed and { o.k, o.m } or { o.m, o.k }, o.a, o.low, o.high, atol == 0, 1)
  local b = operand(o.b_transposed and { o.n, o.k } or { o.k, o.n }, o.b, o.low, o.high, atol == 0, 2)
  local inputs, left, right = { a, b }, a, b
  if o.scale then
    local a_scale, b_scale = mma.scales(o.m, o.k // o.block, o.scale, 3), mma.scales(o.n, o.k // o.block, o.scale, 4)
    inputs[3], inputs[4] = tc.interleave_scales(a_scale), tc.interleave_scales(b_scale)
    left, right = mma.scaled(a, a_scale, o.block), mma.scaled(b, b_scale, o.block)
  end
  local expected = tc.reference.matmul(left, right, { transpose_a = o.a_transposed, transpose_b = o.b_transposed })
  local out = tc.zeros({ o.m, o.n }, o.d)
  mma.emulate(mma.tile(o), "fast", inputs, out)
  if not tc.allclose(out, expected, { atol = atol, rtol = rtol }) then
    local text = {}
    for key, value in pairs(o) do text[#text + 1] = key .. "=" .. tostring(value) end
    error(("%s: off by %g"):format(table.concat(text, " "), (tc.max_error(out, expected))))
  end
end

-- Swizzles whose panels divide the columns of a stored operand.
local function fits(swizzle, columns, dtype) return columns % (8 * swizzle // dtype.bits) == 0 end

local fp8_pairs = { { tc.e4m3, tc.e4m3 }, { tc.e5m2, tc.e5m2 }, { tc.e4m3, tc.e5m2 }, { tc.e5m2, tc.e4m3 } }

describe("mosaic_gpu_test", function()
  for _, m in ipairs{ 64, 128 } do
    it(("test_simple_matmul, M = %d"):format(m), function()
      each({ 64, 128, 256 }, function(n)
        each({ 128, 64, 32 }, function(swizzle)
          each({ tc.f16, tc.bf16 }, function(dtype)
            for order = 0, 3 do
              agrees({ m = m, n = n, k = 128, a = dtype, b = dtype, a_swizzle = swizzle, b_swizzle = swizzle,
                       a_transposed = order % 2 == 1, b_transposed = order >= 2 }, 0, 1e-3)
            end
            agrees({ m = m, n = n, k = 128, a = dtype, b = dtype, a_swizzle = swizzle, b_swizzle = swizzle,
                     a_tmem = "store" }, 0, 1e-3)
          end)
          each(fp8_pairs, function(pair)
            if fits(swizzle, n, pair[2]) then
              agrees({ m = m, n = n, k = 128, a = pair[1], b = pair[2], a_swizzle = swizzle, b_swizzle = swizzle },
                1e-2, 1e-2)
              agrees({ m = m, n = n, k = 128, a = pair[1], b = pair[2], a_swizzle = swizzle, b_swizzle = swizzle,
                       a_tmem = "store" }, 1e-2, 1e-2)
            end
          end)
        end)
      end)
    end)
  end

  it("test_integer_matmul", function()
    each({ 64, 128 }, function(m)
      each({ 64, 128, 256 }, function(n)
        each({ 64, 32 }, function(swizzle)
          each({ tc.i8, tc.u8 }, function(dtype)
            each({ false, "store" }, function(a_tmem)
              agrees({ m = m, n = n, k = 128, a = dtype, b = dtype, d = tc.i32, a_swizzle = swizzle,
                       b_swizzle = swizzle, low = dtype == tc.i8 and -8 or 0, high = 8, a_tmem = a_tmem }, 0, 0)
            end)
          end)
        end)
      end)
    end)
  end)

  it("test_simple_scaled_matmul", function()
    each({ 128, 256 }, function(n)
      each(fp8_pairs, function(pair)
        agrees({ m = 128, n = n, k = 256, a = pair[1], b = pair[2], scale = tc.e8m0, block = 32, b_transposed = true },
          0, 1e-3)
      end)
      each({ { tc.e8m0, 32 }, { tc.e8m0, 16 }, { tc.e4m3, 16 } }, function(scale)
        agrees({ m = 128, n = n, k = 512, a = tc.e2m1, b = tc.e2m1, scale = scale[1], block = scale[2],
                 b_transposed = true }, 0, 1e-3)
      end)
    end)
  end)
end)

describe("gpu_test", function()
  for _, m in ipairs{ 64, 128 } do
    it(("mma_basic_float, M = %d"):format(m), function()
      each({ 64, 128, 192, 224, 256, 512 }, function(n)
        each({ 32, 64, 128 }, function(swizzle)
          each({ { tc.f16, tc.f32 }, { tc.f16, tc.f16 }, { tc.bf16, tc.f32 } }, function(types)
            for order = 0, 3 do
              local k = 2 * 8 * swizzle // 16
              if (order >= 2 or fits(swizzle, n, types[1]))
                and not (order % 2 == 1 and not fits(swizzle, m, types[1])) then
                agrees({ m = m, n = n, k = k, a = types[1], b = types[1], d = types[2], a_swizzle = swizzle,
                         b_swizzle = swizzle, a_transposed = order % 2 == 1, b_transposed = order >= 2 },
                  types[2] == tc.f16 and 2e-2 or 2e-5, types[2] == tc.f16 and 8e-4 or 1e-7)
              end
            end
          end)
          each({ tc.e4m3, tc.e5m2 }, function(dtype)
            each({ tc.f32, tc.f16 }, function(d)
              agrees({ m = m, n = n, k = 2 * swizzle, a = dtype, b = dtype, d = d, a_swizzle = swizzle,
                       b_swizzle = swizzle, b_transposed = true }, d == tc.f16 and 2e-2 or 2e-5,
                d == tc.f16 and 8e-4 or 1e-7)
            end)
          end)
        end)
      end)
    end)
  end

  it("mma_basic_int", function()
    each({ 64, 128 }, function(m)
      each({ 64, 128, 160, 192, 256 }, function(n)
        each({ 32, 64, 128 }, function(swizzle)
          agrees({ m = m, n = n, k = 2 * swizzle, a = tc.i8, b = tc.i8, d = tc.i32, a_swizzle = swizzle,
                   b_swizzle = swizzle, b_transposed = true, low = -128, high = 128 }, 0, 0)
        end)
      end)
    end)
    agrees({ m = 128, n = 512, k = 256, a = tc.i8, b = tc.i8, d = tc.i32, b_transposed = true, low = -128, high = 128 },
      0, 0)
  end)

  it("mma_different_swizzle", function()
    each({ 32, 64, 128 }, function(a_swizzle)
      each({ 32, 64, 128 }, function(b_swizzle)
        agrees({ m = 128, n = 128, k = 128, a = tc.f16, b = tc.f16, a_swizzle = a_swizzle, b_swizzle = b_swizzle },
          2e-5, 1e-7)
      end)
    end)
  end)

  it("mma_lhs_tmem_float and _int", function()
    each({ 64, 128, 192, 256 }, function(n)
      each({ 32, 64, 128 }, function(swizzle)
        each({ tc.f16, tc.bf16, tc.e4m3, tc.e5m2 }, function(dtype)
          agrees({ m = 128, n = n, k = 128, a = dtype, b = dtype, b_swizzle = swizzle, a_tmem = "store",
                   b_transposed = true }, 2e-5, 1e-7)
        end)
        each({ tc.i8, tc.u8 }, function(dtype)
          agrees({ m = 128, n = n, k = 128, a = dtype, b = dtype, d = tc.i32, b_swizzle = swizzle, a_tmem = "store",
                   b_transposed = true, low = dtype == tc.i8 and -128 or 0, high = 128 }, 0, 0)
        end)
      end)
    end)
  end)

  it("mma_block_scaled_basic", function()
    each({ 8, 32, 64, 128, 192, 256 }, function(n)
      each({ 32, 128 }, function(swizzle)
        each({ false, "copy", "store" }, function(a_tmem)
          agrees({ m = 128, n = n, k = 256, a = tc.e4m3, b = tc.e5m2, a_swizzle = swizzle, b_swizzle = swizzle,
                   scale = tc.e8m0, block = 32, a_tmem = a_tmem and "store", b_transposed = true }, 2e-4, 5e-6)
          each({ { tc.e8m0, 32 }, { tc.e8m0, 16 }, { tc.e4m3, 16 } }, function(scale)
            agrees({ m = 128, n = n, k = 512, a = tc.e2m1, b = tc.e2m1, a_swizzle = swizzle, b_swizzle = swizzle,
                     scale = scale[1], block = scale[2], a_tmem = a_tmem, b_transposed = true }, 2e-4, 5e-6)
          end)
        end)
      end)
    end)
  end)
end)

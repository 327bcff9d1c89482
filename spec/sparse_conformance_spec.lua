-- The cases of Pallas:Mosaic GPU's own tests that concern sparse MMAs, with their shapes, element types and
-- tolerances, on the emulator against the product in double precision.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local sparse = require "sparse_kernels"

local function each(list, fn)
  for _, x in ipairs(list) do fn(x) end
end

-- Swizzles and the place of A change nothing of the operands.
local cache = {}
local function operands_of(o)
  local key = table.concat({ o.a, o.b or o.a, o.n, o.k, tostring(o.scale), tostring(o.block), tostring(o.a_columns),
    tostring(o.b_rows), tostring(o.collective) }, " ")
  cache[key] = cache[key] or sparse.operands(o)
  return cache[key]
end

local function agrees(o, atol, rtol)
  o.normal = tc.dtype(o.a).kind == "float"
  local kernel, operands = sparse.kernel(o), operands_of(o)
  local out = tc.zeros(operands.expected.shape, operands.d)
  local arguments = { table.unpack(operands) }
  arguments[#arguments + 1] = out
  local report = kernel:emulate({ target = "sm_100a", mode = "fast" }, table.unpack(arguments))
  assert(report.completed and #report.hazards == 0)
  if not tc.allclose(out, operands.expected, { atol = atol, rtol = rtol }) then
    local text = {}
    for key, value in pairs(o) do text[#text + 1] = key .. "=" .. tostring(value) end
    error(("%s: off by %g"):format(table.concat(text, " "), (tc.max_error(out, operands.expected))))
  end
end

local function fits(swizzle, columns, dtype) return columns % (8 * swizzle // tc.dtype(dtype).bits) == 0 end

local pairs_of_types = { { "f16" }, { "bf16" }, { "i8" }, { "e4m3", "e4m3" }, { "e5m2", "e5m2" }, { "e4m3", "e5m2" },
  { "e5m2", "e4m3" } }

describe("mosaic_gpu_test", function()
  it("test_simple_sparse_matmul", function()
    each({ 128, 256 }, function(n)
      agrees({ a = "f16", n = n, k = 128, a_swizzle = 64, b_swizzle = 64, b_rows = true }, 7e-5, 5e-6)
    end)
  end)

  it("test_block_scaled_sparse_matmul", function()
    each({ 128, 256 }, function(n)
      agrees({ a = "e5m2", n = n, k = 256, scale = "e8m0", block = 64 }, 2e-4, 5e-6)
    end)
  end)

  it("test_sparse_matmul_collective", function()
    each({ 128, 192 }, function(n)
      each({ "f16", "bf16", "i8", "e4m3" }, function(dtype)
        agrees({ a = dtype, n = n, k = 256, a_swizzle = 64, b_swizzle = 64, collective = true },
          dtype == "i8" and 0 or 7e-5, dtype == "i8" and 0 or 5e-6)
      end)
    end)
  end)
end)

describe("gpu_test", function()
  each({ 16, 32, 128, 192, 256 }, function(n)
    it("mma_sparse, N = " .. n, function()
      each({ 32, 64, 128 }, function(a_swizzle)
        each({ 64, 128 }, function(b_swizzle)
          each(pairs_of_types, function(types)
            for order = 0, 3 do
              local o = { a = types[1], b = types[2], n = n, k = 256, a_swizzle = a_swizzle, b_swizzle = b_swizzle,
                a_columns = order % 2 == 1, b_rows = order >= 2 }
              local exact = types[1] == "i8"
              if not o.b_rows or fits(b_swizzle, n, types[1]) then
                agrees(o, exact and 0 or 7e-5, exact and 0 or 5e-6)
              end
            end
          end)
        end)
      end)
    end)
  end)

  it("sparse_lhs_tmem", function()
    each({ 64, 128, 192, 256 }, function(n)
      each(pairs_of_types, function(types)
        local exact = types[1] == "i8"
        agrees({ a = types[1], b = types[2], n = n, k = 256, a_tmem = true }, exact and 0 or 7e-5, exact and 0 or 5e-6)
      end)
    end)
  end)

  it("sparse_collective", function()
    each({ 128, 192, 256 }, function(n)
      each(pairs_of_types, function(types)
        local exact = types[1] == "i8"
        agrees({ a = types[1], b = types[2], n = n, k = 256, collective = true }, exact and 0 or 7e-5,
          exact and 0 or 5e-6)
      end)
    end)
  end)

  it("scaled_sparse", function()
    each({ 16, 32, 128, 192, 256 }, function(n)
      each({ "e4m3", "e5m2" }, function(a)
        each({ "e4m3", "e5m2" }, function(b)
          agrees({ a = a, b = b, n = n, k = 256, scale = "e8m0", block = 64 }, 2e-4, 5e-6)
        end)
      end)
    end)
  end)

  -- blocks of 16 and 32 stored elements
  it("scaled_sparse_f4", function()
    each({ 16, 32, 128, 192, 256 }, function(n)
      each({ { "e8m0", 64 }, { "e8m0", 32 }, { "e4m3", 32 } }, function(scale)
        agrees({ a = "e2m1", n = n, k = 512, pattern = "4:8", scale = scale[1], block = scale[2] }, 2e-4, 5e-6)
      end)
    end)
  end)
end)

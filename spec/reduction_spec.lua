-- Reductions on store: tc.copy_smem_to_gmem with reduction_op, against the same operation in Lua on each element.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local modes = { { mode = "fast" }, { mode = "check" }, { mode = "random", seed = 1 } }
local ROWS, COLUMNS, CTAS = 16, 64, 3

-- Each of three CTAs takes a tile of its own and combines it with one tile that all share.
local function reduction(dtype, op)
  return tc.kernel{
    name = "reduction", args = { tc.gmem({ CTAS * ROWS, COLUMNS }, dtype), tc.gmem({ ROWS, COLUMNS }, dtype) },
    grid = { CTAS }, grid_names = { "x" },
    body = function(a, out)
      local tile, loaded = tc.smem({ ROWS, COLUMNS }, dtype), tc.barrier{}
      tc.copy_gmem_to_smem(a:tile({ tc.axis_index "x", 0 }, { ROWS, COLUMNS }), tile, loaded)
      tc.barrier_wait(loaded)
      tc.copy_smem_to_gmem(tile, out, { reduction_op = op })
      tc.wait_smem_to_gmem(0)
    end,
  }
end

local function wrap(x, bits, signed)
  if bits == 64 then return x end
  x = x & 0xffffffff
  return signed and x >= 0x80000000 and x - (1 << 32) or x
end

local function less(a, b, signed)
  if signed or math.type(a) == "float" then return a < b end
  return math.ult(a, b)
end

-- The operation on the element of GMEM and that of SMEM; `signed`: how the integers are compared.
local combine = {
  add = function(a, b) return a + b end,
  min = function(a, b, signed) return less(a, b, signed) and a or b end,
  max = function(a, b, signed) return less(a, b, signed) and b or a end,
  inc = function(a, b) return not less(a & 0xffffffff, b & 0xffffffff, false) and 0 or a + 1 end,
  dec = function(a, b)
    a, b = a & 0xffffffff, b & 0xffffffff
    return (a == 0 or less(b, a, false)) and b or a - 1
  end,
  ["and"] = function(a, b) return a & b end,
  ["or"] = function(a, b) return a | b end,
  xor = function(a, b) return a ~ b end,
}

local function expected(dtype, op, a, before)
  local signed = tostring(dtype):find "uint" == nil
  local bits, real = dtype.bits, tostring(dtype):find "float" ~= nil
  local by_sign = op:sub(1, 1)
  local compared = signed
  if #op == 4 then compared = by_sign == "s" end
  local fn = combine[#op == 4 and op:sub(2) or op]
  local result = {}
  for i = 1, ROWS do
    result[i] = {}
    for j = 1, COLUMNS do
      local x = before[i][j]
      for c = 0, CTAS - 1 do
        local y = a[c * ROWS + i][j]
        if real then
          x = fn(x, y)
        else
          -- Compared as bits of that width, with a sign or without.
          x = wrap(fn(wrap(x, bits, compared), wrap(y, bits, compared), compared), bits, signed)
        end
      end
      result[i][j] = x
    end
  end
  return result
end

local ints = { "add", "min", "max", "umin", "umax", "smin", "smax", "and", "or", "xor" }
local cases = {
  { tc.float32, { "add" } }, { tc.float16, { "add", "min", "max" } }, { tc.bfloat16, { "add", "min", "max" } },
  { tc.int32, { "inc", "dec", table.unpack(ints) } }, { tc.uint32, { "inc", "dec", table.unpack(ints) } },
  { tc.int64, ints }, { tc.uint64, ints },
}

describe("tc.copy_smem_to_gmem, reduction_op", function()
  for _, case in ipairs(cases) do
    local dtype = case[1]
    for _, op in ipairs(case[2]) do
      -- Order does not matter to any but inc and dec, whose operand is then the same everywhere.
      it(("%s of %s"):format(op, dtype), function()
        local kernel = reduction(dtype, op)
        local real = tostring(dtype):find "float"
        local function make(rows, seed)
          local array = tc.empty({ rows, COLUMNS }, dtype)
          math.randomseed(seed)
          for i = 0, rows - 1 do
            for j = 0, COLUMNS - 1 do
              local x = math.random(-8, 8)
              if (op == "inc" or op == "dec") and rows > ROWS then x = 5 end
              if not real and tostring(dtype):find "uint" then x = x & (dtype.bits == 64 and -1 or 0xffffffff) end
              array:set(i, j, x)
            end
          end
          return array
        end
        local a, before = make(CTAS * ROWS, 1), make(ROWS, 2)
        local want = expected(dtype, op, a:totable(), before:totable())
        for _, target in ipairs{ "sm_90a", "sm_100a" } do
          for _, mode in ipairs(modes) do
            local out = before:copy()
            local report = kernel:emulate({ target = target, mode = mode.mode, seed = mode.seed }, a, out)
            assert.are.equal(0, #report.hazards, report.hazards[1] and report.hazards[1].message)
            assert.are.same(want, out:totable())
          end
          local ok, message, code = kernels.assembles(kernel, target)
          if code ~= "no-library" then assert.is_true(ok, message) end
        end
      end)
    end
  end
end)

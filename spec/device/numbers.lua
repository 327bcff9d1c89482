-- Operands of matrix multiplications in registers or memory.
local operands = require "spec.device.operands"

local M = {}

-- integers: sums are exact; normal: exponents around that of 1; bits: anything.
function M.kinds(type)
  if type:match "^[sub]%d" then return { "bits" } end
  return { "integers", "normal", "bits" }
end

local formats = {
  f16 = { 16, 10, 15 }, bf16 = { 16, 7, 127 }, tf32 = { 32, 23, 127 }, f32 = { 32, 23, 127 }, f64 = { 64, 52, 1023 },
  e4m3 = { 8, 3, 7 }, e5m2 = { 8, 2, 15 },
}
local packs = { [8] = "<I1", [16] = "<I2", [32] = "<I4", [64] = "<i8" }

-- The code of an integer from -8 to 8.
local function integer(format, value)
  if value == 0 then return 0 end
  local width, mantissa, bias = table.unpack(format)
  local sign, magnitude = value < 0 and 1 or 0, math.abs(value)
  local exponent = 0
  while magnitude >> exponent + 1 > 0 do exponent = exponent + 1 end
  local shift = mantissa - exponent
  local fraction = magnitude - (1 << exponent)
  fraction = shift >= 0 and fraction << shift or fraction >> -shift
  return sign << width - 1 | bias + exponent << mantissa | fraction
end

-- Which two of four are kept (of two, for tf32), as the metadata says it.
local kept = { 0x4, 0x8, 0xc, 0x9, 0xd, 0xe }
local kept_wide = { 0x4, 0xe }

local function metadata(type, word)
  local list, out = type == "tf32" and kept_wide or kept, 0
  for i = 0, 7 do out = out | list[(word >> 8 * i & 0xff) % #list + 1] << 4 * i end
  return out
end

-- Bytes of one operand for one lane or place.
local function fill(type, bytes, kind, random)
  local parts = {}
  local wanted = type:match "^metadata%.(.*)"
  if wanted then return string.pack("<I4", metadata(wanted, random())) end
  local format = formats[type]
  if not format or kind == "bits" then
    for i = 1, (bytes + 7) // 8 do parts[i] = string.pack("<i8", random()) end
    return table.concat(parts):sub(1, bytes)
  end
  local width, mantissa, bias = table.unpack(format)
  for i = 1, bytes * 8 // width do
    local word = random()
    local code
    if kind == "integers" then
      code = integer(format, (word >> 20 & 0xffff) % 9 - 4)
    else
      local spread = bias > 7 and 7 or 5
      code = (word >> 63 & 1) << width - 1 | bias - spread // 2 + (word >> 40 & 0xff) % spread << mantissa
        | word & (1 << mantissa) - 1
    end
    parts[i] = string.pack(packs[width], code)
  end
  return table.concat(parts)
end

-- `count` rows of `stride` bytes with the operands { type, bytes } side by side.
function M.rows(count, stride, list, kind, seed)
  local random, parts = operands.stream(seed * 7 + #kind), {}
  for r = 1, count do
    local row = {}
    for i, operand in ipairs(list) do row[i] = fill(operand[1], operand[2], kind, random) end
    local text = table.concat(row)
    parts[r] = text .. ("\0"):rep(stride - #text)
  end
  return table.concat(parts)
end

-- A block of memory with elements of one type.
function M.memory(type, bytes, kind, seed) return fill(type, bytes, kind, operands.stream(seed * 13 + #kind)) end

return M

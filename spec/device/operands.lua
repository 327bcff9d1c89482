-- Operands for instructions under test: what is special about a type, and random values.  The same on every machine.
local M = {}

-- splitmix64: a stream of 64-bit integers from a seed.
function M.stream(seed)
  local state = seed * 0x9E3779B97F4A7C15
  return function()
    state = state + 0x9E3779B97F4A7C15
    local z = state
    z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ~ (z >> 27)) * 0x94D049BB133111EB
    return z ~ (z >> 31)
  end
end

function M.seed_of(text)
  local seed = #text
  for i = 1, #text do seed = seed * 31 + text:byte(i) end
  return seed & 0x7fffffff
end

-- Random bytes; `mask` (0 to 255, repeated over 8 bytes as an integer) clears bits.
function M.bytes(count, seed, mask)
  local next_word, parts = M.stream(seed), {}
  for i = 1, (count + 7) // 8 do parts[i] = string.pack("<i8", next_word() & (mask or -1)) end
  return table.concat(parts):sub(1, count)
end

-- 64-bit hash of a string.
function M.hash(text)
  local h, at, unpack = #text * 0x9E3779B97F4A7C15, 1, string.unpack
  local function mix(word)
    h = (h ~ word) * 0xBF58476D1CE4E5B9
    h = h ~ (h >> 29)
  end
  while at + 31 <= #text do
    local a, b, c, d = unpack("<i8i8i8i8", text, at)
    h = (h ~ a) * 0xBF58476D1CE4E5B9
    h = ((h ~ (h >> 29)) ~ b) * 0x94D049BB133111EB
    h = ((h ~ (h >> 31)) ~ c) * 0xBF58476D1CE4E5B9
    h = ((h ~ (h >> 29)) ~ d) * 0x94D049BB133111EB
    h = h ~ (h >> 32)
    at = at + 32
  end
  for i = at, #text do mix(text:byte(i)) end
  return h
end

M.bits = {
  u8 = 8, s8 = 8, b8 = 8, u16 = 16, s16 = 16, b16 = 16, f16 = 16, bf16 = 16, e4m3x2 = 16, e5m2x2 = 16,
  u32 = 32, s32 = 32, b32 = 32, f32 = 32, tf32 = 32, f16x2 = 32, bf16x2 = 32, u16x2 = 32, s16x2 = 32,
  u64 = 64, s64 = 64, b64 = 64, f64 = 64, pred = 1,
}

local halves = {
  0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7c01, 0x7fff, 0x0001, 0x8001, 0x03ff, 0x83ff,
  0x0400, 0x8400, 0x7bff, 0xfbff, 0x3bff, 0x3c01, 0x3800, 0xb800, 0x4200, 0x6400, 0x5bf8, 0x3e00, 0xc100, 0x1400,
}
local brains = {
  0x0000, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7f81, 0x7fff, 0x0001, 0x8001, 0x007f, 0x807f,
  0x0080, 0x8080, 0x7f7f, 0xff7f, 0x3f7f, 0x3f81, 0x3f00, 0xbf00, 0x4040, 0x4b00, 0x4f00, 0xcf00, 0x5f00, 0x3300,
}
local singles = {
  0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001,
  0x7fffffff, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff,
  0x3f7fffff, 0x3f800001, 0x3f000000, 0xbf000000, 0x40400000, 0x40200000, 0x4b000000, 0x4b800001, 0x4f000000,
  0xcf000000, 0x5f000000, 0xdf000000, 0x33800000, 0x477fe000, 0x47800000, 0x3effffff, 0x4effffff, 0x7e800000,
  0x00400000, 0x3fc00000, 0xc0200000, 0x42fe0000, 0x43000000, 0xc3160000,
}
local doubles = {
  0, 1 << 63, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
  0xfff8000000000000, 0x7ff0000000000001, 0x7fffffffffffffff, 1, 0x8000000000000001, 0x000fffffffffffff,
  0x0010000000000000, 0x8010000000000000, 0x7fefffffffffffff, 0xffefffffffffffff, 0x3fefffffffffffff,
  0x3ff0000000000001, 0x3fe0000000000000, 0xbfe0000000000000, 0x4008000000000000, 0x4330000000000000,
  0x4340000000000001, 0x41e0000000000000, 0xc1e0000000000000, 0x41dfffffffc00000, 0x43e0000000000000,
  0xc3e0000000000000, 0x43f0000000000000, 0x380fffffffffffff, 0x36a0000000000000, 0x47efffffe0000000,
  0x47effffff0000000, 0x40effc0000000000, 0x3f10000000000000, 0x3e50000000000000, 0x4004000000000000,
}

local function integers(width)
  local list = { 0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 0x7f, 0x80, 0xff, 0x100, 0x7fff,
    0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, 0x5555555555555555, 0x0123456789abcdef,
    math.maxinteger, math.mininteger, -1, -2, -128, -32768 }
  local seen, out = {}, {}
  local mask = width == 64 and -1 or (1 << width) - 1
  for _, value in ipairs(list) do
    value = value & mask
    if not seen[value] then
      seen[value] = true
      out[#out + 1] = value
    end
  end
  return out
end

local function pairs_of(list)
  local out = {}
  for i, low in ipairs(list) do out[i] = low | list[(i * 5 + 3) % #list + 1] << 16 end
  return out
end

M.special = {
  f16 = halves, bf16 = brains, f32 = singles, tf32 = singles, f64 = doubles, f16x2 = pairs_of(halves),
  bf16x2 = pairs_of(brains),
}
for _, name in ipairs { "u8", "s8", "u16", "s16", "b16", "u32", "s32", "b32", "u16x2", "s16x2", "u64", "s64", "b64" } do
  M.special[name] = integers(M.bits[name])
end

-- Floats whose sums and products meet: exponents close to that of 1.
local function near_one(word, mantissa, bias, width)
  local fraction, sign = word & (1 << mantissa) - 1, word >> 63 & 1
  local exponent = bias - 6 + (word >> 54 & 0xff) % 13
  return sign << width - 1 | exponent << mantissa | fraction
end

local shapes = {
  f16 = { 10, 15, 16 }, bf16 = { 7, 127, 16 }, f32 = { 23, 127, 32 }, tf32 = { 23, 127, 32 }, f64 = { 52, 1023, 64 },
}

-- Random value of a type: any bits, close to 1, or small.
function M.random(type, word)
  local half = ({ f16x2 = "f16", bf16x2 = "bf16" })[type]
  if half then
    return M.random(half, word) & 0xffff | (M.random(half, word * 0x9E3779B97F4A7C15 ~ word >> 32) & 0xffff) << 16
  end
  local width, shape = M.bits[type], shapes[type]
  local mask = width == 64 and -1 or (1 << width) - 1
  local kind = word >> 60 & 3
  if kind == 0 then return word & mask end
  if shape then return near_one(word * 3, shape[1], shape[2], shape[3]) & mask end
  if kind == 1 then return (word & 0x7f) - 64 & mask end
  return word >> (word >> 50 & width - 1) & mask
end

-- `count` rows of operands as 8-byte words, padded to `stride` words: all pairs of special values as far as they fit in
-- half the rows, then special and random ones mixed.
local made = {}
function M.rows(types, count, stride)
  local key = table.concat(types, ",") .. count .. "," .. stride
  if made[key] then return made[key] end
  local next_word, words = M.stream(M.seed_of(key)), {}
  local first, second = M.special[types[1]], M.special[types[2] or types[1]]
  local crossed = #types == 1 and #first or math.min(#first * #second, count // 2)
  for r = 0, count - 1 do
    for i = 1, stride do
      local type, value = types[i], 0
      if type then
        local special = M.special[type]
        if r < crossed and i <= 2 then
          value = i == 1 and first[r % #first + 1] or second[r // #first % #second + 1]
        else
          local word = next_word()
          value = word >> 61 & 3 == 0 and special[(word & 0xffff) % #special + 1] or M.random(type, next_word())
        end
      end
      words[#words + 1] = string.pack("<i8", value)
    end
  end
  made[key] = table.concat(words)
  return made[key]
end

local formats = { [8] = "<I1", [16] = "<I2", [32] = "<I4", [64] = "<i8" }

-- `count` elements of a type side by side, special and random ones mixed.
function M.packed(type, count, seed)
  local width, special = math.max(M.bits[type], 8), M.special[type]
  local next_word, parts, format = M.stream(M.seed_of(type .. count) + (seed or 0)), {}, formats[width]
  local mask = width == 64 and -1 or (1 << width) - 1
  for i = 1, count do
    local word = next_word()
    local value = word >> 62 & 3 == 0 and special[(word & 0xffff) % #special + 1] or M.random(type, next_word())
    parts[i] = string.pack(format, value & mask)
  end
  return table.concat(parts)
end

-- `bytes` bytes of such elements, a prime number of them over and over.
local blocks = {}
function M.memory(type, bytes, seed)
  local key = type .. seed
  blocks[key] = blocks[key] or M.packed(type, 4099, seed)
  return blocks[key]:rep(bytes // #blocks[key] + 1):sub(1, bytes)
end

return M

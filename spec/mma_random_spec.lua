-- Random legal calls of tc.mma: kinds, sizes, swizzles, orders, places of A and parts of K, each in a mode of the
-- emulator, equal to the product in double precision.
local tc = require "tcmma"
local mma = require "mma_kernels"

local state
local function random(n)
  state = (state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff
  return (state >> 33) % n + 1
end
local function pick(...)
  local list = table.pack(...)
  return list[random(list.n)]
end

local function narrow() return pick(tc.e4m3, tc.e5m2, tc.e2m3, tc.e3m2, tc.e2m1) end

local kinds = {
  function() return { a = tc.f16, b = tc.f16, d = pick(tc.f32, tc.f16) } end,
  function() return { a = tc.bf16, b = tc.bf16 } end,
  function() return { a = pick(tc.f32, tc.tf32), b = pick(tc.f32, tc.tf32) } end,
  function() return { a = narrow(), b = narrow(), d = pick(tc.f32, tc.f16), padded = true } end,
  function() return { a = pick(tc.i8, tc.u8), b = pick(tc.i8, tc.u8), d = tc.i32 } end,
  function() return { a = narrow(), b = narrow(), padded = true, scale = tc.e8m0, block = 32 } end,
  function()
    local scale = pick({ tc.e8m0, 32 }, { tc.e8m0, 16 }, { tc.e4m3, 16 })
    return { a = tc.e2m1, b = tc.e2m1, scale = scale[1], block = scale[2] }
  end,
}

-- A swizzle that the rows of a stored operand, `columns` long, can have.
local function swizzle(o, dtype, columns, k_last)
  local bytes = o.padded and dtype.bits < 8
  if bytes then return 128 end
  if dtype.bits == 32 and not k_last then return "128B_atom_32B" end
  local fits = { "none" }
  for _, w in ipairs{ 32, 64, 128 } do
    if columns % (8 * w // dtype.bits) == 0 then fits[#fits + 1] = w end
  end
  return fits[random(#fits)]
end

local function case()
  local o = kinds[random(#kinds)]()
  o.d = o.d or tc.f32
  local either = function(t) return t.bits == 8 or t.bits == 16 or t.bits == 32 end
  local plain = o.a.bits >= 8 and o.b.bits >= 8
  o.m = o.scale and 128 or pick(64, 128)
  o.k = 128 * random(2)
  if o.block and not o.padded then o.k = 2 * o.k elseif plain and not o.scale then o.k = 64 * random(3) end
  o.n = (o.d == tc.i32 and 16 or 8) * random(o.m == 64 and 12 or 20)
  o.a_tmem = plain and o.k * o.a.bits <= 128 * 32 and pick(false, false, "store") or false
  o.a_transposed = not o.a_tmem and not o.scale and either(o.a) and random(3) == 1
  o.b_transposed = o.scale ~= nil or not either(o.b) or o.n % (512 // o.b.bits * 2) ~= 0 or random(2) == 1
  o.a_swizzle = swizzle(o, o.a, o.a_transposed and o.m or o.k, not o.a_transposed)
  o.b_swizzle = swizzle(o, o.b, o.b_transposed and o.k or o.n, o.b_transposed)
  o.modes, o.targets = { pick("fast", "check", "random") }, {}
  return o
end

local function run(o)
  local a = mma.operand(o.a_transposed and { o.k, o.m } or { o.m, o.k }, o.a, random(1000))
  local b = mma.operand(o.b_transposed and { o.n, o.k } or { o.k, o.n }, o.b, random(1000))
  local inputs, left, right = { a, b }, a, b
  if o.scale then
    local a_scale = mma.scales(o.m, o.k // o.block, o.scale, random(1000))
    local b_scale = mma.scales(o.n, o.k // o.block, o.scale, random(1000))
    inputs[3], inputs[4] = tc.interleave_scales(a_scale), tc.interleave_scales(b_scale)
    left, right = mma.scaled(a, a_scale, o.block), mma.scaled(b, b_scale, o.block)
  end
  mma.check(o, inputs, tc.reference.matmul(left, right,
    { transpose_a = o.a_transposed, transpose_b = o.b_transposed }))
end

describe("A random tc.mma", function()
  for seed = 1, 8 do
    it(("agrees, from seed %d"):format(seed), function()
      state = seed
      for _ = 1, 20 do run(case()) end
    end)
  end
end)

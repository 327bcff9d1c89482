-- Block-scaled operands made on the host, against the text of the OCP Microscaling specification 1.0 in plain Lua.
local tc = require "tcmma"

local message = require "helper".message

-- Non-negative numbers of an element type in order of their codes.
local formats = {
  e4m3 = { e = 4, m = 3, bias = 7, largest = 448 },
  e5m2 = { e = 5, m = 2, bias = 15, largest = 57344 },
  e3m2 = { e = 3, m = 2, bias = 3, largest = 28 },
  e2m3 = { e = 2, m = 3, bias = 1, largest = 7.5 },
  e2m1 = { e = 2, m = 1, bias = 1, largest = 6 },
}
for _, f in pairs(formats) do
  f.numbers = {}
  for code = 0, (1 << f.e + f.m) - 1 do
    local exponent, fraction = code >> f.m, (code & (1 << f.m) - 1) / (1 << f.m)
    local x = exponent == 0 and fraction * 2.0 ^ (1 - f.bias) or (1 + fraction) * 2.0 ^ (exponent - f.bias)
    if x <= f.largest then f.numbers[code + 1] = x end
  end
end

-- Round to nearest, ties to the even code, saturate.
local function round(f, x)
  local numbers, magnitude = f.numbers, math.abs(x)
  local low, high = 1, #numbers
  if magnitude >= numbers[high] then low = high end
  while high - low > 1 do
    local middle = (low + high) // 2
    if numbers[middle] <= magnitude then low = middle else high = middle end
  end
  if low ~= high and low < #numbers then
    local below, above = magnitude - numbers[low], numbers[low + 1] - magnitude
    if above < below or above == below and (low - 1) % 2 == 1 then low = low + 1 end
  end
  local sign = (x < 0 or 1 / x < 0) and -1.0 or 1.0
  return sign * numbers[low]
end

local function greatest_power(x) -- the exponent of the greatest power of two that is no more than x
  local exponent = 0
  while 2.0 ^ exponent > x do exponent = exponent - 1 end
  while 2.0 ^ (exponent + 1) <= x do exponent = exponent + 1 end
  return exponent
end

local function maximum(block)
  local greatest = 0
  for _, x in ipairs(block) do
    if x ~= x or x == math.huge or x == -math.huge then return nil end
    greatest = math.max(greatest, math.abs(x))
  end
  return greatest
end

-- Scale and elements of a block of an mx format.
local function mx_block(f, block, up)
  local greatest, elements = maximum(block), {}
  local scale
  if not greatest then
    for i = 1, #block do elements[i] = 0.0 end
    return nil, elements
  end
  if greatest == 0 then
    scale = 2.0 ^ -127
  elseif up then
    local exponent = -127
    while greatest > f.largest * 2.0 ^ exponent and exponent < 127 do exponent = exponent + 1 end
    scale = 2.0 ^ exponent
  else
    scale = 2.0 ^ math.max(-127, math.min(127, greatest_power(greatest) - greatest_power(f.largest)))
  end
  for i, x in ipairs(block) do elements[i] = round(f, x / scale) end
  return scale, elements
end

local function nv_block(block, global)
  local greatest, elements = maximum(block), {}
  local scale = greatest and round(formats.e4m3, greatest / 6 / global)
  for i, x in ipairs(block) do
    elements[i] = scale and (scale > 0 and round(formats.e2m1, x / (scale * global)) or 0 * x) or 0.0
  end
  return scale, elements
end

local function text(x) return x ~= x and "nan" or ("%a"):format(x) end

-- Every row of the array, cut into blocks, against what `expected` makes of a block.
local function check(source, elements, scales, size, expected)
  local rows, got, got_scales = source:totable(), elements:totable(), scales:totable()
  for r, row in ipairs(rows) do
    for b = 0, #row // size - 1 do
      local scale, block = expected(table.move(row, b * size + 1, b * size + size, 1, {}))
      assert.equal(text(scale or 0 / 0), text(got_scales[r][b + 1]), ("scale of row %d, block %d"):format(r - 1, b))
      for i = 1, size do
        local found = got[r][b * size + i]
        if text(block[i]) ~= text(found) then
          error(("row %d, k %d: %s, expected %s of %s"):format(r - 1, b * size + i - 1, text(found), text(block[i]),
            text(row[b * size + i])))
        end
      end
    end
  end
end

-- Rows of blocks that are hard: zeros, subnormals, ties, equal numbers, extremes, what is no number.
local function edges(size, f)
  local rows = {}
  local function add(fn)
    local row = {}
    for i = 1, 2 * size do row[i] = i <= size and fn(i) or i / 8 end
    rows[#rows + 1] = row
  end
  add(function() return 0 end)
  add(function(i) return i % 2 == 0 and 0.0 or -0.0 end)
  add(function() return 1.7 end)
  add(function() return -f.largest end)
  add(function(i) return i == 1 and f.largest or f.numbers[math.min(i, #f.numbers)] end)
  add(function(i) -- between two numbers of the type
    local n = math.min(i, #f.numbers - 1)
    return i == 1 and f.largest or (f.numbers[n] + f.numbers[n + 1]) / 2 * (i % 2 == 0 and -1 or 1)
  end)
  add(function(i) return i == 3 and f.largest * 1.01 or i end)
  add(function(i) return i == 3 and 2.0 ^ greatest_power(f.largest) * 1.999 or i / 64 end)
  add(function(i) return i == 5 and 0 / 0 or i end)
  add(function(i) return i == 1 and math.huge or i end)
  add(function(i) return i == size and -math.huge or i end)
  add(function(i) return i * 2.0 ^ -149 end)
  add(function(i) return i * 2.0 ^ -130 end)
  add(function(i) return i * 2.0 ^ 122 end)
  add(function(i) return i == 1 and 1 or 2.0 ^ -i end)
  return rows
end

local mx = { { "mxfp8", "e4m3" }, { "mxfp8", "e5m2" }, { "mxfp6", "e3m2" }, { "mxfp6", "e2m3" }, { "mxfp4", "e2m1" } }

for _, case in ipairs(mx) do
  local name, element = case[1], case[2]
  describe(name .. " of " .. element, function()
    local f = formats[element]
    for _, rounding in ipairs { "down", "up" } do
      local function quantize(a)
        return tc.quantize(a, name, { dtype = element, scale_rounding = rounding })
      end
      local function expected(block) return mx_block(f, block, rounding == "up") end
      it("random numbers, scales rounded " .. rounding, function()
        for seed, std in ipairs { 1, 1e-3, 1e6 } do
          local a = tc.randn({ 7, 96 }, tc.f32, { seed = seed, std = std })
          local elements, scales = quantize(a)
          check(a, elements, scales, 32, expected)
        end
      end)
      it("hard numbers, scales rounded " .. rounding, function()
        local a = tc.from_table(edges(32, f), tc.f32)
        local elements, scales = quantize(a)
        check(a, elements, scales, 32, expected)
      end)
    end
  end)
end

describe("nvfp4", function()
  local function f32(x) return (string.unpack("<f", string.pack("<f", x))) end

  it("has a global scale with which the greatest magnitude is 448 times 6", function()
    for seed, std in ipairs { 1, 1e-3, 1e6 } do
      local a = tc.randn({ 7, 64 }, tc.f32, { seed = seed, std = std })
      local greatest = math.max((a:max()), -(a:min()))
      local elements, scales, global = tc.quantize(a, "nvfp4")
      assert.equal(f32(greatest / (448 * 6)), global)
      assert.equal(448, (scales:max()))
      check(a, elements, scales, 16, function(block) return nv_block(block, global) end)
    end
  end)

  it("hard numbers", function()
    local rows = edges(16, formats.e2m1)
    local a = tc.from_table(rows, tc.f32)
    local elements, scales, global = tc.quantize(a, "nvfp4")
    assert.equal(f32(16 * 2.0 ^ 122 / (448 * 6)), global)
    check(a, elements, scales, 16, function(block) return nv_block(block, global) end)
    elements, scales, global = tc.quantize(a, "nvfp4", { global_scale = 0.25 })
    assert.equal(0.25, global)
    check(a, elements, scales, 16, function(block) return nv_block(block, 0.25) end)
  end)

  it("zeros have the global scale 1", function()
    local elements, scales, global = tc.quantize(tc.zeros({ 2, 32 }, tc.f32), "nvfp4")
    assert.equal(1, global)
    assert.equal(0, elements:sum() + scales:sum())
  end)
end)

describe("Quantising", function()
  it("along dimension 0 gives the transposed elements and the same scales", function()
    local rows = tc.randn({ 3, 64 }, tc.f32, { seed = 1 }):totable()
    local columns = {}
    for k = 1, 64 do columns[k] = { rows[1][k], rows[2][k], rows[3][k] } end
    local a, b = tc.from_table(rows, tc.f32), tc.from_table(columns, tc.f32)
    for _, name in ipairs { "mxfp8", "mxfp6", "mxfp4", "nvfp4" } do
      local x, s, g = tc.quantize(a, name)
      local y, t, h = tc.quantize(b, name, { axis = 0 })
      assert.is_true(s:equal(t))
      assert.equal(g, h)
      local p, q = x:totable(), y:totable()
      for r = 1, 3 do for k = 1, 64 do assert.equal(text(p[r][k]), text(q[k][r])) end end
      assert.is_true(tc.dequantize(y, t, { axis = 0, global_scale = h }):equal(
        tc.from_table((function()
          local d, turned = tc.dequantize(x, s, { global_scale = g }):totable(), {}
          for k = 1, 64 do turned[k] = { d[1][k], d[2][k], d[3][k] } end
          return turned
        end)(), tc.f32)))
    end
  end)

  it("and back is element times scale times global scale", function()
    local a = tc.randn({ 5, 64 }, tc.f16, { seed = 3 })
    local elements, scales, global = tc.quantize(a, "nvfp4")
    local x, s, back = elements:totable(), scales:totable(), tc.dequantize(elements, scales,
      { global_scale = global, dtype = tc.f64 }):totable()
    for r = 1, 5 do
      for k = 1, 64 do assert.equal(x[r][k] * s[r][(k - 1) // 16 + 1] * global, back[r][k]) end
    end
    local exact = tc.from_table({ { 1, 2, 3, 4, 6, 0, -1, -0.5, 1, 2, 3, 4, 6, 0, -1, -0.5, 1, 2, 3, 4, 6, 0, -1, -0.5,
      1, 2, 3, 4, 6, 0, -1, -0.5 } }, tc.f32)
    local e, t = tc.quantize(exact, "mxfp4")
    assert.is_true(tc.dequantize(e, t):equal(exact))
  end)

  it("takes blocks of other sizes", function()
    local a = tc.randn({ 5, 192 }, tc.f32, { seed = 4 })
    for _, block in ipairs { 16, 32, 64 } do
      local elements, scales = tc.quantize(a, "mxfp4", { block = block })
      assert.same({ 5, 192 // block }, scales.shape)
      check(a, elements, scales, block, function(x) return mx_block(formats.e2m1, x) end)
      local global
      elements, scales, global = tc.quantize(a, "nvfp4", { block = block })
      check(a, elements, scales, block, function(x) return nv_block(x, global) end)
    end
    assert.matches("option 'block' must be 16, 32 or 64, got 48", message(tc.quantize, a, "mxfp4", { block = 48 }))
    assert.matches("option 'block'", message(tc.quantize, a, "mxfp4", { block = 128 }))
  end)

  it("refuses what it cannot do", function()
    local a = tc.randn({ 4, 100 }, tc.f32, { seed = 1 })
    assert.matches("dimension 1 of f32%[4, 100%] is no multiple of the 32 elements that share a scale; pad it with "
      .. "zeros to 128", message(tc.quantize, a, "mxfp8"))
    assert.matches("dimension 0 of f32%[4, 100%] is no multiple of the 16 elements", message(tc.quantize, a, "nvfp4",
      { axis = 0 }))
    assert.matches('"mxfp8", "mxfp6", "mxfp4" or "nvfp4" expected, got string "fp8"', message(tc.quantize, a, "fp8"))
    a = tc.randn({ 4, 64 }, tc.f32, { seed = 1 })
    assert.matches("elements of mxfp8 are float8_e4m3fn or float8_e5m2, not float16", message(tc.quantize, a, "mxfp8",
      { dtype = tc.f16 }))
    assert.matches("option 'scale_rounding' must be \"down\" or \"up\", got \"even\"", message(tc.quantize, a, "mxfp8",
      { scale_rounding = "even" }))
    assert.matches("those of nvfp4 are rounded to nearest", message(tc.quantize, a, "nvfp4", { scale_rounding = "up" }))
    assert.matches("option 'global_scale' is for nvfp4; mxfp4 has none", message(tc.quantize, a, "mxfp4",
      { global_scale = 1 }))
    for _, x in ipairs { 0, -1, 0 / 0, math.huge, 1e39, 1e-60, "one" } do
      assert.matches("'global_scale' must be a positive number within float32", message(tc.quantize, a, "nvfp4",
        { global_scale = x }))
    end
    assert.matches("a matrix expected, got f32%[64%]; array:reshape{%-1, K} makes one", message(tc.quantize,
      tc.zeros({ 64 }, tc.f32), "mxfp8"))
    assert.matches("an array of floating%-point numbers expected, got i32%[4, 64%]", message(tc.quantize,
      tc.zeros({ 4, 64 }, tc.i32), "mxfp8"))
    assert.matches("option 'axis'", message(tc.quantize, a, "mxfp8", { axis = 2 }))
    assert.matches("scale_rounding", message(tc.quantize, a, "mxfp8", { scale_roundin = "up" }))
    local elements, scales = tc.quantize(a, "mxfp8")
    assert.matches("have 4 rows, and a divisor of 64 columns; got e8m0%[3, 2%]", message(tc.dequantize, elements,
      tc.zeros({ 3, 2 }, tc.e8m0)))
    assert.matches("have 4 rows, and a divisor of 64 columns", message(tc.dequantize, elements,
      tc.zeros({ 4, 3 }, tc.e8m0)))
    assert.matches("scales expected: float8_e8m0fnu or float8_e4m3fn", message(tc.dequantize, elements, elements:view(
      "u8")))
    assert.matches("elements of the result are float32 or float64", message(tc.dequantize, elements, scales,
      { dtype = tc.e4m3 }))
  end)
end)

describe("Interleaved scales", function()
  local function bytes(rows, blocks)
    return tc.randint({ rows, blocks }, tc.u8, { high = 255, seed = rows + blocks }):view("e8m0")
  end

  -- The order of the 512-byte tile: 16 bytes for each of 32 rows, 4 for each 32 rows further, then the block.
  for _, size in ipairs { { 128, 4 }, { 256, 8 }, { 384, 12 }, { 100, 3 }, { 130, 5 }, { 1, 1 } } do
    local rows, blocks = size[1], size[2]
    it(("of %d rows and %d blocks"):format(rows, blocks), function()
      local plain = bytes(rows, blocks)
      local out = tc.interleave_scales(plain)
      local tiles = (blocks + 3) // 4
      assert.same({ (rows + 127) // 128, tiles, 32, 16 }, out.shape)
      assert.equal(plain.dtype, out.dtype)
      local expected = {}
      for i = 1, out.nbytes do expected[i] = 0 end
      local codes = plain:view("u8"):totable()
      for m = 0, rows - 1 do
        for s = 0, blocks - 1 do
          local tile = m // 128 * tiles + s // 4
          expected[tile * 512 + m % 32 * 16 + m // 32 % 4 * 4 + s % 4 + 1] = codes[m + 1][s + 1]
        end
      end
      assert.same(expected, out:view("u8"):reshape({ -1 }):totable())
    end)
  end

  for _, rows in ipairs { 64, 128, 192, 256 } do
    it(("of a collective mma with M = 128, N = %d"):format(rows), function()
      local plain = bytes(rows, 8)
      local out = tc.interleave_scales(plain, { layout = "b_scales_m64_collective" })
      assert.same({ 1, 2, 64, 16 }, out.shape)
      local got, codes = out:view("u8"):totable(), plain:view("u8"):totable()
      for n = 0, rows - 1 do
        local half, within = n // (rows // 2), n % (rows // 2)
        for s = 0, 7 do
          local line, byte = half * 32 + within % 32, within // 32 * 4 + s % 4
          assert.equal(codes[n + 1][s + 1], got[1][s // 4 + 1][line + 1][byte + 1])
        end
      end
    end)
  end

  it("refuse what they are not", function()
    assert.matches("scales expected: float8_e8m0fnu or float8_e4m3fn %(rows, K / block%), got f32%[128, 4%]",
      message(tc.interleave_scales, tc.zeros({ 128, 4 }, tc.f32)))
    assert.matches("scales expected", message(tc.interleave_scales, tc.zeros({ 128 }, tc.e8m0)))
    assert.matches("option 'layout' must be one of \"scales\", \"b_scales_m64_collective\", got \"rows\"",
      message(tc.interleave_scales, tc.zeros({ 128, 4 }, tc.e8m0), { layout = "rows" }))
    assert.matches("an even number of rows up to 256, got e8m0%[384, 4%]", message(tc.interleave_scales,
      tc.zeros({ 384, 4 }, tc.e8m0), { layout = "b_scales_m64_collective" }))
  end)
end)

-- Operations on whole arrays, which are loops of their own for each type, against single elements (dtype_spec.lua
-- compares those with the definitions of the formats) and against the same arithmetic in Lua.
local tc = require "tcmma"

local inf, nan = math.huge, 0 / 0

-- Those of at most 16 bits, whose codes can all be tried.
local narrow = { "f16", "bf16", "e4m3", "e5m2", "e8m0", "e2m3", "e3m2", "e2m1", "i16", "u16", "i8", "u8", "i4", "u4",
  "u2", "bool" }
local all = { "f64", "f32", "tf32", "i64", "u64", "i32", "u32", table.unpack(narrow) }

local function same(a, b) return a == b and 1 / a == 1 / b or a ~= a and b ~= b end

-- A sequence of words that looks random.
local function words(seed)
  local state = seed * 0x9e3779b97f4a7c15 | 1
  return function()
    state = state ~ state << 13
    state = state ~ state >> 7
    state = state ~ state << 17
    return state
  end
end

-- The bytes of packed codes, the first in the low bits.
local function packed(codes, bits)
  local bytes, window, filled = {}, 0, 0
  for _, code in ipairs(codes) do
    window, filled = window | code << filled, filled + bits
    while filled >= 8 do
      bytes[#bytes + 1] = string.char(window & 255)
      window, filled = window >> 8, filled - 8
    end
  end
  if filled > 0 then bytes[#bytes + 1] = string.char(window) end
  return table.concat(bytes)
end

local function codes_of(array)
  local bits, bytes, list = array.dtype.bits, array:tobytes(), {}
  for i = 1, array.elements do
    local bit = (i - 1) * bits
    if bits == 64 then
      list[i] = string.unpack("<i8", bytes, bit // 8 + 1)
    else
      local code = 0
      for byte = bit // 8, (bit + bits - 1) // 8 do code = code | bytes:byte(byte + 1) << 8 * (byte - bit // 8) end
      list[i] = code >> bit % 8 & (1 << bits) - 1
    end
  end
  return list
end

-- Doubles that are hard to convert to any of the types.
local function hard_numbers()
  local list = { 0.0, -0.0, inf, -inf, nan, 5e-324, -5e-324, 2.0 ^ -1022, 1.7976931348623157e308, 0.5, -0.5, 1.5, 2.5 }
  local word = words(1)
  for exponent = -152, 66 do
    for _, x in ipairs { 1, 1 + 2.0 ^ -52, 2 - 2.0 ^ -52, 1.5, 1.25, 1.75, 1 + 2.0 ^ -11, 1 + 3 * 2.0 ^ -11 } do
      list[#list + 1] = x * 2.0 ^ exponent
      list[#list + 1] = -x * 2.0 ^ exponent
    end
  end
  for _ = 1, 20000 do list[#list + 1] = string.unpack("<d", string.pack("<i8", word())) end
  for _ = 1, 20000 do
    local bits = word()
    list[#list + 1] = (bits >> 11) * 2.0 ^ (-70 - bits % 40) * (bits % 3 - 1)
  end
  return list
end

describe("a conversion of a whole array", function()
  for _, short in ipairs(narrow) do
    local t = tc[short]

    it("to doubles decodes every code of " .. short, function()
      local codes = {}
      for code = 0, (1 << t.bits) - 1 do codes[#codes + 1] = code end
      local got = tc.frombytes(packed(codes, t.bits), t, { #codes }):astype("f64"):totable()
      for i, code in ipairs(codes) do
        local expected = short == "bool" and (code ~= 0 and 1.0 or 0.0) or t:decode(code) * 1.0
        if not same(expected, got[i]) then error(("%#x: %s, expected %s"):format(code, got[i], expected)) end
      end
    end)

    it("to " .. short .. " rounds the midpoints between its values to even", function()
      if t.kind ~= "float" or short == "e8m0" then return end
      local numbers, word = {}, words(2)
      for code = 0, (1 << t.bits - 1) - 2 do
        local x, next_x = t:decode(code), t:decode(code + 1)
        if x == x and next_x < inf then
          local middle, step = (x + next_x) / 2, (next_x - x) * 2.0 ^ -(20 + word() % 20)
          for _, y in ipairs { x, middle, middle - step, middle + step } do
            numbers[#numbers + 1] = y
            numbers[#numbers + 1] = -y
          end
        end
      end
      local got = codes_of(tc.from_table(numbers, "f64"):astype(t))
      for i, x in ipairs(numbers) do
        if t:encode(x) ~= got[i] then error(("%a: %#x, expected %#x"):format(x, got[i], t:encode(x))) end
      end
    end)
  end

  for _, short in ipairs(all) do
    it("from doubles to " .. short, function()
      local t, numbers = tc[short], hard_numbers()
      local got = codes_of(tc.from_table(numbers, "f64"):astype(t))
      for i, x in ipairs(numbers) do
        local expected = t:encode(x)
        if expected ~= got[i] and (short ~= "f64" or x == x) then
          error(("%a: %#x, expected %#x"):format(x, got[i], expected))
        end
      end
    end)

    it("from float32 and from integers to " .. short, function()
      local t, word = tc[short], words(3)
      local bytes = {}
      for i = 1, 3000 do bytes[i] = string.pack("<i8", word() >> i % 60) end
      for _, from in ipairs { tc.f32, tc.i32, tc.u32, tc.i64, tc.u64 } do
        local source = tc.frombytes(table.concat(bytes), from, { 3000 * 64 // from.bits })
        local values, got = source:totable(), codes_of(source:astype(t))
        for i, x in ipairs(values) do
          -- Single elements have no unsigned integers above math.maxinteger.
          if x == x and (from ~= tc.u64 or x >= 0) and t:encode(x) ~= got[i] then
            error(("%s of %s: %#x, expected %#x"):format(x, from, got[i], t:encode(x)))
          end
        end
      end
    end)

    it("does not depend on the number of elements of " .. short, function()
      local t = tc[short]
      local numbers = {}
      for i = 1, 200 do numbers[i] = (i * 37 % 101 - 50) / 8 end
      local long = codes_of(tc.from_table(numbers, "f64"):astype(t))
      for n = 1, 200, 1 + (t.bits >= 8 and 6 or 0) do
        local codes = table.move(long, 1, n, 1, {})
        local short_one = tc.from_table(table.move(numbers, 1, n, 1, {}), "f64"):astype(t)
        if t.bits < 64 then assert.equal(packed(codes, t.bits), short_one:tobytes()) end
        assert.same(tc.from_table(numbers, "f64"):astype(t):astype("f32"):tobytes():sub(1, 4 * n),
          short_one:astype("f32"):tobytes())
      end
    end)

    it("fills every element of " .. short, function()
      local t = tc[short]
      for n = 1, 70 do
        local code, codes = t:encode(1.5), {}
        for i = 1, n do codes[i] = code end
        local filled = tc.full({ n }, 1.5, t)
        if t.bits == 64 then
          for i = 0, n - 1 do assert.equal(short == "f64" and 1.5 or code, filled:get(i)) end
        else
          assert.equal(packed(codes, t.bits), filled:tobytes())
        end
      end
    end)
  end

  it("rounds an unsigned integer above math.maxinteger once", function()
    -- 2^63 + 2^39 lies between two floats; the last bit decides.
    local source = tc.frombytes(string.pack("<i8i8i8", 1 << 63 | 1 << 39, 1 << 63 | 1 << 39 | 1, -1), "u64", { 3 })
    assert.same({ 2.0 ^ 63, 2.0 ^ 63 + 2.0 ^ 40, 2.0 ^ 64 }, source:astype("f32"):totable())
  end)

  it("keeps the bits of an array that is converted in place", function()
    local a = tc.arange(41, "u4")
    a:copy_from(a:view "i4")
    assert.same({ 0, 1, 2, 3, 4, 5, 6, 7, 0, 0 }, table.move(a:totable(), 1, 10, 1, {}))
  end)

  it("counts as arange does in doubles", function()
    for _, short in ipairs { "f32", "f16", "i16", "u64" } do
      local got = tc.arange(3, 2000, 1.75, short):totable()
      for i, x in ipairs(got) do assert.equal(tc.from_table({ 3 + (i - 1) * 1.75 }, short):get(0), x) end
      assert.equal(math.ceil((2000 - 3) / 1.75), #got)
    end
  end)
end)

describe("random integers of every type", function()
  it("are those of int64, converted", function()
    for _, range in ipairs { { -5, 6 }, { 0, 1 << 40 }, { math.mininteger, math.maxinteger } } do
      local wide = tc.randint({ 1500 }, "i64", { low = range[1], high = range[2], seed = 5 })
      for _, short in ipairs(all) do
        local got = tc.randint({ 1500 }, short, { low = range[1], high = range[2], seed = 5 })
        assert(got:equal(wide:astype(short)), short)
      end
    end
  end)
end)

-- Arrays of floats with what is no number in them, and some elements that are equal.
local function pair(n, seed, special)
  local word, a, b = words(seed), {}, {}
  for i = 1, n do
    local x = (word() >> 20) * 2.0 ^ (-40 + word() % 9)
    a[i], b[i] = x, word() % 3 == 0 and x or x * (1 + (word() % 100) * 1e-7) + (word() % 5) * 1e-6
    if special and word() % 50 == 0 then a[i] = ({ inf, -inf, nan, 0.0, -0.0 })[1 + word() % 5] end
    if special and word() % 50 == 0 then b[i] = ({ inf, -inf, nan, 0.0, a[i] })[1 + word() % 5] end
  end
  return a, b
end

describe("a reduction of a whole array", function()
  it("sums floats in order, compensated", function()
    for _, n in ipairs { 1, 63, 1000, 5001 } do
      local numbers = pair(n, n)
      for i = 1, n, 3 do numbers[i] = -numbers[i] * 2.0 ^ 30 end
      for _, short in ipairs { "f64", "f32", "bf16" } do
        local array = tc.from_table(numbers, short)
        local sum, lost = 0.0, 0.0
        for _, x in ipairs(array:totable()) do
          local next_sum = sum + x
          lost = lost + (math.abs(sum) >= math.abs(x) and sum - next_sum + x or x - next_sum + sum)
          sum = next_sum
        end
        assert.equal(sum + lost, array:sum())
      end
    end
  end)

  it("sums integers of every type", function()
    for _, short in ipairs(all) do
      if tc[short].kind ~= "float" then
        local array = tc.randint({ 3001 }, short, { low = math.mininteger, high = math.maxinteger, seed = 3 })
        local sum = 0
        for _, x in ipairs(array:totable()) do sum = sum + (x == true and 1 or x or 0) end
        assert.equal(sum, array:sum())
      end
    end
  end)

  it("finds the first of the greatest and of the least", function()
    for seed = 1, 20 do
      local numbers = pair(1 + seed * 100, seed, seed % 2 == 0)
      for _, short in ipairs { "f64", "f16", "e2m1", "i8" } do
        local array = tc.from_table(numbers, short)
        local list = array:totable()
        local most, least = 1, 1
        for i, x in ipairs(list) do
          if list[most] == list[most] and (x > list[most] or x ~= x) then most = i end
          if list[least] == list[least] and (x < list[least] or x ~= x) then least = i end
        end
        assert.equal(most - 1, select(2, array:max())[1])
        assert.equal(least - 1, select(2, array:min())[1])
      end
    end
  end)
end)

describe("a comparison of whole arrays", function()
  local function finite(x) return x == x and math.abs(x) < inf end

  -- As the documentation of allclose has it, in the order of the elements.
  local function compared(a, b, opts)
    local r = { mismatches = 0, nan_mismatches = 0, max_abs_error = 0.0, max_rel_error = 0.0 }
    local errors, squares = 0.0, 0.0
    for i, x in ipairs(a) do
      local y = b[i]
      local no_number = x ~= x or y ~= y
      local close = x == y or opts.equal_nan and x ~= x and y ~= y
        or finite(x) and finite(y) and math.abs(x - y) <= opts.atol + opts.rtol * math.abs(y)
      if not close then
        r.mismatches = r.mismatches + 1
        r.first_mismatch = r.first_mismatch or { i - 1 }
        if no_number then r.nan_mismatches = r.nan_mismatches + 1 end
      end
      if not no_number then
        local err = x == y and 0.0 or math.abs(x - y)
        if not r.index or err > r.max_abs_error then r.max_abs_error, r.index, r.a, r.b = err, { i - 1 }, x, y end
        local relative = err == 0 and 0.0 or finite(y) and err / math.abs(y) or inf
        r.max_rel_error = math.max(r.max_rel_error, relative)
        errors = errors + err * err
        if finite(y) then squares = squares + y * y end
      end
    end
    r.relative_rms = errors == 0 and 0.0 or (errors / squares) ^ 0.5
    return r
  end

  it("gives the same report", function()
    for seed = 1, 40 do
      local n = seed * 67
      local a, b = pair(n, seed, seed % 4 ~= 0)
      local opts = { rtol = seed % 3 * 1e-6, atol = seed % 5 * 1e-6, equal_nan = seed % 2 == 0 }
      local x, y = tc.from_table(a, seed % 3 == 0 and "f32" or "f64"), tc.from_table(b, "f64")
      local close, report = tc.allclose(x, y, opts)
      local expected = compared(x:totable(), y:totable(), opts)
      assert.equal(expected.mismatches == 0, close)
      for key, value in pairs(expected) do
        if type(value) == "table" then
          assert.equal(value[1], report[key][1], key)
        else
          assert(same(value, report[key]), ("%s: %s, expected %s"):format(key, report[key], value))
        end
      end
    end
  end)
end)

describe("lines across the memory of a packed matrix", function()
  local function transposed(array)
    local list, out = array:totable(), {}
    for j = 1, #list[1] do
      out[j] = {}
      for i = 1, #list do out[j][i] = list[i][j] end
    end
    return tc.from_table(out, array.dtype)
  end

  it("are quantized as those along it", function()
    for _, format in ipairs { "mxfp8", "mxfp6", "mxfp4", "nvfp4" } do
      for _, shape in ipairs { { 3, 64 }, { 37, 192 }, { 67, 96 }, { 129, 32 } } do
        local a = tc.randn(shape, "f32", { seed = 1 })
        local elements, scales, global = tc.quantize(a, format)
        local across, across_scales, across_global = tc.quantize(transposed(a), format, { axis = 0 })
        assert.is_true(transposed(across):equal(elements))
        assert.is_true(across_scales:equal(scales))
        assert.equal(global, across_global)
        local numbers = tc.dequantize(elements, scales, { global_scale = global })
        assert.is_true(transposed(tc.dequantize(across, scales, { axis = 0, global_scale = global })):equal(numbers))
      end
    end
  end)

  it("are pruned as those along it", function()
    for _, short in ipairs { "f32", "bf16", "e4m3", "e2m3", "e2m1", "i8" } do
      for _, shape in ipairs { { 3, 64 }, { 131, 72 }, { 67, 136 } } do
        local a = tc.randn(shape, "f32", { seed = 1, std = 2 }):astype(short)
        local values, metadata = tc.sparsify(a)
        local across, across_metadata = tc.sparsify(transposed(a), { axis = 0 })
        assert.is_true(transposed(across):equal(values))
        assert.is_true(across_metadata:equal(metadata))
        assert.is_true(transposed(tc.densify(across, metadata, { axis = 0 })):equal(tc.densify(values, metadata)))
      end
    end
  end)
end)

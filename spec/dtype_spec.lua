local tc = require "tcmma"

-- The binary formats by definition: exponent bits, mantissa bits, bias, and which codes are
-- special: "ieee" has infinity and NaN, "fn" NaN in the last code only, "finite" neither.
local formats = {
  float8_e4m3fn = { e = 4, m = 3, bias = 7, kind = "fn", largest = 448, least = 2.0 ^ -9 },
  float8_e5m2 = { e = 5, m = 2, bias = 15, kind = "ieee", largest = 57344, least = 2.0 ^ -16 },
  float6_e2m3fn = { e = 2, m = 3, bias = 1, kind = "finite", largest = 7.5, least = 0.125 },
  float6_e3m2fn = { e = 3, m = 2, bias = 3, kind = "finite", largest = 28, least = 0.0625 },
  float4_e2m1fn = { e = 2, m = 1, bias = 1, kind = "finite", largest = 6, least = 0.5 },
  float16 = { e = 5, m = 10, bias = 15, kind = "ieee", largest = 65504, least = 2.0 ^ -24 },
  bfloat16 = { e = 8, m = 7, bias = 127, kind = "ieee", largest = (2 - 2.0 ^ -7) * 2.0 ^ 127,
           least = 2.0 ^ -133 },
}

local inf, nan = math.huge, 0 / 0

local function is_nan(x) return x ~= x end

--- Value of a code from the definition of the format.
local function value_of(f, code)
  local sign = code >> (f.e + f.m) == 1 and -1.0 or 1.0
  local exponent = code >> f.m & (1 << f.e) - 1
  local mantissa = code & (1 << f.m) - 1
  if f.kind == "ieee" and exponent == (1 << f.e) - 1 then
    return mantissa == 0 and sign * inf or nan
  elseif f.kind == "fn" and exponent == (1 << f.e) - 1 and mantissa == (1 << f.m) - 1 then
    return nan
  elseif exponent == 0 then
    return sign * mantissa * 2.0 ^ (1 - f.bias - f.m)
  end
  return sign * (1 + mantissa * 2.0 ^ -f.m) * 2.0 ^ (exponent - f.bias)
end

--- The finite values that are not negative, ascending; their codes are 0, 1, 2 ...
local function ladder(f)
  local values = {}
  for code = 0, (1 << (f.e + f.m)) - 1 do
    local x = value_of(f, code)
    if is_nan(x) or x == inf then break end
    values[#values + 1] = x
  end
  return values
end

local function sorted_names()
  local names = {}
  for name in pairs(formats) do names[#names + 1] = name end
  table.sort(names)
  return names
end

describe("dtype objects", function()
  it("have names, sizes and kinds", function()
    assert.equal("float16", tc.float16.name)
    assert.equal("f16", tc.float16.short)
    assert.equal(16, tc.f16.bits)
    assert.equal("float", tc.f16.kind)
    assert.equal("int", tc.i8.kind)
    assert.equal("uint", tc.u2.kind)
    assert.equal("bool", tc.bool.kind)
    assert.equal("bfloat16", tostring(tc.bf16))
    assert.equal("dtype float4_e2m1fn", "dtype " .. tc.e2m1)
  end)

  it("are one object each", function()
    assert.is_true(tc.float16 == tc.f16)
    assert.is_true(tc.dtype "f16" == tc.f16)
    assert.is_true(tc.dtype "float16" == tc.f16)
    assert.is_true(tc.dtype(tc.f16) == tc.f16)
    assert.is_false(tc.f16 == tc.bf16)
  end)

  it("of signed integers have PTX's names too", function()
    for _, bits in ipairs { 8, 16, 32, 64 } do
      assert.is_true(tc["s" .. bits] == tc["i" .. bits])
      assert.is_true(tc.dtype("s" .. bits) == tc["i" .. bits])
      assert.is_true(tc.zeros({ 1 }, "s" .. bits).dtype == tc["i" .. bits])
    end
    for _, name in ipairs { "b8", "b32", "s4" } do assert.is_false((pcall(tc.dtype, name))) end
  end)

  it("are all listed", function()
    local seen = {}
    for _, t in ipairs(tc.dtypes()) do
      assert.is_true(tc[t.name] == t)
      assert.is_true(tc[t.short] == t)
      seen[#seen + 1] = t.short
    end
    assert.equal("f64 f32 tf32 f16 bf16 e4m3 e5m2 e8m0 e2m3 e3m2 e2m1 i64 u64 i32 u32 i16 u16 i8 u8 i4 u4 u2 b1",
      table.concat(seen, " "))
  end)

  it("name a near miss", function()
    local function message(name) return select(2, pcall(tc.dtype, name)) end
    assert.matches("unknown dtype 'flaot16' %(did you mean 'float16'%?%)", message "flaot16")
    assert.matches("did you mean 'float16'", message "half")
    assert.matches("did you mean 'float32'", message "fp32")
    assert.matches("did you mean 'float8_e4m3fn'", message "e4m3fn")
    assert.matches("tc%.dtypes%(%) lists them", message "quaternion")
    assert.matches("dtype expected, .*; got integer 5", message(5))
    assert.matches("a tcmma.dtype has no field 'shrt' %(did you mean 'short'%?%)",
      select(2, pcall(function() return tc.f16.shrt end)))
  end)

  it("know their limits", function()
    for name, f in pairs(formats) do
      assert.equal(f.largest, tc[name].max)
      assert.equal(-f.largest, tc[name].min)
    end
    assert.equal(2.0 ^ 127, tc.e8m0.max)
    assert.equal(2.0 ^ -127, tc.e8m0.min)
    assert.equal(math.maxinteger, tc.i64.max)
    assert.equal(math.mininteger, tc.i64.min)
    assert.equal(-128, tc.i8.min)
    assert.equal(255, tc.u8.max)
    assert.equal(3, tc.u2.max)
    assert.equal(-1, tc.u64.max) -- the bits of 2^64 - 1
  end)

  it("are spaces' companions", function()
    assert.equal("SMEM", tostring(tc.SMEM))
    assert.is_false(tc.SMEM == tc.TMEM)
  end)
end)

describe("decoding", function()
  for _, name in ipairs(sorted_names()) do
    local f, t = formats[name], tc[name]
    it("of every code of " .. name, function()
      for code = 0, (1 << t.bits) - 1 do
        local expected, got = value_of(f, code), t:decode(code)
        if is_nan(expected) then
          assert(is_nan(got), ("code %#x: %s"):format(code, got))
        else
          assert(got == expected and 1 / got == 1 / expected,
            ("code %#x: %s, expected %s"):format(code, got, expected))
        end
      end
    end)
  end

  it("of float4_e2m1fn is the table of the standard", function()
    local values = {}
    for code = 0, 15 do values[#values + 1] = ("%g"):format(tc.e2m1:decode(code)) end
    assert.equal("0 0.5 1 1.5 2 3 4 6 -0 -0.5 -1 -1.5 -2 -3 -4 -6", table.concat(values, " "))
  end)

  it("of float8_e8m0fnu is a power of two", function()
    for code = 0, 254 do assert.equal(2.0 ^ (code - 127), tc.e8m0:decode(code)) end
    assert.is_true(is_nan(tc.e8m0:decode(255)))
  end)

  it("of tfloat32 ignores the low 13 bits", function()
    assert.equal(1.0, tc.tf32:decode(0x3f801fff))
    assert.equal(-1.5, tc.tf32:decode(0xbfc00000))
    assert.equal(inf, tc.tf32:decode(0x7f801fff))
    assert.is_true(is_nan(tc.tf32:decode(0x7f802000)))
  end)

  it("of integers", function()
    assert.equal(-1, tc.i8:decode(0xff))
    assert.equal(255, tc.u8:decode(0xff))
    assert.equal(-32768, tc.i16:decode(0x8000))
    assert.equal(-2147483648, tc.i32:decode(0x80000000))
    assert.equal(4294967295, tc.u32:decode(0xffffffff))
    assert.equal(3, tc.u2:decode(3))
    assert.has_error(function() tc.u2:decode(4) end)
  end)
end)

describe("encoding", function()
  for _, name in ipairs(sorted_names()) do
    local f, t = formats[name], tc[name]
    it("rounds to nearest even at every midpoint of " .. name, function()
      local values = ladder(f)
      assert.equal(f.largest, values[#values])
      assert.equal(f.least, values[2])
      local sign = 1 << (f.e + f.m)
      for i = 1, #values do
        local code, x = i - 1, values[i]
        assert(t:encode(x) == code and t:encode(-x) == code | sign, x)
        if i < #values then
          local middle = (x + values[i + 1]) / 2
          local nudge = (values[i + 1] - x) * 2.0 ^ -20
          local even = code % 2 == 0 and code or code + 1
          assert(t:encode(middle) == even, middle)
          assert(t:encode(-middle) == even | sign, middle)
          assert(t:encode(middle - nudge) == code, middle)
          assert(t:encode(middle + nudge) == code + 1, middle)
          assert(t:encode(x + nudge) == code, x)
          assert(t:encode(values[i + 1] - nudge) == code + 1, x)
        end
      end
    end)

    it("beyond the ends of " .. name, function()
      local values = ladder(f)
      local last = #values - 1
      local sign = 1 << (f.e + f.m)
      local half_step = (values[#values] - values[#values - 1]) / 2
      local saturates = t.bits < 16
      local beyond = saturates and last or last + 1
      assert.equal(last, t:encode(f.largest + half_step * 0.999))
      assert.equal(beyond, t:encode(f.largest + half_step))
      assert.equal(beyond, t:encode(f.largest * 3))
      assert.equal(beyond, t:encode(inf))
      assert.equal(beyond | sign, t:encode(-inf))
      assert.equal(beyond, t:encode(1e300))
      assert.equal(0, t:encode(f.least / 2))
      assert.equal(1, t:encode(f.least * 0.500001))
      assert.equal(0, t:encode(5e-324))
      assert.equal(sign, t:encode(-5e-324))
      assert.equal(sign, t:encode(-0.0))
    end)
  end

  it("of NaN gives the canonical one, or the largest value", function()
    local expected = {
      float16 = 0x7fff, bfloat16 = 0x7fff, float8_e4m3fn = 0x7f, float8_e5m2 = 0x7f,
      float8_e8m0fnu = 0xff, float6_e2m3fn = 0x1f, float6_e3m2fn = 0x1f, float4_e2m1fn = 7,
      float32 = 0x7fffffff, tfloat32 = 0x7fffe000, int32 = 0, uint8 = 0, bool = 1,
    }
    for name, code in pairs(expected) do
      assert.equal(code, tc[name]:encode(nan), name)
      assert.equal(code, tc[name]:encode(-nan), name)
    end
  end)

  it("of float8_e8m0fnu rounds up to a power of two", function()
    assert.equal(127, tc.e8m0:encode(1))
    assert.equal(128, tc.e8m0:encode(1 + 2.0 ^ -52))
    assert.equal(128, tc.e8m0:encode(2))
    assert.equal(126, tc.e8m0:encode(0.3))
    assert.equal(0, tc.e8m0:encode(0))
    assert.equal(0, tc.e8m0:encode(-4))
    assert.equal(0, tc.e8m0:encode(2.0 ^ -127))
    assert.equal(1, tc.e8m0:encode(2.0 ^ -127 * 1.5))
    assert.equal(254, tc.e8m0:encode(1e300))
    assert.equal(254, tc.e8m0:encode(inf))
  end)

  it("of float32 is what string.pack does", function()
    for _, x in ipairs { 0.1, -1 / 3, 1e-40, 3.4e38, 1e39, -1e39, 2.0 ^ -149, 2.0 ^ -150, 16777217 } do
      assert.equal(string.unpack("<I4", string.pack("<f", x)), tc.f32:encode(x))
    end
  end)

  it("of tfloat32 rounds the 13 low bits away, to even", function()
    assert.equal(0x3f800000, tc.tf32:encode(1 + 2.0 ^ -11))
    assert.equal(0x3f802000, tc.tf32:encode(1 + 2.0 ^ -11 + 2.0 ^ -40))
    assert.equal(0x3f804000, tc.tf32:encode(1 + 3 * 2.0 ^ -11))
    assert.equal(0x7f800000, tc.tf32:encode(3.4028e38))
  end)

  it("of integers rounds to even and saturates", function()
    local cases = {
      { "i8", 2.5, 2 }, { "i8", 3.5, 4 }, { "i8", -2.5, 0xfe }, { "i8", 127.49, 127 },
      { "i8", 1000, 127 }, { "i8", -1000, 0x80 }, { "i8", -inf, 0x80 }, { "u8", -1, 0 },
      { "u8", -0.5, 0 }, { "u8", 255.5, 255 }, { "u8", 0.5, 0 }, { "u8", 1.5, 2 }, { "u2", 7, 3 },
      { "i32", 1e10, 0x7fffffff }, { "i32", -1e10, 0x80000000 }, { "u32", 4294967295.0, 0xffffffff },
      { "u32", inf, 0xffffffff }, { "i64", 1e30, math.maxinteger }, { "i64", -1e30, math.mininteger },
      { "u64", 1e30, -1 }, { "u64", 2.0 ^ 63, math.mininteger }, { "bool", 0, 0 }, { "bool", 0.25, 1 },
    }
    for _, case in ipairs(cases) do
      assert.equal(case[3], tc[case[1]]:encode(case[2] + 0.0), case[1] .. " " .. case[2])
    end
    assert.equal(9007199254740993, tc.i64:encode(9007199254740993))
    assert.equal(127, tc.i8:encode(math.maxinteger))
    assert.equal(0x80, tc.i8:encode(math.mininteger))
    assert.equal(0, tc.u64:encode(-1))
  end)

  it("of a long integer rounds once", function()
    -- 2^60 + 2^52 + 1 lies above the midpoint of two bfloat16; by way of a double it would be on it.
    local x = (1 << 60) + (1 << 52) + 1
    assert.equal(tc.bf16:encode(2.0 ^ 60) + 1, tc.bf16:encode(x))
    assert.equal(tc.bf16:encode(2.0 ^ 60), tc.bf16:encode((1 << 60) + (1 << 52)))
    assert.equal(tc.bf16:encode(-2.0 ^ 60) + 1, tc.bf16:encode(-x))
    assert.equal(string.unpack("<I4", string.pack("<f", 2.0 ^ 60 + 2.0 ^ 37)),
      tc.f32:encode((1 << 60) + (1 << 36) + 1))
  end)
end)

describe("encoding random doubles", function()
  -- Rounding by scaling, in doubles: an exact quotient, then floor and the tie by hand.
  local function rounded(f, x)
    local magnitude = math.abs(x)
    local exponent = 1 - f.bias
    while 2.0 ^ (exponent + 1) <= magnitude do exponent = exponent + 1 end
    local unit = 2.0 ^ (exponent - f.m)
    local quotient = magnitude / unit
    local whole = quotient // 1
    local rest = quotient - whole
    if rest > 0.5 or rest == 0.5 and whole % 2 == 1 then whole = whole + 1 end
    local result = whole * unit
    if result > f.largest then result = f.bias == 7 and f.largest or inf end
    return x < 0 and -result or result
  end

  for _, name in ipairs { "float16", "bfloat16" } do
    it("to " .. name, function()
      local state = 88172645463325252
      local f, t = formats[name], tc[name]
      for _ = 1, 20000 do
        state = state ~ state << 13
        state = state ~ state >> 7
        state = state ~ state << 17
        local scale = 2.0 ^ ((state >> 40) % 48 - 30)
        local x = ((state & 0xfffff) / 1048576.0 - 0.5) * scale
        local got = t:decode(t:encode(x))
        assert(got == rounded(f, x), ("%a: %a"):format(x, got))
      end
    end)
  end
end)

describe("packed storage", function()
  for _, short in ipairs { "e2m1", "e2m3", "e3m2", "u2" } do
    it("of " .. short .. " is dense, the first element in the low bits", function()
      local t = tc[short]
      local codes, n = {}, 37
      for i = 1, n do codes[i] = (i * 7 + i // 3) % (1 << t.bits) end
      local bytes = {}
      for bit = 0, n * t.bits - 1 do
        local set = codes[bit // t.bits + 1] >> bit % t.bits & 1
        bytes[bit // 8 + 1] = (bytes[bit // 8 + 1] or 0) | set << bit % 8
      end
      local a = tc.zeros({ n }, t)
      assert.equal(#bytes, a.nbytes)
      for i = 1, n do a:set(i - 1, t:decode(codes[i])) end
      assert.equal(string.char(table.unpack(bytes)), a:tobytes())
      for i = 1, n do assert.equal(t:decode(codes[i]), a:get(i - 1)) end
    end)
  end
end)

local tc = require "tcmma"

local message = require "helper".message

describe("a new array", function()
  it("has shape, type, size and device", function()
    local a = tc.empty({ 3, 5, 7 }, tc.f16)
    assert.same({ 3, 5, 7 }, a.shape)
    assert.equal(tc.float16, a.dtype)
    assert.equal(3, a.rank)
    assert.equal(105, a.elements)
    assert.equal(210, a.nbytes)
    assert.equal(3, #a)
    assert.is_true(a.address > 0)
  end)

  it("that is empty shows on the emulator what was never written", function()
    local unset = tc.empty({ 130, 64 }, tc.f32, { device = "emulator" })
    assert.is_true(unset:get(129, 63) ~= unset:get(129, 63))
    assert.equal(-1, tc.empty({ 3 }, tc.int32, { device = "emulator" }):get(2))
    local half = tc.kernel{ name = "half", args = { tc.gmem({ 130, 64 }, tc.f32) },
      body = function(x) tc.atomic_add(x:at(tc.ds(0, 128), tc.ds(0, 32)), 1.0) end }
    half:emulate({ target = "sm_100a" }, unset)
    assert.is_true(unset:get(0, 0) ~= unset:get(0, 0))
  end)

  it("is described in one line", function()
    assert.matches("^tcmma%.array f16%[512, 512%] on %S+$", tostring(tc.zeros({ 512, 512 }, "f16")))
    assert.matches("^tcmma%.array i8%[%] on ", tostring(tc.zeros({}, "i8")))
  end)

  it("of packed elements takes whole bytes", function()
    assert.equal(3, tc.zeros({ 5 }, "e2m1").nbytes)
    assert.equal(4, tc.zeros({ 5 }, "e3m2").nbytes)
    assert.equal(2, tc.zeros({ 5 }, "u2").nbytes)
  end)

  it("holds zeros, ones, one value, or a row of numbers", function()
    assert.same({ { 0, 0 }, { 0, 0 } }, tc.zeros({ 2, 2 }, "f32"):totable())
    assert.same({ 1, 1, 1 }, tc.ones({ 3 }, "e4m3"):totable())
    assert.same({ 0.5, 0.5 }, tc.full({ 2 }, 0.5, "f16"):totable())
    assert.same({ true, true }, tc.full({ 2 }, true, tc.bool):totable())
    assert.same({ 0, 1, 2, 3 }, tc.arange(4, "i32"):totable())
    assert.same({ 2, 3, 4 }, tc.arange(2, 5, "i32"):totable())
    assert.same({ 0, 0.5, 1, 1.5 }, tc.arange(0, 2, 0.5, "f16"):totable())
    assert.same({ 3, 2, 1 }, tc.arange(3, 0, -1, "i8"):totable())
    assert.same({ 0, 1, 2 }, tc.arange(2.5, "i8"):totable())
    for _, t in ipairs(tc.dtypes()) do
      local one = t.kind == "bool" and true or 1
      assert.same({ one, one, one }, tc.ones({ 3 }, t):totable(), t.name)
    end
  end)

  it("may have rank 0", function()
    local a = tc.full({}, 2.5, "f32")
    assert.equal(2.5, a:get())
    assert.equal(2.5, a:totable())
    assert.equal(4, a.nbytes)
    a:set(7)
    assert.equal(7.0, a:get())
    assert.matches("rank 0 has no length", message(function() return #a end))
  end)

  it("is refused with the reason", function()
    assert.matches("size 2 of the shape must be an integer >= 1, got integer 0", message(tc.zeros, { 1, 0 }, "f32"))
    assert.matches("got number 1%.5", message(tc.zeros, { 1.5 }, "f32"))
    assert.matches("shape expected, a table such as {128, 64}; got integer 4", message(tc.zeros, 4, "f32"))
    assert.matches("at most 8 dimensions", message(tc.zeros, { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, "f32"))
    assert.matches("did you mean 'device'", message(tc.zeros, { 1 }, "f32", { devcie = "emulator" }))
    assert.matches("options table expected, got string \"emulator\"", message(tc.zeros, { 1 }, "f32", "emulator"))
    assert.matches("more than 2%^46 elements", message(tc.empty, { 1 << 40, 1 << 40 }, "f32"))
    assert.matches("number expected for float16, got string \"x\"", message(tc.full, { 1 }, "x", "f16"))
    assert.matches("step must not be 0", message(tc.arange, 0, 1, 0, "f32"))
    assert.matches("no number lies between 3 and 1 in steps of 1", message(tc.arange, 3, 1, "f32"))
  end)
end)

describe("tables", function()
  it("give the shape by their nesting", function()
    local a = tc.from_table({ { { 1, 2 }, { 3, 4 }, { 5, 6 } } }, "f32")
    assert.same({ 1, 3, 2 }, a.shape)
    assert.same({ { { 1, 2 }, { 3, 4 }, { 5, 6 } } }, a:totable())
  end)

  it("may be flat when a shape is given", function()
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, tc.from_table({ 1, 2, 3, 4, 5, 6 }, "i16", { 2, 3 }):totable())
    assert.same({ 1, 2, 3, 4 }, tc.from_table({ { 1, 2 }, { 3, 4 } }, "i16", { 4 }):totable())
  end)

  it("keep 64-bit integers exact", function()
    local values = { math.maxinteger, math.mininteger, 9007199254740993, -1, 0 }
    assert.same(values, tc.from_table(values, "i64"):totable())
    assert.same(values, tc.from_table(values, "u64"):totable())
  end)

  it("round on the way in", function()
    assert.same({ 0.0999755859375, 65504, math.huge }, tc.from_table({ 0.1, 65504, 1e6 }, "f16"):totable())
    assert.same({ 127, -128, 3 }, tc.from_table({ 1000, -1000, 2.6 }, "i8"):totable())
    assert.same({ 448, -448 }, tc.from_table({ 1e6, -1e6 }, "e4m3"):totable())
  end)

  it("must be regular", function()
    assert.matches("table%[2%] has 1 entries, expected 2", message(tc.from_table, { { 1, 2 }, { 3 } }, "f32"))
    assert.matches("table%[2%] is integer 3, expected a table", message(tc.from_table, { { 1, 2 }, 3 }, "f32"))
    assert.matches("table%[1%] is nested deeper than the shape", message(tc.from_table, { 1, { 2 } }, "f32")
      :gsub("%[2%]", "[1]"))
    assert.matches("table%[2%]%[1%] is string \"3\", expected a number for float32",
      message(tc.from_table, { { 1, 2 }, { "3", 4 } }, "f32"))
    assert.matches("the table has 3 numbers, f32%[2, 2%] has 4 elements",
      message(tc.from_table, { 1, 2, 3 }, "f32", { 2, 2 }))
    assert.matches("no entries in dimension 2", message(tc.from_table, { {} }, "f32"))
    assert.matches("table of numbers expected, got nil", message(tc.from_table, nil, "f32"))
  end)

  it("survive being nested in themselves", function()
    local t = {}
    t[1] = t
    assert.matches("at most 8 dimensions", message(tc.from_table, t, "f32"))
    assert.matches("nested deeper", message(tc.from_table, t, "f32", { 1 }))
  end)
end)

describe("elements", function()
  local a = tc.from_table({ { 1, 2, 3 }, { 4, 5, 6 } }, "f32")

  it("have coordinates from 0", function()
    assert.equal(1, a:get(0, 0))
    assert.equal(6, a:get(1, 2))
    a:set(1, 0, 40)
    assert.same({ { 1, 2, 3 }, { 40, 5, 6 } }, a:totable())
    assert.equal(a, a:set(1, 0, 4))
  end)

  it("are checked", function()
    assert.matches("coordinate 2 is outside of dimension 0 of f32%[2, 3%]; coordinates run from 0 to 1",
      message(function() a:get(2, 0) end))
    assert.matches("bad argument #2 to 'get' %(coordinate %-1", message(function() a:get(0, -1) end))
    assert.matches("f32%[2, 3%] needs 2 coordinates, got 1", message(function() a:get(0) end))
    assert.matches("needs 2 coordinates, got 3", message(function() a:set(0, 0, 0, 5) end))
    assert.matches("number expected for float32, got nil", message(function() a:set(0, 0, nil) end))
    assert.matches("array:get%(i, j, %.%.%.%)", message(function() return a[1] end))
    assert.matches("array:set%(i, j, %.%.%., value%)", message(function() a[1] = 5 end))
  end)

  it("at the end of a packed array", function()
    local packed = tc.zeros({ 11 }, "e3m2")
    packed:set(10, 28)
    packed:set(0, -0.25)
    assert.same({ -0.25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 28 }, packed:totable())
  end)
end)

describe("an array", function()
  it("names a misspelt field", function()
    local a = tc.zeros({ 1 }, "f32")
    assert.matches("a tcmma.array has no field 'shap' %(did you mean 'shape'%?%)",
      message(function() return a.shap end))
    assert.matches("fields of an array cannot be set %(string \"shape\"%)", message(function() a.shape = {} end))
  end)

  it("wants the colon", function()
    local a = tc.zeros({ 1 }, "f32")
    assert.matches("calling 'fill' on bad self %(tcmma%.array expected, got integer 5%); call it as array:fill%(",
      message(function() a.fill(5) end))
  end)

  it("can be filled and overwritten", function()
    local a = tc.zeros({ 2, 2 }, "f16")
    assert.equal(a, a:fill(3))
    assert.same({ { 3, 3 }, { 3, 3 } }, a:totable())
    a:copy_from({ { 1, 2 }, { 3, 4 } })
    assert.same({ { 1, 2 }, { 3, 4 } }, a:totable())
    a:copy_from({ 5, 6, 7, 8 })
    assert.same({ { 5, 6 }, { 7, 8 } }, a:totable())
    a:copy_from(tc.from_table({ { 0.1, 1e9 }, { -1, 0 } }, "f64"))
    assert.same({ { 0.0999755859375, math.huge }, { -1, 0 } }, a:totable())
    assert.matches("shapes differ: f16%[4%] cannot be copied to f16%[2, 2%]",
      message(function() a:copy_from(tc.zeros({ 4 }, "f16")) end))
    assert.matches("array or table expected, got integer 5", message(function() a:copy_from(5) end))
  end)

  it("is not changed by a table that does not fit", function()
    local a = tc.from_table({ 1, 2, 3 }, "f32")
    assert.has_error(function() a:copy_from({ 4, 5 }) end)
    assert.has_error(function() a:copy_from({ 4, 5, "six" }) end)
    assert.same({ 1, 2, 3 }, a:totable())
  end)

  it("converts to every type and back", function()
    local values = { 0, 1, 2, 3 }
    for _, from in ipairs(tc.dtypes()) do
      if from.kind ~= "bool" and from ~= tc.e8m0 then
        local a = tc.from_table(values, from)
        for _, to in ipairs(tc.dtypes()) do
          if to.kind ~= "bool" and to ~= tc.e8m0 then
            assert.same(values, a:astype(to):astype("f64"):totable(), from.name .. " to " .. to.name)
          end
        end
      end
    end
    assert.same({ false, true, true, true }, tc.from_table(values, "f16"):astype("bool"):totable())
  end)

  it("converts 64-bit integers without losing bits", function()
    local a = tc.from_table({ math.maxinteger, -1, 9007199254740993 }, "i64")
    assert.same({ math.maxinteger, 0, 9007199254740993 }, a:astype("u64"):totable())
    assert.same({ 2147483647, -1, 2147483647 }, a:astype("i32"):totable())
    assert.same({ 2.0 ^ 64 }, tc.from_table({ -1 }, "u64"):astype("f64"):totable())
    assert.same({ math.maxinteger }, tc.from_table({ -1 }, "u64"):astype("i64"):totable())
  end)

  it("copies", function()
    local a = tc.from_table({ 1, 2 }, "f32")
    local b = a:copy()
    a:fill(0)
    assert.same({ 1, 2 }, b:totable())
  end)

  it("goes to and from bytes", function()
    local a = tc.from_table({ 1, -2, 0.5 }, "f32")
    assert.equal(string.pack("<fff", 1, -2, 0.5), a:tobytes())
    a:frombytes(string.pack("<fff", 3, 4, 5))
    assert.same({ 3, 4, 5 }, a:totable())
    assert.same({ { 1 }, { 258 } }, tc.frombytes("\1\0\2\1", "u16", { 2, 1 }):totable())
    assert.matches("f32%[3%] has 12 bytes, the string 3", message(function() a:frombytes("abc") end))
    assert.matches("has 4 bytes, the string 2", message(tc.frombytes, "ab", "u16", { 2 }))
  end)

  it("goes to another device and back", function()
    local a = tc.from_table({ 1, 2, 3 }, "f16", nil, { device = "emulator:sm_100a" })
    local b = a:to("emulator:sm_90a")
    assert.same({ 1, 2, 3 }, b:totable())
    assert.matches("on emulator:sm_90a$", tostring(b))
    assert.is_true(b:to(b.device) == b)
    b:fill(9)
    assert.same({ 1, 2, 3 }, a:totable())
    assert.same({ 9, 9, 9 }, a:copy_from(b):totable())
  end)
end)

describe("a view", function()
  it("shares memory", function()
    local a = tc.arange(6, "f32")
    local b = a:reshape({ 2, 3 })
    assert.same({ { 0, 1, 2 }, { 3, 4, 5 } }, b:totable())
    b:set(1, 1, 40)
    assert.equal(40, a:get(4))
    assert.same({ 3, 2 }, a:reshape({ 3, -1 }).shape)
    assert.same({ 6 }, b:reshape({ -1 }).shape)
  end)

  it("reinterprets bits", function()
    local a = tc.from_table({ 1, -2 }, "bf16")
    assert.same({ 0x3f80, 0xc000 }, a:view("u16"):totable())
    assert.same({ 0x80, 0x3f, 0x00, 0xc0 }, a:view("u8"):totable())
    assert.same({ 0xc0003f80 }, a:view("u32"):totable())
    assert.matches("the last dimension of bf16%[2%] is 32 bits, no multiple of float64",
      message(function() a:view("f64") end))
  end)

  it("must have as many elements", function()
    local a = tc.arange(6, "f32")
    assert.matches("f32%[6%] has 6 elements, the new shape 8", message(function() a:reshape({ 2, 4 }) end))
    assert.matches("has 6 elements, the new shape a multiple of 4", message(function() a:reshape({ 4, -1 }) end))
    assert.matches("one of them may be %-1", message(function() a:reshape({ -1, -1 }) end))
    assert.has_error(function() a:reshape({ 1 << 46, 1 << 46 }) end)
  end)

  it("keeps the memory alive and dies with it", function()
    local b = tc.arange(6, "f32"):reshape({ 3, 2 })
    collectgarbage()
    collectgarbage()
    assert.equal(5, b:get(2, 1))
    local a = tc.arange(6, "f32")
    local c = a:reshape({ 2, 3 }):view("u32")
    a:free()
    assert.matches("attempt to use a freed array %(u32%[2, 3%]%)", message(function() c:get(0, 0) end))
    assert.matches("%(freed%)$", tostring(c))
  end)

  it("can be let go without the memory", function()
    local a = tc.arange(6, "f32")
    local b = a:reshape({ 6 })
    b:free()
    assert.equal(5, a:get(5))
    assert.has_error(function() b:get(0) end)
  end)
end)

describe("freeing", function()
  it("twice is fine, use afterwards is not", function()
    local a = tc.zeros({ 4 }, "f16")
    a:free()
    a:free()
    assert.equal("tcmma.array f16[4] (freed)", tostring(a))
    assert.same({ 4 }, a.shape)
    for _, use in ipairs {
      function() a:fill(1) end, function() a:totable() end, function() a:get(0) end,
      function() a:reshape({ 2, 2 }) end, function() tc.allclose(a, a) end, function() a:tobytes() end,
      function() a:astype("f32") end, function() a:sum() end, function() return a.device end,
    } do
      assert.matches("attempt to use a freed array %(f16%[4%]%)", message(use))
    end
  end)

  it("happens at the end of a block", function()
    local kept
    do
      local a <close> = tc.zeros({ 4 }, "f16")
      kept = a
    end
    assert.matches("freed", tostring(kept))
  end)

  it("is the collector's work for thousands of large arrays", function()
    for _ = 1, 400 do tc.empty({ 1 << 22 }, "f32") end
    assert.is_true(collectgarbage("count") < 64 * 1024)
  end)
end)

describe("text", function()
  it("lines the elements up", function()
    assert.equal("{{   1, -2.5},\n {  30,    4}}",
      tc.from_table({ { 1, -2.5 }, { 30, 4 } }, "f32"):tostring_values())
    assert.equal("{true, true}", tc.ones({ 2 }, "bool"):tostring_values())
    assert.equal("18446744073709551615", tc.full({}, -1, "u64"):tostring_values())
    assert.equal("{nan, inf}", (tc.from_table({ -(0 / 0), math.huge }, "f32"):tostring_values():gsub("%-nan", "nan")))
  end)

  it("leaves the middle of long dimensions out", function()
    assert.equal("{ 0,  1,  2, ..., 17, 18, 19}", tc.arange(20, "i32"):tostring_values())
    assert.equal("{ 0, ..., 19}", tc.arange(20, "i32"):tostring_values({ edge = 1 }))
    assert.equal("{0, 1, 2, 3, 4, 5, 6, 7}", tc.arange(8, "i32"):tostring_values())
    local _, lines = tc.zeros({ 100, 100 }, "f16"):tostring_values():gsub("\n", "\n")
    assert.equal(6, lines)
  end)

  it("has the digits that are asked for", function()
    assert.equal("{0.33}", tc.full({ 1 }, 1 / 3, "f64"):tostring_values({ precision = 2 }))
    assert.matches("did you mean 'precision'", message(function()
      tc.zeros({ 1 }, "f32"):tostring_values({ precison = 2 })
    end))
  end)

  it("is printed by show", function()
    local printed, print_before = {}, print
    _G.print = function(text) printed[#printed + 1] = text end
    local ok, err = pcall(function() tc.arange(2, "i8"):show() end)
    _G.print = print_before
    assert(ok, err)
    assert.matches("^tcmma%.array i8%[2%] on ", printed[1])
    assert.equal("{0, 1}", printed[2])
  end)
end)

describe("an array that a finalizer frees while a function reads it", function()
  -- Garbage whose finalizers run as soon as the function allocates.
  local function run(f, array)
    collectgarbage "stop"
    for _ = 1, 40 do setmetatable({}, { __gc = function() array:free() end }) end
    collectgarbage "restart"
    collectgarbage("incremental", 10, 10000, 1)
    local ok, result = pcall(f, array)
    collectgarbage("incremental", 200, 100, 13)
    collectgarbage()
    return ok, result
  end

  local scales = tc.full({ 128, 8 }, 1, "float8_e8m0fnu")
  local functions = {
    quantize = function(a) return tc.quantize(a, "mxfp8") end,
    dequantize = function(a) return tc.dequantize(a, scales) end,
    sparsify = function(a) return tc.sparsify(a) end,
    astype = function(a) return a:astype "f16" end,
    totable = function(a) return a:totable() end,
    copy = function(a) return tc.zeros({ 128, 256 }, "f16"):copy_from(a) end,
    allclose = function(a) return tc.allclose(a, a) end,
    equal = function(a) return a:equal(a) end,
  }
  for name, f in pairs(functions) do
    it("is read whole or refused: " .. name, function()
      local expected = f(tc.full({ 128, 256 }, 2, "f32"))
      for _ = 1, 10 do
        local ok, result = run(f, tc.full({ 128, 256 }, 2, "f32"))
        if not ok then
          assert.matches("freed array", result)
        elseif type(result) == "table" or type(result) == "boolean" then
          assert.same(expected, result)
        else
          assert.is_true(result:equal(expected))
        end
      end
    end)
  end
end)

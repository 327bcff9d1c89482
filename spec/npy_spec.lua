local tc = require "tcmma"

local function with_file(text, fn)
  local path = os.tmpname()
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  local ok, err = pcall(fn, path)
  os.remove(path)
  assert(ok, err)
end

--- A file as NumPy writes it.
local function npy_text(descr, order, shape, data, version)
  local header = ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }"):format(descr, order, shape)
  local fixed = version and version > 1 and 12 or 10
  header = header .. (" "):rep(-(fixed + #header + 1) % 64) .. "\n"
  return "\x93NUMPY" .. string.char(version or 1) .. "\0"
    .. string.pack(fixed == 12 and "<s4" or "<s2", header) .. data
end

describe("a .npy file", function()
  it("is written as NumPy writes it", function()
    with_file("", function(path)
      assert(tc.npy.save(path, tc.from_table({ { 1, 2, 3 }, { 4, 5, 6 } }, "f32")))
      local file = assert(io.open(path, "rb"))
      local text = file:read "a"
      file:close()
      assert.equal(npy_text("<f4", "False", "(2, 3)", string.pack("<ffffff", 1, 2, 3, 4, 5, 6)), text)
      assert.equal(128 + 24, #text)
    end)
  end)

  it("comes back as it was", function()
    for _, t in ipairs(tc.dtypes()) do
      if t.npy then
        for _, shape in ipairs { {}, { 5 }, { 2, 3 }, { 2, 1, 3 } } do
          local a = tc.randint(shape, t, { low = 0, high = 100, seed = 1 })
          with_file("", function(path)
            assert(tc.npy.save(path, a))
            assert.is_true(a:equal(assert(tc.npy.load(path))), t.name)
          end)
        end
      end
    end
  end)

  it("is read in every version", function()
    for version = 1, 3 do
      with_file(npy_text("<i2", "False", "(3,)", "\1\0\2\0\255\255", version), function(path)
        assert.same({ 1, 2, -1 }, assert(tc.npy.load(path)):totable())
      end)
    end
  end)

  it("in Fortran order is read when that makes no difference", function()
    with_file(npy_text("|u1", "True", "(3,)", "abc"), function(path)
      assert.same({ 97, 98, 99 }, assert(tc.npy.load(path)):totable())
    end)
  end)

  it("that cannot be read gives nil and the reason", function()
    local cases = {
      { "hello", "it is not a %.npy file" },
      { "\x93NUMPY\1\0\255\255{}", "ends inside its header" },
      { "\x93NUMPY\9\0\2\0{}  ", "version 9" },
      { npy_text(">f4", "False", "(1,)", "\0\0\0\0"), "big%-endian" },
      { npy_text("|V2", "False", "(1,)", "\0\0"), "raw bytes .* as NumPy writes bfloat16" },
      { npy_text("<c8", "False", "(1,)", ("\0"):rep(8)), "no dtype corresponds to '<c8'" },
      { npy_text("<f4", "True", "(1, 1)", "\0\0\0\0"), "Fortran order" },
      { npy_text("<f4", "False", "(2,)", "\0\0\0\0"), "4 bytes of data, its shape needs 8" },
      { npy_text("<f4", "False", "(0,)", ""), "size 1 is 0; at least 1 expected" },
      { npy_text("<f4", "False", "(x,)", ""), "damaged" },
      { npy_text("<f4", "False", "(1099511627776, 1099511627776)", ""), "more than 2%^46 elements" },
      { npy_text("<f4", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "\0\0\0\0"), "9 dimensions; at most 8" },
    }
    for _, case in ipairs(cases) do
      with_file(case[1], function(path)
        local array, reason, code = tc.npy.load(path)
        assert.is_nil(array)
        assert.matches(case[2], reason)
        assert.equal("format", code)
      end)
    end
    local array, reason = tc.npy.load "/nonexistent/x.npy"
    assert.is_nil(array)
    assert.matches("No such file", reason)
  end)

  it("has no bfloat16 and no fp8", function()
    local ok, reason = pcall(tc.npy.save, "/nonexistent/x.npy", tc.zeros({ 1 }, "bf16"))
    assert.is_false(ok)
    assert.matches("no bfloat16; use tc%.safetensors%.save or save array:view \"u16\"", reason)
    assert.has_error(function() tc.npy.save("/nonexistent/x.npy", tc.zeros({ 1 }, "e4m3")) end)
    assert.has_error(function() tc.npy.save("/nonexistent/x.npy", { 1 }) end)
    assert.has_error(function() tc.npy.load(5) end)
    assert.is_nil((tc.npy.save("/nonexistent/x.npy", tc.zeros({ 1 }, "f32"))))
  end)
end)

describe("a .safetensors file", function()
  it("holds arrays of nearly every type by name", function()
    local arrays = {}
    for _, t in ipairs(tc.dtypes()) do
      if t.safetensors then arrays["layer." .. t.short] = tc.randint({ 3, 8 }, t, { low = 0, high = 6, seed = 2 }) end
    end
    arrays["quote\"\\\n"] = tc.ones({}, "f32")
    with_file("", function(path)
      assert(tc.safetensors.save(path, arrays, { made = "by tcmma" }))
      local back, metadata = tc.safetensors.load(path)
      for name, array in pairs(arrays) do
        assert.is_true(array:equal(back[name]), name)
        back[name] = nil
      end
      assert.is_nil(next(back))
      assert.same({ made = "by tcmma" }, metadata)
    end)
  end)

  it("is read from its definition", function()
    local header = [[{ "w" : {"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}, "\u0062\u00e9":]]
      .. [[{"shape":[1],"dtype":"F8_E4M3","data_offsets":[4,5]} }]]
    with_file(string.pack("<s8", header) .. "\x80\x3f\x00\xc0\x7e", function(path)
      local arrays = assert(tc.safetensors.load(path))
      assert.same({ { 1 }, { -2 } }, arrays.w:totable())
      assert.same({ 448 }, arrays["bé"]:totable())
    end)
  end)

  it("that is damaged gives nil and the reason", function()
    local cases = {
      { "abc", "not a %.safetensors" },
      { string.pack("<I8", 1 << 40), "not a %.safetensors" },
      { string.pack("<s8", "[1"), "',' or '%]' expected at byte 3" },
      { string.pack("<s8", "{\"a\":{}}"), "entry of 'a' is damaged" },
      { string.pack("<s8", ("["):rep(100000)), "nested too deeply" },
      { string.pack("<s8", "{\"a\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}"), "type C64" },
      { string.pack("<s8", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"), "do not fit" },
      { string.pack("<s8", "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}"), "at least 1" },
    }
    for _, case in ipairs(cases) do
      with_file(case[1], function(path)
        local arrays, reason = tc.safetensors.load(path)
        assert.is_nil(arrays)
        assert.matches(case[2], reason)
      end)
    end
  end)

  it("refuses what it has no name for", function()
    assert.has_error(function() tc.safetensors.save("/nonexistent/x", { a = tc.zeros({ 1 }, "tf32") }) end)
    assert.has_error(function() tc.safetensors.save("/nonexistent/x", { a = 5 }) end)
    assert.has_error(function() tc.safetensors.save("/nonexistent/x", { tc.zeros({ 1 }, "f32") }) end)
  end)
end)

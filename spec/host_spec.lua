local process = require "process"
local tc = require "tcmma"

local message = require "helper".message

local function words(array)
  local list = {}
  for i, x in ipairs(array:totable()) do list[i] = ("%08x"):format(x) end
  return table.concat(list, " ")
end

-- Philox4x32-10 in Lua, from its paper: the generator that the arrays must agree with.
local function philox(seed, counter, purpose)
  local x = { counter & 0xffffffff, counter >> 32, purpose, 0 }
  local k0, k1 = seed & 0xffffffff, seed >> 32
  for _ = 1, 10 do
    local p0, p1 = 0xd2511f53 * x[1], 0xcd9e8d57 * x[3]
    x = { p1 >> 32 ~ x[2] ~ k0, p1 & 0xffffffff, p0 >> 32 ~ x[4] ~ k1, p0 & 0xffffffff }
    k0, k1 = k0 + 0x9e3779b9 & 0xffffffff, k1 + 0xbb67ae85 & 0xffffffff
  end
  return x[1] << 32 | x[2], x[3] << 32 | x[4]
end

describe("the generator of the specs", function()
  it("gives the known answers of Philox4x32-10", function()
    local a, b = philox(0, 0, 0)
    assert.equal("6627e8d5e169c58dbc57ac4c9b00dbd8", ("%016x%016x"):format(a, b))
  end)
end)

describe("random integers", function()
  it("are those of the generator", function()
    local a = tc.randint({ 6 }, "u32", { low = 0, high = 1 << 32, seed = 7 })
    local expected = {}
    for i = 0, 2 do
      local first, second = philox(7, i, 2)
      expected[#expected + 1] = ("%08x"):format(first >> 32)
      expected[#expected + 1] = ("%08x"):format(second >> 32)
    end
    assert.equal(table.concat(expected, " "), words(a))
  end)

  it("stay inside their range and reach its ends", function()
    local a = tc.randint({ 4000 }, "i32", { low = -3, high = 4, seed = 1 })
    assert.equal(-3, (a:min()))
    assert.equal(3, (a:max()))
    local wide = tc.randint({ 100 }, "i64", { low = math.mininteger, high = math.maxinteger, seed = 1 })
    assert.is_true(wide:min() < -(1 << 61) and wide:max() > 1 << 61)
  end)

  it("need an upper end above the lower", function()
    assert.matches("option 'high' is missing", message(tc.randint, { 1 }, "i32"))
    assert.matches("'high' %(0%) must be greater than 'low' %(0%)", message(tc.randint, { 1 }, "i32", { high = 0 }))
  end)
end)

describe("uniform numbers", function()
  it("are those of the generator", function()
    local a = tc.rand({ 2 }, "f64", { seed = -5 })
    local first, second = philox(-5, 0, 1)
    assert.same({ (first >> 11) * 2.0 ^ -53, (second >> 11) * 2.0 ^ -53 }, a:totable())
  end)

  it("lie where they should", function()
    local a = tc.rand({ 10000 }, "f32", { seed = 3, low = -2, high = 2 })
    assert.is_true(a:min() >= -2 and a:max() < 2)
    assert.is_true(math.abs(a:sum() / 10000) < 0.05)
  end)
end)

describe("normal numbers", function()
  it("are Box and Muller's", function()
    local got = tc.randn({ 2000 }, "f64", { seed = 42 }):totable()
    for i = 0, 999 do
      local first, second = philox(42, i, 0)
      local u = ((first >> 11) + 1) * 2.0 ^ -53
      local angle = 2 * math.pi * ((second >> 11) * 2.0 ^ -53)
      local radius = math.sqrt(-2 * math.log(u))
      assert.near(radius * math.cos(angle), got[2 * i + 1], 1e-14)
      assert.near(radius * math.sin(angle), got[2 * i + 2], 1e-14)
    end
  end)

  it("are the same to the last bit, everywhere", function()
    -- Printed once; a machine, compiler or optimisation that changes a bit is a fault.
    assert.equal("bed3ea6a be7d4504 bf6193ef 3e0b776e bec479bc bfd03877",
      words(tc.randn({ 6 }, "f32", { seed = 1 }):view("u32")))
    local bits = tc.randn({ 100000 }, "f64", { seed = 1 }):view("u64")
    assert.equal("ce5bf16b78dc7b4b", ("%016x"):format(bits:sum()))
  end)

  it("have the moments of the distribution", function()
    local n = 1 << 20
    local a = tc.randn({ n }, "f64", { seed = 9 })
    assert.near(0, a:sum() / n, 0.005)
    local squares = tc.reference.matmul(a:reshape({ 1, n }), a:reshape({ n, 1 }))
    assert.near(1, squares:get(0, 0) / n, 0.005)
    assert.is_true(a:max() > 4 and a:max() < 7)
  end)

  it("do not depend on shape or type", function()
    local a = tc.randn({ 6, 5 }, "f64", { seed = 4 })
    local b = tc.randn({ 30 }, "f64", { seed = 4 })
    assert.is_true(a:reshape({ 30 }):equal(b))
    assert.is_true(b:astype("f16"):equal(tc.randn({ 30 }, "f16", { seed = 4 })))
  end)

  it("take a mean and a deviation", function()
    local plain = tc.randn({ 8 }, "f64", { seed = 4 }):totable()
    local moved = tc.randn({ 8 }, "f64", { seed = 4, mean = 10, std = 0.5 }):totable()
    for i = 1, 8 do assert.equal(10 + 0.5 * plain[i], moved[i]) end
  end)

  it("differ from array to array without a seed", function()
    assert.is_false(tc.randn({ 8 }, "f32"):equal(tc.randn({ 8 }, "f32")))
  end)

  it("check their options", function()
    assert.matches("did you mean 'seed'", message(tc.randn, { 1 }, "f32", { sead = 1 }))
    assert.matches("option 'std' must be a number, got string \"1\"", message(tc.randn, { 1 }, "f32", { std = "1" }))
    assert.matches("option 'seed' must be an integer, got number 1.5", message(tc.randn, { 1 }, "f32", { seed = 1.5 }))
  end)
end)

describe("allclose", function()
  it("reports how far arrays are apart", function()
    local a = tc.from_table({ { 1, 2 }, { 3, 4.5 } }, "f32")
    local b = tc.from_table({ { 1, 2 }, { 3, 4 } }, "f64")
    local same, report = tc.allclose(a, b)
    assert.is_false(same)
    assert.equal(0.5, report.max_abs_error)
    assert.equal(0.125, report.max_rel_error)
    assert.same({ 1, 1 }, report.index)
    assert.same({ 1, 1 }, report.first_mismatch)
    assert.equal(4.5, report.a)
    assert.equal(4, report.b)
    assert.equal(1, report.mismatches)
    assert.equal(4, report.elements)
    assert.near(0.5 / math.sqrt(30), report.relative_rms, 1e-15)
    assert.equal("1 of 4 elements differ; greatest error 0.5, relative rms 0.0913 (rtol 1e-05, atol 1e-05)",
      tostring(report))
  end)

  it("is content within its tolerances", function()
    local a = tc.from_table({ 100, 0 }, "f32")
    local b = tc.from_table({ 101, 0.5 }, "f32")
    assert.is_true((tc.allclose(a, b, { rtol = 0, atol = 1 })))
    assert.is_false((tc.allclose(a, b, { rtol = 0.01, atol = 0 })))
    assert.is_true((tc.allclose(a, b, { rtol = 0.01, atol = 0.5 })))
    local same, report = tc.allclose(a, a)
    assert.is_true(same)
    assert.equal(0, report.max_abs_error)
    assert.is_nil(report.first_mismatch)
  end)

  it("allows two units in the last place of the coarser type", function()
    local _, report = tc.allclose(tc.zeros({ 1 }, "f16"), tc.zeros({ 1 }, "f64"))
    assert.equal(2.0 ^ -9, report.rtol)
    _, report = tc.allclose(tc.zeros({ 1 }, "f16"), tc.zeros({ 1 }, "bf16"))
    assert.equal(2.0 ^ -6, report.rtol)
    _, report = tc.allclose(tc.zeros({ 1 }, "f32"), tc.zeros({ 1 }, "i32"))
    assert.equal(1e-5, report.rtol)
  end)

  it("knows NaN and infinity", function()
    local nan, inf = 0 / 0, math.huge
    local a = tc.from_table({ nan, inf, -inf, 1 }, "f32")
    local same, report = tc.allclose(a, a)
    assert.is_false(same)
    assert.equal(1, report.mismatches)
    assert.equal(1, report.nan_mismatches)
    assert.is_true((tc.allclose(a, a, { equal_nan = true })))
    same, report = tc.allclose(tc.from_table({ inf, 1 }, "f32"), tc.from_table({ 1, inf }, "f32"), { atol = inf })
    assert.is_false(same)
    assert.equal(2, report.mismatches)
    assert.equal(inf, report.max_abs_error)
  end)

  it("wants arrays of one shape", function()
    assert.matches("shapes differ: f32%[4%] and f32%[2, 2%]",
      message(tc.allclose, tc.zeros({ 4 }, "f32"), tc.zeros({ 2, 2 }, "f32")))
    assert.matches("bad argument #2 to 'allclose' %(tcmma.array expected, got nil%)",
      message(tc.allclose, tc.zeros({ 4 }, "f32"), nil))
    assert.matches("tolerances must not be negative",
      message(tc.allclose, tc.zeros({ 4 }, "f32"), tc.zeros({ 4 }, "f32"), { atol = -1 }))
  end)
end)

describe("max_error", function()
  it("is the greatest difference and its place", function()
    local a, b = tc.zeros({ 3, 4 }, "f16"), tc.zeros({ 3, 4 }, "f32")
    b:set(2, 1, -0.75)
    local err, index = tc.max_error(a, b)
    assert.equal(0.75, err)
    assert.same({ 2, 1 }, index)
  end)

  it("is NaN where one of them is", function()
    local a = tc.from_table({ 1, 0 / 0 }, "f32")
    local err, index = tc.max_error(a, tc.ones({ 2 }, "f32"))
    assert.is_true(err ~= err)
    assert.same({ 1 }, index)
  end)
end)

describe("reductions", function()
  it("sum floats without losing small ones", function()
    assert.equal(2, tc.from_table({ 1, 1e100, 1, -1e100 }, "f64"):sum())
    assert.equal(math.huge, tc.from_table({ math.huge, 1 }, "f32"):sum())
  end)

  it("sum integers exactly", function()
    assert.equal(math.maxinteger, tc.from_table({ math.maxinteger - 5, 5 }, "i64"):sum())
    assert.equal("integer", math.type(tc.ones({ 10 }, "i8"):sum()))
    assert.equal(3, tc.ones({ 3 }, "bool"):sum())
    assert.equal(-2, tc.from_table({ -1, -1 }, "i16"):sum())
  end)

  it("find the greatest and the least", function()
    local a = tc.from_table({ { 3, -7, 9 }, { 9, 0, 1 } }, "f16")
    local value, index = a:max()
    assert.equal(9, value)
    assert.same({ 0, 2 }, index)
    value, index = a:min()
    assert.equal(-7, value)
    assert.same({ 0, 1 }, index)
    assert.equal(9007199254740993, (tc.from_table({ 9007199254740993, 9007199254740992 }, "i64"):max()))
    assert.equal(-1, (tc.from_table({ 1, -1 }, "u64"):max()))
    assert.equal(-1, (tc.from_table({ 1, -1 }, "i64"):min()))
    value, index = tc.from_table({ 1, 0 / 0, 5 }, "f32"):max()
    assert.is_true(value ~= value)
    assert.same({ 1 }, index)
  end)

  it("compare bits", function()
    local a = tc.from_table({ 1, 2 }, "f32")
    assert.is_true(a:equal(a:copy()))
    assert.is_false(a:equal(tc.from_table({ 1, 3 }, "f32")))
    assert.is_false(a:equal(tc.from_table({ 1, 2 }, "f64")))
    assert.is_false(a:equal(tc.from_table({ { 1, 2 } }, "f32")))
    assert.is_false(tc.from_table({ 0.0 }, "f32"):equal(tc.from_table({ -0.0 }, "f32")))
    local packed = tc.frombytes("\x21\x03", "e2m1", { 3 })
    assert.is_true(packed:equal(tc.frombytes("\x21\xf3", "e2m1", { 3 })))
    assert.is_false(packed:equal(tc.frombytes("\x21\xf4", "e2m1", { 3 })))
  end)
end)

describe("the reference product", function()
  local function naive(a, b, m, n, k)
    local out = {}
    for i = 1, m do
      out[i] = {}
      for j = 1, n do
        local sum = 0.0
        for l = 1, k do sum = sum + a[i][l] * b[l][j] end
        out[i][j] = sum
      end
    end
    return out
  end

  it("sums in order, whatever the blocking", function()
    for _, size in ipairs { { 1, 1, 1 }, { 4, 8, 3 }, { 5, 9, 257 }, { 13, 31, 520 }, { 8, 16, 256 }, { 3, 7, 600 } } do
      local m, n, k = table.unpack(size)
      local a = tc.randn({ m, k }, "f16", { seed = 1 })
      local b = tc.randn({ k, n }, "f16", { seed = 2 })
      assert.same(naive(a:totable(), b:totable(), m, n, k), tc.reference.matmul(a, b):totable())
    end
  end)

  it("transposes either operand", function()
    local a = tc.from_table({ { 1, 2, 3 }, { 4, 5, 6 } }, "f32")
    local b = tc.from_table({ { 1, 0, 2 }, { 0, 1, 1 } }, "bf16")
    assert.same({ { 7, 5 }, { 16, 11 } }, tc.reference.matmul(a, b, { transpose_b = true }):totable())
    assert.same({ { 1, 4, 6 }, { 2, 5, 9 }, { 3, 6, 12 } },
      tc.reference.matmul(a, b, { transpose_a = true }):totable())
  end)

  it("adds a bias and cuts negatives off", function()
    local a = tc.from_table({ { 1 }, { -1 } }, "f32")
    local b = tc.from_table({ { 1, 2 } }, "f32")
    local bias = tc.from_table({ 0.5, -1 }, "f16")
    assert.same({ { 1.5, 1 }, { -0.5, -3 } }, tc.reference.matmul(a, b, { bias = bias }):totable())
    assert.same({ { 1.5, 1 }, { 0, 0 } }, tc.reference.matmul(a, b, { bias = bias, relu = true }):totable())
  end)

  it("refuses what does not fit", function()
    local a, b = tc.zeros({ 2, 3 }, "f32"), tc.zeros({ 2, 3 }, "f32")
    assert.matches("inner sizes differ: f32%[2, 3%] times f32%[2, 3%]", message(tc.reference.matmul, a, b))
    assert.matches("matrices expected, got f32%[2, 3%] and f32%[3%]",
      message(tc.reference.matmul, a, tc.zeros({ 3 }, "f32")))
    assert.matches("'bias' must have 2 elements, got f32%[3%]",
      message(tc.reference.matmul, a, b, { transpose_b = true, bias = tc.zeros({ 3 }, "f32") }))
    assert.matches("did you mean 'transpose_b'", message(tc.reference.matmul, a, b, { transposeb = true }))
  end)

  it("ends at Ctrl-C, and only the call", function()
    local command = process.command[[
      local tc = require "tcmma"
      local a = tc.ones({ 8192, 8192 }, "i8")
      print(pcall(tc.reference.matmul, a, a))
      print("still here")]]
    local pipe = assert(io.popen("timeout -s INT -k 20 4 " .. command))
    local output = pipe:read("a")
    pipe:close()
    assert.matches("tc.reference.matmul was interrupted\nstill here\n", output, 1, true)
  end)
end)

describe("the clock", function()
  it("only goes forward", function()
    local before = tc.clock()
    local after = tc.clock()
    assert.is_true(after >= before and after < before + 10)
  end)
end)

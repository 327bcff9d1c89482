-- Sparse MMAs of every kind on the emulator, against double-precision products of the uncompressed matrix.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local sparse = require "sparse_kernels"

local no_assembler

-- Assembles for each target, runs in every mode, and compares: sums of small numbers are exact.
local function check(o)
  local kernel, operands = sparse.kernel(o), sparse.operands(o)
  for _, target in ipairs(o.targets or { "sm_100a", "sm_103a" }) do
    local cubin, message, code = kernel:cubin { target = target }
    if not cubin and code == "ptx-rejected" then error(message) end
    no_assembler = no_assembler or not cubin and message or nil
  end
  for _, mode in ipairs { "fast", "check", "random" } do
    local out = tc.zeros(operands.expected.shape, operands.d)
    local arguments = { table.unpack(operands) }
    arguments[#arguments + 1] = out
    local target = (o.targets or { "sm_100a" })[1]
    local report = kernel:emulate({ target = target, mode = mode, seed = 1 }, table.unpack(arguments))
    local first = report.hazards[1]
    assert.is_nil(first, first and first.message)
    local same, how = tc.allclose(out, operands.expected, { rtol = 0, atol = 0 })
    assert.is_true(same, ("mode %s: %s"):format(mode, how))
  end
end

describe("sparse A times B:", function()
  for _, dtype in ipairs { "f16", "bf16", "e4m3", "e5m2", "f32", "tf32" } do
    it(dtype .. " into f32", function() check { a = dtype, n = 64, k = 256 } end)
  end
  for _, dtype in ipairs { "f16", "e4m3", "e5m2" } do
    it(dtype .. " into f16", function() check { a = dtype, d = "f16", n = 64, k = 128 } end)
  end
  it("e4m3 times e5m2", function() check { a = "e4m3", b = "e5m2", n = 32, k = 256 } end)
  it("e5m2 times e4m3", function() check { a = "e5m2", b = "e4m3", n = 32, k = 256 } end)
  for _, types in ipairs { { "i8", "i8" }, { "u8", "u8" }, { "i8", "u8" }, { "u8", "i8" } } do
    it(types[1] .. " times " .. types[2], function()
      check { a = types[1], b = types[2], n = 64, k = 256, targets = { "sm_100a" } }
    end)
  end
end)

describe("a sparse f16 MMA with", function()
  for _, n in ipairs { 16, 48, 128, 256, 272, 496 } do
    it("N = " .. n, function() check { a = "f16", n = n, k = 128 } end)
  end
  for _, swizzle in ipairs { 32, 64, 128 } do
    it("A's swizzle " .. swizzle, function() check { a = "f16", n = 64, k = 256, a_swizzle = swizzle } end)
  end
  for _, swizzle in ipairs { 64, 128 } do
    it("B's swizzle " .. swizzle, function() check { a = "f16", n = 64, k = 256, b_swizzle = swizzle } end)
  end
  it("B as (K, N)", function() check { a = "f16", n = 64, k = 256, b_rows = true } end)
  it("A as (K, M)", function() check { a = "f16", n = 64, k = 256, a_columns = true } end)
  it("both the other way round", function()
    check { a = "bf16", n = 128, k = 256, a_columns = true, b_rows = true }
  end)
  it("A in TMEM", function() check { a = "f16", n = 64, k = 256, a_tmem = true } end)
  it("several tiles along K in a ring, metadata in slots of TMEM", function()
    check { a = "f16", n = 64, k = 512, tile = 128 }
  end)
  it("an accumulator that is added to", function() check { a = "f16", n = 64, k = 512, tile = 256, twice = true } end)
end)

it("a sparse fp8 MMA with A in TMEM", function() check { a = "e4m3", n = 64, k = 256, a_tmem = true } end)
it("a sparse int8 MMA with A in TMEM", function()
  check { a = "i8", n = 64, k = 256, a_tmem = true, targets = { "sm_100a" } }
end)

describe("a narrow B, of a sparse MMA of", function()
  for _, n in ipairs { 8, 24, 40 } do
    it("N = " .. n, function()
      check { a = "f16", n = n, k = 128 }
      check { a = "bf16", n = n, k = 128, a_tmem = true }
      check { a = "f32", n = n, k = 128 }
      check { a = "e4m3", b = "e5m2", n = n, k = 256 }
      check { a = "e2m3", b = "e2m1", n = n, k = 256, pattern = "2:4", b_padded = true }
      check { a = "e4m3", n = n, k = 256, scale = "e8m0", block = 64 }
      check { a = "e2m1", n = n, k = 512, pattern = "4:8", scale = "e4m3", block = 32 }
      check { a = "f16", n = 256 + n, k = 128 }
      check { a = "f16", n = n, k = 128, targets = { "sm_90a" } }
      check { a = "e5m2", n = n, k = 256, targets = { "sm_90a" } }
    end)
    it("N = " .. 2 * n .. " in two CTAs", function()
      check { a = "f16", n = 2 * n, k = 128, collective = true }
      check { a = "f32", n = 2 * n, k = 128, collective = true }
    end)
  end
  it("N = 8 and 24 of integers, and of a pair 32 and 96", function()
    for _, n in ipairs { 8, 24 } do check { a = "i8", b = "u8", n = n, k = 256, targets = { "sm_100a" } } end
    for _, n in ipairs { 32, 96 } do
      check { a = "u8", b = "i8", n = n, k = 256, collective = true, targets = { "sm_100a" } }
    end
  end)
end)

describe("Narrow floats, of any pair, in kind::f8f6f4:", function()
  local types = { "e4m3", "e5m2", "e2m3", "e3m2", "e2m1" }
  for _, a in ipairs(types) do
    it(a, function()
      for _, b in ipairs(types) do
        check { a = a, b = b, n = 32, k = 256, pattern = "2:4", targets = { "sm_100a" }, a_padded = a == "e2m1",
          b_padded = b == "e2m1" }
      end
    end)
  end
end)

describe("A sparse MMA with scales:", function()
  for _, pair in ipairs { { "e4m3", "e4m3" }, { "e5m2", "e5m2" }, { "e4m3", "e5m2" }, { "e3m2", "e4m3" },
    { "e4m3", "e2m3" }, { "e2m1", "e4m3" }, { "e5m2", "e2m1" } } do
    local a, b = table.unpack(pair)
    it(("%s times %s, a factor for each 64"):format(a, b), function()
      check { a = a, b = b, n = 32, k = 256, pattern = "2:4", scale = "e8m0", block = 64, a_padded = a == "e2m1",
        b_padded = b == "e2m1" }
    end)
  end
  for _, case in ipairs { { "e8m0", 64 }, { "e8m0", 32 }, { "e4m3", 32 } } do
    local scale, block = table.unpack(case)
    it(("e2m1, %s for each %d"):format(scale, block), function()
      check { a = "e2m1", n = 32, k = 512, pattern = "4:8", scale = scale, block = block }
    end)
    it(("e2m1, %s for each %d, in a ring"):format(scale, block), function()
      check { a = "e2m1", n = 64, k = 1024, tile = 256, a_swizzle = 64, pattern = "4:8", scale = scale, block = block }
    end)
  end
  it("A in TMEM", function()
    check { a = "e4m3", n = 64, k = 256, scale = "e8m0", block = 64, a_tmem = true }
  end)
  it("N above 128", function()
    check { a = "e4m3", n = 192, k = 256, scale = "e8m0", block = 64 }
    check { a = "e4m3", n = 384, k = 256, scale = "e8m0", block = 64 }
    check { a = "e2m1", n = 256, k = 512, pattern = "4:8", scale = "e4m3", block = 32 }
  end)
  it("operands stored the other way round", function()
    check { a = "e5m2", n = 64, k = 512, tile = 256, scale = "e8m0", block = 64, a_columns = true, b_rows = true }
  end)
end)

describe("A sparse MMA of two CTAs:", function()
  for _, dtype in ipairs { "f16", "bf16", "e4m3", "f32" } do
    it(dtype, function() check { a = dtype, n = 128, k = 384, tile = 128, collective = true } end)
  end
  it("i8", function() check { a = "i8", n = 64, k = 512, tile = 256, collective = true, targets = { "sm_100a" } } end)
  it("N = 192 and 256", function()
    check { a = "f16", n = 192, k = 256, collective = true }
    check { a = "e5m2", n = 256, k = 256, collective = true }
  end)
  it("with scales", function()
    check { a = "e4m3", n = 64, k = 512, tile = 256, scale = "e8m0", block = 64, collective = true }
    check { a = "e2m1", n = 128, k = 512, pattern = "4:8", scale = "e4m3", block = 32, collective = true }
  end)
end)

-- What an instruction reads of the metadata: one column of 16- and 32-bit elements, else two.
for _, dtype in ipairs { "f16", "f32", "e4m3" } do
  it("metadata that nobody wrote is a hazard, " .. dtype, function()
    local o = { a = dtype, n = 64, k = 128, without_metadata = true }
    local arguments = sparse.operands(o)
    arguments[#arguments + 1] = tc.zeros({ 128, o.n }, arguments.d)
    local report = sparse.kernel(o):emulate({ target = "sm_100a", mode = "check" }, table.unpack(arguments))
    local first = report.hazards[1]
    assert.equal("undefined-tmem", first and first.rule)
  end)
end

describe("A sparse MMA on Hopper:", function()
  local function hopper(o)
    o.targets = { "sm_90a" }
    check(o)
  end
  for _, dtype in ipairs { "f16", "bf16", "e4m3", "e5m2", "f32", "tf32", "i8", "u8" } do
    it(dtype, function() hopper { a = dtype, n = 64, k = 256 } end)
  end
  for _, dtype in ipairs { "f16", "e4m3", "e5m2" } do
    it(dtype .. " into f16", function() hopper { a = dtype, d = "f16", n = 64, k = 128 } end)
  end
  for _, types in ipairs { { "e4m3", "e5m2" }, { "e5m2", "e4m3" }, { "i8", "u8" }, { "u8", "i8" } } do
    it(types[1] .. " times " .. types[2], function() hopper { a = types[1], b = types[2], n = 48, k = 256 } end)
  end
  it("operands stored the other way round", function()
    hopper { a = "f16", n = 128, k = 256, a_columns = true, b_rows = true }
  end)
  it("every swizzle of A", function()
    for _, swizzle in ipairs { 32, 64, 128 } do hopper { a = "bf16", n = 64, k = 256, a_swizzle = swizzle } end
  end)
  it("A in registers", function()
    hopper { a = "f16", n = 64, k = 256, a_tmem = true }
    hopper { a = "e4m3", n = 64, k = 256, a_tmem = true }
  end)
  it("in a ring, metadata in slots", function()
    hopper { a = "f16", n = 128, k = 512, tile = 128 }
    hopper { a = "i8", n = 64, k = 1024, tile = 256 }
    hopper { a = "f16", n = 256, k = 384, tile = 128, twice = true }
  end)
end)

-- What a wgmma.mma_async.sp has begun reads its registers of metadata until a wait, docs/isa.md 7: an assembler that
-- joins a register loaded before the wait with them (ptxas 13.0 does) spoils the product.
it("On Hopper a sparse MMA is waited for before the next metadata are loaded", function()
  for _, o in ipairs { { a = "f16", n = 128, k = 1024, tile = 256 }, { a = "i8", n = 64, k = 1024, tile = 256 },
    { a = "e4m3", n = 64, k = 512, tile = 256, twice = true } } do
    local text = sparse.kernel(o):ptx { target = "sm_90a" }
    local loop, loads, waited = text:match "\n(L%d+:\n.-wgmma%.mma_async%.sp.-bra L%d+;)", 0, false
    for line in loop:gmatch "[^\n]+" do
      if line:find("ld.volatile.shared", 1, true) then
        loads = loads + 1
        assert.is_true(waited, line)
      end
      waited = not line:find("wgmma.mma_async", 1, true)
        and (waited or line:find("^\twgmma%.wait_group%.sync%.aligned 0") ~= nil)
    end
    assert.is_true(loads > 0)
  end
end)

describe("The text of a sparse MMA", function()
  local function lines(o, pattern)
    local list = {}
    for line in sparse.kernel(o):ptx { target = "sm_100a" }:gmatch "[^\n]+" do
      if line:find(pattern) then list[#list + 1] = line end
    end
    return list
  end

  -- docs/isa.md 2.4, 6.4: 32 elements a step, its column of a pair in the selector
  it("names a pair of columns, and one of it in the descriptor", function()
    local found = lines({ a = "f16", n = 64, k = 256 }, "tcgen05%.mma%.sp%.cta_group::1%.kind::f16 ")
    assert.equal(8, #found)
    local base
    for i, line in ipairs(found) do
      local column, descriptor = line:match "%[%%%w+%+?(%d*)%], 0x(%x+), [%%p%d]+;$"
      column, descriptor = tonumber(column) or 0, tonumber(descriptor, 16)
      base = base or column
      assert.equal((i - 1) // 2 * 2, column - base)
      assert.equal(8 << 24 | 8 << 17 | 1 << 4 | 1 << 2 | (i - 1) % 2, descriptor)
    end
  end)

  it("has no selector where an instruction reads two columns", function()
    local found = lines({ a = "e4m3", n = 64, k = 256 }, "tcgen05%.mma%.sp%.cta_group::1%.kind::f8f6f4 ")
    assert.equal(4, #found)
    local base
    for i, line in ipairs(found) do
      local column, descriptor = line:match "%[%%%w+%+?(%d*)%], 0x(%x+), [%%p%d]+;$"
      column, descriptor = tonumber(column) or 0, tonumber(descriptor, 16)
      base = base or column
      assert.equal(2 * (i - 1), column - base)
      assert.equal(8 << 24 | 8 << 17 | 1 << 4 | 1 << 2, descriptor)
    end
  end)

  it("copies 64 entries of 128 rows at a time", function()
    assert.equal(2, #lines({ a = "f16", n = 64, k = 256 }, "tcgen05%.cp%.cta_group::1%.128x128b"))
  end)
end)

it("the kernels were assembled", function()
  if no_assembler then pending(no_assembler) end
end)

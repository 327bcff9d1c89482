-- Structured sparsity on the host: what is kept, and the bits that say so, against plain Lua.
local tc = require "tcmma"

local message = require "helper".message

local function text(x) return x ~= x and "nan" or ("%a"):format(x) end

-- Which units of a group of numbers stay: by magnitude, of equal ones the first.
local function kept_units(row, first, units, size, keep)
  local order = {}
  for u = 0, units - 1 do
    local sum = 0
    for i = 1, size do sum = sum + math.abs(row[first + u * size + i]) end
    order[u + 1] = { unit = u, size = sum ~= sum and math.huge or sum }
  end
  table.sort(order, function(a, b)
    if a.size ~= b.size then return a.size > b.size end
    return a.unit < b.unit
  end)
  local kept = {}
  for i = 1, keep do kept[i] = order[i].unit end
  table.sort(kept)
  return kept
end

local patterns = {
  ["2:4"] = { units = 4, size = 1, keep = 2 },
  ["4:8"] = { units = 4, size = 2, keep = 2 },
  ["1:2"] = { units = 2, size = 1, keep = 1 },
}

-- Lane, 32-bit column and bit of the nibble of logical element k of row m, in the tensor memory of one array.
local function place(dtype, pattern, m, k)
  if pattern == "4:8" then return m, k // 64, k % 64 // 2 end
  if dtype == "f16" or dtype == "bf16" then
    return 16 * (m // 16) + 8 * (k % 32 // 16) + m % 8, k // 32, 16 * (m // 8 % 2) + k % 16
  end
  if pattern == "1:2" then
    return 16 * (m // 16) + 8 * (k % 16 // 8) + m % 8, k // 16, 16 * (m // 8 % 2) + 2 * (k % 8)
  end
  return m, k // 32, k % 32
end

local function nibble_at(words, dtype, pattern, row, k)
  local lane, column, bit = place(dtype, pattern, row % 128, k)
  return words[row // 128 + 1][column // 4 + 1][lane + 1][column % 4 + 1] >> bit & 15
end

-- The metadata as the 32-bit words of tensor memory: [tile of rows][tile of 4 columns][lane][column].
local function words_of(metadata) return metadata:view("u32"):totable() end

local function check(a, dtype, name, axis)
  local pattern = patterns[name]
  local values, metadata = tc.sparsify(a, { pattern = name, axis = axis })
  assert.equal(tc.u2, metadata.dtype)
  local source, got, words = a:totable(), values:totable(), words_of(metadata)
  local back = tc.densify(values, metadata, { pattern = name, axis = axis }):totable()
  local function at(list, r, k)
    if axis == 0 then return list[k + 1][r + 1] end
    return list[r + 1][k + 1]
  end
  local rows, length = a.shape[axis == 0 and 2 or 1], a.shape[axis == 0 and 1 or 2]
  local span = pattern.units * pattern.size
  assert.same({ (rows + 127) // 128, (length // span * 2 + 63) // 64, 128, 64 }, metadata.shape)
  for r = 0, rows - 1 do
    local row = {}
    for k = 0, length - 1 do row[k + 1] = at(source, r, k) end
    for first = 0, length - 1, span do
      local kept = kept_units(row, first, pattern.units, pattern.size, pattern.keep)
      local stays = {}
      for slot, unit in ipairs(kept) do
        for i = 0, pattern.size - 1 do
          local k = first + unit * pattern.size + i
          stays[k] = true
          local stored = at(got, r, first // 2 + (slot - 1) * pattern.size + i)
          if text(stored) ~= text(row[k + 1]) then
            error(("row %d, k %d: %s kept, expected %s"):format(r, k, text(stored), text(row[k + 1])))
          end
        end
      end
      local nibble = nibble_at(words, dtype, name, r, first)
      local expected = pattern.keep == 1 and (kept[1] == 0 and 4 or 14) or kept[1] | kept[2] << 2
      if nibble ~= expected then error(("row %d, k %d: nibble %d, expected %d"):format(r, first, nibble, expected)) end
      for k = first, first + span - 1 do
        if text(at(back, r, k)) ~= text(stays[k] and row[k + 1] or 0.0) and at(back, r, k) ~= row[k + 1] then
          error(("row %d, k %d: %s came back"):format(r, k, text(at(back, r, k))))
        end
        if not stays[k] then assert.equal(0, at(back, r, k)) end
      end
    end
  end
end

local cases = {
  { "f16", "2:4" }, { "bf16", "2:4" }, { "e4m3", "2:4" }, { "e5m2", "2:4" }, { "e2m3", "2:4" }, { "e3m2", "2:4" },
  { "i8", "2:4" }, { "u8", "2:4" }, { "e2m1", "2:4" }, { "e2m1", "4:8" }, { "f32", "1:2" }, { "tf32", "1:2" },
}

for _, case in ipairs(cases) do
  local dtype, name = case[1], case[2]
  it(("sparse %s, %s"):format(dtype, name), function()
    local make = tc[dtype].kind == "float" and tc.randn or function(shape, t, o)
      return tc.randint(shape, t, { seed = o.seed, low = t == tc.i8 and -128 or 0, high = 128 })
    end
    check(make({ 130, 136 }, tc[dtype], { seed = 1, std = 3 }), dtype, name)
    check(make({ 128, 256 }, tc[dtype], { seed = 2, std = 3 }), dtype, name)
    check(make({ 64, 130 }, tc[dtype], { seed = 3, std = 3 }), dtype, name, 0)
  end)
end

describe("format_sparse_metadata", function()
  for _, case in ipairs(cases) do
    local dtype, name = case[1], case[2]
    it(("is what sparsify makes of the same positions: %s, %s"):format(dtype, name), function()
      local pattern, rows, length = patterns[name], 130, 256
      local a = tc[dtype].kind == "float" and tc.randn({ rows, length }, tc[dtype], { seed = 5, std = 3 })
        or tc.randint({ rows, length }, tc[dtype], { seed = 5, high = 100 })
      local source, positions = a:totable(), {}
      for r, row in ipairs(source) do
        positions[r] = {}
        for first = 0, length - 1, pattern.units * pattern.size do
          local kept = kept_units(row, first, pattern.units, pattern.size, pattern.keep)
          positions[r][#positions[r] + 1] = pattern.keep == 1 and { 2 * kept[1], 2 * kept[1] + 1 } or kept
        end
      end
      local _, metadata = tc.sparsify(a, { pattern = name })
      assert.is_true(tc.format_sparse_metadata(tc.from_table(positions, tc.u2), dtype):equal(metadata))
    end)
  end

  local function refuses(expected, positions, dtype)
    local got = message(tc.format_sparse_metadata, positions, dtype)
    assert.equal(expected, got:match "^[^\n]*:%d+: ([^\n]*)")
  end

  it("refuses what is no pair of positions", function()
    local pairs_of = {}
    for i = 1, 128 * 32 do pairs_of[2 * i - 1], pairs_of[2 * i] = 1, 3 end
    local good = tc.from_table(pairs_of, tc.u2, { 128, 32, 2 })
    assert.is_true(pcall(tc.format_sparse_metadata, good, tc.f16))
    refuses("bad argument #1 to 'format_sparse_metadata' (a pair of positions in u2[128, 32, 2] is neither 0, 1 (the "
      .. "first of two is kept) nor 2, 3)", good, tc.f32)
    refuses("bad argument #1 to 'format_sparse_metadata' (a pair of positions in u2[128, 32, 2] is one position twice)",
      good:copy():set(127, 31, 1, 1), tc.f16)
    refuses("Expected metadata dtype to be uint2, got: uint8", tc.zeros({ 128, 32, 2 }, tc.u8), tc.f16)
    refuses("Expected metadata to be 3-dimensional (M, K // 4, 2), but it is 4D", tc.zeros({ 1, 1, 128, 64 }, tc.u2),
      tc.f16)
    refuses("Expected the trailing dimension of the metadata to be 2, got: 4", tc.zeros({ 128, 32, 4 }, tc.u2), tc.f16)
    refuses("Sparse metadata format not implemented for operand_dtype=int32", tc.zeros({ 128, 32, 2 }, tc.u2), tc.i32)
  end)
end)

describe("sparsify", function()
  it("knows the pattern of each type", function()
    for _, case in ipairs { { "f16", 32 }, { "e4m3", 32 }, { "i8", 32 }, { "f32", 64 }, { "e2m1", 16 } } do
      local _, metadata = tc.sparsify(tc.zeros({ 128, 64 * 64 }, tc[case[1]]))
      assert.same({ 1, case[2], 128, 64 }, metadata.shape)
    end
  end)

  it("of equal magnitudes keeps the first, of NaNs all it can", function()
    local a = tc.from_table({ { 0, 0, 0, 0, -1, 1, -1, 1, 0, 3, 0, 3, 0 / 0, 5, 6, 0 / 0, -0.0, 0, 2, 0 } }, tc.f16)
    local values, metadata = tc.sparsify(a)
    local got = values:totable()[1]
    for i, x in ipairs { 0.0, 0.0, -1.0, 1.0, 3.0, 3.0, 0 / 0, 0 / 0, -0.0, 2.0 } do
      assert.equal(text(x), text(got[i]))
    end
    local words = words_of(metadata)
    for group, nibble in ipairs { 4, 4, 13, 12, 8 } do
      assert.equal(nibble, nibble_at(words, "f16", "2:4", 0, 4 * (group - 1)))
    end
  end)

  it("the least int8 has the greatest magnitude", function()
    local values = tc.sparsify(tc.from_table({ { 127, -128, 127, 127 } }, tc.i8))
    assert.same({ 127, -128 }, values:totable()[1])
  end)

  it("fills the metadata beyond the array with a legal nibble", function()
    for _, case in ipairs { { "f16", 4 }, { "f32", 4 }, { "e4m3", 4 }, { "e2m1", 4 } } do
      local _, metadata = tc.sparsify(tc.zeros({ 3, 16 }, tc[case[1]]))
      for _, word in ipairs(metadata:view("u32"):reshape({ -1 }):totable()) do assert.equal(0x44444444, word) end
    end
  end)

  it("refuses what it cannot do", function()
    local a = tc.zeros({ 128, 64 }, tc.f16)
    assert.matches("dimension 1 of f16%[128, 66%] is no multiple of the 4 elements of a group of the pattern 2:4",
      message(tc.sparsify, tc.zeros({ 128, 66 }, tc.f16)))
    assert.matches("dimension 0 of e2m1%[4, 64%] is no multiple of the 8 elements of a group of the pattern 4:8",
      message(tc.sparsify, tc.zeros({ 4, 64 }, tc.e2m1), { axis = 0 }))
    assert.matches('sparse float16 has the pattern "2:4", got "4:8"', message(tc.sparsify, a, { pattern = "4:8" }))
    assert.matches('sparse float4_e2m1fn has the pattern "4:8" or "2:4", got "1:2"', message(tc.sparsify,
      tc.zeros({ 128, 64 }, tc.e2m1), { pattern = "1:2" }))
    assert.matches("no mma has sparse operands of float64", message(tc.sparsify, tc.zeros({ 128, 64 }, tc.f64)))
    assert.matches("a matrix expected, got f16%[64%]", message(tc.sparsify, tc.zeros({ 64 }, tc.f16)))
    local values, metadata = tc.sparsify(a)
    assert.matches("the metadata of f16%[128, 64%] with the pattern 2:4 is u2%[1, 1, 128, 64%], got u2%[128, 64%]",
      message(tc.densify, a, metadata:reshape({ 128, 64 })))
    assert.matches("a nibble of the metadata selects one position twice", message(tc.densify, values,
      tc.zeros({ 1, 1, 128, 64 }, tc.u2)))
    assert.matches("a nibble of the metadata is neither 4 nor 14", message(tc.densify, tc.zeros({ 128, 32 }, tc.f32),
      tc.full({ 1, 1, 128, 64 }, 1, tc.u2)))
    assert.matches("is no result of sparsify with the pattern 2:4", message(tc.densify, tc.zeros({ 128, 3 }, tc.f16),
      metadata))
  end)
end)

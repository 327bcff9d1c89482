-- mma.sync with sparse A, narrow integers, single bits and f64: results are those of plain integer arithmetic, the
-- fragments and the metadata laid out as the ISA says.  The GPU, where there is one, is held to the same.
local tc = require "tcmma"
local small = require "small_values"
local float, integer, sequence = small.float, small.integer, small.sequence

local DEVICE = os.getenv "TCMMA_DEVICE" or "cuda:0"

-- bits, code of a value, least and greatest value used
local types = {
  f16 = { 16, float(5, 10), -8, 8 }, bf16 = { 16, float(8, 7), -8, 8 }, tf32 = { 32, float(8, 23), -8, 8 },
  e4m3 = { 8, float(4, 3), -8, 8 }, e5m2 = { 8, float(5, 2), -4, 4 }, s8 = { 8, integer(8), -128, 127 },
  u8 = { 8, integer(8), 0, 255 }, s4 = { 4, integer(4), -8, 7 }, u4 = { 4, integer(4), 0, 15 }, b1 = { 1, integer(1),
    0, 1 },
}

-- Registers of a warp: words[lane][register].
local function registers(count)
  local words = {}
  for lane = 0, 31 do
    words[lane] = {}
    for r = 0, count - 1 do words[lane][r] = 0 end
  end
  return words
end

local function put(words, lane, position, bits, code)
  local r = position * bits // 32
  words[lane][r] = words[lane][r] | code << position * bits % 32
end

-- The fragment of a matrix of `rows` (8 or 16) rows; element(row, k) is its value.
local function fragment(rows, k, type, element)
  local bits, code = table.unpack(types[type])
  local per, halves = 32 // bits, rows // 8
  local count = k // (4 * per) * halves
  local words = registers(count)
  for lane = 0, 31 do
    for r = 0, count - 1 do
      for e = 0, per - 1 do
        local row = lane // 4 + 8 * (r % halves)
        local at = per * (lane % 4) + e + 4 * per * (r // halves)
        put(words, lane, r * per + e, bits, code(element(row, at)))
      end
    end
  end
  return words, count
end

-- Which thread of a quad holds the metadata of a row's group, and where in its word.
local function metadata_place(bits, groups, selector, row, group)
  if bits <= 8 then return 2 * selector + row // 8 + group // 8 * 2, 4 * (group % 8) end
  if groups <= 4 then return selector, 16 * (row // 8) + 4 * group end
  return 2 * selector + group // 4, 16 * (row // 8) + 4 * (group % 4)
end

-- What a kernel with this instruction leaves: D as words[lane][register].
local function run(o)
  local text = { ([[
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
 .reg .b64 %%rd<8>; .reg .b32 %%r<64>; .reg .f64 %%fd<32>;
 ld.param.u64 %%rd1, [in]; cvta.to.global.u64 %%rd1, %%rd1;
 ld.param.u64 %%rd2, [out]; cvta.to.global.u64 %%rd2, %%rd2;
 mov.u32 %%r0, %%tid.x;
 mad.wide.u32 %%rd1, %%r0, %d, %%rd1;
 mad.wide.u32 %%rd2, %%r0, %d, %%rd2;]]):format(o.wide and 256 or 128, o.wide and 64 or 32) }
  local names, at, register, bytes, kind = {}, 0, o.wide and "%fd" or "%r", o.wide and 8 or 4, o.wide and "f64" or "b32"
  for _, count in ipairs(o.counts) do
    local list = {}
    for i = 1, count do
      list[i] = register .. at + i
      text[#text + 1] = (" ld.global.%s %s, [%%rd1+%d];"):format(kind, list[i], bytes * (at + i - 1))
    end
    at = at + count
    names[#names + 1] = "{" .. table.concat(list, ",") .. "}"
  end
  local d = {}
  for i = 1, o.results do d[i] = register .. (o.wide and 24 or 50) + i - 1 end
  local tail = ""
  if o.selector then
    text[#text + 1] = (" ld.global.b32 %%r40, [%%rd1+%d];"):format(4 * at)
    tail = ", %r40, " .. o.selector
  end
  text[#text + 1] = (" %s {%s}, %s%s;"):format(o.mnemonic, table.concat(d, ","), table.concat(names, ", "), tail)
  for i = 1, o.results do text[#text + 1] = (" st.global.%s [%%rd2+%d], %s;"):format(kind, bytes * (i - 1), d[i]) end
  text[#text + 1] = " ret;\n}"
  local values = {}
  for lane = 0, 31 do
    local list = {}
    for _, words in ipairs(o.words) do
      for r = 0, #words[lane] do list[#list + 1] = words[lane][r] end
    end
    for i = 1, 32 do values[32 * lane + i] = list[i] or 0 end
  end
  local dtype = o.wide and tc.f64 or tc.i32
  for i, value in ipairs(values) do
    if not o.wide and value >= 1 << 31 then values[i] = value - (1 << 32) end
  end
  local kernel = tc.ptx(table.concat(text, "\n")):kernel "k"
  if o.device then
    local input = tc.zeros({ 1024 }, dtype, { device = o.device })
    input:copy_from(tc.from_table(values, dtype))
    local out = tc.zeros({ 32, 8 }, dtype, { device = o.device })
    kernel:launch { block = { 32 }, args = { input, out } }
    return out:totable()
  end
  local out = tc.zeros({ 32, 8 }, dtype)
  local report = kernel:emulate { block = { 32 }, args = { tc.from_table(values, dtype), out } }
  assert.is_true(report.completed, report:text())
  return out:totable()
end

-- Elements of D as the fragments of f32, s32 and f16 pairs hold them.
local function result(words, half, lane, i)
  local word = words[lane + 1][(half and i // 2 or i) + 1]
  if not half then return word end
  local code = word >> 16 * (i % 2) & 0xffff
  local exponent, fraction = code >> 10 & 31, code & 0x3ff
  local value = exponent == 0 and fraction * 2.0 ^ -24 or (1 + fraction / 1024) * 2.0 ^ (exponent - 15)
  return code >> 15 == 1 and -value or value
end

local function as_float(word) return (string.unpack("<f", string.pack("<i4", word))) end

-- o: rows, k, a, b, d, sparse, ordered, selector, saturate, operation, scale of C
local function check(o)
  local random = sequence(o.seed or 7)
  local span = ({ [32] = 2, [4] = 8 })[types[o.a][1]] or 4
  local unit, groups = span == 8 and 2 or 1, o.sparse and o.k // span or 0
  local a, b, c, stored, nibbles = {}, {}, {}, {}, {}
  local _, _, low, high = table.unpack(types[o.a])
  local low_b, high_b = types[o.b][3], types[o.b][4]
  if o.saturate then low, low_b = high // 2, high_b // 2 end
  for row = 0, o.rows - 1 do
    a[row], stored[row], nibbles[row] = {}, {}, {}
    for k = 0, o.k - 1 do a[row][k] = o.sparse and 0 or random(low, high) end
    for group = 0, groups - 1 do
      local first = random(0, span == 2 and 1 or 2)
      local second = span == 2 and first or random(first + 1, 3)
      nibbles[row][group] = span == 2 and (first == 0 and 4 or 14) or first | second << 2
      for n, place in ipairs(span == 2 and { first } or { first, second }) do
        for e = 0, unit - 1 do
          local value = random(low, high)
          a[row][group * span + place * unit + e] = value
          stored[row][group * span // 2 + (n - 1) * unit + e] = value
        end
      end
    end
  end
  for n = 0, 7 do
    b[n] = {}
    for k = 0, o.k - 1 do b[n][k] = random(low_b, high_b) end
  end
  for row = 0, o.rows - 1 do
    c[row] = {}
    for n = 0, 7 do c[row][n] = o.saturate and 0x7fffff00 or random(-16, 16) end
  end
  local a_words, a_count = fragment(o.rows, o.sparse and o.k // 2 or o.k, o.a,
    function(row, k) return (o.sparse and stored or a)[row][k] end)
  local b_words, b_count = fragment(8, o.k, o.b, function(n, k) return b[n][k] end)
  local half, integers = o.d == "f16", o.d == "s32"
  local elements = o.rows // 4
  local c_words = registers(half and elements // 2 or elements)
  for lane = 0, 31 do
    for i = 0, elements - 1 do
      local value = c[lane // 4 + 8 * (i // 2)][2 * (lane % 4) + i % 2]
      put(c_words, lane, i, half and 16 or 32, half and types.f16[2](value) or integers and value & 0xffffffff
        or types.tf32[2](value))
    end
  end
  local words, selector = { a_words, b_words, c_words }, nil
  if o.sparse then
    local metadata = registers(1)
    for row = 0, o.rows - 1 do
      for group = 0, groups - 1 do
        local thread, bit = metadata_place(types[o.a][1], groups, o.selector, row, group)
        local lane = 4 * (row % 8) + thread
        metadata[lane][0] = metadata[lane][0] | nibbles[row][group] << bit
      end
    end
    words[4], selector = metadata, o.selector
  end
  local mnemonic = ("mma%s.sync.aligned.m%dn8k%d.row.col%s.%s.%s.%s.%s%s"):format(
    o.sparse and (o.ordered and ".sp::ordered_metadata" or ".sp") or "", o.rows, o.k, o.saturate and ".satfinite" or "",
    o.d, o.a, o.b, o.d, o.operation and "." .. o.operation .. ".popc" or "")
  local got = run { mnemonic = mnemonic, words = words, selector = selector, device = o.device,
    counts = { a_count, b_count, half and elements // 2 or elements }, results = half and elements // 2 or elements }
  for lane = 0, 31 do
    for i = 0, elements - 1 do
      local row, n = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
      local sum = c[row][n]
      for k = 0, o.k - 1 do
        local x, y = a[row][k], b[n][k]
        sum = sum + (o.operation == "xor" and x ~ y or x * y)
      end
      if o.saturate then sum = math.max(math.min(sum, 0x7fffffff), -0x80000000) end
      local value = result(got, half, lane, i)
      if o.d == "f32" then value = as_float(value) end
      assert.equal(sum, value, ("%s: row %d, column %d"):format(mnemonic, row, n))
    end
  end
end

local groups = {
  ["integers of 4 bits"] = {}, ["single bits"] = {}, ["8 rows"] = {}, ["sparse A of 16-bit floats"] = {},
  ["sparse A of tf32"] = {}, ["sparse A of 8 bits"] = {}, ["sparse A of 4 bits"] = {}, ["saturation"] = {},
}

local function add(group, o) table.insert(groups[group], o) end
for _, pair in ipairs { { "s4", "s4" }, { "u4", "s4" }, { "s4", "u4" }, { "u4", "u4" } } do
  for _, k in ipairs { 32, 64 } do
    add("integers of 4 bits", { rows = 16, k = k, a = pair[1], b = pair[2], d = "s32" })
    for selector = 0, 1 do
      add("sparse A of 4 bits", { rows = 16, k = 64, a = pair[1], b = pair[2], d = "s32", sparse = true,
        selector = selector, ordered = k == 64 })
    end
  end
  add("8 rows", { rows = 8, k = 32, a = pair[1], b = pair[2], d = "s32" })
  add("sparse A of 4 bits", { rows = 16, k = 128, a = pair[1], b = pair[2], d = "s32", sparse = true, selector = 0 })
end
for _, operation in ipairs { "and", "xor" } do
  for _, k in ipairs { 128, 256 } do
    add("single bits", { rows = 16, k = k, a = "b1", b = "b1", d = "s32", operation = operation })
  end
  add("8 rows", { rows = 8, k = 128, a = "b1", b = "b1", d = "s32", operation = operation })
end
for _, pair in ipairs { { "s8", "u8" }, { "u8", "u8" }, { "s8", "s8" }, { "u8", "s8" } } do
  add("8 rows", { rows = 8, k = 16, a = pair[1], b = pair[2], d = "s32" })
  for selector = 0, 1 do
    add("sparse A of 8 bits", { rows = 16, k = 32, a = pair[1], b = pair[2], d = "s32", sparse = true,
      selector = selector })
  end
  add("sparse A of 8 bits", { rows = 16, k = 64, a = pair[1], b = pair[2], d = "s32", sparse = true, selector = 0,
    ordered = true })
end
for _, pair in ipairs { { "e4m3", "e4m3" }, { "e5m2", "e4m3" }, { "e4m3", "e5m2" } } do
  add("sparse A of 8 bits", { rows = 16, k = 64, a = pair[1], b = pair[2], d = "f32", sparse = true, selector = 0 })
end
for selector = 0, 3 do
  add("sparse A of 16-bit floats", { rows = 16, k = 16, a = "f16", b = "f16", d = "f32", sparse = true,
    selector = selector })
  add("sparse A of 16-bit floats", { rows = 16, k = 16, a = "bf16", b = "bf16", d = "f32", sparse = true,
    selector = selector, ordered = true })
  add("sparse A of tf32", { rows = 16, k = 8, a = "tf32", b = "tf32", d = "f32", sparse = true, selector = selector })
end
for selector = 0, 1 do
  for _, d in ipairs { "f16", "f32" } do
    add("sparse A of 16-bit floats", { rows = 16, k = 32, a = "f16", b = "f16", d = d, sparse = true,
      selector = selector })
  end
  add("sparse A of tf32", { rows = 16, k = 16, a = "tf32", b = "tf32", d = "f32", sparse = true, selector = selector,
    ordered = true })
end
add("saturation", { rows = 16, k = 64, a = "s4", b = "s4", d = "s32", saturate = true })
add("saturation", { rows = 16, k = 32, a = "u8", b = "u8", d = "s32", saturate = true })
add("saturation", { rows = 16, k = 64, a = "s8", b = "s8", d = "s32", saturate = true, sparse = true, selector = 0 })

local function check_double(rows, k, device)
  local random, halves = sequence(rows + k), rows // 8
  local a, b, c = {}, {}, {}
  for row = 0, 15 do
    a[row], b[row], c[row] = {}, {}, {}
    for i = 0, 15 do a[row][i], b[row][i], c[row][i] = random(-99, 99), random(-99, 99), random(-99, 99) end
  end
  local words = { {}, {}, {} }
  for lane = 0, 31 do
    local g, q = lane // 4, lane % 4
    for m = 1, 3 do words[m][lane] = {} end
    for i = 0, k // 4 * halves - 1 do words[1][lane][i] = a[g + 8 * (i % halves)][q + 4 * (i // halves)] + 0.0 end
    for i = 0, k // 4 - 1 do words[2][lane][i] = b[g][q + 4 * i] + 0.0 end
    for i = 0, 2 * halves - 1 do words[3][lane][i] = c[g + 8 * (i // 2)][2 * q + i % 2] + 0.0 end
  end
  local got = run { mnemonic = ("mma.sync.aligned.m%dn8k%d.row.col.f64.f64.f64.f64"):format(rows, k), words = words,
    counts = { k // 4 * halves, k // 4, 2 * halves }, results = 2 * halves, wide = true, device = device }
  for lane = 0, 31 do
    for i = 0, 2 * halves - 1 do
      local row, n = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
      local sum = c[row][n]
      for j = 0, k - 1 do sum = sum + a[row][j] * b[n][j] end
      assert.equal(sum, got[lane + 1][i + 1])
    end
  end
end

-- Four products of 8 x 8 x 4, each of the lanes 4p to 4p + 3 and the same 16 further on.
local function check_quads(a_order, b_order, d, c_type, device)
  local random = sequence(#a_order + #d)
  local a, b, c = {}, {}, {}
  for quad = 0, 3 do
    a[quad], b[quad], c[quad] = {}, {}, {}
    for i = 0, 7 do
      a[quad][i], b[quad][i], c[quad][i] = {}, {}, {}
      for j = 0, 7 do a[quad][i][j], b[quad][i][j], c[quad][i][j] = random(-8, 8), random(-8, 8), random(-8, 8) end
    end
  end
  local function place(type, lane, i)
    local high = lane // 16 * 4
    if type == "f16" then return lane % 4 + high, i end
    return (lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)
  end
  local words = { registers(2), registers(2), registers(c_type == "f16" and 4 or 8) }
  for lane = 0, 31 do
    local quad, high = lane // 4 % 4, lane // 16 * 4
    for i = 0, 3 do
      local m, k = lane % 4 + high, i
      if a_order == "col" then m, k = i + high, lane % 4 end
      put(words[1], lane, i, 16, types.f16[2](a[quad][m][k]))
      local n, kb = lane % 4 + high, i
      if b_order == "row" then n, kb = i + high, lane % 4 end
      put(words[2], lane, i, 16, types.f16[2](b[quad][n][kb]))
    end
    for i = 0, 7 do
      local m, n = place(c_type, lane, i)
      put(words[3], lane, i, c_type == "f16" and 16 or 32, (c_type == "f16" and types.f16
        or types.tf32)[2](c[quad][m][n]))
    end
  end
  local got = run { mnemonic = ("mma.sync.aligned.m8n8k4.%s.%s.%s.f16.f16.%s"):format(a_order, b_order, d, c_type),
    words = words, counts = { 2, 2, c_type == "f16" and 4 or 8 }, results = d == "f16" and 4 or 8, device = device }
  for lane = 0, 31 do
    for i = 0, 7 do
      local quad, m, n = lane // 4 % 4, place(d, lane, i)
      local sum = c[quad][m][n]
      for k = 0, 3 do sum = sum + a[quad][m][k] * b[quad][n][k] end
      local value = result(got, d == "f16", lane, i)
      assert.equal(sum, d == "f16" and value or as_float(value))
    end
  end
end

local function all(device, it_or_pending)
  for name, cases in pairs(groups) do
    it_or_pending(name, function()
      for i, case in ipairs(cases) do
        case.seed, case.device = i, device
        check(case)
      end
    end)
  end
  it_or_pending("f64", function()
    check_double(8, 4, device)
    for _, k in ipairs { 4, 8, 16 } do check_double(16, k, device) end
  end)
  it_or_pending("four products of a warp", function()
    for _, a in ipairs { "row", "col" } do
      for _, b in ipairs { "row", "col" } do
        check_quads(a, b, "f16", "f16", device)
        check_quads(a, b, "f32", "f32", device)
      end
    end
    check_quads("row", "col", "f32", "f16", device)
  end)
end

describe("mma.sync:", function()
  all(nil, it)

  it("metadata that names a place twice is a fault", function()
    local words = { registers(2), registers(2), registers(4), registers(1) }
    local ok, message = pcall(run, { mnemonic = "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", words = words,
      counts = { 2, 2, 4 }, results = 4, selector = 0 })
    assert.is_false(ok)
    assert.matches("a metadata nibble of row 0 selects no two different elements", tostring(message), 1, true)
  end)
end)

describe("mma.sync on a GPU #gpu:", function()
  local device = tc.device(DEVICE)
  all(device, device and it or pending)
end)

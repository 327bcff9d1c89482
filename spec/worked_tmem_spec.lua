-- The worked examples of tensor memory run as PTX: lanes and columns of D and A, fragments of ld and st,
-- scale factors.  Numbers in tables are those of the documents.
local tc = require "tcmma"
local worked = require "worked_tables"

local BASE, NAN, fill = worked.BASE, worked.NAN, worked.fill
local f32, new_image = worked.f32, worked.new_image
local put_identity, put_row, IDENTITY_AT = worked.put_identity, worked.put_row, worked.IDENTITY_AT
local IDENTITY, ROWS = worked.IDENTITY, worked.ROWS
local tensor_memory, mma, KINDS = worked.tensor_memory, worked.mma, worked.KINDS

-- ---- D and A in tensor memory -----------------------------------------------------------------------

-- A[m] = (m, 1, 0 ..), B[n] = (1, 256 n, 0 ..): D[m][n] = m + 256 n names its place.
local function named_images(group, m_count, n_count, b_units)
  local images = {}
  for c = 0, group - 1 do
    images[c + 1] = new_image()
    for m = 0, m_count // group - 1 do put_row(images[c + 1], 0, m, 2, { c * m_count // group + m, 1 }, "f16") end
    for n = 0, n_count // group - 1 do
      put_row(images[c + 1], IDENTITY_AT, n, b_units, { 1, 256 * (c * n_count // group + n) }, "f16")
    end
  end
  return images
end

-- place(m, n) -> cta, lane, column as the table has it; examples: m, n, cta, lane, column.
local LAYOUTS = {
  { name = "A: a pair, M 256", group = 2, m = 256, n = 64,
    place = function(m, n) return m // 128, m % 128, n end,
    { 130, 0, 1, 2, 0 }, { 130, 63, 1, 2, 63 } },
  { name = "B: a pair, M 128", group = 2, m = 128, n = 256,
    place = function(m, n) return m // 64, m % 64 + (n >= 128 and 64 or 0), n % 128 end,
    { 70, 200, 1, 70, 72 } },
  { name = "D: M 128", m = 128, n = 256, place = function(m, n) return 0, m, n end, { 77, 200, 0, 77, 200 } },
  { name = "D: .ws, M 128", ws = true, m = 128, n = 128, place = function(m, n) return 0, m, n end,
    { 77, 100, 0, 77, 100 } },
  { name = "E: .ws, M 64", ws = true, m = 64, n = 128,
    place = function(m, n) return 0, m + (n >= 64 and 64 or 0), n % 64 end, { 5, 70, 0, 69, 6 } },
  { name = "F: M 64", m = 64, n = 256, place = function(m, n) return 0, m % 16 + 32 * (m // 16), n end,
    { 37, 0, 0, 69, 0 }, { 37, 255, 0, 69, 255 } },
  { name = "F: M 64 from lane 16", m = 64, n = 40, lane = 16,
    place = function(m, n) return 0, 16 + m % 16 + 32 * (m // 16), n end, { 37, 3, 0, 85, 3 } },
  { name = "G: .ws, M 32", ws = true, m = 32, n = 64,
    place = function(m, n) return 0, m + 32 * (n // 16), n % 16 end, { 5, 33, 0, 69, 1 } },
}

local function check_layout(layout, cells)
  for _, example in ipairs(layout) do
    local m, n, cta, lane, column = table.unpack(example)
    assert.equal(m + 256 * n, f32(cells[cta][lane][column]))
  end
  for m = 0, layout.m - 1 do
    for n = 0, layout.n - 1 do
      local cta, lane, column = layout.place(m, n)
      if f32(cells[cta][lane][column]) ~= m + 256 * n then
        error(("D(%d, %d) is not at CTA %d lane %d column %d"):format(m, n, cta, lane, column))
      end
      cells[cta][lane][column] = NAN
    end
  end
  for cta, lanes in pairs(cells) do
    for lane, row in pairs(lanes) do
      for column = 0, 255 do
        if row[column] ~= NAN then error(("CTA %d lane %d column %d was written"):format(cta, lane, column)) end
      end
    end
  end
end

describe("the accumulator in tensor memory, layout", function()
  for _, layout in ipairs(LAYOUTS) do
    it(layout.name, function()
      local group = layout.group or 1
      check_layout(layout, tensor_memory { group = group, images = named_images(group, layout.m, layout.n, 2),
        issue = mma { a = ROWS, b = IDENTITY, d = (layout.lane or 0) << 16, ws = layout.ws, group = group,
          kind = "f16", idesc = 0x10 | layout.m >> 4 << 24 | layout.n >> 3 << 17 } })
    end)
  end

  -- every nibble of the metadata keeps elements 0 and 1 of its four
  it("C: a pair, M 128, sparse", function()
    local layout = { m = 128, n = 64, place = function(m, n)
      local mu = m % 64
      return m // 64, mu % 16 + 32 * (mu // 16), n
    end }
    check_layout(layout, tensor_memory { group = 2, images = named_images(2, 128, 64, 4),
      setup = "mov.b32 %r20, 0x44444444;\n tcgen05.st.sync.aligned.32x32b.x2.b32 [%r7+256], {%r20,%r20};",
      issue = fill("mov.b64 %rd10, $a;\n mov.b64 %rd11, $b;\n add.u32 %r20, %r6, 256;\n"
        .. "tcgen05.mma.sp.cta_group::2.kind::f16 [%r6], %rd10, %rd11, [%r20], $idesc, 0;",
        { a = ROWS, b = 0x402000080000 | (BASE + IDENTITY_AT) >> 4, idesc = 0x14 | 8 << 24 | 8 << 17 }) })
  end)
end)

-- A's words (8 columns a lane) lie in the image, 32 bytes a lane; all threads store their lane's.
local STORE_A = {}
for c = 0, 7 do STORE_A[c + 1] = ("ld.shared.b32 %%v%d, [%%r20+%d];"):format(c, 4 * c) end
STORE_A = "mad.lo.u32 %r20, %r0, 32, %r3;\n" .. table.concat(STORE_A, "\n")
  .. "\n tcgen05.st.sync.aligned.32x32b.x8.b32 [%r7+256], {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7};"

local function put_words(image, lane, values, dtype)
  local bits = tc.dtype(dtype).bits
  for k, value in ipairs(values) do
    local at = lane * 32 + (k - 1) * bits // 8
    if bits == 4 then
      image.bytes[at] = (image.bytes[at] or 0) | tc.dtype(dtype):encode(value) << 4 * ((k - 1) % 2)
    else
      image:put(at, value, dtype)
    end
  end
end

local FP4 = { [0] = 0, 0.5, 1, 1.5, 2, 3, 4, 6 }

describe("A in tensor memory", function()
  local function row(m, count, value)
    local list = {}
    for k = 0, count - 1 do list[k + 1] = value(m, k) end
    return list
  end

  -- elements of a column: 32 / bits, the lowest k in the low bits
  for _, case in ipairs {
    { "f16: column k / 2, half k % 2", "f16", 128, 0, function(m, k) return 16 * m + k end },
    { "8-bit: column k / 4, byte k % 4", "e4m3", 128, 0, function(m, k) return (5 * m + k) % 17 end },
    { "tf32: column k", "tf32", 128, 0, function(m, k) return 8 * m + k end },
    { "f16, M 64: layout F", "f16", 64, 0, function(m, k) return 16 * m + k end },
    { "f16, M 64: layout F from lane 16", "f16", 64, 16, function(m, k) return 16 * m + k end },
  } do
    local name, dtype, m_count, lane, value = table.unpack(case)
    it(name, function()
      local kind, image = KINDS[dtype], new_image()
      local function lane_of(m) return m_count == 64 and lane + m % 16 + 32 * (m // 16) or m end
      for m = 0, m_count - 1 do put_words(image, lane_of(m), row(m, kind.k, value), dtype) end
      put_identity(image, IDENTITY_AT, dtype, kind.k)
      local cells = tensor_memory { image = image, setup = STORE_A,
        issue = fill("mov.b64 %rd11, $b;\n add.u32 %r20, %r6, $d;\n"
          .. "tcgen05.mma.cta_group::1.kind::$kind [%r20], [%r20+256], %rd11, $idesc, 0;",
          { b = IDENTITY, d = lane << 16, kind = kind.kind,
            idesc = kind.idesc | m_count >> 4 << 24 | kind.k >> 3 << 17 }) }
      for m = 0, m_count - 1 do
        for k = 0, kind.k - 1 do assert.equal(value(m, k), f32(cells[0][lane_of(m)][k])) end
      end
    end)
  end

  it("mxf4: 8 nibbles a column, the lowest k in the low bits", function()
    local image = new_image()
    local function value(m, k) return FP4[(3 * m + k) % 8] end
    for m = 0, 127 do put_words(image, m, row(m, 64, value), "e2m1") end
    for n = 0, 63 do -- an identity of 64 rows of 32 bytes, two elements a byte; 2 is the code of 1
      local at = IDENTITY_AT + n % 8 * 16 + n // 8 * 256 + n // 32 * 128 + n % 32 // 2
      image.bytes[at] = 2 << 4 * (n % 2)
    end
    local cells = tensor_memory { image = image,
      setup = STORE_A .. [[

 mov.b32 %r20, 0x7f7f7f7f;
 tcgen05.st.sync.aligned.32x32b.x4.b32 [%r7+128], {%r20,%r20,%r20,%r20};]],
      issue = fill("mov.b64 %rd11, $b;\n add.u32 %r20, %r6, 128;\n"
        .. "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X"
        .. " [%r6], [%r6+256], %rd11, $idesc, [%r20], [%r20], 0;",
        { b = IDENTITY, idesc = 0x08800480 | 64 >> 3 << 17 }) }
    for m = 0, 127 do
      for k = 0, 63 do assert.equal(value(m, k), f32(cells[0][m][k])) end
    end
  end)

  it("of a pair with M 128: each CTA's 64 rows twice", function()
    local images = {}
    for c = 0, 1 do
      images[c + 1] = new_image()
      for lane = 0, 127 do
        put_words(images[c + 1], lane, row(64 * c + lane % 64, 16, function(m, k) return 16 * m + k end), "f16")
      end
      for n = 0, 15 do put_row(images[c + 1], IDENTITY_AT, n, 2, row(n, 16, function(i, k)
        return i == k and c + 1 or 0
      end), "f16") end
    end
    local cells = tensor_memory { group = 2, images = images, setup = STORE_A,
      issue = fill("mov.b64 %rd11, $b;\n"
        .. "tcgen05.mma.cta_group::2.kind::f16 [%r6], [%r6+256], %rd11, $idesc, 0;",
        { b = IDENTITY, idesc = 0x10 | 128 >> 4 << 24 | 32 >> 3 << 17 }) }
    for m = 0, 127 do
      for n = 0, 31 do
        local cta, lane, column = m // 64, m % 64 + (n >= 16 and 64 or 0), n % 16
        assert.equal((16 * m + n % 16) * (n // 16 + 1), f32(cells[cta][lane][column]))
      end
    end
  end)
end)

-- ---- fragments of tcgen05.ld and tcgen05.st ---------------------------------------------------------

local function registers(count)
  local list = {}
  for i = 0, count - 1 do list[i + 1] = "%v" .. i end
  return "{" .. table.concat(list, ",") .. "}"
end

-- registers of .x1, lanes, columns of .x1; map(t, r) -> lane, column
local SHAPES = {
  ["32x32b"] = { 1, 32, 1, function(t, r) return t, r end },
  ["16x64b"] = { 1, 16, 2, function(t, r) return (t >> 2) + 8 * (t & 1), 2 * r + (t >> 1 & 1) end },
  ["16x128b"] = { 2, 16, 4, function(t, r) return (t >> 2) + 8 * (r & 1), 4 * (r >> 1) + (t & 3) end },
  ["16x256b"] = { 4, 16, 8, function(t, r)
    return (t >> 2) + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (t & 3) + (r & 1)
  end },
  ["16x32bx2"] = { 1, 16, 1, function(t, r) return t % 16, t < 16 and r or r + 40 end, split = ", 40" },
}

-- Column c of every lane: lane << 16 | c, in the first 256 columns.
local NUMBERED_CELLS = { "shl.b32 %r21, %r0, 16;" }
for c = 0, 255 do
  NUMBERED_CELLS[#NUMBERED_CELLS + 1] =
    ("add.u32 %%r20, %%r21, %d;\n tcgen05.st.sync.aligned.32x32b.x1.b32 [%%r7+%d], {%%r20};"):format(c, c)
end
NUMBERED_CELLS = table.concat(NUMBERED_CELLS, "\n") .. "\n tcgen05.wait::st.sync.aligned;"

-- What a load gives, from column 256 on: cells[lane of the thread][256 + register].
local function loaded(shape, repeats, at, pack)
  local count = SHAPES[shape][1] * repeats
  return tensor_memory { issue = "", setup = NUMBERED_CELLS .. fill([[

 tcgen05.ld.sync.aligned.$shape.x$n$pack.b32 $to, [%r7+$at]$split;
 tcgen05.wait::ld.sync.aligned;
 tcgen05.st.sync.aligned.32x32b.x$count.b32 [%r7+256], $to;]],
    { shape = shape, n = repeats, pack = pack and ".pack::16b" or "", to = registers(count), at = at or 0,
      split = SHAPES[shape].split or "", count = count }) }[0]
end

describe("tcgen05.ld", function()
  -- shape, xN, thread, register, lane, column
  for _, row in ipairs {
    { "16x256b", 2, 5, 6, 9, 10 },
    { "16x64b", 4, 6, 3, 1, 7 },
    { "16x128b", 2, 7, 3, 9, 7 },
  } do
    local shape, repeats, t, r, lane, column = table.unpack(row)
    it(("%s.x%d: thread %d, register %d is lane %d, column %d"):format(table.unpack(row)), function()
      local cells = loaded(shape, repeats)
      for w = 0, 3 do assert.equal((32 * w + lane) << 16 | column, cells[32 * w + t][256 + r]) end
    end)
  end

  it("32x32b.x8.pack::16b: thread 3, register 5 is lane 3, columns 10 and 11", function()
    local cells = loaded("32x32b", 8, 0, true)
    for w = 0, 3 do assert.equal(11 << 16 | 10, cells[32 * w + 3][256 + 5]) end
  end)

  for shape, row in pairs(SHAPES) do
    local _, lanes, _, map = table.unpack(row)
    for _, repeats in ipairs { 1, 2, 4, 8, 16, 32, 64, 128 } do
      local count = row[1] * repeats
      if count <= 128 and row[3] * repeats <= 216 then
        it(("%s.x%d"):format(shape, repeats), function()
          for at = 0, 32 - lanes, 16 do
            local cells = loaded(shape, repeats, at << 16)
            for thread = 0, 127 do
              for r = 0, count - 1 do
                local lane, column = map(thread % 32, r)
                assert.equal((thread // 32 * 32 + at + lane) << 16 | column, cells[thread][256 + r])
              end
            end
          end
        end)
      end
    end
  end

  for _, shape in ipairs { "32x32b", "16x64b", "16x128b", "16x256b" } do
    it(shape .. ".pack::16b counts columns in halves", function()
      local row = SHAPES[shape]
      local cells = loaded(shape, 4, 0, true)
      for thread = 0, 127 do
        for r = 0, 4 * row[1] - 1 do
          local _, column = row[4](thread % 32, r)
          assert.equal(2 * column | (2 * column + 1) << 16, cells[thread][256 + r])
        end
      end
    end)
  end
end)

describe("tcgen05.st", function()
  local function stored(shape, repeats, unpack)
    local count, lines = SHAPES[shape][1] * repeats, { "shl.b32 %r21, %r0, 16;" }
    for r = 0, count - 1 do lines[#lines + 1] = ("add.u32 %%v%d, %%r21, %d;"):format(r, r) end
    lines[#lines + 1] = fill("tcgen05.st.sync.aligned.$shape.x$n$unpack.b32 [%r7]$split, $from;",
      { shape = shape, n = repeats, unpack = unpack and ".unpack::16b" or "", from = registers(count),
        split = SHAPES[shape].split or "" })
    return tensor_memory { issue = "", setup = table.concat(lines, "\n") }[0]
  end

  for shape, row in pairs(SHAPES) do
    it(shape .. " stores what ld loads", function()
      local cells, touched = stored(shape, 4), 0
      for thread = 0, 127 do
        for r = 0, 4 * row[1] - 1 do
          local lane, column = row[4](thread % 32, r)
          assert.equal(thread << 16 | r, cells[thread // 32 * 32 + lane][column])
        end
      end
      for lane = 0, 127 do
        for column = 0, 511 do touched = touched + (cells[lane][column] ~= NAN and 1 or 0) end
      end
      assert.equal(128 * 4 * row[1], touched)
    end)
  end

  it("32x32b.unpack::16b: low half to column 2c, high half to column 2c + 1", function()
    local cells = stored("32x32b", 4, true)
    for thread = 0, 127 do
      for r = 0, 3 do
        assert.equal(r, cells[thread][2 * r] & 0xffff)
        assert.equal(thread, cells[thread][2 * r + 1] & 0xffff)
      end
    end
  end)
end)

-- ---- scale factors ----------------------------------------------------------------------------------

local SF_AT = 0x7000
local SF_DESC = 0x400800000000 -- SBO 128, no swizzle

-- The worked place of factor (77, 2), and all others by the formula of the 512-byte atom.
local function factor_offset(m, s) return m % 32 * 16 + m // 32 % 4 * 4 + s % 4 end

-- Copies `atoms` atoms at SF_AT + 512 a to columns `to` + 4 a.
local function copy_factors(from, to, atoms)
  local lines = {}
  for a = 0, atoms - 1 do
    lines[a + 1] = fill("mov.b64 %rd10, $desc;\n add.u32 %r20, %r6, $to;\n"
      .. "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r20], %rd10;",
      { desc = SF_DESC | (BASE + from + 512 * a) >> 4, to = to + 4 * a })
  end
  return table.concat(lines, "\n") .. "\n"
end

describe("scale factors", function()
  it("factor (77, 2): byte 218, then lanes 13, 45, 77, 109 of column 2, bits 16 to 23", function()
    assert.equal(218, factor_offset(77, 2))
    local image = new_image()
    image.bytes[SF_AT + 218] = 0xab
    local cells = tensor_memory { image = image, issue = copy_factors(SF_AT, 0, 1) }[0]
    local places = {}
    for lane = 0, 127 do
      for column = 0, 3 do
        if cells[lane][column] ~= 0 then
          places[#places + 1] = { lane, column, cells[lane][column] }
        end
      end
      assert.equal(NAN, cells[lane][4])
    end
    assert.same({ { 13, 2, 0xab << 16 }, { 45, 2, 0xab << 16 }, { 77, 2, 0xab << 16 }, { 109, 2, 0xab << 16 } }, places)
  end)

  it("factor (77, 2) of mxf8 is used by the third mma, with SFA id 2", function()
    local image = new_image()
    for i = 0, 4095 do image.bytes[i] = 0x38; image.bytes[IDENTITY_AT + i] = 0x38 end -- 1 in e4m3
    for i = 0, 511 do image.bytes[SF_AT + i] = 127; image.bytes[SF_AT + 512 + i] = 127 end
    image.bytes[SF_AT + 218] = 129
    local issue = { copy_factors(SF_AT, 256, 1), copy_factors(SF_AT + 512, 264, 1),
      fill("mov.b64 %rd10, $a;\n mov.b64 %rd11, $b;\n add.u32 %r21, %r6, 256;\n add.u32 %r22, %r6, 264;\n",
        { a = ROWS, b = IDENTITY }) }
    for id = 0, 3 do
      issue[#issue + 1] = fill("add.u32 %r20, %r6, $d;\n tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale"
        .. " [%r20], %rd10, %rd11, $idesc, [%r21], [%r22], 0;\n",
        { d = 32 * id, idesc = 0x08800000 | 32 >> 3 << 17 | id << 29 | id << 4 })
    end
    local cells = tensor_memory { image = image, issue = table.concat(issue) }[0]
    for id = 0, 3 do
      for m = 0, 127 do
        for n = 0, 31 do
          assert.equal(id == 2 and m == 77 and 128 or 32, f32(cells[m][32 * id + n]))
        end
      end
    end
  end)

  -- Every K-group of `block` elements has its own value in A; factors are powers of two in both operands.
  local function check(case)
    local image, groups, size = new_image(), case.k // case.block, case.k // case.block
    local function value(j) return ({ [0] = 1, 0.5, 2, 4 })[j] end
    local function byte(m, j) -- all elements of a byte are of one group
      local code = tc.dtype(case.dtype):encode(value(j))
      return m >= 0 and (case.dtype == "e2m1" and code * 17 or code)
    end
    for row = 0, 255 do
      for kb = 0, 31 do
        local at = row % 8 * 16 + row // 8 * 256 + kb // 16 * 128 + kb % 16
        local j = kb * groups // 32
        if row < 128 then image.bytes[at] = byte(row, j) end
        local one = tc.dtype(case.dtype):encode(1) * (case.dtype == "e2m1" and 17 or 1)
        if row < case.n then image.bytes[IDENTITY_AT + at] = one end
      end
    end
    local function exponent(row, s) return (row * 5 + row // 32 * 3 + s * 7) % 4 end
    for row = 0, 255 do
      for s = 0, 3 do
        local code = tc.dtype(case.scale):encode(2.0 ^ exponent(row, s))
        if row < 128 then image.bytes[SF_AT + factor_offset(row, s)] = code end
        image.bytes[SF_AT + 512 + row // 128 * 512 + factor_offset(row, s)] = code
      end
    end
    for _, id in ipairs(case.ids) do
      local issue = copy_factors(SF_AT, 256, 1) .. copy_factors(SF_AT + 512, 264, (case.n + 127) // 128)
        .. fill("mov.b64 %rd10, $a;\n mov.b64 %rd11, $b;\n add.u32 %r21, %r6, 256;\n add.u32 %r22, %r6, 264;\n"
        .. "tcgen05.mma.cta_group::1.kind::$kind.block_scale.scale_vec::$vec"
        .. " [%r6], %rd10, %rd11, $idesc, [%r21], [%r22], 0;\n", { a = ROWS, b = IDENTITY, kind = case.kind,
        vec = case.vec, idesc = case.idesc | case.n >> 3 << 17 | id << 29 | id << 4 })
      local cells = tensor_memory { image = image, issue = issue }[0]
      for m = 0, 127 do
        for n = 0, case.n - 1 do
          local sum = 0
          for j = 0, size - 1 do
            sum = sum + case.block * value(j) * 2.0 ^ (exponent(m, id + j) + exponent(n, id + j))
          end
          if f32(cells[m][n]) ~= sum then
            error(("id %d, D(%d, %d) is %s, expected %s"):format(id, m, n, f32(cells[m][n]), sum))
          end
        end
      end
    end
  end

  for _, case in ipairs {
    { name = "mxf8f6f4 1X: column m / 32, byte id", kind = "mxf8f6f4", vec = "1X", dtype = "e4m3", scale = "e8m0",
      k = 32, block = 32, n = 128, ids = { 0, 1, 2, 3 }, idesc = 0x08800000 },
    { name = "mxf8f6f4 1X, N 256: columns 0 .. 7 of B", kind = "mxf8f6f4", vec = "1X", dtype = "e4m3", scale = "e8m0",
      k = 32, block = 32, n = 256, ids = { 3 }, idesc = 0x08800000 },
    { name = "mxf4 2X: bytes id, id + 1", kind = "mxf4", vec = "2X", dtype = "e2m1", scale = "e8m0",
      k = 64, block = 32, n = 128, ids = { 0, 2 }, idesc = 0x08800480 },
    { name = "mxf4nvf4 2X: bytes id, id + 1", kind = "mxf4nvf4", vec = "2X", dtype = "e2m1", scale = "e8m0",
      k = 64, block = 32, n = 64, ids = { 0, 2 }, idesc = 0x08800480 },
    { name = "mxf4nvf4 4X, ue4m3: bytes 0 .. 3", kind = "mxf4nvf4", vec = "4X", dtype = "e2m1", scale = "e4m3",
      k = 64, block = 16, n = 256, ids = { 0 }, idesc = 0x08000480 },
  } do
    it(case.name, function() check(case) end)
  end
end)

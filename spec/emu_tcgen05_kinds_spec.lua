-- The kinds of tcgen05.mma on the emulator: element types, packing, scale factors, sparsity, major-ness.
-- Every value is a small number, so that results are exact.
local tc = require "tcmma"
local frame = require "tcgen05_frame"

local BASE, A_AT, B_AT, S_AT = 0x400, 0, 16384, 28672 -- of the image in shared memory; S: scales or metadata

-- Runs `body` in one thread and dumps lanes 0..127, columns 0..127 of tensor memory.
local function text_of(body)
  return frame.text { columns = 128, body = body,
    parameters = ", .param .u64 a, .param .u64 b, .param .u64 s, .param .u32 idesc",
    setup = "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd4, [s]; ld.param.u32 %r7, [idesc];"
      .. " add.u32 %r8, %r6, 256; add.u32 %r9, %r6, 384;" }
end

-- A descriptor may have bit 63 set: its 8 bytes.
local function bits64(value) return string.pack("<i8", value) end

local function dump(body, bytes, a, b, s, idesc, numerics)
  local out = tc.zeros({ 128, 128 }, tc.i32)
  local report = tc.ptx(text_of(body)):kernel("k"):emulate {
    grid = { 1 }, block = { 128 }, numerics = numerics,
    args = { tc.from_table(bytes, tc.u8), out, bits64(a), bits64(b), bits64(s), idesc } }
  local first = report.hazards[1]
  assert.is_true(report.completed, first and first.message)
  assert.same({}, report.hazards)
  return out:totable()
end

local function empty()
  local bytes = {}
  for i = 1, 32768 do bytes[i] = 0 end
  return bytes
end

local function f32(bits) return (string.unpack("<f", string.pack("<i4", bits))) end

-- K-major without swizzle: leading 128, stride 256 for rows of 32 bytes.
local function k_major(row, byte) return row % 8 * 16 + row // 8 * 256 + byte // 16 * 128 + byte % 16 end

local function descriptor(at, leading, stride, swizzle)
  return (swizzle or 0) << 61 | 1 << 46 | stride >> 4 << 32 | leading >> 4 << 16 | (BASE + at) >> 4
end

local function check(cells, m, n, expected, read)
  for i = 0, m - 1 do
    for j = 0, n - 1 do
      local got = (read or f32)(cells[i + 1][j + 1])
      if got ~= expected(i, j) then error(("D(%d, %d) = %s, expected %s"):format(i, j, got, expected(i, j))) end
    end
  end
end

local function sum(k, a, b)
  return function(i, j)
    local total = 0
    for x = 0, k - 1 do total = total + a(i, x) * b(j, x) end
    return total
  end
end

local function index(i, x, salt, count) return (i * 7 + x * 5 + salt) % count end

-- ---- 8-, 6- and 4-bit types ----------------------------------------------------------------------------

-- Codes and their values; the numbers of the types are those of the instruction descriptor.
local fp8 = {
  e4m3 = { code = 0, bits = 8, values = { [0] = 0, [0x38] = 1, [0xb8] = -1, [0x40] = 2, [0x44] = 3, [0x30] = 0.5,
      [0x01] = 2.0 ^ -9 } },
  e5m2 = { code = 1, bits = 8, values = { [0] = 0, [0x3c] = 1, [0xbc] = -1, [0x40] = 2, [0x42] = 3, [0x38] = 0.5 } },
  e2m3 = { code = 3, bits = 6, values = { [0] = 0, [0x08] = 1, [0x28] = -1, [0x10] = 2, [0x1f] = 7.5,
      [0x01] = 0.125 } },
  e3m2 = { code = 4, bits = 6, values = { [0] = 0, [0x0c] = 1, [0x2c] = -1, [0x10] = 2, [0x1f] = 28,
      [0x01] = 0.0625 } },
  e2m1 = { code = 5, bits = 4, values = { [0] = 0, [1] = 0.5, [2] = 1, [3] = 1.5, [4] = 2, [5] = 3, [7] = 6,
      [0xa] = -1 } },
}

for _, format in pairs(fp8) do
  format.codes = {}
  for code in pairs(format.values) do format.codes[#format.codes + 1] = code end
  table.sort(format.codes)
end

local function code_of(format, i, x, salt) return format.codes[index(i, x, salt, #format.codes) + 1] end

-- Element x of 16-byte units: `bits` each from the unit's start, the rest is padding.
local function put_unit_element(bytes, at, row, x, bits, code)
  local position = x % 16 * bits
  local byte = at + k_major(row, x // 16 * 16) + position // 8
  local shifted = code << position % 8
  bytes[byte + 1] = bytes[byte + 1] | shifted & 0xff
  if shifted > 0xff then bytes[byte + 2] = bytes[byte + 2] | shifted >> 8 end
end

describe("kind::f8f6f4", function()
  for name_a, a in pairs(fp8) do
    for name_b, b in pairs(fp8) do
      it(name_a .. " times " .. name_b, function()
        local bytes = empty()
        for x = 0, 31 do
          for i = 0, 127 do put_unit_element(bytes, A_AT, i, x, a.bits, code_of(a, i, x, 1)) end
          for j = 0, 31 do put_unit_element(bytes, B_AT, j, x, b.bits, code_of(b, j, x, 2)) end
        end
        local cells = dump("tcgen05.mma.cta_group::1.kind::f8f6f4 [%r6], %rd1, %rd2, %r7, 0;", bytes,
          descriptor(A_AT, 128, 256), descriptor(B_AT, 128, 256), 0,
          8 << 24 | 4 << 17 | b.code << 10 | a.code << 7 | 1 << 4)
        check(cells, 128, 32, sum(32, function(i, x) return a.values[code_of(a, i, x, 1)] end,
          function(j, x) return b.values[code_of(b, j, x, 2)] end))
      end)
    end
  end
end)

describe("kind::i8", function()
  local function case(title, a_signed, b_signed, bits)
    it(title, function()
      local bytes = empty()
      for x = 0, 31 do
        for i = 0, 127 do bytes[A_AT + k_major(i, x) + 1] = index(i, x, 100, 256) end
        for j = 0, 31 do bytes[B_AT + k_major(j, x) + 1] = index(j, x, 50, 256) end
      end
      local function read(signed, code) return signed and code > 127 and code - 256 or code end
      local cells = dump("tcgen05.mma.cta_group::1.kind::i8 [%r6], %rd1, %rd2, %r7, 0;", bytes,
        descriptor(A_AT, 128, 256), descriptor(B_AT, 128, 256), 0, 8 << 24 | 4 << 17 | bits | 2 << 4)
      check(cells, 128, 32, sum(32, function(i, x) return read(a_signed, index(i, x, 100, 256)) end,
        function(j, x) return read(b_signed, index(j, x, 50, 256)) end), function(word) return word end)
    end)
  end
  case("s8 times s8", true, true, 1 << 7 | 1 << 10)
  case("u8 times s8", false, true, 1 << 10)
  case("u8 times u8", false, false, 0)
end)

-- ---- tf32 and MN-major operands ----------------------------------------------------------------------------

local function put_f32(bytes, at, value)
  for i, byte in ipairs { string.pack("<f", value):byte(1, 4) } do bytes[at + i] = byte end
end

local function small(i, x, salt) return index(i, x, salt, 9) - 4 end

describe("kind::tf32", function()
  local MMA = "tcgen05.mma.cta_group::1.kind::tf32 [%r6], %rd1, %rd2, %r7, 0;"
  local expected = sum(8, function(i, x) return small(i, x, 1) end, function(j, x) return small(j, x, 2) end)

  it("K-major, the low 13 bits ignored", function()
    local bytes = empty()
    for x = 0, 7 do
      for i = 0, 127 do put_f32(bytes, A_AT + k_major(i, 4 * x), small(i, x, 1) * (1 + 2.0 ^ -12)) end
      for j = 0, 31 do put_f32(bytes, B_AT + k_major(j, 4 * x), small(j, x, 2)) end
    end
    local cells = dump(MMA, bytes, descriptor(A_AT, 128, 256), descriptor(B_AT, 128, 256), 0,
      8 << 24 | 4 << 17 | 2 << 10 | 2 << 7 | 1 << 4)
    check(cells, 128, 32, expected)
  end)

  it("MN-major: 128 bytes of rows, 32-byte atoms", function()
    local bytes = empty()
    -- 4 groups of 32 rows, 1024 bytes apart, 512 bytes for 4 of k
    local function at(row, k)
      local linear = BASE + row % 32 * 4 + row // 32 * 1024 + k % 4 * 128 + k // 4 * 512
      return (linear ~ ((linear >> 7 & 3) << 5)) - BASE
    end
    for x = 0, 7 do
      for i = 0, 127 do put_f32(bytes, A_AT + at(i, x), small(i, x, 1)) end
      for j = 0, 31 do put_f32(bytes, B_AT + at(j, x), small(j, x, 2)) end
    end
    local cells = dump(MMA, bytes, descriptor(A_AT, 1024, 512, 1), descriptor(B_AT, 1024, 512, 1), 0,
      8 << 24 | 4 << 17 | 3 << 15 | 2 << 10 | 2 << 7 | 1 << 4)
    check(cells, 128, 32, expected)
  end)
end)

describe("kind::f16", function()
  local function put_f16(bytes, at, value)
    local code = ({ [-4] = 0xc400, [-3] = 0xc200, [-2] = 0xc000, [-1] = 0xbc00, [0] = 0, 0x3c00, 0x4000, 0x4200,
        0x4400 })[value]
    bytes[at + 1], bytes[at + 2] = code & 0xff, code >> 8
  end
  local swizzles = { [2] = { 128, 7 }, [4] = { 64, 3 }, [6] = { 32, 1 } }

  for code, swizzle in pairs(swizzles) do
    local width, mask = table.unpack(swizzle)
    it("MN-major operands with a swizzle of " .. width .. " bytes", function()
      local bytes = empty()
      local group = 16 * width -- 16 of k
      local function at(row, k)
        local linear = BASE + row * 2 % width + row * 2 // width * group + k % 8 * width + k // 8 * 8 * width
        return (linear ~ ((linear >> 7 & mask) << 4)) - BASE
      end
      for x = 0, 15 do
        for i = 0, 127 do put_f16(bytes, A_AT + at(i, x), small(i, x, 1)) end
        for j = 0, 63 do put_f16(bytes, B_AT + at(j, x), small(j, x, 2)) end
      end
      local cells = dump("tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd1, %rd2, %r7, 0;", bytes,
        descriptor(A_AT, group, 8 * width, code), descriptor(B_AT, group, 8 * width, code), 0,
        8 << 24 | 8 << 17 | 3 << 15 | 1 << 4)
      check(cells, 128, 64, sum(16, function(i, x) return small(i, x, 1) end, function(j, x) return small(j, x, 2) end))
    end)
  end

  -- Two of four elements are kept: the pairs of positions in turn.
  local pairs_of = { { 0, 1 }, { 0, 2 }, { 1, 2 }, { 0, 3 }, { 1, 3 }, { 2, 3 } }
  it("a sparse A, its metadata by tcgen05.cp", function()
    local bytes = empty()
    local logical = {}
    for i = 0, 127 do
      logical[i] = {}
      for g = 0, 7 do
        local pair = pairs_of[(i + g) % 6 + 1]
        local lane, shift = 16 * (i // 16) + 8 * (g // 4) + i % 8, 16 * (i // 8 % 2) + g % 4 * 4
        local byte = S_AT + lane % 8 * 16 + lane // 8 * 128 + shift // 8
        bytes[byte + 1] = bytes[byte + 1] | (pair[1] | pair[2] << 2) << shift % 8
        for half, position in ipairs(pair) do
          local stored = 2 * g + half - 1
          logical[i][4 * g + position] = small(i, stored, 1)
          put_f16(bytes, A_AT + k_major(i, 2 * stored), small(i, stored, 1))
        end
      end
    end
    -- B: 64 bytes of K a row
    local function at(row, byte) return row % 8 * 16 + row // 8 * 512 + byte // 16 * 128 + byte % 16 end
    for j = 0, 31 do
      for x = 0, 31 do put_f16(bytes, B_AT + at(j, 2 * x), small(j, x, 2)) end
    end
    local cells = dump([[
 tcgen05.cp.cta_group::1.128x128b [%r8], %rd4;
 tcgen05.mma.sp.cta_group::1.kind::f16 [%r6], %rd1, %rd2, [%r8], %r7, 0;]], bytes, descriptor(A_AT, 128, 256),
      descriptor(B_AT, 128, 512), descriptor(S_AT, 0, 128), 8 << 24 | 4 << 17 | 1 << 4 | 1 << 2)
    check(cells, 128, 32, sum(32, function(i, x) return logical[i][x] or 0 end, function(j, x) return small(j, x,
        2) end))
  end)

  it(".ashift moves A by one lane after each use", function()
    local bytes = empty()
    for x = 0, 15 do
      for i = 0, 127 do put_f16(bytes, A_AT + k_major(i, 2 * x), small(i, x, 1)) end
      for j = 0, 31 do put_f16(bytes, B_AT + k_major(j, 2 * x), small(j, x, 2)) end
    end
    local cells = dump([[
 tcgen05.cp.cta_group::1.128x256b [%r8], %rd1;
 add.u32 %r12, %r6, 32;
 tcgen05.mma.cta_group::1.kind::f16.ashift [%r12], [%r8], %rd2, %r7, 0;
 tcgen05.mma.cta_group::1.kind::f16 [%r6], [%r8], %rd2, %r7, 0;]], bytes, descriptor(A_AT, 128, 256),
      descriptor(B_AT, 128, 256), 0, 8 << 24 | 4 << 17 | 1 << 4)
    local plain = sum(16, function(i, x) return small(i, x, 1) end, function(j, x) return small(j, x, 2) end)
    check(cells, 128, 32, function(i, j) return plain(i % 32 == 31 and i or i + 1, j) end)
    for i = 1, 128 do cells[i] = table.move(cells[i], 33, 64, 1, {}) end
    check(cells, 128, 32, plain)
  end)

  it(".ws counts masked columns of B as zero", function()
    local bytes = empty()
    for x = 0, 15 do
      for i = 0, 127 do put_f16(bytes, A_AT + k_major(i, 2 * x), small(i, x, 1)) end
      for j = 0, 63 do put_f16(bytes, B_AT + k_major(j, 2 * x), small(j, x, 2)) end
    end
    -- runs of 3 masked and 5 used columns, beginning in the second masked one
    local mask = 1 | 1 << 32 | 1 << 39 | 2 << 40 | 4 << 48
    local cells = dump("mov.b64 %rd5, " .. mask
        .. ";\n tcgen05.mma.ws.cta_group::1.kind::f16 [%r6], %rd1, %rd2, %r7, 0, %rd5;",
      bytes, descriptor(A_AT, 128, 256), descriptor(B_AT, 128, 256), 0, 8 << 24 | 8 << 17 | 1 << 4)
    local plain = sum(16, function(i, x) return small(i, x, 1) end, function(j, x) return small(j, x, 2) end)
    check(cells, 128, 64, function(i, j) return (j + 1) % 8 < 3 and 0 or plain(i, j) end)
  end)
end)

-- ---- scale factors ---------------------------------------------------------------------------------------------

-- Factor (row, s) in an atom of 128 rows and 4 blocks; SFA at S_AT, SFB behind it.
local function put_scale(bytes, at, row, s, code)
  bytes[at + row % 32 * 16 + row // 32 % 4 * 4 + s % 4 + 1] = code
end

local COPY_SCALES = [[
 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r8], %rd4;
 add.u64 %rd6, %rd4, 32;
 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r9], %rd6;
]]

describe("block-scaled kinds", function()
  local function exponent(row, s, salt) return (row + 2 * s + salt) % 5 - 2 end

  for _, numerics in ipairs { "f32", "hardware" } do
    it("mxf8f6f4 with factor 2 of four, " .. numerics, function()
      local e4m3, bytes = fp8.e4m3, empty()
      for x = 0, 31 do
        for i = 0, 127 do bytes[A_AT + k_major(i, x) + 1] = code_of(e4m3, i, x, 1) end
        for j = 0, 63 do bytes[B_AT + k_major(j, x) + 1] = code_of(e4m3, j, x, 2) end
      end
      for s = 0, 3 do
        for i = 0, 127 do put_scale(bytes, S_AT, i, s, 127 + exponent(i, s, 0)) end
        for j = 0, 63 do put_scale(bytes, S_AT + 512, j, s, 127 + exponent(j, s, 3)) end
      end
      local cells = dump(COPY_SCALES
        .. "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r6], %rd1, %rd2, %r7, [%r8], [%r9], 0;", bytes,
        descriptor(A_AT, 128, 256), descriptor(B_AT, 128, 256), descriptor(S_AT, 0, 128),
        2 << 29 | 1 << 27 | 1 << 23 | 8 << 17 | 2 << 4, numerics)
      local plain = sum(32, function(i, x) return e4m3.values[code_of(e4m3, i, x, 1)] end,
        function(j, x) return e4m3.values[code_of(e4m3, j, x, 2)] end)
      check(cells, 128, 64, function(i, j) return plain(i, j) * 2.0 ^ (exponent(i, 2, 0) + exponent(j, 2, 3)) end)
    end)

    local function fp4(title, form, vector, ids, scale_bit, code_of_factor, value_of_factor)
      it(title .. ", " .. numerics, function()
        local e2m1, bytes = fp8.e2m1, empty()
        local function put(at, row, x, code)
          local byte = at + k_major(row, x // 2)
          bytes[byte + 1] = bytes[byte + 1] | code << 4 * (x % 2)
        end
        for x = 0, 63 do
          for i = 0, 127 do put(A_AT, i, x, code_of(e2m1, i, x, 1)) end
          for j = 0, 63 do put(B_AT, j, x, code_of(e2m1, j, x, 2)) end
        end
        for s = 0, 3 do
          for i = 0, 127 do put_scale(bytes, S_AT, i, s, code_of_factor(i, s, 0)) end
          for j = 0, 63 do put_scale(bytes, S_AT + 512, j, s, code_of_factor(j, s, 3)) end
        end
        local cells = dump(COPY_SCALES .. "tcgen05.mma.cta_group::1." .. form
            .. " [%r6], %rd1, %rd2, %r7, [%r8], [%r9], 0;",
          bytes, descriptor(A_AT, 128, 256), descriptor(B_AT, 128, 256), descriptor(S_AT, 0, 128),
          ids << 29 | 1 << 27 | scale_bit << 23 | 8 << 17 | 1 << 10 | 1 << 7 | ids << 4, numerics)
        check(cells, 128, 64, function(i, j)
          local total = 0
          for x = 0, 63 do
            local s = ids + x * vector // 64
            total = total + e2m1.values[code_of(e2m1, i, x, 1)] * e2m1.values[code_of(e2m1, j, x, 2)]
              * value_of_factor(i, s, 0) * value_of_factor(j, s, 3)
          end
          return total
        end)
      end)
    end

    local function power(row, s, salt) return 2.0 ^ exponent(row, s, salt) end
    local function ue8m0(row, s, salt) return 127 + exponent(row, s, salt) end
    fp4("mxf4, factors 2 and 3", "kind::mxf4.block_scale", 2, 2, 1, ue8m0, power)
    fp4("mxf4nvf4, ue8m0, block of 16", "kind::mxf4nvf4.block_scale.block16", 4, 0, 1, ue8m0, power)
    -- ue4m3: 1, 1.5, 0.75, 2, 5
    local codes, values = { 0x38, 0x3c, 0x34, 0x40, 0x4a }, { 1, 1.5, 0.75, 2, 5 }
    local function which(row, s, salt) return (row + 2 * s + salt) % 5 + 1 end
    fp4("mxf4nvf4, ue4m3, block of 16", "kind::mxf4nvf4.block_scale.scale_vec::4X", 4, 0, 0,
      function(row, s, salt) return codes[which(row, s, salt)] end,
      function(row, s, salt) return values[which(row, s, salt)] end)
  end
end)

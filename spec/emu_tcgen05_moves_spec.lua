-- tcgen05.cp of the shapes and formats that few kernels use, tcgen05.shift, tcgen05.ld.red, and operands of K = 96 that
-- go on in a second buffer.  Where each byte goes is written out here from the instruction set.
local tc = require "tcmma"
local frame = require "tcgen05_frame"

local BASE = 0x400 -- of the first shared variable

-- Runs `body` in thread 0 over an image in shared memory, then dumps the first `columns` columns of every lane.
local function text_of(o)
  return frame.text { target = o.target, bytes = o.bytes, columns = 16, body = o.body }
end

local function descriptor(at, leading, stride, more)
  return (more or 0) | 1 << 46 | stride >> 4 << 32 | leading >> 4 << 16 | (BASE + at) >> 4
end

local function constant(value) return ("0x%x"):format(value) end

-- Lanes (from 0) of dumped cells (from 0).
local function dump(o, image)
  local out = tc.zeros({ 128, 16 }, tc.i32)
  local report = tc.ptx(text_of(o)):kernel("k"):emulate { block = { 128 }, mode = "check",
    args = { tc.from_table(image, tc.u8), out } }
  assert.is_true(report.completed, report:text())
  local cells = {}
  for lane, row in ipairs(out:totable()) do
    cells[lane - 1] = {}
    for column, value in ipairs(row) do cells[lane - 1][column - 1] = value & 0xffffffff end
  end
  return cells
end

local function image_of(bytes, value)
  local image = {}
  for i = 0, bytes - 1 do image[i + 1] = value(i) & 255 end
  return image
end

-- Byte of (row, byte) of a K-major image without swizzle, second unit `leading` further, 8 rows `stride`.
local function place(row, byte, leading, stride)
  return row % 8 * 16 + row // 8 * stride + byte // 16 * leading + byte % 16
end

local function word(image, at)
  return image[at + 1] | image[at + 2] << 8 | image[at + 3] << 16 | image[at + 4] << 24
end

describe("tcgen05.cp", function()
  local function pattern(i) return i * 37 + i // 256 * 11 end

  it("128x256b: a row is 8 columns of its lane", function()
    local image = image_of(4096, pattern)
    local cells = dump({ bytes = 4096, body = ("tcgen05.cp.cta_group::1.128x256b [%%r6], %s;")
      :format(constant(descriptor(0, 128, 256))) }, image)
    for lane = 0, 127 do
      for column = 0, 7 do
        assert.equal(word(image, place(lane, 4 * column, 128, 256)), cells[lane][column])
      end
    end
  end)

  it("4x256b: a row goes to the same lane of each quarter", function()
    local image = image_of(1024, pattern)
    local cells = dump({ bytes = 1024, body = ("mov.b32 %%r50, 0x50000; add.u32 %%r50, %%r50, %%r6;"
      .. "tcgen05.cp.cta_group::1.4x256b [%%r50], %s;"):format(constant(descriptor(0, 128, 256))) }, image)
    for row = 0, 3 do
      for column = 0, 7 do
        assert.equal(word(image, place(row, 4 * column, 128, 256)), cells[32 * row + 5][column])
      end
    end
    assert.equal(0x7fc0dead, cells[4][0])
    assert.equal(0x7fc0dead, cells[6][0])
  end)

  it("widens 4- and 6-bit elements to bytes on the way", function()
    for bits, suffix in pairs { [4] = ".b8x16.b4x16_p64", [6] = ".b8x16.b6x16_p32" } do
      local image = image_of(2048, pattern)
      local cells = dump({ bytes = 2048, body = ("tcgen05.cp.cta_group::1.128x128b%s [%%r6], %s;")
        :format(suffix, constant(descriptor(0, 16, 128))) }, image)
      for lane = 0, 127 do
        local unit = place(lane, 0, 16, 128)
        for i = 0, 15 do
          local at = i * bits
          local code = (image[unit + at // 8 + 1] | image[unit + at // 8 + 2] << 8) >> at % 8 & (1 << bits) - 1
          assert.equal(bits == 4 and code << 2 or code << 1, cells[lane][i // 4] >> i % 4 * 8 & 255)
        end
      end
    end
  end)
end)

describe("tcgen05.shift", function()
  it("moves the rows of 32 lanes, 8 columns wide, by one lane; the last stays", function()
    local image = image_of(4096, function(i) return i * 29 + i // 128 end)
    local cells = dump({ bytes = 4096, body = ("tcgen05.cp.cta_group::1.128x256b [%%r6], %s;\n"
      .. " tcgen05.shift.cta_group::1.down [%%r50];"):gsub("^",
        "mov.b32 %%%%r50, 0x200000; add.u32 %%%%r50, %%%%r50, %%%%r6; ")
      :format(constant(descriptor(0, 128, 256))) }, image)
    for lane = 0, 127 do
      local from = lane >= 32 and lane < 63 and lane + 1 or lane
      for column = 0, 7 do
        assert.equal(word(image, place(from, 4 * column, 128, 256)), cells[lane][column])
      end
    end
  end)
end)

describe("tcgen05.mma", function()
  it("reads operands of K = 96 whose rows go on in the buffer that the descriptor names", function()
    local values = { [0] = 0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6 }
    local A, A_NEXT, B, B_NEXT, SCALES, bytes = 0, 16384, 32768, 33792, 34816, 35328
    local image = image_of(bytes, function(i) return i >= SCALES and 127 or 0xee end)
    local function code(row, k, salt) return (row * 5 + k * 3 + salt) % 16 end
    local function fill(first, second, rows, salt)
      for row = 0, rows - 1 do
        for k = 0, 95, 2 do
          local at = 96 + k // 2 -- byte of the row of 128; behind it the next buffer
          local linear = row * 128 + at % 128
          local buffer = at < 128 and first or second
          local swizzled = linear ~ (linear >> 7 & 7) << 4
          image[buffer + swizzled + 1] = code(row, k, salt) | code(row, k + 1, salt) << 4
        end
      end
    end
    fill(A, A_NEXT, 128, 1)
    fill(B, B_NEXT, 8, 7)
    local function operand(at, following)
      return constant(descriptor(at + 96, 0, 1024, 2 << 61 | 1 << 52 | (BASE + following) >> 4 << 16))
    end
    local idesc = 1 << 7 | 1 << 10 | 8 >> 3 << 17 | 1 << 23 | 1 << 27 | 1 << 31
    local body = ([[add.u32 %%r50, %%r6, 256; add.u32 %%r51, %%r6, 264; mov.b64 %%rd10, %s; mov.b64 %%rd11, %s;
 tcgen05.cp.cta_group::1.32x128b.warpx4 [%%r50], %s;
 tcgen05.cp.cta_group::1.32x128b.warpx4 [%%r51], %s;
 mov.b32 %%r52, 0x%x;
 tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 [%%r6], %%rd10, %%rd11, %%r52, [%%r50], [%%r51], 0;]]):format(
      operand(A, A_NEXT), operand(B, B_NEXT), constant(descriptor(SCALES, 16, 128)), constant(descriptor(SCALES, 16,
        128)),
      idesc)
    local cells = dump({ target = "sm_103a", bytes = bytes, body = body }, image)
    for m = 0, 127 do
      for n = 0, 7 do
        local sum = 0
        for k = 0, 95 do sum = sum + values[code(m, k, 1)] * values[code(n, k, 7)] end
        assert.equal(sum, (string.unpack("<f", string.pack("<I4", cells[m][n]))))
      end
    end
  end)
end)

describe("tcgen05.ld.red", function()
  -- Each thread stores four words; what comes back with the reduction.
  local function reduced(operation, shape, words)
    local split = shape == "16x32bx2" and ", 4" or ""
    local text = ([[
.version 8.8
.target sm_103a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
 .reg .b32 %%r<30>; .reg .b64 %%rd<4>;
 .shared .align 4 .b32 slot;
 mov.u32 %%r0, %%tid.x; mov.u32 %%r1, slot;
 ld.param.u64 %%rd0, [in]; ld.param.u64 %%rd1, [out];
 mad.wide.u32 %%rd0, %%r0, 16, %%rd0; mad.wide.u32 %%rd1, %%r0, 32, %%rd1;
 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%%r1], 32;
 ld.shared.b32 %%r2, [slot];
 ld.global.v4.b32 {%%r4,%%r5,%%r6,%%r7}, [%%rd0];
 tcgen05.st.sync.aligned.%s.x4.b32 [%%r2]%s, {%%r4,%%r5,%%r6,%%r7};
 tcgen05.wait::st.sync.aligned;
 tcgen05.ld.red.sync.aligned.%s.x4.%s {%%r10,%%r11,%%r12,%%r13}, %%r14, [%%r2]%s;
 tcgen05.wait::ld.sync.aligned;
 st.global.v4.b32 [%%rd1], {%%r10,%%r11,%%r12,%%r13};
 st.global.b32 [%%rd1+16], %%r14;
 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %%r2, 32;
 ret;
}]]):format(shape, split, shape, operation, split)
    local values = {}
    for lane = 0, 31 do
      for i = 1, 4 do
        local value = words(lane, i)
        values[4 * lane + i] = value >= 1 << 31 and value - (1 << 32) or value
      end
    end
    local out = tc.zeros({ 32, 8 }, tc.i32)
    local report = tc.ptx(text):kernel("k"):emulate { block = { 32 }, mode = "check",
      args = { tc.from_table(values, tc.i32), out } }
    assert.is_true(report.completed, report:text())
    assert.same({}, report.hazards)
    local results = {}
    for lane, row in ipairs(out:totable()) do
      for i = 1, 4 do assert.equal(values[4 * (lane - 1) + i], row[i]) end
      results[lane] = row[5] & 0xffffffff
    end
    return results
  end

  local function integers(lane, i) return (lane * 0x9e3779b1 + i * 0x85ebca6b) & 0xffffffff end
  local function floats(lane, i)
    if lane == 7 and i == 2 then return 0x7fc00000 end
    if lane == 9 then return 0x7fc00000 end
    return string.unpack("<I4", string.pack("<f", (lane * 13 + i * 7) % 23 - 11))
  end
  local function expected(words, value, better)
    local results = {}
    for lane = 0, 31 do
      local best
      for i = 1, 4 do
        local v = value(words(lane, i))
        if best == nil or better(v, best) then best = v end
      end
      results[lane + 1] = best
    end
    return results
  end
  local function same(v) return v end
  local function signed(v) return v >= 1 << 31 and v - (1 << 32) or v end
  local function less(a, b) return a < b end
  local function greater(a, b) return a > b end

  for _, shape in ipairs { "32x32b", "16x32bx2" } do
    it("gives the least and greatest of each thread's integers, " .. shape, function()
      assert.same(expected(integers, same, less), reduced("min.u32", shape, integers))
      assert.same(expected(integers, same, greater), reduced("max.u32", shape, integers))
      local least = expected(integers, signed, less)
      for i, value in ipairs(least) do least[i] = value & 0xffffffff end
      assert.same(least, reduced("min.s32", shape, integers))
    end)

    it("gives those of floats: without .NaN a NaN does not count, " .. shape, function()
      local function number(bits) return (string.unpack("<f", string.pack("<I4", bits))) end
      local function bits_of(v) return v == nil and 0x7fffffff or (string.unpack("<I4", string.pack("<f", v))) end
      for operation, o in pairs { ["max.f32"] = {}, ["max.abs.f32"] = { abs = true }, ["min.NaN.f32"] = { nan = true,
        min = true } } do
        local want = {}
        for lane = 0, 31 do
          local best, nan
          for i = 1, 4 do
            local v = number(floats(lane, i))
            if o.abs then v = math.abs(v) end
            if v ~= v then
              nan = true
            elseif best == nil or o.min and v < best or not o.min and v > best then
              best = v
            end
          end
          want[lane + 1] = bits_of(not (o.nan and nan) and best or nil)
        end
        assert.same(want, reduced(operation, shape, floats))
      end
    end)
  end
end)

-- wgmma with sparse A and of single bits: results are those of plain integer arithmetic.  The GPU, where there is one,
-- is held to the same.
local tc = require "tcmma"
local small = require "small_values"
local float, sequence = small.float, small.sequence

local DEVICE = os.getenv "TCMMA_DEVICE" or "cuda:0"

-- bits, code, least and greatest value
local types = {
  f16 = { 16, float(5, 10), -4, 4 }, bf16 = { 16, float(8, 7), -4, 4 }, tf32 = { 32, float(8, 23), -4, 4 },
  e4m3 = { 8, float(4, 3), -2, 2 }, e5m2 = { 8, float(5, 2), -2, 2 },
  s8 = { 8, small.integer(8), -128, 127 }, u8 = { 8, small.integer(8), 0, 255 },
  b1 = { 1, function(v) return v end, 0, 1 },
}

-- Writes a code at a bit of an array of 32-bit words.
local function put(words, bit, code)
  local at = bit // 32 + 1
  words[at] = (words[at] or 0) | code << bit % 32
end

-- Byte of (row, byte of K) in a K-major tile without swizzle: units of 8 rows by 16 bytes, 128 bytes apart along K.
local function unswizzled(row, byte, row_bytes)
  return row % 8 * 16 + row // 8 * (row_bytes * 8) + byte // 16 * 128 + byte % 16
end

local function descriptor(address, row_bytes)
  return ("0x%x"):format(address >> 4 | 128 >> 4 << 16 | row_bytes * 8 >> 4 << 32)
end

local A_PLACE, B_PLACE, META = 0, 8192, 32768

local function kernel(o, mnemonic, a_bytes, b_bytes)
  local results = o.d == "f16" and o.n // 4 or o.n // 2
  local d = {}
  for i = 0, results - 1 do d[i + 1] = "%r" .. 100 + i end
  local tail = o.tail or ""
  local a = o.registers and "{%r20, %r21, %r22, %r23}" or "%rd3"
  local text = { ([[
.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry k(.param .u64 in, .param .u64 out)
{
 .reg .b64 %%rd<8>; .reg .b32 %%r<300>; .reg .pred %%p<4>;
 ld.param.u64 %%rd1, [in]; cvta.to.global.u64 %%rd1, %%rd1;
 ld.param.u64 %%rd2, [out]; cvta.to.global.u64 %%rd2, %%rd2;
 mov.u32 %%r0, %%tid.x; mov.u32 %%r1, tile;
 mov.u32 %%r2, %%r0;
fill:
 mul.lo.u32 %%r3, %%r2, 4; add.u32 %%r4, %%r1, %%r3;
 mad.wide.u32 %%rd5, %%r2, 4, %%rd1; ld.global.b32 %%r5, [%%rd5]; st.shared.b32 [%%r4], %%r5;
 add.u32 %%r2, %%r2, 128; setp.lt.u32 %%p1, %%r2, 8192; @%%p1 bra fill;
 fence.proxy.async; bar.sync 0;
 cvt.u64.u32 %%rd5, %%r1; shr.u64 %%rd5, %%rd5, 4;
 add.u64 %%rd3, %%rd5, %s; add.u64 %%rd4, %%rd5, %s;
 mad.wide.u32 %%rd1, %%r0, 32, %%rd1;
 ld.global.b32 %%r10, [%%rd1+%d];]]):format(descriptor(A_PLACE, a_bytes), descriptor(B_PLACE, b_bytes), META) }
  for i = 0, 3 do text[#text + 1] = (" ld.global.b32 %%r%d, [%%rd1+%d];"):format(20 + i, META + 4 + 4 * i) end
  for i = 1, results do text[#text + 1] = (" mov.b32 %s, 0;"):format(d[i]) end
  text[#text + 1] = " wgmma.fence.sync.aligned;"
  text[#text + 1] = (" %s {%s}, %s, %%rd4, %s1%s;"):format(mnemonic, table.concat(d, ","), a,
    o.selector and ("%%r10, %d, "):format(o.selector) or "", tail)
  text[#text + 1] = " wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;"
  text[#text + 1] = (" mad.wide.u32 %%rd2, %%r0, %d, %%rd2;"):format(4 * results)
  for i = 1, results do text[#text + 1] = (" st.global.b32 [%%rd2+%d], %s;"):format(4 * i - 4, d[i]) end
  return table.concat(text, "\n") .. "\n ret;\n}", results
end

-- Which thread of a quad holds the metadata of a row's group, and where in its word.
local function metadata_place(bits, selector, row, group)
  if bits == 8 then return row // 8 + group // 8 * 2, 4 * (group % 8) end
  return 2 * selector + group // 4, 16 * (row // 8) + 4 * (group % 4)
end

local function check(o)
  local random, bits, code = sequence(o.n + 3), types[o.a][1], types[o.a][2]
  local k = (o.selector and 512 or 256) // bits
  local span, stored_k = bits == 32 and 2 or 4, o.selector and k // 2 or k
  local groups = k // span
  local a, b, words = {}, {}, {}
  for i = 1, 16384 do words[i] = 0 end
  local a_bytes, b_bytes = stored_k * bits // 8, k * bits // 8
  local function store_a(row, at, value)
    local byte = at * bits // 8
    put(words, 8 * (A_PLACE + unswizzled(row, byte, a_bytes)) + at * bits % 8, code(value))
    local lane = row % 8 * 4 + byte % 16 // 4
    local register = row % 16 // 8 + 2 * (byte // 16)
    put(words, 8 * (META + 32 * (32 * (row // 16) + lane) + 4 + 4 * register) + at * bits % 32, code(value))
  end
  for row = 0, 63 do
    a[row] = {}
    for at = 0, k - 1 do a[row][at] = 0 end
    if o.selector then
      for group = 0, groups - 1 do
        local first = random(0, span == 2 and 1 or 2)
        local second = random(first + 1, 3)
        local nibble = span == 2 and (first == 0 and 4 or 14) or first | second << 2
        for n, place in ipairs(span == 2 and { first } or { first, second }) do
          local value = random(types[o.a][3], types[o.a][4])
          a[row][group * span + place] = value
          store_a(row, group * span // 2 + n - 1, value)
        end
        local thread, bit = metadata_place(bits, o.selector, row % 16, group)
        put(words, 8 * (META + 32 * (32 * (row // 16) + row % 8 * 4 + thread)) + bit, nibble)
      end
    else
      for at = 0, k - 1 do
        a[row][at] = random(types[o.a][3], types[o.a][4])
        store_a(row, at, a[row][at])
      end
    end
  end
  for n = 0, o.n - 1 do
    b[n] = {}
    for at = 0, k - 1 do
      b[n][at] = random(types[o.b][3], types[o.b][4])
      local byte = at * bits // 8
      put(words, 8 * (B_PLACE + unswizzled(n, byte, b_bytes)) + at * bits % 8, types[o.b][2](b[n][at]))
    end
  end
  for i, word in ipairs(words) do
    if word >= 1 << 31 then words[i] = word - (1 << 32) end
  end
  local mnemonic = ("wgmma.mma_async%s.sync.aligned.m64n%dk%d.%s.%s.%s%s"):format(o.selector and ".sp" or "", o.n, k,
    o.d,
    o.a, o.b, bits == 1 and ".and.popc" or "")
  local text, results = kernel(o, mnemonic, a_bytes, b_bytes)
  local out
  if o.device then
    local input = tc.zeros({ 16384 }, tc.i32, { device = o.device })
    input:copy_from(tc.from_table(words, tc.i32))
    out = tc.zeros({ 128, results }, tc.i32, { device = o.device })
    tc.ptx(text):kernel("k"):launch { block = { 128 }, smem = 32768, args = { input, out } }
  else
    out = tc.zeros({ 128, results }, tc.i32)
    local report = tc.ptx(text):kernel("k"):emulate { block = { 128 }, smem = 32768, mode = "check",
      args = { tc.from_table(words, tc.i32), out } }
    assert.is_true(report.completed, report:text())
  end
  local got = out:totable()
  for thread = 0, 127 do
    for i = 0, o.n // 2 - 1 do
      local row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i // 2 % 2)
      local n = 8 * (i // 4) + 2 * (thread % 4) + i % 2
      local sum = 0
      for at = 0, k - 1 do sum = sum + a[row][at] * b[n][at] end
      local value = got[thread + 1][(o.d == "f16" and i // 2 or i) + 1]
      if o.d == "f32" then value = string.unpack("<f", string.pack("<i4", value)) end
      if o.d == "f16" then
        local half = value >> 16 * (i % 2) & 0xffff
        local exponent = half >> 10 & 31
        value = exponent == 0 and 0 or (1 + (half & 0x3ff) / 1024) * 2.0 ^ (exponent - 15)
        if half >> 15 == 1 then value = -value end
      end
      assert.equal(sum, value, ("%s: row %d, column %d"):format(mnemonic, row, n))
    end
  end
end

local function cases(device, it)
  for _, registers in ipairs { false, true } do
    local from = registers and " from registers" or " from shared memory"
    it("sparse 16-bit A" .. from, function()
      for selector = 0, 1 do
        local tail = registers and ", 1, 1, 0" or ", 1, 1, 0, 0"
        check { a = "f16", b = "f16", d = "f32", n = 16, selector = selector, tail = tail, registers = registers,
          device = device }
        check { a = "f16", b = "f16", d = "f16", n = 8, selector = selector, tail = tail, registers = registers,
          device = device }
        check { a = "bf16", b = "bf16", d = "f32", n = 24, selector = selector, tail = tail, registers = registers,
          device = device }
      end
    end)
    it("sparse tf32 A" .. from, function()
      for selector = 0, 1 do
        check { a = "tf32", b = "tf32", d = "f32", n = 16, selector = selector, tail = ", 1, 1", registers = registers,
          device = device }
      end
    end)
    it("sparse 8-bit A" .. from, function()
      check { a = "e4m3", b = "e5m2", d = "f32", n = 16, selector = 0, tail = ", 1, 1", registers = registers,
        device = device }
      check { a = "e5m2", b = "e4m3", d = "f16", n = 8, selector = 0, tail = ", 1, 1", registers = registers,
        device = device }
      check { a = "s8", b = "u8", d = "s32", n = 32, selector = 0, registers = registers, device = device }
      check { a = "u8", b = "s8", d = "s32", n = 8, selector = 0, registers = registers, device = device }
    end)
    it("single bits" .. from, function()
      check { a = "b1", b = "b1", d = "s32", n = 8, registers = registers, device = device }
      check { a = "b1", b = "b1", d = "s32", n = 48, registers = registers, device = device }
    end)
  end
end

describe("wgmma:", function() cases(nil, it) end)

describe("wgmma on a GPU #gpu:", function()
  local device = tc.device(DEVICE)
  cases(device, device and it or pending)
end)

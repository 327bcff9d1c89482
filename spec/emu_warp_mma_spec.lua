-- wgmma, mma.sync, ldmatrix and stmatrix on the emulator, against products computed here.
local tc = require "tcmma"

local BASE = 0x400

local function good(report)
  local first = report.hazards[1]
  assert.is_true(report.completed, first and first.message)
  assert.same({}, report.hazards)
end

-- Small integers, exact in every type.
local function value(i, j, salt) return (i * 7 + j * 5 + salt) % 9 - 4 end

local function product(m, n, k, transform)
  local rows = {}
  for i = 0, m - 1 do
    rows[i + 1] = {}
    for j = 0, n - 1 do
      local sum = 0
      for x = 0, k - 1 do sum = sum + value(i, x, 1) * value(j, x, 2) end
      rows[i + 1][j + 1] = transform and transform(sum) or sum
    end
  end
  return rows
end

-- ---- wgmma ---------------------------------------------------------------------------------------------

-- Where element (row, k) of an operand lies, without swizzle: leading 128 and stride 256 bytes K-major.
local function k_major(width)
  return function(row, k)
    local byte = k * width
    return row % 8 * 16 + row // 8 * 256 + byte // 16 * 128 + byte % 16
  end
end

-- MN-major: 8 rows of one k in 16 bytes; stride between groups of rows, leading between 8 of k.
local function mn_major(rows)
  return function(row, k) return row % 8 * 2 + row // 8 * 128 + k % 8 * 16 + k // 8 * (rows * 16) end
end

local function descriptor(at, leading, stride) return stride >> 4 << 32 | leading >> 4 << 16 | (BASE + at) >> 4 end

local formats = {
  f16 = { dtype = tc.f16, width = 2, k = 16 }, bf16 = { dtype = tc.bf16, width = 2, k = 16 },
  tf32 = { dtype = tc.f32, width = 4, k = 8 }, e4m3 = { dtype = tc.e4m3, width = 1, k = 32 },
  e5m2 = { dtype = tc.e5m2, width = 1, k = 32 }, s8 = { dtype = tc.i8, width = 1, k = 32 },
}

local B_AT = 8192

-- The image of shared memory: A at 0, B at B_AT.
local function image(format, n, place_a, place_b)
  local list = {}
  for i = 1, 16384 // format.width do list[i] = 0 end
  for i = 0, 63 do
    for k = 0, format.k - 1 do list[place_a(i, k) // format.width + 1] = value(i, k, 1) end
  end
  for j = 0, n - 1 do
    for k = 0, format.k - 1 do list[(B_AT + place_b(j, k)) // format.width + 1] = value(j, k, 2) end
  end
  return tc.from_table(list, format.dtype)
end

local function names(first, count, prefix)
  local list = {}
  for i = 0, count - 1 do list[i + 1] = (prefix or "%r") .. first + i end
  return list
end

-- options: a (text of the A operand), before, tail (behind the descriptors), count (registers of D).
local function wgmma_text(types, n, k, options)
  local d = names(100, options.count)
  local stores, zeros = {}, {}
  for i, name in ipairs(d) do
    stores[i] = ("st.global.b32 [%%rd3+%d], %s;"):format(4 * (i - 1), name)
    zeros[i] = ("mov.b32 %s, 0;"):format(name)
  end
  return ([[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 out, .param .u64 a, .param .u64 b)
{
 .reg .pred %%p<4>; .reg .b32 %%r<400>; .reg .b64 %%rd<10>;
 .shared .align 1024 .b8 tile[16384];
 .shared .align 8 .b64 bar;
 mov.u32 %%r0, %%tid.x;
 mov.u32 %%r1, tile;
 mov.u32 %%r2, bar;
 setp.eq.u32 %%p0, %%r0, 0;
 ld.param.u64 %%rd0, [image];
 ld.param.u64 %%rd1, [a];
 ld.param.u64 %%rd2, [b];
 @%%p0 mbarrier.init.shared::cta.b64 [%%r2], 1;
 bar.sync 0;
 @%%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2], 16384;
 @%%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%r1], [%%rd0], 16384, [%%r2];
loaded:
 mbarrier.try_wait.parity.shared::cta.b64 %%p1, [%%r2], 0;
 @!%%p1 bra loaded;
 %s
 %s
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n%dk%d.%s {%s}, %s, %%rd2, %s;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0;
 ld.param.u64 %%rd3, [out];
 mad.wide.u32 %%rd3, %%r0, %d, %%rd3;
 %s
 ret;
}
]]):format(table.concat(zeros, "\n "), options.before or "", n, k, types, table.concat(d, ","), options.a or "%rd1",
    options.tail, 4 * options.count, table.concat(stores, "\n "))
end

-- Row and column of accumulator element i of thread t.
local function place(t, i)
  local lane = t % 32
  return 16 * (t // 32) + (lane >> 2) + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)
end

local function check(out, n, expected)
  for t, row in ipairs(out:totable()) do
    for i = 0, n // 2 - 1 do
      local r, c = place(t - 1, i)
      if row[i + 1] ~= expected[r + 1][c + 1] then
        error(("D(%d, %d): %s, expected %s"):format(r, c, row[i + 1], expected[r + 1][c + 1]))
      end
    end
  end
end

describe("wgmma", function()
  local function case(title, name, n, options)
    it(title, function()
      local format = formats[name]
      local d = options.d or "f32"
      local types = ("%s.%s.%s"):format(d, name, name)
      local count = d == "f16" and n // 4 or n // 2
      local place_a, place_b = k_major(format.width), k_major(format.width)
      local a, b = descriptor(0, 128, 256), descriptor(B_AT, 128, 256)
      if options.transposed then
        place_a, place_b = mn_major(64), mn_major(n)
        a, b = descriptor(0, 64 * 16, 128), descriptor(B_AT, n * 16, 128)
      end
      local out = tc.zeros({ 128, n // 2 }, d == "f16" and tc.f16 or d == "s32" and tc.i32 or tc.f32)
      for _, mode in ipairs { "fast", "check" } do
        local text = wgmma_text(types, n, format.k, {
          count = count, tail = options.tail, a = options.a, before = options.before })
        good(tc.ptx(text):kernel("k"):emulate {
          grid = { 1 }, block = { 128 }, mode = mode,
          args = { image(format, n, place_a, place_b), out, a, b } })
        check(out, n, product(64, n, format.k, options.transform))
      end
    end)
  end

  case("f16", "f16", 72, { tail = "1, 1, 1, 0, 0" })
  case("bf16", "bf16", 256, { tail = "0, 1, 1, 0, 0" })
  case("an f16 accumulator", "f16", 64, { d = "f16", tail = "1, 1, 1, 0, 0" })
  case("negated operands", "f16", 32, { tail = "1, -1, 1, 0, 0", transform = function(x) return -x end })
  case("both operands MN-major", "f16", 64, { tail = "1, 1, 1, 1, 1", transposed = true })
  case("tf32", "tf32", 64, { tail = "1, 1, 1" })
  case("e4m3", "e4m3", 64, { tail = "1, 1, 1" })
  case("e5m2", "e5m2", 8, { tail = "1, 1, 1" })
  case("s8", "s8", 96, { d = "s32", tail = "1" })

  -- Register j of A: row 16w + g + 8 (j & 1), bytes 4q + 16 (j >> 1) of K, read with ordinary loads.
  local registers = { "shr.u32 %r10, %r0, 5;\n and.b32 %r11, %r0, 31;\n shr.u32 %r12, %r11, 2;\n and.b32 %r13, %r0, 3;",
    "mad.lo.u32 %r14, %r10, 16, %r12;", "shl.b32 %r15, %r13, 2;" }
  for j = 0, 3 do
    registers[#registers + 1] = ([[
 add.u32 %%r20, %%r14, %d;
 and.b32 %%r21, %%r20, 7;
 shr.u32 %%r22, %%r20, 3;
 mad.lo.u32 %%r23, %%r21, 16, %%r1;
 mad.lo.u32 %%r23, %%r22, 256, %%r23;
 add.u32 %%r23, %%r23, %%r15;
 ld.shared.b32 %%r%d, [%%r23+%d];]]):format(8 * (j & 1), 30 + j, 128 * (j >> 1))
  end
  local before, a = table.concat(registers, "\n "), "{%r30,%r31,%r32,%r33}"
  case("f16, A in registers", "f16", 64, { tail = "1, 1, 1, 0", before = before, a = a })
  case("tf32, A in registers", "tf32", 64, { tail = "1, 1, 1", before = before, a = a })
  case("s8, A in registers", "s8", 64, { d = "s32", tail = "1", before = before, a = a })

  local function refused(title, rule, words, a_descriptor, edit, block)
    it(title, function()
      local text = wgmma_text("f32.f16.f16", 64, 16, { count = 32, tail = "1, 1, 1, 0, 0" })
      local report = tc.ptx(edit and edit(text) or text):kernel("k"):emulate {
        grid = { 1 }, block = { block or 128 },
        args = { image(formats.f16, 64, k_major(2), k_major(2)), tc.zeros({ 128, 32 }, tc.f32), a_descriptor,
          descriptor(B_AT, 128, 256) } }
      assert.is_false(report.completed)
      assert.equal(rule, report.hazards[1].rule)
      assert.matches(words, report.hazards[1].message, 1, true)
    end)
  end

  refused("a descriptor of tcgen05", "smem-descriptor", "form of tcgen05", descriptor(0, 128, 256) | 1 << 46)
  refused("an operand outside shared memory", "smem-descriptor", "shared address", descriptor(0x20000, 128, 256))
  refused("three warps", "warpgroup", "four warps", descriptor(0, 128, 256), nil, 96)
  refused("a warp that stays away", "deadlock", "other warps of the warpgroup", descriptor(0, 128, 256), function(text)
    return (text:gsub(" wgmma%.fence", " setp.ge.u32 %%p2, %%r0, 96;\n @%%p2 ret;\n wgmma.fence"))
  end)
end)

-- ---- mma.sync ---------------------------------------------------------------------------------------------

-- Register j of A holds rows g + 8 (j & 1), bytes 4q + 16 (j >> 1); of B column g, bytes 4q + 16 j.
local function mma_text(shape_and_types, a_count, b_count, d_count)
  local loads, stores = {}, {}
  local function load(register, j, rows, bytes)
    loads[#loads + 1] = ("add.u64 %%rd5, %%rd%d, %d;\n ld.global.b32 %%r%d, [%%rd5];"):format(rows, bytes, register)
    return j
  end
  for j = 0, a_count - 1 do load(20 + j, j, 3 + (j & 1), 16 * (j >> 1)) end
  for j = 0, b_count - 1 do load(30 + j, j, 6, 16 * j) end
  for i = 0, d_count - 1 do stores[i + 1] = ("st.global.b32 [%%rd7+%d], %%r%d;"):format(4 * i, 40 + i) end
  local zero = {}
  for i = 0, d_count - 1 do zero[i + 1] = "0" end
  return ([[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 pitch)
{
 .reg .b32 %%r<60>; .reg .b64 %%rd<10>;
 mov.u32 %%r0, %%tid.x;
 shr.u32 %%r1, %%r0, 2;
 and.b32 %%r2, %%r0, 3;
 ld.param.u32 %%r3, [pitch];
 ld.param.u64 %%rd0, [a];
 ld.param.u64 %%rd1, [b];
 ld.param.u64 %%rd2, [out];
 mad.lo.u32 %%r4, %%r1, %%r3, 0;
 mad.lo.u32 %%r4, %%r2, 4, %%r4;
 cvt.u64.u32 %%rd8, %%r4;
 add.u64 %%rd3, %%rd0, %%rd8;
 mad.wide.u32 %%rd4, %%r3, 8, %%rd3;
 add.u64 %%rd6, %%rd1, %%rd8;
 mad.wide.u32 %%rd7, %%r0, %d, %%rd2;
 %s
 mov.b32 %%r50, 0;
 mma.sync.aligned.%s {%s}, {%s}, {%s}, {%s};
 %s
 ret;
}
]]):format(4 * d_count, table.concat(loads, "\n "), shape_and_types, table.concat(names(40, d_count), ","),
    table.concat(names(20, a_count), ","), table.concat(names(30, b_count), ","),
    (table.concat(zero, ","):gsub("0", "%%%%r50"):gsub("%%%%", "%%")), table.concat(stores, "\n "))
end

describe("mma.sync", function()
  local function matrix(rows, k, salt, dtype)
    local list = {}
    for i = 0, rows - 1 do
      list[i + 1] = {}
      for x = 0, k - 1 do list[i + 1][x + 1] = value(i, x, salt) end
    end
    return tc.from_table(list, dtype)
  end

  local function case(k, name, d)
    it(("m16n8k%d %s to %s"):format(k, name, d), function()
      local format = formats[name]
      local bytes = k * format.width
      local out = tc.zeros({ 32, 4 }, d == "f16" and tc.f16 or d == "s32" and tc.i32 or tc.f32)
      local text = mma_text(("m16n8k%d.row.col.%s.%s.%s.%s"):format(k, d, name, name, d), bytes // 8, bytes // 16,
        d == "f16" and 2 or 4)
      for _, numerics in ipairs { "f32", "hardware" } do
        good(tc.ptx(text):kernel("k"):emulate {
          grid = { 1 }, block = { 32 }, numerics = numerics,
          args = { matrix(16, k, 1, format.dtype), matrix(8, k, 2, format.dtype), out, bytes } })
        local expected = product(16, 8, k)
        for t, row in ipairs(out:totable()) do
          for i = 0, 3 do
            local g, q = (t - 1) >> 2, (t - 1) & 3
            assert.equal(expected[g + 8 * (i >> 1) + 1][2 * q + (i & 1) + 1], row[i + 1])
          end
        end
      end
    end)
  end

  case(16, "f16", "f32")
  case(8, "f16", "f32")
  case(16, "f16", "f16")
  case(16, "bf16", "f32")
  case(8, "tf32", "f32")
  case(4, "tf32", "f32")
  case(32, "e4m3", "f32")
  case(32, "s8", "s32")
  case(16, "s8", "s32")
end)

-- ---- matrices -----------------------------------------------------------------------------------------------

describe("ldmatrix and stmatrix", function()
  -- Fills 32 rows of 16 bytes, moves four 8 x 8 matrices, dumps registers or shared memory.
  local function moved(instruction, dump_shared)
    local out = tc.zeros({ dump_shared and 256 or 128 }, dump_shared and tc.u16 or tc.i32)
    good(tc.ptx(([[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .pred %%p<3>; .reg .b16 %%h<3>; .reg .b32 %%r<40>; .reg .b64 %%rd<6>;
 .shared .align 128 .b8 tile[512];
 mov.u32 %%r0, %%tid.x;
 mov.u32 %%r1, tile;
 mad.lo.u32 %%r2, %%r0, 16, %%r1;
 mov.u32 %%r3, 0;
fill:
 mad.lo.u32 %%r4, %%r0, 8, %%r3;
 cvt.u16.u32 %%h0, %%r4;
 mad.lo.u32 %%r5, %%r3, 2, %%r2;
 st.shared.u16 [%%r5], %%h0;
 add.u32 %%r3, %%r3, 1;
 setp.lt.u32 %%p0, %%r3, 8;
 @%%p0 bra fill;
 bar.warp.sync 0xffffffff;
 mul.lo.u32 %%r20, %%r0, 0x10001;
 add.u32 %%r21, %%r20, 0x00400040;
 add.u32 %%r22, %%r20, 0x00800080;
 add.u32 %%r23, %%r20, 0x00c000c0;
 %s;
 bar.warp.sync 0xffffffff;
 ld.param.u64 %%rd0, [out];
 mad.wide.u32 %%rd0, %%r0, 16, %%rd0;
 %s
 ret;
}
]]):format(instruction, dump_shared
      and "ld.shared.v4.b32 {%r30,%r31,%r32,%r33}, [%r2];\n st.global.v4.b32 [%rd0], {%r30,%r31,%r32,%r33};"
      or "st.global.v4.b32 [%rd0], {%r30,%r31,%r32,%r33};")):kernel("k"):emulate {
      grid = { 1 }, block = { 32 }, args = { out } })
    return out:totable()
  end

  -- Element (row, column) of matrix j in the filled tile.
  local function element(j, row, column) return (8 * j + row) * 8 + column end

  it("load rows", function()
    local got = moved "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30,%r31,%r32,%r33}, [%r2]"
    for t = 0, 31 do
      for j = 0, 3 do
        local g, q = t >> 2, t & 3
        assert.equal(element(j, g, 2 * q) | element(j, g, 2 * q + 1) << 16, got[4 * t + j + 1])
      end
    end
  end)

  it("load columns", function()
    local got = moved "ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%r30,%r31,%r32,%r33}, [%r2]"
    for t = 0, 31 do
      for j = 0, 3 do
        local g, q = t >> 2, t & 3
        assert.equal(element(j, 2 * q, g) | element(j, 2 * q + 1, g) << 16, got[4 * t + j + 1])
      end
    end
  end)

  it("store rows and columns", function()
    local rows = moved("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r20,%r21,%r22,%r23}", true)
    local columns = moved("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r2], {%r20,%r21,%r22,%r23}", true)
    for j = 0, 3 do
      for r = 0, 7 do
        for c = 0, 7 do
          local at = element(j, r, c) + 1
          assert.equal(64 * j + 4 * r + c // 2, rows[at])
          assert.equal(64 * j + 4 * c + r // 2, columns[at])
        end
      end
    end
  end)

  it("give back what they stored", function()
    local got = moved("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30,%r31,%r32,%r33}, [%r2];\n"
      .. " bar.warp.sync 0xffffffff;\n"
      .. " stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r30,%r31,%r32,%r33}", true)
    for i = 1, 256 do assert.equal(i - 1, got[i]) end
  end)
end)

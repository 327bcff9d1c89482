-- The worked examples of register fragments run as PTX: wgmma, ldmatrix, stmatrix.  Numbers in tables are
-- those of the documents.
local tc = require "tcmma"
local worked = require "worked_tables"

local fill, emulate, f32 = worked.fill, worked.emulate, worked.f32
local new_image, put_identity = worked.new_image, worked.put_identity
local put_row, IDENTITY_AT, IDENTITY = worked.put_row, worked.IDENTITY_AT, worked.IDENTITY
local ROWS, SIZE = worked.ROWS, worked.SIZE
local KINDS, TILES, numbered = worked.KINDS, worked.TILES, worked.numbered
local compare = worked.compare

-- ---- wgmma ------------------------------------------------------------------------------------------

-- Runs $body in a warpgroup with the image in shared memory and %v0 .. loaded from words[thread]; stores
-- %f0 .. of $steps steps to out[step][thread].
local WGMMA = [[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 words, .param .u64 out)
{
 .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b32 %v<4>; .reg .b32 %d<64>; .reg .b64 %rd<12>;
 .shared .align 1024 .b8 tile[$size];
 .shared .align 8 .b64 bar;
 mov.u32 %r0, %tid.x;
 mov.u32 %r1, tile;
 mov.u32 %r2, bar;
 setp.eq.u32 %p0, %r0, 0;
 ld.param.u64 %rd0, [image];
 ld.param.u64 %rd1, [words];
 ld.param.u64 %rd2, [out];
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 bar.sync 0;
 @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], $size;
 @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], $size, [%r2];
loaded:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
 @!%p2 bra loaded;
 mad.wide.u32 %rd1, %r0, 16, %rd1;
 ld.global.v4.b32 {%v0,%v1,%v2,%v3}, [%rd1];
 mad.wide.u32 %rd2, %r0, $row, %rd2;
 $body
 ret;
}
]]

-- options: image, words (list of 4 words a thread), steps (list of instruction texts with $d), count
local function warpgroup(options)
  local body = {}
  for i, step in ipairs(options.steps) do
    local names = {}
    for r = 0, options.count - 1 do names[r + 1] = "%d" .. r end
    body[#body + 1] = "wgmma.fence.sync.aligned;\n" .. fill(step, { d = "{" .. table.concat(names, ",") .. "}" })
      .. "\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
    for r = 0, options.count - 1 do
      body[#body + 1] = ("st.global.b32 [%%rd2+%d], %%d%d;"):format(((i - 1) * 128 * options.count + r) * 4, r)
    end
  end
  local out = tc.zeros({ #options.steps, 128, options.count }, tc.u32)
  local words = {}
  for i = 1, 512 do words[i] = options.words and options.words[i] or 0 end
  emulate(fill(WGMMA, { size = SIZE, row = 4 * options.count, body = table.concat(body, "\n") }),
    { block = { 128 }, args = { options.image:array(SIZE), tc.from_table(words, tc.u32), out } })
  return out:totable()
end

local WGMMA_IDENTITY = IDENTITY & ~(1 << 46)

-- D's element i of a thread: row, column
local function accumulator_place(thread, i)
  local w, g, q = thread // 32, thread % 32 >> 2, thread % 4
  return 16 * w + g + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * q + (i & 1)
end

local WGMMA_FORMS = {
  f16 = { text = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 $d, $a, $b, 0, 1, 1, $t, 0;", count = 8 },
  bf16 = { text = "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 $d, $a, $b, 0, 1, 1, $t, 0;", count = 8 },
  tf32 = { text = "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 $d, $a, $b, 0, 1, 1;", count = 4 },
  e4m3 = { text = "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 $d, $a, $b, 0, 1, 1;", count = 16 },
}

describe("a worked tile in shared memory, as A of wgmma:", function()
  for _, tile in ipairs(TILES) do
    if tile.wgmma then
      it(tile.name, function()
        local kind, form = KINDS[tile.dtype], WGMMA_FORMS[tile.dtype]
        local image, expected = numbered(tile)
        put_identity(image, IDENTITY_AT, tile.dtype, kind.k)
        local steps, places = {}, {}
        for half = 0, 1 do -- rows 0 .. 63, 64 .. 127
          local down = tile.major == "mn" and tile.lbo or 8 * (tile.wgmma >> 32 & 0x3fff) * 16
          for s = 0, tile.k // kind.k - 1 do
            steps[#steps + 1] = ("mov.b64 %%rd10, %d;\n mov.b64 %%rd11, %d;\n"):format(
              tile.wgmma + (half * down + s * tile.step >> 4), WGMMA_IDENTITY)
              .. fill(form.text, { a = "%rd10", b = "%rd11", t = tile.major == "mn" and 1 or 0, d = "$d" })
            places[#steps] = { 64 * half, s * kind.k }
          end
        end
        local found = {}
        for s, threads in ipairs(warpgroup { image = image, steps = steps, count = form.count }) do
          for thread, row in ipairs(threads) do
            for i, bits in ipairs(row) do
              local m, k = accumulator_place(thread - 1, i - 1)
              m, k = m + places[s][1], k + places[s][2]
              found[m] = found[m] or {}
              found[m][k] = f32(bits)
            end
          end
        end
        compare(expected, 128, tile.k, function(m, k) return found[m][k] end)
      end)
    end
  end
end)

describe("fragments of wgmma", function()
  local function half_codes(code) return code & 0xffff, code >> 16 end
  local function f16(code) return tc.f16:decode(code) end

  -- D[m][n] = m + 64 n with n < 16: A = (m, 1), B = (1, 64 n)
  local function accumulator(text, count)
    local image = new_image()
    for m = 0, 63 do put_row(image, 0, m, 2, { m, 1 }, "f16") end
    for n = 0, 15 do put_row(image, IDENTITY_AT, n, 2, { 1, 64 * n }, "f16") end
    return warpgroup { image = image, count = count, steps = {
      ("mov.b64 %%rd10, %d;\n mov.b64 %%rd11, %d;\n"):format(ROWS & ~(1 << 46), WGMMA_IDENTITY)
        .. fill(text, { a = "%rd10", b = "%rd11", d = "$d", t = 0 }) } }[1]
  end

  it("f32 D: register 6 of thread 77 is row 43, column 10", function()
    local threads = accumulator(WGMMA_FORMS.f16.text, 8)
    assert.equal(43 + 64 * 10, f32(threads[77 + 1][6 + 1]))
    for thread = 0, 127 do
      for i = 0, 7 do
        local m, n = accumulator_place(thread, i)
        assert.equal(m + 64 * n, f32(threads[thread + 1][i + 1]))
      end
    end
  end)

  it("f16 D: element i is half i & 1 of register i / 2", function()
    local threads = accumulator("wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 $d, $a, $b, 0, 1, 1, 0, 0;", 4)
    for thread = 0, 127 do
      for i = 0, 7 do
        local m, n = accumulator_place(thread, i)
        local low, high = half_codes(threads[thread + 1][i // 2 + 1])
        assert.equal(m + 64 * n, f16(i % 2 == 0 and low or high))
      end
    end
  end)

  -- elements of a thread, place(thread, i) -> row, k; register i / per, low bits first
  for _, case in ipairs {
    { "16-bit", "f16", 8, "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 $d, $a, $b, 0, 1, 1, 0;", 8,
      function(m, k) return 16 * m + k end,
      function(w, g, q, i) return 16 * w + g + 8 * (i >> 1 & 1), 2 * q + (i & 1) + 8 * (i >> 2) end },
    { "tf32", "tf32", 4, "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 $d, $a, $b, 0, 1, 1;", 4,
      function(m, k) return 8 * m + k end,
      function(w, g, q, i) return 16 * w + g + 8 * (i & 1), q + 4 * (i >> 1) end },
    { "8-bit", "e4m3", 16, "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 $d, $a, $b, 0, 1, 1;", 16,
      function(m, k) return (5 * m + k) % 17 end,
      function(w, g, q, i) return 16 * w + g + 8 * (i >> 2 & 1), 4 * q + (i & 3) + 16 * (i >> 3) end },
  } do
    local name, dtype, elements, text, count, value, place = table.unpack(case)
    it("A in registers, " .. name, function()
      local kind, image, words = KINDS[dtype], new_image(), {}
      put_identity(image, IDENTITY_AT, dtype, kind.k)
      local bits = tc.dtype(dtype).bits
      for thread = 0, 127 do
        for i = 0, elements - 1 do
          local m, k = place(thread // 32, thread % 32 >> 2, thread % 4, i)
          local word = thread * 4 + i * bits // 32 + 1
          words[word] = (words[word] or 0) | tc.dtype(dtype):encode(value(m, k)) << i * bits % 32
        end
      end
      local threads = warpgroup { image = image, words = words, count = count, steps = {
        ("mov.b64 %%rd11, %d;\n"):format(WGMMA_IDENTITY)
          .. fill(text, { a = "{%v0,%v1,%v2,%v3}", b = "%rd11", d = "$d" }) } }[1]
      for thread = 0, 127 do
        for i = 0, count - 1 do
          local m, k = accumulator_place(thread, i)
          assert.equal(value(m, k), f32(threads[thread + 1][i + 1]))
        end
      end
    end)
  end
end)

-- ---- ldmatrix and stmatrix --------------------------------------------------------------------------

-- One warp: image to shared memory, thread t's row is at 16 t; $body with %v0 .. %v3 in and out.
local function matrix_move(body, image, words)
  local text = fill([[
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 words, .param .u64 smem)
{
 .reg .b32 %r<8>; .reg .b32 %v<4>; .reg .b64 %rd<8>;
 .shared .align 1024 .b8 tile[512];
 mov.u32 %r0, %tid.x;
 mov.u32 %r1, tile;
 shl.b32 %r2, %r0, 4;
 add.u32 %r1, %r1, %r2;
 cvt.u64.u32 %rd3, %r2;
 ld.param.u64 %rd0, [image];
 ld.param.u64 %rd1, [words];
 ld.param.u64 %rd2, [smem];
 add.u64 %rd0, %rd0, %rd3;
 add.u64 %rd1, %rd1, %rd3;
 add.u64 %rd2, %rd2, %rd3;
 ld.global.v4.b32 {%v0,%v1,%v2,%v3}, [%rd0];
 st.shared.v4.b32 [%r1], {%v0,%v1,%v2,%v3};
 ld.global.v4.b32 {%v0,%v1,%v2,%v3}, [%rd1];
 bar.warp.sync 0xffffffff;
 $body
 bar.warp.sync 0xffffffff;
 st.global.v4.b32 [%rd1], {%v0,%v1,%v2,%v3};
 ld.shared.v4.b32 {%v0,%v1,%v2,%v3}, [%r1];
 st.global.v4.b32 [%rd2], {%v0,%v1,%v2,%v3};
 ret;
}
]], { body = body })
  local registers_array = tc.from_table(words or { 0 }, tc.u32, words and { 32, 4 } or { 1 })
  if not words then registers_array = tc.zeros({ 32, 4 }, tc.u32) end
  local smem = tc.zeros({ 512 }, tc.u8)
  emulate(text, { block = { 32 }, args = { image, registers_array, smem } })
  return registers_array:totable(), smem:tobytes()
end

local function bytes_image(byte)
  local list = {}
  for i = 0, 511 do list[i + 1] = string.char(byte(i // 16, i % 16) & 255) end
  return tc.frombytes(table.concat(list), tc.u8, { 512 })
end

describe("ldmatrix", function()
  -- u16 element c of row s (0 .. 31) is 8 s + c; matrix j has rows 8 j ..
  local halves = bytes_image(function(s, b) return 8 * s + b // 2 >> 8 * (b % 2) end)

  for _, count in ipairs { 1, 2, 4 } do
    local names = table.concat({ "%v0", "%v1", "%v2", "%v3" }, ",", 1, count)
    it("m8n8.x" .. count, function()
      local text = ("ldmatrix.sync.aligned.m8n8.x%d.shared.b16 {%s}, [%%r1];"):format(count, names)
      local found = matrix_move(text, halves)
      for t = 0, 31 do
        local g, q = t >> 2, t & 3
        for j = 0, count - 1 do
          local at = 8 * (8 * j + g)
          assert.equal(at + 2 * q | (at + 2 * q + 1) << 16, found[t + 1][j + 1])
        end
      end
    end)
    it("m8n8.trans.x" .. count, function()
      local found = matrix_move(("ldmatrix.sync.aligned.m8n8.x%d.trans.shared.b16 {%s}, [%%r1];"):format(count, names),
        halves)
      for t = 0, 31 do
        local g, q = t >> 2, t & 3
        for j = 0, count - 1 do
          assert.equal(8 * (8 * j + 2 * q) + g | (8 * (8 * j + 2 * q + 1) + g) << 16, found[t + 1][j + 1])
        end
      end
    end)
  end

  for _, count in ipairs { 1, 2 } do
    it("m16n16.trans.b8.x" .. count, function()
      local function byte(s, c) return s < 16 and 16 * s + c or 255 - 16 * (s - 16) - c end
      local names = table.concat({ "%v0", "%v1", "%v2", "%v3" }, ",", 1, 2 * count)
      local text = ("ldmatrix.sync.aligned.m16n16.x%d.trans.shared.b8 {%s}, [%%r1];"):format(count, names)
      local found = matrix_move(text, bytes_image(byte))
      for t = 0, 31 do
        local g, q = t >> 2, t & 3
        for matrix = 0, count - 1 do
          for r = 0, 1 do
            for j = 0, 3 do
              assert.equal(byte(16 * matrix + 4 * q + j, g + 8 * r), found[t + 1][2 * matrix + r + 1] >> 8 * j & 255)
            end
          end
        end
      end
    end)
  end

  for _, case in ipairs {
    { "b8x16.b4x16_p64", 4 }, { "b8x16.b6x16_p32", 6 },
  } do
    local form, bits = table.unpack(case)
    it("m8n16." .. form, function()
      local function code(s, c) return (5 * s + 3 * c) % (1 << bits) end
      local image = bytes_image(function(s, b)
        local packed = 0
        for i = 0, bits * 2 * 8 - 1 do -- the bits of byte b of the packed row
          local bit = 8 * b + (i - 8 * b)
          if bit // 8 == b then packed = packed | (code(s, bit // bits) >> bit % bits & 1) << bit % 8 end
        end
        return b < 2 * bits and packed or 0xee
      end)
      local found = matrix_move("ldmatrix.sync.aligned.m8n16.x4.shared." .. form .. " {%v0,%v1,%v2,%v3}, [%r1];", image)
      for t = 0, 31 do
        for j = 0, 3 do
          for b = 0, 3 do
            assert.equal(code(8 * j + (t >> 2), 4 * (t & 3) + b), found[t + 1][j + 1] >> 8 * b & 255)
          end
        end
      end
    end)
  end
end)

describe("stmatrix", function()
  local blank = bytes_image(function() return 0xee end)
  local words = {}
  for t = 0, 31 do -- halves 2 i and 2 i + 1 of the warp
    for j = 0, 3 do words[4 * t + j + 1] = 2 * (4 * t + j) | (2 * (4 * t + j) + 1) << 16 end
  end

  it("m8n8.x4 and .trans are the inverses", function()
    for _, trans in ipairs { false, true } do
      local _, smem = matrix_move(("stmatrix.sync.aligned.m8n8.x4%s.shared.b16 [%%r1], {%%v0,%%v1,%%v2,%%v3};")
        :format(trans and ".trans" or ""), blank, words)
      for t = 0, 31 do
        local g, q = t >> 2, t & 3
        for j = 0, 3 do
          for half = 0, 1 do
            local row, column = g, 2 * q + half
            if trans then row, column = column, row end
            assert.equal(2 * (4 * t + j) + half, (string.unpack("<I2", smem, (8 * j + row) * 16 + 2 * column + 1)))
          end
        end
      end
    end
  end)

  it("m16n8.trans.b8: byte J to row 2 q + (J & 1), byte g + 8 (J >> 1)", function()
    local codes = {}
    for t = 0, 31 do
      for j = 0, 3 do
        local word = 0
        for b = 0, 3 do word = word | ((t * 4 + b + 37 * j) & 255) << 8 * b end
        codes[4 * t + j + 1] = word
      end
    end
    local _, smem = matrix_move("stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r1], {%v0,%v1,%v2,%v3};", blank,
      codes)
    for t = 0, 31 do
      for j = 0, 3 do
        for b = 0, 3 do
          assert.equal((t * 4 + b + 37 * j) & 255,
            smem:byte((8 * j + 2 * (t & 3) + (b & 1)) * 16 + (t >> 2) + 8 * (b >> 1) + 1))
        end
      end
    end
  end)
end)

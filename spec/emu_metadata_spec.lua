-- Which thread's register holds the metadata of which row and which part of K, in sparse warp-level MMAs:
-- what an H200 does.
local tc = require "tcmma"

-- A is ones, B the identity over columns 8 i .. 8 i + 7: D(m, n) is 1 where row m keeps element 8 i + n.
local function kernel(k, types, one, registers)
  return tc.ptx((([[
.version 8.5
.target sm_90a
.address_size 64
.visible .entry probe(.param .u64 identity, .param .u64 metadata, .param .u64 out)
{
 .reg .b32 %r<50>; .reg .b64 %rd<8>;
 mov.u32 %r0, %tid.x;
 ld.param.u64 %rd0, [identity];
 ld.param.u64 %rd1, [metadata];
 ld.param.u64 %rd2, [out];
 mul.wide.u32 %rd3, %r0, 16;
 add.u64 %rd0, %rd0, %rd3;
 add.u64 %rd2, %rd2, %rd3;
 ld.global.v4.u32 {%r10,%r11,%r12,%r13}, [%rd0];
 mul.wide.u32 %rd4, %r0, 4;
 add.u64 %rd1, %rd1, %rd4;
 ld.global.u32 %r5, [%rd1];
 mov.u32 %r6, $one;
 mov.u32 %r7, 0;
 mma.sp::ordered_metadata.sync.aligned.m16n8k$k.row.col.$types {%r40,%r41,%r42,%r43}, {%r6,%r6,%r6,%r6},
   {%r10,%r11,%r12,%r13}, {%r7,%r7,%r7,%r7}, %r5, $selector;
 st.global.v4.b32 [%rd2], {%r40,%r41,%r42,%r43};
 ret;
}
]]):gsub("%$(%w+)", { k = k, types = types, one = one, selector = registers }))):kernel "probe"
end

-- B's fragment of block i: element (k, n) is 1 where k = 8 i + n.
local function identity(i, bits, one)
  local words, per = {}, 32 // bits
  for lane = 0, 31 do
    for register = 0, 3 do
      local word = 0
      for j = 0, per - 1 do
        local k = 4 * per * register + per * (lane % 4) + j
        if k == 8 * i + lane // 4 then word = word | one << bits * j end
      end
      words[#words + 1] = word
    end
  end
  return tc.from_table(words, tc.u32)
end

-- The places (row, group of K) that keep their third element, for these words of metadata.
local function kept(probe, k, bits, one, words)
  local places = {}
  for i = 0, k // 8 - 1 do
    local out = tc.zeros({ 32, 4 }, tc.u32)
    local report = probe:emulate { grid = { 1 }, block = { 32 },
      args = { identity(i, bits, one), tc.from_table(words, tc.u32), out } }
    assert.is_true(report.completed)
    for lane, row in ipairs(out:totable()) do
      for e, x in ipairs(row) do
        local m, n = (lane - 1) // 4 + 8 * ((e - 1) // 2), 8 * i + 2 * ((lane - 1) % 4) + (e - 1) % 2
        if x ~= 0 and n % 4 == 2 then places[#places + 1] = ("%d/%d"):format(m, n // 4) end
      end
    end
  end
  return table.concat(places, " ")
end

-- place(q, nibble) -> row beyond lane // 4, group of four along K.
local function check(k, types, bits, one, selector, place)
  local probe = kernel(k, types, ("0x%08x"):format(bits == 8 and one * 0x01010101 or one * 0x00010001), selector)
  for lane = 0, 31, 5 do
    for nibble = 0, 7 do
      local words = {}
      for i = 1, 32 do words[i] = 0x44444444 end
      words[lane + 1] = words[lane + 1] & ~(15 << 4 * nibble) | 14 << 4 * nibble
      local row, group = place(lane % 4, nibble)
      local expected = row and ("%d/%d"):format(lane // 4 + row, group) or ""
      assert.equal(expected, kept(probe, k, bits, one, words))
    end
  end
end

describe("metadata of mma.sp", function()
  for _, case in ipairs { { "s32.s8.s8.s32", 1 }, { "f32.e4m3.e4m3.f32", 0x38 } } do
    it("8-bit elements, " .. case[1], function()
      check(64, case[1], 8, case[2], 0, function(q, nibble) return 8 * (q % 2), 8 * (q // 2) + nibble end)
    end)
  end
  for selector = 0, 1 do
    it("16-bit elements, selector " .. selector, function()
      check(32, "f32.f16.f16.f32", 16, 0x3c00, selector, function(q, nibble)
        if q // 2 == selector then return 8 * (nibble // 4), 4 * (q % 2) + nibble % 4 end
      end)
    end)
  end
end)

-- Video instructions: values worked out by hand from the definitions of the ISA; the last ones from what the assembler
-- makes of them instead, as an H200 shows it (spec/device/video.lua).
local tc = require "tcmma"

-- mnemonic, how the operands are written, a, b, c and the result
local rows = {
  { "vadd.u32.u32.u32", "d, a, b", 0xfffffffe, 3, 0, 1 },
  { "vadd.u32.u32.u32.sat", "d, a, b", 0xfffffffe, 3, 0, 0xffffffff },
  { "vadd.s32.s32.s32.sat", "d, a, b", 0x7ffffffe, 3, 0, 0x7fffffff },
  { "vadd.s32.u32.s32", "d, a.b3, b.h0", 0xff000000, 0xffff, 0, 0xfe },
  { "vadd.u32.s32.s32.sat", "d, a.b0, b.b1", 0x80, 0x100, 0, 0 },
  { "vsub.s32.s32.s32", "d.b2, a, b, c", 1, 3, 0x11223344, 0x11fe3344 },
  { "vsub.u32.u32.u32.max", "d, a, b, c", 9, 2, 8, 8 },
  { "vsub.s32.u32.u32.min", "d, a, b, c", 2, 9, 8, 0xfffffff9 },
  { "vabsdiff.u32.s32.s32.add", "d, a, b, c", 0x80000000, 0x7fffffff, 5, 4 },
  { "vmin.s32.s32.u32", "d, a.h1, b", 0x8000ffff, 1, 0, 0xffff8000 },
  { "vmax.u32.s32.u32", "d, a, b.b0", 0xffffffff, 0x82, 0, 0x82 },
  { "vshl.u32.u32.u32.clamp", "d, a, b", 0xff, 40, 0, 0 },
  { "vshl.u32.u32.u32.wrap", "d, a, b", 0xff, 40, 0, 0xff00 },
  { "vshr.s32.s32.u32.clamp", "d, a.h0, b", 0x8000, 40, 0, 0xffffffff },
  { "vshr.u32.u32.u32.wrap.add", "d, a, b.b1, c", 0x1000, 0x0400, 1, 0x101 },
  { "vmad.u32.u32.u32", "d, a.h0, b.h1, c", 0x10003, 0x50002, 7, 22 },
  { "vmad.s32.s32.u32", "d, a, -b, c", 0xfffffffd, 5, 1, 16 },
  { "vmad.s32.s32.s32", "d, a, b, -c", 3, 5, 20, 0xfffffffb },
  { "vmad.u32.u32.u32.po.shr7", "d, a, b, c", 128, 2, 127, 3 },
  { "vmad.u32.u32.u32.sat", "d, a, b, c", 0x10000, 0x10000, 0, 0xffffffff },
  { "vmad.s32.s32.s32.sat.shr15", "d, a, b, c", 0x80000000, 0x7fffffff, 0, 0x80000000 },
  { "vset.s32.u32.lt", "d, a, b", 0xffffffff, 0, 0, 1 },
  { "vset.u32.u32.ge.add", "d, a, b.b0", 2, 0x102, 6, nil },
  { "vset.u32.u32.ge.add", "d, a, b.b0, c", 2, 0x102, 6, 7 },
  { "vset.u32.u32.ne", "d.b3, a, b, c", 2, 3, 0xaabbccdd, 0x01bbccdd },
  { "vadd2.u32.u32.u32", "d, a, b, c", 0xffff0001, 0x00020003, 0, 0x00010004 },
  { "vadd2.s32.s32.s32.sat", "d.h1, a, b, c", 0x7fff0001, 0x00020003, 0x99998888, 0x7fff8888 },
  { "vsub2.u32.u32.u32.add", "d, a.h02, b.h31, c", 0x00050009, 0x00010002, 10, 10 + 8 - 3 },
  { "vavrg2.s32.s32.s32", "d, a, b, c", 0xfffe0003, 0xffff0004, 0, 0xfffe0004 },
  { "vabsdiff4.u32.u32.u32.add", "d, a, b, c", 0x01020304, 0x04030201, 100, 108 },
  { "vmin4.s32.s32.s32", "d.b31, a, b, c", 0x80ff7f01, 0x01010101, 0xaaaaaaaa, 0x80aa01aa },
  { "vmax4.u32.u32.u32", "d, a.b0123, b.b7777, c", 0x01020304, 0x03000000, 0, 0x04030303 },
  { "vset4.u32.u32.eq", "d, a, b, c", 0x01020304, 0x01000300, 0, 0x01000100 },
  { "vset2.s32.s32.gt.add", "d, a, b, c", 0x0001ffff, 0x0000fffe, 40, 42 },
  -- the upper half takes the upper half of the result
  { "vadd.u32.u32.u32", "d.h1, a, b, c", 0xabcd0000, 1, 0x12345678, 0xabcd5678 },
  -- a part takes what is below its range as its greatest value
  { "vsub.s32.s32.s32.sat", "d.b0, a, b, c", 1, 3, 0x12345600, 0x1234567f },
  -- an unsigned sum with its top bit is greater than any c
  { "vadd.u32.u32.u32.max", "d, a, b, c", 0x80000000, 1, 0xfffffff0, 0x80000001 },
  -- words are multiplied and added with their signs
  { "vmad.u32.u32.u32.shr7", "d, a, b, c", 0xffffff80, 1, 0, 0xffffffff },
  -- what a shift leaves is of 34 bits
  { "vshl.u32.u32.u32.sat.clamp", "d, a.b0, b", 2, 32, 0, 0 },
}

local function run(mnemonic, operands, a, b, c)
  local out = tc.zeros({ 1 }, tc.u32)
  local text = ([[
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 p0, .param .u32 p1, .param .u32 p2)
{
 .reg .b32 a, b, c, d; .reg .b64 %%rd;
 ld.param.u64 %%rd, [out]; ld.param.u32 a, [p0]; ld.param.u32 b, [p1]; ld.param.u32 c, [p2];
 %s %s;
 st.global.u32 [%%rd], d;
 ret;
}]]):format(mnemonic, operands)
  local report = tc.ptx(text):kernel("k"):emulate { block = { 1 }, args = { out, a, b, c } }
  assert.is_true(report.completed, report:text())
  return out:totable()[1]
end

describe("video instructions", function()
  for _, row in ipairs(rows) do
    local mnemonic, operands, a, b, c, result = table.unpack(row, 1, 6)
    if result then
      it(mnemonic .. " " .. operands, function()
        assert.equal(("%08x"):format(result), ("%08x"):format(run(mnemonic, operands, a, b, c)))
      end)
    else
      it(mnemonic .. " " .. operands .. " is refused", function()
        assert.has_error(function() run(mnemonic, operands, a, b, c) end)
      end)
    end
  end

  it("name what is wrong with a selector", function()
    local fine, message = pcall(run, "vadd.u32.u32.u32", "d, a.h2, b", 1, 2, 3)
    assert.is_false(fine)
    assert.match("operand 2 has the selector %.h2; it is %.b0 to %.b3, %.h0 or %.h1", message)
  end)
end)

-- ldmatrix, stmatrix and movmatrix: every shape, with rows in random order.
local kernels = require "spec.device.kernels"
local operands = require "spec.device.operands"

-- Shared memory of a warp; %r10 is the address that its lane gives, a row of 16 bytes.
local frame = [[
 .shared .align 128 .b8 tile[2048];
 mov.u32 %%r20, %%tid.x; mov.u32 %%r21, tile; mov.u32 %%r22, %%r20;
FILL:
 mad.lo.u32 %%r23, %%r22, 16, %%r21; mul.wide.u32 %%rd5, %%r22, 16; ld.param.u64 %%rd1, [in];
 mad.wide.u32 %%rd1, %%r0, 4096, %%rd1; add.u64 %%rd6, %%rd1, %%rd5;
 ld.global.v2.b64 {%%rd7, %%rd8}, [%%rd6]; st.shared.v2.b64 [%%r23], {%%rd7, %%rd8};
 add.u32 %%r22, %%r22, 32; setp.lt.u32 %%p1, %%r22, 128;
 @%%p1 bra FILL;
 bar.sync 0;
 mul.wide.u32 %%rd5, %%r20, 4; add.u64 %%rd6, %%rd1, %%rd5;
 ld.global.b32 %%r10, [%%rd6+2048]; add.u32 %%r10, %%r10, %%r21;
 mul.wide.u32 %%rd5, %%r20, 16; add.u64 %%rd6, %%rd1, %%rd5;
 ld.global.v4.b32 {%%r11, %%r12, %%r13, %%r14}, [%%rd6+2176];
%s]]

local BLOCKS = 16

-- A block: 2048 bytes of tile, 32 offsets of rows (each its own), 512 bytes of registers, padding.
local function input()
  local parts, random = {}, operands.stream(77)
  for block = 1, BLOCKS do
    local rows = {}
    for i = 0, 127 do rows[i + 1] = i * 16 end
    for i = 128, 2, -1 do
      local j = (random() >> 20 & 0xffff) % i + 1
      rows[i], rows[j] = rows[j], rows[i]
    end
    parts[#parts + 1] = operands.bytes(2048, block)
    parts[#parts + 1] = string.pack(("<I4"):rep(32), table.unpack(rows, 1, 32))
    parts[#parts + 1] = operands.bytes(4096 - 2048 - 128, block + 100)
  end
  return table.concat(parts)
end

local dump = [[
 bar.sync 0;
 mov.u32 %%r22, %%r20; ld.param.u64 %%rd2, [out]; mad.wide.u32 %%rd2, %%r0, 2048, %%rd2;
DUMP:
 mad.lo.u32 %%r23, %%r22, 16, %%r21; mul.wide.u32 %%rd5, %%r22, 16; add.u64 %%rd6, %%rd2, %%rd5;
 ld.shared.v2.b64 {%%rd7, %%rd8}, [%%r23]; st.global.v2.b64 [%%rd6], {%%rd7, %%rd8};
 add.u32 %%r22, %%r22, 32; setp.lt.u32 %%p1, %%r22, 128;
 @%%p1 bra DUMP;]]

return function()
  local cases, bytes = {}, input()
  local function add(name, text, out_bytes, per_block)
    cases[#cases + 1] = { name = name, stride = 4, grid = { BLOCKS }, block = { 32 },
      text = kernels.entry(0, out_bytes, frame:format(text)),
      args = { { input = bytes }, { output = BLOCKS * per_block } } }
  end
  local function load(name, count)
    local list = { "%r30", "%r31", "%r32", "%r33" }
    add(name, (" mov.u32 %%r30, 0; mov.u32 %%r31, 0; mov.u32 %%r32, 0; mov.u32 %%r33, 0;\n %s {%s}, [%%r10];\n"
      .. " st.global.v4.b32 [%%rd2], {%%r30, %%r31, %%r32, %%r33};"):format(name, table.concat(list, ", ", 1, count)),
      16, 512)
  end
  local function store(name, count)
    local list = { "%r11", "%r12", "%r13", "%r14" }
    add(name, (" %s [%%r10], {%s};\n"):format(name, table.concat(list, ", ", 1, count)) .. dump:gsub("%%%%", "%%"), 16,
      2048)
  end
  for _, count in ipairs { 1, 2, 4 } do
    for _, trans in ipairs { "", ".trans" } do
      for _, space in ipairs { ".shared", ".shared::cta" } do
        load(("ldmatrix.sync.aligned.m8n8.x%d%s%s.b16"):format(count, trans, space), count)
        store(("stmatrix.sync.aligned.m8n8.x%d%s%s.b16"):format(count, trans, space), count)
      end
    end
  end
  add("movmatrix.sync.aligned.m8n8.trans.b16", [[
 movmatrix.sync.aligned.m8n8.trans.b16 %r30, %r11; st.global.b32 [%rd2], %r30;]], 4, 128)
  return cases
end

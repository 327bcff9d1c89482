-- Kernels around one instruction: a thread takes its row of operands, applies the instruction, writes its result.
local operands = require "spec.device.operands"

local M = { ROWS = 4096, BLOCK = 256 }

M.header = ".version 8.8\n.target sm_90a\n.address_size 64\n"

-- Registers that every kernel has; %rd1 and %rd2 are the row and the result of the thread, %r1 its number.
local opening = [[
.visible .entry KERNEL(.param .u64 in, .param .u64 out)
{
 .reg .b128 %%q<24>; .reg .b64 %%rd<40>; .reg .b32 %%r<80>; .reg .b16 %%h<40>; .reg .pred %%p<8>;
 mov.u32 %%r0, %%ctaid.x;
 mov.u32 %%r1, %%tid.x;
 mov.u32 %%r2, %%ntid.x;
 mad.lo.u32 %%r1, %%r0, %%r2, %%r1;
 ld.param.u64 %%rd1, [in];
 ld.param.u64 %%rd2, [out];
 mad.wide.u32 %%rd1, %%r1, %d, %%rd1;
 mad.wide.u32 %%rd2, %%r1, %d, %%rd2;
]]

-- parameters: more of them, as ", .param .u32 size".
function M.entry(in_bytes, out_bytes, body, parameters)
  local head = opening:format(in_bytes, out_bytes)
  if parameters then head = head:gsub("out%)", "out" .. parameters .. ")", 1) end
  return head .. body .. "\n ret;\n}\n"
end

-- Name of operand i as a register of its width, and the text that loads it from the row.
local function load(i, type)
  local width = math.max(operands.bits[type], 16)
  local wide = ("%%rd%d"):format(9 + i)
  local text = (" ld.global.u64 %s, [%%rd1+%d];"):format(wide, 8 * (i - 1))
  if width == 64 then return wide, text end
  local narrow = (width == 32 and "%%r%d" or "%%h%d"):format(9 + i)
  return narrow, text .. ("\n cvt.u%d.u64 %s, %s;"):format(width, narrow, wide)
end

-- form: name; result and sources (types); immediate; or body, which finds its operands in the registers that load()
-- names and leaves the result in %rd3.
function M.case(form, options)
  options = options or {}
  local text, registers = {}, {}
  for i, type in ipairs(form.sources) do registers[i], text[i] = load(i, type) end
  if form.body then
    text[#text + 1] = form.body
  else
    registers[#registers + 1] = form.immediate
    local width = math.max(operands.bits[form.result], form.result == "pred" and 1 or 16)
    local result = ({ [1] = "%p0", [16] = "%h1", [32] = "%r3", [64] = "%rd3" })[width]
    text[#text + 1] = (" %s %s, %s;"):format(form.name, result, table.concat(registers, ", "))
    if width == 1 then
      text[#text + 1] = " selp.u64 %rd3, 1, 0, %p0;"
    elseif width ~= 64 then
      text[#text + 1] = (" cvt.u64.u%d %%rd3, %s;"):format(width, result)
    end
  end
  text[#text + 1] = " st.global.u64 [%rd2], %rd3;"
  local rows, block = options.rows or M.ROWS, options.block or M.BLOCK
  return {
    name = form.name .. (form.immediate and " " .. form.immediate or ""), result = form.result, stride = 8,
    family = form.name:match "^%w+", text = M.entry(32, 8, table.concat(text, "\n")), grid = { rows // block },
      block = { block },
    args = { { input = operands.rows(form.sources, rows, 4) }, { output = rows * 8 } },
  }
end

return M

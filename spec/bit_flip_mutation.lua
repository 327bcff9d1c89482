-- Bits of a descriptor or of a tensor map inverted in the text of a kernel.
local M = {}

local function lines_of(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  return lines
end

-- ---- operands of multiplications --------------------------------------------------------------------

-- "a, {b, c}, [d + 0]" -> { "a", "{b, c}", "[d + 0]" }
local function operands_of(list)
  local operands, depth, begun = {}, 0, 1
  for at, sign in list:gmatch "()([%[%]{},])" do
    if sign == "," and depth == 0 then
      operands[#operands + 1] = list:sub(begun, at - 1)
      begun = at + 1
    elseif sign ~= "," then
      depth = depth + ((sign == "[" or sign == "{") and 1 or -1)
    end
  end
  operands[#operands + 1] = list:sub(begun)
  for i, operand in ipairs(operands) do operands[i] = operand:match "^%s*(.-)%s*$" end
  return operands
end

-- The lines with a tcgen05.mma or wgmma.mma_async, in order.
function M.multiplications(text)
  local list = {}
  for i, line in ipairs(lines_of(text)) do
    local head, operands = line:match "^(.-[%w_]+%.mma[%w_]*%.%S+)%s+(.*);%s*$"
    if head and not line:match "^%s*//" then
      list[#list + 1] = { line = i, head = head, operands = operands_of(operands) }
    end
  end
  return list
end

-- The text with the bits `mask` of operand `which` of one multiplication inverted, right before it.
function M.flip_operand(text, multiplication, which, width, mask)
  local lines = lines_of(text)
  local operands = table.move(multiplication.operands, 1, #multiplication.operands, 1, {})
  local flip = ("xor.b%d %%flipped, %s, 0x%x;"):format(width, operands[which], mask)
  operands[which] = "%flipped"
  lines[multiplication.line] = ("{ .reg .b%d %%flipped; %s\n%s %s; }"):format(width, flip, multiplication.head,
    table.concat(operands, ", "))
  return table.concat(lines, "\n")
end

-- ---- tensor maps --------------------------------------------------------------------------------------

-- The line that leaves the generic address of a parameter in a register, and that register.
local function address_of(lines, parameter)
  local from
  for i, line in ipairs(lines) do
    from = from or line:match("^%s*mov%.b64%s+(%%%w+), " .. parameter .. ";")
    local to = from and line:match("^%s*cvta%.param%.u64%s+(%%%w+), %" .. from .. ";")
    if to then return i, to end
  end
  error("the address of parameter " .. parameter .. " is not formed by mov and cvta")
end

-- The 128 bytes of a map are an encoding of the emulator's own, so that what is inverted are the fields that
-- tensormap.replace knows.  Before the first instruction that may use the map, a copy in global memory (128 bytes at a
-- further parameter) gets the field's new value, and the kernel the address of the copy.
local COPY = [[
{
 .reg .pred %%others;
 .reg .b32 %%thread;
 .reg .b64 %%copy, %%word;
 ld.param.u64 %%copy, [map_copy];
 mov.u32 %%thread, %%tid.x;
 setp.ne.u32 %%others, %%thread, 0;
 @%%others bra COPIED;
%s
%s
 fence.proxy.tensormap::generic.release.gpu;
COPIED:
 bar.sync 0;
 fence.proxy.tensormap::generic.acquire.gpu [%%copy], 128;
 mov.b64 %s, %%copy;
}]]

local function replacement(field, flip)
  local width, new = field.width == 64 and 64 or 32, "%word"
  local value = ("mov.b64 %%word, %d;"):format((field.value or 0) ~ flip)
  if field.name == "global_address" then
    value = ("ld.param.u64 %%word, [map_array];\n xor.b64 %%word, %%word, 0x%x;"):format(flip)
  elseif width == 32 then
    new = ("%d"):format(field.value ~ flip)
  end
  return (" %s\n tensormap.replace.tile.%s.global.b1024.b%d [%%copy], %s%s;"):format(value, field.name, width,
    field.ordinal and field.ordinal .. ", " or "", new)
end

-- The text with one field of a map replaced by its value with the bits `flip` inverted.  The kernel takes two further
-- arguments: 128 bytes of global memory, and the array of the map.  field: name and ordinal of tensormap.replace, width
-- of its operand, value in the map (that of the address is the array's).
function M.replace_in_map(text, parameter, field, flip)
  local lines = lines_of(text)
  local at, register = address_of(lines, parameter)
  local copies = {}
  for offset = 0, 120, 8 do
    copies[#copies + 1] = (" ld.param.b64 %%word, [%s+%d];\n st.global.b64 [%%copy+%d], %%word;")
      :format(parameter, offset, offset)
  end
  lines[at] = lines[at] .. "\n" .. COPY:format(table.concat(copies, "\n"), replacement(field, flip), register)
  return (table.concat(lines, "\n"):gsub("(%.entry [^(]*%b())", function(entry)
    return entry:sub(1, -2):gsub("%s*$", "") .. ",\n\t.param .u64 map_copy,\n\t.param .u64 map_array\n)"
  end, 1))
end

return M

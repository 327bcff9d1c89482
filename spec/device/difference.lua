-- How far two memories of one case are apart.
local explained = require "spec.device.explained"

local M = {}

local layouts = {
  f16 = { "<I2", 2, 10, 16 }, bf16 = { "<I2", 2, 7, 16 }, f16x2 = { "<I2", 2, 10, 16 }, bf16x2 = { "<I2", 2, 7, 16 },
  f32 = { "<I4", 4, 23, 32 }, f64 = { "<i8", 8, 52, 64 }, tf32 = { "<I4", 4, 23, 32 },
}

-- Floats in their order as integers, NaN as nil.
local function ordinal(bits, mantissa, width)
  local magnitude = bits & ~(1 << width - 1)
  if magnitude > ((1 << width - 1 - mantissa) - 1) << mantissa then return nil end
  return bits >> width - 1 & 1 == 1 and -magnitude or magnitude
end

local function value_of(bits, layout)
  local _, bytes, mantissa, width = table.unpack(layout)
  if bytes == 8 then return (string.unpack("<d", string.pack("<i8", bits))) end
  if bytes == 4 then return (string.unpack("<f", string.pack("<I4", bits))) end
  local field, fraction = bits >> mantissa & (1 << width - 1 - mantissa) - 1, bits & (1 << mantissa) - 1
  local bias = mantissa == 10 and 15 or 127
  local magnitude = field == 0 and fraction * 2.0 ^ (1 - bias - mantissa)
    or (fraction + (1 << mantissa)) * 2.0 ^ (field - bias - mantissa)
  return bits >> width - 1 == 1 and -magnitude or magnitude
end

-- The largest distance in units of the last place, of results that are farther than `near` apart; nil where only one
-- of the
-- two is a number.
function M.distance(case, here, there, near)
  local layout = layouts[case.result]
  if not layout then return nil end
  local format, bytes, mantissa, width = table.unpack(layout)
  local most = 0
  local stride = math.max(case.stride or bytes, bytes)
  local parts = case.result:match "x2$" and 2 or 1
  for at = 1, #here - stride + 1, stride do
    for part = 0, parts - 1 do
      local x, y = string.unpack(format, here, at + part * bytes), string.unpack(format, there, at + part * bytes)
      local a, b = ordinal(x, mantissa, width), ordinal(y, mantissa, width)
      if (a == nil) ~= (b == nil) then return nil end
      if a and math.abs(a - b) > most
        and not (near and math.abs(value_of(x, layout) - value_of(y, layout)) <= near) then
        most = math.abs(a - b)
      end
    end
  end
  return most
end

-- The first rows where they differ, and how many.
function M.rows(case, here, there)
  local stride, list, count = case.stride or 4, {}, 0
  if #here ~= #there then return 1, { ("%d bytes against %d"):format(#here, #there) } end
  for at = 1, #here, stride do
    local a, b = here:sub(at, at + stride - 1), there:sub(at, at + stride - 1)
    if a ~= b then
      count = count + 1
      if #list < 4 then
        local function hex(text) return (text:reverse():gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end
        list[#list + 1] = ("[%d] device %s emulator %s"):format((at - 1) // stride, hex(a), hex(b))
      end
    end
  end
  return count, list
end

function M.rule(case)
  for _, rule in ipairs(explained) do
    if case.name:match(rule[1]) then return rule end
  end
end

-- "equal", "explained" (with the rule and the distance) or "different".
function M.judge(case, device, emulator)
  if device == emulator then return "equal" end
  local rule = M.rule(case)
  local distance = rule and rule[3] and M.distance(case, device, emulator, rule[4])
  if rule and (not rule[3] or distance and distance <= rule[3]) then return "explained", rule, distance end
  return "different", rule, distance
end

return M

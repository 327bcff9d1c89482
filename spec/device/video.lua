-- Video instructions: every operation and combination of types, with and without saturation, with each second operation
-- and with selectors that change from case to case.
local kernels = require "spec.device.kernels"

local ROWS = 1024
local scalar_selectors = { "", ".b0", ".h1", "", ".b3", ".h0", ".b1", "", ".b2" }
local half_selectors = { "", ".h10", ".h32", ".h03", ".h21", ".h13", ".h00" }
local byte_selectors = { "", ".b7654", ".b0123", ".b7070", ".b1526", ".b3333", ".b6402" }
local half_masks = { "", ".h0", ".h1", ".h10" }
local byte_masks = { "", ".b0", ".b3", ".b21", ".b310", ".b3210", ".b20" }

-- Every eighth of a run of types of d, a and b, from sss to uuu.
local function types(i)
  local function letter(bit) return i >> bit & 1 == 0 and "s32" or "u32" end
  return letter(2), letter(1), letter(0)
end

return function()
  local cases, turn = {}, 0
  local function pick(list, step) return list[(turn * (step or 1)) % #list + 1] end
  -- operands: what stands behind the mnemonic, of %r3 (the result), %r10, %r11 and %r12
  local function add(name, operands)
    turn = turn + 1
    local form = { name = ("%s %s"):format(name, operands:gsub("%%", "")), result = "u64",
      sources = { "b32", "b32", "b32" }, body = (" %s %s;\n cvt.u64.u32 %%rd3, %%r3;"):format(name, operands) }
    local case = kernels.case(form, { rows = ROWS })
    case.family = name:match "^%a+"
    cases[#cases + 1] = case
  end
  local function sources(selectors)
    return ("%%r10%s, %%r11%s"):format(pick(selectors), pick(selectors, 4))
  end
  -- The ways in which the third operand takes part: not at all, in a second operation, as what is merged into.
  local function endings(name, selectors)
    add(name, "%r3, " .. sources(selectors))
    for _, second in ipairs { "add", "min", "max" } do
      add(name .. "." .. second, ("%%r3, %s, %%r12"):format(sources(selectors)))
    end
    for _, part in ipairs { ".h0", ".h1", ".b0", ".b2", ".b3" } do
      add(name, ("%%r3%s, %s, %%r12"):format(part, sources(selectors)))
    end
  end

  for i = 0, 7 do
    local d, a, b = types(i)
    for _, operation in ipairs { "vadd", "vsub", "vabsdiff", "vmin", "vmax" } do
      endings(("%s.%s.%s.%s"):format(operation, d, a, b), scalar_selectors)
      endings(("%s.%s.%s.%s.sat"):format(operation, d, a, b), scalar_selectors)
    end
    for _, mode in ipairs { "clamp", "wrap" } do
      for _, operation in ipairs(i % 2 == 1 and { "vshl", "vshr" } or {}) do
        endings(("%s.%s.%s.u32.%s"):format(operation, d, a, mode), scalar_selectors)
        endings(("%s.%s.%s.u32.sat.%s"):format(operation, d, a, mode), scalar_selectors)
      end
    end
    for _, scale in ipairs { "", ".shr7", ".shr15" } do
      for _, saturate in ipairs { "", ".sat" } do
        local name = ("vmad.%s.%s.%s"):format(d, a, b)
        local tail = saturate .. scale
        local x, y = pick(scalar_selectors), pick(scalar_selectors, 4)
        add(name .. tail, ("%%r3, %%r10%s, %%r11%s, %%r12"):format(x, y))
        add(name .. ".po" .. tail, ("%%r3, %%r10%s, %%r11%s, %%r12"):format(y, x))
        add(name .. tail, ("%%r3, -%%r10%s, %%r11%s, %%r12"):format(x, y))
        add(name .. tail, ("%%r3, %%r10%s, -%%r11%s, %%r12"):format(y, x))
        add(name .. tail, ("%%r3, %%r10%s, %%r11%s, -%%r12"):format(x, y))
        add(name .. tail, ("%%r3, -%%r10%s, -%%r11%s, -%%r12"):format(x, y))
      end
    end
    for _, operation in ipairs { "vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax" } do
      for _, tail in ipairs { "", ".sat", ".add" } do
        for _ = 1, 2 do
          add(("%s2.%s.%s.%s%s"):format(operation, d, a, b, tail),
            ("%%r3%s, %s, %%r12"):format(pick(half_masks), sources(half_selectors)))
          add(("%s4.%s.%s.%s%s"):format(operation, d, a, b, tail),
            ("%%r3%s, %s, %%r12"):format(pick(byte_masks), sources(byte_selectors)))
        end
      end
    end
    for _, comparison in ipairs(i < 4 and { "eq", "ne", "lt", "le", "gt", "ge" } or {}) do
      endings(("vset.%s.%s.%s"):format(a, b, comparison), scalar_selectors)
      for _, tail in ipairs { "", ".add" } do
        add(("vset2.%s.%s.%s%s"):format(a, b, comparison, tail),
          ("%%r3%s, %s, %%r12"):format(pick(half_masks), sources(half_selectors)))
        add(("vset4.%s.%s.%s%s"):format(a, b, comparison, tail),
          ("%%r3%s, %s, %%r12"):format(pick(byte_masks), sources(byte_selectors)))
      end
    end
  end
  return cases
end

-- Conversions: every form of cvt that the assembler takes for sm_90a.  Sources of 8 and 16 bits are exhausted;
-- 32-bit floats
-- going to narrow types come with every upper half and the lower halves around which roundings turn.
local kernels = require "spec.device.kernels"
local operands = require "spec.device.operands"

local ROWS = 65536

local function width_of(type) return math.max(operands.bits[type], 16) end

local kinds = { [16] = "%h", [32] = "%r", [64] = "%rd" }

-- The number of the thread as the source: of 16 bits as it is, of two halves with another order of the same values
-- above.
local function exhaustive(source)
  if width_of(source) == 16 then return " cvt.u16.u32 %h10, %r1;" end
  return " mul.lo.u32 %r5, %r1, 0x9e35; shl.b32 %r5, %r5, 16; or.b32 %r10, %r5, %r1;"
end

local low_halves = { 0, 0x1000, 0x0fff, 0x1001, 0x8000, 0x7fff, 0x8001, 0xf000, 0x3000, 0xffff, 0x2000, 0x0001 }

local swept
local function sweep()
  if swept then return swept end
  local words = {}
  for i = 0, ROWS - 1 do
    local a = i << 16 | low_halves[(i * 7 + (i >> 8)) % #low_halves + 1]
    local b = (i * 0x9e35 & 0xffff) << 16 | low_halves[(i * 5 + (i >> 7)) % #low_halves + 1]
    words[i + 1] = string.pack("<I4I4", a, b)
  end
  swept = table.concat(words)
  return swept
end

local function store(result)
  local width = width_of(result)
  return (" st.global.b%d [%%rd2], %s3;"):format(width, kinds[width]), width // 8
end

local function case(name, result, body, input, in_bytes, rows)
  local stored, bytes = store(result)
  return {
    name = name, family = "to " .. result, result = result, stride = bytes, text = kernels.entry(in_bytes, bytes, body
      .. "\n" .. stored),
    grid = { rows // kernels.BLOCK }, block = { kernels.BLOCK },
    args = { { input = input }, { output = rows * bytes } },
  }
end

local function one(name, result, source)
  local convert = (" %s %s3, %s10;"):format(name, kinds[width_of(result)], kinds[width_of(source)])
  if width_of(source) == 16 or source:match "x2$" then
    return case(name, result, exhaustive(source) .. "\n" .. convert, "\0\0\0\0\0\0\0\0", 0, ROWS)
  end
  if source == "f32" and operands.bits[result] <= 32 and not result:match "^[us]" then
    return case(name, result, " ld.global.b32 %r10, [%rd1];\n" .. convert, sweep(), 8, ROWS)
  end
  local width = width_of(source)
  return case(name, result, (" ld.global.b%d %s10, [%%rd1];\n%s"):format(width, kinds[width], convert),
    operands.rows({ source }, kernels.ROWS, 1), 8, kernels.ROWS)
end

local function two(name, result)
  return case(name, result, (" ld.global.v2.b32 {%%r10, %%r11}, [%%rd1];\n %s %s3, %%r10, %%r11;")
    :format(name, kinds[width_of(result)]), sweep(), 8, ROWS)
end

local function scalars(add)
  local types = { "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64" }
  local float = { f16 = true, bf16 = true, f32 = true, f64 = true }
  for _, result in ipairs(types) do
    for _, source in ipairs(types) do
      local roundings = { "" }
      if float[source] and not float[result] then
        roundings = { ".rni", ".rzi", ".rmi", ".rpi" }
      elseif float[result] then
        roundings = { "", ".rn", ".rz", ".rm", ".rp", ".rni", ".rzi", ".rmi", ".rpi" }
      end
      for _, rounding in ipairs(roundings) do
        for _, flush in ipairs((source == "f32" or result == "f32") and { "", ".ftz" } or { "" }) do
          for _, clamp in ipairs { "", ".sat", ".relu", ".satfinite", ".satfinite.relu" } do
            local narrow = result == "f16" or result == "bf16"
            if clamp == "" or clamp == ".sat" or narrow then
              add(one(("cvt%s%s%s.%s.%s"):format(rounding, flush, clamp, result, source), result, source))
            end
          end
        end
      end
    end
  end
end

local function packed(add)
  for _, rounding in ipairs { ".rn", ".rz", ".rna" } do
    for _, clamp in ipairs { "", ".relu", ".satfinite", ".satfinite.relu" } do
      add(two(("cvt%s%s.f16x2.f32"):format(rounding, clamp), "f16x2"))
      add(two(("cvt%s%s.bf16x2.f32"):format(rounding, clamp), "bf16x2"))
      add(one(("cvt%s%s.tf32.f32"):format(rounding, clamp), "tf32", "f32"))
      for _, narrow in ipairs { "e4m3x2", "e5m2x2" } do
        add(two(("cvt%s%s.%s.f32"):format(rounding, clamp, narrow), narrow))
        add(one(("cvt%s%s.%s.f16x2"):format(rounding, clamp, narrow), narrow, "f16x2"))
        add(one(("cvt%s%s.f16x2.%s"):format(rounding, clamp, narrow), "f16x2", narrow))
      end
    end
  end
  for _, result in ipairs { "u16", "s16" } do
    add(two(("cvt.pack.sat.%s.s32"):format(result), "b32"))
  end
  for _, result in ipairs { "u8", "s8", "u4", "s4", "u2", "s2" } do
    local name = ("cvt.pack.sat.%s.s32.b32"):format(result)
    add(case(name, "b32", (" ld.global.v2.b32 {%%r10, %%r11}, [%%rd1];\n %s %%r3, %%r10, %%r11, %%r1;"):format(name),
      operands.rows({ "s64" }, ROWS, 1), 8, ROWS))
  end
end

return function()
  local cases = {}
  local function add(c) cases[#cases + 1] = c end
  scalars(add)
  packed(add)
  return cases
end

-- mma.sync and mma.sp: every shape and type that the assembler takes for sm_90a, with integers (exact in every order of
-- summation), normal numbers (which show how the tensor core adds) and any bits (infinities, NaN, subnormals).
local kernels = require "spec.device.kernels"
local numbers = require "spec.device.numbers"

local WARPS = 64

-- Bytes of a fragment in the registers of one lane.
local function count(rows, columns, bits) return rows * columns * bits // 8 // 32 end

local bits = { f16 = 16, bf16 = 16, tf32 = 32, f32 = 32, f64 = 64, e4m3 = 8, e5m2 = 8, s8 = 8, u8 = 8, s4 = 4, u4 = 4,
  b1 = 1, s32 = 32 }

-- types are of D, A, B and C; sparse: A has half of k, the metadata `selectors` ways.
local function shape(m, n, k, types, options)
  options = options or {}
  local d, a, b, c = table.unpack(types)
  return { m = m, n = n, k = k, d = d, a = a, b = b, c = c, tail = options.tail or "", clamp = options.clamp or "",
    layout = options.layout or "row.col", sparse = options.sparse, quads = options.quads }
end

local function dense()
  local list = {}
  local function add(...) list[#list + 1] = shape(...) end
  for _, k in ipairs { 8, 16 } do
    for _, d in ipairs { "f16", "f32" } do
      for _, c in ipairs { "f16", "f32" } do add(16, 8, k, { d, "f16", "f16", c }) end
    end
    add(16, 8, k, { "f32", "bf16", "bf16", "f32" })
  end
  for _, layout in ipairs { "row.col", "row.row", "col.col", "col.row" } do
    for _, d in ipairs { "f16", "f32" } do
      for _, c in ipairs { "f16", "f32" } do
        add(8, 8, 4, { d, "f16", "f16", c }, { layout = layout, quads = true })
      end
    end
  end
  add(16, 8, 4, { "f32", "tf32", "tf32", "f32" })
  add(16, 8, 8, { "f32", "tf32", "tf32", "f32" })
  add(8, 8, 4, { "f64", "f64", "f64", "f64" })
  for _, k in ipairs { 4, 8, 16 } do add(16, 8, k, { "f64", "f64", "f64", "f64" }) end
  for _, k in ipairs { 16, 32 } do
    for _, a in ipairs { "e4m3", "e5m2" } do
      for _, b in ipairs { "e4m3", "e5m2" } do
        for _, d in ipairs { "f16", "f32" } do add(16, 8, k, { d, a, b, d }) end
      end
    end
  end
  for _, clamp in ipairs { "", ".satfinite" } do
    for _, a in ipairs { "s8", "u8" } do
      for _, b in ipairs { "s8", "u8" } do
        for _, size in ipairs { { 8, 16 }, { 16, 16 }, { 16, 32 } } do
          add(size[1], 8, size[2], { "s32", a, b, "s32" }, { clamp = clamp })
        end
      end
    end
    for _, a in ipairs { "s4", "u4" } do
      for _, b in ipairs { "s4", "u4" } do
        for _, size in ipairs { { 8, 32 }, { 16, 32 }, { 16, 64 } } do
          add(size[1], 8, size[2], { "s32", a, b, "s32" }, { clamp = clamp })
        end
      end
    end
  end
  for _, tail in ipairs { ".xor.popc", ".and.popc" } do
    for _, size in ipairs { { 8, 128 }, { 16, 128 }, { 16, 256 } } do
      add(size[1], 8, size[2], { "s32", "b1", "b1", "s32" }, { tail = tail })
    end
  end
  return list
end

local function sparse()
  local list = {}
  local function add(k, types, options)
    options = options or {}
    options.sparse = true
    list[#list + 1] = shape(16, 8, k, types, options)
  end
  for _, k in ipairs { 16, 32 } do
    for _, d in ipairs { "f16", "f32" } do add(k, { d, "f16", "f16", d }) end
    add(k, { "f32", "bf16", "bf16", "f32" })
  end
  for _, k in ipairs { 8, 16 } do add(k, { "f32", "tf32", "tf32", "f32" }) end
  for _, a in ipairs { "e4m3", "e5m2" } do
    for _, b in ipairs { "e4m3", "e5m2" } do add(64, { "f32", a, b, "f32" }) end
  end
  for _, clamp in ipairs { "", ".satfinite" } do
    for _, a in ipairs { "s8", "u8" } do
      for _, b in ipairs { "s8", "u8" } do
        for _, k in ipairs { 32, 64 } do add(k, { "s32", a, b, "s32" }, { clamp = clamp }) end
      end
    end
    for _, k in ipairs { 64, 128 } do add(k, { "s32", "s4", "u4", "s32" }, { clamp = clamp }) end
  end
  return list
end

local function registers(type, bytes, first)
  local kind, width = type == "f64" and "%rd" or "%r", type == "f64" and 8 or 4
  local names = {}
  for i = 0, math.max(bytes // width, 1) - 1 do names[i + 1] = kind .. first + i end
  return names, width
end

local function moves(verb, names, width, pointer, offset)
  local text = {}
  for i, name in ipairs(names) do
    local place = ("[%s+%d]"):format(pointer, offset + (i - 1) * width)
    text[i] = verb == "ld" and (" ld.global.b%d %s, %s;"):format(8 * width, name, place)
      or (" st.global.b%d %s, %s;"):format(8 * width, place, name)
  end
  return table.concat(text, "\n")
end

local function name_of(s, word)
  local types = s.a == "b1" and s.tail == "" and "" or (".%s.%s.%s.%s"):format(s.d, s.a, s.b, s.c)
  return ("%s.sync.aligned.m%dn%dk%d.%s%s%s%s"):format(word, s.m, s.n, s.k, s.layout, s.clamp, types, s.tail)
end

local function cases_of(add, s, word, selector)
  local a_bytes = count(s.m, s.sparse and s.k // 2 or s.k, bits[s.a])
  -- the f16 product of 8 x 8 x 4 is four of them, one a quarter of the lanes
  if s.quads then a_bytes = 8 end
  local b_bytes, c_bytes, d_bytes = count(s.k, s.n, bits[s.b]), count(s.m, s.n, bits[s.c]), count(s.m, s.n, bits[s.d])
  if s.quads then b_bytes, c_bytes, d_bytes = 8, 8 * bits[s.c] // 8, 8 * bits[s.d] // 8 end
  local a, aw = registers(s.a, a_bytes, 10)
  local b, bw = registers(s.b, b_bytes, 20)
  local c, cw = registers(s.c, c_bytes, 30)
  local d, dw = registers(s.d, d_bytes, s.d == "f64" and 4 or 40)
  local row = math.max(a_bytes, aw) + math.max(b_bytes, bw) + math.max(c_bytes, cw)
  local padded = (row + 4 + 7) // 8 * 8
  local name = name_of(s, word)
  local extra = s.sparse and (", %%r60, %d"):format(selector) or ""
  local b_at, c_at = #a * aw, #a * aw + #b * bw
  local body = table.concat({
    moves("ld", a, aw, "%rd1", 0), moves("ld", b, bw, "%rd1", b_at), moves("ld", c, cw, "%rd1", c_at),
    s.sparse and (" ld.global.b32 %%r60, [%%rd1+%d];"):format(c_at + #c * cw) or "",
    (" %s {%s}, {%s}, {%s}, {%s}%s;"):format(name, table.concat(d, ","), table.concat(a, ","), table.concat(b, ","),
      table.concat(c, ","), extra),
    moves("st", d, dw, "%rd2", 0),
  }, "\n")
  local text = kernels.entry(padded, #d * dw, body)
  for _, kind in ipairs(numbers.kinds(s.a)) do
    add {
      name = ("%s%s %s"):format(name, s.sparse and " " .. selector or "", kind), text = text, stride = dw,
      result = s.d == "f16" and "f16x2" or s.d, grid = { WARPS // 4 }, block = { 128 },
      args = {
        { input = numbers.rows(WARPS * 32, padded, { { s.a, #a * aw }, { s.b, #b * bw }, { s.c, #c * cw },
          s.sparse and { "metadata." .. s.a, 4 } or nil }, kind, #name + selector) },
        { output = WARPS * 32 * #d * dw },
      },
    }
  end
end

-- Which threads of a quad hold the metadata: so many choices (another one traps).
local function selectors(s)
  local wide = s.k * bits[s.a] // 8 > 32
  if s.d == "s32" then return wide and 1 or 2 end
  return bits[s.a] == 8 and 1 or wide and 2 or 4
end

return function()
  local cases = {}
  local function add(case) cases[#cases + 1] = case end
  for _, s in ipairs(dense()) do cases_of(add, s, "mma", 0) end
  for _, s in ipairs(sparse()) do
    for _, word in ipairs { "mma.sp", "mma.sp::ordered_metadata" } do
      for selector = 0, selectors(s) - 1 do cases_of(add, s, word, selector) end
    end
  end
  for _, rounding in ipairs { ".rn", ".rz", ".rm", ".rp" } do
    cases_of(add, shape(8, 8, 4, { "f64", "f64", "f64", "f64" }, { clamp = rounding }), "mma", 0)
    for _, k in ipairs { 4, 8, 16 } do
      cases_of(add, shape(16, 8, k, { "f64", "f64", "f64", "f64" }, { clamp = rounding }), "mma", 0)
    end
  end
  for _, clamp in ipairs { "", ".satfinite" } do
    for _, types in ipairs { { "s4", "s4" }, { "u4", "s4" }, { "u4", "u4" } } do
      for _, k in ipairs { 64, 128 } do
        local s = shape(16, 8, k, { "s32", types[1], types[2], "s32" }, { sparse = true, clamp = clamp })
        for _, word in ipairs { "mma.sp", "mma.sp::ordered_metadata" } do
          for selector = 0, selectors(s) - 1 do cases_of(add, s, word, selector) end
        end
      end
    end
  end
  return cases
end

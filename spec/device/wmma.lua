-- wmma: matrices in memory, loaded, multiplied and stored; what the registers hold in between is nobody's business.
local kernels = require "spec.device.kernels"
local numbers = require "spec.device.numbers"

local WARPS = 32

local bits = { f16 = 16, bf16 = 16, tf32 = 32, f32 = 32, f64 = 64, s8 = 8, u8 = 8, s4 = 4, u4 = 4, b1 = 1, s32 = 32 }

-- Registers of A and B for m16n16k16, m8n32k16 and m32n8k16, or for the one shape that a type has.
local fragments = {
  f16 = { { 8, 8 }, { 8, 8 }, { 8, 8 } }, bf16 = { { 4, 4 }, { 2, 8 }, { 8, 2 } },
  s8 = { { 2, 2 }, { 1, 4 }, { 4, 1 } }, u8 = { { 2, 2 }, { 1, 4 }, { 4, 1 } },
  tf32 = { { 4, 4 } }, f64 = { { 1, 1 } }, s4 = { { 1, 1 } }, u4 = { { 1, 1 } }, b1 = { { 1, 1 } },
}

local function vector(type, first, count)
  local list = {}
  for i = 1, count do list[i] = (type == "f64" and "%rd" or "%r") .. first + i - 1 end
  return "{" .. table.concat(list, ",") .. "}"
end

local function accumulators(s, type)
  return type == "f64" and 2 or s.m * s.n // 32 // (type == "f16" and 2 or 1)
end

-- Elements between rows or columns: what they have, and `pad` more.
local function leading(rows, columns, order, pad) return (order == "row" and columns or rows) + pad end

local function body_of(s, mnemonic, mma_types)
  local shape = ("m%dn%dk%d"):format(s.m, s.n, s.k)
  local counts = fragments[s.a][s.m == 8 and s.n == 32 and 2 or s.m == 32 and 3 or 1]
  local a_at, b_at, c_at = 0, s.a_bytes, s.a_bytes + s.b_bytes
  local d_first = s.a == "f64" and 24 or 44
  local stride = function(rows, columns, order) return s.pad == 0 and "" or (", %d")
    :format(leading(rows, columns, order, s.pad)) end
  return ([[
 shr.u32 %%r2, %%r1, 5;
 mad.wide.u32 %%rd10, %%r2, %d, %%rd1; mad.wide.u32 %%rd11, %%r2, %d, %%rd2;
 add.u64 %%rd12, %%rd10, %d; add.u64 %%rd13, %%rd10, %d;
 wmma.load.a.sync.aligned.%s.%s.global.%s %s, [%%rd10+%d]%s;
 wmma.load.b.sync.aligned.%s.%s.global.%s %s, [%%rd12]%s;
 wmma.load.c.sync.aligned.%s.%s.global.%s %s, [%%rd13]%s;
 wmma.mma%s.sync.aligned.%s.%s.%s%s.%s%s %s, %s, %s, %s;
 wmma.store.d.sync.aligned.%s.%s.global.%s [%%rd11], %s%s;]]):format(
    s.in_bytes, s.d_bytes, b_at, c_at,
    s.a_order, shape, s.a, vector(s.a, 20, counts[1]), a_at, stride(s.m, s.k, s.a_order),
    s.b_order, shape, s.a, vector(s.a, 28, counts[2]), stride(s.k, s.n, s.b_order),
    s.c_order, shape, s.c, vector(s.c, 36, accumulators(s, s.c)), stride(s.m, s.n, s.c_order),
    mnemonic, s.a_order, s.b_order, shape, s.rounding or "", mma_types, s.saturate and ".satfinite" or "",
    vector(s.d, d_first, accumulators(s, s.d)), vector(s.a, 20, counts[1]), vector(s.a, 28, counts[2]),
    vector(s.c, 36, accumulators(s, s.c)),
    s.d_order, shape, s.d, vector(s.d, d_first, accumulators(s, s.d)), stride(s.m, s.n, s.d_order))
end

local function bytes(rows, columns, order, pad, type)
  local lines = order == "row" and rows or columns
  return (lines * leading(rows, columns, order, pad) * bits[type] // 8 + 31) // 32 * 32
end

local function add_case(cases, s)
  s.pad = s.pad or 0
  s.a_bytes = bytes(s.m, s.k, s.a_order, s.pad, s.a)
  s.b_bytes = bytes(s.k, s.n, s.b_order, s.pad, s.a)
  s.in_bytes = s.a_bytes + s.b_bytes + bytes(s.m, s.n, s.c_order, s.pad, s.c)
  s.d_bytes = bytes(s.m, s.n, s.d_order, s.pad, s.d)
  local mnemonic = s.operation and ("." .. s.operation .. ".popc") or ""
  local types = s.a == "f16" and ("%s.%s"):format(s.d, s.c) or ("%s.%s.%s.%s"):format(s.d, s.a, s.a, s.c)
  local body = body_of(s, mnemonic, types)
  -- %rd28 and on are used for f64 alone, where B has one register
  local text = kernels.entry(0, 0, body)
  for _, kind in ipairs(numbers.kinds(s.a)) do
    local c_bytes = s.in_bytes - s.a_bytes - s.b_bytes
    local rows = {}
    for w = 1, WARPS do
      rows[w] = numbers.memory(s.a, s.a_bytes, kind, 7 * w) .. numbers.memory(s.a, s.b_bytes, kind, 7 * w + 1)
        .. numbers.memory(s.c, c_bytes, kind, 7 * w + 2)
    end
    cases[#cases + 1] = {
      name = ("wmma%s.%s.%s.m%dn%dk%d%s.%s%s, c %s, d %s, pad %d, %s"):format(mnemonic, s.a_order, s.b_order, s.m, s.n,
        s.k, s.rounding or "", types, s.saturate and ".satfinite" or "", s.c_order, s.d_order, s.pad, kind),
      family = "wmma " .. s.a, text = text, stride = bits[s.d] // 8, grid = { WARPS // 4 }, block = { 128 },
      result = s.d == "f16" and "f16" or s.d,
      args = { { input = table.concat(rows) }, { output = WARPS * s.d_bytes } },
    }
  end
end

return function()
  local cases = {}
  local function both(s)
    for _, a in ipairs { "row", "col" } do
      for _, b in ipairs { "row", "col" } do
        local copy = {}
        for key, value in pairs(s) do copy[key] = value end
        copy.a_order, copy.b_order = a, b
        copy.c_order, copy.d_order = a == b and "row" or "col", b
        copy.pad = s.pad or (a == "row" and 0 or 256 // bits[s.a])
        add_case(cases, copy)
      end
    end
  end
  for _, size in ipairs { { 16, 16, 16 }, { 8, 32, 16 }, { 32, 8, 16 } } do
    local function one(a, d, c, saturate)
      both { m = size[1], n = size[2], k = size[3], a = a, c = c, d = d, saturate = saturate }
    end
    for _, d in ipairs { "f16", "f32" } do
      for _, c in ipairs { "f16", "f32" } do one("f16", d, c) end
    end
    one("bf16", "f32", "f32")
    for _, a in ipairs { "s8", "u8" } do
      one(a, "s32", "s32")
      one(a, "s32", "s32", true)
    end
  end
  both { m = 16, n = 16, k = 8, a = "tf32", c = "f32", d = "f32" }
  for _, rounding in ipairs { "", ".rn", ".rz", ".rm", ".rp" } do
    both { m = 8, n = 8, k = 4, a = "f64", c = "f64", d = "f64", rounding = rounding }
  end
  for _, saturate in ipairs { false, true } do
    for _, a in ipairs { "s4", "u4" } do
      add_case(cases, { m = 8, n = 8, k = 32, a = a, c = "s32", d = "s32", a_order = "row", b_order = "col",
        c_order = "row", d_order = "col", saturate = saturate })
    end
  end
  for _, operation in ipairs { "xor", "and" } do
    add_case(cases, { m = 8, n = 8, k = 128, a = "b1", c = "s32", d = "s32", a_order = "row", b_order = "col",
      c_order = "col", d_order = "row", operation = operation })
  end
  return cases
end

-- wmma: what is loaded, multiplied and stored is the product of the matrices in memory, whatever the registers hold.
local tc = require "tcmma"
local sequence = require "small_values".sequence

-- least and greatest value, registers of A and B (m16n16k16; m8n32k16; m32n8k16) or of both
local types = {
  f16 = { -8, 8, { { 8, 8 }, { 8, 8 }, { 8, 8 } } }, bf16 = { -8, 8, { { 4, 4 }, { 2, 8 }, { 8, 2 } } },
  s8 = { -99, 99, { { 2, 2 }, { 1, 4 }, { 4, 1 } } }, u8 = { 0, 200, { { 2, 2 }, { 1, 4 }, { 4, 1 } } },
  tf32 = { -8, 8, { { 4, 4 } } }, f64 = { -99, 99, { { 1, 1 } } },
  s4 = { -8, 7, { { 1, 1 } } }, u4 = { 0, 15, { { 1, 1 } } }, b1 = { 0, 1, { { 1, 1 } } },
}
local storage = { f16 = tc.f16, bf16 = tc.bf16, s8 = tc.i8, u8 = tc.u8, tf32 = tc.f32, f64 = tc.f64, f32 = tc.f32,
  s32 = tc.i32 }
local bits = { s4 = 4, u4 = 4, b1 = 1 }

-- An array of values; those of less than 8 bits packed into bytes.
local function array(type, values)
  local width = bits[type]
  if not width then return tc.from_table(values, storage[type]) end
  local bytes = {}
  for i = 1, #values * width // 8 do bytes[i] = 0 end
  for i, value in ipairs(values) do
    local at = (i - 1) * width
    bytes[at // 8 + 1] = bytes[at // 8 + 1] | (value & (1 << width) - 1) << at % 8
  end
  return tc.from_table(bytes, tc.u8)
end

local function vector(register, first, count)
  local list = {}
  for i = 1, count do list[i] = register .. first + i - 1 end
  return "{" .. table.concat(list, ",") .. "}"
end

local function check(o)
  local m, n, k = o.shape[1], o.shape[2], o.shape[3]
  local random, type = sequence(m + k), types[o.a]
  local a, b, c = {}, {}, {}
  for i = 1, m * k do a[i] = random(type[1], type[2]) end
  for i = 1, k * n do b[i] = random(type[1], type[2]) end
  for i = 1, m * n do c[i] = random(-50, 50) end
  local counts = type[3][m == 8 and n == 32 and 2 or m == 32 and 3 or 1]
  local function accumulators(t) return t == "f64" and 2 or m * n // 32 // (t == "f16" and 2 or 1) end
  local shape = ("m%dn%dk%d"):format(m, n, k)
  local wide = o.a == "f64"
  local register = wide and "%fd" or "%r"
  local mnemonic = o.a == "f16" and ("wmma.mma.sync.aligned.%s.%s.%s.%s.%s"):format(o.a_order, o.b_order, shape, o.d,
    o.c)
    or ("wmma.mma%s.sync.aligned.%s.%s.%s.%s.%s.%s.%s%s"):format(o.operation and "." .. o.operation .. ".popc" or "",
      o.a_order, o.b_order, shape, o.d, o.a, o.a, o.c, o.saturate and ".satfinite" or "")
  local text = ([[
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{
 .reg .b64 %%rd<8>; .reg .b32 %%r<64>; .reg .f64 %%fd<64>;
 ld.param.u64 %%rd1, [a]; ld.param.u64 %%rd2, [b]; ld.param.u64 %%rd3, [c]; ld.param.u64 %%rd4, [d];
 wmma.load.a.sync.aligned.%s.%s.%s %s, [%%rd1]%s;
 wmma.load.b.sync.aligned.%s.%s.%s %s, [%%rd2];
 wmma.load.c.sync.aligned.row.%s.%s %s, [%%rd3], %d;
 %s %s, %s, %s, %s;
 wmma.store.d.sync.aligned.%s.%s.%s [%%rd4], %s;
 ret;
}]]):format(o.a_order, shape, o.a, vector(register, 1, counts[1]), "", o.b_order, shape, o.a,
    vector(register, 10, counts[2]), shape, o.c, vector(register, 20, accumulators(o.c)), n, mnemonic,
    vector(register, 40, accumulators(o.d)), vector(register, 1, counts[1]), vector(register, 10, counts[2]),
    vector(register, 20, accumulators(o.c)), o.d_order or "row", shape, o.d, vector(register, 40, accumulators(o.d)))
  local out = tc.zeros({ m * n }, storage[o.d])
  local report = tc.ptx(text):kernel("k"):emulate { block = { 32 },
    args = { array(o.a, a), array(o.a, b), array(o.c, c), out } }
  assert.is_true(report.completed, report:text())
  local got = out:totable()
  for row = 0, m - 1 do
    for column = 0, n - 1 do
      local sum = c[row * n + column + 1]
      for i = 0, k - 1 do
        local x = a[(o.a_order == "row" and row * k + i or i * m + row) + 1]
        local y = b[(o.b_order == "row" and i * n + column or column * k + i) + 1]
        sum = sum + (o.operation == "xor" and x ~ y or x * y)
      end
      local at = o.d_order == "col" and column * m + row or row * n + column
      assert.equal(sum, got[at + 1], ("%s: row %d, column %d"):format(mnemonic, row, column))
    end
  end
end

describe("wmma", function()
  for _, shape in ipairs { { 16, 16, 16 }, { 8, 32, 16 }, { 32, 8, 16 } } do
    it(("multiplies %d x %d by %d"):format(table.unpack(shape)), function()
      for _, a in ipairs { "row", "col" } do
        for _, b in ipairs { "row", "col" } do
          check { shape = shape, a = "f16", c = "f32", d = "f32", a_order = a, b_order = b }
          check { shape = shape, a = "f16", c = "f16", d = "f32", a_order = a, b_order = b, d_order = "col" }
          check { shape = shape, a = "f16", c = "f16", d = "f16", a_order = a, b_order = b }
          check { shape = shape, a = "bf16", c = "f32", d = "f32", a_order = a, b_order = b }
          check { shape = shape, a = "s8", c = "s32", d = "s32", a_order = a, b_order = b, d_order = "col" }
          check { shape = shape, a = "u8", c = "s32", d = "s32", a_order = a, b_order = b, saturate = true }
        end
      end
    end)
  end

  it("multiplies tf32 and f64", function()
    for _, a in ipairs { "row", "col" } do
      for _, b in ipairs { "row", "col" } do
        check { shape = { 16, 16, 8 }, a = "tf32", c = "f32", d = "f32", a_order = a, b_order = b }
        check { shape = { 8, 8, 4 }, a = "f64", c = "f64", d = "f64", a_order = a, b_order = b }
      end
    end
  end)

  it("multiplies 4 bits and single bits", function()
    for _, a in ipairs { "s4", "u4" } do
      check { shape = { 8, 8, 32 }, a = a, c = "s32", d = "s32", a_order = "row", b_order = "col" }
    end
    for _, operation in ipairs { "and", "xor" } do
      check { shape = { 8, 8, 128 }, a = "b1", c = "s32", d = "s32", a_order = "row", b_order = "col",
        operation = operation }
    end
  end)
end)

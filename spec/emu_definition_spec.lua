-- Scalar instructions whose results follow from their definition in a line of arithmetic.  Where `#gpu` stands a GPU is
-- held to the same values.
local tc = require "tcmma"

local DEVICE = os.getenv "TCMMA_DEVICE" or "cuda:0"

local head = [[
.version 8.6
.target %s
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
 .reg .b64 %%rd<16>; .reg .b32 %%r<16>; .reg .f32 %%f<16>; .reg .b16 %%h<16>; .reg .f64 %%fd<8>; .reg .pred %%p<4>;
 ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out];
 mov.u32 %%r0, %%tid.x; mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x; mad.lo.u32 %%r0, %%r1, %%r2, %%r0;
 mad.wide.u32 %%rd1, %%r0, 32, %%rd1; mad.wide.u32 %%rd2, %%r0, 8, %%rd2;
 ld.global.b64 %%rd4, [%%rd1]; ld.global.b64 %%rd5, [%%rd1+8];
 ld.global.b64 %%rd6, [%%rd1+16]; ld.global.b64 %%rd7, [%%rd1+24];
 cvt.u32.u64 %%r4, %%rd4; cvt.u32.u64 %%r5, %%rd5; cvt.u32.u64 %%r6, %%rd6;
 mov.b32 %%f4, %%r4; mov.b32 %%f5, %%r5; mov.b32 %%f6, %%r6;
 cvt.u16.u64 %%h4, %%rd4; cvt.u16.u64 %%h5, %%rd5; cvt.u16.u64 %%h6, %%rd6;
 mov.b64 %%fd4, %%rd4; mov.u64 %%rd3, 0; mov.u32 %%r3, 0;
%s
 st.global.b64 [%%rd2], %%rd3;
 ret;
}]]

-- Results of the instructions on rows of up to four 64-bit operands, %rd4 and on (or %r4, %f4, %h4).
local function run(body, rows, device, target)
  local values = {}
  for i, row in ipairs(rows) do
    for j = 1, 4 do values[4 * i - 4 + j] = row[j] or 0 end
  end
  local count = math.min(#rows, 128)
  assert(#rows % count == 0)
  local options = { grid = { #rows // count }, block = { count } }
  local kernel = tc.ptx(head:format(target or "sm_90a", body)):kernel "k"
  local input = tc.from_table(values, tc.i64)
  local out
  if device then
    local there = tc.zeros({ #values }, tc.i64, { device = device })
    there:copy_from(input)
    out = tc.zeros({ #rows }, tc.i64, { device = device })
    options.args = { there, out }
    kernel:launch(options)
  else
    out = tc.zeros({ #rows }, tc.i64)
    options.args, options.target = { input, out }, target
    local report = kernel:emulate(options)
    assert.is_true(report.completed, report:text())
  end
  return out:totable()
end

local function single(value) return (string.unpack("<I4", string.pack("<f", value))) end
local function double(value) return (string.unpack("<i8", string.pack("<d", value))) end
local function of_single(word) return (string.unpack("<f", string.pack("<I4", word & 0xffffffff))) end

local function half(code)
  local sign, exponent, fraction = code >> 15 == 1 and -1 or 1, code >> 10 & 31, code & 0x3ff
  if exponent == 31 then return fraction == 0 and sign / 0 or 0 / 0 end
  return sign * (exponent == 0 and fraction * 2.0 ^ -24 or (1 + fraction / 1024) * 2.0 ^ (exponent - 15))
end

-- The f32 nearest to a double, towards zero, down or up.
local function rounded(value, mode)
  local near = of_single(single(value))
  if near == value or mode == "rn" then return near end
  local up = mode == "rp" or mode == "rz" and value < 0
  if up == (near > value) then return near end
  local bits = single(near)
  local away = (near > 0) == up
  return of_single(near == 0 and (up and 1 or 0x80000001) or away and bits + 1 or bits - 1)
end

local function both(name, check)
  it(name, function() check(nil) end)
end

local on_gpu = {}
local function everywhere(name, check)
  both(name, check)
  on_gpu[#on_gpu + 1] = { name, check }
end

describe("scalar instructions:", function()
  everywhere("fma.oob gives zero where an operand is the NaN of what lies outside", function(device)
    local rows = {}
    for code = 0, 0xffff do rows[code + 1] = { code, 0x3c00, 0x4000 } end -- code * 1 + 2
    for i, result in ipairs(run(" fma.rn.oob.f16 %h7, %h4, %h5, %h6; cvt.u64.u16 %rd3, %h7;", rows, device)) do
      local code = i - 1
      local value, sum = half(result), half(code) + 2
      if code & 0x7fff == 0x7ff7 then
        assert.equal(0, result)
      elseif sum ~= sum then
        assert.equal(0x7fff, result)
      elseif math.abs(sum) < 65520 then
        assert.is_true(math.abs(value - sum) <= math.max(math.abs(sum), 2) * 2.0 ^ -11, ("%04x"):format(code))
      end
    end
    local rest = run(" fma.rn.oob.f16 %h7, %h4, %h5, %h6; cvt.u64.u16 %rd3, %h7;", { { 0x7ff7, 0x3c00, 0x4000 },
      { 0x3c00, 0xfff7, 0x4000 }, { 0x7ff7, 0x7e00, 0x4000 }, { 0x7fff, 0x3c00, 0x4000 } }, device)
    assert.same({ 0, 0, 0, 0x7fff }, rest)
    rest = run(" fma.rn.oob.relu.bf16 %h7, %h4, %h5, %h6; cvt.u64.u16 %rd3, %h7;", { { 0x7ff7, 0x3f80, 0x4000 },
      { 0x3f80, 0xbf80, 0xbf80 }, { 0x3f80, 0x3f80, 0x3f80 }, { 0x7fc0, 0x3f80, 0x4000 } }, device)
    assert.same({ 0, 0, 0x4000, 0x7fff }, rest)
    rest = run(" fma.rn.oob.f16 %h7, %h4, %h5, %h6; cvt.u64.u16 %rd3, %h7;", { { 0x3c00, 0x3c00, 0x7ff7 } }, device)
    assert.same({ 0x7fff }, rest) -- what is added may not lie outside
  end)

  everywhere("testp", function(device)
    local values = { 0.0, -0.0, 1.0, 2.0 ^ -126, 2.0 ^ -127, -2.0 ^ -149, 1 / 0, -1 / 0, 0 / 0 }
    local wide = { 0.0, -0.0, 1.0, 2.0 ^ -1022, 2.0 ^ -1023, -2.0 ^ -1074, 1 / 0, -1 / 0, 0 / 0 }
    local expected = {
      finite = { 1, 1, 1, 1, 1, 1, 0, 0, 0 }, infinite = { 0, 0, 0, 0, 0, 0, 1, 1, 0 },
      number = { 1, 1, 1, 1, 1, 1, 1, 1, 0 }, notanumber = { 0, 0, 0, 0, 0, 0, 0, 0, 1 },
      normal = { 1, 1, 1, 1, 0, 0, 0, 0, 0 }, subnormal = { 0, 0, 0, 0, 1, 1, 0, 0, 0 },
    }
    for property, want in pairs(expected) do
      local rows, wide_rows = {}, {}
      for i, value in ipairs(values) do rows[i], wide_rows[i] = { single(value) }, { double(wide[i]) } end
      assert.same(want, run((" testp.%s.f32 %%p1, %%f4; selp.u64 %%rd3, 1, 0, %%p1;"):format(property), rows, device))
      assert.same(want, run((" testp.%s.f64 %%p1, %%fd4; selp.u64 %%rd3, 1, 0, %%p1;"):format(property), wide_rows,
        device))
    end
  end)

  everywhere("mad24.hi takes bits 16 to 47 of the product", function(device)
    local rows, signed, unsigned = {}, {}, {}
    for i, pair in ipairs { { 3, 5, 7 }, { 0xffffff, 0xffffff, 1 }, { 0x800000, 0x7fffff, 0 },
      { 0x12345678, 0xfedcba98, 99 } } do
      rows[i] = pair
      local x, y = pair[1] & 0xffffff, pair[2] & 0xffffff
      unsigned[i] = (x * y >> 16) + pair[3] & 0xffffffff
      x, y = (x ~ 0x800000) - 0x800000, (y ~ 0x800000) - 0x800000
      signed[i] = (x * y // 65536) + pair[3] & 0xffffffff
    end
    assert.same(unsigned, run(" mad24.hi.u32 %r3, %r4, %r5, %r6; cvt.u64.u32 %rd3, %r3;", rows, device))
    assert.same(signed, run(" mad24.hi.s32 %r3, %r4, %r5, %r6; cvt.u64.u32 %rd3, %r3;", rows, device))
  end)

  everywhere("movmatrix transposes", function(device)
    local rows, want = {}, {}
    local function element(row, column) return 8 * row + column + 0x100 end
    for lane = 0, 31 do
      local g, q = lane // 4, lane % 4
      rows[lane + 1] = { element(g, 2 * q) | element(g, 2 * q + 1) << 16 }
      want[lane + 1] = element(2 * q, g) | element(2 * q + 1, g) << 16
    end
    assert.same(want, run(" movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r4; cvt.u64.u32 %rd3, %r3;", rows, device))
  end)

  both("add, sub and fma of f32 take f16 and bf16", function()
    local pairs_of = { { 0x3c01, 1.5 }, { 0xc200, 0x1.234568p-3 }, { 0x0001, 1.0 }, { 0x7bff, -3.0e4 } }
    for _, mode in ipairs { "rn", "rz", "rm", "rp" } do
      local rows, sums, differences = {}, {}, {}
      for i, p in ipairs(pairs_of) do
        local x, y = half(p[1]), of_single(single(p[2]))
        rows[i] = { p[1], single(y) }
        sums[i], differences[i] = single(rounded(x + y, mode)), single(rounded(x - y, mode))
      end
      local body = " %s.%s.f32.f16 %%f3, %%h4, %%f5; mov.b32 %%r3, %%f3; cvt.u64.u32 %%rd3, %%r3;"
      assert.same(sums, run(body:format("add", mode), rows, nil, "sm_100a"))
      assert.same(differences, run(body:format("sub", mode), rows, nil, "sm_100a"))
    end
    local rows, want, clamped = {}, {}, {}
    for i, p in ipairs { { 0x3f80, 0x4049, 0.25 }, { 0xc0a0, 0x3dcc, 100.0 }, { 0x3f00, 0x3f00, 0.125 } } do
      local x, y = of_single(p[1] << 16), of_single(p[2] << 16)
      rows[i] = { p[1], p[2], single(p[3]) }
      want[i] = single(rounded(x * y + p[3], "rn"))
      clamped[i] = single(math.max(0, math.min(1, rounded(x * y + p[3], "rn"))))
    end
    local body = " fma.rn%s.f32.bf16 %%f3, %%h4, %%h5, %%f6; mov.b32 %%r3, %%f3; cvt.u64.u32 %%rd3, %%r3;"
    assert.same(want, run(body:format "", rows, nil, "sm_100a"))
    assert.same(clamped, run(body:format ".sat", rows, nil, "sm_100a"))
  end)

  both("min and max of three values", function()
    local nan = 0x7fffffff
    local rows = { { single(1), single(-3), single(2) }, { single(-1), single(0.5), nan }, { nan, nan, nan } }
    local function of(name) return run((" %s.f32 %%f3, %%f4, %%f5, %%f6; mov.b32 %%r3, %%f3; cvt.u64.u32 %%rd3, %%r3;")
      :format(name), rows, nil, "sm_100a") end
    assert.same({ single(-3), single(-1), nan }, of "min")
    assert.same({ single(3), single(1), nan }, of "max.abs")
    assert.same({ single(1), nan, nan }, of "min.NaN.abs")
  end)

  both("st.bulk writes zeros; multimem is an access of the one copy", function()
    local results = run([[
 .shared .align 8 .b8 area[64];
 mov.u64 %rd8, area; cvta.shared.u64 %rd9, %rd8; mov.u64 %rd10, 16; mov.u64 %rd11, -1;
 st.shared.b64 [area], %rd11; st.shared.b64 [area+8], %rd11; st.shared.b64 [area+16], %rd11;
 st.bulk.weak.shared::cta [area], %rd10, 0;
 ld.shared.b64 %rd12, [area+8]; ld.shared.b64 %rd13, [area+16];
 add.u64 %rd3, %rd12, %rd13;
 multimem.st.relaxed.sys.global.b64 [%rd1], %rd3;
 multimem.red.relaxed.sys.global.add.u64 [%rd1], 6;
 multimem.ld_reduce.relaxed.sys.global.add.u64 %rd3, [%rd1];
 mov.u64 %rd12, 0x4000400040004000; multimem.st.relaxed.sys.global.b64 [%rd1+8], %rd12;
 mov.b32 %r8, 0x3c003c00;
 multimem.red.relaxed.sys.global.add.v2.f16x2 [%rd1+8], {%r8, %r8};
 multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v2.f16x2 {%r8, %r9}, [%rd1+8];
 cvt.u64.u32 %rd12, %r9; shl.b64 %rd12, %rd12, 32; add.u64 %rd3, %rd3, %rd12;]], { { 0 } }, nil, "sm_100a")
    assert.same({ 5 + (0x42004200 << 32) }, results)
  end)

  it("st.bulk through a generic address goes to shared memory alone", function()
    local kernel = tc.ptx [[
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .b64 %rd<4>;
 ld.param.u64 %rd0, [out];
 mov.u64 %rd1, 64;
 st.bulk.weak [%rd0], %rd1, 0;
 ret;
}]]:kernel "k"
    local out = tc.full({ 16 }, 7, tc.i32, { device = "emulator:sm_100a" })
    local report = kernel:emulate { block = { 1 }, args = { out }, mode = "fast" }
    assert.equal("wrong-space", report.hazards[1].rule)
    assert.equal(7, out:get(0))
  end)

  both("st.async and red.async release to global memory", function()
    assert.same({ 47 }, run([[
 mov.u64 %rd12, 40; st.async.mmio.release.gpu.global.b64 [%rd1], %rd12;
 mov.u32 %r8, 7; red.async.mmio.release.sys.global.add.u32 [%rd1], %r8;
 ld.global.b64 %rd3, [%rd1];]], { { 0 } }, nil, "sm_100a"))
  end)
end)

describe("scalar instructions on a GPU #gpu:", function()
  local device = tc.device(DEVICE)
  for _, entry in ipairs(on_gpu) do
    (device and it or pending)(entry[1], function() entry[2](device) end)
  end
end)

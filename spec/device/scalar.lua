-- Scalar instructions: the forms of spec/emu_forms.txt and more, on special and random operands.
local kernels = require "spec.device.kernels"

local directory = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"

local function recorded(add)
  for line in io.lines(directory .. "../emu_forms.txt") do
    local words = {}
    for word in line:gmatch "%S+" do words[#words + 1] = word end
    if words[1] ~= "#" and words[1] and not words[1]:match "^cvt" and words[3] then
      local form, at = { name = words[1], sources = {} }, 2
      if words[2]:match "^%d" then form.immediate, at = words[2], 3 end
      form.result = words[at]
      for source in (words[at + 1] or ""):gmatch "[^,]+" do table.insert(form.sources, source) end
      if line:sub(1, 1) ~= "#" and not form.name:match ":" then add(form) end
    end
  end
end

local function simple(add, name, result, ...)
  add { name = name, result = result, sources = { ... } }
end

local function comparisons(add)
  local ordered = { "eq", "ne", "lt", "le", "gt", "ge" }
  local floats = { "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan" }
  for _, type in ipairs { "f16", "bf16", "f32", "f64" } do
    for _, list in ipairs { ordered, floats } do
      for _, comparison in ipairs(list) do
        simple(add, ("setp.%s.%s"):format(comparison, type), "pred", type, type)
        if type ~= "f64" and type ~= "bf16" then
          simple(add, ("setp.%s.ftz.%s"):format(comparison, type), "pred", type, type)
        end
        if type == "f32" or type == "f64" then
          for _, result in ipairs { "u32", "s32", "f32" } do
            simple(add, ("set.%s.%s.%s"):format(comparison, result, type), result, type, type)
          end
        else
          simple(add, ("set.%s.%s.%s"):format(comparison, type, type), type, type, type)
          simple(add, ("set.%s.%sx2.%sx2"):format(comparison, type, type), type .. "x2", type .. "x2", type .. "x2")
        end
      end
    end
  end
  for _, type in ipairs { "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64" } do
    for _, comparison in ipairs { "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs" } do
      simple(add, ("setp.%s.%s"):format(comparison, type), "pred", type, type)
      simple(add, ("set.%s.u32.%s"):format(comparison, type), "u32", type, type)
    end
  end
  for _, join in ipairs { "and", "or", "xor" } do
    add { name = ("setp.lt.%s.s32 p|q"):format(join), result = "u64", sources = { "s32", "s32", "u32" }, body = ([[
 setp.ne.u32 %%p3, %%r12, 0;
 setp.lt.%s.s32 %%p1|%%p2, %%r10, %%r11, %%p3;
 selp.u32 %%r4, 1, 0, %%p1; selp.u32 %%r5, 1, 0, %%p2; mov.b64 %%rd3, {%%r4, %%r5};]]):format(join) }
    add { name = ("setp.ltu.%s.f32 p|q, !c"):format(join), result = "u64", sources = { "f32", "f32", "u32" }, body = ([[
 setp.lt.s32 %%p3, %%r12, 0;
 setp.ltu.%s.f32 %%p1|%%p2, %%r10, %%r11, !%%p3;
 selp.u32 %%r4, 1, 0, %%p1; selp.u32 %%r5, 1, 0, %%p2; mov.b64 %%rd3, {%%r4, %%r5};]]):format(join) }
    for _, type in ipairs { "f16x2", "bf16x2" } do
      add { name = ("setp.ge.%s.%s p|q"):format(join, type), result = "u64", sources = { type, type, "u32" }, body = ([[
 setp.lt.s32 %%p3, %%r12, 0;
 setp.ge.%s.%s %%p1|%%p2, %%r10, %%r11, %%p3;
 selp.u32 %%r4, 1, 0, %%p1; selp.u32 %%r5, 1, 0, %%p2; mov.b64 %%rd3, {%%r4, %%r5};]]):format(join, type) }
    end
    add { name = join .. ".pred", result = "u64", sources = { "s32", "s32" }, body = ([[
 setp.lt.s32 %%p1, %%r10, 0; setp.lt.s32 %%p2, %%r11, 0;
 %s.pred %%p3, %%p1, %%p2; selp.u64 %%rd3, 1, 0, %%p3;]]):format(join) }
  end
  for _, kind in ipairs { "finite", "infinite", "number", "notanumber", "normal", "subnormal" } do
    simple(add, ("testp.%s.f32"):format(kind), "pred", "f32")
    simple(add, ("testp.%s.f64"):format(kind), "pred", "f64")
  end
end

local function logic(add)
  for table_of_truth = 0, 255 do
    add { name = "lop3.b32", immediate = ("%d"):format(table_of_truth), result = "b32", sources = { "b32", "b32",
      "b32" } }
  end
  for _, join in ipairs { "or", "and" } do
    add { name = ("lop3.%s.b32 d|p"):format(join), result = "u64", sources = { "b32", "b32", "b32", "s32" }, body = ([[
 setp.lt.s32 %%p2, %%r13, 0;
 lop3.%s.b32 %%r4|%%p1, %%r10, %%r11, %%r12, 0x1c, %%p2;
 selp.u32 %%r5, 1, 0, %%p1; mov.b64 %%rd3, {%%r4, %%r5};]]):format(join) }
  end
  for _, type in ipairs { "b16", "u16", "s16", "f16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64" } do
    local width = ({ ["16"] = 16, ["32"] = 32, ["64"] = 64 })[type:sub(-2)]
    local kind = width == 16 and "%h" or width == 32 and "%r" or "%rd"
    local from = width == 64 and "" or ("\n cvt.u64.u%d %%rd3, %s3;"):format(width, kind)
    add { name = "selp." .. type, result = "u64", sources = { type, type, "s32" }, body =
      (" setp.lt.s32 %%p1, %%r12, 0;\n selp.%s %s3, %s10, %s11, %%p1;%s"):format(type, kind, kind, kind, from) }
    for _, chooser in ipairs { "s32", "f32", "ftz.f32" } do
      local form = chooser == "ftz.f32" and ("slct.ftz.%s.f32"):format(type) or ("slct.%s.%s"):format(type, chooser)
      simple(add, form, type, type, type, chooser:sub(-3))
    end
  end
  for _, code in ipairs { "0x0123", "0x7654", "0x89ab", "0xfedc", "0x5410", "0x7632" } do
    add { name = "prmt.b32 imm", immediate = code, result = "u64", sources = { "b32", "b32" },
      body = (" prmt.b32 %%r3, %%r10, %%r11, %s; cvt.u64.u32 %%rd3, %%r3;"):format(code) }
  end
end

-- Chains over the carry flag: 128-bit sums, differences and products.
local function carries(add)
  local function chain(name, body) add { name = name, result = "u64", sources = { "u64", "u64", "u64" },
    body = body } end
  chain("add.cc.u32 addc.cc.u32 addc.u32", [[
 mov.b64 {%r4,%r5}, %rd10; mov.b64 {%r6,%r7}, %rd11;
 add.cc.u32 %r8, %r4, %r6; addc.cc.u32 %r9, %r5, %r7; addc.u32 %r14, %r4, 0;
 xor.b32 %r8, %r8, %r14; mov.b64 %rd3, {%r8,%r9};]])
  chain("sub.cc.u32 subc.cc.u32 subc.u32", [[
 mov.b64 {%r4,%r5}, %rd10; mov.b64 {%r6,%r7}, %rd11;
 sub.cc.u32 %r8, %r4, %r6; subc.cc.u32 %r9, %r5, %r7; subc.u32 %r14, %r4, 0;
 xor.b32 %r8, %r8, %r14; mov.b64 %rd3, {%r8,%r9};]])
  chain("add.cc.u64 addc.u64", [[
 add.cc.u64 %rd4, %rd10, %rd11; addc.u64 %rd5, %rd12, 0; xor.b64 %rd3, %rd4, %rd5;]])
  chain("sub.cc.s64 subc.s64", [[
 sub.cc.s64 %rd4, %rd10, %rd11; subc.s64 %rd5, %rd12, 0; xor.b64 %rd3, %rd4, %rd5;]])
  chain("mad.lo.cc.u32 madc.hi.cc.u32 addc.u32", [[
 mov.b64 {%r4,%r5}, %rd10; mov.b64 {%r6,%r7}, %rd11; mov.b64 {%r15,%r16}, %rd12;
 mad.lo.cc.u32 %r8, %r4, %r6, %r15; madc.hi.cc.u32 %r9, %r4, %r6, %r16; addc.u32 %r14, %r5, %r7;
 xor.b32 %r8, %r8, %r14; mov.b64 %rd3, {%r8,%r9};]])
  chain("mad.hi.cc.s32 madc.lo.s32", [[
 mov.b64 {%r4,%r5}, %rd10; mov.b64 {%r6,%r7}, %rd11; mov.b64 {%r15,%r16}, %rd12;
 mad.hi.cc.s32 %r8, %r4, %r6, %r15; madc.lo.s32 %r9, %r5, %r7, %r16; mov.b64 %rd3, {%r8,%r9};]])
  chain("mad.lo.cc.u64 madc.hi.u64", [[
 mad.lo.cc.u64 %rd4, %rd10, %rd11, %rd12; madc.hi.u64 %rd5, %rd10, %rd11, %rd12; xor.b64 %rd3, %rd4, %rd5;]])
end

local function packs(add)
  local function pack(name, body) add { name = name, result = "u64", sources = { "u64", "u64" }, body = body } end
  pack("mov.b64 {b16 x4}", [[
 mov.b64 {%h1,%h2,%h3,%h4}, %rd10; mov.b64 %rd3, {%h4,%h1,%h3,%h2};]])
  pack("mov.b32 {b16 x2}", [[
 mov.b64 {%r4,%r5}, %rd10; mov.b32 {%h1,%h2}, %r4; mov.b32 %r6, {%h2,%h1}; mov.b64 %rd3, {%r5,%r6};]])
  pack("mov.b128 {b64 x2}", [[
 mov.b128 %q1, {%rd10,%rd11}; mov.b128 {%rd4,%rd5}, %q1; xor.b64 %rd3, %rd4, %rd11;]])
end

local function floats(add)
  for _, op in ipairs { "ex2.approx", "lg2.approx", "sin.approx", "cos.approx", "rcp.approx", "rsqrt.approx",
    "sqrt.approx" } do
    simple(add, op .. ".f32", "f32", "f32")
    simple(add, op .. ".ftz.f32", "f32", "f32")
  end
  simple(add, "tanh.approx.f32", "f32", "f32")
  for _, op in ipairs { "div.approx", "div.full" } do
    simple(add, op .. ".f32", "f32", "f32", "f32")
    simple(add, op .. ".ftz.f32", "f32", "f32", "f32")
  end
  simple(add, "rcp.approx.ftz.f64", "f64", "f64")
  simple(add, "rsqrt.approx.f64", "f64", "f64")
  simple(add, "rsqrt.approx.ftz.f64", "f64", "f64")
  for _, suffix in ipairs { "", "x2" } do
    simple(add, "ex2.approx.f16" .. suffix, "f16" .. suffix, "f16" .. suffix)
    simple(add, "ex2.approx.ftz.bf16" .. suffix, "bf16" .. suffix, "bf16" .. suffix)
    for _, type in ipairs { "f16", "bf16" } do
      local t = type .. suffix
      simple(add, "tanh.approx." .. t, t, t)
      for _, op in ipairs { "neg", "abs" } do simple(add, op .. "." .. t, t, t) end
      for _, op in ipairs { "add", "sub", "mul", "add.rn", "sub.rn", "mul.rn" } do simple(add, op .. "." .. t, t, t,
        t) end
      for _, op in ipairs { "fma.rn", "fma.rn.relu" } do simple(add, op .. "." .. t, t, t, t, t) end
      for _, op in ipairs { "min", "max", "min.NaN", "max.NaN", "min.xorsign.abs", "max.xorsign.abs",
        "min.NaN.xorsign.abs", "max.NaN.xorsign.abs" } do simple(add, op .. "." .. t, t, t, t) end
    end
    for _, op in ipairs { "fma.rn.ftz", "fma.rn.sat", "fma.rn.ftz.sat", "fma.rn.ftz.relu" } do
      simple(add, op .. ".f16" .. suffix, "f16" .. suffix, "f16" .. suffix, "f16" .. suffix, "f16" .. suffix)
    end
    for _, op in ipairs { "add.rn.ftz", "add.sat", "sub.sat", "mul.sat", "add.ftz.sat", "sub.ftz.sat",
      "mul.ftz.sat" } do
      simple(add, op .. ".f16" .. suffix, "f16" .. suffix, "f16" .. suffix, "f16" .. suffix)
    end
  end
  for _, rounding in ipairs { "rn", "rz", "rm", "rp" } do
    for _, ftz in ipairs { "", ".ftz" } do
      for _, sat in ipairs { "", ".sat" } do
        local tail = ("%s%s%s.f32"):format(rounding, ftz, sat)
        for _, op in ipairs { "add.", "sub.", "mul." } do simple(add, op .. tail, "f32", "f32", "f32") end
        for _, op in ipairs { "fma.", "mad." } do simple(add, op .. tail, "f32", "f32", "f32", "f32") end
      end
      for _, op in ipairs { "rcp.", "sqrt." } do simple(add, op .. rounding .. ftz .. ".f32", "f32", "f32") end
      simple(add, "div." .. rounding .. ftz .. ".f32", "f32", "f32", "f32")
    end
    for _, op in ipairs { "add.", "sub.", "mul.", "div." } do simple(add, op .. rounding .. ".f64", "f64", "f64",
      "f64") end
    for _, op in ipairs { "rcp.", "sqrt." } do simple(add, op .. rounding .. ".f64", "f64", "f64") end
    for _, op in ipairs { "fma.", "mad." } do simple(add, op .. rounding .. ".f64", "f64", "f64", "f64", "f64") end
  end
end

local function integers(add)
  for _, type in ipairs { "u16", "s16", "u32", "s32", "u64", "s64" } do
    for _, op in ipairs { "add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max", "sad" } do
      if op == "sad" then simple(add, op .. "." .. type, type, type, type, type)
      else simple(add, op .. "." .. type, type, type, type) end
    end
    local wide = ({ u16 = "u32", s16 = "s32", u32 = "u64", s32 = "s64" })[type]
    if wide then
      simple(add, "mul.wide." .. type, wide, type, type)
      simple(add, "mad.wide." .. type, wide, type, type, wide)
    end
    simple(add, "mad.lo." .. type, type, type, type, type)
    simple(add, "mad.hi." .. type, type, type, type, type)
    simple(add, "shr." .. type, type, type, "u32")
    if type:sub(1, 1) == "s" then
      simple(add, "abs." .. type, type, type)
      simple(add, "neg." .. type, type, type)
    end
  end
  for _, op in ipairs { "min", "max" } do
    simple(add, op .. ".relu.s32", "s32", "s32", "s32")
    simple(add, op .. ".relu.s16x2", "s16x2", "s16x2", "s16x2")
  end
  for _, op in ipairs { "mul24.lo", "mul24.hi" } do
    simple(add, op .. ".u32", "u32", "u32", "u32")
    simple(add, op .. ".s32", "s32", "s32", "s32")
  end
  for _, op in ipairs { "mad24.lo", "mad24.hi" } do
    simple(add, op .. ".u32", "u32", "u32", "u32", "u32")
    simple(add, op .. ".s32", "s32", "s32", "s32", "s32")
  end
  simple(add, "mad24.hi.sat.s32", "s32", "s32", "s32", "s32")
  simple(add, "sub.sat.s32", "s32", "s32", "s32")
  for _, side in ipairs { "lo", "hi" } do
    for _, a in ipairs { "u32", "s32" } do
      for _, b in ipairs { "u32", "s32" } do
        simple(add, ("dp2a.%s.%s.%s"):format(side, a, b), "s32", "b32", "b32", "s32")
      end
    end
  end
end

-- Results around the least normal number, where flushing is decided: factors close to 1 and to that number.
local function least_normals(add)
  local function products(name, operation, register, one, least, width, third)
    add { name = name .. " about the least normal number", result = width == 32 and "f32" or "u64", sources = { "u64" },
      body = ([[
 cvt.u32.u64 %%r20, %%rd10; and.b32 %%r21, %%r20, 0xff; or.b32 %%r21, %%r21, %s; shr.u32 %%r22, %%r20, 8;
 and.b32 %%r22, %%r22, 0xff; or.b32 %%r22, %%r22, %s; shl.b32 %%r23, %%r20, 15; and.b32 %%r23, %%r23, 0x80000000;
 %s
 %s %s4, %s5, %s6%s;
 cvt.u64.u%d %%rd3, %s4;]]):format(one, least, width == 32
        and "mov.b32 %r5, %r21; or.b32 %r6, %r22, %r23; mov.b32 %r7, 0;"
        or "cvt.u16.u32 %h5, %r21; shr.u32 %r23, %r23, 16;\n"
          .. " or.b32 %r22, %r22, %r23; cvt.u16.u32 %h6, %r22; mov.b16 %h7, 0;",
        operation, register, register, register, third and ", " .. register .. "7" or "", width, register) }
  end
  for _, rounding in ipairs { "rn", "rz", "rm", "rp" } do
    products(("mul.%s.ftz.f32"):format(rounding), ("mul.%s.ftz.f32"):format(rounding), "%r", "0x3f7fff00",
      "0x00800000", 32)
    products(("fma.%s.ftz.f32"):format(rounding), ("fma.%s.ftz.f32"):format(rounding), "%r", "0x3f7fff00",
      "0x00800000", 32, true)
    products(("div.%s.ftz.f32"):format(rounding), ("div.%s.ftz.f32"):format(rounding), "%r", "0x3f7fff00",
      "0x7e800000", 32)
    products(("mul.%s.f32"):format(rounding), ("mul.%s.f32"):format(rounding), "%r", "0x3f7fff00", "0x00800000", 32)
  end
  products("mul.rn.ftz.f16", "mul.rn.ftz.f16", "%h", "0x3b00", "0x0400", 16)
  products("fma.rn.ftz.f16", "fma.rn.ftz.f16", "%h", "0x3b00", "0x0400", 16, true)
end

-- Modifiers that the lists before leave out.
local function spelled(add)
  for _, type in ipairs { "f16", "f16x2" } do
    simple(add, "abs.ftz." .. type, type, type)
    simple(add, "neg.ftz." .. type, type, type)
    for _, op in ipairs { "add", "sub", "mul" } do simple(add, op .. ".ftz." .. type, type, type, type) end
    for _, op in ipairs { "min", "max" } do
      for _, tail in ipairs { ".ftz", ".ftz.NaN", ".ftz.xorsign.abs", ".ftz.NaN.xorsign.abs" } do
        simple(add, op .. tail .. "." .. type, type, type, type)
      end
    end
  end
  for _, type in ipairs { "f16", "bf16", "f16x2", "bf16x2" } do
    simple(add, "fma.rn.oob." .. type, type, type, type, type)
    simple(add, "fma.rn.oob.relu." .. type, type, type, type, type)
  end
  for _, op in ipairs { "add", "sub", "mul" } do
    for _, tail in ipairs { ".f32", ".ftz.f32", ".sat.f32", ".ftz.sat.f32" } do
      simple(add, op .. tail, "f32", "f32", "f32")
    end
    simple(add, op .. ".f64", "f64", "f64", "f64")
  end
  for _, op in ipairs { "min", "max" } do
    for _, tail in ipairs { "", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs",
      ".ftz.NaN.xorsign.abs" } do
      simple(add, op .. tail .. ".f32", "f32", "f32", "f32")
    end
    simple(add, op .. ".f64", "f64", "f64", "f64")
  end
  for _, bits in ipairs { 16, 32, 64 } do
    local type = "b" .. bits
    simple(add, "shr." .. type, type, type, "u32")
    simple(add, "shl." .. type, type, type, "u32")
    simple(add, "not." .. type, type, type)
  end
  for _, mode in ipairs { "wrap", "clamp" } do
    for _, side in ipairs { "l", "r" } do
      simple(add, ("shf.%s.%s.b32"):format(side, mode), "b32", "b32", "b32", "u32")
    end
    simple(add, ("bmsk.%s.b32"):format(mode), "b32", "u32", "u32")
    for _, type in ipairs { "u32", "s32" } do
      simple(add, ("szext.%s.%s"):format(mode, type), type, type, "u32")
    end
  end
  for _, mode in ipairs { "f4e", "b4e", "rc8", "ecl", "ecr", "rc16" } do
    simple(add, "prmt.b32." .. mode, "b32", "b32", "b32", "b32")
  end
  simple(add, "fns.b32", "u32", "b32", "u32", "s32")
  for _, a in ipairs { "u32", "s32" } do
    for _, b in ipairs { "u32", "s32" } do simple(add, ("dp4a.%s.%s"):format(a, b), "s32", "b32", "b32", "s32") end
  end
end

-- set of 16-bit floats into integers and single floats, with ftz; setp with both results.
local function more_comparisons(add)
  local all = { "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan" }
  for _, comparison in ipairs(all) do
    for _, flush in ipairs { "", ".ftz" } do
      for _, result in ipairs { "u32", "s32", "u16", "s16", "f32", "f16" } do
        simple(add, ("set.%s%s.%s.f16"):format(comparison, flush, result), result, "f16", "f16")
      end
      for _, result in ipairs { "u32", "s32", "f32" } do
        simple(add, ("set.%s%s.%s.f32"):format(comparison, flush, result), result, "f32", "f32")
      end
      simple(add, ("set.%s%s.f16x2.f16x2"):format(comparison, flush), "f16x2", "f16x2", "f16x2")
    end
    for _, result in ipairs { "u32", "s32", "u16", "s16" } do
      simple(add, ("set.%s.%s.bf16"):format(comparison, result), result, "bf16", "bf16")
    end
    for _, result in ipairs { "u32", "s32", "f32" } do
      simple(add, ("set.%s.%s.f64"):format(comparison, result), result, "f64", "f64")
    end
    for _, pair in ipairs { "f16x2", "bf16x2" } do
      for _, flush in ipairs(pair == "f16x2" and { "", ".ftz" } or { "" }) do
        add { name = ("setp.%s%s.%s p|q"):format(comparison, flush, pair), result = "u64", sources = { pair, pair },
          body = ([[
 setp.%s%s.%s %%p1|%%p2, %%r10, %%r11;
 selp.u32 %%r4, 1, 0, %%p1; selp.u32 %%r5, 1, 0, %%p2; mov.b64 %%rd3, {%%r4, %%r5};]]):format(comparison, flush, pair) }
      end
    end
  end
end

local function integers_compared(add)
  for _, comparison in ipairs { "eq", "ne", "lt", "le", "gt", "ge" } do
    for _, type in ipairs { "u16", "s16", "u32", "s32", "u64", "s64" } do
      for _, result in ipairs { "s32", "f32" } do
        simple(add, ("set.%s.%s.%s"):format(comparison, result, type), result, type, type)
      end
    end
  end
end

-- Every instruction that takes a carry or leaves one: the words before have left it, those behind it keep it.
local function all_carries(add)
  for _, bits in ipairs { 32, 64 } do
    for _, sign in ipairs { "u", "s" } do
      local type, r = sign .. bits, bits == 32 and "%r" or "%rd"
      local function chain(name, line)
        add { name = ("%s.%s within a chain"):format(name, type), result = "u64", sources = { "u64", "u64", "u64" },
          body = table.concat({ bits == 32
            and " mov.b64 {%r4,%r5}, %rd10; mov.b64 {%r6,%r7}, %rd11; mov.b64 {%r8,%r9}, %rd12;"
            or " mov.b64 %rd4, %rd10; mov.b64 %rd6, %rd11; mov.b64 %rd8, %rd12; not.b64 %rd5, %rd10;"
              .. " xor.b64 %rd7, %rd11, %rd12; not.b64 %rd9, %rd12;",
            (" %s.cc.%s %s14, %s4, %s6;"):format(name:match "^sub" and "sub" or "add", type, r, r, r),
            (line:gsub("@", "%" .. r)), (" addc.%s %s16, %s5, %s7;"):format(type, r, r, r),
            bits == 32 and " xor.b32 %r14, %r14, %r16; mov.b64 %rd3, {%r14, %r15};"
              or " xor.b64 %rd3, %rd14, %rd15; xor.b64 %rd3, %rd3, %rd16;" }, "\n") }
      end
      for _, op in ipairs { "addc", "subc" } do
        for _, cc in ipairs { "", ".cc" } do
          chain(op .. cc, (" %s%s.%s @15, @5, @9;"):format(op, cc, type))
        end
      end
      for _, op in ipairs { "mad", "madc" } do
        for _, side in ipairs { "lo", "hi" } do
          for _, cc in ipairs(op == "mad" and { ".cc" } or { "", ".cc" }) do
            chain(("%s.%s%s"):format(op, side, cc), (" %s.%s%s.%s @15, @5, @7, @9;"):format(op, side, cc, type))
          end
        end
      end
    end
  end
end

return function()
  local cases, seen = {}, {}
  local function add(form)
    local case = kernels.case(form)
    if seen[case.name] then return end
    seen[case.name] = true
    cases[#cases + 1] = case
  end
  recorded(add)
  integers(add)
  comparisons(add)
  logic(add)
  carries(add)
  packs(add)
  floats(add)
  least_normals(add)
  spelled(add)
  more_comparisons(add)
  all_carries(add)
  integers_compared(add)
  return cases
end

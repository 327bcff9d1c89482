-- Instruction forms of the PTX ISA that <cuda/ptx> lacks, as patterns: a mnemonic with alternatives in
-- parentheses, then operands.  b h r l q f d p are registers of 8, 16, 32, 64, 128 bits, .f32, .f64, .pred;
-- 4r is a vector, [l] an address, [l,3r] a tensor map with coordinates; anything else stands as it is.
local M = {}

local rows = {}
local function row(pattern, operands) rows[#rows + 1] = { pattern, operands } end

---- arithmetic

for bits, letter in pairs { [16] = "h", [32] = "r", [64] = "l" } do
  local types = ("(u%d|s%d)"):format(bits, bits)
  local two, three = letter .. " " .. letter, (letter .. " "):rep(3)
  row("(add|sub|mul.lo|mul.hi|div|rem|min|max)." .. types, three)
  row("(mad.lo|sad)." .. types, three .. letter)
  row("(abs|neg).s" .. bits, two)
  row("not.b" .. bits, two)
  row("(and|or|xor).b" .. bits, three)
  row("shl.b" .. bits, two .. " r")
  row("shr.(u|s|b)" .. bits, two .. " r")
  row("set.(eq|lt|hi).(u32|s32|f32)." .. types, "r " .. two)
  row("setp.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs)." .. types, "p " .. two)
  row("setp.(eq|ne|lt).b" .. bits, "p " .. two)
  row("setp.(eq|lt).(and|or|xor)." .. types, "p|p " .. two .. " p")
  row("selp.(b|u|s)" .. bits, three .. "p")
  row("slct.(b|u|s)" .. bits .. ".(s32|f32)", three .. "r")
  if bits > 16 then
    row("(popc|clz|bfind).(b|u|s)" .. bits, "r " .. letter)
    row("bfind.shiftamt.(u|s)" .. bits, "r " .. letter)
    row("brev.b" .. bits, two)
    row("bfe.(u|s)" .. bits, two .. " r r")
    row("bfi.b" .. bits, three .. "r r")
    row("(add|sub|addc|subc)(|.cc).(u|s)" .. bits, three)
    row("(mad|madc).(lo|hi)(|.cc).(u|s)" .. bits, three .. letter)
    row("szext.(wrap|clamp).(u|s)" .. bits, two .. " r")
  end
end
row("(mul|mad).wide.(u16|s16)", "r h h")
row("mul.wide.(u32|s32)", "l r r")
row("mad.wide.(u16|s16)", "r h h r")
row("mad.wide.(u32|s32)", "l r r l")
row("(mul24|mad24).(lo|hi).(u32|s32)", "r r r")
row("mad24.(lo|hi).(u32|s32)", "r r r r")
row("add(|.sat).s32", "r r r")
row("(min|max).relu.(s16x2|u16x2|s32)", "r r r")
row("(add|min|max).(s16x2|u16x2)", "r r r")
row("dp4a.(u32|s32).(u32|s32)", "r r r r")
row("dp2a.(lo|hi).(u32|s32).(u32|s32)", "r r r r")
row("bmsk.(wrap|clamp).b32", "r r r")
row("fns.b32", "r r r r")
row("lop3.b32", "r r r r 0x1b")
row("lop3.(or|and).b32", "r|p r r r 0x1b p")
row("shf.(l|r).(wrap|clamp).b32", "r r r r")
row("prmt.b32(|.f4e|.b4e|.rc8|.ecl|.ecr|.rc16)", "r r r r")
row("cnot.(b16|b32)", "r r")
row("mov.(b32|u32|s32)", "r r")
row("mov.b32", "r {h,h}")
row("mov.b32", "{h,h} r")
row("mov.b64", "l {r,r}")
row("mov.b64", "{h,h,h,h} l")
row("mov.b128", "q {l,l}")
row("mov.b128", "{l,l} q")
row("(and|or|xor).pred", "p p p")
row("not.pred", "p p")

---- video instructions

for _, operation in ipairs { "vadd", "vsub", "vabsdiff", "vmin", "vmax" } do
  row(operation .. ".(u32|s32).(u32|s32).(u32|s32)(|.sat)(|.add|.min|.max)", "(r|r.h0) (r|r.b1) r.h1")
  row(operation .. ".(u32|s32).(u32|s32).(u32|s32)(|.sat)(|.add|.min|.max)", "(r|r.h1|r.b3|r.h2|r.b4) r r.b2 r")
  row(operation .. ".(u32|b32).u32.(s32|u16)(|.add.sat)", "r (r|-r) r r")
end
row("vadd.u32.u32.s32", "r (5|-3|r.h10|r.b|r.b01) r (r|5|r.b0|-r)")
row("(vshl|vshr).(u32|s32).(u32|s32).(u32|s32)(|.sat)(|.clamp|.wrap)(|.add|.min)", "(r|r.h0) (r|r.b1) r.h1 r")
row("(vshl|vshr).u32.(u32|s32).u32(|.clamp.sat|.sat.clamp|.clamp.add|.add.clamp)", "r r r")
row("vmad.(u32|s32).(u32|s32).(u32|s32)(|.po)(|.sat)(|.shr7|.shr15)", "r (r|-r|-r.b1) (r|-r) (r|-r|3)")
row("vmad.(u32|s32).u32.u32(|.add|.clamp)", "(r r r|r.h0 r r r|r r r r.h0|r 3 -3 r|r r 3 -3)")
row("vset.(u32|s32).(u32|s32).(eq|ne|lt|le|gt|ge|lo)(|.add|.min|.max|.sat)", "(r|r.h0) r r.b0 r")
row("vset.(u32|s32).(u32|s32).(eq|lt)(|.add)", "r r r")
for parts, operands in pairs {
  [2] = "(r|r.h10|r.h01|r.h1|r.b0|r.h0) (r|r.h12|r.h33|r.h4|r.h0|r.b3210) (r|r.h03|3) r",
  [4] = "(r|r.b3210|r.b0|r.b31|r.b13|r.h0) (r|r.b7654|r.b0000|r.b8765|r.b10) (r|r.b7070|3) (r|4)",
} do
  row(("(vadd|vsub|vavrg|vabsdiff|vmin|vmax)%d.(u32|s32).s32.u32(|.sat|.add|.sat.add|.max)"):format(parts), operands)
  row(("vset%d.(u32|s32).(u32|s32).(eq|gt)(|.add|.max|.sat)"):format(parts), operands)
  row(("(vadd|vset)%d.u32.u32(|.u32)(|.lt)"):format(parts), "r r r")
  row(("(vshl|vmad|vshr)%d.u32.u32.u32"):format(parts), "r r r r")
end
row("(vavrg|vadd3).u32.u32.u32", "r r r")

---- floating point

row("(add|sub|mul)(|.rn|.rz|.rm|.rp)(|.ftz)(|.sat).f32", "f f f")
row("fma(.rn|.rz|.rm|.rp|)(|.ftz)(|.sat).f32", "f f f f")
row("mad(.rn|.rz|.rm|.rp)(|.ftz).f32", "f f f f")
row("(add|sub|mul)(|.rn|.rz|.rm|.rp).f64", "d d d")
row("fma(.rn|.rz|.rm|.rp|).f64", "d d d d")
row("(add|sub|mul)(|.rn|.rz|.rm|.rp)(|.ftz).f32x2", "l l l")
row("fma(.rn|.rz|.rm|.rp)(|.ftz).f32x2", "l l l l")
row("(add|sub)(|.rn|.rz|.rm|.rp)(|.sat).f32.(f16|bf16)", "f h f")
row("fma(.rn|.rz|.rm|.rp)(|.sat).f32.(f16|bf16)", "f h h f")
row("(add|sub|mul)(|.rn)(|.ftz)(|.sat).(f16|bf16)", "h h h")
row("(add|sub|mul)(|.rn)(|.ftz)(|.sat).(f16x2|bf16x2)", "r r r")
row("fma.rn(|.ftz)(|.sat|.relu|.oob|.oob.relu).(f16|bf16)", "h h h h")
row("fma.rn(|.ftz)(|.sat|.relu|.oob|.oob.relu).(f16x2|bf16x2)", "r r r r")
row("(min|max)(|.ftz)(|.NaN)(|.xorsign.abs).f32", "f f f")
row("(min|max)(|.ftz)(|.NaN)(|.abs).f32", "f f f f")
row("(min|max).f64", "d d d")
row("(min|max)(|.ftz)(|.NaN)(|.xorsign.abs).(f16|bf16)", "h h h")
row("(min|max)(|.ftz)(|.NaN)(|.xorsign.abs).(f16x2|bf16x2)", "r r r")
row("(abs|neg)(|.ftz).f32", "f f")
row("(abs|neg).f64", "d d")
row("(abs|neg)(|.ftz).(f16|bf16)", "h h")
row("(abs|neg)(|.ftz).(f16x2|bf16x2)", "r r")
row("copysign.f32", "f f f")
row("copysign.f64", "d d d")
row("testp.(finite|infinite|number|notanumber|normal|subnormal).f32", "p f")
row("testp.(finite|infinite|number|notanumber|normal|subnormal).f64", "p d")
row("div(.rn|.rz|.rm|.rp|.approx|.full|)(|.ftz).f32", "f f f")
row("div(.rn|.rz|.rm|.rp|).f64", "d d d")
row("(rcp|sqrt)(.rn|.rz|.rm|.rp|.approx)(|.ftz).f32", "f f")
row("(rcp|sqrt)(.rn|.rz|.rm|.rp).f64", "d d")
row("(rcp|rsqrt).approx.ftz.f64", "d d")
row("(rsqrt|sin|cos|lg2|ex2|tanh).approx(|.ftz).f32", "f f")
row("rsqrt.approx.f64", "d d")
row("(tanh|ex2).approx(|.ftz).(f16|bf16)", "h h")
row("(tanh|ex2).approx(|.ftz).(f16x2|bf16x2)", "r r")
row("setp.(eq|ne|lt|ge|equ|neu|ltu|geu|num|nan)(|.ftz).f32", "p f f")
row("setp.(eq|ltu|nan).f64", "p d d")
row("setp.(eq|ltu|nan)(|.ftz).f16", "p h h")
row("setp.(eq|ltu|nan).bf16", "p h h")
row("setp.(eq|ltu|nan)(|.ftz).f16x2", "p|p r r")
row("setp.(eq|ltu|nan).bf16x2", "p|p r r")
row("set.(eq|ltu|nan)(|.ftz).(f16|u32|s32).f16", "h h h")
row("set.(eq|ltu|nan)(|.ftz).(u32|s32).f16", "r h h")
row("set.(eq|ltu|nan)(|.ftz).f16x2.f16x2", "r r r")
row("set.(eq|ltu|nan).bf16x2.bf16x2", "r r r")
row("set.(eq|ltu|nan).(u32|s32|f32).(f32|f64)", "r f f")

---- conversions

local scalar_registers = { f16 = "h", bf16 = "h", f32 = "f", f64 = "d", tf32 = "r", u8 = "h", s8 = "h", u16 = "h",
  s16 = "h", u32 = "r", s32 = "r", u64 = "l", s64 = "l" }
for to, to_register in pairs(scalar_registers) do
  for from, from_register in pairs(scalar_registers) do
    row(("cvt(|.rn|.rz|.rm|.rna|.rs|.rni|.rpi)(|.ftz)(|.sat|.satfinite|.relu|.satfinite.relu).%s.%s"):format(to, from),
      to_register .. " " .. from_register)
  end
end
row("cvt(.rn|.rz)(|.relu)(|.satfinite).(f16x2|bf16x2).f32", "r f f")
row("cvt.rs(|.relu)(|.satfinite).(f16x2|bf16x2).f32", "r f f r")
row("cvt.rn.satfinite(|.relu).(e4m3x2|e5m2x2|e2m3x2|e3m2x2).f32", "h f f")
row("cvt.rn.satfinite(|.relu).e2m1x2.f32", "b f f")
row("cvt.rn.satfinite(|.relu).(e4m3x2|e5m2x2).f16x2", "h r")
row("cvt.rn(|.relu).f16x2.(e4m3x2|e5m2x2|e2m3x2|e3m2x2)", "r h")
row("cvt.rn(|.relu).f16x2.e2m1x2", "r b")
row("cvt(.rz|.rp|.rn)(|.satfinite).ue8m0x2.f32", "h f f")
row("cvt(.rz|.rp)(|.satfinite).ue8m0x2.bf16x2", "h r")
row("cvt.rn.bf16x2.ue8m0x2", "r h")
row("cvt.rs(|.relu).satfinite.(e4m3x4|e5m2x4|e2m3x4|e3m2x4).f32", "r {f,f,f,f} r")
row("cvt.rs(|.relu).satfinite.e2m1x4.f32", "h {f,f,f,f} r")
row("cvt.pack.sat.(u16|s16).s32", "r r r")
row("cvt.pack.sat.(u8|s8|u4|s4|u2|s2).s32.b32", "r r r r")

---- memory

local widths = { b8 = "h", u8 = "h", s8 = "h", b16 = "h", u16 = "h", b32 = "r", f32 = "f", b64 = "l", f64 = "d" }
for type, register in pairs(widths) do
  row("ld(|.weak|.volatile|.relaxed.gpu|.acquire.cta|.acquire.cluster|.relaxed.sys)(|.global|.shared|.shared::cluster)."
    .. type, register .. " [l]")
  row("st(|.weak|.volatile|.relaxed.gpu|.release.cta|.release.cluster|.relaxed.sys)(|.global|.shared|.shared::cluster)."
    .. type, "[l] " .. register)
  row("ld.mmio.relaxed.sys.global." .. type, register .. " [l]")
  row("st.mmio.relaxed.sys.global." .. type, "[l] " .. register)
  row("ld.global.(ca|cg|cs|lu|cv|nc|ca.nc|L1::no_allocate|L2::64B|L2::evict_first|L1::evict_last.L2::256B)." .. type,
    register .. " [l]")
  row("st.global.(wb|cg|cs|wt|L1::no_allocate|L2::evict_last)." .. type, "[l] " .. register)
  for _, count in ipairs { 2, 4, 8 } do
    if count < 8 or register == "r" or register == "f" then -- the assembler dies of .v8 of narrow types
      row(("ld(|.global|.shared|.local)(|.v%d).%s"):format(count, type), count .. register .. " [l]")
      row(("st(|.global|.shared|.local)(|.v%d).%s"):format(count, type), "[l] " .. count .. register)
      row(("ld.global.nc.v%d.%s"):format(count, type), count .. register .. " [l]")
    end
  end
end
row("ld.global(|.nc)(|.L2::evict_last|.L2::evict_normal|.L2::evict_first).(v8.b32|v4.b64)", "8r [l]")
row("ld.global(|.nc)(|.L2::evict_last|.L2::evict_first).v4.b64", "4l [l]")
row("(ld|ld.volatile|ld.relaxed.gpu)(|.global|.shared).b128", "q [l]")
row("(st|st.volatile|st.relaxed.gpu)(|.global|.shared).b128", "[l] q")
row("ld.global.L2::cache_hint.(b32|u32)", "r [l] l")
row("st.global.L2::cache_hint.(b32|u32)", "[l] r l")
row("ldu.global.(b32|u32)", "r [l]")
row("prefetch.(global.L1|global.L2|local.L1|L1|L2|global.L2::evict_last|global.L2::evict_normal)", "[l]")
row("prefetchu.L1", "[l]")
row("prefetch(|.const).tensormap", "[l]")
row("applypriority.global.L2::evict_normal", "[l] 128")
row("discard(|.global).L2", "[l] 128")
row("createpolicy.fractional.L2::(evict_first|evict_last|evict_normal|evict_unchanged)(|.L2::evict_unchanged).b64",
  "l 0.5")
row("createpolicy.fractional.L2::evict_last.b64", "l")
row("createpolicy.range(|.global).L2::evict_last.b64", "l [l] r r")
row("createpolicy.cvt.L2.b64", "l l")
row("isspacep.(const|global|local|shared|shared::cta|shared::cluster|param|param::entry)", "p l")
row("cvta(|.to).(const|global|local|shared|shared::cta|shared::cluster|param).u64", "l l")
row("mapa(|.shared::cluster).u64", "l l r")
row("mapa(|.shared::cluster).u32", "r r r")
row("getctarank.u64", "r l")
row("getctarank.shared::cluster.u32", "r r")
row("(mapa|getctarank)(|.shared::cluster|.shared|.global).(u32|u64)", "(r r|l l|r l) r")
row("getctarank(|.shared::cluster|.shared).(u32|u64)", "r (r|l)")
row("istypep.(texref|samplerref|surfref)", "p (l|r)")
row("istypep", "p l")

---- atomics

local scopes = "(|.relaxed.cta|.acq_rel.gpu|.acquire.cluster|.release.sys)"
for _, name in ipairs { "atom", "red" } do
  local result = name == "atom" and "%s " or ""
  local function atomic(pattern, register, more)
    row(name .. scopes .. pattern, (result:format(register) .. "[l] " .. register .. (more or "")))
  end
  atomic("(|.global|.shared|.shared::cluster).(and|or|xor).b32", "r")
  atomic("(|.global|.shared).(and|or|xor).b64", "l")
  atomic("(|.global|.shared|.shared::cluster).(add|min|max).(u32|s32)", "r")
  atomic("(|.global|.shared).(inc|dec).u32", "r")
  atomic("(|.global|.shared).(add|min|max).(u64|s64)", "l")
  atomic("(|.global|.shared).add.f32", "f")
  atomic("(|.global|.shared).add.f64", "d")
  atomic("(|.global|.shared).add.noftz.(f16|bf16)", "h")
  atomic("(|.global|.shared).add.noftz.(f16x2|bf16x2)", "r")
  for _, count in ipairs { 2, 4, 8 } do
    local vector = name == "atom" and "%d%s [l] %d%s" or "[l] %d%s"
    row(name .. (".global(|.v%d).(add|min|max).noftz.(f16|bf16)"):format(count), vector:format(count, "h", count, "h"))
    row(name .. (".global(|.v%d).(add|min|max).noftz.(f16x2|bf16x2)"):format(count),
      vector:format(count, "r", count, "r"))
    row(name .. (".global(|.v%d).add.f32"):format(count), vector:format(count, "f", count, "f"))
  end
end
row("atom" .. scopes .. "(|.global|.shared).exch.b32", "r [l] r")
row("atom" .. scopes .. "(|.global|.shared).exch.b64", "l [l] l")
row("atom(|.global|.shared).exch.b128", "q [l] q")
row("atom" .. scopes .. "(|.global|.shared).cas.b16", "h [l] h h")
row("atom" .. scopes .. "(|.global|.shared).cas.b32", "r [l] r r")
row("atom" .. scopes .. "(|.global|.shared).cas.b64", "l [l] l l")
row("atom(|.global|.shared).cas.b128", "q [l] q q")
row("atom.global.add.L2::cache_hint.u32", "r [l] r l")

---- warps, barriers, control

row("vote.sync.(all|any|uni).pred", "p p r")
row("vote.sync.ballot.b32", "r p r")
row("match.any.sync.(b32|b64)", "r r r")
row("match.any.sync.b64", "r l r")
row("match.all.sync.b32", "r|p r r")
row("match.all.sync.b64", "r|p l r")
row("shfl.sync.(up|down|bfly|idx).b32", "r|p r r r r")
row("redux.sync.(add|min|max).(u32|s32)", "r r r")
row("redux.sync.(and|or|xor).b32", "r r r")
row("redux.sync.(min|max)(|.abs)(|.NaN).f32", "f f r")
row("activemask.b32", "r")
row("elect.sync", "r|p r")
row("bar.(sync|arrive)", "r 64")
row("barrier(|.cta).(sync|arrive)(|.aligned)", "r 64")
row("barrier(|.cta).red.popc(|.aligned).u32", "r 1 p")
row("barrier(|.cta).red.(and|or)(|.aligned).pred", "p 1 p")
row("bar.warp.sync", "r")
row("barrier.cluster.arrive(|.release|.relaxed)(|.aligned)", "")
row("barrier.cluster.wait(|.acquire)(|.aligned)", "")
row("fence(|.sc|.acq_rel|.acquire|.release).(cta|cluster|gpu|sys)", "")
row("fence.(acquire|release).sync_restrict::shared::(cta|cluster).cluster", "")
row("fence.proxy.(alias|async|async.global|async.shared::cta|async.shared::cluster)", "")
row("membar.(cta|gl|sys)", "")
row("nanosleep.u32", "r")
row("setmaxnreg.(inc|dec).sync.aligned.u32", "64")
row("griddepcontrol.(wait|launch_dependents)", "")
row("pmevent", "1")
row("pmevent.mask", "1")
row("brkpt", "")
row("alloca.(u32|u64)", "l l 8")
row("stacksave.u64", "l")
row("stackrestore.u64", "l")

---- copies and barriers in shared memory

row("cp.async.ca.shared(|::cta).global(|.L2::64B|.L2::128B|.L2::256B)", "[r] [l] (4|8|16)")
row("cp.async.cg.shared(|::cta).global(|.L2::64B|.L2::128B|.L2::256B)", "[r] [l] 16")
row("cp.async.(ca|cg).shared.global", "[r] [l] 16 r")
row("cp.async.(ca|cg).shared.global", "[r] [l] 16 p")
row("cp.async.(ca|cg).shared.global.L2::cache_hint", "[r] [l] 16 l")
row("cp.async.(commit_group|wait_all)", "")
row("cp.async.wait_group", "2")
row("cp.async.mbarrier.arrive(|.noinc)(|.shared|.shared::cta).b64", "[r]")
row("cp.async.bulk.shared::(cta|cluster).global.mbarrier::complete_tx::bytes(|.ignore_oob)", "[r] [l] r [r]")
row("cp.async.bulk.shared::(cta|cluster).global.mbarrier::complete_tx::bytes.L2::cache_hint", "[r] [l] r [r] l")
row("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint",
  "[r] [l] r [r] h l")
row("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", "[r] [r] r [r]")
row("cp.async.bulk.global.shared::cta.bulk_group(|.L2::cache_hint)", "[l] [r] r l")
row("cp.async.bulk.prefetch.L2.global(|.L2::cache_hint)", "[l] r l")
row("cp.reduce.async.bulk.global.shared::cta.bulk_group.(add|min|max|inc|dec|and|or|xor).(u32|s32|u64|s64|b32|b64|f32)",
  "[l] [r] r")
row("cp.reduce.async.bulk.global.shared::cta.bulk_group.(add|min|max).(f16|bf16|f64)", "[l] [r] r")
row("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.(f16|bf16)", "[l] [r] r")
row("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
  .. ".(add|min|max|inc|dec|and|or|xor).(u32|s32|u64|s64|b32|b64)", "[r] [r] r [r]")

local load = "cp.async.bulk.tensor.%dd.shared::(cta|cluster).global%s.mbarrier::complete_tx::bytes"
local store = "cp.async.bulk.tensor.%dd.global.shared::cta%s.bulk_group"
local reduce = "cp.reduce.async.bulk.tensor.%dd.global.shared::cta.(add|min|inc|and)%s.bulk_group"
local prefetch = "cp.async.bulk.prefetch.tensor.%dd.L2.global%s"
for rank = 1, 5 do
  local map = ("[l,%dr]"):format(rank)
  row(load:format(rank, "(|.tile)") .. "(|.cta_group::1|.cta_group::2)", "[r] " .. map .. " [r]")
  row(load:format(rank, "(|.tile)") .. ".L2::cache_hint", "[r] " .. map .. " [r] l")
  row(load:format(rank, "(|.tile)") .. ".multicast::cluster", "[r] " .. map .. " [r] h")
  row(load:format(rank, "") .. ".multicast::cluster.L2::cache_hint", "[r] " .. map .. " [r] h l")
  row(store:format(rank, "(|.tile)") .. "(|.L2::cache_hint)", map .. " [r] l")
  row(store:format(rank, "(|.tile|.im2col_no_offs)"), map .. " [r]")
  row(reduce:format(rank, "(|.tile|.im2col_no_offs)"), map .. " [r]")
  row(prefetch:format(rank, "(|.tile)"), map)
  row(prefetch:format(rank, "") .. ".L2::cache_hint", map .. " l")
  for _, offsets in ipairs { "h", "{h,h}", "{h,h,h}" } do
    row(load:format(rank, "(.im2col|.im2col::w|.im2col::w::128)"), "[r] " .. map .. " [r] " .. offsets)
    row(load:format(rank, "(.im2col|.im2col::w)") .. ".multicast::cluster",
      "[r] " .. map .. " [r] " .. offsets .. " h")
    row(load:format(rank, ".im2col") .. ".multicast::cluster.L2::cache_hint",
      "[r] " .. map .. " [r] " .. offsets .. " h l")
    row(prefetch:format(rank, "(.im2col|.im2col::w|.im2col::w::128)"), map .. " " .. offsets)
  end
end
row(load:format(2, ".tile::gather4") .. "(|.cta_group::2)", "[r] [l,5r] [r]")
row(load:format(2, ".tile::gather4") .. ".multicast::cluster", "[r] [l,5r] [r] h")
row(store:format(2, ".tile::scatter4"), "[l,5r] [r]")
row(prefetch:format(2, ".tile::gather4"), "[l,5r]")
row("cp.async.bulk.(commit_group)", "")
row("cp.async.bulk.wait_group(|.read)", "3")
row("tensormap.replace.tile."
  .. "(rank|elemtype|interleave_layout|swizzle_mode|fill_mode|swizzle_atomicity).(global|shared::cta)"
  .. ".b1024.b32", "[l] 0")
row("tensormap.replace.tile.(elemtype).global.b1024.b32", "[l] (11|12|13|14|15|16)")
row("tensormap.replace.tile.swizzle_mode.global.b1024.b32", "[l] (1|2|3|4|5)")
row("tensormap.replace.tile.(box_dim|global_dim|element_stride).global.b1024.b32", "[l] 0 r")
row("tensormap.replace.tile.global_stride.global.b1024.b64", "[l] 0 l")
row("tensormap.replace.tile.global_address.global.b1024.b64", "[l] l")
row("mbarrier.init(|.shared|.shared::cta).b64", "[r] 1")
row("mbarrier.inval(|.shared|.shared::cta).b64", "[r]")
row("mbarrier.(expect_tx|complete_tx)(|.relaxed.cta|.relaxed.cluster)(|.shared|.shared::cta|.shared::cluster).b64",
  "[r] r")
row("mbarrier.(arrive|arrive_drop)(|.release.cta|.release.cluster|.relaxed.cta|.relaxed.cluster)"
  .. "(|.shared|.shared::cta).b64",
  "l [r]")
row("mbarrier.(arrive|arrive_drop)(|.release.cluster|.relaxed.cluster)(|.shared::cta|.shared::cluster).b64", "_ [r] 2")
row("mbarrier.(arrive|arrive_drop).expect_tx(|.release.cluster|.relaxed.cta)(|.shared::cta|.shared::cluster).b64",
  "_ [r] r")
row("mbarrier.(arrive|arrive_drop).noComplete(|.release.cta)(|.shared|.shared::cta).b64", "l [r] 2")
row("mbarrier.(test_wait|try_wait)(|.acquire.cta|.acquire.cluster|.relaxed.cta|.relaxed.cluster)"
  .. "(|.shared|.shared::cta).b64",
  "p [r] l")
row("mbarrier.(test_wait|try_wait).parity(|.acquire.cta|.acquire.cluster|.relaxed.cluster)(|.shared|.shared::cta).b64",
  "p [r] r")
row("mbarrier.try_wait(|.parity)(|.acquire.cta)(|.shared|.shared::cta).b64", "p [r] r 1000")
row("mbarrier.pending_count.b64", "r l")
row("st.async(|.weak)(|.shared::cluster).mbarrier::complete_tx::bytes.(b32|u32|s32|f32)", "[r] r [r]")
row("st.async(|.weak)(|.shared::cluster).mbarrier::complete_tx::bytes.(b64|u64|s64|f64)", "[r] l [r]")
row("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.(b64|f64)", "[r] 2l [r]")
row("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.(b32|s32)", "[r] 4r [r]")
row("st.async(|.mmio).release.(gpu|sys|cluster).global.(b32|u32)", "[l] r")
row("red.async.relaxed.cluster(|.shared::cluster).mbarrier::complete_tx::bytes."
  .. "(inc|dec|min|max|add|and|or|xor).(u32|s32|b32)",
  "[r] r [r]")
row("red.async.relaxed.cluster(|.shared::cluster).mbarrier::complete_tx::bytes.(add|and).(u64|b64)", "[r] l [r]")
row("red.async(|.mmio).release.(gpu|sys).global.add.(u32|u64)", "[l] r")
row("st.bulk(|.weak)(|.shared::cta)", "[l] l 0")
row("multimem.ld_reduce(|.weak|.relaxed.gpu)(|.global)(.add|.min|.max)(|.v2|.v4|.v8).(f16|bf16|f16x2|bf16x2)", "4r [l]")
row("multimem.ld_reduce(|.weak|.relaxed.gpu)(|.global)(.add|.min|.max)(|.acc::f32)(|.v2|.v4).(f16x2|bf16x2)", "4r [l]")
row("multimem.ld_reduce(|.relaxed.sys)(|.global)(.add|.min)(|.acc::f32).(f16x2|bf16x2)", "r [l]")
row("multimem.ld_reduce(|.relaxed.sys)(|.global).add(|.v2|.v4).f32", "4f [l]")
row("multimem.ld_reduce.relaxed.sys.global.add(|.v2).f32", "2f [l]")
row("multimem.ld_reduce.relaxed.sys.global.add(|.acc::f16).(v4|v8|v16).(e4m3x4|e5m2x4|e4m3|e5m2|e4m3x2)", "4r [l]")
row("multimem.red.relaxed.sys.global.(add|min).(v4|v8|v2).(f16|bf16|f16x2|bf16x2)", "[l] 4r")
row("multimem.red(|.relaxed.sys)(|.global).add(|.v2|.v4).f32", "[l] 4f")
row("multimem.st(|.weak|.relaxed.sys)(|.global)(|.v2|.v4).(f16x2|bf16x2|e4m3x4|b32)", "[l] 4r")
row("multimem.st(|.weak|.relaxed.sys)(|.global)(|.v2|.v4).f32", "[l] 4f")

---- matrices in registers

for _, count in ipairs { 1, 2, 4 } do
  local vector = count == 1 and "{r}" or count .. "r"
  row(("ldmatrix.sync.aligned.m8n8.x%d(|.trans)(|.shared|.shared::cta).b16"):format(count), vector .. " [r]")
  row(("stmatrix.sync.aligned.m8n8.x%d(|.trans)(|.shared|.shared::cta).b16"):format(count), "[r] " .. vector)
  row(("stmatrix.sync.aligned.m16n8.x%d(|.trans)(|.shared).b8"):format(count), "[r] " .. vector)
  row(("ldmatrix.sync.aligned.m8n16.x%d(|.trans)(|.shared).b8x16.(b4x16_p64|b6x16_p32)"):format(count), vector
    .. " [r]")
  row(("ldmatrix.sync.aligned.m16n16.x%d(|.trans)(|.shared).(b8|b8x16.b4x16_p64|b8x16.b6x16_p32)"):format(count),
    2 * count .. "r [r]")
end
row("movmatrix.sync.aligned.m8n8.trans.b16", "r r")
row("mma.sync.aligned.m8n8k4.(row|col).(row|col).f16.f16.f16.f16", "4r 2r 2r 4r")
row("mma.sync.aligned.m8n8k4.(row|col).(row|col).f32.f16.f16.f32", "8f 2r 2r 8f")
row("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16", "8f 2r 2r 4r")
row("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", "2r 2r {r} 2r")
row("mma.sync.aligned.m16n8k8.row.col.f32.(f16.f16|bf16.bf16).f32", "4f 2r {r} 4f")
row("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "2r 4r 2r 2r")
row("mma.sync.aligned.m16n8k16.row.col.f32.(f16.f16|bf16.bf16|f16.bf16).f32", "4f 4r 2r 4f")
row("mma.sync.aligned.m16n8k16.row.col.(f32.f16.f16.f16|f16.f16.f16.f32)", "4r 4r 2r 2r")
row("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", "4f 2r {r} 4f")
row("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "4f 4r 2r 4f")
row("mma.sync.aligned.m16n8k16.row.col.f32.(e4m3|e5m2).(e4m3|e5m2).f32", "4f 2r {r} 4f")
row("mma.sync.aligned.m16n8k32.row.col.f32.(e4m3|e5m2).(e4m3|e5m2).f32", "4f 4r 2r 4f")
row("mma.sync.aligned.m16n8k(16|32).row.col.f16.(e4m3|e5m2).(e4m3|e5m2).f16", "2r 4r 2r 2r")
row("mma.sync.aligned.m16n8k16.row.col.f16.(e4m3|e5m2).(e4m3|e5m2).f16", "2r 2r {r} 2r")
row("mma.sync.aligned.m8n8k4.row.col(|.rn|.rz).f64.f64.f64.f64", "2d {d} {d} 2d")
row("mma.sync.aligned.m16n8k4.row.col(|.rn|.rz).f64.f64.f64.f64", "4d 2d {d} 4d")
row("mma.sync.aligned.m16n8k8.row.col(|.rn|.rm).f64.f64.f64.f64", "4d 4d 2d 4d")
row("mma.sync.aligned.m16n8k16.row.col(|.rn|.rp).f64.f64.f64.f64", "4d 8d 4d 4d")
row("mma.sync.aligned.m8n8k16.row.col(|.satfinite).s32.(u8|s8).(u8|s8).s32", "2r {r} {r} 2r")
row("mma.sync.aligned.m16n8k16.row.col(|.satfinite).s32.(u8|s8).(u8|s8).s32", "4r 2r {r} 4r")
row("mma.sync.aligned.m16n8k32.row.col(|.satfinite).s32.(u8|s8).(u8|s8).s32", "4r 4r 2r 4r")
row("mma.sync.aligned.m8n8k32.row.col(|.satfinite).s32.(u4|s4).(u4|s4).s32", "2r {r} {r} 2r")
row("mma.sync.aligned.m16n8k32.row.col(|.satfinite).s32.(u4|s4).(u4|s4).s32", "4r 2r {r} 4r")
row("mma.sync.aligned.m16n8k64.row.col(|.satfinite).s32.(u4|s4).(u4|s4).s32", "4r 4r 2r 4r")
row("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.(xor|and).popc", "2r {r} {r} 2r")
row("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.(xor|and).popc", "4r 2r {r} 4r")
row("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.(xor|and).popc", "4r 4r 2r 4r")
for _, sparse in ipairs { "sp", "sp::ordered_metadata" } do
  local mma = "mma." .. sparse .. ".sync.aligned."
  for selector = 0, 4 do
    local tail = " r " .. selector
    row(mma .. "m16n8k16.row.col.f16.f16.f16.f16", "2r 2r 2r 2r" .. tail)
    row(mma .. "m16n8k16.row.col.f32.(f16.f16|bf16.bf16).f32", "4f 2r 2r 4f" .. tail)
    row(mma .. "m16n8k32.row.col.f16.f16.f16.f16", "2r 4r 4r 2r" .. tail)
    row(mma .. "m16n8k32.row.col.f32.(f16.f16|bf16.bf16).f32", "4f 4r 4r 4f" .. tail)
    row(mma .. "m16n8k8.row.col.f32.tf32.tf32.f32", "4f 2r 2r 4f" .. tail)
    row(mma .. "m16n8k16.row.col.f32.tf32.tf32.f32", "4f 4r 4r 4f" .. tail)
    row(mma .. "m16n8k32.row.col(|.satfinite).s32.(u8|s8).(u8|s8).s32", "4r 2r 2r 4r" .. tail)
    row(mma .. "m16n8k64.row.col(|.satfinite).s32.(u8|s8).(u8|s8).s32", "4r 4r 4r 4r" .. tail)
    row(mma .. "m16n8k64.row.col(|.satfinite).s32.(u4|s4).(u4|s4).s32", "4r 2r 2r 4r" .. tail)
    row(mma .. "m16n8k128.row.col(|.satfinite).s32.(u4|s4).(u4|s4).s32", "4r 4r 4r 4r" .. tail)
    row(mma .. "m16n8k64.row.col.f32.(e4m3|e5m2).(e4m3|e5m2).f32", "4f 4r 4r 4f" .. tail)
    row(mma .. "m16n8k64.row.col.f16.(e4m3|e5m2).(e4m3|e5m2).f16", "2r 4r 4r 2r" .. tail)
  end
end
for _, shape in ipairs { "m16n16k16", "m8n32k16", "m32n8k16" } do
  row("wmma.load.(a|b).sync.aligned.(row|col)." .. shape .. "(|.global|.shared).f16", "8r [l] r")
  row("wmma.load.(a|b).sync.aligned.(row|col)." .. shape .. "(|.global|.shared).(bf16|s8|u8)",
    (shape == "m16n16k16" and "%s" or "%s"):format "4r" .. " [l] r")
  row("wmma.load.c.sync.aligned.(row|col)." .. shape .. "(|.global|.shared).f16", "4r [l] r")
  row("wmma.load.c.sync.aligned.(row|col)." .. shape .. "(|.global|.shared).(f32|s32)", "8r [l] r")
  row("wmma.store.d.sync.aligned.(row|col)." .. shape .. "(|.global|.shared).f16", "[l] 4r r")
  row("wmma.store.d.sync.aligned.(row|col)." .. shape .. "(|.global|.shared).(f32|s32)", "[l] 8r r")
  row("wmma.mma.sync.aligned.(row|col).(row|col)." .. shape .. ".f32.f32", "8f 8r 8r 8f")
  row("wmma.mma.sync.aligned.(row|col).(row|col)." .. shape .. ".f16.f16(|.satfinite)", "4r 8r 8r 4r")
end
row("wmma.mma.sync.aligned.(row|col).(row|col).m16n16k16.f32.bf16.bf16.f32", "8f 4r 4r 8f")
row("wmma.mma.sync.aligned.(row|col).(row|col).m16n16k8.f32.tf32.tf32.f32", "8f 4r 4r 8f")
row("wmma.mma.sync.aligned.(row|col).(row|col).m16n16k16.s32.(s8.s8|u8.u8).s32(|.satfinite)", "8r 2r 2r 8r")
row("wmma.mma.sync.aligned.(row|col).(row|col).m8n8k4(|.rn|.rz|.rm|.rp|.rna).f64.f64.f64.f64", "2d {d} {d} 2d")
row("wmma.mma.sync.aligned.row.col.m16n16k16(|.rn|.rz).f32.bf16.bf16.f32", "8f 4r 4r 8f")

---- wgmma

local function wgmma(k, types, n, d, tail, a, sparse)
  row(("wgmma.mma_async%s.sync.aligned.m64n%dk%d.%s"):format(sparse and ".sp" or "", n, sparse and 2 * k or k, types),
    ("%s %s l %s%s"):format(d, a, sparse and "r 0 " or "", tail))
end
for _, n in ipairs { 8, 16, 24, 40, 48, 96, 104, 136, 224, 240, 256, 264 } do
  for _, sparse in ipairs { false, true } do
    for _, a in ipairs { "l", "4r" } do
      local major = a == "l" and " 0 1" or " 1"
      wgmma(16, "f32.(f16.f16|bf16.bf16|f16.bf16)", n, n // 2 .. "f", "p 1 -1" .. major, a, sparse)
      wgmma(16, "f16.f16.f16", n, n // 4 .. "r", "p 1 1" .. major, a, sparse)
      wgmma(8, "f32.tf32.tf32", n, n // 2 .. "f", "p 1 1", a, sparse)
      wgmma(32, "f32.(e4m3|e5m2).(e4m3|e5m2)", n, n // 2 .. "f", "p 1 1", a, sparse)
      wgmma(32, "f16.(e4m3|e5m2).(e4m3|e5m2)", n, n // 4 .. "r", "p 1 1", a, sparse)
      wgmma(32, "(|satfinite.)s32.(u8|s8).(u8|s8)", n, n // 2 .. "r", "p", a, sparse)
      wgmma(256, "s32.b1.b1.(and|xor).popc", n, n // 2 .. "r", "p", a, sparse)
    end
  end
end
row("wgmma.(fence|commit_group).sync.aligned", "")
row("wgmma.wait_group.sync.aligned", "7")

---- tensor memory

for shape, registers in pairs { ["32x32b"] = 1, ["16x64b"] = 1, ["16x128b"] = 2, ["16x256b"] = 4 } do
  for power = 0, 7 do
    local times = 1 << power
    local count = times * registers
    if count <= 128 then
      local vector = count == 1 and "{r}" or count .. "r"
      row(("tcgen05.ld.sync.aligned.%s.x%d(|.pack::16b).b32"):format(shape, times), vector .. " [r]")
      row(("tcgen05.st.sync.aligned.%s.x%d(|.unpack::16b).b32"):format(shape, times), "[r] " .. vector)
      row(("tcgen05.ld.red.sync.aligned.%s.x%d.(min|max)(|.abs)(|.NaN).(f32|u32|s32)"):format(shape, times),
        vector .. " r [r]")
    end
  end
end
for power = 0, 7 do
  local times = 1 << power
  local vector = times == 1 and "{r}" or times .. "r"
  row(("tcgen05.ld.sync.aligned.16x32bx2.x%d(|.pack::16b).b32"):format(times), vector .. " [r] 16")
  row(("tcgen05.st.sync.aligned.16x32bx2.x%d(|.unpack::16b).b32"):format(times), "[r] 16 " .. vector)
  row(("tcgen05.ld.red.sync.aligned.16x32bx2.x%d.(min|max)(|.abs)(|.NaN).(f32|u32|s32)"):format(times),
    vector .. " r [r] 16")
end
local group = "tcgen05.%s.cta_group::(1|2)"
row(group:format "cp" .. ".(128x256b|4x256b|128x128b|64x128b|32x128b)"
  .. "(|.warpx2::02_13|.warpx2::01_23|.warpx4)(|.b8x16.b4x16_p64|.b8x16.b6x16_p32)", "[r] l")
row(group:format "shift" .. ".down", "[r]")
row(group:format "commit" .. ".mbarrier::arrive::one(|.shared::cluster).b64", "[r]")
row(group:format "commit" .. ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64", "[r] h")
local collector = "(|.collector::a::fill|.collector::a::use|.collector::a::lastuse|.collector::a::discard)"
local sizes = "(|.scale_vec::1X|.scale_vec::2X|.scale_vec::4X|.block16|.block32)"
for _, sparse in ipairs { "", ".sp" } do
  local meta = sparse == "" and "" or "[r] "
  for _, a in ipairs { "l", "[r]" } do
    for groups = 1, 2 do
      local mma = ("tcgen05.mma%s.cta_group::%d"):format(sparse, groups)
      local kind = mma .. ".kind::(f16|tf32|f8f6f4|i8)"
      local before = ("[r] %s l %sr "):format(a, meta)
      row(kind .. "(|.ashift)" .. collector, before .. "p")
      row(kind, before .. groups * 4 .. "r p")
      row(kind .. "(|.ashift)", before .. groups * 4 .. "r p 15")
      row(kind, before .. "p 3")
      row(mma .. ".kind::(mxf8f6f4|mxf4|mxf4nvf4)(|.block_scale)" .. sizes .. "(|.collector::a::use)",
        before .. "[r] [r] p")
    end
    local ws = "tcgen05.mma.ws" .. sparse .. ".cta_group::1.kind::(f16|tf32|f8f6f4|i8)"
    for buffer = 0, 4 do
      row(("%s.collector::b%d::(fill|use|lastuse|discard)"):format(ws, buffer), ("[r] %s l %sr p"):format(a, meta))
    end
    row(ws, ("[r] %s l %sr p"):format(a, meta))
    row(ws, ("[r] %s l %sr p l"):format(a, meta))
  end
end

-- All mnemonics of a pattern.
local function expand(pattern, into)
  local before, choices, after = pattern:match "^(.-)%((.-)%)(.*)$"
  if not before then
    into[#into + 1] = pattern
    return into
  end
  for choice in (choices .. "|"):gmatch "(.-)|" do expand(before .. choice .. after, into) end
  return into
end

local registers = { b = ".b8", h = ".b16", r = ".b32", l = ".b64", q = ".b128", f = ".f32", d = ".f64", p = ".pred" }

local function form_of(mnemonic, operands)
  local declared, count = {}, 0
  local function register(letter)
    count = count + 1
    declared[#declared + 1] = (".reg %s o%d;"):format(registers[letter], count)
    return "o" .. count
  end
  local function vector(length, letter)
    local items = {}
    for i = 1, tonumber(length) do items[i] = register(letter) end
    return "{" .. table.concat(items, ", ") .. "}"
  end
  local words = {}
  for word in operands:gmatch "%S+" do
    words[#words + 1] = word:gsub("%f[%w](%d*)([bhrlqfdp])%f[%W]", function(length, letter)
      return length ~= "" and vector(length, letter) or register(letter)
    end)
  end
  return {
    text = ("%s %s;"):format(mnemonic, table.concat(words, ", ")),
    declarations = table.concat(declared, " "),
  }
end

function M.all()
  local forms, seen = {}, {}
  for _, line in ipairs(rows) do
    for _, mnemonic in ipairs(expand(line[1], {})) do
      for _, operands in ipairs(expand(line[2], {})) do
        local form = form_of(mnemonic, operands)
        if not seen[form.text .. form.declarations] then
          seen[form.text .. form.declarations] = true
          forms[#forms + 1] = form
        end
      end
    end
  end
  return forms
end

return M

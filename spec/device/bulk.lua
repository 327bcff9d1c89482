-- Linear bulk copies and reductions between global memory, shared memory and the shared memory of another CTA.
local operands = require "spec.device.operands"

local TILE = 4096

-- Parameters: in and out of TILE bytes a CTA, offsets and size in bytes.  Shared memory begins as the first half of
-- `in`;
-- `at` is its copy's source or destination.
local frame = [[
.visible .entry KERNEL(.param .u64 in, .param .u64 out, .param .u32 from, .param .u32 to, .param .u32 size)
{
 .reg .b64 %%rd<40>; .reg .b32 %%r<80>; .reg .b16 %%h<9>; .reg .pred %%p<8>;
 .shared .align 128 .b8 tile[4096]; .shared .align 8 .b64 bar;
 mov.u32 %%r0, %%ctaid.x; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, tile; mov.u32 %%r3, bar; setp.eq.u32 %%p0, %%r1, 0;
 ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out]; ld.param.u32 %%r10, [from]; ld.param.u32 %%r11, [to];
 ld.param.u32 %%r12, [size];
 mad.wide.u32 %%rd1, %%r0, 8192, %%rd1; mad.wide.u32 %%rd2, %%r0, 4096, %%rd2; mov.u32 %%r4, %%cluster_ctarank;
 @%%p0 mbarrier.init.shared.b64 [%%r3], 1;
 mov.u32 %%r20, %%r1;
FILL:
 mul.lo.u32 %%r21, %%r20, 16; cvt.u64.u32 %%rd3, %%r21; add.u64 %%rd4, %%rd1, %%rd3; add.u32 %%r22, %%r2, %%r21;
 ld.global.v2.b64 {%%rd5, %%rd6}, [%%rd4]; st.shared.v2.b64 [%%r22], {%%rd5, %%rd6};
 add.u32 %%r20, %%r20, 128; setp.lt.u32 %%p1, %%r20, 256;
 @%%p1 bra FILL;
 fence.proxy.async; fence.mbarrier_init.release.cluster;
 barrier.cluster.arrive; barrier.cluster.wait;
 cvt.u64.u32 %%rd10, %%r10; cvt.u64.u32 %%rd11, %%r11; add.u64 %%rd12, %%rd1, 4096; add.u64 %%rd12, %%rd12, %%rd10;
 add.u32 %%r13, %%r2, %%r11; add.u32 %%r14, %%r2, %%r10; add.u64 %%rd13, %%rd2, %%rd11;
 mov.u32 %%r6, %%cluster_nctarank;
 sub.u32 %%r5, %%r6, %%r4;
 sub.u32 %%r5, %%r5, 1;
 mapa.shared::cluster.u32 %%r15, %%r13, %%r5; mapa.shared::cluster.u32 %%r16, %%r3, %%r5;
%s
 barrier.cluster.arrive; barrier.cluster.wait;
%s
 ret;
}
]]

local to_shared = [[
 @%%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%%r3], %%r12;
 %s
 %s
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%p3, [%%r3], 0;
 @!%%p3 bra WAIT;]]

local dump = [[
 mov.u32 %r20, %r1;
DUMP:
 mul.lo.u32 %r21, %r20, 16; cvt.u64.u32 %rd3, %r21; add.u64 %rd4, %rd2, %rd3; add.u32 %r22, %r2, %r21;
 ld.shared.v2.b64 {%rd5, %rd6}, [%r22]; st.global.v2.b64 [%rd4], {%rd5, %rd6};
 add.u32 %r20, %r20, 128; setp.lt.u32 %p1, %r20, 256;
 @%p1 bra DUMP;]]

local to_global = [[
 @!%%p0 bra DONE;
 %s
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
DONE:]]

local extents = { { 0, 0, 16 }, { 16, 48, 32 }, { 128, 0, 1024 }, { 32, 2048, 1968 }, { 0, 0, 4096 }, { 4080, 4080,
  16 },
  { 1008, 16, 3072 } }

return function()
  local cases = {}
  local function add(name, text, type, ctas)
    for _, extent in ipairs(extents) do
      local bits = operands.bits[type]
      local seed = operands.seed_of(name)
      cases[#cases + 1] = {
        name = ("%s %d -> %d, %d bytes"):format(name, extent[1], extent[2], extent[3]), text = text, stride = bits // 8,
        grid = { ctas }, block = { 128 }, cluster = { ctas }, result = type,
        args = { { input = operands.packed(type, ctas * 2 * TILE * 8 // bits, seed) },
          { output = ctas * TILE, initial = operands.packed(type, ctas * TILE * 8 // bits, seed + 1) },
          extent[1], extent[2], extent[3] },
      }
    end
  end
  local tail = ".mbarrier::complete_tx::bytes"
  for _, space in ipairs { "shared::cluster", "shared::cta" } do
    local name = ("cp.async.bulk.%s.global%s"):format(space, tail)
    add(name, frame:format(to_shared:format("", "@%p0 " .. name .. " [%r13], [%rd12], %r12, [%r3];"), dump), "b32", 1)
    add(name .. ".L2::cache_hint",
      frame:format(to_shared:format("createpolicy.fractional.L2::evict_last.b64 %rd20, 1.0;",
      "@%p0 " .. name .. ".L2::cache_hint [%r13], [%rd12], %r12, [%r3], %rd20;"), dump), "b32", 1)
  end
  for _, ctas in ipairs { 2, 4 } do
    local name = "cp.async.bulk.shared::cluster.global" .. tail .. ".multicast::cluster"
    local text = frame:format(to_shared:format(
      ("mov.u16 %%h1, %d; setp.eq.u32 %%p4, %%r4, 0; and.pred %%p4, %%p4, %%p0;"):format((1 << ctas) - 1),
      "@%p4 " .. name .. " [%r13], [%rd12], %r12, [%r3], %h1;"), dump)
    add(("%s to %d"):format(name, ctas), text, "b32", ctas)
  end
  -- To the other CTA, in one direction only: no CTA reads what another writes.
  local function across(name)
    return frame:format(([[
 setp.eq.u32 %%p5, %%r4, 1; and.pred %%p6, %%p0, %%p5; setp.eq.u32 %%p4, %%r4, 0; and.pred %%p4, %%p4, %%p0;
 @%%p4 mbarrier.arrive.expect_tx.shared.b64 _, [%%r3], %%r12;
 @%%p6 %s [%%r15], [%%r14], %%r12, [%%r16];
 @%%p5 bra PAST;
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%p3, [%%r3], 0;
 @!%%p3 bra WAIT;
PAST:]]):format(name), dump)
  end
  local copy = "cp.async.bulk.shared::cluster.shared::cta" .. tail
  add(copy, across(copy), "b32", 2)
  add("cp.async.bulk.global.shared::cta.bulk_group", frame:format(to_global:format
    "cp.async.bulk.global.shared::cta.bulk_group [%rd13], [%r14], %r12;", ""), "b32", 1)
  for _, form in ipairs { "add.u32", "add.s32", "add.u64", "add.f32", "add.f64", "add.noftz.f16", "add.noftz.bf16",
    "min.u32",
    "min.s32", "min.u64", "min.s64", "min.f16", "min.bf16", "max.u32", "max.s32", "max.u64", "max.s64", "max.f16",
      "max.bf16",
    "inc.u32", "dec.u32", "and.b32", "and.b64", "or.b32", "or.b64", "xor.b32", "xor.b64" } do
    local name = "cp.reduce.async.bulk.global.shared::cta.bulk_group." .. form
    add(name, frame:format(to_global:format(name .. " [%rd13], [%r14], %r12;"), ""), form:match "(%w+)$", 1)
  end
  for _, form in ipairs { "add.u32", "add.s32", "add.u64", "min.u32", "min.s32", "max.u32", "max.s32", "inc.u32",
    "dec.u32",
    "and.b32", "or.b32", "xor.b32", "and.b64", "or.b64", "xor.b64" } do
    local name = ("cp.reduce.async.bulk.shared::cluster.shared::cta%s.%s"):format(tail, form)
    add(name, across(name), form:match "(%w+)$", 2)
  end
  return cases
end

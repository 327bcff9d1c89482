-- Hazards of small kernels, each way to spoil one beside the kernel itself; numbers are those of the catalogue in
-- spec/hazard_spec.lua.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local rules_of = require "hazard_mutation".rules_of

local function entry(body)
  return ([[
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
 .reg .pred %%p<8>; .reg .b32 %%r<20>; .reg .b64 %%rd<12>;
 .shared .align 128 .b8 tile[4096];
 .shared .align 8 .b64 bar[1];
 ld.param.u64 %%rd0, [in];
 ld.param.u64 %%rd1, [out];
 mov.u32 %%r0, %%tid.x;
 mov.u32 %%r1, tile;
 mov.u32 %%r5, %%ctaid.x;
 shl.b32 %%r2, %%r0, 4;
 add.u32 %%r3, %%r1, %%r2;
 cvt.u64.u32 %%rd2, %%r2;
 add.u64 %%rd3, %%rd0, %%rd2;
 add.u64 %%rd4, %%rd1, %%rd2;
 xor.b32 %%r4, %%r2, 16;
 add.u32 %%r4, %%r4, %%r1;
 setp.eq.u32 %%p0, %%r0, 0;
%s
 ret;
}
]]):format(body)
end

local function small(body, options)
  options = options or {}
  tc.device("emulator:sm_90a"):use()
  local input, out = tc.zeros({ 1024 }, tc.i32), tc.zeros({ 1024 }, tc.i32)
  return tc.ptx(entry(body)):kernel "k":emulate {
    grid = { options.grid or 1 }, block = { options.block or 64 }, args = { input, out },
    mode = options.mode or "check",
  }
end

describe("hazards of small kernels", function()
  local rows = {
    { "D91 lanes that read each other's words without meeting", { "warp-race" }, [[
 st.shared.b32 [%r3], %r0;
 ld.shared.b32 %r6, [%r4];]], { block = 32 } },
    { "lanes that meet in between", {}, [[
 st.shared.b32 [%r3], %r0;
 bar.warp.sync 0xffffffff;
 ld.shared.b32 %r6, [%r4];]], { block = 32 } },
    { "warps that do not meet", { "undefined-shared", "shared-race" }, [[
 st.shared.b32 [%r3], %r0;
 xor.b32 %r4, %r2, 512;
 add.u32 %r4, %r4, %r1;
 ld.shared.b32 %r6, [%r4];]] },
    { "warps that meet", {}, [[
 st.shared.b32 [%r3], %r0;
 bar.sync 0;
 xor.b32 %r4, %r2, 512;
 add.u32 %r4, %r4, %r1;
 ld.shared.b32 %r6, [%r4];]] },
    { "bytes of one word by different warps", {}, [[
 shr.u32 %r6, %r0, 5;
 add.u32 %r6, %r6, %r1;
 st.shared.b8 [%r6], %r6;]] },
    { "D87 words that nobody has written", { "undefined-shared" }, " ld.shared.b32 %r6, [%r3];" },
    { "B33 cp.async that is not awaited", { "cp-async-not-awaited" }, [[
 cp.async.cg.shared.global [%r3], [%rd3], 16;
 cp.async.commit_group;
 ld.shared.b32 %r6, [%r3];]] },
    { "cp.async that is awaited", {}, [[
 cp.async.cg.shared.global [%r3], [%rd3], 16;
 cp.async.commit_group;
 cp.async.wait_group 0;
 ld.shared.b32 %r6, [%r3];]] },
    { "B35 a flag behind a wait for the source alone", { "bulk-not-awaited" }, [[
 st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};
 fence.proxy.async;
 bar.sync 0;
 @!%p0 bra wait;
 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group.read 0;
wait:
 bar.sync 0;
 ld.global.b32 %r6, [%rd4];]] },
    { "a wait for the destination", {}, [[
 st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};
 fence.proxy.async;
 bar.sync 0;
 @!%p0 bra wait;
 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
wait:
 bar.sync 0;
 ld.global.b32 %r6, [%rd4];]] },
    { "B40 a bulk copy of what was just stored", { "proxy-fence" }, [[
 st.global.v4.b32 [%rd4], {%r0, %r0, %r0, %r0};
 @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
 bar.sync 0;
 @!%p0 bra wait;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 1024, [bar];
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
 @!%p1 bra wait;]] },
    { "A25 a relaxed arrival publishes nothing", { "shared-race" }, [[
 @%p0 mbarrier.init.shared::cta.b64 [bar], 64;
 bar.sync 0;
 st.shared.b32 [%r3], %r0;
 mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
 @!%p1 bra wait;
 xor.b32 %r4, %r2, 512;
 add.u32 %r4, %r4, %r1;
 ld.shared.b32 %r6, [%r4];]] },
    { "a flag with release and acquire", {}, [[
 setp.ge.u32 %p2, %r0, 32;
 @%p2 bra read;
 @%p0 st.global.b32 [%rd1+64], 7;
 @%p0 st.release.gpu.global.b32 [%rd1], 1;
 bra end;
read:
 ld.acquire.gpu.global.b32 %r6, [%rd1];
 setp.eq.u32 %p3, %r6, 0;
 @%p3 bra read;
 ld.global.b32 %r6, [%rd1+64];
end:]] },
    { "a flag with fences", {}, [[
 setp.ge.u32 %p2, %r0, 32;
 @%p2 bra read;
 @%p0 st.global.b32 [%rd1+64], 7;
 fence.acq_rel.gpu;
 @%p0 st.relaxed.gpu.global.b32 [%rd1], 1;
 bra end;
read:
 ld.relaxed.gpu.global.b32 %r6, [%rd1];
 setp.eq.u32 %p3, %r6, 0;
 @%p3 bra read;
 fence.acq_rel.gpu;
 ld.global.b32 %r6, [%rd1+64];
end:]] },
    { "D93 a flag without release", { "global-race" }, [[
 setp.ge.u32 %p2, %r0, 32;
 @%p2 bra read;
 @%p0 st.global.b32 [%rd1+64], 7;
 @%p0 st.relaxed.gpu.global.b32 [%rd1], 1;
 bra end;
read:
 ld.acquire.gpu.global.b32 %r6, [%rd1];
 setp.eq.u32 %p3, %r6, 0;
 @%p3 bra read;
 ld.global.b32 %r6, [%rd1+64];
end:]] },
    { "all threads store the same value", {}, " st.shared.b32 [%r1], 5;" },
    { "threads store different values in one place", { "shared-race" }, " st.shared.b32 [%r1], %r0;" },
  }
  for _, row in ipairs(rows) do
    local title, rules, body, options = table.unpack(row, 1, 4)
    it(title, function() assert.same(rules, rules_of(small(body, options))) end)
  end

  it("are not looked for in fast mode", function()
    assert.same({}, rules_of(small(" ld.shared.b32 %r6, [%r3];", { mode = "fast" })))
  end)
end)

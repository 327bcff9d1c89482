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

-- Two copies into one buffer, each awaited and read by all warps; `between` them.
local function refill(between)
  return [[
 @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
 fence.proxy.async;
 bar.sync 0;
 @!%p0 bra first;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 1024, [bar];
first:
 mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
 @!%p1 bra first;
 ld.shared.b32 %r6, [%r3];
]] .. between .. [[
 @!%p0 bra second;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 1024, [bar];
second:
 mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1;
 @!%p1 bra second;
 ld.shared.b32 %r6, [%r3];]]
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
    { "a buffer that is filled again when all have read it", {}, refill " bar.sync 0;\n" },
    { "A2 a buffer that is filled again while others read it", { "shared-race" }, refill "" },
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
    { "a register that some lanes alone have written, stored", { "undefined-value" }, [[
 @%p0 mov.b32 %r7, 5;
 st.global.b32 [%rd4], %r7;]] },
    { "the same by those lanes alone", {}, [[
 @%p0 mov.b32 %r7, 5;
 @%p0 st.global.b32 [%rd4], %r7;]] },
    { "the same behind arithmetic", { "undefined-value" }, [[
 @%p0 mov.b32 %r7, 5;
 mad.lo.u32 %r8, %r7, 3, %r0;
 shl.b32 %r8, %r8, 2;
 st.shared.b32 [%r3], %r8;]] },
    { "the same as an address", { "undefined-value", "misaligned" }, [[
 @%p0 mov.b32 %r7, 0;
 add.u32 %r8, %r3, %r7;
 st.shared.b32 [%r8], %r0;]] },
    { "the same as a branch's predicate", { "undefined-value" }, [[
 @%p0 mov.b32 %r7, 0;
 setp.eq.u32 %p4, %r7, 7;
 @%p4 bra end;
 st.shared.b32 [%r3], %r0;
end:]] },
    { "where only the defined one of two is chosen", {}, [[
 @%p0 mov.b32 %r7, 5;
 selp.b32 %r8, %r7, %r0, %p0;
 st.global.b32 [%rd4], %r8;]] },
    { "where it cancels", {}, [[
 xor.b32 %r7, %r7, %r7;
 st.global.b32 [%rd4], %r7;]] },
    { "where it fills the half that nobody looks at", {}, [[
 .reg .b16 %h<4>;
 cvt.u16.u32 %h0, %r0;
 @%p0 mov.b16 %h1, %h0;
 mov.b32 %r7, {%h0, %h1};
 st.global.b32 [%rd4], %r7;]] },
    { "a sum that begins nowhere", { "undefined-value" }, [[
 .reg .f32 %f<4>;
 mov.f32 %f1, 0f3f800000;
 mov.b32 %r7, 0;
loop:
 fma.rn.f32 %f0, %f1, %f1, %f0;
 add.u32 %r7, %r7, 1;
 setp.lt.u32 %p4, %r7, 4;
 @%p4 bra loop;
 st.global.f32 [%rd4], %f0;]] },
    { "a register that nothing writes", { "undefined-register", "undefined-value" }, " st.global.b32 [%rd4], %r7;" },
    { "D96 a branch by the clock", { "nondeterministic-branch" }, [[
 mov.u32 %r7, %clock;
 and.b32 %r7, %r7, 1;
 setp.eq.u32 %p4, %r7, 1;
 @%p4 bra end;
 st.global.b32 [%rd4], %r0;
end:]] },
    { "D96 a branch by the multiprocessor", { "nondeterministic-branch" }, [[
 mov.u32 %r7, %smid;
 setp.gt.u32 %p4, %r7, 3;
 @%p4 bra end;
 st.global.b32 [%rd4], %r0;
end:]] },
    { "a clock that is stored", {}, " mov.u32 %r7, %clock;\n st.global.b32 [%rd4], %r7;" },
    { "rows behind the end, left out", {}, [[
 mad.lo.u32 %r7, %r5, 64, %r0;
 setp.lt.u32 %p4, %r7, 1024;
 mul.wide.u32 %rd5, %r7, 4;
 add.u64 %rd5, %rd1, %rd5;
 @%p4 st.global.b32 [%rd5], %r7;]], { grid = 17 } },
    { "D77 rows behind the end", { "out-of-bounds" }, [[
 mad.lo.u32 %r7, %r5, 64, %r0;
 mul.wide.u32 %rd5, %r7, 4;
 add.u64 %rd5, %rd1, %rd5;
 st.global.b32 [%rd5], %r7;]], { grid = 17 } },
    { "registers that a warpgroup takes from the others", {}, [[
 setp.ge.u32 %p4, %r0, 128;
 @%p4 bra less;
 setmaxnreg.inc.sync.aligned.u32 240;
 bra end;
less:
 setmaxnreg.dec.sync.aligned.u32 40;
end:]], { block = 384 } },
    { "D88 more registers than there are", { "setmaxnreg-pool", "deadlock" },
      " setmaxnreg.inc.sync.aligned.u32 240;", { block = 384 } },
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

-- Hazards between CTAs, and between clusters, that meet in global memory: whatever the number of host threads.
-- Numbers are those of the catalogue in spec/hazard_spec.lua.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local rules_of = require "hazard_mutation".rules_of

-- %r0 thread, %r1 CTA, %rd0 out, %rd1 in, %rd2 the thread's word of out; %p0: thread 0; %p1: the first CTA.
local function entry(body)
  return ([[
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
 .reg .pred %%p<8>; .reg .b32 %%r<20>; .reg .b64 %%rd<12>;
 .shared .align 128 .b8 tile[1024];
 .shared .align 8 .b64 bar[1];
 ld.param.u64 %%rd1, [in];
 ld.param.u64 %%rd0, [out];
 mov.u32 %%r0, %%tid.x;
 mov.u32 %%r1, %%ctaid.x;
 mov.u32 %%r2, tile;
 mul.wide.u32 %%rd2, %%r0, 4;
 add.u64 %%rd2, %%rd0, %%rd2;
 shl.b32 %%r3, %%r0, 2;
 add.u32 %%r3, %%r3, %%r2;
 setp.eq.u32 %%p0, %%r0, 0;
 setp.eq.u32 %%p1, %%r1, 0;
%s
 ret;
}
]]):format(body)
end

local function run(body, o)
  tc.device("emulator:sm_90a"):use()
  local input, out = tc.zeros({ 1024 }, tc.i32), tc.zeros({ 1024 }, tc.i32)
  local report = tc.ptx(entry(body)):kernel "k":emulate {
    grid = { o.grid or 2 }, cluster = { o.cluster or 1 }, block = { 64 }, args = { input, out },
    mode = o.mode or "check", threads = o.threads, seed = 5,
  }
  return report, out
end

-- The first CTA writes, says so in out[512], and the second one reads: `write`, `ready`, `seen`, `read`.
local function handover(o)
  return ([[
 @!%%p1 bra second;
 %s
 bar.sync 0;
 @%%p0 %s
 bra end;
second:
wait:
 %s
 setp.eq.u32 %%p2, %%r4, 0;
 @%%p2 bra wait;
 bar.sync 0;
 %s
end:]]):format(o.write or "st.global.b32 [%rd2], %r0;", o.ready or "st.release.gpu.global.b32 [%rd0+2048], 1;",
    o.seen or "ld.acquire.gpu.global.b32 %r4, [%rd0+2048];", o.read or "ld.global.b32 %r5, [%rd2+16];")
end

local BULK_STORE = [[
 st.shared.b32 [%r3], %r0;
 fence.proxy.async;
 bar.sync 0;
 @!%p0 bra stored;
 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 256;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
stored:]]
local BULK_LOAD = [[
 @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
 fence.proxy.async;
 bar.sync 0;
 @!%p0 bra loaded;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 256, [bar];
loaded:
 mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;
 @!%p3 bra loaded;]]

-- All but the first CTA read a word and say so, each in a word of its own, for which the first one waits before it
-- writes; those whose number has the bit `late` say so without a release.
local function readers(late)
  return ([[
 @%%p1 bra first;
 ld.global.b32 %%r5, [%%rd2+16];
 bar.sync 0;
 mul.wide.u32 %%rd4, %%r1, 4;
 add.u64 %%rd4, %%rd4, %%rd0;
 and.b32 %%r6, %%r1, %d;
 setp.ne.u32 %%p3, %%r6, 0;
 @!%%p0 bra end;
 @%%p3 st.relaxed.gpu.global.b32 [%%rd4+2048], 1;
 @%%p3 bra end;
 st.release.gpu.global.b32 [%%rd4+2048], 1;
 bra end;
first:
 mov.u32 %%r6, %%nctaid.x;
next:
 sub.u32 %%r6, %%r6, 1;
 mul.wide.u32 %%rd4, %%r6, 4;
 add.u64 %%rd4, %%rd4, %%rd0;
wait:
 ld.acquire.gpu.global.b32 %%r4, [%%rd4+2048];
 setp.eq.u32 %%p2, %%r4, 0;
 @%%p2 bra wait;
 setp.gt.u32 %%p2, %%r6, 1;
 @%%p2 bra next;
 bar.sync 0;
 st.global.b32 [%%rd2], 7;
end:]]):format(late)
end

-- The second CTA writes and releases 1; the third one waits for that by `see` and makes 2 of it by `pass`; the first
-- one acquires 2 and reads.
local function relay(see, pass)
  return ([[
 @%%p1 bra first;
 setp.eq.u32 %%p3, %%r1, 1;
 @!%%p3 bra third;
 st.global.b32 [%%rd2], %%r0;
 bar.sync 0;
 @%%p0 st.release.gpu.global.b32 [%%rd0+2048], 1;
 bra end;
third:
 @!%%p0 bra end;
seen:
 %s
 setp.ne.u32 %%p2, %%r4, 1;
 @%%p2 bra seen;
 %s
 bra end;
first:
wait:
 ld.relaxed.gpu.global.b32 %%r4, [%%rd0+2048];
 setp.ne.u32 %%p2, %%r4, 2;
 @%%p2 bra wait;
 ld.acquire.gpu.global.b32 %%r4, [%%rd0+2048];
 bar.sync 0;
 ld.global.b32 %%r5, [%%rd2];
end:]]):format(see, pass)
end

-- { number and title, rules, body, options }
local rows = {
  { "a release and an acquire hand data over", {}, handover {} },
  { "fences and relaxed accesses do as well", {}, handover {
    ready = "fence.acq_rel.gpu;\n @%p0 st.relaxed.gpu.global.b32 [%rd0+2048], 1;",
    seen = "ld.relaxed.gpu.global.b32 %r4, [%rd0+2048];\n fence.acq_rel.gpu;",
  } },
  { "an atomic operation that releases does as well", {}, handover {
    ready = "red.release.gpu.global.add.u32 [%rd0+2048], 1;",
    seen = "atom.acquire.gpu.global.or.b32 %r4, [%rd0+2048], 0;",
  } },
  { "D93 a semaphore without a release", { "global-race-clusters" },
    handover { ready = "st.relaxed.gpu.global.b32 [%rd0+2048], 1;" } },
  { "D93 a semaphore without an acquire", { "global-race-clusters" },
    handover { seen = "ld.relaxed.gpu.global.b32 %r4, [%rd0+2048];" } },
  { "D93 a semaphore that is set before all threads have written", { "global-race-clusters" },
    (handover {}:gsub(" bar.sync 0;", "", 1)) },
  { "D93 a semaphore that only one thread has waited for", { "global-race-clusters" },
    (handover { seen = "@!%p0 bra read;\n ld.acquire.gpu.global.b32 %r4, [%rd0+2048];" }
      :gsub("bra wait;\n bar.sync 0;", "bra wait;\nread:")) },
  { "A24 a release for the CTA alone", { "scope" }, handover { ready = "st.release.cta.global.b32 [%rd0+2048], 1;" } },
  { "A24 an acquire for the CTA alone", { "scope" },
    handover { seen = "ld.acquire.cta.global.b32 %r4, [%rd0+2048];" } },
  { "A24 a release for the cluster alone", { "scope" },
    handover { ready = "st.release.cluster.global.b32 [%rd0+2048], 1;" } },
  { "A24 a fence for the CTA alone", { "scope" },
    handover { ready = "fence.acq_rel.cta;\n @%p0 st.relaxed.gpu.global.b32 [%rd0+2048], 1;" } },
  { "within a cluster its scope is enough", {}, handover {
    ready = "st.release.cluster.global.b32 [%rd0+2048], 1;", seen = "ld.acquire.cluster.global.b32 %r4, [%rd0+2048];",
  }, { cluster = 2 } },
  { "A24 within a cluster, a release for the CTA alone", { "scope" }, handover {
    ready = "st.release.cta.global.b32 [%rd0+2048], 1;", seen = "ld.acquire.cluster.global.b32 %r4, [%rd0+2048];",
  }, { cluster = 2 } },
  { "a flag that a third CTA acquires, and releases again", {}, relay("ld.acquire.gpu.global.b32 %r4, [%rd0+2048];",
    "st.release.gpu.global.b32 [%rd0+2048], 2;"), { grid = 3 } },
  { "a flag that a third CTA counts on", {}, relay("ld.relaxed.gpu.global.b32 %r4, [%rd0+2048];",
    "red.relaxed.gpu.global.add.u32 [%rd0+2048], 1;"), { grid = 3 } },
  { "D93 a flag that a third CTA overwrites", { "global-race-clusters" },
    relay("ld.relaxed.gpu.global.b32 %r4, [%rd0+2048];", "st.relaxed.gpu.global.b32 [%rd0+2048], 2;"), { grid = 3 } },
  { "D93 a flag that a third CTA acquires and does not release", { "global-race-clusters" },
    relay("ld.acquire.gpu.global.b32 %r4, [%rd0+2048];", "st.relaxed.gpu.global.b32 [%rd0+2048], 2;"), { grid = 3 } },
  { "D93 four CTAs have read what a fifth one writes", {}, readers(0), { grid = 5 } },
  { "D93 the first and the third one do not release", { "global-race-clusters" }, readers(1), { grid = 5 } },
  { "D93 the third and fourth one do not release", { "global-race-clusters" }, readers(2), { grid = 5 } },
  { "D93 the last one does not release", { "global-race-clusters" }, readers(4), { grid = 5 } },
  { "D93 a word that two warps have read and one releases", { "global-race-clusters" },
    (readers(0):gsub("%[%%rd2%+16%];\n bar.sync 0;", "[%%rd0];")) },
  { "atomic operations of all CTAs on one word", {}, "red.relaxed.gpu.global.add.u32 [%rd2], 1;", { grid = 8 } },
  { "A24 atomic operations for the CTA alone", { "scope" }, "red.relaxed.cta.global.add.u32 [%rd2], 1;" },
  { "A24 the same within a cluster", { "scope" }, "red.relaxed.cta.global.add.u32 [%rd2], 1;", { cluster = 2 } },
  { "a bulk store that is awaited", {}, handover { write = BULK_STORE } },
  { "B35 a flag behind a wait for the source alone", { "bulk-not-awaited" },
    handover { write = (BULK_STORE:gsub("wait_group 0", "wait_group.read 0")) } },
  { "a bulk copy behind a proxy fence", {}, handover { read = BULK_LOAD } },
  { "B40 a bulk copy of what another cluster has stored", { "proxy-fence" },
    handover { read = (BULK_LOAD:gsub("fence.proxy.async;", "")) } },
  { "CTAs that write tiles of their own", {},
    "mul.wide.u32 %rd4, %r1, 256;\n add.u64 %rd2, %rd2, %rd4;\n st.global.b32 [%rd2], %r1;", { grid = 9 } },
  { "CTAs that write words of one 16 bytes in turn", {}, [[
 mul.wide.u32 %rd3, %r0, 12;
 add.u64 %rd2, %rd2, %rd3;
 mul.wide.u32 %rd4, %r1, 4;
 add.u64 %rd2, %rd2, %rd4;
 st.global.b32 [%rd2], %r1;]], { grid = 4 } },
  { "D92 tiles that overlap", { "global-race-clusters" },
    "mul.wide.u32 %rd4, %r1, 128;\n add.u64 %rd2, %rd2, %rd4;\n st.global.b32 [%rd2], %r1;", { grid = 9 } },
  { "D92 two CTAs write one tile", { "global-race-clusters" }, "st.global.b32 [%rd2], %r1;" },
  { "two CTAs that write the same values", {}, "st.global.b32 [%rd2], %r0;", { grid = 3 } },
  { "D92 a CTA reads what the next one writes", { "global-race-clusters" }, [[
 mul.wide.u32 %rd4, %r1, 256;
 add.u64 %rd2, %rd2, %rd4;
 ld.global.b32 %r5, [%rd2+256];
 st.global.b32 [%rd2], %r1;]], { grid = 5 } },
  { "CTAs that read the same", {}, [[
 mul.wide.u32 %rd3, %r0, 4;
 add.u64 %rd3, %rd1, %rd3;
 ld.global.b32 %r5, [%rd3];]], { grid = 9 } },
}

local function plain(hazards)
  local list = {}
  for i, h in ipairs(hazards) do list[i] = h.rule .. " " .. h.count .. " " .. h.message:gsub("0x%x+", "") end
  return list
end

describe("between clusters", function()
  for _, row in ipairs(rows) do
    local title, rules, body, options = table.unpack(row, 1, 4)
    it(title, function()
      options = options or {}
      local first, memory
      for _, threads in ipairs { 1, 2, 4 } do
        local report, out = run(body, { grid = options.grid, cluster = options.cluster, threads = threads })
        assert.same(rules, rules_of(report))
        first, memory = first or plain(report.hazards), memory or out
        assert.same(first, plain(report.hazards))
        assert.is_true(out:equal(memory))
      end
    end)
  end

  it("a report names both sides", function()
    local message = run("st.global.b32 [%rd2], %r1;", {}).hazards[1].message
    assert.matches("by CTA (1,0,0) warp 0 lane 0", message, 1, true)
    assert.matches("earlier: write by st.global.b32 of CTA (0,0,0) warp 0", message, 1, true)
  end)

  it("nothing is looked for in fast mode", function()
    assert.same({}, rules_of((run("st.global.b32 [%rd2], %r1;", { mode = "fast" }))))
  end)

  it("of one cluster, reads that the own CTA has met behind race with a write of the other one", function()
    local function body(between)
      return ([[
 st.shared.b32 [%%r3], %%r0;
 barrier.cluster.arrive;
 barrier.cluster.wait;
 bar.sync 0;
 xor.b32 %%r5, %%r3, 132;
 @%%p1 ld.shared.b32 %%r6, [%%r5];
 bar.sync 0;
 %s
 mapa.shared::cluster.u32 %%r7, %%r3, 0;
 setp.eq.and.u32 %%p4, %%r1, 1, %%p0;
 @%%p4 st.shared::cluster.b32 [%%r7], 77;
 barrier.cluster.arrive;
 barrier.cluster.wait;]]):format(between)
    end
    -- Seen, but in no order: the other CTA goes on behind the reads.
    local seen = [[
 setp.eq.and.u32 %p2, %r1, 0, %p0;
 @%p2 st.relaxed.gpu.global.b32 [%rd0], 1;
poll:
 ld.relaxed.gpu.global.b32 %r4, [%rd0];
 setp.eq.u32 %p3, %r4, 0;
 @%p3 bra poll;]]
    local report = run(body(seen), { cluster = 2 })
    assert.same({ "shared-race" }, rules_of(report))
    assert.matches("earlier: read by ld.shared.b32 of CTA %(0,0,0%) warp 1 lane 1", report.hazards[1].message)
    assert.same({}, rules_of((run(body "barrier.cluster.arrive;\nbarrier.cluster.wait;", { cluster = 2 }))))
  end)
end)

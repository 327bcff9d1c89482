-- Clusters over host threads: memory, counters and reports are those of one thread.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local kernels = require "compiler_kernels"

local function entry(body, target)
  return ([[
.version 8.6
.target %s
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .pred %%p<4>; .reg .b32 %%r<16>; .reg .b64 %%rd<6>;
 .shared .align 16 .b8 tile[1024];
 ld.param.u64 %%rd0, [out];
 mov.u32 %%r0, %%tid.x;
 mov.u32 %%r1, %%ctaid.x;
 mov.u32 %%r2, %%ntid.x;
 mad.lo.u32 %%r3, %%r1, %%r2, %%r0;
 mul.wide.u32 %%rd1, %%r3, 4;
 add.u64 %%rd1, %%rd0, %%rd1;
%s
 ret;
}
]]):format(target, body)
end

local function run(body, threads, options)
  options = options or {}
  local target = options.target or "sm_90a"
  tc.device("emulator:" .. target):use()
  local out = tc.zeros({ 4096 }, tc.i32)
  local report = tc.ptx(entry(body, target)):kernel "k":emulate {
    grid = { options.grid or 64 }, block = { 64 }, args = { out }, mode = options.mode or "check", threads = threads,
    seed = 11, max_instructions = options.max_instructions,
  }
  return report, out
end

local function same_reports(a, b)
  a.counters.seconds, b.counters.seconds = nil, nil
  -- Each run has arrays of its own.
  for _, report in ipairs { a, b } do
    for _, hazard in ipairs(report.hazards) do hazard.message = hazard.message:gsub("0x%x+", "") end
  end
  assert.same(a.hazards, b.hazards)
  assert.same(a.counters, b.counters)
  assert.equal(a.completed, b.completed)
end

describe("host threads", function()
  for _, mode in ipairs { "fast", "check", "random" } do
    it("give the same matmul in mode " .. mode, function()
      tc.device("emulator:sm_100a"):use()
      local kernel = kernels.matmul { m = 384, n = 256, k = 128 }
      local a = tc.randn({ 384, 128 }, tc.f16, { seed = 1 })
      local b = tc.randn({ 128, 256 }, tc.f16, { seed = 2 })
      local outs, reports = {}, {}
      for i, threads in ipairs { 1, 2, 5 } do
        outs[i] = tc.zeros({ 384, 256 }, tc.f16)
        reports[i] = kernel:emulate({ mode = mode, threads = threads, seed = 3 }, a, b, outs[i])
        assert.is_true(outs[i]:equal(outs[1]))
      end
      same_reports(reports[1], reports[2])
      same_reports(reports[1], reports[3])
    end)
  end

  it("report hazards in the order of the clusters, with the same counts", function()
    local body = [[
 shl.b32 %r4, %r0, 2;
 mov.u32 %r5, tile;
 add.u32 %r4, %r4, %r5;
 setp.lt.u32 %p0, %r1, 20;
 @%p0 bra skip;
 ld.shared.b32 %r6, [%r4];
skip:
 st.shared.b32 [%r4], %r0;
 xor.b32 %r4, %r4, 128;
 ld.shared.b32 %r7, [%r4];]]
    local one = run(body, 1)
    assert.is_true(#one.hazards >= 2)
    for threads = 2, 4 do
      local many = run(body, threads)
      same_reports(one, many)
    end
  end)

  it("stop at the first cluster that fails, whichever was first in time", function()
    local body = [[
 setp.lt.u32 %p0, %r1, 9;
 @%p0 bra fine;
 add.u64 %rd1, %rd1, 65536;
fine:
 st.global.b32 [%rd1], %r1;]]
    local one = run(body, 1)
    assert.is_false(one.completed)
    for threads = 2, 4 do same_reports(one, (run(body, threads))) end
  end)

  it("keep to the limit of instructions", function()
    for threads = 1, 3 do
      local report = run("loop:\n bra loop;", threads, { max_instructions = 100000, mode = "fast" })
      assert.equal("budget", report.hazards[1].rule)
    end
  end)

  it("are not used where clusters speak with each other", function()
    -- Each CTA waits for the one before it.
    local _, out = run([[
 setp.ne.u32 %p0, %r0, 0;
 @%p0 bra end;
 setp.eq.u32 %p1, %r1, 0;
 @%p1 bra go;
 mul.wide.u32 %rd2, %r1, 4;
 add.u64 %rd2, %rd2, %rd0;
wait:
 ld.acquire.gpu.global.u32 %r5, [%rd2+-4];
 setp.eq.u32 %p2, %r5, 0;
 @%p2 bra wait;
go:
 mul.wide.u32 %rd2, %r1, 4;
 add.u64 %rd2, %rd2, %rd0;
 add.u32 %r5, %r1, 1;
 st.release.gpu.global.u32 [%rd2], %r5;
end:]], 4)
    for i = 0, 63 do assert.equal(i + 1, out:get(i)) end
  end)

  it("are not used where clusters add to one counter without waiting for it", function()
    local _, out = run([[
 mov.u32 %r2, 0;
loop:
 red.async.release.gpu.global.add.u32 [%rd0], 1;
 add.u32 %r2, %r2, 1;
 setp.lt.u32 %p0, %r2, 100;
 @%p0 bra loop;]], 4, { target = "sm_100a", mode = "fast" })
    assert.equal(64 * 64 * 100, out:get(0))
  end)

  it("begin again from what memory was where clusters meet, matrices included", function()
    -- Each cluster raises what the one before it has left.
    local body = [[
 ld.global.u32 %r4, [%rd0];
 add.u32 %r4, %r4, 1;
 setp.ge.u32 %p0, %r0, 32;
 @%p0 bra end;
 wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%rd0], {%r4,%r4,%r4,%r4,%r4,%r4,%r4,%r4}, 16;
end:]]
    local one, first = run(body, 1)
    for threads = 2, 4 do
      local many, out = run(body, threads)
      same_reports(one, many)
      assert.is_true(out:equal(first))
    end
  end)
end)

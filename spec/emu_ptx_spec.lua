-- Reading PTX, control flow, barriers and faults of the emulator, on PTX written here.
local tc = require "tcmma"

local header = ".version 8.6\n.target %s\n.address_size 64\n"

-- A kernel k(out) with 32 threads or more; %r0 is the thread, %rd0 where it stores its result.
local function kernel(body, options)
  options = options or {}
  return header:format(options.target or "sm_90a") .. (options.before or "") .. ([[
.visible .entry k(.param .u64 out)
{
 .reg .pred %%p<10>; .reg .b16 %%h<10>; .reg .b32 %%r<40>; .reg .b64 %%rd<20>;
 .shared .align 16 .b8 tile[1024];
 ld.param.u64 %%rd1, [out];
 mov.u32 %%r0, %%tid.x;
 mad.wide.u32 %%rd0, %%r0, 4, %%rd1;
%s
 ret;
}
]]):format(body)
end

local function emulate(text, options)
  options = options or {}
  local out = tc.zeros({ options.size or 64 }, tc.i32)
  local report = tc.ptx(text):kernel("k"):emulate {
    grid = { options.grid or 1 }, block = { options.block or 32 }, cluster = options.cluster, args = { out },
    mode = options.mode, seed = options.seed, max_instructions = options.limit,
  }
  return report, out:totable()
end

-- The results of the threads, in every mode.
local function results(body, options)
  options = options or {}
  local first
  for _, mode in ipairs { "fast", "check", "random" } do
    options.mode, options.seed = mode, 7
    local report, values = emulate(kernel(body, options), options)
    assert.is_true(report.completed, report.hazards[1] and report.hazards[1].message)
    first = first or values
    assert.same(first, values)
  end
  return first
end

local function fault(rule, body, options)
  local report = emulate(kernel(body, options), options)
  assert.is_false(report.completed)
  assert.equal(rule, report.hazards[1].rule)
  return report.hazards[1].message, report.hazards[1]
end

local function refused(words, body, options)
  local ok, message = pcall(emulate, kernel(body, options), options)
  assert.is_false(ok)
  message = tostring(message)
  for _, word in ipairs(words) do assert.matches(word, message, 1, true) end
end

local function each(n, f)
  local list = {}
  for i = 0, n - 1 do list[i + 1] = f(i) end
  return list
end

local function first(n, list)
  return table.move(list, 1, n, 1, {})
end

describe("PTX text", function()
  it("has scopes with registers and labels of their own", function()
    local values = results[[
 mov.u32 %r1, 0;
 {
  .reg .pred p; .reg .b32 lo;
  mov.u32 lo, 3;
  setp.lt.u32 p, %r0, 16;
  @p bra DONE;
  add.u32 %r1, %r1, lo;
DONE:
 }
 {
  .reg .pred p; .reg .b32 lo;
  mov.u32 lo, 40;
  setp.lt.u32 p, %r0, 8;
  @p bra DONE;
  add.u32 %r1, %r1, lo;
DONE: }
 st.global.u32 [%rd0], %r1;]]
    assert.same(each(32, function(t) return (t >= 16 and 3 or 0) + (t >= 8 and 40 or 0) end), first(32, values))
  end)

  it("has tables of addresses, strings of bytes and constants", function()
    local values = results([[
 mov.u64 %rd2, table;
 and.b32 %r1, %r0, 1;
 mad.wide.u32 %rd2, %r1, 8, %rd2;
 ld.global.u64 %rd3, [%rd2];
 ld.u32 %r2, [%rd3+-4];
 ld.const.u8 %r3, [bytes+2];
 mad.lo.u32 %r2, %r3, 1000, %r2;
 st.global.u32 [%rd0], %r2;]], { before = [[
.global .align 4 .u32 numbers[4] = {0X5, 0b111, 11, -1};
.global .align 8 .u64 table[2] = {numbers+4, generic(numbers)+8};
.const .align 1 .b8 bytes[4] = {1, 2, 3};
]] })
    assert.same(each(32, function(t) return 3000 + (t % 2 == 0 and 5 or 7) end), first(32, values))
  end)

  it("branches by a table", function()
    local values = results[[
 rem.u32 %r1, %r0, 3;
 mov.u32 %r2, 7;
targets: .branchtargets L0, L1, L2;
 brx.idx %r1, targets;
L0: add.u32 %r2, %r2, 1;
 bra MEET;
L1: add.u32 %r2, %r2, 10;
L2: add.u32 %r2, %r2, 100;
MEET: bar.warp.sync -1;
 activemask.b32 %r3;
 popc.b32 %r3, %r3;
 mad.lo.u32 %r2, %r3, 1000, %r2;
 st.global.u32 [%rd0], %r2;]]
    local add = { [0] = 8, 117, 107 }
    assert.same(each(32, function(t) return 32000 + add[t % 3] end), first(32, values))
  end)

  it("is refused with its line, the opcode and what is wrong", function()
    refused({ "PTX line 12", "frobnicate.u32", "unknown opcode 'frobnicate'" }, "\n frobnicate.u32 %r1, %r2;")
    refused({ "add.wide.u32", "no form" }, " add.wide.u32 %r1, %r2, %r3;")
    refused({ "ld.global.purple.u32", "'.purple'" }, " ld.global.purple.u32 %r1, [%rd0];")
    refused({ "add.u32", "64 bits" }, " add.u32 %r1, %rd2, %r3;")
    refused({ "'%q7' is not declared" }, " mov.u32 %r1, %q7;")
    refused({ "'NOWHERE' is not declared" }, " bra NOWHERE;")
    refused({ "takes 3 operands, not 2" }, " add.u32 %r1, %r2;")
    refused({ "declared twice" }, " .reg .b32 x; .reg .b32 x;")
    refused({ "sm_90a alone" }, " wgmma.fence.sync.aligned;", { target = "sm_100a" })
    refused({ "expected ',' or ';'" }, " { add.u32 %r1, %r2, %r3 }")
    refused({ "512 bits" }, " st.global.v8.b64 [%rd0], {%rd1, %rd1, %rd1, %rd1, %rd1, %rd1, %rd1, %rd1};")
  end)

  it("ends in the middle without harm", function()
    local text = kernel " st.global.u32 [%rd0], %r0;"
    for length = 1, #text - 3, 3 do
      assert.is_false((pcall(emulate, text:sub(1, length))))
    end
  end)
end)

describe("lanes of a warp", function()
  it("meet behind loops of different lengths", function()
    local values = results[[
 mov.u32 %r1, 0;
 mov.u32 %r2, 0;
LOOP: add.u32 %r2, %r2, %r1;
 add.u32 %r1, %r1, 1;
 setp.le.u32 %p1, %r1, %r0;
 @%p1 bra LOOP;
 vote.sync.ballot.b32 %r3, 1, -1;
 popc.b32 %r3, %r3;
 mad.lo.u32 %r2, %r3, 1000, %r2;
 st.global.u32 [%rd0], %r2;]]
    assert.same(each(32, function(t) return 32000 + t * (t + 1) // 2 end), first(32, values))
  end)

  it("make progress one by one when they wait for each other", function()
    -- A lock that every lane takes in turn: word 32 is the lock, word 33 what it guards.
    local values = results[[
LOOP: atom.global.cas.b32 %r1, [%rd1+128], 0, 1;
 setp.ne.u32 %p1, %r1, 0;
 @%p1 bra LOOP;
 ld.volatile.global.u32 %r2, [%rd1+132];
 add.u32 %r2, %r2, 1;
 st.volatile.global.u32 [%rd1+132], %r2;
 atom.global.exch.b32 %r3, [%rd1+128], 0;]]
    assert.same({ 0, 32 }, { values[33], values[34] })
  end)

  it("exchange values from different places of the program", function()
    local values = results[[
 and.b32 %r1, %r0, 1;
 setp.eq.u32 %p1, %r1, 0;
 mul.lo.u32 %r2, %r0, 10;
 @%p1 bra EVEN;
 add.u32 %r2, %r2, 1;
 shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;
 bra STORE;
EVEN: shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;
 add.u32 %r3, %r3, 5000;
STORE: st.global.u32 [%rd0], %r3;]]
    assert.same(each(32, function(t) return t % 2 == 0 and 10 * (t + 1) + 1 + 5000 or 10 * (t - 1) end),
      first(32, values))
  end)

  it("must be together where an instruction says so", function()
    local message, hazard = fault("diverged-aligned", [[
 setp.lt.u32 %p1, %r0, 4;
 @%p1 bra SKIP;
 bar.sync 0;
SKIP:]])
    assert.matches("0xfffffff0", message, 1, true)
    assert.equal(13, hazard.ptx_line)
  end)

  it("are missed in a collective that names them", function()
    local message = fault("deadlock", [[
 setp.eq.u32 %p1, %r0, 3;
 @%p1 bra AWAY;
 bar.warp.sync 0xff;
AWAY: setp.ne.u32 %p1, %r0, 3;
 @%p1 bra END;
HERE: ld.volatile.global.u32 %r1, [%rd1];
 setp.eq.u32 %p2, %r1, 0;
 @%p2 bra HERE;
END:]], { block = 8 })
    assert.matches("lanes 0x00000008 of 0x000000ff", message, 1, true)
    assert.matches("spins", message, 1, true)
  end)

  it("must be members of the mask that they execute with", function()
    fault("not-a-member", " vote.sync.ballot.b32 %r1, 1, 0xfffffffe;")
  end)
end)

describe("a barrier of the block", function()
  it("takes producers that only arrive", function()
    local values = results([[
 mov.u32 %r1, tile;
 mad.lo.u32 %r2, %r0, 4, %r1;
 setp.ge.u32 %p1, %r0, 32;
 @%p1 bra CONSUME;
 add.u32 %r3, %r0, 100;
 st.shared.u32 [%r2], %r3;
 bar.arrive 5, 64;
 bra END;
CONSUME: bar.sync 5, 64;
 ld.shared.u32 %r3, [%r2+-128];
END: st.global.u32 [%rd0], %r3;]], { block = 64 })
    assert.same(each(64, function(t) return t % 32 + 100 end), values)
  end)

  it("reduces predicates", function()
    local values = results([[
 setp.lt.u32 %p1, %r0, 40;
 bar.red.popc.u32 %r1, 0, %p1;
 bar.red.and.pred %p2, 0, %p1;
 bar.red.or.pred %p3, 0, !%p1;
 selp.u32 %r2, 100, 0, %p2;
 selp.u32 %r3, 1000, 0, %p3;
 add.u32 %r1, %r1, %r2;
 add.u32 %r1, %r1, %r3;
 st.global.u32 [%rd0], %r1;]], { block = 64 })
    assert.same(each(64, function() return 1040 end), values)
  end)

  it("counts lanes that have exited", function()
    results([[
 setp.lt.u32 %p1, %r0, 40;
 @%p1 exit;
 bar.sync 0;
 bar.sync 1, 32;]], { block = 64 })
  end)

  it("is refused with a wrong number or with two counts", function()
    fault("barrier-id", " mov.u32 %r1, 16; barrier.sync %r1;")
    fault("barrier-count", " mov.u32 %r1, 33; barrier.sync 1, %r1;")
    fault("barrier-count", [[
 setp.lt.u32 %p1, %r0, 32;
 selp.u32 %r1, 64, 96, %p1;
 barrier.sync 1, %r1;]], { block = 64 })
  end)

  it("that nobody else reaches is a deadlock that says who is missing", function()
    local message = fault("deadlock", [[
 setp.lt.u32 %p1, %r0, 32;
 @%p1 bra OTHER;
 bar.sync 2;
OTHER: @!%p1 bra END;
 bar.sync 3;
END:]], { block = 64 })
    assert.matches("barrier 2, at which 32 of 64 threads have arrived; missing: warp 0", message, 1, true)
    assert.matches("barrier 3, at which 32 of 64 threads have arrived; missing: warp 1", message, 1, true)
  end)
end)

describe("a cluster", function()
  it("reads the shared memory of its CTAs between barriers", function()
    local values = results([[
 mov.u32 %r1, %cluster_ctarank;
 mov.u32 %r2, tile;
 mad.lo.u32 %r3, %r0, 4, %r2;
 mad.lo.u32 %r4, %r1, 1000, %r0;
 st.shared.u32 [%r3], %r4;
 barrier.cluster.arrive.release.aligned;
 barrier.cluster.wait.acquire.aligned;
 xor.b32 %r5, %r1, 1;
 mapa.shared::cluster.u32 %r6, %r3, %r5;
 ld.shared::cluster.u32 %r7, [%r6];
 barrier.cluster.arrive.relaxed.aligned;
 barrier.cluster.wait.aligned;
 mad.lo.u32 %r8, %r1, 32, %r0;
 mad.wide.u32 %rd2, %r8, 4, %rd1;
 st.global.u32 [%rd2], %r7;]], { grid = 2, cluster = { 2 } })
    assert.same(each(64, function(t) return (t < 32 and 1000 or 0) + t % 32 end), values)
  end)

  it("is refused a CTA that it does not have, and a second arrival", function()
    fault("cluster-rank", " mov.u32 %r1, tile; mapa.shared::cluster.u32 %r2, %r1, 2;", { grid = 2, cluster = { 2 } })
    fault("cluster-barrier", " barrier.cluster.arrive; barrier.cluster.arrive;", { grid = 2, cluster = { 2 } })
    fault("cluster-barrier", " barrier.cluster.wait;", { grid = 2, cluster = { 2 } })
  end)

  it("needs .shared::cluster for memory of another CTA", function()
    fault("wrong-space", [[
 mov.u32 %r1, tile;
 mov.u32 %r3, %cluster_ctarank;
 xor.b32 %r3, %r3, 1;
 mapa.shared::cluster.u32 %r2, %r1, %r3;
 ld.shared.u32 %r4, [%r2];]], { grid = 2, cluster = { 2 } })
  end)
end)

describe("blocks", function()
  it("that wait for later ones get them", function()
    -- All but the last block wait until the last one has raised the flag.
    local values = results([[
 mov.u32 %r1, %ctaid.x;
 setp.eq.u32 %p1, %r1, 5;
 @%p1 bra LAST;
WAIT: ld.acquire.gpu.global.u32 %r2, [%rd1+128];
 setp.eq.u32 %p2, %r2, 0;
 @%p2 bra WAIT;
 atom.global.add.u32 %r3, [%rd1+132], 1;
 bra END;
LAST: st.release.gpu.global.u32 [%rd1+128], 1;
END:]], { grid = 6 })
    assert.equal(5 * 32, values[34])
  end)

  it("that wait for what nobody does are a livelock, not a hang", function()
    local message = fault("livelock", [[
WAIT: ld.acquire.gpu.global.u32 %r2, [%rd1];
 setp.eq.u32 %p2, %r2, 0;
 @%p2 bra WAIT;]], { grid = 3 })
    assert.matches("spins on memory that nobody changes", message, 1, true)
  end)

  it("that go on for ever end at the limit", function()
    fault("budget", "LOOP: add.u32 %r1, %r1, 1;\n bra LOOP;", { limit = 100000 })
  end)
end)

describe("memory", function()
  it("is checked in every space", function()
    fault("out-of-bounds", " st.global.u32 [%rd0+256], %r0;")
    fault("misaligned", " st.global.u32 [%rd0+2], %r0;")
    fault("out-of-bounds", " mov.u32 %r1, tile; st.shared.u32 [%r1+1024], %r0;")
    fault("out-of-bounds", " mov.u32 %r1, 0; ld.shared.u32 %r2, [%r1];")
    fault("misaligned", " mov.u32 %r1, tile; ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1+8];")
    fault("out-of-bounds", " mov.u64 %rd2, 0; ld.u32 %r2, [%rd2];")
    fault("out-of-bounds", " ld.param.u64 %rd2, [out+8];")
    fault("read-only", " mov.u64 %rd2, out; cvta.param.u64 %rd2, %rd2; st.u32 [%rd2], %r0;")
    fault("read-only", " mov.u64 %rd2, fixed; cvta.const.u64 %rd2, %rd2; st.u32 [%rd2], %r0;",
      { before = ".const .align 4 .u32 fixed = 1;\n" })
    fault("out-of-bounds", " .local .align 4 .b8 depot[16]; mov.u64 %rd2, depot; ld.local.u32 %r1, [%rd2+65536];")
    fault("bad-call", " mov.u64 %rd2, 4096; proto: .callprototype _ (); call %rd2, proto;")
  end)

  it("is the thread's own in .local, with room for alloca", function()
    local values = results[[
 .local .align 8 .b8 depot[16];
 .reg .b64 %SP;
 mov.u64 %SP, depot;
 cvta.local.u64 %rd2, %SP;
 st.local.u32 [%SP+4], %r0;
 mul.wide.u32 %rd3, %r0, 4;
 add.u64 %rd3, %rd3, 4;
 alloca.u64 %rd4, %rd3, 16;
 add.u64 %rd5, %rd4, %rd3;
 st.local.u32 [%rd5+-4], 77;
 ld.u32 %r1, [%rd2+4];
 ld.local.u32 %r2, [%rd5+-4];
 add.u32 %r1, %r1, %r2;
 st.global.u32 [%rd0], %r1;]]
    assert.same(each(32, function(t) return t + 77 end), first(32, values))
  end)

  it("moves in vectors and widens on the way", function()
    local values = results[[
 mov.u32 %r1, tile;
 mad.lo.u32 %r1, %r0, 8, %r1;
 mov.b32 %r2, 0x80ff7f01;
 st.shared.v2.u32 [%r1], {%r2, %r0};
 ld.shared.s8 %r3, [%r1+2];
 ld.shared.u8 %r4, [%r1+3];
 ld.shared.v2.s16 {%h1, %h2}, [%r1];
 cvt.s32.s16 %r5, %h2;
 ld.shared.v2.b32 {_, %r6}, [%r1];
 ld.shared.s16 %rd3, [%r1+2];
 cvt.u32.u64 %r7, %rd3;
 add.u32 %r3, %r3, %r4;
 add.u32 %r5, %r5, %r6;
 sub.u32 %r5, %r5, %r7;
 mad.lo.u32 %r3, %r3, 1000, %r5;
 st.global.u32 [%rd0], %r3;]]
    assert.same(each(32, function(t) return 127000 + t end), first(32, values))
  end)
end)

describe("calls", function()
  local functions = [[
.func (.param .b32 result) twice(.param .b32 x)
{
 .reg .b32 %r<4>;
 ld.param.u32 %r1, [x];
 add.u32 %r2, %r1, %r1;
 st.param.b32 [result], %r2;
 ret;
}
.func (.param .b32 result) down(.param .b32 x)
{
 .reg .b32 %r<9>; .reg .pred %p;
 ld.param.u32 %r1, [x];
 setp.eq.u32 %p, %r1, 0;
 @%p bra ZERO;
 sub.u32 %r2, %r1, 1;
 {
 .param .b32 p0; .param .b32 r0;
 st.param.b32 [p0], %r2;
 call (r0), down, (p0);
 ld.param.b32 %r3, [r0];
 }
 add.u32 %r3, %r3, %r1;
 st.param.b32 [result], %r3;
 ret;
ZERO: st.param.b32 [result], 100;
 ret;
}
]]

  it("recurse to different depths and meet again", function()
    local values = results([[
 { .param .b32 p0; .param .b32 r0;
 st.param.b32 [p0], %r0;
 call.uni (r0), down, (p0);
 ld.param.b32 %r1, [r0]; }
 activemask.b32 %r2;
 popc.b32 %r2, %r2;
 mad.lo.u32 %r1, %r2, 10000, %r1;
 st.global.u32 [%rd0], %r1;]], { before = functions })
    assert.same(each(32, function(t) return 320000 + 100 + t * (t + 1) // 2 end), first(32, values))
  end)

  it("go through addresses that differ between lanes", function()
    local values = results([[
 mov.u64 %rd2, twice;
 mov.u64 %rd3, down;
 setp.lt.u32 %p1, %r0, 16;
 selp.u64 %rd2, %rd2, %rd3, %p1;
 { .param .b32 p0; .param .b32 r0;
 st.param.b32 [p0], %r0;
proto: .callprototype (.param .b32 _) _ (.param .b32 _);
 call (r0), %rd2, (p0), proto;
 ld.param.b32 %r1, [r0]; }
 st.global.u32 [%rd0], %r1;]], { before = functions })
    assert.same(each(32, function(t) return t < 16 and 2 * t or 100 + t * (t + 1) // 2 end), first(32, values))
  end)

  it("without end are a stack overflow", function()
    fault("stack-overflow", " call endless;",
      { before = ".func endless;\n.func endless\n{\n call endless;\n ret;\n}\n" })
  end)

  it("of what is not there are refused", function()
    refused({ "'missing' is not defined" }, " call missing;", { before = ".extern .func missing;\n" })
  end)
end)

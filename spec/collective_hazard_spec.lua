-- Pairs of CTAs on the emulator: each way to spoil a correct persistent matmul must give the rule that
-- names it; and what .cta_group::2 means to copies, in hand-written PTX.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local collective = require "collective_kernels"
local kernels = require "compiler_kernels"
local mutation = require "hazard_mutation"
local drop, drop_wait, replace = mutation.drop, mutation.drop_wait, mutation.replace

local M, N, K = 512, 256, 192
local LOAD, MMA, STORE = "// role load: warp", "// role mma: warp", "// role store: warps"
local LOADED, CONSUMED, DONE, READ = "+81920]", "+81936]", "+81952]", "+81968]"

local text

local function emitted()
  text = text or collective.persistent{ m = M, cols = N, k = K, clusters = 1, n = 128, stages = 2 }
    :ptx{ target = "sm_100a" }
  return text
end

local function map(array, dtype, bytes, width, height, box)
  return tc.tensormap(array, { dims = { width, height }, strides = { width * bytes }, box = box,
    element_strides = { 1, 1 }, swizzle = "128B", interleave = "none", l2 = "128B", dtype = dtype, oob = "zeros" })
end

local function run(ptx, mode)
  tc.device "emulator:sm_100a":use()
  local a, b = kernels.integers({ M, K }, tc.bfloat16, 1), kernels.integers({ K, N }, tc.bfloat16, 2)
  local out = tc.zeros({ M, N }, tc.float32)
  local report = tc.ptx(ptx):kernel "pair_persistent":emulate{
    grid = { 2 }, block = { 256 }, cluster = { 2 }, smem = 90 * 1024,
    mode = mode or "check", numerics = "f32", seed = 3,
    args = { map(a, "bf16", 2, K, M, { 64, 128 }), map(b, "bf16", 2, N, K, { 64, 64 }),
             map(out, "f32", 4, N, M, { 32, 128 }) },
  }
  return report, tc.max_error(out, tc.reference.matmul(a, b))
end

-- Rules in the order of their first report, each once.
local function rules_of(report)
  local list, seen = {}, {}
  for _, hazard in ipairs(report.hazards) do
    if not seen[hazard.rule] then list[#list + 1] = hazard.rule end
    seen[hazard.rule] = true
  end
  return list
end

local function all(old, new)
  return function(t) return (t:gsub(old, new)) end
end

-- Only the even CTA executes the line.
local function in_one_cta(line)
  return all("(" .. line .. "[^\n]*)",
    "setp.ne.u32 %%p1, %%axis_cta, 0;\n\t@%%p1 bra L_other;\n%1\nL_other:")
end

-- What is spoilt, how, rules: the first rule names the fault, further ones follow from it; what a deadlock alone says
-- of its cause.
local catalogue = {
  { "the copies do not wait for the MMA", function(t) return drop_wait(t, CONSUMED, { behind = LOAD }) end,
    { "copy-not-awaited", "mbarrier-over-arrival" } },
  { "the MMA does not wait for the copies of both CTAs", function(t) return drop_wait(t, LOADED, { behind = MMA }) end,
    { "copy-not-awaited", "mbarrier-over-arrival" } },
  { "the commit of a stage arrives in the leader alone",
    all("%.multicast::cluster%.b64 (%[%%r%d+%+81936%]), %%h%d", ".b64 %1"), { "deadlock" },
    "all that have come are of its own CTA" },
  { "the leader expects the bytes of one CTA", all("32768;", "16384;"),
    { "mbarrier-wrong-phase", "copy-not-awaited", "mma-not-awaited", "mbarrier-tx", "deadlock" } },
  { "each CTA's copies signal its own barrier",
    all("mapa.shared::cluster.u32 (%%r%d+), %%smem, 0", "mov.b32 %1, %%smem"),
    { "mbarrier-tx", "deadlock" } },
  { "a copy signals the peer without .cta_group::2", all("bytes%.cta_group::2", "bytes"), { "mbarrier-rank" } },
  { "the accumulator is not released", function(t) return drop_wait(t, READ, { behind = MMA }) end, { "tmem-race" } },
  { "the accumulator is released within each CTA", function(t)
      t = t:gsub("%[%%smem%+(81968)%], 8", "[%%smem+%1], 4"):gsub("%[%%smem%+(81976)%], 8", "[%%smem+%1], 4")
      return (t:gsub("@%%p%d+ mbarrier.arrive.release.cluster.shared::cluster.b64 _, %[%%r164%], 1",
        "@%%elected_store mbarrier.arrive.shared::cta.b64 _, [%%r167]"))
    end, { "tmem-race" } },
  { "the release has no fence",
    function(t) return drop(t, "fence::before_thread_sync", { behind = "barrier_arrive" }) end,
    { "tcgen05-fence-before" } },
  { "the epilogue does not wait for the MMA", function(t) return drop_wait(t, DONE, { behind = STORE }) end,
    { "undefined-tmem-load", "undefined-value", "tmem-race", "mma-not-awaited", "tcgen05-fence-before" } },
  { "the CTAs do not meet before they free and end", function(t)
      return drop(drop(t, "barrier.cluster.arrive", { nth = 2 }), "barrier.cluster.wait", { nth = 2 })
    end, { "tcgen05-fence-before", "exited-cta" } },
  { "each CTA meets its own threads before it frees and ends", function(t)
      return replace(drop(t, "barrier.cluster.arrive", { nth = 2 }), "barrier.cluster.wait", "barrier.cluster.wait",
        "bar.sync 0", { nth = 2 })
    end, { "exited-cta" } },
  { "the CTAs do not meet before they signal each other", function(t)
      return drop(drop(t, "barrier.cluster.arrive", { nth = 1 }), "barrier.cluster.wait", { nth = 1 })
    end, { "mbarrier-init-unordered" } },
  { "both CTAs issue the MMAs", function(t)
      t = replace(t, "setp.eq.u32 %p19", "setp.eq.u32 %p19, %r209, 0", "setp.ge.u32 %p19, %r209, 0")
      return replace(t, "setp.eq.s32 %p14", "setp.eq", "setp.ge", { behind = MMA })
    end, { "deadlock" }, "nobody waits for that of CTA rank 0, which has arrivals" },
  { "the odd CTA issues the MMAs", function(t)
      t = replace(t, "setp.eq.u32 %p19", ", 0", ", 1")
      return replace(t, "setp.eq.s32 %p14", "_cta, 0", "_cta, 1", { behind = MMA })
    end, { "deadlock" }, "nobody waits for that of CTA rank 0, which has arrivals" },
  { "one CTA allocates", in_one_cta "tcgen05.alloc.cta_group::2", { "deadlock" },
    "CTA rank 1 does not come to tcgen05.alloc" },
  { "one CTA frees", in_one_cta "tcgen05.dealloc.cta_group::2", { "tmem-leak" } },
}

describe("A matmul of two CTAs on the emulator", function()
  for _, mode in ipairs{ "check", "random" } do
    it("is free of hazards in mode " .. mode, function()
      local report, worst = run(emitted(), mode)
      assert.are.same({}, report.hazards)
      assert.are.equal(0, worst)
    end)
  end

  for _, case in ipairs(catalogue) do
    local title, spoil, rules, likely = table.unpack(case)
    it("is found out where " .. title, function()
      local spoilt = spoil(emitted())
      assert.are_not.equal(emitted(), spoilt)
      local report = run(spoilt)
      assert.are.same(rules, rules_of(report))
      if likely then
        assert.matches("\n    likely: [^\n]*" .. likely, report.hazards[#report.hazards].message)
      end
    end)
  end

  for _, instruction in ipairs{ "mma", "commit", "relinquish_alloc_permit", "dealloc" } do
    it("cannot mix tcgen05." .. instruction .. " of one CTA with the others of two", function()
      local spoilt = emitted():gsub("tcgen05%." .. instruction .. "%.cta_group::2", "tcgen05." .. instruction
        .. ".cta_group::1")
      local ok, message = pcall(run, spoilt)
      assert.is_false(ok)
      assert.is_truthy(message:find("cta_group::1, but line 56 has cta_group::2: the tcgen05 instructions of a "
        .. "function have one of the two", 1, true))
    end)
  end
end)

describe("Operands of a pair that threads write", function()
  local a, b = kernels.integers({ 256, 64 }, tc.float16, 1), kernels.integers({ 64, 128 }, tc.float16, 2)
  local function written(o)
    local out = tc.zeros({ 256, 128 }, tc.float32)
    local report = collective.written(o):emulate({ target = "sm_100a", mode = "check" }, a, b, out)
    return report, tc.max_error(out, tc.reference.matmul(a, b))
  end

  it("are read by the MMA of the leader that was told", function()
    local report, worst = written{ commit = true, tell = true }
    assert.are.same({}, report.hazards)
    assert.are.equal(0, worst)
  end)
  it("are a race with it where the leader was told nothing", function()
    local report = written{ commit = true }
    assert.are.same({ "shared-race" }, rules_of(report))
    assert.is_truthy(report.hazards[1].message:find("between CTAs b is a tc.cluster_barrier", 1, true))
  end)
  it("need their fence", function()
    assert.are.same({ "proxy-fence" }, rules_of((written{ tell = true })))
  end)
end)

-- ---- cp.async.bulk.tensor.cta_group::2 ----------------------------------------------------------------

-- Two CTAs of one warp.  Lane 0 issues $copy; %r0 rank, %r1 own 256 bytes, %r2 own barrier, %r3 that of
-- rank 0, %r4 that of rank 1; barrier i waits for $bytes0, $bytes1 (0: nobody waits there).
local PTX = [[
.version 8.6
.target sm_100a
.address_size 64
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out) {
	.reg .pred %p<8>;
	.reg .b16 %h<2>;
	.reg .b32 %r<16>;
	.reg .b64 %rd<4>;
	.shared .align 128 .b8 tile[256];
	.shared .align 8 .b64 bar;
	mov.u32 %r0, %cluster_ctarank;
	mov.u32 %r10, %tid.x;
	mov.u32 %r1, tile;
	mov.u32 %r2, bar;
	mapa.shared::cluster.u32 %r3, %r2, 0;
	mapa.shared::cluster.u32 %r4, %r2, 1;
	ld.param.u64 %rd1, [out];
	mov.b64 %rd0, map;
	cvta.param.u64 %rd0, %rd0;
	setp.eq.u32 %p0, %r10, 0;
	setp.eq.u32 %p1, %r0, 0;
	selp.b32 %r5, $bytes0, $bytes1, %p1;
	@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
	@%p0 fence.mbarrier_init.release.cluster;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	mov.b16 %h0, 3;
	@!%p0 bra L1;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], %r5;
	shl.b32 %r6, %r0, 1;
	$copy
	setp.eq.u32 %p2, %r5, 0;
	@%p2 bra L1;
L0:
	mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0;
	@!%p3 bra L0;
L1:
	barrier.cluster.arrive;
	barrier.cluster.wait;
	@!%p0 bra L2;
	ld.shared.b32 %r7, [tile];
	ld.shared.b32 %r8, [tile+128];
	mul.wide.u32 %rd2, %r0, 8;
	add.u64 %rd1, %rd1, %rd2;
	st.global.v2.b32 [%rd1], {%r7, %r8};
L2:
	ret;
}
]]

-- The first words of rows 0 and 1 that each CTA holds, of a source whose row i has 100 + i; and the report.
local function copied(o)
  tc.device "emulator:sm_100a":use()
  local rows = tc.zeros({ 4, 32 }, tc.int32)
  for i = 0, 3 do rows:set(i, 0, 100 + i) end
  local out = tc.zeros({ 2, 2 }, tc.int32)
  local ptx = PTX:gsub("%$(%w+)", function(key) return tostring(o[key]) end)
  local report = tc.ptx(ptx):kernel "copy":emulate{ grid = { 2 }, block = { 32 }, cluster = { 2 },
    mode = o.mode or "check",
    args = { tc.tensormap(rows, { dims = { 32, 4 }, strides = { 128 }, box = { 32, 2 }, element_strides = { 1, 1 },
      swizzle = "none", interleave = "none", l2 = "none", dtype = "s32", oob = "zeros" }), out } }
  return out:totable(), report
end

local HEAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"

describe("cp.async.bulk.tensor.cta_group::2", function()
  local cases = {
    { "counts both CTAs' bytes at the even barrier", bytes0 = 512, bytes1 = 0,
      copy = HEAD .. ".cta_group::2 [%r1], [%rd0, {0, %r6}], [%r3];", expected = { { 100, 101 }, { 102, 103 } } },
    { "or at the odd one", bytes0 = 0, bytes1 = 512,
      copy = HEAD .. ".cta_group::2 [%r1], [%rd0, {0, %r6}], [%r4];", expected = { { 100, 101 }, { 102, 103 } } },
    { "or at each CTA's own", bytes0 = 256, bytes1 = 256,
      copy = HEAD .. ".cta_group::2 [%r1], [%rd0, {0, %r6}], [%r2];", expected = { { 100, 101 }, { 102, 103 } } },
    -- each destination signals the barrier of its pair that has the parity of the operand's CTA
    { "multicasts, and counts each destination at the even barrier", bytes0 = 512, bytes1 = 0,
      copy = "@%p1 " .. HEAD .. ".multicast::cluster.cta_group::2 [%r1], [%rd0, {0, 2}], [%r3], %h0;",
      expected = { { 102, 103 }, { 102, 103 } } },
    { "multicasts, and counts each destination at the odd barrier", bytes0 = 0, bytes1 = 512,
      copy = "@%p1 " .. HEAD .. ".multicast::cluster.cta_group::2 [%r1], [%rd0, {0, 2}], [%r4], %h0;",
      expected = { { 102, 103 }, { 102, 103 } } },
  }
  for _, case in ipairs(cases) do
    it(case[1], function()
      for _, mode in ipairs{ "fast", "check", "random" } do
        case.mode = mode
        local got, report = copied(case)
        assert.are.same({}, report.hazards)
        assert.are.same(case.expected, got)
      end
    end)
  end

  it("is needed to signal the peer", function()
    local _, report = copied{ bytes0 = 512, bytes1 = 0, copy = HEAD .. " [%r1], [%rd0, {0, %r6}], [%r3];" }
    assert.are.equal("mbarrier-rank", report.hazards[1].rule)
  end)

  it("without it a multicast signals every destination", function()
    local got, report = copied{ bytes0 = 256, bytes1 = 256,
      copy = "@%p1 " .. HEAD .. ".multicast::cluster [%r1], [%rd0, {0, 2}], [%r2], %h0;" }
    assert.are.same({}, report.hazards)
    assert.are.same({ { 102, 103 }, { 102, 103 } }, got)
  end)

  it("is awaited where its barrier is: the other CTA knows nothing", function()
    local _, report = copied{ bytes0 = 512, bytes1 = 0, copy = HEAD
      .. ".cta_group::2 [%r1], [%rd0, {0, %r6}], [%r3];\n setp.ne.u32 %p4, %r0, 0;\n @%p4 ld.shared.b32 %r9, [tile];" }
    assert.are.equal("copy-not-awaited", report.hazards[1].rule)
  end)
end)

-- Lanes 0 to 63 have the first half of D's columns, 64 to 127 the other: each lane reads the A that it holds.
it("A pair's 64 rows of A that do not lie in both halves of the lanes give other rows' sums", function()
  tc.device "emulator:sm_100a":use()
  local a, b = kernels.integers({ 128, 64 }, tc.float16, 1), kernels.integers({ 64, 128 }, tc.float16, 2)
  local kernel = collective.a_in_tmem{ rows = 64 }
  local duplicated = kernel:ptx{ target = "sm_100a" }
  -- rows 0 to 31 twice, then rows 32 to 63 twice
  local spoilt, copies = duplicated:gsub("64x128b%.warpx2::02_13", "64x128b.warpx2::01_23")
  assert.equal(8, copies) -- 16 of 128 bytes each
  local products = tc.reference.matmul(a, b):totable()
  for source, row_of in pairs{ [duplicated] = function(r) return r end,
                             [spoilt] = function(r, second) return r % 32 + (second and 32 or 0) end } do
    local rows = {}
    for cta = 0, 1 do
      for r = 0, 63 do
        local row = {}
        for n = 1, 128 do row[n] = products[cta * 64 + row_of(r, n > 64) + 1][n] end
        rows[#rows + 1] = row
      end
    end
    local out = tc.zeros({ 128, 128 }, tc.float32)
    tc.ptx(source):kernel "pair_a_tmem":emulate{
      grid = { 2 }, block = { 128 }, cluster = { 2 }, smem = 32 * 1024, mode = "check",
      args = { map(a, "f16", 2, 64, 128, { 64, 64 }), map(b, "f16", 2, 128, 64, { 64, 64 }), out },
    }
    assert.equal(0, (tc.max_error(out, tc.from_table(rows, tc.float64))))
  end
end)

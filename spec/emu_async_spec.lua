-- mbarriers, bulk copies and TMA on the emulator.  Expected bytes are computed here from the rules.
local tc = require "tcmma"

local function entry(params, body, options)
  options = options or {}
  return ([[
.version 8.6
.target %s
.address_size 64
.visible .entry k(%s)
{
 .reg .pred %%p<10>; .reg .b16 %%h<10>; .reg .b32 %%r<60>; .reg .b64 %%rd<30>; .reg .f32 %%f<10>;
 .shared .align 1024 .b8 tile[%d];
 .shared .align 8 .b64 bars[8];
 mov.u32 %%r0, %%tid.x;
 mov.u32 %%r1, tile;
 mov.u32 %%r2, bars;
 setp.eq.u32 %%p0, %%r0, 0;
%s
 ret;
}
]]):format(options.target or "sm_100a", params, options.shared or 32768, body)
end

local function run(text, args, options)
  options = options or {}
  return tc.ptx(text):kernel("k"):emulate {
    grid = options.grid or { 1 }, block = options.block or { 32 }, cluster = options.cluster, args = args,
    mode = options.mode, seed = options.seed,
  }
end

local function good(report)
  local first = report.hazards[1]
  assert.is_true(report.completed, first and first.message)
  assert.same({}, report.hazards)
end

local function fault(report, rule, ...)
  assert.is_false(report.completed)
  assert.equal(rule, report.hazards[1].rule)
  for _, words in ipairs { ... } do assert.matches(words, report.hazards[1].message, 1, true) end
end

-- ---- mbarriers ---------------------------------------------------------------------------------------

describe("an mbarrier", function()
  -- One thread does `body` and stores %r10, %r11 ...: the results.
  local function results(body, count)
    local stores = {}
    for i = 0, count - 1 do stores[i + 1] = ("@%%p0 st.global.b32 [%%rd0+%d], %%r%d;"):format(4 * i, 10 + i) end
    local out = tc.zeros({ count }, tc.i32)
    local text = entry(".param .u64 out", " ld.param.u64 %rd0, [out];\n @!%p0 bra end;\n" .. body .. "\n"
      .. table.concat(stores, "\n") .. "\nend:")
    good(run(text, { out }))
    return out:totable()
  end

  it("completes a phase at its last arrival, and waits see the parity", function()
    assert.same({ 0, 1, 1, 0 }, results([[
 mbarrier.init.shared::cta.b64 [%r2], 2;
 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 0;  selp.u32 %r10, 1, 0, %p1;
 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 1;  selp.u32 %r11, 1, 0, %p1;
 mbarrier.arrive.shared::cta.b64 _, [%r2];
 mbarrier.arrive.shared::cta.b64 _, [%r2];
 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 0;  selp.u32 %r12, 1, 0, %p1;
 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 1;  selp.u32 %r13, 1, 0, %p1;]], 4))
  end)

  it("returns a state that names the phase and the pending arrivals", function()
    assert.same({ 3, 4, 0, 1 }, results([[
 mbarrier.init.shared::cta.b64 [%r2], 3;
 mbarrier.init.shared::cta.b64 [%r2+8], 4;
 mbarrier.arrive.shared::cta.b64 %rd1, [%r2], 2;
 mbarrier.pending_count.b64 %r10, %rd1;
 mbarrier.arrive.noComplete.shared::cta.b64 %rd2, [%r2+8], 2;
 mbarrier.pending_count.b64 %r11, %rd2;
 mbarrier.test_wait.shared::cta.b64 %p1, [%r2], %rd1;  selp.u32 %r12, 1, 0, %p1;
 mbarrier.arrive.shared::cta.b64 %rd3, [%r2];
 mbarrier.test_wait.shared::cta.b64 %p1, [%r2], %rd1;  selp.u32 %r13, 1, 0, %p1;]], 4))
  end)

  it("waits for the bytes it expects as well", function()
    assert.same({ 0, 1 }, results([[
 mbarrier.init.shared::cta.b64 [%r2], 1;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;
 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r2], 48;
 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 0;  selp.u32 %r10, 1, 0, %p1;
 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r2], 16;
 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 0;  selp.u32 %r11, 1, 0, %p1;]], 2))
  end)

  it("expects fewer arrivals after arrive_drop", function()
    assert.same({ 1, 1 }, results([[
 mbarrier.init.shared::cta.b64 [%r2], 2;
 mbarrier.arrive_drop.shared::cta.b64 %rd1, [%r2];
 mbarrier.arrive.shared::cta.b64 _, [%r2];
 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 0;  selp.u32 %r10, 1, 0, %p1;
 mbarrier.arrive.shared::cta.b64 _, [%r2];
 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 1;  selp.u32 %r11, 1, 0, %p1;]], 2))
  end)

  it("wakes the threads of other warps", function()
    local out = tc.zeros({ 64 }, tc.i32)
    good(run(entry(".param .u64 out", [[
 ld.param.u64 %rd0, [out];
 mad.wide.u32 %rd0, %r0, 4, %rd0;
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 32;
 bar.sync 0;
 setp.lt.u32 %p1, %r0, 32;
 @%p1 bra wait;
 st.shared.u32 [%r1], %r0;
 mbarrier.arrive.shared::cta.b64 _, [%r2];
 bra end;
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
 @!%p2 bra wait;
 ld.shared.u32 %r3, [%r1];
 st.global.u32 [%rd0], %r3;
end:]]), { out }, { block = { 64 } }))
    assert.is_true(out:get(0) >= 32)
  end)

  it("can be used from another CTA of the cluster", function()
    local out = tc.zeros({ 2 }, tc.i32)
    good(run(entry(".param .u64 out", [[
 ld.param.u64 %rd0, [out];
 mov.u32 %r3, %cluster_ctarank;
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
 xor.b32 %r4, %r3, 1;
 mapa.shared::cluster.u32 %r5, %r2, %r4;
 @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];
wait:
 mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0;
 @!%p2 bra wait;
 mad.wide.u32 %rd0, %r3, 4, %rd0;
 @%p0 st.global.u32 [%rd0], 1;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;]]), { out }, { grid = { 2 }, cluster = { 2 } }))
    assert.same({ 1, 1 }, out:totable())
  end)

  local function refused(title, rule, words, body)
    it(title, function() fault(run(entry("", body), {}), rule, words) end)
  end

  refused("that was never initialised", "mbarrier-not-initialised", "mbarrier.init was not executed",
    "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r2];")
  refused("that was invalidated", "mbarrier-not-initialised", "mbarrier.inval", [[
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 @%p0 mbarrier.inval.shared::cta.b64 [%r2];
 @%p0 mbarrier.arrive.shared::cta.b64 _, [%r2];]])
  refused("whose bytes were overwritten", "mbarrier-overwritten", "initialised at PTX line", [[
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 @%p0 st.shared.u32 [%r2], 7;
 @%p0 mbarrier.arrive.shared::cta.b64 _, [%r2];]])
  refused("with too many arrivals", "mbarrier-over-arrival", "arrival of 3 when only 2 are left", [[
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 2;
 @%p0 mbarrier.arrive.shared::cta.b64 _, [%r2], 3;]])
  refused("with a count of zero", "mbarrier-count", "1 .. 2^20-1",
    "@%p0 mbarrier.init.shared::cta.b64 [%r2], 0;")
  refused("that is misaligned", "misaligned", "8", "@%p0 mbarrier.init.shared::cta.b64 [%r2+4], 1;")
  refused("that ends with bytes outstanding", "mbarrier-tx", "64 bytes outstanding", [[
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;]])
  refused("that nobody completes is a deadlock, with its ledger", "deadlock", "1 of 2 arrivals missing", [[
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 2;
 @%p0 mbarrier.arrive.shared::cta.b64 _, [%r2];
 bar.warp.sync 0xffffffff;
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
 @!%p2 bra wait;]])
end)

-- ---- linear bulk copies --------------------------------------------------------------------------------

local LOADED = [[
loaded:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
 @!%p2 bra loaded;]]

local function ramp(count, dtype, scale)
  local list = {}
  for i = 1, count do list[i] = i * (scale or 1) end
  return tc.from_table(list, dtype)
end

describe("a bulk copy", function()
  local function round_trip(back, options)
    return entry(".param .u64 from, .param .u64 to", [[
 ld.param.u64 %rd0, [from];
 ld.param.u64 %rd1, [to];
 @!%p0 bra end;
 mbarrier.init.shared::cta.b64 [%r2], 1;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 1024, [%r2];
]] .. LOADED .. "\n" .. back .. [[

 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
end:]], options)
  end

  for _, mode in ipairs { "fast", "check", "random" } do
    it("goes there and back, mode " .. mode, function()
      local from, to = ramp(256, tc.i32), tc.zeros({ 256 }, tc.i32)
      good(run(round_trip "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;", { from, to },
          { mode = mode }))
      assert.is_true(to:equal(from))
    end)
  end

  it("adds", function()
    local from, to = ramp(256, tc.f32, 0.5), tc.full({ 256 }, 3, tc.f32)
    good(run(round_trip "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 1024;", { from,
        to }))
    assert.equal(3.5, to:get(0))
    assert.equal(131, to:get(255))
  end)

  it("takes the greater", function()
    local from, to = ramp(256, tc.i32, -1), tc.full({ 256 }, -100, tc.i32)
    good(run(round_trip "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%rd1], [%r1], 1024;", { from,
        to }))
    assert.equal(-1, to:get(0))
    assert.equal(-100, to:get(255))
  end)

  it("is refused when misaligned or outside", function()
    local from, to = ramp(256, tc.i32), tc.zeros({ 255 }, tc.i32)
    fault(run(round_trip "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1+8], 1008;", { from, to }),
        "misaligned")
    fault(run(round_trip "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;", { from, to }),
        "out-of-bounds")
    fault(run(round_trip "mov.u32 %r9, 24;\n cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r9;",
        { from, to }),
      "misaligned", "multiple of 16")
  end)

  it("multicasts", function()
    local from, out = ramp(256, tc.i32), tc.zeros({ 2, 256 }, tc.i32)
    good(run(entry(".param .u64 from, .param .u64 to", [[
 ld.param.u64 %rd0, [from];
 ld.param.u64 %rd1, [to];
 mov.u32 %r3, %cluster_ctarank;
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
 setp.eq.and.u32 %p1, %r3, 1, %p0;
 mov.b16 %h0, 3;
 @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
  [%r1], [%rd0], 1024, [%r2], %h0;
]] .. LOADED .. [[

 mad.wide.u32 %rd1, %r3, 1024, %rd1;
 @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group.read 0;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;]]), { from, out }, { grid = { 2 }, cluster = { 2 } }))
    local rows = out:totable()
    assert.same(from:totable(), rows[1])
    assert.same(from:totable(), rows[2])
  end)
end)

-- ---- tensor copies ---------------------------------------------------------------------------------------

-- Loads one box at `coordinates` and dumps the shared memory of it.
local function load_text(rank, coordinates, bytes, tx, extra)
  return entry(".param .align 64 .b8 map[128], .param .u64 out", ([[
 ld.param.u64 %%rd1, [out];
 mov.b64 %%rd0, map;
 cvta.param.u64 %%rd0, %%rd0;
 @!%%p0 bra end;
 mbarrier.init.shared::cta.b64 [%%r2], 1;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2], %d;
 cp.async.bulk.tensor.%dd.shared::cluster.global%s.mbarrier::complete_tx::bytes [%%r1], [%%rd0, {%s}], [%%r2];
%s
 cp.async.bulk.global.shared::cta.bulk_group [%%rd1], [%%r1], %d;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
end:]]):format(tx or bytes, rank, extra or "", table.concat(coordinates, ","), LOADED, bytes))
end

local swizzles = {
  none = function(a) return a end,
  ["32B"] = function(a) return a ~ ((a >> 7 & 1) << 4) end,
  ["64B"] = function(a) return a ~ ((a >> 7 & 3) << 4) end,
  ["128B"] = function(a) return a ~ ((a >> 7 & 7) << 4) end,
  ["128B_atom_32B"] = function(a) return a ~ ((a >> 7 & 3) << 5) end,
  ["128B_atom_64B"] = function(a) return a ~ ((a >> 7 & 1) << 6) end,
}

describe("a tensor copy", function()
  local function words(count) return ramp(count, tc.u16) end

  for name, swizzle in pairs(swizzles) do
    it("places rows by the swizzle " .. name, function()
      local width = name:match "^%d+" and tonumber(name:match "^%d+") or 64
      local columns = width // 2
      local source = words(64 * 104):reshape { 64, 104 }
      local out = tc.zeros({ 32 * width }, tc.u8)
      local map = tc.tensormap(source, { box = { columns, 32 }, swizzle = name })
      good(run(load_text(2, { 8, 5 }, 32 * width), { map, out }))
      local got = out:totable()
      for row = 0, 31 do
        for column = 0, columns - 1 do
          local at = swizzle(row * width + 2 * column)
          local value = (row + 5) * 104 + column + 8 + 1
          assert.equal(value & 0xffff, got[at + 1] | got[at + 2] << 8)
        end
      end
    end)
  end

  it("fills what lies outside with zeros, on all sides, and counts the whole box", function()
    local source = words(10 * 24):reshape { 10, 24 }
    local out = tc.full({ 16, 32 }, 0xffff, tc.u16)
    local map = tc.tensormap(source, { box = { 32, 16 } })
    good(run(load_text(2, { -8, -3 }, 1024), { map, out }))
    for r, row in ipairs(out:totable()) do
      for c, value in ipairs(row) do
        local y, x = r - 1 - 3, c - 1 - 8
        assert.equal(y >= 0 and y < 10 and x >= 0 and x < 24 and y * 24 + x + 1 or 0, value)
      end
    end
  end)

  it("walks five dimensions with element strides", function()
    local source = words(5 * 4 * 3 * 6 * 8):reshape { 5, 4, 3, 6, 8 }
    local out = tc.zeros({ 2 * 2 * 1 * 3 * 8 }, tc.u16)
    local map = tc.tensormap(source, { box = { 8, 5, 1, 3, 4 }, element_strides = { 1, 2, 1, 2, 3 } })
    good(run(load_text(5, { 0, 1, 2, 0, 1 }, out.nbytes), { map, out }))
    local expected = {}
    for e = 0, 1 do
      for d = 0, 1 do
        for b = 0, 2 do
          for a = 0, 7 do
            local i5, i4, i3, i2 = 1 + 3 * e, 2 * d, 2, 1 + 2 * b
            local inside = i2 < 6
            expected[#expected + 1] = inside and ((((i5 * 4 + i4) * 3 + i3) * 6 + i2) * 8 + a + 1) or 0
          end
        end
      end
    end
    assert.same(expected, out:totable())
  end)

  it("gathers four rows", function()
    local source = words(40 * 64):reshape { 40, 64 }
    local out = tc.zeros({ 4, 64 }, tc.u16)
    local map = tc.tensormap(source, { box = { 64, 1 } })
    good(run(load_text(2, { 0, 7, 39, 0, 40 }, 512, 512, ".tile::gather4"), { map, out }))
    local rows = out:totable()
    for i, row in ipairs { 7, 39, 0 } do assert.equal(row * 64 + 1, rows[i][1]) end
    assert.equal(0, rows[4][1])
  end)

  it("rounds to tf32 when the map says so", function()
    local source = tc.full({ 8, 32 }, 1 + 2.0 ^ -11 + 2.0 ^ -12, tc.f32)
    local out = tc.zeros({ 8, 32 }, tc.f32)
    good(run(load_text(2, { 0, 0 }, 1024), { tc.tensormap(source, { box = { 32, 8 }, dtype = "tf32" }), out }))
    assert.equal(1 + 2.0 ^ -10, out:totable()[1][1])
  end)

  local function store_text(operation)
    return entry(".param .align 64 .b8 map[128], .param .s32 x, .param .s32 y", [[
 mov.b64 %rd0, map;
 cvta.param.u64 %rd0, %rd0;
 ld.param.s32 %r10, [x];
 ld.param.s32 %r11, [y];
 mov.u32 %r3, %r0;
fill:
 mad.lo.u32 %r4, %r3, 4, %r1;
 cvt.rn.f32.u32 %f0, %r3;
 st.shared.f32 [%r4], %f0;
 add.u32 %r3, %r3, 32;
 setp.lt.u32 %p1, %r3, 256;
 @%p1 bra fill;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @!%p0 bra end;
 ]] .. operation .. [[ [%rd0, {%r10, %r11}], [%r1];
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group.read 0;
end:]])
  end

  it("stores only what lies inside", function()
    local out = tc.full({ 10, 40 }, -1, tc.f32)
    local map = tc.tensormap(out, { box = { 32, 8 } })
    good(run(store_text "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", { map, 20, 6 }))
    for r, row in ipairs(out:totable()) do
      for c, value in ipairs(row) do
        local y, x = r - 1 - 6, c - 1 - 20
        assert.equal(y >= 0 and x >= 0 and y * 32 + x or -1, value)
      end
    end
  end)

  it("reduces", function()
    local out = tc.full({ 10, 40 }, 1, tc.f32)
    local map = tc.tensormap(out, { box = { 32, 8 } })
    good(run(store_text "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group", { map, 0, 0 }))
    assert.equal(256, out:totable()[8][32])
    assert.equal(1, out:totable()[9][1])
  end)

  it("is refused when the map is none, or has another rank, or the address is misaligned", function()
    local source = words(64 * 64):reshape { 64, 64 }
    local out = tc.zeros({ 512 }, tc.u16)
    local map = tc.tensormap(source, { box = { 32, 16 }, swizzle = "64B" })
    fault(run(load_text(2, { 0, 0 }, 1024), { string.rep("\0", 128), out }), "tensormap", "not a tensor map")
    fault(run(load_text(3, { 0, 0, 0 }, 1024), { map, out }), "tensormap", "is .3d, the tensor map has rank 2")
    fault(run((load_text(2, { 0, 0 }, 1024):gsub("bytes %[%%r1%]", "bytes [%%r1+16]")), { map, out }), "misaligned",
        "128")
    local plain = tc.tensormap(source, { box = { 32, 16 } })
    for _, offset in ipairs{ 16, 32, 64, 96 } do
      local text = load_text(2, { 0, 0 }, 1024):gsub("bytes %[%%r1%]", ("bytes [%%%%r1+%d]"):format(offset))
      fault(run(text, { plain, out }), "misaligned", "128")
    end
  end)

  it("with too few bytes expected is noticed at the end, with too many by who waits", function()
    local source = words(64 * 64):reshape { 64, 64 }
    local out = tc.zeros({ 512 }, tc.u16)
    local map = tc.tensormap(source, { box = { 32, 16 }, swizzle = "64B" })
    fault(run(load_text(2, { 0, 0 }, 1024, 2048), { map, out }), "mbarrier-tx", "1024 bytes outstanding",
      "expect_tx 2048", "complete_tx 1024")
  end)

  -- Loads `bytes` of the box at {0, 0} by a copy of the map that `replace` has changed.
  local function replaced(replace, bytes, target)
    return entry(".param .align 64 .b8 map[128], .param .u64 out", ([[
 ld.param.u64 %%rd1, [out];
 mov.b64 %%rd0, map;
 cvta.param.u64 %%rd0, %%rd0;
 mad.wide.u32 %%rd2, %%r0, 4, %%rd0;
 ld.u32 %%r3, [%%rd2];
 mad.lo.u32 %%r4, %%r0, 4, %%r1;
 st.shared.u32 [%%r4+16384], %%r3;
 bar.warp.sync 0xffffffff;
 @!%%p0 bra end;
 add.u32 %%r5, %%r1, 16384;
 tensormap.replace.tile.%s;
 cvt.u64.u32 %%rd3, %%r5;
 cvta.shared.u64 %%rd3, %%rd3;
 mbarrier.init.shared::cta.b64 [%%r2], 1;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2], %d;
 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%%r1], [%%rd3, {0, 0}], [%%r2];
%s
 cp.async.bulk.global.shared::cta.bulk_group [%%rd1], [%%r1], %d;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
end:]]):format(replace, bytes, LOADED, bytes), { target = target })
  end

  it("reads a map that tensormap.replace changed", function()
    local source = words(64 * 64):reshape { 64, 64 }
    local out = tc.zeros({ 512 }, tc.u16)
    local map = tc.tensormap(source, { box = { 32, 8 } })
    good(run(replaced("box_dim.shared::cta.b1024.b32 [%r5], 1, 16", 1024), { map, out }))
    assert.equal(15 * 64 + 32, out:get(511))
  end)

  it("swizzles rows of 96 bytes on sm_103a: the two units of each 32 bytes change places in odd lines", function()
    local source = words(32 * 104):reshape { 32, 104 }
    local out = tc.zeros({ 32 * 96 }, tc.u8)
    local map = tc.tensormap(source, { box = { 48, 32 } })
    local mode = "swizzle_mode.shared::cta.b1024.b32 [%r5], 4"
    good(run(replaced(mode, 32 * 96, "sm_103a"), { map, out }))
    local got = out:totable()
    for row = 0, 31 do
      for column = 0, 47 do
        local at = row * 96 + 2 * column
        if at // 128 % 2 == 1 then at = at // 32 * 32 + (at + 16) % 32 end
        assert.equal(row * 104 + column + 1, got[at + 1] | got[at + 2] << 8)
      end
    end
    fault(run(replaced(mode, 2048, "sm_103a"), { tc.tensormap(source, { box = { 64, 16 } }), out }), "tensormap",
      "a box row of 64 elements of UINT16 is 128 bytes; swizzle 96B allows 96")
    assert.error_matches(function() run(replaced(mode, 2048, "sm_100a"), { map, out }) end,
      "swizzle mode 4 exists on sm_103a alone")
  end)

  it("refuses maps that only Blackwell has on sm_90a, whatever made them", function()
    local source = words(64 * 64):reshape { 64, 64 }
    local out = tc.zeros({ 512 }, tc.u16)
    local function refuses(options, message)
      local text = load_text(2, { 0, 0 }, 1024):gsub("%.target sm_100a", ".target sm_90a")
      assert.error_matches(function() run(text, { tc.tensormap(source, options), out }) end, message)
    end
    refuses({ box = { 64, 8 }, swizzle = "128B_atom_64B" },
      "swizzle 128B_ATOM_64B needs sm_100 or later; sm_90 has NONE, 32B, 64B and 128B")
    refuses({ dtype = "16u4_align8b", dims = { 128, 64 }, box = { 128, 8 } },
      "type 16U4_ALIGN8B needs sm_100 or later; sm_90 has UINT8 to TFLOAT32_FTZ")
    refuses({ dims = { 64, 8, 8 }, im2col = { lower = { 0 }, upper = { 0 }, channels = 64, pixels = 8, mode = "w" } },
      "im2col along the width alone needs sm_100 or later; sm_90 has im2col")
  end)
end)

describe("asynchronous stores and launch control", function()
  it("st.async counts its bytes on the peer's mbarrier", function()
    local out = tc.zeros({ 2 }, tc.i32)
    good(run(entry(".param .u64 out", [[
 ld.param.u64 %rd0, [out];
 mov.u32 %r3, %cluster_ctarank;
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 4;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
 xor.b32 %r4, %r3, 1;
 mapa.shared::cluster.u32 %r5, %r1, %r4;
 mapa.shared::cluster.u32 %r6, %r2, %r4;
 add.u32 %r7, %r3, 40;
 @%p0 st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5], %r7, [%r6];
]] .. LOADED .. [[

 ld.shared.u32 %r8, [%r1];
 mad.wide.u32 %rd0, %r3, 4, %rd0;
 @%p0 st.global.u32 [%rd0], %r8;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;]]), { out }, { grid = { 2 }, cluster = { 2 } }))
    assert.same({ 41, 40 }, out:totable())
  end)

  it("a cluster takes over those that have not started", function()
    local out = tc.zeros({ 500 }, tc.i32)
    good(run(entry(".param .u64 out", [[
 .reg .b128 %q0;
 ld.param.u64 %rd0, [out];
 mov.u32 %r3, %ctaid.x;
 mov.u32 %r9, 0;
 @!%p0 bra end;
 mbarrier.init.shared::cta.b64 [%r2], 1;
work:
 mad.wide.u32 %rd1, %r3, 4, %rd0;
 atom.global.add.u32 %r4, [%rd1], 1;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];
loaded:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r9;
 @!%p2 bra loaded;
 xor.b32 %r9, %r9, 1;
 ld.shared.b128 %q0, [%r1];
 clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
 @!%p3 bra end;
 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r3, %r5, %r6, %r7}, %q0;
 bra work;
end:]]), { out }, { grid = { 500 } }))
    for _, count in ipairs(out:totable()) do assert.equal(1, count) end
  end)
end)

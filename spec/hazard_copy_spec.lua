-- Hazards of copies: tensor maps that kernels change, boxes that overhang, cp.async on its way to a wgmma, the answers
-- of cluster launch control.  Numbers are those of the catalogue in spec/hazard_spec.lua.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local rules_of = require "hazard_mutation".rules_of

-- %r0 thread, %r1 tile, %r2 barrier; %p0: thread 0; %rd0 map, %rd1 out.
local function entry(body, target)
  return ([[
.version 8.6
.target %s
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 scratch)
{
 .reg .pred %%p<8>; .reg .b32 %%r<80>; .reg .b64 %%rd<12>; .reg .b128 %%q0;
 .shared .align 1024 .b8 tile[16384];
 .shared .align 128 .b8 copy[128];
 .shared .align 8 .b64 bar[2];
 mov.u32 %%r0, %%tid.x;
 mov.u32 %%r1, tile;
 mov.u32 %%r2, bar;
 setp.eq.u32 %%p0, %%r0, 0;
 mov.b64 %%rd0, map;
 cvta.param.u64 %%rd0, %%rd0;
 ld.param.u64 %%rd1, [out];
 ld.param.u64 %%rd2, [scratch];
 @%%p0 mbarrier.init.shared::cta.b64 [%%r2], 1;
 fence.proxy.async;
 bar.sync 0;
%s
 ret;
}
]]):format(target, body)
end

local function run(text, o, threads)
  local target = o.target or "sm_90a"
  tc.device("emulator:" .. target):use()
  local source = tc.ones({ 128, 64 }, tc.u16)
  local map = tc.tensormap(source, { dims = o.dims or { 60, 128 }, strides = { 128 }, box = { 32, 8 } })
  return tc.ptx(entry(text, target)):kernel "k":emulate {
    grid = { o.grid or 1 }, block = { o.block or 32 }, mode = "check", seed = 3, threads = threads,
    args = { map, tc.zeros({ 4096 }, tc.i32), tc.zeros({ 32 }, tc.i32) },
  }
end

-- The bytes of the box on the barrier; then every thread reads its word.
local function load(map, at, bytes, row)
  return ([[
 @!%%p0 bra wait;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2], %d;
 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%%r1], [%s, {%s, %s}], [%%r2];
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %%p1, [%%r2], 0;
 @!%%p1 bra wait;
 mad.lo.u32 %%r4, %%r0, 4, %%r1;
 ld.shared.b32 %%r5, [%%r4];]]):format(bytes, map, at, row or 0)
end

-- Row and column of the CTA's tile: two in a row of tiles.
local TILES = [[
 mov.u32 %r5, %ctaid.x;
 shr.u32 %r6, %r5, 1;
 shl.b32 %r6, %r6, 3;
 and.b32 %r7, %r5, 1;
 shl.b32 %r7, %r7, 5;
]]

-- The map goes to shared memory, another box is set, and back to global memory, from where it is used.
local MAP_TO_SHARED = [[
 mad.wide.u32 %rd3, %r0, 4, %rd0;
 ld.u32 %r3, [%rd3];
 mov.u32 %r6, copy;
 mad.lo.u32 %r4, %r0, 4, %r6;
 st.shared.u32 [%r4], %r3;
 bar.warp.sync 0xffffffff;
 @%p0 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r6], 1, 4;
 bar.warp.sync 0xffffffff;
]]
local COPY_BACK = [[
 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [%r6], 128;
]]
local ACQUIRE = " fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n"
local STORE_BACK = [[
 ld.shared.u32 %r3, [%r4];
 mad.wide.u32 %rd3, %r0, 4, %rd2;
 st.global.u32 [%rd3], %r3;
]]
local RELEASE = " fence.proxy.tensormap::generic.release.gpu;\n"
local CHANGED = load("%rd2", 0, 256)

-- A warpgroup multiplies what cp.async has brought.
local function multiply(fence)
  return [[
 mov.u32 %r3, 0;
next:
 mad.lo.u32 %r4, %r0, 16, %r1;
 mad.lo.u32 %r4, %r3, 2048, %r4;
 cp.async.cg.shared.global [%r4], [%rd1], 16;
 add.u32 %r3, %r3, 1;
 setp.lt.u32 %p1, %r3, 4;
 @%p1 bra next;
 cp.async.commit_group;
 cp.async.wait_group 0;
]] .. fence .. [[
 bar.sync 0;
 shr.u32 %r5, %r1, 4;
 cvt.u64.u32 %rd3, %r5;
 mov.b64 %rd4, 0x4000004000000000;
 or.b64 %rd3, %rd3, %rd4;
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r10, %r11, %r12, %r13}, %rd3, %rd3, 0, 1, 1, 0, 0;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0;]]
end

-- CTAs that have not started are taken over until none is left.
local TAKE_OVER = [[
 mov.u32 %r9, 0;
 @!%p0 bra end;
work:
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r9;
 @!%p2 bra wait;
 xor.b32 %r9, %r9, 1;
 ld.shared.b128 %q0, [%r1];
 fence.proxy.async.shared::cta;
 clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
 @%p3 bra work;
end:]]

local WAIT = [[
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r9;
 @!%p2 bra wait;
]]

local function without(text, part)
  local first, last = text:find(part, 1, true)
  return text:sub(1, first - 1) .. text:sub(last + 1)
end

local rows = {
  { "a box that overhangs, with all its bytes expected", {}, load("%rd0", 32, 512) },
  { "A19 only the bytes inside are expected", { "mbarrier-tx", "deadlock" }, load("%rd0", 32, 28 * 8 * 2) },
  { "tiles of the whole tensor, and some behind it", {}, TILES .. load("%rd0", "%r7", 512, "%r6"), { grid = 34 } },
  { "D84 coordinates in the wrong order", { "boxes-outside" }, TILES .. load("%rd0", "%r6", 512, "%r7"),
    { grid = 34 } },
  { "tiles of a tensor that is almost square", {}, TILES .. load("%rd0", "%r7", 512, "%r6"),
    { grid = 18, dims = { 64, 72 } } },
  { "D84 coordinates in the wrong order, which go beyond one end and stop before the other", { "boxes-outside" },
    TILES .. load("%rd0", "%r6", 512, "%r7"), { grid = 18, dims = { 64, 72 } } },
  { "boxes that overlap", {}, TILES .. load("%rd0", "%r7", 512, "%r5"), { grid = 16, dims = { 64, 32 } } },
  { "a tensor map that is changed, fenced and used", {}, MAP_TO_SHARED .. COPY_BACK .. ACQUIRE .. CHANGED },
  { "B39 a changed map without the acquire", { "tensormap-fence" }, MAP_TO_SHARED .. COPY_BACK .. CHANGED },
  { "a map that is stored word by word, and fenced", {},
    MAP_TO_SHARED .. STORE_BACK .. RELEASE .. " bar.warp.sync 0xffffffff;\n" .. ACQUIRE .. CHANGED },
  { "B39 the same without the release", { "tensormap-fence" },
    MAP_TO_SHARED .. STORE_BACK .. " bar.warp.sync 0xffffffff;\n" .. ACQUIRE .. CHANGED },
  { "cp.async, fenced, before a wgmma", {}, multiply " fence.proxy.async;\n", { block = 128 } },
  { "B32 cp.async without a fence before a wgmma", { "proxy-fence-cp-async" }, multiply "", { block = 128 } },
  { "launch control", {}, TAKE_OVER, { grid = 200, target = "sm_100a" } },
  { "D94 the answer is read before it is there", { "copy-not-awaited", "launch-control" },
    without(TAKE_OVER, WAIT), { grid = 200, target = "sm_100a" } },
}

describe("copies", function()
  for _, row in ipairs(rows) do
    local title, rules, body, options = table.unpack(row, 1, 4)
    it(title, function()
      for _, threads in ipairs { 1, 2 } do
        assert.same(rules, rules_of((run(body, options or {}, threads))))
      end
    end)
  end
end)

-- Undefined values on their way: through local memory, calls, lanes of a warp, tensor cores and tensor memory, to
-- where they matter.  Rows beside each other differ in whether the value that is stored is one of them.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local rules_of = require "hazard_mutation".rules_of

local FUNCTIONS = [[
.func (.param .b32 back) same(.param .b32 given)
{
 .reg .b32 %r0;
 ld.param.b32 %r0, [given];
 st.param.b32 [back], %r0;
 ret;
}
.func (.param .b32 back) first(.param .align 8 .b8 given[8])
{
 .reg .b32 %r<2>;
 ld.param.v2.b32 {%r0, %r1}, [given];
 st.param.b32 [back], %r0;
 ret;
}
.func (.param .b32 back) nothing()
{
 ret;
}
.func (.param .b32 back) through_memory(.param .b32 given, .param .b32 whether)
{
 .local .align 4 .b8 own[16];
 .reg .b32 %r<3>; .reg .pred %p0;
 ld.param.b32 %r0, [given];
 ld.param.b32 %r1, [whether];
 setp.ne.u32 %p0, %r1, 0;
 @%p0 st.local.b32 [own+4], %r0;
 ld.local.b32 %r2, [own+4];
 st.param.b32 [back], %r2;
 ret;
}
.func store(.param .b64 to, .param .b32 given)
{
 .reg .b32 %r0; .reg .b64 %rd0;
 ld.param.b64 %rd0, [to];
 ld.param.b32 %r0, [given];
 st.global.b32 [%rd0], %r0;
 ret;
}
]]

-- %r0 thread, %r1 and %r3 (its 16 bytes) in SMEM, %rd4 its 16 bytes of out; %p0: thread 0; %r7 undefined in all but
-- thread 0, %r6 in thread 0 alone.
local function entry(body, target)
  return ([[
.version 8.8
.target TARGET
.address_size 64
FUNCTIONS
.visible .entry k(.param .u64 in, .param .u64 out)
{
 .local .align 16 .b8 depot[64];
 .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<12>; .reg .f32 %f<8>;
 .shared .align 1024 .b8 tile[16384];
 .shared .align 8 .b64 bar[2];
 .shared .align 4 .b32 base;
 ld.param.u64 %rd0, [in];
 ld.param.u64 %rd1, [out];
 mov.u32 %r0, %tid.x;
 mov.u32 %r1, tile;
 shl.b32 %r2, %r0, 4;
 add.u32 %r3, %r1, %r2;
 cvt.u64.u32 %rd2, %r2;
 add.u64 %rd3, %rd0, %rd2;
 add.u64 %rd4, %rd1, %rd2;
 setp.eq.u32 %p0, %r0, 0;
 @%p0 mov.b32 %r7, 5;
 @!%p0 mov.b32 %r6, 5;
BODY
 ret;
}
]]):gsub("%u%u%u%u%u*", { TARGET = target, FUNCTIONS = FUNCTIONS, BODY = body })
end

local function run(body, target, options)
  tc.device("emulator:" .. target):use()
  local report = tc.ptx(entry(body, target)):kernel "k":emulate {
    grid = { 1 }, block = { options.block or 32 }, args = { tc.zeros({ 1024 }, tc.i32), tc.zeros({ 1024 }, tc.i32) },
    mode = options.mode or "check",
  }
  return report
end

local function call(results, name, arguments)
  return (" call (%s), %s, (%s);\n"):format(results, name, arguments)
end

local function with_call(name, setup, arguments)
  return "{\n .param .b32 a; .param .b32 w; .param .b32 r; .param .align 8 .b8 pair[8];\n" .. setup
    .. call("r", name, arguments) .. " ld.param.b32 %r8, [r];\n}\n st.global.b32 [%rd4], %r8;"
end

local MMA = [[
 mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0; mov.b32 %r14, 0; mov.b32 %r15, 0;
 mov.f32 %f0, 0f00000000;
 setp.lt.u32 %p1, %r0, 4;
 setp.lt.u32 %p2, %r0, 12;
 setp.lt.u32 %p3, %r0, 8;
 and.pred %p3, %p3, %p1;
 ]]
local M16N8K16 = " mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, "
-- Row 0 of A undefined, or column 0 of B, or C of lane 0.
local A_ROW = " @!%p1 mov.b32 %r20, 0;\n" .. M16N8K16
  .. "{%r20, %r11, %r12, %r13}, {%r14, %r15}, {%f0, %f0, %f0, %f0};\n"
local B_COLUMN = " @!%p1 mov.b32 %r20, 0;\n" .. M16N8K16
  .. "{%r10, %r11, %r12, %r13}, {%r20, %r15}, {%f0, %f0, %f0, %f0};\n"
local C_LANE = " @!%p0 mov.f32 %f1, 0f00000000;\n" .. M16N8K16
  .. "{%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f1, %f0, %f0, %f0};\n"

local hopper = {
  { "a shuffle that all take from the undefined lane", { "undefined-value" }, [[
 shfl.sync.idx.b32 %r8, %r6, 0, 31, 0xffffffff;
 st.global.b32 [%rd4], %r8;]] },
  { "a shuffle that nobody takes the undefined lane in", {}, [[
 shfl.sync.down.b32 %r8, %r6, 1, 31, 0xffffffff;
 st.global.b32 [%rd4], %r8;]] },
  { "a butterfly, of which the lane beside it gets it", { "undefined-value" }, [[
 shfl.sync.bfly.b32 %r6, %r6, 1, 31, 0xffffffff;
 setp.eq.u32 %p1, %r0, 1;
 @%p1 st.global.b32 [%rd4], %r6;]] },
  { "the same, stored by the others", {}, [[
 shfl.sync.bfly.b32 %r6, %r6, 1, 31, 0xffffffff;
 setp.ne.u32 %p1, %r0, 1;
 @%p1 st.global.b32 [%rd4], %r6;]] },
  { "an undefined distance", { "undefined-value" }, [[
 shfl.sync.idx.b32 %r8, %r0, %r7, 31, 0xffffffff;
 st.global.b32 [%rd4], %r8;]] },
  { "lanes that come apart and meet in a shuffle", { "undefined-value" }, [[
 setp.lt.u32 %p1, %r0, 16;
 @%p1 bra low;
 shfl.sync.idx.b32 %r8, %r6, 0, 31, 0xffffffff;
 bra both;
low:
 shfl.sync.idx.b32 %r8, %r6, 0, 31, 0xffffffff;
both:
 st.global.b32 [%rd4], %r8;]] },
  { "a sum over the warp", { "undefined-value" }, [[
 redux.sync.add.s32 %r8, %r6, 0xffffffff;
 st.global.b32 [%rd4], %r8;]] },
  { "a vote", { "undefined-value" }, [[
 setp.gt.u32 %p1, %r6, 3;
 vote.sync.any.pred %p2, %p1, 0xffffffff;
 @%p2 bra end;
 st.global.b32 [%rd4], %r0;
end:]] },
  { "a ballot that is masked", {}, [[
 setp.gt.u32 %p1, %r6, 3;
 vote.sync.ballot.b32 %r8, %p1, 0xffffffff;
 and.b32 %r8, %r8, 0xfffffffe;
 st.global.b32 [%rd4], %r8;]] },
  { "a move under an undefined predicate", { "undefined-value" }, [[
 setp.eq.u32 %p1, %r6, 7;
 mov.b32 %r8, 1;
 @%p1 mov.b32 %r8, 2;
 st.global.b32 [%rd4], %r8;]] },
  { "a barrier that votes", { "undefined-value" }, [[
 setp.eq.u32 %p1, %r6, 7;
 barrier.cta.red.and.pred.aligned %p2, 0, %p1;]] },
  { "an undefined index of a branch", { "undefined-value" }, [[
 and.b32 %r8, %r0, 0;
 @%p0 mov.b32 %r9, 0;
 add.u32 %r8, %r8, %r9;
 mul.lo.u32 %r8, %r8, 0;
ts: .branchtargets one;
 brx.idx %r8, ts;
one:]] },
  { "local memory that nothing has written", { "undefined-value" }, [[
 ld.local.b32 %r8, [depot+8];
 st.global.b32 [%rd4], %r8;]] },
  { "the part of it that is written", {}, [[
 st.local.v2.b32 [depot], {%r0, %r1};
 ld.local.v4.b32 {%r8, %r9, %r10, %r11}, [depot];
 st.global.v2.b32 [%rd4], {%r8, %r9};]] },
  { "the other part", { "undefined-value" }, [[
 st.local.v2.b32 [depot], {%r0, %r1};
 ld.local.v4.b32 {%r8, %r9, %r10, %r11}, [depot];
 st.global.v2.b32 [%rd4], {%r10, %r11};]] },
  { "a register that is spilt undefined", { "undefined-value" }, [[
 st.local.b32 [depot+16], %r7;
 ld.local.b32 %r8, [depot+16];
 st.global.b32 [%rd4], %r8;]] },
  { "the same by the lane that has a value", {}, [[
 st.local.b32 [depot+16], %r7;
 ld.local.b32 %r8, [depot+16];
 @%p0 st.global.b32 [%rd4], %r8;]] },
  { "the same overwritten", {}, [[
 st.local.b32 [depot+16], %r7;
 st.local.b32 [depot+16], %r0;
 ld.local.b32 %r8, [depot+16];
 st.global.b32 [%rd4], %r8;]] },
  { "the same by a generic address", { "undefined-value" }, [[
 mov.u64 %rd5, depot;
 cvta.local.u64 %rd5, %rd5;
 st.b32 [%rd5+16], %r7;
 ld.b32 %r8, [%rd5+16];
 st.global.b32 [%rd4], %r8;]] },
  { "by a generic address, defined", {}, [[
 mov.u64 %rd5, depot;
 cvta.local.u64 %rd5, %rd5;
 st.b32 [%rd5+16], %r0;
 ld.b32 %r8, [%rd5+16];
 st.global.b32 [%rd4], %r8;]] },
  { "bytes of it that make a word", {}, [[
 st.local.b8 [depot], %r0;
 st.local.b8 [depot+1], %r0;
 ld.local.b16 %r8, [depot];
 st.global.b32 [%rd4], %r8;]] },
  { "a parameter that is given back", { "undefined-value" },
    with_call("same", " st.param.b32 [a], %r7;\n", "a") },
  { "a defined one", {}, with_call("same", " st.param.b32 [a], %r0;\n", "a") },
  { "a parameter that is never set", { "undefined-value" }, with_call("same", "", "a") },
  { "the defined half of a pair", {}, with_call("first", " st.param.v2.b32 [pair], {%r0, %r7};\n", "pair") },
  { "the other half", { "undefined-value" },
    with_call("first", " st.param.v2.b32 [pair], {%r7, %r0};\n", "pair") },
  { "a result that is never set", { "undefined-value" }, with_call("nothing", "", "") },
  { "local memory of a function", {},
    with_call("through_memory", " st.param.b32 [a], %r0;\n st.param.b32 [w], 1;\n", "a, w") },
  { "local memory of a function that nothing has written", { "undefined-value" },
    with_call("through_memory", " st.param.b32 [a], %r0;\n st.param.b32 [w], 0;\n", "a, w") },
  { "what another call has left in its local memory", { "undefined-value" },
    (with_call("through_memory", " st.param.b32 [a], %r0;\n st.param.b32 [w], 1;\n", "a, w"):gsub(" st.global.*", ""))
      .. with_call("through_memory", " st.param.b32 [a], %r0;\n st.param.b32 [w], 0;\n", "a, w") },
  { "a function that stores what it is given", { "undefined-value" }, [[
{
 .param .b64 t; .param .b32 a;
 st.param.b64 [t], %rd4;
 st.param.b32 [a], %r7;
 call store, (t, a);
}]] },
  { "a row of A", { "undefined-value" }, MMA .. A_ROW .. " @%p1 st.global.f32 [%rd4], %f5;" },
  { "a row of A, the other rows stored", {}, MMA .. A_ROW
    .. " @!%p1 st.global.f32 [%rd4], %f4;\n st.global.f32 [%rd4+4], %f6;\n st.global.f32 [%rd4+8], %f7;" },
  { "a column of B", { "undefined-value" }, MMA .. B_COLUMN .. " @%p0 st.global.f32 [%rd4], %f6;" },
  { "a column of B, the other columns stored", {}, MMA .. B_COLUMN .. [[
 and.b32 %r8, %r0, 3;
 setp.ne.u32 %p4, %r8, 0;
 @%p4 st.global.f32 [%rd4], %f4;
 st.global.f32 [%rd4+4], %f5;]] },
  { "an element of C", { "undefined-value" }, MMA .. C_LANE .. " @%p0 st.global.f32 [%rd4], %f4;" },
  { "an element of C, the others stored", {}, MMA .. C_LANE
    .. " @!%p0 st.global.f32 [%rd4], %f4;\n st.global.f32 [%rd4+4], %f5;" },
  { "a matrix of shared memory that nothing has written", { "undefined-shared" },
    " ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r3];" },
  { "a matrix stored undefined", { "undefined-value" },
    " stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r7};" },
  { "a bulk store of what nothing has written", { "undefined-shared" }, [[
 @!%p0 bra end;
 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
end:]] },
  { "an arrival with an undefined count of bytes", { "undefined-value" }, [[
 @%p0 mbarrier.init.shared::cta.b64 [bar], 32;
 bar.sync 0;
 mul.lo.u32 %r8, %r7, 0;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %r8;]] },
}

-- A warpgroup: 64 x 8, K 16; all threads store.
local function wgmma(setup, a, scale)
  return [[
 shr.u32 %r8, %r1, 4;
 cvt.u64.u32 %rd5, %r8;
 mov.b64 %rd6, 0x4000004000000000;
 or.b64 %rd5, %rd5, %rd6;
 mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0;
 st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};
 st.shared.v4.b32 [%r3+2048], {%r0, %r0, %r0, %r0};
 st.shared.v4.b32 [%r3+4096], {%r0, %r0, %r0, %r0};
 st.shared.v4.b32 [%r3+6144], {%r0, %r0, %r0, %r0};
 fence.proxy.async;
 bar.sync 0;
]] .. setup .. [[
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, ]] .. a .. ", %rd5, " .. scale .. [[;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0;
]]
end
local REGISTERS, SMEM = "{%r13, %r10, %r11, %r12}", "%rd5"
local FIRST_ROW = " setp.lt.u32 %p1, %r0, 4;\n @!%p1 mov.b32 %r13, 0;\n"
local STORE_UPPER = " @%p1 st.global.v2.f32 [%rd4], {%f0, %f1};"
local STORE_LOWER = " st.global.v2.f32 [%rd4], {%f2, %f3};\n @!%p1 st.global.v2.f32 [%rd4], {%f0, %f1};"
local ZERO = " @%p0 mov.f32 %f0, 0f00000000;\n mov.f32 %f1, 0f00000000;\n"
  .. " mov.f32 %f2, 0f00000000;\n mov.f32 %f3, 0f00000000;\n"

local groups = {
  { "a row of A in registers", { "undefined-value" }, wgmma(FIRST_ROW, REGISTERS, "0, 1, 1, 0") .. STORE_UPPER },
  { "a row of A, the other rows stored", {}, wgmma(FIRST_ROW, REGISTERS, "0, 1, 1, 0") .. STORE_LOWER },
  { "accumulators that some threads have set, added to", { "undefined-value" },
    wgmma(ZERO, SMEM, "1, 1, 1, 0, 0") .. " st.global.f32 [%rd4], %f0;" },
  { "the others of them", {}, wgmma(ZERO, SMEM, "1, 1, 1, 0, 0") .. " st.global.v2.f32 [%rd4], {%f1, %f2};" },
  { "accumulators that some threads have set, not added to", {},
    wgmma(ZERO, SMEM, "0, 1, 1, 0, 0") .. " st.global.f32 [%rd4], %f0;" },
  { "accumulators that nothing has written", { "undefined-accumulator" },
    wgmma("", SMEM, "1, 1, 1, 0, 0") .. " st.global.f32 [%rd4], %f0;" },
  { "operands in shared memory that nothing has written", { "undefined-shared" },
    (wgmma("", SMEM, "0, 1, 1, 0, 0"):gsub(" st.shared[^\n]*", "")) .. " st.global.f32 [%rd4], %f0;" },
}

-- Tensor memory of 32 columns at %r9, of which the first 16 are written.
local function tensor(body)
  return [[
 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base], 32;
 ld.shared.b32 %r9, [base];
 tcgen05.st.sync.aligned.32x32b.x16.b32 [%r9], {%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0,
   %r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0};
 tcgen05.wait::st.sync.aligned;
]] .. body .. "\n tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;"
end

local function load(shape, column, registers, extra)
  local list = {}
  for i = 0, registers - 1 do list[#list + 1] = "%r" .. 16 + i end
  return (" tcgen05.ld.sync.aligned.%s.b32 {%s}, [%%r9+%d]%s;\n tcgen05.wait::ld.sync.aligned;\n"):format(
    shape, table.concat(list, ", "), column, extra or "")
end

local function stored(register) return (" st.global.b32 [%%rd4], %%r%d;"):format(register) end

-- One thread lets the tensor core read the tile in SMEM, which `setup` has written or not.
local function read_tile(setup, instruction)
  return setup .. [[
 @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
 shr.u32 %r10, %r1, 4;
 cvt.u64.u32 %rd5, %r10;
 mov.b64 %rd6, 0x4000400000010;
 or.b64 %rd5, %rd5, %rd6;
 mov.b64 %rd6, 0x400000000000;
 or.b64 %rd5, %rd5, %rd6;
 fence.proxy.async;
 bar.sync 0;
 tcgen05.fence::after_thread_sync;
 @%p0 ]] .. instruction .. [[;
 @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
 @!%p1 bra wait;
 tcgen05.fence::after_thread_sync;]]
end
local FILL = [[
 mov.u32 %r10, 0;
 shl.b32 %r11, %r0, 4;
 add.u32 %r11, %r11, %r1;
fill:
 st.shared.v4.b32 [%r11], {%r0, %r0, %r0, %r0};
 add.u32 %r11, %r11, 512;
 add.u32 %r10, %r10, 1;
 setp.lt.u32 %p1, %r10, 32;
 @%p1 bra fill;
]]
local COPY = "tcgen05.cp.cta_group::1.128x256b [%r9], %rd5"
local MULTIPLY = "tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd5, %rd5, 0x8040010, 0"

local LOAD, VALUE = "undefined-tmem-load", "undefined-value"
local blackwell = {
  { "columns that are written", {}, load("32x32b.x4", 12, 4) .. stored(19) },
  { "a column behind them", { VALUE }, load("32x32b.x4", 14, 4) .. stored(18) },
  { "a column behind them, that is not stored", {}, load("32x32b.x4", 14, 4) .. stored(17) },
  { "the same packed", { VALUE }, load("32x32b.x2.pack::16b", 14, 2) .. stored(17) },
  { "the same packed, of columns that are written", {}, load("32x32b.x2.pack::16b", 14, 2) .. stored(16) },
  { "16x64b", { VALUE }, load("16x64b.x2", 14, 2) .. stored(17) },
  { "16x64b, what is written", {}, load("16x64b.x2", 14, 2) .. stored(16) },
  { "16x128b", { VALUE }, load("16x128b.x2", 12, 4) .. stored(18) },
  { "16x128b, what is written", {}, load("16x128b.x2", 12, 4) .. stored(17) },
  { "16x256b", { VALUE }, load("16x256b.x2", 8, 8) .. stored(20) },
  { "16x256b, what is written", {}, load("16x256b.x2", 8, 8) .. stored(19) },
  { "16x32bx2", { VALUE }, load("16x32bx2.x2", 14, 2, ", 2") .. stored(16) },
  { "16x32bx2, by the lanes of the window that is written", {}, load("16x32bx2.x2", 14, 2, ", 2")
    .. " setp.lt.u32 %p1, %r0, 16;\n @%p1" .. stored(16) },
  { "a tile that is copied to tensor memory", {}, read_tile(FILL, COPY) },
  { "a tile that nothing has written, copied to tensor memory", { "undefined-shared" }, read_tile("", COPY) },
  { "tiles that are multiplied", {}, read_tile(FILL, MULTIPLY) },
  { "tiles that nothing has written, multiplied", { "undefined-shared" }, read_tile("", MULTIPLY) },
  { "a product of tiles, added to columns that nothing has written", { "undefined-tmem" },
    read_tile(FILL, (MULTIPLY:gsub("%%r9%]", "%%r9+16]"):gsub("0$", "1"))) },
  { "columns that are stored undefined", { VALUE }, " tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r7};\n"
    .. " tcgen05.wait::st.sync.aligned;" },
}

local function without_lint(rules)
  local list = {}
  for _, rule in ipairs(rules) do if rule ~= LOAD then list[#list + 1] = rule end end
  return list
end

local function rows(list, target, options, around)
  for _, row in ipairs(list) do
    local title, rules, body = table.unpack(row)
    for _, mode in ipairs { "check", "random" } do
      it(("%s (%s)"):format(title, mode), function()
        local report = run(around and around(body) or body, target, { mode = mode, block = options.block })
        assert.same(rules, without_lint(rules_of(report)))
      end)
    end
  end
end

describe("undefined values", function()
  describe("in a warp:", function() rows(hopper, "sm_90a", {}) end)
  describe("in a warpgroup:", function() rows(groups, "sm_90a", { block = 128 }) end)
  describe("in tensor memory:", function() rows(blackwell, "sm_100a", {}, tensor) end)

  it("are not followed in fast mode", function()
    assert.same({}, rules_of((run(" st.global.b32 [%rd4], %r7;", "sm_90a", { mode = "fast" }))))
  end)

  it("are reported with what loaded them", function()
    local message = run(" ld.local.b32 %r8, [depot+8];\n st.global.b32 [%rd4], %r8;", "sm_90a", {}).hazards[1].message
    assert.matches("what is stored comes from local memory that nothing has written, loaded at PTX line %d+", message)
  end)
end)

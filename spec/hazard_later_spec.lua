-- Reads of shared memory that need no note until somebody writes: what races is what races without that.
local tc = require "tcmma"

-- The hazards, each with the text of its two lines.
local function run(body, threads, params, args)
  tc.device("emulator:sm_90a"):use()
  local text = ([[
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(%s)
{
 .reg .pred %%p<4>; .reg .b16 %%h<4>; .reg .b32 %%r<12>; .reg .b64 %%rd<4>;
%s
 ret;
}
]]):format(params or "", body)
  local report = tc.ptx(text):kernel "k":emulate {
    grid = { 1 }, block = { threads }, args = args or {}, mode = "check",
  }
  local found, lines = {}, {}
  for line in text:gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  for i, hazard in ipairs(report.hazards) do
    local now, earlier = hazard.message:match "PTX line (%d+).-earlier.-PTX line (%d+)"
    found[i] = { rule = hazard.rule, now = lines[tonumber(now)], earlier = lines[tonumber(earlier)] }
  end
  return found
end

-- %r0 thread, %r1 tile, %r2 lane, %r3 warp, %r4 the thread's word, which it has written; all have met.
local start = [[
 .shared .align 128 .b8 tile[1024];
 mov.u32 %r0, %tid.x; mov.u32 %r1, tile; and.b32 %r2, %r0, 31; shr.u32 %r3, %r0, 5;
 shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r1; st.shared.u32 [%r4], 0;
 bar.sync 0;
]]

local function races(found, rule, now, earlier)
  assert.equal(1, #found)
  assert.equal(rule, found[1].rule)
  assert.matches(now, found[1].now, 1, true)
  assert.matches(earlier, found[1].earlier, 1, true)
end

describe("reads that wait to be noted", function()
  for name, type in pairs { halfwords = "u16", bytes = "u8" } do
    it("of " .. name .. " race with stores of them", function()
      local shift = type == "u16" and 1 or 0
      races(run(start .. ([[
 shl.b32 %%r5, %%r2, %d; add.u32 %%r5, %%r5, %%r1; setp.eq.u32 %%p0, %%r3, 1;
 mov.u32 %%r8, 0; cvt.u16.u32 %%h1, %%r0; add.u16 %%h1, %%h1, 7;
 @%%p0 ld.shared.%s %%h0, [%%r5];
 @!%%p0 st.shared.%s [%%r5], %%h1;]]):format(shift, type, type), 64), "shared-race", "st.shared", "ld.shared")
    end)
  end

  -- Warp 0 reads, says so at barrier 1, and reads once more: that is what races with warp 1's store.
  local function twice(second)
    return start .. ([[
 setp.eq.u32 %%p0, %%r3, 0; setp.eq.u32 %%p1, %%r0, 32;
 @!%%p0 bra OTHER;
 xor.b32 %%r6, %%r4, 4;
 ld.shared.u32 %%r5, [%%r6];
 bar.arrive 1, 64;
 %s
 bra END;
OTHER:
 bar.sync 1, 64;
 @%%p1 st.shared.u32 [tile], 7;
END:]]):format(second)
  end
  for name, second in pairs {
    ["in a row"] = "ld.shared.u32 %r5, [%r4];",
    ["by volatile loads"] = "ld.volatile.shared.u32 %r5, [%r4];",
    ["by ldmatrix"] = "and.b32 %r6, %r2, 7; shl.b32 %r6, %r6, 4; add.u32 %r6, %r6, %r1;\n" ..
      "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r6];",
  } do
    it("are not forgotten for earlier ones: " .. name, function()
      local found = run(twice(second), 64)
      races(found, "shared-race", "st.shared.u32 [tile], 7", second:match "[^\n]*$")
      assert.same({}, run(twice "", 64))
    end)
    it("are not forgotten behind memory that nothing has written: " .. name, function()
      races(run(".shared .align 128 .b8 pad[1024];\nmov.u32 %r9, pad;\n" .. twice(second), 64), "shared-race",
        "st.shared.u32 [tile], 7", second:match "[^\n]*$")
    end)
  end

  it("by several lanes of a warp are told apart where one of them is volatile", function()
    races(run(start .. [[
 setp.eq.u32 %p0, %r0, 3; setp.eq.u32 %p1, %r0, 5;
 @%p0 ld.shared.u32 %r5, [tile];
 @%p1 ld.volatile.shared.u32 %r5, [tile];
 @%p0 st.shared.u32 [tile], 7;]], 32), "warp-race", "st.shared.u32 [tile], 7", "ld.volatile")
  end)

  it("are as fast where they are many", function()
    local function loop(rounds)
      return start .. ([[
 mov.u32 %%r5, 0;
LOOP:
 and.b32 %%r6, %%r5, 31; xor.b32 %%r6, %%r6, %%r0; shl.b32 %%r6, %%r6, 2; add.u32 %%r6, %%r6, %%r1;
 ld.shared.u32 %%r7, [%%r6];
 add.u32 %%r5, %%r5, 1; setp.lt.u32 %%p0, %%r5, %d;
 @%%p0 bra LOOP;]]):format(rounds)
    end
    local function seconds(rounds)
      local best = math.huge
      for _ = 1, 3 do
        local from = os.clock()
        assert.same({}, run(loop(rounds), 256))
        best = math.min(best, os.clock() - from)
      end
      return best
    end
    -- Per round of the loop; the few have room in the list.
    assert(seconds(4000) / 4000 < 20 * seconds(100) / 100)
  end)
end)

describe("lanes of one instruction", function()
  it("are not ordered by what others of them acquire", function()
    races(run([[
 .shared .align 128 .b8 tile[128];
 mov.u32 %r0, %tid.x; mov.u32 %r1, tile; setp.lt.u32 %p0, %r0, 32;
 shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r1;
 @%p0 st.shared.u32 [%r4], 0;
 bar.sync 0;
 setp.eq.u32 %p1, %r0, 32;
 @%p1 st.shared.u32 [tile], 7;
 @%p1 st.release.cta.shared.u32 [tile+4], 1;
 @%p0 ld.acquire.cta.shared.u32 %r5, [%r4];]], 64), "shared-race", "ld.acquire", "st.shared.u32 [tile], 7")
  end)

  it("that write one word are all looked at, wherever the others write", function()
    races(run([[
 .shared .align 128 .b8 tile[256];
 mov.u32 %r0, %tid.x; mov.u32 %r1, tile;
 xor.b32 %r4, %r0, 5; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r1;
 st.shared.u32 [%r4], 0; st.shared.u32 [%r4+128], 0;
 bar.sync 0;
 setp.eq.u32 %p0, %r0, 31;
 @%p0 st.shared.u32 [tile], 1;
 setp.ge.u32 %p1, %r0, 29; setp.ne.u32 %p2, %r0, 30; and.pred %p1, %p1, %p2;
 setp.eq.u32 %p2, %r0, 0; or.pred %p1, %p1, %p2;
 selp.b32 %r5, 128, 0, %p2; add.u32 %r5, %r5, %r1; add.u32 %r6, %r0, 100;
 @%p1 st.shared.u32 [%r5], %r6;]], 32), "warp-race", "@%p1 st.shared.u32 [%r5], %r6", "st.shared.u32 [tile], 1")
  end)

  it("that come one by one behind lanes of one block are told apart", function()
    -- Lanes 0, 1 and 3 store to the second block, lane 2 to what lane 0 has written in the first one.
    local body = [[
 .shared .align 128 .b8 tile[256];
 mov.u32 %r0, %tid.x; mov.u32 %r1, tile;
 xor.b32 %r4, %r0, 5; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r1;
 st.shared.u32 [%r4], 0; st.shared.u32 [%r4+128], 0;
 bar.sync 0;
 setp.eq.u32 %p0, %r0, WRITER;
 @%p0 st.shared.u32 [tile+8], 1;
 setp.lt.u32 %p1, %r0, 4; setp.eq.u32 %p2, %r0, 2;
 xor.b32 %r5, %r0, 1; shl.b32 %r5, %r5, 3; add.u32 %r5, %r5, 128; selp.b32 %r5, 8, %r5, %p2;
 add.u32 %r5, %r5, %r1; add.u32 %r6, %r0, 100;
 @%p1 st.shared.u32 [%r5], %r6;]]
    races(run((body:gsub("WRITER", "0")), 32), "warp-race", "@%p1 st.shared.u32 [%r5], %r6",
      "st.shared.u32 [tile+8], 1")
    assert.same({}, run((body:gsub("WRITER", "2")), 32))
  end)

  it("that read parameters read no shared memory", function()
    assert.same({}, run([[
 .shared .align 128 .b8 tile[4096];
 mov.u32 %r0, %tid.x; mov.u32 %r1, tile; and.b32 %r2, %r0, 31; shr.u32 %r3, %r0, 5;
 setp.eq.u32 %p0, %r3, 0; setp.eq.u32 %p1, %r3, 1;
 mul.lo.u32 %r4, %r2, 128; add.u32 %r4, %r4, %r1;
 @%p0 st.shared.u32 [%r4], 0; @%p0 st.shared.u32 [%r4+4], 0; @%p0 st.shared.u32 [%r4+8], 0;
 bar.sync 0;
 mov.b64 %rd1, p; mul.wide.u32 %rd2, %r2, 128; add.u64 %rd1, %rd1, %rd2;
 @%p1 ld.param.u32 %r5, [%rd1];
 @%p0 st.shared.u32 [%r4], 1;]], 64, ".param .align 128 .b8 p[4096]", { ("\0"):rep(4096) }))
  end)
end)

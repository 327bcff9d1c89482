-- Accesses of parts of a block of 128 bytes by lanes in order, in no order, of several warps: what races and what does
-- not follows from who touches which bytes.
local tc = require "tcmma"

local function run(body, warps, space)
  tc.device("emulator:sm_90a"):use()
  local out = tc.zeros({ 1024 }, tc.i32)
  local text = ([[
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .pred %%p<4>; .reg .b16 %%h; .reg .b32 %%r<12>; .reg .b64 %%rd<4>; .reg .%s %%at;
 .shared .align 128 .b8 tile[1024];
 ld.param.u64 %%rd0, [out];
 mov.u32 %%r0, %%tid.x;
 mov.u32 %%r1, tile;
 and.b32 %%r2, %%r0, 31;
 shr.u32 %%r3, %%r0, 5;
 mov.u16 %%h, 1;
%s
 ret;
}
]]):format(space == "global" and "b64" or "b32", body)
  local report = tc.ptx(text):kernel "k":emulate {
    grid = { 1 }, block = { 32 * warps }, args = { out }, mode = "check",
  }
  local rules = {}
  for i, hazard in ipairs(report.hazards) do rules[i] = hazard.rule end
  return rules, report.hazards
end

-- The lines of an access: `offset` computes %r4, the offset in bytes.
local function access(space, offset, instruction)
  local at = space == "global" and "cvt.u64.u32 %rd1, %r4; add.u64 %at, %rd0, %rd1;" or "add.u32 %at, %r1, %r4;"
  return ("%s %s %s\n"):format(offset, at, instruction:gsub("SPACE", space))
end

local word = "shl.b32 %r4, %r0, 2;"
local swapped = "xor.b32 %r4, %r0, 1; shl.b32 %r4, %r4, 2;"
local of_lane = "shl.b32 %r4, %r2, 2;" -- the same for every warp
local store, load = "st.SPACE.b32 [%at], %r0;", "ld.SPACE.b32 %r5, [%at];"

describe("bytes of a block", function()
  for _, space in ipairs { "shared", "global" } do
    local race = space .. "-race"
    local function lines(...)
      local list = {}
      for i, item in ipairs { ... } do
        list[i] = type(item) == "table" and access(space, item[1], item[2]) or item .. "\n"
      end
      return table.concat(list)
    end

    describe("of " .. space .. " memory", function()
      it("written by lanes in a row and read by the same lanes are in order", function()
        assert.same({}, (run(lines({ word, store }, { word, load }), 2, space)))
      end)

      it("read by other lanes of the warp race until the warp meets", function()
        local rules, hazards = run(lines({ word, store }, { swapped, load }), 1, space)
        assert.same({ "warp-race" }, rules)
        assert.matches("lane 0, PTX line 15.-write by.-lane 1, PTX line 14", hazards[1].message:gsub("\n", " "))
        assert.same({}, (run(lines({ word, store }, "bar.warp.sync -1;", { swapped, load }), 1, space)))
      end)

      it("written by lanes in no order keep the lane of each word", function()
        assert.same({}, (run(lines({ swapped, store }, { swapped, load }), 1, space)))
        local rules, hazards = run(lines({ swapped, store }, { word, load }), 1, space)
        assert.same({ "warp-race" }, rules)
        assert.matches("lane 0, PTX line 15.-write by.-lane 1, PTX line 14", hazards[1].message:gsub("\n", " "))
      end)

      it("read by other lanes, and then by those that write them, race with the first ones", function()
        local rules, hazards = run(lines({ swapped, load }, { word, load }, { word, store }), 1, space)
        local undefined = space == "shared" and { "undefined-shared", "undefined-shared" } or {}
        assert.same({ "warp-race", table.unpack(undefined) }, { rules[#rules], table.unpack(rules, 1, #rules - 1) })
        assert.matches("lane 0, PTX line 16.-read by.-lane 1, PTX line 14", (hazards[#hazards].message:gsub("\n", " ")))
        local met = lines({ swapped, load }, { word, load }, "bar.warp.sync -1;", { word, store })
        assert.is_nil(table.concat((run(met, 1, space)), " "):match "race")
      end)

      it("keep the line of each word where two lines share them", function()
        local half = "and.b32 %r4, %r2, 15; shl.b32 %r4, %r4, 2; setp.lt.u32 %p0, %r2, 16;"
        local upper = "shl.b32 %r4, %r2, 2; setp.ge.u32 %p0, %r2, 16;"
        local _, hazards = run(lines({ half, "@%p0 " .. store }, { upper, "@%p0 " .. store },
          { "xor.b32 %r4, %r2, 31; shl.b32 %r4, %r4, 2; setp.lt.u32 %p0, %r2, 16;", "@%p0 " .. load },
          { "setp.ge.u32 %p0, %r2, 16;", "@%p0 " .. load }), 1, space)
        assert.equal(2, #hazards)
        assert.matches("lane 0, PTX line 16.-write by.-lane 31, PTX line 15", hazards[1].message:gsub("\n", " "))
        assert.matches("lane 16, PTX line 17.-write by.-lane 15, PTX line 14", hazards[2].message:gsub("\n", " "))
      end)

      it("of two warps race where they overlap, and nowhere else", function()
        assert.same({}, (run(lines({ word, store }, { word, load }), 4, space)))
        assert.same({ race }, (run(lines({ of_lane, store }, { of_lane, load }), 2, space)))
        -- Half a block each: the halves of warp 1 begin where those of warp 0 end.
        local mine = "shl.b32 %r4, %r3, 4; add.u32 %r4, %r4, %r2; shl.b32 %r4, %r4, 2; setp.lt.u32 %p0, %r2, 16;"
        assert.same({}, (run(lines({ mine, "@%p0 " .. store }, { mine, "@%p0 " .. load }), 2, space)))
      end)

      local unsorted = "xor.b32 %r4, %r2, 1; shl.b32 %r4, %r4, 2;"
      for name, from in pairs { ["in a row"] = of_lane, ["in no order"] = unsorted } do
        it("read " .. name .. " by many warps race with a later write of any of them", function()
          local first = { of_lane .. "setp.eq.u32 %p0, %r3, 0;", "@%p0 " .. store }
          -- The lane of the last warp that has read the word itself.
          local lane = name == "in a row" and 5 or 4
          local last = { ("mov.u32 %%r4, 20; setp.eq.u32 %%p0, %%r0, %d;"):format(352 + lane), "@%p0 " .. store }
          local rules, hazards = run(lines(first, "bar.sync 0;", { from, load }, last), 12, space)
          assert.same({ race }, rules)
          local message = hazards[1].message
          assert(message:match("warp 11 lane " .. lane .. ", PTX line 17"), message)
          assert(message:match("lane " .. lane .. ", PTX line 16"), message)
          assert.same({}, (run(lines(first, "bar.sync 0;", { from, load }, "bar.sync 0;", last), 12, space)))
        end)
      end

      it("of one word, touched by two warps byte by byte, do not race", function()
        local byte = "shl.b32 %r4, %r2, 1; add.u32 %r4, %r4, %r3;"
        assert.same({}, (run(lines({ byte, "st.SPACE.b8 [%at], %h;" }, { byte, "ld.SPACE.b8 %h, [%at];" }), 2, space)))
        assert.same({ race }, (run(lines("cvt.u16.u32 %h, %r3;", { "mov.u32 %r4, %r2;", "st.SPACE.b8 [%at], %h;" }), 2,
          space)))
      end)

      it("are whole again once they are all written", function()
        local bytes = "mov.u32 %r4, %r0;"
        local first = lines({ bytes, "st.SPACE.b8 [%at], %h;" }, "bar.sync 0;")
        local one, other = "setp.eq.u32 %p0, %r3, 1;", "setp.eq.u32 %p1, %r3, 0;"
        local whole = lines({ of_lane .. one, "@%p0 " .. store })
        assert.same({}, (run(first .. whole .. lines("bar.sync 0;", { of_lane, load }), 2, space)))
        assert.same({ race }, (run(first .. whole .. lines({ of_lane .. other, "@%p1 " .. load }), 2, space)))
      end)
    end)
  end

  -- Each thread has written its word, and all have met.
  describe("read between two barriers of all warps", function()
    local function lines(...)
      local list = { access("shared", word, store), "bar.sync 0;\n" }
      for _, item in ipairs { ... } do
        list[#list + 1] = type(item) == "table" and access("shared", item[1], item[2]) or item .. "\n"
      end
      return table.concat(list)
    end
    local others = "xor.b32 %r4, %r0, 32; shl.b32 %r4, %r4, 2;" -- of the neighbour warp
    local scattered = "xor.b32 %r4, %r0, 33; shl.b32 %r4, %r4, 2;"
    local thread_37 = "setp.eq.u32 %p0, %r0, 37;" .. word
    -- Warp 1 goes on when warp 0 has come here; that brings them into no order.
    local after_warp_0 = "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.relaxed.gpu.global.b32 [%rd0], 1;\n" ..
      "setp.ne.u32 %p1, %r3, 0;\nPOLL:\n@%p1 ld.relaxed.gpu.global.b32 %r8, [%rd0];\n" ..
      "setp.eq.and.u32 %p3, %r8, 0, %p1;\n@%p3 bra POLL;"

    for name, from in pairs { ["in a row"] = others, ["in no order"] = scattered } do
      it("by lanes " .. name .. " race with a write that no barrier orders", function()
        local rules, hazards = run(lines({ from, load }, after_warp_0, { thread_37, "@%p0 " .. store }), 2, "shared")
        local lane = name == "in a row" and 5 or 4
        assert.same({ "shared-race" }, rules)
        assert.matches("warp 1 lane 5, PTX line 24.-read by.-warp 0 lane " .. lane .. ", PTX line 16",
          (hazards[1].message:gsub("\n", " ")))
        assert.same({}, (run(lines({ from, load }, "bar.sync 0;", { thread_37, "@%p0 " .. store }), 2, "shared")))
      end)
    end

    it("are told apart where a barrier is for some of the warps", function()
      -- Warps 0 and 1 meet once more; what warp 1 writes then, warp 0 has read, or warp 3.
      local some = "setp.lt.u32 %p1, %r3, 2;\n@%p1 bar.sync 1, 64;"
      local own = "setp.eq.u32 %p0, %r0, 37;" .. word
      local of_warp_2 = "setp.eq.u32 %p0, %r0, 37; mov.u32 %r4, 292;"
      assert.same({}, (run(lines({ others, load }, some, { own, "@%p0 " .. store }), 4, "shared")))
      local rules, hazards = run(lines({ others, load }, some, { of_warp_2, "@%p0 " .. store }), 4, "shared")
      assert.equal("shared-race", rules[1])
      assert.matches("warp 3 lane 9, PTX line 16", (hazards[1].message:gsub("\n", " ")))
    end)

    it("are handed on by an mbarrier", function()
      local function handed(wait)
        return ".shared .align 8 .b64 bar;\n" .. lines(
          "mov.u32 %r6, bar;\nsetp.eq.u32 %p2, %r0, 0;\n@%p2 mbarrier.init.shared.b64 [%r6], 32;\nbar.sync 0;",
          { others, load }, after_warp_0,
          "setp.eq.u32 %p1, %r3, 0;\n@%p1 mbarrier.arrive.shared.b64 _, [%r6];\n@%p1 bra DONE;", wait,
          { thread_37, "@%p0 " .. store }, "DONE:")
      end
      local wait = "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r6], 0;\n@!%p3 bra WAIT;"
      assert.same({}, (run(handed(wait), 2, "shared")))
      assert.same({ "shared-race" }, (run(handed "", 2, "shared")))
    end)

    it("race with a bulk copy to where they have read", function()
      local function copied(before)
        return ".shared .align 8 .b64 bar;\n" .. lines(
          "mov.u32 %r6, bar;\nsetp.eq.u32 %p2, %r0, 32;\n@%p2 mbarrier.init.shared.b64 [%r6], 1;\n" ..
          "fence.proxy.async;\nbar.sync 0;", { others, load }, after_warp_0, before ..
          "@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 16;\n" ..
          "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd0+64], 16, [%r6];\n" ..
          "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r6], 0;\n@!%p3 bra WAIT;")
      end
      local to = "add.u32 %r5, %r1, 128;\n" -- words of warp 1, which warp 0 has read
      local rules, hazards = run(copied(to), 2, "shared")
      assert.equal("shared-race", rules[1])
      assert.matches("read by.-warp 0 lane [0-3], PTX line 22", (hazards[1].message:gsub("\n", " ")))
      assert.same({}, (run(copied("bar.sync 0;\n" .. to), 2, "shared")))
    end)

    it("are remembered however many they are", function()
      local loop = "mov.u32 %r7, 0;\nLOOP:\n" .. access("shared", scattered, load) ..
        "add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 3000;\n@%p1 bra LOOP;"
      local function rules_of(between)
        return (run(lines({ others, load }, loop, between, { thread_37, "@%p0 " .. store }), 2, "shared"))
      end
      assert.equal("shared-race", rules_of(after_warp_0)[1])
      assert.same({}, rules_of "bar.sync 0;")
    end)
  end)

  it("are known after thousands of accesses of other words", function()
    -- Warp 1 writes once, warp 0 elsewhere and in no order, again and again; then it reads a word of warp 1.
    local low = "and.b32 %r4, %r0, 31; xor.b32 %r4, %r4, 1; shl.b32 %r4, %r4, 2;"
    local loop = access("shared", swapped .. "setp.eq.u32 %p2, %r3, 1;", "@%p2 " .. store) ..
      "@%p2 bra END;\nmov.u32 %r7, 0;\nLOOP:\n" .. access("shared", low, store) .. "bar.warp.sync -1;\n" ..
      access("shared", word, load) .. "bar.warp.sync -1;\n" ..
      "add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 5000;\n@%p1 bra LOOP;\nEND:\n"
    local neighbour = "xor.b32 %r4, %r0, 32; shl.b32 %r4, %r4, 2; setp.eq.u32 %p0, %r0, 9;"
    local rules, hazards = run(loop .. access("shared", neighbour, "@%p0 " .. load), 2, "shared")
    assert.same({ "shared-race" }, rules)
    assert.matches("warp 0 lane 9.-write by.-warp 1 lane 8, PTX line 14", (hazards[1].message:gsub("\n", " ")))
    assert.same({}, (run(loop .. "bar.sync 0;\n" .. access("shared", neighbour, "@%p0 " .. load), 2, "shared")))
  end)

  it("of shared memory that nothing has written are told from those beside them", function()
    local even = "shl.b32 %r4, %r2, 3;"
    assert.same({}, (run(access("shared", even, store) .. access("shared", even, load), 1, "shared")))
    local rules, hazards = run(access("shared", even, store) .. "bar.sync 0;\n" .. access("shared", of_lane, load), 1,
      "shared")
    assert.equal("undefined-shared", rules[1])
    assert.matches("shared 0x404%.%.0x407", hazards[1].message)
  end)
end)

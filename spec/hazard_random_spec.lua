-- Kernels made at random, of loads and stores of words, and of barriers for some warps or for all: which of their
-- accesses race is worked out here pair by pair, without clocks.  HAZARD_SEED makes others.
local tc = require "tcmma"

local WARPS, WORDS = 4, 256

-- Which word a lane touches.
local shapes = {
  function(_, lane, base) return base + lane end,
  function(warp, lane, base) return base + 32 * warp + lane end,
  function(_, lane, base) return base + (lane ~ 5) end,
  function(warp, lane, base) return base + 4 * lane + warp end,
  function(_, lane, base) return base + 7 * lane end,
  function(_, lane, base) return base + 33 * (lane % 4) + lane // 4 end,
  function(_, lane, base) return base + lane // 8 end,
  function(_, lane, base) return base + 32 * (lane % 8) end,
  function(_, _, base) return base end,
}

local function chosen(random, list) return list[random(#list)] end

local function step(random, all)
  if random(10) <= all then return { barrier = "all" } end
  local kind = random(10)
  if kind == 1 then return { barrier = "warp" } end
  if kind == 2 then
    local first = random(0, WARPS - 1)
    return { barrier = "some", warps = 1 << first | 1 << (first + random(WARPS - 1)) % WARPS }
  end
  local lanes = random(4) == 1 and 1 << random(0, 31) or random(3) == 1 and random(0, 0xffffffff) or 0xffffffff
  return {
    write = random(3) == 1, warps = random(1, (1 << WARPS) - 1), lanes = lanes, base = 8 * random(0, 3),
    shape = chosen(random, shapes), apart = random(3) > 1 and random(0, 3) or 0,
  }
end

local function touches(s, warp, lane)
  return s.shape and s.warps >> warp & 1 == 1 and s.lanes >> lane & 1 == 1
end

local function word_of(s, warp, lane) return (s.shape(warp, lane, s.base) + 16 * s.apart * warp) % WORDS end

-- The text: offsets come from a table in constant memory, so that every shape is the same few lines.
local function text_of(steps, space)
  local lines, line_of, tables = {}, {}, {}
  for i, s in ipairs(steps) do
    if s.barrier == "all" then
      lines[#lines + 1] = "bar.sync 0;"
    elseif s.barrier == "warp" then
      lines[#lines + 1] = "bar.warp.sync -1;"
    elseif s.barrier == "some" then
      lines[#lines + 1] = ("shr.u32 %%r5, %d, %%r3; and.b32 %%r5, %%r5, 1; setp.ne.u32 %%p0, %%r5, 0; " ..
        "@%%p0 bar.sync %d, 64;"):format(s.warps, i)
    else
      local offsets = {}
      for t = 0, 32 * WARPS - 1 do offsets[t + 1] = 4 * word_of(s, t // 32, t % 32) end
      tables[#tables + 1] = (".const .align 4 .u32 t%d[%d] = {%s};"):format(i, 32 * WARPS, table.concat(offsets, ","))
      lines[#lines + 1] = ("mov.u64 %%rd2, t%d; add.u64 %%rd2, %%rd2, %%rd1; ld.const.u32 %%r4, [%%rd2]; " ..
        "shr.u32 %%r5, %d, %%r3; shr.u32 %%r6, %d, %%r2; and.b32 %%r5, %%r5, %%r6; and.b32 %%r5, %%r5, 1; " ..
        "setp.ne.u32 %%p0, %%r5, 0; cvt.u64.u32 %%rd3, %%r4; add.u64 %%rd3, %%rd3, %%rd0; add.u32 %%r7, %%r1, %%r4; " ..
        "add.u32 %%r8, %%r0, %d;"):format(i, s.warps, s.lanes, 1000 * i)
      lines[#lines + 1] = ("@%%p0 %s"):format((s.write and "st.SPACE.b32 [AT], %r8;" or "ld.SPACE.b32 %r9, [AT];")
        :gsub("SPACE", space):gsub("AT", space == "shared" and "%%r7" or "%%rd3"))
    end
    line_of[i] = #lines
  end
  local head = ([[
.version 8.6
.target sm_90a
.address_size 64
%s
.visible .entry k(.param .u64 out)
{
 .reg .pred %%p<2>; .reg .b32 %%r<12>; .reg .b64 %%rd<6>;
 .shared .align 128 .b8 tile[%d];
 ld.param.u64 %%rd0, [out];
 mov.u32 %%r0, %%tid.x; mov.u32 %%r1, tile; and.b32 %%r2, %%r0, 31; shr.u32 %%r3, %%r0, 5;
 mul.wide.u32 %%rd1, %%r0, 4;
 shl.b32 %%r4, %%r0, 2; add.u32 %%r7, %%r1, %%r4; st.shared.u32 [%%r7], 0; st.shared.u32 [%%r7+512], 0;
 bar.sync 0;
]]):format(table.concat(tables, "\n"), 4 * WORDS)
  local _, before = head:gsub("\n", "")
  for i in pairs(line_of) do line_of[i] = line_of[i] + before end
  return head .. table.concat(lines, "\n") .. "\nret;\n}\n", line_of
end

-- Step i of warp v happened before step j of warp w: a chain of barriers leads there.
local function happened_before(steps)
  local function leads(i, v, j, w)
    local reached = { [v] = true }
    for k = i + 1, j - 1 do
      local s = steps[k]
      local met = s.barrier == "all" and (1 << WARPS) - 1 or s.barrier == "some" and s.warps or 0
      local any = false
      for u = 0, WARPS - 1 do any = any or (met >> u & 1 == 1 and reached[u]) end
      for u = 0, WARPS - 1 do if any and met >> u & 1 == 1 then reached[u] = true end end
    end
    return reached[w]
  end
  return leads
end

-- Lanes of a warp are in order when it meets between them.
local function warp_meets(steps, i, j, warp)
  for k = i + 1, j - 1 do
    local s = steps[k]
    local meets = s.barrier == "some" and s.warps >> warp & 1 == 1
    if meets or s.barrier == "all" or s.barrier == "warp" then return true end
  end
  return false
end

local function races(steps)
  local leads, of_word, found, count = happened_before(steps), {}, {}, 0
  for j, s in ipairs(steps) do
    for t = 0, s.shape and 32 * WARPS - 1 or -1 do
      local warp, lane = t // 32, t % 32
      if touches(s, warp, lane) then
        local word = word_of(s, warp, lane)
        of_word[word] = of_word[word] or {}
        for _, e in ipairs(of_word[word]) do
          local ordered
          if e.warp == warp then
            ordered = e.step == j or e.lane == lane or warp_meets(steps, e.step, j, warp)
          else
            ordered = leads(e.step, e.warp, j, warp)
          end
          if not ordered and (e.write or s.write) then
            found[e.step << 16 | j], found[j << 16 | e.step] = true, true
            count = count + 1
          end
        end
        table.insert(of_word[word], { step = j, warp = warp, lane = lane, write = s.write })
      end
    end
  end
  return found, count
end

describe("random kernels", function()
  local state = tonumber(os.getenv "HAZARD_SEED") or 1
  local function random(from, to)
    if not to then from, to = 1, from end
    state = (state * 6364136223846793005 + 1442695040888963407)
    return from + (state >> 33) % (to - from + 1)
  end

  for _, space in ipairs { "shared", "global" } do
    it("of " .. space .. " memory have the races that pairs of their accesses have", function()
      tc.device("emulator:sm_90a"):use()
      local racing, silent = 0, 0
      for _ = 1, 1000 do
        local steps = {}
        local all = random(0, 6)
        for i = 1, random(2, 15) do steps[i] = step(random, all) end -- i is a barrier's number too
        local text, line_of = text_of(steps, space)
        local found, count = races(steps)
        local step_at = {}
        for i, line in pairs(line_of) do step_at[line] = i end
        local report = tc.ptx(text):kernel "k":emulate {
          grid = { 1 }, block = { 32 * WARPS }, args = { tc.zeros({ WORDS }, tc.i32) }, mode = "check",
        }
        for _, hazard in ipairs(report.hazards) do
          local now, earlier = hazard.message:match "PTX line (%d+).-earlier.-PTX line (%d+)"
          local pair = step_at[tonumber(now)] << 16 | step_at[tonumber(earlier)]
          assert(found[pair], "reported though it is in order:\n" .. hazard.message .. "\n" .. text)
        end
        assert((#report.hazards > 0) == (count > 0), ("%d pairs race, %d were reported:\n%s"):format(count,
          #report.hazards, text))
        if count > 0 then racing = racing + 1 else silent = silent + 1 end
      end
      assert(racing > 300 and silent > 300, ("%d race, %d do not"):format(racing, silent))
    end)
  end
end)

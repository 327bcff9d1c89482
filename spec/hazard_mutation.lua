-- A correct warp-specialised matmul as the emitter writes it, launched as text, and the ways to
-- spoil the text that spec/hazard_spec.lua tries.
local tc = require "tcmma"
local matmul = require "tcmma.matmul"

local M = {}

local SIZE = 256
local machines = {}

local function machine(target)
  if not machines[target] then machines[target] = tc.device("emulator:" .. target) end
  return machines[target]
end

-- Four tiles of 128 x 128 for one CTA (a cluster of two: two tiles each), four steps of 64 each,
-- two stages.
local function problem(case)
  return { M = SIZE, N = SIZE, K = SIZE, dtype = "f16", target = case.target },
    { tile_m = 128, tile_n = 128, tile_k = 64, stages = 2, ctas = case.cluster or 1, cluster = case.cluster or 1 }
end

local texts = {}

-- case.target; case.cluster: 2 for a cluster of two CTAs.
function M.text(case)
  local key = case.target .. (case.cluster or 1)
  if not texts[key] then
    machine(case.target):use()
    texts[key] = (matmul.kernel(problem(case))):ptx { target = case.target }
  end
  return texts[key]
end

local function map(array, box)
  return tc.tensormap(array, {
    dims = { SIZE, SIZE }, strides = { SIZE * 2 }, box = box, element_strides = { 1, 1 }, swizzle = "128B",
    interleave = "none", l2 = "128B", dtype = "f16", oob = "zeros",
  })
end

-- The report of a text; the boxes are those that the emitter asks for.  Options: mode, seed, block, cluster, smem, box
-- (of the first operand).
function M.run(case, text, o)
  o = o or {}
  machine(case.target):use()
  local split = case.cluster or 1
  local a = tc.randint({ SIZE, SIZE }, tc.f16, { low = -2, high = 3, seed = 1 })
  local b = tc.randint({ SIZE, SIZE }, tc.f16, { low = -2, high = 3, seed = 2 })
  local out = tc.full({ SIZE, SIZE }, -999, tc.f16)
  local rows = case.target == "sm_90a" and 64 or 128
  local report = tc.ptx(text):kernel "matmul":emulate {
    grid = { split }, block = { o.block or tonumber(text:match "%.maxntid (%d+)") },
    cluster = { o.cluster or split }, smem = o.smem or 160 * 1024, mode = o.mode or "check", numerics = "f32",
    seed = o.seed or 3, args = { map(a, o.box or { 64, 128 }), map(b, { 64, 64 }), map(out, { 64, rows }) },
  }
  return report, out, tc.reference.matmul(a, b)
end

-- Rules in the order of their first report, each once.
function M.rules_of(report)
  local list, seen = {}, {}
  for _, hazard in ipairs(report.hazards) do
    if not seen[hazard.rule] then list[#list + 1] = hazard.rule end
    seen[hazard.rule] = true
  end
  return list
end

-- ---- spoiling a text ------------------------------------------------------------------------------

local function lines_of(text)
  local lines = {}
  for line in text:gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  return lines
end

-- The number of the nth line with `words`, behind the line with `behind`.
local function find(lines, words, nth, behind)
  local begun, count = not behind, 0
  for i, line in ipairs(lines) do
    begun = begun or line:find(behind, 1, true) ~= nil
    if begun and line:find(words, 1, true) then
      count = count + 1
      if count == (nth or 1) then return i end
    end
  end
  error(("the text has no line %d with '%s' behind '%s'"):format(nth or 1, words, behind or "its beginning"))
end

-- Without `count` lines from the one found on.
function M.drop(text, words, o)
  o = o or {}
  local lines = lines_of(text)
  local at = find(lines, words, o.nth, o.behind)
  for _ = 1, o.count or 1 do table.remove(lines, at) end
  return table.concat(lines, "\n") .. "\n"
end

-- The wait and the branch back to it.
function M.drop_wait(text, barrier, o)
  return M.drop(text, barrier, { behind = o and o.behind, nth = o and o.nth, count = 2 })
end

-- The line found, with `old` replaced (or, without `old`, replaced as a whole).
function M.replace(text, words, old, new, o)
  o = o or {}
  local lines = lines_of(text)
  local at = find(lines, words, o.nth, o.behind)
  local first, last = lines[at]:find(old, 1, true)
  if not first then error(("no '%s' in '%s'"):format(old, lines[at])) end
  lines[at] = lines[at]:sub(1, first - 1) .. new .. lines[at]:sub(last + 1)
  return table.concat(lines, "\n") .. "\n"
end

function M.insert_before(text, words, line, o)
  o = o or {}
  local lines = lines_of(text)
  table.insert(lines, find(lines, words, o.nth, o.behind), line)
  return table.concat(lines, "\n") .. "\n"
end

-- The line found, moved before the nth line with `target`.
function M.move_before(text, words, target, o)
  local lines = lines_of(text)
  local line = table.remove(lines, find(lines, words, o and o.nth, o and o.behind))
  table.insert(lines, find(lines, target, o and o.target_nth, o and o.target_behind), line)
  return table.concat(lines, "\n") .. "\n"
end

return M

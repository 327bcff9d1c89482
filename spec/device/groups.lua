-- The groups of cases, and what an H200 left for them (spec/device/results.txt: a family of cases a line, a hash a
-- case,
-- "-" where the assembler or the driver takes no such case or the device traps, "?" where it did not run).
local operands = require "spec.device.operands"

-- parts: processes that share a group; seconds: how long a part may take.
local M = {
  { name = "scalar", parts = 2 }, { name = "convert", parts = 2 }, { name = "warp", parts = 1 },
  { name = "atomic", parts = 1 }, { name = "copy", parts = 1 }, { name = "bulk", parts = 1 }, { name = "barrier",
    parts = 1 },
  { name = "matrix", parts = 1 }, { name = "mma", parts = 1 }, { name = "wgmma", parts = 10 }, { name = "witness",
    parts = 2 },
  { name = "maps", parts = 1 }, { name = "tensor", parts = 3 }, { name = "interleave", parts = 2 },
  { name = "edge", parts = 9, seconds = 12 }, { name = "video", parts = 4 }, { name = "wmma", parts = 1 },
  { name = "pixels", parts = 2 }, { name = "access", parts = 1 }, { name = "order", parts = 1 },
}

-- The cases of a group; each has a family and its number there.
function M.cases(name)
  local tensor = name == "interleave" or name == "edge" or name == "tensor"
  local cases, counts = (tensor and require("spec.device.tensor")[name] or require("spec.device." .. name))(), {}
  for _, case in ipairs(cases) do
    case.family = case.family or case.name:match "^[^%s,]+"
    counts[case.family] = (counts[case.family] or 0) + 1
    case.number = counts[case.family]
  end
  return cases
end

function M.hash(bytes) return ("%05x"):format(operands.hash(bytes) & 0xfffff) end

-- [group][family][number] -> hash.
function M.recorded(path)
  local recorded, file, group = {}, io.open(path), nil
  if not file then return recorded end
  for line in file:lines() do
    local family, hashes = line:match "^ (.-): (.*)$"
    if line:match "^%[" then
      group = {}
      recorded[line:match "^%[(.*)%]"] = group
    elseif family then
      group[family] = {}
      for hash in hashes:gmatch "%S+" do table.insert(group[family], hash) end
    end
  end
  file:close()
  return recorded
end

-- results: [group][name of the case] = hash; cases without one keep that of `before`, or get "?".
function M.record(path, header, results, before)
  local file = assert(io.open(path, "w"))
  file:write(header)
  for _, group in ipairs(M) do
    local hashes, old = results[group.name] or {}, before[group.name] or {}
    if next(hashes) or next(old) then
      local families, order = {}, {}
      for _, case in ipairs(M.cases(group.name)) do
        if not families[case.family] then
          families[case.family] = {}
          order[#order + 1] = case.family
        end
        table.insert(families[case.family], hashes[case.name] or (old[case.family] or {})[case.number] or "?")
      end
      file:write("[", group.name, "]\n")
      for _, family in ipairs(order) do file:write(" ", family, ": ", table.concat(families[family], " "), "\n") end
    end
  end
  file:close()
end

return M

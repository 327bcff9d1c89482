-- The same PTX on a GPU and on the emulator, compared bit for bit: `make check-device-bits`.
--   lua spec/device_compare.lua [--device cuda:0|none] [--groups scalar,convert,...] [--out FOLDER] [--record FILE]
-- `--collect yes` only sums up what a run left in its folder; `--missing yes` runs the cases that
-- spec/device/results.txt has no hash of.
-- Without a device ("none") every kernel is assembled, and what the emulator leaves is compared with
-- spec/device/results.txt.
package.path = "./?.lua;" .. package.path
local difference = require "spec.device.difference"
local groups = require "spec.device.groups"

local RECORD = "spec/device/results.txt"

local function options_of(list)
  local options, i = { device = "cuda:0", out = "/tmp/tcmma-device-bits" }, 1
  while list[i] do
    local key = list[i]:match "^%-%-(%a+)$"
    assert(key, "what is " .. list[i] .. "?")
    options[key], i = list[i + 1], i + 2
  end
  return options
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function lines_of(path)
  local file = io.open(path)
  if not file then return function() end end
  return file:lines()
end

local function split(line)
  local fields = {}
  for field in (line .. "\t"):gmatch "([^\t]*)\t" do fields[#fields + 1] = field end
  return fields
end

-- ---- a worker: a part of a group, a line each case ---------------------------------------------------------

-- Fields of a line: "case", number, family, name, verdict, bytes, hash, why.
local function judge(case, outcome, known, options)
  local runner = require "spec.device.runner"
  if outcome.refused then return "assembler", 0, "-", outcome.refused end
  local emulator, why = runner.emulate(case)
  if outcome.failed then
    if emulator then return "different", 0, "-", "the driver refuses it, the emulator does not: " .. outcome.failed end
    return "refused", 0, "-", outcome.failed .. " | " .. why
  end
  local truth = outcome.device
  if not truth then
    if not emulator then
      local stricter = difference.rule(case) and not difference.rule(case)[3]
      return known == "-" and "refused" or stricter and "explained" or "emulator", 0, known or "-", why
    end
    if known == "-" then return "different", 0, "-", "the device refuses it or traps, the emulator does not" end
    local verdict = (not known or known == "?") and "unrecorded" or known == groups.hash(emulator) and "equal"
      or difference.rule(case) and "explained" or "different"
    return verdict, #emulator, known or "-", ""
  end
  if not emulator then
    local stricter = difference.rule(case) and not difference.rule(case)[3]
    return stricter and "explained" or "emulator", #truth, groups.hash(truth), why
  end
  local verdict, rule, distance = difference.judge(case, truth, emulator)
  if verdict == "equal" then return verdict, #truth, groups.hash(truth), "" end
  local count, rows = difference.rows(case, truth, emulator)
  if verdict == "different" then write(("%s/%s.%d.device"):format(options.out, options.worker, case.index), truth) end
  return verdict, #truth, groups.hash(truth), ("%s; distance %s; %d rows; %s"):format(rule and rule[2]
    or "not explained",
    distance or "-", count, table.concat(rows, " "))
end

local function worker(options)
  local tc = require "tcmma"
  local runner = require "spec.device.runner"
  local recorded = groups.recorded(RECORD)[options.worker] or {}
  local device = options.device ~= "none" and assert(tc.device(options.device)) or nil
  local log = assert(io.open(options.log, "a"))
  log:setvbuf "line"
  local function tell(...) log:write(table.concat({ ... }, "\t"), "\n") end
  local cases = groups.cases(options.worker)
  local part, parts = options.part:match "(%d+)of(%d+)"
  local numbers = {}
  for i, case in ipairs(cases) do
    local known = (recorded[case.family] or {})[case.number] or "?"
    if options.missing ~= "yes" or known == "?" then numbers[#numbers + 1] = i end
  end
  local size, share = (#numbers + parts - 1) // parts, {}
  for at = math.tointeger((part - 1) * size + 1), math.tointeger(math.min(part * size, #numbers)) do
    if numbers[at] >= tonumber(options.first) then share[#share + 1] = numbers[at] end
  end
  runner.on_device(cases, device, share, function(i) tell("begin", i) end, function(i, case, outcome)
      case.index = i
      local known = (recorded[case.family] or {})[case.number]
      tell("case", i, case.family, case.name, judge(case, outcome, known, options))
    end)
  tell "done"
end

-- ---- a supervisor: restarts the worker behind a case that took it down ------------------------------------

local function last_begun(path)
  local begun, finished = 0, false
  for line in lines_of(path) do
    begun = tonumber(line:match "^begin\t(%d+)" or line:match "^case\t(%d+)") or begun
    finished = line == "done"
  end
  return begun, finished
end

-- Runs a worker; on a device a log that stands still for half a minute tells of a kernel that never ends.
local watched = [[
timeout %d %s & worker=$!
while kill -0 $worker 2>/dev/null; do
  sleep 0.2
  if [ $(($(date +%%s) - $(stat -c %%Y '%s'))) -gt %d ]; then kill -9 $worker; fi
done
wait $worker]]

local function supervise(options)
  local first, deadline = 1, os.time() + tonumber(options.seconds)
  write(options.log, "")
  while os.time() < deadline do
    local command = ("%s %s --worker '%s' --part %s --first %d --device %s --out '%s' --log '%s' --missing %s"
      .. " >>'%s.err' 2>&1"):format(os.getenv "LUA" or "lua5.4", arg[0], options.supervise, options.part, first,
        options.device, options.out, options.log, options.missing or "no", options.log)
    local ok = os.execute(watched:format(deadline - os.time() + 1, command, options.log,
      options.device == "none" and 3600 or 30))
    local begun, finished = last_begun(options.log)
    if ok and finished then return end
    if begun < first then break end
    local log = assert(io.open(options.log, "a"))
    log:write(table.concat({ "case", begun, "-", "-", "fault", 0, "-", "the process ended" }, "\t"), "\n")
    log:close()
    first = begun + 1
  end
  print(("%s did not end: see %s.err"):format(options.supervise, options.log))
end

-- ---- the whole ------------------------------------------------------------------------------------------------

local verdicts = { "equal", "explained", "refused", "different", "emulator", "assembler", "fault", "unrecorded" }

-- Lines of a group's parts, by number of the case; those of a case that took the process down come twice.
local function rows_of(options, group)
  local rows = {}
  for part = 1, group.parts do
    for line in lines_of(("%s/%s.%d.log"):format(options.out, group.name, part)) do
      local fields = split(line)
      if fields[1] == "case" then rows[#rows + 1] = fields end
    end
  end
  table.sort(rows, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end)
  return rows
end

local function summary(options, chosen)
  local notes, results, bad = {}, {}, 0
  print(("%-9s %6s %12s  %s"):format("group", "cases", "bytes", table.concat(verdicts, " ")))
  for _, group in ipairs(chosen) do
    local counts, bytes, cases = {}, 0, 0
    results[group.name] = {}
    for _, row in ipairs(rows_of(options, group)) do
      local verdict = row[5]
      counts[verdict], cases, bytes = (counts[verdict] or 0) + 1, cases + 1, bytes + tonumber(row[6])
      results[group.name][row[4]] = row[7]
      if verdict == "different" or verdict == "fault" then bad = bad + 1 end
      if verdict ~= "equal" then notes[#notes + 1] = group.name .. "\t" .. table.concat(row, "\t", 2) end
    end
    local columns = {}
    for i, verdict in ipairs(verdicts) do columns[i] = ("%" .. #verdict .. "d"):format(counts[verdict] or 0) end
    print(("%-9s %6d %12d  %s"):format(group.name, cases, bytes, table.concat(columns, " ")))
  end
  write(options.out .. "/notes.txt", table.concat(notes, "\n") .. "\n")
  if options.record then
    groups.record(options.record,
      "# What an NVIDIA H200 left in memory: families of cases, the end of a hash of each case's memory.\n",
      results, groups.recorded(RECORD))
  end
  print(("details: %s/notes.txt"):format(options.out))
  return bad
end

local function main(options)
  local chosen, running = {}, {}
  for _, group in ipairs(groups) do
    if not options.groups or ("," .. options.groups .. ","):find("," .. group.name .. ",", 1, true) then
      chosen[#chosen + 1] = group
    end
  end
  if options.collect then os.exit(summary(options, chosen) == 0) end
  os.execute(("rm -rf '%s' && mkdir -p '%s'"):format(options.out, options.out))
  local function finish(process)
    local said = process:read "a"
    if said ~= "" then io.write(said) end
    process:close()
  end
  -- As many at once as there are processors: each has a limit of seconds, not of work.
  local nproc = io.popen "nproc"
  local processors = nproc:read "n" or 1
  nproc:close()
  for _, group in ipairs(chosen) do
    for part = 1, group.parts do
      if #running == processors then finish(table.remove(running, 1)) end
      running[#running + 1] = assert(io.popen((
        "%s %s --supervise %s --part %dof%d --device %s --out '%s' --log '%s/%s.%d.log' --missing %s --seconds %s")
        :format(os.getenv "LUA" or "lua5.4", arg[0], group.name, part, group.parts, options.device, options.out,
          options.out,
          group.name, part, options.missing or "no", options.seconds or group.seconds or 80)))
    end
  end
  for _, process in ipairs(running) do finish(process) end
  os.exit(summary(options, chosen) == 0)
end

local options = options_of(arg)
if options.worker then worker(options) elseif options.supervise then supervise(options) else main(options) end

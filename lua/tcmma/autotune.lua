--- Choosing between configurations by measuring them: tc.autotune.

local arguments = require "tcmma.arguments"
local core = require "tcmma.core"
local bench = require "tcmma.bench"
local documentation = require "tcmma.documentation"
local file = require "tcmma.file"
local json = require "tcmma.json"

local function is_a(kind)
  return { function(value) return type(value) == kind end, "a " .. kind }
end

local function at_least(least)
  return { function(value) return math.type(value) == "integer" and value >= least end,
    ("an integer >= %d"):format(least) }
end

local options = {
  by = { function(value) return type(value) == "string" or type(value) == "function" end,
    "\"time\", the name of a counter, or a function of the counters" },
  cache = is_a "boolean", check = is_a "function", key = is_a "string", name = is_a "string",
  repetitions = at_least(1), rounds = at_least(0), warmup = at_least(0),
}

local SHORTLIST = 3 -- candidates that are measured again, in turn

local function fail(text, ...)
  arguments.fail("tc.autotune: " .. text, ...)
end

-- ---- keys -----------------------------------------------------------------------------------------------------

--- 64 bits of a text, as hexadecimal digits; FNV-1a over words of eight bytes.
local function hash(text)
  local h = -3750763034362895579
  local padded = text .. ("\0"):rep(-#text % 8)
  for at = 1, #padded, 8 do
    h = (h ~ string.unpack("<i8", padded, at)) * 1099511628211
    h = h ~ h >> 29
  end
  return ("%016x"):format((h ~ #text) & -1)
end

--- A candidate as text, the same whatever the order of its fields.
local function spell(x)
  if type(x) ~= "table" then return tostring(x) end
  local parts = {}
  for key, value in pairs(x) do parts[#parts + 1] = tostring(key) .. "=" .. spell(value) end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

local function method_of(x, name)
  local meta = getmetatable(x)
  if type(x) ~= "userdata" or type(meta) ~= "table" then return nil end
  local ok, method = pcall(function() return x[name] end)
  return ok and type(method) == "function" and method or nil
end

--- What the outcome depends on: the device, the arrays, and the PTX of every candidate (or its text).
local function key_of(entries, device, args, opts)
  local properties = device.properties or {}
  local parts = {
    "1", device.name, device.target, tostring(properties.description), opts.key or "",
    type(opts.by) == "function" and "function" or tostring(opts.by),
  }
  for _, x in ipairs(args) do
    local ok, shape = pcall(function() return table.concat(x.shape, "x") .. " " .. tostring(x.dtype) end)
    parts[#parts + 1] = ok and shape or tostring(x)
  end
  for _, entry in ipairs(entries) do
    parts[#parts + 1] = spell(entry.config)
    local ptx = entry.run and method_of(entry.run, "ptx")
    if ptx then
      local ok, text = pcall(ptx, entry.run, { target = device.target })
      parts[#parts + 1] = ok and hash(text) or "refused"
    end
  end
  return hash(table.concat(parts, "\n"))
end

-- ---- results on disk ------------------------------------------------------------------------------------------

local function folder()
  local config = core.config
  if not config.cache then return nil end
  if config.cache_dir then return config.cache_dir end
  local xdg, home = os.getenv "XDG_CACHE_HOME", os.getenv "HOME"
  if xdg and xdg:sub(1, 1) == "/" then return xdg .. "/tcmma" end
  if home and home:sub(1, 1) == "/" then return home .. "/.cache/tcmma" end
end

local function load_results(path)
  local text = file.read(path)
  local data = text and json.decode(text)
  return type(data) == "table" and type(data.results) == "table" and data.results or nil
end

local function save_results(path, directory, name, entries)
  local results = {}
  for i, entry in ipairs(entries) do
    results[i] = { config = spell(entry.config), cost = entry.cost, reason = entry.reason }
  end
  local text = json.encode { name = name, results = results } .. "\n"
  local temporary = ("%s.%s"):format(path, ("%p"):format(entries))
  if not file.write(temporary, text) then
    os.execute("mkdir -p '" .. directory:gsub("'", "'\\''") .. "'")
    if not file.write(temporary, text) then return end
  end
  os.rename(temporary, path)
end

-- ---- measuring ------------------------------------------------------------------------------------------------

--- The reason in one line, without the place in the source.
local function reason_of(message)
  return (tostring(message):match "^[^\n]*":gsub("^%S+:%d+: ", ""))
end

--- One cost of a candidate: microseconds, or what `by` makes of the emulator's counters.
local function cost_of(entry, args, by, device, opts)
  if by == "time" then
    local run = entry.run
    return (bench(function() run(table.unpack(args)) end, {
      warmup = opts.warmup or 1, repetitions = opts.repetitions or 10, device = device,
    }))
  end
  local emulate = method_of(entry.run, "emulate")
  if not emulate then error("only a kernel has counters; use by = \"time\"", 0) end
  local report = emulate(entry.run, { target = device.target }, table.unpack(args))
  if not report.completed then error(report.hazards[1] and report.hazards[1].message or "it did not complete", 0) end
  if type(by) == "function" then return by(report.counters) end
  local value = report.counters[by]
  if not value then error(("the emulator has no counter '%s'"):format(by), 0) end
  return value
end

local function attempt(entry, f, ...)
  local ok, value = pcall(f, ...)
  if ok and type(value) ~= "number" then ok, value = false, "its cost is " .. type(value) .. ", a number expected" end
  if not ok then entry.cost, entry.reason = nil, reason_of(value) end
  return ok and value or nil
end

local function build_all(candidates, build)
  local entries = {}
  for i, config in ipairs(candidates) do
    local entry = { config = config }
    local ok, run, message = pcall(build, config)
    if not ok then
      entry.reason = reason_of(run)
    elseif not run then
      entry.reason = message and reason_of(message) or "build returned nothing"
    else
      entry.run = run
    end
    entries[i] = entry
  end
  return entries
end

local function ranked(entries)
  local list = {}
  for i, entry in ipairs(entries) do
    entry.place = i
    if entry.cost then list[#list + 1] = entry end
  end
  table.sort(list, function(a, b)
    if a.cost ~= b.cost then return a.cost < b.cost end
    return a.place < b.place
  end)
  return list
end

--- Measures every candidate once, then the best few again in turn: what follows a kernel that leaves the GPU cool
-- looks faster than it is.
local function measure(entries, args, by, device, opts)
  for _, entry in ipairs(entries) do
    if entry.run then
      entry.cost = attempt(entry, cost_of, entry, args, by, device, opts)
      if entry.cost and opts.check then
        local ok, right = pcall(opts.check, table.unpack(args))
        if not ok or not right then
          entry.cost, entry.reason = nil, ok and "its result is wrong" or reason_of(right)
        end
      end
    end
  end
  if by ~= "time" then return end
  local best = ranked(entries)
  for entry = #best, SHORTLIST + 1, -1 do best[entry] = nil end
  local samples = {}
  for round = 1, opts.rounds or 3 do
    for i = 1, #best do
      local entry = best[(i + round) % #best + 1]
      samples[entry] = samples[entry] or {}
      table.insert(samples[entry], attempt(entry, cost_of, entry, args, by, device, opts))
    end
  end
  for entry, list in pairs(samples) do
    table.sort(list)
    if entry.cost and list[1] then entry.cost = list[(#list + 1) // 2] end
  end
end

local function device_of(args)
  for _, x in ipairs(args) do
    local ok, device = pcall(function() return x.device end)
    if ok and device then return device end
  end
  return core.device()
end

local function summary(entries)
  local lines = {}
  for i, entry in ipairs(entries) do lines[i] = ("  %s: %s"):format(spell(entry.config), entry.reason) end
  return table.concat(lines, "\n")
end

local function autotune(candidates, build, args, opts)
  arguments.check(type(candidates) == "table", 1, "autotune", "list of candidates", candidates)
  arguments.check(type(build) == "function", 2, "autotune", "function that builds a candidate", build)
  arguments.check(type(args) == "table", 3, "autotune", "list of the arguments of a call", args)
  opts = arguments.check_options(opts, 4, "autotune", options)
  if #candidates == 0 then fail("a list of at least one candidate expected") end
  local device = device_of(args)
  local by = opts.by or (device.is_emulator and "warp_instructions" or "time")
  local entries = build_all(candidates, build)
  local nameless = type(by) == "function" and not opts.key
  local directory = opts.cache ~= false and not nameless and folder()
  local path = directory and ("%s/autotune-%s.json"):format(directory, key_of(entries, device, args, opts))
  local known = path and load_results(path)
  local from_disk = known and #known == #entries
  if from_disk then
    for i, entry in ipairs(entries) do
      entry.cost, entry.reason = known[i].cost, entry.reason or known[i].reason
    end
  else
    measure(entries, args, by, device, opts)
    if path then save_results(path, directory, opts.name, entries) end
  end
  local order = ranked(entries)
  if not order[1] then fail("no candidate works:\n%s", summary(entries)) end
  local results = { by = by, from_disk = from_disk or false, path = path or nil }
  for i, entry in ipairs(entries) do
    results[i] = arguments.shown { config = entry.config, cost = entry.cost, reason = entry.reason }
  end
  arguments.shown(results)
  return order[1].config, order[1].run, results
end

autotune = core.entry_point(autotune)

documentation.add("tcmma", {
  { "autotune", autotune, "autotune(candidates: table[], build: function, args: tcmma.array[], opts?: "
    .. "{by?: string|function, check?: function, cache?: boolean, key?: string, name?: string, warmup?: integer, "
    .. "repetitions?: integer, rounds?: integer}) -> table, any, table" .. [[

Builds every candidate with `build(candidate)`, measures what it returns with the arguments `args`, and returns the
best candidate, what was built for it, and a list of `{config=, cost=}` or `{config=, reason=}` in the order of the
candidates.

A candidate that `build` or the compiler refuses, that does not fit, or that `check` calls wrong is skipped with the
reason; if none is left, that is an error with all reasons. On a GPU the cost is the time in microseconds
(`tc.bench`; the best three are measured again in turn), on the emulator the number of warp instructions. Results are
kept in the folder of assembled kernels, by the device, the arguments and the PTX of all candidates. Options:
- `by`: `"time"`, the name of a counter of the emulator's report, or a function of those counters
- `check`: function(...) of the arguments after a call: whether the result is right
- `cache` (true): whether results on disk are used and written; with a function `by` only if there is a `key`
- `key`: text that sets results apart; `name`: text that goes into the file
- `warmup` (1), `repetitions` (10), `rounds` (3): of the measurement]] },
})

return autotune

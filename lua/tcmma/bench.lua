--- Timing of calls: tc.bench.

local arguments = require "tcmma.arguments"
local core = require "tcmma.core"
local documentation = require "tcmma.documentation"

local function at_least(least)
  return { function(value) return math.type(value) == "integer" and value >= least end,
    ("an integer >= %d"):format(least) }
end

local function are_fractions(list)
  if type(list) ~= "table" then return false end
  for _, q in ipairs(list) do
    if type(q) ~= "number" or not (q >= 0 and q <= 1) then return false end
  end
  return true
end

local options = {
  warmup = at_least(0), repetitions = at_least(1), device = arguments.device,
  quantiles = { are_fractions, "a list of numbers from 0 to 1" },
}

--- Value below which the part q of a sorted list lies, interpolated.
local function quantile(sorted, q)
  local at = 1 + q * (#sorted - 1)
  local below = math.floor(at)
  local above = math.min(below + 1, #sorted)
  return sorted[below] + (at - below) * (sorted[above] - sorted[below])
end

--- Microseconds of one call, between two events of the device.
local function device_timer(device)
  local from, to = device:event(), device:event()
  return function(fn)
    from:record()
    fn()
    to:record()
    return to:since(from) * 1e3
  end
end

local function host_timer(fn)
  local from = core.clock()
  fn()
  return (core.clock() - from) * 1e6
end

local shown = {
  __tostring = function(r)
    arguments.check(type(r) == "table", 1, "tostring", "table", r)
    local function number(name) return tonumber(r[name]) or 0 / 0 end
    local text = "{median = %.4g us, min = %.4g, max = %.4g, mean = %.4g, %d calls, clock of the %s}"
    return text:format(number "median", number "min", number "max", number "mean",
      math.tointeger(r.repetitions) or 0, tostring(r.clock))
  end,
}

local function bench(fn, opts)
  local meta = debug.getmetatable(fn)
  arguments.check(type(fn) == "function" or meta and meta.__call, 1, "bench", "function", fn)
  opts = arguments.check_options(opts, 2, "bench", options)
  local device = opts.device or core.device()
  if type(device) == "string" then device = assert(core.device(device)) end
  local on_gpu = tostring(device):find("cuda:", 1, true) ~= nil
  local timer = on_gpu and device_timer(device) or host_timer
  for _ = 1, opts.warmup or 3 do fn() end
  if on_gpu then device:synchronize() end
  local times, sum = {}, 0
  for i = 1, opts.repetitions or 20 do
    times[i] = timer(fn)
    sum = sum + times[i]
  end
  table.sort(times)
  local result = setmetatable({
    median = quantile(times, 0.5), min = times[1], max = times[#times], mean = sum / #times,
    repetitions = #times, times = arguments.shown(times), clock = on_gpu and "device" or "host",
  }, shown)
  for i, q in ipairs(opts.quantiles or {}) do
    result.quantiles = result.quantiles or arguments.shown {}
    result.quantiles[i] = quantile(times, q)
  end
  return result.median, result
end

bench = core.entry_point(bench)

documentation.add("tcmma", {
  { "bench", bench, "bench(fn: function, opts?: {warmup?: integer, repetitions?: integer, "
    .. "device?: tcmma.device|string, quantiles?: number[]}) -> number, table" .. [[

Calls `fn` a few times without measuring (`warmup`, 3) and then `repetitions` (20) times, each call
measured alone. The result is the median in **microseconds**, and a table: `median`, `min`, `max`,
`mean`, `repetitions`, `times` (sorted), `quantiles` (those asked for) and `clock`.

On a GPU the time is that between two events around the call (`clock` is `"device"`): the kernels and
the gaps between them, not the recording. On the emulator it is that of the host's monotonic clock
(`"host"`), the emulation itself.]] },
})

return bench

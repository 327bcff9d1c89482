-- Runs generated matmuls: on the emulator against exact arithmetic, on a GPU against the emulator. A
-- kernel that fails is made smaller feature by feature while it still fails, and its script is
-- written to a file.
local tc = require "tcmma"
local generated = require "generated_kernels"
local process = require "process"

local M = {}

-- Runs it on the emulator into a new output and returns that; raises hazards that are errors.
function M.emulate(recorded, arrays, options)
   local bound = table.move(arrays, 1, #arrays, 1, {})
   bound[3] = arrays[3]:copy()
   local report = recorded.kernel:emulate(options, table.unpack(bound))
   for _, hazard in ipairs(report.hazards) do
      if hazard.severity == "error" then error("emulator: " .. hazard.message, 0) end
   end
   if not report.completed then error("emulator: not completed", 0) end
   return bound[3]
end

-- nil, or how two results differ.
function M.difference(result, expected, what)
   if result:equal(expected) then return nil end
   local distance, at = tc.max_error(result, expected)
   if distance == 0 then return nil end -- 0 and -0
   return ("%s: largest error %s at (%s)"):format(what, distance, table.concat(at or {}, ", "))
end

-- The kernel on the emulator against exact arithmetic: nil, or what is wrong.
function M.check_emulator(o, options)
   local ok, message = pcall(function()
      local recorded = generated.record(o)
      local arrays = recorded.inputs()
      local run = { target = o.target }
      for key, value in pairs(options or {}) do run[key] = value end
      return M.difference(M.emulate(recorded, arrays, run), recorded.expected(arrays), "emulator against exact result")
   end)
   return message, not ok
end

-- ---- making it smaller -----------------------------------------------------------------------

local simplifications = {
   { "cluster", false }, { "unrolled", false }, { "named", false }, { "halves", false }, { "commit", false },
   { "relu", false }, { "scale", false }, { "bias", false }, { "residual", false }, { "row_scale", false },
   { "read_only", false }, { "warpgroups", 1 }, { "form", "roles" }, { "form", "plain" }, { "a_transposed", false },
   { "store", "gmem" }, { "acc", "f32" }, { "out", "f32" }, { "stages", 1 }, { "stages", 2 }, { "ctas", 1 },
   { "m", "tm" }, { "n", "tn" }, { "k", "tk" }, { "k", 2, "tk" }, { "k", 3, "tk" }, { "tm", 64 }, { "tm", 128 },
   { "tn", 16 }, { "tn", 32 }, { "tn", 64 }, { "piece", "tn" }, { "dtype", "f16" },
}

local function copied(o)
   local t = {}
   for key, value in pairs(o) do t[key] = value end
   return t
end

local complexity = { plain = 1, roles = 2, persistent = 3, pairs = 3, registers = 3, two = 3, preloaded = 3,
   promoted = 3, double = 4 }

local function simplified(o, change)
   local key, value, factor = table.unpack(change)
   local t = copied(o)
   if factor then value = value * o[factor] elseif type(o[value]) == "number" then value = o[value] end
   if t[key] == value or (t.integer and (key == "acc" or key == "out" or key == "dtype")) then return nil end
   if key == "form" and complexity[value] >= complexity[t.form] then return nil end
   if type(value) == "number" and key ~= "piece" and value >= t[key] then return nil end
   t[key] = value
   if key == "tm" then t.m = math.min(t.m, value) end
   if key == "tn" then t.n, t.piece = math.min(t.n, value), value end
   if key == "dtype" then t.dtype_b = value end
   if key == "out" or key == "piece" or key == "tn" then t.out_swizzle = "none" end
   return t
end

-- `fails(o)` says what is wrong, or nil; `limit` is the most tries. Simplifications that make the
-- kernel illegal do not count: they fail in another way than `o`, at recording.
function M.shrink(o, fails, limit)
   local tries, smaller = 0, true
   while smaller do
      smaller = false
      for _, change in ipairs(simplifications) do
         local t = simplified(o, change)
         if t and tries < (limit or 60) and pcall(generated.record, t) then
            tries = tries + 1
            if fails(t) then o, smaller = t, true end
         end
      end
   end
   return o
end

local tail = [[

local arrays = inputs()
local exact = expected(arrays)
local report = kernel:emulate({ target = "%s" }, table.unpack(arrays))
for _, hazard in ipairs(report.hazards) do print(hazard.severity, hazard.message) end
print("emulator, largest error", tc.max_error(arrays[3], exact))
local gpu = tc.device "cuda:0"
if gpu then
   local there = {}
   for i, array in ipairs(inputs()) do there[i] = array:to(gpu) end
   kernel(table.unpack(there))
   print("GPU, largest error", tc.max_error(there[3]:to "emulator", exact))
end
]]

-- Writes the script of a failing kernel; returns its path.
function M.save(o, message)
   local folder = os.getenv "OUT" or os.getenv "TMPDIR" or "/tmp"
   local path = ("%s/generated-%s-%d.lua"):format(folder, o.target, o.index)
   local file = assert(io.open(path, "w"))
   file:write("-- ", generated.describe(o), "\n-- ", (tostring(message):gsub("\n", "\n-- ")), "\n", generated.source(o),
      tail:format(o.target))
   file:close()
   return path
end

-- ---- on a GPU --------------------------------------------------------------------------------

local function launch(recorded, arrays, gpu)
   local there = {}
   for i, array in ipairs(arrays) do there[i] = array:to(gpu) end
   recorded.kernel(table.unpack(there))
   return there[3]:to(arrays[3].device)
end

-- How many elements of two results differ in their bits.
local function differing(one, other)
   if one:equal(other) then return 0 end
   local words = { [1] = "u8", [2] = "u16", [4] = "u32" }
   local raw = words[one.dtype.bits // 8]
   local count, rows = 0, other:view(raw):totable()
   for i, row in ipairs(one:view(raw):totable()) do
      for j, x in ipairs(row) do
         if x ~= rows[i][j] then count = count + 1 end
      end
   end
   return count
end

-- The kernel on the GPU: its result has the bits of the emulator's, which are the exact ones. Then
-- normal numbers against the emulator with the adders of the hardware. Returns nil or what is wrong,
-- and how many elements of the second result differ, of how many.
function M.check_gpu(o, gpu)
   local recorded = generated.record(o)
   local arrays = recorded.inputs()
   local emulated = M.emulate(recorded, arrays, { target = o.target })
   local wrong = M.difference(emulated, recorded.expected(arrays), "emulator against exact result")
   if wrong then return wrong end
   local result = launch(recorded, arrays, gpu)
   wrong = M.difference(result, emulated, "GPU against emulator")
   if not wrong and not result:equal(emulated) then wrong = "GPU against emulator: signs of zeros" end
   if wrong then return wrong end
   local random = recorded.inputs(1000)
   emulated = M.emulate(recorded, random, { target = o.target, numerics = "hardware" })
   return nil, differing(launch(recorded, random, gpu), emulated), emulated.elements
end

-- What a process of its own does for a list of kernels: a line of results for each.
function M.work(list, name)
   tc.use("emulator:" .. list[1].target)
   local gpu = tc.device(name)
   for _, o in ipairs(list) do
      local ok, message, different, elements = pcall(M.check_gpu, o, gpu)
      if message then
         print(("RESULT %d %s"):format(o.index, (tostring(message):gsub("%s+", " "))))
      elseif ok then
         print(("RESULT %d ok %d %d"):format(o.index, different, elements))
      end
      io.stdout:flush()
   end
end

local function literal(o)
   local fields = {}
   for key, value in pairs(o) do fields[#fields + 1] = ("%s = %q"):format(key, value) end
   return "{ " .. table.concat(fields, ", ") .. " }"
end

local SECONDS = 100 -- for a process: what hangs is ended

local function start(list, gpu)
   local texts = {}
   for i, o in ipairs(list) do texts[i] = literal(o) end
   local code = ('require "generated_run".work({ %s }, %q)'):format(table.concat(texts, ", "), gpu.name)
   return io.popen(("timeout %d "):format(SECONDS) .. process.command(code))
end

-- Checks kernels in `workers` processes. Returns a table by index: {message=} or {different=, elements=}.
function M.check_all(list, gpu, workers)
   local shares, pipes, results = {}, {}, {}
   for i, o in ipairs(list) do
      local share = (i - 1) % workers + 1
      shares[share] = shares[share] or {}
      table.insert(shares[share], o)
   end
   for i, share in ipairs(shares) do pipes[i] = start(share, gpu) end
   for i, pipe in ipairs(pipes) do
      local text = pipe:read "a"
      pipe:close()
      for index, rest in text:gmatch "RESULT (%d+) ([^\n]*)" do
         local different, elements = rest:match "^ok (%d+) (%d+)$"
         results[tonumber(index)] = different and { different = tonumber(different), elements = tonumber(elements) }
            or { message = rest }
      end
      for _, o in ipairs(shares[i]) do
         -- The first without a line is the one during which the process ended; those after it did not run.
         if not results[o.index] then
            results[o.index] = { message = "the process ended: " .. text:sub(-400) }
            break
         end
      end
   end
   return results
end

-- What is wrong with one kernel on the GPU, or nil.
function M.fails_on_gpu(o, gpu)
   return M.check_all({ o }, gpu, 1)[o.index].message
end

return M

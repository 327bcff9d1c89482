-- Runs cases on a GPU and on the emulator and compares the memory they leave, byte for byte.
local tc = require "tcmma"
local kernels = require "spec.device.kernels"

local M = {}

local BATCH = 100 -- kernels in one assembled module

-- ---- modules -------------------------------------------------------------------------------------

local function line_of(text, offset) return select(2, text:sub(1, offset):gsub("\n", "")) + 1 end

-- The module of these kernels, without those that the assembler refuses: refused[index] is its message.
local function assemble(texts, indices, refused)
  while true do
    local parts, starts, offset = { kernels.header }, {}, #kernels.header
    local present = {}
    for _, i in ipairs(indices) do
      if not refused[i] then
        local text = texts[i]:gsub("KERNEL", "k" .. i)
        starts[#starts + 1] = { i = i, offset = offset }
        present[#present + 1] = i
        parts[#parts + 1] = text
        offset = offset + #text
      end
    end
    if #present == 0 then return nil end
    local whole = table.concat(parts)
    local module = tc.ptx(whole)
    local ok, log = pcall(module.cubin, module, { target = "sm_90a" })
    if ok then return module end
    for _, start in ipairs(starts) do start.line = line_of(whole, start.offset) end
    local found = false
    for line, message in log:gmatch "line (%d+); error%s*:%s*([^\n]*)" do
      local owner
      for _, start in ipairs(starts) do
        if start.line <= tonumber(line) then owner = start.i end
      end
      if owner and not refused[owner] then
        refused[owner] = message
        found = true
      end
    end
    if not found then
      if #present == 1 then
        refused[present[1]] = (log:match "error%s*:%s*([^\n]*)" or log:sub(1, 200))
      else
        local half = #present // 2
        for _, part in ipairs { { table.unpack(present, 1, half) }, { table.unpack(present, half + 1) } } do
          assemble(texts, part, refused)
        end
      end
    end
  end
end

-- Distinct texts of the cases; each case gets the index of its text.
local function distinct(cases)
  local texts, index = {}, {}
  for _, case in ipairs(cases) do
    if not index[case.text] then
      texts[#texts + 1] = case.text
      index[case.text] = #texts
    end
    case.kernel = index[case.text]
  end
  return texts
end

-- ---- one case ------------------------------------------------------------------------------------

local fill = setmetatable({}, { __index = function(cache, count)
  local text = ("\xcd"):rep(count)
  rawset(cache, count, text)
  return text
end })

local function arrays_of(case, device)
  local arrays = {}
  for i, arg in ipairs(case.args) do
    if type(arg) == "table" and (arg.input or arg.output) then
      local bytes = arg.input or arg.initial or fill[arg.output]
      if #bytes == 0 then bytes = "\0" end
      arrays[i] = tc.frombytes(bytes, tc.u8, { #bytes }, { device = device })
    end
  end
  return arrays
end

local function arguments_of(case, arrays)
  local list = {}
  for i, arg in ipairs(case.args) do
    if type(arg) ~= "table" then
      list[i] = arg
    elseif arg.hidden then
      break
    elseif arg.pointer then
      list[i] = arrays[arg.pointer]
    elseif arg.map then
      list[i] = tc.tensormap(arrays[arg.of], arg.map)
    else
      list[i] = arrays[i]
    end
  end
  return list
end

local function collect(case, arrays)
  local parts = {}
  for i, arg in ipairs(case.args) do
    if type(arg) == "table" and arg.output then parts[#parts + 1] = arrays[i]:tobytes():sub(1, arg.output) end
  end
  for _, array in pairs(arrays) do array:free() end
  return table.concat(parts)
end

local function launch(case, kernel, device)
  local arrays = arrays_of(case, device)
  kernel:launch { grid = case.grid, block = case.block, cluster = case.cluster, smem = case.smem,
    args = arguments_of(case, arrays), device = device }
  device:synchronize()
  return collect(case, arrays)
end

-- The bytes that the case leaves on the emulator; nil and why it does not run there.
local last_text, last_kernel
function M.emulate(case, options)
  local ok, result, why = pcall(function()
    if last_text ~= case.text then
      last_kernel = case.whole and tc.ptx(case.text):kernel(case.entry)
        or tc.ptx(kernels.header .. case.text:gsub("KERNEL", "k")):kernel "k"
      last_text = case.text
    end
    local arrays = arrays_of(case, "emulator:sm_90a")
    local report = last_kernel:emulate { grid = case.grid, block = case.block, cluster = case.cluster, smem = case.smem,
      args = arguments_of(case, arrays), target = "sm_90a", numerics = "hardware",
      mode = options and options.mode or "fast" }
    local bytes = collect(case, arrays)
    if not report.completed then
      local hazard = report.hazards[1]
      return nil, hazard and ("%s: %s"):format(hazard.rule, hazard.message) or "it did not complete"
    end
    return bytes
  end)
  if not ok then
    last_text = nil
    return nil, tostring(result):gsub("\n.*", "")
  end
  return result, why
end

-- ---- a group -------------------------------------------------------------------------------------

-- The kernels of a batch that these cases need.
local function needed(cases, numbers, batch)
  local indices, seen = {}, {}
  for _, i in ipairs(numbers) do
    local kernel = cases[i].kernel
    if (kernel - 1) // BATCH == batch and not seen[kernel] then
      seen[kernel] = true
      indices[#indices + 1] = kernel
    end
  end
  table.sort(indices)
  return indices
end

-- Calls each(i, case, outcome) for the cases with these numbers, in rising order; outcome.device are the bytes, or
-- outcome.refused why the assembler (or outcome.failed why the driver) does not take it.  before(i) is called ahead of
-- anything that can break.
function M.on_device(cases, device, numbers, before, each)
  local texts = distinct(cases)
  local refused, module, loaded = {}, nil, nil
  for _, i in ipairs(numbers) do
    local case = cases[i]
    local batch = (case.kernel - 1) // BATCH
    if case.whole then
      module = tc.ptx(case.text)
    elseif batch ~= loaded then
      module, loaded = assemble(texts, needed(cases, numbers, batch), refused), batch
    end
    local outcome = {}
    if refused[case.kernel] then
      outcome.refused = refused[case.kernel]
    elseif device then
      before(i)
      local ok, result = pcall(function() return launch(case, module:kernel(case.entry or "k" .. case.kernel),
        device) end)
      if ok then outcome.device = result else outcome.failed = tostring(result):gsub("\n.*", "") end
    end
    each(i, case, outcome)
    -- A fault takes the process's context along.
    if outcome.failed and outcome.failed:match "failed on " then error "the device is lost" end
  end
end

return M

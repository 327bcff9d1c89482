-- The catalogue of faults (spec/hazard_spec.lua) on a GPU under compute-sanitizer: what its tools say of each spoilt
-- kernel
-- that is one of Hopper, beside what the emulator says.
--   lua spec/device_sanitizer.lua [--device cuda:0] [--out FOLDER] [--seconds 60] [--jobs 8]
package.path = "./?.lua;spec/?.lua;" .. package.path
local tc = require "tcmma"
local mutation = require "hazard_mutation"

local TOOLS = { "memcheck", "racecheck", "synccheck", "initcheck" }

-- The rows are local to the spec: its text is run with nothing to describe.
local function rows()
  local file = assert(io.open "spec/hazard_spec.lua")
  local text = file:read "a" .. "\nreturn catalogue\n"
  file:close()
  local silent = setmetatable({ describe = function() end }, { __index = _G })
  local list = {}
  for _, row in ipairs(assert(load(text, "@spec/hazard_spec.lua", "t", silent))()) do
    local case = {}
    for key, value in pairs(row[3]) do case[key] = value end
    case.target = "sm_90a"
    local plain = mutation.text(case)
    local ok, spoilt = pcall(row[4], plain)
    -- a row of Blackwell is one of Hopper too where the same change can be made to Hopper's text
    if ok and (spoilt ~= plain or case.block)
      and pcall(function() return tc.ptx(spoilt):cubin { target = "sm_90a" } end) then
      list[#list + 1] = { number = row[1], what = row[2], case = case, text = spoilt,
        native = row[3].target == "sm_90a" }
    end
  end
  list[#list + 1] = { number = "-", what = "the kernel itself", case = { target = "sm_90a" },
    text = mutation.text { target = "sm_90a" }, native = true }
  list[#list + 1] = { number = "-", what = "the kernel itself, in a cluster", case = { target = "sm_90a", cluster = 2 },
    text = mutation.text { target = "sm_90a", cluster = 2 }, native = true }
  return list
end

local function launch(row, device)
  local function map(array, box)
    return tc.tensormap(array, { dims = { 256, 256 }, strides = { 512 }, box = box, swizzle = "128B", l2 = "128B",
      dtype = "f16" })
  end
  local a = tc.randint({ 256, 256 }, tc.f16, { low = -2, high = 3, seed = 1, device = device })
  local b = tc.randint({ 256, 256 }, tc.f16, { low = -2, high = 3, seed = 2, device = device })
  local out = tc.full({ 256, 256 }, -999, tc.f16, { device = device })
  local split = row.case.cluster or 1
  tc.ptx(row.text):kernel "matmul":launch {
    grid = { split }, block = { row.case.block or tonumber(row.text:match "%.maxntid (%d+)") }, cluster = { split },
    smem = 160 * 1024, args = { map(a, { 64, 128 }), map(b, { 64, 64 }), map(out, { 64, 64 }) }, device = device,
  }
  device:synchronize()
  local expected = tc.reference.matmul(a:to "emulator", b:to "emulator")
  print("RESULT " .. (out:to "emulator":equal(expected:astype(tc.f16)) and "right" or "wrong"))
end

local function read(path)
  local file = io.open(path)
  if not file then return "" end
  local text = file:read "a"
  file:close()
  return text
end

-- What a tool said: its first finding, or how the run ended.
local function said(text)
  local found
  for line in text:gmatch "=========%s*([^\n]+)" do
    if not found and (line:match "^Error" or line:match "^Warning" or line:match "Race" or line:match "Invalid"
      or line:match "Barrier" or line:match "hazard" or line:match "Uninitialized" or line:match "Misaligned"
      or line:match "Program hit") and not line:match "SUMMARY" then
      found = line
    end
  end
  local errors = text:match "ERROR SUMMARY: (%d+)" or text:match "RACECHECK SUMMARY: (%d+)"
  local result = text:match "RESULT (%w+)"
  local ended = result and "result " .. result or text:match "ENDED 124" and "does not end"
    or (text:match "lua[%d.]*: [^\n]*:%d+: ([^\n]*)" or "fails")
  return ("%s findings%s; %s"):format(errors or "?", found and ": " .. found:sub(1, 90) or "", ended)
end

local function option(name, standard)
  for i = 1, #arg do
    if arg[i] == "--" .. name then return arg[i + 1] end
  end
  return standard
end

local list = rows()
local device = option("device", "cuda:0")
if option "row" then
  launch(list[tonumber(option "row")], assert(tc.device(device)))
  return
end

local out = option("out", "/tmp/tcmma-sanitizer")
os.execute(("rm -rf '%s' && mkdir -p '%s'"):format(out, out))
local jobs = assert(io.open(out .. "/jobs", "w"))
for i in ipairs(list) do
  for _, tool in ipairs(TOOLS) do
    jobs:write(("timeout %s compute-sanitizer --tool %s --print-limit 4 %s %s --row %d --device %s >%s/%d.%s 2>&1;"
      .. " echo ENDED $? >>%s/%d.%s\n"):format(option("seconds", "60"), tool, os.getenv "LUA" or "lua5.4", arg[0], i,
        device, out, i,
      tool, out, i, tool))
  end
end
jobs:close()
os.execute(("xargs -P %s -d '\\n' -I{} sh -c '{}' <%s/jobs"):format(option("jobs", "8"), out))
for i, row in ipairs(list) do
  local report = mutation.run(row.case, row.text)
  print(("%s %s%s"):format(row.number, row.what, row.native and "" or " (change of the Blackwell row)"))
  print(("  emulator: %s"):format(#report.hazards == 0 and "silent" or table.concat(mutation.rules_of(report), ", ")))
  for _, tool in ipairs(TOOLS) do print(("  %s: %s"):format(tool, said(read(("%s/%d.%s"):format(out, i, tool))))) end
end

--- The GPU benchmark, in steps that can run on different machines:
--
--   lua5.4 bench/gpu.lua export DIR [target]   kernels as cubins, and DIR/manifest.json (needs nvJitLink, no GPU)
--   python3 bench/peers.py --dir DIR ...       times them beside cuBLAS, Triton, Gluon and Pallas (needs the GPU)
--   lua5.4 bench/gpu.lua latency FILE.json     compile latency and launch cost of the module itself (needs the GPU)
--   lua5.4 bench/gpu.lua report FILE.json...   writes docs/bench.md and docs/bench.svg
--
-- `make bench-gpu` does all four.

local json = require "tcmma.json"
local matmul = require "tcmma.matmul"
local tc = require "tcmma"

local here = debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./"
local shapes = dofile(here .. "shapes.lua")

local CANDIDATES = 4 -- of the model, beside those of bench/shapes.lua

--- An object of strings, numbers and booleans, and a member that is JSON already.
local function encode(object, name, raw)
  local text = json.encode(object)
  return name and text:sub(1, -2) .. ", " .. json.quote(name) .. ": " .. raw .. "}" or text
end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  file:close()
end

-- ---- export ---------------------------------------------------------------------------------------------------

--- The configurations to try for a problem, the model's choice first.
local function configurations(problem, extra)
  local list, seen = {}, {}
  local function add(config)
    local ok, complete = pcall(matmul.choose, problem, config)
    if not ok then return end
    local text = matmul.describe(complete)
    if seen[text] then return end
    seen[text] = true
    list[#list + 1] = complete
  end
  add(nil)
  local tiles = {}
  for _, candidate in ipairs(matmul.candidates(problem)) do
    local c = candidate.config
    local tile = ("%dx%d %s %d"):format(c.tile_m, c.tile_n, c.swap, c.split_k)
    if not tiles[tile] and #list < CANDIDATES then
      tiles[tile] = true
      add(c)
    end
  end
  local atom = 1024 // tc.dtype(problem.dtype).bits
  for _, given in ipairs(extra) do
    local config = {}
    for key, value in pairs(given) do config[key] = value end
    config.units, config.tile_k = nil, atom * (given.units or 1)
    if config.swap then config.tile_n = config.tile_n or (problem.M + 15) // 16 * 16 end
    add(config)
  end
  return list
end

local function export_problem(out, dir, group, name, problem, extra)
  local stem = ("%s_%s_%dx%dx%d"):format(name, problem.dtype, problem.M, problem.N, problem.K)
  local exported = 0
  for i, config in ipairs(configurations(problem, extra)) do
    local ok, kernel, complete = pcall(matmul.kernel, problem, config)
    local cubin, log
    if ok then
      ok, cubin, log = pcall(kernel.cubin, kernel, { target = problem.target })
      if ok and not cubin then error(log, 0) end
    end
    if not ok then
      io.stderr:write(stem, " ", matmul.describe(config), ": ", tostring(kernel.name and cubin or kernel), "\n")
    else
      local path = ("%s/%s_%d"):format(dir, stem, i)
      write(path .. ".cubin", cubin)
      kernel:export(path .. ".ptx", { target = problem.target })
      kernel:export(path, { target = problem.target })
      local manifest = read(path .. ".json")
      os.remove(path .. ".json")
      os.remove(path .. ".ptx")
      local info = kernel:info { target = problem.target }
      local warning = (info.log or ""):match "%(C75%d+%)[^\n]*"
      if warning then io.stderr:write(stem, " ", matmul.describe(complete), ": ", warning, "\n") end
      out[#out + 1] = encode({
        group = group, name = name, dtype = problem.dtype, M = problem.M, N = problem.N, K = problem.K,
        config = matmul.describe(complete), choice = i == 1, cubin = path:match "[^/]+$" .. ".cubin",
        registers = info.registers, spills = (info.spill_stores or 0) + (info.spill_loads or 0),
      }, "kernel", manifest)
      exported = exported + 1
    end
  end
  print(("%s: %d configurations"):format(stem, exported))
end

local function export(dir, target)
  target = target or "sm_90a"
  os.execute("mkdir -p " .. dir)
  local out = {}
  for _, group in ipairs(shapes.groups) do
    for _, shape in ipairs(group[2]) do
      local M, N, K = table.unpack(shape)
      for _, dtype in ipairs { "bf16", "e4m3" } do
        if dtype == "bf16" or (K % 16 == 0 and N % 16 == 0) then
          export_problem(out, dir, group[1], "matmul", {
            M = M, N = N, K = K, dtype = dtype, out_dtype = "bf16", transpose_b = true, target = target,
          }, M <= 128 and shapes.extra.small or K % 16 ~= 0 and shapes.extra.ragged or shapes.extra.large)
        end
      end
    end
  end
  for _, e in ipairs(shapes.epilogues) do
    local problem = {
      M = e[2], N = e[3], K = e[4], dtype = e[5], out_dtype = "bf16", transpose_b = true, target = target,
    }
    for key, value in pairs(e[6]) do problem[key] = value end
    export_problem(out, dir, "epilogue", e[1], problem, {
      { tile_m = 128, tile_n = 256, stages = 3 }, { tile_m = 128, tile_n = 192 }, { tile_m = 128, tile_n = 128 },
    })
  end
  export_problem(out, dir, "launch", "launch", {
    M = 128, N = 64, K = 64, dtype = "bf16", out_dtype = "bf16", transpose_b = true, target = target,
  }, {})
  write(dir .. "/manifest.json", ("{\"target\": \"%s\", \"kernels\": [\n%s\n]}\n"):format(target,
    table.concat(out, ",\n")))
  print(("%d kernels in %s/manifest.json"):format(#out, dir))
end

-- ---- latency and launch cost ----------------------------------------------------------------------------------

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

--- One child process: from the start of Lua to the first result, then after edits.
local CHILD = [[
local start = os.clock()
local tc = require "tcmma"
local begin = tc.clock()
local matmul = require "tcmma.matmul"
local device = assert(tc.device "cuda:0")
local a = tc.randn({ 1024, 1024 }, "bf16", { seed = 1, device = device })
local b = tc.randn({ 1024, 1024 }, "bf16", { seed = 2, device = device })
local out = tc.zeros({ 1024, 1024 }, "bf16", { device = device })
device:synchronize()
local ready = tc.clock()
local times = {}
for i, config in ipairs { { tile_n = 128, stages = 4 }, { tile_n = 128, stages = 3 }, { tile_n = 256, stages = 3 } } do
  local from = tc.clock()
  matmul(a, b, out, { transpose_b = true, config = config })
  device:synchronize()
  times[i] = tc.clock() - from
end
print(("RESULT %.6f %.6f %.6f %.6f"):format(ready - begin, times[1], times[2], times[3]))
]]

local function child(lua, cache)
  local from = tc.clock()
  -- nvJitLink keeps a cache of its own beside ours.
  local pipe = assert(io.popen(("TCMMA_CACHE_DIR=%s CUDA_CACHE_PATH=%s.driver %s -e '%s'"):format(cache, cache, lua,
    CHILD:gsub("'", "'\\''"))))
  local text = pipe:read "a"
  pipe:close()
  local total = tc.clock() - from
  local context, first, edit, edit2 = text:match "RESULT (%S+) (%S+) (%S+) (%S+)"
  if not context then error("the child process failed: " .. text, 0) end
  return {
    context = tonumber(context), first = tonumber(first), edit = tonumber(edit), edit2 = tonumber(edit2),
    process = total - tonumber(edit) - tonumber(edit2),
  }
end

local function latency(path)
  local lua = os.getenv "LUA" or "lua5.4"
  local device, why = tc.device "cuda:0"
  if not device then error(why, 0) end
  local fresh, hit = {}, {}
  for i = 1, 3 do
    local cache = os.tmpname()
    os.remove(cache)
    fresh[i] = child(lua, cache)
    local pipe = assert(io.popen("ls " .. cache))
    local _, kept = pipe:read "a":gsub("%.cubin", "")
    pipe:close()
    if kept ~= 3 then error(("%d of 3 kernels were assembled into the fresh cache %s"):format(kept, cache), 0) end
    hit[i] = child(lua, cache)
    os.execute(("rm -rf %s %s.driver"):format(cache, cache))
  end
  local function middle(list, field)
    local values = {}
    for i, item in ipairs(list) do values[i] = item[field] end
    return median(values)
  end

  local a = tc.randn({ 128, 64 }, "bf16", { seed = 1, device = device })
  local b = tc.randn({ 64, 64 }, "bf16", { seed = 2, device = device })
  local out = tc.zeros({ 128, 64 }, "bf16", { device = device })
  local kernel = matmul.kernel { M = 128, N = 64, K = 64, dtype = "bf16", transpose_b = true, target = device.target }
  local opts = { transpose_b = true }
  local function burst(f)
    f()
    device:synchronize()
    local times = {}
    for i = 1, 40 do
      local from = tc.clock()
      for _ = 1, 200 do f() end
      times[i] = (tc.clock() - from) * 1e6 / 200
      device:synchronize()
    end
    return median(times)
  end
  local rows = {
    encode { kind = "latency", tool = "tcmma", process = middle(fresh, "process"), context = middle(fresh, "context"),
      first = middle(fresh, "first"), edit = middle(fresh, "edit"), edit2 = middle(fresh, "edit2"),
      hit = middle(hit, "first"), hit_process = middle(hit, "process") },
    encode { kind = "launch", what = "tcmma, kernel(a, b, out), 3 tensor maps",
      us = burst(function() kernel(a, b, out) end) },
    encode { kind = "launch", what = "tcmma, matmul(a, b, out, opts)",
      us = burst(function() matmul(a, b, out, opts) end) },
    encode { kind = "launch", what = "tcmma, matmul with a new table of options", us = burst(function()
      matmul(a, b, out, { transpose_b = true })
    end) },
  }
  write(path, "{\"rows\": [\n" .. table.concat(rows, ",\n") .. "\n]}\n")
  print(table.concat(rows, "\n"))
end

local command, argument = arg[1], arg[2]
if command == "export" and argument then
  export(argument, arg[3])
elseif command == "latency" and argument then
  latency(argument)
elseif command == "report" and argument then
  dofile(here .. "report.lua")(table.move(arg, 2, #arg, 1, {}))
else
  io.stderr:write("usage: bench/gpu.lua export DIR [target] | latency FILE.json | report FILE.json...\n")
  os.exit(2)
end

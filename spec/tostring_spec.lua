-- tostring of every object and of every table that the API returns: one line without addresses,
-- and what it says is so.
local documentation = require "tcmma.documentation"
local every_object = require "every_object"
local process = require "process"
local tc = require "tcmma"

local here = "spec/every_object.lua"

local function is_one_line(name, object)
  local text = tostring(object)
  assert(not text:find("[\r\n]"), name .. ": " .. text)
  assert(not text:find("0x%x%x%x%x%x"), name .. ": " .. text)
  assert(#text > 1 and #text <= 420, name .. ": " .. text)
  return text
end

-- Tables inside of what is returned, by name; not those of the user, nor functions.
local function parts(name, value, fn, depth)
  fn(name, value)
  if type(value) ~= "table" or depth == 0 then return end
  for key, inner in next, value do
    if type(inner) == "table" and key ~= "config" and type(key) ~= "function" then
      parts(name .. "." .. tostring(key), inner, fn, depth - 1)
    end
  end
end

-- What the line says, from the fields of the object: matched plainly; {} when the name says all.
local function names_of(list, field)
  local names = {}
  for i, x in ipairs(list) do names[i] = tostring(field and x[field] or x) end
  return "{" .. table.concat(names, ", ") .. "}"
end

local facts = {
  ["kernel"] = function(k) return { "kernel '" .. k.name .. "'", #k .. " operations so far", here .. ":" } end,
  ["finished kernel"] = function(k) return { "'one', " .. #k .. " operation, recorded at ", here } end,
  ["argument"] = function(a) return { "GMEM ref, " .. tostring(a.dtype) .. " (M, 64), argument 1" } end,
  ["smem"] = function(s) return { "SMEM ref, " .. tostring(s.dtype) .. " (" .. table.concat(s.shape, ", ") .. ")" } end,
  ["slot"] = function(s) return { "(" .. table.concat(s.shape, ", ") .. "), view of (2, 128, 64), swizzle 128" } end,
  ["tmem"] = function(t) return { "TMEM ref, float32 (" .. table.concat(t.shape, ", ") .. ")" } end,
  ["warp"] = function(r) return { "role '" .. r.name .. "', " .. r.warps .. " warp" } end,
  ["warpgroup"] = function(r) return { "role '" .. r.name .. "', " .. r.warps // 4 .. " warpgroup" } end,
  ["roles"] = function(list) return { "{role '" .. list[1].name .. "', 1 warp, role '" .. list[2].name } end,
  ["barriers"] = function(b) return { "barrier 'ring', 1 arrival, array of " .. #b } end,
  ["barrier"] = function() return { "barrier 'ring', 1 arrival, one of 3" } end,
  ["union"] = function() return { "union of 2 alternatives in SMEM" } end,
  ["sum"] = function() return { "recorded s32: m + 1" } end,
  ["predicate"] = function() return { "recorded predicate: m < 3" } end,
  ["grid_names"] = function(list) return { names_of(list) } end,
  ["shape"] = function(shape) return { "{" .. tostring(shape[1]) .. ", 64}" } end,
  ["smem shape"] = function(shape) return { names_of(shape) } end,
  ["fragment"] = function(f) return { "fragment float32 (" .. table.concat(f.shape, ", ") .. ")" } end,
  ["dtype"] = function(t) return { t.name } end,
  ["device"] = function(d) return { d.name, d.target } end,
  ["stream"] = function() return { tc.device().name } end,
  ["array"] = function(a)
    return { a.dtype.short .. "[" .. table.concat(a.shape, ", ") .. "] on " .. a.device.name }
  end,
  ["array shape"] = function(shape) return { names_of(shape) } end,
  ["properties"] = function(p) return { "sm_count = " .. p.sm_count, "smem_limit = " .. p.smem_limit } end,
  ["config"] = function(c) return { "emulator_mode = " .. c.emulator_mode } end,
  ["module"] = function(m) return { m.target .. " with " .. #m:kernels() .. " kernel" } end,
  ["function"] = function(f) return { f.name .. "(p .u64)" } end,
  ["entry"] = function(e) return { "name = " .. e.name, "bytes = " .. e.params[1].bytes } end,
  ["tensormap"] = function() return { "f32 {64, 64}, box {32, 64}, swizzle 128B" } end,
  ["report"] = function(r) return { "'" .. r.kernel .. "' on " .. r.device .. ": completed, 0 hazards" } end,
  ["report with a hazard"] = function(r)
    local h = r.hazards[1]
    return { ": completed, 1 hazard: " .. h.rule .. " at " .. h.lua_file .. ":" .. h.lua_line .. "; report:show()" }
  end,
  ["hazard"] = function(h)
    return { ("[%s, %s] at %s:%d: %s"):format(h.rule, h.severity, h.lua_file, h.lua_line, h.message:sub(1, 100)) }
  end,
  ["counters"] = function(c) return { "tma_bytes = " .. c.tma_bytes, "... (12 in all)" } end,
  ["info"] = function(i)
    return { ("'%s' for %s: %d threads, "):format(i.entry, i.target, i.threads), i.smem .. " bytes of SMEM",
      i.tmem_columns .. " TMEM columns", i.barriers .. " barriers, " .. #i.lints .. " lints" }
  end,
  ["estimate"] = function(e) return { e.machine, "bound by " .. e.bound } end,
  ["comparison"] = function(c) return { c.mismatches .. " of " .. c.elements .. " elements differ" } end,
  ["measured"] = function(m) return { m.repetitions .. " calls, clock of the " .. m.clock } end,
  ["tried"] = function(t) return { "{{config = {tile = 1}, cost = " .. t[1].cost, "by = time" } end,
  ["place"] = function(p) return { names_of(p) } end,
  ["dtypes"] = function(list) return { "{float64, float32, ", "... (" .. #list .. " in all)}" } end,
  ["devices"] = function(list) return { names_of(list) } end,
  ["versions"] = function() return { "lua = " .. _VERSION } end,
  ["settings"] = function(list) return { "... (" .. #list .. " in all)}", "field = " .. list[1].field } end,
  ["documentation"] = function(list) return { "... (" .. #list .. " in all)}" } end,
  ["block_spec"] = function(spec)
    return { "block_spec {shape = " .. names_of(spec.shape) .. ", delay_release = 0}" }
  end,
  ["choice"] = function(c) return { "tile_m = " .. c.tile_m, "stages = " .. c.stages } end,
  ["candidates"] = function(list) return { "... (" .. #list .. " in all)}" } end,
  ["tc"] = function() return { tc._VERSION .. ": tc.help() lists" } end,
  ["tc.npy"] = function() return { "tc.npy: load, save" } end,
  ["tc.safetensors"] = function() return { "tc.safetensors: load, save" } end,
  ["tc.matmul"] = function() return { "candidates, choose, describe, kernel, tune" } end,
  ["tc.reference"] = function() return { "tc.reference: matmul" } end,
}

describe("tostring of", function()
  local plain, seen = every_object.plain(), {}
  local recorded, kernel = every_object.recorded()

  for _, list in ipairs { plain, recorded } do
    for _, pair in ipairs(list) do
      local name, object = pair[1], pair[2]
      local meta = debug.getmetatable(object)
      if meta and rawget(meta, "__name") then seen[meta.__name:match "^[%w._]+"] = true end
      it("the " .. name .. " is one true line", function()
        parts(name, object, is_one_line, name == "tc" and 0 or 4)
        local text = is_one_line(name, object)
        for _, fact in ipairs(facts[name] and facts[name](object) or {}) do
          assert(text:find(fact, 1, true), ("%s: '%s' is not in: %s"):format(name, fact, text))
        end
      end)
    end
  end

  it("every class is among them", function()
    for class in pairs(documentation.classes(documentation.all())) do assert.is_true(seen[class], class) end
  end)

  it("what belongs to a closed kernel is one line, too", function()
    kernel:close()
    for _, pair in ipairs(recorded) do is_one_line(pair[1], pair[2]) end
  end)

  it("results that are tables is one line", function()
    local folder = process.folder()
    local path = folder .. "/x.safetensors"
    tc.safetensors.save(path, { a = tc.zeros({ 2 }, "f32") }, { by = "me" })
    local arrays, metadata = tc.safetensors.load(path)
    assert.equal("{a = tcmma.array f32[2] on " .. tc.device().name .. "}", tostring(arrays))
    assert.equal("{by = me}", tostring(metadata))
    assert.matches("^{" .. folder:gsub("%p", "%%%0") .. "/k%.ptx}$",
      tostring(every_object.kernel():export(folder .. "/k.ptx", { target = "sm_100a" })))
    process.remove(folder)
    assert.equal("{{1, 2}, {3, 4}}", tostring(tc.from_table({ { 1, 2 }, { 3, 4 } }, "i32"):totable()))
    assert.equal("{0, 0}", tostring(tc.zeros({ 2 }, "i8"):totable()))
    is_one_line("totable", tc.zeros({ 40, 40 }, "f64"):totable())
    local _, config = tc.matmul.kernel { M = 64, N = 64, K = 64, dtype = "f16", target = "sm_100a" }
    is_one_line("config", config)
    tc.kernel { name = "q", target = "sm_100a", grid = { 4 }, grid_names = { "m" }, body = function()
      is_one_line("indices", (tc.query_cluster_cancel(tc.cluster_cancel_result(), { "m" })))
    end }
  end)
end)

describe("the line of a table", function()
  local function line(fill)
    local list = tc.nearest("zero", { "zeros" })
    list[1] = nil
    fill(list)
    return tostring(list)
  end

  it("says how much it leaves out", function()
    assert.equal("{}", line(function() end))
    local text = line(function(list) for i = 1, 1000 do list[i] = i end end)
    assert.matches("^{1, 2, 3, .*, %.%.%. %(1000 in all%)}$", text)
    assert.is_true(#text < 240)
  end)

  it("survives what holds itself, long texts, functions, and values that fail", function()
    assert.matches("^{{{{", line(function(list) list[1] = list end))
    assert.equal("{" .. ("x"):rep(60) .. "...}", line(function(list) list[1] = ("x"):rep(5000) end))
    assert.equal("{a..., function, thread, nan}", line(function(list)
      list[1], list[2], list[3], list[4] = "a\nb", print, coroutine.create(print), math.abs(0 / 0)
    end):gsub("%-nan", "nan"), nil)
    assert.matches("é%.%.%.}$", line(function(list) list[1] = ("x"):rep(57) .. "ééé" end))
    local ok, message = pcall(line, function(list)
      list[1] = setmetatable({}, { __tostring = function() error("no", 0) end })
    end)
    assert.is_false(ok)
    assert.equal("no", message)
    line(function(list)
      for i = 1, 50 do list[("name%d"):format(i)] = i end
      list[1] = setmetatable({}, { __tostring = function()
        for key in pairs(list) do list[key] = nil end
        collectgarbage()
        return "gone"
      end })
    end)
  end)
end)

describe("the long forms", function()
  it("of a report and of an info are printed by show", function()
    local output, ok = process.run([[
      package.path = "spec/?.lua;" .. package.path
      local tc, every_object = require "tcmma", require "every_object"
      local array = tc.zeros({ 128, 64 }, "f16")
      local report = every_object.hazardous():emulate({ mode = "check", target = "sm_100a" }, array)
      assert(select("#", report:show()) == 0)
      io.write "----\n"
      io.stdout:flush()
      local info = every_object.kernel():info { target = "sm_90a" }
      assert(select("#", info:show()) == 0)
      io.write(report:text(), "\n")]], { TCMMA_DEVICE = "emulator" })
    assert(ok, output)
    local report, info = output:match "^(.*)%-%-%-%-\n(.*)$"
    assert.matches("\n%[undefined%-shared, error%] .*\n    fix: .*every_object%.lua:%d+\n", report)
    assert.matches("\n  tma_bytes +16384\n", report)
    assert.matches("target = sm_90a\nthreads = 128\n", info, 1, true)
    assert.matches("\nSMEM: 0 of 232448 bytes\n", info, 1, true)
    assert.matches("fix: ref:store or a copy before it", info, 1, true)
  end)
end)

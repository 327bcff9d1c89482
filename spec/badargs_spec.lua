-- Wrong arguments, made from the signatures: every parameter and every option of every function
-- gets values of every kind that its type does not take.
local tc = require "tcmma"
local documentation = require "tcmma.documentation"
local helper = require "helper"

-- What is passed, and a piece of text with which a message must describe it.
local nan = 0 / 0
local hostile = {
  { kind = "file", value = io.stdout, shown = "FILE" },
  { kind = "thread", value = coroutine.create(function() end), shown = "thread" },
  { kind = "fraction", value = 1.5, shown = "1%.5" },
  { kind = "huge", value = 2.0 ^ 100, shown = "e%+30" },
  { kind = "nan", value = nan, shown = "nan" },
  { kind = "boolean", value = true, shown = "true" },
  { kind = "string", value = "nonsense", shown = "nonsense" },
  { kind = "table", value = {}, shown = "table" },
  { kind = "function", value = function() end, shown = "function" },
  { kind = "event", value = tc.device():event(), shown = "tcmma.event" },
  { kind = "nil", value = nil, shown = "n[io][lv]" }, -- "nil", "no value"
}

-- Kinds that a type takes, beside its own objects; values are checked elsewhere.
local numbers = { "fraction", "huge", "nan" }
local takes = {
  integer = {}, number = numbers, boolean = { "boolean" }, string = { "string" }, table = { "table" },
  any = "all", ["function"] = { "function" }, DType = { "string" }, Space = { "string" },
  Scalar = {}, Fragment = {}, Slice = {}, Ref = {}, Barrier = {},
}

local function split_union(text)
  local parts, depth, from = {}, 0, 1
  for at = 1, #text do
    local c = text:sub(at, at)
    if c:find "[%({<]" then depth = depth + 1 elseif c:find "[%)}>]" then depth = depth - 1 end
    if c == "|" and depth == 0 then
      parts[#parts + 1] = text:sub(from, at - 1)
      from = at + 1
    end
  end
  parts[#parts + 1] = text:sub(from)
  return parts
end

-- The set of kinds that a type takes; nil: all of them.
local function accepted(text, optional)
  local set = { ["nil"] = optional }
  for _, part in ipairs(split_union(text)) do
    local kinds = takes[part]
    if part:find "%[%]$" or part:find "^{" or part:find "^table<" then
      kinds = { "table" }
    elseif part:find '^"' then
      kinds = {}
    end
    if kinds == "all" then return nil end
    for _, kind in ipairs(kinds or {}) do set[kind] = true end
    if part == "tcmma.event" then set.event = true end
  end
  return set
end

-- ---- legal arguments ---------------------------------------------------------------------------

local function array() return tc.zeros({ 4, 4 }, "f32") end

-- Runs fn with an open recording and the objects that calls need.
local function with_objects(fn)
  helper.recording({ name = "k", args = { tc.gmem({ 128, 64 }, "f16"), tc.gmem({ 64, 128 }, "f16"),
    tc.gmem({ 4 }, "i32") }, grid = { 4 }, grid_names = { "m" }, cluster = { 2 }, cluster_names = { "c" } },
  function(k, a, b, sem)
    fn {
      k = k, a = a, b = b, sa = tc.smem({ 128, 64 }, "f16"), sb = tc.smem({ 64, 128 }, "f16"),
      acc = tc.tmem({ 128, 128 }, "f32"), loaded = tc.barrier {}, done = tc.barrier { orders_tensor_core = true },
      response = tc.cluster_cancel_result(), sem = sem,
      m = tc.axis_index "m", pred = tc.axis_index("m"):lt(2), var = tc.var(0), fragment = tc.full({ 128, 64 },
      0, "f32"),
      half = tc.full({ 128, 64 }, 0, "f16"), full = tc.full({ 128, 128 }, 0, "f32"),
    }
  end)
end

local module_text = [[.version 8.0
.target sm_90a
.address_size 64
.visible .entry f(.param .u64 p) { ret; }
]]

-- A legal argument of a type; o: the objects of a recording.
local legal = {
  integer = function() return 1 end, number = function() return 1 end, boolean = function() return true end,
  string = function() return "name" end, table = function() return { { 1 } } end, any = function() return 1 end,
  ["function"] = function() return function() end end, DType = function() return "f32" end,
  Space = function() return "SMEM" end, ["integer[]"] = function() return { 4, 4 } end,
  ["string[]"] = function() return { "name" } end,
  ["tcmma.array"] = array, ["tcmma.device"] = function() return tc.device() end,
  ["tcmma.event"] = function() return tc.device():event() end,
  ["tcmma.stream"] = function() return tc.device():stream() end,
  Ref = function(o) return o.sa end, Barrier = function(o) return o.loaded end, Scalar = function(o) return o.m end,
  Fragment = function(o) return o.fragment end, ['"max"'] = function() return "max" end,
}

-- Calls whose arguments have to fit together.
local calls = {
  ["tcmma.mma"] = function(o) return { o.acc, o.sa, o.sb } end,
  ["tcmma.copy_gmem_to_smem"] = function(o) return { o.a, o.sa, o.loaded } end,
  ["tcmma.copy_smem_to_gmem"] = function(o) return { o.sa, o.a } end,
  ["tcmma.async_load_tmem"] = function(o) return { o.acc } end,
  ["tcmma.async_store_tmem"] = function(o) return { o.acc, o.full } end,
  ["tcmma.commit_arrive"] = function(o) return { o.done } end,
  ["tcmma.where"] = function(o) return { o.pred, 1, 2 } end,
  ["tcmma.axis_index"] = function() return { "m" } end,
  ["tcmma.axis_size"] = function() return { "m" } end,
  ["tcmma.range"] = function() return { 0, 2, 1, function() end } end,
  ["tcmma.role"] = function() return { { warps = 1 } } end,
  ["tcmma.allocate"] = function() return { "SMEM", { 8, 64 }, "f16" } end,
  ["tcmma.smem"] = function() return { { 8, 64 }, "f16" } end,
  ["tcmma.tmem"] = function() return { { 128, 64 }, "f32" } end,
  ["tcmma.iota"] = function() return { { 128, 64 }, 1 } end,
  ["tcmma.full"] = function() return { { 128, 64 }, 1, "f32" } end,
  ["tcmma.device"] = function() return { "emulator" } end,
  ["tcmma.use"] = function() return { "emulator" } end,
  ["tcmma.ptx"] = function() return { module_text } end,
  ["tcmma.arange"] = function() return { 0, 4, 1, "f32" } end,
  ["tcmma.from_table"] = function() return { { 1, 2 }, "f32", { 2 } } end,
  ["tcmma.frombytes"] = function() return { ("x"):rep(64), "f32", { 4, 4 } } end,
  ["tcmma.randint"] = function() return { { 4 }, "i32", { high = 3 } } end,
  ["tcmma.cluster_barrier"] = function() return { { collective_axes = "c" } } end,
  ["tcmma.union"] = function() return { tc.smem({ 8, 64 }, "f16"), tc.smem({ 8, 64 }, "f16") } end,
  ["tcmma.tensormap"] = function() return { tc.zeros({ 64, 64 }, "f16"), { box = { 64, 64 } } } end,
  ["tcmma.ds"] = function() return { 0, 8 } end,
  ["tcmma.print"] = function(o) return { "{}", o.m } end,
  ["tcmma.set_max_registers"] = function() return { 40 } end,
  ["tcmma.gmem"] = function() return { { "M", 4 }, "f16" } end,
  ["tcmma.try_cluster_cancel"] = function(o) return { o.response, o.loaded } end,
  ["tcmma.query_cluster_cancel"] = function(o) return { o.response } end,
  ["tcmma.dynamic_scheduling_loop"] = function() return { "m", function() end } end,
  ["tcmma.async_prefetch"] = function(o) return { o.a } end,
  ["tcmma.semaphore_signal"] = function(o) return { o.sem[0] } end,
  ["tcmma.semaphore_signal_parallel"] = function(o) return { { o.sem[0] } } end,
  ["tcmma.semaphore_wait"] = function(o) return { o.sem[0] } end,
  ["tcmma.atomic_add"] = function(o) return { o.sa, o.half } end,
  ["tcmma.atomic_max"] = function(o) return { o.sem, 1 } end,
  ["tcmma.atomic_min"] = function(o) return { o.sem, 1 } end,
  ["tcmma.atomic_and"] = function(o) return { o.sem, 1 } end,
  ["tcmma.atomic_or"] = function(o) return { o.sem, 1 } end,
  ["tcmma.atomic_xor"] = function(o) return { o.sem, 1 } end,
  ["tcmma.raise_documented"] = function() return { "LOOP_TILING" } end,
  ["tcmma.promise_documented"] = function() return { "PIPELINE_TURN_GRID" } end,
  ["tcmma.block_spec"] = function() return { { 4, 4 }, function() return 0, 0 end } end,
  ["tcmma.emit_pipeline"] = function() return { function() end, { grid = { 2 } } } end,
  ["tcmma.emit_pipeline_warp_specialized"] = function() return { function() end, { grid = { 2 } } } end,
  ["tcmma.nd_loop"] = function() return { { 4, 4 }, function() end, { collective_axes = "m" } } end,
  ["tcmma.planar_snake"] = function() return { 0, { 4, 4 }, 1, 2 } end,
  ["tcmma.function.launch"] = function() return { { args = { 0 }, device = "emulator:sm_90a" } } end,
  ["tcmma.function.emulate"] = function() return { { args = { 0 }, target = "sm_90a" } } end,
  ["tcmma.array.reshape"] = function() return { { 16 } } end,
  ["tcmma.array.view"] = function() return { "i32" } end,
  ["tcmma.array.to"] = function() return { "emulator" } end,
  ["tcmma.array.get"] = function() return { 0, 0 } end,
  ["tcmma.array.set"] = function() return { 0, 0, 1 } end,
  ["tcmma.array.frombytes"] = function() return { ("x"):rep(64) } end,
  ["tcmma.array.copy_from"] = function() return { array() } end,
  ["tcmma.ref.at"] = function() return { 0 } end,
  ["tcmma.ref.tile"] = function() return { { 0, 0 }, { 8, 64 } } end,
  ["tcmma.ref.store"] = function(o) return { o.half } end,
  ["tcmma.fragment.reduce"] = function() return { "max", 1 } end,
  ["tcmma.fragment.broadcast"] = function() return { { 128, 64 }, 1 } end,
  ["tcmma.kernel.launch"] = function() return { {}, array() } end,
  ["tcmma.kernel.emulate"] = function() return { {}, array() } end,
  ["tcmma.kernel.dump"] = function() return { "record" } end,
  ["tcmma.module.kernel"] = function() return { "f" } end,
  ["tcmma.kernel.profile"] = function() return { {}, array() } end,
  ["tcmma.quantize"] = function() return { tc.zeros({ 4, 64 }, "f32"), "nvfp4" } end,
  ["tcmma.dequantize"] = function() return { tc.quantize(tc.zeros({ 4, 64 }, "f32"), "mxfp8") } end,
  ["tcmma.interleave_scales"] = function() return { tc.zeros({ 4, 4 }, "e8m0") } end,
  ["tcmma.sparsify"] = function() return { tc.zeros({ 4, 64 }, "f16") } end,
  ["tcmma.autotune"] = function() return { { 1 }, function() return function() end end, {} } end,
  ["tcmma.npy.load"] = function() return { "/nowhere/x.npy" } end,
  ["tcmma.npy.save"] = function() return { "/nowhere/x.npy", array() } end,
  ["tcmma.safetensors.load"] = function() return { "/nowhere/x.safetensors" } end,
  ["tcmma.safetensors.save"] = function() return { "/nowhere/x.safetensors", { a = array() } } end,
}

local finished = tc.kernel { name = "finished", args = { tc.gmem({ 4, 4 }, "f32") }, body = function() end }
local timed = tc.kernel { name = "timed", args = { tc.gmem({ 4, 4 }, "f32") }, profile = true, body = function() end }

local selves = {
  ["tcmma.dtype"] = function() return tc.f16 end,
  ["tcmma.device"] = function() return tc.device() end,
  ["tcmma.stream"] = function() return tc.device():stream() end,
  ["tcmma.event"] = function() return tc.device():event() end,
  ["tcmma.array"] = array,
  ["tcmma.module"] = function() return tc.ptx(module_text) end,
  ["tcmma.function"] = function() return tc.ptx(module_text):kernel "f" end,
  ["tcmma.report"] = function() return tc.ptx(module_text):kernel("f"):emulate { args = { 0 }, target = "sm_90a" } end,
  ["tcmma.kernel"] = function(o) return o.k end,
  ["tcmma.kernel.launch"] = function() return finished end,
  ["tcmma.kernel.emulate"] = function() return finished end,
  ["tcmma.kernel.profile"] = function() return timed end,
  ["tcmma.ref"] = function(o) return o.sa end,
  ["tcmma.scalar"] = function(o) return o.m end,
  ["tcmma.scalar.land"] = function(o) return o.pred end,
  ["tcmma.scalar.lor"] = function(o) return o.pred end,
  ["tcmma.scalar.select"] = function(o) return o.pred end,
  ["tcmma.var"] = function(o) return o.var end,
  ["tcmma.fragment"] = function(o) return o.fragment end,
}

local function self_of(key, owner, o)
  return (selves[key] or selves[owner])(o)
end

local function arguments_of(key, parsed, o)
  if calls[key] then return calls[key](o) end
  local list = {}
  for i, p in ipairs(parsed.parameters) do
    if p.name ~= "..." and not p.optional then
      local make = legal[split_union(p.type)[1]]
      list[i] = assert(make, key .. ": no example of " .. p.type)(o)
    end
  end
  return list
end

-- ---- what a message must be -------------------------------------------------------------------

local place = "badargs_spec%.lua:(%d+): (.*)$"

local print_before = print
setup(function() _G.print = function() end end)
teardown(function() _G.print = print_before end)

-- Calls f; its message without the position, which must be this line.
local function refusal(what, f, arguments)
  local line = debug.getinfo(1, "l").currentline + 1
  local ok, message = pcall(function() f(table.unpack(arguments, 1, arguments.n)) end)
  if ok then return nil end
  assert(type(message) == "string", what .. ": an error that is no string")
  local at, text = message:match(place)
  assert(tonumber(at) == line, ("%s: the message does not point at the call: %s"):format(what, message))
  assert(not message:find "%.c:%d", what .. ": " .. message)
  assert(not text:find "'%?'", what .. ": a function without a name: " .. message)
  assert(not text:find "internal error", what .. ": " .. message)
  assert(#message < 2000, what .. ": a message of " .. #message .. " bytes")
  return text
end

local function refuses(what, f, arguments, names, shown)
  local text = refusal(what, f, arguments)
  assert(text, what .. " was taken")
  local named = false
  for _, name in ipairs(names) do named = named or text:find(name, 1, true) end
  assert(named, ("%s: the message names none of %s: %s"):format(what, table.concat(names, ", "), text))
  assert(text:find(shown), ("%s: the message does not say what was got: %s"):format(what, text))
end

local function copy(list, n)
  return table.move(list, 1, n, 1, { n = n })
end

-- ---- the specs --------------------------------------------------------------------------------

local all = documentation.all()
local classes = documentation.classes(all)

-- Functions of no interest here: they take anything, or read what the table of arguments says.
-- What their messages are about is said in other words.
local elsewhere = {
  ["tcmma.matmul, opts = table"] = "operands must be one of", -- no options are fine; these arrays are not
  ["tcmma.copy_gmem_to_smem, barrier = nil"] = "without a barrier", -- the documented message
  ["tcmma.randint, opts = nil"] = "option 'high' is missing",
  ["tcmma.emit_pipeline, opts = nil"] = "option 'grid' is missing",
  ["tcmma.emit_pipeline_warp_specialized, opts = nil"] = "option 'grid' is missing",
  ["tcmma.nd_loop, opts = nil"] = "tc.nd_loop lacks collective_axes",
  ["tcmma.cluster_barrier, opts = nil"] = "option 'collective_axes' is missing",
}

-- They do something else while a recording is open.
local outside = { ["tcmma.full"] = true }

local free = { ["tcmma.help"] = true, ["tcmma.kernel"] = true, ["tcmma.record"] = true }

local function check_parameter(key, entry, parsed, i, o)
  local p = parsed.parameters[i]
  local set = accepted(p.type, p.optional or p.name == "...")
  for _, bad in ipairs(set and hostile or {}) do
    local is_method = classes[entry.owner] ~= nil
    if not set[bad.kind] then
      local list = arguments_of(key, parsed, o)
      local arguments = copy(list, math.max(i, #parsed.parameters))
      if p.name == "..." then arguments = copy(list, math.max(i, #list)) end
      arguments[i] = bad.value
      if is_method then
        arguments = table.move(arguments, 1, arguments.n, 2, { self_of(key, entry.owner, o), n = arguments.n + 1 })
      end
      local what = ("%s, %s = %s"):format(key, p.name, bad.kind)
      -- An operator's message shows both operands.
      local names = { "expected for a", "Unsupported index type", "argument 1 of kernel", "#" .. i,
        "#" .. i + 1, p.name, "argument " .. i, "'" .. entry.name .. "' of" }
      if elsewhere[what] then names, bad = { elsewhere[what] }, { shown = "" } end
      refuses(what, entry.value, arguments, names, bad.shown)
    end
  end
end

-- The fields of "{a?: T, b: U}".
local function fields(text)
  local inner = text:match "^{(.*)}$"
  if not inner then return {} end
  return documentation.parse("f(" .. inner .. ")").parameters
end

-- The last two letters change places, or the last one stands twice.
local function misspelt(name)
  local last, before = name:sub(-1), name:sub(-2, -2)
  return before ~= last and before ~= "" and name:sub(1, -3) .. last .. before or name .. last
end

local function check_options(key, entry, parsed, i, o)
  local p = parsed.parameters[i]
  local list = arguments_of(key, parsed, o)
  local is_method = classes[entry.owner] ~= nil
  local function call(what, options, names, shown)
    local arguments = copy(list, math.max(i, #list))
    arguments[i] = options
    if is_method then
      arguments = table.move(arguments, 1, arguments.n, 2, { self_of(key, entry.owner, o), n = arguments.n + 1 })
    end
    refuses(what, entry.value, arguments, names, shown)
  end
  local base = type(list[i]) == "table" and list[i] or {}
  local function with(name, value)
    local options = {}
    for k, v in pairs(base) do options[k] = v end
    options[name] = value
    return options
  end
  call(key .. ", an unknown option", with("no_such_option", 1), { "no_such_option" }, "option")
  call(key .. ", an option without a name", with(1, 1), { "option", "field" }, "1")
  for _, field in ipairs(fields(p.type)) do
    if field.name ~= "..." then
      local wrong = misspelt(field.name)
      call(("%s, option %s"):format(key, wrong), with(wrong, 1), { wrong }, "did you mean [^?]*'" .. field.name .. "'")
    end
    local set = field.name ~= "..." and accepted(field.type, true)
    for _, bad in ipairs(set and hostile or {}) do
      if not set[bad.kind] then
        call(("%s, option %s = %s"):format(key, field.name, bad.kind), with(field.name, bad.value), { field.name },
          bad.shown)
      end
    end
  end
end

describe("wrong arguments of", function()
  for _, entry in ipairs(all) do
    local key = entry.name and entry.owner .. "." .. entry.name
    if entry.name and not free[key] and entry.owner ~= "tcmma.matmul" then
      local parsed = documentation.parse((documentation.split(entry)))
      it(key .. " are refused", function()
        local run = outside[key] and function(fn) fn {} end or with_objects
        for i, p in ipairs(parsed.parameters) do
          run(function(o) check_parameter(key, entry, parsed, i, o) end)
          if p.type:find "^{" then
            run(function(o) check_options(key, entry, parsed, i, o) end)
          end
        end
      end)
    end
  end
end)

describe("a wrong self of", function()
  for _, entry in ipairs(all) do
    if entry.name and classes[entry.owner] then
      it(entry.owner .. "." .. entry.name .. " is refused", function()
        for _, bad in ipairs(hostile) do
          if not (entry.owner == "tcmma.event" and bad.kind == "event") then
            refuses(entry.owner .. "." .. entry.name .. " of " .. bad.kind, entry.value, { bad.value, n = 1 },
              { "'" .. entry.name .. "'", entry.owner }, bad.shown)
          end
        end
      end)
    end
  end
end)

describe("a function of the module called with a colon", function()
  it("says so", function()
    local message = helper.message(function() tc:zeros({ 4 }, "f32") end)
    assert.equal("'zeros' was called with a colon: write tc.zeros(...), with a dot", helper.first_line(message))
    message = helper.message(function() tc:device() end)
    assert.equal("'device' was called with a colon: write tc.device(...), with a dot", helper.first_line(message))
  end)
end)

describe("misspelt names", function()
  local function message(fn) return helper.first_line(helper.message(fn)) end

  it("of the options of a kernel are answered with the nearest", function()
    for _, name in ipairs { "name", "args", "body", "grid", "grid_names", "cluster", "cluster_names", "target",
      "profile" } do
      local wrong = misspelt(name)
      for _, make in ipairs { tc.kernel, tc.record } do
        if make == tc.kernel or name ~= "body" then
          assert.matches(("unknown option '%s' %%(did you mean '%s'"):format(wrong, name),
            message(function() make { [wrong] = 1 } end))
        end
      end
    end
  end)

  it("of the options of a matmul and of its configuration are, too", function()
    local a = tc.zeros({ 64, 64 }, "f16")
    for _, name in ipairs { "transpose_b", "epilogue", "bias", "row_scale", "column_scale", "residual",
      "accumulate_f32", "config" } do
      local wrong = misspelt(name)
      assert.matches(("unknown option '%s' %%(did you mean '%s'"):format(wrong, name),
        message(function() tc.matmul(a, a, nil, { [wrong] = 1 }) end))
    end
    for _, name in ipairs { "tile_m", "tile_n", "tile_k", "stages", "group", "swap", "split_k", "cluster", "piece" } do
      local wrong = misspelt(name)
      assert.matches(("option 'config' has no field '%s' %%(did you mean [^?]*'%s'"):format(wrong, name),
        message(function() tc.matmul(a, a, nil, { config = { [wrong] = 1 } }) end))
    end
  end)

  it("of functions of the module are", function()
    for _, entry in ipairs(all) do
      if entry.name and not classes[entry.owner] then
        local owner = entry.owner == "tcmma" and tc or tc[entry.owner:match "%.(.*)$"]
        local spelled, wrong = owner == tc and "tc" or "tc." .. entry.owner:match "%.(.*)$", misspelt(entry.name)
        assert.matches(("%s has no '%s' %%(did you mean [^?]*'%s'"):format(spelled, wrong, entry.name),
          message(function() return owner[wrong] end))
      end
    end
  end)

  local function check_class(class, object)
    if type(object) == "userdata" then
      local refused = message(function() object.no_such_field = 1 end)
      assert(not refused:find "attempt to index", refused)
    end
    for _, entry in ipairs(all) do
      if entry.owner == class then
        for field in (entry.name or entry.doc):gmatch(entry.name and ".+"
          or "%-%-%-@field (%S+)") do
          local wrong = misspelt(field)
          assert.matches(("a %s has no field '%s' %%(did you mean [^?]*'%s'"):format(class, wrong, field),
            message(function() return object[wrong] end))
        end
      end
    end
  end

  it("of methods and fields are, for every class of objects", function()
    with_objects(function(o)
      for class in pairs(classes) do
        if selves[class] then check_class(class, selves[class](o)) end
      end
      check_class("tcmma.barrier", o.loaded)
      check_class("tcmma.union", tc.union(tc.smem({ 8, 64 }, "f16"), tc.smem({ 8, 64 }, "f16")))
    end)
    helper.recording({}, function() check_class("tcmma.role", tc.role { warps = 1 }) end)
  end)

  it("may be nothing at all", function()
    assert.matches("^tc has no 'xyzzy' %(tc%.help%(%) lists what there is%)", message(function() tc.xyzzy() end))
    assert.equal("tc cannot be indexed by integer 1", message(function() return tc[1] end))
    assert.matches("^tc has no 'x+' %(tc%.help", message(function() return tc[("x"):rep(1000000)] end))
    assert.equal("a tcmma.space has no field 'name' (it has: none)", message(function() return tc.SMEM.name end))
    assert.matches("^a tcmma.var has no field 'wxyz' %(it has: get, set%)$", message(function()
      with_objects(function(o) return o.var.wxyz end)
    end))
  end)

  it("of optional fields of a report, which is a table, are nil", function()
    local report = selves["tcmma.report"]()
    assert.is_nil(report.trace_text)
    report.mine = 1
    assert.equal(1, report.mine)
  end)
end)

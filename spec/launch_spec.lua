local tc = require "tcmma"
local process = require "spec.process"

local has_assembler = tc.versions().nvjitlink ~= nil
local with_assembler = has_assembler and it or pending

-- y = 2 x over tiles of 128 rows; the rows are a named dimension.
local function doubling(options)
  local description = {
    name = "double",
    args = { tc.gmem({ "M", 64 }, tc.f32), tc.gmem({ "M", 64 }, tc.f32) },
    grid = function(dims) return { dims.M // 128 } end, grid_names = { "m" },
    body = function(x, y)
      local m = tc.axis_index "m"
      y:tile({ m, 0 }, { 128, 64 }):store(x:tile({ m, 0 }, { 128, 64 }):load() * 2)
    end,
  }
  for key, value in pairs(options or {}) do description[key] = value end
  return tc.kernel(description)
end

local function doubled(x)
  local values = x:totable()
  for _, row in ipairs(values) do
    for i, value in ipairs(row) do row[i] = 2 * value end
  end
  return values
end

local function input(rows, opts)
  return tc.randn({ rows, 64 }, tc.f32, { seed = 5, device = opts and opts.device })
end

local message_of = require "helper".message

describe("calling a kernel", function()
  it("binds arrays and runs it, with the grid from the named dimensions", function()
    local kernel = doubling()
    for _, rows in ipairs{ 128, 384 } do
      local x, y = input(rows), tc.empty({ rows, 64 }, tc.f32)
      kernel(x, y)
      assert.same(doubled(x), y:totable())
    end
  end)

  it(":launch takes a device and a stream", function()
    local kernel, device = doubling(), tc.device("emulator:sm_90a")
    local x, y = input(128, { device = device }), tc.empty({ 128, 64 }, tc.f32, { device = device })
    kernel:launch({ device = device, stream = device:stream() }, x, y)
    assert.same(doubled(x), y:totable())
    kernel:launch(nil, y, x)
    assert.error_matches(function() kernel:launch({ stream = tc.device("emulator:sm_100a"):stream() }, x, y) end,
      "option 'stream' is of emulator:sm_100a, but the launch is on emulator:sm_90a")
    assert.error_matches(function() kernel:launch(x, y) end, "options table expected, got tcmma.array")
    assert.error_matches(function() kernel:launch({ streem = 1 }, x, y) end, "did you mean 'stream'")
  end)

  it("checks the number of arguments", function()
    local kernel, x = doubling(), input(128)
    assert.matches("Invalid argument structure: expected 2 arrays, got 1 value", message_of(kernel, x), 1, true)
    assert.matches("Invalid argument structure: expected 2 arrays, got 3 values", message_of(kernel, x, x, x), 1, true)
    assert.matches("argument 2 of kernel 'double' must be an array, got integer 4", message_of(kernel, x, 4), 1, true)
    assert.matches("argument 1 of kernel 'double' must be an array, got nil", message_of(kernel, nil, x), 1, true)
  end)

  it("checks shapes, dtypes and named dimensions, in the documented words", function()
    local kernel, x = doubling(), input(128)
    assert.matches("Argument shape mismatch: expected (M, 64), got (128, 32)\n  argument 2 of kernel 'double'",
      message_of(kernel, x, tc.zeros({ 128, 32 }, tc.f32)), 1, true)
    assert.matches("Argument shape mismatch: expected (M, 64), got (8192,)",
      message_of(kernel, x, tc.zeros({ 8192 }, tc.f32)), 1, true)
    assert.matches("Argument dtype mismatch: expected float32, got float16\n  argument 1 of kernel 'double'",
      message_of(kernel, tc.zeros({ 128, 64 }, tc.f16), x), 1, true)
    assert.matches("Argument shape mismatch: expected (M, 64), got (256, 64)\n  argument 2 of kernel 'double': "
      .. "dimension 'M' is 256 here, but 128 in argument 1",
      message_of(kernel, x, tc.zeros({ 256, 64 }, tc.f32)), 1, true)
  end)

  it("points at the caller's line", function()
    local line = debug.getinfo(1, "l").currentline + 1
    local _, message = pcall(function() doubling()() end)
    assert.matches("launch_spec.lua:" .. line .. ": Invalid argument structure", message, 1, true)
  end)

  it("checks what the grid function returns", function()
    local x = input(128)
    for returned, text in pairs{ [false] = "got nil", [{}] = "returned a list of 0; grid_names has 1",
                                 [{ 0 }] = "returned integer 0 for axis 1", [{ 1.5 }] = "returned number 1.5",
                                 [{ 1, 1 }] = "returned a list of 2; grid_names has 1" } do
      local kernel = doubling{ grid = function() return returned or nil end }
      assert.matches(text, message_of(kernel, x, x), 1, true)
    end
    local kernel = doubling{ grid = function() error("mine", 0) end }
    assert.equal("mine", message_of(kernel, x, x))
  end)

  it("names an argument that lives elsewhere", function()
    local kernel = doubling()
    local x, y = input(128, { device = "emulator:sm_100a" }), input(128, { device = "emulator:sm_90a" })
    assert.matches("argument 2 of kernel 'double' lives on emulator:sm_90a, but the launch is on emulator:sm_100a",
      message_of(kernel, x, y), 1, true)
  end)

  it("a kernel for another target names the emulator that runs it", function()
    local kernel = doubling{ target = "sm_90a" }
    local x = input(128, { device = "emulator:sm_100a" })
    assert.matches("kernel 'double' is for sm_90a, but emulator:sm_100a runs sm_100a. "
      .. "With TCMMA_DEVICE=emulator:sm_90a", message_of(kernel, x, x), 1, true)
  end)

  it("refuses a recording that is still open", function()
    local kernel = tc.record{ name = "open", args = { tc.gmem({ 8 }, tc.f32) } }
    assert.matches("the recording of kernel 'open' is still open: call its :finish() first",
      message_of(kernel, tc.zeros({ 8 }, tc.f32)), 1, true)
    assert.matches(".entry", kernel:ptx(), 1, true)
    kernel:close()
  end)

  it("a failed assertion in the kernel is an error with the kernel's name", function()
    local kernel = tc.kernel{ name = "asserts", args = { tc.gmem({ 8 }, tc.i32) },
      body = function(x) tc.assert(x[0]:load():lt(5), "too large") end }
    local x = tc.zeros({ 8 }, tc.i32)
    kernel(x)
    local bad = tc.full({ 8 }, 9, tc.i32)
    assert.matches("kernel 'asserts' failed on emulator", message_of(kernel, bad), 1, true)
    local report = kernel:emulate(nil, bad)
    assert.is_false(report.completed)
    assert.equal("error", report.hazards[1].severity)
  end)
end)

describe("kernel:emulate", function()
  it("runs on another target and copies the arrays there and back", function()
    local kernel = doubling()
    local x, y = input(256), tc.zeros({ 256, 64 }, tc.f32)
    local report = kernel:emulate({ target = "sm_103a" }, x, y)
    assert.is_true(report.completed)
    assert.equal("sm_103a", report.target)
    assert.same(doubled(x), y:totable())
    assert.same({}, report.hazards)
    assert.is_true(report.counters.global_read >= 256 * 64 * 4)
    assert.matches("report of 'double' on emulator:sm_103a: completed, 0 hazards", tostring(report), 1, true)
  end)

  it("keeps views of one array together", function()
    local kernel = doubling()
    local both = tc.zeros({ 128, 64 }, tc.f32)
    local view = both:reshape({ 128, 64 })
    kernel:emulate({ target = "sm_90a" }, both, view)
    assert.same(doubled(both), view:totable())
  end)

  it("checks its options", function()
    local kernel, x = doubling(), input(128)
    local function refused(message, options)
      assert.matches(message, message_of(kernel.emulate, kernel, options, x, x), 1, true)
    end
    refused("option 'target' must be one of \"sm_90a\", \"sm_100a\", \"sm_103a\", got \"sm_80\"", { target = "sm_80" })
    refused("option 'mode' must be one of \"fast\", \"check\", \"random\", got \"slow\"", { mode = "slow" })
    refused("option 'numerics' must be one of \"f32\", \"hardware\"", { numerics = "f64" })
    refused("option 'seed' must be an integer", { seed = "x" })
    refused("option 'threads' must be an integer from 1 to 1024", { threads = 0 })
    refused("did you mean 'mode'", { moad = "fast" })
  end)

  it("is bounded by max_instructions", function()
    local kernel = tc.kernel{ name = "spins", args = { tc.gmem({ 8 }, tc.i32) }, body = function(x)
      local i = tc.var(0)
      tc.loop(function()
        tc.stop(i:get():eq(-1))
        i:set(i:get() % 1000 + 1)
      end)
      x[0]:store(i:get())
    end }
    local report = kernel:emulate({ max_instructions = 100000 }, tc.zeros({ 8 }, tc.i32))
    assert.is_false(report.completed)
    assert.is_true(report.counters.warp_instructions <= 200000)
  end)
end)

describe("a kernel's code", function()
  local kernel = doubling()

  it("is compiled once for a target", function()
    assert.equal(kernel:ptx{ target = "sm_100a" }, kernel:ptx{ target = "sm_100a" })
    assert.matches(".target sm_100a", kernel:ptx{ target = "sm_100a" }, 1, true)
    assert.matches(".target sm_90a", kernel:ptx{ target = "sm_90a" }, 1, true)
    assert.error_matches(function() kernel:ptx{ target = "sm_75" } end,
      "option 'target' must be one of \"sm_90a\", \"sm_100a\", \"sm_103a\", got \"sm_75\"")
  end)

  with_assembler("is assembled for every target", function()
    for _, target in ipairs{ "sm_90a", "sm_100a", "sm_103a" } do
      local cubin, log = kernel:cubin{ target = target }
      assert.equal("\127ELF", cubin:sub(1, 4))
      assert.matches("'" .. target .. "'", log, 1, true)
    end
  end)

  with_assembler("info says what it takes", function()
    local info = kernel:info{ target = "sm_100a" }
    assert.equal("sm_100a", info.target)
    assert.equal(128, info.threads)
    assert.equal(0, info.tmem_columns)
    assert.equal(0, info.spill_stores)
    assert.is_true(info.registers > 8 and info.registers <= 255)
    assert.matches(("128 threads, %d registers, 0 bytes spilled,"):format(info.registers), tostring(info), 1, true)
  end)

  it("info works without an assembler and says why it is short", function()
    local folder = process.folder()
    local output = process.run([[
      local tc = require "tcmma"
      local k = tc.kernel{ name = "k", args = { tc.gmem({ 8 }, tc.f32) }, body = function() end }
      local info = k:info()
      print(info.threads, info.registers, (info.assembler_missing:match("^[^\n]*")))
      print(k:cubin())]], { TCMMA_CUDA_HOME = folder })
    process.remove(folder)
    assert.matches("128\tnil\tnvJitLink, the assembler", output, 1, true)
    assert.matches("\tno%-assembler\n$", output)
  end)

  it("sass is text, or says what is missing", function()
    local text, message, code = kernel:sass()
    if text then
      assert.matches("EXIT", text, 1, true)
    else
      assert.is_true(code == "no-disassembler" or code == "no-assembler")
      assert.is_string(message)
    end
  end)

  it("can be dumped after every pass", function()
    for _, pass in ipairs{ "record", "lower", "roles", "place", "emit" } do
      assert.is_true(#kernel:dump(pass, { target = "sm_100a" }) > 0, pass)
    end
    assert.error_matches(function() kernel:dump("link") end, "a pass is expected")
  end)

  it("is exported with all that a launcher needs", function()
    local folder = process.folder()
    local files = kernel:export(folder .. "/double", { target = "sm_90a" })
    local manifest = assert(io.open(folder .. "/double.json")):read("a")
    assert.equal(has_assembler and 3 or 2, #files)
    assert.matches('"entry": "double"', manifest, 1, true)
    assert.matches('"target": "sm_90a"', manifest, 1, true)
    assert.matches('"block": [128, 1, 1]', manifest, 1, true)
    assert.matches('"dimension": "M"', manifest, 1, true)
    assert.equal(kernel:ptx{ target = "sm_90a" }, assert(io.open(folder .. "/double.ptx")):read("a"))
    assert.same({ folder .. "/one.ptx" }, kernel:export(folder .. "/one.ptx"))
    assert.error_matches(function() kernel:export(folder .. "/no/such") end, "cannot write")
    process.remove(folder)
  end)
end)

describe("a kernel that a finalizer closes while its report is made", function()
  local name = "named_at_some_length"

  local function make()
    return tc.kernel { name = name, args = { tc.gmem({ 1 }, "i32") }, body = function(out)
      tc.range(400, function(i)
        out[0] = i
        out[0] = i + 1
      end)
    end }
  end

  -- The kernel is closed by the nth collection from now on.
  local function close_later(kernel, n)
    setmetatable({}, { __gc = function()
      if n == 1 then kernel:close() else close_later(kernel, n - 1) end
    end })
  end

  it("keeps what the report tells of it", function()
    for n = 1, 6 do
      local kernel, out = make(), tc.zeros({ 1 }, "i32", { device = "emulator:sm_100a" })
      kernel:emulate({ trace = true }, out)
      collectgarbage()
      close_later(kernel, n)
      collectgarbage("generational", 1, 100)
      local ok, report = pcall(kernel.emulate, kernel, { trace = true }, out)
      collectgarbage("incremental", 200, 100, 13)
      if ok then
        assert.equal(name, report.kernel)
        for _, hazard in ipairs(report.hazards) do assert.matches("launch_spec", hazard.lua_file) end
      else
        assert.matches("this kernel was closed", report)
      end
    end
  end)
end)

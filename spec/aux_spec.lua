local tc = require "tcmma"

local message = require "helper".message

local function here() return debug.getinfo(2, "l").currentline end

describe("an error", function()
  it("points at the line of the user", function()
    local line
    local text = message(function()
      line = here() + 1
      tc.zeros({ 0 }, "f32")
    end)
    assert.equal(("spec/aux_spec.lua:%d: "):format(line), text:match "^.-:%d+: ")
  end)

  it("looks through tcmma's own Lua files", function()
    local path = os.tmpname()
    local line
    assert(tc.npy.save(path, tc.zeros({ 1 }, "f32")))
    local text = message(function()
      line = here() + 1
      local _ = tc.npy.load(path, { devise = "emulator" })
    end)
    os.remove(path)
    assert.equal(("spec/aux_spec.lua:%d: "):format(line), text:match "^.-:%d+: ")
    assert.matches("did you mean 'device'", text)
  end)

  it("does not look through a user's file in a folder of that name", function()
    local chunk = assert(load("\n\nlocal tc = ... ; tc.zeros(5)", "@/home/me/tcmma/test.lua"))
    assert.matches("^/home/me/tcmma/test%.lua:3: ", message(chunk, tc))
  end)

  it("points into the prompt, a command line, a string", function()
    assert.matches("^stdin:1: ", message(assert(load("(...).zeros(5)", "=stdin")), tc))
    assert.matches("^%(command line%):1: ", message(assert(load("(...).zeros(5)", "=(command line)")), tc))
    assert.matches('^%[string "%(%.%.%.%)%.zeros%(5%)"%]:1: ', message(assert(load("(...).zeros(5)")), tc))
  end)

  it("names the function even where Lua does not know it", function()
    local make = tc.zeros
    assert.matches("bad argument #1 to 'zeros'", message(make))
    assert.matches("bad argument #1 to 'zeros'", message(function() make() end))
  end)

  it("counts a method's arguments as they are written", function()
    local a = tc.zeros({ 2 }, "f32")
    assert.matches("bad argument #1 to 'astype'", message(function() a:astype "f31" end))
    assert.matches("bad argument #2 to 'astype'", message(function() a.astype(a, "f31") end))
  end)

  it("is raised in a coroutine too", function()
    local thread = coroutine.create(function() tc.zeros(5) end)
    local ok, text = coroutine.resume(thread)
    assert.is_false(ok)
    assert.matches("^spec/aux_spec%.lua:%d+: bad argument", text)
    ok, text = coroutine.resume(coroutine.create(tc.zeros), 5)
    assert.is_false(ok)
    assert.matches("^bad argument #1 to 'zeros'", text)
  end)
end)

describe("a description of what was got", function()
  local function got(x) return message(tc.dtype, x):match "got (.*)%)$" end

  it("shows the value", function()
    assert.equal("integer 5", got(5))
    assert.equal("number 5.5", got(5.5))
    assert.equal("nil", got(nil))
    assert.equal("boolean true", got(true))
    assert.equal("table", got({}))
    assert.equal("function", got(print))
    assert.equal("no value", message(tc.dtype):match "got (.*)%)$")
    assert.equal("tcmma.space (SMEM)", got(tc.SMEM))
    assert.matches("^tcmma%.array %(f16%[2, 3%] on %S+%)$", got(tc.zeros({ 2, 3 }, "f16")))
  end)

  it("cuts long strings", function()
    local text = message(tc.zeros, ("x"):rep(1000), "f32")
    assert.matches('got string "x+%.%.%."%)$', text)
    assert.is_true(#text < 200)
  end)

  it("survives a __tostring that fails and a __name that lies", function()
    local odd = setmetatable({}, { __name = "odd", __tostring = function() error("no", 0) end })
    assert.matches("shape expected", message(tc.zeros, setmetatable({}, { __len = function() return "x" end }), "f32")
      :gsub("object length is not an integer", "shape expected"))
    assert.equal("table", got(odd))
  end)
end)

describe("options", function()
  it("must be known", function()
    assert.matches("bad argument #3 to 'allclose' %(unknown option 'rtoll' %(did you mean 'rtol'%?%)%)",
      message(tc.allclose, tc.zeros({ 1 }, "f32"), tc.zeros({ 1 }, "f32"), { rtoll = 1 }))
    assert.matches("unknown option 'colour' %(options: rtol, atol, equal_nan%)",
      message(tc.allclose, tc.zeros({ 1 }, "f32"), tc.zeros({ 1 }, "f32"), { colour = 1 }))
    assert.matches("names of options are strings, got integer 1",
      message(tc.zeros, { 1 }, "f32", { "emulator" }))
  end)

  it("must have the right type", function()
    local a = tc.zeros({ 1 }, "f32")
    assert.matches("option 'equal_nan' must be a boolean, got integer 1",
      message(tc.allclose, a, a, { equal_nan = 1 }))
    assert.matches("option 'precision' must be an integer from 1 to 17, got integer 18",
      message(function() a:tostring_values({ precision = 18 }) end))
    assert.matches("option 'precision' must be an integer from 1 to 17, got string \"3\"",
      message(function() a:tostring_values({ precision = "3" }) end))
  end)

  it("may be floats with integral values where integers are meant", function()
    assert.equal("{0}", tc.zeros({ 1.0 }, "f32"):tostring_values({ precision = 3.0 }))
  end)
end)

describe("the module", function()
  it("sets no global", function()
    local script = [[
      local before = {}
      for name in pairs(_G) do before[name] = true end
      local tc = require "tcmma"
      local a = tc.zeros({ 2 }, "f16")
      for name in pairs(_G) do if not before[name] then io.write(name, " ") end end]]
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(script)
    file:close()
    local pipe = assert(io.popen(("LUA_PATH='%s' LUA_CPATH='%s' lua5.4 %s 2>&1"):format(package.path,
      package.cpath, path)))
    local output = pipe:read "a"
    pipe:close()
    os.remove(path)
    assert.equal("", output)
  end)
end)

describe("the nearest names", function()
  it("differ in few letters, begin with the word, or hold it", function()
    local names = { "barrier", "barrier_wait", "copy_gmem_to_smem", "copy_smem_to_gmem", "npy", "smem", "tmem" }
    local function near(word) return tc.nearest(word, names) end
    assert.same({ "barrier" }, near "barier")
    assert.same({ "barrier" }, near "barrier")
    assert.same({ "copy_gmem_to_smem", "copy_smem_to_gmem" }, near "copy")
    assert.same({ "smem" }, near "SMEM")
    assert.same({ "smem" }, near "smme")
    assert.same({ "smem", "tmem" }, near "mem")
    assert.same({ "barrier_wait" }, near "wait")
    assert.same({ "barrier" }, near "my_barrier")
    assert.same({}, near "quaternion")
    assert.same({}, near(""))
    assert.same({}, tc.nearest("word", {}))
  end)

  it("are strings of a list", function()
    assert.matches("entry 2 of the names is integer 5, not a string", message(tc.nearest, "a", { "b", 5 }))
    assert.same({ "b" }, tc.nearest("b", setmetatable({ "b" }, { __len = function() return -1 end })))
  end)
end)

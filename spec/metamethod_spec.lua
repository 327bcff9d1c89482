-- Metamethods, which anybody may call with anything: metatables are open.
local every_object = require "every_object"
local process = require "process"
local tc = require "tcmma"

local preload = os.getenv "LD_PRELOAD"

-- Names of all metatables: those of the registry, and of tables of the API that have their own.
local function metatables()
  local names, seen = {}, {}
  for name, meta in pairs(debug.getregistry()) do
    if type(name) == "string" and name:find "^tcmma%." and type(meta) == "table" and rawget(meta, "__name") then
      names[#names + 1], seen[meta] = name, true
    end
  end
  for _, pair in ipairs(every_object.plain()) do
    local meta = debug.getmetatable(pair[2])
    if meta and not seen[meta] then
      names[#names + 1], seen[meta] = pair[1], true
    end
  end
  table.sort(names)
  return names
end

local function run(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local output = pipe:read "a"
  return pipe:close(), output
end

describe("the metamethods of", function()
  local names = metatables()

  for _, name in ipairs(names) do
    it(name .. " take nothing for granted", function()
      local ok, output = run(("env %s LUA_PATH='%s' LUA_CPATH='%s' TCMMA_DEVICE=emulator lua5.4 "
        .. "spec/robustness/metamethods.lua '%s'"):format(preload and "LD_PRELOAD=" .. preload or "", package.path,
        package.cpath, name))
      assert(ok, output)
      assert.matches("fine\n$", output) -- after what methods print
    end)
  end

  it("every class are among them", function()
    local known = {}
    for _, name in ipairs(names) do known[name] = true end
    local documentation = require "tcmma.documentation"
    for class in pairs(documentation.classes(documentation.all())) do assert.is_true(known[class], class) end
    assert.is_true(#names > 30, table.concat(names, " "))
  end)
end)

describe("a kernel that its own metamethods close while its body runs", function()
  local function closed_by(name)
    return ([[
      local tc = require "tcmma"
      local function close(k) getmetatable(k).%s(k) end
      print(pcall(tc.kernel, { name = "k", args = { tc.gmem({ 4 }, "f32") }, body = function(a)
        tc.range(3, function(i)
          close(tc.recording())
          collectgarbage()
          pcall(function() a[i] = 1 end)
          pcall(tc.smem, { 8, 64 }, "f16")
          tostring(a) tostring(i)
        end)
      end }))
      local co = coroutine.wrap(function()
        tc.kernel { name = "k", body = function()
          tc.when(true, function() close(tc.recording()) coroutine.yield() end)
        end }
      end)
      pcall(co)
      co = nil
      collectgarbage() collectgarbage()
      local k = tc.kernel { name = "next", args = { tc.gmem({ 4 }, "f32") }, body = function(a) a[0] = 1 end }
      local array = tc.zeros({ 4 }, "f32")
      k(array)
      print(array:get(0))]]):format(name)
  end

  for _, name in ipairs { "__gc", "__close" } do
    it("with " .. name .. " ends in an error or not at all, never in a crash", function()
      local output, ok = process.run(closed_by(name), { TCMMA_DEVICE = "emulator", LD_PRELOAD = preload })
      assert(ok, output)
      assert.matches("\n1.0\n$", output)
      if name == "__gc" then assert.matches("no recording is open", output) end
    end)
  end
end)

describe("a second library of the same name in one state", function()
  it("is refused", function()
    local folder = process.folder()
    local path = assert(package.searchpath("tcmma.core", package.cpath))
    assert(os.execute(("cp '%s' '%s/core.so'"):format(path, folder)))
    local output = process.run(([[
      local tc = require "tcmma"
      local open = assert(package.loadlib("%s/core.so", "luaopen_tcmma_core"))
      print(pcall(open))
      package.loaded["tcmma.core"] = nil
      print(type(require "tcmma.core"), tc.zeros({ 1 }, "f32"):get(0))]]):format(folder),
      { TCMMA_DEVICE = "emulator", LD_PRELOAD = preload })
    process.remove(folder)
    assert.matches("^false\ttcmma.core is loaded already in this Lua state, from another file", output)
    assert.matches("\ntable\t0.0\n$", output)
  end)
end)

it("an object of another class with the metatable's own functions is refused by name", function()
  local array = tc.zeros({ 2 }, "f32")
  local ok, message = pcall(getmetatable(array).__len, tc.device())
  assert.is_false(ok)
  assert.matches("tcmma.array expected, got tcmma.device", message)
end)

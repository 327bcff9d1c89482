-- Cases that users of other tools stumbled over.
local tc = require "tcmma"
local documentation = require "tcmma.documentation"
local helper = require "helper"
local process = require "process"

local function refused(fn) return helper.first_line(helper.message(fn)) end

describe("a size", function()
  it("with a fraction has no integer value; a float with an integral value is one", function()
    helper.recording({}, function()
      assert.equal("bad argument #1 to 'smem' (size 1 of the shape must be an integer >= 1, got number 128.5)",
        refused(function() tc.smem({ 128.5, 64 }, "f16") end))
      assert.same({ 128, 64 }, tc.smem({ 128.0, 64 }, "f16").shape)
    end)
  end)

  it("is known while recording", function()
    helper.recording({ grid = { 4 } }, function()
      local m = tc.axis_index(0)
      assert.matches("must be an integer >= 1, got tcmma%.scalar", refused(function() tc.smem({ m, 64 }, "f16") end))
      assert.is_false(pcall(function() for _ = 0, m do tc.print("x") end end))
    end)
  end)
end)

describe("an accumulator of the wrong type", function()
  it("is refused with the types that go", function()
    helper.recording({ target = "sm_100a" }, function()
      local acc = tc.tmem({ 128, 128 }, "bf16", { packed = false })
      local a, b = tc.smem({ 128, 64 }, "f16"), tc.smem({ 64, 128 }, "f16")
      local message = helper.message(function() tc.mma(acc, a, b) end)
      assert.matches("bfloat16", message)
      assert.matches("float32", message)
    end)
  end)
end)

describe("a method", function()
  it("called with a dot says how to call it", function()
    local a = tc.zeros({ 2 }, "f32")
    assert.equal("calling 'reshape' on bad self (tcmma.array expected, got table); call it as array:reshape(...)",
      refused(function() a.reshape({ 1, 2 }) end))
  end)
end)

describe("tc.print", function()
  it("prints one line a block", function()
    local output = process.run [[
      local tc = require "tcmma"
      tc.use "emulator"
      tc.kernel { name = "p", grid = { 3 }, body = function() tc.print("block {}", tc.axis_index(0)) end }()]]
    local lines = {}
    for line in output:gmatch "[^\n]+" do lines[#lines + 1] = line end
    table.sort(lines)
    assert.same({ "block 0", "block 1", "block 2" }, lines)
  end)

  it("prints a line that begins with a value, and an empty one", function()
    assert.equal("7 and no more\n\n", (process.run [[
      local tc = require "tcmma"
      tc.use "emulator"
      tc.kernel { name = "p", grid = { 1 }, body = function()
        tc.print("{} and no more", tc.axis_index(0) + 7)
        tc.print("")
      end }()]]))
  end)
end)

describe("completion at the prompt", function()
  -- What completion packages do: the metatable's __index, if it is a table, else pairs of the object.
  it("walks over every object without an error", function()
    helper.recording({ args = { tc.gmem({ 128, 64 }, "f16") } }, function(k, a)
      for _, object in ipairs { k, a, tc.smem({ 8, 64 }, "f16"), tc.tmem({ 128, 64 }, "f32"), tc.barrier {}, tc.var(0),
        tc.axis_index(0), tc.full({ 128, 64 }, 0, "f32"), tc.f16, tc.SMEM, tc.device(), tc.zeros({ 2 }, "f32"),
        tc.config,
        tc.all, tc } do
        local meta = getmetatable(object)
        local names = 0
        for _, part in ipairs { meta, type(meta.__index) == "table" and meta.__index or {},
          rawget(meta, "__methods") or {} } do
          for key, value in pairs(part) do
            names = names + #tostring(key)
            tostring(value)
          end
        end
        if type(object) == "table" or meta.__pairs then
          for _, value in pairs(object) do tostring(value) end
        end
        assert(names > 0)
      end
    end)
  end)
end)

describe("the definitions for editors", function()
  it("have every name of the module and every method, and no other", function()
    require "tcmma.matmul"
    local file = assert(io.open "lua/tcmma/meta.lua")
    local text = file:read "a"
    file:close()
    local written, known = {}, {}
    for name in text:gmatch "\nfunction ([%w_%.:]+)%(" do written[name] = true end
    for name in text:gmatch "\n([%w_]+%[\"%w+\"%]) = function" do written[name:gsub('%["(%w+)"%]', ":%1")] = true end
    local classes = documentation.classes(documentation.all())
    for _, entry in ipairs(documentation.all()) do
      if entry.name then
        local short = entry.owner:gsub("^tcmma%.?", "")
        local prefix = entry.owner == "tcmma" and "tc." or classes[entry.owner] and "class_" .. short .. ":"
          or "tc." .. short .. "."
        known[prefix .. entry.name] = true
      end
    end
    assert.same(known, written)
  end)
end)

describe("an unrelated line", function()
  it("does not change what other lines mean", function()
    local function ptx(extra)
      local k = tc.kernel { name = "k", target = "sm_100a", args = { tc.gmem({ 128, 64 }, "f32") }, body = function(a)
        local x = extra and tc.axis_index(0) * 2 + 1
        a:store(a:load() * 2)
        return x
      end }
      return (k:ptx():gsub("[%w_/%.]+%.lua:%d+", ""))
    end
    assert.equal(ptx(false), ptx(true))
  end)
end)

describe("a tile of bools", function()
  it("goes through registers and shared memory", function()
    local mask, out = tc.rand({ 128, 64 }, "f32", { seed = 1 }), tc.zeros({ 128, 64 }, "bool")
    tc.kernel { args = { tc.gmem({ 128, 64 }, "f32"), tc.gmem({ 128, 64 }, "bool") }, body = function(x, y)
      local s = tc.smem({ 128, 64 }, "bool")
      s:store(x:load():gt(0.5))
      tc.commit_smem()
      y:store(s:load())
    end }(mask, out)
    for _, at in ipairs { { 0, 0 }, { 5, 63 }, { 77, 12 }, { 127, 63 } } do
      assert.equal(mask:get(table.unpack(at)) > 0.5, out:get(table.unpack(at)))
    end
  end)
end)

describe("arrays that nobody holds", function()
  it("give their memory back without an explicit collection", function()
    local output, ok = process.run([[
      local tc = require "tcmma"
      tc.use "emulator"
      for i = 1, 1000 do
        local a = tc.empty({ 16, 1024, 1024 }, "f32")
        a:set(0, 0, 0, i)
        assert(a:get(0, 0, 0) == i)
      end
      print "fine"]], { TCMMA_EMULATOR_MEMORY = tostring(1 << 30) })
    assert(ok, output)
    assert.equal("fine\n", output)
  end)
end)

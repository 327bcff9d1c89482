-- PTX text: golden files (UPDATE=1 rewrites them), determinism, versions, comments, line tables.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local function read(path)
  local f = io.open(path)
  local text = f and f:read "a"
  if f then f:close() end
  return text
end

local function golden(name, text)
  local path = "spec/golden/" .. name .. ".ptx"
  if os.getenv "UPDATE" then
    local f <close> = assert(io.open(path, "w"))
    f:write(text)
  end
  assert.are.equal(read(path), text)
end

local function scale()
  return tc.kernel{
    name = "scale", args = { tc.gmem({ "M", 64 }, tc.float16) }, grid = { 2 }, grid_names = { "m" },
    body = function(x)
      local m = tc.axis_index "m"
      local tile = tc.smem({ 64, 64 }, tc.float16)
      local loaded = tc.barrier{}
      tc.copy_gmem_to_smem(x:tile({ m, 0 }, { 64, 64 }), tile, loaded)
      tc.barrier_wait(loaded)
      tile:store((tile:load() * 2):astype(tc.float16))
      tc.commit_smem()
      tc.copy_smem_to_gmem(tile, x:tile({ m, 0 }, { 64, 64 }))
    end,
  }
end

describe("emitted PTX", function()
  it("is the golden text of the warp-specialised matmul", function()
    local text = kernels.matmul{}:ptx{ target = "sm_100a" }
    golden("matmul.sm_100a", text)
    local _, lines = text:gsub("\n", "")
    assert.is_true(lines < 400)
  end)

  it("is the golden text of a copy in and out for sm_90a", function()
    golden("scale.sm_90a", scale():ptx{ target = "sm_90a" })
  end)

  it("is the same each time", function()
    assert.are.equal(kernels.matmul{}:ptx{ target = "sm_100a" }, kernels.matmul{}:ptx{ target = "sm_100a" })
  end)

  it("asks for the lowest version that the target takes", function()
    for target, version in pairs{ sm_90a = "8.0", sm_100a = "8.6", sm_103a = "8.8" } do
      local text = scale():ptx{ target = target }
      assert.are.equal(version, text:match "%.version (%S+)")
      assert.are.equal(target, text:match "%.target (%S+)")
    end
  end)

  it("has a comment with file and line for every recorded op", function()
    local text = kernels.matmul{}:ptx{ target = "sm_100a" }
    local line = {}
    for l in io.lines "spec/compiler_kernels.lua" do
      line[#line + 1] = l
    end
    local seen = {}
    for at, op in text:gmatch "// compiler_kernels%.lua:(%d+) (%S+)" do
      seen[op] = (seen[op] or 0) + 1
      local word = ({ range = "tc.range", when = "tc.when", role = "(function()" })[op] or op
      assert.is_truthy(line[tonumber(at)]:find(word, 1, true), op .. " at line " .. at)
    end
    assert.are.equal(2, seen.copy_gmem_to_smem)
    assert.are.equal(2, seen.copy_smem_to_gmem)
    assert.are.equal(3, seen.barrier_wait)
    assert.are.equal(1, seen.commit_arrive)
  end)

  it("bounds the block", function()
    local text = kernels.matmul{}:ptx{ target = "sm_100a" }
    assert.is_truthy(text:find(".maxntid 256, 1, 1", 1, true))
    assert.is_truthy(text:find(".minnctapersm 1", 1, true))
  end)

  it("assembles for every target", function()
    for _, target in ipairs{ "sm_100a", "sm_103a" } do
      local fine, message = kernels.assembles(kernels.matmul{}, target)
      if fine == nil then return pending(message) end
      assert.is_true(fine)
    end
    for _, target in ipairs{ "sm_90a", "sm_100a", "sm_103a" } do
      assert.is_true(kernels.assembles(scale(), target))
    end
  end)

  it("is the same code under any names", function()
    local source = [[
      local tc, name, profile = ...
      return tc.kernel{
        name = name, args = { tc.gmem({ "M", 64 }, tc.float32) }, profile = profile,
        grid = { 1 }, grid_names = { name .. 2 }, cluster = { 1 }, cluster_names = { name .. 3 },
        body = function(x)
          local store = tc.role{ name = name, warpgroups = 1 }
          local tile = tc.smem({ 64, 64 }, tc.float32, { name = name })
          local loaded = tc.barrier{ name = name }
          store(function()
            tc.copy_gmem_to_smem(x:tile({ tc.axis_index(name .. 2), 0 }, { 64, 64 }), tile, loaded)
            tc.barrier_wait(loaded)
            tc.assert(x.shape[1]:gt(0), name)
            tc.print((name:gsub("[{}]", "%0%0")))
            x:tile({ tc.axis_index(name .. 2), 0 }, { 64, 64 }):store(tile:load() + 1)
          end)
        end,
      }
    ]]
    local function lines(text) return select(2, text:gsub("\n", "")) end
    local names = { "plain", "a\nb", "a\r\n\t\0b", "\27[0m\127", '"quoted"', "back\\", "*/ //", "{}%d", "1", "\u{e9}" }
    for _, profile in ipairs{ false, true } do
      local expected
      for _, name in ipairs(names) do
        local kernel = assert(load(source, "@" .. name))(tc, name:gsub("%z", ""), profile)
        local x = tc.zeros({ 64, 64 }, tc.float32)
        local report = kernel:emulate({}, x)
        assert.is_true(report.completed, name)
        assert.equal(1, x:get(63, 63))
        expected = expected or lines(kernel:ptx())
        assert.equal(expected, lines(kernel:ptx()), name)
        assert.equal(lines(kernel:dump "record"), lines(kernel:ops()))
        assert.is_not_false((kernels.assembles(kernel)))
      end
    end
  end)

  it("is the golden text of the warp-specialised matmul for sm_90a", function()
    golden("matmul.sm_90a", kernels.matmul{}:ptx{ target = "sm_90a" })
  end)
end)

-- What the fuzzer of the API reaches: every function that the manual lists, and every metamethod.
local process = require "process"

local preload = os.getenv "LD_PRELOAD"

local function fuzzer(arguments)
  local output, ok = process.run(("arg = { [0] = 'fuzz/api.lua', %s } dofile 'fuzz/api.lua'"):format(arguments),
    { TCMMA_DEVICE = "emulator", LD_PRELOAD = preload })
  return ok, output
end

describe("the fuzzer of the API", function()
  local called = {}

  setup(function()
    local ok, output = fuzzer "'names'"
    assert(ok, output)
    for name in output:gmatch "[^\n]+" do called[name] = true end
  end)

  it("calls every function and method of the reference manual", function()
    local file = assert(io.open "docs/reference.md")
    local count = 0
    for heading in file:lines() do
      local name = heading:match "^### (%S+)$"
      if name then
        count = count + 1
        assert(called[name], name .. " is not in the fuzzer's list")
      end
    end
    file:close()
    assert.is_true(count > 190, "only " .. count .. " functions")
  end)

  it("calls every metamethod of every class", function()
    require "tcmma"
    for class, meta in pairs(debug.getregistry()) do
      if type(class) == "string" and class:find "^tcmma%." and type(meta) == "table" and rawget(meta, "__name") then
        for name, method in pairs(meta) do
          if type(method) == "function" then
            assert(called[class .. "." .. name], class .. "." .. name .. " is not in the fuzzer's list")
          end
        end
      end
    end
  end)

  it("runs for a second without a finding", function()
    local ok, output = fuzzer "'1', '1'"
    assert(ok, output)
    assert.matches(" calls, %d+ refused, seed 1: no crash\n$", output)
  end)
end)

-- docs/conformance.md: what it counts, and that the tests it names exist.
local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

describe("The list of Pallas' cases", function()
  local text = read "docs/conformance.md"

  it("counts its rows", function()
    local count = { run = 0, none = 0, missing = 0 }
    for case, state in text:gmatch "\n| ([^|]+) | (%l+) |" do
      if count[state] then count[state] = count[state] + 1 end
      assert.is_truthy(case)
    end
    local total, run, none, missing = text:match "\n| (%d+) | (%d+) | (%d+) | (%d+) |"
    assert.are.same({ run, none, missing }, { tostring(count.run), tostring(count.none), tostring(count.missing) })
    assert.are.equal(count.run + count.none + count.missing, math.tointeger(tonumber(total)))
  end)

  it("names tests that are there", function()
    local specs = {}
    for spec, title in text:gmatch "| run | `([%w_]+)`: ([^|]+) |" do
      specs[spec] = specs[spec] or read("spec/" .. spec .. ".lua")
      assert.is_truthy(specs[spec]:find(title, 1, true), spec .. ": " .. title)
    end
  end)
end)

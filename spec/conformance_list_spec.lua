-- docs/conformance.md: what it counts, and that the tests that it names are in their specs' lists, by their full names.
local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

-- Full names of the tests of a spec, as busted lists them: "file:line: name".
local function tests_of(spec)
  -- busted starts with any Lua, which these paths are not for.
  local command = "LUA_PATH_5_4='%s' LUA_CPATH_5_4='%s' busted --lua=lua5.4 --list spec/%s.lua 2>&1"
  local names, pipe = {}, assert(io.popen(command:format(package.path, package.cpath, spec)))
  for line in pipe:lines() do names[#names + 1] = line:match "^%S+:%d+: (.*)$" end
  pipe:close()
  return names
end

-- The whole name, in which an asterisk stands for anything.
local function names_one(names, wanted)
  local pattern = "^" .. wanted:gsub("[%^%$%(%)%%%.%[%]%+%-%?]", "%%%0"):gsub("%*", ".*") .. "$"
  for _, name in ipairs(names) do
    if name:match(pattern) then return true end
  end
  return false
end

describe("The list of Pallas' cases", function()
  local text = read "docs/conformance.md"

  it("counts its rows", function()
    local count = { run = 0, raises = 0, none = 0, missing = 0 }
    for state in text:gmatch "\n| [^|\n]+ | (%l+) |" do
      if count[state] then count[state] = count[state] + 1 end
    end
    local total, run, raises, none, missing = text:match "\n| (%d+) | (%d+) | (%d+) | (%d+) | (%d+) |"
    assert.are.same({ run, raises, none, missing },
      { tostring(count.run), tostring(count.raises), tostring(count.none), tostring(count.missing) })
    assert.are.equal(count.run + count.raises + count.none + count.missing, math.tointeger(tonumber(total)))
  end)

  it("says of each case where it runs or is raised, or why there is none", function()
    for case, state, where, note in text:gmatch "\n| ([^|\n]+) | (%l+) |([^|\n]*)| ([^|\n]*)|%f[\n\0]" do
      if state == "run" or state == "raises" then
        assert.matches("^ `[%w_]+`: .+ $", where, case)
      elseif state == "none" then
        assert.matches("%a", note, case)
      end
    end
  end)

  it("names tests that are in their specs", function()
    local tests, wrong, count = {}, {}, 0
    for state, spec, name in text:gmatch "\n| [^|\n]+ | (%l+) | `([%w_]+)`: ([^|\n]+) |" do
      tests[spec] = tests[spec] or tests_of(spec)
      count = count + 1
      if not names_one(tests[spec], name) then wrong[#wrong + 1] = ("%s, %s: %s"):format(state, spec, name) end
    end
    assert.is_true(count > 200)
    assert.are.same({}, wrong)
  end)

  it("would miss a part of a name", function()
    assert.is_false(names_one({ "Scheduling: test_planar_snake" }, "test_planar_snake"))
    assert.is_false(names_one({ "Scheduling: test_planar_snake" }, "Scheduling: test_planar"))
    assert.is_true(names_one({ "mma_basic_float, M = 64" }, "mma_basic_float, M = *"))
  end)
end)

-- The Lua blocks of the manual and of README run as they stand; links lead to files, and commands exist.
local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

for _, path in ipairs { "docs/manual.md", "README.md" } do
  describe(path, function()
    local text, number = read(path), 0
    for block in text:gmatch "\n```lua\n(.-)\n```" do
      number = number + 1
      it("has a block " .. number .. " that runs", function()
        local print_before = print
        _G.print = function() end
        local ok, message = pcall(assert(load(block, "=block")))
        _G.print = print_before
        assert(ok, message)
      end)
    end

    it("has code", function() assert(number > 0) end)
  end)
end

describe("commands", function()
  it("of make have a target", function()
    local makefile = "\n" .. read "Makefile"
    for _, path in ipairs { "README.md", "docs/manual.md", "docs/bench.md", "docs/performance.md", "docs/hardware.md",
      "src/README.md", ".ci/run" } do
      for target in ("\n" .. read(path)):gmatch "[`\n ]make ([%l][%l%-]*)[`\n ]" do
        if not ({ ["it"] = true, ["a"] = true })[target] then
          assert(makefile:find("\n" .. target:gsub("%-", "%%-") .. ":"), path .. " says make " .. target)
        end
      end
    end
  end)
end)

describe("links", function()
  for _, path in ipairs { "README.md", "docs/manual.md", "docs/semantics.md", "docs/isa.md", "src/README.md" } do
    it("of " .. path .. " lead to files", function()
      local folder = path:match "^.*/" or ""
      for target in read(path):gmatch "%]%(([^)#%s]+)[^)]*%)" do
        if not target:find "^%a+:" then
          local file = io.open(folder .. target)
          assert(file, path .. ": " .. target)
          file:close()
        end
      end
    end)
  end
end)

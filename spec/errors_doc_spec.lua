-- docs/errors.md, src/errors.def and the checks say the same.
local tool = dofile "tools/errors.lua"

local function read(path)
   local file = assert(io.open(path))
   local text = file:read "a"
   file:close()
   return text
end

local function sources(pattern)
   local list, pipe = {}, assert(io.popen("ls " .. pattern))
   for path in pipe:lines() do list[#list + 1] = read(path) end
   pipe:close()
   return table.concat(list, "\n")
end

local entries = tool.entries(read "src/errors.def")

local function messages()
   return coroutine.wrap(function()
      for _, e in ipairs(entries) do
         if e.macro ~= "SECTION" then coroutine.yield(e) end
      end
   end)
end

describe("docs/errors.md", function()
   it("is what tools/errors.lua makes of the table", function()
      local page = tool.page(entries)
      assert.equal(page, read("docs/errors.md"):sub(1, #page))
   end)

   it("has every message with condition, cause and fix", function()
      local seen = {}
      for e in messages() do
         assert.is_nil(seen[e.id])
         seen[e.id] = true
         for _, field in ipairs { "text", "condition", "cause", "fix" } do
            assert.is_truthy(e[field] and e[field] ~= "", e.id .. " lacks its " .. field)
         end
      end
   end)

   it("lists what has no counterpart with a reason, each once, and nothing that is raised", function()
      local function shape_of(text) return (text:gsub("%b{}", "{}"):gsub("%s+", " "):gsub("%.$", "")) end
      local raised, seen = {}, {}
      for e in messages() do raised[shape_of(e.text)] = e.id end
      for _, group in ipairs(tool.absent()) do
         assert.is_true(#group.why > 0 and #group > 0)
         for _, text in ipairs(group) do
            assert.is_nil(raised[shape_of(text)], text)
            assert.is_nil(seen[text], text)
            seen[text] = true
         end
      end
   end)

   it("names no C file", function() assert.is_nil(read("docs/errors.md"):find "[%w_]%.c[%s|:]") end)
end)

describe("Every message of the table", function()
   it("is raised somewhere", function()
      local code, parts, unused = sources "src/*.c", sources "lua/tcmma/*.lua", {}
      for e in messages() do
         local in_lua = parts:find(('"%s"'):format(e.id), 1, true)
         if not in_lua and not code:find("[ (]" .. e.id .. "[,)]") and not code:find("ERROR_" .. e.id .. "[,)]") then
            unused[#unused + 1] = e.id
         end
      end
      assert.same({}, unused)
   end)

   it("is documented word for word in a spec", function()
      local specs = sources("spec/*_spec.lua"):gsub('"%s*%.%.%s*"', ""):gsub("'%s*%.%.%s*\"", ""):gsub("%%([%p])", "%1")
         :gsub("\\\"", "\"")
      local missing = {}
      for e in messages() do
         local pattern = e.text:gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0"):gsub("{[^}]*}", "[^\n]-")
         if e.macro ~= "OWN" and not specs:find(pattern) then missing[#missing + 1] = e.id end
      end
      assert.same({}, missing)
   end)
end)

describe("tc.raise_documented", function()
   local tc = require "tcmma"

   it("wants as many words as the message has", function()
      local _, none = pcall(tc.raise_documented, "LOOP_TILING")
      assert.matches("message 'LOOP_TILING' has 2 words, got 0", none, 1, true)
      local _, three = pcall(tc.raise_documented, "LOOP_TILING", "a", "b", "c")
      assert.matches("message 'LOOP_TILING' has 2 words, got 3", three, 1, true)
      local _, two = pcall(tc.raise_documented, "LOOP_TILING", "(2,)", "(3,)")
      assert.matches("Tiling (2,) does not divide grid (3,).", two, 1, true)
   end)
end)

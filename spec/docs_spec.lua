local tc = require "tcmma"
local documentation = require "tcmma.documentation"

local function printed(fn, ...)
  local lines, print_before = {}, print
  _G.print = function(...) lines[#lines + 1] = table.concat({ ... }, "\t") end
  local ok, err = pcall(fn, ...)
  _G.print = print_before
  assert(ok, err)
  return table.concat(lines, "\n")
end

describe("every function", function()
  local all = documentation.all()

  it("has a signature that can be read, and a text", function()
    for _, entry in ipairs(all) do
      if entry.name then
        local signature, text = documentation.split(entry)
        local parsed, why = documentation.parse(signature)
        assert(parsed, ("%s.%s: %s"):format(entry.owner, entry.name, why))
        assert.equal(entry.name, parsed.name:match "[%w_]+$")
        assert(#text > 0, ("%s.%s has no text"):format(entry.owner, entry.name))
      end
    end
  end)

  it("is documented once", function()
    local seen = {}
    for _, entry in ipairs(all) do
      local name = entry.owner .. "." .. (entry.name or "")
      assert(not seen[name], name .. " is documented twice")
      seen[name] = true
    end
  end)

  it("of the module is documented", function()
    local known = {}
    for _, entry in ipairs(all) do known[entry.owner .. "." .. (entry.name or "")] = true end
    for name, value in pairs(tc) do
      if type(value) == "function" then assert(known["tcmma." .. name], "tc." .. name .. " has no documentation") end
    end
  end)
end)

describe("a signature", function()
  it("is taken apart", function()
    local parsed = documentation.parse("f(self, a: {x?: integer, y: fun(b: any): any}, "
      .. "b?: number|string, ...: any) -> A<B, C>, D?")
    assert.same({
      name = "f",
      parameters = {
        { name = "a", type = "{x?: integer, y: fun(b: any): any}", optional = false },
        { name = "b", type = "number|string", optional = true },
        { name = "...", type = "any", optional = false },
      },
      returns = { "A<B, C>", "D?" },
    }, parsed)
    assert.same({ name = "g", parameters = {}, returns = {} }, documentation.parse "g()")
  end)

  it("that is none is refused with the reason", function()
    assert.matches("not a signature", select(2, documentation.parse "what it does"))
    assert.matches("not a parameter: '5'", select(2, documentation.parse "f(5)"))
    assert.matches("'%-> type' expected", select(2, documentation.parse "f() : x"))
  end)
end)

describe("help", function()
  it("describes a function, by value and by name", function()
    local text = printed(tc.help, tc.zeros)
    assert.matches("^tc%.zeros%(shape: integer%[%], dtype: DType", text)
    assert.matches("A new array of zeros", text)
    assert.equal(text, printed(tc.help, "zeros"))
    assert.equal(text, printed(tc.help, "tc.zeros"))
  end)

  it("describes methods and tables of functions", function()
    assert.matches("^array:get%(", printed(tc.help, "array:get"))
    assert.matches("^array:get%(", printed(tc.help, tc.zeros({ 1 }, "f32").get))
    assert.matches("^tc%.npy%.load%(", printed(tc.help, tc.npy.load))
    assert.matches("^tc%.reference%.matmul%(", printed(tc.help, "reference.matmul"))
  end)

  it("describes an object with its class", function()
    local text = printed(tc.help, tc.zeros({ 2 }, "f16"))
    assert.matches("^tcmma%.array f16%[2%] on ", text)
    assert.matches("%.shape %(integer%[%]%)", text)
    assert.matches("\n  reshape +A view of the same memory", text)
    assert.matches("float16", printed(tc.help, tc.f16))
    assert.matches("tcmma%.array", printed(tc.help, "array"))
  end)

  it("knows every function by value and by its name, and every class", function()
    local all = documentation.all()
    local classes = documentation.classes(all)
    for _, entry in ipairs(all) do
      if entry.name then
        local spelled = documentation.spelled(entry.owner, classes[entry.owner], entry.name)
        assert.equal(spelled .. "(", printed(tc.help, entry.value):sub(1, #spelled + 1))
        assert(printed(tc.help, spelled):find(spelled .. "(", 1, true), spelled)
      else
        local name = entry.owner:gsub("^tcmma%.", "")
        assert(printed(tc.help, entry.owner):find(entry.owner, 1, true), entry.owner)
        assert.not_matches("nothing is documented", printed(tc.help, name))
      end
    end
  end)

  it("begins with what to call first, and the subjects", function()
    local text = printed(tc.help)
    assert.matches("Begin with tc%.kernel{", text)
    for _, subject in ipairs(require "tcmma.subjects") do assert.matches("\n  " .. subject[1] .. " ", text) end
    assert.equal(text, printed(tc.help, tc))
    for line in text:gmatch "[^\n]+" do assert(#line <= 120, line) end
  end)

  it("lists a subject", function()
    local text = printed(tc.help, "arrays")
    assert.matches("\n  tc%.zeros +A new array of zeros", text)
    assert.matches("\n  tc%.npy%.load +Reads", text)
    assert.matches("\n  class array +Elements in the memory", text)
  end)

  it("has an answer to every word that it lists", function()
    for _, subject in ipairs(require "tcmma.subjects") do
      assert.matches("^" .. subject[1] .. ": ", printed(tc.help, subject[1]))
      for _, name in ipairs(subject[3]) do
        local text = printed(tc.help, name)
        assert.not_matches("nothing is documented", text)
        assert.not_matches("no documentation", text)
        local short = name:gsub("^class ", ""):gsub("%*$", "")
        assert(text:find(short, 1, true), name)
      end
    end
    assert.matches("^module:kernels%(", printed(tc.help, "module:kernels"))
    assert.matches("\n\ntc%.config%.gpu_timeout %(TCMMA_GPU_TIMEOUT, default 0%)\n    Seconds ",
      printed(tc.help, "config"))
    assert.equal(printed(tc.help, tc.config), printed(tc.help, "tc.config"))
    assert.matches("^SMEM\n\ntcmma%.space\n", printed(tc.help, "SMEM"))
    assert.matches("^tc%.all\n\ntcmma%.slice\n", printed(tc.help, "all"))
    assert.matches("^  tc%.atomic_%w+ .*\n  tc%.atomic_", printed(tc.help, "atomic_*"))
    assert.matches("^tcmma%.array\n", printed(tc.help, "class array"))
    assert.matches("^Functions of tc%.npy:\n  load ", printed(tc.help, "npy"))
  end)

  it("has a subject for every function and every class", function()
    local all, at = documentation.all(), {}
    local classes = documentation.classes(all)
    for _, subject in ipairs(require "tcmma.subjects") do
      assert.is_nil(rawget(tc, subject[1]), subject[1] .. " is a function too")
      for _, name in ipairs(subject[3]) do
        assert.is_nil(at[name], name .. " stands in two subjects")
        at[name] = subject[1]
      end
    end
    for _, entry in ipairs(all) do
      local owner = entry.owner:gsub("^tcmma%.", "")
      local name = entry.owner == "tcmma" and entry.name or not entry.name and "class " .. owner
      if not name and not classes[entry.owner] then name = owner end
      assert(not name or at[name] or at[name:gsub("_.*$", "_*")], ("'%s' stands in no subject"):format(name))
    end
    for name in pairs(at) do
      local class = name:match "^class (.*)$"
      if class then
        assert(classes["tcmma." .. class], name)
      elseif not name:find "%*" then
        assert(tc[name] ~= nil, name)
      end
    end
  end)

  it("says when there is nothing, with what is near and where the word stands", function()
    local function first(word) return printed(tc.help, word):match "^[^\n]*" end
    assert.equal("nothing is documented under 'zero' (did you mean 'zeros'?); the word stands in", first "zero")
    assert.equal("nothing is documented under 'smen' (did you mean 'smem'?)", printed(tc.help, "smen"))
    assert.equal("nothing is documented under 'tc.barier' (did you mean 'barrier'?)",
      printed(tc.help, "tc.barier"))
    assert.equal("nothing is documented under 'array:tot' (did you mean 'to' or 'totable'?)",
      printed(tc.help, "array:tot"))
    assert.matches("\n  tc%.smem ", printed(tc.help, "swizzle"))
    assert.equal("nothing is documented under 'xqzzy'", printed(tc.help, "xqzzy"))
    assert.equal("no documentation of a boolean", printed(tc.help, true))
  end)
end)

describe("the written documentation", function()
  it("is what the code says", function()
    local command = ("LUA_PATH='%s' LUA_CPATH='%s' lua5.4 tools/docs.lua --check 2>&1"):format(package.path,
      package.cpath)
    local pipe = assert(io.popen(command))
    local output = pipe:read "a"
    assert(pipe:close(), output)
  end)
end)

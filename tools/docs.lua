--- Writes docs/reference.md and lua/tcmma/meta.lua from the documentation in the code, the table of
-- variables in README.md from that of the settings, and that of products in docs/manual.md from src/mma.def.
--
-- lua5.4 tools/docs.lua [--check]: with --check nothing is written, and the exit status is 1 when one of
-- them is not what it would be.  Needs LUA_PATH and LUA_CPATH as `make -s env` prints them.

local documentation = require "tcmma.documentation"
local subjects = require "tcmma.subjects"
local tc = require "tcmma"

local mma = dofile "tools/mma.lua"

local REFERENCE, META, README = "docs/reference.md", "lua/tcmma/meta.lua", "README.md"
local MANUAL, MMA = "docs/manual.md", "src/mma.def"
local TABLE_BEGIN, TABLE_END = "<!-- made by tools/docs.lua -->\n", "<!-- end -->\n"

--- {owner = {class = entry?, functions = {entry...}}}, and the owners in order.
local function group(all)
  local groups, owners = {}, {}
  for _, entry in ipairs(all) do
    local owner = groups[entry.owner]
    if not owner then
      owner = { functions = {} }
      groups[entry.owner] = owner
      owners[#owners + 1] = entry.owner
    end
    if entry.name then
      owner.functions[#owner.functions + 1] = entry
    else
      owner.class = entry
    end
  end
  -- The module first, then its tables of functions, then the classes.
  local function key(owner)
    return (owner == "tcmma" and "1" or groups[owner].class and "3" or "2") .. owner
  end
  table.sort(owners, function(a, b) return key(a) < key(b) end)
  for _, owner in pairs(groups) do
    table.sort(owner.functions, function(a, b) return a.name < b.name end)
  end
  return groups, owners
end

local spelled = documentation.spelled

local function parse(entry)
  local signature, text = documentation.split(entry)
  local parsed, why = documentation.parse(signature)
  if not parsed then error(("%s.%s: %s"):format(entry.owner, entry.name, why), 0) end
  if parsed.name:match "[%w_]+$" ~= entry.name then
    error(("%s.%s: the signature names '%s'"):format(entry.owner, entry.name, parsed.name), 0)
  end
  return parsed, text
end

local function signature_text(parsed)
  local parameters = {}
  for i, p in ipairs(parsed.parameters) do
    parameters[i] = p.name .. (p.optional and "?" or "") .. ": " .. p.type
  end
  local returns = #parsed.returns > 0 and " -> " .. table.concat(parsed.returns, ", ") or ""
  return "(" .. table.concat(parameters, ", ") .. ")" .. returns
end

--- Text of a class and its fields: {name, type, text}.
local function class_text(entry)
  local lines, fields = {}, {}
  for line in (entry.doc .. "\n"):gmatch "([^\n]*)\n" do
    local name, kind, text = line:match "^%-%-%-@field (%S+) (%S+)%s*(.*)$"
    if name then
      fields[#fields + 1] = { name = name, type = kind, text = text }
    elseif line ~= entry.owner then
      lines[#lines + 1] = line
    end
  end
  return table.concat(lines, "\n"):match "^%s*(.-)%s*$", fields
end

local function reference(all, groups, owners)
  local out = {
    "<!-- Made by tools/docs.lua from the documentation in the code: do not edit. -->",
    "# Reference", "",
    "`local tc = require \"tcmma\"`. A `DType` is a dtype object or its name, long or short; `Ref` is",
    "short for `tcmma.ref`, and so on. **Coordinates of the hardware (elements, tiles, threads, barriers) begin",
    "at 0; Lua tables begin at 1.**", "",
  }
  for _, subject in ipairs(subjects) do
    local names = {}
    for i, entry in ipairs(documentation.of_subject(all, subject)) do
      local title = entry.name and spelled(entry.owner, false, entry.name) or entry.owner
      names[i] = ("[%s](#%s)"):format(entry.name and title:gsub("^tc%.", "") or "class " .. title:gsub("^tcmma%.", ""),
        title:gsub("%.", ""))
    end
    out[#out + 1] = ("- **%s**, %s: %s"):format(subject[1], subject[2], table.concat(names, ", "))
  end
  for _, owner in ipairs(owners) do
    local g = groups[owner]
    table.move({ "", "## " .. (owner == "tcmma" and "The module" or owner), "" }, 1, 3, #out + 1, out)
    if g.class then
      local text, fields = class_text(g.class)
      if text ~= "" then table.move({ text, "" }, 1, 2, #out + 1, out) end
      for _, field in ipairs(fields) do
        out[#out + 1] = ("- `.%s`: `%s`%s"):format(field.name, field.type,
          field.text ~= "" and "  " .. field.text or "")
      end
      if #fields > 0 then out[#out + 1] = "" end
    end
    for _, entry in ipairs(g.functions) do
      local parsed, text = parse(entry)
      table.move({
        "### " .. spelled(owner, g.class ~= nil, entry.name), "", "```lua",
        spelled(owner, g.class ~= nil, entry.name) .. signature_text(parsed), "```", "", text, "",
      }, 1, 8, #out + 1, out)
    end
  end
  return (table.concat(out, "\n"):gsub("\n\n\n+", "\n\n"):gsub("%s+$", "")) .. "\n"
end

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then
  true until while]]):gmatch "%a+" do keywords[word] = true end

local function stub(out, entry, prefix)
  local parsed, text = parse(entry)
  local names = {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    if text ~= "" then out[#out + 1] = "---" .. line end
  end
  for i, p in ipairs(parsed.parameters) do
    local name = keywords[p.name] and p.name .. "_" or p.name
    out[#out + 1] = ("---@param %s%s %s"):format(name, p.optional and p.name ~= "..." and "?" or "", p.type)
    names[i] = name
  end
  for _, kind in ipairs(parsed.returns) do out[#out + 1] = "---@return " .. kind:gsub("%.%.%.$", " ...") end
  -- A name that Lua reserves can only be written as an index.
  local short = parsed.name:match "[%w_]+$"
  if keywords[short] then
    out[#out + 1] = ("%s[\"%s\"] = function(%s) end"):format(prefix:sub(1, -2), short, table.concat(names, ", "))
  else
    out[#out + 1] = ("function %s%s(%s) end"):format(prefix, short, table.concat(names, ", "))
  end
  out[#out + 1] = ""
end

--- The types of options tables, MmaOptions or KernelSpec, whose fields stand in the text.
local function option_types(groups, owners)
  local seen, names = {}, {}
  for _, owner in ipairs(owners) do
    for _, entry in ipairs(groups[owner].functions) do
      for _, parameter in ipairs((parse(entry)).parameters) do
        for name in parameter.type:gmatch "%f[%w]%u%w+%f[%W]" do
          if (name:find "Options$" or name:find "Spec$") and not seen[name] then
            seen[name] = true
            names[#names + 1] = name
          end
        end
      end
    end
  end
  table.sort(names)
  return names
end

local function meta(groups, owners)
  local out = {
    "---@meta tcmma",
    "-- Made by tools/docs.lua from the documentation in the code, for editors; never loaded.", "",
    "---@alias DType tcmma.dtype|string",
  }
  -- Signatures may say Ref for tcmma.ref.
  for _, owner in ipairs(owners) do
    local short = owner:match "^tcmma%.(%l+)$"
    if groups[owner].class and short ~= "dtype" then
      out[#out + 1] = ("---@alias %s %s"):format(short:gsub("^%l", string.upper), owner)
    end
  end
  for _, name in ipairs(option_types(groups, owners)) do out[#out + 1] = ("---@alias %s table"):format(name) end
  table.move({ "", "---@class tcmma", "local tc = {}", "" }, 1, 4, #out + 1, out)
  for _, dtype in ipairs(tc.dtypes()) do
    out[#out + 1] = ("---@type tcmma.dtype\ntc.%s = nil\n---@type tcmma.dtype\ntc.%s = nil"):format(dtype.name,
      dtype.short)
  end
  for _, bits in ipairs { 64, 32, 16, 8 } do
    out[#out + 1] = ("---@type tcmma.dtype\ntc.s%d = nil"):format(bits)
  end
  out[#out + 1] = "---@type tcmma.space\ntc.GMEM = nil\n---@type tcmma.space\ntc.SMEM = nil"
  out[#out + 1] = "---@type tcmma.space\ntc.TMEM = nil\n"
  for _, owner in ipairs(owners) do
    local g, prefix = groups[owner]
    local short = owner:gsub("^tcmma%.", "")
    if owner == "tcmma" then
      prefix = "tc."
    elseif g.class then
      local text, fields = class_text(g.class)
      for line in (text .. "\n"):gmatch "([^\n]*)\n" do out[#out + 1] = "---" .. line end
      out[#out + 1] = "---@class " .. owner
      for _, field in ipairs(fields) do
        out[#out + 1] = ("---@field %s %s %s"):format(field.name, field.type, field.text):gsub("%s+$", "")
      end
      local variable = "class_" .. short
      out[#out + 1] = ("local %s = {}\n"):format(variable)
      prefix = variable .. ":"
    else
      out[#out + 1] = ("tc.%s = {}\n"):format(short)
      prefix = "tc." .. short .. "."
    end
    for _, entry in ipairs(g.functions) do stub(out, entry, prefix) end
  end
  out[#out + 1] = "return tc\n"
  return table.concat(out, "\n")
end

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

--- The text of a file with these lines between its two marks.
local function with_table(path, lines)
  local text = assert(read(path))
  local _, first = text:find(TABLE_BEGIN, 1, true)
  local last = text:find(TABLE_END, 1, true)
  assert(first and last, path .. " lacks the marks of its table")
  return text:sub(1, first) .. table.concat(lines, "\n") .. "\n" .. text:sub(last)
end

local function readme()
  local rows = { "| variable | `tc.config` | default | meaning |", "|---|---|---|---|" }
  for _, s in ipairs(tc.settings()) do
    rows[#rows + 1] = ("| `%s` | `%s` | %s | %s |"):format(s.variable, s.field,
      s.default and "`" .. s.default .. "`" or "", s.doc)
  end
  return with_table(README, rows)
end

local function manual()
  return with_table(MANUAL, mma.manual(mma.rows(assert(read(MMA))), function(t) return tc[t].name end))
end

local function main(check)
  local all = documentation.all()
  local groups, owners = group(all)
  local stale = false
  local made = { [REFERENCE] = reference(all, groups, owners), [META] = meta(groups, owners), [README] = readme(),
    [MANUAL] = manual() }
  for path, text in pairs(made) do
    if read(path) == text then goto continue end
    if check then
      io.stderr:write(path, " is stale: run `make docs`\n")
      stale = true
    else
      local file = assert(io.open(path, "wb"))
      assert(file:write(text))
      assert(file:close())
      print("wrote " .. path)
    end
    ::continue::
  end
  return not stale
end

local ok, result = pcall(main, arg[1] == "--check")
if not ok then
  io.stderr:write("documentation: ", tostring(result), "\n")
  os.exit(1)
end
os.exit(result and 0 or 1)

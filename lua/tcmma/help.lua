--- help at the prompt: `tc.help(tc.mma)`, `tc.help "mma"`, `tc.help(array)`, `tc.help()`.

local arguments = require "tcmma.arguments"
local core = require "tcmma.core"
local documentation = require "tcmma.documentation"
local subjects = require "tcmma.subjects"

local function by_owner(all, owner)
  local list = {}
  for _, entry in ipairs(all) do
    if entry.owner == owner and entry.name then list[#list + 1] = entry end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local function describe(entry, classes)
  local signature, text = documentation.split(entry)
  local title = entry.name and documentation.spelled(entry.owner, classes[entry.owner], signature) or entry.owner
  if not entry.name and signature ~= entry.owner then text = signature .. "\n" .. text end
  return title .. (text ~= "" and "\n\n" .. text or "")
end

local function first_sentence(entry)
  local signature, text = documentation.split(entry)
  if entry.is_class and not signature:find "^tcmma%." then text = signature end
  local sentence = text:gsub("%s+", " "):match "^(.-%.)%f[%s%z]" or text:gsub("%s+", " ")
  return #sentence <= 90 and sentence or sentence:sub(1, 87) .. "..."
end

local function listing(entries)
  local width, lines = 0, {}
  for _, entry in ipairs(entries) do width = math.max(width, #entry.name) end
  for i, entry in ipairs(entries) do
    lines[i] = ("  %-" .. width .. "s  %s"):format(entry.name, first_sentence(entry))
  end
  return table.concat(lines, "\n")
end

local function describe_class(all, class)
  local parts, classes = {}, documentation.classes(all)
  for _, entry in ipairs(all) do
    if entry.owner == class and not entry.name then
      parts[#parts + 1] = (describe(entry, classes):gsub("%-%-%-@field (%S+) (%S+)", "  .%1 (%2)"))
    end
  end
  local methods = by_owner(all, class)
  if #methods > 0 then
    local title = classes[class] and "Methods" or "Functions of tc." .. class:gsub("^tcmma%.", "")
    parts[#parts + 1] = title .. ":\n" .. listing(methods)
  end
  return #parts > 0 and table.concat(parts, "\n\n") or nil
end

--- As in a call, or the name of the class; for `listing`.
local function titled(entry, classes)
  local title = entry.name and documentation.spelled(entry.owner, classes[entry.owner], entry.name)
  return { name = title or "class " .. entry.owner:gsub("^tcmma%.", ""), doc = entry.doc, is_class = not title }
end

local function of_subject(all, subject)
  local list, classes = {}, documentation.classes(all)
  for i, entry in ipairs(documentation.of_subject(all, subject)) do list[i] = titled(entry, classes) end
  return list
end

--- Words in lines of at most `width`, indented.
local function wrapped(words, indent, width)
  local lines, line = {}, nil
  for _, word in ipairs(words) do
    if line and #line + #word < width then
      line = line .. " " .. word
    else
      lines[#lines + 1] = line
      line = (" "):rep(indent) .. word
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local function overview()
  local lines = {}
  for i, subject in ipairs(subjects) do
    local names = {}
    for _, name in ipairs(subject[3]) do
      if not name:find "^class " then names[#names + 1] = name end
    end
    lines[i] = ("  %-15s %s\n"):format(subject[1], subject[2]) .. wrapped(names, 18, 110)
  end
  return [[
tcmma: tensor-core kernels from Lua.

Begin with tc.kernel{ name =, args = { tc.gmem({ 128, 64 }, "f16"), ... }, body = function(...) ... end }: the body
records, and calling the kernel with arrays (tc.randn, tc.zeros) runs it, on a GPU or on the emulator. At the prompt,
k, a, b = tc.record{ args = ... } records line by line until k:finish().

tc.help "copies" lists a subject, tc.help(tc.mma) or tc.help "array:get" describes a function, tc.help(x) an object:

]] .. table.concat(lines, "\n")
end

local function by_name(all, name)
  local found, classes = {}, documentation.classes(all)
  local owner, short = name:match "^(.+)[%.:]([%w_]+)$"
  for _, entry in ipairs(all) do
    local owner_name = entry.owner:gsub("^tcmma%.", "")
    if entry.name and (entry.name == name or entry.name == short
        and (owner == "tc" or owner == owner_name or owner == entry.owner
          or owner == "tc." .. owner_name)) then
      table.insert(found, entry.owner == "tcmma" and 1 or #found + 1, describe(entry, classes))
    end
  end
  found[#found + 1] = describe_class(all, name) or describe_class(all, "tcmma." .. name)
  return #found > 0 and table.concat(found, "\n\n") or nil
end

local function subject_text(all, name)
  for _, subject in ipairs(subjects) do
    if subject[1] == name then
      return ("%s: %s\n\n%s"):format(subject[1], subject[2], listing(of_subject(all, subject)))
    end
  end
end

--- The settings, with what they are now.
local function settings_text(config)
  local parts = { tostring(config) }
  for i, setting in ipairs(core.settings()) do
    local words = {}
    for word in setting.doc:gmatch "%S+" do words[#words + 1] = word end
    parts[i + 1] = ("tc.config.%s (%s, default %s)\n%s"):format(setting.field, setting.variable,
      tostring(setting.default or "none"), wrapped(words, 4, 110))
  end
  return table.concat(parts, "\n\n")
end

local text_for

--- What a subject lists beside functions: "class array", "atomic_*", an object of the module.
local function listed_text(all, name)
  local class = name:match "^class (.+)$"
  if class then return describe_class(all, "tcmma." .. class) end
  local plain = name:gsub("^tc%.", "")
  if plain:find "%*$" then
    local list = of_subject(all, { nil, nil, { plain } })
    return #list > 0 and listing(list) or nil
  end
  local value = rawget(require "tcmma", plain)
  return (type(value) == "table" or type(value) == "userdata") and text_for(value) or nil
end

--- Functions and classes whose documentation has the word, or one that begins so.
local function mentions(all, word)
  local list, classes = {}, documentation.classes(all)
  local pattern = "%f[%w_]" .. word:lower():gsub("%p", "%%%0")
  for _, entry in ipairs(all) do
    if entry.doc:lower():find(pattern) then list[#list + 1] = titled(entry, classes) end
  end
  return list
end

--- What a word is answered with that names nothing.
local function nothing_named(all, name)
  local text, known, seen = ("nothing is documented under '%s'"):format(name), {}, {}
  for _, entry in ipairs(all) do
    local word = entry.name or entry.owner:gsub("^tcmma%.", "")
    if not seen[word] then known[#known + 1] = word end
    seen[word] = true
  end
  for _, subject in ipairs(subjects) do
    known[#known + 1], seen[subject[1]] = subject[1], true
  end
  local short = name:match "([%w_]+)$" or name
  if #core.nearest(short, known) > 0 then
    text = ("%s (%s)"):format(text, arguments.advice(short, nil, seen))
  end
  local list = #name >= 3 and mentions(all, name) or {}
  return #list > 0 and ("%s; the word stands in\n\n%s"):format(text, listing(list)) or text
end

--- The text that `help` prints.
function text_for(x)
  local all = documentation.all()
  if x == nil or rawequal(x, require "tcmma") then return overview() end
  if type(x) == "string" then
    return subject_text(all, x) or by_name(all, x) or listed_text(all, x) or nothing_named(all, x)
  end
  if rawequal(x, core.config) then return settings_text(x) end
  for _, entry in ipairs(all) do
    if entry.value ~= nil and rawequal(entry.value, x) then return describe(entry, documentation.classes(all)) end
  end
  local meta = getmetatable(x)
  local class = type(meta) == "table" and rawget(meta, "__name")
  local text = class and describe_class(all, class:match "^[^ ]*")
  if text then return tostring(x) .. "\n\n" .. text end
  for name, value in pairs(require "tcmma") do
    if rawequal(value, x) then
      return by_name(all, name) or describe_class(all, "tcmma." .. name) or ("tc.%s has no documentation"):format(name)
    end
  end
  return ("no documentation of a %s"):format(type(x))
end

--- Prints what is known about a function, an object, a class or a name.
local function help(x)
  print(text_for(x))
end

documentation.add("tcmma", {
  { "help", help, [[
help(x?: any)
Prints the documentation of a function (`tc.help(tc.zeros)`), of a name (`tc.help "zeros"`,
`tc.help "array:get"`), of an object and its class (`tc.help(a)`), of a subject (`tc.help "copies"`);
without an argument, the subjects. A word that names nothing is looked for in all documentation.]] },
})

return help

--- All documentation there is: that of the C functions and that of the Lua parts.
--
-- An entry is {owner=, name=, doc=, value=}.  `owner` is "tcmma", a table of functions such as
-- "tcmma.npy", or a class; the entry of a class has no name.  The first line of `doc` is the
-- signature, with the types of LuaCATS; Markdown follows.

local core = require "tcmma.core"

local documentation = {}

local added = {}

--- Adds functions: a list of {name, value, doc}.
function documentation.add(owner, list)
  for _, item in ipairs(list) do
    added[#added + 1] = { owner = owner, name = item[1], value = item[2], doc = item[3] }
  end
end

--- Every entry, in the order of registration; the parts in Lua add theirs when they are loaded.
function documentation.all()
  local parts, names = require "tcmma.parts", {}
  for name in pairs(parts) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do require("tcmma." .. parts[name]) end
  local all = core.documentation()
  table.move(added, 1, #added, #all + 1, all)
  return all
end

--- Splits at commas that stand in no bracket.
local function split_list(text)
  local parts, depth, first = {}, 0, 1
  for at = 1, #text do
    local c = text:sub(at, at)
    if c:find "[%(%[{<]" then
      depth = depth + 1
    elseif c:find "[%)%]}]" or c == ">" and text:sub(at - 1, at - 1) ~= "-" then
      depth = depth - 1
    elseif c == "," and depth == 0 then
      parts[#parts + 1] = text:sub(first, at - 1)
      first = at + 1
    end
  end
  parts[#parts + 1] = text:sub(first)
  for i, part in ipairs(parts) do parts[i] = part:match "^%s*(.-)%s*$" end
  if parts[1] == "" then return {} end
  return parts
end

--- Takes "name(a: T, b?: U) -> R" apart: {name=, parameters={{name=, type=, optional=}}, returns={}}.
-- nil and what is wrong if it is no signature.
function documentation.parse(signature)
  local name, list, rest = signature:match "^([%w_%.:]+)(%b())%s*(.-)%s*$"
  if not name then return nil, "not a signature: " .. signature end
  local parsed = { name = name, parameters = {}, returns = {} }
  for _, part in ipairs(split_list(list:sub(2, -2))) do
    local parameter, mark, kind = part:match "^([%a_][%w_]*)(%??)%s*:%s*(.+)$"
    if not parameter then parameter, mark, kind = part:match "^(%.%.%.)(%??):%s*(.+)$" end
    if not parameter then parameter, mark, kind = part:match "^([%a_][%w_]*)(%??)$" end
    if not parameter and part == "..." then parameter, mark = "...", "" end
    if not parameter then return nil, ("not a parameter: '%s' in %s"):format(part, signature) end
    if parameter ~= "self" then
      parsed.parameters[#parsed.parameters + 1] = {
        name = parameter, type = kind or "any", optional = mark == "?",
      }
    end
  end
  if rest ~= "" then
    local returns = rest:match "^%->%s*(.+)$"
    if not returns then return nil, ("'-> type' expected after the parameters: %s"):format(signature) end
    parsed.returns = split_list(returns)
  end
  return parsed
end

--- The owners that are classes, as a set.
function documentation.classes(all)
  local classes = {}
  for _, entry in ipairs(all) do
    if not entry.name then classes[entry.owner] = true end
  end
  return classes
end

--- The entries of a subject of subjects.lua, in its order.
function documentation.of_subject(all, subject)
  local list, classes = {}, documentation.classes(all)
  for _, name in ipairs(subject[3]) do
    local class, prefix = name:match "^class (.*)$", name:match "^(.*)%*$"
    for _, entry in ipairs(all) do
      local found
      if class then
        found = entry.owner == "tcmma." .. class and not entry.name
      elseif entry.owner == "tcmma" then
        found = entry.name == name or prefix and entry.name:sub(1, #prefix) == prefix
      else
        found = entry.owner == "tcmma." .. name and not classes[entry.owner]
      end
      if found then list[#list + 1] = entry end
    end
  end
  return list
end

--- How a user writes a function of an owner: tc.zeros, tc.npy.load, array:get.
function documentation.spelled(owner, is_class, rest)
  if owner == "tcmma" then return "tc." .. rest end
  local short = owner:gsub("^tcmma%.", "")
  return is_class and short .. ":" .. rest or "tc." .. short .. "." .. rest
end

--- Signature and text of an entry.
function documentation.split(entry)
  local signature, text = entry.doc:match "^([^\n]*)\n?(.*)$"
  return signature, (text:gsub("%s+$", ""))
end

return documentation

--- help at the prompt: `tc.help(tc.mma)`, `tc.help "mma"`, `tc.help(array)`, `tc.help()`.

local arguments = require "tcmma.arguments"
local documentation = require "tcmma.documentation"

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
  local _, text = documentation.split(entry)
  local sentence = text:gsub("%s+", " "):match "^(.-[%.:])%f[%s%z]" or text:gsub("%s+", " ")
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
  if #methods > 0 then parts[#parts + 1] = "Methods:\n" .. listing(methods) end
  return #parts > 0 and table.concat(parts, "\n\n") or nil
end

local function overview(all)
  local classes = {}
  for owner in pairs(documentation.classes(all)) do classes[#classes + 1] = owner end
  table.sort(classes)
  return "tcmma: tensor-core kernels from Lua. help(f) describes a function, help \"name\" too.\n\n"
    .. listing(by_owner(all, "tcmma")) .. "\n\nClasses: " .. table.concat(classes, ", ")
end

local function by_name(all, name)
  local found, classes = {}, documentation.classes(all)
  local owner, short = name:match "^(.+)[%.:]([%w_]+)$"
  for _, entry in ipairs(all) do
    local owner_name = entry.owner:gsub("^tcmma%.", "")
    if entry.name and (entry.name == name or entry.name == short
        and (owner == "tc" or owner == owner_name or owner == entry.owner
          or owner == "tc." .. owner_name)) then
      found[#found + 1] = describe(entry, classes)
    end
  end
  if #found > 0 then return table.concat(found, "\n\n") end
  return describe_class(all, name) or describe_class(all, "tcmma." .. name)
end

--- A name that contains the word or is contained in it, else one of few other letters.
local function nearest(all, name)
  local best, best_difference
  for _, entry in ipairs(all) do
    local known = entry.name
    if known then
      local part = known:find(name, 1, true) or name:find(known, 1, true)
      local difference = part and math.abs(#known - #name) or arguments.distance(known, name)
      if (part or difference <= #name // 3) and (not best or difference < best_difference) then
        best, best_difference = known, difference
      end
    end
  end
  return best
end

--- The text that `help` prints.
local function text_for(x)
  local all = documentation.all()
  if x == nil then return overview(all) end
  if type(x) == "string" then
    local text = by_name(all, x)
    if text then return text end
    local near = nearest(all, x)
    return ("nothing is documented under '%s'%s"):format(x, near and (" (did you mean '%s'?)"):format(near) or "")
  end
  for _, entry in ipairs(all) do
    if entry.value ~= nil and rawequal(entry.value, x) then return describe(entry, documentation.classes(all)) end
  end
  local meta = getmetatable(x)
  local class = type(meta) == "table" and rawget(meta, "__name")
  local text = class and describe_class(all, class)
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
`tc.help "array:get"`), of an object and its class (`tc.help(a)`); without an argument, a list of
everything.]] },
})

return help

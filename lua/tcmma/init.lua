-- tcmma: tensor-core kernels from Lua.

if _VERSION < "Lua 5.4" then
  error("tcmma needs Lua 5.4 or newer, this is " .. _VERSION, 0)
end

local tc = require "tcmma.core"

tc._VERSION = "tcmma scm"

local parts = require "tcmma.parts"

--- A table whose missing names are errors, and whose tostring lists those that are there.
local function strict(owner, functions)
  return setmetatable(functions, {
    __index = function(_, name) require("tcmma.arguments").missing(owner, name, functions) end,
    __tostring = function()
      local names = {}
      for name in pairs(functions) do names[#names + 1] = tostring(name) end
      table.sort(names)
      return owner .. ": " .. table.concat(names, ", ")
    end,
  })
end

setmetatable(tc, {
  __index = function(_, name)
    local file = parts[name]
    if not file then require("tcmma.arguments").missing("tc", name, tc, parts) end
    local part = require("tcmma." .. file)
    if file ~= name then part = part[name] end
    if type(part) == "table" and not getmetatable(part) then strict("tc." .. name, part) end
    rawset(tc, name, part)
    return part
  end,
  __tostring = function() return tc._VERSION .. ": tc.help() lists what there is" end,
})
strict("tc.reference", tc.reference)

return tc

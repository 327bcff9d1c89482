-- tcmma: tensor-core kernels from Lua.

if _VERSION < "Lua 5.4" then
  error("tcmma needs Lua 5.4 or newer, this is " .. _VERSION, 0)
end

local tc = require "tcmma.core"

tc._VERSION = "tcmma scm"

local parts = require "tcmma.parts"

--- A table whose missing names are errors.
local function strict(owner, functions)
  return setmetatable(functions, {
    __index = function(_, name) require("tcmma.arguments").missing(owner, name, functions) end,
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
})
strict("tc.reference", tc.reference)

return tc

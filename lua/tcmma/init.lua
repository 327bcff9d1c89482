-- tcmma: tensor-core kernels from Lua.

if _VERSION < "Lua 5.4" then
  error("tcmma needs Lua 5.4 or newer, this is " .. _VERSION, 0)
end

local tc = require "tcmma.core"

tc._VERSION = "tcmma scm"

local parts = require "tcmma.parts"

setmetatable(tc, {
  __index = function(_, name)
    local file = parts[name]
    if not file then return nil end
    local part = require("tcmma." .. file)
    if file ~= name then part = part[name] end
    rawset(tc, name, part)
    return part
  end,
})

return tc

-- tcmma: tensor-core kernels from Lua.

if _VERSION < "Lua 5.4" then
  error("tcmma needs Lua 5.4 or newer, this is " .. _VERSION, 0)
end

local tc = require "tcmma.core"

tc._VERSION = "tcmma scm"

local parts = {}
for _, name in ipairs(require "tcmma.parts") do parts[name] = true end

setmetatable(tc, {
  __index = function(_, name)
    if not parts[name] then return nil end
    local part = require("tcmma." .. name)
    rawset(tc, name, part)
    return part
  end,
})

return tc

-- tcmma: tensor-core kernels from Lua.

if _VERSION < "Lua 5.4" then
  error("tcmma needs Lua 5.4 or newer, this is " .. _VERSION, 0)
end

local tc = require "tcmma.core"

tc._VERSION = "tcmma scm"

-- Parts in Lua, loaded when first used.
local parts = { autotune = true, bench = true, help = true, npy = true, safetensors = true }

setmetatable(tc, {
  __index = function(_, name)
    if not parts[name] then return nil end
    local part = require("tcmma." .. name)
    rawset(tc, name, part)
    return part
  end,
})

return tc

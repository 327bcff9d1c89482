-- tcmma: tensor-core kernels from Lua.

if _VERSION < "Lua 5.4" then
  error("tcmma needs Lua 5.4 or newer, this is " .. _VERSION, 0)
end

local tc = require "tcmma.core"

tc._VERSION = "tcmma scm"

return tc

-- PTX that once broke the emulator: each text is read, and run if it can be read, and the process goes on.
local tc = require "tcmma"

local names = {}
for name in io.popen("ls fuzz/regressions/*"):lines() do names[#names + 1] = name end

describe("PTX that once broke the emulator", function()
  assert(#names > 0)
  for _, name in ipairs(names) do
    it(name .. " is read or refused", function()
      local file = assert(io.open(name, "rb"))
      local text = file:read "a"
      file:close()
      for _, mode in ipairs { "fast", "check", "random" } do
        local ok, message = pcall(function()
          local module = tc.ptx(text)
          local kernels = module:kernels()
          module:kernel(kernels[1].name):emulate { grid = { 1 }, block = { 32 }, args = {}, mode = mode,
            max_instructions = 100000 }
        end)
        assert(ok or type(message) == "string" and #message > 0)
      end
    end)
  end
end)

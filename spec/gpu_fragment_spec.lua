-- Needs a GPU: `make check-gpu`. The cases of fragments on it, within the bounds that hold for the emulator.
local tc = require "tcmma"
local cases = require "fragment_cases"

local gpu = tc.device(os.getenv "TCMMA_DEVICE" or "cuda:0")

describe("on a GPU #gpu", function()
   setup(function()
      cases.gpu = gpu
      if gpu then tc.use(gpu) end
   end)
   teardown(function() cases.gpu = nil end)
   cases.define(gpu and it or pending)
end)

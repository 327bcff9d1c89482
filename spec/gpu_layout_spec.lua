-- Needs a GPU: `make check-gpu`. Elements of 4 bits, arrays of many dimensions, and MMAs cut along N, on it.
local tc = require "tcmma"
local every_mode = require "every_mode"

local gpu = tc.device(os.getenv "TCMMA_DEVICE" or "cuda:0")

describe("on a GPU #gpu", function()
  setup(function()
    every_mode.gpu = gpu
    if gpu then tc.use(gpu) end
  end)
  teardown(function() every_mode.gpu = nil end)
  if gpu then
    for _, name in ipairs{ "four_bit", "many_dimensions", "wgmma_slices" } do
      assert(loadfile("spec/" .. name .. "_spec.lua", "t", _ENV))()
    end
  else
    pending "no GPU"
  end
end)

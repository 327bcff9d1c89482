-- Tensor maps: what cuTensorMapEncodeTiled would refuse with a bare number.
local tc = require "tcmma"
local helper = require "helper"

tc.use "emulator:sm_100a"

local function refuses(title, expected, shape, options, good)
   it(title, function()
      local a = tc.zeros(shape, tc.f16)
      assert.equal(expected, helper.first_line(helper.message(function() tc.tensormap(a, options) end)))
      if good then tc.tensormap(a, good) end
   end)
end

describe("tc.tensormap refuses", function()
   local box = { 64, 64 }
   refuses("other element types", "Unsupported element type: f17", { 64, 64 }, { box = box, dtype = "f17" },
      { box = box, dtype = "bf16" })
   refuses("other swizzles", "Unsupported swizzle: 16", { 64, 64 }, { box = box, swizzle = 16 },
      { box = box, swizzle = 128 })
   refuses("more than five dimensions", "Rank must be in [1, 5], but got 6", { 64, 64 },
      { box = { 64 }, dims = { 64, 1, 1, 1, 1, 1 } })
   refuses("empty dimensions", "TMA size must be less than 2**32, but got 0 at index 1", { 64, 64 },
      { box = box, dims = { 64, 0 } })
   refuses("huge dimensions", "TMA size must be less than 2**32, but got 4294967297 at index 0", { 64, 64 },
      { box = { 64 }, dims = { 4294967297 } })
   refuses("odd strides",
      "Byte strides must be divisible by 16 and less than 2**40, but got 120 (item stride = 60, item size = 2) "
         .. "at index 1",
      { 64, 60 }, { box = { 8, 8 } })
   refuses("large boxes", "Window shape must be in [0, 256], but got 512 at index 1", { 512, 64 }, { box = { 64,
      512 } },
      { box = { 64, 256 } })
   refuses("narrow boxes",
      "The last dimension of window shape must have a bytewidth divisible by 16, but got 4*2 at index 0", { 64, 64 },
      { box = { 4, 64 } }, { box = { 8, 64 } })
   refuses("boxes wider than the swizzle", "A box of 128 bytes a row does not fit swizzle 64", { 64, 64 },
      { box = box, swizzle = 64 })
   refuses("element strides above 8", "Element strides must be in [1, 8], but got 9 at index 1", { 64, 64 },
      { box = box, element_strides = { 1, 9 } }, { box = box, element_strides = { 1, 8 } })
end)

describe("A launch refuses", function()
   it("arrays whose rows TMA cannot step over, with the call's line", function()
      local kernel = tc.kernel {
         args = { tc.gmem({ "M", "K" }, tc.f16) },
         target = "sm_100a",
         body = function(x)
            local s, b = tc.smem({ 64, 64 }, tc.f16), tc.barrier {}
            tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 64, 64 }), s, b)
            tc.barrier_wait(b)
         end,
      }
      local text = helper.message(function() kernel(tc.zeros({ 64, 100 }, tc.f16)) end)
      assert.equal("Byte strides must be divisible by 16 and less than 2**40, but got 200 (item stride = 100, item "
         .. "size = 2) at index 1", helper.first_line(text))
      assert.matches("Pad the rows of the array to a multiple of 16 bytes%.", text)
      kernel(tc.zeros({ 64, 96 }, tc.f16))
   end)
end)

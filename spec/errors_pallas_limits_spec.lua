-- Limits of Pallas:Mosaic GPU that the hardware does not have.  Each goes when tc.mma takes the case.
local tc = require "tcmma"
local refuses = require("helper").refuses

local function case(acc, a, b)
   return function()
      local d, x, y = tc.tmem(table.unpack(acc)), a(), b()
      return function() tc.mma(d, x, y) end
   end
end
local function smem(...)
   local arguments = table.pack(...)
   return function() return tc.smem(table.unpack(arguments, 1, arguments.n)) end
end

local mixed = "MMA requires A and B to have the same element type, except that FP8 types (f8E4M3FN and f8E5M2) may be "
   .. "mixed; got: "

describe("Only Pallas refuses", function()
   refuses("operands without swizzle", "No swizzle is not supported",
      case({ { 128, 64 }, tc.f32 }, smem({ 128, 64 }, tc.f16), smem({ 64, 64 }, tc.f16, { swizzle = "none" })))
   refuses("an A without swizzle", "No swizzle is not supported",
      case({ { 128, 64 }, tc.f32 }, smem({ 128, 64 }, tc.f16, { swizzle = "none" }), smem({ 64, 64 }, tc.f16)))
   refuses("A in TMEM with M = 64", "Only M=128 is supported for MMA with A in TMEM, but got M=64",
      case({ { 64, 64 }, tc.f32 }, function() return tc.tmem({ 64, 64 }, tc.f16, { packed = true }) end,
         smem({ 64, 64 }, tc.f16)))
   refuses("fp8 with fp6", mixed .. "f8E4M3FN and f6E2M3FN",
      case({ { 128, 128 }, tc.f32 }, smem({ 128, 128 }, tc.e4m3), smem({ 128, 128 }, tc.e2m3)))
   refuses("fp8 with fp4", mixed .. "f8E5M2 and f4E2M1FN",
      case({ { 128, 256 }, tc.f32 }, smem({ 128, 128 }, tc.e5m2), smem({ 128, 256 }, tc.e2m1)))
   refuses("fp6 with fp4", mixed .. "f6E3M2FN and f4E2M1FN",
      case({ { 128, 256 }, tc.f32 }, smem({ 128, 128 }, tc.e3m2), smem({ 128, 256 }, tc.e2m1)))
   refuses("fp6 alone", "Unsupported element type: f6E2M3FN",
      case({ { 128, 128 }, tc.f32 }, smem({ 128, 128 }, tc.e2m3), smem({ 128, 128 }, tc.e2m3)))
   refuses("f32, which is kind::tf32", "Unsupported input element type: f32",
      case({ { 128, 64 }, tc.f32 }, smem({ 128, 32 }, tc.f32), smem({ 32, 64 }, tc.f32)))
   refuses("N between 256 and 512", "The only supported N > 256, is 512, but got N=384",
      case({ { 128, 384 }, tc.f32 }, smem({ 128, 64 }, tc.f16), smem({ 64, 384 }, tc.f16)))
end)

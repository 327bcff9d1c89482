-- Limits of Pallas:Mosaic GPU that the hardware does not have: tc.mma takes these calls, and refuses their
-- neighbours, which the hardware lacks as well.
local tc = require "tcmma"
local helper = require "helper"
local refuses = helper.refuses

local function smem(...)
   local arguments = table.pack(...)
   return function() return tc.smem(table.unpack(arguments, 1, arguments.n)) end
end
local function stored_n_k(...)
   local make = smem(...)
   return function() return make():T() end
end
local function case(acc, a, b, good_a, good_b)
   return function()
      local d, x, y = tc.tmem(table.unpack(acc)), a(), b()
      local good_x, good_y = (good_a or a)(), (good_b or b)()
      return function() tc.mma(d, x, y) end, function() tc.mma(d, good_x, good_y) end
   end
end
local function takes(title, acc, a, b)
   it("takes " .. title, function()
      helper.recording({ target = "sm_100a" }, function() tc.mma(tc.tmem(table.unpack(acc)), a(), b()) end)
   end)
end

local padded = { padded = true }
local panels = { swizzle = "none", tiling = { 8, 8 } }

describe("Beyond Pallas, tc.mma", function()
   takes("A in TMEM with M = 64", { { 64, 64 }, tc.f32 },
      function() return tc.tmem({ 64, 64 }, tc.f16, { packed = true }) end, smem({ 64, 64 }, tc.f16))
   takes("fp8 with fp6", { { 128, 128 }, tc.f32 }, smem({ 128, 128 }, tc.e4m3), stored_n_k({ 128, 128 }, tc.e2m3))
   takes("fp8 with fp4", { { 128, 128 }, tc.f32 }, smem({ 128, 128 }, tc.e5m2),
      stored_n_k({ 128, 128 }, tc.e2m1, padded))
   takes("fp6 with fp4", { { 128, 128 }, tc.f32 }, smem({ 128, 128 }, tc.e3m2),
      stored_n_k({ 128, 128 }, tc.e2m1, padded))
   takes("fp4 without scales", { { 128, 128 }, tc.f32 }, smem({ 128, 128 }, tc.e2m1, padded),
      stored_n_k({ 128, 128 }, tc.e2m1, padded))
   takes("f32, as kind::tf32", { { 128, 64 }, tc.f32 }, smem({ 128, 32 }, tc.f32), stored_n_k({ 64, 32 }, tc.f32))
   takes("N between 256 and 512", { { 128, 384 }, tc.f32 }, smem({ 128, 64 }, tc.f16), smem({ 64, 384 }, tc.f16))
   takes("any swizzle of B with M = 64", { { 64, 64 }, tc.f32 }, smem({ 64, 64 }, tc.f16), smem({ 64, 64 }, tc.f16))

   refuses("operands without swizzle that are no panels", "No swizzle is not supported",
      case({ { 128, 64 }, tc.f32 }, smem({ 128, 64 }, tc.f16), smem({ 64, 64 }, tc.f16, { swizzle = "none" }), nil,
         smem({ 64, 64 }, tc.f16, panels)))
   refuses("an A without swizzle that is no panels", "No swizzle is not supported",
      case({ { 128, 64 }, tc.f32 }, smem({ 128, 64 }, tc.f16, { swizzle = "none" }), smem({ 64, 64 }, tc.f16),
         smem({ 128, 64 }, tc.f16, panels)))
   refuses("fp4 beside fp8 that is not padded", "One operand has padded elements, the other has not.",
      case({ { 128, 128 }, tc.f32 }, smem({ 128, 128 }, tc.e5m2), stored_n_k({ 128, 128 }, tc.e2m1), nil,
         stored_n_k({ 128, 128 }, tc.e2m1, padded)))
   refuses("fp4 in TMEM beside fp8", "A in TMEM of f4E2M1FN cannot be mixed with wider or padded elements.",
      case({ { 128, 128 }, tc.f32 }, function() return tc.tmem({ 128, 128 }, tc.e2m1, { packed = true }) end,
         stored_n_k({ 128, 128 }, tc.e4m3), smem({ 128, 128 }, tc.e2m1, padded)))
   refuses("f32 stored as (k, n) with the usual swizzle",
      'b of f32 stored with K as its first dimension needs swizzle = "128B_atom_32B".',
      case({ { 128, 64 }, tc.f32 }, smem({ 128, 32 }, tc.f32), smem({ 32, 64 }, tc.f32), nil,
         smem({ 32, 64 }, tc.f32, { swizzle = "128B_atom_32B" })))
   refuses("f32 stored as (n, k) with atoms of 32 bytes", 'The swizzle "128B_atom_32B" of b is for 32-bit elements '
         .. "stored with K as their first dimension, not for this f32.",
      case({ { 128, 64 }, tc.f32 }, smem({ 128, 32 }, tc.f32),
         stored_n_k({ 64, 32 }, tc.f32, { swizzle = "128B_atom_32B" }), nil, stored_n_k({ 64, 32 }, tc.f32)))
   refuses("fp6 stored as (k, m)", "a of f6E2M3FN has to be stored with K as its last dimension.",
      case({ { 128, 128 }, tc.f32 }, stored_n_k({ 128, 128 }, tc.e2m3), smem({ 128, 128 }, tc.e4m3),
         smem({ 128, 128 }, tc.e2m3)))
   refuses("A in TMEM with M = 64 in each CTA of a pair",
      "Only M=128 is supported for MMA with A in TMEM, but got M=64", function()
         local acc = tc.tmem({ 64, 128 }, tc.f32, { collective = true })
         local a = tc.tmem({ 64, 64 }, tc.f16, { packed = true, collective = true })
         local b = tc.smem({ 64, 64 }, tc.f16)
         local twice = tc.tmem({ 64, 64 }, tc.f16, { layout = "m64_collective_a", collective = true })
         return function() tc.mma(acc, a, b, { collective_axis = "x" }) end,
            function() tc.mma(acc, twice, b, { collective_axis = "x" }) end
      end, { cluster = { 2 }, cluster_names = { "x" } })
end)

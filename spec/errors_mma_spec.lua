-- The documented errors of the call of tc.mma and tc.commit_arrive, in the documented order.
local tc = require "tcmma"
local helper = require "helper"
local refuses, message = helper.refuses, helper.message

local pair = { cluster = { 2 }, cluster_names = { "x" } }

local function operands(m, n, k)
   return tc.tmem({ m, n }, tc.f32), tc.smem({ m, k }, tc.f16), tc.smem({ k, n }, tc.f16)
end

describe("tc.mma checks shapes:", function()
   refuses("rows of acc and a",
      "Accumulator and LHS have incompatible shapes. Expected LHS to have shape (m, k) and accumulator to have shape "
         .. "(m, n). Accumulator: (128, 256). LHS: (64, 64).", function()
         local acc, a, b = operands(128, 256, 64)
         local half = tc.smem({ 64, 64 }, tc.f16)
         return function() tc.mma(acc, half, b) end, function() tc.mma(acc, a, b) end
      end)

   refuses("columns of acc and b in collective mode",
      "Accumulator and RHS have incompatible shapes. Expected RHS to have shape (k, n) and accumulator to have shape "
         .. "(m, n * 2) in collective mode. Accumulator: (128, 128). RHS: (64, 128).", function()
         local acc, a, b = operands(128, 128, 64)
         return function() tc.mma(acc, a, b, { collective_axis = "x" }) end
      end, pair)

   it("says that the axis of a collective accumulator is missing", function()
      helper.recording(pair, function()
         local acc = tc.tmem({ 128, 256 }, tc.f32, { collective = true })
         local a, half = tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 128 }, tc.f16)
         local text = helper.message(function() tc.mma(acc, a, half) end)
         assert.is_truthy(text:find("acc is that of two CTAs, but collective_axis is not set", 1, true), text)
      end)
   end)

   refuses("columns of acc and b",
      "Accumulator and RHS have incompatible shapes. Expected RHS to have shape (k, n) and accumulator to have shape "
         .. "(m, n). Accumulator: (128, 256). RHS: (64, 128).", function()
         local acc, a, b = operands(128, 256, 64)
         local narrow = tc.smem({ 64, 128 }, tc.f16)
         return function() tc.mma(acc, a, narrow) end, function() tc.mma(acc, a, b) end
      end)

   refuses("K of a and b", "LHS and RHS have incompatible shapes. LHS: (128, 64). RHS: (128, 256).", function()
      local acc, a, b = operands(128, 256, 64)
      local deep = tc.smem({ 128, 256 }, tc.f16)
      return function() tc.mma(acc, a, deep) end, function() tc.mma(acc, a, b) end
   end)

   refuses("K of a sparse a", "LHS and RHS have incompatible shapes. LHS: (128, 64). RHS: (64, 256).", function()
      local acc, a, b = operands(128, 256, 64)
      local meta = tc.tmem({ 128, 64 }, tc.u2, { layout = "sparse_metadata" })
      return function() tc.mma(acc, a, b, { a_sparse_metadata = meta }) end
   end)

   refuses("how much of K is multiplied",
      "option 'depth' must be a multiple of 16 (32 bytes of K) up to K = 64, got 24", function()
         local acc, a, b = operands(128, 256, 64)
         return function() tc.mma(acc, a, b, { depth = 24 }) end, function() tc.mma(acc, a, b, { depth = 48 }) end
      end)

   refuses("the number of dimensions", "tc.mma takes 2-D refs, but a has shape (4, 128, 64).", function()
      local acc, _, b = operands(128, 256, 64)
      local ring = tc.smem({ 4, 128, 64 }, tc.f16)
      return function() tc.mma(acc, ring, b) end, function() tc.mma(acc, ring[0], b) end
   end)

   refuses("a dimension that is known at launch only",
      "Accumulator and LHS have incompatible shapes. Expected LHS to have shape (m, k) and accumulator to have shape "
         .. "(m, n). Accumulator: (128, 256). LHS: (M, K).", function(x)
         local acc, _, b = operands(128, 256, 64)
         return function() tc.mma(acc, x, b) end
      end, { args = { tc.gmem({ "M", "K" }, tc.f16) } })
end)

describe("tc.mma checks operands:", function()
   refuses("one scale alone", "a_scale and b_scale must both be present or absent.", function()
      local acc, a, b = operands(128, 256, 64)
      local scale = tc.tmem({ 128, 4 }, tc.e8m0, { layout = "scales" })
      return function() tc.mma(acc, a, b, { a_scale = scale }) end
   end)

   refuses("the space of acc", "Accumulator must be a TMEM Ref.", function()
      local acc, a, b = operands(128, 256, 64)
      local wrong = tc.smem({ 128, 256 }, tc.f32)
      return function() tc.mma(wrong, a, b) end, function() tc.mma(acc, a, b) end
   end)

   refuses("the space of a", "LHS must be a TMEM/SMEM Ref.", function(x)
      local acc, a, b = operands(128, 256, 64)
      return function() tc.mma(acc, x, b) end, function() tc.mma(acc, a, b) end
   end, { args = { tc.gmem({ 128, 64 }, tc.f16) } })

   refuses("the space of b", "RHS must be an SMEM Ref.", function()
      local acc = tc.tmem({ 128, 128 }, tc.f32)
      local a = tc.smem({ 128, 128 }, tc.f16)
      local b = tc.tmem({ 128, 128 }, tc.f16, { packed = true })
      return function() tc.mma(acc, a, b) end
   end)

   refuses("that acc is collective", "Accumulator Ref must be collective if collective_axis is set.", function()
      local acc = tc.tmem({ 128, 256 }, tc.f32)
      local a, b = tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 128 }, tc.f16)
      return function() tc.mma(acc, a, b, { collective_axis = "x" }) end
   end, pair)

   refuses("that a in TMEM is collective", "LHS Ref must be collective if collective_axis is set.", function()
      local acc = tc.tmem({ 128, 256 }, tc.f32, { collective = true })
      local a, b = tc.tmem({ 128, 64 }, tc.f16, { packed = true }), tc.smem({ 64, 128 }, tc.f16)
      return function() tc.mma(acc, a, b, { collective_axis = "x" }) end
   end, pair)

   refuses("the barrier", "MMA barrier must have orders_tensor_core set to True.", function()
      local acc, a, b = operands(128, 256, 64)
      local plain, right = tc.barrier {}, tc.barrier { orders_tensor_core = true }
      return function() tc.mma(acc, a, b, { barrier = plain }) end,
         function() tc.mma(acc, a, b, { barrier = right }) end
   end)

   local function scales(a_space, b_space)
      local acc, a, b = tc.tmem({ 128, 128 }, tc.f32), tc.smem({ 128, 128 }, tc.e4m3), tc.smem({ 128, 128 }, tc.e4m3)
      local function scale(space)
         return tc.allocate(space, { 128, 4 }, tc.e8m0, space == tc.TMEM and { layout = "scales" } or {})
      end
      return acc, a, b, { a_scale = scale(a_space), b_scale = scale(b_space) }
   end

   refuses("the space of a_scale", "a_scale must be a TMEM Ref", function()
      local acc, a, b, options = scales(tc.SMEM, tc.SMEM)
      return function() tc.mma(acc, a, b, options) end
   end)

   refuses("the space of b_scale", "b_scale must be a TMEM Ref", function()
      local acc, a, b, options = scales(tc.TMEM, tc.SMEM)
      return function() tc.mma(acc, a, b, options) end
   end)

   refuses("the space of the metadata", "The `a_sparse_metadata` input must be in TMEM, but got SMEM.", function()
      local acc, a, b = tc.tmem({ 128, 128 }, tc.f32), tc.smem({ 128, 64 }, tc.f16), tc.smem({ 128, 128 }, tc.f16)
      local meta = tc.smem({ 128, 64 }, tc.u2)
      return function() tc.mma(acc, a, b, { a_sparse_metadata = meta }) end
   end)
end)

describe("The order of the checks of tc.mma:", function()
   refuses("shapes come before spaces",
      "LHS and RHS have incompatible shapes. LHS: (128, 64). RHS: (128, 256).", function(x)
         local b = tc.smem({ 128, 256 }, tc.f16)
         local acc = tc.smem({ 128, 256 }, tc.f32)
         return function() tc.mma(acc, x, b) end
      end, { args = { tc.gmem({ 128, 64 }, tc.f16) } })

   refuses("the pair of scales before spaces", "a_scale and b_scale must both be present or absent.", function()
      local acc, a, b = tc.smem({ 128, 256 }, tc.f32), tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 256 }, tc.f16)
      local scale = tc.smem({ 128, 4 }, tc.e8m0)
      return function() tc.mma(acc, a, b, { a_scale = scale }) end
   end)

   refuses("acc before a before b", "Accumulator must be a TMEM Ref.", function(x, y)
      local acc = tc.smem({ 128, 256 }, tc.f32)
      return function() tc.mma(acc, x, y) end
   end, { args = { tc.gmem({ 128, 64 }, tc.f16), tc.gmem({ 64, 256 }, tc.f16) } })

   refuses("the barrier before the scales", "MMA barrier must have orders_tensor_core set to True.", function()
      local acc, a, b = tc.tmem({ 128, 128 }, tc.f32), tc.smem({ 128, 128 }, tc.e4m3), tc.smem({ 128, 128 }, tc.e4m3)
      local scale, plain = tc.smem({ 128, 4 }, tc.e8m0), tc.barrier {}
      return function() tc.mma(acc, a, b, { a_scale = scale, b_scale = scale, barrier = plain }) end
   end)

   refuses("the call before the instruction", "Accumulator must be a TMEM Ref.", function()
      local acc, a, b = tc.smem({ 32, 24 }, tc.i8), tc.smem({ 32, 8 }, tc.f32), tc.smem({ 8, 24 }, tc.f16)
      return function() tc.mma(acc, a, b) end
   end)
end)

describe("collective_axis of tc.mma:", function()
   local function collective()
      return tc.tmem({ 128, 256 }, tc.f32, { collective = true }), tc.smem({ 128, 64 }, tc.f16),
         tc.smem({ 64, 128 }, tc.f16)
   end
   local function call(axis)
      return function()
         local acc, a, b = collective()
         return function() tc.mma(acc, a, b, { collective_axis = axis }) end
      end
   end

   refuses("a grid axis without a cluster", "No cluster axes found.", call "m",
      { grid = { 2 }, grid_names = { "m" } })
   refuses("not the minormost axis",
      "Can only perform collective MMA along minormost cluster axis. Got y, expected x.", call "y",
      { cluster = { 2, 2 }, cluster_names = { "y", "x" } })
   refuses("an unknown axis", "Unknown cluster axis z, available axes: ['y', 'x']", call "z",
      { cluster = { 2, 2 }, cluster_names = { "y", "x" } })
   refuses("an unknown axis without a cluster", "Unknown cluster axis z, available axes: []", call "z")
   refuses("an axis that is no pair", "A collective MMA needs a pair of CTAs, but cluster axis x has size 4.", call "x",
      { cluster = { 4 }, cluster_names = { "x" } })
   refuses("a barrier in a larger cluster", "Collective arrivals only support (2, 1, 1)-shaped clusters", function()
      local acc, a, b = collective()
      local done = tc.barrier { orders_tensor_core = true }
      return function() tc.mma(acc, a, b, { collective_axis = "x", barrier = done }) end
   end, { cluster = { 2, 2 }, cluster_names = { "y", "x" } })
   refuses("scales that are not collective", "a_scale Ref must be collective if collective_axis is set.", function()
      local acc = tc.tmem({ 128, 256 }, tc.f32, { collective = true })
      local a, b = tc.smem({ 128, 128 }, tc.e4m3), tc.smem({ 128, 128 }, tc.e4m3)
      local s = tc.tmem({ 128, 4 }, tc.e8m0, { layout = "scales" })
      return function() tc.mma(acc, a, b, { a_scale = s, b_scale = s, collective_axis = "x" }) end
   end, pair)
   refuses("collective operands without it", "tc.mma without collective_axis cannot use the collective TMEM Ref acc.",
      function()
         local acc, a = collective()
         local b = tc.smem({ 64, 256 }, tc.f16)
         return function() tc.mma(acc, a, b) end
      end, pair)
end)

describe("tc.commit_arrive checks", function()
   refuses("the barrier", "MMA barrier must have orders_tensor_core set to True.", function()
      local plain, right = tc.barrier {}, tc.barrier { orders_tensor_core = true }
      return function() tc.commit_arrive(plain) end, function() tc.commit_arrive(right) end
   end)
   refuses("the axis", "Unknown cluster axis z, available axes: ['x']", function()
      local right = tc.barrier { orders_tensor_core = true }
      return function() tc.commit_arrive(right, { collective_axis = "z" }) end
   end, pair)
   refuses("the cluster", "Collective arrivals only support (2, 1, 1)-shaped clusters", function()
      local right = tc.barrier { orders_tensor_core = true }
      return function() tc.commit_arrive(right, { collective_axis = "x" }) end
   end, { cluster = { 2, 2 }, cluster_names = { "y", "x" } })
end)

describe("The further lines of a message", function()
   it("say what was got, where it was allocated, and how to mend it", function()
      helper.recording(nil, function()
         local acc, a, b = tc.smem({ 128, 256 }, tc.f32), tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 256 }, tc.f16)
         local text = message(function() tc.mma(acc, a, b) end)
         assert.matches("\n  acc is SMEM ref, float32 %(128, 256%).*allocated at line %d+", text)
         assert.matches("\n  Allocate the accumulator with tc%.tmem%(shape, tc%.float32%); SMEM is for A and B only%.$",
            text)
         assert.is_nil(text:find("%.c:"))
      end)
   end)
end)

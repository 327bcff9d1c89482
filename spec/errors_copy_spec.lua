-- Copies between GMEM and SMEM.
local tc = require "tcmma"
local helper = require "helper"
local refuses = helper.refuses

local f16 = { args = { tc.gmem({ 512, 512 }, tc.f16) } }
local pair = { args = f16.args, cluster = { 2 }, cluster_names = { "x" } }
local four = { args = f16.args, cluster = { 2, 2 }, cluster_names = { "y", "x" } }

describe("tc.copy_gmem_to_smem refuses", function()
   it("what is no ref", function()
      helper.recording(f16, function(_, x)
         local s, b = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}
         assert.equal("src must be a reference, got nil",
            helper.first_line(helper.message(function() tc.copy_gmem_to_smem(nil, s, b) end)))
         assert.equal("dst must be a reference, got integer 1",
            helper.first_line(helper.message(function() tc.copy_gmem_to_smem(x, 1, b) end)))
         assert.equal("barrier must be a SMEM reference, got integer 1",
            helper.first_line(helper.message(function() tc.copy_gmem_to_smem(x, s, 1) end)))
      end)
   end)
   it("other spaces", function()
      helper.recording(f16, function(_, x)
         local s, b = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}
         assert.matches("^src must be a GMEM reference, got SMEM ref, float16 %(128, 64%)",
            helper.first_line(helper.message(function() tc.copy_gmem_to_smem(s, s, b) end)))
         assert.matches("^dst must be a SMEM reference, got GMEM ref, float16 %(512, 512%)",
            helper.first_line(helper.message(function() tc.copy_gmem_to_smem(x, x, b) end)))
      end)
   end)
   refuses("other dtypes", "Expected dtypes to match but src had type float16 and dst had type bfloat16", function(x)
      local s, b = tc.smem({ 128, 64 }, tc.bf16), tc.barrier {}
      return function() tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 128, 64 }), s, b) end
   end, f16)
   refuses("other shapes", "Expected source shape to be (128, 64), but got (512, 512).", function(x)
      local s, b = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}
      local tile = x:tile({ 0, 0 }, { 128, 64 })
      return function() tc.copy_gmem_to_smem(x, s, b) end, function() tc.copy_gmem_to_smem(tile, s, b) end
   end, f16)
   refuses("no barrier",
      "copy_gmem_to_smem without a barrier is only supported on pre-Hopper GPUs, which use the cp.async implementation",
      function(x)
         local s = tc.smem({ 128, 64 }, tc.f16)
         local tile = x:tile({ 0, 0 }, { 128, 64 })
         return function() tc.copy_gmem_to_smem(tile, s) end
      end, f16)
   refuses("leader_tracked alone", "`collective_axes` must be specified when `leader_tracked` is set", function(x)
      local s, b, tile = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}, x:tile({ 0, 0 }, { 128, 64 })
      return function() tc.copy_gmem_to_smem(tile, s, b, { leader_tracked = true }) end
   end, pair)
   refuses("leader_tracked with two axes", "Expected exactly one collective axis, got collective_axes=('y', 'x')",
      function(x)
         local s, b, tile = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}, x:tile({ 0, 0 }, { 128, 64 })
         return function()
            tc.copy_gmem_to_smem(tile, s, b, { leader_tracked = true, collective_axes = { "y", "x" } })
         end
      end, four)
   refuses("leader_tracked in a larger cluster",
      "Partitioned loads only supported for clusters of size 2. Got cluster size 4.", function(x)
         local s, b, tile = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}, x:tile({ 0, 0 }, { 128, 64 })
         return function() tc.copy_gmem_to_smem(tile, s, b, { leader_tracked = true, collective_axes = "x" }) end
      end, four)
   refuses("a partition of one CTA", "Only collective loads can be partitioned", function(x)
      local s, b, tile = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}, x:tile({ 0, 0 }, { 128, 64 })
      return function() tc.copy_gmem_to_smem(tile, s, b, { partition_axis = 0 }) end
   end, pair)
   refuses("a multicast tile that cannot be cut",
      "None of the leading dimensions in the transformed slice shape (8, 64) is divisible by the collective size 2",
      function(x)
         local s, b, tile = tc.smem({ 8, 64 }, tc.f16), tc.barrier {}, x:tile({ 0, 0 }, { 8, 64 })
         return function() tc.copy_gmem_to_smem(tile, s, b, { collective_axes = "x" }) end,
            function() tc.copy_gmem_to_smem(tile, s, b) end
      end, pair)
   refuses("a cluster barrier", "A copy arrives on a barrier of its own CTA, not on a tc.cluster_barrier.", function(x)
      local s, b = tc.smem({ 128, 64 }, tc.f16), tc.cluster_barrier { collective_axes = "x" }
      local tile = x:tile({ 0, 0 }, { 128, 64 })
      return function() tc.copy_gmem_to_smem(tile, s, b) end
   end, pair)
   refuses("a partitioned load of another shape",
      "Expected source shape to be (256, 64), but got (128, 64). Dim 0 is partitioned over an axis of size 2.",
         function(x)
         local s, b, tile = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}, x:tile({ 0, 0 }, { 128, 64 })
         return function() tc.copy_gmem_to_smem(tile, s, b, { collective_axes = "x", partition_axis = 0 }) end
      end, pair)
end)

describe("TMA refuses", function()
   local function load(shape, dtype, options)
      return function(x)
         local s, b = tc.smem(shape, dtype, options), tc.barrier {}
         local tile = x:tile({ 0, 0 }, shape)
         return function() tc.copy_gmem_to_smem(tile, s, b) end
      end
   end
   refuses("rows of the array that are no multiple of 16 bytes",
      "async_copy requires all GMEM strides except the last one to be a multiple of 16 bytes",
      load({ 128, 64 }, tc.f16), { args = { tc.gmem({ 512, 500 }, tc.f16) } })
   refuses("tiles that are no multiple of 16 bytes wide",
      "Async copies require the number of bits copied along the last dimension to be divisible by 128, but got 64",
      load({ 128, 4 }, tc.f16), f16)
   refuses("rows that do not fall into boxes",
      "Async copies only support copying <=256 elements along each dimension, got (8, 300)",
      load({ 8, 300 }, tc.f32, { swizzle = "none" }), { args = { tc.gmem({ 512, 512 }, tc.f32) } })
   -- Pieces of 132 columns, of 150 rows, or single tiles, would begin at odd multiples of 16 bytes.
   local function boxes(shape, fitting)
      refuses(("boxes of (%s), which would not begin at multiples of 128 bytes"):format(table.concat(shape, ", ")),
         ("Async copies only support copying <=256 elements along each dimension, got (%s)"):format(
            table.concat(shape, ", ")), function(x)
            local function copy(size)
               local smem, loaded = tc.smem(size, tc.f32, { swizzle = "none" }), tc.barrier {}
               local index = #size == 2 and { 0, 0 } or { 0, 0, 0 }
               local tile = (#size == 2 and x[0] or x):tile(index, size)
               return function() tc.copy_gmem_to_smem(tile, smem, loaded) end
            end
            return copy(shape), copy(fitting)
         end, { args = { tc.gmem({ 512, 512, 512 }, tc.f32) } })
   end
   boxes({ 8, 264 }, { 8, 256 })
   boxes({ 300, 4 }, { 304, 4 })
   boxes({ 300, 5, 4 }, { 300, 5, 32 })
   refuses("columns of a plain array",
      "async_copy needs the SMEM reference to be contiguous, but got strides [64, 1] for shape (128, 32)", function(x)
         local s, b = tc.smem({ 128, 64 }, tc.f16, { swizzle = "none" }), tc.barrier {}
         local tile, whole = x:tile({ 0, 0 }, { 128, 32 }), x:tile({ 0, 0 }, { 128, 64 })
         local part = s:at(tc.all, tc.ds(0, 32))
         return function() tc.copy_gmem_to_smem(tile, part, b) end, function() tc.copy_gmem_to_smem(whole, s, b) end
      end, f16)
   refuses("a plain slice at an odd place",
      "A plain SMEM slice must start at a multiple of 128 bytes to be copied, but this one is not known to.",
         function(x)
         local s, b = tc.smem({ 64, 8 }, tc.f16), tc.barrier {}
         local tile = x:tile({ 0, 0 }, { 8, 8 })
         local odd, even = s:at(tc.ds(4, 8)), s:at(tc.ds(8, 8))
         return function() tc.copy_gmem_to_smem(tile, odd, b) end, function() tc.copy_gmem_to_smem(tile, even, b) end
      end, f16)
   refuses("a last dimension that is not the array's",
      "TMA requires the stride of the last dimension after transforming the GMEM reference to be 1, but it is 512.",
      function(x)
         local s, b = tc.smem({ 64 }, tc.f16), tc.barrier {}
         local column = x:at(tc.ds(0, 64), 0)
         return function() tc.copy_gmem_to_smem(column, s, b) end
      end, f16)
   refuses("a transposed source",
      "TMA requires the stride of the last dimension after transforming the GMEM reference to be 1, but it is 512.",
      function(x)
         local s, b = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}
         local tile = x:T():tile({ 0, 0 }, { 128, 64 })
         return function() tc.copy_gmem_to_smem(tile, s, b) end
      end, f16)
   refuses("a transposed destination", "src and dst must both be transposed or neither.", function(x)
      local s, b = tc.smem({ 64, 128 }, tc.f16), tc.barrier {}
      local tile, other = x:tile({ 0, 0 }, { 128, 64 }), x:T():tile({ 0, 0 }, { 128, 64 })
      return function() tc.copy_gmem_to_smem(tile, s:T(), b) end, function() tc.copy_gmem_to_smem(other, s:T(), b) end
   end, f16)
   refuses("swizzled 2-bit elements", "unsupported TMA dtype i2", function(x)
      local tile, b = x:tile({ 0, 0 }, { 8, 512 }), tc.barrier {}
      local swizzled, plain = tc.smem({ 8, 512 }, tc.u2), tc.smem({ 8, 512 }, tc.u2, { swizzle = "none" })
      return function() tc.copy_gmem_to_smem(tile, swizzled, b) end, function() tc.copy_gmem_to_smem(tile, plain, b) end
   end, { args = { tc.gmem({ 64, 512 }, tc.u2) } })
   refuses("half a byte", "Can only transfer integer bytes (shape=(1, 3), dtype=float4_e2m1fn)", load({ 1, 3 },
      tc.e2m1),
      { args = { tc.gmem({ 64, 64 }, tc.e2m1) } })
   refuses("padded elements in panels of 16 bytes",
      "TMA copies padded elements in rows of 128, from a multiple of 128 on, of an array with a multiple of 128 "
         .. "columns, with a swizzle of 128 or none.", function(x)
         local b = tc.barrier {}
         local panels = tc.smem({ 8, 128 }, tc.e2m1, { padded = true, swizzle = "none", tiling = { 8, 16 } })
         local rows = tc.smem({ 8, 128 }, tc.e2m1, { padded = true, swizzle = "none" })
         return function() tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 8, 128 }), panels, b) end,
            function() tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 8, 128 }), rows, b) end
      end, { args = { tc.gmem({ 128, 256 }, tc.e2m1) } })
   refuses("columns that begin within 16 bytes",
      "TMA copies begin at a multiple of 16 bytes of a row, but this one begins at byte 12.", function(x)
         local s, b = tc.smem({ 64, 32 }, tc.f32), tc.barrier {}
         return function() tc.copy_gmem_to_smem(x:at(tc.ds(0, 64), tc.ds(3, 32)), s, b) end,
            function() tc.copy_gmem_to_smem(x:at(tc.ds(3, 64), tc.ds(4, 32)), s, b) end
      end, { args = { tc.gmem({ 512, 512 }, tc.f32) } })
   refuses("padded elements that begin elsewhere",
      "TMA copies padded elements in rows of 128, from a multiple of 128 on, of an array with a multiple of 128 "
         .. "columns, with a swizzle of 128 or none.", function(x)
         local s, b = tc.smem({ 8, 128 }, tc.e2m1, { padded = true }), tc.barrier {}
         return function() tc.copy_gmem_to_smem(x:at(tc.ds(0, 8), tc.ds(64, 128)), s, b) end,
            function() tc.copy_gmem_to_smem(x:at(tc.ds(0, 8), tc.ds(128, 128)), s, b) end
      end, { args = { tc.gmem({ 128, 256 }, tc.e2m1) } })
   refuses("padded elements in other than rows of 128",
      "TMA copies padded elements in rows of 128, from a multiple of 128 on, of an array with a multiple of 128 "
         .. "columns, with a swizzle of 128 or none.", function(x)
         local narrow, wide, b = tc.smem({ 8, 64 }, tc.e2m3), tc.smem({ 8, 128 }, tc.e2m3), tc.barrier {}
         return function() tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 8, 64 }), narrow, b) end,
            function() tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 8, 128 }), wide, b) end
      end, { args = { tc.gmem({ 128, 128 }, tc.e2m3) } })
end)

describe("tc.copy_smem_to_gmem refuses", function()
   refuses("padded elements", "TMA does not store padded float4_e2m1fn.", function(x)
      local s, plain = tc.smem({ 128, 128 }, tc.e2m1, { padded = true }), tc.smem({ 128, 256 }, tc.e2m1)
      return function() tc.copy_smem_to_gmem(s, x:tile({ 0, 0 }, { 128, 128 })) end,
         function() tc.copy_smem_to_gmem(plain, x) end
   end, { args = { tc.gmem({ 128, 256 }, tc.e2m1) } })
   refuses("a tile that begins before the array",
      "TMA does not store a tile that begins before the array, but this one begins at -8 along dimension 0.",
      function(x)
         local s = tc.smem({ 128, 64 }, tc.f16)
         return function() tc.copy_smem_to_gmem(s, x:at(tc.ds(-8, 128), tc.ds(0, 64))) end,
            function() tc.copy_smem_to_gmem(s, x:at(tc.ds(500, 128), tc.ds(0, 64))) end
      end, f16)
   it("other spaces", function()
      helper.recording(f16, function(_, x)
         local s = tc.smem({ 128, 64 }, tc.f16)
         assert.matches("^src must be a SMEM reference, got GMEM ref",
            helper.first_line(helper.message(function() tc.copy_smem_to_gmem(x, x) end)))
         assert.matches("^dst must be a GMEM reference, got SMEM ref",
            helper.first_line(helper.message(function() tc.copy_smem_to_gmem(s, s) end)))
      end)
   end)
   refuses("other dtypes", "Expected dtypes to match but src had type float32 and dst had type float16", function(x)
      local s = tc.smem({ 128, 64 }, tc.f32)
      return function() tc.copy_smem_to_gmem(s, x) end
   end, f16)
   refuses("other shapes", "Expected shapes to match, but src has shape (128, 64) and dst has shape (512, 512)",
      function(x)
      local s, tile = tc.smem({ 128, 64 }, tc.f16), x:tile({ 0, 0 }, { 128, 64 })
      return function() tc.copy_smem_to_gmem(s, x) end, function() tc.copy_smem_to_gmem(s, tile) end
   end, f16)
   refuses("a barrier", "Barriers are unsupported for SMEM -> GMEM copies", function(x)
      local s, tile, b = tc.smem({ 128, 64 }, tc.f16), x:tile({ 0, 0 }, { 128, 64 }), tc.barrier {}
      return function() tc.copy_smem_to_gmem(s, tile, b) end, function() tc.copy_smem_to_gmem(s, tile) end
   end, f16)
   refuses("reductions that TMA has not",
      "Reduction op max not supported by the TMA implementation for element type f32",
      function(x)
         local s, tile = tc.smem({ 128, 32 }, tc.f32), x:tile({ 0, 0 }, { 128, 32 })
         return function() tc.copy_smem_to_gmem(s, tile, { reduction_op = "max" }) end,
            function() tc.copy_smem_to_gmem(s, tile, { reduction_op = "add" }) end
      end, { args = { tc.gmem({ 512, 512 }, tc.f32) } })
end)

-- Shared memory: swizzles, tilings, views, loads and stores.
local tc = require "tcmma"
local helper = require "helper"
local refuses = helper.refuses

local function alloc(bad, good)
   return function()
      return function() tc.smem(table.unpack(bad)) end, good and function() tc.smem(table.unpack(good)) end
   end
end

describe("tc.smem refuses", function()
   refuses("padding of other elements",
      "padded is for float4_e2m1fn, and in TMEM for float6_e3m2fn, not for float8_e4m3fn in SMEM.", function()
      return function() tc.smem({ 8, 128 }, tc.e4m3, { padded = true }) end,
         function() tc.smem({ 8, 128 }, tc.e2m1, { padded = true }) end
   end)
   refuses("other swizzles", "Swizzle 16 is not supported. Only 32, 64 and 128 are accepted.",
      alloc({ { 128, 64 }, tc.f16, { swizzle = 16 } }, { { 128, 64 }, tc.f16, { swizzle = 32 } }))
   refuses("a swizzle wider than the row",
      "Swizzle 128 requires the trailing dimension to be of size 64, but got shape: (128, 32)",
      alloc({ { 128, 32 }, tc.f16, { swizzle = 128 } }, { { 128, 32 }, tc.f16, { swizzle = 64 } }))
   refuses("a tiling that is not the swizzle's",
      "Swizzle 128 requires the trailing dimension to be of size 64, but got shape: (16, 2, 8, 32)",
      alloc({ { 128, 64 }, tc.f16, { swizzle = 128, tiling = { 8, 32 } } },
         { { 128, 64 }, tc.f16, { swizzle = 128, tiling = { 8, 64 } } }))
   refuses("an empty tiling of a wider row",
      "Swizzle 128 requires the trailing dimension to be of size 64, but got shape: (128, 128)",
      alloc({ { 128, 128 }, tc.f16, { swizzle = 128, tiling = {} } },
         { { 128, 64 }, tc.f16, { swizzle = 128, tiling = {} } }))
   refuses("a tiling that does not divide", "Shape (100, 64) is not divisible by tiling (8, 64)",
      alloc { { 100, 64 }, tc.f16, { swizzle = 128, tiling = { 8, 64 } } })
   refuses("a tiling of too many dimensions",
      "Expected tiling to be at most rank of shape. Got tiling: (2, 8, 64) (rank: 3) and shape (128, 64) (rank: 2).",
      alloc { { 128, 64 }, tc.f16, { swizzle = 128, tiling = { 2, 8, 64 } } })
   refuses("swizzled rows that are no multiple of 8",
      "A swizzled or tiled SMEM Ref needs a multiple of 8 rows, got shape (4, 64)",
      alloc({ { 4, 64 }, tc.f16, { swizzle = 128 } }, { { 4, 64 }, tc.f16 }))
   refuses("tiled rows that are no multiple of 8",
      "A swizzled or tiled SMEM Ref needs a multiple of 8 rows, got shape (12, 64)",
      alloc({ { 12, 64 }, tc.f16, { swizzle = "none", tiling = { 8 } } },
         { { 16, 64 }, tc.f16, { swizzle = "none", tiling = { 8 } } }))
   for _, shape in ipairs { { 12, 8 }, { 60, 8 }, { 300, 8 }, { 12, 64 } } do
      refuses(("a tiling without swizzle that does not divide (%d, %d)"):format(table.unpack(shape)),
         ("Shape (%d, %d) is not divisible by tiling (8, 8)"):format(table.unpack(shape)),
         alloc({ shape, tc.f16, { swizzle = "none", tiling = { 8, 8 } } },
            { { 16, shape[2] }, tc.f16, { swizzle = "none", tiling = { 8, 8 } } }))
   end
   refuses("a tiling of too many dimensions, without swizzle",
      "Expected tiling to be at most rank of shape. Got tiling: (2, 8, 8) (rank: 3) and shape (128, 64) (rank: 2).",
      alloc { { 128, 64 }, tc.f16, { swizzle = "none", tiling = { 2, 8, 8 } } })
   refuses("tiles without swizzle that are neither of 16 bytes nor whole rows",
      "Cannot apply (8, 4) with no swizzle to memref with shape (304, 64).",
      alloc({ { 304, 64 }, tc.f16, { swizzle = "none", tiling = { 8, 4 } } },
         { { 304, 64 }, tc.f16, { swizzle = "none", tiling = { 8, 64 } } }))
   refuses("tiles of half of a core matrix", "Cannot apply (4, 64) with 128 to memref with shape (128, 64).",
      alloc({ { 128, 64 }, tc.f16, { swizzle = 128, tiling = { 4, 64 } } },
         { { 128, 64 }, tc.f16, { swizzle = 128, tiling = { 16, 64 } } }))
   refuses("a swizzled vector", "A swizzled SMEM Ref needs at least two dimensions, got shape (64,)",
      alloc({ { 64 }, tc.f16, { swizzle = 128 } }, { { 64 }, tc.f16, { swizzle = "none" } }))
   refuses("what no memory holds", "SMEM Ref of shape (1048576, 1048576) is too large",
      alloc { { 1048576, 1048576 }, tc.f16 })

   it("nothing of these, and chooses the largest swizzle that divides", function()
      helper.recording(nil, function()
         assert.equal(128, tc.smem({ 128, 64 }, tc.f16).swizzle)
         assert.equal(64, tc.smem({ 128, 32 }, tc.f16).swizzle)
         assert.equal(32, tc.smem({ 128, 16 }, tc.f16).swizzle)
         assert.equal(0, tc.smem({ 128, 8 }, tc.f16).swizzle)
         assert.equal(128, tc.smem({ 64, 192 }, tc.f16).swizzle)
         assert.equal(0, tc.smem({ 4, 64 }, tc.f16).swizzle)
         assert.equal(0, tc.smem({ 64 }, tc.f16).swizzle)
         assert.equal(128, tc.smem({ 8, 128 }, tc.e4m3).swizzle)
      end)
   end)
end)

describe("Views refuse", function()
   refuses("an index outside", "Index 4 along axis 0 is out of bounds for shape (4, 128, 64)", function()
      local s = tc.smem({ 4, 128, 64 }, tc.f16)
      return function() return s[4] end, function() return s[3] end
   end)
   refuses("a negative index", "Index -1 along axis 0 is out of bounds for shape (4, 128, 64)", function()
      local s = tc.smem({ 4, 128, 64 }, tc.f16)
      return function() return s[-1] end
   end)
   refuses("an index outside of an argument", "Index 8 along axis 1 is out of bounds for shape (M, 8)", function(x)
      return function() return x:at(100, 8) end, function() return x:at(100, 7) end
   end, { args = { tc.gmem({ "M", 8 }, tc.f16) } })
   refuses("a slice outside", "Slice ds(96, 64) along axis 0 is out of bounds for shape (128, 64)", function()
      local s = tc.smem({ 128, 64 }, tc.f16)
      return function() return s:at(tc.ds(96, 64)) end, function() return s:at(tc.ds(64, 64)) end
   end)
   refuses("a slice with a step", "Strided slices unsupported. Got stride: 2", function()
      local s = tc.smem({ 128, 64 }, tc.f16)
      return function() return s:at(tc.ds(0, 64, 2)) end, function() return s:at(tc.ds(0, 64, 1)) end
   end)
   refuses("other indices", 'Unsupported index type: string "0"', function()
      local s = tc.smem({ 128, 64 }, tc.f16)
      return function() return s:at "0" end
   end)
   refuses("recorded floats", "Unsupported index type: recorded float", function(x)
      local s, f = tc.smem({ 4, 128, 64 }, tc.f16), x:at(0):load()
      return function() return s:at(f) end
   end, { args = { tc.gmem({ 8 }, tc.f32) } })
   refuses("a cut row tile", "Expected slice start (4) and slice size (8) to be divisible by the tile size (8)",
      function()
      local s = tc.smem({ 128, 64 }, tc.f16)
      return function() return s:at(tc.ds(4, 8)) end, function() return s:at(tc.ds(8, 8)) end
   end)
   refuses("a cut swizzle span", "Expected slice start (0) and slice size (32) to be divisible by the tile size (64)",
      function()
         local s = tc.smem({ 128, 128 }, tc.f16)
         return function() return s:at(tc.all, tc.ds(0, 32)) end, function() return s:at(tc.all, tc.ds(64, 64)) end
      end)
   refuses("a transposed tiling of one dimension",
      "Transpose cannot be moved before a tiling transform when it changes the set of tiled dimensions. (permutation: "
         .. "(1, 0), tiling: (64,))", function()
         local s = tc.smem({ 128, 64 }, tc.f16, { swizzle = 128, tiling = { 64 } })
         local both = tc.smem({ 128, 64 }, tc.f16, { swizzle = 128, tiling = { 8, 64 } })
         return function() return s:T() end, function() return both:T() end
      end)
   refuses("a transposed swizzle without tiling", "Can't transpose the swizzled dimension.", function()
      local s = tc.smem({ 128, 64 }, tc.f16, { swizzle = 128, tiling = {} })
      local chosen = tc.smem({ 128, 64 }, tc.f16, { swizzle = 128 })
      return function() return s:T() end, function() return chosen:T() end
   end)
   it("nothing of plain arrays", function()
      helper.recording(nil, function()
         local s = tc.smem({ 128, 64 }, tc.f16, { swizzle = "none" })
         assert.same({ 3, 5 }, s:at(tc.ds(4, 3), tc.ds(7, 5)).shape)
      end)
   end)
end)

describe("Loads and stores refuse", function()
   refuses("another shape", "The stored value has shape (128, 32), but the target reference has shape (128, 64)",
      function()
      local s, f = tc.smem({ 128, 64 }, tc.f16), tc.full({ 128, 32 }, 0, tc.f16)
      local right = tc.full({ 128, 64 }, 0, tc.f16)
      return function() s:store(f) end, function() s:store(right) end
   end)
   refuses("another dtype", "The stored value has dtype float32, but the target reference has dtype float16", function()
      local s, f = tc.smem({ 128, 64 }, tc.f16), tc.full({ 128, 64 }, 0, tc.f32)
      return function() s:store(f) end, function() s:store(f:astype(tc.f16)) end
   end)
   refuses("types that registers do not hold", "ref:load does not support float6_e2m3fn", function()
      local s, packed = tc.smem({ 128, 128 }, tc.e2m3), tc.smem({ 128, 128 }, tc.e2m1)
      return function() s:load() end, function() packed:load() end
   end)
end)

-- Allocations, views, loads and stores of tensor memory; unions.
local tc = require "tcmma"
local helper = require "helper"
local refuses = helper.refuses

local function alloc(bad, good)
   return function()
      return function() tc.tmem(table.unpack(bad)) end, good and function() tc.tmem(table.unpack(good)) end
   end
end

describe("tc.tmem refuses", function()
   refuses("transforms", "transforms are not supported for TMEM",
      alloc({ { 128, 64 }, tc.f32, { swizzle = 128 } }, { { 128, 64 }, tc.f32 }))
   refuses("a narrow dtype alone",
      "dtypes narrower than 32-bit require either the packed argument or an explicit TMEM layout",
      alloc({ { 128, 64 }, tc.f16 }, { { 128, 64 }, tc.f16, { packed = false } }))
   refuses("packed and layout", "packed cannot be specified if layout is specified.",
      alloc({ { 128, 64 }, tc.e8m0, { packed = true, layout = "scales" } }, { { 128, 64 }, tc.e8m0,
         { layout = "scales" } }))
   refuses("a vector", "TMEM can only represent 2D shapes, got (128,)",
      alloc({ { 128 }, tc.f32 }, { { 2, 128, 64 }, tc.f32 }))
   refuses("other rows",
      "Unsupported shape: (32, 64). TMEM references must have either 128 or 64 rows, but got 32.",
      alloc({ { 32, 64 }, tc.f32 }, { { 64, 64 }, tc.f32 }))
   refuses("16 elements a column", "Packing must be <= 8 and a power of 2, got: 16",
      alloc { { 128, 64 }, tc.u2, { packed = true } })
   refuses("6-bit elements", "Packing must be <= 8 and a power of 2, got: 5",
      alloc({ { 128, 64 }, tc.e2m3, { packed = true } }, { { 128, 64 }, tc.e2m1, { packed = true } }))
   refuses("padded elements whose place is not documented",
      "padded is for float4_e2m1fn, and in TMEM for float6_e3m2fn, not for float6_e2m3fn in TMEM.",
      alloc({ { 128, 64 }, tc.e2m3, { padded = true } }, { { 128, 64 }, tc.e3m2, { padded = true } }))
   refuses("columns that do not fill cells", "Minor dimension of shape must be divisible by packing, got: (128, 63)",
      alloc({ { 128, 63 }, tc.f16, { packed = true } }, { { 128, 63 }, tc.f16, { packed = false } }))
   refuses("64 rows with odd columns", "64 rows of TMEM need a multiple of 8 columns, got 20.",
      alloc({ { 64, 20 }, tc.f32 }, { { 64, 24 }, tc.f32 }))
   refuses("64 rows of a pair with odd columns", "Columns must be a multiple of 16, got: 24",
      alloc({ { 64, 24 }, tc.f32, { collective = true } }, { { 64, 32 }, tc.f32, { collective = true } }))
   refuses("a layout whose tile does not divide", "(128, 6) is not divisible into tiles of shape (128, 4)",
      alloc({ { 128, 6 }, tc.e8m0, { layout = "scales" } }, { { 128, 8 }, tc.e8m0, { layout = "scales" } }))
   refuses("a layout of another width", "For 16-bit types, the vector length must be 1 or 2 , but got: 4",
      alloc { { 128, 8 }, tc.f16, { layout = "scales" } })
   refuses("more columns than there are", "After rounding up, got 1024 columns, exceeding the limit of 512",
      alloc({ { 128, 513 }, tc.f32 }, { { 128, 512 }, tc.f32 }))
   refuses("64-bit elements", "TMEM holds elements of up to 32 bits, but float64 has 64.",
      alloc { { 128, 64 }, tc.f64 })
   refuses("conditions", "TMEM holds numbers, but bool is none: conditions are predicates of threads.",
      alloc({ { 128, 64 }, tc.bool, { packed = true } }, { { 128, 64 }, tc.i8, { packed = true } }))
   refuses("(tc.smem) its options", "packed, collective and layout arguments are only supported for TMEM.", function()
      return function() tc.smem({ 128, 64 }, tc.f16, { packed = true }) end
   end)
   refuses("(tc.smem) layout", "packed, collective and layout arguments are only supported for TMEM.", function()
      return function() tc.smem({ 128, 64 }, tc.f16, { layout = "scales" }) end
   end)
   refuses("(tc.smem) collective", "packed, collective and layout arguments are only supported for TMEM.", function()
      return function() tc.smem({ 128, 64 }, tc.f16, { collective = false }) end
   end)
end)

describe("Views of TMEM refuse", function()
   refuses("transposition", "Can't transpose a TMEM reference.", function()
      local t, s = tc.tmem({ 128, 64 }, tc.f32), tc.smem({ 128, 64 }, tc.f16)
      return function() return t:T() end, function() return s:T() end
   end)
   refuses("too many indices", "Expected indexer to have exactly 3 dimensions, but got 4.", function()
      local t = tc.tmem({ 2, 128, 64 }, tc.f32)
      return function() return t:at(0, tc.all, tc.all, tc.all) end, function() return t:at(0, tc.all, tc.all) end
   end)
   refuses("a slice of a leading dimension", "Slicing batch dimensions is not supported.", function()
      local t = tc.tmem({ 2, 128, 64 }, tc.f32)
      return function() return t:at(tc.ds(0, 1)) end, function() return t[1] end
   end)
   refuses("an index of a row", "TMEM can only be sliced, not indexed", function()
      local t = tc.tmem({ 128, 64 }, tc.f32)
      return function() return t[0] end
   end)
   refuses("an index of a column", "TMEM can only be sliced, not indexed", function()
      local t = tc.tmem({ 128, 64 }, tc.f32)
      return function() return t:at(tc.all, 0) end, function() return t:at(tc.all, tc.ds(0, 8)) end
   end)
   refuses("a slice of rows", "TMEM cannot be sliced along rows", function()
      local t = tc.tmem({ 128, 64 }, tc.f32)
      return function() return t:at(tc.ds(0, 64), tc.all) end, function() return t:at(tc.ds(0, 128), tc.all) end
   end)
   refuses("a slice of several row tiles", "Cannot slice TMEM with multiple tiles along rows.", function()
      local t = tc.tmem({ 256, 64 }, tc.f32, { layout = "default" })
      return function() return t:at(tc.all, tc.ds(0, 8)) end
   end)
   local column = "Slicing along columns is not supported when the column index is not known to be a multiple of the "
      .. "base tile shape"
   refuses("half a cell", column, function()
      local t = tc.tmem({ 128, 64 }, tc.f16, { packed = true })
      return function() return t:at(tc.all, tc.ds(1, 16)) end, function() return t:at(tc.all, tc.ds(16, 16)) end
   end)
   refuses("columns of 64 rows of a pair", column, function()
      local t = tc.tmem({ 64, 64 }, tc.f32, { collective = true })
      local one = tc.tmem({ 64, 64 }, tc.f32, { layout = "half_lane" })
      return function() return t:at(tc.all, tc.ds(32, 32)) end, function() return one:at(tc.all, tc.ds(32, 32)) end
   end, { cluster = { 2 }, cluster_names = { "cta" } })
   refuses("an index of unknown alignment", column, function()
      local t, i = tc.tmem({ 128, 64 }, tc.f16, { packed = true }), tc.axis_index "n"
      return function() return t:at(tc.all, tc.ds(i, 16)) end, function() return t:at(tc.all, tc.ds(i * 16, 16)) end
   end, { grid = { 4 }, grid_names = { "n" } })
   refuses("an offset that is no multiple of 8 columns",
      "The column offset of a TMEM slice must be known to be a multiple of 8 columns, but 4 is not.", function()
         local t = tc.tmem({ 128, 64 }, tc.f32)
         return function() return t:at(tc.all, tc.ds(4, 8)) end, function() return t:at(tc.all, tc.ds(8, 4)) end
      end)
   refuses("an offset that is no multiple of 8 columns of 64 rows",
      "The column offset of a TMEM slice must be known to be a multiple of 8 columns, but 4 is not.", function()
         local t = tc.tmem({ 64, 64 }, tc.f32)
         return function() return t:at(tc.all, tc.ds(4, 8)) end, function() return t:at(tc.all, tc.ds(8, 8)) end
      end)
   refuses("slots of 64 rows that are no multiple of 8 columns",
      "The column offset of a TMEM slice must be known to be a multiple of 8 columns, but 1 * 4 is not.", function()
         local t = tc.tmem({ 2, 64, 4 }, tc.f32)
         return function() return t[1] end, function() return t[0] end
      end)
   refuses("slots that are no multiple of 8 columns",
      "The column offset of a TMEM slice must be known to be a multiple of 8 columns, but 1 * 4 is not.", function()
         local t = tc.tmem({ 2, 128, 4 }, tc.f32)
         return function() return t[1] end, function() return t[0] end
      end)
end)

describe("Loads and stores of TMEM refuse", function()
   refuses("ref:load",
      "Loads from TMEM are asynchronous operations and cannot be performed using the usual syntax. Please use "
         .. "tc.async_load_tmem instead.", function()
         local t = tc.tmem({ 128, 64 }, tc.f32)
         return function() t:load() end, function() tc.async_load_tmem(t) end
      end)
   refuses("ref:store",
      "Stores to TMEM are asynchronous operations and cannot be performed using the usual syntax. Please use "
         .. "tc.async_store_tmem instead.", function()
         local t, f = tc.tmem({ 128, 64 }, tc.f32), tc.full({ 128, 64 }, 0, tc.f32)
         return function() t:store(f) end, function() tc.async_store_tmem(t, f) end
      end)
   refuses("an async load of SMEM", "Async load only supports TMEM refs", function()
      local s = tc.smem({ 128, 64 }, tc.f32)
      return function() tc.async_load_tmem(s) end, function() s:load() end
   end)
   refuses("an async store to SMEM", "Async store only supports TMEM refs", function()
      local s, f = tc.smem({ 128, 64 }, tc.f32), tc.full({ 128, 64 }, 0, tc.f32)
      return function() tc.async_store_tmem(s, f) end, function() s:store(f) end
   end)
   refuses("another shape", "Stored array has shape (128, 32), but TMEM has shape (128, 64)", function()
      local t, f = tc.tmem({ 128, 64 }, tc.f32), tc.full({ 128, 32 }, 0, tc.f32)
      return function() tc.async_store_tmem(t, f) end
   end)
   refuses("another dtype", "Stored array has dtype f16, but TMEM has dtype f32", function()
      local t, f = tc.tmem({ 128, 64 }, tc.f32), tc.full({ 128, 64 }, 0, tc.f16)
      return function() tc.async_store_tmem(t, f) end, function() tc.async_store_tmem(t, f:astype(tc.f32)) end
   end)
   refuses("unpacked bytes", "TMEM layout default(packing=1) is not supported", function()
      local t = tc.tmem({ 128, 64 }, tc.i8, { packed = false })
      return function() tc.async_load_tmem(t) end
   end)
   refuses("scales", "TMEM layout scales(packing=4) is not supported", function()
      local t = tc.tmem({ 128, 4 }, tc.e8m0, { layout = "scales" })
      return function() tc.async_load_tmem(t) end
   end)
   refuses("metadata", "Sparse meta layout loads unsupported.", function()
      local t = tc.tmem({ 128, 64 }, tc.u2, { layout = "sparse_metadata" })
      return function() tc.async_load_tmem(t) end
   end)
   refuses("a store of metadata", "Sparse meta layout stores unsupported.", function()
      local t, f = tc.tmem({ 128, 64 }, tc.u2, { layout = "sparse_metadata" }), tc.full({ 128, 64 }, 0, tc.u8)
      return function() tc.async_store_tmem(t, f) end
   end)
   refuses("several row tiles", "Loading multiple row tiles", function()
      local t = tc.tmem({ 256, 64 }, tc.f32, { layout = "default" })
      return function() tc.async_load_tmem(t) end
   end)
end)

describe("Copies from SMEM to TMEM refuse", function()
   local function both(name, space)
      return function()
         local ref = space == tc.SMEM and tc.smem({ 128, 64 }, tc.f32) or tc.tmem({ 128, 64 }, tc.f32)
         return function() tc[name](ref, ref) end
      end
   end
   refuses("a tile in TMEM", "async_copy_smem_to_tmem source must be an SMEM ref",
      both("async_copy_smem_to_tmem", tc.TMEM))
   refuses("a tile to SMEM", "async_copy_smem_to_tmem target must be a TMEM ref",
      both("async_copy_smem_to_tmem", tc.SMEM))
   refuses("scales in TMEM", "async_copy_scales_to_tmem source must be an SMEM ref",
      both("async_copy_scales_to_tmem", tc.TMEM))
   refuses("scales to SMEM", "async_copy_scales_to_tmem target must be a TMEM ref",
      both("async_copy_scales_to_tmem", tc.SMEM))
   refuses("metadata in TMEM", "async_copy_sparse_metadata_to_tmem source must be an SMEM ref",
      both("async_copy_sparse_metadata_to_tmem", tc.TMEM))
   refuses("metadata to SMEM", "async_copy_sparse_metadata_to_tmem target must be a TMEM ref",
      both("async_copy_sparse_metadata_to_tmem", tc.SMEM))

   local function copy(name, source, target)
      return function()
         local s, t = tc.smem(table.unpack(source)), tc.tmem(table.unpack(target))
         return function() tc[name](s, t) end
      end
   end
   local packed, scales = { packed = true }, { layout = "scales" }

   refuses("other dtypes", "Expected SMEM element type (bfloat16) to equal the TMEM element type (float16)",
      copy("async_copy_smem_to_tmem", { { 128, 64 }, tc.bf16 }, { { 128, 64 }, tc.f16, packed }))
   refuses("other shapes", "Expected SMEM reference shape (128, 64) to equal the TMEM reference shape (128, 32)",
      copy("async_copy_smem_to_tmem", { { 128, 64 }, tc.f16 }, { { 128, 32 }, tc.f16, packed }))
   refuses("an unpacked target",
      "tcgen05.cp only supports fully packed TMEM references (packing=2), but got packing=1",
      copy("async_copy_smem_to_tmem", { { 128, 64 }, tc.f16 }, { { 128, 64 }, tc.f16, { packed = false } }))
   refuses("other rows", "TMEM reference must have 128 rows, but got 64",
      copy("async_copy_smem_to_tmem", { { 64, 64 }, tc.f16 }, { { 64, 64 }, tc.f16, packed }))
   refuses("a special layout", "Only standard TMEM layout is supported, got: scales(packing=4)",
      copy("async_copy_smem_to_tmem", { { 128, 4 }, tc.e8m0 }, { { 128, 4 }, tc.e8m0, scales }))
   refuses("a plain tile", "tc.async_copy_smem_to_tmem takes swizzled SMEM, or plain rows of 16 bytes.",
      copy("async_copy_smem_to_tmem", { { 128, 64 }, tc.f16, { swizzle = "none" } }, { { 128, 64 }, tc.f16, packed }))
   refuses("a transposed tile",
      "tc.async_copy_smem_to_tmem does not transpose: a row of SMEM becomes a lane of TMEM.", function()
         local s, r = tc.smem({ 64, 128 }, tc.f16), tc.smem({ 128, 64 }, tc.f16)
         local t = tc.tmem({ 128, 64 }, tc.f16, packed)
         return function() tc.async_copy_smem_to_tmem(s:T(), t) end, function() tc.async_copy_smem_to_tmem(r, t) end
      end)
   refuses("scales of other dtypes", "Incompatible dtypes: SMEM has f8E4M3FN, TMEM has f8E8M0FNU",
      copy("async_copy_scales_to_tmem", { { 1, 1, 32, 16 }, tc.e4m3 }, { { 128, 4 }, tc.e8m0, scales }))
   refuses("other scales", "Unsupported dtype: f8E5M2, only f8e8m0fnu and f8e4m3fn are supported",
      copy("async_copy_scales_to_tmem", { { 1, 1, 32, 16 }, tc.e5m2 }, { { 128, 4 }, tc.e5m2, scales }))
   refuses("scales of 64 rows", "TMEM reference must have a multiple of 128 rows, but got 64",
      copy("async_copy_scales_to_tmem", { { 1, 1, 32, 16 }, tc.e8m0 }, { { 64, 16 }, tc.e8m0, { packed = false } }))
   refuses("scales of odd columns", "TMEM reference must have a multiple of 4 columns, but got 6",
      copy("async_copy_scales_to_tmem", { { 1, 1, 32, 16 }, tc.e8m0 }, { { 128, 6 }, tc.e8m0, { packed = false } }))
   refuses("swizzled scales", "Only copies from contiguous SMEM references are supported",
      copy("async_copy_scales_to_tmem", { { 1, 1, 32, 32 }, tc.e8m0 }, { { 128, 4 }, tc.e8m0, scales }))
   refuses("scales of another shape",
      "SMEM has (1, 2, 32, 16), but expected (1, 1, 32, 16) for TMEM ref shape (128, 4)",
      copy("async_copy_scales_to_tmem", { { 1, 2, 32, 16 }, tc.e8m0 }, { { 128, 4 }, tc.e8m0, scales }))
   refuses("scales of another shape, of 64 rows of a pair",
      "SMEM has shape (1, 1, 32, 16), but expected (1, 1, 64, 16) for TMEM ref shape (256, 4)", function()
         local t = tc.tmem({ 256, 4 }, tc.e8m0, { layout = "b_scales_m64_collective", collective = true })
         local s, good = tc.smem({ 1, 1, 32, 16 }, tc.e8m0), tc.smem({ 1, 1, 64, 16 }, tc.e8m0)
         local axis = { collective_axis = "x" }
         return function() tc.async_copy_scales_to_tmem(s, t, axis) end,
            function() tc.async_copy_scales_to_tmem(good, t, axis) end
      end, { cluster = { 2 }, cluster_names = { "x" } })
   refuses("scales in another layout",
      "TMEM layout default(packing=1) is not supported for scale copies. Only scales_layout() and "
         .. "b_scales_m64_collective_layout() are supported.",
      copy("async_copy_scales_to_tmem", { { 1, 1, 32, 16 }, tc.e8m0 }, { { 128, 4 }, tc.e8m0, { packed = false } }))
end)

describe("tc.async_copy_smem_to_tmem", function()
   refuses("brings padded elements to padded ones", "SMEM has elements of 8 bits, TMEM of 4.", function()
      local s = tc.smem({ 128, 128 }, tc.e2m1, { padded = true })
      local t = tc.tmem({ 128, 128 }, tc.e2m1, { packed = true })
      local good = tc.tmem({ 128, 128 }, tc.e2m1, { padded = true })
      return function() tc.async_copy_smem_to_tmem(s, t) end, function() tc.async_copy_smem_to_tmem(s, good) end
   end)
end)

describe("tc.union refuses", function()
   refuses("collective and other TMEM", "Some aliased TMEM references are collective and some are not.", function()
      local a, b = tc.tmem({ 128, 64 }, tc.f32, { collective = true }), tc.tmem({ 128, 64 }, tc.f32)
      local c = tc.tmem({ 128, 32 }, tc.f32)
      return function() tc.union(a, b) end, function() tc.union(b, c) end
   end)
   refuses("several spaces", "All aliased Refs must have the same memory space (SMEM or TMEM). Got SMEM, TMEM.",
      function()
         local a, b = tc.smem({ 128, 64 }, tc.f32), tc.tmem({ 128, 64 }, tc.f32)
         return function() tc.union(a, b) end
      end)
   refuses("GMEM", "Only SMEM and TMEM refs are supported.", function(x)
      local a = tc.smem({ 128, 64 }, tc.f32)
      return function() tc.union(a, x) end
   end, { args = { tc.gmem({ 128, 64 }, tc.f32) } })
   refuses("other rows in TMEM",
      "TMEM aliasing only supported for Refs with the same first dimension, got 64 != 128.", function()
         local a, b = tc.tmem({ 128, 64 }, tc.f32), tc.tmem({ 64, 64 }, tc.f32)
         return function() tc.union(a, b) end
      end)
   refuses("views", "A union is made of whole, freshly allocated refs, but member 2 is a view or already in a union.",
      function()
         local a, b = tc.smem({ 128, 64 }, tc.f32), tc.smem({ 2, 128, 64 }, tc.f32)
         return function() tc.union(a, b[0]) end, function() tc.union(a, b) end
      end)
   refuses("assignment", "Ref unions can't be assigned to.", function()
      local u = tc.union(tc.smem({ 128, 64 }, tc.f32), tc.smem({ 64, 64 }, tc.f32))
      return function() u[0] = 1 end
   end)
   refuses("layout of SMEM", "layout attribute is only defined for TMEM refs", function()
      local u = tc.union(tc.smem({ 128, 64 }, tc.f32), tc.smem({ 64, 64 }, tc.f32))
      local t = tc.union(tc.tmem({ 128, 64 }, tc.f32), tc.tmem({ 128, 32 }, tc.f32))
      return function() return u.layout end, function() return t.layout end
   end)
   refuses("collective of SMEM", "collective attribute is only defined for TMEM refs", function()
      local u = tc.union(tc.smem({ 128, 64 }, tc.f32), tc.smem({ 64, 64 }, tc.f32))
      return function() return u.collective end
   end)
   it("tiles of TMEM", function()
      helper.recording(nil, function()
         local t = tc.tmem({ 128, 64 }, tc.f32)
         local text = helper.first_line(helper.message(function() return t:tile({ 0, 0 }, { 128, 32 }) end))
         assert.matches("^Only workgroup memory is supported but got TMEM ref, float32 %(128, 64%).*%.$", text)
      end)
   end)
end)

-- What tc.mma with metadata, and the copy of metadata, refuse; each with its legal neighbour.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local refuses = require("helper").refuses

local SM100 = { target = "sm_100a" }

-- A call of tc.mma.  Of `o`: m, n, k of B, element types a, b, d; a_tmem; b_t: B as (N, K); swizzles;
-- meta: shape of the metadata; scales: their columns.
local function call(o)
   local m, n, k = o.m or 128, o.n or 128, o.k or 128
   local a_type, d = o.a or tc.f16, o.d or tc.f32
   local acc = tc.tmem({ m, n }, d, d.bits < 32 and { packed = false } or {})
   local a = o.a_tmem and tc.tmem({ m, k // 2 }, a_type, { packed = true })
      or tc.smem({ m, k // 2 }, a_type, { swizzle = o.a_swizzle })
   local b = o.b_t and tc.smem({ n, k }, o.b or a_type, { swizzle = o.b_swizzle }):T()
      or tc.smem({ k, n }, o.b or a_type, { swizzle = o.b_swizzle })
   local shape = o.meta or { 128, k // 2 }
   local metadata = o.metadata or tc.tmem(shape, tc.u2, { layout = "sparse_metadata" })
   local options = { a_sparse_metadata = metadata }
   if o.scales then
      options.a_scale = tc.tmem({ 128, o.scales }, tc.e8m0, { layout = "scales" })
      options.b_scale = options.a_scale
   end
   return function() tc.mma(acc, a, b, options) end
end

local function pair(bad, good)
   return function() return call(bad), good and call(good) end
end

describe("Sparse A:", function()
   refuses("K", "LHS and RHS have incompatible shapes. LHS: (128, 128). RHS: (128, 128).", function()
      local acc, a, b = tc.tmem({ 128, 128 }, tc.f32), tc.smem({ 128, 128 }, tc.f16), tc.smem({ 128, 128 }, tc.f16)
      local metadata = tc.tmem({ 128, 64 }, tc.u2, { layout = "sparse_metadata" })
      return function() tc.mma(acc, a, b, { a_sparse_metadata = metadata }) end,
         function() tc.mma(acc, a:at(tc.all, tc.ds(0, 64)), b, { a_sparse_metadata = metadata }) end
   end, SM100)
   refuses("the place of the metadata", "The `a_sparse_metadata` input must be in TMEM, but got SMEM.", function()
      local smem = tc.smem({ 128, 64 }, tc.u2, { swizzle = "none" })
      return call { metadata = smem }, call {}
   end, SM100)
   refuses("the rank of the metadata", "a_sparse_metadata must be 2-D, but has shape (2, 128, 64).", function()
      local ring = tc.tmem({ 2, 128, 64 }, tc.u2, { layout = "sparse_metadata" })
      return call { metadata = ring }, call { metadata = ring[1] }
   end, SM100)
   refuses("M = 64", "Sparse MMA not supported for M=64", pair({ m = 64 }, {}), SM100)
   for _, n in ipairs { 8, 24 } do
      refuses(("N = %d in each CTA of a pair"):format(n),
         ("N must be a multiple of 16 for sparse MMA, but got N=%d"):format(n), function()
            local function call_of(columns)
               local acc = tc.tmem({ 128, 2 * columns }, tc.f32, { collective = true })
               local a, b = tc.smem({ 128, 128 }, tc.e4m3), tc.smem({ columns, 256 }, tc.e4m3):T()
               local metadata = tc.tmem({ 128, 128 }, tc.u2, { layout = "sparse_metadata", collective = true })
               return function() tc.mma(acc, a, b, { a_sparse_metadata = metadata, collective_axis = "x" }) end
            end
            return call_of(n), call_of(n + 8)
         end, { target = "sm_100a", cluster = { 2 }, cluster_names = { "x" } })
   end
   refuses("N of int8", "In 1 CTA integer MMA, N must be a multiple of 16, got N=40",
      pair({ n = 40, b_t = true, a = tc.i8, d = tc.i32 }, { n = 24, b_t = true, a = tc.i8, d = tc.i32 }), SM100)
   refuses("K of a group", "K must be a multiple of 64, got: 32",
      pair({ k = 32, b_t = true, b_swizzle = 64, meta = { 128, 64 } }, { b_t = true }), SM100)
   refuses("K of a swizzle", "K must be a multiple of 128, got: 64",
      pair({ a = tc.e4m3, k = 64, meta = { 128, 64 } }, { a = tc.e4m3 }), SM100)
   refuses("the shape of the metadata", "A sparse metadata shape mismatch: expected (128, 64), got (128, 128)",
      pair({ meta = { 128, 128 } }, {}), SM100)
   refuses("the rows of the metadata", "A sparse metadata shape mismatch: expected (128, 64), got (256, 64)",
      pair({ meta = { 256, 64 } }, {}), SM100)
   refuses("the metadata of 32-bit elements", "A sparse metadata shape mismatch: expected (128, 128), got (128, 64)",
      pair({ a = tc.f32, n = 64, b_t = true, meta = { 128, 64 } }, { a = tc.f32, n = 64, b_t = true,
         meta = { 128, 128 } }), SM100)
   refuses("the type of the metadata", "A sparse metadata dtype mismatch: expected i2, got i8", function()
      local other = tc.tmem({ 128, 64 }, tc.i8, { packed = true })
      return call { metadata = other }, call {}
   end, SM100)
   refuses("the layout of the metadata", "A sparse metadata layout default(packing=1) is not supported.", function()
      local plain = tc.tmem({ 128, 64 }, tc.u2, { packed = false })
      return call { metadata = plain }, call {}
   end, SM100)
   refuses("B of 32 bytes a row", "B tiling too small. Increase swizzle or transpose the input.",
      pair({ b_t = true, b_swizzle = 32 }, { b_t = true, b_swizzle = 64 }), SM100)
   refuses("the block of scaled fp8", "Scale block size mismatch: expected 64, got 32",
      pair { a = tc.e4m3, k = 256, scales = 8 }, SM100)
   refuses("the accumulator", "MMA with element type bf16 only supports accumulators of type f32, but got: f16",
      pair({ a = tc.bf16, d = tc.f16 }, { a = tc.f16, d = tc.f16 }), SM100)
   refuses("a kind that the target lacks", "kind::i8 with i8 and i8 does not exist on sm_103a.",
      pair({ a = tc.i8, d = tc.i32 }, { a = tc.e4m3 }), { target = "sm_103a" })
end)

-- A copy from SMEM of a shape to TMEM of a shape: { SMEM, TMEM }, each the arguments of its allocation.
local function copy(arguments)
   local src, dst = tc.smem(table.unpack(arguments[1])), tc.tmem(table.unpack(arguments[2]))
   return function() tc.async_copy_sparse_metadata_to_tmem(src, dst) end
end

describe("tc.async_copy_sparse_metadata_to_tmem:", function()
   local layout, plain = { layout = "sparse_metadata" }, { swizzle = "none" }
   local good = { { { 1, 1, 128, 64 }, tc.u2 }, { { 128, 64 }, tc.u2, layout } }
   local function against(bad, legal)
      return function() return copy(bad), copy(legal or good) end
   end

   refuses("other types", "Incompatible dtypes: SMEM has i8, TMEM has i2",
      against { { { 1, 1, 128, 64 }, tc.i8 }, { { 128, 64 }, tc.u2, layout } }, SM100)
   refuses("bytes", "Unsupported dtype: f8E8M0FNU, only i2 supported",
      against { { { 1, 1, 128, 64 }, tc.e8m0 }, { { 128, 64 }, tc.e8m0, { packed = true } } }, SM100)
   refuses("64 rows", "TMEM reference must have a multiple of 128 rows, but got 64",
      against { { { 1, 1, 64, 64 }, tc.u2 }, { { 64, 64 }, tc.u2, { packed = false } } }, SM100)
   refuses("odd columns", "TMEM reference must have a multiple of 64 colums, but got 32",
      against { { { 1, 1, 128, 32 }, tc.u2, plain }, { { 128, 32 }, tc.u2, { packed = false } } }, SM100)
   refuses("another layout", "TMEM layout default(packing=1) is not supported",
      against { { { 1, 1, 128, 64 }, tc.u2 }, { { 128, 64 }, tc.u2, { packed = false } } }, SM100)
   refuses("another shape", "SMEM has (1, 1, 64, 64), but expected (1, 1, 128, 64) for TMEM ref shape (128, 64)",
      against { { { 1, 1, 64, 64 }, tc.u2 }, { { 128, 64 }, tc.u2, layout } }, SM100)
   refuses("plain rows and columns", "SMEM has (128, 64), but expected (1, 1, 128, 64) for TMEM ref shape (128, 64)",
      against { { { 128, 64 }, tc.u2, plain }, { { 128, 64 }, tc.u2, layout } }, SM100)
   refuses("a part of longer rows", "Only copies from contiguous SMEM references are supported", function()
      local wide, dst = tc.smem({ 1, 1, 128, 128 }, tc.u2, plain), tc.tmem({ 128, 64 }, tc.u2, layout)
      local part = wide:at(tc.all, tc.all, tc.all, tc.ds(64, 64))
      return function() tc.async_copy_sparse_metadata_to_tmem(part, dst) end, copy(good)
   end, SM100)
   refuses("256 rows", "Only M=128 supported", function()
      local src, dst = tc.smem({ 2, 1, 128, 64 }, tc.u2), tc.tmem({ 256, 64 }, tc.u2, layout)
      return function() tc.async_copy_sparse_metadata_to_tmem(src, dst) end, copy(good)
   end, SM100)
end)

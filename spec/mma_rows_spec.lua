-- src/mma.def: its rows are what the PTX ISA manual (tcgen05.mma and wgmma: kinds, types, shapes) and
-- Pallas:Mosaic GPU document; each row's products are taken and assembled, and one step outside of each column is
-- refused with the documented text.
local tc = require "tcmma"
local helper = require "helper"
local mma = dofile "tools/mma.lua"

local function read(path)
   local file = assert(io.open(path))
   local text = file:read "a"
   file:close()
   return text
end
local rows = mma.rows(read "src/mma.def")

-- ---- what is documented -----------------------------------------------------------------------------------

local function words(text)
   local list = {}
   for word in text:gmatch "%S+" do list[#list + 1] = math.tointeger(tonumber(word)) or word end
   return list
end

local narrow = "e4m3 e5m2 e2m3 e3m2 e2m1"
local wide = "SPARSE_M SPARSE_K"
local own_scaled = "SPARSE_N SPARSE_K" -- the ISA has no other M for sparse scaled kinds
-- name; A; B; D; scales, block; one type; K, sparse; M of one CTA, pair, sparse A; N: one CTA, 8 and 24 besides,
-- pair, pair and sparse A; targets; limits of Pallas alone
local documented = {
   { "kind::f16", "f16", "f16", "f16 f32", "", 0, true, 16, 32, "64 128", "128 256", "128", "256", 8, 0, 16, 16,
      "sm_100a sm_103a", wide },
   { "kind::f16", "bf16", "bf16", "f32", "", 0, true, 16, 32, "64 128", "128 256", "128", "256", 8, 0, 16, 16,
      "sm_100a sm_103a", wide },
   { "kind::tf32", "f32 tf32", "f32 tf32", "f32", "", 0, false, 8, 16, "64 128", "128 256", "128", "256", 8, 0, 16, 16,
      "sm_100a sm_103a", wide },
   { "kind::f8f6f4", narrow, narrow, "f16 f32", "", 0, false, 32, 64, "64 128", "128 256", "128", "256", 8, 0, 16, 32,
      "sm_100a sm_103a", "SPARSE_N " .. wide },
   { "kind::i8", "i8 u8", "i8 u8", "i32", "", 0, false, 32, 64, "64 128", "128 256", "128", "256", 16, 32, 32, 32,
      "sm_100a", wide },
   { "kind::mxf4.block_scale", "e2m1", "e2m1", "f32", "e8m0", 32, true, 64, 128, "128", "128 256", "128", "256", 8, 0,
      16, 32, "sm_100a sm_103a", own_scaled },
   { "kind::mxf4nvf4.block_scale", "e2m1", "e2m1", "f32", "e8m0 e4m3", 16, true, 64, 128, "128", "128 256", "128",
      "256", 8, 0, 16, 32, "sm_100a sm_103a", own_scaled },
   { "kind::mxf8f6f4.block_scale", narrow, narrow, "f32", "e8m0", 32, false, 32, 64, "128", "128 256", "128", "256", 8,
      0, 16, 32, "sm_100a sm_103a", own_scaled },
   { "wgmma f16", "f16", "f16", "f16 f32", "", 0, true, 16, 32, "64", "", "64", "", 8, 0, 0, 0, "sm_90a", "" },
   { "wgmma bf16", "bf16", "bf16", "f32", "", 0, true, 16, 32, "64", "", "64", "", 8, 0, 0, 0, "sm_90a", "" },
   { "wgmma tf32", "f32 tf32", "f32 tf32", "f32", "", 0, false, 8, 16, "64", "", "64", "", 8, 0, 0, 0, "sm_90a", "" },
   { "wgmma fp8", "e4m3 e5m2", "e4m3 e5m2", "f16 f32", "", 0, false, 32, 64, "64", "", "64", "", 8, 0, 0, 0, "sm_90a",
     "" },
   { "wgmma int8", "i8 u8", "i8 u8", "i32", "", 0, false, 32, 64, "64", "", "64", "", 16, 32, 0, 0, "sm_90a", "" },
}

local function flags(text)
   local set = {}
   for word in text:gmatch "%S+" do set[word] = true end
   return set
end

describe("The table of products", function()
   it("is the documented one", function()
      assert.equal(#documented, #rows)
      for i, d in ipairs(documented) do
         local r = rows[i]
         local function same(expected, got, column)
            assert.are.same(expected, got, d[1] .. ", row " .. i .. ": " .. column)
         end
         same(d[1], r.name, "name")
         same(d[1]:match "^wgmma" and "WGMMA" or "TCGEN05", r.family, "family")
         same(words(d[2]), r.a, "A")
         same(words(d[3]), r.b, "B")
         same(words(d[4]), r.d, "D")
         same({ words(d[5]), d[6] }, { r.scale, r.block }, "scales")
         same(d[7], r.same, "one type of A and B")
         same({ d[8], d[9] }, { r.k, r.k_sparse }, "K")
         same({ one = words(d[10]), two = words(d[11]), sparse_one = words(d[12]), sparse_two = words(d[13]) },
            r.m, "M")
         same({ one = d[14], fine = d[15], two = d[16], sparse_two = d[17], most = 256 }, r.n, "N")
         same(words(d[18]), r.targets, "targets")
         same(flags(d[19]), r.pallas, "limits of Pallas")
      end
   end)
end)

-- ---- one product ------------------------------------------------------------------------------------------

local bits = { f32 = 32, tf32 = 32, f16 = 16, bf16 = 16, e4m3 = 8, e5m2 = 8, e2m3 = 8, e3m2 = 8, i8 = 8, u8 = 8,
   i16 = 16, i32 = 32 }

-- K of a tile: whole swizzle spans and scale blocks, and tiles of 64 entries of metadata.
local function depth(row, o)
   if o.k then return o.k end
   if row.k == 64 or (o.scale and o.sparse) then return 256 end
   return row.k == 8 and 64 or 128
end

local function metadata_entries(row, k) return row.k == 64 and k // 4 or row.k == 8 and k or k // 2 end

local function operand_b(row, o, k)
   local options = { padded = (o.b == "e2m1" and row.k == 32) or nil }
   if o.n % 8 ~= 0 then return tc.smem({ k, o.n }, o.b, { swizzle = "none", tiling = { 8, 4 } }) end
   if o.b_n_last then return tc.smem({ k, o.n }, o.b, options) end
   return tc.smem({ o.n, k }, o.b, options):T()
end

-- o: a, b, d, m and n of one CTA, pair, sparse, scale, block, a_tmem, b_n_last (stored as (k, n)), k, layout of acc.
-- Returns the call.
local function product(row, o)
   local k, ctas = depth(row, o), o.pair and 2 or 1
   local collective = o.pair or nil
   local layout_of_acc = o.layout and { layout = o.layout } or { packed = false }
   layout_of_acc.collective = collective
   local acc = tc.tmem({ o.m, o.n * ctas }, o.d, layout_of_acc)
   local padded = (o.a == "e2m1" and row.k == 32) or nil
   local a_shape = { o.m, o.sparse and k // 2 or k }
   local a = o.a_tmem
      and tc.tmem(a_shape, o.a, { packed = not padded or nil, padded = padded, collective = collective })
      or tc.smem(a_shape, o.a, { padded = padded })
   local b = operand_b(row, o, k)
   local options = { collective_axis = o.pair and "x" or nil, accumulate = false }
   if o.scale then
      local blocks = k // ((o.block or row.block) * (o.sparse and 2 or 1))
      local layout = o.pair and o.m == 64 and "b_scales_m64_collective" or "scales"
      local b_rows = layout == "scales" and (o.n * ctas + 127) // 128 * 128 or 256
      options.a_scale = tc.tmem({ 128, blocks }, o.scale, { layout = "scales", collective = collective })
      options.b_scale = tc.tmem({ b_rows, blocks }, o.scale, { layout = layout, collective = collective })
   end
   if o.sparse then
      options.a_sparse_metadata = tc.tmem({ 128, (metadata_entries(row, k) + 63) // 64 * 64 }, tc.uint2,
         { layout = "sparse_metadata", collective = collective })
   end
   return function(barrier)
      options.barrier = barrier
      tc.mma(acc, a, b, options)
   end
end

local function cluster(o) return o.pair and { 2 } or nil, o.pair and { "x" } or nil end

local function record(row, o, target, fn)
   local sizes, names = cluster(o)
   helper.recording({ target = target, cluster = sizes, cluster_names = names }, function() fn(product(row, o)) end)
end

local function takes(row, o, target)
   local ok, why = pcall(record, row, o, target or row.targets[1], function(call) call() end)
   assert(ok, row.name .. ": " .. tostring(why))
end

-- limit: a column whose message says that it is not the instruction set's.
local function refuses(text, row, o, target, limit)
   record(row, o, target or row.targets[1], function(call)
      local message = helper.message(call)
      assert.equal(text, (message:match "^[^\n]*":gsub("^%S+:%d+: ", "")))
      local said = message:find("a limit of Pallas:Mosaic GPU, not of the instruction set", 1, true)
      assert.equal(limit and row.pallas[limit] or false, said ~= nil, message)
   end)
end

local function assembles(row, o, target)
   local sizes, names = cluster(o)
   local kernel = tc.kernel{ name = "kernel", args = {}, target = target, cluster = sizes, cluster_names = names,
      grid = o.pair and { 2 } or nil,
      body = function()
         local call, done = product(row, o), tc.barrier{ orders_tensor_core = true }
         call(done)
         tc.barrier_wait(done)
      end }
   assert.is_true(#kernel:cubin{ target = target } > 0)
   return kernel
end

-- The row's first types, and what of `more` differs.
local function with(row, more)
   local o = { a = row.a[1], b = row.b[1], d = row.d[#row.d], m = 128, n = 64,
      scale = row.scale[1] }
   for key, value in pairs(more or {}) do o[key] = value end
   return o
end

-- fn(M of one CTA, pair, sparse, step of N in one CTA) for each form of a row.
local function each_form(row, fn)
   for _, pair in ipairs{ false, true } do
      for _, sparse in ipairs{ false, true } do
         local column = (sparse and "sparse_" or "") .. (pair and "two" or "one")
         local step = not pair and row.n.one or sparse and row.n.sparse_two or row.n.two
         for _, m in ipairs(row.m[column]) do
            fn(m // (pair and 2 or 1), pair, sparse, step // (pair and 2 or 1))
         end
      end
   end
end

local mlir = { f32 = "f32", tf32 = "tf32", f16 = "f16", bf16 = "bf16", e4m3 = "f8E4M3FN", e5m2 = "f8E5M2",
   e2m3 = "f6E2M3FN", e3m2 = "f6E3M2FN", e2m1 = "f4E2M1FN", i8 = "i8", u8 = "ui8", i16 = "i16", i32 = "i32",
   e8m0 = "f8E8M0FNU" }

local function contains(list, t)
   for _, other in ipairs(list) do
      if other == t then return true end
   end
   return false
end

-- ---- what is taken ----------------------------------------------------------------------------------------

for number, row in ipairs(rows) do
   local title = ("Row %d, %s of %s"):format(number, row.name, row.a[1])
   local tcgen05, scaled = row.family == "TCGEN05", #row.scale > 0

   describe(title .. ", takes", function()
      it("its pairs of types, with each accumulator and type of scales", function()
         for _, a in ipairs(row.a) do
            for _, b in ipairs(row.b) do
               for _, d in ipairs(row.d) do
                  for _, scale in ipairs(#row.scale > 0 and row.scale or { false }) do
                     if not row.same or a == b then
                        takes(row, with(row, { a = a, b = b, d = d, scale = scale or nil }))
                     end
                  end
               end
            end
         end
      end)

      it("its M with the smallest and the largest N", function()
         each_form(row, function(m, pair, sparse, step)
            -- On sm_90a metadata has 128 rows, two instructions.
            local rows_of_cta = sparse and not tcgen05 and 128 or m
            for _, n in ipairs{ step, 256 // (pair and 2 or 1) } do
               local o = with(row, { m = rows_of_cta, n = n, pair = pair, sparse = sparse })
               takes(row, o)
               if tcgen05 or n < 256 or rows_of_cta == 64 then assembles(row, o, row.targets[1]) end
            end
         end)
      end)

      it("each accumulator and type of scales on each target", function()
         for _, target in ipairs(row.targets) do
            for _, d in ipairs(row.d) do
               for _, scale in ipairs(#row.scale > 0 and row.scale or { false }) do
                  assembles(row, with(row, { d = d, scale = scale or nil }), target)
               end
            end
         end
      end)

      if row.n.fine > 0 then
         it("N = 8 and 24 beside multiples of 16", function()
            for _, n in ipairs{ 8, 24 } do assembles(row, with(row, { n = n }), row.targets[1]) end
         end)
      end

      it("N above one instruction's, of one CTA", function()
         assembles(row, with(row, { m = scaled and 128 or 64, n = 256 + row.n.one }), row.targets[1])
      end)

      if tcgen05 then
         it("A in tensor memory", function() assembles(row, with(row, { a_tmem = true }), row.targets[1]) end)
      end
   end)
end

-- ---- what is refused --------------------------------------------------------------------------------------

local mix = "MMA requires A and B to have the same element type, except that FP8 types (f8E4M3FN and f8E5M2) may be "
   .. "mixed; got: %s and %s"

local function accumulators(row, d)
   if row.scale[1] then
      return ("Block-scaled MMA with element type %s only supports f32 accumulators, but got: %s"):format(
         mlir[row.a[1]],
         mlir[d])
   elseif row.kind == "MMA_I8" then
      return "MMA with element type s8 only supports s32 accumulators, but got: " .. mlir[d]
   end
   return ("MMA with element type %s only supports accumulators of type %s, but got: %s"):format(mlir[row.a[1]],
      contains(row.d, "f16") and "f32 or f16" or "f32", mlir[d])
end

-- Types of B beside which the rows of all kinds leave A without an instruction.
local function never_beside(a, t)
   for _, row in ipairs(rows) do
      if row.family == "TCGEN05" and contains(row.a, a) and contains(row.b, t) and (not row.same or a == t) then
         return false
      end
   end
   return true
end

for number, row in ipairs(rows) do
   local title = ("Row %d, %s of %s"):format(number, row.name, row.a[1])
   local tcgen05, scaled = row.family == "TCGEN05", #row.scale > 0
   local target = row.targets[1]

   describe(title .. ", refuses", function()
      it("accumulators of other types", function()
         for _, d in ipairs{ "f32", "f16", "bf16", "i32" } do
            if not contains(row.d, d) then refuses(accumulators(row, d), row, with(row, { d = d })) end
         end
      end)

      it("B of other types", function()
         for b in pairs(bits) do
            if never_beside(row.a[1], b) then
               refuses(mix:format(mlir[row.a[1]], mlir[b]), row, with(row, { b = b, n = 128 }))
            end
         end
      end)

      it("N between its multiples", function()
         local function refused(step, o)
            refuses(("In %s%s MMA, N must be a multiple of %d, got N=%d"):format(o.pair and "2 CTA" or "1 CTA",
               row.kind == "MMA_I8" and " integer" or "", step, o.n), row, with(row, o))
         end
         if row.n.one > 8 then
            refused(row.n.one, { n = 40 })
            if tcgen05 then
               for _, n in ipairs{ 8, 24 } do refused(row.n.two // 2, { n = n, pair = true }) end
            end
         elseif contains(row.b, "f32") then
            -- Other B have their tiles' eight rows, or 16 bytes of eight elements.
            refused(8, { n = 12 })
            if tcgen05 then refused(8, { n = 12, pair = true }) end
         else
            helper.recording({ target = target }, function()
               local b = tc.smem({ 16, 256 }, row.b[1])
               assert.equal("Expected slice start (0) and slice size (12) to be divisible by the tile size (8)",
                  helper.first_line(helper.message(function() b:at(tc.ds(0, 12), tc.all) end)))
            end)
         end
      end)

      if tcgen05 and row.n.sparse_two > row.n.two then
         it("N of a pair and sparse operands between its multiples", function()
            for n = row.n.two // 2, row.n.sparse_two, row.n.two // 2 do
               if n % (row.n.sparse_two // 2) ~= 0 then
                  refuses(("N must be a multiple of %d for sparse MMA, but got N=%d"):format(row.n.sparse_two // 2, n),
                     row, with(row, { n = n, sparse = true, pair = true }), nil, "SPARSE_N")
               end
            end
         end)
      end

      if tcgen05 then
         it("M outside of its set", function()
            refuses("Only M=128 and M=64 are supported for MMA, but got M=256", row,
               with(row, { m = 256, layout = "default" }))
            refuses("Only M=128 and M=64 are supported for MMA, but got M=256", row,
               with(row, { m = 256, layout = "default", pair = true }))
            if scaled then
               refuses("MMA with block scaling is not supported for 1CTA M=64", row, with(row, { m = 64 }))
            else
               refuses("Sparse MMA not supported for M=64", row, with(row, { m = 64, sparse = true }), nil, "SPARSE_M")
            end
            refuses("Sparse MMA not supported for M=64", row, with(row, { m = 64, sparse = true, pair = true }), nil,
               "SPARSE_M")
         end)

         it("A in tensor memory of a pair with M = 128 without both halves of its lanes", function()
            refuses("Only M=128 is supported for MMA with A in TMEM, but got M=64", row,
               with(row, { m = 64, pair = true, a_tmem = true }))
         end)

         it("N of a pair above one instruction's, where halves of it do not lie one above the other", function()
            local text = "Only N <= 128 are supported for collective MMA"
            for _, sparse in ipairs{ false, true } do
               local o = { n = 128 + (sparse and row.n.sparse_two or row.n.two) // 2, pair = true, sparse = sparse }
               refuses(text, row, with(row, o))
               o.m = 64
               if not sparse and scaled then refuses(text, row, with(row, o)) end
               if not sparse and not scaled then assembles(row, with(row, o), target) end
            end
         end)

         it("K of sparse operands that is no whole swizzle span", function()
            if scaled then return end
            local k = 2 * row.k_sparse
            local half = { k = k + k // 2, sparse = true, n = 128, b_n_last = row.k == 32 }
            refuses(("K must be a multiple of %d, got: %d"):format(math.max(k, 64), half.k), row,
               with(row, half), nil, "SPARSE_K")
         end)

         it("targets that lack it", function()
            for _, other in ipairs{ "sm_100a", "sm_103a", "sm_90a" } do
               local there = contains(row.targets, other)
               for _, r in ipairs(rows) do
                  there = there or (r.family == "WGMMA" and contains(r.targets, other) and contains(r.a, row.a[1])
                     and not scaled)
               end
               local a = mlir[row.a[1]]
               if not there then
                  refuses(("%s with %s and %s does not exist on %s."):format(row.name, a, a, other), row, with(row),
                     other)
               end
            end
         end)
      end

      if tcgen05 and not scaled and row.k ~= 32 or row.kind == "MMA_I8" then
         it("scales", function()
            refuses(("MMA with element type %s does not support block scaling"):format(mlir[row.a[1]]), row,
               with(row, { scale = "e8m0", block = 32, k = 128 }), "sm_100a")
         end)
      end

      if scaled then
         it("scales of another type", function()
            local fp4 = row.k == 64
            local text = "Scale element type mismatch: expected " .. (fp4 and "f8e8m0fnu or f8e4m3fn" or "f8e8m0fnu")
            for _, t in ipairs(fp4 and { "e5m2" } or { "e5m2", "e4m3" }) do
               refuses(text .. ", got " .. mlir[t], row, with(row, { scale = t }))
            end
         end)

         it("blocks of another size, dense and sparse", function()
            local text = "Scale block size mismatch: expected %s, got %d"
            for _, scale in ipairs(row.scale) do
               local legal = row.k == 64 and scale == "e8m0" and { 16, 32 } or { row.block }
               for _, block in ipairs{ 8, 16, 32, 64 } do
                  for times = 1, 2 do
                     local expected = table.concat(legal, " or "):gsub("%d+", function(b)
                        return ("%d"):format(b * times)
                     end)
                     if not contains(legal, block) then
                        refuses(text:format(expected, block * times), row,
                           with(row, { scale = scale, block = block, sparse = times == 2, k = 8 * block * times }))
                     end
                  end
               end
            end
         end)
      end

      if row.k == 64 then
         it("operands without scales", function()
            local o = with(row)
            o.scale = nil
            refuses("MMA with element type f4E2M1FN only supports block scaling", row, o)
         end)
         it("B of bytes", function()
            refuses("One operand has padded elements, the other has not.", row, with(row, { b = "e4m3" }))
         end)
      end

      if not tcgen05 then
         it("scales, and types that tcgen05 alone multiplies", function()
            local function lacks(name, o, a)
               refuses(("%s with %s and %s does not exist on sm_90a."):format(name, a, a), row, o, target)
            end
            if row.kind ~= "MMA_F8F6F4" then return end
            lacks("kind::mxf8f6f4.block_scale", with(row, { scale = "e8m0", block = 32 }), "f8E4M3FN")
            for _, t in ipairs{ "e2m3", "e3m2", "e2m1" } do
               lacks("kind::f8f6f4", with(row, { a = t, b = t }), mlir[t])
            end
         end)

         it("a pair of CTAs", function()
            local ok, message = pcall(assembles, row, with(row, { pair = true, n = 32 }), target)
            assert.is_false(ok)
            assert.matches("Collective TMEM does not exist on sm_90a", message, 1, true)
         end)
      end
   end)
end

describe("No row takes", function()
   it("other element types", function()
      for _, t in ipairs{ "i16", "i32", "u16", "u32", "f64", "e8m0" } do
         local name = ({ u16 = "ui16", u32 = "ui32", f64 = "f64" })[t] or mlir[t]
         bits[t] = bits[t] or ({ u16 = 16, u32 = 32, f64 = 64, e8m0 = 8 })[t]
         refuses("Unsupported element type: " .. name, rows[1], with(rows[1], { a = t, b = t, k = 64 }))
      end
   end)
end)

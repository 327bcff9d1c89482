-- Every kind of tcgen05.mma for pairs of CTAs: dense, block-scaled and sparse, M = 128 and 256, in the
-- emulator's modes without a hazard, equal to the product in double precision; assembled for the targets
-- that have the kind.
local tc = require "tcmma"
local mma = require "mma_kernels"
local collective = require "collective_kernels"

local floats = { tc.e4m3, tc.e5m2, tc.e2m3, tc.e3m2, tc.e2m1 }

local function check(o, inputs, expected) mma.check(o, inputs, expected, collective.tile(o)) end

local function dense(o)
  local M = 2 * (o.rows or 128)
  o.d = o.d or tc.f32
  local a = mma.operand(o.a_transposed and { o.k, M } or { M, o.k }, o.a, 1)
  local b = mma.operand(o.b_transposed and { o.n, o.k } or { o.k, o.n }, o.b, 2)
  check(o, { a, b }, tc.reference.matmul(a, b, { transpose_a = o.a_transposed, transpose_b = o.b_transposed }))
end

describe("tcgen05.mma of two CTAs", function()
  for _, rows in ipairs{ 64, 128 } do
    it(("M = %d, of kind::tf32"):format(2 * rows), function()
      for _, n in ipairs{ 64, 256 } do
        dense{ rows = rows, n = n, k = 64, a = tc.f32, b = tc.f32, b_transposed = true, a_swizzle = 64 }
      end
    end)
    it(("M = %d, of every type of kind::f8f6f4"):format(2 * rows), function()
      for i, a in ipairs(floats) do
        local b = floats[i % #floats + 1]
        dense{ rows = rows, n = 96, k = 128, a = a, b = b, padded = true, b_transposed = true, modes = { "check" } }
        dense{ rows = rows, n = 64, k = 128, a = b, b = a, d = tc.f16, padded = true, b_transposed = true }
      end
    end)
    it(("M = %d, of kind::f8f6f4 with 8-bit operands in either order"):format(2 * rows), function()
      for order = 0, 3 do
        dense{ rows = rows, n = 128, k = 128, a = tc.e4m3, b = tc.e5m2, a_swizzle = rows == 64 and 64 or 128,
               b_swizzle = 64, a_transposed = order % 2 == 1, b_transposed = order >= 2 }
      end
    end)
    it(("M = %d, of kind::i8"):format(2 * rows), function()
      for _, a in ipairs{ tc.i8, tc.u8 } do
        dense{ rows = rows, n = 128, k = 64, a = a, b = tc.i8, d = tc.i32, b_transposed = true,
          targets = { "sm_100a" } }
      end
    end)
  end
  for _, n in ipairs{ 288, 320, 512, 1024 } do
    it(("M = 128, N = %d, as several instructions"):format(n), function()
      for _, o in ipairs{
        { a = tc.f16, tk = 64, b_transposed = true }, { a = tc.bf16, tk = 64, swizzle = n == 288 and 32 or 64 },
        { a = tc.f32, tk = 16, b_transposed = true }, { a = tc.e4m3, tk = 64, d = tc.f16, b_transposed = true },
        { a = tc.u8, tk = 64, d = tc.i32, b_transposed = true, targets = { "sm_100a" } },
      } do
        o.n, o.k, o.d = n, 2 * o.tk, o.d or tc.f32
        o.modes = n == 1024 and { "check" } or nil
        local a = mma.operand({ 128, o.k }, o.a, 1)
        local b = mma.operand(o.b_transposed and { n, o.k } or { o.k, n }, o.a, 2)
        mma.check(o, { a, b }, tc.reference.matmul(a, b, { transpose_b = o.b_transposed }), collective.matmul{
          rows = 64, n = n, steps = 2, stages = 1, tk = o.tk, dtype = o.a, acc = o.d, swizzle = o.swizzle,
          b_transposed = o.b_transposed, warpgroups = n > 512 and 4 or 2 })
      end
    end)
  end
  for _, rows in ipairs{ 64, 128 } do
    it(("M = %d, with A in tensor memory"):format(2 * rows), function()
      local function check_tmem(o)
        o.rows, o.n, o.a_tmem, o.b_transposed = rows, o.n or 96, true, true
        dense(o)
      end
      check_tmem{ k = 128, a = tc.f16, b = tc.f16, d = tc.f16, n = 32 }
      check_tmem{ k = 64, a = tc.bf16, b = tc.bf16, a_swizzle = 64, n = 256 }
      check_tmem{ k = 64, a = tc.bf16, b = tc.bf16, a_swizzle = 32 }
      check_tmem{ k = 64, a = tc.f32, b = tc.f32 }
      check_tmem{ k = 256, a = tc.e4m3, b = tc.e5m2 }
      check_tmem{ k = 128, a = tc.e3m2, b = tc.e4m3, padded = true, modes = { "check" } }
      check_tmem{ k = 128, a = tc.e2m1, b = tc.e3m2, padded = true, modes = { "check" } }
      check_tmem{ k = 128, a = tc.u8, b = tc.i8, d = tc.i32, targets = { "sm_100a" } }
    end)
  end
  it("M = 256, N = 512, each 128 columns of both CTAs' B into an accumulator of their own", function()
    local pieces = 2
    local kernel = tc.kernel{
      name = "wide_pair", cluster = { 2 }, cluster_names = { "cta" },
      args = { tc.gmem({ 256, 64 }, tc.f16), tc.gmem({ 512, 64 }, tc.f16), tc.gmem({ 256, 512 }, tc.f32) },
      body = function(a, b, out)
        local cta = tc.axis_index "cta"
        local a_smem, b_smem, acc = tc.smem({ 128, 64 }, tc.f16), tc.smem({ 256, 64 }, tc.f16), {}
        for i = 1, pieces do acc[i] = tc.tmem({ 128, 256 }, tc.f32, { collective = true }) end
        local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
        local options = { collective_axes = "cta", leader_tracked = "partitioned", partition_axis = 0 }
        tc.copy_gmem_to_smem(a, a_smem, loaded, options)
        tc.copy_gmem_to_smem(b, b_smem, loaded, options)
        tc.when(cta:eq(0), function()
          tc.barrier_wait(loaded)
          for i = 1, pieces do
            tc.mma(acc[i], a_smem, b_smem:at(tc.ds((i - 1) * 128, 128), tc.all):T(),
              { accumulate = false, collective_axis = "cta" })
          end
          tc.commit_arrive(done, { collective_axis = "cta" })
        end)
        tc.barrier_wait(done)
        for i = 1, pieces do
          for c = 0, 255, 64 do -- columns of the first CTA's B, then of the other's
            local first = c // 128 * 256 + (i - 1) * 128 + c % 128
            out:tile({ cta, 0 }, { 128, 512 }):at(tc.all, tc.ds(first, 64))
              :store(tc.async_load_tmem(acc[i]:at(tc.all, tc.ds(c, 64))))
          end
        end
      end,
    }
    local a, b = mma.operand({ 256, 64 }, tc.f16, 1), mma.operand({ 512, 64 }, tc.f16, 2)
    mma.check({ d = tc.f32 }, { a, b }, tc.reference.matmul(a, b, { transpose_b = true }), kernel)
  end)
  it("of operands without swizzle, and of different ones", function()
    dense{ n = 64, k = 64, a = tc.f16, b = tc.f16, a_swizzle = 32, b_swizzle = 128, b_transposed = true }
  end)
end)

-- ---- block scales --------------------------------------------------------------------------------------

local function scales(rows, blocks, dtype, seed)
  local codes = tc.randint({ rows, blocks }, tc.i32, { low = -2, high = 3, seed = seed }):totable()
  for _, row in ipairs(codes) do
    for j, e in ipairs(row) do row[j] = dtype == tc.e4m3 and ({ 0.5, 1.5, 1, 3, 2 })[e + 3] or 2.0 ^ e end
  end
  return codes
end

local function scaled_rows(operand, factors, block)
  local rows = operand:totable()
  for i, row in ipairs(rows) do
    for k, x in ipairs(row) do row[k] = x * factors[i][(k - 1) // block + 1] end
  end
  return tc.from_table(rows, tc.f64)
end

-- Rows of the two CTAs, each filled up to 128.
local function of_pair(factors, rows, dtype)
  local list = {}
  for cta = 0, 1 do
    for i = 1, 128 do
      list[#list + 1] = i <= rows and factors[cta * rows + i] or factors[1]
    end
  end
  return tc.interleave_scales(tc.from_table(list, dtype))
end

local function scaled(o)
  local rows = o.rows or 128
  o.d, o.b_transposed = tc.f32, true
  local a, b = mma.operand({ 2 * rows, o.k }, o.a, 1), mma.operand({ o.n, o.k }, o.b, 2)
  local a_factors, b_factors = scales(2 * rows, o.k // o.block, o.scale, 3), scales(o.n, o.k // o.block, o.scale, 4)
  local expected = tc.reference.matmul(scaled_rows(a, a_factors, o.block), scaled_rows(b, b_factors, o.block),
    { transpose_b = true })
  local layout = rows == 64 and { layout = "b_scales_m64_collective" } or nil
  check(o, { a, b, of_pair(a_factors, rows, o.scale),
             tc.interleave_scales(tc.from_table(b_factors, o.scale), layout) }, expected)
end

describe("Block-scaled tcgen05.mma of two CTAs", function()
  for _, rows in ipairs{ 64, 128 } do
    it(("M = %d, of kind::mxf8f6f4"):format(2 * rows), function()
      for _, n in ipairs{ 32, 64, 128, 192, 256 } do
        scaled{ rows = rows, n = n, k = 128, a = tc.e4m3, b = tc.e5m2, scale = tc.e8m0, block = 32 }
      end
      scaled{ rows = rows, n = 128, k = 512, a = tc.e5m2, b = tc.e4m3, scale = tc.e8m0, block = 32,
        modes = { "check" } }
      scaled{ rows = rows, n = 64, k = 128, a = tc.e2m1, b = tc.e3m2, scale = tc.e8m0, block = 32, padded = true }
    end)
    it(("M = %d, of kind::mxf4 and kind::mxf4nvf4"):format(2 * rows), function()
      for _, scale in ipairs{ { tc.e8m0, 32 }, { tc.e8m0, 16 }, { tc.e4m3, 16 } } do
        for _, n in ipairs{ 64, 256 } do
          scaled{ rows = rows, n = n, k = 512, a = tc.e2m1, b = tc.e2m1, scale = scale[1], block = scale[2] }
        end
      end
    end)
  end
end)

describe("Block-scaled tcgen05.mma of two CTAs with A in tensor memory", function()
  for _, rows in ipairs{ 64, 128 } do
    it(("M = %d"):format(2 * rows), function()
      scaled{ rows = rows, n = 192, k = 128, a = tc.e4m3, b = tc.e5m2, scale = tc.e8m0, block = 32, a_tmem = true }
      scaled{ rows = rows, n = 64, k = 256, a = tc.e2m1, b = tc.e2m1, scale = tc.e4m3, block = 16, a_tmem = true }
    end)
  end
end)

-- ---- sparse A ------------------------------------------------------------------------------------------

-- Of `group` units of `unit` neighbours the first or last `group / 2` or others stay, by row and place.
local function pruned(rows, columns, group, unit, number)
  local list = {}
  for i = 1, rows do
    local row = {}
    for first = 0, columns - 1, group * unit do
      local one = (i + first // (group * unit)) % group
      local other = group == 2 and one or (one + 1 + i // 4 % (group - 1)) % group
      for u = 0, group - 1 do
        for e = 1, unit do
          row[first + u * unit + e] = (u == one or u == other) and number(i, first + u + e) or 0
        end
      end
    end
    list[i] = row
  end
  return list
end

-- o.pattern, o.entries: of metadata for K elements.
local function sparse(o)
  local group, unit = o.a.bits == 32 and 2 or 4, o.pattern == "4:8" and 2 or 1
  o.d, o.b_transposed = o.d or tc.f32, true
  local full = pruned(256, o.k, group, unit, function(i, k)
    local x = (5 * i + 3 * k) % 6 - 3
    return x >= 0 and x + 1 or x
  end)
  local b = mma.operand({ o.n, o.k }, o.b or o.a, 2)
  o.b = o.b or o.a
  local values, metadata = tc.sparsify(tc.from_table(full, o.a), { pattern = o.pattern })
  o.sparse = metadata.shape[2] * 64
  local inputs, whole, right = { values, b }, tc.from_table(full, tc.f64), b
  if o.scale then
    local a_factors, b_factors = scales(256, o.k // o.block, o.scale, 3), scales(o.n, o.k // o.block, o.scale, 4)
    whole, right = scaled_rows(whole, a_factors, o.block), scaled_rows(b, b_factors, o.block)
    inputs[3] = of_pair(a_factors, 128, o.scale)
    inputs[4] = tc.interleave_scales(tc.from_table(b_factors, o.scale))
  end
  inputs[#inputs + 1] = metadata
  check(o, inputs, tc.reference.matmul(whole, right, { transpose_b = true }))
end

describe("Sparse tcgen05.mma of two CTAs", function()
  for _, n in ipairs{ 64, 128, 256 } do
    it(("N = %d"):format(n), function()
      sparse{ n = n, k = 128, a = tc.f16 }
      sparse{ n = n, k = 128, a = tc.bf16 }
      sparse{ n = n, k = 256, a = tc.e4m3, b = tc.e5m2 }
      sparse{ n = n, k = 256, a = tc.i8, d = tc.i32, targets = { "sm_100a" } }
      sparse{ n = n, k = 128, a = tc.f32 }
    end)
  end
  it("and block-scaled", function()
    sparse{ n = 128, k = 256, a = tc.e4m3, scale = tc.e8m0, block = 64 }
    sparse{ n = 128, k = 512, a = tc.e2m1, pattern = "4:8", scale = tc.e8m0, block = 64 }
    sparse{ n = 128, k = 512, a = tc.e2m1, pattern = "4:8", scale = tc.e4m3, block = 32 }
  end)
end)

describe("Kernels of two CTAs", function()
  it("were assembled", function()
    local assembled, why = mma.assembled()
    if not assembled then return pending(why) end
  end)
end)

-- The cases of Pallas:Mosaic GPU's own tests of MMAs and tensor memory that no other spec has (docs/conformance.md
-- lists all), with their shapes, element types and tolerances, on the emulator against the product in double
-- precision, or exact.  Where a case is reduced, its line says how.  Operands are of -1 to 1, whose sums of 128
-- products the tensor core's adder, which truncates, has to 6e-6: where Pallas asks for 5e-6, 1e-5 is asked for here.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local collective = require "collective_kernels"
local mma = require "mma_kernels"
local pallas = require "pallas_kernels"
local check = require "pallas_check"

local each, run = check.each, check.run
local close, exact, copies = check.close, check.exact, check.copies

local fp8_pairs = { { tc.e4m3, tc.e4m3 }, { tc.e5m2, tc.e5m2 }, { tc.e4m3, tc.e5m2 }, { tc.e5m2, tc.e4m3 } }

-- ---- pairs of CTAs --------------------------------------------------------------------------------------------

-- Scales of both CTAs' rows, each filled up to 128 with others that no row may use.
local function scales_of_pair(scale, rows)
  local list, whole = {}, scale:totable()
  for cta = 0, 1 do
    for i = 1, 128 do list[#list + 1] = whole[cta * rows + (i <= rows and i or 1)] end
  end
  return tc.interleave_scales(tc.from_table(list, scale.dtype))
end

-- o: as for collective.tile.  Without an absolute tolerance the numbers are positive.
local function pair_agrees(o, atol, rtol)
  o.rows, o.d = o.rows or 128, o.d or tc.f32
  local low = atol == 0 and 0 or -1
  local a = tc.rand({ 2 * o.rows, o.k }, o.a, { seed = 1, low = low })
  local b = tc.rand(o.b_transposed and { o.n, o.k } or { o.k, o.n }, o.b, { seed = 2, low = low })
  local inputs, left, right = {}, a, b
  if o.scale then
    local a_scale, b_scale = mma.scales(2 * o.rows, o.k // o.block, o.scale, 3), mma.scales(o.n, o.k // o.block,
      o.scale, 4)
    inputs[1] = scales_of_pair(a_scale, o.rows)
    inputs[2] = tc.interleave_scales(b_scale, o.rows == 64 and { layout = "b_scales_m64_collective" } or nil)
    left, right = mma.scaled(a, a_scale, o.block), mma.scaled(b, b_scale, o.block)
  end
  local out = tc.zeros({ 2 * o.rows, o.n }, o.d)
  run(collective.tile(o), {}, a, b, out, table.unpack(inputs))
  close(out, tc.reference.matmul(left, right, { transpose_b = o.b_transposed }), atol, rtol, o)
end

describe("mosaic_gpu_test, of pairs:", function()
  for _, size in ipairs{ { 256, 256, 256 }, { 256, 128, 128 }, { 256, 256, 64 }, { 128, 64, 128 } } do
    local m, n, k = table.unpack(size)
    it(("test_simple_collective_matmul, %d x %d x %d"):format(m, n, k), function()
      local function matmul(a, b, swizzle, atol, rtol)
        -- Half of B's columns, and K, have to hold whole swizzles.
        local span = 8 * swizzle // a.bits
        if k % span > 0 or n // 2 % (8 * swizzle // b.bits) > 0 then return end
        each({ false, true }, function(a_tmem)
          if a_tmem and m == 128 then return end
          pair_agrees({ rows = m // 2, n = n, k = k, a = a, b = b, a_swizzle = swizzle, b_swizzle = swizzle,
                        a_tmem = a_tmem or nil }, atol, rtol)
        end)
      end
      each({ 128, 64, 32 }, function(swizzle)
        each({ tc.f16, tc.bf16 }, function(dtype) matmul(dtype, dtype, swizzle, 0, 4e-3) end)
        each(fp8_pairs, function(pair) matmul(pair[1], pair[2], swizzle, 1e-2, 1e-2) end)
      end)
    end)
  end

  it("test_collective_scaled_matmul", function()
    each({ 128, 256 }, function(n)
      each({ { tc.e8m0, 32 }, { tc.e4m3, 16 } }, function(scale)
        pair_agrees({ n = n, k = 512, a = tc.e2m1, b = tc.e2m1, scale = scale[1], block = scale[2],
                      b_transposed = true }, 0, 1e-3)
      end)
    end)
  end)

  it("test_collective_scaled_matmul_m128", function()
    each({ 64, 128, 192, 256 }, function(n)
      pair_agrees({ rows = 64, n = n, k = 256, a = tc.e5m2, b = tc.e5m2, scale = tc.e8m0, block = 32,
                    b_transposed = true }, 2e-4, 5e-6)
    end)
  end)

  it("test_copy_gmem_to_smem_partitioned and _replicated", function()
    local a = exact({ 128, 128 }, tc.f32, 1)
    local rows = a:totable()
    each({ 0, 1, false }, function(axis)
      local R, C = axis == 0 and 64 or 128, axis == 1 and 64 or 128
      local kernel = collective.tracked{ shape = { R, C }, dtype = tc.f32, axis = axis or nil, steps = 1, stages = 1 }
      local expected = { {}, {} }
      for cta = 0, 1 do
        for i = 1, R do
          local row, first = rows[(axis == 0 and cta * R or 0) + i], axis == 1 and cta * C or 0
          expected[cta + 1][i] = table.move(row, first + 1, first + C, 1, {})
        end
      end
      each({ "fast", "check" }, function(mode)
        copies(kernel, a, tc.from_table(expected, tc.f32), { mode = mode })
      end)
    end)
  end)
end)

describe("gpu_test, of pairs:", function()
  it("mma_collective", function()
    each({ 64, 128 }, function(rows)
      each({ 128, 160, 256 }, function(n)
        each({ 128, 64, 32 }, function(swizzle)
          pair_agrees({ rows = rows, n = n, k = 128, a = tc.f16, b = tc.f16, a_swizzle = swizzle, b_swizzle = swizzle,
                        b_transposed = true }, 1e-5, 0)
        end)
      end)
    end)
  end)

  it("mma_collective, lhs_tmem", function()
    each({ 128, 192, 224, 256 }, function(n)
      pair_agrees({ n = n, k = 128, a = tc.f16, b = tc.f16, a_tmem = true, b_transposed = true }, 1e-5, 0)
    end)
  end)

  it("mma_block_scaled_collective_m128", function()
    each({ 64, 128, 192, 256 }, function(n)
      each(fp8_pairs, function(pair)
        pair_agrees({ rows = 64, n = n, k = 256, a = pair[1], b = pair[2], scale = tc.e8m0, block = 32,
                      b_transposed = true }, 2e-4, 5e-6)
      end)
    end)
  end)

  it("mma_block_scaled_collective", function()
    each({ 32, 64, 128, 192, 256 }, function(n)
      each({ { tc.e8m0, 32 }, { tc.e4m3, 16 } }, function(scale)
        each({ false, true }, function(a_tmem)
          pair_agrees({ n = n, k = 256, a = tc.e2m1, b = tc.e2m1, scale = scale[1], block = scale[2],
                        a_tmem = a_tmem or nil, b_transposed = true }, 2e-4, 5e-6)
        end)
      end)
    end)
  end)
end)

-- ---- one CTA's MMAs -------------------------------------------------------------------------------------------

describe("mosaic_gpu_test:", function()
  local function product(kernel, dtype, ...)
    local a, b = tc.rand({ 128, 128 }, dtype, { seed = 1 }), tc.rand({ 128, 128 }, dtype, { seed = 2 })
    local out = tc.zeros({ 128, 128 }, tc.f32)
    run(kernel, { mode = "check" }, a, b, out, ...)
    close(out, tc.reference.matmul(a, b), 0, 1e-3, { dtype = tostring(dtype) })
  end

  it("test_matmul_alignment", function()
    each({ tc.f16, tc.bf16 }, function(dtype)
      product(pallas.misaligned(dtype), dtype, tc.zeros({ 2, 1 }, tc.f32))
    end)
  end)

  it("test_matmul_with_sliced_accumulator", function()
    each({ tc.f16, tc.bf16 }, function(dtype) product(pallas.sliced_accumulator(dtype), dtype) end)
  end)

  it("test_simple_warp_specialized_matmul", function()
    each({ tc.f16, tc.bf16 }, function(dtype)
      local a, b = tc.rand({ 128, 128 }, dtype, { seed = 1 }), tc.rand({ 128, 128 }, dtype, { seed = 2 })
      local out = tc.zeros({ 128, 128 }, dtype)
      run(kernels.matmul{ m = 128, n = 128, k = 128, dtype = dtype }, { mode = "check" }, a, b, out)
      close(out, tc.reference.matmul(a, b), 0, dtype == tc.bf16 and 4e-3 or 1e-3, { dtype = tostring(dtype) })
    end)
  end)

  -- A barrier of two dimensions is one of their product here.
  it("test_mma_barrier_indexing", function()
    each({ { 1, 0 }, { 3, 1 }, { 6, 5 } }, function(at)
      product(pallas.barrier_of_array(at[1], at[2]), tc.f16)
    end)
  end)

  it("test_arrive_wait_on_tc_barrier", function()
    each({ 1, 3 }, function(num_barriers)
      local a = exact({ 128, 64 }, tc.f32, 1)
      copies(pallas.arrive_on_tensor_core_barrier{ num_barriers = num_barriers }, a, a, { mode = "check" })
    end)
  end)

  it("test_barrier_arrive_warp_mesh", function()
    local out = tc.zeros({ 5 }, tc.i32)
    run(pallas.warps_arrive(), { mode = "check" }, out)
    assert.are.same({ 1, 2, 3, 4, 10 }, out:totable())
  end)
end)

-- Numbers of -1 to 1, or integers of the whole range; the product in double precision.
local function multiplies(o, kernel, atol, rtol)
  o.d = o.d or tc.f32
  local function operand(shape, dtype, seed)
    if o.d ~= tc.i32 then return tc.rand(shape, dtype, { seed = seed, low = -1 }) end
    return tc.randint(shape, dtype, { low = dtype == tc.u8 and 0 or -128, high = 128, seed = seed })
  end
  local a = operand(o.a_transposed and { o.k, o.m } or { o.m, o.k }, o.a, 1)
  local b = operand(o.b_transposed and { o.n, o.k } or { o.k, o.n }, o.b or o.a, 2)
  local out = tc.zeros({ o.m, o.n }, o.d)
  run(kernel, { target = o.target }, a, b, out)
  close(out, tc.reference.matmul(a, b, { transpose_a = o.a_transposed, transpose_b = o.b_transposed }), atol, rtol, o)
end

-- spec/mma_conformance_spec.lua loads the accumulator in slices.
describe("gpu_test:", function()
  it("mma_basic_float and _int, M = 64, N = 512", function()
    each({ 32, 64, 128 }, function(swizzle)
      each({ tc.f16, tc.bf16, tc.e4m3, tc.e5m2, tc.i8 }, function(dtype)
        local o = { m = 64, n = 512, k = 8 * swizzle // dtype.bits * (swizzle < 128 and 2 or 1), a = dtype,
          d = dtype == tc.i8 and tc.i32 or tc.f32, b_transposed = true, swizzle = swizzle }
        multiplies(o, pallas.wide(o), 2e-5, 1e-7)
      end)
    end)
  end)
end)

-- tc.mma on Hopper; M = 192 is two tiles there.
describe("gpu_test, wgmma:", function()
  local function wgmma(o, atol, rtol)
    o.target, o.b, o.d = "sm_90a", o.b or o.a, o.d or tc.f32
    multiplies(o, mma.tile(o), atol, rtol)
  end
  local function fits(swizzle, columns, dtype) return columns % (8 * swizzle // dtype.bits) == 0 end

  local function float(o)
    o.a_swizzle, o.b_swizzle, o.k = o.swizzle, o.swizzle, 2 * 8 * o.swizzle // o.a.bits
    wgmma(o, o.a.bits == 8 and 3e-2 or o.d == tc.f16 and 2e-2 or 1e-5, 0)
  end

  it("basic_float", function()
    each({ 64, 128 }, function(m)
      each({ 64, 128, 192 }, function(n)
        each({ 32, 64, 128 }, function(swizzle)
          each({ tc.f16, tc.bf16 }, function(dtype)
            each({ tc.f32, tc.f16 }, function(d)
              if d == tc.f16 and dtype == tc.bf16 then return end
              for order = 0, 3 do
                if (order >= 2 or fits(swizzle, n, dtype)) and not (order % 2 == 1 and not fits(swizzle, m, dtype)) then
                  float{ m = m, n = n, a = dtype, d = d, swizzle = swizzle, a_transposed = order % 2 == 1,
                         b_transposed = order >= 2 }
                end
              end
            end)
          end)
          each({ tc.e4m3, tc.e5m2 }, function(dtype)
            each({ tc.f32, tc.f16 }, function(d)
              float{ m = m, n = n, a = dtype, d = d, swizzle = swizzle, b_transposed = true }
            end)
          end)
          float{ m = m, n = n, a = tc.tf32, swizzle = swizzle, b_transposed = true }
        end)
      end)
    end)
  end)

  it("mixed_fp8 and basic_int", function()
    each({ 64, 128, 192 }, function(n)
      each({ 32, 64, 128 }, function(swizzle)
        each(fp8_pairs, function(pair)
          wgmma({ m = 64, n = n, k = 2 * swizzle, a = pair[1], b = pair[2], a_swizzle = swizzle, b_swizzle = swizzle,
                  b_transposed = true }, 6e-3, 0)
        end)
        each({ tc.i8, tc.u8 }, function(dtype)
          wgmma({ m = 64, n = n, k = 2 * swizzle, a = dtype, d = tc.i32, a_swizzle = swizzle, b_swizzle = swizzle,
                  b_transposed = true }, 0, 0)
        end)
      end)
    end)
  end)

  it("reg_lhs and reg_lhs_8bit", function()
    each({ 64, 128 }, function(m)
      each({ 64, 128, 192 }, function(n)
        each({ tc.f16, tc.bf16 }, function(dtype)
          wgmma({ m = m, n = n, k = 128, a = dtype, a_tmem = "store", b_transposed = true }, 1e-5, 0)
        end)
        each({ tc.e4m3, tc.e5m2 }, function(dtype)
          wgmma({ m = m, n = n, k = 128, a = dtype, a_tmem = "store", b_transposed = true }, 6e-3, 0)
        end)
        wgmma({ m = m, n = n, k = 128, a = tc.i8, d = tc.i32, a_tmem = "store", b_transposed = true }, 0, 0)
      end)
    end)
  end)

  it("narrow_n", function()
    each({ 8, 16 }, function(n)
      each({ tc.f16, tc.bf16 }, function(dtype)
        wgmma({ m = 64, n = n, k = 128, a = dtype, b_transposed = true }, 1e-5, 1e-3)
      end)
    end)
  end)
end)

-- M = 128, where Pallas has 64.
describe("mosaic_gpu_test, wgmma:", function()
  local function operands(dtype)
    return tc.rand({ 128, 128 }, dtype, { seed = 1 }), tc.rand({ 128, 128 }, dtype, { seed = 2 })
  end

  it("test_wgmma_sliced_acc_flip", function()
    each({ "sm_90a", "sm_100a" }, function(target)
      local a, b = operands(tc.f16)
      local out, list = tc.zeros({ 128, 128 }, tc.f32), tc.reference.matmul(a, b):totable()
      for i, row in ipairs(list) do
        list[i] = table.move(row, 1, 64, 65, table.move(row, 65, 128, 1, {}))
      end
      run(pallas.flipped(tc.f16), { target = target, mode = "check" }, a, b, out)
      close(out, tc.from_table(list, tc.f64), 0, 1e-3, { target = target })
    end)
  end)

  it("test_wgmma_registers_init and _init_with_update", function()
    each({ "sm_90a", "sm_100a" }, function(target)
      each({ 1, 2 }, function(times)
        local a, b = operands(tc.bf16)
        local init, out = tc.rand({ 128, 128 }, tc.f32, { seed = 3 }), tc.zeros({ 128, 128 }, tc.f32)
        local expected, first = tc.reference.matmul(a, b):totable(), init:totable()
        for i, row in ipairs(expected) do
          for j, x in ipairs(row) do row[j] = first[i][j] + times * x end
        end
        run(pallas.initialized(tc.bf16, times), { target = target, mode = "check" }, a, b, init, out)
        close(out, tc.from_table(expected, tc.f64), 0, 1e-3, { target = target })
      end)
    end)
  end)
end)

-- ---- tensor memory --------------------------------------------------------------------------------------------

describe("mosaic_gpu_test, tensor memory:", function()
  local function round_trip(o)
    local a = exact({ o.rows or 128, o.n }, o.dtype, 1)
    o.mode = "check"
    copies(pallas.store_load(o), a, a, o)
  end

  it("test_tmem and test_tmem_load_layout", function()
    each({ tc.f32, tc.i32 }, function(dtype) round_trip{ dtype = dtype, n = 128 } end)
    each({ tc.f16, tc.bf16 }, function(dtype)
      each({ true, false }, function(packed) round_trip{ dtype = dtype, n = 128, packed = packed } end)
    end)
  end)

  it("test_tmem_allocation_estimation", function()
    round_trip{ dtype = tc.bf16, n = 256, packed = true, count = 3, store = 64, load = 64 }
  end)

  it("test_tmem_column_slicing", function()
    each({ { 256, 128 }, { 256, 64 }, { 128, 32 }, { 64, 8 } }, function(size)
      round_trip{ dtype = tc.f32, n = size[1], store = math.min(64, size[1]), load = size[2] }
      round_trip{ dtype = tc.f32, n = size[1], store = size[2], load = math.min(64, size[1]) }
    end)
  end)

  it("test_tmem_batch_dimension_indexing", function()
    each({ 2, 4 }, function(batch) round_trip{ dtype = tc.f32, n = 64, batch = batch } end)
  end)

  it("test_tmem_load_reduce", function()
    each({ tc.f32, tc.i32 }, function(dtype)
      each({ "min", "max", "absmin", "absmax" }, function(op)
        each({ 32, 128 }, function(n)
          local a = dtype == tc.f32 and tc.randn({ 128, n }, dtype, { seed = 1 })
            or tc.randint({ 128, n }, dtype, { low = -1000, high = 1000, seed = 1 })
          local expected = {}
          for i, row in ipairs(a:totable()) do
            local values = {}
            for j, x in ipairs(row) do values[j] = op:find "abs" and math.abs(x) or x end
            expected[i] = math[op:sub(-3)](table.unpack(values))
          end
          local out, reduced = tc.zeros({ 128, n }, dtype), tc.zeros({ 128 }, dtype)
          local kernel = pallas.load_reduce(dtype, op, n)
          each({ "sm_100a", "sm_103a" }, function(target)
            run(kernel, { mode = "check", target = target }, a, out, reduced)
            assert.is_true(out:equal(a))
            assert.are.same(expected, reduced:totable())
          end)
        end)
      end)
    end)
  end)
end)

describe("gpu_test, tensor memory:", function()
  it("load_store_tmem, native, inference, slicing, single register", function()
    each({ tc.f32, tc.i32 }, function(dtype)
      each({ 8, 32, 64, 96, 128 }, function(n)
        local a = exact({ 128, n }, dtype, 2)
        copies(pallas.store_load{ dtype = dtype, n = n }, a, a, { n = n })
      end)
    end)
    each({ { tc.f16, false }, { tc.f16, true }, { tc.bf16, true }, { tc.e5m2, true }, { tc.e4m3, true } },
      function(kind)
        each({ 32, 64, 128 }, function(n)
          local a = exact({ 128, n }, kind[1], 2)
          copies(pallas.store_load{ dtype = kind[1], n = n, packed = kind[2] }, a, a, { n = n, dtype = kind[1] })
        end)
      end)
    each({ 8, 16, 64, 128 }, function(n)
      local a = exact({ 64, n }, tc.f32, 2)
      copies(pallas.store_load{ dtype = tc.f32, rows = 64, n = n }, a, a, { rows = 64, n = n })
    end)
    local a = exact({ 128, 1 }, tc.f32, 2)
    copies(pallas.store_load{ dtype = tc.f32, n = 1 }, a, a, { n = 1 })
  end)

  -- Registers hold no fp4: its copies are those of an MMA's A, block scaled.
  for _, pair in ipairs{ false, true } do
    it(pair and "smem_to_tmem_copy_collective" or "smem_to_tmem_copy", function()
      each({ tc.e5m2, tc.f16, tc.f32 }, function(dtype)
        each({ 8, 16, 32, 64, 160, 256 }, function(n)
          each({ "none", 32, 64, 128 }, function(swizzle)
            local bytes = n * dtype.bits // 8
            if swizzle == "none" and bytes ~= 16
              or swizzle ~= "none" and bytes % swizzle > 0 then return end
            local a = exact({ pair and 256 or 128, n }, dtype, 3)
            local o = { n = n, dtype = dtype, swizzle = swizzle, pair = pair or nil }
            copies(pallas.smem_to_tmem(o), a, a, o)
          end)
        end)
      end)
    end)
  end
end)

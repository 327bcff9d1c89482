-- Block-scaled MMAs of a pair of CTAs: each has the scales of its rows of A and of all columns of B.
local tc = require "tcmma"
local mma = require "mma_kernels"

-- One tile of the pair.  o: rows (of a CTA: 64 or 128), n (of both), k, a, b, scale, block.
local function tile(o)
  local groups = o.k // o.block // 4
  local narrow = o.rows == 64
  local b_scales = narrow and { 1, groups, 64, 16 } or { (o.n + 127) // 128, groups, 32, 16 }
  local b_rows = narrow and 256 or 128 * b_scales[1]
  return tc.kernel{
    name = "pair", cluster = { 2 }, cluster_names = { "cta" }, grid = { 1 }, grid_names = { "x" },
    args = { tc.gmem({ 2 * o.rows, o.k }, o.a), tc.gmem({ o.n, o.k }, o.b), tc.gmem({ 2, groups, 32, 16 }, o.scale),
             tc.gmem(b_scales, o.scale), tc.gmem({ 2 * o.rows, o.n }, tc.f32) },
    body = function(a, b, a_scale_array, b_scale_array, out)
      local cta = tc.axis_index "cta"
      local function operand(shape, dtype)
        return tc.smem(shape, dtype, { padded = o.padded and dtype == tc.e2m1 or nil })
      end
      local a_smem, b_smem = operand({ o.rows, o.k }, o.a), operand({ o.n // 2, o.k }, o.b)
      local a_plain = tc.smem({ 1, groups, 32, 16 }, o.scale, { swizzle = "none" })
      local b_plain = tc.smem(b_scales, o.scale, { swizzle = "none" })
      local acc = tc.tmem({ o.rows, o.n }, tc.f32, { collective = true })
      local a_scale = tc.tmem({ 128, 4 * groups }, o.scale, { collective = true, layout = "scales" })
      local b_scale = tc.tmem({ b_rows, 4 * groups }, o.scale,
        { collective = true, layout = narrow and "b_scales_m64_collective" or "scales" })
      local loaded = tc.barrier{ num_arrivals = 4 }
      local done = tc.barrier{ orders_tensor_core = true }
      local parts = { collective_axes = "cta", leader_tracked = "partitioned", partition_axis = 0 }
      local whole = { collective_axes = "cta", leader_tracked = "replicated" }
      tc.role{ name = "load", warps = 1 }(function()
        tc.copy_gmem_to_smem(a, a_smem, loaded, parts)
        tc.copy_gmem_to_smem(b, b_smem, loaded, parts)
        tc.copy_gmem_to_smem(a_scale_array, a_plain, loaded, parts)
        tc.copy_gmem_to_smem(b_scale_array, b_plain, loaded, whole)
      end)
      tc.role{ name = "mma", warps = 1 }(function()
        tc.when(cta:eq(0), function()
          tc.barrier_wait(loaded)
          tc.async_copy_scales_to_tmem(a_plain, a_scale, { collective_axis = "cta" })
          tc.async_copy_scales_to_tmem(b_plain, b_scale, { collective_axis = "cta" })
          tc.mma(acc, a_smem, b_smem:T(),
            { accumulate = false, collective_axis = "cta", a_scale = a_scale, b_scale = b_scale })
          tc.commit_arrive(done, { collective_axis = "cta" })
        end)
      end)
      tc.role{ name = "store", warpgroups = 1 }(function()
        tc.barrier_wait(done)
        local mine, width = out:tile({ cta, 0 }, { o.rows, o.n }), narrow and o.n or 64
        for c = 0, o.n - 1, width do
          local columns = tc.ds(c, math.min(width, o.n - c))
          mine:at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
        end
      end)
    end,
  }
end

-- The scales of both CTAs' rows, each CTA's padded to 128 rows with others, which no row may use.
local function padded(scale, rows)
  local out = {}
  for cta = 0, 1 do
    for i = 1, 128 do
      local row = {}
      for j = 1, #scale[1] do row[j] = i <= rows and scale[cta * rows + i][j] or 64 end
      out[#out + 1] = row
    end
  end
  return out
end

local no_assembler

local function check(o)
  local blocks = o.k // o.block
  local a, b = mma.operand({ 2 * o.rows, o.k }, o.a, 1), mma.operand({ o.n, o.k }, o.b, 2)
  local a_scale, b_scale = mma.scales(2 * o.rows, blocks, o.scale, 3), mma.scales(o.n, blocks, o.scale, 4)
  local expected = tc.reference.matmul(mma.scaled(a, a_scale, o.block), mma.scaled(b, b_scale, o.block),
    { transpose_b = true })
  local layout = o.rows == 64 and "b_scales_m64_collective" or "scales"
  local kernel = tile(o)
  for _, target in ipairs{ "sm_100a", "sm_103a" } do
    local cubin, message, code = kernel:cubin{ target = target }
    if not cubin and code == "ptx-rejected" then error(message) end
    no_assembler = no_assembler or not cubin and message or nil
  end
  for _, mode in ipairs{ "fast", "check", "random" } do
    local out = tc.zeros({ 2 * o.rows, o.n }, tc.f32)
    local report = kernel:emulate({ target = "sm_100a", mode = mode }, a, b,
      tc.interleave_scales(tc.from_table(padded(a_scale:totable(), o.rows), o.scale)),
      tc.interleave_scales(b_scale, { layout = layout }), out)
    assert.same({}, report.hazards)
    assert.equal(0, (tc.max_error(out, expected)))
  end
end

describe("A block-scaled MMA of a pair", function()
  for _, rows in ipairs{ 128, 64 } do
    it(("of mxfp8, %d rows in all"):format(2 * rows), function()
      for _, n in ipairs{ 64, 128, 192, 256 } do
        check{ rows = rows, n = n, k = 256, a = tc.e4m3, b = tc.e5m2, scale = tc.e8m0, block = 32 }
      end
    end)
    it(("of mixed types, %d rows in all"):format(2 * rows), function()
      check{ rows = rows, n = 128, k = 128, a = tc.e2m1, b = tc.e3m2, scale = tc.e8m0, block = 32, padded = true }
    end)
    it(("of mxfp4 and nvfp4, %d rows in all"):format(2 * rows), function()
      for _, n in ipairs{ 64, 256 } do
        check{ rows = rows, n = n, k = 512, a = tc.e2m1, b = tc.e2m1, scale = tc.e8m0, block = 32 }
        check{ rows = rows, n = n, k = 256, a = tc.e2m1, b = tc.e2m1, scale = tc.e4m3, block = 16 }
      end
    end)
  end

  it("was assembled", function()
    if no_assembler then return pending(no_assembler) end
  end)
end)

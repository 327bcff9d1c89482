-- TMA copies: every swizzle, plain arrays, vectors, slices, ranks 1 to 5, clipping, transposes,
-- reductions.  A round trip GMEM -> SMEM -> GMEM must give back what was there.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local function filled(shape, dtype, seed)
  return tc.randint(shape, dtype or tc.float16, { low = 1, high = 100, seed = seed or 3 })
end

local function same(a, b)
  assert.are.same(a:totable(), b:totable())
end

-- Copies the tile at `index` in and out again.
local function round_trip(o)
  local kernel = tc.kernel{
    name = "round_trip", args = { tc.gmem(o.shape, o.dtype or tc.float16), tc.gmem(o.shape, o.dtype or tc.float16) },
    grid = o.grid or { 1 }, grid_names = { "x" },
    body = function(source, target)
      local loaded = tc.barrier{}
      local smem = tc.smem(o.tile or o.shape, o.dtype or tc.float16, { swizzle = o.swizzle })
      local index = o.index and o.index(tc.axis_index "x")
      local from = index and source:tile(index, o.tile) or source
      local to = index and target:tile(index, o.tile) or target
      tc.copy_gmem_to_smem(from, smem, loaded)
      tc.barrier_wait(loaded)
      tc.copy_smem_to_gmem(smem, to)
    end,
  }
  local fine = kernels.assembles(kernel)
  assert.is_true(fine == nil or fine)
  for _, target in ipairs{ "sm_100a", "sm_90a" } do
    local source, out = filled(o.shape, o.dtype), tc.zeros(o.shape, o.dtype or tc.float16)
    kernels.run(kernel, { target = target }, source, out)
    same(source, out)
  end
end

describe("copies", function()
  it("go through every swizzle", function()
    for _, swizzle in ipairs{ 32, 64, 128 } do
      round_trip{ shape = { 64, 128 }, swizzle = swizzle }
    end
    round_trip{ shape = { 64, 128 }, swizzle = "none" }
  end)

  -- What TMA writes, registers find, and the other way round; of float32, single elements too.
  it("go through atoms of 32 bytes", function()
    for _, dtype in ipairs{ tc.float32, tc.float16, tc.uint8 } do
      local shape = { 64, 256 * 8 // dtype.bits }
      local options = { swizzle = "128B_atom_32B" }
      local kernel = tc.kernel{
        name = "atoms", args = { tc.gmem(shape, dtype), tc.gmem(shape, dtype), tc.gmem(shape, dtype),
                                 tc.gmem({ 8, 8 }, dtype) },
        body = function(source, first, second, some)
          local read, written = tc.smem(shape, dtype, options), tc.smem(shape, dtype, options)
          local loaded = tc.barrier{}
          tc.copy_gmem_to_smem(source, read, loaded)
          tc.barrier_wait(loaded)
          first:store(read:load())
          written:store(source:load())
          tc.commit_smem()
          tc.copy_smem_to_gmem(written, second)
          if dtype == tc.float32 then
            tc.range(8, function(i)
              for j = 0, 7 do some:at(i, j):store(read:at(i * 5, (i * 7 + j * 11) % shape[2]):load()) end
            end)
          end
        end,
      }
      local fine = kernels.assembles(kernel)
      assert.is_true(fine == nil or fine)
      local source = filled(shape, dtype)
      local first, second, some = tc.zeros(shape, dtype), tc.zeros(shape, dtype), tc.zeros({ 8, 8 }, dtype)
      kernels.run(kernel, { target = "sm_100a" }, source, first, second, some)
      same(source, first)
      same(source, second)
      local values, found = source:totable(), some:totable()
      for i = 0, dtype == tc.float32 and 7 or -1 do
        for j = 0, 7 do assert.equal(values[i * 5 + 1][(i * 7 + j * 11) % shape[2] + 1], found[i + 1][j + 1]) end
      end
      assert.has_error(function() kernel:ptx{ target = "sm_90a" } end)
    end
  end)

  it("take vectors and long rows", function()
    round_trip{ shape = { 256 } }
    round_trip{ shape = { 1024 } }
    round_trip{ shape = { 4, 384 }, swizzle = "none" }
  end)

  -- Every box begins at a multiple of 128 bytes, which the emulator asks for as the hardware does.
  it("take plain tiles of any height and depth", function()
    for _, case in ipairs{ { { 2, 320 }, tc.float16 }, { { 304, 4 }, tc.float32 }, { { 2, 3, 5, 64 }, tc.uint8 },
      { { 3, 700, 8 }, tc.float32 }, { { 4, 512 }, tc.float16 }, { { 1024 }, tc.float32 }, { { 5, 7, 16 }, tc.uint8 },
      { { 300, 5, 32 }, tc.float32 } } do
      round_trip{ shape = case[1], dtype = case[2], swizzle = "none" }
    end
  end)

  it("take tall tiles", function()
    round_trip{ shape = { 512, 64 } }
  end)

  it("take ranks 3, 4 and 5", function()
    round_trip{ shape = { 3, 16, 64 } }
    round_trip{ shape = { 2, 3, 8, 64 } }
    round_trip{ shape = { 2, 1, 3, 8, 64 } }
  end)

  it("clip what overhangs", function()
    round_trip{ shape = { 100, 72 }, tile = { 64, 64 }, grid = { 4 },
                index = function(x) return { x // 2, x % 2 } end }
  end)

  it("move every width of element", function()
    for _, dtype in ipairs{ tc.float32, tc.bfloat16, tc.int8, tc.int32, tc.uint16 } do
      round_trip{ shape = { 64, 64 }, dtype = dtype }
    end
  end)

  it("fill with zeros beyond the array", function()
    local kernel = tc.kernel{
      name = "zeros", args = { tc.gmem({ 40, 40 }, tc.float16), tc.gmem({ 64, 64 }, tc.float16) }, grid = { 1 },
      grid_names = { "x" },
      body = function(source, target)
        local loaded, smem = tc.barrier{}, tc.smem({ 64, 64 }, tc.float16)
        tc.copy_gmem_to_smem(source:tile({ 0, 0 }, { 64, 64 }), smem, loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, target)
      end,
    }
    local source, out = filled{ 40, 40 }, tc.zeros({ 64, 64 }, tc.float16)
    out:fill(9)
    kernels.run(kernel, nil, source, out)
    local from, got = source:totable(), out:totable()
    for i = 1, 64 do
      for j = 1, 64 do assert.are.equal(from[i] and from[i][j] or 0, got[i][j]) end
    end
  end)

  it("write slices of a larger SMEM array", function()
    local kernel = tc.kernel{
      name = "slices", args = { tc.gmem({ 64, 128 }, tc.float16), tc.gmem({ 2, 64, 128 }, tc.float16) }, grid = { 1 },
      grid_names = { "x" },
      body = function(source, target)
        local loaded = tc.barrier{ num_arrivals = 4 }
        local smem = tc.smem({ 2, 64, 128 }, tc.float16)
        for row = 0, 1 do
          for column = 0, 1 do
            tc.copy_gmem_to_smem(source:tile({ row, column }, { 32, 64 }),
              smem:at(1, tc.ds(32 * row, 32), tc.ds(64 * column, 64)), loaded)
          end
        end
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem[1], target[1])
      end,
    }
    local source, out = filled{ 64, 128 }, tc.zeros({ 2, 64, 128 }, tc.float16)
    kernels.run(kernel, nil, source, out)
    assert.are.same(source:totable(), out:totable()[2])
  end)

  it("transpose both sides alike", function()
    local kernel = tc.kernel{
      name = "transposed", args = { tc.gmem({ 32, 64 }, tc.float16), tc.gmem({ 32, 64 }, tc.float16) }, grid = { 1 },
      grid_names = { "x" },
      body = function(source, target)
        local loaded, smem = tc.barrier{}, tc.smem({ 32, 64 }, tc.float16)
        tc.copy_gmem_to_smem(source:T(), smem:T(), loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem:T(), target:T())
      end,
    }
    local source, out = filled{ 32, 64 }, tc.zeros({ 32, 64 }, tc.float16)
    kernels.run(kernel, nil, source, out)
    same(source, out)
  end)

  it("share a tensor map between boxes of one shape", function()
    local kernel = kernels.matmul{ m = 128, n = 128, tn = 128 }
    local _, count = kernel:ptx{ target = "sm_100a" }:gsub("%.param %.align 64", "")
    assert.are.equal(3, count)
  end)
end)

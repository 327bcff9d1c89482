-- Arrays of more dimensions than a tensor map has: up to eight.  Expected values are computed index by index from
-- what the array holds at that place, which is its row-major number.
local tc = require "tcmma"
local every_mode = require "every_mode"
local helper = require "helper"

local function count(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end

-- Element i has the value i (mod 2^11, which float16 holds, for that type).
local function numbered(shape, dtype)
  local modulus = dtype == tc.float16 and 2048 or dtype == tc.uint8 and 251 or 1 << 24
  local values = {}
  for i = 1, count(shape) do values[i] = (i - 1) % modulus end
  return tc.from_table(values, dtype):reshape(shape), modulus
end

-- The element at a 0-based index; 0 outside.
local function at(shape, modulus, index)
  local n = 0
  for d, i in ipairs(index) do
    if i < 0 or i >= shape[d] then return 0 end
    n = n * shape[d] + i
  end
  return n % modulus
end

local function each_index(shape, fn)
  local index = {}
  for d = 1, #shape do index[d] = 0 end
  for n = 0, count(shape) - 1 do
    local rest = n
    for d = #shape, 1, -1 do
      index[d] = rest % shape[d]
      rest = rest // shape[d]
    end
    fn(index, n)
  end
end

-- expected(n-dimensional index of `out`): its value.
local function holds(out, expected)
  local flat = out:reshape{ count(out.shape) }:totable()
  each_index(out.shape, function(index, n)
    local wanted = expected(index)
    if flat[n + 1] ~= wanted then
      error(("element %d (%s): %s, not %s"):format(n, table.concat(index, ", "), flat[n + 1], wanted))
    end
  end)
end

-- lint: what check mode may report.
local function runs(kernel, new, verify, lint)
  every_mode.runs(kernel, { "sm_100a", "sm_90a" }, new, verify, lint)
end

local function instructions(kernel, pattern, target)
  local _, n = kernel:ptx{ target = target or "sm_90a" }:gsub(pattern, "")
  return n
end

-- A whole array through SMEM of its shape.
local function round_trip(shape, dtype, options)
  return tc.kernel{ name = "round_trip", args = { tc.gmem(shape, dtype), tc.gmem(shape, dtype) },
    body = function(source, target)
      local smem, loaded = tc.smem(shape, dtype, options), tc.barrier{}
      tc.copy_gmem_to_smem(source, smem, loaded)
      tc.barrier_wait(loaded)
      tc.copy_smem_to_gmem(smem, target)
      tc.wait_smem_to_gmem(0)
    end }
end

describe("Arrays of more than five dimensions", function()
  it("are copied whole: test_copy_7d_tiling_with_unit_middle_dims", function()
    local shape = { 2, 64, 1, 1, 1, 1, 128 }
    local kernel = round_trip(shape, tc.float32)
    runs(kernel, function() return (numbered(shape, tc.float32)), tc.zeros(shape, tc.float32) end,
      function(source, out) assert.is_true(out:equal(source)) end)
    -- One box.
    assert.are.equal(1, instructions(kernel, "cp%.async%.bulk%.tensor%.5d%.shared"))
    assert.are.equal(1, instructions(kernel, "cp%.async%.bulk%.tensor%.5d%.global"))
  end)

  it("are copied whole, with every dimension of more than one index", function()
    for _, case in ipairs{ { { 2, 1, 3, 2, 1, 2, 8, 64 }, tc.float16 }, { { 2, 3, 2, 2, 2, 4, 32 }, tc.uint8, "none" },
      { { 3, 2, 2, 2, 8, 64 }, tc.float16, 128 } } do
      local shape, dtype = case[1], case[2]
      runs(round_trip(shape, dtype, { swizzle = case[3] }),
        function() return (numbered(shape, dtype)), tc.zeros(shape, dtype) end,
        function(source, out) assert.is_true(out:equal(source)) end)
    end
  end)

  it("are copied in tiles that integers choose", function()
    local shape = { 3, 2, 2, 4, 2, 16, 64 }
    local kernel = tc.kernel{ name = "chosen", grid = { 3, 4 }, grid_names = { "x", "y" },
      args = { tc.gmem(shape, tc.float16), tc.gmem({ 3, 4, 2, 16, 64 }, tc.float16) },
      body = function(source, target)
        local x, y = tc.axis_index "x", tc.axis_index "y"
        local smem, loaded = tc.smem({ 2, 16, 64 }, tc.float16), tc.barrier{}
        tc.copy_gmem_to_smem(source:at(x, 1, y % 2, y), smem, loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, target:at(x, y))
        tc.wait_smem_to_gmem(0)
      end }
    local _, modulus = numbered(shape, tc.float16)
    runs(kernel, function() return (numbered(shape, tc.float16)), tc.zeros({ 3, 4, 2, 16, 64 }, tc.float16) end,
      function(_, out)
        holds(out, function(i) return at(shape, modulus, { i[1], 1, i[2] % 2, i[2], i[3], i[4], i[5] }) end)
      end)
  end)

  -- The merged dimensions: what lies outside along one of them is not the next row of another.
  it("read as 0 outside, along every dimension, and keep what lies outside a store", function()
    local shape = { 2, 3, 2, 2, 3, 8, 64 }
    for axis = 1, 5 do
      local out_shape = { 6, 8, 64 }
      local kernel = tc.kernel{ name = "outside", grid = { 6 }, grid_names = { "x" },
        args = { tc.gmem(shape, tc.float16), tc.gmem(out_shape, tc.float16), tc.gmem(shape, tc.float16) },
        body = function(source, target, stored)
          local x = tc.axis_index "x"
          local smem, loaded = tc.smem({ 8, 64 }, tc.float16), tc.barrier{}
          local index = { 1, 1, 1, 1, 1 }
          index[axis] = x - 1
          tc.copy_gmem_to_smem(source:at(table.unpack(index)), smem, loaded)
          tc.barrier_wait(loaded)
          tc.copy_smem_to_gmem(smem, target[x])
          index[axis] = x
          tc.copy_smem_to_gmem(smem, stored:at(table.unpack(index)))
          tc.wait_smem_to_gmem(0)
        end }
      local _, modulus = numbered(shape, tc.float16)
      runs(kernel, function()
        return (numbered(shape, tc.float16)), tc.zeros(out_shape, tc.float16), tc.full(shape, -1, tc.float16)
      end, function(_, out, stored)
        local function loaded(x, row, column)
          local index = { 1, 1, 1, 1, 1, row, column }
          index[axis] = x - 1
          return at(shape, modulus, index)
        end
        holds(out, function(i) return loaded(i[1], i[2], i[3]) end)
        holds(stored, function(i)
          for d = 1, 5 do
            if d ~= axis and i[d] ~= 1 then return -1 end
          end
          return loaded(i[axis], i[6], i[7])
        end)
      end, "gmem-outside")
    end
  end)

  -- Dimensions that a box takes whole are one with the slower one, which it may overhang at either end.
  it("are copied by boxes of merged dimensions, in part outside", function()
    local shape, out_shape = { 1, 4, 2, 3, 2, 2, 16 }, { 5, 2, 2, 3, 2, 2, 16 }
    local kernel = tc.kernel{ name = "overhanging", grid = { 5 }, grid_names = { "x" },
      args = { tc.gmem(shape, tc.float32), tc.gmem(out_shape, tc.float32), tc.gmem(shape, tc.float32) },
      body = function(source, target, stored)
        local x = tc.axis_index "x"
        local smem, loaded = tc.smem({ 2, 2, 3, 2, 2, 16 }, tc.float32), tc.barrier{}
        tc.copy_gmem_to_smem(source:at(0, tc.ds(x - 1, 2)), smem, loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, target[x])
        tc.when(x:eq(4), function() tc.copy_smem_to_gmem(smem, stored:at(0, tc.ds(x - 1, 2))) end)
        tc.wait_smem_to_gmem(0)
      end }
    local _, modulus = numbered(shape, tc.float32)
    runs(kernel, function()
      return (numbered(shape, tc.float32)), tc.ones(out_shape, tc.float32), tc.zeros(shape, tc.float32)
    end, function(_, out, stored)
      holds(out, function(i)
        return at(shape, modulus, { 0, i[1] - 1 + i[2], i[3], i[4], i[5], i[6], i[7] })
      end)
      holds(stored, function(i) return i[2] == 3 and at(shape, modulus, i) or 0 end)
    end)
    assert.are.equal(1, instructions(kernel, "cp%.async%.bulk%.tensor%.%dd%.shared"))
  end)

  it("may have named dimensions", function()
    local shape = { 2, 3, 2, 2, 2, 16, 64 }
    local kernel = tc.kernel{ name = "named", grid = { 2, 3 }, grid_names = { "x", "y" },
      args = { tc.gmem({ "A", "B", "C", "D", "E", "M", "K" }, tc.float16), tc.gmem({ 2, 3, 16, 64 }, tc.float16) },
      body = function(source, target)
        local x, y = tc.axis_index "x", tc.axis_index "y"
        local smem, loaded = tc.smem({ 16, 64 }, tc.float16), tc.barrier{}
        tc.copy_gmem_to_smem(source:at(x, y, 1, 0, 1, tc.ds(0, 16), tc.ds(0, 64)), smem, loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, target:at(x, y))
        tc.wait_smem_to_gmem(0)
      end }
    local _, modulus = numbered(shape, tc.float16)
    runs(kernel, function() return (numbered(shape, tc.float16)), tc.zeros({ 2, 3, 16, 64 }, tc.float16) end,
      function(_, out)
        holds(out, function(i) return at(shape, modulus, { i[1], i[2], 1, 0, 1, i[3], i[4] }) end)
      end)
  end)

  it("are loaded and stored by threads, by the tile and by the element", function()
    local shape = { 2, 2, 3, 1, 2, 2, 8, 16 }
    local kernel = tc.kernel{ name = "generic", args = { tc.gmem(shape, tc.float32), tc.gmem(shape, tc.float32) },
      body = function(source, target)
        tc.range(2, function(x)
          for y = 0, 2 do
            local to = target:at(x, 1, y, 0, 1, x)
            to:store(source:at(x, 0, y, 0, x, 1):load() + 0.5)
            to:at(0, y):store(source:at(1, 1, y, 0, 0, x, 7, 15):load())
          end
        end)
      end }
    local _, modulus = numbered(shape, tc.float32)
    runs(kernel, function() return (numbered(shape, tc.float32)), tc.zeros(shape, tc.float32) end,
      function(_, out)
        holds(out, function(i)
          if not (i[2] == 1 and i[5] == 1 and i[6] == i[1]) then return 0 end
          if i[7] == 0 and i[8] == i[3] then return at(shape, modulus, { 1, 1, i[3], 0, 0, i[1], 7, 15 }) end
          return at(shape, modulus, { i[1], 0, i[3], 0, i[1], 1, i[7], i[8] }) + 0.5
        end)
      end)
  end)

  it("are prefetched and reduced into", function()
    local shape = { 2, 2, 2, 2, 3, 8, 32 }
    local kernel = tc.kernel{ name = "reduced", args = { tc.gmem(shape, tc.float32), tc.gmem(shape, tc.float32) },
      body = function(source, target)
        local smem, loaded = tc.smem({ 2, 3, 8, 32 }, tc.float32), tc.barrier{}
        tc.async_prefetch(source)
        tc.copy_gmem_to_smem(source:at(1, 0, 1), smem, loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, target:at(0, 1, 1), { reduction_op = "add" })
        tc.wait_smem_to_gmem(0)
      end }
    local _, modulus = numbered(shape, tc.float32)
    runs(kernel, function() return (numbered(shape, tc.float32)), tc.ones(shape, tc.float32) end,
      function(_, out)
        holds(out, function(i)
          local added = i[1] == 0 and i[2] == 1 and i[3] == 1
          return 1 + (added and at(shape, modulus, { 1, 0, 1, i[4], i[5], i[6], i[7] }) or 0)
        end)
      end)
  end)

  -- Of each of five dimensions three of four elements are taken: no two are one.
  it("are refused where the boxes for five of them would begin anywhere in SMEM", function()
    local function kernel(columns)
      return tc.kernel{ name = "parts", args = { tc.gmem({ 2, 4, 4, 4, 4, 4, columns }, tc.bf16) }, body = function(x)
        local part = tc.ds(1, 3)
        local smem, loaded = tc.smem({ 3, 3, 3, 3, 3, columns }, tc.bf16, { swizzle = "none" }), tc.barrier{}
        tc.copy_gmem_to_smem(x:at(0, part, part, part, part, part), smem, loaded)
        tc.barrier_wait(loaded)
      end }
    end
    assert.matches("^many_dimensions_spec.lua:%d+: Async copies only support striding up to 5 dimensions\n.*\n"
      .. "  of the 7 dimensions of the array a box can only take some, and the boxes of a tile %(3, 3, 3, 3, 3, 24%) "
      .. "would not all begin at multiples of 128 bytes of SMEM\n",
      (helper.message(function() kernel(24):ptx{ target = "sm_90a" } end):gsub("^.-(many_dim)", "%1")))
    kernel(64):ptx{ target = "sm_90a" }
  end)

  it("are made from tables, and shown", function()
    local nested = {}
    for i = 1, 2 do nested[i] = { { { { { { { i } } } } } } } end
    local a = tc.from_table(nested, tc.float32)
    assert.are.same({ 2, 1, 1, 1, 1, 1, 1, 1 }, a.shape)
    assert.are.same(nested, a:totable())
    assert.matches("f32[2, 1, 1, 1, 1, 1, 1, 1]", tostring(a), 1, true)
    assert.matches("(A, 1, 1, 1, 1, 1, 1, 8)", tostring(tc.gmem({ "A", 1, 1, 1, 1, 1, 1, 8 }, "f32")), 1, true)
  end)

  it("have at most eight", function()
    assert.matches("a shape of 1 to 8 dimensions expected, got 9",
      helper.message(function() tc.gmem({ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, "f32") end))
    assert.matches("the array is too large: more than 2^46 elements",
      helper.message(function() tc.gmem({ 1 << 20, "M", 1 << 20, 128 }, "f32") end), 1, true)
    tc.gmem({ 1 << 20, "M", 1 << 20, 64 }, "f32")
    assert.matches("8", helper.message(function() tc.zeros({ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, "f32") end))
    assert.matches("8", helper.message(function() tc.from_table({ { { { { { { { { 1 } } } } } } } } }, "f32") end))
  end)
end)

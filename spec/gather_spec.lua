-- Rows that a vector names, gathered and scattered by TMA; prefetches into L2.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local modes = require "modes"
local helper = require "helper"


local function runs(kernel, check, make, targets) modes.run(kernel, make, check, targets or { "sm_100a" }) end

local ROWS, COLUMNS = 96, 256

-- Row numbers, some twice, some beyond the array.
local function numbers(count, unique)
  local list, seen = {}, {}
  math.randomseed(7)
  for i = 1, count do
    repeat list[i] = math.random(0, unique and ROWS - 1 or ROWS + 20) until not (unique and seen[list[i]])
    seen[list[i]] = true
  end
  return tc.from_table(list, tc.uint32)
end

-- Loads tile (count, width) of the rows named from column `from` on and stores it to out.
local function gather(o)
  return tc.kernel{
    name = "gather",
    args = { tc.gmem({ ROWS, COLUMNS }, o.dtype), tc.gmem({ o.count }, tc.uint32),
      tc.gmem({ o.count, o.width }, o.dtype) },
    body = function(a, rows, out)
      local tile = tc.smem({ 2, o.count, o.width }, o.dtype, o.swizzle and { swizzle = o.swizzle })
      local loaded = tc.barrier{}
      local named = rows
      if o.staged == "SMEM" then
        named = tc.smem({ o.count }, tc.uint32)
        named:store(rows:load())
      elseif o.staged then
        named = rows:load()
      end
      tc.copy_gmem_to_smem(a:at(named, tc.ds(o.from, o.width)), tile[1], loaded)
      tc.barrier_wait(loaded)
      out:store(tile[1]:load())
    end,
  }
end

describe("a gather", function()
  for _, o in ipairs{
    { dtype = tc.float32, count = 16, width = 32, from = 0 },
    { dtype = tc.float16, count = 64, width = 128, from = 64 },
    { dtype = tc.bfloat16, count = 128, width = 64, from = 0, swizzle = 64, staged = "SMEM" },
    { dtype = tc.float32, count = 32, width = 16, from = 8, swizzle = 32 },
    { dtype = tc.int32, count = 24, width = 40, from = 16, swizzle = "none", staged = "registers" },
  } do
    it(("of %d rows of %d %s, swizzle %s, numbers in %s"):format(o.count, o.width, o.dtype, o.swizzle or "chosen",
      o.staged or "GMEM"), function()
      local a = kernels.integers({ ROWS, COLUMNS }, o.dtype, 3)
      local rows = numbers(o.count)
      local x, at = a:totable(), rows:totable()
      runs(gather(o), function(_, _, out)
        local y = out:totable()
        for i = 1, o.count do
          for j = 1, o.width do
            local row = x[at[i] + 1]
            assert.are.equal(row and row[o.from + j] or 0, y[i][j])
          end
        end
      end, function() return a, rows, tc.ones({ o.count, o.width }, o.dtype) end)
    end)
  end

  -- Rows along one dimension of an array of more; o.at(a, rows, x): the view in turn x of 4, o.place(x, row, column):
  -- where its element lies, false outside.
  local B, H = 3, 5
  for title, o in pairs{
    ["the second of three dimensions"] = { shape = { B, ROWS, 64 },
      at = function(a, rows, x) return a:at(x, rows, tc.ds(16, 32)) end,
      place = function(x, row, column) return x < B and row < ROWS and { x, row, 16 + column } end },
    ["the first of three dimensions"] = { shape = { ROWS, B, 64 },
      at = function(a, rows, x) return a:at(rows, x, tc.ds(32, 32)) end,
      place = function(x, row, column) return x < B and row < ROWS and { row, x, 32 + column } end },
    ["an indexed view"] = { shape = { B, ROWS, 32 }, at = function(a, rows, x) return a[x]:at(rows) end,
      place = function(x, row, column) return x < B and row < ROWS and { x, row, column } end },
    ["the middle of five dimensions"] = { shape = { 2, B, ROWS, H, 32 },
      at = function(a, rows, x) return a:at(1, x, rows, x + 1) end,
      place = function(x, row, column) return x < B and row < ROWS and { 1, x, row, x + 1, column } end },
    ["the first of six dimensions, by tiles"] = { shape = { ROWS, 2, 1, H, 1, 128 },
      at = function(a, rows, x) return a:at(rows, 1, 0, x, 0, tc.ds(x * 32, 32)) end,
      place = function(x, row, column) return row < ROWS and { row, 1, 0, x, 0, 32 * x + column } end },
    ["named dimensions"] = { shape = { B, ROWS, 64 }, names = { "B", "R", 64 },
      at = function(a, rows, x) return a:at(x, rows, tc.ds(16, 32)) end,
      place = function(x, row, column) return x < B and row < ROWS and { x, row, 16 + column } end },
  } do
    for _, scatter in ipairs{ false, true } do
      for _, swizzle in ipairs{ "none", 64 } do
        it(("along %s: %s, swizzle %s"):format(title, scatter and "a scatter" or "a gather", swizzle), function()
          local count, size = 16, 1
          for _, n in ipairs(o.shape) do size = size * n end
          local kernel = tc.kernel{
            name = "along", args = { tc.gmem(o.names or o.shape, tc.float32), tc.gmem({ count }, tc.uint32),
              tc.gmem({ 4, count, 32 }, tc.float32) },
            body = function(a, rows, out)
              local tile, loaded = tc.smem({ 4, count, 32 }, tc.float32, { swizzle = swizzle }), tc.barrier{}
              local prefetched = tc.barrier{ num_arrivals = 4 }
              if scatter then
                tc.copy_gmem_to_smem(out, tile, loaded)
                tc.barrier_wait(loaded)
                tc.range(4, function(x) tc.copy_smem_to_gmem(tile[x], o.at(a, rows, x)) end)
                tc.wait_smem_to_gmem(0)
              else
                tc.range(4, function(x)
                  tc.async_prefetch(o.at(a, rows, x))
                  tc.copy_gmem_to_smem(o.at(a, rows, x), tile[x], prefetched)
                end)
                tc.barrier_wait(prefetched)
                tc.range(4, function(x) out[x]:store(tile[x]:load()) end)
              end
            end,
          }
          local a = kernels.integers({ size }, tc.float32, 3):reshape(o.shape)
          local tiles = kernels.integers({ 4, count, 32 }, tc.float32, 4)
          local rows = numbers(count, scatter)
          local at = rows:totable()
          runs(kernel, function(array, _, out)
            if not scatter then
              for x = 0, 3 do
                for i = 0, count - 1 do
                  for j = 0, 31 do
                    local place = o.place(x, at[i + 1], j)
                    assert.are.equal(place and a:get(table.unpack(place)) or 0, out:get(x, i, j))
                  end
                end
              end
              return
            end
            local expected = a:copy()
            for x = 0, 3 do
              for i = 0, count - 1 do
                for j = 0, 31 do
                  local place = o.place(x, at[i + 1], j)
                  if place then
                    place[#place + 1] = tiles:get(x, i, j)
                    expected:set(table.unpack(place))
                  end
                end
              end
            end
            assert.is_true(array:equal(expected))
          end, function() return a:copy(), rows, tiles:copy() end)
        end)
      end
    end
  end

  it("of numbers that another role stores waits for them", function()
    local function kernel(spoil)
      return tc.kernel{
        name = "early", args = { tc.gmem({ ROWS, 64 }, tc.float32), tc.gmem({ 128 }, tc.uint32),
          tc.gmem({ 128, 32 }, tc.float32) },
        body = function(a, rows, out)
          local tile, loaded, named = tc.smem({ 128, 32 }, tc.float32), tc.barrier{}, tc.smem({ 128 }, tc.uint32)
          local numbered, fetch = tc.barrier{}, tc.role{ name = "fetch", warps = 1 }
          local group = tc.role{ name = "group", warpgroups = 1 }
          group(function()
            named:store(rows:load())
            tc.barrier_arrive(numbered)
          end)
          fetch(function()
            if not spoil then tc.barrier_wait(numbered) end
            tc.copy_gmem_to_smem(a:at(named, tc.ds(0, 32)), tile, loaded)
          end)
          group(function()
            tc.barrier_wait(loaded)
            out:store(tile:load())
          end)
        end,
      }
    end
    local function hazards(spoil)
      return #kernel(spoil):emulate({ target = "sm_100a", mode = "check" }, tc.ones({ ROWS, 64 }, tc.float32),
        numbers(128), tc.zeros({ 128, 32 }, tc.float32)).hazards
    end
    assert.are.equal(0, hazards(false))
    assert.is_true(hazards(true) > 0)
  end)

  it("feeds an MMA", function()
    local kernel = tc.kernel{
      name = "rows", args = { tc.gmem({ ROWS, 128 }, tc.bfloat16), tc.gmem({ 128 }, tc.uint32),
        tc.gmem({ 128, 64 }, tc.bfloat16), tc.gmem({ 128, 64 }, tc.float32) },
      body = function(a, rows, b, out)
        local x, y = tc.smem({ 128, 128 }, tc.bfloat16), tc.smem({ 128, 64 }, tc.bfloat16)
        local acc = tc.tmem({ 128, 64 }, tc.float32)
        local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
        tc.copy_gmem_to_smem(a:at(rows), x, loaded)
        tc.copy_gmem_to_smem(b, y, loaded)
        tc.barrier_wait(loaded)
        tc.mma(acc, x, y, { barrier = done, accumulate = false })
        tc.barrier_wait(done)
        out:store(tc.async_load_tmem(acc))
      end,
    }
    local a, b, rows = kernels.integers({ ROWS, 128 }, tc.bfloat16, 1), kernels.integers({ 128, 64 }, tc.bfloat16, 2),
      numbers(128)
    local product, at = tc.reference.matmul(a, b):totable(), rows:totable()
    runs(kernel, function(_, _, _, out)
      local y = out:totable()
      for i = 1, 128 do
        local row = product[at[i] + 1]
        for j = 1, 64 do assert.are.equal(row and row[j] or 0, y[i][j]) end
      end
    end, function() return a, rows, b, tc.zeros({ 128, 64 }, tc.float32) end)
  end)

  it("does not run on Hopper", function()
    local kernel = gather{ dtype = tc.float32, count = 16, width = 32, from = 0 }
    assert.is_truthy(helper.message(function() kernel:ptx{ target = "sm_90a" } end)
      :find("sm_90a has no TMA for rows that a vector names", 1, true))
  end)
end)

describe("a scatter", function()
  for _, o in ipairs{ { dtype = tc.float32, width = 64 }, { dtype = tc.float16, width = 64, swizzle = 32 },
                      { dtype = tc.float32, width = 32, swizzle = "none" } } do
    it(("of rows of %d %s, swizzle %s"):format(o.width, o.dtype, o.swizzle or "chosen"), function()
      local kernel = tc.kernel{
        name = "scatter", args = { tc.gmem({ 32, o.width }, o.dtype), tc.gmem({ 32 }, tc.uint32),
          tc.gmem({ ROWS, COLUMNS }, o.dtype) },
        body = function(a, rows, out)
          local tile, loaded = tc.smem({ 32, o.width }, o.dtype, o.swizzle and { swizzle = o.swizzle }), tc.barrier{}
          tc.copy_gmem_to_smem(a, tile, loaded)
          tc.barrier_wait(loaded)
          -- By halves: the numbers of the second take the place of the first's.
          local named = tc.smem({ 16 }, tc.uint32)
          tc.range(2, function(half)
            named:store(rows:at(tc.ds(half * 16, 16)):load())
            tc.copy_smem_to_gmem(tile:at(tc.ds(half * 16, 16)), out:at(named, tc.ds(64, o.width)))
          end)
          tc.wait_smem_to_gmem(0)
        end,
      }
      local a, rows = kernels.integers({ 32, o.width }, o.dtype, 4), numbers(32, true)
      local x, at = a:totable(), rows:totable()
      runs(kernel, function(_, _, out)
        local y, expected = out:totable(), {}
        for i = 1, 32 do expected[at[i]] = x[i] end
        for i = 0, ROWS - 1 do
          for j = 0, COLUMNS - 1 do
            local inside = expected[i] and j >= 64 and j < 64 + o.width
            assert.are.equal(inside and expected[i][j - 63] or 9, y[i + 1][j + 1])
          end
        end
      end, function() return a, rows, tc.full({ ROWS, COLUMNS }, 9, o.dtype) end)
    end)
  end
end)

describe("row numbers", function()
  local setup = {
    args = { tc.gmem({ 64, 64 }, tc.float32), tc.gmem({ 16 }, tc.uint32), tc.gmem({ 2, 64, 64 }, tc.float32) },
    cluster = { 2 }, cluster_names = { "c" },
  }
  local function refuses(title, expected, bad, good)
    helper.refuses(title, expected, function(a, rows, deep)
      local tile, barrier = tc.smem({ 16, 64 }, tc.float32), tc.barrier{}
      local o = { a = a, rows = rows, deep = deep, tile = tile, barrier = barrier,
        signed = tc.smem({ 16 }, tc.int32), wide = tc.smem({ 16 }, tc.uint64), odd = tc.smem({ 6 }, tc.uint32),
        matrix = tc.smem({ 2, 16 }, tc.uint32, { swizzle = "none" }), narrow = tc.smem({ 16, 4 }, tc.float32) }
      return function() bad(o) end, good and function() good(o) end
    end, setup)
  end
  local function copy(o, view) tc.copy_gmem_to_smem(view, o.tile, o.barrier) end

  local dimension = "Gathers/scatters only supported along one dimension before the last, with integers along all "
    .. "others but the last"
  local overhangs = "The columns of this gather are not surely inside of the last dimension, and what overhangs would "
    .. "be of the next row."
  refuses("of columns", dimension, function(o) return o.a:at(tc.all, o.rows) end,
    function(o) copy(o, o.a:at(o.rows)) end)
  refuses("twice", dimension, function(o) return o.a:at(o.rows, o.rows) end)
  refuses("of blocks", dimension, function(o) return o.deep:at(o.rows) end,
    function(o) copy(o, o.deep:at(1, o.rows)) end)
  refuses("beside a slice", dimension, function(o) return o.deep:at(o.rows, tc.ds(0, 1)) end,
    function(o) copy(o, o.deep:at(o.rows, 0)) end)
  refuses("of a part of the rows", dimension, function(o) return o.a:at(tc.ds(8, 16)):at(o.rows) end)
  refuses("of a transposed view", dimension, function(o) return o.a:T():at(o.rows) end)
  refuses("and columns that overhang the row of an index behind it", overhangs,
    function(o) return o.deep:at(o.rows, 3, tc.ds(32, 64)) end,
    function(o) return o.deep:at(o.rows, 3, tc.ds(32, 32)) end)
  refuses("and columns from a recorded one on, behind an index", overhangs,
    function(o) return o.deep:at(o.rows, 3, tc.ds(tc.axis_index "c" * 8, 32)) end,
    function(o) return o.deep:at(o.rows, 3, tc.ds(tc.axis_index "c" * 32, 32)) end)
  refuses("beside an integer", "Gather/scatter unsupported when using integer indexing",
    function(o) return o.a:at(o.rows, 3) end, function(o) return o.a:at(o.rows, tc.ds(0, 8)) end)
  refuses("in two dimensions", "Gather/scatter indices must be 1D",
    function(o) return o.a:at(o.matrix) end, function(o) copy(o, o.a:at(o.matrix[1])) end)
  refuses("of 64 bits", "Gather/scatter indices must be integers that are at most 32-bit wide",
    function(o) return o.a:at(o.wide) end)
  it("says where indices with a sign come from", function()
    helper.recording({ args = { tc.gmem({ 16, 64 }, tc.f16), tc.gmem({ 8 }, tc.int32) } }, function(_, x, signed)
      local line = debug.getinfo(1, "l").currentline + 1
      local message = helper.message(function() return x:at(signed:load()) end)
      assert.matches(('the vector of indices is SMEM ref, int32 (8,), allocated at line %d ("rows")'):format(line),
        message, 1, true)
    end)
  end)
  refuses("with a sign", "Gather/scatter indices must be unsigned", function(o) return o.a:at(o.signed) end)
  refuses("that are no fours", "Rows are gathered and scattered by fours, but there are 6 row numbers.",
    function(o) return o.a:at(o.odd) end)
  refuses("into SMEM", "Arrays are not supported as indices.", function(o) return o.tile:at(o.rows) end)
  refuses("of a load", "Arrays are not supported as indices.", function(o) return o.a:at(o.rows):load() end)
  refuses("of a tile", "Arrays are not supported as indices.",
    function(o) return o.a:at(o.rows):tile({ 0, 0 }, { 16, 32 }) end)
  refuses("of a multicast", "Collective copies with gather/scatter unsupported",
    function(o) tc.copy_gmem_to_smem(o.a:at(o.rows), o.tile, o.barrier, { collective_axes = "c" }) end)
  refuses("of a reduction", "Gather/scatter TMA can't perform reductions",
    function(o) tc.copy_smem_to_gmem(o.tile, o.a:at(o.rows), { reduction_op = "add" }) end,
    function(o) tc.copy_smem_to_gmem(o.tile, o.a:at(o.rows)) end)
  refuses("of narrow rows",
    "Gather/scatter TMA would require breaking it up into transfers of 64 bytes, but need a multiple of 128 bytes",
    function(o) tc.copy_gmem_to_smem(o.a:at(o.rows, tc.ds(0, 4)), o.narrow, o.barrier) end)
end)

describe("a gather into padded SMEM", function()
  helper.refuses("of 4-bit elements", "Rows are not gathered into padded SMEM, nor scattered from it.",
    function(a, rows)
      local padded, barrier = tc.smem({ 16, 128 }, "e2m1", { padded = true }), tc.barrier{}
      local packed = tc.smem({ 16, 256 }, "e2m1")
      return function() tc.copy_gmem_to_smem(a:at(rows, tc.ds(0, 128)), padded, barrier) end,
        function() tc.copy_gmem_to_smem(a:at(rows), packed, barrier) end
    end, { args = { tc.gmem({ 64, 256 }, "e2m1"), tc.gmem({ 16 }, tc.uint32) } })
end)

describe("tc.async_prefetch", function()
  it("changes nothing, and asks for every byte of the tile", function()
    local kernel = tc.kernel{
      name = "prefetch", args = { tc.gmem({ 2, 600, 320 }, tc.float16), tc.gmem({ 16 }, tc.uint32),
        tc.gmem({ 64, 64 }, tc.float16) },
      cluster = { 2 }, cluster_names = { "c" },
      body = function(a, rows, b)
        local role = tc.role{ name = "ahead", warps = 1 }
        role(function()
          tc.async_prefetch(a:at(1, tc.ds(10, 512), tc.ds(8, 320)))
          tc.async_prefetch(a:tile({ 0, 0, 0 }, { 1, 128, 64 }), { collective_axes = "c" })
          tc.async_prefetch(b:at(rows))
        end)
      end,
    }
    local function boxes(target)
      local text, count = kernel:ptx{ target = target }, {}
      for opcode in text:gmatch "cp%.async%.bulk%.prefetch%.tensor%.(%S+)" do
        count[opcode] = (count[opcode] or 0) + 1
      end
      return count
    end
    -- 512 x 320 in boxes of 256 x 160; half of the 128 x 64 tile; 16 rows by fours.
    assert.are.same({ ["3d.L2.global.tile"] = 5, ["2d.L2.global.tile::gather4"] = 4 }, boxes "sm_100a")
    assert.are.same({ ["3d.L2.global.tile"] = 5 }, boxes "sm_90a")
    runs(kernel, function() end, function()
      return tc.zeros({ 2, 600, 320 }, tc.float16), numbers(16), tc.zeros({ 64, 64 }, tc.float16)
    end, { "sm_100a", "sm_90a" })
  end)

  local setup = { args = { tc.gmem({ "M", 64 }, tc.float32), tc.gmem({ 512, 64 }, tc.float32) }, cluster = { 2 },
    cluster_names = { "c" } }
  local got = ("SMEM ref, float32 (8, 32), swizzle 128, allocated at line %d")
    :format(debug.getinfo(1, "l").currentline + 2)
  helper.refuses("a tile of SMEM", "ref must be a GMEM reference, got " .. got, function(a)
    local tile = tc.smem({ 8, 32 }, tc.float32)
    return function() tc.async_prefetch(tile) end, function() tc.async_prefetch(a:tile({ 0, 0 }, { 8, 32 })) end
  end, setup)
  helper.refuses("an array of unknown size",
    "tc.async_prefetch takes a view of fixed size, but GMEM ref, float32 (M, 64), argument 1 has dimension 'M'.",
    function(a, b) return function() tc.async_prefetch(a) end, function() tc.async_prefetch(b) end end, setup)
  helper.refuses("rows of few bytes",
    "Async copies require the number of bits copied along the last dimension to be divisible by 128, but got 96",
    function(_, b)
      return function() tc.async_prefetch(b:at(tc.ds(0, 8), tc.ds(0, 3))) end,
        function() tc.async_prefetch(b:at(tc.ds(0, 8), tc.ds(0, 4))) end
    end, setup)
  helper.refuses("a tile that does not fall into parts",
    "None of the leading dimensions in the transformed slice shape (7, 64) is divisible by the collective size 2",
    function(_, b)
      return function() tc.async_prefetch(b:at(tc.ds(0, 7)), { collective_axes = "c" }) end,
        function() tc.async_prefetch(b:at(tc.ds(0, 6)), { collective_axes = "c" }) end
    end, setup)
end)

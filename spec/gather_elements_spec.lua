-- Gathers and scatters of every element type, into and from every image of SMEM: what is legal is right, the rest is
-- refused.
local tc = require "tcmma"
local helper = require "helper"

local ROWS, COLUMNS, COUNT = 32, 512, 8
local numbers = { 5, 0, 31, 17, 2, 30, 9, 16 }

local function copies(o)
  return tc.kernel{
    name = "rows", args = { tc.gmem({ ROWS, COLUMNS }, o.dtype), tc.gmem({ COUNT }, tc.uint32),
      tc.gmem({ COUNT, o.width }, o.dtype) },
    body = function(a, rows, tiles)
      local tile, loaded = tc.smem({ 2, COUNT, o.width }, o.dtype, o.image)[1], tc.barrier{}
      local named = a:at(rows, tc.ds(o.from, o.width))
      tc.copy_gmem_to_smem(o.scatter and tiles or named, tile, loaded)
      tc.barrier_wait(loaded)
      tc.copy_smem_to_gmem(tile, o.scatter and named or tiles)
      tc.wait_smem_to_gmem(0)
    end,
  }
end

-- By docs/isa.md 8.3: four rows of a piece, as wide as the swizzle or the row, are a multiple of 128 bytes.
local function is_legal(o)
  local bits, image = o.dtype.bits, o.image
  if bits == 6 or image.padded then return false end
  if o.width * bits % 128 ~= 0 then return false end
  if o.dtype == tc.float4_e2m1fn then
    if o.from % 2 ~= 0 then return false end
  elseif o.from * bits % 128 ~= 0 then
    return false
  end
  if image.tiling then return false end
  if image.swizzle == "none" then return o.width * bits // 8 % 32 == 0 end
  return o.width % (8 * (image.swizzle or 32) // bits) == 0
end

local function run(o)
  local a = tc.randint({ ROWS, COLUMNS }, o.dtype, { low = 0, high = 4, seed = 1 })
  local tiles = tc.randint({ COUNT, o.width }, o.dtype, { low = 0, high = 4, seed = 2 })
  local from, to = a:totable(), tiles:totable()
  local expected = o.scatter and from or to
  for i, row in ipairs(numbers) do
    for j = 1, o.width do
      if o.scatter then from[row + 1][o.from + j] = to[i][j] else to[i][j] = from[row + 1][o.from + j] end
    end
  end
  local report = o.kernel:emulate({ target = "sm_100a", mode = "check" }, a, tc.from_table(numbers, tc.uint32), tiles)
  assert.are.equal(0, #report.hazards, report.hazards[1] and report.hazards[1].message)
  assert.are.same(expected, (o.scatter and a or tiles):totable())
end

describe("rows that a vector names", function()
  for _, dtype in ipairs{ tc.float32, tc.float16, tc.float8_e4m3fn, tc.int4, tc.float4_e2m1fn, tc.float6_e2m3fn,
                          tc.float6_e3m2fn } do
    local unit = 128 // (dtype.bits == 6 and 8 or dtype.bits)
    local images = { chosen = {}, plain = { swizzle = "none" }, ["swizzle 32"] = { swizzle = 32 },
      ["swizzle 64"] = { swizzle = 64 }, ["swizzle 128"] = { swizzle = 128 },
      tiled = { swizzle = "none", tiling = { 8, unit } } }
    if dtype == tc.float4_e2m1fn then
      images.padded = { padded = true }
      images["padded and plain"] = { padded = true, swizzle = "none" }
      images["padded and tiled"] = { padded = true, swizzle = "none", tiling = { 8, 16 } }
    end
    for title, image in pairs(images) do
      it(("of %s, SMEM %s"):format(dtype, title), function()
        for _, width in ipairs{ 16, 32, 128, 256 } do
          for _, from in ipairs{ 0, 3, 16, 32, 128 } do
            for _, scatter in ipairs{ false, true } do
              local o = { dtype = dtype, image = image, width = width, from = from, scatter = scatter }
              local ok, kernel = pcall(copies, o)
              local text = ("%d columns from %d on: %s"):format(width, from, tostring(kernel))
              assert.are.equal(is_legal(o), ok, text)
              o.kernel = kernel
              if ok then run(o) else helper.first_line(kernel) end
            end
          end
        end
      end)
    end
  end

  local args = { tc.gmem({ 64, 256 }, tc.float6_e2m3fn), tc.gmem({ 16 }, tc.uint32), tc.gmem({ 64, 64 }, tc.float16) }
  helper.refuses("of 6-bit elements, in words", "Rows are not gathered into padded SMEM, nor scattered from it.",
    function(a, rows)
      local tile, barrier = tc.smem({ 16, 128 }, tc.float6_e2m3fn), tc.barrier{}
      return function() tc.copy_gmem_to_smem(a:at(rows, tc.ds(0, 128)), tile, barrier) end,
        function() tc.copy_gmem_to_smem(a:at(tc.ds(0, 16), tc.ds(0, 128)), tile, barrier) end
    end, { args = args })
  helper.refuses("into tiles of 16 bytes, in words",
    "Gather/scatter TMA would require breaking it up into transfers of 64 bytes, but need a multiple of 128 bytes",
    function(_, rows, b)
      local tile, barrier = tc.smem({ 16, 64 }, tc.float16, { swizzle = "none", tiling = { 8, 8 } }), tc.barrier{}
      local plain = tc.smem({ 16, 64 }, tc.float16, { swizzle = "none" })
      return function() tc.copy_gmem_to_smem(b:at(rows), tile, barrier) end,
        function() tc.copy_gmem_to_smem(b:at(rows), plain, barrier) end
    end, { args = args })
  helper.refuses("of 6-bit elements, prefetched by less than 128",
    "TMA copies padded elements in rows of 128, from a multiple of 128 on, of an array with a multiple of 128 "
    .. "columns, with a swizzle of 128 or none.", function(a, rows)
      return function() tc.async_prefetch(a:at(rows, tc.ds(64, 64))) end,
        function() tc.async_prefetch(a:at(rows)) end
    end, { args = args })

  it("of 6-bit elements are prefetched, and so are tiles", function()
    local kernel = tc.kernel{ name = "ahead", args = args, body = function(a, rows)
      tc.async_prefetch(a:at(rows))
      tc.async_prefetch(a)
    end }
    local report = kernel:emulate({ target = "sm_100a", mode = "check" }, tc.zeros({ 64, 256 }, tc.float6_e2m3fn),
      tc.from_table({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 }, tc.uint32),
      tc.zeros({ 64, 64 }, tc.float16))
    assert.are.equal(0, #report.hazards, report.hazards[1] and report.hazards[1].message)
  end)

  it("do not come from tiles of 16 bytes", function()
    local message = helper.message(function()
      tc.kernel{ name = "tiled", args = args, body = function(_, _, b)
        local named = tc.smem({ 16, 16 }, tc.uint32, { swizzle = "none", tiling = { 8, 4 } })
        local loaded = tc.barrier{}
        tc.copy_gmem_to_smem(b:at(named[3]), tc.smem({ 16, 64 }, tc.float16), loaded)
        tc.barrier_wait(loaded)
      end }:ptx{ target = "sm_100a" }
    end)
    assert.matches("row numbers are read from a plain SMEM ref", message, 1, true)
  end)
end)

describe("a copy of 4-bit floats", function()
  helper.refuses("that begins within a byte",
    "TMA moves 2 elements of float4_e2m1fn as a byte, and a copy of them begins with a whole one.", function(a)
      local tile, barrier = tc.smem({ 8, 64 }, tc.float4_e2m1fn), tc.barrier{}
      return function() tc.copy_gmem_to_smem(a:at(tc.ds(0, 8), tc.ds(3, 64)), tile, barrier) end,
        function() tc.copy_gmem_to_smem(a:at(tc.ds(0, 8), tc.ds(2, 64)), tile, barrier) end
    end, { args = { tc.gmem({ 64, 256 }, tc.float4_e2m1fn) } })
end)

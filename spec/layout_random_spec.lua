-- Random views of arrays of 1 to 8 dimensions copied to SMEM and back, and random tiles of 4-bit elements through
-- registers, against the elements taken one by one.  What is refused is refused with a documented message.
local tc = require "tcmma"
local four = require "four_bit_kernels"

local modes, targets = { "fast", "check", "random" }, { "sm_90a", "sm_100a" }

-- Numbers from 0 to n - 1, the same in every run.
local function generator(seed)
  local state = seed
  return function(n)
    state = (state * 1103515245 + 12345) % (1 << 31)
    return (state >> 8) % n
  end
end

local function count(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end

local function flat(array) return array:reshape{ count(array.shape) }:totable() end

-- fn(index, number) for every 0-based index.
local function each_index(shape, fn)
  local index = {}
  for n = 0, count(shape) - 1 do
    local rest = n
    for d = #shape, 1, -1 do
      index[d] = rest % shape[d]
      rest = rest // shape[d]
    end
    fn(index, n)
  end
end

-- Runs it and calls verify, or says why it is refused.
local function attempt(make, verify)
  local ok, kernel = pcall(make)
  if not ok then return kernel end
  local refused
  for i, target in ipairs(targets) do
    local arrays, mode = verify.new(), modes[verify.number % 3 + 1]
    local fine, report = pcall(kernel.emulate, kernel, { target = target, mode = mode, seed = i },
      table.unpack(arrays))
    if not fine then
      refused = report
    else
      -- Whole tiles outside are reported, as what is legal and yet likely to be wrong.
      for _, hazard in ipairs(report.hazards) do assert.are.equal("lint", hazard.severity, hazard.message) end
      verify.check(table.unpack(arrays))
    end
  end
  return refused
end

-- ---- copies ---------------------------------------------------------------------------------------------------

-- One index of a view: fixed or recorded (moved by x), an integer or a slice.
local function random_index(random, size, unit)
  local kind = random(unit > 1 and 2 or 4)
  if kind == 0 then return { first = 0, size = size, all = true } end
  if unit > 1 then
    return { first = unit * (random(size // unit + 2) - 1), size = unit * (1 + random(size // unit)) }
  end
  local moved = random(2)
  if kind == 1 then return { first = moved == 1 and random(3) - 1 or random(size), moved = moved } end
  return { first = random(size + 2) - 1, size = 1 + random(size + 1), moved = moved }
end

local function as_index(i, x)
  local first = i.moved == 1 and x + i.first or i.first
  return i.all and tc.all or i.size and tc.ds(first, i.size) or first
end

local function random_copy(random, number)
  local dtypes = { tc.f32, tc.f16, tc.u8, tc.i4, tc.u4 }
  local dtype = dtypes[1 + random(#dtypes)]
  local rank, unit, shape, view, indices = 1 + random(8), 128 // dtype.bits, {}, {}, {}
  local left = 64
  for d = 1, rank - 1 do
    shape[d] = 1 + random(math.min(4, left))
    left = math.max(1, left // shape[d])
  end
  if rank > 1 and random(3) == 0 then shape[rank - 1] = 8 end
  shape[rank] = unit * (1 + random(4))
  for d = 1, rank do
    indices[d] = random_index(random, shape[d], d == rank and unit or 1)
    if indices[d].size then view[#view + 1] = indices[d].size end
  end
  local out_shape = { 2, table.unpack(view) }
  if #out_shape > 8 then return end
  return attempt(function()
    return tc.kernel{ name = "copied", grid = { 2 }, grid_names = { "x" },
      args = { tc.gmem(shape, dtype), tc.gmem(out_shape, dtype) },
      body = function(source, target)
        local x, at = tc.axis_index "x", {}
        for d = 1, rank do at[d] = as_index(indices[d], x) end
        local smem, loaded = tc.smem(view, dtype, { swizzle = random(2) == 0 and "none" or nil }), tc.barrier{}
        tc.copy_gmem_to_smem(source:at(table.unpack(at)), smem, loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, target[x])
        tc.wait_smem_to_gmem(0)
      end }
  end, { number = number, new = function()
    return { tc.randint(shape, dtype, { low = 0, high = 7, seed = number }), tc.ones(out_shape, dtype) }
  end, check = function(source, out)
    local from, found = flat(source), flat(out)
    each_index(out_shape, function(index, n)
      local at, next_dimension, inside = 0, 2, true
      for d = 1, rank do
        local i = indices[d].first + (indices[d].moved == 1 and index[1] or 0)
        if indices[d].size then
          i = i + index[next_dimension]
          next_dimension = next_dimension + 1
        end
        inside = inside and i >= 0 and i < shape[d]
        at = at * shape[d] + i
      end
      if found[n + 1] ~= (inside and from[at + 1] or 0) then
        error(("case %d, %s (%s): element %d"):format(number, dtype, table.concat(shape, ", "), n))
      end
    end)
  end })
end

-- ---- tiles of 4 bits --------------------------------------------------------------------------------------------

local function random_tile(random, number)
  local dtype = ({ tc.i4, tc.u4 })[1 + random(2)]
  local rows, columns = 1 + random(40), 2 * (1 + random(40))
  local row, column = random(rows), 2 * random(columns // 2)
  local height, width = 1 + random(rows - row), 2 * (1 + random((columns - column) // 2))
  local transposed, staged, warpgroups = random(3) == 0, random(2) == 0, 1 + random(2)
  local to = transposed and tc.f32 or ({ dtype, tc.bf16, tc.i8 })[1 + random(3)]
  local place = { random(3), 2 * random(3) }
  local tile = transposed and { width, height } or { height, width }
  local out_shape = { tile[1] + place[1] + random(3), (tile[2] + place[2] + 1) // 2 * 2 }
  return attempt(function()
    return tc.kernel{ name = "tile", args = { tc.gmem({ rows, columns }, dtype), tc.gmem(out_shape, to) },
      body = function(source, out)
        tc.role{ name = "all", warpgroups = warpgroups }(function()
          local from = source
          if staged then
            from = tc.smem({ rows, columns }, dtype, { swizzle = "none" })
            from:store(source:load())
          end
          local view = from:at(tc.ds(row, height), tc.ds(column, width))
          out:at(tc.ds(place[1], tile[1]), tc.ds(place[2], tile[2])):store((transposed and view:T() or view):load()
            :astype(to))
        end)
      end }
  end, { number = number, new = function()
    return { (four.random({ rows, columns }, dtype, number + 3)), tc.zeros(out_shape, to) }
  end, check = function(source, out)
    local codes, found = four.codes_of(source), flat(out)
    each_index(out_shape, function(index, n)
      local i, j, expected = index[1] - place[1], index[2] - place[2], 0
      if i >= 0 and i < tile[1] and j >= 0 and j < tile[2] then
        if transposed then i, j = j, i end
        expected = four.value(dtype, codes[(row + i) * columns + column + j + 1])
      end
      if found[n + 1] ~= expected then error(("case %d: element %d: %s"):format(number, n, found[n + 1])) end
    end)
  end })
end

describe("Random layouts", function()
  local function holds(title, make, cases, least, reasons)
    it(title, function()
      local random, ran = generator(cases), 0
      for number = 1, cases do
        local refused = make(random, number)
        if not refused then
          ran = ran + 1
        else
          local known = false
          for _, reason in ipairs(reasons) do known = known or tostring(refused):find(reason, 1, true) end
          assert.is_truthy(known, tostring(refused))
        end
      end
      assert.is_true(ran >= least, ran .. " ran")
    end)
  end

  holds("of copies", random_copy, 150, 120,
    { "only support copying <=256 elements", "striding up to 5 dimensions" })
  holds("of tiles of 4 bits", random_tile, 100, 95, {})
end)

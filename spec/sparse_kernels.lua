-- Kernels with a sparse A, and operands for them.
local tc = require "tcmma"

local M = {}

-- Elements of a group, how many stay, how many move together.
local patterns = { ["2:4"] = { 4, 2, 1 }, ["4:8"] = { 4, 2, 2 }, ["1:2"] = { 2, 1, 1 } }

local function pattern_of(o)
  return o.pattern or (tc.dtype(o.a).bits == 32 and "1:2" or "2:4")
end

local function generator(seed)
  local state = seed
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n
  end
end

-- A matrix whose rows have the pattern, at positions of which every choice comes up.
local function sparse_rows(rows, columns, pattern, number)
  local group, keep, unit = table.unpack(patterns[pattern])
  local random, list = generator(rows + columns), {}
  for r = 1, rows do
    local row = {}
    for k = 1, columns do row[k] = 0 end
    for first = 0, columns - 1, group * unit do
      local free = {}
      for i = 0, group - 1 do free[i + 1] = i end
      for _ = 1, keep do
        local at = table.remove(free, random(#free) + 1)
        for i = 1, unit do row[first + at * unit + i] = number(random) end
      end
    end
    list[r] = row
  end
  return list
end

local function transposed(rows)
  local list = {}
  for c = 1, #rows[1] do
    local column = {}
    for r = 1, #rows do column[r] = rows[r][c] end
    list[c] = column
  end
  return list
end

-- Normal numbers that the type holds.
local function normal(dtype)
  local unit = 1 << 30
  return function(random)
    local radius = math.sqrt(-2 * math.log((random(unit) + 1) / unit))
    return dtype:decode(dtype:encode(radius * math.cos(2 * math.pi * random(unit) / unit)))
  end
end

local function numbers(dtype)
  if dtype == "u8" then return function(random) return random(9) + 200 end end
  if dtype == "i8" then return function(random) return random(201) - 100 end end
  return function(random) return random(7) - 3 end
end

local function accumulator(o)
  if o.d then return tc.dtype(o.d) end
  return tc.dtype(o.a).kind == "float" and tc.f32 or tc.i32
end

local function rows_of(o) return o.collective and 256 or 128 end

-- Scales that differ from row to row and from block to block, and the matrix with them multiplied in.
local function scaled(rows, o, random)
  local factors, scales, product = o.scale == "e4m3" and { 0.5, 1.5, 1, 3, 2 } or { 0.25, 0.5, 1, 2, 4 }, {}, {}
  for r, row in ipairs(rows) do
    scales[r], product[r] = {}, {}
    for block = 1, #row // o.block do scales[r][block] = factors[random(5) + 1] end
    for k, x in ipairs(row) do product[r][k] = x * scales[r][(k - 1) // o.block + 1] end
  end
  return tc.interleave_scales(tc.from_table(scales, o.scale)), product
end

-- o.normal: normal numbers in place of small integers.
-- { values, B, metadata, scales of A, of B, d = , expected = }: (M, K / 2), (N, K), (M / 128, entries / 64, 128, 64).
function M.operands(o)
  local a_type, b_type = tc.dtype(o.a), tc.dtype(o.b or o.a)
  local draw = o.normal and normal or function(dtype) return numbers(dtype.short) end
  local full = sparse_rows(rows_of(o), o.k, pattern_of(o), draw(a_type))
  local random, number, b = generator(7), draw(b_type), {}
  for j = 1, o.n do
    b[j] = {}
    for k = 1, o.k do b[j][k] = number(random) end
  end
  local a = tc.from_table(o.a_columns and transposed(full) or full, a_type)
  local values, metadata = tc.sparsify(a, { axis = o.a_columns and 0 or 1, pattern = pattern_of(o) })
  local list = { values, tc.from_table(o.b_rows and transposed(b) or b, b_type), metadata, d = accumulator(o) }
  if o.scale then
    list[4], full = scaled(full, o, random)
    list[5], b = scaled(b, o, random)
  end
  list.expected = tc.reference.matmul(tc.from_table(full, tc.f64), tc.from_table(b, tc.f64), { transpose_b = true })
  if o.twice then
    local sums = list.expected:totable()
    for _, row in ipairs(sums) do for j, x in ipairs(row) do row[j] = 2 * x end end
    list.expected = tc.from_table(sums, tc.f64)
  end
  return list
end

-- Copies tile `index` of an argument; `axis` is the one along which the CTAs of a pair divide it.
local function load(o, ref, index, shape, axis, smem, barrier)
  if not o.collective then
    tc.copy_gmem_to_smem(ref:tile(index, shape), smem, barrier)
    return
  end
  local whole = { table.unpack(shape) }
  if axis then whole[axis + 1] = 2 * whole[axis + 1] end
  tc.copy_gmem_to_smem(ref:tile(index, whole), smem, barrier, { collective_axes = "cta",
    leader_tracked = axis and "partitioned" or "replicated", partition_axis = axis })
end

-- Shapes of what is copied at a time, and of the arguments.
local function shapes(o)
  local group, _, unit = table.unpack(patterns[pattern_of(o)])
  local tile, m, n = o.tile or o.k, rows_of(o), o.n
  local s = { a = { 128, tile // 2 }, a_all = { m, o.k // 2 }, b = { n, tile }, b_all = { n, o.k },
    entries = tile * 2 // (group * unit), steps = o.k // tile, b_rows = (n + 127) // 128 }
  if o.collective then s.b = { n // 2, tile } end
  if o.a_columns then s.a, s.a_all = { tile // 2, 128 }, { o.k // 2, m } end
  if o.b_rows then s.b, s.b_all = { s.b[2], s.b[1] }, { o.k, n } end
  s.metadata, s.metadata_all = { 1, s.entries // 64, 128, 64 }, { m // 128, s.entries * s.steps // 64, 128, 64 }
  if o.scale then
    local blocks = tile // o.block // 4
    s.a_scales, s.a_scales_all = { 1, blocks, 32, 16 }, { m // 128, blocks * s.steps, 32, 16 }
    s.b_scales, s.b_scales_all = { s.b_rows, blocks, 32, 16 }, { s.b_rows, blocks * s.steps, 32, 16 }
  end
  return s
end

local function arguments(o, s)
  local list = { tc.gmem(s.a_all, tc.dtype(o.a)), tc.gmem(s.b_all, tc.dtype(o.b or o.a)),
    tc.gmem(s.metadata_all, tc.u2) }
  if o.scale then
    list[4], list[5] = tc.gmem(s.a_scales_all, tc.dtype(o.scale)), tc.gmem(s.b_scales_all, tc.dtype(o.scale))
  end
  list[#list + 1] = tc.gmem({ rows_of(o), o.n }, accumulator(o))
  return list
end

-- Tiles of K in a ring of stages; roles load, mma and store.
-- o: a, b, d, n, k, tile (of K), pattern; a_columns: A is stored (K / 2, M); b_rows: B is stored (K, N);
-- a_swizzle, b_swizzle, a_padded, b_padded, a_tmem; twice: all of it is added a second time;
-- scale, block: dtype and elements of scale factors; collective: two CTAs.
function M.kernel(o)
  local a_type, b_type, d = tc.dtype(o.a), tc.dtype(o.b or o.a), accumulator(o)
  local s, axis = shapes(o), o.collective and "cta" or nil
  local steps, rounds = s.steps, o.twice and 2 or 1
  local stages = steps * rounds > 1 and 2 or 1

  return tc.kernel { name = "sparse", args = arguments(o, s),
    cluster = o.collective and { 2 } or nil, cluster_names = o.collective and { "cta" } or nil,
    body = function(...)
      local gmem = { ... }
      local a, b, metadata, out = gmem[1], gmem[2], gmem[3], gmem[#gmem]
      local function ring(shape, dtype, options) return tc.smem({ stages, table.unpack(shape) }, dtype, options) end
      local function tmem(shape, dtype, layout)
        return tc.tmem(shape, dtype, { layout = layout, collective = o.collective })
      end
      local a_smem = ring(s.a, a_type, { swizzle = o.a_swizzle, padded = o.a_padded })
      local b_smem = ring(s.b, b_type, { swizzle = o.b_swizzle, padded = o.b_padded })
      local metadata_smem = ring(s.metadata, tc.u2, { swizzle = "none" })
      local packed
      if d.bits < 32 then packed = false end
      local acc = tc.tmem({ 128, o.n }, d, { packed = packed, collective = o.collective })
      local metadata_tmem = tmem({ stages, 128, s.entries }, tc.u2, "sparse_metadata")
      local a_tmem = o.a_tmem and tc.tmem(s.a, a_type, { packed = a_type.bits < 32 or nil })
      local plain, scales = {}, {}
      for i, shape in ipairs(o.scale and { s.a_scales, s.b_scales } or {}) do
        plain[i] = ring(shape, tc.dtype(o.scale), { swizzle = "none" })
        scales[i] = tmem({ 128 * shape[1], stages * (o.tile or o.k) // o.block }, tc.dtype(o.scale), "scales")
      end
      local loaded = tc.barrier { num_arrivals = 3 + #scales, num_barriers = stages }
      local consumed = tc.barrier { num_barriers = stages, orders_tensor_core = true }
      local done = tc.barrier { orders_tensor_core = true }
      local cta = o.collective and tc.axis_index "cta" or 0

      local function copies(i)
        local slot, k = i % stages, i % steps
        tc.when(i:ge(stages), function() tc.barrier_wait(consumed[slot]) end)
        load(o, a, o.a_columns and { k, 0 } or { 0, k }, s.a, o.a_columns and 1 or 0, a_smem[slot], loaded[slot])
        load(o, b, o.b_rows and { k, 0 } or { 0, k }, s.b, o.b_rows and 1 or 0, b_smem[slot], loaded[slot])
        load(o, metadata, { 0, k, 0, 0 }, s.metadata, 0, metadata_smem[slot], loaded[slot])
        if o.scale then
          load(o, gmem[4], { 0, k, 0, 0 }, s.a_scales, 0, plain[1][slot], loaded[slot])
          load(o, gmem[5], { 0, k, 0, 0 }, s.b_scales, nil, plain[2][slot], loaded[slot])
        end
      end

      local function multiply(i)
        local slot = i % stages
        tc.barrier_wait(loaded[slot])
        local extra = { barrier = consumed[slot], accumulate = i:gt(0), collective_axis = axis }
        extra.a_sparse_metadata = metadata_tmem[slot]
        if not o.without_metadata then
          tc.async_copy_sparse_metadata_to_tmem(metadata_smem[slot], extra.a_sparse_metadata,
            { collective_axis = axis })
        end
        for side, name in ipairs(o.scale and { "a_scale", "b_scale" } or {}) do
          local columns = (o.tile or o.k) // o.block
          extra[name] = scales[side]:at(tc.all, tc.ds(slot * columns, columns))
          tc.async_copy_scales_to_tmem(plain[side][slot], extra[name], { collective_axis = axis })
        end
        local left = o.a_columns and a_smem[slot]:T() or a_smem[slot]
        if o.a_tmem then
          tc.async_copy_smem_to_tmem(left, a_tmem)
          left = a_tmem
        end
        tc.mma(acc, left, o.b_rows and b_smem[slot] or b_smem[slot]:T(), extra)
      end

      tc.role { name = "load", warps = 1 }(function() tc.range(steps * rounds, copies) end)
      tc.role { name = "mma", warps = 1 }(function()
        local function issue()
          tc.range(steps * rounds, multiply)
          tc.commit_arrive(done, { collective_axis = axis })
        end
        if o.collective then tc.when(cta:eq(0), issue) else issue() end
      end)
      tc.role { name = "store", warpgroups = 1 }(function()
        tc.barrier_wait(done)
        local width, mine = math.min(o.n, 64), out:tile({ cta, 0 }, { 128, o.n })
        for n = 0, o.n - 1, width do
          local columns = tc.ds(n, math.min(width, o.n - n))
          mine:at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
        end
      end)
    end }
end

return M

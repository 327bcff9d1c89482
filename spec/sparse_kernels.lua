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

local function numbers(dtype)
  if dtype == "u8" then return function(random) return random(9) + 200 end end
  if dtype == "i8" then return function(random) return random(201) - 100 end end
  return function(random) return random(7) - 3 end
end

local function accumulator(o)
  if o.d then return tc.dtype(o.d) end
  return tc.dtype(o.a).kind == "float" and tc.f32 or tc.i32
end

-- { values, B, metadata, scales ..., d = , expected = }: (128, K / 2), (N, K), (1, entries / 64, 128, 64).
function M.operands(o)
  local a_type, b_type = tc.dtype(o.a), tc.dtype(o.b or o.a)
  local full = sparse_rows(128, o.k, pattern_of(o), numbers(a_type.short))
  local random, number, b = generator(7), numbers(b_type.short), {}
  for j = 1, o.n do
    b[j] = {}
    for k = 1, o.k do b[j][k] = number(random) end
  end
  local whole, right = tc.from_table(full, tc.f64), tc.from_table(b, tc.f64)
  local a = tc.from_table(o.a_columns and transposed(full) or full, a_type)
  local values, metadata = tc.sparsify(a, { axis = o.a_columns and 0 or 1, pattern = pattern_of(o) })
  local list = { values, tc.from_table(o.b_rows and transposed(b) or b, b_type), metadata, d = accumulator(o) }
  list.expected = tc.reference.matmul(whole, right, { transpose_b = true })
  if o.twice then
    list.expected = tc.reference.matmul(tc.from_table((function()
      for _, row in ipairs(full) do for k, x in ipairs(row) do row[k] = 2 * x end end
      return full
    end)(), tc.f64), right, { transpose_b = true })
  end
  return list
end

-- The whole K by tiles of `tile` in a ring of two stages.
function M.kernel(o)
  local a_type, b_type, d = tc.dtype(o.a), tc.dtype(o.b or o.a), accumulator(o)
  local group, keep, unit = table.unpack(patterns[pattern_of(o)])
  local tile = o.tile or o.k
  local entries, steps = tile * 2 // (group * unit), o.k // tile
  local a_shape = { 128, tile // 2 }
  local all = { 128, o.k // 2 }
  if o.a_columns then a_shape, all = { tile // 2, 128 }, { o.k // 2, 128 } end
  local b_shape, b_all = { o.n, tile }, { o.n, o.k }
  if o.b_rows then b_shape, b_all = { tile, o.n }, { o.k, o.n } end
  assert(keep * 2 == group)
  local stages = steps > 1 and 2 or 1

  return tc.kernel { name = "sparse", args = {
    tc.gmem(all, a_type), tc.gmem(b_all, b_type),
    tc.gmem({ 1, o.k * 2 // (group * unit) // 64, 128, 64 }, tc.u2), tc.gmem({ 128, o.n }, d) },
    body = function(a, b, metadata, out)
      local a_smem = tc.smem({ stages, table.unpack(a_shape) }, a_type, { swizzle = o.a_swizzle })
      local b_smem = tc.smem({ stages, table.unpack(b_shape) }, b_type, { swizzle = o.b_swizzle })
      local metadata_smem = tc.smem({ stages, 1, entries // 64, 128, 64 }, tc.u2, { swizzle = "none" })
      local acc = d.bits == 32 and tc.tmem({ 128, o.n }, d) or tc.tmem({ 128, o.n }, d, { packed = false })
      local metadata_tmem = tc.tmem({ 128, 2 * entries }, tc.u2, { layout = "sparse_metadata" })
      local a_tmem = o.a_tmem and tc.tmem(a_shape, a_type, { packed = true })
      local loaded = tc.barrier { num_arrivals = 3, num_barriers = stages }
      local consumed = tc.barrier { num_barriers = stages, orders_tensor_core = true }
      local done = tc.barrier { orders_tensor_core = true }
      local load, issue = tc.role { name = "load", warps = 1 }, tc.role { name = "mma", warps = 1 }
      local store = tc.role { name = "store", warpgroups = 1 }
      local rounds = o.twice and 2 or 1

      load(function()
        tc.range(steps * rounds, function(i)
          local s, k = i % stages, i % steps
          tc.when(i:ge(stages), function() tc.barrier_wait(consumed[s]) end)
          tc.copy_gmem_to_smem(a:tile(o.a_columns and { k, 0 } or { 0, k }, a_shape), a_smem[s], loaded[s])
          tc.copy_gmem_to_smem(b:tile(o.b_rows and { k, 0 } or { 0, k }, b_shape), b_smem[s], loaded[s])
          tc.copy_gmem_to_smem(metadata:tile({ 0, k, 0, 0 }, { 1, entries // 64, 128, 64 }), metadata_smem[s],
            loaded[s])
        end)
      end)
      issue(function()
        tc.range(steps * rounds, function(i)
          local s = i % stages
          tc.barrier_wait(loaded[s])
          local slot = metadata_tmem:at(tc.all, tc.ds(s * entries, entries))
          if not o.without_metadata then tc.async_copy_sparse_metadata_to_tmem(metadata_smem[s], slot) end
          local left = a_smem[s]
          if o.a_columns then left = left:T() end
          if o.a_tmem then
            tc.async_copy_smem_to_tmem(left, a_tmem)
            left = a_tmem
          end
          tc.mma(acc, left, o.b_rows and b_smem[s] or b_smem[s]:T(),
            { barrier = consumed[s], accumulate = i:gt(0), a_sparse_metadata = slot })
        end)
        tc.commit_arrive(done)
      end)
      store(function()
        tc.barrier_wait(done)
        local width = math.min(o.n, 64)
        for n = 0, o.n - 1, width do
          local columns = tc.ds(n, math.min(width, o.n - n))
          out:at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
        end
      end)
    end }
end

return M

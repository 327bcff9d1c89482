--- The kernel of tcmma.matmul: persistent, warp-specialised, with a fused epilogue.
--
-- A loop over tiles in shared code; in it the roles `load` (TMA), `mma`, `epilogue` and, where there is one,
-- `residual` (TMA).  The ring of stages and its counters run on over the tiles, so that the loads of a tile run
-- under the epilogue of the one before.  Where tensor memory has room, two accumulators alternate.
--
-- A cluster of `cluster` CTAs takes as many tiles above each other and loads the right operand once, by multicast; one
-- of `cluster_n` takes tiles beside each other and loads the left operand once.
-- A cluster of `split_k` CTAs divides K of one tile; the first CTA adds the others' parts in order of rank.

local model = require "tcmma.matmul_model"
local tc = require "tcmma"

local kernel = {}

local function cdiv(a, b) return (a + b - 1) // b end

--- The counter of a ring of `stages` for one role: :slot(), :parity() of the phase that frees the slot, :next().
-- A barrier that was never completed lets the parity 1 pass, so the first turn does not wait.
local function ring(stages, with_parity)
  if stages == 1 then
    local parity = with_parity and tc.var(1)
    return {
      slot = function() return 0 end,
      parity = function() return parity:get() end,
      next = function() if parity then parity:set(1 - parity:get()) end end,
    }
  end
  local slot, parity = tc.var(0), with_parity and tc.var(1)
  return {
    slot = function() return slot:get() end,
    parity = function() return parity:get() end,
    next = function()
      local s = slot:get()
      local last = s:eq(stages - 1)
      if parity then
        local p = parity:get()
        parity:set(last:select(1 - p, p))
      end
      slot:set(last:select(0, s + 1))
    end,
  }
end

--- Row and column of a tile: `group` rows of tiles are walked column by column, so that what a wave of CTAs reads
-- stays in L2.
local function tile_position(tile, tiles_m, tiles_n, group)
  if tiles_n == 1 then return tile, 0 end
  if tiles_m == 1 then return 0, tile end
  if group >= tiles_m then return tile % tiles_m, tile // tiles_m end
  local in_group = group * tiles_n
  local first, rest = tile // in_group * group, tile % in_group
  if tiles_m % group == 0 then return first + rest % group, rest // group end
  local height = tc.min(tiles_m - first, group)
  return first + rest % height, rest // height
end

--- An operand of the MMA: its ring in SMEM, the view that the MMA takes, and the tile of GMEM for a k-block.
-- `outer` is its extent of M or N in a tile; `k_last` says that K is the last dimension of the array; `swizzle` is
-- nil for the largest that divides a row.
local function operand(array, outer, tile_k, stages, dtype, k_last, swizzle)
  local shape = k_last and { stages, outer, tile_k } or { stages, tile_k, outer }
  local smem = tc.smem(shape, dtype, swizzle and { swizzle = swizzle } or nil)
  local tile = { shape[2], shape[3] }
  return {
    smem = smem, k_last = k_last, outer = outer,
    source = function(position, k) return array:tile(k_last and { position, k } or { k, position }, tile) end,
  }
end

--- With 64 rows Blackwell computes halves of the columns, and the swizzle of the right operand must not reach over
-- a half; nil where there is no such limit.
local function half_swizzle(problem, config, right, k_last)
  if config.tile_m ~= 64 or problem.target == "sm_90a" then return nil end
  local row = (k_last and config.tile_k or config.tile_n) * right.bits // 8
  for _, bytes in ipairs { 128, 64, 32 } do
    if row % bytes == 0 and (bytes == 32 or 8 * bytes // right.bits <= config.tile_n // 2) then return bytes end
  end
end

--- SMEM of one array of pieces: {width, slots} each, laid out as the array is in GMEM.
local function staging(buffers, rows, dtype, swap)
  local list = {}
  for i, buffer in ipairs(buffers) do
    local shape = swap and { buffer.slots, buffer.width, rows } or { buffer.slots, rows, buffer.width }
    local narrow = shape[3] * dtype.bits < 256
    list[i] = tc.smem(shape, dtype, narrow and { swizzle = "none" } or nil)
  end
  return list
end

--- How many later copies may be unfinished when a piece's buffer is written again.
local function distances(pieces)
  local list = {}
  for i, piece in ipairs(pieces) do
    for back = 1, #pieces do
      local other = pieces[(i - back - 1) % #pieces + 1]
      if other.buffer == piece.buffer and other.slot == piece.slot then
        list[i] = back - 1
        break
      end
    end
  end
  return list
end

local function sigmoid(x) return 1 / (1 + tc.exp(-x)) end

--- The epilogues that have a name.
kernel.activations = {
  relu = function(x) return tc.max(x, 0) end,
  sigmoid = sigmoid,
  silu = function(x) return x * sigmoid(x) end,
  -- The tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
  gelu = function(x)
    local inner = x * (x * x * 0.0356774081363001 + 0.797884560802865)
    return x * 0.5 * (tc.tanh(inner) + 1)
  end,
}

--- What the epilogue does with a piece of the accumulator, before it is rounded.
local function finish(problem, refs, x, at)
  local shape = { at.rows, at.columns }
  -- A vector over the accumulator's rows (axis 0) or columns (axis 1).
  local function vector(ref, along_rows)
    if along_rows then
      return ref:at(tc.ds(at.row, at.rows)):load():astype(tc.float32):broadcast(shape, 1)
    end
    return ref:at(tc.ds(at.column, at.columns)):load():astype(tc.float32):broadcast(shape, 0)
  end
  x = x:astype(tc.float32)
  if refs.row_scale then x = x * vector(refs.row_scale, not at.swap) end
  if refs.column_scale then x = x * vector(refs.column_scale, at.swap) end
  if refs.bias then x = x + vector(refs.bias, at.swap) end
  local activation = problem.epilogue
  if activation then x = (kernel.activations[activation] or activation)(x) end
  if at.residual then x = x + at.residual:load():astype(tc.float32) end
  return x
end

--- The arguments of the kernel, in order: {name, shape, dtype}.
function model.arguments(problem)
  local M, N, K = problem.M, problem.N, problem.K
  local list = {
    { "a", { M, K }, problem.dtype },
    { "b", problem.transpose_b and { N, K } or { K, N }, problem.dtype_b or problem.dtype },
  }
  if problem.bias then list[#list + 1] = { "bias", { N }, problem.bias } end
  if problem.row_scale then list[#list + 1] = { "row_scale", { M }, problem.row_scale } end
  if problem.column_scale then list[#list + 1] = { "column_scale", { N }, problem.column_scale } end
  if problem.residual then list[#list + 1] = { "residual", { M, N }, problem.residual } end
  list[#list + 1] = { "out", { M, N }, problem.out_dtype }
  return list
end

--- Everything that the roles share, from the problem, the configuration and the refs of the arguments.
local function plan(problem, config, refs)
  local p = { problem = problem, config = config, refs = refs }
  local swap = config.swap
  p.rows, p.columns = swap and problem.N or problem.M, swap and problem.M or problem.N
  p.tiles_m, p.tiles_n, p.tiles, p.workers = model.division(problem, config)
  p.persistent = p.tiles > p.workers
  p.steps = cdiv(cdiv(problem.K, config.tile_k), config.split_k)
  p.rest = config.split_k == 1 and not problem.promote and model.last_block(problem, config) or nil
  p.accumulator = problem.accumulate_f32 and tc.float32 or tc.float16
  local columns32 = config.tile_n * p.accumulator.bits // 32
  p.slots = (p.persistent and problem.target ~= "sm_90a" and columns32 <= 256) and 2 or 1

  local a = { refs.a, problem.dtype, true }
  local b = { refs.b, problem.dtype_b or problem.dtype, problem.transpose_b }
  local left, right = swap and b or a, swap and a or b
  p.left = operand(left[1], config.tile_m, config.tile_k, config.stages, left[2], left[3])
  p.right = operand(right[1], config.tile_n, config.tile_k, config.stages, right[2], right[3],
    half_swizzle(problem, config, right[2], right[3]))
  local narrow = p.accumulator.bits < 32
  local acc = tc.tmem(p.slots > 1 and { p.slots, config.tile_m, config.tile_n } or { config.tile_m, config.tile_n },
    p.accumulator, narrow and { packed = false } or nil)
  -- What the epilogue reads: the accumulator, or the float32 sum of accumulators of one k-block each.
  if problem.promote then p.sum = tc.tmem({ config.tile_m, config.tile_n }, tc.float32) end
  function p.result_of(turn) return p.sum or p.acc_of(turn) end
  function p.acc_of(turn) return p.slots > 1 and acc[turn % p.slots] or acc end
  function p.slot_of(barrier, turn) return p.slots > 1 and barrier[turn % p.slots] or barrier end

  p.pieces = model.pieces(problem, config)
  local buffers = model.buffers(p.pieces, config)
  p.staged = staging(buffers, config.tile_m, problem.out_dtype, swap)
  p.waits = distances(p.pieces)
  local copies = 2
  for _, x in ipairs { { p.left, config.cluster_n }, { p.right, config.cluster } } do
    if model.unshared_rows(x[1].outer, x[2], x[1].k_last) > 0 then copies = copies + 1 end
  end
  local together = config.cluster * config.cluster_n > 1
  p.loaded = tc.barrier { name = "loaded", num_arrivals = copies, num_barriers = config.stages }
  p.consumed = (together and tc.cluster_barrier or tc.barrier) {
    name = "consumed", num_barriers = config.stages, orders_tensor_core = true,
    collective_axes = together and "cta" or nil,
  }
  p.done = tc.barrier { name = "done", num_barriers = p.slots, orders_tensor_core = true }
  if p.persistent or p.sum then
    p.drained = tc.barrier { name = "drained", num_barriers = p.slots, orders_tensor_core = true }
  end
  if config.split_k > 1 then
    p.partial = {}
    for i, piece in ipairs(p.pieces) do
      -- Panels of eight columns: what a warp stores at once, pairs of columns of eight rows, lies side by side.
      p.partial[i] = tc.smem({ config.split_k - 1, config.tile_m, piece.width }, tc.float32,
        { swizzle = piece.width % 8 == 0 and 32 or nil })
    end
    p.partial_ready = tc.barrier { name = "partial_ready", num_arrivals = (config.split_k - 1) * #p.pieces }
  end
  if refs.residual then
    p.residual_smem = staging(buffers, config.tile_m, problem.residual, swap)
    p.residual_ready, p.residual_free = {}, {}
    for i, buffer in ipairs(buffers) do
      p.residual_ready[i] = tc.barrier { name = "residual_ready", num_barriers = buffer.slots }
      p.residual_free[i] = tc.barrier { name = "residual_free", num_barriers = buffer.slots }
    end
  end
  return p
end

--- The part of an M x N array that a piece of a tile covers, and its place in the accumulator's coordinates.
local function place(p, m, n, piece)
  local config = p.config
  local row, column = m * config.tile_m, n * config.tile_n + piece.at
  return row, column, function(array)
    local along_rows, along_columns = tc.ds(row, config.tile_m), tc.ds(column, piece.width)
    if config.swap then return array:at(along_columns, along_rows) end
    return array:at(along_rows, along_columns)
  end
end

--- An operand's part of a k-block: by multicast, a part from each of `ctas`.  Parts are groups of eight rows; those
-- that are left over come to each CTA by itself.
local function load_operand(p, side, position, k, s, ctas)
  local source, smem = side.source(position, k), side.smem[s]
  if ctas == 1 then return tc.copy_gmem_to_smem(source, smem, p.loaded[s]) end
  local shared = { collective_axes = "cta" }
  local rest = model.unshared_rows(side.outer, ctas, side.k_last)
  if rest == 0 then return tc.copy_gmem_to_smem(source, smem, p.loaded[s], shared) end
  local most, last = tc.ds(0, side.outer - rest), tc.ds(side.outer - rest, rest)
  tc.copy_gmem_to_smem(source:at(most), smem:at(most), p.loaded[s], shared)
  tc.copy_gmem_to_smem(source:at(last), smem:at(last), p.loaded[s])
end

local function load_block(p, m, n, k, position)
  local s = position.slot()
  if p.config.split_k > 1 then k = k + p.rank * p.steps end
  tc.barrier_wait(p.consumed[s], { parity = position.parity() })
  load_operand(p, p.left, m, k, s, p.config.cluster_n)
  load_operand(p, p.right, n, k, s, p.config.cluster)
  position.next()
end

--- `depth`: how many elements of K of the block there are, nil for all.
local function multiply_block(p, acc, accumulate, position, depth)
  local s = position.slot()
  local left, right = p.left.smem[s], p.right.smem[s]
  if not p.left.k_last then left = left:T() end
  if p.right.k_last then right = right:T() end
  tc.barrier_wait(p.loaded[s])
  tc.mma(acc, left, right, { barrier = p.consumed[s], accumulate = accumulate, depth = depth })
  position.next()
end

local function multiply_tile(p, turn, position)
  if p.persistent then
    tc.when(turn:ge(p.slots), function() tc.barrier_wait(p.slot_of(p.drained, turn)) end)
  end
  local acc = p.acc_of(turn)
  local whole = p.rest and p.steps - 1 or p.steps
  if whole > 0 then tc.range(whole, function(k) multiply_block(p, acc, k:gt(0), position) end) end
  if p.rest then multiply_block(p, acc, whole > 0, position, p.rest) end
  tc.commit_arrive(p.slot_of(p.done, turn))
end

--- Adds the accumulator of one k-block to the sum; the first one starts it.
local function add_block(p, k)
  tc.barrier_wait(p.done)
  local block = tc.async_load_tmem(p.acc_of(0))
  tc.when(k:eq(0), function() tc.async_store_tmem(p.sum, block) end, function()
    tc.async_store_tmem(p.sum, tc.async_load_tmem(p.sum) + block)
  end)
  tc.barrier_arrive(p.drained)
end

local function load_residual(p, m, n, turn)
  for i, piece in ipairs(p.pieces) do
    local _, _, part = place(p, m, n, piece)
    local b, s = piece.buffer, piece.slot
    local free, ready = p.residual_free[b][s], p.residual_ready[b][s]
    local seen = false
    for j = 1, i - 1 do seen = seen or p.pieces[j].buffer == b and p.pieces[j].slot == s end
    if seen then
      tc.barrier_wait(free)
    elseif p.persistent then
      tc.when(turn:gt(0), function() tc.barrier_wait(free) end)
    end
    tc.copy_gmem_to_smem(part(p.refs.residual), p.residual_smem[b][s], ready)
  end
end

--- A CTA that is not the first of its cluster hands its part of the sum over.
local function hand_over(p)
  for i, piece in ipairs(p.pieces) do
    local x = tc.async_load_tmem(p.result_of(0):at(tc.all, tc.ds(piece.at, piece.width)))
    tc.cluster_ref(p.partial[i][p.rank - 1], 0):store(x, { barrier = p.partial_ready })
  end
end

local function store_tile(p, m, n, turn)
  local config, swap = p.config, p.config.swap
  local acc = p.result_of(turn)
  for i, piece in ipairs(p.pieces) do
    local row, column, part = place(p, m, n, piece)
    local b, s = piece.buffer, piece.slot
    local at = { rows = config.tile_m, columns = piece.width, row = row, column = column, swap = swap }
    if p.refs.residual then
      at.residual = p.residual_smem[b][s]
      if swap then at.residual = at.residual:T() end
      tc.barrier_wait(p.residual_ready[b][s])
    end
    local x = tc.async_load_tmem(acc:at(tc.all, tc.ds(piece.at, piece.width)))
    for other = 0, config.split_k - 2 do x = x + p.partial[i][other]:load() end
    x = finish(p.problem, p.refs, x, at):astype(p.problem.out_dtype)
    if p.refs.residual then tc.barrier_arrive(p.residual_free[b][s]) end
    if p.drained and not p.sum and i == #p.pieces then tc.barrier_arrive(p.slot_of(p.drained, turn)) end
    tc.wait_smem_to_gmem(p.waits[i], { wait_read_only = true })
    local buffer = p.staged[b][s]
    if swap then buffer:T():store(x) else buffer:store(x) end
    tc.commit_smem()
    tc.copy_smem_to_gmem(buffer, part(p.refs.out))
  end
end

--- The epilogue of a tile: of one CTA, or of a cluster that has divided K.
local function finish_tile(p, m, n, turn)
  if not p.sum then tc.barrier_wait(p.slot_of(p.done, turn)) end
  if p.config.split_k == 1 then return store_tile(p, m, n, turn) end
  tc.when(p.rank:gt(0), function() hand_over(p) end)
  tc.when(p.rank:eq(0), function()
    tc.barrier_wait(p.partial_ready)
    store_tile(p, m, n, turn)
  end)
end

local function body(problem, config, refs)
  local p = plan(problem, config, refs)
  local load = tc.role { name = "load", warps = 1 }
  local mma = tc.role { name = "mma", warps = 1 }
  local epilogue = tc.role { name = "epilogue", warpgroups = 1 }
  local residual = refs.residual and tc.role { name = "residual", warps = 1 }
  local loading, multiplying = ring(config.stages, true), ring(config.stages, false)
  local worker = tc.axis_index "worker"
  if model.cluster_size(config) > 1 then p.rank = tc.axis_index "cta" end

  local function tile_of(tile, turn)
    local m, n = tile_position(tile, p.tiles_m, p.tiles_n, config.group)
    if config.cluster > 1 then m = m * config.cluster + p.rank end
    if config.cluster_n > 1 then n = n * config.cluster_n + p.rank end
    if p.sum then
      tc.range(p.steps, function(k)
        load(function() load_block(p, m, n, k, loading) end)
        mma(function()
          local later = p.persistent and turn:gt(0):lor(k:gt(0)) or k:gt(0)
          tc.when(later, function() tc.barrier_wait(p.drained) end)
          multiply_block(p, p.acc_of(0), false, multiplying)
          tc.commit_arrive(p.done)
        end)
        epilogue(function() add_block(p, k) end)
      end)
    else
      load(function() tc.range(p.steps, function(k) load_block(p, m, n, k, loading) end) end)
      mma(function() multiply_tile(p, turn, multiplying) end)
    end
    if residual then
      residual(function()
        tc.when(config.split_k == 1 or p.rank:eq(0), function() load_residual(p, m, n, turn) end)
      end)
    end
    epilogue(function() finish_tile(p, m, n, turn) end)
  end
  if p.persistent then
    tc.range((p.tiles + p.workers - 1 - worker) // p.workers, function(turn)
      tile_of(worker + turn * p.workers, turn)
    end)
  else
    tile_of(worker, 0)
  end
  epilogue(function() tc.wait_smem_to_gmem(0) end)
end

--- The kernel of a complete problem (with its target) and a complete configuration.
function kernel.build(problem, config)
  local arguments = model.arguments(problem)
  local args = {}
  for i, argument in ipairs(arguments) do args[i] = tc.gmem(argument[2], argument[3]) end
  local _, _, _, workers = model.division(problem, config)
  local size = model.cluster_size(config)
  return tc.kernel {
    name = problem.name or "matmul", args = args, target = problem.target,
    grid = { workers }, grid_names = { "worker" },
    cluster = size > 1 and { size } or nil, cluster_names = size > 1 and { "cta" } or nil,
    body = function(...)
      local refs = {}
      for i, argument in ipairs(arguments) do refs[argument[1]] = select(i, ...) end
      body(problem, config, refs)
    end,
  }
end

return kernel

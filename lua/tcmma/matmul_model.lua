--- Which configuration a matmul gets: candidates and a small cost model.
--
-- A configuration is {tile_m, tile_n, tile_k, stages, group, swap, split_k, cluster, cluster_n, piece, slots, ctas}.
-- tile_m and tile_n are the rows and columns of the accumulator; with `swap` its rows run over N (out is computed
-- transposed), so that few rows of A cost few columns of the tensor core instead of 64 idle rows.  The epilogue moves
-- pieces of `piece` bytes of each row through `slots` buffers.

local model = {}

--- Two activities that overlap, though not perfectly.
local function overlap(a, b)
  return math.max(a, b) + 0.15 * math.min(a, b)
end

--- What the model knows of a machine.  `l2` is bytes per SM and clock, `dram` bytes a microsecond of all SMs.
--
-- instruction(rows, columns): clocks of one MMA over 32 bytes of K, from its arithmetic and from reading its
-- operands out of shared memory at 128 bytes a clock.  On Hopper each warpgroup reads B for its own 64 rows; on
-- Blackwell 64 rows take the time of 128.
model.machines = {
  sm_90a = {
    sms = 132, clock = 1755, l2 = 52, dram = 4300e3, smem = 232448, overlapped_epilogue = false,
    instruction = function(rows, columns)
      return rows / 64 * overlap(columns / 2, (2048 + 32 * columns) / 128)
    end,
  },
  sm_100a = {
    sms = 148, clock = 1850, l2 = 52, dram = 8000e3, smem = 232448, overlapped_epilogue = true,
    instruction = function(rows, columns)
      return overlap(columns / 2, (32 * rows + 32 * columns) / 128)
    end,
  },
}
model.machines.sm_103a = model.machines.sm_100a

local LATENCY = 1.0        -- microseconds from a load's issue to its data, under load
local START = 2.0          -- launch, barriers, first load
local STEP_CLOCKS = 40     -- of barriers around each k-block that one consumer does not hide
local PIECE_CLOCKS = 250   -- of the epilogue for 64 rows and columns: convert, store to SMEM, two barriers
local SPLIT = 0.5          -- microseconds for each further CTA that a tile is split over
local RAGGED = 1.6         -- more time to load from rows that are no multiple of 32 bytes, without multicast
local FEW_STAGES = 0.05    -- loss for each stage fewer than four
local BARRIER_BYTES = 1024 -- of SMEM set aside for barriers and alignment

model.PROMOTED = 128 -- most columns where a tile has two accumulators in registers

local function cdiv(a, b) return (a + b - 1) // b end

local function bytes_of(dtype) return dtype.bits / 8 end

--- The pieces {at=, width=} of the columns that the epilogue moves: as many of `piece` bytes as fit, then narrower
-- ones down to 16. Blackwell's accumulators of 64 rows can only be loaded whole.
function model.pieces(problem, config)
  local columns, bits = config.tile_n, config.swap and 16 or problem.out_dtype.bits
  if config.tile_m == 64 and problem.target ~= "sm_90a" then return { { at = 0, width = columns } } end
  local list, at, bytes = {}, 0, config.piece
  while bytes >= 16 do
    local width = bytes * 8 // bits
    while at + width <= columns do
      list[#list + 1] = { at = at, width = width }
      at = at + width
    end
    bytes = bytes // 2
  end
  return list
end

--- The buffers of those pieces: `slots` of each width, which alternate.
-- Sets piece.buffer and returns a list of {width, slots}.
function model.buffers(pieces, config)
  local list, by_width, turn = {}, {}, {}
  for _, piece in ipairs(pieces) do
    local width = piece.width
    local count = (turn[width] or 0) + 1
    turn[width] = count
    if not by_width[width] then
      list[#list + 1] = { width = width, slots = 1 }
      by_width[width] = #list
    end
    local buffer = list[by_width[width]]
    buffer.slots = math.min(config.slots, math.max(buffer.slots, count))
    piece.buffer, piece.slot = by_width[width], (count - 1) % config.slots
  end
  return list
end

--- Bytes of SMEM for the epilogue of a configuration: staging of the result, and of the residual.
local function epilogue_bytes(problem, config)
  local bits = problem.out_dtype.bits
  local pieces = model.pieces(problem, config)
  local bytes = 0
  for _, buffer in ipairs(model.buffers(pieces, config)) do
    local one = buffer.width * config.tile_m * bits // 8
    bytes = bytes + buffer.slots * cdiv(one, 1024) * 1024
  end
  if problem.residual then bytes = bytes * 2 end
  if config.split_k > 1 then bytes = bytes + (config.split_k - 1) * config.tile_m * config.tile_n * 4 end
  return bytes
end
model.epilogue_bytes = epilogue_bytes

--- Rows of an operand that a multicast of `ctas` leaves over: its parts are groups of eight rows.  Where the operand is
-- stored with K first, the parts are of K.
function model.unshared_rows(outer, ctas, k_last)
  return ctas > 1 and k_last and outer % (8 * ctas) or 0
end

--- Elements of K of the last k-block that the tensor core must take, in steps of 32 bytes; nil where that is all of it.
function model.last_block(problem, config)
  local atom = 256 // problem.dtype.bits
  local depth = cdiv(problem.K % config.tile_k, atom) * atom
  return depth > 0 and depth < config.tile_k and depth or nil
end

local function stage_bytes(problem, config)
  return (config.tile_m + config.tile_n) * config.tile_k * problem.dtype.bits // 8
end

--- How many stages fit (at most `most`).
function model.stages(problem, config, most)
  local room = model.machines[problem.target].smem - BARRIER_BYTES - epilogue_bytes(problem, config)
  return math.min(most, room // stage_bytes(problem, config))
end

--- Rows of tiles that are walked together so that what they share stays in L2.
local function group(tiles_m, tiles_n)
  if tiles_m == 1 then return 1 end
  return math.min(tiles_m, tiles_n < 16 and 4 or 8)
end

--- SMs of the device; a problem without arrays has those of the usual part.
function model.sms(problem)
  return problem.sms or model.machines[problem.target].sms
end

--- Clusters of `size` CTAs that run at once: the SMs of a GPC do not always fill up.
local function clusters(problem, size)
  local sms = model.sms(problem)
  if size == 1 then return sms end
  local gpc = { [2] = 1, [3] = 0.89, [4] = 0.91 }
  return math.max(1, math.floor(sms / size * (gpc[size] or 0.85)))
end

--- CTAs of a cluster.
function model.cluster_size(config)
  return config.cluster * config.cluster_n * config.split_k
end

--- How a problem is divided: rows and columns of tiles, their product, and the workers (CTAs or clusters) that walk
-- them.  A worker's tile is that of all the CTAs of its cluster together.
function model.division(problem, config)
  local rows, columns = problem.M, problem.N
  if config.swap then rows, columns = columns, rows end
  local tiles_m = cdiv(rows, config.tile_m * config.cluster)
  local tiles_n = cdiv(columns, config.tile_n * config.cluster_n)
  local size = model.cluster_size(config)
  local workers = config.ctas and math.max(1, config.ctas // size) or clusters(problem, size)
  return tiles_m, tiles_n, tiles_m * tiles_n, math.min(tiles_m * tiles_n, workers)
end

--- The estimated microseconds of a configuration, and the terms: compute, memory, tiles, waves.
function model.cost(problem, config)
  local machine = model.machines[problem.target]
  local rows, columns = problem.M, problem.N
  if config.swap then rows, columns = columns, rows end
  local size, K = bytes_of(problem.dtype), problem.K
  local _, _, tiles, workers = model.division(problem, config)
  local ctas = workers * model.cluster_size(config)
  -- Over many waves the CTAs drift apart, and a last wave that is not full costs less than a whole one.
  local waves = cdiv(tiles, workers)
  if waves > 4 then waves = (waves + tiles / workers) / 2 end
  local steps = cdiv(cdiv(K, config.tile_k), config.split_k)
  local depth = steps * config.tile_k * size

  local math_clocks = depth / 32 * machine.instruction(config.tile_m, config.tile_n)
  if config.tile_m == 64 then math_clocks = math_clocks + steps * STEP_CLOCKS end
  -- One SM takes in what L2 gives it, or what its stages in flight cover of the latency.
  local flight = math.min(config.stages, steps) * stage_bytes(problem, config) / (LATENCY * machine.clock)
  local load_clocks = depth * (config.tile_m + config.tile_n) / math.min(machine.l2, flight)
  -- A row that is no multiple of 32 bytes puts each row of a box onto two lines of L2.
  local ragged = K * size % 32 ~= 0
  if ragged and config.cluster == 1 then load_clocks = load_clocks * RAGGED end
  if not ragged and config.cluster > 1 then math_clocks = math_clocks * 1.02 end
  local epilogue = config.tile_n / 64 * PIECE_CLOCKS * (config.tile_m == 64 and 1 or 1.7)
  local tile = overlap(math_clocks, load_clocks) * (1 + FEW_STAGES * math.max(0, math.min(4, steps) - config.stages))
  local clocks = waves * tile + (machine.overlapped_epilogue and 1 or waves) * epilogue
  local compute = clocks / machine.clock

  local bytes = (rows + columns) * K * size + rows * columns * bytes_of(problem.out_dtype)
  local covered = ctas * math.min(config.stages * stage_bytes(problem, config),
    (config.tile_m + config.tile_n) * depth)
  local memory = bytes / (machine.dram * math.min(1, covered / (machine.dram * LATENCY)))
  return START + LATENCY + overlap(compute, memory) + SPLIT * (config.split_k - 1), {
    compute = compute, memory = memory, tiles = tiles, waves = waves,
  }
end

local function fits(problem, config)
  return config.stages >= 2 or config.stages == cdiv(cdiv(problem.K, config.tile_k), config.split_k)
end

--- Fills what a partial configuration leaves open.
function model.complete(problem, given)
  local config = {}
  for key, value in pairs(given) do config[key] = value end
  config.swap = config.swap or false
  config.split_k = config.split_k or 1
  config.cluster, config.cluster_n = config.cluster or 1, config.cluster_n or 1
  config.tile_k = config.tile_k or 1024 // problem.dtype.bits
  local rows, columns = problem.M, problem.N
  if config.swap then rows, columns = columns, rows end
  config.tile_m = config.tile_m or (rows <= 64 and 64 or 128)
  config.tile_n = config.tile_n or math.min(128, cdiv(columns, 16) * 16)
  config.piece = config.piece or config.tile_m > 128 and 64 or 128
  config.slots = config.slots or 2
  local steps = cdiv(problem.K, config.tile_k)
  config.stages = config.stages or math.max(1, model.stages(problem, config, math.max(12, steps)))
  config.stages = math.min(config.stages, 32)
  config.group = config.group or group(cdiv(rows, config.tile_m * config.cluster),
    cdiv(columns, config.tile_n * config.cluster_n))
  return config
end

--- All configurations that fit, best first by the model: a list of {config, microseconds, terms}.
-- `limits`: {split_k = largest that the target's kernels have, cluster = same}.
function model.candidates(problem, limits)
  local list = {}
  local atom = 1024 // problem.dtype.bits
  for _, swap in ipairs { false, true } do
    local columns = swap and problem.M or problem.N
    -- Swapping pays where it saves idle rows, and moves the long way through the epilogue otherwise.
    if swap and problem.M > 128 then break end
    for _, tile_m in ipairs { 64, 128 } do
      for tile_n = 16, math.min(problem.promote and model.PROMOTED or 256, cdiv(columns, 16) * 16), 16 do
        for units = 1, tile_m == 64 and 2 or 1 do
          for way = 1, problem.M <= 128 and limits.split_k or limits.cluster do
            local split_k = problem.M <= 128 and way or 1
            local config = model.complete(problem, {
              swap = swap, tile_m = tile_m, tile_n = tile_n, tile_k = atom * units, split_k = split_k, stages = 1,
              cluster = problem.M > 128 and way or 1,
            })
            local _, _, tiles, workers = model.division(problem, config)
            local one_wave = tiles <= workers
            local most = units == 2 and 8 or 12
            if one_wave then most = math.min(most, cdiv(cdiv(problem.K, config.tile_k), split_k)) end
            config.stages = model.stages(problem, config, most)
            if fits(problem, config) and (split_k == 1 or one_wave) then
              local cost, terms = model.cost(problem, config)
              list[#list + 1] = { config = config, microseconds = cost, terms = terms }
            end
          end
        end
      end
    end
  end
  table.sort(list, function(a, b)
    if a.microseconds ~= b.microseconds then return a.microseconds < b.microseconds end
    return model.describe(a.config) < model.describe(b.config)
  end)
  return list
end

--- "128x256x64 s4 g8", with "swap", "sk2" (split_k), "cl2" (cluster), "cn2" (cluster_n), "p64x1" (piece, slots) where
-- they are not the usual.
function model.describe(config)
  local text = ("%dx%dx%d s%d g%d"):format(config.tile_m, config.tile_n, config.tile_k, config.stages, config.group)
  if config.swap then text = "swap " .. text end
  if config.split_k > 1 then text = text .. " sk" .. config.split_k end
  if config.cluster > 1 then text = text .. " cl" .. config.cluster end
  if config.cluster_n > 1 then text = text .. " cn" .. config.cluster_n end
  if config.piece ~= 128 or config.slots ~= 2 then text = ("%s p%dx%d"):format(text, config.piece, config.slots) end
  if config.ctas then text = text .. " ctas" .. config.ctas end
  return text
end

return model

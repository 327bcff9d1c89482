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
local TALL = 1.045         -- more time for MMAs of three and four warpgroups
local ONE_SLOT = 1.5       -- more time for the epilogue where each piece waits for the one before
local RAGGED = 1.6         -- more time for L2 to read rows that are no multiple of 32 bytes
local FEW_STAGES = 0.05    -- loss for each stage fewer than four
local BARRIER_BYTES = 1024 -- of SMEM set aside for barriers and alignment

--- Few rows: what counts is how fast the other operand streams in.  Fitted to the times of 1200 kernels on an H200, for
-- 14 shapes with 16 to 128 rows in bf16 and e4m3; what it picks of them is 0.7 % slower than the best on average.
local STREAM = {
  few = 128,              -- rows of A up to which this holds
  start = 1.76,           -- microseconds of launch, barriers, first load, last store
  ingest = 92,            -- bytes a clock into one SM
  latency = 0.87,         -- microseconds from a load's issue to its data, of what a CTA has in flight
  dram_latency = 0.6,     -- the same of what all CTAs have in flight, where DRAM is the limit
  instruction = 0.5,      -- clocks of an MMA against machine.instruction: its clock is higher, and much overlaps
  step = 123,             -- clocks of each k-block
  piece = 0.45,           -- microseconds of the epilogue for 64 columns
  wide = 1.0,             -- microseconds more where a tile has more than 64 rows
  unswapped = 0.25,       -- microseconds more where the rows of the tile do not run over N
  split = 2.05,           -- microseconds for each further CTA that a tile is split over,
  split_words = 0.3,      -- and for each 4096 sums that it hands over
}

model.PROMOTED = 128 -- most columns where a tile has two accumulators in registers

local function cdiv(a, b) return (a + b - 1) // b end

local function bytes_of(dtype) return dtype.bits / 8 end

--- The pieces {at=, width=} of the columns that the epilogue moves: as many of `piece` bytes as fit, then narrower
-- ones down to 16.
function model.pieces(problem, config)
  local columns, bits = config.tile_n, config.swap and 16 or problem.out_dtype.bits
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

--- model.cost of a problem with few rows.
local function stream_cost(problem, config)
  local machine = model.machines[problem.target]
  local size = bytes_of(problem.dtype)
  local _, _, tiles, workers = model.division(problem, config)
  local waves, ctas = cdiv(tiles, workers), workers * config.split_k
  local steps = cdiv(cdiv(problem.K, config.tile_k), config.split_k)
  local depth, both = steps * config.tile_k * size, config.tile_m + config.tile_n
  local stages = math.min(config.stages, steps) * stage_bytes(problem, config)
  -- The stage that is being multiplied is not in flight.
  local flight = math.max(0.5, math.min(config.stages, steps) - 1) * stage_bytes(problem, config)

  local load = depth * both / math.min(STREAM.ingest * machine.clock, flight / STREAM.latency)
  local instruction = STREAM.instruction * machine.instruction(config.tile_m, config.tile_n)
  local clocks = depth / 32 * instruction + steps * STREAM.step
  local compute = waves * math.max(load, clocks / machine.clock)
  local bytes = (problem.M + problem.N) * problem.K * size + problem.M * problem.N * bytes_of(problem.out_dtype)
  local streamed = (config.swap and config.tile_m or config.tile_n) / both
  local memory = bytes / math.min(machine.dram, ctas * stages * streamed / STREAM.dram_latency)
  local epilogue = waves * STREAM.piece * config.tile_n / 64 + (config.tile_m > 64 and STREAM.wide or 0)
  local split = (config.split_k - 1) * (STREAM.split + STREAM.split_words * config.tile_m * config.tile_n / 4096)
  local other = config.swap and 0 or STREAM.unswapped
  return STREAM.start + math.sqrt(compute * compute + memory * memory) + epilogue + split + other, {
    compute = compute, memory = memory, tiles = tiles, waves = waves,
  }
end

--- The estimated microseconds of a configuration, and the terms: compute, memory, tiles, waves.
function model.cost(problem, config)
  if problem.M <= STREAM.few then return stream_cost(problem, config) end
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
  if config.tile_m > 128 then math_clocks = math_clocks * TALL end
  -- One SM takes in what L2 gives it, or what its stages in flight cover of the latency.
  local flight = math.min(config.stages, steps) * stage_bytes(problem, config) / (LATENCY * machine.clock)
  -- A row that is no multiple of 32 bytes puts each row of a box onto two lines of L2; a multicast reads it once.
  local rows_read, ragged = config.tile_m + config.tile_n, K * size % 32 ~= 0
  if ragged then
    rows_read = math.max(rows_read, RAGGED * (config.tile_m / config.cluster_n + config.tile_n / config.cluster))
  elseif config.cluster * config.cluster_n > 1 then
    math_clocks = math_clocks * 1.02
  end
  local load_clocks = depth * rows_read / math.min(machine.l2, flight)
  local epilogue = config.tile_n / 64 * PIECE_CLOCKS * (config.tile_m == 64 and 1 or 0.85 * config.tile_m / 64)
  if config.slots == 1 then epilogue = epilogue * ONE_SLOT end
  local tile = overlap(math_clocks, load_clocks) * (1 + FEW_STAGES * math.max(0, math.min(4, steps) - config.stages))
  local clocks = waves * tile + (machine.overlapped_epilogue and 1 or waves) * epilogue
  local compute = clocks / machine.clock

  local bytes = (rows + columns) * K * size + rows * columns * bytes_of(problem.out_dtype)
  local covered = ctas * math.min(config.stages * stage_bytes(problem, config),
    (config.tile_m + config.tile_n) * depth)
  local memory = bytes / (machine.dram * math.min(1, covered / (machine.dram * LATENCY)))
  return START + LATENCY + overlap(compute, memory), {
    compute = compute, memory = memory, tiles = tiles, waves = waves,
  }
end

--- Rows of tiles that are walked together so that what they share stays in L2: about eight, and where there is such a
-- number, one whose rectangles of tiles fill waves.
local function group(problem, config)
  local tiles_m, tiles_n, _, workers = model.division(problem, config)
  -- Tiles beside each other read the same rows of a large operand; where B is that one, they come one after the other.
  if tiles_m == 1 or config.swap and problem.M <= STREAM.few then return 1 end
  local usual = tiles_n * config.cluster_n < 16 and 4 or 8
  for rows = usual, usual * 3 // 2 do
    if tiles_m % rows == 0 and workers % rows == 0 then return rows end
  end
  return math.min(tiles_m, usual)
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
  config.group = config.group or group(problem, config)
  return config
end

--- Ways for CTAs to work together: few rows divide K, many share an operand.
local function ways(problem, limits)
  local list = { {} }
  if problem.M <= STREAM.few then
    for split_k = 2, limits.split_k do list[#list + 1] = { split_k = split_k } end
    return list
  end
  for ctas = 2, limits.cluster do
    list[#list + 1] = { cluster = ctas }
    if problem.target == "sm_90a" then list[#list + 1] = { cluster_n = ctas } end
  end
  return list
end

--- Rows of tiles, each with the most columns.  Hopper's tiles of more than 128 rows are three or four warpgroups with
-- fewer registers each: a plain epilogue fits.
local function tile_rows(problem)
  local most = problem.promote and model.PROMOTED or 256
  local list = { { 64, most }, { 128, most } }
  local fused = problem.bias or problem.residual or problem.row_scale or problem.column_scale or problem.epilogue
  if problem.target == "sm_90a" and problem.M > STREAM.few and not problem.promote and not fused then
    list[3], list[4] = { 192, 216 }, { 256, 160 }
  end
  return list
end

--- Calls add(config) for every tile and way; its stages are yet to be set.
local function each_tile(problem, limits, add)
  local atom = 1024 // problem.dtype.bits
  for _, swap in ipairs { false, true } do
    local columns = swap and problem.M or problem.N
    -- Swapping pays where it saves idle rows, and moves the long way through the epilogue otherwise.
    if swap and problem.M > STREAM.few then break end
    -- Rows that only clusters load well have few good tiles: those between multiples of 16 columns too.
    local ragged = problem.K * problem.dtype.bits % 256 ~= 0 and problem.M > STREAM.few
    local eights = problem.target == "sm_90a" and problem.transpose_b and problem.out_dtype.bits >= 16
    local step = ragged and eights and 8 or 16
    for _, rows in ipairs(tile_rows(problem)) do
      for tile_n = 16, math.min(rows[2], cdiv(columns, 16) * 16), step do
        for units = 1, rows[1] == 64 and 2 or 1 do
          for _, way in ipairs(ways(problem, limits)) do
            for slots = 2, rows[1] > 128 and 1 or 2, -1 do
              add {
                swap = swap, tile_m = rows[1], tile_n = tile_n, tile_k = atom * units, split_k = way.split_k,
                cluster = way.cluster, cluster_n = way.cluster_n, slots = slots, stages = 1, group = 1,
              }
            end
          end
        end
      end
    end
  end
end

--- All configurations that fit, best first by the model: a list of {config, microseconds, terms}.
-- `limits`: {split_k = largest that the target's kernels have, cluster = same}.
function model.candidates(problem, limits)
  local list = {}
  each_tile(problem, limits, function(given)
    local config = model.complete(problem, given)
    local _, _, tiles, workers = model.division(problem, config)
    local steps = cdiv(cdiv(problem.K, config.tile_k), config.split_k)
    local most = config.tile_k * problem.dtype.bits > 1024 and 8 or 12
    if tiles <= workers then most = math.min(most, steps) end
    config.stages = model.stages(problem, config, most)
    if (config.stages >= 2 or config.stages == steps) and (config.split_k == 1 or tiles <= workers) then
      config.group = group(problem, config)
      local cost, terms = model.cost(problem, config)
      list[#list + 1] = { config = config, microseconds = cost, terms = terms }
    end
  end)
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

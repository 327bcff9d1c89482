-- Drawn matmuls of pairs of CTAs, each in one of the emulator's modes, against the product in double
-- precision.  Operands are small integers, so results are exact.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local collective = require "collective_kernels"

local DRAWS = 24

local function generator(seed)
  local state = seed * 2862933555777941757 + 3037000493
  return function(list)
    state = state * 6364136223846793005 + 1442695040888963407
    return list[(state >> 33) % #list + 1]
  end
end

local function numbers(first, last, step)
  local list = {}
  for i = first, last, step or 1 do list[#list + 1] = i end
  return list
end

local flags = { false, true }

local function draw_matmul(pick)
  local o = { rows = pick{ 64, 128 }, n = pick(numbers(32, 256, 32)), stages = pick(numbers(1, 4)),
              steps = pick(numbers(1, 6)), dtype = pick{ tc.float16, tc.bfloat16, tc.float8_e4m3fn },
              copies = pick{ "own", "leader", "leader" }, load_warps = pick{ 1, 1, 2, 4 }, mma_warps = pick{ 1, 1, 3 },
              warpgroups = pick{ 1, 2 }, down = pick{ 1, 1, 2 }, across = pick{ 1, 1, 2 },
              a_transposed = pick(flags), b_transposed = pick(flags) }
  o.acc = o.dtype ~= tc.bfloat16 and pick{ tc.float32, tc.float32, tc.float16 } or tc.float32
  o.tk = pick{ 64, 128 }
  if o.dtype ~= tc.float8_e4m3fn and o.stages == 4 then o.tk = 64 end -- what SMEM holds
  if o.rows == 64 and o.n > 128 then o.warpgroups = 2 end
  o.b_transposed = o.b_transposed or (o.dtype == tc.float8_e4m3fn and o.n % 64 ~= 0) -- rows of whole swizzles
  local M, N, K = 2 * o.rows * o.down, o.n * o.across, o.tk * o.steps
  return o, collective.matmul(o), o.a_transposed and { K, M } or { M, K }, o.b_transposed and { N, K } or { K, N },
    { M, N }
end

local function draw_persistent(pick)
  local o = { rows = pick{ 64, 128 }, n = pick{ 32, 64, 128, 192, 256 }, stages = pick(numbers(1, 4)),
              m = pick(numbers(1, 700, 13)), cols = pick(numbers(8, 480, 8)), k = pick(numbers(8, 240, 8)),
              clusters = pick{ 1, 2, 3 }, tracked = pick(flags), dynamic = pick(flags),
              dtype = pick{ tc.float16, tc.bfloat16 } }
  return o, collective.persistent(o), { o.m, o.k }, { o.k, o.cols }, { o.m, o.cols }
end

local function described(o)
  local list = {}
  for key, value in pairs(o) do list[#list + 1] = key .. " = " .. tostring(value) end
  table.sort(list)
  return table.concat(list, ", ")
end

local modes = { "check", "random", "fast" }

local function run(draw, seed)
  local pick = generator(seed)
  local o, kernel, a_shape, b_shape, shape = draw(pick)
  local mode, out = modes[seed % #modes + 1], tc.zeros(shape, o.acc or tc.float32)
  local a, b = kernels.integers(a_shape, o.dtype, seed), kernels.integers(b_shape, o.dtype, seed + 1)
  local report = kernel:emulate({ target = pick{ "sm_100a", "sm_103a" }, mode = mode, seed = seed }, a, b, out)
  local text = mode .. ": " .. described(o)
  assert(#report.hazards == 0, report.hazards[1] and text .. "\n" .. report.hazards[1].message)
  local expected = tc.reference.matmul(a, b, { transpose_a = o.a_transposed, transpose_b = o.b_transposed })
  assert.are.equal(0, (tc.max_error(out, expected)), text)
end

describe("Drawn kernels of two CTAs", function()
  it("multiply a tile", function()
    for seed = 1, DRAWS do run(draw_matmul, seed) end
  end)
  it("walk over tiles", function()
    for seed = 1, DRAWS do run(draw_persistent, seed) end
  end)
end)

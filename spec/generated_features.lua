-- Draws the features of a matmul kernel from a seed, within what the recorder and an SM take.
local tc = require "tcmma"

local M = {}

-- Numbers of a seed, the same everywhere (splitmix64).
local function generator(seed)
   local function mixed(z)
      z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
      z = (z ~ (z >> 27)) * 0x94d049bb133111eb
      return z ~ (z >> 31)
   end
   local state = mixed(seed + 1)
   local function bits()
      state = state + 0x9e3779b97f4a7c15
      return mixed(state)
   end
   local random = {}
   function random.below(n) return math.tointeger((bits() >> 1) % n) end
   function random.from(list) return list[random.below(#list) + 1] end
   function random.chance(percent) return random.below(100) < percent end
   return random
end

local function ceil(a, b) return (a + b - 1) // b end
local function up(a, b) return ceil(a, b) * b end

M.targets = {
   sm_90a = {
      rows = { 64, 64, 128, 128, 128, 192, 256 }, column_step = 8,
      types = { "f16", "bf16", "f16", "bf16", "e4m3", "e5m2", "f32", "i8" },
   },
   sm_100a = {
      rows = { 64, 128, 128 }, column_step = 16,
      types = { "f16", "bf16" },
   },
}

M.forms = { "plain", "roles", "persistent", "double", "pairs", "registers", "two", "preloaded", "promoted" }

local function bytes(name) return tc.dtype(name).bits // 8 end

local function draw_types(o, random, index)
   local types = M.targets[o.target].types
   o.dtype = types[index % #types + 1]
   if o.form == "registers" and o.dtype == "f32" then o.form = "plain" end -- no A of 32 bits in TMEM
   o.dtype_b = o.dtype
   if bytes(o.dtype) == 1 and o.dtype ~= "i8" then
      o.dtype_b = random.from { "e4m3", "e5m2" }
   elseif o.dtype == "i8" then
      o.dtype, o.dtype_b = random.from { "i8", "u8" }, random.from { "i8", "u8" }
   end
   o.integer = o.dtype == "i8" or o.dtype == "u8"
   o.acc = o.integer and "i32" or "f32"
   if (o.dtype == "f16" or bytes(o.dtype) == 1 and not o.integer) and random.chance(20) then o.acc = "f16" end
   o.out = o.integer and "i32" or random.from { "f16", "bf16", "f32" }
   -- wgmma and tcgen05.mma differ in what they transpose; 16-bit types can be on both.
   local can = bytes(o.dtype) == 2
   o.a_transposed = can and random.chance(30) and o.form ~= "registers"
   o.b_transposed = not can or random.chance(50)
end

-- A swizzle that divides a line of `columns` elements; nil where none does.
local function draw_swizzle(random, columns, dtype, most)
   local line, legal = columns * bytes(dtype), {}
   for _, swizzle in ipairs { 32, 64, 128 } do
      if line % swizzle == 0 and swizzle <= (most or 128) then legal[#legal + 1] = swizzle end
   end
   return #legal > 0 and random.from(legal) or nil
end

local function draw_tile(o, random)
   local target = M.targets[o.target]
   local step = target.column_step
   o.tm = random.from(target.rows)
   if o.form == "registers" then o.tm = o.target == "sm_100a" and 128 or random.from { 64, 128 } end
   local limit = o.tm > 192 and 128 or o.tm > 128 and 168 or 256
   if o.form == "double" and o.tm > 128 then limit = 128 end -- 512 columns
   if o.form == "two" then limit = o.tm > 128 and 64 or 128 end
   if o.form == "preloaded" then limit = o.tm > 128 and 64 or 128 end
   if o.form == "promoted" then o.tm, limit = math.min(o.tm, 128), o.tm > 64 and 64 or 128 end -- twice in registers
   if o.integer then step, limit = 16, limit // 16 * 16 end
   -- Half of the tiles are as they are in practice.
   if random.chance(50) then
      o.tn = math.min(limit, random.from { 32, 64, 96, 128, 128, 192, 256 })
   else
      o.tn = step * (1 + random.below(limit // step))
   end
   if not o.b_transposed then o.tn = up(o.tn, 16) end -- 32 bytes are the narrowest swizzle of a line
   o.tk = random.from { 32, 64, 128 } // bytes(o.dtype) * random.from { 1, 1, 2 }
   if bytes(o.dtype) == 2 then o.tk = math.max(o.tk, 16) end
   o.a_swizzle = draw_swizzle(random, o.a_transposed and o.tm or o.tk, o.dtype)
   local halves = o.target == "sm_100a" and o.tm == 64 -- then B's swizzle reaches over half of N at most
   o.b_swizzle = draw_swizzle(random, o.b_transposed and o.tk or o.tn, o.dtype_b,
      halves and math.max(32, o.tn // 2 * bytes(o.dtype_b)) or 128)
end

local function draw_store(o, random)
   local most = o.tm * o.tn <= 128 * 128 and o.tn or 64
   local legal = {}
   for _, piece in ipairs { 8, 16, 32, 64, 128 } do
      if o.tn % piece == 0 and piece <= most then legal[#legal + 1] = piece end
   end
   if o.tm * o.tn <= 128 * 128 then legal[#legal + 1] = o.tn end
   o.piece = o.form == "promoted" and o.tn or random.from(legal)
   o.store = random.chance(80) and "tma" or "gmem"
   o.out_swizzle = draw_swizzle(random, o.piece, o.out) or "none"
   o.read_only = random.chance(30)
   o.warpgroups = o.tm % 128 == 0 and random.chance(15) and 2 or 1
   o.relu, o.scale = random.chance(25), random.chance(20)
   if not o.integer then
      o.bias, o.residual, o.row_scale = random.chance(25), random.chance(15), random.chance(15)
   end
end

-- The problem: tails in every dimension, as far as a line of 16 bytes allows.
local function draw_problem(o, random)
   local tiles_m, tiles_n = random.from { 1, 1, 2, 3 }, random.from { 1, 1, 2, 3 }
   local steps = random.from { 1, 2, 3, 4, 5, 7, 9 }
   if o.form == "pairs" then steps = up(steps, 2) end
   o.m, o.n, o.k = tiles_m * o.tm, tiles_n * o.tn, steps * o.tk
   local line = 16 // bytes(o.dtype)
   local line_out = o.store == "tma" and 16 // bytes(o.out) or 1
   if random.chance(40) then o.m = o.m - random.below(o.tm - 1) end
   if random.chance(40) then o.n = o.n - random.below(o.tn - 1) end
   if random.chance(40) then o.k = o.k - random.below(o.tk - 1) end
   o.m = up(o.m, o.a_transposed and line or 1)
   o.n = up(o.n, math.max(line_out, o.b_transposed and 1 or line))
   o.k = up(o.k, (o.a_transposed and not o.b_transposed) and 1 or line)
end

-- Clusters of two CTAs that share the tile of one operand: tiles above each other share B's.
local function draw_cluster(o, random)
   local roles = o.form == "roles" or o.form == "pairs" or o.form == "persistent" or o.form == "double"
   if roles and random.chance(25) then
      o.cluster = random.from { "rows", "columns" }
      if o.tn % 16 ~= 0 then o.cluster = "columns" end
   end
end

-- Other ways to say the same.
local function draw_wording(o, random)
   local one = o.form ~= "persistent" and o.form ~= "double" and o.form ~= "pairs"
   o.commit = random.chance(15) -- tc.commit_arrive in place of the option `barrier`
   o.unrolled = one and random.chance(20) and ceil(o.k, o.tk) <= 5
   o.named = one and not o.unrolled and not o.cluster and random.chance(20)
   -- The K of a stage in two MMAs; a slice is a multiple of what the swizzle spans.
   local half = o.tk // 2 * bytes(o.dtype)
   o.halves = random.chance(20) and o.form ~= "registers" and half % 32 == 0
      and (o.a_transposed or half % o.a_swizzle == 0) and (not o.b_transposed or half % o.b_swizzle == 0)
end

local SMEM = 227 * 1024 - 2048 -- less what barriers and alignment take

-- Keeps what was drawn within what an SM has.
local function fit(o)
   local function needed()
      local columns = o.form == "two" and 2 * o.tn or o.tn
      local ring = o.stages * (o.tm * bytes(o.dtype) + columns * bytes(o.dtype_b)) * o.tk
      return ring + (o.store == "tma" and 2 * o.tm * o.piece * bytes(o.out) or 0)
   end
   while needed() > SMEM and o.stages > 1 do o.stages = o.stages - 1 end
   if o.form == "pairs" and o.stages < 2 then o.form = "roles" end
   if needed() > SMEM then o.store, o.n = "gmem", o.n end
end

-- The features of kernel number `index`; types and forms take turns, so that all meet.
function M.draw(target, index, seed)
   local random = generator((seed or 1) * 1000003 + index)
   local o = { target = target, index = index }
   o.form = M.forms[(index // #M.targets[target].types) % #M.forms + 1]
   o.stages = o.form == "pairs" and random.from { 2, 3, 4, 5 } or random.from { 1, 2, 3, 4, 5 }
   o.ctas = random.from { 1, 2, 3 }
   draw_types(o, random, index)
   draw_tile(o, random)
   draw_store(o, random)
   draw_problem(o, random)
   draw_cluster(o, random)
   draw_wording(o, random)
   fit(o)
   if o.store == "gmem" and index % 2 == 1 then o.store = "atomic" end -- added to zeros
   return o
end

return M

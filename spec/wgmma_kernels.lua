-- Matmuls in the forms that Hopper's lowering tells apart; each is checked on the emulator against
-- the product in double precision. Operands are small integers, so results are exact.
local assert = require "luassert"
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local M = {}

local function ceil(a, b) return (a + b - 1) // b end

-- One k-step of the loading role: both tiles of stage `slot`.
local function load_stage(o, p, k, slot)
   local m, n = p.m, p.n
   tc.copy_gmem_to_smem(p.a:tile(o.a_transposed and { k, m } or { m, k }, p.a_tile), p.a_smem[slot], p.loaded[slot])
   tc.copy_gmem_to_smem(p.b:tile(o.b_transposed and { n, k } or { k, n }, p.b_tile), p.b_smem[slot], p.loaded[slot])
end

local function operands(o, p, slot)
   local left, right = p.a_smem[slot], p.b_smem[slot]
   return o.a_transposed and left:T() or left, o.b_transposed and right:T() or right
end

-- The mma of one stage into `acc`.
local function multiply(o, p, acc, slot, k)
   local left, right = operands(o, p, slot)
   tc.mma(acc, left, right, { barrier = p.consumed[slot], accumulate = k:gt(0) })
end

-- Pieces of the accumulator through a ring of two buffers, which begins anew with each tile.
local function store_tile(o, p, acc)
   local width = math.min(o.piece or 64, o.tn)
   for i = 0, o.tn // width - 1 do
      tc.wait_smem_to_gmem(i == 0 and 0 or 1, { wait_read_only = o.read_only })
      local piece = tc.async_load_tmem(acc:at(tc.all, tc.ds(i * width, width)))
      if o.bias then piece = piece + p.bias:tile({ p.n * (o.tn // width) + i }, { width }):load() end
      if o.finish then piece = o.finish(piece, p.n) end
      p.out_smem[i % 2]:store(piece:astype(o.out))
      tc.commit_smem()
      tc.copy_smem_to_gmem(p.out_smem[i % 2], p.out:tile({ p.m, p.n * (o.tn // width) + i }, { o.tm, width }))
   end
end

local function defaults(options)
   local o = { tm = 128, tn = 128, tk = 64, stages = 2, steps = 4, tiles_m = 1, tiles_n = 1, dtype = tc.float16 }
   for key, value in pairs(options) do o[key] = value end
   o.dtype_b = o.dtype_b or o.dtype
   o.acc = o.acc or tc.float32
   o.out = o.out or (o.acc == tc.float32 and tc.float16 or o.acc)

   return o
end

local function allocate(o, p)
   p.a_tile = o.a_transposed and { o.tk, o.tm } or { o.tm, o.tk }
   p.b_tile = o.b_transposed and { o.tn, o.tk } or { o.tk, o.tn }
   p.a_smem = tc.smem({ o.stages, p.a_tile[1], p.a_tile[2] }, o.dtype, { swizzle = o.swizzle })
   p.b_smem = tc.smem({ o.stages, p.b_tile[1], p.b_tile[2] }, o.dtype_b, { swizzle = o.swizzle })
   p.out_smem = tc.smem({ 2, o.tm, math.min(o.piece or 64, o.tn) }, o.out, { swizzle = o.out_swizzle })
   p.loaded = tc.barrier { num_arrivals = 2, num_barriers = o.stages, name = "loaded" }
   p.consumed = tc.barrier { num_barriers = o.stages, orders_tensor_core = true, name = "consumed" }
   local packed = o.acc ~= tc.float32 and o.acc ~= tc.int32 and { packed = false } or nil
   local shape = o.slots and { o.slots, o.tm, o.tn } or { o.tm, o.tn }
   p.acc = tc.tmem(shape, o.acc, packed)
   p.done = tc.barrier { num_barriers = o.slots or 1, orders_tensor_core = true, name = "done" }
end

-- One tile a CTA, three roles. o.two: two slots are awaited before both are multiplied.
local function single(o, p)
   tc.role { name = "load", warps = 1 }(function()
      tc.range(o.steps, function(k)
         local slot = k % o.stages
         tc.when(k:ge(o.stages), function() tc.barrier_wait(p.consumed[slot]) end)
         load_stage(o, p, k, slot)
      end)
   end)
   tc.role { name = "mma", warps = 1 }(function()
      if o.two then
         tc.range(o.steps // 2, function(half)
            for i = 0, 1 do tc.barrier_wait(p.loaded[(2 * half + i) % o.stages]) end
            for i = 0, 1 do multiply(o, p, p.acc, (2 * half + i) % o.stages, 2 * half + i) end
         end)
      else
         tc.range(o.steps, function(k)
            tc.barrier_wait(p.loaded[k % o.stages])
            multiply(o, p, p.acc, k % o.stages, k)
         end)
      end
      tc.commit_arrive(p.done)
   end)
   tc.role { name = "epilogue", warpgroups = o.warpgroups or 1 }(function()
      tc.barrier_wait(p.done)
      store_tile(o, p, p.acc)
      tc.wait_smem_to_gmem(0)
   end)
end

-- Tiles in a shared loop, with as many accumulators as o.slots; without, the next tile waits for
-- the loads of the one before.
local function persistent(o, p)
   local free = tc.barrier { num_barriers = o.slots or 1, orders_tensor_core = true, name = "free" }
   local load, issue, store = tc.role { name = "load", warps = 1 }, tc.role { name = "mma", warps = 1 },
      tc.role { name = "epilogue", warpgroups = 1 }
   local tiles = o.tiles_m * o.tiles_n
   local cta = tc.axis_index "cta"
   tc.range(tiles // o.ctas, function(t)
      local tile = t * o.ctas + cta
      local slot = o.slots and t % o.slots or 0
      local function at(barrier) return o.slots and barrier[slot] or barrier end
      local acc = o.slots and p.acc[slot] or p.acc
      p.m, p.n = tile // o.tiles_n, tile % o.tiles_n
      load(function()
         tc.range(o.steps, function(k)
            local step = t * o.steps + k
            local stage = step % o.stages
            tc.when(step:ge(o.stages), function() tc.barrier_wait(p.consumed[stage]) end)
            load_stage(o, p, k, stage)
         end)
      end)
      issue(function()
         tc.when(t:ge(o.slots or 1), function() tc.barrier_wait(at(free)) end)
         tc.range(o.steps, function(k)
            local stage = (t * o.steps + k) % o.stages
            tc.barrier_wait(p.loaded[stage])
            multiply(o, p, acc, stage, k)
         end)
         tc.commit_arrive(at(p.done))
      end)
      store(function()
         tc.barrier_wait(at(p.done))
         store_tile(o, p, acc)
         tc.wait_load_tmem()
         tc.barrier_arrive(at(free))
      end)
   end)
   store(function() tc.wait_smem_to_gmem(0) end)
end

function M.matmul(options)
   local o = defaults(options)
   local rows, columns, depth = o.tm * o.tiles_m, o.tn * o.tiles_n, o.k or o.tk * o.steps
   o.steps = ceil(depth, o.tk)
   local a_shape = o.a_transposed and { depth, rows } or { rows, depth }
   local b_shape = o.b_transposed and { columns, depth } or { depth, columns }
   local args = { tc.gmem(a_shape, o.dtype), tc.gmem(b_shape, o.dtype_b), tc.gmem({ rows, columns }, o.out) }
   if o.bias then args[4] = tc.gmem({ columns }, tc.float32) end
   if o.persistent then o.ctas = o.ctas or 1 end
   local kernel = tc.kernel {
      name = "matmul", args = args,
      grid = o.persistent and { o.ctas } or { o.tiles_m, o.tiles_n },
      grid_names = o.persistent and { "cta" } or { "m", "n" },
      body = function(a, b, out, bias)
         local p = { a = a, b = b, out = out, bias = bias }
         allocate(o, p)
         if o.persistent then return persistent(o, p) end
         p.m, p.n = tc.axis_index "m", tc.axis_index "n"
         single(o, p)
      end,
      target = "sm_90a",
   }
   return kernel, o, { a_shape, b_shape, { rows, columns } }
end

local function describe(options)
   local text = {}
   for key, value in pairs(options) do text[#text + 1] = key .. "=" .. tostring(value) end
   table.sort(text)
   return table.concat(text, " ")
end

-- Runs M.matmul(options) and compares.
function M.check(options, run)
   local kernel, o, shapes = M.matmul(options)
   local a = kernels.integers(shapes[1], o.dtype, 1)
   local b = kernels.integers(shapes[2], o.dtype_b, 2)
   local out = tc.zeros(shapes[3], o.out)
   local arrays = { a, b, out }
   local bias = o.bias and kernels.integers({ shapes[3][2] }, tc.float32, 3)
   if bias then arrays[4] = bias end
   run = run or { target = "sm_90a" }
   kernels.run(kernel, run, table.unpack(arrays))
   local expected = tc.reference.matmul(a, b,
      { transpose_a = o.a_transposed, transpose_b = o.b_transposed, bias = bias })
   assert.are.equal(0, (tc.max_error(out, expected)), describe(options))
   return kernel
end

-- The assembler's report on a kernel: registers, spilled bytes and its messages of lost performance.
-- Where there is no ptxas, nvJitLink assembles every text as one of several units, where setmaxnreg is
-- not honoured (C7504).
function M.assembled(kernel)
   local info = kernel:info { target = "sm_90a" }
   if not info.assembler_missing and info.assembler:match "^nvJitLink" then
      info.log = info.log:gsub("[^\n]*%(C7504%)[^\n]*'setmaxnreg'[^\n]*", "")
   end
   return info
end

return M

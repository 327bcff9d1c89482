-- Kernels that update memory atomically, and what they leave there.
local tc = require "tcmma"

local kernels = {}

local function less(a, b, signed)
  if signed then return a < b end
  return math.ult(math.tointeger(a), math.tointeger(b))
end

-- What an update leaves of what memory holds and a value; integers as Lua has them.
kernels.combine = {
  atomic_add = function(a, b) return a + b end,
  atomic_max = function(a, b, signed) return less(a, b, signed) and b or a end,
  atomic_min = function(a, b, signed) return less(a, b, signed) and a or b end,
  atomic_and = function(a, b) return a & b end,
  atomic_or = function(a, b) return a | b end,
  atomic_xor = function(a, b) return a ~ b end,
}

local function is_real(dtype) return tostring(dtype):find "float" ~= nil end

local function wrap(x, dtype)
  if is_real(dtype) then return x end
  x = x & 0xffffffff
  return dtype == tc.int32 and x >= 0x80000000 and x - (1 << 32) or x
end

-- Numbers whose sums the dtype holds; of unsigned ones the upper half too.
function kernels.numbers(shape, dtype, seed)
  local array = tc.empty(shape, dtype)
  math.randomseed(seed)
  for i = 0, shape[1] - 1 do
    for j = 0, (shape[2] or 1) - 1 do
      local x = math.random(-9, 9)
      if dtype == tc.uint32 then x = x & 0xffffffff end
      if shape[2] then array:set(i, j, x) else array:set(i, x) end
    end
  end
  return array
end

-- before updated by `parts`, lists of rows, one after the other.
function kernels.expected(update, dtype, before, parts)
  local result = {}
  for i, row in ipairs(before) do
    result[i] = {}
    for j, x in ipairs(row) do
      for _, part in ipairs(parts) do
        x = wrap(kernels.combine[update](x, part[i][j], dtype ~= tc.uint32), dtype)
      end
      result[i][j] = x
    end
  end
  return result
end

-- Each CTA takes a tile of its own and combines it with one that all share.
-- o: update, dtype, rows, columns, ctas; transposed: the shared tile is stored (columns, rows);
-- by: "GMEM", or "SMEM" whose sum is then stored.
function kernels.shared(o)
  local rows, columns, ctas = o.rows, o.columns, o.ctas or 3
  local shape = o.transposed and { columns, rows } or { rows, columns }
  return tc.kernel{
    name = "shared", args = { tc.gmem({ ctas * rows, columns }, o.dtype), tc.gmem(shape, o.dtype) },
    grid = { ctas }, grid_names = { "x" },
    body = function(a, out)
      local target = o.transposed and out:T() or out
      tc[o.update](target, a:tile({ tc.axis_index "x", 0 }, { rows, columns }):load())
    end,
  }
end

-- One CTA: `parts` tiles after each other into SMEM, by several roles; then to GMEM.
function kernels.in_smem(o)
  local rows, columns, parts = o.rows, o.columns, 4
  return tc.kernel{
    name = "in_smem", args = { tc.gmem({ parts * rows, columns }, o.dtype), tc.gmem({ rows, columns }, o.dtype) },
    body = function(a, out)
      local tile = tc.smem({ rows, columns }, o.dtype, o.swizzle and { swizzle = o.swizzle })
      local ready, done = tc.barrier{}, tc.barrier{ num_arrivals = 2 }
      local roles = { tc.role{ name = "first", warpgroups = 1 }, tc.role{ name = "second", warpgroups = 2 } }
      roles[1](function()
        tile:store(out:load())
        tc.barrier_arrive(ready)
      end)
      for r, role in ipairs(roles) do
        role(function()
          if r == 2 then tc.barrier_wait(ready) end
          for part = r, parts, 2 do
            tc[o.update](tile, a:tile({ part - 1, 0 }, { rows, columns }):load())
          end
          tc.barrier_arrive(done)
        end)
      end
      roles[1](function()
        tc.barrier_wait(done)
        out:store(tile:load())
      end)
    end,
  }
end

-- out += a * b, K cut into parts that CTAs of their own multiply.
-- o: m, n, k, parts, out (dtype), mode of the epilogue: by TMEM's own distribution
function kernels.split_k(o)
  local depth = o.k // o.parts
  return tc.kernel{
    name = "split_k",
    args = { tc.gmem({ o.m, o.k }, tc.float16), tc.gmem({ o.k, o.n }, tc.float16), tc.gmem({ o.m, o.n }, o.out) },
    grid = { o.parts }, grid_names = { "part" },
    body = function(a, b, out)
      local part = tc.axis_index "part"
      local a_smem, b_smem = tc.smem({ o.m, depth }, tc.float16), tc.smem({ depth, o.n }, tc.float16)
      local acc = tc.tmem({ o.m, o.n }, tc.float32)
      local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
      local issue, store = tc.role{ name = "issue", warps = 1 }, tc.role{ name = "store", warpgroups = 1 }
      issue(function()
        tc.copy_gmem_to_smem(a:tile({ 0, part }, { o.m, depth }), a_smem, loaded)
        tc.copy_gmem_to_smem(b:tile({ part, 0 }, { depth, o.n }), b_smem, loaded)
        tc.barrier_wait(loaded)
        tc.mma(acc, a_smem, b_smem, { accumulate = false, barrier = done })
      end)
      store(function()
        tc.barrier_wait(done)
        tc.atomic_add(out, tc.async_load_tmem(acc):astype(o.out))
      end)
    end,
  }
end

-- A product combined with zeros from the accumulator's own distribution.
-- o: m, dtype, update; transposed: the target is stored (N, M); smem: it is in SMEM first
function kernels.of_accumulator(o)
  local n, depth = 48, 64
  local shape = o.transposed and { n, o.m } or { o.m, n }
  return tc.kernel{
    name = "of_accumulator",
    args = { tc.gmem({ o.m, depth }, tc.float16), tc.gmem({ depth, n }, tc.float16), tc.gmem(shape, o.dtype) },
    body = function(a, b, out)
      local a_smem, b_smem = tc.smem({ o.m, depth }, tc.float16), tc.smem({ depth, n }, tc.float16)
      local stage = o.smem and tc.smem(shape, o.dtype, { swizzle = "none" })
      local acc = tc.tmem({ o.m, n }, tc.float32)
      local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
      local issue, store = tc.role{ name = "issue", warps = 1 }, tc.role{ name = "store", warpgroups = 1 }
      issue(function()
        tc.copy_gmem_to_smem(a, a_smem, loaded)
        tc.copy_gmem_to_smem(b, b_smem, loaded)
        tc.barrier_wait(loaded)
        tc.mma(acc, a_smem, b_smem, { accumulate = false, barrier = done })
      end)
      store(function()
        tc.barrier_wait(done)
        local target = stage or out
        if stage then stage:store(tc.full(shape, 0, o.dtype)) end
        tc[o.update](o.transposed and target:T() or target, tc.async_load_tmem(acc):astype(o.dtype))
        if stage then out:store(stage:load()) end
      end)
    end,
  }
end

-- Counts how often each value occurs, elements by scalars in a loop, and how many there are.
function kernels.histogram(count, bins)
  return tc.kernel{
    name = "histogram",
    args = { tc.gmem({ count }, tc.int32), tc.gmem({ bins }, tc.int32), tc.gmem({ 1 }, tc.float32) },
    grid = { 4 }, grid_names = { "x" },
    body = function(values, out, total)
      local role = tc.role{ name = "count", warps = 1 }
      role(function()
        tc.range(count // 4, function(i)
          tc.atomic_add(out[values[tc.axis_index "x" * (count // 4) + i]:load()], 1)
          tc.atomic_add(total[0], 0.5)
        end)
      end)
    end,
  }
end

-- Work that CTAs take from a queue: tickets until there are `count`; out[ticket] counts who did it, by whom is kept.
-- o: count, ctas, warpgroups (of the role; nil: one warp)
function kernels.queue(o)
  return tc.kernel{
    name = "queue", args = { tc.gmem({ 1 }, tc.int32), tc.gmem({ o.count }, tc.int32), tc.gmem({ o.count }, tc.int32) },
    grid = { o.ctas }, grid_names = { "x" },
    body = function(next_ticket, done, by)
      local role = tc.role{ name = "worker", warps = not o.warpgroups and 1 or nil, warpgroups = o.warpgroups }
      role(function()
        tc.loop(function()
          local ticket = tc.atomic_add(next_ticket[0], 1, { old = true })
          tc.stop(ticket:ge(o.count))
          tc.atomic_add(done[ticket], 1)
          by[ticket]:store(tc.axis_index "x" + 1)
        end)
      end)
    end,
  }
end

return kernels

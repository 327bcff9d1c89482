-- Kernels of spec/pallas_conformance_spec.lua: each does what one of Pallas' own tests does.
local tc = require "tcmma"

local pallas = {}

local letters = { "x", "y", "z", "u", "v" }
local letters_at = { x = 1, y = 2, z = 3, u = 4, v = 5 }

-- Waits until the MMAs and copies of this role have written tensor memory.
local function tensor_core_done()
  local done = tc.barrier{ orders_tensor_core = true }
  tc.commit_arrive(done)
  tc.barrier_wait(done)
end

-- Stores 128 columns of an accumulator, half of them at a time.
local function store_halves(acc, out)
  for c = 0, 127, 64 do
    local part = tc.ds(c, 64)
    out:at(tc.all, part):store(tc.async_load_tmem(acc:at(tc.all, part)))
  end
end

local function loaded_tile(ref, swizzle)
  local smem, loaded = tc.smem(ref.shape, ref.dtype, { swizzle = swizzle }), tc.barrier{}
  tc.copy_gmem_to_smem(ref, smem, loaded)
  tc.barrier_wait(loaded)
  return smem
end

local function one_cta(name, args, body) return tc.kernel{ name = name, args = args, body = body } end

-- An odd allocation lies before each operand.
function pallas.misaligned(dtype)
  return one_cta("misaligned", { tc.gmem({ 128, 128 }, dtype), tc.gmem({ 128, 128 }, dtype),
    tc.gmem({ 128, 128 }, tc.f32), tc.gmem({ 2, 1 }, tc.f32) }, function(a, b, out, odd)
    local refs = {}
    local loaded = tc.barrier{ num_arrivals = 2 }
    for i, source in ipairs{ a, b } do
      local neighbour = tc.smem({ 1 }, tc.f32)
      neighbour:store(tc.full({ 1 }, i, tc.f32))
      refs[i] = tc.smem({ 128, 128 }, dtype)
      tc.copy_gmem_to_smem(source, refs[i], loaded)
      odd[i - 1]:store(neighbour:load())
    end
    tc.barrier_wait(loaded)
    local acc = tc.tmem({ 128, 128 }, tc.f32)
    tc.mma(acc, refs[1], refs[2], { accumulate = false })
    tensor_core_done()
    store_halves(acc, out)
  end)
end

-- One instruction has no more than 256 columns; two warpgroups load the result at once.  o: m, n, k, a, d, swizzle.
function pallas.wide(o)
  return one_cta("wide", { tc.gmem({ o.m, o.k }, o.a), tc.gmem({ o.n, o.k }, o.a), tc.gmem({ o.m, o.n }, o.d) },
    function(a, b, out)
      local acc = tc.tmem({ o.m, o.n }, o.d)
      tc.role{ name = "both", warpgroups = 2 }(function()
        tc.mma(acc, loaded_tile(a, o.swizzle), loaded_tile(b, o.swizzle):T(), { accumulate = false })
        tensor_core_done()
        out:store(tc.async_load_tmem(acc))
      end)
    end)
end

-- The accumulator is one part of a wider allocation.
function pallas.sliced_accumulator(dtype)
  return one_cta("sliced", { tc.gmem({ 128, 128 }, dtype), tc.gmem({ 128, 128 }, dtype),
    tc.gmem({ 128, 128 }, tc.f32) }, function(a, b, out)
    local acc = tc.tmem({ 128, 256 }, tc.f32):at(tc.all, tc.ds(128, 128))
    tc.mma(acc, loaded_tile(a), loaded_tile(b), { accumulate = false })
    tensor_core_done()
    store_halves(acc, out)
  end)
end

-- out = a * b in two parts: each half of B's columns into the other half of the accumulator.
function pallas.flipped(dtype)
  return one_cta("flipped", { tc.gmem({ 128, 128 }, dtype), tc.gmem({ 128, 128 }, dtype),
    tc.gmem({ 128, 128 }, tc.f32) }, function(a, b, out)
    local acc = tc.tmem({ 128, 128 }, tc.f32)
    local left, right = loaded_tile(a), loaded_tile(b)
    for half = 0, 1 do
      tc.mma(acc:at(tc.all, tc.ds(64 - 64 * half, 64)), left, right:at(tc.all, tc.ds(64 * half, 64)),
        { accumulate = false })
    end
    tensor_core_done()
    out:store(tc.async_load_tmem(acc))
  end)
end

-- out = init + a * b, `times` over.
function pallas.initialized(dtype, times)
  return one_cta("initialized", { tc.gmem({ 128, 128 }, dtype), tc.gmem({ 128, 128 }, dtype),
    tc.gmem({ 128, 128 }, tc.f32), tc.gmem({ 128, 128 }, tc.f32) }, function(a, b, init, out)
    local acc = tc.tmem({ 128, 128 }, tc.f32)
    local left, right = loaded_tile(a), loaded_tile(b)
    tc.async_store_tmem(acc, init:load())
    tc.commit_tmem()
    for _ = 1, times do tc.mma(acc, left, right) end
    tensor_core_done()
    out:store(tc.async_load_tmem(acc))
  end)
end

-- An MMA signals one barrier of an array, `at`.
function pallas.barrier_of_array(count, at)
  return one_cta("indexed", { tc.gmem({ 128, 128 }, tc.f16), tc.gmem({ 128, 128 }, tc.f16),
    tc.gmem({ 128, 128 }, tc.f32) }, function(a, b, out)
    local acc = tc.tmem({ 128, 128 }, tc.f32)
    local barriers = tc.barrier{ num_barriers = count, orders_tensor_core = true }
    tc.mma(acc, loaded_tile(a), loaded_tile(b), { accumulate = false, barrier = barriers[at] })
    tc.barrier_wait(barriers[at])
    store_halves(acc, out)
  end)
end

-- SMEM to TMEM and through registers back.  o: n, dtype, swizzle; pair: by both CTAs of a cluster.
function pallas.smem_to_tmem(o)
  local shape = { 128, o.n }
  return tc.kernel{
    name = "to_tmem", cluster = o.pair and { 2 } or nil, cluster_names = o.pair and { "cta" } or nil,
    args = { tc.gmem({ o.pair and 256 or 128, o.n }, o.dtype), tc.gmem({ o.pair and 256 or 128, o.n }, o.dtype) },
    body = function(a, out)
      local cta = o.pair and tc.axis_index "cta" or 0
      local smem, loaded = tc.smem(shape, o.dtype, { swizzle = o.swizzle }), tc.barrier{}
      local packed = o.dtype.bits < 32 or nil
      local tmem = tc.tmem(shape, o.dtype, { packed = packed, collective = o.pair })
      tc.copy_gmem_to_smem(a:tile({ cta, 0 }, shape), smem, loaded)
      tc.barrier_wait(loaded)
      local done = tc.barrier{ orders_tensor_core = true }
      if o.pair then
        local there = tc.cluster_barrier{ collective_axes = "cta" }
        tc.barrier_arrive(there)
        tc.when(cta:eq(0), function()
          tc.barrier_wait(there)
          tc.async_copy_smem_to_tmem(smem, tmem, { collective_axis = "cta" })
          tc.commit_arrive(done, { collective_axis = "cta" })
        end)
      else
        tc.async_copy_smem_to_tmem(smem, tmem)
        tc.commit_arrive(done)
      end
      tc.barrier_wait(done)
      local width = o.n > 128 and 32 or o.n
      for c = 0, o.n - 1, width do
        local part = tc.ds(c, width)
        out:tile({ cta, 0 }, shape):at(tc.all, part):store(tc.async_load_tmem(tmem:at(tc.all, part)))
      end
    end,
  }
end

-- Registers to TMEM and back, stored and loaded by columns of `store` and `load`.
-- o: rows, n, dtype, packed, batch: the tile is one of so many; count: of allocations.
function pallas.store_load(o)
  local rows = o.rows or 128
  return one_cta("store_load", { tc.gmem({ rows, o.n }, o.dtype), tc.gmem({ rows, o.n }, o.dtype) }, function(a, out)
    local shape = o.batch and { o.batch, rows, o.n } or { rows, o.n }
    local tiles = {}
    for i = 1, o.count or 1 do
      local tmem = tc.tmem(shape, o.dtype, { packed = o.packed })
      tiles[i] = o.batch and tmem[o.batch - 1] or tmem
    end
    for i, tile in ipairs(tiles) do
      for c = 0, o.n - 1, o.store or o.n do
        local part = tc.ds(c, o.store or o.n)
        local source = i == 1 and a:at(tc.all, part):load() or tc.async_load_tmem(tiles[i - 1]:at(tc.all, part))
        tc.async_store_tmem(tile:at(tc.all, part), source)
      end
      tc.commit_tmem()
    end
    for c = 0, o.n - 1, o.load or o.n do
      local part = tc.ds(c, o.load or o.n)
      out:at(tc.all, part):store(tc.async_load_tmem(tiles[#tiles]:at(tc.all, part)))
    end
  end)
end

-- A tile of TMEM and, of each row, the least or greatest element, or the least or greatest magnitude.
function pallas.load_reduce(dtype, op, n)
  return one_cta("load_reduce", { tc.gmem({ 128, n }, dtype), tc.gmem({ 128, n }, dtype), tc.gmem({ 128 }, dtype) },
    function(a, out, reduced)
      local tmem = tc.tmem({ 128, n }, dtype)
      tc.async_store_tmem(tmem, a:load())
      tc.commit_tmem()
      local tile, extremes = tc.async_load_tmem(tmem, { reduce = op })
      out:store(tile)
      reduced:store(extremes)
    end)
end

-- Threads arrive on a barrier that orders the tensor core, the last of o.num_barriers.
function pallas.arrive_on_tensor_core_barrier(o)
  return one_cta("arrive", { tc.gmem({ 128, 64 }, tc.f32), tc.gmem({ 128, 64 }, tc.f32) }, function(a, out)
    local tmem = tc.tmem({ 128, 64 }, tc.f32)
    local stored = tc.barrier{ num_barriers = o.num_barriers, orders_tensor_core = true }
    local at = o.num_barriers - 1
    tc.role{ name = "store", warpgroups = 1 }(function()
      tc.async_store_tmem(tmem, a:load())
      tc.barrier_arrive(stored[at])
    end)
    tc.role{ name = "load", warpgroups = 1 }(function()
      tc.barrier_wait(stored[at])
      out:store(tc.async_load_tmem(tmem))
    end)
  end)
end

-- Each of four roles of one warp arrives; a fifth waits for all of them.
function pallas.warps_arrive()
  return one_cta("warps", { tc.gmem({ 5 }, tc.i32) }, function(out)
    local all = tc.barrier{ num_arrivals = 4 }
    for w = 0, 3 do
      tc.role{ name = "warp" .. w, warps = 1 }(function()
        out[w]:store(w + 1)
        tc.barrier_arrive(all)
      end)
    end
    tc.role{ name = "last", warps = 1 }(function()
      tc.barrier_wait(all)
      out[4]:store(out[0]:load() + out[1]:load() + out[2]:load() + out[3]:load())
    end)
  end)
end

function pallas.linear(index, sizes)
  local at = 0
  for d, size in ipairs(sizes) do at = at * size + index[d] end
  return at
end

local function axes_of(prefix, sizes)
  local names, total = {}, 1
  for d, size in ipairs(sizes) do
    names[d] = prefix .. letters[d]
    total = total * size
  end
  return names, total
end

local function here(names)
  local index = {}
  for d, name in ipairs(names) do index[d] = tc.axis_index(name) end
  return index
end

-- out[element of the grid and CTA of the cluster] += 1; o: grid, cluster; carry: the turn is a var that
-- lives on over the turns, not info.local_index.
function pallas.dynamic(o)
  local cluster = o.cluster or { 1 }
  local grid_names, elements = axes_of("g", o.grid)
  local cluster_names, size = axes_of("c", cluster)
  return tc.kernel{
    name = "dynamic", grid = o.grid, grid_names = grid_names, cluster = o.cluster,
    cluster_names = o.cluster and cluster_names, args = { tc.gmem({ elements * size }, tc.i32),
      tc.gmem({ elements * size }, tc.i32) },
    body = function(out, turns)
      local taken = o.carry and tc.var(0)
      tc.dynamic_scheduling_loop(grid_names, function(info)
        local at = pallas.linear(info.index, o.grid) * size
        if o.cluster then at = at + pallas.linear(here(cluster_names), cluster) end
        if taken then taken:set(taken:get() + 1) end
        out[at]:store(out[at]:load() + 1)
        turns[at]:store(taken and taken:get() or info.local_index + 1)
      end)
    end,
  }, elements * size
end

-- Every CTA loads the tile along the cluster's `axes` together; others each for themselves.
-- o: cluster (3 sizes), axes (names among cx, cy, cz).
function pallas.multicast(o)
  local names, size = axes_of("c", o.cluster)
  return tc.kernel{
    name = "subset", cluster = o.cluster, cluster_names = names,
    args = { tc.gmem({ size, 64, 32 }, tc.f32), tc.gmem({ size, 64, 32 }, tc.f32) },
    body = function(a, out)
      local index = here(names)
      -- The tile of the CTAs that differ along `axes` alone is that of the first of them.
      local from = {}
      for d, name in ipairs(names) do
        from[d] = index[d]
        for _, axis in ipairs(o.axes) do
          if axis == name then from[d] = 0 end
        end
      end
      local smem, loaded = tc.smem({ 64, 32 }, tc.f32), tc.barrier{}
      tc.copy_gmem_to_smem(a[pallas.linear(from, o.cluster)], smem, loaded,
        #o.axes > 0 and { collective_axes = o.axes } or nil)
      tc.barrier_wait(loaded)
      tc.copy_smem_to_gmem(smem, out[pallas.linear(index, o.cluster)])
      tc.wait_smem_to_gmem(0)
    end,
  }, size
end

-- The CTAs that differ from `index` along the axes of one entry of a cluster barrier's axes, and itself.
function pallas.along(entry, index, sizes)
  local peers = { { table.unpack(index) } }
  for _, axis in ipairs(type(entry) == "table" and entry or { entry }) do
    local d, more = letters_at[axis:sub(2)], {}
    for _, peer in ipairs(peers) do
      for i = 0, sizes[d] - 1 do
        local other = { table.unpack(peer) }
        other[d] = i
        more[#more + 1] = other
      end
    end
    peers = more
  end
  return peers
end

-- Every CTA writes its number plus 1, tells those along `axes`, and adds what each entry's CTAs have written.
-- o: cluster (3 sizes); axes: of the barrier, an entry may be a list.
function pallas.cluster_barrier(o)
  local names, size = axes_of("c", o.cluster)
  return tc.kernel{
    name = "told", cluster = o.cluster, cluster_names = names,
    args = { tc.gmem({ size }, tc.i32), tc.gmem({ size }, tc.i32) },
    body = function(written, sums)
      local index = here(names)
      local rank = pallas.linear(index, o.cluster)
      local told = tc.cluster_barrier{ collective_axes = o.axes }
      written[rank]:store(rank + 1)
      tc.barrier_arrive(told)
      tc.barrier_wait(told)
      local sum = 0
      for _, entry in ipairs(o.axes) do
        for _, peer in ipairs(pallas.along(entry, index, o.cluster)) do
          sum = sum + written[pallas.linear(peer, o.cluster)]:load()
        end
      end
      sums[rank]:store(sum)
    end,
  }, size
end

-- out = a, by a pipeline over blocks of (64, 64).  o: rows, columns, steps, runs, specialized, swizzle; add:
-- out = a + b; no_output: each step stores from registers.
function pallas.pipeline(o)
  local emit = o.specialized and tc.emit_pipeline_warp_specialized or tc.emit_pipeline
  local tm, tn = o.tm or 64, o.tn or 64
  local function spec(delay)
    return tc.block_spec({ tm, tn }, function(m, n) return m, n end, { swizzle = o.swizzle, delay_release = delay })
  end
  local array = tc.gmem({ o.rows, o.columns }, tc.f32)
  return tc.kernel{
    name = "pipeline", args = o.add and { array, array, array } or { array, array },
    body = function(...)
      local refs = { ... }
      local out = refs[#refs]
      local function step(info, x, y, z)
        if o.no_output then
          out:tile({ info.index[1], info.index[2] }, { tm, tn }):store(x:load())
        elseif o.add then
          z:store(x:load() + y:load())
        else
          y:store(x:load())
        end
        if o.manual then tc.barrier_arrive(info.consumed) end
      end
      local run = emit(step, {
        grid = { o.rows // tm, o.columns // tn }, max_concurrent_steps = o.steps,
        manual_consumed_barriers = o.manual,
        in_specs = o.add and { spec(o.delay), spec(o.delay_second or o.delay) } or { spec(o.delay) },
        out_specs = not o.no_output and { spec() } or nil,
      })
      for _ = 1, o.runs or 1 do
        if o.no_output then run(refs[1]) else run(table.unpack(refs)) end
      end
    end,
  }
end

-- A tile of an array of any rank there and back.  o: shape (of the array), dtype, swizzle; block, index: of
-- the tile; squeezed: the leading index is one element.
function pallas.copy(o)
  local block = o.block or o.shape
  return one_cta("copy", { tc.gmem(o.shape, o.dtype), tc.gmem(block, o.dtype) }, function(a, out)
    local smem, loaded = tc.smem(block, o.dtype, { swizzle = o.swizzle }), tc.barrier{}
    local source = o.squeezed and a[o.squeezed] or a
    tc.copy_gmem_to_smem(o.index and source:tile(o.index, block) or source, smem, loaded)
    tc.barrier_wait(loaded)
    tc.copy_smem_to_gmem(smem, out)
    tc.wait_smem_to_gmem(0)
  end)
end

-- Eight tiles through two slots of SMEM; a group of copies to GMEM has `size` of them.
function pallas.commit_groups(size)
  return one_cta("groups", { tc.gmem({ 128, 64 }, tc.f32), tc.gmem({ 128, 64 }, tc.f32) }, function(a, out)
    local smem = tc.smem({ 2, size, 16, 64 }, tc.f32)
    local loaded = tc.barrier{ num_arrivals = size }
    for group = 0, 8 // size - 1 do
      local slot = group % 2
      if group >= 2 then tc.wait_smem_to_gmem(1, { wait_read_only = true }) end
      for i = 0, size - 1 do
        tc.copy_gmem_to_smem(a:tile({ group * size + i, 0 }, { 16, 64 }), smem[slot][i], loaded)
      end
      tc.barrier_wait(loaded)
      for i = 0, size - 1 do
        tc.copy_smem_to_gmem(smem[slot][i], out:tile({ group * size + i, 0 }, { 16, 64 }),
          { commit_group = i == size - 1 })
      end
    end
    tc.wait_smem_to_gmem(0)
  end)
end

return pallas

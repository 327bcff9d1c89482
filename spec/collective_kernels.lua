-- Matmuls of pairs of CTAs: half of A's rows and half of B's columns lie in each, one of them issues.
local tc = require "tcmma"

local collective = {}

local pair = { cluster = { 2 }, cluster_names = { "cta" } }

local function tile_of(ref, index, shape, axis, cta)
  local at = { index[1], index[2] }
  at[axis + 1] = at[axis + 1] * 2 + cta
  return ref:tile(at, shape)
end

-- Copies `ref`'s tile of the pair, divided along `axis`, into this CTA's `smem`; copies = "own": the
-- barrier is this CTA's, else the leader's counts both parts.
local function load(o, ref, index, smem, shape, axis, cta, barrier)
  if o.copies == "own" then
    tc.copy_gmem_to_smem(tile_of(ref, index, shape, axis, cta), smem, barrier)
  else
    local whole = { shape[1], shape[2] }
    whole[axis + 1] = 2 * whole[axis + 1]
    tc.copy_gmem_to_smem(ref:tile(index, whole), smem, barrier,
      { collective_axes = "cta", leader_tracked = "partitioned", partition_axis = axis })
  end
end

-- One output tile a cluster; roles load, issue and store.
-- o: rows (of a CTA, 64 or 128), n (columns of both), steps, stages, tk, dtype, acc, copies, swizzle.
function collective.matmul(o)
  local TM, TN, TK, stages, steps = o.rows or 128, o.n or 256, o.tk or 64, o.stages or 2, o.steps or 3
  local dtype, acc_dtype = o.dtype or tc.float16, o.acc or tc.float32
  local across, down = o.across or 1, o.down or 1
  local a_shape = o.a_transposed and { TK, TM } or { TM, TK }
  local b_shape = o.b_transposed and { TN // 2, TK } or { TK, TN // 2 }
  local M, N, K = 2 * TM * down, TN * across, TK * steps
  return tc.kernel{
    name = "pair_matmul", cluster = pair.cluster, cluster_names = pair.cluster_names,
    grid = { down, across }, grid_names = { "m", "n" }, target = o.target,
    args = { tc.gmem(o.a_transposed and { K, M } or { M, K }, dtype),
             tc.gmem(o.b_transposed and { N, K } or { K, N }, dtype), tc.gmem({ M, N }, acc_dtype) },
    body = function(a, b, out)
      local m, n, cta = tc.axis_index "m", tc.axis_index "n", tc.axis_index "cta"
      local a_smem = tc.smem({ stages, a_shape[1], a_shape[2] }, dtype, { swizzle = o.swizzle })
      local b_smem = tc.smem({ stages, b_shape[1], b_shape[2] }, dtype, { swizzle = o.swizzle })
      local options = { collective = true }
      if acc_dtype ~= tc.float32 and acc_dtype ~= tc.int32 then options.packed = false end
      local acc = tc.tmem({ TM, TN }, acc_dtype, options)
      local loaded = tc.barrier{ num_arrivals = 2, num_barriers = stages, name = "loaded" }
      local there = o.copies == "own" and tc.cluster_barrier{ collective_axes = "cta", num_barriers = stages,
        leader_tracked = true, name = "there" }
      local consumed = tc.barrier{ num_barriers = stages, orders_tensor_core = true, name = "consumed" }
      local done = tc.barrier{ orders_tensor_core = true, name = "done" }
      tc.role{ name = "load", warps = o.load_warps or 1 }(function()
        tc.range(steps, function(k)
          local s = k % stages
          tc.when(k:ge(stages), function() tc.barrier_wait(consumed[s]) end)
          load(o, a, o.a_transposed and { k, m } or { m, k }, a_smem[s], a_shape, o.a_transposed and 1 or 0, cta,
            loaded[s])
          load(o, b, o.b_transposed and { n, k } or { k, n }, b_smem[s], b_shape, o.b_transposed and 0 or 1, cta,
            loaded[s])
        end)
      end)
      if there then
        tc.role{ name = "tell", warps = 1 }(function()
          tc.range(steps, function(k)
            tc.barrier_wait(loaded[k % stages])
            tc.barrier_arrive(there[k % stages])
          end)
        end)
      end
      tc.role{ name = "mma", warps = o.mma_warps or 1 }(function()
        tc.when(cta:eq(0), function()
          tc.range(steps, function(k)
            local s = k % stages
            tc.barrier_wait((there or loaded)[s])
            tc.mma(acc, o.a_transposed and a_smem[s]:T() or a_smem[s], o.b_transposed and b_smem[s]:T() or b_smem[s],
              { barrier = consumed[s], accumulate = k:gt(0), collective_axis = "cta" })
          end)
          tc.commit_arrive(done, { collective_axis = "cta" })
        end)
      end)
      tc.role{ name = "store", warpgroups = o.warpgroups or 1 }(function()
        tc.barrier_wait(done)
        local mine = out:tile({ m * 2 + cta, n }, { TM, TN })
        local width = TM == 64 and TN or math.min(64, TN)
        for c = 0, TN - 1, width do
          local columns = tc.ds(c, math.min(width, TN - c))
          mine:at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
        end
      end)
    end,
  }
end

-- Clusters walk over the tiles of a product of any M, N, K; two accumulators take turns.
-- o: rows, n, tk, stages, clusters, dtype, m, k and cols of the product, tracked (the release's barrier);
-- dynamic: clusters take over the tiles of those that have not started.
function collective.persistent(o)
  local TM, TN, TK, stages = o.rows or 128, o.n or 256, o.tk or 64, o.stages or 3
  local dtype = o.dtype or tc.bfloat16
  local across, steps = tc.cdiv(o.cols, TN), tc.cdiv(o.k, TK)
  local tiles, piece = tc.cdiv(o.m, 2 * TM) * across, TM == 64 and TN or math.min(64, TN)
  return tc.kernel{
    name = "pair_persistent", cluster = pair.cluster, cluster_names = pair.cluster_names,
    grid = o.dynamic and { tiles // across, across } or { o.clusters }, target = o.target,
    grid_names = o.dynamic and { "m", "n" } or { "pair" },
    args = { tc.gmem({ o.m, o.k }, dtype), tc.gmem({ o.k, o.cols }, dtype), tc.gmem({ o.m, o.cols }, tc.float32) },
    body = function(a, b, out)
      local cta = tc.axis_index "cta"
      local a_smem, b_smem = tc.smem({ stages, TM, TK }, dtype), tc.smem({ stages, TK, TN // 2 }, dtype)
      local acc = tc.tmem({ 2, TM, TN }, tc.float32, { collective = true })
      local out_smem = tc.smem({ TM, piece }, tc.float32)
      local loaded = tc.barrier{ num_arrivals = 2, num_barriers = stages, name = "loaded" }
      local consumed = tc.barrier{ num_barriers = stages, orders_tensor_core = true, name = "consumed" }
      local done = tc.barrier{ num_barriers = 2, orders_tensor_core = true, name = "done" }
      local read = (o.read or tc.cluster_barrier){ num_barriers = 2, orders_tensor_core = true, name = "read",
        collective_axes = not o.read and "cta" or nil, leader_tracked = o.tracked }
      local loader, issue = tc.role{ name = "load", warps = 1 }, tc.role{ name = "mma", warps = 1 }
      local store = tc.role{ name = "store", warpgroups = 1 }
      local function each_tile(body)
        if o.dynamic then
          return tc.dynamic_scheduling_loop({ "m", "n" }, function(info)
            body(info.index[1], info.index[2], info.local_index)
          end, { cluster_axes = "cta" })
        end
        local first = tc.axis_index "pair"
        tc.range(first, tiles, o.clusters, function(t) body(t // across, t % across, (t - first) // o.clusters) end)
      end
      each_tile(function(m, n, turn)
        local slot = turn % 2
        loader(function()
          tc.range(steps, function(k)
            local at = turn * steps + k
            local s = at % stages
            tc.when(at:ge(stages), function() tc.barrier_wait(consumed[s]) end)
            load(o, a, { m, k }, a_smem[s], { TM, TK }, 0, cta, loaded[s])
            load(o, b, { k, n }, b_smem[s], { TK, TN // 2 }, 1, cta, loaded[s])
          end)
        end)
        issue(function()
          tc.when(cta:eq(0), function()
            tc.when(turn:ge(2), function() tc.barrier_wait(read[slot]) end)
            tc.range(steps, function(k)
              local s = (turn * steps + k) % stages
              tc.barrier_wait(loaded[s])
              tc.mma(acc[slot], a_smem[s], b_smem[s],
                { barrier = consumed[s], accumulate = k:gt(0), collective_axis = "cta" })
            end)
            tc.commit_arrive(done[slot], { collective_axis = "cta" })
          end)
        end)
        store(function()
          tc.barrier_wait(done[slot])
          for c = 0, TN - 1, piece do
            local tile = tc.async_load_tmem(acc[slot]:at(tc.all, tc.ds(c, piece)))
            tc.wait_smem_to_gmem(0, { wait_read_only = true })
            out_smem:store(tile)
            tc.commit_smem()
            tc.copy_smem_to_gmem(out_smem, out:tile({ m * 2 + cta, n * (TN // piece) + c // piece }, { TM, piece }))
          end
          tc.barrier_arrive(read[slot])
        end)
      end)
    end,
  }
end

-- Tensor memory for A's rows of one CTA of a pair.
function collective.operand_in_tmem(rows, k, dtype, padded)
  local options = { collective = true, padded = padded }
  if rows == 64 then
    options.layout = "m64_collective_a"
  elseif not padded and dtype.bits < 32 then
    options.packed = true
  end
  return tc.tmem({ rows, k }, dtype, options)
end

-- A through tensor memory: each CTA puts its rows there, by its threads or by tcgen05.cp of the pair.
-- o: rows, n, k, dtype; parts: of K, a tc.mma each; threads, twice: they write it, or A + A; warpgroups;
-- b_transposed: B is stored (N, K).
function collective.a_in_tmem(o)
  local TM, TN, K, dtype = o.rows or 128, o.n or 128, o.k or 64, o.dtype or tc.float16
  return tc.kernel{
    name = "pair_a_tmem", cluster = pair.cluster, cluster_names = pair.cluster_names,
    args = { tc.gmem({ 2 * TM, K }, dtype), tc.gmem(o.b_transposed and { TN, K } or { K, TN }, dtype),
             tc.gmem({ 2 * TM, TN }, tc.float32) },
    body = function(a, b, out)
      local cta, parts = tc.axis_index "cta", o.parts or 1
      local b_shape = o.b_transposed and { TN // 2, K } or { K, TN // 2 }
      local a_smem, b_smem = tc.smem({ TM, K }, dtype), tc.smem(b_shape, dtype)
      local a_tmem = collective.operand_in_tmem(TM, K, dtype)
      local acc = tc.tmem({ TM, TN }, tc.float32, { collective = true })
      local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
      local there = tc.cluster_barrier{ collective_axes = "cta", leader_tracked = o.tracked, orders_tensor_core = true }
      local function work()
        tc.copy_gmem_to_smem(a:tile({ cta, 0 }, { TM, K }), a_smem, loaded)
        tc.copy_gmem_to_smem(b:tile(o.b_transposed and { cta, 0 } or { 0, cta }, b_shape), b_smem, loaded)
        tc.barrier_wait(loaded)
        if o.threads then
          local tile = a_smem:load()
          tc.async_store_tmem(a_tmem, o.twice and tile + tile or tile)
          tc.commit_tmem()
        end
        tc.barrier_arrive(there)
        tc.when(cta:eq(0), function()
          tc.barrier_wait(there)
          if not o.threads then tc.async_copy_smem_to_tmem(a_smem, a_tmem, { collective_axis = "cta" }) end
          for part = 0, parts - 1 do
            local columns = tc.ds(part * (K // parts), K // parts)
            local right = o.b_transposed and b_smem:at(tc.all, columns):T() or b_smem:at(columns, tc.all)
            tc.mma(acc, a_tmem:at(tc.all, columns), right, { accumulate = part > 0, collective_axis = "cta" })
          end
          tc.commit_arrive(done, { collective_axis = "cta" })
        end)
        tc.barrier_wait(done)
        local width = TM == 64 and TN or 64
        for c = 0, TN - 1, width do
          local columns = tc.ds(c, math.min(width, TN - c))
          out:tile({ cta, 0 }, { TM, TN }):at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
        end
      end
      if o.warpgroups then tc.role{ name = "all", warpgroups = o.warpgroups }(work) else work() end
    end,
  }
end

-- One tile of any kind: everything that an MMA of two CTAs takes is loaded at once, and the leader
-- alone waits for it.  o: rows (of a CTA), n, k; a, b, d: dtypes; a_transposed, b_transposed: stored
-- (K, M), (N, K); a_swizzle, b_swizzle; padded: 4-bit elements in bytes; a_tmem: A goes through tensor
-- memory; scale, block; sparse: 4-bit entries for so many elements of K (metadata).
function collective.tile(o)
  local TM, TN, K = o.rows or 128, o.n, o.k
  local half = { m = TM, n = TN // 2, k = o.sparse and K // 2 or K }
  local a_shape = o.a_transposed and { half.k, TM } or { TM, half.k }
  local b_shape = o.b_transposed and { half.n, K } or { K, half.n }
  local blocks = o.scale and K // o.block
  local b_scales_shape = o.scale
    and (TM == 64 and { 1, blocks // 4, 64, 16 } or { (TN + 127) // 128, blocks // 4, 32, 16 })
  local function doubled(shape, axis)
    local whole = { table.unpack(shape) }
    whole[axis + 1] = 2 * whole[axis + 1]
    return whole
  end
  local a_axis, b_axis = o.a_transposed and 1 or 0, o.b_transposed and 0 or 1
  local args = { tc.gmem(doubled(a_shape, a_axis), o.a), tc.gmem(doubled(b_shape, b_axis), o.b),
                 tc.gmem({ 2 * TM, TN }, o.d) }
  if o.scale then
    args[#args + 1] = tc.gmem({ 2, blocks // 4, 32, 16 }, o.scale)
    args[#args + 1] = tc.gmem(b_scales_shape, o.scale)
  end
  if o.sparse then args[#args + 1] = tc.gmem({ 2, o.sparse // 64, 128, 64 }, tc.u2) end
  local function options(axis) -- none: the same in both CTAs
    return { collective_axes = "cta", leader_tracked = axis and "partitioned" or "replicated", partition_axis = axis }
  end
  local function padded(dtype) return o.padded and dtype == tc.e2m1 or nil end
  return tc.kernel{
    name = "pair_tile", cluster = pair.cluster, cluster_names = pair.cluster_names, target = o.target, args = args,
    body = function(a, b, out, ...)
      local more = { ... }
      local a_scales, b_scales = o.scale and more[1], o.scale and more[2]
      local metadata = o.sparse and more[o.scale and 3 or 1]
      local cta = tc.axis_index "cta"
      local a_smem = tc.smem(a_shape, o.a, { swizzle = o.a_swizzle, padded = padded(o.a) })
      local b_smem = tc.smem(b_shape, o.b, { swizzle = o.b_swizzle, padded = padded(o.b) })
      local narrow = o.d == tc.f16 and { packed = false, collective = true } or { collective = true }
      local acc = tc.tmem({ TM, TN }, o.d, narrow)
      local loaded = tc.barrier{ num_arrivals = 2 + #more, name = "loaded" }
      local done = tc.barrier{ orders_tensor_core = true, name = "done" }
      local extra, into = { accumulate = false, collective_axis = "cta" }, {}
      local function scales(array, name, layout, rows, axis)
        local shape = name == "a_scale" and { 1, blocks // 4, 32, 16 } or array.shape
        local plain = tc.smem(shape, o.scale, { swizzle = "none" })
        extra[name] = tc.tmem({ rows, blocks }, o.scale, { layout = layout, collective = true })
        tc.copy_gmem_to_smem(array, plain, loaded, options(axis))
        into[#into + 1] = function()
          tc.async_copy_scales_to_tmem(plain, extra[name], { collective_axis = "cta" })
        end
      end
      tc.copy_gmem_to_smem(a, a_smem, loaded, options(a_axis))
      tc.copy_gmem_to_smem(b, b_smem, loaded, options(b_axis))
      if o.scale then
        scales(a_scales, "a_scale", "scales", 128, 0)
        scales(b_scales, "b_scale", TM == 64 and "b_scales_m64_collective" or "scales",
          TM == 64 and 256 or (TN + 127) // 128 * 128)
      end
      if o.sparse then
        local plain = tc.smem({ 1, o.sparse // 64, 128, 64 }, tc.u2, { swizzle = "none" })
        extra.a_sparse_metadata = tc.tmem({ 128, o.sparse }, tc.u2, { layout = "sparse_metadata", collective = true })
        tc.copy_gmem_to_smem(metadata, plain, loaded, options(0))
        into[#into + 1] = function()
          tc.async_copy_sparse_metadata_to_tmem(plain, extra.a_sparse_metadata, { collective_axis = "cta" })
        end
      end
      local left = o.a_transposed and a_smem:T() or a_smem
      if o.a_tmem then
        left = collective.operand_in_tmem(TM, half.k, o.a, o.padded and o.a.bits < 8 or nil)
        into[#into + 1] = function() tc.async_copy_smem_to_tmem(a_smem, left, { collective_axis = "cta" }) end
      end
      tc.when(cta:eq(0), function()
        tc.barrier_wait(loaded)
        for _, copy in ipairs(into) do copy() end
        tc.mma(acc, left, o.b_transposed and b_smem:T() or b_smem, extra)
        tc.commit_arrive(done, { collective_axis = "cta" })
      end)
      tc.barrier_wait(done)
      local width = TM == 64 and TN or 64
      for c = 0, TN - 1, width do
        local columns = tc.ds(c, math.min(width, TN - c))
        out:tile({ cta, 0 }, { TM, TN }):at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
      end
    end,
  }
end

-- Operands that each CTA's threads write.  o.commit: to the async proxy; o.tell: to the other CTA.
function collective.written(o)
  return tc.kernel{
    name = "pair_written", cluster = pair.cluster, cluster_names = pair.cluster_names,
    args = { tc.gmem({ 256, 64 }, tc.float16), tc.gmem({ 64, 128 }, tc.float16), tc.gmem({ 256, 128 }, tc.float32) },
    body = function(a, b, out)
      local cta = tc.axis_index "cta"
      local a_smem, b_smem = tc.smem({ 128, 64 }, tc.float16), tc.smem({ 64, 64 }, tc.float16)
      local acc = tc.tmem({ 128, 128 }, tc.float32, { collective = true })
      local there, done = tc.cluster_barrier{ collective_axes = "cta", leader_tracked = true },
        tc.barrier{ orders_tensor_core = true }
      a_smem:store(a:tile({ cta, 0 }, { 128, 64 }):load())
      b_smem:store(b:tile({ 0, cta }, { 64, 64 }):load())
      if o.commit then tc.commit_smem() end
      if o.tell then tc.barrier_arrive(there) end
      tc.when(cta:eq(0), function()
        if o.tell then tc.barrier_wait(there) end
        tc.mma(acc, a_smem, b_smem, { accumulate = false, collective_axis = "cta" })
        tc.commit_arrive(done, { collective_axis = "cta" })
      end)
      tc.barrier_wait(done)
      for c = 0, 127, 64 do
        local columns = tc.ds(c, 64)
        out:tile({ cta, 0 }, { 128, 128 }):at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
      end
    end,
  }
end

-- Copies alone, tracked by the leader; it tells both CTAs, which store what they have.
function collective.tracked(o)
  local R, C, steps, stages = o.shape[1], o.shape[2], o.steps or 4, o.stages or 2
  local axis = o.axis
  local whole = { R, C }
  if axis then whole[axis + 1] = 2 * whole[axis + 1] end
  return tc.kernel{
    name = "tracked", cluster = pair.cluster, cluster_names = pair.cluster_names,
    args = { tc.gmem({ steps * whole[1], whole[2] }, o.dtype), tc.gmem({ 2, steps * R, C }, o.dtype) },
    body = function(a, out)
      local cta = tc.axis_index "cta"
      local smem = tc.smem({ stages, R, C }, o.dtype, { swizzle = o.swizzle })
      local loaded = tc.barrier{ num_barriers = stages, name = "loaded" }
      local told, freed = tc.barrier{ num_barriers = stages }, tc.cluster_barrier{ num_barriers = stages,
        collective_axes = "cta" }
      tc.role{ name = "load", warps = 1 }(function()
        tc.range(steps, function(i)
          local s = i % stages
          tc.when(i:ge(stages), function() tc.barrier_wait(freed[s]) end)
          tc.copy_gmem_to_smem(a:tile({ i, 0 }, whole), smem[s], loaded[s], { collective_axes = "cta",
            leader_tracked = axis and "partitioned" or "replicated", partition_axis = axis })
        end)
      end)
      tc.role{ name = "tell", warps = 1 }(function()
        tc.when(cta:eq(0), function()
          tc.range(steps, function(i)
            tc.barrier_wait(loaded[i % stages])
            tc.barrier_arrive(tc.cluster_ref(told[i % stages], 0))
            tc.barrier_arrive(tc.cluster_ref(told[i % stages], 1))
          end)
        end)
      end)
      tc.role{ name = "store", warpgroups = 1 }(function()
        tc.range(steps, function(i)
          local s = i % stages
          tc.barrier_wait(told[s])
          tc.copy_smem_to_gmem(smem[s], out[cta]:tile({ i, 0 }, { R, C }))
          tc.wait_smem_to_gmem(0, { wait_read_only = true })
          tc.barrier_arrive(freed[s])
        end)
      end)
    end,
  }
end

-- To collective tensor memory and back, through registers.  o: rows, columns, dtype, packed, warpgroups.
function collective.round_trip(o)
  local shape = { o.rows, o.columns }
  return tc.kernel{
    name = "round_trip", cluster = pair.cluster, cluster_names = pair.cluster_names,
    args = { tc.gmem({ 2 * o.rows, o.columns }, o.dtype), tc.gmem({ 2 * o.rows, o.columns }, o.dtype) },
    body = function(a, out)
      local at, tmem = { tc.axis_index "cta", 0 }, tc.tmem({ 2, o.rows, o.columns }, o.dtype,
        { packed = o.packed, collective = true })
      tc.role{ name = "both", warpgroups = o.warpgroups or 1 }(function()
        tc.async_store_tmem(tmem[1], a:tile(at, shape):load())
        tc.commit_tmem()
        out:tile(at, shape):store(tc.async_load_tmem(tmem[1]))
      end)
    end,
  }
end

-- Sums over the CTAs along `axis` of a cluster ("y" or "x"), in the first one, which alone is told.
function collective.sum(o)
  local R, C, sizes = 64, 32, { y = o.cluster[1], x = o.cluster[2] }
  local size, other = sizes[o.axis], o.axis == "y" and "x" or "y"
  return tc.kernel{
    name = "sum", cluster = o.cluster, cluster_names = { "y", "x" },
    args = { tc.gmem({ sizes.y, sizes.x, R, C }, tc.float32), tc.gmem({ sizes[other], R, C }, tc.float32) },
    body = function(parts, out)
      local y, x = tc.axis_index "y", tc.axis_index "x"
      local mine, across = o.axis == "y" and y or x, o.axis == "y" and x or y
      local leader = o.axis == "y" and x or y * sizes.x -- its rank
      local others = tc.smem({ size, R, C }, tc.float32)
      local told = tc.cluster_barrier{ collective_axes = o.axis, leader_tracked = true }
      tc.cluster_ref(others, leader)[mine]:store(parts[y][x]:load())
      tc.barrier_arrive(told)
      tc.when(mine:eq(0), function()
        tc.barrier_wait(told)
        local sum = others[0]:load()
        for i = 1, size - 1 do sum = sum + others[i]:load() end
        out[across]:store(sum)
      end)
    end,
  }
end

return collective
